"""Sums and maxima over windows that Inductor leaves to a library because they are large.

Sizes may be symbolic; windows, strides and paddings must be integers. Small windows use Inductor's own lowering.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

_SMALL = 25
"""Most elements of a window for which Inductor writes the whole sum out."""


def windows(
    x: Any, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int],
    edges: Sequence[tuple[Any, Any]], fill: float,
) -> Any:  # fmt: skip
    """[N, C, *in] -> [N, C, *out, *kernel], filled with `fill` beyond the edges (before, after) of each axis."""
    rank = len(kernel)
    lead = x.dim() - rank
    if any(not (_zero(before) and _zero(after)) for before, after in edges):
        x = torch.constant_pad_nd(x, [edge for pair in reversed(edges) for edge in pair], fill)
    spans = [step * (size - 1) + 1 for step, size in zip(dilation, kernel, strict=True)]
    if any(symbolic(size) for size in (*spans, *stride)):
        return _gather(x, kernel, stride, dilation, spans)
    for axis in range(rank):
        x = x.unfold(lead + axis, spans[axis], stride[axis])
    for axis in range(rank):
        if dilation[axis] > 1:
            x = x[(..., slice(None, None, dilation[axis]), *([slice(None)] * (rank - 1 - axis)))]
    # Strides of window views depend on sizes; those of a copy do not, and Inductor fuses the copy away.
    return x.clone(memory_format=torch.contiguous_format)


def _gather(
    x: Any, kernel: Sequence[Any], stride: Sequence[Any], dilation: Sequence[Any], spans: Sequence[Any]
) -> Any:
    """The windows of a padded tensor by computed indices, which may depend on symbols."""
    rank = len(kernel)
    places = []
    for axis in range(rank):
        count = (x.shape[axis - rank] - spans[axis]) // stride[axis] + 1
        starts = torch.arange(count, device=x.device) * stride[axis]
        taps = torch.arange(kernel[axis], device=x.device) * dilation[axis]
        starts = starts.reshape([-1 if place == axis else 1 for place in range(2 * rank)])
        places.append(starts + taps.reshape([-1 if place == rank + axis else 1 for place in range(2 * rank)]))
    return torch.ops.aten._unsafe_index.Tensor(x, [*([None] * (x.dim() - rank)), *places])


def average(rank: int) -> Callable[..., Any]:
    """`aten.avg_pool1d` to `3d`."""

    def pool(
        x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: Any = None,
    ) -> Any:  # fmt: skip
        kernel, step, edge = _pool_sizes(rank, kernel_size, stride, padding)
        if any(map(symbolic, (*kernel, *step, *edge))) or (math.prod(kernel) <= _SMALL and rank < 3):
            return NotImplemented
        edges, beyond = _edges(x, kernel, step, edge, ceil_mode)
        seen = windows(in_float(x), kernel, step, [1] * rank, edges, 0.0)
        total = seen.sum(tuple(range(seen.dim() - rank, seen.dim())))
        if divisor_override is not None:
            return (total / divisor_override).to(x.dtype)
        if not beyond and (count_include_pad or not any(edge)):
            return (total / math.prod(kernel)).to(x.dtype)
        for axis in range(rank):
            place = axis - rank
            size, pad = x.shape[place], edge[axis] if count_include_pad else 0
            start = torch.arange(total.shape[place], device=x.device) * step[axis] - edge[axis]
            stop = (start + kernel[axis]).clamp(max=size + pad)
            count = (stop - start.clamp(min=-pad)).to(total.dtype)
            total = total / count.reshape([-1, *([1] * (rank - 1 - axis))])
        return total.to(x.dtype)

    return pool


def largest(rank: int) -> Callable[..., Any]:
    """`aten.max_pool2d` and `3d`."""
    both = largest_with_indices(rank)

    def pool(*args: Any, **kwargs: Any) -> Any:
        found = both(*args, **kwargs)
        return found if found is NotImplemented else found[0]

    return pool


def largest_with_indices(rank: int) -> Callable[..., Any]:
    """`aten.max_pool2d_with_indices` and `3d`."""

    def pool(
        x: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:
        kernel, step, edge = _pool_sizes(rank, kernel_size, stride, padding)
        apart = wide(dilation, rank)
        if math.prod(kernel) <= _SMALL and all(one == 1 for one in apart):
            return NotImplemented
        if not x.is_floating_point() or any(map(symbolic, (*kernel, *step, *edge, *apart))):
            return NotImplemented
        spans = [one * (size - 1) + 1 for one, size in zip(apart, kernel, strict=True)]
        edges, _ = _edges(x, spans, step, edge, ceil_mode)
        seen = windows(x, kernel, step, apart, edges, float("-inf"))
        flat = seen.reshape([*seen.shape[: seen.dim() - rank], math.prod(kernel)])
        best = flat.argmax(-1)
        return flat.amax(-1), _place(best, x, kernel, step, edge, apart)

    return pool


def adaptive(rank: int, largest: bool) -> Callable[..., Any]:
    """`aten.adaptive_avg_pool1d` to `3d`, and `adaptive_max_pool1d` to `3d` with indices, axis by axis."""

    def pool(x: Any, output_size: Any) -> Any:
        counts, sizes = wide(output_size, rank), x.shape[-rank:]
        if not x.is_floating_point() or any(map(symbolic, counts)) or (counts == [1] * rank and not largest):
            return NotImplemented
        if rank < 3 and not any(map(symbolic, sizes)):
            spans = [(size - 1) // count + 2 for size, count in zip(sizes, counts, strict=True)]
            if math.prod(spans) <= _SMALL:
                return NotImplemented
        found, place, inner = in_float(x), None, 1
        for axis in range(-1, -rank - 1, -1):
            seen, inside, at = _uneven(found, axis, counts[axis])
            if not largest:
                found = torch.where(inside, seen, 0.0).sum(axis) / inside.sum(axis)
                continue
            seen = torch.where(inside, seen, float("-inf"))
            found, best = seen.amax(axis), seen.argmax(axis, keepdim=True)
            before = 0 if place is None else _uneven(place, axis, counts[axis])[0]
            place = (at * inner + before).expand(seen.shape).gather(axis, best).squeeze(axis)
            inner = inner * sizes[axis]
        return (found.to(x.dtype), place) if largest else found.to(x.dtype)

    return pool


def _uneven(x: Any, axis: int, count: int) -> tuple[Any, Any, Any]:
    """Windows of an axis, with their elements in a new axis behind `axis`; which elements are inside their window; and their
    indices on the axis. Window i is [i size // count, ceil((i + 1) size / count))."""
    size = x.shape[axis]
    number = torch.arange(count, device=x.device).unsqueeze(-1)
    start, stop = (number * size) // count, ((number + 1) * size + count - 1) // count
    places = start + torch.arange((size - 1) // count + 2, device=x.device)
    within, places = places < stop, places.clamp(max=size - 1)
    seen = torch.ops.aten._unsafe_index.Tensor(x, [*[None] * (x.dim() + axis), places])
    across = [*places.shape, *[1] * (-1 - axis)]
    return seen, within.reshape(across), places.reshape(across)


def _place(
    best: Any, x: Any, kernel: Sequence[int], step: Sequence[int], edge: Sequence[int], apart: Sequence[int]
) -> Any:
    """Indices in a flattened image of the taps numbered `best`."""
    rank, place, rest = len(kernel), None, best
    taps: list[Any] = []
    for size in reversed(kernel):
        taps.insert(0, rest % size)
        rest = torch.div(rest, size, rounding_mode="floor")
    for axis in range(rank):
        start = torch.arange(best.shape[axis - rank], device=x.device) * step[axis] - edge[axis]
        at = start.reshape([-1, *([1] * (rank - 1 - axis))]) + taps[axis] * apart[axis]
        place = at if place is None else place * x.shape[axis - rank] + at
    return place


def _pool_sizes(rank: int, kernel: Any, stride: Any, padding: Any) -> tuple[list[int], list[int], list[int]]:
    sizes = wide(kernel, rank)
    return sizes, wide(stride, rank) if stride not in (None, [], ()) else sizes, wide(padding, rank)


def _edges(
    x: Any, spans: Sequence[int], step: Sequence[int], edge: Sequence[int], ceil: bool
) -> tuple[list[tuple[int, int]], bool]:
    """(padding before and after by axis, whether windows of `ceil_mode` extend beyond it)."""
    rank = len(spans)
    beyond = [_beyond(x.shape[at - rank], spans[at], step[at], edge[at], ceil) for at in range(rank)]
    return [(before, before + more) for before, more in zip(edge, beyond, strict=True)], any(beyond)


def _beyond(size: Any, span: int, step: int, edge: int, ceil: bool) -> int:
    """Elements by which the last window of `ceil_mode` extends beyond the padding."""
    if not ceil:
        return 0
    size = int(size)
    count = -(-(size + 2 * edge - span) // step) + 1
    if (count - 1) * step >= size + edge:
        count -= 1
    return max(0, (count - 1) * step + span - size - 2 * edge)


def in_float(x: Any) -> Any:
    """`x`, in float32 if it is in half precision."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def wide(value: Any, rank: int) -> list[Any]:
    """A window parameter per axis, given per axis or once for all."""
    found = list(value) if isinstance(value, Sequence) else [value]
    return found * rank if len(found) == 1 else found


def symbolic(size: Any) -> bool:
    """Whether a size is symbolic."""
    return isinstance(size, torch.SymInt)


def _zero(size: Any) -> bool:
    return isinstance(size, int) and size == 0
