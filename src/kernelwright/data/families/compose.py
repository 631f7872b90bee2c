"""Compositions as in KernelBench's level 2: a head, then one to six steps of the one vocabulary of `tails.py` and maps.

    heads     linear, a product of a weight or of two inputs, bmm, convolutions of one to three dimensions, transposed;
              or none: the first step is done on the input
    answer    the head's kernel with the maps that follow it done on its tiles; then one kernel for each norm, pooling,
              softmax or reduction, with the maps that follow that one

What would leave a constant is not drawn: a sum after a softmax, a mean after a norm.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from kernelwright.data.families.convolution import SPACE, Convolution, convolution, stage
from kernelwright.data.families.epilogue import NOTHING, SCALAR, UNARY, Chain, chain
from kernelwright.data.families.gemm import Layout, gemm
from kernelwright.data.families.matmul import linear_layer
from kernelwright.data.families.pooling import window
from kernelwright.data.families.spec import Design, Draw, Family, Op, Size, Stage, tensor
from kernelwright.data.families.tails import Extents, Tail, Value, kinds, step
from kernelwright.data.graphs import Step

Build = Callable[[Chain], Stage]
_LEVELS = (2, 3, 4, 5, 6, 7)
_SHAPE_SETS = ("full", "small", "odd")
MAPS = (0.3, 0.6, 0.6, 0.75)
"""Shares of maps among the steps, one of them for a composition."""
ODD = 0.25
"""How often any map may follow, also one that leaves little of what it is given."""
JOINED = 0.25
"""How often what a step gives is added to what it was given, where the shapes agree."""
COMMON = (
    *("relu", "sigmoid", "tanh", "silu", "gelu", "leaky_relu", "mish", "hardswish", "hardtanh", "clamp"),
    *("scale", "over", "offset", "minus", "floor_at", "cap_at"),
)
"""Maps that people use more than the others."""
LOUD = (
    "scale",
    "over",
    "relu",
    "leaky_relu",
    "gelu",
    "silu",
    "abs",
    "neg",
    "double",
    "hardswish",
    "mish",
    "elu",
)
"""Maps that leave large numbers what they are."""


@dataclass(frozen=True)
class Head:
    """The first operator, its kernel, and the shape of another input of its output's shape (or nothing)."""

    op: Op
    build: Build | None
    """None where there is nothing to do before the first step."""
    value: Value
    full: str = ""
    loud: bool = False
    """Whether its output is much larger than its inputs, so that a sigmoid would leave zeros and ones."""


def compose(draw: Draw, make: Callable[[Draw], Head]) -> Design:
    """A head and `draw.operators - 1` steps."""
    head = make(draw)
    value = head.value
    ops, stages = [head.op], []
    left = max(draw.operators, 2) - (head.build is not None)
    if head.build is not None and left > 1 and head.value.kind == "image" and draw.chance(0.06):
        first, head = _after_pool(draw, head)
        ops, stages, left = [first.op, head.op], [_built(first)], left - 1
    value.taken += [name for op in ops for name, _ in op.init]
    maps = draw.pick(MAPS)
    build, full, channel = head.build, head.full, value.channel
    names: tuple[str, ...] = UNARY
    loud = head.loud
    joins = False
    while True:
        following = ["dropout"] if _over(value) else kinds(value)
        count = 0
        while (
            build is not None
            and count < left - joins
            and draw.chance(maps if following != ["dropout"] else 0.97)
        ):
            count += 1
        loud = loud and not {"norm", "softmax"} & value.used.keys()
        if loud:
            names = tuple(name for name in names if name in LOUD)
        found = chain(
            draw,
            count,
            "float32",
            channel=channel,
            full=full,
            names=(*names, *[name for name in COMMON if name in names] * 3),
            share=0.28,
            taken=value.taken,
        )
        value.taken += found.taken
        if build is not None and "again" in following and left - joins - count > 1 and draw.chance(0.5):
            same = step("again", draw, value)  # of one number, among the maps of its kernel
            more = chain(draw, 1, "float32", channel=channel, names=names, share=0.28, taken=value.taken)
            value.taken += more.taken
            found, count = found.then(replace(NOTHING, ops=(same.op,))).then(more), count + 2
        if joins:
            found, left = found.then(_SKIP), left - 1
        ops += found.ops
        left -= count
        if count:
            value.last = ""
        if build is not None:
            stages.append(build(found))
        idle = None
        while left > 0 and (idle is None or idle.build is None):
            following = ["dropout"] if _over(value) else kinds(value)
            if draw.chance(0.7) or not stages:
                following = [kind for kind in following if kind != "dropout"] or following
            shape, before = list(value.dims), value.last
            idle = step(draw.pick(following), draw, value)
            left -= 1
            if idle.build is None:
                value.last = before
            ops.append(idle.op)
        if idle is None or idle.build is None:
            break
        build, full, names = idle.build, "", UNARY if draw.chance(ODD) else idle.names
        channel = value.channel if idle.channel else SCALAR
        joins = (
            left > 0 and bool(stages) and shape == value.dims and not idle.op.lines and draw.chance(JOINED)
        )
        if joins:
            ops[-1] = replace(ops[-1], lines=("skip = {x}",))
            stages[-1] = replace(stages[-1], result="skip")
    return Design(tuple(ops), _distinct(stages), value.sizes, "float32", draw.constants)


