"""The device that is there: tapes played on a GPU by a trusted process, correctness and clock alike.

No Python of a candidate's runs here, only kernels that passed `trace/kernels.py`; so the process and its CUDA context serve
one candidate after another, the clock is ours, and a kernel that breaks the context costs a new process. Inputs and
outputs travel through the judge's arena (`gpu/memory.py`).

Commands: compile (every kernel, before the GPU is asked for anything); arena; open (one shape); run (one call);
compare_state; reference (the task's module, for the clock); time; share; batch; flush; close. Without a candidate:
compile_reference; time_reference.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import resource
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
import triton
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources

from kernelwright.errors import InfrastructureError
from kernelwright.outcomes import Outcome
from kernelwright.records import Task
from kernelwright.verify.cost import crosscompile, footprint
from kernelwright.verify.gpu.admission import ran_out
from kernelwright.verify.gpu.clock import Clock, Inputs, Side, gpu_ms
from kernelwright.verify.gpu.memory import (
    GUARD_BYTE,
    ON_GPU,
    Mapping,
    Raw,
    Scattered,
    Slot,
    locate,
    open_arena,
)
from kernelwright.verify.reference.rounded import set_flags
from kernelwright.verify.reference.task_module import Reference
from kernelwright.verify.sandbox import channel
from kernelwright.verify.sandbox.service import Failure, Service
from kernelwright.verify.trace.kernels import Kernels, NotAKernel
from kernelwright.verify.trace.replay import Candidate, Session
from kernelwright.verify.trace.tape import Launch, Operation, Tape, View

_MACHINE = (
    "no cuda-capable device", "busy or unavailable", "ecc error", "nvlink", "invalid device ordinal", "gpu is lost",
    "driver shutting down", "system not yet initialized", "system has unsupported display driver",
)  # fmt: skip
"""Errors of the driver's that no kernel brings about."""
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.EMFILE, errno.ENFILE)
_PAD = 512
"""Bytes before and behind every storage, whose pattern must survive."""
_HOST_BYTES = 24 << 30
_TUNE_CALLS = 5
_HOARD_BYTES = 1 << 30
"""GPU memory that an idle process may keep for itself."""
_PRUNE_EVERY, _PRUNE_BYTES, _PRUNE_AGE_S = 256, 4 << 30, 3600.0
"""Compiled kernels beyond so many bytes go, those that nobody made or asked for in the last hour."""


class _Stand:
    """Stands for a tensor where only its type and alignment matter: what a kernel is compiled for."""

    def __init__(self, view: View) -> None:
        self.dtype, self._offset = channel.DTYPES[view.dtype], view.offset * view.itemsize

    def data_ptr(self) -> int:
        return _PAD + self._offset

    def ptr_range(self) -> int:
        return 0


def _standing(kernels: Kernels, value: dict[str, Any]) -> Any:
    """A launch argument with stands for tensors."""
    if "view" in value:
        return _Stand(View.read(value["view"]))
    if "tuple" in value:
        return tuple(_standing(kernels, item) for item in value["tuple"])
    return kernels.argument(value)


def _has_descriptor(value: dict[str, Any]) -> bool:
    """Whether a launch argument is a descriptor, or holds one."""
    return "descriptor" in value or any(map(_has_descriptor, value.get("tuple", ())))


