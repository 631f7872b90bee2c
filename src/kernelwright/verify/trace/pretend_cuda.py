"""A simulated CUDA device: candidate code that says `.cuda()` runs unchanged on CPU or meta tensors.

Inside `PretendCuda`, `device="cuda"`, `.cuda()`, `x.is_cuda`, `x.device` and `torch.cuda.*` behave as on a
machine with one GPU. Tensors made without a device are host tensors, as they would be there, and kernel launches
refuse them.

The answers of `torch.cuda` functions are in `stand_ins.py`.

Not guaranteed: a thread that the candidate starts is outside the mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch.overrides import TorchFunctionMode

from kernelwright.verify import one_call
from kernelwright.verify.structures import Args, Kwargs, Op
from kernelwright.verify.trace.questions import FLIPS
from kernelwright.verify.trace.surroundings import Surroundings

POISON_BITS = {8: 0x7FF8_DEAD_BEEF_DEAD, 4: 0x7FC0_DEAD, 2: 0x7E5A, 1: 0x5A}
"""Bit patterns of fresh memory by item size: quiet NaNs for float64, float32 and float16."""
POISON_BF16 = 0x7FC5
"""For bfloat16, which the item size does not tell from float16."""
_INT_BY_SIZE = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}
_CUDA = torch.device("cuda", 0)


def poison_(tensor: torch.Tensor) -> torch.Tensor:
    """Fill with a recognisable NaN (floats) or an odd pattern (integers); bool and complex are left alone."""
    if tensor.is_meta or tensor.numel() == 0 or tensor.dtype == torch.bool or tensor.dtype.is_complex:
        return tensor
    bits = POISON_BF16 if tensor.dtype == torch.bfloat16 else POISON_BITS[tensor.element_size()]
    tensor.view(_INT_BY_SIZE[tensor.element_size()]).fill_(bits)
    return tensor


def poison_mask(tensor: torch.Tensor) -> torch.Tensor:
    """Mask, in the tensor's shape, of elements that hold the exact poison pattern."""
    bits = POISON_BF16 if tensor.dtype == torch.bfloat16 else POISON_BITS[tensor.element_size()]
    return tensor.contiguous().view(_INT_BY_SIZE[tensor.element_size()]) == bits


# Aten operators that are allocation, views or metadata: allowed outside kernels under every policy.
ALLOCATION = frozenset(
    [
        "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "zeros",
        "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full", "zero_",
        "fill_", "zero", "fill", "arange", "scalar_tensor", "lift_fresh", "lift_fresh_copy", "resize_",
        "set_", "record_stream",
    ]
)  # fmt: skip
VIEWS = frozenset(
    [
        "view", "_unsafe_view", "_reshape_alias", "reshape", "expand", "permute", "t", "transpose", "slice",
        "select", "unsqueeze", "squeeze", "as_strided", "alias", "detach", "detach_", "split",
        "split_with_sizes", "chunk", "unbind", "narrow", "unfold", "diagonal", "view_as_real",
        "view_as_complex", "real", "imag", "expand_as", "movedim", "flatten", "unflatten", "swapaxes",
        "broadcast_to", "_reshape_copy", "t_", "transpose_", "unsqueeze_", "squeeze_", "as_strided_",
        "tensor_split", "_neg_view", "_conj",
    ]
)  # fmt: skip
# Copies move bytes and compute nothing; an honest kernel calls `.contiguous()` on a permuted input.
COPIES = frozenset(
    ["clone", "contiguous", "copy_", "_to_copy", "_copy_from", "pin_memory", "_pin_memory", "is_pinned"]
)
METADATA = frozenset(
    ["sym_size", "sym_numel", "sym_stride", "sym_storage_offset", "size", "stride", "is_same_size", "dim", "_linalg_check_errors"]
)  # fmt: skip


def _is_cuda(device: Any) -> bool:
    if isinstance(device, str):
        return device.startswith(("cuda", "hip"))
    if isinstance(device, int) and not isinstance(device, bool):
        return True
    return isinstance(device, torch.device) and device.type == "cuda"


