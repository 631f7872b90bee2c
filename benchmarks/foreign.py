"""How many published kernels are made 5 % faster at an equal number of judged kernels: by their own numbers, by `tune`, by the mid-end.

    python benchmarks/foreign.py DIR OUT [--midend default] [--seconds 540] [--only 1/4]      rows to OUT/rows.jsonl, then the table
    python benchmarks/foreign.py report OUT

DIR holds checkouts: `data/TritonBench_G_v1` of TritonBench (`foreign_golds.py`) and `src/liger_kernel/ops` of Liger-Kernel
(`published_liger.py`). Each kernel is judged as `kernel(...)` of its reference's graph. If it is right, three ways get `--judged` kernels
each, side by side, to find a faster one:

    numbers    hill climbing over its own block sizes, warps and stages
    tune       `optimize --kernel K --rungs tune`: the library's schedules, then climbing from the fastest
    mid-end    the policy is shown the kernel with its profile, as code and as the nearest plan, then the two fastest; it writes
               plans, which the library prints

Then the published kernel and each way's fastest are judged once more, for the fastest of many is partly the luckiest: the table compares
these times. With a GPU they are measured, together with torch.compile's; else modelled (`--backend interpret`). A kernel with a row is
not judged again. One process uses one GPU: set CUDA_VISIBLE_DEVICES. Writes none of the kernels to disk.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import foreign_golds
import published_liger
from field.intervals import exact

from kernelwright import candidates, prompts
from kernelwright.archive import LEAST_GAIN
from kernelwright.errors import UserError, one_line
from kernelwright.graph import Graph
from kernelwright.graph.partition import by_place
from kernelwright.hardware import cores
from kernelwright.metrics import geometric_mean
from kernelwright.outcomes import Outcome
from kernelwright.policy import Policy, load_policy
from kernelwright.policy.text import until_plan
from kernelwright.records import Candidate, Prompt, Task, Timing, Verdict
from kernelwright.rollouts import Verifier, await_verdict, faster, in_module, quiet_gpu, with_print
from kernelwright.search.asks import fitting
from kernelwright.search.cache import Answer
from kernelwright.search.cases import of_task
from kernelwright.search.rung import CannotWrite, Climb
from kernelwright.search.tune import TuneRung, Variant, milliseconds, tune
from kernelwright.synth.library import schedules_of
from kernelwright.synth.plan import print_plan
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.to_triton import label_of
from kernelwright.tasks.form import check_reference
from kernelwright.verify import VerifierPool

WAYS = ("numbers", "tune", "mid-end")
PLAN_TOKENS, TURNS, SAMPLES = 128, 2, 4
"""Tokens of a plan; turns of the mid-end; samples drawn for each kernel that a turn may have judged."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Foreign:
    """A kernel that others published."""

    name: str
    precision: str
    reference: str
    """In the KernelBench form."""
    code: str
    """Defines `kernel(...)` on the reference's inputs."""

    def posed(self) -> tuple[Task, str]:
        """(the reference's graph as a task, the kernel's text). Raises UserError or CannotWrite."""
        source = check_reference(self.reference, self.name)
        task = Task(id=f"foreign/{self.name}", suite="foreign", source=source, precision=self.precision)
        posed, _ = of_task(task, large=True).posed(self.code, self.precision)
        return posed.model_copy(update={"id": task.id}), self.code


def found(root: Path) -> list[Foreign]:
    """The kernels of the checkouts in a folder. Raises UserError if it holds none."""
    made: list[Foreign] = []
    for folder in (root, *sorted(one for one in root.iterdir() if one.is_dir())):
        made += [Foreign(*one) for one in foreign_golds.found(folder)]
        if (folder / "src/liger_kernel").is_dir():
            liger = published_liger.found(folder, modules=False)
            made += [Foreign(name, "bf16", reference, code) for name, reference, code in liger]
    if not made:
        raise UserError(
            f"{root}: no checkout of TritonBench or Liger-Kernel; give the folder that holds them"
        )
    return made


