"""The judge's protocol with the parent of all workers: answers match requests, and a death is noticed quickly."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelwright.verify.sandbox import zygote
from kernelwright.verify.sandbox.zygote import Zygote


@pytest.fixture
def talk() -> Iterator[tuple[Zygote, socket.socket]]:
    """A handle without a process, and the other end of its connection."""
    handle = Zygote.__new__(Zygote)
    handle._lock, handle._number, handle._ready = threading.Lock(), 0, True
    handle._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    handle._socket.settimeout(5.0)
    with handle._socket, theirs:
        yield handle, theirs


def say(line: socket.socket, number: int, **fields: object) -> None:
    line.send(json.dumps({"number": number, **fields}).encode())


def test_an_answer_that_comes_late_is_nobody_elses(talk: tuple[Zygote, socket.socket]) -> None:
    handle, theirs = talk
    handle._socket.settimeout(0.01)
    with pytest.raises(zygote.InfrastructureError, match="does not answer"):
        handle.reap(11)
    handle._socket.settimeout(5.0)
    say(theirs, 1, status=7)
    say(theirs, 2, status=3)
    assert handle.reap(12) == 3


def test_requests_are_numbered(talk: tuple[Zygote, socket.socket]) -> None:
    handle, theirs = talk
    for number in (1, 2):
        say(theirs, number, status=0)
        handle.reap(5)
        assert json.loads(theirs.recv(4096))["number"] == number


def test_what_a_worker_started_dies_with_it() -> None:
    inner = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True); import time; time.sleep(60)"
    worker = subprocess.Popen(
        [sys.executable, "-c", inner], stdout=subprocess.PIPE, start_new_session=True, text=True
    )
    assert worker.stdout is not None
    grandchild = int(worker.stdout.readline())
    zygote._kill(worker.pid)
    assert worker.wait(5) == -9
    worker.stdout.close()
    end = time.monotonic() + 5.0
    while time.monotonic() < end:
        try:
            with open(f"/proc/{grandchild}/stat") as stat:
                if stat.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.01)
    pytest.fail("it lives on")


def test_a_child_that_does_not_end_is_not_waited_for() -> None:
    pid = os.fork()
    if pid == 0:
        time.sleep(30)
        os._exit(0)
    began = time.monotonic()
    assert zygote._status(pid, 0.05) is None
    assert time.monotonic() - began < 2.0
    zygote._kill(pid)
    assert zygote._status(pid, 5.0) == -9
    assert zygote._status(pid, 5.0) == -9  # it is no longer anybody's child


def test_a_judge_that_leaves_while_it_is_answered_leaves_nobody_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    worker = subprocess.Popen(["sleep", "60"], start_new_session=True)
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    def forked(control: socket.socket, fd: int, request: dict[str, Any], target: str) -> dict[str, Any]:
        os.close(fd)
        ours.close()
        return {"pid": worker.pid}

    monkeypatch.setattr(zygote, "_fork", forked)
    with open(os.devnull) as given, theirs:
        asked = {"number": 1, "fork": str(scratch), "role": "host", "gpu": None}
        socket.send_fds(ours, [json.dumps(asked).encode()], [given.fileno()])
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            zygote._serve(theirs, "h200")
    assert worker.wait(5) == -signal.SIGKILL
    assert not scratch.exists()


def test_one_that_imports_still_is_ended_at_once() -> None:
    handle = Zygote("h200")
    handle.close()
    assert handle._process.returncode == -signal.SIGKILL
