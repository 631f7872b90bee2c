"""The cases of a shape set: inputs drawn under secret seeds and weights, plus special values.

Only inputs and weights go from here to a worker. `special_values.py` defines which values are special for which operators,
`cases.py` what is expected of a case.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from kernelwright.errors import UserError
from kernelwright.graph import narrow
from kernelwright.graph.disorder import Disorder
from kernelwright.records import Task
from kernelwright.verify.messages import Gradients
from kernelwright.verify.protocol import Protocol
from kernelwright.verify.reference import (
    after_calls,
    allowances,
    carried,
    chains,
    checkpoint,
    in_part,
    locality,
    met,
    reach,
    renumbered,
    roundings,
    row_shapes,
    settling,
    special_values,
    start_values,
    whole_numbers,
)
from kernelwright.verify.reference.cases import Case, away_from_kinks, make_case, twin
from kernelwright.verify.reference.choices import CHOSEN, Choice, Choices, arranged, with_ties
from kernelwright.verify.reference.copies import copied
from kernelwright.verify.reference.distributions import case_name, draws, near_one_number, scale_inputs
from kernelwright.verify.reference.expected import Expected
from kernelwright.verify.reference.gradient_cases import writable
from kernelwright.verify.reference.hidden_sizes import (
    AFTER,
    AGAIN,
    FAINT,
    HIDDEN,
    LEAST,
    LONG_AFTER,
    NONE,
    ONE,
    PHASE,
    after_others,
    full_sizes,
    own_only,
)
from kernelwright.verify.reference.operators import (
    REDUCING,
    Operators,
    Side,
    bounds_of_inputs,
    operators,
    sides,
)
from kernelwright.verify.reference.outweighed import outweigh
from kernelwright.verify.reference.renumbered import in_another_type, names_of_inputs, with_other_numbers
from kernelwright.verify.reference.task_module import (
    NotModelled,
    Reference,
    failing_as,
    finite,
    for_task,
    in_double,
    init_seed,
    outputs_of,
    runs_reference,
    where_possible,
)
from kernelwright.verify.structures import convert, flatten, with_changed
from kernelwright.verify.trace import affine

_SPECIAL_SEED = 49_979_687
_UP = ("far", "distant", "ladder", "scores", "long", "degenerate", "apart", "least", "alone", "alone_least")
_SCALED_UP, _SPECIAL = 30.0, -1.0
"""`Case.scale` of special values: none are the task's own, and some are as far off as inputs that are scaled up."""
_BESIDE_ENDS = (1e-30, 1e-6)
"""How near ranges of positive numbers come to 0 where the reference is not finite there, by the first if it is little more than a
function; to 1 they come by the second."""
_WIDE = (31, 30, 28)
"""Bits of 32-bit integers that are tried."""
_FACTORS = (1e2, -1e2, 1e3, -1e3, 1e4, -1e4, 1e5, -1e5, 1e-3, 0.0)
"""Factors on inputs that may put a value in the middle of a chain on the other side of a bound."""
_FAR_FACTOR = 30.0
_OF_COTANGENTS = {3.0: (2.0**-30, "tiny"), -1.0: (2.0**16, "large")}
"""By factor on inputs: factor on cotangents at the first size (behind a mean over millions; of a scaled loss), and its name."""
_MORE_OF_THEM = 16.0
"""How many times as many elements full size, or an input, must have for sums to be taken to be larger there."""
_WEIGHT_DRAWS = 24
"""The most draws of wild weights in search of one that crosses a bound."""
LISTS = "long_lists"
"""Name of the set of sizes at which one list of many has nearly all entries."""
_ALIKE = "alike"
"""The kind of integers that are all equal."""
_HOLES = "holes"
"""The kind of rows with more, or fewer, holes than drawn ones."""
_OUTWEIGHED = "outweighed"
"""The kind of values that are as large as their weights are small."""
_MASK_DRAWS = 8
"""Draws that tell which places of a mask never change."""
_FEW_INTEGERS = 16
"""Fewer integers than this may all lie far below the largest that their task draws."""
_PHASES = 8
"""Most states in which counts stand where a call may do something else."""
_MORE_DRAWS, _MORE_SEED = 8, 32_452_843
"""Additional draws of inputs, if those of the distributions tell nothing."""
_AT_LONG_SIZES = ("long", "crowded", "flat", "alone", "alone_least", "scores")
"""Special values of long sizes."""
_SECOND = ("distant", "tiny", "bounds", "faint", "eighths")
"""Special values of the second shape set, besides the first kind of all."""
_FEWER, _LITTLE_AND_MUCH = 64, (0.01, 30.0)
"""How many times as many elements another input has as one of few (a rate, a slope), and factors on these at long sizes."""
_MANY_FEW = 32
"""The most inputs of few elements that are tried one by one."""
_ASIDE = 0.2
"""How far rows lie aside of the direction of another, relative to its length."""
_MOST_STEPS = 1 << 20
"""The largest number that counts as one of steps."""
_SHORT, _SHORT_IN_HALF = 16, 4
"""Negated exponents of ten of the factors that make rows as short as a bound end before these."""
_STRAIGHT = 1e-9
"""Share of the largest output up to which a reference counts as linear in an input."""
_FEW_NUMBERS = 8.0
"""An output has few numbers if the largest input has as many times as many elements."""
_FLAT = 1e-6
"""Elements whose range is within this share of the largest count as all equal."""


