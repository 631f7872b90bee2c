"""The command line: exit codes, one line for every user error, and no heavy imports for --help."""

import contextlib
import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from kernelwright.cli import guarded, main
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.policy.gold import gold
from kernelwright.records import Verdict

COMMAND = [sys.executable, "-m", "kernelwright"]
TORCH_ONLY = """import torch
class ModelNew(torch.nn.Module):
    def forward(self, x): return torch.relu(x)
"""
MODULE = """import torch
N = 64
class Model(torch.nn.Module):
    def forward(self, x):
        {body}
def get_inputs(): return [torch.rand(N, N)]
def get_init_inputs(): return [{arguments}]
"""


no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@pytest.fixture
def relu(tmp_path: Path) -> Path:
    path = tmp_path / "relu.py"
    path.write_text(gold("wright/relu"))
    return path


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The output on stderr, which must be one line and no traceback."""
    said = capsys.readouterr().err
    assert said.startswith("kernelwright: ")
    assert said.count("\n") == 1
    return said


class FakePool:
    """Stands in for a verifier pool; `answer` is returned or raised."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def verify(self, task: Any, candidate: Any) -> Verdict:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return Verdict(task_id=task.id, outcome=self.answer, gate=Gate.SMALL)


def with_answer(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    @contextlib.contextmanager
    def judge(*_: Any, **__: Any) -> Iterator[FakePool]:
        yield FakePool(answer)

    monkeypatch.setattr("kernelwright.verify.opened.judge", judge)


# -- looking around ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [[], ["verify"], ["optimize"], ["train"], ["eval"], ["report"], ["data"], ["tasks", "list"], ["doctor"]],
    ids=" ".join,
)
def test_every_command_has_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "--help"]) == 0
    assert "Usage" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [["missing.py"], ["missing.py:Block"], ["wright/relu", "-o", "/proc/x.py"], ["wright/relu", "--rungs", "foo"],
     ["wright/relu", "--target", "rtx9"]],
    ids=" ".join,
)  # fmt: skip
def test_a_typing_error_is_said_before_torch_is_imported(arguments: list[str]) -> None:
    probe = (
        "import sys; from kernelwright.cli import main; "
        f"sys.exit(main({['optimize', *arguments]!r}) + 10 * ('torch' in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", probe], stderr=subprocess.DEVNULL).returncode == 2


def test_help_is_fast_and_imports_no_torch() -> None:
    probe = (
        "import sys; from kernelwright.cli import main; main(['--help']); sys.exit('torch' in sys.modules)"
    )

    def seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", probe], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds() for _ in range(3)) < 1.0


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == "0.1.0"


def test_tasks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "list", "wright/norm"]) == 0
    assert "wright/layernorm" in capsys.readouterr().out


def test_a_task_and_its_gold_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "show", "wright/relu"]) == 0
    assert "class Model(" in capsys.readouterr().out
    assert main(["tasks", "show", "wright/relu", "--gold"]) == 0
    assert "class ModelNew(" in capsys.readouterr().out


# -- verify ----------------------------------------------------------------------------------------------------


def test_an_honest_kernel_is_accepted_with_its_evidence(
    relu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = tmp_path / "verdict.json"
    assert main(["verify", "--task", "wright/relu", "--kernel", str(relu), "--json", str(found)]) == 0
    verdict = Verdict.model_validate_json(found.read_text())
    assert verdict.outcome is Outcome.CORRECT
    said = capsys.readouterr().out
    for part in (
        "correct",
        "worst error",
        "relu_kernel",
        "registers",
        "spilled",
        "occupancy",
        "modelled",
        "over eager",
    ):
        assert part in said


def test_a_kernel_without_triton_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.py").write_text(TORCH_ONLY)
    assert main(["verify", "--task", "wright/relu", "--kernel", str(tmp_path / "k.py"), "--json", "-"]) == 1
    assert json.loads(capsys.readouterr().out)["outcome"] == "not_triton"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Outcome.CORRECT, 0),
        (Outcome.WRONG_VALUE, 1),
        (Outcome.TIMEOUT, 1),
        (Outcome.UNSUPPORTED, 3),
        (Outcome.INFRASTRUCTURE_ERROR, 3),
    ],
)
def test_exit_code_says_who_failed(
    answer: Outcome, code: int, relu: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_answer(monkeypatch, answer)
    assert main(["verify", "--task", "wright/relu", "--kernel", str(relu)]) == code


def test_a_judge_that_is_not_there_is_said_at_once(relu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["verify", "--task", "wright/relu", "--kernel", str(relu), "--judge", "http://127.0.0.1:9"]) == 3
    )
    assert "no judge answers at http://127.0.0.1:9" in one_line(capsys)


