"""The reference side of the trust boundary: inputs from secret seeds, expected outputs in fp64, tolerances.

Nothing here ever enters a worker but inputs and weights. The allowed error is a small multiple of what an
honest PyTorch run in the task's own precision gets wrong against fp64, and looser than the protocol only where inputs
scaled far up make that run itself so.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from kernelwright.drawing import DRAWING
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.precision import Precision, precision_of
from kernelwright.records import Task
from kernelwright.shapes import apply_shape
from kernelwright.verify import narrow
from kernelwright.verify.gpu.admission import ran_out
from kernelwright.verify.gradients import attach, cotangents_of, learnable
from kernelwright.verify.messages import Gradients
from kernelwright.verify.protocol import Protocol
from kernelwright.verify.reference import allowances, checkpoint, roundings, special_values, whole_numbers
from kernelwright.verify.reference.choices import Choices, chosen
from kernelwright.verify.reference.comparison import MANY
from kernelwright.verify.reference.disorder import WRITES, Disorder
from kernelwright.verify.reference.distributions import case_name, draws, in_order, scaled
from kernelwright.verify.reference.expected import COARSE, Expected, expected_of, nbytes, strayed
from kernelwright.verify.reference.hidden_sizes import RELATED
from kernelwright.verify.reference.operators import Operators, operators, sides
from kernelwright.verify.reference.outweighed import outweighed
from kernelwright.verify.reference.rounded import (
    EPSILON,
    Rounded,
    Wide,
    cast,
    cast_module,
    cut_off,
    flags,
    switches_kept,
)
from kernelwright.verify.structures import convert, flatten, skeleton, with_numbers_of
from kernelwright.verify.trace import affine
from kernelwright.verify.trace.overlap import sharing
from kernelwright.verify.trace.ways import concerns

INIT_SEED = 20_231
"""Weights are drawn under this where they are not secret: for protocols that vary none, and where no value counts."""

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


def seed_torch(seed: int) -> None:
    """As `torch.manual_seed`, which without a GPU notes for each kind of device who asked: a ms each, and it is never let go."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)


@contextlib.contextmanager
def private_rng(seed: int) -> Iterator[None]:
    """Seed torch's generators for a block, one block at a time, and put the caller's state back."""
    with DRAWING:
        state = torch.get_rng_state()
        on_gpu = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None
        seed_torch(seed)
        try:
            yield
        finally:
            torch.set_rng_state(state)
            if on_gpu is not None:
                torch.cuda.set_rng_state(on_gpu)


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
    part: tuple[Case, Sequence[int]] | None = None
    """Of which case these are some outputs, and which."""
    _rounded: list[Expected] | None = dataclasses.field(default=None, init=False, repr=False)

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
            with _running(self.inputs, Precision("ieee", False, False)):
                tied = [self.special and not one.dtype.is_floating_point for one in self.expected]
                moved = {
                    ties: roundings.moved(self.module, self.inputs, exact, ties) for ties in sorted(set(tied))
                }
            far = [moved[ties][place] for place, ties in enumerate(tied)]
            self._rounded = [
                dataclasses.replace(one, moved=by) for one, by in zip(self.expected, far, strict=True)
            ]
        return self._rounded or self.expected


@dataclasses.dataclass
class ShapeCases:
    """All cases of one shape set, with what a worker needs to build the module."""

    name: str
    init: Sequence[object]
    seed: int
    """Under which weights are drawn."""
    gradients: Gradients | None
    """Names of the parameters and positions of the outputs that gradients are asked of, where they are."""
    state: dict[str, torch.Tensor]
    cases: list[Case]
    make_twin: Callable[[], Case | None]
    operators: Operators
    """Aten operators of the reference, without overloads, in order."""
    drawn: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    """What the constructor gave in place of `state`, where that is a checkpoint's (`checkpoint.py`)."""
    make_as_built: Callable[[], ShapeCases] | None = None

    @functools.cached_property
    def as_built(self) -> ShapeCases:
        """The same under the weights that the constructor gave. Made when a candidate first asks for it: most take others."""
        return self.make_as_built() if self.make_as_built is not None else self

    def first_as_drawn(self) -> Case:
        """The first case under weights as the constructor draws them: where a checkpoint has zeros an input does not matter."""
        case = self.cases[0]
        if not self.drawn:
            return case
        return dataclasses.replace(case, module=checkpoint.load(copy.deepcopy(case.module), self.drawn))

    @functools.cached_property
    def twin(self) -> Case | None:
        """The first case with a few input elements changed: what a fingerprint of the inputs does not notice.

        Made when a candidate first asks for it: most keep nothing from one call to the next.
        """
        return self.make_twin()


