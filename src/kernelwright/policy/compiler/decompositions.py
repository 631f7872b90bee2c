"""Decomposes operators before Inductor sees them, where its own decomposition needs a library or loses digits.

    semantic(contractions)   by a graph's operator names: called in the operator's place while the graph is traced
    table(contractions)      by torch's operators: Inductor's own table, overridden by ours

Products and plain convolutions in two and three dimensions are not decomposed: Inductor has Triton templates for them. Functions
here only compose torch operators, accept symbolic sizes, and return NotImplemented if the operator's own decomposition is
better.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from kernelwright.policy.compiler import convolutions, pooling, ranks
from kernelwright.policy.compiler.reasons import CannotCompile


def semantic(contractions: str) -> Mapping[str, Callable[..., Any]]:
    """Functions by a graph's operator names. With `auto`, operators that stay with ATen are not included."""
    found: dict[str, Callable[..., Any]] = {
        "aten.linear.default": _linear,
        "aten.group_norm.default": _group_norm,
        "aten.avg_pool1d.default": pooling.average(1),
        "aten.avg_pool2d.default": pooling.average(2),
        "aten.avg_pool3d.default": pooling.average(3),
        "aten.max_pool1d.default": _max_pool1d,
        "aten.max_pool2d.default": pooling.largest(2),
        "aten.max_pool3d.default": pooling.largest(3),
        "aten.max_pool2d_with_indices.default": pooling.largest_with_indices(2),
        "aten.max_pool3d_with_indices.default": pooling.largest_with_indices(3),
        **_adaptive(),
        "aten.scaled_dot_product_attention.default": _attention,
        "aten._embedding_bag.default": _embedding_bag,
        "aten._embedding_bag_forward_only.default": _embedding_bag,
        "aten._cdist_forward.default": _distances,
        "aten.sort.default": ranks.sort,
        "aten.sort.stable": ranks.sort,
        "aten.topk.default": ranks.topk,
        "aten.remainder.Scalar": _remainder,
        "aten.remainder.Tensor": _remainder,
        **{f"aten.{name}.vec": _upsample(name) for name in _INTERPOLATIONS},
    }
    if contractions == "auto":
        found["aten.scaled_dot_product_attention.default"] = _whole_attention
        found["aten.convolution.default"] = _whole_convolution
    return found


def table(contractions: str) -> dict[Any, Any]:
    """Inductor's own table, with variances in two passes (a mean, then a sum of squares) instead of Welford's method."""
    from torch._inductor.decomposition import select_decomp_table

    aten = torch.ops.aten
    found = dict(select_decomp_table())
    if contractions == "own":
        found[aten.convolution.default] = convolutions.convolution
    found[aten.var_mean.correction] = _mean_and_spread
    found[aten.var.correction] = _spread
    # Inductor's own rules for products look at the device, which is the CPU while we trace.
    found[aten.mm.default] = found[aten.bmm.default] = _product
    found.pop(aten.addmm.default, None)
    return found


def _adaptive() -> dict[str, Callable[..., Any]]:
    found = {f"aten.adaptive_avg_pool{n}d.default": pooling.adaptive(n, False) for n in (1, 2, 3)}
    found |= {f"aten._adaptive_avg_pool{n}d.default": pooling.adaptive(n, False) for n in (2, 3)}
    return found | {f"aten.adaptive_max_pool{n}d.default": pooling.adaptive(n, True) for n in (1, 2, 3)}


def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """As one two-dimensional product for any rank of `x`: [..., K] by [N, K] -> [..., N]."""
    lead = list(x.shape[:-1])
    rows = x if x.dim() == 2 else x.reshape(-1 if not lead else math.prod(lead), x.shape[-1])
    found = torch.mm(rows, weight.t()) if bias is None else torch.addmm(bias, rows, weight.t())
    return found if x.dim() == 2 else found.reshape([*lead, weight.shape[0]])


def _group_norm(
    x: Any, groups: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, _cudnn: bool = True
) -> Any:
    """For a symbolic number of groups, which torch's own does not accept."""
    if not pooling.symbolic(groups):
        return NotImplemented
    grouped = x.reshape(x.shape[0], groups, -1).float()
    spread, mean = _mean_and_spread(grouped, [2], correction=0, keepdim=True)
    normal = ((grouped - mean) * torch.rsqrt(spread + eps)).reshape(x.shape)
    wide = [1, x.shape[1], *([1] * (x.dim() - 2))]
    normal = normal if weight is None else normal * weight.reshape(wide)
    return (normal if bias is None else normal + bias.reshape(wide)).to(x.dtype)


