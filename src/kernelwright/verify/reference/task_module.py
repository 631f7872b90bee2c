"""The task's own module as the judge runs it: loaded, built with secret weights, called in the task's precision.

The task is trusted, the candidate is not: only inputs and weights go from here to a worker. If the reference raises, that
becomes NotModelled or a UserError that names the task; errors of the machine (memory, a lost GPU) pass unchanged.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from kernelwright.drawing import DRAWING
from kernelwright.errors import ENDS, InfrastructureError, UserError
from kernelwright.graph import narrow
from kernelwright.precision import Precision, precision_of
from kernelwright.records import Task
from kernelwright.shapes import apply_shape, constants, read_by_the_model
from kernelwright.verify.gpu.admission import of_the_machine
from kernelwright.verify.gradients import attach, cotangents_of, learnable
from kernelwright.verify.messages import Gradients
from kernelwright.verify.protocol import Protocol
from kernelwright.verify.reference import start_values
from kernelwright.verify.reference.asserted import Asserted
from kernelwright.verify.reference.copies import copied, doubled
from kernelwright.verify.reference.distributions import in_order
from kernelwright.verify.reference.rounded import Rounded, Wide, cast, cast_module, flags, switches_kept
from kernelwright.verify.sandbox import channel
from kernelwright.verify.structures import convert, equal_plain, flatten, with_numbers_of
from kernelwright.verify.trace import affine

INIT_SEED = 20_231
"""Seed of weights that need not be secret: for protocols that vary none, and where values do not matter."""
_MEAN_COTANGENT = 2.0**-10
"""Factor of cotangents behind a mean."""


def seed_torch(seed: int) -> None:
    """`torch.manual_seed` without its bookkeeping: without a GPU that stores a stack trace per kind of device, a ms each."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)


@contextlib.contextmanager
def private_rng(seed: int) -> Iterator[None]:
    """Seed torch's generators for a block, one block at a time, and restore the caller's state."""
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


class NotModelled(Exception):
    """The reference's own code raised, at sizes or on tensors that its author may not have considered."""


