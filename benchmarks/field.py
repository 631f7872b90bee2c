"""Measures the pipeline on submodules of fourteen packages, harvested at run time: see benchmarks/field/__init__.py.

    python benchmarks/field.py capture --site FOLDER                             # everything, both dtypes
    python benchmarks/field.py capture --site FOLDER --package timm --limit 20   # twenty modules, drawn at random
    python benchmarks/field.py groups --site FOLDER --limit 20                   # then benchmarks/groups.py
    python benchmarks/field.py whole --site FOLDER --from field-groups.jsonl --sample 30
    python benchmarks/field.py report field-capture.jsonl
    python benchmarks/field.py graphs --site FOLDER --limit 3 --dtype bfloat16   # then, on a machine with a GPU and no packages:
    CUDA_VISIBLE_DEVICES=0 python benchmarks/field.py clock field-graphs.jsonl OUT --only 0/8      # modules
    CUDA_VISIBLE_DEVICES=0 python benchmarks/field.py clock field-graphs.jsonl OUT --only 0/8 --groups
    python benchmarks/field.py clocked field-graphs.jsonl OUT
    python benchmarks/field.py clock field-graphs.jsonl OUT --whole              # no packages and no GPU: as `whole`; FIELD_TIMES=1 above

`FOLDER` is where the packages are installed (the command is in benchmarks/field/__init__.py). Rows go to `--out`; modules
with a row are not measured again. A worker that dies or exceeds `--seconds` on a module costs only that module.
Failures of `transformers`, `torchvision`, `monai` and `open_clip` are counted by cause; their messages are not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from field.measure import STAGES
from field.report import table
from field.sources import MEASUREMENT_ONLY, PACKAGES

from kernelwright.errors import UserError
from kernelwright.records import Task

HERE = Path(__file__).resolve().parent
Row = dict[str, Any]


def run(order: dict[str, Any], limit_s: float) -> Iterator[tuple[str, Row | None]]:
    """(key, row) as they come; a worker that dies or stalls is replaced, and its module gets a row of failure."""
    while True:
        under_way, ended = "", False
        for line in _lines(order, limit_s):
            if "begin" in line:
                under_way, known = line["begin"], line.get("known")
            elif "end" in line:
                ended = line["end"] == 0
                how = "timeout" if line["end"] is None else f"worker died ({line['end']})"
            else:
                under_way = ""
                order["done"].append(line["key"])
                yield line["key"], line["row"]
        if ended:
            return
        if not under_way:
            raise UserError(
                f"the worker for {order['package']} ended before its first module: {how}; see above"
            )
        order["done"].append(under_way)
        package, name = under_way.split(":")[:2]
        row = known or {"package": package, "model": name}
        cause = {"ok": False, "cause": how, "seconds": limit_s} if known else {"harvest": how}
        yield under_way, {**row, **cause}


def _lines(order: dict[str, Any], limit_s: float) -> Iterator[dict[str, Any]]:
    """What one worker writes, then `{"end": exit status}`; status None if it was killed after `limit_s` of silence."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *sys.path[1:]])}
    command = [sys.executable, "-m", order.get("worker", "field.worker")]
    worker = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    lines: queue.Queue[str | None] = queue.Queue()
    assert worker.stdin is not None
    with worker.stdin:
        worker.stdin.write(json.dumps(order))

    def read() -> None:
        for line in worker.stdout or ():
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    try:
        while (line := lines.get(timeout=limit_s)) is not None:
            yield json.loads(line)
        yield {"end": worker.wait()}
    except queue.Empty:
        yield {"end": None}
    finally:
        worker.kill()
        worker.wait()


def measure(given: argparse.Namespace) -> None:
    """Append missing rows to `--out`; prints a line per module and the table."""
    out = Path(given.out or f"field-{given.stage}.jsonl")
    found = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    dtypes = ["float32", "bfloat16"] if given.dtype == "both" else [given.dtype]
    with out.open("a") as file:
        for package in given.package or PACKAGES:
            done = [line["key"] for line in found if line["key"].startswith(f"{package}:")]
            order = {"stage": given.stage, "package": package, "dtypes": dtypes, "limit": given.limit}
            only = _sampled(given, package)
            if given.among and not only:
                continue
            order |= {"site": given.site, "done": done, "seed": given.seed, "only": only}
            try:
                for key, row in run(order, given.seconds):
                    file.write(json.dumps({"key": key, "row": row}) + "\n")
                    file.flush()
                    _tell(row)
            except UserError as error:
                print(error, file=sys.stderr)
    print(report(out))


