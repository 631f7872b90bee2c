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
places are not used, -1 for the last dimension; `silu` and `mish` for what multiplies them out, `clamp` for what bounds,
nothing for a dropout that drops nothing. A number that the constructor was given and the module keeps is called by its
attribute: `mul(h1, self.scale)`, `clamp(h2, self.act.min_val, self.act.max_val)`; a module without weights that has
options is named after them, with what it keeps of sizes, one number or several:
`max_pool2d(h3, [2, 2], [2, 2], self.pool(kernel_size=2, stride=(2, 2), padding=0))`. What takes many elements together says
how many: `mean(h2) -> [] of 1048576 each`.

Tensors are float32 where no type is named. Executes the reference, which is trusted; no tensor has memory.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kernelwright.parsing import parse
from kernelwright.records import Task
from kernelwright.tasks.reference import Reference

_SAME = frozenset({"alias", "detach", "detach_", "lift_fresh_copy", "lift_fresh", "contiguous", "clone"})
"""Operators that hand on what they are given."""
_PRODUCTS = frozenset({"mm", "bmm", "mv", "matmul"})
_RESHAPES = frozenset(
    {"view", "_unsafe_view", "reshape", "view_as", "flatten", "unflatten", "squeeze", "unsqueeze"}
)
_OTHER_DIMENSIONS = frozenset({"stack", "diag_embed", "tile"})
"""Operators whose `dim` or `dims` are not the input's."""
_SILENT = frozenset({"device", "layout", "pin_memory", "memory_format"})
_SHORT = {"multiply": "mul", "subtract": "sub", "divide": "div", "true_divide": "div"}
_SPECIAL = {"expit": "sigmoid", "psi": "digamma", "gammaln": "lgamma"}
"""Names under `torch.special` of what has another one; the others have that one without it."""
_FILLED = {"zeros_like": 0.0, "zeros": 0.0, "ones_like": 1.0, "ones": 1.0}
"""Operators that give one number many times."""
_BOUNDS: Mapping[str, tuple[str, ...]] = {"hardtanh": ("-1.0", "1.0"), "relu6": ("0.0", "6.0")}
"""Operators that are a `clamp`, and its bounds where none are given."""
_WITH_OPTIONS = ("max_pool", "avg_pool", "lp_pool", "instance_norm")
"""What operators begin with that kernels ask a module's options of."""
_REDUCTIONS = frozenset(
    {"mean", "sum", "amax", "amin", "max", "min", "var", "std", "norm", "linalg_vector_norm", "logsumexp"}
)
_OPTIONS = ("kernel_size", "stride", "padding")
_COUNTER = "num_batches_tracked"
"""A buffer of batch norms that nobody reads."""
_LONGEST = 120
"""Operators of the longest forward that is lowered."""
_VALUE = re.compile(r"(?<![\w.])h\d+\b")
"""A value of the forward in a text, as no input is called and no attribute."""


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


class _Line(NamedTuple):
    """An operator of the forward."""

    value: str
    operator: str
    arguments: tuple[str, ...]
    made: str
    """The type and shape of what it gives."""

    def reads(self, value: str) -> int:
        """How often it takes `value`."""
        return sum(_VALUE.findall(one).count(value) for one in self.arguments)


class _Traced(NamedTuple):
    """A module's forward."""

    module: Any
    inputs: list[Any]
    lines: list[_Line]
    result: str


def _lower(source: str) -> str:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    reference = Reference(source)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode, torch.no_grad():
        given = reference.init_inputs()
        traced = _trace(reference, given)
        if traced is None:
            return ""
        told = _by_attribute(reference, given, traced.lines)
    model, inputs = traced.module, traced.inputs
    shapes = {f"self.{name}": _value(tensor) for name, tensor in _state(model).items()}
    forward, result = _simplified(told, traced.result, shapes)
    names = _inputs_of(model, inputs)
    text = [_constructors(source, reference.namespace)]
    if given:
        text.append(f"init: {', '.join(_value(one) for one in given)}")
    text += [f"{name}: {_value(one)}" for name, one in zip(names, inputs, strict=False)]
    read = {word for line in forward for one in line.arguments for word in re.findall(r"self\.[\w.]+", one)}
    read |= set(re.findall(r"self\.[\w.]+", result))
    text += [f"{name}: {shape}" for name, shape in shapes.items() if name in read]
    text += [f"{one.value} = {one.operator}({', '.join(one.arguments)}) -> {one.made}" for one in forward]
    return "\n".join(line for line in (*text, f"return {result}") if line)


