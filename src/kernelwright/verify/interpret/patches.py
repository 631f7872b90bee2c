"""Replacements for parts of Triton's interpreter while an engine is installed: operations that are counted, checked, or
computed differently on a GPU.

Each function below returns (owner, attribute, value) for one kind of operation; `install` sets them all and returns what
undoes it. Memory and decisions are handled by the engine (`interpret/interpreter.py`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
import triton.language as tl
from triton.language.extra import cuda
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter, jit

from kernelwright.verify.interpret import combine, contracted, half_sums, hints, libdevice, ptx
from kernelwright.verify.interpret.bodies import LOOPS, rewritten, taken_over
from kernelwright.verify.interpret.endings import Unpriced, Unsupported
from kernelwright.verify.interpret.memory import Memory, Traffic
from kernelwright.verify.interpret.number_formats import (
    as_integers,
    beyond,
    flush,
    from_8_bits,
    from_bfloat16_bits,
    in_single,
    np_dtype,
    to_8_bits,
    to_bf16,
    to_bfloat16_bits,
    to_tf32,
    to_two_bf16,
    updated_in_bf16,
)
from kernelwright.verify.interpret.recording import Instances, Mask
from kernelwright.verify.messages import HALF_SUMS
from kernelwright.verify.trace.binding import plain

Patch = tuple[Any, str, Any]
Operator = Callable[..., Any]
Decision = Callable[[tl.tensor], Any]
Builder: TypeAlias = interpreter.InterpreterBuilder
Fold: TypeAlias = interpreter.ReduceOps | interpreter.ScanOps
Handle: TypeAlias = interpreter.TensorHandle

_UNITS = {"fp16": "float16", "bf16": "bfloat16", "fp64": "float64", "int8": "bfloat16"}
_TRANSCENDENTAL = {np.exp, np.exp2, np.log, np.log2, np.sin, np.cos, np.sqrt}
_FLUSHING = ("create_sqrt", "create_rsqrt", "create_exp2")
_SUMMING = {np.add, np.subtract, np.multiply}
_OPERATORS = [
    f"__{side}{name}__"
    for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "gt", "ge", "lt", "le", "and", "or", "xor",
    )
    for side in ("", "r")
    if f"__{side}{name}__" in tl.constexpr.__dict__
]  # fmt: skip


class Watcher(Protocol):
    """What the operations need of an engine."""

    units: set[str]
    traffic: Traffic | None
    brackets: int
    garbage: int
    instances: Instances
    contracting: bool
    rounding: bool
    memory: Memory

    @property
    def mode(self) -> str: ...

    def count(self, unit: str, operations: float) -> None: ...
    def barrier(self) -> None: ...
    def undefine(self, made: Handle, where: np.ndarray) -> Handle: ...
    def promise(self, kind: hints.Kind, units: Sequence[int], handle: Handle) -> Handle: ...
    def load(self, ptrs: Handle, mask: Handle, other: Handle | None, volatile: bool = False) -> Handle: ...
    def store(self, ptrs: Handle, value: Handle, mask: Handle) -> None: ...
    def real_pointers(self, ptrs: Handle, mask: np.ndarray, sem: object, scope: object) -> Handle | None: ...
    def updated(self) -> None: ...
    def serving(self, lanes: int) -> np.ndarray: ...
    def found_by(self, op: object, ptr: Handle, val: Handle) -> np.ndarray: ...
    def meet(self) -> None: ...
    def multiply(self, a: Handle, b: Handle) -> None: ...
    def await_earlier(self) -> None: ...
    def iterate(self, values: range, stages: int = 0) -> Iterator[int]: ...
    def deciding(self, own: Decision) -> Decision: ...
    def rounds(self, whole: np.ndarray, made: np.ndarray) -> None: ...


def _from_a_place(
    engine: Watcher, start: tl.tensor, end: object, step: int, stages: int
) -> Iterator[tl.tensor]:
    """A loop whose start depends on the place in the grid: only the number of its rounds is a decision, so programs with equally
    many rounds take the same path wherever they begin."""
    if isinstance(end, tl.tensor) and end.dtype.primitive_bitwidth > start.dtype.primitive_bitwidth:
        start = start.to(end.dtype)
    apart = plain(end) - start.to(tl.int64)
    rounds = operator.index(tl.maximum((apart + (step - 1)) // step, 0))
    first = int(start.handle.data.squeeze())
    for value in engine.iterate(range(first, first + rounds * step, step), stages):
        yield start + (value - first)


def install(engine: Watcher) -> Callable[[], None]:
    """Patch Triton for `engine`. Returns a function that restores Triton's language for its compiler."""
    patches: list[Patch] = [
        (jit.JITFunction, "__call__", _call),
        (interpreter, "_get_np_dtype", np_dtype),
        (TritonSemantic, "load", _load),
        (TritonSemantic, "store", _store),
        *((tl.constexpr, name, _bare(tl.constexpr.__dict__[name])) for name in _OPERATORS),
    ]
    for made in (
        _products,
        _elementwise,
        _conversions,
        _reductions,
        _undefined_patches,
        _memory,
        _addresses,
        _foreign,
        _unread,
    ):
        patches += made(engine)
    saved = [(owner, name, owner.__dict__[name]) for owner, name, _ in patches]
    for owner, name, value in patches:
        setattr(owner, name, value)

    def loop(start: int, end: int | None = None, step: int = 1, **options: object) -> Iterator[object]:
        wanted, by = plain(options.get("num_stages")), plain(step)
        stages = wanted if isinstance(wanted, int) else 0
        making = engine.instances.making
        if end is not None and making is not None and making.placed(start) and isinstance(by, int) and by > 0:
            return _from_a_place(engine, start, end, by, stages)
        return engine.iterate(range(start) if end is None else range(start, end, step or 1), stages)

    scope = taken_over()
    scope.set_attr(tl, "range", loop)
    for kind, name in hints.NAMES.items():
        scope.set_attr(tl, name, _check_promise(engine, kind))
    for name, does in (("gdc_wait", engine.await_earlier), ("gdc_launch_dependents", lambda: None)):
        if hasattr(cuda, name):
            scope.set_attr(cuda, name, does)
    # Triton 3.6 calls int() on an array of one element, which newer numpy refuses.
    scope.set_attr(tl.tensor, "__index__", engine.deciding(lambda self: int(self.handle.data.squeeze())))
    scope.set_attr(tl.dtype, "value", property(lambda self: self))  # callees may expect a constexpr
    scope.set_attr(tl.tensor, "__bool__", engine.deciding(tl.tensor.__dict__["__bool__"]))
    outer, LOOPS["range"] = LOOPS["range"], loop

    def restore() -> None:
        LOOPS["range"] = outer
        scope.restore()
        for owner, name, value in saved:
            setattr(owner, name, value)

    return restore


