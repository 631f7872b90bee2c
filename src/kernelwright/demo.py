"""The whole workflow on a laptop: kernels for three modules from the ladder; then data, training stages with an evaluation
after each, a kernel for an example from the ladder with the trained model, and a report.

    python -m kernelwright.demo --seed 0 [--recipe FILE] [--out DIR] [KEY=VALUE]...

Runs `recipes/laptop.toml` on two CPU cores, or another recipe. Finished parts are skipped, so the same command resumes after a
Ctrl-C. Every figure of the table is read from the run's files.
"""

from __future__ import annotations

import argparse
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.cli import guarded

if TYPE_CHECKING:
    from rich.console import Console

    from kernelwright.config import Recipe
    from kernelwright.runs import RunFolder

RECIPE, EXAMPLE = "recipes/laptop.toml", "examples/squared_relu.py"
FIRST = ("examples/linear_silu.py", "examples/rmsnorm_gelu.py", "examples/soft_targets.py")
SECONDS = 150.0
"""Most seconds of search per module; about fifteen are needed on two idle cores."""


def shipped(name: str) -> Path:
    """A file of `recipes/` or `examples/`: in the clone that contains this package, or where a wheel installed it."""
    from kernelwright.errors import UserError

    clone = Path(__file__).parents[2]
    for root in (clone, Path(sysconfig.get_path("data")) / "share" / "kernelwright"):
        if (root / name).is_file():
            return root / name
    raise UserError(f"{name} is not in {clone}; run the demo from a clone of the repository")


def run(path: Path, seed: int, out: Path, overrides: Sequence[str] = ()) -> int:
    """Run everything. Returns 0 when done, whether or not the example's kernel was verified: either is a result."""
    from kernelwright.cli import pipeline, show
    from kernelwright.config import load_recipe
    from kernelwright.report import build_report
    from kernelwright.runs import RunFolder

    recipe = load_recipe(path, [f"seed={seed}", *overrides])
    console = show.console()
    console.print(f"{path.name} with seed {seed}: {', '.join(recipe.stages)}; the run is in {out}")
    for example in FIRST:
        name = Path(example).stem
        work = RunFolder(out).sub("examples", name)
        with pipeline.note_seconds(RunFolder(out), f"examples/{name}"):
            search_example(recipe, example, work)
        show_example(example, work, console)
    folder = pipeline.run(recipe, out, resume=True)
    with pipeline.note_seconds(folder, "optimize"):
        search_example(recipe, EXAMPLE, folder.sub("optimize"), model=str(folder.path))
    folder.finish("optimize")
    page = build_report([folder.path], folder.file("report.html"))
    show_stages(recipe, folder, console)
    show_example(EXAMPLE, folder.sub("optimize"), console)
    console.print(f"\nreport {page}")
    return 0


def search_example(recipe: Recipe, example: str, work: RunFolder, model: str = "") -> None:
    """Search kernels for an example once, with the recipe's judge; search and result are saved in `work`."""
    from kernelwright.cli import optimize

    if work.done("optimize"):
        return
    judge = recipe.verify
    wanted = optimize.read_question(
        str(shipped(example)),
        seconds=SECONDS,
        target=judge.target,
        backend=judge.backend,
        protocol=judge.protocol,
        workers=judge.workers,
        rungs=("compiler", "library", *(["model"] if model else [])),
        model=model or "default",
    )
    found, _ = optimize.run(wanted, work)
    if found.answer is not None:
        optimize.write_result(wanted.case.text(found.answer), found.answer.verdict, work.file("kernel.py"))
    work.finish("optimize")


def show_example(example: str, work: RunFolder, console: Console) -> None:
    """Show an example's result from `work`."""
    from kernelwright.cli import show
    from kernelwright.records import Verdict
    from kernelwright.search.cache import Row

    known = work.read_json("found.json") or {}
    verdict = Verdict.model_validate(known["verdict"]) if known["verdict"] else None
    console.print(f"\n{example}", style="bold")
    console.print(show.groups([Row.model_validate(row) for row in known["rows"]], verdict))
    if verdict is None:
        console.print(f"{known['reason']}; every attempt is in {work.path}/rollouts.jsonl")
        return
    console.print(show.verdict(verdict))
    console.print(f"kernel {work.path}/kernel.py")


def show_stages(recipe: Recipe, folder: RunFolder, console: Console) -> None:
    """Show the table: one row per stage from its metrics.json; seconds include training and evaluation."""
    from kernelwright.cli import show

    spent = folder.read_json("seconds.json") or {}
    rows: list[tuple[str, dict[str, Any]]] = []
    seconds: dict[str, float] = {}
    for stage in recipe.stages:
        metrics = folder.sub("eval", stage).read_json("metrics.json")
        if metrics is not None:
            rows.append((stage, metrics))
            seconds[stage] = spent.get(stage, 0.0) + spent.get(f"eval/{stage}", 0.0)
    console.print()
    console.print(show.metrics(rows, seconds))
    console.print(show.gains(rows), style="dim", end="")
    console.print(show.segments(folder.lines("curves.jsonl")), style="dim", end="")
    console.print(
        "held-out tasks only; speedups over eager, correct samples only; seconds: "
        + ", ".join(f"{part} {seconds:.0f}" for part, seconds in spent.items())
        + f", all {sum(spent.values()):.0f}",
        style="dim",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line and run. Returns the exit code."""
    parser = argparse.ArgumentParser("python -m kernelwright.demo", description="The main job, end to end.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--recipe", type=Path, help=f"default: {RECIPE}")
    parser.add_argument("--out", type=Path, help="run folder (default: runs/demo-SEED)")
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="settings that win over the recipe's"
    )
    args = parser.parse_intermixed_args(argv)
    out = args.out or Path("runs") / f"demo-{args.seed}"

    def job() -> int:
        return run(args.recipe or shipped(RECIPE), args.seed, out, args.overrides)

    return guarded(job, "the same command goes on where this one was")


if __name__ == "__main__":
    sys.exit(main())