@dataclass
class Budget:
    """Judges at most `limit` distinct kernels for one task."""

    pool: Verifier
    task: Task
    limit: int
    known: dict[str, Variant] = field(default_factory=dict)

    def judge(self, asked: Sequence[Candidate]) -> list[Variant]:
        """The kernels that fit into the budget, with their verdicts; those judged before cost nothing."""
        new = {one.code: one for one in asked if one.code and one.code not in self.known}
        new = dict(list(new.items())[: self.limit - len(self.known)])
        futures = {
            code: (one, self.pool.submit(self.task, in_module(self.task, one))) for code, one in new.items()
        }
        for code, (one, future) in futures.items():
            self.known[code] = Variant(one, await_verdict(future, self.task, one))
        return [self.known[one.code] for one in asked if one.code in self.known]

    def verdicts(self, codes: Sequence[str]) -> list[Verdict | None]:
        """The same for a rung: None for what does not fit."""
        judged = {one.candidate.code: one.verdict for one in self.judge([Candidate(code=c) for c in codes])}
        return [judged.get(code) for code in codes]

    @property
    def right(self) -> list[Variant]:
        """The verified kernels with a time, the fastest first."""
        found = [one for one in self.known.values() if one.verdict.correct and one.verdict.timing]
        return sorted(found, key=milliseconds)


def by_numbers(first: Variant, budget: Budget) -> str:
    tune(first, budget.judge)
    return "" if budget.known else "no number that can be changed"


def by_tune(first: Variant, budget: Budget, target: str) -> str:
    """Returns why nothing was judged; "" if something was."""
    task = budget.task
    graph = Graph.model_validate_json(task.graph)
    best = Answer(graph=graph.digest, rung="user", code=first.candidate.code, verdict=first.verdict)
    try:
        TuneRung(target).climb(Climb(graph, task, best, budget.verdicts, math.inf))
    except CannotWrite as why:
        return one_line(why)
    return "" if budget.known else "no schedule fits the graph"


