"""The judge: decides whether a candidate kernel is correct, honest and fast, and trusts nothing it says.

Imports floor 0 and `candidates` only, so that it can be taken out as a package of its own.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelwright.verify.pool import VerifierPool

__all__ = ["VerifierPool"]


def __getattr__(name: str) -> Any:
    if name == "VerifierPool":
        from kernelwright.verify.pool import VerifierPool

        return VerifierPool
    raise AttributeError(name)
