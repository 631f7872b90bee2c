"""Asks Inductor for a task's code: one symbolic trace on fake CUDA tensors, compiled down to source text.

    Task -> builds at several sizes -> symbols for what varies -> aten graph -> Inductor's wrapper and kernels

Runs in a worker whose process `offline.install` has prepared. Nothing is executed on data and no GPU is asked.
Raises `Fallback` for what this teacher leaves alone; whatever else Inductor raises becomes one, too.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.data.inductor import functional, offline, sizes
from kernelwright.data.inductor.reasons import Fallback
from kernelwright.records import Task

_SCALES: tuple[tuple[str, Callable[[float], float]], ...] = (
    ("{} ** -0.5", lambda value: value**-2),
    ("{} ** 0.5", lambda value: value**2),
    ("1.0 / {}", lambda value: 1 / value),
    ("float({})", lambda value: value),
)
"""Forms of a float that is made of a size, and what gives the size back."""
_LARGE = 64
"""Elements from which a constant tensor is huge."""


@dataclass(frozen=True)
class Traced:
    """What Inductor made of a task, and what its arguments were."""

    code: str
    """Inductor's module: kernels as strings, and `call`."""
    symbols: tuple[str, ...]
    """Names of the first arguments of `call`: constants of the task (or `size0`, ...) that are symbols."""
    state: tuple[str, ...]
    """Dotted names of the next ones: parameters, buffers, tensors kept as attributes."""
    inputs: tuple[str, ...]
    """Names of the last ones: arguments of `forward`."""
    shapes: Mapping[str, tuple[str, ...]]
    """Formula of every dimension, by dotted name of state or name of input."""
    contiguous: tuple[str, ...]
    """Inputs without gaps, in order."""
    dtypes: Mapping[str, str]
    """`torch.float32` and so on, by the same names."""
    attributes: Mapping[str, str]
    """Formula of every attribute that depends on a size, by path (`norm.normalized_shape[0]`)."""
    output: Any
    """The output's form, tensors as their number."""
    graph: str
    """Digest of the aten graph, sizes apart."""
    operators: tuple[str, ...]
    """Names of its operators, in order."""
    hints: Mapping[str, int]
    """Full size of every symbol."""