def _state(model: Any) -> dict[str, Any]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _inputs_of(model: Any, inputs: Sequence[Any]) -> list[str]:
    names = list(inspect.signature(model.forward).parameters)
    return names + [f"arg{n}" for n in range(len(names), len(inputs))]


def _trace(
    reference: Reference, given: Sequence[Any], marks: Mapping[float, str] | None = None
) -> _Traced | None:
    """The forward of a module made of `given`; numbers in `marks` are called by those names. None where it is too long."""
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    model, inputs = reference.module(given), reference.inputs()
    state = _state(model)

    def forward(state: Any, tensors: Any) -> Any:
        values = iter(tensors)
        arguments = [next(values) if isinstance(one, torch.Tensor) else one for one in inputs]
        return torch.func.functional_call(model, state, tuple(arguments))

    tensors = [one for one in inputs if isinstance(one, torch.Tensor)]
    owners = _watched(model)
    graph = make_fx(forward, pre_dispatch=True, tracing_mode="real")(state, tensors).graph
    if len(graph.nodes) > _LONGEST + len(state):
        return None
    names = _inputs_of(model, inputs)
    if any(map(_VALUE.fullmatch, names)):
        raise ValueError("an input is called as a value is")
    of_tensors = [name for name, one in zip(names, inputs, strict=False) if isinstance(one, torch.Tensor)]
    lines, result = _forward(graph, [*(f"self.{name}" for name in state), *of_tensors], marks or {}, owners)
    return _Traced(model, inputs, lines, result)


def _watched(model: Any) -> dict[int, str]:
    """Filled while `model` is traced: by place in the graph, the module without weights that the operator belongs to, with
    its options."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    found: dict[int, str] = {}
    for path, module in model.named_modules():
        if path and not list(module.children()) and not list(module.parameters()):
            began: list[int] = []
            kept = ", ".join(f"{name}={vars(module)[name]}" for name in _OPTIONS if name in vars(module))
            owner = f"self.{path}({kept})" if kept else f"self.{path}"

            def before(*_: Any, began: list[int] = began) -> None:
                began.append(len(get_proxy_mode().tracer.graph.nodes))  # type: ignore[union-attr]

            def after(*_: Any, began: list[int] = began, owner: str = owner) -> None:
                end = len(get_proxy_mode().tracer.graph.nodes)  # type: ignore[union-attr]
                found.update(dict.fromkeys(range(began.pop(), end), owner))

            module.register_forward_pre_hook(before)
            module.register_forward_hook(after)
    return found


def _forward(
    graph: Any, leaves: Sequence[str], marks: Mapping[float, str], owners: Mapping[int, str]
) -> tuple[list[_Line], str]:
    """A line an operator, and what is returned. `leaves` names the placeholders."""
    import torch

    given = (node for node in graph.nodes if node.op == "placeholder")
    said: dict[Any, str] = dict(zip(given, leaves, strict=True))
    numbers: dict[Any, float] = {}
    body: list[_Line] = []

    def text(value: Any) -> str:
        if isinstance(value, torch.fx.Node):
            return said[value]
        if isinstance(value, list | tuple):
            return f"[{', '.join(text(one) for one in value)}]"
        return _named(value, marks)

    for place, node in enumerate(graph.nodes):
        if node.op == "placeholder":
            continue
        if node.op == "output":
            result = node.args[0]
            single = not isinstance(result, list | tuple)
            return body, text(result) if single else ", ".join(text(one) for one in result)
        if node.op == "get_attr":
            number = _constant(getattr(graph.owning_module, str(node.target)))
            if number is None:
                said[node] = str(node.target).lstrip("_")
            else:
                numbers[node], said[node] = number, _named(number, marks)
            continue
        name = _operator(node.target)
        if name == "getitem":
            whole = said[node.args[0]]
            said[node] = whole if _is_value_alone(node.args[0]) else f"{whole}[{node.args[1]}]"
        elif name in _SAME or (node.args and said.get(node.args[0], "").endswith(_COUNTER)):
            said[node] = said[node.args[0]]
            if node.args[0] in numbers:
                numbers[node] = numbers[node.args[0]]
        elif (number := _number(node, numbers)) is not None:
            numbers[node] = number
            said[node] = _named(round(number, 7), marks)
        else:
            name, arguments = _settled(node, name)
            arguments = [text(one) for one in arguments]
            arguments += [f"{key}={text(one)}" for key, one in node.kwargs.items() if key not in _SILENT]
            if place in owners and name.startswith(_WITH_OPTIONS):
                arguments.append(owners[place])
            said[node] = f"h{len(body) + 1}"
            made = node.meta.get("val")
            if isinstance(made, list | tuple):
                made = made[0]
            body.append(_Line(said[node], name, tuple(arguments), _value(made) + _together(name, node, made)))
    raise ValueError("a graph without an output")


def _together(name: str, node: Any, made: Any) -> str:
    """How many elements a norm or a reduction over several dimensions takes together; nothing for other operators."""
    given: Any = node.args[0].meta.get("val") if node.args and hasattr(node.args[0], "meta") else None
    if not (hasattr(given, "numel") and hasattr(made, "numel") and made.numel()):
        return ""
    count = 0
    if name == "instance_norm":
        count = given[0, 0].numel()
    elif name == "group_norm":
        count = given[0].numel() // node.args[1]
    elif name == "layer_norm" and len(node.args[1]) > 1:
        count = math.prod(node.args[1])
    elif name in _REDUCTIONS:
        dims = node.args[1] if len(node.args) > 1 else None
        several = given.ndim > 1 if dims is None else isinstance(dims, list | tuple) and len(dims) > 1
        count = given.numel() // made.numel() if several else 0
    return f" of {count} each" if count > 1 else ""


def _named(value: Any, marks: Mapping[float, str]) -> str:
    """The name of a number in `marks`, up to the rounding of a float32, or the value as it is written."""
    near = (name for number, name in marks.items() if abs(number - value) <= 1e-7 * abs(number))
    return next(near, "") or _value(value) if isinstance(value, float) else _value(value)


def _constant(tensor: Any) -> Any:
    """The one number of a tensor that the forward makes; None where it is another tensor."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    known = getattr(tensor, "constant", tensor)
    if known is None or known.numel() != 1:
        return None
    with unset_fake_temporarily():
        return round(known.item(), 7)


