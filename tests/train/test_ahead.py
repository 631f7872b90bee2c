"""Several steps in progress: their order, how far ahead they may be, and that a resumed run judges pending completions again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import ReadJudge, SaidPolicy, answer, task

from kernelwright.prompts import render
from kernelwright.rollouts import Rolling
from kernelwright.train.ahead import Steps, Work


class Told:
    """Two rounds per step; records the order of writing and waiting."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.policy = SaidPolicy(lambda prompt, sample, seed: answer(f"correct {seed + 1}"))
        self.now = 0

    def begin(self, work: Work, step: int) -> Any:
        drawn = []
        for turn in range(2):
            drawn += work.draw(lambda: [step * 10 + turn])  # noqa: B023
            one = task("a")
            rolling = Rolling(
                self.policy, [render("frontend", one)], [one], ReadJudge(), reward="wright", stage="", step=0
            )
            written = len(self.policy.asked)

            def generate(rolling: Rolling = rolling, turn: int = turn) -> None:
                rolling.generate(1, temperature=1.0, top_p=1.0, seed=step * 2 + turn)

            work.say(rolling, generate, self.now)
            self.events.append(f"{'wrote' if len(self.policy.asked) > written else 'judged'} {step}.{turn}")
            yield
            rolling.collect()
            self.events.append(f"judged {step}.{turn}")
        return drawn


def test_one_step_at_a_time_is_written_and_judged_alone() -> None:
    told = Told()
    steps = Steps(told.begin, ahead=0, last=1)
    assert steps.finish(0)[0] == [0, 1]
    assert told.events == ["wrote 0.0", "judged 0.0", "wrote 0.1", "judged 0.1"]


def test_the_next_step_is_written_while_this_one_is_judged() -> None:
    told = Told()
    steps = Steps(told.begin, ahead=1, last=2)
    steps.finish(0)
    assert told.events == [
        "wrote 0.0", "wrote 1.0", "judged 0.0", "wrote 0.1", "judged 1.0", "wrote 1.1", "judged 0.1",
    ]  # fmt: skip
    assert list(steps.under_way) == [1]
    told.events.clear()
    told.now = 1
    result, work = steps.finish(1)
    assert result == [10, 11]
    assert told.events == ["wrote 2.0", "judged 1.1"]
    assert work.age(1) == 1.0


def test_nothing_is_begun_after_the_last_step() -> None:
    told = Told()
    steps = Steps(told.begin, ahead=3, last=1)
    steps.finish(0)
    steps.finish(1)
    assert steps.under_way == {}


@pytest.mark.parametrize("ahead", [1, 2])
def test_a_resumed_run_hears_what_was_said_and_draws_what_was_drawn(tmp_path: Path, ahead: int) -> None:
    first = Told()
    steps = Steps(first.begin, ahead=ahead, last=5)
    steps.finish(0)
    steps.save(tmp_path / "ahead.json")
    again = Told()
    resumed = Steps(again.begin, ahead=ahead, last=5, saved=tmp_path / "ahead.json")
    result, work = resumed.finish(1)
    assert result == [10, 11]
    assert {"judged 1.0", "judged 1.1"} <= set(again.events)
    assert [event for event in again.events if event.startswith("wrote")] == [f"wrote {1 + ahead}.0"]
    expected, before = steps.finish(1)
    assert (expected, before.entries) == (result, work.entries)
