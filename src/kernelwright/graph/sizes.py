"""Sizes as text: Python expressions over symbols, such as `2*s0 + 1` or `s0//2`; evaluates, substitutes and lists them.

Evaluates only integers, names, + - * // % and unary minus, min and max. Does not simplify.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kernelwright.graph.types import Dim, Graph, NumberType, Operand, Scale, Size, Symbol, TensorType

BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
_CALLS: dict[str, Callable[..., int]] = {"min": min, "max": max}


@functools.lru_cache(maxsize=4096)
def parse(text: str) -> ast.expr:
    """The expression as a tree. Raises ValueError for anything but arithmetic over integers and symbols."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"size {text!r} is not an expression") from error
    for node in ast.walk(tree):
        fine = (
            (isinstance(node, ast.Constant) and type(node.value) is int)
            or (isinstance(node, ast.BinOp) and type(node.op) in BINARY)
            or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub))
            or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS)
            or isinstance(node, ast.Name | ast.operator | ast.unaryop | ast.expr_context)
        )
        if not fine:
            raise ValueError(f"size {text!r} has {type(node).__name__}, which is not arithmetic over sizes")
    return tree


def evaluate(size: Dim, symbols: Mapping[str, int]) -> int:
    """The size as a number. Raises KeyError for a symbol that is not given."""
    return size if isinstance(size, int) else _whole(_number(parse(size), symbols))


def _whole(number: float) -> int:
    """An integer; symbolic numbers are returned unchanged, since converting one would make torch specialise it."""
    return int(number) if isinstance(number, float) else number


