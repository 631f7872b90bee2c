"""The noun `Graph`: a forward or backward pass as typed static single assignment over ATen operators.

Weights, buffers and lifted constants are arguments like the inputs, so a graph needs no module to run. Values are
named once, refer backwards only, and carry dtype and shape; sizes are integers or expressions over named symbols.
Graphs are frozen, hashable, travel as JSON, and import nothing heavy: a log can be read anywhere.

Does not guarantee that a graph computes what its captured module does (`agree.py` checks that), nor
that its operators exist (`operators.py` has the set).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import TypeAliasType

_NAME = re.compile(r"[a-z_][a-z0-9_]*\Z")
_DIM = re.compile(r"[a-z0-9_+*/%,() -]+\Z")

DtypeName = Literal[
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"
]  # fmt: skip
Dim = int | str
"""A size: an integer, or a Python expression over the graph's symbols, such as `s0` or `2*s0 + 1`."""


class _Noun(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TensorType(_Noun):
    """A tensor's dtype and shape: `TensorType(dtype="bfloat16", shape=("s0", 4096))`."""

    kind: Literal["tensor"] = "tensor"
    dtype: DtypeName
    shape: tuple[Dim, ...]
    strides: tuple[Dim, ...] | None = None
    """In elements; None: contiguous, or irrelevant."""

    @model_validator(mode="after")
    def _well_formed(self) -> Self:
        if self.strides is not None and len(self.strides) != len(self.shape):
            raise ValueError("strides and shape differ in length")
        for size in (*self.shape, *(self.strides or ())):
            if isinstance(size, str) and not _DIM.match(size):
                raise ValueError(f"size {size!r} is not an expression over symbols")
            if isinstance(size, int) and size < 0:
                raise ValueError(f"size {size} is negative")
        return self


class NumberType(_Noun):
    """A Python number, given at each call or computed from sizes."""

    kind: Literal["number"] = "number"
    of: Literal["int", "float", "bool"]


ValueType = Annotated[TensorType | NumberType, Field(discriminator="kind")]


class Ref(_Noun):
    """A value made earlier, or an argument, by name."""

    ref: str


class Size(_Noun):
    """An integer computed from symbols: `Size(size="4*s0")`."""

    size: str


class Scale(_Noun):
    """A float computed from symbols, such as an inverse root: `Scale(scale="(n//2)**-0.5")`."""

    scale: str


class DtypeArg(_Noun):
    """A dtype passed to an operator."""

    dtype: DtypeName


class Other(_Noun):
    """An argument of another kind, as torch prints it: `Other(other="torch.contiguous_format")`; and floats that JSON lacks."""

    other: Literal[
        "torch.strided", "torch.contiguous_format", "torch.preserve_format", "torch.channels_last",
        "torch.channels_last_3d", "device", "inf", "-inf", "nan",
    ]  # fmt: skip


Finite = Annotated[float, Field(allow_inf_nan=False)]
Operand = TypeAliasType(
    "Operand",
    "Ref | Size | Scale | DtypeArg | Other | bool | int | Finite | str | tuple[Operand, ...] | None",
)
"""An operator's argument. `device` is the device of the graph's tensors, wherever it runs."""


class Argument(_Noun):
    """One argument of a graph."""

    name: str
    type: ValueType
    role: Literal["input", "weight", "buffer", "constant"] = "input"
    """`input` is given at each call, `weight` is learnable, `buffer` is stored state, `constant` a lifted tensor."""
    origin: str = ""
    """Its dotted name in the module (`layers.0.weight`); the parameter's name for inputs."""
    mutated: bool = False
    """Whether the graph returns a new value for it, to be written back (running statistics in training mode)."""
    complex: bool = False
    """Whether it is a complex tensor in the module; the graph takes its real view, [..., 2]."""
    kept: bool = True
    """Whether its module's state_dict has it; False for non-persistent buffers."""


class Value(_Noun):
    """One result of a node."""

    name: str
    type: ValueType


class Node(_Noun):
    """One operator call: `Node(op="aten.mul.Tensor", args=(Ref(ref="x"), 2.0), outputs=(Value(...),))`."""

    op: str
    """`namespace.name.overload`, as `torch.ops` has it."""
    args: tuple[Operand, ...] = ()
    kwargs: tuple[tuple[str, Operand], ...] = ()
    outputs: tuple[Value | None, ...]
    """One per result of the operator; None if the result is never read."""

    def refs(self) -> Iterator[str]:
        """Names of the values that it reads, in order, with repetitions."""
        for one in (*self.args, *(value for _, value in self.kwargs)):
            yield from refs_in(one)


class Symbol(_Noun):
    """A size that varies: `Symbol(name="s0", hint=16, least=2, most=None)`."""

    name: str
    hint: int
    """Its value in the capture."""
    least: int = 1
    most: int | None = None


class Graph(_Noun):
    """A pass over tensors: arguments, nodes in order, results.

    Raises ValidationError unless names are unique and values are made before they are read.
    """

    name: str = "graph"
    arguments: tuple[Argument, ...]
    nodes: tuple[Node, ...]
    results: tuple[str, ...]
    """Names of the returned values, in order; new values of mutated arguments come first, in the arguments' order."""
    symbols: tuple[Symbol, ...] = ()
    signature: str = ""
    """How arguments and results nest in the module's own call, as a JSON pytree; empty: flat."""

    @model_validator(mode="after")
    def _single_assignment(self) -> Self:
        known: set[str] = set()
        for argument in self.arguments:
            _define(argument.name, known)
        for node in self.nodes:
            for name in node.refs():
                if name not in known:
                    raise ValueError(f"{node.op} reads {name}, which is not made before")
            for value in node.outputs:
                if value is not None:
                    _define(value.name, known)
        for name in self.results:
            if name not in known:
                raise ValueError(f"the graph returns {name}, which is not made")
        return self

    def argument(self, name: str) -> Argument:
        """The argument of that name. Raises KeyError."""
        for one in self.arguments:
            if one.name == name:
                return one
        raise KeyError(name)

    def types(self) -> dict[str, TensorType | NumberType]:
        """The type of every value, arguments first, then in the order in which they are made."""
        found: dict[str, TensorType | NumberType] = {one.name: one.type for one in self.arguments}
        for node in self.nodes:
            found.update((value.name, value.type) for value in node.outputs if value is not None)
        return found

    @property
    def digest(self) -> str:
        """Identity by content, without what arguments are outside the graph: 16 hex digits."""
        body = self.model_dump_json(
            exclude={"name": True, "arguments": {"__all__": {"origin", "complex", "kept"}}}
        )
        return hashlib.sha256(body.encode()).hexdigest()[:16]


def refs_in(operand: Operand) -> Iterator[str]:
    """Names of values in an operator's argument, at any depth."""
    if isinstance(operand, Ref):
        yield operand.ref
    elif isinstance(operand, tuple):
        for one in operand:
            yield from refs_in(one)


def _define(name: str, known: set[str]) -> None:
    if not _NAME.match(name):
        raise ValueError(f"{name!r} is not a name for a value: lower case letters, digits and _ only")
    if name in known:
        raise ValueError(f"{name} is made twice")
    known.add(name)
