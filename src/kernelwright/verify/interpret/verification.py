"""Verification without a GPU: Triton's interpreter for values, its compiler for the binary, the cost model for time."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Backend, Binary, Candidate, Cost, Task, Timing
from kernelwright.verify.checkpointed import loads_weights
from kernelwright.verify.confined import Stop
from kernelwright.verify.cost import crosscompile
from kernelwright.verify.cost import model as cost
from kernelwright.verify.exact.asking import prove
from kernelwright.verify.gradient_ways import GradientWay
from kernelwright.verify.judge import Judge
from kernelwright.verify.messages import LOADED, ROUNDED, ROUNDS, TINY, WHOLE_SIZE, Launched, Run
from kernelwright.verify.reference.baseline import Baseline, baseline, candidate_cost, rates
from kernelwright.verify.reference.cases import Case, with_other_weights
from kernelwright.verify.reference.comparison import compare_or_round
from kernelwright.verify.reference.expected import Expected
from kernelwright.verify.reference.hidden_sizes import (
    ALSO_ONE,
    RAISES,
    full_sizes,
    keeps_by_key,
    leaves_a_rest,
    may_choose,
    may_decline,
    of_a_named_number,
)
from kernelwright.verify.reference.long_sizes import held_sizes
from kernelwright.verify.reference.oracle import ShapeCases
from kernelwright.verify.reference.periodic import Patch
from kernelwright.verify.sandbox import channel
from kernelwright.verify.sandbox.zygote import Zygote
from kernelwright.verify.structures import describe, flatten, same_bits
from kernelwright.verify.trace import ways
from kernelwright.verify.traced import Kind, Trace, storages_of
from kernelwright.verify.verification import (
    EVALUATING,
    LATER,
    LONG_PROGRAMS,
    MOST_CONFIGURATIONS,
    Verification,
    explain,
    specs,
)

_MODEL_UNCERTAINTY = 0.15
"""Half-width of the interval given to a modelled ratio, until the model is calibrated against measured times."""
_SAMPLES, _MORE_SAMPLES, _MANY_SAMPLES = 4, 24, 96
"""Program instances sampled per launch, and more of them when something looks wrong."""
_MANY_PROGRAMS, _FEW_OUTPUTS = 5000, 16
"""Programs of a call at long sizes that are all run if everything is reduced to so few elements (no single program says anything
then), or in half precision (errors add up slowly)."""
_SEVERAL_PROGRAMS = 2000
"""The same limit for other calls whose ordinary values were not checked at full size."""
_WHOLE_PROGRAMS = 40_000
"""The most programs of a full-size call that is run in full instead of being unproven."""
_HELD = 3
"""The most sets of sizes tried in search of what occurs at full size only, one item after the other."""
_ROOMS = (1, 8, 32)
"""Factors on the reference's work allowed at long sizes, while something of full size was not met."""
_WHEN_ENLARGED = ("rows", "ties", "far", "offset", "tiny", "masked", "lone", "degenerate")
"""Kinds of special values that are asked with the constants of the full size."""
_MOST_SWITCHED = 3
"""Most sizes at which programs are interrupted after atomic operations."""
_MOST_FROZEN = 8
"""The most gradients of which each is frozen at full size."""
_CONFIGURATIONS = 8
"""The most configurations run of a tuner that has met another size, or at sizes chosen because of a named number."""
_IDLE = 0.25
"""Share of stores for other programs that may go unused: in a scan nobody needs what the last one stores."""
_COVERED_BYTES = 1 << 20
_WRITTEN_SHARE = 0.6
_READ_SHARE = 0.5
_REPEATED = 1.25
"""Factor by which a launch would cover more of a tensor if no two instances wrote the same places."""
_COMPUTED_SHARE = 0.12
_LITTLE = "at full size the kernels do "
_MORE = 1.5
"""Factor on a program's modelled work that its real values may reach."""
_WHOLE = 0.85
"""Share that counts as all, when estimated from samples."""

_TF32 = re.compile(r"mma\S*\.tf32")
"""A product in TF32, in assembler text."""
_LISTED_MS = 4e-5
"""Least host time (ms) to make a Python number an element of a tensor; a list of a million takes 40 ms on a fast host."""


