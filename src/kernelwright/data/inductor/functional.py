"""Functions, most of `torch.nn.functional`, that would turn a symbolic size into a number, written out while a trace runs.

linear      of three dimensions with a bias: the C++ side asks for plain sizes; as a product of two dimensions
group_norm  takes a plain number of groups
conv1d-3d   take a plain number of groups, too; depthwise ones are a sum over windows
math.sqrt   wants a plain number; as a power
Function    an autograd function is its forward: functorch wants `setup_context`, which older ones lack
"""

from __future__ import annotations

import contextlib
import math
import types
from collections.abc import Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def written_out() -> Iterator[None]:
    """Replaces them in torch, and puts them back."""
    import torch
    import torch.nn.functional as functional

    places: list[tuple[Any, str, Any]] = [
        (functional, "linear", _linear(functional.linear)),
        (functional, "group_norm", _group_norm(functional.group_norm)),
        *(
            (functional, name, _convolution(getattr(functional, name)))
            for name in ("conv1d", "conv2d", "conv3d")
        ),
        (math, "sqrt", _sqrt(math.sqrt)),
        (torch.autograd.Function, "apply", classmethod(_forward)),
    ]
    originals = [(owner, name, vars(owner)[name]) for owner, name, _ in places]
    for owner, name, made in places:
        setattr(owner, name, made)
    try:
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


def _linear(original: Any) -> Any:
    def linear(input: Any, weight: Any, bias: Any = None) -> Any:
        if bias is None or input.dim() != 3:
            return original(input, weight, bias)
        rows = input.reshape(input.shape[0] * input.shape[1], input.shape[2])
        return original(rows, weight, bias).reshape(input.shape[0], input.shape[1], weight.shape[0])

    return linear


def _sqrt(original: Any) -> Any:
    import torch

    def sqrt(x: Any, /) -> Any:
        return x**0.5 if isinstance(x, (torch.SymInt, torch.SymFloat)) else original(x)

    return sqrt


def _group_norm(original: Any) -> Any:
    import torch

    def group_norm(
        input: Any, num_groups: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
    ) -> Any:
        if not isinstance(num_groups, torch.SymInt):
            return original(input, num_groups, weight, bias, eps)
        grouped = input.reshape(input.shape[0], num_groups, -1)
        spread, mean = torch.var_mean(grouped, dim=2, correction=0, keepdim=True)
        normal = ((grouped - mean) * torch.rsqrt(spread + eps)).reshape(input.shape)
        wide = [1, input.shape[1], *([1] * (input.dim() - 2))]
        if weight is not None:
            normal = normal * weight.reshape(wide)
        return normal if bias is None else normal + bias.reshape(wide)

    return group_norm


def _convolution(original: Any) -> Any:
    import torch

    def convolution(
        input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
        groups: Any = 1,
    ) -> Any:  # fmt: skip
        rank = weight.dim() - 2
        depthwise = isinstance(groups, torch.SymInt) and weight.shape[1] == 1
        if not depthwise or input.dim() != rank + 2 or weight.shape[0] != input.shape[1]:
            return original(input, weight, bias, stride, padding, dilation, groups)
        strides, steps = _wide(stride, rank), _wide(dilation, rank)
        kernel = [int(size) for size in weight.shape[2:]]
        spans = [step * (size - 1) for step, size in zip(steps, kernel, strict=True)]
        edges = _edges(padding, spans, rank)
        if any(before or after for before, after in edges):
            input = torch.constant_pad_nd(input, [edge for pair in reversed(edges) for edge in pair], 0.0)
        for axis in range(rank):
            input = input.unfold(2 + axis, spans[axis] + 1, strides[axis])
        for axis in range(rank):
            if steps[axis] > 1:
                input = input[(..., slice(None, None, steps[axis]), *([slice(None)] * (rank - 1 - axis)))]
        factors = weight.reshape(weight.shape[0], *([1] * rank), *kernel)
        input = input.clone(memory_format=torch.contiguous_format)  # strides of windows depend on their sizes
        found = (input * factors).sum(tuple(range(2 + rank, 2 + 2 * rank)))
        return found if bias is None else found + bias.reshape(-1, *([1] * rank))

    return convolution


def _wide(value: Any, rank: int) -> list[int]:
    found = [int(item) for item in value] if isinstance(value, Sequence) else [int(value)]
    return found * rank if len(found) == 1 else found


def _edges(padding: Any, spans: Sequence[int], rank: int) -> list[tuple[int, int]]:
    """Zeros before and after each axis."""
    if padding == "same":
        return [(span // 2, span - span // 2) for span in spans]
    if padding == "valid":
        return [(0, 0)] * rank
    return [(edge, edge) for edge in _wide(padding, rank)]


def _forward(function: Any, *arguments: Any, **options: Any) -> Any:
    """What `apply` gives where no gradient is asked for."""
    import torch

    if function.setup_context is not torch.autograd.Function.setup_context:
        return function.forward(*arguments, **options)
    nothing: Any = lambda *_, **__: None  # noqa: E731
    context = types.SimpleNamespace(
        save_for_backward=nothing,
        save_for_forward=nothing,
        mark_dirty=nothing,
        mark_non_differentiable=nothing,
        set_materialize_grads=nothing,
        needs_input_grad=(False,) * len(arguments),
    )
    return function.forward(context, *arguments, **options)
