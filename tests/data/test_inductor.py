"""The compiler as a teacher: what is too long or has no true plan is no example; a stopped run goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelwright.data.inductor import LONGEST, Skipped, draft, teach
from kernelwright.policy.compiler import Answer
from kernelwright.records import Example, Task, read_jsonl

TASK = Task(id="t/t", source="import torch", shapes={"small": {}})


def test_an_answer_that_is_too_long_makes_no_example() -> None:
    found = draft(TASK, Answer(code="x = 1\n" * LONGEST))
    assert isinstance(found, Skipped)
    assert found.reason.startswith("too long: ")


class Counting:
    """Stands in for the helper: the second task fails, and it can break down."""

    def __init__(self, most: int) -> None:
        self.calls, self.most = 0, most

    def module(self, task: Task) -> Answer:
        if self.calls >= self.most:
            raise KeyboardInterrupt
        self.calls += 1
        return Answer(reason="extern: aten.mm") if task.id.endswith("1") else Answer(code="x = 1", graph="g")


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path) -> None:
    suite = [TASK.model_copy(update={"id": f"t/{number}"}) for number in range(4)]
    out = tmp_path / "drafts.jsonl"
    with pytest.raises(KeyboardInterrupt):
        teach(suite, out, Counting(2))  # type: ignore[arg-type]
    second = Counting(9)
    ended = teach(suite, out, second)  # type: ignore[arg-type]
    assert second.calls == 2
    assert ended == {"rewritten": 3, "extern: aten.mm": 1}
    assert [example.task.id for example in read_jsonl(out, Example)] == ["t/0", "t/2", "t/3"]
    skipped = list(read_jsonl(tmp_path / "drafts.skipped.jsonl", Skipped))
    assert [(item.task.id, item.reason) for item in skipped] == [("t/1", "extern: aten.mm")]
