"""Verdicts per second on a mix as policies write it in reinforcement learning: half of it fails before the GPU.

    python benchmarks/mix.py [--backend interpret|cuda] [--workers N] [--groups 58] [--seed 0]

For each built-in task, a group of eight with distinct sources: four correct kernels (the gold under other names) and
four that fail, one of each kind that policies write most: no code block, torch instead of a kernel, a name that does
not exist, and a planted bug. On a GPU the time includes making the reference. Prints the rate, and how many
ended at which gate.
"""

import argparse
import ast
import collections
import random
import re
import time

from verify import renamed

from kernelwright import faults, tasks
from kernelwright.candidates import parse
from kernelwright.policy.gold import gold
from kernelwright.records import Candidate, Task
from kernelwright.verify import VerifierPool

TORCH = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


{model}


class ModelNew(Model):
    pass
"""


RIGHT = 4


def group(task: Task, chance: random.Random) -> list[Candidate]:
    """Eight candidates for one task."""
    code = gold(task.id)
    (model,) = (
        ast.unparse(node)
        for node in ast.parse(task.source).body
        if isinstance(node, ast.ClassDef) and node.name == "Model"
    )
    bugs = list(faults.plant(code, task.dtype, [kind for kind in faults.KINDS if kind != "race"]))
    right = [renamed(code, f"v{number}") for number in range(RIGHT)]
    wrong = [
        chance.choice(bugs).code,
        re.sub(r"\btl\.store\(", "tl.put(", right[0], count=1),
        TORCH.format(model=model),
    ]
    said = [Candidate(code=code) for code in (*right, *wrong)]
    return [*said, parse("The kernel loads a tile and stores it.", finish_reason="length")]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="interpret", choices=["interpret", "cuda"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--groups", type=int, default=58)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    suite = list(tasks.load_suite("wright"))
    chosen = chance.sample(suite, min(options.groups, len(suite)))
    pairs = [(task, candidate) for task in chosen for candidate in group(task, chance)]
    with VerifierPool(options.workers, options.backend, compiled=False) as pool:
        spare = next(task for task in suite if task.id.endswith("/relu"))
        pool.verify(spare, Candidate(code=renamed(gold(spare.id), "warm")))
        start = time.perf_counter()
        verdicts = pool.verify_many(pairs)
        seconds = time.perf_counter() - start
    gates = collections.Counter(str(verdict.gate) for verdict in verdicts)
    outcomes = collections.Counter(str(verdict.outcome) for verdict in verdicts)
    print(
        f"{options.backend}, {options.workers} workers: {len(verdicts)} verdicts in {seconds:.1f} s, "
        f"{len(verdicts) / seconds:.2f} a second"
    )
    print("ended at:", ", ".join(f"{gate} {count}" for gate, count in gates.most_common()))
    print("outcomes:", ", ".join(f"{outcome} {count}" for outcome, count in outcomes.most_common()))
    for place, verdict in enumerate(verdicts):
        if place % 8 < RIGHT and not verdict.correct:
            print(f"  {verdict.task_id}, number {place % 8}: {verdict.outcome} {verdict.detail[:160]}")


if __name__ == "__main__":
    main()
