"""GPU memory that judge and worker share: an arena that the judge allocates and the worker maps by CUDA IPC.

An arena is a separate allocation, so mapping it exposes nothing else of the judge's memory. Its tensors are at least
512 bytes apart, with a pattern between them that reveals writes outside a tensor. Nothing is pickled: a handle is 64
bytes, sent as text.

Source: CUDA driver API, "Memory Management" (cuIpcGetMemHandle, cuIpcOpenMemHandle).
"""

from __future__ import annotations

import ctypes
import functools
import secrets
from collections.abc import Sequence
from typing import TypedDict

import torch

from kernelwright.drawing import DRAWING
from kernelwright.errors import InfrastructureError
from kernelwright.verify.gpu.admission import OutOfMemory
from kernelwright.verify.reference.expected import Expected

_BLOCK = 2 << 20
"""The driver takes small allocations from blocks of this size, and a handle opens a whole block."""
_NO_MEMORY = 2
"""CUDA_ERROR_OUT_OF_MEMORY."""
ON_GPU = "no GPU memory left"
"""How a device process's message of this begins."""
_ALIGN = 512
_GUARD = 512
GUARD_BYTE = 0x7F
"""3.4e38 as float32, NaN as float16: reveals reads outside a tensor, too."""


class _Handle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_ubyte * 64),)


@functools.cache
def _driver() -> object:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise InfrastructureError(f"no CUDA driver: {error}") from None


def _call(name: str, *args: object) -> None:
    status = getattr(_driver(), name)(*args)
    if status == _NO_MEMORY:
        raise OutOfMemory(f"{name} found no GPU memory (CUDA error {status})")
    if status != 0:
        raise InfrastructureError(f"{name} failed with CUDA error {status}")


def enter_context(device: int) -> None:
    """Make torch's own context current in this thread, so that driver calls work in it."""
    torch.cuda.set_device(device)
    torch.empty(1, device=f"cuda:{device}")
    context = ctypes.c_void_p()
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ctypes.c_int(device))
    _call("cuCtxSetCurrent", context)


class Raw:
    """Lets torch see foreign GPU memory without a copy (the CUDA array interface, version 3)."""

    def __init__(self, pointer: int, size: int, owner: object) -> None:
        self.owner = owner
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
            "strides": None,
        }


