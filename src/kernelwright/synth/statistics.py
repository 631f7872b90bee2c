"""Lowers losses, distances, further reductions and norms, and some backward passes, to reductions and maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from kernelwright.synth.call import Call, affine, norm_of, reduce_loss
from kernelwright.synth.primitives import Unsupported, Val


def _power_norm(call: Call) -> Val:
    """`norm` and `linalg_vector_norm` of order 1, 2 or infinity."""
    order = call.arg(1, "p" if call.op == "norm" else "ord", 2)
    order = 2 if order is None else order
    b, x, dims, keep = call.b, call.x, call.dims(2), bool(call.arg(3, "keepdim", False))
    if order == 2:
        total = b.reduce("sum", b.map("mul", x, x, name=b.name("squared")), dims, keep)
        return b.map("sqrt", total, dtype=call.out.dtype)
    sizes = b.map("abs", x, name=b.name("sizes"))
    if order in (1, math.inf):
        return b.reduce("sum" if order == 1 else "amax", sizes, dims, keep, call.out.dtype)
    raise Unsupported(f"a norm of order {order}")


def _count_nonzero(call: Call) -> Val:
    b = call.b
    return b.reduce("sum", b.map("ne", call.x, 0, dtype="bool"), call.dims(1), False, "int64")


def _nansum(call: Call) -> Val:
    b, x = call.b, call.x
    kept = b.map("where", b.map("isnan", x, dtype="bool"), 0.0, x, dtype=x.dtype)
    return b.reduce("sum", kept, call.dims(1), bool(call.arg(2, "keepdim", False)), call.out.dtype)


def _nan_to_num(call: Call) -> Val:
    b, x = call.b, call.x
    return b.map("where", b.map("isnan", x, dtype="bool"), float(call.arg(1, "nan") or 0.0), x, dtype=x.dtype)


def _aminmax(call: Call) -> tuple[Val, Val]:
    dims = (call.kwargs["dim"],) if call.kwargs.get("dim") is not None else tuple(range(len(call.x.shape)))
    keep = bool(call.kwargs.get("keepdim", False))
    return tuple(call.b.reduce(one, call.x, dims, keep, call.x.dtype) for one in ("amin", "amax"))  # type: ignore[return-value]


# -- losses -----------------------------------------------------------------------------------------------------


def _cross_entropy(call: Call) -> Val:
    """Cross entropy of logits with class indices: logsumexp(x) - x[target], times the target's weight; 0 if it is ignored."""
    b, x, target = call.b, call.x, call.arg(1)
    weight, how, ignored = (
        call.arg(2, "weight"),
        call.arg(3, "reduction", 1),
        call.arg(4, "ignore_index", -100),
    )
    smoothing, dim = call.arg(5, "label_smoothing", 0.0), min(len(x.shape) - 1, 1)
    if target.is_float:
        raise Unsupported("cross entropy of probabilities")
    one = tuple(1 if at == dim else size for at, size in enumerate(x.shape))
    target = b.view(target, one)
    known = b.map("ne", target, ignored, dtype="bool", name=b.name("known"))
    place = b.map("where", known, target, 0, dtype=target.dtype, name=b.name("place"))
    peak = b.reduce("amax", x, (dim,), True, name=b.name("peak"))
    total = b.reduce("sum", b.map("exp", b.map("sub", x, peak)), (dim,), True, name=b.name("total"))
    level = b.map("add", b.map("log", total), peak, name=b.name("level"))
    made = b.map("sub", level, b.add("gather", (x, place), x.dtype, one, dim=dim))
    scale = None if weight is None else b.add("take", (weight, place), weight.dtype, one, dim=0)
    made = made if scale is None else b.map("mul", made, scale)
    if smoothing:
        rest = b.map("sub", level, x)
        if weight is not None:
            rest = b.map("mul", rest, b.view(weight, (weight.shape[0], *(1,) * (len(x.shape) - dim - 1))))
        rest = b.map("div", b.reduce("sum", rest, (dim,), True), b.count(x, (dim,)))
        made = b.map("add", b.map("mul", made, 1.0 - smoothing), b.map("mul", rest, smoothing))
    made = b.map("where", known, made, 0.0, dtype="float32", name=b.name("loss"))
    if how == 0:
        return b.view(made, call.out.shape)
    dims = tuple(range(len(x.shape)))
    total = b.reduce("sum", made, dims, False)
    if how == 2:
        return total
    counted = b.map("where", known, 1.0 if scale is None else scale, 0.0, dtype="float32")
    return b.map("div", total, b.reduce("sum", counted, dims, False), dtype=call.out.dtype)


def _bce(call: Call) -> Val:
    b, x, y = call.b, call.x, call.arg(1)
    if call.arg(2, "weight") is not None:
        raise Unsupported("weights of a loss")
    left = b.map("mul", y, b.map("maximum", b.map("log", x), -100.0))
    rest = b.map("maximum", b.map("log1p", b.map("neg", x)), -100.0)
    right = b.map("mul", b.map("sub", 1.0, y), rest)
    return reduce_loss(
        b, b.map("neg", b.map("add", left, right)), call.arg(3, "reduction", 1), call.out.dtype
    )


