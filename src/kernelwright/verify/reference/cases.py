"""A correctness case: inputs, the reference's fp64 result, and how far an honest run may stray from it.

The allowed error is a small multiple of an honest PyTorch run's error against fp64 in the task's own precision. It exceeds
the protocol's tolerance only where inputs scaled far up make that run exceed it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from kernelwright.graph.disorder import WRITES, Disorder
from kernelwright.precision import Precision
from kernelwright.verify.gradients import Watch, WithGradients
from kernelwright.verify.held import note_changes
from kernelwright.verify.protocol import Protocol
from kernelwright.verify.reference import roundings
from kernelwright.verify.reference.choices import Choices, Reordered, find_choice
from kernelwright.verify.reference.comparison import MANY, with_order
from kernelwright.verify.reference.copies import copied, doubled
from kernelwright.verify.reference.distributions import in_order, orders
from kernelwright.verify.reference.expected import (
    COARSE,
    Expected,
    expected_of,
    nbytes,
    octaves_of,
    rms_difference,
)
from kernelwright.verify.reference.operators import operators
from kernelwright.verify.reference.residuals import residuals
from kernelwright.verify.reference.rounded import EPSILON, Rounded, Wide, cut_off
from kernelwright.verify.reference.task_module import (
    NotModelled,
    Reference,
    as_asked,
    drawing,
    in_double,
    left_by,
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
"""The most elements of inputs and outputs for which roundings are examined."""
_FEW_FACTORS = 1 << 14
"""The most elements of an input for which the factors that move it by a rounding are kept."""
_FAR, _FAR_SLACK = 3.0, 8.0
_FINITE, _FINITE_ENOUGH = 0.05, 64
"""If the rest is masked, this share of an output must be finite, or this many elements: as many as tell of any small output."""
_NEAR_OVERFLOW = 1e36
_CAST_AUTOMATICALLY = 2.0**-5
"""Error, relative to an output's usual size, that autocast may make."""
_REACH = 1.4
"""Factor from how far truncated TF32 operands (off by half a step on average) move an output to its rounding step, at most."""
_TWIN_SHARE, _TWIN_SEED = 1 / 16, 6151
_BESIDE, _JUMP = 1e-9, 1e-4
"""How far inputs and weights are moved to look for a kink of a gradient, and the relative jump that counts as one."""


