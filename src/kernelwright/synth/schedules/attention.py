"""Attention forward: softmax(q k' * scale + mask) v with a running maximum and sum (Dao et al., 2022).

One program takes a tile of queries of one head and loops over the keys. Under a causal mask it stops at the diagonal, and only
tiles on the diagonal compare positions. There may be fewer heads of keys than of queries. A single query (a step of decoding) is
multiplied by sums. Forward only.
"""

from __future__ import annotations

from kernelwright.synth.emitter import TL, Coordinates, Emitter, Guards, Term, emit_value, input_precision
from kernelwright.synth.index import Base, Index, split_index
from kernelwright.synth.primitives import Prim, Unsupported, Val
from kernelwright.synth.program import AttentionSchedule
from kernelwright.synth.sizes import ONE, product
from kernelwright.synth.source import Source

_LOG2E = 1.4426950408889634
_NAMES = ("batch", "head", "m", "n", "d", "e", "in_m", "in_n", "in_d", "in_e", "start", "scores", "peak", "total", "acc",
          "powers", "shrink", "new_peak", "last", "whole", "tile_m", "head_kv")  # fmt: skip


def attention_of(source: Source) -> Prim:
    """The graph's only attention. Raises Unsupported."""
    prim = source.only("attention", "attention")
    if len(prim.args[0].shape) != 4:
        raise Unsupported("attention over tensors of other than four dimensions")
    return prim


