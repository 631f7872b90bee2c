"""One stage of reinforcement: the trainer (`segments.py`) with what watches it, from the last checkpoint to the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernelwright.config import Recipe
from kernelwright.rollouts import Verifier
from kernelwright.runs import RunFolder
from kernelwright.train.curriculum import Curriculum
from kernelwright.train.curves import Curves
from kernelwright.train.prompts import evaluated_on
from kernelwright.train.segments import SegmentTrainer
from kernelwright.train.sft import fit
from kernelwright.train.timed import Stop
from kernelwright.train.trials import Trials, best_of
from kernelwright.train.vllm import shut_down


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
    best = best_of(trainer, steps_dir)
    trainer.add_callback(Stop(trainer, trainer.rl.updates_per_step))
    if trainer.rl.eval_every:
        tasks = evaluated_on(recipe, run.path)
        trainer.add_callback(Trials(trainer, tasks, trainer.judge, best))
    try:
        trained = fit(trainer, steps_dir, curves)
        if best is not None:
            trainer.accelerator.wait_for_everyone()
            best.restore(trained)
            if trainer.accelerator.is_main_process:
                run.write_json(f"stages/{stage}/kept.json", {"step": best.step, "score": -best.loss})
        return trained
    finally:
        trainer.release()
        if trainer.args.use_vllm:
            shut_down(trainer.vllm_generation)
