"""Determines which sizes of a graph vary together: symbolic shapes of all primitives, from the arguments' shapes.

In a graph with symbols, integers are constants. Without symbols, every dimension of an argument may vary, and two are equal if an
operator requires it; integers given to a view are constants.
"""

from __future__ import annotations

import dataclasses
import math
import re

from kernelwright.graph.types import NumberType, TensorType
from kernelwright.synth.lowering import Lowered
from kernelwright.synth.primitives import REDUCTIONS, Prim
from kernelwright.synth.sizes import ONE, Size, parse, product, size_of

Shape = tuple[Size, ...]


@dataclasses.dataclass
class Symbol:
    """A varying size: how the host computes it, and its value at capture."""

    host: str
    hint: int
    argument: tuple[str, int] | None = None
    """The argument and dimension that it is read from, if any."""


class Shapes:
    """Symbolic shapes by value name. `size.value(shapes.hints())` gives the number at capture."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.symbols: dict[str, Symbol] = {}
        self.of: dict[str, Shape] = {}
        self._bound: dict[str, Size] = {}
        self._renamed: dict[str, Size] = {}
        self._types = lowered.graph.types() if lowered.graph.symbols else {}
        for _ in range(2):
            self._arguments()
            for prim in lowered.prims:
                self.of[prim.out.name] = self._of(prim)
        for name, symbol in self.symbols.items():
            if not symbol.host and name not in self._bound:
                self._bound[name] = Size.of(symbol.hint)
        self.of = {name: self.canonical(shape) for name, shape in self.of.items()}

    def hints(self) -> dict[str, int]:
        """Sizes at capture, by symbol."""
        return {name: symbol.hint for name, symbol in self.symbols.items()}

    def now(self, number: int) -> Size:
        """A primitive's number as a size, under the symbols' current names."""
        return self._root(size_of(number)).replace(self._renamed)

    def canonical(self, shape: Shape) -> Shape:
        return tuple(self._root(size) for size in shape)

    def rename(self, wanted: dict[str, str]) -> None:
        """Rename symbols everywhere. Host texts contain only arguments, and symbols in braces."""
        by = self._renamed = {old: Size.of(new) for old, new in wanted.items()}
        self.symbols = {wanted.get(name, name): symbol for name, symbol in self.symbols.items()}
        self.of = {name: tuple(size.replace(by) for size in shape) for name, shape in self.of.items()}
        for symbol in self.symbols.values():
            for old, new in wanted.items():
                symbol.host = symbol.host.replace("{" + old + "}", "{" + new + "}")

    def name_sums(self) -> None:
        """Name each size that is a sum, such as a window's output size: indices over `B * P * Q` are shorter than over
        `B * (H - 2) * (W - 2)`. If some sizes are sums of products, nothing is renamed."""
        sums = {size for shape in self.of.values() for size in shape if len(size.terms) > 1}
        if any(len(names) > 1 for size in sums for names, _ in size.terms):
            return
        by: dict[Size, Size] = {}
        for size in sorted(sums, key=Size.text):
            name = f"sum{len(by)}"
            self.symbols[name] = Symbol(_put_in_braces(size.text(), size), size.value(self.hints()))
            by[size] = Size.of(name)
        self.of = {name: tuple(by.get(size, size) for size in shape) for name, shape in self.of.items()}

    def _arguments(self) -> None:
        free, products = not self.lowered.graph.symbols, list[tuple[Size, str]]()
        for argument in self.lowered.graph.arguments:
            if isinstance(argument.type, NumberType):
                self.symbols.setdefault(
                    argument.name, Symbol(argument.name, self.lowered.hints[argument.name])
                )
                continue
            sizes = []
            for dim, size in enumerate(argument.type.shape):
                hint = self.lowered.number(size)
                host = f"{argument.name}.shape[{dim}]"
                if isinstance(size, str):
                    made = parse(size)
                    if made is not None and size.isidentifier():
                        known = self.symbols.get(size)
                        if known is None or known.argument is None:
                            self.symbols[size] = Symbol(host, hint, (argument.name, dim))
                    elif made is not None:
                        self._factor(made, host)
                        products.append((made, host))
                    sizes.append(
                        made if made is not None else self._fresh(f"{argument.name}_{dim}", hint, host)
                    )
                elif free and size != 1:
                    sizes.append(self._fresh(f"{argument.name}_{dim}", hint, host, (argument.name, dim)))
                else:
                    sizes.append(Size.of(size))
            self.of[argument.name] = self.canonical(tuple(sizes))
        for _ in products:
            for made, host in products:
                self._factor(made, host)

    def _factor(self, made: Size, host: str) -> None:
        """Solve a dimension for its only unknown symbol, if it is a product of that and known symbols, plus a constant."""
        offset = _offset(made)
        rest = (made - offset).terms
        unknown = [name for name in rest[0][0] if name not in self.symbols] if len(rest) == 1 else []
        if len(unknown) == 1:
            others = Size({tuple(name for name in rest[0][0] if name != unknown[0]): rest[0][1]})
            top = f"({host} {'-' if offset > 0 else '+'} {abs(offset)})" if offset else host
            by = _put_in_braces(others.text(tight=True), others)
            self.symbols[unknown[0]] = Symbol(f"{top} // {by}", self.lowered.hints[unknown[0]])

    def _fresh(self, name: str, hint: int, host: str = "", argument: tuple[str, int] | None = None) -> Size:
        """A new symbol; the same one on repeated calls."""
        if hint == 1:
            return ONE
        if name not in self.symbols:
            self.symbols[name] = Symbol(host, hint, argument)
        return self._root(Size.of(name))

    def _root(self, size: Size) -> Size:
        while (now := size.replace(self._bound)) is not size:
            size = now
        return size

    def join(self, left: Size, right: Size) -> Size:
        """Record that two sizes are equal; returns their common name."""
        left, right = self._root(left), self._root(right)
        if left in (right, ONE) or right == ONE:
            return right if left == ONE else left
        a, b = _symbol(left), _symbol(right)
        if (
            b is not None
            and (a is None or self.symbols[a].host or not self.symbols[b].host)
            and b not in left.symbols
        ):
            self._bound[b] = left
            return left
        if a is not None and a not in right.symbols:
            self._bound[a] = right
            return right
        return left

    def _broadcast(self, shapes: list[Shape]) -> Shape:
        rank = max(map(len, shapes), default=0)
        sizes = []
        for dim in range(-rank, 0):
            total = ONE
            for shape in shapes:
                if -dim <= len(shape):
                    total = self.join(total, shape[dim])
            sizes.append(total)
        return tuple(sizes)

    def _of(self, prim: Prim) -> Shape:
        op, out = prim.op, prim.out
        declared = self._declared_shape(out.name)
        if declared is not None:
            return declared
        inputs = [self.canonical(self.of[one.name]) for one in prim.reads()]
        if op in REDUCTIONS:
            dims, keep = prim.attr("dims"), prim.attr("keep")
            return tuple(ONE if i in dims else n for i, n in enumerate(inputs[0]) if keep or i not in dims)
        rule = getattr(self, f"_of_{op}", None)
        if rule is not None:
            made: Shape = rule(prim, inputs)
            return made
        if op in ("iota", "full"):
            if "sizes" in dict(prim.attrs):
                return tuple(map(self.now, prim.attr("sizes")))
            return tuple(self._fresh(f"{out.name}_{dim}", hint) for dim, hint in enumerate(out.shape))
        return self._broadcast(inputs)

    def _declared_shape(self, name: str) -> Shape | None:
        """A value's shape as declared in a graph with symbols, if it is polynomial in symbols that arguments determine."""
        kind = self._types.get(name)
        if not isinstance(kind, TensorType):
            return None
        sizes = [Size.of(one) if isinstance(one, int) else parse(one) for one in kind.shape]
        known = [size for size in sizes if size is not None and size.symbols <= self.symbols.keys()]
        return self.canonical(tuple(known)) if len(known) == len(sizes) else None

    def _of_count(self, prim: Prim, inputs: list[Shape]) -> Shape:
        return ()

    def _of_permute(self, prim: Prim, inputs: list[Shape]) -> Shape:
        return tuple(inputs[0][one] for one in prim.attr("order"))

    def _of_flip(self, prim: Prim, inputs: list[Shape]) -> Shape:
        return inputs[0]

    _of_cumsum = _of_cumprod = _of_roll = _of_flip

    def _of_expand(self, prim: Prim, inputs: list[Shape]) -> Shape:
        have, want = inputs[0], prim.out.shape
        padded = (ONE,) * (len(want) - len(have)) + have
        return tuple(
            n if n != ONE else self._fresh(f"{prim.out.name}_{dim}", want[dim])
            for dim, n in enumerate(padded)
        )

    def _of_slice(self, prim: Prim, inputs: list[Shape]) -> Shape:
        shape, dim = list(inputs[0]), prim.attr("dim")
        parts, cut = dict(prim.attrs).get("parts"), dict(prim.attrs).get("cut")
        if prim.out.shape[dim] == prim.reads()[0].shape[dim]:
            return inputs[0]
        if parts and shape[dim].constant is None:
            whole = _symbol(shape[dim])
            part = self._fresh(f"{prim.reads()[0].name}_part", prim.out.shape[dim], f"{{{whole}}} // {parts}")
            if whole is not None and self.symbols[whole].argument and part != ONE:
                self.symbols[next(iter(part.symbols))].host = f"{self.symbols[whole].host} // {parts}"
                self._bound[whole] = part * parts
                shape[dim] = part
                return tuple(shape)
            divided = shape[dim].over(Size.of(parts))
            if divided is not None:
                shape[dim] = divided
                return tuple(shape)
        shape[dim] = self.now(prim.attr("length")) if cut is None else shape[dim] - Size.of(cut)
        return tuple(shape)

    def _of_cat(self, prim: Prim, inputs: list[Shape]) -> Shape:
        dim = prim.attr("dim")
        total = sum((shape[dim] for shape in inputs), Size.of(0))
        rest = self._broadcast([(*shape[:dim], ONE, *shape[dim + 1 :]) for shape in inputs])
        return (*rest[:dim], total, *rest[dim + 1 :])

    def _of_pad(self, prim: Prim, inputs: list[Shape]) -> Shape:
        have = prim.reads()[0].shape
        return tuple(n + (want - old) for n, want, old in zip(inputs[0], prim.out.shape, have, strict=True))

    _of_border = _of_pad

    def _of_matmul(self, prim: Prim, inputs: list[Shape]) -> Shape:
        a, b = inputs
        self.join(a[-1], b[-2])
        return (*self._broadcast([a[:-2], b[:-2]]), a[-2], b[-1])

    def _of_conv(self, prim: Prim, inputs: list[Shape]) -> Shape:
        x, weight = inputs
        rank = len(x) - 2
        if not self.lowered.graph.symbols:
            for dim in range(rank):
                self.join(Size.of(prim.args[1].shape[2 + dim]), weight[2 + dim])
            weight = self.canonical(weight)
        groups, transposed = prim.attr("groups"), prim.attr("transposed")
        if groups == 1:
            self.join(x[1], weight[0 if transposed else 1])
        elif x[1].constant is None and _symbol(x[1]) and prim.args[0].shape[1] != groups:
            self.join(x[1], weight[0] if transposed else weight[1] * groups)
        elif (
            prim.args[0].shape[1] == prim.args[1].shape[0] == groups
        ):  # the number is determined by the arguments
            self.join(x[1], weight[0])
        elif prim.args[0].shape[1] == groups:
            self.join(Size.of(groups), x[1])
        out_channels = weight[1] * groups if transposed else weight[0]
        spatial = tuple(self._window(prim, dim, x[2 + dim], weight[2 + dim]) for dim in range(rank))
        return (x[0], out_channels, *spatial)

    def _window(self, prim: Prim, dim: int, size: Size, kernel: Size) -> Size:
        stride, padding, dilation = (prim.attr(name)[dim] for name in ("stride", "padding", "dilation"))
        reach = (kernel - 1) * dilation
        if dict(prim.attrs).get("transposed"):
            return size * stride + (reach + 1 + prim.attr("out_pad")[dim] - stride - 2 * padding)
        last = size - reach + (2 * padding - 1)
        offset = _offset(last)
        if (steps := (last - offset).over(Size.of(stride))) is not None:
            return steps + (offset // stride + 1)
        host = _put_in_braces(f"({last.text()}) // {stride} + 1", last)
        return self._fresh(
            f"{prim.out.name}_{dim}", prim.out.shape[len(prim.out.shape) - self._rank(prim) + dim], host
        )

    def _rank(self, prim: Prim) -> int:
        return len(prim.attr("stride"))

    def _of_window(self, prim: Prim, inputs: list[Shape]) -> Shape:
        x, kernel = inputs[0], prim.attr("kernel")
        rank = len(kernel)
        first = len(x) - rank
        spatial = tuple(self._window(prim, dim, x[first + dim], Size.of(kernel[dim])) for dim in range(rank))
        return (*x[:first], *spatial)

    def _of_patches(self, prim: Prim, inputs: list[Shape]) -> Shape:
        x, kernel = inputs[0], prim.attr("kernel")
        places = (self._window(prim, dim, x[2 + dim], Size.of(side)) for dim, side in enumerate(kernel))
        return (*x[:2], *map(Size.of, kernel), *places)

    def _of_unfold(self, prim: Prim, inputs: list[Shape]) -> Shape:
        shape, dim, step = list(inputs[0]), prim.attr("dim"), prim.attr("step")
        last = shape[dim] - prim.attr("size")
        offset = _offset(last)
        steps = (last - offset).over(Size.of(step))
        if steps is None:
            host = _put_in_braces(f"({last.text()}) // {step} + 1", last)
            shape[dim] = self._fresh(f"{prim.out.name}_{dim}", prim.out.shape[dim], host)
        else:
            shape[dim] = steps + (offset // step + 1)
        return (*shape, Size.of(prim.attr("size")))

    def _of_attention(self, prim: Prim, inputs: list[Shape]) -> Shape:
        q, k, v = inputs[:3]
        self.join(q[0], k[0])
        self.join(k[-1], q[-1])
        self.join(k[-2], v[-2])
        for left, right in zip(k[:-2], v[:-2], strict=True):
            self.join(left, right)
        if prim.args[0].shape[1] == prim.args[1].shape[1]:
            self.join(q[1], k[1])
        if prim.args[0].shape[-1] == prim.args[2].shape[-1]:
            self.join(q[-1], v[-1])
        if len(inputs) > 3:  # a mask is as long as queries and keys, unless its length is 1
            mask, scores = prim.args[3].shape, (*q[:-1], k[-2])
            for place in range(1, len(mask) + 1):
                if mask[-place] != 1:
                    self.join(scores[-place], inputs[3][-place])
        return (*q[:-1], v[-1])

    def _of_take(self, prim: Prim, inputs: list[Shape]) -> Shape:
        table, *indices = inputs
        dim = prim.attr("dim")
        return (*table[:dim], *self._broadcast(indices), *table[dim + len(indices) :])

    def _of_gather(self, prim: Prim, inputs: list[Shape]) -> Shape:
        return inputs[1]

    def _of_view(self, prim: Prim, inputs: list[Shape]) -> Shape:
        have, want = prim.reads()[0].shape, prim.out.shape
        if prim.attr("like"):
            return self.canonical(self.of[prim.attr("like")])
        sizes: list[Size] = []
        for left, right in groups_of(have, want):
            given, made = [inputs[0][i] for i in left], [want[j] for j in right]
            fixed = [place for place, j in enumerate(right) if j in prim.attr("fixed")]
            sizes += self._group(f"{prim.out.name}_{right}", given, made, fixed)
        return tuple(sizes)

    def _group(self, name: str, sizes: list[Size], want: list[int], fixed: list[int]) -> list[Size]:
        total = product(sizes)
        if len(want) <= 1:
            return [total] if want else []
        if math.prod(want) == 1:
            return [ONE] * len(want)
        symbols = (name for size in sizes for names, _ in size.terms for name in names)
        # In order: sides of a square stay as they are.
        left = {name: self.symbols[name].hint for name in symbols}
        found: list[Size] = []
        for place, number in enumerate(want):
            match = next((name for name, hint in left.items() if hint == number and number != 1), None)
            if match is not None and place not in fixed:
                del left[match]
                found.append(Size.of(match))
            else:
                found.append(self.now(number) if place in fixed else Size.of(number))
        if product(found) == total or total.constant is not None:
            return found
        numbers = [
            place for place, size in enumerate(found) if size.constant not in (None, 1) and place not in fixed
        ]
        for place in numbers:
            quotient = total.over(product(size for at, size in enumerate(found) if at != place))
            if quotient is not None:
                found[place] = quotient
                return found
        if len(sizes) == 1 or not numbers:
            self.join(product(found), total)
            return [self._root(size) for size in found]
        most = max(numbers, key=lambda place: want[place])
        others = product(size for at, size in enumerate(found) if at != most)
        host = f"{total.text(tight=True)} // {others.text(tight=True)}"
        found[most] = self._fresh(f"{name}_{most}".replace("[", "").replace("]", "").replace(", ", "_"), want[most],
                                  _put_in_braces(host, total * others))  # fmt: skip
        return found


def groups_of(have: tuple[int, ...], want: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """Dimensions of a reshape in the smallest groups of equal product, by numbers."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(have) or j < len(want):
        left, right = [i] if i < len(have) else [], [j] if j < len(want) else []
        i, j = i + len(left), j + len(right)
        while math.prod(have[a] for a in left) != math.prod(want[b] for b in right):
            if math.prod(have[a] for a in left) < math.prod(want[b] for b in right):
                left.append(i)
                i += 1
            else:
                right.append(j)
                j += 1
        groups.append((left, right))
    return groups


def _symbol(size: Size) -> str | None:
    """The symbol that a size consists of, or None."""
    if len(size.terms) == 1 and len(size.terms[0][0]) == 1 and size.terms[0][1] == 1:
        return size.terms[0][0][0]
    return None


def _offset(size: Size) -> int:
    """The constant term."""
    return dict(size.terms).get((), 0)


def _put_in_braces(text: str, size: Size) -> str:
    """The text with that size's symbols in braces, for later renaming."""
    return re.sub(
        r"[A-Za-z_]\w*", lambda word: "{" + word[0] + "}" if word[0] in size.symbols else word[0], text
    )