def _call(function: jit.JITFunction, *args: object, **kwargs: object) -> Any:
    kwargs.pop("_semantic", None)
    return rewritten(function)(*args, **kwargs)


def _products(engine: Watcher) -> list[Patch]:
    """Products on tensor cores in the precision asked for, and multiply-adds."""
    dot, fma = Builder.create_dot, Builder.create_fma

    def create_dot(
        self: Builder, a: Handle, b: Handle, d: Handle, input_precision: object, *rest: object
    ) -> Handle:
        unit = str(a.dtype.scalar)
        if unit == "fp32":
            unit = "tf32x3" if "x3" in str(input_precision) or "x6" in str(input_precision) else "tf32"
            unit = "float32" if "IEEE" in str(input_precision) else unit
        engine.count(_UNITS.get(unit, unit), 2.0 * a.data.size * b.data.shape[-1])
        if d.dtype.scalar == tl.float16:
            engine.units.add(HALF_SUMS)
        if unit == "tf32x3" and engine.traffic is not None:
            engine.traffic.split_products += 1
            engine.traffic.split_operands += a.data.size + b.data.size
        if engine.mode in ("model", "plan"):
            return interpreter.TensorHandle(np.zeros_like(d.data), d.dtype.scalar)
        engine.multiply(a, b)
        a, b = from_bfloat16_bits(a), from_bfloat16_bits(b)
        if unit == "tf32":
            a, b = to_tf32(a), to_tf32(b)
        if "BF16x3" in str(input_precision):
            a, b = to_two_bf16(a), to_two_bf16(b)
        return half_sums.product(dot(self, a, b, d, input_precision, *rest), d)

    def create_fma(self: Builder, x: Handle, y: Handle, z: Handle) -> Handle:
        engine.count("float32", 2.0 * x.data.size)
        return fma(self, x, y, z)

    return [(Builder, "create_dot", create_dot), (Builder, "create_fma", create_fma)]


