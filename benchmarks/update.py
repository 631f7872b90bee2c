"""Seconds of a reinforcement step's update, with TRL's scoring of completions and with ours.

    python benchmarks/update.py [--prompts 64] [--samples 8] [--minibatch 128] [--rounds 5] [KEY=VALUE]...

Forward and backward passes over all samples of one step, in minibatches, without optimizer and generation.
Samples are random tokens: prompts of 150 to 600, completions of 60 to 700 tokens.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from trl.trainer.utils import add_fused_lm_head

from kernelwright.config import Recipe, load_recipe
from kernelwright.train.model import architecture_of, compile_layers
from kernelwright.train.scoring import by_length, score_tokens
from kernelwright.train.sft import PAD_TO

Batch = dict[str, Any]


def samples(recipe: Recipe, prompts: int, each: int, device: torch.device) -> Batch:
    """A step's samples, padded as TRL pads them: prompts on the left, completions on the right."""
    chance = torch.Generator().manual_seed(0)
    prompt_lengths = torch.randint(150, 601, (prompts, 1), generator=chance).repeat_interleave(each, 0)
    answer_lengths = torch.randint(60, 701, (prompts * each, 1), generator=chance)
    before, after = torch.arange(int(prompt_lengths.max())), torch.arange(int(answer_lengths.max()))
    made = {"prompt_mask": before >= len(before) - prompt_lengths, "completion_mask": after < answer_lengths}
    made = {name: mask.long() for name, mask in made.items()}
    for name in ("prompt", "completion"):
        mask = made[f"{name}_mask"]
        made[f"{name}_ids"] = torch.randint(10, recipe.data.vocab_size, mask.shape, generator=chance) * mask
    shuffled = torch.randperm(prompts * each, generator=chance)
    return {name: tensor[shuffled].to(device) for name, tensor in made.items()}


def masked(model: Any, ids: torch.Tensor, mask: torch.Tensor, keep: int) -> torch.Tensor:
    """TRL's scoring, `GRPOTrainer._get_per_token_logps_and_entropies`."""
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, :-keep] = -100
    out = model(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True)
    logps: torch.Tensor = out.log_probs[:, -keep:]
    return logps


def ours(model: Any, ids: torch.Tensor, mask: torch.Tensor, keep: int) -> torch.Tensor:
    return score_tokens(model, model.config, ids, mask, keep, PAD_TO if ids.is_cuda else 1)[0]


def seconds(model: Any, batches: list[Batch], score: Callable[..., torch.Tensor], rounds: int) -> float:
    """Seconds of one step, the best of `rounds` after a warm-up."""
    device = next(model.parameters()).device
    best = float("inf")
    for _ in range(rounds + 1):
        began = time.perf_counter()
        for batch in batches:
            ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
            mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
            with torch.autocast(device.type, torch.bfloat16):
                score(model, ids, mask, batch["completion_ids"].shape[1]).mean().backward()
        model.zero_grad()
        if device.type == "cuda":
            torch.cuda.synchronize()
        spent = time.perf_counter() - began
        best = min(best, spent) if _ else best
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    root = Path(__file__).parents[1]
    parser.add_argument("--recipe", type=Path, default=root / "recipes" / "default_model.toml")
    parser.add_argument("--prompts", type=int, default=64)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--minibatch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    args = parser.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning)
    recipe = load_recipe(args.recipe, args.settings)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = architecture_of(recipe.model, recipe.data.vocab_size)
    config.pad_token_id = 0
    model = AutoModelForCausalLM.from_config(config).to(device).train()
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    whole = samples(recipe, args.prompts, args.samples, device)
    count = args.prompts * args.samples
    tokens = int(whole["prompt_mask"].sum() + whole["completion_mask"].sum())
    parts = [
        {name: tensor[start : start + args.minibatch] for name, tensor in whole.items()}
        for start in range(0, count, args.minibatch)
    ]
    dealt = by_length(parts, len(parts))
    width = whole["prompt_ids"].shape[1] + whole["completion_ids"].shape[1]
    print(
        f"{count} samples, {tokens / 1e3:.0f} k tokens, {count * width / 1e3:.0f} k as TRL pads them",
        flush=True,
    )
    runs: list[tuple[str, list[Batch], Callable[..., torch.Tensor]]] = [
        ("as TRL scores", parts, masked),
        ("no mask, no left padding", parts, ours),
        ("and dealt out by length", dealt, ours),
        ("and layers compiled", dealt, ours),
    ]
    for label, batches, score in runs:
        began = time.perf_counter()
        if "compiled" in label:
            if device.type == "cpu":
                continue
            compile_layers(model)
        took = seconds(model, batches, score, args.rounds)
        print(
            f"{label:28} {took * 1e3:8.0f} ms a step {tokens / took / 1e3:8.0f} k tokens/s; "
            f"{time.perf_counter() - began:.0f} s in all",
            flush=True,
        )


if __name__ == "__main__":
    main()
