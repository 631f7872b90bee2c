"""Two stages and the maps between them, as in KernelBench's level 2: a convolution or linear layer, maps on its tiles,
then a norm, a pooling, a reduction or a softmax in a kernel of its own, with maps on that one's values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from kernelwright.data.families.along import rows, strided
from kernelwright.data.families.convolution import SPACE, Convolution, convolution, stage
from kernelwright.data.families.epilogue import Chain, affine, chain
from kernelwright.data.families.matmul import linear_layer, linear_sizes
from kernelwright.data.families.norms import batch_stages, group_stage, instance_stage, segments
from kernelwright.data.families.pooling import described, window
from kernelwright.data.families.spec import Design, Draw, Dtype, Family, Op, Size, Stage
from kernelwright.data.operators import ROWS

FEATURES = ("sum", "mean", "max", "logsumexp", "softmax", "log_softmax")
CHANNELS = ("softmax", "logsumexp", "mean", "min", "max", "sum")


def _counts(draw: Draw, others: int) -> tuple[int, int]:
    """How many maps follow the first and the second stage, of `others` operators besides the two."""
    after = draw.rng.randint(0, others)
    return others - after, after


def linear_then(kind: str, draw: Draw) -> Design:
    """A linear layer, maps, then something along its features, maps."""
    # Norms hold float32 weights: with one, the whole chain is float32.
    dtype: Dtype = "float32" if kind == "norm" else draw.dtype(0.3)
    sizes = linear_sizes(draw)
    sizes["B"] = draw.size((256, 1024, 4096, 16384), (16, 24), (19, 27))
    first, last = _counts(draw, max(draw.operators - 2, 0))
    feature = ("out_features", (("out_features", "CO"),))
    between = chain(draw, first, dtype, channel=feature, share=0.3)
    taken = [*between.arguments, "weight", "bias"]
    if kind == "norm":
        second, build = feature_norm(draw, sizes)
    else:
        operator = draw.pick(FEATURES)
        keep = ROWS[operator].reduces and draw.chance(0.6)
        spelled = f"torch.{'amax' if operator == 'max' else operator}({{x}}, dim={draw.pick((1, -1))}"
        second = Op(f"{operator}:features", spelled + (", keepdim=True)" if keep else ")"))
        width = sizes["CO"].full

        def build(after: Chain) -> Stage:
            return rows(draw, f"{operator}_rows", operator, dtype, width, after=after, keep=keep)

        if ROWS[operator].reduces:
            feature = None  # type: ignore[assignment]
    after = chain(draw, last, dtype, channel=feature, share=0.3, taken=taken)
    op, core = linear_layer(draw, dtype, sizes, between, bias=draw.chance(0.8))
    stages = (core, build(after))
    return Design((op, *between.ops, second, *after.ops), stages, sizes, dtype, draw.constants)


def feature_norm(draw: Draw, sizes: dict[str, Size]) -> tuple[Op, Callable[[Chain], Stage]]:
    """A norm over the features of a row."""
    name = draw.pick(("layernorm", "groupnorm", "rmsnorm"))
    width = sizes["CO"].full
    if name == "groupnorm":
        sizes["CO"] = Size(draw.pick((256, 512, 1024)), 64, 72)
        sizes["GROUPS"] = Size(draw.pick((8, 16, 32)), 4, 6)
        op = Op(
            "groupnorm:features",
            "self.norm({x})",
            ("self.norm = nn.GroupNorm(num_groups, out_features)",),
            (("num_groups", "GROUPS"), ("out_features", "CO")),
        )
        length = sizes["CO"].full // sizes["GROUPS"].full
        return op, lambda after: group_stage(draw, "float32", length, after=after)
    if name == "layernorm":
        op = Op(
            "layernorm:features",
            "self.norm({x})",
            ("self.norm = nn.LayerNorm(out_features)",),
            (("out_features", "CO"),),
        )

        def layer(after: Chain) -> Stage:
            return segments(
                draw,
                "layernorm",
                "float32",
                width,
                ["size = x.shape[-1]"],
                channel="offs",
                numbers=(),
                affines=affine("norm"),
                after=after,
                takes=(("eps", "self.norm.eps"),),
                eps="eps",
            )

        return op, layer
    op = Op("rmsnorm:features", "F.rms_norm({x}, (out_features,), eps=1e-6)".replace("out_features", "self.width"),
            ("self.width = out_features",), (("out_features", "CO"),))  # fmt: skip
    return op, lambda after: rows(draw, "rmsnorm", "rmsnorm", "float32", width, after=after)


def linear_norm(draw: Draw) -> Design:
    return linear_then("norm", draw)


def linear_reduce(draw: Draw) -> Design:
    return linear_then("reduce", draw)


def core(draw: Draw, flip: bool) -> Convolution:
    rank = draw.pick((2, 2, 2, 3, 1)) if not flip else draw.pick((2, 2, 3))
    parts = draw.pick(((), ("padding",), ("padding",), ("stride", "padding")))
    if flip:
        parts = draw.pick((("stride", "padding"), ("stride",), ("padding",)))
    return convolution(draw, rank, parts=parts, half=0.0, flip=flip)


def conv_then(kind: str, flip: bool, draw: Draw) -> Design:
    """A convolution, maps, then a pooling, a norm or something over channels or places, maps."""
    made = core(draw, flip)
    rank = made.geometry.rank
    first, last = _counts(draw, max(draw.operators - 2, 0))
    channel: tuple[str, tuple[tuple[str, str], ...]] | None = made.channel
    between = chain(draw, first, "float32", channel=channel, share=0.3, taken=("bias",))
    taken = [*between.arguments, "bias"]
    places = 1
    build: Callable[[Chain], Stage]
    for axis in SPACE[rank]:
        places *= made.sizes[axis].full
    if kind == "pool":
        name, size = draw.pick(("max", "avg")), 2
        for axis in SPACE[rank]:
            extent = made.sizes[axis]
            made.sizes[axis] = Size(extent.full, extent.small + 2, extent.odd + (0 if flip else 2))
        second = described(draw, name, rank, size, size, 0, 1, True)
        # Names of constructor arguments that the convolution has too get one of the pool's own.
        renamed = tuple((f"pool_{given}", value) for given, value in second.init)
        state = second.state[0]
        for given, _ in second.init:
            state = state.replace(f"({given}", f"(pool_{given}").replace(f"={given}", f"=pool_{given}")
        second = replace(second, state=(state,), init=renamed)

        build = functools.partial(pooled, draw, name, rank, size)
    elif kind == "norm":
        second, build = image_norm(draw, made, places)
    elif kind == "channels":
        operator = draw.pick(CHANNELS)
        reduces = ROWS[operator].reduces
        verb = {"max": "amax", "min": "amin"}.get(operator, operator)
        second = Op(
            f"{operator}:channels", f"torch.{verb}({{x}}, dim=1{', keepdim=True' if reduces else ''})"
        )
        if reduces:
            channel = None

        build = functools.partial(over_channels, draw, operator, made.sizes["CO"].full, reduces)
    else:
        dims = tuple(range(2, 2 + rank)) if rank > 1 else 2
        second = Op(f"global_mean{rank}d", f"torch.mean({{x}}, dim={dims}, keepdim=True)")
        channel = None

        build = functools.partial(over_places, draw, rank, places)

    after = chain(draw, last, "float32", channel=channel, share=0.3, taken=taken)
    first_stage = stage(draw, made, between)
    return Design(
        (made.op, *between.ops, second, *after.ops),
        (first_stage, build(after)),
        made.sizes,
        "float32",
        draw.constants,
    )


def pooled(draw: Draw, name: str, rank: int, size: int, after: Chain) -> Stage:
    return window(draw, name, rank, "float32", size, stride=size, attribute="pool", after=after)


def over_channels(draw: Draw, operator: str, length: int, keep: bool, after: Chain) -> Stage:
    return strided(draw, f"{operator}_channels", operator, "float32", length, 1, after=after, keep=keep)


def over_places(draw: Draw, rank: int, places: int, after: Chain) -> Stage:
    made = rows(draw, "global_mean", "mean", "float32", places, after=after)
    shape = ", ".join(["x.shape[0]", "x.shape[1]", *["1"] * rank])
    host = [f"out = x.new_empty({shape})" if line.startswith("out = ") else line for line in made.body]
    host = ["n = x[0, 0].numel()" if line.startswith("n = ") else line for line in host]
    return replace(made, body=tuple(host))


def image_norm(draw: Draw, made: Convolution, places: int) -> tuple[Op, Callable[[Chain], Stage]]:
    """A norm of images: by group, plane or batch."""
    rank = made.geometry.rank
    name = draw.pick(("groupnorm", "instancenorm", "batchnorm"))
    if name == "groupnorm":
        groups = draw.pick((4, 8))
        made.sizes["CO"] = Size(draw.pick((32, 64)), 16, 18)
        made.sizes["GROUPS"] = Size(groups, 4, 3)
        op = Op(
            "groupnorm",
            "self.norm({x})",
            ("self.norm = nn.GroupNorm(num_groups, out_channels)",),
            (("num_groups", "GROUPS"), ("out_channels", "CO")),
        )
        length = made.sizes["CO"].full // groups * places
        return op, lambda after: group_stage(draw, "float32", length, after=after)
    if name == "instancenorm":
        op = Op(
            f"instancenorm{rank}d:False",
            "self.norm({x})",
            (f"self.norm = nn.InstanceNorm{rank}d(out_channels)",),
            (("out_channels", "CO"),),
        )
        return op, lambda after: instance_stage(
            draw, "float32", places, module="norm", learns=False, after=after
        )
    made.sizes["B"] = Size(made.sizes["B"].full, 2, 3)
    op = Op(
        f"batchnorm{rank}d",
        "self.bn({x})",
        (f"self.bn = nn.BatchNorm{rank}d(out_channels)",),
        (("out_channels", "CO"),),
    )
    return op, lambda after: batch_stages(draw, "float32", after=after)


_LEVELS = (2, 3, 4, 5)
_DRAWS: dict[str, Callable[[Draw], Design]] = {
    "linear_norm": linear_norm,
    "linear_reduce": linear_reduce,
    **{
        f"conv_{kind}": functools.partial(conv_then, kind, False)
        for kind in ("pool", "norm", "channels", "mean")
    },
    **{
        f"conv_transpose_{kind}": functools.partial(conv_then, kind, True)
        for kind in ("pool", "norm", "mean")
    },
}
FAMILIES = tuple(Family(name, "fusion", draw, _LEVELS) for name, draw in _DRAWS.items())
