"""GRPO with a reward for the plan and one for the code, on TRL's GRPOTrainer and the real verifier.

Three places of TRL are taken over. `rollout_func`: completions, verdicts and rewards come from `rollouts.roll`,
the chain that evaluation uses. `_calculate_rewards`: hands on the matrix (B, 2) of plan and code rewards that
the rollouts carry. `_generate_and_score_completions`: replaces the advantages by token-level ones, made in
`advantages.py`. The loss, its clipping and its averaging are TRL's own.

The data set is only a row of slots: a curriculum decides what a step asks, so that a resumed run asks the
same. Not covered here: several turns, and samples refilled for groups that agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import trl
from accelerate.utils import gather, gather_object
from torch import Tensor

from kernelwright.config import Recipe, RlConfig
from kernelwright.errors import InfrastructureError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.policy.hf import HFPolicy
from kernelwright.policy.text import prompt_ids
from kernelwright.records import Candidate, Rollout
from kernelwright.rollouts import Judge, Verifier, roll
from kernelwright.runs import RunFolder
from kernelwright.train.advantages import agreeing, drop, group_advantages, token_advantages
from kernelwright.train.checkpoints import AtomicCheckpoints
from kernelwright.train.curves import Curves, rollout_curve
from kernelwright.train.model import adapters
from kernelwright.train.prompts import Curriculum
from kernelwright.train.sft import common_args, fit

_FIRST_GATES = (Gate.PARSE, Gate.STATIC)


def run_grpo(
    recipe: Recipe,
    stage: str,
    model: Any,
    tokenizer: Any,
    curriculum: Curriculum,
    verifier: Verifier,
    run: RunFolder,
    steps_dir: Path,
    curves: Curves,
) -> Any:
    """Train `model` for one stage, going on from the last checkpoint in `steps_dir`. Returns the model."""
    trainer = SegmentTrainer(
        recipe, stage, model, tokenizer, curriculum, verifier, run=run, steps_dir=steps_dir, curves=curves
    )
    return fit(trainer, steps_dir, curves)


class SegmentTrainer(AtomicCheckpoints, trl.GRPOTrainer):
    """TRL's trainer, fed by our chain, with an advantage for every token."""

    def __init__(
        self,
        recipe: Recipe,
        stage: str,
        model: Any,
        tokenizer: Any,
        curriculum: Curriculum,
        verifier: Verifier,
        *,
        run: RunFolder,
        steps_dir: Path,
        curves: Curves,
    ) -> None:
        from datasets import Dataset

        self.recipe, self.stage, self.rl = recipe, stage, recipe.rl(stage)
        self.curriculum, self.judge, self.run_folder, self.curves = curriculum, Judge(verifier), run, curves
        self._segments: tuple[Tensor, Tensor] | None = None
        # A row of the data set stands for a prompt; the curriculum says which.
        slots = [str(slot) for slot in range(self.rl.prompts * self.rl.steps)]
        super().__init__(
            model=model,
            reward_funcs=[plan_reward, code_reward],
            args=_grpo_config(recipe, self.rl, steps_dir),
            train_dataset=Dataset.from_dict({"prompt": slots}),
            processing_class=tokenizer,
            peft_config=adapters(recipe.lora),
            callbacks=[curves],
            rollout_func=_roll_slots,  # type: ignore[arg-type]
        )

    def rollouts(self, slots: int) -> list[Rollout]:
        """This process's rollouts of the current step: `slots` samples, groups side by side."""
        n, step = self.rl.samples, self.state.global_step // self.rl.updates_per_step
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        count = slots // n
        asks = self.curriculum.draw(step, count * world)[rank * count : (rank + 1) * count]
        policy = HFPolicy(
            self.accelerator.unwrap_model(self.model),
            self.processing_class,
            f"{self.recipe.name}/{self.stage}",
        )
        groups = roll(
            policy,
            [ask.prompt(self.recipe.data.style, self.rl.max_tokens) for ask in asks],
            [ask.task for ask in asks],
            self.judge,
            n=n,
            reward=self.rl.reward,
            stage=self.stage,
            step=step + 1,
            temperature=self.rl.temperature,
            top_p=self.rl.top_p,
            seed=(self.recipe.seed * 100_003 + step) * world + rank,
        )
        everyone = gather_object(groups)
        self._log_rollouts(everyone)
        return [rollout for group in groups for rollout in group]

    def _log_rollouts(self, groups: Sequence[Sequence[Rollout]]) -> None:
        """Write what was judged. Raises InfrastructureError when the verifier heard no candidate through."""
        rollouts = [rollout for group in groups for rollout in group]
        failed = [r for r in rollouts if r.verdict.outcome is Outcome.INFRASTRUCTURE_ERROR]
        # What ends at the first gates never came before a worker, and says nothing about the verifier.
        heard = [r for r in rollouts if r.verdict.outcome.judged and r.verdict.gate not in _FIRST_GATES]
        if not heard and len(failed) * 4 >= len(rollouts):
            raise InfrastructureError(
                f"{self.stage}: the verifier failed on all {len(failed)} candidates that came to it in a step "
                f"({failed[0].verdict.detail}); see kernelwright doctor, then go on with --resume"
            )
        if self.accelerator.is_main_process:
            self.run_folder.append("rollouts.jsonl", rollouts)
            wrote = max(r.seconds["generate"] for r in rollouts)
            total = max(r.seconds["total"] for r in rollouts)
            seconds = {"generate": round(wrote, 3), "verify": round(total - wrote, 3)}
            self.curves.extra = {**rollout_curve(groups), "seconds": seconds}

    def _calculate_rewards(
        self,
        inputs: list[dict[str, Any]],
        prompts: Any,
        completions: Any,
        completion_ids_list: list[list[int]],
    ) -> Tensor:
        """The rewards (B, 2) of all processes, NaN for None; remembers them with each sample's boundary."""
        rollouts: list[Rollout] = [row["rollout"] for row in inputs]
        device = self.accelerator.device
        local = torch.tensor([reward_row(r) for r in rollouts], dtype=torch.float32, device=device)
        if self.rl.truncated == "drop":
            cut = [r.completion.finish_reason == "length" for r in rollouts]
            local = drop(local, torch.tensor(cut, device=device)[:, None])
        rewards: Tensor = gather(local)
        starts = [boundary(r.candidate) for r in rollouts]
        self._segments = rewards, torch.tensor(starts, device=device)
        return rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """TRL's batch, its advantages (B,) replaced by (B, T), without the samples that have no reward."""
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        assert self._segments is not None
        (rewards, starts), self._segments = self._segments, None
        rank = self.accelerator.process_index
        mine = slice(rank * len(inputs), (rank + 1) * len(inputs))
        plan, code = segment_advantages(rewards, self.rl)
        batch["advantages"] = token_advantages(
            plan[mine],
            code[mine],
            starts if self.rl.credit == "hierarchical" else torch.zeros_like(starts),
            batch["completion_ids"].shape[1],
            alpha=self.rl.alpha,
        )
        scored = ~rewards[mine].isnan().any(1)
        batch["completion_mask"] = batch["completion_mask"] * scored[:, None]
        tokens: Tensor = gather(batch["completion_mask"].sum())
        batch["num_items_in_batch"] = tokens.sum()
        total = rewards.sum(1)
        self.curves.extra["zero_variance"] = agreeing(total, self.rl.samples).float().mean().item()
        self.curves.extra["dropped"] = int(total.isnan().sum())
        return batch