def _elementwise(engine: Watcher) -> list[Patch]:
    """Elementwise operations."""
    unary, binary = Builder.unary_op, Builder.binary_op

    def unary_op(self: Builder, arg: Handle, op: np.ufunc) -> Handle:
        engine.count("float32", arg.data.size * (8.0 if op in _TRANSCENDENTAL else 1.0))
        if arg.dtype.scalar.is_bf16():
            return to_bfloat16_bits(unary(self, from_bfloat16_bits(arg), op))
        return unary(self, arg, op)

    def binary_op(self: Builder, lhs: Handle, rhs: Handle, op: np.ufunc) -> Handle:
        if engine.contracting and op in _SUMMING:
            made = contracted.combine(lhs, rhs, op)
            if made is None:
                made = operated(self, lhs, rhs, op)
            else:
                engine.count("float32", lhs.data.size)
            contracted.note(made, lhs, rhs, op)
        else:
            made = operated(self, lhs, rhs, op)
        return _carry_sum(engine, made, lhs, rhs) if op in _SUMMING else made

    def operated(self: Builder, lhs: Handle, rhs: Handle, op: np.ufunc) -> Handle:
        if engine.rounding and op is np.multiply and lhs.data.ndim == 3 and lhs.dtype.scalar.is_fp32():
            lhs, rhs = to_tf32(lhs), to_tf32(rhs)
        one = lhs.data
        kind = one.dtype.kind
        if kind == "f":
            engine.count("float32", one.size * (4.0 if op is np.divide else 1.0))
        elif engine.traffic is not None and one.ndim > 1 and kind != "b":
            engine.traffic.indexed += one.size
        scalar = lhs.dtype.scalar
        if kind in "fi" and type(scalar) is tl.dtype:  # what Triton does, without its detours
            made = op(one, rhs.data)
            if made.dtype == np.bool_:
                return interpreter.TensorHandle(made, tl.int1)
            if made.itemsize * 8 <= scalar.primitive_bitwidth:
                return interpreter.TensorHandle(made, scalar)
        if lhs.dtype.scalar.is_bf16() and rhs.dtype.scalar.is_bf16():
            return to_bfloat16_bits(binary(self, from_bfloat16_bits(lhs), from_bfloat16_bits(rhs), op))
        out = binary(self, lhs, rhs, op)
        # Triton keeps the operands' type for a comparison, and splats it to integers later.
        return interpreter.TensorHandle(out.data, tl.int1) if out.data.dtype == np.bool_ else out

    def larger(self: Builder, lhs: Handle, rhs: Handle) -> Handle:
        return self.binary_op(lhs, rhs, np.fmax)

    def smaller(self: Builder, lhs: Handle, rhs: Handle) -> Handle:
        return self.binary_op(lhs, rhs, np.fmin)

    return [
        *((Builder, name, _flushing(Builder.__dict__[name])) for name in _FLUSHING),
        (Builder, "unary_op", unary_op),
        (Builder, "binary_op", binary_op),
        (Builder, "create_maxnumf", larger),  # in Triton 3.6 NaN wins here, as on no GPU
        (Builder, "create_minnumf", smaller),
    ]