class InterpretedVerification(Verification):
    """Verification of one candidate on the interpreter."""

    backend: Backend = "interpret"
    for_gpu = False
    """Whether a GPU follows. At full size it compares the task's inputs at a few scales only, so we look here, at long sizes,
    for errors that add up in half precision."""

    def __init__(self, judge: Judge, zygote: Zygote, task: Task, candidate: Candidate) -> None:
        super().__init__(judge, zygote, task, candidate)
        self._blank = False
        """Whether the full-size tape was made without any weight values."""
        self._looked = False
        """Whether values were checked at full size."""
        self._extent: dict[str, list[float | None]] = {}
        """Exact shares at full size: of each output that is `stored`, of each input that is `loaded`."""
        self._reaches: list[list[float | None]] = []
        """By output, the exact share of each input that reaches it at full size."""
        self._unproven: list[str] = []
        """Constants and decisions of kernels that occur at full size only."""
        self._cut: list[str] = []
        """Kernels that were not planned completely at full size because of the number of steps."""
        self._checked: tuple[list[ShapeCases], list[Trace]] = [], []
        """Sizes with all values checked, and their tapes."""
        self._idle: list[tuple[ShapeCases, Trace]] = []
        """The same for sizes at which there is nothing to compute."""
        self._more: dict[int, dict[str, float]] = {}
        """By launch with programs: the work of one program beyond what is modelled (`full_size.Compared`)."""
        self._rounds = False
        """Whether a loop has several rounds at full size, and nowhere else."""
        self._again = 0
        """Sampled programs at full size that stored only where others had."""
        self._first: list[torch.Tensor] = []
        """Outputs of the first case."""
        self._ran: bool | None = None
        """Whether all programs were run at full size; None if not yet decided."""
        self._rounded_sums = False
        """Whether a kernel has TF32 products where the language has none."""
        self._measured: tuple[list[Launched], list[float]] = [], []
        """What launches did there, and the share of each input that they read."""
        self._executed: dict[str, float] = {}
        """Floating-point operations of the last run, by shape."""
        self._together: set[str] = set()
        """Kernels with programs that waited for later ones."""
        self._interruptible, self._switched = False, 0
        """Whether the last call had programs that others may come between, and at how many sizes they did."""

    def _funnel(self) -> Timing | None:
        self._read()
        base = self.judge.baseline(self.task)
        shapes, traces, full = self._begin(base)
        modelled = self._values(shapes, traces, full)
        if self.protocol.honesty:
            self._habits(shapes, traces, full)
            with self._timed(Gate.FULL):
                self._looked = self._sampled(full)
                self._special_when_enlarged(shapes[0])
                self._enlarge(shapes)
            self._lengths(base, full)
            if full is not None:
                self._follow(full, base)
            for sizes in self.judge.large_sets(self.task):
                self._look_at(sizes, shapes, traces)
        if full is not None:
            self.facts["launches"] = full.launches()
            self.large.append(full_sizes(self.task))
        timing = None
        with self._timed(Gate.TIMING):
            if base is not None and full is not None and modelled is not None:
                launches = self._covered(base, full, modelled, shapes[0], traces[0], whole=True)
                price = self._price(base, full, launches)
                timing = self._modelled_time(base, price) if self.judge.priced else None
        if self.judge.proofs:
            self._prove(shapes, traces)
        return timing

    def price(self) -> Timing | None:
        """The modelled time at full size, without a verdict; None if the candidate fails on the way, or nothing can be modelled."""
        self._left = ()
        try:
            self._read()
            base = self.judge.baseline(self.task)
            self._load()
            full = self._full(base)
            self.device = self._summon("interpret")
            launches = self._model(full)
            if base is None or full is None or launches is None:
                return None
            return self._modelled_time(base, self._price(base, full, launches))
        except Stop:
            return None
        finally:
            self._dismiss()

    def _begin(self, base: Baseline | None) -> tuple[list[ShapeCases], list[Trace], Trace | None]:
        """Start the process that runs the candidate's Python, load it, trace all sizes, start the interpreter. Returns the
        sizes with something to do, whose values are all checked, with their tapes, and the tape at full size."""
        shapes = self.judge.cases_for(self.task, self.candidate.code)
        self._values_are_defined()
        if self.task.gradients and self.protocol.honesty:
            self._beside = self.judge.another_size(self.task)
        with self._timed(Gate.LOAD):
            self._load()
        with self._timed(Gate.TRACE):
            pairs = []
            for position, shape in enumerate(shapes):
                with self._may_decline(shape):
                    pairs.append(self._small(shape, position))
            idle = [self._idles(shape.name, shape.cases[0].expected, trace) for shape, trace in pairs]
            self._idle = [pair for pair, idles in zip(pairs, idle, strict=True) if idles]
            pairs = [pair for pair, idles in zip(pairs, idle, strict=True) if not idles]
            for _, trace in pairs:
                self._policy(trace)
            full = self._full(base)
        with self._timed(Gate.LOAD):
            self.device = self._summon("interpret")  # not earlier: half of the refused candidates end before
        self._checked = [shape for shape, _ in pairs], [trace for _, trace in pairs]
        return *self._checked, full

    def _values(
        self, shapes: list[ShapeCases], traces: list[Trace], full: Trace | None
    ) -> list[Launched] | None:
        """Check every case at every small size. After the first, which most wrong kernels fail, compile the launches at `full`
        size (`_model`). Raises Stop."""
        modelled = None
        passed, worst = 0, 0.0
        for position, (shape, trace) in enumerate(zip(shapes, traces, strict=True)):
            with self._timed(Gate.SMALL):
                self._open(shape, trace)
            for number, case in enumerate(shape.cases):
                with self._timed(Gate.SMALL), self._may_decline(shape):
                    self._form(Gate.SMALL, trace, case)
                    # The first shape's races are checked in `_repeat`. A grid of one program there may have more here.
                    watched = self.protocol.honesty and position > 0 and case is shape.cases[-1]
                    worst = max(worst, self._call(shape, trace, case, position, number, watched))
                    passed += 1
                    self.facts |= {"cases": passed, "worst_error": worst}
                if passed == 1:
                    if self.protocol.honesty:
                        self.judge.make_ahead(self.task)
                    modelled = self._model(full)
            # A mask may be left out for another block than the one whose turn it is.
            if of_a_named_number(shape.name):
                with self._timed(Gate.SMALL), self._may_decline(shape):
                    self._in_every_configuration(shape.name, shape.cases[0], position)
        for shape, trace in self._idle:  # fresh memory that nobody writes is no result
            with self._timed(Gate.SMALL), self._may_decline(shape):
                self._open(shape, trace)
                self._call(shape, trace, shape.cases[0], LATER)
        if self.protocol.honesty:
            self._not_leaning(shapes[0].cases)
        if self._rounded_sums:
            self._with_rounded_sums(shapes[0])
        return modelled

    def _with_rounded_sums(self, shape: ShapeCases) -> None:
        """Check the first case with factors rounded to TF32, as the compiler rounds them where it makes a product of a sum. Raises
        Stop."""
        try:
            with self._timed(Gate.SMALL):
                self._interpret(Gate.SMALL, Run(shape.name, rounding=True), shape.cases[0])
        except Stop as stop:
            if not self.device.alive:
                raise
            detail = f"this compiler makes a TF32 product of a sum of products (not of one over the last axis): {stop.detail}"
            raise Stop(stop.outcome, stop.gate, detail, **stop.evidence) from None

    def _in_every_configuration(self, key: str, case: Case, position: int) -> None:
        """Check a case in up to `_CONFIGURATIONS` of a tuner's configurations. Raises Stop."""
        met, self._configurations, number = self._configurations, 1, 0
        while number < min(self._configurations, _CONFIGURATIONS):
            self._interpret(Gate.SMALL, Run(key, configuration=number), case, position, number)
            number += 1
        self._configurations = max(met, self._configurations)

    @staticmethod
    @contextlib.contextmanager
    def _may_decline(shape: ShapeCases) -> Iterator[None]:
        """Ask nothing more if a kernel refuses sizes that it may refuse (`hidden_sizes.may_decline`)."""
        try:
            yield
        except Stop as stop:
            if not may_decline(shape.name, stop.outcome, stop.detail):
                raise

    def _habits(self, shapes: list[ShapeCases], traces: list[Trace], full: Trace | None) -> None:
        """Check that the kernels do the work in every configuration and way to call them, and repeatedly. Raises Stop."""
        self._causality(shapes, traces, full)
        with self._timed(Gate.SMALL):
            first = shapes[0]
            self._other_configurations(Gate.SMALL, first.name, first.cases[0], len(first.cases))
            self._when_evaluating(first, first.cases[0])
            self._when_called_otherwise(first, first.cases[0])
        self._repeat(first)
        self._carry(first, traces[0])
        self._follows_weights(first, traces[0])

    def _prove(self, shapes: list[ShapeCases], traces: list[Trace]) -> None:
        """Ask for a proof in exact arithmetic that the kernels compute the same over the reals. Never rejects."""
        if "proof" in self.facts:
            return
        start = time.perf_counter()
        self.facts["proof"] = prove(partial(self.judge.question, self.task), self.device, shapes, traces)
        self.seconds["proof"] = round(time.perf_counter() - start, 4)

    # -- tapes -----------------------------------------------------------------------------------------------

    def _small(
        self, shape: ShapeCases, position: int, met: Sequence[object] = ()
    ) -> tuple[ShapeCases, Trace]:
        """The shape set, under a checkpoint's weights if the candidate can have them, and its tape, after calls on `met`."""
        inputs = describe(list(shape.cases[0].inputs))
        many = position == 0
        how: dict[str, Any] = {"earlier": self._met_before(shape.init, inputs)}
        if not (many or self.task.gradients):
            how["renumbered"] = [*shape.renumbered, *(shape.retyped if self._makes_at_first else ()), *met]
        if many:
            how |= {"names": shape.names, "tied": shape.tied}
        if shape.drawn:
            return self._trace_checkpoint(shape, inputs, **how)
        trace = self._trace(shape, inputs, many=many, settled=many and shape.operators.settled, **how)
        if position == 0:
            self._not_folded(shape, inputs, trace)
            self._makes_at_first = trace.makes_at_first()
        return shape, trace

    def _full(self, base: Baseline | None) -> Trace | None:
        """The tape at full size, from tensors without data; None if the reference cannot be modelled."""
        if base is None:
            return None
        try:
            trace = self._trace(base, base.input_spec, values=False)
            self._blank = True
        except Stop:
            if not self.host.alive:
                raise
            # A constructor that reads its own weights needs them drawn.
            trace = self._trace(base, base.input_spec)
        self._policy(trace)
        self._form(Gate.FULL, trace, base.form)
        return trace

    # -- compile and model -------------------------------------------------------------------------------------

    def _model(self, full: Trace | None) -> list[Launched] | None:
        """Launches at full size with their work. Passes every specialisation through compiler and assembler, or only through the
        compiler's front end if no binary is needed."""
        if full is None:
            return None
        with self._timed(Gate.COMPILE):
            depth = "assembly" if self.judge.priced else "ir"
            body = {"command": "model", "trace": full.only(), "compile": depth, "samples": _SAMPLES}
            answer, _ = self.device.ask(Gate.COMPILE, body)
            self._assemble(answer["assemblies"])
            return list(answer["launches"])

    def _assemble(self, assemblies: list[dict[str, Any]]) -> None:
        """Assemble in the judge's process. Stops on an assembler error or a launch that does not fit."""
        binaries: list[Binary] = []
        for item in assemblies:
            assembly = crosscompile.Assembly(**item)
            unasked = {"tf32", "tf32x3"}.isdisjoint(self._units)
            self._rounded_sums |= unasked and _TF32.search(assembly.text) is not None
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise Stop(Outcome.TIMEOUT, Gate.COMPILE, f"more than {self.judge.deadline_s:g} s")
            try:
                binary = crosscompile.assemble(assembly, self.judge.target, left)
            except crosscompile.TooSlow as error:
                raise Stop(Outcome.TIMEOUT, Gate.COMPILE, f"{assembly.kernel}: {error}") from None
            except crosscompile.CompileError as error:
                raise Stop(Outcome.COMPILE_ERROR, Gate.COMPILE, f"{assembly.kernel}: {error}") from None
            binaries.append(binary)
            self.facts["binaries"] = tuple(binaries)
            if binary.occupancy == 0.0:
                sheet = self.judge.target
                raise Stop(
                    Outcome.OUT_OF_RESOURCES,
                    Gate.COMPILE,
                    f"{binary.kernel}: {binary.shared_bytes} bytes of shared memory, {binary.registers} registers x "
                    f"{binary.num_warps} warps do not fit on {sheet.name} (shared memory limit {sheet.shared_per_block})",
                )

    # -- values ------------------------------------------------------------------------------------------------

    def _open(self, shape: ShapeCases, trace: Trace) -> None:
        tensors = list(trace.blobs)
        state = {name: value for name, value in shape.state.items() if name in trace.traced.state}
        body = {
            "command": "open",
            "key": shape.name,
            "trace": trace.warmed_up(),
            "state": channel.encode(state, tensors),
        }
        self.device.ask(Gate.SMALL, body, tensors)

    def _call(
        self,
        shape: ShapeCases,
        trace: Trace,
        case: Case,
        position: int = 0,
        number: int = 0,
        races: bool = False,
    ) -> float:
        """Play the calls before the steady one if it needs them, then the steady one, and compare with the oracle."""
        worst = 0.0
        if number == 0:
            for call in trace.warm_up():  # each on other data, so that no old result is right by chance
                other = call % len(shape.cases)
                before = shape.cases[other]
                worst = max(worst, self._play(Gate.SMALL, shape, before, call, position, other))
        try:
            worst = max(worst, self._play(Gate.SMALL, shape, case, -1, position, number, races=races))
            if races:
                self._switch(Gate.SMALL, shape, case, position, number)
            return worst
        except Stop as stop:
            if not races or stop.outcome is Outcome.NONDETERMINISTIC or not self.device.alive:
                raise
            # Wrong in this order of programs: check that the usual order is right.
            self._play(Gate.SMALL, shape, case, -1, position, number)
            raise _order(Gate.SMALL, stop) from None

    def _play(
        self,
        gate: Gate,
        shape: ShapeCases,
        case: Case,
        call: int = -1,
        position: int = 0,
        number: int = 0,
        races: bool = False,
    ) -> float:
        run = Run(shape.name, call, races=races, configuration=position + number)
        if shape.name == WHOLE_SIZE:  # in the configuration that is priced
            run = dataclasses.replace(run, configuration=0, measured=4 * _MANY_SAMPLES)
        worst, answer, outputs = self._interpret(gate, run, case, position, number)
        self._executed[shape.name] = float(answer["flops"])
        self._together |= set(answer["together"])
        self._interruptible = bool(answer["interruptible"])
        if run.measured:
            self._measured = list(answer["launches"]), list(answer["read"])
        self._not_summed_in_half(case.name)
        if gate is Gate.DETERMINISM and self._first:
            same = all(map(same_bits, outputs, self._first))
            self._first = []
            self._same_bits(same, case.name)
        elif not self._first and call == -1 and (position, number) == (0, 0) and self.protocol.honesty:
            self._first = [tensor.clone() for tensor in outputs]
        return worst

    def _switch(self, gate: Gate, shape: ShapeCases, case: Case, position: int = 0, number: int = 0) -> None:
        """Repeat a case, at a few sizes or with integers in either order, with programs interrupted after atomic operations, if in the
        last call several touched what others may have changed in between. Raises Stop."""
        most = 1 if shape.name == WHOLE_SIZE else _MOST_SWITCHED
        if self._interruptible and (self._switched < most or case.crossed):
            self._switched += 1
            used = 0 if shape.name == WHOLE_SIZE else position + number
            for switching in (1, 2):
                run = Run(shape.name, races=True, switching=switching, configuration=used)
                self._interpret(gate, run, case, position, number)

    def _none(self) -> None:
        """Outputs must match the reference's if a size is 0; raising is allowed. Raises Stop."""
        if not self.protocol.more_shapes or (shape := self.judge.none_case(self.task)) is None:
            return
        with self._timed(Gate.SMALL), self._may_decline(shape):
            self._call_later(*self._small(shape, LATER), shape.cases)

    def _after_calls(self) -> None:
        """Outputs and state must be right in the state that earlier calls leave, if the candidate holds it. Raises Stop."""
        if not self.protocol.honesty or self.task.gradients:
            return
        for shape in self.judge.after_calls(self.task):
            with self._timed(Gate.SMALL), self._said_of("in the state that earlier calls leave"):
                trace = self._trace(shape, describe(list(shape.cases[0].inputs)))
                if loads_weights(trace, shape.drawn, shape.state):
                    self._policy(trace)
                    self._call_later(shape, trace, shape.cases)

    def _other_step_counts(self) -> None:
        """Outputs must be right for other step counts, if launches depend on them; raising is allowed. A kernel may know a number that
        a task writes, and then does not look at what it is given. Raises Stop."""
        for shape in self.judge.step_counts(self.task) if self.protocol.honesty else ():
            with self._timed(Gate.SMALL), self._said_of("for another step count"):
                try:
                    trace = self._trace(shape, describe(list(shape.cases[0].inputs)))
                except Stop as stop:
                    if stop.outcome is not Outcome.RUNTIME_ERROR:
                        raise
                    continue
                if trace.tape.launched() != self._checked[1][0].tape.launched():
                    self._call_later(shape, trace, shape.cases[:1])

    def _exchange(self) -> None:
        """Call with exchanged sizes, then at the second small set: a plan cached by number of elements fails. Raises Stop."""
        others = [] if self.task.gradients else self.judge.exchanged_sizes(self.task)
        shape = next((one for one in self._checked[0][1:] if one.name in self.judge.small(self.task)), None)
        if others and shape is not None and self.protocol.honesty:
            with self._timed(Gate.SMALL):
                self._call_later(*self._small(shape, LATER, others), shape.cases[:1])

    def _causality(self, shapes: list[ShapeCases], traces: list[Trace], full: Trace | None) -> None:
        """With every kernel a no-op the output must be wrong, at every size except those of a width of 1."""
        with self._timed(Gate.CAUSALITY):
            for shape, trace in zip(shapes, traces, strict=True):
                if shape.name.startswith(ALSO_ONE):  # a mean over one class is 0 for everyone
                    continue
                self._without_kernels(shape.name, trace, shape.cases, shapes[0].operators)
            if full is not None:
                self._copies_more(traces[0], full, shapes[0].operators)

    def _lengths(self, base: Baseline | None, full: Trace | None) -> None:
        """Check a size of 0, the state after calls, exchanged sizes, long sizes and those between. Before the long ones, look there, with growing
        limits, for what is unproven at full size. Raises Stop, also for what is known exactly of or near the full size."""
        self._none()
        self._after_calls()
        self._other_step_counts()
        self._exchange()
        for room in _ROOMS:
            if self._unproven and not self._looked:
                with self._timed(Gate.SMALL):
                    self._at_length(self.judge.long_cases(self.task, False, room), met=True)
        with self._timed(Gate.SMALL):
            self._at_held_sizes()
        if (self._unproven or self._rounds) and not self._looked and self._run_whole():
            self._looked, self._again = True, 0
        self._whole(base)
        with self._timed(Gate.SMALL):
            special = self._looked and not self._coarse()
            self._at_length(self.judge.long_cases(self.task, special))
        self._ragged()
        with self._timed(Gate.SMALL):
            self._look_between([*self._checked[1], full])
            self._look_at_other_ways([*self._checked[1], full])
            self._tune_before()

    def _look_at_other_ways(self, traces: Sequence[Trace | None]) -> None:
        """In evaluation mode, for inputs of other strides and with gradients frozen a module may launch at full size what it does not
        launch in that way at the first small size, nor (`traces`) usually, if the way makes no difference there. That is judged at
        the least sizes at which it is launched. Raises Stop."""
        usual = {kind for trace in traces if trace is not None for kind in trace.kinds()}
        if not (
            self.protocol.more_shapes and may_choose(self.candidate.code, {name for name, _, _ in usual})
        ):
            return
        first, plain = self.task.shapes[self.judge.small(self.task)[0]], set[Kind]()
        for evaluating in (False, True):
            small, modes = self._called_in_ways(first, evaluating)
            full, _ = self._called_in_ways(full_sizes(self.task), evaluating)
            if small is None or full is None:
                continue
            plain = plain or small.kinds()
            for call, way in enumerate(modes, 1) if not evaluating else ((-1, EVALUATING),):
                if new := _new_at_full_size(small, full, call, way, plain, usual):
                    self._judge_where_launched(way, new)

    def _judge_where_launched(self, way: str, new: set[Kind]) -> None:
        """Judge the candidate in a way to call it at the least sizes at which all these kinds are launched. Raises Stop."""
        evaluating, call = way == EVALUATING, -1 if way == EVALUATING else 1

        def launched(sizes: Mapping[str, int]) -> bool:
            trace, _ = self._called_in_ways(sizes, evaluating, [way])
            return trace is not None and call not in trace.refused and new <= trace.kinds(call)

        sizes = held_sizes(self.task, launched, partial(self.judge.fits, self.task))
        if (shape := self.judge.between_case(self.task, sizes)) is not None:
            inputs = describe(list(shape.cases[0].inputs))
            how: dict[str, Any] = {"ways": () if evaluating else (way,), "calls": 4, "evaluating": evaluating}
            trace = self._trace(shape, inputs, **how)
            if trace.programs() <= _MANY_PROGRAMS:
                self._judge_way(shape, shape.cases[0], trace, call, way)
                return
        name, _, choice = max(new)
        read = GradientWay.read(way)
        detail = f"`{name}` {choice}: launched at full size in another way ({read.describe() if read else way}), at sizes too large to check"
        raise Stop(Outcome.UNPROVEN, Gate.FULL, detail)

    def _called_in_ways(
        self, sizes: Mapping[str, int], evaluating: bool, only: Sequence[str] = ()
    ) -> tuple[Trace | None, Sequence[str]]:
        """A trace without values at these sizes, called in all these ways, and the ways; None if it raises."""
        made = self.task.model_copy(update={"shapes": {**self.task.shapes, "full": dict(sizes)}})
        if (base := self.judge.baseline(made)) is None:
            return None, ()
        modes = () if evaluating else only or [*ways.LAYOUTS, *_frozen_one_by_one(base)]
        how: dict[str, Any] = {"ways": modes, "calls": 3 + len(modes), "evaluating": evaluating}
        try:
            return self._trace(base, base.input_spec, values=False, **how), modes
        except Stop:
            if not self.host.alive:
                raise
            return None, ()

    def _look_between(self, traces: Sequence[Trace | None]) -> None:
        """If Python launches something only at sizes between the small ones and the full ones (those of `traces`), check it at
        the first such size tried. Raises Stop."""
        known = {kind for trace in traces if trace is not None for kind in trace.kinds()}
        if not may_choose(self.candidate.code, {name for name, _, _ in known}):
            return
        for sizes in self.judge.between(self.task):
            if not (new := self._kinds_at(sizes) - known):
                continue
            known |= new
            shape = self.judge.between_case(self.task, self._make_small(sizes, new))
            if shape is not None:
                _, trace = self._small(shape, LATER)
                self._policy(trace)
                if trace.programs() <= _SEVERAL_PROGRAMS:
                    self._call_later(shape, trace, shape.cases[:1])

    def _tune_before(self) -> None:
        """If a tuner prunes configurations, those that it kept for another size under the same key must be right at this one; if
        Python keeps anything under a key, also at the small size after a call with one size full. Raises Stop."""
        keeps = keeps_by_key(self.candidate.code)
        if not (keeps or "prune_configs_by" in self.candidate.code) or self.task.gradients:
            return
        for small, large in self.judge.tuned_cases(self.task):
            for earlier, shape in ((small, large), (large, small)) if keeps else ((small, large),):
                given, before = (describe(list(one.cases[0].inputs)) for one in (shape, earlier))
                with self._said_of("where a call has met another size"), self._may_decline(large):
                    trace = self._trace(shape, given, earlier=before)
                    if trace.programs() > _SEVERAL_PROGRAMS:
                        continue
                    self._form(Gate.SMALL, trace, shape.cases[0])
                    self._open(shape, trace)
                    self._in_every_configuration(shape.name, shape.cases[0], LATER)

    def _make_small(self, sizes: dict[str, int], new: set[tuple[str, str, str]]) -> dict[str, int]:
        """The sizes, as many of them made small as possible while all these kinds are still launched."""
        made = self.task.model_copy(update={"shapes": {**self.task.shapes, "full": sizes}})
        return held_sizes(
            made, lambda smaller: new <= self._kinds_at(smaller), partial(self.judge.fits, self.task)
        )

    def _kinds_at(self, sizes: Mapping[str, int]) -> set[tuple[str, str, str]]:
        """Kinds of launches at these sizes, traced without values; empty if that raises."""
        made = self.task.model_copy(update={"shapes": {**self.task.shapes, "full": dict(sizes)}})
        base = self.judge.baseline(made)
        if base is None:
            return set()
        try:
            return self._trace(base, base.input_spec, values=False).kinds()
        except Stop:
            if not self.host.alive:
                raise
            return set()

    def _run_whole(self) -> bool:
        """Run all programs at full size, if they are not too many, with all values checked; whether that was done. Used for what
        would be unproven otherwise. Raises Stop."""
        if self._ran is None:
            self._ran = False
            shape = self.judge.whole_case(self.task)
            if shape is not None:
                with self._timed(Gate.FULL):
                    _, trace = self._small(shape, LATER)
                    if trace.programs() <= _WHOLE_PROGRAMS:
                        self._open(shape, trace)
                        try:
                            self._call(shape, trace, shape.cases[0], LATER, 0, races=True)
                            self._ran = True
                        except Stop as stop:
                            if stop.outcome is not Outcome.TIMEOUT or not self.device.alive:
                                raise
        return self._ran

    def _at_length(self, shapes: list[ShapeCases], met: bool = False) -> None:
        """Check all values at sizes of which some are as long as at full size. Raises Stop.

        If programs ran on ordinary values at full size, only special ones are new (and, in half precision, whether errors add
        up). If only what is `met` there matters, special values are left out. Calls of many programs are run only on ordinary
        values that were checked nowhere else, at a length with few enough programs."""
        for shape in shapes:
            skipped = self._looked and not self._coarse() and not shape.far
            cases = shape.cases[:1] if met else shape.cases[1 if skipped else 0 :]
            if not cases or (met and (shape.far or not self._unproven)):
                continue
            _, trace = self._small(shape, LATER)
            self._policy(trace)
            if (programs := trace.programs()) > (_SEVERAL_PROGRAMS if shape.far else LONG_PROGRAMS):
                if shape.far or (self._looked and not (self.for_gpu and self._coarse())):
                    continue
                reduced = sum(view.numel for view in trace.tape.outputs()) <= _FEW_OUTPUTS
                most = _MANY_PROGRAMS if reduced or self._coarse() else _SEVERAL_PROGRAMS
                if programs > most or self._coarse():
                    shorter = self.judge.shorter(self.task, shape.name, min(1.0, most / programs))
                    if shorter is None:
                        continue
                    shape = shorter
                    _, trace = self._small(shape, LATER)
                    if trace.programs() > most:
                        continue
                cases = shape.cases[:1]
            self._call_later(shape, trace, cases)
            if met:
                self._enlarge([shape])

    def _call_later(self, shape: ShapeCases, trace: Trace, cases: Sequence[Case]) -> None:
        """Check all values of cases at sizes after the first. Raises Stop."""
        self._open(shape, trace)
        for number, case in enumerate(cases):
            self._form(Gate.SMALL, trace, case)
            # At small sizes a program that shares a counter may be the only one.
            self._call(shape, trace, case, LATER, number, races=self._atomics and not number)

    def _coarse(self) -> bool:
        """Whether an output is in half precision, where full-size samples on scaled inputs do not show errors that add up."""
        return any(item.half for item in self.judge.cases(self.task)[0].cases[0].expected)

    def _repeat(self, shape: ShapeCases) -> None:
        """Repeat the first case, and integers in either order, after all others, with programs in reverse order and races watched."""
        cases = enumerate(shape.cases)
        again = [number for number, case in cases if not number or (case.crossed and self._atomics)]
        with self._timed(Gate.DETERMINISM):
            try:
                for number in again:
                    self._play(Gate.DETERMINISM, shape, shape.cases[number], number=number, races=True)
                    self._switch(Gate.DETERMINISM, shape, shape.cases[number], number=number)
            except Stop as stop:
                if stop.outcome is Outcome.NONDETERMINISTIC or not self.device.alive:
                    raise
                raise _order(Gate.DETERMINISM, stop) from None

    def _carry(self, shape: ShapeCases, trace: Trace) -> None:
        """Call again after a few input elements changed: kept memory must not stand in for the inputs."""
        if not trace.carries() or shape.twin is None:
            return
        with self._stateful("wrong when called again on inputs that differ little"):
            self._play(Gate.DETERMINISM, shape, shape.twin)

    def _follows_weights(self, shape: ShapeCases, trace: Trace) -> None:
        """Change weights between two calls: what kernels made of them on the first call must not outlive them; if gradients are
        asked, nor may anything else made of them."""
        names = [name for name, view in trace.traced.state.items() if view.numel > TINY]
        trained = bool(self.task.gradients)
        if not names or not (trace.launches_more_at_first() or (trained and trace.carries())):
            return
        with self._timed(Gate.DETERMINISM):
            made = with_other_weights(shape.cases[0], names, self.protocol, shape.seed)
            if made is None:
                return
            case, state = made
            tensors: list[torch.Tensor] = []
            body = {"command": "weights", "key": shape.name, "state": channel.encode(state, tensors)}
            body["trained"] = trained
            if self.device.ask(Gate.DETERMINISM, body, tensors)[0]["laid_out"]:
                return
        with self._stateful("wrong when weights change between two calls"):
            self._play(Gate.DETERMINISM, shape, case)

    def _sampled(self, full: Trace | None) -> bool:
        """At full size, run a few programs on inputs that repeat, so that one period gives their expected values. Returns whether
        every output was checked."""
        if full is None:
            return False
        patch = self.judge.patch(self.task) if self._blank else None
        given = [] if patch is None else [*patch.case.inputs, *patch.state.values(), *patch.others]
        body: dict[str, object] = {"command": "sample", "trace": full.only(), "names": [], "repeats": []}
        if patch is not None:
            body |= {"names": list(patch.state), "repeats": patch.described()}
        views = full.tape.outputs()
        answer, stored = self.device.ask(Gate.FULL, body, given)
        looked = len(answer.get("written", ())) == len(views)
        self._note_extent(answer)
        self._cut = [] if looked else list(answer.get("cut", ()))
        self._not_written(self.judge.cases(self.task)[0].cases[0], set(answer.get("mutated", ())), Gate.FULL)
        new = list(map(str, answer.get("new", ())))
        self._unproven = [item for item in new if not item.endswith(ROUNDS)]
        self._rounds = len(new) > len(self._unproven)
        self._unproven += _idle(answer)
        self._again = int(answer.get("again", 0))
        self._held_to_price(answer.get("compared", {}))
        for number, (positions, values) in zip(
            answer.get("written", ()), zip(stored[::2], stored[1::2], strict=True), strict=True
        ):
            assert patch is not None
            self._agrees(number, values, patch, positions, views[number].shape)
        return looked

    def _follow(self, full: Trace, base: Baseline | None) -> None:
        """Plan completely the kernels that were cut, if their loops have more rounds than anywhere that values were checked.
        Only for references without samples at full size, such as a sum over everything. Raises Stop."""
        if not self._cut or self._looked or not self._reaches_throughout(base):
            return
        if self.judge.patch(self.task) is not None:
            return
        with self._timed(Gate.FULL):
            answer, _ = self.device.ask(
                Gate.FULL, {"command": "follow", "trace": full.only(), "kernels": self._cut}
            )
        if "reaches" in answer:
            self._note_extent(answer)
        self._unproven = _idle(answer)
        self._unproven += [f"`{name}`: more steps than are followed" for name in answer.get("cut", ())]
        if self._unproven and self._run_whole():
            self._looked = True
        self._whole(base)

    def _reaches_throughout(self, base: Baseline | None) -> bool:
        """Whether some output depends on all of some input, by trials at small sizes, and the reference reads all of it."""
        return base is not None and any(
            share >= 1.0 and self.judge.all_of(self.task, index)
            for index, share in enumerate(base.read_share)
        )

    def _note_extent(self, answer: Mapping[str, Any]) -> None:
        self._extent = {name: answer[name] for name in ("stored", "loaded") if name in answer}
        self._reaches = answer.get("reaches", [])

    def _held_to_price(self, compared: dict[str, dict[str, Any]]) -> None:
        """Compare, by launch, programs' work on real values with the priced work. If it depends on unknown numbers, correct the
        price (`_as_done`); if nothing explains a difference, raise Stop."""
        sums = {"computes": [0.0, 0.0], "reads": [0.0, 0.0]}
        for number, one in compared.items():
            if one["guessed"]:
                more = {
                    what: (done - one["priced"].get(what, 0.0)) / one["programs"]
                    for what, done in one["done"].items()
                    if done > _MORE * one["priced"].get(what, 0.0)
                }
                self._more[int(number)] = more
                continue
            for place, amounts in enumerate((one["done"], one["priced"])):
                for what, amount in amounts.items():
                    if what != "steps":
                        sums["computes" if what == "flops" else "reads"][place] += float(amount)
        for what, (done, priced) in sums.items():
            if done > _MORE * priced:
                detail = (
                    f"{what} {done / max(priced, 1.0):.1f} times as much on real values as where it is priced"
                )
                raise Stop(Outcome.TIMING_FORGED, Gate.FULL, detail)

    def _as_done(self, launches: list[Launched]) -> list[Launched]:
        """Launches with the work that their programs did on real values, where that exceeds the modelled work."""
        made: list[Any] = [copy.deepcopy(launch) for launch in launches]
        counted = [launch["work"] for launch in made if launch["work"]["programs"]]
        for number, more in self._more.items():
            if number >= len(counted):
                continue
            work, flops = counted[number], counted[number]["flops"]
            modelled = sum(flops.values())
            for unit in flops or ["float32"]:  # the unit of additional work is unknown
                share = flops[unit] / modelled if modelled else 1.0
                flops[unit] = flops.get(unit, 0.0) + more.get("flops", 0.0) * share
            work["steps"] += more.get("steps", 0.0)
            for what, amount in more.items():
                if what.startswith(LOADED):
                    name = what.removeprefix(LOADED)
                    work["touched_bytes"] += amount
                    for amounts in (work["loaded_bytes"], work["unique_bytes"]):
                        amounts[name] = amounts.get(name, 0.0) + amount
        return made

    def _look_at(self, sizes: dict[str, int], shapes: list[ShapeCases], traces: list[Trace]) -> None:
        """Check one more set of sizes of a family as the full size is checked. Raises Stop."""
        task = self.task
        kept = self._looked, self._blank, self._extent, self._unproven, self._again, dict(self.facts)
        self.task = task.model_copy(update={"shapes": {**task.shapes, "full": sizes}})
        try:
            base = self.judge.baseline(self.task)
            full = self._full(base)
            launches = self._model(full)
            with self._timed(Gate.FULL):
                self._looked = self._sampled(full)
                self._enlarge(shapes)
                self._whole(base)
                if base is not None and full is not None and launches is not None:
                    self._covered(base, full, launches, shapes[0], traces[0])
                    self.large.append(sizes)
        except Stop as stop:
            free = ", ".join(f"{name} {sizes[name]}" for name in task.ranges)
            stop.detail = f"at {free}: {stop.detail}"
            raise
        finally:
            self.task = task
            self._looked, self._blank, self._extent, self._unproven, self._again, self.facts = kept

    def _ragged(self) -> None:
        """Check what is written and read near the full size, where nothing divides, without values: several sizes changed, then
        one by one while less is known of it than at full size. If Python divides without rounding up, also at sizes between, where
        it need not raise. Raises Stop."""
        if all(share is None for known in self._extent.values() for share in known):
            return
        for made, base in self.judge.ragged(self.task):
            if self._touch_all_at(made, base):
                break
        for made, base in self.judge.planned_between(self.task) if leaves_a_rest(self.candidate.code) else ():
            try:
                self._touch_all_at(made, base)
            except Stop as stop:
                if stop.outcome not in RAISES or not self.host.alive:
                    raise

    def _touch_all_at(self, made: Task, base: Baseline) -> bool:
        """Whether, at the full sizes of a task like this one, as much is known of what is written and read as at this one's.
        Raises Stop if that is not all."""
        kept, own = (self._blank, self._extent), full_sizes(self.task)
        try:
            with self._timed(Gate.FULL):
                trace = self._full(base)
                assert trace is not None
                body = {"command": "sample", "trace": trace.only(), "names": [], "repeats": []}
                answer, _ = self.device.ask(Gate.FULL, body)
                self._note_extent(answer)
                self._all_touched(base)
                pairs = ((known, self._extent.get(name) or ()) for name, known in kept[1].items())
                shares = (pair for both in pairs for pair in zip(*both, strict=False))
                return all(known is None or found is not None for known, found in shares)
        except Stop as stop:
            changed = [(name, size) for name, size in full_sizes(made).items() if size != own[name]]
            stop.detail = f"at {', '.join(f'{name} {size}' for name, size in changed)}: {stop.detail}"
            raise
        finally:
            self._blank, self._extent = kept

    def _enlarge(self, shapes: Sequence[ShapeCases]) -> None:
        """Run constants that occur at full size only at small sizes, where values are checked (a block may be larger than
        needed), and a tuner's other configurations, which may have them. What passes is no longer unproven."""
        configurations = range(1, min(self._configurations, MOST_CONFIGURATIONS))
        for shape in shapes if not self._looked else ():
            case = shape.cases[0]
            runs = [Run(shape.name, enlarged=True, met=True)]
            runs += [Run(shape.name, met=True, configuration=number) for number in configurations]
            for run in runs:
                if not self._unproven or not self.device.alive:
                    return
                with contextlib.suppress(Stop):
                    self._meet(run, case)

    def _meet(self, run: Run, case: Case) -> None:
        """Run a case; what it meets is no longer unproven. Raises Stop."""
        _, answer, _ = self._interpret(Gate.FULL, run, case)
        met = set(map(str, answer["met"]))
        self._unproven = [item for item in self._unproven if item not in met]

    def _at_held_sizes(self) -> None:
        """Look for what occurs at full size only, and at no long size, where only the sizes it depends on are full. Ordinary and
        special values are checked there, and ordinary ones again with one size more in full. Raises
        Stop."""
        for _ in range(_HELD):
            if not self._unproven or self._looked:
                return
            item = self._unproven[0]
            holds = partial(self._also_meets, item)
            sizes = held_sizes(self.task, holds, partial(self.judge.fits, self.task))
            shape = self.judge.held_case(self.task, sizes)
            if shape is None or not self._check_at(shape):
                return
            for longer in self.judge.longer_than(self.task, sizes):
                self._check_at(longer, _MANY_PROGRAMS)
            if item in self._unproven:
                return

    def _check_at(self, shape: ShapeCases, most: int = _SEVERAL_PROGRAMS) -> bool:
        """Check a call if it has at most `most` programs; what it meets is no longer unproven. Whether it ran. Raises Stop."""
        _, trace = self._small(shape, LATER)
        self._policy(trace)
        if trace.programs() > most:
            return False
        few = trace.programs() <= LONG_PROGRAMS
        self._call_later(shape, trace, shape.cases if few else shape.cases[:1])
        self._meet(Run(shape.name, met=True), shape.cases[0])
        for number in range(1, min(self._configurations, MOST_CONFIGURATIONS)):
            if not self._unproven:
                break
            self._meet(Run(shape.name, met=True, configuration=number), shape.cases[0])
        return True

    def _also_meets(self, item: str, sizes: dict[str, int]) -> bool:
        """Whether an item that occurs at full size only occurs at these sizes, too."""
        task, kept = self.task, (self._blank, dict(self.facts))
        self.task = task.model_copy(update={"shapes": {**task.shapes, "full": sizes}})
        try:
            trace = self._full(self.judge.baseline(self.task))
            if trace is None:
                return False
            body = {"command": "sample", "trace": trace.only(), "names": [], "repeats": []}
            new = self.device.ask(Gate.FULL, body)[0].get("new", ())
            kernel = item.partition(" with ")[0]  # a tuner may choose other numbers there
            tuned = self._configurations > 1 and any(one.partition(" with ")[0] == kernel for one in new)
            return item in new or tuned
        except Stop:
            if not self.host.alive or not self.device.alive:
                raise
            return False
        finally:
            self.task, (self._blank, self.facts) = task, kept

    def _special_when_enlarged(self, shape: ShapeCases) -> None:
        """Special values are drawn at small sizes. If kernels have other constants at full size, and ordinary values are right
        with these at a small size, special values must be, too. Raises Stop."""
        if not self._unproven or shape.gradients is not None:
            return
        usual = shape.cases[0]
        special = [
            case
            for case in shape.cases
            if 0.0 < case.scale < 1.0 or case.name.rpartition(", ")[2] in _WHEN_ENLARGED
        ]
        run = Run(shape.name, enlarged=True)
        for number, case in enumerate([usual, *special]):
            try:
                self._interpret(Gate.FULL, run, case, 0, number)
            except Stop as stop:
                if not self.device.alive:
                    raise
                if number == 0 or stop.outcome in (Outcome.UNSUPPORTED, Outcome.OUT_OF_BOUNDS):
                    return  # these constants do not work at this size
                detail = f"with its constants of the full size: {stop.detail}"
                raise Stop(stop.outcome, Gate.FULL, detail, where=case.name) from None

    def _all_touched(self, base: Baseline | None) -> None:
        """Check, where known exactly, that all of each output is stored, and all of an input loaded that outputs depend on
        throughout. Raises Stop."""
        for index, share in enumerate(self._extent.get("stored", ())):
            if share is not None and share < 1.0:
                detail = f"output {index}: at full size {share:.2%} of it is written"
                raise Stop(Outcome.UNWRITTEN, Gate.FULL, detail, where="full")
        for index, share in enumerate(self._extent.get("loaded", ())):
            if base is None or share is None or share >= 1.0 or base.read_share[index] < 1.0:
                continue
            if self.judge.needs_all(self.task, index):
                detail = f"input {index}: at full size {share:.2%} of it is read, and the output depends on all of it"
                raise Stop(Outcome.WRONG_ON_SHAPE, Gate.FULL, detail, where="full")
        for output, shares in enumerate(self._reaches):
            for index, share in enumerate(shares):
                if base is None or share is None or share >= 1.0 or base.read_share[index] < 1.0:
                    continue
                if output in self.judge.all_of(self.task, index):
                    detail = f"output {output}: at full size {share:.2%} of input {index} reaches it, and it depends on all of that"
                    raise Stop(Outcome.WRONG_ON_SHAPE, Gate.FULL, detail, where="full")

    def _whole(self, base: Baseline | None) -> None:
        """Decide by what is known exactly of the full-size call: all of each output is stored, and all of an input loaded that
        outputs depend on throughout. Raises Stop, also for what is unproven."""
        self._all_touched(base)
        if self._again and None in self._extent.get("stored", ()):
            detail = "at full size programs write the same places, and which ones depends on loaded numbers"
            raise Stop(Outcome.UNPROVEN, Gate.FULL, detail, where="full")
        # An index that is off by one is right half of the time, so comparing values does not settle it.
        left = [
            item for item in self._unproven if not self._looked or (self.for_gpu and item.endswith(ROUNDED))
        ]
        if left:
            detail = f"met at full size only, where its values could not be checked: {left[0]}"
            raise Stop(Outcome.UNPROVEN, Gate.FULL, detail, where="full")

    def _agrees(
        self, number: int, values: torch.Tensor, patch: Patch, positions: torch.Tensor, shape: tuple[int, ...]
    ) -> None:
        """Compare elements of a full-size output with their expected values. Raises Stop."""

        def expected(rounded: bool) -> Expected:
            return patch.expected(number, positions, shape, self.protocol if rounded else None)

        comparison = compare_or_round(number, values, expected(False), self.protocol, lambda: expected(True))
        if not comparison.kind:
            return
        found = comparison.mismatch
        assert found is not None
        index, at = [], int(positions[found.index[0]])
        for extent in reversed(shape):
            index.append(at % extent)
            at //= extent
        comparison.mismatch = found.model_copy(update={"index": tuple(reversed(index))})
        outcome = self._named(comparison.kind, 1, 0)
        detail = explain(comparison, "full size, a few programs")
        raise Stop(outcome, Gate.FULL, detail, where=patch.case.name, mismatch=comparison.mismatch)

    # -- price -------------------------------------------------------------------------------------------------

    def _covered(
        self,
        base: Baseline,
        full: Trace,
        launches: list[Launched],
        shape: ShapeCases,
        small: Trace,
        whole: bool = False,
    ) -> list[Launched]:
        """Where values are not checked at full size, check that the kernels write the outputs and read the inputs.

        Their work there is compared with the output's size, and with what they read at the small size. A first look at few
        instances is repeated with many before we accuse, or if the few stored nothing. Returns the launches of the last look,
        by which the call is priced. If `whole`, and programs wait for each other, a small enough full size is run in full
        before the outcome is unproven.
        """
        self._held(launches)
        if not self.protocol.honesty:
            return launches
        problem = ""
        self._not_written(shape.cases[0], full.stored(launches), Gate.FULL)
        for samples in (_SAMPLES, _MORE_SAMPLES, _MANY_SAMPLES):
            if samples > _SAMPLES:
                body = {"command": "model", "trace": full.only(), "compile": "", "samples": samples}
                launches = list(self.device.ask(Gate.TIMING, body)[0]["launches"])
            launches = self._as_done(launches)
            problem = _unwritten(full, launches) or self._unread(base, full, launches, shape, small, samples)
            problem = problem or self._unchecked(launches)
            if any(launch["waited"] for launch in launches) and not self._looked:
                problem = (
                    problem or "at full size programs wait for one another, and nobody looked at them there"
                )
            problem = problem or self._uncomputed(base, launches, shape)
            if problem.startswith(_LITTLE) and self._by_algebra(base, full, launches, shape):
                problem = ""
            idle = any(item["work"]["programs"] and not item["work"]["stored_bytes"] for item in launches)
            if not problem and (samples == _MANY_SAMPLES or not idle):
                return launches
        by_values = any(one["waits"] or one["guessed"] for one in launches)
        if by_values and whole and self._run_whole():
            launches = self._as_run(base, launches, shape)
            if launches:
                return launches
        raise Stop(Outcome.UNPROVEN, Gate.TIMING, problem)  # less work proves no fraud: algebra may save some

    def _held(self, launches: list[Launched]) -> None:
        """Programs that wait for later ones must all fit on the GPU at once, or they wait for ever. Raises Stop."""
        sheet = self.judge.target
        for launch in launches:
            name, programs = launch["kernel"], launch["work"]["programs"]
            of_it = [one for one in self.facts.get("binaries", ()) if one.kernel == name]
            if name not in self._together or not of_it:
                continue
            warps = max(one.occupancy for one in of_it) * sheet.threads_per_sm / sheet.warp_size
            held = round(warps / of_it[0].num_warps) * sheet.sms
            if programs > held:
                detail = f"{name}: of {programs:.0f} programs that wait for later ones {sheet.name} holds {held} at a time"
                raise Stop(Outcome.TIMEOUT, Gate.COMPILE, detail)

    def _as_run(self, base: Baseline, launches: list[Launched], shape: ShapeCases) -> list[Launched]:
        """Launches with the work that their programs did when the full size was run in full; launches that wait keep the modelled
        work. Empty if arithmetic is missing, or an input that outputs need all of was not read."""
        measured, read = self._measured
        if len(measured) != len(launches):
            return []
        pairs = zip(launches, measured, strict=True)
        launches = [modelled if modelled["waits"] else done for modelled, done in pairs]
        waits, counted = any(launch["waits"] for launch in launches), _arithmetic(launches)
        if self._executed[WHOLE_SIZE] > _MORE * counted:
            if waits or not counted:
                return []
            launches = _with_more_work(launches, self._executed[WHOLE_SIZE] / counted)
        if waits:
            return launches
        self._looked = True
        needed = [
            share / base.read_share[index]
            for index, share in enumerate(read)
            if base.read_share[index] and self.judge.needs_all(self.task, index)
        ]
        if any(share < _WHOLE for share in needed):
            return []
        throughout = all(share >= 1.0 for share in read)  # and every value is right: algebra may save work
        return [] if not throughout and self._uncomputed(base, launches, shape) else launches

    def _uncomputed(self, base: Baseline, launches: list[Launched], shape: ShapeCases) -> str:
        """Check that matrix products are computed: at least the share of arithmetic done at the small size, where values were
        right (a diagonal product needs none). A kernel whose full-size values were checked may skip part of it for good
        reasons, a triangle or a fast algorithm."""
        # The kernels' share of the price decides.
        if not base.contraction_flops or self.task.policy == "partial":
            return ""
        if self._looked and all(
            share is not None and share >= 1.0 for share in self._extent.get("loaded", (None,))
        ):
            return ""  # every input is read throughout, and the values are right: algebra may save work
        share = _arithmetic(launches) / base.contraction_flops
        if share >= _WHOLE:
            return ""
        least = _COMPUTED_SHARE if self._looked or self.judge.in_part(self.task) else _WHOLE
        if share >= least:
            return ""
        small = baseline(self.task, dict(self.task.shapes[shape.name]), self.judge.target)
        if share >= least * min(1.0, self._executed[shape.name] / small.contraction_flops):
            return ""
        return f"{_LITTLE}{share:.1%} of the reference's arithmetic"

    def _by_algebra(self, base: Baseline, full: Trace, launches: list[Launched], shape: ShapeCases) -> bool:
        """Whether algebra explains missing arithmetic at full size: it is also missing at the small size, where exact arithmetic
        proves that the kernels compute the same over the reals, and inputs and weights are all read."""
        small = baseline(self.task, dict(self.task.shapes[shape.name]), self.judge.target)
        if self._executed[shape.name] >= _COMPUTED_SHARE * small.contraction_flops or self._unproven:
            return False
        moved = _bytes_moved(full, launches, reads=True)
        views = [
            view for view, share in zip(full.inputs, base.read_share, strict=True) if share >= 1.0
        ] + list(full.traced.state.values())
        if any(moved.get(view.storage, 0.0) < _WHOLE * view.numel * view.itemsize for view in views):
            return False
        self._prove(*self._checked)
        return bool(self.facts["proof"].status == "proven")

    def _unchecked(self, launches: list[Launched]) -> str:
        """Check that products at full size use only precisions that were checked elsewhere."""
        made = {unit for launch in launches for unit in launch["work"]["flops"]} - {"float32", "float64"}
        if new := sorted(made - self._units):
            return f"at full size products are made in {new[0]}, and none was where values are checked"
        return ""

    def _unread(
        self,
        base: Baseline,
        full: Trace,
        launches: list[Launched],
        shape: ShapeCases,
        small: Trace,
        samples: int,
    ) -> str:
        large = [i for i, view in enumerate(full.inputs) if view.numel * view.itemsize >= _COVERED_BYTES]
        if any(not view.dtype.startswith(("float", "bfloat")) for view in full.inputs):
            # How much is read by index depends on the indices' values.
            large = [index for index in large if base.read_share[index]]
        if not large:
            return ""
        given = flatten(shape.cases[0].inputs)
        after, before = _bytes_moved(full, launches, reads=True), None
        for index in large:
            zeros = float((given[index] == 0).double().mean())
            now = _share_read(full, after, index) / (base.read_share[index] or 1.0)
            if now >= _WHOLE * (1.0 - zeros):
                continue
            least = _WHOLE * (1.0 - zeros) if self.judge.needs_all(self.task, index) else _READ_SHARE
            if now >= least:
                continue
            if before is None:
                body = {"command": "model", "trace": small.only(), "compile": "", "samples": samples}
                before = _bytes_moved(
                    small, list(self.device.ask(Gate.TIMING, body)[0]["launches"]), reads=True
                )
            then = _share_read(small, before, index)
            if then < _WHOLE:  # windows may leave gaps, and meet the edge differently
                least = _READ_SHARE * then
            if now < least * then:
                return f"input {index}: {then:.0%} of it is read at the small size, {now:.1%} at full size"
        return ""

    def _price(self, base: Baseline, full: Trace, launches: list[Launched]) -> Cost:
        """Modelled cost of a call at full size, entered as evidence next to eager's. Without binaries, as if kernels used few
        registers."""
        works = [cost.Work.from_json(launch["work"]) for launch in launches]
        binaries = {binary.kernel: binary for binary in self.facts.get("binaries", ())}
        modelled, share = candidate_cost(full.tape, works, binaries, self.judge.target, base)
        self._enough(share, "full")
        idle_ms = 1e-3 * self.judge.target.launch_us * full.stops  # the next launch finds an empty queue
        modelled = modelled.model_copy(update={"ms": modelled.ms + idle_ms + _LISTED_MS * full.listed})
        self.facts |= {"cost": modelled, "reference_cost": base.eager}
        return modelled

    def _modelled_time(self, base: Baseline, modelled: Cost) -> Timing:
        """The modelled cost as a time, against the modelled baselines."""
        baselines = {"eager": base.eager.ms, "compile": base.compiled_ms}
        low, high = 1.0 - _MODEL_UNCERTAINTY, 1.0 + _MODEL_UNCERTAINTY
        return Timing(
            kind="modelled",
            target=self.judge.target.name,
            candidate_ms=modelled.ms,
            candidate_ci=(modelled.ms * low, modelled.ms * high),
            baseline_ms=baselines,
            speedup_ci={
                name: (ms / modelled.ms * low, ms / modelled.ms * high) for name, ms in baselines.items()
            },
            roofline_fraction=modelled.roofline_fraction,
            **rates(base, modelled.ms),
        )


