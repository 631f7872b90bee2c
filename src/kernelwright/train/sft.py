"""Supervised fine-tuning on examples with TRL's SFTTrainer; the loss is on completions only.

Tokens come from `policy.text`, as in sampling; batches and their order from `batches.py`, not TRL. Small models are
limited by the host, so `lean.py` removes what a step does not need.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from typing import Any

import torch
from transformers import PrinterCallback

from kernelwright.config import Recipe
from kernelwright.errors import UserError
from kernelwright.records import Supervised
from kernelwright.train.batches import Collator, Mixture, Rows, tokenize_examples, training_rows
from kernelwright.train.best import Best, best_of
from kernelwright.train.checkpoints import AtomicCheckpoints, last_checkpoint
from kernelwright.train.curves import Curves
from kernelwright.train.heldout import HeldOut, held_out
from kernelwright.train.lean import LeanSteps
from kernelwright.train.model import adapters, compile_layers
from kernelwright.train.optimizers import ChosenOptimizer
from kernelwright.train.processes import PATIENCE_S, count, share_of, split
from kernelwright.train.timed import Stop, Timed

PAD_TO = 32
"""On a GPU, batch lengths are multiples of this, so that compiled code has aligned rows."""


def run_sft(
    recipe: Recipe,
    model: Any,
    tokenizer: Any,
    examples: Sequence[Supervised],
    validation: Sequence[Supervised],
    curves: Curves,
) -> Any:
    """Train `model` on `examples`, resuming from the stage's last checkpoint. Returns the model that `sft.keep` selects.

    Raises UserError if the best weights are wanted but no example is held out, or FSDP splits them.
    """
    train, held = held_out(recipe.sft, examples, validation)
    rows = training_rows(recipe, tokenizer, train)
    trainer = sft_trainer(recipe, model, tokenizer, rows, curves)
    collate = Collator(tokenize_examples(recipe, tokenizer, held), tokenizer.pad_token_id)
    best = best_of(trainer, recipe.sft.keep)
    if best is not None and not len(collate.rows):
        raise UserError(
            'sft.keep = "best" compares losses on held-out examples, and there are none that fit; raise sft.eval_share'
        )
    trainer.add_callback(Stop(trainer))
    if held:
        batch = trainer.args.per_device_train_batch_size
        trainer.add_callback(
            HeldOut(collate, recipe.sft.eval_every, batch, curves, trainer.accelerator, best)
        )
    return fit(trainer, best)


def sft_trainer(
    recipe: Recipe, model: Any, tokenizer: Any, rows: Rows, curves: Curves, **changes: Any
) -> Any:
    """The trainer of `run_sft`; `changes` are arguments of TRL's SFTConfig."""
    import trl
    from datasets import Dataset

    config, cuda = recipe.sft, torch.cuda.is_available()

    class Trainer(LeanSteps, ChosenOptimizer, Timed, AtomicCheckpoints, trl.SFTTrainer):  # type: ignore[misc]
        """TRL's trainer with atomic checkpoints, and steps without synchronisation."""

        chosen = recipe.sft
        compact = recipe.compact_checkpoints

        def _get_train_sampler(self, train_dataset: Any = None) -> Mixture:
            return Mixture(rows, config.shares, config.batch, recipe.seed, self.epochs_done)

        def epochs_done(self) -> int:
            """Number of whole epochs done."""
            made = math.ceil(len(self._get_train_sampler()) / minibatch)
            return self.state.global_step // math.ceil(math.ceil(made / count()) / accumulation)

    share = share_of(config.batch, "sft.batch")
    minibatch = min(config.minibatch or share, share)
    accumulation = share // minibatch
    arguments: dict[str, Any] = {
        **common_args(recipe, curves, config.save_every, config.learning_rate, config.warmup),
        "logging_steps": config.log_every,
        "per_device_train_batch_size": minibatch,
        "gradient_accumulation_steps": accumulation,
        "max_steps": config.steps or -1,
        "num_train_epochs": config.epochs,
        "lr_scheduler_type": "cosine",
        "weight_decay": config.weight_decay,
        "max_grad_norm": config.max_grad_norm,
        "max_length": None,
        "dataset_kwargs": {"skip_prepare_dataset": True},
        "remove_unused_columns": False,
    }
    collate = Collator(rows, tokenizer.pad_token_id, PAD_TO if cuda else 1, recipe.model.context)
    trainer = Trainer(
        model=model,
        args=on_one_gpu(trl.SFTConfig(**(arguments | changes))),
        data_collator=collate,
        train_dataset=Dataset.from_dict({"row": range(len(rows))}),
        processing_class=tokenizer,
        peft_config=None if hasattr(model, "peft_config") else adapters(recipe.lora),
        callbacks=[curves],
    )
    trainer.curves = curves
    if config.compile and cuda:
        compile_layers(trainer.model)
    return trainer


def common_args(
    recipe: Recipe, curves: Curves, save_every: int, learning_rate: float, warmup: float
) -> dict[str, Any]:
    """Arguments common to both of TRL's configs: quiet, own checkpoints."""
    cuda = torch.cuda.is_available()
    check_trackers(recipe)
    # Otherwise copying a batch to the GPU waits for all queued GPU work.
    accelerator: dict[str, Any] = {"non_blocking": cuda}
    if split():
        # Otherwise every process holds whole gradients from the first minibatch of an update on.
        accelerator["gradient_accumulation_kwargs"] = {"sync_each_batch": True}
    return {
        "accelerator_config": accelerator,
        "output_dir": str(curves.steps_dir),
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
        # The filter would hide a loss that is not finite, and in SFT read every step's loss back from the GPU.
        "logging_nan_inf_filter": False,
        "ddp_timeout": PATIENCE_S,
    }


def check_trackers(recipe: Recipe) -> None:
    """Raises UserError if a tracker named in the recipe is not installed."""
    for name in recipe.report_to:
        packages = ("tensorboard", "tensorboardX") if name == "tensorboard" else (name,)
        if all(importlib.util.find_spec(package) is None for package in packages):
            raise UserError(f"report_to: {name} is not installed; pip install {name}, or leave it out")


def on_one_gpu(args: Any) -> Any:
    """Restrict a process without a launcher to the first GPU: TRL refuses `nn.DataParallel` over all visible ones. The other GPUs
    are for the judge."""
    if args.device.type == "cuda":  # read first: reading it counts the GPUs
        args._n_gpu = 1
    return args


def fit(trainer: Any, best: Best | None) -> Any:
    """Run a trainer, from its last checkpoint if there is one, without TRL's printing. Returns the model, with the `best`
    weights if they were kept."""
    curves = trainer.curves
    trainer.remove_callback(PrinterCallback)
    resume = last_checkpoint(curves.steps_dir)
    try:
        trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    finally:
        curves.close()
    trained = trainer.accelerator.unwrap_model(trainer.model)
    if best is not None:
        trainer.accelerator.wait_for_everyone()
        best.restore(trained)
        if trainer.accelerator.is_main_process:
            score = {"heldout_loss": best.loss} if curves.stage == "sft" else {"score": -best.loss}
            curves.run.write_json(f"stages/{curves.stage}/kept.json", {"step": best.step, **score})
    return trained
