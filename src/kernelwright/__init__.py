"""Kernelwright: trains language models to write fast Triton kernels, and verifies that the kernels are correct and honest.

fast = kernelwright.optimize(module, example_inputs)    # a drop-in module; see `kernelwright.api`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelwright.api import Optimized, export, load, optimize, save

__version__ = "0.1.0"
__all__ = ["Optimized", "__version__", "export", "load", "optimize", "save"]


def __getattr__(name: str) -> Any:
    """Import the library, and torch with it, on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kernelwright import api

    return getattr(api, name)