@dataclasses.dataclass
class ShapeCases:
    """All cases of a shape set, and what a worker needs to build the module."""

    name: str
    init: Sequence[object]
    seed: int
    """Seed of the weights."""
    gradients: Gradients | None
    """Names of parameters and positions of outputs that have gradients; None if gradients are not asked."""
    state: dict[str, torch.Tensor]
    cases: list[Case]
    make_twin: Callable[[], Case | None]
    operators: Operators
    """Aten operators of the reference, without overloads, in order."""
    drawn: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    """The constructor's values in place of `state`, if that is a checkpoint's (`checkpoint.py`)."""
    make_as_built: Callable[[], ShapeCases] | None = None
    far: bool = False
    """Whether weights let elements reach further than the constructor's do (`reach.py`), or inputs of few elements may."""

    @functools.cached_property
    def as_built(self) -> ShapeCases:
        """The same cases under the constructor's weights. Made when a candidate first needs it; few do."""
        return self.make_as_built() if self.make_as_built is not None else self

    def first_as_drawn(self) -> Case:
        """The first case under the constructor's weights: where a checkpoint has zeros, an input does not matter."""
        case = self.cases[0]
        if not self.drawn:
            return case
        return dataclasses.replace(case, module=checkpoint.load(copied(case.module), self.drawn))

    @functools.cached_property
    def bend(self) -> frozenset[int]:
        """Places of inputs of few elements that are scaled by themselves at long sizes."""
        if self.gradients is not None:
            return frozenset()
        return few_that_bend(self.cases[0].module, self.cases[0].inputs)

    @functools.cached_property
    def renumbered(self) -> list[object]:
        """Inputs (`describe`d) with each Python number changed in turn, if the reference then gives outputs of the same
        shapes."""
        return list(with_other_numbers(self.cases[0]))

    @functools.cached_property
    def retyped(self) -> list[object]:
        """The same with inputs of another type."""
        return list(in_another_type(self.cases[0]))

    @functools.cached_property
    def writable(self) -> tuple[int, ...]:
        """See `gradient_cases.writable`."""
        return writable(self.cases[0])

    @property
    def names(self) -> Sequence[str]:
        """The reference's names for its inputs; empty if it does not name them."""
        return names_of_inputs(self.cases[0])

    @property
    def tied(self) -> list[list[str]]:
        """Groups of names that are one parameter."""
        groups: dict[int, list[str]] = {}
        for name, one in self.cases[0].module.named_parameters(remove_duplicate=False):
            groups.setdefault(id(one), []).append(name)
        return [names for names in groups.values() if len(names) > 1]

    @functools.cached_property
    def twin(self) -> Case | None:
        """The first case with a few input elements changed, too few for a fingerprint of the inputs to notice.

        Made when a candidate first needs it: most keep nothing from call to call.
        """
        return self.make_twin()


@dataclasses.dataclass
class _Making:
    """What the cases of a shape set are made from: its name and position among the task's, the reference, its weights."""

    name: str
    position: int
    reference: Reference
    module: torch.nn.Module
    protocol: Protocol
    secret: int
    bend: frozenset[int]
    """Places of inputs that are known to bend (`few_that_bend`)."""

    def case(self, kind: str, inputs: Any, scale: float = _SPECIAL, direct: bool = False) -> Case | None:
        """A case of special values; None if the reference has no meaning there."""
        return make_case(
            f"{self.name}, {kind}", self.module, inputs, self.protocol, scale, special=True, unrounded=direct
        )

    @functools.cached_property
    def drawn(self) -> list[Any]:
        """The inputs from which special values are made."""
        return self.reference.inputs(self.seed)

    @property
    def seed(self) -> int:
        return self.secret + _SPECIAL_SEED + 15_485_863 * self.position


def shape_cases(
    task: Task,
    name: str,
    sizes: Mapping[str, int],
    protocol: Protocol,
    secret: int,
    position: int,
    device: str = "cpu",
    long: bool = False,
    special: bool = True,
    farther: Mapping[str, float] | None = None,
    few: bool = False,
    bend: frozenset[int] = frozenset(),
    moved: checkpoint.State | None = None,
    numbers: Mapping[int, int] = MappingProxyType({}),
) -> ShapeCases:
    """All cases of the shape set `name`, the `position`-th of its task. A `long` set (`long_sizes.py`) has only the task's own
    distribution and, if `special`, a few special values. `farther`: parameters that are moved (`reach.farther`). With `few`
    inputs of few elements are scaled even without `special`; those at `bend` are known to be (`few_that_bend`). `moved`: state
    in place of the constructor's. `numbers`: Python integers, by place, in place of the drawn ones. Raises UserError if the task
    fails."""
    with narrow.of_bytes(task.source), failing_as(task):
        protocol = for_task(protocol, task)
        reference = Reference(task, dict(sizes), device)
        reference.numbers = dict(numbers)
        if position == 1 and protocol.affine:
            _turn(reference, secret)
            _begin(reference, secret)
        of_weights = weights_seed(reference, protocol, secret, position)
        module = reference.build(protocol.affine, of_weights)

        def made(module: torch.nn.Module) -> ShapeCases:
            making = _Making(name, position, reference, module, protocol, secret, bend)
            return _cases_of(making, of_weights, long, special, few)

        if farther:
            moved = reach.moved_parameters(module, farther, torch.Generator().manual_seed(secret))
        if name == FAINT and (moved := _faint(reference, module, protocol, secret)) is None:
            raise UserError(f"task {task.id}: no weight is beside a tiny constant")
        if moved:
            shape = made(checkpoint.load(copied(module), moved))
            shape.drawn, shape.far = _state(module), bool(farther)
            shape.make_as_built = functools.partial(made, module)
            return shape
        if position == 1 and protocol.affine:
            values = _of_a_checkpoint(reference, module, protocol, secret)
            with contextlib.suppress(UserError):
                if values is not None:
                    shape = made(checkpoint.load(copied(module), values))
                    shape.drawn = _state(module)
                    if task.gradients:
                        for case in shape.cases:
                            away_from_kinks(case)
                    shape.make_as_built = functools.partial(made, module)
                    return shape
        shape = made(module)
        shape.far = few
        return shape


def _state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {key: value.detach().clone() for key, value in module.state_dict().items()}


@where_possible()
def _of_a_checkpoint(
    reference: Reference, module: torch.nn.Module, protocol: Protocol, secret: int
) -> dict[str, torch.Tensor] | None:
    """Weights as from a checkpoint, under which the reference is finite and crosses all bounds that it crosses under its own;
    None if none are found."""
    inputs = reference.inputs(secret)
    crossed = sides(module, inputs)

    def takes(other: torch.nn.Module) -> bool:
        with where_possible():
            return finite(outputs_of(other, inputs)) and crossed <= sides(other, inputs)
        return False

    another = reference.build(True, init_seed(protocol, secret + 1))
    return checkpoint.brought(module, another, secret, takes)


@where_possible()
def _faint(
    reference: Reference, module: torch.nn.Module, protocol: Protocol, secret: int
) -> dict[str, torch.Tensor] | None:
    """See `checkpoint.faint`; None if gradients are asked, or if the reference is not finite."""
    if reference.task.gradients or not protocol.affine:
        return None
    inputs = reference.inputs(secret)
    another = reference.build(True, init_seed(protocol, secret + 1))
    constants = operators(module, inputs).landmarks
    values = checkpoint.faint(module, another, constants, secret, lambda one: in_double(one, inputs)[0])
    takes = values and finite(outputs_of(checkpoint.load(copied(module), values), inputs))
    return values if takes else None