def _idle(answer: Mapping[str, Any]) -> list[str]:
    """Items for stores that are made for other programs and not used."""
    return [
        f"`{name}`: nobody makes use of {share:.0%} of what its programs store for others"
        for name, share in answer.get("idle", ())
        if share > _IDLE
    ]


class BeforeGpu(InterpretedVerification):
    """The checks that need no GPU, except those that a GPU does better: comparing every value at full size, and timing.

    A GPU does not notice an access that strays into valid memory, nor a lane that a load leaves undefined and that happens
    to be right."""

    for_gpu = True

    def _funnel(self) -> None:
        self._read()
        base = self.judge.baseline(self.task)
        try:
            shapes, traces, full = self._begin(base)
            self._values(shapes, traces, None)
            self._habits(shapes, traces, full)
            with self._timed(Gate.FULL):
                self._sampled(full)
                self._special_when_enlarged(shapes[0])
                self._looked, self._again = True, 0
            self._lengths(base, full)
            for sizes in self.judge.large_sets(self.task):
                self._look_at(sizes, shapes, traces)
            if self.judge.proofs:
                self._prove(shapes, traces)
        except Stop as stop:
            if stop.outcome is not Outcome.UNSUPPORTED:
                raise
            detail = f"strays, races and undefined lanes could not be looked for: {stop.detail}"
            raise Stop(Outcome.UNPROVEN, stop.gate, detail) from None


