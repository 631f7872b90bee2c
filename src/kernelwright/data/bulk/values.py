"""What references compute at their small sizes: whether two are the same task, and whether one is worth asking about.

Runs the sources, which are our own. Seeds are fixed: these are not the judge's inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelwright import shapes
from kernelwright.records import Task
from kernelwright.tasks.reference import Reference

FLAT = 1e-3
"""Least deviation of an output worth asking for, as a share of its largest value."""
FEWEST = 8
"""Elements from which on that can be told."""


def same(first: Task, second: Task) -> bool:
    """Whether weights by name, inputs and outputs are equal bit for bit at every small shape."""
    one, other = ([_run(task, over) for over in task.shapes.values()] for task in (first, second))
    return None not in one and one == other


def varies(task: Task) -> bool:
    """Whether some small shape's outputs are finite and not nearly a constant."""
    import torch

    for over in task.shapes.values():
        with torch.no_grad():
            outputs = _outputs(task, over)
        for output in outputs or ():
            if not output.is_floating_point() or output.numel() < FEWEST:
                return True
            value = output.double()
            if bool(torch.isfinite(value).all()) and float(value.std()) > FLAT * float(value.abs().max()):
                return True
    return False


def _run(task: Task, over: Any) -> tuple[list[str], list[tuple[str, tuple[int, ...], bytes]]] | None:
    """Names of weights; weights, inputs and outputs as bytes; None where the reference does not run."""
    import torch
    from torch.utils._pytree import tree_leaves

    made = _made(task, over)
    if made is None:
        return None
    state, given, output = made
    tensors = [x for x in tree_leaves((list(state.values()), given, output)) if isinstance(x, torch.Tensor)]
    return list(state), [
        (str(x.dtype), tuple(x.shape), x.contiguous().flatten().view(torch.uint8).numpy().tobytes())
        for x in tensors
    ]


def _outputs(task: Task, over: Any) -> Sequence[Any] | None:
    import torch
    from torch.utils._pytree import tree_leaves

    made = _made(task, over)
    return None if made is None else [x for x in tree_leaves(made[2]) if isinstance(x, torch.Tensor)]


def _made(task: Task, over: Any) -> tuple[dict[str, Any], list[Any], Any] | None:
    import torch

    try:
        reference = Reference(shapes.apply_shape(task.source, over))
        torch.manual_seed(0)
        with torch.no_grad():
            model = reference.module()
            torch.manual_seed(1)
            inputs = reference.inputs()
            given = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
            state = {name: value.clone() for name, value in model.state_dict().items()}
            return state, given, model(*inputs)
    except Exception:
        return None
