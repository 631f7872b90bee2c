"""From torch.fx graphs of ATen operators, including exported programs, to `Graph`.

    from_exported(program)      decomposes to the documented set, then translates; weights become arguments
    from_fx(module)             translates graphs of Dynamo or AOTAutograd without decomposing

Values are renamed: x1, x2 for inputs, w1 for weights, b1 for biases, buf1, const1, h1 for computed values, s0 for
sizes, so that equal computations have equal graphs whatever names their modules use.

Does not check values: `agree.py` does. Rejects graphs with operators that write in place: functionalise first.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal
from unittest import mock

import torch
from torch import fx

from kernelwright.errors import UserError
from kernelwright.graph import operators, sizes
from kernelwright.graph.execute import DTYPE_NAMES
from kernelwright.graph.pairs import unfold
from kernelwright.graph.simplify import simplify
from kernelwright.graph.types import (
    Argument,
    DtypeArg,
    Graph,
    Node,
    NumberType,
    Operand,
    Other,
    Ref,
    Size,
    Symbol,
    TensorType,
    Value,
)  # fmt: skip

Role = Literal["input", "weight", "buffer", "constant"]
Constant = bool | int | float | str | None

NAMESPACES = ("aten", "prims")
CAST, VIEW = "aten._to_copy.default", "aten.reshape.default"
_CONSTRUCTORS = ("dtype", "layout", "device", "pin_memory", "memory_format")


class NotStatic(UserError):
    """Sizes that are no expression over symbols; capture with fixed sizes may succeed."""


@dataclasses.dataclass(frozen=True)
class Origin:
    """What a placeholder stands for."""

    role: Role = "input"
    name: str = ""
    kept: bool = True


@dataclasses.dataclass(frozen=True)
class Converted:
    """A graph and its relation to the fx graph that it came from."""

    graph: Graph
    placeholders: dict[str, str]
    """Placeholder or attribute of the fx graph -> argument of the graph; unread ones are left out, except inputs."""
    outputs: tuple[str | tuple[Constant], ...]
    """What the fx graph returns, flat: a name in `graph.results`, or a constant as a one-element tuple."""


def from_fx(
    module: fx.GraphModule,
    origins: Mapping[str, Origin] | None = None,
    name: str = "graph",
    written: Sequence[str | None] = (),
) -> Converted:
    """Translate a functional fx graph of ATen calls whose nodes carry `meta["val"]`, and simplify it.

    `origins` says what placeholders are; others are inputs, and attributes are constants. `written`: for each output, the
    placeholder whose new value it is, or None. Raises UserError for what a graph cannot express.
    """
    converted = _Translation(module, origins or {}, name).run(written)
    outputs = iter(
        (simple := simplify(converted.graph)).results[sum(one.mutated for one in simple.arguments) :]
    )
    kept = [next(outputs) if isinstance(one, str) else one for one in converted.outputs]
    return dataclasses.replace(converted, graph=simple, outputs=tuple(kept))


def decompose(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program in the documented set, functional. Raises torch's errors. Does not call user code again."""
    from torch.export import exported_program as torchs

    composites, others = operators.decompositions()
    split = "_split_decomp_table_to_cia_and_python_decomp"
    with (
        warnings.catch_warnings(),
        torch.no_grad(),
        mock.patch.object(torchs, split, return_value=(dict(composites), dict(others))),
    ):
        warnings.simplefilter("ignore")
        made = program.run_decompositions({})
        unfold(made)
    return made


def from_exported(
    program: torch.export.ExportedProgram, name: str = "graph", known: Mapping[str, Origin] | None = None
) -> Converted:
    """Translate an exported program that went through `decompose`.

    `known`: placeholder -> what it is, where the program does not say. `Converted.outputs` are the user's own; new values of
    buffers and inputs come before them in `graph.results`. Raises UserError for what a graph cannot express.
    """
    from torch.export.graph_signature import InputKind, OutputKind

    roles: dict[InputKind, Role] = {
        InputKind.USER_INPUT: "input", InputKind.PARAMETER: "weight", InputKind.BUFFER: "buffer",
        InputKind.CONSTANT_TENSOR: "constant",
    }  # fmt: skip
    origins, placeholders = {}, {}
    for one in program.graph_signature.input_specs:
        if one.kind == InputKind.TOKEN:
            made = (str(node.args[1]) for node in program.graph.nodes if "with_effects" in str(node.target))
            raise UserError(
                f"{next(made, 'an operator')} stops the program for some values (torch.linalg.ldl_factor does if a matrix is singular); "
                "use a form without that check, such as torch.linalg.ldl_factor_ex"
            )
        if one.kind not in roles:
            raise UserError(
                f"{one.arg.name} is a {one.kind.name.lower()}, which no graph can hold; pass tensors and numbers"
            )
        role = roles[one.kind]
        kept = one.persistent is not False
        origins[one.arg.name] = Origin(role, one.arg.name if role == "input" else one.target or "", kept)
        placeholders[one.target] = one.arg.name
    written: list[str | None] = []
    for result in program.graph_signature.output_specs:
        if result.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
            written.append(placeholders[result.target])
        elif result.kind == OutputKind.USER_INPUT_MUTATION:
            written.append(result.target)
        elif result.kind == OutputKind.USER_OUTPUT:
            written.append(None)
        else:
            raise UserError(f"the program has a {result.kind.name.lower()}; return tensors and numbers")
    return from_fx(program.graph_module, origins | dict(known or {}), name, written)


