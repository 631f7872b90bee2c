"""How drawn inputs are changed: scaled, put below zero, or made uneven, so that a few places carry half of them."""

from __future__ import annotations

import itertools
import math

import torch

from kernelwright.verify.protocol import BELOW_ZERO, Protocol
from kernelwright.verify.structures import convert, flatten

_BELOW, _FAR_BELOW = (1.0, 4.0), (30.0, 120.0)
"""For inputs below zero: factor on the absolute value, and distance from zero."""
_FEW = 8
"""Numbers at the start of a line that mostly tell that it has no order."""
_HEAVY, _HEAVY_SHARE, _HEAVY_HALF = 256, 1 / 8, 2.0
"""Uneven inputs: the most heavy places of an axis, as a number and as a share; and the largest usual factor in float16."""


def draws(protocol: Protocol, secret: int, position: int) -> list[tuple[float, int]]:
    """(scale, seed) of each case: all scales at the first shape set, two at the second, and at others the task's own and one
    in turn, so that every scale meets every kind of shape with some task or secret."""
    scales = list(dict.fromkeys(protocol.distributions))
    if position > 0 and len(scales) > 1:
        turn = (secret + position) % (len(scales) - 1)
        scales = [scales[0], scales[-1] if position == 1 else scales[1 + turn]]
    return [
        (scale, secret + 7919 * number + 104_729 * draw + 15_485_863 * position)
        for number, scale in enumerate(scales)
        for draw in range(protocol.seeds if position == 0 else 1)
    ]


def case_name(shape: str, scale: float) -> str:
    return f"{shape} below zero" if scale == BELOW_ZERO else f"{shape} x{scale:g}"


def scale_inputs(inputs: object, scale: float) -> object:
    """The inputs with every floating-point tensor multiplied by `scale`, or put below zero; sorted tensors stay sorted."""
    if scale == BELOW_ZERO:
        return _below(inputs)
    if scale == 1.0:
        return inputs
    return convert(inputs, lambda t: in_order(t, t * scale) if t.is_floating_point() else t)


def orders(tensor: torch.Tensor) -> list[tuple[int, bool]]:
    """(axis, whether it falls) of axes along which all numbers rise or all fall (edges, times). A reference may rely on it."""
    found = []
    for axis, extent in enumerate(tensor.shape if tensor.numel() else ()):
        line = tensor[tuple(slice(None) if at == axis else 0 for at in range(tensor.ndim))]
        few = line[:_FEW].tolist()
        steps = list(itertools.pairwise(few))
        if any(one < other for one, other in steps) and any(one > other for one, other in steps):
            continue
        falls = bool(line[0] > line[-1])
        if extent < 2 or bool(line[0] == line[-1]):
            continue
        for some in (line.unsqueeze(0), tensor.movedim(axis, -1)):  # one line is mostly enough to tell
            first, second = some[..., :-1], some[..., 1:]
            if not bool((first >= second if falls else first <= second).all()):
                break
        else:
            found.append((axis, falls))
    return found


