"""Sizes that nobody but the judge knows, at which a kernel must be right as well.

Small sizes are public and few, so a kernel can be right at those and the full size and wrong elsewhere: for a batch of
one, between the two, where sizes are equal, or where the longer one is the shorter. Four kinds of sets are proposed, each
as a list of alternatives of which the judge takes the first that the reference accepts. Which names may change is read off the task: those that its own small sets vary.

A candidate that names a number which sizes are divided by, or held against, is also tried at multiples of it, and just above
one that it compares with.

Does not guarantee that a task has any (a reference may accept its own sizes only), nor that a condition on a size
that no set meets is found.
"""

from __future__ import annotations

import ast
import itertools
import math
import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from kernelwright.outcomes import Outcome
from kernelwright.parsing import is_kernel, parse
from kernelwright.records import Task
from kernelwright.shapes import constants

ONE = "hidden_one"
"""The set in which one size is 1: of the task's own inputs only."""
ALSO_ONE = f"{ONE}_"
"""Begins the names of sets in which another size is 1, and the first that varies is 2, 3 or 4: of the task's own inputs only."""
FEW = "few"
"""Begins the names of sets at which a size is a small number that a candidate compares with: of the task's own inputs only."""
RATIO = "hidden_ratio"
RELATED = ("hidden_turned", "hidden_equal", RATIO)
"""The sets in which the order of sizes is the contrary, they are equal, or one is 3, 5 or 7 times another: of the task's own inputs
only."""
DECLINABLE = (RATIO, ALSO_ONE)
"""At which a candidate may refuse (`may_decline`)."""
TUNED = "tuned before"
"""The name of sets before which a tuner has met another size."""
NONE = "hidden_none"
"""The set in which one size is 0, as of an expert without tokens: of the task's own inputs only."""
FAINT = "hidden_faint"
"""The set of ordinary sizes at which weights are as small as the constants beside them: of the task's own inputs only."""
_FEW = (2, 3, 4)
"""What the first size is beside another one of 1."""
_RATIOS = (3, 5, 7)
"""Of two sizes of which one is a power of two times the other in every set."""
LEAST = "least"
"""Begins the names of sets of a family in which a size, or every size, is at its least."""
_TURNED, _TURNED_LEAST = 79, 0.6
"""The longest of sizes in the opposite order, and the share of it that all but one have: programs may be as many."""
_SHORT = 9
"""A size that is turned is no shorter, unless it was: a block of fewer is a block that honest kernels do not take apart."""
_PAIRS = 3
"""Pairs of sizes that are tried where not all are taken at once."""
_DRAWN = 2
"""Sets of a family that are drawn within it."""
_RAGGED, _ROOM = 0.6, 2.0
"""Of a size near the full one that nothing divides: its least share of that; of smaller ones there is nothing between."""
_TILED = 256
"""Such a size is one more than a multiple of that, where there is room."""
_BLOCKS, _WIDEST = 8, 4096
"""Of the widest blocks that such a size is one lane more than: so many are in the full size at least, and their width at most."""
_GROWTH = 4.0
"""Factor that a middle set may have over a small one, all its sizes together: programs are interpreted."""
_LEAST_GROWTH = 0.75
"""Share, on a log scale, of the room for growth that a middle set takes at least where it is cut to it: its size is a secret too."""


_NAMED, _LARGEST = 2, 2048
"""Of the numbers that a candidate names: so many are tried, and none above that."""
_WIDER = 24.0
"""Factor that a set of multiples may have over a small one, all its sizes together."""