def trace(task: Task) -> Traced:
    """Inductor's code for `task`. Raises Fallback."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    found = sizes.builds(task, mode)
    first = found[0]
    table = _Symbols(env, found)
    formulas = {path: table.of(path) for path in first.table if not path.startswith("global.")}
    table.rewrite_scalars()
    state = sizes.state(first.model)
    names = tuple(inspect.signature(type(first.model).forward).parameters)[1 : 1 + len(first.inputs)]
    if len(names) != len(first.inputs):
        raise Fallback("unsupported", "forward takes *args")
    paths = {f"state.{name}": value for name, value in state.items()}
    paths |= {f"input.{number}": value for number, value in enumerate(first.inputs)}
    with mode:
        host, device = (
            [table.tensor(path, value, device) for path, value in paths.items()] for device in ("cpu", "cuda")
        )
    symbols = list(table.symbols.values())
    call = _Call(first.model, list(state), table)
    graph = _graph(call, [*symbols, *host], mode, len(symbols) + len(state))
    guards = len(env.guards)
    flat = [*symbols, *device]
    _to_device(graph, flat, mode)
    code = _compile(graph, flat, mode)
    table.check(guards)
    shapes = {name: formulas[f"state.{name}"] for name in state}
    shapes |= {name: formulas[f"input.{number}"] for number, name in enumerate(names)}
    targets = [node.target for node in graph.graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
    return Traced(
        code=code,
        symbols=tuple(table.symbols),
        state=tuple(state),
        inputs=names,
        shapes=shapes,
        contiguous=tuple(
            name for name, value in zip(names, first.inputs, strict=True) if value.is_contiguous()
        ),
        dtypes={name: str(value.dtype) for name, value in zip([*state, *names], paths.values(), strict=True)},
        attributes=table.attributes,
        output=call.output,
        graph=_digest(graph),
        operators=tuple(target.overloadpacket.__name__ for target in targets),
        hints={name: table.values[name][0] for name in table.symbols},
    )


class _Symbols:
    """Symbols for the constants that vary, and every size as a formula over them."""

    def __init__(self, env: Any, found: Sequence[sizes.Build]) -> None:
        self.env, self.found = env, found
        self.names = sizes.varying(found)
        self.values = {name: [build.sizes[name] for build in found] for name in self.names}
        self.symbols: dict[str, Any] = {}
        self.attributes: dict[str, str] = {}
        self.floats: list[tuple[Any, str, str]] = []
        """(module, attribute, formula) of floats, which are only tracked when they are made within the trace."""
        self._own: dict[tuple[int, ...], str] = {}

    def of(self, path: str) -> tuple[str, ...]:
        """Formulas of the sizes at `path`, one for each; sizes that none fits get a symbol of their own."""
        values = [build.table[path] for build in self.found]
        if not isinstance(values[0], (tuple, list)):
            values = [(value,) for value in values]
        return tuple(self._formula(list(row)) for row in zip(*values, strict=True))

    def _formula(self, row: list[Any]) -> str:
        if any(isinstance(value, float) for value in row):
            return self._scalar(row)
        text = sizes.formula(row, self.names, self.found)
        if text is None:
            text = self._own.setdefault(tuple(row), f"size{len(self._own)}")
            self.values[text] = row
        for name in re.findall(r"[A-Za-z_]\w*(?:\[\d+\])?", text):
            self._symbol(name)
        return text

    def _scalar(self, row: list[float]) -> str:
        """A float that depends on a size: the forms that scale factors have."""
        if len(set(row)) == 1:
            return repr(row[0])
        for form, back in _SCALES:
            try:
                sizes_of = [round(back(value)) for value in row]
                made = [eval(form.format(size)) for size in sizes_of]
            except (ArithmeticError, ValueError):
                continue
            if all(abs(a - b) <= 1e-12 * abs(b) for a, b in zip(made, row, strict=True)):
                text = self._formula(list(sizes_of))
                return form.format(text if text.isidentifier() else f"({text})")
        raise Fallback("size", "a scalar attribute depends on a size")

    def _symbol(self, name: str) -> Any:
        import torch
        from torch._dynamo.source import ConstantSource
        from torch.fx.experimental.symbolic_shapes import DimDynamic

        if name not in self.symbols:
            hint = max(2, self.values[name][0])
            source = ConstantSource(f"kw_{name}")
            symbol = self.env.create_symbol(hint, source, dynamic_dim=DimDynamic.DYNAMIC)
            made = self.symbols[name] = self.env.create_symintnode(symbol, hint=hint, source=source)
            torch._check(made >= max(2, min(self.values[name])))
        return self.symbols[name]

    def value(self, text: str, symbols: Sequence[Any] = ()) -> Any:
        """A formula as a symbolic number, over its own symbols or those given in their place."""
        given = dict(zip(self.symbols, symbols, strict=False)) or self.symbols
        names = {name: f"_{number}" for number, name in enumerate(self.symbols)}
        for name in sorted(names, key=len, reverse=True):
            text = re.sub(rf"(?<![\w]){re.escape(name)}(?!\w|\[)", names[name], text)
        return eval(text, {}, {names[name]: symbol for name, symbol in given.items()})

    def rewrite_scalars(self) -> None:
        """Let attributes and globals of the full build that depend on a size be symbolic."""
        first = self.found[0]
        modules = dict(first.model.named_modules())
        for path in first.table:
            if len({repr(build.table[path]) for build in self.found}) == 1:
                continue
            kind, _, rest = path.partition(".")
            if kind not in ("attribute", "global"):
                continue
            old = first.table[path]
            if kind == "global" and rest in self.names and rest not in self.symbols:
                continue
            texts = self.of(path)
            if isinstance(old, float):
                owner, _, name = rest.rpartition(".")
                self.floats.append((modules[owner], name, texts[0]))
                self.attributes[rest.lstrip(".")] = texts[0]
                continue
            values = [self.value(text) for text in texts]
            new = type(old)(values) if isinstance(old, (tuple, list)) else values[0]
            if kind == "global":
                first.space[rest] = new
                continue
            owner, _, name = rest.rpartition(".")
            modules[owner].__dict__[name] = new
            for index, text in enumerate(texts):
                suffix = f"[{index}]" if isinstance(old, (tuple, list)) else ""
                self.attributes[f"{rest.lstrip('.')}{suffix}"] = text

    def tensor(self, path: str, like: Any, device: str) -> Any:
        """A fake tensor with the symbolic shape of `path` and the strides' order of `like`."""
        import torch

        shape = [self.value(text) for text in self.of(path)]
        order = sorted(range(like.dim()), key=lambda axis: (-like.stride(axis), axis))
        if like.is_contiguous():
            order = list(range(like.dim()))
        made = torch.empty([shape[axis] for axis in order], dtype=like.dtype, device=device)
        made = made.permute([order.index(axis) for axis in range(like.dim())])
        small = torch.empty([like.shape[axis] for axis in order], dtype=torch.uint8, device="meta")
        if small.permute([order.index(axis) for axis in range(like.dim())]).stride() != like.stride():
            raise Fallback("unsupported", "an input with gaps between its rows")
        return made

    def check(self, traced: int) -> None:
        """Raises Fallback where the trace does not hold at all of the task's shape sets.

        Of the guards, `traced` are the module's own; Inductor's later ones only count where they fix a size: its
        inequalities choose tiles and index types.
        """
        import sympy

        places = {symbol.node._expr: self.values[name] for name, symbol in self.symbols.items()}
        held = [
            guard.expr
            for number, guard in enumerate(self.env.guards)
            if number < traced or isinstance(guard.expr, sympy.Eq)
        ]
        held += [sympy.Eq(symbol, other) for symbol, other in self.env.replacements.items()]
        for number in range(sum(not build.variation for build in self.found)):
            at = {symbol: row[number] for symbol, row in places.items()}
            for expression in held:
                if expression.subs(at) == sympy.false:
                    raise Fallback("size", f"specialised: {self._named(expression)}")

    def _named(self, expression: Any) -> str:
        text = str(expression)
        for name, symbol in self.symbols.items():
            text = re.sub(rf"\b{symbol.node._expr}\b", name, text)
        return text[:100]


