"""The verification of one candidate: what all backends share.

A verification goes through gates and stops at the first failure (`Stop`). Two confined processes take part. The *host*
process runs the candidate's Python on tensors without data and returns a tape (`trace/tape.py`); the *device* process
plays the tape on real data with our code. The judge compares the outputs. Neither process ever sees an expected output,
a seed or a tolerance, and the candidate's Python never sees a value at all.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import secrets
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from kernelwright.errors import UserError
from kernelwright.graph import narrow
from kernelwright.outcomes import Gate, Outcome
from kernelwright.precision import precision_of
from kernelwright.records import Backend, Candidate, Evidence, Mismatch, Task, Timing, Verdict
from kernelwright.shapes import constants
from kernelwright.verify import causality, folding
from kernelwright.verify.checkpointed import loads_weights
from kernelwright.verify.confined import Confined, Stop, plain
from kernelwright.verify.gradient_ways import GradientWay, draw_ways, subsets
from kernelwright.verify.gradients import label
from kernelwright.verify.judge import Judge
from kernelwright.verify.messages import HALF_SUMS, TINY, Building, Gradients, Run
from kernelwright.verify.reference import gradient_cases, special_values
from kernelwright.verify.reference.baseline import Baseline, Form
from kernelwright.verify.reference.cases import (
    Case,
    evaluating,
    native,
    of_one_tensor,
    roughly,
    steers,
    with_one_row,
)
from kernelwright.verify.reference.comparison import Comparison, compare, compare_or_round, settled
from kernelwright.verify.reference.expected import Expected
from kernelwright.verify.reference.gpu_cases import GpuCases
from kernelwright.verify.reference.hidden_sizes import LEAST, ONE
from kernelwright.verify.reference.leaning import Leanings, leaning
from kernelwright.verify.reference.oracle import ShapeCases
from kernelwright.verify.reference.task_module import INIT_SEED, for_task
from kernelwright.verify.sandbox import channel
from kernelwright.verify.sandbox.zygote import Role, Zygote
from kernelwright.verify.static import bare_load, inspect_code
from kernelwright.verify.structures import describe, equal_plain, fits, flatten, skeleton
from kernelwright.verify.trace import questions, ways
from kernelwright.verify.trace.affine import tame
from kernelwright.verify.trace.overlap import shared_views
from kernelwright.verify.traced import Trace

Tensors = list[torch.Tensor]
Shape = ShapeCases | GpuCases
Returned = Case | Form | GpuCases
"""Types that specify the form of outputs."""

EVALUATING = "in evaluation mode"
LATER = 7
"""Position of a shape set that is not one of the first."""
LONG_PROGRAMS = 256
"""A call at long sizes with at most this many program instances is run in full."""
MOST_CONFIGURATIONS = 32
"""Most configurations of an autotuned kernel that are run."""
_MOST_FROZEN = 8
"""Most calls judged whose only difference is that some gradients are frozen."""
_MOST_LAID_OUT = 4
"""Most inputs whose layout is changed one at a time."""
_MANY_CALLS = 13
"""Least calls of the first shape: more than any credible warm-up, and three jumps of its counters."""


class Verification:
    """The verification of one candidate."""

    backend: Backend
    common = Gate.SMALL
    """The gate whose first shape every protocol judges."""
    alone = False
    """Whether it gets the GPU's memory to itself: set when a verification that ran out of memory is repeated."""

    def __init__(self, judge: Judge, zygote: Zygote, task: Task, candidate: Candidate) -> None:
        self.judge, self.zygote, self.task, self.candidate = judge, zygote, task, candidate
        self.protocol = for_task(judge.protocol, task)
        self.seconds: dict[str, float] = {}
        self.facts: dict[str, Any] = {}
        self.deadline = time.monotonic() + judge.deadline_s
        self.large: list[dict[str, int]] = []
        """Sizes checked only in part, among them the full one, besides the sets whose values are all compared."""
        self._processes: list[Confined] = []
        self.host: Confined
        """Runs the candidate's Python."""
        self.device: Confined
        """Plays what was recorded there."""
        self._built: list[tuple[object, object]] = []
        """(constructor arguments, inputs (`describe`d)) of each module built and called so far."""
        self._beside: object = None
        """Inputs of another size (`describe`d) for the same constructor arguments as the first shape; None if there are none."""
        self._atomics = "atomic" in candidate.code
        """Whether the candidate may use atomic updates, at any size: then sums may differ in their last bits."""
        self._brackets = secrets.randbits(24)
        """Seed of the order in which interpreted reductions add, and of their operands' order; equal for the same case."""
        self._configurations = 1
        """Most autotuning configurations seen in interpreted calls."""
        self._units: set[str] = set()
        """Units of arithmetic that interpreted calls used."""
        self._eval_trace: Trace | None = None
        """The trace in evaluation mode at the first sizes, if it differs though the reference's outputs do not."""
        self._other_ways: list[tuple[Trace, int, str]] = []
        """(trace, call, way) at the first sizes for other ways to call the module (`trace/ways.py`) that change what it does."""
        self._otherwise: list[tuple[Trace, str]] = []
        """Traces in which questions of the file were answered otherwise (`trace/questions.py`), if they differ, and which."""
        self._padded: Trace | None = None
        """The trace for rows cut out of longer ones (`ways.PADDED`), if kernels are told their strides."""
        self._evaluating: Trace | None = None
        """The trace in evaluation mode, if it differs and the reference's outputs do, too."""
        self._steers_known: dict[tuple[tuple[str, ...], bool], bool] = {}
        """(tensors of the reference's state, outputs alone) -> whether results depend on them; see `cases.steers`."""
        self._leanings = Leanings()
        """Mean signed errors of outputs in half precision."""
        self._makes_at_first = False
        """Whether its first call computes something that later ones reuse."""
        self._rejections: dict[str, Stop] = {}
        """Rejections by protocols beside ours, whose tolerances an output of this execution exceeds."""

    def verdict(self) -> Verdict:
        """Run all gates. Raises UserError for a broken task and InfrastructureError for a broken judge."""
        try:
            with narrow.of_bytes(self.task.source):
                timing = self._funnel()
            return self._make_verdict(Outcome.CORRECT, Gate.TIMING, "", self.facts, timing)
        except Stop as stop:
            return self._make_verdict(
                stop.outcome, stop.gate, stop.detail[:600], {**self.facts, **stop.evidence}, None
            )
        finally:
            self._dismiss()

    def _dismiss(self) -> None:
        for process in self._processes:
            process.dismiss()

    def beside(self, accepted: Verdict) -> tuple[Verdict, ...]:
        """Verdicts of the other protocols on a candidate that ours accepted, from the same execution."""
        found = []
        for protocol in self.judge.beside:
            fallen = self._rejections.get(protocol.name)
            change: dict[str, object] = {"protocol": protocol.name}
            if fallen is not None:
                change |= {
                    "outcome": fallen.outcome,
                    "gate": fallen.gate,
                    "detail": fallen.detail[:600],
                    "timing": None,
                }
            found.append(accepted.model_copy(update=change))
        return tuple(found)

    def _make_verdict(
        self, outcome: Outcome, gate: Gate, detail: str, facts: dict[str, object], timing: Timing | None
    ) -> Verdict:
        return Verdict(
            task_id=self.task.id,
            outcome=outcome,
            gate=gate,
            detail=detail,
            protocol=self.protocol.name,
            precision=self.task.precision,
            gradients=self.task.gradients,
            backend=self.backend,
            evidence=Evidence(**facts, seconds=self.seconds),
            timing=timing,
            candidate_digest=self.candidate.digest,
            sizes=self._family() if outcome.accepted else {},
        )

    def _family(self) -> dict[str, tuple[int, int]]:
        """(least, most) of each free size over all sets judged."""
        if not self.task.ranges:
            return {}
        judged = [*self.judge.sets(self.task).values(), *self.large]
        own = constants(self.task.source)
        values = {name: [one.get(name, own[name]) for one in judged] for name in self.task.ranges}
        return {name: (min(found), max(found)) for name, found in values.items()}

    @functools.cached_property
    def _left(self) -> Sequence[str]:
        """Kinds of changes that the reference itself makes to its module and inputs (`held.py`)."""
        return sorted(self.judge.cases(self.task)[0].cases[0].left)

    def _funnel(self) -> Timing | None:
        raise NotImplementedError

    def _values_are_defined(self) -> None:
        """Raises Stop if the reference's outputs depend on numbers that it draws: nobody can draw the same."""
        if self.judge.cases(self.task)[0].operators.random:
            detail = (
                "the reference draws random numbers at every call, so there is nothing to compare with; "
                "give it the mask or the numbers as an input, or judge it without them (p=0)"
            )
            raise Stop(Outcome.UNPROVEN, Gate.LOAD, detail)

    def _summon(self, role: Role, weights: int = 0) -> Confined:
        process = Confined(self.zygote, role, self.deadline, self.judge.deadline_s, weights=weights)
        self._processes.append(process)
        return process

    def _load(self, weights: int = 0) -> None:
        """Start the process that runs the candidate's Python, and load it there."""
        self.host = self._summon("host", weights)
        self.host.ask(Gate.LOAD, {"command": "load", "code": self.candidate.code})

    @contextlib.contextmanager
    def _timed(self, gate: Gate) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[gate] = round(self.seconds.get(gate, 0.0) + time.perf_counter() - start, 4)

    # -- gates that every backend has ------------------------------------------------------------------------

    def _read(self) -> None:
        """The gates that need no process: parsing and the static rules."""
        if self.candidate.problem is not None:
            raise Stop(self.candidate.problem, Gate.PARSE, self.candidate.detail)
        finding = inspect_code(self.candidate.code)
        if finding is not None:
            raise Stop(finding.outcome, Gate.STATIC, finding.detail)

    def _trace(
        self,
        of: Shape | Baseline,
        inputs: Any,
        values: bool = True,
        many: bool = False,
        settled: bool = False,
        second: bool = False,
        earlier: object = None,
        **how: Any,
    ) -> Trace:
        """Have the host build the candidate for one shape and call it a secret number of times.

        `inputs` are `describe`d, as are `earlier` ones, on which the module is called first. Of the shape's state the host gets
        shapes and tiny tensors' values. `many`: more calls, and compare with a module built elsewhere; `settled`: also in
        evaluation mode.
        """
        gradients = of.gradients
        building = Building(
            seed=getattr(of, "seed", INIT_SEED),
            calls=(_MANY_CALLS if many else 2) + secrets.randbelow(3),
            values=values,
            affine=self.protocol.affine,
            cast=precision_of(self.task).cast,
            gradients=gradients,
            second=(many or second) and values and gradients is None,
            left=self._left,
        )
        building = dataclasses.replace(building, **how)
        tensors: Tensors = []
        state = of.state
        small = {name: value for name, value in state.items() if value.numel() <= TINY and not value.is_meta}
        try:
            given = {
                "init": channel.encode(of.init, tensors),
                "inputs": inputs,
                "earlier": earlier,
                "shapes": {name: describe(value) for name, value in state.items()},
                "state": channel.encode(small, tensors),
            }
        except TypeError as error:
            raise UserError(
                f"task {self.task.id}: get_init_inputs() returns something that cannot be sent: {error}"
            ) from None

        def traced(how: Building) -> Trace:
            return Trace(Gate.TRACE, *self.host.ask(Gate.TRACE, how.body() | given, tensors))

        trace = traced(building)
        if many and self.protocol.honesty:
            again = dataclasses.replace(building, calls=3, copied=True, beside=self._beside)
            self._compare_elsewhere(trace, traced, again, settled, inputs)
        return trace

    def _compare_elsewhere(
        self, trace: Trace, play: Callable[[Building], Trace], again: Building, settled: bool, inputs: object
    ) -> None:
        """A module built elsewhere must launch the same, else raises Stop. We also trace it in evaluation mode (in which the
        reference gives the same if `settled`) and when called in other ways, and keep the traces that differ to judge them."""
        forward = again.gradients is None
        modes = [ways.FED_BACK, *(ways.BEFORE_A_BACKWARD_PASS if forward else ()), *ways.SWITCHES]
        forms = list(map(str, specs(inputs)))
        modes += [ways.ONE_TENSOR] if len(set(forms)) < len(forms) else []
        modes += [ways.BY_NAME] if forward and again.names else []
        modes += ways.LAYOUTS
        modes += ways.JOINED if forward and len(forms) > 1 else ()
        in_gradients = self._gradient_ways(inputs, again.gradients) if again.gradients else []
        modes += in_gradients
        called = dataclasses.replace(again, ways=modes, calls=again.calls + len(modes))
        elsewhere = play(dataclasses.replace(called, evaluating=settled))
        if settled and not trace.alike(elsewhere):
            self._eval_trace = play(dataclasses.replace(again, evaluating=True))
            elsewhere = play(called)
        if not trace.alike(elsewhere):
            detail = "a module built elsewhere launches other work at the same sizes (environment, clock, addresses, memory)"
            raise Stop(Outcome.STATEFUL, Gate.DETERMINISM, detail)
        if any(word in self.candidate.code for word in ("assert", "__debug__", "__doc__")):
            with self._said_of("under `python -OO`, without assertions and docstrings"):
                if not trace.alike(play(dataclasses.replace(again, optimised=True))):
                    raise Stop(Outcome.STATEFUL, Gate.DETERMINISM, "launches other work at the same sizes")
        for otherwise in questions.asked(self.candidate.code, secrets.SystemRandom()):
            with contextlib.suppress(Stop):
                other = play(dataclasses.replace(again, otherwise=otherwise))
                if not any(one.alike(other) for one in (trace, *(known for known, _ in self._otherwise))):
                    self._otherwise.append((other, ", ".join(otherwise)))
        if not settled:
            with contextlib.suppress(Stop):  # if it raises, users see that as well
                other = play(dataclasses.replace(again, evaluating=True))
                self._evaluating = None if trace.alike(other) else other
        if elsewhere.is_told_strides(modes.index("padded") + 1):
            self._padded = play(
                dataclasses.replace(again, ways=ways.PADDED, calls=again.calls + len(ways.PADDED))
            )
        idle = set(_nothing_new(elsewhere, modes, in_gradients))
        self._note_other_ways(elsewhere, modes, {*idle, *in_gradients}, idle, len(forms), play, again)

    def _note_other_ways(
        self,
        elsewhere: Trace,
        modes: list[str],
        whole: Container[str],
        idle: Container[str],
        count: int,
        play: Callable[[Building], Trace],
        again: Building,
    ) -> None:
        """Keep the ways, among those `modes` (calls 1, 2, ... of the trace), in which the module does something else; layouts for each
        of the `count` inputs by itself, unless they are `whole`. Where it launches something else for a layout of an input, it tells
        layouts apart, so all of them are kept."""
        numbers = {way: number for number, way in enumerate(modes, 1)}
        others = [way for way in modes if way not in idle and elsewhere.takes_another_path(numbers[way], way)]
        told = any(elsewhere.launches_otherwise(numbers[way], way) for way in others)
        if count > 1:  # kernels often have a special path for the layout of one input
            layouts = [way for way in others if ways.layout_of(way) and way not in whole]
            others = [way for way in others if way not in layouts]
            layouts = list(ways.LAYOUTS) if told else layouts
            others += [f"{way} #{place}" for way in layouts for place in range(min(count, _MOST_LAID_OUT))]
            if others:
                elsewhere = play(dataclasses.replace(again, ways=others, calls=again.calls + len(others)))
        else:
            others = modes
        telling = {
            way.partition(" #")[2]
            for number, way in enumerate(others, 1)
            if elsewhere.launches_otherwise(number, way)
        }
        self._other_ways = [
            (elsewhere, number, way)
            for number, way in enumerate(others, 1)
            if way not in idle
            and (
                elsewhere.takes_another_path(number, way)
                or (
                    ways.layout_of(way)
                    and way.partition(" #")[2] in telling
                    and number not in elsewhere.refused
                )
            )
        ]

    def _gradient_ways(self, inputs: object, gradients: Gradients) -> list[str]:
        """Other ways to ask for a task's gradients; the last `inputs` are its cotangents."""
        outputs = len(gradients["positions"])
        given = list(specs(inputs))[:-outputs]
        wanted = sum("float" in str(spec) for spec in given) + len(gradients["parameters"])
        dice, written = secrets.SystemRandom(), self.judge.cases(self.task)[0].writable
        return [
            *draw_ways(len(given), wanted, outputs, dice),
            *([str(GradientWay(given=len(given), written=written))] if written else []),
            *subsets(len(given), wanted, dice),
        ]

    def _when_evaluating(self, shape: Shape, case: Case) -> None:
        """Judge the candidate in evaluation mode, if it differs there though the reference does not. Raises Stop if it is wrong."""
        if (trace := self._eval_trace) is None:
            return
        with self._said_of(EVALUATING):
            self._policy(trace)
            self._form(Gate.SMALL, trace, case)
            key = self._open_another(shape, trace, "evaluating", trace.warmed_up())
            for call in (*trace.warm_up(), -1):
                self._interpret(Gate.SMALL, Run(key, call), case)

    def _when_called_otherwise(self, shape: Shape, case: Case) -> None:
        """Judge the candidate in those ways to call it (`trace/ways.py`) in which it does something else. Raises Stop if it is
        wrong."""
        if (trace := self._evaluating) is not None:
            self._judge_way(shape, case, trace, -1, EVALUATING)
        for trace, call, way in self._other_ways:
            self._judge_way(shape, case, trace, call, way)
        for trace, otherwise in self._otherwise:
            try:
                self._judge_way(shape, case, trace, -1, f"where answers differ ({otherwise})")
            except Stop as stop:  # a path for another Triton need not compile with this one
                if stop.outcome is not Outcome.COMPILE_ERROR or not self.device.alive:
                    raise
        self._when_padded(shape, case)

    def _when_padded(self, shape: Shape, case: Case) -> None:
        """Judge the candidate on rows cut out of longer ones, if its kernels are told their strides: it must be right for all
        lengths, or for none, if it takes inputs to be dense. Raises Stop."""
        right, wrong = False, None
        for call, way in enumerate(ways.PADDED if self._padded else (), 1):
            assert self._padded is not None
            if call in self._padded.refused:
                continue
            try:
                self._judge_way(shape, case, self._padded, call, way)
                right = True
            except Stop as stop:
                if not self.device.alive:
                    raise
                wrong = wrong or stop
            if right and wrong:
                raise wrong

    def _judge_way(self, shape: Shape, case: Case, trace: Trace, call: int, way: str) -> None:
        known: dict[str, tuple[str, Callable[[], Case | None]]] = {
            EVALUATING: ("", lambda: evaluating(case, self.protocol)),
            ways.ONE_TENSOR: ("with one tensor given twice", lambda: of_one_tensor(case, self.protocol)),
            ways.DETERMINISTIC: ("under deterministic algorithms", lambda: case),
            ways.AUTOCAST: ("under autocast", lambda: roughly(case)),
            ways.PRECISION: ("in another precision of products", lambda: roughly(case)),
            ways.COMPILED: ("if torch.compiler.is_compiling() is true", lambda: case),
            ways.EXPORTED: ("if torch.compiler.is_exporting() is true", lambda: case),
            ways.ANOMALIES: ("if torch.is_anomaly_enabled() is true", lambda: case),
            ways.BINARIES: ("if its kernels use another number of registers", lambda: case),
            ways.BY_NAME: ("with inputs passed by the reference's names", lambda: case),
            ways.FED_BACK: ("on its own earlier outputs", lambda: case),
            ways.LEARNING: ("if a backward pass follows", lambda: case),
            ways.BEHIND: ("behind a layer that learns", lambda: case),
            ways.WANTED: ("if tensors require gradients", lambda: case),
            ways.RECORDING: ("in gradient mode", lambda: case),
            ways.EXPANDED: (
                "with an input expanded from one row",
                lambda: with_one_row(case, self.protocol, way),
            ),
        }
        if (gradients := GradientWay.read(way)) is not None:
            asked = partial(gradient_cases.ask_another_way, case, self.protocol, gradients)
            known[way] = gradients.describe(), asked
        strides = "that are parts of one tensor" if way in ways.JOINED else "of other strides"
        usual = f"with inputs {strides}", lambda: None if case.changed else case
        words, made = known.get(way.partition(" #")[0], usual)
        if call == -1 and way not in known:
            words, made = way, lambda: case
        if (wanted := made()) is None:
            return
        with self._said_of(words or way):
            views = trace.traced.tapes[call].outputs()
            if [view.shape for view in views] != [one.shape for one in wanted.expected]:
                raise Stop(Outcome.WRONG_SHAPE, Gate.SMALL, "outputs of other shapes", where=wanted.name)
            alone = trace.stands_alone(call)
            key = self._open_another(shape, trace, way, trace.only(call))
            if not alone:
                self._interpret(Gate.SMALL, Run(key, 0), case)
            self._interpret(Gate.SMALL, Run(key, -1 if alone else call), wanted)

    @contextlib.contextmanager
    def _said_of(self, where: str) -> Iterator[None]:
        try:
            yield
        except Stop as stop:
            raise Stop(stop.outcome, stop.gate, f"{where}: {stop.detail}", **stop.evidence) from None

    @contextlib.contextmanager
    def _stateful(self, what: str, **evidence: object) -> Iterator[None]:
        """Around further calls: if one is rejected, something outlives a call that must not."""
        with self._timed(Gate.DETERMINISM):
            try:
                yield
            except Stop as stop:
                if not self.device.alive:
                    raise
                detail = f"{what}: {stop.detail}"
                raise Stop(Outcome.STATEFUL, Gate.DETERMINISM, detail, **evidence) from None

    def _open_another(self, shape: Shape, trace: Trace, what: str, answer: dict[str, object]) -> str:
        """Open memory for another trace at a shape, with the calls of its `answer`; returns its key."""
        key, tensors = f"{shape.name}, {what}", list(trace.blobs)
        state = {name: shape.state[name] for name in trace.traced.state}
        body = {"command": "open", "key": key, "trace": answer, "state": channel.encode(state, tensors)}
        self.device.ask(Gate.SMALL, body, tensors)
        return key

    def _not_folded(self, shape: Shape, inputs: Any, trace: Trace) -> None:
        """The candidate must not compute constants from weights in its constructor: build it with other weights and compare what
        is no mere rearrangement of them. Raises Stop."""
        if not (self.protocol.honesty and self.protocol.affine):
            return
        built: list[tuple[Trace, dict[str, Any]]] = [(trace, {})]
        # What `eval()` and `train()` compute from weights goes stale as well.
        if self._eval_trace is not None:
            built.append((self._eval_trace, {"evaluating": True, "copied": True, "calls": 3}))
        for one, how in built:
            if not (suspects := folding.suspects(one, shape.state)):
                continue
            other = self._trace(shape, inputs, second=True, seed=tame(shape.seed) ^ 0x15555555, **how)
            if what := folding.find_folded(one, other, suspects, shape.state):
                maker = "by `eval()`" if how else "in the constructor"
                detail = f"{what} is computed from weights {maker}: weights loaded later would not reach it"
                raise Stop(Outcome.TORCH_COMPUTE, Gate.CAUSALITY, detail)

    def _met_before(self, init: object, inputs: object) -> object:
        """Inputs of other sizes (`describe`d) on which a module with equal constructor arguments was called, the first such; None if
        there are none. Users call one module at several sizes. But a first call must be judged as well, so the first set for which
        there are such inputs gets None."""
        if self.task.gradients or not self.protocol.honesty:
            return None
        alike = [
            other for arguments, other in self._built if other != inputs and equal_plain(arguments, init)
        ]
        self._built.append((init, inputs))
        return alike[0] if len(alike) > 1 else None

    def _trace_checkpoint(self, shape: ShapeCases, inputs: Any, **how: Any) -> tuple[ShapeCases, Trace]:
        """The candidate's trace at a shape with a checkpoint's weights if it has a place for them; else at the same shape with the
        weights that its constructor draws."""
        trace = self._trace(shape, inputs, **how)
        if not shape.drawn or loads_weights(trace, shape.drawn, shape.state):
            return shape, trace
        return shape.as_built, self._trace(shape.as_built, inputs, **how)

    @staticmethod
    def _idles(name: str, expected: Sequence[Expected | torch.Tensor], trace: Trace) -> bool:
        """Whether there is nothing to compute at a size of one, as when rows are reduced to one row, or a sequence of one without its
        first element is empty: then this size does not test the kernels."""
        launched = any(launch.programs for launch in trace.tape.launches())
        nothing = not trace.tape.compute() or all(0 in one.shape for one in expected)
        return name.startswith((ONE, LEAST)) and not launched and nothing

    def _policy(self, trace: Trace) -> None:
        """The candidate's own kernels must run, and do the work that the task's policy asks of them. Raises Stop."""
        operators = trace.tape.compute()
        self.facts["aten_ops"] = operators
        self.facts["launches"] = trace.launches()
        if not self.protocol.honesty:
            return
        names = ", ".join(f"{name} x{count}" for name, count in sorted(operators.items()))
        if not any(launch.programs for launch in trace.tape.launches()):
            if trace.traced.once:
                did = f"computes with torch: {names}" if operators else "returns a stored result"
                detail = f"forward launches its kernels on the first call, and later {did}"
                raise Stop(Outcome.STATEFUL, Gate.DETERMINISM, detail)
            did = f"; torch did the work: {names}" if operators else ""
            raise Stop(Outcome.KERNEL_NOT_LAUNCHED, Gate.CAUSALITY, f"no Triton kernel ran{did}")
        if operators and self.task.policy == "full":
            raise Stop(
                Outcome.TORCH_COMPUTE, Gate.CAUSALITY, f"computed by torch outside the kernels: {names}"
            )
        recast = causality.recast(trace.tape, (*trace.inputs, *trace.traced.state.values()))
        if recast and self.task.policy == "full":
            raise Stop(
                Outcome.TORCH_COMPUTE, Gate.CAUSALITY, f"computed by torch outside the kernels: {recast}"
            )
        if not trace.steady():
            detail = "forward does different things when called again: launches, sizes or operators differ"
            raise Stop(Outcome.STATEFUL, Gate.DETERMINISM, detail)

    def _form(self, gate: Gate, trace: Trace, case: Returned) -> None:
        """Check structure, shapes, dtypes and aliases of the outputs, which the tape shows without a run. Raises Stop."""

        def stop(outcome: Outcome, detail: str) -> Stop:
            return Stop(outcome, gate, detail, where=case.name)

        self._not_written(case, trace.written_by_torch(), gate)
        form = skeleton(trace.output)
        views = trace.tape.outputs()
        if not fits(form, case.structure) or len(views) != len(case.expected):
            raise stop(
                Outcome.WRONG_STRUCTURE, f"output is {_short(form)}, expected {_short(case.structure)}"
            )
        shared = shared_views(views)
        owners = {view.storage: index for index, view in enumerate(trace.inputs)}
        returned: Sequence[Expected | torch.Tensor] = case.expected
        for index, (view, expected) in enumerate(zip(views, returned, strict=True)):
            wanted = str(expected.dtype).removeprefix("torch.")
            if view.shape != expected.shape:
                raise stop(
                    Outcome.WRONG_SHAPE, f"output {index}: shape {view.shape}, expected {expected.shape}"
                )
            if view.dtype != wanted:
                raise stop(Outcome.WRONG_DTYPE, f"output {index}: dtype {view.dtype}, expected {wanted}")
            alias = owners.get(view.storage, -1)
            if self.protocol.honesty and alias != case.aliases[index] and alias >= 0:
                raise stop(Outcome.OUTPUT_ALIASED, f"output {index} shares memory with input {alias}")
            own = case.aliases[index]
            if self.protocol.honesty and alias < 0 <= own and own in case.written:
                detail = f"output {index} is a copy: the reference updates input {own} and returns it"
                raise stop(Outcome.OUTPUT_ALIASED, detail)
            other = shared[index]
            if self.protocol.honesty and other >= 0 and other != case.shared[index]:
                what = f"with output {other}" if other != index else "between its own elements"
                raise stop(Outcome.OUTPUT_ALIASED, f"output {index} shares memory {what}")
            if self.protocol.honesty and alias < 0 and view.storage in trace.tape.foreign:
                detail = f"output {index} is in memory that the module keeps: the next call overwrites the caller's result"
                raise stop(Outcome.STATEFUL, detail)

    def _compare(
        self, case: Case, outputs: Tensors, changed: list[int], gate: Gate, position: int, number: int
    ) -> float:
        """Compare outputs. Raises Stop on the first difference; returns the worst error as a share of the allowed one."""

        def stop(outcome: Outcome, detail: str, mismatch: Mismatch | None = None) -> Stop:
            return Stop(outcome, gate, detail, where=case.name, mismatch=mismatch)

        if self.protocol.honesty and changed != case.changed:
            raise stop(Outcome.INPUT_MUTATED, f"input {(changed or case.changed)[0]} is changed in place")
        worst = 0.0
        for index, (got, expected) in enumerate(zip(outputs, case.expected, strict=True)):

            def rounded(index: int = index) -> Expected:
                return case.with_roundings()[index]

            def in_single(index: int = index) -> Expected:
                return case.in_single()[0][index]

            comparison = compare_or_round(index, got, expected, self.protocol, rounded, in_single)
            if comparison.kind:
                outcome = self._named(comparison.kind, position, number)
                what = label(index, case.structure) or f"output {index}"
                detail = explain(comparison, case.name, what)
                if comparison.kind == "non_finite" and (line := bare_load(self.candidate.code)):
                    detail += f"; line {line} has a masked load without `other`: masked lanes are undefined"
                raise stop(outcome, detail, comparison.mismatch)
            worst = max(worst, comparison.worst)
            if not expected.leaning or case.special:
                continue
            if made := leaning(expected.value, settled(got, expected, self.protocol)):
                self._leanings.note(index, case.name, made, expected.leaning)
        if gate is self.common and case.scale == 1.0 and (position == 0 or gate is Gate.FULL):
            self._compare_for_others(case, outputs, gate)
        return worst

    def _not_leaning(self, cases: Sequence[Case]) -> None:
        """Errors of all comparisons so far must not have one sign: on average they may exceed the reference's only a little. Raises
        Stop."""
        if (found := self._leanings.too_far()) is not None:
            output, how = found
            what = label(output, cases[0].structure) or f"output {output}"
            detail = f"{what}: errors have one sign for all inputs and sizes, on average {how} more than the reference's own"
            raise Stop(Outcome.LOW_PRECISION, Gate.SMALL, detail)

    def _compare_for_others(self, case: Case, outputs: Tensors, gate: Gate) -> None:
        """Compare the same outputs under the tolerances of the other protocols."""
        for protocol in self.judge.beside:
            if protocol.name in self._rejections:
                continue
            for index, (got, expected) in enumerate(zip(outputs, native(case), strict=True)):
                comparison = compare(index, got, expected, protocol)
                if comparison.kind:
                    detail = explain(comparison, case.name)
                    self._rejections[protocol.name] = Stop(Outcome(comparison.kind), gate, detail)
                    break

    def _enough(self, share: float, where: str) -> None:
        """If a task leaves part of the work to torch, the candidate's kernels must take at least `min_share` of the time."""
        self.facts["own_share"] = min(max(share, 0.0), 1.0)
        if self.protocol.honesty and self.facts["aten_ops"] and share < self.task.min_share:
            detail = f"the kernels take {share:.0%} of the time; this task asks for {self.task.min_share:.0%}"
            raise Stop(Outcome.TORCH_COMPUTE, Gate.CAUSALITY, detail, where=where)

    def _without_kernels(
        self, name: str, trace: Trace, cases: Sequence[Case], operators: Iterable[str]
    ) -> None:
        """Interpret calls at the small size `name` in which kernels do nothing. Raises Stop if outputs are still right, or if torch's
        copies make them. `operators` are the reference's."""
        full, case = self.task.policy == "full", cases[0]
        moved = causality.relaid(trace.tape, case.expected, case.aliases) if full else {}
        idle = Run(name, ablate=True, copies=list(moved))

        def ablated(case: Case) -> tuple[Tensors, set[int]]:
            """The outputs, and which of them a copy already equals."""
            _, tensors = self.device.ask(Gate.CAUSALITY, idle.body(), flatten(case.inputs))
            count = len(case.expected)
            copied = {
                index
                for tensor, index in zip(tensors[count:], moved.values(), strict=True)
                if causality.agreement(tensor, case.expected[index], self.protocol) > causality.SAME
            }
            return tensors[:count], copied

        outputs, copied = ablated(case)
        # Fresh memory may by chance equal an output of booleans; in another call it holds others.
        if copied and (copied := copied & ablated(case)[1]):
            detail = f"a copy by torch already equals output {min(copied)} before any kernel runs"
            raise Stop(Outcome.TORCH_COMPUTE, Gate.CAUSALITY, detail, where=case.name)
        self._acts(
            itertools.chain([(case, outputs)], ((item, ablated(item)[0]) for item in cases)), name == ONE
        )
        if full and causality.moves_only(operators) and -1 in case.aliases:
            share = causality.moved_share(trace.tape, trace.inputs)
            if share > causality.MOST_COPIED:
                detail = (
                    f"torch moves {share:.0%} of the output's elements, and the reference does nothing else"
                )
                raise Stop(Outcome.TORCH_COMPUTE, Gate.CAUSALITY, detail, where=case.name)
        if full and not special_values.multiplies(operators):
            share = causality.spread_by_torch(trace.tape)
            if share > 1.0:
                detail = f"torch's copies of kernels' results write {share:.1f} times the bytes that the kernels read and write"
                raise Stop(Outcome.TORCH_COMPUTE, Gate.CAUSALITY, detail, where=case.name)
        if full and trace.copied_outputs():
            self._mostly_stored(name, trace, case, causality.scatters(operators))

    def _mostly_stored(self, name: str, trace: Trace, case: Case, scatters: bool) -> None:
        """Raises Stop if torch copies most of the output, or of one result, at the small size `name`. If the reference `scatters`,
        elements of its inputs may remain in its output."""
        marked, given = Run(name, marks=True), flatten(case.inputs)
        _, tensors = self.device.ask(Gate.CAUSALITY, marked.body(), given)
        kept = given if scatters else ()
        share = causality.unmarked_share(tensors[len(case.expected) :], case.expected, kept)
        if share > causality.MOST_COPIED:
            detail = f"torch copies {share:.0%} of the output"
            raise Stop(Outcome.TORCH_COMPUTE, Gate.CAUSALITY, detail, where=case.name)
        repeated = causality.repeated_by_torch(trace.tape)
        for index, pair in enumerate(zip(tensors[len(case.expected) :], case.expected, strict=True)):
            what = label(index, case.structure)  # of gradients each, since a small one hides among large ones
            lone = causality.unmarked_share([pair[0]], [pair[1]], kept) if what else 0.0
            lone = max(lone, repeated[index])
            what = what or f"output {index}"
            if lone > causality.MOST_OF_A_GRADIENT and case.aliases[index] < 0:
                detail = f"torch copies {lone:.0%} of {what}"
                raise Stop(Outcome.TORCH_COMPUTE, Gate.CAUSALITY, detail, where=case.name)

    def _acts(self, calls: Iterable[tuple[Case, Tensors]], idle: bool = False) -> None:
        """Without kernels, outputs must be wrong in at least one of `calls` (pairs of case and outputs), else raises Stop. One may be
        right by chance, such as booleans in fresh memory, or the zero that a count starts from. If the reference gives the same in
        every case, we cannot tell, unless `idle`: then there may be nothing to do at this size."""
        cases = []
        for case, outputs in calls:
            if not any(math.prod(item.shape) for item in case.expected):
                return  # no output elements, as for half of one channel
            pairs = zip(outputs, case.expected, strict=True)
            if any(compare(index, *pair, self.protocol).kind for index, pair in enumerate(pairs)):
                return
            cases.append(case)
        if causality.constant([case.expected for case in cases]):
            if idle:
                return
            detail = "the reference gives the same output in every case, and so does the candidate without its kernels"
            raise Stop(Outcome.UNPROVEN, Gate.CAUSALITY, detail, where=cases[0].name)
        detail = "the output stays right when the candidate's kernels do nothing"
        raise Stop(Outcome.DECOY_KERNEL, Gate.CAUSALITY, detail, where=cases[0].name)

    def _copies_more(self, small: Trace, full: Trace, operators: Iterable[str]) -> None:
        """At full size, where kernels are not run, torch must not copy a larger share of the output than at sizes where they are."""

        def share(trace: Trace) -> float:
            given = (*trace.inputs, *trace.traced.state.values())
            return causality.copied_share(trace.tape, (view.storage for view in given))

        if self.task.policy != "full" or causality.scatters(operators):
            return
        if (copied := share(full)) > share(small) + causality.MOST_COPIED:
            detail = f"at full size torch copies {copied:.0%} of the output, more than at the checked sizes"
            raise Stop(Outcome.TORCH_COMPUTE, Gate.CAUSALITY, detail)

    def _unchanged(
        self, case: Returned, names: Iterable[str], gate: Gate, how: str = "changed in place"
    ) -> None:
        """Weights must not carry data between calls; only those that the reference writes to may change. Raises Stop."""
        changed = sorted(set(map(str, names)) - case.written)
        if self.protocol.honesty and changed:
            detail = f"weight {plain(changed[0], 100)} is {how}"
            raise Stop(Outcome.INPUT_MUTATED, gate, detail, where=case.name)

    def _not_written(self, case: Returned, stored: Iterable[int | str], gate: Gate) -> None:
        """A call may store only to inputs (by index) and weights (by name) that the reference writes to. Even if a kernel restores
        them, concurrent readers would see its scratch values. Raises Stop."""
        stored = set(stored)
        inputs = sorted(item for item in stored - case.written if isinstance(item, int))
        if self.protocol.honesty and inputs:
            seen = "" if gate is Gate.FULL else " and restored"
            detail = f"input {inputs[0]} is written to{seen}"
            raise Stop(Outcome.INPUT_MUTATED, gate, detail, where=case.name)
        names = [item for item in stored if isinstance(item, str)]
        self._unchanged(case, names, gate, "written to and restored")

    def _interpret(
        self, gate: Gate, run: Run, case: Case, position: int = 0, number: int = 0
    ) -> tuple[float, dict[str, Any], Tensors]:
        """Interpret one call on a case's inputs and compare: returns the worst error, the device's answer, and the outputs. Raises
        Stop.

        If a hint to the compiler was false for some lane, the call is repeated with the hint taken literally; if a single number
        was loaded and stored with no barrier between, it is repeated to see who uses it."""
        brackets = self._brackets + 7919 * (position + number)
        run = dataclasses.replace(run, after=list(case.after), brackets=brackets)
        answer, outputs = self.device.ask(gate, run.body(), flatten(case.inputs))
        self._atomics |= bool(answer["atomics"])
        self._units |= set(answer["units"])
        self._configurations = max(self._configurations, int(answer["configurations"]))
        worst = self._compared(case, answer, outputs, gate, position, number)
        if self.protocol.honesty and answer["false_hints"] and not run.believing:
            try:
                believing = dataclasses.replace(run, believing=True, races=False)
                self._interpret(gate, believing, case, position, number)
            except Stop as stop:
                if not self.device.alive or stop.outcome is Outcome.UNSUPPORTED:
                    raise
                detail = f"a hint to the compiler is false for some lane; taken literally: {stop.detail}"
                raise Stop(stop.outcome, gate, detail, where=case.name) from None
        if self.protocol.honesty and answer["crossed"] and not run.following:
            self._interpret(gate, dataclasses.replace(run, following=True), case, position, number)
        return worst, answer, outputs[: len(case.expected)]

    def _other_configurations(self, gate: Gate, key: str, case: Case, tried: int) -> None:
        """Check the configurations that autotuning may choose and no case has used, and the call in which it tries them. Raises
        Stop."""
        for number in range(tried, min(self._configurations, MOST_CONFIGURATIONS)):
            self._interpret(gate, Run(key, configuration=number), case, 0, 0)
        if self._configurations > 1 and self.protocol.honesty:
            with self._said_of("at the first call, in which configurations are tried"):
                self._interpret(gate, Run(key, tuning=True), case, 0, 0)

    def _not_summed_in_half(self, where: str) -> None:
        """Products must not be accumulated in half precision, even if the error is small at small sizes. Raises Stop."""
        if self.protocol.honesty and HALF_SUMS in self._units:
            detail = "products are summed in half precision: the reference's are summed in float32"
            raise Stop(Outcome.LOW_PRECISION, Gate.SMALL, detail, where=where)

    def _same_bits(self, same: bool, where: str) -> None:
        """Two calls on the same inputs, with fresh memory and undefined lanes filled differently, must agree (`same`). Raises Stop if
        they differ without atomic updates or torch operators, whose order of additions could explain it."""
        self.facts["deterministic"] = same
        if same or self._atomics or self.facts["aten_ops"]:
            return
        detail = (
            "a second call on the same inputs gives other bits, and no atomic update explains it: the output depends on "
            "memory never written, on undefined lanes of a load, or on the order of programs"
        )
        raise Stop(Outcome.NONDETERMINISTIC, Gate.DETERMINISM, detail, where=where)

    def _compared(
        self, case: Case, answer: dict[str, Any], tensors: Tensors, gate: Gate, position: int, number: int
    ) -> float:
        """Check an interpreted call's outputs, its stores, and the inputs and state it leaves. See `_compare`."""
        changed = list(answer["state_changed"])
        self._unchanged(case, changed, gate)
        outputs, left = tensors[: len(case.expected)], tensors[len(case.expected) :]
        worst = self._compare(case, outputs, list(answer["changed"]), gate, position, number)
        self._not_written(case, answer["stored"], gate)
        held = dict(zip(answer["after"], left, strict=True))
        self._left_as_the_reference_does(case, held, changed, gate)
        return worst

    def _left_as_the_reference_does(
        self, case: Case, held: Mapping[int | str, torch.Tensor], state_changed: Iterable[str], gate: Gate
    ) -> None:
        """Compare inputs and running statistics after a call, if the reference changes them. A candidate may leave statistics alone
        (docs/judge.md), unless the next call's outputs depend on them; if it updates some, all must be right. A count of calls must
        be right if it is updated, or if statistics depend on it."""
        statistics = {
            name for name, one in case.after.items() if isinstance(name, str) and one.dtype.is_floating_point
        }
        updates = not statistics.isdisjoint(state_changed)
        for key, expected in case.after.items():
            if not self.protocol.honesty:
                continue
            left_alone = (
                isinstance(key, str) and not (updates and key in statistics) and key not in state_changed
            )
            if left_alone and not self._steers(case, str(key), not updates):
                continue
            if key not in held:
                if isinstance(key, str) and self._steers(case, key, True):
                    detail = f"the next call's outputs depend on {plain(key, 100)}, which a call updates, and the module lacks it"
                    raise Stop(Outcome.STATEFUL, gate, detail, where=case.name)
                continue

            def in_single(key: int | str = key) -> Expected:
                return case.in_single()[1][key]

            usual = partial(case.after.__getitem__, key)
            comparison = compare_or_round(0, held[key], expected, self.protocol, usual, in_single)
            if comparison.kind:
                name = f"input {key}" if isinstance(key, int) else plain(key, 100)
                detail = f"{name} after the call: {explain(comparison, case.name)}"
                raise Stop(Outcome(comparison.kind), gate, detail, where=case.name)

    def _steers(self, case: Case, name: str, outputs_alone: bool) -> bool:
        """`cases.steers`, computed once for all cases; of a network's many tensors first for all at once."""
        known, after = self._steers_known, case.after
        together = tuple(
            one
            for one in after
            if isinstance(one, str) and (outputs_alone or not after[one].dtype.is_floating_point)
        )
        for names in (together, (name,)):
            if name in names and (names, outputs_alone) not in known:
                known[names, outputs_alone] = steers(case, names, outputs_alone)
            if not known.get((names, outputs_alone), True):
                return False
        return True

    @staticmethod
    def _named(kind: str, position: int, number: int) -> Outcome:
        if kind == "wrong_value" and position > 0:
            return Outcome.WRONG_ON_SHAPE
        if kind == "wrong_value" and number > 0:
            return Outcome.WRONG_ON_DISTRIBUTION
        return Outcome(kind)