def segment_advantages(rewards: Tensor, rl: RlConfig) -> tuple[Tensor, Tensor]:
    """Advantages (B,) of plan and of code from rewards (B, 2), each compared within its group.

    `uniform` credit compares the sums and gives both segments the same.
    """
    options: Any = {"scale": rl.scale, "baseline": rl.baseline, "negatives": rl.negatives}
    if rl.credit == "uniform":
        both = group_advantages(rewards.sum(1), rl.samples, **options)
        return both, both
    plan = group_advantages(rewards[:, 0], rl.samples, **options)
    code = group_advantages(rewards[:, 1], rl.samples, **options)
    return plan, code


def boundary(candidate: Candidate) -> int:
    """Index of the first token that the code's reward pays for: all of them unless a plan comes before code."""
    if candidate.plan_span is None or candidate.code_span is None:
        return 0
    return candidate.code_span[0] if candidate.plan_span[0] < candidate.code_span[0] else 0


def reward_row(rollout: Rollout) -> tuple[float, float]:
    """(plan, code), both NaN when there is no reward: a sample is trained on whole or not at all."""
    reward = rollout.reward
    if reward is None or reward.plan is None or reward.code is None:
        return float("nan"), float("nan")
    return reward.plan, reward.code


def plan_reward(**kwargs: Any) -> list[float | None]:
    """Names the first column of rewards in TRL's logs; the values come from `_calculate_rewards`."""
    raise AssertionError("rewards come from rollouts")


def code_reward(**kwargs: Any) -> list[float | None]:
    """Names the second column."""
    raise AssertionError("rewards come from rollouts")


def _roll_slots(prompts: list[str], trainer: SegmentTrainer) -> dict[str, Any]:
    """TRL's `rollout_func`: the slots say how many samples are wanted, the trainer's curriculum what of."""
    rollouts = trainer.rollouts(len(prompts))
    end = trainer.eos_token_ids[0]
    said = [list(r.completion.token_ids or (end,)) for r in rollouts]
    asked = {r.group: prompt_ids(trainer.processing_class, r.prompt) for r in rollouts[:: trainer.rl.samples]}
    return {
        "prompt_ids": [asked[r.group] for r in rollouts],
        "completion_ids": said,
        "logprobs": [list(r.completion.logprobs or (0.0,)) for r in rollouts],
        "rollout": rollouts,
    }


def _grpo_config(recipe: Recipe, rl: RlConfig, steps_dir: Path) -> trl.GRPOConfig:
    from accelerate import PartialState

    world, per_step = PartialState().num_processes, rl.updates_per_step
    update = rl.prompts * rl.samples // rl.updates // world
    minibatch = min(rl.minibatch or update, update)
    return trl.GRPOConfig(
        **common_args(recipe, steps_dir, rl.save_every * per_step, rl.learning_rate, rl.warmup),
        logging_steps=per_step,
        per_device_train_batch_size=minibatch,
        gradient_accumulation_steps=update // minibatch,
        steps_per_generation=rl.updates * update // minibatch,
        num_iterations=rl.epochs,
        max_steps=rl.steps * per_step,
        num_generations=rl.samples,
        max_completion_length=rl.max_tokens,
        temperature=rl.temperature,
        lr_scheduler_type=rl.schedule,
        weight_decay=rl.weight_decay,
        max_grad_norm=rl.max_grad_norm,
        beta=rl.beta,
        epsilon=rl.epsilon,
        loss_type=rl.loss,
        scale_rewards="none",
        mask_truncated_completions=rl.truncated != "keep",
        shuffle_dataset=False,
        log_completions=False,
    )
