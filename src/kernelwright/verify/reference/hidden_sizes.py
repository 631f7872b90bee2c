"""Sizes known only to the judge, at which a kernel must be right as well.

Small sizes are public and few, so a kernel can be right there and at the full size and wrong elsewhere: for a batch of one,
between the two, where sizes are equal, or where the longer one becomes the shorter. Sets of such sizes are proposed, each as
a list of alternatives; the judge takes the first that the reference accepts. Sizes that vary in the task's small sets change.

If a candidate names a number that sizes are divided by or tested for equality with, multiples of it are tried, too, and sizes
just above numbers that it compares with.

Not guaranteed: that a task has such sets (a reference may accept its own sizes only), nor that a condition on a size that no
set meets is found.
"""

from __future__ import annotations

import ast
import functools
import itertools
import math
import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from kernelwright.outcomes import Outcome
from kernelwright.parsing import is_kernel, parse
from kernelwright.records import Task
from kernelwright.shapes import constants
from kernelwright.verify.messages import IN_A_KERNEL

HIDDEN = "hidden"
"""The set of odd sizes, also asked on rows with shapes of their own."""
ONE = "hidden_one"
"""The set with one size 1, on the task's own inputs only."""
ALSO_ONE = f"{ONE}_"
"""Prefix of sets with another size 1, and 2, 3 or 4 for the first that varies, with several 1, and with sizes below the extent of a
window; on the task's own inputs only."""
FEW = "few"
"""Prefix of sets with a size at a small number that the candidate compares with; on the task's own inputs only."""
BEYOND = "beyond"
"""Prefix of sets with a size just above a number that the candidate compares with."""
RATIO = "hidden_ratio"
RELATED = ("hidden_turned", "hidden_equal", RATIO)
"""Sets with sizes in reverse order of length, with all sizes equal, and with one size 3, 5 or 7 times another; on the task's
own inputs only."""
DECLINABLE = (RATIO, ALSO_ONE)
"""Sets at which a candidate may refuse (`may_decline`)."""
TUNED = "tuned before"
"""Name of sets before which a tuner has met another size."""
NONE = "hidden_none"
"""The set with one size 0, like an expert without tokens; on the task's own inputs only."""
FAINT = "hidden_faint"
"""The set of ordinary sizes with weights as small as constants added to them; on the task's own inputs only."""
AFTER, LONG_AFTER, PHASE = "after_loud_calls", "after_many_calls", "after_calls_"
"""Sets at which the reference's own state is as earlier calls leave it (`after_calls.py`); the last is a prefix of several."""
COUNTED = "counted_"
"""Prefix of sets with another step count than the task's; on the task's own inputs only."""
POWERS = "hidden_powers"
"""The set of powers of two of a reference that searches; on the task's own inputs only."""
AGAIN = "second_values"
"""The second set of values of a task with one small set: what is asked at a second set only."""
_FEW = (2, 3, 4)
"""Values of the first size while another one is 1."""
_EXTENT = 16
"""The largest constant of a task that may be the extent of a window, below which sizes are tried."""
_RATIOS = (3, 5, 7)
"""Ratios for two sizes of which one is a power of two times the other in every set."""
LEAST = "least"
"""Prefix of a family's sets in which a size, or every size, is at its least."""
_TURNED, _TURNED_LEAST = 79, 0.6
"""In reverse order: the largest size, and the least share of it that all but one have, as programs may be as many."""
_SHORT = 9
"""The least size in reverse order, unless it was smaller before: honest kernels do not split a shorter block."""
_POWERS = 0.75
"""Share of sizes beside a size of 1 that are powers of two."""
_PAIRS = 3
"""Pairs of sizes that are tried if not all are accepted at once."""
_DRAWN = 2
"""Sets drawn within a family."""
_RAGGED, _ROOM = 0.6, 2.0
"""Sizes near the full one that nothing divides: their least share of it, and how far the full size must exceed the small
ones."""
_TILED = 256
"""Such a size is one more than a multiple of this, if there is room."""
_BLOCKS, _WIDEST = 8, 4096
"""And one more than a multiple of the widest blocks: the least number of these in the full size, and their greatest width."""
_GROWTH = 4.0
"""Factor by which a middle set may exceed a small one, as a product of all sizes: its programs are interpreted."""
_LEAST_GROWTH = 0.75
"""Least share, on a log scale, of the allowed growth that a middle set uses if it is limited, so that its size stays secret."""


