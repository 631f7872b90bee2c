"""What references compute at their small sizes: whether two are the same task, and whether one is worth asking about.

Runs the sources, which are our own. Seeds are fixed: these are not the judge's inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kernelwright import shapes
from kernelwright.records import Task
from kernelwright.tasks.reference import Reference

FLAT = 1e-3
"""Least deviation of an output worth asking for, as a share of its largest value."""
FEWEST = 8
"""Elements from which on that can be told of one draw of the inputs."""
_DRAWS = 4
"""Draws that are looked at."""


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
    """Whether some small shape's outputs are finite and not nearly a constant. Of few elements, several draws of the inputs
    together must not be."""
    return any(_varies(task, sizes) for sizes in task.shapes.values())


def _varies(task: Task, sizes: Mapping[str, int]) -> bool:
    first = _run(task, sizes)
    if first is None:
        return False
    draws = [_tensors(first.output)]
    if any(one.numel() < FEWEST for one in draws[0]):
        more = (_run(task, sizes, seed) for seed in range(2, 1 + _DRAWS))
        draws += [_tensors(run.output) for run in more if run is not None]
    return any(_varied(outputs) for outputs in zip(*draws, strict=True))


def _varied(outputs: Sequence[Any]) -> bool:
    """Whether an output varies in the first of some draws, or among all of them where it has few elements."""
    import torch

    first = outputs[0]
    if not first.is_floating_point():
        return True
    value = torch.stack([*outputs]).double() if first.numel() < FEWEST else first.double()
    return bool(torch.isfinite(value).all()) and float(value.std()) > FLAT * float(value.abs().max())


def _run(task: Task, sizes: Mapping[str, int], seed: int = 1) -> Run | None:
    """With inputs drawn under `seed`. None where the reference does not run."""
    import torch

    try:
        reference = Reference(shapes.apply_shape(task.source, sizes))
        torch.manual_seed(0)
        with torch.no_grad():
            model = reference.module()
            torch.manual_seed(seed)
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
