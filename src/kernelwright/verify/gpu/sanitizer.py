"""An optional gate on a GPU: replay a candidate's tapes under NVIDIA's compute-sanitizer and read its report.

The tool runs a process of ours that allocates every storage at its exact size, without padding or caching, and plays
the tape of a small shape once per tuning alternative: every small shape under memcheck (a missing mask shows only at
ragged sizes), the first under racecheck. memcheck sees each access outside of an allocation, even inside a neighbour;
racecheck sees hazards in shared memory. Only findings inside the candidate's own kernels count. A hazard between
writes alone is reported but rejects nobody: Triton's own reductions make those on purpose (triton-lang/triton#7264).
If the tool is not installed the gate is skipped (`unavailable` says why).

Not covered: races in global memory (the interpreter checks those), other shapes, kernels that a verification does not run.
Source of the formats: NVIDIA Compute Sanitizer user guide, "Understanding Memcheck Errors", "Racecheck Report Modes".
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import glob
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from kernelwright.errors import InfrastructureError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Backend, Candidate, Task, Timing, Verdict
from kernelwright.verify.confined import Stop
from kernelwright.verify.judge import Judge
from kernelwright.verify.sandbox.zygote import Zygote
from kernelwright.verify.structures import describe, flatten
from kernelwright.verify.verification import Verification

if TYPE_CHECKING:
    import torch

    from kernelwright.verify.gpu.gpu import Gpu
    from kernelwright.verify.reference.oracle import ShapeCases
    from kernelwright.verify.trace.tape import Tape

Tool = Literal["memcheck", "racecheck"]
TOOLS: tuple[Tool, ...] = ("memcheck", "racecheck")
NAME = "compute-sanitizer"
LIMIT_S = 120.0
"""For one tool: it makes kernels, and Python's start, ten to a hundred times slower."""
_ALTERNATIVES = 8
"""Configurations of a tuned kernel that are replayed."""
_PLACES = (
    "/usr/local/cuda/bin",
    "/usr/local/cuda*/bin",
    "/usr/local/cuda*/compute-sanitizer",
    "/opt/cuda/bin",
)


@dataclasses.dataclass(frozen=True)
class Finding:
    """One finding of the tool, one per place in the code."""

    outcome: Outcome
    """`out_of_bounds` or `nondeterministic`."""
    kernel: str
    """Name of the kernel, without signature; empty if the report has none."""
    detail: str
    """One line."""
    certain: bool = True
    """False for the tool's warnings, and for hazards between writes alone."""


# -- finding the tool -----------------------------------------------------------------------------------------------


def find() -> Path | None:
    """The tool's path: from the PATH, CUDA_HOME, or CUDA's usual folders."""
    on_path = shutil.which(NAME)
    if on_path:
        return Path(on_path)
    homes = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    folders = [f"{home}/{below}" for home in homes if home for below in ("bin", NAME)]
    for pattern in (*folders, *_PLACES):
        for folder in sorted(glob.glob(pattern), reverse=True):
            path = Path(folder) / NAME
            if path.is_file() and os.access(path, os.X_OK):
                return path
    return None


