"""Assembles a candidate's text: its `@triton.jit` functions and `def kernel(...)`.

`Source` collects kernels and host lines while a schedule prints itself, and knows how to read sizes from shapes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from kernelwright.synth.emitter import Coordinates, Emitter, Term
from kernelwright.synth.index import Base, split_index
from kernelwright.synth.lowering import Lowered
from kernelwright.synth.primitives import CONTRACTIONS, REDUCTIONS, SCANS, Prim, Unsupported, Val
from kernelwright.synth.shapes import Shapes
from kernelwright.synth.sizes import ONE, Size, product

HELPERS = {"multiply": "@triton.jit\ndef multiply(left, right):\n    return left * right\n"}
"""Device functions that kernels may call."""


@dataclasses.dataclass
class Buffer:
    """A tensor that the host allocates."""

    name: str
    dtype: str
    shape: tuple[Size, ...]


class Source:
    """One candidate under construction."""

    def __init__(
        self, lowered: Lowered, shapes: Shapes, label: str, orders: dict[str, list[int]] | None = None
    ) -> None:
        self.lowered, self.shapes = lowered, shapes
        self.orders = orders or {}
        """Orders of dimensions of arguments that are permuted in memory."""
        self.label = _identifier(label)
        self.kernels: list[str] = []
        self.helpers: set[str] = set()
        self.libdevice = False
        self.descriptors = False
        self.host: list[str] = []
        self.sizes: set[str] = set()
        self.read: set[str] = set()
        """Arguments that kernels read."""
        self.place = {one.name: place for place, one in enumerate(lowered.arguments)}
        """Positions of arguments in the graph: kernels take them in this order, whichever they read first."""
        self.device = next(iter(self.place), "")
        self.outputs = self._outputs()
        self.hosts: dict[str, str] = {}
        """Tensors of values that earlier kernels have stored as results."""

    def part(self, results: Collection[str], stored: Collection[str], label: str) -> Source:
        """A separate source for some values, reading others that are already `stored`. Raises Unsupported for a value whose name is
        reserved for results."""
        made = Source(self.lowered.part(results, stored), self.shapes, label, self.orders)
        own = {value.name: buffer for value, buffer in self.outputs}
        if any(
            name not in own and re.match(r"out\d*$|n$|part_size$|aligned$|programs$", name)
            for name in (*results, *stored)
        ):
            raise Unsupported("a value that is called like a result")
        made.outputs = [
            (value, own.get(value.name) or Buffer(value.name, value.dtype, self.shapes.of[value.name]))
            for value in made.lowered.results
        ]
        made.hosts = {name: own[name].name for name in stored if name in own}
        return made

    def take(self, part: Source) -> None:
        """Append a printed part's kernels and lines."""
        self.kernels += part.kernels
        self.host += part.host
        self.helpers |= part.helpers
        self.sizes |= part.sizes
        self.read |= part.read
        self.libdevice |= part.libdevice
        self.descriptors |= part.descriptors

    def emitter(self) -> Emitter:
        return Emitter(self.lowered, self.shapes)

    def size(self, size: Size, tight: bool = False) -> str:
        """A size as host text."""
        self.sizes |= size.symbols
        return size.text(tight)

    def shape(self, shape: tuple[Size, ...]) -> str:
        """A shape as a tuple in host text."""
        sizes = [self.size(one) for one in shape]
        return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"

    def program(self) -> str:
        """The program id, as int64 if offsets computed from it exceed 31 bits."""
        hints = self.shapes.hints()
        most = max((numel(shape).value(hints) for shape in self.shapes.of.values()), default=0)
        return "tl.program_id(0)" + (".to(tl.int64)" if most >= 2**31 - 2**16 else "")

    def _outputs(self) -> list[tuple[Val, Buffer]]:
        results = self.lowered.results
        many = len(results) > 1
        return [(one, Buffer(f"out{place}" if many else "out", one.dtype, self.shapes.of[one.name]))
                for place, one in enumerate(results)]  # fmt: skip

    def only(self, what: str, *ops: str) -> Prim:
        """The graph's only contraction, reduction or scan, which must be one of `ops`. Raises Unsupported if there are others."""
        found = [prim for prim in self.lowered.prims if prim.op in (*CONTRACTIONS, *REDUCTIONS, *SCANS)]
        if len(found) != 1 or found[0].op not in ops:
            raise Unsupported(f"not one {what} with maps")
        return found[0]

    def store(self, emitter: Emitter, made: Val, coordinates: Coordinates, what: str) -> None:
        """Allocate and store the results, by the maps after `made`, which the kernel has at `coordinates`. Raises Unsupported for
        results of another size than `what` it is."""
        for value, buffer in self.outputs:
            if numel(buffer.shape) != numel(self.shapes.of[made.name]):
                raise Unsupported(f"an output of another size than {what}")
            where = emitter.forward(value, frozenset({made.name}), coordinates)
            emitter.store(f"{buffer.name}_ptr", emitter.value(value, where), buffer.shape, where)
            self.allocate(buffer)

    def add_up(self, made: Val, loop: str, block: int, what: str, constants: Mapping[str, str]) -> None:
        """A second kernel that adds the parts of `made` in the buffer `partial` at `i`, in a `loop` over `part`, and applies the
        maps after it. Raises Unsupported."""
        emitter, shape = self.emitter(), self.shapes.of[made.name]
        emitter.names |= {"i", "inside", "n", "acc", "part"}
        size = emitter.size(numel(shape), True)
        emitter.line("i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)")
        emitter.line(f"inside = i < {size}")
        emitter.line("acc = tl.zeros((BLOCK,), dtype=tl.float32)")
        emitter.open("part", f"for part in {loop}:")
        emitter.line(f"acc += tl.load(partial_ptr + part * {size} + i, mask=inside, other=0.0)")
        emitter.close()
        emitter.given[made.name] = lambda *_: Term("acc", "float32", frozenset({0}), frozenset(), ("inside",))
        places = split_index(Base("i", numel(shape), frozenset({0}), ("inside",)), shape)
        self.store(emitter, made, places, what)
        grid = f"(triton.cdiv({self.size(numel(shape))}, {block}),)"
        constants = {"BLOCK": str(block), **constants}
        self.kernel(emitter, constants, grid, "num_warps=4", "summed", given={"partial_ptr": "partial"})

    def hosted(self, name: str) -> str:
        """The host's name of an argument, or of a value that an earlier kernel stored."""
        return self.hosts.get(name, name)

    def hand_over(self, aligned: str, made: Mapping[str, tuple[str, str]]) -> dict[str, str]:
        """Host lines that create descriptors if `aligned`. `made`: parameter -> (plain tensor, descriptor). Returns the arguments
        for the parameters."""
        self.descriptors = True
        self.host.append(f"aligned = {aligned}")
        for name, (plain, text) in made.items():
            self.host.append(f"{name} = {text} if aligned else {plain}")
        return {name: name for name in made}

    def allocate(self, buffer: Buffer) -> None:
        """Add a line that allocates an empty tensor on the arguments' device."""
        shape = self.shape(buffer.shape)
        self.host.append(
            f"{buffer.name} = torch.empty({shape}, device={self.device}.device, dtype=torch.{buffer.dtype})"
        )

    def kernel(self, emitter: Emitter, constants: dict[str, str], grid: str, options: str, suffix: str = "kernel", *,
               outputs: Sequence[str] | None = None, head: Sequence[str] = (), extra: Sequence[str] = (),
               given: Mapping[str, str] = MappingProxyType({})) -> None:  # fmt: skip
        """Add a kernel, consisting of `head` and the emitter's lines, and its launch.

        constants: host values of `tl.constexpr` parameters by name. outputs: buffers that it stores to; default: the candidate's
        outputs. extra: sizes that `head` reads. given: host expressions of pointer parameters that are not plain arguments.
        """
        assert len(emitter.scopes) == 1
        outputs = [buffer.name for _, buffer in self.outputs] if outputs is None else outputs
        known = sorted(emitter.pointers, key=lambda one: self.place.get(one, len(self.place)))
        pointers = {emitter.pointers[one]: one for one in known}
        self.read.update(pointers.values())
        sizes = sorted(emitter.sizes | set(extra) | set(emitter.compound))
        self.sizes |= {one for one in sizes if one in self.shapes.symbols}
        self.sizes.update(part for parts in emitter.compound.values() for part in parts)
        self.libdevice |= emitter.libdevice
        inputs = [*pointers, *(one for one in given if one not in pointers)]
        name = f"{self.label}_{suffix}"
        stored = [f"{one}_ptr" for one in outputs]
        parameters = ", ".join([*inputs, *stored, *sizes, *(f"{one}: tl.constexpr" for one in constants)])
        body = "\n".join([*(f"    {line}" for line in head), *emitter.root.lines])
        self.kernels.append(f"@triton.jit\ndef {name}({parameters}):\n{body}\n")
        shown = {one: " * ".join(parts) for one, parts in emitter.compound.items()}
        hosts = {one: self.hosted(name) for one, name in pointers.items()}
        values = [given.get(one, hosts.get(one, one)) for one in inputs]
        values += [*outputs, *(shown.get(one, one) for one in sizes)]
        values += [f"{one}={text}" for one, text in constants.items()]
        self.host.append(f"{name}[{grid}]({', '.join([*values, options])})")

    def text(self) -> str:
        """The whole file."""
        imports = "import torch\nimport triton\nimport triton.language as tl\n"
        if self.libdevice:
            imports += "from triton.language.extra import libdevice\n"
        if self.descriptors:
            imports += "from triton.tools.tensor_descriptor import TensorDescriptor\n"
        arguments = ", ".join(one.name for one in self.lowered.graph.arguments)
        lines = [
            f"{name} = {name}.permute({', '.join(map(str, order))})" for name, order in self.orders.items()
        ]
        lines += [f"{name} = {name}.contiguous()" for name in self.place if name in self.read]
        lines += self._size_lines()
        lines += self.host
        lines.append(f"return {', '.join(buffer.name for _, buffer in self.outputs)}")
        body = "\n".join(f"    {line}" for line in lines)
        parts = [imports, *(HELPERS[name] for name in sorted(self.helpers)), *self.kernels]
        parts.append(f"def kernel({arguments}):\n{body}\n")
        return "\n\n".join(parts)

    def _size_lines(self) -> list[str]:
        lines: list[str] = []
        done: set[str] = set()
        wanted = [name for name in self.shapes.symbols if name in self.sizes]
        for name in wanted:
            self._define(name, lines, done, set(wanted))
        return lines

    def _define(self, name: str, lines: list[str], done: set[str], wanted: set[str]) -> None:
        if name in done:
            return
        symbol = self.shapes.symbols[name]
        for other in self.shapes.symbols:
            if "{" + other + "}" in symbol.host:
                self._define(other, lines, done, wanted)
        if symbol.argument is None:
            done.add(name)
            lines.append(f"{name} = {symbol.host.replace('{', '').replace('}', '')}")
            return
        argument = symbol.argument[0]
        own = {one.argument[1]: key for key, one in self.shapes.symbols.items()
               if one.argument and one.argument[0] == argument and one.host.endswith("]") and key not in done
               and (key in wanted or key == name)}  # fmt: skip
        rank = len(next(one.shape for one in self.lowered.arguments if one.name == argument))
        if len(own) > 1 and rank > 1:
            done.update(own.values())
            lines.append(f"{', '.join(own.get(dim, '_') for dim in range(rank))} = {argument}.shape")
        else:
            done.add(name)
            lines.append(f"{name} = {symbol.host}")


def numel(shape: tuple[Size, ...]) -> Size:
    """Number of elements of a shape."""
    return product(size for size in shape if size != ONE)


def _identifier(label: str) -> str:
    """A kernel name from the operators' names."""
    name = "_".join(part for part in label.replace("+", "_").split("_") if part)
    return name[:48].strip("_") or "graph"
