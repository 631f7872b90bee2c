"""Kernels that each training stage hands on for held-out graphs, compared with the library's best known schedule on one clock.

    python benchmarks/handed_on.py OUT.jsonl EXAMPLES --sft CHECKPOINT --frontend CHECKPOINT --midend CHECKPOINT [--limit 120]
    python benchmarks/handed_on.py OUT.jsonl TASKS ... [--compiled]      # any tasks in function form, such as own_tasks.jsonl

EXAMPLES: pairs, whose held-out graphs are used, or tasks. SFT and front end write `--samples` kernels for each graph. SFT (a
second time) and mid-end are shown the front end's first correct kernel with its profile, and write `--samples` plans, which the
library prints. One process judges and times all kernels, equal ones once. OUT has a row per graph and writer; the table
is printed last. There a writer's kernel is its first correct sample; `handed on` is this or the kernel that was shown, whichever
is faster beyond the noise. Times are ratios over graphs on which both are correct, with 95 % intervals (bootstrap over graphs). Uses
a GPU if there is one (`--backend interpret` for a rehearsal: modelled times).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright import prompts
from kernelwright.graph.types import Graph
from kernelwright.metrics import bootstrap_interval, geometric_mean, geometric_mean_interval, mean
from kernelwright.outcomes import Outcome
from kernelwright.policy import load_policy
from kernelwright.records import Candidate, Prompt, Task, Verdict, read_jsonl, read_supervised
from kernelwright.rollouts import Judge, Rolling, await_verdict, faster
from kernelwright.synth.library import program_of
from kernelwright.synth.plan import print_plan
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.to_triton import label_of, print_triton
from kernelwright.verify import VerifierPool

Said = tuple[Candidate, Verdict]
TOKENS, PLAN_TOKENS = 1600, 128


def tasks_in(path: Path, limit: int) -> list[Task]:
    """The held-out graphs of pairs, or all tasks of a file of tasks."""
    first = json.loads(path.open().readline())
    if "task" not in first:
        return [task for task in read_jsonl(path, Task) if task.graph][:limit]
    found = {one.task.digest: one.task for one in read_supervised(path) if one.split == "heldout"}
    return list(found.values())[:limit]


def by_library(tasks: Sequence[Task], judge: Judge, target: str) -> list[list[Said]]:
    """The library's best known schedule of each graph, empty if it has none, judged."""
    pending: list[tuple[Candidate, Any] | None] = []
    for task in tasks:
        graph = Graph.model_validate_json(task.graph)
        program = program_of(graph, target, task.precision)
        try:
            code = print_triton(program) if program else ""
        except Unsupported:
            code = ""
        if program is None or not code:
            pending.append(None)
            continue
        candidate = Candidate(code=code, plan=print_plan(label_of(graph), program.schedule))
        pending.append((candidate, judge.submit(task, candidate)))
    return [
        [] if one is None else [(one[0], await_verdict(one[1], task, one[0]))]
        for one, task in zip(pending, tasks, strict=True)
    ]


def by_model(
    spec: str, prompts: Sequence[Prompt], tasks: Sequence[Task], judge: Judge, n: int
) -> list[list[Said]]:
    """A checkpoint's completions of each prompt, judged."""
    if not prompts:
        return []
    policy = load_policy(spec)
    rolling = Rolling(policy, prompts, tasks, judge, reward="autotriton", stage="eval", step=0)
    rolling.generate(n, temperature=1.0, top_p=1.0, seed=0)
    return [[(one.candidate, one.verdict) for one in group] for group in rolling.collect()]


def first_right(answers: Sequence[Said]) -> Said | None:
    return next((one for one in answers if one[1].correct and one[1].timing is not None), None)


def shown(task: Task, given: Said) -> Prompt:
    """The mid-end's prompt about a kernel."""
    return prompts.render(
        "midend",
        task,
        style="compact",
        kernel=given[0].code,
        plan=given[0].plan,
        profile=prompts.profile(given[1]),
        max_tokens=PLAN_TOKENS,
        answer="plan",
    )


def ms(answer: Said | None) -> float | None:
    return None if answer is None or answer[1].timing is None else answer[1].timing.candidate_ms


def better(given: Said | None, made: Said | None) -> Said | None:
    """The new kernel if it is faster beyond the noise, else the given one."""
    if given is None or made is None:
        return given
    return made if faster(made[1].timing, given[1].timing) else given


def over(ours: Sequence[Said | None], theirs: Sequence[Said | None]) -> str:
    """Ratio of their times to ours."""
    both = [
        (b / a,)
        for a, b in zip(map(ms, ours), map(ms, theirs), strict=True)
        if a is not None and b is not None
    ]
    if not both:
        return "-"
    low, high = geometric_mean_interval(both)
    return f"{geometric_mean([one[0] for one in both]):.3f} [{low:.3f}, {high:.3f}] ({len(both)})"


