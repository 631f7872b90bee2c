"""A training run of seconds: two tasks with two known answers each, and a recipe for a very small model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kernelwright.config import Recipe, parse_recipe
from kernelwright.records import Example, Task

SLOW, FAST = "correct 2", "correct 0.5"


def code(kernel: str) -> str:
    return f"# {kernel}\nclass ModelNew: pass\n@triton.jit\ndef kernel(): pass"


def example(name: str, said: str, plan: str, **fields: Any) -> Example:
    shared = {"plan": plan, "code": code(said), "graph": name, **fields}
    return Example(task=Task(id=f"synth/{name}", suite="synth", source=f"# {name}", family="norm"), **shared)


def examples() -> list[Example]:
    found = [
        example(name, kernel, plan) for name in "ab" for kernel, plan in ((SLOW, "slow"), (FAST, "fast"))
    ]
    found += [
        example("a", FAST, "fast", kind="improve", kernel=code(SLOW), feedback="time: 2 ms"),
        example("v", FAST, "fast", split="validation"),
        example("h", FAST, "fast", split="heldout"),
    ]
    return found


def finished(waiting: Any) -> Any:
    """The return value of a generator that yields wherever it would wait for verdicts."""
    while True:
        try:
            next(waiting)
        except StopIteration as end:
            return end.value


def make_recipe(folder: Path, **tables: Any) -> Recipe:
    """A recipe of a few short steps; `tables` are merged over it, table by table."""
    base: dict[str, Any] = {
        "name": "tiny",
        "threads": 1,
        "model": {
            "hidden_size": 32,
            "layers": 1,
            "heads": 2,
            "kv_heads": 1,
            "head_dim": 16,
            "intermediate_size": 48,
            "context": 256,
        },
        "data": {"examples": str(folder / "examples.jsonl"), "tokenizer": str(folder / "tokenizer")},
        "sft": {"steps": 30, "batch": 4, "learning_rate": 0.02, "save_every": 8},
        "frontend": {
            "reward": "wright",
            "steps": 4,
            "prompts": 2,
            "samples": 4,
            "max_tokens": 48,
            "learning_rate": 0.01,
            "save_every": 2,
        },
        "midend": {
            "steps": 2,
            "prompts": 1,
            "samples": 4,
            "updates": 2,
            "epochs": 2,
            "max_tokens": 48,
            "learning_rate": 0.01,
            "save_every": 1,
        },
    }
    for name, table in tables.items():
        base[name] = {**base.get(name, {}), **table} if isinstance(table, dict) else table
    return parse_recipe(base)
