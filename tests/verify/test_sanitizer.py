"""compute-sanitizer without a GPU: reads reports of several of its versions; its run and the replay are faked."""

import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from kernelwright.errors import InfrastructureError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.policy.gold import gold
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.tasks import load_suite
from kernelwright.verify import VerifierPool
from kernelwright.verify.confined import Confined
from kernelwright.verify.gpu import sanitizer
from kernelwright.verify.gpu.sanitizer import Finding, WatchedVerification, examine, parse, replay
from kernelwright.verify.judge import Judge
from kernelwright.verify.protocol import protocol
from kernelwright.verify.sandbox import zygote as zygotes
from kernelwright.verify.sandbox.zygote import Zygote
from kernelwright.verify.structures import describe, flatten
from kernelwright.verify.trace.replay import Session
from kernelwright.verify.verification import Verification

REPORTS = Path(__file__).parents[1] / "fixtures" / "sanitizer"


def report(name: str) -> list[Finding]:
    return parse((REPORTS / f"{name}.txt").read_text())


# reading memcheck


def test_an_access_outside_is_told_with_kernel_line_and_distance() -> None:
    first = report("memcheck_2024")[0]
    assert (first.outcome, first.kernel, first.certain) == (Outcome.OUT_OF_BOUNDS, "scale_rows", True)
    assert first.detail == (
        "scale_rows: read of 16 bytes in global memory is out of bounds, 161 bytes after the nearest allocation "
        "by thread (18,0,0) of program (3,0,0) at kernel_0.py:43"
    )


def test_equal_findings_are_told_once_and_torch_kernels_by_their_name() -> None:
    found = report("memcheck_2024")
    assert [finding.kernel for finding in found] == [
        "scale_rows",
        "scale_rows",
        "vectorized_elementwise_kernel",
    ]
    assert "is misaligned, inside the nearest allocation" in found[1].detail


def test_older_reports_are_read() -> None:
    found = report("memcheck_2021")
    assert [finding.kernel for finding in found] == ["fused_rows", "softmax_rows", "softmax_rows"]
    assert "1,241,911,296 bytes before the nearest allocation" in found[0].detail
    assert found[0].detail.endswith("at kernel_0.py:175")
    assert "shared memory" in found[1].detail
    assert "local memory" in found[2].detail


def test_a_clean_report_has_no_findings() -> None:
    assert report("memcheck_clean") == []


@pytest.mark.parametrize("text", ["", "no such tool", "========= COMPUTE-SANITIZER\n"])
def test_a_report_without_its_summary_is_the_machines_failure(text: str) -> None:
    with pytest.raises(InfrastructureError, match="did not finish"):
        parse(text)


def test_a_tool_that_gave_up_says_why() -> None:
    with pytest.raises(InfrastructureError, match="terminated before first instrumented"):
        report("memcheck_cut_off")


# reading racecheck


def test_a_race_with_a_read_is_certain() -> None:
    first = report("racecheck_analysis")[0]
    assert (first.outcome, first.kernel, first.certain) == (Outcome.NONDETERMINISTIC, "sum_rows", True)
    assert first.detail.endswith("a write at kernel_0.py:12 and a read at kernel_0.py:14")


def test_warnings_and_races_between_writes_accuse_nobody() -> None:
    assert [(f.kernel, f.certain) for f in report("racecheck_analysis")] == [
        ("sum_rows", True), ("sum_rows", False), ("tree_sum", False),
    ]  # fmt: skip


def test_what_a_kernel_prints_is_no_report() -> None:
    forged = "Invalid __global__ read of size 4 bytes\n== RACECHECK SUMMARY: 0 hazards displayed\n"
    with pytest.raises(InfrastructureError):
        parse(forged)


# running it


@pytest.fixture
def tool(tmp_path: Path) -> Any:
    """A fake tool: Python source that finds the judge's socket as `sock` and the options in `sys.argv`."""

    def make(text: str) -> Path:
        path = tmp_path / "compute-sanitizer"
        head = f"""\
        #!{sys.executable} -S
        import json, os, socket, struct, sys, time
        sock = socket.socket(fileno=os.dup(0))

        def receive():  # the wire without torch, which takes seconds to import
            _, header, payload = struct.unpack("!4sIQ", sock.recv(16, socket.MSG_WAITALL))
            body = json.loads(sock.recv(header, socket.MSG_WAITALL))["body"]
            return body, sock.recv(payload, socket.MSG_WAITALL) if payload else b""

        def send(body):
            header = json.dumps(dict(body=body, tensors=[])).encode()
            sock.sendall(struct.pack("!4sIQ", b"KWv1", len(header), 0) + header)
        """
        path.write_text(textwrap.dedent(head) + textwrap.dedent(text))
        path.chmod(0o755)
        return path

    return make


BODY = {"trace": {}, "blobs": 0, "state": [], "calls": [-1]}
ANSWER = "receive(); send({})\n"


