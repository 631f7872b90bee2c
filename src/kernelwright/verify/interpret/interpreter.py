"""Runs `@triton.jit` kernels on CPU tensors, one program instance after another, with every pointer checked.

Triton's own interpreter does the arithmetic, once for all instances on the same path (`interpret/recording.py`). This file
replaces how it gets its arguments (simulated addresses, see `interpret/memory.py`), how it accesses memory, and what a launch
does. Four modes:

    execute   all program instances, real memory
    model     a few instances at any size, without memory: loads give invented values, stores are dropped
    plan      like `model`, with every round of every loop: for `slices.py`
    sample    chosen instances at any size, on inputs that repeat (`interpret/full_size.py`)

Kernels stay `JITFunction`s, so the same objects are cross-compiled. Warp specialisation and assembly that cannot be
evaluated raise `Unsupported`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import random
import sys
import types
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
import triton.compiler.code_generator  # noqa: F401 (before any patch: it binds `min` to tl.minimum when imported)
import triton.language as tl
from triton.runtime import interpreter, jit
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelwright.errors import InfrastructureError
from kernelwright.verify.interpret import hints, patches
from kernelwright.verify.interpret.abreast import MOST_INSTANCES, Groups, Uses, Watch
from kernelwright.verify.interpret.bodies import LINEAR, rewritten
from kernelwright.verify.interpret.counts import overflow
from kernelwright.verify.interpret.coverage import Coverage, Touched, farther, reads_the_same
from kernelwright.verify.interpret.endings import Enough, KernelError, Unsupported, kernel_errors
from kernelwright.verify.interpret.full_size import Sampled, Unsure
from kernelwright.verify.interpret.lean_triton import gather
from kernelwright.verify.interpret.marks import Marks
from kernelwright.verify.interpret.memory import REACH, Memory, OutOfBounds, Region, Traffic, spread
from kernelwright.verify.interpret.number_formats import to_bf16
from kernelwright.verify.interpret.pipelines import Pipeline
from kernelwright.verify.interpret.program_map import NotFollowed, ProgramMap
from kernelwright.verify.interpret.races import Race, Races
from kernelwright.verify.interpret.recording import (
    Instances,
    Recording,
    asking_frame,
    deciding_line,
    outcome_of,
)
from kernelwright.verify.interpret.rounds import FEWEST, Rounds
from kernelwright.verify.interpret.slices import MOST_ROUTES, THOROUGH_ROUTES, Planned, Route, plan
from kernelwright.verify.interpret.together import HELD, MOST_SWITCHED, Together, polls
from kernelwright.verify.messages import ROUNDED, ROUNDS
from kernelwright.verify.trace.binding import bind, plain
from kernelwright.verify.trace.pretend_cuda import POISON_BF16

if TYPE_CHECKING:
    from kernelwright.verify.structures import Args

Mode = Literal["execute", "model", "plan", "sample"]
Handle: TypeAlias = interpreter.TensorHandle
Body = Callable[..., Any]
"""A kernel as a Python function."""
Arguments = dict[str, Any]
"""A kernel's arguments as the interpreter takes them."""
Seen = tuple[Any, ...]
"""(kernel, constants) of a launch, or (kernel, line, outcome) of a decision in it."""
Path = tuple[int, ...]
"""An argument's number, followed by the positions of an item in nested tuples."""

SAMPLED_PROGRAMS = 4
OVERFLOW = "a count may leave its type"
"""Recorded like the outcome of a decision."""
_STAGES = 3
"""`num_stages` of a launch that names none."""
_SEVERAL, _LONG = 3, 16
"""Rounds from which a loop counts as having several (values can pass through a whole one), and are recorded in number."""
PLANNED_STEPS, THOROUGH_STEPS = 1000, 12000
"""The most memory instructions of a launch's planned instances, and of all that are examined for what they need; the second
when we ask in particular what reaches the outputs."""
_FOLLOWED, _KEPT_BYTES = 1 << 27, 1 << 28
"""Limits for one planned instance: its memory instructions times the launch's programs, and bytes of the integers it makes."""
SAMPLED_STEPS = 300
"""Memory instructions after which no further instance of a launch is sampled."""
MODEL_STEPS = 3000
"""Memory instructions after which a modelled program instance is cut off."""
LOOP_HEAD, LOOP_SAMPLED, LOOP_TAIL = 2, 4, 1
"""Iterations of a modelled loop that are run: the first ones, one from each of this many parts, and the last."""
_DEARER = 1.1
"""Factor on the price from which integers of 1 instead of 0 are priced."""
_COMPARED = 48
"""The most instances whose places are compared."""
_UNEVEN = 1.3
"""Ratio of the work of sampled instances above which more are sampled."""


def _uneven(samples: Sequence[Traffic], by_argument: bool) -> bool:
    """Whether instances do unequal work: in total, or (`by_argument`) on one argument, as where half of them read one input and
    half another."""
    work = [[traffic.touched_bytes for traffic in samples]]
    if by_argument:
        names = {name for traffic in samples for name in traffic.loaded}
        work += [[traffic.loaded.get(name, 0.0) for traffic in samples] for name in names]
    return any(max(one) > _UNEVEN * min(one) for one in work)


class Ticket:
    """What a modelled instance finds in shared counters: `rank` at first, then the same one round later."""

    def __init__(self, rank: int = 0, meet: int = 1) -> None:
        self._rank, self._meet = rank, meet
        self._drawn: dict[int, int] = {}
        self._asked: dict[int, int] = {}

    def next(self, address: int) -> int:
        """The next value drawn at an address."""
        drawn = self._drawn[address] = self._drawn.get(address, -1) + 1
        return min(self._rank + drawn * self._meet, 1 << 30)

    def arrivals(self, address: int) -> int:
        """1 at first, and later as many as meet, so that a barrier opens."""
        count = self._asked[address] = self._asked.get(address, -1) + 1
        return min(max(count * self._meet, 1), 1 << 30)


@dataclasses.dataclass
class TracedLaunch:
    """One launch: the kernel, its arguments, and (in `model` mode) what its sampled instances did."""

    function: jit.JITFunction
    grid: tuple[int, int, int]
    options: dict[str, Any]
    constexprs: dict[str | Path, object]
    """By name, in tuples by path."""
    signature: dict[str, object]
    """By argument, its type in Triton's notation; a tuple of them for a tuple."""
    divisible: tuple[Path, ...]
    """Arguments divisible by 16, on which the compiler specialises."""
    traffic: list[Traffic] = dataclasses.field(default_factory=list)
    scale: float = 1.0
    """Factor for instances that were cut off."""
    sizes: dict[str, int] = dataclasses.field(default_factory=dict)
    """Storage size in bytes per argument."""
    waited: bool = False
    """Whether a loop of the instances only ends once a polled value is there."""
    coverage: Coverage | None = None
    """What the sampled instances and neighbours of one of them touch; None for a single instance, and if places may depend on
    unknown integers."""

    @property
    def programs(self) -> int:
        return math.prod(self.grid)