def _order(gate: Gate, stop: Stop) -> Stop:
    detail = f"right at first, wrong when programs run in another order or interleave: {stop.detail}"
    return Stop(Outcome.NONDETERMINISTIC, gate, detail)


def _bytes_moved(trace: Trace, launches: list[Launched], reads: bool) -> dict[int, float]:
    """Bytes that a call's kernels and copies read or write, by storage. What several instances repeat counts once."""
    found: dict[int, float] = {}
    for launch, described in zip(trace.tape.launches(), launches, strict=False):
        work, storages = described["work"], storages_of(launch, described)
        for name, count in work["loaded_bytes" if reads else "stored_bytes"].items():
            moved = count * work["programs"]
            if reads:
                moved /= described["readers"].get(name, 1.0)
            else:
                moved = min(moved, described["written"].get(name, moved))
            if name in storages:
                found[storages[name]] = found.get(storages[name], 0.0) + moved
    for operation in trace.tape.operations:
        views = []
        if operation.kind == "copy":
            views = [operation.fields["source" if reads else "target"]]
        elif operation.kind == "aten":
            views = operation.reads() if reads else operation.fields["results"]
        for view in views:
            found[view.storage] = found.get(view.storage, 0.0) + view.numel * view.itemsize
    return found


def _share_read(trace: Trace, moved: Mapping[int, float], index: int) -> float:
    """Share of an input that is read, estimated from bytes."""
    view = trace.inputs[index]
    return min(1.0, moved.get(view.storage, 0.0) / max(view.numel * view.itemsize, 1))


