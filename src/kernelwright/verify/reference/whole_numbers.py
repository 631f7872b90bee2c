"""Integers and booleans that a reference accepts and its task does not draw.

Tasks often draw them narrowly: indices that are never negative and never repeat, lengths that are all full, bags of one size,
a causal mask, small codes. Which others have a meaning is tried on the reference: what it accepts without raising, with
outputs as finite as before, a user may pass, and an honest kernel gets it right.

Changes are tried one after another, each on some elements, so that one case holds all that were accepted. Numbers 0 and 1
stay 0 and 1, as they may be booleans; sorted numbers stay sorted, as they may be offsets.

Numbers that are all equal (`alike`: tokens that all go to one expert, a block of one id; bytes near the end of their range)
are a case by themselves: counts and sums are largest there, and whole blocks of a mask may be left out, or need no mask.

Does not find what is accepted only in combination (indices and lengths that belong together).
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch

from kernelwright.parsing import parse
from kernelwright.verify.reference.distributions import in_order, orders
from kernelwright.verify.reference.operators import Operators
from kernelwright.verify.reference.task_module import where_possible
from kernelwright.verify.structures import convert, flatten, with_changed

Change = Callable[[torch.Tensor], torch.Tensor]
_LEFT_ALONE = ("ctc_loss", "pack_padded", "dropout", "bernoulli", "rand", "normal", "uniform")
"""Operators that use integers as addresses without checking them, and operators that draw."""
_COUNTING = ("bincount", "one_hot", "repeat_interleave", "histc", "arange", "_local_scalar_dense", "_to_copy")
"""Operators that make a size of a large integer, or a float that loses digits of it."""
_LAST_WINS = ("index_put", "index_copy", "put", "scatter", "masked_scatter")
"""Operators with undefined results for repeated indices."""
_FROM_THE_END = {"index", "index_put", "_index_put_impl"}
"""Operators to which a negative index counts from the end."""
_SUMMED = ("scatter_add", "scatter_reduce")
_WEIGHED = ("softmax", "attention")
"""Operators with which booleans that are all equal may leave nothing to look at."""
_TABLES = {"index", "index_select", "embedding", "gather"}
"""Operators to which an integer is a place in a table."""
_MORE_KINDS = (2, 7)
"""The last of several kinds."""
_GROUPING = {
    "scatter_add", "scatter_reduce", "index_add", "index_reduce", "index_put", "_index_put_impl", "bincount", "one_hot",
    "searchsorted", "bucketize", "repeat_interleave", "_embedding_bag", "_embedding_bag_forward_only", "segment_reduce",
    "sort", "argsort", "nonzero",
}  # fmt: skip
"""Operators that make lists of what integers name alike."""
_TRUTHS = ("eq", "ne", "where", "masked_fill", "logical_not", "logical_and", "bitwise_and", "_to_copy")
"""Operators that may use an integer as a boolean."""
_WIDE = {2: 13, 4: 30, 8: 40}
"""Bits of large integers, by their bytes."""
_STAMPS, _FURTHER = {torch.int32: 30, torch.int64: 60}, 0.4
"""Bits of numbers of which only differences count, and by how much more of these numbers they may exceed a power of two."""
_PACKED, _LEAST_PACKED = 16, 8
"""Bits that integers are moved by, and the least."""
_TELLING_APART = {"isin", "unique_consecutive", "_unique2", "unique_dim", "searchsorted", "sort", "argsort"}
"""Operators that compare integers with each other."""
_EXTREMA = {"max", "amax", "min", "amin", "aminmax", "any", "all"}
_COMPARES = ("eq", "ne", "ge", "gt", "le", "lt")
_NEAR_THE_END = 4
"""Bytes of one sign are drawn from this many numbers at the end of their range: sums of a single number may need fewer
digits."""
_MANY = 1 << 16
"""Integers drawn from so many are numbers, no indices or kinds."""
_SHARE, _HALF = 0.25, 0.5
_OTHERS = 1 / 16
"""Share of the entries that a long list leaves to the others."""
_POWERS = 2 / 3
"""Of numbers next to powers of two and squares, the share that is next to powers: those of logarithms are fewer."""
_ROUNDED = 1e-5
"""Share of the largest output by which roundings may move an output."""
_LATER = ((1 << 12, 1 << 14), (1 << 15, 3 << 14))
"""Ranges for what is added to consecutive numbers, like positions after a cache."""
_LEAST_POSITIONS = 3
_ENOUGH = 0.5
"""Share of the previously finite elements that must stay finite."""


def next_to_powers(shape: Sequence[int], bits: int, generator: torch.Generator) -> torch.Tensor:
    """Numbers next to powers of two and to squares of up to that many bits, where roots and logarithms of floats err: most often
    just below. Among few elements no power comes a second time before each has come."""
    count, every = math.prod(shape), bits - 1
    orders = torch.rand(-(-count // every), every, generator=generator).argsort(1)
    powers = 1 << 1 + orders.reshape(-1)[:count].reshape(shape)
    squares = torch.randint(1, 1 << bits // 2, shape, generator=generator) ** 2
    made = torch.where(torch.rand(shape, generator=generator) < _POWERS, powers, squares)
    return made + torch.tensor([-1, -1, 0, 1])[torch.randint(4, shape, generator=generator)]


def named_in(source: str, sizes: Collection[str] = ()) -> list[int]:
    """Integers that a task's own source names: one that is ignored, or stands for padding. Negative ones that are axes, sizes
    or indices from the end do not count, nor what is assigned to the task's `sizes`."""
    found = set()
    tree = parse(source)
    counted = {id(part) for node in ast.walk(tree) for part in _counts_from_the_end(node)}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and not _assigned(statement).isdisjoint(sizes):
            counted.update(map(id, ast.walk(statement)))
    for node in ast.walk(tree):
        if id(node) in counted:
            continue
        if isinstance(node, ast.Constant) and type(node.value) is int:
            found.add(node.value)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = getattr(node.operand, "value", None)
            if type(value) is int:
                found.add(-value)
    return sorted(found)


