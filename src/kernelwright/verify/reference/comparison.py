"""Compares an output with its expected value: the error allowed, where it is first exceeded, and how it is wrong.

The allowed error is a small multiple of an honest PyTorch run's error against fp64 in the task's own precision. It exceeds
the protocol's tolerance only where inputs scaled far up make that run exceed it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import torch

from kernelwright.records import Mismatch
from kernelwright.verify.protocol import Protocol
from kernelwright.verify.reference.expected import CHUNK, LOOSE, Expected, chunks, own_floor
from kernelwright.verify.reference.octaves import first_wrong
from kernelwright.verify.trace.pretend_cuda import poison_mask

# Multiples of (honest error, eps * |expected|) that are allowed, by precision class.
_FULL_PRECISION = (16.0, 64.0)
_HALF_PRECISION = (4.0, 4.0)
_CANCELLED, _ONE_BY_ONE = 32.0, 1.2
"""Multiples of eps * typical that are always allowed: in any case, and per root of the number of terms. Summing n terms one by
one (by atomics, say) rounds each partial sum: a standard error of eps * sqrt(n) / 4 for a sum that wanders, sqrt(n) / 6 for one
that grows, which the honest run's tree does not have. The factor is more than four such standard errors."""
_HALF_PEAK = 1.5
"""Multiple of an honest run's largest error that is always allowed in half precision."""
_HALF_SPREAD = (2.0, 0.5)
"""In half precision the final rounding makes most of an honest error, so its root mean square over many elements is well
known. Allowed: multiples of (the honest one, eps * that of the values). Digits lost everywhere show there, however small each
loss is against the largest error allowed."""
_ROUNDED_SHARE = 0.2
"""If less than this share of an output is slightly wrong, it is not rounding."""
_TOUCHED_SHARE = 0.5
"""If less than this share of an output has an error at all, its right elements were computed with all digits."""
_MOVED = 8.0
"""Multiple of what roundings move an element by that is allowed, except in half precision."""
_DECIDES = 4.0
"""If roundings move a half-precision element by more than this multiple of the error otherwise allowed, they decide something."""
_UNSTEADY = 0.25
"""An element that roundings move by more than this share of its value (or the typical one) depends on a decision (which expert a
near tie picks) and has no digits to lose."""
_DECIDED = 1e-3
"""For integers and booleans: the share of a chunk that roundings may decide,"""
_RARE = 0.02
"""and share of elements that roundings can move, up to which all of these may be decided; up to `LOOSE` half."""
_NEAR_ZERO = 4.0
"""Multiple of the spacing of numbers near zero that is always allowed; in float16 it is 6e-8."""
MANY = 256
"""Elements from which one honest run's error is representative."""
_SPREAD_FROM = 32
"""Elements from which a root mean square is meaningful: final roundings alone then never exceed what is allowed."""


def rules(expected: Expected, protocol: Protocol) -> tuple[float, ...]:
    """(rtol, atol, typical, of_value, floor, slack). Around a value of magnitude m the error allowed is

    min(max(m, typical) * rtol + atol, m * of_value + floor) * slack
    """
    dtype = str(expected.dtype).removeprefix("torch.")
    if not protocol.calibrated:
        return *protocol.preset(dtype), 0.0, 0.0, math.inf, 1.0
    rtol, atol = protocol.preset("float16" if expected.half else dtype)
    if expected.half:
        # A chain of rounded operators stays within the preset; digits lost everywhere show in `allowed_spread`.
        atol = max(atol, _HALF_PEAK * expected.honest_error)
    if expected.slack > 1.0:
        # If scores nearly tie in a softmax, a rounding decides between them: the honest run itself may exceed the preset
        # there, and another honest one errs up to four times as much.
        atol = max(atol, expected.honest_error)
    # Where sums cancel, the result is small and its error is not: it is relative to the terms.
    if not expected.dtype.is_floating_point:
        return rtol, atol, expected.typical, 0.0, math.inf, expected.slack
    eps = expected.epsilon
    of_error, of_value = _HALF_PRECISION if expected.half else _FULL_PRECISION
    # Half precision is summed in single precision, whose roundings do not show there.
    of_typical = _CANCELLED if expected.half else max(_CANCELLED, _ONE_BY_ONE * math.sqrt(expected.terms))
    if expected.own_digits:
        floor = own_floor(expected.typical, expected.dtype)
        return rtol, atol, expected.typical, eps * of_value, floor, expected.slack
    floor = of_error * expected.honest_error + eps * of_typical * expected.typical + _least(expected.dtype)
    return rtol, atol, expected.typical, eps * of_value, floor, expected.slack