def _after_pool(draw: Draw, head: Head) -> tuple[Tail, Head]:
    """The head's input pooled before it, and a head that takes what comes of it."""
    value, size = head.value, 2
    rank = len(value.places)
    for axis in SPACE[rank]:
        full, small, odd = value.sizes[axis]
        value.sizes[axis] = Size(full * size, small * size, odd * size + 1)
    value.width = ""
    name = draw.pick(("max", "avg"))
    module = f"nn.{name.capitalize()}Pool{rank}d({size})"
    op = Op(
        f"{name}pool{rank}d:{name},True",
        "self.first_pool({x})",
        (f"self.first_pool = {module}",),
        inputs=head.op.inputs,
    )

    def build(after: Chain) -> Stage:
        return window(draw, name, rank, "float32", size, stride=size, attribute="first_pool", after=after)

    return Tail(op, build), replace(head, op=replace(head.op, inputs=()), full="")


def _built(tail: Tail) -> Stage:
    assert tail.build is not None
    return tail.build(NOTHING)


def _over(value: Value) -> bool:
    return bool({"ended", "flat"} & value.used.keys())


_SKIP = Chain(
    (Op("add:skip", "{x} + skip"),),
    (Step("add", "input"),),
    (("skip", "full"),),
    ("skip",),
    "",
    (("skip", "skip"),),
    tags=("skip.0",),
)
"""The value before a step, added after it."""


def _distinct(stages: list[Stage]) -> tuple[Stage, ...]:
    """The stages with no two kernels or functions of one name and different text."""
    taken: dict[str, str] = {}
    found = []
    for made in stages:
        text = "\n".join([*made.kernels, str(made.takes), *made.body])
        names = [made.name, *re.findall(r"^def (\w+)\(", "\n".join(made.kernels), re.MULTILINE)]
        if any(taken.get(name, text) != text for name in names):
            number = next(n for n in range(2, 9) if f"{made.name}{n}" not in taken)
            for name in names[1:]:
                other = name.removesuffix("_kernel") + f"{number}_kernel"
                swap = functools.partial(re.sub, rf"\b{name}\b", other)
                made = replace(
                    made, kernels=tuple(map(swap, made.kernels)), body=tuple(swap(line) for line in made.body)
                )
            made = replace(made, name=f"{made.name}{number}")
            names = [made.name, *re.findall(r"^def (\w+)\(", "\n".join(made.kernels), re.MULTILINE)]
            text = "\n".join([*made.kernels, str(made.takes), *made.body])
        taken |= dict.fromkeys(names, text)
        found.append(made)
    return tuple(found)


# -- heads ------------------------------------------------------------------------------------------------------


def given(draw: Draw) -> Head:
    """The input itself: images, features or matrices."""
    kind = draw.pick(("image", "image", "image", "features", "matrix"))
    if kind == "image":
        rank = draw.pick((1, 2, 2, 2, 3))
        long = {1: (1024, 4096, 16384), 2: (32, 64, 128, 256), 3: (16, 32, 64)}[rank]
        sizes = {
            "B": draw.size((8, 16, 32, 64, 128), (2, 4), (3, 5)),
            "C": draw.size((16, 32, 64, 128), (8, 12), (9, 15)),
            **{axis: draw.size(long, (8, 10), (9, 11)) for axis in SPACE[rank]},
        }
        names: tuple[str, ...] = ("num_channels", "channels", "num_features")
    elif kind == "features":
        sizes = {
            "B": draw.size((128, 512, 1024, 4096, 16384), (16, 24), (19, 27)),
            "C": draw.size((256, 1024, 4096, 8192, 16384), (48, 64), (72, 96)),
        }
        names = ("num_features", "width", "features")
    else:
        sizes = {
            "B": draw.size((8, 16, 32, 64, 128), (2, 4), (3, 5)),
            "S": draw.size((128, 256, 512, 1024), (32, 48), (35, 51)),
            "C": draw.size((256, 512, 1024, 2048), (48, 64), (53, 69)),
        }
        names = ("embed_dim", "hidden_size")
    op = Op("", "{x}", inputs=(("x", tensor(", ".join(sizes))),))
    value = Value(kind, list(map(_extents, sizes.values())), sizes, draw.pick(names), "C")
    value.width = [*sizes][-1] if kind == "image" else ""
    value.taken += ["weight", "bias"]
    return Head(op, None, value)


