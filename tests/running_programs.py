"""Runs a program's kernel in the judge's interpreter, at the sizes of its graph, against fp64."""

import importlib.util
import itertools
import types
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from triton.runtime.jit import JITFunction

from kernelwright.graph import sizes
from kernelwright.graph.execute import execute
from kernelwright.graph.types import Graph, NumberType
from kernelwright.synth.building import GraphBuilder
from kernelwright.synth.library import program_of
from kernelwright.synth.program import Program
from kernelwright.synth.to_triton import print_triton
from kernelwright.verify.interpret.interpreter import Engine

_NUMBERS = itertools.count()


def graph_of(make: Any) -> Graph:
    """The graph whose results `make(builder)` returns."""
    builder = GraphBuilder()
    made = make(builder)
    return builder.graph(*(made if isinstance(made, tuple) else (made,)))


def draw(graph: Graph) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    values = {}
    for one in graph.arguments:
        dtype, shape = getattr(torch, one.type.dtype), tuple(one.type.shape)
        if dtype.is_floating_point:
            values[one.name] = torch.randn(shape, generator=generator).to(dtype)
        elif dtype == torch.bool:
            values[one.name] = torch.rand(shape, generator=generator) < 0.7
        else:
            values[one.name] = torch.randint(0, 5, shape, generator=generator).to(dtype)
    return values


def run(code: str, values: dict[str, torch.Tensor], folder: Path) -> tuple[torch.Tensor, ...]:
    """Run `kernel` of that code with every access checked; returns its results."""
    path = folder / f"kernel{next(_NUMBERS)}.py"
    path.write_text(code, "utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    engine = Engine(lambda launch: 1.0)

    def launch(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        engine.launch(self, grid, args, options)

    few = types.SimpleNamespace(multi_processor_count=3)
    with (
        engine.installed(),
        mock.patch.object(JITFunction, "run", launch),
        mock.patch("torch.cuda.get_device_properties", return_value=few),
    ):
        made = module.kernel(*values.values())
    return made if isinstance(made, tuple) else (made,)


def agrees(graph: Graph, schedule: Any, folder: Path) -> str:
    """Empty if every output is within three times eager PyTorch's error from fp64; else the gap."""
    return compare(graph, print_triton(Program(graph=graph, schedule=schedule)), draw(graph), folder)


def agrees_at(graph: Graph, chosen: dict[str, int], folder: Path) -> str:
    """The same for the library's first program for a graph with symbols, at other sizes."""
    program = program_of(graph)
    assert program is not None
    static = sizes.static(graph, chosen)
    numbers = {one.name: chosen[one.name] for one in graph.arguments if isinstance(one.type, NumberType)}
    tensors = static.model_copy(
        update={"arguments": tuple(one for one in static.arguments if one.name not in numbers)}
    )
    values = {one.name: (draw(tensors) | numbers)[one.name] for one in graph.arguments}
    return compare(static, print_triton(program), values, folder)


def compare(graph: Graph, code: str, values: dict[str, Any], folder: Path) -> str:
    """The result of `agrees` for some code and values."""
    got = run(code, values, folder)
    for ours, exact, eager in zip(
        got, execute(graph, values, fp64=True), execute(graph, values), strict=True
    ):
        if ours.shape != eager.shape or ours.dtype != eager.dtype:
            return f"{ours.dtype} {tuple(ours.shape)} for {eager.dtype} {tuple(eager.shape)}"
        if not ours.dtype.is_floating_point:
            if not torch.equal(ours, eager):
                return "integers differ"
            continue
        scale = exact.double().abs().max().item() or 1.0
        gaps = [(one.double() - exact.double()).abs().max().item() / scale for one in (ours, eager)]
        if not gaps[0] <= 3 * max(gaps[1], torch.finfo(ours.dtype).eps):
            return f"error {gaps[0]:.2g}, eager {gaps[1]:.2g}"
    return ""