@functools.lru_cache(maxsize=4096)
def _expression(text: str) -> Any:
    """The size for sympy, whose own parser is slow; every symbol is a positive integer."""
    import sympy

    def made(node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return sympy.Integer(node.value)
        if isinstance(node, ast.Name):
            return _symbol(node.id)
        if isinstance(node, ast.UnaryOp):
            return -made(node.operand)
        if isinstance(node, ast.BinOp):
            return BINARY[type(node.op)](made(node.left), made(node.right))
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        return {"min": sympy.Min, "max": sympy.Max}[node.func.id](*map(made, node.args))

    return made(parse(text))


def _symbol(name: str) -> Any:
    import sympy

    return sympy.Symbol(name, positive=True, integer=True)


def is_packed(shape: Sequence[int], strides: Sequence[int], order: Sequence[int], ones: bool = False) -> bool:
    """Whether strides are those of a contiguous tensor with its dimensions in `order`, from slow to fast. `ones`: dimensions of
    size 1 may have any stride."""
    expected = 1
    for at in reversed(order):
        if strides[at] != expected and not (ones and shape[at] == 1):
            return False
        expected *= shape[at]
    return True


def slow_to_fast(strides: Sequence[int]) -> list[int]:
    """Dimensions by decreasing stride."""
    return sorted(range(len(strides)), key=lambda at: (-strides[at], at))


def scale(text: str, symbols: Mapping[str, int]) -> float:
    """A float computed from sizes, such as `(s0//2)**-0.5`. Raises ValueError for anything but arithmetic."""
    return float(_number(ast.parse(text, mode="eval").body, symbols))


def _number(node: ast.expr, symbols: Mapping[str, int]) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.Name):
        return symbols[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(node.operand, symbols)
    if isinstance(node, ast.BinOp):
        left, right = _number(node.left, symbols), _number(node.right, symbols)
        if isinstance(node.op, ast.Div):
            return left / right
        if type(node.op) in BINARY:
            made: Callable[..., float] = BINARY[type(node.op)]
            return made(left, right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        return _CALLS[node.func.id](*(_number(one, symbols) for one in node.args))
    raise ValueError(f"{ast.unparse(node)} is not arithmetic over sizes")


def _bracket(size: Dim) -> str:
    return str(size) if isinstance(size, int) or _WORD.fullmatch(size) else f"({size})"


_WORD = re.compile(r"[a-z_][a-z0-9_]*")


def symbols_of(size: Dim) -> set[str]:
    """Names of the symbols in a size."""
    return set() if isinstance(size, int) else set(symbols_in_order(size))


def symbols_in_order(text: str) -> list[str]:
    """Names of the symbols in a size, each once."""
    return [word for word in dict.fromkeys(_WORD.findall(text)) if word not in _CALLS]


def is_sum_of_products(text: str) -> bool:
    """Whether a size is a sum of products of numbers and symbols, without brackets, quotients and powers."""
    return re.fullmatch(r"[\w*+\- ]+", text) is not None and "**" not in text


def substitute(size: Dim, names: Mapping[str, Dim]) -> Dim:
    """The size with symbols replaced; a number if none is left."""
    if isinstance(size, int):
        return size

    def given(word: re.Match[str]) -> str:
        new = names.get(word[0], word[0])
        return str(new) if isinstance(new, int) or _WORD.fullmatch(new) else f"({new})"

    text = _WORD.sub(given, size)
    return text if symbols_of(text) else evaluate(text, {})


def bind(graph: Graph, shapes: Mapping[str, tuple[int, ...]], numbers: Mapping[str, int]) -> dict[str, int]:
    """The value of each symbol of a graph, from its tensors' shapes and the numbers among its arguments.

    A number argument with the name of a symbol gives its value. A symbol that is nowhere a dimension by itself is solved from an
    expression linear in it, else it takes its hint. Raises ValueError if shapes contradict each other
    or the graph.
    """
    found = {one.name: numbers[one.name] for one in graph.symbols if one.name in numbers}
    pending: list[tuple[str, int, Dim, int]] = []
    for argument in graph.arguments:
        if isinstance(argument.type, TensorType) and argument.name in shapes:
            shape = shapes[argument.name]
            if len(shape) != len(argument.type.shape):
                raise ValueError(
                    f"{argument.name} has {len(shape)} dimensions, not {len(argument.type.shape)}"
                )
            pending += [
                (argument.name, at, size, n)
                for at, (size, n) in enumerate(zip(argument.type.shape, shape, strict=True))
            ]
    for _, _, size, number in pending:
        if isinstance(size, str) and _WORD.fullmatch(size):
            found.setdefault(size, number)
    hints = {one.name: one.hint for one in graph.symbols}
    while len(found) < len(hints):
        before = len(found)
        for _, _, size, number in pending:
            missing = symbols_of(size) - set(found)
            if len(missing) == 1:
                name = missing.pop()
                solved = _solve(size, name, number, found)
                if solved is not None:
                    found[name] = solved
        if len(found) == before:  # e.g. heads and head size, where shapes only have their product
            read = {name for _, _, size, _ in pending for name in symbols_of(size)}
            lost = [name for name in hints if name not in found]
            if lost[0] not in read:
                raise ValueError(f"no argument tells the size {lost[0]}")
            found[lost[0]] = hints[lost[0]]
    for name, at, size, number in pending:
        if symbols_of(size) <= set(found) and evaluate(size, found) != number:
            wanted = evaluate(size, found)
            told = f"{size} = {wanted}" if symbols_of(size) else f"{wanted} (captured with that size alone)"
            raise ValueError(f"{name} is {number} long in dimension {at}, where the graph has {told}")
    return found


def _solve(size: Dim, name: str, number: int, known: Mapping[str, int]) -> int | None:
    low, step = (evaluate(size, {**known, name: n}) for n in (1, 2))
    slope = step - low
    if slope == 0 or (number - low) % slope:
        return None
    value = 1 + (number - low) // slope
    return value if evaluate(size, {**known, name: value}) == number else None


def static(graph: Graph, symbols: Mapping[str, int]) -> Graph:
    """The graph at given sizes, without symbols. Symbols that are not given take their hints."""
    names: dict[str, Dim] = {one.name: symbols.get(one.name, one.hint) for one in graph.symbols}
    return rewrite_sizes(graph, lambda size: substitute(size, names)).model_copy(update={"symbols": ()})


def fix_symbols(graph: Graph, symbols: Mapping[str, int]) -> Graph:
    """The graph with some of its symbols at given sizes; the others stay."""
    names: dict[str, Dim] = {one.name: symbols.get(one.name, one.name) for one in graph.symbols}
    left = tuple(one for one in graph.symbols if one.name not in symbols)
    return rewrite_sizes(graph, lambda size: substitute(size, names)).model_copy(update={"symbols": left})


def rewrite_sizes(graph: Graph, change: Callable[[Dim], Dim]) -> Graph:
    """Apply `change` to every size, in types and in operators' arguments."""

    def operand(value: Operand) -> Operand:
        if isinstance(value, Size):
            new = change(value.size)
            return Size(size=new) if isinstance(new, str) else new
        if isinstance(value, Scale):
            text = _WORD.sub(lambda word: _bracket(change(word[0])), value.scale)
            return Scale(scale=text) if _WORD.search(text) else scale(text, {})
        return tuple(operand(one) for one in value) if isinstance(value, tuple) else value

    def typed(value: TensorType | NumberType) -> TensorType | NumberType:
        if not isinstance(value, TensorType):
            return value
        strides = None if value.strides is None else tuple(map(change, value.strides))
        return value.model_copy(update={"shape": tuple(map(change, value.shape)), "strides": strides})

    arguments = tuple(one.model_copy(update={"type": typed(one.type)}) for one in graph.arguments)
    nodes = tuple(
        node.model_copy(
            update={
                "args": tuple(map(operand, node.args)),
                "kwargs": tuple((name, operand(value)) for name, value in node.kwargs),
                "outputs": tuple(
                    None if value is None else value.model_copy(update={"type": typed(value.type)})
                    for value in node.outputs
                ),
            }
        )
        for node in graph.nodes
    )
    return graph.model_copy(update={"arguments": arguments, "nodes": nodes})


def independent(graph: Graph) -> Graph:
    """The graph with symbols that its own arguments determine: named by position; products that only occur as a whole become one symbol.

    A part of a larger graph may determine `s0*s1` rows but not `s0`; then one symbol replaces the product. If that fails, the graph
    keeps its symbols; if its arguments determine them all, they are named in order of occurrence, after dividing out the factor
    common to all of a symbol's terms.
    """
    if not graph.symbols:
        return graph
    numbers = any(not isinstance(one.type, TensorType) for one in graph.arguments)
    apart = untold(graph)
    plain = not numbers and not apart
    graph = graph if numbers else _without_factors(graph, apart)
    hints = {one.name: one for one in graph.symbols}
    shapes = [size for one in graph.arguments if isinstance(one.type, TensorType) for size in one.type.shape]
    texts = list(dict.fromkeys(size for size in shapes if isinstance(size, str)))
    for parts in (False, True):
        try:
            return _in_terms_of(graph, _told(texts, hints, parts))
        except KeyError:
            continue
    return in_order(graph)[0] if plain else graph


def _told(texts: Sequence[str], hints: Mapping[str, Symbol], parts: bool) -> dict[Any, Symbol]:
    """What the sizes of arguments tell, as expressions: symbols, and what has none of these as a whole. With `parts` also the one
    symbol of a multiple, of which other sizes are other multiples."""
    alone = {
        text: name
        for text in texts
        if parts and text not in hints and len(symbols_of(text)) == 1
        for name in symbols_of(text)
        if _linear(text, name)
    }
    told = {text for text in texts if text in hints} | {*alone.values()}
    whole: dict[Any, Symbol] = {}
    for text in texts:
        if (name := alone.get(text, text)) in hints:
            whole.setdefault(_symbol(name), hints[name])
        elif not symbols_of(text) & told and "//" not in text and "%" not in text:
            hint = evaluate(text, {name: one.hint for name, one in hints.items()})
            whole.setdefault(_expression(text), Symbol(name=text, hint=hint))
    return whole


def _in_terms_of(graph: Graph, whole: Mapping[Any, Symbol]) -> Graph:
    """The graph with a symbol for each of these expressions. Raises KeyError if one of its sizes is no polynomial of them."""
    import sympy

    fresh = {f"s{place}": one for place, one in enumerate(whole.values())}
    swaps = [(was, _symbol(f"new{place}")) for place, was in enumerate(whole)]
    swaps.sort(key=lambda pair: -len(pair[0].free_symbols))

    @functools.cache
    def change(size: Dim) -> Dim:
        if isinstance(size, int):
            return size
        if "//" in size or "%" in size or "(" in size:
            plain = {text: f"s{place}" for place, text in enumerate(one.name for one in whole.values())}
            return substitute(size, {name: plain[name] for name in symbols_of(size)})
        new = _expression(size).subs(swaps)
        left = {str(one) for one in new.free_symbols} - {str(one) for _, one in swaps}
        if left or sympy.fraction(sympy.together(new))[1] != 1:  # half of a symbol is no size
            raise KeyError(str(size))
        return substitute(str(new).replace("new", "s"), {})

    changed = rewrite_sizes(graph, change)
    symbols = tuple(one.model_copy(update={"name": name}) for name, one in fresh.items())
    return changed.model_copy(update={"symbols": symbols})


def in_order(graph: Graph) -> tuple[Graph, dict[str, str]]:
    """The graph with its symbols named in order of occurrence, and the new names by the old ones."""
    names = {name: f"s{at}" for at, name in enumerate(occurring(graph))}
    hints = {one.name: one for one in graph.symbols}
    symbols = tuple(hints[name].model_copy(update={"name": new}) for name, new in names.items())
    changed = rewrite_sizes(graph, lambda size: substitute(size, names))
    return changed.model_copy(update={"symbols": symbols}), names


def _without_factors(graph: Graph, kept: Sequence[str]) -> Graph:
    """The graph with `s0` for `16*s0` if every size with `s0`, which is none of `kept`, is a sum of terms with that factor. So a stride
    of two has sizes 2*s0 and s0 at any depth of a network. One symbol after the other: a factor of `2*s0*s1` belongs to one of the two."""
    factors = dict.fromkeys(occurring(graph), 0)
    for size in _sizes(graph):
        for name in symbols_of(size):
            factors[name] = math.gcd(factors[name], _factor(str(size), name))
    several = (one for one in factors.items() if one[1] > 1 and one[0] not in kept)
    which, factor = next(several, ("", 1))
    if factor == 1:
        return graph
    import sympy

    @functools.cache
    def change(size: Dim) -> Dim:
        if which not in symbols_of(size):
            return size
        divided = _expression(str(size)).subs(_symbol(which), _symbol(which) / factor)
        return substitute(str(sympy.expand(divided)), {})

    symbols = tuple(
        one.model_copy(
            update={
                "hint": factor * one.hint,
                "least": factor * one.least,
                "most": one.most and factor * one.most,
            }
        )
        if one.name == which
        else one
        for one in graph.symbols
    )
    return _without_factors(rewrite_sizes(graph, change).model_copy(update={"symbols": symbols}), kept)


def _factor(size: str, name: str) -> int:
    """The greatest common divisor of a symbol's terms in a sum; 1 if the size is not a plain sum of products."""
    if not is_sum_of_products(size):
        return 1
    terms = [term.strip(" -").split("*") for term in re.split(r" [+-] ", size)]
    return math.gcd(*(math.prod(int(one) for one in term if one.isdigit()) for term in terms if name in term))


def occurring(graph: Graph) -> list[str]:
    """Symbols that occur in the graph's sizes, in order."""
    words = (word for size in _sizes(graph) if isinstance(size, str) for word in _WORD.findall(size))
    return [word for word in dict.fromkeys(words) if word not in _CALLS]


def _sizes(graph: Graph) -> Iterable[Dim]:
    """Every size once, in order."""
    found: dict[Dim, None] = {}

    def noted(size: Dim) -> Dim:
        found[size] = None
        return size

    rewrite_sizes(graph, noted)
    return found


def untold(graph: Graph) -> list[str]:
    """Symbols that neither the shapes of a graph's arguments nor number arguments determine, such as heads and head size where
    weights only have their product. Callers of the graph must know them."""
    known = {one.name for one in graph.arguments if isinstance(one.type, NumberType)}
    shapes = [
        str(dim) for one in graph.arguments if isinstance(one.type, TensorType) for dim in one.type.shape
    ]
    known |= {one.name for one in graph.symbols if one.name in shapes}
    left = [one.name for one in graph.symbols if one.name not in known]
    formulas = [dim for dim in dict.fromkeys(shapes) if symbols_of(dim) and not _WORD.fullmatch(dim)]
    while True:
        found = [name for name in left if any(solve(dim, name, "size", known) for dim in formulas)]
        if not found:
            return left
        known.update(found)
        left = [name for name in left if name not in found]


def tellable(graph: Graph) -> Graph:
    """The graph with undetermined symbols replaced by their hints, one by one, until the arguments determine all that are left."""
    while lost := untold(graph):
        hints = {one.name: one.hint for one in graph.symbols}
        fixed = min(lost, key=lambda name: hints[name])
        symbols = tuple(one for one in graph.symbols if one.name != fixed)
        given = {fixed: hints[fixed]}
        graph = rewrite_sizes(graph, lambda size, given=given: _plain(substitute(size, given)))  # type: ignore[misc]
        graph = graph.model_copy(update={"symbols": symbols})
    return graph


def _plain(size: Dim) -> Dim:
    """`2*8*s4` as `16*s4`."""
    if isinstance(size, int) or not re.search(r"\d.*\d", re.sub(r"[a-z]\w*", "", size)):
        return size
    if "//" in size or "%" in size or "(" in size:
        return size
    return str(_expression(size))


def solve(formula: str, symbol: str, place: str, known: Iterable[str]) -> str | None:
    """An expression for `symbol`, given that `formula`, linear in it, equals the size at `place`; None if it is not linear or has
    symbols that are not `known`."""
    names = symbols_of(formula)
    if symbol not in names or not names - {symbol} <= set(known) or not _linear(formula, symbol):
        return None
    import sympy

    whole, unknown = sympy.expand(_expression(formula)), _symbol(symbol)
    bottom = whole.coeff(unknown, 1)
    top, bottom = sympy.fraction(sympy.together((_symbol("size_") - (whole - bottom * unknown)) / bottom))
    text = f"({top}) // ({bottom})" if bottom != 1 else str(top)
    return re.sub(r"\bsize_\b", place, text)


def readings(graph: Graph) -> Iterator[tuple[str, str, int, str]]:
    """How to read each symbol that is no number argument: `(s0, x, 1, "size_ // 8")` for an `x` that is `8*s0` long in
    dimension 1. A formula may use earlier symbols. Symbols that nothing determines are left out."""
    places = [
        (str(dim), one.name, at)
        for one in graph.arguments
        if isinstance(one.type, TensorType)
        for at, dim in enumerate(one.type.shape)
    ]
    known = {one.name for one in graph.arguments}
    left = [one.name for one in graph.symbols if one.name not in known]
    while left:
        before = len(left)
        for symbol in list(left):
            alone = (("size_", name, at) for dim, name, at in places if dim == symbol)
            solved = ((solve(dim, symbol, "size_", known), name, at) for dim, name, at in places)
            found = next(alone, None) or next((one for one in solved if one[0]), None)
            if found and found[0]:
                yield symbol, found[1], found[2], found[0]
                known.add(symbol)
                left.remove(symbol)
        if len(left) == before:
            return


def _linear(formula: str, symbol: str) -> bool:
    """Whether a sum of products is linear in the symbol."""
    if any(mark in formula for mark in ("//", "%", ",")):
        return False
    others = dict.fromkeys(symbols_of(formula) - {symbol}, 7)
    zero, one, two, three = (evaluate(formula, {**others, symbol: n}) for n in range(4))
    return one != zero and two - one == one - zero and three - two == two - one
