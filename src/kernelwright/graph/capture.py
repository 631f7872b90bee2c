"""Any module or function as graphs: torch.export first, Dynamo if that fails.

    captured = capture(module, (x,), {"mask": mask})
    captured.graph                                   the one graph; UserError if there are several
    captured.nest(execute(captured.graph, captured.bind((x,), {"mask": mask})))      what the module returns

Weights, buffers and lifted constants are arguments of the graph; `values` has the module's own tensors for them, not
copies. The module is captured in its present state: training or eval mode, hooks, the caller's autocast.

Does not guarantee that a graph computes what the module does: `agree.py` checks that, and must have before a graph serves as
a reference. Nor can a module with graph breaks necessarily be reassembled from its graphs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import logging
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException
from torch.utils import _pytree as pytree

from kernelwright.errors import UserError
from kernelwright.graph.execute import DTYPE_NAMES
from kernelwright.graph.indexing import tensors_index
from kernelwright.graph.normalise import Constant, Converted, NotStatic, Origin, decompose, from_exported
from kernelwright.graph.pairs import REAL, complex_view, is_complex, real_view
from kernelwright.graph.task import densify
from kernelwright.graph.traced import Traced, trace
from kernelwright.graph.types import Graph

How = Literal["export", "strict export", "dynamo", "traced"]


@dataclasses.dataclass(frozen=True)
class Call:
    """How arguments and results nest in the module's own call."""

    inputs: pytree.TreeSpec
    """Structure of `(args, kwargs)`."""
    leaves: tuple[str | tuple[Constant], ...]
    """Per leaf: an argument of the graph, or the constant that it was captured for."""
    outputs: pytree.TreeSpec
    results: tuple[int | tuple[Constant], ...]
    """Per leaf of the output: an index into the graph's results, or a constant."""
    complex: frozenset[str] = frozenset()
    """Arguments that are complex tensors in the module's call."""

    def __getstate__(self) -> dict[str, Any]:
        """Without torch's specs, whose leaves warn when they are unpickled."""
        return {**vars(self), "inputs": _plain_spec(self.inputs), "outputs": _plain_spec(self.outputs)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        specs = {name: _spec(state[name]) for name in ("inputs", "outputs")}
        vars(self).update(state | specs)

    @functools.cached_property
    def form(self) -> tuple[int, tuple[str, ...]]:
        """(number of positional arguments, names of keyword arguments)."""
        return _form(self.inputs)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Values by argument. Raises UserError for a call of another form."""
        flat, spec = pytree.tree_flatten((tuple(args), _order(dict(kwargs), self.inputs)))
        if spec != self.inputs:
            (places, words), (known, names) = _form(spec), self.form
            raise UserError(
                f"the call has another form than the captured one: {places} arguments by place and {list(words)} by name, "
                f"not {known} and {list(names)}, or nested otherwise; capture it again"
            )
        found = {}
        for name, value in zip(self.leaves, flat, strict=True):
            if isinstance(name, str) and (name in self.complex) != is_complex(value):
                raise UserError("complex and real tensors swapped places; capture it again")
            if isinstance(name, str):
                found[name] = real_view(value)
            elif isinstance(value, torch.Tensor) or not _same(value, name[0]):
                said = "a tensor" if isinstance(value, torch.Tensor) else repr(value)
                raise UserError(
                    f"an argument is {said} where the graph was captured for {name[0]!r}; capture it again"
                )
        return found

    def unbind(self, values: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The module's `(args, kwargs)` from values by argument."""
        given = {one: complex_view(values[one]) if one in self.complex else values[one] for one in values}
        flat = [given[one] if isinstance(one, str) else one[0] for one in self.leaves]
        args, kwargs = pytree.tree_unflatten(flat, self.inputs)
        return args, kwargs

    def nest(self, results: Sequence[Any]) -> Any:
        """The module's return value from the graph's results."""
        flat = [results[at] if isinstance(at, int) else at[0] for at in self.results]
        return pytree.tree_unflatten(flat, self.outputs)


def _plain_spec(spec: pytree.TreeSpec) -> Any:
    """A spec as nested tuples (type, context, children); None for a leaf."""
    if spec.is_leaf():
        return None
    return spec.type, spec.context, tuple(_plain_spec(spec.child(at)) for at in range(spec.num_children))


def _spec(plain: Any) -> pytree.TreeSpec:
    """The spec of which `_plain_spec` made tuples; pytree learns types that it does not know in this process."""
    if plain is None:
        return pytree.tree_structure(None)
    cls, context, children = plain
    _register(cls)
    return pytree.TreeSpec(cls, context, [_spec(one) for one in children])


def _form(spec: pytree.TreeSpec) -> tuple[int, tuple[str, ...]]:
    args, kwargs = spec.child(0), spec.child(1)
    return args.num_children, tuple(kwargs.context or ())


def _same(value: Any, known: Any) -> bool:
    """Whether a number, string or None is the one that a graph was captured for; 1, 1.0 and True are distinct."""
    return bool(value == known) and all(
        isinstance(value, of) == isinstance(known, of) for of in (bool, float)
    )


@dataclasses.dataclass(frozen=True)
class Part:
    """One graph with what it was made from."""

    graph: Graph
    values: dict[str, torch.Tensor]
    """Weights, buffers and constants by argument: the module's own tensors."""
    inputs: dict[str, Any]
    """Inputs of the example call by argument."""
    call: Call
    module: torch.nn.Module
    """The module, method or function that the graph represents."""

    @property
    def arguments(self) -> dict[str, Any]:
        """A value for each argument."""
        return {**self.inputs, **self.values}


@dataclasses.dataclass(frozen=True)
class Captured:
    """The result of a capture: one graph for the whole forward, or the graphs between its breaks."""

    parts: tuple[Part, ...]
    how: How

    @property
    def part(self) -> Part:
        """The only part. Raises UserError if there are several."""
        if self.how == "dynamo":
            raise UserError(
                f"the module breaks into {len(self.parts)} graphs (Python between them decides on data); take `parts` one by one"
            )
        return self.parts[0]

    @property
    def graph(self) -> Graph:
        """The graph of the whole forward. Raises UserError if it broke into several."""
        return self.part.graph

    def bind(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """A value for each argument of the graph, for a call of the module. Raises UserError for a call of another form."""
        return {**self.part.call.bind(args, kwargs or {}), **self.part.values}

    def nest(self, results: Sequence[Any]) -> Any:
        """The module's return value from the graph's results; new values of buffers are left out."""
        return self.part.call.nest(results)


def capture(
    module: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic: bool = False,
    breaks: bool = True,
    name: str = "",
) -> Captured:
    """The graphs of `module(*args, **kwargs)`, without gradients.

    `dynamic` keeps the first two dimensions of inputs as symbols where torch.export can; `breaks` accepts several graphs
    from Dynamo if export fails. Raises UserError, in one line, for what cannot be captured.
    """
    args, kwargs = _each_once((tuple(args), dict(kwargs or {})))
    label = name or _label(module)
    if any(isinstance(one, _NAMES) for one in (*args, *kwargs.values())):
        return _with_names(module, args, kwargs, dynamic, breaks, label)
    called, prefix = _as_module(module)
    _check(called, args, kwargs)
    reasons: list[Exception] = []
    with _tracing(args, kwargs):
        for symbols in (True, False) if dynamic else (False,):
            found = _attempt(called, args, kwargs, symbols, reasons)
            if found is not None:
                try:
                    return _capture(*found, called, args, kwargs, prefix, label)
                except NotStatic as error:
                    reasons.append(error)
        made = run_itself(called, args, kwargs)
        strangers = _strangers(made)
        for one in strangers:
            _register(one)
        found = _attempt(called, args, kwargs, False, reasons) if strangers else None
        if found is not None:
            return _capture(*found, called, args, kwargs, prefix, label)
        plain = _trace(called, args, kwargs, reasons)
        found = None if plain is None else _attempt(plain, args, kwargs, False, reasons)
        if plain is not None and found is not None:
            part = _capture(*found, plain, args, kwargs, f"owner.{prefix}", label).part
            return Captured((dataclasses.replace(part, module=called),), "traced")
        if breaks:
            parts = _broken(called, args, kwargs, prefix, label)
            if parts:
                return Captured(parts, "dynamo")
    raise _explain(reasons)


_NAMES = (torch.dtype, torch.device, torch.layout, torch.memory_format)
"""Types of arguments that torch.export does not accept, such as dtypes and devices."""


def _with_names(
    module: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: bool, breaks: bool, name: str
) -> Captured:  # fmt: skip
    """`capture` with the arguments of these types fixed: None replaces them while torch traces."""
    places = {at: one for at, one in enumerate(args) if isinstance(one, _NAMES)}
    words = {key: one for key, one in kwargs.items() if isinstance(one, _NAMES)}

    def run(*given: Any, **named: Any) -> Any:
        return module(*(places.get(at, one) for at, one in enumerate(given)), **{**named, **words})

    owner = module if isinstance(module, torch.nn.Module) else getattr(module, "__self__", None)
    held = _Function(run, owner if isinstance(owner, torch.nn.Module) else None)
    plain = tuple(None if at in places else one for at, one in enumerate(args))
    found = capture(
        held, plain, {**kwargs, **dict.fromkeys(words)}, dynamic=dynamic, breaks=breaks, name=name
    )
    if found.how == "dynamo":
        return found
    part = found.parts[0]
    flat = pytree.tree_leaves((args, _order(kwargs, part.call.inputs)))
    leaves: tuple[Any, ...] = tuple(
        (one,) if isinstance(one, _NAMES) else leaf for one, leaf in zip(flat, part.call.leaves, strict=True)
    )
    call = dataclasses.replace(part.call, leaves=leaves)
    graph = _without_prefix(part.graph, "owner.")
    return Captured((dataclasses.replace(part, graph=graph, call=call),), found.how)


def _each_once(call: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same call with a copy of each repeated tensor: export would merge the repetitions into one input."""
    seen: set[int] = set()

    def apart(one: Any) -> Any:
        if not isinstance(one, torch.Tensor):
            return one
        known = id(one) in seen
        seen.add(id(one))
        return one.detach().clone() if known else one

    args, kwargs = pytree.tree_map(apart, call)
    return args, kwargs


def _attempt(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic: bool,
    reasons: list[Exception],
) -> tuple[torch.export.ExportedProgram, How] | None:
    """The exported program, decomposed; None if torch fails, with the reasons added to `reasons`."""
    shapes = _dynamic(module, args, kwargs) if dynamic else None
    hows: tuple[tuple[bool, How], ...] = ((False, "export"), (True, "strict export"))
    for strict, how in hows:
        try:
            # On failure it prints half a graph.
            with contextlib.redirect_stderr(io.StringIO()), _transforms_kept(), tensors_index():
                program = torch.export.export(module, args, kwargs, strict=strict, dynamic_shapes=shapes)
            return decompose(program), how
        except UserError as error:  # about the graph, which is the same under strict export
            reasons.append(error)
            break
        except Exception as error:  # user code under tracing may raise anything
            reasons.append(error)
    return None


def _trace(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], reasons: list[Exception]
) -> Traced | None:
    """The module's operators on fake tensors; None if that fails, with the reason added to `reasons`."""
    try:
        with _transforms_kept():
            return trace(module, args, kwargs)
    except Exception as error:  # user code under tracing may raise anything
        reasons.append(error)
        return None


def _capture(
    program: torch.export.ExportedProgram,
    how: How,
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    prefix: str,
    name: str,
    own: Mapping[int, Origin] | None = None,
) -> Captured:
    """Translate an exported program. `own`: identity of a tensor -> which weight or buffer of the module it is."""
    assert program.call_spec.in_spec is not None
    flat = pytree.tree_leaves((args, _order(kwargs, program.call_spec.in_spec)))
    known = {}
    for one, value in zip(_user_inputs(program), flat, strict=True):
        if own and id(value) in own:
            known[one.name] = own[id(value)]
    converted = from_exported(program, name, known)
    call = _call(program, converted)
    given = {
        one: real_view(value) for one, value in zip(call.leaves, flat, strict=True) if isinstance(one, str)
    }
    roles = {one.name: one.role for one in converted.graph.arguments}
    inputs = {one: value for one, value in given.items() if roles[one] == "input"}
    values = _values(program, converted, module)
    values |= {one: value.detach() for one, value in given.items() if one not in inputs}
    part = Part(densify(_without_prefix(converted.graph, prefix)), values, inputs, call, module)
    return Captured((part,), how)


def _user_inputs(program: torch.export.ExportedProgram) -> list[Any]:
    """Per leaf of the call: its placeholder's name, and its value if it is a constant."""
    from torch.export.graph_signature import InputKind

    return [one.arg for one in program.graph_signature.input_specs if one.kind is InputKind.USER_INPUT]


def _call(program: torch.export.ExportedProgram, converted: Converted) -> Call:
    leaves: list[str | tuple[Constant]] = []
    for one in _user_inputs(program):
        leaves.append(converted.placeholders.get(one.name) or (getattr(one, "value", None),))
    first = sum(one.mutated for one in converted.graph.arguments)
    places: list[int | tuple[Constant]] = []
    for result in converted.outputs:
        if isinstance(result, str):
            places.append(first)
            first += 1
        else:
            places.append(result)
    spec = program.call_spec
    assert spec.in_spec is not None
    assert spec.out_spec is not None
    paired = frozenset(one.name for one in converted.graph.arguments if one.complex)
    return Call(spec.in_spec, tuple(leaves), spec.out_spec, tuple(places), paired)


def _values(
    program: torch.export.ExportedProgram, converted: Converted, module: torch.nn.Module
) -> dict[str, torch.Tensor]:
    """The module's own tensors by argument; lifted constants from the program."""
    own: dict[str, Any] = {**program.constants, **program.state_dict}
    own |= dict(module.named_buffers(remove_duplicate=False)) | dict(
        module.named_parameters(remove_duplicate=False)
    )
    targets = {one.arg.name: one.target for one in program.graph_signature.input_specs if one.target}
    found = {}
    for placeholder, argument in converted.placeholders.items():
        if placeholder in targets:
            found[argument] = real_view(own[targets[placeholder]].detach())
    return found


def _broken(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], prefix: str, name: str
) -> tuple[Part, ...]:
    """The graphs that Dynamo finds between breaks, each exported by itself."""
    seen: list[tuple[torch.fx.GraphModule, tuple[Any, ...]]] = []
    own = _tensors_of(module, prefix)

    def collect(found: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            if all(one is not found for one, _ in seen):
                seen.append((found, tuple(one if id(one) in own else _clone(one) for one in inputs)))
            return found(*inputs)

        return run

    with state_kept(module), _transforms_kept(), torch._dynamo.config.patch(recompile_limit=64):
        try:
            torch.compile(module, backend=collect, dynamic=False)(*_clone(args), **_clone(kwargs))
        except Exception as error:  # user code under tracing may raise anything
            raise _explain([error]) from None
    parts = []
    for number, (found, inputs) in enumerate(seen):
        reasons: list[Exception] = []
        exported = _attempt(found, inputs, {}, False, reasons)
        if exported is None:
            raise _explain(reasons)
        part = _capture(*exported, found, inputs, {}, "", f"{name}_{number}", own).parts[0]
        parts.append(part)
    return tuple(parts)


@contextlib.contextmanager
def _transforms_kept() -> Iterator[None]:
    """Tracing leaves transforms of torch.func on their stack where it fails within one; all later calls would be under them."""
    level = torch._C._functorch.maybe_current_level
    before = level() or 0
    try:
        yield
    finally:
        while (level() or 0) > before:
            torch._C._functorch.pop_dynamic_layer_stack()


def _tensors_of(module: torch.nn.Module, prefix: str) -> dict[int, Origin]:
    """A module's tensors by identity, since Dynamo passes them to its graphs as inputs."""
    found = {id(one): Origin("buffer", key.removeprefix(prefix)) for key, one in module.named_buffers()}
    found |= {id(one): Origin("weight", key.removeprefix(prefix)) for key, one in module.named_parameters()}
    return found


def _as_module(called: Callable[..., Any]) -> tuple[torch.nn.Module, str]:
    """(a module that does what `called` does, the prefix of its weights' names there)."""
    if isinstance(called, torch.nn.Module):
        if not any(_is_taken(name) for name in (*called._modules, *called._parameters, *called._buffers)):
            return called, ""
        return _Function(called.__call__, called), "owner."
    if not callable(called):
        raise UserError(f"capture takes a module or a function, not a {type(called).__name__}")
    owner = getattr(called, "__self__", None)
    return _Function(called, owner if isinstance(owner, torch.nn.Module) else None), "owner."


def _is_taken(name: str) -> bool:
    """Whether export fails for a module with a part of that name, such as `graph` or `code`, which torch.fx uses itself."""
    return hasattr(torch.fx.GraphModule, name) and not hasattr(torch.nn.Module, name)


class _Function(torch.nn.Module):
    """A function, or a method of a module, as a module."""

    def __init__(self, function: Callable[..., Any], owner: torch.nn.Module | None) -> None:
        super().__init__()
        self.function, self.owner = function, owner
        self.train(owner.training if owner is not None else False)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def _without_prefix(graph: Graph, prefix: str) -> Graph:
    if not prefix:
        return graph
    arguments = tuple(
        one.model_copy(update={"origin": one.origin.removeprefix(prefix)}) for one in graph.arguments
    )
    return graph.model_copy(update={"arguments": arguments})


def _check(module: torch.nn.Module, args: Any, kwargs: Any) -> None:
    """Reject early what no graph can hold. Raises UserError."""
    tensors = [
        ("an input", one) for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)
    ]
    tensors += [(key, one) for key, one in (*module.named_parameters(), *module.named_buffers())]
    for name, one in tensors:
        if isinstance(
            one, torch.nn.parameter.UninitializedParameter | torch.nn.parameter.UninitializedBuffer
        ):
            raise UserError(f"{name} has no shape yet; call the module once before it is captured")
        if one.layout is not torch.strided or one.is_nested:
            kind = "nested" if one.is_nested else str(one.layout).removeprefix("torch.")
            raise UserError(f"{name} is {kind}; only dense tensors can be captured: convert it before")
        if one.dtype not in DTYPE_NAMES and one.dtype not in REAL:
            dtype = str(one.dtype).removeprefix("torch.")
            raise UserError(
                f"{name} is {dtype}; graphs hold {', '.join(DTYPE_NAMES.values())}: cast it before"
            )
        if one.device.type == "meta":
            raise UserError(f"{name} is on the meta device and has no values; put the module on a CPU or GPU")


@contextlib.contextmanager
def _tracing(args: Any, kwargs: Any) -> Iterator[None]:
    """Without gradients, fused fast paths and warnings; registers dataclasses of the call with pytree."""
    for cls in _dataclasses((args, kwargs)):
        _register(cls)
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    loggers = [
        logging.getLogger(name)
        for name in ("torch.export", "torch.fx", "torch._dynamo", "torch._subclasses", "torch.__trace")
    ]
    levels = [one.level for one in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)  # we report a failed attempt ourselves, in one line
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _dataclasses(value: Any) -> Iterator[type]:
    """Types of dataclass instances that pytree does not know, at any depth."""
    for leaf in pytree.tree_leaves(value):
        if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            yield type(leaf)
            yield from _dataclasses([getattr(leaf, field.name) for field in dataclasses.fields(leaf)])


def _strangers(value: Any) -> set[type]:
    """Types of leaves that are not plain data, such as a cache object; `_register` lets pytree flatten them."""
    plain = (torch.Tensor, bool, int, float, complex, str, bytes, type(None), type, torch.dtype, torch.device)
    found: set[type] = set()
    pending = pytree.tree_leaves(value)
    while pending:
        leaf = pending.pop()
        if not isinstance(leaf, plain) and hasattr(leaf, "__dict__") and type(leaf) not in found:
            found.add(type(leaf))
        if not isinstance(leaf, plain) and hasattr(leaf, "__dict__"):
            pending += pytree.tree_leaves(list(vars(leaf).values()))
    return found


def _register(cls: type) -> None:
    """Register a type with pytree: fields of a dataclass, else attributes that hold tensors or containers; the rest is context."""
    if cls in pytree.SUPPORTED_NODES:
        return
    if dataclasses.is_dataclass(cls):
        torch.export.register_dataclass(cls)
        return
    data = (torch.Tensor, list, tuple, dict)

    def parts(value: Any) -> list[tuple[str, Any]]:
        return [
            (key, one)
            for key, one in vars(value).items()
            if isinstance(one, data) or type(one) in pytree.SUPPORTED_NODES
        ]

    def flatten(value: Any) -> tuple[list[Any], Any]:
        taken = parts(value)
        names = tuple(key for key, _ in taken)
        return [one for _, one in taken], (names, {k: v for k, v in vars(value).items() if k not in names})

    def flatten_with_keys(value: Any) -> tuple[list[tuple[pytree.KeyEntry, Any]], Any]:
        children, context = flatten(value)
        return [(pytree.GetAttrKey(key), one) for key, one in zip(context[0], children, strict=True)], context

    def unflatten(children: Iterable[Any], context: Any) -> Any:
        made: Any = object.__new__(cls)
        vars(made).update(context[1], **dict(zip(context[0], children, strict=True)))
        return made

    pytree.register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=flatten_with_keys)


def _dynamic(module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
    """Let the first two dimensions of each input vary, unless they are 1."""
    shapes = torch.export.ShapesCollection()
    for one in pytree.tree_leaves((args, kwargs)):
        if isinstance(one, torch.Tensor) and any(size > 1 for size in one.shape[:2]):
            shapes[one] = {at: torch.export.Dim.AUTO for at, size in enumerate(one.shape[:2]) if size > 1}
    return shapes.dynamic_shapes(module, args, kwargs)


def _order(kwargs: dict[str, Any], spec: pytree.TreeSpec) -> dict[str, Any]:
    """Keyword arguments in the order of the capture."""
    order = list(spec.child(1).context or ()) if spec.num_children == 2 else []
    return {key: kwargs[key] for key in order} if set(order) == set(kwargs) else kwargs


def run_itself(module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
    """The module's return value. Raises UserError if the module itself fails."""
    try:
        with state_kept(module):
            return module(*_clone(args), **_clone(kwargs))
    except Exception as error:  # the user's own code
        raise UserError(
            f"the module itself raises {type(error).__name__}: {_line(error)}; fix the call"
        ) from error


@contextlib.contextmanager
def state_kept(module: torch.nn.Module) -> Iterator[None]:
    """Restore attributes of the module and its submodules, and values of its buffers, afterwards.

    Changes inside lists or dicts of the module are not undone.
    """
    tables = ("_buffers", "_parameters")
    kept = [
        (part, dict(vars(part)), {name: dict(vars(part)[name]) for name in tables})
        for part in module.modules()
    ]
    values = [(one, one.detach().clone()) for one in module.buffers()]
    try:
        yield
    finally:
        for part, attributes, tensors in kept:
            vars(part).clear()
            vars(part).update(attributes)
            for name in tables:
                vars(part)[name].clear()
                vars(part)[name].update(tensors[name])
        with torch.no_grad():
            for one, value in values:
                one.copy_(value)


def _clone(value: Any) -> Any:
    return pytree.tree_map(lambda one: one.detach().clone() if isinstance(one, torch.Tensor) else one, value)


def _label(module: Callable[..., Any]) -> str:
    named = type(module) if isinstance(module, torch.nn.Module) else module
    name = getattr(named, "__name__", "function")
    return name if name.isidentifier() else "function"


def _explain(reasons: Sequence[Exception]) -> UserError:
    """The most informative reason, in one line."""
    known = [one for one in reasons if isinstance(one, UserError)]
    if known:
        return known[0]
    text = " ".join(str(one) for one in reasons)
    counted = next((one.func for one in reasons if isinstance(one, DynamicOutputShapeException)), None)
    if counted is not None:
        return UserError(f"{counted} makes a size of the values of tensors; leave that part outside")
    if "data-dependent" in text.lower() or "GuardOnDataDependent" in text:
        return UserError(
            "its shapes or branches depend on the values of tensors; leave that part outside, or use torch.where"
        )
    if stranger := re.search(r"Unsupported input type <class '([^']+)'>", text):
        kind = stranger[1].rpartition(".")[2]
        return UserError(
            f"an input is a {kind}; pass tensors and numbers, alone or in tuples, lists, dicts or dataclasses"
        )
    if stranger := re.search(r"Found <class '([^']+)'> in output", text):
        kind = stranger[1].rpartition(".")[2]
        return UserError(
            f"it returns a {kind}; return tensors, alone or in tuples, lists, dicts or dataclasses"
        )
    error = reasons[0]
    return UserError(
        f"it cannot be traced: {type(error).__name__}: {_line(error)}; see torch.export's documentation"
    )


def _line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else "no message")[:200]
