"""`kernelwright mutants` and `kernelwright tasks audit`: how good the judge is, and how good the tasks are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from kernelwright.cli import options

_PATIENCE_S = 120.0
"""Wall-clock limit of one verification: a mutant that is only slow, on a busy machine, must not count as found."""


def mutants(
    suite: Annotated[str, typer.Option("-s", "--suite", help="A suite with gold kernels.")] = "wright",
    tasks: Annotated[str, typer.Option(help="Only these names or families, separated by commas.")] = "",
    kinds: Annotated[str, typer.Option(help="Only these kinds of faults, separated by commas.")] = "",
    per_kind: Annotated[int, typer.Option(help="Faults of each kind in each gold, at most.", min=1)] = 2,
    backend: options.Backend = "auto",
    protocol: options.OneProtocol = "strict",
    workers: options.Workers = 0,
    seed: Annotated[int, typer.Option(help="Of the choice of faults.")] = 0,
    json_file: options.JsonFile = None,
) -> int:
    """Plant bugs in gold kernels and count how many the judge finds.

    Mutants that do not compile, or are known to change nothing, are counted apart.
    """
    from kernelwright import mutants as work
    from kernelwright.cli import read, show
    from kernelwright.precision import asked_in
    from kernelwright.progress import Bar
    from kernelwright.tasks import load_suite

    read.json_place(json_file)
    # By default a convolution may be made in TF32, and a product that loses its digits is no fault.
    found = [asked_in(task, "ieee") for task in load_suite(f"{suite}/{tasks}" if tasks else suite)]
    planted = work.plant(found, per_kind, seed, [kind for kind in kinds.split(",") if kind])
    with (
        work.Pool(
            workers=workers or None, backend=backend, protocol=protocol, deadline_s=_PATIENCE_S
        ) as pool,
        Bar("mutants", len(planted)) as bar,
    ):
        judged = work.run(planted, pool, lambda note: bar.advance(1, note))
    summary = work.summary(judged)
    settings = {"suite": suite, "tasks": tasks, "per_kind": per_kind, "seed": seed, "protocol": protocol}
    whole = {**settings, "backend": pool.backend, **summary, "mutants": [m.to_json() for m in judged]}
    if not read.write_json(json_file, json.dumps(whole, indent=1)):
        console = show.console()
        console.print(_rates("kind", summary["kinds"]))
        console.print()
        console.print(_rates("task", summary["tasks"]))
        console.print()
        console.print(_rates("", {name: summary[name] for name in ("logic", "precision", "all")}))
        for mutant in judged:
            if mutant.state == "survived":
                console.print(
                    f"survived {mutant.task_id} line {mutant.fault.line}: {mutant.fault.kind}: {mutant.fault.what}",
                    markup=False,
                    highlight=False,
                    soft_wrap=True,
                )
    return 0


def audit(
    suite: Annotated[
        str,
        typer.Option(
            "-s", "--suite", help="wright, kernelbench:PATH[/level1[/3,5-9]], tritonbench:PATH, a file."
        ),
    ],
    tolerance: Annotated[
        list[str] | None,
        typer.Option(
            "--tolerance", help="Protocols whose inputs and tolerances apply; again for more. Default: all."
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="CPU time for one task.", min=0.1)] = 20.0,
    limit: options.Limit = 0,
    json_file: options.JsonFile = None,
) -> int:
    """Find tasks that a wrong answer passes: zeros, a constant, an input, another seed's output, stale memory.

    Also references that fail, that ignore an input, or do not agree with themselves. Runs them in a sandbox.
    """
    import dataclasses

    from kernelwright import audit as work
    from kernelwright.cli import read, show
    from kernelwright.progress import Bar
    from kernelwright.tasks import load_suite
    from kernelwright.verify.protocol import PROTOCOLS

    read.json_place(json_file)
    chosen = list(tolerance or PROTOCOLS)
    tasks = load_suite(suite)[: limit or None]
    with Bar("audit", len(tasks)) as bar:
        found = work.audit(tasks, chosen, seconds, advance=lambda note: bar.advance(1, note))
    rows = [dataclasses.asdict(finding) for finding in found]
    whole = {"suite": suite, "protocols": chosen, "tasks": len(tasks), "findings": rows}
    if not read.write_json(json_file, json.dumps(whole, indent=1)):
        table = show.table("task", "tolerance", "finding", "holds at", right=())
        for finding in found:
            table.add_row(finding.task_id, finding.protocol, finding.detail, _where(finding))
        console = show.console()
        console.print(table)
        console.print(f"{len({finding.task_id for finding in found})} of {len(tasks)} tasks have findings")
    return 0


def _where(finding: Any) -> str:
    if finding.sizes == "full":
        return "the full size"
    word = "extrapolated from" if finding.sizes == "extrapolated" else "shrunk sizes up to"
    return f"{word} {finding.elements:,} input elements"


def _rates(title: str, rows: Mapping[str, Mapping[str, Any]]) -> Any:
    from kernelwright.cli import show

    columns = [title, "found", "raw", "killed", "survived", "stillborn", "equivalent", "unjudged"]
    table = show.table(*columns, right=columns[1:])
    for name, row in rows.items():
        rates = ("–" if row[rate] is None else f"{row[rate]:.1%}" for rate in ("rate", "raw"))
        table.add_row(name, *rates, *(str(row[state]) for state in columns[3:]))
    return table