def _extents(size: Size) -> Extents:
    return size.full, size.small, size.odd


def linear(draw: Draw) -> Head:
    """A linear layer, or a product with a weight."""
    sizes = {
        "B": draw.size((64, 128, 256, 512, 1024, 2048, 4096, 16384, 32768), (16, 24), (19, 27)),
        "CI": draw.size((256, 512, 1024, 2048, 4096, 8192, 16384), (32, 48), (37, 45, 53)),
        "CO": draw.size((256, 512, 1024, 2048, 4096, 8192, 16384), (48, 64), (72, 96)),
    }
    inner, outer = draw.pick(
        (
            ("in_features", "out_features"),
            ("in_features", "out_features"),
            ("input_size", "hidden_size"),
            ("input_size", "output_size"),
        )
    )
    scaled = " * 0.02"
    how = draw.pick(("module",) * 6 + ("weight", "turned", "function"))
    init: tuple[tuple[str, str], ...] = ((inner, "CI"), (outer, "CO"))
    given = (("x", tensor("B, CI")),)
    bias = draw.chance(0.85)
    module = f"self.linear = nn.Linear({inner}, {outer}{'' if bias else ', bias=False'})"
    explicit = draw.chance(0.15)
    if explicit:
        module = f"self.linear = nn.Linear({inner}, {outer}, bias=bias)"
        init = (*init, ("bias", str(bias)))
    op = Op("linear" if bias else "linear:no bias", "self.linear({x})", (module,), init, given)
    if how in ("weight", "turned"):
        scaled = draw.pick((" * 0.02", ""))
        shape = f"{outer}, {inner}" if how == "weight" else f"{inner}, {outer}"
        spelled = draw.pick(("torch.matmul({x}, self.weight{t})", "{x} @ self.weight{t}"))
        spelled = spelled.replace("{t}", ".T" if how == "weight" else "")
        op = Op(
            "linear:no bias",
            spelled,
            (f"self.weight = nn.Parameter(torch.randn({shape}){scaled})",),
            ((inner, "CI"), (outer, "CO")),
            given,
        )
    elif how == "function" and not explicit:
        op = replace(
            op, expression=f"F.linear({{x}}, self.linear.weight{', self.linear.bias' if bias else ''})"
        )

    def build(after: Chain) -> Stage:
        if how not in ("weight", "turned"):
            return linear_layer(draw, "float32", sizes, after, bias=bias)[1]
        return gemm(
            draw,
            "matmul",
            Layout(b="NK" if how == "weight" else "KN"),
            "float32",
            extent=(sizes["B"].full, sizes["CO"].full, 1),
            inner=sizes["CI"].full,
            takes=(("a", "{x}"), ("b", "self.weight")),
            after=after,
            shape=("M, K = a.shape", "N = b.shape[0]" if how == "weight" else "N = b.shape[1]"),
            out="torch.empty((M, N), device=a.device, dtype=a.dtype)",
        )

    value = Value("features", [_extents(sizes["B"]), _extents(sizes["CO"])], sizes, outer, "CO")
    value.taken += ["weight", "bias", "lin_bias"]
    value.original = _extents(sizes["CI"])
    return Head(op, build, value, draw.pick(("", "", "B, CO")), loud=not scaled)


def product(draw: Draw) -> Head:
    """A product of two inputs."""
    sizes = {
        "M": draw.size((128, 512, 1024, 2048, 4096, 8192), (16, 24), (19, 27)),
        "K": draw.size((256, 512, 1024, 2048, 4096, 8192), (32, 48), (37, 45, 53)),
        "N": draw.size((256, 512, 1024, 2048, 4096, 8192), (48, 64), (72, 96)),
    }
    inputs = (("a", tensor("M, K")), ("b", tensor("K, N")))
    op = Op("matmul", draw.pick(("torch.matmul(a, b)", "a @ b", "torch.mm(a, b)")), inputs=inputs)

    def build(after: Chain) -> Stage:
        return gemm(
            draw,
            "matmul",
            Layout(),
            "float32",
            extent=(sizes["M"].full, sizes["N"].full, 1),
            inner=sizes["K"].full,
            after=after,
            shape=("M, K = a.shape", "N = b.shape[1]"),
            out="torch.empty((M, N), device=a.device, dtype=a.dtype)",
        )

    value = Value("features", [_extents(sizes["M"]), _extents(sizes["N"])], sizes, "num_features", "N")
    value.taken += ["weight", "bias"]
    return Head(op, build, value, draw.pick(("", "M, N")), loud=True)


