"""The processes that share a run, as a launcher (accelerate, torchrun) started them. One process needs none of it."""

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
"""How long processes wait for one another: the first one also makes the data and evaluates."""


def count() -> int:
    """How many processes share the run."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def first() -> bool:
    """Whether this is the process that writes the run's files."""
    return os.environ.get("RANK", "0") == "0"


def split() -> bool:
    """Whether the launcher has FSDP split the model among the processes."""
    return os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true"


def together() -> None:
    """Wait until every process has come here."""
    if count() > 1:
        from accelerate import PartialState

        # Without a GPU it has to be told, or it takes each process for the only one.
        state = PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(seconds=PATIENCE_S))
        state.wait_for_everyone()
        _left_at_the_end()


@contextlib.contextmanager
def others_there() -> Iterator[None]:
    """Raises InfrastructureError, one line, where another process of the run is gone: what this one waits for never comes."""
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
    """Whether it comes of talking to other processes."""
    import torch.distributed as group

    return isinstance(error, group.DistError) or "gloo" in str(error).lower()


@functools.cache
def _left_at_the_end() -> None:
    """Have the process leave the others' group when it ends: its threads would be torn down under it, and abort it, where
    another has gone before."""
    import torch.distributed as group

    atexit.register(lambda: group.destroy_process_group() if group.is_initialized() else None)


def share_of(number: int, name: str) -> int:
    """What one process has of a step's `number`. Raises UserError where that is no whole number."""
    if number % count():
        raise UserError(
            f"{name} = {number} cannot be shared by {count()} processes; make it a multiple of {count()}"
        )
    return number // count()


def share_of_judge(config: VerifyConfig) -> VerifyConfig:
    """This process's part of its machine's judge: of the workers and of the GPUs, so that no GPU has two judges while there
    is one for each process. Servers and clusters are one judge for all as they are."""
    here, place = int(os.environ.get("LOCAL_WORLD_SIZE", count())), int(os.environ.get("LOCAL_RANK", "0"))
    if here == 1 or config.judge:
        return config
    devices = config.devices or tuple(range(gpus()))
    own = devices[place::here] or devices[place % len(devices) :][:1] if devices else ()
    return config.model_copy(update={"workers": max(1, config.workers // here), "devices": own})


def gpus() -> int:
    """GPUs that this process sees."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0
