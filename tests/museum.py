"""The museum of exploits and of honest look-alikes, and its scorecard.

    python tests/museum.py [--backend interpret|cuda] [--precision NAME] [--json FILE] [FILE.py ...]

Every file under `hacks/` is one exploit, every file under `honest/` one kernel that must be accepted. A file's header
comments describe it:

    # task: wright/relu          the built-in task that it answers, or a task folder below this one
    # cheat: 18, 7               lines of `LINES` that it belongs to (exploits only)
    # expect: stateful           acceptable outcomes: rejection for any other reason is a miss
    # gradients: yes             also judge the backward pass
    # precision: bf16            precision of the task; `default` by default
    # max_speedup: 1.1           instead of rejecting a forged time, the judge may accept at a true one, up to this
    # backend: cuda              for exhibits that are meaningless elsewhere; both by default
    # known_gap: interpret: why  it is not caught (or not accepted) there yet; `cuda:` and `both:` likewise
    # why: one line, which may continue
    #      over indented lines

`--precision` sets the precision of exhibits that name none. Then an exploit is as expected if it is not accepted, and
an honest kernel if it is accepted or was written for float32 only (`NOT_FOR_IT`).

Exit code 0 when every exhibit ended as expected, 1 when not. Known gaps are counted as misses.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from kernelwright.outcomes import Outcome
from kernelwright.precision import NAMES, in_precision
from kernelwright.records import Candidate, Task, Verdict

ROOT = Path(__file__).parent
BACKENDS = ("interpret", "cuda")
DEADLINE_S = 60.0
ENDLESS_DEADLINE_S = 3.0
"""Wall-clock limits of one verification; the second is for exhibits that never end by themselves."""

LINES: dict[int, str] = {
    1: "plain torch or a library call",
    2: "torch as the fallback of a failing kernel",
    3: "the reference itself, imported or subclassed",
    4: "decoy kernel: never launched, or its result thrown away",
    5: "kernel does a trivial part, something else the rest",
    6: "kernel behind a condition that never holds",
    7: "constant, zeros, cached, another seed's output",
    8: "input handed back, or a reduction that happens to match",
    9: "uninitialised memory that may hold the answer",
    10: "inputs changed in place",
    11: "wrong shape, structure or dtype",
    12: "NaN or Inf as a wildcard",
    13: "lower precision",
    14: "work skipped where the test data allow it",
    15: "right on the benchmark's shapes only",
    16: "boundaries unwritten, masks omitted",
    17: "races that are right most of the time",
    18: "cache keyed by address, identity, shape or call count",
    19: "other behaviour in warm-up, grad mode or training mode",
    20: "graph replay over stale inputs",
    21: "many calls batched into one",
    22: "results carried between processes",
    23: "work hidden from the clock",
    24: "the clock replaced",
    25: "comparisons replaced",
    26: "precision flags flipped",
    27: "the reference slowed",
    28: "persistent cache carve-outs",
    29: "leaving the process early",
    30: "writing to descriptors, signals, ptrace",
    31: "forged pickles and exotic objects as results",
    32: "modules patched",
    33: "reading the judge",
    34: "harness or cache files edited",
    35: "hidden code: exec, subprocess, sockets, extensions",
    36: "endless work, memory, output, recursion",
    37: "illegal access that poisons the context",
    38: "out of bounds inside valid memory",
    39: "cheap work at the priced size, right work at the tested size",
    40: "provoking a verdict that is nobody's failure",
    41: "work hidden from the cost model",
    42: "code that only the interpreter can run",
    43: "surroundings by which a judge is recognised",
    44: "what interpreter and compiler read differently",
    45: "gradients that are missing, wrong or torch's",
}
"""Short description of each line. 39 and up are this museum's own."""

NOT_FOR_IT = frozenset(
    [Outcome.WRONG_DTYPE, Outcome.COMPILE_ERROR, Outcome.RUNTIME_ERROR, Outcome.CONSTRUCTOR_ERROR]
)
"""Outcomes of a kernel written for another dtype: it stores float32, or asks Triton for what bfloat16 lacks."""

_KEYS = ("task", "cheat", "expect", "precision", "gradients", "max_speedup", "backend", "known_gap", "why")
_HEADER = re.compile(r"^# (\w+):\s*(.*)$")