_FACTORIES = frozenset(
    getattr(torch, name)
    for name in [
        "empty", "empty_strided", "zeros", "ones", "full", "arange", "tensor", "rand", "randn", "randint",
        "eye", "linspace", "logspace", "as_tensor", "scalar_tensor", "empty_permuted", "tril_indices",
        "triu_indices", "randperm", "normal", "from_numpy",
    ]
)  # fmt: skip
_GETTERS = {
    torch.Tensor.is_cuda.__get__: lambda on_host: not on_host,  # type: ignore[attr-defined]
    torch.Tensor.is_cpu.__get__: lambda on_host: on_host,  # type: ignore[attr-defined]
    torch.Tensor.device.__get__: lambda on_host: torch.device("cpu") if on_host else _CUDA,
    torch.Tensor.get_device: lambda on_host: -1 if on_host else 0,
    torch.Tensor.is_meta.__get__: lambda on_host: False,  # type: ignore[attr-defined]
}
_REQUIRES_GRAD = torch.Tensor.requires_grad.__get__  # type: ignore[attr-defined]
_IS_LEAF = torch.Tensor.is_leaf.__get__  # type: ignore[attr-defined]
_GRAD_FN = torch.Tensor.grad_fn.__get__  # type: ignore[union-attr]
_OUTPUT_NR = torch.Tensor.output_nr.__get__  # type: ignore[attr-defined]
_STORAGES = (torch.Tensor.untyped_storage, torch.Tensor.storage)


def _computed_tensor() -> torch.Tensor:
    """A tensor with a `grad_fn`, computed outside of all modes."""
    with torch.utils._python_dispatch._disable_current_modes(), torch.enable_grad():
        return torch.ones(1, requires_grad=True) * 2.0


class Refused(Exception):
    """A question that a real GPU would have answered. A candidate could catch the exception and so detect the judge;
    `last` keeps it in any case."""

    last: ClassVar[Refused | None] = None

    def __init__(self, text: str) -> None:
        super().__init__(text)
        Refused.last = self


class HostRead(Refused):
    """The host asked for a value that only the device has."""


class Unmodelled(Refused):
    """The host asked `torch.cuda` for something that is not modelled."""


_READERS = (torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.__array__, torch.Tensor.__repr__)
_FROM_DATA = (torch.tensor, torch.as_tensor, torch.from_numpy)


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage:
    """The real storage; `untyped_storage()` is simulated."""
    with torch._C.DisableTorchFunction():
        return tensor.untyped_storage()


def has_data(tensor: torch.Tensor) -> bool:
    """Whether a tensor has memory behind it; `is_meta` is simulated."""
    return storage_of(tensor).device.type != "meta"


class DeviceStorage:
    """A simulated `untyped_storage()` of a device tensor. It cannot be written or resized."""

    device, dtype, is_cuda, is_cpu, is_sparse = _CUDA, torch.uint8, True, False, False

    def __init__(self, address: int, size: int) -> None:
        self._address, self._size = address, size

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceStorage) and other._address == self._address

    def __hash__(self) -> int:
        return hash(self._address)

    def size(self) -> int:
        return self._size

    nbytes = size

    def data_ptr(self) -> int:
        return self._address

    def element_size(self) -> int:
        return 1

    def get_device(self) -> int:
        return 0

    def is_pinned(self) -> bool:
        return False

    def is_shared(self) -> bool:
        return True

    def type(self) -> str:
        return "torch.cuda.UntypedStorage"

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        raise HostRead(f"`{name}` of a storage reads or changes a tensor's memory behind the harness")


