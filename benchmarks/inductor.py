"""How much of a suite, or of sampled operator graphs, the Inductor teacher rewrites, and how much of that is right.

    python benchmarks/inductor.py --suite wright
    python benchmarks/inductor.py --graphs 100

Each rewritten module goes once before the strict judge on the interpreter. Prints a line per task that is not
accepted, then the table. `--json` keeps it.

    python benchmarks/inductor.py --compare                     # on a machine with a GPU: both halves, and how they differ
    python benchmarks/inductor.py --dump offline.json           # no GPU: what Inductor emits, as it stands
    python benchmarks/inductor.py --compare offline.json        # the same tasks on this GPU, and how they differ
    python benchmarks/inductor.py --compare one.json two.json   # two dumps

Of `--tasks` tasks, the suite's first and sampled graphs for the rest. Torch and Triton must be of the same version on
both sides, so the offline half is best made on the machine with the GPU, which `--compare` hides from it. `--own` lets
Inductor measure templates on the GPU and cut up rows as it likes, where offline there is a rule.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from kernelwright import tasks
from kernelwright.data.config import CorpusConfig
from kernelwright.data.corpus import practice
from kernelwright.data.inductor import Workers, draft
from kernelwright.data.inductor.emitted import Dump, compare
from kernelwright.errors import UserError
from kernelwright.progress import Bar
from kernelwright.records import Candidate, Example, Task, Verdict, write_jsonl
from kernelwright.tasks import load_suite
from kernelwright.tasks.probe import ReferenceProbe
from kernelwright.verify import VerifierPool


def sampled(count: int, seed: int) -> list[Task]:
    """Tasks on operator graphs of one to four operators, in every style."""
    config = CorpusConfig(
        seed=seed, practice_graphs=count, operators=(), lengths=(1, 2, 3, 4), ranks=(2, 3), wide=True
    )
    return list(practice(config, ()))


def dump(where: str, suite: list[Task], out: Path) -> None:
    """Emit in a process of its own; a sheet's name is emitted for with every GPU hidden. Raises UserError."""
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder) / "tasks.jsonl"
        write_jsonl(given, suite)
        hidden = {} if where in ("gpu", "own") else {"CUDA_VISIBLE_DEVICES": ""}
        ended = subprocess.run(
            [sys.executable, "-m", "kernelwright.data.inductor.emit", where, str(given), str(out)],
            env={
                **os.environ,
                **hidden,
                "TORCHINDUCTOR_CACHE_DIR": f"{folder}/cache",
                "PYTHONWARNINGS": "ignore",
            },
            check=False,
        )
    if ended.returncode:
        raise UserError(f"nothing was emitted for {where}: the process ended with status {ended.returncode}")


def chosen_for_bytes(suite: str, count: int, seed: int) -> list[Task]:
    """The suite's first tasks and sampled graphs for the rest, at the small sizes that this machine finds."""
    with ReferenceProbe() as probe:
        found = [tasks.small_shapes(task, probe) for task in load_suite(suite)[:count]]
        return found + [tasks.small_shapes(task, probe) for task in sampled(count - len(found), seed)]


def tell(left: Dump, right: Dump, show: int, out: Path | None) -> None:
    """Print how two dumps differ."""
    found = compare(left, right)
    for one in (left, right):
        print(f"{one.where:10} {', '.join(f'{name} {value}' for name, value in one.machine.items())}")
    print(f"tasks      {found.tasks} of {len(left.emissions)} emitted on both sides")
    print(
        f"kernels    {found.kernels}, byte-identical {found.identical} ({found.identical / max(1, found.kernels):.1%})"
    )
    print(
        f"modules    Inductor's {found.raw} of {found.tasks} byte-identical, ours {found.modules[0]} of {found.modules[1]}"
    )
    for line in found.missing:
        print(f"       {line}")
    for kind, number in found.kinds.most_common():
        print(f"{number:5}  {kind}")
    told = sorted(found.changes, key=lambda change: "code" not in change.kinds)
    for change in told[:show]:
        print(f"\n{change.task_id} {change.kernel}: {', '.join(change.kinds)}\n{change.diff}")
    if out is not None:
        table = {
            "machines": [dict(left.machine), dict(right.machine)],
            "tasks": found.tasks,
            "missing": found.missing,
            "kernels": found.kernels,
            "identical": found.identical,
            "modules_identical": found.modules,
            "kinds": dict(found.kinds),
            "changes": [change._asdict() for change in found.changes],
        }
        out.write_text(json.dumps(table, indent=1) + "\n", "utf-8")


