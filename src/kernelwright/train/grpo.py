"""Runs a stage of reinforcement learning: the trainer (`segments.py`) and its callbacks, from checkpoint to model."""

from __future__ import annotations

from typing import Any

from kernelwright.config import Recipe
from kernelwright.rollouts import Verifier
from kernelwright.train.best import best_of
from kernelwright.train.curriculum import Curriculum
from kernelwright.train.curves import Curves
from kernelwright.train.prompts import evaluated_on
from kernelwright.train.segments import SegmentTrainer
from kernelwright.train.sft import fit
from kernelwright.train.timed import Stop
from kernelwright.train.trials import Trials
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
