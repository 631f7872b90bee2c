"""Searches kernels for distinct groups of harvested or own modules: how many get a verified kernel, and their share of work.

    python benchmarks/field.py groups --site FOLDER --limit 30        # modules -> field-groups.jsonl, tasks -> field-groups/
    python benchmarks/groups.py field-groups.jsonl --sample 60        # -> field-groups-verified.jsonl, then the table
    python benchmarks/groups.py own-groups.jsonl

Groups are identified by the digest of their graph: the same layer in two packages is one. `--sample` draws that many at random,
by `--seed`, from groups of packages that may be read, and as many from those of packages for measurement only. The two are
reported separately, the latter without messages. Contractions are `auto`. Shares of nodes and of modelled eager time count a group
as often as it occurs in the modules. Groups that are in the rows file are not searched again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

from field.intervals import exact
from field.sources import MEASUREMENT_ONLY
from field.whole import cpu_seconds, reason

from kernelwright.records import FASTER, Task
from kernelwright.search.cache import KernelCache
from kernelwright.search.cases import of_task
from kernelwright.search.ladder import Ladder
from kernelwright.search.rungs import CompilerRung, LibraryRung
from kernelwright.search.whole import ENOUGH
from kernelwright.verify import VerifierPool

Row = dict[str, Any]


def groups_of(path: Path) -> dict[str, Row]:
    """Digest -> packages, nodes, modelled us and number of occurrences, from the modules' rows in a file."""
    found: dict[str, Row] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        row = row.get("row", row)
        for one in (row or {}).get("groups", ()):
            known = found.setdefault(one["digest"], {**one, "count": 0, "packages": []})
            known["count"] += one["count"]
            known["packages"] = sorted({*known["packages"], row["package"]})
    return found


def open_to_reading(group: Row) -> bool:
    return any(package not in MEASUREMENT_ONLY for package in group["packages"])


def search(groups: list[Row], folder: Path, out: Path, seconds: float) -> None:
    """Append a row per group to `out`."""
    done = {json.loads(line)["digest"] for line in out.read_text().splitlines()} if out.exists() else set()
    with VerifierPool(2, backend="interpret", deadline_s=30.0) as pool, out.open("a") as file:
        rungs = [CompilerRung("h200", "auto"), LibraryRung("h200")]
        for number, group in enumerate(groups):
            if group["digest"] in done:
                continue
            row = one_group(
                group, folder, Ladder(pool, rungs, KernelCache(None), contractions="auto"), seconds
            )
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(number, row["digest"], row["seconds"], row["ok"] or row["cause"], flush=True)


def one_group(group: Row, folder: Path, ladder: Ladder, seconds: float) -> Row:
    began, spent = time.monotonic(), cpu_seconds()
    row: Row = {"digest": group["digest"], "ok": False}
    if "unposed" in group:
        return row | {"cause": group["unposed"], "seconds": 0.0}
    task = Task.model_validate_json((folder / f"{group['digest']}.json").read_text())
    case = of_task(task)
    entry = ladder.search(case.graph, form=case.form, shapes=case.shapes, until=began + seconds)
    row |= {"seconds": round(time.monotonic() - began, 1), "cpu": round(cpu_seconds() - spent, 1)}
    row["load"] = round(os.getloadavg()[0], 1)
    if entry.best is not None:
        timing = entry.best.verdict.timing
        return row | {
            "ok": True,
            "rung": entry.best.rung,
            "kept": not timing or timing.speedup(FASTER) >= ENOUGH,
        }
    reasons = "; ".join(f"{rung}: {why}" for rung, why in entry.tried.items())
    row["cause"] = reason(f"no kernel was verified ({reasons})") if reasons else "the budget ended"
    return row | ({"message": reasons} if open_to_reading(group) else {})


def table(groups: dict[str, Row], rows: list[Row]) -> str:
    """A Markdown table: a line for each kind of package, then causes."""
    lines = ["| groups | distinct | searched | verified | share, exact 95 % | of nodes | of eager time |"]
    lines.append("|---|---|---|---|---|---|---|")
    for name, kept in (("open packages", True), ("measurement only", False)):
        whole = {digest for digest, one in groups.items() if open_to_reading(one) == kept}
        tried = [row for row in rows if row["digest"] in whole]
        good = [row for row in tried if row["ok"]]
        if not tried:
            continue
        low, high = exact(len(good), len(tried))
        share = f"{100 * len(good) / len(tried):.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
        held = [
            f"{_weight(groups, good, key) / max(_weight(groups, tried, key), 1e-9):.1%}"
            for key in ("nodes", "eager_us")
        ]
        cells = [name, str(len(whole)), str(len(tried)), str(len(good)), share, *held]
        lines.append(f"| {' | '.join(cells)} |")
        causes = Counter(row["cause"] for row in tried if not row["ok"])
        lines += [f"<!-- {name}: {count} {cause} -->" for cause, count in causes.most_common()]
    rungs = Counter(row["rung"] for row in rows if row["ok"])
    return "\n".join([*lines, f"\nrungs: {dict(rungs)}"])


def _weight(groups: dict[str, Row], rows: list[Row], key: str) -> float:
    """Nodes or modelled time of these groups, counted as often as they occur."""
    return sum(groups[row["digest"]][key] * groups[row["digest"]]["count"] for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", type=Path, help="what field.py groups or own.py groups wrote")
    parser.add_argument("--folder", type=Path, help="of the tasks; the rows' name without its ending")
    parser.add_argument("--sample", type=int, default=0, help="of each kind; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="for one group")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--report", action="store_true", help="only the table")
    args = parser.parse_args()
    groups = groups_of(args.rows)
    out = args.out or args.rows.with_name(f"{args.rows.stem}-verified.jsonl")
    chosen: list[Row] = []
    for kept in (True, False):
        kind = sorted(digest for digest, one in groups.items() if open_to_reading(one) == kept)
        random.Random(args.seed).shuffle(kind)
        chosen += [groups[digest] for digest in kind[: args.sample or len(kind)]]
    if not args.report:
        search(chosen, args.folder or args.rows.with_suffix(""), out, args.seconds)
    print(table(groups, [json.loads(line) for line in out.read_text().splitlines()]))


if __name__ == "__main__":
    main()
