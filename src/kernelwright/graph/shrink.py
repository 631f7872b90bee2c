"""Smaller sizes for a captured graph, so that a judge without a GPU can interpret kernels for it in seconds.

    small = shrink(captured.graph, captured.part.arguments)
    small.graph       the same graph with its free sizes as symbols; at their hints it is the captured graph exactly
    small.shapes      {"small": {"s0": 2, ...}, "small_odd": {"s0": 3, ...}}: values of the symbols, tried by running

A captured graph has numbers where the module had sizes: in reshapes, slices, bounds of unrolled loops. To find which may
vary, we follow every dimension through the graph (`shape_rules.py`): dimensions that must be equal share one unknown, a
product of two is a product of two unknowns, and what no rule understands keeps its number. Scalars computed from sizes,
such as 1/sqrt(d), keep theirs, too: the small graph is another member of a family, not the module at
another size, and a kernel that is right for both is right for the captured one.

`small` is rounded, `small_odd` is not; different sizes get different numbers, so that confusing them shows. Each set is
run before it is returned; if it fails, larger ones are tried, and if all fail there is none.

A size that the arguments do not determine (heads and head size, where weights only have their product) keeps its number,
so that the small graph can be run from its arguments alone.

Does not guarantee to find every free size.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch

from kernelwright.drawing import DRAWING
from kernelwright.errors import UserError
from kernelwright.graph import draws, operators, sizes
from kernelwright.graph.dims import Expr, Unknowns, as_expr
from kernelwright.graph.execute import execute
from kernelwright.graph.shape_rules import Rules
from kernelwright.graph.task import drawn_values
from kernelwright.graph.types import (
    Argument,
    Dim,
    Graph,
    Node,
    NumberType,
    Operand,
    Ref,
    Size,
    Symbol,
    TensorType,
    Value,
)  # fmt: skip

_TRIED = 16
"""Most ways to pair a graph's own symbols with those found."""
_FEW = 4
"""Sizes up to which an odd set keeps the captured one."""
ELEMENTS, PRODUCTS = 1 << 18, 1 << 24
"""Most elements of all values together, and most multiplications of contractions, in a small set."""
_TILES = (128, 64, 32)
"""Tile sizes of contractions: we use the largest at which a set that it divides is small enough."""
_FEATURES, _ODD_FEATURES = (96, 128, 80, 112, 72, 104, 88, 64), (75, 101, 67, 93, 83, 57, 109, 71)
_ALONE = (8, 11)
"""Channels of a depthwise convolution."""
_PLACES, _ODD_PLACES = (24, 20, 28, 16, 32, 12), (19, 13, 17, 9, 23, 11)
_ROWS, _BATCH, _FACTOR, _LAST = (40, 37), (2, 3), (2, 3), (16, 5)
"""(small, odd): rows of matrices, batches, factors of products such as heads, and the last factor such as a head's size."""


@dataclasses.dataclass(frozen=True)
class Shrunk:
    """A graph with symbols, and values for them."""

    graph: Graph
    shapes: dict[str, dict[str, int]]


Ties = Sequence[Sequence[tuple[str, int]]]
"""Groups of (argument, dimension) that always have the same size."""


def shrink(
    graph: Graph,
    values: Mapping[str, Any] | None = None,
    ties: Ties = (),
    kept: Collection[tuple[str, int]] = (),
) -> Shrunk:
    """The graph with its free sizes as symbols, and those sets of `small`, `small_odd` and (with contractions) `small_even` that run.

    `values` are those of the capture, which determine how arguments are drawn; `ties` and `kept` are as in `generalise`. Symbols
    that the graph has already keep name and range; if they cannot, the graph is not changed.
    """
    general = with_symbols(graph, kept, (*ties, *_equal_by_name(graph)))
    if graph.symbols:
        general = _with_own_symbols(general, graph) or graph
    found = running(general, values) if general.symbols else {}
    if not found and general.symbols and not graph.symbols:
        general = _without_held(general, values)
        found = running(general, values) if general.symbols else {}
    return Shrunk(general, found)