def by_midend(first: Variant, budget: Budget, policy: Policy, target: str) -> str:
    """Returns why nothing was judged; "" if something was."""
    graph = Graph.model_validate_json(budget.task.graph)
    said = 0
    for turn in range(1, TURNS + 1):
        best = sorted([first, *budget.right], key=milliseconds)[:2]
        asked = [shown(budget.task, graph, kernel) for kernel in best]
        if turn == 1 and (plan := nearest_plan(graph, first, target)):
            asked.append(shown(budget.task, graph, first, plan))
        asked = [one for one in asked if fitting(policy)(one)]
        if not asked:
            return "its prompt leaves no room for a plan" if not said else ""
        share = budget.limit * turn // TURNS - len(budget.known)
        each = -(-SAMPLES * share // len(asked))
        with (quiet_gpu(budget.pool) or nullcontext)():
            answers = policy.generate(asked, each, temperature=1.0, top_p=1.0, seed=turn)
        plans = [_plan(policy, budget.task, one) for nth in zip(*answers, strict=True) for one in nth]
        said += len(plans)
        new = {one.code: one for one in plans if one.code not in budget.known and one.problem is None}
        budget.judge(list(new.values())[:share])
    return "" if budget.known else f"none of {said} answers is a plan of the graph"


def _plan(policy: Policy, task: Task, completion: Any) -> Candidate:
    completion = until_plan(completion, policy.pieces(completion) or ())
    return with_print(task, candidates.parse(completion.text, None, completion.finish_reason))


def nearest_plan(graph: Graph, kernel: Variant, target: str) -> str:
    """The plan of the library's first schedule with as many warps as the kernel was launched with, to stand for code that has no
    plan: the shipped mid-end has seen only plans. Any number of warps if none agrees; "" if no nest fits the graph."""
    try:
        schedules = schedules_of(graph, target)
    except Unsupported:
        return ""
    warps = {launch.num_warps for launch in kernel.verdict.evidence.launches}
    schedules.sort(key=lambda one: one.warps not in warps)
    return print_plan(label_of(graph), schedules[0]) if schedules else ""


def shown(task: Task, graph: Graph, kernel: Variant, plan: str = "") -> Prompt:
    """The mid-end's prompt about a kernel with its profile: `plan`, the kernel's own plan, or its Triton functions."""
    named = task.model_copy(update={"graph": by_place(graph).model_dump_json()})
    return prompts.render(
        "midend",
        named,
        style="compact",
        kernel=device_code(kernel.candidate.code),
        plan=plan or kernel.candidate.plan,
        profile=prompts.profile(kernel.verdict),
        max_tokens=PLAN_TOKENS,
        answer="plan",
    )


def device_code(code: str) -> str:
    """The Triton functions of a file, without comments and docstrings: a model of 2,304 tokens has no room for more."""
    kept = []
    for node in ast.parse(code).body:
        if isinstance(node, ast.FunctionDef) and any(
            "jit" in ast.unparse(one) for one in node.decorator_list
        ):
            node.body = node.body[ast.get_docstring(node) is not None :] or node.body
            kept.append(ast.unparse(node))
    return "\n\n".join(kept) or code


def measure(one: Foreign, pool: Verifier, given: argparse.Namespace, policy: Callable[[], Policy]) -> Row:
    """The row of a published kernel."""
    began = time.monotonic()
    row: Row = {"name": one.name, "precision": one.precision}
    try:
        task, code = one.posed()
        first = judge_again(pool, task, Candidate(code=code))
    except (UserError, CannotWrite) as error:
        return row | {"outcome": "not posed", "detail": one_line(error)}
    verdict = first.verdict
    row |= {"outcome": verdict.outcome.value, "detail": one_line(verdict.detail)[:300], "ways": {}}
    if not verdict.correct or verdict.timing is None:
        return row | {"seconds": round(time.monotonic() - began, 1)}
    asked: dict[str, Callable[[Budget], str]] = {
        "numbers": lambda budget: by_numbers(first, budget),
        "tune": lambda budget: by_tune(first, budget, given.target),
        "mid-end": lambda budget: by_midend(first, budget, policy(), given.target),
    }
    budgets = {way: Budget(pool, task, given.judged) for way in (WAYS if given.midend else WAYS[:2])}
    with ThreadPoolExecutor(len(budgets)) as threads:
        told = {way: threads.submit(asked[way], budget) for way, budget in budgets.items()}
        row["ways"] = {way: said_of(budget, told[way].result()) for way, budget in budgets.items()}
    best = {way: budget.right[0].candidate for way, budget in budgets.items() if budget.right}
    last = Budget(pool, task, 1 + len(best))
    last.judge([first.candidate, *best.values()])
    row["published"] = numbers(last.known[code])
    for way, kernel in best.items():
        row["ways"][way] |= {"plan": kernel.plan, "again": numbers(last.known[kernel.code])}
    return row | {"seconds": round(time.monotonic() - began, 1)}


def said_of(budget: Budget, why: str) -> Row:
    """What a way had judged, as JSON; `why`: the reason for what it did not."""
    outcomes = Counter(each.verdict.outcome.value for each in budget.known.values())
    times = [round(milliseconds(each), 6) for each in budget.right]
    return {"judged": len(budget.known), "outcomes": outcomes, "ms": times, "why": why}


def judge_again(pool: Verifier, task: Task, one: Candidate) -> Variant:
    return Variant(one, await_verdict(pool.submit(task, in_module(task, one)), task, one))


def numbers(one: Variant) -> Row | None:
    """The timing as JSON; None if the kernel was refused this time."""
    timing = one.verdict.timing
    return timing.model_dump(mode="json") if one.verdict.correct and timing else None


# -- the table ------------------------------------------------------------------------------------------------------


def won(new: Row | None, old: Row | None) -> bool:
    """Whether `new` takes at most 95 % of the time of `old`, with separated intervals."""
    if new is None or old is None:
        return False
    a, b = Timing.model_validate(new), Timing.model_validate(old)
    return a.candidate_ms <= (1 - LEAST_GAIN) * b.candidate_ms and faster(a, b)


def table(rows: Sequence[Row]) -> str:
    """A line for each kernel, then the counts with exact 95 % intervals."""
    lines = ["| kernel | us | " + " | ".join(WAYS) + " | torch.compile |", "|---" * (len(WAYS) + 3) + "|"]
    right = [row for row in rows if row.get("published")]
    for row in sorted(rows, key=lambda one: one["name"]):
        if row not in right:
            lines.append(
                f"| {row['name']} | {row['outcome']}: {row['detail'][:90]} |" + " |" * (len(WAYS) + 1)
            )
            continue
        cells = [_times(row, again(row, way)) + (" *" if _won(row, way) else "") for way in WAYS]
        compiled = row["published"]["baseline_ms"].get("compile")
        cells.append("-" if compiled is None else f"{row['published']['candidate_ms'] / compiled:.2f}")
        lines.append(
            f"| {row['name']} | {1e3 * row['published']['candidate_ms']:.4g} | {' | '.join(cells)} |"
        )
    lines.append("\nTimes as fast as the published kernel; *: at least 5 % faster, with separated intervals.")
    lines.append(
        f"{len(right)} of {len(rows)} published kernels were judged right. Made at least 5 % faster:"
    )
    lines += [f"- by {way}: {summary(right, way)}" for way in WAYS]
    either = sum(any(_won(row, way) for way in WAYS) for row in right)
    lines.append(f"- by any: {_share(either, len(right))}")
    lines += list(_beside_compile(right))
    return "\n".join(lines)


def again(row: Row, way: str) -> Row | None:
    return row["ways"].get(way, {}).get("again")


def _won(row: Row, way: str) -> bool:
    return won(again(row, way), row["published"])


def _times(row: Row, new: Row | None) -> str:
    return "-" if new is None else f"{row['published']['candidate_ms'] / new['candidate_ms']:.2f}"


def summary(right: Sequence[Row], way: str) -> str:
    """Count, and geometric mean of what is handed on (the published kernel where nothing won)."""
    gains = [
        row["published"]["candidate_ms"] / again(row, way)["candidate_ms"] if _won(row, way) else 1.0  # type: ignore[index]
        for row in right
    ]
    count = sum(_won(row, way) for row in right)
    judged = sum(row["ways"].get(way, {}).get("judged", 0) for row in right)
    mean = f", handed on {geometric_mean(gains):.2f}x" if gains else ""
    return f"{_share(count, len(right))}{mean}; {judged} kernels judged"


def _share(good: int, count: int) -> str:
    if not count:
        return "0 of 0"
    low, high = exact(good, count)
    return f"{good} of {count} [{100 * low:.0f} %, {100 * high:.0f} %]"


def _beside_compile(right: Sequence[Row]) -> Iterator[str]:
    """How many are as fast as torch.compile, as published and as handed on by each way."""
    timed = [row for row in right if "compile" in row["published"]["baseline_ms"]]
    if not timed:
        return
    for way in ("published", *WAYS):
        ratios = []
        for row in timed:
            new = again(row, way) if way != "published" and _won(row, way) else row["published"]
            assert new is not None
            ratios.append(row["published"]["baseline_ms"]["compile"] / new["candidate_ms"])
        ahead = sum(ratio >= 1 / (1 - LEAST_GAIN) for ratio in ratios)
        yield f"- {way} over torch.compile: {geometric_mean(ratios):.2f}x, 5 % ahead in {ahead} of {len(ratios)}"


# -- the command ----------------------------------------------------------------------------------------------------


def read_rows(out: Path) -> list[Row]:
    """The last row of each kernel."""
    path = out / "rows.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    return list({row["name"]: row for row in rows}.values())


def run(given: argparse.Namespace) -> None:
    """Append the missing rows of this process's share."""
    began, longest = time.monotonic(), 0.0
    place, of = (int(part) for part in given.only.split("/"))
    done = {row["name"] for row in read_rows(given.out) if row["outcome"] != Outcome.INFRASTRUCTURE_ERROR}
    chosen = [one for one in found(given.folder)[place - 1 :: of] if given.name in one.name]
    loaded: list[Policy] = []
    with VerifierPool(given.workers, given.backend, target=given.target, deadline_s=given.deadline) as pool:

        def policy() -> Policy:
            if not loaded:
                loaded.append(load_policy(given.midend))
            return loaded[0]

        for one in chosen:
            if one.name in done:
                continue
            if time.monotonic() - began + longest > given.seconds:
                print(f"time is up before {one.name}: run the command again", flush=True)
                break
            row = measure(one, pool, given, policy)
            longest = max(longest, row.get("seconds", 0.0))
            with (given.out / "rows.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            best = {way: _times(row, again(row, way)) for way in row.get("ways", {})}
            print(row["name"], row["outcome"], row.get("seconds"), best or row["detail"], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="of the checkouts, or `report`")
    parser.add_argument("out", type=Path)
    parser.add_argument("--midend", default="default", help='a policy; "" leaves the mid-end out')
    parser.add_argument("--judged", type=int, default=16, help="kernels that each way may have judged")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="no kernel is begun that would end later"
    )
    parser.add_argument("--only", default="1/1", metavar="I/N", help="every N-th kernel, from the I-th")
    parser.add_argument("--name", default="", help="kernels whose name has this in it")
    parser.add_argument("--backend", default="auto", choices=("auto", "cuda", "interpret"))
    parser.add_argument("--target", default="h100")
    parser.add_argument("--workers", type=int, default=max(1, cores() - 4))
    parser.add_argument("--deadline", type=float, default=60.0, help="seconds for one verdict")
    given = parser.parse_args()
    if str(given.folder) != "report":
        given.out.mkdir(parents=True, exist_ok=True)
        try:
            run(given)
        except UserError as error:
            sys.exit(str(error))
    print(table(read_rows(given.out)))


if __name__ == "__main__":
    main()
