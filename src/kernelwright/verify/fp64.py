"""Convolutions in fp64 on a GPU as matrix products, which its tensor cores do in fp64. cuDNN's do not use them: the oracle of
a large convolution took seconds, under the lock that clocks wait for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_aten = torch.ops.aten
CONVOLUTION = _aten.convolution.default
_MOST_GROUPS = 16
"""Each is a product of its own; where there are more, each is small."""
_PRODUCTS = {
    (2, False): _aten.slow_conv_dilated2d,
    (3, False): _aten.slow_conv_dilated3d,
    (2, True): _aten.slow_conv_transpose2d,
    (3, True): _aten.slow_conv_transpose3d,
}
"""By dimensions of space and whether it is transposed. An image at a time is unfolded, or folded."""


class Products(TorchDispatchMode):
    """While it is on, in this thread, fp64 convolutions on a GPU are `convolution`."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is CONVOLUTION and args[0].is_cuda and args[0].dtype is torch.float64:
            groups = args[8]
            if groups <= _MOST_GROUPS and args[0].dim() <= 5:
                return convolution(*args)
        return func(*args, **(kwargs or {}))


def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """As `aten.convolution`, of one to three dimensions."""
    if x.dim() == 3:
        x, weight = x.unsqueeze(2), weight.unsqueeze(2)
        stride, padding, dilation, output_padding = (
            [one, *axes] for one, axes in ((1, stride), (0, padding), (1, dilation), (0, output_padding))
        )
        flat = convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
        return flat.squeeze(2)
    multiply = _PRODUCTS[x.dim() - 2, transposed]
    window = list(weight.shape[2:])
    given = [list(stride), list(padding), *([list(output_padding)] if transposed else []), list(dilation)]
    if groups == 1:
        return multiply(x, weight, window, bias, *given)
    biases = [None] * groups if bias is None else bias.chunk(groups)
    parts = zip(x.chunk(groups, 1), weight.chunk(groups, 0), biases, strict=True)
    return torch.cat([multiply(part, filters, window, one, *given) for part, filters, one in parts], 1)


def columns(args: Sequence[Any], out: Tensor) -> int:
    """Elements of the largest matrix that `convolution` unfolds for these arguments, as cuDNN's workspaces may be, too."""
    x, weight, transposed, groups = args[0], args[1], args[6], args[8]
    taps = math.prod(weight.shape[2:])
    places, channels = (x, weight.shape[1]) if transposed else (out, x.shape[1] // groups)
    return channels * taps * math.prod(places.shape[2:])
