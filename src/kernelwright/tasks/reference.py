"""A reference as a program: its source executed in this process, its module and the arguments of its forward made.

    reference = Reference(task.source)
    reference.module()(*reference.inputs())

For whoever reads something off a trusted reference: its operators, its sizes, what it computes at small sizes. Seeds,
switches and limits are the caller's, and so is what to do about an exception: the reference's own are handed on.
Tensors are without data when made under `torch.device("meta")` or a `FakeTensorMode`; `on_meta` is the former.

The judge has a reference of its own, in `verify.reference.task_module`: it stands below this floor, keeps the random state and the
precision flags of its process as they were, and puts a reference's exceptions down to the task.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from kernelwright.errors import ENDS


class Reference:
    """The namespace that a task's source leaves behind. Raises what the source raises; RuntimeError where it ends the program."""

    def __init__(self, source: str) -> None:
        self.namespace: dict[str, Any] = {"__name__": "reference"}
        try:
            exec(compile(source, "<reference>", "exec"), self.namespace)
        except SystemExit:  # of a script that parses its command line, say
            raise RuntimeError(ENDS) from None

    def init_inputs(self) -> list[Any]:
        """Arguments of the module's constructor."""
        return list(self.namespace["get_init_inputs"]())

    def module(self, init: Sequence[Any] | None = None) -> Any:
        """A new module with new weights, of new arguments where none are given."""
        return self.namespace["Model"](*(self.init_inputs() if init is None else init))

    def inputs(self) -> list[Any]:
        """New arguments of `forward`."""
        return list(self.namespace["get_inputs"]())


@contextlib.contextmanager
def on_meta(source: str) -> Iterator[tuple[Any, list[Any]]]:
    """Module and inputs on meta tensors. Within the context the forward's own tensors are made there, too, and no
    gradients are kept. The source itself is executed outside: what it makes at module level has data."""
    import torch

    reference = Reference(source)
    with torch.device("meta"), torch.no_grad():
        module = reference.module()
        yield module, [x.to("meta") if isinstance(x, torch.Tensor) else x for x in reference.inputs()]
