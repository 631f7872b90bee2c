"""A full-size case of small cost: inputs that repeat along every axis on which the reference works index by index.

If an output's row depends only on the same row of the inputs, rows that repeat give an output that repeats. The reference,
run on one period, then tells what every program of a full-size launch must write, wherever it is. A keyed hash
(`repeats.py`) decides which row stands where, so no distance hides a row that was taken for another. Which axes are of that
kind is tried on the reference at its small size. Axes that are summed or scanned keep their full length. Values are drawn
from those of the small case; inputs with a structure (zeros, masks) are left out.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from kernelwright.records import Task
from kernelwright.verify.protocol import Protocol
from kernelwright.verify.reference import allowances
from kernelwright.verify.reference.cases import Case, make_case
from kernelwright.verify.reference.copies import doubled
from kernelwright.verify.reference.distributions import in_order, orders, repeated
from kernelwright.verify.reference.expected import Expected
from kernelwright.verify.reference.task_module import (
    NotModelled,
    Reference,
    for_task,
    private_rng,
    runs_reference,
)
from kernelwright.verify.repeats import Repeats
from kernelwright.verify.structures import convert, flatten

if TYPE_CHECKING:
    from kernelwright.verify.reference.baseline import Baseline


@dataclasses.dataclass(frozen=True)
class Axis:
    """Axes of inputs and outputs that belong together, index by index."""

    given: list[tuple[int | str, int]]
    """(number of an input or name of a weight, axis)."""
    returned: list[tuple[int, int]]
    """(number of an output, axis)."""


_SELECTED = (3, 5)
"""Numbers of indices drawn to test whether the reference works index by index."""
_FEWEST, _MOST = 11, 47
"""Range for the number of base indices of an axis: n of them show a wrong row in any one element with probability 1 - 1/n."""
_SHORT = 5
_FEW_BYTES, _FEW_FLOPS = 1 << 18, 5e7
"""The limits below, for axes with more base indices than `_SHORT`."""
_MOST_BYTES, _MOST_FLOPS = 6 << 20, 5e8
"""Limits for one period: bytes of inputs and weights, and FLOPs of products as the reference does them."""
_MOST_INDEXED = 24 << 20
"""The byte limit if integers are inputs: a table that they index has no period."""
_MOST_NUMBERS = 1 << 24
"""Inputs with more integers at full size are not drawn."""
_SLACK = 8.0
"""Factor on the error allowed: with few elements the reference's own error is small by luck."""
_LARGE = 30.0
"""Factor on some indices, for which a softmax needs its maximum, and a sum its rescaling."""
_TOUCHED, _FAR = 24, 1e4
"""Elements of an input that are changed one by one, and the multiple of its largest value that they get."""
_TRIED, _FAR_FEWER = 16, 0.6
"""Elements whose reach is tried; the reach at the first quartile must be below this share of that at the third."""
_NEAR_END = 0.01
"""A range that begins above 0 by less than this share of its end counts as beginning at 0."""
_OTHERS, _NEAR = 1 << 16, 0.01
"""Numbers that stand at indices of an input that nobody asks about, and by how much they differ from the small case's: few of those
would repeat."""
_SPARSE = 0.01
"""Share of zeros from which they may be a structure that kernels rely on."""


@dataclasses.dataclass(frozen=True)
class Patch:
    """One period of a full-size case."""

    case: Case
    """Its `inputs` are a list of tensors, one period each; the outputs are expected for one period."""
    state: dict[str, torch.Tensor]
    """One period of the weights, by name."""
    given: list[list[Repeats | None]]
    """How indices repeat: by input, then by weight, by axis. None: the axis is stored in full."""
    returned: list[list[Repeats | None]]
    """By output, by axis."""
    others: list[torch.Tensor]
    """By input, then by weight: numbers as the task draws them, for indices that nobody asks about; none where there are no such."""

    def described(self) -> list[list[list[int] | None]]:
        """`given` and `returned` as plain data."""
        return [
            [list(dataclasses.astuple(axis)) if axis else None for axis in axes]
            for axes in (*self.given, *self.returned)
        ]

    def expected(
        self, output: int, positions: torch.Tensor, shape: tuple[int, ...], rounded: Protocol | None = None
    ) -> Expected:
        """Expected values at flat `positions` of an output of the full shape; under a protocol with how far roundings move
        them."""
        whole = (self.case.with_roundings() if rounded else self.case.expected)[output]
        rest, step = positions.numpy(), 1
        found = np.zeros_like(rest)
        for extent, repeats, count in zip(
            reversed(shape), reversed(self.returned[output]), reversed(whole.shape), strict=True
        ):
            at = rest % extent
            found += (at if repeats is None else repeats(at)).astype(found.dtype) * step
            rest, step = rest // extent, step * count
        index = torch.from_numpy(found)
        part = whole.each(lambda tensor: tensor.reshape(-1)[index])
        chosen = part.chosen and dataclasses.replace(part.chosen, once=False)
        slack = 1.0 if part.own_digits else _SLACK
        return dataclasses.replace(part, slack=slack, spread=math.inf, chosen=chosen)