def states_after_calls(
    task: Task, sizes: Mapping[str, int], protocol: Protocol, secret: int, position: int
) -> dict[str, checkpoint.State]:
    """The states that earlier calls leave behind, by name of their shape set (see `after_calls.py`); none if gradients are asked.
    Raises UserError if the task fails."""
    found: dict[str, checkpoint.State] = {}
    with narrow.of_bytes(task.source):
        reference, protocol = Reference(task, dict(sizes)), for_task(protocol, task)
        module = reference.build(protocol.affine, weights_seed(reference, protocol, secret, position))
        if task.gradients or not module.state_dict():
            return {}
        with where_possible():
            if (state := after_calls.after_loud(module, reference.inputs, secret)) is not None:
                found[AFTER] = state
        with where_possible():
            named = operators(module, reference.inputs(secret)).landmarks
            if (state := after_calls.long_after(module, reference.inputs, named, secret)) is None:
                return found
            found[LONG_AFTER] = state
            states = after_calls.phases(module, reference.inputs, named, secret)
            for number, state in enumerate(itertools.islice(states, _PHASES)):
                found[f"{PHASE}{number}"] = state
    return found


def step_counts(
    task: Task, sizes: Mapping[str, int], protocol: Protocol, secret: int
) -> list[tuple[int, int]]:
    """See `renumbered.step_counts`; none if gradients are asked. Raises UserError if the task fails."""
    reference = Reference(task, dict(sizes))
    inputs = reference.inputs(secret)
    if task.gradients or not any(type(one) is int for one in inputs):
        return []
    with narrow.of_bytes(task.source), failing_as(task):
        module = reference.build(protocol.affine, init_seed(protocol, secret))
        named = [one for one in whole_numbers.named_in(task.source, sizes) if 1 < one <= _MOST_STEPS]
        return list(renumbered.step_counts(module, inputs, named))


def _cases_of(making: _Making, of_weights: int, long: bool, special: bool, few: bool) -> ShapeCases:
    """The cases of a shape set under given weights. Raises UserError if the task fails."""
    name, reference, module, protocol = making.name, making.reference, making.module, making.protocol
    task, state = reference.task, _state(module)
    module.to(reference.device)
    cases, found = [], Operators()
    asked = draws(protocol, making.secret, making.position)[: 1 if long or own_only(name) else None]
    if after_others(name):
        asked = [(after_calls.QUIET, asked[0][1]), asked[0]]
    for number, (scale, seed) in enumerate(asked):
        inputs = reference.changed_inputs(seed, functools.partial(scale_inputs, scale=scale))
        called = case_name(name, scale)
        if long:
            inputs = near_one_number(inputs, seed) if name != LISTS else _uneven(making, inputs)
        if task.gradients and making.position == 0 and scale in _OF_COTANGENTS:
            factor, size = _OF_COTANGENTS[scale]
            inputs = reference.with_scaled_cotangents(inputs, factor)
            called += f", {size} output gradients"
        if long and name != LISTS and protocol.affine:
            with runs_reference():
                found = operators(module, inputs)
        case = _usual_case(making, found, called, inputs, scale, number)
        if case is None and number == 0:
            raise UserError(f"task {task.id}: the reference's own output is not finite")
        if case is not None and number == 0 and case.disordered and _only_here(making):
            raise UserError(f"task {task.id}, {name}: the reference writes to one place in no defined order")
        if case is not None and _tells_nothing(name, task, case):
            raise UserError(f"task {task.id}, {name}: the reference returns no element")
        if case is not None:
            cases.append(case)
    if long and (larger := _as_large_as_at_full_size(making, cases[0])) is not None:
        cases.append(larger)
    found = found or operators(module, cases[0].inputs, modes=making.position == 0)
    for case in cases if special_values.rounds_once(found) else ():
        case.expected = list(map(allowances.own_digits, case.expected))
    if protocol.affine and special:
        local = _local_case(making, found, cases[0]) if making.position < 2 or long else None
        cases += _special_cases(making, found, cases[0].expected, long)
        cases += [local] if local else []
    elif protocol.affine and long and name != LISTS:
        cases += _of_whole_numbers(making, found, long)
    if protocol.affine and long and (special or few):
        cases += _with_few_scaled(making, special_values.weighs(found))
    if name != NONE and not telling(cases):
        for number in range(_MORE_DRAWS):
            inputs = reference.inputs(making.secret + _MORE_SEED + number)
            case = make_case(f"{name}, drawn again", module, inputs, protocol)
            if case is not None and telling([*cases, case]):
                cases.append(case)
                break
    return ShapeCases(
        name,
        reference.init_inputs(),
        of_weights,
        reference.gradients(module),
        state,
        cases,
        lambda: twin(reference, module, cases[0], protocol, making.secret),
        found,
    )


def _uneven(making: _Making, inputs: object) -> Any:
    call = functools.partial(_in_some_order, making.module)
    if (made := whole_numbers.uneven(inputs, call, making.seed)) is None:
        raise UserError(f"task {making.reference.task.id}: no list may have nearly all")
    return made


def _usual_case(
    making: _Making, long: Operators, name: str, inputs: object, scale: float, number: int
) -> Case | None:
    """The case of drawn inputs; at long sizes, given the operators there, of inputs with rows that begin alike (`in_part.py`) if
    the reference has a meaning there, and no tie, pivot or gradient may be a matter of choice; the second (`number` 1) may be of rows
    with shapes of their own. Raises UserError."""
    task = making.reference.task
    case = _shaped_case(making) if number == 1 else None
    if long and not (task.gradients or special_values.decides(long)):
        with where_possible():
            case = make_case(name, making.module, in_part.begun_alike(inputs), making.protocol, scale)
    try:
        return case or make_case(name, making.module, inputs, making.protocol, scale)
    except NotModelled as error:
        raise UserError(f"task {task.id}, {making.name}: {error}") from error


@where_possible()
def _shaped_case(making: _Making) -> Case | None:
    """The case of rows with shapes of their own (`row_shapes.py`) in place of one of another distribution: at hidden sizes, and of
    integers also at the first. None elsewhere, for gradients, and where the reference accepts none."""
    inputs = making.drawn  # not scaled: below zero nothing changes its sign
    whole = all(not one.is_floating_point() for one in flatten(inputs))
    wanted = making.name == HIDDEN or (whole and making.position == 0)
    if making.reference.task.gradients or not (wanted and making.protocol.affine):
        return None
    found = operators(making.module, inputs)
    named = whole_numbers.named_in(making.reference.task.source, making.reference.overrides or ())
    call = functools.partial(_in_some_order, making.module)
    made = row_shapes.shaped(inputs, call, named, not special_values.decides(found), making.seed)
    if made is not None and making.position:
        made = row_shapes.spread(made, call, found) or made
    if making.position and special_values.chooses_among(found):
        made = arranged(made or inputs, _choices(making)) or made
    return made and make_case(f"{making.name}, shapes", making.module, made, making.protocol, 1.0)


