"""Faults in where a kernel reads and writes: masks, padding, strides, axes, bounds of loops and grids."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from kernelwright.faults.source import JOINS, Fault, Kernel, Source, callee
from kernelwright.parsing import is_name, names_within

_MASKED = "lanes are chosen before they meet, whatever they hold"
_LOOKED_UP = "masked lanes read the place that their index is padded with, which is there"
_BEHIND = "padding stands behind all that a scan stores"
_REDUCTIONS = ("sum", "max", "min", "argmax", "argmin", "cumsum", "cumprod")
_OTHER_AXIS = {"0": "1", "1": "0"}


def mask_off_by_one(source: Source) -> Iterator[Fault]:
    """`i < n` as `i < n - 1` and as `i <= n`; `i >= 0` as `i > 0` and as `i >= -1`."""
    for kernel in source.kernels:
        for node in kernel.nodes(ast.Compare):
            if len(node.ops) != 1 or not _guards(kernel, node):
                continue
            left, right = source.text(node.left), source.text(node.comparators[0])
            if isinstance(node.ops[0], ast.Lt):
                new = (f"{left} < {right} - 1", f"{left} <= {right}")
            elif isinstance(node.ops[0], ast.LtE):
                new = (f"{left} < {right}", f"{left} <= {right} + 1")
            elif isinstance(node.ops[0], ast.GtE):
                new = (f"{left} > {right}", f"{left} >= {right} - 1")
            else:
                continue
            for text in new:
                yield source.fault(node, text)


def mask_missing(source: Source) -> Iterator[Fault]:
    """A load or store without its mask, or a mask without one of its conditions."""
    for kernel in source.kernels:
        for call in kernel.calls("load", "store", "atomic_add"):
            masks = [word for word in call.keywords if word.arg in ("mask", "other")]
            if not any(word.arg == "mask" for word in masks):
                continue
            kept = [source.text(item) for item in (*call.args, *(w for w in call.keywords if w not in masks))]
            inside = _LOOKED_UP if callee(call) == "load" and _looked_up(kernel, call.args[0]) else ""
            yield source.fault(call, f"{source.text(call.func)}({', '.join(kept)})", equivalent=inside)
        for node in kernel.nodes(ast.BinOp):
            if isinstance(node.op, ast.BitAnd) and kernel.role(node) in ("mask", "condition"):
                # The remaining condition must keep the block's shape.
                left, right = source.text(node.left), source.text(node.right)
                yield source.fault(node, f"(({left}) & (({right}) | True))")
                yield source.fault(node, f"((({left}) | True) & ({right}))")


def wrong_padding(source: Source) -> Iterator[Fault]:
    """Change what masked lanes hold where lanes are combined: every `other` of a kernel at once, since a single one may cancel out,
    and each to a different number, since equal ones would cancel in a difference."""
    for kernel in source.kernels:
        words = [word for call in kernel.calls("load") for word in call.keywords if word.arg == "other"]
        if not words or not kernel.reduces():
            continue
        joined = [call.args[0] for call in kernel.calls(*JOINS) if call.args]
        masked = _MASKED if all(_is_selected(kernel, one) for one in joined) else ""
        if not masked and any(True for _ in kernel.calls("cumsum", "cumprod")):
            masked = _BEHIND
        edits = [
            (
                word.value,
                "0.0" if "inf" in (old := source.text(word.value)) or old in ("1.0", "1") else f"{place}.0",
            )
            for place, word in enumerate(words, 1)
        ]
        yield source.fault(*edits[0], *edits[1:], equivalent=masked)


def wrong_axis(source: Source) -> Iterator[Fault]:
    """Use the program id of another grid axis, reduce over another axis, or take the stride of another dimension."""
    for kernel in source.kernels:
        ids = [(call, axis) for call in kernel.calls("program_id") if (axis := _axis(call, 0)) is not None]
        used = sorted({int(source.text(axis)) for _, axis in ids if source.text(axis).isdigit()})
        for _, axis in ids:
            now = int(source.text(axis)) if source.text(axis).isdigit() else 0
            others = (place for place in used if place != now)
            yield source.fault(axis, str(next(others, 1 if now == 0 else 0)))
        for call in kernel.calls(*_REDUCTIONS):
            axis = _axis(call, 1)
            if axis is not None and (other := _OTHER_AXIS.get(source.text(axis))):
                yield source.fault(axis, other)
    for call in source.host_nodes(ast.Call):
        if callee(call) == ".stride" and call.args and (other := _OTHER_AXIS.get(source.text(call.args[0]))):
            yield source.fault(call.args[0], other)


def wrong_stride(source: Source) -> Iterator[Fault]:
    """Drop a factor of an address, or take another size for it."""
    for kernel in source.kernels:
        for node in kernel.nodes(ast.BinOp):
            if not isinstance(node.op, ast.Mult) or kernel.role(node) != "address":
                continue
            yield source.fault(node, f"({source.text(node.left)})")
            if isinstance(node.right, ast.Name) and node.right.id in kernel.sizes:
                for other in [name for name in kernel.sizes if name != node.right.id][:1]:
                    yield source.fault(node.right, other)


def wrong_offset(source: Source) -> Iterator[Fault]:
    """Drop a term of an address, do not advance a pointer, or use a quotient for a remainder."""
    for kernel in source.kernels:
        for node in kernel.nodes(ast.BinOp, ast.AugAssign):
            if isinstance(node, ast.AugAssign) and kernel.role(node.value) == "address":
                yield source.fault(node, "pass")
            if not isinstance(node, ast.BinOp) or kernel.role(node) != "address":
                continue
            left, right = source.text(node.left), source.text(node.right)
            if isinstance(node.op, ast.Add | ast.Sub):
                yield source.fault(node, f"({left})")
            elif isinstance(node.op, ast.FloorDiv):
                yield source.fault(node, f"({left} % {right})")
            elif isinstance(node.op, ast.Mod):
                yield source.fault(node, f"({left} // {right})")


def loop_bound(source: Source) -> Iterator[Fault]:
    """Omit the first or last step of a loop."""
    for kernel in source.kernels:
        for loop in kernel.nodes(ast.For):
            call = loop.iter
            loops = callee(call) in ("range", "static_range")
            if not isinstance(call, ast.Call) or not loops or not call.args:
                continue
            bounds = [f"({source.text(argument)})" for argument in call.args]
            if len(bounds) == 1:
                bounds = ["0", *bounds]
            step = bounds[2] if len(bounds) == 3 else "1"
            for first, last in ((bounds[0], f"{bounds[1]} - {step}"), (f"{bounds[0]} + {step}", bounds[1])):
                text = ", ".join((first, last, *bounds[2:]))
                yield source.fault(call, f"{source.text(call.func)}({text})")


def grid_too_small(source: Source) -> Iterator[Fault]:
    """Round the number of programs down."""
    for node in ast.walk(source.tree):
        if callee(node) == "cdiv" and isinstance(node, ast.Call) and len(node.args) == 2:
            yield source.fault(node, f"({source.text(node.args[0])}) // ({source.text(node.args[1])})")


def swapped_sizes(source: Source) -> Iterator[Fault]:
    """Swap two neighbouring numbers of a launch, or two dimensions of a shape."""
    for kernel, launch in source.launches():
        pairs = zip(launch.args, launch.args[1:], kernel.parameters, kernel.parameters[1:], strict=False)
        for one, two, first, second in pairs:
            numbers = not {first, second} & kernel.pointers
            if numbers and source.text(one) != source.text(two):
                yield source.fault(one, source.text(two), (two, source.text(one)))
    for node in source.host_nodes(ast.Assign):
        if isinstance(node.targets[0], ast.Tuple):
            names = node.targets[0].elts
            if ".shape" in source.text(node.value) and len(names) > 1:
                one, two = names[-2:]
                yield source.fault(one, source.text(two), (two, source.text(one)))


def uninitialised(source: Source) -> Iterator[Fault]:
    """Do not zero a buffer that is added to."""
    for node in source.host_nodes(ast.Attribute):
        if node.attr in ("zeros", "zeros_like", "new_zeros"):
            yield source.fault(node, source.text(node).replace("zeros", "empty"))


def _looked_up(kernel: Kernel, place: ast.AST) -> bool:
    """Whether an address is a pointer plus only indices that a masked load returned."""
    if not isinstance(place, ast.BinOp) or not isinstance(place.op, ast.Add):
        return False
    names = names_within(place.right)
    return bool(names) and all(
        one in kernel.sizes or any(_is_loaded(kernel, made) for made in kernel.assigned(one)) for one in names
    )


def _is_loaded(kernel: Kernel, node: ast.AST) -> bool:
    """Whether a value is a masked load, or a selection of one by its own sign."""
    if callee(node) == "where" and isinstance(node, ast.Call):
        last = node.args[-1]
        return isinstance(last, ast.Name) and any(
            _is_loaded(kernel, made) for made in kernel.assigned(last.id)
        )
    return (
        callee(node) == "load" and isinstance(node, ast.Call) and any(w.arg == "mask" for w in node.keywords)
    )


def _is_selected(kernel: Kernel, node: ast.AST, depth: int = 4, around: str = "") -> bool:
    """Whether `tl.where` selects lanes before they are combined, so that their padding has no effect. `around`: the running value
    in question."""
    if callee(node) in ("where", "full", "zeros"):
        return True
    if callee(node) in ("maximum", "minimum"):
        assert isinstance(node, ast.Call)
        return all(is_name(one, around) or _is_selected(kernel, one, depth, around) for one in node.args)
    if not isinstance(node, ast.Name) or not depth:
        return callee(node) in JOINS
    added = [one.value for one in kernel.nodes(ast.AugAssign) if is_name(one.target, node.id)]
    made = [one for one in [*kernel.assigned(node.id), *added] if not is_name(one, node.id)]
    return bool(made) and all(_is_selected(kernel, one, depth - 1, node.id) for one in made)


def _guards(kernel: Kernel, node: ast.AST) -> bool:
    """Whether a comparison of positions is part of a mask; not of values, whose boundary random inputs never hit."""
    values = any("value" in kernel.roles.get(name, ()) for name in names_within(node)) or any(
        isinstance(one, ast.Constant) and isinstance(one.value, float) for one in ast.walk(node)
    )
    return kernel.role(node) == "mask" or (kernel.role(node) == "condition" and not values)


def _axis(call: ast.Call, place: int) -> ast.expr | None:
    named = [word.value for word in call.keywords if word.arg == "axis"]
    return named[0] if named else call.args[place] if len(call.args) > place else None
