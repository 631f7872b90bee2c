"""FSDP2 over two processes (gloo, CPU): SFT, front end, kill -9 of one of them, resume, mid-end; full and LoRA."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from sharded import log_probs
from test_together import free_port
from together import TESTS

from kernelwright.runs import RunFolder
from kernelwright.train.model import load_adapted


def launch(data: Path, out: Path, lora: bool) -> list[subprocess.Popen[str]]:
    shared = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*sys.path, str(TESTS), str(TESTS / "train")]),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "ACCELERATE_USE_CPU": "1",
    }
    command = [sys.executable, str(TESTS / "train" / "sharded.py"), str(data), str(out), *["lora"] * lora]
    return [
        subprocess.Popen(
            command,
            env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]


def kill_one_in_the_front_end(processes: list[subprocess.Popen[str]], out: Path) -> None:
    """SIGKILL to the second process once the front end has a checkpoint; the first then fails without it."""
    while not list((out / "stages" / "frontend" / "steps").glob("checkpoint-*")):
        assert all(process.poll() is None for process in processes), processes[0].communicate()[1]
        time.sleep(0.01)
    processes[1].send_signal(signal.SIGKILL)
    for process in processes:
        try:
            said = process.communicate(timeout=20)[1]
            if process is processes[0]:
                [line] = [line for line in said.splitlines() if "another of the run's 2 processes" in line]
                assert line.endswith("then go on with --resume")
        except subprocess.TimeoutExpired:  # a launcher would end the others
            process.kill()
            process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_a_split_run_survives_a_kill_and_hands_on_what_it_trained(
    data: Path, tmp_path: Path, lora: bool
) -> None:
    out = tmp_path / "run"
    kill_one_in_the_front_end(launch(data, out, lora), out)
    assert RunFolder(out).done("sft")
    assert not RunFolder(out).done("midend")
    processes = launch(data, out, lora)
    said = [process.communicate(timeout=280)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    steps = [(line["stage"], line["step"]) for line in RunFolder(out).lines("curves.jsonl")]
    assert any("heldout_loss" in line for line in RunFolder(out).lines("curves.jsonl"))
    assert steps[-4:] == [("frontend", 1), ("frontend", 2), ("midend", 1), ("midend", 2)]
    reloaded = load_adapted(str(out / "stages" / "midend" / "checkpoint"), "float32")
    torch.testing.assert_close(log_probs(reloaded), torch.load(out / "said.pt"), rtol=0, atol=1e-3)