def extent(tensor: torch.Tensor) -> int:
    """Bytes from a tensor's first element to the end of its last, strides included."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """A view of a tensor's memory from its first element to its last, gaps included."""
    return tensor.as_strided((extent(tensor) // tensor.element_size(),), (1,))


_DIGESTED = 1 << 22
"""Elements hashed at a time."""


@functools.cache
def _factors(device: str) -> torch.Tensor:
    """Secret odd factors: if any element changes, its sum of products with them changes."""
    own = torch.Generator(device).manual_seed(secrets.randbits(63))  # not torch's default one
    return torch.randint(-(2**62), 2**62, (_DIGESTED,), device=device, generator=own) * 2 + 1


def digest(tensor: torch.Tensor) -> int:
    """A 64-bit hash of a tensor's bits; two tensors that differ collide with a probability of about 2^-60."""
    whole = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    kinds = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = whole.contiguous().reshape(-1).view(kinds[whole.element_size()])
    factors, total = _factors(str(tensor.device)), 0
    for piece in bits.split(_DIGESTED):
        part = int((piece.to(torch.int64) * factors[: piece.numel()]).sum())
        total = (total * 6364136223846793005 + part) & (2**64 - 1)
    return total


class Slot(TypedDict):
    """A tensor's place in the arena."""

    offset: int
    shape: list[int]
    stride: list[int]
    dtype: str


class Scattered(Slot):
    """The place of a range of a tensor's elements."""

    at: int
    """Index in the tensor of the first of them."""


class Mapping:
    """GPU memory at `pointer`, ours or another process's."""

    def __init__(self, pointer: int, size: int, device: int) -> None:
        self.pointer, self.size, self.device = pointer, size, device

    def view(
        self, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype
    ) -> torch.Tensor:
        """A tensor over part of the memory, with its own storage. Raises ValueError if it does not fit."""
        probe = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
        size = extent(probe)
        if offset < 0 or offset + size > self.size:
            raise ValueError("tensor outside the arena")
        if size == 0:
            return torch.empty(shape, dtype=dtype, device=f"cuda:{self.device}")
        raw = torch.as_tensor(Raw(self.pointer + offset, size, self), device=f"cuda:{self.device}")
        return raw.view(dtype).as_strided(shape, stride)

    def close(self) -> None:
        """Unmap another process's memory."""
        pointer, self.pointer = self.pointer, 0
        _call("cuIpcCloseMemHandle", ctypes.c_uint64(pointer))


class Arena(Mapping):
    """The judge's memory. Another process opens it by `handle`; `free` releases it (no worker may still use it)."""

    def __init__(self, size: int, device: int) -> None:
        """Raises OutOfMemory if there is no room even after torch gives back this process's unused memory."""
        size = -(-max(size, 1) // _BLOCK) * _BLOCK
        pointer = ctypes.c_uint64()
        try:
            _call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        except OutOfMemory:
            with DRAWING:
                torch.cuda.empty_cache()
            _call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        super().__init__(int(pointer.value), size, device)
        raw = _Handle()
        _call("cuIpcGetMemHandle", ctypes.byref(raw), pointer)
        self.handle = bytes(raw.reserved).hex()
        self._used = 0
        self.fences: list[tuple[int, int]] = []
        """(offset, size) of the guards."""

    def bytes(self, offset: int, size: int) -> torch.Tensor:
        return self.view(offset, (size,), (1,), torch.uint8)

    def place(self, tensor: torch.Tensor) -> Slot:
        """Copy a tensor into the arena, with its strides; returns its slot."""
        described = self.reserve(tensor)
        self.locate(described).copy_(tensor)
        return described

    def reserve(self, like: torch.Tensor) -> Slot:
        """Reserve room for a tensor of this shape, stride and dtype, with a guard behind it."""
        offset = -(-self._used // _ALIGN) * _ALIGN
        size = extent(like)
        end = offset + size
        fence = -(-end // _ALIGN) * _ALIGN + _GUARD - end
        if end + fence > self.size:
            raise InfrastructureError("the arena is too small for the task")
        self._used = end + fence
        self.bytes(end, fence).fill_(GUARD_BYTE)
        self.fences.append((end, fence))
        return {
            "offset": offset,
            "shape": list(like.shape),
            "stride": list(like.stride()),
            "dtype": str(like.dtype).removeprefix("torch."),
        }

    def slots(self, expected: Sequence[Expected | torch.Tensor]) -> list[Slot]:
        """Reserve poisoned room for outputs of the `expected` shapes and dtypes."""
        from kernelwright.verify.trace.pretend_cuda import poison_

        found = []
        for item in expected:
            found.append(self.reserve(torch.empty(item.shape, dtype=item.dtype, device="meta")))
            poison_(self.locate(found[-1]))
        return found

    def locate(self, described: Slot) -> torch.Tensor:
        return locate(self, described)

    def guards_intact(self) -> bool:
        """Whether the pattern between the tensors is unchanged."""
        return all(bool((self.bytes(offset, size) == GUARD_BYTE).all()) for offset, size in self.fences)

    def reset(self) -> None:
        """Make the arena empty again."""
        self._used = 0
        self.fences.clear()

    def free(self) -> None:
        if self.pointer:
            pointer, self.pointer = self.pointer, 0
            _call("cuMemFree_v2", ctypes.c_uint64(pointer))


def open_arena(handle: str, size: int, device: int) -> Mapping:
    """Map another process's arena. Raises InfrastructureError if CUDA IPC does not work."""
    raw = _Handle.from_buffer_copy(bytes.fromhex(handle))
    pointer = ctypes.c_uint64()
    _call("cuIpcOpenMemHandle_v2", ctypes.byref(pointer), raw, ctypes.c_uint(1))
    return Mapping(int(pointer.value), size, device)


def locate(memory: Mapping, described: Slot) -> torch.Tensor:
    """The tensor that `Arena.place` or `Arena.reserve` described."""
    from kernelwright.verify.sandbox.channel import DTYPES

    shape, stride = tuple(map(int, described["shape"])), tuple(map(int, described["stride"]))
    return memory.view(int(described["offset"]), shape, stride, DTYPES[described["dtype"]])