def _tells_nothing(name: str, task: Task, case: Case) -> bool:
    """Whether outputs are empty at sizes that the judge drew (no heads for two keys); sizes of 0 and 1 are exempt."""
    drawn = name not in task.shapes and not name.startswith((ONE, NONE, LEAST))
    return drawn and all(0 in one.shape for one in case.expected)


def _turn(reference: Reference, secret: int) -> None:
    """Replace Python integers and booleans among the inputs if the reference accepts that, except those that the task writes as
    constants: a kernel may know these."""
    drawn = reference.inputs(secret)
    own = {place for place, one in enumerate(drawn) if isinstance(one, int)} - _written(reference.task.source)
    if not own:
        return
    reference.numbers = {place: not drawn[place] for place in own if isinstance(drawn[place], bool)}
    with where_possible():
        if not finite(outputs_of(reference.build().to(reference.device), _again(reference, secret))):
            reference.numbers = {}
    for place in sorted(own):
        if not isinstance(drawn[place], bool):
            _take_beyond(reference, secret, place, drawn)
    reference.start_over()


def _again(reference: Reference, seed: int) -> list[Any]:
    reference.start_over()
    return reference.inputs(seed)


def _take_beyond(reference: Reference, secret: int, place: int, drawn: list[Any]) -> None:
    """Replace an integer that differs from draw to draw by one beyond every extent, of either sign, unless the reference refuses
    it, or does the same for any further one (a bound that is out of reach)."""
    number, usual = drawn[place], outputs_of(reference.build().to(reference.device), drawn)
    if all(_again(reference, secret + 1 + draw)[place] == number for draw in range(_MORE_DRAWS)):
        return
    extent = max((size for one in flatten(drawn) for size in one.shape), default=1)
    beyond, before = abs(number) + 2 * extent + 1, dict(reference.numbers)
    module = reference.build().to(reference.device)
    for other in (beyond, -beyond) if secret % 2 else (-beyond, beyond):
        reference.numbers = {**before, place: other + (1 if other > 0 else -1)}
        further = _again(reference, secret)
        reference.numbers = {**before, place: other}
        inputs = _again(reference, secret)
        with where_possible():
            if _gives_another(module, inputs, usual) and _gives_another(
                module, inputs, outputs_of(module, further)
            ):
                return
    reference.numbers = before


def _written(source: str) -> set[int]:
    """Positions of constants in the list that `get_inputs` returns; empty unless it has exactly one such `return`."""
    makers = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == "get_inputs"
    ]
    ends = [node.value for maker in makers for node in ast.walk(maker) if isinstance(node, ast.Return)]
    if len(ends) != 1 or not isinstance(ends[0], (ast.List, ast.Tuple)):
        return set()
    parts = ends[0].elts
    if any(isinstance(part, ast.Starred) for part in parts):
        return set()
    return {place for place, part in enumerate(parts) if isinstance(part, ast.Constant)}


def _begin(reference: Reference, secret: int) -> None:
    """Redraw inputs that the task draws as one number, if the reference stays finite and its outputs change."""
    drawn = reference.inputs(secret)
    places = start_values.even_places(drawn, lambda number: reference.inputs(secret + 1 + number))
    if not places:
        return
    module = reference.build().to(reference.device)
    with where_possible():
        usual = outputs_of(module, drawn)
        for place in places:
            before = reference.begun
            for signed in (True, False):
                reference.begun = {**before, place: signed}
                if _gives_another(module, reference.inputs(secret), usual):
                    break
                reference.begun = before


def _gives_another(module: torch.nn.Module, inputs: object, usual: Sequence[torch.Tensor]) -> bool:
    """Whether a reference accepts these inputs and gives finite outputs of the usual shapes with other numbers."""
    with where_possible():
        made = outputs_of(module, inputs)
        pairs = list(zip(made, usual, strict=True))
        alike = all(one.shape == other.shape for one, other in pairs)
        return finite(made) and alike and not all(torch.equal(one, other) for one, other in pairs)
    return False


def _special_cases(
    making: _Making, found: Operators, usual: Sequence[Expected], long: bool
) -> Iterator[Case]:
    """Cases of special values (`special_values.py`) that the reference has a meaning for: every kind for the first shape set,
    few for the second, and those for long sizes in a `long` one. `usual`: what is expected of ordinary inputs."""
    reference, drawn, seed, position = making.reference, making.drawn, making.seed, making.position
    smooth = not reference.task.gradients
    pointwise, whole = special_values.pointwise(found), special_values.sums_whole(found)
    weighed, far = special_values.weighs(found), not special_values.direct(found)
    tried = [scale_inputs(drawn, factor) for factor in (1.0, _FAR_FACTOR, -_FAR_FACTOR)]
    one_sided = any(one.is_floating_point() and one.numel() > 1 and one.min() >= 0 for one in flatten(drawn))
    kinds = special_kinds(making.module, found, drawn, position, _AT_LONG_SIZES if long else None)
    if making.name == AGAIN:  # the first kind was asked at these sizes
        kinds = [kind for kind in kinds if kind in _SECOND]
    if not smooth:  # at kinks and ties a gradient is a choice
        kinds = [kind for kind in kinds if kind in ("far", "offset", "tiny", "integers", "masks")]
    few = all(map(_of_few_numbers, usual))  # vectors of a singular value of 0 are open
    for kind in kinds if few else (kind for kind in kinds if kind != "centred"):
        if kind in ("masks", "padding") and not _random_masks(drawn, reference.inputs(seed + 1)):
            continue
        direct = kind == "bounds" and special_values.alone(found)

        def make(end: float | None, kind: str = kind, direct: bool = direct) -> Case | None:
            root = position == 0

            def change(widest: int = 0) -> Any:
                return special_values.with_special_values(
                    drawn, kind, seed, found.landmarks, end, root, pointwise, whole, widest, weighed
                )

            inputs = change((_widest(making.module, change) or 0) if kind == "integers" and pointwise else 0)
            if kind == "padding":
                inputs = _with_what_never_changes(drawn, inputs, reference, seed)
            return making.case(kind, inputs, _SCALED_UP if kind in _UP else _SPECIAL, direct)

        case = _first_whole(map(make, (0.0, *(_BESIDE_ENDS[far:] if one_sided else ()), None)))
        if case is not None:
            seen = usual if case.few else ()
            case.expected = allowances.expectations_at(kind, case.expected, case.inputs, found, seen, direct)
            if kind in ("masks", "tiny") and not smooth:
                away_from_kinks(case)
            tried.append(case.inputs)
            yield case
    if not smooth and position == 0 and not long:
        yield from _of_gradients(making)
    if (position == 0 or long) and smooth and weighed:
        inputs = _outweigh(making.module, drawn, seed)
        case = inputs and making.case(_OUTWEIGHED, inputs, _SCALED_UP)
        if case and not any(one.step for one in case.expected):
            yield case
    if position < 2 or long:
        yield from _of_whole_numbers(making, found, long)
    if (position == 0 or long) and smooth and special_values.flags(found):
        yield from _of_single_elements(making)
    if (position == 0 or long) and smooth and (case := _with_other_holes(making)) is not None:
        yield case
    if position == 0:
        yield from _across_bounds(making, found, tried if smooth else ())


