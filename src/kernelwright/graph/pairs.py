"""Complex numbers of an exported program as pairs of real tensors, since graphs have only real ones.

    unfold(program)                        its graph, in place: every complex value becomes its real and its imaginary part
    real_view(tensor)                      a complex argument as the graph takes it: [..., 2]; real ones unchanged

Expands rotations (`view_as_complex(x) * freqs`), sums, products, quotients, exponentials and operators that only move elements;
refuses Fourier transforms, since our sums of products would be slower.

Does not check values: `agree.py` does. Refuses modules that return complex tensors.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from kernelwright.errors import UserError
from kernelwright.graph import operators

REAL = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
_BY_PART = frozenset(("sum", "mean", "neg", "index", "index_select", "gather", "cumsum", "where", "zeros_like", "tril", "triu"))  # fmt: skip
"""Operators besides views and moves that apply to the real and imaginary parts separately."""


class Pair(NamedTuple):
    """A complex tensor or number."""

    re: Any
    im: Any


def tensors_in(tree: Any) -> list[Tensor]:
    """The tensors of a structure of arguments or results, in order."""
    return [one for one in pytree.tree_leaves(tree) if isinstance(one, Tensor)]


def real_view(value: Any) -> Any:
    """A complex tensor's memory as `[..., 2]`, the real part first; anything else unchanged. Conjugates and negatives that torch
    has put off are carried out, in a copy."""
    if not isinstance(value, Tensor):
        return value
    return torch.view_as_real(value.resolve_conj()) if value.is_complex() else value.resolve_neg()


def complex_view(value: Tensor) -> Tensor:
    """The inverse of `real_view`."""
    return torch.view_as_complex(value.contiguous())


def unfold(program: torch.export.ExportedProgram) -> None:
    """Rewrite a decomposed program in place; does nothing if none of its values is complex.

    Raises UserError for operators on complex numbers that have no rule, and for complex results.
    """
    module = program.graph_module
    if not any(is_complex(node.meta.get("val")) for node in module.graph.nodes):
        return
    written = sum(one.kind.name != "USER_OUTPUT" for one in program.graph_signature.output_specs)
    module.graph = _Unfolding(written).run(module.graph)
    module.recompile()


def is_complex(value: Any) -> bool:
    """Whether a value is or contains a complex tensor."""
    return any(isinstance(one, Tensor) and one.is_complex() for one in pytree.tree_leaves(value))


class _Unfolding:
    """Rewrites one graph into another."""

    def __init__(self, written: int) -> None:
        self.graph, self.written = fx.Graph(), written
        self.made: dict[fx.Node, Any] = {}
        """Old node -> new node, or a Pair of them."""
        self.mode: Any = None

    def run(self, old: fx.Graph) -> fx.Graph:
        for node in old.nodes:
            inside = [self.made[one] for one in node.all_input_nodes]
            if node.op == "output":
                self._return(node)
            elif node.target is operator.getitem and isinstance(inside[0], list):
                self.made[node] = inside[0][node.args[1]]
            elif node.op == "call_function" and not node.users:  # a check left behind by torch.export
                continue
            elif node.op == "call_function" and (
                is_complex(node.meta.get("val")) or any(isinstance(one, Pair) for one in inside)
            ):
                self.made[node] = self._call(node)
            else:
                new = self.made[node] = self.graph.node_copy(node, lambda one: self.made[one])
                if is_complex(node.meta.get("val")):
                    new.meta = {**node.meta, "val": torch.view_as_real(node.meta["val"]), "complex": True}
                    self.made[node] = self._trace(_RULES["view_as_complex"], (new,))
        return self.graph

    def _call(self, node: fx.Node) -> Any:
        assert isinstance(node.target, torch._ops.OpOverload)
        args, kwargs = pytree.tree_map(
            lambda one: self.made[one] if isinstance(one, fx.Node) else one, (node.args, node.kwargs)
        )
        return self._trace(_rule(node.target, kwargs), args)

    def _trace(self, rule: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Trace a function of tensors into nodes of the new graph."""
        flat, spec = pytree.tree_flatten(args)
        nodes = [one for one in flat if isinstance(one, fx.Node)]
        form = pytree.tree_structure(None)

        def called(*given: Tensor) -> Any:
            nonlocal form
            values = iter(given)
            filled = [next(values) if isinstance(one, fx.Node) else one for one in flat]
            made, form = pytree.tree_flatten(rule(*pytree.tree_unflatten(filled, spec)))
            return made

        traced = make_fx(called)(*(self._fake(one.meta["val"]) for one in nodes))
        known: dict[fx.Node, fx.Node] = dict(
            zip((one for one in traced.graph.nodes if one.op == "placeholder"), nodes, strict=True)
        )
        for one in traced.graph.nodes:
            if one.op == "call_function":
                known[one] = self.graph.node_copy(one, known.__getitem__)
            elif one.op == "output":
                return pytree.tree_unflatten([known[new] for new in one.args[0]], form)
        raise AssertionError("a traced function has an output")

    def _fake(self, value: Tensor) -> Tensor:
        """The same fake tensor in one mode: placeholders and nodes of a decomposed program have two."""
        self.mode = self.mode or value.fake_mode  # type: ignore[attr-defined]
        if value.fake_mode is self.mode:  # type: ignore[attr-defined]
            return value
        with self.mode:
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)

    def _return(self, node: fx.Node) -> None:
        found = []
        for at, one in enumerate(node.args[0]):  # type: ignore[arg-type]
            new = self.made[one] if isinstance(one, fx.Node) else one
            if isinstance(new, Pair) and at >= self.written:
                raise UserError("it returns a complex tensor; return torch.view_as_real of it")
            found.append(self._trace(_view_as_real, (new,)) if isinstance(new, Pair) else new)
        self.graph.output(tuple(found))


