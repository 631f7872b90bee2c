"""Runs one piece of a training run on a machine lent for minutes: unpacks, continues, stops in time, packs for the next piece.

    python benchmarks/piece.py RECIPE RUN --seconds 540 --pack OUT/run.tar [--from OUT/run.tar] [KEY=VALUE ...]

Runs `kernelwright train RECIPE -o RUN --resume` and interrupts it when time is nearly up (work since the last
checkpoint is repeated in the next piece: set `save_every` to a minute or two). Then packs the run folder: logs, finished
checkpoints, and only the last checkpoint of the running stage, in files of at most `--part` MiB: run.tar.0, run.tar.1 ... The
corpus is packed only if it lies in RUN. The last line says which stages are done. Exit code 0 if all are, 75 if another piece is needed.
"""

from __future__ import annotations

import argparse
import io
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

from kernelwright.config import load_recipe
from kernelwright.runs import RunFolder

AGAIN = 75
"""Exit code: stopped in time, and not done."""
GRACE_S = 40.0
"""Seconds for an interrupted run to shut down."""


def unpack(pack: Path, run: Path) -> None:
    """Unpack over existing files."""
    run.mkdir(parents=True, exist_ok=True)
    parts = sorted(pack.parent.glob(f"{pack.name}.*"), key=lambda one: int(one.suffix[1:]))
    with tarfile.open(fileobj=io.BytesIO(b"".join(one.read_bytes() for one in parts))) as tar:
        tar.extractall(run, filter="data")


def wanted(run: Path) -> Iterator[Path]:
    """Files that the next piece needs."""
    old: set[Path] = set()
    for steps in run.glob("stages/*/steps"):
        checkpoints = sorted(steps.glob("checkpoint-*"), key=lambda one: int(one.name.split("-")[1]))
        old |= set(checkpoints[:-1])
    for path in sorted(run.rglob("*")):
        if path.is_file() and not any(folder in path.parents for folder in old):
            yield path


def pack(run: Path, out: Path, part: float) -> float:
    """Write the archive in parts of `part` MiB; returns its size in MiB."""
    out.parent.mkdir(parents=True, exist_ok=True)
    for old in out.parent.glob(f"{out.name}.*"):
        old.unlink()
    whole, size = io.BytesIO(), int(part * 2**20)
    with tarfile.open(fileobj=whole, mode="w:gz", compresslevel=1) as tar:
        for path in wanted(run):
            tar.add(path, path.relative_to(run))
    data = whole.getvalue()
    for number, start in enumerate(range(0, len(data), size)):
        out.with_name(f"{out.name}.{number}").write_bytes(data[start : start + size])
    return len(data) / 2**20


def go_on(recipe: Path, run: Path, seconds: float, overrides: list[str]) -> None:
    """Run the command, and interrupt it after so many seconds."""
    command = [sys.executable, "-m", "kernelwright", "train", str(recipe), "-o", str(run), *overrides]
    process = subprocess.Popen([*command, *(["--resume"] if (run / "config.json").exists() else [])])
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--seconds", type=float, default=540.0, help="for all of it, packing included")
    parser.add_argument("--pack", type=Path, required=True)
    parser.add_argument("--from", dest="given", type=Path)
    parser.add_argument("--part", type=float, default=15.0, help="MiB of a file of the pack, at most")
    parser.add_argument("--packing", type=float, default=30.0, help="seconds that packing may take")
    args = parser.parse_intermixed_args()
    start = time.monotonic()
    if args.given is not None:
        unpack(args.given, args.run)
    seconds = args.seconds - args.packing - GRACE_S - (time.monotonic() - start)
    go_on(args.recipe, args.run, max(seconds, 5.0), args.overrides)
    size = pack(args.run, args.pack, args.part)
    stages = load_recipe(args.recipe, args.overrides).stages
    folder = RunFolder(args.run)
    done = [stage for stage in stages if folder.done(stage) and folder.done(f"eval/{stage}")]
    print(f"done: {', '.join(done) or 'none'} of {', '.join(stages)}; {size:.1f} MiB in {args.pack}")
    return 0 if len(done) == len(stages) else AGAIN


if __name__ == "__main__":
    sys.exit(main())