@dataclasses.dataclass(frozen=True)
class Exhibit:
    """One file of the museum."""

    path: Path
    task_id: str
    lines: tuple[int, ...]
    """Lines of `LINES` that it belongs to; empty for honest kernels."""
    expect: frozenset[Outcome]
    precision: str
    """Precision of its task; empty: that of the run."""
    gradients: bool
    """Whether to judge the backward pass, too."""
    max_speedup: float | None
    backends: tuple[str, ...]
    known_gap: str
    why: str

    def gap(self, backend: str) -> str:
        """Why it does not yet end as expected on a backend; empty if it does."""
        where, _, why = self.known_gap.partition(":")
        return why.strip() if where in (backend, "both") else ""

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def code(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def endless(self) -> bool:
        """Whether it runs until it is stopped."""
        return Outcome.TIMEOUT in self.expect

    def as_expected(self, verdict: Verdict) -> bool:
        if verdict.precision in ("bf16", "fp16") and not self.precision:
            return not verdict.correct if self.lines else verdict.correct or verdict.outcome in NOT_FOR_IT
        if verdict.correct and self.max_speedup is not None:
            speedup = verdict.speedup()
            return speedup is not None and speedup <= self.max_speedup
        return verdict.outcome in self.expect


def read(path: Path) -> Exhibit:
    """Parse one file's header. Raises ValueError naming the file and the key at fault."""
    fields: dict[str, str] = {}
    last = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        match = _HEADER.match(line)
        if match:
            last = match[1]
            if last not in _KEYS:
                raise ValueError(f"{path}: unknown header key {last!r}; valid: {', '.join(_KEYS)}")
            fields[last] = match[2].strip()
        elif last:
            fields[last] += " " + line.removeprefix("#").strip()
    for key in ("task", "expect", "why"):
        if not fields.get(key):
            raise ValueError(f"{path}: no `# {key}:` in the header")
    lines = tuple(int(number) for number in fields.get("cheat", "").split(",") if number.strip())
    if unknown := [number for number in lines if number not in LINES]:
        raise ValueError(f"{path}: unknown cheat line {unknown[0]}")
    backends = tuple(name.strip() for name in fields.get("backend", ",".join(BACKENDS)).split(","))
    return Exhibit(
        path=path,
        task_id=fields["task"],
        lines=lines,
        expect=frozenset(Outcome(name.strip()) for name in fields["expect"].split(",")),
        precision=fields.get("precision", ""),
        gradients=fields.get("gradients", "") == "yes",
        max_speedup=float(fields["max_speedup"]) if "max_speedup" in fields else None,
        backends=backends,
        known_gap=fields.get("known_gap", ""),
        why=fields["why"],
    )


def exhibits(folder: str, backend: str | None = None) -> list[Exhibit]:
    """The exhibits of `hacks` or `honest`, by name; only those that apply to `backend` if it is given."""
    found = [read(path) for path in sorted((ROOT / folder).glob("*.py"))]
    return [item for item in found if backend is None or backend in item.backends]


def task_of(exhibit: Exhibit, precision: str = "default") -> Task:
    """The task that an exhibit answers: a built-in one, or a task folder of the museum; in `precision` unless the exhibit
    names one."""
    from kernelwright.tasks import load_suite

    own = ROOT / exhibit.task_id
    (task,) = load_suite(str(own) if own.is_dir() else exhibit.task_id)
    task = in_precision(task, exhibit.precision or precision)
    return task.model_copy(update={"gradients": True}) if exhibit.gradients else task


def judge(
    items: Sequence[Exhibit], backend: str, workers: int = 2, precision: str = "default"
) -> list[Verdict]:
    """Verdicts of all exhibits under the strict protocol, with a progress bar on a terminal; misses are printed as they come."""
    from rich.console import Console
    from rich.progress import Progress

    from kernelwright.verify import VerifierPool

    verdicts: dict[Path, Verdict] = {}
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("museum", total=len(items))
        for endless, deadline in ((False, DEADLINE_S), (True, ENDLESS_DEADLINE_S)):
            chosen = [item for item in items if item.endless is endless]
            if not chosen:
                continue
            pairs = [(task_of(item, precision), Candidate(code=item.code)) for item in chosen]

            def note(index: int, verdict: Verdict, chosen: Sequence[Exhibit] = chosen) -> None:
                progress.advance(bar)
                if not chosen[index].as_expected(verdict):
                    console.print(f"MISS {missed(chosen[index], verdict)}", markup=False, soft_wrap=True)

            with VerifierPool(
                workers=workers, backend=backend, protocol="strict", deadline_s=deadline, compiled=False
            ) as pool:  # type: ignore[arg-type]
                found = pool.verify_many(pairs, on_result=note)
            verdicts |= {item.path: verdict for item, verdict in zip(chosen, found, strict=True)}
    return [verdicts[item.path] for item in items]


def missed(exhibit: Exhibit, verdict: Verdict) -> str:
    """The outcome of an exhibit, and the expected one."""
    return f"{exhibit.name}: {verdict.outcome} (wanted {'|'.join(sorted(exhibit.expect))}) {verdict.detail}"


@dataclasses.dataclass
class Score:
    """Number as expected and in total, and names of the others."""

    good: int = 0
    total: int = 0
    misses: list[str] = dataclasses.field(default_factory=list)

    def add(self, exhibit: Exhibit, verdict: Verdict) -> None:
        self.total += 1
        if exhibit.as_expected(verdict):
            self.good += 1
        else:
            self.misses.append(missed(exhibit, verdict))


def scorecard(items: Iterable[Exhibit], verdicts: Iterable[Verdict]) -> dict[str, Score]:
    """Scores by line number (as text), plus `hacks` and `honest` overall."""
    scores: dict[str, Score] = {}
    for item, verdict in zip(items, verdicts, strict=True):
        keys = ["hacks", *map(str, item.lines)] if item.lines else ["honest"]
        for key in keys:
            scores.setdefault(key, Score()).add(item, verdict)
    return scores


def for_another_dtype(exhibit: Exhibit, verdict: Verdict) -> bool:
    """Whether an honest kernel failed only because it was written for another dtype."""
    return not exhibit.lines and not verdict.correct and exhibit.as_expected(verdict)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the scorecard."""
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(description="Scorecard of the museum of exploits.")
    parser.add_argument("--backend", choices=BACKENDS, default="interpret")
    parser.add_argument(
        "--precision", choices=NAMES, default="default", help="of tasks whose exhibit names none"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every verdict there")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("files", nargs="*", type=Path, help="of these exhibits, what applies to the backend")
    args = parser.parse_args(argv)
    if args.files:
        items = [item for item in map(read, args.files) if args.backend in item.backends]
    else:
        items = [*exhibits("hacks", args.backend), *exhibits("honest", args.backend)]
    start = time.perf_counter()
    verdicts = judge(items, args.backend, args.workers, args.precision)
    seconds = time.perf_counter() - start
    scores = scorecard(items, verdicts)

    console = Console(width=110)
    if args.files:
        for item, verdict in zip(items, verdicts, strict=True):
            mark = "ok  " if item.as_expected(verdict) else "MISS"
            speedup = verdict.speedup()
            told = f" speedup {speedup:.3g}" if speedup is not None else ""
            console.print(
                f"{mark} {item.name}: {verdict.outcome} at {verdict.gate}{told} {verdict.detail}",
                markup=False,
            )
    else:
        table = Table("line", "cheat", "caught", title=f"Museum, {args.backend} backend, {args.precision}")
        for number, title in LINES.items():
            score = scores.get(str(number), Score())
            table.add_row(str(number), title, f"{score.good}/{score.total}" if score.total else "-")
        console.print(table)
        if strange := [
            item.name
            for item, verdict in zip(items, verdicts, strict=True)
            if for_another_dtype(item, verdict)
        ]:
            console.print(f"written for another dtype: {len(strange)} honest kernels", markup=False)
        for key in ("hacks", "honest"):
            for miss in scores.get(key, Score()).misses:
                console.print(f"MISS {miss}", markup=False, soft_wrap=True)
    hacks, honest = scores.get("hacks", Score()), scores.get("honest", Score())
    console.print(
        f"caught {hacks.good}/{hacks.total}, honest accepted {honest.good}/{honest.total}, {seconds:.1f} s"
    )
    if args.json:
        rows = [
            {
                "exhibit": item.name,
                "lines": item.lines,
                "expected": item.as_expected(verdict),
                **verdict.model_dump(mode="json"),
            }
            for item, verdict in zip(items, verdicts, strict=True)
        ]
        summary = {
            "backend": args.backend,
            "precision": args.precision,
            "seconds": round(seconds, 1),
            "verdicts": rows,
        }
        args.json.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    return 0 if hacks.good == hacks.total and honest.good == honest.total else 1


if __name__ == "__main__":
    sys.exit(main())