_SPECIAL_SEED = 49_979_687
_UP = ("far", "distant", "ladder", "long", "degenerate", "apart")
_SCALED_UP, _SPECIAL = 30.0, -1.0
"""As `Case.scale`: none of them is what the task draws, and some are as far off as inputs that are scaled up."""
_FACTORS = (1e2, -1e2, 1e3, -1e3, 1e4, -1e4, 1e5, -1e5, 1e-3, 0.0)
"""On inputs, to have a value in the middle of a chain on the other side of a bound."""
_FAR_FACTOR = 30.0
_WEIGHT_DRAWS = 24
"""Draws of wild weights, where a bound on them is not crossed."""
_BESIDE, _JUMP = 1e-9, 1e-4
"""How far beside an input or weight a gradient is looked at, and by which share it differs on both sides of a kink."""
_MEAN_COTANGENT = 2.0**-10
"""Factor on those behind a mean."""
_ALIKE = "alike"
"""The kind of whole numbers that are all one."""
_OUTWEIGHED = "outweighed"
"""The kind of values that are as large as their weights are small."""
_MASK_DRAWS = 8
"""That tell which places of a mask are never others."""
_MORE_DRAWS, _MORE_SEED = 8, 32_452_843
"""Draws of inputs, where those of the distributions tell nothing."""
_FLAT = 1e-6
"""Share of the largest value within which elements are all the same."""


class NotModelled(Exception):
    """The reference's own code raised, at sizes or on tensors that its author may not have thought of."""


@contextlib.contextmanager
def runs_reference() -> Iterator[None]:
    """Around the reference's own code, which may raise anything; what is ours stays outside, lest a bug of ours pass for
    a reference that cannot be run. Raises NotModelled, and as it is what says that memory ran out."""
    try:
        yield
    except (InfrastructureError, NotModelled):
        raise
    except Exception as error:
        if ran_out(error):
            raise
        raise NotModelled(f"the reference raises {type(error).__name__}: {error}") from error


