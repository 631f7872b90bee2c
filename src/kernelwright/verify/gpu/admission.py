"""Memory admission for one GPU: running verifications, data kept between them, and memory that others hold.

Verifications are admitted first come, first served, each with the bytes of its peak. None waits while holding memory:
data kept for a task's next candidate is freed and made again, so two verifications never deadlock. Memory of others (a
generator in this process, other processes, contexts) is what the driver reports in use beyond our own account: exact
while no verification runs, a lower bound otherwise. To admit the first in the queue we free memory: first this process's
unused memory goes back to the driver, then kept data, least recently used first. A verification larger than the GPU
waits until it is alone.

Not covered: what others take after admission. A verification that then runs out of memory is repeated, alone.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch

from kernelwright.drawing import DRAWING
from kernelwright.errors import InfrastructureError

_KEPT_SHARE = 0.25
"""Share of a GPU's memory for data kept between verifications."""
_MARGIN_SHARE = 0.03
"""Share of a GPU's memory left free, for modules that the driver loads and pages that allocators round up to."""
_HOARD_BYTES = 2 << 30
"""Unused memory that this process's allocator may hold while no verification runs."""
_LEAST_BYTES = 16 << 20
"""Kept data smaller than this is not counted, nor worth freeing and making again."""
_LOOK_S = 0.25
"""How often the first in the queue checks whether others gave memory back."""
PATIENCE_S = 20.0
"""How long a verification that is alone waits for others' memory."""
_SIGNS = ("out of memory", "alloc_failed", "can't allocate memory")


class OutOfMemory(InfrastructureError):
    """GPU memory ran out, perhaps because others took it: try again, alone."""


def ran_out(error: BaseException) -> bool:
    """Whether an exception of torch, Triton or the driver says that memory ran out."""
    text = f"{type(error).__name__}: {error}".lower()
    return type(error).__name__ == "OutOfMemoryError" or any(sign in text for sign in _SIGNS)


def of_the_machine(error: BaseException) -> bool:
    """Whether memory ran out or the GPU's context is lost, which says nothing of the code that ran."""
    return ran_out(error) or type(error).__name__ == "AcceleratorError"


class Memory(Protocol):
    """What admission asks of a GPU. All figures in bytes."""

    def info(self) -> tuple[int, int]:
        """(free, total), from the driver."""
        ...

    def spare(self) -> int:
        """Bytes that this process's allocator holds unused."""
        ...

    def give_back(self) -> None:
        """Return spare memory to the driver, as far as possible."""
        ...


class TorchMemory:
    """A real GPU, through torch's allocator."""

    def __init__(self, index: int) -> None:
        self._index = index

    def info(self) -> tuple[int, int]:
        free, total = torch.cuda.mem_get_info(self._index)
        return int(free), int(total)

    def spare(self) -> int:
        known: Any = torch.cuda.memory_stats_as_nested_dict(self._index)
        if not known:
            return 0
        current = (known[name]["all"]["current"] for name in ("reserved_bytes", "allocated_bytes"))
        return int(next(current)) - int(next(current))

    def give_back(self) -> None:
        """Waits until nobody captures a CUDA graph: torch cannot empty its cache meanwhile."""
        with DRAWING:
            torch.cuda.empty_cache()


class Kept(Protocol):
    """Data on the GPU for a task's next candidate, which can be freed and made again."""

    @property
    def made(self) -> bool: ...

    @property
    def kept_bytes(self) -> int: ...

    def release(self) -> None: ...