@contextlib.contextmanager
def runs_reference() -> Iterator[None]:
    """Wraps only the reference's own code, which may raise anything, so that a bug of ours is not taken for a reference that
    cannot be run. Raises NotModelled; errors of the machine (memory, a lost GPU) pass unchanged."""
    try:
        yield
    except (InfrastructureError, NotModelled):
        raise
    except Exception as error:
        if of_the_machine(error):
            raise
        raise NotModelled(f"the reference raises {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def failing_as(task: Task) -> Iterator[None]:
    """Turns NotModelled into a UserError that names the task: its reference raises for some of the values drawn at these sizes."""
    try:
        yield
    except NotModelled as error:
        raise UserError(f"task {task.id}: {error}") from error


_compiled = functools.lru_cache(maxsize=256)(lambda source, name: compile(source, f"<{name}>", "exec"))
_read_by = functools.lru_cache(maxsize=256)(read_by_the_model)
_MOST_BUILT = 3
_BUILT: OrderedDict[object, torch.nn.Module] = OrderedDict()
"""The modules built last, of which the next one of equal weights is a copy: at other sizes a module is the same if neither its
constructor's arguments nor the constants that its code reads are others. Only read and changed while drawing."""


class Reference:
    """The task's own module, executed by the judge (the task is trusted; the candidate is not)."""

    def __init__(self, task: Task, overrides: dict[str, int] | None = None, device: str = "cpu") -> None:
        self.task, self.device, self.overrides = task, device, overrides
        self.precision = precision_of(task)
        self.numbers: dict[int, int] = {}
        """Python integers and booleans, by position among the inputs, in place of those that the task draws."""
        self.begun: dict[int, bool] = {}
        """Inputs, by position, that the task draws as one number and that are redrawn here, and whether with either sign."""
        self._first: list[object] | None = None
        """The first draw of inputs, with its tensors emptied."""
        self._form: tuple[int, list[torch.Size]] = 0, []
        """Seed and shapes of that draw."""
        self._cotangents: list[tuple[int, torch.Tensor]] = []
        """Position and form of each output that has a gradient, if gradients are asked."""
        self._source = source = apply_shape(task.source, overrides) if overrides else task.source
        self.namespace: dict[str, Any] = {"__name__": "reference"}
        try:
            with switches_kept():
                exec(_compiled(source, task.id), self.namespace)
        except SystemExit:
            raise UserError(f"task {task.id}: {ENDS}") from None
        except Exception as error:
            raise UserError(
                f"task {task.id} raises when loaded: {type(error).__name__}: {error}; fix the task"
            ) from None
        for name in ("Model", "get_inputs"):
            if not callable(self.namespace.get(name)):
                raise UserError(
                    f"task {task.id} has no {name}: a task defines Model, get_inputs and get_init_inputs"
                )
        if task.gradients:
            with private_rng(0), switches_kept(), self._explain("its backward pass"), torch.device("meta"):
                arguments = convert(self.arguments(), lambda tensor: tensor.to("meta"))
                plain = cast_module(self.namespace["Model"](*self.init_inputs()), self.precision).to("meta")
                self._cotangents = cotangents_of(plain, arguments)

    def start_over(self) -> None:
        """Take Python numbers among the inputs from the next draw."""
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
        """New arguments of `forward` in the task's precision, plus cotangents if gradients are asked. Raises what `get_inputs`
        raises."""
        made = list(cast(list(self.namespace["get_inputs"]()), self.precision))
        for one in flatten(made):
            if one.dtype not in channel.DTYPES.values():
                raise UserError(f"no kernel can be judged on inputs of {one.dtype}")
        return made + [torch.randn(one.shape, dtype=one.dtype) for _, one in self._cotangents]

    def build(self, vary: bool = False, seed: int = INIT_SEED) -> torch.nn.Module:
        """The module with weights drawn under `seed`; `vary` replaces publicly known values (`trace/affine.py`)."""
        with private_rng(seed), switches_kept(), self._explain("Model(*get_init_inputs())"):
            init = self.init_inputs()
            seed_torch(seed)
            if not equal_plain(init, init) or {self.device, torch.get_default_device().type} != {"cpu"}:
                return self._built(init, vary, seed)
            key = (self.task.digest, self._read, repr(init), vary, seed)
            if key not in _BUILT:
                _BUILT[key] = self._built(init, vary, seed)
                while len(_BUILT) > _MOST_BUILT:
                    _BUILT.popitem(last=False)
            _BUILT.move_to_end(key)
            return copied(_BUILT[key])

    def _built(self, init: Sequence[Any], vary: bool, seed: int) -> torch.nn.Module:
        if not vary:
            return self.module(init)
        with affine.vary_affine(seed) as finished:
            module: torch.nn.Module = self.namespace["Model"](*init)
            finished(module)
        return self._as_asked(module)

    @functools.cached_property
    def _read(self) -> str:
        """The constants that the module's own code reads, and their values."""
        read = _read_by(self.task.source)
        return repr([one for one in constants(self._source).items() if one[0].partition("[")[0] in read])

    def gradients(self, module: torch.nn.Module) -> Gradients | None:
        """What a candidate's process is told about gradients; None if none are asked."""
        if not self.task.gradients:
            return None
        return {"parameters": learnable(module), "positions": [at for at, _ in self._cotangents]}

    def build_there(self) -> torch.nn.Module:
        """The module with weights drawn on its device, for timing, where values do not matter: drawing large ones on the host
        and copying them takes seconds each."""
        with contextlib.suppress(UserError), torch.device(self.device):
            return self.build().to(self.device)
        return self.build().to(self.device)

    def inputs(self, seed: int) -> list[Any]:
        """Arguments of `forward`, made on the device (a core takes seconds for what a GPU does in a ms). Python numbers and drawn
        sizes stay those of the first draw: a candidate is traced once per shape, and its launches contain them."""
        made = self._draw(seed)
        if self._first is None:
            self._first = convert(made, lambda tensor: torch.empty(0))
            self._form = seed, [one.shape for one in flatten(made)]
            for place, number in self.numbers.items():
                self._first[place] = number
        if [one.shape for one in flatten(made)] != self._form[1]:
            made = convert(self._draw(self._form[0]), _reorder(seed))
        return convert(with_numbers_of(self._first, made), lambda tensor: tensor.to(self.device))

    def changed_inputs(self, seed: int, change: Callable[[Any], Any]) -> Any:
        """Arguments after `change`, except float tensors of only 0 and 1 that differ between draws: labels and masks, whose other
        values no such task gives a meaning."""
        drawn = self.inputs(seed)
        kept = {place: one for place, one in enumerate(flatten(drawn)) if _is_of_marks(one)}
        if kept:
            again = flatten(self.inputs(seed + 1))
            kept = {place: one for place, one in kept.items() if not torch.equal(one, again[place])}
        places = itertools.count()
        return convert(change(drawn), lambda tensor: kept.get(next(places), tensor))

    def _draw(self, seed: int) -> list[Any]:
        with private_rng(seed), switches_kept(), self._explain("get_inputs()"), torch.device(self.device):
            return start_values.with_others(self.arguments(), self.begun)

    def with_cotangents(self, inputs: Any) -> Any:
        """Arguments whose cotangents have rows of zeros (as behind a mask), of ones (a sum) and tiny rows (a mean)."""
        count = len(inputs) - len(self._cotangents)

        def changed(tensor: torch.Tensor) -> torch.Tensor:
            made, rows = _copy_in_rows(tensor)
            rows[0::4], rows[1::4] = 0.0, 1.0
            rows[2::4] *= _MEAN_COTANGENT
            return made

        return [*inputs[:count], *map(changed, inputs[count:])]

    def with_scaled_cotangents(self, inputs: Any, factor: float) -> Any:
        """Arguments with cotangents times a factor, except in float16, which has no room for it."""
        count = len(inputs) - len(self._cotangents)
        scaled = [one if one.dtype == torch.float16 else one * factor for one in inputs[count:]]
        return [*inputs[:count], *scaled]

    def with_zero_rows(self, inputs: Any) -> Any:
        """Arguments with some rows zeroed; cotangents unchanged."""
        count = len(inputs) - len(self._cotangents)

        def changed(tensor: torch.Tensor) -> torch.Tensor:
            if not tensor.is_floating_point() or not tensor.ndim:
                return tensor
            made, rows = _copy_in_rows(tensor)
            rows[0::3] = 0.0
            return in_order(tensor, made)

        return [*convert(list(inputs[:count]), changed), *inputs[count:]]

    def with_short_rows(self, inputs: Any, factor: float, alone: bool = True) -> Any:
        """Arguments with rows scaled: of all inputs, of every second one from the first, of the others, and of none in turn; if
        not `alone`, all rows of all inputs. Cotangents are unchanged."""
        count = len(inputs) - len(self._cotangents)
        places = itertools.count()

        def changed(tensor: torch.Tensor) -> torch.Tensor:
            number = next(places)
            if not tensor.is_floating_point() or not tensor.ndim:
                return tensor
            made, rows = _copy_in_rows(tensor)
            for first in (0, 1 + number % 2) if alone else range(4):
                rows[first::4] *= factor
            return made

        return [*convert(list(inputs[:count]), changed), *inputs[count:]]

    @contextlib.contextmanager
    def _explain(self, what: str) -> Iterator[None]:
        try:
            yield
        except UserError as error:
            raise UserError(f"task {self.task.id}: {error}") from None
        except Exception as error:
            if of_the_machine(error):
                raise
            raise UserError(
                f"task {self.task.id}: {what} raises {type(error).__name__}: {error}; fix the task"
            ) from None


def _reorder(seed: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns a function that permutes the elements of floating-point tensors."""
    generator = torch.Generator().manual_seed(seed)

    def reordered(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        order = torch.randperm(tensor.numel(), generator=generator).to(tensor.device)
        return tensor.reshape(-1)[order].reshape(tensor.shape)

    return reordered


def _is_of_marks(tensor: torch.Tensor) -> bool:
    if not tensor.is_floating_point() or tensor.numel() < 2:
        return False
    return bool(((tensor == 0) | (tensor == 1)).all() & (tensor == 0).any() & (tensor == 1).any())


def _copy_in_rows(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A contiguous copy, and the same memory as rows along its last axis; each element of a vector is a row."""
    made = tensor.clone(memory_format=torch.contiguous_format)
    return made, made.reshape(-1, made.shape[-1] if made.ndim > 1 else 1)


def init_seed(protocol: Protocol, secret: int) -> int:
    """The seed of weights; the process that builds a candidate knows it, and it reveals nothing of the inputs' seed."""
    if not protocol.affine:
        return INIT_SEED
    return int.from_bytes(hashlib.sha256(f"weights {secret}".encode()).digest()[:4]) >> 2


def for_task(protocol: Protocol, task: Task) -> Protocol:
    """The protocol with the task's precision."""
    return dataclasses.replace(protocol, precision=precision_of(task))


@contextlib.contextmanager
def where_possible() -> Iterator[None]:
    """Leaves out what cannot be done; errors of the machine (memory, a lost GPU) are raised, so that no verdict depends on them."""
    try:
        yield
    except Exception as error:
        if of_the_machine(error):
            raise


@contextlib.contextmanager
def running(inputs: object, precision: Precision) -> Iterator[None]:
    """Runs a reference under the flags of a precision, as in the process that times it."""
    with torch.no_grad(), flags(**precision.flags), drawing(inputs):
        yield


@contextlib.contextmanager
def as_asked(inputs: object, protocol: Protocol, modelled: Rounded) -> Iterator[None]:
    """Runs a reference in the task's precision; if errors are calibrated, TF32 is modelled, to be the same on every machine."""
    if not protocol.calibrated:
        with running(inputs, protocol.precision):
            yield
        return
    with running(inputs, Precision("ieee", False, False)), modelled:
        yield


@contextlib.contextmanager
def drawing(inputs: object) -> Iterator[None]:
    """Wraps a call of a reference. On a GPU it may draw numbers (a live dropout), so meanwhile nobody may capture a graph there or
    draw another task's inputs under its own seed; and it raises what it would raise on the CPU."""
    if not any(tensor.is_cuda for tensor in flatten(inputs)):
        yield
        return
    with DRAWING, Asserted():
        yield


def outputs_of(module: torch.nn.Module, inputs: Any) -> list[torch.Tensor]:
    """Outputs of a copy of the module on copies of the inputs, without gradients. Raises NotModelled."""
    with torch.no_grad(), drawing(inputs), runs_reference():
        return flatten(copied(module)(*convert(inputs, torch.clone)))


def in_double(
    module: torch.nn.Module, inputs: Any, mode: AbstractContextManager[object] | None = None
) -> tuple[list[torch.Tensor], dict[int | str, torch.Tensor]]:
    """Outputs of a reference in double precision, run in a further `mode`, and what the call left (`left_by`). The given inputs are
    not held meanwhile."""
    double, wide = doubled(module), Wide(module.state_dict(), inputs)
    given = convert(inputs, lambda one: one.double() if one.is_floating_point() else one.clone())
    del inputs
    with torch.no_grad(), drawing(given), wide, mode or contextlib.nullcontext():
        outputs = [one.detach() for one in flatten(double(*given))]
    return outputs, left_by(double, given)


def left_by(module: torch.nn.Module, given: Any) -> dict[int | str, torch.Tensor]:
    """Inputs, by number, and state, by name."""
    return dict(enumerate(flatten(given))) | module.state_dict()


def finite(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether no floating-point number in the tensors is infinite or NaN."""
    return all(bool(torch.isfinite(one).all()) for one in tensors if one.is_floating_point())
