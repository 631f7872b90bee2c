"""Formulas: maps of several inputs that take values more than once, as people write functions.

    terms      mul(other, 2), sub(x, h1), div(h2, 1.41), erf(h3), mul(h2, h4): each of an input, an earlier value or a number
    inputs     of the output's shape, a row of it, or one number; of integers in some formulas
    ends       a value an element, or a sum, mean, largest or least over the last dimension, or over all
    answer     a line for every line of the lowered reference, under that line's name

Chains (`pointwise.py`, `graphs.py`) hand on one value; here a term may ask for any.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kernelwright.data.families.epilogue import ARITHMETIC, held_names, number
from kernelwright.data.families.losses import MOST, finish, finisher, in_parts
from kernelwright.data.families.pointwise import flat, sized
from kernelwright.data.families.spec import Design, Draw, Family, Op, Size, Stage, kernel, launch, tensor
from kernelwright.data.families.terms import (
    ABOVE_ZERO,
    CHOSEN,
    COMPARED,
    FLOATS,
    NOT_BELOW,
    ROUNDED,
    WHOLE,
    Term,
)
from kernelwright.data.operators import POINTWISE
from kernelwright.data.probe import Formula, is_sound_formula

Kind = Literal["float", "int"]
LEVELS = (2, 3, 4, 5, 6, 7, 8)
ENDS = ("sum", "mean", "amax", "amin")
_NONE = {"amax": '-float("inf")', "amin": 'float("inf")'}
"""What an element that is not there counts as; 0 in sums."""
KEPT = ("u", "v", "w", "t", "base", "inner", "mixed", "part", "shifted", "scaled")
"""What people call a value that they take later."""
INPUTS = ("x", "other", "third")
_OWN = ("total", "parts", "size", "out")
"""What the kernels call values of their own."""
_ATTEMPTS = 400
_IDIOMS = {("mul", "sigmoid"), ("mul", "tanh")}
"""Products that the lowering calls by another name."""


@dataclass(frozen=True)
class Node:
    """One term of a formula."""

    term: Term
    operands: tuple[str, ...]
    """Names of inputs, or `#` and the number of an earlier node."""
    spelling: str
    numbers: tuple[float, ...] = ()
    held: tuple[str, ...] = ()
    """Constructor arguments that are these numbers, where they are."""

    def torch(self, called: Mapping[str, str]) -> str:
        """The reference's expression, with its operands as they are called there."""
        return self._filled(self.spelling, called, [f"self.{name}" for name in self.held])

    def triton(self, called: Mapping[str, str]) -> str:
        """The kernel's expression."""
        return self._filled(self.term.triton, called, self.held)

    def _filled(self, template: str, called: Mapping[str, str], held: Sequence[str]) -> str:
        operands = {
            letter: called.get(name, name) for letter, name in zip("abc", self.operands, strict=False)
        }
        numbers = zip("nm", held or list(map(repr, self.numbers)), strict=False)
        return template.format(**operands, **dict(numbers))

    @property
    def wired(self) -> str:
        """The operator with its wiring, for the graph."""
        return f"{self.term.name}:{','.join(self.operands)}"


def formula(draw: Draw) -> Design:
    """Two to eight terms of floats."""
    return _formula(draw, "float")


def whole(draw: Draw) -> Design:
    """One to four terms of integers."""
    return _formula(draw, "int")


def _formula(draw: Draw, kind: Kind) -> Design:
    end = draw.pick(ENDS[:1] if kind == "int" else ENDS) if draw.chance(0.3) else ""
    over = draw.pick(("row", "row", "all")) if kind == "float" else "row"
    dims, sizes = _shape(draw, rows=bool(end))
    count = max(draw.operators - bool(end), 1)
    for _ in range(_ATTEMPTS):
        given = _inputs(draw, kind)
        nodes = _nodes(draw, kind, count, given)
        if nodes is not None and is_sound_formula(_as_formula(nodes, given, kind)):
            break
    else:
        raise RuntimeError(f"no sound formula of {count} terms")
    nodes = _with_held(draw, nodes)
    ops, body = _ops(draw, nodes, given, kind, dims), Body(nodes, given, kind)
    if not end:
        stage = _flat(draw, body, sizes)
    elif over == "all":
        name = end.removeprefix("a")
        ops.append(Op(f"{end}:all", draw.pick((f"torch.{name}({{x}})", f"{{x}}.{name}()"))))
        stage = _all(draw, body, end)
    else:
        keeps = draw.chance(0.5)
        ops.append(_over_rows(draw, end, keeps))
        stage = _rows(draw, body, sizes, end, keeps)
    return Design(tuple(ops), (stage,), sizes, "float32", draw.constants)