def _flushing(own: Callable[[Builder, Handle], Handle]) -> Callable[[Builder, Handle], Handle]:
    """An instruction that is `.ftz` in single precision: it reads and returns denormals as 0."""

    def operate(self: Builder, arg: Handle) -> Handle:
        if not isinstance(arg.data, np.ndarray) or arg.data.dtype != np.float32:
            return own(self, arg)
        made = own(self, interpreter.TensorHandle(flush(arg.data), arg.dtype.scalar))
        return interpreter.TensorHandle(flush(made.data), made.dtype.scalar)

    return operate


def _carry_sum(engine: Watcher, made: Handle, *operands: Handle) -> Handle:
    """Carry the marks of `half_sums` through a sum, a multiplication or a cast."""
    if engine.mode != "execute" or not any(one.attr for one in operands):
        return made
    if made.dtype.scalar not in (tl.float16, tl.bfloat16):
        return half_sums.carry(made, *operands)
    if half_sums.note_rounding(made, *operands):
        engine.units.add(HALF_SUMS)
    return made


def _conversions(engine: Watcher) -> list[Patch]:
    """Casts, rounded as a GPU does (Triton's interpreter takes integers, booleans and doubles for bits of a bfloat16). What an
    integer type cannot hold is undefined."""
    cast, fp_cast = Builder.cast_impl, Builder.create_fp_to_fp

    def cast_impl(self: Builder, src: Handle, dst_type: tl.dtype) -> Handle:
        return _carry_sum(engine, converted(self, src, dst_type), src)

    def converted(self: Builder, src: Handle, dst_type: tl.dtype) -> Handle:
        if dst_type.scalar == tl.bfloat16 and not src.dtype.scalar.is_bf16():
            return interpreter.TensorHandle(to_bf16(src.data.astype(np.float32)), tl.bfloat16)
        if dst_type.scalar == tl.float32 and src.dtype.scalar.is_bf16():
            # Triton's interpreter takes its denormals for 0, and fifty times as long.
            return from_bfloat16_bits(src)
        made = cast(self, src, dst_type)
        if made.data.dtype.kind in "iu" and src.data.dtype.kind == "f" and engine.mode == "execute":
            return engine.undefine(made, beyond(src.data, made.data.dtype))
        if made.data.dtype.kind == "f" and src.data.dtype.kind in "iu":
            engine.rounds(src.data, made.data)
        return made

    def fp_to_fp(self: Builder, src: Handle, dst_type: tl.dtype, rounding_mode: object) -> Handle:
        wide = from_8_bits(src)
        if wide is not None:
            return wide if dst_type.scalar == tl.float32 else fp_to_fp(self, wide, dst_type, rounding_mode)
        nearest = "RTZ" not in str(rounding_mode)
        if nearest and (narrow := to_8_bits(from_bfloat16_bits(src), dst_type)) is not None:
            return narrow
        narrows = src.dtype.scalar == tl.float32 and dst_type.scalar == tl.bfloat16
        if narrows and nearest:
            return _carry_sum(engine, interpreter.TensorHandle(to_bf16(src.data), tl.bfloat16), src)
        return _carry_sum(engine, fp_cast(self, src, dst_type, rounding_mode), src)

    return [(Builder, "cast_impl", cast_impl), (Builder, "create_fp_to_fp", fp_to_fp)]


def _reductions(engine: Watcher) -> list[Patch]:
    """Reductions and scans, with brackets that the engine draws."""
    reduce, scan = interpreter.ReduceOps.apply_impl, interpreter.ScanOps.apply_impl

    def combined(self: Fold, values: Sequence[tl.tensor]) -> None:
        """Count a built-in reduction; the operations of a kernel's own function are counted as they run."""
        engine.barrier()
        if combine.at_once(self.combine_fn):
            floats = (value.handle.data for value in values if value.dtype.scalar.is_floating())
            engine.count("float32", float(sum(data.size for data in floats)))

    def reduce_impl(self: Fold, values: Sequence[tl.tensor]) -> list[tl.tensor]:
        combined(self, values)
        return in_single(values, lambda wide: combine.reduce(self, wide, reduce, engine.brackets))

    def scan_impl(self: Fold, values: Sequence[tl.tensor]) -> list[tl.tensor]:
        combined(self, values)
        return in_single(values, lambda wide: combine.scan(self, wide, scan))

    to_tensor = interpreter.ReduceScanOpInterface.to_tensor

    def wrapped(self: Fold, value: Any, dtype: tl.dtype) -> tl.tensor:
        """A single integer wraps like those of a block; Triton 3.6 raises instead."""
        if dtype.scalar.is_int() and not getattr(value, "shape", ()):
            value = np.asarray(value).astype(np_dtype(dtype.scalar))[()]
        return to_tensor(self, value, dtype)

    return [
        (interpreter.ReduceOps, "apply_impl", reduce_impl),
        (interpreter.ScanOps, "apply_impl", scan_impl),
        (interpreter.ReduceScanOpInterface, "to_tensor", wrapped),
    ]


