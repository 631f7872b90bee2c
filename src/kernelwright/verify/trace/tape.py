"""What a candidate's forward pass asks of the device, as data: the only thing that leaves the candidate's process.

The candidate's Python runs on tensors without data. Everything it asks of the device is recorded as a tape of seven kinds
of operation (alloc, fill, arange, numbers, copy, aten, launch) on numbered storages. Our code replays the tape elsewhere,
on real data. The host code never sees a value, so it cannot compute on one, cache one, or tell a timed call from another.
A tape comes from a hostile process: `Tape.read` trusts nothing.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Literal

MAX_OPERATIONS = 20_000
MAX_KERNELS = 4096
"""The most different kernels of a module: a network of a hundred layers, each of its own width, has several hundred."""
MAX_BYTES = 1 << 42
_MAX_STORAGE = 1 << 31
_MAX_DIMENSIONS = 64
_OPERATOR = re.compile(r"[A-Za-z]\w*(\.|::)[A-Za-z_]\w*(\.\w+)?")
_OPTIONS = frozenset(["num_warps", "num_stages", "num_ctas", "maxnreg", "launch_pdl"])
_KINDS = ("alloc", "fill", "arange", "numbers", "copy", "aten", "launch")
MOST_NUMBERS = 4096
"""The most Python numbers in one recorded tensor."""
_ITEMSIZES = {
    **dict.fromkeys(("float64", "int64", "uint64", "complex64"), 8),
    **dict.fromkeys(("float32", "int32", "uint32"), 4),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("int8", "uint8", "bool", "float8_e4m3fn", "float8_e5m2"), 1),
}

Kind = Literal["alloc", "fill", "arange", "numbers", "copy", "aten", "launch"]


class TapeError(Exception):
    """The message is not a well-formed tape."""


class OutsideStorage(TapeError):
    """A tensor reaches beyond its memory."""


class UnmadeMemory(TapeError):
    """No recorded operation made a tensor's memory: it was computed unseen by the recorder."""


@dataclasses.dataclass(frozen=True)
class View:
    """A tensor as a view of a storage. Offset and strides are in elements."""

    storage: int
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str

    @property
    def itemsize(self) -> int:
        return _ITEMSIZES[self.dtype]

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def end(self) -> int:
        """Bytes from the start of the storage to the end of the last element; 0 if there is none."""
        if self.numel == 0:
            return 0
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.stride, strict=True))
        return (self.offset + last + 1) * self.itemsize

    def to_json(self) -> list[Any]:
        return [self.storage, self.offset, list(self.shape), list(self.stride), self.dtype]

    @staticmethod
    def read(data: Any) -> View:
        storage, offset, shape, stride, dtype = data
        view = View(
            whole(storage, _MAX_STORAGE),
            whole(offset),
            tuple(map(whole, shape)),
            tuple(map(whole, stride)),
            str(dtype),
        )
        if (
            dtype not in _ITEMSIZES
            or len(view.shape) > _MAX_DIMENSIONS
            or len(view.shape) != len(view.stride)
        ):
            raise TapeError("bad view")
        return view


@dataclasses.dataclass(frozen=True)
class Descriptor:
    """A tensor with the blocks a kernel moves: `triton.tools.tensor_descriptor.TensorDescriptor`."""

    view: View
    block: tuple[int, ...]
    padding: str
    tf32: bool

    @staticmethod
    def read(data: Any) -> Descriptor:
        tensor, block, padding, tf32 = data
        made = Descriptor(
            View.read(tensor["view"]), tuple(whole(size, 1 << 20) for size in block), padding, tf32 is True
        )
        if padding not in ("zero", "nan") or len(made.block) != len(made.view.shape):
            raise TapeError("bad descriptor")
        return made


@dataclasses.dataclass(frozen=True)
class Launch:
    """`kernel[grid](**arguments, **options)`. Arguments are JSON: see `Recorder._argument` in `trace/recorder.py`."""

    kernel: int
    grid: tuple[int, int, int]
    arguments: dict[str, Any]
    options: dict[str, int]
    views: tuple[tuple[str, View], ...]
    """(argument name, tensor) of every tensor argument, including those in descriptors and tuples."""

    @staticmethod
    def read(data: Any) -> Launch:
        x, y, z = (whole(extent, 2**31 - 1) for extent in data["grid"])
        options = dict(data["options"])
        if set(options) - _OPTIONS or any(type(n) is not int or abs(n) >= 2**31 for n in options.values()):
            raise TapeError("bad option")
        arguments = dict(data["arguments"])
        views: list[tuple[str, View]] = []
        for name, value in arguments.items():
            if not name.isidentifier() or not _is_argument(value):
                raise TapeError("bad argument")
            views += _tensors(name, value)
        return Launch(whole(data["kernel"], MAX_KERNELS - 1), (x, y, z), arguments, options, tuple(views))

    def to_json(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "grid": list(self.grid),
            "arguments": self.arguments,
            "options": self.options,
        }

    @property
    def programs(self) -> int:
        return math.prod(self.grid)


