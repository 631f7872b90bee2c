"""Makes pairs in KernelBook's form, as an Inductor of 2024 wrote them, from what the present one writes.

    rows(modules, compiler)    one row for each module that the compiler has Triton for: python_code, triton_code, entry_point

Reverts later renames: `r0_` prefixes, `run(..., stream=)` instead of `kernel[grid(n)](...)`, `copy_if_misaligned`
for `assert_size_stride`, the class around `call`. Tile sizes are in the launch, as in KernelBook.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from kernelwright.data.importing import reference_of
from kernelwright.policy.compiler import Compiler
from kernelwright.records import Task

HEAD = """import torch
from torch._inductor.select_algorithm import extern_kernels
import triton
import triton.language as tl
from torch._inductor.runtime.triton_heuristics import grid
from torch._C import _cuda_getCurrentRawStream as get_raw_stream
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
import torch.nn as nn
assert_size_stride = torch._C._dynamo.guards.assert_size_stride
empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda
reinterpret_tensor = torch._C._dynamo.guards._reinterpret_tensor
"""
_RENAMED = {
    "R0_BLOCK": "RBLOCK",
    "r0_numel": "rnumel",
    "r0_index": "rindex",
    "r0_mask": "rmask",
    "r0_offset": "roffset",
}

FORWARDS = (
    "torch.relu(x) * 2", "torch.sigmoid(x) + x", "torch.tanh(x) - y", "F.gelu(x) * y", "F.silu(x + y)", "F.softplus(x)",
    "F.elu(x)", "F.leaky_relu(x, 0.2)", "F.hardtanh(x)", "F.mish(x)", "torch.exp(-x) + 1", "torch.log1p(x * x)",
    "torch.sqrt(x * x + 1e-6)", "torch.clamp(x, 0.1, 0.9)", "(x - y).abs()", "torch.where(x > y, x, y)",
    "torch.maximum(x, y) + torch.minimum(x, 0.5 * y)", "x * torch.sin(y)", "torch.erf(x)", "torch.pow(x, 2) + y",
)  # fmt: skip
TAILS = (
    "{}", "({}).mean()", "torch.softmax({}, dim=1)", "({}).sum(dim=-1)", "({}).amax(dim=1, keepdim=True)",
    "F.log_softmax({}, dim=-1)", "self.norm({})", "({}).permute(0, 2, 3, 1).contiguous()", "({}) * self.scale",
    "({}).var(dim=-1)", "torch.cat([{}, x], dim=1)", "F.avg_pool2d({}, 2)",
)  # fmt: skip


def modules() -> Iterator[tuple[str, str]]:
    """(class name, file) of 240 small modules in common styles."""
    for (i, forward), (j, tail) in product(enumerate(FORWARDS), enumerate(TAILS)):
        name = f"Block{i}x{j}"
        arguments = "x, y" if "y" in re.findall(r"\w+", forward) else "x"
        own = {6: "self.norm = nn.LayerNorm(size)", 8: "self.scale = nn.Parameter(torch.ones(size))"}.get(
            j, "self.size = size"
        )
        inputs = ", ".join(["torch.rand([4, 4, 4, 4])"] * len(arguments.split(", ")))
        yield (
            name,
            f"""import torch
import torch.nn as nn
import torch.nn.functional as F


class {name}(nn.Module):

    def __init__(self, size, eps=1e-05):
        super({name}, self).__init__()
        self.eps = eps
        {own}

    def forward(self, {arguments}):
        return {tail.format(forward)}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return [[], {{'size': 4}}]
