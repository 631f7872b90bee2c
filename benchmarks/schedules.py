"""Measures the library's schedules on a GPU, against eager, torch.compile and the vendors' kernels, in one run.

    python benchmarks/schedules.py OUT --seconds 480              # on a GPU; writes OUT/rows.jsonl as it goes, resumes
    python benchmarks/schedules.py OUT --tasks TASKS.jsonl --limit 16 --no-compile      # random graphs of `data make`, drawn schedules
    python benchmarks/schedules.py OUT --only block/ --seconds 190 --limit 6     # groups of backend.py's blocks, by rank
    python benchmarks/schedules.py OUT --given GIVEN.jsonl        # these plans: rows of problem and plan; with `code`, a kernel beside them
    python benchmarks/schedules.py OUT --dry-run                  # here: how many, and every nest compiled for sm_90
    python benchmarks/schedules.py OUT --table src/kernelwright/synth/best.json    # the best known schedules, from rows

Kernels compile in processes of their own (`--jobs`), one wave of problems at a time, and are measured while nothing else
runs: median of CUDA events around each call with L2 flushed before it. Each is first checked against fp64, with
eager PyTorch's error for comparison. Does not judge: accepted kernels go through the judge elsewhere.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import itertools
import json
import math
import multiprocessing
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import torch
from block_problems import all_problems
from nearby import nearby
from schedule_problems import Problem, problems_of

from kernelwright.hardware import cores
from kernelwright.synth.library import key_of, schedules_of
from kernelwright.synth.plan import parse_plan, print_plan
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.program import Program
from kernelwright.synth.ranking import rank_schedules
from kernelwright.synth.stages import nest_of
from kernelwright.synth.to_triton import label_of, print_triton, source_of

WAVE = 80
"""Kernels to compile before any of them is measured."""
LONGEST = 150.0
"""Seconds to wait for a wave's kernels."""
FINAL = 3
"""Schedules of a problem to measure again for longer."""
_FLUSH_BYTES = 256 * 2**20


# -- measuring ------------------------------------------------------------------------------------------------------


def median_ms(call: Callable[[], Any], budget_ms: float) -> float:
    """Median time of a call in ms, L2 flushed before each; as many calls as the budget permits, at least 5."""
    flush = torch.empty(_FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
    call()
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(3):
        flush.zero_()
        call()
    end.record()
    torch.cuda.synchronize()
    count = max(5, min(200, int(budget_ms / max(start.elapsed_time(end) / 3, 1e-3))))
    events = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)
    ]
    for first, last in events:
        flush.zero_()
        first.record()
        call()
        last.record()
    torch.cuda.synchronize()
    return statistics.median(first.elapsed_time(last) for first, last in events)


def draw(problem: Problem, seed: int = 0) -> dict[str, torch.Tensor]:
    """Arguments on the GPU: drawn as in the task, else normal floats, small weights, indices within their tables."""
    graph = problem.graph
    if problem.source:
        names: dict[str, Any] = {}
        torch.manual_seed(seed)
        exec(problem.source, names)  # printed by the generator
        values = [one.cuda() if isinstance(one, torch.Tensor) else one for one in names["get_inputs"]()]
        return {one.name: value for one, value in zip(graph.arguments, values, strict=True)}
    generator = torch.Generator("cuda").manual_seed(seed)
    values = {}
    for argument in graph.arguments:
        dtype, shape = getattr(torch, argument.type.dtype), tuple(argument.type.shape)  # type: ignore[union-attr]
        if dtype.is_floating_point:
            value = torch.randn(shape, generator=generator, device="cuda", dtype=torch.float32)
            if argument.role == "weight" and len(shape) > 1:
                value /= math.sqrt(math.prod(shape[1:]))
            if argument.name in problem.positive:
                value = value.abs() + 0.1
            values[argument.name] = value.to(dtype)
        elif dtype == torch.bool:
            values[argument.name] = torch.rand(shape, generator=generator, device="cuda") < 0.8
        else:
            values[argument.name] = torch.randint(0, 100, shape, generator=generator, device="cuda").to(dtype)
    return values


def error_of(got: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...]) -> float:
    """Largest absolute error over the reference's root mean square; infinite for a different shape or a NaN."""
    worst = 0.0
    for ours, theirs in zip(got, expected, strict=True):
        if ours.shape != theirs.shape:
            return math.inf
        scale = theirs.double().square().mean().sqrt().clamp_min(1e-30)
        gap = ((ours.double() - theirs.double()).abs().max() / scale).item()
        worst = max(worst, gap if math.isfinite(gap) else math.inf)
    return worst


