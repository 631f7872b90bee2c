"""The processes that share a run, as started by a launcher (accelerate, torchrun); also works in a single process."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
from collections.abc import Iterator
from datetime import timedelta

import torch

from kernelwright.config import VerifyConfig
from kernelwright.errors import InfrastructureError, UserError, one_line

PATIENCE_S = 6 * 3600
"""How long processes wait for one another; long, since the first one also makes the data and evaluates."""


def count() -> int:
    """Number of processes that share the run."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def first() -> bool:
    """Whether this process writes the run's files."""
    return os.environ.get("RANK", "0") == "0"


def split() -> bool:
    """Whether the launcher has FSDP split the model among processes."""
    return os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true"


def together() -> None:
    """Wait until every process arrives here."""
    if count() > 1:
        from accelerate import PartialState

        # Without a GPU, `cpu` must be set, or each process believes it is the only one.
        state = PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(seconds=PATIENCE_S))
        state.wait_for_everyone()
        _leave_at_exit()


@contextlib.contextmanager
def others_there() -> Iterator[None]:
    """Turns the error of a lost process of the run into an InfrastructureError of one line: a process waiting for it would hang."""
    try:
        yield
    except RuntimeError as error:
        if count() == 1 or not _from_others(error):
            raise
        raise InfrastructureError(
            f"another of the run's {count()} processes ended ({one_line(error)}); see what it said, "
            "then go on with --resume"
        ) from None


def _from_others(error: RuntimeError) -> bool:
    """Whether the error comes from communication with other processes."""
    import torch.distributed as group

    return isinstance(error, group.DistError) or "gloo" in str(error).lower()


@functools.cache
def _leave_at_exit() -> None:
    """Leave the process group at exit. Otherwise its threads are torn down with the process, which aborts if another has
    already left."""
    import torch.distributed as group

    atexit.register(lambda: group.destroy_process_group() if group.is_initialized() else None)


def share_of(number: int, name: str) -> int:
    """This process's part of a step's `number`. Raises UserError if it does not divide evenly."""
    if number % count():
        raise UserError(
            f"{name} = {number} cannot be shared by {count()} processes; make it a multiple of {count()}"
        )
    return number // count()


def share_of_judge(config: VerifyConfig) -> VerifyConfig:
    """This process's part of its machine's judge: of the workers and of the GPUs, so that two judges never share a GPU if
    each process can have one. Servers and clusters are not divided: one judge serves all."""
    here, place = int(os.environ.get("LOCAL_WORLD_SIZE", count())), int(os.environ.get("LOCAL_RANK", "0"))
    if here == 1 or config.judge:
        return config
    devices = config.devices or tuple(range(gpus()))
    own = devices[place::here] or devices[place % len(devices) :][:1] if devices else ()
    return config.model_copy(update={"workers": max(1, config.workers // here), "devices": own})


def gpus() -> int:
    """Number of GPUs that this process sees."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0
