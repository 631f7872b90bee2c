"""The commands and their options, in the order of the README; each is a few lines on top of the package.

Commands return exit codes and raise UserError or InfrastructureError, which `main` reports. Heavy modules are imported by
the commands that need them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from kernelwright import __version__
from kernelwright.cli import archive, corpus, options, serving
from kernelwright.errors import UserError
from kernelwright.hardware import TARGETS

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Trains language models to write fast, honest Triton kernels, and proves that they are.",
)
tasks = typer.Typer(no_args_is_help=True, help="Look at suites of tasks.")
app.add_typer(archive.app, name="archive")
app.add_typer(corpus.app, name="data")
app.add_typer(tasks, name="tasks")
app.command()(serving.serve)
app.command()(serving.mcp)


def run(arguments: Sequence[str]) -> int:
    """Parse and run one command line. Bad usage raises UserError; `--help` and `--version` return 0."""
    command = typer.main.get_command(app)
    try:
        # Not typer's own runner: it prints its own boxes and turns every failure into exit code 1.
        with command.make_context("kernelwright", list(arguments)) as context:
            return int(command.invoke(context) or 0)
    except typer.Exit as done:
        return done.exit_code
    except Exception as error:
        # The class of usage errors differs between versions of typer; its interface does not.
        if not hasattr(error, "format_message"):
            raise
        if "\n" in error.format_message():  # no arguments: the message is the help
            typer.echo(error.format_message())
            return 2
        where = getattr(getattr(error, "ctx", None), "command_path", "kernelwright")
        raise UserError(f"{error.format_message().rstrip('.')}; see {where} --help") from None


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit(0)


@app.callback()
def _global(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Options of the command itself."""


@app.command()
def optimize(
    module: options.Module,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Default: NAME_triton.py here.")] = None,
    seconds: Annotated[float, typer.Option(help="The budget, kept to within a tenth.", min=0.0)] = 45.0,
    contractions: options.Contractions = "own",
    target: Annotated[str, typer.Option(help="The GPU to write for; default: the one here, else h200.")] = "",
    kernel: options.Mine = None,
    rungs: options.Rungs = "",
    policy: options.Policy = "default",
    json_file: options.JsonFile = None,
    cache: Annotated[bool, typer.Option(help="Use cached kernels.")] = True,
    backend: options.Backend = "auto",
    protocol: options.Protocol = "strict",
    precision: options.Precision = "default",
    workers: options.Workers = 0,
) -> int:
    """Find verified Triton kernels for a module: from cache, compiler, library, model and tuning, with a verdict on the whole.

    Prints a table of the kernels found for each part, and writes a report. Exit code: 0 with kernels that two judges
    accepted, 1 without.
    """
    from kernelwright.cli import optimize as optimizing
    from kernelwright.cli import read

    out = read.place(
        out or Path(f"{_slug(Path(module).stem if module.endswith('.py') else module)}_triton.py")
    )
    read.json_place(json_file)
    if out.exists() and out.resolve() in (Path(module).resolve(), kernel and kernel.resolve()):
        raise UserError(
            f"{out} is the {'module' if out.resolve() == Path(module).resolve() else 'kernel'} itself; name another file with -o"
        )
    wanted = optimizing.read_question(
        module,
        seconds=seconds,
        target=target,
        contractions=contractions,
        backend=backend,
        protocol=protocol,
        workers=workers,
        rungs=rungs,
        model=policy,
        kernel=kernel,
        cache=cache,
        precision=precision,
    )
    return optimizing.command(wanted, out, json_file)


@app.command()
def verify(
    task: options.OneTask,
    kernel: options.Kernel,
    backend: options.Backend = "auto",
    protocol: options.Protocol = "strict",
    precision: options.Precision = "default",
    target: options.Target = "h200",
    json_file: options.JsonFile = None,
    deadline: options.Deadline = 30.0,
    judge_at: options.JudgeAt = "",
    sanitize: options.Sanitize = False,
    proof: Annotated[
        bool, typer.Option(help="Without a GPU: also run accepted kernels in exact arithmetic.")
    ] = True,
    gradients: options.Gradients = False,
    sizes: options.Sizes = "",
    watch: Annotated[
        bool,
        typer.Option(
            "--watch", help="Judge again whenever the kernel's or the task's file changes, until Ctrl-C."
        ),
    ] = False,
) -> int:
    """Judge one kernel, and show the verdict with its evidence.

    Exit code: 0 accepted, 1 rejected, 2 bad usage or unreadable input, 3 infrastructure failed.
    """
    from kernelwright.cli import verify as verifying

    settings = {"backend": backend, "protocol": protocol, "target": target, "deadline_s": deadline}
    request = verifying.Request(task, kernel, precision, gradients, sizes, json_file)
    judge = {"addresses": judge_at, **settings, "workers": 1, "sanitize": sanitize, "proofs": proof}
    return verifying.watch(request, judge) if watch else verifying.command(request, judge)