def _assigned(statement: ast.Assign) -> set[str]:
    return {
        part.id for target in statement.targets for part in ast.walk(target) if isinstance(part, ast.Name)
    }


def _counts_from_the_end(node: ast.AST) -> list[ast.expr]:
    """Expressions in which a negative number is an axis (`softmax(x, -1)`), a size (`view(n, -1)`) or an index (`x[-1]`)."""
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        axes = [word.value for word in node.keywords if word.arg in ("dim", "dims", "axis")]
        given = [*(() if name in _COMPARES else node.args), *axes]
    elif isinstance(node, ast.Subscript):
        given = [node.slice]
    else:
        return []
    parts = [
        part for one in given for part in (one.elts if isinstance(one, (ast.Tuple, ast.List)) else [one])
    ]
    ends = [end for part in parts if isinstance(part, ast.Slice) for end in (part.lower, part.upper)]
    return [*parts, *(end for end in ends if end is not None)]


def wider(
    inputs: object,
    again: object,
    call: Callable[[object], list[torch.Tensor]],
    operators: Operators,
    named: Sequence[int],
    seed: int,
) -> Any:
    """The inputs with integers and booleans that the task does not draw; None if the reference accepts no others. `again`:
    inputs of another draw. `call`: the reference, which may raise. `operators`: its operators. `named`: numbers that the task
    names."""
    names = {name.rstrip("_") for name in operators}
    given = flatten(inputs)
    if any(word in name for name in names for word in _LEFT_ALONE):
        return None
    if all(tensor.is_floating_point() or tensor.is_complex() for tensor in given):
        return None
    generator = torch.Generator().manual_seed(seed)
    extents = {extent for one in given if one.is_floating_point() for extent in one.shape}
    changes = [
        _of_documents(tensor, other, generator)
        if operators.among and _climbs_along_rows(tensor) and _climbs_along_rows(other)
        else _changes(tensor, other, names | _as_places(tensor, operators.kinds), named, extents, generator)
        for tensor, other in zip(given, flatten(again), strict=True)
    ]
    return take(inputs, changes, call)


