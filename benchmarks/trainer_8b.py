"""LoRA steps of an 8 B model: seconds and peak memory of our trainer, of stock TRL in the same run, and by our estimate.

    python benchmarks/trainer_8b.py [--rows 8] [--prompt 1024] [--answer 1024] [--steps 3] [--tiny] [--out runs/trainer_8b.json]

Qwen3-8B's architecture with random weights, Toronto's LoRA, bfloat16, gradient checkpointing. A step is 8 rows of 2,048 random
tokens, half prompt and half completion, in one minibatch: scoring, loss, backward, clipping, AdamW; nothing is generated or
judged. Both trainers get the same rows through TRL's own hook, rewards that differ between rows, and a new adapter on the same
base. `--tiny` rehearses it on a CPU. About two minutes on one H100 or H200. Not measured: generation, several GPUs.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
import trl
from datasets import Dataset
from peft import get_peft_model

from kernelwright.config import Recipe, parse_recipe
from kernelwright.models import place_of
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Candidate, Completion, Message, Prompt, Reward, Rollout, Task, Verdict
from kernelwright.runs import RunFolder
from kernelwright.train.credit import Conversation
from kernelwright.train.curriculum import Curriculum
from kernelwright.train.curves import Curves
from kernelwright.train.estimate import estimate
from kernelwright.train.model import adapters, load_tokenizer, new_model
from kernelwright.train.prompts import Ask
from kernelwright.train.segments import SegmentTrainer, grpo_config

TINY = {"hidden_size": 64, "layers": 2, "heads": 2, "kv_heads": 1, "head_dim": 32, "intermediate_size": 128}


def recipe_of(rows: int, prompt: int, answer: int, steps: int, tiny: bool) -> Recipe:
    sizes: dict[str, Any] = TINY if tiny else {"base": "Qwen/Qwen3-8B", "dtype": "bfloat16"}
    return parse_recipe(
        {
            "name": "trainer_8b",
            "stages": ["frontend"],
            "model": {"init": "random", "context": prompt + answer, "gradient_checkpointing": True, **sizes},
            "lora": {"rank": 16, "alpha": 32},
            "data": {"vocab_size": 2048},
            "frontend": {
                "steps": steps,
                "prompts": 1,
                "samples": rows,
                "max_tokens": answer,
                "learning_rate": 1e-6,
                "save_every": steps + 1,
                "credit": "uniform",
                "scale": "none",
            },
        }
    )


class Fabricated(SegmentTrainer):
    """Our trainer, with random rows instead of samples."""

    rows: list[tuple[list[int], list[int]]]

    def conversations(self, slots: int) -> list[Conversation]:
        self.curves.extra = {}
        return [talk(prompt, answer, place) for place, (prompt, answer) in enumerate(self.rows)]


class Clock(transformers.TrainerCallback):
    """Seconds of each step, including the GPU's work, and peak memory."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._began = 0.0

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._began = now()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        self.seconds.append(now() - self._began)
        return control


def now() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def talk(prompt: list[int], answer: list[int], place: int) -> Conversation:
    """A conversation of one completion, all code, with a reward by position."""
    rollout = Rollout(
        task_id="t/t",
        stage="frontend",
        prompt=Prompt(
            task_id="t/t", agent="frontend", messages=(Message(role="user", content="x"),), max_tokens=8
        ),
        completion=Completion(text="x", token_ids=tuple(answer), logprobs=(-1.0,) * len(answer)),
        candidate=Candidate(code="x", code_span=(0, len(answer))),
        verdict=Verdict(task_id="t/t", outcome=Outcome.CORRECT, gate=Gate.TIMING),
        reward=Reward(preset="wright", plan=0.0, code=float(place % 3)),
    )
    return Conversation(tuple(prompt), (rollout,))


