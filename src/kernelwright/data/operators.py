"""The operator vocabulary: each family once, with its PyTorch spellings and its Triton arithmetic.

Two kinds. A `Pointwise` operator maps elements to elements; its templates name the main value `{x}`, a second
operand `{y}` and constants `{c}`, `{d}`. A `RowOperator` works along the last dimension: a few statistics, each
a sum, maximum or minimum over the row, then either a final expression per element (a norm, softmax) or the last
statistic itself (a reduction). Templates for row operators may use `n`, the row length.

The first spelling of an operator is also its definition: the sampler evaluates it. Where a plain formula loses
digits near zero (exp(x) - 1, log(1 + x), tanh), the Triton template calls a helper of
`policy.compiler.helpers.HELPERS`, which the kernel's module then carries. Does not guarantee that a composition is well conditioned or not degenerate; `probe` decides
that with numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal


@dataclass(frozen=True)
class Pointwise:
    """An element-to-element operator.

    `spellings` are expressions over `{x}` (and `{y}`, `{c}`, `{d}`) in PyTorch; `triton` is one expression.
    """

    name: str
    spellings: tuple[str, ...]
    triton: str
    module: str = ""
    """Spelling as an `nn` module, where there is one."""
    helpers: tuple[str, ...] = ()
    """Names in `helpers.HELPERS` that `triton` calls."""
    constants: tuple[tuple[float, ...], ...] = ()
    """For each of `{c}`, `{d}`: the values the sampler draws from."""
    binary: bool = False


@dataclass(frozen=True)
class Statistic:
    """One number per row: `how` over the row of `term`, then `post` with `{s}` standing for the reduced value."""

    name: str
    how: Literal["sum", "max", "min"]
    term: str
    post: str = "{s}"


@dataclass(frozen=True)
class RowOperator:
    """An operator along the last dimension. `final` is None for a reduction, whose value is the last statistic."""

    name: str
    spellings: tuple[str, ...]
    statistics: tuple[Statistic, ...]
    final: str | None
    module: str = ""

    @property
    def reduces(self) -> bool:
        return self.final is None


SCALES = (0.1, 0.25, 0.5, 1.5, 2.0, 3.0, 2, 4)
OFFSETS = (0.1, 0.5, 1.0, 2.0, 1, 3)
LOW = (-1.0, -0.5, 0.0, -1, 0)
HIGH = (0.5, 1.0, 2.0, 1, 6)
SLOPES = (0.01, 0.1, 0.2)

_POINTWISE = (
    Pointwise("relu", ("torch.relu({x})", "F.relu({x})", "{x}.relu()"), "tl.maximum({x}, 0.0)", "nn.ReLU()"),
    Pointwise(
        "sigmoid",
        ("torch.sigmoid({x})", "F.sigmoid({x})", "{x}.sigmoid()"),
        "tl.sigmoid({x})",
        "nn.Sigmoid()",
    ),
    Pointwise(
        "tanh",
        ("torch.tanh({x})", "F.tanh({x})", "{x}.tanh()"),
        "tanh({x})",
        "nn.Tanh()",
        ("tanh",),
    ),
    Pointwise(
        "silu",
        ("F.silu({x})", "{x} * torch.sigmoid({x})", "torch.sigmoid({x}) * {x}"),
        "{x} * tl.sigmoid({x})",
        "nn.SiLU()",
    ),
    Pointwise("gelu", ("F.gelu({x})",), "0.5 * {x} * (1.0 + tl.erf({x} * 0.70710678))", "nn.GELU()"),
    Pointwise(
        "gelu_tanh",
        (
            'F.gelu({x}, approximate="tanh")',
            "0.5 * {x} * (1.0 + torch.tanh(0.7978845608 * ({x} + 0.044715 * torch.pow({x}, 3.0))))",
        ),
        "{x} * tl.sigmoid(1.5957691 * ({x} + 0.044715 * {x} * {x} * {x}))",
        'nn.GELU(approximate="tanh")',
    ),
    Pointwise("exp", ("torch.exp({x})", "{x}.exp()"), "tl.exp({x})"),
    Pointwise("abs", ("torch.abs({x})", "{x}.abs()"), "tl.abs({x})"),
    Pointwise("neg", ("-{x}", "torch.neg({x})", "{x}.neg()"), "-{x}"),
    Pointwise("square", ("torch.square({x})", "{x} * {x}", "{x} ** 2", "{x}.pow(2)"), "{x} * {x}"),
    Pointwise("sqrt", ("torch.sqrt({x})", "{x}.sqrt()"), "tl.sqrt({x})"),
    Pointwise("log", ("torch.log({x})", "{x}.log()"), "tl.log({x})"),
    Pointwise("log1p", ("torch.log1p({x})", "{x}.log1p()"), "log1p({x})", helpers=("log1p",)),
    Pointwise("rsqrt", ("torch.rsqrt({x})", "{x}.rsqrt()"), "tl.rsqrt({x})"),
    Pointwise("sin", ("torch.sin({x})", "{x}.sin()"), "tl.sin({x})"),
    Pointwise("cos", ("torch.cos({x})", "{x}.cos()"), "tl.cos({x})"),
    Pointwise("erf", ("torch.erf({x})", "{x}.erf()"), "tl.erf({x})"),
    Pointwise(
        "softplus",
        ("F.softplus({x})",),
        "tl.maximum({x}, 0.0) + log1p(tl.exp(-tl.abs({x})))",
        "nn.Softplus()",
        ("log1p",),
    ),
    Pointwise(
        "logsigmoid",
        ("F.logsigmoid({x})",),
        "tl.minimum({x}, 0.0) - log1p(tl.exp(-tl.abs({x})))",
        "nn.LogSigmoid()",
        ("log1p",),
    ),
    Pointwise(
        "elu",
        ("F.elu({x})",),
        "tl.where({x} > 0.0, {x}, expm1({x}))",
        "nn.ELU()",
        ("expm1",),
    ),
    Pointwise(
        "selu",
        ("F.selu({x})", "torch.selu({x})"),
        "1.0507010 * tl.where({x} > 0.0, {x}, 1.6732632 * expm1({x}))",
        "nn.SELU()",
        ("expm1",),
    ),
    Pointwise(
        "relu6",
        ("F.relu6({x})",),
        "tl.minimum(tl.maximum({x}, 0.0), 6.0)",
        "nn.ReLU6()",
    ),
    Pointwise(
        "hardtanh",
        ("F.hardtanh({x})",),
        "tl.minimum(tl.maximum({x}, -1.0), 1.0)",
        "nn.Hardtanh()",
    ),
    Pointwise(
        "hardsigmoid",
        ("F.hardsigmoid({x})",),
        "tl.minimum(tl.maximum({x} / 6.0 + 0.5, 0.0), 1.0)",
        "nn.Hardsigmoid()",
    ),
    Pointwise(
        "hardswish",
        ("F.hardswish({x})", "{x} * torch.clamp(({x} + 3) / 6, 0, 1)"),
        "{x} * tl.minimum(tl.maximum({x} + 3.0, 0.0), 6.0) / 6.0",
        "nn.Hardswish()",
    ),
    Pointwise("softsign", ("F.softsign({x})",), "{x} / (1.0 + tl.abs({x}))", "nn.Softsign()"),
    Pointwise(
        "mish",
        ("F.mish({x})", "{x} * torch.tanh(F.softplus({x}))"),
        "{x} / (1.0 + 2.0 / (tl.exp({x}) * (tl.exp({x}) + 2.0)))",  # 1 - 2 / (...) cancels below zero
        "nn.Mish()",
    ),
    Pointwise(
        "leaky_relu",
        ("F.leaky_relu({x}, {c})",),
        "tl.where({x} > 0.0, {x}, {x} * {c})",
        "nn.LeakyReLU({c})",
        constants=(SLOPES,),
    ),
    Pointwise(
        "scale", ("{x} * {c}", "torch.mul({x}, {c})", "{x}.mul({c})"), "{x} * {c}", constants=(SCALES,)
    ),
    Pointwise(
        "offset", ("{x} + {c}", "torch.add({x}, {c})", "{x}.add({c})"), "{x} + {c}", constants=(OFFSETS,)
    ),
    Pointwise(
        "minus", ("{x} - {c}", "torch.sub({x}, {c})", "{x}.sub({c})"), "{x} - {c}", constants=(OFFSETS,)
    ),
    Pointwise("over", ("{x} / {c}", "torch.div({x}, {c})", "{x}.div({c})"), "{x} / {c}", constants=(SCALES,)),
    Pointwise("from", ("{c} - {x}", "torch.sub({c}, {x})"), "{c} - {x}", constants=(OFFSETS,)),
    Pointwise(
        "clamp",
        ("torch.clamp({x}, {c}, {d})", "{x}.clamp({c}, {d})", "torch.clamp({x}, min={c}, max={d})"),
        "tl.minimum(tl.maximum({x}, {c}), {d})",
        "nn.Hardtanh({c}, {d})",
        constants=(LOW, HIGH),
    ),
    Pointwise(
        "floor_at",
        ("torch.clamp({x}, min={c})", "{x}.clamp(min={c})", "{x}.clamp_min({c})"),
        "tl.maximum({x}, {c})",
        constants=(LOW,),
    ),
    Pointwise(
        "cap_at",
        (
            "torch.clamp({x}, max={c})",
            "{x}.clamp(max={c})",
            "{x}.clamp_max({c})",
            "torch.min({x}, torch.tensor({c}, device={x}.device))",
        ),
        "tl.minimum({x}, {c})",
        constants=(HIGH,),
    ),
    Pointwise("double", ("{x} + {x}",), "{x} + {x}"),
    Pointwise(
        "mish_gate",
        ("{x} * F.mish({x})",),
        "{x} * {x} / (1.0 + 2.0 / (tl.exp({x}) * (tl.exp({x}) + 2.0)))",
    ),
    Pointwise(
        "hardswish_gate",
        ("{x} * F.hardswish({x})",),
        "{x} * {x} * tl.minimum(tl.maximum({x} + 3.0, 0.0), 6.0) / 6.0",
    ),
    Pointwise(
        "add", ("{x} + {y}", "torch.add({x}, {y})", "{x}.add({y})", "{y} + {x}"), "{x} + {y}", binary=True
    ),
    Pointwise("sub", ("{x} - {y}", "torch.sub({x}, {y})", "{x}.sub({y})"), "{x} - {y}", binary=True),
    Pointwise(
        "mul", ("{x} * {y}", "torch.mul({x}, {y})", "{x}.mul({y})", "{y} * {x}"), "{x} * {y}", binary=True
    ),
    Pointwise(
        "maximum",
        ("torch.maximum({x}, {y})", "{x}.maximum({y})", "torch.max({x}, {y})"),
        "tl.maximum({x}, {y})",
        binary=True,
    ),
    Pointwise(
        "minimum",
        ("torch.minimum({x}, {y})", "{x}.minimum({y})", "torch.min({x}, {y})"),
        "tl.minimum({x}, {y})",
        binary=True,
    ),
    Pointwise("gate", ("{x} * torch.sigmoid({y})",), "{x} * tl.sigmoid({y})", binary=True),
    Pointwise("swiglu", ("{x} * F.silu({y})",), "{x} * {y} * tl.sigmoid({y})", binary=True),
    Pointwise(
        "lerp",
        ("torch.lerp({x}, {y}, {c})",),
        "{x} + {c} * ({y} - {x})",
        constants=((0.1, 0.25, 0.5),),
        binary=True,
    ),
)

_MAX = Statistic("m", "max", "{x}")
_MEAN = Statistic("m", "sum", "{x}", "{s} / n")
_SPREAD = "({x} - m) * ({x} - m)"
_EXP = "tl.exp({x} - m)"

_ROWS = (
    RowOperator(
        "softmax",
        ("torch.softmax({x}, dim=-1)", "F.softmax({x}, dim=-1)", "{x}.softmax(dim=-1)"),
        (_MAX, Statistic("s", "sum", _EXP)),
        _EXP + " / s",
        "nn.Softmax(dim=-1)",
    ),
    RowOperator(
        "log_softmax",
        ("torch.log_softmax({x}, dim=-1)", "F.log_softmax({x}, dim=-1)", "{x}.log_softmax(dim=-1)"),
        (_MAX, Statistic("s", "sum", _EXP, "tl.log({s})")),
        "{x} - m - s",
        "nn.LogSoftmax(dim=-1)",
    ),
    RowOperator(
        "softmin",
        ("F.softmin({x}, dim=-1)", "torch.softmax(-{x}, dim=-1)"),
        (Statistic("m", "min", "{x}"), Statistic("s", "sum", "tl.exp(m - {x})")),
        "tl.exp(m - {x}) / s",
        "nn.Softmin(dim=-1)",
    ),
    RowOperator(
        "layernorm",
        ("F.layer_norm({x}, {x}.shape[-1:])",),
        (_MEAN, Statistic("v", "sum", _SPREAD, "tl.rsqrt({s} / n + 1e-5)")),
        "({x} - m) * v",
    ),
    RowOperator(
        "rmsnorm",
        ("F.rms_norm({x}, {x}.shape[-1:], eps=1e-6)",),
        (Statistic("s", "sum", "{x} * {x}", "tl.rsqrt({s} / n + 1e-6)"),),
        "{x} * s",
    ),
    RowOperator(
        "l2norm",
        ("F.normalize({x}, dim=-1)",),
        (Statistic("s", "sum", "{x} * {x}", "tl.maximum(tl.sqrt({s}), 1e-12)"),),
        "{x} / s",
    ),
    RowOperator(
        "l1norm",
        ("F.normalize({x}, p=1, dim=-1)",),
        (Statistic("s", "sum", "tl.abs({x})", "tl.maximum({s}, 1e-12)"),),
        "{x} / s",
    ),
    RowOperator("center", ("{x} - {x}.mean(dim=-1, keepdim=True)",), (_MEAN,), "{x} - m"),
    RowOperator("from_max", ("{x} - {x}.amax(dim=-1, keepdim=True)",), (_MAX,), "{x} - m"),
    RowOperator(
        "sum",
        ("torch.sum({x}, dim=-1)", "{x}.sum(dim=-1)", "{x}.sum(-1)"),
        (Statistic("s", "sum", "{x}"),),
        None,
    ),
    RowOperator("mean", ("torch.mean({x}, dim=-1)", "{x}.mean(dim=-1)", "{x}.mean(-1)"), (_MEAN,), None),
    RowOperator(
        "max", ("torch.amax({x}, dim=-1)", "{x}.amax(dim=-1)", "{x}.max(dim=-1).values"), (_MAX,), None
    ),
    RowOperator(
        "min",
        ("torch.amin({x}, dim=-1)", "{x}.amin(dim=-1)", "{x}.min(dim=-1).values"),
        (Statistic("m", "min", "{x}"),),
        None,
    ),
    RowOperator(
        "logsumexp",
        ("torch.logsumexp({x}, dim=-1)", "{x}.logsumexp(dim=-1)"),
        (_MAX, Statistic("s", "sum", _EXP, "tl.log({s}) + m")),
        None,
    ),
    RowOperator(
        "norm",
        ("torch.linalg.vector_norm({x}, dim=-1)", "{x}.norm(dim=-1)", "torch.norm({x}, dim=-1)"),
        (Statistic("s", "sum", "{x} * {x}", "tl.sqrt({s})"),),
        None,
    ),
    RowOperator(
        "var",
        ("torch.var({x}, dim=-1)", "{x}.var(dim=-1)"),
        (_MEAN, Statistic("v", "sum", _SPREAD, "{s} / (n - 1)")),
        None,
    ),
    RowOperator(
        "std",
        ("torch.std({x}, dim=-1)", "{x}.std(dim=-1)"),
        (_MEAN, Statistic("v", "sum", _SPREAD, "tl.sqrt({s} / (n - 1))")),
        None,
    ),
)

POINTWISE: Mapping[str, Pointwise] = MappingProxyType({op.name: op for op in _POINTWISE})
ROWS: Mapping[str, RowOperator] = MappingProxyType({op.name: op for op in _ROWS})
