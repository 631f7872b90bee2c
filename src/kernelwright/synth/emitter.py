"""Emits the body of one kernel: computes values of a graph at given coordinates, each once, from loads of arguments.

A schedule decides a kernel's variables (`Base`) and what it computes first; the emitter derives everything between arguments and
results through elementwise rules, moves, gathers and windows, in the innermost loop that a value needs. It does not handle
launches, grids or output strides.
"""

from __future__ import annotations

import builtins
import dataclasses
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kernelwright.precision import FLOATS, HALF
from kernelwright.synth.index import Base, Index, flatten, match_reshape, split
from kernelwright.synth.lowering import Lowered
from kernelwright.synth.pointwise import RULES
from kernelwright.synth.primitives import Prim, Unsupported, Val, promote, wide
from kernelwright.synth.shapes import Shapes
from kernelwright.synth.sizes import ONE, ZERO, Size, Varying, contiguous_strides, product

Coordinates = tuple[Index, ...]
TL = {
    "float64": "tl.float64", "float32": "tl.float32", "float16": "tl.float16", "bfloat16": "tl.bfloat16",
    "int64": "tl.int64", "int32": "tl.int32", "int16": "tl.int16", "int8": "tl.int8", "uint8": "tl.uint8",
    "bool": "tl.int1",
}  # fmt: skip


_MOVES = ("alias", "view", "permute", "expand", "slice", "flip")
_RESERVED = ("tl", "triton", "torch", "libdevice", "kernel")
_PLAIN = {"sum": "total", "max": "peak", "amax": "peak", "min": "least", "amin": "least", "abs": "size", "pow": "power",
          "all": "every", "any": "some", "round": "rounded", "iota": "place"}  # fmt: skip
"""Variable names for operators whose own names would shadow Python's."""
_MOST_NAMES = 2_000
"""Most names in a kernel. A value that is read at several places is computed at each: n shifts of shifts make 2^n values."""


@dataclasses.dataclass(frozen=True)
class Guard:
    """A condition under which a value is needed, as a variable."""

    text: str
    axes: frozenset[int]
    loops: frozenset[str]


Guards = tuple[Guard, ...]


@dataclasses.dataclass(frozen=True)
class Term:
    """A value in the kernel: a variable or a literal."""

    text: str
    dtype: str
    axes: frozenset[int] = frozenset()
    loops: frozenset[str] = frozenset()
    masks: tuple[str, ...] = ()
    zero: bool = False
    """Whether out-of-bounds lanes hold 0."""


class Scope:
    """The lines of a kernel, or of one loop in it."""

    def __init__(self, loop: str = "", depth: int = 1) -> None:
        self.loop, self.depth = loop, depth
        self.lines: list[str] = []
        self.memo: dict[Any, Term] = {}

    def add(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)


