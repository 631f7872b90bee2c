"""How far roundings move an output: the reference is run again with every operation off by a rounding.

Used only before a candidate's numbers would be called wrong. The error allowed follows from the honest run's error, which
may be zero by luck (the variance of equal numbers is 0 in one summation order and 1e-14 in another). An element may also
depend on the last digit of something far larger (a norm over rows that nearly agree, scores that nearly tie), and torch may
use a formula of its own where others spell it out. So here operations are the elementary ones of a kernel, and honest kernels
may differ by as much as a few such runs move an element.
Source: Monte Carlo arithmetic (Parker 1997).
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from kernelwright.verify.reference.copies import copied
from kernelwright.verify.reference.task_module import where_possible
from kernelwright.verify.structures import Args, DispatchMode, Kwargs, Op, convert, flatten

T = TypeVar("T")
RUNS = 16
_FINE_RUNS, _FINE = 4, 0.125
"""More runs, with roundings of this share: where large ones move an element one way only, those of a kernel may move it the other."""
_HALF = (torch.float16, torch.bfloat16)
_SUMMED = 128
"""Steps whose decays are added up in one piece: the most of published kernels' chunks."""
_COPIES = ("clone", "_to_copy", "neg", "abs")
_STEPS = ("round", "floor", "ceil", "trunc", "sign", "heaviside")
"""Operators with integer results, which later roundings do not move."""
_SUMS = (
    "add", "sub", "rsub", "sum", "mean", "cumsum", "mm", "bmm", "addmm", "baddbmm", "mv", "dot", "convolution", "addcmul",
)  # fmt: skip
"""Operators that add: whether a zero that they make of numbers of either sign is below zero depends on the order."""


def _log1p(x: torch.Tensor) -> torch.Tensor:
    return (x + 1.0).log()


def _gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    if approximate == "tanh":
        return 0.5 * x * (1.0 + (math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)).tanh())
    return 0.5 * x * (1.0 + (x * math.sqrt(0.5)).erf())


def _softplus(x: torch.Tensor, beta: float = 1.0, threshold: float = 20.0) -> torch.Tensor:
    return torch.where(x * beta > threshold, x, _log1p((x * beta).exp()) / beta)


def _elu(x: torch.Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> torch.Tensor:
    return torch.where(x > 0, x * scale, ((x * input_scale).exp() - 1.0) * (alpha * scale))


def _log_softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    """Subtracts the logarithm of the whole sum, one number a row, as a forward pass keeps it for its backward pass."""
    x = x.float() if half_to_float else x
    if not x.numel():
        return x
    top = x.amax(dim, keepdim=True)
    return x - (top + (x - top).exp().sum(dim, keepdim=True).log())


def _softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> torch.Tensor:
    """With a maximum that is off by a rounding, as where a kernel contracts the product that makes a score with the subtraction: all
    exponentials grow by the same factor, which overflows from scores of 1e9 on. The weights and their sum may see different
    roundings of a score: where the last product of a sum over threads is contracted, each thread has a rounding of its own."""
    if not x.numel():
        return x
    scores = x.float() if x.dtype in _HALF else x
    top = scores.amax(dim, keepdim=True)
    weights, again = ((scores * 1.0 - top).exp() for _ in range(2))
    made = weights / again.sum(dim, keepdim=True)
    return made if half_to_float else made.to(x.dtype)


def _attention(given: Mapping[str, Any]) -> torch.Tensor:
    """One of torch's fused attentions in single precision, by its arguments' names."""
    query, key, value = (given[name].float() for name in ("query", "key", "value"))
    mask, scale = given.get("attn_mask", given.get("attn_bias")), given.get("scale")
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    if given.get("is_causal"):
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
    return (_softmax(scores, -1, False) @ value).to(given["query"].dtype)


def _softmax_backward(
    gradient: torch.Tensor,
    output: torch.Tensor,
    dim: int,
    dtype: torch.dtype,
    kept: torch.dtype | None = None,
) -> torch.Tensor:
    """The row sum may use what a forward pass `kept` in fewer digits: the weights, or their product with the values. That product
    with the output's gradient is the sum in another order, off by roundings of a typical gradient where a row's are small."""
    stored = output if kept is None else output.to(kept)
    typical = gradient.abs().nanmedian()
    row = (gradient * stored).sum(dim, keepdim=True) + typical - typical
    return (output * (gradient - row)).to(dtype)


def _layer_norm_backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    normalized_shape: Sequence[int],
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    output_mask: Sequence[bool],
) -> tuple[torch.Tensor | None, ...]:
    gradient = gradient.to(torch.promote_types(x.dtype, torch.float32))
    normal = (x.to(gradient.dtype) - mean) * rstd
    axes = list(range(x.ndim - len(normalized_shape), x.ndim))
    others = list(range(axes[0]))
    weighed = gradient if weight is None else gradient * weight
    along = normal * (weighed * normal).mean(axes, keepdim=True)  # over one element all of it cancels
    of_input = ((weighed - (along + weighed.mean(axes, keepdim=True))) * rstd).to(x.dtype)
    sums = (
        [(gradient * normal).sum(others), gradient.sum(others)] if others else [gradient * normal, gradient]
    )
    return of_input, *(
        one.to(like.dtype) if asked and like is not None else None
        for one, like, asked in zip(sums, (weight, bias), output_mask[1:], strict=True)
    )


