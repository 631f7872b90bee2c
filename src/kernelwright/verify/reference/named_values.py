"""Numbers that a candidate's kernels compare values with. A kernel may act differently there, so inputs get these values.

A kernel that uses -999 for a missing value is right unless a draw hits it. Collected from the source: numbers in comparisons,
with either sign, and the middle between neighbours. Numbers that the reference names are asked of every candidate anyway.

Does not find numbers that are computed, loaded or passed as arguments, nor integers, unless they are tested for equality.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
from collections.abc import Sequence

from kernelwright.parsing import is_kernel, parse
from kernelwright.verify.protocol import Protocol
from kernelwright.verify.reference import allowances
from kernelwright.verify.reference.cases import make_case
from kernelwright.verify.reference.oracle import ShapeCases, special_kinds
from kernelwright.verify.reference.special_values import FEW, MOST, with_special_values

_SEVERAL = 16
_LEAST_WHOLE = 3
"""Integers up to this are typical of indices and counts, and ignored."""
KIND = "named"
"""The kind, for `special_values`."""


def named_values(code: str) -> list[float]:
    """Numbers in comparisons in a candidate's kernels, with either sign, and the middle between neighbours; ascending."""
    tree = parse(code)
    known = {
        target.id: value
        for node in tree.body
        if isinstance(node, ast.Assign) and (value := _number(node.value, {})) is not None
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found: set[float] = set()
    for kernel in filter(is_kernel, ast.walk(tree)):
        for node in ast.walk(kernel):
            if isinstance(node, ast.Compare) and not any(isinstance(one, ast.Mod) for one in ast.walk(node)):
                equal = any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)
                values = [value for one in ast.walk(node) if (value := _number(one, known)) is not None]
                found |= {
                    float(abs(one))
                    for one in values
                    if isinstance(one, float) or (equal and one > _LEAST_WHOLE)
                }
    sizes = sorted(found - set(FEW))[:_SEVERAL]
    middle = [(one + other) / 2.0 for one, other in itertools.pairwise(sizes)]
    return sorted(sign * one for one in {*sizes, *middle} for sign in (-1.0, 1.0))


def _number(node: ast.AST, known: dict[str, int | float]) -> int | float | None:
    """The value of a literal, also in `tl.constexpr` or under a module-level name, without a minus sign; None if too large."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and getattr(node.func, "attr", "") == "constexpr":
        node = node.args[0]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    value = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.Name):
        value = known.get(node.id)
    return value if isinstance(value, int | float) and abs(value) <= MOST else None


def at_named_values(shape: ShapeCases, values: Sequence[float], protocol: Protocol, seed: int) -> ShapeCases:
    """The first shape set with one more case, in which an eighth of the elements have these values; unchanged if the reference
    has no meaning there or names the values itself."""
    first, found = shape.cases[0], shape.operators
    others = [one for one in values if abs(one) not in map(abs, found.landmarks)]
    if not others or shape.gradients is not None:
        return shape
    if "rows" not in special_kinds(first.module, found, first.inputs, 0):
        return shape
    inputs = with_special_values(first.inputs, KIND, seed, others)
    case = make_case(f"{shape.name}, {KIND}", first.module, inputs, protocol, -1.0, special=True)
    if case is None:
        return shape
    case.expected = allowances.expectations_at(KIND, case.expected, inputs, found, (), False)
    return dataclasses.replace(shape, cases=[*shape.cases, case])
