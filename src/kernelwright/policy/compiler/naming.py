"""Readable names for the local variables of a rewritten kernel."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kernelwright.parsing import callee, names_within

if TYPE_CHECKING:
    from kernelwright.policy.compiler.kernels import Kernel

_MADE = {"sum": "total", "max": "top", "min": "low", "exp": "e", "rsqrt": "rstd", "sqrt": "root", "dot": "product",
    "where": "picked", "cumsum": "running", "cumprod": "running", "log": "log", "sigmoid": "gate",
    "zeros": "acc", "full": "acc"}  # fmt: skip


class Names:
    """Hands out unique names."""

    def __init__(self, taken: Iterable[str]) -> None:
        self.taken = set(taken)

    def fresh(self, wanted: str) -> str:
        """`wanted` or, if taken, the same with the next free number."""
        name, number = wanted, int(re.search(r"(\d*)$", wanted)[1] or 1)  # type: ignore[index]
        stem = wanted.rstrip("0123456789")
        suffix = ""
        if stem.endswith("_ptr"):
            stem, suffix = stem[:-4], "_ptr"
        while name in self.taken:
            number += 1
            name = f"{stem}{number}{suffix}"
        self.taken.add(name)
        return name


def local_names(kernel: Kernel, parameters: Mapping[str, str]) -> dict[str, str]:
    """New names, by old name, for everything that the kernel assigns. Loops that shared a name still do."""
    function = kernel.function
    names = Names({*parameters.values(), "tl", "triton", "min", "max", "range", "float", *kernel.helpers})
    found: dict[str, str] = {}
    by_stem: dict[str, str] = {}
    for node in ast.walk(function):
        targets: list[tuple[ast.expr, ast.expr | None]] = []
        if isinstance(node, ast.Assign):
            whole = node.targets[0]
            parts = whole.elts if isinstance(whole, ast.Tuple) else [whole]
            targets = [(part, node.value) for part in parts]
        elif isinstance(node, ast.For):
            targets = [(node.target, None)]
        for target, value in targets:
            if not isinstance(target, ast.Name) or target.id in found:
                continue
            stem = re.sub(r"__\d+", "", target.id)  # one name in several loops; versions (__v0) stay distinct
            if stem in by_stem:
                found[target.id] = by_stem[stem]
                continue
            name = names.fresh(_wanted_name(kernel, re.sub(r"__v\d+", "", stem), value, parameters))
            found[target.id] = by_stem[stem] = name
    return found


def _wanted_name(kernel: Kernel, name: str, value: ast.expr | None, parameters: Mapping[str, str]) -> str:
    reduces = "reduction" in kernel.kind
    row = reduces and "XBLOCK" not in kernel.tiles
    plane = not reduces and "YBLOCK" in kernel.tiles
    if kernel.kind == "template" and not re.match(r"^_?tmp\d", name) and name not in ("A", "B"):
        return name
    fixed = {
        "xindex": "row" if row else "rows" if reduces else "x" if plane else "offs",
        "xmask": "row_mask" if reduces else "x_mask" if plane else "mask",
        "yindex": "y",
        "ymask": "y_mask",
        "r0_index": "cols",
        "r0_mask": "mask" if row else "col_mask",
        "r0_base": "lanes",
        "r0_offset": "start",
        "A": "a_ptrs",
        "B": "b_ptrs",
    }
    if name in fixed:
        return fixed[name]
    if re.fullmatch(r"[xyz]\d+", name):
        return f"i{name[1:]}" if not plane else name
    if re.fullmatch(r"r\d_\d+", name):
        return f"r{name[3:]}"
    if name.startswith("_tmp"):
        return "best_index" if name.endswith("_index") else "acc"
    return _make(value, parameters)


def _make(value: ast.expr | None, parameters: Mapping[str, str]) -> str:
    """Name a value after the load or function that made it."""
    while isinstance(value, ast.Subscript) or (
        isinstance(value, ast.Call) and callee(value) == "to" and isinstance(value.func, ast.Attribute)
    ):
        value = value.value if isinstance(value, ast.Subscript) else value.func.value  # type: ignore[attr-defined]
    if isinstance(value, ast.Call):
        if callee(value) == "load":
            pointer = next(iter(names_within(value.args[0])), "")
            return parameters.get(pointer, pointer).removesuffix("_ptr") or "loaded"
        return _MADE.get(callee(value), "t")
    if isinstance(value, ast.Compare):
        return "test"
    return "t"