class _Translation:
    def __init__(self, module: fx.GraphModule, origins: Mapping[str, Origin], name: str) -> None:
        self.module, self.origins, self.name = module, origins, name
        self.names: dict[fx.Node, str | tuple[str | None, ...]] = {}
        self.symbols = _Symbols(module.graph)
        self.counts: dict[str, int] = {}
        self.placeholders: dict[str, str] = {}
        self.arguments: list[Argument] = []
        self.nodes: list[Node] = []
        self.devices: set[str] = set()

    def run(self, written: Sequence[str | None]) -> Converted:
        nodes = list(self.module.graph.nodes)
        output = next(node for node in nodes if node.op == "output")
        live = _live(nodes)
        by_name = {node.name: node for node in nodes if node.op == "placeholder"}
        for node in by_name.values():
            if self._origin(node).role == "input":
                self._placeholder(node)
        for node in nodes:
            if node in live and node.op in ("call_function", "call_method", "call_module"):
                self._uses_arguments(node.all_input_nodes)
                self._call(node)
        self._uses_arguments([*output.all_input_nodes, *(by_name[one] for one in written if one is not None)])
        returned = [self._returned(one) for one in _flat(output.args[0])]
        new = {
            self.placeholders[to]: one for one, to in zip(returned, written, strict=False) if to is not None
        }
        outputs = tuple(one for at, one in enumerate(returned) if at >= len(written) or written[at] is None)
        arguments = [one.model_copy(update={"mutated": one.name in new}) for one in self.arguments]
        results = [new[one.name] for one in arguments if one.mutated]
        results += [one for one in outputs if isinstance(one, str)]
        assert all(isinstance(one, str) for one in results), "what is written back is a tensor"
        graph = Graph(
            name=self.name,
            arguments=tuple(arguments),
            nodes=tuple(self.nodes),
            results=tuple(str(one) for one in results),
            symbols=self.symbols.all(),
        )
        return Converted(graph, self.placeholders, outputs)

    def _origin(self, node: fx.Node) -> Origin:
        return self.origins.get(node.name, Origin())

    def _name(self, stem: str) -> str:
        self.counts[stem] = self.counts.get(stem, 0) + 1
        return f"{stem}{self.counts[stem]}"

    def _uses_arguments(self, nodes: Sequence[fx.Node]) -> None:
        """Make weights, buffers and constants arguments in the order in which they are read."""
        for one in nodes:
            if one not in self.names and one.op in ("placeholder", "get_attr"):
                self._placeholder(one)

    def _placeholder(self, node: fx.Node) -> None:
        origin = self._origin(node) if node.op == "placeholder" else Origin("constant", str(node.target))
        value = node.meta.get("val")
        if node.op == "get_attr":
            value = _attribute(self.module, str(node.target))
        if isinstance(value, torch.SymInt):
            text = self.symbols.text(value)
            name = text if isinstance(text, str) and text.isidentifier() else self._name("n")
            if any(one.name == name for one in self.arguments):  # a size that is passed twice
                self.names[node] = self.placeholders[node.name] = name
                return
            self._argument(node, Argument(name=name, type=NumberType(of="int")))
            return
        if not isinstance(value, torch.Tensor):
            if type(value) in (int, float, bool) and node.users and node.op == "placeholder":
                kind: Any = type(value).__name__
                self._argument(node, Argument(name=self._name("n"), type=NumberType(of=kind)))
            return
        stem = {"input": "x", "weight": "w", "buffer": "buf", "constant": "const"}[origin.role]
        if origin.role == "weight" and "bias" in origin.name.rpartition(".")[2]:
            stem = "b"
        argument = Argument(
            name=self._name(stem), type=self._type(value, True), role=origin.role, origin=origin.name,
            complex=bool(node.meta.get("complex")), kept=origin.kept,
        )  # fmt: skip
        self._argument(node, argument)

    def _argument(self, node: fx.Node, argument: Argument) -> None:
        self.names[node] = argument.name
        self.placeholders[str(node.target) if node.op == "get_attr" else node.name] = argument.name
        self.arguments.append(argument)

    def _call(self, node: fx.Node) -> None:
        target = node.target
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool):
            return  # a number computed from sizes: written out where it is used
        if target is operator.getitem:
            source, index = node.args
            assert isinstance(source, fx.Node)
            assert isinstance(index, int)
            names = self.names[source]
            assert isinstance(names, tuple)
            found = names[index]
            assert found is not None
            self.names[node] = found
            return
        if not isinstance(target, torch._ops.OpOverload):
            raise UserError(
                f"{_called(node)} is not an ATen operator; capture the part of the module without it"
            )
        _check(target)
        plain = self._plainly(node, target)
        if plain is not None:
            self.nodes.append(plain)
            return
        args, kwargs = self._arguments_of(node, target)
        outputs = self._outputs(node, value)
        self.nodes.append(Node(op=_full_name(target), args=args, kwargs=kwargs, outputs=outputs))

    def _plainly(self, node: fx.Node, target: torch._ops.OpOverload) -> Node | None:
        """Leftovers of Inductor's decompositions in the documented operators; None for anything else."""
        if target is torch.ops.prims.convert_element_type.default:
            cast = (("dtype", self._operand(node.args[1])),)
            made = self._outputs(node, node.meta["val"])
            return Node(op=CAST, args=(self._operand(node.args[0]),), kwargs=cast, outputs=made)
        if target is torch.ops.aten.as_strided.default and isinstance(node.args[0], fx.Node):
            before, after = node.args[0].meta.get("val"), node.meta["val"]
            if not isinstance(before, torch.Tensor) or _text(before.numel()) != _text(after.numel()):
                return None
            if _is_contiguous(before) and _is_contiguous(after) and not node.args[3:]:
                shape = self._operand(node.args[1])
                made = self._outputs(node, after)
                return Node(op=VIEW, args=(self._operand(node.args[0]), shape), outputs=made)
        return None

    def _outputs(self, node: fx.Node, value: Any) -> tuple[Value | None, ...]:
        if isinstance(value, torch.Tensor):
            made = Value(name=self._name("h"), type=self._type(value))
            self.names[node] = made.name
            return (made,)
        if not isinstance(value, tuple | list):
            raise UserError(
                f"{_called(node)} gives {type(value).__name__}, which no graph can hold; leave it out"
            )
        read = {user.args[1] for user in node.users if user.target is operator.getitem and user.users}
        outputs: list[Value | None] = []
        for index, one in enumerate(value):
            wanted = index in read and isinstance(one, torch.Tensor)
            outputs.append(Value(name=self._name("h"), type=self._type(one)) if wanted else None)
        self.names[node] = tuple(None if one is None else one.name for one in outputs)
        return tuple(outputs)

    def _type(self, value: torch.Tensor, placed: bool = False) -> TensorType:
        if value.layout is not torch.strided:
            raise UserError(
                f"a tensor is {value.layout}; only dense tensors can be captured: call to_dense() before"
            )
        if value.dtype not in DTYPE_NAMES:
            name = str(value.dtype).removeprefix("torch.")
            raise UserError(
                f"a tensor is {name}; graphs hold {', '.join(DTYPE_NAMES.values())}: cast it before"
            )
        if value.device.type == "meta":
            raise UserError(
                "a tensor is on the meta device and has no values; put the module on a CPU or GPU"
            )
        shape = tuple(self.symbols.text(size) for size in value.shape)
        strides = None
        if placed and not _is_contiguous(value):
            strides = tuple(self.symbols.text(size) for size in value.stride())
        return TensorType(dtype=DTYPE_NAMES[value.dtype], shape=shape, strides=strides)

    def _arguments_of(
        self, node: fx.Node, target: torch._ops.OpOverload
    ) -> tuple[tuple[Operand, ...], tuple[tuple[str, Operand], ...]]:
        """Arguments as in the schema: positional ones by position, defaults omitted."""
        schema = target._schema.arguments
        positional = [one for one in schema if not one.kwarg_only]
        given = dict(zip((one.name for one in positional), node.args, strict=False)) | dict(node.kwargs)
        creates = operators.kind(_full_name(target)) == "create"
        args: list[Operand] = []
        length = 0
        for place, one in enumerate(positional):
            args.append(
                self._operand(given.get(one.name, one.default_value if one.has_default_value() else None))
            )
            is_default = (
                one.has_default_value() and given.get(one.name, one.default_value) == one.default_value
            )
            if not is_default:
                length = place + 1
        kwargs: list[tuple[str, Operand]] = []
        for one in schema:
            if not one.kwarg_only:
                continue
            value = given.get(one.name)
            if one.name == "device":
                if creates and "like" not in target._schema.name and "new_" not in target._schema.name:
                    kwargs.append((one.name, Other(other="device")))
                continue
            if one.name == "dtype" and value is None and creates:
                value = node.meta["val"].dtype
            ignored = one.name in _CONSTRUCTORS and value in (None, False, torch.strided)
            default = one.default_value if one.has_default_value() else None
            if one.name not in given and one.name != "dtype":
                continue
            if ignored or value is None or (type(value) is type(default) and value == default):
                continue
            kwargs.append((one.name, self._operand(value)))
        return tuple(args[:length]), tuple(kwargs)

    def _operand(self, value: Any) -> Operand:
        if isinstance(value, fx.Node):
            if value in self.names:
                name = self.names[value]
                assert isinstance(name, str), "a list of results is read by getitem alone"
                return Ref(ref=name)
            value = value.meta.get("val")
        if isinstance(value, torch.SymInt):
            text = self.symbols.text(value)
            return Size(size=text) if isinstance(text, str) else text
        if isinstance(value, torch.SymFloat | torch.SymBool):
            expression = value.node.expr
            if any(str(one).startswith(("u", "zuf")) for one in expression.free_symbols):
                raise UserError(
                    "a number depends on the data (item, tolist, float of a tensor); keep it a tensor, or leave that part outside"
                )
            if not expression.is_number:
                raise NotStatic(
                    f"a number is {expression}, which no size expression can say; capture with fixed sizes"
                )
            return float(expression) if isinstance(value, torch.SymFloat) else bool(expression)
        if isinstance(value, torch.dtype):
            if value not in DTYPE_NAMES:
                raise UserError(
                    f"{value} is asked for; graphs hold {', '.join(DTYPE_NAMES.values())}: cast to one of them, or leave that part "
                    "outside of what you pass"
                )
            return DtypeArg(dtype=DTYPE_NAMES[value])
        if isinstance(value, torch.layout | torch.memory_format):
            return Other(other=str(value))
        if isinstance(value, torch.device):
            return Other(other="device")
        if isinstance(value, float) and not math.isfinite(value):
            return Other(other="nan" if math.isnan(value) else "inf" if value > 0 else "-inf")
        if isinstance(value, tuple | list):
            return tuple(self._operand(one) for one in value)
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise UserError(
            f"an operator is given a {type(value).__name__}, which no graph can hold; leave it out"
        )

    def _returned(self, value: Any) -> str | tuple[Constant]:
        if not isinstance(value, fx.Node):
            return (value,)
        if value in self.names:
            name = self.names[value]
            assert isinstance(name, str)
            return name
        made = value.meta.get("val")
        if isinstance(made, torch.SymInt):
            return self._returned_size(made)
        if made is None or isinstance(made, bool | int | float | str):
            return (made,)
        raise UserError(f"the module returns a {type(made).__name__}; return tensors and numbers")

    def _returned_size(self, value: torch.SymInt) -> str | tuple[Constant]:
        """A size that is returned: the number argument of that name, else read from a tensor that has it."""
        text = self.symbols.text(value)
        if isinstance(text, int):
            return (text,)
        types = {one.name: one.type for one in self.arguments}
        if text in types:
            return text
        for name, kind in types.items():
            if isinstance(kind, TensorType) and text in kind.shape:
                made = Value(name=self._name("n"), type=NumberType(of="int"))
                args: tuple[Operand, ...] = (Ref(ref=name), kind.shape.index(text))
                self.nodes.append(Node(op="aten.sym_size.int", args=args, outputs=(made,)))
                return made.name
        raise NotStatic(f"the module returns the size {text}; return tensors, or capture with fixed sizes")