def in_some_rows(
    inputs: object, wide: object, call: Callable[[object], list[torch.Tensor]], operators: Sequence[str]
) -> Any:
    """The inputs with integers of every other row as in `wide`, so that what holds for one row does not for all; None unless the
    reference takes an extremum, or asks whether any or all are so, and accepts that. `call` as in `wider`."""
    if _EXTREMA.isdisjoint(name.rstrip("_") for name in operators):
        return None

    def changes(tensor: torch.Tensor, other: torch.Tensor) -> Iterator[Change]:
        if not tensor.is_floating_point() and tensor.ndim > 1 and len(tensor) > 1:
            rows = (torch.arange(len(tensor)) % 2 == 1).reshape(-1, *(1,) * (tensor.ndim - 1))
            yield lambda old: torch.where(rows, other, old)

    return take(inputs, list(map(changes, flatten(inputs), flatten(wide))), call)


def _as_places(tensor: torch.Tensor, kinds: frozenset[int]) -> set[str]:
    """Operators that restrict integers the same way: used if a tensor's integers are all kinds that the reference tests for,
    as kernels may index a table of experts with them."""
    if tensor.is_floating_point() or tensor.is_complex() or not tensor.numel():
        return set()
    low, high = int(tensor.min()), int(tensor.max())
    all_kinds = high - low < len(kinds) and kinds.issuperset(range(low, high + 1))
    return {"index", "one_hot"} if all_kinds else set()


def alike(
    inputs: object,
    again: object,
    call: Callable[[object], list[torch.Tensor]],
    operators: Sequence[str],
    seed: int,
    by_row: bool,
) -> Any:
    """The inputs with integers that are one number throughout, or one per row (`by_row`; in a vector per block); None if the
    reference accepts none. Arguments as in `wider`."""
    names = {name.rstrip("_") for name in operators}
    given = flatten(inputs)
    if any(word in name for name in names for word in _LEFT_ALONE):
        return None
    generator = torch.Generator().manual_seed(seed)
    changes: list[Iterator[Change]] = [
        _even_out(tensor, other, names, by_row, generator)
        for tensor, other in zip(given, flatten(again), strict=True)
    ]
    return take(inputs, changes, call)


def met_again(inputs: object, call: Callable[[object], list[torch.Tensor]], seed: int) -> Any:
    """The inputs with integers of which rows, and vectors, hold one number throughout, but at both ends another (an id that is met
    again only far away); None if the reference accepts none. `call` as in `wider`."""
    generator = torch.Generator().manual_seed(seed)
    known: list[torch.Tensor] = []

    def changes(tensor: torch.Tensor) -> Iterator[Change]:
        if tensor.dtype not in (torch.int32, torch.int64) or tensor.numel() < 2:
            return
        if orders(tensor) or _climbs_along_rows(tensor):
            return
        if not known:
            known.append(tensor.unique()[torch.randperm(len(tensor.unique()), generator=generator)[:2]])
        other, number = known[0][0], known[0][-1]
        if number >= tensor.min() and other <= tensor.max():
            ends = torch.arange(tensor.shape[-1]) % max(tensor.shape[-1] - 1, 1) == 0
            yield lambda old: torch.where(ends, other, number).expand_as(old)

    return take(inputs, [changes(one) for one in flatten(inputs)], call)


def far_on(
    inputs: object, call: Callable[[object], list[torch.Tensor]], operators: Sequence[str], seed: int
) -> Any:
    """The inputs with one number added to all integers of a type, like times since 1970: between 2^30 and 1.4 times that, or 2^60.
    None if outputs are not the same then, so that not only differences count. `call` and `operators` as in `wider`."""
    given = flatten(inputs)
    if _are_sizes(given, operators):
        return None
    share = float(torch.rand((), generator=torch.Generator().manual_seed(seed)))
    further = {dtype: int((1 << bits) * (1.0 + _FURTHER * share)) for dtype, bits in _STAMPS.items()}
    for one in given:
        if (
            one.dtype in further
            and one.numel()
            and int(one.max()) > torch.iinfo(one.dtype).max - further[one.dtype]
        ):
            return None
    made = convert(inputs, lambda one: one + further[one.dtype] if one.dtype in further else one)
    try:
        return made if all(map(torch.equal, call(inputs), call(made))) else None
    except Exception:  # the reference refuses such integers
        return None


def _are_sizes(given: Sequence[torch.Tensor], operators: Sequence[str]) -> bool:
    """Whether integers among the tensors may be sizes or offsets."""
    names, extents = {name.rstrip("_") for name in operators}, _extents(given)
    sized = any(word in name for name in names for word in (*_LEFT_ALONE, *_COUNTING) if word != "_to_copy")
    return sized or any(_divides(one, extents) for one in given if one.numel())


