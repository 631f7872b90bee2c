"""`kernelwright serve` as a user starts it, and `--judge` as a user names it."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright.cli import main
from kernelwright.policy.gold import gold


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "kernelwright", "serve", "--port", "0", "--suite", "wright/relu"]
    command += ["--backend", "interpret", "--workers", "1", "--store", str(tmp_path / "verdicts.sqlite")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = re.search(r"http://[\d.:]+", process.stdout.readline())
        assert found is not None
        yield found.group()
        process.send_signal(signal.SIGINT)
        process.wait(20)


@pytest.mark.slow
def test_the_command_line_gets_the_servers_verdict(address: str, tmp_path: Path) -> None:
    kernel = tmp_path / "relu.py"
    kernel.write_text(gold("wright/relu"))
    assert main(["verify", "--task", "wright/relu", "--kernel", str(kernel), "--judge", address]) == 0
    kernel.write_text(gold("wright/relu").replace("0.0", "0.5"))
    assert main(["verify", "--task", "wright/relu", "--kernel", str(kernel), "--judge", address]) == 1


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--port", str(port), "--suite", "wright/relu"]) == 2
    assert "choose another --port" in capsys.readouterr().err


def test_others_are_let_in_with_a_token_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KERNELWRIGHT_TOKEN", raising=False)
    assert main(["serve", "--host", "0.0.0.0", "--port", "0"]) == 2
    assert "give --token" in capsys.readouterr().err


def test_a_store_that_is_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("not a database, " * 100)
    store = str(tmp_path / "notes.txt")
    assert main(["serve", "--port", "0", "--suite", "wright/relu", "--store", store]) == 2
    assert "--store" in capsys.readouterr().err
