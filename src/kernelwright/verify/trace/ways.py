"""Other ways a user may call a module. A module that launches something else in one of them must be right there, too.

`one tensor`     inputs that are alike are one tensor
`deterministic`  under deterministic algorithms
`autocast`       under autocast
`precision`      with TF32 in products if it was off, without it if it was on
`compiled`, `exported`, `anomalies`   torch says that a compiler or an exporter traces the call, or that anomaly detection is on
`binaries`       reported registers and shared memory of compiled kernels are larger
`learning`, `behind`, `wanted`, `recording`   gradients are required and recorded, the same behind another layer, required only,
                 recorded only; otherwise neither, as when a judge times
`by name`        inputs are keyword arguments, by the reference's names
`fed back`       inputs are outputs of the call before, each used once, if shape, strides and dtype agree
`stepped`, `padded`, `turned`, `swapped`, `rotated`, `expanded`   inputs of other strides: every second element of a larger
                 tensor, rows cut out of longer ones, the last axis first (channels last), the two axes before the last
                 exchanged (heads side by side), the axis before the last first, and one row for all

`parts`, `stacked`, `beside`, each also with `back`   inputs are parts of one tensor, along its last axis (`chunk(2, -1)`),
                 its first, or the one before the last (heads), in order or reversed

A module that launches the same in a way is judged only as the task calls it: many honest kernels assume contiguous inputs. But
if other strides of an input make it launch something else, it is judged for all strides of that input.
`padded #1` applies a way to the second input only. `PADDED` are rows cut out of rows of other lengths: a kernel that is told the
strides of its inputs is right for all of these, or for none, as one that takes inputs to be dense.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence

import torch

from kernelwright.verify.gradient_ways import SPREAD, GradientWay

ONE_TENSOR, BY_NAME, FED_BACK, EXPANDED = "one tensor", "by name", "fed back", "expanded"
DETERMINISTIC, AUTOCAST, PRECISION = "deterministic", "autocast", "precision"
COMPILED, EXPORTED, ANOMALIES, BINARIES = "compiled", "exported", "anomalies", "binaries"
SWITCHES = (DETERMINISTIC, AUTOCAST, PRECISION, COMPILED, EXPORTED, ANOMALIES, BINARIES)
LEARNING, BEHIND, WANTED, RECORDING = "learning", "behind", "wanted", "recording"
BEFORE_A_BACKWARD_PASS = (LEARNING, BEHIND, WANTED, RECORDING)
"""Ways in which a forward pass may keep what its backward pass needs, and launch more for it."""
GAPPED = ("stepped", "padded", EXPANDED)
"""Layouts with gaps between elements, or with shared elements: `empty_like` of such a tensor is contiguous."""
LAYOUTS = (*GAPPED, "turned", "swapped", "rotated")
JOINED = tuple(f"{axis}{order}" for axis in ("parts", "stacked", "beside") for order in ("", " back"))
_WIDTHS = {
    "padded": lambda width: width + 3,
    "padded by one": lambda width: width + 1,
    "padded to whole lines": lambda width: (width // 64 + 1) * 64,
    "padded to odd half lines": lambda width: (width // 64 + 1) * 64 + 32,
    "doubled": lambda width: 2 * width,
    "tripled": lambda width: 3 * width,
}
"""Lengths of the rows that rows of some width are cut out of."""
PADDED = tuple(_WIDTHS)


def layout_of(way: str) -> str:
    """The layout of a way to call a module, or an empty string."""
    if (gradients := GradientWay.read(way)) is not None:
        return gradients.layout
    name = way.partition(" #")[0]
    return name if name in LAYOUTS or name in PADDED else ""


def concerns(way: str, place: int) -> bool:
    """Whether the layout applies to the input with this number."""
    if (gradients := GradientWay.read(way)) is not None:
        return place >= gradients.given
    _, _, only = way.partition(" #")
    return not only or int(only) == place


def strides(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    """Strides of a tensor of this shape in a layout; contiguous ones if the layout changes nothing."""
    rank = len(shape)
    if layout == SPREAD:
        return (0,) * rank
    order = list(range(rank))
    if layout == "turned" and rank > 1:
        order = [0, *range(2, rank), 1] if rank > 3 else [*range(rank - 2), rank - 1, rank - 2]
    elif layout == "swapped" and rank > 2:
        order[-3:-1] = order[-2:-4:-1]
    elif layout == "rotated" and rank > 3:
        order = [rank - 2, *range(rank - 2), rank - 1]
    found, step = [0] * rank, 2 if layout == "stepped" else 1
    for number, axis in enumerate(reversed(order)):
        found[axis] = step
        width = max(shape[axis], 1)
        step *= _WIDTHS[layout](width) if layout in PADDED and number == 0 and rank > 1 else width
    if layout == EXPANDED and rank:
        found[0] = 0
    return tuple(found)


def parts_of_larger(
    given: Sequence[tuple[tuple[int, ...], object]], way: str
) -> dict[int, tuple[int, int, tuple[int, ...], int]]:
    """In a way of `JOINED`, which of the given tensors (shape, dtype) are parts of a larger one: by number, the larger one's
    number, the offset and strides in it, and its elements."""
    name, _, back = way.partition(" ")
    distance, rank = {"parts": (1, 2), "stacked": (0, 1), "beside": (2, 3)}[name]
    groups: dict[tuple[tuple[int, ...], tuple[int, ...], object], list[int]] = {}
    for number, (shape, dtype) in enumerate(given):
        if len(shape) >= rank:
            axis = len(shape) - distance if distance else 0
            groups.setdefault((shape[:axis], shape[axis + 1 :], dtype), []).append(number)
    found = {}
    for place, ((before, after, _), numbers) in enumerate(groups.items()):
        axis = len(before)
        whole = (*before, sum(given[number][0][axis] for number in numbers), *after)
        steps, start = strides(whole, ""), 0
        for number in reversed(numbers) if back else numbers:
            if len(numbers) > 1:
                found[number] = place, start, steps, math.prod(whole)
            start += given[number][0][axis] * steps[axis]
    return found


def holds(shape: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    """Whether a tensor has the layout of a contiguous one of its shape."""
    if not math.prod(shape):
        return True
    plain = strides(shape, "")
    return all(size == 1 or one == other for size, one, other in zip(shape, stride, plain, strict=True))


@contextlib.contextmanager
def set_switches(way: str) -> Iterator[None]:
    """Set torch's switches for a way to call a module; restored on exit."""
    if way == DETERMINISTIC:
        was = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.deterministic
        torch._C._set_deterministic_algorithms(True, warn_only=True)
        torch.backends.cudnn.deterministic = True
        try:
            yield
        finally:
            torch._C._set_deterministic_algorithms(was[0])
            torch.backends.cudnn.deterministic = was[1]
    elif way == AUTOCAST:
        torch.set_autocast_enabled("cuda", True)
        try:
            yield
        finally:
            torch.set_autocast_enabled("cuda", False)
    elif way == PRECISION:
        products, benchmark = torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark
        torch.set_float32_matmul_precision("high" if products == "highest" else "highest")
        torch.backends.cudnn.benchmark = not benchmark
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(products)
            torch.backends.cudnn.benchmark = benchmark
    else:
        yield