_NAMED, _LARGEST = 2, 2048
"""How many of the candidate's numbers are tried, and the largest."""
_WIDER = 24.0
"""Factor by which a set of multiples may exceed a small one, as a product of all sizes."""


_OF_BLOCKS = ("must be a power of 2", "Input shapes should have M")
"""Triton's messages for block sizes that it does not accept."""
_WANTED = re.compile(r"Input shapes should have M.* K >= (\d+)")
_RAISED = re.compile(r"\(line \d+: (?:.*: )?raise\b")
"""The line of a candidate that failed, if that is a `raise`."""
_LEAST_POWER, _WIDE_POWER = 16, 128
"""The least power of two at which a size is held, as products need it; and the one tried if an assertion still refuses
(lengths of whole blocks, groups of codes)."""
RAISES = (Outcome.COMPILE_ERROR, Outcome.RUNTIME_ERROR)
_BRANCHES = (ast.If, ast.IfExp, ast.Match, ast.Compare, ast.And, ast.Or, ast.RShift, ast.BitAnd, ast.BitXor)
_RANKS = ("ndim", "dim", "len", "element_size", "itemsize")
"""Names of quantities that are compared with small numbers but are no sizes."""
_MOST_FEW, _SETS_OF_FEW = 64, 4
"""The largest such number, and the most sets for them."""
_DIVIDES = ("gcd", "lcm", "divmod", "fmod", "remainder", "mod")
_LEAST, _SMALLER = 3, 32
"""Next to a size beyond a bound, other sizes are the small ones divided by the second number, and at least the first."""
_BOUNDS, _LARGEST_BOUND = 3, 4096
"""The most sets beyond a bound that the candidate names, and the largest such bound."""


def named_numbers(code: str) -> list[int]:
    """Numbers by which a candidate takes remainders, which it passes to gcd and the like, or tests for equality, the largest
    first; not 3 or powers of two, from which blocks and warps are made."""
    value_of, nodes, _ = _read(code)
    found: set[int] = set()
    for node in nodes:
        others: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            others = [node.right]
        elif isinstance(node, ast.Call):
            others = node.args if _called(node) in _DIVIDES else []
        elif isinstance(node, ast.Compare) and all(
            isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops
        ):
            others = [node.left, *node.comparators]
            others += [
                one
                for item in others
                if isinstance(item, ast.List | ast.Tuple | ast.Set)
                for one in item.elts
            ]
        found |= {value for other in others if (value := value_of(other)) is not None}
    unusual = [value for value in found if 3 < value <= _LARGEST and value & (value - 1)]
    return sorted(unusual, reverse=True)[:_NAMED]


def named_bounds(code: str) -> list[int]:
    """Numbers that a candidate compares with by order, ascending."""
    value_of, nodes, _ = _read(code)
    found: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Compare) and any(
            isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops
        ):
            found |= {v for one in (node.left, *node.comparators) if (v := value_of(one)) is not None}
    return sorted(value for value in found if 3 < value <= _LARGEST_BOUND)


ROOM_OF_PARTS = 1 << 15
"""Product of sizes that sets with several parts may have."""


def named_parts(code: str) -> list[int]:
    """Numbers of elements that a candidate's Python cuts something into (`cdiv(n, 1024)`), ascending."""
    value_of, _, beside = _read(code)
    cut = (node for node in beside if isinstance(node, ast.Call) and _called(node) == "cdiv")
    found = {value for node in cut for one in node.args[1:] if (value := value_of(one)) is not None}
    return sorted(value for value in found if 3 < value <= _LARGEST_BOUND)


