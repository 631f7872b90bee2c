"""The second baseline: a reference under torch.compile, timed against eager once and cached on disk.

We keep the ratio of the two, timed in turn with the GPU to themselves; candidates are timed against eager only.
Compiling takes seconds, in a device process that ends afterwards.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from kernelwright.errors import InfrastructureError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Task
from kernelwright.verify.confined import Stop
from kernelwright.verify.gpu import timing
from kernelwright.verify.gpu.admission import OutOfMemory
from kernelwright.verify.gpu.gpu import Gpu
from kernelwright.verify.sandbox.zygote import Zygote
from kernelwright.verify.store import Store

_LIMIT_S = 240.0
_SEED = 4242
"""Need not be secret: no candidate takes part."""


def ratio(task: Task, gpu: Gpu, zygote: Zygote, size: int, store: Store) -> float | None:
    """torch.compile's time over eager's at full size; None where the reference does not compile.

    `size` is the GPU memory (bytes) to ask for. If it does not suffice, this is repeated with the GPU to itself; if even
    that runs out of memory, the result is None. Raises InfrastructureError.
    """
    import triton

    key = {
        "task": task.digest,
        "gpu": gpu.name,
        "torch": str(torch.__version__),
        "triton": str(triton.__version__),
    }
    known = store.get(**key)
    if known is None:
        try:
            known = _clock(task, gpu, zygote, size)
        except OutOfMemory:
            try:
                known = _clock(task, gpu, zygote, size, alone=True)
            except OutOfMemory:
                return None
        store.put(known, **key)
    return None if known["ratio"] is None else float(known["ratio"])


def _clock(task: Task, gpu: Gpu, zygote: Zygote, size: int, alone: bool = False) -> dict[str, Any]:
    device = gpu.fresh(zygote)
    device.deadline, device.limit_s = time.monotonic() + _LIMIT_S, _LIMIT_S
    body = {
        "command": "compile_reference",
        "task": task.model_dump(mode="json"),
        "sizes": dict(task.shapes.get("full", {})),
        "seed": _SEED,
    }
    try:
        with gpu.admission.admitted(size, alone=alone):
            device.ask(Gate.TIMING, body)
            with gpu.lock.exclusive():
                device.deadline = time.monotonic() + _LIMIT_S
                answer, _ = device.ask(Gate.TIMING, {"command": "time_reference"})
    except Stop as stop:
        if stop.outcome is Outcome.OUT_OF_MEMORY:
            raise OutOfMemory(f"torch.compile of {task.id}: {stop.detail}") from None
        if not stop.outcome.judged:
            raise InfrastructureError(f"torch.compile of {task.id}: {stop.detail}") from None
        return {"ratio": None, "why": stop.detail}
    finally:
        device.dismiss()
    rounds = answer["rounds"]
    found = timing.geometric([compiled / eager for compiled, eager in rounds])
    return {
        "ratio": found.centre,
        "interval": [found.low, found.high],
        "compiled_ms": timing.geometric([entry[0] for entry in rounds]).centre,
        "eager_ms": timing.geometric([entry[1] for entry in rounds]).centre,
    }
