"""What Inductor's helper functions are in plain Triton, on syntax trees.

`plain` replaces calls of `triton_helpers`, `libdevice` and `tl_math` by `tl` operations, by formulas, or by calls of
a helper whose source then travels in the module (`SOURCES`). Other functions of libdevice stay; a helper that has no form raises
CannotCompile. NaN is not
propagated where Inductor's maximum and minimum would.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from types import MappingProxyType

from kernelwright.policy.compiler.reasons import CannotCompile

HELPERS: Mapping[str, str] = MappingProxyType(
    {
        "expm1": """
def expm1(x):
    series = x * (1.0 + x / 2 * (1.0 + x / 3 * (1.0 + x / 4 * (1.0 + x / 5 * (1.0 + x / 6)))))
    return tl.where(tl.abs(x) < 0.25, series, tl.exp(x) - 1.0)
""".strip(),
        # Kahan: log(1 + x) rescaled by what rounding 1 + x did to x.
        "log1p": """
def log1p(x):
    u = 1.0 + x
    d = u - 1.0
    return tl.where(d == 0.0, x, tl.log(u) * (x / tl.where(d == 0.0, 1.0, d)))
""".strip(),
        # The Taylor series to x^9 near zero, where 2 sigmoid(2x) - 1 cancels.
        "tanh": """
def tanh(x):
    s = x * x
    series = x * (1.0 - s * (1 / 3 - s * (2 / 15 - s * (17 / 315 - s * 62 / 2835))))
    return tl.where(s < 0.09, series, 2.0 * tl.sigmoid(2.0 * x) - 1.0)
