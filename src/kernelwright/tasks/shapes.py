"""Shape sets small enough for the interpreter, for tasks without any, such as KernelBench's files.

Sizes are module-level integer constants, found by syntax tree, classified by name (batch, channels, groups, extents, window
parameters), and shrunk: windows, strides and small numbers are kept, channels keep their ratios and stay multiples of the
group count, extents stay a few windows wide. Two or three proposals go from aggressive to mild; the first with which the
reference runs is taken. If none runs, the numbers that `get_inputs` and `get_init_inputs` write out are made constants.
`small_odd` has odd neighbours of the same sizes.

A shrunk task may be easier than the full one (a mean over two rows forgives more than one over a thousand), and may not exist.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations, product

from kernelwright.records import Task
from kernelwright.shapes import constants, read_by_the_model, with_named_sizes

Runs = Callable[[Task, Mapping[str, int]], bool | str | None]
"""Whether the task's reference runs, quickly and on small tensors, with these overrides; None if it runs, but writes to one place
in no defined order; a text if it runs at sizes that tell less."""

Weights = Callable[[Task, Mapping[str, int]], list[str] | None]
"""Names of the reference's weights with these overrides; None if it cannot be built."""

_KEEP = re.compile(
    r"kernel|stride|pad|dilat|factor|scal|value|const|divi|clamp|eps|axis|layers|ratio|power|p$|alpha|^min|^max"
)
_SHAPE = re.compile(r"shape(\[\d+\])?$")
_WINDOW = re.compile(r"kernel|window|pool")
_AXIS = re.compile(r"\[.*|_(depth|height|width|[dhwxyz])$")
"""Suffixes that distinguish the extents of one window."""
_BATCH = re.compile(r"^(b|bs|n_batch|batch.*)$")
_GROUP = re.compile(r"group|heads?$|n_?head|experts")
_CHANNEL = re.compile(
    r"channel|feature|hidden|embed|classes|vocab|d_model|(in|out)(put)?_?(size|dim)|^c(_in|_out)?$"
)
_EXTENT = re.compile(r"height|width|depth|length|seq|dim_?\d|dims|image|resol|^[hwdlst](_in|_out)?$")

_APART = (0, 2, -2, 4, 6, 8, 10, 12)
"""Offsets that make sizes of one kind different."""
_SMALL_VALUE = 4
"""Values up to this are kept: axes, factors, colour channels, or sizes that are already small."""


def small_shapes(task: Task, runs: Runs | None = None) -> Task:
    """`task` with shape sets `small` and `small_odd`, if it has none and valid ones are found; else unchanged.

    `runs` defaults to a `ReferenceProbe` opened for this call; for many tasks, pass an open one. `small_odd` is omitted if only
    rounded sizes run.
    """
    if task.small_sets:
        return task
    if runs is None:
        from kernelwright.tasks.probe import ReferenceProbe

        with ReferenceProbe() as probe:
            return small_shapes(task, probe)
    every = _without_layers(task, runs)
    # A candidate has its own constants and would not see these change.
    fixed = read_by_the_model(task.source) & every.keys()
    free = {name: value for name, value in every.items() if name not in fixed}
    for known in (free, every) if fixed else (every,):
        small = _first(_round(known), task, runs)
        if small is not None:
            break
    else:
        named = with_named_sizes(task.source, _SMALL_VALUE + 1)
        return task if named == task.source else _if_found(task, named, runs)
    odd = _first((over for over in _odd_neighbours(known, small) if over != small), task, runs)
    found = {"small": small} | ({"small_odd": odd} if odd else {})
    return task.model_copy(update={"shapes": {**task.shapes, **found}})


def _if_found(task: Task, source: str, runs: Runs) -> Task:
    """The task with that source if it has small sizes then."""
    sized = small_shapes(task.model_copy(update={"source": source}), runs)
    return sized if sized.small_sets else task


def _first(proposals: Iterable[dict[str, int]], task: Task, runs: Runs) -> dict[str, int] | None:
    """The first at which the reference runs and writes in a defined order, if need be with two sizes exchanged (more tokens than
    a line is long); else the first at which it runs."""
    disordered = narrow = None
    tried: list[dict[str, int]] = []
    for over in proposals:
        if over in tried:
            continue
        tried.append(over)
        answer = runs(task, over)
        if answer is True:
            return over
        if isinstance(answer, str):
            narrow = narrow or over
        if answer is None:
            disordered = disordered or over
            exchanged = (
                {**over, a: over[b], b: over[a]} for a, b in combinations(over, 2) if over[a] != over[b]
            )
            ordered = next((one for one in exchanged if runs(task, one) is True), None)
            if ordered is not None:
                return ordered
    return disordered or narrow


def _without_layers(task: Task, runs: Runs) -> dict[str, int]:
    """The task's constants but for those that decide how many weights there are, such as a number of layers: those are no sizes.
    Only a `ReferenceProbe` can tell."""
    known = constants(task.source)
    weights: Weights | None = getattr(runs, "weights", None)
    usual = weights(task, {}) if weights else None
    if weights is None or not usual:
        return known
    counts = {
        name
        for name, value in known.items()
        if kind_of(name, value) not in ("keep", "batch")
        and len(weights(task, {name: value + 1}) or usual) != len(usual)
    }
    return {name: value for name, value in known.items() if name not in counts}


