"""The main job on a laptop: kernels for three modules by the package's own model, where its weights are installed; then
data, stages of training, an evaluation after each, a kernel for an example, a report.

    python -m kernelwright.demo --seed 0 [--recipe FILE] [--out DIR] [KEY=VALUE]...

Runs `recipes/laptop.toml` on two CPU cores, or another recipe. Whatever is done is passed over, so after a Ctrl-C the same command
goes on. Every figure of the table is read from the files of the run.
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
    from kernelwright.search import Found

RECIPE, EXAMPLE = "recipes/laptop.toml", "examples/squared_relu.py"
SAMPLES = 8
"""Kernels asked of an agent in a turn for the example."""
SECONDS = 40.0
"""Of search for the example."""
FIRST = ("examples/linear_silu.py", "examples/rmsnorm_gelu.py", "examples/soft_targets.py")
FIRST_SECONDS = 20.0
"""Of search for each of these."""


def shipped(name: str) -> Path:
    """A file of `recipes/` or `examples/`: in the clone that this package runs from, or where a wheel put it."""
    from kernelwright.errors import UserError

    clone = Path(__file__).parents[2]
    for root in (clone, Path(sysconfig.get_path("data")) / "share" / "kernelwright"):
        if (root / name).is_file():
            return root / name
    raise UserError(f"{name} is not in {clone}; run the demo from a clone of the repository")


def run(path: Path, seed: int, out: Path, overrides: Sequence[str] = ()) -> int:
    """The whole job; 0 when it is done, whether or not the example's kernel was verified: either is a result."""
    from kernelwright.cli import pipeline, show
    from kernelwright.config import load_recipe
    from kernelwright.report import build_report
    from kernelwright.runs import RunFolder

    recipe = load_recipe(path, [f"seed={seed}", *overrides])
    console = show.console()
    console.print(f"{path.name} with seed {seed}: {', '.join(recipe.stages)}; the run is in {out}")
    with_default(recipe, RunFolder(out), console)
    folder = pipeline.run(recipe, out, resume=True)
    with pipeline.timed(folder, "optimize"):
        found = optimized(recipe, folder)
    folder.finish("optimize")
    page = build_report([folder.path], folder.file("report.html"))
    show_stages(recipe, folder, console)
    show_example(EXAMPLE, found, folder.sub("optimize"), console)
    console.print(f"\nreport {page}")
    return 0


def with_default(recipe: Recipe, folder: RunFolder, console: Console) -> None:
    """Kernels for the modules of `FIRST` by the package's own model; the attempts are in RUN/examples."""
    from kernelwright.models import DEFAULT_FOLDER

    if not list(DEFAULT_FOLDER.glob("*.safetensors")):
        return
    for example in FIRST:
        work = folder.sub("examples", Path(example).stem)
        found = searched(recipe, example, "default", work, FIRST_SECONDS, max_tokens=1024)
        show_example(example, found, work, console)


def optimized(recipe: Recipe, folder: RunFolder) -> Found:
    """Ask the agents just trained for a kernel of the example; the attempts and the result are in RUN/optimize."""
    work = folder.sub("optimize")
    return searched(recipe, EXAMPLE, str(folder.path), work, SECONDS, recipe.eval.max_tokens)


def searched(
    recipe: Recipe, example: str, policy: str, work: RunFolder, seconds: float, max_tokens: int
) -> Found:
    """A kernel for an example, as the recipe judges; goes on where an earlier search stopped."""
    from kernelwright.cli import read, show
    from kernelwright.search import Settings, agents_of, optimize, write_result

    task, judge = read.one_task(str(shipped(example))), recipe.verify
    settings = Settings(
        samples=SAMPLES, target=judge.target, max_tokens=max_tokens, seed=recipe.seed, seconds=seconds
    )
    with show.Live() as live:
        found = optimize(
            task,
            agents_of(policy),
            work,
            lambda: read.judge(task, judge.backend, judge.protocol, judge.target, judge.workers),
            settings,
            watch=live,
            resume=True,
        )
    if found.best is not None:
        write_result(found.best, work.file("kernel.py"))
    return found


def show_stages(recipe: Recipe, folder: RunFolder, console: Console) -> None:
    """The table: one row a stage, from its metrics.json; seconds are training and evaluation together."""
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
        f"held-out tasks only; speedups over eager, correct samples only; data {spent.get('data', 0.0):.0f} s, "
        f"all {sum(spent.values()):.0f} s",
        style="dim",
    )


def show_example(example: str, found: Found, work: RunFolder, console: Console) -> None:
    """What came out for an example, with its verdict."""
    from kernelwright.cli import show

    console.print(f"\n{example}, {SAMPLES} samples a turn", style="bold")
    console.print(show.turns(found.turns))
    if found.best is None:
        show.unsolved(console, found)
        console.print(f"every attempt is in {work.path}/rollouts.jsonl")
        return
    console.print(show.verdict(found.best.verdict))
    console.print(f"kernel {work.path}/kernel.py")


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line and run. Returns the exit code."""
    parser = argparse.ArgumentParser("python -m kernelwright.demo", description="The main job, end to end.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--recipe", type=Path, help=f"default: {RECIPE}")
    parser.add_argument("--out", type=Path, help="run folder (default: runs/demo-SEED)")
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="settings that win over the recipe's"
    )
    asked = parser.parse_intermixed_args(argv)
    out = asked.out or Path("runs") / f"demo-{asked.seed}"

    def job() -> int:
        return run(asked.recipe or shipped(RECIPE), asked.seed, out, asked.overrides)

    return guarded(job, "the same command goes on where this one was")


if __name__ == "__main__":
    sys.exit(main())
