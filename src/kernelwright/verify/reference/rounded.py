"""Applies a precision to the reference: torch's switches, casts, TF32 modelled on any device, fp64 without rounding casts.

TF32 is modelled by rounding the operands of products and convolutions to ten bits of mantissa, or by truncating them, as GPUs
may. Rounding gives the honest error, truncation shows how far TF32 reaches. Changes that a source makes to torch's switches are
undone, so that no other task runs under them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch

from kernelwright.drawing import DRAWING
from kernelwright.precision import Precision
from kernelwright.verify.reference.copies import once
from kernelwright.verify.structures import Args, DispatchMode, Kwargs, Op, convert, flatten

if TYPE_CHECKING:
    from kernelwright.verify.structures import Kwargs, Op

_FINFO = torch.finfo
EPSILON = 2.0**-10
"""Spacing of TF32 numbers above 1: ten bits of mantissa, as in float16."""
_OPERANDS = {
    "mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1, "addbmm": 1, "mv": 0, "addmv": 1, "dot": 0,
    "_scaled_dot_product_flash_attention_for_cpu": 0, "_scaled_dot_product_efficient_attention": 0,
    "_scaled_dot_product_fused_attention_overrideable": 0, "_scaled_dot_product_attention_math": 0,
}  # fmt: skip
"""Products, and the position of the first of their two operands."""
_CONVOLUTIONS = {"convolution": 0, "_convolution": 0, "cudnn_convolution": 0, "convolution_backward": 0}
_MAKES = frozenset(
    ["_to_copy", "empty", "zeros", "ones", "full", "arange", "linspace", "scalar_tensor", "eye", "empty_like", "zeros_like",
     "ones_like", "full_like", "new_empty", "new_zeros", "new_ones", "new_full"]
)  # fmt: skip
"""Casts, and operators that create tensors from numbers."""


@dataclass(frozen=True)
class _Tf32:
    """Torch's TF32 switches, old and new (`fp32_precision`). If a reference has set only the new ones, torch refuses to read the
    old ones; then their defaults are assumed."""

    products: str
    convolutions: bool
    new: tuple[str, ...]

    @staticmethod
    def _holders() -> tuple[Any, ...]:
        cudnn: Any = torch.backends.cudnn  # stubs do not know its parts
        return torch.backends.cuda.matmul, cudnn.conv, cudnn.rnn

    @classmethod
    def now(cls) -> Self:
        new = tuple(one.fp32_precision for one in cls._holders())
        try:
            products = torch.get_float32_matmul_precision()
        except RuntimeError:
            products = "highest"
        try:
            convolutions = torch.backends.cudnn.allow_tf32
        except RuntimeError:
            convolutions = True
        return cls(products, convolutions, new)

    def restore(self) -> None:
        """Sets the old switches first, because that changes the new ones."""
        torch.set_float32_matmul_precision(self.products)
        torch.backends.cudnn.allow_tf32 = self.convolutions
        for holder, value in zip(self._holders(), self.new, strict=True):
            holder.fp32_precision = value


@contextlib.contextmanager
def switches_kept() -> Iterator[None]:
    """Restore torch's global switches after the block; other threads' blocks wait for its end."""
    with DRAWING:
        yield from _switches_kept()


def _switches_kept() -> Iterator[None]:
    cudnn, tf32, dtype = torch.backends.cudnn, _Tf32.now(), torch.get_default_dtype()
    deterministic, benchmark = torch.are_deterministic_algorithms_enabled(), cudnn.benchmark
    try:
        yield
    finally:
        tf32.restore()
        cudnn.benchmark = benchmark
        torch.set_default_dtype(dtype)
        if torch.are_deterministic_algorithms_enabled() != deterministic:  # the setter imports Inductor
            torch.use_deterministic_algorithms(deterministic)


def set_flags(products: bool, convolutions: bool) -> None:
    """Set torch's own switches for the rest of this process."""
    torch.set_float32_matmul_precision("highest")  # applies to CPU products as well, unlike the next line
    torch.backends.cuda.matmul.allow_tf32 = products
    torch.backends.cudnn.allow_tf32 = convolutions


@contextlib.contextmanager
def flags(products: bool, convolutions: bool) -> Iterator[None]:
    """Set torch's own switches for a block; other threads' blocks wait for its end."""
    with DRAWING:
        before = _Tf32.now()
        set_flags(products, convolutions)
        try:
            yield
        finally:
            before.restore()


