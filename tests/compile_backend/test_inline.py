"""A host function becomes a graph of launches that Inductor lowers itself; functions that cannot be traced stay opaque."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table, triton_kernel_wrapper_mutation
from torch._subclasses import FakeTensorMode
from torch.nn import functional

from kernelwright.compile_backend import inline
from kernelwright.compile_backend.inline import NotTraceable
from kernelwright.compile_backend.operators import load
from kernelwright.graph import Graph
from kernelwright.graph.capture import capture
from kernelwright.graph.partition import partition
from kernelwright.synth.library import program_of
from kernelwright.synth.to_triton import print_triton


class Gelu(torch.nn.Module):
    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return functional.gelu(x @ w.T)


def group() -> Graph:
    given = (torch.randn(256, 128, dtype=torch.bfloat16), torch.randn(512, 128, dtype=torch.bfloat16))
    return partition(capture(Gelu(), given).graph).groups[0].graph


def nodes(code: str) -> list[Any]:
    host = inline._with_stand_ins(load(code, "t"))
    with FakeTensorMode(allow_non_fake_inputs=True):
        examples = [inline._example(one.type, {}) for one in group().arguments]  # type: ignore[arg-type]
        return list(inline.trace(host, examples).graph.nodes)


def tried(graph: Graph, code: str) -> None:
    inline._try(inline._with_stand_ins(load(code, "t")), graph)


def test_a_library_kernel_is_one_launch_with_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    sheet = SimpleNamespace(multi_processor_count=132)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: sheet)
    program = program_of(group(), "h100", "default")
    assert program is not None
    code = print_triton(program)
    (launch,) = [node for node in nodes(code) if node.target is triton_kernel_wrapper_mutation]
    kernel: Any = kernel_side_table.get_kernel(launch.kwargs["kernel_idx"])
    assert kernel.configs[0].num_warps in (4, 8)
    assert len(launch.kwargs["grid"][0]) == 3
    assert launch.kwargs["grid"][0][0] > 1
    described = launch.kwargs["tma_descriptor_metadata"]
    assert all(kind == "stable" for kind, _ in described.values())
    assert ("TensorDescriptor" in code) == bool(described)


def test_a_product_into_a_fresh_buffer_is_a_product() -> None:
    code = """
import torch, triton, triton.language as tl

@triton.jit
def twice(x, n, BLOCK: tl.constexpr = 128):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, at < n) * 2, at < n)

def kernel(x, w):
    out = torch.empty((x.shape[0], w.shape[0]), device=x.device, dtype=x.dtype)
    torch.mm(x, w.T, out=out)
    twice[(triton.cdiv(out.numel(), 128),)](out, out.numel())
    return out
"""
    made = nodes(code)
    targets = [node.target for node in made if node.op == "call_function"]
    assert targets[-2:] == [torch.ops.aten.mm.default, triton_kernel_wrapper_mutation]
    assert torch.ops.aten.empty.memory_format not in targets
    assert made[-1].args[0][0].target is torch.ops.aten.mm.default


@pytest.mark.parametrize(
    "body",
    [
        "if x.sum() > 0: return x",
        "once[(1,)](x, num_ctas=2)",
        "tuned[(1,)](x)",
        "torch.mm(x, w.T, out=x.view(-1)[:10])",
    ],
)
def test_what_cannot_be_noted_stays_opaque(body: str) -> None:
    code = f"""
import torch, triton, triton.language as tl

@triton.jit
def once(x):
    tl.store(x, 1.0)

{"tuned = triton.autotune([triton.Config({})], [])(once)" if "tuned" in body else ""}

def kernel(x, w):
    {body}
    return torch.empty_like(x)
"""
    with pytest.raises(NotTraceable):
        tried(group(), code)


def test_free_sizes_stay_free() -> None:
    """Any number of rows is allowed; a constant derived from them would fix it."""
    module = torch.nn.Linear(128, 512, bias=False).to(torch.bfloat16)
    free = capture(module, (torch.randn(256, 128, dtype=torch.bfloat16),), dynamic=True).graph
    (graph,) = [one.graph for one in partition(free).groups]
    assert graph.symbols
    code = """
import torch, triton, triton.language as tl

@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n), at < n)

def kernel(x, w):
    out = torch.empty((x.shape[0], w.shape[0]), device=x.device, dtype=x.dtype)
    copy[(triton.cdiv(out.numel(), 128),)](x, out, out.numel(), BLOCK=WIDTH)
    return out
"""
    tried(graph, code.replace("WIDTH", "128"))
    with pytest.raises(NotTraceable, match="one size only"):
        tried(graph, code.replace("WIDTH", "x.shape[0]"))