def _rule(target: torch._ops.OpOverload, kwargs: dict[str, Any]) -> Callable[..., Any]:
    """A function that computes an operator on pairs. Raises UserError if there is none."""
    name = operators.packet(f"aten.{target._schema.name.partition('::')[2]}.{target._overloadname}")
    if name in _RULES:
        return lambda *args: _RULES[name](*args, **kwargs)
    kind = operators.kind(f"aten.{name}.default")
    real = {key: REAL.get(one, one) if isinstance(one, torch.dtype) else one for key, one in kwargs.items()}
    if kind == "create":
        return lambda *args: _create(target, real, *args)
    if kind in ("view", "move") or name in _BY_PART:
        return lambda *args: _by_part(target, real, *args)
    if "fft" in name:
        raise UserError("a Fourier transform has no kernel that is as fast; leave it outside")
    raise UserError(f"{name} of complex numbers has no kernel; write it with real and imaginary parts")


def _by_part(target: torch._ops.OpOverload, kwargs: dict[str, Any], *args: Any) -> Any:
    def part(at: int) -> Any:
        taken = pytree.tree_map(lambda one: one[at] if isinstance(one, Pair) else one, args, is_leaf=_is_pair)
        return target(*taken, **kwargs)

    if target._schema.name == "aten::cat":  # real tensors get zeros as imaginary part
        args = ([_pair(one) for one in args[0]], *args[1:])
    if target._schema.name == "aten::where":
        args = (args[0], *map(_pair, args[1:]))
    re, im = part(0), part(1)
    return (
        [Pair(*both) for both in zip(re, im, strict=True)] if isinstance(re, list | tuple) else Pair(re, im)
    )


def _is_pair(one: Any) -> bool:
    return isinstance(one, Pair)


def _create(target: torch._ops.OpOverload, kwargs: dict[str, Any], *args: Any) -> Pair:
    """Tensors filled with one number, such as `full`; a complex fill has two parts."""
    numbers = [at for at, one in enumerate(args) if isinstance(one, complex)]
    first = tuple(one.real if isinstance(one, complex) else one.re if _is_pair(one) else one for one in args)
    re = target(*first, **kwargs)
    im = torch.full_like(re, args[numbers[0]].imag) if numbers else torch.zeros_like(re)
    return Pair(re, im)


