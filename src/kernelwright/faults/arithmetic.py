"""Faults in what a kernel computes: terms, operators, constants, starting values, epilogues."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelwright.faults.source import Fault, Kernel, Source, callee
from kernelwright.parsing import is_name, names_within

_OTHER_FUNCTION = {
    "maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max", "exp": "exp2", "exp2": "exp", "log": "log2",
    "sqrt": "abs", "rsqrt": "sqrt", "sigmoid": "exp", "abs": "exp", "sum": "max", "cumsum": "cumprod",
    "cumprod": "cumsum",
}  # fmt: skip
_OTHER_OPERATOR = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.Div: "*"}
_SCALED = "the first step multiplies it by exp(-inf)"
_EVEN = "its sign is squared away"


def wrong_start(source: Source) -> Iterator[Fault]:
    """A running value that does not start at the neutral element."""
    for kernel in source.kernels:
        updated = {
            name
            for loop in kernel.nodes(ast.For, ast.While)
            for statement in ast.walk(loop)
            if isinstance(statement, ast.Assign | ast.AugAssign)
            for name in names_within(
                statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            )
        }
        for node in kernel.nodes(ast.Assign):
            name, value = node.targets[0], node.value
            if not isinstance(name, ast.Name) or name.id not in updated or kernel.role(value) != "value":
                continue
            text = source.text(value)
            if callee(value) == "zeros":
                scaled = any(_is_rescaled(one, name.id) for one in kernel.assigned(name.id))
                yield source.fault(value, f"({text} + 1)", equivalent=_SCALED if scaled else "")
            elif callee(value) == "full" and isinstance(value, ast.Call) and len(value.args) > 1:
                yield source.fault(value.args[1], "1.0" if "inf" not in text else "0.0")
            elif isinstance(value, ast.Constant) and isinstance(value.value, float):
                yield source.fault(value, "0.0" if value.value else "1.0")
            elif text.replace('"', "'") == "float('-inf')":
                yield source.fault(value, "0.0")


def _is_rescaled(node: ast.AST, name: str) -> bool:
    """`total * shrink`, with which an online softmax begins each step."""
    return any(
        isinstance(one, ast.BinOp)
        and isinstance(one.op, ast.Mult)
        and is_name(one.left, name)
        and "shrink" in ast.dump(one.right)
        for one in ast.walk(node)
    )


def dropped_term(source: Source) -> Iterator[Fault]:
    """Drop a term or a factor; keep only the last part of a sum."""
    for kernel in source.kernels:
        for node in kernel.nodes(ast.BinOp, ast.AugAssign, ast.Call):
            if isinstance(node, ast.AugAssign):
                if kernel.role(node.value) == "value" and isinstance(node.op, ast.Add | ast.Mult):
                    target, value = source.text(node.target), source.text(node.value)
                    # Keep the old shape, whatever the new value broadcasts to.
                    yield source.fault(node, f"{target} = ({value}) + {target} * 0.0")
            elif isinstance(node, ast.BinOp):
                if kernel.role(node) != "value":
                    continue
                if isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
                    yield source.fault(node, f"({source.text(node.left)})")
                if isinstance(node.op, ast.Add | ast.Mult):
                    yield source.fault(node, f"({source.text(node.right)})")
            elif callee(node) == "dot" and isinstance(node, ast.Call) and len(node.args) > 2:
                yield source.fault(node.args[2], f"({source.text(node.args[2])}) * 0.0")


def wrong_operator(source: Source) -> Iterator[Fault]:
    """Exchange plus and minus, times and plus, minimum and maximum, or one function for another."""
    for kernel in source.kernels:
        for node in kernel.nodes(ast.BinOp, ast.AugAssign, ast.Call):
            name = callee(node)
            if isinstance(node, ast.Call):
                if name in _OTHER_FUNCTION and kernel.role(node) == "value":
                    yield source.fault(node.func, source.text(node.func).replace(name, _OTHER_FUNCTION[name]))
                elif words := [word for word in node.keywords if word.arg == "reverse"]:
                    yield source.fault(words[0], "reverse=False")
            elif isinstance(node, ast.BinOp):
                if kernel.role(node) == "value" and (new := _OTHER_OPERATOR.get(type(node.op))):
                    yield source.fault(node, f"({source.text(node.left)} {new} {source.text(node.right)})")
            elif isinstance(node, ast.AugAssign) and kernel.role(node.value) == "value":
                target, new = source.text(node.target), _OTHER_OPERATOR.get(type(node.op))
                if new is not None:
                    yield source.fault(node, f"{target} {new}= {source.text(node.value)}")


def swapped_operands(source: Source) -> Iterator[Fault]:
    """Swap the operands of a difference, a quotient or a select."""
    for kernel in source.kernels:
        for node in kernel.nodes(ast.BinOp, ast.Call):
            if isinstance(node, ast.BinOp):
                if isinstance(node.op, ast.Sub | ast.Div) and kernel.role(node) == "value":
                    sign = "-" if isinstance(node.op, ast.Sub) else "/"
                    text = f"({source.text(node.right)} {sign} ({source.text(node.left)}))"
                    even = _EVEN if sign == "-" and _even(kernel, node) else ""
                    yield source.fault(node, text, equivalent=even)
            elif callee(node) == "where" and isinstance(node, ast.Call) and len(node.args) == 3:
                one, two = node.args[1:]
                yield source.fault(one, source.text(two), (two, source.text(one)))


def skipped_epilogue(source: Source) -> Iterator[Fault]:
    """Omit the last operation on a value before it is stored."""
    for kernel in source.kernels:
        for store in kernel.stores():
            value: ast.expr = store.args[1]
            while True:
                if (
                    isinstance(value, ast.Call)
                    and isinstance(value.func, ast.Attribute)
                    and callee(value) == ".to"
                ):
                    value = value.func.value
                elif isinstance(value, ast.Name) and kernel.assigned(value.id):
                    value = kernel.assigned(value.id)[-1]
                else:
                    break
            if isinstance(value, ast.BinOp):
                yield source.fault(value, f"({source.text(value.left)})")
            elif isinstance(value, ast.Call) and value.args and callee(value) not in ("load", "dot", "zeros"):
                inner = value.args[1 if callee(value) == "where" else 0]
                yield source.fault(value, f"({source.text(inner)})")


def wrong_constant(source: Source) -> Iterator[Fault]:
    """Change a number by a tenth, or make an epsilon ten times too large."""
    functions = [
        *((kernel.node, kernel) for kernel in source.kernels),
        *((host, None) for host in source.hosts),
    ]
    for function, kernel in functions:
        for node in ast.walk(function):
            if isinstance(node, ast.Constant) and type(node.value) is float and node.value:
                if kernel is not None and kernel.role(node) in ("padding", "mask"):
                    continue
                factor = 10.0 if abs(node.value) < 1e-3 else 1.1
                yield source.fault(node, repr(node.value * factor))
            elif isinstance(node, ast.Attribute) and node.attr == "eps" and isinstance(node.ctx, ast.Load):
                yield source.fault(node, f"({source.text(node)} * 10.0)")


def _even(kernel: Kernel, node: ast.BinOp) -> bool:
    """Whether only the square or absolute value of a difference is used: `d * d`, `tl.abs(d)`, also after a select."""
    parents = kernel.source.parents
    place: ast.AST = node
    while callee(parents[place]) == "where" and _is_zero(parents[place], place):
        place = parents[place]
    parent = parents[place]
    if callee(parent) == "abs":
        return True
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Name):
        return False
    name = parent.targets[0].id
    return len(kernel.assigned(name)) == 1 and all(_is_squared(use, name) for use in kernel.readers(name))


def _is_zero(call: ast.AST, kept: ast.AST) -> bool:
    """`tl.where(mask, kept, 0.0)`."""
    assert isinstance(call, ast.Call)
    others = [argument for argument in call.args[1:] if argument is not kept]
    return all(isinstance(other, ast.Constant) and not other.value for other in others)


def _is_squared(parent: ast.AST, name: str) -> bool:
    if callee(parent) == "abs":
        return True
    return (
        isinstance(parent, ast.BinOp)
        and isinstance(parent.op, ast.Mult)
        and all(is_name(side, name) for side in (parent.left, parent.right))
    )