class Admission:
    """Memory admission for one GPU. Thread-safe."""

    def __init__(self, memory: Memory, patience_s: float = PATIENCE_S) -> None:
        self._memory, self._patience_s = memory, patience_s
        self._changed = threading.Condition()
        self._waiting: deque[object] = deque()
        self._admitted = self._under_way = self._others = 0
        self._solitary = False
        """Whether the running verification asked to be alone."""
        self._kept: OrderedDict[int, tuple[weakref.ref[Any], int]] = OrderedDict()
        """Kept data and its bytes when its last use ended, the least recently used first."""
        self._used: Counter[int] = Counter()

    @functools.cached_property
    def total(self) -> int:
        """Bytes of the GPU's memory; read on first use, since reading it creates a context there."""
        return self._memory.info()[1]

    @contextlib.contextmanager
    def admitted(
        self, size: int, uses: Sequence[Kept] = (), making: int = 0, alone: bool = False
    ) -> Iterator[int]:
        """Wait for memory: `size` bytes, or `making` bytes if kept data that it `uses` was freed. Yields the bytes free then.

        `size` excludes the data it uses, `making` includes that.

        That data is not freed before the context ends. `alone`: nothing else runs and nothing is kept.
        """
        ticket = object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                self._changed.wait_for(lambda: self._waiting[0] is ticket)
                granted = self._let_in(size, uses, making, alone)
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()
        try:
            yield self._memory.info()[0]
        finally:
            with self._changed:
                self._admitted -= granted
                self._under_way -= 1
                self._solitary = False
                for item in uses:
                    self._used[id(item)] -= 1
                self._changed.notify_all()
                self._keep(uses)
                if not self._under_way and self._memory.spare() > _HOARD_BYTES:
                    self._memory.give_back()

    @property
    def kept(self) -> int:
        """Bytes kept between verifications."""
        return sum(size for _, _, size in self._living())

    def register(self, items: Sequence[Kept]) -> None:
        """Account for data that was made, until it is garbage-collected."""
        with self._changed:
            self._keep(items)

    def _keep(self, items: Sequence[Kept]) -> None:
        for item in items:
            self._kept.pop(id(item), None)
            if (size := item.kept_bytes) >= _LEAST_BYTES:
                self._kept[id(item)] = weakref.ref(item), size
        over = self.kept - int(_KEPT_SHARE * self.total)
        if over > 0:
            self._release(over, items)

    def _living(self) -> list[tuple[int, Kept, int]]:
        """(key, data, bytes) of what is kept, the least recently used first."""
        found = []
        for key, (reference, size) in list(self._kept.items()):
            item = reference()
            if item is None:
                del self._kept[key]
            else:
                found.append((key, item, size))
        return found

    def _release(self, wanted: int, spared: Sequence[Kept] = ()) -> int:
        """Free unused kept data until `wanted` bytes are freed. Returns how many were."""
        found = 0
        for key, item, size in self._living():
            if found >= wanted:
                break
            if self._used[key] <= 0 and not any(item is other for other in spared):
                item.release()
                del self._kept[key]
                found += size
        return found

    def _let_in(self, size: int, uses: Sequence[Kept], making: int, alone: bool) -> int:
        """Wait at the head of the queue for memory. Returns the bytes granted."""
        end = time.monotonic() + self._patience_s
        while True:
            needed = size if all(item.made for item in uses) else max(size, making)
            quiet = self._under_way == 0
            if quiet or not (alone or self._solitary):
                free = self._free_bytes()
                if alone:
                    free, needed = self._release_until(self.total), max(size, making)
                elif free < needed:
                    free = self._release_until(needed, uses)
                if free >= needed or (quiet and (not alone or time.monotonic() >= end)):
                    break
            self._changed.wait(_LOOK_S)
        self._admitted += needed
        self._under_way += 1
        self._solitary = alone
        for item in uses:
            self._used[id(item)] += 1
        return needed

    def _free_bytes(self) -> int:
        """Bytes neither in use nor granted."""
        free, total = self._memory.info()
        known = self._memory.spare() + self.kept + self._admitted
        beyond = max(0, total - free - known)
        self._others = max(self._others, beyond) if self._under_way else beyond
        return min(free, total - self._others - known) - int(_MARGIN_SHARE * total)

    def _release_until(self, needed: int, uses: Sequence[Kept] = ()) -> int:
        """Give back spare memory, then free kept data that is not in `uses`. Returns the bytes free then."""
        self._memory.give_back()
        free = self._free_bytes()
        while free < needed and self._release(needed - free, uses):
            self._memory.give_back()
            free = self._free_bytes()
        return free