def strays(expected: Expected, protocol: Protocol) -> bool:
    """Whether the reference errs in single precision by more than is allowed even at its largest value, so that an honest kernel may
    be refused: its own roundings are magnified without bound."""
    if not (expected.dtype.is_floating_point and protocol.calibrated) or expected.half:
        return False
    rtol, atol = protocol.preset(str(expected.dtype).removeprefix("torch."))
    finite = expected.value[torch.isfinite(expected.value)].abs()
    return expected.honest_error > rtol * float(finite.max() if finite.numel() else 0.0) + atol


def allowed_error(
    expected: Expected, value: torch.Tensor, protocol: Protocol, moved: torch.Tensor | None = None
) -> torch.Tensor:
    """Absolute error allowed (fp64) around each element of `value`, a piece of `expected.value`; `moved` is the same piece."""
    rtol, atol, typical, of_value, floor, slack = rules(expected, protocol)
    magnitude = value.double().abs()
    if expected.judged is not None and protocol.calibrated:
        magnitude = torch.where(torch.isfinite(magnitude), magnitude, 0.0)
    allowed = magnitude.clamp_min(typical) * rtol + atol
    allowed = torch.minimum(allowed, magnitude * of_value + floor) * slack
    if moved is None:
        return allowed
    if not expected.half:
        return torch.maximum(allowed, moved * _MOVED)
    # An element on the other side of a decision has a rounding of its own.
    anew = torch.where(moved > _DECIDES * allowed, allowed, 0.0)
    return torch.maximum(allowed, moved + anew)


def allowed_spread(expected: Expected, protocol: Protocol) -> float | None:
    """Root mean square error allowed over a whole output; None if elements are judged only one by one."""
    if not (expected.half and protocol.calibrated and math.prod(expected.shape) >= _SPREAD_FROM):
        return None
    of_error, of_value = _HALF_SPREAD
    honest = expected.spread
    if not honest and expected.moved is not None:  # no error by luck, or because something cancels
        honest = float(torch.linalg.vector_norm(expected.moved)) / math.sqrt(expected.moved.numel())
    eps = expected.epsilon
    floor = of_value * eps * expected.root_mean_square + _least(expected.dtype)
    return (of_error * honest + floor) * expected.slack


def _least(dtype: torch.dtype) -> float:
    """A few times the spacing of a dtype's numbers near zero."""
    return max(1e-30, _NEAR_ZERO * torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps)


@dataclasses.dataclass
class Comparison:
    """How one output differs from what was expected."""

    worst: float
    """Largest error as a share of the error allowed; inf for non-finite values."""
    kind: str = ""
    """Empty if within tolerance, else `unwritten`, `non_finite`, `low_precision` or `wrong_value`."""
    mismatch: Mismatch | None = None


def compare(position: int, got: torch.Tensor, expected: Expected, protocol: Protocol) -> Comparison:
    """Compare one output tensor of the right shape and dtype with the oracle."""
    if got.numel() == 0:
        return Comparison(0.0)
    got = settled(got, expected, protocol)
    fast = expected.dtype.is_floating_point and expected.judged is None and expected.moved is None
    fast = fast and expected.octaves is None
    if got.is_cuda and fast:
        from kernelwright.verify.reference import fused_comparison as fused

        seen = fused.compare_fused(got.contiguous(), expected.value, rules(expected, protocol))
        spread = allowed_spread(expected, protocol)
        strayed = 0.0 if spread is None else math.sqrt(seen.squares / got.numel()) / spread
        if not seen.wrong and strayed <= 1.0:
            return Comparison(max(seen.worst, strayed))
    comparison = _explain(position, got, expected, protocol)
    if comparison.kind or expected.octaves is None or not protocol.calibrated:
        return comparison
    return _of_octaves(position, got, expected) or comparison