@dataclasses.dataclass
class Case:
    """A correctness case."""

    name: str
    inputs: Any
    """Arguments of `forward` from `get_inputs` (scaled); None if only the seed is kept."""
    structure: object
    """The reference's output with tensors replaced by their index."""
    expected: list[Expected]
    aliases: list[int]
    """Per output: the index of the input whose memory it shares, or -1."""
    shared: list[int]
    """Per output: the first output that it shares elements with, itself if it overlaps itself, or -1."""
    changed: list[int]
    """Indices of inputs whose values the reference itself changes."""
    written: frozenset[int | str]
    """Inputs (by index), weights and buffers (by name) that the reference writes to, even if they keep their values."""
    after: dict[int | str, Expected]
    """Expected contents, after the call, of inputs, weights and buffers that the reference changes."""
    scale: float
    """Factor on the inputs."""
    module: torch.nn.Module
    """The reference."""
    precision: Precision
    """The precision of the task."""
    special: bool = False
    """Whether the inputs are special values: their exact ties count, and no rounding decides them."""
    left: frozenset[str] = frozenset()
    """Kinds of the caller's state that the reference changes (`held.py`)."""
    part: tuple[Case, Sequence[int]] | None = None
    """The case that this is a part of, and the outputs that it has of it."""
    given: bool = False
    """Whether the inputs are exactly what they are: no rounding before a bound decides."""
    tied: bool = False
    """Whether what is equal stays equal, and exact results exact, where roundings are examined, of floats, too."""
    disordered: bool = False
    """Whether the reference writes different values to one place in no defined order."""
    crossed: bool = False
    """Whether programs may be given the same integers, or neighbours the same two in either order, for which they wait for each other."""
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
        """Whether the inputs are kept, and all has so few elements that roundings can be examined."""
        given = flatten(self.inputs)
        held = (*given, *(item.value for item in self.expected))
        most = _FEW_ON_GPU if any(tensor.is_cuda for tensor in held) else _FEW
        return bool(given) and sum(tensor.numel() for tensor in held) <= most

    def with_roundings(self) -> list[Expected]:
        """The expectations with how far roundings move them; without it if elements are not `few`."""
        if self.part is not None:
            whole, places = self.part
            return [whole.with_roundings()[place] for place in places]
        if self._rounded is None and self.few:
            exact = [item.value.reshape(item.shape) for item in self.expected]
            with running(self.inputs, Precision("ieee", False, False)):
                tied = [
                    self.tied or (self.special and not one.dtype.is_floating_point) for one in self.expected
                ]
                moved = {
                    ties: roundings.largest_moves(self.module, self.inputs, exact, ties, self.given)
                    for ties in sorted(set(tied))
                }
                kept = roundings.with_kept_in_half(self.module, self.inputs) or exact
            far = [moved[ties][place] for place, ties in enumerate(tied)]
            self._rounded = [
                one
                if one.residual
                else dataclasses.replace(one, moved=by, spread=max(one.spread, rms_difference(right, held)))
                for one, by, right, held in zip(self.expected, far, exact, kept, strict=True)
            ]
        return self._rounded or self.expected

    def in_single(self) -> tuple[list[Expected], dict[int | str, Expected]]:
        """(`expected`, `after`) with the reference's Python numbers replaced by `roundings.numbers_in_single`; unchanged if there
        are none to replace or elements are not `few`."""
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
        made = roundings.numbers_in_single(partial(in_double, self.module, self.inputs))
        if made is None:
            return self.expected, self.after
        outputs, left = made

        def other(expected: Expected, value: torch.Tensor) -> Expected:
            if not expected.dtype.is_floating_point:
                return expected
            return dataclasses.replace(expected, value=value.detach().to(expected.value.dtype).contiguous())

        return (
            [other(one, value) for one, value in zip(self.expected, outputs, strict=True)],
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
    """Make the case of `inputs`, which have been multiplied by `scale`. None if the reference has no meaning there: most of its
    output is not finite or, for scaled inputs, nearly overflows, or it raises for these (a Cholesky factor of a negative matrix). For `special` values
    infinities have a meaning. `unrounded`: the exact inputs decide, so no rounding of them is examined.

    `inputs` may be a function that draws the same ones on each call. Then they are never held together with what is computed
    from them, and the case comes without. `footprint.Footprint.making` is the peak memory of this function.
    """
    drawn = callable(inputs)
    runs = _ReferenceRuns(module, inputs if drawn else lambda: inputs, protocol)
    fresh: Callable[[], Any] = inputs if drawn else lambda: convert(inputs, torch.clone)
    modelled, native_choices, exact_choices = Rounded(protocol.precision), Choices(), Choices()
    try:
        run = runs.run(fresh(), modelled, native_choices)
    except NotModelled:
        if scale == 1.0:
            raise
        return None
    if scale != 1.0 and native_choices.of_nan:
        return None
    count, slack = len(run.outputs), _FAR_SLACK if abs(scale) > _FAR else 1.0
    exact, found = runs.expectations(run, modelled.used, exact_choices, slack, scale != 1.0 and not special)
    expected = [
        dataclasses.replace(
            one,
            terms=max(1.0, run.largest / max(h.numel(), 1)),
            chosen=find_choice(h, native_choices.made, exact_choices.made, run.owners),
            octaves=octaves_of(e, h) if native_choices.is_softmax(h) else None,
        )
        for one, e, h in zip(found[:count], exact[:count], run.outputs, strict=True)
    ]
    if not all(_has_meaning(one, special) for one in expected) or (
        scale != 1.0 and any(map(_nearly_overflows, expected))
    ):
        return None
    if protocol.calibrated:
        if not unrounded:
            expected = runs.unlucky(expected, exact[:count])
        expected = runs.with_digits(expected, exact[:count], modelled.used, run.narrowest)
    if native_choices.undecided():
        expected = runs.with_orders(expected, run)
    if scale != 1.0:
        expected = [_without_huge(one) for one in expected]
    return Case(
        name, None if drawn else inputs, run.structure, expected, run.aliases, sharing(run.outputs), run.changed,
        run.written, dict(zip(run.after, found[count:], strict=True)), scale, module, protocol.precision, special, run.left,
        disordered=run.disordered,
    )  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _Run:
    """Results of one run of a reference; its inputs are not kept."""

    outputs: list[torch.Tensor]
    structure: object
    aliases: list[int]
    changed: list[int]
    written: frozenset[int | str]
    after: dict[int | str, torch.Tensor]
    """Inputs (by number) and state (by name) that the run changed, as it left them."""
    left: frozenset[str]
    """Kinds of the caller's state that it changed (`held.py`)."""
    owners: set[int]
    """The inputs' storages."""
    narrowest: float
    """The coarsest epsilon among its dtypes."""
    largest: int
    """Elements of the largest input."""
    disordered: bool
    """Whether it wrote different values to one place in no defined order."""


@dataclasses.dataclass(frozen=True)
class _ReferenceRuns:
    """A reference and its inputs, run in several ways; `draw` returns the same inputs each time."""

    module: torch.nn.Module
    draw: Callable[[], Any]
    protocol: Protocol

    def run(self, given: Any, modelled: Rounded, choices: Choices) -> _Run:
        """Run a copy of the reference on `given`, a copy of the inputs, in the protocol's precision."""
        native = copied(self.module)
        versions = [tensor._version for tensor in flatten(given)]
        state_versions = {name: value._version for name, value in native.state_dict().items()}
        kinds: set[str] = set()
        watch: Watch = partial(note_changes, kinds, native)
        if isinstance(asking := vars(native).get("forward"), WithGradients):
            asking.watch, watch = watch, contextlib.nullcontext
        with (
            runs_reference(),
            as_asked(given, self.protocol, modelled),
            choices,
            Disorder() as disorder,
            watch(given),
        ):
            output = native(*given)
        flat, originals = flatten(given), flatten(self.draw())
        owners = {tensor.untyped_storage()._cdata: index for index, tensor in enumerate(flat)}
        outputs = [tensor.detach() for tensor in flatten(output)]
        changed = [i for i, (a, b) in enumerate(zip(flat, originals, strict=True)) if not _same(a, b)]
        before = self.module.state_dict()
        held = {name: value for name, value in native.state_dict().items() if name in before}
        left: list[int | str] = [
            *changed,
            *(
                key  # even if what is written is what was there: a step at which nothing is due
                for key, one in held.items()
                if one._version != state_versions.get(key) or not _same(one, before[key])
            ),
        ]
        written = {*left, *(index for index, tensor in enumerate(flat) if tensor._version != versions[index])}
        kept = left_by(native, given)
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
            disordered=disorder.found,
        )

    def expectations(
        self, run: _Run, tf32: bool, choices: Choices, slack: float, scaled: bool
    ) -> tuple[list[torch.Tensor], list[Expected]]:
        """Of outputs, then of changed inputs and state: the values in fp64, of residuals the run's own, and what is expected."""
        made = [*run.outputs, *run.after.values()]
        exact, moved = made, {}
        if self.protocol.calibrated:
            exact = self.in_double(run, choices)
            if not tf32:  # which operands lose digits to TF32 is up to the kernel
                moved = residuals(self.module, self.draw, tuple(run.after), exact, made, self.protocol)
            exact = [made[place] if place in moved else one for place, one in enumerate(exact)]
        found = []
        for place, pair in enumerate(zip(exact, made, strict=True)):
            one = dataclasses.replace(expected_of(*pair, scaled), slack=slack)
            found.append(one.as_residual(moved[place]) if place in moved else one)
        return exact, found

    def in_double(self, run: _Run, choices: Choices) -> list[torch.Tensor]:
        """Outputs, then changed inputs and state in float64; those of `run` if the reference cannot run in float64."""
        exact = [*run.outputs, *run.after.values()]
        with where_possible():
            wide, left = in_double(self.module, self.draw(), choices)
            if [tuple(t.shape) for t in wide] == [tuple(t.shape) for t in run.outputs]:
                exact = [*wide, *(left[key].detach() for key in run.after)]
        return exact

    def with_orders(self, expected: list[Expected], run: _Run) -> list[Expected]:
        """With what the reference makes if ties are in another order (`choices.Reordered`): in the protocol's precision, where
        roundings make ties, and in float64, from which a kernel's distance is its own."""
        for last in (False, True):
            made: list[list[torch.Tensor]] = []
            with where_possible():
                made.append(self.run(self.draw(), Rounded(self.protocol.precision), Reordered(last)).outputs)
            if self.protocol.calibrated:
                made.append(self.in_double(run, Reordered(last))[: len(run.outputs)])
            for other in made:
                if [tuple(one.shape) for one in other] == [one.shape for one in expected]:
                    pairs = zip(expected, other, strict=True)
                    expected = [with_order(*pair, self.protocol) for pair in pairs]
        return expected

    def with_digits(
        self, expected: list[Expected], exact: list[torch.Tensor], tf32: bool, narrowest: float
    ) -> list[Expected]:
        """With the rounding step (`Expected.step`) by which single-precision outputs are judged if something coarser affects
        them: TF32 operands, as far as truncating them moves an output; inputs and weights of a coarser dtype (`narrowest`),
        as far as the reference itself strays. An output that nothing coarse reaches keeps all its digits."""
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
                outputs = flatten(copied(self.module)(*cut))
            reached = [
                max(far, rms_difference(right, output.detach()))
                for far, right, output in zip(reached, exact, outputs, strict=True)
            ]
        elif tf32:
            reached = [math.inf] * len(expected)

        def digits(item: Expected, far: float) -> Expected:
            if item.residual or not item.dtype.is_floating_point or torch.finfo(item.dtype).eps >= most:
                return item
            share = far / item.root_mean_square if item.root_mean_square > 0.0 else 0.0
            return dataclasses.replace(item, step=min(most, _REACH * share))

        return [digits(item, far) for item, far in zip(expected, reached, strict=True)]

    def _nudged(self, run: int) -> Any:
        """Inputs that are a rounding away."""
        return convert(self.draw(), lambda tensor: _nudge(tensor, run))

    @functools.cached_property
    def _near(self) -> dict[int, list[torch.Tensor | None]]:
        """By run, the outputs of an honest run on inputs a rounding away, None for those of many elements. Inputs that the
        reference does not accept, such as a likelihood above 1, are left out."""
        found: dict[int, list[torch.Tensor | None]] = {}
        for run in range(_RUNS):
            nudged = self._nudged(run)
            with where_possible(), as_asked(nudged, self.protocol, Rounded(self.protocol.precision)):
                made = flatten(copied(self.module)(*nudged))
                found[run] = [one.detach() if _few(one) else None for one in made]
        return found

    def _strayed_nearby(self) -> list[float]:
        """By output of few elements, the largest deviation of the reference from fp64 at inputs a rounding away: a single run may
        be lucky."""
        most: list[float] = []
        for run, made in self._near.items():
            exact, _ = in_double(self.module, self._nudged(run))
            errors = [
                0.0 if output is None else rms_difference(right, output)
                for right, output in zip(exact, made, strict=True)
            ]
            most = [max(pair) for pair in zip(errors, most or errors, strict=True)]
        return most

    def unlucky(self, expected: list[Expected], exact: list[torch.Tensor]) -> list[Expected]:
        """If an output is few elements reduced from many, one honest run's error may be small by luck, above all where a sum
        cancels. We take the largest of a few runs, each with every input a rounding away."""
        if not any(map(_few, expected)):
            return expected
        given = sum(tensor.numel() for tensor in flatten(self.draw()) if tensor.is_floating_point())
        reduced = [
            _few(item) and not item.residual and _REDUCED * math.prod(item.shape) <= given
            for item in expected
        ]
        if not any(reduced):
            return expected
        worst = [item.honest_error for item in expected]
        for outputs in self._near.values():
            for index, (output, right) in enumerate(zip(outputs, exact, strict=True)):
                if reduced[index] and output is not None:
                    far = (output.double() - right.double()).abs()
                    worst[index] = max(worst[index], float(torch.where(torch.isfinite(far), far, 0.0).max()))
        return [
            dataclasses.replace(one, honest_error=error) for one, error in zip(expected, worst, strict=True)
        ]


