"""Finds the inputs under which a class runs, in a forked child with limits.

A proposal counts when its output is finite, depends on its input, is the same twice, is not the input itself, leaves
its input alone, and when its full sizes run, too (on fake tensors). Sources are trusted code: the limits contain
accidents, not attacks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from kernelwright.children import forked
from kernelwright.data.harvest.guess import FULL, ODD, SMALL
from kernelwright.shapes import apply_shape
from kernelwright.tasks.reference import Reference

SECONDS = 120.0
"""Wall clock for one class; it takes a second where the machine is idle."""
CPU_SECONDS = 15
MEMORY = 8 * 2**30


def prepare() -> None:
    """Import here what every child would import."""
    import torch
    import torch.nn.functional
    from torch._subclasses.fake_tensor import FakeTensorMode

    torch.set_num_threads(1)
    with FakeTensorMode():
        torch.nn.Conv2d(2, 2, 1)(torch.randn(1, 2, 4, 4))


def search(sources: Sequence[str], seconds: float = SECONDS) -> dict[str, Any]:
    """{"source": ..., "shapes": ...} of the first proposal that runs, or {"reason": ...}."""
    ended = forked(
        lambda out: out.write(json.dumps(_first(sources)).encode()),
        seconds,
        memory=MEMORY,
        cpu_seconds=CPU_SECONDS,
    )
    if ended.status is None:
        return {"reason": "run: timeout"}
    return dict(json.loads(ended.data)) if ended.data else {"reason": "run: crash"}


def _first(sources: Sequence[str]) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    reason = "run: no inputs found"
    for source in sources:
        problem = _problem(source, SMALL)
        if problem.startswith("run: raises"):
            reason = problem if reason == "run: no inputs found" else reason
            continue
        if problem:
            return {"reason": problem}
        if _problem(source, {}, fake=True):
            return {"reason": "run: not at full size"}
        shapes = {"small": _of(source, SMALL)}
        odd = next((sizes for sizes in ODD if not _problem(source, sizes)), None)
        if odd is not None and _of(source, odd) != shapes["small"]:
            shapes["small_odd"] = _of(source, odd)
        return {"source": source, "shapes": shapes}
    return {"reason": reason}


def _of(source: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes that the source has."""
    return {name: size for name, size in sizes.items() if f"\n{name} = " in source and FULL[name] != size}


def _problem(source: str, sizes: Mapping[str, int], fake: bool = False) -> str:
    """What is wrong with the source at these sizes; empty when nothing is."""
    import contextlib

    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode: Any = FakeTensorMode() if fake else contextlib.nullcontext()
    try:
        torch.manual_seed(0)
        with torch.no_grad(), mode:
            reference = Reference(apply_shape(source, _of(source, sizes)))
            model = reference.module()
            given = reference.inputs()
            if fake:
                model(*given)
                return ""
            kept = [tensor.clone() for tensor in given]
            outputs = [_tensors(model(*[tensor.clone() for tensor in kept])) for _ in range(2)]
            model(*given)
            other = _tensors(model(*reference.inputs()))
    except Exception as error:
        return f"run: raises {type(error).__name__}"
    first, second = outputs
    if not first or any(not tensor.is_floating_point() or not tensor.numel() for tensor in first):
        return "run: no floating-point output"
    if any(not bool(torch.isfinite(tensor).all()) for tensor in first):
        return "run: output not finite"
    if any(not torch.equal(a, b) for a, b in zip(first, second, strict=True)):
        return "run: random"
    if any(not torch.equal(a, b) for a, b in zip(given, kept, strict=True)):
        return "run: changes its input"
    if any(a.shape == b.shape and torch.equal(a, b) for a in first for b in kept):
        return "run: hands its input back"
    if all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(first, other, strict=True)):
        return "run: does not depend on its input"
    return ""


def _tensors(output: Any) -> list[Any]:
    import torch

    if isinstance(output, torch.Tensor):
        return [output]
    if type(output) in (list, tuple):
        return [tensor for item in output for tensor in _tensors(item)]
    if output is None:
        return []
    raise TypeError(f"an output of type {type(output).__name__}")