class Reference:
    """The task's own module, executed by the judge (the task is trusted; the candidate is not)."""

    def __init__(self, task: Task, overrides: dict[str, int] | None = None, device: str = "cpu") -> None:
        self.task, self.device, self.overrides = task, device, overrides
        self.precision = precision_of(task)
        self.turned = False
        """Whether truth values of Python's among the inputs are the contrary of those that the task draws."""
        self._first: list[object] | None = None
        """The first draw of inputs, without its elements."""
        self._cotangents: list[tuple[int, torch.Tensor]] = []
        """Position and form of each output that has a gradient, where gradients are asked."""
        source = apply_shape(task.source, overrides) if overrides else task.source
        self.namespace: dict[str, Any] = {"__name__": "reference"}
        try:
            with switches_kept():
                exec(compile(source, f"<{task.id}>", "exec"), self.namespace)
        except Exception as error:
            raise UserError(
                f"task {task.id} raises when loaded: {type(error).__name__}: {error}; mend the task"
            ) from None
        for name in ("Model", "get_inputs"):
            if not callable(self.namespace.get(name)):
                raise UserError(
                    f"task {task.id} has no {name}: a task defines Model, get_inputs and get_init_inputs"
                )
        if task.gradients:
            with private_rng(0), switches_kept(), self._explained("its backward pass"), torch.device("meta"):
                arguments = convert(self.arguments(), lambda tensor: tensor.to("meta"))
                plain = cast_module(self.namespace["Model"](*self.init_inputs()), self.precision).to("meta")
                self._cotangents = cotangents_of(plain, arguments)

    def start_over(self) -> None:
        """Numbers of Python's among the inputs are those of the next draw."""
        self._first = None

    def init_inputs(self) -> list[object]:
        maker = self.namespace.get("get_init_inputs")
        return list(maker()) if callable(maker) else []

    def module(self, init: Sequence[Any]) -> torch.nn.Module:
        """A new module in the task's precision. Raises what its constructor raises."""
        return self._as_asked(self.namespace["Model"](*init))

    def _as_asked(self, module: torch.nn.Module) -> torch.nn.Module:
        module = cast_module(module, self.precision)
        module = narrow.complete(module) if self.device == "cpu" else module
        return attach(module, [at for at, _ in self._cotangents]) if self._cotangents else module

    def arguments(self) -> list[Any]:
        """New arguments of `forward` in the task's precision, and cotangents where gradients are asked. Raises what
        `get_inputs` raises."""
        made = list(cast(list(self.namespace["get_inputs"]()), self.precision))
        return made + [torch.randn(one.shape, dtype=one.dtype) for _, one in self._cotangents]

    def build(self, vary: bool = False, seed: int = INIT_SEED) -> torch.nn.Module:
        """The module with weights drawn under `seed`; `vary` those that anybody knows (`trace/affine.py`)."""
        with private_rng(seed), switches_kept(), self._explained("Model(*get_init_inputs())"):
            init = self.init_inputs()
            seed_torch(seed)
            if not vary:
                return self.module(init)
            with affine.varied(seed) as finished:
                module: torch.nn.Module = self.namespace["Model"](*init)
                finished(module)
            return self._as_asked(module)

    def gradients(self, module: torch.nn.Module) -> Gradients | None:
        """What a candidate's process is told of the gradients that are asked; None where none are."""
        if not self.task.gradients:
            return None
        return {"parameters": learnable(module), "positions": [at for at, _ in self._cotangents]}

    def build_there(self) -> torch.nn.Module:
        """The module on its device, with weights drawn there: as good as those of `build` for whoever asks how long it takes
        and not what comes out, and no seconds of a core for each large one."""
        with contextlib.suppress(UserError), torch.device(self.device):
            return self.build().to(self.device)
        return self.build().to(self.device)

    def inputs(self, seed: int) -> list[Any]:
        """Arguments of `forward`, made on the device itself (a core takes seconds for what a GPU does in one ms). Numbers of
        Python's stay those of the first draw: a candidate is traced once for a shape, and its launches hold them."""
        with (
            private_rng(seed),
            switches_kept(),
            self._explained("get_inputs()"),
            torch.device(self.device),
        ):
            made = self.arguments()
        if self._first is None:
            self._first = convert(made, lambda tensor: torch.empty(0))
            if self.turned:
                self._first = [not one if isinstance(one, bool) else one for one in self._first]
        return convert(with_numbers_of(self._first, made), lambda tensor: tensor.to(self.device))

    def with_cotangents(self, inputs: Any) -> Any:
        """Arguments whose cotangents have rows of zeros, as behind a mask, of ones, as behind a sum, and tiny ones, as behind a mean."""
        count = len(inputs) - len(self._cotangents)

        def changed(tensor: torch.Tensor) -> torch.Tensor:
            made, rows = _copy_in_rows(tensor)
            rows[0::4], rows[1::4] = 0.0, 1.0
            rows[2::4] *= _MEAN_COTANGENT
            return made

        return [*inputs[:count], *map(changed, inputs[count:])]

    def with_zero_rows(self, inputs: Any) -> Any:
        """Arguments of which some rows are zeros, and cotangents as they are."""
        count = len(inputs) - len(self._cotangents)

        def changed(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.is_floating_point() or not tensor.ndim:
                return tensor
            made, rows = _copy_in_rows(tensor)
            rows[0::3] = 0.0
            return in_order(tensor, made)

        return [*convert(list(inputs[:count]), changed), *inputs[count:]]

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except UserError as error:
            raise UserError(f"task {self.task.id}: {error}") from None
        except Exception as error:
            if ran_out(error):
                raise
            raise UserError(
                f"task {self.task.id}: {what} raises {type(error).__name__}: {error}; mend the task"
            ) from None


def _copy_in_rows(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A contiguous copy, and the same memory as rows along its last axis; elements of a vector are rows of one."""
    made = tensor.clone(memory_format=torch.contiguous_format)
    return made, made.reshape(-1, made.shape[-1] if made.ndim > 1 else 1)


def init_seed(protocol: Protocol, secret: int) -> int:
    """The seed of weights: it is shown to the process that builds a candidate, and tells nothing of the inputs'."""
    if not protocol.affine:
        return INIT_SEED
    return int.from_bytes(hashlib.sha256(f"weights {secret}".encode()).digest()[:4]) >> 2


def for_task(protocol: Protocol, task: Task) -> Protocol:
    """The protocol with the task's precision."""
    return dataclasses.replace(protocol, precision=precision_of(task))


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
) -> ShapeCases:
    """Every case of the shape set `name`, the `position`-th of its task; of a `long` one (`long_sizes.py`) the task's own and
    few of `special` values, where those are asked. Raises UserError when the task fails."""
    protocol = for_task(protocol, task)
    reference = Reference(task, dict(sizes), device)
    if position == 1 and protocol.affine:
        _turn(reference, secret)
    of_weights = weights_seed(reference, protocol, secret, position)
    module = reference.build(protocol.affine, of_weights)

    def made(module: torch.nn.Module) -> ShapeCases:
        return _cases_of(module, reference, name, protocol, secret, position, of_weights, long, special)

    if position == 1 and protocol.affine:
        values = _of_a_checkpoint(reference, module, protocol, secret)
        with contextlib.suppress(UserError):
            if values is not None:
                shape = made(checkpoint.load(copy.deepcopy(module), values))
                shape.drawn = _state(module)
                if task.gradients:
                    for case in shape.cases:
                        _away_from_kinks(case)
                shape.make_as_built = functools.partial(made, module)
                return shape
    return made(module)


def _state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {key: value.detach().clone() for key, value in module.state_dict().items()}


def _of_a_checkpoint(
    reference: Reference, module: torch.nn.Module, protocol: Protocol, secret: int
) -> dict[str, torch.Tensor] | None:
    """Weights that the constructor did not give, under which the reference is finite and crosses the bounds that it crosses
    under its own; None where there are none."""
    inputs = reference.inputs(secret)
    with _where_possible():
        crossed = sides(module, inputs)

        def takes(other: torch.nn.Module) -> bool:
            with _where_possible(), torch.no_grad(), _drawing(inputs):
                outputs = flatten(copy.deepcopy(other)(*convert(inputs, torch.clone)))
                finite = all(bool(torch.isfinite(one).all()) for one in outputs if one.is_floating_point())
                return finite and crossed <= sides(other, inputs)
            return False

        another = reference.build(True, init_seed(protocol, secret + 1))
        return checkpoint.brought(module, another, secret, takes)
    return None


def _cases_of(
    module: torch.nn.Module,
    reference: Reference,
    name: str,
    protocol: Protocol,
    secret: int,
    position: int,
    of_weights: int,
    long: bool,
    special: bool,
) -> ShapeCases:
    """The cases of a shape set under the weights of `module`. Raises UserError when the task fails."""
    task, state = reference.task, _state(module)
    module.to(reference.device)
    cases = []
    for number, (scale, seed) in enumerate(
        draws(protocol, secret, position)[: 1 if long or name in RELATED else None]
    ):
        inputs = scaled(reference.inputs(seed), scale)
        try:
            case = make_case(case_name(name, scale), module, inputs, protocol, scale)
        except NotModelled as error:
            raise UserError(f"task {task.id}, {name}: {error}") from error
        if case is None and number == 0:
            raise UserError(f"task {task.id}: the reference's own output is not finite")
        if case is not None:
            cases.append(case)
    found = operators(module, cases[0].inputs, modes=position == 0)
    if protocol.affine and special:
        kinds = ["long"] if long else None
        usual = cases[0].expected
        for case in special_cases(name, reference, module, found, protocol, secret, position, usual, kinds):
            cases.append(case)
    if not telling(cases):
        for number in range(_MORE_DRAWS):
            inputs = reference.inputs(secret + _MORE_SEED + number)
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
        lambda: twin(reference, module, cases[0], protocol, secret),
        found,
    )


