"""Numbers that a candidate's kernels compare values with: where it does one thing there and another beside it, values are asked there.

A kernel that takes -999 for a missing value is right wherever no draw hits that. Read off the source: numbers within comparisons,
with either sign, and what lies between two that follow each other. Those that the reference names are asked of every candidate.

Does not find a number that is computed, loaded or given as an argument, nor whole ones but where they are compared for being equal.
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
"""Whole numbers up to this are what places and counts are compared with."""
KIND = "named"
"""As `special_values` has it."""


def named_values(code: str) -> list[float]:
    """Numbers within comparisons in a candidate's kernels, each with either sign, and the middle of neighbours; ascending."""
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
    """What a literal, one in brackets of `tl.constexpr`, or a name that the module gives to one is; None where it is large."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and getattr(node.func, "attr", "") == "constexpr":
        node = node.args[0]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    value = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.Name):
        value = known.get(node.id)
    return value if isinstance(value, int | float) and abs(value) <= MOST else None


def at_named_values(shape: ShapeCases, values: Sequence[float], protocol: Protocol, seed: int) -> ShapeCases:
    """The first shape set with a case more, in which an eighth of the elements are such values, where the reference has a meaning
    for them and they are none of its own."""
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
