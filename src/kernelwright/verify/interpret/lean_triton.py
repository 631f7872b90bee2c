"""Triton's interpreter without redundant work.

Triton gives every intermediate tensor a block type and shape tuple of its own, compares two tensors' extents one by one
before it finds that they need no broadcast, and repeats every integer operation in 64 bits to look for an overflow that a
compiled kernel would ignore. Together that is two thirds of a kernel's time. Here equal types are made once (they never
change), equal shapes pass at once, data of exactly its type's width is known to fit, and integers wrap as on a GPU. In all
other cases Triton's own functions are called. Written against `triton/language/{core,semantic}.py` and
`triton/runtime/interpreter.py`, 3.6 to 3.9.
"""

from __future__ import annotations

import ast
import dataclasses
import functools

import numpy as np
import torch
from triton.backends.nvidia.compiler import CUDAOptions
from triton.language import core, semantic
from triton.runtime import interpreter, jit

from kernelwright.verify.interpret.rounds import Round

_own_block_init = core.block_type.__init__
_own_block_eq = core.block_type.__eq__
_own_tensor_init = core.tensor.__init__
_own_broadcast = semantic.TritonSemantic.broadcast_impl_value
_own_constant = semantic.TritonSemantic.scalar_constant
_own_check = interpreter.TensorHandle.__post_init__

_blocks: dict[tuple[int, tuple[object, ...]], dict[str, object]] = {}
"""By id of the element type (which the entry keeps alive) and shape: the block type's fields."""
_extents: dict[tuple[int, ...], tuple[object, object]] = {}
"""By shape: a tensor's `shape` and `numel`."""
_MANY = 512
"""Elements from which numpy gathers faster than Triton, which takes one after another."""


class _Memory:
    """All of this process's memory from the address `width` on, as numbers of so many bytes: numpy takes no address 0."""

    def __init__(self, width: int) -> None:
        self.__array_interface__ = {
            "data": (width, False), "shape": ((1 << 47) // width,), "typestr": f"<u{width}", "version": 3
        }  # fmt: skip


_memory = {width: np.asarray(_Memory(width)) for width in (1, 2, 4, 8)}
_somewhere = np.zeros(1, dtype=np.uint64)


def gather(addresses: np.ndarray, mask: np.ndarray, other: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """What is at real addresses, which masked lanes do not look up: they have what `other` has."""
    found: np.ndarray
    alike = addresses.shape == mask.shape == other.shape and mask.dtype == np.bool_ and other.dtype == dtype
    if addresses.size >= _MANY and alike:
        whole = bool(mask.all())
        places = addresses if whole else np.where(mask, addresses, np.uint64(_somewhere.ctypes.data))
        if not np.bitwise_or.reduce(places, axis=None) & np.uint64(dtype.itemsize - 1):
            numbers = (places >> np.uint64(dtype.itemsize.bit_length() - 1)).view(np.int64) - 1
            found = _memory[dtype.itemsize].take(numbers).view(dtype)
            return found if whole else np.where(mask, found, other)
    found = interpreter._interpreter.load(addresses, mask, other, dtype)
    return found


def _block_init(self: object, element_ty: object, shape: core.tuple) -> None:
    values = shape.values if type(shape) is core.tuple else shape
    sizes = tuple([size.value if type(size) is core.constexpr else size for size in values])
    if {*map(type, sizes)} != {int}:
        _own_block_init(self, element_ty, shape)
        return
    known = _blocks.get((id(element_ty), sizes))
    if known is None:
        _own_block_init(self, element_ty, shape)
        known = _blocks[id(element_ty), sizes] = dict(self.__dict__)
    self.__dict__.update(known)


def _block_eq(self: core.block_type, other: core.base_type) -> object:
    if type(other) is core.block_type and self.shape is other.shape:
        return bool(self.element_ty == other.element_ty)
    return _own_block_eq(self, other)


# `type` is Triton's own name for it.
def _tensor_init(self: core.tensor, handle: interpreter.TensorHandle, type: core.dtype) -> None:
    sizes = tuple(type.shape.values) if type.is_block() else ()
    known = _extents.get(sizes)
    if known is None:
        _own_tensor_init(self, handle, type)
        _extents[sizes] = (self.shape, self.numel)
    else:
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = known


def _broadcast(self: object, lhs: core.tensor, rhs: core.tensor) -> tuple[object, object]:
    one, other = lhs.type, rhs.type
    if one.is_block():
        if other.is_block() and one.shape.values == other.shape.values:
            return lhs, rhs
    elif not other.is_block():
        return lhs, rhs
    own: tuple[object, object] = _own_broadcast(self, lhs, rhs)
    return own


def _constant(self: semantic.TritonSemantic, value: object, dtype: core.dtype) -> object:
    """Does not test whether a loop's variable is 0, as Triton does for the sake of 0.0."""
    if type(value) is Round and dtype.is_int() and hasattr(self.builder, f"get_{dtype.name}"):
        return self.tensor(getattr(self.builder, f"get_{dtype.name}")(value), dtype)
    made: object = _own_constant(self, value, dtype)
    return made


def _handle_init(
    self: interpreter.TensorHandle, data: np.ndarray, dtype: core.dtype, attr: dict[str, object] | None = None
) -> None:
    self.data, self.dtype, self.attr = data, dtype, {} if attr is None else attr
    if type(dtype) is not core.dtype or data.itemsize * 8 > dtype.primitive_bitwidth:
        _own_check(self)


def _erf(self: object, arg: interpreter.TensorHandle) -> object:
    """In fp64 like Triton's own, which calls Python's function for each element."""
    made = torch.erf(torch.from_numpy(np.asarray(arg.data, dtype=np.float64))).numpy()
    narrow = np.float32 if arg.data.dtype == np.float32 else np.float64
    return interpreter.TensorHandle(made.astype(narrow), arg.dtype.scalar)


@functools.lru_cache(maxsize=256)
def _tree(source: str) -> ast.Module:
    return ast.parse(source)


def install() -> None:
    """Patch Triton for the life of this process. Compilation is unaffected: it reads the same fields, and changes no tree."""
    jit.JITFunction.parse = lambda self: _tree(self.src)
    core.block_type.__init__ = _block_init
    core.block_type.__eq__ = _block_eq
    core.tensor.__init__ = _tensor_init
    semantic.TritonSemantic.broadcast_impl_value = _broadcast
    semantic.TritonSemantic.scalar_constant = _constant
    interpreter.TensorHandle.__init__ = _handle_init
    interpreter.InterpreterBuilder.create_erf = _erf
    builder = interpreter.interpreter_builder
    builder.options = dataclasses.replace(
        builder.options,
        sanitize_overflow=False,
        allowed_dot_input_precisions=tuple(CUDAOptions.allowed_dot_input_precisions),
    )
