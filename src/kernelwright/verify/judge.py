"""What hearings share: the cases and the baselines of each task, made once and kept while they are needed.

The judge holds the reference, the seeds, the expected outputs and the tolerances. `hearing.py` is one
candidate before it; the worker that a hearing talks to has none of these and is thrown away afterwards.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from kernelwright.errors import UserError
from kernelwright.hardware import target as target_sheet
from kernelwright.records import Task
from kernelwright.verify.protocol import Protocol

_CACHED_TASKS = 512
_GPU_TASKS = 64


class Judge:
    """Shared between hearings; thread-safe. `secret` seeds all inputs and never leaves this process."""

    def __init__(self, protocol: Protocol, target: str, secret: int, deadline_s: float = 30.0) -> None:
        self.protocol = protocol
        self.target = target_sheet(target)
        self.deadline_s = deadline_s
        self._secret = secret
        self._lock = threading.RLock()
        self._cases: OrderedDict[str, Any] = OrderedDict()
        self._gpu_cases: OrderedDict[str, Any] = OrderedDict()
        self._compiled: dict[tuple[str, str], float] = {}
        self._baselines: OrderedDict[str, Any] = OrderedDict()

    def cases(self, task: Task) -> list[Any]:
        """The correctness cases of a task's small shape sets, made once. Raises UserError for a broken task."""
        from kernelwright.verify import oracle

        shapes = [name for name in task.shapes if name.startswith("small")]
        if not shapes:
            raise UserError(
                f"task {task.id} has no shape set named small*: without a GPU a kernel is judged at small sizes "
                "(add [shapes.small] or load the task through kernelwright.tasks)"
            )
        if not self.protocol.more_shapes:
            shapes = shapes[:1]
        with self._lock:
            found = self._cases.get(task.digest)
            if found is None:
                found = [
                    oracle.shape_cases(task, name, task.shapes[name], self.protocol, self._secret, position)
                    for position, name in enumerate(shapes)
                ]
                if len(shapes) > 1 and (hidden := self._hidden(task, shapes, len(shapes))) is not None:
                    found.append(hidden)
                self._cases[task.digest] = found
                while len(self._cases) > _CACHED_TASKS:
                    self._cases.popitem(last=False)
            return found

    def _hidden(self, task: Task, shapes: list[str], position: int) -> Any:
        """Cases at sizes that nobody but this judge knows; None where the task has no room for them.

        The sizes that differ between the task's own small sets are free to change: each is shrunk by a secret
        amount, all at once if the reference takes it, else one at a time.
        """
        from kernelwright.verify import oracle

        for sizes in self._smaller(task, shapes):
            with contextlib.suppress(Exception):
                return oracle.shape_cases(task, "hidden", sizes, self.protocol, self._secret, position)
        return None

    def _hidden_sizes(self, task: Task, shapes: list[str]) -> dict[str, int]:
        """The first hidden sizes that the reference takes, or nothing."""
        from kernelwright.verify import oracle

        for sizes in self._smaller(task, shapes):
            with contextlib.suppress(Exception):
                oracle.shape_cases(task, "hidden", sizes, self.protocol, self._secret, len(shapes))
                return sizes
        return {}

    def _smaller(self, task: Task, shapes: list[str]) -> Iterator[dict[str, int]]:
        dice = random.Random(f"{self._secret}:{task.digest}")
        sets = [task.shapes[name] for name in shapes]
        base = dict(sets[-1])
        free = [name for name, size in base.items() if size >= 4 and any(s.get(name) != size for s in sets)]
        choices = [free, *([name] for name in dice.sample(free, len(free)))] if free else []
        for names in choices[:4]:
            yield base | {name: base[name] - dice.randint(1, max(1, base[name] // 4)) for name in names}

    def gpu_cases(self, task: Task, gpu: Any) -> list[Any]:
        """Shape sets on the GPU, small ones first and the full size last, their cases made when asked for."""
        from kernelwright.verify import oracle

        with self._lock:
            found = self._gpu_cases.get(task.digest)
            if found is None:
                found = []
                device = f"cuda:{gpu.index}"

                def keep(size: int) -> bool:
                    held = sum(item.kept_bytes for items in self._gpu_cases.values() for item in items)
                    return held + sum(item.kept_bytes for item in found) + size <= gpu.kept_bytes

                small = (
                    [name for name in task.shapes if name.startswith("small")]
                    if self.protocol.honesty
                    else []
                )
                sets = [(name, dict(task.shapes[name])) for name in small]
                if len(small) > 1 and (hidden := self._hidden_sizes(task, small)):
                    sets.append(("hidden", hidden))
                for position, (name, sizes) in enumerate(
                    [*sets, ("full", dict(task.shapes.get("full", {})))]
                ):
                    full = name == "full"
                    rank = 0 if full and not self.protocol.honesty else min(position, 1) if full else position
                    plan = oracle.draws(self.protocol, self._secret, rank)
                    found.append(oracle.LazyCases(task, name, sizes, self.protocol, plan, device, full, keep))
                self._gpu_cases[task.digest] = found
                while len(self._gpu_cases) > _GPU_TASKS:
                    self._gpu_cases.popitem(last=False)
            return found

    def compiled_ratio(
        self, task: Task, shape: Any, gpu: Any, device: Any, inputs: Any, deadline: float
    ) -> float | None:
        """torch.compile's time over eager's at full size: None unless it was measured (see `measure_compiled`)."""
        return self._compiled.get((task.digest, gpu.name))

    def baseline(self, task: Task) -> Any:
        """The modelled baselines at full size; None where the reference cannot be modelled."""
        from kernelwright.verify.baseline import baseline

        with self._lock:
            if task.digest not in self._baselines:
                found = None
                with contextlib.suppress(Exception):
                    found = baseline(task, dict(task.shapes.get("full", {})), self.target)
                self._baselines[task.digest] = found
                while len(self._baselines) > _CACHED_TASKS:
                    self._baselines.popitem(last=False)
            return self._baselines[task.digest]
