"""Which bytes of memory hold what a kernel stored, or what torch copied from such bytes.

Each storage has a shadow of its own size: only for small sizes, and for one call.
"""

from __future__ import annotations

import numpy as np
import torch

from kernelwright.verify.interpret.memory import REACH, REGION_BITS, Memory, spread
from kernelwright.verify.sandbox import channel
from kernelwright.verify.trace.tape import View


class Marks:
    """Shadows by storage: 1 for bytes that a kernel made."""

    def __init__(self) -> None:
        self._shadows: dict[int, torch.UntypedStorage] = {}

    def store(self, memory: Memory, pointers: np.ndarray, mask: np.ndarray, itemsize: int) -> None:
        """Mark bytes that the lanes in `mask` store to checked pointers."""
        active = pointers[spread(mask, pointers.shape)].reshape(-1)
        slots = active >> np.uint64(REGION_BITS)
        for slot in np.unique(slots):
            storage = memory.regions[int(slot) - 1].keep
            shadow = self._bytes(storage).numpy()
            places = active[slots == slot] & REACH
            for byte in range(itemsize):
                shadow[places + np.uint64(byte)] = 1

    def copy(
        self, target: View, to: torch.UntypedStorage, source: View, origin: torch.UntypedStorage
    ) -> None:
        """Copy marks as torch copies elements."""
        self._tensor(target, to).copy_(self._tensor(source, origin))

    def of(self, view: View, storage: torch.UntypedStorage) -> torch.Tensor:
        """By element of a tensor, whether a kernel made it."""
        width = view.itemsize
        first = self._bytes(storage).as_strided(
            view.shape, [stride * width for stride in view.stride], view.offset * width
        )
        return first != 0

    def _tensor(self, view: View, storage: torch.UntypedStorage) -> torch.Tensor:
        made = torch.empty(0, dtype=channel.DTYPES[view.dtype])
        return made.set_(self._bytes(storage).untyped_storage(), view.offset, view.shape, view.stride)

    def _bytes(self, storage: torch.UntypedStorage) -> torch.Tensor:
        if storage._cdata not in self._shadows:
            made = torch.zeros(storage.nbytes(), dtype=torch.uint8)
            self._shadows[storage._cdata] = made.untyped_storage()
        return torch.empty(0, dtype=torch.uint8).set_(self._shadows[storage._cdata])
