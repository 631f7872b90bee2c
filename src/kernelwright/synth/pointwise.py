"""Elementwise ATen operators as Triton expressions: one row an operator, with torch's semantics.

Floats are calculated in float32 (float64 where the graph has it) and rounded where they are stored; integers and booleans
are exact. Operands arrive as names or literals, so a template may repeat them. Does not guarantee NaN payloads.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

Kind = Literal["float", "same", "compare", "logical"]


@dataclasses.dataclass(frozen=True)
class Rule:
    """`template` with `{0}`, `{1}` ... for operands.

    kind: `float` converts integers to float first, `same` calculates in the result's type, `compare` in the type to which
    the operands promote (the result is boolean), `logical` on truth values.
    """

    template: str
    kind: Kind = "same"
    integer: str = ""
    """The template for integers, where it differs."""
    operands: int = 1
    defaults: tuple[float | int | str | bool | None, ...] = ()
    """Of operands that a call may leave out, from the last backwards."""


def _floats(**templates: str) -> dict[str, Rule]:
    return {name: Rule(template, "float") for name, template in templates.items()}


_FLOOR_DIV = "tl.where(({0} % {1} != 0) & (({0} < 0) != ({1} < 0)), {0} // {1} - 1, {0} // {1})"
_MOD = "tl.where(({0} % {1} != 0) & (({0} < 0) != ({1} < 0)), {0} % {1} + {1}, {0} % {1})"

RULES: dict[str, Rule] = {
    **_floats(
        exp="tl.exp({0})", exp2="tl.exp2({0})", expm1="libdevice.expm1({0})", log="tl.log({0})",
        log2="tl.log2({0})", log10="tl.log({0}) * 0.4342944819032518", log1p="libdevice.log1p({0})",
        sqrt="tl.sqrt({0})", rsqrt="1.0 / tl.sqrt({0})", sin="tl.sin({0})", cos="tl.cos({0})",
        tan="libdevice.tan({0})", asin="libdevice.asin({0})", acos="libdevice.acos({0})",
        atan="libdevice.atan({0})", sinh="libdevice.sinh({0})", cosh="libdevice.cosh({0})",
        tanh="libdevice.tanh({0})", erf="tl.erf({0})", erfc="libdevice.erfc({0})",
        sigmoid="1.0 / (1.0 + tl.exp(-{0}))", silu="{0} / (1.0 + tl.exp(-{0}))",
        reciprocal="1.0 / {0}", mish="{0} * libdevice.tanh(tl.where({0} > 20.0, {0}, libdevice.log1p(tl.exp({0}))))",
        hardsigmoid="tl.minimum(tl.maximum({0} + 3.0, 0.0), 6.0) / 6.0",
        hardswish="{0} * tl.minimum(tl.maximum({0} + 3.0, 0.0), 6.0) / 6.0",
        log_sigmoid="tl.minimum({0}, 0.0) - libdevice.log1p(tl.exp(-tl.abs({0})))",
        asinh="libdevice.asinh({0})", acosh="libdevice.acosh({0})", atanh="libdevice.atanh({0})",
        deg2rad="{0} * 0.017453292519943295", rad2deg="{0} * 57.29577951308232",
        sinc="tl.where({0} == 0.0, 1.0, tl.sin({0} * 3.141592653589793) / ({0} * 3.141592653589793))",
        tanhshrink="{0} - libdevice.tanh({0})", softsign="{0} / (1.0 + tl.abs({0}))",
        erfinv="libdevice.erfinv({0})", special_erfcx="libdevice.erfcx({0})", lgamma="libdevice.lgamma({0})",
        special_ndtri="1.4142135623730951 * libdevice.erfinv(2.0 * {0} - 1.0)",
        special_entr='tl.where({0} < 0.0, float("-inf"), tl.where({0} == 0.0, 0.0, -{0} * tl.log({0})))',
    ),
    "gelu_erf": Rule("0.5 * {0} * (1.0 + tl.erf({0} * 0.7071067811865476))", "float"),
    "gelu_tanh": Rule(
        "0.5 * {0} * (1.0 + libdevice.tanh(0.7978845608028654 * ({0} + 0.044715 * {0} * {0} * {0})))", "float"
    ),
    "logit": Rule("tl.log({0} / (1.0 - {0}))", "float"),
    "xlogy": Rule("tl.where({0} == 0.0, 0.0, {0} * tl.log({1}))", "float", operands=2),
    "special_xlog1py": Rule("tl.where({0} == 0.0, 0.0, {0} * libdevice.log1p({1}))", "float", operands=2),
    "logaddexp": Rule(
        "tl.where({0} == {1}, {0} + 0.6931471805599453, tl.maximum({0}, {1}) + libdevice.log1p(tl.exp(-tl.abs({0} - {1}))))",
        "float", operands=2,
    ),
    "logaddexp2": Rule(
        "tl.where({0} == {1}, {0} + 1.0, tl.maximum({0}, {1}) + "
        "libdevice.log1p(tl.exp2(-tl.abs({0} - {1}))) * 1.4426950408889634)",
        "float", operands=2,
    ),
    "copysign": Rule(
        "tl.where(({1} < 0.0) | (1.0 / {1} < 0.0), -tl.abs({0}), tl.abs({0}))", "float", operands=2
    ),
    "ldexp": Rule("{0} * tl.exp2({1})", "float", operands=2),
    "heaviside": Rule("tl.where({0} < 0, 0, tl.where({0} > 0, 1, {1}))", operands=2),
    "relu": Rule("tl.where({0} < 0, 0, {0})", integer="tl.where({0} < 0, 0, {0})"),
    "relu6": Rule("tl.minimum(tl.where({0} < 0, 0, {0}), 6)"),
    "abs": Rule("tl.abs({0})"),
    "neg": Rule("-{0}"),
    "sign": Rule("tl.where({0} > 0, 1, tl.where({0} < 0, -1, 0))"),
    "square": Rule("{0} * {0}"),
    "floor": Rule("tl.floor({0})", integer="{0}"),
    "ceil": Rule("tl.ceil({0})", integer="{0}"),
    "trunc": Rule("tl.where({0} < 0, tl.ceil({0}), tl.floor({0}))", integer="{0}"),
    "round": Rule("libdevice.rint({0})", integer="{0}"),
    "frac": Rule("{0} - tl.where({0} < 0, tl.ceil({0}), tl.floor({0}))"),
    "positive": Rule("{0}"),
    "alias": Rule("{0}"),
    "add": Rule("{0} + {1}", operands=2),
    "sub": Rule("{0} - {1}", operands=2),
    "mul": Rule("{0} * {1}", operands=2),
    "div": Rule("{0} / {1}", "float", operands=2),
    "div_floor": Rule("tl.floor({0} / {1})", integer=_FLOOR_DIV, operands=2),
    "div_trunc": Rule(
        "tl.where({0} / {1} < 0, tl.ceil({0} / {1}), tl.floor({0} / {1}))", integer="{0} // {1}", operands=2
    ),
    "remainder": Rule("{0} - tl.floor({0} / {1}) * {1}", integer=_MOD, operands=2),
    "fmod": Rule("libdevice.fmod({0}, {1})", integer="{0} % {1}", operands=2),
    "pow": Rule("libdevice.pow({0}, {1})", "float", operands=2),
    "atan2": Rule("libdevice.atan2({0}, {1})", "float", operands=2),
    "hypot": Rule("libdevice.hypot({0}, {1})", "float", operands=2),
    "maximum": Rule("tl.where(({0} > {1}) | ({0} != {0}), {0}, {1})", integer="tl.maximum({0}, {1})", operands=2),
    "minimum": Rule("tl.where(({0} < {1}) | ({0} != {0}), {0}, {1})", integer="tl.minimum({0}, {1})", operands=2),
    "fmax": Rule("tl.maximum({0}, {1})", operands=2),
    "fmin": Rule("tl.minimum({0}, {1})", operands=2),
    "lerp": Rule("{0} + {2} * ({1} - {0})", "float", operands=3),
    "lerp_back": Rule("{1} - {2} * ({1} - {0})", "float", operands=3),
    "addcmul": Rule("{0} + {3} * {1} * {2}", operands=4, defaults=(1,)),
    "addcdiv": Rule("{0} + {3} * {1} / {2}", "float", operands=4, defaults=(1,)),
    "fma": Rule("{0} * {1} + {2}", operands=3),
    "threshold": Rule("tl.where({0} > {1}, {0}, {2})", operands=3),
    "leaky_relu": Rule("tl.where({0} > 0, {0}, {0} * {1})", operands=2, defaults=(0.01,)),
    "elu": Rule(
        "tl.where({0} > 0, {0} * {2}, {1} * {2} * libdevice.expm1({0} * {3}))", "float", operands=4,
        defaults=(1.0, 1.0, 1.0),
    ),
    "celu": Rule("tl.where({0} > 0, {0}, {1} * libdevice.expm1({0} / {1}))", "float", operands=2, defaults=(1.0,)),
    "selu": Rule(
        "1.0507009873554805 * tl.where({0} > 0, {0}, 1.6732632423543772 * libdevice.expm1({0}))", "float"
    ),
    "softplus": Rule(
        "tl.where({0} * {1} > {2}, {0}, libdevice.log1p(tl.exp(tl.minimum({0} * {1}, {2}))) / {1})", "float",
        operands=3, defaults=(1.0, 20.0),
    ),
    "hardtanh": Rule("tl.minimum(tl.maximum({0}, {1}), {2})", operands=3, defaults=(-1.0, 1.0)),
    "hardshrink": Rule("tl.where(tl.abs({0}) > {1}, {0}, 0)", operands=2, defaults=(0.5,)),
    "softshrink": Rule(
        "tl.where({0} > {1}, {0} - {1}, tl.where({0} < -{1}, {0} + {1}, 0.0))", "float", operands=2, defaults=(0.5,)
    ),
    "prelu": Rule("tl.where({0} > 0, {0}, {1} * {0})", operands=2),
    "_prelu_kernel": Rule("tl.where({0} > 0, {0}, {1} * {0})", operands=2),
    "where": Rule("tl.where({0}, {1}, {2})", operands=3),
    "eq": Rule("{0} == {1}", "compare", operands=2),
    "ne": Rule("{0} != {1}", "compare", operands=2),
    "lt": Rule("{0} < {1}", "compare", operands=2),
    "le": Rule("{0} <= {1}", "compare", operands=2),
    "gt": Rule("{0} > {1}", "compare", operands=2),
    "ge": Rule("{0} >= {1}", "compare", operands=2),
    "isnan": Rule("{0} != {0}", "compare"),
    "isinf": Rule('tl.abs({0}) == float("inf")', "compare"),
    "isfinite": Rule('tl.abs({0}) < float("inf")', "compare"),
    "isposinf": Rule('{0} == float("inf")', "compare"),
    "isneginf": Rule('{0} == float("-inf")', "compare"),
    "signbit": Rule("{0} < 0", "compare"),
    "logical_and": Rule("{0} & {1}", "logical", operands=2),
    "logical_or": Rule("{0} | {1}", "logical", operands=2),
    "logical_xor": Rule("{0} ^ {1}", "logical", operands=2),
    "logical_not": Rule("{0} == 0", "logical"),
    "bitwise_and": Rule("{0} & {1}", operands=2),
    "bitwise_or": Rule("{0} | {1}", operands=2),
    "bitwise_xor": Rule("{0} ^ {1}", operands=2),
    "bitwise_not": Rule("~{0}"),
    "bitwise_left_shift": Rule("{0} << {1}", operands=2),
    "bitwise_right_shift": Rule("{0} >> {1}", operands=2),
    # Gradients: of the result first, then of what the forward had.
    "sigmoid_backward": Rule("{0} * (1.0 - {1}) * {1}", "float", operands=2),
    "tanh_backward": Rule("{0} * (1.0 - {1} * {1})", "float", operands=2),
    "silu_backward": Rule(
        "{0} * (1.0 / (1.0 + tl.exp(-{1}))) * (1.0 + {1} * (1.0 - 1.0 / (1.0 + tl.exp(-{1}))))", "float", operands=2
    ),
    "gelu_erf_backward": Rule(
        "{0} * (0.5 * (1.0 + tl.erf({1} * 0.7071067811865476)) + {1} * tl.exp(-0.5 * {1} * {1}) * 0.3989422804014327)",
        "float", operands=2,
    ),
    "threshold_backward": Rule("tl.where({1} <= {2}, 0, {0})", operands=3),
    "hardtanh_backward": Rule("tl.where(({1} <= {2}) | ({1} >= {3}), 0, {0})", operands=4),
    "hardsigmoid_backward": Rule("tl.where(({1} > -3.0) & ({1} < 3.0), {0} / 6.0, 0.0)", "float", operands=2),
    "hardswish_backward": Rule(
        "tl.where({1} <= -3.0, 0.0, tl.where({1} < 3.0, {0} * ({1} / 3.0 + 0.5), {0}))", "float", operands=2
    ),
    "leaky_relu_backward": Rule("tl.where({1} > 0, {0}, {0} * {2})", operands=3),
    "softplus_backward": Rule(
        "tl.where({1} * {2} > {3}, {0}, {0} / (1.0 + tl.exp(-{1} * {2})))", "float", operands=4
    ),
    "log_sigmoid_backward": Rule("{0} / (1.0 + tl.exp({1}))", "float", operands=2),
    "mish_backward": Rule(
        "{0} * (libdevice.tanh(libdevice.log1p(tl.exp({1}))) + {1} * (1.0 / (1.0 + tl.exp(-{1}))) * (1.0 - "
        "libdevice.tanh(libdevice.log1p(tl.exp({1}))) * libdevice.tanh(libdevice.log1p(tl.exp({1})))))",
        "float", operands=2,
    ),
    "softshrink_backward": Rule("tl.where(tl.abs({1}) <= {2}, 0, {0})", operands=3),
    "hardshrink_backward": Rule("tl.where(tl.abs({1}) <= {2}, 0, {0})", operands=3),
    "elu_backward": Rule(
        "tl.where({4} <= 0, {0} * {1} * {2} * {3} * tl.exp({4} * {3}), {0} * {2})", "float", operands=5
    ),
}  # fmt: skip
