"""Reductions and norms in random graphs."""

from __future__ import annotations

import math

import torch

from kernelwright.synth.drawing import Value
from kernelwright.synth.random_moves import MoveDrawing

REDUCTIONS = ("sum", "mean", "amax", "amin", "var", "std", "logsumexp", "prod", "nansum", "linalg_vector_norm", "norm",
              "argmax", "argmin", "max", "min", "any", "all", "count_nonzero", "aminmax", "var_mean", "std_mean")  # fmt: skip
NORMS = (
    "softmax", "log_softmax", "layer_norm", "rms_norm", "group_norm", "instance_norm", "unit", "centred",
    "batch_norm",
)  # fmt: skip


class RowDrawing(MoveDrawing):
    """Adds reductions and norms."""

    def dims(self, rank: int) -> list[int]:
        """Dimensions to reduce: usually the last, sometimes others, several or all."""
        rng = self.rng
        if self.within.reduced:
            return [rng.choice(self.within.reduced)]
        how = rng.choices(("last", "one", "some", "all"), (6, 3, 2, 1))[0]
        if how == "last":
            return [-1]
        if how == "one":
            return [rng.randrange(rank)]
        return list(range(rank)) if how == "all" else sorted(rng.sample(range(rank), rng.randint(1, rank)))

    def reduction(self, x: Value) -> list[Value]:
        rng, name = self.rng, self.rng.choice(self.among(REDUCTIONS) or ["sum"])
        dims, keep = self.dims(len(x.shape)), rng.random() < 0.3 and not self.within.reduced
        count = math.prod(x.shape[dim] for dim in dims)
        if name in ("any", "all", "count_nonzero") or x.dtype == torch.bool:
            name = name if name in ("any", "all", "count_nonzero") else rng.choice(("any", "all"))
            x = x if x.exact else self.float_of(x)
            if not x.exact and name == "count_nonzero":
                name = "sum"
            return [
                self.op(name, x, dims[:1] if name == "count_nonzero" else dims[0], exact=True, low=0, high=1)
            ]
        if name in ("argmax", "argmin", "max", "min"):
            if not x.exact and name.startswith("arg"):
                name = name.removeprefix("arg")
            if name in ("max", "min"):
                made = self.builder.call(name, x.handle, dims[0], keep)
                return [Value(made[0], x.low, x.high), *([Value(made[1], 0, 9)] if x.exact else [])]
            return [self.op(name, x, dims[0], keep, low=0, high=9)]
        x = self.float_of(x)
        if name == "aminmax":
            made = self.builder.call(name, x.handle, dim=dims[0], keepdim=keep)
            return [Value(one, x.low, x.high) for one in made]
        if name in ("var_mean", "std_mean"):
            made = self.builder.call(name, x.handle, dims, correction=rng.choice((0, 1)), keepdim=keep)
            return [Value(one, 0, 25) for one in made]
        if name in ("var", "std"):
            return [self.op(name, x, dims, correction=rng.choice((0, 1)), keepdim=keep, low=0.1, high=25)]
        if name in ("norm", "linalg_vector_norm"):
            return [self.op(name, x, rng.choice((1, 2, 2)), dims, keep, low=0, high=100)]
        if name == "prod":
            if not (x.low >= 0.3 and x.high <= 2) or count > 64:
                name = "mean"
            else:
                return [self.op(name, x, dims[0], keep)]
        sums = name in ("sum", "nansum") and self.dtype == "float16"
        if sums and count * max(abs(x.low), abs(x.high)) > 2e4:
            name = "mean"
        return [
            self.op(
                name, x, dims, keep, low=-50 if name == "sum" else x.low, high=50 if name == "sum" else x.high
            )
        ]

    def norm(self, x: Value) -> Value:
        rng, name, rank = self.rng, self.rng.choice(self.among(NORMS) or ["softmax"]), len(x.shape)
        last = x.shape[-1]
        if name in ("group_norm", "instance_norm", "batch_norm"):
            if rank != 4:
                name = "rms_norm"
            else:
                return self._image_norm(name, x)
        if name in ("softmax", "log_softmax"):
            dim = rng.choice((-1, -1, rng.randrange(rank)))
            return self.op(
                name, x, dim, low=0 if name == "softmax" else -30, high=1 if name == "softmax" else 0
            )
        weights = (
            [self.argument((last,), str(x.dtype).removeprefix("torch."), role="weight") for _ in range(2)]
            if rng.random() < 0.7
            else [None, None]
        )
        if name == "layer_norm":
            return self.op(name, x, [last], *weights, rng.choice((1e-5, 1e-6)))
        if name == "rms_norm":
            return self.op(name, x, [last], weights[0], rng.choice((1e-5, 1e-6)))
        dims = [self.dims(rank)[0]]
        if name == "unit":
            length = self.op("add", self.op("linalg_vector_norm", x, 2, dims, True), 1e-3)
            return self.op("div", x, length, low=-1, high=1)
        return self.op("sub", x, self.op(rng.choice(("mean", "amax")), x, dims, True), low=-10, high=10)

    def _image_norm(self, name: str, x: Value) -> Value:
        rng, c = self.rng, x.shape[1]
        w, b = (self.argument((c,), role="weight") for _ in range(2))
        if name == "group_norm":
            groups = [one for one in (1, 2, 4, 8, 16) if c % one == 0]
            return self.op(name, x, rng.choice(groups), w, b, 1e-5)
        if name == "instance_norm":
            return self.op(name, x, w, b, None, None, True, 0.1, 1e-5, False)
        m, v = self.argument((c,)), self.argument((c,), kind="pos")
        return self.op(name, x, w, b, m, v, False, 0.1, 1e-5, False)
