"""Modules of the field suite as tasks that travel, and the tables of their times."""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from field.clock import as_module, clocked, geometric, modules_of, ratio, rehearse_module
from field.graphs import at_sizes, batch_of, doubled, measure_graphs, static_of

from kernelwright.graph.execute import execute
from kernelwright.records import Task


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(48), nn.Linear(48, 96)
        self.register_buffer("shift", torch.arange(96))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(self.up(self.norm(x))) + self.shift


@pytest.fixture(scope="module")
def row() -> dict[str, Any]:
    case = doubled((Gate().eval().bfloat16(), (torch.randn(1, 5, 48, dtype=torch.bfloat16),), {}))
    return measure_graphs(case) | {"package": "timm"}


def test_a_module_travels_as_a_task_at_a_larger_batch(row: dict[str, Any]) -> None:
    whole = static_of(Task.model_validate(row["whole"]))
    assert row["ok"]
    assert row["times"] == 64
    assert whole.argument("x1").type.shape == (128, 5, 48)
    assert {
        static_of(Task.model_validate(one["task"])).arguments[0].type.shape[0] for one in row["groups"]
    } == {128}


def test_its_module_holds_weights_and_agrees_with_the_graph(row: dict[str, Any]) -> None:
    graph = static_of(Task.model_validate(row["whole"]))
    values = {
        one.name: torch.ones(one.type.shape, dtype=getattr(torch, one.type.dtype)) for one in graph.arguments
    }
    module, inputs = as_module(graph, values)
    assert len(inputs) == 1
    assert len(list(module.parameters())) == 4
    assert torch.equal(module(*inputs)[0], execute(graph, values)[0])


def test_a_rehearsal_compiles_the_groups_and_runs_the_module(row: dict[str, Any]) -> None:
    found = rehearse_module(row)
    assert found["ok"]
    assert sum(found["groups"].values()) == len(row["groups"])


def test_a_size_of_weights_is_no_batch() -> None:
    linear = nn.Linear(8, 8).bfloat16()
    row = measure_graphs((linear, (torch.randn(1, 8, dtype=torch.bfloat16),), {}))
    assert row["times"] == 1
    graph = at_sizes(static_of(Task.model_validate(row["whole"])), {})
    assert batch_of(graph) == ""


def test_the_interval_of_a_ratio_is_that_of_its_sixth_and_fifteenth_round() -> None:
    rounds = {"compile": [float(one) for one in range(20)], "ours": [1.0] * 20}
    assert ratio({"ok": True, "rounds": rounds}) == (9.5, 5.0, 14.0)
    assert ratio({"ok": False}) == (1.0, 1.0, 1.0)
    assert geometric([2.0, 0.5])[0] == pytest.approx(1.0)


def test_failures_count_as_one_and_unmeasured_groups_as_slower(tmp_path: Path) -> None:
    tasks = [{"count": 1, "task": {"id": f"field/{name}"}} for name in ("fast", "slow")]
    rows = {
        "a": {
            "ok": True,
            "package": "timm",
            "groups": [*tasks, {"count": 1, "unposed": "task: it has no draw"}],
        },
        "b": {"ok": True, "package": "monai", "groups": []},
        "c": {"ok": False, "package": "timm"},
    }
    file, out = tmp_path / "field.jsonl.gz", tmp_path / "out"
    with gzip.open(file, "wt") as lines:
        lines.writelines(json.dumps({"key": key, "row": one}) + "\n" for key, one in rows.items())
    timed = {"ok": True, "package": "timm", "rounds": {"compile": [2.0] * 20, "ours": [1.0] * 20}, "kept": 1}
    timed |= {"over": {"eager": 3.0}, "error": {"eager": 0.01}}
    (out / "groups").mkdir(parents=True)
    (out / "rows.jsonl").write_text(
        json.dumps({"key": "a", "row": timed}) + "\n"
        + json.dumps({"key": "b", "row": {"ok": False, "package": "monai", "cause": "clock: wrong"}}) + "\n"
    )  # fmt: skip
    measured = [
        {"problem": f"field/{name}", "plan": plan, "ms": ms, "final": plan == "p"}
        for name, ours in (("fast", 1.0), ("slow", 4.0))
        for plan, ms in (("eager", 3.0), ("compile", 2.0), ("p", ours))
    ]
    (out / "groups" / "rows.jsonl").write_text("".join(json.dumps(one) + "\n" for one in measured))
    text = clocked(file, out)
    assert list(modules_of(file, (1, 2))) == ["b"]
    assert "| open | 1 | 0 | 1 of 1, 100% [2%, 100%] | 0 of 1, 0% [0%, 98%] | 2.000 [2.000, 2.000]" in text
    assert (
        "| measurement only | 1 | 1 | 0 of 1, 0% [0%, 98%] | 0 of 1, 0% [0%, 98%] | 1.000 [1.000, 1.000]"
        in text
    )
    assert "| open | 3 | 2 | 1 | 1 of 3, 33% [1%, 91%] | 1 of 2, 50% [1%, 99%] |" in text
    assert "    1  clock: wrong" in text
