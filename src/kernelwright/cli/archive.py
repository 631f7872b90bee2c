"""`kernelwright archive`: all judged kernels in one file, which machines can exchange.

add -> entries from runs' logs    merge -> several archives in one    show -> contents of an archive
pairs -> examples for the next round of training    table -> the library's best known schedules
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from kernelwright.archive import Archive

app = typer.Typer(
    no_args_is_help=True, help="Judged kernels by graph: merge them, train on them, update the library."
)
File = Annotated[Path, typer.Argument(metavar="ARCHIVE", help="A JSONL file of judged kernels.")]


@app.command()
def add(
    file: File, runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders.")]
) -> int:
    """Add the judged kernels in runs' logs."""
    from kernelwright.archive import Archive, entries_of
    from kernelwright.config import Recipe
    from kernelwright.errors import UserError
    from kernelwright.records import Rollout, Task, read_jsonl, read_supervised
    from kernelwright.runs import RunFolder, read_json

    archive = Archive.read([file] if file.exists() else [])
    for path in runs:
        config = read_json(path / "config.json")
        if config is None:
            raise UserError(
                f"{path} is not a run: it has no config.json; name a folder that train or demo made"
            )
        recipe = Recipe.model_validate_json(json.dumps(config))
        tasks: dict[str, Task] = {}
        if recipe.tasks_in(path).exists():
            tasks |= {task.id: task for task in read_jsonl(recipe.tasks_in(path), Task)}
        if recipe.examples_in(path).exists():
            tasks |= {one.task.id: one.task for one in read_supervised(recipe.examples_in(path))}
        rows = RunFolder(path).rows("rollouts.jsonl", Rollout)
        archive.add(entries_of(rows, tasks, recipe.verify.target, recipe.name))
    return _write(archive, file)


@app.command()
def merge(file: File, others: Annotated[list[Path], typer.Argument(metavar="ARCHIVE...")]) -> int:
    """Merge other archives into one; the order does not matter."""
    from kernelwright.archive import Archive

    return _write(Archive.read([*([file] if file.exists() else []), *others]), file)


@app.command()
def show(file: File) -> int:
    """List each race: number of kernels, the best time, how far the slowest is behind, the best plan."""
    from kernelwright.archive import Archive

    archive = Archive.read([file])
    for (graph, target, precision, clock), race in archive.races().items():
        best, last = race[0], race[-1]
        assert best.us is not None
        assert last.us is not None
        name = archive.tasks[graph].id if graph in archive.tasks else graph
        typer.echo(
            f"{name} {target} {precision}: {len(race)} kernels, {best.us:.4g} us {clock}, up to {last.us / best.us:.2f}x"
            f"\n    {best.plan}  ({best.source})"
        )
    rejected = sum(not entry.outcome.accepted for entry in archive)
    typer.echo(f"{len(archive)} kernels of {len(archive.tasks)} graphs, {rejected} rejected")
    return 0


@app.command()
def pairs(
    file: File,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="JSONL of examples to train on.")],
    held: Annotated[Path | None, typer.Option(help="Examples whose held-out graphs to leave out.")] = None,
    shown: Annotated[int, typer.Option(help="Slower kernels to show for each graph.", min=0)] = 3,
) -> int:
    """Write the best kernels and improvements as examples for the next round of training."""
    from kernelwright.archive import Archive, improvements
    from kernelwright.records import Pair, read_jsonl, write_jsonl

    out_of = (
        frozenset(p.structure for p in read_jsonl(held, Pair) if p.split != "train") if held else frozenset()
    )
    count = write_jsonl(out, improvements(Archive.read([file]), shown=shown, held=out_of))
    typer.echo(f"{count} examples -> {out}")
    return 0


@app.command()
def table(file: File, out: Annotated[Path, typer.Argument(metavar="BEST", help="synth/best.json.")]) -> int:
    """Update the library's best known schedules with measured ones."""
    from kernelwright.archive import Archive
    from kernelwright.archive import table as best

    known: dict[str, Any] = {"schedules": {}}
    if out.exists():
        known = json.loads(out.read_text("utf-8"))
    found = best(Archive.read([file]), known["schedules"])
    command = "kernelwright archive table ARCHIVE BEST"
    out.write_text(json.dumps({"command": command, "schedules": found}, indent=1) + "\n", "utf-8")
    typer.echo(f"{len(found)} keys -> {out}")
    return 0


def _write(archive: Archive, file: Path) -> int:
    count = archive.write(file)
    typer.echo(f"{count} kernels of {len(archive.tasks)} graphs -> {file}")
    return 0