def load(path: Path) -> Any:
    """Import the module in a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compile_one(path: str, arguments: list[tuple[tuple[int, ...], str]]) -> str:
    """In a process of its own: compile a kernel by calling it once. Returns the error, or an empty string."""
    tensors = []
    for shape, dtype in arguments:
        kind = getattr(torch, dtype)
        tensors.append(torch.zeros(shape, dtype=kind, device="cuda"))
    try:
        load(Path(path)).kernel(*tensors)
        torch.cuda.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        del tensors
        torch.cuda.empty_cache()
    return ""


# -- one problem ----------------------------------------------------------------------------------------------------


class Attempt:
    """One schedule of one problem, or without a schedule a kernel that is measured beside them."""

    def __init__(self, problem: Problem, schedule: Any, folder: Path, plan: str = "", code: str = "") -> None:
        self.problem, self.schedule = problem, schedule
        self.plan = plan or print_plan(label_of(problem.graph), schedule)
        self.code = code or print_triton(Program(graph=problem.graph, schedule=schedule))
        name = hashlib.sha256(self.code.encode()).hexdigest()[:16]
        self.path = folder / f"k{name}.py"
        self.fault = ""

    @property
    def row(self) -> dict[str, Any]:
        """What its rows begin with."""
        own = {"problem": self.problem.name, "plan": self.plan}
        return own if self.schedule is None else own | {"schedule": self.schedule.model_dump()}


def attempts(problem: Problem, folder: Path, limit: int, near: bool = False) -> list[Attempt]:
    """Every printable schedule, the best known first; for groups of modules then in the order of a search. `near`: then
    schedules a few decisions away from these."""
    found: list[Attempt] = []
    seen: set[Path] = set()
    order = schedules_of(problem.graph, precision=problem.precision)
    ranked = problem.name.startswith(("block/", "field/"))
    if problem.source and not ranked:  # a sample that includes the best known
        order = order[:1] + random.Random(problem.name).sample(order[1:], len(order) - 1)
    if ranked and order:
        order = [*order[:1], *(one for one in rank_schedules(problem.graph, order) if one != order[0])]
    for schedule in itertools.chain(order, nearby(order, problem.name) if near and order else ()):
        if len(found) == limit:
            break
        try:
            one = Attempt(problem, schedule, folder)
        except (Unsupported, ValueError):
            continue
        if one.path not in seen:
            seen.add(one.path)
            found.append(one)
    return found


def attempts_given(problem: Problem, rows: list[dict[str, str]], folder: Path) -> list[Attempt]:
    """The rows of `--given` that are about a problem. Raises UserError for a line that is no plan."""
    found = []
    for row in rows:
        if row["problem"] == problem.name:
            schedule = None if "code" in row else parse_plan(row["plan"])[1]
            found.append(Attempt(problem, schedule, folder, row["plan"], row.get("code", "")))
    return found


class Bench:
    """A run: existing rows, the deadline, and the file for new rows."""

    def __init__(self, out: Path, seconds: float, compiled: bool = True) -> None:
        self.compiled = compiled
        self.out, self.deadline = out, time.monotonic() + seconds
        self.rows_path = out / "rows.jsonl"
        self.rows: list[dict[str, Any]] = []
        if self.rows_path.exists():
            lines = self.rows_path.read_text("utf-8").splitlines()
            self.rows = [json.loads(line) for line in lines if line.endswith("}")]
        self.done = {(row["problem"], row["plan"]) for row in self.rows if "ms" in row or row.get("fault")}

    def seconds_left(self) -> float:
        return self.deadline - time.monotonic()

    def write(self, **row: Any) -> None:
        """Append one row and flush."""
        row["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
        self.rows.append(row)
        with self.rows_path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")

    def measure(self, problem: Problem, tried: list[Attempt]) -> None:
        """Measure baselines, every schedule briefly, and the best ones again for longer."""
        from kernelwright.graph.execute import execute

        torch.backends.cuda.matmul.allow_tf32 = problem.precision == "tf32"
        values = draw(problem)
        expected = execute(problem.graph, values, fp64=True)
        expected = tuple(one.float() if one.dtype == torch.float64 else one for one in expected)
        eager_error = self.baselines(problem, values, expected)
        times: list[tuple[float, Attempt, Any]] = []
        for one in tried:
            if self.seconds_left() < 5:
                return
            ms = self.attempt(one, values, expected, eager_error, 20.0)
            if ms is not None:
                times.append((ms[0], one, ms[1]))
        key = key_of(source_of(problem.graph), nest_of(source_of(problem.graph)))
        times.sort(key=lambda item: item[0])
        for _, one, kernel in (*times[:FINAL], *(late for late in times[FINAL:] if late[1].schedule is None)):
            ms_long = median_ms(lambda kernel=kernel: kernel(*values.values()), 100.0)
            self.write(**one.row, ms=ms_long, final=True, key=key)
        self.summary(problem)

    def attempt(self, one: Attempt, values: dict[str, torch.Tensor], expected: Any, eager_error: float,
                budget: float) -> tuple[float, Any] | None:  # fmt: skip
        """(ms, kernel) of a correct schedule; else None, after writing a row with the fault."""
        base = one.row
        if one.fault:
            self.write(**base, fault=one.fault)
            return None
        try:
            kernel = load(one.path).kernel
            got = kernel(*values.values())
            error = error_of(got if isinstance(got, tuple) else (got,), expected)
            if not error <= 3 * eager_error + 1e-5:
                self.write(**base, fault=f"wrong: {error:.2g}, eager {eager_error:.2g}")
                return None
            ms = median_ms(lambda: kernel(*values.values()), budget)
        except Exception as error:
            self.write(**base, fault=f"{type(error).__name__}: {str(error)[:300]}")
            if "illegal" in str(error) or "launch failure" in str(error):
                raise SystemExit(
                    f"the GPU's context is lost after {one.plan}: run again to resume"
                ) from error
            return None
        self.write(**base, ms=ms, error=error)
        return ms, kernel

    def baselines(self, problem: Problem, values: dict[str, torch.Tensor], expected: Any) -> float:
        """Write rows for eager, torch.compile and a vendor's best; returns the error of eager."""
        from kernelwright.graph.fx import to_fx

        module = to_fx(problem.graph, device="cuda")
        got = module(*values.values())
        error = error_of(got, expected)
        calls: dict[str, Callable[[], Any]] = {"eager": lambda: module(*values.values())}
        if problem.vendor is not None:
            vendor = problem.vendor(values)
            calls["vendor"] = vendor
        for name, call in calls.items():
            self.write(
                problem=problem.name, plan=name, ms=median_ms(call, 50.0), error=error, bytes=problem.bytes
            )
        if self.seconds_left() > 30 and self.compiled:
            torch._dynamo.reset()
            try:
                compiled = torch.compile(module)
                self.write(
                    problem=problem.name,
                    plan="compile",
                    ms=median_ms(lambda: compiled(*values.values()), 50.0),
                )
            except Exception as error_:
                self.write(
                    problem=problem.name,
                    plan="compile",
                    fault=f"{type(error_).__name__}: {str(error_)[:200]}",
                )
        return error

    def summary(self, problem: Problem) -> None:
        """Print one line."""
        own = [row for row in self.rows if row["problem"] == problem.name and "ms" in row]
        base = {row["plan"]: row["ms"] for row in own if "schedule" not in row}
        ours = [row for row in own if "schedule" in row]
        ours = [row for row in ours if row.get("final")] or ours
        wrong = sum(1 for row in self.rows if row["problem"] == problem.name and row.get("fault"))
        if not ours:
            print(f"{problem.name}: nothing ran ({wrong} faults) {base}", flush=True)
            return
        best = min(ours, key=lambda row: row["ms"])
        ratios = "  ".join(f"{name} {ms:.4f} ({ms / best['ms']:.2f}x)" for name, ms in base.items())
        gbs = problem.bytes / best["ms"] / 1e6
        print(
            f"{problem.name}: {best['ms']:.4f} ms  {ratios}  {gbs:.0f} GB/s  {wrong} faults\n    {best['plan']}",
            flush=True,
        )


