"""Plans of family kernels: what the short plan of `data/plans.py` says, and what a tiled kernel has besides.

    grid          what the programs are: the launch's own expressions
    products      how `tl.dot` multiplies, where there is one
    loop          whether a program walks tiles
    uses          the functions of `tl` that do the arithmetic

All is read off the code's syntax tree, so a plan cannot promise what the code does not do; `problems` holds any plan
against a code and passes over what it does not recognise.
"""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass

from kernelwright.data import plans

_PLAIN = frozenset(
    [
        *(
            "load",
            "store",
            "arange",
            "zeros",
            "full",
            "program_id",
            "num_programs",
            "where",
            "range",
            "static_range",
        ),
        *("cdiv", "constexpr", "debug_barrier", "zeros_like"),
    ]
)
"""Functions of `tl` that every kernel has: addresses, masks, loops."""


_PRODUCTS = {"ieee": "ieee float32", "tf32x3": "float32 by three tf32"}
"""How a product of float32 is made, by its `input_precision`."""


@dataclass(frozen=True)
class Facts:
    """What a code says about its programs."""

    grids: tuple[str, ...]
    products: str
    loops: bool
    wide: bool
    """Offsets of 64 bits."""
    uses: tuple[str, ...]


@functools.lru_cache(maxsize=1024)
def read(code: str) -> Facts:
    """Facts of a module. Raises SyntaxError."""
    tree = ast.parse(code)
    kernels = [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and plans.is_kernel(f)]
    names = {f.name for f in kernels}
    grids: list[str] = []
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Subscript)
            and getattr(node.func.value, "id", "") in names
        ):
            grid = node.func.slice
            axes = grid.elts if isinstance(grid, ast.Tuple) else [grid]
            grids.append(" x ".join(ast.unparse(axis).replace("triton.cdiv", "cdiv") for axis in axes))
    inside = [node for f in kernels for node in ast.walk(f)]
    calls = [n for n in inside if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    dots = [n for n in calls if n.func.attr == "dot"]  # type: ignore[attr-defined]
    products = ""
    if dots:
        asked = {
            word.value.value for n in dots for word in n.keywords if isinstance(word.value, ast.Constant)
        }
        products = next((how for key, how in _PRODUCTS.items() if key in asked), "tensor cores")
    uses = [n.func.attr for n in calls if getattr(n.func.value, "id", "") == "tl"]  # type: ignore[attr-defined]
    return Facts(
        tuple(grids),
        products,
        any(isinstance(n, ast.For) for n in inside),
        any(isinstance(n, ast.Attribute) and n.attr == "int64" for n in inside),
        tuple(dict.fromkeys(name for name in uses if name not in _PLAIN)),
    )


def plan(code: str) -> str:
    """The plan of `code`, a few short lines. Raises SyntaxError."""
    facts = read(code)
    lines = [plans.plan(code), f"grid: {'; '.join(facts.grids)}"]
    how = [f"dot in {facts.products}"] * bool(facts.products) + ["loops over tiles"] * facts.loops
    how += ["64-bit offsets"] * facts.wide
    if how:
        lines.append(", ".join(how))
    if facts.uses:
        lines.append(f"uses {', '.join(facts.uses)}")
    return "\n".join(lines)


def problems(text: str, code: str) -> list[str]:
    """The claims of a plan that its code does not bear out, one line each; empty when it is true."""
    facts = read(code)
    found = plans.plan_problems(
        "\n".join(line for line in text.splitlines() if not line.startswith("grid: ")), code
    )
    for line in text.splitlines():
        if line.startswith("grid: "):
            found += [
                f"says grid {claim}, the code has {'; '.join(facts.grids)}"
                for claim in line.removeprefix("grid: ").split("; ")
                if claim not in facts.grids
            ]
        if line.startswith("uses "):
            found += [
                f"says uses {name}, no kernel does"
                for name in line.removeprefix("uses ").split(", ")
                if name not in facts.uses
            ]
    for match in re.finditer(r"\bdot in (ieee float32|float32 by three tf32|tensor cores)", text):
        if match[1] != facts.products:
            found.append(f"says {match[0]}, the code has {facts.products or 'no dot'}")
    if "loops over tiles" in text and not facts.loops:
        found.append("says loops over tiles, no kernel has a loop")
    if "64-bit offsets" in text and not facts.wide:
        found.append("says 64-bit offsets, no kernel has them")
    return found