def clean(name: str) -> str:
    return f"print(open({str(REPORTS / f'{name}.txt')!r}).read())\n"


def test_only_the_candidates_kernels_are_answered_for(tool: Any) -> None:
    program = tool(ANSWER + clean("memcheck_2024"))
    found = examine("memcheck", ["scale_rows"], BODY, [], program=program)
    assert {finding.kernel for finding in found} == {"scale_rows"}
    assert examine("memcheck", ["other"], BODY, [], program=program) == []


def test_the_tool_gets_its_options_and_our_process(tool: Any) -> None:
    program = tool(
        "print(sys.argv[1:], file=sys.stderr)\n" + ANSWER + "assert '--racecheck-report' in sys.argv\n"
    )
    with pytest.raises(InfrastructureError, match=r"kernelwright\.verify\.gpu\.sanitizer"):
        examine("racecheck", [], BODY, [], program=program)


def test_tensors_reach_our_process(tool: Any) -> None:
    check = "body, raw = receive(); assert struct.unpack('2f', raw) == (1.0, 2.0); send({})\n"
    program = tool(check + clean("memcheck_clean"))
    assert examine("memcheck", [], BODY, [torch.tensor([1.0, 2.0])], program=program) == []


def test_a_long_report_blocks_nobody(tool: Any) -> None:
    program = tool("print('x' * (1 << 20), flush=True)\n" + ANSWER + clean("memcheck_clean"))
    assert examine("memcheck", [], BODY, [], program=program) == []


def test_an_access_that_ended_the_process_is_a_finding(tool: Any) -> None:
    program = tool("receive(); sock.close(); os.close(0)\n" + clean("memcheck_2024"))
    assert examine("memcheck", ["scale_rows"], BODY, [], program=program)


def test_a_replay_that_failed_without_a_finding_is_the_machines(tool: Any) -> None:
    failed = "receive(); send({'failed': 'RuntimeError: CUDA out of memory'})\n"
    program = tool(failed + clean("memcheck_clean"))
    with pytest.raises(InfrastructureError, match="out of memory"):
        examine("memcheck", [], BODY, [], program=program)


def test_a_tool_that_hangs_is_ended(tool: Any) -> None:
    began = time.monotonic()
    with pytest.raises(InfrastructureError, match="took more than"):
        examine("memcheck", [], BODY, [], program=tool("time.sleep(60)\n"), limit_s=1.5)
    assert time.monotonic() - began < 10


def test_a_tool_that_cannot_start_is_the_machines_failure(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="could not be run"):
        examine("memcheck", [], BODY, [], program=tmp_path / "nowhere")


def test_it_is_skipped_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "needs a GPU" in sanitizer.unavailable("interpret")
    monkeypatch.setattr(sanitizer, "find", lambda: None)
    assert "not installed: skipped" in sanitizer.unavailable("cuda")
    monkeypatch.setattr(sanitizer, "find", lambda: Path("/usr/bin/x"))
    assert sanitizer.unavailable("cuda") == ""


def test_it_is_found_below_cuda_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setattr(sanitizer, "_PLACES", ())
    assert sanitizer.find() is None
    program = tmp_path / "bin" / "compute-sanitizer"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'Version 2025.3.1.0 (build 1)'\n")
    program.chmod(0o755)
    assert sanitizer.find() == program
    assert sanitizer.version(program) == "2025.3.1.0"


# replaying


class Recorded(Session):
    """Records launches instead of a GPU."""

    made: ClassVar[list[Session]] = []

    def __init__(self, kernels: Any) -> None:
        super().__init__("cpu", kernels)
        self.choices: dict[int, int] = {}
        self.seen: list[Any] = []
        self.made.append(self)

    def launch(self, kernel: Any, launches: Any, place: int) -> None:
        launch = launches[self.choices[place]]
        views = {name: self.tensor(view) for name, view in launch.views}
        self.seen.append((launch.options, {name: t.untyped_storage().nbytes() for name, t in views.items()}))


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    made = zygotes.take("h200")
    yield made
    zygotes.leave(made)


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge(protocol("strict"), "h200", secret=3)


def traced(judge: Judge, zygote: Zygote, task: Task, code: str) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """The host process's answer about a candidate, as the sanitizer gets it."""
    zygote.wait()
    shape = judge.cases(task)[0]
    verification = Verification(judge, zygote, task, Candidate(code=code))
    host = verification.host = Confined(zygote, "host", time.monotonic() + 60, 60)
    host.ask(Gate.LOAD, {"command": "load", "code": code})
    described = describe(list(shape.cases[0].inputs))
    trace = verification._trace(shape, described)
    host.dismiss()
    names = list(trace.traced.state)
    inputs = flatten(shape.cases[0].inputs)
    tensors = [*trace.blobs, *(shape.state[name] for name in names), *inputs]
    return {"trace": trace.answer, "blobs": len(trace.blobs), "state": names, "calls": [-1]}, tensors


