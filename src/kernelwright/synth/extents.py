"""Sizes of random graphs, from distributions chosen here without any reference data, and small sizes for the judge.

    letter   what                     distribution at full size
    R        rows                     R x W elements are 2^18 to 2^25, log-uniform
    W        width of a row           2^5 to 2^13.5, log-uniform
    B S D    batch, sequence, model   B 2^0..2^6; S 2^5..2^12; D 2^6..2^12; B x S x D at most 2^26
    F K N M  features of a product    2^6 to 2^13, log-uniform
    H E      heads and their width    H in 2..32; E of 32, 64, 96, 128
    C O      channels                 multiples of 8, 2^3..2^9
    I J      sides of an image        7 to 160; I x J x C x B at most 2^25
    V        entries of a table       2^8 to 2^16
    P        a small count            2 to 16

Three in five of the larger sizes are multiples of 64, one in five of 8; the rest are any integer.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import torch

from kernelwright.errors import UserError
from kernelwright.graph import sizes
from kernelwright.graph.execute import execute
from kernelwright.graph.shrink import sizes_in_tiles
from kernelwright.graph.types import Graph, TensorType

MOST = 2**25
_SMALL_ELEMENTS = 6000
"""Most elements of an argument at small sizes, which the interpreter handles in a fraction of a second."""
_LARGEST = 2**28
_STEPS = (1, 1, 1, 2, 2, 4, 4, 16)
"""Multiples for small sizes, by attempt, for graphs that split dimensions into equal parts."""


class NotDrawn(Exception):
    """The draw gives no task; the message is a short reason that can be counted."""


def log_uniform(rng: random.Random, low: float, high: float) -> int:
    """An integer between 2^low and 2^high; three in five are a multiple of 64, one in five of 8."""
    size = round(2 ** rng.uniform(low, high))
    step = rng.choices((64, 8, 1), (3, 1, 1))[0]
    return max(step, size // step * step) if size >= 2 * step else size


class Extents:
    """Sizes by letter, drawn on first use and constant afterwards."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.of: dict[str, int] = {}

    def __getitem__(self, letter: str) -> int:
        if letter not in self.of:
            self.of[letter] = self._drawn(letter)
        return self.of[letter]

    def _drawn(self, letter: str) -> int:
        rng = self.rng
        if letter == "R":
            return max(1, round(2 ** rng.uniform(18, 25)) // self["W"])
        if letter == "S":
            return log_uniform(rng, 5, 12)
        if letter == "B":
            other = math.prod(self.of.get(one, 1) for one in "SDCIJHE")
            return min(2 ** rng.randint(0, 6), max(1, 2 * MOST // other))
        if letter in "IJ":
            return rng.randint(7, 160)
        if letter in "CO":
            return max(8, round(2 ** rng.uniform(3, 9)) // 8 * 8)
        if letter == "H":
            return rng.choice((2, 4, 6, 8, 12, 16, 24, 32))
        if letter == "E":
            return rng.choice((32, 64, 96, 128))
        if letter == "P":
            return rng.randint(2, 16)
        low, high = {"W": (5, 13.5), "D": (6, 12), "V": (8, 16)}.get(letter, (6, 13))
        return log_uniform(rng, low, high)


def too_large(graph: Graph) -> bool:
    """Whether a value has too many elements."""
    return max(_elements(graph, {one.name: one.hint for one in graph.symbols}), default=0) > _LARGEST


def small_sets(graph: Graph, rng: random.Random) -> dict[str, dict[str, int]]:
    """Values of a graph's symbols for the shape sets `small` and `small_odd`, for which its types are valid. Raises NotDrawn."""
    if not graph.symbols:
        return {}
    found: dict[str, dict[str, int]] = {}
    for name, odd in (("small", False), ("small_odd", True)):
        for attempt in range(len(_STEPS)):
            chosen = _small(graph, rng, odd, attempt)
            if chosen is not None and holds(graph, chosen):
                found[name] = chosen
                break
        else:
            raise NotDrawn("no small sizes")
    even = sizes_in_tiles(graph, found["small"])
    few = even is not None and max(_elements(graph, even)) <= 8 * _SMALL_ELEMENTS
    if even is not None and few and holds(graph, even):
        found["small_even"] = even
    return found


def _small(graph: Graph, rng: random.Random, odd: bool, attempt: int) -> dict[str, int] | None:
    step = _STEPS[attempt]
    low = max(2 + attempt % 3, step)
    chosen = {}
    for one in graph.symbols:
        most = max(low, (37, 70)[odd] >> (len(graph.symbols) - 1) // 2)
        size = min(rng.randint(low, most), one.hint)
        size = size | 1 if odd else size
        chosen[one.name] = min(size if step == 1 else -(-size // step) * step, one.hint)
    least = max(_elements(graph, dict.fromkeys(chosen, low)))
    while max(_elements(graph, chosen)) > max(_SMALL_ELEMENTS, min(least, 6 * _SMALL_ELEMENTS)):
        widest = max(chosen, key=lambda name: chosen[name])
        if chosen[widest] <= low:
            return None
        chosen[widest] = max(low, chosen[widest] * 2 // 3 // step * step)
    return chosen


def _elements(graph: Graph, symbols: Mapping[str, int]) -> list[int]:
    kinds = [kind for kind in graph.types().values() if isinstance(kind, TensorType)]
    return [math.prod(sizes.evaluate(size, symbols) for size in kind.shape) for kind in kinds]


def holds(graph: Graph, symbols: Mapping[str, int]) -> bool:
    """Whether torch infers, at these sizes, exactly the types given by the graph's expressions."""
    try:
        static = sizes.static(graph, symbols)
        values = {
            one.name: torch.empty(
                tuple(int(size) for size in one.type.shape),
                dtype=getattr(torch, one.type.dtype),
                device="meta",
            )
            if isinstance(one.type, TensorType)
            else symbols[one.name]
            for one in static.arguments
        }
        made = execute(static, values)
    except (RuntimeError, ValueError, LookupError, NotImplementedError, TypeError, UserError):
        return False
    types = static.types()
    for name, value in zip(static.results, made, strict=True):
        kind = types[name]
        if not isinstance(kind, TensorType) or not isinstance(value, torch.Tensor):
            return False
        if tuple(value.shape) != kind.shape or str(value.dtype) != f"torch.{kind.dtype}":
            return False
    return True