_OF_BLOCKS = ("must be a power of 2", "Input shapes should have M")
"""What Triton says of a block of no size that it takes."""
_WANTED = re.compile(r"Input shapes should have M.* K >= (\d+)")
_OF_HINTS = ("Assume failed", "promises a multiple")
"""What the interpreter says of a false hint: such a kernel refuses nothing, it is wrong there."""
_LEAST_POWER, _WIDE_POWER = 16, 128
"""A size that is held at a power of two is no smaller: products of blocks want as many; and where an assertion still refuses it, than the
second: lengths of whole blocks, groups of codes."""
_RAISES = (Outcome.COMPILE_ERROR, Outcome.RUNTIME_ERROR)
_BRANCHES = (ast.If, ast.IfExp, ast.Match, ast.Compare, ast.And, ast.Or, ast.RShift, ast.BitAnd, ast.BitXor)
_RANKS = ("ndim", "dim", "len", "element_size", "itemsize")
"""What is compared with small numbers and is no size."""
_MOST_FEW, _SETS_OF_FEW = 64, 4
"""The largest such number, and how many sets there are of them."""
_DIVIDES = ("gcd", "lcm", "divmod", "fmod", "remainder", "mod")
_LEAST, _SMALLER = 3, 32
"""Beside a size beyond a bound others are so much smaller than the small ones, and no smaller than the first."""
_BOUNDS, _LARGEST_BOUND = 3, 4096
"""Sets that lie beyond a bound which a candidate names, and the largest such bound."""


def named_numbers(code: str) -> list[int]:
    """Numbers that a candidate takes remainders by, looks for a common divisor with, or compares for being equal, the most unusual
    first: 3 and powers of two are what blocks and warps are made of."""
    tree = parse(code)
    value_of = _values(tree)
    found: set[int] = set()
    for node in ast.walk(tree):
        others: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            others = [node.right]
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            others = node.args if name in _DIVIDES else []
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
    """Numbers that a candidate compares with to see which is larger, ascending."""
    tree = parse(code)
    value_of = _values(tree)
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and any(
            isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops
        ):
            found |= {v for one in (node.left, *node.comparators) if (v := value_of(one)) is not None}
    return sorted(value for value in found if 3 < value <= _LARGEST_BOUND)


def named_few(code: str) -> list[int]:
    """3 and powers of two that a candidate's Python, its kernels apart, compares for being equal, and what is at a bound up to 4,
    ascending: a path of its own for two rows. Not what is compared with a number of axes, or a remainder."""
    tree = parse(code)
    value_of = _values(tree)
    found: set[int] = set()
    for node in _beside_kernels(tree):
        if isinstance(node, ast.MatchValue):
            found.add(value_of(node.value) or 0)
        elif isinstance(node, ast.Compare) and not any(map(_is_no_size, ast.walk(node))):
            sides = [node.left, *node.comparators]
            parts = [getattr(one, "elts", [one]) for one in sides]
            values = {value for one in itertools.chain(*parts) if (value := value_of(one)) is not None}
            equal = any(isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops)
            found |= values if equal else {near for one in values for near in (one - 1, one) if near in _FEW}
    return sorted(one for one in found if one == 3 or (1 < one <= _MOST_FEW and _power(one)))


def may_choose(code: str, launched: Collection[str]) -> bool:
    """Whether a candidate's Python, its kernels apart, may launch something else at other sizes: it branches, compares, looks
    something up or takes bits, or has a kernel that is not among those `launched` and is no part of another."""
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


def named_divisors(code: str) -> list[int]:
    """Powers of two that a candidate's Python, its kernels apart, takes remainders by, by `%` or by `&` of one less; the largest first."""
    tree = parse(code)
    value_of = _values(tree)
    found: set[int] = set()
    for node in _beside_kernels(tree):
        if not isinstance(node, ast.BinOp):
            continue
        if isinstance(node.op, ast.Mod):
            found.add(value_of(node.right) or 0)
        elif isinstance(node.op, ast.BitAnd):
            found |= {(value_of(one) or 0) + 1 for one in (node.left, node.right)}
    return sorted((one for one in found if 1 < one <= _LARGEST and _power(one)), reverse=True)[:_NAMED]


def sizes_divided(task: Task, shapes: Sequence[str], divisors: Sequence[int]) -> list[dict[str, int]]:
    """Sets in which one size is a multiple of a number, and the others are odd."""
    sets = [task.shapes[name] for name in shapes]
    base = dict(sets[min(1, len(sets) - 1)])
    free = varying(base, sets)
    odd = base | {name: _odd(base[name]) for name in free}
    found = []
    for number in divisors:
        for name in free:
            made = odd | {name: number * max(1, round(base[name] / number))}
            if math.prod(made.values()) <= _WIDER * math.prod(base.values()):
                found.append(made)
    return found[:_SETS_OF_FEW]


