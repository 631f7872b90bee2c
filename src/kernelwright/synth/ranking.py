"""Predicts which of a graph's schedules is faster: a linear model of log time over features of schedule and sizes.

`benchmarks/ranking.py --fit` fits the weights to measured rows, one set per nest, with each problem's mean removed: the model
orders schedules of one graph and cannot compare graphs. It needs no compiler, so a search can rank thousands of schedules in a
second. The first need not be the fastest: the benchmark has the rank correlation on problems held out of the fit.
"""

from __future__ import annotations

import functools
import json
import math
import random
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import torch

from kernelwright.graph.types import Graph
from kernelwright.hardware import TARGETS
from kernelwright.hardware import target as sheet_of
from kernelwright.synth import joined
from kernelwright.synth.estimate import in_order, microseconds
from kernelwright.synth.facts import behind, extents_of, itemsize_of
from kernelwright.synth.sizes import next_power_of_two
from kernelwright.synth.spaces import patch_cost, window_cost, windows_counted
from kernelwright.synth.to_triton import scheduled_part

Features = dict[str, float]
_AHEAD = 100.0


def target_here() -> str:
    """The data sheet of this machine's first GPU, by name; "h200" if there is none or an unknown one."""
    name = torch.cuda.get_device_name().lower() if torch.cuda.is_available() else ""
    return next((one for one in TARGETS if one in name), "h200")


def rank_schedules(graph: Graph, schedules: Sequence[Any], target: str = "h200") -> list[Any]:
    """The schedules, those predicted fastest first. Raises Unsupported."""
    source, nest = scheduled_part(graph)
    if nest == "product" and itemsize_of(source) == 2:
        m, n, k = extents_of(source, "product")
        return list(in_order(schedules, m, n, k, behind(source)))
    return sorted(schedules, key=_guess(graph, target))


def likely(graph: Graph, schedules: Sequence[Any], rng: random.Random, target: str = "h200") -> list[Any]:
    """The schedules in random order, as if drawn one by one in proportion to exp(-log of the predicted time / 0.1). Raises
    Unsupported."""
    guess = _guess(graph, target)

    def place(schedule: Any) -> float:  # the Gumbel trick
        return guess(schedule) / 0.1 + math.log(-math.log(1.0 - rng.random() * (1.0 - 1e-12)) + 1e-300)

    return sorted(schedules, key=place)


def _guess(graph: Graph, target: str) -> Callable[[Any], float]:
    """A function that predicts the log time of this graph's schedules. Raises Unsupported."""
    source, nest = scheduled_part(graph)
    sizes, itemsize = extents_of(source, nest), itemsize_of(source)
    if nest == "product" and itemsize == 2:  # its sizes go far beyond those of the fit
        m, n, k = sizes
        later = behind(source)
        return lambda one: math.log2(microseconds(one, m, n, k, later))

    if nest == "joined":
        return lambda one: math.log2(joined.cost(source, one))

    if nest == "convolution" and windows_counted(source):
        return lambda one: math.log2(window_cost(source, one))

    def guess(one: Any) -> float:
        if one.nest == "depthwise":  # before the nest that loads a window for each output
            return -_AHEAD if one.algorithm == "weights" else math.log2(patch_cost(source, one)) - _AHEAD
        return predict_log_time(features(one, sizes, itemsize, target), one.nest)

    return guess


def predict_log_time(found: Features, nest: str) -> float:
    """Log of the time, up to a constant shared by all schedules of a graph."""
    weights = _weights().get(nest, {})
    return sum(weights.get(name, 0.0) * value for name, value in found.items())


@functools.cache
def _weights() -> dict[str, dict[str, float]]:
    place = resources.files("kernelwright.synth").joinpath("ranking.json")
    found: dict[str, dict[str, float]] = json.loads(place.read_text("utf-8"))["weights"]
    return found


def features(schedule: Any, sizes: Sequence[int], itemsize: int, target: str = "h200") -> Features:
    """Features of a schedule by name; `sizes` are the graph's `facts.extents_of`."""
    sheet = sheet_of(target)
    made = {
        "product": _product,
        "convolution": _convolution,
        "attention": _attention,
        "row": _row,
        "scan": _scan,
    }.get(schedule.nest, _map)
    return made(schedule, tuple(sizes), itemsize, sheet.sms, sheet.shared_per_block)


def _log(value: float) -> float:
    return math.log2(max(value, 1e-9))


def _waves(programs: float, sms: int) -> float:
    """Log of the slowdown from a partly filled last wave."""
    return _log(math.ceil(programs / sms) * sms / programs)