def batched(draw: Draw) -> Head:
    """A product of two batches of matrices."""
    sizes = {
        "B": draw.size((8, 16, 32, 64, 128), (2,), (3,)),
        "M": draw.size((128, 256, 512, 1024), (32, 48), (35, 51)),
        "K": draw.size((64, 128, 256, 512, 1024), (32, 48), (37, 45, 53)),
        "N": draw.size((128, 256, 512, 1024), (48, 64), (53, 69)),
    }
    turned = draw.chance(0.3)
    right = draw.pick(("b.transpose(1, 2)", "b.transpose(-2, -1)", "b.mT")) if turned else "b"
    inputs = (("a", tensor("B, M, K")), ("b", tensor("B, N, K" if turned else "B, K, N")))
    spelled = draw.pick((f"torch.bmm(a, {right})", f"torch.matmul(a, {right})", f"a @ {right}"))
    op = Op(f"bmm:{'Tb' if turned else ''}", spelled, inputs=inputs)

    def build(after: Chain) -> Stage:
        return gemm(
            draw,
            "bmm",
            Layout(b="NK" if turned else "KN", batched="both"),
            "float32",
            extent=(sizes["M"].full, sizes["N"].full, sizes["B"].full),
            inner=sizes["K"].full,
            after=after,
            residual_at="batch * M * N + offs",
            shape=("batch, M, K = a.shape", f"N = b.shape[{1 if turned else 2}]"),
            out="torch.empty((batch, M, N), device=a.device, dtype=a.dtype)",
        )

    dims = [_extents(sizes[key]) for key in "BMN"]
    value = Value("matrix", dims, sizes, "dim", "N")
    value.taken += ["weight", "bias", "dim"]
    return Head(op, build, value, draw.pick(("", "B, M, N")), loud=True)


def image(draw: Draw, rank: int, flip: bool) -> Head:
    """A convolution. Its output's places are read off a run on meta tensors."""
    if flip:
        parts = draw.pick(((), ("stride", "padding"), ("stride", "padding"), ("stride",), ("padding",)))
    else:
        parts = draw.pick(((), (), ("padding",), ("stride", "padding")))
    made = convolution(
        draw,
        rank,
        parts=parts,
        half=0.0,
        flip=flip,
        uniform=rank == 1 or draw.chance(0.9),
        bias_share=0.9,
        explicit_share=0.12,
    )
    made.sizes["CO"] = Size(
        draw.pick((16, 24, 32, 64, 96, 128)), draw.pick((12, 16)), draw.pick((15, 18, 21))
    )
    if not flip and (rank < 3 or draw.chance(0.6)):
        room = 2 if rank < 3 else 3
        for axis in SPACE[rank]:  # for two poolings
            size = made.sizes[axis]
            made.sizes[axis] = Size(size.full, size.small + room, size.odd + room)
    dims = _shapes(made)
    value = Value("image", dims, made.sizes, "out_channels", "CO")
    value.taken.append("bias")
    # Where every place is the input's or twice that, it has a name.
    full = ""
    for times, more in ((1, ""), (2, " * 2")):
        if all(
            dim == tuple(times * extent for extent in _extents(made.sizes[axis]))
            for dim, axis in zip(dims[2:], SPACE[rank], strict=True)
        ):
            full = ", ".join(["B", "CO", *(f"{axis}{more}" for axis in SPACE[rank])])
            value.width = f"{SPACE[rank][-1]}{more}"
    return Head(made.op, functools.partial(stage, draw, made), value, draw.pick(("", full)))


def _shapes(made: Convolution) -> list[Extents]:
    """The dimensions of a convolution's output in the three shape sets."""
    import torch

    found = []
    rank = made.geometry.rank
    for place in range(len(_SHAPE_SETS)):
        sizes = {name: size[place] for name, size in made.sizes.items()}
        given = {name: eval(value, {}, dict(sizes)) for name, value in made.op.init}
        scope: dict[str, object] = {"nn": torch.nn, **given}
        with torch.device("meta"):
            module = eval(made.op.state[0].partition(" = ")[2], scope)
            shape = [sizes[key] for key in ("B", "CI", *SPACE[rank])]
            found.append(tuple(module(torch.empty(shape)).shape))
    return [(full, small, odd) for full, small, odd in zip(*found, strict=True)]


_HEADS: dict[str, Callable[[Draw], Head]] = {
    "input": given,
    "linear": linear,
    "matmul": product,
    "bmm": batched,
    **{
        f"conv{'_transpose' if flip else ''}{rank}d": functools.partial(image, rank=rank, flip=flip)
        for rank, flip in ((1, False), (2, False), (3, False), (2, True), (3, True))
    },
}
FAMILIES = tuple(
    Family(f"{name}_chain", "fusion", functools.partial(compose, make=make), _LEVELS)
    for name, make in _HEADS.items()
)