def _has_meaning(expected: Expected, special: bool) -> bool:
    """Whether most of an output is finite, or minus infinity also in fp64, like scores masked for a softmax; for `special`
    values any infinity counts."""
    judged, infinite = expected.judged, expected.infinite
    if judged is None or infinite is None:
        return True
    masked = infinite if special else infinite & (expected.value.view(infinite.shape) < 0)
    count = judged.numel()
    return float((judged | masked).sum()) >= 0.5 * count and (
        special or float(judged.sum()) >= min(_FINITE * count, _FINITE_ENOUGH)
    )


def _nearly_overflows(expected: Expected) -> bool:
    """Whether nothing overflows, but an element is so large that the same products in another order may."""
    wide = expected.dtype in (torch.float32, torch.bfloat16) and expected.judged is None
    if not wide or not expected.value.numel():
        return False
    least, most = expected.value.aminmax()
    return max(-float(least), float(most)) > _NEAR_OVERFLOW


def _without_huge(expected: Expected) -> Expected:
    """The same, not judged where an output with infinities nearly overflows: parts of both signs may, which is NaN."""
    if expected.judged is None or expected.dtype not in (torch.float32, torch.bfloat16):
        return expected
    small = expected.value.view(expected.judged.shape).abs() <= _NEAR_OVERFLOW
    return dataclasses.replace(expected, judged=expected.judged & small)