def _embedding_bag(
    weight: Any, indices: Any, offsets: Any, _scaled: bool = False, mode: int = 0, _sparse: bool = False,
    factors: Any = None, closed: bool = False, padding: int = -1,
) -> Any:  # fmt: skip
    """Sums or means of a table's rows in bags that begin at `offsets`. Omits what only gradients need."""
    if mode > 1 or padding >= 0 or indices.dim() != 1:
        return NotImplemented
    bags = offsets[:-1] if closed else offsets
    places = torch.arange(indices.shape[0], device=indices.device)
    bag = torch.searchsorted(bags, places, right=True) - 1
    rows = weight[indices].float()
    rows = rows if factors is None else rows * factors.unsqueeze(-1).float()
    made = rows.new_zeros([bags.shape[0], weight.shape[1]]).index_add(0, bag, rows)
    if mode == 1:
        ones = rows.new_ones([indices.shape[0]])
        count = rows.new_zeros([bags.shape[0]]).index_add(0, bag, ones)
        made = made / count.clamp(min=1.0).unsqueeze(-1)
    return made.to(weight.dtype), bag, bags, bags


def _max_pool1d(
    x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Any:
    """As two-dimensional pooling of a row of pixels: torch's own for the CPU accepts only one size."""
    (size,), (edge,), (apart,) = (pooling.wide(one, 1) for one in (kernel, padding, dilation))
    (step,) = pooling.wide(stride or kernel, 1)
    windows = [1, size], [1, step], [0, edge], [1, apart], ceil_mode
    found = pooling.largest(2)(x.unsqueeze(-2), *windows)
    if found is NotImplemented:
        found = torch.ops.aten.max_pool2d_with_indices.default(x.unsqueeze(-2), *windows)[0]
    return found.squeeze(-2)


def _remainder(x: Any, divisor: Any) -> Any:
    """With the divisor's sign; Inductor's own version reads sign bits."""
    rest = torch.fmod(x, divisor)
    return torch.where((rest != 0) & ((rest < 0) != (divisor < 0)), rest + divisor, rest)


def _distances(x: Any, y: Any, p: float, _mode: Any = None) -> Any:
    """Distances of each of [..., P, M] from each of [..., R, M] -> [..., P, R]."""
    if p not in (1.0, 2.0):
        return NotImplemented
    apart = x.unsqueeze(-2) - y.unsqueeze(-3)
    return apart.abs().sum(-1) if p == 1.0 else (apart * apart).sum(-1).sqrt()


def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    *, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """softmax(Q K' scale + mask) V, with scores in float32."""
    if dropout_p:
        raise CannotCompile("random", "attention with dropout")
    if enable_gqa and query.shape[-3] != key.shape[-3]:
        times = query.shape[-3] // key.shape[-3]
        key, value = (one.repeat_interleave(times, -3) for one in (key, value))
    q, k, v = (one.to(torch.float32) for one in (query, key, value))
    scores = torch.matmul(q * (query.shape[-1] ** -0.5 if scale is None else scale), k.transpose(-2, -1))
    if is_causal:
        rows = torch.arange(query.shape[-2], device=query.device)[:, None]
        columns = torch.arange(key.shape[-2], device=query.device)[None, :]
        scores = torch.where(columns <= rows, scores, float("-inf"))
    if attn_mask is not None:
        hides = attn_mask.dtype == torch.bool
        scores = torch.where(attn_mask, scores, float("-inf")) if hides else scores + attn_mask
    weights = torch.softmax(scores, -1)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        weights = torch.where(attn_mask.any(-1, keepdim=True), weights, 0.0)  # rows that see nothing are zero
    return torch.matmul(weights, v).to(query.dtype)


def _whole_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    *, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """One call, which `wrapper.py` turns into torch's."""
    if dropout_p:
        raise CannotCompile("random", "attention with dropout")
    return _attention_operator()(query, key, value, attn_mask, is_causal, scale, enable_gqa)


def _upsample(name: str) -> Callable[..., Any]:
    """Interpolation by integer factors, with output sizes as products; torch's own computes them with floats, which no launch can
    express."""

    def run(x: Any, size: Any, *rest: Any) -> Any:
        *options, factors = rest
        if size is not None or not factors or any(factor != int(factor) for factor in factors):
            return NotImplemented
        sizes = [side * int(factor) for side, factor in zip(x.shape[2:], factors, strict=True)]
        return getattr(torch.ops.aten, name).default(x, sizes, *options, *map(float, factors))

    return run


def _whole_convolution(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, extra: Any, groups: Any
) -> Any:  # fmt: skip
    """Keeps a convolution whole if its number of groups is symbolic (depthwise), which Inductor would fix. In one dimension the
    input is made contiguous: torch would copy it, and cannot without a GPU."""
    if pooling.symbolic(groups):
        return _convolution_operator()(x, weight, bias, stride, padding, dilation, transposed, extra, groups)
    if x.dim() != 3:
        return NotImplemented
    whole = x.clone(memory_format=torch.contiguous_format)
    return torch.ops.aten.convolution.default(
        whole, weight, bias, stride, padding, dilation, transposed, extra, groups
    )


@functools.cache
def _attention_operator() -> Any:
    def shape_only(query: Any, key: Any, value: Any, *_: Any) -> Any:
        return query.new_empty([*query.shape[:-1], value.shape[-1]])

    return _operator(
        "attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool is_causal, float? scale, "
        "bool enable_gqa) -> Tensor",
        shape_only,
    )


@functools.cache
def _convolution_operator() -> Any:
    def shape_only(
        x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, extra: Any, groups: Any
    ) -> Any:  # fmt: skip
        places = []
        for at, size in enumerate(x.shape[2:]):
            window = dilation[at] * (weight.shape[2 + at] - 1) + 1
            if transposed:
                places.append((size - 1) * stride[at] - 2 * padding[at] + window + extra[at])
            else:
                places.append((size + 2 * padding[at] - window) // stride[at] + 1)
        channels = weight.shape[1] * groups if transposed else weight.shape[0]
        return x.new_empty([x.shape[0], channels, *places])

    return _operator(
        "grouped_convolution(Tensor x, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
        "bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor",
        shape_only,
    )


def _operator(schema: str, shape_only: Callable[..., Any]) -> Any:
    """An operator unknown to Inductor, which therefore leaves it whole; it is traced and never run."""
    library = torch.library.Library("kernelwright", "FRAGMENT")
    library.define(schema)
    name = schema.partition("(")[0]
    library.impl(name, shape_only, "CompositeExplicitAutograd")
    library.impl(name, shape_only, "Meta")
    _KEPT.append(library)
    return getattr(torch.ops.kernelwright, name).default


_INTERPOLATIONS = (
    *(f"{kind}{n}d" for kind in ("upsample_nearest", "_upsample_nearest_exact") for n in (1, 2, 3)),
    *("upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d"),
)

_KEPT: list[Any] = []
"""Libraries of operators, kept alive: torch drops an operator with the last reference to its library."""


def _mean_and_spread(
    x: Any, dim: Any = None, correction: Any = None, keepdim: bool = False
) -> tuple[Any, Any]:
    axes = [axis % x.dim() for axis in (dim or range(x.dim()))]
    count = math.prod([x.shape[axis] for axis in axes])
    wide = pooling.in_float(x)
    mean = wide.sum(axes, keepdim=True) / count
    centred = wide - mean
    correction = 1 if correction is None else correction
    spread = (centred * centred).sum(axes, keepdim=keepdim) / (count - correction if correction else count)
    if not keepdim:
        for axis in sorted(axes, reverse=True):
            mean = mean.squeeze(axis)
    return spread.to(x.dtype), mean.to(x.dtype)


def _spread(x: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
    return _mean_and_spread(x, dim, correction=correction, keepdim=keepdim)[0]


def _product(left: Any, right: Any) -> Any:
    """Products of integers, which have no template, as a sum of products; of a column and a row, as Inductor writes them for GPUs."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    if not left.is_floating_point():
        return (left.unsqueeze(-1) * right.unsqueeze(-3)).sum(-2, dtype=left.dtype)
    outer = statically_known_true(left.shape[-1] == 1)
    several = left.dim() == 3 or all(
        statically_known_true(size != 1) for size in (left.shape[0], right.shape[1])
    )
    return left * right if outer and several else NotImplemented
