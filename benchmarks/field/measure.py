"""One module through a stage of the pipeline, as a row of plain values: what was reached, in which time, or why not.

`capture`: the forward as one graph that agrees with the module. A forward that breaks into several graphs counts as
captured in parts, not as captured. Does not time kernels: there is no GPU here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from field.cause import cause
from kernelwright.graph.capture import capture

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
    if captured.call is None:
        return row | {"cause": "capture: several graphs", "seconds": round(time.monotonic() - started, 2)}
    return row | {"ok": True, "seconds": round(time.monotonic() - started, 2)}


STAGES: dict[str, Callable[[Case], Row]] = {"capture": measure_capture}


def _failure(stage: str, error: BaseException, started: float) -> Row:
    message = " ".join(str(error).split())[:400]
    return {"cause": cause(stage, error), "message": message, "seconds": round(time.monotonic() - started, 2)}