def _of_octaves(position: int, got: torch.Tensor, expected: Expected) -> Comparison | None:
    """`low_precision` where weights of a softmax lost digits that their octave has (`octaves.py`); else None."""
    assert expected.octaves is not None
    lost = first_wrong(expected.value, got, expected.octaves, expected.slack, expected.moved)
    if lost is None:
        return None
    found = _Wrong()
    found.point_at(lost[0], got, expected.value, lost[1])
    return Comparison(math.inf, "low_precision", found.mismatch(position, expected.shape))


def settled(got: torch.Tensor, expected: Expected, protocol: Protocol) -> torch.Tensor:
    """`got` with everything that another order of ties makes equally right replaced by what is expected: indices, and rows
    along the last axis; rows of integers also where a rounding decides which elements are equal."""
    for other in expected.orders:
        row = _rows(_near(got.reshape(other.shape), other, expected, protocol))
        row = row & _is_nearer(got.reshape(other.shape), other, expected.value.reshape(other.shape))
        wanted = expected.value.reshape(other.shape).to(got.dtype)
        if expected.moved is not None and not other.is_floating_point():
            row = row | ~_rows(expected.moved.reshape(other.shape) == 0)
        got = torch.where(row, wanted, got.reshape(other.shape)).reshape(got.shape)
    return got if expected.chosen is None else expected.chosen.settled(got, expected.value)


def with_order(expected: Expected, other: torch.Tensor, protocol: Protocol) -> Expected:
    """`expected` with what another order of ties makes, in rows where that differs."""
    value = expected.value.reshape(other.shape)
    if other.dtype == torch.float64:
        other = other.to(value.dtype)
        same = _rows(value == other)
    else:
        same = _rows(_near(value, other, expected, protocol))
    if same.all():
        return expected
    if other.is_floating_point():
        other = other.masked_fill(same, math.nan)
    return dataclasses.replace(expected, orders=(*expected.orders, other))


def _near(got: torch.Tensor, other: torch.Tensor, expected: Expected, protocol: Protocol) -> torch.Tensor:
    if not other.is_floating_point():
        return got == other
    error = (got.double() - other.double()).abs()
    return (got == other) | (error <= allowed_error(expected, other, protocol))


