"""What hearings share: the cases and the baselines of each task, made once and kept while they are needed.

The judge holds the reference, the seeds, the expected outputs and the tolerances. `hearing.py` is one
candidate before it; the worker that a hearing talks to has none of these and is thrown away afterwards.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from typing import Any

from kernelwright.errors import UserError
from kernelwright.hardware import target as target_sheet
from kernelwright.records import Task
from kernelwright.verify.protocol import Protocol

_CACHED_TASKS = 512


class Judge:
    """Shared between hearings; thread-safe. `secret` seeds all inputs and never leaves this process."""

    def __init__(self, protocol: Protocol, target: str, secret: int, deadline_s: float = 30.0) -> None:
        self.protocol = protocol
        self.target = target_sheet(target)
        self.deadline_s = deadline_s
        self._secret = secret
        self._lock = threading.RLock()
        self._cases: OrderedDict[tuple[str, str], Any] = OrderedDict()
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
        found = []
        for position, name in enumerate(shapes):
            key = (task.digest, name)
            with self._lock:
                if key not in self._cases:
                    cases = oracle.shape_cases(task, name, self.protocol, self._secret, position == 0)
                    self._cases[key] = cases
                    while len(self._cases) > _CACHED_TASKS:
                        self._cases.popitem(last=False)
                found.append(self._cases[key])
        return found

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
