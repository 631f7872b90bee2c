"""Gets Inductor's code for a graph: one symbolic trace on fake CUDA tensors, compiled to source text.

    Graph -> its operators, decomposed -> aten graph -> Inductor's wrapper and kernels

Runs in a process prepared by `offline.install`. Nothing is executed on data, and no GPU is needed. Raises `CannotCompile` for
what Inductor or this package cannot write; the code is not guaranteed to be correct.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from kernelwright.graph.operators import RECURRENT, packet
from kernelwright.graph.types import Dim, DtypeArg, Graph, Operand, Other, Ref, Scale, Size, TensorType
from kernelwright.policy.compiler import decompositions, offline
from kernelwright.policy.compiler.reasons import CannotCompile

_FLOATS = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}
_DEPENDENT = ("DataDependent", "GuardOnDataDependent", "DynamicOutputShape", "UnbackedSymInt")


@dataclass(frozen=True)
class Lowered:
    """Inductor's code for a graph, and the arguments of its `call`."""

    code: str
    """Inductor's module: kernels as strings, and `call`."""
    symbols: tuple[str, ...]
    """Names of the first arguments of `call`: the graph's symbols."""
    parameters: tuple[str, ...]
    """Names of the graph's arguments, including numbers."""
    arguments: tuple[str, ...]
    """Names of the tensors among them: the remaining arguments of `call`."""
    inputs: tuple[str, ...]
    """Names of those that are given at each call, not weights."""
    types: Mapping[str, TensorType]
    """Types of the arguments."""
    contractions: str = "own"


def lower(graph: Graph, contractions: str = "own", sizes: Sequence[Mapping[str, int]] = ()) -> Lowered:
    """Inductor's code for `graph`, valid at its symbols' hints and at each of `sizes`. Raises CannotCompile."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    whole = [name for node in graph.nodes if (name := packet(node.op)) in RECURRENT]
    if whole and contractions == "auto":  # Inductor would write out every cell
        raise CannotCompile("extern", f"aten.{whole[0]}")
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    symbols = _symbols(graph, env, sizes)
    types: dict[str, TensorType] = {}
    for argument in graph.arguments:
        if isinstance(argument.type, TensorType):
            types[argument.name] = argument.type
        elif argument.name not in symbols:
            raise CannotCompile("number argument", f"{argument.name}, which is no size: {argument.type.of}")
    with mode:
        host, device = ([_tensor(one, symbols, where) for one in types.values()] for where in ("cpu", "cuda"))
    given = list(symbols.values())
    run = _Run(graph, list(symbols), contractions)
    traced = _trace(run, decompositions.table(contractions), [*given, *host], mode)
    guards = len(env.guards)
    _check(env, guards, symbols, graph, sizes)  # before the minutes that Inductor may take
    _to_device(traced, [*given, *device], mode)
    _keep_strides(traced)
    if _decides(graph):
        for node in traced.graph.nodes:  # round each half-precision value where eager does
            node.meta["low_precision_pointwise_barrier"] = True
    code = _compile(traced, [*given, *device], mode, offline.settings(contractions))
    _check(env, guards, symbols, graph, sizes)
    return Lowered(
        code=code,
        symbols=tuple(symbols),
        parameters=tuple(one.name for one in graph.arguments),
        arguments=tuple(types),
        inputs=tuple(one.name for one in graph.arguments if one.role == "input" and one.name in types),
        types=types,
        contractions=contractions,
    )


def _symbols(graph: Graph, env: Any, sizes: Sequence[Mapping[str, int]]) -> dict[str, Any]:
    """A symbolic integer for each of the graph's symbols."""
    from torch._dynamo.source import ConstantSource
    from torch.fx.experimental.symbolic_shapes import DimDynamic

    made: dict[str, Any] = {}
    for symbol in graph.symbols:
        hint = max(2, symbol.hint)
        source = ConstantSource(f"kw_{symbol.name}")
        expression = env.create_symbol(hint, source, dynamic_dim=DimDynamic.DYNAMIC)
        made[symbol.name] = env.create_symintnode(expression, hint=hint, source=source)
        least = min([symbol.least, symbol.hint, *(one.get(symbol.name, symbol.hint) for one in sizes)])
        torch._check(made[symbol.name] >= max(2, least))
    return made


def size_of(dim: Dim, symbols: Mapping[str, Any]) -> Any:
    """The value of a graph's size, given values of its symbols."""
    space = {"__builtins__": {}, "min": torch.sym_min, "max": torch.sym_max}
    return dim if isinstance(dim, int) else eval(dim, space, dict(symbols))


def _tensor(kind: TensorType, symbols: Mapping[str, Any], device: str) -> Any:
    shape = [size_of(dim, symbols) for dim in kind.shape]
    dtype = getattr(torch, kind.dtype)
    if kind.strides is None:
        return torch.empty(shape, dtype=dtype, device=device)
    strides = [size_of(dim, symbols) for dim in kind.strides]
    return torch.empty_strided(shape, strides, dtype=dtype, device=device)


