"""What a user names on the command line, read and checked: one task, a kernel, tasks that can be judged.

Nothing of a kernel is executed here. References are the user's own and are trusted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InfrastructureError, UserError
from kernelwright.precision import asked_in, precision_of
from kernelwright.records import Candidate, Task
from kernelwright.tasks import load_suite, small_shapes
from kernelwright.tasks.form import read_text

if TYPE_CHECKING:
    from kernelwright.verify import VerifierPool
    from kernelwright.verify.cluster import ClusterPool
    from kernelwright.verify.remote import RemotePool


def one_task(spec: str, precision: str = "default") -> Task:
    """The one task that a file or a suite's name stands for, asked in a precision, with sizes that can be judged without a
    GPU."""
    found = load_suite(spec)
    if len(found) != 1:
        raise UserError(f"{spec} names {len(found)} tasks; name one, such as {found[0].id}")
    task = small_shapes(found[0])
    if not task.shape_sets("small"):
        _explain(task)
        raise UserError(
            f"{spec}: no sizes small enough for the interpreter could be found; put it in a folder as task.py "
            "with a task.toml that gives [shapes.small]"
        )
    return asked_in(task, precision)


def suite(spec: str, limit: int = 0, precision: str = "default") -> list[Task]:
    """The first `limit` (0: all) tasks of a suite, asked in a precision, but for those that do not run in it. Raises UserError
    when none of them can be judged."""
    found = load_suite(spec)[: limit or None]
    good, bad = judgeable(found)
    if bad:
        names = ", ".join(task.id for task in bad[:5]) + (", ..." if len(bad) > 5 else "")
        print(f"{len(bad)} of {len(found)} tasks left out, for no small sizes run: {names}", file=sys.stderr)
    if not good:
        raise UserError(f"{spec}: no task runs at sizes small enough for the interpreter")
    asked = [asked_in(task, precision) for task in good]
    runs = [task for task in asked if not precision_of(task).cast or not _raised(task)]
    if len(runs) < len(asked):
        print(
            f"{len(asked) - len(runs)} of {len(asked)} tasks left out, for they do not run in {precision}",
            file=sys.stderr,
        )
    if not runs:
        raise UserError(f"{spec}: no task runs in {precision}; choose another precision")
    return runs


def judgeable(tasks: Sequence[Task]) -> tuple[list[Task], list[Task]]:
    """(tasks with small sizes, tasks for which none were found)."""
    if all(task.shape_sets("small") for task in tasks):
        return list(tasks), []
    from kernelwright.progress import Bar
    from kernelwright.tasks.probe import ReferenceProbe

    sized = []
    with ReferenceProbe() as probe, Bar("small sizes", len(tasks)) as bar:
        for task in tasks:
            sized.append(small_shapes(task, probe))
            bar.advance()
    return [t for t in sized if t.shape_sets("small")], [t for t in sized if not t.shape_sets("small")]


def kernel(path: Path) -> Candidate:
    """A `.py` file as it stands; any other file as a completion, out of which the code is parsed."""
    from kernelwright import candidates

    text = read_text(path)
    if path.suffix.lower() == ".py" and text.strip():
        return Candidate(code=text)
    return candidates.parse(text)


def place(path: Path) -> Path:
    """`path`, where a file may be put. Raises UserError for a device, a pipe, a folder: files appear by rename."""
    if (path.exists() and not path.is_file()) or path.absolute().is_relative_to("/dev"):
        raise UserError(f"{path} is no regular file; name one")
    return path


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

    `protocol` may name several, with commas: the first decides, the others are reported beside it.
    """
    from kernelwright.verify import VerifierPool

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
    workers: int = 0,
    deadline_s: float = 30.0,
    sanitize: bool = False,
    proofs: bool = False,
) -> Iterator[VerifierPool | RemotePool | ClusterPool]:
    """The judge on servers, where `addresses` are given; else `judge`, here. Servers judge by their own settings."""
    if addresses:
        from kernelwright.verify import pool_at

        decides: Any = protocol.split(",")[0]
        with pool_at(
            addresses, backend=backend, protocol=decides, target=target, deadline_s=deadline_s
        ) as pool:
            yield pool
        return
    with judge(task, backend, protocol, target, workers, deadline_s, sanitize, proofs) as here:
        yield here


def _explain(task: Task) -> None:
    """Raise what the task itself raises, on tensors without memory."""
    if why := _raised(task):
        raise UserError(f"task {task.id}: Model.forward raises {why}; mend the task")


def _raised(task: Task) -> str:
    """What a task's forward raises on tensors without memory, in its precision; empty where it runs."""
    import torch

    from kernelwright.verify.reference.oracle import Reference

    with torch.device("meta"):
        reference = Reference(task)
        module = reference.build()
        inputs = reference.inputs(0)
        try:
            module(*inputs)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return ""
