"""TritonBench-G's golds as kernels of a graph: references written here in torch, and the part of a gold's file that a call reaches.

Chosen by reading, before any was judged: forward functions of tensors that torch can say in a line, one of those that are the same
text. Each has its test's dtype, or bfloat16 where the kernel converts what it loads. Left out: those that work in place, take
another layout's tables (paged caches, LoRA), draw random numbers, or load without a mask, and so are right at their own sizes only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from published_liger import parts_reached, reference

FOLDER = "data/TritonBench_G_v1"
_ROWS = "ROWS, COLS = 4096, 2048\n"
_HEADS = "BATCH, ROWS, COLS = 4, 1024, 2048\n"
_FLAT = "SIZE = 1 << 22\n"
_PRODUCT = "M, N, K = 2048, 2048, 1024\n"
_X, _W = "torch.randn(ROWS, COLS)", "torch.randn(COLS)"
_X3, _V = "torch.randn(BATCH, ROWS, COLS)", "torch.randn(SIZE)"
_A, _B = "torch.randn(M, K)", "torch.randn(K, N)"
_NORMED = "x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + {eps})"
_RMS = f"({_NORMED}).to(x.dtype) * w"
_RMS_AT_ONCE = f"({_NORMED} * w.float()).to(x.dtype)"
_LAYER = "F.layer_norm(x, (COLS,), w, b, 1e-5)"
_HEAD_NORM = (
    "(lambda y: (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5) * w.float()).to(x.dtype))"
    "(x.float() - x.float().mean(-1, keepdim=True))"
)
_L2 = "(x.float() * torch.rsqrt(x.float().pow(2).sum(-1, keepdim=True) + 1e-6)).to(x.dtype)"
# file: (precision, sizes, arguments, inputs, what torch says, the call)
GOLDS = {
    "add_example": ("default", _FLAT, "x, y", [_V, _V], "x + y", "add_wrapper(x, y)"),
    "vector_addition": ("default", _FLAT, "x, y", [_V, _V], "x + y", "add(x, y)"),
    "triton_mul2": ("default", _FLAT, "x", [_V], "2 * x", "triton_mul2(x)"),
    "sin_kernel": ("default", _FLAT, "x", [_V], "torch.sin(x)", "call_kernel(x)"),
    "kldiv_compute": ("default", _FLAT, "x, y", ["torch.rand(SIZE) + 0.1", "torch.rand(SIZE) + 0.1"],
                      "x * torch.log(x / y)", "kldivergence(x, y)"),
    "swiglu_fwd": ("bf16", _ROWS, "x", ["torch.randn(ROWS, 2 * COLS)"],
                   "F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1]", "_swiglu_fwd(x)"),
    "swiglu_triton": ("bf16", _ROWS, "a, b", [_X, _X], "F.silu(a) * b", "swiglu_forward(a, b)[2]"),
    "geglu_tanh_triton": ("bf16", "ROWS, COLS = 65536, 128\n", "a, b", [_X, _X], 'F.gelu(a, approximate="tanh") * b',
                          "geglu_forward(a, b)[2]"),
    "softmax_triton1": ("default", _ROWS, "x", [_X], "torch.softmax(x, -1)", "softmax(x)"),
    "triton_softmax": ("default", "ROWS, COLS = 8192, 1024\n", "x", [_X], "torch.softmax(x, -1)", "triton_softmax(x)"),
    "softmax_optimize": ("default", _ROWS, "x", [_X], "torch.softmax(x, -1)", "softmax(x)"),
    "log_softmax": ("bf16", _ROWS, "x", [_X], "torch.log_softmax(x, -1)", "log_softmax(x)"),
    "logsumexp_fwd": ("default", _ROWS, "x", [_X], "torch.logsumexp(x, -1)", "logsumexp_fwd(x)"),
    "layer_norm_triton": ("bf16", _ROWS, "x, w, b", [_X, _W, _W], _LAYER, "LayerNorm.apply(x, (x.shape[-1],), w, b, 1e-5)"),
    "layernorm_fwd_triton": ("bf16", "ROWS, HEADS, COLS = 2048, 32, 128\n", "x, w",
                             ["torch.randn(ROWS, HEADS, COLS)", "torch.randn(HEADS, COLS)"], _HEAD_NORM,
                             "layernorm_forward(x, w, 1e-5)"),
    "fast_layernorm": ("bf16", _ROWS, "x, w, b", [_X, _W, _W], _LAYER, "Fast_Layernorm.apply(x, w, b, 1e-5)"),
    "fast_rms_layernorm": ("bf16", _ROWS, "x, w", [_X, _W], _RMS.format(eps="1e-6"),
                           "Fast_RMS_Layernorm.apply(x, w, 1e-6)"),
    "rms_norm_triton": ("bf16", _ROWS, "x, w", [_X, _W], _RMS.format(eps="1e-5"), "rms_norm(x, (x.shape[-1],), w)"),
    "rmsnorm_fused_llama": ("fp16", _ROWS, "x, w", [_X, _W], _RMS_AT_ONCE.format(eps="1e-5"),
                            "rmsnorm_forward(x, w, 1e-5)"),
    "rmsnorm_implementation": ("fp16", _HEADS, "x, w", [_X3, _W], _RMS_AT_ONCE.format(eps="1e-6"),
                               "rmsnorm_wrapper(x, w)"),
    "l2_norm_triton1": ("bf16", _ROWS, "x", [_X], _L2, "_l2_norm_fwd(x)"),
    "mean_reduction": ("default", _ROWS, "x", [_X], "x.mean(1)", "mean_dim(x, 1)"),
    "matrix_vector_multip": ("default", _ROWS, "x, w", [_X, _W], "torch.mv(x, w)", "mv(x, w)"),
    "matmul_leakyrelu": ("fp16", _PRODUCT, "a, b", [_A, _B], "F.leaky_relu(a @ b, 0.01)",
                         'matmul(a, b, "leaky_relu")'),
    "triton_matmul": ("fp16", _PRODUCT, "a, b", [_A, _B], "a @ b", "matmul(a, b)"),
}  # fmt: skip


def found(root: Path) -> Iterator[tuple[str, str, str, str]]:
    """(name, precision, reference, kernel in function form) of each gold that a checkout has."""
    for name, (precision, sizes, given, inputs, says, call) in GOLDS.items():
        path = root / FOLDER / f"{name}.py"
        if path.is_file():
            text = _forward(path.read_text("utf-8").partition("\n####")[0])
            kernel = f"{_imports(text)}\n\n\n{parts_reached(text, call)}\n\n\ndef kernel({given}):\n    return {call}\n"
            yield f"tritonbench-g/{name}", precision, reference(sizes, given, inputs, says), kernel


def _forward(text: str) -> str:
    """A file without its classes' backward passes and without lines for a log, which would leave a handler behind."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            node.body = [one for one in node.body if getattr(one, "name", "") != "backward"]
        elif isinstance(node, ast.FunctionDef):
            node.body = [one for one in node.body if not ast.unparse(one).startswith("logging.")]
    return ast.unparse(tree)


def _imports(text: str) -> str:
    body = ast.parse(text).body
    return "\n".join(ast.unparse(one) for one in body if isinstance(one, ast.Import | ast.ImportFrom))