@functools.cache
def version(tool: Path) -> str:
    """The tool's version, as it reports it."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        printed = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=20).stdout
        found = re.search(r"[Vv]ersion\s+([\d.]+)", printed)
        if found:
            return found[1]
    return "of unknown version"


def unavailable(backend: str) -> str:
    """Why the gate is skipped; empty if it is not."""
    if backend != "cuda":
        return "the sanitizer needs a GPU: skipped (the interpreter checks every access by itself)"
    if find() is None:
        return f"{NAME} is not installed: skipped (install NVIDIA's CUDA toolkit, or put it on the PATH)"
    return ""


# -- the report ------------------------------------------------------------------------------------------------

_PREFIX = re.compile(r"^=+ ?")
_INVALID = re.compile(r"^Invalid (?P<space>__\w+__) (?P<kind>[\w ]+?) of size (?P<size>[\d,]+)")
_ADDRESS = re.compile(r"^(?:Address|Access to|Access at) 0x[0-9a-f]+ (?P<what>is [\w ]+)", re.IGNORECASE)
_NEAREST = re.compile(r"^and is (?P<far>.+? the nearest allocation)")
_THREAD = re.compile(r"^by thread (?P<thread>\([\d, ]+\)) in block (?P<block>\([\d, ]+\))")
_RACE = re.compile(
    r"^(?P<level>error|warning|info): Race reported between (?P<kind>\w+) access at (?P<place>.+)", re.I
)
_OTHER = re.compile(r"^and (?P<kind>\w+) access at (?P<place>.+)", re.IGNORECASE)
_SUMMARY = re.compile(r"^(?:ERROR|RACECHECK) SUMMARY: (?P<count>[\d,]+)")
_PLACES_OF_CODE = (
    re.compile(r"^(?P<kernel>.+?)\+0x[0-9a-f]+(?: in (?P<file>\S+:\d+))?$", re.IGNORECASE),
    re.compile(r"^(?P<kernel>.+?):0x[0-9a-f]+(?: in (?P<file>\S+:\d+))?$", re.IGNORECASE),
    re.compile(r"^0x[0-9a-f]+ in (?P<file>[^:]+:\d+):(?P<kernel>.+)$", re.IGNORECASE),
    re.compile(r"^0x[0-9a-f]+ in (?P<file>\S+:\d+)$", re.IGNORECASE),
    re.compile(r"^0x[0-9a-f]+ in (?P<kernel>.+)$", re.IGNORECASE),
)


def parse(report: str) -> list[Finding]:
    """The distinct findings of one run, in the report's order. Lines not from the tool are skipped.

    Raises InfrastructureError for a report without a summary: the tool did not finish.
    """
    entries, whole = _entries(report)
    if not whole:
        last = next((line for line in reversed(report.splitlines()) if line.strip()), "it said nothing")
        raise InfrastructureError(f"{NAME} did not finish: {' '.join(last.split())[:200]}")
    found: dict[Finding, None] = {}
    for lines in entries:
        finding = _access(lines) or _race(lines)
        if finding is not None:
            found[finding] = None
    return list(found)


def _entries(report: str) -> tuple[list[list[str]], bool]:
    """(the tool's lines, one list per entry; whether the report has its summary)."""
    entries: list[list[str]] = [[]]
    whole = False
    for raw in report.splitlines():
        if not raw.startswith("====="):
            continue
        line = _PREFIX.sub("", raw).strip()
        whole |= _SUMMARY.match(line) is not None
        if not line or _INVALID.match(line) or _RACE.match(line):
            entries.append([])
        entries[-1].append(line)
    return entries, whole


def _access(lines: list[str]) -> Finding | None:
    """Parse a memory access error of memcheck."""
    head = _INVALID.match(lines[0])
    if head is None:
        return None
    kernel, where = "", ""
    what, who = "is not allowed", ""
    for line in lines[1:]:
        if line.startswith("at ") and not where:
            kernel, where = _place(line[3:])
        elif match := _ADDRESS.match(line):
            what = match["what"].strip()
        elif near := _NEAREST.match(line):
            what += f", {near['far']}"
        elif by := _THREAD.match(line):
            who = f" by thread {by['thread']} of program {by['block']}"
    detail = f"{head['kind']} of {head['size']} bytes in {head['space'].strip('_')} memory {what}{who}{where}"
    return Finding(Outcome.OUT_OF_BOUNDS, kernel, f"{kernel or 'a kernel'}: {detail}")


def _race(lines: list[str]) -> Finding | None:
    """Parse an analysis report of racecheck: accesses, at least two of them unordered."""
    head = _RACE.match(lines[0])
    if head is None:
        return None
    kernel, where = _place(head["place"])
    kinds, places = [head["kind"].lower()], [where]
    for line in lines[1:]:
        if other := _OTHER.match(line):
            kinds.append(other["kind"].lower())
            places.append(_place(other["place"])[1])
    between = " and ".join(
        f"a {kind}{place}" for kind, place in dict.fromkeys(zip(kinds, places, strict=True))
    )
    certain = head["level"].lower() == "error" and "read" in kinds
    detail = f"{kernel or 'a kernel'}: threads race in shared memory: {between}"
    return Finding(Outcome.NONDETERMINISTIC, kernel, detail, certain)


def _place(text: str) -> tuple[str, str]:
    """(kernel, ` at FILE:LINE` or nothing) of a code location, in any of the tool's formats."""
    text = re.sub(r"\s*\[[\d,]+ hazards?\]\s*$", "", text).strip()
    for pattern in _PLACES_OF_CODE:
        match = pattern.match(text)
        if match is not None:
            groups = match.groupdict()
            file = (groups.get("file") or "").rpartition("/")[2]
            return _bare(groups.get("kernel") or ""), f" at {file}" if file else ""
    return "", ""


def _bare(name: str) -> str:
    """A demangled name without return type, namespace, template arguments and signature."""
    name = re.sub(r"\(.*", "", re.sub(r"<.*>", "", name)).strip()
    return name.split()[-1].rpartition("::")[2] if name else ""


# -- the gate --------------------------------------------------------------------------------------------------


class WatchedVerification(Verification):
    """Replays an accepted candidate's tapes of small shapes under memcheck, the first under racecheck."""

    backend: Backend = "cuda"

    def __init__(
        self,
        judge: Judge,
        zygote: Zygote,
        task: Task,
        candidate: Candidate,
        accepted: Verdict,
        gpu: Gpu | None = None,
    ) -> None:
        """While the tool runs, `gpu` allows no timing; without one, device 0 is used without a lock."""
        super().__init__(judge, zygote, task, candidate)
        self.accepted, self.gpu = accepted, gpu
        self.seconds.update(accepted.evidence.seconds)
        self.facts = dict(accepted.evidence) | {"launches": accepted.evidence.launches}
        del self.facts["seconds"], self.facts["schema_version"]
        self.warnings: list[str] = []

    def verdict(self) -> Verdict:
        """The accepted verdict, with the tools' warnings as its detail; or a rejection."""
        found = super().verdict()
        if not found.correct:
            return found
        return self.accepted.model_copy(
            update={"detail": "; ".join(self.warnings)[:600], "evidence": found.evidence}
        )

    def _funnel(self) -> Timing | None:
        from kernelwright.verify.sandbox import channel

        device, busy = (
            (0, contextlib.nullcontext) if self.gpu is None else (self.gpu.index, self.gpu.lock.busy)
        )
        try:
            for number, shape in enumerate(self.judge.cases(self.task)):
                kernels, body, tensors = self._replay(shape)
                for tool in TOOLS if number == 0 else TOOLS[:1]:
                    gate = Gate.SMALL if tool == "memcheck" else Gate.DETERMINISM
                    with self._timed(gate), busy():
                        found = examine(tool, kernels, body, tensors, device)
                    for finding in found:
                        if finding.certain:
                            raise Stop(finding.outcome, gate, finding.detail, where=shape.name)
                        self.warnings.append(f"{tool} warns: {finding.detail}")
        except channel.ChannelError as error:
            raise InfrastructureError(f"{NAME}: {error}") from None
        return None

    def _replay(self, shape: ShapeCases) -> tuple[list[str], dict[str, Any], list[torch.Tensor]]:
        """(names of the candidate's kernels, body, tensors) for `examine`."""
        self._load()
        inputs = list(shape.cases[0].inputs)
        trace = self._trace(shape, describe(inputs))
        self.host.dismiss()
        names = list(trace.traced.state)
        tensors = [*trace.blobs, *(shape.state[name] for name in names), *flatten(inputs)]
        calls = [*trace.warm_up(), -1]
        body = {"trace": trace.answer, "blobs": len(trace.blobs), "state": names, "calls": calls}
        return trace.kernels, body, tensors


# -- the run ---------------------------------------------------------------------------------------------------


def examine(
    tool: Tool,
    kernels: Sequence[str],
    body: dict[str, object],
    tensors: list[torch.Tensor],
    device: int = 0,
    limit_s: float = LIMIT_S,
    program: Path | None = None,
) -> list[Finding]:
    """Replay under one tool and return the findings inside `kernels`, the candidate's own.

    `main` reads `body` and `tensors`; see `replay` for what they hold.
    Raises InfrastructureError if the tool is missing, does not finish within `limit_s`, or cannot run here.
    """
    program = program or find()
    if program is None:
        raise InfrastructureError(unavailable("cuda"))
    report, failed = _report(_command(program, tool, device, limit_s), body, tensors, limit_s)
    found = [finding for finding in parse(report) if finding.kernel in kernels or not finding.kernel]
    if failed and not found:
        raise InfrastructureError(f"the replay under {NAME} failed: {failed[:200]}")
    return found


def _command(program: Path, tool: Tool, device: int, limit_s: float) -> list[str]:
    options = ["--tool", tool, "--print-limit", "50", "--show-backtrace", "no"]
    if tool == "racecheck":
        options += ["--racecheck-report", "analysis"]
    ours = [sys.executable, "-m", "kernelwright.verify.gpu.sanitizer", str(device), str(int(limit_s) + 5)]
    return [str(program), *options, *ours]


def _report(
    command: list[str], body: dict[str, object], tensors: list[torch.Tensor], limit_s: float
) -> tuple[str, str]:
    """(the tool's output, our process's error or an empty string). The process reads the body from standard input."""
    from kernelwright.verify.sandbox import channel

    deadline = time.monotonic() + limit_s
    ours, theirs = socket.socketpair()
    # In memory and unbounded: a pipe would fill up before we read it, a file might meet a full disk.
    text = os.memfd_create("sanitizer")
    environment = {
        **os.environ,
        "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",  # gives every tensor an allocation that the tool sees
        "TRITON_DISABLE_LINE_INFO": "0",
        "OMP_NUM_THREADS": "1",
    }
    try:
        process = subprocess.Popen(
            command, stdin=theirs.fileno(), stdout=text, stderr=text, env=environment, start_new_session=True
        )
        theirs.close()
        failed = ""
        try:
            ours.settimeout(limit_s)
            channel.send(ours, body, tensors)
            ours.settimeout(max(deadline - time.monotonic(), 0.1))
            answer, _ = channel.receive(ours)
            failed = str(answer.get("failed", ""))
            process.wait(max(deadline - time.monotonic(), 0.1))
        except channel.ChannelClosed:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(5.0, max(deadline - time.monotonic(), 0.1)))
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if time.monotonic() >= deadline:
            raise InfrastructureError(f"{NAME} took more than {limit_s:g} s")
        os.lseek(text, 0, os.SEEK_SET)
        with os.fdopen(os.dup(text), encoding="utf-8", errors="replace") as file:
            return file.read(), failed
    except OSError as error:
        raise InfrastructureError(f"{NAME} could not be run: {error.strerror or error}") from None
    finally:
        os.close(text)
        ours.close()


