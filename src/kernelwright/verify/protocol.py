"""The rules of a judgement: distributions, seeds, tolerances, and which gates apply."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from kernelwright.errors import UserError
from kernelwright.precision import DEFAULT, HALF, Precision
from kernelwright.records import ProtocolName

BELOW_ZERO = -math.inf
"""Stands among the factors for inputs all below zero, which reveal a maximum that starts at 0."""


@dataclasses.dataclass(frozen=True)
class Protocol:
    """One set of rules."""

    name: ProtocolName
    distributions: tuple[float, ...]
    """Factors on every floating-point input, or `BELOW_ZERO`."""
    affine: bool
    """Whether parameters initialised to ones or zeros get other values (`trace/affine.py`)."""
    seeds: int
    """Draws per distribution on the first shape set."""
    tolerance: Mapping[str, tuple[float, float]]
    """(rtol, atol) by dtype; `default` for the rest."""
    calibrated: bool
    """Also bound the error by a small multiple of same-precision PyTorch's error against fp64."""
    honesty: bool
    """Gates on aliasing, changed inputs, causality, state and determinism."""
    more_shapes: bool
    """Judge on every `small*` shape set, not only the first."""

    precision: Precision = DEFAULT
    """The task's precision."""

    def preset(self, dtype: str) -> tuple[float, float]:
        """(rtol, atol) for an output dtype."""
        return self.tolerance.get(dtype, self.tolerance["default"])


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            name="strict",
            distributions=(1.0, 3.0, 0.01, 30.0, -1.0, BELOW_ZERO),
            affine=True,
            seeds=1,
            tolerance={"default": (1e-4, 1e-4), "float64": (1e-7, 1e-7), **dict.fromkeys(HALF, (1e-2, 1e-2))},
            calibrated=True,
            honesty=True,
            more_shapes=True,
        ),
        # KernelBench's evaluator: five seeds, the task's own distribution, allclose; no honesty gates.
        Protocol(
            name="kernelbench",
            distributions=(1.0,),
            affine=False,
            seeds=5,
            tolerance={"default": (1e-4, 1e-4), **dict.fromkeys(HALF, (1e-2, 1e-2))},
            calibrated=False,
            honesty=False,
            more_shapes=False,
        ),
        # The Toronto report: rtol 1e-5, atol 1e-8 against PyTorch in the same precision.
        Protocol(
            name="toronto",
            distributions=(1.0,),
            affine=False,
            seeds=1,
            tolerance={"default": (1e-5, 1e-8)},
            calibrated=False,
            honesty=False,
            more_shapes=False,
        ),
    )
}


PRINTED = dataclasses.replace(
    PROTOCOLS["strict"], name="printed", distributions=(1.0,), honesty=False, more_shapes=False
)
"""For kernels that the library's printer wrote from a plan, in reinforcement learning: they cannot cheat. Not offered to users."""


def protocol(name: str) -> Protocol:
    """The rules of that name. Raises UserError for an unknown one."""
    try:
        return PROTOCOLS[name]
    except KeyError:
        raise UserError(f"unknown protocol '{name}': choose one of {', '.join(PROTOCOLS)}") from None