def _arithmetic(launches: list[Launched]) -> float:
    """Floating-point operations of all programs, estimated from samples."""
    return sum(sum(item["work"]["flops"].values()) * item["work"]["programs"] for item in launches)


def _with_more_work(launches: list[Launched], factor: float) -> list[Launched]:
    """Launches whose programs do so many times the work: where few of them do most (documents of any length in a grid for the
    longest), samples may have missed these, but the work of all was counted."""
    made: list[Any] = [copy.deepcopy(launch) for launch in launches]
    for work in (launch["work"] for launch in made):
        for name in ("flops", "loaded_bytes", "unique_bytes", "stored_bytes"):
            work[name] = {what: amount * factor for what, amount in work[name].items()}
        for name in ("steps", "touched_bytes"):
            work[name] *= factor
    return made


def _unwritten(full: Trace, launches: list[Launched]) -> str:
    written = _bytes_moved(full, launches, reads=False)
    for index, view in enumerate(full.tape.outputs()):
        extents = zip(view.shape, view.stride, strict=True)
        size = math.prod(extent for extent, stride in extents if stride) * view.itemsize
        if size >= _COVERED_BYTES and written.get(view.storage, 0.0) < _WRITTEN_SHARE * size:
            share = written.get(view.storage, 0.0) / size
            return f"output {index}: at full size the kernels write {share:.1%} of it"
    for launch, described in zip(full.tape.launches(), launches, strict=False):
        work = described["work"]
        for name, view in launch.views:
            stored = work["stored_bytes"].get(name, 0.0) * work["programs"]
            once = described["written"].get(name, stored)
            if _REPEATED * once < min(stored, view.numel * view.itemsize):
                share = once / stored
                return f"`{name}`: of what instances of `{described['kernel']}` write at full size {share:.1%} are other places"
    return ""


def _new_at_full_size(
    small: Trace, full: Trace, call: int, way: str, plain: set[Kind], usual: set[Kind]
) -> set[Kind]:
    """Kinds of launches of a call in another way at full size that were not judged: neither launched in that way at a small size
    nor, if it launches there what is launched usually (`plain`), anywhere (`usual`)."""
    if call in small.refused or call in full.refused:
        return set()
    if ways.layout_of(way):
        apart = small.launches_otherwise(call, way)
        if not apart and not full.launches_otherwise(call, way):
            return set()
    else:
        apart = small.kinds(call) != plain
    return full.kinds(call) - (small.kinds(call) if apart else usual)


def _frozen_one_by_one(base: Baseline) -> list[str]:
    """Ways to ask for all gradients but one."""
    if base.gradients is None:
        return []
    given = list(specs(base.input_spec))[: -len(base.gradients["positions"])]
    wanted = sum("float" in str(spec) for spec in given) + len(base.gradients["parameters"])
    frozen = range(wanted if 1 < wanted <= _MOST_FROZEN else 0)
    return [str(GradientWay(frozen=(one,), given=len(given))) for one in frozen]
