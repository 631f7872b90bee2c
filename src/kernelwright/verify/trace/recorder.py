"""Records a call as data: torch operators on storages, launches with their arguments, and configurations that tuning tries.

Tensors have no data; a storage is a number. The format is in `trace/tape.py`.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
from triton.runtime import jit
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelwright.verify import without_data
from kernelwright.verify.structures import Args, DispatchMode, Kwargs, Op, convert, flatten
from kernelwright.verify.trace import binding, kernels
from kernelwright.verify.trace.pretend_cuda import (
    ALLOCATION,
    COPIES,
    METADATA,
    VIEWS,
    HostRead,
    PretendCuda,
    has_data,
    storage_of,
)
from kernelwright.verify.trace.streams import STREAMS
from kernelwright.verify.trace.tape import MOST_NUMBERS, Kind

_READS = frozenset(["_local_scalar_dense", "item", "equal", "is_nonzero", "nonzero", "unique", "_unique2"])


LAZY = "a view that torch negates or conjugates when it is read (`.conj().imag`)"


def is_lazy(tensor: torch.Tensor) -> bool:
    """Whether memory holds other signs than the tensor's values."""
    with torch._C.DisableTorchFunction():
        return tensor.is_neg() or tensor.is_conj()


class HostTensor(Exception):
    """A kernel was given a tensor in host memory."""


