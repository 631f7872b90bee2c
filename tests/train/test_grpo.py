"""Our additions to the trainer: token advantages equal to TRL's scalar path, rewards of None, truncated completions."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import trl
from fakes import ReadJudge
from tiny import FAST, code, examples, make_recipe

from kernelwright import candidates
from kernelwright.config import Recipe
from kernelwright.errors import InfrastructureError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.policy.text import prompt_ids
from kernelwright.prompts import completion_text, render
from kernelwright.records import Candidate, Completion, Reward, Rollout, Task, Verdict
from kernelwright.runs import RunFolder
from kernelwright.train.credit import Conversation, boundary, reward_row
from kernelwright.train.curriculum import Curriculum
from kernelwright.train.curves import Curves
from kernelwright.train.model import load_tokenizer, new_model
from kernelwright.train.prompts import frontend_asks
from kernelwright.train.segments import SegmentTrainer


@pytest.fixture
def trainer(data: Path, tmp_path: Path) -> Callable[..., SegmentTrainer]:
    """Makes a trainer at step 0; `frontend` settings by keyword."""

    def make(
        kind: type[SegmentTrainer] = SegmentTrainer, model: Any = None, **frontend: Any
    ) -> SegmentTrainer:
        recipe = make_recipe(data, frontend=frontend)
        tokenizer = load_tokenizer(recipe.data.tokenizer)
        shutil.rmtree(tmp_path / "run", ignore_errors=True)
        return kind(
            recipe,
            model or new_model(recipe.model, tokenizer, seed=3),
            tokenizer,
            Curriculum(frontend_asks(e.task for e in examples()), recipe.seed),
            ReadJudge(),
            Curves(RunFolder(tmp_path / "run"), "frontend", quiet=True),
        )

    return make


class Scripted(SegmentTrainer):
    """Scripted rollouts instead of sampling: `script[i]` is (completion's text, plan reward, code reward, reason)."""

    script: Sequence[tuple[str, float | None, float | None, str]] = ()

    def rollouts(self, slots: int) -> list[Rollout]:
        return [self._rollout(i, *self.script[i % len(self.script)]) for i in range(slots)]

    def conversations(self, slots: int) -> list[Conversation]:
        made = self.rollouts(slots)
        return [Conversation(tuple(prompt_ids(self.processing_class, r.prompt)), (r,)) for r in made]

    def _rollout(self, i: int, text: str, plan: float | None, paid: float | None, reason: Any) -> Rollout:
        task = Task(id="synth/a", suite="synth", source="# a")
        tokenizer = self.processing_class
        ids = tuple(tokenizer.encode(text, add_special_tokens=False)) + (
            (tokenizer.eos_token_id,) if reason == "stop" else ()
        )
        pieces = [tokenizer.decode([t]) for t in ids[: len(ids) - (reason == "stop")]] + [""] * (
            reason == "stop"
        )
        judged = plan is not None
        outcome = Outcome.WRONG_VALUE if judged else Outcome.INFRASTRUCTURE_ERROR
        return Rollout(
            task_id=task.id,
            stage="frontend",
            group=f"g{i // self.rl.samples}",
            prompt=render("frontend", task, style="compact", max_tokens=48),
            completion=Completion(text=text, token_ids=ids, logprobs=(0.0,) * len(ids), finish_reason=reason),
            candidate=candidates.parse(text, pieces, reason),
            verdict=Verdict(task_id=task.id, outcome=outcome, gate=Gate.SMALL),
            reward=Reward(preset="wright", plan=plan, code=paid),
            seconds={"generate": 0.1, "total": 0.2},
        )


class Scalar(Scripted):
    """The same rewards through TRL's own arithmetic: one advantage per sample."""

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        return trl.GRPOTrainer._generate_and_score_completions(self, inputs)


def text(plan: str, body: str = FAST) -> str:
    return completion_text(plan, code(body))


EQUAL = [(text("fast"), 1.0, 1.0, "stop"), (text("slow"), 0.0, 0.0, "stop"), ("garbage", -1.0, -1.0, "stop"),
         (text("x", "wrong_value"), 0.25, 0.25, "stop")]  # fmt: skip


def batch_of(trainer: SegmentTrainer, script: Sequence[Any]) -> dict[str, Any]:
    trainer.script = script  # type: ignore[attr-defined]
    slots = [{"prompt": str(slot)} for slot in range(8)]
    return trainer._generate_and_score_completions(slots)


def gradient(trainer: SegmentTrainer, batch: dict[str, Any]) -> torch.Tensor:
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.zero_grad()
    trainer._compute_loss(trainer.model, batch).backward()
    return torch.cat([p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None])


@pytest.mark.parametrize("loss", ["dapo", "grpo", "bnpo", "dr_grpo"])
def test_uniform_credit_is_trls_scalar_path(trainer: Any, loss: str) -> None:
    """Same advantages, same gradient, for every way of averaging."""
    options = {"loss": loss, "scale": "none"}
    ours, theirs = trainer(Scripted, credit="uniform", **options), trainer(Scalar, **options)
    tokens, scalar = batch_of(ours, EQUAL), batch_of(theirs, EQUAL)
    assert tokens["advantages"].shape == tokens["completion_ids"].shape
    torch.testing.assert_close(
        tokens["advantages"], scalar["advantages"][:, None].expand_as(tokens["advantages"])
    )
    expected = gradient(theirs, scalar)
    assert expected.abs().max() > 0
    torch.testing.assert_close(gradient(ours, tokens), expected)


def test_equal_segment_rewards_make_hierarchical_credit_uniform(trainer: Any) -> None:
    """Up to a factor: one segment gets half of the sum."""
    tokens = batch_of(trainer(Scripted, scale="none"), EQUAL)
    scalar = batch_of(trainer(Scalar, scale="none"), EQUAL)
    torch.testing.assert_close(
        2 * tokens["advantages"], scalar["advantages"][:, None].expand_as(tokens["advantages"])
    )


def test_the_gradient_equals_scalar_grpo_and_the_sum_of_its_parts(trainer: Any) -> None:
    """In double precision: one reward for both segments is scalar GRPO; else the gradient is plan's plus code's."""
    script = [(text("fast"), 1.0, 0.25, "stop"), (text("slow"), 0.0, 1.0, "stop"), ("junk", -1.0, -1.0, "stop"),
              (text("x", "wrong_value"), 0.5, 0.0, "stop")]  # fmt: skip
    made = trainer(Scripted, scale="none", alpha=0.1)
    made.model.double()

    def of(rewards: Sequence[Any], **settings: Any) -> torch.Tensor:
        made.rl = made.rl.model_copy(update=settings)
        return gradient(made, batch_of(made, rewards))

    one = [(said, paid, paid, reason) for said, paid, _, reason in script]
    scalar = trainer(Scalar, scale="none")
    scalar.model.double()
    expected = gradient(scalar, batch_of(scalar, one))
    assert expected.abs().max() > 1e-3
    # TRL's scalar path gets the sum of both segments, here twice the one reward.
    assert (2 * of(one, alpha=1.0) - expected).abs().max() < 1e-6
    whole = of(script, alpha=0.1)
    plan = of([(said, paid, 0.0, reason) for said, paid, _, reason in script], alpha=1.0)
    code_ = of([(said, 0.0, paid, reason) for said, _, paid, reason in script], alpha=1.0)
    assert (whole - (0.1 * plan + code_)).abs().max() < 1e-6
    assert plan.abs().max() > 1e-3
    assert code_.abs().max() > 1e-3


def test_plan_and_code_tokens_get_their_own_advantage(trainer: Any) -> None:
    script = [(text("fast"), 1.0, 0.0, "stop"), (text("slow"), 0.0, 1.0, "stop")]
    made = trainer(Scripted, scale="none", alpha=0.5)
    batch = batch_of(made, script)
    start = boundary(made.rollouts(1)[0].candidate)
    assert start > 0
    row = batch["advantages"][0]
    assert (set(row[:start].tolist()), set(row[start:].tolist())) == ({0.25}, {-0.5})
    said = made.processing_class.decode(batch["completion_ids"][0][:start])
    assert "fast" in said
    assert "class" not in said


def test_likely_tokens_are_not_unlearned_where_only_slips_shall_be(trainer: Any) -> None:
    """The script's samples were certain of every token."""
    whole = batch_of(trainer(Scripted, scale="none"), EQUAL)["advantages"]
    part = batch_of(trainer(Scripted, scale="none", modal=True), EQUAL)["advantages"]
    assert whole.min() < 0 < whole.max()
    torch.testing.assert_close(part, whole.clamp(min=0))


def test_samples_without_a_reward_are_dropped_and_the_others_are_a_smaller_group(trainer: Any) -> None:
    script = [(text("fast"), 1.0, 1.0, "stop"), (text("slow"), 0.0, 0.0, "stop"), (text("x"), None, None, "stop"),
              ("garbage", 0.0, 0.0, "stop")]  # fmt: skip
    made = trainer(Scripted, scale="none", credit="uniform")
    batch = batch_of(made, script)
    assert batch["completion_mask"].sum(1).bool().tolist() == [True, True, False, True] * 2
    assert batch["num_items_in_batch"] == batch["completion_mask"].sum()
    torch.testing.assert_close(batch["advantages"][:4, 0], torch.tensor([4 / 3, -2 / 3, 0.0, -2 / 3]))
    assert made.curves.extra["dropped"] == 2
    assert torch.isfinite(gradient(made, batch)).all()


@pytest.mark.parametrize("loss", ["dapo", "grpo", "bnpo", "dr_grpo"])
def test_a_step_without_any_reward_moves_nothing(trainer: Any, loss: str) -> None:
    made = trainer(Scripted, loss=loss)
    batch = batch_of(made, [(text("x"), None, None, "stop")])
    assert gradient(made, batch).abs().max() == 0


CUT = [("<plan>\nfast", -1.0, -0.9, "length"), (text("fast"), 1.0, 1.0, "stop"), (text("slow"), 0.0, 0.0, "stop"),
       (text("x"), 0.0, 0.0, "stop")]  # fmt: skip


@pytest.mark.parametrize("truncated", ["keep", "mask", "drop"])
def test_cut_completions(trainer: Any, truncated: str) -> None:
    """Kept: trained on. Masked: not in the loss, but in the baseline. Dropped: in neither."""
    batch = batch_of(trainer(Scripted, truncated=truncated, scale="none", credit="uniform"), CUT)
    assert batch["completion_mask"].sum(1).bool().tolist() == [truncated == "keep", True, True, True] * 2
    total = [-1.9, 2.0, 0.0, 0.0] if truncated != "drop" else [2.0, 0.0, 0.0]
    assert float(batch["advantages"][1, 0]) == pytest.approx(2.0 - sum(total) / len(total))


def test_the_prompt_that_was_sampled_from_is_the_one_that_is_trained_on(trainer: Any) -> None:
    made = trainer(Scripted)
    batch = batch_of(made, EQUAL)
    prompt = made.processing_class.decode(batch["prompt_ids"][0])
    assert prompt.endswith("<task>\n# a\n</task>\n")


def test_sampled_log_probabilities_are_the_trainers(trainer: Any) -> None:
    """The policy's log-probabilities at sampling are the start of the loss: the ratio begins at 1."""
    made = trainer()
    batch = made._generate_and_score_completions([{"prompt": str(slot)} for slot in range(8)])
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    with torch.no_grad():
        logps, *_ = made._get_per_token_logps_and_entropies(
            made.model, ids, mask, batch["completion_ids"].shape[1]
        )
    kept = batch["completion_mask"].bool()
    torch.testing.assert_close(batch["sampling_per_token_logps"][kept], logps[kept], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("plan", "body", "expected"),
    [((1, 4), (6, 9), 6), (None, (2, 9), 0), ((1, 4), None, 4), ((7, 9), (1, 5), 0)],
)
def test_the_boundary_is_where_the_code_starts_after_a_plan(plan: Any, body: Any, expected: int) -> None:
    assert boundary(Candidate(plan="p", code="c", plan_span=plan, code_span=body)) == expected


class Counting(SegmentTrainer):
    """Rewards by script, since a judge's verdicts on sampled code would be noise."""

    paid: Sequence[tuple[float, ...]] = ()

    def _converse(self, work: Any, asks: Any, step: int, again: int) -> Any:
        yield
        self.rounds = [*getattr(self, "rounds", []), len(asks)]
        groups = []
        for _ in asks:
            row = self.paid[min(len(self.rounds) - 1, len(self.paid) - 1)]
            scripted = [(text("fast"), paid, paid, "stop") for paid in row]
            made = [Scripted._rollout(self, i, *each) for i, each in enumerate(scripted)]  # type: ignore[arg-type]
            groups.append([Conversation((1,), (r,)) for r in made])
        return groups


@pytest.mark.parametrize(
    ("paid", "rounds"),
    [
        (((1.0, 1.0, 1.0, 1.0), (0.0, 1.0, 1.0, 1.0)), [2, 2]),
        (((1.0, 1.0, 1.0, 1.0),), [2, 2, 2]),
        (((0.0, 1.0, 1.0, 1.0),), [2]),
    ],
)
def test_groups_that_agree_are_replaced_at_most_so_often(trainer: Any, paid: Any, rounds: list[int]) -> None:
    made = trainer(Counting, refill=2)
    made.paid = paid
    talks = made.conversations(8)
    assert made.rounds == rounds
    assert [talk.turns[0].reward.plan for talk in talks] == list(paid[-1] if len(paid) > 1 else paid[0]) * 2
    assert made.curves.extra["refilled"] == sum(rounds[1:])


def test_the_kl_to_the_reference_by_hand(trainer: Any, data: Path, tmp_path: Path) -> None:
    """0 at the reference; elsewhere the mean of exp(d) - d - 1 over tokens (Schulman's k3)."""
    from kernelwright.train.checkpoints import save_model

    tokenizer = load_tokenizer(str(data / "tokenizer"))
    recipe = make_recipe(data)
    folder = save_model(new_model(recipe.model, tokenizer, 3), tokenizer, tmp_path / "base")
    model = type(new_model(recipe.model, tokenizer, 3)).from_pretrained(folder)
    made = trainer(Scripted, model=model, beta=0.1, scale="none")
    batch = batch_of(made, [EQUAL[0]])  # no advantage: the KL is all there is
    assert gradient(made, batch).abs().max() < 1e-6
    with torch.no_grad():
        for weight in made.model.parameters():
            weight.add_(0.02 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    with torch.no_grad():
        now, *_ = made._get_per_token_logps_and_entropies(
            made.model, ids, mask, batch["completion_ids"].shape[1]
        )
        loss = made._compute_loss(made.model, batch)
    away = batch["ref_per_token_logps"] - now
    k3 = (away.exp() - away - 1)[batch["completion_mask"].bool()].mean()
    assert k3 > 1e-4
    torch.testing.assert_close(loss, 0.1 * k3)


def test_half_a_reward_is_none() -> None:
    made = Reward(preset="wright", plan=1.0, code=None)
    assert all(value != value for value in reward_row(made))


def test_prompts_of_a_step_depend_on_seed_and_step_alone(recipe: Recipe) -> None:
    asks = frontend_asks(e.task for e in examples() if e.split == "train")
    first = Curriculum(asks, 0)
    assert [a.task.id for a in first.draw(3, 4)] == [a.task.id for a in Curriculum(asks, 0).draw(3, 4)]
    drawn = [a.task.id for step in range(6) for a in first.draw(step, 1)]
    assert all(set(drawn[i : i + 2]) == {"synth/a", "synth/b"} for i in range(0, 6, 2))


def test_the_next_step_is_written_ahead_and_trains_on_the_ratio_to_what_was_sampled(trainer: Any) -> None:
    """Two steps: the second's samples are already being judged before the first is trained on."""
    made = trainer(staleness=1, steps=2)
    judged: list[int] = []
    submit = made.judge.submit
    made.judge.submit = lambda task, candidate: judged.append(1) or submit(task, candidate)  # type: ignore[method-assign]
    batch = made._generate_and_score_completions([{"prompt": str(slot)} for slot in range(8)])
    assert len(judged) == 16
    [(number, going)] = made._steps.under_way.items()
    assert (number, made.curves.extra["staleness"]) == (1, 0.0)
    assert batch["old_per_token_logps"] is batch["sampling_per_token_logps"]
    ahead = going.work.entries[1]["said"]
    made.state.global_step = 1
    batch = made._generate_and_score_completions([{"prompt": str(slot)} for slot in range(8)])
    assert len(judged) == 16, "nothing is ahead of the last step"
    assert made._steps.under_way == {}
    assert made.curves.extra["staleness"] == 1.0
    rows = zip(batch["completion_ids"], batch["completion_mask"].bool(), strict=True)
    assert [tuple(ids[mask].tolist()) for ids, mask in rows] == [
        tuple(completion["token_ids"]) for _, _, completion in ahead
    ]
    # By hand: if the weights have changed since sampling, the ratio is exp(now - sampled), clipped at 1 +- 0.2.
    batch["advantages"] = torch.ones_like(batch["advantages"])
    with torch.no_grad():
        for weight in made.model.parameters():
            weight.add_(0.01 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
        mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
        now, *_ = made._get_per_token_logps_and_entropies(
            made.model, ids, mask, batch["completion_ids"].shape[1]
        )
        made.current_gradient_accumulation_steps = 1
        loss = made._compute_loss(made.model, batch)
    kept = batch["completion_mask"].bool()
    ratio = (now - batch["sampling_per_token_logps"])[kept].exp()
    assert (ratio - 1).abs().max() > 0.01
    torch.testing.assert_close(loss, -torch.minimum(ratio, ratio.clamp(0.8, 1.2)).mean())


def test_a_step_without_a_fair_verdict_stops_the_run(trainer: Any) -> None:
    made = trainer()
    unjudged = Verdict(task_id="t", outcome=Outcome.UNSUPPORTED, gate=Gate.COMPILE, detail="no tl.foo here")
    rollout = Scripted._rollout(made, 0, text("x"), None, None, "stop")  # type: ignore[arg-type]
    with pytest.raises(InfrastructureError, match="none of a step's 2 candidates got a fair verdict"):
        made._log_rollouts([[rollout.model_copy(update={"verdict": unjudged})] * 2])
