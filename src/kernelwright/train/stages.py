"""Runs the stages of a recipe in order, in one run folder; can be stopped and resumed.

    RUN/stages/<stage>/steps/checkpoint-N/   while a stage runs: all that is needed to resume
    RUN/stages/<stage>/checkpoint/           when it is done: a Hugging Face model folder

A finished stage is skipped; an interrupted one resumes from its last checkpoint, after log lines of later steps are
removed, since those steps are repeated.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from kernelwright.children import on_all_cores
from kernelwright.config import Recipe
from kernelwright.errors import UserError
from kernelwright.models import place_of
from kernelwright.policy.text import prompt_ids
from kernelwright.records import Rollout, Supervised
from kernelwright.rewards import UNTIMED
from kernelwright.rollouts import Verifier
from kernelwright.runs import RunFolder
from kernelwright.train import processes
from kernelwright.train.printers_word import PrintersWord
from kernelwright.verify import open_pool

if TYPE_CHECKING:
    from kernelwright.train.prompts import Ask


def train(
    recipe: Recipe,
    out: Path | str,
    *,
    resume: bool = False,
    verifier: Verifier | None = None,
    after_stage: Callable[[str, Path], None] | None = None,
    quiet: bool = False,
) -> Path:
    """Run every stage of `recipe` in the folder `out`. Returns the last checkpoint.

    `verifier` judges the reinforcement stages; without it, or if a stage sets its own `judge` or `deadline_s`, the judge
    named in the recipe does. `after_stage` is called with each stage's name and checkpoint when it is done, also for
    stages done before a resume.
    Raises UserError for errors that the user can fix, InfrastructureError if the judge or another process fails.
    """
    run = RunFolder(out)
    if processes.first():
        run.start(recipe, resume=resume)
    checkpoint = Path()
    for stage in recipe.stages:
        with processes.others_there():
            checkpoint = train_stage(recipe, run, stage, verifier=verifier, quiet=quiet)
        _let_go()
        if after_stage is not None:
            after_stage(stage, checkpoint)
    return checkpoint


def train_stage(
    recipe: Recipe, run: RunFolder, stage: str, *, verifier: Verifier | None = None, quiet: bool = False
) -> Path:
    """Run or resume one stage, or skip it if it is done. Returns its checkpoint."""
    home = run.path / "stages" / stage
    final, steps_dir = home / "checkpoint", home / "steps"
    if run.done(stage) and final.is_dir():
        return final
    _quieten(recipe)
    # Torch is needed from here on; importing the trainers takes seconds, so folders are checked first.
    from kernelwright.train.checkpoints import last_checkpoint, save_model, step_of
    from kernelwright.train.curves import Curves
    from kernelwright.train.estimate import check_fits
    from kernelwright.train.model import attend
    from kernelwright.train.prompts import read_splits

    check_fits(recipe, stage)
    needed = stage == "sft" or not recipe.tasks_in(run.path).exists()
    examples, validation = read_splits(recipe.examples_in(run.path), needed)
    reached = last_checkpoint(steps_dir)
    updates = 1 if stage == "sft" else recipe.rl(stage).updates_per_step
    if processes.first():
        _forget_after(run, stage, step_of(reached) // updates if reached else 0)
        steps_dir.mkdir(parents=True, exist_ok=True)
    processes.together()
    model, tokenizer = _start(recipe, run, stage)
    attend(model, recipe.model.attention)
    curves = Curves(run, stage, updates=updates, quiet=quiet)
    if stage == "sft":
        from kernelwright.train.sft import run_sft

        model = run_sft(recipe, model, tokenizer, examples, validation, curves)
    else:
        model = _reinforce(recipe, model, tokenizer, examples, verifier, curves)
    save_model(model, tokenizer, final)
    if processes.first():
        run.finish(stage)
        shutil.rmtree(steps_dir, ignore_errors=True)
    processes.together()
    return final


def _reinforce(
    recipe: Recipe,
    model: Any,
    tokenizer: Any,
    examples: list[Supervised],
    verifier: Verifier | None,
    curves: Any,
) -> Any:
    from kernelwright.train.curriculum import Curriculum
    from kernelwright.train.grpo import run_grpo

    run, stage = curves.run, curves.stage
    rl = recipe.rl(stage)
    if not recipe.judging(stage).priced and rl.reward not in UNTIMED:
        raise UserError(
            f"{stage}: reward {rl.reward!r} pays for speed, and nothing is priced; set {stage}.judge to another backend, "
            f"or {stage}.reward to one of {', '.join(sorted(UNTIMED))}"
        )
    logged = run.rows("rollouts.jsonl", Rollout)
    asks = _asks_of(recipe, run, stage, examples, logged)
    fitting = _fitting(asks, recipe, stage, tokenizer)
    if len(fitting) < len(asks) and processes.first() and not curves.quiet:
        print(f"{stage}: {len(asks) - len(fitting)} of {len(asks)} prompts are too long", file=sys.stderr)
    curriculum = Curriculum(
        fitting,
        recipe.seed,
        kind=rl.curriculum,
        weights=rl.weights,
        difficulties=rl.difficulties,
        steps=rl.steps,
    )
    curriculum.observe(r for r in logged if r.stage == stage)
    with contextlib.ExitStack() as open_:
        if verifier is None or recipe.judging(stage) != recipe.verify:
            verifier = open_.enter_context(open_pool(processes.share_of_judge(recipe.judging(stage))))
        if rl.judged < 1:
            verifier = open_.enter_context(
                PrintersWord(
                    verifier, rl.judged, recipe.verify.target, workers=recipe.verify.workers, seed=recipe.seed
                )
            )
        return run_grpo(recipe, model, tokenizer, curriculum, verifier, curves)


def _asks_of(
    recipe: Recipe, run: RunFolder, stage: str, examples: list[Supervised], logged: Sequence[Rollout]
) -> list[Ask]:
    """The asks of a stage. Raises UserError if there are none, or if one is about a held-out task."""
    from kernelwright.train import prompts

    rl = recipe.rl(stage)
    tasks = prompts.read_tasks(recipe.tasks_in(run.path))
    if stage == "frontend":
        asks = prompts.frontend_asks(tasks or [example.task for example in examples], rl.families, examples)
    else:
        accepted = [r for r in logged if r.stage in recipe.stages[: recipe.stages.index(stage)]]
        target = recipe.verify.target if stage == "backend" else ""
        asks = prompts.midend_asks(examples, tasks, accepted, rl.families, target=target)
    if not asks:
        raise UserError(
            f"{stage}: the examples and the stages before leave nothing to ask"
            f"{' of these families' if rl.families else ''}; "
            + (
                f"add tasks, or widen {stage}.families"
                if stage == "frontend"
                else f"add examples of kind improve (two schedules a graph or more), or widen {stage}.families"
            )
        )
    asks = prompts.inform_asks(asks, recipe, rl.contrast)
    prompts.refuse_heldout(asks, recipe.examples_in(run.path))
    return [replace(ask, task=prompts.in_recipe_precision(ask.task, recipe)) for ask in asks]


def _fitting(asks: list[Ask], recipe: Recipe, stage: str, tokenizer: Any) -> list[Ask]:
    """The asks whose prompts leave room for an answer. Raises UserError if none does."""
    rl = recipe.rl(stage)
    room = recipe.model.context - rl.max_tokens
    lengths = on_all_cores(
        lambda ask: len(
            prompt_ids(tokenizer, ask.prompt(recipe.data.style, rl.max_tokens, recipe.answer(stage)))
        ),
        asks,
    )
    fitting = [ask for ask, length in zip(asks, lengths, strict=True) if length <= room]
    if not fitting:
        raise UserError(
            f"{stage}: none of {len(asks)} prompts leaves {rl.max_tokens} tokens of the {recipe.model.context} of "
            f"the context; lower {stage}.max_tokens, raise model.context, or widen {stage}.families"
        )
    return fitting


def _start(recipe: Recipe, run: RunFolder, stage: str) -> tuple[Any, Any]:
    """Model and tokenizer that `stage` starts from, as given by its `start`, else the previous stage, else [model].

    Random weights are saved in RUN/base if they are needed again: under adapters, as the reference of a KL, or for vLLM.
    """
    from kernelwright.train.architectures import known_architecture
    from kernelwright.train.checkpoints import save_model
    from kernelwright.train.model import load_adapted, load_model, load_tokenizer, new_model

    start = ("" if stage == "sft" else recipe.rl(stage).start) or _stage_before(recipe, stage)
    if start != "model":
        folder = (
            str(run.path / "stages" / start / "checkpoint") if start in recipe.stages else place_of(start)
        )
        return load_adapted(folder, recipe.model.dtype), load_tokenizer(folder)
    if recipe.model.init == "pretrained":
        return load_model(recipe.model.base, recipe.model.dtype), load_tokenizer(recipe.model.base)
    # A known base is for its sizes only.
    base = "" if known_architecture(recipe.model.base) else recipe.model.base
    spec = recipe.data.tokenizer or base or str(run.path / "data" / "tokenizer")
    tokenizer = load_tokenizer(spec)
    loaded = stage != "sft" and (recipe.rl(stage).beta or recipe.generation.engine != "own")
    if not recipe.lora.rank and not loaded:
        return new_model(recipe.model, tokenizer, recipe.seed), tokenizer
    folder = str(run.path / "base")
    if not Path(folder).is_dir():
        save_model(new_model(recipe.model, tokenizer, recipe.seed), tokenizer, Path(folder))
        _let_go()
    processes.together()
    return load_model(folder, recipe.model.dtype), tokenizer


def _stage_before(recipe: Recipe, stage: str) -> str:
    place = recipe.stages.index(stage)
    return recipe.stages[place - 1] if place else "model"


def _forget_after(run: RunFolder, stage: str, step: int) -> None:
    """Remove log lines of `stage` for steps after the last checkpoint."""
    for name in ("curves.jsonl", "rollouts.jsonl"):
        run.keep_rows(name, lambda row: row["stage"] != stage or row["step"] <= step)


def _let_go() -> None:
    """Free a trainer's or model's memory, despite reference cycles: two large models do not fit."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _quieten(recipe: Recipe) -> None:
    """Silence the libraries below; set torch's number of threads."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    import datasets
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    warnings.filterwarnings("ignore", module=r"torch\.utils\.data|trl|accelerate")
    if recipe.threads:
        torch.set_num_threads(recipe.threads)