class _Symbols:
    """Renames torch's symbols to s0, s1 ... in order of appearance."""

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._names: dict[Any, str] = {}
        self._env: Any = None

    def text(self, size: int | torch.SymInt) -> int | str:
        if isinstance(size, int):
            return size
        from torch.utils._sympy.printers import PythonPrinter

        expression = size.node.expr
        if expression.is_number:
            return int(expression)
        self._env = size.node.shape_env
        for symbol in sorted(expression.free_symbols, key=str):
            if str(symbol).startswith(("u", "zuf")):
                raise UserError(
                    f"a size depends on the data ({self._maker(symbol)}); leave that part outside"
                )
            self._names.setdefault(symbol, f"s{len(self._names)}")
        named = expression.xreplace({old: _integer_symbol(new) for old, new in self._names.items()})
        text = PythonPrinter().doprint(_divided(named))
        try:
            sizes.parse(text)
        except ValueError as error:
            raise NotStatic(f"{error}; capture with fixed sizes") from None
        return str(text)

    def _maker(self, symbol: Any) -> str:
        """The operator that made a size of data."""
        from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

        made = (node for node in self._graph.nodes if symbol in free_unbacked_symbols(node.meta.get("val")))
        name = next((_called(node).partition(".")[0] for node in made), "item")
        return {"index": "an index of booleans", "_local_scalar_dense": "item"}.get(name, name)

    def all(self) -> tuple[Symbol, ...]:
        return tuple(self._symbol(old, new) for old, new in self._names.items())

    def _symbol(self, symbol: Any, name: str) -> Symbol:
        hints = getattr(self._env, "backed_var_to_val", None) or self._env.var_to_val
        bounds = self._env.var_to_range.get(symbol)
        least = int(bounds.lower) if bounds is not None and bounds.lower.is_Integer else 1
        most = int(bounds.upper) if bounds is not None and bounds.upper.is_Integer else None
        unbounded = most is None or most >= 2**62
        return Symbol(
            name=name, hint=int(hints[symbol]), least=max(least, 1), most=None if unbounded else most
        )