def _type(launch: TracedLaunch, name: str, path: Path, value: object, specialise: bool = True) -> object:
    """Triton's type for an argument; enters specialisations in `launch`. Raises TypeError, Unsupported."""
    if value is None or isinstance(value, tl.constexpr) or (type(value) is int and value == 1 and specialise):
        launch.constexprs[path if path[1:] else name] = plain(value)
        return "constexpr"
    if isinstance(value, bool):
        return "u1"
    if isinstance(value, torch.Tensor):
        if value.storage_offset() * value.element_size() % 16 == 0:
            launch.divisible += (path,)
        return "*" + _TYPES[value.dtype]
    if isinstance(value, int):
        if value % 16 == 0 and specialise:
            launch.divisible += (path,)
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    if isinstance(value, float):
        return "fp32"
    if isinstance(value, tuple):
        items = enumerate(value)
        return tuple(_type(launch, f"{name}[{place}]", (*path, place), item) for place, item in items)
    if isinstance(value, TensorDescriptor):
        block = ", ".join(str(plain(extent)) for extent in value.block_shape)
        return f"tensordesc<{_TYPES[value.base.dtype]}[{block}]>"
    raise TypeError(f"argument `{name}` has type {type(value).__name__}, which Triton does not take")


class Engine:
    """Runs the launches of one candidate. `with engine.installed(): ...` sends `kernel[grid](...)` here."""

    benching = False
    races = False
    """Execute instances in reverse order, and watch for races between them."""
    all_zero = False
    """Loads in `model` mode give zeros, floats included."""
    straying: Collection[str] = ()
    """Kernels whose modelled accesses may stray, because unknown values decide where they go."""
    guess = 0
    """What loads in `model` mode give for unknown integers and booleans."""
    switching = 0
    """With `races`: interrupt instances after their first atomic operation (1), or after a drawn half of them (2)."""
    _instance_at, _has_updated = (0, 0), False
    """The current instance, and whether it has done an atomic operation."""
    atomics = False
    """Whether anything was updated atomically since this was reset."""
    following = False
    """Record every instance, to see who uses a single number that is loaded and stored with no barrier between."""
    crossed = False
    """Whether an instance did that since this was reset."""
    false_hints = False
    """Whether a hint was false for some lane since this was reset."""
    contracting = False
    """Products that are added are not rounded first (`contracted.py`)."""
    rounding = False
    """Factors of blocks with three axes are rounded to TF32, as where the compiler makes a product of a sum over the middle one."""
    believing = False
    """Take false hints at their word, as a compiler may: a load that they lead astray finds undefined values."""
    lanes: int | None = None
    """Seed of the value of undefined lanes; None for NaN."""
    garbage = 1
    """Value of undefined integers."""
    brackets = 0
    """Decides how reductions are bracketed."""
    samples = SAMPLED_PROGRAMS
    """Program instances of a launch that are modelled."""
    measured = 0
    """Of each executed launch, the number of instances whose work is recorded; then `read` is, too."""
    thorough = False
    """Plan further than usual."""
    planned_steps = 0
    """Memory instructions in `plan` mode since this was reset."""
    flops = 0.0
    """Operations done since this was reset."""
    watch: Races | Watch | None = None
    uses: Uses | None = None
    """Uses of storages by the running launch, if its instances may run at once."""
    _together: Together | None = None
    """The running instances, if some may wait for later ones."""
    _awaited = True
    """Whether the current instance is ordered after the launches that it overlaps (`gdc_wait`)."""

    abreast = True
    """Whether instances on the same path may be run at once. Exact arithmetic, whose values are no arrays, runs them one by one."""

    def __init__(self, price: Callable[[TracedLaunch], float]) -> None:
        self.price = price
        """Modelled milliseconds of a launch, which autotuning minimises."""
        self.mode: Mode = "execute"
        self.launches: list[TracedLaunch] = []
        self.memory = Memory()
        self.traffic: Traffic | None = None
        self.units: set[str] = set()
        """Arithmetic units used, named as in `hardware.Target`."""
        self.executed_rounds: dict[tuple[str, int], int] = {}
        """By kernel and line, the most rounds of a loop in any executed call; `modelled_rounds`: in any modelled call."""
        self.modelled_rounds: dict[tuple[str, int], int] = {}
        self._strays: list[tuple[int, OutOfBounds]] = []
        """Strays of the planned program, by number of the memory instruction; those due to invented values do not count."""
        self.together, self.interruptible = set[str](), set[tuple[int, int]]()
        """Kernels with instances that waited for later ones; (launch, instance) of those that others may come between (`_shares`)."""
        self._pipelines: list[Pipeline] = []
        """Running loops that may be pipelined, the innermost last."""
        self._stages = 0
        """`num_stages` of the current launch."""
        self._before: set[int] = set()
        """Storages written by launches that may still run, because the current one is launched early (`launch_pdl`)."""
        self._stored: dict[object, set[str]] = {}
        """By kernel, the arguments that an instance was ever seen to write to."""
        self._storing: set[str] = set()
        self.stored: set[int] = set()
        self.read: dict[int, np.ndarray] = {}
        """`stored`: storages written since it was emptied; `read`: by storage, which bytes measured instances loaded."""
        self.marks: Marks | None = None
        """Records where kernels store, byte by byte, if set."""
        self.counted: dict[int, tuple[int, int, Callable[[np.ndarray], np.ndarray]]] = {}
        """By storage that torch filled with known numbers: bytes before the first, width, and a function from index to number."""
        self.addresses: dict[int, dict[int, torch.UntypedStorage]] = {}
        """By storage that holds addresses: the storages at these, by number on the tape."""
        self._sampled_programs: list[int] = []
        """The sampled instances of the current launch."""
        self.arrivals: dict[object, int] = {}
        """By planned kernel, how many instances meet at one counter."""
        self._ticket = Ticket()
        self.dice = random.Random()
        """Chooses modelled instances and iterations; seeded by the OS, so that no kernel can predict it."""
        self._orders: dict[int, np.ndarray] = {}
        """By size of a block, the order in which an atomic operation serves its lanes."""
        self.sampled = Sampled()
        """Memory for the mode `sample`."""
        self.enlarged: dict[Hashable, list[dict[str, object]]] = {}
        """By kernel (its inner function, because a JITFunction's hash reads everything it refers to), constants that replace
        those of its next launches."""
        self.seen: set[Seen] = set()
        """Launches and decisions in the mode `execute`."""
        self._noted: set[Seen] = set()
        """For a planned launch: where integers lose digits, and loops with several rounds."""
        self._at: Seen = ("", "")
        self.planned: list[Planned] = []
        """Launches in the mode `plan`, in order."""
        self.reads: list[tuple[int, np.ndarray]] | None = None
        self.writes: list[tuple[int, np.ndarray]] | None = None
        """(storage, byte offsets) of planned reads and writes; None if not wanted."""
        self.instances, self._groups = Instances(self._did), Groups(self, _index)
        self._restore: list[Callable[[], None]] = []

    # -- launch ---------------------------------------------------------------------------------------

    def launch(
        self,
        function: jit.JITFunction,
        grid: Sequence[int] | Callable[[dict[str, object]], Sequence[int]],
        args: Args,
        kwargs: dict[str, object],
    ) -> None:
        """Run `kernel[grid](*args, **kwargs)`. Raises OutOfBounds, KernelError, Unsupported, TypeError."""
        values, options, shape = bind(function, grid, args, kwargs)
        if given := self.enlarged.get(function.fn):
            values |= given[0]
            self.enlarged[function.fn] = [*given[1:], given[0]]
        parameters = {parameter.name: parameter for parameter in function.params}
        traced = self._trace(function, shape, options, values)
        self.launches.append(traced)
        if traced.programs == 0:
            return
        self.memory = Memory()
        self._stages = int(options.get("num_stages", _STAGES))
        arguments = {
            name: value if self._compiled_in(parameters[name], value) else self._argument(name, value)
            for name, value in values.items()
        }
        for region in list(self.memory.regions) if self.addresses else ():
            for number, storage in self.addresses.get(region.keep._cdata, {}).items():
                self.memory.may_load(number, storage)
        body = rewritten(function)
        constants = ", ".join(f"{name}={value!r}" for name, value in declared_constants(traced).items())
        self._at = function.__name__, constants
        if self.mode == "execute":
            self.seen.add(self._at)
        traced.sizes = {region.name: region.size for region in self.memory.regions}
        if self.mode == "execute":
            early = bool(options.get("launch_pdl"))
            self._before = self._before if early else set()
            self._execute(function, body, arguments, shape, traced)
            stored = {region.keep._cdata for region in self.memory.regions if region.stored}
            self.stored |= stored
            self._before |= stored
        elif self.mode == "plan":
            self.planned.append(self._plan(traced, body, arguments, shape))
        else:
            self._sample(body, arguments, shape, traced)

    @staticmethod
    def _compiled_in(parameter: jit.KernelParam, value: object) -> bool:
        """Whether the compiler treats an argument as a constant: constexprs, and an integer that is 1."""
        return bool(
            parameter.is_constexpr or (type(value) is int and value == 1 and not parameter.do_not_specialize)
        )

    def _trace(
        self, function: jit.JITFunction, grid: Any, options: dict[str, object], values: dict[str, object]
    ) -> TracedLaunch:
        made = TracedLaunch(function, grid, options, {}, {}, ())
        for number, parameter in enumerate(function.params):
            value = values[parameter.name]
            if parameter.is_constexpr:
                made.constexprs[parameter.name] = value
                made.signature[parameter.name] = "constexpr"
            else:
                specialise = not parameter.do_not_specialize
                made.signature[parameter.name] = _type(made, parameter.name, (number,), value, specialise)
        return made

    def _argument(self, name: str, value: object) -> Any:
        if isinstance(value, tuple):
            return tuple(self._argument(f"{name}[{place}]", item) for place, item in enumerate(value))
        if isinstance(value, torch.Tensor):
            element = tl.pointer_type(tl.str_to_ty(_TYPES[value.dtype], None))
            handle = interpreter.TensorHandle(
                np.array([self.memory.pointer(value, name)], dtype=np.uint64), element
            )
            return tl.tensor(handle, element)
        if isinstance(value, TensorDescriptor):
            return self._descriptor(name, value)
        if isinstance(value, float):
            handle = interpreter.TensorHandle(np.array([value], dtype=np.float32), tl.float32)
            return tl.tensor(handle, tl.float32)
        if isinstance(value, bool):  # Triton 3.6 makes 32 bits of it and then refuses them
            return tl.tensor(interpreter.TensorHandle(np.array([value]), tl.int1), tl.int1)
        return interpreter._implicit_cvt(value)

    def _descriptor(self, name: str, value: TensorDescriptor) -> object:
        """A host-side descriptor over checked memory, made as Triton's own interpreter does."""
        strides = [interpreter._implicit_cvt(plain(stride)) for stride in value.strides]
        strides[-1] = tl.constexpr(1)
        made = interpreter.interpreter_semantic.make_tensor_descriptor(
            base=self._argument(name, value.base),
            shape=[interpreter._implicit_cvt(plain(extent)) for extent in value.shape],
            strides=strides,
            block_shape=[tl.constexpr(plain(extent)) for extent in value.block_shape],
            padding_option=value.padding,
        )
        made.handle.round_f32_to_tf32 = getattr(value, "round_f32_to_tf32", False)
        return made

    def _execute(
        self,
        function: jit.JITFunction,
        body: Body,
        arguments: Arguments,
        grid: tuple[int, ...],
        traced: TracedLaunch,
    ) -> None:
        builder = interpreter.interpreter_builder
        builder.set_grid_dim(*grid)
        order: Iterable[int] = range(math.prod(grid))
        known = self._stored.get(function.fn)
        self._storing = self._stored.setdefault(function.fn, set())
        if self.races:
            warps = int(traced.options.get("num_warps", 4))
            self.watch = Races(self.memory, math.prod(grid), known, warps, self._recorded_steps)
            if not polls(function):  # in reverse it would wait for ever
                order = reversed(range(math.prod(grid)))
        self.instances.begin(function.fn, grid, arguments)
        watch, kept = self.watch, dict[int, Traffic]()
        if self.measured and not polls(function):
            kept = {linear: Traffic() for linear in self._drawn(grid, min(self.measured, traced.programs))}

        def run(linear: int) -> Recording | None:
            self._start(linear, grid)
            self.traffic = kept.get(linear)
            if self.following and isinstance(watch, Races) and self._together is None:
                self._follow(body, arguments, watch)
                return None
            threaded = self._together is not None and self._together.running
            if self._before or threaded or self.traffic is not None:
                with kernel_errors():
                    body(**arguments)
                return None
            return self.instances.run(body, arguments)

        try:
            if self.switching:
                self._switch(run, polls(function), math.prod(grid))
                return
            if polls(function):
                self._together = Together(run, self._place)
                self._together.run(order, 0 if function.__name__ in self.together else HELD)
                self.together |= {function.__name__} if self._together.waited else set()
                return
            with kernel_errors():
                for linear in kept:
                    run(linear)
                rest = (linear for linear in order if linear not in kept)
                if self._before or self.rounding or not self.abreast or math.prod(grid) > MOST_INSTANCES:
                    for linear in rest:
                        run(linear)
                else:
                    self._groups.run(run, list(rest), grid)
        finally:
            self.crossed |= isinstance(watch, Races) and watch.crossed
            self.watch = self._together = self.traffic = None
            traced.traffic.extend(kept.values())

    def _switch(self, run: Callable[[int], object], waits: bool, count: int) -> None:
        """Run all instances, of which some are interrupted after atomic operations (`switching`)."""
        # In another order those that wait for earlier ones would wait for ever.
        chosen: Collection[int] = range(count)
        if not waits:
            chosen = sorted(self.dice.sample(range(count), min(count, MOST_SWITCHED)))
        self._together = Together(run, self._place, waits, self._interrupts)

        def between() -> None:
            with kernel_errors():
                for linear in () if waits else set(range(count)).difference(chosen):
                    run(linear)

        self._together.run(chosen, between=between)

    def _interrupts(self, updates: int) -> bool:
        """Whether to interrupt an instance that has done so many atomic operations."""
        return updates == 1 if self.switching == 1 else self.dice.random() < 0.5

    def _follow(self, body: Body, arguments: Arguments, watch: Races) -> None:
        """Run an instance and follow what it loads before or after a store of its own. Raises Race."""
        self.instances.making = made = Recording(arguments, self._did)
        try:
            with made.record(), kernel_errors():
                body(**arguments)
        finally:
            self.instances.making = None
        for step, name in watch.early:
            if made.spreads(step):
                raise Race(
                    f"a number of `{name}` is loaded by every thread and stored by one, with no tl.debug_barrier() between, "
                    "and not used for single stores alone"
                )

    def _recorded_steps(self) -> int:
        return len(self.instances.making.steps) if self.instances.making is not None else 0

    def _start(self, linear: int, grid: tuple[int, ...]) -> None:
        """Set the state for the beginning of an instance."""
        interpreter.interpreter_builder.set_grid_idx(*_index(linear, grid))
        self._instance_at, self._has_updated = (len(self.launches), linear), False
        if isinstance(self.watch, Races):
            self.watch.start(linear)
        self._awaited, self._pipelines = not self._before, []

    def _place(self) -> Callable[[], None]:
        """Returns a function that restores the current instance's state."""
        builder = interpreter.interpreter_builder
        at, awaited, pipelines = builder.grid_idx, self._awaited, self._pipelines
        own = self._instance_at, self._has_updated
        watch = self.watch if isinstance(self.watch, Races) else None
        known = None if watch is None else watch.place()

        def back() -> None:
            builder.grid_idx, self._awaited, self._pipelines = at, awaited, pipelines
            self._instance_at, self._has_updated = own
            if watch is not None and known is not None:
                watch.come_back(known)

        return back

    def _poll(self, ptrs: Handle, mask: np.ndarray, region: Region | None) -> None:
        """Called when the current instance reads what others may change meanwhile."""
        if self._together is not None:
            real, meant = (
                self.memory.translate(ptrs.data, region),
                np.ascontiguousarray(spread(mask, ptrs.data.shape)),
            )
            dtype = interpreter._get_np_dtype(ptrs.get_element_ty())
            nothing = np.zeros(ptrs.data.shape, dtype)
            self._together.asks(ptrs.data, meant, gather(real, meant, nothing, dtype))

    def updated(self) -> None:
        """Called when the current instance has done an atomic operation or volatile load."""
        if self._together is not None:
            self._together.updated()

    def _shares(self) -> None:
        """Called when the current instance touches what others may have changed: perhaps since an atomic operation of its own."""
        if self._has_updated and not (self.uses is not None and self.uses.many):
            self.interruptible.add(self._instance_at)

    def _did(self, operations: float) -> float:
        """Count operations and return their total."""
        self.flops += operations
        return self.flops

    def _plays(self, recording: Recording | None) -> bool:
        """Run the recording for the current instance. False if that takes another path: it begins again, uncounted so far."""
        counted = self.sampled.counted()
        if recording is not None and recording.replayable and recording.play():
            return True
        self.sampled.count_from(counted)
        return False

    def _plan(self, traced: TracedLaunch, body: Body, arguments: Arguments, grid: tuple[int, ...]) -> Planned:
        """Plan a launch: what is known of it without its values. Raises Unsure."""
        memory, extents = self.memory, (grid[0], grid[1], grid[2])
        self._noted.clear()
        self.planned_steps = 0

        def stand(program: int) -> None:
            self.memory = memory
            interpreter.interpreter_builder.set_grid_dim(*grid)
            interpreter.interpreter_builder.set_grid_idx(*_index(program, grid))

        def record(program: int) -> tuple[Recording, ProgramMap]:
            stand(program)
            return self._record(body, arguments, program, extents)

        def run(program: int, recording: Recording | None) -> None:
            if endless:
                raise Unsure("a program that may wait for another, or takes more steps than are planned")
            stand(program)
            if self.mode == "sample":
                for region in memory.regions:
                    self.sampled.place(region)
            self._strays.clear()
            with kernel_errors():
                if not self._plays(recording):
                    body(**arguments)
            if self._strays:
                raise Unsure("places that depend on loaded numbers")

        def modelled(program: int, guess: int) -> Traffic:
            stand(program)
            self.mode, self.traffic, self.guess, self.straying = "model", Traffic(), guess, (self._at[0],)
            try:
                with kernel_errors(), contextlib.suppress(Enough):
                    body(**arguments)
                return self.traffic
            finally:
                self.mode, self.traffic, self.guess, self.straying = "sample", None, 0, ()

        def priced(program: int) -> Traffic:
            made = modelled(program, 0)
            if made.guessed:
                with contextlib.suppress(OutOfBounds, KernelError):
                    return max(made, modelled(program, 1), key=lambda one: one.touched_bytes)
            return made

        routes, rest = list[Route](), np.ones(math.prod(grid), dtype=bool)
        cut, endless = False, polls(traced.function)  # an instance that waits for another would wait for ever
        if not endless:
            try:
                routes, rest = plan(math.prod(grid), record, self.dice, self.thorough)
                cut = bool(rest.any()) and len(routes) < (THOROUGH_ROUTES if self.thorough else MOST_ROUTES)
            except Unsure:
                cut = endless = True
            except NotFollowed:
                pass  # it can still be run
        self._count_arrivals(traced.function.fn, routes)
        decided = {(self._at[0], *branch) for route in routes for branch in route.map.branches}
        does = {self._at, *self._noted, *decided}
        return Planned(self._at[0], does, extents, memory, routes, rest, run, priced, cut)

    def _count_arrivals(self, function: Any, routes: Sequence[Route]) -> None:
        """Record how many programs meet at one counter, if their order there decides what they do."""
        met = np.concatenate([route.meetings for route in routes if route.map.ranked] or [np.zeros(0)])
        if (met >= 0).any():
            self.arrivals[function] = int(np.unique(met[met >= 0], return_counts=True)[1].max())

    def _record(
        self, body: Body, arguments: Arguments, program: int, extents: tuple[int, int, int]
    ) -> tuple[Recording, ProgramMap]:
        """Record one program step by step, and map it to the others. Raises NotFollowed."""
        begun = self.planned_steps
        self._strays.clear()
        self.instances.making = made = Recording(arguments, self._did, keep=True)
        try:
            with made.record(), kernel_errors():
                body(**arguments)
        finally:
            self.instances.making = None
        if not made.understood:
            raise NotFollowed("a tensor that no step made")
        if self.thorough and math.prod(extents) * (self.planned_steps - begun) > _FOLLOWED:
            raise Unsure("more steps than are planned")
        if overflow(made):
            self._noted.add((self._at[0], 0, OVERFLOW))
        try:
            found = ProgramMap(made, program, extents, _width)
        except NotFollowed:
            for _, stray in self._strays:
                raise stray from None
            raise
        except Exception as error:  # our own code on the recording; nothing of the kernel runs here
            raise InfrastructureError(f"program map: {type(error).__name__}: {error}") from error
        for step, stray in self._strays:
            place = step - begun - 1
            known = place < len(found.accesses)
            if not known or not found.accesses[place].data:
                raise OutOfBounds(str(stray), certain=known and not found.data_decides)
        return made, found

    def _sample(self, body: Body, arguments: Arguments, grid: tuple[int, ...], traced: TracedLaunch) -> None:
        """Model a few instances, with unknown integers as 0 and then as 1 (a loaded mask, a skipped block); keep the one that
        costs more, or that ends a waiting loop."""
        self._sample_guessing(body, arguments, grid, traced)
        if self.all_zero or not any(traffic.guessed for traffic in traced.traffic):
            return
        other = dataclasses.replace(traced, traffic=[], coverage=None)
        self.guess = 1
        try:
            with contextlib.suppress(OutOfBounds, KernelError):
                self._sample_guessing(body, arguments, grid, other)
                traced.waited = _cut_off(traced) and not _cut_off(other)
                if traced.waited or self.price(other) > _DEARER * self.price(traced):
                    traced.traffic, traced.coverage = other.traffic, other.coverage
        finally:
            self.guess = 0

    def _sample_guessing(
        self, body: Body, arguments: Arguments, grid: tuple[int, ...], traced: TracedLaunch
    ) -> None:
        interpreter.interpreter_builder.set_grid_dim(*grid)
        total = traced.programs
        count = min(1 if self.benching else self.samples, total)
        self._run_samples(body, arguments, grid, traced, count)
        partly = not self.benching and count < total
        if partly and _uneven(traced.traffic, by_argument=count > SAMPLED_PROGRAMS):
            traced.traffic.clear()  # programs differ (a triangle, say), so a few are no fair sample
            self._run_samples(body, arguments, grid, traced, min(4 * count, total))
        if not self.benching and total > 1 and not any(traffic.invented for traffic in traced.traffic):
            traced.coverage = self._coverage(body, arguments, grid, traced)

    def _coverage(
        self, body: Body, arguments: Arguments, grid: tuple[int, ...], traced: TracedLaunch
    ) -> Coverage:
        """What the sampled instances touch, and neighbours, along each axis, of one that writes."""
        drawn = [traffic.stores() for traffic in traced.traffic[:_COMPARED]]
        place = next((place for place, written in enumerate(drawn) if written), 0)
        first, at = traced.traffic[place].touched(), _index(self._sampled_programs[place], grid)
        tickets = self._ticket_of(traced, place, len(traced.traffic))
        others: dict[int, list[Touched]] = {}

        def beside(axis: int, step: int) -> Touched:
            index = [*at]
            index[axis] = (at[axis] + step) % grid[axis]
            self._ticket = Ticket(*tickets)
            same = dict(traced.traffic[place].iterations)  # of a long loop the same iterations
            return self._instance(body, arguments, tuple(index), Traffic(iterations=same)).touched()

        for axis, extent in enumerate(grid if first.written else ()):
            if extent > 1:
                found = others[axis] = [beside(axis, step) for step in sorted({1, extent - 1})]
                alike = any(all(reads_the_same(name, first, one) for one in found) for name in first.read)
                if alike and extent > 3:
                    found += [beside(axis, step) for step in farther(extent, self.dice)]
        again = beside(0, 0).written if others else first.written
        moved = {
            name for name in first.written if not np.array_equal(first.written[name], again.get(name, ()))
        }
        return Coverage(grid, drawn, first, others, frozenset(moved))

    def _instance(
        self, body: Body, arguments: Arguments, index: tuple[int, ...], traffic: Traffic
    ) -> Traffic:
        """Model one instance."""
        interpreter.interpreter_builder.set_grid_idx(*index)
        self.traffic = traffic
        try:
            with kernel_errors(), contextlib.suppress(Enough):
                body(**arguments)
        finally:
            self.traffic = None
        return traffic

    def _run_samples(
        self, body: Body, arguments: Arguments, grid: tuple[int, ...], traced: TracedLaunch, count: int
    ) -> None:
        """Model `count` instances and keep their traffic."""
        drawn, steps = self._drawn(grid, count), 0
        self._sampled_programs = drawn
        for place, linear in enumerate(drawn):
            self._ticket = Ticket(*self._ticket_of(traced, place, len(drawn)))
            traffic = self._instance(body, arguments, _index(linear, grid), Traffic())
            traced.traffic.append(traffic)
            steps += traffic.executed
            if steps > SAMPLED_STEPS * len(drawn) // SAMPLED_PROGRAMS:
                break

    def _ticket_of(self, traced: TracedLaunch, place: int, count: int) -> tuple[int, int]:
        """(rank, how many meet) with which the `place`-th of `count` sampled instances arrives at a counter: evenly spread, so
        that of four samples at a counter for four, one is last."""
        meet = self.arrivals.get(traced.function.fn, traced.programs)
        return place * meet // count + self.dice.randrange(max(meet // count, 1)), meet

    def _drawn(self, grid: tuple[int, ...], count: int) -> list[int]:
        """One instance drawn from each of `count` equal parts of the grid, so that no part can hide its work."""
        total = math.prod(grid)
        return [
            self.dice.randrange(part * total // count, max((part + 1) * total // count, 1))
            for part in self.dice.sample(range(count), count)
        ]

    # -- memory and arithmetic, called by Triton's interpreter ------------------------------------------

    def load(self, ptrs: Handle, mask: Handle, other: Handle | None, volatile: bool = False) -> Handle:
        dtype, mask = ptrs.get_element_ty(), handle_of(mask)
        dtype_np = interpreter._get_np_dtype(dtype)
        if self.believing and self.false_hints:
            inside = self.memory.inside(ptrs.data, spread(mask.data, ptrs.data.shape), dtype_np.itemsize)
            mask = interpreter.TensorHandle(inside, tl.int1)
        region = self._touch(ptrs.data, mask.data, dtype_np.itemsize, "read")
        if self.mode == "plan" and self.reads is not None and region is not None:
            self.reads.append((region.keep._cdata, _offsets(ptrs.data, mask.data)))
        if self.mode in ("model", "plan"):
            return interpreter.TensorHandle(self._invent(region, ptrs.data, dtype, dtype_np), dtype)
        if self.uses is not None:
            self.uses.note(region, mask.data, "read")
        if self.mode == "sample":
            self.sampled.reads(region, partial(_offsets, ptrs.data, mask.data), mask.data, dtype_np.itemsize)
        if volatile:
            self._poll(ptrs, mask.data, region)
        if volatile or region is None or region.name in self._storing:
            self._shares()
        if self.measured and region is not None:
            self._note_read(region, _offsets(ptrs.data, mask.data), dtype_np.itemsize)
        if self.watch is not None and self.watch.minds(region):
            self.watch.read(ptrs.data, mask.data, dtype_np.itemsize, volatile)
        fallback = self._undefined_lanes(ptrs.data.shape, dtype, dtype_np) if other is None else other.data
        real = self.memory.translate(ptrs.data, region)
        found = gather(real, mask.data, fallback, dtype_np)
        if self._pipelines and not volatile:
            self._pipelines[-1].load(ptrs.data, mask.data, found)
        if volatile:
            self.updated()
        return interpreter.TensorHandle(found, dtype)

    def _note_read(self, region: Region, offsets: np.ndarray, itemsize: int) -> None:
        if region.keep._cdata not in self.read:
            self.read[region.keep._cdata] = np.zeros(region.size, dtype=bool)
        known, places = self.read[region.keep._cdata], offsets.astype(np.int64)
        if region.size % itemsize or (places % itemsize).any():
            known[places[..., None] + np.arange(itemsize)] = True
        else:  # an element at once
            word = f"V{itemsize}"
            known.view(word)[places // itemsize] = np.ones(itemsize, dtype=bool).view(word)

    def _undefined_lanes(self, shape: tuple[int, ...], dtype: tl.dtype, dtype_np: np.dtype) -> np.ndarray:
        """Contents of masked lanes of a load without `other`, which Triton leaves undefined: NaN or a number drawn per call, for
        integers always a number."""
        if dtype.is_bf16():
            return np.full(
                shape, POISON_BF16 if self.lanes is None else 0x3F80 | self.lanes & 0x7F, dtype=dtype_np
            )
        if dtype_np.kind == "f":
            return np.full(shape, np.nan if self.lanes is None else 1.0 + self.lanes % 97, dtype=dtype_np)
        return np.full(shape, self.garbage, dtype=np.int64).astype(dtype_np)

    def draw_undefined(self, first: bool) -> None:
        """Draw what undefined lanes and operations give in the next call; NaN for lanes if it is the `first`."""
        self.garbage, self._before = self.dice.randrange(3, 1 << 30) | 1, set()
        self._orders.clear()
        self.lanes = None if first or self.dice.random() < 0.5 else self.garbage

    def _invent(
        self, region: Region | None, pointers: np.ndarray, dtype: tl.dtype, dtype_np: np.dtype
    ) -> np.ndarray:
        """What a load gives without memory: numbers like those of an input, so that no kernel can tell. Integers that torch put
        there are known; others are the `guess`, at first 0, which is valid wherever a kernel uses it as an
        index."""
        if dtype_np.kind in "iu" and not dtype.is_bf16():
            known = None if region is None or self.all_zero else self.counted.get(region.keep._cdata)
            if known is not None:
                first, width, standing = known
                place = (pointers & REACH).astype(np.int64) - first
                return standing(place // width).astype(dtype_np)
            if self.traffic is not None and dtype_np.itemsize > 1:  # neither booleans nor bytes
                self.traffic.invented = True
        if dtype_np.kind in "iub" and not dtype.is_bf16():
            if self.traffic is not None:
                self.traffic.guessed = True
            return np.full(pointers.shape, self.guess, dtype=dtype_np)
        if self.all_zero:
            return np.zeros(pointers.shape, dtype=dtype_np)
        start = self.dice.randrange(_INVENTED.size // 2)
        data = np.resize(_INVENTED[start : start + pointers.size], pointers.shape)
        return to_bf16(data) if dtype.is_bf16() else data.astype(dtype_np)

    def store(self, ptrs: Handle, value: Handle, mask: Handle) -> None:
        itemsize, mask = interpreter._get_np_dtype(ptrs.get_element_ty()).itemsize, handle_of(mask)
        region = self._touch(ptrs.data, mask.data, itemsize, "write")
        if self.uses is not None:
            self.uses.note(region, mask.data, "store")
        if self.mode == "sample":
            self.sampled.writes(region, partial(_offsets, ptrs.data, mask.data), itemsize)
        if self.mode == "plan" and self.writes is not None and region is not None:
            self.writes.append((region.keep._cdata, _offsets(ptrs.data, mask.data)))
        self._forget(region)
        if self.mode not in ("model", "plan"):
            self.memory.note_stores(ptrs.data, mask.data, region)
            if self.marks is not None:
                self.marks.store(self.memory, ptrs.data, mask.data, itemsize)
            if self._pipelines:
                self._pipelines[-1].store(ptrs.data, mask.data)
            if self._together is not None:
                self._together.did()
            real = self.memory.translate(ptrs.data, region)
            self._storing.update([region.name] if region is not None else self.memory.names())
            if self.watch is not None:
                _one_value_each(region, ptrs.data, value.data, mask.data)
                changed = partial(_changes, ptrs, real, value, mask.data)
                self.watch.write(ptrs.data, mask.data, itemsize, changed)
            interpreter._interpreter.store(real, value.data, mask.data)

    def real_pointers(self, ptrs: Handle, mask: np.ndarray, sem: object, scope: object) -> Handle | None:
        """For atomics: checked real pointers, or None if there is no memory."""
        itemsize = interpreter._get_np_dtype(ptrs.get_element_ty()).itemsize
        region = self._touch(ptrs.data, mask, itemsize, "atomic access")
        if self.mode == "sample":
            self.sampled.adds(region, partial(_offsets, ptrs.data, mask), itemsize)
        if self.mode == "plan" and self.writes is not None and region is not None:
            self.writes.append((region.keep._cdata, _offsets(ptrs.data, mask)))
        self._forget(region)
        if self.mode in ("model", "plan"):
            return None
        if self.uses is not None:
            self.uses.note(region, mask, "update")
        self._poll(ptrs, mask, region)
        self._shares()
        self.atomics = self._has_updated = True
        self.memory.note_stores(ptrs.data, mask, region)
        if self.marks is not None:
            self.marks.store(self.memory, ptrs.data, mask, itemsize)
        self._storing.update([region.name] if region is not None else self.memory.names())
        if self.watch is not None:
            narrow = "CTA" in str(scope)
            self.watch.atomic(ptrs.data, mask, itemsize, str(sem).rpartition(".")[2], narrow)
        return interpreter.TensorHandle(self.memory.translate(ptrs.data, region), ptrs.dtype)

    def _forget(self, region: Region | None) -> None:
        """Numbers that torch put into a region are no longer known."""
        if region is not None:
            self.counted.pop(region.keep._cdata, None)

    def _touch(self, pointers: np.ndarray, mask: np.ndarray, itemsize: int, what: str) -> Region | None:
        mask = spread(mask, pointers.shape)
        if self.mode == "plan":
            self.planned_steps += 1
            if self.planned_steps > (THOROUGH_STEPS if self.thorough else PLANNED_STEPS):
                raise Unsure("more steps than are planned")
            made = self.instances.making
            if made is not None and made.kept_bytes > _KEPT_BYTES:
                raise Unsure("more numbers than are kept of what is planned")
        try:
            region = self.memory.check(pointers, mask, itemsize, what)
        except OutOfBounds as error:
            if self.mode != "plan" and not (self.mode == "model" and self._at[0] in self.straying):
                raise
            self._strays.append((self.planned_steps, error))  # perhaps due to invented values
            region = self.memory.nearest(pointers, mask)
        if (
            not self._awaited
            and self.mode == "execute"
            and region is not None
            and region.keep._cdata in self._before
        ):
            raise Race(
                f"`{region.name}` is touched before `gdc_wait` by a kernel that is launched early: an earlier one writes to it"
            )
        if self.traffic is not None:
            self.traffic.access(region, pointers, mask, itemsize, what)
            if self.mode == "model" and self.traffic.executed >= MODEL_STEPS:
                raise Enough
        return region

    def iterate(self, values: range, stages: int = 0) -> Iterator[int]:
        """A kernel's loop, with `stages` if it names a number. When a long one is modelled, one iteration is drawn from each of
        a few equal parts."""
        if len(values) >= _SEVERAL:
            self._note(ROUNDS)
        if len(values) >= _LONG and self.mode in ("execute", "model"):
            known = self.executed_rounds if self.mode == "execute" else self.modelled_rounds
            at = self._at[0], deciding_line()
            known[at] = max(known.get(at, 0), len(values))
        for outer in self._pipelines:
            outer.whole = False  # only the innermost is pipelined
        if self.mode == "execute" and (stages or self._stages) > 1:
            yield from self._pipeline(values, Pipeline(stages or self._stages, all=stages > 1))
            return
        traffic = self.traffic
        middle = len(values) - LOOP_HEAD - LOOP_TAIL
        if traffic is None or self.mode == "execute" or middle <= LOOP_SAMPLED:
            yield from self._rounds(values, lambda: None)
            return
        yield from values[:LOOP_HEAD]
        parts = [LOOP_HEAD + middle * end // LOOP_SAMPLED for end in range(LOOP_SAMPLED + 1)]
        drawn = traffic.iterations.get(values)
        if drawn is None:
            drawn = [self.dice.randrange(low, high) for low, high in itertools.pairwise(parts)]
            traffic.iterations[values] = drawn
        for place, (low, high) in zip(drawn, itertools.pairwise(parts), strict=True):
            before = traffic.totals()
            yield values[place]
            traffic.extrapolate(before, high - low - 1)
        yield from values[-LOOP_TAIL:]

    def longer(self, kernel: str) -> bool:
        """Whether a loop of a kernel has more rounds in modelled calls than in any executed one, or none of its loops was
        modelled."""
        known = {at: rounds for at, rounds in self.modelled_rounds.items() if at[0] == kernel}
        return not known or any(rounds > self.executed_rounds.get(at, 0) for at, rounds in known.items())

    def _pipeline(self, values: range, loop: Pipeline) -> Iterator[int]:
        """The rounds of a loop whose loads are fetched ahead. Raises Race."""
        self._pipelines.append(loop)
        try:
            yield from self._rounds(values, loop.start_round)
            loop.end()
        finally:
            self._pipelines.remove(loop)

    def _rounds(self, values: range, each: Callable[[], None]) -> Iterator[int]:
        """All rounds of a loop, with `each` called before each. While recording, rounds that repeat the one before are run here
        (`rounds.py`)."""
        making, loop = self.instances.making, None
        if making is not None:
            if making.rounds is not None:
                making.rounds.lose()  # the enclosing loop
            if (
                self.traffic is None
                and not self.following
                and len(values) >= FEWEST
                and _is_known_loop(asking_frame())
            ):
                loop = Rounds(making, values)
        place = 0
        try:
            while place < len(values):
                each()
                yield values[place] if loop is None else loop.begin(place)
                if loop is not None:
                    place += loop.follow(place, asking_frame(), each)
                place += 1
        finally:
            if making is not None:
                making.rounds = None

    def multiply(self, a: Handle, b: Handle) -> None:
        """A product of blocks, which acts as a barrier for the running instance's lanes."""
        if self._pipelines:
            self._pipelines[-1].multiply(a.data, b.data)
        self.barrier()

    def await_earlier(self) -> None:
        """The running instance waits for all earlier launches."""
        self._awaited = True

    def meet(self) -> None:
        """A barrier in the kernel."""
        if self._pipelines:
            self._pipelines[-1].whole = False
        self.barrier()

    def undefine(self, made: Handle, where: np.ndarray) -> Handle:
        """An integer result with arbitrary values where the language leaves it undefined."""
        if made.data.dtype.kind not in "iu" or not where.any():
            return made
        data = np.where(where, np.int64(self.garbage).astype(made.data.dtype), made.data)
        return interpreter.TensorHandle(data, made.dtype)

    def promise(self, kind: hints.Kind, units: Sequence[int], handle: Handle) -> Handle:
        """A hint to the compiler: recorded if false, or taken at its word. Raises AssertionError if it is false of a single
        number."""
        if handle.dtype.is_ptr() and (handle.data.size > 1 or kind != "divisibility"):
            return handle
        made = hints.as_promised(kind, units, handle.data)
        if made is handle.data:
            return handle
        if handle.data.size == 1:
            raise AssertionError(
                f"tl.{hints.NAMES[kind]} promises a multiple of {units[0]}, and the value is {handle.data.item()}"
                if not handle.dtype.is_ptr()
                else f"tl.{hints.NAMES[kind]} promises a multiple of {units[0]} bytes, and the address is none"
            )
        self.false_hints = True
        return interpreter.TensorHandle(made, handle.dtype) if self.believing else handle

    def barrier(self) -> None:
        """The lanes of the running instance meet."""
        if self.watch is not None:
            self.watch.barrier()

    def serving(self, lanes: int) -> np.ndarray:
        """The order in which an atomic operation serves the lanes of a block: undefined, so drawn per call."""
        if lanes not in self._orders:
            self._orders[lanes] = np.random.default_rng(self.dice.getrandbits(64)).permutation(lanes)
        return self._orders[lanes]

    def found_by(self, op: object, ptr: Handle, val: Handle) -> np.ndarray:
        """What an atomic update finds without memory: for a counter, the tickets drawn before."""
        counts = "ADD" in str(op) and val.data.dtype.kind in "iu" and val.data.size == 1
        if not counts or self.mode != "model" or self.all_zero:
            return np.zeros_like(val.data)
        if not val.data.any():  # a read that changes nothing
            if self.traffic is not None:
                self.traffic.guessed = True
            ticket = self._ticket.arrivals(int(ptr.data.reshape(-1)[0]))
            return np.full_like(val.data, ticket if self.guess else 0)
        return val.data * val.data.dtype.type(self._ticket.next(int(ptr.data.reshape(-1)[0])))

    def count(self, unit: str, operations: float) -> None:
        self.flops += operations
        self.units.add(unit)
        if self.traffic is not None:
            self.traffic.compute(unit, operations)

    def deciding(self, own: patches.Decision) -> patches.Decision:
        """`own`, the conversion by which a kernel's decisions are read, with a record of each decision."""

        def decide(tensor: tl.tensor) -> object:
            found = own(tensor)
            if self.mode == "execute":
                self.seen.add((self._at[0], deciding_line(), outcome_of(found)))
            return found

        decide.__wrapped__ = own  # type: ignore[attr-defined]
        return decide

    def rounds(self, whole: np.ndarray, made: np.ndarray) -> None:
        """Record if lanes' integers lose digits as floats, as indices may when there are many."""
        if whole.size < 2:
            return
        if int(whole.max()) >> np.finfo(made.dtype).nmant + 1 and (made.astype(whole.dtype) != whole).any():
            self._note(ROUNDED)

    def _note(self, what: str) -> None:
        """Record something at the current line of the kernel."""
        if self.mode in ("execute", "plan"):
            noted = self.seen if self.mode == "execute" else self._noted
            noted.add((self._at[0], deciding_line(), what))

    # -- autotuning -----------------------------------------------------------------------------------------

    def bench(self, call: Callable[[], object]) -> float:
        """Modelled milliseconds of one configuration, without executing it: infinite for one that a tuner leaves out, and larger
        than any other for one that strays, which a tuner does not notice."""
        mode, launches, flops = self.mode, self.launches, self.flops
        self.mode, self.launches, self.benching = "model", [], True
        try:
            call()
            return sum(self.price(launch) for launch in self.launches)
        except OutOfBounds:
            return sys.float_info.max
        except (KernelError, Unsupported):
            return math.inf
        finally:
            self.mode, self.launches, self.flops, self.benching = mode, launches, flops, False

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """`install`, restored on exit."""
        self.install()
        try:
            yield
        finally:
            self.uninstall()

    def uninstall(self) -> None:
        """Restore Triton's language for its compiler. Does nothing if nothing is installed."""
        while self._restore:
            self._restore.pop()()

    def install(self) -> None:
        """Send launches, device-function calls, memory and autotuning to this engine. Does nothing if installed."""
        if not self._restore:
            self._restore.append(patches.install(self))


def _index(linear: int, grid: tuple[int, ...]) -> tuple[int, int, int]:
    """An instance's place in the grid; the first dimension runs fastest, as on a GPU."""
    return linear % grid[0], linear // grid[0] % grid[1], linear // (grid[0] * grid[1])


def _is_known_loop(frame: types.FrameType) -> bool:
    """Whether the frame is a kernel's, at a loop whose variable Python uses in a known way."""
    return frame.f_lineno in LINEAR.get(frame.f_code, ())


def _cut_off(launch: TracedLaunch) -> bool:
    """Whether an instance took more steps than are modelled."""
    return any(traffic.executed >= MODEL_STEPS for traffic in launch.traffic)


def declared_constants(launch: TracedLaunch) -> dict[str, object]:
    """A kernel's constexpr arguments, as its source declares them."""
    named = {parameter.name for parameter in launch.function.params if parameter.is_constexpr}
    return {str(name): value for name, value in launch.constexprs.items() if name in named}


def _width(handle: Handle) -> int:
    """Bytes of the elements that pointers of a handle point to."""
    return int(interpreter._get_np_dtype(handle.get_element_ty()).itemsize)


def _offsets(pointers: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Byte offsets of unmasked pointers in their regions."""
    active: np.ndarray = pointers[spread(mask, pointers.shape)]
    return active & REACH


def handle_of(mask: Handle) -> object:
    """A mask as Triton's handle: descriptors and block pointers of Triton 3.6 pass the bare array."""
    return interpreter.TensorHandle(mask, tl.int1) if isinstance(mask, np.ndarray) else mask


def _one_value_each(
    region: Region | None, pointers: np.ndarray, values: np.ndarray, mask: np.ndarray
) -> None:
    """Lanes of one store that write to the same place must store equal values. Raises Race."""
    lanes = spread(mask, pointers.shape)
    addresses = pointers[lanes]
    if addresses.size < 2:
        return
    order = np.argsort(addresses, kind="stable")
    same = np.flatnonzero(addresses[order][1:] == addresses[order][:-1])
    if not same.size:
        return
    bits = np.ascontiguousarray(np.broadcast_to(values, pointers.shape)[lanes][order])
    bits = bits.view(f"u{bits.dtype.itemsize}")
    if (bits[same] != bits[same + 1]).any():
        name = region.name if region is not None else "memory"
        raise Race(f"two lanes of one store write different values to one element of `{name}`")


def _changes(ptrs: Handle, real: np.ndarray, value: Handle, mask: np.ndarray) -> np.ndarray:
    """Mask, over unmasked lanes of a store, of those that change memory, bit for bit."""
    mask = np.ascontiguousarray(np.broadcast_to(mask, real.shape))
    dtype = interpreter._get_np_dtype(ptrs.get_element_ty())
    there = gather(real, mask, np.zeros(real.shape, dtype), dtype)
    new = np.broadcast_to(value.data, real.shape).astype(dtype, copy=False)
    bits = np.dtype(f"u{dtype.itemsize}")
    changed: np.ndarray = there[mask].view(bits) != new[mask].view(bits)
    return changed


_INVENTED = np.random.default_rng(0).standard_normal(1 << 14).astype(np.float32)
_TYPES = {
    torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.float64: "fp64",
    torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8",
    torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64", torch.bool: "i1",
    torch.float8_e4m3fn: "fp8e4nv", torch.float8_e5m2: "fp8e5",
}  # fmt: skip