def read_seeds(text: str) -> list[int]:
    """`0,1,2` as numbers. Raises UserError for anything else."""
    try:
        seeds = [int(part) for part in text.split(",")]
    except ValueError:
        seeds = []
    if not seeds or len(set(seeds)) < len(seeds):
        raise UserError(f"--seeds {text!r}: name different whole numbers, such as 0,1,2")
    return seeds


@app.command()
def train(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE.toml", help="See recipes/.")],
    overrides: options.Overrides = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Run folder; default: runs/RECIPE.")] = None,
    evaluate: Annotated[bool, typer.Option(help="Evaluate after each stage, as the recipe says.")] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print model, data, memory, steps and cost; run nothing.")
    ] = False,
    on: Annotated[
        str, typer.Option("--on", help=f"With --dry-run: here, or a GPU: {', '.join(TARGETS)}.")
    ] = "here",
    seeds: Annotated[
        str, typer.Option(help="Run once per seed, such as 0,1,2, on the same data, into RUN/seed-N.")
    ] = "",
    resume: options.Resume = False,
) -> int:
    """Run a recipe: data, its stages, and an evaluation after each.

    Stages are sft, frontend, midend, backend, as set in the recipe. A dry run exits with 1 if the recipe does not
    fit.
    """
    from kernelwright.cli import pipeline
    from kernelwright.config import load_recipe

    plan = load_recipe(recipe, overrides or ())
    folder = out or Path("runs") / plan.name
    if dry_run:
        from kernelwright.cli import dry_run as dry
        from kernelwright.cli import show
        from kernelwright.train.estimate import estimate, estimate_by_gpus

        pipeline.check_rewards(plan)
        made = estimate(plan, folder, on)
        dry.show(made, show.console())
        if made.device.target is not None and made.processes == 1:
            dry.show_scaled(estimate_by_gpus(plan, folder, on), show.console())
        return 1 if made.problems else 0
    if seeds:
        found = pipeline.run_seeds(plan, folder, read_seeds(seeds), resume=resume, evaluating=evaluate)
        for name_of_stage, figures in found.items():
            typer.echo(
                f"{name_of_stage}: " + ", ".join(f"{name} {figure}" for name, figure in figures.items())
            )
        return 0
    pipeline.run(plan, folder, resume=resume, evaluating=evaluate)
    typer.echo(f"run {folder}: see kernelwright report {folder}")
    return 0


@app.command("eval")
def evaluate(
    suite: options.Suite,
    policy: options.PolicyOrLadder = "default",
    samples: Annotated[int, typer.Option("-n", "--samples", help="Completions per task.", min=1)] = 1,
    agent: Annotated[str, typer.Option(help="frontend, midend or backend.")] = "frontend",
    kernels: options.Before = None,
    out: options.EvalFolder = None,
    protocol: options.Protocol = "strict",
    precision: options.Precision = "default",
    backend: options.Backend = "auto",
    target: options.Target = "h200",
    reward: Annotated[str, typer.Option(help="Reward preset to log.")] = "wright",
    temperature: Annotated[float, typer.Option(min=0.0)] = 1.0,
    top_p: Annotated[float, typer.Option(min=0.0, max=1.0)] = 1.0,
    max_tokens: Annotated[int, typer.Option(help="Longest completion.", min=1)] = 1024,
    answer: options.Answer = "plan+code",
    limit: options.Limit = 0,
    workers: options.Workers = 0,
    deadline: options.Deadline = 30.0,
    judge_at: options.JudgeAt = "",
    seed: options.Seed = 0,
    migrate: options.Migrate = False,
    seconds: options.SearchSeconds = 60.0,
    contractions: Annotated[str, typer.Option(help="own or auto, for the ladder and its rungs.")] = "own",
    resume: options.Resume = False,
) -> int:
    """Sample and verify kernels for every task of a suite; -p ladder, compiler, library or model: search instead.

    Writes rollouts.jsonl and metrics.json as it goes.
    """
    from kernelwright.cli import pipeline, read, show
    from kernelwright.search.suite import POLICIES

    return pipeline.evaluate_suite(
        read.suite(suite, limit, precision, whole=policy in POLICIES),
        policy,
        out or Path("runs") / f"eval-{_slug(suite)}-{_slug(policy)}",
        agent=agent,
        kernels=kernels,
        judge={"backend": backend, "protocol": protocol, "target": target, "workers": workers, "deadline_s": deadline,
               "addresses": judge_at},
        sampling={"samples": samples, "reward": reward, "temperature": temperature, "top_p": top_p, "max_tokens": max_tokens,
                  "seed": seed, "migrating": migrate, "answer": answer},
        resume=resume,
        console=show.console(),
        search={"seconds": seconds, "contractions": contractions, "precision": precision},
    )  # fmt: skip


