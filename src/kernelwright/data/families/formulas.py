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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kernelwright.data.families.epilogue import ARITHMETIC, held_names, number
from kernelwright.data.families.losses import MOST, finish, finisher
from kernelwright.data.families.pointwise import flat, sized
from kernelwright.data.families.spec import Design, Draw, Family, Op, Size, Stage, kernel, launch, tensor
from kernelwright.data.operators import POINTWISE
from kernelwright.data.probe import Formula, is_sound_formula

Kind = Literal["float", "int", "bool"]
_ATTEMPTS = 400
LEVELS = (2, 3, 4, 5, 6, 7, 8)


@dataclass(frozen=True)
class Term:
    """An operator that the lowered reference has one line for. Templates name operands `{a}`, `{b}`, `{c}`; `{n}` and `{m}`
    are numbers."""

    name: str
    spellings: tuple[str, ...]
    triton: str
    helpers: tuple[str, ...] = ()
    positive: str = ""
    """Operands that have to be above zero."""
    takes: str = ""
    """Kinds of the operands, a letter each; empty: numbers of the formula's kind."""
    bool: bool = False
    """Whether it gives truth values."""


def _known(*names: str, positive: str = "") -> tuple[Term, ...]:
    """Operators of the one vocabulary, in the spellings that are one operator of ATen."""
    found = []
    for name in names:
        known = POINTWISE[name]
        letters = {"x": "{a}", "y": "{b}", "c": "{n}", "d": "{m}"}
        single = [
            text.format(**letters)
            for text in known.spellings
            if len(re.findall(r"\w\(", text)) + len(re.findall(r"(?<= )(?:[-+*/]|\*\*)(?= )|^-", text)) == 1
        ]
        found.append(Term(name, tuple(single), known.triton.format(**letters), known.helpers, positive))
    return tuple(found)