# -- the process under the tool -------------------------------------------------------------------------------


def replay(body: dict[str, Any], tensors: list[torch.Tensor], session: Any) -> int:
    """Play the calls of a trace, once per tuning alternative; returns the number of calls played.

    `body`: {"trace": as the host process wrote it, "blobs": n, "state": names, "calls": numbers of tapes}; `tensors`:
    n blobs, the weights in the order of `state`, then the inputs. `session(kernels)` makes a new session.
    """
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import OutOfResources

    from kernelwright.verify.trace.kernels import Kernels
    from kernelwright.verify.trace.replay import Candidate

    blobs = tensors[: body["blobs"]]
    names = body["state"]
    weights = dict(zip(names, tensors[len(blobs) :], strict=False))
    inputs = tensors[len(blobs) + len(names) :]
    candidate = Candidate(body["trace"], blobs)
    launches = [step.fields["launches"] for step in candidate.steady.operations if step.kind == "launch"]
    played = 0
    for choice in range(min(_ALTERNATIVES, max(map(len, launches), default=1))):
        here = session(Kernels(body["trace"]["kernels"]))
        for storage, size, blob in candidate.constants:
            memory = here.provide(storage, size)
            if blob >= 0:
                memory.copy_(blobs[blob].contiguous().view(torch.uint8).reshape(-1)[:size])
        for name, view in candidate.state.items():
            here.tensor(view).copy_(weights[name])
        for call in body["calls"]:
            tape = candidate.tapes[call]
            for view, tensor in zip(candidate.inputs[call], inputs, strict=True):
                here.bind(view, tensor)
            here.choices = dict(_choices(tape, choice))
            with contextlib.suppress(OutOfResources, CompilationError):
                here.play(tape)
                played += 1
    return played


