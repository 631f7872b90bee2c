"""verl (0.8 and 0.9): `compute_score`, named in its configuration:

    reward.custom_reward_function.path=.../kernelwright/adapters/for_verl.py
    reward.custom_reward_function.name=compute_score

Rows of its parquet files need `data_source`, `prompt` and `reward_model = {"ground_truth": task}`; `rows` makes them.
verl cannot leave out a sample, so we raise if the judge fails repeatedly, rather than return zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kernelwright.adapters.grading import default_grader, read_task, task_rows

DATA_SOURCE = "kernelwright"


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    **options: Any,
) -> dict[str, float]:
    """`score` and metrics, with the same keys for every sample. Raises InfrastructureError if the judge failed."""
    preset = str(options.get("preset", "wright"))
    grade = default_grader(preset).grade(read_task(ground_truth), solution_str)
    return {"score": grade.fair_reward(), **grade.metrics()}


def rows(suite: str, limit: int = 0) -> Iterator[dict[str, Any]]:
    """A suite as rows of verl's data files."""
    for index, row in enumerate(task_rows(suite, limit)):
        yield {
            "data_source": DATA_SOURCE,
            "prompt": row["prompt"],
            "ability": "kernels",
            "reward_model": {"style": "rule", "ground_truth": row["task"]},
            "extra_info": {"index": index, "task_id": row["task_id"]},
        }