def _without_held(general: Graph, values: Mapping[str, Any] | None) -> Graph:
    """The graph with those symbols as numbers that alone, all others at the captured size, keep it from running: numbers in it, such
    as the rank of a quantile or the last place of an image, are computed from them."""
    described = draws.describe(general, values)
    hints = {one.name: one.hint for one in general.symbols}
    small = next(_proposals(general, False), {})
    held = {
        name: hint
        for name, hint in hints.items()
        if not runs(general, {**hints, name: small.get(name, hint)}, described, values or {})
    }
    return sizes.fix_symbols(general, held) if held else general


def _equal_by_name(graph: Graph) -> Ties:
    """The dimensions of a graph's arguments that its own symbols say are equal."""
    places: dict[Dim, list[tuple[str, int]]] = {}
    for one in graph.arguments:
        for at, size in enumerate(one.type.shape if isinstance(one.type, TensorType) else ()):
            if isinstance(size, str):
                places.setdefault(size, []).append((one.name, at))
    return [found for found in places.values() if len(found) > 1]


def freed(graph: Graph) -> Graph | None:
    """The graph with a symbol for every free size of its tensors in place of its own symbols, and without number arguments that only
    told these; None if it is another graph at other sizes than the captured ones."""
    general = with_symbols(graph)
    read = {name for node in general.nodes for name in node.refs()} | {*general.results}
    told = tuple(one for one in general.arguments if isinstance(one.type, TensorType) or one.name in read)
    general = general.model_copy(update={"arguments": told})
    for more in (1, 5):
        other = {one.name: min(one.hint + more, one.most or one.hint + more) for one in graph.symbols}
        fixed = sizes.static(graph, other)
        shapes = {one.name: one.type.shape for one in fixed.arguments if isinstance(one.type, TensorType)}
        try:
            bound = sizes.bind(general, shapes, {})  # type: ignore[arg-type]
        except ValueError:
            return None
        if sizes.static(general, bound).nodes != fixed.nodes:
            return None
    return general


def _with_own_symbols(general: Graph, graph: Graph) -> Graph | None:
    """`general` with the names and ranges of the symbols that `graph` has already; None if one has no counterpart, so that the two
    differ at other sizes than the captured ones."""
    own, made = ({one.name: one for one in which.symbols} for which in (graph, general))
    pairs = [
        (sizes.symbols_of(size), sizes.symbols_of(dim))
        for old, new in zip(graph.arguments, general.arguments, strict=True)
        if isinstance(old.type, TensorType) and isinstance(new.type, TensorType)
        for size, dim in zip(old.type.shape, new.type.shape, strict=True)
    ]
    counterparts = {
        name: [
            other
            for other, found in made.items()
            if found.hint == symbol.hint and any(name in old and other in new for old, new in pairs)
        ]
        for name, symbol in own.items()
    }
    for chosen in itertools.islice(itertools.product(*counterparts.values()), _TRIED):
        names = dict(zip(chosen, own, strict=True))
        if len(names) == len(own) and all(_same_at(general, graph, names, more) for more in (1, 5)):
            return _renamed(general, names, own)
    return None


def _same_at(general: Graph, graph: Graph, names: Mapping[str, str], more: int) -> bool:
    """Whether both are the same graph where the symbols of `graph` are larger than captured."""
    other = {one.name: min(one.hint + more, one.most or one.hint + more) for one in graph.symbols}
    return sizes.static(general, {new: other[name] for new, name in names.items()}) == sizes.static(
        graph, other
    )


def _renamed(general: Graph, names: Mapping[str, str], own: Mapping[str, Symbol]) -> Graph:
    """`general` with those names for its symbols, `own` symbols in their place, and unused names for the others."""
    unused = (f"s{number}" for number in itertools.count() if f"s{number}" not in own)
    new = {one.name: names.get(one.name) or next(unused) for one in general.symbols}
    symbols = tuple(
        own.get(new[one.name]) or one.model_copy(update={"name": new[one.name]}) for one in general.symbols
    )
    renamed = sizes.rewrite_sizes(general, lambda size: sizes.substitute(size, new))
    return renamed.model_copy(update={"symbols": symbols})


