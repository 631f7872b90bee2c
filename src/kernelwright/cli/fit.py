"""Checks that a task can judge kernels: it runs and returns dense real tensors, the same for the same inputs.

Executes the task's source: references are the user's own, and trusted.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernelwright.errors import UserError
from kernelwright.records import Task
from kernelwright.shapes import apply_shape
from kernelwright.tasks.reference import Reference
from kernelwright.verify.reference import task_module
from kernelwright.verify.reference.rounded import switches_kept


def check(task: Task) -> None:
    """Raises UserError for a task whose outputs no kernel can be compared with; one that raises is left for the judge to report."""
    sizes = next(sizes for name, sizes in task.shapes.items() if name.startswith("small"))
    with task_module.private_rng(0), switches_kept(), torch.no_grad():
        try:
            reference = Reference(apply_shape(task.source, sizes))
            module, inputs = reference.module(), reference.inputs()
            first, second = (_outputs(module, inputs, seed) for seed in (1, 2))
        except (Exception, SystemExit):  # the judge reports what raised, and where
            return
    for tensor in (one for one in (*tree_leaves(inputs), *first) if isinstance(one, torch.Tensor)):
        if tensor.is_complex() or tensor.layout != torch.strided:
            kind = "complex" if tensor.is_complex() else "sparse"
            raise UserError(
                f"task {task.id}: {kind} tensors cannot be judged; judge the part between dense real ones"
            )
    returned = [one for one in first if isinstance(one, torch.Tensor)]
    if any(one.is_floating_point() and one.itemsize == 1 for one in returned):
        raise UserError(
            f"task {task.id}: floats of 8 bits that are returned cannot be judged; return them `.float()`, or as `.view(torch.uint8)`"
        )
    if not all(map(_equal, first, second)):
        raise UserError(
            f"task {task.id}: Model.forward draws random numbers; draw them in get_inputs(), or call .eval() in the "
            "constructor"
        )


def error_of(task: Task) -> str:
    """The error that a task raises on meta tensors, in its precision; empty if it runs and returns something."""
    reference = task_module.Reference(task, device="meta")
    with torch.device("meta"):
        module = reference.build()
        inputs = reference.inputs(0)
        try:
            found = [one for one in tree_leaves(module(*inputs)) if isinstance(one, torch.Tensor)]
        except Exception as error:
            listed = isinstance(reference.namespace["get_inputs"](), list | tuple)
            return (
                f"raises {type(error).__name__}: {error}{'' if listed else ' (get_inputs() returns no list)'}"
            )
    if not found:
        return "returns no tensor"
    return "" if all(one.numel() for one in found) else "returns a tensor without elements"


def _outputs(module: Any, inputs: list[Any], seed: int) -> list[Any]:
    torch.manual_seed(seed)
    return tree_leaves(copy.deepcopy(module)(*copy.deepcopy(inputs)))


def _equal(first: Any, second: Any) -> bool:
    return not isinstance(first, torch.Tensor) or torch.equal(first.nan_to_num(), second.nan_to_num())
