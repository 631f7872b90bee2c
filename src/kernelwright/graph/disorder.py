"""Whether a reference writes twice to one place, so that it is undefined which value stays: `index_put`, `scatter`, `index_copy`
and `put` without accumulation. Inputs with which it writes different values there are not asked.

After the call the places are read back: each must hold what was written there.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

WRITES = ("index_put", "_index_put_impl", "index_copy", "scatter", "put")


class Disorder(TorchDispatchMode):
    """`found` is set once a call in the block has written different values to one place."""

    def __init__(self) -> None:
        super().__init__()
        self.found = False

    def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> object:
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        if name in WRITES and not self.found and isinstance(out, torch.Tensor) and not out.is_meta:
            given = {one.name: value for one, value in zip(func._schema.arguments, args, strict=False)}
            given |= kwargs or {}
            self.found = _differs(name, out, given)
        return out


def _differs(name: str, out: torch.Tensor, given: dict[str, Any]) -> bool:
    """Whether some place holds another value than was written to it."""
    if given.get("accumulate") or given.get("reduce"):
        return False
    if name in ("index_put", "_index_put_impl"):
        held, written = torch.ops.aten.index(out, given["indices"]), given["values"]
    elif name == "index_copy":
        held, written = out.index_select(given["dim"], given["index"]), given["source"]
    elif name == "put":
        held, written = out.take(given["index"]), given["source"]
    elif isinstance(given.get("src"), torch.Tensor):
        held, written = out.gather(given["dim"], given["index"]), given["src"]
        written = written[tuple(map(slice, given["index"].shape))]
    else:
        return False
    written = written.to(held.dtype).expand(held.shape) if name != "put" else written.reshape(held.shape)
    return not bool(((held == written) | (held != held)).all())