def _bce_logits(call: Call) -> Val:
    b, x, y = call.b, call.x, call.arg(1)
    if call.arg(2, "weight") is not None or call.arg(3, "pos_weight") is not None:
        raise Unsupported("weights of a loss")
    soft = b.map("log1p", b.map("exp", b.map("neg", b.map("abs", x))))
    made = b.map("add", b.map("sub", b.map("maximum", x, 0.0), b.map("mul", x, y)), soft)
    return reduce_loss(b, made, call.arg(4, "reduction", 1), call.out.dtype)


def _kl_div(call: Call) -> Val:
    b, x, y = call.b, call.x, call.arg(1)
    if call.kwargs.get("log_target", False):
        made = b.map("mul", b.map("exp", y), b.map("sub", y, x))
    else:
        made = b.map("sub", b.map("xlogy", y, y), b.map("mul", y, x))
    return reduce_loss(b, made, call.arg(2, "reduction", 1), call.out.dtype)


def _soft_margin(call: Call) -> Val:
    b, x, y = call.b, call.x, call.arg(1)
    made = b.map("log1p", b.map("exp", b.map("mul", b.map("neg", y), x)))
    return reduce_loss(b, made, call.arg(2, "reduction", 1), call.out.dtype)


def _vecdot(call: Call) -> Val:
    """`dot`, `vdot` and `linalg_vecdot` as a row's sum."""
    x, y = call.x, call.arg(1)
    dim = call.kwargs.get("dim", -1) % len(x.shape)
    return call.b.reduce("sum", call.b.map("mul", x, y), (dim,), False, call.out.dtype)


def _outer(call: Call) -> Val:
    b, x, y = call.b, call.x, call.arg(1)
    return b.map("mul", b.view(x, (x.shape[0], 1)), y, dtype=call.out.dtype)


# -- norms ------------------------------------------------------------------------------------------------------


def _instance_norm(call: Call) -> Val:
    x, weight, bias = call.x, call.arg(1), call.arg(2)
    if not call.arg(5) or len(x.shape) < 3:
        raise Unsupported("instance norm by running statistics")
    made, _, _ = norm_of(call.b, x, tuple(range(2, len(x.shape))), call.arg(7))
    shape = (x.shape[1], *(1,) * (len(x.shape) - 2))
    return affine(call.b, made, weight, bias, shape, call.out.dtype)


def _softmax_backward(call: Call) -> Val:
    b, grad, y, dim = call.b, call.x, call.arg(1), call.arg(2)
    dims = (dim % len(y.shape),)
    if "log" in call.op:
        total = b.reduce("sum", grad, dims, True, name=b.name("total"))
        return b.map("sub", grad, b.map("mul", b.map("exp", y), total), dtype=call.out.dtype)
    weighted = b.map("mul", grad, y, name=b.name("weighted"))
    total = b.reduce("sum", weighted, dims, True, name=b.name("total"))
    return b.map("sub", weighted, b.map("mul", y, total), dtype=call.out.dtype)


def _gelu_backward(call: Call) -> Val:
    if call.arg(2, "approximate", "none") != "none":
        raise Unsupported("the backward of gelu by tanh")
    return call.b.map("gelu_erf_backward", call.x, call.arg(1), dtype=call.out.dtype)


def _elu_backward(call: Call) -> Val:
    if call.arg(4):
        raise Unsupported("the backward of elu from its result")
    grad, alpha, scale, inner, _, x = call.args[:6]
    return call.b.map("elu_backward", grad, alpha, scale, inner, x, dtype=call.out.dtype)


def _loss_backward(call: Call) -> Val:
    b, grad, x, y = call.b, *call.args[:3]
    how = call.arg(3)
    gap = b.map("sub", x, y, name=b.name("gap"))
    if call.op == "mse_loss_backward":
        slope = b.map("mul", gap, 2.0)
    else:
        limit = call.arg(4)
        slope = b.map("minimum", b.map("maximum", gap, -limit), limit)
        slope = b.map("div", slope, limit) if "smooth" in call.op else slope
    made = b.map("mul", slope, grad)
    if how == 1:
        return b.map("div", made, b.count(x, tuple(range(len(x.shape)))), dtype=call.out.dtype)
    return b.map("alias", made, dtype=call.out.dtype)


STATISTICS: dict[str, Callable[[Call], Any]] = {
    "norm": _power_norm, "linalg_vector_norm": _power_norm, "count_nonzero": _count_nonzero, "nansum": _nansum,
    "nan_to_num": _nan_to_num, "aminmax": _aminmax, "cross_entropy_loss": _cross_entropy,
    "binary_cross_entropy": _bce, "binary_cross_entropy_with_logits": _bce_logits, "kl_div": _kl_div,
    "soft_margin_loss": _soft_margin, "outer": _outer, "instance_norm": _instance_norm, "gelu_backward": _gelu_backward,
    "elu_backward": _elu_backward, **dict.fromkeys(["dot", "vdot", "linalg_vecdot"], _vecdot),
    **dict.fromkeys(["_softmax_backward_data", "_log_softmax_backward_data"], _softmax_backward),
    **dict.fromkeys(["mse_loss_backward", "smooth_l1_loss_backward", "huber_loss_backward"], _loss_backward),
}  # fmt: skip
