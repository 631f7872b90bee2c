"""Rehearses a kernel without a GPU: traces it at full size without data, and compiles it for sm_90.

For `schedules.py --dry-run`. Reports registers, spills and shared memory; times and values need a GPU.
"""

from __future__ import annotations

import tempfile
import types
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from triton.runtime.jit import JITFunction

from kernelwright.graph.types import Graph
from kernelwright.hardware import target
from kernelwright.verify.cost.crosscompile import CompileError, assemble, to_assembly
from kernelwright.verify.interpret.interpreter import Engine


def rehearse(code: str, graph: Graph) -> str:
    """One line: the resources that the binaries need on an H200, or the compiler's error."""
    import importlib.util

    engine, sheet = Engine(lambda launch: 1.0), target("h200")
    engine.mode = "model"

    def launch(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        engine.launch(self, grid, args, options)

    properties = types.SimpleNamespace(multi_processor_count=sheet.sms)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rehearsed.py"
        path.write_text(code, "utf-8")
        spec = importlib.util.spec_from_file_location("rehearsed", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        tensors = [torch.empty(tuple(one.type.shape), dtype=getattr(torch, one.type.dtype), device="meta")  # type: ignore[union-attr]
                   for one in graph.arguments]  # fmt: skip
        with (
            engine.installed(),
            mock.patch.object(JITFunction, "run", launch),
            mock.patch("torch.cuda.get_device_properties", return_value=properties),
        ):
            module.kernel(*tensors)
        try:
            binaries = [assemble(to_assembly(one, sheet), sheet) for one in engine.launches]
        except CompileError as error:
            return f"does not compile: {error}"
    return "; ".join(
        f"{one.registers} registers, {one.spills} spilt, {one.shared_bytes} shared" for one in binaries
    )