# -- runs -----------------------------------------------------------------------------------------------------------


def waves(
    chosen: list[Problem], bench: Bench, choose: Callable[[Problem], list[Attempt]]
) -> Iterator[list[tuple[Problem, list[Attempt]]]]:
    """Problems with their untried schedules, as `choose` finds them, in portions that compile together."""
    wave: list[tuple[Problem, list[Attempt]]] = []
    for problem in chosen:
        if any(row["problem"] == problem.name and row.get("final") for row in bench.rows):
            continue
        tried = [one for one in choose(problem) if (problem.name, one.plan) not in bench.done]
        if tried:
            wave.append((problem, tried))
        if sum(len(some) for _, some in wave) >= WAVE:
            yield wave
            wave = []
    if wave:
        yield wave


def run(
    chosen: list[Problem],
    out: Path,
    seconds: float,
    jobs: int,
    choose: Callable[[Problem, Path], list[Attempt]],
    compiled: bool = True,
) -> None:
    """Compile and measure until time is up."""
    bench, folder = Bench(out, seconds, compiled), out / "kernels"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TRITON_CACHE_DIR"] = str((out / "cache").resolve())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context)
    try:
        for wave in waves(chosen, bench, lambda problem: choose(problem, folder)):
            futures = {}
            for problem, tried in wave:
                shapes = [(tuple(one.type.shape), one.type.dtype) for one in problem.graph.arguments]  # type: ignore[union-attr]
                for one in tried:
                    one.path.write_text(one.code, "utf-8")
                    futures[one] = pool.submit(compile_one, str(one.path), shapes)
            until = time.monotonic() + min(bench.seconds_left(), LONGEST)
            for one, future in futures.items():
                try:
                    one.fault = future.result(timeout=max(until - time.monotonic(), 1))
                except TimeoutError:
                    one.fault = "not compiled in time"
                except BrokenProcessPool:
                    pool = ProcessPoolExecutor(jobs, mp_context=context)
                    one.fault = "its compiling process died"
            for problem, tried in wave:
                if bench.seconds_left() < 10:
                    return
                bench.measure(problem, [one for one in tried if one.fault != "not compiled in time"])
                torch.cuda.empty_cache()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def dry_run(
    chosen: list[Problem], choose: Callable[[Problem, Path], list[Attempt]], every: bool = False
) -> None:
    """Count schedules, and compile the first of every problem for sm_90 without a GPU; with `every`, all of them."""
    from modelled import rehearse

    total = 0
    for problem in chosen:
        tried = choose(problem, Path("."))
        total += len(tried)
        print(f"{problem.name}: {len(tried)} schedules", flush=True)
        for one in tried if every else tried[:1]:
            print(f"    {one.plan}\n        {rehearse(one.code, problem.graph)}", flush=True)
    print(f"{len(chosen)} problems, {total} schedules")


