"""The expected value of an output: the oracle's fp64 value, and how far an honest module of the same precision strays from it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import torch

from kernelwright.verify.reference.choices import Chosen
from kernelwright.verify.reference.leaning import Leaning, leaning
from kernelwright.verify.reference.octaves import own_error

_LARGE = 1 << 22
"""Expected outputs of at least this many elements are kept in fp32."""
COARSE = 2.0**-17
"""Rounding step above which an output is judged as half precision: a rounding shows in every element."""
_OWN = 64.0
"""Multiple of single precision's eps * typical."""
LOOSE = 0.1
"""The most of an output's integers that roundings may decide."""
CHUNK = 1 << 24
"""Elements compared at a time."""


@dataclasses.dataclass
class Expected:
    """The expected value of one output, and how far an honest module of the same precision strays from it."""

    value: torch.Tensor
    """fp64 for floating-point outputs (fp32 for large ones of at most that precision, whose rounding is far
    below any tolerance here); otherwise the output itself."""
    shape: tuple[int, ...]
    dtype: torch.dtype
    honest_error: float
    """Largest absolute error of the reference run in its own precision."""
    typical: float
    """Mean absolute value, by which cancellation errors scale."""
    judged: torch.Tensor | None
    """Mask of elements that are finite in oracle and reference; None if all are. Of integers all or none is judged, but for exponents of infinities."""
    infinite: torch.Tensor | None
    """Mask of elements that are the same infinity in both; None if none are."""
    slack: float = 1.0
    """Factor on the error allowed. Above 1 for inputs scaled far up: they are there to make naive kernels overflow, and an
    honest one may lose more digits there than the reference does. The reference's own error there is allowed even where it
    exceeds the protocol's tolerance."""
    spread: float = math.inf
    """Root mean square error of the reference in its own precision."""
    root_mean_square: float = 0.0
    """Root mean square of the values."""
    terms: float = 1.0
    """Elements of the largest input per element of the output: a bound on the terms of a sequential sum."""
    step: float = 0.0
    """Relative rounding step of anything coarser than the dtype that the output depends on, such as operands in TF32."""
    moved: torch.Tensor | None = None
    """fp64: how far roundings move each element; None if not computed (`reference/roundings.py`)."""
    elementwise: bool = False
    """Each element is made of few operations on its own; none may overflow on the way."""
    chosen: Chosen | None = None
    """For indices among ties: the values that they point to."""
    orders: tuple[torch.Tensor, ...] = ()
    """What the reference makes with ties in another order, if that differs."""
    leaning: Leaning | None = None
    """For half precision: the signed mean error of an honest run."""
    rounded_once: bool = False
    """In half precision: each element of an honest run is off by no more than one rounding."""
    octaves: torch.Tensor | None = None
    """For weights of a softmax in half precision: an honest run's relative error by octave (`octaves.own_error`)."""
    own_digits: bool = False
    """Each element is made by a single operator in half precision, and is held to its own digits."""
    residual: bool = False
    """The value is that of a run in its own precision (`reference/residuals.py`), `moved` how far roundings move it from there."""

    @property
    def half(self) -> bool:
        """Whether it is judged as half precision: few digits, none of which may be lost twice."""
        return self.dtype.is_floating_point and self.epsilon > COARSE

    @property
    def epsilon(self) -> float:
        """The relative rounding step that it is judged by."""
        return max(self.step, torch.finfo(self.dtype).eps)

    @property
    def size(self) -> int:
        """Bytes held."""
        held = [self.value, self.judged, self.infinite, self.moved, *self.orders]
        chosen = 0 if self.chosen is None else self.chosen.size
        return chosen + sum(nbytes(tensor) for tensor in held if tensor is not None)

    def as_residual(self, moved: torch.Tensor) -> Expected:
        """The same, expected as a residual, with `moved`."""
        error, spread = float(moved.max()), float(torch.linalg.vector_norm(moved)) / math.sqrt(moved.numel())
        return dataclasses.replace(
            self, residual=True, moved=moved, honest_error=error, spread=spread, leaning=None
        )

    def each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Expected:
        """The same with every elementwise tensor passed through `change`: some of the elements, or all in other memory."""

        def changed(tensor: torch.Tensor | None) -> torch.Tensor | None:
            return None if tensor is None else change(tensor)

        value = change(self.value)
        return dataclasses.replace(
            self,
            value=value,
            shape=tuple(value.shape),
            judged=changed(self.judged),
            infinite=changed(self.infinite),
            moved=changed(self.moved),
            chosen=None if self.chosen is None else self.chosen.each(change),
            orders=tuple(map(change, self.orders)),
            leaning=None,
            octaves=None,
        )


