"""The cost model for trusted code: the modelled cost of a printed kernel on a target, without verification.

    cost_without_registers("def kernel(x): ...", graph, target("h200"))

The code runs in this process; it is trusted because the library's printer wrote it. Its values are not checked. Kernels are
sampled as the judge does it (`verification.py`), with the same samples in every call.
"""

from __future__ import annotations

import importlib.util
import random
import tempfile
import types
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from triton.runtime.jit import JITFunction

from kernelwright.graph import sizes
from kernelwright.graph.types import Graph, TensorType
from kernelwright.hardware import Target
from kernelwright.records import Cost
from kernelwright.verify.cost.model import total_cost
from kernelwright.verify.interpret.device import summarise
from kernelwright.verify.interpret.endings import KernelError
from kernelwright.verify.interpret.interpreter import Engine, TracedLaunch

SAMPLES = 4


class NoFit(Exception):
    """The kernel cannot run on the target."""


def cost_without_registers(code: str, graph: Graph, target: Target) -> Cost:
    """The cost of one call if its kernels use few registers: nothing is compiled. Raises NoFit."""
    return total_cost([summarise(launch) for launch in launches_of(code, graph, target)], {}, target, 1e-6)


def launches_of(code: str, graph: Graph, target: Target) -> list[TracedLaunch]:
    """The launches of one call at the graph's hinted sizes, with a few sampled instances each. Raises NoFit."""
    engine = Engine(lambda launch: 1.0)
    engine.mode, engine.samples, engine.dice = "model", SAMPLES, random.Random(0)
    try:
        return _call(engine, code, sizes.static(graph, {one.name: one.hint for one in graph.symbols}), target)
    except KernelError as error:
        raise NoFit(str(error)) from None


def _call(engine: Engine, code: str, graph: Graph, target: Target) -> list[TracedLaunch]:
    """Run the host function on tensors without data; its launches go to the engine."""

    def launch(self: object, *args: object, grid: Any, warmup: bool, **options: object) -> None:
        engine.launch(self, grid, args, options)

    properties = types.SimpleNamespace(multi_processor_count=target.sms)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "printed.py"
        path.write_text(code, "utf-8")
        spec = importlib.util.spec_from_file_location("printed", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        given = [_argument(one.type) for one in graph.arguments]
        with (
            engine.installed(),
            mock.patch.object(JITFunction, "run", launch),
            mock.patch("torch.cuda.get_device_properties", return_value=properties),
        ):
            module.kernel(*given)
    return engine.launches


def _argument(kind: object) -> Any:
    if not isinstance(kind, TensorType):
        return 1
    return torch.empty(tuple(int(one) for one in kind.shape), dtype=getattr(torch, kind.dtype), device="meta")
