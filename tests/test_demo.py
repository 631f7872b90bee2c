"""The demo on a recipe of a few steps: runs end to end, is stopped once, and leaves the right files."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kernelwright import demo
from kernelwright.config import load_recipe
from kernelwright.data import CorpusSettings, build
from kernelwright.data.problems import problem
from kernelwright.errors import UserError
from kernelwright.graph.operators import packet
from kernelwright.records import Rollout
from kernelwright.runs import RunFolder
from kernelwright.tasks import load_suite
from kernelwright.verify import VerifierPool

RECIPE = """
threads = 1
[model]
context = 4096
hidden_size = 32
layers = 2
heads = 2
kv_heads = 1
head_dim = 16
intermediate_size = 64
[data]
examples = "{data}/examples.jsonl"
tokenizer = "{data}/tokenizer"
[sft]
steps = 4
batch = 4
[frontend]
steps = 1
prompts = 1
samples = 2
max_tokens = 24
[midend]
steps = 1
prompts = 1
samples = 2
max_tokens = 24
[eval]
samples = 1
max_tokens = 24
limit = 2
"""
CORPUS = {
    "graphs": 8,
    "catalogue": 0,
    "practice": 2,
    "schedules": 2,
    "faults": 0,
    "forms": ("map",),
    "most_operators": 2,
    "heldout": 0.5,
    "max_tokens": 0,
    "vocab_size": 700,
}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    with VerifierPool(2, kept=True) as pool:
        build(CorpusSettings.parse(dict(CORPUS)), folder / "data", pool)
    path = folder / "tiny.toml"
    path.write_text(RECIPE.format(data=folder / "data"))
    return path


@pytest.mark.slow
def test_the_whole_job_can_be_stopped_and_ends_with_a_table_and_a_report(
    recipe: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "kernelwright.demo", "--recipe", str(recipe), "--out", str(out)]
    stopped = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not (out / "curves.jsonl").exists() and stopped.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    stopped.send_signal(signal.SIGINT)
    _, said = stopped.communicate(timeout=120)
    assert stopped.returncode == 130, said
    assert "Traceback" not in said
    assert said.splitlines()[-1] == "kernelwright: stopped; the same command goes on where this one was"

    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    table = done.stdout[done.stdout.index("stage ") :].splitlines()
    assert table[0].split() == ["stage", "format", "compile", "correct", "speedup", "tokens", "seconds"]
    assert [line.split()[0] for line in table[1:4]] == ["sft", "frontend", "midend"]
    assert done.stdout.splitlines()[-1] == f"report {out}/report.html"
    assert "frontend" in (out / "report.html").read_text()

    folder = RunFolder(out)
    for place in ("optimize", *(f"examples/{Path(one).stem}" for one in demo.FIRST)):
        work = folder.sub(*place.split("/"))
        assert json.loads(work.file("found.json").read_text())["rung"] in ("compiler", "library")
        assert "class ModelNew" in work.file("kernel.py").read_text()
        assert work.rows("rollouts.jsonl", Rollout)
    steps = [row["step"] for row in folder.lines("curves.jsonl") if row["stage"] == "sft"]
    assert steps == [1, 2, 3, 4]
    spent = json.loads((out / "seconds.json").read_text())
    assert {"sft", "eval/sft", "frontend", "eval/frontend", "midend", "optimize"} <= set(spent)

    again = subprocess.run(command, capture_output=True, text=True)
    assert again.stdout == done.stdout
    assert json.loads((out / "seconds.json").read_text()) == spent


def test_the_recipe_it_runs_ships_and_is_valid() -> None:
    recipe = load_recipe(demo.shipped(demo.RECIPE))
    assert recipe.stages == ("sft", "frontend", "midend")


def test_its_corpus_is_a_small_world_of_few_operators() -> None:
    data = load_recipe(demo.shipped(demo.RECIPE)).data
    made = [problem(CorpusSettings.of(data, seed=0), number) for number in range(12)]
    operators = {packet(node.op) for one in made for node in one.graph.nodes}
    assert operators <= set(data.operators)
    assert {one.precision for one in made} == {"ieee"}
    assert {len(one.graph.arguments[0].type.shape) for one in made} == {2}


def test_the_example_it_optimizes_ships_and_is_a_task() -> None:
    assert load_suite(str(demo.shipped(demo.EXAMPLE)))[0].id == "file/squared_relu"


def test_what_does_not_ship_is_one_line() -> None:
    with pytest.raises(UserError, match="run the demo from a clone"):
        demo.shipped("recipes/none.toml")