def _across_bounds(making: _Making, found: Operators, tried: Sequence[object]) -> Iterator[Case]:
    """Cases at the bounds that the reference compares inputs with, and across those that none of the inputs `tried` crosses."""
    if (case := _at_bounds_of_inputs(making, found)) is not None:
        yield case
    met = _met(making.module, making.drawn, tried) if tried else set()
    for kind, find in _TO_CROSS.items() if met else ():
        inputs = find(making, found, met)
        yield from filter(None, [inputs and making.case(kind, inputs, _SCALED_UP)])


def _of_choices(making: _Making, found: Operators, long: bool) -> Iterator[Case]:
    """See `choices.with_ties` and `choices.arranged`; none without a selection among an input's elements, and of gradients."""
    if making.reference.task.gradients or not special_values.chooses_among(found):
        return
    made = _choices(making)
    with where_possible():
        inputs = with_ties(making.drawn, made)
        if inputs and (case := making.case("tied", inputs)):
            yield dataclasses.replace(case, given=True, tied=True)
    with where_possible():
        inputs = arranged(making.drawn, made) if long or not making.position else None
        if inputs and (case := making.case(CHOSEN, inputs)):
            yield case


def _choices(making: _Making) -> list[Choice]:
    """What the reference chooses, and among what, of the drawn inputs."""
    choices = Choices()
    with where_possible(), torch.no_grad(), choices:
        copied(making.module)(*convert(making.drawn, torch.clone))
    return choices.made


def _of_few_numbers(expected: Expected) -> bool:
    """Whether an output has many times fewer elements than the largest input."""
    return expected.terms >= _FEW_NUMBERS


def _first_whole(cases: Iterator[Case | None]) -> Case | None:
    """The first case with outputs that are judged throughout, or else the last."""
    case = None
    for case in cases:
        if case is not None and all(one.judged is None for one in case.expected):
            break
    return case


def _as_large_as_at_full_size(making: _Making, ordinary: Case) -> Case | None:
    """At a long size, of which full size has many, and in float16: inputs scaled up so that sums of squares are as large as there,
    where parts of a sum may overflow. None if outputs are not much fewer than inputs."""
    full, sizes = full_sizes(making.reference.task), making.reference.overrides or {}
    given = [one for one in flatten(ordinary.inputs) if one.dtype == torch.float16]
    most = max((one.numel() for one in given), default=0)
    more = math.prod(full[name] / max(size, 1) for name, size in sizes.items() if name in full)
    if making.reference.task.gradients or more < _MORE_OF_THEM:
        return None
    if most < _MORE_OF_THEM * max(one.value.numel() for one in ordinary.expected):
        return None
    scale = min(math.sqrt(more), _FAR_FACTOR)
    inputs = scale_inputs(ordinary.inputs, scale)
    return make_case(
        f"{making.name}, as large as at full size", making.module, inputs, making.protocol, scale
    )


def _with_few_scaled(making: _Making, weighed: bool) -> Iterator[Case]:
    """Inputs of few elements and logarithms of decays scaled, and no others: at a hundredth of its rate a decay reaches further than
    any that the task draws, and at a long size that shows; at many times its rate nothing is left of an earlier chunk."""
    gradients = making.reference.task.gradients
    places = frozenset[int]()
    if not gradients:
        places = few_that_bend(making.module, making.drawn, making.bend)
        places |= roundings.logs_of_decays(making.module, making.drawn)
    for factor in _LITTLE_AND_MUCH if places else ():

        def changed(drawn: object, factor: float = factor) -> object:
            scaled = scale_inputs(drawn, factor)
            for place, own in enumerate(flatten(drawn)):
                if place not in places:
                    scaled = with_changed(scaled, place, lambda _, own=own: own)  # type: ignore[misc]
            if factor < 1.0 or not weighed:
                return scaled
            return special_values.with_special_values(
                scaled, "scores", making.seed, ()
            )  # beyond what a slope bounds

        inputs = making.reference.changed_inputs(making.seed, changed)
        if (case := making.case(f"rates x{factor:g}", inputs)) is not None:
            yield case


def few_that_bend(
    module: torch.nn.Module, inputs: object, known: frozenset[int] = frozenset()
) -> frozenset[int]:
    """Places of floating-point inputs that have far fewer elements than another and in which the reference is not linear, as is
    `known` of some. Of many, as a network's weights are, all: the reference is not run for each."""
    given = flatten(inputs)
    most = max((one.numel() for one in given), default=0)
    few = [n for n, one in enumerate(given) if one.is_floating_point() and 0 < one.numel() * _FEWER <= most]
    if len(few) > _MANY_FEW:
        return frozenset(few)
    found = known & set(few)
    with where_possible():
        usual = in_double(module, inputs)[0] if set(few) - known else []
        for place in (one for one in few if one not in known):
            with where_possible():
                # Factors that are exact in any type.
                twice, again = (
                    in_double(module, with_changed(inputs, place, lambda t, by=by: t * by))[0]  # type: ignore[misc]
                    for by in (2, 4)
                )
                pairs = zip(usual, twice, again, strict=True)
                if any(_bends(*some) for some in pairs if some[0].is_floating_point()):
                    found |= {place}
    return found


def _bends(at_one: torch.Tensor, at_two: torch.Tensor, at_four: torch.Tensor) -> bool:
    off = (at_four - at_two) - 2.0 * (at_two - at_one)
    return bool((off.abs() > _STRAIGHT * at_four.abs().max()).any()) if off.numel() else False


