"""Whether strided tensors share elements: one tensor with itself, or two in one storage. Exact.

Two storages never overlap, by construction of the tape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kernelwright.verify.trace.tape import View

if TYPE_CHECKING:
    import torch

_MARKED = 1 << 30
"""The most bytes that are marked one by one; larger cases that strides alone do not decide count as overlapping."""


def overlaps_itself(view: View) -> bool:
    """Whether two indices name the same element, as in an expanded dimension or overlapping windows."""
    if view.numel < 2:
        return False
    reach = 0
    for stride, extent in sorted(zip(view.stride, view.shape, strict=True)):
        if extent == 1:
            continue
        if stride <= reach:
            break
        reach += stride * (extent - 1)
    else:
        return False
    return _marks((view,)) is None


def share_elements(first: View, second: View) -> bool:
    """Whether two tensors have a byte in common. Neither overlaps itself."""
    if first.storage != second.storage or not first.numel or not second.numel:
        return False
    if first.end <= second.offset * second.itemsize or second.end <= first.offset * first.itemsize:
        return False
    return _marks((first, second)) is None


def _marks(views: Sequence[View]) -> np.ndarray | None:
    """Mark every byte of `views`. None if a byte would be marked twice (so if `views` have more bytes than the range they span),
    or if the range is too large."""
    start = min(view.offset * view.itemsize for view in views)
    end = max(view.end for view in views)
    if end - start > _MARKED or sum(view.numel * view.itemsize for view in views) > end - start:
        return None
    marks = np.zeros(end - start, dtype=bool)
    for view in views:
        width = view.itemsize
        window = np.lib.stride_tricks.as_strided(
            marks[view.offset * width - start :],
            (*view.shape, width),
            (*(stride * width for stride in view.stride), 1),
        )
        if window.any():
            return None
        window[...] = True
        if int(marks.sum()) != sum(one.numel * one.itemsize for one in views[: views.index(view) + 1]):
            return None
    return marks


def view_of(tensor: torch.Tensor, storage: int = 0) -> View:
    """A torch tensor as a tape's `View`; `storage` is the number of its memory."""
    shape, dtype = tuple(tensor.shape), str(tensor.dtype).removeprefix("torch.")
    return View(storage, int(tensor.storage_offset()), shape, tuple(tensor.stride()), dtype)


def sharing(tensors: Sequence[torch.Tensor]) -> list[int]:
    """For each tensor the first index, up to its own, that it shares an element with; its own if it overlaps itself; else -1."""
    storages: dict[int, int] = {}
    views = []
    for tensor in tensors:
        cdata = tensor.untyped_storage()._cdata
        views.append(view_of(tensor, storages.setdefault(cdata, len(storages))))
    return shared_views(views)


def shared_views(views: Sequence[View]) -> list[int]:
    """`sharing` for views."""
    found: list[int] = []
    for place, view in enumerate(views):
        if overlaps_itself(view):
            found.append(place)
            continue
        earlier = (n for n in range(place) if found[n] != n and share_elements(views[n], view))
        found.append(next(earlier, -1))
    return found