def _nothing_new(trace: Trace, modes: Sequence[str], in_gradients: Sequence[str]) -> Iterator[str]:
    """The ways, among those `modes` (calls 1, 2, ... of the trace), in which the module does nothing that it does not do elsewhere:
    ways that freeze gradients, and inputs that are parts of one tensor if it does the same for other inputs with gaps."""
    number = {way: place for place, way in enumerate(modes, 1)}
    read = {way: GradientWay.read(way) for way in in_gradients}
    with_layouts = {one.frozen for one in read.values() if one and one.layout}
    frozen = [way for way, one in read.items() if one and one.asked and one.frozen and not one.layout]
    some = {number[way]: one for way in frozen if (one := read[way]) and one.frozen not in with_layouts}
    wanted = max((max(one.frozen) for one in read.values() if one and one.frozen), default=-1) + 1
    new = trace.with_something_new(some, wanted, _MOST_FROZEN)
    yield from (way for way in frozen if number[way] not in new)
    for way in ways.JOINED:
        if way in number:
            alike = (-1, *(number[one] for one in ("padded", "swapped") if one in number))
            if any(trace.does_as(number[way], other) for other in alike):
                yield way


def specs(spec: object) -> Iterator[object]:
    if isinstance(spec, dict):
        if "meta" in spec:
            yield spec["meta"]
        else:
            for one in spec.values():
                yield from specs(one)
    elif isinstance(spec, list):
        for one in spec:
            yield from specs(one)


def _short(form: object) -> str:
    return str(form).replace("'*'", "tensor")[:120]


def explain(comparison: Comparison, where: str, what: str = "") -> str:
    """Describe the first wrong element, for people and models; `what` names the tensor, by default `output N`."""
    found = comparison.mismatch
    assert found is not None
    what = what or f"output {found.output}"
    index = list(found.index)
    share = f"{found.wrong_share:.1%} of the elements are wrong"
    if comparison.kind == "unwritten":
        return f"{what}{index} was never written ({share}) [{where}]"
    if comparison.kind == "non_finite":
        return f"{what}{index}: got {found.got}, expected {found.expected:.6g} ({share}) [{where}]"
    return (
        f"{what}{index}: got {found.got:.6g}, expected {found.expected:.6g}, allowed error "
        f"{found.allowed:.2g} ({share}) [{where}]"
    )
