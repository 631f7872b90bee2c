"""Lowers gradients of a convolution: of its input as another convolution, of its weights as a product or as sums of rows.

`convolution_backward` has up to three results; graphs that ask for a single one are lowered here. Calls that ask for more are
split first (`compile_backend/gradients.py`). Not supported: transposed convolutions, and weights in groups of several channels.
"""

from __future__ import annotations

import math

from kernelwright.synth.call import Call
from kernelwright.synth.primitives import Builder, Unsupported, Val

Sides = tuple[int, ...]


def convolution_backward(call: Call) -> tuple[Val | None, ...]:
    """`(input's, weights', bias')`, exactly one of which is asked for."""
    grad, x, weight, _, stride, padding, dilation, transposed, _, groups, wanted = call.args
    if transposed or sum(map(bool, wanted)) != 1:
        raise Unsupported("gradients of a transposed convolution, or several at once")
    rank = len(x.shape) - 2
    stride, padding, dilation = (
        tuple(one) * (rank if len(one) == 1 else 1) for one in (stride, padding, dilation)
    )
    if wanted[0]:
        return of_input(call.b, grad, x, weight, (stride, padding, dilation), groups), None, None
    if wanted[1]:
        made = of_weights(call.b, grad, x, weight, (stride, padding, dilation), groups)
        return None, call.b.map("alias", made, dtype=weight.dtype), None
    dims = (0, *range(2, 2 + rank))
    return None, None, call.b.reduce("sum", grad, dims, False, grad.dtype)


def of_input(b: Builder, grad: Val, x: Val, weight: Val, how: tuple[Sides, Sides, Sides], groups: int) -> Val:
    """The input's gradient: each place collects from where it contributed, a transposed convolution with the same weights."""
    stride, padding, dilation = how
    reach = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    if groups > 1 and all(one == 1 for one in stride):
        if weight.shape[1] != 1 or weight.shape[0] != groups:
            raise Unsupported("the input's gradient in groups of several channels")
        turned = tuple(r - p for r, p in zip(reach, padding, strict=True))
        if min(turned) < 0:
            raise Unsupported("the input's gradient of more padding than the window is wide")
        return b.add("conv", (grad, weight), _summed_in(grad), x.shape, stride=stride, padding=turned, dilation=dilation, transposed=False,
                     out_pad=(0,) * len(stride), groups=groups, flipped=True)  # fmt: skip
    sides = zip(x.shape[2:], grad.shape[2:], stride, padding, reach, strict=True)
    over = tuple(have - ((made - 1) * s - 2 * p + r + 1) for have, made, s, p, r in sides)
    return b.add("conv", (grad, weight), _summed_in(grad), x.shape, stride=stride, padding=padding, dilation=dilation, transposed=True,
                 out_pad=over, groups=groups)  # fmt: skip


def of_weights(
    b: Builder, grad: Val, x: Val, weight: Val, how: tuple[Sides, Sides, Sides], groups: int
) -> Val:
    """The weights' gradient, sums of products over images and places: `grad @ patches`, or a sum per channel if depthwise."""
    rank, kernel = len(grad.shape) - 2, weight.shape[2:]
    filters, places = grad.shape[1], grad.shape[0] * math.prod(grad.shape[2:])
    seen = patches(b, x, kernel, grad.shape[2:], how)
    if groups > 1:
        if weight.shape[1] != 1 or filters != groups or x.shape[1] != groups:
            raise Unsupported("the weights' gradient in groups of several channels")
        wide = b.view(grad, (*grad.shape[:2], *(1,) * rank, *grad.shape[2:]))
        terms = b.map("mul", wide, seen, dtype=_summed_in(grad))
        sums = b.reduce("sum", terms, (0, *range(2 + rank, 2 + 2 * rank)), False)
        return b.view(sums, weight.shape)
    left = b.view(b.permute(grad, (1, 0, *range(2, 2 + rank))), (filters, places))
    taps, channels = math.prod(kernel), x.shape[1]
    # A product per tap: then one row of places and one of channels give the addresses.
    by_tap = b.permute(seen, (*range(2, 2 + rank), 0, *range(2 + rank, 2 + 2 * rank), 1))
    if taps == 1:
        right = b.view(by_tap, (places, channels))
        return b.view(b.add("matmul", (left, right), _summed_in(grad), (filters, channels)), weight.shape)
    right = b.view(by_tap, (taps, places, channels))
    made = b.add("matmul", (left, right), _summed_in(grad), (taps, filters, channels))
    return b.view(b.permute(made, (1, 2, 0)), weight.shape)


def _summed_in(grad: Val) -> str:
    return "float64" if grad.dtype == "float64" else "float32"


def patches(b: Builder, x: Val, kernel: Sides, out: Sides, how: tuple[Sides, Sides, Sides]) -> Val:
    """The input that each tap reads at each place, `(batch, channels, *taps, *places)`; 0 outside the image."""
    stride, padding, dilation = how
    plain = math.prod(kernel) * math.prod(stride) == 1 and not any(padding)
    if plain:
        return b.view(x, (*x.shape[:2], *kernel, *x.shape[2:]))
    return b.add("patches", (x,), x.dtype, (*x.shape[:2], *kernel, *out), kernel=kernel, stride=stride, padding=padding,
                 dilation=dilation)  # fmt: skip
