"""Chains of pointwise operators that a kernel can do on values it holds: after a product, a convolution, a norm.

The operators and both of their spellings are those of `operators.py`; here they get their operands: a parameter of
one value per channel, a single number that is learned, or another input of the value's shape. `probe.is_sound`
decides whether a chain is worth asking about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelwright.data.families.spec import Draw, Dtype, Op, Parameter, placed, tensor
from kernelwright.data.graphs import Step
from kernelwright.data.numbering import KEPT, marked
from kernelwright.data.operators import POINTWISE
from kernelwright.data.probe import is_sound

UNARY = (
    *("relu", "sigmoid", "tanh", "silu", "gelu", "gelu_tanh", "softplus", "elu", "selu", "relu6", "hardtanh"),
    *(
        "hardsigmoid",
        "hardswish",
        "softsign",
        "mish",
        "leaky_relu",
        "scale",
        "offset",
        "minus",
        "over",
        "clamp",
    ),
    *("abs", "square", "sin", "cos", "floor_at", "cap_at", "neg", "double", "mish_gate", "hardswish_gate"),
)
"""What may follow another operator: of at most quadratic growth."""
BINARY = ("add", "sub", "mul", "maximum", "minimum", "gate", "swiglu")
JOINED = (*("add",) * 4, *("mul",) * 2, *("sub",) * 2, *BINARY[3:])
"""The same, as often as people write them."""
NAMES = {
    "add": (*("bias",) * 8, "shift", "add_value", "sum_tensor", "offset", "extra_bias", "beta"),
    "sub": (*("subtract",) * 2, "shift", "subtract_value", "bias", "offset"),
    "mul": (*("scale",) * 4, *("multiplier",) * 2, "multiply_weight", "scaling_factor", "gamma", "gain"),
    "maximum": ("floor", "lower", "lower_bound"),
    "minimum": ("cap", "upper", "threshold"),
}
"""What a parameter is called by the operator that takes it; else `gate`."""
ORIGINAL = "original"
"""What the value is called that a residual adds again."""
BOUNDS = {"maximum": (-0.5, -0.25, 0.0), "minimum": (0.0, 0.25, 0.5)}
"""Single numbers that leave some of the values on both sides."""
RESIDUAL = ("add", "mul", "sub")
"""How it is joined."""
Channel = tuple[str, tuple[tuple[str, str], ...]]
"""The shape of a parameter by channel over constructor arguments, with those arguments."""
SCALAR: Channel = ("1", ())
"""The shape of a parameter where the kernel knows no channel: one number for all."""
ARITHMETIC = ("scale", "over", "offset", "minus")
"""Operators that may share a number of the constructor's."""
NUMBER = "number"
"""What they need it for."""
HELD: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "scale": (
        *(("scaling_factor",),) * 3,
        *(("scale_factor",),) * 2,
        *(("scale",), ("multiplier",), ("multiply_value",), ("constant",)),
    ),
    "offset": (*(("add_value",),) * 3, ("constant_value",), ("bias_value",), ("constant",), ("offset",)),
    "minus": (*(("subtract_value",),) * 3, ("sub_value",), ("subtract",), ("constant",)),
    "over": (*(("divisor",),) * 3, ("divide_by",), ("divide_value",)),
    "clamp": (
        *(("min_value", "max_value"),) * 2,
        *(("clamp_min", "clamp_max"),) * 2,
        *(("hardtanh_min", "hardtanh_max"), ("min_val", "max_val"), ("lower", "upper")),
    ),
    "floor_at": (("min_value",), ("clamp_min",)),
    "cap_at": (("max_value",), ("clamp_max",), ("constant",), ("constant_value",)),
    "leaky_relu": (*(("negative_slope",),) * 3, ("slope",)),
    "elu": (("alpha",),),
    "add_times": (("alpha",), ("scale",)),
    "sub_times": (("alpha",), ("scale",)),
    "lerp": (("weight",), ("alpha",)),
    "from": (("constant",), ("total",)),
    "fill": (("value",), ("fill_value",)),
}
"""What an operator's constants are called as arguments of the constructor."""
_UNIT, _WHOLE = Step("clamp", "", (0.0, 1.0)), Step("clamp", "", (-1.0, 1.0))
_LEAKY = tuple(Step("leaky_relu", "", (slope,)) for slope in POINTWISE["leaky_relu"].constants[0])
IDLE: Mapping[str, tuple[Step, ...]] = {
    **dict.fromkeys(("relu", "abs", "relu6"), (Step("relu"), *_LEAKY)),
    **dict.fromkeys(("sigmoid", "hardsigmoid"), (Step("relu"), Step("hardtanh"), _UNIT, *_LEAKY)),
    **dict.fromkeys(("tanh", "softsign", "hardtanh"), (Step("hardtanh"), _WHOLE)),
    "softplus": (Step("relu"),),
}
"""Steps that leave what another one gives as it is. People write them all the same, one after the other."""