class Recorder(DispatchMode):
    """Records aten operators on storages, and the launches passed to `launch`."""

    def __init__(self, cuda: PretendCuda) -> None:
        super().__init__()
        self.cuda = cuda
        self.operations: list[dict[str, Any]] = []
        self.kernels: dict[int, tuple[int, dict[str, Any]]] = {}
        self.constants: dict[int, torch.UntypedStorage] = {}
        """By storage number, the host memory with its initial contents."""
        self._numbers: dict[int, int] = {}
        self._storages: list[torch.UntypedStorage] = []
        """By number; kept alive, so that no address is reused."""
        self._stand_ins: dict[int, torch.Tensor] = {}
        self._alternatives: list[dict[str, object]] | None = None
        self._tuned: list[dict[str, object]] = []
        self.restored: list[str] | None = None
        """Arguments that the current tuner restores after each trial; None if unknown."""
        self.chosen: tuple[dict[str, object], dict[str, object]] | None = None
        """The last launch, and its operation on the tape."""

    # -- storages ------------------------------------------------------------------------------------------

    def number(self, tensor: torch.Tensor) -> int:
        """The number of a tensor's storage; a new storage gets a new number."""
        storage = storage_of(tensor)
        known = self._numbers.get(storage._cdata)
        if known is None:
            known = self._numbers[storage._cdata] = len(self._storages)
            self._storages.append(storage)
            if storage.device.type != "meta":
                self.constants[known] = storage
        return known

    def knows(self, tensor: torch.Tensor) -> bool:
        return storage_of(tensor)._cdata in self._numbers

    def view(self, tensor: torch.Tensor) -> list[Any]:
        """A tensor, serialised as a `tape.View`. Raises HostRead if memory holds other signs than its values."""
        with torch._C.DisableTorchFunction():
            if is_lazy(tensor):
                raise HostRead(LAZY)
            dtype = str(tensor.dtype).removeprefix("torch.")
            return [
                self.number(tensor),
                int(tensor.storage_offset()),
                list(tensor.shape),
                list(tensor.stride()),
                dtype,
            ]

    def size(self, number: int) -> int:
        return self._storages[number].nbytes()

    def upload(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor without data in place of a real one; tensors that share memory still share it."""
        with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction():
            real = tensor.untyped_storage()
            stand_in = self._stand_ins.get(real._cdata)
            if stand_in is None:
                stand_in = torch.empty(real.nbytes(), dtype=torch.uint8, device="meta")
                self._stand_ins[real._cdata] = stand_in
                self.constants[self.number(stand_in)] = real
            made = torch.empty(0, dtype=tensor.dtype, device="meta")
            return made.set_(
                stand_in.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride()
            )

    def tell(self, made: torch.Tensor, on_device: bool) -> torch.Tensor:
        """A tensor without data in place of one made of Python numbers. If it holds few integers, on the device or among them
        addresses of tensors, their values are recorded: addresses as views of the memory there."""
        whole = not made.dtype.is_floating_point and not made.dtype.is_complex and made.dtype != torch.bool
        values = self._values(made) if whole and made.numel() <= MOST_NUMBERS else []
        if not any(isinstance(value, dict) for value in values) and not (values and on_device):
            return self.upload(made)
        with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction():
            out = torch.empty(made.shape, dtype=made.dtype, device="meta")
        self._allocate(out)
        self.add("numbers", view=self.view(out), values=values)
        return out

    def _values(self, made: torch.Tensor) -> list[Any]:
        """The values, with those that are addresses replaced by views of the memory there."""
        with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction():
            values: list[Any] = made.reshape(-1).tolist()
            for place, value in enumerate(values):
                found = self.cuda.lies_at(value)
                if found is not None:
                    storage, offset = found
                    number = self.number(
                        torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
                    )
                    values[place] = {"view": [number, offset, [storage.nbytes() - offset], [1], "uint8"]}
        return values

    # -- operators -----------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Op, types: object, args: Args = (), kwargs: Kwargs = None) -> object:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        if name in _READS:
            return self._read(name, args)
        tensors = flatten([list(args), kwargs])
        given = [tensor for tensor in tensors if has_data(tensor)]
        # Tensors on the device leave their data behind, wherever the module kept them (in an object of its own, a closure).
        if given and (len(given) < len(tensors) or not all(map(self.cuda.on_host, given))):
            args, kwargs = convert((list(args), kwargs), lambda t: self.upload(t) if has_data(t) else t)
        out = without_data.call(func, args, kwargs)
        outs = flatten(out)
        if any(map(has_data, outs)):
            return out  # arithmetic on host memory
        quiet = name in VIEWS or name in METADATA or func._schema.name.startswith("prim::")
        if quiet and all(self.knows(tensor) for tensor in outs):
            return out
        if name in ALLOCATION:
            self._allocation(name, args, kwargs, outs)
        elif name in COPIES:
            self._copy(name, args, outs)
        elif name not in METADATA:
            self._compute(func, args, kwargs, outs)
        return out

    def whole(self, func: Op, args: Args, kwargs: Kwargs) -> object:
        """Record a call as one operator; inside of a mode, torch would run it part by part."""
        with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
            return self.__torch_dispatch__(func, (), args, kwargs)

    def zeros(self, tensor: torch.Tensor) -> None:
        """Record a tensor that nothing has allocated yet as zeros."""
        self._allocate(tensor)
        self.add("fill", view=self.view(tensor), value=0)

    def _allocate(self, tensor: torch.Tensor) -> None:
        if not self.knows(tensor):
            number = self.number(tensor)
            dtype = str(tensor.dtype).removeprefix("torch.")
            self.add("alloc", storage=number, bytes=storage_of(tensor).nbytes(), dtype=dtype)

    def _allocation(self, name: str, args: Any, kwargs: Any, outs: list[torch.Tensor]) -> None:
        if name in ("resize_", "set_"):
            raise HostRead(f"{name} changes a tensor's memory behind the harness")
        for tensor in outs:
            self._allocate(tensor)
        value: Any = None
        if name.startswith(("zero", "new_zeros")):
            value = 0
        elif name.startswith(("ones", "new_ones")):
            value = 1
        elif name in ("full", "full_like", "new_full"):
            value = kwargs.get(
                "fill_value", args[2] if name == "new_full" else args[1] if len(args) > 1 else 0
            )
        elif name in ("fill_", "fill"):
            value = args[1]
        elif name == "scalar_tensor":
            value = args[0]
        elif name == "arange":
            numbers = [x for x in args if isinstance(x, (int, float))]
            start, step = (0 if len(numbers) < 2 else numbers[0]), (numbers[2] if len(numbers) > 2 else 1)
            self.add("arange", view=self.view(outs[0]), start=start, step=kwargs.get("step", step))
            return
        if isinstance(value, torch.Tensor):
            self._copy("copy_", (outs[0], value), outs)
        elif value is not None:
            plain = value if isinstance(value, (bool, int)) or math.isfinite(value) else repr(float(value))
            for tensor in outs:
                self.add("fill", view=self.view(tensor), value=plain)

    def _copy(self, name: str, args: Any, outs: list[torch.Tensor]) -> None:
        source = args[1] if name == "copy_" else args[0]
        for tensor in outs:
            if name != "copy_" and self.knows(tensor):
                continue
            self._allocate(tensor)
            with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction():
                spread = source.expand(tensor.shape)
            self.add("copy", target=self.view(tensor), source=self.view(spread))

    def _compute(self, func: Op, args: tuple[object, ...], kwargs: Any, outs: list[torch.Tensor]) -> None:
        name = str(func) if func.namespace == "aten" else func._schema.name
        arguments = [encode_argument(item, self) for item in args]
        named = {key: encode_argument(item, self) for key, item in kwargs.items() if key != "device"}
        results = [self.view(tensor) for tensor in outs]
        self.add("aten", name=name, arguments={"args": arguments, "kwargs": named}, results=results)

    def _read(self, name: str, args: Any) -> Any:
        tensor = args[0]
        real = self.constants.get(self.number(tensor)) if name in ("_local_scalar_dense", "item") else None
        if real is None:
            raise HostRead(f"`{name}` reads tensor elements on the host")
        with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction():
            if real.device.type == "meta":
                raise HostRead(f"`{name}` reads tensor elements on the host")
            made = torch.empty(0, dtype=tensor.dtype)
            return made.set_(real, tensor.storage_offset(), tensor.shape, tensor.stride()).item()

    def add(self, kind: Kind, **fields: Any) -> None:
        if kind != "alloc":
            STREAMS.work()
        self.operations.append({"kind": kind, **fields})

    # -- launches ------------------------------------------------------------------------------------------

    def launch(self, function: jit.JITFunction, grid: object, args: Args, kwargs: dict[str, object]) -> None:
        """Record `kernel[grid](*args, **kwargs)`. Raises as Triton does for bad arguments."""
        bound = binding.bind(function, grid, args, kwargs)
        record = {
            "kernel": kernels.describe(function, self.kernels),
            "grid": list(bound.grid),
            "arguments": {name: self._argument(name, value) for name, value in bound.values.items()},
            "options": {name: int(bound.options[name]) for name in binding.OPTIONS if name in bound.options},
        }
        if self._alternatives is not None:
            self._alternatives.append(record)
            return
        tuned, self._tuned = self._tuned, []
        found = [item for item in tuned if item["kernel"] == record["kernel"]]
        launches = found if record in found else [record, *found]
        self.add("launch", launches=launches, restored=self.restored if found else None)
        self.chosen = record, self.operations[-1]

    def _argument(self, name: str, value: object) -> Any:
        if isinstance(value, torch.Tensor):
            if self.cuda.on_host(value):
                raise HostTensor(f"Pointer argument `{name}` cannot be accessed from Triton (cpu tensor?)")
            return {"view": self.view(self.upload(value) if has_data(value) else value)}
        if isinstance(value, jit.JITFunction):
            return {"kernel": kernels.describe(value, self.kernels)}
        if isinstance(value, TensorDescriptor):
            return {"descriptor": self._descriptor(name, value)}
        if isinstance(value, tuple):
            return {"tuple": [self._argument(f"{name}[{place}]", item) for place, item in enumerate(value)]}
        found = kernels.constant(value)
        if found is None:
            raise TypeError(f"argument `{name}` has type {type(value).__name__}, which Triton does not take")
        return found

    def _descriptor(self, name: str, given: TensorDescriptor) -> list[object]:
        """See `tape.Descriptor`. Raises TypeError for a base that is no tensor."""
        if not isinstance(given.base, torch.Tensor):
            raise TypeError(f"argument `{name}`: a descriptor of a {type(given.base).__name__}")
        base: dict[str, Any] = self._argument(name, given.base)
        number, offset, _, _, dtype = base["view"]
        shape, strides, block = (
            [int(binding.plain(extent)) for extent in extents]
            for extents in (given.shape, given.strides, given.block_shape)
        )
        view = [number, offset, shape, strides, dtype]
        return [{"view": view}, block, str(given.padding), bool(getattr(given, "round_f32_to_tf32", False))]

    @contextlib.contextmanager
    def only_once(self) -> Iterator[None]:
        """Drop what is recorded inside the block: what a tuner resets after its trials, at the first call of a key only."""
        kept, self.operations = self.operations, []
        try:
            yield
        finally:
            self.operations = kept

    def bench(self, call: Callable[[], object], secret: int) -> list[float]:
        """Record one configuration of an autotuned kernel; the choice is made where there is a device. Returns times (ms) that
        are drawn, but the same whenever this process asks for the same launch."""
        kept, self.operations, self._alternatives = self.operations, [], []
        try:
            call()
            if len(self._alternatives) == 1:
                self._tuned.append(self._alternatives[0])
            dice = random.Random(f"{secret} {[_show(item) for item in self._alternatives]}")
        finally:
            self.operations, self._alternatives = kept, None
        middle = 10.0 ** dice.uniform(-2.5, 0.5)
        return [middle, middle * dice.uniform(0.97, 1.0), middle * dice.uniform(1.0, 1.05)]


def _show(launch: dict[str, Any]) -> str:
    """A launch as text, without its tensors."""
    given = {name: value for name, value in launch["arguments"].items() if "view" not in value}
    return f"{launch['kernel']} {launch['grid']} {given} {launch['options']}"


def encode_argument(value: object, recorder: Recorder) -> object:
    """An aten argument as JSON. Raises TypeError for what cannot be replayed."""
    if isinstance(value, torch.Tensor):
        return {"view": recorder.view(value)}
    if isinstance(value, (list, tuple)):
        return [encode_argument(item, recorder) for item in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, (torch.layout, torch.memory_format, torch.device)):
        return None
    raise TypeError(f"an aten argument of type {type(value).__name__}")


def made_by(operations: list[dict[str, Any]]) -> set[int]:
    """Numbers of the storages that operations allocate."""
    made = {op["storage"] for op in operations if op["kind"] == "alloc"}
    return made | {view[0] for op in operations if op["kind"] == "aten" for view in op["results"]}


def after(earlier: list[dict[str, Any]], tape: dict[str, Any], recorder: Recorder) -> dict[str, object]:
    """The tape with earlier operations put before its own."""
    operations = [*earlier, *tape["operations"]]
    used = {*map(int, tape["foreign"]), *storages(earlier)} - made_by(operations)
    foreign = {str(number): recorder.size(number) for number in used}
    return {**tape, "operations": operations, "foreign": foreign}


def storages(tree: Any) -> Iterator[int]:
    """Numbers of all storages that operations refer to."""
    for op in tree:
        for key in ("view", "target", "source"):
            if key in op:
                yield op[key][0]
        for launch in op.get("launches", ()):
            yield from _kernels_in(launch["arguments"])
        yield from _kernels_in(op.get("values"))
        if op["kind"] == "aten":
            yield from _kernels_in(op["arguments"])


def _kernels_in(tree: object) -> Iterator[int]:
    if isinstance(tree, dict):
        if "view" in tree:
            yield tree["view"][0]
        else:
            for value in tree.values():
                yield from _kernels_in(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _kernels_in(value)


def with_views(tree: object, views: list[Any]) -> object:
    """`channel.encode`'s tree with its tensor numbers replaced by views."""
    if isinstance(tree, dict):
        if "tensor" in tree:
            return {"view": views[tree["tensor"]]}
        return {key: with_views(value, views) for key, value in tree.items()}
    if isinstance(tree, list):
        return [with_views(item, views) for item in tree]
    return tree