class Emitter:
    """One kernel under construction.

    `given`: functions of coordinates for values that the schedule computes itself (such as an accumulator), by name. `reduce` is
    called for reductions and scans.
    """

    def __init__(self, lowered: Lowered, shapes: Shapes) -> None:
        self.lowered, self.shapes = lowered, shapes
        self.made: dict[str, Prim] = {prim.out.name: prim for prim in lowered.prims}
        self.arguments = {one.name: one for one in lowered.arguments}
        self.scopes = [Scope()]
        self.pointers: dict[str, str] = {}
        self.sizes: set[str] = set()
        self._made_from: dict[str, frozenset[str]] = {}
        self.compound: dict[str, tuple[str, ...]] = {}
        """Parameters that are products of sizes."""
        self.libdevice = False
        self.given: dict[str, Callable[[Coordinates, Guards], Term]] = {}
        self.reduce: Callable[[Prim, Coordinates, Guards], Term] | None = None
        self.names: set[str] = {*_RESERVED, *dir(builtins), *shapes.symbols}
        self.rounded = frozenset(self._rounded_products())
        """Products that no instruction may contract."""

    def _rounded_products(self) -> Iterator[str]:
        """Products x * y in exp(x * y - peak), as in a softmax: against the peak, which was rounded, an exact product is off by as
        much as its last digit is worth, and above 10^9 that overflows."""
        for prim in self.made.values():
            gap = self.made.get(prim.reads()[0].name) if prim.op == "exp" else None
            if gap is None or gap.op != "sub" or not isinstance(gap.args[0], Val):
                continue
            source = self.made.get(gap.args[0].name)
            while source is not None and source.op in _MOVES:
                source = self.made.get(source.reads()[0].name)
            if source is not None and source.op == "mul" and len(source.reads()) == 2:
                yield source.out.name

    # -- text -------------------------------------------------------------------------------------------------

    def name(self, wanted: str) -> str:
        """A variable name that is not yet used in the kernel."""
        wanted = name = _PLAIN.get(wanted, wanted)
        number = 1
        while name in self.names:
            name, number = f"{wanted}_{number}", number + 1
        self.names.add(name)
        return name

    def size(self, size: Size, tight: bool = False) -> str:
        """A size as text. Products of symbols become separate parameters, so that the compiler sees their divisors."""
        terms: dict[tuple[str, ...], int] = {}
        for names, factor in size.terms:
            if len(names) > 1:
                name = "".join(names)
                self.compound[name] = names
                self.names.add(name)
                terms[name,] = factor
            else:
                self.sizes.update(names)
                terms[names] = factor
        return Size(terms).text(tight)

    def text(self, index: Index) -> str:
        """An index as text."""
        return index.text(lambda size: self.size(size, tight=True))

    @property
    def root(self) -> Scope:
        return self.scopes[0]

    def line(self, text: str) -> None:
        """Add a line to the innermost open loop."""
        self.scopes[-1].add(text)

    def scope_of(self, loops: frozenset[str]) -> Scope:
        """The innermost open scope that a value depending on these loops needs."""
        for scope in reversed(self.scopes):
            if scope.loop in loops:
                return scope
        return self.root

    def open(self, loop: str, header: str) -> None:
        """Open a loop inside the innermost one."""
        scope = Scope(loop, self.scopes[-1].depth + 1)
        scope.lines.append("    " * self.scopes[-1].depth + header)
        self.scopes.append(scope)

    def close(self) -> None:
        """Close the innermost loop and insert its lines where it was opened."""
        scope = self.scopes.pop()
        self.scopes[-1].lines.extend(scope.lines)

    def close_loop(self) -> None:
        """Close the innermost loop and append its lines to the kernel's."""
        scope = self.scopes.pop()
        self.scopes[0].lines.extend(scope.lines)

    @contextmanager
    def otherwise(self, test: str, *lines: str) -> Iterator[None]:
        """Add `if test:` with these lines; the block's lines become its `else:`."""
        self.line(f"if {test}:")
        for line in lines:
            self.line(f"    {line}")
        self.line("else:")
        self.scopes[-1].depth += 1
        yield
        self.scopes[-1].depth -= 1

    # -- values -----------------------------------------------------------------------------------------------

    def value(self, value: Val, coordinates: Coordinates, guard: Guards = (), raw: bool = False) -> Term:
        """A value at coordinates, one per dimension. `raw`: do not convert a loaded half-precision float."""
        key = (value.name, coordinates, guard, raw)
        return self._once(key, lambda: self._value(value, coordinates, guard, raw))

    def _once(self, key: Any, make: Callable[[], Term]) -> Term:
        """The term that an open scope has for a key; otherwise make it and keep it in the scope it needs."""
        for scope in reversed(self.scopes):
            if key in scope.memo:
                return scope.memo[key]
        term = make()
        self.scope_of(term.loops).memo[key] = term
        return term

    def _value(self, value: Val, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        if value.name in self.given:
            return self.given[value.name](coordinates, guard)
        if value.name in self.arguments:
            return self._load(value, coordinates, guard, raw)
        prim = self.made[value.name]
        if prim.op == "alias" and isinstance(prim.args[0], Val):
            source = prim.args[0]
            if raw and source.dtype == value.dtype:
                return self.value(source, coordinates, guard, raw)
            return self.cast(self.value(source, coordinates, guard), wide(value.dtype))
        rule = getattr(self, f"_emit_{prim.op}", None)
        if rule is not None:
            term: Term = rule(prim, coordinates, guard, raw)
            return term
        if prim.op in RULES:
            return self._pointwise(prim, coordinates, guard)
        if self.reduce is not None:
            return self.reduce(prim, coordinates, guard)
        raise Unsupported(f"{prim.op} inside this schedule")

    def assign(self, name: str, text: str, dtype: str, parts: list[Term], zero: bool = False) -> Term:
        """Assign a new variable in the scope that its parts need."""
        axes = frozenset().union(*(one.axes for one in parts)) if parts else frozenset()
        loops = frozenset().union(*(one.loops for one in parts)) if parts else frozenset()
        masks = tuple(dict.fromkeys(mask for one in parts for mask in one.masks))
        if len(self.names) > _MOST_NAMES:
            raise Unsupported("a value is read at too many places, at each of which it is computed anew")
        variable = self.name(name)
        self.scope_of(loops).add(f"{variable} = {text}")
        return Term(variable, dtype, axes, loops, masks, zero)

    def cast(self, term: Term, dtype: str) -> Term:
        """Convert to another type, inside the expression."""
        if term.dtype == dtype:
            return term
        if dtype == "bool":
            return dataclasses.replace(term, text=f"({term.text} != 0)", dtype="bool", zero=False)
        if _literal(term.text):
            return dataclasses.replace(term, text=literal(_number(term.text), dtype), dtype=dtype)
        text = term.text if term.text.isidentifier() or term.text.endswith(")") else f"({term.text})"
        return dataclasses.replace(term, text=f"{text}.to({TL[dtype]})", dtype=dtype)

    def number(self, value: Any, dtype: str) -> Term:
        """A Python number, which may be a size."""
        if isinstance(value, Varying):
            return Term(self.size(self.shapes.now(value), tight=True), dtype)
        return Term(literal(value, dtype), dtype)

    def index_term(self, index: Index) -> Term:
        """An index as a term, with its axes, loops and masks."""
        axes: frozenset[int] = frozenset()
        loops: frozenset[str] = frozenset()
        masks: list[str] = []
        for base in index.bases:
            axes, loops = axes | base.axes, loops | base.loops
            masks += base.masks
        return Term(self.text(index), "int64", axes, loops, tuple(dict.fromkeys(masks)))

    def address(self, shape: tuple[Size, ...], coordinates: Coordinates) -> Index:
        """The flat index of an element of a contiguous tensor."""
        total = Index()
        for index, step, size in zip(coordinates, contiguous_strides(shape), shape, strict=True):
            if size != ONE:
                total = total + index * step
        return total.merged()

    def _load(self, value: Val, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        pointer = self.pointers.setdefault(value.name, f"{value.name}_ptr")
        self.names.add(pointer)
        place = self.index_term(self.address(self.shapes.of[value.name], coordinates))
        masks = [*place.masks, *(one.text for one in guard)]
        needed = frozenset().union(*(one.axes for one in guard)) if guard else frozenset()
        if not needed <= place.axes:
            raise Unsupported("a guarded load of one element for many")
        where = pointer if place.text == "0" else f"{pointer} + {place.text}"
        other = "0.0" if value.dtype in FLOATS else "0"
        text = f"tl.load({where}, mask={' & '.join(masks)}, other={other})" if masks else f"tl.load({where})"
        dtype = value.dtype
        if not raw and value.dtype in HALF:
            text, dtype = f"{text}.to(tl.float32)", "float32"
        loops = place.loops.union(*(one.loops for one in guard))
        name = self.name(value.name if value.name not in self.shapes.symbols else f"{value.name}_value")
        self.scope_of(loops).add(f"{name} = {text}")
        return Term(name, dtype, place.axes, loops, place.masks, zero=True)

    def operands(self, prim: Prim, coordinates: Coordinates, guard: Guards) -> list[Term | Any]:
        """The operands of an elementwise primitive at the result's coordinates; numbers are unchanged."""
        found: list[Term | Any] = []
        for one in prim.args:
            if isinstance(one, Val):
                found.append(self.value(one, self.broadcast(one, coordinates), guard))
            else:
                found.append(one)
        return found

    def broadcast(self, value: Val, coordinates: Coordinates) -> Coordinates:
        """The coordinates of an operand that broadcasts to a result."""
        shape = self.shapes.of[value.name]
        missing = len(shape) - len(coordinates)
        if missing > 0:  # a batch dimension of 1 that the schedule omits
            if any(size != ONE for size in shape[:missing]):
                raise Unsupported(f"{value.name} has more dimensions than what reads it")
            coordinates = (*(Index(),) * missing, *coordinates)
        tail = coordinates[len(coordinates) - len(shape) :]
        return tuple(Index() if size == ONE else index for size, index in zip(shape, tail, strict=True))

    def _pointwise(self, prim: Prim, coordinates: Coordinates, guard: Guards) -> Term:
        rule = RULES[prim.op]
        terms = self.operands(prim, coordinates, guard)
        tensors = [one.dtype for one in prim.args if isinstance(one, Val)]
        dtype = _calculate(prim, rule.kind, tensors, [one for one in terms if not isinstance(one, Term)])
        texts, parts = [], []
        for place, one in enumerate(terms):
            wanted = "bool" if prim.op == "where" and place == 0 else dtype
            term = self.cast(one, wanted) if isinstance(one, Term) else self.number(one, wanted)
            texts.append(_parenthesize(term.text))
            parts.append(term)
        integral = rule.integer and dtype not in FLOATS
        template = rule.integer if integral else rule.template
        if prim.out.name in self.rounded and dtype == "float32" and not any(map(_literal, texts)):
            template = "libdevice.mul_rn({0}, {1})"
        self.libdevice |= "libdevice." in template
        result = "bool" if rule.kind in ("compare", "logical") else wide(prim.out.dtype)
        text = template.format(*texts)
        keeps = prim.op in ("mul", "neg", "abs", "relu", "square") and all(one.zero for one in parts)
        term = self.assign(
            prim.out.name, text, dtype if rule.kind not in ("compare", "logical") else "bool", parts, keeps
        )
        return self.cast(term, result)

    # -- moves ------------------------------------------------------------------------------------------------

    def _through(self, prim: Prim, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        return self.value(prim.args[0], coordinates, guard, raw)

    def _emit_view(self, prim: Prim, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        source, target = self.shapes.of[prim.args[0].name], self.shapes.of[prim.out.name]
        return self._through(prim, self.reshape(coordinates, target, source), guard, raw)

    def reshape(
        self, coordinates: Coordinates, target: tuple[Size, ...], source: tuple[Size, ...]
    ) -> Coordinates:
        """Coordinates before a view, from those after it."""
        found: list[Index] = [Index()] * len(source)
        for have, want in match_reshape(target, source):
            many = [i for i in want if source[i] != ONE]
            if not many:
                continue
            flat = flatten([coordinates[i] for i in have], [target[i] for i in have])
            if len(many) == 1:
                found[many[0]] = flat
                continue
            pieces = split(flat, [source[i] for i in many])
            if pieces is None:
                pieces = split(self.whole(flat, product(source[i] for i in many)), [source[i] for i in many])
            assert pieces is not None
            for i, piece in zip(many, pieces, strict=True):
                found[i] = piece
        return tuple(found)

    def whole(self, index: Index, extent: Size) -> Index:
        """A compound index as a new variable."""

        def named() -> Term:
            term = self.index_term(index)
            return self.assign("place", term.text, "int64", [term])

        term = self._once(("index", index), named)
        return Index.whole(Base(term.text, extent, term.axes, term.masks, term.loops, index))

    def _emit_permute(self, prim: Prim, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        order = prim.attr("order")
        found = [Index()] * len(order)
        for place, one in enumerate(order):
            found[one] = coordinates[place]
        return self._through(prim, tuple(found), guard, raw)

    def _emit_expand(self, prim: Prim, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        return self._through(prim, self.broadcast(prim.args[0], coordinates), guard, raw)

    def _emit_slice(self, prim: Prim, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        dim, start, step = (prim.attr(name) for name in ("dim", "start", "step"))
        parts, length = dict(prim.attrs).get("parts"), self.shapes.of[prim.out.name][dim]
        offset = length * (start // prim.out.shape[dim]) if parts and start else self.shapes.now(start)
        if start < 0:
            offset = offset + self.shapes.of[prim.args[0].name][dim]
        moved = coordinates[dim] * step + offset
        return self._through(prim, (*coordinates[:dim], moved, *coordinates[dim + 1 :]), guard, raw)

    def _emit_flip(self, prim: Prim, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        shape, found = self.shapes.of[prim.out.name], list(coordinates)
        for dim in prim.attr("dims"):
            found[dim] = found[dim] * -1 + (shape[dim] - 1)
        return self._through(prim, tuple(found), guard, raw)

    def _move(self, text: str, index: Index, size: Size) -> Index:
        """A coordinate computed from another, as a new variable."""
        term = self.index_term(index)
        made = self.assign("place", text.format(_parenthesize(term.text)), "int64", [term])
        return Index.whole(Base(made.text, size, made.axes, made.masks, made.loops))

    def _emit_roll(self, prim: Prim, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        dim, found = prim.attr("dim"), list(coordinates)
        size = self.shapes.of[prim.out.name][dim]
        shift, whole = self.number(prim.attr("shift"), "int64").text, self.size(size, True)
        # A shift may exceed the dimension at other sizes.
        found[dim] = self._move(f"(({{}} - {shift}) % {whole} + {whole}) % {whole}", found[dim], size)
        return self._through(prim, tuple(found), guard, raw)

    def _emit_border(self, prim: Prim, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        source, before, found = prim.args[0], prim.attr("before"), list(coordinates)
        for dim, index in enumerate(coordinates):
            if prim.out.shape[dim] == source.shape[dim] and not before[dim]:
                continue
            size = self.shapes.of[source.name][dim]
            last = self.size(size - 1, True)
            text = "tl.minimum(tl.maximum({}, 0), " + last + ")"
            if prim.attr("how") == "reflect":
                text = f"{last} - tl.abs({last} - tl.abs({{}}))"
            found[dim] = self._move(text, index + Size.of(before[dim]) * -1 if before[dim] else index, size)
        return self._through(prim, tuple(found), guard, raw)

    def condition(self, name: str, tests: list[str], index: Index) -> Guard:
        """A condition on an index, as a new variable."""
        term = self.index_term(index)
        made = self.assign(name, " & ".join(tests), "bool", [term])
        return Guard(made.text, made.axes, made.loops)

    def inside(self, index: Index, size: Size, low: bool = True, high: bool = True) -> Guard | None:
        """Whether an index is in [0, size); None if it always is. Repeated calls give the same variable."""
        low = low and (index.offset.negative or any(by.negative for _, by in index.terms))
        short = len(index.terms) == 1 and index.terms[0][0].size == size and index.terms[0][1] == ONE
        high = high and not (short and (index.offset == ZERO or index.offset.negative))
        if not low and not high:
            return None

        def tested() -> Term:
            term = self.index_term(index)
            text = _parenthesize(term.text)
            tests = [f"({text} >= 0)"] if low else []
            tests += [f"({text} < {self.size(size, True)})"] if high else []
            return self.assign("inside", " & ".join(tests), "bool", [term])

        made = self._once(("inside", index, size, low, high), tested)
        return Guard(made.text, made.axes, made.loops)

    def _emit_pad(self, prim: Prim, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        source, before = prim.args[0], prim.attr("before")
        shape, guards, found = self.shapes.of[source.name], list(guard), []
        for dim, index in enumerate(coordinates):
            after = prim.out.shape[dim] - source.shape[dim] - before[dim]
            moved = index + (-before[dim]) if before[dim] else index
            if before[dim] or after:
                test = self.inside(moved, shape[dim], before[dim] > 0, after > 0)
                guards += [test] if test is not None else []
            found.append(moved)
        term = self.value(source, tuple(found), tuple(guards))
        fill = literal(prim.args[1], term.dtype)
        own = guards[len(guard) :]
        if not own or (fill in ("0", "0.0") and source.name in self.arguments):
            return term
        parts = [term, *(Term(one.text, "bool", one.axes, one.loops) for one in own)]
        text = f"tl.where({' & '.join(g.text for g in own)}, {term.text}, {fill})"
        return self.assign(prim.out.name, text, term.dtype, parts)

    def reached(
        self, prim: Prim, dim: int, place: Index, tap: Index | int, size: Size
    ) -> tuple[Index, list[Guard]]:
        """Where a tap of a window reads for a place, in a dimension of this size, and the condition for being inside."""
        stride, padding, dilation = (prim.attr(name)[dim] for name in ("stride", "padding", "dilation"))
        moved = place * stride + (tap * dilation + -padding)
        test = self.inside(moved, size) if padding else None
        return moved, [test] if test is not None else []

    def _emit_patches(self, prim: Prim, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        """The input that a tap reads at a place, as in a convolution; 0 outside."""
        source, rank = prim.args[0], len(prim.attr("kernel"))
        guards, found, sizes = list(guard), list(coordinates[:2]), self.shapes.of[source.name][2:]
        for dim, size in enumerate(sizes):
            moved, tests = self.reached(prim, dim, coordinates[2 + rank + dim], coordinates[2 + dim], size)
            guards += tests
            found.append(moved)
        return self.value(source, tuple(found), tuple(guards), raw)

    def _emit_cat(self, prim: Prim, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        dim, start = prim.attr("dim"), ZERO
        index, dtype = coordinates[dim], wide(prim.out.dtype)
        pieces: list[tuple[Guard, Term]] = []
        for place, part in enumerate(prim.args[0]):
            size = self.shapes.of[part.name][dim]
            moved = index + start * -1
            text = _parenthesize(self.text(index))
            tests = [f"({text} >= {self.size(start, True)})"] if place else []
            tests += [f"({text} < {self.size(start + size, True)})"] if place + 1 < len(prim.args[0]) else []
            test = self.condition(f"in_{part.name}", tests, index)
            where = (*coordinates[:dim], moved, *coordinates[dim + 1 :])
            pieces.append((test, self.cast(self.value(part, where, (*guard, test)), dtype)))
            start = start + size
        text, parts = pieces[-1][1].text, [pieces[-1][1]]
        for test, term in reversed(pieces[:-1]):
            text = f"tl.where({test.text}, {term.text}, {text})"
            parts += [term, Term(test.text, "bool", test.axes, test.loops)]
        return self.assign(prim.out.name, text, dtype, parts)

    # -- made values and gathers ------------------------------------------------------------------------------

    def _emit_full(self, prim: Prim, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        return self.number(prim.args[0], wide(prim.out.dtype))

    def _emit_iota(self, prim: Prim, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        index = coordinates[prim.attr("dim")] * prim.attr("step") + self.shapes.now(prim.attr("start"))
        term = self.index_term(index)
        return self.cast(dataclasses.replace(term, text=_parenthesize(term.text)), wide(prim.out.dtype))

    def _emit_count(self, prim: Prim, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        shape = self.shapes.of[prim.args[0].name]
        correction = prim.attr("correction")
        text = self.size(product(shape[dim] for dim in prim.attr("dims")))
        return Term(
            f"({text} - {correction:g})" if correction else f"({text})" if " " in text else text, "float32"
        )

    def lookup(self, index: Val, coordinates: Coordinates, guard: Guards, size: Size) -> Index:
        """A loaded index as a coordinate."""
        term = self.value(index, coordinates, guard)
        text = self.assign(f"{index.name}_at", f"tl.where({term.text} < 0, {term.text} + {self.size(size)}, {term.text})",
                           "int64", [term])  # fmt: skip
        return Index.whole(Base(text.text, size, term.axes, term.masks, term.loops))

    def _emit_take(self, prim: Prim, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        table, *indices = prim.args
        dim, rank = prim.attr("dim"), len(coordinates) + len(indices) - len(table.shape)
        sizes, own = self.shapes.of[table.name], coordinates[dim : dim + rank]
        places = [
            self.lookup(one, self.broadcast(one, own), guard, sizes[dim + at])
            for at, one in enumerate(indices)
        ]
        return self.value(table, (*coordinates[:dim], *places, *coordinates[dim + rank :]), guard, raw)

    def _emit_unfold(self, prim: Prim, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        found, dim = list(coordinates[:-1]), prim.attr("dim")
        found[dim] = found[dim] * prim.attr("step") + coordinates[-1]
        return self._through(prim, tuple(found), guard, raw)

    def _emit_gather(self, prim: Prim, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        source, index = prim.args
        dim = prim.attr("dim")
        place = self.lookup(index, coordinates, guard, self.shapes.of[source.name][dim])
        return self.value(source, (*coordinates[:dim], place, *coordinates[dim + 1 :]), guard, raw)

    def _emit_window(self, prim: Prim, coordinates: Coordinates, guard: Guards, raw: bool) -> Term:
        """Unrolls over the window, since pooling windows are small."""
        kernel, source = prim.attr("kernel"), prim.args[0]
        if math.prod(kernel) > 64:
            raise Unsupported("a pooling window of more than 64 elements")
        shape, first = self.shapes.of[source.name], len(coordinates) - len(kernel)
        total: Term | None = None
        counted: list[Term] = []
        peak = prim.attr("how") == "max"
        for step in range(math.prod(kernel)):
            rest, guards, found = step, list(guard), list(coordinates)
            for dim in reversed(range(len(kernel))):
                at, rest = rest % kernel[dim], rest // kernel[dim]
                place = first + dim
                found[place], tests = self.reached(prim, dim, coordinates[place], at, shape[place])
                guards += tests
            term = self.value(source, tuple(found), tuple(guards))
            own = guards[len(guard) :]
            parts = [term, *(Term(one.text, "bool", one.axes, one.loops) for one in own)]
            if not own:
                counted.append(Term("1", "int32"))
            else:
                test_text = " & ".join(one.text for one in own)
                fill = 'float("-inf")' if peak else "0.0"
                term = self.assign("part", f"tl.where({test_text}, {term.text}, {fill})", term.dtype, parts)
                counted.append(dataclasses.replace(parts[1], text=f"({test_text})"))
            if total is None:
                total = term
            else:
                text = f"tl.maximum({total.text}, {term.text})" if peak else f"{total.text} + {term.text}"
                total = self.assign(prim.out.name, text, term.dtype, [total, term])
        assert total is not None
        if peak:
            return total
        divisor = prim.attr("divisor") or math.prod(kernel)
        padded = any(prim.attr("padding"))
        if padded and not prim.attr("counts") and not prim.attr("divisor"):
            count = " + ".join("1.0" if one.text == "1" else f"{one.text}.to(tl.float32)" for one in counted)
            return self.assign(prim.out.name, f"{total.text} / ({count})", total.dtype, [total, *counted])
        return self.assign(prim.out.name, f"{total.text} / {divisor}", total.dtype, [total])

    # -- results ----------------------------------------------------------------------------------------------

    def depends(self, name: str, on: frozenset[str]) -> bool:
        """Whether a value is computed from any of these."""
        return not on.isdisjoint(self._ancestors(name))

    def _ancestors(self, name: str) -> frozenset[str]:
        """A value and everything it is computed from."""
        if name not in self._made_from:
            prim = self.made.get(name)
            parts = (self._ancestors(one.name) for one in prim.reads()) if prim is not None else ()
            self._made_from[name] = frozenset({name}).union(*parts)
        return self._made_from[name]

    def forward(self, value: Val, on: frozenset[str], coordinates: Coordinates) -> Coordinates:
        """Coordinates of a result, from those of a value in its computation: through views and permutations."""
        chain: list[Prim] = []
        name = value.name
        while name not in on:
            prim = self.made.get(name)
            towards = (
                next((one.name for one in prim.reads() if self.depends(one.name, on)), None) if prim else None
            )
            if prim is None or towards is None:
                raise Unsupported("an output that is not made from what its kernel computes")
            chain.append(prim)
            name = towards
        for prim in reversed(chain):
            if prim.op == "view":
                source, target = self.shapes.of[prim.reads()[0].name], self.shapes.of[prim.out.name]
                coordinates = self.reshape(coordinates, source, target)
            elif prim.op == "permute":
                coordinates = tuple(coordinates[one] for one in prim.attr("order"))
            elif prim.op == "flip":
                shape = self.shapes.of[prim.out.name]
                coordinates = tuple(index * -1 + (shape[dim] - 1) if dim in prim.attr("dims") else index
                                    for dim, index in enumerate(coordinates))  # fmt: skip
            elif prim.op in RULES or prim.op == "expand":
                coordinates = (*(Index(),) * (len(prim.out.shape) - len(coordinates)), *coordinates)
            else:
                raise Unsupported(f"{prim.op} between a kernel and its output")
        return coordinates

    # -- stores -----------------------------------------------------------------------------------------------

    def store(self, pointer: str, value: Term, shape: tuple[Size, ...], coordinates: Coordinates) -> None:
        """Store a value to a contiguous output."""
        self.names.add(pointer)
        place = self.index_term(self.address(shape, coordinates))
        mask = f", mask={' & '.join(place.masks)}" if place.masks else ""
        where = pointer if place.text == "0" else f"{pointer} + {place.text}"
        self.line(f"tl.store({where}, {value.text}{mask})")


def emit_value(
    text: str, coordinates: Coordinates, own: Coordinates, what: str, dtype: str = "float32"
) -> Term:
    """A value that a kernel has computed at its `own` coordinates. Raises Unsupported for any other coordinates."""
    if [one.merged() for one in coordinates] != [one.merged() for one in own]:
        raise Unsupported(f"{what} at other places than its tile's")
    bases = [base for one in own for base in one.bases]
    return Term(
        text,
        dtype,
        frozenset().union(*(one.axes for one in bases)),
        frozenset().union(*(one.loops for one in bases)),
        tuple(dict.fromkeys(mask for one in bases for mask in one.masks)),
    )


def input_precision(dtype: str, precision: str) -> str:
    """The argument of `tl.dot` for the precision of float32 operands."""
    return f', input_precision="{precision}"' if dtype == "float32" else ""


def place_tile(emitter: Emitter, m: str, n: str, group: int) -> None:
    """Emit lines that map a program's `tile` to rows below `m` (empty: they are no line) and columns below `n`, in groups of `group`
    rows of tiles."""
    if group == 1:
        emitter.line("tile_m, tile_n = tile // tiles_n, tile % tiles_n")
    else:
        emitter.line("width = GROUP * tiles_n")
        emitter.line("first_m = tile // width * GROUP")
        emitter.line("rows_m = tl.minimum(tiles_m - first_m, GROUP)")
        emitter.line("tile_m = first_m + tile % width % rows_m")
        emitter.line("tile_n = tile % width // rows_m")
    for name, size in (("m", m), ("n", n)) if m else (("n", n),):
        emitter.line(f"{name} = tile_{name} * BLOCK_{name.upper()} + tl.arange(0, BLOCK_{name.upper()})")
        emitter.line(f"in_{name} = {name} < {size}")


def _calculate(prim: Prim, kind: str, tensors: list[str], numbers: list[Any]) -> str:
    """The type in which an elementwise primitive is computed."""
    if kind == "logical":
        return "bool"
    out = wide(prim.out.dtype)
    if kind == "float":
        return out if out in FLOATS else "float32"
    if kind == "compare":
        dtype = wide(promote(*tensors)) if tensors else "float32"
        return "float32" if dtype not in FLOATS and any(isinstance(one, float) for one in numbers) else dtype
    return out


def literal(value: Any, dtype: str) -> str:
    """A Python number as kernel text."""
    if dtype == "bool":
        return "True" if value else "False"
    if dtype not in FLOATS:
        return str(int(value))
    value = float(value)
    return f'float("{value}")' if math.isinf(value) or math.isnan(value) else repr(value)


def _literal(text: str) -> bool:
    return (
        text in ("True", "False")
        or text.startswith('float("')
        or (_atomic(text) and (text[0].isdigit() or text[0] == "-"))
    )


def _number(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    if text.startswith('float("'):
        return float(text[7:-2])
    if not text.lstrip("-").isdigit():
        return float(text)
    return int(text)


def _parenthesize(text: str) -> str:
    """A text that is safe anywhere in an expression."""
    return text if _atomic(text) else f"({text})"


def _atomic(text: str) -> bool:
    """Whether a text binds tighter than any operator around it."""
    if text.isidentifier() or text.replace(".", "").replace("e-", "").replace("e+", "").isdigit():
        return True
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and letter in " +-*/%<>=&|" and place:
            return False
        if letter == "-" and place == 0:
            return False
    return True