def _pair(one: Any) -> Pair:
    """Both parts of a tensor or number."""
    if isinstance(one, Pair):
        return one
    if isinstance(one, complex):
        return Pair(one.real, one.imag)
    return Pair(one, torch.zeros_like(one) if isinstance(one, Tensor) else 0.0)


def _real(one: Any) -> bool:
    return not isinstance(one, Pair | complex)


def _add(a: Any, b: Any, *, alpha: Any = 1, sign: int = 1) -> Pair:
    scale = alpha * sign
    a, b = (_pair(one) for one in (a, b))
    if scale == -1:
        return Pair(a.re - b.re, a.im - b.im)
    if scale != 1:
        b = Pair(b.re * scale, b.im * scale)
    return Pair(a.re + b.re, a.im + b.im)


def _mul(a: Any, b: Any) -> Pair:
    if _real(a) or _real(b):
        (re, im), by = (_pair(b), a) if _real(a) else (_pair(a), b)
        return Pair(re * by, im * by)
    a, b = _pair(a), _pair(b)
    return Pair(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


def _div(a: Any, b: Any) -> Pair:
    if _real(b):
        return Pair(_pair(a).re / b, _pair(a).im / b)
    b = _pair(b)
    size = b.re * b.re + b.im * b.im
    over = _mul(a, Pair(b.re, -b.im))
    return Pair(over.re / size, over.im / size)


def _product(of: Callable[..., Tensor]) -> Callable[..., Pair]:
    def multiply(a: Any, b: Any) -> Pair:
        if _real(a):
            return Pair(of(a, b.re), of(a, b.im))
        if _real(b):
            return Pair(of(a.re, b), of(a.im, b))
        return Pair(of(a.re, b.re) - of(a.im, b.im), of(a.re, b.im) + of(a.im, b.re))

    return multiply


def _pow(a: Any, b: Any) -> Pair:
    if _real(a) or not isinstance(b, int) or not 1 <= b <= 4:
        raise UserError("a power of complex numbers has no kernel but for 1, 2, 3 and 4; write it with exp")
    found = a
    for _ in range(b - 1):
        found = _mul(found, a)
    return found if isinstance(found, Pair) else Pair(*found)


def _polar(size: Any, angle: Any) -> Pair:
    return Pair(size * torch.cos(angle), size * torch.sin(angle))


def _view_as_real(one: Pair) -> Tensor:
    return torch.stack((one.re, one.im), -1)


def _cast(one: Any, *, dtype: Any = None, **_: Any) -> Any:
    if dtype is not None and not dtype.is_complex:  # torch drops the imaginary part, with a warning
        return one.re.to(dtype)
    re, im = _pair(one)
    to = REAL.get(dtype, re.dtype)
    return Pair(re.to(to), im.to(to))


_RULES: dict[str, Callable[..., Any]] = {
    "view_as_complex": lambda x: Pair(x[..., 0], x[..., 1]),
    "view_as_real": _view_as_real,
    "complex": Pair,
    "polar": _polar,
    "real": lambda a: a.re,
    "imag": lambda a: a.im,
    "_conj": lambda a: Pair(a.re, -a.im),
    "_conj_physical": lambda a: Pair(a.re, -a.im),
    "conj_physical": lambda a: Pair(a.re, -a.im),
    "resolve_conj": lambda a: a,
    "resolve_neg": lambda a: a,
    "abs": lambda a: torch.hypot(a.re, a.im),
    "angle": lambda a: torch.atan2(a.im, a.re),
    "exp": lambda a: _polar(torch.exp(a.re), a.im),
    "add": _add,
    "sub": lambda a, b, *, alpha=1: _add(a, b, alpha=alpha, sign=-1),
    "rsub": lambda a, b, *, alpha=1: _add(b, a, alpha=alpha, sign=-1),
    "mul": _mul,
    "div": _div,
    "reciprocal": lambda a: _div(1.0, a),
    "pow": _pow,
    "mm": _product(torch.mm),
    "bmm": _product(torch.bmm),
    "matmul": _product(torch.matmul),
    "_to_copy": _cast,
}
