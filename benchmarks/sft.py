"""Tokens per second of supervised fine-tuning, and the contribution of each optimisation.

    python benchmarks/sft.py [--recipe recipes/default_model.toml] [--steps 30] [--batch 64] [--without NAME ...]
        [--alone] [--examples EXAMPLES.jsonl --tokenizer FOLDER] [--profile] [--json FILE]

Trains the recipe's model with the package's own trainer, first with everything, then without one optimisation at a time
(`--alone`: each one alone on top of none). Each variant runs twice, and the second run counts, after compilation. Examples are
random tokens with a real corpus's lengths (lognormal, median 570), or those of a file. The first third of the steps is warm-up.
`--profile` adds a run under torch.profiler: share of time in which the GPU was idle, kernels per step, and where the host spends time.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers

from kernelwright.config import Recipe, load_recipe, parse_recipe
from kernelwright.runs import RunFolder
from kernelwright.train import optimizers
from kernelwright.train.batches import Collator, Rows, training_rows
from kernelwright.train.curves import Curves
from kernelwright.train.model import architecture_of, load_tokenizer, parameters
from kernelwright.train.prompts import read_splits
from kernelwright.train.sft import sft_trainer

CHANGES = {
    "compile": "layers compiled",
    "muon": "Muon in batches of matrices",
    "metrics": "metrics summed on the GPU",
    "mask": "no attention mask",
    "copies": "batches copied while the GPU works",
    "nan": "loss not read back in every step",
    "log": "a line every 10 steps",
    "pad": "lengths multiples of 32",
    "fused": "AdamW fused",
}


def synthetic(recipe: Recipe, vocab: int, count: int) -> Rows:
    """Rows of random tokens, with lengths and prompts distributed as in the default model's corpus."""
    chance = np.random.default_rng(0)
    lengths = np.clip(chance.lognormal(np.log(570), 0.6, count), 100, recipe.model.context).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    tokens = chance.integers(10, vocab, starts[-1]).astype(np.int32)
    return Rows(tokens, starts, lengths // 2, ("translate",) * count)


def stand_in() -> Any:
    """A tokenizer with only its special tokens, since nothing is tokenised here."""
    words = tokenizers.models.WordLevel({"<pad>": 0, "<eos>": 1}, unk_token="<pad>")
    inner = tokenizers.Tokenizer(words)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>")


class Clock(transformers.TrainerCallback):
    """Times the steps after the warm-up."""

    def __init__(self, warm: int, end: int, profiler: Any = None) -> None:
        self.warm, self.end, self.profiler, self.seconds = warm, end, profiler, 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step in (self.warm, self.end):
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.seconds = time.perf_counter() - self.seconds
            if self.profiler is not None:
                self.profiler.start() if state.global_step == self.warm else self.profiler.stop()


def measure(
    recipe: Recipe, tokenizer: Any, rows: Rows, steps: int, off: set[str], profiler: Any = None
) -> dict[str, float]:
    """Seconds per step and tokens per second without the optimisations in `off`."""
    cuda = torch.cuda.is_available()
    table = recipe.model_dump(mode="json")
    table["sft"] |= {"steps": steps, "save_every": 10**6, "log_every": 1 if "log" in off else 10}
    table["sft"]["compile"] = "compile" not in off
    recipe = parse_recipe(table)
    transformers.set_seed(0)
    config = architecture_of(recipe.model, recipe.data.vocab_size)
    config.pad_token_id = tokenizer.pad_token_id
    model = transformers.AutoModelForCausalLM.from_config(config)
    changes: dict[str, Any] = {"save_strategy": "no"}
    if "nan" in off:
        changes["logging_nan_inf_filter"] = True
    if "copies" in off:
        changes["accelerator_config"] = {"non_blocking": False}
    began = time.perf_counter()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    with tempfile.TemporaryDirectory() as home:
        curves = Curves(RunFolder(home), "sft", quiet=True)
        trainer = sft_trainer(recipe, model, tokenizer, rows, curves, **changes)
        undo(trainer, off, recipe, tokenizer, rows)
        trainer.remove_callback(transformers.PrinterCallback)
        counter = Counting(trainer.data_collator, steps // 3)
        trainer.data_collator = counter
        clock = Clock(steps // 3, steps, profiler)
        trainer.add_callback(clock)
        trainer.train()
    timed = steps - steps // 3
    return {
        "seconds_a_step": clock.seconds / timed,
        "tokens_s": counter.real / clock.seconds,
        "padded_tokens_s": counter.padded / clock.seconds,
        "whole_run_s": time.perf_counter() - began,
        "memory_gb": torch.cuda.max_memory_allocated() / 1e9 if cuda else 0.0,
    }


class Counting:
    """A collator that counts its batches and tokens after the warm-up."""

    def __init__(self, inner: Any, warm: int) -> None:
        self.inner, self.warm, self.calls, self.real, self.padded = inner, warm, 0, 0, 0

    def __call__(self, examples: list[dict[str, Any]]) -> Any:
        batch = self.inner(examples)
        self.calls += 1
        if self.calls > self.warm:
            self.real += int((batch["input_ids"] != 0).sum())
            self.padded += batch["input_ids"].numel()
        return batch


def undo(trainer: Any, off: set[str], recipe: Recipe, tokenizer: Any, rows: Rows) -> None:
    """Revert optimisations of a trainer."""
    import trl

    stock = type(trainer)
    if "metrics" in off:
        stock.compute_loss, stock.log = trl.SFTTrainer.compute_loss, trl.SFTTrainer.log
    if "muon" in off or "fused" in off:
        plain = optimizers.BatchedMuon, torch.optim.AdamW

        def create(*args: Any, **kwargs: Any) -> Any:
            if "muon" in off:
                optimizers.BatchedMuon = torch.optim.Muon  # type: ignore[misc,assignment]
            if "fused" in off:
                torch.optim.AdamW = lambda *a, **k: plain[1](*a, **(k | {"fused": None}))  # type: ignore[misc,assignment]
            try:
                return stock.create_optimizer(trainer, *args, **kwargs)
            finally:
                optimizers.BatchedMuon, torch.optim.AdamW = plain  # type: ignore[misc]

        trainer.create_optimizer = create
    if "mask" in off or "metrics" in off or "pad" in off:
        made: Collator = trainer.data_collator
        trainer.data_collator = Collator(
            rows, made.padding, 1 if "pad" in off else made.multiple, made.limit, mask=True
        )
    if "mask" in off and "metrics" not in off:
        masked = stock.compute_loss

        def compute_loss(self: Any, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            from kernelwright.train import lean

            before, lean.no_mask = lean.no_mask, lambda config: inputs["attention_mask"]
            try:
                return masked(self, model, inputs, *args, **kwargs)
            finally:
                lean.no_mask = before

        stock.compute_loss = compute_loss


def profile(recipe: Recipe, tokenizer: Any, rows: Rows, steps: int, off: set[str]) -> None:
    """Print what torch.profiler recorded in the last two thirds of the steps."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    kinds += [torch.profiler.ProfilerActivity.CUDA] if torch.cuda.is_available() else []
    profiler = torch.profiler.profile(activities=kinds)
    measure(recipe, tokenizer, rows, steps, off, profiler)
    timed = steps - steps // 3
    events = profiler.events() or []
    device = sorted(
        (e.time_range.start, e.time_range.end)
        for e in events
        if e.device_type == torch.autograd.DeviceType.CUDA and not e.is_user_annotation
    )
    host = [e for e in events if e.device_type == torch.autograd.DeviceType.CPU]
    reads = sum(e.name in ("aten::_local_scalar_dense", "aten::nonzero") for e in host)
    print(
        f"  operators a step: {sum(e.name.startswith('aten::') for e in host) / timed:.0f}; "
        f"numbers read back, each waiting for the GPU: {reads / timed:.1f}"
    )
    if device:
        busy, reached = 0.0, device[0][0]
        for start, end in device:
            busy += max(0.0, end - max(start, reached))
            reached = max(reached, end)
        span = reached - device[0][0]
        print(f"  kernels and copies a step: {len(device) / timed:.0f}; GPU idle {1 - busy / span:.1%}")
        waits = [e for e in host if "Synchronize" in e.name]
        print(
            f"  waits for the GPU a step: {len(waits) / timed:.1f}, "
            f"{sum(e.time_range.elapsed_us() for e in waits) / timed / 1e3:.1f} ms"
        )
        print(
            profiler.key_averages().table(
                sort_by="self_device_time_total", row_limit=18, max_name_column_width=60
            )
        )
    print(
        profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=18, max_name_column_width=60)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    root = Path(__file__).parents[1]
    parser.add_argument("--recipe", type=Path, default=root / "recipes" / "default_model.toml")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--without", nargs="*", choices=[*CHANGES, "all"], default=None, metavar="NAME")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--examples", type=Path)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    args = parser.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning)
    recipe = load_recipe(args.recipe, [f"sft.batch={args.batch}", *args.settings])
    tokenizer: Any = load_tokenizer(str(args.tokenizer)) if args.tokenizer else stand_in()
    if args.examples:
        rows = training_rows(recipe, tokenizer, read_splits(args.examples)[0])
    else:
        rows = synthetic(recipe, recipe.data.vocab_size, args.batch * max(64, args.steps))
    model = architecture_of(recipe.model, recipe.data.vocab_size)
    with torch.device("meta"):
        weights = parameters(transformers.AutoModelForCausalLM.from_config(model))
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print(
        f"{where}, torch {torch.__version__}: {weights / 1e6:.1f} M weights, {args.batch} examples a step",
        flush=True,
    )
    names = list(CHANGES) if args.without is None else [n for n in args.without if n != "all"]
    runs: list[tuple[str, set[str]]] = [("as it is", set()), ("without any of it", set(CHANGES))]
    for name in names:
        if args.alone:
            runs.append((f"alone: {CHANGES[name]}", set(CHANGES) - {name}))
        else:
            runs.append((f"without: {CHANGES[name]}", {name}))
    figures = {}
    for label, off in runs:
        first = measure(recipe, tokenizer, rows, args.steps, off)
        # The second run reuses what the first compiled.
        figures[label] = made = measure(recipe, tokenizer, rows, args.steps, off)
        made["first_run_s"] = first["whole_run_s"]
        print(
            f"{label:45} {made['seconds_a_step'] * 1e3:8.1f} ms a step {made['tokens_s'] / 1e3:8.0f} k tokens/s "
            f"({made['padded_tokens_s'] / 1e3:.0f} k with padding), {made['memory_gb']:.1f} GB, "
            f"{made['whole_run_s']:.1f} s in all, {made['first_run_s']:.1f} s the first time",
            flush=True,
        )
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")
    if args.profile:
        for label, off in runs[:2]:
            print(f"profile {label}", flush=True)
            profile(recipe, tokenizer, rows, min(args.steps, 15), off)


if __name__ == "__main__":
    main()