FLOATS = (
    *_known("relu", "sigmoid", "tanh", "exp", "abs", "neg", "square", "sin", "cos", "erf", "silu", "gelu"),
    *_known("softplus", "elu", "selu", "relu6", "hardtanh", "hardsigmoid", "hardswish", "logsigmoid", "mish"),
    *_known("leaky_relu", "scale", "offset", "minus", "over", "from", "clamp", "floor_at", "cap_at"),
    *_known("add", "sub", "mul", "maximum", "minimum", "lerp"),
    *_known("sqrt", "log", "log1p", "rsqrt", positive="a"),
    Term("div", ("{a} / {b}", "torch.div({a}, {b})", "{a}.div({b})"), "{a} / {b}", positive="b"),
    Term("inverse", ("torch.reciprocal({a})", "{a}.reciprocal()"), "1.0 / {a}", positive="a"),
    Term("cube", ("{a} ** 3", "torch.pow({a}, 3)", "{a}.pow(3)"), "{a} * {a} * {a}"),
    Term("exp2", ("torch.exp2({a})",), "tl.exp2({a})"),
    Term("log2", ("torch.log2({a})",), "tl.log2({a})", positive="a"),
    Term("expm1", ("torch.expm1({a})", "{a}.expm1()"), "expm1({a})", ("expm1",)),
    Term("add_times", ("torch.add({a}, {b}, alpha={n})",), "{a} + {n} * {b}"),
    Term("sub_times", ("torch.sub({a}, {b}, alpha={n})",), "{a} - {n} * {b}"),
    Term("addcmul", ("torch.addcmul({a}, {b}, {c})",), "{a} + {b} * {c}"),
)
"""What a formula of floats is made of."""
ROUNDED = (
    Term("floor", ("torch.floor({a})", "{a}.floor()"), "tl.floor({a})"),
    Term("ceil", ("torch.ceil({a})", "{a}.ceil()"), "tl.ceil({a})"),
    Term("trunc", ("torch.trunc({a})", "{a}.trunc()"), "tl.where({a} < 0.0, tl.ceil({a}), tl.floor({a}))"),
    Term(
        "sign", ("torch.sign({a})", "{a}.sign()"), "tl.where({a} > 0.0, 1.0, tl.where({a} < 0.0, -1.0, 0.0))"
    ),
)
"""What jumps, and so is asked of inputs only: an earlier rounding would move an element over the edge."""
COMPARED = tuple(
    Term(name, (f"{{a}} {sign} {{b}}", f"torch.{name}({{a}}, {{b}})"), f"{{a}} {sign} {{b}}", bool=True)
    for name, sign in {"gt": ">", "lt": "<", "ge": ">=", "le": "<="}.items()
)
CHOSEN = (
    Term("where", ("torch.where({a}, {b}, {c})",), "tl.where({a}, {b}, {c})", takes="bxx"),
    Term("fill", ("{b}.masked_fill({a}, {n})",), "tl.where({a}, {n}, {b})", takes="bx"),
)
WHOLE = (
    *_known("add", "sub", "mul", "maximum", "minimum", "abs", "neg", "scale", "offset", "minus"),
    *(
        Term(
            f"bitwise_{name}",
            (f"{{a}} {sign} {{b}}", f"torch.bitwise_{name}({{a}}, {{b}})"),
            f"{{a}} {sign} {{b}}",
        )
        for name, sign in {"and": "&", "or": "|", "xor": "^"}.items()
    ),
)
"""What a formula of integers is made of."""
ABOVE_ZERO = frozenset({"exp", "exp2", "sigmoid", "softplus"})
NOT_BELOW = frozenset({"abs", "square", "relu"})
"""Terms whose values are above zero, and those that are once a positive number is added."""
ENDS = ("sum", "mean", "amax", "amin")
_NONE = {"amax": '-float("inf")', "amin": 'float("inf")'}
"""What an element that is not there counts as; 0 in sums."""
SUMMED = "total = tl.zeros([BLOCK], dtype=tl.float32)"
KEPT = ("u", "v", "w", "t", "base", "inner", "mixed", "part", "shifted", "scaled")
"""What people call a value that they take later."""
INPUTS = ("x", "other", "third")
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
    """Two to seven terms of floats."""
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
    ops = _ops(draw, nodes, given, kind, dims)
    if not end:
        stage = _flat(draw, nodes, given, sizes)
    elif over == "all":
        name = end.removeprefix("a")
        ops.append(Op(f"{end}:all", draw.pick((f"torch.{name}({{x}})", f"{{x}}.{name}()"))))
        stage = _all(draw, nodes, given, end)
    else:
        keeps = draw.chance(0.5)
        ops.append(_over_rows(draw, end, keeps))
        stage = _rows(draw, nodes, given, sizes, end, keeps, "0" if kind == "int" else "")
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
        values = [*given, *(f"#{place}" for place in range(len(nodes)))]
        numbers = [name for name in values if name not in truths]
        waiting = [name for name in numbers if not uses[name]]
        term = draw.pick(
            _terms(draw, kind, count - len(nodes), bool(truths & {v for v in values if not uses[v]}))
        )
        operands: list[str] = []
        for letter, wanted in zip("abc", _wants(term), strict=False):
            pool = sorted(truths) if wanted == "b" else numbers
            pool = [name for name in pool if letter not in term.positive or name in positive]
            pool = [name for name in pool if term not in ROUNDED or name in given]
            pool = [name for name in pool if name not in operands]
            if not pool:
                return None
            if wanted == "x" and (free := [name for name in pool if name in waiting]) and draw.chance(0.75):
                pool = free[-1:] if draw.chance(0.7) else free
            operands.append(draw.pick(pool))
        node = Node(term, tuple(operands), draw.pick(term.spellings), _numbers(draw, kind, term))
        if any(node.term == other.term and node.operands == other.operands for other in nodes):
            return None
        made = {nodes[int(name[1:])].term.name for name in operands if name.startswith("#")}
        if any((term.name, name) in _IDIOMS for name in made):
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
    values = [*given, *(f"#{place}" for place in range(count - 1))]
    if nodes[-1].term.bool or not all(uses[name] for name in values):
        return None
    jumps = any(re.search(r"tl\.(where|maximum|minimum)", node.term.triton) for node in nodes)
    if jumps and any(
        given.get(name) == "positive" for node in nodes if node.term.positive for name in node.operands
    ):
        return None  # below zero the reference has no number there, which a maximum would not hand on
    return nodes


