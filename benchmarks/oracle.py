"""What the judge's side of a task costs on a GPU: its reference in its own precision, in fp64, and all of its cases.

    python benchmarks/oracle.py kernelbench:PATH/level1 [TASKS.jsonl ...] [--limit 40] [--seed 0]

For tasks drawn at random: milliseconds of a call in the task's own precision and in fp64, with GiB of memory at the peak
of each; then seconds for all cases of a verification. Slowest first, and the sums.
"""

import argparse
import contextlib
import random
import time

import torch

from kernelwright import tasks
from kernelwright.records import Task
from kernelwright.verify import VerifierPool
from kernelwright.verify.reference.oracle import Reference
from kernelwright.verify.structures import convert


def once(module: torch.nn.Module, inputs: list) -> tuple[float, float]:
    """(milliseconds, GiB at the peak) of a second call; nan where it does not run."""
    try:
        with torch.no_grad(), torch.backends.cudnn.flags(enabled=True, benchmark=False, allow_tf32=False):
            module(*inputs)
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            held, start = torch.cuda.memory_allocated(), time.perf_counter()
            module(*inputs)
            torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - start), (torch.cuda.max_memory_allocated() - held) / 2**30
    except RuntimeError:
        return float("nan"), float("nan")


def row(task: Task, pool: VerifierPool) -> list[float]:
    reference = Reference(task, dict(task.shapes.get("full", {})), "cuda:0")
    module, inputs = reference.build_there(), reference.inputs(1)
    own = once(module, inputs)
    wide = convert(inputs, lambda t: t.double() if t.is_floating_point() else t)
    module = module.double()
    exact = once(module, wide)
    del module, inputs, wide
    torch.cuda.empty_cache()
    start = time.perf_counter()
    pool.judge.gpu_cases(task, pool.gpus[0], contextlib.nullcontext())
    torch.cuda.synchronize()
    return [*own, *exact, time.perf_counter() - start]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("suites", nargs="+")
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    suite = [task for name in options.suites for task in tasks.load_suite(name)]
    random.Random(options.seed).shuffle(suite)
    found = []
    with VerifierPool(1, "cuda", compiled=False) as pool:
        for task in suite[: options.limit]:
            try:
                found.append((row(task, pool), task.id))
            except Exception as error:  # a task that does not fit says nothing of the others
                print(f"{task.id}: {type(error).__name__}: {str(error)[:100]}", flush=True)
            torch.cuda.empty_cache()
    print("own ms  GiB | fp64 ms  GiB | all cases s")
    for figures, name in sorted(found, key=lambda item: -item[0][-1]):
        own, a, exact, b, cases = figures
        print(f"{own:8.1f} {a:5.1f} | {exact:8.1f} {b:5.1f} | {cases:6.2f}  {name}")
    print(f"{len(found)} tasks: {sum(f[-1] for f, _ in found):.1f} s of cases")


if __name__ == "__main__":
    main()