def _turn(reference: Reference, secret: int) -> None:
    """Truth values of Python's among the inputs are turned, where the reference takes that."""
    if not any(isinstance(one, bool) for one in reference.inputs(secret)):
        return
    turned = Reference(reference.task, reference.overrides, reference.device)
    turned.turned = True
    with _where_possible():
        inputs = turned.inputs(secret)
        with torch.no_grad(), _drawing(inputs):
            outputs = flatten(turned.build().to(reference.device)(*inputs))
        reference.turned = all(bool(torch.isfinite(one).all()) for one in outputs if one.is_floating_point())
    reference.start_over()


def special_cases(
    name: str,
    reference: Reference,
    module: torch.nn.Module,
    found: Operators,
    protocol: Protocol,
    secret: int,
    position: int,
    usual: Sequence[Expected],
    kinds: list[str] | None = None,
) -> Iterator[Case]:
    """Cases of special values (`reference/special_values.py`) that the reference has a meaning for: of these `kinds`, or each
    kind on the first shape set, and few on the second. `usual` is what is expected of ordinary inputs."""
    seed = secret + _SPECIAL_SEED + 15_485_863 * position
    drawn = reference.inputs(seed)
    pointwise = special_values.pointwise(found)
    tried = [scaled(drawn, factor) for factor in (1.0, _FAR_FACTOR, -_FAR_FACTOR)]
    any_kind, asked = kinds is None, kinds
    kinds = special_kinds(module, found, drawn, position, kinds)
    if reference.task.gradients:  # at a kink, or among ties, a gradient is a choice
        kinds = [kind for kind in kinds if kind in ("far", "offset", "integers", "masks")]
    for kind in kinds:
        if kind in ("masks", "padding") and not _random_masks(drawn, reference.inputs(seed + 1)):
            continue
        scale = _SCALED_UP if kind in _UP else _SPECIAL
        direct = kind == "bounds" and special_values.alone(found)

        def make(closed: bool, kind: str = kind, scale: float = scale, direct: bool = direct) -> Case | None:
            root = position == 0
            inputs = special_values.changed(drawn, kind, seed, found.landmarks, closed, root, pointwise)
            if kind == "padding":
                inputs = _with_what_never_changes(drawn, inputs, reference, seed)
            return make_case(f"{name}, {kind}", module, inputs, protocol, scale, True, direct)

        case = make(closed=True)
        if case is None or any(one.judged is not None for one in case.expected):
            case = make(closed=False)
        if case is not None:
            seen = usual if case.few else ()
            case.expected = allowances.held(kind, case.expected, case.inputs, found, seen, direct)
            if kind == "masks" and reference.task.gradients:
                _away_from_kinks(case)
            tried.append(case.inputs)
            yield case
    if reference.task.gradients and position == 0 and any_kind:
        yield from _of_gradients(name, reference, module, drawn, protocol)
    smooth = not reference.task.gradients
    weighed = (position == 0 and any_kind) or asked == ["long"]
    if weighed and smooth and special_values.weighs(found):
        inputs = _outweighed(module, drawn, seed)
        case = inputs and make_case(f"{name}, {_OUTWEIGHED}", module, inputs, protocol, _SCALED_UP, True)
        if case and not any(one.step for one in case.expected):
            yield case
    if (position < 2 and any_kind) or asked == ["long"]:
        yield from _of_whole_numbers(name, reference, module, found, drawn, protocol, seed, position)
    if position == 0 and smooth and (inputs := _reaching(module, found, drawn, tried)) is not None:
        case = make_case(f"{name}, reach", module, inputs, protocol, _SCALED_UP, True)
        if case is not None:
            yield case