def _undefined_patches(engine: Watcher) -> list[Patch]:
    """Division by zero, too wide shifts, gathers from outside a block, and reordered blocks."""

    def divided(own: Operator) -> Operator:
        def divide(self: Builder, lhs: Handle, rhs: Handle) -> Handle:
            made = own(self, lhs, rhs)
            return engine.undefine(made, rhs.data == 0)

        return divide

    def shifted(own: Operator) -> Operator:
        def shift(self: Builder, lhs: Handle, rhs: Handle) -> Handle:
            made = own(self, lhs, rhs)
            return engine.undefine(made, (rhs.data < 0) | (rhs.data >= 8 * lhs.data.itemsize))

        return shift

    def cat(self: Builder, lhs: Handle, rhs: Handle) -> Handle:
        """Two blocks that may be reordered come in an arbitrary order."""
        both = np.concatenate([lhs.data, rhs.data])
        return interpreter.TensorHandle(np.roll(both[::-1], engine.garbage), lhs.dtype.scalar)

    def reshape(self: Builder, arg: Handle, shape: Sequence[int], reordered: bool) -> Handle:
        """If elements may be reordered, an arbitrary order, the same for blocks of one size."""
        data = arg.data
        if reordered and data.size > 1:
            data = np.roll(data.reshape(-1)[::-1], engine.garbage)
        return interpreter.TensorHandle(data.reshape(shape), arg.dtype.scalar)

    def gather(self: Builder, src: Handle, indices: Handle, axis: int) -> Handle:
        """A compiled gather reads memory next to the block, unchecked, for indices outside of it."""
        size = src.data.shape[axis]
        outside = (indices.data < 0) | (indices.data >= size)
        found = np.take_along_axis(src.data, np.where(outside, 0, indices.data), axis=axis)
        return engine.undefine(interpreter.TensorHandle(found, src.dtype.scalar), outside)

    return [
        *(
            (Builder, name, divided(getattr(Builder, name)))
            for name in ("create_idiv", "create_srem", "create_urem")
        ),
        *(
            (Builder, name, shifted(getattr(Builder, name)))
            for name in ("create_shl", "create_lshr", "create_ashr")
        ),
        (Builder, "create_cat", cat),
        (Builder, "create_reshape", reshape),
        (Builder, "create_gather", gather),
    ]


def _lanes_in_order(handle: Handle, shape: tuple[int, ...], order: np.ndarray) -> Handle:
    """A block's lanes in the order in which an atomic operation serves them."""
    return interpreter.TensorHandle(np.broadcast_to(handle.data, shape).reshape(-1)[order], handle.dtype)


def _given_back(data: np.ndarray, shape: tuple[int, ...], order: np.ndarray) -> np.ndarray:
    """Results of lanes that were served in that order, put back in place."""
    made = np.empty_like(data)
    made[order] = data
    return made.reshape(shape)


_NOT_READ = {
    "print": "device_print",
    "atomic_load": "atomic_load",
    "atomic_store": "atomic_store",
    "atomic_poll": "atomic_poll",
}
"""Builder methods, without `create_`, and their names in the language."""