def expected_of(exact: torch.Tensor, honest: torch.Tensor, scaled: bool = False) -> Expected:
    """`scaled`: integers are not judged if the reference's own roundings decide more than `LOOSE` of them. Numbers that are scaled
    down may all be nearly equal, and those that are scaled up may overflow."""
    shape, dtype = tuple(honest.shape), honest.dtype
    if not honest.is_floating_point() or honest.numel() == 0:
        undecided = scaled and honest.numel() and float((exact != honest).double().mean()) > LOOSE
        judged = torch.zeros_like(honest, dtype=torch.bool) if undecided else None
        return Expected(honest.clone(), shape, dtype, 0.0, 0.0, judged, None)
    error, squares, total, square_total, finite = _spread(exact, honest)
    judged = infinite = None
    if not finite or float(torch.linalg.vector_norm(exact, math.inf)) > torch.finfo(dtype).max:
        judged = torch.isfinite(exact.to(dtype)) & torch.isfinite(honest)  # infinite if rounded once
        infinite = torch.isinf(exact) & (exact == honest)
    narrow = honest.numel() >= _LARGE and dtype != torch.float64
    value = exact.to(torch.float32 if narrow else torch.float64, copy=True).contiguous()
    count = honest.numel()
    return Expected(
        value,
        shape,
        dtype,
        error,
        total / count,
        judged,
        infinite,
        spread=math.sqrt(squares / count),
        root_mean_square=math.sqrt(square_total / count),
        leaning=None if honest.numel() >= _LARGE else leaning(exact, honest),
        rounded_once=_rounded_once(exact, honest, total / count),
    )


def octaves_of(exact: torch.Tensor, honest: torch.Tensor) -> torch.Tensor | None:
    """`Expected.octaves` of weights that a softmax made; None unless they are in half precision and not too many."""
    few = honest.dtype in (torch.bfloat16, torch.float16) and 0 < honest.numel() < _LARGE
    return own_error(exact, honest) if few else None


def own_floor(typical: float, dtype: torch.dtype) -> float:
    """Absolute error allowed to elements judged by their own digits: that of single precision where something cancels."""
    return _OWN * torch.finfo(torch.float32).eps * typical + torch.finfo(dtype).smallest_normal


def _rounded_once(exact: torch.Tensor, honest: torch.Tensor, typical: float) -> bool:
    if honest.dtype not in (torch.bfloat16, torch.float16) or honest.numel() >= _LARGE:
        return False
    value = exact.double().nan_to_num(0.0, 0.0, 0.0)
    error = (honest.double() - exact.double()).abs().nan_to_num(0.0, 0.0, 0.0)
    allowed = value.abs() * torch.finfo(honest.dtype).eps + own_floor(typical, honest.dtype)
    return bool((error <= allowed).all())


def _spread(exact: torch.Tensor, honest: torch.Tensor) -> tuple[float, float, float, float, bool]:
    """See `fused.Spread`."""
    if honest.is_cuda:
        from kernelwright.verify.reference import fused_comparison as fused

        return fused.spread(exact.contiguous(), honest.contiguous())
    error = squares = total = square_total = 0.0
    finite = True
    for e, h in zip(*(chunks(t) for t in (exact, honest)), strict=True):
        e, h = e.double(), h.double()
        both = torch.isfinite(e) & torch.isfinite(h)
        finite = finite and bool(both.all())
        strayed = torch.where(both, (e - h).abs(), 0.0)
        error = max(error, float(strayed.max()))
        squares += float(torch.linalg.vector_norm(strayed).square())
        size = torch.where(both, e.abs(), 0.0)
        total += float(size.sum())
        square_total += float(torch.linalg.vector_norm(size).square())
    return error, squares, total, square_total, finite


def rms_difference(exact: torch.Tensor, made: torch.Tensor) -> float:
    """Root mean square difference over elements that are finite in both."""
    if made.numel() == 0 or not made.is_floating_point():
        return 0.0
    return math.sqrt(_spread(exact, made)[1] / made.numel())


def chunks(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The elements in row-major order, in pieces small enough for fp64 copies."""
    return tensor.reshape(-1).split(CHUNK)


def nbytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