def test_a_tape_is_replayed_on_memory_of_its_exact_size(judge: Judge, zygote: Zygote) -> None:
    (task,) = load_suite("wright/linear_gelu")
    body, tensors = traced(judge, zygote, task, gold(task.id))
    Recorded.made.clear()
    assert replay(body, tensors, Recorded) == len(Recorded.made) >= 1
    sizes = {t.numel() * t.element_size() for t in tensors}
    launched = [size for session in Recorded.made for _, memory in session.seen for size in memory.values()]
    assert sizes <= set(launched)


def test_every_alternative_of_a_tuned_kernel_is_replayed(judge: Judge, zygote: Zygote) -> None:
    path = Path(__file__).parents[1] / "honest" / "autotuned.py"
    code = path.read_text()
    (task,) = load_suite(next(line.split()[-1] for line in code.splitlines() if line.startswith("# task:")))
    body, tensors = traced(judge, zygote, task, code)
    Recorded.made.clear()
    count = replay(body, tensors, Recorded)
    assert count > 1
    assert len({repr(session.seen) + repr(session.choices) for session in Recorded.made}) == count


# the gate


def watched(judge: Judge, zygote: Zygote, program: Path, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    """The verdict on a correct gold, with a fake tool."""
    (task,) = load_suite("wright/relu")
    zygote.wait()
    monkeypatch.setattr(sanitizer, "find", lambda: program)
    accepted = Verdict(task_id=task.id, outcome=Outcome.CORRECT, gate=Gate.TIMING, detail="", backend="cuda")
    return WatchedVerification(judge, zygote, task, Candidate(code=gold(task.id)), accepted).verdict()


def kernel_of_relu() -> str:
    return next(
        line.split()[1].partition("(")[0] for line in gold("wright/relu").splitlines() if line[:4] == "def "
    )


def under(tool: Any, name: str, old: str) -> Path:
    """A tool that gives a recorded report about the gold's kernel."""
    text = (REPORTS / f"{name}.txt").read_text().replace(old, kernel_of_relu())
    wanted = "racecheck" if name.startswith("race") else "memcheck"
    clean_text = (REPORTS / "memcheck_clean.txt").read_text()
    program: Path = tool(f"{ANSWER}print({text!r} if {wanted!r} in sys.argv else {clean_text!r})\n")
    return program


def test_a_clean_candidate_stays_accepted(
    judge: Judge, zygote: Zygote, tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = watched(judge, zygote, tool(ANSWER + clean("memcheck_clean")), monkeypatch)
    assert verdict.correct
    assert verdict.detail == ""
    assert {Gate.SMALL, Gate.DETERMINISM} <= set(verdict.evidence.seconds)


def test_an_access_outside_is_a_rejection(
    judge: Judge, zygote: Zygote, tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = watched(judge, zygote, under(tool, "memcheck_2024", "scale_rows"), monkeypatch)
    assert (verdict.outcome, verdict.gate) == (Outcome.OUT_OF_BOUNDS, Gate.SMALL)
    assert kernel_of_relu() in verdict.detail


def test_a_certain_race_is_a_rejection(
    judge: Judge, zygote: Zygote, tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = watched(judge, zygote, under(tool, "racecheck_analysis", "sum_rows"), monkeypatch)
    assert (verdict.outcome, verdict.gate) == (Outcome.NONDETERMINISTIC, Gate.DETERMINISM)


def test_what_is_only_warned_of_is_told(
    judge: Judge, zygote: Zygote, tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = watched(judge, zygote, under(tool, "racecheck_analysis", "tree_sum"), monkeypatch)
    assert verdict.correct
    assert verdict.detail.startswith("racecheck warns:")


def test_a_pool_watches_what_it_accepts(zygote: Zygote, tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (task,) = load_suite("wright/relu")
    monkeypatch.setattr(sanitizer, "find", lambda: under(tool, "memcheck_2024", "scale_rows"))
    monkeypatch.setattr(sanitizer, "unavailable", lambda backend: "")
    monkeypatch.setattr(VerifierPool, "_current_zygote", lambda pool: zygote)
    with VerifierPool(1, "interpret", sanitize=True) as pool:
        assert pool.verify(task, Candidate(code=gold(task.id))).outcome is Outcome.OUT_OF_BOUNDS
        wrong = gold(task.id).replace("maximum", "minimum")
        assert pool.verify(task, Candidate(code=wrong)).outcome is Outcome.WRONG_VALUE
        monkeypatch.setattr(sanitizer, "find", lambda: tool(ANSWER))
        verdict = pool.verify(task, Candidate(code=gold(task.id)))
        assert (verdict.outcome, verdict.timing) == (Outcome.INFRASTRUCTURE_ERROR, None)


def test_a_tool_that_fails_is_never_the_candidates_fault(
    judge: Judge, zygote: Zygote, tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InfrastructureError):
        watched(judge, zygote, tool(ANSWER), monkeypatch)