""".strip(),
    }
)
"""Functions whose plain formula loses digits near zero; kernels carry those that they call."""

SOURCES: Mapping[str, str] = MappingProxyType(
    {
        **HELPERS,
        "multiply": "def multiply(a, b):\n    return a * b",
        "greatest": "def greatest(a, b):\n    return tl.maximum(a, b)",
        "least": "def least(a, b):\n    return tl.minimum(a, b)",
        "floor_div": (
            "def floor_div(a, b):\n"
            "    quotient = a // b\n"
            "    return tl.where((a % b != 0) & ((a < 0) != (b < 0)), quotient - 1, quotient)"
        ),
        "floor_mod": (
            "def floor_mod(a, b):\n"
            "    rest = a % b\n"
            "    return tl.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)"
        ),
        "later_max": (
            "def later_max(a, i, b, j):\n"
            "    keep = (a > b) | ((a == b) & (i < j))\n"
            "    return tl.where(keep, a, b), tl.where(keep, i, j)"
        ),
        "later_min": (
            "def later_min(a, i, b, j):\n"
            "    keep = (a < b) | ((a == b) & (i < j))\n"
            "    return tl.where(keep, a, b), tl.where(keep, i, j)"
        ),
        "nearest_even": (
            "def nearest_even(x):\n"
            "    low = tl.floor(x)\n"
            "    rest = x - low\n"
            "    up = (rest > 0.5) | ((rest == 0.5) & (tl.floor(low * 0.5) * 2.0 != low))\n"
            "    return tl.where(up, low + 1.0, low)"
        ),
        "nearest_whole": (
            "def nearest_whole(x):\n"
            "    low = tl.floor(x)\n"
            "    rest = x - low\n"
            "    up = (rest > 0.5) | ((rest == 0.5) & (tl.floor(low * 0.5) * 2.0 != low))\n"
            "    return tl.where(up, low + 1.0, low).to(tl.int64)"
        ),
        "half_away": (
            "def half_away(x):\n    size = tl.floor(tl.abs(x) + 0.5)\n    return tl.where(x < 0, -size, size)"
        ),
        # A first value finds a weight of 0, so that it needs no case of its own.
        "running_moments": (
            "def running_moments(value, mean, m2, weight, first):\n"
            "    count = weight + 1\n"
            "    delta = value - mean\n"
            "    middle = mean + delta / count\n"
            "    return middle, m2 + delta * (value - middle), count"
        ),
        "joined_moments": (
            "def joined_moments(mean, m2, weight, axis: tl.constexpr):\n"
            "    total = tl.sum(weight, axis)\n"
            "    middle = tl.sum(mean * weight, axis) / tl.where(total == 0, 1, total)\n"
            "    apart = mean - tl.expand_dims(middle, axis)\n"
            "    return middle, tl.sum(m2 + apart * apart * weight, axis), total"
        ),
        # Binary search among `count` sorted edges, `stride` apart from the place `first` on.
        "bucket_of": (
            "def bucket_of(values, edges_ptr, count, stride, first, right: tl.constexpr):\n"
            "    low = tl.zeros(values.shape, tl.int64)\n"
            "    high = low + count\n"
            "    left = count + 1\n"
            "    while left > 1:\n"
            "        middle = (low + high) // 2\n"
            "        inside = middle < count\n"
            "        edges = tl.load(edges_ptr + (first + stride * middle), mask=inside, other=0)\n"
            "        if right:\n"
            "            above = (values >= edges) | (values != values)\n"
            "        else:\n"
            "            above = (values > edges) | (values != values)\n"
            "        low = tl.where(above & inside, middle + 1, low)\n"
            "        high = tl.where(above, high, middle)\n"
            "        left = (left + 1) // 2\n"
            "    return low"
        ),
        "power": (
            "def power(x, y):\n"
            "    size = tl.exp2(y * tl.log2(tl.abs(x)))\n"
            "    odd = (tl.floor(y * 0.5) * 2.0 != y) & (tl.floor(y) == y)\n"
            "    return tl.where(y == 0.0, 1.0, tl.where((x < 0.0) & odd, -size, size))"
        ),
    }
)
"""Functions under `@triton.jit` by name."""

_SAME = {
    "exp": "exp",
    "exp2": "exp2",
    "log": "log",
    "log2": "log2",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "sin": "sin",
    "cos": "cos",
    "erf": "erf",
    "floor": "floor",
    "ceil": "ceil",
    "abs": "abs",
    "fabs": "abs",
    "fma": "fma",
}
"""Functions of libdevice and `tl_math` that `tl` has."""
_OWN = {
    "tanh": "tanh",
    "log1p": "log1p",
    "expm1": "expm1",
    "pow": "power",
    "nearbyint": "nearest_even",
    "rint": "nearest_even",
    "llrint": "nearest_whole",
    "round": "half_away",
}
_REDUCTIONS = {"max2": "max", "min2": "min"}
_COMBINES = {
    "maximum_with_index": "later_max",
    "minimum_with_index": "later_min",
    "div_floor_integer": "floor_div",
    "remainder_integer": "floor_mod",
    "welford_reduce": "running_moments",
    "welford": "joined_moments",
}
_ELEMENTWISE = {"maximum": "maximum", "minimum": "minimum"}


LIBDEVICE = "libdevice"


class Plain(ast.NodeTransformer):
    """The replacement; `used` gathers names of `SOURCES`, in order of use, and LIBDEVICE where something of it stays."""

    def __init__(self) -> None:
        self.used: dict[str, None] = {}

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not isinstance(node.func, ast.Attribute) or not isinstance(node.func.value, ast.Name):
            self.generic_visit(node)
            return node
        node.args = [self.visit(argument) for argument in node.args]
        for word in node.keywords:
            word.value = self.visit(word.value)
        module, name = node.func.value.id, node.func.attr
        if module in ("libdevice", "tl_math"):
            return self._math(node, name)
        if module == "triton_helpers":
            return self._helper(node, name)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """A helper that is handed on, as the combining function of a scan."""
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "triton_helpers":
            own = {"maximum": "greatest", "minimum": "least"}.get(node.attr)
            if own:
                return self._own(own)
        return node

    def _own(self, name: str) -> ast.Name:
        self.used[name] = None
        return ast.Name(name, ast.Load())

    def _math(self, node: ast.Call, name: str) -> ast.AST:
        if name in _SAME:
            return ast.Call(_tl(_SAME[name]), node.args, [])
        if name == "pow" and isinstance(node.args[1], ast.Constant) and node.args[1].value in (2, 2.0, 3.0):
            x = node.args[0]
            if isinstance(x, ast.Name):
                square = ast.BinOp(x, ast.Mult(), x)
                return square if node.args[1].value == 2 else ast.BinOp(square, ast.Mult(), x)
        if name in _OWN:
            return ast.Call(self._own(_OWN[name]), node.args, [])
        first = node.args[0]
        if name in ("isfinite", "isfinited"):
            infinite = ast.Call(ast.Name("float", ast.Load()), [ast.Constant("inf")], [])
            return ast.Compare(ast.Call(_tl("abs"), [first], []), [ast.Lt()], [infinite])
        if name == "isnan":
            return ast.Compare(first, [ast.NotEq()], [first])
        if name == "isinf":
            infinite = ast.Call(ast.Name("float", ast.Load()), [ast.Constant("inf")], [])
            return ast.Compare(ast.Call(_tl("abs"), [first], []), [ast.Eq()], [infinite])
        if name == "trunc":
            positive = ast.Compare(first, [ast.GtE()], [ast.Constant(0)])
            sides = [ast.Call(_tl(way), [first], []) for way in ("floor", "ceil")]
            return ast.Call(_tl("where"), [positive, *sides], [])
        if name == "fmod":
            return ast.BinOp(first, ast.Mod(), node.args[1])
        if name == "tan":
            return ast.BinOp(ast.Call(_tl("sin"), [first], []), ast.Div(), ast.Call(_tl("cos"), [first], []))
        if name not in _libdevice():
            raise CannotCompile("helper", f"libdevice.{name}")
        self.used[LIBDEVICE] = None
        return ast.Call(ast.Attribute(ast.Name(LIBDEVICE, ast.Load()), name, ast.Load()), node.args, [])

    def _helper(self, node: ast.Call, name: str) -> ast.AST:
        if name in _ELEMENTWISE:
            return ast.Call(_tl(_ELEMENTWISE[name]), node.args, [])
        if name in _REDUCTIONS:
            return ast.Call(_tl(_REDUCTIONS[name]), node.args, [])
        if name in _COMBINES:
            return ast.Call(self._own(_COMBINES[name]), node.args, [])
        if name == "prod":
            return ast.Call(_tl("reduce"), [*node.args, self._own("multiply")], [])
        if name in ("max_with_index", "min_with_index"):
            value, index, axis = (ast.unparse(argument) for argument in node.args)
            best = f"tl.{name[:3]}({value}, {axis})"
            place = f"tl.min(tl.where({value} == {best}[:, None], {index}, 2147483647), {axis})"
            return ast.parse(f"({best}, {place})", mode="eval").body
        if name == "any":
            widened = ast.Call(ast.Attribute(node.args[0], "to", ast.Load()), [_tl("int32")], [])
            largest = ast.Call(_tl("max"), [widened, *node.args[1:]], [])
            return ast.Compare(largest, [ast.Gt()], [ast.Constant(0)])
        if name == "select_one":  # the last element of a block
            picked = ast.Call(_tl("where"), [node.args[1], node.args[0], ast.Constant(0)], [])
            column = ast.parse("x[:, None]", mode="eval").body
            assert isinstance(column, ast.Subscript)
            column.value = ast.Call(_tl("sum"), [picked, ast.Constant(1)], [])
            return column
        if name == "bucketize_binary_search" and ast.unparse(node.args[8]) == "None":
            values, edges, count, _, stride, first, dtype, right = node.args[:8]
            found = ast.Call(self._own("bucket_of"), [values, edges, count, stride, first, right], [])
            return ast.Call(ast.Attribute(found, "to", ast.Load()), [dtype], [])
        if name == "promote_to_tensor":
            return node.args[0]
        raise CannotCompile("helper", f"triton_helpers.{name}")


@functools.cache
def _libdevice() -> frozenset[str]:
    """Functions of CUDA's library that Triton shows, but for those that ask for a number's bits: a literal has none."""
    from triton.language.extra import libdevice

    return frozenset(vars(libdevice)) - {"signbit"}


def _tl(name: str) -> ast.Attribute:
    return ast.Attribute(ast.Name("tl", ast.Load()), name, ast.Load())
