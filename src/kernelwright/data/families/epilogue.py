"""Chains of pointwise operators that a kernel can do on values it holds: after a product, a convolution, a norm.

The operators and both of their spellings are those of `operators.py`; here they get their operands: a parameter of
one value per channel, a single number that is learned, or another input of the value's shape. `probe.is_sound`
decides whether a chain is worth asking about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.data.families.spec import Draw, Dtype, Op, placed, tensor
from kernelwright.data.graphs import Step
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
NAMES = {"add": "bias", "sub": "shift", "mul": "scale", "maximum": "floor", "minimum": "cap"}
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
HELD = {
    "scale": ("scaling_factor",),
    "offset": ("add_value",),
    "minus": ("subtract_value",),
    "over": ("divisor",),
    "clamp": ("min_value", "max_value"),
    "floor_at": ("min_value",),
    "cap_at": ("max_value",),
    "leaky_relu": ("negative_slope",),
    "elu": ("alpha",),
}
"""What an operator's constants are called as arguments of the constructor."""


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

    @property
    def pointers(self) -> list[str]:
        """The kernel's parameters."""
        return [name if kind == "number" else f"{name}_ptr" for name, kind in self.operands]

    @property
    def arguments(self) -> list[str]:
        return [name for name, _ in self.operands]

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
        gives a loaded channel vector the value's shape; `one` is for a channel that is one number a program."""
        lines = []
        for name, kind in self.operands:
            if kind == "number":
                continue
            if kind == "scalar" or (kind == "channel" and one):
                at = f"{name}_ptr" if kind == "scalar" else f"{name}_ptr + {channel}"
                lines.append(f"{name} = tl.load({at}){self.wide}")
            elif kind == "channel":
                masked = f", mask={channel_mask}, other=0.0" if channel_mask else ""
                lines.append(f"{name} = tl.load({name}_ptr + {channel}{masked}){expand}{self.wide}")
            else:
                masked = f", mask={mask}, other=0.0" if mask else ""
                lines.append(f"{name} = tl.load({name}_ptr + {offsets}{masked}){self.wide}")
        numbers = self.numbers or ((),) * len(self.steps)
        for place, (step, operand, passed) in enumerate(zip(self.steps, self.values, numbers, strict=True)):
            if place in self.kept:
                lines.append(f"{ORIGINAL} = {value}")
            constants = dict(zip("cd", passed or map(repr, step.constants), strict=False))
            expression = POINTWISE[step.op].triton.format(x=value, y=operand, **constants)
            lines.append(f"{value} = {expression}")
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
    shape of another input, over size constants. `taken` are names that are in use. `alone` allows a chain that
    begins with what hardly changes its input.
    """
    if count <= 0:
        return NOTHING
    while True:
        steps = tuple(_step(draw, names, share, channel is not None, bool(full)) for _ in range(count))
        if count > 1 and draw.chance(0.12):
            joins = {place for place in range(1, count - 1) if draw.chance(0.3)} | {count - 1}
            steps = tuple(
                Step(draw.pick(RESIDUAL), "first") if place in joins else step
                for place, step in enumerate(steps)
            )
        kinds = [step.operand for step in steps]
        if kinds.count("input") <= 1 and kinds.count("parameter") <= 2 and is_sound(steps):
            return _chain(draw, steps, dtype, channel, full, set(taken))


def _step(draw: Draw, names: Sequence[str], share: float, channel: bool, full: bool) -> Step:
    if (channel or full) and draw.chance(share):
        # Where not every map may come, a bound might leave nothing either.
        name = draw.pick(BINARY if "relu6" in names else BINARY[:3])
        kinds = ["parameter"] * channel + ["input"] * full
        return Step(name, draw.pick(kinds), tuple(draw.pick(v) for v in POINTWISE[name].constants))  # type: ignore[arg-type]
    name = draw.pick(names)
    return Step(name, "", tuple(draw.pick(values) for values in POINTWISE[name].constants))


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
    numbers: list[tuple[str, ...]] = []
    hoists = draw.chance(0.35)
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
        elif step.operand == "parameter":
            assert channel is not None
            stem = NAMES.get(step.op, "gate")
            name = next(n for n in (stem, *(f"{stem}{i}" for i in range(2, 9))) if n not in taken)
            shape, init = channel
            operands.append((name, "channel"))
            made = f"torch.randn({shape}{placed(dtype)})"
            if ", 1" in shape and draw.chance(0.25):
                made = f"torch.randn(1, {shape}{placed(dtype)})"
            if channel == SCALAR or draw.chance(0.15):
                operands[-1], init, made = (name, "scalar"), (), f"torch.randn(1{placed(dtype)})"
                if step.op in BOUNDS or draw.chance(0.5):
                    number = draw.pick(BOUNDS.get(step.op, (0.5, 0.25, 1.5, 2.0)))
                    made = f"torch.tensor({number}{placed(dtype)})"
            state = (f"self.{name} = nn.Parameter({made})",)
            spelled = f"self.{name}"
        if name:
            taken.add(name)
        constants = dict(zip("cd", map(repr, step.constants), strict=False))
        held: tuple[str, ...] = ()
        if hoists and step.constants:
            held = _held(step.op, len(step.constants), taken)
            taken.update(held)
            operands += [(given, "number") for given in held]
            state += tuple(f"self.{given} = {given}" for given in held)
            init += tuple(zip(held, map(repr, step.constants), strict=True))
            constants = {letter: f"self.{given}" for letter, given in zip("cd", held, strict=False)}
        numbers.append(held)
        spelling = draw.pick(operator.spellings).replace("{x}", "\0").format(y=spelled, **constants)
        by_name = {letter: text.removeprefix("self.") for letter, text in constants.items()}
        module = operator.module.format(**by_name) if operator.module else ""
        wired = f"{step.op}:{step.operand}" if step.operand else step.op
        if not ops and any(other.operand == "first" for other in steps):
            lines = (f"{ORIGINAL} = {{x}}",)
        ops.append(Op(wired, spelling.replace("\0", "{x}"), state, init, inputs, module, lines))
        values.append(ORIGINAL if step.operand == "first" else name)
    wide = "" if dtype == "float32" else ".to(tl.float32)"
    passed = tuple(numbers) if hoists else ()
    kept = (0,) if any(step.operand == "first" for step in steps) else ()
    return Chain(tuple(ops), tuple(steps), tuple(operands), tuple(values), wide, (), passed, kept)


def _held(operator: str, count: int, taken: set[str]) -> tuple[str, ...]:
    """Names of an operator's constants as arguments of the constructor."""
    stems = HELD.get(operator, (f"{operator}_value",))[:count]
    if len(stems) < count:
        stems = tuple(f"{operator}_{letter}" for letter in "ab"[:count])
    found: list[str] = []
    for stem in stems:
        names = (stem, *(f"{stem}_{i}" for i in range(2, 9)))
        found.append(next(n for n in names if n not in taken and n not in found))
    return tuple(found)
