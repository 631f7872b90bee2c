"""Child processes: written data arrives however the child ends; a helper answers until it dies."""

import os
import signal
import time
from pathlib import Path
from typing import BinaryIO

import pytest

from kernelwright.children import MANY, Ended, Helper, on_all_cores, run_forked
from kernelwright.errors import InfrastructureError

ECHO = """
import os, sys
from kernelwright.children import serve

def answer(question):
    print("not an answer", flush=True)
    if question == "die":
        os._exit(1)
    return [*sys.argv[1:], question]

serve(answer)
"""


@pytest.fixture
def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Helper:
    (tmp_path / "echo.py").write_text(ECHO)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return Helper("echo", "--loud", does="echoes")


def test_what_a_child_writes_arrives() -> None:
    data = b"x" * (1 << 20)  # more than a pipe holds
    assert run_forked(lambda out: out.write(data), 20.0) == Ended(data, 0)


def test_an_exception_is_status_1() -> None:
    assert run_forked(lambda out: 1 // 0, 20.0) == Ended(b"", 1)


def test_the_status_is_the_childs_own() -> None:
    assert {run_forked(lambda out: os._exit(3), 20.0).status for _ in range(20)} == {3}
    assert run_forked(lambda out: os.kill(os.getpid(), signal.SIGTERM), 20.0).status == -signal.SIGTERM


def test_what_came_before_the_time_was_over_is_kept() -> None:
    def work(out: BinaryIO) -> None:
        out.write(b"one")
        out.flush()
        time.sleep(60.0)

    started = time.monotonic()
    assert run_forked(work, 0.3) == Ended(b"one", None)
    assert time.monotonic() - started < 10.0


def test_a_child_that_became_another_user_and_may_not_be_killed_is_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refused)
    assert run_forked(lambda out: out.write(b"nobody"), 20.0) == Ended(b"nobody", 0)


def test_a_child_that_hangs_up_and_stays_is_killed() -> None:
    def work(out: BinaryIO) -> None:
        out.close()
        time.sleep(60.0)

    assert run_forked(work, 20.0).status == -signal.SIGKILL


def test_memory_and_cpu_time_are_limited() -> None:
    assert run_forked(lambda out: bytes(1 << 34), 20.0, memory=1 << 33) == Ended(b"", 1)

    def endless(out: BinaryIO) -> None:
        while True:
            pass

    assert run_forked(endless, 60.0, cpu_seconds=1).status in (-signal.SIGXCPU, -signal.SIGKILL)


def test_a_child_prints_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    run_forked(lambda out: os.write(1, b"loud") + os.write(2, b"loud"), 20.0)
    assert capfd.readouterr() == ("", "")


def test_a_helper_answers_question_after_question(echo: Helper) -> None:
    with echo as helper:
        assert [helper.ask(n) for n in (1, {"a": None})] == [["--loud", 1], ["--loud", {"a": None}]]


def test_a_quiet_helper_prints_nowhere(echo: Helper, capfd: pytest.CaptureFixture[str]) -> None:
    with echo as helper:
        helper.ask(1)
    assert "not an answer" in capfd.readouterr().err
    with Helper("echo", does="echoes", quiet=True) as helper:
        helper.ask(1)
    assert capfd.readouterr() == ("", "")


def test_a_helper_that_died_is_an_infrastructure_error(echo: Helper) -> None:
    with echo as helper:
        for _ in range(2):
            with pytest.raises(InfrastructureError, match="the helper process that echoes has died"):
                helper.ask("die")


def test_a_function_is_mapped_over_all_cores_in_order() -> None:
    offset = 7
    assert list(on_all_cores(lambda one: one + offset, range(MANY + 100))) == list(
        range(offset, MANY + 100 + offset)
    )