def _choices(tape: Tape, choice: int) -> Iterator[tuple[int, int]]:
    for place, step in enumerate(tape.operations):
        if step.kind == "launch":
            yield place, choice % len(step.fields["launches"])


def main(device: int, limit_s: int) -> None:
    """Under the tool: read one body from standard input, replay it, answer."""
    signal.alarm(limit_s)  # ends this process, hung kernel or not
    sock = socket.socket(fileno=os.dup(0))
    threading.Thread(target=_end_with, args=(sock,), daemon=True).start()

    from kernelwright.verify.gpu.device import CudaSession
    from kernelwright.verify.sandbox import channel

    class Exact(CudaSession):
        """Gives storages their exact size, so that the tool sees every access beyond."""

        def provide(self, storage: int, size: int) -> torch.Tensor:
            made = torch.empty(size, dtype=torch.uint8, device=self.device)
            self.storages[storage] = made.untyped_storage()
            return made

    body, tensors = channel.receive(sock)
    torch.cuda.set_device(device)
    answer: dict[str, object] = {}
    try:
        with torch.no_grad():
            replay(body, tensors, lambda kernels: Exact(f"cuda:{device}", kernels))
            torch.cuda.synchronize()
    except Exception as error:  # an access that the tool rejects ends the context; the report says why
        answer = {"failed": f"{type(error).__name__}: {error}"}
    channel.send(sock, answer)


def _end_with(sock: socket.socket) -> None:
    """Exit when the judge's end of the socket closes."""
    watch = select.poll()
    watch.register(sock, select.POLLRDHUP)
    watch.poll()
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