def _of_gradients(
    name: str, reference: Reference, module: torch.nn.Module, drawn: object, protocol: Protocol
) -> Iterator[Case]:
    """Gradients at cotangents as they come from other operators, and at rows of zeros."""
    cotangents = reference.with_cotangents(drawn)
    if (case := make_case(f"{name}, cotangents", module, cotangents, protocol, _SPECIAL, True)) is not None:
        yield case
    zeros = reference.with_zero_rows(drawn)
    if (case := make_case(f"{name}, zero rows", module, zeros, protocol, _SPECIAL, True)) is not None:
        _away_from_kinks(case)
        yield case


def _of_whole_numbers(
    name: str,
    reference: Reference,
    module: torch.nn.Module,
    found: Operators,
    drawn: object,
    protocol: Protocol,
    seed: int,
    position: int,
) -> Iterator[Case]:
    """Cases of integers and truth values that the reference takes and its task does not draw, where there are such: at long sizes
    of integers that are all alike, before that of others, too."""

    def call(inputs: object) -> list[torch.Tensor]:
        with torch.no_grad(), _drawing(inputs), Disorder() as disorder:
            outputs = flatten(copy.deepcopy(module)(*convert(inputs, torch.clone)))
        if disorder.found:
            raise NotModelled("which of two values stays at one place, nobody says")
        return outputs

    with _where_possible():
        named = [one for one in whole_numbers.named_in(reference.task.source) if one in found.landmarks]
        again = reference.inputs(seed + 1)
        made = {}
        if not special_values.pointwise(found):
            made[_ALIKE] = whole_numbers.alike(drawn, again, call, found, seed, by_row=position == 1)
        if position < 2:
            made["whole numbers"] = whole_numbers.wider(drawn, again, call, found, named, seed)
        for kind, inputs in made.items():
            case = inputs and make_case(f"{name}, {kind}", module, inputs, protocol, _SPECIAL, True)
            if case:
                yield case


def _outweighed(module: torch.nn.Module, drawn: object, seed: int) -> Any:
    """See `outweighed.py`; None where the reference has nothing of the kind."""
    wide = copy.deepcopy(module).double()

    def call(inputs: object) -> list[torch.Tensor]:
        given = convert(inputs, lambda t: t.double() if t.is_floating_point() else t.clone())
        with torch.no_grad(), _drawing(inputs), Wide():
            return flatten(wide(*given))

    with _where_possible():
        return outweighed(drawn, call, seed)
    return None


def _random_masks(drawn: object, again: object) -> bool:
    """Whether masks among the inputs are others in another draw: else they are a structure to rely on."""
    pairs = zip(flatten(drawn), flatten(again), strict=True)
    return any(special_values.is_mask(one) and not torch.equal(one, other) for one, other in pairs)


def _with_what_never_changes(drawn: object, made: object, reference: Reference, seed: int) -> object:
    """Masks `made` of those `drawn`, with places along the last axis as they are in every draw: a task that always keeps the
    first key has kernels rely on that."""
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


def _reaching(module: torch.nn.Module, found: Operators, drawn: object, tried: Sequence[object]) -> object:
    """The inputs, rows of them so scaled that bounds in the reference are crossed that those `tried` leave on one side;
    None where there are none."""
    if special_values.sensitive(found) or not sides(module, drawn):
        return None
    with _where_possible():
        met = {one for inputs in tried for one in sides(module, inputs)}
        if not any((call, bound, not above) not in met for call, bound, above in met):
            return None
        factors = [1.0]
        for factor in _FACTORS:
            more = sides(module, special_values.scaled_rows(drawn, [factor]))
            if not more <= met:
                met |= more
                factors.append(factor)
        return special_values.scaled_rows(drawn, factors) if len(factors) > 1 else None
    return None


def weights_seed(reference: Reference, protocol: Protocol, secret: int, position: int) -> int:
    """Under which the weights of the `position`-th shape set are drawn. Those of the second are wild (`trace/affine.py`) where
    the reference is finite under them, and on the other side of bounds that tame ones do not reach."""
    tame = init_seed(protocol, secret)
    if position != 1 or not protocol.affine or reference.task.gradients:
        return tame
    with _where_possible():
        inputs = reference.inputs(secret)
        module = reference.build(True, tame)
        met = sides(module, inputs) | sides(module, scaled(inputs, _FAR_FACTOR))
        lacking = {(call, bound, not above) for call, bound, above in met} - met
        first = None
        for number in range(_WEIGHT_DRAWS if lacking else 1):
            seed = affine.wild(init_seed(protocol, secret + number))
            module = reference.build(True, seed)
            with torch.no_grad(), _drawing(inputs):
                outputs = flatten(copy.deepcopy(module)(*convert(inputs, torch.clone)))
            if not all(bool(torch.isfinite(one).all()) for one in outputs if one.is_floating_point()):
                continue
            first = first or seed
            if lacking & sides(module, inputs):
                return seed
        return first or tame
    return tame