def spread_out(inputs: object, call: Callable[[object], list[torch.Tensor]], operators: Operators) -> Any:
    """The inputs with all integers multiplied by 65,536, like addresses and packed numbers, whose low bits tell nothing; of 32 bits by
    less. None unless the reference compares integers, and makes of these what it does of the drawn ones, or that multiplied.
    `call` as in `wider`."""
    given = [one for one in flatten(inputs) if one.dtype in _STAMPS and one.numel() > 1]
    compares = operators.among or not _TELLING_APART.isdisjoint(name.rstrip("_") for name in operators)
    # A range of Python numbers makes no size of an integer.
    computing = [name for name in operators if name != "arange"]
    if not (given and compares) or _are_sizes(flatten(inputs), computing):
        return None
    most = {
        one.dtype: max(int(other.abs().max()) for other in given if other.dtype == one.dtype) for one in given
    }
    bits = min(_PACKED, *(_STAMPS[dtype] - size.bit_length() for dtype, size in most.items()))
    if bits < _LEAST_PACKED or max(most.values()) < 2:
        return None
    made = convert(inputs, lambda one: one << bits if one.dtype in _STAMPS and one.numel() > 1 else one)
    with where_possible():
        pairs = zip(call(inputs), call(made), strict=True)
        same = all(torch.equal(one, two) or _is_multiplied(one, two, bits) for one, two in pairs)
        return made if same else None
    return None


def _is_multiplied(one: torch.Tensor, other: torch.Tensor, bits: int) -> bool:
    return one.dtype in _STAMPS and one.shape == other.shape and torch.equal(one << bits, other)


def groups(operators: Operators) -> bool:
    """Whether a reference may make lists (of each expert's tokens) of what integers name."""
    named = {name.rstrip("_") for name in operators}
    return operators.among or len(operators.kinds) > 2 or not named.isdisjoint(_GROUPING)


def lists(inputs: object) -> tuple[int, int]:
    """(entries, number) of the lists that integers among the inputs name or divide; of several the most. Zeros if none do."""
    given = flatten(inputs)
    extents = _extents(given)
    found = [(0, 0)]
    for one in given:
        if _names_lists(one):
            ends = _divides(one, extents)
            found.append((int(one[-1]), len(one) - 1) if ends else (one.numel(), int(one.max()) + 1))
    return max(one[0] for one in found), max(one[1] for one in found)


def uneven(inputs: object, call: Callable[[object], list[torch.Tensor]], seed: int) -> Any:
    """The inputs with integers that give one list nearly all entries; None if the reference accepts none. `call` as in `wider`."""
    generator = torch.Generator().manual_seed(seed)
    given = flatten(inputs)
    extents = _extents(given)

    def changes(tensor: torch.Tensor) -> Iterator[Change]:
        if not _names_lists(tensor) or are_positions(tensor, extents):
            return
        chosen = int(torch.randint(tensor.numel() - 1, (), generator=generator))
        if _divides(tensor, extents):
            yield functools.partial(_with_a_long_one, place=chosen)
            return
        others = torch.rand(tensor.shape, generator=generator) < _OTHERS
        number = tensor.reshape(-1)[chosen]
        yield lambda old: in_order(old, torch.where(others, old, number))

    return take(inputs, [changes(one) for one in given], call)


def _names_lists(tensor: torch.Tensor) -> bool:
    return tensor.dtype in (torch.int32, torch.int64) and tensor.numel() > 2 and int(tensor.min()) >= 0


def _extents(given: Sequence[torch.Tensor]) -> set[int]:
    return {extent for one in given for extent in one.shape}


def _divides(tensor: torch.Tensor, extents: Collection[int]) -> bool:
    """Whether integers are offsets of groups, from 0 to a length among the inputs, rather than each element's group."""
    return are_offsets(tensor) and int(tensor[0]) == 0 and int(tensor[-1]) in extents


def _with_a_long_one(offsets: torch.Tensor, place: int) -> torch.Tensor:
    """Offsets whose groups are all much shorter, but for one."""
    shorter = (offsets * _OTHERS).to(offsets)
    later = torch.arange(len(offsets)) > place
    return torch.where(later, offsets[-1] - shorter[-1] + shorter, shorter)