def _shape(draw: Draw, rows: bool) -> tuple[str, dict[str, Size]]:
    """One to four dimensions; of two and more where rows end in a number."""
    if not rows and draw.chance(0.25):
        size = draw.size((1 << 20, 1 << 22, 5_000_000, 1 << 24, 1 << 26), (64, 200, 256), (101, 333, 389))
        return "N", {"N": size}
    while True:
        dims, sizes = sized(draw)
        if not rows or ("N" in sizes and sizes["N"].full <= 16384):
            return dims, sizes


def _inputs(draw: Draw, kind: Kind) -> dict[str, str]:
    """The inputs by name, with what they are: `full`, `positive`, `row`, `number`."""
    count = draw.pick((1, 1, 1, 2, 2, 2, 2, 3))
    found = dict.fromkeys(INPUTS[:count], "full")
    if kind == "float" and draw.chance(0.15):
        found["x"] = "positive"
    for name in INPUTS[1:count]:
        if draw.chance(0.2):
            found[name] = draw.pick(("row", "row", "number"))
    return found


def _nodes(draw: Draw, kind: Kind, count: int, given: Mapping[str, str]) -> list[Node] | None:
    """Terms that use every input and every value; None where this draw does not."""
    nodes: list[Node] = []
    uses: Counter[str] = Counter()
    positive = {name for name, what in given.items() if what == "positive"}
    truths: set[str] = set()
    while len(nodes) < count:
        term = draw.pick(_terms(draw, kind, count - len(nodes), any(not uses[name] for name in truths)))
        values = [name for name in _names(given, len(nodes)) if name not in truths]
        operands = _operands(draw, term, values, sorted(truths), positive, uses, given)
        node = Node(term, operands, draw.pick(term.spellings), _numbers(draw, kind, term))
        made = {nodes[int(name[1:])].term.name for name in operands if name.startswith("#")}
        if (
            len(operands) < len(_wants(term))
            or any(node.term == other.term and node.operands == other.operands for other in nodes)
            or any((term.name, name) in _IDIOMS for name in made)
        ):
            return None
        value = f"#{len(nodes)}"
        nodes.append(node)
        uses.update(operands)
        if term.bool:
            truths.add(value)
        nonnegative = {f"#{place}" for place, one in enumerate(nodes) if one.term.name in NOT_BELOW}
        lifted = term.name == "offset" and operands[0] in nonnegative | positive
        if term.name in ABOVE_ZERO or lifted:
            positive.add(value)
    if nodes[-1].term.bool or not all(uses[name] for name in _names(given, count - 1)):
        return None
    jumps = any(re.search(r"tl\.(where|maximum|minimum)", node.term.triton) for node in nodes)
    roots = {name for node in nodes if node.term.positive for name in node.operands}
    if jumps and any(given.get(name) == "positive" for name in roots):
        return None  # below zero the reference has no number there, which a maximum would not hand on
    return nodes


def _names(given: Mapping[str, str], count: int) -> list[str]:
    """The inputs and the first `count` values."""
    return [*given, *(f"#{place}" for place in range(count))]


def _operands(
    draw: Draw,
    term: Term,
    values: Sequence[str],
    truths: Sequence[str],
    positive: Collection[str],
    uses: Mapping[str, int],
    given: Mapping[str, str],
) -> tuple[str, ...]:
    """What a term takes: mostly what nothing has taken yet, the latest first. Fewer than it wants where there is nothing
    that it may take."""
    found: list[str] = []
    for letter, wanted in zip("abc", _wants(term), strict=False):
        pool = [
            name
            for name in (truths if wanted == "b" else values)
            if (letter not in term.positive or name in positive)
            and (term not in ROUNDED or name in given)
            and name not in found
        ]
        if not pool:
            break
        if wanted == "x" and (free := [name for name in pool if not uses[name]]) and draw.chance(0.75):
            pool = free[-1:] if draw.chance(0.7) else free
        found.append(draw.pick(pool))
    return tuple(found)


