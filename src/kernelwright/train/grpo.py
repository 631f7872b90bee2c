"""Runs a stage of reinforcement learning: the trainer (`segments.py`) and its callbacks, from checkpoint to model.

`Trials` evaluates the front end during training: each held-out task is sampled `eval.samples` times with the current weights and
judged like training samples; with several processes, the first does it. Intervals, baselines and later agents belong to the
evaluation after a stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import transformers

from kernelwright.config import Recipe
from kernelwright.metrics import geometric_mean
from kernelwright.records import Task
from kernelwright.rollouts import Verifier, roll
from kernelwright.train.best import Best, best_of
from kernelwright.train.curriculum import Curriculum
from kernelwright.train.curves import Curves
from kernelwright.train.prompts import evaluated_on, frontend_asks
from kernelwright.train.segments import SegmentTrainer
from kernelwright.train.sft import fit
from kernelwright.train.timed import Stop
from kernelwright.train.vllm import shut_down


def run_grpo(
    recipe: Recipe, model: Any, tokenizer: Any, curriculum: Curriculum, judge: Verifier, curves: Curves
) -> Any:
    """Train `model` for the stage of `curves`, resuming from its last checkpoint. Returns the model."""
    trainer = SegmentTrainer(recipe, model, tokenizer, curriculum, judge, curves)
    best = best_of(trainer, trainer.rl.keep)
    trainer.add_callback(Stop(trainer, trainer.rl.updates_per_step))
    if trainer.rl.eval_every:
        trainer.add_callback(Trials(trainer, evaluated_on(recipe, curves.run.path), trainer.judge, best))
    try:
        return fit(trainer, best)
    finally:
        trainer.release()
        if trainer.args.use_vllm:
            shut_down(trainer.vllm_generation)


class Trials(transformers.TrainerCallback):
    """Adds `heldout_pass_rate` and `heldout_speedup` to a step's line; offers the weights of each evaluation to `best`."""

    def __init__(
        self, trainer: SegmentTrainer, tasks: Sequence[Task], judge: Verifier, best: Best | None
    ) -> None:
        self.trainer, self.judge, self.best = trainer, judge, best
        self.asks = frontend_asks(tasks)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        rl = self.trainer.rl
        step, between = divmod(state.global_step, rl.updates_per_step)
        if between or (step % rl.eval_every and state.global_step < state.max_steps):
            return control
        # Steps that run ahead block timing on this GPU during an update; these verdicts may need it.
        self.trainer.release()
        self.trainer.refresh()
        first = self.trainer.accelerator.is_main_process
        score = 0.0
        if first:
            figures = self.figures(step)
            self.trainer.curves.extra.update(figures)
            # Among equal pass rates, prefer the faster.
            score = figures["heldout_pass_rate"] + 1e-3 * min(figures["heldout_speedup"] or 0.0, 10.0)
        if self.best is not None:
            self.best.offer(
                self.trainer.accelerator.unwrap_model(self.trainer.model), step, -score, write=first
            )
        self.trainer.accelerator.wait_for_everyone()
        return control

    def figures(self, step: int) -> dict[str, Any]:
        recipe, rl = self.trainer.recipe, self.trainer.rl
        settings = recipe.eval
        prompts = [
            ask.prompt(recipe.data.style, settings.max_tokens, recipe.data.answer) for ask in self.asks
        ]
        groups = roll(
            self.trainer.policy,
            prompts,
            [ask.task for ask in self.asks],
            self.judge,
            n=settings.samples,
            reward=rl.reward,
            stage=f"{self.trainer.stage}/heldout",
            step=step,
            temperature=settings.temperature,
            top_p=settings.top_p,
            seed=recipe.seed,
        )
        judged = [r for group in groups for r in group if r.verdict.outcome.judged]
        speedups = [s for r in judged if (s := r.verdict.speedup()) is not None]
        return {
            "heldout_pass_rate": sum(r.verdict.correct for r in judged) / max(len(judged), 1),
            "heldout_speedup": geometric_mean(speedups) if speedups else None,
        }
