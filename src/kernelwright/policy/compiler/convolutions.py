"""Convolutions for which Inductor has no template, decomposed into products and sums that it can write.

    depthwise        a sum over the window, without a product
    one dimension    two dimensions, the first of size 1
    dilated          a product over windows laid out in rows (im2col)
    transposed       a product with every tap of the window, then each output gathers the taps that reach it (col2im as a
                     gather, so that no two programs add to the same place)

Any size may be symbolic. All other convolutions use the template, which needs windows, strides and groups as numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from kernelwright.policy.compiler.pooling import in_float, symbolic, wide, windows

_MOST_TAPS = 1024
"""Largest window of a depthwise convolution that is written as a plain sum."""


def convolution(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> Any:  # fmt: skip
    """`aten.convolution` decomposed, or NotImplemented if a template handles it."""
    rank = weight.dim() - 2
    if x.dim() != rank + 2:
        return NotImplemented
    stride, padding, dilation, output_padding = (
        wide(given, rank) for given in (stride, padding, dilation, output_padding)
    )
    if transposed:
        return _transpose(x, weight, bias, stride, padding, dilation, output_padding, groups)
    kernel = list(weight.shape[2:])
    free = any(symbolic(size) for size in (*kernel, *stride, *padding, *dilation, groups))
    depthwise = statically_known_true(weight.shape[1] == 1) and statically_known_true(groups == x.shape[1])
    if depthwise and (free or math.prod(kernel) <= _MOST_TAPS):
        return _depthwise(x, weight, bias, stride, padding, dilation)
    if free or any(step != 1 for step in dilation):
        return _by_windows(x, weight, bias, stride, padding, dilation, groups)
    if rank == 1:
        flat = torch.ops.aten.convolution.default(
            x.unsqueeze(2), weight.unsqueeze(2), bias, [1, *stride], [0, *padding], [1, *dilation], False,
            [0, 0], groups,
        )  # fmt: skip
        return flat.squeeze(2)
    return NotImplemented


def _depthwise(
    x: Any, weight: Any, bias: Any, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> Any:
    rank = weight.dim() - 2
    times = weight.shape[0] // x.shape[1]
    if not statically_known_true(weight.shape[0] == x.shape[1]):
        x = x.repeat_interleave(times, 1)
    kernel = list(weight.shape[2:])
    seen = windows(x, kernel, stride, dilation, [(edge, edge) for edge in padding], 0.0)
    factors = weight.reshape(weight.shape[0], *([1] * rank), *kernel)
    found = (in_float(seen) * in_float(factors)).sum(tuple(range(2 + rank, 2 + 2 * rank)))
    if bias is not None:
        found = found + bias.reshape(-1, *([1] * rank))
    return found.to(x.dtype)


def _by_windows(
    x: Any, weight: Any, bias: Any, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    groups: int,
) -> Any:  # fmt: skip
    rank = weight.dim() - 2
    kernel = list(weight.shape[2:])
    seen = windows(x, kernel, stride, dilation, [(edge, edge) for edge in padding], 0.0)
    batch, channels, *places = seen.shape[: 2 + rank]
    out = weight.shape[0]
    rows, taps = batch * math.prod(places), math.prod(kernel)
    seen = seen.reshape(batch, groups, channels // groups, *places, *kernel)
    order = [1, 0, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank)]
    left = seen.permute(order).reshape(groups, rows, channels // groups * taps)
    right = weight.reshape(groups, out // groups, channels // groups * taps).transpose(1, 2)
    if groups == 1:
        found = torch.mm(left.squeeze(0), right.squeeze(0))
    else:
        found = torch.bmm(left, right).transpose(0, 1)
    if bias is not None:
        found = found.reshape(rows, out) + bias
    return found.reshape(batch, *places, out).movedim(-1, 1)


def _transpose(
    x: Any, weight: Any, bias: Any, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    output_padding: Sequence[int], groups: int,
) -> Any:  # fmt: skip
    """x [N, C, *in], weight [C, D / groups, *kernel] -> [N, D, *out]."""
    rank = weight.dim() - 2
    kernel = list(weight.shape[2:])
    batch, channels, *places = x.shape
    each = weight.shape[1]
    rows, taps = batch * math.prod(places), math.prod(kernel)
    exact = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    left = x.reshape(batch, groups, channels // groups, *places)
    left = left.permute(1, 0, *range(3, 3 + rank), 2).reshape(groups, rows, channels // groups).to(exact)
    right = weight.reshape(groups, channels // groups, each * taps).to(exact)
    if groups == 1:
        reached = torch.mm(left.squeeze(0), right.squeeze(0))
    else:
        reached = torch.bmm(left, right)
    reached = reached.reshape(groups, batch, *places, each, *kernel)
    sizes = [
        (places[axis] - 1) * stride[axis] - 2 * padding[axis] + dilation[axis] * (kernel[axis] - 1)
        + output_padding[axis] + 1
        for axis in range(rank)
    ]  # fmt: skip

    def along(values: Any, axis: int) -> Any:
        """A vector broadcast along one of the axes [groups, batch, each, *out, *kernel]."""
        return values.reshape([-1 if place == axis else 1 for place in range(3 + 2 * rank)])

    def counted(size: Any) -> Any:
        return torch.arange(size, device=x.device)

    reaches: Any = None
    sources, steps = [], []
    for axis in range(rank):
        tap = along(counted(kernel[axis]), 3 + rank + axis)
        start = along(counted(sizes[axis]), 3 + axis) + padding[axis] - tap * dilation[axis]
        strided = symbolic(stride[axis]) or stride[axis] > 1
        source = torch.div(start, stride[axis], rounding_mode="floor") if strided else start
        inside = (source >= 0) & (source < places[axis])
        if strided:
            inside = inside & (start == source * stride[axis])
        reaches = inside if reaches is None else reaches & inside
        sources.append(torch.clamp(source, min=0).minimum(torch.full_like(source, 1) * (places[axis] - 1)))
        steps.append(tap)
    group = along(counted(groups), 0)
    index = [group, along(counted(batch), 1), *sources, along(counted(each), 2), *steps]
    gathered = torch.ops.aten._unsafe_index.Tensor(reached, index)
    summed = torch.where(reaches, gathered, 0.0).sum(tuple(range(3 + rank, 3 + 2 * rank)))
    found = summed.transpose(0, 1).reshape(batch, groups * each, *sizes)
    if bias is not None:
        found = found + bias.reshape(-1, *([1] * rank))
    return found.to(x.dtype)
