"""One correctness case: inputs, what the reference makes of them in fp64, and how far an honest run may stray from that.

The allowed error is a small multiple of what an honest PyTorch run in the task's own precision gets wrong against fp64, and
looser than the protocol only where inputs scaled far up make that run itself so.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.precision import Precision
from kernelwright.verify.gradients import Watch, WithGradients
from kernelwright.verify.held import note_changes
from kernelwright.verify.protocol import Protocol
from kernelwright.verify.reference import roundings
from kernelwright.verify.reference.choices import Choices, Reordered, find_choice
from kernelwright.verify.reference.comparison import MANY, with_order
from kernelwright.verify.reference.disorder import WRITES
from kernelwright.verify.reference.distributions import in_order, orders
from kernelwright.verify.reference.expected import COARSE, Expected, expected_of, nbytes, rms_difference
from kernelwright.verify.reference.operators import operators
from kernelwright.verify.reference.rounded import EPSILON, Rounded, Wide, cut_off
from kernelwright.verify.reference.task_module import (
    NotModelled,
    Reference,
    as_asked,
    drawing,
    private_rng,
    running,
    runs_reference,
    where_possible,
)
from kernelwright.verify.structures import convert, flatten, skeleton
from kernelwright.verify.trace.overlap import sharing
from kernelwright.verify.trace.ways import concerns

_RUNS, _REDUCED = 4, 4
_FEW, _FEW_ON_GPU = 1 << 24, 1 << 26
"""Elements of inputs and outputs up to which roundings are looked at."""
_FAR, _FAR_SLACK = 3.0, 8.0
_FINITE, _FINITE_ENOUGH = 0.05, 4096
"""Share of an output that is finite at least, where the rest is masked; so many elements will do."""
_CAST_AUTOMATICALLY = 2.0**-5
"""Error, as a share of an output's usual size, that automatic casts may make."""
_REACH = 1.4
"""Rounding steps that an output has at most, of how far TF32 with operands cut off (half a step each, on average) moves it."""
_TWIN_SHARE, _TWIN_SEED = 1 / 16, 6151
_BESIDE, _JUMP = 1e-9, 1e-4
"""How far beside an input or weight a gradient is looked at, and by which share it differs on both sides of a kink."""


