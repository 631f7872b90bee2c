"""A stage that asks a model of plan and code for plans only: samples end after the plan, and the printer writes the code."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes import ReadJudge
from functions import improving, pair
from tiny import make_recipe

from kernelwright.data.tokenizer import train_tokenizer
from kernelwright.policy.hf import HFPolicy
from kernelwright.policy.text import completion_ids
from kernelwright.prompts import completion_text
from kernelwright.records import Completion, Prompt, Rollout, read_jsonl, write_jsonl
from kernelwright.train import train

SAID = completion_text(pair().plan, pair().code)


def says(
    self: HFPolicy, prompts: Sequence[Prompt], n: int = 1, *, on_completion: Callable[..., Any], **_: Any
) -> None:
    ids = tuple(completion_ids(self.tokenizer, SAID))
    for row in range(len(prompts)):
        for sample in range(n):
            on_completion(row, sample, Completion(text=SAID, token_ids=ids, logprobs=(-1.0,) * len(ids)))


def test_code_behind_a_plan_is_neither_judged_nor_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_jsonl(tmp_path / "examples.jsonl", [pair(), improving()])
    train_tokenizer([SAID] * 4, 400, tmp_path / "tokenizer")
    monkeypatch.setattr(HFPolicy, "generate", says)
    midend = {"answer": "plan", "reward": "plans", "grouping": "plans", "steps": 1, "max_tokens": 64}
    recipe = make_recipe(tmp_path, stages=["midend"], model={"context": 4096}, midend=midend)
    train(recipe, tmp_path / "run", verifier=ReadJudge(), quiet=True)
    logged = list(read_jsonl(tmp_path / "run/rollouts.jsonl", Rollout))
    assert {r.completion.text.strip() for r in logged} == {SAID.partition("\n```")[0]}
    assert {r.candidate.code for r in logged} == {pair().code}
    assert all(len(r.completion.token_ids or ()) < 64 for r in logged)