def _tensors(name: str, value: dict[str, Any]) -> Iterator[tuple[str, View]]:
    if "view" in value:
        yield name, View.read(value["view"])
    elif "descriptor" in value:
        yield name, Descriptor.read(value["descriptor"]).view
    elif "constexpr" in value:
        yield from _tensors(name, value["constexpr"])
    for place, item in enumerate(value.get("tuple", ())):
        yield from _tensors(f"{name}[{place}]", item)


def whole(value: object, most: int = MAX_BYTES) -> int:
    """An integer from 0 to `most`. Raises TapeError."""
    if type(value) is not int or not 0 <= value <= most:
        raise TapeError("bad number")
    return value


def _is_argument(value: object, depth: int = 0) -> bool:
    """Whether a value is a serialised launch argument: one known key with valid content; tensors are read by `_tensors`."""
    if not isinstance(value, dict) or len(value) != 1 or depth > 8:
        return False
    ((kind, content),) = value.items()
    if kind in ("view", "descriptor"):
        return True
    if kind == "kernel":
        return whole(content, 255) >= 0
    if kind == "value":
        return content is None or isinstance(content, (bool, int, str))
    if kind in ("float", "dtype"):
        return isinstance(content, str) and len(content) < 100
    if kind == "constexpr":
        return _is_argument(content, depth + 1)
    return kind == "tuple" and isinstance(content, list) and all(_is_argument(x, depth + 1) for x in content)


@dataclasses.dataclass(frozen=True)
class Operation:
    """One step. `fields` by kind:

    alloc   storage, bytes, dtype (for the poison)     fill    view, value
    arange  view, start, step                          copy    target, source, casts
    numbers view, values (integers, and views: their start addresses)
    aten    name, arguments, results                   launch  launches (several: tuning alternatives), restored
                                                               (arguments that the tuner restores after each trial; None: unknown)
    """

    kind: Kind
    fields: dict[str, Any]

    def reads(self) -> list[View]:
        """Tensor arguments of a torch operator."""
        return list(_views(self.fields["arguments"]))

    def touched(self) -> list[View]:
        """Every tensor that the step reads or writes."""
        if self.kind == "launch":
            return [view for launch in self.fields["launches"] for _, view in launch.views]
        own = [view for view in self.fields.values() if isinstance(view, View)]
        own += [value for value in self.fields.get("values", ()) if isinstance(value, View)]
        return [*own, *(self.reads() if self.kind == "aten" else ()), *self.fields.get("results", ())]