def _memory(engine: Watcher) -> list[Patch]:
    """Loads, stores, atomic updates and barriers."""
    rmw, cas = Builder.create_atomic_rmw, Builder.create_atomic_cas

    def create_rmw(
        self: Builder, op: object, ptr: Handle, val: Handle, mask: Handle, sem: object, scope: object
    ) -> Handle:
        real = engine.real_pointers(ptr, np.broadcast_to(mask.data, ptr.data.shape), sem, scope)
        if real is None:
            return interpreter.TensorHandle(engine.found_by(op, ptr, val), val.dtype.scalar)
        order = engine.serving(real.data.size)
        real, val, mask = (_lanes_in_order(handle, ptr.data.shape, order) for handle in (real, val, mask))
        made = update(self, op, real, val, mask, sem, scope)
        engine.updated()
        return interpreter.TensorHandle(_given_back(made.data, ptr.data.shape, order), made.dtype)

    def update(
        self: Builder, op: object, real: Handle, val: Handle, mask: Handle, sem: object, scope: object
    ) -> Handle:
        if "XCHG" in str(op):  # moves bits, but Triton's interpreter only handles integers
            moved = rmw(self, op, real, as_integers(val), mask, sem, scope)
            return interpreter.TensorHandle(moved.data.view(val.data.dtype), val.dtype.scalar)
        if val.dtype.scalar.is_bf16():
            return interpreter.TensorHandle(updated_in_bf16(str(op), real.data, val, mask), tl.bfloat16)
        return rmw(self, op, real, val, mask, sem, scope)

    def create_cas(
        self: Builder, ptr: Handle, cmp: Handle, val: Handle, sem: object, scope: object
    ) -> Handle:
        real = engine.real_pointers(ptr, np.ones(ptr.data.shape, dtype=bool), sem, scope)
        if real is None:
            return interpreter.TensorHandle(cmp.data.copy(), cmp.dtype.scalar)
        order = engine.serving(real.data.size)
        served = (
            _lanes_in_order(handle, ptr.data.shape, order)
            for handle in (real, as_integers(cmp), as_integers(val))
        )
        found = _given_back(cas(self, *served, sem, scope).data, ptr.data.shape, order)
        engine.updated()
        return interpreter.TensorHandle(found.view(cmp.data.dtype), cmp.dtype.scalar)

    return [
        (
            Builder,
            "create_masked_load",
            # Triton 3.6 passes two policies, 3.9 one, descriptors none; volatile always comes last.
            lambda self, ptrs, mask, other, *rest, is_volatile=False, **policies: engine.load(
                ptrs, mask, other, bool(rest[-1] if rest else is_volatile)
            ),
        ),
        (
            Builder,
            "create_masked_store",
            lambda self, ptrs, value, mask, *rest, **kw: engine.store(ptrs, value, mask),
        ),
        (Builder, "create_atomic_rmw", create_rmw),
        (Builder, "create_atomic_cas", create_cas),
        (Builder, "create_barrier", lambda self: engine.meet()),
    ]


def _addresses(engine: Watcher) -> list[Patch]:
    """Integers that become pointers."""
    own = Builder.create_int_to_ptr

    def int_to_ptr(self: Builder, val: Handle, kind: tl.dtype) -> Handle:
        made = own(self, val, kind)
        return interpreter.TensorHandle(engine.memory.as_pointers(made.data), made.dtype)

    return [(Builder, "create_int_to_ptr", int_to_ptr)]


def _unread(engine: Watcher) -> list[Patch]:
    """Operations that are refused: they affect the process, or their cost is unknown."""
    found = [(f"create_{name}", called) for name, called in _NOT_READ.items()]
    return [(Builder, name, _refused(called)) for name, called in found if hasattr(Builder, name)]


def _refused(name: str) -> Callable[..., object]:
    def refuse(self: Builder, *args: object, **kwargs: object) -> object:
        if name == "device_print":
            raise Unpriced(f"tl.{name}: what it prints is lost, and its time is not known: take it out")
        raise Unsupported(f"tl.{name} is not interpreted")

    return refuse