def kind_of(name: str, value: int) -> str:
    """The role of a constant, by its name and value: keep, batch, group, channel, extent or other."""
    low = name.lower()
    if value <= _SMALL_VALUE or (_KEEP.search(low) and not _SHAPE.search(low)):
        return "keep"
    for kind, pattern in (("batch", _BATCH), ("group", _GROUP), ("channel", _CHANNEL), ("extent", _EXTENT)):
        if pattern.search(low):
            return kind
    return "other"


def _round(known: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Proposals from aggressive to mild. Each override depends only on the constant's value and kind, so equal sizes stay equal."""
    kinds = {name: kind_of(name, value) for name, value in known.items()}
    sizes = {value for name, value in known.items() if kinds[name] in ("channel", "extent", "other")}
    tied = {
        name: "other" if kind == "batch" and known[name] in sizes else kind for name, kind in kinds.items()
    }
    as_one = {name: "other" if kind in ("channel", "extent") else kind for name, kind in kinds.items()}
    for caps in _caps(known, kinds):
        yield _scale(known, kinds, *caps)
    if tied != kinds:
        yield from (_scale(known, tied, *caps) for caps in _caps(known, tied))
    if as_one != kinds:
        # A norm over the last extent ties it to a channel count: shrink both by the same factor.
        yield from (_scale(known, as_one, *caps) for caps in ((16, 0), (32, 0)))
        # Counts of blocks, whose length is written out: several make much of a small batch.
        batches = {name: 2 for name, value in known.items() if value > 2 and _BATCH.search(name.lower())}
        yield _scale(known, as_one, 16, 0) | batches
    # If extents are inside `get_inputs`, only the batch can shrink.
    yield {name: 1 for name, kind in kinds.items() if kind == "batch"}


def _caps(known: Mapping[str, int], kinds: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    """(largest channel count, largest extent) to try, in order."""
    stems: dict[str, int] = {}
    for name, value in known.items():
        if _WINDOW.search(name.lower()):
            stem = _AXIS.sub("", name.lower())
            stems[stem] = max(stems.get(stem, 0), value)
    dilation = max([v for n, v in known.items() if "dilat" in n.lower()], default=1)
    windows = sum(stems.values()) * dilation
    count = Counter(kinds.values())
    for channels, extent in ((8, 8), (16, 16), (32, 32), (64, 64)):
        if count["extent"] == 1:
            extent *= 4
        wide = 2 * windows + 2
        if count["extent"] >= 3:  # a volume multiplies its three extents
            extent, wide = extent * 3 // 4, windows + 2
        if not count["extent"]:
            # One row size besides a batch is cheap; the cost of a matrix product grows with every size.
            rows = count["batch"] == 1 and count["channel"] + count["other"] == 1
            channels = max(channels * (96 if rows else 6), 4 * windows)
        yield channels, max(extent, wide)


def _scale(
    known: Mapping[str, int], kinds: Mapping[str, str], channel_cap: int, extent_cap: int
) -> dict[str, int]:
    groups = {n: min(v, 4) if v % 4 == 0 else _divisor(v) for n, v in known.items() if kinds[n] == "group"}
    multiple = math.lcm(
        *groups.values(), *(v for n, v in known.items() if _GROUP.search(n) and n not in groups)
    )
    top = max((v for n, v in known.items() if kinds[n] in ("channel", "other")), default=1)
    shrink = max(1.0, top / channel_cap)
    over: dict[str, int] = {}
    for name, value in known.items():
        kind = kinds[name]
        if kind == "batch":
            over[name] = min(value, 2 if "extent" in kinds.values() else 4)
        elif kind == "group":
            over[name] = groups[name]
        elif kind in ("channel", "other"):
            scaled = max(math.ceil(value / shrink), min(value, _SMALL_VALUE))
            over[name] = math.ceil(scaled / multiple) * multiple
        elif kind == "extent":
            over[name] = min(value, extent_cap)
    return {name: value for name, value in over.items() if value != known[name]}


def _odd_neighbours(known: Mapping[str, int], small: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Odd neighbours of the rounded sizes, from all sizes different to only the batch changed."""
    kinds = {name: kind_of(name, known[name]) for name in known}
    sized = {name: small.get(name, known[name]) for name in known if kinds[name] not in ("keep", "group")}
    for apart, channels, extents in product((1, 0), (1, 0), (1, 0)):
        over = dict(small)
        count: Counter[str] = Counter()
        for name, value in sized.items():
            kind = kinds[name]
            if (kind == "extent" and extents) or (kind in ("channel", "other") and channels):
                over[name] = (value | 1) + _APART[count[kind] % len(_APART)] * apart
                count[kind] += 1
            elif kind == "batch":
                # A batch tied to another size stays tied.
                over[name] = 3 if value <= _SMALL_VALUE else value | 1
        yield over
    if "group" in kinds.values():
        # Channels must stay multiples of the groups: three times the rounded size is a multiple, and not a power of two.
        triple = {n: 3 * v for n, v in sized.items() if kinds[n] in ("channel", "other")}
        extents_odd = {n: v | 1 for n, v in sized.items() if kinds[n] == "extent"}
        yield {**small, **triple, **extents_odd}
        yield {**small, **triple}
    for kept in sized:  # one of them may have to be even
        yield {**small, **{name: value if name == kept else value | 1 for name, value in sized.items()}}


def _divisor(value: int) -> int:
    """The smallest divisor of `value` above 1: a smaller group count that still divides all that `value` did."""
    return next(d for d in range(2, value + 1) if value % d == 0)
