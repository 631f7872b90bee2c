"""The registry of own modules: a decorated builder becomes an `Entry` that makes (module, example inputs, kwargs).

A builder makes everything in float32; `Entry.make` seeds it and casts parameters, buffers and floating point inputs
to the entry's dtype. Does not guarantee that a module runs: `python benchmarks/own.py list` calls each once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

Case = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]
"""A module, its positional example inputs and its keyword inputs."""


@dataclass(frozen=True)
class Entry:
    """One module of the measure: `MODULES[0].make()`."""

    name: str
    dtype: str
    """float32 or bfloat16, of parameters, buffers and floating point inputs."""
    build: Callable[[], Case]

    def make(self, seed: int = 0) -> Case:
        """The module in eval mode with its inputs, the same for the same seed."""
        dtype = getattr(torch, self.dtype)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module, inputs, kwargs = self.build()

        def cast(leaf: object) -> object:
            return leaf.to(dtype) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

        return module.to(dtype).eval(), pytree.tree_map(cast, inputs), pytree.tree_map(cast, kwargs)


_entries: list[Entry] = []


def entry(name: str, dtype: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Registers a builder under a name that is used in reports. A name taken twice is an assertion error."""

    def register(build: Callable[[], Case]) -> Callable[[], Case]:
        assert all(one.name != name for one in _entries), name
        _entries.append(Entry(name, dtype, build))
        return build

    return register


def entries() -> tuple[Entry, ...]:
    """Everything registered so far, in order."""
    return tuple(_entries)
