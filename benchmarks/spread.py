"""Verdicts per second of the judge's pool by number of GPUs, compared with the service and Ray.

    python benchmarks/spread.py [pool:1 pool:2 service:2 ray:2] [--seconds 40] [--workers 14] [--backend cuda]

Candidates are golds of the built-in tasks under unique names, so that no binary or verdict is cached; `--workers` are per GPU. A
first pass over the tasks makes references and baselines and is not counted. Then there are always candidates waiting, and
verdicts that end within `--seconds` are counted, after as many seconds as the slowest take to begin: with a fixed number of
candidates the last few long ones would decide the rate. All ways judge under `strict` with the service's own settings, and every
verdict must be `correct`. Each way is compared with itself on fewer GPUs, and with the pool on
as many. Not measured: several machines.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from verify import renamed

from kernelwright import tasks
from kernelwright.policy.gold import gold
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.verify import opened
from kernelwright.verify.remote import RemotePool

TOKEN = "benchmark"
_SETTLING_S = 8.0
_MOST_A_SECOND = 6.0
"""Candidates that wait, by GPU and second: more than any judge gets through."""


@contextmanager
def pool(args: argparse.Namespace, gpus: int) -> Iterator[Any]:
    with opened.judge(None, args.backend, "strict", args.target, args.workers * gpus, 60.0) as made:
        yield made


@contextmanager
def served(*options: str) -> Iterator[str]:
    """The address of a server that is ended afterwards; its token is TOKEN."""
    command = [sys.executable, "-m", "kernelwright", "serve", "--port", "0", "--token", TOKEN, "--deadline-s", "60",
               "--queue", "1024", "--per-token", "1024", *options]  # fmt: skip
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert server.stdout is not None
    try:
        yield next(filter(None, (re.search(r"http://[\d.]+:\d+", line) for line in server.stdout))).group()
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


@contextmanager
def service(args: argparse.Namespace, gpus: int) -> Iterator[Any]:
    workers = args.workers * gpus
    options = ("--backend", args.backend, "--target", args.target, "--workers", str(workers))
    with served(*options) as address, RemotePool(address, TOKEN, workers=2 * workers) as made:
        yield made


@contextmanager
def cluster(args: argparse.Namespace, gpus: int) -> Iterator[Any]:
    import ray

    from kernelwright.verify.cluster import ClusterPool

    workers, on_gpus = args.workers * gpus, gpus if args.backend == "cuda" else 0
    ray.init(
        num_cpus=workers,
        num_gpus=on_gpus,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=2e8,
    )
    try:
        options: dict[str, Any] = {
            "backend": args.backend,
            "target": args.target,
            "deadline_s": 60.0,
            "kept": True,
        }
        with ClusterPool(at_once=workers, **options) as made:
            yield made
    finally:
        ray.shutdown()


WAYS = {"pool": pool, "service": service, "ray": cluster}


def pairs(suffix: str, count: int) -> list[tuple[Task, Candidate]]:
    suite = tasks.load_suite("wright")[::4]
    chosen = [suite[number % len(suite)] for number in range(count)]
    code = [renamed(gold(task.id), f"{suffix}{number}") for number, task in enumerate(chosen)]
    return [(task, Candidate(code=text)) for task, text in zip(chosen, code, strict=True)]


def measure(args: argparse.Namespace, mode: str, gpus: int) -> dict[str, Any]:
    if args.backend == "cuda":
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(gpus)))
    began, ended = time.perf_counter(), list[tuple[float, str]]()
    with WAYS[mode](args, gpus) as judge:
        judge.verify_many(pairs(f"{mode[0]}{gpus}w", len(tasks.load_suite("wright")[::4])))
        warm = time.perf_counter() - began

        def note(future: Future[Verdict]) -> None:
            if not future.cancelled():
                ended.append((time.perf_counter(), future.result().outcome.value))

        most = math.ceil(_MOST_A_SECOND * gpus * (_SETTLING_S + args.seconds))
        futures = [judge.submit(task, candidate) for task, candidate in pairs(f"{mode[0]}{gpus}x", most)]
        for future in futures:
            future.add_done_callback(note)
        time.sleep(_SETTLING_S)
        start = time.perf_counter()
        time.sleep(args.seconds)
        counted = [outcome for at, outcome in list(ended) if start <= at < start + args.seconds]
        for future in futures:
            future.cancel()
    return {
        "way": mode,
        "gpus": gpus,
        "verdicts": len(counted),
        "a_second": len(counted) / args.seconds,
        "first_pass_s": warm,
        "outcomes": dict(Counter(counted)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "ways", nargs="*", default=["pool:1", "pool:2", "service:2", "ray:2"], metavar="WAY:GPUS"
    )
    for name, default in (("backend", "cuda"), ("target", "h100")):
        parser.add_argument(f"--{name}", default=default)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--here", action="store_true", help="measure one way in this process, and print its row"
    )
    args = parser.parse_args()
    if args.here:
        mode, gpus = args.ways[0].split(":")
        print("ROW" + json.dumps(measure(args, mode, int(gpus))), flush=True)
        return 0
    rows: list[dict[str, Any]] = []
    print(
        f"{'way':10}{'GPUs':>5}{'verdicts':>10}{'a second':>10}{'first pass s':>14}{'beside':>24}", flush=True
    )
    given = [f"--{name}={getattr(args, name)}" for name in ("backend", "target", "seconds", "workers")]
    for mode in args.ways:
        # A process can set the number of CUDA devices only once.
        done = subprocess.run(
            [sys.executable, __file__, mode, "--here", *given], stdout=subprocess.PIPE, text=True
        )
        found = [json.loads(text[3:]) for text in done.stdout.splitlines() if text.startswith("ROW")]
        rows += found
        print(line(rows) if found else f"{mode} failed: {done.returncode}", flush=True)
        if args.json:
            args.json.write_text(json.dumps(rows, indent=1))
    return int(any(set(row["outcomes"]) != {"correct"} for row in rows))


def line(rows: list[dict[str, Any]]) -> str:
    """The last row, with its ratio to comparable earlier rows."""
    row, ratios = rows[-1], []
    for other in rows[:-1]:
        fewer = other["way"] == row["way"] and other["gpus"] < row["gpus"]
        if fewer or (other["way"] == "pool" and other["gpus"] == row["gpus"]):
            ratios.append(f"{row['a_second'] / other['a_second']:.2f} x {other['way']}:{other['gpus']}")
    wrong = {name: count for name, count in row["outcomes"].items() if name != "correct"}
    return (f"{row['way']:10}{row['gpus']:5}{row['verdicts']:10}{row['a_second']:10.2f}{row['first_pass_s']:14.1f}"
            f"{', '.join(ratios):>24}{'  ' + str(wrong) if wrong else ''}")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