@where_possible()
def _widest(module: torch.nn.Module, change: Callable[[int], object]) -> int | None:
    """The most bits of 32-bit integers that a reference takes without wrapping, found by comparing with 64 bits."""
    for bits in _WIDE:
        inputs = change(bits)
        if not any(one.dtype == torch.int32 for one in flatten(inputs)):
            return None
        wide = convert(inputs, lambda one: one.long() if one.dtype == torch.int32 else one)
        pairs = zip(outputs_of(module, inputs), outputs_of(module, wide), strict=True)
        if all(torch.equal(one.nan_to_num(), other.nan_to_num()) for one, other in pairs):
            return bits
    return None


def _local_case(making: _Making, found: Operators, usual: Case) -> Case | None:
    """See `locality.py`."""
    if making.reference.task.gradients:
        return None
    return locality.with_lone_elements(usual, f"{making.name}, {locality.KIND}", found, making.seed)


def _of_gradients(making: _Making) -> Iterator[Case]:
    """Gradients for cotangents as other operators pass them on, for rows of zeros, and for rows that are so small that a clamp in
    the reference acts (the length of a row)."""
    if (case := making.case("cotangents", making.reference.with_cotangents(making.drawn))) is not None:
        yield case
    if (case := making.case("zero rows", making.reference.with_zero_rows(making.drawn))) is not None:
        away_from_kinks(case)
        yield case
    for factor in _short(making) or ():
        inputs = making.reference.with_short_rows(making.drawn, factor)
        if (case := making.case(f"rows x{factor:g}", inputs)) is not None:
            yield case


@where_possible()
def _short(making: _Making) -> list[float]:
    """Factors on inputs, the largest powers of ten times 0.3, with which all values lie below a bound that is below all values of
    the drawn inputs."""
    module, reference = making.module, making.reference
    usual = sides(module, making.drawn)
    waiting = {one for one in usual if one[2] and (*one[:2], False) not in usual}
    found: list[float] = []
    half = any(one.dtype == torch.float16 for one in flatten(making.drawn))
    for exponent in range(1, _SHORT_IN_HALF if half else _SHORT) if waiting else ():
        factor = 0.3 * 10.0**-exponent
        met = sides(module, reference.with_short_rows(making.drawn, factor, alone=False))
        passed = {one for one in waiting if one not in met and (*one[:2], False) in met}
        waiting -= passed
        found += [factor] if passed else []
    return found


def _of_single_elements(making: _Making) -> Iterator[Case]:
    """Cases in which one element of an input, or a few neighbours, may decide about all outputs (a step that overflowed)."""
    generator = torch.Generator().manual_seed(making.seed)
    for place, tensor in enumerate(flatten(making.drawn)):
        if tensor.is_floating_point() and tensor.numel() > 1:
            for what, made in special_values.single(tensor, generator):
                inputs = with_changed(making.drawn, place, lambda _, made=made: made)  # type: ignore[misc]
                if (case := making.case(f"{what} of input {place}", inputs, _SPECIAL)) is not None:
                    yield case


@where_possible()
def _with_other_holes(making: _Making) -> Case | None:
    """See `special_values.with_other_holes`; None beside integers, which may say where holes are."""
    drawn, again = flatten(making.drawn), flatten(making.reference.inputs(making.seed + 1))
    if not all(one.is_floating_point() for one in drawn):
        return None
    inputs = None
    for place, pair in enumerate(zip(drawn, again, strict=True)):
        if pair[0].shape == pair[1].shape and (made := special_values.with_other_holes(*pair)) is not None:
            inputs = with_changed(inputs or making.drawn, place, lambda _, made=made: made)  # type: ignore[misc]
    return inputs and making.case(_HOLES, inputs)


def _in_order(module: torch.nn.Module, inputs: object) -> tuple[list[torch.Tensor], bool]:
    """Outputs of a reference, and whether it writes different values to one place in no defined order."""
    with Disorder() as disorder:
        outputs = outputs_of(module, inputs)
    return outputs, disorder.found


def _in_some_order(module: torch.nn.Module, inputs: object) -> list[torch.Tensor]:
    """Outputs of a reference. Raises NotModelled if it writes different values to one place in no defined order."""
    outputs, disordered = _in_order(module, inputs)
    if disordered:
        raise NotModelled("which of two values stays at one place, nobody says")
    return outputs


@where_possible()
def _only_here(making: _Making) -> bool:
    """Whether the judge drew these sizes, at which the reference writes in no defined order, and it writes in one at the task's
    first."""
    task = making.reference.task
    first = next((dict(sizes) for name, sizes in task.shapes.items() if name.startswith("small")), None)
    if making.name in task.shapes or first is None:
        return False
    usual = Reference(task, first, making.reference.device)
    return not _in_order(usual.build().to(usual.device), usual.inputs(making.seed))[1]


def _of_whole_numbers(making: _Making, found: Operators, long: bool) -> Iterator[Case]:
    """Cases of integers and booleans that the reference accepts and its task does not draw, if any: integers that are all equal
    (also at `long` sizes), then others, then chains."""
    reference, seed = making.reference, making.seed

    call = functools.partial(_in_some_order, making.module)
    with where_possible():
        again = reference.inputs(seed + 1)
        if any(1 < one.numel() < _FEW_INTEGERS and not one.is_floating_point() for one in flatten(again)):
            more = [reference.inputs(seed + 2 + number) for number in range(_MORE_DRAWS)]
            again = max((again, *more), key=_largest_integer)
        made = {}
        if not special_values.pointwise(found):
            by_row = making.position == 1
            made[_ALIKE] = whole_numbers.alike(making.drawn, again, call, found, seed, by_row=by_row)
        if long and found.among:
            made["met again"] = whole_numbers.met_again(making.drawn, call, seed)
        if long and made.get(_ALIKE):
            made["in part"] = in_part.told_apart(making.drawn, call, making.position, seed)
        if making.position < 2 and not all(one.is_floating_point() for one in flatten(making.drawn)):
            named = whole_numbers.named_in(reference.task.source, reference.overrides or ())
            named = [one for one in named if one in found.landmarks]
            other = whole_numbers.wider(making.drawn, again, call, found, named, seed)
            if other and making.position:
                made["in some rows"] = whole_numbers.in_some_rows(making.drawn, other, call, found)
            other = in_part.agreeing(other or making.drawn, call, found.among, seed) or other
            apart = in_part.told_apart(other or making.drawn, call, making.position, seed)
            made["whole numbers"] = apart or other
            if not (reference.task.gradients or making.position):
                made["met"] = met.met(making.drawn, making.module, call, seed)
            if found.subtracted:
                made["far on"] = whole_numbers.far_on(making.drawn, call, found, seed)
        if long or not making.position:
            made["spread out"] = whole_numbers.spread_out(making.drawn, call, found)
        for kind, inputs in made.items():
            case = inputs and making.case(kind, inputs)
            if case:
                meet = kind == _ALIKE and making.position == 0 and special_values.adds_to_places(found)
                yield dataclasses.replace(case, crossed=meet)
    yield from filter(None, [_crossed(making, found)])
    yield from _of_choices(making, found, long)
    wanted = making.position == 0 or (long and not special_values.pointwise(found))
    if wanted and not reference.task.gradients:
        yield from _of_chains(making, found)
        yield from _of_late_rounds(making, found, long)


