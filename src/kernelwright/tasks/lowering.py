"""A reference lowered, as a compiler's front end would: constructor, inputs with shapes, and the forward as ATen operators.

The forward is traced with fake tensors before PyTorch takes composite operators apart, so that `nn.Softmax`, `F.softmax`
and `x.softmax` are one line, with every option and shape known, whoever wrote the source and however:

    class Model(nn.Module):
        def __init__(self, in_channels, out_channels):
            super().__init__()
            self.proj = nn.Linear(in_channels, out_channels)
    init: 512, 256
    x: [16, 512]
    self.proj.weight: [256, 512]
    self.proj.bias: [256]
    h1 = linear(x, self.proj.weight, self.proj.bias) -> [16, 256]
    h2 = relu(h1) -> [16, 256]
    return h2

Spellings that remain are settled, too: the product of the ranks at hand (`mm`, `bmm`, `mv`, else `matmul`), `transpose`
for every exchange of two dimensions, `reshape` for every change of shape alone, `amax` for a `max` along a dimension whose
places are not used, -1 for the last dimension.

Tensors are float32 where no type is named. Executes the reference, which is trusted; no tensor has memory.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from kernelwright.parsing import parse
from kernelwright.records import Task
from kernelwright.tasks.reference import Reference

_SAME = frozenset({"alias", "detach", "lift_fresh_copy", "lift_fresh", "contiguous", "clone"})
"""Operators that hand on what they are given."""
_PRODUCTS = frozenset({"mm", "bmm", "mv", "matmul"})
_RESHAPES = frozenset(
    {"view", "_unsafe_view", "reshape", "view_as", "flatten", "unflatten", "squeeze", "unsqueeze"}
)
_ADDS_DIMENSIONS = frozenset({"stack", "diag_embed"})
_SILENT = frozenset({"device", "layout", "pin_memory", "memory_format"})
_COUNTER = "num_batches_tracked"
"""A buffer of batch norms that nobody reads."""
_LONGEST = 120
"""Operators of the longest forward that is lowered."""


def lowered(task: Task) -> str:
    """The text above for `task`, or nothing where its reference cannot be traced (data-dependent control flow, code
    that raises, a forward of more than 120 operators)."""
    return task.lowered or _lowered(task.source)


@functools.lru_cache(maxsize=4096)
def _lowered(source: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _lower(source)
    except (Exception, SystemExit):  # a reference may raise anything; the prompt shows its source then
        return ""


def _lower(source: str) -> str:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    reference = Reference(source)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode, torch.no_grad():
        given = reference.init_inputs()
        model, inputs = reference.module(given), reference.inputs()
        state = {**dict(model.named_parameters()), **dict(model.named_buffers())}

        def forward(state: Any, tensors: Any) -> Any:
            values = iter(tensors)
            arguments = [next(values) if isinstance(one, torch.Tensor) else one for one in inputs]
            return torch.func.functional_call(model, state, tuple(arguments))

        tensors = [one for one in inputs if isinstance(one, torch.Tensor)]
        graph = make_fx(forward, pre_dispatch=True, tracing_mode="real")(state, tensors).graph
    if len(graph.nodes) > _LONGEST + len(state):
        return ""
    names = list(inspect.signature(model.forward).parameters)
    names += [f"arg{n}" for n in range(len(names), len(inputs))]
    lines = [_constructors(source, reference.namespace)]
    if given:
        lines.append(f"init: {', '.join(_value(one) for one in given)}")
    lines += [f"{name}: {_value(one)}" for name, one in zip(names, inputs, strict=False)]
    of_tensors = [name for name, one in zip(names, inputs, strict=False) if isinstance(one, torch.Tensor)]
    leaves = [*(f"self.{name}" for name in state), *of_tensors]
    shapes = {f"self.{name}": _value(tensor) for name, tensor in state.items()}
    lines += _forward(graph, leaves, shapes)
    return "\n".join(line for line in lines if line)


def _forward(graph: Any, leaves: Sequence[str], shapes: Mapping[str, str]) -> list[str]:
    """The weights that are used with their shapes, then a line an operator. `leaves` names the placeholders."""
    import torch

    given = (node for node in graph.nodes if node.op == "placeholder")
    said: dict[Any, str] = dict(zip(given, leaves, strict=True))
    used: dict[str, None] = {}
    body: list[str] = []

    def text(value: Any) -> str:
        if isinstance(value, torch.fx.Node):
            if said[value] in shapes:
                used[said[value]] = None
            return said[value]
        if isinstance(value, list | tuple):
            return f"[{', '.join(text(one) for one in value)}]"
        return _value(value)

    for node in graph.nodes:
        if node.op == "placeholder":
            continue
        if node.op == "output":
            result = node.args[0]
            single = not isinstance(result, list | tuple)
            body.append(f"return {text(result) if single else ', '.join(text(one) for one in result)}")
            continue
        if node.op == "get_attr":
            said[node] = str(node.target).lstrip("_")
            continue
        name = _operator(node.target)
        if name == "getitem":
            whole = said[node.args[0]]
            said[node] = whole if _is_value_alone(node.args[0]) else f"{whole}[{node.args[1]}]"
        elif name in _SAME or said.get(node.args[0], "").endswith(_COUNTER):
            said[node] = said[node.args[0]]
        else:
            name, arguments = _settled(node, name)
            arguments = [text(one) for one in arguments]
            arguments += [f"{key}={text(one)}" for key, one in node.kwargs.items() if key not in _SILENT]
            said[node] = f"h{len(body) + 1}"
            made = node.meta.get("val")
            if isinstance(made, list | tuple):
                made = made[0]
            body.append(f"{said[node]} = {name}({', '.join(arguments)}) -> {_value(made)}")
    return [*(f"{name}: {shapes[name]}" for name in used), *body]


def _settled(node: Any, name: str) -> tuple[str, list[Any]]:
    """One name and one list of positional arguments for what has several."""
    arguments = list(node.args)
    if _is_value_alone(node):
        name, arguments[1] = f"a{name}", [arguments[1]]
    made = [one.meta.get("val") for one in arguments if hasattr(one, "meta")]
    ranks = [one.ndim if hasattr(one, "ndim") else 0 for one in made]
    if name in _PRODUCTS and len(ranks) == 2:
        (left, right), batches = made, [one.shape[0] for one in made if one.ndim == 3]
        if left.ndim == right.ndim == 2:
            return "mm", arguments
        if len(batches) == 2 and batches[0] == batches[1]:
            return "bmm", arguments
        return ("mv" if left.ndim == 2 and right.ndim == 1 else "matmul"), arguments
    if name in _RESHAPES:
        return "reshape", arguments[:1]
    if not ranks or not ranks[0]:
        return name, arguments
    rank = ranks[0]
    if name in ("t", "numpy_T", "mT", "adjoint") and rank == 2:
        return "transpose", [arguments[0], 0, 1]
    if name in ("mT", "adjoint"):
        return "transpose", [arguments[0], rank - 2, rank - 1]
    if name in ("transpose", "swapaxes", "swapdims"):
        return "transpose", [arguments[0], *sorted(one % rank for one in arguments[1:3])]
    if name == "permute":
        moved = [place for place, one in enumerate(arguments[1]) if one % rank != place]
        return ("transpose", [arguments[0], *moved]) if len(moved) == 2 else (name, arguments)
    if name in _ADDS_DIMENSIONS:
        return name, arguments

    def dimension(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [dimension(one) for one in value]
        if type(value) is not int or not -rank <= value < rank:
            return value
        return -1 if value % rank == rank - 1 else value % rank

    schema = getattr(node.target, "_schema", None)
    for place, one in enumerate(schema.arguments[: len(arguments)] if schema is not None else ()):
        if one.name in ("dim", "dims"):
            arguments[place] = dimension(arguments[place])
    return name, arguments


def _is_value_alone(node: Any) -> bool:
    """A largest or least value along a dimension, whose place nobody asks for: `amax` and `amin` say that."""
    if (
        _operator(node.target) not in ("max", "min")
        or len(node.args) < 2
        or not isinstance(node.args[1], int)
    ):
        return False
    wanted = [user for user in node.users if user.users]
    return all(_operator(user.target) == "getitem" and user.args[1] == 0 for user in wanted)


def _operator(target: Any) -> str:
    packet = getattr(target, "overloadpacket", None)
    return str(packet.__name__ if packet is not None else getattr(target, "__name__", target))


def _value(value: Any) -> str:
    """A tensor as its type, where that is not float32, and shape; anything else as Python writes it."""
    import torch

    if isinstance(value, torch.Tensor):
        kind = "" if value.dtype == torch.float32 else f"{value.dtype} ".removeprefix("torch.")
        return f"{kind}{list(value.shape)}"
    return repr(value).removeprefix("torch.")


def _constructors(source: str, scope: Mapping[str, Any]) -> str:
    """The classes with nothing but their constructors, without docstrings, annotations and names of constants."""
    kept: list[ast.stmt] = []
    for node in parse(source).body:
        if not isinstance(node, ast.ClassDef):
            continue
        inits = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
        statements: list[ast.stmt] = [made for one in inits if (made := _constructor(one, scope)) is not None]
        if statements:
            node.body, node.decorator_list = statements, []
            kept.append(node)
    texts = (ast.unparse(ast.fix_missing_locations(node)) for node in kept)
    return "\n".join(re.sub(r"\n\s*\n", "\n", text) for text in texts)


def _constructor(function: ast.FunctionDef, scope: Mapping[str, Any]) -> ast.FunctionDef | None:
    """None where it does nothing and takes nothing."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for one in (*every, arguments.vararg, arguments.kwarg):
        if one is not None:
            one.annotation = None
    function.returns = None
    function.body = [one for one in function.body if not _says_nothing(one)]
    if not function.body and len(every) == 1:
        return None
    function.body = [*parse("super().__init__()").body, *function.body]
    own = {one.arg for one in every}
    own |= {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }

    class Settled(ast.NodeTransformer):
        """Constants as they are, and `nn` for `torch.nn`."""

        def visit_Name(self, node: ast.Name) -> ast.expr:
            value = scope.get(node.id)
            return ast.Constant(value) if node.id not in own and type(value) in (int, float, str) else node

        def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
            self.generic_visit(node)
            whole = isinstance(node.value, ast.Name) and node.value.id == "torch" and node.attr == "nn"
            return ast.Name("nn", ast.Load()) if whole else node

    made: ast.FunctionDef = Settled().visit(function)
    return made


def _says_nothing(statement: ast.stmt) -> bool:
    """A docstring, or the call of `super().__init__()`."""
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    if isinstance(value, ast.Constant):
        return True
    return (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr == "__init__"
        and isinstance(value.func.value, ast.Call)
        and isinstance(value.func.value.func, ast.Name)
        and value.func.value.func.id == "super"
    )
