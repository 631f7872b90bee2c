"""`import kernelwright` is cheap and does not import torch."""

import json
import subprocess
import sys

import pytest

PROBE = """
import json, sys, time
start = time.process_time()
{statement}
print(json.dumps([time.process_time() - start, "torch" in sys.modules]))
"""


def probe(statement: str) -> tuple[float, bool]:
    """(seconds of CPU, torch was imported) for a statement in a fresh interpreter."""
    run = subprocess.run(
        [sys.executable, "-c", PROBE.format(statement=statement)], capture_output=True, text=True, check=True
    )
    seconds, torch = json.loads(run.stdout)
    return seconds, torch


def test_import_takes_under_three_tenths_of_a_second() -> None:
    assert min(probe("import kernelwright")[0] for _ in range(3)) < 0.3


@pytest.mark.parametrize(
    "module", ["", ".records", ".outcomes", ".errors", ".config", ".hardware", ".runs", ".cli"]
)
def test_import_leaves_torch_alone(module: str) -> None:
    assert probe(f"import kernelwright{module}")[1] is False
