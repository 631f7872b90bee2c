"""Exports a drop-in as a folder in the layout of Hugging Face's `kernels`, for `kernelize`.

    export(fast, "block-kernel")
    LocalLayerRepository(Path("block-kernel"), layer_name="Block")       # kernels 0.17; before, package_name="block_kernel" too

    block-kernel/build/torch-universal/metadata.json                 identifies it, for `kernels`
    block-kernel/build/torch-universal/block_kernel/__init__.py      names `layers`
    block-kernel/build/torch-universal/block_kernel/layers.py        a stateless layer: its forward is put into modules
    block-kernel/build/torch-universal/block_kernel/stitched.py      the kernels, exactly as judged
    block-kernel/verdict.json                                        the verdict

The layer runs its kernels for plain tensors of the verified shapes and dtypes, and raises ValueError for others. Unlike a
drop-in, it does not watch the module, and has no backward.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import tomllib
from pathlib import Path
from typing import Any

from torch import nn

from kernelwright.errors import UserError
from kernelwright.graph import TensorType
from kernelwright.runs import write_text


def export(optimized: nn.Module, folder: str | Path, name: str = "") -> Path:
    """Write the folder; `name` is the package's name, by default the folder's. Returns the package's folder.

    Raises UserError unless given a drop-in, and for free sizes, nested arguments, tensors that no state_dict has, and modules
    that write to buffers or inputs or have complex ones.
    """
    state: Any = getattr(optimized, "_kernelwright", None)
    if state is None:
        raise UserError(
            f"export: {type(optimized).__name__} runs no kernel; pass what kernelwright.optimize returned"
        )
    name = name or re.sub(r"\W", "_", Path(folder).name)
    if not name.isidentifier():
        raise UserError(f"export: {name!r} is not a valid package name; give name=")
    graph, label = state.verified.graph, state.verified.name
    if graph.symbols or state.constants:
        raise UserError(
            f"export: {label} has free sizes or tensors that no state_dict has; optimize it without them"
        )
    if any(one.mutated or one.complex for one in graph.arguments):
        raise UserError(
            f"export: {label} writes to buffers or inputs, or has complex ones, which the layout does not know"
        )
    parameters = list(inspect.signature(type(state.original).forward).parameters)
    if state.call.inputs.num_leaves > len(parameters) - 1 or any(
        not isinstance(one, str) for one in state.call.leaves
    ):
        raise UserError(
            f"export: {label} was optimized for nested or plain arguments; only tensors can be exported"
        )
    inputs = dict(zip(state.call.leaves, parameters[1:], strict=False))
    given, verified = [], []
    for one in graph.arguments:
        table = "get_parameter" if one.role == "weight" else "get_buffer"
        source = inputs[one.name] if one.role == "input" else f"{parameters[0]}.{table}({one.origin!r})"
        given.append(f"            {one.name}={source},")
        assert isinstance(one.type, TensorType)
        verified.append(f"    {one.name!r}: (torch.{one.type.dtype}, torch.Size({list(one.type.shape)})),")
    if state.call.outputs.num_leaves != state.call.outputs.num_children and state.call.outputs.num_children:
        raise UserError(f"export: {label} returns nested results; only a tensor or a tuple can be exported")
    text = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["layer"].format(
        name=label,
        verified="\n".join(verified),
        signature=_bare(inspect.signature(type(state.original).forward)),
        given="\n".join(given),
        returned="results" if state.call.outputs.num_children else "results[0]",
    )
    root = Path(folder) / "build" / "torch-universal" / name
    write_text(root / "layers.py", text)
    write_text(root / "stitched.py", state.verified.code)
    write_text(
        root / "__init__.py", f'"""Kernels for {label}."""\n\nfrom . import layers\n\n__all__ = ["layers"]\n'
    )
    write_text(root.parent / "metadata.json", json.dumps(_metadata(name, state.verified), indent=1) + "\n")
    write_text(Path(folder) / "verdict.json", state.verified.verdict.model_dump_json(indent=1) + "\n")
    return root


def _metadata(name: str, verified: Any) -> dict[str, Any]:
    """Metadata that `kernels` reads before importing; the code's digest distinguishes versions in one process."""
    digest = hashlib.sha256(verified.code.encode()).hexdigest()[:12]
    return {
        "id": f"_{name}_{digest}",
        "name": name.strip("_").replace("_", "-").lower(),
        "version": 1,
        "license": "other",
        "python-depends": [],
        "backend": {"type": "cuda"},
    }


def _bare(signature: inspect.Signature) -> str:
    """The signature without annotations, whose types the folder may not have."""
    kept = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    return str(inspect.Signature(kept))[1:-1]
