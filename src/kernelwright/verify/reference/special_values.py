"""Special inputs that random draws never produce, chosen by the operators that a reference runs (`kinds`).

docs/judge.md says under "Values" what is asked of which references; `_CHANGES` holds what a kind makes of a tensor. Kinds of other
files: `degenerate`, `level`, `apart`, `least`, `near` (`degenerate.py`), `named` (`named_values.py`), `outlier` (`locality.py`),
and `reach`, which `oracle.py` scales until values in the middle of a chain cross a bound that no other case crosses.

Several patterns share a case, a row each, which costs one run instead of ten. We expect what the reference makes of them,
infinities included. Not asked: anything where it has NaN, because compilers' maxima drop NaN; signs of zeros; denormals.
Properties that a reference or kernel may rely on stay: ranges of positive inputs (probabilities), zeros (masks,
triangles), symmetry and order. A range that ends near 0 or 1 includes that end if the reference is finite there.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from kernelwright.verify.reference import degenerate
from kernelwright.verify.reference.distributions import in_order
from kernelwright.verify.reference.whole_numbers import next_to_powers
from kernelwright.verify.structures import convert, flatten
from kernelwright.verify.trace.pretend_cuda import ALLOCATION, COPIES, METADATA, VIEWS

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_NAMED = {what: tuple(names.split()) for what, names in _TABLES.items()}
"""Operators by parts of their names, from the table."""
FEW = (0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 6.0, 20.0)
_OFFSET, _FAR, _LOW, _EXTREME = 300.0, 3000.0, -20_000.0, 1e20
_DISTANT, _LADDER, _SCORES = (3.5, 6.0), (-3.0, 3.5), (0.0, 2.5)
"""Ranges of exponents of ten."""
_SPIKED, _SPIKE = 1 / 3, 1000.0
"""Share of rows with an element far above the others, and its factor."""
_MOST_WEIGHED = 1e4
"""Where a softmax of products follows, elements are no larger by that factor. Scores of 1e10 are off by hundreds as they are rounded, so
`exp2(s * scale - max)` overflows if the product is contracted with the subtraction, as published kernels' are."""
_LEAST, _SMALLEST, _NEAR_ONE = 1e-6, 1e-15, (4.0, 7.0)
"""The largest of tiny constants; least factor on inputs; negated exponents of ten for logarithms."""
_HALVES = 9
"""Halves lie between minus this and this."""
_NEAR_END, _NEAR_END_OF, _MOST_NEAR = 0.01, 4.0, 0.1
"""Share of a range by which its largest or smallest draw may miss the true end: the first, or for few draws the second divided by
their number, at most the third."""
_SHARE_NAMED = 0.125
_LARGEST = 4
"""Neighbours of nearly the largest number that a type holds."""
_FAINT, _BESIDE_FIRST = 1e-8, 1e-4
"""Factors on the first input, and on the second of each pair."""
_OCTAVES = 8
"""Powers of two by which rows are scaled to lie below one: logarithms lose the step where they are large."""
_HOLES_OF, _OFTEN, _SEVERAL_COUNTS = 4, 0.01, 3
"""Holes are at random if of so many neighbours, in this share of them, so many counts are holes: of a pattern all have one count."""
_BLOCK = 16
"""The sides of squares with a plain border; those of larger ones are plain, too."""
_KEPT = 1 / 7
"""Share of elements that are not 0 in a sparse tensor."""
_COLLINEAR = 2.0**-11
"""How far a column lies from another that it nearly is, relative to what it was."""
_PRODUCT, _BESIDE = 0.9, 1e-3
"""For `annulled`: the logarithm of a product as a share of the largest number's, and how far numbers lie apart."""
_STAMP, _COMPARED, _APART = 60, 62, 1 << 20
"""Bits of integers near each other (like times in nanoseconds), and of those that are only compared; and their range: double
precision loses the last digits."""
_MOST_LANDMARKS, MOST = 32, 1e6
_BEYOND, _LAST_HALVES = (20, 24), 22
"""Bits of odd integers that single precision still holds, and the most bits for halves of them."""
_QUIET, _LOUD, _SENTINEL, _END = 0.01, 3.0, 1e6, 1 / 16
"""For `flat` and `alone`: the factor on quiet numbers; the factor on the largest, and what stands for nothing (float16: a hundredth);
the share of an axis that counts as its end."""
ROUNDS = 4
"""Calls of one operator from which a reference counts as working in rounds."""
_DIRECT = 2
"""The most operators that leave no choice of formula."""


def _of_products(names: set[str], ladder: list[str], plain: bool, centred: bool) -> list[str]:
    """Kinds for a reference with products. With equal or large rows the result of a softmax depends on a score's last digit, and
    that of a matrix decomposition on its pivots."""
    sums = not _among(names, "sensitive") and not _among(names, "orders")
    whole = not _among(names, "factors", "decompositions", "orders", "steps")
    behind = _behind_products(names, centred) + (["sparse", "faint"] if whole else [])
    behind += ["scores"] if whole and weighs(names) else []
    behind += ["matrices"] if _among(names, "factors", "decompositions") else []
    behind += ["centred"] if _names_any(names, ("svd",)) else []
    return (["rows"] if plain and sums else []) + ladder + (behind if plain else [])