""",
        )


def rows(given: Iterable[tuple[str, str]], compiler: Compiler, most: int) -> Iterator[dict[str, Any]]:
    """Rows for the first `most` modules that the compiler rung has Triton for."""
    made = 0
    for name, text in given:
        if made == most:
            return
        task = Task(id=f"old/{name}", source=reference_of(text, name), shapes={"small": {}})
        answer = compiler.module(task)
        if not answer.code:
            continue
        old = old_form(answer.raw, answer.code, text, name)
        if old:
            made += 1
            yield {"uuid": made, "entry_point": name, "python_code": text, "triton_code": old}


def old_form(raw: str, code: str, text: str, name: str) -> str:
    """The cleaned module of 2024; empty if `call` has a form without counterpart."""
    tree = ast.parse(raw)
    kernels = {
        node.value.args[0].value: node.value.args[1].value  # type: ignore[attr-defined]
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "async_compile.triton"
    }  # fmt: skip
    call = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "call")
    parsed = {key: _kernel(source) for key, source in kernels.items()}  # type: ignore[arg-type]
    layouts = dict(re.findall(r"(\w+) = rand_strided\((\(.*?\), \(.*?\)), device", raw))
    passed = re.search(r"found = kernel\((.*)\)\n", code) or re.search(r"return kernel\((.*)\)\n", code)
    if passed is None:
        return ""
    return "\n\n\n".join(
        [
            HEAD,
            *(one for one, _, _ in parsed.values()),
            _call(call, parsed, layouts),
            _module(call, passed[1], text, name),
        ]
    )


def _kernel(source: str) -> tuple[str, list[str], dict[str, int]]:
    """(the function under its original name, its parameters, tile sizes for a launch)."""
    tree = ast.parse(source)
    function = next(node for node in reversed(tree.body) if isinstance(node, ast.FunctionDef))
    hints = re.search(r"size_hints=(\{[^}]*\})", source)
    sizes = ast.literal_eval(hints[1]) if hints else {}
    function.decorator_list = [ast.parse("triton.jit", mode="eval").body]
    text = ast.unparse(function)
    for new, old in _RENAMED.items():
        text = re.sub(rf"\b{new}\b", old, text)
    text = re.sub(r"\br0_(\d+)\b", r"r\1", text)
    gone = ("rnumel = rnumel", "RBLOCK: tl.constexpr = RBLOCK", "roffset = roffset", "rindex = rindex")
    text = "\n".join(line for line in text.split("\n") if line.strip() not in gone)
    parameters = [_RENAMED.get(one.arg, one.arg) for one in function.args.args]
    reduces = "r0_" in sizes
    tiles = {"XBLOCK": 1 if reduces else min(sizes.get("x", 256), 256), "YBLOCK": min(sizes.get("y", 16), 16)}
    tiles["RBLOCK"] = min(sizes.get("r0_", 1), 256)
    return text, parameters, {tile: size for tile, size in tiles.items() if tile in parameters}


def _call(
    call: ast.FunctionDef, kernels: dict[str, tuple[str, list[str], dict[str, int]]], layouts: dict[str, str]
) -> str:
    text = ast.unparse(call)
    text = re.sub(r"\n +(\w+) = copy_if_misaligned\(\1\)", "", text)
    checks = "\n".join(f"    assert_size_stride({name}, {layout})" for name, layout in layouts.items())
    text = text.replace("    args.clear()", f"    args.clear()\n{checks}")
    text = text.replace("raw_stream0 = get_raw_stream(0)", "get_raw_stream(0)").replace(
        "def call(self, args):", "def call(args):"
    )

    def launch(found: re.Match[str]) -> str:
        name, given = found[1], found[2]
        _, parameters, tiles = kernels[name]
        numels = [one for one in parameters if one.endswith("numel")]
        values = dict(zip(numels, given.split(", ")[-len(numels) :], strict=True))
        sides = ", ".join(value for key, value in values.items() if key != "rnumel")
        words = ", ".join(f"{tile}={size}" for tile, size in tiles.items())
        return f"{name}[grid({sides})]({given}, {words}, num_warps=4, num_stages=1)"

    return re.sub(r"(\w+)\.run\((.*), stream=raw_stream0\)", launch, text)


def _module(call: ast.FunctionDef, passed: str, text: str, name: str) -> str:
    """The class: the original constructor, and a `forward` that calls `call`."""
    model = next(node for node in ast.parse(text).body if isinstance(node, ast.ClassDef))
    init, forward = (node for node in model.body if isinstance(node, ast.FunctionDef))
    names = [one.arg for one in forward.args.args[1:]]
    first = next(node for node in call.body if isinstance(node, ast.Assign))
    target = first.targets[0]
    inner = [ast.unparse(one) for one in (target.elts if isinstance(target, ast.Tuple) else [target])]
    given = [
        re.sub(r"self\.get_(?:parameter|buffer)\('([\w.]+)'\)", r"self.\1", one) for one in passed.split(", ")
    ]
    given = [f"input_{names.index(one)}" if one in names else one for one in given]
    bound = "\n".join(f"        {place} = {value}" for place, value in zip(inner, given, strict=False))
    signature = ", ".join(["self", *(f"input_{i}" for i in range(len(names)))])
    own = ast.unparse(init).replace(f"super({name}", f"super({name}New").replace("\n", "\n    ")
    return f"""class {name}New(nn.Module):

    {own}

    def forward({signature}):
{bound}
        output = call([{", ".join(inner)}])
        return output[0]
"""
