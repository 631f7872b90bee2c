"""Outputs that are what a rounding leaves: `x - x.to(bfloat16)`, the compensation of an optimiser, the error of a sum.

In fp64 nothing is left, so the distance of an honest run from fp64 is all of the output, and anything near zero would pass. Such an
output is expected as the reference itself makes it in its own precision, if another honest kernel must make the same: if the
output hardly moves when every operation but the casts is off by a rounding, or if there are only exact steps and sums, in float32
and of no product, which compilers leave as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernelwright.verify.protocol import Protocol
from kernelwright.verify.reference.copies import copied
from kernelwright.verify.reference.operators import operators
from kernelwright.verify.reference.rounded import Rounded
from kernelwright.verify.reference.roundings import RUNS, Rounding
from kernelwright.verify.reference.task_module import as_asked, left_by, where_possible
from kernelwright.verify.structures import convert, flatten
from kernelwright.verify.trace.pretend_cuda import ALLOCATION, METADATA, VIEWS

_OWN_SIZE = 0.3
"""Share of an output's size by which a run in its own precision differs from fp64 if the output is a residual."""
_STEADY = 0.05
"""The most, as a share of its size, that roundings may move a residual."""
_FEW = 1 << 20
"""The most elements of a residual; larger results are expected from fp64, with the honest run's error."""
_EXACT = frozenset(
    {*ALLOCATION, *METADATA, *VIEWS, "clone", "lift_fresh", "detach", "add", "sub", "rsub", "neg", "abs", "sign", "round", "floor",
     "ceil", "trunc", "clamp", "clamp_min", "clamp_max", "maximum", "minimum", "where", "gt", "ge", "lt", "le", "eq", "ne"}
)  # fmt: skip


def residuals(
    module: torch.nn.Module,
    draw: Callable[[], Any],
    keys: Sequence[int | str],
    exact: Sequence[torch.Tensor],
    honest: Sequence[torch.Tensor],
    protocol: Protocol,
) -> dict[int, torch.Tensor]:
    """By place, how far roundings move each residual among results of a reference (fp64, in the shape of the result).

    `exact` and `honest` are the outputs and then what the call left in inputs and state, named by `keys`, in fp64 and in the
    reference's own precision.
    """
    places = [place for place, pair in enumerate(zip(exact, honest, strict=True)) if _vanishes(*pair)]
    if not places:
        return {}
    moves = {place: torch.zeros_like(exact[place], dtype=torch.float64) for place in places}
    for seed in range(RUNS):
        made = _again(module, draw, keys, protocol, seed)
        if len(made) != len(honest):
            return {}
        for place in list(moves):
            far = (made[place].double() - honest[place].double()).abs().nan_to_num(torch.inf)
            moves[place] = torch.maximum(moves[place], far)
            if _size(far) > _STEADY * _size(honest[place]):
                del moves[place]
        if not moves:
            break
    if len(moves) < len(places) and _is_exact(module, draw()):
        single = [place for place in places if honest[place].dtype == torch.float32]
        moves = {place: torch.zeros_like(exact[place], dtype=torch.float64) for place in single} | moves
    return moves


def _vanishes(exact: torch.Tensor, honest: torch.Tensor) -> bool:
    """Whether a run in its own precision differs from fp64 by its own size."""
    if not honest.is_floating_point() or not 0 < honest.numel() <= _FEW or exact.shape != honest.shape:
        return False
    size = _size(honest)
    return 0.0 < size < torch.inf and _size(exact.double() - honest.double()) > _OWN_SIZE * size


def _size(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor.double()))


def _again(
    module: torch.nn.Module, draw: Callable[[], Any], keys: Sequence[int | str], protocol: Protocol, seed: int
) -> list[torch.Tensor]:
    """Results of a run in which every operation but the casts is off by a rounding; empty if it raises."""
    given, fresh = convert(draw(), torch.clone), copied(module)
    with where_possible(), as_asked(given, protocol, Rounded(protocol.precision)), Rounding(seed, given=True):
        outputs = flatten(fresh(*given))
        kept = left_by(fresh, given)
        return [one.detach() for one in (*outputs, *(kept[key] for key in keys))]
    return []


def _is_exact(module: torch.nn.Module, inputs: Any) -> bool:
    """Whether a reference consists of sums of float32 and of steps without a rounding."""
    if any(one.is_floating_point() and one.dtype != torch.float32 for one in flatten(inputs)):
        return False
    names = set()
    with where_possible():
        names = {name.rstrip("_") for name in operators(module, inputs)}
    return bool(names) and names <= _EXACT