def _tiles(m: int, n: int, k: int, schedule: Any, itemsize: int, shared: int, extra: Features) -> Features:
    """Features of the tiles of a product or a convolution."""
    a, b, c = schedule.tile
    split = getattr(schedule, "split_k", 1)
    stages, warps = schedule.stages, schedule.warps
    programs = math.ceil(m / a) * math.ceil(n / b) * split
    thread = a * b / (32 * warps)
    memory = stages * (a + b) * c * itemsize
    resident = max(1, min(8, shared // memory, 64 // warps, int(65536 / max(32 * warps * (thread + 40), 1))))
    full = min(1.0, programs / (132 * resident))
    steps = max(1.0, k / split / c)
    return {
        "reuse": _log(a * b / (a + b)), "narrow": float(min(a, b) <= 32), "depth": _log(c), "thread": _log(thread),
        "spill": max(0.0, _log(thread) - 7), "few": max(0.0, 5 - _log(thread)), "wave": _waves(programs, 132 * resident) if programs > 132 * resident else 0.0,
        "idle": -_log(full), "empty": -_log(min(1.0, programs / 132)), "resident": _log(resident), "flight": _log(memory * resident),
        "warps": _log(warps), "stages": float(stages), "steps": -_log(steps), "padded": _log(math.ceil(m / a) * a / m) + _log(math.ceil(n / b) * b / n),
        "split": _log(split), "merge": split * m * n / (m * k + n * k) if split > 1 else 0.0, **extra,
    }  # fmt: skip


def _product(schedule: Any, sizes: tuple[int, ...], itemsize: int, sms: int, shared: int) -> Features:
    m, n, k = sizes
    wide = itemsize == 4
    through = float(schedule.loads == "descriptor")
    ieee = wide and schedule.precision == "ieee"
    return _tiles(m, n, k, schedule, itemsize, shared, {
        "descriptor": through, "descriptor x wide": through * wide, "persistent": float(schedule.persistent),
        "pieces": float(schedule.epilogue > 1), "ieee": float(ieee), "tf32x3": float(wide and schedule.precision == "tf32x3"),
        "ieee thread": ieee * _log(schedule.tile[0] * schedule.tile[1] / (32 * schedule.warps)), "ordered": float(schedule.group > 1),
        "skinny reuse": float(m <= 64) * _log(schedule.tile[1]), "skinny split": float(m <= 64) * _log(schedule.split_k),
    })  # fmt: skip


def _convolution(schedule: Any, sizes: tuple[int, ...], itemsize: int, sms: int, shared: int) -> Features:
    places, filters, channels = sizes[:3]
    taps = math.prod(sizes[3:-2])
    direct = schedule.algorithm == "direct"
    made = _tiles(places, max(filters, 1), channels * taps, schedule, itemsize, shared, {
        "nhwc": float(schedule.layout == "nhwc"), "nhwc of one tap": float(schedule.layout == "nhwc" and taps == 1), "ordered": float(schedule.group > 1), "direct": float(direct)})  # fmt: skip
    return {
        name: value for name, value in made.items() if not direct or name in ("warps", "thread", "direct")
    }


def _attention(schedule: Any, sizes: tuple[int, ...], itemsize: int, sms: int, shared: int) -> Features:
    _, queries, _, width = sizes
    a, b = schedule.tile
    thread, acc = a * b / (32 * schedule.warps), a * width / (32 * schedule.warps)
    ieee = float(itemsize == 4 and schedule.precision == "ieee")
    return {
        "queries": _log(a), "keys": _log(b), "thread": _log(thread), "spill": max(0.0, _log(thread + acc) - 7), "acc": _log(acc),
        "warps": _log(schedule.warps), "stages": float(schedule.stages), "descriptor": float(schedule.loads == "descriptor"),
        "ieee thread": ieee * _log(thread), "ieee keys": ieee * _log(b),
        "memory": _log(schedule.stages * 2 * b * width * itemsize + a * width * itemsize),
        "padded": _log(math.ceil(queries / a) * a / queries),
    }  # fmt: skip


def _row(schedule: Any, sizes: tuple[int, ...], itemsize: int, sms: int, shared: int) -> Features:
    rows, columns, contiguous, levels = sizes
    one = schedule.passes == "one_pass"
    block = next_power_of_two(columns) if one else schedule.block
    thread = schedule.rows * block / (32 * schedule.warps)
    programs = math.ceil(rows / schedule.rows) * schedule.split
    line = (block if contiguous else schedule.rows) * itemsize
    return {
        "thread": _log(thread), "spill": max(0.0, _log(thread) - 6), "few": max(0.0, 3 - _log(thread)), "warps": _log(schedule.warps),
        "programs": -_log(min(1.0, programs * schedule.warps / (sms * 32))), "idle": -_log(min(1.0, programs / sms)),
        "line": -min(7.0, _log(line)), "again": float(not one and schedule.passes not in ("split", "online")) * (levels - 1),
        "online": float(schedule.passes == "online"), "split": float(schedule.passes == "split"), "parts": _log(schedule.split),
        "many parts": max(0.0, _log(rows * schedule.split * sms / max(rows * columns, 1))), "loop": float(schedule.passes == "loop"),
        "steps": _log(max(1.0, columns / schedule.split / block)), "tall": float(not contiguous) * _log(schedule.rows / block),
        "rows": _log(schedule.rows),
    }  # fmt: skip


def _scan(schedule: Any, sizes: tuple[int, ...], itemsize: int, sms: int, shared: int) -> Features:
    thread = schedule.rows * schedule.block / (32 * schedule.warps)
    return {
        "thread": _log(thread),
        "warps": _log(schedule.warps),
        "rows": _log(schedule.rows),
        "block": _log(schedule.block),
    }


def _map(schedule: Any, sizes: tuple[int, ...], itemsize: int, sms: int, shared: int) -> Features:
    elements = schedule.rows * schedule.block if schedule.nest == "map" else math.prod(schedule.tile)
    thread = elements / (32 * schedule.warps)
    return {
        "thread": _log(thread),
        "spill": max(0.0, _log(thread) - 4),
        "few": max(0.0, 2 - _log(thread)),
        "warps": _log(schedule.warps),
    }