class _Run:
    """A graph as a function of (symbols, arguments)."""

    def __init__(self, graph: Graph, symbols: Sequence[str], contractions: str) -> None:
        self.graph, self.symbols = graph, symbols
        self.table = decompositions.semantic(contractions)
        self.types = graph.types()

    def __call__(self, *flat: Any) -> list[Any]:

        skip = len(self.symbols)
        symbols = dict(zip(self.symbols, flat, strict=False))
        tensors = [one.name for one in self.graph.arguments if isinstance(one.type, TensorType)]
        values: dict[str, Any] = {**symbols, **dict(zip(tensors, flat[skip:], strict=True))}
        for node in self.graph.nodes:
            operator = resolve(node.op)
            args = [_operand(one, values, symbols) for one in node.args]
            kwargs = {name: _operand(one, values, symbols) for name, one in node.kwargs}
            found = NotImplemented
            if node.op in self.table:
                found = self.table[node.op](*args, **kwargs)
            if found is NotImplemented:
                found = operator(*args, **kwargs)
            results = found if isinstance(found, (list, tuple)) else (found,)
            for value, result in zip(node.outputs, results, strict=True):
                if value is not None:
                    values[value.name] = result
        moves_nothing = all(resolve(node.op).is_view for node in self.graph.nodes)
        return [self._result(name, values[name], moves_nothing) for name in self.graph.results]

    def _result(self, name: str, value: Any, copy: bool) -> Any:
        """Make results contiguous whose strides the graph leaves open, since the next graph expects contiguous arguments."""
        kind = self.types[name]
        assert isinstance(kind, TensorType)
        if copy or (kind.strides is None and not _is_contiguous(value)):
            return value.clone(memory_format=torch.contiguous_format)
        return value


def resolve(name: str) -> Any:
    """The torch operator with that name. Raises CannotCompile if there is none."""
    space, packet, overload = name.split(".")
    try:
        return getattr(getattr(getattr(torch.ops, space), packet), overload)
    except AttributeError:
        raise CannotCompile("unsupported", f"no operator {name} in this torch") from None


def _operand(operand: Operand, values: Mapping[str, Any], symbols: Mapping[str, Any]) -> Any:
    if isinstance(operand, Ref):
        return values[operand.ref]
    if isinstance(operand, Size):
        return size_of(operand.size, symbols)
    if isinstance(operand, Scale):
        return size_of(operand.scale, symbols)
    if isinstance(operand, DtypeArg):
        return getattr(torch, operand.dtype)
    if isinstance(operand, Other):
        if operand.other in _FLOATS:
            return _FLOATS[operand.other]
        if operand.other == "device":
            return torch.device("cpu")
        return getattr(torch, operand.other.removeprefix("torch."))
    if isinstance(operand, tuple):
        return [_operand(one, values, symbols) for one in operand]
    return operand


def _trace(run: _Run, table: dict[Any, Any], flat: list[Any], mode: Any) -> Any:
    """The functionalised aten graph, traced on the CPU: a torch without CUDA cannot functionalise CUDA tensors."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.traceback import preserve_node_meta
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with (
        mode,
        enable_python_dispatcher(),
        preserve_node_meta(),
        torch.no_grad(),
        sdpa_kernel(SDPBackend.MATH),
    ):
        try:
            made = make_fx(torch.func.functionalize(run), decomposition_table=table, tracing_mode="real")(
                *flat
            )
        except CannotCompile:
            raise
        except Exception as error:
            raise _reason_for(error) from None
    made.graph.set_codegen(torch.fx.graph.CodeGen())
    made.graph.eliminate_dead_code()
    made.recompile()
    for node in made.graph.nodes:
        if node.op == "get_attr":
            raise CannotCompile("constant tensor", "made while the graph was decomposed")
        if isinstance(node.target, torch._ops.OpOverload):
            name = node.target.overloadpacket.__name__
            if torch.Tag.nondeterministic_seeded in node.target.tags:
                raise CannotCompile("random", f"aten.{name}")
            if torch.Tag.dynamic_output_shape in node.target.tags and _counts_values(node):
                raise CannotCompile("data-dependent", f"aten.{name}")
    return made


def _counts_values(node: Any) -> bool:
    """Whether the shape of a node's result depends on values, as when indexing by booleans."""
    if node.target.overloadpacket.__name__.removeprefix("_unsafe_") not in ("index", "index_put"):
        return True
    return any(one is not None and one.meta["val"].dtype in (torch.bool, torch.uint8) for one in node.args[1])


def _to_device(traced: Any, flat: list[Any], mode: Any) -> None:
    """Move the graph to the GPU: the devices that it names, and the fake values of its nodes."""
    gpu = torch.device("cuda", 0)

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=gpu)

    given = iter(flat)
    for node in traced.graph.nodes:
        for part in ("args", "kwargs"):
            named = torch.fx.node.map_aggregate(
                getattr(node, part), lambda value: gpu if isinstance(value, torch.device) else value
            )
            setattr(node, part, named)
        with mode:
            value = next(given) if node.op == "placeholder" else node.meta.get("val")
            node.meta["val"] = torch.utils._pytree.tree_map(moved, value)
        node.meta.pop("tensor_meta", None)
    traced.recompile()


