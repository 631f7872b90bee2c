"""Triton's interpreter on residues: patches the builder's calls that take an `Exact`, and memory accesses.

`Programs.installed` goes on top of an installed engine, which still handles calls on ordinary numbers. Addresses, masks and
other integers are computed as usual, and accesses are checked as usual.

Raises NotExact for branches, addresses and integers that depend on unknown numbers, for their bits, and for sorting.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
import triton.language as tl
from triton._C.libtriton import ir
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter

from kernelwright.verify.exact import folds
from kernelwright.verify.exact.functions import Parity
from kernelwright.verify.exact.order import Calculator
from kernelwright.verify.exact.shadows import Shadow, Shadows
from kernelwright.verify.exact.values import UNDEFINED, Exact, NotExact
from kernelwright.verify.interpret.interpreter import Engine
from kernelwright.verify.interpret.memory import REACH, Region

Handle: TypeAlias = interpreter.TensorHandle
Builder: TypeAlias = interpreter.InterpreterBuilder
Method = Callable[..., Any]
"""A method of the builder, or its replacement."""
_DTYPES = {
    "fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32, "fp64": torch.float64, "int8": torch.int8,
    "int16": torch.int16, "int32": torch.int32, "int64": torch.int64, "uint8": torch.uint8, "int1": torch.bool,
}  # fmt: skip
_BINARY = {
    np.add: "add", np.subtract: "subtract", np.multiply: "multiply", np.divide: "divide", np.maximum: "maximum",
    np.fmax: "maximum", np.minimum: "minimum", np.fmin: "minimum",
}  # fmt: skip
_COMPARED = {
    np.less: "less", np.less_equal: "less_equal", np.greater: "greater", np.greater_equal: "greater_equal",
    np.equal: "equal", np.not_equal: "not_equal",
}  # fmt: skip
_LOGICAL = {np.bitwise_and: "both", np.bitwise_or: "either", np.bitwise_xor: "differ"}
_UNARY = {
    np.negative: "negative", np.exp: "exp", np.exp2: "exp2", np.log: "log", np.sqrt: "sqrt", np.abs: "absolute",
}  # fmt: skip
_NAMED: dict[object, tuple[str, Parity]] = {
    np.sin: ("sin", "odd"), np.cos: ("cos", "even"), np.floor: ("floor", ""), np.ceil: ("ceil", ""),
}  # fmt: skip
_LIBRARY_PARITY: dict[str, Parity] = {
    "sin": "odd", "cos": "even", "tan": "odd", "asin": "odd", "atan": "odd", "asinh": "odd", "atanh": "odd", "erf": "odd",
    "acos": "", "acosh": "", "floor": "", "ceil": "", "trunc": "odd", "lgamma": "", "rint": "odd", "round": "odd",
}  # fmt: skip


_UPDATES = {"ADD": "add", "FADD": "add", "MAX": "maximum", "MIN": "minimum"}


class Programs:
    """Replaces the builder's methods while exact programs run."""

    def __init__(self, calculator: Calculator, shadows: Shadows, engine: Engine) -> None:
        self.calculator, self.shadows, self.engine = calculator, shadows, engine

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install the patches. Kernels that cannot be followed raise `NotExact`."""
        builder, reduce, scan = Builder, interpreter.ReduceOps, interpreter.ScanOps
        patches: list[tuple[object, str, Method]] = [
            (reduce, "apply_impl", self._fold(reduce.apply_impl, folds.apply_reduce)),
            (scan, "apply_impl", self._fold(scan.apply_impl, folds.apply_scan)),
            (builder, "create_masked_load", self._load(builder.create_masked_load)),
            (builder, "create_masked_store", self._store(builder.create_masked_store)),
            (builder, "create_atomic_rmw", self._update(builder.create_atomic_rmw)),
            (builder, "set_grid_idx", self._begin_program(builder.set_grid_idx)),
            (TritonSemantic, "atomic_max", self._extreme(TritonSemantic.atomic_max, "max", ir.ATOMIC_OP.MAX)),
            (TritonSemantic, "atomic_min", self._extreme(TritonSemantic.atomic_min, "min", ir.ATOMIC_OP.MIN)),
            (Engine, "_argument", self._argument(Engine._argument)),
        ]
        for name, exact in self._calls().items():
            if own := getattr(builder, name, None):
                patches.append((builder, name, _where_exact(own, exact)))
        saved = [(owner, name, owner.__dict__[name]) for owner, name, _ in patches]
        for owner, name, value in patches:
            setattr(owner, name, value)
        try:
            yield
        finally:
            for owner, name, value in saved:
                setattr(owner, name, value)

    def _calls(self) -> dict[str, Method]:
        """Builder method -> its replacement for unknown numbers."""
        calls: dict[str, Method] = {
            "binary_op": self.binary, "unary_op": self.unary, "ternary_op": self.ternary, "create_fma": self.fma,
            "create_fabs": lambda arg: self._handle(self.calculator.absolute(self.data(arg)), arg),
            "create_erf": lambda arg: self._handle(self.calculator.function("erf", self.data(arg), "odd"), arg),
            "create_rsqrt": lambda arg: self._handle(self.calculator.rsqrt(self.data(arg)), arg),
            "cast_impl": self.cast, "create_fp_to_fp": lambda src, kind, *_: self.cast(src, kind),
            "create_dot": self.dot, "create_gather": self.gather, "create_extern_elementwise": self.library,
            "create_splat": self.splat, "create_unsplat": lambda arg: self._handle(arg.data.reshape(1), arg),
            "create_reshape": lambda arg, shape, *_: self._handle(arg.data.reshape(tuple(shape)), arg),
            "create_trans": lambda arg, perm: self._handle(np.transpose(arg.data, perm), arg),
            "create_expand_dims": lambda arg, axis: self._handle(
                arg.data.mapped(lambda planes: np.expand_dims(planes, axis + 1)), arg
            ),
            "create_broadcast": lambda arg, shape: self._handle(
                arg.data.mapped(lambda planes: np.broadcast_to(planes, (len(planes), *shape))), arg
            ),
            "create_cat": lambda lhs, rhs: self._join(np.concatenate, lhs, rhs, 1),
            "create_join": lambda lhs, rhs: self._join(np.stack, lhs, rhs, -1),
            "create_split": lambda arg: tuple(
                self._handle(arg.data.at(..., side), arg) for side in (0, 1)
            ),
        }  # fmt: skip
        for name in ("create_bitcast", "create_idiv", "create_atomic_cas", "create_histogram", "create_dot_scaled", "create_ashr",
                     "create_umulhi", "create_print", "create_assert", "create_assume"):  # fmt: skip
            calls[name] = _refuse(name)
        return calls

    def _begin_program(self, own: Method) -> Method:
        """A program begins: count its comparisons together with those of other programs."""

        def set_grid_idx(builder: Builder, *index: int) -> object:
            self.calculator.site = self.calculator.site
            return own(builder, *index)

        return set_grid_idx

    def _argument(self, own: Method) -> Method:
        """A small weight passed as a number is converted to an `Exact`."""

        def argument(engine: Engine, name: str, value: object) -> object:
            if type(value) is float and value in self.calculator.scalars:
                return tl.tensor(Handle(self.calculator.number(np.array([value])), tl.float32), tl.float32)
            return own(engine, name, value)

        return argument

    @staticmethod
    def _extreme(own: Method, name: str, op: object) -> Method:
        """An atomic maximum or minimum of floats; Triton's own compares their bits."""

        def atomic(
            semantic: TritonSemantic, ptr: Handle, val: Handle, mask: Handle, sem: object, scope: object
        ) -> object:
            if not val.dtype.is_floating():
                return own(semantic, ptr, val, mask, sem, scope)
            ptr, val, mask = semantic.atom_red_typechecking_impl(ptr, val, mask, name)
            sem, scope = semantic._str_to_sem(sem), semantic._str_to_scope(scope)
            made = semantic.builder.create_atomic_rmw(op, ptr.handle, val.handle, mask.handle, sem, scope)
            return tl.tensor(made, val.type)

        return atomic

    # -- numbers ---------------------------------------------------------------------------------------------

    def data(self, handle: Handle) -> Any:
        """The data of a handle: an `Exact`, or a numpy array."""
        if isinstance(handle.data, Exact):
            return handle.data
        scalar = handle.dtype.scalar
        if scalar.is_bf16():
            return (handle.data.astype(np.uint32) << 16).view(np.float32)
        if scalar.is_floating() and handle.data.dtype.kind != "f":
            raise NotExact(f"numbers of type {scalar}")
        return handle.data

    @staticmethod
    def _handle(value: Exact | np.ndarray, like: Handle) -> Handle:
        truth = value.kind == "b" if isinstance(value, Exact) else value.dtype == np.bool_
        return Handle(value, tl.int1 if truth else like.dtype.scalar)

    def binary(self, lhs: Handle, rhs: Handle, op: np.ufunc) -> Handle:
        one, other, calculator = self.data(lhs), self.data(rhs), self.calculator
        if op in _COMPARED:
            return self._handle(calculator.compare(_COMPARED[op], one, other), lhs)
        if op in _LOGICAL:
            return self._handle(self._logical(_LOGICAL[op], one, other), lhs)
        if op in _BINARY:
            return self._handle(getattr(calculator, _BINARY[op])(one, other), lhs)
        raise NotExact(f"numpy's {op.__name__} on data")

    def _logical(self, name: str, one: Handle, other: Handle) -> Handle:
        for value in (one, other):
            truth = value.kind == "b" if isinstance(value, Exact) else value.dtype == np.bool_
            if not truth:
                raise NotExact("bits of data")
        if name == "differ" and not isinstance(other, Exact) and other.all():
            return self.calculator.invert(one)
        return getattr(self.calculator, name)(one, other)

    def unary(self, arg: Handle, op: np.ufunc) -> Handle:
        value = self.data(arg)
        if op in _UNARY:
            return self._handle(getattr(self.calculator, _UNARY[op])(value), arg)
        if op is np.log2:
            return self._handle(self.calculator.divide(self.calculator.log(value), float(np.log(2.0))), arg)
        if op in _NAMED:
            name, parity = _NAMED[op]
            return self._handle(self.calculator.function(name, value, parity), arg)
        raise NotExact(f"numpy's {op.__name__} on data")

    def ternary(self, one: Handle, other: Handle, third: Handle, op: np.ufunc) -> Handle:
        a, b, c = self.data(one), self.data(other), self.data(third)
        if op is np.where:
            if isinstance(a, Exact) and a.kind != "b":
                a = self.calculator.compare("not_equal", a, 0)
            return self._handle(self.calculator.select(a, b, c), third)
        if op is np.clip:
            return self._handle(self.calculator.minimum(self.calculator.maximum(a, b), c), third)
        raise NotExact(f"numpy's {op.__name__} on data")

    def fma(self, x: Handle, y: Handle, z: Handle) -> Handle:
        product = self.calculator.multiply(self.data(x), self.data(y))
        return self._handle(self.calculator.add(product, self.data(z)), z)

    def cast(self, src: Handle, kind: tl.dtype) -> Handle:
        value, target = src.data, kind.scalar
        if target.is_floating():
            return Handle(value.plain("f") if value.kind != "f" else value, target)
        if value.kind == "f":
            if target != tl.int1:
                raise NotExact("integers from data")
            return self._handle(self.calculator.compare("not_equal", value, 0), src)
        return Handle(value.plain("b" if target == tl.int1 else "i"), target)

    def dot(self, a: Handle, b: Handle, d: Handle, *_: object) -> Handle:
        made = self.calculator.matmul(self.data(a), self.data(b))
        base = self.data(d)
        zero = not isinstance(base, Exact) and not base.any()
        return self._handle(made if zero else self.calculator.add(made, base), d)

    def gather(self, src: Handle, indices: Handle, axis: int) -> Handle:
        if isinstance(indices.data, Exact):
            raise NotExact("an index from data")

        def change(planes: np.ndarray) -> np.ndarray:
            index = np.broadcast_to(indices.data, (len(planes), *indices.data.shape))
            return np.take_along_axis(planes, index, axis=axis + 1)

        return self._handle(src.data.mapped(change), src)

    def splat(self, kind: tl.dtype, arg: Handle) -> Handle:
        shape = tuple(kind.shape)

        def change(planes: np.ndarray) -> np.ndarray:
            return np.broadcast_to(planes.reshape(len(planes), *(1,) * len(shape)), (len(planes), *shape))

        return self._handle(arg.data.mapped(change), arg)

    def _join(self, how: Callable[..., np.ndarray], lhs: Handle, rhs: Handle, axis: int) -> Handle:
        one, other = self.calculator.number(self.data(lhs)), self.calculator.number(self.data(rhs))
        levels = min(one.levels, other.levels)
        planes = how([one.planes[:levels], other.planes[:levels]], axis=axis)
        return self._handle(Exact(planes, one.special or other.special, None, one.kind), lhs)

    def library(self, lib: object, path: object, symbol: str, args: Sequence[Handle], *_: object) -> Handle:
        """A call of libdevice."""
        name = symbol.removeprefix("__nv_")
        name = name.removesuffix("f") if name not in ("erf",) else name
        calculator, given = self.calculator, [self.data(arg) for arg in args]
        methods = {"tanh": "tanh", "exp": "exp", "exp2": "exp2", "log": "log", "log1p": "log1p", "sqrt": "sqrt", "rsqrt": "rsqrt",
                   "pow": "power", "fabs": "absolute", "fast_exp": "exp", "fast_tanh": "tanh"}  # fmt: skip
        if name == "er":
            name = "erf"
        if name in methods:
            made = getattr(calculator, methods[name])(*given)
        elif name in ("fmul_rn", "dmul_rn"):
            made = calculator.multiply(*given)
        elif name == "hypot":
            squares = [calculator.power(one, 2) for one in given]
            made = calculator.sqrt(calculator.add(*squares))
        elif name in ("sinh", "cosh"):
            made = calculator.hyperbolic(name, given[0])
        elif name == "expm1":
            made = calculator.subtract(calculator.exp(given[0]), 1.0)
        elif name == "erfc":
            made = calculator.subtract(1.0, calculator.function("erf", given[0], "odd"))
        elif name == "normcd":
            half = calculator.function("erf", calculator.multiply(given[0], 2.0**-0.5), "odd")
            made = calculator.multiply(calculator.add(half, 1.0), 0.5)
        elif name in ("log2", "log10"):
            made = calculator.divide(calculator.log(given[0]), float(np.log(int(name[3:]))))
        elif name in ("isnan", "isin"):
            made = calculator.compare("not_equal", given[0], given[0])
        elif name in _LIBRARY_PARITY and len(given) == 1:
            made = calculator.function(name, given[0], _LIBRARY_PARITY[name])
        else:
            raise NotExact(f"libdevice's {symbol}")
        return self._handle(made, args[0])

    # -- folds -------------------------------------------------------------------------------------------------

    def _fold(self, own: Method, exact: Method) -> Method:
        def apply_impl(
            fold: interpreter.ReduceOps | interpreter.ScanOps, values: Sequence[tl.tensor]
        ) -> object:
            if any(isinstance(value.handle.data, Exact) for value in values):
                return exact(self.calculator, fold, values, self.data)
            return own(fold, values)

        return apply_impl

    # -- memory ------------------------------------------------------------------------------------------------

    def _region(self, ptrs: Handle, mask: np.ndarray, what: str) -> tuple[Region | None, torch.dtype]:
        if isinstance(mask, Exact):
            raise NotExact("a mask from data")
        dtype = _DTYPES.get(str(ptrs.get_element_ty()))
        width = interpreter._get_np_dtype(ptrs.get_element_ty()).itemsize
        region = self.engine.memory.check(ptrs.data, np.broadcast_to(mask, ptrs.data.shape), width, what)
        if dtype is None:
            raise NotExact(f"memory of type {ptrs.get_element_ty()}")
        return region, dtype

    def _shadow(self, region: Region, dtype: torch.dtype, data: bool) -> Shadow | None:
        """The shadow of memory that holds floats or unknown numbers (`data`), else None."""
        if dtype.is_floating_point or data:
            return self.shadows.of(region.keep, dtype)
        return self.shadows.find(region.keep, dtype.itemsize)

    def _load(self, own: Method) -> Method:
        def create(
            builder: Builder, ptrs: Handle, mask: Handle, other: Handle, *rest: object, **how: object
        ) -> object:
            lanes = np.broadcast_to(_plain_mask(mask.data), ptrs.data.shape)
            region, dtype = self._region(ptrs, lanes, "read")
            if region is None:
                if not dtype.is_floating_point:
                    return own(builder, ptrs, mask, other, *rest, **how)
                if lanes.any():
                    raise NotExact("one load from several tensors")
            shadow = None if region is None else self._shadow(region, dtype, False)
            if region is not None and shadow is None:
                return own(builder, ptrs, mask, other, *rest, **how)
            masked = self._masked_lanes(other, ptrs.data.shape)
            if shadow is None:
                made, _ = self.calculator.aligned(masked, np.zeros(ptrs.data.shape))
                return Handle(made.plain(), ptrs.get_element_ty())
            index = _elements(ptrs.data, dtype.itemsize)
            index = np.where(lanes, index, index[lanes][0])
            made = shadow.read(index)
            if not lanes.all():
                made = self.calculator.select(lanes, made, masked)
            return self._type(made, dtype, ptrs.get_element_ty())

        return create

    @staticmethod
    def _type(made: Exact, dtype: torch.dtype, kind: tl.dtype) -> Handle:
        if dtype.is_floating_point and made.kind != "f":
            made = made.plain("f")
        return Handle(made, kind)

    def _masked_lanes(self, other: Handle, shape: tuple[int, ...]) -> Exact:
        if other is not None:
            return self.calculator.number(self.data(other))
        if int(np.prod(shape)) == 1:
            return self.calculator.number(np.zeros(shape))
        levels = self.calculator.levels
        return Exact(np.full((levels, *shape), UNDEFINED, dtype=np.int64), True)

    def _store(self, own: Method) -> Method:
        def create(
            builder: Builder, ptrs: Handle, value: Handle, mask: Handle, *rest: object, **how: object
        ) -> object:
            lanes = np.broadcast_to(_plain_mask(mask.data), ptrs.data.shape)
            region, dtype = self._region(ptrs, lanes, "write")
            data = isinstance(value.data, Exact)
            if region is None:
                if lanes.any():
                    raise NotExact("one store to several tensors")
                return None
            shadow = self._shadow(region, dtype, data)
            if shadow is None:
                return own(builder, ptrs, value, mask, *rest, **how)
            whole = self.calculator.aligned(self.data(value), np.zeros(ptrs.data.shape, dtype=np.int64))[0]
            index = _elements(ptrs.data, dtype.itemsize)
            shadow.write(index[lanes], whole.at(lanes))
            return None

        return create

    def _update(self, own: Method) -> Method:
        def create(
            builder: Builder, op: object, ptr: Handle, val: Handle, mask: Handle, *how: object
        ) -> object:
            lanes = np.broadcast_to(_plain_mask(mask.data), ptr.data.shape)
            region, dtype = self._region(ptr, lanes, "atomic access")
            if region is None:
                if isinstance(val.data, Exact) or lanes.any():
                    raise NotExact("an atomic operation on several tensors")
                return own(builder, op, ptr, val, mask, *how)
            shadow = self._shadow(region, dtype, isinstance(val.data, Exact))
            if shadow is None:
                return own(builder, op, ptr, val, mask, *how)
            name = str(op).rsplit(".", 1)[-1]
            index = _elements(ptr.data, dtype.itemsize)
            old = shadow.read(np.where(lanes, index, 0))
            value = self.calculator.aligned(self.data(val), np.zeros(ptr.data.shape, dtype=np.int64))[0]
            if name == "XCHG":
                shadow.write(index[lanes], value.at(lanes))
            elif name in _UPDATES and (name in ("ADD", "FADD") or dtype.is_floating_point):
                combine = getattr(self.calculator, _UPDATES[name])
                self._combine(shadow, index[lanes], value.at(lanes).plain(), combine)
            else:
                raise NotExact(f"an atomic {name} of data")
            return self._type(old.plain(), dtype, val.dtype.scalar)

        return create

    @staticmethod
    def _combine(shadow: Shadow, index: np.ndarray, value: Exact, combine: Callable[..., Exact]) -> None:
        """Combine one update after another where several go to the same element."""
        order = np.arange(index.size)
        while order.size:
            _, first = np.unique(index[order], return_index=True)
            now = order[first]
            shadow.write(index[now], combine(shadow.read(index[now]).plain(), value.at(now)).plain())
            order = np.delete(order, first)


def _plain_mask(mask: Handle) -> np.ndarray:
    if isinstance(mask, Exact):
        raise NotExact("a mask from data")
    return np.asarray(mask, dtype=bool)


def _elements(pointers: np.ndarray, width: int) -> np.ndarray:
    """Indices of elements within their storage."""
    return (pointers & REACH).astype(np.int64) // width


def _where_exact(own: Method, exact: Method) -> Method:
    """Calls `exact` if an argument is an `Exact`, else `own`."""

    def method(builder: Builder, *args: object, **kwargs: object) -> object:
        for arg in args:
            for one in arg if isinstance(arg, list | tuple) else (arg,):
                if isinstance(one, interpreter.TensorHandle) and isinstance(one.data, Exact):
                    return exact(*args, **kwargs)
        return own(builder, *args, **kwargs)

    return method


def _refuse(name: str) -> Method:
    def method(*args: object, **kwargs: object) -> object:
        raise NotExact(f"{name.removeprefix('create_')} of data")

    return method