@dataclasses.dataclass(frozen=True)
class Tape:
    """One forward pass."""

    operations: tuple[Operation, ...]
    output: Any
    """The returned nest: `{"view": [...]}` for tensors, else as from `channel.encode`."""
    foreign: dict[int, int]
    """Storages that the pass uses but does not allocate: number -> bytes."""

    @staticmethod
    def read(data: Any) -> Tape:
        """Read and check a tape from the candidate's process. Raises TapeError."""
        try:
            steps = data["operations"]
            if not isinstance(steps, list) or len(steps) > MAX_OPERATIONS:
                raise TapeError("too many operations")
            foreign = {
                whole(int(key), _MAX_STORAGE): whole(size) for key, size in dict(data["foreign"]).items()
            }
            known = dict(foreign)
            operations = tuple(_operation(step, known) for step in steps)
            for view in _views(data["output"]):
                _inside(view, known)
            return Tape(operations, data["output"], foreign)
        except TapeError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
            raise TapeError(f"bad tape: {type(error).__name__}") from None

    def launches(self) -> list[Launch]:
        """Every launch; of tuning alternatives the first."""
        return [op.fields["launches"][0] for op in self.operations if op.kind == "launch"]

    def compute(self) -> dict[str, int]:
        """Torch operators that compute, with counts, which a task's policy may forbid."""
        found: dict[str, int] = {}
        for op in self.operations:
            name = ""
            if op.kind == "aten":
                name = op.fields["name"]
            elif op.kind == "copy" and op.fields["casts"]:
                name = "aten._to_copy(cast)"
            if name:
                found[name] = found.get(name, 0) + 1
        return found

    def outputs(self) -> list[View]:
        return list(_views(self.output))

    def allocated(self) -> int:
        """Bytes of all storages that the pass allocates."""
        return sum(op.fields["bytes"] for op in self.operations if op.kind == "alloc")

    def form(self) -> list[Any]:
        """What two passes over equal shapes share: kinds, kernels, grids, scalars, sizes; no identities."""
        found: list[Any] = []
        for op in self.operations:
            if op.kind == "launch":
                found.append([(x.kernel, x.grid, x.options, _scalars(x)) for x in op.fields["launches"]])
            elif op.kind == "alloc":
                found.append(("alloc", op.fields["bytes"]))
            else:
                found.append((op.kind, op.fields.get("name", "")))
        return found

    def launched(self) -> list[Any]:
        """What launches and torch operators run, as in `form`, with the strides of each launch's tensors."""
        found: list[Any] = []
        for op in self.operations:
            for launch in op.fields["launches"] if op.kind == "launch" else ():
                strides = frozenset(step for _, view in launch.views for step in view.stride)
                found.append((launch.kernel, launch.grid, launch.options, _scalars(launch), strides))
            if op.kind == "aten":
                found.append(op.fields["name"])
        return found

    def deeds(self, names: Mapping[int, tuple[object, int]], outputs: Sequence[object]) -> set[str]:
        """The pass as a set of facts: each launch with the memory it is given, copies and fills, the history of each piece of
        memory, and where `outputs`, by name, lie. `names` has the identity and start (elements) of storages from outside;
        others are named after the launch that takes them first."""
        known = dict(names)
        for op in self.operations:
            for launch in op.fields["launches"] if op.kind == "launch" else ():
                for name, view in launch.views:
                    known.setdefault(view.storage, (("made", launch.kernel, name), 0))

        def named(view: View) -> tuple[object, ...]:
            name, start = known.get(view.storage, ("other", 0))
            return (name, view.offset - start, view.shape, view.stride, view.dtype)

        found = {repr((name, named(view))) for name, view in zip(outputs, self.outputs(), strict=False)}
        fates: dict[object, list[object]] = {}
        for op in self.operations:
            touched = op.touched()
            what: list[object] = [(op.kind, op.fields.get("name", ""), op.fields.get("value"))] * len(touched)
            if op.kind == "launch":
                launches = op.fields["launches"]
                what = [(launch.kernel, name) for launch in launches for name, _ in launch.views]
                what_else = [(x.kernel, x.grid, x.options, _scalars(x)) for x in launches]
                found.add(repr((what_else, list(map(named, touched)))))
            else:
                found.add(repr((what[:1], list(map(named, touched)))))
            for view, done in zip(touched, what, strict=True):
                if view.storage not in names:
                    fates.setdefault(named(view)[0], []).append(done)
        return found | {repr(fate) for fate in fates.items()}

    def meaning(
        self, names: dict[int, Any], starts: Mapping[int, int] | None = None, kernels: Sequence[object] = ()
    ) -> list[object]:
        """The pass with storages renamed: by `names` if they come from outside, by order if the pass makes them. Passes of
        equal meaning do the same to the same memory. `starts` has the byte at which a tensor begins in its storage, if
        not 0. Kernels go by their number, or by their entry in `kernels`.
        """
        known = dict(names)
        for op in self.operations:
            if op.kind == "alloc":
                known[op.fields["storage"]] = ("made", len(known))
            for view in op.fields.get("results", ()):
                known.setdefault(view.storage, ("made", len(known)))

        def renamed(tree: object) -> object:
            if isinstance(tree, View):
                start = (starts or {}).get(tree.storage, 0) // tree.itemsize
                name = known.get(tree.storage, ("other", tree.storage))
                return (name, tree.offset - start, *tree.to_json()[2:])
            if isinstance(tree, Launch):
                return renamed(tree.to_json())
            if isinstance(tree, dict):
                if isinstance(tree.get("view"), list):
                    return renamed(View.read(tree["view"]))
                again = {name: renamed(value) for name, value in tree.items()}
                number = tree.get("kernel")
                if type(number) is int and number < len(kernels):
                    again["kernel"] = kernels[number]  # not renamed: it may refer to itself
                return again
            return [renamed(item) for item in tree] if isinstance(tree, (list, tuple)) else tree

        steps = [
            (op.kind, renamed({name: value for name, value in op.fields.items() if name != "storage"}))
            for op in self.operations
        ]
        return [*steps, renamed(self.output)]


