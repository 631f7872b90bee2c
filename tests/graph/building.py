"""Builds graphs by hand: one call per operator, types inferred on meta tensors."""

from typing import Any, Literal

import torch

from kernelwright.graph import operators
from kernelwright.graph.execute import DTYPE_NAMES, DTYPES
from kernelwright.graph.types import Argument, DtypeArg, Graph, Node, Operand, Ref, TensorType, Value


class Builder:
    """Collects arguments and nodes.

    >>> b = Builder()
    >>> x = b.input(4, 8)
    >>> b.graph(b.op("aten.relu.default", x))
    """

    def __init__(self) -> None:
        self.arguments: list[Argument] = []
        self.nodes: list[Node] = []
        self.metas: dict[str, torch.Tensor] = {}

    def input(
        self,
        *shape: int,
        dtype: Any = "float32",
        role: Literal["input", "weight", "buffer", "constant"] = "input",
        origin: str = "",
    ) -> Ref:
        name = f"a{len(self.arguments)}"
        self.metas[name] = torch.empty(shape, dtype=DTYPES[dtype], device="meta")
        type_ = TensorType(dtype=dtype, shape=shape)
        self.arguments.append(Argument(name=name, type=type_, role=role, origin=origin))
        return Ref(ref=name)

    def weight(self, *shape: int, origin: str = "", dtype: str = "float32") -> Ref:
        origin = origin or f"p{len(self.arguments)}"
        return self.input(*shape, role="weight", origin=origin, dtype=dtype)

    def op(self, op: str, *args: Operand, **kwargs: Operand) -> Any:
        """A Ref to the operator's result, or a tuple of them."""
        out = operators.resolve(op)(
            *(self._meta(one) for one in args), **{k: self._meta(v) for k, v in kwargs.items()}
        )
        several = isinstance(out, tuple | list)
        values, refs = [], []
        for one in out if several else [out]:
            name = f"n{len(self.metas)}"
            self.metas[name] = one
            values.append(
                Value(name=name, type=TensorType(dtype=DTYPE_NAMES[one.dtype], shape=tuple(one.shape)))
            )
            refs.append(Ref(ref=name))
        self.nodes.append(Node(op=op, args=args, kwargs=tuple(kwargs.items()), outputs=tuple(values)))
        return tuple(refs) if several else refs[0]

    def graph(self, *results: Ref, name: str = "graph") -> Graph:
        return Graph(
            name=name,
            arguments=tuple(self.arguments),
            nodes=tuple(self.nodes),
            results=tuple(one.ref for one in results),
        )

    def _meta(self, one: Operand) -> Any:
        if isinstance(one, Ref):
            return self.metas[one.ref]
        if isinstance(one, DtypeArg):
            return DTYPES[one.dtype]
        if isinstance(one, tuple):
            return [self._meta(part) for part in one]
        return one


def values_of(graph: Graph, seed: int = 0) -> dict[str, torch.Tensor]:
    """A value for each argument."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for one in graph.arguments:
        assert isinstance(one.type, TensorType)
        shape = tuple(int(size) for size in one.type.shape)
        dtype = DTYPES[one.type.dtype]
        floating = dtype.is_floating_point
        found[one.name] = (
            torch.randn(shape, generator=generator).to(dtype)
            if floating
            else torch.randint(0, 4, shape, generator=generator).to(dtype)
        )
    return found


def linear(b: Builder, x: Ref, into: int, out: int, bias: bool = True) -> Ref:
    weights = [b.weight(out, into), *([b.weight(out)] if bias else [])]
    made: Ref = b.op("aten.linear.default", x, *weights)
    return made


def rms_norm(b: Builder, x: Ref, width: int) -> Ref:
    squared = b.op("aten.pow.Tensor_Scalar", x, 2)
    mean = b.op("aten.mean.dim", squared, (-1,), True)
    scale = b.op("aten.rsqrt.default", b.op("aten.add.Scalar", mean, 1e-6))
    made: Ref = b.op("aten.mul.Tensor", b.op("aten.mul.Tensor", x, scale), b.weight(width))
    return made


def attention_block(b: Builder, x: Ref, batch: int, length: int, width: int, heads: int) -> Ref:
    """Norm, projections, attention, projection, residual; norm, gated MLP, residual."""
    h = rms_norm(b, x, width)

    def head(of: Ref) -> Ref:
        made: Ref = b.op(
            "aten.transpose.int",
            b.op("aten.reshape.default", of, (batch, length, heads, width // heads)),
            1,
            2,
        )
        return made

    q, k, v = (head(linear(b, h, width, width, bias=False)) for _ in range(3))
    mixed = b.op("aten.scaled_dot_product_attention.default", q, k, v)
    mixed = b.op("aten.reshape.default", b.op("aten.transpose.int", mixed, 1, 2), (batch, length, width))
    x = b.op("aten.add.Tensor", x, linear(b, mixed, width, width, bias=False))
    h = rms_norm(b, x, width)
    gate = b.op("aten.silu.default", linear(b, h, width, 2 * width, bias=False))
    up = b.op("aten.mul.Tensor", gate, linear(b, h, width, 2 * width, bias=False))
    made: Ref = b.op("aten.add.Tensor", x, linear(b, up, 2 * width, width, bias=False))
    return made