def _away_from_kinks(case: Case) -> None:
    """Nothing is asked of a case where its outputs jump within rounding of its inputs and weights: a gradient is a choice there."""
    beside = []
    for step in (_BESIDE, -_BESIDE):
        with _where_possible(), torch.no_grad(), _drawing(case.inputs), Wide():
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


def special_kinds(
    module: torch.nn.Module, found: Operators, drawn: object, position: int, wanted: list[str] | None = None
) -> list[str]:
    """Which kinds of special values a shape set gets, those `wanted` if that is said."""
    given = convert(drawn, torch.clone)
    with torch.no_grad(), _drawing(given):
        whole = any(not tensor.is_floating_point() for tensor in flatten(copy.deepcopy(module)(*given)))
    kinds = special_values.kinds(found, drawn, whole, found.landmarks)
    if wanted is not None:
        return [kind for kind in kinds if kind in wanted]
    if position == 0:
        return [kind for kind in kinds if kind not in ("distant", "long", "faint")]
    second = (*kinds[:1], "distant", "tiny", "bounds", "faint")
    return [kind for kind in kinds if kind in second] if position == 1 else []


def has_special(shape: ShapeCases) -> bool:
    """Whether there are special values for the reference at long sizes; `shape` is its first small one."""
    if any(case.name.endswith((f", {_ALIKE}", f", {_OUTWEIGHED}")) for case in shape.cases):
        return True
    if shape.gradients is not None:
        return False
    drawn = shape.cases[0].inputs
    return "long" in special_kinds(shape.cases[0].module, shape.operators, drawn, 0, ["long"])


def telling(cases: Sequence[Case]) -> bool:
    """Whether each output has elements that differ in some case, or one element that differs from case to case. Where an
    activation has left nothing but zeros, a kernel that reads one row for all is as right as an honest one."""
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


def twin(
    reference: Reference, module: torch.nn.Module, case: Case, protocol: Protocol, secret: int
) -> Case | None:
    """`case` with one input element in sixteen drawn anew, but for integers that may be places which are written to once; None
    where the reference does not take that."""
    with _where_possible():
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
    return None


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
    with _where_possible():
        other = make_case(f"{case.name}, other weights", module, case.inputs, protocol, case.scale)
        return (other, made) if other is not None and made else None
    return None


def of_one_tensor(case: Case, protocol: Protocol) -> Case | None:
    """`case` with inputs that are alike given as one; None where the reference does not take that, or writes to one."""
    if case.changed:
        return None
    known: dict[object, torch.Tensor] = {}

    def first(tensor: torch.Tensor) -> torch.Tensor:
        return known.setdefault((tuple(tensor.shape), tensor.stride(), tensor.dtype), tensor)

    with _where_possible():
        name = f"{case.name}, one tensor for several"
        return make_case(name, case.module, convert(case.inputs, first), protocol, case.scale)
    return None


def with_one_row(case: Case, protocol: Protocol, way: str) -> Case | None:
    """`case` with inputs of which all rows are the first (those of the `way`); None where the reference does not take that."""
    places = itertools.count()

    def first(tensor: torch.Tensor) -> torch.Tensor:
        if not concerns(way, next(places)) or not tensor.ndim or not tensor.shape[0]:
            return tensor
        return tensor[:1].expand(tensor.shape).clone(memory_format=torch.contiguous_format)

    with _where_possible():
        name = f"{case.name}, one row for all"
        return make_case(name, case.module, convert(case.inputs, first), protocol, case.scale)
    return None


def evaluating(case: Case, protocol: Protocol) -> Case | None:
    """`case` in evaluation mode; None where the reference has no meaning there."""
    with _where_possible():
        module = copy.deepcopy(case.module).eval()
        return make_case(f"{case.name}, evaluated", module, case.inputs, protocol, case.scale)
    return None


def roughly(case: Case) -> Case:
    """`case` where automatic casts may have rounded anything to half precision."""

    def wide(one: Expected) -> Expected:
        most = max(one.root_mean_square, one.typical) * _CAST_AUTOMATICALLY
        return dataclasses.replace(one, honest_error=max(one.honest_error, most), spread=math.inf)

    return dataclasses.replace(case, name=f"{case.name}, roughly", expected=list(map(wide, case.expected)))


