"""Tests whether a reference runs at given sizes, in a helper process that imports torch once and forks per question.

    with ReferenceProbe() as runs:
        runs(task, {"N": 64})   # True, False, None: it runs, but writes to one place in no defined order; NARROW

"Runs" means: constructor and forward finish within the limits, no input or intermediate tensor has more than `max_elements`, and the
outputs are non-empty tensors without NaN. Weights may have more, and tensors made of them, too: a network's widths are rarely constants
of its file, and it has the same weights at full size.

References are trusted code: the limits on time and memory contain accidents, not attacks.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, BinaryIO

from kernelwright.children import Helper, run_forked, serve
from kernelwright.errors import UserError
from kernelwright.records import Task
from kernelwright.shapes import apply_shape
from kernelwright.tasks.reference import Reference, on_meta

Answer = bool | str | None
"""None: it runs, but writes different values to one place in no defined order (`graph/disorder.py`); or `NARROW`."""
NARROW = "narrow"
"""It runs, but a convolution or pooling leaves one element of several: what follows would be seen at a size of 1 only."""
_MEMORY = 8 * 2**30
"""Bytes of address space per question."""
_WINDOWED = re.compile(r"convolution|(max|avg)_pool\dd(_with_indices)?")
_WEIGHT = 2**23
"""Most elements of one weight or buffer."""


class ReferenceProbe(Helper):
    """A callable `(task, overrides) -> Answer`, and the context manager of its helper process.

    `seconds` limits one question (wall clock), `max_elements` any single tensor.
    """

    def __init__(self, max_elements: int = 2**19, seconds: float = 5.0) -> None:
        super().__init__("kernelwright.tasks.probe", does="probes references")
        self.max_elements = max_elements
        self.seconds = seconds

    def __call__(self, task: Task, overrides: Mapping[str, int]) -> Answer:
        """Raises InfrastructureError if the helper itself has died."""
        answer: Answer = self._about(task, overrides, max_elements=self.max_elements)
        return answer

    def weights(self, task: Task, overrides: Mapping[str, int]) -> list[str] | None:
        """Names of the module's weights and buffers; None if it cannot be built. Raises InfrastructureError if the helper itself has
        died."""
        found: list[str] | None = self._about(task, overrides, weights=True) or None
        return found

    def _about(self, task: Task, overrides: Mapping[str, int], **asked: object) -> Any:
        try:
            source = apply_shape(task.source, overrides)
        except UserError:
            return False
        return self.ask({"source": source, "seconds": self.seconds, **asked})


def reference_runs(source: str, max_elements: int) -> Answer:
    """Answers the question in this process: executes `source`. Any exception means False."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    from kernelwright.graph.disorder import Disorder

    narrow = False

    class SizeLimit(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal narrow
            result = func(*args, **(kwargs or {}))
            if _WINDOWED.fullmatch(func.overloadpacket.__name__):
                made = result[0] if isinstance(result, tuple) else result
                sizes = zip(args[0].shape[2:], made.shape[2:], strict=False)
                narrow = narrow or any(after == 1 < before for before, after in sizes)
            for leaf in tree_leaves(result):
                if isinstance(leaf, torch.Tensor) and leaf.numel() > max_elements:
                    raise MemoryError(f"a tensor of {leaf.numel()} elements")
            return result

    try:
        torch.manual_seed(0)
        reference = Reference(source)
        with torch.no_grad(), Disorder() as disorder:
            module = reference.module()
            largest = max((one.numel() for one in module.state_dict().values()), default=0)
            if largest > max(_WEIGHT, max_elements):
                return False
            max_elements = max(max_elements, largest)
            with SizeLimit():
                outputs = tree_leaves(module(*reference.inputs()))
        tensors = [leaf for leaf in outputs if isinstance(leaf, torch.Tensor)]
        right = bool(tensors) and all(t.numel() and not bool(t.isnan().any()) for t in tensors)
        return None if right and disorder.found else NARROW if right and narrow else right
    except (Exception, SystemExit):
        return False


def weights_of(source: str) -> list[str]:
    """Names of the module's weights and buffers, built without data; none if that raises."""
    try:
        with on_meta(source) as (module, _):
            return list(module.state_dict())
    except (Exception, SystemExit):
        return []


def _answer(question: Mapping[str, Any]) -> Any:
    """Whether it runs, or its weights, found in a forked child with limits."""

    def run(out: BinaryIO) -> None:
        source = question["source"]
        asked_weights = "weights" in question
        found = weights_of(source) if asked_weights else reference_runs(source, question["max_elements"])
        out.write(json.dumps(found).encode())

    said = run_forked(run, question["seconds"], memory=_MEMORY).data
    return json.loads(said) if said else False


WARM_UP = """
import torch
class Model(torch.nn.Linear): pass
def get_inputs(): return [torch.rand(2, 2)]
def get_init_inputs(): return [2, 2]
"""
"""The source of the smallest reference."""


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    reference_runs(WARM_UP, 8)  # pays for first-use imports once instead of in every child
    serve(_answer)
