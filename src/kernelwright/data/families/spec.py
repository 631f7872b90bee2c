"""What a family of operators is: a typed draw of one task and one kernel for it.

    Family.draw(Draw) -> Design: the reference's operators (Op), the kernels' stages (Stage), the sizes

A `Design` is text and numbers only; `write.py` makes a `Model` and a `ModelNew` of it in some style. The task hangs
on `Draw.rng` alone and the kernel on `Draw.tune`, so that one task can be given several kernels.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeVar

T = TypeVar("T")
Dtype = Literal["float32", "float16", "bfloat16"]
Category = Literal[
    "matmul",
    "convolution",
    "activation",
    "norm",
    "pooling",
    "reduction",
    "scan",
    "loss",
    "attention",
    "training",
    "fusion",
    "layout",
]
MOST_INT32 = 2**31 - 1
FREED = 0.15
"""Share of tasks whose weights are arguments of `forward`."""


class Size(NamedTuple):
    """One module-level constant: at full size, and in the shape sets `small` and `small_odd`."""

    full: int
    small: int
    odd: int


class Parameter(NamedTuple):
    """A parameter of the reference's module, as a step of a chain takes it."""

    shape: object
    """What a step that takes it again must want, too."""
    operand: tuple[str, str]
    """The kernel's name for it, and its kind."""
    spelled: str
    """In `forward`."""
    attribute: str
    """As `self.NAME`."""


@dataclass(frozen=True)
class Op:
    """One operator of the reference."""

    name: str
    """What the graph calls it: wiring included, sizes not."""
    expression: str
    """Over `{x}`, the value so far; names of inputs and constructor arguments stand as themselves."""
    state: tuple[str, ...] = ()
    """Lines of `__init__` that hold weights: `ModelNew` repeats them."""
    init: tuple[tuple[str, str], ...] = ()
    """Constructor arguments: (name, value), the value over size constants."""
    inputs: tuple[tuple[str, str], ...] = ()
    """Arguments of `forward`: (name, expression that makes it), over size constants. After a semicolon: how a
    second line finishes it, over `{m}`."""
    module: str = ""
    """The operator as an `nn` module without weights, where there is one."""
    lines: tuple[str, ...] = ()
    """Statements of `forward` before the expression; `NAME = {x}` keeps the value so far."""


@dataclass(frozen=True)
class Stage:
    """Kernels with the host function that launches them."""

    name: str
    kernels: tuple[str, ...]
    takes: tuple[tuple[str, str], ...]
    """(parameter, expression passed for it); `{x}` is the value so far."""
    body: tuple[str, ...]
    """The host function's lines; the last one returns."""
    helpers: tuple[str, ...] = ()
    """Names in `policy.compiler.helpers.HELPERS` that the kernels call."""
    result: str = ""
    """What `forward` calls its value, where a later stage takes it by name."""


@dataclass(frozen=True)
class Design:
    """A task and a kernel for it, before they are written."""

    ops: tuple[Op, ...]
    stages: tuple[Stage, ...]
    sizes: Mapping[str, Size]
    dtype: Dtype = "float32"
    constants: Mapping[str, int] = field(default_factory=dict)
    """Tiles that the kernels' module names as constants."""


def passing(stages: Sequence[Stage], other: Callable[[str], str]) -> tuple[Stage, ...]:
    """The stages with what they are passed said otherwise."""
    return tuple(
        replace(stage, takes=tuple((given, other(passed)) for given, passed in stage.takes))
        for stage in stages
    )