def _is_contiguous(value: Any) -> bool:
    """Whether a tensor of symbolic sizes is known to be contiguous, without adding a guard."""
    from torch._prims_common import make_contiguous_strides_for
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    wanted = make_contiguous_strides_for(value.shape)
    return all(
        statically_known_true(size == 1) or statically_known_true(stride == want)
        for size, stride, want in zip(value.shape, value.stride(), wanted, strict=True)
    )


def _keep_strides(traced: Any) -> None:
    """Make Inductor keep the strides of the results that the trace found."""
    output = next(node for node in traced.graph.nodes if node.op == "output")
    output.meta["user_visible_output_idxs"] = list(range(len(output.args[0])))


def _decides(graph: Graph) -> bool:
    """Whether a comparison or selection depends on half-precision numbers: rounding must then match eager's."""
    types = graph.types()

    def dtypes(names: Iterable[str]) -> set[str]:
        return {kind.dtype for name in names if isinstance(kind := types[name], TensorType)}

    return any(
        dtypes(node.refs()) & {"bfloat16", "float16"}
        and dtypes(one.name for one in node.outputs if one is not None) & {"bool", "int64", "int32"}
        for node in graph.nodes
    )


def _compile(traced: Any, flat: list[Any], mode: Any, settings: Mapping[str, Any]) -> str:
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.fx_passes import reinplace

    context = torch._guards.TracingContext(mode)
    # Inductor would turn nested slice writes into in-place writes and test that on fake GPU tensors: impossible without CUDA.
    nested = mock.patch.object(reinplace, "canonicalize_view_scatter_ops", return_value=None)
    try:
        with torch._guards.tracing(context), torch.no_grad(), nested, config.patch(dict(settings)):
            compile_fx_inner(traced, flat, is_inference=True)
    except offline.Emitted as emitted:
        return emitted.code
    except Exception as error:
        raise _reason_for(error) from None
    raise CannotCompile("inductor", "nothing was emitted")


def _check(
    env: Any, traced: int, symbols: Mapping[str, Any], graph: Graph, sizes: Sequence[Mapping[str, int]]
) -> None:
    """Raises CannotCompile if the trace is not valid at all of `sizes`.

    The first `traced` guards are the graph's own; later ones, Inductor's, only count if they fix a size, since its inequalities
    choose tiles and index types. Guards that a size is not 1, or that strides differ because it is not, do not count: code for
    n elements works for one.
    """
    import sympy

    def not_one(guard: Any) -> bool:
        if isinstance(guard, sympy.Ne):
            return sympy.Integer(1) in guard.args
        if not isinstance(guard, sympy.StrictGreaterThan | sympy.StrictLessThan):
            return False
        times = guard.gts / guard.lts
        return type(times).__name__ == "Max" and sympy.Integer(1) in times.args

    def at_least_two(guard: Any, at: Mapping[Any, int]) -> bool:
        """Whether a guard says no more of these sizes than that one of them is not 1."""
        wide = isinstance(guard, sympy.GreaterThan | sympy.LessThan) and guard.lts == 2
        return wide and guard.gts.subs(at) == 1

    held = [
        guard.expr
        for number, guard in enumerate(env.guards)
        if (number < traced and not not_one(guard.expr)) or isinstance(guard.expr, sympy.Eq)
    ]
    held += [sympy.Eq(symbol, other) for symbol, other in env.replacements.items()]
    hints = {symbol.name: symbol.hint for symbol in graph.symbols}
    for one in ({}, *sizes):
        at = {symbols[name].node._expr: value for name, value in {**hints, **one}.items() if name in symbols}
        for expression in held:
            if expression.subs(at) == sympy.false and not at_least_two(expression, at):
                raise CannotCompile("size", f"specialised: {_name_of(expression, symbols)}")


def _name_of(expression: Any, symbols: Mapping[str, Any]) -> str:
    text = str(expression)
    for name, symbol in symbols.items():
        text = re.sub(rf"\b{symbol.node._expr}\b", name, text)
    return text[:100]


def _reason_for(error: BaseException) -> CannotCompile:
    """The reason for an exception of the trace or of Inductor."""
    chain = list(_causes(error))
    text = " ".join(f"{type(cause).__name__}: {cause}" for cause in chain)
    for cause in chain:
        if isinstance(cause, CannotCompile):
            return cause
    if any(word in text for word in _DEPENDENT):
        return CannotCompile("data-dependent", "control flow or sizes that depend on values")
    if "NoValidChoices" in text or "No choices" in text:
        operator = re.search(r"target: aten\.(\w+)", text)
        return CannotCompile("extern", f"aten.{operator[1]}" if operator else "no template")
    if "SymFloat" in text:
        return CannotCompile("size", "a float made of sizes")
    last = chain[-1]
    line = (str(last).strip().splitlines() or [""])[0]
    return CannotCompile("inductor", f"{type(last).__name__}: {line}"[:160])


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
