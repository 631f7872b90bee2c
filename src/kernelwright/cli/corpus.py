"""`kernelwright data`: the corpus, step by step, in one folder that can be stopped and gone on with.

make -> a large corpus in one command, on every core: DIR/parts/, then all that `split` writes
synth -> DIR/drafts.jsonl    validate -> DIR/accepted.jsonl, rejected.jsonl
split -> DIR/examples.jsonl, tokenizer/, card.json: what `train` reads when DIR is RUN/data
show -> what a corpus has, against what is wanted of it
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelwright.errors import UserError
from kernelwright.progress import Bar

if TYPE_CHECKING:
    from kernelwright.data import CorpusConfig

app = typer.Typer(no_args_is_help=True, help="Make a corpus of verified pairs, step by step, resumable.")
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The corpus' folder, such as runs/mine/data.")]


@app.command()
def make(
    folder: Folder,
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Such as families=3000 seed=1 names=matmul,norm."),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes, each with a judge; 0: one a core.", min=0)] = 0,
    against: Annotated[
        list[Path] | None,
        typer.Option(help="A benchmark's checkout, or a JSONL of tasks; what is in it is left out."),
    ] = None,
) -> int:
    """Draw problems, have every kernel heard, and write the corpus with its card; resumable."""
    import os

    from kernelwright.config import apply_override
    from kernelwright.data.bulk import BulkConfig, merge
    from kernelwright.data.bulk import make as work

    fields: dict[str, Any] = {}
    for setting in settings or ():
        apply_override(fields, setting)
    config = BulkConfig.parse(fields)
    with Steps() as steps:
        work(config, folder, workers or len(os.sched_getaffinity(0)), steps)
        card = merge(config, folder, against or (), steps)
    _say_card(folder, card)
    return 0


@app.command()
def synth(
    folder: Folder,
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Such as train_graphs=500 seed=1.")
    ] = None,
    recipe: Annotated[Path | None, typer.Option(help="Start from a recipe's [data] table.")] = None,
) -> int:
    """Draw operator graphs and write drafts: task, plan, kernel."""
    from kernelwright.config import apply_override, load_recipe
    from kernelwright.data import CorpusConfig
    from kernelwright.data import synth as work
    from kernelwright.runs import RunFolder

    fields: dict[str, Any] = {}
    if recipe is not None:
        plan = load_recipe(recipe)
        fields = CorpusConfig.of(plan.data, plan.seed).model_dump(mode="json")
    for setting in settings or ():
        apply_override(fields, setting)
    config = CorpusConfig.parse(fields)
    run = RunFolder(folder)
    run.start(config, resume=True)
    with Steps() as steps:
        count = work(config, run.file("drafts.jsonl"), steps)
    typer.echo(f"{count} drafts in {run.file('drafts.jsonl')}; next: kernelwright data validate {folder}")
    return 0


@app.command()
def inductor(
    suite: Annotated[str, typer.Option(help="Tasks to rewrite: any suite, such as wright or tasks.jsonl.")],
    out: Annotated[Path, typer.Option("--output", "-o", help="Drafts to write, one JSON line each.")],
    target: Annotated[str, typer.Option(help="The GPU to compile for; none need be there.")] = "h200",
    seconds: Annotated[float, typer.Option(help="Limit for one task.", min=1)] = 60.0,
) -> int:
    """Have torch Inductor write kernels for tasks, rewritten into stand-alone modules; no GPU needed."""
    from kernelwright.data.inductor import teach
    from kernelwright.policy.compiler import Compiler
    from kernelwright.tasks import load_suite

    tasks = load_suite(suite)
    with Compiler(target, seconds) as compiler, Steps() as steps:
        ended = teach(tasks, out, compiler, steps)
    for reason, count in ended.most_common():
        typer.echo(f"{count:7} {reason}")
    typer.echo(f"{ended['rewritten']} drafts in {out}; what has none, and why: {out.stem}.skipped.jsonl")
    return 0


@app.command(name="import")
def import_(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="Pairs in KernelBook's form: .parquet, .jsonl or a hub name."),
    ],
    out: Annotated[Path, typer.Option("--output", "-o", help="Accepted examples, one JSON line each.")],
    limit: Annotated[int, typer.Option(help="At most so many rows; 0: all.", min=0)] = 0,
    workers: Annotated[int, typer.Option(help="Candidates judged at once; 0: one a core.", min=0)] = 0,
) -> int:
    """Bring in pairs that an older Inductor made: names that are gone rewritten, judged, kept when right."""
    from kernelwright.data.importing import bring
    from kernelwright.verify import VerifierPool

    with VerifierPool(workers or None, backend="interpret") as pool, Steps() as steps:
        ended = bring(source, out, pool, limit=limit, progress=steps)
    for reason, count in ended.most_common():
        typer.echo(f"{count:7} {reason}")
    typer.echo(f"{ended['accepted']} examples in {out}; the others, and why: {out.stem}.rejected.jsonl")
    return 0


@app.command()
def distill(
    suite: Annotated[str, typer.Option(help="Tasks to ask for: any suite, such as wright or tasks.jsonl.")],
    policy: Annotated[str, typer.Option(help="Who is asked: openai:BASE_URL#MODEL.")],
    out: Annotated[Path, typer.Option("--output", "-o", help="Accepted examples, one JSON line each.")],
    turns: Annotated[int, typer.Option(help="Answers to a task at most.", min=1)] = 3,
    requests: Annotated[int, typer.Option(help="Budget of requests; 0: none.", min=0)] = 0,
    instruction: Annotated[str, typer.Option(help="Added to every question.")] = "",
    max_tokens: Annotated[int, typer.Option(help="Tokens of an answer at most.", min=1)] = 4096,
    parallel: Annotated[int, typer.Option(help="Tasks asked for at once.", min=1)] = 8,
    workers: Annotated[int, typer.Option(help="Candidates judged at once; 0: one a core.", min=0)] = 0,
) -> int:
    """Have a language model write kernels; what the judge rejects goes back to it with the reason."""
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
    for reason, count in ended.most_common():
        typer.echo(f"{count:7} {reason}")
    typer.echo(f"{ended['accepted']} examples in {out}; all that was said: {out.stem}.turns.jsonl")
    return 0


@app.command()
def harvest(
    package: Annotated[
        list[str], typer.Option(help="An installed package; give it several times for several.")
    ],
    out: Annotated[Path, typer.Option("--output", "-o", help="Tasks to write, one JSON line each.")],
    folder: Annotated[
        Path | None,
        typer.Option(help="Where `pip install --target` put the packages; else this environment."),
    ] = None,
    most: Annotated[int, typer.Option(help="Classes of each package at most; 0: all.", min=0)] = 0,
) -> int:
    """Turn the modules of installed packages into tasks, their licences recorded."""
    from kernelwright.data.harvest import harvest as work

    with Steps() as steps:
        ended = work(package, out, folder, most, steps)
    for reason, count in ended.most_common():
        typer.echo(f"{count:7} {reason}")
    typer.echo(f"tasks in {out}; every class with package, version and licence: {out.stem}.origins.jsonl")
    return 0


@app.command()
def validate(
    folder: Folder,
    target: Annotated[str, typer.Option(help="The GPU to compile and price for.")] = "h200",
    workers: Annotated[int, typer.Option(help="Candidates judged at once; 0: one a core.", min=0)] = 0,
) -> int:
    """Put every draft before the judge; what it rejects is kept with its verdict."""
    from kernelwright.data import validate as work
    from kernelwright.verify import VerifierPool

    config, drafts = _config(folder), _needed(folder, "drafts.jsonl", "synth")
    with VerifierPool(workers or None, target=target) as pool, Steps() as steps:
        ended = work(config, drafts, folder / "accepted.jsonl", pool, steps)
    for reason, count in ended.most_common():
        typer.echo(f"{count:7} {reason}")
    typer.echo(f"next: kernelwright data split {folder}")
    return 0


@app.command()
def split(
    folder: Folder,
    against: Annotated[
        list[Path] | None,
        typer.Option(help="Of a corpus of `make`: a benchmark's checkout; what is in it is left out."),
    ] = None,
) -> int:
    """Remove duplicates and leaks, learn the tokenizer, write what training reads."""
    from kernelwright.data import finish
    from kernelwright.runs import RunFolder

    if (folder / "parts").is_dir():
        from kernelwright.data.bulk import BulkConfig, merge

        with Steps() as steps:
            card = merge(BulkConfig.parse(_settings(folder)), folder, against or (), steps)
        _say_card(folder, card)
        return 0
    if against:
        raise UserError(f"{folder}: --against is for a corpus of `kernelwright data make`; leave it out")
    config, accepted = _config(folder), _needed(folder, "accepted.jsonl", "validate")
    run = RunFolder(folder)
    with Steps() as steps:
        card = finish(config, [accepted], folder, steps)
    run.write_json("card.json", card)
    run.finish("corpus")
    for name, count in {**card["kinds"], **{f"dropped: {k}": v for k, v in card["dropped"].items()}}.items():
        typer.echo(f"{count:7} {name}")
    typer.echo(f"{card['examples']} examples in {folder / 'examples.jsonl'}, card in {folder / 'card.json'}")
    return 0


@app.command()
def show(folder: Folder) -> int:
    """What a corpus of `make` has, against what is wanted: pairs by category, acceptance by teacher, lengths."""
    from kernelwright.data.bulk import card as cards
    from kernelwright.runs import RunFolder

    card = RunFolder(folder).read_json("card.json")
    if card is None or "coverage" not in card:
        raise UserError(f"{folder} holds no corpus of `kernelwright data make`, or one that is not finished")
    typer.echo(f"{'category':14}{'families':>9}{'pairs':>8}{'wanted':>8}  fewest")
    for name, families, pairs, fewest in cards.coverage(card):
        wanted = cards.AIM_PAIRS if name in cards.LEVEL_1 else ""
        typer.echo(f"{name:14}{families:9}{pairs:8}{wanted:>8}  {fewest}")
    typer.echo(f"\n{'teacher':14}{'heard':>9}{'1st try':>8}{'wanted':>8}  others")
    for row in cards.acceptance(card):
        wanted = f"{row.aim:.0%}" if row.aim is not None else ""
        causes = ", ".join(f"{outcome} {count}" for outcome, count in row.causes)
        typer.echo(f"{row.teacher:14}{row.heard:9}{row.share:8.1%}{wanted:>8}  {causes}".rstrip())
    typer.echo(f"\n{'tokens':14}{'median':>9}{'95 %':>8}{'most':>8}")
    for kind, lengths in card["tokens"].items():
        typer.echo(f"{kind:14}{lengths['median']:9}{lengths['p95']:8}{lengths['max']:8}")
    typer.echo(f"{'wanted':14}{f'< {cards.LIMIT_MEDIAN}':>9}{'':8}{f'<= {cards.LIMIT_TOKENS}':>8}\n")
    missed = cards.short(card)
    typer.echo(
        "\n".join(["short of what is wanted:", *(f"  {line}" for line in missed)]) if missed else "all met"
    )
    return 0


def _say_card(folder: Path, card: dict[str, Any]) -> None:
    from kernelwright.data.bulk.card import compared

    for name, count in {**card["kinds"], **{f"dropped: {k}": v for k, v in card["dropped"].items()}}.items():
        typer.echo(f"{count:7} {name}")
    typer.echo(
        f"{card['examples']} examples in {folder / 'shards'} and examples.jsonl; {folder / 'README.md'}"
    )
    typer.echo(compared(card["benchmarks"]))


class Steps:
    """A progress bar for each step that is reported as (step, done, total)."""

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


def _config(folder: Path) -> CorpusConfig:
    """The config that `synth` wrote."""
    from kernelwright.data import CorpusConfig

    return CorpusConfig.parse(_settings(folder))


def _settings(folder: Path) -> dict[str, object]:
    """The fields of the config that a folder was begun with."""
    import json

    try:
        return dict(json.loads((folder / "config.json").read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        raise UserError(f"{folder} holds no corpus; begin with: kernelwright data synth {folder}") from None


def _needed(folder: Path, name: str, step: str) -> Path:
    if not (folder / name).exists():
        raise UserError(f"{folder / name}: not there yet; first: kernelwright data {step} {folder}")
    return folder / name