def test_a_watched_kernel_is_judged_again_when_it_changes(
    relu: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = iter([relu.unlink, lambda: relu.write_text("x = 1")])

    def sleep(_: float) -> None:
        change = next(changes, None)
        if change is None:
            raise KeyboardInterrupt
        change()

    with_answer(monkeypatch, Outcome.CORRECT)
    monkeypatch.setattr("kernelwright.cli.verify.time.sleep", sleep)
    assert main(["verify", "--task", "wright/relu", "--kernel", str(relu), "--watch"]) == 130
    said = capsys.readouterr()
    assert said.out.count("correct  wright/relu") == 2
    assert "no such file" in said.err


def test_a_failed_judge_is_one_line_and_3(
    relu: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_answer(monkeypatch, InfrastructureError("the zygote\nis gone"))
    assert main(["verify", "--task", "wright/relu", "--kernel", str(relu)]) == 3
    assert "the zygote is gone" in one_line(capsys)


def test_a_bug_is_never_read_as_a_rejection(
    relu: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_answer(monkeypatch, ZeroDivisionError("ours"))
    assert main(["verify", "--task", "wright/relu", "--kernel", str(relu)]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_hostile_detail_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from kernelwright.cli import show

    verdict = Verdict(
        task_id="t", outcome=Outcome.LOAD_ERROR, gate=Gate.LOAD, detail="\x1b]0;owned\x07\x1b[2J[red]\r\nPASS"
    )
    show.console().print(show.verdict(verdict))
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "[red]" in said


# -- bad input -------------------------------------------------------------------------------------------------

BAD_FILES = {
    "latin1.py": b"x = '\xe9'\n",
    "no_inputs.py": b"import torch\nclass Model(torch.nn.Module): pass\ndef get_init_inputs(): return []\n",
    "raises_at_load.py": b"1 / 0\n" + MODULE.format(body="return x", arguments="").encode(),
    "raises_in_init.py": MODULE.format(body="return x", arguments="3").encode(),
    "raises_in_forward.py": MODULE.format(body="raise KeyError('sorry')", arguments="").encode(),
    "complex.py": MODULE.format(body="return torch.fft.fft(x)", arguments="").encode(),
    "bytes.py": MODULE.format(body="return x.to(torch.float8_e4m3fn)", arguments="").encode(),
    "random.py": MODULE.format(body="return x * torch.rand_like(x)", arguments="").encode(),
    "nothing.py": MODULE.format(body="return None", arguments="").encode(),
    "no_list.py": MODULE.format(body="return x", arguments="")
    .replace("[torch.rand(N, N)]", "torch.rand(N, N)")
    .encode(),
    "negative.py": MODULE.format(body="return x", arguments="").replace("N = 64", "N = -64").encode(),
    "huge.py": MODULE.format(body="return x", arguments="").replace("(N, N)", "(N << 40, N)").encode(),
    "exits.py": MODULE.format(body="return x", arguments="").encode() + b"raise SystemExit(2)\n",
    "only_exits.py": b"import sys\nsys.exit(1)\n",
    "imports.py": b"import os\n\nimport not_a_package\n",
    "syntax.py": b"class (\n",
    "broken.toml": b"[model\n",
    "unknown_key.toml": b"[frontend]\nsetps = 3\n",
    "wrong_type.toml": b"[frontend]\nsteps = 'three'\n",
    "unknown_preset.toml": b"stages = ['sft', 'frontend']\n[frontend]\nreward = 'wrigth'\n",
    "unknown_target.toml": b"[verify]\ntarget = 'h300'\n",
}
VERIFY = ["verify", "--task", "wright/relu", "--kernel", "{relu}"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["vrfy"], "No such command 'vrfy'"),
        (["verify", "--task", "wright/relu"], "Missing option '--kernel'"),
        ([*VERIFY, "--colour"], "No such option"),
        (["verify", "--task", "{nowhere}.py", "--kernel", "{relu}"], "no such file"),
        (["verify", "--task", "wright/relu", "--kernel", "{nowhere}.py"], "no such file"),
        (["verify", "--task", "wright/relu", "--kernel", "{latin1.py}"], "not UTF-8"),
        (["verify", "--task", "{latin1.py}", "--kernel", "{relu}"], "not UTF-8"),
        (["verify", "--task", "{syntax.py}", "--kernel", "{relu}"], "fix the syntax"),
        (["verify", "--task", "{no_inputs.py}", "--kernel", "{relu}"], "no get_inputs()"),
        (["verify", "--task", "{raises_at_load.py}", "--kernel", "{relu}"], "division by zero"),
        (["verify", "--task", "{raises_in_init.py}", "--kernel", "{relu}"], "get_init_inputs"),
        (
            ["verify", "--task", "{raises_in_forward.py}", "--kernel", "{relu}"],
            "forward raises KeyError: 'sorry'",
        ),
        (["verify", "--task", "{complex.py}", "--kernel", "{relu}"], "complex tensors cannot be judged"),
        (["verify", "--task", "{bytes.py}", "--kernel", "{relu}"], "floats of 8 bits that are returned"),
        (["verify", "--task", "{random.py}", "--kernel", "{relu}"], "draws random numbers"),
        (["verify", "--task", "{nothing.py}", "--kernel", "{relu}"], "returns no tensor; fix the task"),
        (["verify", "--task", "{no_list.py}", "--kernel", "{relu}"], "get_inputs() returns no list"),
        (["verify", "--task", "{negative.py}", "--kernel", "{relu}"], "negative dimension"),
        (["verify", "--task", "{huge.py}", "--kernel", "{relu}"], "no sizes small enough"),
        (["verify", "--task", "wrigth/relu", "--kernel", "{relu}"], "did you mean wright?"),
        (["verify", "--task", "wright", "--kernel", "{relu}"], "58 tasks; name one"),
        ([*VERIFY, "--target", "h300"], "choose one of h200"),
        ([*VERIFY, "--protocol", "lenient"], "choose one of strict"),
        ([*VERIFY, "--backend", "tpu"], "choose one of auto"),
        pytest.param([*VERIFY, "--backend", "cuda"], "needs a GPU", marks=no_gpu),
        ([*VERIFY, "--judge", "judge:8040"], "give http://HOST:PORT"),
        ([*VERIFY, "--json", "/dev/full"], "/dev/full is not a regular file"),
        (["optimize", "{nowhere}.py"], "no such file"),
        (["optimize", "{raises_in_forward.py}", "-o", "{raises_in_forward.py}"], "is the module itself"),
        (["optimize", "{raises_in_forward.py}", "-o", "{out}.py"], "cannot be captured"),
        (["optimize", "{raises_in_init.py}", "-o", "{out}.py"], "raises TypeError"),
        (["optimize", "{exits.py}", "-o", "{out}.py"], "it ends the program"),
        (["optimize", "{exits.py}:Model", "-o", "{out}.py"], "it ends the program"),
        (["optimize", "{only_exits.py}", "-o", "{out}.py"], "only_exits.py: line 2: it ends the program"),
        (
            ["optimize", "{imports.py}", "-o", "{out}.py"],
            "imports.py: line 3: No module named 'not_a_package'",
        ),
        (
            ["verify", "--task", "{imports.py}", "--kernel", "{relu}"],
            "line 3: No module named 'not_a_package'",
        ),
        (["optimize", "wright/relu", "-o", "/proc/x.py"], "/proc/x.py cannot be written"),
        pytest.param(["optimize", "wright/relu", "--backend", "cuda"], "needs a GPU", marks=no_gpu),
        (["verify", "--task", "{exits.py}", "--kernel", "{relu}"], "it ends the program"),
        (["optimize", "wright", "-o", "{out}.py"], "58 tasks; name one"),
        (["optimize", "wright/relu", "--seconds", "0", "-o", "{out}.py"], "give a budget above 0"),
        (["optimize", "wright/relu", "--contractions", "some", "-o", "{out}.py"], "choose own or auto"),
        (
            ["optimize", "wright/relu", "--rungs", "oracle", "-o", "{out}.py"],
            "valid: compiler, library, model, tune",
        ),
        (["optimize", "wright/relu", "--target", "h300", "-o", "{out}.py"], "choose one of h200"),
        (["optimize", "wright/relu", "--kernel", "{nowhere}.py", "-o", "{out}.py"], "no such file"),
        (["optimize", "wright/relu", "--kernel", "{syntax.py}", "-o", "{out}.py"], "it is not Python"),
        (
            ["optimize", "wright/relu", "--kernel", "{no_inputs.py}", "-o", "{out}.py"],
            "defines neither kernel",
        ),
        (["optimize", "wright/relu", "-p", "openai:judge", "-o", "{out}.py"], "is not openai:BASE_URL#MODEL"),
        (["optimize", "wright/relu", "-p", "{nowhere}", "-o", "{out}.py"], "no such folder"),
        (["optimize", "nowhere_at_all:Block", "-o", "{out}.py"], "there is no module nowhere_at_all"),
        (["optimize", "json:dumps", "-o", "{out}.py"], "json has no get_inputs()"),
        (["optimize", "json:dmups", "-o", "{out}.py"], "did you mean dumps?"),
        (
            ["optimize", "{raises_at_load.py}:Model", "-o", "{out}.py"],
            "raises ZeroDivisionError when imported",
        ),
        (["eval", "-s", "wrihgt", "-p", "gold", "-o", "{out}"], "unknown suite"),
        (["eval", "-s", "wright/relu", "-p", "{nowhere}", "-o", "{out}"], "no such folder"),
        (
            ["eval", "-s", "wright/relu", "-p", "ladder", "--contractions", "some", "-o", "{out}"],
            "choose own or auto",
        ),
        (
            ["eval", "-s", "wright/relu", "-p", "gold", "--reward", "wrigth", "-o", "{out}"],
            "unknown reward preset",
        ),
        (["eval", "-s", "wright/relu", "-p", "gold", "--agent", "linker", "-o", "{out}"], "unknown agent"),
        (
            ["eval", "-s", "wright/relu", "-p", "gold", "--answer", "code", "-o", "{out}"],
            "valid: plan+code, plan+kernels, plan",
        ),
        (["eval", "-s", "wright/relu", "-p", "gold", "--agent", "midend", "-o", "{out}"], "--kernels RUN"),
        (["train", "{nowhere}.toml"], "does not exist"),
        (["train", "{broken.toml}"], "is not TOML"),
        (["train", "{unknown_key.toml}"], "did you mean frontend.steps?"),
        (["train", "{wrong_type.toml}"], "valid integer"),
        (["train", "{unknown_preset.toml}", "-o", "{out}"], "unknown reward preset 'wrigth'"),
        (["train", "{unknown_target.toml}", "-o", "{out}"], "unknown target"),
        (["report", "{nowhere}"], "no run folder"),
        (["data", "make", "{out}", "--against", "{nowhere}"], "holds no Python file"),
        (["data", "make", "{out}", "grahps=3"], "did you mean graphs?"),
        (["data", "card", "{out}"], "holds no finished corpus"),
        (["archive", "add", "{nowhere}.jsonl", "{out}"], "is not a run"),
        (["tasks", "show", "wright/rleu"], "did you mean relu?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line_and_2(
    arguments: list[str], said: str, relu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"relu": str(relu), "nowhere": str(tmp_path / "nowhere"), "out": str(tmp_path / "out")}
    for name, text in BAD_FILES.items():
        (tmp_path / name).write_bytes(text)
        names[name] = str(tmp_path / name)
    filled = []
    for argument in arguments:
        for name, path in names.items():
            argument = argument.replace(f"{{{name}}}", path)
        filled.append(argument)
    assert main(filled) == 2
    assert said in one_line(capsys)
    assert not (tmp_path / "out.py").exists()
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("name", ["empty.py", "empty.md"])
def test_an_empty_kernel_is_a_rejection_with_a_name(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(" \n")
    assert main(["verify", "--task", "wright/relu", "--kernel", str(tmp_path / name)]) == 1
    assert "empty completion" in capsys.readouterr().out


# -- the machine's limits ----------------------------------------------------------------------------------------


def test_a_full_disk_behind_stdout_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, "tasks", "list"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert "the disk is full" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_error() -> None:
    process = subprocess.Popen([*COMMAND, "tasks", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.wait()


@pytest.mark.slow
def test_a_full_disk_in_the_run_folder_is_one_line_and_the_run_can_go_on(tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [*COMMAND, "eval", "-s", "wright/relu,silu", "-p", "gold", "-o", str(out)]
    # Files may not grow past 4 KB: the environment fits, a rollout does not.
    limit = (4096, resource.RLIM_INFINITY)
    small = subprocess.run(
        command,
        capture_output=True,
        text=True,
        # Python 3.11 would cache truncated bytecode of a module where later imports find it (gh-126606).
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert small.returncode == 2, small.stderr
    assert "cannot be written" in small.stderr.splitlines()[-1]
    assert "Traceback" not in small.stderr
    resumed = subprocess.run([*command, "--resume"], capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads((out / "metrics.json").read_text())["correct"] == 2


def test_a_full_disk_anywhere_else_is_one_line(
    relu: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_answer(monkeypatch, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/x"))
    assert main(["verify", "--task", "wright/relu", "--kernel", str(relu)]) == 2
    assert "/tmp/x cannot be written: the disk is full" in one_line(capsys)


# -- Ctrl-C ------------------------------------------------------------------------------------------------------


@pytest.fixture
def own_sigint() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_is_one_line_that_says_how_to_go_on(
    own_sigint: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with_answer(monkeypatch, Outcome.CORRECT)
    monkeypatch.setattr(
        "kernelwright.evaluate.evaluate", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    assert main(["eval", "-s", "wright/relu", "-p", "gold", "-o", str(tmp_path / "a b")]) == 130
    said = one_line(capsys)
    assert f"go on with: kernelwright eval -s wright/relu -p gold -o '{tmp_path}/a b' --resume" in said


def test_what_fails_after_a_ctrl_c_is_told_as_the_stop(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> int:
        with contextlib.suppress(
            KeyboardInterrupt
        ):  # as torch's imports swallow it and continue with half of a module
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        raise UserError("task wright/relu raises RecursionError; fix the task")

    before = signal.getsignal(signal.SIGINT)
    try:
        assert guarded(command, "nothing half-written is left behind") == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert one_line(capsys) == "kernelwright: stopped; nothing half-written is left behind\n"


@pytest.mark.slow
def test_ctrl_c_at_any_moment_leaves_a_run_that_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [
        *COMMAND,
        "eval",
        "-s",
        "wright/activation,norm,loss",
        "-p",
        "gold",
        "-o",
        str(out),
        "--resume",
    ]
    for delay in (0.15, 1.0, 2.5, 4.0, 6.0):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        # Before Python reaches our code, its own handler answers Ctrl-C; we cannot change that.
        assert process.returncode in (130, 0, -signal.SIGINT), said
        if process.returncode == 130:
            assert "Traceback" not in said
            assert "go on with: kernelwright eval" in said.splitlines()[-1]
        assert not list(tmp_path.rglob("*.tmp"))
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (out / "rollouts.jsonl").read_text().splitlines()]
    assert (
        len({row["task_id"] for row in rows})
        == len(rows)
        == json.loads((out / "metrics.json").read_text())["samples"]
    )