@app.command()
def ship(
    checkpoint: Annotated[
        str,
        typer.Argument(metavar="CHECKPOINT", help="RUN/stages/STAGE/checkpoint, or RUN for its last stage."),
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Model folder; default: the package's own.")
    ] = None,
    results: Annotated[
        list[Path] | None,
        typer.Option("--results", metavar="RUN", help="More evaluations for the card; may be repeated."),
    ] = None,
    hardware: Annotated[str, typer.Option(help="What it was trained on, in words, for the card.")] = "",
    mix_with: Annotated[
        str,
        typer.Option(
            "--mix-with",
            metavar="MODEL",
            help="Mix its weights with those of the model it was trained from, e.g. `default`.",
        ),
    ] = "",
    share: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="With --mix-with: share of its own weights; the rest is MODEL's."
        ),
    ] = 0.5,
) -> int:
    """Make a trained checkpoint the package's default model, with its card."""
    from kernelwright.cli.ship import ship as put
    from kernelwright.models import DEFAULT_FOLDER

    card = put(checkpoint, out or DEFAULT_FOLDER, results or (), hardware, mix_with, share)
    typer.echo(f"model {card.parent}\ncard {card}")
    return 0


@app.command()
def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders that train, eval or optimize wrote.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out")] = Path("report.html"),
) -> int:
    """Write one self-contained page about one or several runs."""
    from kernelwright.cli import read
    from kernelwright.report import build_report

    typer.echo(build_report(runs, read.place(out)))
    return 0


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
    kernelbench: Annotated[
        str, typer.Option("--kernelbench", metavar="PATH", help="Look at a checkout of KernelBench as well.")
    ] = "",
) -> int:
    """Show what this machine can do, and which protections are in force.

    Ends by judging a gold kernel and a cheat. Exit code: 0 if a verdict can be made here, 3 if not.
    """
    from kernelwright.cli import doctor as doctor_of
    from kernelwright.cli import show

    return doctor_of.run(show.console(), as_json, kernelbench)


@tasks.command("list")
def list_tasks(suite: Annotated[str, typer.Argument(help=options.SUITES)] = "wright") -> int:
    """List the tasks of a suite, and what could not become a task, with the reasons."""
    from kernelwright.cli import show
    from kernelwright.tasks import load_suite, skipped_calls

    console = show.console()
    console.print(show.tasks(load_suite(suite)))
    if skipped := skipped_calls(suite):
        console.print()
        console.print(show.skipped_calls(skipped))
    return 0


@tasks.command("show")
def show_task(
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="A task's name, such as wright/relu, or a .py.")
    ],
    gold: Annotated[bool, typer.Option("--gold", help="Its gold kernel instead.")] = False,
) -> int:
    """Print a task's source, or its gold kernel."""
    from kernelwright.policy.gold import gold as gold_of
    from kernelwright.tasks import load_task

    found = load_task(task)
    typer.echo(gold_of(found.id) if gold else found.source)
    return 0


def _slug(text: str) -> str:
    """`text` in a form suitable for folder names."""
    import re

    return re.sub(r"[^\w.-]+", "-", text).strip("-.")[-60:] or "run"
