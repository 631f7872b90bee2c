"""CPU seconds of a cold verdict without a GPU, by process; excludes the pool's start.

    python benchmarks/core_seconds.py relu softmax_rows layernorm conv2d_standard loss_mse linear_gelu batchnorm_eval matmul_square

Arguments are built-in tasks, whose golds are judged one after the other. Reads /proc, so Linux only. CPU seconds also grow on a
busy machine, so compare two versions side by side.
"""

import resource
import sys

from kernelwright import tasks
from kernelwright.policy.gold import gold
from kernelwright.records import Candidate, Task
from kernelwright.verify import VerifierPool


def _used(who: int) -> float:
    found = resource.getrusage(who)
    return found.ru_utime + found.ru_stime


def _of_workers(pid: int) -> float:
    """CPU seconds of a zygote and of the processes that it has waited for."""
    with open(f"/proc/{pid}/stat") as stat:
        return sum(map(int, stat.read().rpartition(")")[2].split()[11:15])) / 100.0


def spent(suite: list[Task], warm: Task) -> tuple[float, float, float]:
    """CPU seconds of (the judge, assemblers, workers with their zygote)."""
    with VerifierPool(1, "interpret", deadline_s=120.0) as pool:
        pool.verify(warm, Candidate(code=gold(warm.id)))
        pid = pool._zygote._process.pid
        who = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
        before = [*map(_used, who), _of_workers(pid)]
        for task in suite:
            verdict = pool.verify(task, Candidate(code=gold(task.id)))
            if not verdict.correct:
                print(f"{task.id}: {verdict.outcome} {verdict.detail[:100]}")
        after = [*map(_used, who), _of_workers(pid)]
    judge, assembler, workers = (b - a for a, b in zip(before, after, strict=True))
    return judge, assembler, workers


def main() -> None:
    known = list(tasks.load_suite("wright"))
    suite = [task for task in known if task.id.split("/")[-1] in sys.argv[1:]] or known
    each = [seconds / len(suite) for seconds in spent(suite, known[0])]
    names = ("judge", "assembler", "workers")
    parts = ", ".join(f"{name} {one:.3f}" for name, one in zip(names, each, strict=True))
    print(f"{len(suite)} golds: {sum(each):.3f} s of a core each ({parts})")


if __name__ == "__main__":
    main()
