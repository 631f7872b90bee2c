"""A task's reference as a program: executes its source in this process, and makes its module and forward's arguments.

    reference = Reference(task.source)
    reference.module()(*reference.inputs())

For code that inspects a trusted reference: its operators, its sizes, its results at small sizes. Seeds, flags and limits are
up to the caller, and so is handling exceptions: the reference's own pass through. Tensors have no data when made under
`torch.device("meta")` or a `FakeTensorMode`; `on_meta` uses the former.

The judge has its own version, `verify.reference.task_module`, since it may not import this module; that one preserves the
random state and precision flags of its process, and attributes a reference's exceptions to the task.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from kernelwright.errors import ENDS


class Reference:
    """The namespace of a task's source after execution. Raises what the source raises; RuntimeError if it ends the program."""

    def __init__(self, source: str) -> None:
        self.namespace: dict[str, Any] = {"__name__": "reference"}
        try:
            exec(compile(source, "<reference>", "exec"), self.namespace)
        except SystemExit:  # such as a script that parses its command line
            raise RuntimeError(ENDS) from None

    def init_inputs(self) -> list[Any]:
        """Arguments of the module's constructor."""
        return list(self.namespace["get_init_inputs"]())

    def module(self, init: Sequence[Any] | None = None) -> Any:
        """A new module with new weights; by default with new constructor arguments."""
        return self.namespace["Model"](*(self.init_inputs() if init is None else init))

    def inputs(self) -> list[Any]:
        """New arguments of `forward`."""
        made = self.namespace["get_inputs"]()
        if hasattr(made, "shape") or isinstance(made, dict):
            raise TypeError(f"get_inputs() returns a {type(made).__name__}; let it return a list")
        return list(made)


@contextlib.contextmanager
def on_meta(source: str) -> Iterator[tuple[Any, list[Any]]]:
    """Module and inputs on meta tensors. Inside the context, forward also makes its tensors there, without gradients. The source
    itself is executed outside: tensors made at module level have data."""
    import torch

    reference = Reference(source)
    with torch.device("meta"), torch.no_grad():
        module = reference.module()
        yield module, [x.to("meta") if isinstance(x, torch.Tensor) else x for x in reference.inputs()]