def _number(node: Any, numbers: Mapping[Any, Any]) -> float | None:
    """The number that an operator makes of numbers alone, or that fills a tensor which others broadcast as well; None
    where it makes something else."""
    import torch
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    made, filled = node.meta.get("val"), _FILLED.get(_operator(node.target))
    if filled is not None and node.users and made.is_floating_point():
        wide = all(
            _is_map(user)
            and any(
                one is not node and one.meta["val"].shape == user.meta["val"].shape
                for one in user.all_input_nodes
            )
            for user in node.users
        )
        return filled if wide else None
    given = node.all_input_nodes
    if not given or not all(one in numbers for one in given) or getattr(made, "shape", None) != ():
        return None
    if not _is_map(node) or not made.is_floating_point():
        return None
    with unset_fake_temporarily():
        arguments = [torch.tensor(numbers[one]) if one in numbers else one for one in node.args]
        return float(node.target(*arguments, **node.kwargs))


def _is_map(node: Any) -> bool:
    """Whether it works element by element."""
    import torch

    return torch.Tag.pointwise in getattr(node.target, "tags", ())


def _by_attribute(reference: Reference, given: Sequence[Any], lines: list[_Line]) -> list[_Line]:
    """The lines with the numbers that the constructor was given called by the attributes that keep them. Those are found by
    giving it others: what changes in the forward is the constructor's, and one attribute has the new number."""
    given = [*given, *_defaults(reference, len(given))]
    marked, marks = list(given), dict[float, str]()
    for place, one in enumerate(given):
        if type(one) not in (int, float):
            continue
        other = float(one) + _MARK * (place + 1)
        tried = [*given[:place], other, *given[place + 1 :]]
        try:
            name = _keeper(reference.module(tried), other)
            if name and (type(one) is float or _trace(reference, tried) is not None):
                marked[place], marks[other] = other, name
        except Exception:  # a size, or an index
            continue
    if not marks:
        return lines
    try:
        traced = _trace(reference, marked, marks)
    except Exception:
        return lines
    if traced is None or [(a.value, a.operator) for a in traced.lines] != [
        (b.value, b.operator) for b in lines
    ]:
        return lines
    names = set(marks.values())

    def told(line: _Line, named: _Line) -> _Line:
        old, new = line.arguments, named.arguments
        if len(new) > len(old) and names.issuperset(new[len(old) :]):  # they were its defaults
            old = (*old, *new[len(old) :])
        if len(new) != len(old) or line.operator == "dropout":
            return line
        pairs = zip(old, new, strict=True)
        return line._replace(arguments=tuple(b if b.rpartition("=")[2] in names else a for a, b in pairs))

    return list(map(told, lines, traced.lines))


