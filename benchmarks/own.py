"""Measures the pipeline on the thirty modules of benchmarks/own_modules/, 45 seconds each on two cores.

python benchmarks/own.py list                          # calls each once
python benchmarks/own.py capture                       # the rows go to own-capture.jsonl, written anew
python benchmarks/own.py capture --only geglu --only focal_loss
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from field.measure import STAGES
from field.report import table
from own_modules import MODULES, Entry


def rows(entries: list[Entry], stage: str) -> list[dict[str, Any]]:
    """A row a module, in order; prints a line for each."""
    found = []
    for entry in entries:
        case = entry.make()
        row = {"package": "own", "class": entry.name, "dtype": entry.dtype, **STAGES[stage](case)}
        print(
            entry.name, entry.dtype, row["seconds"], "ok" if row["ok"] else row.get("message", row["cause"])
        )
        found.append(row)
        torch._dynamo.reset()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stage", choices=("list", *STAGES))
    parser.add_argument("--only", action="append", choices=[one.name for one in MODULES], metavar="NAME")
    parser.add_argument("--out", default="", help="own-STAGE.jsonl by default")
    given = parser.parse_args()
    chosen = [one for one in MODULES if not given.only or one.name in given.only]
    if given.stage == "list":
        for entry in chosen:
            module, args, kwargs = entry.make()
            with torch.no_grad():
                module(*args, **kwargs)
            print(entry.name, entry.dtype)
        return
    found = rows(chosen, given.stage)
    out = Path(given.out or f"own-{given.stage}.jsonl")
    out.write_text("".join(json.dumps(row) + "\n" for row in found))
    print(table(found))


if __name__ == "__main__":
    main()