@dataclasses.dataclass
class Case:
    """One correctness case."""

    name: str
    inputs: Any
    """Arguments of `forward`, as `get_inputs` made them (scaled); None while only the seed is kept."""
    structure: object
    """The reference's output with tensors replaced by their index."""
    expected: list[Expected]
    aliases: list[int]
    """Per output: the index of the input whose memory it shares, or -1."""
    shared: list[int]
    """Per output: the first output that it shares elements with, itself where it overlaps itself, or -1."""
    changed: list[int]
    """Indices of inputs whose values the reference itself changes."""
    written: frozenset[int | str]
    """Inputs (by index), weights and buffers (by name) that the reference writes to, whether that changes them or not."""
    after: dict[int | str, Expected]
    """What inputs, weights and buffers hold after the call, of those that the reference changes."""
    scale: float
    """Factor on the inputs."""
    module: torch.nn.Module
    """The reference."""
    precision: Precision
    """In which it is asked."""
    special: bool = False
    """Whether its inputs are special values: exact ties are asked there, which no rounding decides."""
    left: frozenset[str] = frozenset()
    """What the reference leaves otherwise than it was given, by kind (`held.py`)."""
    part: tuple[Case, Sequence[int]] | None = None
    """Of which case these are some outputs, and which."""
    _rounded: list[Expected] | None = dataclasses.field(default=None, init=False, repr=False)
    _in_single: tuple[list[Expected], dict[int | str, Expected]] | None = dataclasses.field(
        default=None, init=False, repr=False
    )

    @property
    def size(self) -> int:
        """Bytes held."""
        expected = self._rounded or self.expected
        return sum(map(nbytes, flatten(self.inputs))) + sum(item.size for item in expected)

    @property
    def few(self) -> bool:
        """Whether it has its inputs, and so few elements that roundings can be looked at."""
        given = flatten(self.inputs)
        held = (*given, *(item.value for item in self.expected))
        most = _FEW_ON_GPU if any(tensor.is_cuda for tensor in held) else _FEW
        return bool(given) and sum(tensor.numel() for tensor in held) <= most

    def with_roundings(self) -> list[Expected]:
        """What is expected, with how far roundings move it; as it is where elements are not `few`."""
        if self.part is not None:
            whole, places = self.part
            return [whole.with_roundings()[place] for place in places]
        if self._rounded is None and self.few:
            exact = [item.value.reshape(item.shape) for item in self.expected]
            with running(self.inputs, Precision("ieee", False, False)):
                tied = [self.special and not one.dtype.is_floating_point for one in self.expected]
                moved = {
                    ties: roundings.largest_moves(self.module, self.inputs, exact, ties)
                    for ties in sorted(set(tied))
                }
            far = [moved[ties][place] for place, ties in enumerate(tied)]
            self._rounded = [
                dataclasses.replace(one, moved=by) for one, by in zip(self.expected, far, strict=True)
            ]
        return self._rounded or self.expected

    def in_single(self) -> tuple[list[Expected], dict[int | str, Expected]]:
        """(`expected`, `after`) with the reference's own numbers as `roundings.numbers_in_single` has them; as they are where it has none
        such, and where elements are not `few`."""
        if self.part is not None:
            whole, places = self.part
            expected, after = whole.in_single()
            return [expected[place] for place in places], after
        if self._in_single is None:
            self._in_single = self.expected, self.after
            if self.few:
                with where_possible():
                    self._in_single = self._with_numbers_in_single()
        return self._in_single

    def _with_numbers_in_single(self) -> tuple[list[Expected], dict[int | str, Expected]]:
        made: list[torch.Tensor] = []
        left: dict[int | str, torch.Tensor] = {}

        def run(numbers: TorchDispatchMode) -> None:
            double = copy.deepcopy(self.module).double()
            given = convert(self.inputs, lambda t: t.double() if t.is_floating_point() else t.clone())
            with torch.no_grad(), drawing(given), Wide(), numbers:
                made[:] = flatten(double(*given))
            left.update(enumerate(flatten(given)))
            left.update(double.state_dict())

        numbers = roundings.numbers_in_single(run)
        if numbers is None:
            return self.expected, self.after
        run(numbers)

        def other(expected: Expected, value: torch.Tensor) -> Expected:
            if not expected.dtype.is_floating_point:
                return expected
            return dataclasses.replace(expected, value=value.detach().to(expected.value.dtype).contiguous())

        return (
            [other(one, value) for one, value in zip(self.expected, made, strict=True)],
            {key: other(one, left[key]) for key, one in self.after.items()},
        )


