"""One module through a stage of the pipeline, as a row of plain values: the result, its time, or why it failed.

`capture`    the forward as one graph that agrees with the module on secret values, in its dtype and in fp64; breaking
             into several graphs counts as failure
`groups`     its groups as tasks, for which `benchmarks/groups.py` searches kernels
`graphs`     the module and its groups as tasks at a larger batch, for the clock on another machine: see graphs.py
`whole`      a kernel for the whole, with the search of `kernelwright.optimize`: see whole.py

Does not time kernels on a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from field.cause import cause
from field.graphs import measure_graphs
from field.whole import measure_groups, measure_whole
from kernelwright.graph.agree import agree
from kernelwright.graph.capture import capture

Row = dict[str, Any]
Case = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]


def measure_capture(case: Case) -> Row:
    """`ok`, `how`, `parts`, `nodes`, `seconds`; after a failure `cause` and `message`."""
    module, args, kwargs = case
    started = time.monotonic()
    row: Row = {"ok": False}
    try:
        captured = capture(module, args, kwargs)
    except Exception as error:  # any exception from capture counts as its failure
        return row | _failure("capture", error, started)
    row |= {"how": captured.how, "parts": len(captured.parts)}
    row |= {"nodes": sum(len(part.graph.nodes) for part in captured.parts)}
    row |= {"capture_seconds": round(time.monotonic() - started, 2)}
    if captured.how == "dynamo":
        return row | {"cause": "capture: several graphs", "seconds": round(time.monotonic() - started, 2)}
    try:
        row["fp64"] = agree(captured.part, seed=0).fp64 is not None
    except Exception as error:  # a disagreement or a fault of the comparison: both count
        return row | _failure("agree", error, started)
    return row | {"ok": True, "seconds": round(time.monotonic() - started, 2)}


STAGES: dict[str, Callable[[Case], Row]] = {
    "capture": measure_capture,
    "groups": measure_groups,
    "graphs": measure_graphs,
    "whole": measure_whole,
}


def _failure(stage: str, error: BaseException, started: float) -> Row:
    message = " ".join(str(error).split())[:400]
    return {"cause": cause(stage, error), "message": message, "seconds": round(time.monotonic() - started, 2)}