def _terms(draw: Draw, kind: Kind, left: int, chosen: bool) -> Sequence[Term]:
    """The table that the next term is of: a comparison is followed by a choice."""
    if chosen:
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
    )


def _with_held(draw: Draw, nodes: Sequence[Node]) -> list[Node]:
    """Some numbers as arguments of the constructor."""
    hoists, taken = draw.chance(0.35), {*INPUTS, *KEPT}
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


def _terms_of(
    nodes: Sequence[Node], given: Mapping[str, str], at: Mapping[str, str], first: str
) -> list[str]:
    """The kernel's lines. An input that stands once is loaded where it is used, another one before; `at` says where, by
    what it is; `first` is what the first one's load has besides."""
    lines = [f"x = tl.load(x_ptr + {at['full']}, {first})"]
    none = "0" if all(node.term in WHOLE or node.term.bool or node.term.takes for node in nodes) else "0.0"
    called = {f"#{place}": f"h{place + 1}" for place in range(len(nodes))}
    for place, node in enumerate(nodes):
        for letter, name in zip("abc", node.operands, strict=False):
            what = given.get(name, "")
            if name == "x" or not what or name in called:
                continue
            load = (
                f"tl.load({name}_ptr)"
                if what == "number"
                else f"tl.load({name}_ptr + {at[what]}, mask=mask, other={none})"
            )
            wanted = sum(other.operands.count(name) for other in nodes)
            called[name] = load if wanted == node.term.triton.count(f"{{{letter}}}") == 1 else name
            if called[name] == name:
                lines.append(f"{name} = {load}")
        lines.append(f"h{place + 1} = {node.triton(called)}")
    return lines


def _stage(
    nodes: Sequence[Node],
    given: Mapping[str, str],
    kernels: Mapping[str, tuple[list[str], list[str]]],
    host: list[str],
    name: str,
    more: Sequence[str] = (),
) -> Stage:
    """The stage of one kernel, by its name with its last parameters and its lines, and those of `more`."""
    held = [name for node in nodes for name in node.held]
    texts = [
        kernel(label, [*(f"{one}_ptr" for one in given), *held, *parameters], lines)
        for label, (parameters, lines) in kernels.items()
    ]
    takes = [(one, "{x}" if one == "x" else one) for one in given] + [(one, f"self.{one}") for one in held]
    helpers = dict.fromkeys(helper for node in nodes for helper in node.term.helpers)
    return Stage(name, (*texts, *more), tuple(takes), tuple(host), tuple(helpers))


def _arguments(nodes: Sequence[Node], given: Mapping[str, str]) -> list[str]:
    return [*given, *(name for node in nodes for name in node.held)]


def _flat(draw: Draw, nodes: Sequence[Node], given: Mapping[str, str], sizes: dict[str, Size]) -> Stage:
    """A value an element."""
    rows = ["n"] * ("row" in given.values())
    block = draw.tile("BLOCK", (512, 1024, 2048), (64, 128))
    lines = [
        *flat(draw, sizes),
        *_terms_of(nodes, given, {"full": "offs", "positive": "offs", "row": "offs % n"}, "mask=mask"),
        f"tl.store(out_ptr + offs, h{len(nodes)}, mask=mask)",
    ]
    arguments = [
        *_arguments(nodes, given),
        "out",
        "size",
        *rows,
        f"BLOCK={block}",
        draw.warps((4, 8), (1, 8)),
    ]
    host = [
        "out = torch.empty_like(x)",
        "size = x.numel()",
        *(["n = x.shape[-1]"] * len(rows)),
        *launch("formula_kernel", f"triton.cdiv(size, {block}),", arguments),
        "return out",
    ]
    parameters = ["out_ptr", "size", *rows, "BLOCK: tl.constexpr"]
    return _stage(nodes, given, {"formula_kernel": (parameters, lines)}, host, "formula")


