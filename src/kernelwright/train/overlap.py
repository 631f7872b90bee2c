"""Generating one step ahead: the next step's samples are written while this step's are verified.

Samples are then one update old, which the importance ratio against their own log-probs makes up for. The samples
that are ahead belong to a checkpoint, for a resumed run could not write them again: its weights are newer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from kernelwright.records import Completion, Prompt, Task
from kernelwright.rollouts import Rolling

Start = Callable[[list[Prompt], list[Task]], Rolling]
"""Makes an empty Rolling for prompts about tasks."""


def save_ahead(folder: Path, rank: int, rolling: Rolling) -> None:
    """Keep what was generated, without verdicts, in a checkpoint's folder."""
    row = {
        "prompts": [prompt.model_dump(mode="json") for prompt in rolling.prompts],
        "completions": [
            [row, sample, completion.model_dump(mode="json")]
            for (row, sample), completion in sorted(rolling.completions.items())
        ],
    }
    _place(folder, rank).write_text(json.dumps(row), encoding="utf-8")


def load_ahead(folder: Path | None, rank: int, tasks: Sequence[Task], start: Start) -> Rolling | None:
    """What a checkpoint was ahead, heard again; None where it holds nothing of the kind."""
    if folder is None or not _place(folder, rank).exists():
        return None
    row = json.loads(_place(folder, rank).read_text(encoding="utf-8"))
    known = {task.id: task for task in tasks}
    prompts = [Prompt.model_validate(prompt) for prompt in row["prompts"]]
    rolling = start(prompts, [known[prompt.task_id] for prompt in prompts])
    for prompt, sample, completion in row["completions"]:
        rolling.hear(prompt, sample, Completion.model_validate(completion))
    return rolling


def _place(folder: Path, rank: int) -> Path:
    return folder / f"ahead-{rank}.json"