def _is_no_size(node: ast.AST) -> bool:
    """Whether what it is a part of is a number of axes, or a remainder."""
    return isinstance(node, ast.Mod) or getattr(node, "attr", getattr(node, "id", "")) in _RANKS


def sizes_at(task: Task, shapes: Sequence[str], numbers: Sequence[int]) -> list[dict[str, int]]:
    """Sets in which one size is a number, of those that no small set has, the first size first."""
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


def _beside_kernels(tree: ast.Module) -> Iterator[ast.AST]:
    """What a candidate's Python is made of, its kernels apart."""
    kernels = {id(part) for one in ast.walk(tree) if is_kernel(one) for part in ast.walk(one)}
    return (node for node in ast.walk(tree) if id(node) not in kernels)


def varying(base: Mapping[str, int], sets: Sequence[Mapping[str, int]]) -> list[str]:
    """Sizes that another of the sets has otherwise than `base`."""
    return [name for name, size in base.items() if any(other.get(name) != size for other in sets)]


def _values(tree: ast.Module) -> Callable[[ast.expr], int | None]:
    """What an expression's whole number is: a literal, or a name that the module gives to one."""
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


def sizes_beyond(task: Task, shapes: Sequence[str], bounds: Sequence[int]) -> list[dict[str, int]]:
    """Sets in which one size is just above a bound that no small set is above, and the others are very small."""
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
            made = least | {name: bound + 1}
            known = max(other.get(name, base[name]) for other in sets)
            if known <= bound < full.get(name, known) and math.prod(made.values()) <= _WIDER * math.prod(
                base.values()
            ):
                found.append(made)
    return found[:_BOUNDS]


def sizes_of(task: Task, shapes: Sequence[str], number: int, secret: int) -> list[dict[str, int]]:
    """Sets of multiples of a number: of all sizes that may change where that is small enough, else of one."""
    dice = random.Random(f"{secret}:{task.digest}:{number}")
    sets = [task.shapes[name] for name in shapes]
    base = dict(sets[min(1, len(sets) - 1)])
    free = varying(base, sets)
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
    if task.ranges:
        yield from _of_family(task, base, dice)
        return
    varied = varying(base, sets)
    free = [name for name in varied if base[name] >= 4]
    if free:
        yield "hidden", _middle(task, base, free, dice)
    several = [name for name in varied if base[name] > 1]
    if len(several) > 1:
        yield RELATED[0], _turned(task, base, several, dice)
        yield RELATED[1], _equal(base, several, dice)
    if varied and (ratios := _of_ratio([*sets, full_sizes(task)], base, dice)):
        yield RATIO, ratios
    ones = [name for name in varied if all(other.get(name, 0) > 1 for other in sets)]
    if ones:
        yield ONE, _of_one(base, ones, free, dice)
    if len(ones) > 1:  # the last is a width, which is 1 nowhere where there is another
        name = dice.choice(ones[1:-1] or ones[1:])
        few = {varied[0]: dice.choice(_FEW)} if name != varied[0] else {}
        yield f"{ALSO_ONE}{name}", [base | few | {name: 1}, base | {name: 1}]
    if varied:
        yield FAINT, [base]


def own_only(name: str) -> bool:
    """Whether a set is one of the task's own inputs only."""
    return name in (*RELATED, NONE, FAINT) or name.startswith((ONE, FEW))


def none_of_each(task: Task, shapes: Sequence[str]) -> list[dict[str, int]]:
    """Sizes of which one that varies is 0, the first first; none for a family."""
    sets = [task.shapes[name] for name in shapes]
    base = dict(sets[0])
    varied = varying(base, sets)
    return [] if task.ranges else [base | {name: 0} for name in varied]


