"""The operators that graphs are made of: their kinds, what stays whole, and how exact they are.

A captured graph is written in this set. Operators that mean something by themselves (linear, convolution, softmax,
layer norm, gelu, attention, pooling, interpolation, losses ...) stay whole; whatever is not here is decomposed by
torch's own decomposition tables until it is. Graphs of AOTAutograd add the backward operators.

    kind          what it does                                             examples
    view          other shape, same elements                               reshape, permute, slice, expand
    move          copies elements to other places                          cat, repeat, roll, constant_pad_nd
    create        makes a tensor from numbers                              full, arange, zeros_like
    map           each element from elements at the same place             add, gelu, where, _to_copy
    reduction     fewer elements from many                                 sum, amax, var, argmax
    norm          a reduction whose result is applied to what was reduced  softmax, layer_norm, batch norm
    loss          a map and a reduction of predictions and targets         cross_entropy_loss, mse_loss
    contraction   sums of products                                         linear, mm, convolution, attention
    window        reductions over neighbours, and interpolation            max_pool2d, upsample_bilinear2d
    scan          running reductions                                       cumsum, cumprod
    gather        reads at places that a tensor names                      embedding, index, gather
    scatter       writes at places that a tensor names                     index_put, scatter_add
    sort          orders elements                                          sort, topk
    random        draws numbers                                            native_dropout, rand

Narrower floats are computed and accumulated in float32, sums in any order, and rounded once to the result's dtype. Products of
narrower floats are exact; float32 products follow the task's precision. Views, moves, gathers and sorts are exact (the
order of equal elements is free unless `stable`), scatters are but where several writes to one place are added.

Does not guarantee that an operator outside the set cannot be run: `execute` runs any ATen operator. `kind` says
`other` of those.
"""

from __future__ import annotations

import functools
from typing import Any, Literal, get_args

Kind = Literal[
    "view", "move", "create", "map", "reduction", "norm", "loss", "contraction", "window", "scan", "gather",
    "scatter", "sort", "random", "other",
]  # fmt: skip

