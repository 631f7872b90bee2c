"""The device process: trusted code that replays tapes on a GPU, to check and to time them.

No candidate's Python runs here, only kernels that passed `trace/kernels.py`. So one process and its CUDA context serve
one candidate after another and times are genuine; a kernel that breaks the context costs a new process. Inputs and
outputs travel through the judge's arena (`gpu/memory.py`).

Commands: compile (every kernel, before the GPU is needed); arena; open (one shape); run (one call); compare_state;
reference (the task's module, to be timed); time; share; batch; flush; close. Without a candidate: compile_reference;
time_reference.
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

_MACHINE_ERRORS = (
    "no cuda-capable device", "busy or unavailable", "ecc error", "nvlink", "invalid device ordinal", "gpu is lost",
    "driver shutting down", "system not yet initialized", "system has unsupported display driver",
)  # fmt: skip
"""Driver errors that no kernel can cause."""
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.EMFILE, errno.ENFILE)
_PAD = 512
"""Guard bytes before and after every storage; a kernel that changes them wrote out of bounds."""
_HOST_BYTES = 24 << 30
_TUNE_CALLS = 5
_HOARD_BYTES = 1 << 30
"""GPU memory that an idle process's allocator may keep."""
_PRUNE_EVERY, _PRUNE_BYTES, _PRUNE_AGE_S = 256, 4 << 30, 3600.0
"""Every 256 verifications, compiled kernels unused for an hour are deleted, oldest first, until 4 GiB are left."""


class _StandIn:
    """Stands in for a tensor when a kernel is compiled, for which only dtype and alignment matter."""

    def __init__(self, view: View) -> None:
        self.dtype, self._offset = channel.DTYPES[view.dtype], view.offset * view.itemsize

    def data_ptr(self) -> int:
        return _PAD + self._offset

    def ptr_range(self) -> int:
        return 0


def _with_stand_ins(kernels: Kernels, value: dict[str, Any]) -> Any:
    """A launch argument with stand-ins for tensors."""
    if "view" in value:
        return _StandIn(View.read(value["view"]))
    if "tuple" in value:
        return tuple(_with_stand_ins(kernels, item) for item in value["tuple"])
    return kernels.argument(value)


def _has_descriptor(value: dict[str, Any]) -> bool:
    """Whether a launch argument is a descriptor, or holds one."""
    return "descriptor" in value or any(map(_has_descriptor, value.get("tuple", ())))


