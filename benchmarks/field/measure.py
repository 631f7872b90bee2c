"""One module through a stage of the pipeline, as a row of plain values: what was reached, in which time, or why not.

`capture`    the forward as one graph that agrees with the module on secret values, in its dtype and in fp64; one that
             breaks into several graphs does not count
`partition`  its groups: how many, and which share of nodes and of modelled eager time (bfloat16 or float32 on an H200)
             they hold, which bounds from above what own kernels can hold; every group is a graph that validates

Does not time or judge kernels.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from field.cause import cause
from field.eager_time import node_times
from kernelwright.graph.agree import agree
from kernelwright.graph.capture import capture
from kernelwright.graph.partition import partition
from kernelwright.hardware import target

Row = dict[str, Any]
Case = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]


def measure_capture(case: Case) -> Row:
    """`ok`, `how`, `parts`, `nodes`, `seconds`; where it failed `cause` and `message`."""
    module, args, kwargs = case
    started = time.monotonic()
    row: Row = {"ok": False}
    try:
        captured = capture(module, args, kwargs)
    except Exception as error:  # whatever capture lets through is what is measured
        return row | _failure("capture", error, started)
    row |= {"how": captured.how, "parts": len(captured.parts)}
    row |= {"nodes": sum(len(part.graph.nodes) for part in captured.parts)}
    row |= {"capture_seconds": round(time.monotonic() - started, 2)}
    if captured.how == "dynamo":
        return row | {"cause": "capture: several graphs", "seconds": round(time.monotonic() - started, 2)}
    try:
        row["fp64"] = agree(captured.part, seed=0).fp64 is not None
    except Exception as error:  # a disagreement, or a fault of the comparison: both are what is measured
        return row | _failure("agree", error, started)
    return row | {"ok": True, "seconds": round(time.monotonic() - started, 2)}


def measure_partition(case: Case) -> Row:
    """As `measure_capture`, and `groups`, `distinct`, `grouped` nodes, `eager_us` and `grouped_us` modelled."""
    module, args, kwargs = case
    started = time.monotonic()
    try:
        graph = capture(module, args, kwargs, breaks=False).graph
    except Exception as error:  # whatever capture lets through is what is measured
        return {"ok": False} | _failure("capture", error, started)
    try:
        split = partition(graph)
        times = dict(zip(graph.nodes, node_times(graph, target("h200")), strict=True))
    except Exception as error:  # the same of partition
        return {"ok": False} | _failure("partition", error, started)
    grouped = {node for group in split.groups for node in group.nodes}
    total = sum(times.values())
    row: Row = {
        "ok": True,
        "nodes": len(times),
        "groups": len(split.groups),
        "distinct": len(split.distinct()),
    }
    row["grouped"] = sum(node in grouped for node in times)
    row |= {
        "eager_us": round(total, 1),
        "grouped_us": round(sum(times[node] for node in times if node in grouped), 1),
    }
    return row | {"seconds": round(time.monotonic() - started, 2)}


STAGES: dict[str, Callable[[Case], Row]] = {"capture": measure_capture, "partition": measure_partition}


def _failure(stage: str, error: BaseException, started: float) -> Row:
    message = " ".join(str(error).split())[:400]
    return {"cause": cause(stage, error), "message": message, "seconds": round(time.monotonic() - started, 2)}
