"""The README's commands and their output are those of this version."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from kernelwright.cli import main
from kernelwright.cli.app import app

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text("utf-8")
COMMANDS = [
    line.split("  #")[0].strip() for line in TEXT.splitlines() if line.startswith("    kernelwright ")
]


def parsed(command: Any, name: str, arguments: list[str]) -> None:
    """Parse a command line down to its last subcommand; raises what the user would be told."""
    if hasattr(command, "commands"):
        parsed(command.commands[arguments[0]], arguments[0], arguments[1:])
    else:
        command.make_context(name, list(arguments))


def test_the_table_and_the_picture_are_the_runs() -> None:
    command = [sys.executable, "benchmarks/readme.py", "docs/runs/default_model-9", "--check"]
    assert subprocess.run(command, cwd=ROOT, timeout=60).returncode == 0


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 6


@pytest.mark.parametrize("line", COMMANDS)
def test_command_is_one(line: str) -> None:
    name, *arguments = shlex.split(line)
    parsed(typer.main.get_command(app), name, arguments)


@pytest.mark.parametrize(
    "name", sorted(set(re.findall(r"(?:examples|recipes|src|docs|tests)/[\w/.]+\w", TEXT)))
)
def test_file_is_there(name: str) -> None:
    assert (ROOT / name).exists()


def test_verdict_is_what_the_command_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    shown = TEXT[TEXT.index("    correct  file/") :].split("\n\n")[0]

    def without_figures(text: str) -> list[str]:
        return [re.sub(r"\d[\d.]*", "N", line.strip()) for line in text.strip().splitlines()]

    assert main(shlex.split(COMMANDS[0])[1:]) == 0
    assert without_figures(capsys.readouterr().out) == without_figures(shown)