class Draw:
    """The dice of one pair, with what the corpus wants of it."""

    def __init__(
        self, task: str, kernel: str, operators: int = 1, slow: bool = False, freed: float = FREED
    ) -> None:
        """`task` and `kernel` seed what is asked and how it is answered; `operators` is the chain's wanted length;
        `slow` asks for an honest kernel that should be slower; `freed` is the share of tasks whose weights are inputs."""
        self.rng, self.tune = random.Random(task), random.Random(kernel)
        self.operators, self.slow, self.freed = operators, slow, freed
        self.constants: dict[str, int] = {}
        self.chains = 0
        """Chains of pointwise steps so far."""
        self.parameters: list[Parameter] = []
        self.numbers: dict[tuple[str, tuple[float, ...]], tuple[str, ...]] = {}
        """What those took that a later step may take again; numbers by their use and values."""

    def pick(self, values: Sequence[T]) -> T:
        """One of `values`, as part of the task."""
        return self.rng.choice(list(values))

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def tile(self, name: str, good: Sequence[int], bad: Sequence[int] = ()) -> str:
        """A tile size for the launch: a number, or the name of a module-level constant."""
        value = self.tune.choice(list(bad if self.slow and bad else good))
        # A name that an earlier stage has taken stays that stage's.
        if self.tune.random() < 0.4 and name not in self.constants:
            self.constants[name] = value
            return name
        return str(value)

    def warps(self, good: Sequence[int], bad: Sequence[int] = ()) -> str:
        """The keyword of a launch."""
        return f"num_warps={self.tune.choice(list(bad if self.slow and bad else good))}"

    def size(self, full: Sequence[int], small: Sequence[int], odd: Sequence[int]) -> Size:
        """A size, its three values drawn independently."""
        return Size(self.pick(full), self.pick(small), self.pick(odd))

    def dtype(self, half: float = 0.3) -> Dtype:
        """The task's precision; `half` is the share of the two short ones."""
        return self.pick(("float16", "bfloat16")) if self.chance(half) else "float32"


@dataclass(frozen=True)
class Family:
    """A named family. `levels` are the lengths of chains it can be asked for."""

    name: str
    category: Category
    draw: Callable[[Draw], Design]
    levels: tuple[int, ...] = (1,)


def tensor(shape: str, dtype: Dtype = "float32", kind: str = "randn") -> str:
    """The expression that makes an input."""
    return f"torch.{kind}({shape})" if dtype == "float32" else f"torch.{kind}({shape}, dtype=torch.{dtype})"


def placed(dtype: Dtype) -> str:
    """The last argument of a module with weights."""
    return "" if dtype == "float32" else f", dtype=torch.{dtype}"


def widened(dtype: Dtype) -> str:
    """What follows a load whose value goes into arithmetic."""
    return "" if dtype == "float32" else ".to(tl.float32)"


def precision(dtype: Dtype) -> str:
    """The last argument of a product: float32 to its full precision, which three products in TF32 give (Ootomo and
    Yokota 2022) and one does not."""
    return ', input_precision="tf32x3"' if dtype == "float32" else ""


def kernel(name: str, parameters: Sequence[str], body: Sequence[str]) -> str:
    """The text of a kernel; long signatures are broken."""
    line = f"def {name}({', '.join(parameters)}):"
    if len(line) > 108:
        plain = [p for p in parameters if ":" not in p]
        tiles = [p for p in parameters if ":" in p]
        rows = [", ".join(part) + "," for part in (*_rows(plain), *_rows(tiles)) if part]
        line = "\n".join([f"def {name}(", *(f"    {row}" for row in rows), "):"])
    return "\n".join(["@triton.jit", line, *(f"    {text}" if text else "" for text in body)])


def launch(name: str, grid: str, arguments: Sequence[str]) -> list[str]:
    """The lines of a launch on a grid, which is given without its parentheses."""
    line = f"{name}[({grid})]({', '.join(arguments)})"
    if len(line) <= 100:
        return [line]
    rows = [", ".join(part) + "," for part in _rows(list(arguments))]
    return [f"{name}[({grid})](", *(f"    {row}" for row in rows), ")"]


def _rows(parts: list[str]) -> list[list[str]]:
    rows: list[list[str]] = []
    for part in parts:
        if rows and sum(len(p) + 2 for p in rows[-1]) + len(part) < 92:
            rows[-1].append(part)
        else:
            rows.append([part])
    return rows