class _Call:
    """The module as a function of (symbols, state, inputs), and the form of its output."""

    def __init__(self, model: Any, state: list[str], table: _Symbols) -> None:
        self.model, self.state, self.table, self.skip = model, state, table, len(table.symbols)
        self.output: Any = None
        self.plain = {
            name for name in state if name not in dict(model.named_parameters()) | dict(model.named_buffers())
        }

    def __call__(self, *flat: Any) -> list[Any]:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        tensors = dict(zip(self.state, flat[self.skip :], strict=False))
        inputs = flat[self.skip + len(self.state) :]
        modules = dict(self.model.named_modules())
        for name in self.plain:
            owner, _, attribute = name.rpartition(".")
            modules[owner].__dict__[attribute] = tensors.pop(name)
        for module, attribute, text in self.table.floats:
            module.__dict__[attribute] = self.table.value(text, flat[: self.skip])
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), functional.written_out():
            result = torch.func.functional_call(self.model, tensors, inputs)
        leaves: list[Any] = []
        self.output = _form(result, leaves)
        if not leaves:
            raise Fallback("unsupported", "no tensor among the outputs")
        return leaves


def _form(tree: Any, leaves: list[Any]) -> Any:
    import torch

    if isinstance(tree, torch.Tensor):
        leaves.append(tree)
        return len(leaves) - 1
    if type(tree) in (list, tuple):
        return [type(tree).__name__, *(_form(item, leaves) for item in tree)]
    if type(tree) is dict:
        return {key: _form(value, leaves) for key, value in tree.items()}
    if tree is None:
        return None
    raise Fallback("unsupported", f"an output of type {type(tree).__name__}")


def _graph(call: Callable[..., Any], flat: list[Any], mode: Any, state: int) -> Any:
    """The aten graph, without mutations, on the CPU: a torch without CUDA has no functionalisation for it.

    `state` is the number of arguments before forward's.
    """
    import torch
    from torch._dispatch.python import enable_python_dispatcher
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.traceback import preserve_node_meta

    with mode, enable_python_dispatcher(), preserve_node_meta():
        try:
            made = make_fx(
                torch.func.functionalize(call), decomposition_table=_decompositions(), tracing_mode="real"
            )(*flat)
        except Fallback:
            raise
        except Exception as error:
            raise _sorted(error) from None
    made.graph.set_codegen(torch.fx.graph.CodeGen())
    placeholders = [node for node in made.graph.nodes if node.op == "placeholder"]
    for node in list(made.graph.nodes):
        if node.target is torch.ops.aten.copy_.default and node.args[0] in placeholders:
            if placeholders.index(node.args[0]) >= state:
                raise Fallback("in-place input")
            if node.users:
                node.replace_all_uses_with(node.args[1])
            made.graph.erase_node(node)  # running statistics: forward's output does not depend on them
    made.graph.eliminate_dead_code()
    made.recompile()
    for node in made.graph.nodes:
        if node.op == "get_attr":
            value = getattr(made, str(node.target), None)
            size = value.numel() if isinstance(value, torch.Tensor) else 0
            raise Fallback(
                "constant tensor", f"{'more than' if size > _LARGE else 'up to'} {_LARGE} elements"
            )
        if isinstance(node.target, torch._ops.OpOverload):
            name = node.target.overloadpacket.__name__
            if torch.Tag.nondeterministic_seeded in node.target.tags:
                raise Fallback("random", f"aten.{name}")
            if torch.Tag.dynamic_output_shape in node.target.tags:
                raise Fallback("data-dependent", f"aten.{name}")
    return made


