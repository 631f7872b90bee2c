"""The precision of a task: how its reference runs, and which precision candidates may use.

    default   PyTorch's default flags (convolutions in TF32, products in IEEE float32), and what the task's source sets
    ieee      no TF32 anywhere, whatever the source sets
    tf32      products and convolutions of float32 in TF32
    bf16      parameters and floating-point inputs cast to bfloat16; sums in float32
    fp16      the same in float16

A task's source allows TF32 in products in the same ways as in PyTorch, anywhere in its text:

    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.set_float32_matmul_precision("high")          ("medium" counts as "high")

Tolerances are not set here: they follow from the reference's own error under these rules.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
from typing import get_args

from kernelwright.errors import UserError
from kernelwright.parsing import parse
from kernelwright.records import PrecisionName, Task

NAMES: tuple[PrecisionName, ...] = get_args(PrecisionName)
HALF = ("float16", "bfloat16")
FLOATS = ("float64", "float32", *HALF)
CAST = {"bf16": "bfloat16", "fp16": "float16"}
"""The dtype to which a precision casts, if it does."""
_SWITCHES = {
    "torch.backends.cuda.matmul.allow_tf32": (True,),
    "torch.backends.cuda.matmul.fp32_precision": ("tf32",),
}
_CALL, _LOWER = "torch.set_float32_matmul_precision", ("high", "medium")


@dataclasses.dataclass(frozen=True)
class Precision:
    """The rules of a precision for one task."""

    name: PrecisionName = "default"
    products: bool = False
    """Whether products of float32 matrices may use TF32."""
    convolutions: bool = True
    """Whether convolutions of float32 may use TF32."""
    cast: str = ""
    """The dtype that parameters and floating-point inputs are cast to; empty: no cast."""

    @property
    def flags(self) -> dict[str, bool]:
        """The flags of processes that run a reference or a candidate."""
        return {"products": self.products, "convolutions": self.convolutions}


DEFAULT = Precision()


def precision_of(task: Task) -> Precision:
    """The rules of a task."""
    name = task.precision
    if name in ("ieee", "tf32"):
        return Precision(name, name == "tf32", name == "tf32")
    cast = "" if task.graph else CAST.get(name, "")  # a graph has a dtype for each of its values
    return Precision(name, products=allows_tf32(task.source), cast=cast)


def check_name(name: str) -> PrecisionName:
    """`name` itself. Raises UserError for an unknown precision."""
    for known in NAMES:
        if name == known:
            return known
    raise UserError(f"unknown precision '{name}': choose one of {', '.join(NAMES)}")


def in_precision(task: Task, name: str) -> Task:
    """`task` in another precision, as a new task. Raises UserError for an unknown precision, and for a graph whose main dtype
    does not match."""
    precision = check_name(name)
    if precision == task.precision:
        return task
    dtype = CAST.get(precision, task.dtype)
    if task.graph and dtype != task.dtype:
        raise UserError(
            f"{task.id} is a graph in {task.dtype}: cast the module and its inputs with .to(torch.{dtype}) first"
        )
    return task.model_copy(update={"precision": precision, "dtype": dtype})


@functools.lru_cache(maxsize=1024)
def allows_tf32(source: str) -> bool:
    """Whether a task's source allows TF32 in products."""
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
            if isinstance(asked, ast.Constant) and asked.value in _LOWER:
                return True
    return False
