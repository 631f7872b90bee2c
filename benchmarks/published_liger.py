"""Liger-Kernel's forward functions as candidates: the part of an operator's file that its forward reaches, and a `ModelNew`.

Helpers that a file imports from Liger are taken from `utils.py` if they are plain (`calculate_settings`), and replaced by
stubs if they query another vendor's GPU. References are written here in torch. Not covered: backward passes, operators that work
in place (rope, cross entropy), those that leave a sum to torch (KL divergence, TVD, JSD) and distributed ones.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelwright.parsing import names_within

_ROWS = "ROWS, COLS = 4096, 2048\n"
_X = "torch.randn(ROWS, COLS)"
_W = "torch.randn(COLS)"
_IMAGE = "BATCH, GROUPS, SIDE = 8, 16, 1024\n"
_CUBES = "sum(w[k] * x ** (3 - k) * torch.rsqrt((x ** (6 - 2 * k)).mean(-1, keepdim=True) + 1e-6) for k in range(3)) + b"
_RMS = "(x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w"
# (file, function, sizes, arguments of forward, inputs, what torch says, the call)
OPERATORS = {
    "layer_norm": ("layer_norm", _ROWS, "x, w, b", [_X, _W, _W], "F.layer_norm(x, (COLS,), w, b, 1e-5)",
                   "layer_norm_forward(x, w, b, 1e-5)[0]"),
    "rms_norm": ("rms_norm", _ROWS, "x, w", [_X, _W], _RMS, 'rms_norm_forward(x, w, 1e-6, 0.0, "llama", None)[0]'),
    "fused_add_rms_norm": ("fused_add_rms_norm", _ROWS, "a, r, w", [_X, _X, _W],
                           "(lambda x: (" + _RMS + ", x))(a + r)",
                           'fused_add_rms_norm_forward(a, r, w, 1e-6, 0.0, "llama")[:2]'),
    "swiglu": ("swiglu", _ROWS, "a, b", [_X, _X], "F.silu(a) * b", "swiglu_forward(a, b)[2]"),
    "geglu": ("geglu", _ROWS, "a, b", [_X, _X], 'F.gelu(a, approximate="tanh") * b', "geglu_forward(a, b)[2]"),
    "softmax": ("softmax", _ROWS, "x", [_X], "torch.softmax(x, -1)", "_softmax_forward(x)[0]"),
    "relu_squared": ("relu_squared", _ROWS, "x", [_X], "F.relu(x) ** 2", "relu_squared_forward(x)"),
    "dyt": ("dyt", _ROWS, "x, alpha, w, b", [_X, "torch.rand(1) + 0.5", _W, _W], "torch.tanh(alpha * x) * w + b",
            "liger_dyt_fwd(x, alpha, w, b)"),
    "group_norm": ("group_norm", _IMAGE, "x, w, b",
                   ["torch.randn(BATCH, 4 * GROUPS, SIDE)", "torch.randn(4 * GROUPS)", "torch.randn(4 * GROUPS)"],
                   "F.group_norm(x, x.shape[1] // 4, w, b, 1e-5)",
                   "group_norm_forward(x, x.shape[1], x.shape[1] // 4, w, b, 1e-5)[0]"),
    "poly_norm": ("poly_norm", _ROWS, "x, w, b", [_X, "torch.randn(3)", "torch.randn(1)"], _CUBES,
                  "poly_norm_forward(x, w, b)[0]"),
}  # fmt: skip
_STANDS_IN = """import math
import torch
import torch.nn as nn
import triton
import triton.language as tl
from typing import Callable, Literal, Optional, Tuple
from triton.language.extra.libdevice import rsqrt, tanh

MAX_FUSED_SIZE = 65536

def is_hip():
    return False


def infer_device():
    return "cuda"


def infer_device_arch():
    return "hopper"


def is_npu_available():
    return False


class device_context:
    def __init__(self, device):
        self.device = device

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


"""


def found(root: Path, modules: bool = True) -> Iterator[tuple[str, str, str]]:
    """(name, reference, kernel) of each operator whose file a checkout has; `modules`: as a `ModelNew`, else as `kernel(...)`."""
    folder = root / "src/liger_kernel/ops"
    helpers = folder / "utils.py"
    for name, (file, sizes, given, inputs, says, call) in OPERATORS.items():
        path = folder / f"{file}.py"
        if path.is_file():
            text = parts_reached(path.read_text("utf-8"), call, helpers.read_text("utf-8"), _STANDS_IN)
            head = f"{_STANDS_IN}{text}\n\n\n"
            kernel = (
                f"{head}class ModelNew(nn.Module):\n    def forward(self, {given}):\n        return {call}\n"
                if modules
                else f"{head}def kernel({given}):\n    return {call}\n"
            )
            yield f"liger/{name}", reference(sizes, given, inputs, says), kernel


def reference(sizes: str, given: str, inputs: Sequence[str], says: str) -> str:
    """A function of tensors in the KernelBench form: lines that set its sizes, arguments, inputs, and what torch says."""
    return (
        f"import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n{sizes}\n\n"
        f"class Model(nn.Module):\n    def forward(self, {given}):\n        return {says}\n\n\n"
        f"def get_inputs():\n    return [{', '.join(inputs)}]\n\n\ndef get_init_inputs():\n    return []\n"
    ).replace("(COLS,)", "(x.shape[-1],)")


def parts_reached(text: str, call: str, helpers: str = "", provided_by: str = "") -> str:
    """The definitions of a file and its helpers that a call reaches, in order, but for those that `provided_by` has."""
    own = {name: (node, text) for node in ast.parse(text).body for name in _defines(node)}
    both = {name: (node, helpers) for node in ast.parse(helpers).body for name in _defines(node)} | own
    provided = {name for node in ast.parse(provided_by).body for name in _defines(node)}
    todo, reached = {*names_within(ast.parse(call))}, set[str]()
    while todo:
        name = todo.pop()
        if name in both and name not in reached | provided:
            reached.add(name)
            todo |= {*names_within(both[name][0])}
    lines = []
    for source in (helpers, text):
        seen: list[ast.stmt] = []
        for name in both:
            node, where = both[name]
            if name in reached and where is source and node not in seen:
                seen.append(node)
                start = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
                lines.append("\n".join(source.splitlines()[start - 1 : node.end_lineno]))
    return "\n\n\n".join(lines)


def _defines(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [one.id for one in targets if isinstance(one, ast.Name)]