@dataclass(frozen=True)
class Chain:
    """Pointwise steps with their operands, as a reference and as lines of a kernel."""

    ops: tuple[Op, ...]
    steps: tuple[Step, ...]
    operands: tuple[tuple[str, str], ...]
    """Per operand, in order: (name, kind); kinds are `channel`, `scalar`, `full`, and `number`, which is passed by
    value."""
    values: tuple[str, ...]
    """Per step, the name of its operand or an empty string."""
    wide: str
    """What follows a load: `.to(tl.float32)` or nothing."""
    sources: tuple[tuple[str, str], ...] = ()
    """(operand, expression in `forward`) where that is not `self.NAME`."""
    numbers: tuple[tuple[str, ...], ...] = ()
    """Per step, the names of its constants where those are passed; nothing where they stand in the kernel."""
    kept: tuple[int, ...] = ()
    """Steps before which the value is kept as `ORIGINAL`, for a residual."""
    tags: tuple[str, ...] = ()
    """Per step, what it is marked with; nothing where the reference has no step of its own for it."""

    @property
    def pointers(self) -> list[str]:
        """The kernel's parameters."""
        return [name if kind == "number" else f"{name}_ptr" for name, kind in self.operands]

    @property
    def arguments(self) -> list[str]:
        return [name for name, _ in self.operands]

    @property
    def taken(self) -> list[str]:
        """Names that a later chain of the same module must not use: operands, constructor arguments, and attributes as
        `self.NAME`."""
        state = " ".join(line for op in self.ops for line in op.state)
        return [
            *self.arguments,
            *(name for op in self.ops for name, _ in op.init),
            *re.findall(r"self\.\w+(?= = )", state),
        ]

    @property
    def takes(self) -> list[tuple[str, str]]:
        """Parameters of the host function, with what `forward` passes."""
        known = dict(self.sources)
        return [
            (name, known.get(name, name if kind == "full" else f"self.{name}"))
            for name, kind in self.operands
        ]

    def then(self, other: Chain) -> Chain:
        """Both chains, one after the other."""
        return Chain(
            self.ops + other.ops,
            self.steps + other.steps,
            self.operands + other.operands,
            self.values + other.values,
            self.wide or other.wide,
            self.sources + other.sources,
            (self.numbers or ((),) * len(self.steps)) + (other.numbers or ((),) * len(other.steps)),
            self.kept + tuple(place + len(self.steps) for place in other.kept),
            (self.tags or ("",) * len(self.steps)) + (other.tags or ("",) * len(other.steps)),
        )

    @property
    def helpers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(h for step in self.steps for h in POINTWISE[step.op].helpers))

    @property
    def by_channel(self) -> bool:
        return any(kind == "channel" for _, kind in self.operands)

    def lines(
        self,
        value: str,
        *,
        channel: str = "",
        channel_mask: str = "",
        expand: str = "",
        offsets: str = "",
        mask: str = "",
        one: bool = False,
    ) -> list[str]:
        """The arithmetic on `value`, in place. `channel` and `offsets` index operands of the two kinds; `expand`
        gives a loaded channel vector the value's shape; `one` is for a channel that is one number a program.

        A step loads its operand where it uses it, so that one line says all of it; what is used more than once has a
        name, before its first use."""
        loads: dict[str, str] = {}
        for name, kind in self.operands:
            if kind == "scalar" or (kind == "channel" and one):
                at = f"{name}_ptr" if kind == "scalar" else f"{name}_ptr + {channel}"
                loads[name] = f"tl.load({at}){self.wide}"
            elif kind == "channel":
                masked = f", mask={channel_mask}, other=0.0" if channel_mask else ""
                loads[name] = f"tl.load({name}_ptr + {channel}{masked}){expand}{self.wide}"
            elif kind == "full":
                masked = f", mask={mask}, other=0.0" if mask else ""
                loads[name] = f"tl.load({name}_ptr + {offsets}{masked}){self.wide}"
        lines = []
        numbers = self.numbers or ((),) * len(self.steps)
        tags = self.tags or ("",) * len(self.steps)
        for place, (step, operand, passed) in enumerate(zip(self.steps, self.values, numbers, strict=True)):
            if place in self.kept:
                lines.append(marked(f"{ORIGINAL} = {value}", "", KEPT))
            constants = dict(zip("cd", passed or map(repr, step.constants), strict=False))
            template = POINTWISE[step.op].triton
            if operand in loads:
                load = loads.pop(operand)
                if self.values.count(operand) == template.count("{y}") == 1:
                    operand = load
                else:
                    lines.append(f"{operand} = {load}")
            expression = template.format(x=value, y=operand, **constants)
            line = f"{value} = {expression}"
            lines.append(marked(line, tags[place], step.op) if tags[place] else line)
        return lines


