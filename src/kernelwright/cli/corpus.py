"""`kernelwright data`: a corpus in one folder; can be stopped and resumed.

make -> draw graphs, judge kernels, write DIR/examples.jsonl, tasks.jsonl, tokenizer/ and the card
merge -> the same from the parts of several folders, such as machines with different seeds, or against a benchmark
card -> a summary of a corpus        validate -> judges a corpus's answers again
harvest -> graphs from packages' models; distill -> kernels from a language model
"""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelwright.cli import options
from kernelwright.errors import UserError
from kernelwright.progress import Bar

app = typer.Typer(no_args_is_help=True, help="Make a corpus of verified pairs, resumable.")
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The corpus' folder, such as runs/mine/data.")]
Against = Annotated[
    list[Path] | None,
    typer.Option(
        help="A benchmark's checkout, or a JSONL of tasks; graphs that compute the same as one of its files are left out."
    ),
]


@app.command()
def make(
    folder: Folder,
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Such as graphs=3000 seed=1 schedules=8."),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes, each with a judge; 0: one per core.", min=0)] = 0,
    against: Against = None,
    judge: options.JudgeAt = "",
) -> int:
    """Draw graphs, judge their kernels, and write the corpus with its card; resumable."""
    from kernelwright.config import apply_override
    from kernelwright.data import CorpusSettings, build
    from kernelwright.verify import pool_at

    fields: dict[str, Any] = {}
    for setting in settings or ():
        apply_override(fields, setting)
    config = CorpusSettings.parse(fields)
    judge_settings = {"backend": "interpret", "target": config.target, "deadline_s": config.deadline}
    with pool_at(judge, **judge_settings) if judge else nullcontext() as pool, Steps() as steps:
        made = build(config, folder, pool, steps, workers=workers, benchmarks=against or ())
    _say_card(folder, made)
    return 0


@app.command()
def merge(
    folder: Folder,
    sources: Annotated[
        list[Path] | None, typer.Argument(metavar="[FOLDER]...", help="Further folders with parts of `make`.")
    ] = None,
    against: Against = None,
) -> int:
    """Write the corpus again from its parts and those of further folders."""
    from kernelwright.data import CorpusSettings
    from kernelwright.data import merge as work
    from kernelwright.runs import read_json

    for one in sources or ():
        if not (one / "parts").is_dir():
            raise UserError(f"{one} holds no parts; name a folder that `kernelwright data make` wrote")
    found = read_json(folder / "config.json")
    if found is None and sources:
        found = read_json(sources[0] / "config.json")
    if found is None:
        raise UserError(f"{folder} holds no corpus; begin with: kernelwright data make {folder}")
    with Steps() as steps:
        made = work(CorpusSettings.parse(found), folder, sources or (), against or (), steps)
    _say_card(folder, made)
    return 0


@app.command()
def card(folder: Folder) -> int:
    """Summarise a corpus: shares by operator, precision, source and schedules, what the judge rejected, what was left out."""
    from kernelwright.data.card import text
    from kernelwright.runs import read_json

    found = read_json(folder / "card.json")
    if found is None or "structures" not in found:
        raise UserError(f"{folder} holds no finished corpus; make one with: kernelwright data make {folder}")
    typer.echo(text(found))
    return 0


@app.command()
def validate(
    folder: Folder,
    sample: Annotated[int, typer.Option(help="Pairs to sample; 0: all.", min=0)] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    workers: options.Workers = 0,
) -> int:
    """Judge a corpus's answers again, under another secret: how many still pass."""
    from kernelwright.data.validate import validate as work
    from kernelwright.verify import VerifierPool

    if not (folder / "examples.jsonl").exists():
        raise UserError(f"{folder / 'examples.jsonl'}: not there yet; first: kernelwright data make {folder}")
    with VerifierPool(workers or None, backend="interpret") as pool, Steps() as steps:
        ended = work(folder / "examples.jsonl", pool, sample, seed, steps)
    _say(ended)
    return 0


@app.command(name="import")
def import_(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="Pairs in KernelBook's form: .parquet, .jsonl or a hub name."),
    ],
    out: options.Output,
    limit: Annotated[int, typer.Option(help="Use only this many rows; 0: all.", min=0)] = 0,
    workers: options.Workers = 0,
) -> int:
    """Import pairs that an older Inductor made: removed names are rewritten, kernels judged, correct ones kept."""
    from kernelwright.data.importing import bring
    from kernelwright.verify import VerifierPool

    with VerifierPool(workers or None, backend="interpret") as pool, Steps() as steps:
        ended = bring(source, out, pool, limit=limit, progress=steps)
    _say(ended)
    typer.echo(f"{ended['accepted']} examples in {out}; the others, and why: {out.stem}.rejected.jsonl")
    return 0


