"""Inspect's own runner over ten samples with its mock model. Run by `make adapters`, in an environment of its own."""

import math
from pathlib import Path

import pytest

inspect_ai = pytest.importorskip("inspect_ai")

from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402

from adapters import samples  # noqa: E402
from kernelwright.adapters import for_inspect, grading  # noqa: E402


def run(texts: list[str], folder: Path) -> object:
    said = [ModelOutput.from_content("mockllm/model", text) for text in texts]
    for output in said:
        output.usage = ModelUsage()  # else tokens are counted by a tokenizer that would have to be downloaded
    model = get_model("mockllm/model", custom_outputs=said)
    task = for_inspect.kernels("wright/" + ",".join(samples.NAMES))
    [log] = inspect_ai.eval(task, model=model, log_dir=str(folder), display="none", max_connections=1)
    assert log.status == "success", log.error
    return log


def test_ten_samples_are_scored_as_locally(grader: grading.Grader, tmp_path: Path) -> None:
    rows = samples.rows()
    log = run(samples.answers(rows), tmp_path)
    by_id = {sample.id: sample for sample in log.samples}
    assert len(by_id) == 10
    for sample in by_id.values():
        task = grading.read_task(sample.metadata["task"])
        local = grader.grade(task, sample.output.completion)
        assert sample.scores["verdict_scorer"].value["correct"] == local.metrics()["correct"]


def test_a_dead_judge_leaves_samples_unscored(dead: None, tmp_path: Path) -> None:
    log = run(["x"] * 10, tmp_path)
    assert all(math.isnan(sample.scores["verdict_scorer"].value) for sample in log.samples)