def _attention_backward(
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    output: torch.Tensor,
    logsumexp: torch.Tensor,
    dropout: float,
    causal: bool,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, ...]:
    """In single precision, as all implementations; the row sum of gradient times output replaces that of the scores."""
    dtype = query.dtype
    gradient, query, key, value, output = (one.float() for one in (gradient, query, key, value, output))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.transpose(-1, -2) * scale
    if attn_mask is not None:
        scores = scores + attn_mask
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -math.inf)
    weights = (scores - logsumexp.unsqueeze(-1)).exp()
    of_weights = gradient @ value.transpose(-1, -2)
    of_scores = weights * (of_weights - (gradient * output).sum(-1, keepdim=True)) * scale
    made = of_scores @ key, of_scores.transpose(-1, -2) @ query, weights.transpose(-1, -2) @ gradient
    return tuple(one.to(dtype) for one in made)


_ELEMENTARY: Mapping[str, Callable[..., object]] = MappingProxyType(
    {
        "aten::log1p": _log1p,
        "aten::expm1": lambda x: x.exp() - 1.0,
        "aten::tanh": lambda x: 2.0 * (2.0 * x).sigmoid() - 1.0,
        "aten::gelu": _gelu,
        "aten::softplus": _softplus,
        "aten::mish": lambda x: x * _softplus(x).tanh(),
        "aten::elu": _elu,
        "aten::_log_softmax": _log_softmax,
        "aten::_softmax": _softmax,
        "aten::_softmax_backward_data": _softmax_backward,
        "aten::native_layer_norm_backward": _layer_norm_backward,
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
        "aten::log_sigmoid_forward": lambda x: (x.clamp(max=0.0) - _log1p((-x.abs()).exp()), x),
    }
)
"""Operations in which something cancels, spelled out as kernels do."""
_ATTENTIONS = frozenset(
    f"aten::_scaled_dot_product_{name}"
    for name in ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")
)
"""Whose first result is spelled out: their scores are made of sums, and roundings of scores decide between near ties."""
_MADE_AGAIN: Mapping[str, Callable[..., object]] = MappingProxyType(
    {"aten::_softmax": lambda *args, **kwargs: _log_softmax(*args, **kwargs).exp()}
)
"""Operations whose results a backward pass makes again in another way, spelled out like that where gradients are asked: weights from
the logarithm of a row's sum, which is off by a rounding for the whole row."""