_KINDS: dict[Kind, str] = {
    "view": """
        reshape view _unsafe_view permute transpose t unsqueeze squeeze expand slice select split split_with_sizes
        unbind chunk diagonal unfold alias detach as_strided view_as movedim flatten unflatten narrow swapaxes
        lift_fresh""",
    "move": """
        cat stack repeat flip roll constant_pad_nd clone contiguous copy slice_scatter select_scatter
        diagonal_scatter pixel_shuffle pixel_unshuffle channel_shuffle reflection_pad1d reflection_pad2d
        reflection_pad3d replication_pad1d replication_pad2d replication_pad3d repeat_interleave rot90
        lift_fresh_copy slice_backward select_backward diagonal_backward unfold_backward as_strided_scatter
        reflection_pad1d_backward reflection_pad2d_backward replication_pad2d_backward""",
    "create": """
        full full_like zeros zeros_like ones ones_like arange linspace logspace eye scalar_tensor empty empty_like
        new_empty new_full new_zeros new_ones empty_strided new_empty_strided tril_indices triu_indices""",
    "map": """
        _to_copy abs acos acosh add addcdiv addcmul asin asinh atan atan2 atanh bitwise_and bitwise_left_shift
        bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil celu clamp clamp_max clamp_min copysign cos cosh
        deg2rad digamma div elu eq erf erfc erfinv exp exp2 expm1 floor floor_divide fmax fmin fmod frac frexp gcd ge
        gelu glu gt hardshrink hardsigmoid hardswish hardtanh heaviside hypot igamma igammac isfinite isinf isnan
        ldexp le leaky_relu lerp lgamma log log10 log1p log2 log_sigmoid log_sigmoid_forward logaddexp logaddexp2
        logical_and logical_not logical_or logical_xor logit lt masked_fill maximum minimum mish mul nan_to_num ne
        neg nextafter polygamma positive pow prelu _prelu_kernel rad2deg reciprocal relu relu6 remainder round rsqrt
        rsub selu sgn sigmoid sign signbit silu sin sinc sinh softplus softshrink special_bessel_j0 special_bessel_j1
        special_entr special_erfcx special_i0 special_i0e special_i1 special_i1e special_log_ndtr special_modified_bessel_i0
        special_ndtri special_zeta sqrt square sub tan tanh tanhshrink softsign threshold tril triu trunc where xlogy
        special_xlog1py isposinf isneginf true_divide view_dtype
        gelu_backward silu_backward sigmoid_backward tanh_backward threshold_backward elu_backward
        hardswish_backward hardsigmoid_backward hardtanh_backward leaky_relu_backward mish_backward
        softplus_backward log_sigmoid_backward glu_backward softshrink_backward hardshrink_backward
        _prelu_kernel_backward logit_backward native_dropout_backward mse_loss_backward smooth_l1_loss_backward
        huber_loss_backward binary_cross_entropy_backward binary_cross_entropy_with_logits_backward""",
    "reduction": """
        sum mean prod amax amin aminmax max min argmax argmin any all var var_mean std std_mean norm
        linalg_vector_norm logsumexp count_nonzero nansum median nanmedian mode trace dist""",
    "norm": """
        softmax _softmax log_softmax _log_softmax _safe_softmax layer_norm native_layer_norm group_norm
        native_group_norm instance_norm rms_norm _fused_rms_norm batch_norm native_batch_norm
        _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
        _batch_norm_with_update _batch_norm_with_update_functional _batch_norm_no_update normalize
        _softmax_backward_data _log_softmax_backward_data native_layer_norm_backward native_group_norm_backward
        native_batch_norm_backward _fused_rms_norm_backward batch_norm_backward""",
    "loss": """
        cross_entropy_loss nll_loss_forward nll_loss2d_forward mse_loss l1_loss smooth_l1_loss huber_loss
        binary_cross_entropy binary_cross_entropy_with_logits kl_div soft_margin_loss multi_margin_loss
        multilabel_margin_loss_forward nll_loss_backward nll_loss2d_backward""",
    "contraction": """
        linear mm bmm addmm baddbmm addbmm matmul mv addmv dot vdot outer addr convolution convolution_backward
        scaled_dot_product_attention _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu
        _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention
        _scaled_dot_product_flash_attention_backward _scaled_dot_product_flash_attention_for_cpu_backward
        _scaled_dot_product_efficient_attention_backward _scaled_dot_product_cudnn_attention_backward
        cdist _cdist_forward _pdist_forward linalg_vecdot""",
    "window": """
        max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices avg_pool1d avg_pool2d
        avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d
        _adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d upsample_nearest1d
        upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d
        _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d
        _upsample_bilinear2d_aa _upsample_bicubic2d_aa im2col col2im fractional_max_pool2d max_unpool2d
        max_pool2d_with_indices_backward max_pool3d_with_indices_backward avg_pool2d_backward avg_pool3d_backward
        _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward adaptive_max_pool2d_backward
        upsample_nearest2d_backward upsample_bilinear2d_backward upsample_bicubic2d_backward""",
    "scan": "cumsum cumprod cummax cummin logcumsumexp",
    "gather": """
        embedding index _unsafe_index index_select gather take grid_sampler grid_sampler_2d grid_sampler_3d
        embedding_bag _embedding_bag _embedding_bag_forward_only bucketize searchsorted _unsafe_masked_index isin""",
    "scatter": """
        index_put _unsafe_index_put index_add index_copy index_fill scatter scatter_add scatter_reduce
        masked_scatter put embedding_dense_backward index_reduce _unsafe_masked_index_put_accumulate
        grid_sampler_2d_backward""",
    "sort": "sort topk argsort kthvalue unique_consecutive",
    "random": """
        native_dropout dropout bernoulli rand randn rand_like randn_like randint randint_like randperm normal
        normal_functional uniform multinomial poisson exponential rrelu rrelu_with_noise
        rrelu_with_noise_functional alpha_dropout feature_dropout""",
}

KIND: dict[str, Kind] = {name: kind for kind, names in _KINDS.items() for name in names.split()}
"""ATen operator without overload -> kind."""