def in_order(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """`after` with the order of `before`: sorted along the same axes, equal halves or neighbours along the last axis."""
    for axis, falls in orders(before):
        after = after.sort(axis, descending=falls).values
    apart = repeated(before)
    if apart:
        parts = after.unflatten(-1, apart)
        axis = apart.index(2) - 2
        after = parts.narrow(axis, 0, 1).expand_as(parts).flatten(-2).contiguous()
    return after


def repeated(tensor: torch.Tensor) -> list[int]:
    """How to unflatten the last axis into two equal halves, or into pairs of equal neighbours, as tables of angles have them; []
    if it has neither, or if each row is a single number."""
    if tensor.ndim < 2 or tensor.shape[-1] % 2 or not tensor.numel():
        return []
    half = tensor.shape[-1] // 2
    for apart in ([2, half], [half, 2]):
        for some in (tensor.reshape(-1, 2 * half)[0], tensor):  # one line is mostly enough to tell
            one, other = some.unflatten(-1, apart).unbind(apart.index(2) - 2)
            if not torch.equal(one, other):
                break
        else:
            return apart if bool((tensor != tensor[..., :1]).any()) or half == 1 else []
    return []


def _below(inputs: object) -> object:
    """The inputs with every value below zero, and the largest along the edges, where masks go wrong.

    A single floating-point input is put so far below that the exponential of each value is 0 in single precision. Of
    several, the first is below zero and the others equally far above it, so products of them are as far below.
    Zeros stay: a reference may rely on them (a triangle, a mask).
    """
    floating = [tensor for tensor in flatten(inputs) if tensor.is_floating_point()]
    width, offset = _FAR_BELOW if len(floating) == 1 else _BELOW

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        made = tensor.clone().abs_()
        inner = torch.where(_edges(tensor), 0.0, 1.0)
        made.mul_(width * (0.2 + 0.8 * inner)).add_(offset * (0.9 + 0.1 * inner))
        if tensor is floating[0]:
            made.neg_()
        return in_order(tensor, made.masked_fill_(tensor == 0, 0.0))

    return convert(inputs, change)


_NEAR = 0.02
"""How far elements lie from the row's number, as a share of their original size."""


def uneven(inputs: object, seed: int, sign: float = 1.0) -> object:
    """The inputs with a few places along the first and the longest other axis so much larger that they hold about half of
    each tensor, times `sign`. Axes of equal length have the same places, so symmetric tensors stay symmetric; zeros stay.

    A mean of millions of values differs little (1e-4, within tolerance) from that of three rows in four, but not if a few
    unknown rows carry half of it. Weights of places differ up to eightfold, because two places of a short axis, or one in each
    of two equal halves, may be heavy. All are powers of two, which round alike in any order.
    """
    generator = torch.Generator().manual_seed(seed)
    heavy: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        made = tensor * sign
        longest = max(range(1, made.dim()), key=lambda axis: made.shape[axis], default=0)
        for axis in sorted({0, longest}) if made.dim() else ():
            extent = made.shape[axis]
            if extent < 2:
                continue
            if extent not in heavy:
                count = min(_HEAVY, int(extent * _HEAVY_SHARE)) or 1
                places = torch.randint(extent, (count,), generator=generator).unique()
                heavy[extent] = places, torch.randint(-2, 2, (len(places),), generator=generator)
            places, steps = (one.to(made.device) for one in heavy[extent])
            most = _HEAVY_HALF if made.dtype == torch.float16 else math.inf
            steps = steps + round(math.log2(min(extent / len(places), most)))
            factors = torch.exp2(steps).to(made.dtype).view(-1, *(1,) * (made.dim() - axis - 1))
            made.index_copy_(axis, places, made.index_select(axis, places).mul_(factors))
        return in_order(tensor, made)

    return convert(inputs, change)


def near_one_number(inputs: object, seed: int) -> object:
    """The inputs, with every other row of half-precision tensors near a single number of the row's usual size.

    A sum that is rounded after each part wanders if parts have both signs, and may be right by chance; if the parts are
    nearly equal, all roundings go one way. How far depends on the number times a part's length: with 4/3 or 5/3 of a power of
    two, a part of power-of-two length is a third of a unit off whatever the total. Zeros and non-finite values stay.
    """
    generator = torch.Generator().manual_seed(seed)

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if (
            tensor.dtype not in (torch.float16, torch.bfloat16)
            or not tensor.numel()
            or tensor.dim() == 0
            or len(tensor) < 2
        ):
            return tensor
        made = tensor.clone()
        rows = made[1::2].double().flatten(1) if tensor.dim() > 1 else made[1::2].double()
        middle = rows.median(-1, keepdim=True).values
        size = rows.abs().median(-1, keepdim=True).values * torch.where(middle < 0, -1.0, 1.0)
        thirds = torch.randint(4, 6, size.shape, generator=generator).to(size) / 3
        number = size.sign() * size.abs().log2().floor().exp2() * thirds
        near = torch.where(rows.isfinite() & (rows != 0) & number.isfinite(), number + _NEAR * rows, rows)
        made[1::2] = near.to(tensor.dtype).reshape(made[1::2].shape)
        return in_order(tensor, made)

    return convert(inputs, change)


def _edges(tensor: torch.Tensor) -> torch.Tensor:
    """Mask of the first and last index along every dimension that has inner ones."""
    found = torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    for axis, extent in enumerate(tensor.shape):
        if extent > 2:
            found.select(axis, 0).fill_(True)
            found.select(axis, extent - 1).fill_(True)
    return found