class CudaSession(Session):
    """Launches kernels on the GPU, and tunes by trying every configuration there."""

    def __init__(self, device: str, kernels: Kernels) -> None:
        super().__init__(device, kernels)
        self.choices: dict[int, int] = {}
        self.binaries: dict[int, Any] = {}
        """The compiled kernel of each launch that ran, by its place on the tape."""
        self._first: dict[int, torch.Tensor] = {}
        """Memory other than weights that persists between calls, with its contents before the first steady call."""
        self._moving: list[tuple[torch.Tensor, torch.Tensor]] = []
        """Weights and buffers that the reference changes, and their contents before a call."""
        self._padded: dict[int, tuple[torch.Tensor, int]] = {}

    def provide(self, storage: int, size: int) -> torch.Tensor:
        """Allocate memory for a storage number, with guards around it, after freeing what had this number."""
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
        """Free every storage but those `needed`."""
        for storage in self.storages.keys() - needed:
            del self.storages[storage]
            self._padded.pop(storage, None)
            self._former.pop(storage, None)

    def find_trespass(self) -> str:
        """Describe a write into the guards around a storage; empty if there was none."""
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
        """A function that launches the kernel with its arguments. An empty grid launches nothing."""
        if launch.programs == 0:
            return lambda: None
        arguments = {name: self.argument(value) for name, value in launch.arguments.items()}
        runner = kernel[launch.grid]
        return lambda: runner(**arguments, **launch.options)

    def _tune(self, kernel: object, launches: list[Launch]) -> int:
        """Index of the fastest configuration. Overwrites outputs: replay the tape afterwards."""
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

    def prepare_call(self, tape: Tape) -> Side:
        """The tape as a call that allocates nothing, to be timed. Before each call, the memory it would allocate is poisoned
        and all persistent memory restored."""
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
        """Save the contents of persistent storages other than weights, as the first steady call will find them."""
        self._first = {number: self._bytes(number).clone() for number in storages if number in self.storages}

    def hold_still(self, moving: Iterable[View]) -> None:
        """Let every call begin with the present contents of these views, as each call of the reference does."""
        self._moving = [(self.tensor(view), self.tensor(view).clone()) for view in moving]

    def put_back(self) -> None:
        """Restore what the reference changes to its contents before the first call."""
        for held, then in self._moving:
            held.copy_(then)

    def begin_anew(self) -> None:
        """Restore all that was remembered, changed or not. Each timed call starts in the state of the first checked call, so a
        kernel can neither count calls nor reuse results of an earlier one."""
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
        """What is timed: the candidate and, if there is one, the reference."""
        torch.cuda.set_device(device)
        self._clock = Clock(self.device)
        triton.set_allocator(self._scratch)
        self._verifications = 0
        _limit_host_memory()

    def _scratch(self, size: int, alignment: int, stream: int | None) -> torch.Tensor:
        """Memory that Triton itself requests, for descriptors made inside a kernel."""
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
        """Begin a verification: compile the kernels of every call. Host work only, so the GPU may time others meanwhile."""
        self._close_command()
        for trace in traces:
            kernels = Kernels(trace["kernels"], self._built)
            for tape in Candidate(trace).tapes:
                for operation in tape.operations:
                    if operation.kind == "launch":
                        self._compile(kernels, operation.fields["launches"])
        return {}

    def _compile(self, kernels: Kernels, launches: list[Launch]) -> None:
        """Compile every configuration of one launch. Raises CompilationError if all fail."""
        failures = []
        for launch in launches:
            if launch.programs == 0 or any(map(_has_descriptor, launch.arguments.values())):
                continue  # launches with descriptors are compiled when they run
            arguments = {name: _with_stand_ins(kernels, value) for name, value in launch.arguments.items()}
            try:
                kernels[launch.kernel].warmup(grid=launch.grid, **arguments, **launch.options)
            except CompilationError as error:
                failures.append(error)
        if failures and len(failures) == len(launches):
            raise failures[0]

    def _arena_command(self, handle: str, size: int, flags: dict[str, bool]) -> dict[str, object]:
        """Map the judge's arena and set the precision flags, which candidate and reference share."""
        set_flags(**flags)
        self.arena = open_arena(handle, size, self._index)
        return {}

    def _close_command(self) -> dict[str, Any]:
        """End a verification: drop all of the candidate's data."""
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
        """Allocate one shape's memory: constants from `blobs`, weights from the reference, which itself changes those `moving`."""
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
        """Run one call on the arena's inputs and copy its outputs to the slots given."""
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
            self._play(session, tape, views, given)  # tuning overwrote outputs
        if call != -1:
            session.remember(_kept_by(candidate))
        changed = [
            index
            for index, (view, tensor) in enumerate(zip(views, given, strict=True))
            if not _same_bytes(session.tensor(view), tensor)
        ]
        trespass = session.find_trespass()
        if trespass:
            raise Failure(Outcome.OUT_OF_BOUNDS, trespass)
        for view, described in zip(tape.outputs(), outputs, strict=True):
            locate(self.arena, described).copy_(session.tensor(view))
        return {"changed": changed}

    def _compare_state_command(self, key: str, state: dict[str, Slot]) -> dict[str, object]:
        """Names of the weights that differ from those in the arena."""
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
        """Build the task's module, to be timed on the inputs of the candidate's session."""
        session, candidate = self.sessions[key]
        self._sides = [session.prepare_call(candidate.steady)]
        if own:  # the candidate against itself, which measures the clock's noise
            self._sides.append(session.prepare_call(candidate.steady))
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
        """Build a reference under torch.compile and in eager mode, without any candidate."""
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
        """See `Clock.rounds`. The audited call's outputs are copied to the slots given."""
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
        """One batch, delayed as the largest is (`most` calls), so that the line through batches slopes by the calls alone."""
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
        """Turn exceptions of compiling and running kernels into outcomes."""
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
            if any(sign in text.lower() for sign in _MACHINE_ERRORS):
                raise InfrastructureError(text[:400]) from None
            if ran_out(error):
                raise Failure(Outcome.OUT_OF_MEMORY, f"{ON_GPU}: {text}"[:400]) from None
            if "illegal memory access" in text or "misaligned address" in text:
                raise Failure(Outcome.OUT_OF_BOUNDS, text[:200]) from None
            if "ptxas" in text.lower() or "PassManager" in text:
                raise Failure(Outcome.COMPILE_ERROR, text[:400]) from None
            raise Failure(Outcome.RUNTIME_ERROR, text[:400]) from None
        except OSError as error:  # compiled kernels are written to disk, under the names the candidate gave
            text = f"{type(error).__name__}: {error}"
            if error.errno not in _DISK_ERRORS:
                raise Failure(Outcome.COMPILE_ERROR, text[:200]) from None
            raise InfrastructureError(text[:400]) from None
        except Exception as error:  # anything else that a tape or a kernel causes is the candidate's fault
            raise Failure(Outcome.RUNTIME_ERROR, f"{type(error).__name__}: {error}"[:400]) from None


def _kept_by(candidate: Candidate) -> set[int]:
    """Storages that persist between calls and hold neither inputs nor weights."""
    kept = {storage for storage, _, _ in candidate.constants} | set(candidate.steady.foreign)
    given = {view.storage for view in (*candidate.inputs[-1], *candidate.state.values())}
    return kept - given


def _storages_made(tape: Tape) -> set[int]:
    """Storages that a call creates."""
    made = {step.fields["storage"] for step in tape.operations if step.kind == "alloc"}
    return made | {view.storage for step in tape.operations for view in step.fields.get("results", ())}


def _limit_host_memory() -> None:
    """Limit host memory to `_HOST_BYTES` beyond what the CUDA context has mapped, so that compiling cannot exhaust the machine."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"^VmData:\s+(\d+) kB", status, re.MULTILINE)
    if found:
        limit = 1024 * int(found.group(1)) + _HOST_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _prune(folder: Path) -> None:
    """Delete the oldest compiled kernels if they take too many bytes."""
    entries = []
    for entry in folder.iterdir():
        with contextlib.suppress(OSError):  # another process may delete them as well
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
    """The driver's figures of a loaded kernel."""
    return {
        "kernel": str(binary.name),
        "registers": int(binary.n_regs),
        "spills": 4 * int(binary.n_spills),
        "shared_bytes": int(binary.metadata.shared),
        "num_warps": int(binary.metadata.num_warps),
    }


def _same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bitwise equality, so that a NaN equals itself."""
    sizes = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    kind = sizes[a.element_size()]
    return bool(torch.equal(a.contiguous().view(kind), b.contiguous().view(kind)))