def take(
    inputs: object, changes: Sequence[Iterator[Change]], call: Callable[[object], list[torch.Tensor]]
) -> Any:
    """The inputs with those changes of each tensor, one after another, that the reference accepts with outputs of the same
    shapes (a number of counts may depend on the values); None if it accepts none."""
    least, forms, changed = 0.0, None, False
    for place, several in enumerate(changes):
        for change in several:
            if forms is None:
                usual = call(inputs)
                least, forms = _ENOUGH * _finite(usual), [one.shape for one in usual]
            tried = with_changed(inputs, place, change)
            try:
                given = call(tried)
                fits = _finite(given) >= least and [one.shape for one in given] == forms
                if isinstance(change, _Within):
                    has_rows = any(change.length in one.shape for one in given)  # which may lie outside
                    fits = fits and not (has_rows or change.reads_outside(tried, given, call))
            except Exception:
                fits = False
            if fits:
                inputs, changed = tried, True
    return inputs if changed else None


def _even_out(
    tensor: torch.Tensor, other: torch.Tensor, names: set[str], by_row: bool, generator: torch.Generator
) -> Iterator[Change]:
    """`alike` for one tensor: bytes near the end of their range, other integers at an end of the drawn one, or within it; booleans
    that differ between draws in runs."""
    if tensor.is_floating_point() or tensor.is_complex() or tensor.numel() < 2:
        return
    if tensor.dtype == torch.bool:
        if not torch.equal(tensor, other):
            yield _in_runs
        return
    both = [int(end) for one in (tensor, other) if one.numel() for end in one.aminmax()]
    low, high = min(both), max(both)
    if low == high or ((low, high) == (0, 1) and any(word in name for name in names for word in _WEIGHED)):
        return
    if tensor.ndim == 1 and _climbs(tensor) and _climbs(other):  # offsets
        yield lambda old: torch.cat([old[:1], torch.full_like(old[1:], high)])
        return
    drawn = int(torch.randint(low, high + 1, (), generator=generator))
    numbers = [high, drawn, low] if by_row else [high]
    if tensor.element_size() == 1 and (low, high) != (0, 1):
        limits = torch.iinfo(tensor.dtype)
        near = torch.randint(_NEAR_THE_END, tensor.shape, generator=generator)
        # Rows have odd sums, which beyond 2^24 no float holds.
        near[..., 0] ^= (limits.max * tensor.shape[-1] - near.sum(-1) + 1) % 2
        yield lambda old: _in_rows(old, [limits.max, limits.min]) if by_row else limits.max - near
    else:
        yield lambda old: _in_rows(old, numbers)


def _in_rows(tensor: torch.Tensor, numbers: Sequence[int]) -> torch.Tensor:
    """Each row filled with one of the numbers in turn; in a vector each block."""
    made = tensor.clone(memory_format=torch.contiguous_format)
    rows = made.reshape(-1, made.shape[-1]) if made.ndim > 1 else made.tensor_split(len(numbers))
    for place, row in enumerate(rows):
        row.fill_(numbers[place % len(numbers)])
    return made


def _one_of(places: torch.Tensor, numbers: Sequence[int], _: torch.Tensor) -> torch.Tensor:
    return torch.tensor(numbers)[places]