class Rounding(DispatchMode):
    """Every floating-point result of an operation is off by one to two of its dtype's epsilons, up or down: never by 0, and by
    varying amounts, so that errors of subtracted values do not cancel too often. With `ties`, equal values are off by the same
    amount and exact results by nothing, so exact ties stay ties."""

    def __init__(
        self,
        seed: int,
        ties: bool = False,
        kept: torch.dtype | None = None,
        inward: bool = False,
        given: bool = False,
        share: float = 1.0,
    ) -> None:
        """`kept`: the half-precision dtype of the task's inputs, if any. `inward`: all results move towards 0. `given`: copies and
        magnitudes do not move. `share` of these roundings: their size."""
        super().__init__()
        self._share = share
        self._seed, self._ties, self._kept, self._inward, self._given = seed, ties, kept, inward, given
        self._generators: dict[torch.device, torch.Generator] = {}
        self._whole: list[torch.Tensor] = []
        """Float tensors of integers, made by a step or from such a tensor."""

    def __torch_dispatch__(self, func: Op, types: object, args: Args = (), kwargs: Kwargs = None) -> object:
        kwargs = kwargs or {}
        again = _MADE_AGAIN if _is_differentiated(args) else {}
        if spelled := again.get(func._schema.name) or _ELEMENTARY.get(func._schema.name):
            if spelled is _softmax_backward:
                kwargs = {**kwargs, "kept": self._kept}
            with self:
                return spelled(*args, **kwargs)
        if func._schema.name in _ATTENTIONS:
            given = dict(zip((one.name for one in func._schema.arguments), args, strict=False)) | kwargs
            first, *others = func(*args, **kwargs)
            with self:
                made = _attention(given)
            return torch.where(made.isnan(), first, made), *others  # of rows that are masked throughout
        held = {t.untyped_storage()._cdata for t in args if isinstance(t, torch.Tensor)}
        result = func(*args, **kwargs)
        if self._stays(func, args, result):
            return result

        def off(tensor: torch.Tensor) -> torch.Tensor:
            view = tensor.untyped_storage()._cdata in held and not func._schema.is_mutable
            if view or not self._ties:
                return tensor if view else self.off(self._with_signs(func, args, tensor))
            exact = _without_rounding(func, args, kwargs, tensor)
            return tensor.copy_(torch.where(exact, tensor, self.off(tensor.clone())))

        return tree_map_only(torch.Tensor, off, result)

    def _stays(self, func: Op, args: Args, result: object) -> bool:
        """Whether a result consists of integers and was made by a step or from such a result."""
        if not isinstance(result, torch.Tensor) or not result.is_floating_point():
            return False
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        if self._given and name in _COPIES:
            return True
        stepped = name in _STEPS
        if not stepped and not any(one is known for one in args for known in self._whole):
            return False
        if not bool((result == result.round()).all()):
            return False
        self._whole.append(result)
        return True

    def _with_signs(self, func: Op, args: Args, tensor: torch.Tensor) -> torch.Tensor:
        """With zeros that are sums of numbers of either sign below zero in every second run."""
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        if name not in _SUMS or not self._seed % 2 or not tensor.is_floating_point():
            return tensor
        if not any(bool(one.signbit().any()) for one in args if isinstance(one, torch.Tensor)):
            return tensor
        return tensor.masked_fill_(tensor == 0.0, -0.0)

    def off(self, tensor: torch.Tensor) -> torch.Tensor:
        """Perturb the tensor in place and return it. Floats of 8 bits are codes, and stay."""
        if not tensor.is_floating_point() or tensor.element_size() == 1 or tensor._is_zerotensor():
            return tensor
        if self._ties:
            noise = _by_value(tensor, self._seed)
            noise = -noise.abs_() if self._inward else noise
            return tensor.copy_(tensor.double() * noise.mul_(self._eps(tensor)).add_(1.0))
        if tensor.device not in self._generators:
            self._generators[tensor.device] = torch.Generator(tensor.device).manual_seed(self._seed)
        generator, device = self._generators[tensor.device], tensor.device
        noise = torch.rand(tensor.shape, generator=generator, device=device, dtype=torch.float64)
        noise = noise.mul_(2.0).sub_(1.0)  # from -1 to 1
        noise.add_(noise.sign())
        noise = (-noise.abs_() if self._inward else noise).mul_(self._eps(tensor))
        return tensor.copy_(tensor.double() * noise.add_(1.0))

    def _eps(self, tensor: torch.Tensor) -> float:
        return self._share * torch.finfo(tensor.dtype).eps


def _is_differentiated(args: Args) -> bool:
    """Whether a backward pass will follow."""
    return torch.is_grad_enabled() and any(
        isinstance(one, torch.Tensor) and one.requires_grad for one in args
    )


