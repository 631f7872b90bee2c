"""Supervised fine-tuning on examples, through TRL's SFTTrainer; the loss is on the completions only.

Tokens are made by `policy.text`, the same as in sampling, and handed to TRL ready-made: the prompt's labels
are -100 and it never tokenises. Batches hold examples of like length, so that little is padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright.config import Recipe
from kernelwright.errors import UserError
from kernelwright.policy.text import completion_ids, prompt_ids
from kernelwright.prompts import example_pair
from kernelwright.records import Example
from kernelwright.train.checkpoints import AtomicCheckpoints, last_checkpoint
from kernelwright.train.curves import Curves
from kernelwright.train.model import adapters
from kernelwright.train.optimizers import ChosenOptimizer
from kernelwright.train.processes import PATIENCE_S, share_of


def run_sft(
    recipe: Recipe, model: Any, tokenizer: Any, examples: Sequence[Example], steps_dir: Path, curves: Curves
) -> Any:
    """Train `model` on `examples`, going on from the last checkpoint in `steps_dir`. Returns the model."""
    import trl

    class Trainer(ChosenOptimizer, AtomicCheckpoints, trl.SFTTrainer):
        """TRL's trainer with whole checkpoints."""

        chosen = recipe.sft
        compact = recipe.compact_checkpoints

    config = recipe.sft
    share = share_of(config.batch, "sft.batch")
    minibatch = min(config.minibatch or share, share)
    rows = tokenised(recipe, tokenizer, [e for e in examples if e.kind in config.kinds])
    trainer = Trainer(
        model=model,
        args=trl.SFTConfig(
            **common_args(recipe, steps_dir, config.save_every, config.learning_rate, config.warmup),
            logging_steps=1,
            per_device_train_batch_size=minibatch,
            gradient_accumulation_steps=share // minibatch,
            max_steps=config.steps or -1,
            num_train_epochs=config.epochs,
            lr_scheduler_type="cosine",
            weight_decay=config.weight_decay,
            max_grad_norm=config.max_grad_norm,
            train_sampling_strategy="group_by_length",
            length_column_name="length",
            max_length=None,
            dataset_kwargs={"skip_prepare_dataset": True},
        ),
        train_dataset=rows,
        processing_class=tokenizer,
        peft_config=None if hasattr(model, "peft_config") else adapters(recipe.lora),
        callbacks=[curves],
    )
    return fit(trainer, steps_dir, curves)


def tokenised(recipe: Recipe, tokenizer: Any, examples: Sequence[Example]) -> Any:
    """A data set of input_ids, labels and length. Raises UserError when no example fits the context."""
    from datasets import Dataset

    rows: dict[str, list[Any]] = {"input_ids": [], "labels": [], "length": []}
    for example in examples:
        prompt, text = example_pair(example, recipe.data.style)
        asked, said = prompt_ids(tokenizer, prompt), completion_ids(tokenizer, text)
        if len(asked) + len(said) <= recipe.model.context:
            rows["input_ids"].append(asked + said)
            rows["labels"].append([-100] * len(asked) + said)
            rows["length"].append(len(asked) + len(said))
    if not rows["input_ids"]:
        raise UserError(
            f"none of {len(examples)} examples of kinds {', '.join(recipe.sft.kinds)} fits in "
            f"{recipe.model.context} tokens; raise model.context or widen sft.kinds"
        )
    return Dataset.from_dict(rows)


def common_args(
    recipe: Recipe, steps_dir: Path, save_every: int, learning_rate: float, warmup: float
) -> dict[str, Any]:
    """What both of TRL's configs are told: quiet, whole checkpoints."""
    import torch

    cuda = torch.cuda.is_available()
    return {
        "output_dir": str(steps_dir),
        "seed": recipe.seed,
        "data_seed": recipe.seed,
        "learning_rate": learning_rate,
        "warmup_steps": warmup,
        "use_cpu": not cuda,
        "bf16": recipe.model.autocast,
        "save_strategy": "steps",
        "save_steps": save_every,
        "disable_tqdm": True,
        "report_to": list(recipe.report_to) or "none",
        "gradient_checkpointing": recipe.model.gradient_checkpointing,
        "dataloader_pin_memory": cuda,
        "log_level": "error",
        "ddp_timeout": PATIENCE_S,
    }


def fit(trainer: Any, steps_dir: Path, curves: Curves) -> Any:
    """Run a trainer, from its last checkpoint where there is one, without TRL's printing. Returns the model."""
    from transformers import PrinterCallback

    trainer.remove_callback(PrinterCallback)
    resume = last_checkpoint(steps_dir)
    try:
        trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    finally:
        curves.close()
    return trainer.accelerator.unwrap_model(trainer.model)
