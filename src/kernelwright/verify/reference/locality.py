"""Outliers for references that take windows: one element far above all others must not change outputs that do not depend on it.

A window sum, or that of a segment, taken as a difference of running sums is right only until a number before it takes all their digits. The reference's
own bits tell which outputs an element reaches; all others must be as they are without it.

Not asked: sums from one end of an axis (from the other end published kernels compute them as a total less what comes before),
products (Winograd, Fourier), float16, inputs that are sorted or of one sign, and gradients.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch

from kernelwright.verify.reference import special_values
from kernelwright.verify.reference.cases import Case
from kernelwright.verify.reference.distributions import orders
from kernelwright.verify.reference.task_module import finite, outputs_of, where_possible
from kernelwright.verify.structures import flatten, with_changed

KIND = "outlier"
_FAR = 1e30
"""Finite, so that multiplying with 0 still excludes it. Its square is not; a reference that squares it is not asked."""
_SHARE = 4
"""One in this many rows gets an outlier."""


@where_possible()
def with_lone_elements(case: Case, name: str, operators: Sequence[str], seed: int) -> Case | None:
    """The case with outliers in some rows of its first suitable input, judged only on outputs that do not depend on them; None if
    the reference takes no windows or is not finite with them."""
    if case.after or not (
        special_values.takes_windows(operators) or special_values.only_adds_to_places(operators)
    ):
        return None
    places = [place for place, one in enumerate(flatten(case.inputs)) if _is_free(one)][:1]
    if not places:
        return None
    generator = torch.Generator().manual_seed(seed)
    inputs = with_changed(case.inputs, places[0], lambda one: _put(one, generator))
    usual, made = outputs_of(case.module, case.inputs), outputs_of(case.module, inputs)
    kept = [one == other for one, other in zip(usual, made, strict=True)]
    some_moved, some_kept = not all(map(torch.all, kept)), any(map(torch.any, kept))
    if not (finite(made) and some_moved and some_kept):
        return None
    if any(one.judged is not None or not one.dtype.is_floating_point for one in case.expected):
        return None
    expected = [
        dataclasses.replace(one, judged=same, infinite=torch.zeros_like(same), leaning=None)
        for one, same in zip(case.expected, kept, strict=True)
    ]
    return dataclasses.replace(case, name=name, inputs=inputs, expected=expected, special=True)


def _is_free(tensor: torch.Tensor) -> bool:
    """Whether a tensor has numbers of both signs, in no order."""
    if tensor.dtype not in (torch.float32, torch.float64, torch.bfloat16) or tensor.numel() < 2:
        return False
    return bool(tensor.min() < 0) and bool(tensor.max() > 0) and not orders(tensor)


def _put(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    made = tensor.clone(memory_format=torch.contiguous_format)
    rows = made.view(-1, made.shape[-1])
    some = torch.randperm(len(rows), generator=generator)[: -(-len(rows) // _SHARE)]
    at = torch.randint(rows.shape[1], some.shape, generator=generator)
    signs = 2.0 * torch.randint(0, 2, some.shape, generator=generator) - 1.0
    rows[some, at] = torch.where(rows[some, at] == 0, rows[some, at], (_FAR * signs).to(made))
    return made
