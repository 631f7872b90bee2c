"""What formulas are made of: operators that the lowered reference has one line for, with that line's arithmetic in Triton."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernelwright.data.operators import POINTWISE


@dataclass(frozen=True)
class Term:
    """An operator that the lowered reference has one line for. Templates name operands `{a}`, `{b}`, `{c}`; `{n}` and `{m}`
    are numbers."""

    name: str
    spellings: tuple[str, ...]
    triton: str
    helpers: tuple[str, ...] = ()
    positive: str = ""
    """Operands that have to be above zero."""
    takes: str = ""
    """Kinds of the operands, a letter each; empty: numbers of the formula's kind."""
    bool: bool = False
    """Whether it gives truth values."""


def _known(*names: str, positive: str = "") -> tuple[Term, ...]:
    """Operators of the one vocabulary, in the spellings that are one operator of ATen."""
    found = []
    for name in names:
        known = POINTWISE[name]
        letters = {"x": "{a}", "y": "{b}", "c": "{n}", "d": "{m}"}
        single = [
            text.format(**letters)
            for text in known.spellings
            if len(re.findall(r"\w\(", text)) + len(re.findall(r"(?<= )(?:[-+*/]|\*\*)(?= )|^-", text)) == 1
        ]
        found.append(Term(name, tuple(single), known.triton.format(**letters), known.helpers, positive))
    return tuple(found)


FLOATS = (
    *_known("relu", "sigmoid", "tanh", "exp", "abs", "neg", "square", "sin", "cos", "erf", "silu", "gelu"),
    *_known("softplus", "elu", "selu", "relu6", "hardtanh", "hardsigmoid", "hardswish", "logsigmoid", "mish"),
    *_known("leaky_relu", "scale", "offset", "minus", "over", "from", "clamp", "floor_at", "cap_at"),
    *_known("add", "sub", "mul", "maximum", "minimum", "lerp"),
    *_known("sqrt", "log", "log1p", "rsqrt", positive="a"),
    Term("div", ("{a} / {b}", "torch.div({a}, {b})", "{a}.div({b})"), "{a} / {b}", positive="b"),
    Term("inverse", ("torch.reciprocal({a})", "{a}.reciprocal()"), "1.0 / {a}", positive="a"),
    Term("cube", ("{a} ** 3", "torch.pow({a}, 3)", "{a}.pow(3)"), "{a} * {a} * {a}"),
    Term("exp2", ("torch.exp2({a})",), "tl.exp2({a})"),
    Term("log2", ("torch.log2({a})",), "tl.log2({a})", positive="a"),
    Term("expm1", ("torch.expm1({a})", "{a}.expm1()"), "expm1({a})", ("expm1",)),
    Term("add_times", ("torch.add({a}, {b}, alpha={n})",), "{a} + {n} * {b}"),
    Term("sub_times", ("torch.sub({a}, {b}, alpha={n})",), "{a} - {n} * {b}"),
    Term("addcmul", ("torch.addcmul({a}, {b}, {c})",), "{a} + {b} * {c}"),
)
"""What a formula of floats is made of."""
ROUNDED = (
    Term("floor", ("torch.floor({a})", "{a}.floor()"), "tl.floor({a})"),
    Term("ceil", ("torch.ceil({a})", "{a}.ceil()"), "tl.ceil({a})"),
    Term("trunc", ("torch.trunc({a})", "{a}.trunc()"), "tl.where({a} < 0.0, tl.ceil({a}), tl.floor({a}))"),
    Term(
        "sign", ("torch.sign({a})", "{a}.sign()"), "tl.where({a} > 0.0, 1.0, tl.where({a} < 0.0, -1.0, 0.0))"
    ),
)
"""What jumps, and so is asked of inputs only: an earlier rounding would move an element over the edge."""
COMPARED = tuple(
    Term(name, (f"{{a}} {sign} {{b}}", f"torch.{name}({{a}}, {{b}})"), f"{{a}} {sign} {{b}}", bool=True)
    for name, sign in {"gt": ">", "lt": "<", "ge": ">=", "le": "<="}.items()
)
CHOSEN = (
    Term("where", ("torch.where({a}, {b}, {c})",), "tl.where({a}, {b}, {c})", takes="bxx"),
    Term("fill", ("{b}.masked_fill({a}, {n})",), "tl.where({a}, {n}, {b})", takes="bx"),
)
WHOLE = (
    *_known("add", "sub", "mul", "maximum", "minimum", "abs", "neg", "scale", "offset", "minus"),
    *(
        Term(
            f"bitwise_{name}",
            (f"{{a}} {sign} {{b}}", f"torch.bitwise_{name}({{a}}, {{b}})"),
            f"{{a}} {sign} {{b}}",
        )
        for name, sign in {"and": "&", "or": "|", "xor": "^"}.items()
    ),
)
"""What a formula of integers is made of."""
ABOVE_ZERO = frozenset({"exp", "exp2", "sigmoid", "softplus"})
NOT_BELOW = frozenset({"abs", "square", "relu"})
"""Terms whose values are above zero, and those that are once a positive number is added."""