def named_few(code: str) -> list[int]:
    """3 and powers of two that a candidate's Python (not its kernels) tests for equality, and those next to a bound up to 4,
    ascending: it may have a special path for two rows. Comparisons of a number of axes or a remainder do not count."""
    value_of, _, beside = _read(code)
    found: set[int] = set()
    for node in beside:
        if isinstance(node, ast.MatchValue):
            found.add(value_of(node.value) or 0)
        elif isinstance(node, ast.Compare) and not any(map(_is_no_size, ast.walk(node))):
            sides = [node.left, *node.comparators]
            parts = [getattr(one, "elts", [one]) for one in sides]
            values = {value for one in itertools.chain(*parts) if (value := value_of(one)) is not None}
            equal = any(isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops)
            found |= values if equal else {near for one in values for near in (one - 1, one) if near in _FEW}
    return sorted(one for one in found if one == 3 or (1 < one <= _MOST_FEW and _power(one)))


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def may_choose(code: str, launched: Collection[str]) -> bool:
    """Whether a candidate's Python (not its kernels) may launch something else at other sizes: it branches, compares, looks
    something up or takes bits, or has a kernel that is neither among those `launched` nor called by another."""
    tree = parse(code)
    kernels = {one.name: one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and is_kernel(one)}
    within = {name: list(ast.walk(one)) for name, one in kernels.items()}
    parts = {node.id for nodes in within.values() for node in nodes if isinstance(node, ast.Name)}
    if kernels.keys() - parts - set(launched):
        return True
    inside = {id(node) for nodes in within.values() for node in nodes}
    nodes = [node for node in ast.walk(tree) if id(node) not in inside]
    grids = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    looked_up = (one.slice for one in nodes if isinstance(one, ast.Subscript) and id(one) not in grids)
    return any(isinstance(one, ast.BinOp | ast.Call) for one in looked_up) or any(
        isinstance(getattr(node, "op", node), _BRANCHES) for node in nodes
    )


def keeps_by_key(code: str) -> bool:
    """Whether a candidate's Python, kernels apart, stores something under a key, or keeps results of a function."""
    _, _, beside = _read(code)
    return any(
        (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store))
        or (isinstance(node, ast.Call) and _called(node) == "setdefault")
        or getattr(node, "attr", getattr(node, "id", "")) in ("cache", "lru_cache")
        for node in beside
    )


def named_divisors(code: str) -> list[int]:
    """Powers of two by which a candidate's Python, kernels apart, takes remainders (`%`, `&` of one less), or which it both
    divides and multiplies by (`cdiv(n, 64) * 64 == n`), largest first."""
    value_of, _, beside = _read(code)
    found, divided, multiplied = set[int](), set[int](), set[int]()
    for node in beside:
        if isinstance(node, ast.Call) and _called(node) == "cdiv":
            divided |= {value_of(one) or 0 for one in node.args[1:]}
        if not isinstance(node, ast.BinOp):
            continue
        left, right = (value_of(one) or 0 for one in (node.left, node.right))
        if isinstance(node.op, ast.Mod):
            found.add(right)
        elif isinstance(node.op, ast.BitAnd):
            found |= {left + 1, right + 1}
        elif isinstance(node.op, ast.FloorDiv | ast.Div):
            divided.add(right)
        elif isinstance(node.op, ast.Mult):
            multiplied |= {left, right}
        elif isinstance(node.op, ast.RShift | ast.LShift) and 0 < right < _LARGEST.bit_length():
            (divided if isinstance(node.op, ast.RShift) else multiplied).add(1 << right)
    found |= divided & multiplied
    return sorted((one for one in found if 1 < one <= _LARGEST and _power(one)), reverse=True)[:_NAMED]


def leaves_a_rest(code: str) -> bool:
    """Whether a candidate's Python, kernels apart, rounds a quotient of two unknown numbers down, one that may have a rest: not
    rows of so many elements (`x.numel() // n`)."""
    value_of, _, beside = _read(code)
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.FloorDiv)
        and value_of(node.right) is None
        and not isinstance(node.left, ast.Constant | ast.UnaryOp)
        and not any(getattr(part, "attr", "") == "numel" for part in ast.walk(node.left))
        for node in beside
    )


