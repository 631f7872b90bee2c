"""The judge: decides whether a candidate kernel is correct, honest and fast, and trusts nothing it says.

Imports only the nouns (floor 0), `candidates` and `graph`, so that it can become a package of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelwright.config import VerifyConfig
    from kernelwright.verify.cluster import ClusterPool
    from kernelwright.verify.pool import VerifierPool
    from kernelwright.verify.remote import RemotePool

__all__ = ["VerifierPool", "open_pool", "pool_at"]


def open_pool(config: VerifyConfig) -> VerifierPool | RemotePool | ClusterPool:
    """The judge that a recipe's `[verify]` names: here, on servers, or on a Ray cluster. Raises UserError."""
    if config.judge:
        options = {"protocol": config.protocol, "target": config.target, "deadline_s": config.deadline_s}
        return pool_at(config.judge, **options)
    from kernelwright.verify.pool import VerifierPool

    return VerifierPool.of(config)


def pool_at(where: str, **options: Any) -> RemotePool | ClusterPool:
    """`http://...`: servers, which use their own settings. `ray`, `ray://...`: a cluster, with `options`."""
    if where == "ray" or where.startswith("ray://"):
        from kernelwright.verify.cluster import ClusterPool

        return ClusterPool("auto" if where == "ray" else where, **options)
    from kernelwright.verify.remote import RemotePool

    return RemotePool(where)


def __getattr__(name: str) -> object:
    if name == "VerifierPool":
        from kernelwright.verify.pool import VerifierPool

        return VerifierPool
    raise AttributeError(name)
