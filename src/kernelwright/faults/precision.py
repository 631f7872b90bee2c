"""Faults of precision: digits lost in operands, sums, functions and results, which a loose tolerance accepts.

For tasks in half precision, PyTorch itself rounds between its operators, so only rounding what it keeps in float32 (sums and
statistics), and formats below the task's own, are faults.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelwright.faults.source import Fault, Kernel, Source, callee

_LOWER = {"float32": "bfloat16", "float16": "bfloat16"}
"""A format with fewer digits than the task's own; Triton computes in none below bfloat16."""
_OWN = {"float32": "float16", "float16": "float16", "bfloat16": "bfloat16"}
"""The format of a careless sum."""
_FULL = ("ieee", "tf32x3")
"""Precisions in which products of float32 keep its full accuracy."""
_WIDENED = "what it meets is float32, so it is widened all the same"
_FUNCTIONS = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sigmoid", "erf", "tanh", "sin", "cos")


def tf32_products(source: Source, dtype: str) -> Iterator[Fault]:
    """Use TF32 for products that ask for full float32."""
    for kernel in source.kernels:
        for call in kernel.calls("dot"):
            for word in call.keywords:
                if word.arg == "input_precision" and source.text(word.value)[1:-1] in _FULL:
                    yield source.fault(word.value, '"tf32"')


def half_products(source: Source, dtype: str) -> Iterator[Fault]:
    """Round operands of a product to fewer digits than the task has."""
    lower = _LOWER.get(dtype)
    for kernel in source.kernels:
        for call in kernel.calls("dot"):
            if lower is not None:
                one, two = call.args[:2]
                yield source.fault(one, _to(source, one, lower), (two, _to(source, two, lower)))


def half_accumulator(source: Source, dtype: str) -> Iterator[Fault]:
    """Round a running sum after every step."""
    own = _OWN[dtype]
    for kernel in source.kernels:
        for node in kernel.nodes(ast.AugAssign, ast.Assign):
            if isinstance(node, ast.AugAssign):
                adds = isinstance(node.op, ast.Add) and kernel.role(node.value) == "value"
                if adds and _in_loop(source, node):
                    target, value = source.text(node.target), source.text(node.value)
                    new = f"{target} = ({target} + {value}).to(tl.{own}).to(tl.float32)"
                    yield source.fault(node, new)
            elif isinstance(node, ast.Assign) and callee(node.value) == "dot" and _in_loop(source, node):
                text = source.text(node.value)
                yield source.fault(node.value, f"{text}.to(tl.{own}).to(tl.float32)")


def half_statistics(source: Source, dtype: str) -> Iterator[Fault]:
    """Sum rounded terms over lanes, and round the result."""
    own = _OWN[dtype]
    for kernel in source.kernels:
        for call in kernel.calls("sum"):
            if kernel.role(call) == "value":
                rest = [source.text(item) for item in (*call.args[1:], *call.keywords)]
                terms = _to(source, call.args[0], own)
                new = f"tl.sum({', '.join((terms, *rest))}).to(tl.{own}).to(tl.float32)"
                yield source.fault(call, new)


def half_loads(source: Source, dtype: str) -> Iterator[Fault]:
    """Round an input to fewer digits than the task has."""
    lower = _LOWER.get(dtype)
    for kernel in source.kernels:
        for call in kernel.calls("load"):
            if lower is not None and kernel.role(call) == "value" and not _is_compared(kernel, call):
                yield source.fault(call, f"{_to(source, call, lower)}.to(tl.{dtype})")


def half_arguments(source: Source, dtype: str) -> Iterator[Fault]:
    """Round a function's argument, in float32 tasks."""
    for kernel in source.kernels:
        for call in kernel.calls(*_FUNCTIONS):
            if dtype == "float32" and kernel.role(call) == "value":
                argument = call.args[0]
                new = f"{_to(source, argument, 'float16')}.to(tl.float32)"
                yield source.fault(argument, new)


def half_result(source: Source, dtype: str) -> Iterator[Fault]:
    """Round a result to fewer digits than the task has before it is stored."""
    lower = _LOWER.get(dtype)
    for kernel in source.kernels:
        for store in kernel.stores():
            value = store.args[1]
            if lower is not None and "tl.int" not in source.text(value):
                yield source.fault(value, f"{_to(source, value, lower)}.to(tl.{dtype})")


def no_upcast(source: Source, dtype: str) -> Iterator[Fault]:
    """Compute in the half precision of the input."""
    for kernel in source.kernels:
        for call in kernel.calls(".to"):
            if dtype != "float32" and call.args and source.text(call.args[0]) == "tl.float32":
                assert isinstance(call.func, ast.Attribute)
                if kernel.role(call) == "value":
                    same = _WIDENED if _is_widened(source, kernel, call) else ""
                    yield source.fault(call, source.text(call.func.value), equivalent=same)


def coarse_constant(source: Source, dtype: str) -> Iterator[Fault]:
    """Round a constant to four digits, in float32 tasks."""
    for function in (*(kernel.node for kernel in source.kernels), *source.hosts):
        for node in ast.walk(function):
            if isinstance(node, ast.Constant) and type(node.value) is float and dtype == "float32":
                short = float(f"{node.value:.4g}")
                if abs(short - node.value) > 1e-6 * abs(node.value):
                    yield source.fault(node, repr(short))


def _is_widened(source: Source, kernel: Kernel, call: ast.AST) -> bool:
    """Whether every use of the cast value is arithmetic with a float32 name: `x * y`, where `y` is cast, too."""
    parent = source.parents[call]
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Name):
        return False
    name = parent.targets[0].id
    return len(kernel.assigned(name)) == 1 and all(
        isinstance(use, ast.BinOp)
        and any(_is_cast(source, kernel, side, name) for side in (use.left, use.right))
        for use in kernel.readers(name)
    )


def _is_cast(source: Source, kernel: Kernel, side: ast.AST, apart: str) -> bool:
    """Whether `side` is another name, assigned once, by a cast to float32."""
    if not isinstance(side, ast.Name) or side.id == apart:
        return False
    made = kernel.assigned(side.id)
    return len(made) == 1 and source.text(made[0]).endswith(".to(tl.float32)")


def _to(source: Source, node: ast.AST, dtype: str) -> str:
    return f"({source.text(node)}).to(tl.{dtype})"


def _in_loop(source: Source, node: ast.AST) -> bool:
    while (parent := source.parents.get(node)) is not None:
        if isinstance(parent, ast.For | ast.While):
            return True
        node = parent
    return False


def _is_compared(kernel: Kernel, call: ast.Call) -> bool:
    """Whether it is a flag or an index: only used in comparisons."""
    parent = kernel.source.parents[call]
    if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
        return all(isinstance(reader, ast.Compare) for reader in kernel.readers(parent.targets[0].id))
    return isinstance(parent, ast.Compare)