def _integer_symbol(name: str) -> Any:
    import sympy

    return sympy.Symbol(name, integer=True, positive=True)


def _divided(expression: Any) -> Any:
    """The expression with every quotient divided out that leaves no remainder: `s1` for `s1*s1 // s1`."""
    import sympy
    from torch.utils._sympy.functions import FloorDiv

    def quotient(top: Any, bottom: Any) -> Any:
        found = sympy.cancel(top / bottom)
        left = found.as_coefficients_dict().values() if found.is_polynomial() else [found]
        return found if all(one.is_Integer for one in left) else FloorDiv(top, bottom)

    return expression.replace(FloorDiv, quotient) if expression.has(FloorDiv) else expression


def _live(nodes: Sequence[fx.Node]) -> set[fx.Node]:
    """Nodes that the output depends on. This drops checks without results, which torch.export leaves behind."""
    found: set[fx.Node] = set()
    stack = [node for node in nodes if node.op == "output"]
    while stack:
        for one in stack.pop().all_input_nodes:
            if one not in found:
                found.add(one)
                stack.append(one)
    return found


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for one in value:
            yield from _flat(one)
    elif isinstance(value, dict):
        yield from _flat(list(value.values()))
    else:
        yield value


def _check(target: torch._ops.OpOverload) -> None:
    name = _full_name(target)
    if target.namespace not in NAMESPACES:
        raise UserError(f"the operator {name} is not torch's own; capture the parts before and after it")
    counts = ("_local_scalar_dense", "nonzero", "masked_select", "_unique2")
    if "item" in name or operators.packet(name) in counts:
        raise UserError(f"{name} makes sizes or numbers of the data; leave that part outside")
    if target._schema.is_mutable:
        raise UserError(
            f"{name} writes in place; functionalise the fx graph before (torch.func.functionalize)"
        )


def _full_name(target: torch._ops.OpOverload) -> str:
    return f"{target.namespace}.{target._schema.name.partition('::')[2]}.{target._overloadname}"


def _called(node: fx.Node) -> str:
    return str(getattr(node.target, "__name__", node.target))


def _attribute(module: torch.nn.Module, path: str) -> Any:
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _is_contiguous(value: torch.Tensor) -> bool:
    """torch's definition, without guards on symbolic sizes."""
    expected: Any = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if isinstance(size, int) and size == 1:
            continue
        if stride is not expected and _text(stride) != _text(expected):
            return False
        expected = expected * size
    return True


def _text(size: Any) -> str:
    return str(size.node.expr) if isinstance(size, torch.SymInt) else str(size)
