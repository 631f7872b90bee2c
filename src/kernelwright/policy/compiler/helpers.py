"""Inductor's helper functions in plain Triton, on syntax trees.

`Plain` replaces calls of `triton_helpers`, `libdevice` and `tl_math` by the forms in `helpers.toml`: `tl` operations, formulas,
or calls of a function whose source is then added to the module (`SOURCES`). Other libdevice functions stay; a helper without a
form raises CannotCompile. Unlike Inductor's, maximum and minimum do not propagate NaN.
"""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from pathlib import Path
from typing import Any

from kernelwright.policy.compiler.reasons import CannotCompile
from kernelwright.policy.compiler.simplify import tl

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
SOURCES: dict[str, str] = {name: text.strip() for name, text in _TABLES["functions"].items()}
"""Name -> source of functions under `@triton.jit`."""
_SAME = frozenset(
    ["exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "erf", "floor", "ceil", "abs", "fma"]
)
"""Functions of libdevice and `tl_math` that `tl` has, too."""
LIBDEVICE = "libdevice"


class Plain(ast.NodeTransformer):
    """Does the replacement; `used` collects names of `SOURCES` in order of use, and LIBDEVICE if some of its functions stay."""

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
            none = name != "bucketize_binary_search" or ast.unparse(node.args[8]) == "None"
            if name not in _TABLES["helpers"] or not none:
                raise CannotCompile("helper", f"triton_helpers.{name}")
            return self._fill_form(_TABLES["helpers"][name], node.args)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace a helper that is passed as an argument, such as the combining function of a scan."""
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == "triton_helpers":
            own = {"maximum": "greatest", "minimum": "least"}.get(node.attr)
            if own:
                return self._fill_form(own, [])
        return node

    def _fill_form(self, form: str, arguments: list[ast.expr]) -> ast.expr:
        self.used |= dict.fromkeys(word for word in re.findall(r"\w+", form) if word in SOURCES)
        texts = [f"({ast.unparse(one)})" for one in arguments]
        text = form.format(*texts, args=", ".join(texts), rest=", ".join(texts[1:]))
        return ast.parse(text, mode="eval").body

    def _math(self, node: ast.Call, name: str) -> ast.expr:
        first, *rest = node.args
        if name in _SAME:
            return ast.Call(tl(name), node.args, [])
        if name == "pow" and isinstance(first, ast.Name) and isinstance(rest[0], ast.Constant):
            powers: dict[Any, str] = {2: "{0} * {0}", 3: "{0} * {0} * {0}"}
            if rest[0].value in powers:
                return self._fill_form(powers[rest[0].value], [first])
        if name in _TABLES["math"]:
            return self._fill_form(_TABLES["math"][name], node.args)
        if name not in _libdevice():
            raise CannotCompile("helper", f"libdevice.{name}")
        self.used[LIBDEVICE] = None
        return ast.Call(ast.Attribute(ast.Name(LIBDEVICE, ast.Load()), name, ast.Load()), node.args, [])


@functools.cache
def _libdevice() -> frozenset[str]:
    """Functions of CUDA's libdevice that Triton exposes, except those that read a number's bits: a literal has none."""
    from triton.language.extra import libdevice

    return frozenset(vars(libdevice)) - {"signbit"}