def running(general: Graph, values: Mapping[str, Any] | None = None) -> dict[str, dict[str, int]]:
    """Small sizes of a graph's symbols at which it runs, by shape set."""
    described = draws.describe(general, values)
    least = {one.name: one.least for one in general.symbols}
    found: dict[str, dict[str, int]] = {}
    for name, odd in (("small", False), ("small_odd", True)):
        for proposal in _proposals(general, odd):
            chosen = {symbol: max(size, least[symbol]) for symbol, size in proposal.items()}
            if chosen not in found.values() and runs(general, chosen, described, values or {}):
                found[name] = chosen
                break
    for tile in _TILES if "small" in found else ():
        even = sizes_in_tiles(general, found["small"], tile)
        if even is not None and _within(general, even):
            if runs(general, even, described, values or {}):
                found["small_even"] = even
            break
    return found


def sizes_in_tiles(graph: Graph, small: Mapping[str, int], tile: int = 128) -> dict[str, int] | None:
    """Sizes at which summed dimensions of contractions (and, with only one contraction, rows of its operands) leave the same remainder
    by a tile as at full size, so that kernels take the same branches; the others are at most those of `small`. None without
    contractions, and if the set equals `small`."""
    contractions = [node for node in graph.nodes if operators.kind(node.op) == "contraction"]
    types, hints = graph.types(), {one.name: one.hint for one in graph.symbols}
    chosen = {name: min(small[name], 9) for name in hints}
    fixed: set[str] = set()
    for size in (one for node in contractions for one in _sum(node, types, rows=len(contractions) == 1)):
        names = [name for _, names in terms_of(size) for name in names]
        for name in reversed(names):  # the last factor first: heads come before head size
            if name in fixed:
                continue
            fixed.add(name)
            if len(names) == 1 or name == names[-1]:
                chosen[name] = hints[name] if hints[name] < tile + 16 else hints[name] % tile or tile
            else:
                chosen[name] = _alike(size, name, chosen, hints, tile)
    return chosen if contractions and chosen != dict(small) else None


def _sum(node: Node, types: Mapping[str, Any], rows: bool) -> Iterator[Dim]:
    """The summed dimensions of a contraction; with `rows` the last two dimensions of each operand."""

    def shape(name: str) -> tuple[Dim, ...]:
        kind = types[name]
        return kind.shape if isinstance(kind, TensorType) else ()

    # The input's gradient sums over filters, the weights' over images and positions.
    if "convolution_backward" in node.op:
        made, _, filters = (shape(one.ref) for one in node.args[:3] if isinstance(one, Ref))
        if node.outputs[0] is None:
            yield "*".join(map(str, (made[0], *made[2:])))
        elif filters[1] != 1:
            yield made[1]
        return
    if "conv" in node.op:
        weight = node.args[1]
        yield from shape(weight.ref)[1:2] if isinstance(weight, Ref) else ()
        return
    given = [shape(name) for name in node.refs()]
    if rows:
        yield from (size for one in given for size in one[-2:])
    elif "attention" in node.op:
        yield from (*given[0][-1:], *given[1][-2:])
    else:
        first = 1 if "add" in node.op else 0
        yield from given[first][-1:]


def _alike(size: Dim, name: str, chosen: Mapping[str, int], hints: Mapping[str, int], tile: int) -> int:
    """The least value of a symbol at which a size has the same remainder by a tile as at full size."""
    full = sizes.evaluate(size, hints) % tile
    for one in (*range(min(2, hints[name]), min(hints[name], 64) + 1), 1):
        if sizes.evaluate(size, {**chosen, name: one}) % tile == full:
            return one
    return chosen[name]


def with_symbols(graph: Graph, kept: Collection[tuple[str, int]] = (), ties: Ties = ()) -> Graph:
    """Like `generalise`; symbols that the arguments do not determine become numbers."""
    return sizes.tellable(generalise(graph, kept, ties))


