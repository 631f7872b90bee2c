"""The judge: decides whether a candidate kernel is correct, honest and fast, and trusts nothing it says.

Imports floor 0 and `candidates` only, so that it can be taken out as a package of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelwright.config import VerifyConfig
    from kernelwright.verify.pool import VerifierPool
    from kernelwright.verify.remote import RemotePool

__all__ = ["VerifierPool", "open_pool"]


def open_pool(config: VerifyConfig) -> VerifierPool | RemotePool:
    """The judge that a recipe's `[verify]` names: here, or on servers. Raises UserError."""
    if config.judge:
        from kernelwright.verify.remote import RemotePool

        return RemotePool(config.judge)
    from kernelwright.verify.pool import VerifierPool

    return VerifierPool.of(config)


def __getattr__(name: str) -> Any:
    if name == "VerifierPool":
        from kernelwright.verify.pool import VerifierPool

        return VerifierPool
    raise AttributeError(name)