def kinds(
    operators: Sequence[str], inputs: object, whole_outputs: bool, landmarks: Sequence[float] = ()
) -> list[str]:
    """Kinds of special values for a reference with these aten operators. `whole_outputs`: some output is of integers."""
    names = set(operators) - _quiet()
    given = flatten(inputs)
    floating = any(tensor.is_floating_point() and tensor.numel() > 1 for tensor in given)
    if _among(names, "random"):
        return []
    smooth = not (_among(names, "orders", "steps") or whole_outputs)
    ladder = ["padding"] if _among(names, "weighed", "maskable") and any(map(is_mask, given)) else []
    ladder += ["ladder"] if floating and smooth and not _names_any(names, ("linalg",)) else []
    if _among(names, "factors", "products"):
        return _of_products(names, ladder, floating and not whole_outputs, _centred(operators))
    found = []
    elementwise = pointwise(operators)
    stepped = whole_outputs and _among(names, "steps") and len(names) > 1
    if floating and not _among(names, "orders") and not stepped:
        found += ["rows", "ties", "images", "thin"]
    if floating and whole_outputs and not _among(names, "orders"):
        found.append("signs")
    if floating:
        found += ["eighths", "far"] if _among(names, "samplers") else ["far"]
    if floating and _among(names, "variances"):
        found.append("offset")
    found += _of_picks(names, operators) if floating else []
    if floating and _among(names, "orders"):
        found += ["crowded", "flat"]
    found += _of_carried(names, operators) if floating else []
    if any(one.dtype == torch.float32 for one in given) and alone(operators) and _among(names, "rounders"):
        found.append("beyond")
    if smooth and degenerate.pairs(inputs):
        found.append("near")
    # More operators may be arranged differently (Horner's rule), which is as right and overflows elsewhere.
    direct = floating and inexact(operators) <= _DIRECT
    if elementwise and direct:
        found += ["extreme", "minute"] if smooth or _stepped(names) else ["extreme"]
    counted = elementwise or not (
        _among(set(operators), "indexed") or _among(names, "orders") or "_to_copy" in operators
    )
    if counted and any(_counts(tensor) for tensor in given):
        found.append("integers")
    wide = floating and not any(tensor.dtype == torch.float16 for tensor in given)
    if wide and smooth:
        found.append("distant")
        if _tiny_constants(landmarks) or _among(names, "relative"):
            found.append("tiny")
    if any(kind in ("far", "offset", "tiny") for kind in found):
        found.append("long")
    if any(tensor.dtype == torch.bool and tensor.numel() > 1 for tensor in given) and not _among(
        names, "weighed"
    ):
        found.append("masks")
    if floating and _among(names, "maskable") and not _among(set(operators), "indexed", "orders"):
        found.append("lone" if "logcumsumexp" in names else "masked")
    if floating and _among(names, "asks_for_nan"):
        found.append("nan")
    if floating and landmarks and any(name.rstrip("_").split("_")[0] in _NAMED["cuts"] for name in names):
        found.append("bounds")
    return found + ladder


def _of_carried(names: set[str], operators: Sequence[str]) -> list[str]:
    """Kinds for references in which an extremum counts however far away it stands: running ones, those of pairs, and states that are
    kept or replaced in rounds."""
    of_pairs: frozenset[str] = getattr(operators, "of_pairs", frozenset())
    kept = rounds(operators, ("where",)) >= ROUNDS and not pointwise(operators)
    most = kept or "cummax" in names or not of_pairs.isdisjoint(("max", "amax", "argmax"))
    least = "cummin" in names or not of_pairs.isdisjoint(("min", "amin", "argmin"))
    return ["alone"] * most + ["alone_least"] * least


def rounds(operators: Iterable[str], among: Iterable[str]) -> int:
    """The most calls of one operator whose name begins with one of these."""
    counted = collections.Counter(name.strip("_") for name in operators)
    return max((count for name, count in counted.items() if name.startswith(tuple(among))), default=0)


def _of_picks(names: set[str], operators: Sequence[str]) -> list[str]:
    """Kinds for references that sort, select, take exponents of floats, or do nothing but a product along an axis."""
    largest = _among(names - {"clamp_max"}, "picks") and not _among(names, "variances")
    least = _among(names - {"clamp_min"}, "least")
    multiplied = alone(operators) and not names.isdisjoint(_NAMED["multiplied"])
    powers = ["powers"] * _stepped(names)
    return ["apart"] * largest + ["least"] * least + powers + ["annulled"] * multiplied


def _stepped(names: set[str]) -> bool:
    """Whether exponents of floats are taken."""
    return _among(names, "exponents") or ("log2" in names and _among(names, "steps"))


def _centred(operators: Sequence[str]) -> bool:
    """Whether a mean is taken, and something subtracted, before a product."""
    order = [name for name in operators if name in ("mean", "sub") or _among({name}, "products")]
    return order[:2] == ["mean", "sub"] and len(order) > 2


def _behind_products(names: set[str], centred: bool) -> list[str]:
    """Kinds for references that magnify differences of products, or multiply what is `centred`."""
    if _among(names, "factors", "decompositions"):
        return []
    varied = (centred or _among(names, "variances")) and not _among(names, "weighed", "steps")
    sensitive = _among(names, "sensitive")
    return ["degenerate"] * sensitive + ["level"] * (varied and (sensitive or centred))


def is_mask(tensor: torch.Tensor) -> bool:
    """Whether a tensor masks a softmax: booleans, or minus infinity somewhere."""
    if tensor.numel() < 2:
        return False
    return tensor.dtype == torch.bool or (tensor.is_floating_point() and bool(torch.isneginf(tensor).any()))


def flags(operators: Sequence[str]) -> bool:
    """Whether a reference asks whether numbers are finite, and then joins elements, so that a single one may decide about all."""
    return _among(set(operators), "asks_for_nan") and not pointwise(operators)