def generalise(graph: Graph, kept: Collection[tuple[str, int]] = (), ties: Ties = ()) -> Graph:
    """The graph with a symbol for every size that may vary; at the symbols' hints it is `graph` at its own. `kept` are (argument,
    dimension) that stay numbers, such as the number of an operator's results; `ties` are as defined above."""
    fixed = sizes.static(graph, {})
    unknowns = Unknowns()
    contractions = [node for node in fixed.nodes if operators.kind(node.op) == "contraction"]
    rules = Rules(unknowns, alone=len(contractions) == 1)
    for one in fixed.arguments:
        if isinstance(one.type, TensorType):
            rules.shapes[one.name] = [unknowns.fresh(int(size)) for size in one.type.shape]
            if one.type.strides is not None and _memory_order(one.type) is None:
                unknowns.pin(*rules.shapes[one.name])
    unknowns.pin(*(rules.shapes[name][dim] for name, dim in kept))
    for tied in ties:
        first, *others = (rules.shapes[name][dim] for name, dim in tied)
        for other in others:
            unknowns.unify(first, other)
    written = [rules.apply(node) for node in fixed.nodes]
    _pin_what_no_argument_has(fixed, rules)
    general = _Writer(fixed, rules).graph(written)
    return general if sizes.static(general, {}) == fixed else fixed


def scaled_by(graph: Graph) -> list[tuple[str, int]]:
    """(argument, dimension) pairs of a static graph whose size's root, or its inverse, occurs as a number: a scale there that a
    kernel may compute from the size."""

    def numbers(value: object) -> Iterator[float]:
        if isinstance(value, tuple):
            for one in value:
                yield from numbers(one)
        elif isinstance(value, float) and value > 0.0:
            yield value

    held = [
        one for node in graph.nodes for one in numbers((*node.args, *(value for _, value in node.kwargs)))
    ]

    def scales(size: int) -> bool:
        return any(math.isclose(one, size**power) for one in held for power in (0.5, -0.5))

    return [
        (one.name, dim)
        for one in graph.arguments
        if isinstance(one.type, TensorType)
        for dim, size in enumerate(one.type.shape)
        if isinstance(size, int) and size > 1 and scales(size)
    ]


def counted_to(graph: Graph, ties: Ties = ()) -> list[tuple[str, int]]:
    """(argument, dimension) pairs of a static graph whose size, or size - 1 for offsets, is the length of an `arange` that no rule
    relates to it: at other sizes the `arange` would keep its length."""
    general = generalise(graph, ties=ties)
    ends = {
        size
        for node in general.nodes
        if operators.packet(node.op) == "arange"
        for one in node.outputs
        if one is not None and isinstance(one.type, TensorType)
        for size in one.type.shape
        if isinstance(size, int) and size > 1
    }
    return [
        (old.name, dim)
        for old, new in zip(graph.arguments, general.arguments, strict=True)
        if isinstance(old.type, TensorType) and isinstance(new.type, TensorType)
        for dim, (size, free) in enumerate(zip(old.type.shape, new.type.shape, strict=True))
        if isinstance(size, int) and size != free and ends & {size, size - 1}
    ]


def cut_into(graph: Graph, values: Mapping[str, Any] | None) -> list[tuple[str, int]]:
    """(argument, dimension) pairs with a size at which offsets among `values` end; the offsets are drawn with the same end at all sizes."""
    ends = set(draws.offsets(graph, values or {}).values())
    return [
        (one.name, dim)
        for one in graph.arguments
        if isinstance(one.type, TensorType)
        for dim, size in enumerate(one.type.shape)
        if size in ends
    ]


def runs(
    graph: Graph, symbols: Mapping[str, int], described: Mapping[str, draws.Draw], numbers: Mapping[str, Any]
) -> bool:
    """Whether the graph runs at those sizes and gives the shapes that its types say."""
    try:
        small = sizes.static(graph, symbols)
    except ValueError:  # a size below zero
        return False
    types = small.types()
    with DRAWING, torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        try:
            results = execute(small, drawn_values(graph, described, numbers, symbols))
        except (UserError, RuntimeError):
            return False
    for name, result in zip(small.results, results, strict=True):
        kind = types[name]
        if isinstance(kind, TensorType) and tuple(result.shape) != kind.shape:
            return False
    return True


def _pin_what_no_argument_has(graph: Graph, rules: Rules) -> None:
    """Pin unknowns that occur in no argument's size, since a caller could not choose them."""
    while True:
        own = {
            name
            for one in graph.arguments
            for expr in rules.shapes.get(one.name, [])
            for name in rules.unknowns.now(expr).unknowns
        }
        loose = [
            expr
            for shape in rules.shapes.values()
            for expr in shape
            if rules.unknowns.now(expr).unknowns - own
        ]
        if not loose:
            return
        for expr in loose:
            for name in rules.unknowns.now(expr).unknowns - own:
                rules.unknowns.pin(Expr(((1, (name,)),)))