def steers(case: Case, name: str) -> bool:
    """Whether the outputs of a call, or the state that it leaves, hang on an integer of the reference's state."""
    made = []
    for more in (0, 1):
        module = copy.deepcopy(case.module)
        module.state_dict()[name].add_(more)
        with _where_possible(), _running(case.inputs, case.precision):
            outputs = flatten(module(*convert(case.inputs, torch.clone)))
            state = {key: value for key, value in module.state_dict().items() if key != name}
            made.append([*outputs, *state.values()])
    return len(made) == 2 and not all(map(_same, *made))


@contextlib.contextmanager
def _where_possible() -> Iterator[None]:
    """What cannot be done is left out; what there was no memory for is not, lest a verdict depend on that."""
    try:
        yield
    except Exception as error:
        if ran_out(error):
            raise


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
    draw: Callable[[], Any] = inputs if drawn else lambda: inputs
    modelled, native_choices, exact_choices = Rounded(protocol.precision), Choices(), Choices()
    try:
        run = _run_as_asked(
            module,
            draw() if drawn else convert(inputs, torch.clone),
            draw,
            protocol,
            modelled,
            native_choices,
        )
    except NotModelled:
        if scale == 1.0:
            raise
        return None
    exact, exact_after = run.outputs, run.after
    if protocol.calibrated:
        exact, exact_after = _run_in_double(module, draw, run, exact_choices)
    slack = _FAR_SLACK if abs(scale) > _FAR else 1.0
    expected = [
        dataclasses.replace(
            expected_of(e, h),
            slack=slack,
            terms=max(1.0, run.largest / max(h.numel(), 1)),
            chosen=chosen(h, native_choices.made, exact_choices.made, run.owners),
        )
        for e, h in zip(exact, run.outputs, strict=True)
    ]
    if not all(_has_meaning(one, special) for one in expected):
        return None
    if protocol.calibrated:
        if not unrounded:
            expected = _unlucky(module, draw, protocol, expected, exact)
        expected = _with_digits(module, draw, protocol, expected, exact, modelled.used, run.narrowest)
    after = {
        key: dataclasses.replace(expected_of(exact_after[key], held), slack=slack)
        for key, held in run.after.items()
    }
    aliases, shared = run.aliases, sharing(run.outputs)
    return Case(
        name, None if drawn else inputs, run.structure, expected, aliases, shared, run.changed, run.written, after,
        scale, module, protocol.precision, special,
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
    owners: set[int]
    """The inputs' storages."""
    narrowest: float
    """The coarsest spacing of numbers among its dtypes."""
    largest: int
    """Elements of the largest input."""


def _run_as_asked(
    module: torch.nn.Module,
    given: Any,
    draw: Callable[[], object],
    protocol: Protocol,
    modelled: Rounded,
    choices: Choices,
) -> _Run:
    """A copy of the reference on `given`, in the protocol's precision; `draw` gives the same inputs untouched."""
    native = copy.deepcopy(module)
    versions = [tensor._version for tensor in flatten(given)]
    state_versions = {name: value._version for name, value in native.state_dict().items()}
    with runs_reference(), _as_asked(given, protocol, modelled), choices:
        output = native(*given)
    flat, originals = flatten(given), flatten(draw())
    owners = {tensor.untyped_storage()._cdata: index for index, tensor in enumerate(flat)}
    outputs = [tensor.detach() for tensor in flatten(output)]
    changed = [i for i, (a, b) in enumerate(zip(flat, originals, strict=True)) if not _same(a, b)]
    before = module.state_dict()
    held = {name: value for name, value in native.state_dict().items() if name in before}
    left: list[int | str] = [
        *changed,
        *(name for name, value in held.items() if not _same(value, before[name])),
    ]
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
        owners=set(owners),
        narrowest=max((torch.finfo(tensor.dtype).eps for tensor in floating), default=0.0),
        largest=max((tensor.numel() for tensor in flat if tensor.is_floating_point()), default=0),
    )


def _run_in_double(
    module: torch.nn.Module, draw: Callable[[], object], run: _Run, choices: Choices
) -> tuple[list[torch.Tensor], dict[int | str, torch.Tensor]]:
    """(outputs, what it leaves of inputs and state) in float64; those of `run` where the reference cannot be run so."""
    exact, after = run.outputs, run.after
    with _where_possible(), torch.no_grad():
        double = copy.deepcopy(module).double()
        given = convert(draw(), lambda t: t.double() if t.is_floating_point() else t.clone())
        with _drawing(given), Wide(), choices:
            wide = flatten(double(*given))
        if [tuple(t.shape) for t in wide] == [tuple(t.shape) for t in run.outputs]:
            exact = [tensor.detach() for tensor in wide]
            kept: dict[int | str, torch.Tensor] = dict(enumerate(flatten(given))) | double.state_dict()
            after = {key: kept[key].detach() for key in run.after}
    return exact, after