def over_baseline(ours: Sequence[Said | None], name: str) -> str:
    found = [
        (one[1].timing.speedup(name),)
        for one in ours
        if one is not None and one[1].timing is not None and name in one[1].timing.baseline_ms
    ]
    if not found:
        return "-"
    low, high = geometric_mean_interval(found)
    return f"{geometric_mean([one[0] for one in found]):.2f} [{low:.2f}, {high:.2f}]"


def share(answers: Sequence[Sequence[Said]], of: int) -> str:
    """Share of graphs that are right at one sample (mean over samples), or in one of `of`."""
    each = [
        mean([float(one[1].correct) for one in group]) if of == 1 else float(any(v.correct for _, v in group))
        for group in answers
        if group
    ]
    if not each:
        return "-"
    low, high = bootstrap_interval(each, mean)
    return f"{100 * mean(each):.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def table(all_said: dict[str, list[list[Said]]], handed: dict[str, list[Said | None]], samples: int) -> str:
    """The table in Markdown."""
    library, sft = handed["library"], handed.get("sft", handed["library"])
    lines = [
        f"| | right at one, % | one of {samples}, % | over the library's best known | over SFT's | over eager | over compile |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, kept in handed.items():
        answers = all_said.get(name, [])
        cells = [share(answers, 1), share(answers, samples)] if answers else ["", ""]
        cells += [over(kept, library), over(kept, sft)]
        cells += [over_baseline(kept, "eager"), over_baseline(kept, "compile")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("tasks", type=Path)
    for name in ("sft", "frontend", "midend"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--limit", type=int, default=120)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--workers", type=int, default=28)
    parser.add_argument("--backend", default="auto", choices=("auto", "cuda", "interpret"))
    parser.add_argument("--target", default="h100")
    parser.add_argument("--compiled", action="store_true", help="clock torch.compile as well, once a graph")
    args = parser.parse_args()
    tasks, began = tasks_in(args.tasks, args.limit), time.monotonic()
    answers: dict[str, list[list[Said]]] = {}
    args.out.write_text("")

    def keep(name: str, groups: list[list[Said]]) -> None:
        answers[name] = groups
        with args.out.open("a") as file:
            for task, group in zip(tasks, groups, strict=True):
                kernels = [
                    {"plan": c.plan, "outcome": v.outcome.value, "ms": ms((c, v)), "detail": v.detail[:200]}
                    for c, v in group
                ]
                file.write(json.dumps({"writer": name, "task": task.id, "kernels": kernels}) + "\n")
        failed = sum(v.outcome is Outcome.INFRASTRUCTURE_ERROR for group in groups for _, v in group)
        print(f"{name}: {time.monotonic() - began:.0f} s, {failed} not judged", flush=True)

    first: list[Said | None] = []

    def ask(judge: Judge) -> None:
        keep("library", by_library(tasks, judge, args.target))
        asked = [prompts.render("frontend", task, style="compact", max_tokens=TOKENS) for task in tasks]
        for name in ("sft", "frontend"):
            if getattr(args, name):
                keep(name, by_model(getattr(args, name), asked, tasks, judge, args.samples))
        start = answers.get("frontend", answers.get("sft", answers["library"]))
        first.extend(first_right(group) for group in start)
        asks = [(i, shown(tasks[i], one)) for i, one in enumerate(first) if one is not None]
        for name, spec in (("mid-end", args.midend), ("sft as mid-end", args.sft)):
            if spec:
                made = by_model(
                    spec, [one for _, one in asks], [tasks[i] for i, _ in asks], judge, args.samples
                )
                places = {i: group for (i, _), group in zip(asks, made, strict=True)}
                keep(name, [places.get(i, []) for i in range(len(tasks))])

    judged = 0
    try:
        with VerifierPool(
            args.workers, args.backend, target=args.target, compiled=args.compiled, timing_precision=0.02
        ) as pool:
            judge = Judge(pool, limit=1 << 16)
            try:
                ask(judge)
            finally:
                judged = judge.judged
    except KeyboardInterrupt:
        print("stopped: what is there is in the table", flush=True)
    handed = {name: [first_right(group) for group in groups] for name, groups in answers.items()}
    for name in ("sft as mid-end", "mid-end"):
        if name in answers:
            handed[f"{name}, handed on"] = [
                better(old, first_right(group[:1])) for old, group in zip(first, answers[name], strict=True)
            ]
            handed[f"{name}, best of {args.samples}"] = [
                _best(old, group) for old, group in zip(first, answers[name], strict=True)
            ]
    if "library" not in answers:
        return
    print(f"{len(tasks)} graphs, {judged} kernels judged, {time.monotonic() - began:.0f} s")
    print(table(answers, handed, args.samples))
    if "mid-end" in answers and "sft as mid-end" in answers:
        a, b = "mid-end, handed on", "sft as mid-end, handed on"
        print(f"mid-end over SFT as mid-end, handed on: {over(handed[a], handed[b])}")


def _best(given: Said | None, group: Sequence[Said]) -> Said | None:
    for one in group:
        if one[1].correct and one[1].timing is not None:
            given = better(given, one)
    return given


if __name__ == "__main__":
    main()
