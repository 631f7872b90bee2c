"""The device that is there: tapes played on a GPU by a trusted process, correctness and clock alike.

No Python of a candidate's runs here, only kernels that passed `kernels.py`; so the process and its CUDA context serve
one candidate after another, the clock is ours, and a kernel that breaks the context costs a new process. Inputs and
outputs travel through the judge's arena (`cuda_memory.py`).

Commands: arena; open (one shape); run (one call); reference (the task's module, for the clock); time; batch; close.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources

from kernelwright.outcomes import Outcome
from kernelwright.records import Task
from kernelwright.verify import channel, crosscompile, oracle, timing
from kernelwright.verify.cuda_memory import GUARD_BYTE, Mapping, Raw, locate, open_arena
from kernelwright.verify.kernels import Kernels, NotAKernel
from kernelwright.verify.replay import Candidate, Session
from kernelwright.verify.service import Failure, Service
from kernelwright.verify.tape import Launch, Operation, Tape, View

_PAD = 512
"""Bytes before and behind every storage, whose pattern must survive."""
_FLUSH_BYTES = 256 << 20
"""Written before each timed call: several times any L2."""
_TUNE_CALLS = 5
_SLEEP_CYCLES_PER_US = 2000
"""`torch.cuda._sleep` counts cycles; at least this many pass in a microsecond on any GPU here."""
_LEAST_ROUNDS, _MOST_ROUNDS = 6, 40
_ROUND_MS = 2.0


class CudaSession(Session):
    """Launches go to the GPU; tuning tries every configuration there."""

    def __init__(self, device: str, kernels: Kernels) -> None:
        super().__init__(device, kernels)
        self.choices: dict[int, int] = {}
        self._padded: dict[int, tuple[torch.Tensor, int]] = {}

    def provide(self, storage: int, size: int) -> torch.Tensor:
        """Fresh memory under a number, with padding around it."""
        whole = torch.empty(size + 2 * _PAD, dtype=torch.uint8, device=self.device)
        whole[:_PAD] = GUARD_BYTE
        whole[_PAD + size :] = GUARD_BYTE
        self._padded[storage] = whole, size
        if size == 0:
            made = torch.empty(0, dtype=torch.uint8, device=self.device)
        else:
            made = torch.as_tensor(Raw(whole.data_ptr() + _PAD, size, whole), device=self.device)
        self.storages[storage] = made.untyped_storage()
        return made

    def trespassed(self) -> str:
        """Whether anything was written around a storage: a description, or an empty string."""
        for storage, (whole, size) in self._padded.items():
            for part in (whole[:_PAD], whole[_PAD + size :]):
                if not bool((part == GUARD_BYTE).all()):
                    return f"a kernel wrote outside of a tensor of {size} bytes (storage {storage})"
        return ""

    def launch(self, kernel: Any, launches: list[Launch], place: int) -> None:
        if len(launches) > 1 and place not in self.choices:
            self.choices[place] = self._tune(kernel, launches)
        self.bound(kernel, launches[self.choices.get(place, 0)])()

    def bound(self, kernel: Any, launch: Launch) -> Callable[[], Any]:
        """A launch with its arguments in place. A grid without programs launches nothing."""
        if launch.programs == 0:
            return lambda: None
        arguments = {
            name: self.tensor(View.read(value["view"])) if "view" in value else self.kernels.argument(value)
            for name, value in launch.arguments.items()
        }
        runner = kernel[launch.grid]
        return lambda: runner(**arguments, **launch.options)

    def _tune(self, kernel: Any, launches: list[Launch]) -> int:
        """Index of the fastest configuration. Writes over memory: play the tape afresh afterwards."""
        times = []
        for launch in launches:
            call = self.bound(kernel, launch)
            try:
                call()
                times.append(min(_gpu_ms(call) for _ in range(_TUNE_CALLS)))
            except (OutOfResources, CompilationError):
                times.append(math.inf)
        if min(times) == math.inf:
            self.bound(kernel, launches[0])()  # raises what the first one raises
        return times.index(min(times))

    def prepared(self, tape: Tape) -> Callable[[], None]:
        """The tape as one call that allocates nothing: what is timed."""
        steps: list[Callable[[], Any]] = []
        for place, operation in enumerate(tape.operations):
            if operation.kind == "alloc":
                if operation.fields["storage"] not in self.storages:
                    self.provide(operation.fields["storage"], operation.fields["bytes"])
            else:
                steps.append(self._step(operation, place))

        def play() -> None:
            for step in steps:
                step()

        return play

    def _step(self, operation: Operation, place: int) -> Callable[[], Any]:
        fields = operation.fields
        if operation.kind == "launch":
            launches: list[Launch] = fields["launches"]
            return self.bound(self.kernels[launches[0].kernel], launches[self.choices.get(place, 0)])
        if operation.kind == "fill":
            view, value = self.tensor(fields["view"]), fields["value"]
            return lambda: view.fill_(value)
        if operation.kind == "copy":
            target, source = self.tensor(fields["target"]), self.tensor(fields["source"])
            return lambda: target.copy_(source)
        return lambda: self.step(operation, place)


def _gpu_ms(call: Callable[[], Any]) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


class CudaDevice(Service):
    """One process on one GPU, for one candidate at a time."""

    def __init__(self, device: int) -> None:
        self.device = f"cuda:{device}"
        self._index = device
        self.arena: Mapping | None = None
        self.sessions: dict[str, tuple[CudaSession, Candidate]] = {}
        self._flush: torch.Tensor | None = None
        self._reference: Callable[[], Any] | None = None
        torch.cuda.set_device(device)
        torch.zeros(1, device=self.device)

    def answer(
        self, body: dict[str, Any], tensors: list[torch.Tensor], outputs: list[torch.Tensor]
    ) -> dict[str, Any]:
        command = body.pop("command")
        with self._failures(), torch.no_grad():
            answer: dict[str, Any] = getattr(self, f"_{command}_command")(**body)
            torch.cuda.synchronize()
            return answer

    # -- one candidate -----------------------------------------------------------------------------------------

    def _arena_command(self, handle: str, size: int, tf32: bool) -> dict[str, Any]:
        """Begin a hearing: map the judge's arena, set the precision flags."""
        self._close_command()
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = tf32
        self.arena = open_arena(handle, size, self._index)
        return {}

    def _close_command(self) -> dict[str, Any]:
        """End a hearing: forget everything of the candidate's."""
        self.sessions.clear()
        self._reference = None
        if self.arena is not None:
            torch.cuda.synchronize()
            self.arena.close()
            self.arena = None
        if torch.cuda.memory_reserved() > 4 << 30:
            torch.cuda.empty_cache()
        return {}

    def _open_command(
        self, key: str, trace: dict[str, Any], state: dict[str, Any], blobs: list[Any]
    ) -> dict[str, Any]:
        """Memory for one shape, with constants as given and weights as the reference has them."""
        assert self.arena is not None
        candidate = Candidate(trace)
        session = CudaSession(self.device, Kernels(trace["kernels"]))
        for storage, size, blob in candidate.constants:
            memory = session.provide(storage, size)
            if blob >= 0:
                memory.copy_(locate(self.arena, blobs[blob]).view(torch.uint8).reshape(-1)[:size])
        for name, view in candidate.state.items():
            session.tensor(view).copy_(locate(self.arena, state[name]))
        self.sessions[key] = session, candidate
        return {}

    def _run_command(
        self, key: str, call: int, ablate: bool, inputs: list[Any], outputs: list[Any]
    ) -> dict[str, Any]:
        """One call on the arena's inputs; outputs are copied to the places given."""
        assert self.arena is not None
        session, candidate = self.sessions[key]
        tape, views = candidate.tapes[call], candidate.inputs[call]
        given = [locate(self.arena, item) for item in inputs]
        tuned = set(session.choices)
        session.ablated = ablate
        self._play(session, tape, views, given)
        if set(session.choices) != tuned:
            self._play(session, tape, views, given)  # tuning left its marks
        changed = [
            index
            for index, (view, tensor) in enumerate(zip(views, given, strict=True))
            if not _same_bytes(session.tensor(view), tensor)
        ]
        trespass = session.trespassed()
        if trespass:
            raise Failure(Outcome.OUT_OF_BOUNDS, trespass)
        for view, described in zip(tape.outputs(), outputs, strict=True):
            locate(self.arena, described).copy_(session.tensor(view))
        return {"changed": changed}

    def _play(self, session: CudaSession, tape: Tape, views: list[View], given: list[torch.Tensor]) -> None:
        for view, tensor in zip(views, given, strict=True):
            session.bind(view, tensor)
        session.play(tape)
        torch.cuda.synchronize()

    # -- the clock ---------------------------------------------------------------------------------------------

    def _reference_command(
        self, key: str, task: dict[str, Any], sizes: dict[str, int], inputs: Any, compiled: bool, own: bool
    ) -> dict[str, Any]:
        """The task's own module, to be called on the inputs that the candidate's session holds."""
        session, candidate = self.sessions[key]
        if own:  # the candidate against itself: what the clock's noise is
            self._reference = session.prepared(candidate.steady)
            return {}
        module: Any = oracle.Reference(Task.model_validate(task), sizes, self.device).build().to(self.device)
        if compiled:
            module = torch.compile(module)
        arguments = channel.decode(inputs, [session.tensor(view) for view in candidate.inputs[-1]])
        self._reference = lambda: module(*arguments)
        self._reference()
        return {}

    def _time_command(self, key: str, budget_s: float, half_width: float) -> dict[str, Any]:
        """Medians of rounds that alternate candidate and reference, in ms of GPU time.

        The GPU is kept busy while the host enqueues, so that what is clocked is the device's work and not the
        interpreter's that launches it, for both alike.
        """
        session, candidate = self.sessions[key]
        sides = [session.prepared(candidate.steady)]
        if self._reference is not None:
            sides.append(self._reference)
        delays = [self._delay(side) for side in sides]
        first = [
            statistics.median(self._clock(side, delay, 3)) for side, delay in zip(sides, delays, strict=True)
        ]
        calls = max(3, min(20, math.ceil(_ROUND_MS / max(sum(first), 1e-3))))
        rounds: list[list[float]] = []
        end = time.perf_counter() + budget_s
        while len(rounds) < _MOST_ROUNDS:
            order = range(len(sides)) if len(rounds) % 2 == 0 else reversed(range(len(sides)))
            medians = [0.0] * len(sides)
            for index in order:
                medians[index] = statistics.median(self._clock(sides[index], delays[index], calls))
            rounds.append(medians)
            if len(rounds) >= _LEAST_ROUNDS:
                ratios = timing.geometric([entry[-1] / entry[0] for entry in rounds])
                own = timing.geometric([entry[0] for entry in rounds])
                if max(ratios.half_width, own.half_width) <= half_width or time.perf_counter() > end:
                    break
        return {"rounds": rounds, "calls": calls}

    def _batch_command(self, key: str, reference: bool, calls: int) -> dict[str, Any]:
        """`calls` flushed calls behind one delay, without any clock here: the judge's own is on it."""
        session, candidate = self.sessions[key]
        side = session.prepared(candidate.steady)
        if reference:
            assert self._reference is not None
            side = self._reference
        flush = self._flusher()
        torch.cuda._sleep(_SLEEP_CYCLES_PER_US * 4000)
        for _ in range(calls):
            flush.zero_()
            side()
        return {}

    def _flush_command(self, calls: int) -> dict[str, Any]:
        """Milliseconds that a flush takes."""
        flush = self._flusher()
        flush.zero_()
        return {"ms": statistics.median(_gpu_ms(flush.zero_) for _ in range(calls))}

    def _flusher(self) -> torch.Tensor:
        if self._flush is None:
            self._flush = torch.empty(_FLUSH_BYTES, dtype=torch.int8, device=self.device)
        return self._flush

    def _delay(self, side: Callable[[], Any]) -> int:
        """Cycles to keep the GPU busy while the host enqueues one call."""
        side()
        torch.cuda.synchronize()
        worst = 0.0
        for _ in range(3):
            start = time.perf_counter()
            side()
            worst = max(worst, time.perf_counter() - start)
            torch.cuda.synchronize()
        return int(_SLEEP_CYCLES_PER_US * min(1.5e6 * worst + 30.0, 20_000.0))

    def _clock(self, side: Callable[[], Any], delay: int, calls: int) -> list[float]:
        flush = self._flusher()
        pairs = []
        for _ in range(calls):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            flush.zero_()
            torch.cuda._sleep(delay)
            start.record()
            side()
            end.record()
            pairs.append((start, end))
        torch.cuda.synchronize()
        return [max(start.elapsed_time(end), 1e-6) for start, end in pairs]

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """Sorts what compiling and running kernels can raise."""
        try:
            yield
        except NotAKernel as error:
            raise Failure(Outcome.COMPILE_ERROR, str(error)) from None
        except OutOfResources as error:
            raise Failure(Outcome.OUT_OF_RESOURCES, str(error)) from None
        except torch.OutOfMemoryError as error:
            raise Failure(Outcome.OUT_OF_MEMORY, str(error)[:200]) from None
        except CompilationError as error:
            raise Failure(Outcome.COMPILE_ERROR, crosscompile.shorten(error)) from None
        except (
            RuntimeError,
            ValueError,
            TypeError,
            KeyError,
            AttributeError,
            NotImplementedError,
            AssertionError,
        ) as error:
            text = f"{type(error).__name__}: {error}"
            if "illegal memory access" in text or "misaligned address" in text:
                raise Failure(Outcome.OUT_OF_BOUNDS, text[:200]) from None
            if "ptxas" in text.lower() or "PassManager" in text:
                raise Failure(Outcome.COMPILE_ERROR, text[:400]) from None
            raise Failure(Outcome.RUNTIME_ERROR, text[:400]) from None


def _same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bitwise equality, so that NaNs count as themselves."""
    sizes = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    kind = sizes[a.element_size()]
    return bool(torch.equal(a.contiguous().view(kind), b.contiguous().view(kind)))