def _with_digits(
    module: torch.nn.Module,
    draw: Callable[[], Any],
    protocol: Protocol,
    expected: list[Expected],
    exact: list[torch.Tensor],
    tf32: bool,
    narrowest: float,
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
        with _where_possible():
            near = _strayed_nearby(module, draw, protocol)
        reached = [
            most if _few(item) else far for item, far, most in zip(expected, reached, near, strict=True)
        ]
    if tf32 and sum(math.prod(item.shape) for item in expected) <= _FEW:
        cut = draw()
        with _as_asked(cut, protocol, Rounded(protocol.precision, cut_off)):
            outputs = flatten(copy.deepcopy(module)(*cut))
        reached = [
            max(far, strayed(right, output.detach()))
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


def _strayed_nearby(module: torch.nn.Module, draw: Callable[[], object], protocol: Protocol) -> list[float]:
    """By output, the most that the reference strays from fp64 at inputs that are a rounding away: of few elements one run
    tells by luck."""
    most: list[float] = []
    for run in range(_RUNS):
        nudged = convert(draw(), lambda tensor, run=run: _nudged(tensor, run))
        with _as_asked(nudged, protocol, Rounded(protocol.precision)):
            made = flatten(copy.deepcopy(module)(*convert(nudged, torch.clone)))
        with torch.no_grad(), _drawing(nudged), Wide():
            wide = convert(nudged, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)
            exact = flatten(copy.deepcopy(module).double()(*wide))
        errors = [strayed(right, output.detach()) for right, output in zip(exact, made, strict=True)]
        most = [max(pair) for pair in zip(errors, most or errors, strict=True)]
    return most


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


def _unlucky(
    module: torch.nn.Module,
    draw: Callable[[], object],
    protocol: Protocol,
    expected: list[Expected],
    exact: list[torch.Tensor],
) -> list[Expected]:
    """Of few elements that many are reduced to, the error of one honest run may be small by luck, above all where a sum
    cancels. The largest of a few runs counts, each with every input a rounding away from what it is.
    """
    if not any(map(_few, expected)):
        return expected
    given = sum(tensor.numel() for tensor in flatten(draw()) if tensor.is_floating_point())
    reduced = [_few(item) and _REDUCED * math.prod(item.shape) <= given for item in expected]
    if not any(reduced):
        return expected
    worst = [item.honest_error for item in expected]
    for run in range(_RUNS):
        nudged = convert(draw(), lambda tensor, run=run: _nudged(tensor, run))
        with _as_asked(nudged, protocol, Rounded(protocol.precision)):
            outputs = flatten(copy.deepcopy(module)(*nudged))
        for index, (output, right) in enumerate(zip(outputs, exact, strict=True)):
            if reduced[index]:
                strayed = (output.detach().double() - right.double()).abs()
                worst[index] = max(
                    worst[index], float(torch.where(torch.isfinite(strayed), strayed, 0.0).max())
                )
    return [
        dataclasses.replace(item, honest_error=error) for item, error in zip(expected, worst, strict=True)
    ]


def _few(expected: Expected) -> bool:
    return expected.dtype.is_floating_point and 0 < math.prod(expected.shape) < MANY


def _nudged(tensor: torch.Tensor, seed: int) -> torch.Tensor:
    """Every element a rounding up, a rounding down or as it is."""
    if not tensor.is_floating_point():
        return tensor.clone()
    generator = torch.Generator(tensor.device).manual_seed(seed)
    steps = torch.randint(-1, 2, tensor.shape, generator=generator, device=tensor.device, dtype=tensor.dtype)
    return steps.mul_(torch.finfo(tensor.dtype).eps).add_(1.0).mul_(tensor)


@contextlib.contextmanager
def _running(inputs: object, precision: Precision) -> Iterator[None]:
    """How a reference is run here: under the flags of a precision, as in the process that clocks it."""
    with torch.no_grad(), flags(**precision.flags), _drawing(inputs):
        yield


@contextlib.contextmanager
def _as_asked(inputs: object, protocol: Protocol, modelled: Rounded) -> Iterator[None]:
    """In the task's precision; TF32 is modelled where errors are calibrated, which is the same on every machine."""
    if not protocol.calibrated:
        with _running(inputs, protocol.precision):
            yield
        return
    with _running(inputs, Precision("ieee", False, False)), modelled:
        yield


def _drawing(inputs: object) -> contextlib.AbstractContextManager[Any]:
    """For a call of a reference: what it draws on a GPU (a live dropout does) it draws while nobody captures a graph there,
    and nobody draws the inputs of another task under their seed."""
    on_gpu = any(tensor.is_cuda for tensor in flatten(inputs))
    return DRAWING if on_gpu else contextlib.nullcontext()


def native(case: Case) -> list[Expected]:
    """What a protocol without calibration expects: the reference's own output under the task's flags."""
    given = convert(case.inputs, torch.clone)
    with _running(given, case.precision):
        output = flatten(copy.deepcopy(case.module)(*given))
    return [expected_of(tensor, tensor) for tensor in output]


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a, b) or (a.is_floating_point() and torch.equal(a.nan_to_num(), b.nan_to_num()))
