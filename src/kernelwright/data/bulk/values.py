"""What references compute at their small sizes: whether two are the same task, and whether one is worth asking about.

Runs the sources, which are our own. Seeds are fixed: these are not the judge's inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kernelwright import shapes
from kernelwright.records import Task
from kernelwright.tasks.reference import Reference

FLAT = 1e-3
"""Least deviation of an output worth asking for, as a share of its largest value."""
FEWEST = 8
"""Elements from which on that can be told."""


class Run(NamedTuple):
    """One forward at one small shape."""

    state: dict[str, Any]
    """Weights and buffers by name, as they were before."""
    inputs: list[Any]
    """As they were before, too."""
    output: Any


def same(first: Task, second: Task) -> bool:
    """Whether weights by name, inputs and outputs are equal bit for bit at every small shape."""
    one, other = ([_bits(_run(task, sizes)) for sizes in task.shapes.values()] for task in (first, second))
    return None not in one and one == other


def varies(task: Task) -> bool:
    """Whether some small shape's outputs are finite and not nearly a constant."""
    runs = (_run(task, sizes) for sizes in task.shapes.values())
    return any(_varied(output) for run in runs if run is not None for output in _tensors(run.output))


def _varied(output: Any) -> bool:
    import torch

    if not output.is_floating_point() or output.numel() < FEWEST:
        return True
    value = output.double()
    return bool(torch.isfinite(value).all()) and float(value.std()) > FLAT * float(value.abs().max())


def _run(task: Task, sizes: Mapping[str, int]) -> Run | None:
    """None where the reference does not run."""
    import torch

    try:
        reference = Reference(shapes.apply_shape(task.source, sizes))
        torch.manual_seed(0)
        with torch.no_grad():
            model = reference.module()
            torch.manual_seed(1)
            inputs = reference.inputs()
            given = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
            state = {name: value.clone() for name, value in model.state_dict().items()}
            return Run(state, given, model(*inputs))
    except Exception:
        return None


def _bits(run: Run | None) -> tuple[list[str], list[tuple[str, tuple[int, ...], bytes]]] | None:
    """Names of weights; then type, shape and bytes of weights, inputs and outputs. None for no run."""
    import torch

    if run is None:
        return None
    return list(run.state), [
        (str(x.dtype), tuple(x.shape), x.contiguous().flatten().view(torch.uint8).numpy().tobytes())
        for x in _tensors((list(run.state.values()), run.inputs, run.output))
    ]


def _tensors(tree: Any) -> list[Any]:
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