class PretendCuda(TorchFunctionMode):
    """Redirects device arguments to `real` (`cpu` or `meta`) and keeps track of host tensors."""

    def __init__(
        self,
        real: str,
        host: dict[int, torch.UntypedStorage] | None = None,
        surroundings: Surroundings | None = None,
    ) -> None:
        """`host` is the table of host tensors, which modes may share; `surroundings` draws addresses."""
        super().__init__()
        self.real = torch.device(real)
        self._host = {} if host is None else host
        self._surroundings = surroundings
        self._taken: list[tuple[int, int]] = []
        self._addresses: dict[int, tuple[int, torch.UntypedStorage]] = {}
        self._given: dict[int, torch.UntypedStorage] = {}
        self.upload: Callable[[torch.Tensor], torch.Tensor] | None = None
        """Makes a tensor without data in place of a real one, if `real` has no data."""
        self.tell: Callable[[torch.Tensor, bool], torch.Tensor] | None = None
        """The same for a tensor made of Python numbers, on the device or on the host."""
        self.whole: Callable[[Op, Args, Kwargs], object] | None = None
        """Runs on tensors without data as one operator what is one on a GPU (`one_call.py`), where no backward pass follows."""
        self.listed = 0
        """How many Python numbers became tensors since the call began."""

    def on_host(self, tensor: torch.Tensor) -> bool:
        """True for a tensor that would live in host memory on a machine with a GPU."""
        return bool(self._host) and storage_of(tensor)._cdata in self._host

    def _out_of_reach(self, tensor: torch.Tensor) -> bool:
        """Whether this is a device tensor whose values only a constructor may read, and none is running."""
        return self.upload is not None and not self.on_host(tensor)

    def mark_host(self, tensor: object) -> Any:
        if isinstance(tensor, torch.Tensor) and type(tensor).__name__ != "FakeTensor":
            storage = storage_of(tensor)
            self._host[storage._cdata] = storage
        return tensor

    def address(self, tensor: torch.Tensor) -> int:
        """The simulated `data_ptr()` of a tensor without data: unique, and aligned as by an allocator."""
        return self._base(storage_of(tensor)) + int(tensor.storage_offset()) * tensor.element_size()

    def _base(self, storage: torch.UntypedStorage) -> int:
        known = self._addresses.get(storage._cdata)
        if known is None:
            if self._surroundings is None:
                self._surroundings = Surroundings(environment=False)
            base = self._surroundings.address(self._taken, storage.nbytes())
            known = self._addresses[storage._cdata] = base, storage  # kept alive, so that no key is reused
        return known[0]

    def _shown(self, storage: torch.UntypedStorage) -> DeviceStorage:
        """What a candidate sees of a tensor's memory."""
        size, given = storage.nbytes(), storage._cdata in self._given
        behind = self._surroundings.behind if given and self._surroundings is not None else 0.0
        return DeviceStorage(self._base(storage), size + int(size * behind))

    def lies_at(self, address: int) -> tuple[torch.UntypedStorage, int] | None:
        """The memory at a simulated address, and the offset in it (bytes)."""
        for base, storage in self._addresses.values():
            if base <= address < base + max(1, storage.nbytes()):
                return storage, address - base
        return None

    def adopt(self, tensor: torch.Tensor) -> torch.Tensor:
        """Mark a tensor that the harness made as a device tensor."""
        self._host.pop(storage_of(tensor)._cdata, None)
        return tensor

    def adopt_input(self, tensor: torch.Tensor) -> torch.Tensor:
        """Mark a tensor that the harness made as a device tensor passed to `forward`."""
        storage = storage_of(tensor)
        self._given[storage._cdata] = storage
        return self.adopt(tensor)

    def _is_computed(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor reports that another layer computed it: in some surroundings an input, or a view of one."""
        around = self._surroundings
        if around is None or around.learning or not around.computed or not tensor.is_floating_point():
            return False
        return storage_of(tensor)._cdata in self._given

    def adopt_alone(self, tensor: torch.Tensor) -> None:
        """Move a tensor to the device without a copy if nothing else uses its memory: a layer may fill most of the process's
        memory."""
        storage = storage_of(tensor)
        if torch._C._storage_Use_Count(storage._cdata) <= 2:  # the tensor and the table of host tensors
            self.adopt(tensor)

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> object:
        kwargs = kwargs or {}
        getter = _GETTERS.get(func)
        if getter is not None:
            return getter(self.on_host(args[0]))
        if (flip := FLIPS.get(func)) is not None and self._surroundings is not None:
            usual = func(*args, **kwargs)
            return flip[1](usual) if flip[0] in self._surroundings.otherwise else usual
        if func is torch.Tensor.data_ptr and not has_data(args[0]):
            return self.address(args[0])
        if func in _STORAGES and not self.on_host(args[0]) and not has_data(args[0]):
            return self._shown(storage_of(args[0]))
        if func is torch.Tensor.type and len(args) == 1 and not kwargs and not self.on_host(args[0]):
            return f"torch.cuda.{func(*args).rpartition('.')[2]}"
        if func is torch.Tensor.cuda or func is torch.Tensor.cpu:
            return self._move(args[0], to_host=func is torch.Tensor.cpu)
        if func is torch.Tensor.to:
            return self._to(args, kwargs)
        if func is torch.Tensor.numpy and not self.on_host(args[0]):
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")
        if func in _READERS and (not has_data(args[0]) or self._out_of_reach(args[0])):
            raise HostRead(f"`{func.__name__}` reads tensor elements on the host")
        if func == _REQUIRES_GRAD and self.upload is not None and self._surroundings is not None:
            wanted = self._surroundings.wanted and not self._surroundings.learning
            return wanted or bool(func(*args))
        if func in (_IS_LEAF, _GRAD_FN, _OUTPUT_NR) and self._is_computed(
            args[0]
        ):  # as the second part of a chunk
            return False if func == _IS_LEAF else 1 if func == _OUTPUT_NR else _computed_tensor().grad_fn
        op = one_call.overload(func, args, kwargs)
        if op is not None and self.whole is not None and self._runs_whole(args[0]):
            return self.whole(op, args, kwargs)
        if func in (torch.Tensor.is_inference, torch.is_inference) and self._surroundings is not None:
            return self._surroundings.inference
        if func in (torch.Tensor.pin_memory, torch.Tensor.record_stream):
            return args[0] if func is torch.Tensor.pin_memory else None
        if func in _FROM_DATA and self.tell is not None and not any(map(torch.is_tensor, args)):
            on_device = _is_cuda(kwargs.pop("device", None))
            # Tensors made of Python numbers have data.
            with torch.utils._python_dispatch._disable_current_modes():
                made = func(*args, **kwargs)
            if isinstance(args[0] if args else kwargs.get("data"), (list, tuple)):
                self.listed += made.numel()
            out = self.tell(made, on_device)
            return out if on_device else self.mark_host(out)
        if "device" in kwargs and kwargs["device"] is not None:
            to_host = not _is_cuda(kwargs["device"])
            out = func(*args, **{**kwargs, "device": self.real})
            return self.mark_host(out) if to_host else out
        if func in _FACTORIES:
            if self.real.type == "meta" and func not in (torch.from_numpy, torch.as_tensor):
                kwargs = {**kwargs, "device": self.real}
            return self.mark_host(func(*args, **kwargs))
        out = func(*args, **kwargs)
        tensors = isinstance(out, torch.Tensor) and args and isinstance(args[0], torch.Tensor)
        if self._host and tensors and self.on_host(args[0]):
            self.mark_host(out)  # results follow their first operand (views share the storage already)
        return out

    def _runs_whole(self, tensor: torch.Tensor) -> bool:
        """Whether what is one operator on a GPU is one on this tensor: on the device, where no backward pass follows."""
        learning = self._surroundings is not None and self._surroundings.learning
        return not learning and not self.on_host(tensor)

    def _move(self, tensor: torch.Tensor, to_host: bool) -> torch.Tensor:
        if self.on_host(tensor) == to_host:
            return tensor
        with torch._C.DisableTorchFunctionSubclass():
            moved = tensor.clone()
        return self.mark_host(moved) if to_host else moved

    def _to(self, args: Any, kwargs: dict[str, object]) -> torch.Tensor:
        tensor, *rest = args
        device = kwargs.pop("device", None)
        kept = []
        for value in rest:
            named = _is_cuda(value) or getattr(value, "type", value) == "cpu"
            if device is None and named and not isinstance(value, torch.dtype):
                device = value
            elif isinstance(value, torch.Tensor):
                device = torch.device("cpu") if self.on_host(value) else _CUDA
                kept.append(value.dtype)
            else:
                kept.append(value)
        if device is not None:
            tensor = self._move(tensor, to_host=not _is_cuda(device))
        on_host = self.on_host(tensor)
        kwargs.pop("non_blocking", None)
        kept = [value for value in kept if value is not None and not isinstance(value, bool)]
        if not kept and not kwargs:
            return tensor
        out: torch.Tensor = torch._C.TensorBase.to(tensor, *kept, **kwargs)  # type: ignore[call-overload]
        return self.mark_host(out) if on_host else out
