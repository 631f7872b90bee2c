"""Compares updates of reinforcement learning: after which one are more of the model's kernels correct?

    python benchmarks/arms.py CHECKPOINT TASKS.jsonl [--asked 256] [--held 192] [--updates 4] [--epochs 1] ARM...

An ARM is `key=value,...` of settings as in a recipe's `[frontend]`, such as `optimizer=muon,matrix_rate=2e-3,negatives=0`.
CHECKPOINT writes 8 samples for each of the first `asked` tasks. Every arm starts from it, makes `updates` updates on equal
parts of them, `epochs` times with a learning rate that falls to 0, and writes 4 samples for each of the next `held` tasks, with
the same random numbers as CHECKPOINT: where an update changes nothing, text and verdict are the same, so differences
are far less noisy than rates. Rewards are for correctness. Prints the share of correct samples, the difference with
its 95 % interval (bootstrap over tasks), and how many samples changed. Made for a GPU: 10 to 25 s per arm on an H200.
"""

from __future__ import annotations

import argparse
import copy
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from kernelwright.config import RlConfig, apply_override, parse_recipe
from kernelwright.metrics import bootstrap_interval
from kernelwright.policy.hf import HFPolicy
from kernelwright.policy.text import prompt_ids
from kernelwright.records import Rollout, Task, read_jsonl
from kernelwright.rollouts import Judge, roll
from kernelwright.train.advantages import group_advantages, modal
from kernelwright.train.model import load_model, load_tokenizer
from kernelwright.train.optimizers import muon
from kernelwright.train.prompts import frontend_asks
from kernelwright.verify import VerifierPool

SAMPLES, HELD_SAMPLES = 8, 4
_TOKENS = 1600
_REMEMBERED = 1 << 20
"""Number of cached verdicts: all of them."""


def written(policy: HFPolicy, tasks: Sequence[Task], judge: Judge, n: int, seed: int) -> list[list[Rollout]]:
    prompts = [ask.prompt("lowered", _TOKENS) for ask in frontend_asks(tasks)]
    return roll(policy, prompts, tasks, judge, n=n, reward="autotriton", temperature=1.0, seed=seed)


def update(
    model: Any, optimizer: Any, rl: RlConfig, tokenizer: Any, groups: Sequence[Sequence[Rollout]], size: int
) -> None:
    """One policy-gradient step over the groups whose samples are not all equally rewarded."""
    rows: list[tuple[list[int], Rollout, float]] = []
    for group in groups:
        paid = torch.tensor([float(r.verdict.correct) for r in group])
        gains = group_advantages(
            paid, len(group), scale=rl.scale, baseline=rl.baseline, negatives=rl.negatives
        )
        asked = prompt_ids(tokenizer, group[0].prompt)
        rows += [(asked, r, gain) for r, gain in zip(group, gains.tolist(), strict=True) if gain]
    rows.sort(key=lambda row: len(row[0]) + len(row[1].completion.token_ids or ()))
    total = sum(len(r.completion.token_ids or ()) for _, r, _ in rows)
    optimizer.zero_grad()
    for start in range(0, len(rows), size):
        loss(model, rl, rows[start : start + size]).div(total).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), rl.max_grad_norm)
    optimizer.step()


def loss(model: Any, rl: RlConfig, rows: Sequence[tuple[list[int], Rollout, float]]) -> Tensor:
    """Sum of the loss over the tokens of some samples; each row is (prompt ids, sample, advantage)."""
    device = model.device
    said = [torch.tensor(r.completion.token_ids) for _, r, _ in rows]
    ids = pad_sequence(
        [torch.cat([torch.tensor(p), s]) for (p, _, _), s in zip(rows, said, strict=True)], batch_first=True
    )
    gains, wrote = torch.zeros(ids.shape), torch.zeros(ids.shape)
    for row, (prompt, rollout, gain) in enumerate(rows):
        here = slice(len(prompt), len(prompt) + len(said[row]))
        gains[row, here] = gain
        wrote[row, here] = torch.tensor(rollout.completion.logprobs)
    if rl.modal:
        gains = modal(gains, wrote)
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
        logits = model(input_ids=ids.to(device)).logits[:, :-1]
    each = logits.float().log_softmax(-1).gather(-1, ids[:, 1:, None].to(device))[..., 0]
    return -(each * gains[:, 1:].to(device)).sum()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("arms", nargs="+", metavar="ARM")
    parser.add_argument("--asked", type=int, default=256)
    parser.add_argument("--held", type=int, default=192)
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", default="conv3d,conv_transpose3d", help="families that take long to judge")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    size, half = (64, torch.bfloat16) if device == "cuda" else (8, None)
    skipped = tuple(f"families/{name}" for name in given.skip.split(",") if name)
    tasks = [task for task in read_jsonl(given.tasks, Task) if not task.id.startswith(skipped)]
    random.Random(given.seed).shuffle(tasks)
    asked, held = tasks[: given.asked], tasks[given.asked : given.asked + given.held]
    tokenizer = load_tokenizer(str(given.checkpoint))
    model = load_model(str(given.checkpoint), "float32").to(device)
    start = copy.deepcopy(model.state_dict())
    policy = HFPolicy(model, tokenizer, "arms", batch=1024 if device == "cuda" else 0, dtype=half)
    with VerifierPool(given.workers or None, "interpret", deadline_s=15.0, priced=False) as pool:
        judge = Judge(pool, _REMEMBERED)
        began = time.perf_counter()
        groups = written(policy, asked, judge, SAMPLES, 1)
        random.Random(1).shuffle(groups)
        before = written(policy, held, judge, HELD_SAMPLES, 2)
        base = rates(before)
        print(f"{rates(groups).mean():.3f} right of what is trained on, {base.mean():.3f} of what is held, "
              f"{time.perf_counter() - began:.0f} s", flush=True)  # fmt: skip
        for arm in given.arms:
            began = time.perf_counter()
            table: dict[str, Any] = {}
            for pair in arm.split(","):
                apply_override(table, f"frontend.{pair}")
            rl = parse_recipe(table, where=arm).frontend
            model.load_state_dict(start)
            optimizer: Any = torch.optim.AdamW(model.parameters(), lr=rl.learning_rate, weight_decay=0.0)
            if rl.optimizer == "muon":
                optimizer = muon(model, rl.matrix_rate, rl.learning_rate, 0.0)
            model.train()
            total = given.updates * given.epochs
            decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step, total=total: 1 - step / total)
            for part in range(total):
                update(model, optimizer, rl, tokenizer, groups[part % given.updates :: given.updates], size)
                decay.step()
            after = written(policy, held, judge, HELD_SAMPLES, 2)
            gains = rates(after) - base
            low, high = bootstrap_interval(gains.tolist())
            changed = np.mean([
                a.completion.text != b.completion.text
                for old, new in zip(before, after, strict=True) for a, b in zip(old, new, strict=True)
            ])  # fmt: skip
            print(f"{arm}: {rates(after).mean():.3f}  {100 * gains.mean():+.1f} points "
                  f"[{100 * low:+.1f}, {100 * high:+.1f}]  "
                  f"{changed:.0%} changed  {time.perf_counter() - began:.0f} s", flush=True)  # fmt: skip


def rates(groups: Sequence[Sequence[Rollout]]) -> np.ndarray:
    """Share of correct samples by task."""
    return np.array([np.mean([r.verdict.correct for r in group]) for group in groups])


if __name__ == "__main__":
    main()