class _Writer:
    """Writes the graph again, with expressions for sizes."""

    def __init__(self, graph: Graph, rules: Rules) -> None:
        self.old, self.rules = graph, rules
        self.names: dict[str, str] = {}

    def graph(self, written: list[tuple[Any, ...]]) -> Graph:
        arguments = tuple(self._argument(one) for one in self.old.arguments)
        nodes = tuple(self._node(node, args) for node, args in zip(self.old.nodes, written, strict=True))
        symbols = tuple(
            Symbol(name=new, hint=self.rules.unknowns.hints[old]) for old, new in self.names.items()
        )
        return self.old.model_copy(update={"arguments": arguments, "nodes": nodes, "symbols": symbols})

    def _dim(self, expr: Expr | int) -> Dim:
        expr = self.rules.unknowns.now(as_expr(expr))
        number = expr.constant
        if number is not None:
            return number
        text = ""
        for coefficient, unknowns in expr.terms:
            for one in unknowns:
                self.names.setdefault(one, f"s{len(self.names)}")
            factors = [str(abs(coefficient))] if abs(coefficient) != 1 or not unknowns else []
            factors += [self.names[one] for one in unknowns]
            sign = ("-" if coefficient < 0 else "") if not text else (" - " if coefficient < 0 else " + ")
            text += sign + "*".join(factors)
        return text

    def _operand(self, value: Any) -> Operand:
        if isinstance(value, Expr):
            size = self._dim(value)
            return Size(size=size) if isinstance(size, str) else size
        if isinstance(value, tuple):
            return tuple(self._operand(one) for one in value)
        made: Operand = value
        return made

    def _type(self, name: str, old: TensorType | NumberType) -> TensorType | NumberType:
        if not isinstance(old, TensorType):
            return old
        shape = self.rules.shapes[name]
        dims = tuple(map(self._dim, shape))
        strides = old.strides
        order = None if strides is None else _memory_order(old)
        if order is not None:
            steps: dict[int, Expr] = {}
            step = as_expr(1)
            for at in reversed(order):
                steps[at] = step
                step = step * self.rules.unknowns.now(shape[at])
            strides = tuple(self._dim(steps[at]) for at in range(len(shape)))
        return old.model_copy(update={"shape": dims, "strides": strides})

    def _argument(self, one: Argument) -> Argument:
        return one.model_copy(update={"type": self._type(one.name, one.type)})

    def _node(self, node: Node, args: tuple[Any, ...]) -> Node:
        outputs: list[Value | None] = [
            None if one is None else one.model_copy(update={"type": self._type(one.name, one.type)})
            for one in node.outputs
        ]
        return node.model_copy(update={"args": tuple(map(self._operand, args)), "outputs": tuple(outputs)})


def _memory_order(type: TensorType) -> list[int] | None:
    """Dimensions from slow to fast if the strides are those of a permuted contiguous tensor; None if not, or if dimensions of size 1
    leave it open."""
    assert type.strides is not None
    strides, shape = [int(one) for one in type.strides], [int(one) for one in type.shape]
    order = sizes.slow_to_fast(strides)
    return order if sizes.is_packed(shape, strides, order) else None