def _in_runs(mask: torch.Tensor) -> torch.Tensor:
    """Rows of which in turn the second half, the first, the outer quarters and the middle are true; a vector is one row."""
    length = mask.shape[-1]
    quarter = torch.arange(length) * 4 // max(length, 1)
    rows = torch.arange(mask.numel() // max(length, 1)).unsqueeze(-1)
    inner = (quarter == 1) | (quarter == 2)
    made = torch.where(rows % 4 < 2, quarter >= 2, ~inner) != (rows % 2 == 1)
    return made.reshape(mask.shape).to(mask.device)


def _largest(tensor: torch.Tensor, names: set[str]) -> int:
    """The largest of large integers that are tried; 0 if none are."""
    counted = any(word in name for name in names for word in _COUNTING)
    return 0 if counted else 1 << _WIDE.get(tensor.element_size(), 13)


def _finite(outputs: Sequence[torch.Tensor]) -> float:
    """Share of the elements that are finite."""
    floating = [one for one in outputs if one.is_floating_point()]
    count = sum(one.numel() for one in floating)
    return sum(float(torch.isfinite(one).sum()) for one in floating) / count if count else 1.0


def _climbs(numbers: torch.Tensor) -> bool:
    """Whether no number is less than the one before, as in offsets."""
    return bool((numbers.diff() >= 0).all())


def _climbs_along_rows(numbers: torch.Tensor) -> bool:
    """Whether a table of integers has rows that never fall, like the numbers of documents packed one behind the other."""
    whole = numbers.dtype in (torch.int32, torch.int64) and numbers.ndim > 1 and numbers.numel() > 0
    return whole and bool((numbers.diff() >= 0).all()) and int(numbers.min()) >= 0


def _of_documents(tensor: torch.Tensor, other: torch.Tensor, generator: torch.Generator) -> Iterator[Change]:
    """Documents of one element each, and in every other row of one or two."""
    if not are_positions(tensor, ()):
        more = torch.randint(2, tensor.shape, generator=generator)
        more.reshape(-1, tensor.shape[-1])[::2] = 1
        yield lambda old: (more.cumsum(-1) - more[..., :1]).to(old)


def _later(
    draws: Sequence[torch.Tensor], extents: Collection[int], generator: torch.Generator
) -> Iterator[Change]:
    """Positions behind a cache of thousands, then of tens of thousands, if all draws are positions."""
    for start in _LATER if all(are_positions(one, extents) for one in draws) else ():
        yield functools.partial(torch.add, other=int(torch.randint(*start, (), generator=generator)))


def are_offsets(tensor: torch.Tensor) -> bool:
    """Whether a tensor may hold the offsets of groups."""
    return not tensor.is_floating_point() and tensor.ndim == 1 and tensor.numel() > 2 and _climbs(tensor)


def are_positions(numbers: torch.Tensor, extents: Collection[int]) -> bool:
    """Whether numbers are consecutive along the last axis, and no offsets of parts of one element each."""
    if numbers.ndim == 0 or numbers.shape[-1] < _LEAST_POSITIONS:
        return False
    divide = numbers.ndim == 1 and int(numbers[0]) == 0 and int(numbers[-1]) in extents
    return not divide and bool((numbers.diff() == 1).all())


def _other_offsets(drawn: torch.Tensor, low: int, high: int, generator: torch.Generator) -> Iterator[Change]:
    """Other offsets between the same ends; and the same with a later beginning, or an earlier end, than those of what they
    divide."""
    yield lambda old: torch.cat([old[:1], drawn[1:-1].sort().values, old[-1:]])
    if high > low:
        first, last = (int(torch.randint(1, high - low + 1, (), generator=generator)) // 2 for _ in range(2))
        yield _Within(low + first, high, high)
        yield _Within(low, high - last, high)


@dataclasses.dataclass(frozen=True)
class _Within:
    """Offsets that begin later, or end earlier. If the reference uses what lies outside of them, or makes rows there, which belong
    to no group, they have no meaning to kernels that go from one offset to the next."""

    first: int
    last: int
    length: int

    def __call__(self, old: torch.Tensor) -> torch.Tensor:
        return old.clamp(self.first, self.last)

    def reads_outside(
        self, inputs: object, given: Sequence[torch.Tensor], call: Callable[[object], list[torch.Tensor]]
    ) -> bool:
        """Whether an output depends on what lies outside, in some input and along each of its axes that are as long as the
        offsets reach; `given` are the outputs."""

        def matters(number: int, axis: int) -> bool:
            moved = call(with_changed(inputs, number, functools.partial(self._move, axis)))
            return not all(map(_near, moved, given))

        for number, tensor in enumerate(flatten(inputs)):
            axes = [axis for axis, size in enumerate(tensor.shape) if size == self.length]
            if tensor.is_floating_point() and axes and all(matters(number, axis) for axis in axes):
                return True
        return False

    def _move(self, axis: int, tensor: torch.Tensor) -> torch.Tensor:
        made, further = tensor.clone(), 1.0 + float(tensor.abs().max())
        for start, size in ((0, self.first), (self.last, self.length - self.last)):
            # Not a common shift, to which a softmax over keys is blind.
            made.narrow(axis, start, size).neg_().add_(further)
        return made


def _near(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether outputs are equal up to roundings."""
    one, other = one.double(), other.double()
    most = float(other.nan_to_num(0.0, 0.0, 0.0).abs().max()) if other.numel() else 0.0
    return torch.allclose(one, other, rtol=0.0, atol=_ROUNDED * most, equal_nan=True)


def _beside_one_number(
    number: int, always: bool, names: set[str], drawn: Callable[[int, int], torch.Tensor]
) -> Iterator[Change]:
    """What is tried in place of a number that fills the tensor, `always` if in another draw, too."""
    if number > 1:
        yield lambda _: drawn(1, number)
    elif number == 1:
        signed = not any(name in _TRUTHS for name in names)
        yield lambda _: 2 * drawn(0, 1) - 1 if signed else drawn(0, 1)
    elif number == 0 and always:
        yield lambda _: drawn(0, 1)  # the second of two kinds, of which the task draws the first
        if names & _TABLES and not names.intersection(_TRUTHS):
            yield from (lambda _, most=most: drawn(0, most) for most in _MORE_KINDS)


def _changes(
    tensor: torch.Tensor,
    other: torch.Tensor,
    names: set[str],
    named: Sequence[int],
    extents: Collection[int],
    generator: torch.Generator,
) -> Iterator[Change]:
    """What is tried on a tensor, in order; nothing on floats. `extents` of the inputs that offsets may divide."""
    if tensor.is_floating_point() or tensor.is_complex() or not tensor.numel():
        return

    def some(values: Callable[[torch.Tensor], torch.Tensor], share: float = _SHARE) -> Change:
        chosen = torch.rand(tensor.shape, generator=generator) < share
        chosen.reshape(-1)[int(torch.randint(tensor.numel(), (), generator=generator))] = True
        return lambda old: torch.where(chosen, values(old), old)

    def drawn(low: int, high: int) -> torch.Tensor:
        return torch.randint(low, high + 1, tensor.shape, generator=generator)

    if tensor.dtype == torch.bool:
        if tensor.numel() > 1:
            yield some(torch.logical_not, 0.5)
        return
    low, high = int(tensor.min()), int(tensor.max())
    if tensor.element_size() == 1:
        limits = torch.iinfo(tensor.dtype)
        if not (low >= 0 and high <= 1):
            yield lambda _: drawn(limits.min, limits.max)
        return
    if low == high and tensor.numel() > 1:
        yield from _beside_one_number(high, torch.equal(tensor, other), names, drawn)
        return
    if (low, high) == (0, 1):
        yield lambda _: drawn(0, 1)
        return
    if are_offsets(tensor) and _climbs(other):
        yield from _other_offsets(drawn(low, high), low, high, generator)
        yield from _later((tensor, other), extents, generator)
        return
    yield from _later((tensor, other), extents, generator)
    summed = not any(name.startswith(_LAST_WINS) and not name.startswith(_SUMMED) for name in names)
    if summed and tensor.numel() > 1:
        repeated = torch.rand(tensor.numel(), generator=generator) < _ENOUGH
        repeated[:2] = torch.tensor([False, True])
        yield lambda old: torch.where(repeated, old.reshape(-1).roll(1), old.reshape(-1)).reshape(old.shape)
    # Not if a table is read or written there: kernels that only count forward are honest.
    if low >= 0 and not names & _FROM_THE_END:
        yield some(lambda old: -1 - old)
    if most := _largest(tensor, names):
        yield some(lambda _: drawn(-most, most))
    below, rare = [one for one in named if one < 0], [one for one in named if low <= one <= high]
    beside = [[number] for number in named if 0 <= number < low or number > high]
    # Last, so that they are not overwritten; also at a single element, because a mean over nothing has no meaning.
    for numbers, share in (*((one, _SHARE) for one in (rare, *beside, below)), (below, 0.0)):
        if numbers:
            yield some(functools.partial(_one_of, drawn(0, len(numbers) - 1), numbers), share)
    if high - low >= _MANY:
        near = next_to_powers(tensor.shape, high.bit_length(), generator)
        yield some(lambda _: near.clamp(low, high), _HALF)