def _terms(draw: Draw, kind: Kind, left: int, compared: bool) -> Sequence[Term]:
    """The table that the next term is of: a comparison is followed by a choice."""
    if compared:
        return CHOSEN
    if left > 1 and draw.chance(0.12):
        return COMPARED
    if kind == "int":
        return WHOLE
    return ROUNDED if draw.chance(0.06) else FLOATS


def _wants(term: Term) -> str:
    """A letter for each operand: `x` for a number, `b` for a truth value."""
    return term.takes or "x" * len(set(re.findall(r"\{([abc])\}", term.triton)))


def _numbers(draw: Draw, kind: Kind, term: Term) -> tuple[float, ...]:
    count = len(set(re.findall(r"\{[nm]\}", term.triton)))
    if not count:
        return ()
    if kind == "int":
        return tuple(draw.pick(range(1, 13)) for _ in range(count))
    known = POINTWISE.get(term.name)
    if known is None or term.name in ARITHMETIC:
        return (draw.pick((number(draw), draw.pick((0.1, 0.5, 1.0, 2.0, 2, 3)))),)
    return tuple(draw.pick(values) for values in known.constants)


def _as_formula(nodes: Sequence[Node], given: Mapping[str, str], kind: Kind) -> Formula:
    """The nodes for `probe`, both ways."""
    called = {f"#{place}": f"h{place + 1}" for place in range(len(nodes))}
    return Formula(
        tuple(given),
        tuple(node.torch(called) for node in nodes),
        tuple(node.triton(called) for node in nodes),
        kind == "int",
        tuple(name for name, what in given.items() if what == "positive"),
        tuple(
            "{} == {}".format(*(called.get(name, name) for name in node.operands))
            for node in nodes
            if node.term.bool
        ),
    )


def _with_held(draw: Draw, nodes: Sequence[Node]) -> list[Node]:
    """Some numbers as arguments of the constructor."""
    hoists, taken = draw.chance(0.35), {*INPUTS, *KEPT, *_OWN}
    found = []
    for node in nodes:
        held: tuple[str, ...] = ()
        if hoists and node.numbers and draw.chance(0.8):
            held = held_names(draw, node.term.name, len(node.numbers), taken, False)
            taken.update(held)
        found.append(replace(node, held=held))
    return found


def _ops(draw: Draw, nodes: Sequence[Node], given: Mapping[str, str], kind: Kind, dims: str) -> list[Op]:
    """The terms as the reference's operators. A value that the next term alone takes, once, is handed on; others get
    a name."""
    names = iter(draw.rng.sample(KEPT, len(KEPT)))
    called: dict[str, str] = {}
    ops = []
    for place, node in enumerate(nodes):
        lines: tuple[str, ...] = ()
        last = f"#{place - 1}"
        if place and (
            node.operands.count(last) != 1 or any(last in later.operands for later in nodes[place + 1 :])
        ):
            called[last] = next(names)
            lines = (f"{called[last]} = {{x}}",)
        here = {**called, **({last: "{x}"} if place and not lines else {})}
        state = tuple(f"self.{name} = {name}" for name in node.held)
        init = tuple(zip(node.held, map(repr, node.numbers), strict=False))
        inputs = (
            tuple((name, _made(what, kind, dims, draw)) for name, what in given.items()) if not place else ()
        )
        ops.append(Op(node.wired, node.torch(here), state, init, inputs, lines=lines))
    return ops


def _made(what: str, kind: Kind, dims: str, draw: Draw) -> str:
    """The expression that makes an input."""
    shape = {"row": dims.rpartition(", ")[2], "number": "1"}.get(what, dims)
    if kind == "int":
        tuple_ = f"({shape},)" if "," not in shape else f"({shape})"
        return f"torch.randint(-9, 10, {tuple_})"
    if what == "positive":
        return draw.pick(("torch.rand({s}) + 0.1", "torch.rand({s}) * 4.0", "torch.rand({s})")).format(
            s=shape
        )
    return tensor(shape)