def sizes_divided(task: Task, shapes: Sequence[str], divisors: Sequence[int]) -> list[dict[str, int]]:
    """Sets in which one size is an odd multiple of one of these numbers, so that blocks of twice the number have a rest, and the
    others are odd."""
    sets = [task.shapes[name] for name in shapes]
    base = dict(sets[min(1, len(sets) - 1)])
    free = varying(base, sets)
    odd = base | {name: _odd(base[name]) for name in free}
    found = []
    for number in divisors:
        for name in free:
            made = odd | {name: number * _odd(base[name] / number)}
            if math.prod(made.values()) <= _WIDER * math.prod(base.values()):
                found.append(made)
    return found[:_SETS_OF_FEW]


def _is_no_size(node: ast.AST) -> bool:
    """Whether it marks the expression it is in as a number of axes or a remainder."""
    return isinstance(node, ast.Mod) or getattr(node, "attr", getattr(node, "id", "")) in _RANKS


def sizes_at(task: Task, shapes: Sequence[str], numbers: Sequence[int]) -> list[dict[str, int]]:
    """Sets in which one size is one of these numbers, if no small set has it; the first size first."""
    sets = [task.shapes[name] for name in shapes]
    base = dict(sets[min(1, len(sets) - 1)])
    free = varying(base, sets)
    found = [
        base | {name: number}
        for name in free
        for number in numbers
        if all(other.get(name) != number for other in sets) and number < _WIDER * base[name]
    ]
    return found[:_SETS_OF_FEW]


@functools.lru_cache(maxsize=4)
def _read(code: str) -> tuple[Callable[[ast.expr], int | None], list[ast.AST], list[ast.AST]]:
    """(`_values`, the nodes of a candidate's code, those of its Python without its kernels); what decorates kernels (heuristics)
    is Python."""
    tree = parse(code)
    nodes = list(ast.walk(tree))
    functions = [one for one in nodes if isinstance(one, ast.FunctionDef) and is_kernel(one)]
    parts = [part for one in functions for part in (one.args, *one.body)]
    kernels = {id(node) for part in parts for node in ast.walk(part)}
    return _values(tree), nodes, [node for node in nodes if id(node) not in kernels]


def varying(base: Mapping[str, int], sets: Sequence[Mapping[str, int]]) -> list[str]:
    """Sizes of `base` that differ in another of the sets."""
    return [name for name, size in base.items() if any(other.get(name) != size for other in sets)]


def _values(tree: ast.Module) -> Callable[[ast.expr], int | None]:
    """Returns a function for an expression's integer: a literal, or a module-level name for one; else None."""
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def value_of(expression: ast.expr) -> int | None:
        value = expression.value if isinstance(expression, ast.Constant) else None
        if isinstance(expression, ast.Name):
            value = constants.get(expression.id)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return value if type(value) is int else None

    return value_of


