"""Completions with known results: a gold, a cheat, and one without code."""

from __future__ import annotations

from typing import Any

from kernelwright.adapters import grading
from kernelwright.policy.gold import gold

NAMES = (
    "relu",
    "silu",
    "softplus",
    "elu",
    "add_relu",
    "rmsnorm",
    "softmax_rows",
    "max_rows",
    "swiglu",
    "cumsum",
)
"""Ten built-in tasks that are judged quickly."""

CHEAT = """```python
import torch
import triton
import triton.language as tl


@triton.jit
def never(x):
    pass


class ModelNew(torch.nn.Module):
    def forward(self, *args):
        return torch.relu(args[0])
```"""


def rows() -> list[dict[str, Any]]:
    """Ten rows of a data set."""
    return list(grading.task_rows("wright/" + ",".join(NAMES)))


def answer(task_id: str) -> str:
    """The gold in a model's form."""
    return f"```python\n{gold(task_id)}\n```"


def answers(given: list[dict[str, Any]]) -> list[str]:
    """Eight golds, a cheat and a completion without code."""
    return [answer(row["task_id"]) for row in given[:8]] + [CHEAT, "I cannot."]
