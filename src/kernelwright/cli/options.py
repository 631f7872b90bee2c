"""Options shared by several commands, and those with long help texts: each is written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernelwright.hardware import TARGETS

SUITES = (
    "wright, wright/FAMILY-OR-NAME, kernelbench:PATH[/level1], tritonbench:PATH, FILE.py, FILE.jsonl, FILE.parquet, "
    "a folder."
)
POLICIES = "default (the package's own model), a run folder, a model folder, a hub name, openai:BASE_URL#MODEL, or gold."
LADDER = "ladder (what optimize asks), compiler, library, model (one rung of it); or "

Backend = Annotated[str, typer.Option(help="auto, interpret or cuda.")]
Protocol = Annotated[
    str, typer.Option(help="strict, kernelbench or toronto; of several, with commas, the first decides.")
]
OneProtocol = Annotated[str, typer.Option("--protocol", help="strict, kernelbench or toronto.")]
Precision = Annotated[
    str,
    typer.Option(
        help="Precision of the task: default (PyTorch's default flags), ieee, tf32, bf16 or fp16 (weights and inputs cast)."
    ),
]
Target = Annotated[str, typer.Option(help=f"The GPU to compile and price for: {', '.join(TARGETS)}.")]
Workers = Annotated[int, typer.Option(help="Candidates judged at once; 0: one per core.", min=0)]
JudgeAt = Annotated[
    str,
    typer.Option(
        "--judge", help="Judge on servers, http://HOST:PORT with commas, or a Ray cluster, ray://HOST:PORT."
    ),
]
Deadline = Annotated[
    float, typer.Option(help="Seconds a kernel's verification may take, compilation included.", min=1.0)
]
Limit = Annotated[int, typer.Option(help="Use only this many tasks; 0: all.", min=0)]
Seed = Annotated[int, typer.Option(help="Of the policy's sampling; the judge's own seeds are secret.")]
JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Write everything to this file as JSON; - is stdout."),
]
Output = Annotated[Path, typer.Option("--output", "-o", help="Accepted examples, one JSON line each.")]

Policy = Annotated[str, typer.Option("-p", "--policy", help=POLICIES)]
PolicyOrLadder = Annotated[str, typer.Option("-p", "--policy", help=LADDER + POLICIES)]
Rungs = Annotated[
    str,
    typer.Option(help="Rungs to ask, with commas: compiler, library, model, tune. Default: all that fit."),
]
Contractions = Annotated[
    str,
    typer.Option(help="own: kernels do all the work; auto: products may stay with ATen where it is faster."),
]
Answer = Annotated[
    str,
    typer.Option(
        help="plan+code; plan+kernels: the library prints the host function of compact answers; plan: all code."
    ),
]
SearchSeconds = Annotated[
    float, typer.Option(help="Search time per task, for the ladder and its rungs.", min=1.0)
]

Module = Annotated[
    str,
    typer.Argument(
        metavar="TASK|FILE|pkg:NAME",
        help="A task's name, a .py with Model and get_inputs, or a class or function beside a get_inputs.",
    ),
]
Mine = Annotated[
    Path | None, typer.Option(metavar="MINE.py", help="A kernel that you already have; it is judged first.")
]
OneTask = Annotated[
    str,
    typer.Option("--task", metavar="TASK", help="A .py in the KernelBench form, a name, or FILE.py:CLASS."),
]
Kernel = Annotated[
    Path, typer.Option("--kernel", help="A .py with ModelNew; any other file is a completion.")
]
Sanitize = Annotated[
    bool, typer.Option("--sanitize", help="Also run accepted kernels under compute-sanitizer.")
]
Gradients = Annotated[
    bool,
    typer.Option("--gradients", help="Also judge the backward pass: gradients of inputs and parameters."),
]
Sizes = Annotated[
    str,
    typer.Option(
        "--sizes", metavar="N=1:4096,...", help="Judge for ranges of sizes: constants of TASK as LEAST:MOST."
    ),
]

Suite = Annotated[str, typer.Option("-s", "--suite", help=SUITES)]
EvalFolder = Annotated[
    Path | None, typer.Option("-o", "--out", help="Run folder; default: runs/eval-SUITE-POLICY.")
]
Before = Annotated[
    Path | None,
    typer.Option(
        "--kernels", metavar="RUN", help="For midend and backend: the run whose verified kernels to improve."
    ),
]
Migrate = Annotated[
    bool,
    typer.Option(
        "--migrate",
        help="Rewrite names that PyTorch has removed; kernels that are then correct count as `migrated`.",
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue a stopped run.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings that override the recipe's.")
]

Suites = Annotated[
    list[str] | None, typer.Option("-s", "--suite", help="Tasks that clients can name; several allowed.")
]
Store = Annotated[
    Path | None, typer.Option(help="SQLite file of verdicts; without one they are lost when the server ends.")
]
AllowSource = Annotated[
    bool,
    typer.Option(
        "--allow-source", help="Execute task sources that clients send. Only for clients you trust."
    ),
]