def _few(expected: Expected | torch.Tensor) -> bool:
    return expected.dtype.is_floating_point and 0 < math.prod(expected.shape) < MANY


def _nudge(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """Every element one rounding up, one down, or unchanged. Floats of 8 bits are codes, which nobody rounds again."""
    if not tensor.is_floating_point() or tensor.itemsize == 1:
        return tensor.clone()
    few = tensor.numel() <= _FEW_FACTORS and not tensor.is_cuda
    factors = (_factors if few else _factors.__wrapped__)(tensor.shape, tensor.dtype, tensor.device, seed)
    return factors * tensor if few else factors.mul_(tensor)


@functools.lru_cache(maxsize=512)
def _factors(shape: torch.Size, dtype: torch.dtype, device: torch.device, seed: int) -> torch.Tensor:
    """One, or a rounding more or less, for each element of a tensor."""
    generator = torch.Generator(device).manual_seed(seed)
    steps = torch.randint(-1, 2, shape, generator=generator, device=device, dtype=dtype)
    return steps.mul_(torch.finfo(dtype).eps).add_(1.0)


def native(case: Case) -> list[Expected]:
    """What a protocol without calibration expects: the reference's own output under the task's flags."""
    given = convert(case.inputs, torch.clone)
    with running(given, case.precision):
        output = flatten(copied(case.module)(*given))
    return [expected_of(tensor, tensor) for tensor in output]


@where_possible()
def twin(
    reference: Reference, module: torch.nn.Module, case: Case, protocol: Protocol, secret: int
) -> Case | None:
    """`case` with one input element in sixteen redrawn, except integers if the reference scatters: they may be distinct targets.
    None if the reference does not accept that."""
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
    """`case` under other values of the parameters named, and these values; None if the reference does not accept them."""
    module = copied(case.module)
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
    """`case` with inputs that are alike passed as one tensor; None if the reference does not accept that, or writes to inputs."""
    if case.changed:
        return None
    known: dict[object, torch.Tensor] = {}

    def first(tensor: torch.Tensor) -> torch.Tensor:
        return known.setdefault((tuple(tensor.shape), tensor.stride(), tensor.dtype), tensor)

    name = f"{case.name}, one tensor for several"
    return make_case(name, case.module, convert(case.inputs, first), protocol, case.scale)


@where_possible()
def with_one_row(case: Case, protocol: Protocol, way: str) -> Case | None:
    """`case` with inputs (those of the `way`) whose rows all equal the first. None if the reference does not accept that, or if
    sorted integers (where groups of rows end) would become equal: rows between them would belong to no group."""
    places = itertools.count()
    tensors = [tensor for place, tensor in enumerate(flatten(case.inputs)) if concerns(way, place)]
    if any(not tensor.is_floating_point() and orders(tensor) for tensor in tensors):
        return None

    def first(tensor: torch.Tensor) -> torch.Tensor:
        if not concerns(way, next(places)) or not tensor.ndim or not tensor.shape[0]:
            return tensor
        return tensor[:1].expand(tensor.shape).clone(memory_format=torch.contiguous_format)

    name = f"{case.name}, one row for all"
    return make_case(name, case.module, convert(case.inputs, first), protocol, case.scale)


@where_possible()
def evaluating(case: Case, protocol: Protocol) -> Case | None:
    """`case` in evaluation mode; None if the reference has no meaning there."""
    module = copied(case.module).eval()
    made = make_case(f"{case.name}, evaluated", module, case.inputs, protocol, case.scale)
    if made is not None and isinstance(vars(module).get("forward"), WithGradients):
        away_from_kinks(made)
    return made


def roughly(case: Case) -> Case:
    """`case` with tolerances as if autocast had rounded anything to half precision."""

    def wide(one: Expected) -> Expected:
        most = max(one.root_mean_square, one.typical) * _CAST_AUTOMATICALLY
        return dataclasses.replace(one, honest_error=max(one.honest_error, most), spread=math.inf)

    return dataclasses.replace(case, name=f"{case.name}, roughly", expected=list(map(wide, case.expected)))


def steers(case: Case, names: Sequence[str], outputs_alone: bool = False) -> bool:
    """Whether outputs, or (unless `outputs_alone`) the state after the call, depend on tensors of the reference's state, all of which
    are moved at once, each by another number. Of several, which are then counts, the state has to be what it was plus these."""
    made, moves = [], {name: place for place, name in enumerate(names, 1)}
    for factor in (0, 1):
        module = copied(case.module)
        for name, by in moves.items():
            module.state_dict()[name].add_(factor * by)
        with where_possible(), running(case.inputs, case.precision):
            outputs = flatten(module(*convert(case.inputs, torch.clone)))
            state = module.state_dict()
            if len(moves) == 1:
                state.pop(*moves)
            after = [one - factor * moves.get(name, 0) for name, one in state.items()]
            made.append(outputs if outputs_alone else [*outputs, *after])
    if len(made) < 2:
        return len(moves) > 1  # one by one it may run
    return not all(map(_same, *made))


def away_from_kinks(case: Case) -> None:
    """Excludes elements whose value jumps within rounding of inputs and weights: a gradient is a choice there."""
    shifted = []
    for step in (_BESIDE, -_BESIDE):
        wide = Wide(case.module.state_dict(), case.inputs)
        with where_possible(), torch.no_grad(), drawing(case.inputs), wide:
            module = doubled(case.module)
            for weight in module.parameters():
                weight.add_(step)
            given = convert(
                case.inputs, lambda t, by=step: t.double() + by if t.is_floating_point() else t.clone()
            )
            shifted.append([one.detach() for one in flatten(module(*given))])
    if len(shifted) < 2:
        return
    for number, (one, up, down) in enumerate(zip(case.expected, *shifted, strict=True)):
        if one.dtype.is_floating_point and one.value.shape == up.shape:
            jump = ~((up - down).abs() <= _JUMP * (one.value.abs() + one.typical))
            if bool(jump.any()):
                judged = torch.ones_like(jump) if one.judged is None else one.judged.reshape(jump.shape)
                case.expected[number] = dataclasses.replace(one, judged=judged & ~jump)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a, b) or (a.is_floating_point() and torch.equal(a.nan_to_num(), b.nan_to_num()))