class AttentionPrinter:
    """One kernel over queries."""

    def __init__(self, source: Source, schedule: AttentionSchedule) -> None:
        self.source, self.schedule, self.prim = source, schedule, attention_of(source)
        shapes = source.shapes
        self.q, self.k, self.v = self.prim.args[:3]
        self.mask: Val | None = self.prim.args[3] if len(self.prim.args) > 3 else None
        self.heads = shapes.of[self.q.name][:2]
        self.queries, self.width = shapes.of[self.q.name][2:]
        self.keys, self.values = shapes.of[self.v.name][2:]
        self.kv_heads = shapes.of[self.k.name][1]
        self.emitter: Emitter = source.emitter()
        self.emitter.names |= set(_NAMES)
        self.causal: bool = self.prim.attr("causal")
        self.scale: float | None = self.prim.attr("scale")
        self.single = self.queries == ONE
        m_base = Base("m[:, None]", self.queries, frozenset({0}), ("in_m[:, None]",))
        self.m_index = Index() if self.single else Index.whole(m_base)
        self.e_base = Base("e[None, :]", self.values, frozenset({1}), ("in_e[None, :]",))
        self.emitter.given[self.prim.out.name] = self._accumulate
        self.descriptors = schedule.loads == "descriptor"
        plain = {one.name for one in source.lowered.arguments}
        if self.descriptors and not {self.q.name, self.k.name, self.v.name} <= plain:
            raise Unsupported("descriptors of operands that are computed")
        if self.descriptors and self.single:
            raise Unsupported("descriptors of a single query")
        if self.descriptors and self.kv_heads != self.heads[1]:
            raise Unsupported("descriptors of fewer heads of keys than of queries")

    @property
    def axes(self) -> tuple[int, int]:
        """The grid's axes of tiles and of heads."""
        return (1, 0) if self.schedule.first == "heads" else (0, 1)

    @property
    def folded(self) -> bool:
        """Whether the scale is applied in the exponent, which saves a product for each score: if it leaves their order."""
        return (self.scale is None or self.scale > 0) and (self.mask is None or self.mask.dtype == "bool")

    @property
    def tile(self) -> tuple[int, int]:
        """Queries and keys of a tile."""
        m, n = self.schedule.tile
        return 1 if self.single else m, n

    def head_coordinates(self) -> tuple[Index, ...]:
        return split_index(Base("batch", product(self.heads)), self.heads)

    def own_coordinates(self) -> Coordinates:
        """Coordinates of a program's results: its head, its queries, the accumulated values."""
        return (*self.head_coordinates(), self.m_index, Index.whole(self.e_base))

    def kv_coordinates(self) -> tuple[Index, ...]:
        """Coordinates of keys and values: several heads of queries may share one of theirs."""
        batch, head = self.head_coordinates()
        if self.kv_heads == self.heads[1]:
            return batch, head
        if self.kv_heads.constant == 1:
            return batch, Index()
        return batch, Index.whole(Base("head_kv", self.kv_heads))

    def _accumulate(self, coordinates: Coordinates, guard: Guards) -> Term:
        return emit_value("acc", coordinates, self.own_coordinates(), "attention")

    def _tile(self, value: Val, coordinates: Coordinates) -> str:
        term = self.emitter.value(value, self.emitter.broadcast(value, coordinates), raw=True)
        return self.emitter.cast(term, value.dtype).text

    def begin(self) -> None:
        """Positions, the tile of queries, and the initial running values."""
        emitter = self.emitter
        emitter.line(f"tile_m, batch = tl.program_id({self.axes[0]}), tl.program_id({self.axes[1]})")
        if self.schedule.first != "short":
            emitter.line(f"tile_m = tl.num_programs({self.axes[0]}) - 1 - tile_m")
        if self.kv_heads != self.heads[1] and self.kv_heads.constant != 1:
            heads = emitter.size(self.heads[1], True)
            emitter.line(f"head_kv = batch % {heads} // ({heads} // {emitter.size(self.kv_heads, True)})")
        if self.causal or not self.single:
            emitter.line("m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)")
        emitter.line("d = tl.arange(0, BLOCK_D)")
        emitter.line("e = tl.arange(0, BLOCK_E)" if self.width != self.values else "e = d")
        if not self.single:
            emitter.line(f"in_m = m < {emitter.size(self.queries)}")
        emitter.line(f"in_d = (d < {emitter.size(self.width)}) | EVEN_D")
        emitter.line(
            f"in_e = (e < {emitter.size(self.values)}) | EVEN_E"
            if self.width != self.values
            else "in_e = in_d"
        )
        d = Base("d[None, :]", self.width, frozenset({1}), ("in_d[None, :]",))
        self._load("q", self.q, (*self.head_coordinates(), self.m_index, Index.whole(d)),
                   f"batch * {emitter.size(self.queries, True)} + tile_m * BLOCK_M")  # fmt: skip
        emitter.line('peak = tl.full((BLOCK_M,), float("-inf"), tl.float32)')
        emitter.line("total = tl.zeros((BLOCK_M,), dtype=tl.float32)")
        emitter.line(
            f"acc = tl.zeros((BLOCK_M, {'BLOCK_D' if self.width == self.values else 'BLOCK_E'}), dtype=tl.float32)"
        )

    def _load(self, name: str, value: Val, coordinates: Coordinates, row: str) -> None:
        """Emit lines that load a tile as `name`."""
        emitter = self.emitter
        if not self.descriptors:
            text = self._tile(value, coordinates)
            if text != name:
                emitter.line(f"{name} = {text}")
            return
        with emitter.otherwise("DESCRIPTORS", f"{name} = {value.name}_desc.load([{row}, 0])"):
            emitter.line(f"{name} = {self._tile(value, coordinates)}")

    def walk(self, loop: str, low: str, high: str, diagonal: bool) -> None:
        """One loop over keys; with `diagonal`, keys after the query are masked."""
        emitter, loops = self.emitter, frozenset({loop})
        keys = emitter.size(self.keys)
        emitter.open(loop, f"for start in tl.range({low}, {high}, BLOCK_N):")
        emitter.line("n = start + tl.arange(0, BLOCK_N)")
        emitter.line(f"in_n = (n < {keys}) | EVEN_N")
        row = f"batch * {emitter.size(self.keys, True)} + start"
        d = Base("d[:, None]", self.width, frozenset({0}), ("in_d[:, None]",))
        if self.descriptors:
            d = Base("d[None, :]", self.width, frozenset({1}), ("in_d[None, :]",))
            n = Base("n[:, None]", self.keys, frozenset({0}), ("in_n[:, None]",), loops)
        else:
            n = Base("n[None, :]", self.keys, frozenset({1}), ("in_n[None, :]",), loops)
        self._load("k", self.k, (*self.kv_coordinates(), Index.whole(n), Index.whole(d)), row)
        precision = input_precision(self.q.dtype, self.schedule.precision)
        later, now = (" * SCALE", "") if self.folded else ("", " * SCALE")
        if self.single:
            emitter.line(f"scores = tl.sum(q.to(tl.float32).T * k, axis=0)[None, :]{now}")
        else:
            emitter.line(f"scores = tl.dot(q, {'k.T' if self.descriptors else 'k'}{precision}){now}")
        column = Base("n[None, :]", self.keys, frozenset({1}), ("in_n[None, :]",), loops)
        allowed = ["in_n[None, :]"]
        if self.mask is not None:
            term = emitter.value(
                self.mask,
                emitter.broadcast(self.mask, (*self.head_coordinates(), self.m_index, Index.whole(column))),
            )
            if self.mask.dtype == "bool":
                allowed.append(term.text)
            else:
                emitter.line(f"scores += {emitter.cast(term, 'float32').text} * {_LOG2E!r}")
        if diagonal:
            allowed.append("(m[:, None] >= n[None, :])")
        emitter.line(f'scores = tl.where({" & ".join(allowed)}, scores, float("-inf"))')
        emitter.line(f"new_peak = tl.maximum(peak, tl.max(scores, axis=1){later})")
        guarded = "new_peak"
        if self.mask is not None:
            emitter.line('safe_peak = tl.where(new_peak == float("-inf"), 0.0, new_peak)')
            guarded = "safe_peak"
        emitter.line(f"powers = tl.exp2(scores{later} - {guarded}[:, None])")
        emitter.line(f"shrink = tl.exp2(peak - {guarded})")
        emitter.line("total = total * shrink + tl.sum(powers, axis=1)")
        emitter.line("acc = acc * shrink[:, None]")
        n_rows = Base("n[:, None]", self.keys, frozenset({0}), ("in_n[:, None]",), loops)
        self._load("v", self.v, (*self.kv_coordinates(), Index.whole(n_rows), Index.whole(self.e_base)), row)
        if self.single:
            emitter.line("acc += tl.sum(powers.T * v, axis=0)[None, :]")
        else:
            emitter.line(f"acc = tl.dot(powers.to({TL[self.v.dtype]}), v, acc{precision})")
        emitter.line("peak = new_peak")
        emitter.close()

    def finish(self) -> None:
        """Divide by the sum, apply the maps after it, and store."""
        # As in PyTorch, a query that sees no key gets 0.
        sees = self.mask is None and self.keys == self.queries
        total = "total" if sees else "tl.where(total == 0.0, 1.0, total)"
        self.emitter.line(f"acc = acc / {total}[:, None]")
        self.source.store(self.emitter, self.prim.out, self.own_coordinates(), "the attention")

    def constants(self) -> dict[str, str]:
        """Host values of the kernel's constants."""
        source, (m, n) = self.source, self.tile
        d, e, keys = (source.size(one, True) for one in (self.width, self.values, self.keys))
        found = {"BLOCK_M": str(m), "BLOCK_N": str(n), "BLOCK_D": f"max(triton.next_power_of_2({d}), 16)",
                 "EVEN_N": f"{keys} % {n} == 0", "EVEN_D": f"{d} == max(triton.next_power_of_2({d}), 16)"}  # fmt: skip
        if self.width != self.values:
            found |= {
                "BLOCK_E": f"max(triton.next_power_of_2({e}), 16)",
                "EVEN_E": f"{e} == max(triton.next_power_of_2({e}), 16)",
            }
        found["SCALE"] = f"{_LOG2E} * {d} ** -0.5" if self.scale is None else repr(self.scale * _LOG2E)
        if self.descriptors:
            found["DESCRIPTORS"] = "aligned"
        return found