def _to_device(graph: Any, flat: list[Any], mode: Any) -> None:
    """Move the graph to the GPU: the devices it names, and what is known of every value."""
    import torch

    gpu = torch.device("cuda", 0)

    def moved(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=gpu)

    given = iter(flat)
    for node in graph.graph.nodes:
        for part in ("args", "kwargs"):
            named = torch.fx.node.map_aggregate(
                getattr(node, part), lambda value: gpu if isinstance(value, torch.device) else value
            )
            setattr(node, part, named)
        with mode:
            value = next(given) if node.op == "placeholder" else node.meta.get("val")
            node.meta["val"] = torch.utils._pytree.tree_map(moved, value)
        node.meta.pop("tensor_meta", None)
    graph.recompile()


def _decompositions() -> dict[Any, Any]:
    """Inductor's own, with variances in two passes (a mean, then a sum of squares) instead of Welford's method."""
    import torch
    from torch._inductor.decomposition import select_decomp_table

    def mean_and_spread(
        x: Any, dim: Any = None, correction: Any = None, keepdim: bool = False
    ) -> tuple[Any, Any]:
        axes = [axis % x.dim() for axis in (dim or range(x.dim()))]
        count = 1
        for axis in axes:
            count = count * x.shape[axis]
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        mean = wide.sum(axes, keepdim=True) / count
        centred = wide - mean
        correction = 1 if correction is None else correction
        spread = (centred * centred).sum(axes, keepdim=keepdim) / (
            count - correction if correction else count
        )
        if not keepdim:
            for axis in sorted(axes, reverse=True):
                mean = mean.squeeze(axis)
        return spread.to(x.dtype), mean.to(x.dtype)

    def spread(x: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
        return mean_and_spread(x, dim, correction=correction, keepdim=keepdim)[0]

    def convolution(
        x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
        output_padding: Any, groups: int,
    ) -> Any:  # fmt: skip
        """In one dimension: Inductor has templates for two and three."""
        if x.dim() != 3:
            return NotImplemented
        wide = torch.ops.aten.convolution.default(
            x.unsqueeze(2), weight.unsqueeze(2), bias, [1, *stride], [0, *padding], [1, *dilation], transposed,
            [0, *output_padding], groups,
        )  # fmt: skip
        return wide.squeeze(2)

    table = dict(select_decomp_table())
    table[torch.ops.aten.convolution.default] = convolution
    table[torch.ops.aten.var_mean.correction] = mean_and_spread
    table[torch.ops.aten.var.correction] = spread
    return table


def _compile(graph: Any, flat: list[Any], mode: Any) -> str:
    import torch
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner

    context = torch._guards.TracingContext(mode)
    try:
        with (
            torch._guards.tracing(context),
            torch.no_grad(),
            config.patch(offline.settings()),
        ):
            compile_fx_inner(graph, flat, is_inference=True)
    except offline.Emitted as emitted:
        return emitted.code
    except Exception as error:
        raise _sorted(error) from None
    raise Fallback("inductor", "nothing was emitted")


_DEPENDENT = ("DataDependent", "GuardOnDataDependent", "DynamicOutputShape", "UnbackedSymInt")


def _sorted(error: BaseException) -> Fallback:
    """The reason that an exception of the trace or of Inductor stands for."""
    chain = list(_causes(error))
    text = " ".join(f"{type(cause).__name__}: {cause}" for cause in chain)
    for cause in chain:
        if isinstance(cause, Fallback):
            return cause
    if any(word in text for word in _DEPENDENT):
        return Fallback("data-dependent", "control flow or sizes that depend on values")
    if "NoValidChoices" in text or "No choices" in text:
        operator = re.search(r"target: aten\.(\w+)", text)
        return Fallback("extern", f"aten.{operator[1]}" if operator else "no template")
    if "SymFloat" in text:
        return Fallback("size", "a float made of sizes")
    last = chain[-1]
    line = (str(last).strip().splitlines() or [""])[0]
    return Fallback("inductor", f"{type(last).__name__}: {line}"[:160])


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _digest(graph: Any) -> str:
    """Identity of the operators and their wiring: 16 hex digits."""
    numbers: dict[Any, int] = {}
    lines = []
    for node in graph.graph.nodes:
        numbers[node] = len(numbers)
        uses = ",".join(str(numbers[other]) for other in node.all_input_nodes)
        lines.append(f"{node.op if node.op == 'placeholder' else node.target}({uses})")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