def bytes_against(options: argparse.Namespace) -> None:
    """The commands `--dump` and `--compare`."""
    given: list[Path] = options.compare or []
    if len(given) > 2:
        raise UserError("--compare takes two dumps at most; leave the others out")
    if len(given) == 2:
        tell(Dump.read(given[0]), Dump.read(given[1]), options.show, options.json)
        return
    with tempfile.TemporaryDirectory() as folder:
        offline = given[0] if given else options.dump or Path(folder) / "offline.json"
        if not given:
            dump(options.target, chosen_for_bytes(options.suite, options.tasks, options.seed), offline)
        if options.compare is None:
            return
        left = Dump.read(offline)
        there = options.gpu_dump or Path(folder) / "gpu.json"
        where = "own" if options.own else "gpu"
        dump(where, [emission.task for emission in left.emissions], there)
        tell(left, Dump.read(there), options.show, options.json)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--suite", default="wright")
    parser.add_argument("--graphs", type=int, default=0, help="sampled operator graphs instead of a suite")
    parser.add_argument("--limit", type=int, default=0, help="at most so many tasks, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1, help="hearings at once")
    parser.add_argument("--deadline", type=float, default=30.0, help="seconds for one hearing")
    parser.add_argument("--raw", type=Path, help="folder for Inductor's own modules, to compare machines by")
    parser.add_argument("--keep", type=Path, help="folder for the reference and module of what is rejected")
    parser.add_argument("--json", type=Path, help="keep the table")
    parser.add_argument("--dump", type=Path, help="write what Inductor emits with no GPU")
    parser.add_argument(
        "--compare", type=Path, nargs="*", help="no dump, an offline one, or two: how they differ"
    )
    parser.add_argument("--tasks", type=int, default=100, help="tasks of a dump")
    parser.add_argument("--target", default="h200", help="sheet of a dump")
    parser.add_argument("--own", action="store_true", help="on the GPU, Inductor's own measured choices")
    parser.add_argument("--gpu-dump", type=Path, help="keep what the GPU's half emitted")
    parser.add_argument("--show", type=int, default=20, help="kernels whose difference is printed")
    options = parser.parse_args()
    if options.dump is not None or options.compare is not None:
        try:
            bytes_against(options)
        except UserError as error:
            sys.exit(str(error))
        return
    rates(options)


def rates(options: argparse.Namespace) -> None:
    """How much is rewritten, and how much of that is right."""
    chosen = sampled(options.graphs, options.seed) if options.graphs else load_suite(options.suite)
    if options.limit:
        chosen = random.Random(options.seed).sample(chosen, min(options.limit, len(chosen)))
    examples: list[Example] = []
    skipped: Counter[str] = Counter()
    start = time.monotonic()
    with Workers() as workers, ReferenceProbe() as probe, Bar("inductor", len(chosen)) as bar:
        for task in chosen:
            task = tasks.small_shapes(task, probe)
            lesson = workers.teach(task)
            if options.raw:
                options.raw.mkdir(parents=True, exist_ok=True)
                (options.raw / f"{task.id.replace('/', '-')}.py").write_text(lesson.raw, "utf-8")
            found = draft(task, lesson)
            if isinstance(found, Example):
                examples.append(found)
            else:
                skipped[found.reason] += 1
                print(f"{task.id}: {found.reason}", file=sys.stderr)
            bar.advance()
    taught = time.monotonic() - start
    ended: Counter[str] = Counter()
    with (
        VerifierPool(options.workers, backend="interpret", deadline_s=options.deadline) as pool,
        Bar("judge", len(examples)) as bar,
    ):
        pairs = [(example.task, Candidate(code=example.code)) for example in examples]

        def note(index: int, verdict: Verdict) -> None:
            ended[verdict.outcome.value] += 1
            bar.advance(note=f"{ended['correct']} correct")
            if not verdict.correct:
                task = examples[index].task
                print(f"{task.id}: {verdict.outcome.value}: {verdict.detail}", file=sys.stderr, flush=True)
                if options.keep:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    name = task.id.replace("/", "-")
                    (options.keep / f"{name}.py").write_text(
                        f"{task.source}\n\n{examples[index].code}", "utf-8"
                    )

        pool.verify_many(pairs, note)
    right = ended.pop("correct", 0)
    count = len(examples)
    print(f"tasks      {len(chosen)}")
    print(f"rewritten  {count} ({count / len(chosen):.0%}), {taught / len(chosen):.2f} s a task")
    print(f"accepted   {right} ({right / max(1, count):.0%} of the rewritten)")
    for reason, number in [*ended.most_common(), *skipped.most_common()]:
        print(f"{number:5}  {reason}")
    if options.json:
        table = {"tasks": len(chosen), "rewritten": count, "accepted": right, **ended, **skipped}
        options.json.write_text(json.dumps(table, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
