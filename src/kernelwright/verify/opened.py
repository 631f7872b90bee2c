"""Opens the judge of a command: local, on servers or on a cluster; tries its task first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InfrastructureError, UserError
from kernelwright.hardware import target as target_sheet
from kernelwright.records import Task
from kernelwright.verify import pool_at
from kernelwright.verify.pool import VerifierPool
from kernelwright.verify.remote import RemotePool
from kernelwright.verify.sandbox import zygote as zygotes

if TYPE_CHECKING:
    from kernelwright.verify.cluster import ClusterPool


def warm_up(target: str) -> None:
    """Start the zygote that a judge opened later would wait for; returns at once."""
    zygotes.warm_up(target_sheet(target).name)


@contextmanager
def judge(
    task: Task | None,
    backend: str,
    protocol: str,
    target: str,
    workers: int = 0,
    deadline_s: float = 30.0,
    sanitize: bool = False,
    proofs: bool = False,
) -> Iterator[VerifierPool]:
    """A verifier pool. Tries `task` first, if given, and raises UserError if its reference raises.

    `protocol` may name several, with commas: the first decides, the others are reported with it.
    """
    decides, *beside = (name.strip() for name in protocol.split(","))
    # `Any`: the pool checks the names itself.
    names: Any = {"backend": backend, "protocol": decides, "beside": beside}
    options: Any = {"sanitize": sanitize, "proofs": proofs, "kept": True, **names}
    made = VerifierPool(workers or None, target=target, deadline_s=deadline_s, **options)
    with made as pool:
        pool.start()
        if task is not None:
            try:
                pool.judge.cases(task)
            except (UserError, InfrastructureError):
                raise
            except Exception as error:
                raise UserError(
                    f"task {task.id}: Model.forward raises {type(error).__name__}: {error}; fix the task"
                ) from None
        yield pool


@contextmanager
def judge_at(
    addresses: str,
    task: Task | None,
    backend: str,
    protocol: str,
    target: str,
    deadline_s: float = 30.0,
    **more: Any,
) -> Iterator[VerifierPool | RemotePool | ClusterPool]:
    """The judge at `addresses`, if given; else a local one, `judge(..., **more)`. Servers use their own settings."""
    if addresses:
        decides: object = protocol.split(",")[0]
        with pool_at(
            addresses, backend=backend, protocol=decides, target=target, deadline_s=deadline_s
        ) as pool:
            if isinstance(pool, RemotePool):
                pool.reach()
            yield pool
        return
    with judge(task, backend, protocol, target, deadline_s=deadline_s, **more) as here:
        yield here