def _of_chains(making: _Making, found: Operators) -> Iterator[Case]:
    """See `chains.py`."""
    call = functools.partial(_in_some_order, making.module)
    with where_possible():
        again = making.reference.inputs(making.seed + 1)
        made = chains.chains(making.drawn, again, call, found, making.seed)
        for number, inputs in enumerate(made):
            kind = f"{chains.KIND} {number + 1}" if number else chains.KIND
            if (case := making.case(kind, inputs)) is not None:
                yield case


def _of_late_rounds(making: _Making, found: Operators, long: bool) -> Iterator[Case]:
    """See `settling.py` and `carried.py`."""

    def double(inputs: object) -> list[torch.Tensor]:
        return in_double(making.module, inputs)[0]

    single = functools.partial(outputs_of, making.module)
    with where_possible():
        again = making.reference.inputs(making.seed + 1)
        made = settling.settling(making.drawn, again, double, single, found, making.seed, long)
        if made and (case := making.case(*made)) is not None:
            yield case
    with where_possible():
        far = carried.carried(making.drawn, single, found, making.seed)
        if far is not None and (case := making.case(carried.KIND, far)) is not None:
            yield case


@where_possible()
def _crossed(making: _Making, found: Operators) -> Case | None:
    """The case of integers in either order (`in_part.crossed`), if the reference adds to places that integers name; None if not."""
    if making.position or not special_values.adds_to_places(found):
        return None
    inputs = in_part.crossed(making.drawn)
    case = inputs and making.case("crossed", inputs)
    return case and dataclasses.replace(case, crossed=True)


def _largest_integer(inputs: object) -> int:
    return max(
        (int(one.max()) for one in flatten(inputs) if one.numel() and not one.is_floating_point()), default=0
    )


@where_possible()
def _outweigh(module: torch.nn.Module, drawn: object, seed: int) -> Any:
    """See `outweighed.py`; None if it does not apply to the reference."""
    return outweigh(drawn, lambda inputs: in_double(module, inputs)[0], seed)


def _random_masks(drawn: object, again: object) -> bool:
    """Whether masks among the inputs differ between draws; otherwise they are a structure to rely on."""
    pairs = zip(flatten(drawn), flatten(again), strict=True)
    return any(special_values.is_mask(one) and not torch.equal(one, other) for one, other in pairs)


def _with_what_never_changes(drawn: object, made: object, reference: Reference, seed: int) -> object:
    """The masks `made` from `drawn`, with places along the last axis that are the same in every draw restored: if a task always
    keeps the first key, kernels may rely on that."""
    others = [flatten(reference.inputs(seed + 1 + number)) for number in range(_MASK_DRAWS)]
    before = flatten(drawn)
    places = itertools.count()

    def kept(tensor: torch.Tensor) -> torch.Tensor:
        place = next(places)
        own = before[place]
        if not special_values.is_mask(own) or own.ndim < 2:
            return tensor
        same = torch.stack([own == other[place] for other in others]).all(0)
        fixed = same.reshape(-1, own.shape[-1]).all(0)
        return torch.where(fixed, own, tensor)

    return convert(made, kept)


@where_possible()
def _at_bounds_of_inputs(making: _Making, found: Operators) -> Case | None:
    """Half of an input's elements at, next to and on either side of the numbers that the reference compares or clamps it with,
    also outside of what the task draws, where the reference is finite; and equal ones, where inputs are compared with each
    other. Of gradients, only where the reference defines them there. None if there are no such numbers."""
    module, drawn = making.module, making.drawn
    usual = flatten(drawn)
    gradients = making.reference.task.gradients
    if gradients and special_values.kinked(found):
        return None
    bounds, tied = bounds_of_inputs(module, drawn, gradients)
    values = {
        place: [*special_values.beside(bounds.get(place, ()), usual[place].dtype), *tied.get(place, ())]
        for place in sorted({*bounds, *tied})
        if usual[place].numel() > 1
    }

    def with_values(drawn: object, place: int, values: Sequence[float]) -> object:
        return with_changed(drawn, place, lambda one: special_values.strewn(one, values, making.seed))

    def takes(place: int, value: float) -> bool:
        with where_possible():
            return finite(outputs_of(module, with_values(drawn, place, [value])))
        return False

    for place, some in values.items():
        values[place] = [one for one in some if takes(place, one)]
    if not any(values.values()):
        return None

    meet = gradients and not {one.rstrip("_") for one in found}.isdisjoint(REDUCING)

    def changed(drawn: object) -> object:
        for place, some in values.items():
            drawn = with_values(drawn, place, some) if some else drawn
        # Equal elements of one group; most groups have few.
        return convert(drawn, lambda one: one if one.is_floating_point() else _of_one(one)) if meet else drawn

    inputs = making.reference.changed_inputs(making.seed, changed)
    case = making.case("bounds of inputs", inputs, direct=True)
    return case and dataclasses.replace(case, given=True, tied=gradients)


def _of_one(integers: torch.Tensor) -> torch.Tensor:
    """Integers with those at even places equal to the first."""
    made = integers.clone(memory_format=torch.contiguous_format)
    made.view(-1)[::2] = made.view(-1)[:1]
    return made


def _met(module: torch.nn.Module, drawn: object, tried: Sequence[object]) -> set[Side]:
    """Sides of the reference's bounds that the inputs `tried` reach; empty if it has no bounds."""
    with where_possible():
        if sides(module, drawn):
            return {one for inputs in tried for one in sides(module, inputs)}
    return set()


def _lacking(met: set[Side]) -> set[Side]:
    return {(call, bound, not above) for call, bound, above in met} - met


