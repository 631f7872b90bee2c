"""Conversations: what is appended, when they end, and that replies get no loss and no credit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import ReadJudge, answer, task
from tiny import FAST, SLOW, examples, finished, make_recipe

from kernelwright.config import RlConfig
from kernelwright.policy.hf import HFPolicy
from kernelwright.policy.text import completion_ids, prompt_ids, reply_ids, token_pieces
from kernelwright.prompts import render
from kernelwright.records import Completion, Prompt, Rollout, read_jsonl
from kernelwright.rollouts import roll
from kernelwright.runs import RunFolder
from kernelwright.train import train
from kernelwright.train.credit import row
from kernelwright.train.model import load_tokenizer
from kernelwright.train.turns import converse, reply


class Says(HFPolicy):
    """Scripted answers in real tokens: `script[turn]`, where the turn is the number of requests so far."""

    def __init__(self, tokenizer: Any, script: list[str], context: int = 4096) -> None:
        self.tokenizer, self.ends, self.context = tokenizer, [tokenizer.eos_token_id], context
        self.name, self.script, self.asked = "says", script, []  # type: ignore[var-annotated]
        self.given, self.numbers = {}, {}

    def generate(self, prompts: Any, n: int = 1, *, on_completion: Any = None, **_: Any) -> Any:
        said = self.script[min(len(self.asked), len(self.script) - 1)]
        self.asked.append([self.encode(prompt) for prompt in prompts])
        ids = tuple(completion_ids(self.tokenizer, said))
        made = Completion(
            text="".join(token_pieces(self.tokenizer, ids, self.ends)),
            token_ids=ids,
            logprobs=(-1.0,) * len(ids),
        )
        for at in range(len(prompts)):
            for sample in range(n):
                on_completion(at, sample, made)
        return [[made] * n for _ in prompts]


@pytest.fixture
def tokenizer(data: Path) -> Any:
    return load_tokenizer(str(data / "tokenizer"))


def talk_of(tokenizer: Any, script: list[str], context: int = 4096, **settings: Any) -> Any:
    rl = RlConfig(**{"samples": 2, "max_tokens": 64, "turns": 3, "reward": "kevin", **settings})
    policy, one = Says(tokenizer, script, context), task("a")

    def written(prompts: list[Prompt], tasks: Any, turn: int) -> list[list[Rollout]]:
        return roll(policy, prompts, tasks, ReadJudge(), n=1 if turn else 2, reward="kevin", stage="s")

    def again(prompts: list[Prompt], tasks: Any, turn: int) -> Any:
        made = written(prompts, tasks, turn)
        yield
        return made

    first = written([render("frontend", one, style="compact", max_tokens=64)], [one], 0)
    [[talk, _]] = finished(converse(policy, first, [one], [0], rl, again))
    return policy, talk


def test_the_verdict_is_appended_and_the_next_answer_goes_on_from_the_very_tokens(tokenizer: Any) -> None:
    policy, talk = talk_of(tokenizer, [answer("wrong_value"), answer(SLOW), answer(FAST)])
    assert [r.verdict.outcome.value for r in talk.turns] == ["wrong_value", "correct", "correct"]
    assert [r.turn for r in talk.turns] == [0, 1, 2]
    assert len({r.group for r in talk.turns}) == 1
    repair, faster = (tokenizer.decode(ids) for ids in talk.replies)
    assert "<feedback>\nwrong_value" in repair
    assert "fix: check formula" in repair
    assert "time: 2 ms modelled" in faster
    assert "faster" in faster
    # The policy's input on its last turn is the row up to its last answer.
    made = row(talk, end=tokenizer.eos_token_id)
    last = len(talk.turns[-1].completion.token_ids)
    assert policy.asked[2][0] == made.prompt + made.tokens[:-last]
    assert made.tokens[: len(talk.turns[0].completion.token_ids)][-1] == tokenizer.eos_token_id
    assert sum(made.own) == sum(len(r.completion.token_ids) for r in talk.turns)


def test_a_conversation_can_end_at_its_first_accepted_kernel(tokenizer: Any) -> None:
    _, talk = talk_of(tokenizer, [answer("wrong_value"), answer(SLOW), answer(FAST)], until_correct=True)
    assert len(talk.turns) == 2


@pytest.mark.parametrize("said", ["infrastructure_error", "crash"])
def test_a_conversation_without_a_verdict_ends(tokenizer: Any, said: str) -> None:
    _, talk = talk_of(tokenizer, [answer(said)])
    assert len(talk.turns) == 1


def test_a_conversation_ends_where_the_context_does(tokenizer: Any) -> None:
    one = render("frontend", task("a"), style="compact")
    length = len(prompt_ids(tokenizer, one)) + len(completion_ids(tokenizer, answer("wrong_value")))
    _, talk = talk_of(tokenizer, [answer("wrong_value")], context=length + 70)
    assert len(talk.turns) == 1


def test_a_cut_answer_is_not_replied_to(tokenizer: Any) -> None:
    _, talk = talk_of(tokenizer, [answer("wrong_value")])
    cut = talk.turns[0].completion.model_copy(update={"finish_reason": "length"})
    assert reply(talk.turns[0].model_copy(update={"completion": cut}), RlConfig(turns=2)) == ""


def test_chat_templates_mark_the_reply() -> None:
    class Chat:
        chat_template = "yes"
        eos_token = "<end>"

        def apply_chat_template(self, turns: Any, **_: Any) -> str:
            said = "".join(f"<{t['role']}>{t['content']}<end>\n" for t in turns)
            return said + "<assistant>"

        def encode(self, text: str, **_: Any) -> list[str]:
            return [text]

    assert reply_ids(Chat(), "be faster ") == ["\n<user>be faster<end>\n<assistant>"]


def test_a_stage_of_two_turns_trains_and_logs_every_turn(data: Path, tmp_path: Path) -> None:
    recipe = make_recipe(
        data,
        stages=["sft", "frontend"],
        sft={"steps": 40, "save_every": 40},
        frontend={"turns": 2, "steps": 2, "reward": "kevin", "save_every": 1, "scale": "none"},
        model={"context": 512},
    )
    judge = ReadJudge()
    train(recipe, tmp_path / "run", verifier=judge, quiet=True)
    logged = list(read_jsonl(tmp_path / "run" / "rollouts.jsonl", Rollout))
    assert {r.turn for r in logged} == {0, 1}
    second = [r for r in logged if r.turn == 1]
    assert all(r.prompt.messages[-1].content.startswith(("<feedback>", "<profile>")) for r in second)
    lines = [
        line for line in RunFolder(tmp_path / "run").lines("curves.jsonl") if line["stage"] == "frontend"
    ]
    assert [line["step"] for line in lines] == [1, 2]


def test_replies_are_out_of_the_loss(data: Path, tmp_path: Path) -> None:
    from kernelwright.train.curriculum import Curriculum
    from kernelwright.train.curves import Curves
    from kernelwright.train.model import new_model
    from kernelwright.train.prompts import frontend_asks
    from kernelwright.train.segments import SegmentTrainer

    class Scripted(SegmentTrainer):
        def conversations(self, slots: int) -> Any:
            good = talk_of(self.processing_class, [answer("wrong_value"), answer(FAST)], turns=2)[1]
            bad = talk_of(self.processing_class, [answer("wrong_value")], turns=2)[1]
            return [good, bad, bad, bad] * (slots // 4)

    recipe = make_recipe(
        data,
        model={"context": 1024},
        frontend={"turns": 2, "reward": "kevin", "scale": "none", "credit": "uniform", "gamma": 0.5},
    )
    tokenizer, run = load_tokenizer(recipe.data.tokenizer), RunFolder(tmp_path)
    made = Scripted(
        recipe,
        new_model(recipe.model, tokenizer, 3),
        tokenizer,
        Curriculum(frontend_asks(e.task for e in examples()), 0),
        ReadJudge(),
        Curves(run, "frontend", quiet=True),
    )
    batch = made._generate_and_score_completions([{"prompt": str(i)} for i in range(8)])
    [good, *_] = made.conversations(4)
    own = torch.tensor(row(good, end=0).own)
    assert batch["tool_mask"][0][: len(own)].tolist() == own.tolist()
    assert 0 in own
    # Turn 1 of the good one is 0.3 + 2 for 2x, the others 0: mean 0.575. Turn 0 gets half of that.
    advantages = batch["advantages"][0][: len(own)]
    first = len(good.turns[0].completion.token_ids)
    last = len(good.turns[1].completion.token_ids)
    assert advantages[:first].tolist() == pytest.approx([(2.3 - 2.3 / 4) / 2] * first)
    assert advantages[-last:].tolist() == pytest.approx([2.3 - 2.3 / 4] * last)
    assert advantages[own == 0].abs().max() == 0
    assert int(batch["num_items_in_batch"]) == int((batch["completion_mask"] * batch["tool_mask"]).sum())


def test_turns_as_rows_are_paid_by_hand(data: Path, tmp_path: Path) -> None:
    """Kevin's way: each turn is a row, gamma 0.5, compared across the prompt; turns that did not happen are not in the loss."""
    from kernelwright.train.curriculum import Curriculum
    from kernelwright.train.curves import Curves
    from kernelwright.train.model import new_model
    from kernelwright.train.prompts import frontend_asks
    from kernelwright.train.segments import SegmentTrainer

    class Scripted(SegmentTrainer):
        def conversations(self, slots: int) -> Any:
            good = talk_of(self.processing_class, [answer("wrong_value"), answer(FAST)], turns=2)[1]
            bad = talk_of(self.processing_class, ["nothing"], turns=1)[1]
            return [good, bad] * (slots // 4)

    settings = {"turns": 2, "samples": 2, "prompts": 2, "reward": "kevin", "scale": "none"}
    settings |= {"credit": "uniform", "gamma": 0.5, "compare": "prompt", "history": "answers"}
    recipe = make_recipe(data, model={"context": 1024}, frontend=settings)
    tokenizer, run = load_tokenizer(recipe.data.tokenizer), RunFolder(tmp_path)
    made = Scripted(
        recipe,
        new_model(recipe.model, tokenizer, 3),
        tokenizer,
        Curriculum(frontend_asks(e.task for e in examples()), 0),
        ReadJudge(),
        Curves(run, "frontend", quiet=True),
    )
    batch = made._generate_and_score_completions([{"prompt": str(i)} for i in range(8)])
    in_loss = (batch["completion_mask"] * batch["tool_mask"]).sum(1).tolist()
    good = made.conversations(4)[0]
    lengths = [len(turn.completion.token_ids or ()) for turn in good.turns]
    bad = len(made.conversations(4)[1].turns[0].completion.token_ids or ())
    assert in_loss == [*lengths, bad, 0] * 2
    # Turn 1 of the good one: 0.3 + 2 for 2x. Turn 0: half of that. The bad one: 0. Mean of the three: 1.15.
    assert batch["advantages"][:4, 0].tolist() == pytest.approx([0.0, 1.15, -1.15, 0.0])
    assert int(batch["num_items_in_batch"]) == sum(in_loss)


def test_a_stage_whose_turns_are_rows_trains(data: Path, tmp_path: Path) -> None:
    settings = {"turns": 2, "steps": 1, "reward": "kevin", "save_every": 1, "history": "answers"}
    recipe = make_recipe(
        data,
        stages=["frontend"],
        frontend={**settings, "compare": "prompt", "loss": "dr_grpo", "minibatch": 4},
        model={"context": 512},
    )
    train(recipe, tmp_path / "run", verifier=ReadJudge(), quiet=True)
    [line] = RunFolder(tmp_path / "run").lines("curves.jsonl")
    assert line["drawn"]["family"] == {"norm": 2}
