"""Shadow memory: residues for the floating-point elements of a storage.

A storage gets a shadow when it is first read as floats, or when unknown numbers are stored there. Its ordinary numbers are
then read as literals; memory never written holds NaN, which is undefined here.

Does not follow bits: raises NotExact for memory read in another width than it was written in.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import torch

from kernelwright.verify.exact.order import Calculator
from kernelwright.verify.exact.values import UNDEFINED, Exact, Kind, NotExact, Tag
from kernelwright.verify.trace.tape import View

_ABSENT = -9


@dataclasses.dataclass
class Shadow:
    """The shadow of one storage: a residue per level and element, `_ABSENT` at levels that an element lacks."""

    planes: np.ndarray
    width: int
    kind: Kind
    storage: torch.UntypedStorage
    """Kept alive, so that no other storage gets the same identity."""
    maxima: bool = False
    """Whether only maxima were stored here."""
    scale: np.ndarray | None = None
    """For each element the exponent t of its factor exp(t); 0 if it has none."""

    def read(self, index: np.ndarray) -> Exact:
        planes = self.planes[:, index]
        while len(planes) > 1 and (planes[-1] == _ABSENT).any():
            planes = planes[:-1]
        made = Exact(planes, False, None, self.kind)
        made.special = bool((made.planes[0] < 0).any())
        if self.maxima:
            made.tag = Tag("maximum")
        elif self.scale is not None:
            made.tag = Tag("scale", (Exact(self.scale[:, index]),))
        return made

    def write(self, index: np.ndarray, value: Exact) -> None:
        """`value` has the shape of `index`."""
        whole = index.size >= self.planes.shape[1]
        self.maxima = (
            value.tag is not None and value.tag.kind == "maximum" and (whole or self.maxima or self.fresh)
        )
        self.planes[: value.levels, index] = value.planes
        self.planes[value.levels :, index] = _ABSENT
        exponent = value.tag.values[0] if value.tag is not None and value.tag.kind == "scale" else None
        if exponent is not None and exponent.levels == len(self.planes) and not exponent.special:
            if self.scale is None:
                self.scale = np.zeros_like(self.planes)
            self.scale[:, index] = exponent.planes
        elif self.scale is not None:
            self.scale[:, index] = 0
        if value.kind == "f":
            self.kind = "f"

    @property
    def fresh(self) -> bool:
        """Whether nothing was written yet."""
        return bool((self.planes[0] < 0).all())


class Shadows:
    """Shadows by storage."""

    def __init__(self, calculator: Calculator) -> None:
        self.calculator = calculator
        self._known: dict[int, Shadow] = {}

    def forget(self, storage: torch.UntypedStorage) -> None:
        """Drop the shadow: the storage is ordinary memory again."""
        self._known.pop(storage._cdata, None)

    def find(self, storage: torch.UntypedStorage, width: int) -> Shadow | None:
        """The shadow, if there is one. Raises NotExact if its elements have another width."""
        found = self._known.get(storage._cdata)
        if found is not None and found.width != width:
            raise NotExact("memory read in another width than it was written in")
        return found

    def of(self, storage: torch.UntypedStorage, dtype: torch.dtype) -> Shadow:
        """The shadow, made from the memory's contents if there is none."""
        found = self.find(storage, dtype.itemsize)
        if found is not None:
            return found
        count = storage.nbytes() // dtype.itemsize
        flat = torch.empty(0, dtype=dtype).set_(storage, 0, (count,), (1,))
        array = (flat.double() if dtype.is_floating_point else flat).numpy()
        value = self.calculator.stored(array)
        planes = np.ascontiguousarray(value.planes).copy()
        found = self._known[storage._cdata] = Shadow(planes, dtype.itemsize, value.kind, storage)
        return found

    def fresh(self, storage: torch.UntypedStorage, dtype: torch.dtype) -> None:
        """Make an undefined shadow, for new memory."""
        count, levels = storage.nbytes() // dtype.itemsize, self.calculator.levels
        planes = np.full((levels, count), UNDEFINED, dtype=np.int64)
        self._known[storage._cdata] = Shadow(planes, dtype.itemsize, "f", storage)

    def put(self, view: View, dtype: torch.dtype, storage: torch.UntypedStorage, value: Exact) -> None:
        """Store `value` at a view."""
        shadow = self.of(storage, dtype)
        shadow.write(places(view), value)

    def get(self, view: View, dtype: torch.dtype, storage: torch.UntypedStorage) -> Exact:
        return self.of(storage, dtype).read(places(view))


def places(view: View) -> np.ndarray:
    """The storage index of each element of a tensor."""
    found = np.full((), view.offset, dtype=np.int64)
    for extent, stride in zip(view.shape, view.stride, strict=True):
        found = found[..., None] + np.arange(extent, dtype=np.int64) * stride
    return found.reshape(view.shape)
