"""After SIGKILL at a random moment and `--resume`, losses equal the uninterrupted run's. More kills: benchmarks/resume.py."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fakes import ReadJudge
from together import TESTS, recipe_of

from kernelwright.runs import RunFolder
from kernelwright.train import train

COMMAND = [sys.executable, str(TESTS / "train" / "together.py")]


def started(data: Path, out: Path) -> subprocess.Popen[str]:
    paths = os.pathsep.join([*sys.path, str(TESTS), str(TESTS / "train")])
    return subprocess.Popen(
        [*COMMAND, str(data), str(out)],
        env={**os.environ, "PYTHONPATH": paths},
        stderr=subprocess.PIPE,
        text=True,
    )


def losses(out: Path) -> list[tuple[str, int, float, float]]:
    lines = RunFolder(out).lines("curves.jsonl")
    return [(line["stage"], line["step"], line["loss"], line["trl"]["grad_norm"]) for line in lines]


@pytest.fixture(scope="module")
def expected(data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, int, float, float]]:
    out = tmp_path_factory.mktemp("whole") / "run"
    train(recipe_of(data), out, verifier=ReadJudge(), quiet=True)
    return losses(out)


def kill_and_resume(data: Path, out: Path, steps: int, seed: int) -> list[tuple[str, int, float, float]]:
    """Kill between two random steps, whatever is going on then; resume in this process."""
    chance = random.Random(seed)
    process, after = started(data, out), chance.randrange(1, steps)
    while process.poll() is None and len(losses(out)) < after:
        time.sleep(0.002)
    time.sleep(chance.uniform(0, 0.05))
    process.send_signal(signal.SIGKILL)
    process.wait()
    train(recipe_of(data), out, resume=True, verifier=ReadJudge(), quiet=True)
    return losses(out)


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_losses(data: Path, tmp_path: Path, expected: list) -> None:
    assert kill_and_resume(data, tmp_path / "run", len(expected), seed=4) == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_killed_at_ten_moments(data: Path, tmp_path: Path, expected: list, seed: int) -> None:
    assert kill_and_resume(data, tmp_path / "run", len(expected), seed) == expected
