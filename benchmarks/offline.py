"""Updates of reinforcement compared without new rollouts: what each does to samples that were not trained on.

    python benchmarks/offline.py CHECKPOINT RUN/rollouts.jsonl HELD/rollouts.jsonl [--steps 2] [--out DIR] ARM...

An ARM is `key=value,...` of optimizer, matrix_rate, learning_rate, negatives, scale and baseline, as in a recipe's
`[frontend]`, such as `optimizer=muon,matrix_rate=2e-3,negatives=0`. From CHECKPOINT, each arm makes one update on the
groups that disagree of each of the first `steps` steps of a run that began there. HELD holds CHECKPOINT's own samples of
other tasks at temperature 1: by importance sampling, the sum of p_new / p_old over the right ones, over their number, says
how much likelier right answers like these have become; the same of the wrong ones; and what both lose went to answers
that nobody has sampled. Rewards are 1 for a correct kernel and 0 for others. With --out the arms' weights are kept.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernelwright.config import RlConfig, apply_override, parse_recipe
from kernelwright.policy.text import prompt_ids
from kernelwright.progress import Bar
from kernelwright.records import Rollout, read_jsonl
from kernelwright.train.advantages import group_advantages
from kernelwright.train.model import load_model, load_tokenizer
from kernelwright.train.optimizers import muon

_MOST_NATS = 3.0
"""Ratios are cut off there: one sample must not outweigh the others."""


class Sample(NamedTuple):
    group: str
    prompt: list[int]
    answer: list[int]
    right: bool


def read(path: Path, tokenizer: Any, steps: int = 0) -> dict[int, list[Sample]]:
    """Samples by step, those of a group side by side; of the first `steps` steps, 0: all."""
    found: dict[int, list[Sample]] = {}
    for rollout in read_jsonl(path, Rollout):
        if steps and rollout.step > steps:
            break
        asked, said = prompt_ids(tokenizer, rollout.prompt), list(rollout.completion.token_ids or ())
        group = rollout.group if steps else rollout.task_id
        found.setdefault(rollout.step, []).append(Sample(group, asked, said, rollout.verdict.correct))
    return found


def log_probs(model: Any, samples: Sequence[Sample]) -> Tensor:
    """The log-probability (B,) of each answer."""
    device = model.device
    rows = [sample.prompt + sample.answer for sample in samples]
    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    said = torch.zeros(ids.shape, dtype=torch.bool)
    for row, tokens in enumerate(rows):
        ids[row, : len(tokens)] = torch.tensor(tokens)
        said[row, len(samples[row].prompt) : len(tokens)] = True
    ids, said = ids.to(device), said[:, 1:].to(device)
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=device.type == "cuda"):
        logits = model(input_ids=ids).logits[:, :-1]
    each = logits.float().log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    return (each * said).sum(1)


def batches(samples: Sequence[Any], length: Any, size: int) -> Iterator[list[int]]:
    """Places of `samples`, the short ones together."""
    ordered = sorted(range(len(samples)), key=lambda place: length(samples[place]))
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]


def width(sample: Sample) -> int:
    return len(sample.prompt) + len(sample.answer)


@torch.no_grad()
def scores(model: Any, samples: Sequence[Sample], size: int) -> list[float]:
    found = [0.0] * len(samples)
    for places in batches(samples, width, size):
        values = log_probs(model, [samples[place] for place in places]).tolist()
        for place, value in zip(places, values, strict=True):
            found[place] = value
    return found


def update(model: Any, optimizer: Any, rl: RlConfig, samples: Sequence[Sample], size: int) -> int:
    """One step of policy gradient over the groups that disagree. Returns how many samples took part."""
    trained: list[tuple[float, Sample]] = []
    for _, group in itertools.groupby(samples, key=lambda sample: sample.group):
        of_group = list(group)
        paid = torch.tensor([float(sample.right) for sample in of_group])
        gains = group_advantages(
            paid, len(of_group), scale=rl.scale, baseline=rl.baseline, negatives=rl.negatives
        )
        trained += [(gain, sample) for gain, sample in zip(gains.tolist(), of_group, strict=True) if gain]
    tokens = sum(len(sample.answer) for _, sample in trained)
    optimizer.zero_grad()
    for places in batches(trained, lambda one: width(one[1]), size):
        gains = torch.tensor([trained[place][0] for place in places], device=model.device)
        said = log_probs(model, [trained[place][1] for place in places])
        (-(gains * said).sum() / tokens).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), rl.max_grad_norm)
    optimizer.step()
    return len(trained)


def said_of(samples: Sequence[Sample], before: Sequence[float], after: Sequence[float]) -> str:
    """How much likelier the right and the wrong ones are, and the share that is right within groups that disagree."""
    ratios = [math.exp(min(b - a, _MOST_NATS)) for a, b in zip(before, after, strict=True)]
    right = fmean(ratio for ratio, sample in zip(ratios, samples, strict=True) if sample.right)
    wrong = fmean(ratio for ratio, sample in zip(ratios, samples, strict=True) if not sample.right)
    share = fmean(sample.right for sample in samples)
    groups: dict[str, list[tuple[bool, float]]] = {}
    for sample, ratio in zip(samples, ratios, strict=True):
        groups.setdefault(sample.group, []).append((sample.right, ratio))
    gains = [
        sum(ratio for good, ratio in group if good) / sum(ratio for _, ratio in group)
        - fmean(good for good, _ in group)
        for group in groups.values()
        if len({good for good, _ in group}) > 1
    ]
    return (
        f"right {right:.3f}  wrong {wrong:.3f}  left of the mass {share * right + (1 - share) * wrong:.3f}  "
        f"within {len(gains)} groups that disagree {100 * fmean(gains):+.1f} points"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("rollouts", type=Path)
    parser.add_argument("held", type=Path)
    parser.add_argument("arms", nargs="+", metavar="ARM")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--batch", type=int, default=0, help="samples a forward pass; 0: 64 on a GPU, else 8")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    size = given.batch or (64 if device == "cuda" else 8)
    tokenizer = load_tokenizer(str(given.checkpoint))
    steps = read(given.rollouts, tokenizer, given.steps)
    held = [sample for samples in read(given.held, tokenizer).values() for sample in samples]
    start = load_model(str(given.checkpoint), "float32").to(device).eval()
    before = scores(start, held, size)
    for arm in given.arms:
        table: dict[str, Any] = {}
        for pair in arm.split(","):
            apply_override(table, f"frontend.{pair}")
        rl = parse_recipe(table, where=arm).frontend
        model = copy.deepcopy(start).train()
        optimizer: Any = torch.optim.AdamW(
            model.parameters(), lr=rl.learning_rate, weight_decay=rl.weight_decay
        )
        if rl.optimizer == "muon":
            optimizer = muon(model, rl.matrix_rate, rl.learning_rate, rl.weight_decay)
        with Bar(arm, len(steps)) as bar:
            for step, samples in steps.items():
                count = update(model, optimizer, rl, samples, size)
                bar.advance(1, f"{count} samples")
                if step in (1, 2, 5, max(steps)) or step % 10 == 0:
                    print(
                        f"{arm}, {step} steps: {said_of(held, before, scores(model.eval(), held, size))}",
                        flush=True,
                    )
                    model.train()
        if given.out is not None:
            place = given.out / arm.replace("=", "").replace(",", "_")
            model.to(torch.bfloat16).save_pretrained(place)
            tokenizer.save_pretrained(place)


if __name__ == "__main__":
    main()