@where_possible()
def _reaching(making: _Making, found: Operators, met: set[Side]) -> object:
    """The inputs with rows scaled so that they cross bounds in the reference that are `met` on one side; None if there are none."""
    module, drawn = making.module, making.drawn
    if special_values.sensitive(found) or not _lacking(met):
        return None
    met, factors = set(met), [1.0]
    for factor in _FACTORS:
        more = sides(module, special_values.scaled_rows(drawn, [factor]))
        if not more <= met:
            met |= more
            factors.append(factor)
    return special_values.scaled_rows(drawn, factors) if len(factors) > 1 else None


@where_possible()
def _emptied(making: _Making, found: Operators, met: set[Side]) -> object:
    """The inputs with a whole one of zeros (weights before the first step), if this crosses bounds that are `met` on one side; None
    if it does not."""
    lacking = _lacking(met)
    for place, own in enumerate(flatten(making.drawn)) if lacking else ():
        if own.is_floating_point() and own.numel() > 1:
            inputs = with_changed(making.drawn, place, torch.zeros_like)
            with where_possible():
                if lacking & sides(making.module, inputs):
                    return inputs
    return None


@where_possible()
def _aligned(making: _Making, found: Operators, met: set[Side]) -> object:
    """The inputs with rows of one near to, and opposite, one row of another input or weight, which integers then name, if this
    crosses bounds of products that are `met` on one side (a cosine near -1); None if it does not."""
    module, drawn = making.module, making.drawn
    lacking = _lacking(met) if special_values.directed(found) else set()
    given = flatten(drawn)
    others = [*given, *(one.detach() for one in module.parameters())]
    generator = torch.Generator().manual_seed(making.seed)
    for place, own in enumerate(given) if lacking else ():
        for other in others:
            if own is other or not (_of_rows(own) and _of_rows(other)) or own.shape[-1] != other.shape[-1]:
                continue
            inputs = _facing(drawn, place, other.reshape(-1, other.shape[-1]), generator)
            with where_possible():
                if lacking & sides(module, inputs):
                    return inputs
    return None


_TO_CROSS = {"reach": _reaching, "emptied": _emptied, "aligned": _aligned}
"""Inputs that cross bounds which no other case crosses, by kind."""


def _facing(drawn: object, place: int, rows: torch.Tensor, generator: torch.Generator) -> object:
    """The inputs with rows of one near to, and opposite, one of these rows, and with integers that may be its number."""
    chosen = int(torch.randint(len(rows), (), generator=generator))

    def near(own: torch.Tensor) -> torch.Tensor:
        signs = 2.0 * (torch.arange(own[..., 0].numel()) % 2).reshape(*own.shape[:-1], 1) - 1.0
        aside = _ASIDE * own * (rows.std() / own.std()).to(own)
        return (signs * rows[chosen].cpu() + aside.cpu()).to(own)

    inputs = with_changed(drawn, place, near)
    for number, one in enumerate(flatten(drawn)):
        places = one.dtype in (torch.int64, torch.int32) and one.numel()
        if places and 0 <= int(one.min()) <= int(one.max()) < len(rows):
            inputs = with_changed(inputs, number, lambda own: torch.full_like(own, chosen))
    return inputs


def _of_rows(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.ndim > 1 and tensor.numel() > tensor.shape[-1] > 1


def weights_seed(reference: Reference, protocol: Protocol, secret: int, position: int) -> int:
    """The seed of the weights of the `position`-th shape set. Those of the second set are wild (`trace/affine.py`) if the
    reference is finite under them, and if possible cross bounds that tame weights do not."""
    tame = init_seed(protocol, secret)
    if position != 1 or not protocol.affine or reference.task.gradients:
        return tame
    with where_possible():
        inputs = reference.inputs(secret)
        module = reference.build(True, tame)
        met = sides(module, inputs) | sides(module, scale_inputs(inputs, _FAR_FACTOR))
        lacking = {(call, bound, not above) for call, bound, above in met} - met
        first = None
        for number in range(_WEIGHT_DRAWS if lacking else 1):
            seed = affine.wild(init_seed(protocol, secret + number))
            module = reference.build(True, seed)
            if not finite(outputs_of(module, inputs)):
                continue
            first = first or seed
            if lacking & sides(module, inputs):
                return seed
        return first or tame
    return tame


def special_kinds(
    module: torch.nn.Module,
    found: Operators,
    drawn: object,
    position: int,
    wanted: Sequence[str] | None = None,
) -> list[str]:
    """The kinds of special values that a shape set gets, restricted to `wanted` if given."""
    whole = any(not tensor.is_floating_point() for tensor in outputs_of(module, drawn))
    kinds = special_values.kinds(found, drawn, whole, found.landmarks)
    if wanted is not None:
        return [kind for kind in kinds if kind in wanted]
    if position == 0:
        return [kind for kind in kinds if kind not in (*_AT_LONG_SIZES, "distant", "faint")]
    second = (*kinds[:1], *_SECOND)
    return [kind for kind in kinds if kind in second] if position == 1 else []


def has_special(shape: ShapeCases) -> bool:
    """Whether the reference has special values at long sizes; `shape` is its first small one."""
    if any(
        case.name.endswith(
            (
                f", {_ALIKE}",
                f", {_OUTWEIGHED}",
                f", {_HOLES}",
                f", {CHOSEN}",
                f", {chains.KIND}",
                f", {settling.STEPS}",
                f", {carried.KIND}",
            )
        )
        for case in shape.cases
    ):
        return True
    if shape.gradients is not None:
        return False
    if special_values.flags(shape.operators):
        return True
    module, drawn = shape.cases[0].module, shape.cases[0].inputs
    if shape.bend or roundings.logs_of_decays(module, drawn):
        return True
    return "long" in special_kinds(module, shape.operators, drawn, 0, ["long"])


def telling(cases: Sequence[Case]) -> bool:
    """Whether each output has elements that differ in some case, or a single element that differs between cases. If an activation
    leaves only zeros, a kernel that reads one row for all would be right."""
    for outputs in zip(*(case.expected for case in cases), strict=False):
        values = [item.value.double().nan_to_num() for item in outputs]
        if all(value.numel() == 1 for value in values):
            values = [torch.cat([value.reshape(1) for value in values])] if len(values) > 1 else []
        widths = [
            (float(value.max() - value.min()), float(value.abs().max())) for value in values if value.numel()
        ]
        if widths and not any(width > _FLAT * most for width, most in widths):
            return False
    return True