def random_rows(count: int, prompt: int, answer: int, vocabulary: int) -> list[tuple[list[int], list[int]]]:
    chance = random.Random(0)
    tokens = [chance.randrange(10, vocabulary) for _ in range(prompt)]
    return [(tokens, [chance.randrange(10, vocabulary) for _ in range(answer)]) for _ in range(count)]


def measured(trainer: Any, clock: Clock) -> dict[str, float]:
    """Best and median seconds per step after the first, and the peak in bytes."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    began = now()
    trainer.train()
    whole = now() - began
    later = sorted(clock.seconds[1:])
    peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0
    return {
        "step_s": later[len(later) // 2],
        "best_s": later[0],
        "first_s": clock.seconds[0],
        "whole_s": whole,
        "peak_gb": peak / 1e9,
    }


def ours(recipe: Recipe, model: Any, tokenizer: Any, rows: Any, home: Path) -> dict[str, float]:
    clock = Clock()
    task = Task(id="t/t", source="x")
    trainer = Fabricated(
        recipe,
        model,
        tokenizer,
        Curriculum([Ask(task=task, agent="frontend")], 0),
        None,  # type: ignore[arg-type]
        Curves(RunFolder(home / "ours"), "frontend", quiet=True),
    )
    trainer.rows = rows
    trainer.add_callback(clock)
    return measured(trainer, clock)


def stock(recipe: Recipe, model: Any, tokenizer: Any, rows: Any, home: Path) -> dict[str, float]:
    """TRL's GRPOTrainer under the same settings."""
    clock = Clock()

    def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        return {
            "prompt_ids": [prompt for prompt, _ in rows],
            "completion_ids": [answer for _, answer in rows],
            "logprobs": [[-1.0] * len(answer) for _, answer in rows],
        }

    def paid(completions: list[Any], **columns: Any) -> list[float]:
        return [float(place % 3) for place in range(len(completions))]

    trainer = trl.GRPOTrainer(
        model=model,
        reward_funcs=paid,
        args=grpo_config(recipe, Curves(RunFolder(home / "stock"), "frontend", quiet=True)),
        train_dataset=Dataset.from_dict({"prompt": [str(i) for i in range(recipe.frontend.steps)]}),
        processing_class=tokenizer,
        rollout_func=rollout,
        callbacks=[clock],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return measured(trainer, clock)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for name, default in (("rows", 8), ("prompt", 1024), ("answer", 1024), ("steps", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs/trainer_8b.json"))
    args = parser.parse_args()
    recipe = recipe_of(args.rows, args.prompt, args.answer, args.steps, args.tiny)
    tokenizer = load_tokenizer(place_of("default"))
    began = now()
    base = new_model(recipe.model, tokenizer, 0)
    print(f"weights made in {now() - began:.1f} s", flush=True)
    rows = random_rows(args.rows, args.prompt, args.answer, len(tokenizer))
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, trainer in (("ours", ours), ("stock", stock), ("ours, again", ours)):
            model: Any = get_peft_model(base, adapters(recipe.lora))
            found[name] = trainer(recipe, model, tokenizer, rows, Path(folder) / name)
            base = model.unload()
            # TRL patches the model's forward; remove it.
            base.__dict__.pop("forward", None)
            del model
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
            print(name, json.dumps(found[name]), flush=True)
        stage = estimate(recipe, Path(folder)).stages[0]
    held = sum(stage.memory[part] for part in ("weights", "gradients", "optimizer", "activations"))
    found["estimate"] = {"step_s": stage.seconds["train"] / stage.steps, "peak_gb": held / 1e9}
    found["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    found["parts_gb"] = {name: round(size / 1e9, 3) for name, size in stage.memory.items()}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"\n{'':14}{'s a step':>10}{'peak GB':>10}")
    for name in ("ours", "stock", "ours, again", "estimate"):
        print(f"{name:14}{found[name]['step_s']:10.2f}{found[name]['peak_gb']:10.2f}")


if __name__ == "__main__":
    main()