def sizes_beyond(
    task: Task, shapes: Sequence[str], bounds: Sequence[int], room: int = 0
) -> list[list[dict[str, int]]]:
    """Sets in which one size is just above a bound that no small set exceeds, and the others are very small, or if the reference
    refuses that, small. `room`: the product of all sizes that is always permitted."""
    sets = [task.shapes[name] for name in shapes]
    base = dict(sets[min(1, len(sets) - 1)])
    full = {**constants(task.source), **task.shapes.get("full", {})}
    free = varying(base, sets)
    least = base | {
        name: max(_LEAST, min(other.get(name, base[name]) for other in sets) // _SMALLER) for name in free
    }
    found = []
    for bound in bounds:
        for name in free:
            known = max(other.get(name, base[name]) for other in sets)
            several = [one | {name: bound + 1} for one in (least, base)]
            most = max(room, _WIDER * math.prod(base.values()))
            if known <= bound < full.get(name, known) and math.prod(several[0].values()) <= most:
                found.append([one for one in several if math.prod(one.values()) <= most])
    return found[:_BOUNDS]


def sizes_of(task: Task, shapes: Sequence[str], number: int, secret: int) -> list[dict[str, int]]:
    """Sets of odd multiples of a number: of all sizes that may change, if that is small enough, then of one."""
    dice = random.Random(f"{secret}:{task.digest}:{number}")
    sets = [task.shapes[name] for name in shapes]
    base = dict(sets[min(1, len(sets) - 1)])
    free = varying(base, sets)
    found = []
    for names in (free, *([name] for name in dice.sample(free, len(free)))):
        made = base | {name: number * _odd(base[name] / number) for name in names}
        if names and math.prod(made.values()) <= _WIDER * math.prod(base.values()):
            found.append(made)
    return found


def hidden_sizes(
    task: Task, shapes: Sequence[str], secret: int
) -> Iterator[tuple[str, list[dict[str, int]]]]:
    """(name of a set, its alternatives), given the names of the task's small sets."""
    dice = random.Random(f"{secret}:{task.digest}")
    sets = [task.shapes[name] for name in shapes]
    base = dict(sets[min(1, len(sets) - 1)])
    if task.ranges:
        yield from _of_family(task, base, dice)
    varied = [name for name in varying(base, sets) if name not in task.ranges]
    free = [name for name in varied if base[name] >= 4]
    if free:
        yield HIDDEN, _middle(task, base, free, dice)
    several = [name for name in varied if base[name] > 1]
    if len(several) > 1:
        yield RELATED[0], _turned(task, base, several, dice)
        yield RELATED[1], _equal(base, several, dice)
    if varied and (ratios := _of_ratio([*sets, full_sizes(task)], base, dice)):
        yield RATIO, ratios
    ones = [name for name in varied if all(other.get(name, 0) > 1 for other in sets)]
    if ones:
        yield ONE, _of_one(base, ones, free, dice)
    if len(ones) > 1:  # the last is a width, which is not made 1 if there is another
        name = dice.choice(ones[1:-1] or ones[1:])
        few = {varied[0]: dice.choice(_FEW)} if name != varied[0] else {}
        yield f"{ALSO_ONE}{name}", [base | few | {name: 1}, base | {name: 1}]
    extents = [one for name, one in full_sizes(task).items() if name not in varied and 2 < one <= _EXTENT]
    if len(ones) > 1 and extents:  # fewer steps than a window has, the least and others
        short = base | {varied[0]: dice.choice(_FEW)}
        for size in sorted({2, dice.randrange(2, dice.choice(extents))}):
            alone = [short | {name: size} for name in dice.sample(ones[1:], len(ones) - 1)]
            yield f"{ALSO_ONE}of_{size}", [short | dict.fromkeys(ones[1:], size), *alone]
    if len(ones) > 2:
        yield f"{ALSO_ONE}together", [base | dict.fromkeys(ones[:-1], 1), base | dict.fromkeys(ones[:2], 1)]
    if varied:
        yield FAINT, [base]


def at_powers(task: Task, shapes: Sequence[str]) -> list[tuple[str, list[dict[str, int]]]]:
    """The set with all sizes powers of two: for a search, among so many places one step more is needed than among one fewer."""
    sets = [task.shapes[name] for name in shapes]
    base = dict(sets[min(1, len(sets) - 1)])
    powers = {name: max(_LEAST_POWER, _above(base[name])) for name in varying(base, sets)}
    return [(POWERS, [base | powers])] if powers and not task.ranges else []


def own_only(name: str) -> bool:
    """Whether a set is asked on the task's own inputs only."""
    return name in (*RELATED, NONE, FAINT, POWERS) or name.startswith((ONE, FEW, COUNTED))


def after_others(name: str) -> bool:
    """Whether the reference's state at a set is as earlier calls leave it."""
    return name in (AFTER, LONG_AFTER) or name.startswith(PHASE)


def of_a_named_number(name: str) -> bool:
    """Whether a set was chosen because of a number that the candidate names."""
    return name.startswith((FEW, BEYOND)) or name.removeprefix("hidden_").isdigit()


def none_of_each(task: Task, shapes: Sequence[str]) -> list[dict[str, int]]:
    """Sizes with one of those that vary 0, the first size first; empty for a family."""
    sets = [task.shapes[name] for name in shapes]
    base = dict(sets[0])
    varied = varying(base, sets)
    return [] if task.ranges else [base | {name: 0} for name in varied]


def large_sets(task: Task, secret: int) -> list[dict[str, int]]:
    """Sets of a family beyond those that are interpreted in full: sizes drawn log-uniformly between those and the largest, and
    every free size at its largest, unless that is the full size."""
    if not task.ranges:
        return []
    dice = random.Random(f"large {secret}:{task.digest}")
    full = full_sizes(task)
    most = {name: full[name] if high is None else high for name, (_, high) in task.ranges.items()}
    small = max(
        ({**full, **sizes} for sizes in task.shapes.values()), key=lambda one: -math.prod(one.values())
    )
    above = _GROWTH ** (1 / len(most))
    middle = {name: _within(min(int(small[name] * above), high), high, dice) for name, high in most.items()}
    odd = {name: max(task.ranges[name][0], size - 1 + size % 2) for name, size in middle.items()}
    return [{**full, **odd}, *([{**full, **most}] if {**full, **most} != full else [])]


def ragged_sets(task: Task, shapes: Sequence[str], secret: int) -> list[dict[str, int]]:
    """Sizes near the full ones that nothing divides: of all that may change, then, if the reference refuses, of one."""
    dice = random.Random(f"ragged {secret}:{task.digest}")
    full, sets = full_sizes(task), [task.shapes[name] for name in shapes]
    free = [name for name in (sets[0] if sets else ()) if any(one.get(name) != sets[0][name] for one in sets)]
    most = {name: full[name] for name in free if name in full}
    if task.ranges:
        most = {name: full[name] if high is None else high for name, (_, high) in task.ranges.items()}
    drawn = {
        name: _draw_ragged(high, dice)
        for name, high in most.items()
        if high >= _ROOM * max(one.get(name, 1) for one in sets)
    }
    several = [full | drawn] if len(drawn) > 1 else []
    return [*several, *(full | {name: drawn[name]} for name in dice.sample(list(drawn), len(drawn)))]


def _draw_ragged(most: int, dice: random.Random) -> int:
    """An odd number near `most`: if there is room, one more than a multiple of wide blocks, so that the last block has a
    single lane, and an odd number of blocks of 16 to 128, so that groups of them have a remainder."""
    wide = min(max(1 << max(most // _BLOCKS, 1).bit_length() - 1, _TILED), _WIDEST)
    least, last = math.ceil(_RAGGED * most / wide), (most - 2) // wide
    if least <= last:
        return wide * dice.randint(least, last) + 1
    return _odd(round(dice.uniform(_RAGGED, 1.0) * most)) - 2


def full_sizes(task: Task) -> dict[str, int]:
    """Constants of a task's source at full size."""
    return {**constants(task.source), **task.shapes.get("full", {})}


def inside(task: Task, sizes: Mapping[str, int]) -> bool:
    """Whether sizes lie in the family that the task asks for."""
    known = {**constants(task.source), **sizes}
    return all(least <= known[name] <= (most or known[name]) for name, (least, most) in task.ranges.items())


def asks_for_powers(outcome: Outcome, detail: str) -> bool:
    """Whether a candidate refused a size by itself: a block that is no power of two or too narrow for a product, or an assertion or
    `raise` of its Python: what a kernel asserts, and the compiler accepts, nobody hears on a GPU."""
    if outcome is Outcome.COMPILE_ERROR:
        return any(said in detail for said in _OF_BLOCKS)
    return outcome is Outcome.RUNTIME_ERROR and _by_itself(detail) and IN_A_KERNEL not in detail


def _by_itself(detail: str) -> bool:
    """Whether an assertion or a `raise` of the candidate's own is what failed."""
    return "AssertionError" in detail or _RAISED.search(detail) is not None


def may_decline(name: str, outcome: Outcome, detail: str) -> bool:
    """Whether a candidate's failure at a set is a refusal that it is free to make: a ratio of sizes that its task does not
    have; raising at a size of 1 other than the first (a width), at 0, or at a size it was not tuned for. Running statistics
    of an empty batch are undefined, too."""
    if name.startswith((ALSO_ONE, NONE, TUNED)) and outcome in RAISES:
        return IN_A_KERNEL not in detail
    if name == NONE and outcome is Outcome.INPUT_MUTATED:
        return True
    return name.startswith(DECLINABLE) and asks_for_powers(outcome, detail)


def kept_at_powers(task: Task, refused: str = "") -> Iterator[tuple[Task, list[str]]]:
    """Tasks with one size, then with all, held at a power of two in the small sets and so in those drawn from them, and the
    names of these sizes: a block as wide as a head is honest if the head's full width is a power of two. If the candidate was
    `refused` for too narrow blocks, sizes that are powers already count as well; if it asserts or raises, wider powers are
    tried last."""
    full, sets = full_sizes(task), task.small_sets
    if task.ranges:
        return
    names = [name for name in dict.fromkeys(itertools.chain(*sets.values())) if _power(full.get(name, 3))]
    small = {name: [one.get(name, full[name]) for one in sets.values()] for name in names}
    found = _WANTED.search(refused)
    least = max(_LEAST_POWER, int(found[1])) if found else _LEAST_POWER
    odd = [name for name in names if not all(map(_power, small[name]))]
    for floor in (least, _WIDE_POWER) if _by_itself(refused) and not found else (least,):
        narrow = [
            name for name in names if (found or floor > least) and min(small[name]) < min(floor, full[name])
        ]
        together = [name for name in names if name in odd or name in narrow]
        for held in (
            *([name] for name in reversed(odd)),
            *([together] if len(together) > (together == odd) else []),
        ):
            sizes = {name: min(full[name], max(floor, *map(_above, small[name]))) for name in held}
            made = {name: {**one, **sizes} for name, one in sets.items()}
            yield task.model_copy(update={"shapes": {**task.shapes, **made}}), held


def _power(size: int) -> bool:
    return size > 0 and not size & (size - 1)


def _above(size: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << max(size - 1, 0).bit_length()


def _of_family(
    task: Task, base: dict[str, int], dice: random.Random
) -> Iterator[tuple[str, list[dict[str, int]]]]:
    """Sets with each free size at its least, with all at once, and some drawn; not far above small, as they are interpreted."""
    known = {**constants(task.source), **base}
    least = {name: low for name, (low, _) in task.ranges.items()}
    small = {name: max(known[name], low) for name, low in least.items()}
    for name, low in least.items():
        yield f"{LEAST}_{name}", [base | small | {name: low}, base | least]
    yield f"{LEAST}_all", [base | least]
    for number in range(_DRAWN):
        drawn = []
        for growth in (_GROWTH, _GROWTH, 2.0, 1.5):
            room = growth ** (1 / len(least))
            ends = {name: min(task.ranges[name][1] or math.inf, small[name] * room) for name in least}
            drawn.append(base | {name: _within(low, ends[name], dice) for name, low in least.items()})
        yield f"drawn_{number}", drawn


def _within(low: int, high: float, dice: random.Random) -> int:
    return min(int(high), max(low, round(math.exp(dice.uniform(math.log(low), math.log(max(high, low)))))))


def _middle(task: Task, base: dict[str, int], free: list[str], dice: random.Random) -> list[dict[str, int]]:
    """Sizes log-uniform between small and full for all free sizes, then for one; then a little below the small ones."""
    full = {**constants(task.source), **task.shapes.get("full", {})}
    found = []
    for names in (free, *([name] for name in dice.sample(free, len(free)))):
        most = {name: math.log(max(full.get(name, base[name]) / base[name], 1.0)) for name in names}
        drawn = {name: dice.random() * room for name, room in most.items()}
        budget = math.log(_GROWTH) / (1 if len(names) > 1 else 2)
        tight = min(1.0, dice.uniform(_LEAST_GROWTH, 1.0) * budget / max(sum(drawn.values()), 1e-9))
        found.append(base | {name: _odd(base[name] * math.exp(drawn[name] * tight)) for name in names})
    for names in (free, *([name] for name in free)):
        found.append(base | {name: base[name] - dice.randint(1, max(1, base[name] // 4)) for name in names})
    return found[: len(free) + 4]


def _turned(task: Task, base: dict[str, int], free: list[str], dice: random.Random) -> list[dict[str, int]]:
    """The free sizes in reverse order of length: the longest very short, and the others longer than most blocks if that is
    not too much; then two of them exchanged."""
    full = full_sizes(task)
    order = sorted(free, key=lambda name: (base[name], full.get(name, 0)))
    sizes = [base[name] for name in order]
    least = max(_SHORT, sizes[0] // 2)
    top = min(_TURNED, (_GROWTH * math.prod(sizes) / least) ** (1 / (len(order) - 1)))
    found = []
    if top > 2 * least:
        drawn = sorted((_odd(dice.uniform(_TURNED_LEAST * top, top)) for _ in order[1:]), reverse=True)
        found.append(base | dict(zip(order, [*drawn, least], strict=True)))
    if sizes[-1] <= _TURNED:
        found.append(base | dict(zip(order, sizes[::-1], strict=True)))
        found += [base | {a: base[b], b: base[a]} for a, b in itertools.combinations(order, 2)][:_PAIRS]
    return [one for one in found if all(one[name] >= min(_SHORT, base[name]) for name in free)]


def _equal(base: dict[str, int], free: list[str], dice: random.Random) -> list[dict[str, int]]:
    """All free sizes, then two of them, set to one number between their least and their mean."""
    pairs = list(itertools.combinations(free, 2))
    found = []
    for names in (free, *dice.sample(pairs, min(len(pairs), _PAIRS))):
        sizes = [base[name] for name in names]
        mean = math.prod(sizes) ** (1 / len(sizes))
        size = _odd(_within(math.ceil(math.sqrt(min(sizes) * mean)), mean, dice))
        found.append(base | dict.fromkeys(names, size))
    return found


def _of_ratio(
    sets: Sequence[Mapping[str, int]], base: dict[str, int], dice: random.Random
) -> list[dict[str, int]]:
    """An odd ratio for two sizes of which one is a power of two times the other in all sets, like heads that share keys."""
    found = []
    free = [name for name in base if any(one.get(name) != base[name] for one in sets)]
    for long, short in itertools.permutations(free, 2):
        pairs = [(one[long], one[short]) for one in sets if long in one and short in one]
        if all(b > 0 and a > b and a % b == 0 and _power(a // b) for a, b in pairs):
            found += [base | {long: ratio * base[short]} for ratio in dice.sample(_RATIOS, len(_RATIOS))]
    return found


def _of_one(
    base: dict[str, int], ones: list[str], free: list[str], dice: random.Random
) -> list[dict[str, int]]:
    """One size 1, the first first, which is the batch in nearly every task; of the rest some powers of two and the
    others a little smaller, or all, or as they are."""
    less = {name: base[name] - dice.randint(0, max(1, base[name] // 4)) for name in free}
    powers = less | {name: _above(base[name]) for name in free if dice.random() < _POWERS}
    found = [base | powers | {name: 1} for name in ones]
    fit = [one for one in found if math.prod(one.values()) <= math.prod(base.values())]
    return fit + [base | less | {name: 1} for name in ones] + [base | {name: 1} for name in ones]


def _odd(size: float) -> int:
    """An odd integer near `size`."""
    return 2 * int(size / 2.0) + 1