def _defaults(reference: Reference, count: int) -> list[Any]:
    """What the constructor takes where it is given no more than `count` arguments."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = inspect.signature(reference.namespace["Model"]).parameters.values()
    return [one.default for one in taken if one.kind in positional][count:]


_MARK = 1.0009765625e-4
"""What a number is changed by to be known again."""


def _keeper(model: Any, number: float) -> str:
    """The attribute that holds `number`, the module's own before those of its parts; nothing where there is none."""
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if type(value) is float and value == number and not name.startswith("_"):
                return ".".join(filter(None, ("self", path, name)))
    return ""


def _live(lines: Sequence[_Line], result: str) -> list[_Line]:
    """The lines whose value is read, and those that write to what they are given."""
    read, found = set(_VALUE.findall(result)), []
    for line in reversed(lines):
        if line.value in read or line.operator.endswith("_"):
            read.update(value for one in line.arguments for value in _VALUE.findall(one))
            found.append(line)
    return found[::-1]


def _once(lines: list[_Line], result: str) -> tuple[list[_Line], str]:
    """The lines without those that say what an earlier one says: an expression that stands twice is one value."""
    same: dict[str, str] = {}
    first: dict[tuple[str, tuple[str, ...]], str] = {}

    def called(text: str) -> str:
        return _VALUE.sub(lambda at: same[at[0]], text)

    found = []
    for line in lines:
        arguments = tuple(map(called, line.arguments))
        same[line.value] = line.value
        if not re.search(r"_$|rand|drop|bernoulli|normal|multinomial|empty", line.operator):
            same[line.value] = first.setdefault((line.operator, arguments), line.value)
        if same[line.value] == line.value:
            found.append(line._replace(arguments=arguments))
    return found, called(result)


class _Uses:
    """Who reads what: the idioms are chains of values that nothing else reads."""

    def __init__(self, lines: list[_Line], result: str, shapes: Mapping[str, str]) -> None:
        self.made = {line.value: line for line in lines}
        """By value, the line as it is now."""
        self._lines, self._result, self._shapes = lines, result, shapes

    def given(self, value: str, operator: str) -> tuple[str, ...]:
        """The operator's arguments, where `value` is its and one line alone reads it."""
        line = self.made.get(value)
        return line.arguments if line and line.operator == operator and self._alone(value) else ()

    def of(self, value: str, operator: str) -> str:
        """The same, where that is one argument; nothing otherwise."""
        arguments = self.given(value, operator)
        return arguments[0] if len(arguments) == 1 else ""

    def root_mean_square(self, operator: str, whole: str, factor: str) -> tuple[str, list[str]]:
        """The number under the root, and the values in between, where the operator makes an RMS norm of `whole`."""
        raised = self.of(factor, "rsqrt" if operator == "mul" else "sqrt")
        mean, number, *_ = *self.given(raised, "add"), "", ""
        squares, *over = self.given(mean, "mean") or ("",)
        squaring = {"pow": (whole, "2"), "square": (whole,), "mul": (whole, whole)}
        squared = self.made.get(squares)
        if (
            squared is None
            or squared.arguments != squaring.get(squared.operator)
            or not self._alone(squares)
            or over != ["[-1]", "True"]
            or not squared.made.startswith("[")
            or not self._fixed(number)
        ):
            return "", []
        return number, [factor, raised, mean, squares]

    def scale(self, whole: str, factor: str) -> tuple[str, ...]:
        """The arguments of the RMS norm that `factor` is, where it has no scale and `whole` is a parameter that may be one."""
        norm = self.given(factor, "rms_norm")
        return norm if norm[2:3] == ("None",) and self._shapes.get(whole) == norm[1] else ()

    def _alone(self, value: str) -> bool:
        read = sum(line.reads(value) for line in self._lines)
        return read == 1 and value not in _VALUE.findall(self._result)

    def _fixed(self, text: str) -> bool:
        """Whether it is a number, by itself or in an attribute."""
        return re.match(r"[\d.]", text) is not None or (text.startswith("self.") and text not in self._shapes)