def _rows(
    draw: Draw,
    nodes: Sequence[Node],
    given: Mapping[str, str],
    sizes: dict[str, Size],
    end: str,
    keeps: bool,
    none: str,
) -> Stage:
    """A number a row. `none` is what a masked element counts as, where that is not the float for it."""
    none = none or _NONE.get(end, "0.0")
    reduced = (
        f"tl.{end.removeprefix('a') if end != 'mean' else 'sum'}(tl.where(mask, h{len(nodes)}, {none}), 0)"
    )
    at = {"full": "row * n + cols", "positive": "row * n + cols", "row": "cols"}
    lines = [
        "row = tl.program_id(0).to(tl.int64)",
        "cols = tl.arange(0, BLOCK)",
        "mask = cols < n",
        *_terms_of(nodes, given, at, "mask=mask, other=0.0"),
        f"h{len(nodes) + 1} = {reduced}{' / n' * (end == 'mean')}",
        f"tl.store(out_ptr + row, h{len(nodes) + 1})",
    ]
    warps = draw.warps((4, 8) if sizes["N"].full <= 4096 else (8, 16), (1, 2))
    block = "triton.next_power_of_2(n)"
    arguments = [*_arguments(nodes, given), "out", "n", f"BLOCK={block}", warps]
    host = [
        "n = x.shape[-1]",
        f"out = x.new_empty({'*x.shape[:-1], 1' if keeps else 'x.shape[:-1]'})",
        *launch(f"formula_{end}_kernel", "x.numel() // n,", arguments),
        "return out",
    ]
    parameters = ["out_ptr", "n", "BLOCK: tl.constexpr"]
    return _stage(nodes, given, {f"formula_{end}_kernel": (parameters, lines)}, host, f"formula_{end}")


def _all(draw: Draw, nodes: Sequence[Node], given: Mapping[str, str], end: str) -> Stage:
    """One number: parts by programs that walk the whole, and what a second kernel makes of those."""
    rows = ["n"] * ("row" in given.values())
    block, most = draw.tile("BLOCK", (1024, 2048), (128, 256)), 256 if draw.slow else draw.tune.choice(MOST)
    at = {"full": "offs", "positive": "offs", "row": "offs % n"}
    least = end.removeprefix("a")
    none, joined = _NONE.get(end, "0.0"), {"amax": "tl.maximum(total, {})", "amin": "tl.minimum(total, {})"}
    join = joined.get(end, "total + {}")
    began = f"total = tl.full([BLOCK], {none}, tl.float32)" if end in joined else SUMMED
    lines = [
        began,
        "for start in range(tl.program_id(0) * BLOCK, size, tl.num_programs(0) * BLOCK):",
        "    offs = start + tl.arange(0, BLOCK)",
        "    mask = offs < size",
        *(f"    {line}" for line in _terms_of(nodes, given, at, "mask=mask, other=0.0")),
        f"    total = {join.format(f'tl.where(mask, h{len(nodes)}, {none})')}",
        f"tl.store(parts_ptr + tl.program_id(0), tl.{least if end in joined else 'sum'}(total, 0))",
    ]
    arguments = [
        *_arguments(nodes, given),
        "parts",
        "size",
        *rows,
        f"BLOCK={block}",
        draw.warps((4, 8), (1,)),
    ]
    last, how = finish(draw, "parts", "programs", "size" if end == "mean" else "1"), finisher()
    if end in joined:
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
        "size = x.numel()",
        *(["n = x.shape[-1]"] * len(rows)),
        f"programs = min({most}, triton.cdiv(size, {block}))",
        "parts = torch.empty(programs, device=x.device, dtype=torch.float32)",
        "out = torch.empty((), device=x.device, dtype=x.dtype)",
        *launch(f"formula_{end}_kernel", "programs,", arguments),
        *last,
        "return out",
    ]
    parameters = ["parts_ptr", "size", *rows, "BLOCK: tl.constexpr"]
    return _stage(
        nodes, given, {f"formula_{end}_kernel": (parameters, lines)}, host, f"formula_{end}", (how,)
    )


FAMILIES = (
    Family("formula", "fusion", formula, LEVELS),
    Family("formula_int", "fusion", whole, (1, 2, 3, 4)),
)
