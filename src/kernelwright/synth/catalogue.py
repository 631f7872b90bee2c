"""Common operators and families of them, one per row of `catalogue.tsv`: name, arguments, expression (see `spelling.py`).

The nest of the graph determines its schedules (`library.schedules_of`), and letters its sizes (`extents.py`). Rows are common
functions of all kinds of programs: their single operators recur in any benchmark, and the card counts them. Nothing here was
copied from a benchmark's files.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path

from kernelwright.synth.spelling import Spelled


@dataclasses.dataclass(frozen=True)
class Row:
    """One entry: `Row("swiglu", "x:[R,W] y:[R,W]", "mul(silu(x), y)")`."""

    name: str
    arguments: str
    body: str

    def drawn(self, dtype: str, rng: random.Random) -> Spelled:
        """The row as a graph with random sizes."""
        return Spelled(self.name, self.arguments, self.body, dtype, rng)


_UNARY = """
    abs neg exp exp2 expm1 sin cos tanh sinh cosh erf erfc sigmoid silu gelu relu relu6 mish selu elu celu softplus softsign
    hardsigmoid hardswish hardtanh leaky_relu hardshrink softshrink log_sigmoid tanhshrink square floor ceil round trunc frac
    sign reciprocal? rsqrt? sqrt? log? log2? log10? log1p? asinh atan deg2rad rad2deg sinc signbit lgamma?
    special_entr? special_erfcx? erfinv% asin% acos%
    atanh% logit% special_ndtri% positive
"""
"""`?`: for numbers above 0; `%`: for numbers between 0 and 1."""
_BINARY = "add sub mul maximum minimum fmax fmin atan2 hypot copysign logaddexp logaddexp2 lt! le! gt! ge!"
_REDUCTIONS = "sum mean amax amin prod! std var logsumexp argmax argmin nansum"


def _singles() -> Iterator[Row]:
    for word in _UNARY.split():
        name, kind = word.rstrip("?%"), {"?": "pos", "%": "unit"}.get(word[-1], "")
        if name not in ("softsign", "tanhshrink"):
            body = f"main({name}(x))" if name == "signbit" else f"{name}(x)"
            yield Row(name, f"x:{kind}[R,W]", body)
    for word in _BINARY.split():
        name = word.rstrip("!")
        body = f"main({name}(x, y))" if word.endswith("!") else f"{name}(x, y)"
        yield Row(name, "x:[R,W] y:[R,W]", body)
        yield Row(f"{name}_row", "x:[R,W] y:[W]", body)
    for word in _REDUCTIONS.split():
        name = word.rstrip("!")
        given = "mul(x, 0.01)" if word.endswith("!") else "x"
        several = name in ("sum", "mean", "amax", "amin", "std", "var", "logsumexp", "nansum")
        dims = ("[1]", "[0]") if several else ("1", "0")
        for dim in dims:
            yield Row(f"{name}_{dim.strip('[]')}", "x:[R,W]", f"{name}({given}, {dim})")


def _write() -> Iterator[Row]:
    """The rows of `catalogue.tsv`."""
    for line in Path(__file__).with_suffix(".tsv").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            yield Row(*line.split("\t"))


ROWS = (*_singles(), *_write())
"""All rows."""
