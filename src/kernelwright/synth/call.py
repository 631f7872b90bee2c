"""One operator call being lowered: its arguments by position or name, and compositions that many rules share."""

from __future__ import annotations

from typing import Any

from kernelwright.synth.pointwise import RULES
from kernelwright.synth.primitives import Builder, Unsupported, Val


class Call:
    """One operator call being lowered."""

    def __init__(
        self,
        b: Builder,
        op: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        out: Val,
        sizes: tuple[int, ...],
    ) -> None:
        self.b, self.op, self.args, self.kwargs, self.out = b, op, args, kwargs, out
        self.sizes = sizes
        """The result's sizes, which may be `Varying`."""

    def arg(self, place: int, name: str = "", default: Any = None) -> Any:
        """An argument by position or name, or the default."""
        return self.args[place] if place < len(self.args) else self.kwargs.get(name, default)

    @property
    def x(self) -> Val:
        value = self.args[0] if self.args else None
        if not isinstance(value, Val):
            raise Unsupported(f"{self.op} of a number")
        return value

    def dims(self, place: int, name: str = "dim", x: Val | None = None) -> tuple[int, ...]:
        """Reduced dimensions; all if none are given."""
        dims = self.arg(place, name)
        rank = len((x or self.x).shape)
        if dims is None or dims == ():
            return tuple(range(rank))
        return tuple(one % max(rank, 1) for one in (dims if isinstance(dims, tuple) else (dims,)))

    def pointwise(self, rule: str) -> Val:
        """Apply a row of the rules' table to the call's operands."""
        row = RULES[rule]
        args = list(self.args[: row.operands])
        missing = row.operands - len(args)
        if missing:
            if missing > len(row.defaults):
                raise Unsupported(f"{self.op} with {len(args)} operands")
            args += row.defaults[len(row.defaults) - missing :]
            names = {"value": len(args) - 1, "negative_slope": 1, "alpha": 1}
            for name, value in self.kwargs.items():
                if name not in names:
                    raise Unsupported(f"{self.op} with {name}")
                args[names[name]] = value
        return self.b.map(rule, *args, dtype=self.out.dtype)


def slice_of(
    b: Builder,
    x: Val,
    dim: int,
    start: int,
    length: int,
    step: int = 1,
    parts: int = 0,
    cut: int | None = None,
) -> Val:
    """A slice from index `start` (negative: from the end). `parts`: it is one of this many equal parts, so it varies with the
    whole; `cut`: the number of elements left out, if its length varies with the whole."""
    shape = tuple(length if i == dim else size for i, size in enumerate(x.shape))
    return b.add(
        "slice", (x,), x.dtype, shape, dim=dim, start=start, length=length, step=step, parts=parts, cut=cut
    )


def mean_of(b: Builder, x: Val, dims: tuple[int, ...], keep: bool, dtype: str = "") -> Val:
    """Sum over count."""
    return b.map("div", b.reduce("sum", x, dims, keep), b.count(x, dims), dtype=dtype, name=b.name("mean"))


def reduce_loss(b: Builder, x: Val, how: int, dtype: str) -> Val:
    """A loss's reduction: 0 none, 1 mean, 2 sum."""
    dims = tuple(range(len(x.shape)))
    if how == 0:
        return x
    return mean_of(b, x, dims, False, dtype) if how == 1 else b.reduce("sum", x, dims, False, dtype)


def norm_of(b: Builder, x: Val, dims: tuple[int, ...], eps: float) -> tuple[Val, Val, Val]:
    """(x - mean) * rstd over the dimensions; mean; rstd."""
    mean = mean_of(b, x, dims, True)
    centred = b.map("sub", x, mean, name=b.name("centred"))
    squares = b.reduce("sum", b.map("mul", centred, centred, name=b.name("squared")), dims, True)
    var = b.map("div", squares, b.count(x, dims), name=b.name("var"))
    rstd = b.map("rsqrt", b.map("add", var, eps), name=b.name("rstd"))
    return b.map("mul", centred, rstd, name=b.name("normal")), mean, rstd


def affine(
    b: Builder, x: Val, weight: Val | None, bias: Val | None, shape: tuple[int, ...], dtype: str
) -> Val:
    for op, one in (("mul", weight), ("add", bias)):
        if one is not None:
            x = b.map(op, x, b.view(one, shape) if one.shape != shape else one, dtype=dtype)
    return x