def _scalars(launch: Launch) -> list[object]:
    """The arguments, of tensors the shape and the dtype."""
    tensors = [(name, view.shape, view.dtype) for name, view in launch.views]
    return [tensors, {name: _plain(value) for name, value in launch.arguments.items()}]


def same_but_for_strides(one: object, other: object, its: Container[int], others: Container[int]) -> bool:
    """Whether nests are equal, except for integers that are strides: one in `its`, the other in `others`."""
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = [(value, other.get(name)) for name, value in one.items()]
        return one.keys() == other.keys() and all(same_but_for_strides(*pair, its, others) for pair in pairs)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(
            same_but_for_strides(*pair, its, others) for pair in zip(one, other, strict=True)
        )
    if type(one) is int and type(other) is int and one != other:
        return one in its and other in others
    return one == other


def _plain(value: dict[str, Any]) -> Any:
    """An argument without its tensors."""
    if "tuple" in value:
        return [_plain(item) for item in value["tuple"]]
    return value["descriptor"][1:] if "descriptor" in value else None if "view" in value else value


def _operation(step: Any, known: dict[int, int]) -> Operation:
    kind = step["kind"]
    if kind not in _KINDS:
        raise TapeError("unknown operation")
    if kind == "alloc":
        storage, size, dtype = whole(step["storage"], _MAX_STORAGE), whole(step["bytes"]), str(step["dtype"])
        if storage in known or dtype not in _ITEMSIZES:
            raise TapeError("bad allocation")
        known[storage] = size
        return Operation(kind, {"storage": storage, "bytes": size, "dtype": dtype})
    if kind == "fill":
        value = step["value"]
        if isinstance(value, int) and abs(value) >= 2**64:
            raise TapeError("bad fill")
        if not isinstance(value, (bool, int, float)):
            value = float(str(value))
        return Operation(kind, {"view": _inside(View.read(step["view"]), known), "value": value})
    if kind == "arange":
        view = _inside(View.read(step["view"]), known)
        return Operation(kind, {"view": view, "start": float(step["start"]), "step": float(step["step"])})
    if kind == "numbers":
        view = _inside(View.read(step["view"]), known)
        values = [_number(value, known) for value in step["values"]]
        if len(values) != view.numel or len(values) > MOST_NUMBERS:
            raise TapeError("bad numbers")
        return Operation(kind, {"view": view, "values": values})
    if kind == "copy":
        target, source = (_inside(View.read(step[name]), known) for name in ("target", "source"))
        return Operation(kind, {"target": target, "source": source, "casts": target.dtype != source.dtype})
    if kind == "launch":
        launches = [Launch.read(item) for item in step["launches"]]
        if not 1 <= len(launches) <= 512:
            raise TapeError("a launch without alternatives")
        for launch in launches:
            for _, view in launch.views:
                _inside(view, known)
        restored = step.get("restored")
        return Operation(kind, {"launches": launches, "restored": restored and list(map(str, restored))})
    name = str(step["name"])
    if len(name) > 100 or not _OPERATOR.fullmatch(name):
        raise TapeError("bad operator")
    for view in _views(step["arguments"]):
        _inside(view, known)
    results = [View.read(item) for item in step["results"]]
    for view in results:
        known.setdefault(view.storage, view.end)
        _inside(view, known)
    return Operation("aten", {"name": name, "arguments": step["arguments"], "results": results})


def _number(value: object, known: dict[int, int]) -> int | View:
    if isinstance(value, dict):
        return _inside(View.read(value["view"]), known)
    if type(value) is not int or abs(value) >= 2**64:
        raise TapeError("bad number")
    return value


def _inside(view: View, known: dict[int, int]) -> View:
    if view.storage not in known or view.end > known[view.storage]:
        raise OutsideStorage("a tensor reaches outside its memory")
    return view


def _views(tree: object) -> Iterator[View]:
    """Every `{"view": ...}` of a nest, in order."""
    if isinstance(tree, dict):
        if "view" in tree:
            yield View.read(tree["view"])
            return
        for value in tree.values():
            yield from _views(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _views(value)