def single(tensor: torch.Tensor, generator: torch.Generator) -> Iterator[tuple[str, torch.Tensor]]:
    """(what, the tensor) with one element that is NaN, or one that is infinite half the tensor away from it, or with neighbours that
    are finite and whose sum is not."""
    most, count = torch.finfo(tensor.dtype).max, tensor.numel()
    first = int(torch.randint(count, (), generator=generator))
    for what, value, place, width in (
        ("NaN", math.nan, first, 1),
        ("infinity", math.inf, (first + count // 2) % count, 1),
        ("largest", 0.9 * most, min(first, max(0, count - _LARGEST)), _LARGEST),
    ):
        made = tensor.clone(memory_format=torch.contiguous_format)
        made.view(-1)[place : place + width] = value
        yield what, made


def with_other_holes(tensor: torch.Tensor, again: torch.Tensor) -> torch.Tensor | None:
    """A tensor in which some elements at random (zeros, NaN) are holes, with rows in turn full, empty but for the first element, as
    drawn, and empty from the middle on. None if there are none, or if there is a structure in where they are (`again`: another draw)."""
    if not tensor.is_floating_point() or tensor.ndim < 2 or tensor.shape[-1] < _HOLES_OF:
        return None
    for hole in (math.nan, 0.0):
        own, other = (one.isnan() if math.isnan(hole) else one == hole for one in (tensor, again))
        counts = own[..., : own.shape[-1] // _HOLES_OF * _HOLES_OF].reshape(-1, _HOLES_OF).sum(-1)
        often = (torch.bincount(counts, minlength=_HOLES_OF + 1) > _OFTEN * len(counts)).sum()
        if int(often) < _SEVERAL_COUNTS or torch.equal(own, other):
            continue
        values, empty = tensor[~own], torch.full_like(tensor[..., :1], hole)
        filled = values[torch.arange(tensor.numel()) % len(values)].reshape(tensor.shape)
        first = torch.cat([filled[..., :1], empty.expand(*tensor.shape[:-1], tensor.shape[-1] - 1)], -1)
        half = torch.where(torch.arange(tensor.shape[-1]) < tensor.shape[-1] // 2, tensor, empty)
        turn = torch.arange(tensor[..., 0].numel()).reshape(tensor.shape[:-1]).unsqueeze(-1) % _HOLES_OF
        for number, one in enumerate((filled, first, tensor, half)):
            tensor = torch.where(turn == number, one, tensor)
        return tensor
    return None


def kinked(operators: Sequence[str]) -> bool:
    """Whether a reference has kinks or ties at which its gradient is a matter of choice."""
    return _among(set(operators), "kinks", "orders")


def sensitive(operators: Sequence[str]) -> bool:
    """Whether large inputs magnify a last digit."""
    names = set(operators)
    uneven = _among(names, "factors", "products") and _among(names, "sensitive")
    return uneven or _among(names, "random", "orders", "weighed")


def decides(operators: Sequence[str]) -> bool:
    """Whether a tie, a pivot or a drawn number decides something."""
    return _among(set(operators), "orders", "random", "factors", "decompositions")


def directed(operators: Sequence[str]) -> bool:
    """Whether a reference makes something of products that depends on directions of rows, and neither sorts nor decomposes."""
    names = set(operators)
    joined = _among(names, "products") and _among(names, "sensitive")
    return joined and not _among(names, "orders", "random", "steps", "factors", "decompositions")


def multiplies(operators: Iterable[str]) -> bool:
    """Whether a reference multiplies matrices, which is more work than reading and writing."""
    return _among(set(operators), "factors", "products")


def weighs(operators: Iterable[str]) -> bool:
    """Whether a reference makes weights (a softmax) of products."""
    names = set(operators)
    return _among(names, "factors", "products") and _among(names, "weighed")


def chooses_among(operators: Iterable[str]) -> bool:
    """Whether a reference selects some of the elements along an axis, or sorts them."""
    return not set(operators).isdisjoint(("topk", "sort", "max", "min", "argmax", "argmin"))


def adds_to_places(operators: Iterable[str]) -> bool:
    """Whether a reference adds to, or reduces at, places that integers name."""
    return _names_any(
        set(operators), ("index_add", "index_reduce", "index_put", "scatter_add", "scatter_reduce")
    )


def only_adds_to_places(operators: Iterable[str]) -> bool:
    """Whether a reference adds to places that integers name, and neither multiplies matrices nor draws numbers."""
    names = set(operators)
    return adds_to_places(names) and not _among(names, "factors", "products", "random")


def averages(operators: Iterable[str]) -> bool:
    """Whether a reference takes a mean or variance, in which the number of elements of a part counts."""
    return _among(set(operators), "variances") or "mean" in operators


def takes_windows(operators: Iterable[str]) -> bool:
    """Whether a reference sums windows, or views an input as windows, and neither multiplies matrices nor draws numbers."""
    names = set(operators)
    return _among(names, "windows") and not _among(names, "factors", "products", "random")


def takes_exponents(operators: Iterable[str]) -> bool:
    """Whether a reference takes exponents as C's `frexp` does, which leaves that of an infinity open."""
    return "frexp" in operators


def direct(operators: Sequence[str]) -> bool:
    """Whether a reference is little more than a function of each element."""
    return pointwise(operators) and inexact(operators) <= _DIRECT


def relative(operators: Sequence[str]) -> bool:
    """Whether a reference is little more than a function that keeps its digits near 0 (log1p)."""
    return direct(operators) and any(name in _NAMED["relative"] for name in operators)


def _tiny_constants(landmarks: Sequence[float]) -> list[float]:
    return [value for value in landmarks if 0.0 < value <= _LEAST]


@dataclasses.dataclass(frozen=True)
class _Draw:
    """Parameters of a draw of special values; `root` and `weighed` as in `with_special_values`."""

    generator: torch.Generator
    landmarks: Sequence[float]
    dtype: torch.dtype
    root: bool
    weighed: bool = False


def with_special_values(
    inputs: object,
    kind: str,
    seed: int,
    landmarks: Sequence[float],
    end: float | None = None,
    root: bool = True,
    elementwise: bool = True,
    whole: int = 0,
    widest: int = 0,
    weighed: bool = False,
) -> Any:
    """The inputs with special values of one kind, including `landmarks`, numbers that the reference names. `end`: how near
    to their ends, 0 and 1, ranges reach; as near as drawn without. `root`: tiny values are as small as a constant's root, not the constant. `elementwise`: integers are
    not summed. `whole`: see `sums_whole`. `widest`: the most bits of 32-bit integers. `weighed`: a softmax of products follows."""
    generator = torch.Generator().manual_seed(seed)
    if kind in degenerate.KINDS:
        return degenerate.with_kind(inputs, kind, generator)
    if kind == "padding":
        return convert(inputs, lambda tensor: _with_padding(tensor) if is_mask(tensor) else tensor)
    change = _CHANGES.get(kind, _rows)
    floating = [one for one in flatten(inputs) if one.is_floating_point() and one.numel() > 1]
    paired = _seconds(floating) if kind == "faint" else []
    few = paired or floating[:1]

    def special(tensor: torch.Tensor) -> torch.Tensor:
        if kind in ("faint", "scores") and (
            not any(tensor is one for one in few) or tensor.dtype == torch.float16
        ):
            return tensor
        if paired:
            return tensor * _BESIDE_FIRST
        if kind == "integers":
            large = _counts(tensor)
            return _large_integers(tensor, generator, not elementwise, whole, widest) if large else tensor
        if kind == "masks":
            return _empty(tensor, generator) if tensor.dtype == torch.bool and tensor.numel() > 1 else tensor
        if not tensor.is_floating_point() or tensor.numel() < 2 or _symmetric(tensor):
            return tensor
        made = change(
            tensor.detach().double().cpu(), _Draw(generator, landmarks, tensor.dtype, root, weighed)
        )
        made = made.to(tensor.dtype).to(tensor.device)
        near = max(_NEAR_END, min(_MOST_NEAR, _NEAR_END_OF / tensor.numel()))
        if kind not in ("annulled", "alone", "alone_least"):
            ends = float(tensor.min()), float(tensor.max())
            made = _of_one_sign(made, *ends, near * (end is not None or kind == "tiny"), end or 0.0)
        kept = tensor == 0 if bool((tensor == 0).any()) else None
        return in_order(tensor, made if kept is None else torch.where(kept, tensor, made))

    return convert(inputs, special)


def _seconds(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The second of each pair, if tensors come in several pairs of one form, like real and imaginary parts."""
    pairs = list(zip(tensors[::2], tensors[1::2], strict=False))
    alike = all((one.shape, one.dtype) == (two.shape, two.dtype) for one, two in pairs)
    return [two for _, two in pairs] if alike and len(tensors) % 2 == 0 and len(pairs) > 1 else []


def _of_one_sign(made: torch.Tensor, low: float, high: float, near: float, end: float) -> torch.Tensor:
    """Clamped to the drawn range if that is of positive numbers, and made negative if it is of negative ones, like logarithms of
    decays. The range includes 0 and 1, or numbers as far as `end` from them, if draws are within a share `near` of them."""
    if not low >= 0:
        return -made.abs() if high <= 0 else made
    least = min(low, end) if low < near * high else low
    return made.clamp(least, 1.0 - end if 1.0 - near < high < 1.0 - end else high)


def _quiet() -> frozenset[str]:
    """Operators that compute nothing."""
    return frozenset({*VIEWS, *METADATA, *COPIES, *ALLOCATION, "lift_fresh", "detach"})


def pointwise(operators: Sequence[str]) -> bool:
    """Whether every operator works element by element or only copies and views."""
    quiet = _quiet()
    return bool(operators) and all(name in quiet or _is_tagged(name) for name in operators)


def sums_whole(operators: Iterable[str]) -> int:
    """Bits of integers up to which a reference that only adds, selects and compares is exact; 0 if it does anything
    else."""
    names = set(operators) - _quiet()
    if all(_names_any({name}, _NAMED["compared"]) for name in names):
        return _COMPARED
    return _STAMP if all(_names_any({name}, (*_NAMED["whole"], *_NAMED["compared"])) for name in names) else 0


def alone(operators: Sequence[str]) -> bool:
    """Whether a single operator does all the computing."""
    return len([name for name in operators if name not in _quiet()]) == 1


def infinite(inputs: object, shape: Sequence[int]) -> torch.Tensor | None:
    """By element of an output of that shape, whether an input's element there is infinite; None if shapes do not broadcast."""
    found = torch.zeros(tuple(shape), dtype=torch.bool)
    for tensor in flatten(inputs):
        if tensor.is_floating_point():
            try:
                found |= torch.isinf(tensor.cpu()).expand(found.shape)
            except RuntimeError:
                return None
    return found


def chooses(operators: Iterable[str]) -> bool:
    """Whether a condition excludes elements, whatever their values."""
    return _names_any(set(operators), ("where", "masked_fill"))


def product_of_magnitudes(inputs: object, shape: Sequence[int]) -> torch.Tensor | None:
    """By element of an output of that shape, the product of the inputs' magnitudes, values below 1 and infinities counting as 1;
    None if shapes do not broadcast."""
    found = torch.ones(tuple(shape), dtype=torch.float64)
    for tensor in flatten(inputs):
        if tensor.is_floating_point():
            size = tensor.detach().cpu().double().abs().clamp_min(1.0)
            try:
                found *= torch.where(torch.isinf(size), 1.0, size).expand(found.shape)
            except RuntimeError:
                return None
    return found


def inexact(operators: Sequence[str]) -> int:
    """How many pointwise operators may round."""
    exact = tuple(f"{word}_" for word in _NAMED["exact"])
    return sum(_is_tagged(name) for name in operators if not f"{name.strip('_')}_".startswith(exact))


def rounds_once(operators: Sequence[str]) -> bool:
    """Whether at most one pointwise operator rounds, and no step magnifies that."""
    names = set(operators)
    stepped = _among(names, "steps", "random") or _names_any(names, ("div", "divide"))
    return pointwise(operators) and inexact(operators) <= 1 and not stepped


def _is_tagged(name: str) -> bool:
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return False
    return any(torch.Tag.pointwise in getattr(packet, overload).tags for overload in packet.overloads())


def _among(names: set[str], *tables: str) -> bool:
    """Whether a name has a word of these tables as a part between underscores: `cummax` is no `mm`."""
    return any(_names_any(names, _NAMED[table]) for table in tables)


def _names_any(names: set[str], words: Sequence[str]) -> bool:
    bounded = [f"_{name.strip('_')}_" for name in names]
    return any(f"_{word}_" in name for name in bounded for word in words)


def _counts(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds integers of more than a byte."""
    return not tensor.is_floating_point() and not tensor.is_complex() and tensor.element_size() > 1


def _symmetric(tensor: torch.Tensor) -> bool:
    if tensor.ndim < 2 or tensor.shape[-1] != tensor.shape[-2] or tensor.shape[-1] == 1:
        return False
    return torch.equal(tensor, tensor.mT)


def _by_row(
    x: torch.Tensor, patterns: Sequence[Callable[[torch.Tensor], torch.Tensor]], first: int
) -> torch.Tensor:
    """Apply one pattern per row in turn, beginning with the `first`; a vector is cut into as many parts."""
    made = x.clone(memory_format=torch.contiguous_format)
    rows = made.reshape(-1, x.shape[-1]) if x.ndim > 1 else made.tensor_split(len(patterns))
    for place, row in enumerate(rows):
        if row.numel():
            row.copy_(patterns[(place + first) % len(patterns)](row))
    return made


def _pick(row: torch.Tensor, values: Sequence[float], generator: torch.Generator) -> torch.Tensor:
    held = torch.tensor(values, dtype=row.dtype)
    return held[torch.randint(len(values), row.shape, generator=generator)]


def _rows(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    named = [value for value in draw.landmarks if abs(value) <= MOST][:_MOST_LANDMARKS]
    values = [*FEW, *named, *(-value for value in named)]
    patterns = [
        torch.zeros_like,
        lambda row: _pick(row, values, draw.generator),
        lambda row: _pick(row[:1], values, draw.generator).expand_as(row),
    ]
    return _by_row(x, patterns, int(torch.randint(len(patterns), (1,), generator=draw.generator)))


def _ties(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    original = x.reshape(-1, x.shape[-1])[0] if x.ndim > 1 else x
    patterns: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda row: (row * 2.0).round() / 2.0,
        lambda row: original if original.shape == row.shape else row.sign(),
        lambda row: _halves_scaled(row, _scales(draw.landmarks), draw.generator),
    ]
    return _by_row(x, patterns, int(torch.randint(len(patterns), (1,), generator=draw.generator)))


def _scales(landmarks: Sequence[float]) -> list[float]:
    """Numbers that values may be multiplied with before rounding: integers and their reciprocals."""
    found = [abs(one) for one in landmarks if one and max(abs(one), 1.0 / abs(one)) <= MOST]
    return list(dict.fromkeys(one for one in found if one != 1.0 and max(one, 1.0 / one).is_integer()))[:4]


def _halves_scaled(row: torch.Tensor, scales: Sequence[float], generator: torch.Generator) -> torch.Tensor:
    """Numbers near those of a row that become exact halves when multiplied with one of the scales: for 100 odd eighths, for a
    tenth odd multiples of five. Without scales, halves themselves, of even and odd numbers."""
    if not scales:
        return torch.randint(-_HALVES, _HALVES, row.shape, generator=generator) + 0.5
    wholes = [round(max(one, 1.0 / one)) for one in scales]
    units = [
        whole / 2.0 if one < 1.0 else 0.5 / (whole & -whole)
        for one, whole in zip(scales, wholes, strict=True)
    ]
    unit = _pick(row, units, generator)
    return (2.0 * (row / unit.clamp_max(1.0) / 2.0).floor() + 1.0) * unit


def _bounds(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    named = torch.tensor([one for one in draw.landmarks if abs(one) <= MOST][:_MOST_LANDMARKS] or [0.0])
    order = torch.randperm(len(named), generator=draw.generator).repeat(-(-x.numel() // len(named)))
    return named.double()[order[: x.numel()]].reshape(x.shape)


def _named(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    some = torch.rand(x.shape, generator=draw.generator) < _SHARE_NAMED
    return torch.where(some, _pick(x, draw.landmarks, draw.generator), x)


def _beyond(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    bits = torch.randint(*_BEYOND, x.shape, generator=draw.generator)
    whole = (1 << bits) + 2 * (torch.rand(x.shape, generator=draw.generator) * (1 << bits - 1)).long() + 1
    signs = 2.0 * torch.randint(0, 2, x.shape, generator=draw.generator) - 1.0
    return signs * torch.where(bits > _LAST_HALVES, whole.double(), whole / 2.0)


def _crowd(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    """Put elements in order of size: in every other row side by side, in the others at places that are ordered by their reversed
    bits, so neighbours share the most low bits."""
    made = x.clone(memory_format=torch.contiguous_format)
    rows = made.reshape(-1, x.shape[-1] if x.ndim > 1 else x.numel())
    bits = max(rows.shape[1] - 1, 1).bit_length()
    drawn = int(torch.randint(1 << bits, (), generator=draw.generator))
    places = torch.arange(rows.shape[1]) ^ drawn
    backwards = sum((places >> bit & 1) << bits - 1 - bit for bit in range(bits))
    order = torch.as_tensor(backwards).argsort()
    for number, row in enumerate(rows):
        if number % 2:
            row.copy_(row.sort().values.roll(drawn))
        else:
            row[order] = row.sort(descending=number % 4 == 0).values
    return made


def _signs(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    def beside(row: torch.Tensor, sign: float) -> torch.Tensor:
        zeros = _pick(row, (-0.0, 0.0), draw.generator)
        if sign:  # zeros of the wrong order for a maximum (-0 first) or a minimum
            early = torch.arange(row.numel()).reshape(row.shape) < row.numel() / 2
            zeros = torch.where(early, 0.0 * sign, -0.0 * sign)
        return torch.where(torch.rand(row.shape, generator=draw.generator) < 0.25, zeros, sign * row.abs())

    return _by_row(x, [functools.partial(beside, sign=one) for one in (-1.0, 1.0, 0.0)], 0)


def _sparse(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    made = x.masked_fill(torch.rand(x.shape, generator=draw.generator) < 0.5, 0.0)
    made[..., 0] = made[..., -1] = 0.0  # like padding
    return made


def _far(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    scale = 8.0 if draw.dtype == torch.float16 else 1.0
    patterns = [lambda row: row * _FAR / scale, lambda row: (_LOW - row.abs() * 100.0) / scale]
    return _by_row(x, patterns, 0)


def _flat(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    middle = 0.0 if bool((x < 0).any()) else float(x.median())
    return x if middle and draw.dtype.itemsize < 4 else middle + (x - middle) * _QUIET


def _alone(x: torch.Tensor, draw: _Draw, sign: float = 1.0) -> torch.Tensor:
    """Lines along the longest axis, in turn: quiet ones but for two loud numbers at their ends, and an ordinary number at the beginning,
    or at the end, of sentinels. Of positive numbers only those above 1 may be sentinels."""
    low, high = float(x.min()), float(x.max())
    if low < 0 and high <= 0:
        return x
    axis = max(range(x.ndim), key=x.shape.__getitem__)
    lines = x.movedim(axis, -1)
    form, extent = lines.shape, x.shape[axis]
    made = lines.reshape(-1, extent).clone()
    least = low >= 0 and sign < 0
    early, late = torch.randint(max(1, int(extent * _END)), (2, len(made), 1), generator=draw.generator)
    loud = low if least else sign * _LOUD * max(-low, high) if low < 0 else high
    quiet = high - _QUIET * (made - low) if least else low * (low >= 0) + _QUIET * made
    quiet = quiet.scatter(1, early, loud).scatter(1, extent - 1 - late, loud)
    far = _SENTINEL * (0.01 if draw.dtype == torch.float16 else 1.0)
    nothing = -sign * far * (1.0 + torch.rand(made.shape, generator=draw.generator, dtype=made.dtype))
    if low >= 0:
        nothing = nothing if least and high > 1 else quiet
    place = torch.arange(len(made)).unsqueeze(1) % 3
    kept = torch.where(place == 1, early, extent - 1 - late)
    sentinels = nothing.scatter(1, kept, made.gather(1, kept))
    return torch.where(place == 0, quiet, sentinels).reshape(form).movedim(-1, axis)


def _powers(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    made = x.clone(memory_format=torch.contiguous_format)
    rows = made.reshape(-1, x.shape[-1] if x.ndim > 1 else x.numel())
    most, place = rows.abs().max(-1, keepdim=True)
    shift = torch.randint(-_OCTAVES, _OCTAVES + 1, most.shape, generator=draw.generator)
    below = (most.log2().floor() + shift).exp2() * (1.0 - torch.finfo(draw.dtype).eps / 2.0)
    rows.mul_(below / most.clamp_min(torch.finfo(draw.dtype).tiny)).scatter_(
        1, place, below * rows.gather(1, place).sign()
    )
    return made


def _annulled(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    """Numbers of about one size whose product along the last axis is nearly the largest, so that no part of it is infinite."""
    size = float(torch.finfo(draw.dtype).max) ** (_PRODUCT / max(x.shape[-1], 1))
    made = torch.where(x < 0, -size, size) * (1.0 + _BESIDE * x / x.abs().max())
    made[..., int(torch.randint(2, (), generator=draw.generator))] = 0.0
    return made


def _extreme(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    most = float(torch.finfo(draw.dtype).max)
    large = min(_EXTREME, most / 2.0)
    values = [float("inf"), -float("inf"), large, -large, 0.0]
    special = torch.rand(x.shape, generator=draw.generator) < 0.25
    return torch.where(special, _pick(x, values, draw.generator), x)


def _tiny(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    constants = _tiny_constants(draw.landmarks)
    scale = 10.0 ** -_uniform(draw.generator, *_NEAR_ONE)
    if constants:
        constant = constants[int(torch.randint(len(constants), (1,), generator=draw.generator))]
        scale = (math.sqrt(constant) if draw.root else constant) * 10.0 ** _uniform(draw.generator, -0.7, 0.3)
        if not draw.root and bool((x >= 0).all()):  # the root of half of these is as small as the constant
            half = (torch.arange(x.numel()) % 2).reshape(x.shape).to(x)
            return x * max(scale, _SMALLEST) ** (1.0 + half)
    return x * max(scale, _SMALLEST)


def _spread(count: int, low: float, high: float, generator: torch.Generator) -> torch.Tensor:
    """Numbers between two, one in each of as many equal parts, so that small and large ones are among them."""
    parts = torch.randperm(count, generator=generator).unsqueeze(1)
    return (
        low + (high - low) * (parts + torch.rand(count, 1, generator=generator, dtype=torch.float64)) / count
    )


def _scores(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    made = x.clone(memory_format=torch.contiguous_format)
    rows = made.reshape(-1, x.shape[-1])
    rows *= 10.0 ** _spread(len(rows), *_SCORES, draw.generator)
    return made


def _ladder(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    made = x.clone(memory_format=torch.contiguous_format)
    rows = made.reshape(-1, x.shape[-1] if x.ndim > 1 else 1)
    low, high = _LADDER
    for constant in _tiny_constants(draw.landmarks):  # its effect shows near its root
        low = min(low, max(math.log10(constant) / 2.0, math.log10(_SMALLEST) / 2.0))
    scale = 10.0 ** _spread(len(rows), low, high, draw.generator)
    signs = 2.0 * torch.randint(0, 2, scale.shape, generator=draw.generator) - 1.0
    rows.mul_(signs * scale.clamp_max(10.0**high / (8.0 if draw.dtype == torch.float16 else 1.0)))
    some = torch.randperm(len(rows), generator=draw.generator)[: math.ceil(_SPIKED * len(rows))]
    place = some, torch.randint(rows.shape[1], some.shape, generator=draw.generator)
    place[1][::3], place[1][1::3] = 0, rows.shape[1] - 1  # which kernels may treat apart
    rows[place] *= (_MOST_WEIGHED / rows[place].abs()).clamp(1.0, _SPIKE) if draw.weighed else _SPIKE
    return made


def _long(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    scale = 8.0 if draw.dtype == torch.float16 else 1.0
    patterns: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda rows: rows * _FAR / scale,
        lambda rows: rows + (_OFFSET * float(rows.std(correction=0)) if rows.numel() else 0.0),
        lambda rows: (_LOW - rows.abs() * 100.0) / scale,
    ]
    if _tiny_constants(draw.landmarks) and draw.dtype != torch.float16:
        patterns[2:2] = [lambda rows: _tiny(rows, draw)]
    made = x.clone(memory_format=torch.contiguous_format)
    rows = made.reshape(-1, x.shape[-1] if x.ndim > 1 else 1)
    for place, pattern in enumerate(patterns):  # many rows at a time: there are thousands
        some = rows[place :: len(patterns)]
        some.copy_(pattern(some))
    return made


def _nan(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    def some(row: torch.Tensor, values: Sequence[float]) -> torch.Tensor:
        return torch.where(
            torch.rand(row.shape, generator=draw.generator) < 0.1, _pick(row, values, draw.generator), row
        )

    kinds = [(math.nan,), (math.inf, math.nan), (-math.inf, math.inf)]
    return _by_row(x, [functools.partial(some, values=values) for values in kinds], 0)


def _mask(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    share = torch.rand((*x.shape[:-1], 1), generator=draw.generator) * 0.5
    return x.masked_fill(torch.rand(x.shape, generator=draw.generator) < share, -math.inf)


def _mask_apart(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    """Masked neither side by side nor at an end: a scan by pairs makes NaN of minus infinities alone, as of a whole row."""
    apart = torch.ones(x.shape, dtype=torch.bool)
    for axis, extent in enumerate(x.shape):
        at = torch.arange(extent)
        odd = (at % 2 == 1) & (at < extent - 1) if extent > 1 else at == 0
        apart &= odd.view(-1, *(1,) * (x.ndim - axis - 1))
    return torch.where(apart, _mask(x, draw), x)


def _with_padding(mask: torch.Tensor) -> torch.Tensor:
    """Rows whose first three quarters are padding, once by either meaning of the mask, and unchanged ones."""
    length = mask.shape[-1] if mask.ndim > 1 else mask.numel() // 3
    first = torch.arange(length) < max(1, length * 3 // 4)

    def led(row: torch.Tensor, truth: bool) -> torch.Tensor:
        leads = first[: row.numel()]
        if row.dtype == torch.bool:
            return leads if truth else ~leads
        finite = torch.where(torch.isneginf(row), torch.zeros_like(row), row)
        return torch.where(leads, -math.inf, finite) if truth else row

    patterns: list[Callable[[torch.Tensor], torch.Tensor]] = [
        functools.partial(led, truth=True),
        functools.partial(led, truth=False),
        lambda row: row,
    ]
    return _by_row(mask.cpu(), patterns, 0).to(mask.device)


def scaled_rows(inputs: object, factors: Sequence[float]) -> object:
    """The inputs with rows multiplied by the factors in turn, the same in every tensor."""

    def special(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() or tensor.numel() < 2:
            return tensor
        signs = (
            [abs(one) for one in factors] if bool(tensor.min() >= 0) or bool(tensor.max() <= 0) else factors
        )
        wide = tensor.detach().double().cpu()
        made = _by_row(wide, [functools.partial(torch.mul, other=one) for one in signs], 0)
        return in_order(tensor, made.to(tensor.dtype).to(tensor.device))

    return convert(inputs, special)


def beside(bounds: Sequence[float], dtype: torch.dtype) -> list[float]:
    """Numbers at, next to and on either side of bounds; those that the type does not hold exactly only on either side, for there
    single and double precision disagree about equality."""
    eps, found = torch.finfo(dtype).eps, []
    for bound in bounds[:_MOST_LANDMARKS]:
        some = abs(bound) / 2.0 or 0.5
        found += [bound - some, bound + some]
        if float(torch.tensor(bound, dtype=dtype)) == bound:
            found += [bound, *((bound * (1.0 - eps), bound * (1.0 + eps)) if bound else ())]
    return list(dict.fromkeys(found))


def strewn(tensor: torch.Tensor, values: Sequence[float], seed: int) -> torch.Tensor:
    """The tensor with half of its elements drawn from the values; symmetric and sorted ones and zeros in others stay."""
    if _symmetric(tensor):
        return tensor
    generator = torch.Generator().manual_seed(seed)
    wide = tensor.detach().double().cpu()
    some = torch.rand(wide.shape, generator=generator) < 0.5
    made = torch.where(some & (wide != 0), _pick(wide, values, generator), wide)
    return in_order(tensor, made.to(tensor.dtype).to(tensor.device))


def _uniform(generator: torch.Generator, low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand((), generator=generator))


def _empty(mask: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Rows that are all false, unchanged, and all true in turn."""
    patterns: list[Callable[[torch.Tensor], torch.Tensor]] = [
        torch.zeros_like,
        lambda row: row,
        torch.ones_like,
    ]
    return _by_row(mask, patterns, 0)


def _large_integers(
    tensor: torch.Tensor, generator: torch.Generator, summed: bool, whole: int, widest: int
) -> torch.Tensor:
    """Values far beyond those drawn, with their signs: a quarter of the places for each size in `bits`, a quarter for numbers next
    to powers of two and squares up to the largest, where roots and logarithms of floats err, and, if `whole`, a quarter near each
    other with that many bits."""
    most = 54 if summed else 40
    bits = {2: (13,), 4: (17, 26, *([widest] if widest else [])), 8: (33 if summed else 26, most)}.get(
        tensor.element_size(), (13,)
    )
    made = tensor.cpu().clone()
    ranges = [(1 << (reach - 1), 1 << reach) for reach in bits]
    if whole and tensor.element_size() == 8:
        ranges.append((1 << whole, (1 << whole) + _APART))
    drawn = [torch.randint(low, high, tensor.shape, generator=generator) for low, high in ranges]
    for values in (*drawn, next_to_powers(tensor.shape, max(bits), generator)):
        if bool((made < 0).any()):
            values = values * (2 * torch.randint(0, 2, tensor.shape, generator=generator) - 1)
        chosen = torch.rand(tensor.shape, generator=generator) < 0.25
        made = torch.where(chosen, values.to(tensor.dtype), made)
    return made.to(tensor.device)


def _images(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    # Within the drawn range: clamped to its end, all numbers of a range below 1 / 255 would be alike.
    most = min(1.0, float(x.abs().max()))
    made = torch.randint(1, 255, x.shape, generator=draw.generator).double() / 255 * most
    plane = made.flatten(0, -3)[::2] if x.ndim > 2 else made[: len(made) // 2]
    for axis in range(-min(x.ndim, 2), 0):
        if plane.shape[axis] > 2:
            place = torch.arange(plane.shape[axis])
            ends = (place % _BLOCK == 0) | (place % _BLOCK == _BLOCK - 1) | (place == len(place) - 1)
            plane.movedim(axis, -1)[..., ends] = 0.0
    return made


def _thin(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    kept = torch.rand(x.shape, generator=draw.generator) < _KEPT
    return torch.where(kept, x.to(torch.bfloat16).double(), 0.0)


def _matrices(x: torch.Tensor, draw: _Draw) -> torch.Tensor:
    """Well-posed matrices that a shortcut is not made for: square ones whose diagonal is 0, for the rows of larger numbers are
    another's; in every other taller one two columns nearly agree. Dominant diagonals stay."""
    if x.ndim < 2 or bool((x == 0).any()) or min(x.shape[-2:]) < 2:
        return x
    made = x.clone(memory_format=torch.contiguous_format)
    several = made.reshape(-1, *x.shape[-2:])
    if x.shape[-1] == x.shape[-2]:
        diagonal = x.diagonal(dim1=-2, dim2=-1).abs()
        if bool((2 * diagonal > x.abs().sum(-1)).all()):
            return x
        several.copy_(several.roll(1, -2))
        several.diagonal(dim1=-2, dim2=-1).zero_()
    elif x.shape[-2] > x.shape[-1]:
        several[1::2, :, 1] = several[1::2, :, 0] + _COLLINEAR * several[1::2, :, 1]
    return made


_CHANGES: Mapping[str, Callable[[torch.Tensor, _Draw], torch.Tensor]] = {
    "rows": _rows,
    "ties": _ties,
    "eighths": lambda x, *_: (x * 8.0).round() / 8.0,
    "images": _images,
    "thin": _thin,
    "far": _far,
    "offset": lambda x, *_: x + _OFFSET * float(x.std(correction=0)),
    "powers": _powers,
    "annulled": _annulled,
    "extreme": _extreme,
    "distant": lambda x, draw: _by_row(x, [lambda row: row * 10.0 ** _uniform(draw.generator, *_DISTANT)], 0),
    "tiny": _tiny,
    "nan": _nan,
    "scores": _scores,
    "ladder": _ladder,
    "masked": _mask,
    "lone": _mask_apart,
    "long": _long,
    "bounds": _bounds,
    "signs": _signs,
    "sparse": _sparse,
    "faint": lambda x, *_: x * _FAINT,
    "minute": lambda x, draw: x if draw.dtype == torch.float16 else x / _EXTREME,
    "named": _named,
    "matrices": _matrices,
    "centred": lambda x, *_: x - x.mean(-1, keepdim=True),
    "beyond": _beyond,
    "crowded": _crowd,
    "flat": _flat,
    "alone": _alone,
    "alone_least": functools.partial(_alone, sign=-1.0),
}
"""What a kind makes of a tensor."""
