"""Tasks that let float32 products be made in TF32, which they say as PyTorch does, anywhere in their source:

    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.set_float32_matmul_precision("high")          ("medium" counts as "high")

Such a task's honest error is that of products whose operands are rounded to TF32, and its reference is clocked with the
flag up. What a source does to torch's switches ends with it: no other task runs under them.

Not covered: cuDNN's convolutions (`Protocol.tf32_convolutions`). A GPU may cut operands off instead of rounding them,
which doubles the error; the tolerance leaves room for that.
"""

from __future__ import annotations

import ast
import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.parsing import parse

EPSILON = 2.0**-10
"""Between 1 and the next number in TF32: ten bits of mantissa, as in float16."""
_SWITCHES = {
    "torch.backends.cuda.matmul.allow_tf32": (True,),
    "torch.backends.cuda.matmul.fp32_precision": ("tf32",),
}
_CALL, _PRECISIONS = "torch.set_float32_matmul_precision", ("high", "medium")
_PRODUCTS = frozenset(["mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot"])


@functools.lru_cache(maxsize=1024)
def stated(source: str) -> bool:
    """Whether a task's source asks for TF32."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            if any(node.value.value in _SWITCHES.get(ast.unparse(target), ()) for target in node.targets):
                return True
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == _CALL and node.args:
            asked = node.args[0]
            if isinstance(asked, ast.Constant) and asked.value in _PRECISIONS:
                return True
    return False


@contextlib.contextmanager
def switches_kept() -> Iterator[None]:
    """Whatever happens to torch's global switches in the block ends with it."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    precision, dtype = torch.get_float32_matmul_precision(), torch.get_default_dtype()
    deterministic, benchmark = torch.are_deterministic_algorithms_enabled(), cudnn.benchmark
    allowed, convolutions = matmul.allow_tf32, cudnn.allow_tf32
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = allowed, convolutions, benchmark
        torch.set_default_dtype(dtype)
        if torch.are_deterministic_algorithms_enabled() != deterministic:  # the setter imports Inductor
            torch.use_deterministic_algorithms(deterministic)


class Rounded(TorchDispatchMode):
    """Products of float32 matrices are made of operands that are rounded to TF32, on any device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if name in _PRODUCTS:
            first = 1 if name in ("addmm", "baddbmm", "addmv") else 0
            args = (*args[:first], *map(rounded, args[first : first + 2]), *args[first + 2 :])
        return func(*args, **(kwargs or {}))


def rounded(tensor: torch.Tensor) -> torch.Tensor:
    """float32 to the nearest number with ten bits of mantissa, ties to even; other dtypes as they are."""
    if tensor.dtype != torch.float32:
        return tensor
    bits = tensor.contiguous().view(torch.int32)
    near = (bits + 0xFFF + ((bits >> 13) & 1)) & -0x2000
    return torch.where(torch.isfinite(tensor), near.view(torch.float32).view_as(tensor), tensor)