def _over_rows(draw: Draw, end: str, keeps: bool) -> Op:
    """What is made of a row at last."""
    keep = ", keepdim=True" if keeps else ""
    spelled = [f"torch.{end}({{x}}, dim=-1{keep})", f"{{x}}.{end}(dim=-1{keep})"]
    if end in ("amax", "amin"):
        spelled.append(f"torch.{end[1:]}({{x}}, dim=-1{keep})[0]")
    return Op(f"{end}:row{keep}", draw.pick(spelled))


@dataclass(frozen=True)
class Body:
    """A formula as the kernels have it."""

    nodes: Sequence[Node]
    given: Mapping[str, str]
    kind: Kind

    @property
    def last(self) -> str:
        """The value of the whole."""
        return f"h{len(self.nodes)}"

    @property
    def none(self) -> str:
        """What a masked load gives."""
        return "0" if self.kind == "int" else "0.0"

    @property
    def held(self) -> list[str]:
        """Numbers that come through the constructor."""
        return [name for node in self.nodes for name in node.held]

    @property
    def arguments(self) -> list[str]:
        return [*self.given, *self.held]

    @property
    def columns(self) -> list[str]:
        """The sizes that the kernel needs for inputs that are a row."""
        return ["n"] * ("row" in self.given.values())

    def lines(self, full: str, row: str, first: str) -> list[str]:
        """A line a term. An input that stands once is loaded where it is used, another one before; `full` and `row` are the
        places of an element in inputs of the two kinds, `first` what the first input's load has besides."""
        lines = [f"x = tl.load(x_ptr + {full}, {first})"]
        called = {f"#{place}": f"h{place + 1}" for place in range(len(self.nodes))}
        for place, node in enumerate(self.nodes):
            for letter, name in zip("abc", node.operands, strict=False):
                if name == "x" or name in called:
                    continue
                at = row if self.given[name] == "row" else full
                load = f"tl.load({name}_ptr + {at}, mask=mask, other={self.none})"
                load = f"tl.load({name}_ptr)" if self.given[name] == "number" else load
                wanted = sum(other.operands.count(name) for other in self.nodes)
                called[name] = load if wanted == node.term.triton.count(f"{{{letter}}}") == 1 else name
                if called[name] == name:
                    lines.append(f"{name} = {load}")
            lines.append(f"h{place + 1} = {node.triton(called)}")
        return lines

    def stage(
        self,
        name: str,
        parameters: Sequence[str],
        lines: Sequence[str],
        host: Sequence[str],
        more: Sequence[str] = (),
    ) -> Stage:
        """The stage of the kernel `NAME_kernel`, which takes `parameters` besides the formula's, and those of `more`."""
        text = kernel(
            f"{name}_kernel", [*(f"{one}_ptr" for one in self.given), *self.held, *parameters], lines
        )
        takes = [(one, "{x}" if one == "x" else one) for one in self.given]
        takes += [(one, f"self.{one}") for one in self.held]
        helpers = dict.fromkeys(helper for node in self.nodes for helper in node.term.helpers)
        return Stage(name, (text, *more), tuple(takes), tuple(host), tuple(helpers))


def _flat(draw: Draw, body: Body, sizes: dict[str, Size]) -> Stage:
    """A value an element."""
    block = draw.tile("BLOCK", (512, 1024, 2048), (64, 128))
    lines = [
        *flat(draw, sizes),
        *body.lines("offs", "offs % n", "mask=mask"),
        f"tl.store(out_ptr + offs, {body.last}, mask=mask)",
    ]
    tiles = [f"BLOCK={block}", draw.warps((4, 8), (1, 8))]
    host = [
        "out = torch.empty_like(x)",
        "size = x.numel()",
        *(f"{name} = x.shape[-1]" for name in body.columns),
        *launch(
            "formula_kernel",
            f"triton.cdiv(size, {block}),",
            [*body.arguments, "out", "size", *body.columns, *tiles],
        ),
        "return out",
    ]
    return body.stage("formula", ["out_ptr", "size", *body.columns, "BLOCK: tl.constexpr"], lines, host)