def clock(given: argparse.Namespace) -> None:
    """Append rows to OUT/rows.jsonl, or with `--groups` those of schedules.py to OUT/groups/rows.jsonl."""
    from field.clock import modules_of

    part = [int(one) for one in given.only.split("/")]
    out = given.out / "rows.jsonl"
    given.out.mkdir(parents=True, exist_ok=True)
    if given.groups:
        from schedule_problems import problem_of
        from schedules import attempts, fits
        from schedules import run as run_schedules

        rows = modules_of(given.file).values()
        tasks = {one["task"]["id"]: one["task"] for row in rows for one in row["groups"] if "task" in one}
        chosen = [problem_of(Task.model_validate(tasks[name])) for name in sorted(tasks)[part[0] :: part[1]]]
        chosen = [one for one in chosen if fits(one)]
        run_schedules(
            chosen,
            given.out / "groups",
            given.seconds,
            given.jobs,
            lambda problem, folder: attempts(problem, folder, given.limit),
        )
        return
    done = [json.loads(line)["key"] for line in out.read_text().splitlines()] if out.exists() else []
    order = {"worker": "field.clock", "package": "the clock", "file": str(given.file), "part": part}
    order |= {"search": given.search, "dry": given.dry_run, "whole": given.whole, "done": done}
    with out.open("a") as file:
        for key, row in run(order, given.seconds):
            file.write(json.dumps({"key": key, "row": row}) + "\n")
            file.flush()
            _tell(row)


def _sampled(given: argparse.Namespace, package: str) -> dict[str, list[str]]:
    """Model -> keys of a sample of the modules in the rows file `--from`; half of them of packages for measurement only."""
    if not given.among:
        return {}
    lines = [json.loads(line) for line in given.among.read_text().splitlines()]
    found: dict[str, list[str]] = {}
    for kept in (True, False):
        rows = [
            one for one in lines
            if one["row"] and "ok" in one["row"] and (one["row"]["package"] in MEASUREMENT_ONLY) == kept
        ]  # fmt: skip
        for one in random.Random(given.seed).sample(rows, min(given.sample // 2, len(rows))):
            if one["row"]["package"] == package:
                found.setdefault(one["row"]["model"], []).append(one["key"])
    return found


def report(path: Path) -> str:
    """The table of a file of rows."""
    lines = (json.loads(line) for line in path.read_text().splitlines())
    return table([line["row"] for line in lines if line["row"]])


def _tell(row: Row | None) -> None:
    if row is not None:
        how = "ok" if row.get("ok") else row.get("cause") or row.get("unfit") or row.get("harvest")
        name = row.get("class", row["model"]).rpartition(".")[2]
        print(f"{row['package']} {name} {row.get('dtype', '')} {row.get('seconds', '')} {how}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="stage", required=True)
    for stage in STAGES:
        one = commands.add_parser(stage)
        one.add_argument("--site", default="", help="folder where the packages were installed")
        one.add_argument(
            "--package", action="append", choices=sorted(PACKAGES), help="one or several; all by default"
        )
        one.add_argument(
            "--limit",
            type=int,
            default=0,
            help="modules a package, drawn at random from as many models; 0: all",
        )
        one.add_argument("--seed", type=int, default=1, help="of what is drawn")
        one.add_argument(
            "--from", dest="among", type=Path, help="rows of another stage: a sample of their modules"
        )
        one.add_argument("--sample", type=int, default=30, help="modules drawn with --from")
        one.add_argument("--dtype", choices=("float32", "bfloat16", "both"), default="both")
        one.add_argument(
            "--seconds", type=float, default=180.0, help="for one module, then its worker is replaced"
        )
        one.add_argument("--out", default="", help="rows, appended; field-STAGE.jsonl by default")
    commands.add_parser("report").add_argument("file", type=Path)
    one = commands.add_parser("clock")
    one.add_argument("file", type=Path)
    one.add_argument("out", type=Path)
    one.add_argument("--only", default="0/1", help="i/n: one part of the modules or groups")
    one.add_argument("--search", type=float, default=40.0, help="seconds of search for a module")
    one.add_argument("--seconds", type=float, default=400.0, help="for one module; with --groups for all")
    one.add_argument("--groups", action="store_true", help="groups one by one, by schedules.py")
    one.add_argument("--limit", type=int, default=8, help="schedules a group, at most")
    one.add_argument("--jobs", type=int, default=14, help="processes that compile schedules")
    one.add_argument("--dry-run", action="store_true", help="without a GPU: small sizes, and compilation")
    one.add_argument(
        "--whole", action="store_true", help="without a GPU: as the stage `whole`, with WHOLE_SECONDS"
    )
    one = commands.add_parser("clocked")
    one.add_argument("file", type=Path)
    one.add_argument("out", type=Path)
    given = parser.parse_args()
    if given.stage == "report":
        print(report(given.file))
    elif given.stage == "clock":
        clock(given)
    elif given.stage == "clocked":
        from field.clock import clocked

        print(clocked(given.file, given.out))
    else:
        measure(given)


if __name__ == "__main__":
    main()