def _without_rounding(func: Op, args: Args, kwargs: Kwargs, result: torch.Tensor) -> torch.Tensor:
    """Mask of elements for which fp64 gives the same number, by repeating the one operation in fp64."""
    if not result.is_floating_point() or func._schema.is_mutable:
        return torch.ones_like(result, dtype=torch.bool)
    rounded = torch.zeros_like(result, dtype=torch.bool)
    wide_args, wide_kwargs = convert(
        (args, kwargs), lambda one: one.double() if one.is_floating_point() else one
    )
    try:
        wide = wide_args[0] if "dtype" in wide_kwargs else func(*wide_args, **wide_kwargs)
    except (RuntimeError, TypeError, NotImplementedError):
        return rounded
    if not isinstance(wide, torch.Tensor) or wide.shape != result.shape:
        return rounded
    return result.double() == wide.double()


_WORD = (1 << 63) - 1


def _by_value(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """Noise in [-2, -1] and [1, 2], equal for equal values: a hash of their bits."""
    bits = tensor.double().view(torch.int64) ^ ((seed + 1) * 0x5851F42D4C957F2D & _WORD)
    for _ in range(2):
        bits = (bits ^ (bits >> 29)) * 0x369DEA0F31A53F85
    noise = (bits >> 11).double().mul_(2.0**-52)
    return noise.add_(noise.sign())


def largest_moves(
    module: torch.nn.Module, inputs: Any, exact: list[torch.Tensor], ties: bool = False, given: bool = False
) -> list[torch.Tensor]:
    """By output, the most that each element moves away from `exact` (fp64; integers as they are) in `RUNS` runs, a few with smaller
    roundings, and torch's own: infinity where a rounding makes it infinite or NaN, 0 where it is so without one.

    Copies of the inputs are off by a rounding as well, like sums of them in another order; not in half precision or 8 bits,
    which are summed in single; logarithms of decays as if they were differences of running sums. Integers and booleans move where a rounding decides a step or a comparison. With `ties`, neither inputs
    nor exact ties are off; with `given`, no inputs. Where the reference refuses what lies a rounding away (a probability above 1), inputs stay and
    results move towards 0 only; a run that it refuses even so is left out.
    """
    largest = [torch.zeros_like(right, dtype=torch.float64) for right in exact]
    decays = set() if ties or given else logs_of_decays(module, inputs)
    for run in range(RUNS + _FINE_RUNS + 1):
        share = 1.0 if run < RUNS else _FINE if run < RUNS + _FINE_RUNS else 0.0
        outputs = _moved(module, inputs, run, ties, given, decays=decays, share=share)
        if outputs is None:
            outputs = _moved(module, inputs, run, ties, given=True, inward=True, share=share)
        for index, (output, right) in enumerate(zip(outputs or exact, exact, strict=True)):
            output = output.detach()
            same = right.isnan() | (output.isinf() & (output == right.to(output.dtype)))
            strayed = (output.double() - right.double()).abs_().masked_fill_(same, 0.0)
            largest[index] = torch.maximum(largest[index], strayed.nan_to_num_(torch.inf, torch.inf))
    return largest


def _moved(
    module: torch.nn.Module,
    inputs: Any,
    run: int,
    ties: bool,
    given: bool,
    inward: bool = False,
    decays: Collection[int] = (),
    share: float = 1.0,
) -> list[torch.Tensor] | None:
    """Outputs of one run of `largest_moves`; None if the reference refuses it. `decays`: see `logs_of_decays`. `share` of the
    usual roundings: their size; with 0, the reference as it is."""
    rounding = Rounding(run, ties, _half_of(inputs), inward, given, share)
    places = itertools.count()

    def moved(one: torch.Tensor) -> torch.Tensor:
        place = next(places)
        exact = ties or given or one.itemsize < torch.float32.itemsize
        if exact or place not in decays:
            return one.clone() if exact else rounding.off(one.clone())
        sums = _running_sums(one)
        return one + (rounding.off(sums.clone()) - sums)

    near = convert(inputs, moved)
    device = next((tensor.device for tensor in flatten(near)), torch.device("cpu"))
    fresh = copied(module).to(device)
    with where_possible(), rounding if share else contextlib.nullcontext():
        return flatten(fresh(*near if share else convert(inputs, torch.clone)))
    return None


class _Exponentials(DispatchMode):
    """Notes the storages whose elements are exponentiated."""

    def __init__(self) -> None:
        super().__init__()
        self.of: set[int] = set()

    def __torch_dispatch__(self, func: Op, types: object, args: Args = (), kwargs: Kwargs = None) -> object:
        if func._schema.name == "aten::exp" and isinstance(args[0], torch.Tensor):
            self.of.add(args[0].untyped_storage()._cdata)
        return func(*args, **(kwargs or {}))


def logs_of_decays(module: torch.nn.Module, inputs: Any) -> set[int]:
    """Places of inputs that are negative throughout and that the reference exponentiates as they are: logarithms of decays, which
    kernels add up, since a product of decays is the exponential of a difference of running sums."""
    given = convert(inputs, torch.clone)
    negative = {
        place
        for place, one in enumerate(flatten(given))
        if one.is_floating_point() and one.numel() > 1 and bool((one <= 0).all()) and bool((one < 0).any())
    }
    noted = _Exponentials()
    if negative:
        with where_possible(), torch.no_grad(), noted:
            copied(module)(*given)
    return {
        place
        for place, one in enumerate(flatten(given))
        if place in negative and one.untyped_storage()._cdata in noted.of
    }


def _running_sums(tensor: torch.Tensor) -> torch.Tensor:
    """By element, the largest sum of magnitudes of up to `_SUMMED` elements that end there along one axis, at least its own."""
    size = tensor.abs().double()
    most = size
    for axis in range(tensor.ndim):
        total = size.cumsum(axis)
        if (beyond := tensor.shape[axis] - _SUMMED) > 0:
            earlier = total.narrow(axis, 0, beyond)
            total = torch.cat(
                [total.narrow(axis, 0, _SUMMED), total.narrow(axis, _SUMMED, beyond) - earlier], axis
            )
        most = torch.maximum(most, total)
    return most.to(tensor.dtype)


class _Kept(DispatchMode):
    """Sums in a softmax's backward pass what a forward pass kept in half precision; all else is as it is."""

    def __init__(self, kept: torch.dtype) -> None:
        super().__init__()
        self._kept = kept
        self.used = False

    def __torch_dispatch__(self, func: Op, types: object, args: Args = (), kwargs: Kwargs = None) -> object:
        kwargs = kwargs or {}
        if func._schema.name != "aten::_softmax_backward_data":
            return func(*args, **kwargs)
        self.used = True
        return _ELEMENTARY[func._schema.name](*args, **{**kwargs, "kept": self._kept})


def with_kept_in_half(module: torch.nn.Module, inputs: object) -> list[torch.Tensor] | None:
    """Outputs and gradients of an honest run that keeps in half precision what its backward pass needs of a softmax; None if
    nothing is kept or the inputs have no half-precision dtype."""
    kept = _half_of(inputs)
    if kept is None:
        return None
    with _Kept(kept) as mode:
        outputs = flatten(copied(module)(*convert(inputs, torch.clone)))
    return [output.detach() for output in outputs] if mode.used else None


def _half_of(inputs: object) -> torch.dtype | None:
    """The half-precision dtype of the inputs, if any."""
    return next((one.dtype for one in flatten(inputs) if one.dtype in _HALF), None)


class _Numbers(DispatchMode):
    """Records the Python numbers that operators are given, and replaces some."""

    def __init__(self, others: Mapping[float, float] = MappingProxyType({})) -> None:
        super().__init__()
        self._others = others
        self.seen: set[float] = set()

    def __torch_dispatch__(self, func: Op, types: object, args: Args = (), kwargs: Kwargs = None) -> object:
        def other(number: float) -> float:
            self.seen.add(number)
            return self._others.get(number, number)

        args, kwargs = tree_map_only(float, other, (args, kwargs or {}))
        return func(*args, **kwargs)


def numbers_in_single(run: Callable[[TorchDispatchMode], T]) -> T | None:
    """What `run` gives in a mode in which shares b and 1 - b (of a running mean) are as in a kernel that is given b in single
    precision: 1 - 0.999 then has a relative error of 1.3e-5. None if the reference has no such pair of Python numbers."""
    noted = _Numbers()
    run(noted)
    others: dict[float, float] = {}
    for share in (one for one in noted.seen if 0.5 < one < 1.0 and 1.0 - one in noted.seen):
        others[share] = float(torch.tensor(share, dtype=torch.float32))
        others[1.0 - share] = 1.0 - others[share]
    return run(_Numbers(others)) if others else None
