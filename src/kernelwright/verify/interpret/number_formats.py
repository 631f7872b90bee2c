"""Number formats that numpy lacks or that Triton's interpreter treats differently from a GPU: bfloat16, TF32, 8 bits, integer
limits."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

from kernelwright.verify.interpret.endings import Unsupported
from kernelwright.verify.interpret.memory import spread

Handle: TypeAlias = interpreter.TensorHandle
_UPDATES: dict[str, np.ufunc] = {"ADD": np.add, "MAX": np.fmax, "MIN": np.fmin}
_own_np_dtype = interpreter._get_np_dtype
_NP_DTYPES: dict[str, np.dtype] = {}
"""By name of a scalar type."""


def from_bfloat16_bits(handle: Handle) -> Handle:
    """bfloat16 as float32: Triton's interpreter keeps raw 16-bit patterns, which numpy cannot compute with."""
    if not handle.dtype.scalar.is_bf16():
        return handle
    data = (handle.data.astype(np.uint32) << 16).view(np.float32)
    return interpreter.TensorHandle(data, tl.float32)


def to_bfloat16_bits(handle: Handle) -> Handle:
    """float32 results back to bfloat16; comparisons stay booleans."""
    if handle.data.dtype.kind != "f":
        return handle
    return interpreter.TensorHandle(to_bf16(handle.data.astype(np.float32)), tl.bfloat16)


def flush(x: np.ndarray) -> np.ndarray:
    """Single-precision numbers with denormals as 0, as by `.ftz`; other dtypes unchanged."""
    return x * (np.abs(x) >= np.finfo(np.float32).tiny) if x.dtype == np.float32 else x


def in_single(values: Sequence[tl.tensor], function: Callable[[Sequence[tl.tensor]], Any]) -> list[tl.tensor]:
    """A reduction or scan in which bfloat16 tensors are computed in single precision: numpy has no bfloat16."""
    narrow = [value.dtype.scalar.is_bf16() for value in values]
    if not any(narrow):
        return function(values)
    wide = tuple(
        _tensor_of(from_bfloat16_bits(value.handle)) if is_narrow else value
        for value, is_narrow in zip(values, narrow, strict=True)
    )
    made = function(wide)
    several = list(made) if isinstance(made, list | tuple) else [made]
    return [
        _tensor_of(to_bfloat16_bits(one.handle)) if is_narrow else one
        for one, is_narrow in zip(several, narrow, strict=False)
    ]


def _tensor_of(handle: Handle) -> tl.tensor:
    shape = handle.data.shape
    kind = handle.dtype.scalar
    single = handle.data.size == 1 and shape in ((), (1,))
    return tl.tensor(handle, kind if single else tl.block_type(kind, list(shape)))


def updated_in_bf16(op: str, pointers: np.ndarray, val: Handle, mask: Handle) -> np.ndarray:
    """An atomic update of bfloat16, lane by lane; returns the previous values."""
    function = next((made for name, made in _UPDATES.items() if name in op), None)
    if function is None:
        raise Unsupported(f"{op} in bfloat16 is not interpreted")
    addresses = np.ascontiguousarray(pointers).reshape(-1)
    values = np.broadcast_to(val.data, pointers.shape).reshape(-1)
    before = np.zeros(addresses.shape, dtype=np.uint16)
    for lane in np.flatnonzero(spread(mask.data, pointers.shape).reshape(-1)).tolist():
        there = ctypes.c_uint16.from_address(int(addresses[lane]))
        before[lane] = there.value
        pair = (np.array([there.value, values[lane]], dtype=np.uint32) << 16).view(np.float32)
        there.value = int(to_bf16(function(pair[:1], pair[1:]))[0])
    return before.reshape(pointers.shape)


def to_two_bf16(handle: Handle) -> Handle:
    """float32 as the sum of two bfloat16 numbers, which is what three products of them keep."""
    data = np.ascontiguousarray(handle.data, dtype=np.float32)
    first = (to_bf16(data).astype(np.uint32) << 16).view(np.float32)
    second = (to_bf16(data - first).astype(np.uint32) << 16).view(np.float32)
    return interpreter.TensorHandle(first + second, handle.dtype)


_BYTES = {tl.float8e4nv: torch.float8_e4m3fn, tl.float8e5: torch.float8_e5m2}


def from_8_bits(handle: Handle) -> Handle | None:
    """Floats of 8 bits in single precision (Triton's interpreter takes infinities and NaN for numbers); None for other types."""
    kind = _BYTES.get(handle.dtype.scalar)
    if kind is None:
        return None
    data = torch.tensor(np.ascontiguousarray(handle.data)).view(kind).float().numpy()
    return interpreter.TensorHandle(data.reshape(handle.data.shape), tl.float32)


def to_8_bits(handle: Handle, dtype: tl.dtype) -> Handle | None:
    """Floats rounded to the nearest of 8 bits, those beyond the largest becoming it, as `cvt.rn.satfinite` does (Triton's
    interpreter loses the carry of a significand into the exponent); None for other types."""
    kind = _BYTES.get(dtype.scalar)
    if kind is None or handle.data.dtype.kind != "f":
        return None
    most = torch.finfo(kind).max
    data = torch.tensor(np.ascontiguousarray(handle.data)).clamp(-most, most).to(kind).view(torch.uint8)
    return interpreter.TensorHandle(data.numpy().reshape(handle.data.shape), dtype.scalar)


def to_tf32(handle: Handle) -> Handle:
    """float32 rounded to the 10-bit mantissa that tensor cores read (Triton 3.6's interpreter keeps all bits)."""
    bits = np.ascontiguousarray(handle.data).view(np.uint32)
    rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)
    data = np.where(np.isfinite(handle.data), rounded.view(np.float32), handle.data)
    return interpreter.TensorHandle(data, tl.float32)


def to_bf16(data: np.ndarray) -> np.ndarray:
    """float32 to bfloat16 bit patterns, to nearest even like a GPU (Triton's interpreter truncates)."""
    bits = np.ascontiguousarray(data).view(np.uint32)
    rounded = ((bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) >> 16).astype(np.uint16)
    return np.where(np.isnan(data), np.uint16(0x7FC0) | (bits >> 16).astype(np.uint16), rounded)


def np_dtype(dtype: tl.dtype) -> np.dtype:
    """A cached lookup: Triton builds its table of types at every call, a tenth of an interpreted kernel's time."""
    scalar = dtype.scalar
    if type(scalar) is not tl.dtype:
        return np.dtype(np.uint64) if scalar.is_ptr() else _own_np_dtype(scalar)
    found = _NP_DTYPES.get(scalar.name)
    if found is None:
        found = _NP_DTYPES[scalar.name] = _own_np_dtype(scalar)
    return found


def as_integers(handle: Handle) -> Handle:
    """The same bits as integers of the same size."""
    if handle.data.dtype.kind != "f":
        return handle
    kind = {2: (np.int16, tl.int16), 4: (np.int32, tl.int32), 8: (np.int64, tl.int64)}[
        handle.data.dtype.itemsize
    ]
    return interpreter.TensorHandle(handle.data.view(kind[0]), kind[1])


def beyond(values: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Mask of numbers that an integer type cannot hold."""
    limits = np.iinfo(kind)
    found: np.ndarray = ~((values > limits.min - 1.0) & (values < limits.max + 1.0))
    return found