def print_attention(source: Source, schedule: AttentionSchedule) -> None:
    """Raises Unsupported if attention does not fit the graph."""
    printer = AttentionPrinter(source, schedule)
    emitter = printer.emitter
    printer.begin()
    keys = emitter.size(printer.keys)
    if printer.causal:
        emitter.line("whole = tile_m * BLOCK_M // BLOCK_N * BLOCK_N")
        emitter.line(f"whole = tl.minimum(whole, {keys} // BLOCK_N * BLOCK_N)")
        emitter.line(f"last = tl.minimum((tile_m + 1) * BLOCK_M, {keys})")
        printer.walk("before", "0", "whole", False)
        printer.walk("diagonal", "whole", "last", True)
    else:
        printer.walk("keys", "0", keys, False)
    printer.finish()
    (m, n), given = printer.tile, dict[str, str]()
    queries = source.size(printer.queries, True)
    if printer.descriptors:
        given = _host_descriptors(source, printer, m, n)
    sizes = (f"triton.cdiv({queries}, {m})", source.size(product(printer.heads)))
    grid = f"({sizes[printer.axes[0]]}, {sizes[printer.axes[1]]})"
    options = f"num_warps={schedule.warps}, num_stages={schedule.stages}"
    source.kernel(emitter, printer.constants(), grid, options, given=given)


def _host_descriptors(source: Source, printer: AttentionPrinter, m: int, n: int) -> dict[str, str]:
    """Host lines that create descriptors if tiles end with heads; returns the arguments for the parameters."""
    queries, keys, d, e = (
        source.size(one, True) for one in (printer.queries, printer.keys, printer.width, printer.values)
    )
    power = "triton.next_power_of_2"
    aligned = f"{queries} % {m} == 0 and {keys} % {n} == 0"
    aligned += f" and {d} == max({power}({d}), 16) and {e} == max({power}({e}), 16)"
    made = {}
    for one, rows, width in ((printer.q.name, m, d), (printer.k.name, n, d), (printer.v.name, n, e)):
        plain = source.hosted(one)
        text = f"TensorDescriptor.from_tensor({plain}.view(-1, {width}), [{rows}, {width}])"
        made[f"{one}_desc"] = (plain, text)
    return source.hand_over(aligned, made)