class _Small:
    """The reference at its small size in double precision, as a function of inputs and weights by slot."""

    def __init__(self, case: Case) -> None:
        self._module = doubled(case.module)
        self._inputs = case.inputs
        self.given: dict[int | str, torch.Tensor] = {
            number: tensor.double() if tensor.is_floating_point() else tensor
            for number, tensor in enumerate(flatten(case.inputs))
        }
        for name, tensor in self._module.state_dict().items():
            self.given[name] = tensor

    def __call__(self, changed: Mapping[int | str, torch.Tensor]) -> list[torch.Tensor]:
        given = {**self.given, **changed}
        state = {name: tensor.clone() for name, tensor in given.items() if isinstance(name, str)}
        tensors = iter([given[number].clone() for number in range(len(given) - len(state))])
        inputs = convert(self._inputs, lambda _: next(tensors))
        with runs_reference(), torch.no_grad():
            return flatten(torch.func.functional_call(self._module, state, tuple(inputs)))


def _links(small: _Small, dice: random.Random) -> list[Axis]:
    """Axes of inputs and weights along which an index affects only the same index of the outputs."""
    right = small({})
    possible = {extent for output in right for extent in output.shape} - {0, 1}
    found: list[Axis] = []
    for name, tensor in small.given.items():
        for axis, extent in enumerate(tensor.shape):
            if extent not in possible:  # of a network's hundreds of weights only the last few are as long
                continue
            at, other = dice.sample(range(extent), 2)
            changed = tensor.clone()
            changed.select(axis, at).copy_(tensor.select(axis, other))
            places = _axes_touched(right, small({name: changed}), at, extent)
            if not places:
                continue
            for item in found:
                if set(item.returned) & set(places):
                    item.given.append((name, axis))
                    item.returned.extend(place for place in places if place not in item.returned)
                    break
            else:
                found.append(Axis([(name, axis)], places))
    return found


def _axes_touched(
    right: list[torch.Tensor], made: list[torch.Tensor], at: int, extent: int
) -> list[tuple[int, int]]:
    """By output, the axis of that extent along which only index `at` differs; empty if any output differs otherwise."""
    places = []
    for output, (before, after) in enumerate(zip(right, made, strict=True)):
        different = ~torch.isclose(before, after, rtol=0.0, atol=0.0, equal_nan=True)
        if not different.any():
            continue
        for axis in range(before.ndim):
            others = [place for place in range(before.ndim) if place != axis]
            touched = different.any(others) if others else different
            if before.shape[axis] == extent and touched.nonzero().flatten().tolist() == [at]:
                places.append((output, axis))
                break
        else:
            return []
    return places


def _holds(small: _Small, axes: list[Axis], dice: random.Random) -> bool:
    """Whether selecting indices along these axes of inputs and weights selects the same indices of the outputs."""
    given, right = dict(small.given), small({})
    for item in axes:
        extents = {given[name].shape[axis] for name, axis in item.given}
        extents |= {right[output].shape[axis] for output, axis in item.returned}
        if len(extents) > 1:
            return False
        drawn = torch.tensor([dice.randrange(max(extents)) for _ in range(dice.choice(_SELECTED))])
        for name, axis in item.given:
            given[name] = given[name].index_select(axis, drawn)
        for output, axis in item.returned:
            right[output] = right[output].index_select(axis, drawn)
    try:
        made = small(given)
    except NotModelled:
        return False
    return all(
        after.shape == before.shape
        and torch.allclose(after.double(), before.double(), rtol=1e-9, atol=1e-9, equal_nan=True)
        for after, before in zip(made, right, strict=True)
    )


def separable(cases: Sequence[Case], dice: random.Random) -> list[Axis]:
    """The axes along which the reference works index by index: found at the first of several sizes, confirmed at all.

    Heads that share a head of keys seem to be such an axis if there is only one; another size refutes it.
    """
    smalls = [_Small(case) for case in cases]

    def hold(axes: list[Axis]) -> bool:
        return all(_holds(small, axes, dice) for small in smalls)

    found = _links(smalls[0], dice)
    if not found or hold(found):
        return found
    found = [item for item in found if hold([item])]
    return found if len(found) < 2 or hold(found) else found[:1]


