"""Tokens a second of the in-process generator against stock `generate`, on the same small model.

    python benchmarks/generate.py [--rows 512 1024] [--tokens 256] [--prompt 256] [--dtype bfloat16] [--json FILE]

The model has random weights in the sizes of `recipes/default_model.toml`, and no end token: every row writes all its
tokens, so that both do the same work. The first pass of each is a warm-up (graphs are captured in it).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kernelwright.config import load_recipe
from kernelwright.policy.hf import _uniform, draw
from kernelwright.policy.slots import Job, engine_for, release
from kernelwright.train.model import architecture_of, parameters

RECIPE = Path(__file__).parents[1] / "recipes" / "default_model.toml"


def make(dtype: str) -> Any:
    """The default model with random weights, on the GPU where there is one."""
    from transformers import AutoModelForCausalLM

    recipe = load_recipe(RECIPE)
    torch.manual_seed(0)
    config = architecture_of(recipe.model, recipe.data.vocab_size)
    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype))
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval()


def timed(run: Callable[[], int], repeats: int) -> float:
    """Tokens a second, the best of `repeats` after a warm-up."""
    run()
    best = 0.0
    for _ in range(repeats):
        began = time.perf_counter()
        tokens = run()
        best = max(best, tokens / (time.perf_counter() - began))
    return best


def own(model: Any, rows: int, length: int, tokens: int) -> int:
    """Write `tokens` tokens for each of `rows` different prompts in slots. Returns how many were written."""
    chance = torch.Generator().manual_seed(1)
    prompts = torch.randint(0, model.config.vocab_size, (rows, length), generator=chance).tolist()
    jobs = [Job(row, tuple(ids), tokens, _uniform(0, row, 0, tokens)) for row, ids in enumerate(prompts)]
    written: list[int] = []
    engine = engine_for(model, rows, length + tokens, tokens)
    engine.run(
        jobs,
        (),
        lambda logits, uniform: draw(logits, uniform, 1.0, 1.0),
        lambda key, ids, logprobs, reason: written.append(len(ids)),
        key="bench",
    )
    return sum(written)


def stock(model: Any, rows: int, length: int, tokens: int) -> int:
    """The same by transformers' `generate` with its default cache."""
    chance = torch.Generator().manual_seed(1)
    ids = torch.randint(0, model.config.vocab_size, (rows, length), generator=chance).to(model.device)
    with torch.no_grad():
        made = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            top_k=0,
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            pad_token_id=0,
            eos_token_id=model.config.vocab_size + 1,
        )
    return int(made[:, length:].numel())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[512, 1024])
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--prompt", type=int, default=256, help="tokens of a prompt")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--skip-stock", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    model = make(asked.dtype)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print(f"{parameters(model) / 1e6:.1f} M parameters, {asked.dtype}, {device}, torch {torch.__version__}")
    rows_done: list[dict[str, Any]] = []
    for rows in asked.rows:
        args = (model, rows, asked.prompt, asked.tokens)
        ours = timed(lambda args=args: own(*args), asked.repeats)  # type: ignore[misc]
        release(model)
        line = {"rows": rows, "tokens": asked.tokens, "prompt": asked.prompt, "own": round(ours)}
        if not asked.skip_stock:
            theirs = timed(lambda args=args: stock(*args), 1)  # type: ignore[misc]
            line |= {"stock": round(theirs), "ratio": round(ours / theirs, 2)}
        print("  ".join(f"{name} {value}" for name, value in line.items()), flush=True)
        rows_done.append(line)
    if asked.json:
        asked.json.write_text(
            json.dumps({"device": device, "dtype": asked.dtype, "rows": rows_done}, indent=2)
        )


if __name__ == "__main__":
    main()