def make_case(
    name: str,
    module: torch.nn.Module,
    inputs: Any,
    protocol: Protocol,
    scale: float = 1.0,
    special: bool = False,
    unrounded: bool = False,
) -> Case | None:
    """`inputs` have been multiplied by `scale`. None when the reference has no meaning there: most of its output is
    not finite, or it raises for inputs so scaled (a Cholesky factor of a negative matrix). Of `special` values infinities
    have a meaning, too. `unrounded`: what decides is inputs as they are, and no rounding of them is looked at.

    In place of inputs, a function that draws the same ones whenever it is called: then they are never held beside what
    is computed from them, and the case comes without. `footprint.Footprint.making` is what this takes at its peak.
    """
    drawn = callable(inputs)
    asked = _Asked(module, inputs if drawn else lambda: inputs, protocol)
    fresh: Callable[[], Any] = inputs if drawn else lambda: convert(inputs, torch.clone)
    modelled, native_choices, exact_choices = Rounded(protocol.precision), Choices(), Choices()
    try:
        run = asked.run(fresh(), modelled, native_choices)
    except NotModelled:
        if scale == 1.0:
            raise
        return None
    exact, exact_after = run.outputs, run.after
    if protocol.calibrated:
        exact, exact_after = asked.in_double(run, exact_choices)
    slack = _FAR_SLACK if abs(scale) > _FAR else 1.0
    expected = [
        dataclasses.replace(
            expected_of(e, h),
            slack=slack,
            terms=max(1.0, run.largest / max(h.numel(), 1)),
            chosen=find_choice(h, native_choices.made, exact_choices.made, run.owners),
        )
        for e, h in zip(exact, run.outputs, strict=True)
    ]
    if not all(_has_meaning(one, special) for one in expected):
        return None
    if protocol.calibrated:
        if not unrounded:
            expected = asked.unlucky(expected, exact)
        expected = asked.with_digits(expected, exact, modelled.used, run.narrowest)
    if native_choices.undecided():
        expected = asked.with_orders(expected)
    after = {
        key: dataclasses.replace(expected_of(exact_after[key], held), slack=slack)
        for key, held in run.after.items()
    }
    aliases, shared = run.aliases, sharing(run.outputs)
    return Case(
        name, None if drawn else inputs, run.structure, expected, aliases, shared, run.changed, run.written, after,
        scale, module, protocol.precision, special, run.left,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _Run:
    """What one run of a reference showed; its inputs are gone."""

    outputs: list[torch.Tensor]
    structure: object
    aliases: list[int]
    changed: list[int]
    written: frozenset[int | str]
    after: dict[int | str, torch.Tensor]
    """Inputs by number and state by name that hold other values than before."""
    left: frozenset[str]
    """What is otherwise than it was, by kind (`held.py`)."""
    owners: set[int]
    """The inputs' storages."""
    narrowest: float
    """The coarsest spacing of numbers among its dtypes."""
    largest: int
    """Elements of the largest input."""


@dataclasses.dataclass(frozen=True)
class _Asked:
    """A reference with inputs, run in several ways; `draw` gives the same inputs each time."""

    module: torch.nn.Module
    draw: Callable[[], Any]
    protocol: Protocol

    def run(self, given: Any, modelled: Rounded, choices: Choices) -> _Run:
        """A copy of the reference on `given`, which are inputs of its own, in the protocol's precision."""
        native = copy.deepcopy(self.module)
        versions = [tensor._version for tensor in flatten(given)]
        state_versions = {name: value._version for name, value in native.state_dict().items()}
        kinds: set[str] = set()
        watch: Watch = partial(note_changes, kinds, native)
        if isinstance(asking := vars(native).get("forward"), WithGradients):
            asking.watch, watch = watch, contextlib.nullcontext
        with runs_reference(), as_asked(given, self.protocol, modelled), choices, watch(given):
            output = native(*given)
        flat, originals = flatten(given), flatten(self.draw())
        owners = {tensor.untyped_storage()._cdata: index for index, tensor in enumerate(flat)}
        outputs = [tensor.detach() for tensor in flatten(output)]
        changed = [i for i, (a, b) in enumerate(zip(flat, originals, strict=True)) if not _same(a, b)]
        before = self.module.state_dict()
        held = {name: value for name, value in native.state_dict().items() if name in before}
        left: list[int | str] = [*changed, *(key for key, one in held.items() if not _same(one, before[key]))]
        written = {*left, *(index for index, tensor in enumerate(flat) if tensor._version != versions[index])}
        written.update(name for name, value in held.items() if value._version != state_versions.get(name))
        kept: dict[int | str, torch.Tensor] = dict(enumerate(flat)) | held
        floating = [tensor for tensor in (*flat, *held.values()) if tensor.is_floating_point()]
        return _Run(
            outputs=outputs,
            structure=skeleton(output),
            aliases=[owners.get(tensor.untyped_storage()._cdata, -1) for tensor in outputs],
            changed=changed,
            written=frozenset(written),
            after={key: kept[key].detach().clone() for key in left},
            left=frozenset(kinds),
            owners=set(owners),
            narrowest=max((torch.finfo(tensor.dtype).eps for tensor in floating), default=0.0),
            largest=max((tensor.numel() for tensor in flat if tensor.is_floating_point()), default=0),
        )

    def in_double(
        self, run: _Run, choices: Choices
    ) -> tuple[list[torch.Tensor], dict[int | str, torch.Tensor]]:
        """(outputs, what it leaves of inputs and state) in float64; those of `run` where the reference cannot be run so."""
        exact, after = run.outputs, run.after
        with where_possible(), torch.no_grad():
            double = copy.deepcopy(self.module).double()
            given = convert(self.draw(), lambda t: t.double() if t.is_floating_point() else t.clone())
            with drawing(given), Wide(), choices:
                wide = flatten(double(*given))
            if [tuple(t.shape) for t in wide] == [tuple(t.shape) for t in run.outputs]:
                exact = [tensor.detach() for tensor in wide]
                kept: dict[int | str, torch.Tensor] = dict(enumerate(flatten(given))) | double.state_dict()
                after = {key: kept[key].detach() for key in run.after}
        return exact, after

    def with_orders(self, expected: list[Expected]) -> list[Expected]:
        """With what the reference makes where ties are in another order (`choices.Reordered`)."""
        for last in (False, True):
            made: list[torch.Tensor] = []
            with where_possible():
                made = self.run(self.draw(), Rounded(self.protocol.precision), Reordered(last)).outputs
            if [tuple(one.shape) for one in made] == [one.shape for one in expected]:
                pairs = zip(expected, made, strict=True)
                expected = [with_order(one, other, self.protocol) for one, other in pairs]
        return expected

    def with_digits(
        self, expected: list[Expected], exact: list[torch.Tensor], tf32: bool, narrowest: float
    ) -> list[Expected]:
        """With the rounding step (`Expected.step`) that outputs of single precision are judged by, where something behind them is
        coarser: operands in TF32, as far as cutting them off moves an output; inputs and weights of a `narrowest` step, as far as
        the reference itself strays. An output that nothing coarse reaches keeps all its digits."""
        most = max(EPSILON if tf32 else 0.0, narrowest)
        single = [torch.finfo(item.dtype).eps < most for item in expected if item.dtype.is_floating_point]
        if most <= COARSE or not any(single):
            return expected
        reached = [item.spread for item in expected]
        if any(map(_few, expected)):
            near = [item.honest_error for item in expected]
            with where_possible():
                near = self._strayed_nearby() or near
            reached = [
                by if _few(item) else far for item, far, by in zip(expected, reached, near, strict=True)
            ]
        if tf32 and sum(math.prod(item.shape) for item in expected) <= _FEW:
            cut = self.draw()
            with as_asked(cut, self.protocol, Rounded(self.protocol.precision, cut_off)):
                outputs = flatten(copy.deepcopy(self.module)(*cut))
            reached = [
                max(far, rms_difference(right, output.detach()))
                for far, right, output in zip(reached, exact, outputs, strict=True)
            ]
        elif tf32:
            reached = [math.inf] * len(expected)

        def digits(item: Expected, far: float) -> Expected:
            if not item.dtype.is_floating_point or torch.finfo(item.dtype).eps >= most:
                return item
            share = far / item.root_mean_square if item.root_mean_square > 0.0 else 0.0
            return dataclasses.replace(item, step=min(most, _REACH * share))

        return [digits(item, far) for item, far in zip(expected, reached, strict=True)]

    def _nearby(self, keep: bool) -> Iterator[tuple[Any, list[torch.Tensor]]]:
        """Inputs that are a rounding away, untouched if asked to `keep` them, and what honest runs make of them; those left out that
        the reference does not take, such as a likelihood above 1."""
        for run in range(_RUNS):
            nudged = convert(self.draw(), lambda tensor, run=run: _nudge(tensor, run))
            made: list[torch.Tensor] = []
            with where_possible(), as_asked(nudged, self.protocol, Rounded(self.protocol.precision)):
                given = convert(nudged, torch.clone) if keep else nudged
                made = flatten(copy.deepcopy(self.module)(*given))
            if made:
                yield nudged, made

    def _strayed_nearby(self) -> list[float]:
        """By output, the most that the reference strays from fp64 at inputs that are a rounding away: of few elements one run
        tells by luck."""
        most: list[float] = []
        for nudged, made in self._nearby(True):
            with torch.no_grad(), drawing(nudged), Wide():
                wide = convert(
                    nudged, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor
                )
                exact = flatten(copy.deepcopy(self.module).double()(*wide))
            errors = [
                rms_difference(right, output.detach()) for right, output in zip(exact, made, strict=True)
            ]
            most = [max(pair) for pair in zip(errors, most or errors, strict=True)]
        return most

    def unlucky(self, expected: list[Expected], exact: list[torch.Tensor]) -> list[Expected]:
        """Of few elements that many are reduced to, the error of one honest run may be small by luck, above all where a sum
        cancels. The largest of a few runs counts, each with every input a rounding away from what it is."""
        if not any(map(_few, expected)):
            return expected
        given = sum(tensor.numel() for tensor in flatten(self.draw()) if tensor.is_floating_point())
        reduced = [_few(item) and _REDUCED * math.prod(item.shape) <= given for item in expected]
        if not any(reduced):
            return expected
        worst = [item.honest_error for item in expected]
        for _, outputs in self._nearby(False):
            for index, (output, right) in enumerate(zip(outputs, exact, strict=True)):
                if reduced[index]:
                    far = (output.detach().double() - right.double()).abs()
                    worst[index] = max(worst[index], float(torch.where(torch.isfinite(far), far, 0.0).max()))
        return [
            dataclasses.replace(one, honest_error=error) for one, error in zip(expected, worst, strict=True)
        ]


def _has_meaning(expected: Expected, special: bool) -> bool:
    """Whether most of an output is finite, or minus infinity in fp64 as well, as scores that a softmax shall not see are; of
    `special` values any infinity will do."""
    judged, infinite = expected.judged, expected.infinite
    if judged is None or infinite is None:
        return True
    masked = infinite if special else infinite & (expected.value.view(infinite.shape) < 0)
    count = judged.numel()
    return float((judged | masked).sum()) >= 0.5 * count and (
        special or float(judged.sum()) >= min(_FINITE * count, _FINITE_ENOUGH)
    )


def _few(expected: Expected) -> bool:
    return expected.dtype.is_floating_point and 0 < math.prod(expected.shape) < MANY


def _nudge(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """Every element a rounding up, a rounding down or as it is."""
    if not tensor.is_floating_point():
        return tensor.clone()
    generator = torch.Generator(tensor.device).manual_seed(seed)
    steps = torch.randint(-1, 2, tensor.shape, generator=generator, device=tensor.device, dtype=tensor.dtype)
    return steps.mul_(torch.finfo(tensor.dtype).eps).add_(1.0).mul_(tensor)


def native(case: Case) -> list[Expected]:
    """What a protocol without calibration expects: the reference's own output under the task's flags."""
    given = convert(case.inputs, torch.clone)
    with running(given, case.precision):
        output = flatten(copy.deepcopy(case.module)(*given))
    return [expected_of(tensor, tensor) for tensor in output]


@where_possible()
def twin(
    reference: Reference, module: torch.nn.Module, case: Case, protocol: Protocol, secret: int
) -> Case | None:
    """`case` with one input element in sixteen drawn anew, but for integers that may be places which are written to once; None
    where the reference does not take that."""
    fresh = iter(flatten(reference.inputs(secret + _TWIN_SEED)))
    names = {name.rstrip("_") for name in operators(module, case.inputs)}
    written = not names.isdisjoint(WRITES)

    def mix(old: torch.Tensor) -> torch.Tensor:
        if written and not old.is_floating_point():
            next(fresh)
            return old
        changed = torch.rand(old.shape, device=old.device) < _TWIN_SHARE
        changed.view(-1)[-1:] = True
        return in_order(old, torch.where(changed, next(fresh), old))

    with private_rng(secret + _TWIN_SEED):
        inputs = convert(case.inputs, mix)
    return make_case(f"{case.name}, a few elements changed", module, inputs, protocol)


@where_possible()
def with_other_weights(
    case: Case, names: Sequence[str], protocol: Protocol, secret: int
) -> tuple[Case, dict[str, torch.Tensor]] | None:
    """`case` under other values of the parameters named, and these values; None where the reference does not take them."""
    module = copy.deepcopy(case.module)
    made: dict[str, torch.Tensor] = {}
    with private_rng(secret + _TWIN_SEED), torch.no_grad():
        for name, parameter in module.named_parameters():
            if name in names and parameter.is_floating_point() and parameter.numel() > 1:
                noise = torch.randn(parameter.shape).to(parameter) * parameter.double().std().to(parameter)
                made[name] = parameter.add_(noise).detach().cpu().clone()
    other = make_case(f"{case.name}, other weights", module, case.inputs, protocol, case.scale)
    return (other, made) if other is not None and made else None


@where_possible()
def of_one_tensor(case: Case, protocol: Protocol) -> Case | None:
    """`case` with inputs that are alike given as one; None where the reference does not take that, or writes to one."""
    if case.changed:
        return None
    known: dict[object, torch.Tensor] = {}

    def first(tensor: torch.Tensor) -> torch.Tensor:
        return known.setdefault((tuple(tensor.shape), tensor.stride(), tensor.dtype), tensor)

    name = f"{case.name}, one tensor for several"
    return make_case(name, case.module, convert(case.inputs, first), protocol, case.scale)


@where_possible()
def with_one_row(case: Case, protocol: Protocol, way: str) -> Case | None:
    """`case` with inputs of which all rows are the first (those of the `way`); None where the reference does not take that, or whole
    numbers that rise or fall (where rows of each group end) would be alike: what is between them is nobody's then."""
    places = itertools.count()
    asked = [tensor for place, tensor in enumerate(flatten(case.inputs)) if concerns(way, place)]
    if any(not tensor.is_floating_point() and orders(tensor) for tensor in asked):
        return None

    def first(tensor: torch.Tensor) -> torch.Tensor:
        if not concerns(way, next(places)) or not tensor.ndim or not tensor.shape[0]:
            return tensor
        return tensor[:1].expand(tensor.shape).clone(memory_format=torch.contiguous_format)

    name = f"{case.name}, one row for all"
    return make_case(name, case.module, convert(case.inputs, first), protocol, case.scale)


@where_possible()
def evaluating(case: Case, protocol: Protocol) -> Case | None:
    """`case` in evaluation mode; None where the reference has no meaning there."""
    module = copy.deepcopy(case.module).eval()
    made = make_case(f"{case.name}, evaluated", module, case.inputs, protocol, case.scale)
    if made is not None and isinstance(vars(module).get("forward"), WithGradients):
        away_from_kinks(made)
    return made


def roughly(case: Case) -> Case:
    """`case` where automatic casts may have rounded anything to half precision."""

    def wide(one: Expected) -> Expected:
        most = max(one.root_mean_square, one.typical) * _CAST_AUTOMATICALLY
        return dataclasses.replace(one, honest_error=max(one.honest_error, most), spread=math.inf)

    return dataclasses.replace(case, name=f"{case.name}, roughly", expected=list(map(wide, case.expected)))


def steers(case: Case, name: str, outputs_alone: bool = False) -> bool:
    """Whether the outputs of a call, or the state that it leaves unless `outputs_alone`, hang on a tensor of the reference's state."""
    made = []
    for more in (0, 1):
        module = copy.deepcopy(case.module)
        module.state_dict()[name].add_(more)
        with where_possible(), running(case.inputs, case.precision):
            outputs = flatten(module(*convert(case.inputs, torch.clone)))
            state = {key: value for key, value in module.state_dict().items() if key != name}
            made.append(outputs if outputs_alone else [*outputs, *state.values()])
    return len(made) == 2 and not all(map(_same, *made))


def away_from_kinks(case: Case) -> None:
    """Nothing is asked of a case where its outputs jump within rounding of its inputs and weights: a gradient is a choice there."""
    beside = []
    for step in (_BESIDE, -_BESIDE):
        with where_possible(), torch.no_grad(), drawing(case.inputs), Wide():
            module = copy.deepcopy(case.module).double()
            for weight in module.parameters():
                weight.add_(step)
            given = convert(
                case.inputs, lambda t, by=step: t.double() + by if t.is_floating_point() else t.clone()
            )
            beside.append([one.detach() for one in flatten(module(*given))])
    if len(beside) < 2:
        return
    for number, (one, up, down) in enumerate(zip(case.expected, *beside, strict=True)):
        if one.dtype.is_floating_point and one.value.shape == up.shape:
            jump = ~((up - down).abs() <= _JUMP * (one.value.abs() + one.typical))
            if bool(jump.any()):
                judged = torch.ones_like(jump) if one.judged is None else one.judged.reshape(jump.shape)
                case.expected[number] = dataclasses.replace(one, judged=judged & ~jump)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a, b) or (a.is_floating_point() and torch.equal(a.nan_to_num(), b.nan_to_num()))
