"""Sizes that nobody but the judge knows, at which a kernel must be right as well.

Small sizes are public and few, so a kernel can be right at those and the full size and wrong elsewhere: for a batch of
one, or between the two. Two kinds of sets are proposed, each as a list of alternatives of which the judge takes the
first that the reference accepts. Which names may change is read off the task: those that its own small sets vary.

A candidate that names a number which sizes are divided by, or held against, is also tried at multiples of it.

Does not guarantee that a task has any (a reference may accept its own sizes only), nor that a condition on a size
that no set meets is found.
"""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Iterator, Sequence

from kernelwright.records import Task
from kernelwright.shapes import constants

ONE = "hidden_one"
"""The set in which one size is 1."""
_GROWTH = 4.0
"""Factor that a middle set may have over a small one, all its sizes together: programs are interpreted."""


_NAMED, _LARGEST = 2, 2048
"""Of the numbers that a candidate names: so many are tried, and none above that."""
_WIDER = 24.0
"""Factor that a set of multiples may have over a small one, all its sizes together."""


def named_numbers(code: str) -> list[int]:
    """Numbers that a candidate takes remainders by, or compares for being equal, the most unusual first: 3 and powers of two
    are what blocks and warps are made of."""
    tree = ast.parse(code)
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found: set[int] = set()
    for node in ast.walk(tree):
        others: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            others = [node.right]
        elif isinstance(node, ast.Compare) and all(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
            others = [node.left, *node.comparators]
        for other in others:
            value = other.value if isinstance(other, ast.Constant) else None
            if isinstance(other, ast.Name):
                value = constants.get(other.id)
            if type(value) is int and 3 < value <= _LARGEST and value & (value - 1):
                found.add(value)
    return sorted(found, reverse=True)[:_NAMED]


def sizes_of(task: Task, shapes: Sequence[str], number: int, secret: int) -> list[dict[str, int]]:
    """Sets of multiples of a number: of all sizes that may change where that is small enough, else of one."""
    dice = random.Random(f"{secret}:{task.digest}:{number}")
    sets = [task.shapes[name] for name in shapes]
    base = dict(sets[min(1, len(sets) - 1)])
    free = [name for name, size in base.items() if any(other.get(name) != size for other in sets)]
    found = []
    for names in (free, *([name] for name in dice.sample(free, len(free)))):
        made = base | {name: number * max(1, round(base[name] / number)) for name in names}
        if names and math.prod(made.values()) <= _WIDER * math.prod(base.values()):
            found.append(made)
    return found


def hidden_sizes(
    task: Task, shapes: Sequence[str], secret: int
) -> Iterator[tuple[str, list[dict[str, int]]]]:
    """(name of a set, its alternatives) given the names of the task's small sets."""
    dice = random.Random(f"{secret}:{task.digest}")
    sets = [task.shapes[name] for name in shapes]
    base = dict(sets[min(1, len(sets) - 1)])
    varied = [name for name, size in base.items() if any(other.get(name) != size for other in sets)]
    free = [name for name in varied if base[name] >= 4]
    if free:
        yield "hidden", _middle(task, base, free, dice)
    ones = [name for name in varied if all(other.get(name, 0) > 1 for other in sets)]
    if ones:
        yield ONE, _of_one(base, ones, free, dice)


def _middle(task: Task, base: dict[str, int], free: list[str], dice: random.Random) -> list[dict[str, int]]:
    """Log-uniform between small and full for all free sizes, else for one; then a little below the small ones."""
    full = {**constants(task.source), **task.shapes.get("full", {})}
    found = []
    for names in (free, *([name] for name in dice.sample(free, len(free)))):
        most = {name: math.log(max(full.get(name, base[name]) / base[name], 1.0)) for name in names}
        drawn = {name: dice.random() * room for name, room in most.items()}
        budget = math.log(_GROWTH) / (1 if len(names) > 1 else 2)
        tight = min(1.0, budget / max(sum(drawn.values()), 1e-9))
        found.append(base | {name: _odd(base[name] * math.exp(drawn[name] * tight)) for name in names})
    for names in (free, *([name] for name in free)):
        found.append(base | {name: base[name] - dice.randint(1, max(1, base[name] // 4)) for name in names})
    return found[: len(free) + 4]


def _of_one(
    base: dict[str, int], ones: list[str], free: list[str], dice: random.Random
) -> list[dict[str, int]]:
    """The first size that may be 1, which is the batch in nearly every task, else another; the rest a little smaller."""
    less = {name: base[name] - dice.randint(0, max(1, base[name] // 4)) for name in free}
    return [base | less | {name: 1} for name in ones] + [base | {name: 1} for name in ones]


def _odd(size: float) -> int:
    """A whole number near `size` that no power of two divides."""
    return 2 * int(size / 2.0) + 1
