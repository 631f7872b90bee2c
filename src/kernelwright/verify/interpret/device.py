"""The simulated device: Triton's interpreter replays tapes on CPU memory, or prices them without any memory.

Commands: open (constants and weights of one shape); weights (change them in place); run (one call); model (traffic and
assembler text of every launch at full size); sample and follow (programs at full size); exact (exact arithmetic).
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from kernelwright.errors import InfrastructureError
from kernelwright.hardware import Target
from kernelwright.outcomes import Outcome
from kernelwright.verify.cost import crosscompile
from kernelwright.verify.cost import model as cost
from kernelwright.verify.interpret import flow
from kernelwright.verify.interpret.demand import Demand
from kernelwright.verify.interpret.endings import KernelError, Stuck, Unpriced, Unsupported
from kernelwright.verify.interpret.full_size import Fold, Sampled, Unsure
from kernelwright.verify.interpret.interpreter import Engine, Seen, TracedLaunch, declared_constants
from kernelwright.verify.interpret.marks import Marks
from kernelwright.verify.interpret.memory import (
    ADDRESSED,
    COUNTS,
    MOST_ADDRESSED,
    REGION_BITS,
    SECTOR_BYTES,
    OutOfBounds,
)
from kernelwright.verify.interpret.races import Race
from kernelwright.verify.interpret.slices import union
from kernelwright.verify.interpret.together import polls
from kernelwright.verify.messages import IN_A_KERNEL, ROUNDED, ROUNDS, Run
from kernelwright.verify.repeats import Repeats
from kernelwright.verify.sandbox import channel
from kernelwright.verify.sandbox.service import Failure, Service
from kernelwright.verify.trace.kernels import Kernels, NotAKernel
from kernelwright.verify.trace.replay import Candidate, Session
from kernelwright.verify.trace.tape import Launch, Operation, TapeError, View

_MOST_OUTPUTS = 8
"""The most outputs of a call that are traced back to its inputs one by one."""


def summarise(launch: TracedLaunch) -> cost.Work:
    """The sampled instances of a launch, averaged."""
    count = max(len(launch.traffic), 1)
    unique: dict[str, float] = {}
    flops: dict[str, float] = {}
    loaded: dict[str, float] = {}
    stored: dict[str, float] = {}
    for traffic in launch.traffic:
        for name, sectors in traffic.unique_sectors().items():
            unique[name] = unique.get(name, 0.0) + sectors * SECTOR_BYTES / count
        for into, amounts in ((flops, traffic.flops), (loaded, traffic.loaded), (stored, traffic.stored)):
            for name, amount in amounts.items():
                into[name] = into.get(name, 0.0) + amount / count
    return cost.Work(
        kernel=launch.function.__name__,
        programs=launch.programs,
        num_warps=int(launch.options.get("num_warps", 4)),
        num_stages=int(launch.options.get("num_stages", 3)),
        unique_bytes=unique,
        sizes=launch.sizes,
        flops=flops,
        **{name: sum(getattr(traffic, name) for traffic in launch.traffic) / count for name in COUNTS},
        loaded_bytes=loaded,
        stored_bytes=stored,
    )


class InterpretedSession(Session):
    """Sends launches to the interpreter; tuning picks the configuration with the lowest modelled price, or another one."""

    def __init__(
        self, device: str, kernels: Kernels, engine: Engine, prices: dict[object, list[float]]
    ) -> None:
        """`prices`: prices of configurations by what is tuned, shared between sessions."""
        super().__init__(device, kernels)
        self.engine, self.prices = engine, prices
        self.tuned: list[tuple[int, Any]] = []
        """Tuned launches: their index among the engine's launches, and the key of their prices."""
        self.configuration = 0
        """See `Run.configuration`."""
        self.configurations = 1
        """The most configurations that any tuned launch had."""
        self.tuning = False
        """Whether tuned launches are tried before they are launched, as at a first call."""
        self.addresses: dict[int, tuple[torch.UntypedStorage, set[int]]] = {}
        """By storage (`_cdata`) that holds addresses: the storage, and the numbers of storages that they point to."""

    def step(self, operation: Operation, place: int) -> None:
        if self.tuning and operation.kind == "launch":
            self._try(operation)
        super().step(operation, place)
        if operation.kind == "copy" and self.engine.marks is not None:
            target, source = operation.fields["target"], operation.fields["source"]
            storages = self.storages[target.storage], self.storages[source.storage]
            self.engine.marks.copy(target, storages[0], source, storages[1])
        if operation.kind == "copy":
            self._copies(operation.fields["target"], operation.fields["source"])
        if operation.kind in ("arange", "numbers"):
            self._knows(operation.fields)

    def _knows(self, fields: dict[str, Any]) -> None:
        """Keep the integers that torch put into a tensor, for use where there is no memory."""
        view = fields["view"]
        storage = self.storages[view.storage]
        first = view.offset * view.itemsize
        if "step" in fields:
            start, by = fields["start"], fields["step"]
            self.engine.counted[storage._cdata] = first, view.itemsize, lambda place: start + place * by
            return
        told = self.numbers(fields).reshape(-1).numpy()
        # Masked lanes may point anywhere.
        standing = partial(told.take, mode="clip")
        self.engine.counted[storage._cdata] = first, view.itemsize, standing
        if there := {one.storage for one in fields["values"] if isinstance(one, View)}:
            self.addresses[storage._cdata] = storage, there

    def _copies(self, target: View, source: View) -> None:
        """Torch copies a tensor: what is known of its contents holds for the copy."""
        to, origin = self.storages[target.storage], self.storages[source.storage]
        if origin._cdata in self.addresses:
            self.addresses[to._cdata] = to, self.addresses[origin._cdata][1]
        known = self.engine.counted.get(origin._cdata)
        alike = dataclasses.replace(target, storage=0) == dataclasses.replace(source, storage=0)
        if known is not None and alike:
            self.engine.counted[to._cdata] = known

    def address(self, view: View) -> int:
        """A number that the engine resolves to the tensor when it becomes a pointer."""
        if view.storage >= MOST_ADDRESSED:
            raise TapeError("too many tensors for their addresses")
        return (ADDRESSED + view.storage << REGION_BITS) + view.offset * view.itemsize

    def launch(self, kernel: object, launches: list[Launch], place: int) -> None:
        if len(launches) == 1:
            self._launch(kernel, launches[0])
            return
        options = str([sorted(item.options.items()) for item in launches])
        key = launches[0].kernel, options, str([item.grid for item in launches])
        if key not in self.prices:
            self.prices[key] = [self.engine.bench(partial(self._launch, kernel, item)) for item in launches]
        prices = self.prices[key]
        usable = [number for number, price in enumerate(prices) if price < math.inf] or [0]
        best, before = prices.index(min(prices)), len(self.engine.launches)
        self.configurations = max(self.configurations, len(usable))
        if self.configuration % len(usable) == 0:
            self.tuned.append((before, key))
            self._launch(kernel, launches[best])
            return
        others = [number for number in usable if number != best]
        self._launch(kernel, launches[others[self.configuration % len(usable) - 1]])
        del self.engine.launches[before:]  # only the priced configuration is compiled

    def _try(self, operation: Operation) -> None:
        """Launch a tuner's first trial, then restore the arguments that the tuner restores."""
        first, *others = operation.fields["launches"]
        restored, before = operation.fields["restored"], len(self.engine.launches)
        if not others or restored is None:
            return
        tensors = [self.tensor(view) for name, view in first.views if name in restored]
        were = [tensor.clone() for tensor in tensors]
        self._launch(self.kernels[first.kernel], first)
        for tensor, was in zip(tensors, were, strict=True):
            tensor.copy_(was)
        del self.engine.launches[before:]

    def _launch(self, kernel: object, launch: Launch) -> None:
        arguments = {name: self.argument(value) for name, value in launch.arguments.items()}
        self.engine.addresses = {
            table: {number: self.storages[number] for number in there}
            for table, (_, there) in self.addresses.items()
        }
        self.engine.launch(kernel, launch.grid, (), {**arguments, **launch.options})


