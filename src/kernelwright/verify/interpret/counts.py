"""Whether a program's counts (sums of comparisons of loaded numbers) can overflow their integer type.

A comparison is at most 1. Sums of as many terms as a program has are followed through casts, selects and reductions.
Integers that are loaded, or pass through anything else, are not bounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelwright.verify.interpret.recording import Recording

_KEPT = frozenset(
    ("create_splat", "create_unsplat", "create_broadcast", "create_expand_dims", "create_reshape", "create_trans", "create_int_cast")
)  # fmt: skip
_COMPARES = ("create_icmp", "create_fcmp")


def overflow(recording: Recording) -> bool:
    """Whether some count of the recorded program may exceed its type."""
    most: dict[int, int] = {}
    """By place, the largest magnitude that the count there may have."""
    loaded: set[int] = set()

    def bound(place: int) -> int | None:
        if place in most:
            return most[place]
        data = getattr(recording.values[place], "data", None)
        if place in recording.made or not isinstance(data, np.ndarray) or data.dtype.kind not in "iub":
            return None
        return int(np.abs(data.astype(np.int64)).max()) if data.size else 0

    for (function, places, _, out), label in zip(recording.steps, recording.labels, strict=True):
        if label == "decide" or type(out) is not int:
            continue
        if "load" in label or any(place in loaded for place in places):
            loaded.add(out)
        if out not in loaded or out not in recording.made or "load" in label:
            continue
        found = _most(label, function, [bound(place) for place in places], recording, places)
        if found is None or (not any(place in most for place in places) and not label.startswith(_COMPARES)):
            continue
        most[out] = found
        kind = recording.made[out].data.dtype
        if kind.kind in "iu" and found > np.iinfo(kind).max:
            return True
    return False


def _most(
    label: str, function: Any, given: list[int | None], recording: Recording, places: tuple[int, ...]
) -> int | None:
    if label.startswith(_COMPARES):
        return 1
    if label in _KEPT:
        return given[0]
    if label == "reduce":
        terms = getattr(function, "terms", None)
        before = recording.made.get(places[0])
        if terms is None or before is None or given[0] is None or len(places) != 1:
            return None
        count = terms(before.data.shape)
        return None if count is None else given[0] * count
    if label == "create_select":
        given = given[1:]
    if any(one is None for one in given[:2]) or len(given) < 2:
        return None
    first, second = int(given[0] or 0), int(given[1] or 0)
    if label in ("create_add", "create_sub"):
        return first + second
    if label == "create_mul":
        return first * second
    return max(first, second) if label in ("create_select", "create_and", "create_or") else None
