"""Times the spliced graph against Inductor's on arguments of the same shapes; the faster one is kept.

Arguments are random, never the model's: small floats, and integers of zero, so that indices stay in range. The two take turns,
so that drift affects both; a turn is several calls in a row, as in a model with many layers, where the CPU runs ahead of the
GPU. Inductor wins ties. A graph with free sizes races again at smaller ones, where launches weigh more and tiles of a product fill
the GPU less evenly: it must not lose at any of them.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

ROUNDS, WARMUP, CALLS = 12, 2, 6
"""Measured turns, warm-up turns, calls per turn."""
MARGIN = 0.99
"""A spliced graph is kept if its time is below this share of Inductor's,"""
LEAST = 0.98
"""and if Inductor's is not below this share of its own at any of smaller free sizes:"""
SMALLER = (0.5, 0.625, 0.75, 0.875)
"""all of them so many times the hints."""
_SHARE_OF_MEMORY = 0.4
"""If arguments take more than this share of free memory, nothing is timed and the graph stays Inductor's."""


@dataclass(frozen=True)
class Race:
    """Median milliseconds per call."""

    ours_ms: float
    inductor_ms: float
    smaller: tuple[Race, ...] = ()
    """The same at smaller free sizes, if there are any and `ours` won."""

    @property
    def won(self) -> bool:
        if any(one.inductor_ms < LEAST * one.ours_ms for one in self.smaller):
            return False
        return self.ours_ms < MARGIN * self.inductor_ms


def race(ours: Callable[..., Any], inductor: Callable[..., Any], examples: Sequence[Any]) -> Race | None:
    """Time both on a GPU; None without one, or without memory for a second set of arguments."""
    device = next((one.device for one in examples if isinstance(one, torch.Tensor)), None)
    if device is None or device.type != "cuda":
        return None
    needed = sum(_bytes(one) for one in examples if isinstance(one, torch.Tensor))
    if needed > _SHARE_OF_MEMORY * torch.cuda.mem_get_info(device)[0]:
        return None
    with unset_fake_temporarily():  # we are still inside compilation, under fake tensors
        return _at_all_sizes(ours, inductor, examples)


def _at_all_sizes(ours: Callable[..., Any], inductor: Callable[..., Any], examples: Sequence[Any]) -> Race:
    found = _race(ours, inductor, [draw_like(one) for one in examples])
    smaller = []
    for sizes in _smaller(examples) if found.won else ():
        try:
            smaller.append(_race(ours, inductor, [draw_like(one, sizes) for one in examples]))
        except (RuntimeError, AssertionError):  # sizes that the graph's guards exclude
            continue
    return replace(found, smaller=tuple(smaller))


def _smaller(examples: Sequence[Any]) -> list[dict[Any, int]]:
    """Values of the free sizes of a graph's arguments by symbol: shares of their hints, at least 2, multiples of 8 if those are."""
    sizes = [one for example in examples for one in (*getattr(example, "shape", ()), example)]
    hints = {one.node.expr: int(one.node.hint) for one in sizes if isinstance(one, torch.SymInt)}
    hints = {symbol: hint for symbol, hint in hints.items() if symbol.is_Symbol}

    def part(hint: int, share: float) -> int:
        step = 8 if hint % 8 == 0 else 1
        return max(2, step, int(hint * share) // step * step)

    found = [{symbol: part(hint, share) for symbol, hint in hints.items()} for share in SMALLER]
    return [sizes for place, sizes in enumerate(found) if sizes and sizes not in (hints, *found[:place])]


def _race(ours: Callable[..., Any], inductor: Callable[..., Any], arguments: Sequence[Any]) -> Race:
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(WARMUP + ROUNDS):
        order = (0, 1) if turn % 2 else (1, 0)
        for which in order:
            ms = _clock((ours, inductor)[which], arguments)
            if turn >= WARMUP:
                times[which].append(ms)
    return Race(statistics.median(times[0]), statistics.median(times[1]))


def draw_like(example: Any, sizes: Mapping[Any, int] | None = None) -> Any:
    """A random value like `example`: a real tensor for a fake one, with `sizes` or else hints for symbols."""
    if isinstance(example, torch.SymInt):
        return _size(example, sizes)
    if not isinstance(example, torch.Tensor):
        return example
    shape, stride = ([_size(one, sizes) for one in many] for many in (example.shape, example.stride()))
    made = torch.empty_strided(shape, stride, dtype=example.dtype, device=example.device)
    return made.normal_(std=0.1) if example.dtype.is_floating_point else made.zero_()


def _clock(call: Callable[..., Any], arguments: Sequence[Any]) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(CALLS):
        call(list(arguments))  # a compiled graph empties its argument list
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / CALLS


def _bytes(example: torch.Tensor) -> int:
    count = 1
    for size in example.shape:
        count *= _size(size, None)
    return count * example.element_size()


def _size(size: Any, sizes: Mapping[Any, int] | None) -> int:
    if not isinstance(size, torch.SymInt):
        return int(size)
    return int(size.node.expr.xreplace(sizes)) if sizes else int(size.node.hint)