@app.command()
def distill(
    suite: Annotated[str, typer.Option(help="Tasks: any suite, such as wright or tasks.jsonl.")],
    policy: Annotated[str, typer.Option(help="The model: openai:BASE_URL#MODEL.")],
    out: options.Output,
    turns: Annotated[int, typer.Option(help="Maximum answers per task.", min=1)] = 3,
    requests: Annotated[int, typer.Option(help="Budget of requests; 0: none.", min=0)] = 0,
    instruction: Annotated[str, typer.Option(help="Added to every prompt.")] = "",
    max_tokens: Annotated[int, typer.Option(help="Maximum tokens per answer.", min=1)] = 4096,
    parallel: Annotated[int, typer.Option(help="Tasks in progress at once.", min=1)] = 8,
    workers: options.Workers = 0,
) -> int:
    """Have a language model write kernels; rejected ones go back to it with the reason."""
    from kernelwright.data.distill import Teacher
    from kernelwright.data.distill import distill as work
    from kernelwright.policy import load_policy
    from kernelwright.tasks import load_suite
    from kernelwright.verify import VerifierPool

    tasks = load_suite(suite)
    asked = load_policy(policy, parallel=1) if policy.startswith("openai:") else load_policy(policy)
    with VerifierPool(workers or None, backend="interpret") as pool, Steps() as steps:
        teacher = Teacher(
            asked, pool, turns=turns, requests=requests, instruction=instruction, max_tokens=max_tokens
        )
        ended = work(tasks, out, teacher, parallel, steps)
    turns_file = out.with_name(f"{out.stem}.turns.jsonl")
    if ended and all(reason.startswith("endpoint: ") for reason in ended):
        raise UserError(
            f"distill: no task was answered: {next(iter(ended))}; then remove {turns_file}, and run again"
        )
    _say(ended)
    typer.echo(f"{ended['accepted']} examples in {out}; all that was said: {turns_file}")
    return 0


@app.command()
def harvest(
    models: Annotated[
        str,
        typer.Argument(
            metavar="FILE.py:FUNCTION", help="Yields (name, build); build() is (model, args, kwargs)."
        ),
    ],
    out: Annotated[Path, typer.Option("--output", "-o", help="Tasks in function form, one JSON line each.")],
    jobs: Annotated[int, typer.Option(help="Models at once.", min=1)] = 1,
) -> int:
    """Cut packages' models into graphs that kernels can be written for: `data make DIR tasks=FILE` draws them."""
    from kernelwright.data.harvest import harvest as work

    with Steps() as steps:
        ended = work(models, out, steps, jobs)
    _say(ended)
    typer.echo(f"tasks in {out}; every submodule with package, version and licence: {out.stem}.origins.jsonl")
    return 0


def _say(counts: Counter[str]) -> None:
    """Print one line per count, largest first."""
    for name, count in counts.most_common():
        typer.echo(f"{count:7} {name}")


def _say_card(folder: Path, found: dict[str, Any]) -> None:
    from kernelwright.data.card import count_accepted, survivors

    for name, count in {
        **found["kinds"],
        **{f"dropped: {k}": v for k, v in found["dropped"].items()},
    }.items():
        typer.echo(f"{count:7} {name}")
    right, judged = count_accepted(found["judged"])
    survived, planted = survivors(found["judged"])
    typer.echo(
        f"accepted at the first try: {right} of {judged}; planted faults that survived: {survived} of {planted}"
    )
    typer.echo(
        f"{found['pairs']} pairs in {folder / 'examples.jsonl'}; {folder / 'README.md'} says what they cover"
    )


class Steps:
    """Shows a progress bar for each step that is reported as (step, done, total)."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self._name, self._bar = "", None  # type: tuple[str, Bar | None]

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, *exc: Any) -> None:
        self._close()

    def __call__(self, step: str, done: int, total: int) -> None:
        if step != self._name:
            self._close()
            self._name, self._bar = step, Bar(step, total, quiet=self.quiet).__enter__()
        if self._bar is not None and done > self._bar.done:
            self._bar.advance(done - self._bar.done)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None