WHOLE = frozenset(
    [
        "linear", "layer_norm", "group_norm", "rms_norm", "scaled_dot_product_attention", "matmul", "addmm",
        "mm", "bmm", "convolution", "_softmax", "_log_softmax", "gelu", "silu", "mish", "elu", "celu", "selu",
        "leaky_relu", "hardswish", "hardsigmoid", "hardtanh", "softplus", "softshrink", "hardshrink",
        "log_sigmoid", "prelu", "glu", "relu6", "sigmoid", "tanh", "relu", "logaddexp", "masked_fill",
        "addcmul", "addcdiv", "lerp", "logsumexp", "embedding", "cumsum", "cumprod", "cummax", "cummin",
        "logcumsumexp", "cross_entropy_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
        "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div", "nll_loss_forward",
        "nll_loss2d_forward", "soft_margin_loss", "max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d",
        "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
        "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "upsample_nearest1d",
        "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
        "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d",
        "upsample_bicubic2d", "pixel_shuffle", "pixel_unshuffle", "reflection_pad1d", "reflection_pad2d",
        "reflection_pad3d", "replication_pad1d", "replication_pad2d", "replication_pad3d", "roll", "stack",
        "var", "var_mean", "std", "tril", "triu", "grid_sampler_2d", "im2col", "col2im",
    ]
)  # fmt: skip
"""What is never decomposed, in every functional overload."""


def packet(op: str) -> str:
    """`mul` of `aten.mul.Tensor`."""
    return op.split(".")[1]


def kind(op: str) -> Kind:
    """The kind of an operator given as `aten.mul.Tensor`; `other` for what is outside the set."""
    if op == "aten.view.dtype":
        return "map"
    if not op.startswith("aten."):
        return "other"
    return KIND.get(packet(op), "other")


def resolve(op: str) -> Any:
    """The callable of `torch.ops` named `namespace.name.overload`. Raises AttributeError where torch has none."""
    import torch

    found: Any = torch.ops
    for part in op.split("."):
        found = getattr(found, part)
    return found


@functools.cache
def decompositions() -> tuple[dict[Any, Any], dict[Any, Any]]:
    """torch's decomposition table without what stays whole, as `ExportedProgram.run_decompositions` splits it: rules for
    operators that are composites of others in C++, and for the rest.

    Of the former only those that are to stay whole, or that have a rule in Python: torch would install each of some 500 anew
    for every program, which takes longer than a small module's capture does; without that they fall into the same parts.
    """
    from torch._decomp import global_decomposition_table
    from torch.export import default_decompositions
    from torch.export import exported_program as torchs

    table = default_decompositions()
    for one in list(table.keys()):
        if one.namespace == "aten" and one._schema.name.removeprefix("aten::") in WHOLE:
            table.pop(one)
    # Batch statistics are reductions like others; torch keeps the operator for its running averages.
    trained = resolve("aten._native_batch_norm_legit_functional.default")
    table[trained] = global_decomposition_table["post_autograd"][trained]
    composites, others = torchs._split_decomp_table_to_cia_and_python_decomp(dict(table))
    rules = global_decomposition_table["post_autograd"]
    kept = torchs._special_op_to_preserve_cia
    others[resolve("aten.copy.default")] = _copied
    named = {op: rule for op, rule in composites.items() if rule is kept or op in rules}
    return named | {resolve("aten.bilinear.default"): _bilinear}, others


def _copied(x: Any, source: Any, non_blocking: bool = False) -> Any:
    """What `x.copy_(source)` leaves in `x`, as exported writes into slices have it."""
    return source.to(x.dtype).expand(x.shape)


def _bilinear(x: Any, y: Any, weight: Any, bias: Any = None) -> Any:
    """x' W_n y for each n, [..., I], [..., J] by [N, I, J] -> [..., N]: a product and a sum, where torch's own multiplies
    elements in an operator that no function of its shows."""
    outs, inner, _ = weight.shape
    rows = x.reshape(-1, inner) @ weight.permute(1, 0, 2).reshape(inner, -1)
    made = (rows.view(*x.shape[:-1], outs, y.shape[-1]) * y.unsqueeze(-2)).sum(-1)
    return made if bias is None else made + bias


assert set(_KINDS) | {"other"} == set(get_args(Kind))