def _foreign(engine: Watcher) -> list[Patch]:
    """libdevice functions and inline assembly."""

    def extern(
        self: Builder,
        lib: object,
        path: object,
        symbol: str,
        args: Sequence[Handle],
        ret_type: tl.dtype,
        pure: object,
    ) -> Handle:
        function = libdevice.find(symbol)
        if function is None:
            raise Unsupported(f"libdevice function {symbol} is not interpreted")
        scalar = ret_type.scalar
        data = np.asarray(function(*(arg.data for arg in args))).astype(interpreter._get_np_dtype(scalar))
        engine.count("float32", data.size * 8.0)
        return interpreter.TensorHandle(data, scalar)

    def asm(
        self: Builder,
        text: str,
        constraints: str,
        values: Sequence[Handle],
        types: Sequence[tl.dtype],
        is_pure: bool,
        pack: int,
    ) -> _Results:
        scalars = [kind.scalar for kind in types]
        kinds = [interpreter._get_np_dtype(scalar) for scalar in scalars]
        shape = values[0].data.shape if values else (1,)
        engine.count("float32", float(math.prod(shape)) * 4.0)
        try:
            made = ptx.evaluate(text, constraints, [value.data for value in values], kinds, pack)
        except ptx.NotEvaluated as error:
            if engine.mode not in ("model", "plan"):
                raise Unsupported(f"inline assembly: {error}") from None
            made = [np.zeros(shape, dtype=kind) for kind in kinds]
        return _Results(map(interpreter.TensorHandle, made, scalars))

    return [(Builder, "create_extern_elementwise", extern), (Builder, "create_inline_asm", asm)]


def _check_promise(engine: Watcher, kind: hints.Kind) -> Callable[[tl.tensor, Any], tl.tensor]:
    own = getattr(tl, hints.NAMES[kind])

    def promise(input: tl.tensor, values: object) -> tl.tensor:
        given = own(input, values)  # raises if there are too few values
        if engine.mode not in ("execute", "sample") or not isinstance(given, tl.tensor):
            return given
        units = hints.units(values, given.handle.data.ndim)
        step = partial(engine.promise, kind, units)
        making = engine.instances.making
        handle = step(given.handle) if making is None else making._called("promise", step, given.handle)
        return tl.tensor(handle, given.type)

    return promise


def _bare(own: Operator) -> Operator:
    """A global `tl.constexpr` combined with a tensor gives a tensor, as when compiled; Triton's interpreter gives a constexpr."""

    def operate(self: tl.constexpr, other: object) -> object:
        made = own(self, other)
        return made.value if isinstance(made.value, tl.tensor) else made

    return operate


class _Other(tl.tensor):
    """The value of masked lanes (`other`), true even if it is a single 0: Triton tests `if other`."""

    def __bool__(self) -> bool:
        return True


_TRITONS_LOAD, _TRITONS_STORE = TritonSemantic.load, TritonSemantic.store


def _load(
    self: TritonSemantic,
    ptr: tl.tensor,
    mask: tl.tensor | None,
    other: tl.tensor | None,
    *rest: object,
    **options: object,
) -> tl.tensor:
    """`tl.load` that keeps the information whether there was an `other` when a single lane is loaded, too."""
    if other is not None and mask is not None and ptr.type.scalar.is_ptr():
        kind = ptr.type.scalar.element_ty
        other = self.cast(other, tl.int8 if kind == tl.int1 else kind)
        if ptr.type.is_block():
            ptr, other = self.broadcast_impl_value(ptr, other)
        other = _Other(other.handle, other.type)
    return _TRITONS_LOAD(self, ptr, _asked(ptr, mask), other, *rest, **options)


def _store(
    self: TritonSemantic, ptr: tl.tensor, val: tl.tensor, mask: tl.tensor | None, *rest: object
) -> tl.tensor:
    return _TRITONS_STORE(self, ptr, val, _asked(ptr, mask), *rest)


def _asked(ptr: tl.tensor, mask: tl.tensor | None) -> tl.tensor | None:
    """A mask; that of a single lane as one that decides nothing."""
    if mask is None or ptr.type.is_block() or mask.type.is_block():
        return mask
    return Mask(mask.handle, mask.type)


class _Results(tuple[Handle, ...]):
    """Results of inline assembly."""

    def get_result(self, place: int) -> Handle:
        return self[place]