class _Partial(torch.nn.Module):
    """A full-size module without data, called with one period of its weights."""

    def __init__(self, whole: torch.nn.Module, state: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self._whole = [whole]
        self._names = list(state)
        for number, name in enumerate(self._names):
            self.register_buffer(f"state_{number}", state[name])

    def forward(self, *inputs: object) -> object:
        state = {name: getattr(self, f"state_{number}") for number, name in enumerate(self._names)}
        return torch.func.functional_call(self._whole[0], state, inputs)


def patch(
    task: Task, cases: Sequence[Case], base: Baseline, protocol: Protocol, secret: int, own_digits: bool
) -> Patch | None:
    """One period at full size; None if there is none, or if it is too large. `cases` has one of each small size; `own_digits`:
    elements may be held to their own digits (`allowances.own_digits`). Raises NotModelled if the reference does not run as it
    must."""
    case = cases[0]
    plain = all(isinstance(item, torch.Tensor) for item in case.inputs)
    if not plain or case.changed or case.written or any(alias >= 0 for alias in case.aliases):
        return None
    values: dict[int | str, torch.Tensor] = dict(enumerate(case.inputs)) | dict(case.module.state_dict())
    if any(map(_is_structured, values.values())):
        return None
    dice = random.Random(f"{secret}:{task.digest}:patch")
    shapes: dict[int | str, list[int]] = {
        number: list(item["meta"]["shape"]) for number, item in enumerate(base.input_spec["list"])
    }
    shapes |= {name: list(tensor.shape) for name, tensor in base.state.items()}
    if {name: len(shape) for name, shape in shapes.items()} != {n: t.ndim for n, t in values.items()}:
        return None
    outputs = [list(tensor.shape) for tensor in base.form.expected]
    axes = separable(cases, dice)
    along = {slot for item in axes for slot in item.given}
    lone = {
        (name, axis) for name, tensor in values.items() for axis, size in enumerate(tensor.shape) if size == 1
    }
    if any(shapes[name][axis] > 1 for name, axis in lone - along):
        return None  # unknown how the reference treats an axis that had a single index wherever it was tried
    extents = [
        {shapes[name][axis] for name, axis in item.given} | {outputs[o][axis] for o, axis in item.returned}
        for item in axes
    ]
    if not axes or any(len(sizes) > 1 for sizes in extents):
        return None
    periods = [min(dice.randint(_FEWEST, _MOST), extent) for (extent,) in extents]
    whole = _whole_numbers(task, list(values.values())[: len(case.inputs)], dice.randrange(2**62))
    if whole is None:
        return None
    values |= whole
    most_bytes = _MOST_INDEXED if whole else _MOST_BYTES
    small = _fitting(
        axes, periods, [extent for (extent,) in extents], shapes, values, base.contraction_flops, most_bytes
    )
    if small is None:
        return None
    seed = dice.randrange(2**62)
    uneven = _scales(axes, periods, values, dice)
    made = _make(task, base, values, small, protocol, seed, uneven) if uneven else None
    made = made or _make(task, base, values, small, protocol, seed)
    if made is None:
        return None
    case, state = made
    if own_digits:
        case.expected = list(map(allowances.own_digits, case.expected))
    given, returned = _drawn_along(axes, periods, shapes, outputs, dice)
    names = [*range(len(case.inputs)), *state]
    with private_rng(seed):
        others = [_others(values[name], any(given[name])) for name in names]
    return Patch(case, state, [given[name] for name in names], returned, others)


def _others(values: torch.Tensor, repeats: bool) -> torch.Tensor:
    """Numbers near a tensor's values, for indices that nobody asks about; none for integers, which may be indices themselves."""
    if not (repeats and values.is_floating_point()):
        return values.new_empty(0)
    known = values.detach().reshape(-1).double()
    found = known[torch.randint(known.numel(), (_OTHERS,))]
    if 2 * known.unique().numel() > known.numel():  # not labels
        found = (found * (1.0 - _NEAR * torch.rand(_OTHERS))).clamp(known.min(), known.max())
    return found.to(values.dtype)


def _drawn_along(
    axes: Sequence[Axis],
    periods: Sequence[int],
    shapes: Mapping[int | str, Sequence[int]],
    outputs: Sequence[Sequence[int]],
    dice: random.Random,
) -> tuple[dict[int | str, list[Repeats | None]], list[list[Repeats | None]]]:
    """How indices repeat, by input or weight and by output, by axis of each."""
    given: dict[int | str, list[Repeats | None]] = {
        name: [None] * len(shape) for name, shape in shapes.items()
    }
    returned: list[list[Repeats | None]] = [[None] * len(shape) for shape in outputs]
    for item, period in zip(axes, periods, strict=True):
        (name, axis), *_ = item.given
        repeats = Repeats.drawn(period, dice) if period < shapes[name][axis] else None
        for name, axis in item.given:
            given[name][axis] = repeats
        for output, axis in item.returned:
            returned[output][axis] = repeats
    return given, returned


def _fitting(
    axes: Sequence[Axis],
    periods: list[int],
    extents: Sequence[int],
    shapes: Mapping[int | str, list[int]],
    values: Mapping[int | str, torch.Tensor],
    flops: float,
    most_bytes: int,
) -> dict[int | str, list[int]] | None:
    """Shapes of one period, shortened in place, the largest tensor's longest axis first, until it is cheap enough."""
    while True:
        small, share = {name: list(shape) for name, shape in shapes.items()}, 1.0
        for item, period, extent in zip(axes, periods, extents, strict=True):
            for name, axis in item.given:
                small[name][axis] = period
            share *= period / extent
        sizes = {name: math.prod(shape) * values[name].element_size() for name, shape in small.items()}
        long = max(periods) > _SHORT
        most_flops = _FEW_FLOPS if long else _MOST_FLOPS
        if sum(sizes.values()) <= (_FEW_BYTES if long else most_bytes) and flops * share <= most_flops:
            return small
        largest = max(sizes, key=lambda name: sizes[name])
        left = [place for place, period in enumerate(periods) if period > 1]
        if not left:
            return None
        shared = [place for place in left if largest in dict(axes[place].given)]
        longest = max(shared or left, key=lambda place: periods[place])
        periods[longest] -= max(1, periods[longest] // 4)


class _OnlyWhole(TorchFunctionMode):
    """Makes integer tensors with data, all others without."""

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> object:
        kwargs = kwargs or {}
        if func not in (torch.randint, torch.randperm, torch.arange):
            return func(*args, **kwargs)
        blank = func(*args, **{**kwargs, "device": "meta"})
        if blank.numel() > _MOST_NUMBERS or blank.is_floating_point():
            return blank
        return func(*args, **{**kwargs, "device": "cpu"})


def _whole_numbers(
    task: Task, given: Sequence[torch.Tensor], seed: int
) -> dict[int | str, torch.Tensor] | None:
    """Integers of each integer input as the task draws them at full size, where indices reach further than at a small one; None
    if they cannot be drawn without the rest."""
    places = [place for place, tensor in enumerate(given) if not tensor.is_floating_point()]
    if not places:
        return {}
    reference = Reference(task, dict(task.shapes.get("full", {})))
    try:
        with private_rng(seed), runs_reference(), torch.device("meta"), _OnlyWhole():
            made = flatten(list(reference.namespace["get_inputs"]()))
            if any(made[place].is_meta for place in places):
                return None
            return {place: made[place] for place in places}
    except NotModelled:
        return None


Scales = tuple[int | str, int, list[float]]
"""An input, an axis of it, and a factor for each index."""


def _scales(
    axes: Sequence[Axis],
    periods: Sequence[int],
    values: Mapping[int | str, torch.Tensor],
    dice: random.Random,
) -> Scales | None:
    """Factors along one axis of one input, so that its indices, which do not affect each other, have several distributions. An
    input whose range ends at 0 stays in it; one with another range, or a sorted one, is not scaled."""
    places = [
        (name, axis, period)
        for item, period in zip(axes, periods, strict=True)
        for name, axis in item.given
        if isinstance(name, int)
        and period > 1
        and values[name].is_floating_point()
        and float(values[name].min()) < max(0.0, _NEAR_END * float(values[name].max()))
        and not orders(values[name])
    ]
    if not places:
        return None
    first = min((bool(values[name].min() >= 0), name) for name, _, _ in places)
    name, axis, period = max(place for place in places if place[0] == first[1])
    factors = [1.0, _LARGE] + [dice.choice((1.0, 3.0, _LARGE, -_LARGE)) for _ in range(period - 2)]
    if first[0]:
        factors = [abs(factor) / _LARGE for factor in factors]
    dice.shuffle(factors)
    return name, axis, factors


def _make(
    task: Task,
    base: Baseline,
    values: Mapping[int | str, torch.Tensor],
    shapes: Mapping[int | str, list[int]],
    protocol: Protocol,
    seed: int,
    scales: Scales | None = None,
) -> tuple[Case, dict[str, torch.Tensor]] | None:
    """The case of one period, and its weights."""
    reference = Reference(task, dict(task.shapes.get("full", {})))
    with private_rng(seed):
        drawn = {name: _draw(values[name], shape) for name, shape in shapes.items()}
        with runs_reference(), torch.device("meta"), torch.no_grad():
            module = reference.module(base.init).to("meta")
    if scales is not None:
        name, axis, factors = scales
        shape = [len(factors) if place == axis else 1 for place in range(drawn[name].ndim)]
        drawn[name] = drawn[name] * torch.tensor(factors, dtype=drawn[name].dtype).reshape(shape)
        if axis != drawn[name].ndim - 1:  # sorted, so that a running maximum keeps growing
            for index in range(len(factors) // 2 + 1):
                drawn[name].select(axis, index).copy_(drawn[name].select(axis, index).sort(-1).values)
    state = {name: tensor for name, tensor in drawn.items() if isinstance(name, str)}
    inputs = [drawn[number] for number in range(len(drawn) - len(state))]
    case = make_case("full", _Partial(module, state), inputs, for_task(protocol, task))
    if case is None or not all(bool(item.value.any()) for item in case.expected):
        return None
    return case, state


def needs_all(case: Case, index: int, dice: random.Random) -> frozenset[int]:
    """Outputs that depend on every element of an input, and -1 if each element affects some output, tested by putting a few
    elements, some at both ends of each axis, far above and far below all others. Empty if the input is not floating-point, or
    has two of each element, of which one may be read."""
    small = _Small(case)
    tensor = small.given[index]
    if not tensor.is_floating_point() or not tensor.numel() or repeated(tensor):
        return frozenset()
    far = _FAR * (1.0 + float(tensor.abs().max()))
    try:
        right = small({})
        found = {-1, *range(len(right))}
        for place in _places(tensor.shape, dice):
            moved: set[int] = set()
            for value in (far, -far):
                changed = tensor.clone()
                changed[place] = value
                made = small({index: changed})
                moved |= {
                    number
                    for number, pair in enumerate(zip(right, made, strict=True))
                    if not torch.equal(*pair)
                }
                if found - {-1} <= moved:
                    break
            found &= moved | ({-1} if moved else set())
            if not found:
                break
    except NotModelled:
        return frozenset()
    return frozenset(found)


def in_part(case: Case, dice: random.Random) -> bool:
    """Whether some elements of an input affect far fewer outputs than others, like a causal attention's late keys or a
    triangle's elements: then part of the reference's arithmetic is unnecessary. False if that cannot be tried."""
    small = _Small(case)
    try:
        right = small({})
        for name, tensor in small.given.items():
            if not tensor.is_floating_point() or not isinstance(name, int) or tensor.numel() < _TRIED:
                continue
            reached = []
            for _ in range(_TRIED):
                place = tuple(dice.randrange(size) for size in tensor.shape)
                changed = tensor.clone()
                changed[place] += 1.0 + float(tensor.abs().max())
                made = small({name: changed})
                reached.append(sum(int((a != b).sum()) for a, b in zip(right, made, strict=True)))
            reached.sort()
            if reached[_TRIED // 4] < _FAR_FEWER * reached[-_TRIED // 4]:
                return True
    except NotModelled:
        return False
    return False


def _places(shape: Sequence[int], dice: random.Random) -> Iterator[tuple[int, ...]]:
    """Random elements, and for each axis one at either end: a sum without the last element still needs all others."""
    for _ in range(_TOUCHED):
        yield tuple(dice.randrange(size) for size in shape)
    for axis, extent in enumerate(shape):
        for end in (0, extent - 1):
            yield tuple(end if at == axis else dice.randrange(size) for at, size in enumerate(shape))


def _is_structured(tensor: torch.Tensor) -> bool:
    """Whether the places of zeros or booleans may mean something to a kernel."""
    if tensor.dtype == torch.bool or tensor.is_complex():
        return True
    return tensor.is_floating_point() and float((tensor == 0).double().mean()) > _SPARSE


def _draw(tensor: torch.Tensor, shape: list[int]) -> torch.Tensor:
    """A tensor of that shape with another's values. Of integers some indices of each axis are kept: distinct ones stay so."""
    if list(tensor.shape) == shape:
        return tensor.detach().clone()
    longer = all(old >= new for old, new in zip(tensor.shape, shape, strict=True))
    if longer and not tensor.is_floating_point():
        for axis, extent in enumerate(shape):
            if tensor.shape[axis] > extent:
                tensor = tensor.index_select(axis, torch.randperm(tensor.shape[axis])[:extent])
        return tensor.clone()
    return in_order(tensor, tensor.detach().reshape(-1)[torch.randint(tensor.numel(), shape)])