def cast(tree: object, precision: Precision) -> Any:
    """A nest with floating-point tensors cast to the precision's dtype, if it casts."""
    if not precision.cast:
        return tree
    dtype = getattr(torch, precision.cast)
    return convert(tree, lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


def cast_module(module: torch.nn.Module, precision: Precision) -> torch.nn.Module:
    """The module itself, with parameters and buffers cast as by `.to(dtype)`."""
    return module.to(getattr(torch, precision.cast)) if precision.cast else module


class Rounded(DispatchMode):
    """Rounds float32 operands of products and convolutions to TF32, where a precision allows it."""

    def __init__(
        self, precision: Precision, change: Callable[[torch.Tensor], torch.Tensor] | None = None
    ) -> None:
        super().__init__()
        self._change = change or to_tf32
        self._places = (_OPERANDS if precision.products else {}) | (
            _CONVOLUTIONS if precision.convolutions else {}
        )
        self.used = False
        """Whether any operand was float32."""

    def __torch_dispatch__(self, func: Op, types: object, args: Any = (), kwargs: Kwargs = None) -> object:
        first = self._places.get(func._schema.name.removeprefix("aten::"))
        if first is not None:
            operands = args[first : first + 2]
            self.used |= any(operand.dtype == torch.float32 for operand in operands)
            changed = (once(one, self._change.__name__, self._change) for one in operands)
            args = (*args[:first], *changed, *args[first + 2 :])
        return func(*args, **(kwargs or {}))


class _Told(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _FINFO)


class _Limits(metaclass=_Told):
    """`torch.finfo` while any thread is in a `Wide`: other threads are told what they ask for."""

    _here = threading.local()
    _lock = threading.Lock()
    _inside = 0

    def __new__(cls, kind: torch.dtype | None = None) -> torch.finfo:  # type: ignore[misc]
        kind = torch.get_default_dtype() if kind is None else kind
        usual = getattr(cls._here, "usual", ())
        return _FINFO(usual[-1] if usual and kind == torch.float64 else kind)

    @classmethod
    def enter(cls, usual: torch.dtype) -> None:
        cls._here.usual = (*getattr(cls._here, "usual", ()), usual)
        with cls._lock:
            cls._inside += 1
            torch.finfo = cls  # type: ignore[misc]

    @classmethod
    def leave(cls) -> None:
        cls._here.usual = cls._here.usual[:-1]
        with cls._lock:
            cls._inside -= 1
            if not cls._inside:
                torch.finfo = _FINFO  # type: ignore[misc]


class Wide(DispatchMode):
    """In an fp64 run, makes casts to narrower floats and new tensors fp64, and so what an operator is asked to compute in a
    narrower dtype: a sum in float32, or a norm, which torch refuses for float64. Casts to 8 bits stay: they quantise, and no
    compiler leaves them out. `torch.finfo` of fp64 is that of the type of the `usual` floats, if they have one type: an epsilon is a
    constant of the task."""

    def __init__(self, *usual: object) -> None:
        super().__init__()
        kinds = {one.dtype for one in flatten(list(usual)) if one.is_floating_point()}
        self._type = kinds.pop() if len(kinds) == 1 else torch.float64

    def __enter__(self) -> Self:
        _Limits.enter(self._type)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        _Limits.leave()
        super().__exit__(*error)

    def __torch_dispatch__(self, func: Op, types: object, args: Args = (), kwargs: Kwargs = None) -> object:
        kwargs = kwargs or {}
        asked = kwargs.get("dtype")
        drawn = torch.Tag.nondeterministic_seeded in func.tags  # in fp64 other numbers would be drawn
        if isinstance(asked, torch.dtype) and asked.is_floating_point and asked.itemsize > 1 and not drawn:
            kwargs = kwargs | {"dtype": torch.float64}
        out = func(*args, **kwargs)
        if func._schema.name.removeprefix("aten::") not in _MAKES:
            return out
        narrow = out.is_floating_point() and out.dtype != torch.float64 and out.element_size() > 1
        return func(*args, **kwargs | {"dtype": torch.float64}) if narrow else out


def to_tf32(tensor: torch.Tensor) -> torch.Tensor:
    """float32 rounded to the nearest number with ten bits of mantissa, ties to even; other dtypes unchanged."""
    return _with_bits(
        tensor, lambda bits: (bits >> 13).bitwise_and_(1).add_(bits).add_(0xFFF).bitwise_and_(-0x2000)
    )


def cut_off(tensor: torch.Tensor) -> torch.Tensor:
    """float32 without its last 13 bits; other dtypes unchanged."""
    return _with_bits(tensor, lambda bits: bits & -0x2000)


def _with_bits(tensor: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    if tensor.dtype != torch.float32:
        return tensor
    changed = change(tensor.view(torch.int32)).view(torch.float32)
    # Of NaN the bits say more than its value.
    return torch.where(tensor.isnan(), tensor, changed) if bool(tensor.sum().isnan()) else changed