def large_sets(task: Task, secret: int) -> list[dict[str, int]]:
    """Sets of a family beyond those whose programs are all interpreted: log-uniform between those and the most, and every
    free size at its most; the full one where any is taken."""
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
    """Sizes near the full ones that nothing divides: of all that may change, and where a reference does not take that, of one."""
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
    """An odd number near `most`. Where there is room, one more than blocks of any width are full with, so that the last has a single
    lane, and blocks of 16 to 128 are an odd number: groups of them are left over."""
    wide = min(max(1 << max(most // _BLOCKS, 1).bit_length() - 1, _TILED), _WIDEST)
    least, last = math.ceil(_RAGGED * most / wide), (most - 2) // wide
    if least <= last:
        return wide * dice.randint(least, last) + 1
    return _odd(round(dice.uniform(_RAGGED, 1.0) * most)) - 2


def full_sizes(task: Task) -> dict[str, int]:
    """What the constants of a task's source are at full size."""
    return {**constants(task.source), **task.shapes.get("full", {})}


def inside(task: Task, sizes: Mapping[str, int]) -> bool:
    """Whether sizes lie in the family that a task is asked for."""
    known = {**constants(task.source), **sizes}
    return all(least <= known[name] <= (most or known[name]) for name, (least, most) in task.ranges.items())


def asks_for_powers(outcome: Outcome, detail: str) -> bool:
    """Whether a candidate was refused where it refuses sizes itself: a block of the compiler's that is no power of two, or too
    narrow for a product, or an assertion."""
    if outcome is Outcome.COMPILE_ERROR:
        return any(said in detail for said in _OF_BLOCKS)
    asserted = outcome is Outcome.RUNTIME_ERROR and "AssertionError" in detail
    return asserted and not any(said in detail for said in _OF_HINTS)


def may_decline(name: str, outcome: Outcome, detail: str) -> bool:
    """Whether what a candidate does at a set is no more than a refusal that it is free to make: a ratio of sizes that its task does
    not have, a size of 1 that is not the first (a width), one of 0 or one that was not tuned for, at which what raises has said so; and what a batch of nothing makes of
    running statistics nobody says."""
    if name.startswith((ALSO_ONE, NONE, TUNED)) and outcome in _RAISES:
        return not any(said in detail for said in _OF_HINTS)
    if name == NONE and outcome is Outcome.INPUT_MUTATED:
        return True
    return name.startswith(DECLINABLE) and asks_for_powers(outcome, detail)


def kept_at_powers(task: Task, refused: str = "") -> Iterator[tuple[Task, list[str]]]:
    """The task with one size, then with all, held at a power of two in its small sets, and so in those that are drawn from them: a
    block as wide as a head is honest where the head's width is a power of two at full size. With the names of those sizes. Where a
    candidate was `refused` for blocks that are too narrow, all are those that are powers, too; what asserts is asked at wider ones, at
    last."""
    full, sets = full_sizes(task), task.shape_sets("small")
    if task.ranges:
        return
    names = [name for name in dict.fromkeys(itertools.chain(*sets.values())) if _power(full.get(name, 3))]
    small = {name: [one.get(name, full[name]) for one in sets.values()] for name in names}
    found = _WANTED.search(refused)
    least = max(_LEAST_POWER, int(found[1])) if found else _LEAST_POWER
    odd = [name for name in names if not all(map(_power, small[name]))]
    for floor in (least, _WIDE_POWER) if "AssertionError" in refused and not found else (least,):
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
    """The least power of two that is no smaller."""
    return 1 << max(size - 1, 0).bit_length()


def _of_family(
    task: Task, base: dict[str, int], dice: random.Random
) -> Iterator[tuple[str, list[dict[str, int]]]]:
    """Each free size at its least, all at once, and some drawn within; programs are interpreted, so not far above small."""
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
    """Log-uniform between small and full for all free sizes, else for one; then a little below the small ones."""
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
    """The free sizes in the opposite order: the longest is very short, and the others longer than most blocks where that is
    not too much; else two of them changed about."""
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
    """All free sizes, then two of them, at one number between their least and their mean."""
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
    """Of two sizes of which one is a power of two times the other in all sets, as heads are that share keys, an odd ratio."""
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
    """The first size that may be 1, which is the batch in nearly every task, else another; the rest a little smaller."""
    less = {name: base[name] - dice.randint(0, max(1, base[name] // 4)) for name in free}
    return [base | less | {name: 1} for name in ones] + [base | {name: 1} for name in ones]


def _odd(size: float) -> int:
    """A whole number near `size` that no power of two divides."""
    return 2 * int(size / 2.0) + 1