class CudaSession(Session):
    """Launches go to the GPU; tuning tries every configuration there."""

    def __init__(self, device: str, kernels: Kernels) -> None:
        super().__init__(device, kernels)
        self.choices: dict[int, int] = {}
        self.binaries: dict[int, Any] = {}
        """What the compiler made of each launch that ran, by its place on the tape."""
        self._first: dict[int, torch.Tensor] = {}
        """What lives on from call to call and is no weight, as the first steady call found it."""
        self._moving: list[tuple[torch.Tensor, torch.Tensor]] = []
        """Weights and buffers that the reference changes, and what they hold before a call."""
        self._padded: dict[int, tuple[torch.Tensor, int]] = {}

    def provide(self, storage: int, size: int) -> torch.Tensor:
        """Fresh memory under a number, with padding around it; what it replaces goes first."""
        self._padded.pop(storage, None)
        self.storages.pop(storage, None)
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

    def forget(self, needed: set[int]) -> None:
        """Let go of every storage but those `needed`."""
        for storage in self.storages.keys() - needed:
            del self.storages[storage]
            self._padded.pop(storage, None)
            self._former.pop(storage, None)

    def trespassed(self) -> str:
        """Whether anything was written around a storage: a description, or an empty string."""
        for storage, (whole, size) in self._padded.items():
            for part in (whole[:_PAD], whole[_PAD + size :]):
                if not bool((part == GUARD_BYTE).all()):
                    return f"a kernel wrote outside of a tensor of {size} bytes (storage {storage})"
        return ""

    def launch(self, kernel: object, launches: list[Launch], place: int) -> None:
        if len(launches) > 1 and place not in self.choices:
            self.choices[place] = self._tune(kernel, launches)
        self.binaries[place] = self.bound(kernel, launches[self.choices.get(place, 0)])()

    def bound(self, kernel: Any, launch: Launch) -> Callable[[], Any]:
        """A launch with its arguments in place. A grid without programs launches nothing."""
        if launch.programs == 0:
            return lambda: None
        arguments = {name: self.argument(value) for name, value in launch.arguments.items()}
        runner = kernel[launch.grid]
        return lambda: runner(**arguments, **launch.options)

    def _tune(self, kernel: object, launches: list[Launch]) -> int:
        """Index of the fastest configuration. Writes over memory: play the tape afresh afterwards."""
        times = []
        for launch in launches:
            call = self.bound(kernel, launch)
            try:
                call()
                times.append(min(gpu_ms(call) for _ in range(_TUNE_CALLS)))
            except (OutOfResources, CompilationError):
                times.append(math.inf)
        if min(times) == math.inf:
            self.bound(kernel, launches[0])()  # raises what the first one raises
        return times.index(min(times))

    def prepared(self, tape: Tape) -> Side:
        """The tape as one call that allocates nothing, to be timed, and what is done to memory before each call: what the call
        makes is poisoned, and all that lives on is as it was at first."""
        steps: list[tuple[bool, Callable[[], object]]] = []
        fresh: list[tuple[torch.Tensor, str]] = []
        for place, operation in enumerate(tape.operations):
            if operation.kind == "alloc":
                storage, size = operation.fields["storage"], operation.fields["bytes"]
                if storage not in self.storages:
                    self.provide(storage, size)
                fresh.append((self._bytes(storage)[:size], operation.fields["dtype"]))
            else:
                steps.append((operation.kind == "launch", self._step(operation, place)))

        def play() -> None:
            for _, step in steps:
                step()

        def poison() -> None:
            self.begin_anew()
            self.refill()
            for memory, dtype in fresh:
                self.poison(memory, dtype)

        return Side(play, poison, steps)

    def remember(self, storages: Iterable[int]) -> None:
        """What lives on from call to call and is no weight, as the first steady call will find it."""
        self._first = {number: self._bytes(number).clone() for number in storages if number in self.storages}

    def hold_still(self, moving: Iterable[View]) -> None:
        """Let every call begin with what these views hold now, as each of the reference's does."""
        self._moving = [(self.tensor(view), self.tensor(view).clone()) for view in moving]

    def put_back(self) -> None:
        """What the reference changes is as it was before the first call."""
        for held, then in self._moving:
            held.copy_(then)

    def begin_anew(self) -> None:
        """Put back what was remembered, whether it changed or not: clocked calls start where the first one began whose values
        were checked, so that no count of calls tells them apart, and none learns of the one before."""
        self.put_back()
        for number, then in self._first.items():
            if number in self.storages:
                self._bytes(number).copy_(then)

    def _bytes(self, storage: int) -> torch.Tensor:
        memory = torch.empty(0, dtype=torch.uint8, device=self.device)
        return memory.set_(self.storages[storage], 0, (self.storages[storage].nbytes(),), (1,))

    def _step(self, operation: Operation, place: int) -> Callable[[], object]:
        fields = operation.fields
        if operation.kind == "launch":
            launches: list[Launch] = fields["launches"]
            return self.bound(self.kernels[launches[0].kernel], launches[self.choices.get(place, 0)])
        if operation.kind == "fill":
            view, value = self.tensor(fields["view"]), fields["value"]
            return lambda: view.fill_(value)
        if operation.kind == "numbers":
            view, numbers = self.tensor(fields["view"]), self.numbers(fields).to(self.device)
            return lambda: view.copy_(numbers)
        if operation.kind == "copy":
            target, source = self.tensor(fields["target"]), self.tensor(fields["source"])
            return lambda: target.copy_(source)
        return lambda: self.step(operation, place)