def _rows(draw: Draw, body: Body, sizes: dict[str, Size], end: str, keeps: bool) -> Stage:
    """A number a row."""
    chosen = f"tl.where(mask, {body.last}, {_NONE.get(end, body.none)})"
    reduced = f"tl.{'sum' if end == 'mean' else end.removeprefix('a')}({chosen}, 0){' / n' * (end == 'mean')}"
    value = f"h{len(body.nodes) + 1}"
    lines = [
        "row = tl.program_id(0).to(tl.int64)",
        "cols = tl.arange(0, BLOCK)",
        "mask = cols < n",
        *body.lines("row * n + cols", "cols", f"mask=mask, other={body.none}"),
        f"{value} = {reduced}",
        f"tl.store(out_ptr + row, {value})",
    ]
    warps = draw.warps((4, 8) if sizes["N"].full <= 4096 else (8, 16), (1, 2))
    tiles = ["BLOCK=triton.next_power_of_2(n)", warps]
    host = [
        "n = x.shape[-1]",
        f"out = x.new_empty({'*x.shape[:-1], 1' if keeps else 'x.shape[:-1]'})",
        *launch(f"formula_{end}_kernel", "x.numel() // n,", [*body.arguments, "out", "n", *tiles]),
        "return out",
    ]
    return body.stage(f"formula_{end}", ["out_ptr", "n", "BLOCK: tl.constexpr"], lines, host)


def _all(draw: Draw, body: Body, end: str) -> Stage:
    """One number: parts by programs that walk the whole, and what a second kernel makes of those."""
    block, most = draw.tile("BLOCK", (1024, 2048), (128, 256)), 256 if draw.slow else draw.tune.choice(MOST)
    bounds = {"amax": "tl.maximum(total, {})", "amin": "tl.minimum(total, {})"}
    none, join = _NONE.get(end, "0.0"), bounds.get(end, "total + {}")
    least = end.removeprefix("a") if end in bounds else "sum"
    began = (
        f"total = tl.full([BLOCK], {none}, tl.float32)"
        if end in bounds
        else "total = tl.zeros([BLOCK], dtype=tl.float32)"
    )
    lines = [
        began,
        "for start in range(tl.program_id(0) * BLOCK, size, tl.num_programs(0) * BLOCK):",
        "    offs = start + tl.arange(0, BLOCK)",
        "    mask = offs < size",
        *(f"    {line}" for line in body.lines("offs", "offs % n", "mask=mask, other=0.0")),
        f"    total = {join.format(f'tl.where(mask, {body.last}, {none})')}",
        f"tl.store(parts_ptr + tl.program_id(0), tl.{least}(total, 0))",
    ]
    columns, warps = "x.shape[-1]" if body.columns else "", draw.warps((4, 8), (1,))
    if end not in bounds:
        last, how = finish(draw, "parts", "programs", "size" if end == "mean" else "1"), finisher()
    else:
        last = launch("finish_kernel", "1,", ["parts", "out", "programs", "BLOCK=1024"])
        how = kernel(
            "finish_kernel",
            ["parts_ptr", "out_ptr", "count", "BLOCK: tl.constexpr"],
            [
                began,
                "for start in range(0, count, BLOCK):",
                "    offs = start + tl.arange(0, BLOCK)",
                f"    total = {join.format(f'tl.load(parts_ptr + offs, mask=offs < count, other={none})')}",
                f"tl.store(out_ptr, tl.{least}(total, 0))",
            ],
        )
    host = [
        *in_parts(f"formula_{end}", "x", columns, body.arguments, block, most, warps),
        *last,
        "return out",
    ]
    parameters = ["parts_ptr", "size", *body.columns, "BLOCK: tl.constexpr"]
    return body.stage(f"formula_{end}", parameters, lines, host, (how,))


FAMILIES = (
    Family("formula", "fusion", formula, LEVELS),
    Family("formula_int", "fusion", whole, (1, 2, 3, 4)),
)
