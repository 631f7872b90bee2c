"""Prints `kernelwright train RECIPE --dry-run`: model, data, memory, steps, tokens, device time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kernelwright.train.estimate import ASSUMPTIONS, Estimate, gb

if TYPE_CHECKING:
    from rich.console import Console

_KINDS = ("weights", "gradients", "optimizer", "activations", "KV cache", "whole copy", "generator", "vllm")
_PHASES = ("generate", "verify", "train")


def show(made: Estimate, console: Console) -> None:
    """Print the estimate: memory of one process, tokens trained and generated; problems come last."""
    from rich.table import Table

    model = made.model
    console.print(
        f"model   {model.name}: {_count(model.weights)} weights, {_count(model.trained)} trained; {model.source}"
    )
    console.print(f"data    {made.data}")
    console.print(
        f"device  {made.device.name}, {gb(made.device.bytes)}; {made.processes} process{'es' * (made.processes > 1)}"
    )
    memory = Table("memory a process", *_KINDS, "most at once", box=None, pad_edge=False)
    work = Table(
        "work", "steps", "samples", "tokens trained", "generated", "seconds", box=None, pad_edge=False
    )
    for column in (*memory.columns[1:], *work.columns[1:]):
        column.justify = "right"
    for stage in made.stages:
        sizes = [gb(stage.memory[kind]) if kind in stage.memory else "-" for kind in _KINDS]
        memory.add_row(stage.stage, *sizes, gb(stage.bytes))
        work.add_row(
            stage.stage,
            str(stage.steps),
            str(stage.samples),
            _count(stage.trained_tokens),
            _count(stage.generated_tokens),
            *(f"{stage.seconds[phase]:.0f} s" if phase in stage.seconds else "-" for phase in _PHASES),
        )
    console.print()
    console.print(memory)
    console.print()
    console.print(work)
    for stage in made.stages:
        if stage.epoch is not None:
            epoch = stage.epoch
            kinds = ", ".join(f"{number} {kind}" for kind, number in epoch.examples.items())
            console.print(
                f"\nan epoch of SFT: {epoch.count} examples ({kinds}) of {epoch.length:.0f} tokens"
                f"{'' if epoch.measured else ' at most'}: {_count(epoch.tokens)} tokens"
            )
    seconds = made.seconds
    spent = f"{seconds / 3600:.1f} hours" if seconds >= 7200 else f"{seconds:.0f} seconds"
    console.print(
        f"\ncost    {spent} of {made.processes} x {made.device.name}, data and evaluation not counted"
    )
    console.print(f"assumed {ASSUMPTIONS}", style="dim")
    for problem in made.problems:
        console.print(f"does not fit: {problem}", style="bold red")


def show_scaled(made: Sequence[tuple[str, Estimate]], console: Console) -> None:
    """Print a line per number of GPUs: whether the recipe fits, how long it takes, and what limits a step."""
    from rich.table import Table

    table = Table(
        "GPUs", "launch", "fits", "a GPU", "hours", "a step, and what bounds it", box=None, pad_edge=False
    )
    for launch, each in made:
        fits = "no" if each.problems else "yes"
        most = max(stage.bytes for stage in each.stages)
        steps = ", ".join(
            f"{stage.stage} {stage.total_s / max(stage.steps, 1):.0f} s ({stage.bound})"
            for stage in each.stages
        )
        table.add_row(str(each.processes), launch, fits, gb(most), f"{each.seconds / 3600:.1f}", steps)
    console.print()
    console.print(table)
    for _, each in made:
        for problem in each.problems:
            console.print(f"{each.processes} GPUs: {problem}", style="red")


def _count(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f}"