def _is_nearer(got: torch.Tensor, other: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Mask of rows of floats that are as near to `other` as to `value`, so that no error is hidden that they have from both."""
    if not other.is_floating_point():
        return torch.ones_like(got, dtype=torch.bool)
    one, two = ((got.double() - right.double()).square() for right in (other, value))
    return (
        (one.sum(-1, keepdim=True) <= two.sum(-1, keepdim=True)).expand_as(got)
        if got.dim() > 1
        else one <= two
    )


def _rows(right: torch.Tensor) -> torch.Tensor:
    return right.all(-1, keepdim=True).expand_as(right) if right.dim() > 1 else right


def compare_or_round(
    position: int,
    got: torch.Tensor,
    expected: Expected,
    protocol: Protocol,
    with_roundings: Callable[[], Expected],
    in_single: Callable[[], Expected] | None = None,
) -> Comparison:
    """`compare`; if numbers would be called wrong, again with what roundings move them by, and then against `in_single`
    (`Case.in_single`)."""
    comparison = compare(position, got, expected, protocol)
    numbers = ("wrong_value", "low_precision", "non_finite")
    if comparison.kind not in numbers or not protocol.calibrated:
        return comparison
    if not expected.elementwise and not expected.own_digits:
        comparison = compare(position, got, with_roundings(), protocol)
    if comparison.kind in numbers and in_single is not None and (other := in_single()) is not expected:
        second = compare(position, got, other, protocol)
        return comparison if second.kind else second
    return comparison


def _explain(position: int, got: torch.Tensor, expected: Expected, protocol: Protocol) -> Comparison:
    """The full comparison: where an output first goes wrong, and how."""
    pieces = [
        chunks(t) if t is not None else None
        for t in (expected.value, expected.judged, expected.infinite, expected.moved)
    ]
    values = pieces[0] or ()
    worst, found, errors, steady = 0.0, _Wrong(), 0.0, 0
    for number, piece in enumerate(chunks(got)):
        value = values[number]
        judged, infinite, moved = (part[number] if part is not None else None for part in pieces[1:])
        if not expected.dtype.is_floating_point:
            allowed = torch.zeros_like(value, dtype=torch.float64) if moved is None else moved
            wrong = _is_undecided(piece, value, moved) if moved is not None else piece != value
            wrong = wrong if judged is None else wrong & judged
            found.add(number, wrong, piece, value, allowed)
            continue
        reference, allowed = value.double(), allowed_error(expected, value, protocol, moved)
        error = (piece.double() - reference).abs()
        found.touched += int((error > 1e-2 * allowed).sum())
        wrong = ~(error <= allowed)
        if judged is not None and infinite is not None:
            # Where the honest result is infinite, the candidate must not return another value.
            known = judged if expected.elementwise else judged & ~_may_overflow(piece, reference)
            wrong = (wrong & known) | (infinite & (piece.double() != reference))
            error = torch.where(known, error, 0.0)
        if moved is not None:
            free = _may_be_infinite(piece, wrong, moved)
            wrong, error = wrong & ~free, torch.where(free, 0.0, error)
        if found.add(number, wrong, piece, reference, allowed):
            found.worst = max(
                found.worst, float((error / allowed.clamp_min(1e-300))[wrong].nan_to_num(math.inf).max())
            )
            found.error = max(found.error, float(error[wrong].nan_to_num(math.inf).max()))
            finite = torch.isfinite(piece)
            found.non_finite |= bool((wrong & ~finite & (judged if judged is not None else True)).any())
            found.poison |= _is_poison(piece[wrong])
        elif not found.count:
            share = torch.where(allowed > 0, error / allowed.clamp_min(1e-300), 0.0)
            worst = max(worst, float(share.max()))
            strays = error if moved is None else error[_is_steady(reference, moved, expected)]
            errors, steady = errors + float(torch.linalg.vector_norm(strays)) ** 2, steady + strays.numel()
    spread = allowed_spread(expected, protocol)
    if not found.count and spread is not None:
        strayed = math.sqrt(errors / steady) if steady >= _SPREAD_FROM else 0.0
        worst = max(worst, strayed / spread)
        if strayed > spread:
            # No element is wrong by itself: the first with an error above the mean allowed stands for all.
            for number, piece in enumerate(chunks(got)):
                reference = values[number].double()
                error = (piece.double() - reference).abs()
                if pieces[1] is not None:
                    error = torch.where(pieces[1][number], error, 0.0)
                if pieces[3] is not None:
                    error = torch.where(_is_steady(reference, pieces[3][number], expected), error, 0.0)
                found.add(number, error > spread, piece, reference, torch.full_like(reference, spread))
            return Comparison(worst, "low_precision", found.mismatch(position, expected.shape))
    if not found.count:
        return Comparison(worst)
    return _describe_wrong(found, position, expected, protocol)


def _is_steady(value: torch.Tensor, moved: torch.Tensor, expected: Expected) -> torch.Tensor:
    """Elements with digits that roundings leave alone."""
    return moved <= _UNSTEADY * value.abs().clamp_min(expected.typical)


def _is_undecided(got: torch.Tensor, value: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
    """Mask of wrong integers that no rounding decides; all wrong ones if roundings decide more than a few."""
    wrong = got != value
    near = wrong & ((got.double() - value.double()).abs() <= moved)
    loose, count = int((moved > 0).sum()), near.numel()
    share = 1.0 if loose <= _RARE * count else 0.5 if loose <= LOOSE * count else 0.0
    most = max(1.0, _DECIDED * count, share * loose)
    return wrong & ~near if int(near.sum()) <= most else wrong


def _may_be_infinite(got: torch.Tensor, wrong: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
    """Mask of elements that a rounding may make infinite: those that one did, and, since a few runs do not meet all of them, as
    many more infinities and NaNs. Memory that was never written is none of these."""
    written = ~poison_mask(got)
    met = torch.isinf(moved)
    more = wrong & ~met & ~torch.isfinite(got) & written
    return (met | more) & written if int(more.sum()) <= int(met.sum()) else met & written


def _is_poison(wrong: torch.Tensor) -> bool:
    """Whether any of the wrong elements was never written; of 8 bits all, since poison is a number among 256 there."""
    poison = poison_mask(wrong)
    return bool(poison.any() if wrong.element_size() > 1 else poison.all())


def _describe_wrong(found: _Wrong, position: int, expected: Expected, protocol: Protocol) -> Comparison:
    """Classify wrong elements."""
    mismatch = found.mismatch(position, expected.shape)
    if not expected.dtype.is_floating_point:
        return Comparison(math.inf, "wrong_value", mismatch)
    if found.poison:
        return Comparison(math.inf, "unwritten", mismatch)
    if found.non_finite:
        return Comparison(math.inf, "non_finite", mismatch)
    rounded = found.count >= _ROUNDED_SHARE * found.total and found.touched >= _TOUCHED_SHARE * found.total
    close = rounded and found.error <= 1e-2 * (expected.typical + 1e-30)
    return Comparison(
        found.worst, "low_precision" if close and protocol.calibrated else "wrong_value", mismatch
    )


def _may_overflow(got: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Where an infinity stands for a number whose square overflows. In an output with infinities (a cumulative product), products
    in another order, such as a tree's, overflow on the way; torch's own do on a GPU."""
    if got.dtype is torch.float16:  # its intermediate results are float32
        return torch.zeros_like(got, dtype=torch.bool)
    huge = reference.abs() > math.sqrt(torch.finfo(got.dtype).max)
    return huge & torch.isinf(got) & (got.sign() == reference.sign())


class _Wrong:
    """Wrong elements of an output, collected chunk by chunk."""

    def __init__(self) -> None:
        self.count = self.total = 0
        """Wrong elements, and all that a rounding changes: a zero stays zero."""
        self.touched = 0
        """Elements with an error that is noticeable against the one allowed."""
        self.worst = self.error = 0.0
        self.poison = self.non_finite = False
        self._first: tuple[int, float, float, float] | None = None

    def add(
        self,
        chunk: int,
        wrong: torch.Tensor,
        got: torch.Tensor,
        expected: torch.Tensor,
        allowed: torch.Tensor,
    ) -> bool:
        """Count a chunk's wrong elements and keep the first. Returns whether there were any."""
        self.total += int((expected != 0).sum())
        count = int(wrong.sum())
        if count and self._first is None:
            at = int(wrong.to(torch.uint8).argmax())
            self._first = chunk * CHUNK + at, float(got[at]), float(expected[at]), float(allowed[at])
        self.count += count
        return count > 0

    def point_at(self, flat: int, got: torch.Tensor, expected: torch.Tensor, allowed: float) -> None:
        """One element stands for all."""
        self.count, self.total = 1, got.numel()
        self._first = flat, float(got.reshape(-1)[flat]), float(expected.reshape(-1)[flat]), allowed

    def mismatch(self, position: int, shape: tuple[int, ...]) -> Mismatch:
        assert self._first is not None
        flat, got, expected, allowed = self._first
        index = []
        for extent in reversed(shape):
            index.append(flat % extent)
            flat //= extent
        return Mismatch(
            output=position,
            index=tuple(reversed(index)),
            got=got,
            expected=expected,
            allowed=allowed,
            wrong_share=self.count / max(self.total, 1),
        )