def affine(module: str, dtype: Dtype = "float32", names: Sequence[str] = ("weight", "bias")) -> Chain:
    """The weight and bias of a norm, which the attribute `module` of the model holds."""
    steps = {"weight": Step("mul", "parameter"), "bias": Step("add", "parameter")}
    return Chain(
        (),
        tuple(steps[name] for name in names),
        tuple((name, "channel") for name in names),
        tuple(names),
        "" if dtype == "float32" else ".to(tl.float32)",
        tuple((name, f"self.{module}.{name}") for name in names),
    )


NOTHING = Chain((), (), (), (), "")


def chain(
    draw: Draw,
    count: int,
    dtype: Dtype = "float32",
    *,
    channel: Channel | None = None,
    full: str = "",
    names: Sequence[str] = UNARY,
    share: float = 0.4,
    taken: Sequence[str] = (),
    alone: bool = False,
) -> Chain:
    """A sound chain of `count` steps.

    `channel` is the shape of a per-channel parameter over constructor arguments, with those arguments; `full` the
    shape of another input, over size constants. `taken` are names that are in use, attributes as `self.NAME`. `alone`
    allows a chain that begins with what hardly changes its input.
    """
    if count <= 0:
        return NOTHING
    idles = count > 1 and draw.chance(0.2)
    count -= idles
    while True:
        steps = tuple(_step(draw, names, share, channel is not None, bool(full)) for _ in range(count))
        if count > 1 and not idles and draw.chance(0.12):
            joins = {place for place in range(1, count - 1) if draw.chance(0.3)} | {count - 1}
            steps = tuple(
                Step(draw.pick(RESIDUAL), "first") if place in joins else step
                for place, step in enumerate(steps)
            )
        kinds = [step.operand for step in steps]
        if kinds.count("input") <= 1 and kinds.count("parameter") <= 2 and is_sound(steps):
            if idles:
                steps = _with_idle(draw, steps)
            steps = _with_number_again(draw, steps)
            return _chain(draw, steps, dtype, channel, full, set(taken))


