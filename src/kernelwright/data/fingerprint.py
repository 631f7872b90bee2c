"""The operator graph of any reference, read off a run on meta tensors: which aten operators, wired how.

Independent of names, layout and sizes, and of who wrote the source, so it finds a held-out function in a task that
came from elsewhere. Two spellings of one function that PyTorch computes by different operators have different
prints; operators that depend on sizes (a loop over a dimension) print differently at different sizes.

The trace is not the one that `tasks.lowering` makes: its tensors stand for a CPU's, for which PyTorch has attention as
one operator. On meta tensors it is taken apart, as by somebody who writes it out.
"""

from __future__ import annotations

import hashlib
from typing import Any

from kernelwright.records import Task
from kernelwright.tasks.reference import on_meta


def fingerprint(task: Task) -> str:
    """16 hex digits over the aten operators of one forward pass and where their tensors come from.

    Empty where the reference does not run on meta tensors. Executes the task's source, which is trusted.
    """
    return prints(task)[0]


def prints(task: Task) -> tuple[str, str]:
    """The fingerprint, and one over the same graph with the shape and type of every tensor in it."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    names: dict[int, str] = {}
    alive: list[Any] = []
    lines: list[str] = []
    shapes: list[str] = []

    def name(tensor: Any) -> str:
        if id(tensor) not in names:
            names[id(tensor)] = f"t{len(names)}"
            alive.append(tensor)  # so that no other tensor gets its id
            shapes.append(f"{tuple(tensor.shape)}{tensor.dtype}")
        return names[id(tensor)]

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = [name(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            out = func(*args, **(kwargs or {}))
            made = [name(leaf) for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor)]
            lines.append(f"{func._schema.name}({','.join(given)})->{','.join(made)}")
            return out

    try:
        with on_meta(task.source) as (module, inputs):
            for tensor in (*tree_leaves(inputs), *module.state_dict().values()):
                if isinstance(tensor, torch.Tensor):
                    name(tensor)
            with Recorder():
                module(*inputs)
    except Exception:
        return "", ""
    graph = "\n".join(lines)
    return tuple(hashlib.sha256(text.encode()).hexdigest()[:16] for text in (graph, graph + str(shapes)))  # type: ignore[return-value]