def _identity(launch: TracedLaunch) -> str:
    """Identity of a specialisation: equal ones have the same binary."""
    name = launch.function.fn.__qualname__
    return f"{name}|{launch.signature}|{launch.constexprs}|{launch.options}|{launch.divisible}"


class InterpretDevice(Service):
    """One candidate's kernels and memory."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.engine = Engine(lambda launch: cost.price(summarise(launch), target).ms)
        self.kernels = Kernels([])
        self.candidates: dict[str, Candidate] = {}
        self.sessions: dict[str, InterpretedSession] = {}
        self._state: dict[str, dict[str, torch.Tensor]] = {}
        """Weights as given, by shape."""
        self._prices: dict[Any, list[float]] = {}
        self._assembled: dict[str, dict[str, object]] = {}
        self._compiled: set[str] = set()
        self._played: set[str] = set()
        """Shapes of which a call was already run."""
        self._built: dict[str, Any] = {}
        self._large: dict[object, list[dict[str, object]]] = {}
        """By kernel, the constants of its launches at full size, in order."""

    def answer(
        self, body: dict[str, Any], tensors: list[torch.Tensor], outputs: list[torch.Tensor]
    ) -> dict[str, Any]:
        command = body["command"]
        with self._forgeries():
            if command == "open":
                return self.open(body["key"], body["trace"], channel.decode(body["state"], tensors), tensors)
            if command == "weights":
                return self.reweigh(body["key"], channel.decode(body["state"], tensors), body["trained"])
            if command == "run":
                return self.run(Run.read(body), tensors, outputs)
            if command == "model":
                return self.model(body["trace"], body["compile"], body["samples"])
            if command == "sample":
                return self.sampled(body["trace"], body["names"], tensors, body["repeats"], outputs)
            if command == "follow":
                return self.follow(body["trace"], body["kernels"])
            if command == "exact":
                return self.exact(body, tensors, outputs)
        raise ValueError(f"unknown command {command!r}")

    @contextlib.contextmanager
    def _forgeries(self) -> Iterator[None]:
        """Any exception of our code on a candidate's trace or kernel becomes the candidate's failure, never the judge's."""
        try:
            yield
        except (Failure, MemoryError):
            raise
        except InfrastructureError as error:
            raise Failure(Outcome.INFRASTRUCTURE_ERROR, str(error)) from None
        except NotAKernel as error:
            raise Failure(Outcome.COMPILE_ERROR, str(error)) from None
        except (TapeError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise Failure(Outcome.MALFORMED_RESULT, f"not a trace: {type(error).__name__}: {error}") from None
        except Exception as error:
            raise Failure(Outcome.RUNTIME_ERROR, f"{type(error).__name__}: {error}") from None

    def open(
        self, key: str, trace: dict[str, Any], state: dict[str, torch.Tensor], tensors: list[torch.Tensor]
    ) -> dict[str, Any]:
        """Allocate memory for one shape, with the given constants and the reference's weights."""
        self.kernels = Kernels(trace["kernels"], self._built)
        candidate = self.candidates[key] = Candidate(trace, tensors)
        session = InterpretedSession("cpu", self.kernels, self.engine, self._prices)
        for storage, size, blob in candidate.constants:
            memory = session.provide(storage, size)
            if blob >= 0:
                memory.copy_(tensors[blob].view(torch.uint8).reshape(-1)[:size])
        for name, view in candidate.state.items():
            session.tensor(view).copy_(state[name])
        self.sessions[key] = session
        self._state[key] = {name: session.tensor(view).clone() for name, view in candidate.state.items()}
        return {}

    def reweigh(self, key: str, state: dict[str, torch.Tensor], trained: bool) -> dict[str, object]:
        """Change some weights of a shape in place; what earlier calls made of the old ones stays. Does nothing (`laid_out`) if
        that is only another layout of them and weights are not `trained`: a user can then lay them out again."""
        session, views = self.sessions[key], self.candidates[key].state
        if not trained and self._laid_out(key):
            return {"laid_out": True}
        for name, value in state.items():
            session.tensor(views[name]).copy_(value)
            self._state[key][name] = session.tensor(views[name]).clone()
        return {"laid_out": False}

    def _laid_out(self, key: str) -> bool:
        """Whether all memory that the steady call keeps, apart from weights and inputs, holds values of weights."""
        candidate, session = self.candidates[key], self.sessions[key]
        given = {view.storage for view in (*candidate.inputs[-1], *candidate.state.values())}
        values = [tensor.reshape(-1).double() for tensor in self._state[key].values()]
        known = torch.cat([*values, torch.zeros(1, dtype=torch.float64)])
        for launch in candidate.steady.launches():
            for _, view in launch.views:
                if view.storage in given or view.storage not in candidate.steady.foreign:
                    continue
                held = session.tensor(view).reshape(-1)
                if not bool(torch.isin(held.double(), known.to(held.dtype).double()).all()):
                    return False
        return True

    def run(self, play: Run, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> dict[str, Any]:
        """One call on real inputs. Returns the outputs, followed by what `play.after` names, and the inputs (indices) and weights
        (names) that changed or that a kernel stored to."""
        key = play.key
        candidate, session = self.candidates[key], self.sessions[key]
        tape, views = candidate.tapes[play.call], candidate.inputs[play.call]
        session.ablated, session.configuration, session.configurations = play.ablate, play.configuration, 1
        session.tuning = play.tuning
        self._begin(play)
        for view, tensor in zip(views, inputs, strict=True):
            session.bind(view, tensor)
        places: dict[int | str, View] = dict(enumerate(views))
        places.update(candidate.state)
        for name in play.after:
            if isinstance(name, str) and name in places:  # each call starts with the reference's statistics
                session.tensor(places[name]).copy_(self._state[key][name])
        self.engine.marks = marks = Marks() if play.marks else None
        with self._failures(), self._enlarging(play.enlarged) as met:
            try:
                session.play(tape)
            finally:
                self.engine.marks, self.engine.believing, self.engine.contracting = None, False, False
                self.engine.measured, self.engine.following, self.engine.rounding = 0, False, False
        self._compiles(self.engine.launches)
        changed = [
            index
            for index, (view, tensor) in enumerate(zip(views, inputs, strict=True))
            if channel.tensor_bytes(session.tensor(view)) != channel.tensor_bytes(tensor)
        ]
        state = [
            name
            for name, view in candidate.state.items()
            if channel.tensor_bytes(session.tensor(view)) != channel.tensor_bytes(self._state[key][name])
        ]
        outputs.extend(session.tensor(view) for view in tape.outputs())
        outputs.extend(session.tensor(places[name]) for name in play.after if name in places)
        outputs.extend(session.tensor(tape.operations[place].fields["target"]) for place in play.copies)
        if marks is not None:
            outputs.extend(marks.of(view, session.storages[view.storage]) for view in tape.outputs())

        def stored(view: View) -> bool:
            return session.storages[view.storage]._cdata in self.engine.stored

        return {
            "stored": [name for name, view in places.items() if stored(view)],
            "met": [_as_text(item) for item in met | self.engine.seen] if play.met else [],
            "after": [name for name in play.after if name in places],
            "changed": changed,
            "state_changed": state,
            "flops": self.engine.flops,
            "units": sorted(self.engine.units),
            "configurations": session.configurations,
            "false_hints": self.engine.false_hints,
            "crossed": self.engine.crossed,
            "atomics": self.engine.atomics,
            "interruptible": len(self.engine.interruptible) > 1,
            "together": sorted(self.engine.together),
            "launches": [describe(launch) for launch in self.engine.launches] if play.measured else [],
            "read": [self._share_loaded(session, view) for view in views] if play.measured else [],
        }

    def _share_loaded(self, session: InterpretedSession, view: View) -> float:
        """The share of a tensor's bytes that a call with measured instances loaded."""
        known = self.engine.read.get(session.storages[view.storage]._cdata)
        part = () if known is None else known[view.offset * view.itemsize : view.end]
        return float(np.mean(part)) if len(part) else 0.0

    @contextlib.contextmanager
    def _enlarging(self, enlarged: bool) -> Iterator[set[Seen]]:
        """If `enlarged`, launch with the constants of the full size and record apart what is met: it may be wrong. Yields it."""
        seen = self.engine.seen
        if enlarged:
            self.engine.enlarged, self.engine.seen = dict(self._large), set()
        try:
            yield self.engine.seen
        finally:
            self.engine.enlarged, self.engine.seen = {}, seen

    def _begin(self, play: Run) -> None:
        """Set the engine up for a call."""
        self.engine.mode, self.engine.launches, self.engine.races = "execute", [], play.races
        self.engine.measured = play.measured
        self.engine.stored.clear()
        self.engine.read.clear()
        self.engine.flops = 0.0
        self.engine.draw_undefined(first=play.key not in self._played)
        self._played.add(play.key)
        self.engine.units.clear()
        self.engine.false_hints, self.engine.believing = False, play.believing
        self.engine.crossed, self.engine.following = False, play.following
        self.engine.rounding = play.rounding
        self.engine.brackets, self.engine.atomics = play.brackets, False
        self.engine.switching = play.switching
        self.engine.interruptible.clear()
        self.engine.contracting = bool(play.brackets % 2)  # in every second case, whichever

    def model(self, trace: dict[str, Any], depth: str, samples: int) -> dict[str, object]:
        """Play the steady call without memory. Returns launches with their work, compiled as far as `depth` says: to "assembly"
        (with its text), to "ir", or not at all ("")."""
        candidate = Candidate(trace)
        kernels = Kernels(trace["kernels"], self._built)
        session = InterpretedSession("meta", kernels, self.engine, self._prices)
        sizes = {storage: size for storage, size, _ in candidate.constants}
        for tape, views in zip(candidate.tapes, candidate.inputs, strict=True):
            sizes |= {view.storage: view.end for view in views} | tape.foreign
            sizes |= {
                op.fields["storage"]: op.fields["bytes"] for op in tape.operations if op.kind == "alloc"
            }
        for storage, size in sizes.items():
            session.provide(storage, size)
        self.engine.mode, self.engine.samples = "model", samples
        while True:
            with self._failures():
                try:
                    self._play_steady(session, candidate)
                except OutOfBounds:
                    # Addresses made of invented numbers prove nothing: only what also strays for zeros counts.
                    self.engine.all_zero = True
                    try:
                        self._play_steady(session, candidate)
                    except OutOfBounds as error:
                        self._by_values_alone(session, candidate, error)
                    finally:
                        self.engine.all_zero = False
            launches = list(self.engine.launches)
            if depth == "ir":
                self._compiles(launches)
            assemblies = self._assemblies(launches) if depth == "assembly" else {}
            if not self._too_large(session, launches, assemblies):
                break
        return {
            "launches": [describe(launch) for launch in launches],
            "assemblies": list(assemblies.values()),
        }

    def _by_values_alone(self, session: InterpretedSession, candidate: Candidate, stray: OutOfBounds) -> None:
        """Model the steady call though it strays with invented values of both kinds. Raises `stray` unless plans of all programs of
        that kernel show that only loaded values decide where they stray."""
        engine = self.engine
        engine.all_zero = False
        try:
            self._plan(session, candidate, Sampled())
        except Unsure:
            raise stray from None
        doubtful = {launch.name for launch in engine.planned if not launch.inside}
        engine.mode, engine.straying = "model", {launch.name for launch in engine.planned} - doubtful
        try:
            self._play_steady(session, candidate)
        finally:
            engine.straying = ()

    def _too_large(
        self, session: InterpretedSession, launches: list[TracedLaunch], assemblies: dict[str, dict[str, Any]]
    ) -> bool:
        """Whether tuning chose a configuration that does not fit the GPU, which Triton's tuner never does. It is then excluded,
        if there is another."""
        found = False
        for number, key in session.tuned:
            made = assemblies.get(_identity(launches[number])) if number < len(launches) else None
            prices = self._prices[key]
            others = sorted(prices)[1]
            if made and made["shared_bytes"] > self.target.shared_per_block and others < math.inf:
                prices[prices.index(min(prices))] = math.inf
                found = True
        return found

    def sampled(
        self,
        trace: dict[str, Any],
        names: list[str],
        periods: list[torch.Tensor],
        repeats: list[list[list[int] | None]],
        outputs: list[torch.Tensor],
    ) -> dict[str, Any]:
        """Run a few programs of the steady call on inputs that repeat. Returns values and places stored to each output, and
        how much of inputs and outputs all programs touch.

        `periods`: one period of each input, then of each weight in `names`, then numbers for what is not asked of each; without any,
        nothing is run. `repeats`: how each axis of these, and then of each output, repeats (`Repeats`), None if it does not. `cut` in
        the answer: kernels that were not planned completely.
        """
        candidate = Candidate(trace)
        session = InterpretedSession(
            "meta", Kernels(trace["kernels"], self._built), self.engine, self._prices
        )
        sampled = self.engine.sampled = Sampled()
        given = [*candidate.inputs[-1], *(candidate.state.get(name) for name in names)]
        known = {view.storage: view.end for view in given if view is not None}
        sizes = {storage: size for storage, size, _ in candidate.constants} | candidate.steady.foreign | known
        for storage, size in sizes.items():
            session.provide(storage, size)
        answer: dict[str, object] = {}
        try:
            with self._failures():
                self._plan(session, candidate, sampled)
                answer |= self._extent(session, candidate)
        except Failure as error:
            stray = error.__cause__
            if error.outcome is Outcome.INFRASTRUCTURE_ERROR or (
                isinstance(stray, OutOfBounds) and stray.certain
            ):
                raise
            return {"new": [f"what cannot be planned ({error})"[:300]], "unsure": str(error)[:200]}
        try:
            with self._failures():
                drawn = [[Repeats(*axis) if axis else None for axis in axes] for axes in repeats]
                if periods:
                    self._fold(session, sampled, given, periods, drawn)
                    answer["again"] = self._run_slice(session, candidate, sampled, drawn[len(given) :])
        except (Unsure, Failure) as error:
            if isinstance(error, Failure) and error.outcome is Outcome.OUT_OF_BOUNDS:
                raise  # the values were real
            return {**answer, "unsure": str(error)[:200]}
        written = []
        for number, view in enumerate(candidate.steady.outputs()):
            stored = sampled.stored(session.storages[view.storage]._cdata, view)
            if stored is not None and periods:
                written.append(number)
                outputs.extend(stored)
        compared = {str(number): dataclasses.asdict(one) for number, one in sampled.compared_to.items()}
        return {**answer, "written": written, "compared": compared}

    @staticmethod
    def _fold(
        session: InterpretedSession,
        sampled: Sampled,
        given: list[View | None],
        periods: list[torch.Tensor],
        repeats: list[list[Repeats | None]],
    ) -> None:
        """Give inputs and weights (None: the module has no such) their periods. Raises Unsure."""
        others = periods[len(given) :]
        for view, period, axes, some in zip(given, periods, repeats, others, strict=False):
            if view is not None:
                fold = Fold.of(view, period, axes, some.numel(), sampled.asked)
                memory = torch.cat([period.reshape(-1), some])
                sampled.folds[session.storages[view.storage]._cdata] = fold, memory

    def follow(self, trace: dict[str, Any], kernels: list[str]) -> dict[str, Any]:
        """What reaches the outputs of the steady call, planned completely; nothing if no loop of the `kernels` has more rounds
        there than anywhere that values were checked."""
        if not any(map(self.engine.longer, kernels)):
            return {"cut": []}
        self.engine.thorough = True
        try:
            return self.sampled(trace, [], [], [], [])
        finally:
            self.engine.thorough = False

    def exact(
        self, body: dict[str, Any], tensors: list[torch.Tensor], outputs: list[torch.Tensor]
    ) -> dict[str, Any]:
        """The steady call in exact arithmetic (`verify/exact`): residues of the outputs, or why there are none."""
        from kernelwright.verify.exact.session import answer_exact

        self.engine.uninstall()
        return answer_exact(body, tensors, outputs, self._built)

    def _plan(self, session: InterpretedSession, candidate: Candidate, sampled: Sampled) -> None:
        """Plan every launch of the steady call, without values. Raises Unsure."""
        engine = self.engine
        engine.mode, engine.launches, engine.planned, engine.planned_steps = "plan", [], [], 0
        engine.counted = {}
        for place, operation in enumerate(candidate.steady.operations):
            session.step(operation, place)
            if operation.kind == "alloc":
                sampled.fresh.add(session.storages[operation.fields["storage"]]._cdata)
        given = {view.storage for view in (*candidate.inputs[-1], *candidate.state.values())}
        for storage in candidate.steady.foreign.keys() - given:  # kept scratch
            sampled.fresh.add(session.storages[storage]._cdata)
        for planned in engine.planned:
            planned.check()
        self._large.clear()
        for launch in engine.launches:
            self._large.setdefault(launch.function.fn, []).append(declared_constants(launch))

    def _run_slice(
        self,
        session: InterpretedSession,
        candidate: Candidate,
        sampled: Sampled,
        repeats: list[list[Repeats | None]],
    ) -> int:
        """Run sampled writers of outputs, whose axes repeat as given, after what they need; how many stored only where others had.
        Raises Unsure."""
        views = candidate.steady.outputs()
        keys = [session.storages[view.storage]._cdata for view in views]
        outputs = dict(zip(keys, views, strict=True))
        axes = dict(zip(keys, repeats, strict=True)) if len(outputs) == len(keys) else {}
        demand = Demand(self.engine, self.engine.planned, outputs, self.engine.dice, axes)
        self.engine.planned_steps = 0
        demand.choose()

        def placed(view: View) -> tuple[int, int, View]:
            storage = session.storages[view.storage]
            return storage._cdata, storage.nbytes(), view

        number = 0
        for operation in candidate.steady.operations:
            fields = operation.fields
            if operation.kind == "launch":
                if fields["launches"][0].programs:
                    demand.run(number)
                    number += 1
            elif operation.kind == "fill":
                sampled.fills(*placed(fields["view"]), fields["value"])
            elif operation.kind == "arange":
                sampled.counts(*placed(fields["view"]), fields["start"], fields["step"])
            elif operation.kind == "numbers":
                sampled.puts(*placed(fields["view"]), session.numbers(fields))
            elif operation.kind == "copy":
                sampled.copies(placed(fields["target"]), placed(fields["source"]))
            elif operation.kind == "aten":
                raise Unsure(f"torch's {fields['name']}")
        return demand.again

    def _extent(self, session: InterpretedSession, candidate: Candidate) -> dict[str, object]:
        """Exact shares of outputs that are written and of inputs that are read, where known; and what is new at full size."""
        new = sorted(
            set().union(*(launch.does for launch in self.engine.planned)) - self.engine.seen,
            key=lambda item: (item[-1] == ROUNDS, str(item)),
        )
        if all(view.dtype.startswith(("float", "bfloat")) for view in candidate.steady.outputs()):
            new = [item for item in new if item[-1] != ROUNDED]  # no output holds indices
        given: dict[int | str, View] = dict(enumerate(candidate.inputs[-1]))
        given.update(candidate.state)
        return {
            "new": [_as_text(item) for item in new[:32]],
            "stored": [self._share(session, candidate, view, True) for view in candidate.steady.outputs()],
            "loaded": [self._share(session, candidate, view, False) for view in candidate.inputs[-1]],
            **self._flow(session, candidate),
            "cut": [launch.name for launch in self.engine.planned if launch.cut],
            "mutated": [
                key for key, view in given.items() if self._stored(session.storages[view.storage]._cdata)
            ],
        }

    def _flow(self, session: InterpretedSession, candidate: Candidate) -> dict[str, object]:
        """`reaches`: by output, the share of each input that reaches it. `idle`: by kernel, the share of its stores that are not
        needed. Only if known exactly."""
        planned, steady = self.engine.planned, candidate.steady
        if any(operation.kind in ("aten", "copy") for operation in steady.operations):
            return {}
        outputs = [(session.storages[view.storage]._cdata, view) for view in steady.outputs()]
        reaches: list[list[float | None]] = []
        for storage, view in outputs if len(outputs) <= _MOST_OUTPUTS else ():
            found = flow.needs(planned, {storage: (view.offset * view.itemsize, view.end)})
            if found is None:
                return {}
            reaches.append([self._reached(session, view, found) for view in candidate.inputs[-1]])
        found = flow.needs(planned, {storage: (0, flow.WHOLE) for storage, view in outputs})
        return {"reaches": reaches, "idle": flow.unused_stores(planned, found) if found else []}

    @staticmethod
    def _reached(session: InterpretedSession, view: View, found: flow.Needs) -> float | None:
        low, high = view.offset * view.itemsize, view.end
        storage = session.storages[view.storage]._cdata
        if storage in found.rough or high - low != view.numel * view.itemsize or high == low:
            return None
        return union([found.places[storage]] if storage in found.places else [], low, high) / (high - low)

    def _stored(self, storage: int) -> bool:
        """Whether any planned program writes to a storage."""
        return any(
            access.pointers.size and launch.storage(access) == storage
            for launch in self.engine.planned
            for route in launch.routes
            for access in route.accesses(("write", "atomic"))
        )

    def _share(
        self, session: InterpretedSession, candidate: Candidate, view: View, stores: bool
    ) -> float | None:
        """The share of a tensor's bytes that are stored to (or loaded); None if that is not known exactly or torch touches it."""
        for operation in candidate.steady.operations:
            fields = operation.fields
            views = [fields[name] for name in ("view", "target", "source") if name in fields]
            if operation.kind == "aten" or any(one.storage == view.storage for one in views):
                return None
        low, high = view.offset * view.itemsize, view.end
        if high - low != view.numel * view.itemsize or high == low:
            return None
        pieces, storage = [], session.storages[view.storage]._cdata
        for launch in self.engine.planned:
            found = launch.touched(storage, ("write", "atomic") if stores else ("read", "atomic"))
            if found is None:
                return None
            pieces += found
        return union(pieces, low, high) / (high - low)

    def _play_steady(self, session: InterpretedSession, candidate: Candidate) -> None:
        self.engine.launches, self.engine.counted, session.tuned = [], {}, []
        session.play(candidate.steady)

    def _assemblies(self, launches: list[TracedLaunch]) -> dict[str, dict[str, object]]:
        """Assembler text of every distinct specialisation. Raises Failure if the compiler refuses one."""
        done: dict[str, dict[str, object]] = {}
        for launch in launches:
            identity = _identity(launch)
            if identity not in self._assembled:
                self._compiled.add(_specialisation(launch))
                with self._compiling(launch):
                    made = crosscompile.to_assembly(launch, self.target)
                self._assembled[identity] = dataclasses.asdict(made)
            done[identity] = self._assembled[identity]
        return done

    def _compiles(self, launches: list[TracedLaunch]) -> None:
        """Check that the compiler accepts every specialisation that is run, even if it is never priced."""
        new = {name: launch for launch in launches if (name := _specialisation(launch)) not in self._compiled}
        for name, launch in new.items():
            with self._compiling(launch):
                crosscompile.to_ir(launch, self.target)
            self._compiled.add(name)

    @contextlib.contextmanager
    def _compiling(self, launch: TracedLaunch) -> Iterator[None]:
        """A block with Triton's language as its compiler has it. Raises Failure if that refuses the launch."""
        self.engine.uninstall()
        try:
            yield
        except crosscompile.CompileError as error:
            raise Failure(Outcome.COMPILE_ERROR, f"{launch.function.__name__}: {error}") from None
        finally:
            self.engine.install()

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """Map what a kernel can raise under the interpreter to a Failure."""
        self.engine.install()
        try:
            yield
        except NotAKernel as error:
            raise Failure(Outcome.COMPILE_ERROR, str(error)) from None
        except OutOfBounds as error:
            raise Failure(Outcome.OUT_OF_BOUNDS, str(error)) from error
        except Race as error:
            raise Failure(Outcome.NONDETERMINISTIC, f"race: {error}") from None
        except Unsupported as error:
            self._assemblies(self.engine.launches[-1:])  # unsupported only if the compiler accepts it
            unpriced = isinstance(error, Unpriced)
            raise Failure(Outcome.UNPROVEN if unpriced else Outcome.UNSUPPORTED, str(error)) from None
        except Stuck as error:
            raise Failure(Outcome.TIMEOUT, str(error)) from None
        except KernelError as error:
            raise self._kernel_failure(error) from None
        except (TypeError, ValueError, KeyError, RuntimeError, NotImplementedError) as error:
            if "can't allocate memory" in str(error):
                raise Failure(Outcome.OUT_OF_MEMORY, "out of memory") from None
            raise Failure(Outcome.RUNTIME_ERROR, f"{type(error).__name__}: {error}"[:400]) from None

    def _kernel_failure(self, error: KernelError) -> Failure:
        """Decide whose failure an exception inside a kernel is, by asking the compiler.

        A compiled kernel cannot raise, except by `tl.device_assert`. If the compiler accepts a kernel that raises in the
        interpreter, that is the interpreter's limit.
        """
        try:
            self._assemblies(self.engine.launches[-1:])
        except Failure as refused:
            return refused
        if isinstance(error.__cause__, AssertionError):
            return Failure(Outcome.RUNTIME_ERROR, f"{IN_A_KERNEL}{error}")
        return Failure(Outcome.UNSUPPORTED, f"compiles, but is not interpreted: {error}")


def _as_text(item: tuple[object, ...]) -> str:
    """A kernel's constants, or a decision in it, as text."""
    name, *rest = item
    if len(rest) == 2:
        return f"`{name}`{f' line {rest[0]}' if rest[0] else ''}: {rest[1]}"
    return f"`{name}` with {rest[0] or 'no constants'}"


def _specialisation(launch: TracedLaunch) -> str:
    return f"{launch.function.src}|{launch.signature}|{launch.constexprs}"


def describe(launch: TracedLaunch) -> dict[str, Any]:
    work = summarise(launch)
    return {
        "kernel": launch.function.__name__,
        "grid": list(launch.grid),
        "num_warps": int(launch.options.get("num_warps", 4)),
        "num_stages": int(launch.options.get("num_stages", 3)),
        "constexprs": {str(name): repr(value)[:60] for name, value in launch.constexprs.items()},
        "signature": launch.signature,
        "work": work.to_json(),
        "waits": polls(launch.function),
        "guessed": any(traffic.guessed for traffic in launch.traffic),
        "waited": launch.waited,
        **repeated_bytes(launch, work),
    }


def repeated_bytes(launch: TracedLaunch, work: cost.Work) -> dict[str, dict[str, float]]:
    """By argument: bytes that the launch's plain stores write at least once (`written`), and how many instances read the same
    (`readers`), estimated from a few instances."""
    if launch.coverage is None:
        return {"written": {}, "readers": {}}
    stored = work.stored_bytes
    plain = {name for traffic in launch.traffic for name in traffic.written} & launch.sizes.keys()
    written = {
        name: launch.coverage.written(
            name, stored[name] * launch.programs, launch.sizes[name], launch.traffic[0].widths.get(name, 8)
        )
        for name in sorted(plain)
    }
    read = {name for traffic in launch.traffic for name in traffic.read}
    return {"written": written, "readers": {name: launch.coverage.readers(name) for name in sorted(read)}}


def warm(target: Target) -> None:
    """In the zygote, before any fork: fill Triton's caches (rewritten library functions, compiler)."""
    import numpy.ma  # imported by `np.unique`, 20 ms in every worker  # noqa: F401

    from kernelwright.verify.exact import field, session  # a confined process can no longer read these files
    from kernelwright.verify.interpret import lean_triton, warmup

    assert session
    field.prepare()
    lean_triton.install()
    engine = Engine(lambda launch: 1.0)
    with engine.installed():
        tensor = torch.ones(64)
        engine.launch(warmup.row_kernel, (1,), (tensor, torch.empty_like(tensor), 64, 64), {})
        square = torch.ones(16, 16)
        engine.launch(warmup.dot_kernel, (1,), (square, torch.empty_like(square), 16), {})
    for launch in engine.launches:
        crosscompile.to_assembly(launch, target)
