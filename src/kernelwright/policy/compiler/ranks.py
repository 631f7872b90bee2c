"""Sort and top-k by counting, where Inductor would call a library or a sort without a plain form.

    rank of x_i = how many x_j come before it; i is scattered to place rank of x_i, and x_i is read from there

A reduction over rows, n comparisons per element, and a scatter: for rows of up to `LONGEST` elements. Equal values keep their
order and NaN is the largest, as in `torch.sort(stable=True)`; `torch.topk` may pick any of equal values, here the first.
"""

from __future__ import annotations

from typing import Any

import torch

LONGEST = 1024
"""Longest row, in elements, for which this pays off."""


def sort(x: Any, *rest: Any, stable: Any = None, dim: int = -1, descending: bool = False) -> Any:
    """`aten.sort.default(x, dim, descending)` and `aten.sort.stable(x, *, stable, dim, descending)`: values and indices."""
    dim, descending = rest[0] if rest else dim, rest[1] if len(rest) > 1 else descending
    return NotImplemented if not _short(x, dim) else _pick(x, x.shape[dim], dim, descending)


def topk(x: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """`aten.topk.default`, always sorted: values and indices."""
    return NotImplemented if not _short(x, dim) else _pick(x, k, dim, largest)


def _short(x: Any, dim: int) -> bool:
    if not x.dim():
        return False
    size = x.shape[dim]
    return int(getattr(getattr(size, "node", None), "hint", None) or size) <= LONGEST


def _pick(x: Any, count: Any, dim: int, descending: bool) -> tuple[Any, ...]:
    """The first `count` values of each row in order, and their indices."""
    rows = x.movedim(dim, -1)
    places = torch.arange(rows.shape[-1], device=x.device)
    one, other = rows.unsqueeze(-1), rows.unsqueeze(-2)
    before, same = (other > one) if descending else (other < one), other == one
    if x.is_floating_point():
        lost, others = one != one, other != other
        before = before | ((others & ~lost) if descending else (lost & ~others))
        same = same | (lost & others)
    ranks = (before | (same & (places < places.unsqueeze(-1)))).sum(-1)
    ranks = ranks.clamp(max=rows.shape[-1] - 1)  # no effect on the values; shows that indices are in range
    # As int32: Inductor leaves scatters of other types to a library.
    order = torch.zeros(ranks.shape, dtype=torch.int32, device=x.device)
    order = order.scatter(-1, ranks, places.to(torch.int32).expand(ranks.shape)).long()
    first = torch.arange(count, device=x.device)  # a slice would add a guard on the size
    found = order.gather(-1, first.expand([*ranks.shape[:-1], count]))
    return rows.gather(-1, found).movedim(-1, dim), found.movedim(-1, dim)