def _proposals(graph: Graph, odd: bool) -> Iterator[dict[str, int]]:
    """Values of the symbols, the smallest set first, then larger ones, each within the captured sizes."""
    hints = {one.name: one.hint for one in graph.symbols}
    wanted = _sizes_by_use(graph, odd)
    yield _bound_sizes(graph, wanted, hints)
    yield _bound_sizes(graph, {name: max(1, hint // 4 + odd) for name, hint in hints.items()}, hints)
    own = _in_weights(graph)
    yield {name: hint if name in own else wanted[name] for name, hint in hints.items()}
    yield {name: max(1, hint // 2) if name not in own else hint for name, hint in hints.items()}


def _sizes_by_use(graph: Graph, odd: bool) -> dict[str, int]:
    """Sizes by the role of a symbol: batch, rows, position in a sequence or image, feature, factor of a product."""
    terms = [
        (argument, place, coefficient, names)
        for argument in graph.arguments
        if isinstance(argument.type, TensorType)
        for place, size in enumerate(argument.type.shape)
        for coefficient, names in terms_of(size)
    ]
    weights = _in_weights(graph)
    alone = {
        str(one.size)
        for node in graph.nodes
        if "convolution" in node.op
        for one in node.args
        if isinstance(one, Size)
    }
    features = iter((_ODD_FEATURES if odd else _FEATURES) * len(graph.symbols))
    places = iter((_ODD_PLACES if odd else _PLACES) * len(graph.symbols))
    found = {}
    for symbol in graph.symbols:
        name, hint = symbol.name, symbol.hint
        mine = [term for term in terms if name in term[3]]
        times = min((coefficient for _, _, coefficient, _ in mine), default=1)
        together = [names for _, _, _, names in mine if len(names) > 1]
        leads = any(place == 0 and one.role == "input" for one, place, _, _ in mine)
        flat = all(len(one.type.shape) <= 2 for one, _, _, _ in mine if isinstance(one.type, TensorType))
        if together:
            last = any(names[-1] == name for names in together)
            size = (_LAST if last else _FACTOR)[odd]
            size = max(2, size // times) if last else size
        elif name in alone:
            size = _ALONE[odd]
        elif name in weights:
            size = max(1, next(features) // times)
        elif leads:
            size = (_ROWS if flat else _BATCH)[odd]
        else:
            size = max(1, next(places) // times)
        below = hint - 1 if hint % 2 == 0 else hint - 2  # the next odd number
        found[name] = min(size, below if odd and hint > _FEW else hint)
    return found


def _in_weights(graph: Graph) -> set[str]:
    own = [one.type for one in graph.arguments if one.role != "input"]
    return {
        name
        for kind in own
        if isinstance(kind, TensorType)
        for size in kind.shape
        for name in sizes.symbols_of(size)
    }


def terms_of(size: Dim) -> list[tuple[int, tuple[str, ...]]]:
    """Coefficient and symbols of each term of a sum of products; any other formula counts as one term with all of its symbols."""
    if not sizes.is_sum_of_products(str(size)):
        return [(1, tuple(sizes.symbols_in_order(str(size))))]
    found = []
    for term in str(size).replace(" - ", " + ").split(" + "):
        factors = term.strip().lstrip("-").split("*")
        numbers = [int(one) for one in factors if one.isdigit()]
        found.append((math.prod(numbers), tuple(one for one in factors if not one.isdigit())))
    return found


def _bound_sizes(graph: Graph, wanted: dict[str, int], hints: Mapping[str, int]) -> dict[str, int]:
    """Reduce the largest size again and again until the graph is small enough."""
    chosen = dict(wanted)
    for _ in range(64):
        if _within(graph, chosen):
            break
        name = max(chosen, key=lambda one: chosen[one])
        if chosen[name] <= 2:
            break
        chosen[name] = max(2, chosen[name] * 2 // 3)
    return {name: min(size, hints[name]) for name, size in chosen.items()}


def _within(graph: Graph, symbols: Mapping[str, int]) -> bool:
    """Whether elements and multiplications are within the limits."""
    elements, products = work(graph, symbols)
    return elements <= ELEMENTS and products <= PRODUCTS


def work(graph: Graph, symbols: Mapping[str, int]) -> tuple[int, int]:
    """(elements of all values together, multiplications of contractions) at some sizes."""
    types = graph.types()
    at: dict[Dim, int] = {}

    def shape(name: str) -> list[int]:
        kind = types[name]
        dims = kind.shape if isinstance(kind, TensorType) else ()
        for size in dims:
            if size not in at:
                at[size] = sizes.evaluate(size, symbols)
        return [at[size] for size in dims]

    elements = sum(math.prod(max(0, n) for n in shape(name)) for name in types)
    products = 0
    for node in graph.nodes:
        if operators.kind(node.op) == "contraction":
            given = [shape(name) for name in node.refs()]
            backward = "convolution_backward" in node.op
            out = math.prod(
                given[0]
                if backward
                else next((shape(one.name) for one in node.outputs if one is not None), [])
            )
            depth = max((s[-1] for s in given if s), default=1)
            if "convolution" in node.op:
                depth = math.prod(given[1 + backward]) // max(1, given[1 + backward][0])
            products += out * max(1, depth)
    return elements, products