class CudaDevice(Service):
    """One process on one GPU, for one candidate at a time."""

    def __init__(self, device: int) -> None:
        self.device = f"cuda:{device}"
        self._index = device
        self.arena: Mapping | None = None
        self.sessions: dict[str, tuple[CudaSession, Candidate]] = {}
        self._built: dict[str, Any] = {}
        self._sides: list[Side] = []
        """What is clocked: the candidate, and the reference where there is one."""
        torch.cuda.set_device(device)
        self._clock = Clock(self.device)
        triton.set_allocator(self._scratch)
        self._verifications = 0
        _limit_host_memory()

    def _scratch(self, size: int, alignment: int, stream: int | None) -> torch.Tensor:
        """Memory that Triton asks for by itself, for descriptors that a kernel makes."""
        if size > footprint.ALLOWANCE * torch.cuda.get_device_properties(self._index).total_memory:
            raise Failure(Outcome.OUT_OF_MEMORY, f"a kernel asks for {size / 1e9:.0f} GB of scratch")
        return torch.empty(size, dtype=torch.int8, device=self.device)

    def answer(
        self, body: dict[str, Any], tensors: list[torch.Tensor], outputs: list[torch.Tensor]
    ) -> dict[str, Any]:
        command = body.pop("command")
        with self._failures(), torch.no_grad():
            answer: dict[str, Any] = getattr(self, f"_{command}_command")(**body)
            torch.cuda.synchronize()
            return answer

    # -- one candidate -----------------------------------------------------------------------------------------

    def _compile_command(self, traces: list[dict[str, Any]]) -> dict[str, Any]:
        """Begin a verification: compile what every call launches. Host work only, so others may be clocked meanwhile."""
        self._close_command()
        for trace in traces:
            kernels = Kernels(trace["kernels"], self._built)
            for tape in Candidate(trace).tapes:
                for operation in tape.operations:
                    if operation.kind == "launch":
                        self._compile(kernels, operation.fields["launches"])
        return {}

    def _compile(self, kernels: Kernels, launches: list[Launch]) -> None:
        """Every configuration of one launch; among several, some may fail."""
        failures = []
        for launch in launches:
            if launch.programs == 0 or any(map(_has_descriptor, launch.arguments.values())):
                continue  # what has a descriptor is compiled when it runs
            arguments = {name: _standing(kernels, value) for name, value in launch.arguments.items()}
            try:
                kernels[launch.kernel].warmup(grid=launch.grid, **arguments, **launch.options)
            except CompilationError as error:
                failures.append(error)
        if failures and len(failures) == len(launches):
            raise failures[0]

    def _arena_command(self, handle: str, size: int, flags: dict[str, bool]) -> dict[str, object]:
        """Map the judge's arena, set the precision flags: the same for candidate and reference."""
        set_flags(**flags)
        self.arena = open_arena(handle, size, self._index)
        return {}

    def _close_command(self) -> dict[str, Any]:
        """End a verification: forget everything of the candidate's."""
        self.sessions.clear()
        self._sides.clear()
        self._built.clear()
        if self.arena is not None:
            torch.cuda.synchronize()
            self.arena.close()
            self.arena = None
        if torch.cuda.memory_reserved() > _HOARD_BYTES:
            torch.cuda.empty_cache()
        self._verifications += 1
        if self._verifications % _PRUNE_EVERY == 0:
            _prune(Path(os.environ["TRITON_CACHE_DIR"]))
        return {}

    def _open_command(
        self, key: str, trace: dict[str, Any], state: dict[str, Slot], blobs: list[Slot], moving: list[str]
    ) -> dict[str, object]:
        """Memory for one shape, with constants as given and weights as the reference has them, of which it changes those `moving`."""
        assert self.arena is not None
        candidate = Candidate(trace)
        session = CudaSession(self.device, Kernels(trace["kernels"], self._built))
        for storage, size, blob in candidate.constants:
            memory = session.provide(storage, size)
            if blob >= 0:
                memory.copy_(locate(self.arena, blobs[blob]).view(torch.uint8).reshape(-1)[:size])
        for name, view in candidate.state.items():
            session.tensor(view).copy_(locate(self.arena, state[name]))
        self.sessions[key] = session, candidate
        session.hold_still(candidate.state[name] for name in moving)
        session.remember(_kept_by(candidate))
        return {}

    def _run_command(
        self, key: str, call: int, ablate: bool, inputs: list[Slot], outputs: list[Slot]
    ) -> dict[str, Any]:
        """One call on the arena's inputs; outputs are copied to the places given."""
        assert self.arena is not None
        session, candidate = self.sessions[key]
        tape, views = candidate.tapes[call], candidate.inputs[call]
        given = [locate(self.arena, item) for item in inputs]
        session.forget(footprint.lasting(candidate) | set(tape.foreign) | _storages_made(tape))
        tuned = set(session.choices)
        session.ablated = ablate
        session.put_back()
        self._play(session, tape, views, given)
        if set(session.choices) != tuned:
            session.put_back()
            self._play(session, tape, views, given)  # tuning left its marks
        if call != -1:
            session.remember(_kept_by(candidate))
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

    def _compare_state_command(self, key: str, state: dict[str, Slot]) -> dict[str, object]:
        """Names of the weights that are not as the arena has them."""
        assert self.arena is not None
        session, candidate = self.sessions[key]
        changed = []
        for name, view in candidate.state.items():
            held = session.tensor(view)
            if not _same_bytes(held, torch.empty_like(held).copy_(locate(self.arena, state[name]))):
                changed.append(name)
        return {"changed": changed}

    def _play(self, session: CudaSession, tape: Tape, views: list[View], given: list[torch.Tensor]) -> None:
        for view, tensor in zip(views, given, strict=True):
            session.bind(view, tensor)
        session.play(tape)
        torch.cuda.synchronize()

    # -- the clock ---------------------------------------------------------------------------------------------

    def _reference_command(
        self, key: str, task: dict[str, object], sizes: dict[str, int], inputs: object, own: bool
    ) -> dict[str, object]:
        """The task's own module beside the candidate, to be called on the inputs that its session holds."""
        session, candidate = self.sessions[key]
        self._sides = [session.prepared(candidate.steady)]
        if own:  # the candidate against itself: what the clock's noise is
            self._sides.append(session.prepared(candidate.steady))
            return {}
        stated = Task.model_validate(task)
        module = Reference(stated, sizes, self.device).build_there()
        arguments = channel.decode(inputs, [session.tensor(view) for view in candidate.inputs[-1]])
        self._sides.append(Side(lambda: module(*arguments)))
        self._sides[-1].call()
        return {}

    def _compile_reference_command(
        self, task: dict[str, object], sizes: dict[str, int], seed: int
    ) -> dict[str, object]:
        """A reference under torch.compile and as it is, without any candidate."""
        reference = Reference(Task.model_validate(task), sizes, self.device)
        set_flags(**reference.precision.flags)
        module, inputs = reference.build().to(self.device), reference.inputs(seed)
        compiled = torch.compile(module)
        self._sides = [Side(lambda: compiled(*inputs)), Side(lambda: module(*inputs))]
        for side in self._sides:
            side.call()
        return {}

    def _time_reference_command(self) -> dict[str, object]:
        return self._clock.rounds(self._sides, Inputs([], [], []))

    def _time_command(
        self,
        key: str,
        audited: list[Slot],
        unseen: list[Scattered],
        outputs: list[Slot],
        anew: bool,
        precision: float,
    ) -> dict[str, object]:
        """See `Clock.rounds`. What the audited call wrote is copied to the places given."""
        assert self.arena is not None
        arena = self.arena
        session, candidate = self.sessions[key]
        views = candidate.steady.outputs()

        def audit() -> None:
            for view, described in zip(views, outputs, strict=True):
                locate(arena, described).copy_(session.tensor(view))

        inputs = Inputs(
            [session.tensor(view) for view in candidate.inputs[-1]],
            [locate(arena, item) for item in audited],
            [{"at": item["at"], "values": locate(arena, item)} for item in unseen],
        )
        answer = self._clock.rounds(self._sides, inputs, audit, anew, precision)
        return answer | {"binaries": [_report(binary) for binary in session.binaries.values() if binary]}

    def _batch_command(self, reference: bool, calls: int, most: int) -> dict[str, object]:
        """One batch, behind the delay of the largest, so that a line through batches has the calls' slope alone."""
        cycles, least = self._clock.batch_delay(self._sides, most)
        self._clock.batch(self._sides[int(reference)], calls, cycles)
        return {"delay_ms": least}

    def _share_command(self) -> dict[str, object]:
        """Share of the GPU time of a call that is spent in the candidate's kernels."""
        kernels, whole = self._clock.share(self._sides[0])
        return {"share": kernels / whole}

    def _flush_command(self, calls: int) -> dict[str, object]:
        return {"ms": self._clock.flush_ms(calls)}

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """Sorts what compiling and running kernels can raise."""
        try:
            yield
        except NotAKernel as error:
            raise Failure(Outcome.COMPILE_ERROR, str(error)) from None
        except OutOfResources as error:
            raise Failure(Outcome.OUT_OF_RESOURCES, str(error)) from None
        except (Failure, InfrastructureError):
            raise
        except torch.OutOfMemoryError as error:
            raise Failure(Outcome.OUT_OF_MEMORY, f"{ON_GPU}: {error}"[:400]) from None
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
            if any(sign in text.lower() for sign in _MACHINE):
                raise InfrastructureError(text[:400]) from None
            if ran_out(error):
                raise Failure(Outcome.OUT_OF_MEMORY, f"{ON_GPU}: {text}"[:400]) from None
            if "illegal memory access" in text or "misaligned address" in text:
                raise Failure(Outcome.OUT_OF_BOUNDS, text[:200]) from None
            if "ptxas" in text.lower() or "PassManager" in text:
                raise Failure(Outcome.COMPILE_ERROR, text[:400]) from None
            raise Failure(Outcome.RUNTIME_ERROR, text[:400]) from None
        except OSError as error:  # compiled kernels are written to a disk, under their names
            text = f"{type(error).__name__}: {error}"
            if error.errno not in _DISK:
                raise Failure(Outcome.COMPILE_ERROR, text[:200]) from None
            raise InfrastructureError(text[:400]) from None
        except Exception as error:  # whatever a tape or a kernel makes this code raise is the candidate's
            raise Failure(Outcome.RUNTIME_ERROR, f"{type(error).__name__}: {error}"[:400]) from None


