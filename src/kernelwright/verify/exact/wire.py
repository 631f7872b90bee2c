"""Encodes residues and ordinary tensors for messages between judge and interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from kernelwright.verify.exact import field
from kernelwright.verify.exact.values import Exact

Value = Exact | torch.Tensor
"""An array of unknown numbers (`Exact`) or of known ones."""


def encode(values: Sequence[Value], tensors: list[torch.Tensor]) -> list[dict[str, Any]]:
    """Values as JSON; their tensors are appended to `tensors`."""
    found = []
    for value in values:
        if isinstance(value, Exact):
            found.append({"exact": len(tensors), "special": value.special, "kind": value.kind})
            tensors.append(torch.from_numpy(np.ascontiguousarray(value.planes)))
        else:
            found.append({"known": len(tensors)})
            tensors.append(value)
    return found


def decode(spec: Sequence[Mapping[str, Any]], tensors: Sequence[torch.Tensor]) -> list[Value]:
    """The inverse of `encode`. Raises LookupError, TypeError or ValueError for malformed input."""
    found: list[Value] = []
    for item in spec:
        if "known" in item:
            found.append(tensors[item["known"]])
            continue
        planes = tensors[item["exact"]]
        if planes.dtype != torch.int64 or planes.ndim < 1 or not 1 <= len(planes) <= field.LEVELS:
            raise ValueError("not residues")
        found.append(Exact(planes.numpy(), bool(item["special"]), None, item["kind"]))
    return found