def _with_idle(draw: Draw, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """One step more: the last once more, or one that changes nothing, where there is such a one."""
    if not (steps[-1].operand or POINTWISE[steps[-1].op].constants) and draw.chance(0.5):
        return (*steps, steps[-1])
    places = [place for place, step in enumerate(steps) if step.op in IDLE or step.op == "clamp"]
    if not places:
        more = Step("scale", "", (draw.pick((0.5, 2.0)),))
        return (*steps, more)
    place = draw.pick(places)
    after = steps[place] if steps[place].op == "clamp" else draw.pick(IDLE[steps[place].op])
    return (*steps[: place + 1], after, *steps[place + 1 :])


def _with_number_again(draw: Draw, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Now and then a step with a number that was taken before, in this chain or an earlier one: a product and a sum with
    one `scale`, two equal bounds."""
    if draw.chance(0.65):
        return steps
    earlier = [(-1, use) for use in draw.numbers]
    known = earlier + [
        (place, _use(step)) for place, step in enumerate(steps) if step.constants and not step.operand
    ]
    choices = [
        (place, use)
        for first, use in known
        for place in range(first + 1, len(steps))
        if not steps[place].operand
    ]
    if not choices:
        return steps
    place, (kind, constants) = draw.pick(choices)
    again = Step(draw.pick(ARITHMETIC) if kind == NUMBER else kind, "", constants)
    found = (*steps[:place], again, *steps[place + 1 :])
    return found if is_sound(found) else steps


def _use(step: Step) -> tuple[str, tuple[float, ...]]:
    """What a step needs its constants for: steps of one use may share them."""
    return NUMBER if step.op in ARITHMETIC else step.op, step.constants


def _step(draw: Draw, names: Sequence[str], share: float, channel: bool, full: bool) -> Step:
    if (channel or full) and draw.chance(share):
        # Where not every map may come, a bound might leave nothing either.
        name = draw.pick(JOINED if "relu6" in names else JOINED[:8])
        kinds = ["parameter"] * channel + ["input"] * full
        return Step(name, draw.pick(kinds), tuple(draw.pick(v) for v in POINTWISE[name].constants))  # type: ignore[arg-type]
    name = draw.pick(names)
    if name in ARITHMETIC and draw.chance(0.4):
        return Step(name, "", (number(draw),))
    return Step(name, "", tuple(draw.pick(values) for values in POINTWISE[name].constants))


def number(draw: Draw) -> float:
    """Any number up to 16, of up to four digits behind the point: numbers have to be copied as names have."""
    digits = draw.pick((0, 0, 1, 1, 2, 3, 4))
    number = draw.pick(range(2, 16 * 10**digits + 1)) / 10**digits
    return int(number) if digits == 0 and draw.chance(0.5) else number


def _chain(
    draw: Draw,
    steps: Sequence[Step],
    dtype: Dtype,
    channel: Channel | None,
    full: str,
    taken: set[str],
) -> Chain:
    ops: list[Op] = []
    operands: list[tuple[str, str]] = []
    values: list[str] = []
    sources: list[tuple[str, str]] = []
    numbers: list[tuple[str, ...]] = []
    hoists = draw.chance(0.65)
    for step in steps:
        operator = POINTWISE[step.op]
        name, state, init, inputs = "", (), (), ()  # type: tuple[str, tuple[str, ...], tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]
        spelled = ""
        lines: tuple[str, ...] = ()
        if step.operand == "first":
            spelled = ORIGINAL
        elif step.operand == "input":
            name = next(n for n in ("other", "third") if n not in taken)
            inputs = ((name, tensor(full, dtype)),)
            operands.append((name, "full"))
            spelled = name
        elif step.operand == "parameter" and (again := _again(draw, channel)) is not None:
            name, spelled = again.operand[0], again.spelled
            if again.operand not in operands:
                operands.append(again.operand)
                if again.attribute != f"self.{name}":
                    sources.append((name, again.attribute))
        elif step.operand == "parameter":
            assert channel is not None
            stems = [n for n in NAMES.get(step.op, ("gate", "gate_weight")) if f"self.{n}" not in taken]
            attribute = (
                draw.pick(stems)
                if stems
                else next(n for n in (f"gate{i}" for i in range(2, 99)) if f"self.{n}" not in taken)
            )
            taken.add(f"self.{attribute}")
            name = next(n for n in (attribute, *(f"{attribute}{i}" for i in range(2, 9))) if n not in taken)
            if name != attribute:
                sources.append((name, f"self.{attribute}"))
            shape, init = channel
            operands.append((name, "channel"))
            spelled = f"self.{attribute}"
            made, ones = _made(draw, step.op), shape.count(", 1")
            if ones and draw.chance(0.25):
                shape = f"1, {shape}"
            elif ones and draw.chance(0.1):
                shape = shape.partition(",")[0]
                spelled += f".view(1, -1{', 1' * ones})"
            text = f"{made}({shape}{placed(dtype)})"
            if channel == SCALAR or draw.chance(0.15):
                single = ", ".join(["1"] * (1 + ones * draw.chance(0.3)))
                operands[-1], init, text = (name, "scalar"), (), f"torch.randn({single}{placed(dtype)})"
                spelled = f"self.{attribute}"
                if step.op in BOUNDS or draw.chance(0.5):
                    number = str(draw.pick(BOUNDS.get(step.op, (0.5, 0.25, 1.5, 2.0))))
                    if attribute not in taken and draw.chance(0.5):
                        init, number = ((attribute, number),), attribute
                    text = f"torch.tensor({number}{placed(dtype)})"
            state = (f"self.{attribute} = nn.Parameter({text})",)
            draw.parameters.append(Parameter(channel, operands[-1], spelled, f"self.{attribute}"))
        if name:
            taken.add(name)
        constants = dict(zip("cd", map(repr, step.constants), strict=False))
        held: tuple[str, ...] = ()
        if hoists and step.constants and draw.chance(0.85):
            use = _use(step)
            held = draw.numbers.get(use, ())
            if held and draw.chance(0.85):
                operands += [(given, "number") for given in held if (given, "number") not in operands]
            else:
                several = sum(other.op == step.op for other in steps) > 1
                held = held_names(draw, step.op, len(step.constants), taken, several)
                taken.update(held)
                taken.update(f"self.{given}" for given in held)
                operands += [(given, "number") for given in held]
                state += tuple(f"self.{given} = {given}" for given in held)
                init += tuple(zip(held, map(repr, step.constants), strict=True))
                draw.numbers[use] = held
            constants = {letter: f"self.{given}" for letter, given in zip("cd", held, strict=False)}
        numbers.append(held)
        spelling = draw.pick(operator.spellings).replace("{x}", "\0").format(y=spelled, **constants)
        by_name = {letter: text.removeprefix("self.") for letter, text in constants.items()}
        module = operator.module.format(**by_name) if operator.module else ""
        if draw.chance(0.4):
            module = re.sub(r"Hardtanh\((\S+), (\S+)\)", r"Hardtanh(min_val=\1, max_val=\2)", module)
            module = re.sub(r"LeakyReLU\((\S+)\)", r"LeakyReLU(negative_slope=\1)", module)
        if step == _LEAKY[0] and not held and draw.chance(0.6):
            spelling, module = "F.leaky_relu(\0)", "nn.LeakyReLU()"
        if draw.chance(0.12):
            for short, long in LONG.items():
                spelling = spelling.replace(f"torch.{short}(", f"torch.{long}(")
        wired = f"{step.op}:{step.operand}" if step.operand else step.op
        if not ops and any(other.operand == "first" for other in steps):
            lines = (f"{ORIGINAL} = {{x}}",)
        ops.append(Op(wired, spelling.replace("\0", "{x}"), state, init, inputs, module, lines))
        values.append(ORIGINAL if step.operand == "first" else name)
    wide = "" if dtype == "float32" else ".to(tl.float32)"
    passed = tuple(numbers) if hoists else ()
    kept = (0,) if any(step.operand == "first" for step in steps) else ()
    draw.chains += 1
    tags = tuple(f"{draw.chains}.{place}" for place in range(len(steps)))
    return Chain(
        tuple(ops), tuple(steps), tuple(operands), tuple(values), wide, tuple(sources), passed, kept, tags
    )


def _again(draw: Draw, channel: Channel | None) -> Parameter | None:
    """A parameter that an earlier step took, of this chain or of one before, for this one to take, too."""
    found = [one for one in draw.parameters if one.shape == channel]
    return draw.pick(found) if found and draw.chance(0.5) else None


LONG = {"mul": "multiply", "sub": "subtract", "div": "divide"}
"""Other names of functions in `torch`."""


def _made(draw: Draw, operator: str) -> str:
    """What fills a parameter."""
    if operator == "mul" and draw.chance(0.12):
        return "torch.ones"
    return draw.pick(("torch.randn",) * 9 + ("torch.rand",))


def held_names(draw: Draw, operator: str, count: int, taken: set[str], several: bool) -> tuple[str, ...]:
    """Names of an operator's constants as arguments of the constructor; `several`: the chain has more of its kind."""
    stems = draw.pick(HELD.get(operator, ((f"{operator}_value",),)))[:count]
    if len(stems) < count:
        stems = tuple(f"{operator}_{letter}" for letter in "ab"[:count])
    between, counts = draw.pick(("_", "_", "")), several and draw.chance(0.5)
    found: list[str] = []
    for stem in stems:
        names = [f"{stem}{between}{i}" for i in range(1 if counts else 2, 12)]
        names = names if counts else [stem, *names]
        found.append(next(n for n in names if not {n, f"self.{n}"} & taken and n not in found))
    return tuple(found)
