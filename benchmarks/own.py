"""Measures the pipeline on the thirty modules of benchmarks/own_modules/, 45 seconds each on two cores.

python benchmarks/own.py list                          # calls each once
python benchmarks/own.py capture                       # the rows go to own-capture.jsonl; modules with a row are not measured again
python benchmarks/own.py whole --only geglu --only focal_loss
FIELD_GROUPS=own-groups python benchmarks/own.py groups      # then benchmarks/groups.py own-groups.jsonl

For `whole` each module has a process of its own, so that its budget includes imports and startup.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from field.measure import STAGES
from field.report import table
from own_modules import MODULES, Entry


def measured(entry: Entry, stage: str) -> dict[str, Any]:
    """A module's row, measured in this process."""
    case = entry.make()
    row = {"package": "own", "class": entry.name, "dtype": entry.dtype, **STAGES[stage](case)}
    torch._dynamo.reset()
    return row


def apart(entry: Entry, stage: str) -> dict[str, Any]:
    """The same, measured in a process of its own."""
    command = [sys.executable, __file__, stage, "--only", entry.name, "--row"]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if ended.returncode:
        cause = f"{stage}: its process ended with {ended.returncode}"
        return {
            "package": "own",
            "class": entry.name,
            "dtype": entry.dtype,
            "ok": False,
            "cause": cause,
            "seconds": 0,
        }
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stage", choices=("list", *STAGES))
    parser.add_argument("--only", action="append", choices=[one.name for one in MODULES], metavar="NAME")
    parser.add_argument("--out", default="", help="own-STAGE.jsonl by default")
    parser.add_argument("--row", action="store_true", help="print the row of one module, and keep none")
    options = parser.parse_args()
    chosen = [one for one in MODULES if not options.only or one.name in options.only]
    if options.stage == "list":
        for entry in chosen:
            module, args, kwargs = entry.make()
            with torch.no_grad():
                module(*args, **kwargs)
            print(entry.name, entry.dtype)
        return
    torch.set_num_threads(1)
    if options.row:
        print(json.dumps(measured(chosen[0], options.stage)))
        return
    out = Path(options.out or f"own-{options.stage}.jsonl")
    found = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {row["class"] for row in found}
    with out.open("a") as file:
        for entry in chosen:
            if entry.name in done:
                continue
            row = (apart if options.stage == "whole" else measured)(entry, options.stage)
            file.write(json.dumps(row) + "\n")
            file.flush()
            found.append(row)
            how = "ok" if row["ok"] else row.get("message", row["cause"])
            print(entry.name, entry.dtype, row["seconds"], how, flush=True)
    print(table(found))


if __name__ == "__main__":
    main()