def table(out: Path, path: Path, arch: str) -> None:
    """Write the best known schedules: for each key the fastest among those measured for longer."""
    best: dict[str, dict[str, Any]] = {}
    for line in (out / "rows.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if (
            row.get("final")
            and "schedule" in row
            and row["ms"] < best.get(row["key"], {"ms": math.inf})["ms"]
        ):
            best[row["key"]] = row
    known: dict[str, Any] = json.loads(path.read_text("utf-8"))["schedules"] if path.exists() else {}
    for key, row in sorted(best.items()):
        known.setdefault(key, {})[arch] = row["schedule"]
    command = "python benchmarks/schedules.py OUT --limit 256 --near --seconds 540; python benchmarks/schedules.py OUT --table best.json"
    path.write_text(json.dumps({"command": command, "schedules": known}, indent=1) + "\n", "utf-8")
    print(f"{len(best)} keys -> {path}")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=480.0)
    parser.add_argument("--only", default="", help="a part of problems' names, several with commas")
    parser.add_argument("--jobs", type=int, default=max(1, cores() - 2))
    parser.add_argument("--limit", type=int, default=80, help="schedules a problem, at most")
    parser.add_argument(
        "--near", action="store_true", help="beyond the library's: schedules a few decisions away"
    )
    parser.add_argument(
        "--part", default="0/1", metavar="K/N", help="every Nth problem from the Kth, one process a GPU"
    )
    parser.add_argument("--tasks", type=Path, help="tasks in function form, instead of the problems here")
    parser.add_argument(
        "--no-compile", action="store_true", help="without torch.compile beside: seconds a problem"
    )
    parser.add_argument("--given", type=Path, help="rows of problem and plan, instead of the library's order")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--table", type=Path)
    parser.add_argument(
        "--arch", default="90", help="what the table is measured on, as hardware.toml names it"
    )
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    wanted = [part for part in given.only.split(",") if part]
    known = problems_of(given.tasks) if given.tasks else all_problems()
    chosen = [one for one in known if not wanted or any(part in one.name for part in wanted)]
    part, parts = map(int, given.part.split("/"))
    chosen = [one for one in chosen if fits(one)][part::parts]
    rows = [json.loads(line) for line in given.given.read_text("utf-8").splitlines()] if given.given else []
    if rows:
        by_name = {one.name: one for one in chosen}
        chosen = [by_name[name] for name in dict.fromkeys(row["problem"] for row in rows) if name in by_name]

    def choose(problem: Problem, folder: Path) -> list[Attempt]:
        if rows:
            return attempts_given(problem, rows, folder)
        return attempts(problem, folder, given.limit, given.near)

    if given.table is not None:
        table(given.out, given.table, given.arch)
    elif given.dry_run:
        dry_run(chosen, choose, bool(rows))
    elif not torch.cuda.is_available():
        sys.exit("no GPU here: use --dry-run to rehearse")
    else:
        run(chosen, given.out, given.seconds, given.jobs, choose, not given.no_compile)


def fits(problem: Problem) -> bool:
    """Whether the library has a nest for it; prints why if not."""
    try:
        nest_of(source_of(problem.graph))
    except Unsupported as error:
        print(f"{problem.name}: left out, {error}", file=sys.stderr)
        return False
    return True


if __name__ == "__main__":
    main()