def _kept_by(candidate: Candidate) -> set[int]:
    """Storages that live on from call to call and hold neither inputs nor weights, whoever made them."""
    kept = {storage for storage, _, _ in candidate.constants} | set(candidate.steady.foreign)
    given = {view.storage for view in (*candidate.inputs[-1], *candidate.state.values())}
    return kept - given


def _storages_made(tape: Tape) -> set[int]:
    """Storages that a call makes."""
    made = {step.fields["storage"] for step in tape.operations if step.kind == "alloc"}
    return made | {view.storage for step in tape.operations for view in step.fields.get("results", ())}


def _limit_host_memory() -> None:
    """Compiling must not eat the machine: so much more than the CUDA context has mapped by now."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"^VmData:\s+(\d+) kB", status, re.MULTILINE)
    if found:
        limit = 1024 * int(found.group(1)) + _HOST_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _prune(folder: Path) -> None:
    """Let go of the oldest compiled kernels where there are too many of them."""
    entries = []
    for entry in folder.iterdir():
        with contextlib.suppress(OSError):  # another process prunes, too
            files = [file.stat() for file in entry.iterdir()] if entry.is_dir() else [entry.stat()]
            used = max((max(file.st_atime, file.st_mtime) for file in files), default=0.0)
            entries.append((used, sum(file.st_size for file in files), entry))
    total = sum(size for _, size, _ in entries)
    for used, size, entry in sorted(entries):
        if total <= _PRUNE_BYTES or used > time.time() - _PRUNE_AGE_S:
            break
        shutil.rmtree(entry, ignore_errors=True)
        total -= size


def _report(binary: Any) -> dict[str, object]:
    """What the driver says of a loaded kernel."""
    return {
        "kernel": str(binary.name),
        "registers": int(binary.n_regs),
        "spills": 4 * int(binary.n_spills),
        "shared_bytes": int(binary.metadata.shared),
        "num_warps": int(binary.metadata.num_warps),
    }


def _same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bitwise equality, so that NaNs count as themselves."""
    sizes = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    kind = sizes[a.element_size()]
    return bool(torch.equal(a.contiguous().view(kind), b.contiguous().view(kind)))
