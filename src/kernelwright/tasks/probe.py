"""Does a reference run at these sizes? Asked of one helper process that imports torch once and forks per question.

    with ReferenceProbe() as runs:
        runs(task, {"N": 64})   # True or False

"Runs" means: constructor and forward finish within the limits, no tensor anywhere (inputs, parameters,
intermediates) is larger than `max_elements`, and the outputs are tensors, not empty and free of NaN.

References are trusted code: the limits on time and memory contain accidents, not attacks.
"""

import json
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Self

from kernelwright.errors import InfrastructureError, UserError
from kernelwright.records import Task
from kernelwright.shapes import apply_shape


class ReferenceProbe:
    """A callable `(task, overrides) -> bool`, and the context manager of its helper process.

    `seconds` bounds one question (wall clock), `max_elements` any one tensor.
    """

    def __init__(self, max_elements: int = 2**19, seconds: float = 5.0) -> None:
        self.max_elements = max_elements
        self.seconds = seconds
        self._helper: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._helper = subprocess.Popen(
            [sys.executable, "-m", "kernelwright.tasks.probe"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        )
        return self

    def __exit__(self, *_: object) -> None:
        if self._helper is not None:
            self._helper.kill()
            self._helper.communicate()
            self._helper = None

    def __call__(self, task: Task, overrides: Mapping[str, int]) -> bool:
        """Raises InfrastructureError when the helper itself has died."""
        assert self._helper is not None, "use ReferenceProbe as a context manager"
        assert self._helper.stdin is not None
        assert self._helper.stdout is not None
        try:
            source = apply_shape(task.source, overrides)
        except UserError:
            return False
        question = {"source": source, "max_elements": self.max_elements, "seconds": self.seconds}
        try:
            self._helper.stdin.write(json.dumps(question) + "\n")
            self._helper.stdin.flush()
            answer = self._helper.stdout.readline()
        except OSError:
            answer = ""
        if not answer:
            raise InfrastructureError("the helper process that probes references has died")
        return bool(json.loads(answer))


def reference_runs(source: str, max_elements: int) -> bool:
    """The question itself, answered in this process: executes `source`. Any exception of it means False."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class SizeLimit(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            for leaf in tree_leaves(result):
                if isinstance(leaf, torch.Tensor) and leaf.numel() > max_elements:
                    raise MemoryError(f"a tensor of {leaf.numel()} elements")
            return result

    space: dict[str, Any] = {"__name__": "reference"}
    try:
        torch.manual_seed(0)
        exec(compile(source, "<reference>", "exec"), space)
        with torch.no_grad(), SizeLimit():
            model = space["Model"](*space["get_init_inputs"]())
            outputs = tree_leaves(model(*space["get_inputs"]()))
        tensors = [leaf for leaf in outputs if isinstance(leaf, torch.Tensor)]
        return bool(tensors) and all(t.numel() and not bool(t.isnan().any()) for t in tensors)
    except (Exception, SystemExit):
        return False


def _serve() -> None:
    """Read questions as JSON lines on stdin; answer `true` or `false`, each from a forked, limited child."""
    import torch

    torch.set_num_threads(1)
    reference_runs(_WARM_UP, 8)  # first-use imports, paid once instead of in every child
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a reference prints must not look like an answer
    for line in sys.stdin:
        question = json.loads(line)
        child = os.fork()
        if child == 0:
            devnull = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(devnull, descriptor)
            limit = 8 * 2**30
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            os._exit(0 if reference_runs(question["source"], question["max_elements"]) else 1)
        answers.write(json.dumps(_wait(child, question["seconds"]) == 0) + "\n")
        answers.flush()


_WARM_UP = """
import torch
class Model(torch.nn.Linear): pass
def get_inputs(): return [torch.rand(2, 2)]
def get_init_inputs(): return [2, 2]
"""


def _wait(child: int, seconds: float) -> int:
    """Exit code of `child`, or -1 after killing it at the limit."""
    handle = os.pidfd_open(child)
    try:
        if not select.select([handle], [], [], seconds)[0]:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    _serve()
