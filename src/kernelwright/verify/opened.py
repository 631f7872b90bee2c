"""A judge for one command: here, on servers or on a cluster, with a task tried out first."""

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
    """Start what a judge that is opened later would wait for; returns at once."""
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
    """A verifier pool; `task`, where given, is tried out first. Raises UserError for a task that raises.

    `protocol` may name several, with commas: the first decides, the others are reported with it.
    """
    decides, *beside = (name.strip() for name in protocol.split(","))
    # The pool checks the names itself; its types say which are right.
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
                    f"task {task.id}: Model.forward raises {type(error).__name__}: {error}; mend the task"
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
    """The judge on servers, where `addresses` are given; else `judge`, here, to which `more` is said. Servers judge by their own
    settings."""
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
