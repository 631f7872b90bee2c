"""One package's modules through a stage, in a process of its own: writes a line of JSON as each begins and as each ends.

The order is JSON on stdin: stage, package, dtypes, limit, seed, site, the keys that are `done`, and `only`, the keys to
measure by model, unless all are. If a module takes too long, the parent kills this worker and starts another with that
module in `done`. Output of the packages goes to stderr. For packages for measurement only, lines have no message.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import warnings
from collections.abc import Iterator
from typing import Any, TextIO

import torch

from field.cause import cause
from field.graphs import doubled
from field.measure import STAGES
from field.sources import MEASUREMENT_ONLY, Source, sources
from kernelwright.graph.submodules import Called, submodules


def main() -> None:
    """Reads the order, writes lines to the original stdout."""
    order = json.load(sys.stdin)
    lines, sys.stdout = sys.stdout, sys.stderr
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.path.append(order["site"])
    done = set(order["done"])
    models = list(sources(order["package"]).values())
    only: dict[str, list[str]] = order["only"]
    if only:
        models = [one for one in models if one.name in only]
    for source in _drawn(models, order["limit"], order["seed"]):
        key = f"{source.package}:{source.name}:{order['limit'] or 'all'}:{'+'.join(order['dtypes'])}"
        if key in done:
            continue
        say(lines, {"begin": key})
        modules = _harvested(lines, key, source, order["stage"])
        each = -(-order["limit"] // len(models))
        for one in _drawn(modules, each, order["seed"]):
            for dtype in order["dtypes"]:
                if not only or f"{source.package}:{one.digest}:{dtype}" in only[source.name]:
                    _measured(lines, done, source, one, dtype, order["stage"])
        say(lines, {"key": key, "row": None})
        del modules
        torch._dynamo.reset()
        gc.collect()


def _harvested(lines: TextIO, key: str, source: Source, stage: str) -> list[Called]:
    try:
        torch.manual_seed(0)
        built = doubled(source.build()) if stage == "graphs" else source.build()
        return submodules(*built, source.package, whole=source.whole)
    except Exception as error:  # a model that cannot be built or run here gives no modules
        row = {"package": source.package, "model": source.name, "harvest": cause("harvest", error)}
        if source.package not in MEASUREMENT_ONLY:
            row["message"] = " ".join(str(error).split())[:300]
        say(lines, {"key": f"{key}:harvest", "row": row})
        return []


def _measured(lines: TextIO, done: set[str], source: Source, one: Called, dtype: str, stage: str) -> None:
    key = f"{source.package}:{one.digest}:{dtype}"
    if key in done:
        return
    done.add(key)
    known = {"package": source.package, "model": source.name, "path": one.path, "class": one.cls}
    row: dict[str, Any] = {**known, "digest": one.digest, "dtype": dtype, "operators": one.operators}
    say(lines, {"begin": key, "known": row})
    try:
        case = one.make(dtype)
    except Exception as error:  # the module itself cannot run in this dtype, so it is excluded
        row["unfit"] = cause("module", error)
    else:
        row |= STAGES[stage](case)
    if source.package in MEASUREMENT_ONLY:
        row.pop("message", None)
    say(lines, {"key": key, "row": row})


def _drawn(items: list[Any], count: int, seed: int) -> Iterator[Any]:
    """A random sample of `count` items, in their order; all if `count` is 0."""
    places = range(len(items))
    chosen = random.Random(seed).sample(places, min(count, len(items))) if count else places
    for at in sorted(chosen):
        yield items[at]


def say(lines: TextIO, line: dict[str, Any]) -> None:
    """Write one line at once."""
    lines.write(json.dumps(line) + "\n")
    lines.flush()


if __name__ == "__main__":
    main()