def _simplified(lines: list[_Line], result: str, shapes: Mapping[str, str]) -> tuple[list[_Line], str]:
    """The lines with idioms by their names, bounds as `clamp`, and without dropouts that drop nothing and values that are
    there already; numbered anew. `shapes` are those of the module's parameters and buffers."""
    lines, result = _once(_live(lines, result), result)
    uses = _Uses(lines, result, shapes)
    kept: dict[str, _Line | str] = {}
    """By value: the line as it is now, or the value that it is the same as."""

    for line in lines:
        name, arguments = line.operator, line.arguments
        if name == "dropout" and ("False" in arguments[2:] or float(arguments[1]) == 0.0):
            kept[line.value] = arguments[0]
            continue
        if name in _BOUNDS:
            name, arguments = "clamp", (arguments[0], *(arguments[1:] or _BOUNDS[name]))
        elif name in ("maximum", "minimum") and re.fullmatch(r"-?[\d.]+", arguments[1]):
            name, arguments = "clamp", (arguments[0], *["None"] * (name == "minimum"), arguments[1])
        orders = {"mul": (arguments, arguments[::-1]), "div": (arguments,)}.get(name, ())
        for whole, factor in orders if len(arguments) == 2 else ():
            if name == "mul" and uses.of(factor, "sigmoid") == whole:
                kept.pop(factor)
                name, arguments = "silu", (whole,)
            elif name == "mul" and uses.of(inner := uses.of(factor, "tanh"), "softplus") == whole:
                kept.pop(factor), kept.pop(inner)
                name, arguments = "mish", (whole,)
            elif name == "mul" and (norm := uses.scale(whole, factor)):
                kept.pop(factor)
                name, arguments = "rms_norm", (*norm[:2], whole, norm[3])
            elif (found := uses.root_mean_square(name, whole, factor))[0]:
                for value in found[1]:
                    kept.pop(value)
                length = line.made.rpartition(" ")[2].strip("[]")
                name, arguments = "rms_norm", (whole, f"[{length}]", "None", found[0])
            if name != line.operator:
                break
        if name == "reshape" and (source := uses.of(arguments[0], "reshape")):
            kept.pop(arguments[0])
            arguments = (source,)
        kept[line.value] = uses.made[line.value] = line._replace(operator=name, arguments=arguments)
    new: dict[str, str] = {}

    def renumbered(text: str) -> str:
        return _VALUE.sub(lambda at: new[at[0]], text)

    simple: list[_Line] = []
    for value, entry in kept.items():
        if isinstance(entry, str):
            new[value] = renumbered(entry)
            continue
        new[value] = f"h{len(simple) + 1}"
        simple.append(entry._replace(value=new[value], arguments=tuple(map(renumbered, entry.arguments))))
    return simple, renumbered(result)


def _settled(node: Any, name: str) -> tuple[str, list[Any]]:
    """One name and one list of positional arguments for what has several."""
    import torch

    arguments = list(node.args)
    name = _SHORT.get(name, name)
    if name.startswith("special_"):
        rest = name.removeprefix("special_")
        name = _SPECIAL.get(rest, rest if hasattr(torch.ops.aten, rest) else name)
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
    if name in ("min", "max") and len(made) == 2:
        return f"{name}imum", arguments
    if name in ("clamp_min", "clamp_max"):
        return "clamp", [arguments[0], *[None] * (name == "clamp_max"), arguments[1]]
    if name.startswith("adaptive_avg_pool") and set(arguments[1]) == {1}:
        return "mean", [arguments[0], [*range(ranks[0] - len(arguments[1]), ranks[0] - 1), -1], True]
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
    if name in _OTHER_DIMENSIONS:
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
