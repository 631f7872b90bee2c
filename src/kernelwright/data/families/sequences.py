"""Long chains as in KernelBench's level 2: a convolution or a linear layer, then two or three kernels of other kinds.

    image     (batch, channels, places): pooling, norms, softmax and reductions over channels, the mean of all places
    features  (batch, features): norms, softmax, reductions, pooling along the features

Maps stand between the stages, each done by the kernel before it. What would leave a constant is not drawn: a sum after
a softmax, a mean after a norm.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kernelwright.data.families.along import rows
from kernelwright.data.families.convolution import SPACE, Convolution, stage
from kernelwright.data.families.epilogue import NOTHING, Chain, affine, chain
from kernelwright.data.families.fusions import (
    FEATURES,
    core,
    feature_norm,
    image_norm,
    over_channels,
    over_places,
    pooled,
)
from kernelwright.data.families.matmul import linear_layer, linear_sizes
from kernelwright.data.families.pooling import described
from kernelwright.data.families.spec import Design, Draw, Family, Op, Size, Stage, kernel, launch
from kernelwright.data.operators import ROWS

Build = Callable[[Chain], Stage]
CHANNELS = ("softmax", "logsumexp", "max", "min", "mean", "sum")
_LEVELS = (3, 4, 5, 6)


@dataclass
class State:
    """What the value is after the stages so far."""

    sizes: dict[str, Size]
    channel: tuple[str, tuple[tuple[str, str], ...]] | None
    """The shape of a parameter by channel; None where the kernels know no channels any more."""
    thin: bool = False
    """Whether there is one channel left."""
    ends: bool = False
    """Whether there is one number a row left, and no stage can follow."""
    used: set[str] = field(default_factory=set)
    """Kinds of stages; each comes once."""
    last: str = ""


def _split(draw: Draw, maps: int, places: int) -> list[int]:
    """`maps` in `places` parts."""
    counts = [0] * places
    for _ in range(maps):
        counts[draw.rng.randrange(places)] += 1
    return counts


def _chained(
    draw: Draw,
    state: State,
    first: Callable[[Chain], tuple[Op, Stage]],
    step: Callable[[Draw, State], tuple[Op, Build]],
    taken: list[str],
) -> Design:
    """The first operator, then `step` two or three times, or till it ends, with maps in between."""
    count = 3 if draw.operators > 4 and draw.chance(0.35) else 2
    counts = _split(draw, max(draw.operators - 1 - count, 0), count + 1)
    ops: list[Op] = []
    stages: list[Stage] = []

    def maps(number: int) -> Chain:
        found = chain(draw, number, "float32", channel=state.channel, share=0.3, taken=taken)
        taken.extend(found.arguments)
        return found

    between = maps(counts[0])
    op, made = first(between)
    ops += [op, *between.ops]
    stages.append(made)
    for place in range(1, count + 1):
        op, build = step(draw, state)
        after = maps(sum(counts[place:]) if state.ends else counts[place])
        if after.steps:
            state.last = f"{state.last}, maps"
        ops += [op, *after.ops]
        stages.append(build(after))
        if state.ends:
            break
    return Design(tuple(ops), tuple(stages), state.sizes, "float32", draw.constants)


def image_sequence(draw: Draw, flip: bool) -> Design:
    """A convolution with two or three stages after it."""
    made = core(draw, flip)
    for axis in SPACE[made.geometry.rank]:  # room for a pooling
        size = made.sizes[axis]
        made.sizes[axis] = Size(size.full, size.small + 2, size.odd + (0 if flip else 2))
    state = State(made.sizes, made.channel)

    def first(between: Chain) -> tuple[Op, Stage]:
        return made.op, stage(draw, made, between)

    return _chained(draw, state, first, functools.partial(_image_step, made), ["bias"])


def _image_step(made: Convolution, draw: Draw, state: State) -> tuple[Op, Build]:
    rank = made.geometry.rank
    kinds = []
    if "places" not in state.used:
        kinds += [kind for kind in ("pool", "norm") if kind not in state.used and not state.thin]
        if state.last != "norm":
            kinds.append("places")
    if not state.thin and "channels" not in state.used:
        kinds.append("channels")
    kind = draw.pick(kinds) if kinds else "whole"
    places = 1
    for axis in SPACE[rank]:
        places *= 1 if "places" in state.used else state.sizes[axis].full
    places //= 2**rank if "pool" in state.used else 1
    before, state.last = state.last, kind
    state.used.add(kind)
    if kind == "pool":
        name = draw.pick(("max", "avg"))
        op = _renamed(described(draw, name, rank, 2, 2, 0, 1, True), "pool")
        return op, functools.partial(pooled, draw, name, rank, 2)
    if kind == "norm":
        return image_norm(draw, made, places)
    if kind == "places":
        state.last = f"places {before}"
        state.channel = None
        dims = tuple(range(2, 2 + rank)) if rank > 1 else 2
        spelled = f"torch.mean({{x}}, dim={dims}, keepdim=True)"
        if draw.chance(0.4):
            spelled = f"F.adaptive_avg_pool{rank}d({{x}}, 1)"
        return Op(f"global_mean{rank}d", spelled), functools.partial(over_places, draw, rank, places)
    if kind == "channels":
        wanted = CHANNELS if "norm" not in before else CHANNELS[:4]
        operator = draw.pick([name for name in wanted if "softmax" not in before or name == "max"])
        reduces = ROWS[operator].reduces
        verb = {"max": "amax", "min": "amin"}.get(operator, operator)
        spelled = f"torch.{verb}({{x}}, dim=1{', keepdim=True' if reduces else ''})"
        if operator in ("max", "min") and draw.chance(0.5):
            spelled = f"torch.{operator}({{x}}, dim=1, keepdim=True)[0]"
        state.last = operator
        length = state.sizes["CO"].full
        if reduces:
            state.channel, state.thin = None, True
        return Op(f"{operator}:channels", spelled), functools.partial(
            over_channels, draw, operator, length, reduces
        )
    state.channel, state.ends = None, True
    return Op("sum:whole", "{x}.flatten(1).sum(dim=1)"), functools.partial(_whole, draw)


def _whole(draw: Draw, after: Chain) -> Stage:
    """The sum of all that an image has left."""
    made = rows(draw, "image_sum", "sum", "float32", 4096, after=after)
    host = ["out = x.new_empty(x.shape[0])" if line.startswith("out = ") else line for line in made.body]
    host = ["n = x[0].numel()" if line.startswith("n = ") else line for line in host]
    return replace(made, body=tuple(host))


def _renamed(op: Op, prefix: str) -> Op:
    """A pooling whose constructor arguments do not meet those of the convolution."""
    line = op.state[0]
    for given, _ in op.init:
        line = line.replace(f"({given}", f"({prefix}_{given}").replace(f"={given}", f"={prefix}_{given}")
    init = tuple((f"{prefix}_{given}", value) for given, value in op.init)
    return replace(op, state=(line,), init=init)


def feature_sequence(draw: Draw) -> Design:
    """A linear layer with two or three stages after it."""
    sizes = linear_sizes(draw)
    sizes["B"] = draw.size((128, 256, 1024, 4096, 16384), (16, 24), (19, 27))
    sizes["CO"] = Size(draw.pick((256, 512, 1024, 2048, 8192)), 64, 72)
    state = State(sizes, ("out_features", (("out_features", "CO"),)))
    bias = draw.chance(0.85)

    def first(between: Chain) -> tuple[Op, Stage]:
        return linear_layer(draw, "float32", sizes, between, bias=bias)

    return _chained(draw, state, first, _feature_step, ["weight", "bias"])


def _feature_step(draw: Draw, state: State) -> tuple[Op, Build]:
    kinds = ["reduce"] if state.last not in ("norm", "softmax") else []
    kinds += [kind for kind in ("pool", "softmax") if kind not in state.used]
    if "pool" not in state.used:  # the features are a quarter then, which a norm's arguments do not say
        kinds += [kind for kind in ("norm", "batchnorm") if kind not in state.used]
    kind = draw.pick(kinds) if kinds else "reduce"
    state.used.add(kind)
    state.last = kind
    width = state.sizes["CO"].full // (4 if "pool" in state.used else 1)
    if kind == "norm":
        return feature_norm(draw, state.sizes)
    if kind == "batchnorm":
        op = Op(
            "batchnorm:features",
            "self.bn({x})",
            ("self.bn = nn.BatchNorm1d(out_features)",),
            (("out_features", "CO"),),
        )
        return op, functools.partial(feature_batchnorm, draw)
    if kind == "pool":
        name = draw.pick(("max", "avg"))
        state.channel = None
        spelled = f"F.{name}_pool1d({{x}}.unsqueeze(1), kernel_size=4).squeeze(1)"
        return Op(f"{name}pool:features", spelled), functools.partial(_feature_pool, draw, name)
    if kind == "softmax":
        operator = draw.pick(("softmax", "softmax", "log_softmax"))
        op = Op(f"{operator}:features", f"{draw.pick(('torch', 'F'))}.{operator}({{x}}, dim=1)")
        return op, functools.partial(_rows, draw, operator, width, False)
    operator = draw.pick([name for name in FEATURES if ROWS[name].reduces])
    verb = "amax" if operator == "max" else operator
    spelled = f"torch.{verb}({{x}}, dim=1, keepdim=True)"
    if operator == "max" and draw.chance(0.5):
        spelled = "torch.max({x}, dim=1, keepdim=True).values"
    state.channel, state.ends = None, True
    return Op(f"{operator}:features", spelled), functools.partial(_rows, draw, operator, width, True)


def _rows(draw: Draw, operator: str, width: int, keep: bool, after: Chain) -> Stage:
    return rows(draw, f"{operator}_rows", operator, "float32", width, after=after, keep=keep)


def feature_batchnorm(draw: Draw, after: Chain = NOTHING) -> Stage:
    """BatchNorm1d by the batch's statistics: a program has a run of features and walks the batch three times."""
    both = affine("bn").then(after)
    block, rows_block = draw.tile("BLOCK_N", (32, 64), (16,)), draw.tile("BLOCK_M", (32, 64), (16,))
    tile = [
        "for start in range(0, M, BLOCK_M):",
        "    m = start + tl.arange(0, BLOCK_M)",
        "    mask = (m < M)[:, None] & (n < N)[None, :]",
        "    x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=mask, other=0.0)",
    ]
    lines = both.lines(
        "y", channel="n", channel_mask="n < N", expand="[None, :]", offsets="m[:, None] * N + n[None, :]", mask="mask"
    )  # fmt: skip
    body = [
        "n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)",
        "total = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)",
        *tile,
        "    total += x",
        "mean = tl.sum(total, 0) / M",
        "total = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)",
        *tile,
        "    centred = tl.where(mask, x - mean[None, :], 0.0)",
        "    total += centred * centred",
        "rstd = tl.rsqrt(tl.sum(total, 0) / M + eps)",
        *tile,
        "    y = (x - mean[None, :]) * rstd[None, :]",
        *(f"    {line}" for line in lines),
        "    tl.store(y_ptr + m[:, None] * N + n[None, :], y, mask=mask)",
    ]
    name = "feature_batchnorm"
    parameters = [
        "x_ptr",
        *both.pointers,
        "y_ptr",
        "M",
        "N",
        "eps",
        "BLOCK_M: tl.constexpr",
        "BLOCK_N: tl.constexpr",
    ]
    passed = ["x", *both.arguments, "y", "M", "N", "eps", f"BLOCK_M={rows_block}", f"BLOCK_N={block}"]
    host = (
        "M, N = x.shape",
        "y = torch.empty_like(x)",
        *launch(f"{name}_kernel", f"triton.cdiv(N, {block}),", [*passed, draw.warps((4, 8), (1,))]),
        "return y",
    )
    takes = (("x", "{x}"), ("eps", "self.bn.eps"), *both.takes)
    return Stage(name, (kernel(f"{name}_kernel", parameters, body),), takes, host, both.helpers)


def _feature_pool(draw: Draw, name: str, after: Chain) -> Stage:
    """Pooling of every four features."""
    block = draw.tile("BLOCK", (256, 512, 1024), (64,))
    empty, join = ("0.0", "value + x") if name == "avg" else ('-float("inf")', "tl.maximum(value, x)")
    body = [
        "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "mask = i < size",
        "at = i // width * features + i % width * WINDOW",
        f"value = tl.full([BLOCK], {empty}, tl.float32)",
        "for k in tl.static_range(WINDOW):",
        f"    x = tl.load(x_ptr + at + k, mask=mask, other={empty})",
        f"    value = {join}",
        *(["value = value / WINDOW"] if name == "avg" else []),
        *after.lines("value", offsets="i", mask="mask"),
        "tl.store(y_ptr + i, value, mask=mask)",
    ]
    parameters = ["x_ptr", *after.pointers, "y_ptr", "size", "features", "width"]
    parameters += ["WINDOW: tl.constexpr", "BLOCK: tl.constexpr"]
    passed = ["x", *after.arguments, "y", "y.numel()", "features", "width", "WINDOW=4", f"BLOCK={block}"]
    host = (
        "n, features = x.shape",
        "width = features // 4",
        "y = x.new_empty((n, width))",
        *launch(
            f"feature_{name}pool_kernel",
            f"triton.cdiv(y.numel(), {block}),",
            [*passed, draw.warps((4,), (1,))],
        ),
        "return y",
    )
    text = kernel(f"feature_{name}pool_kernel", parameters, body)
    return Stage(f"feature_{name}pool", (text,), (("x", "{x}"), *after.takes), host, after.helpers)


def _images(draw: Draw) -> Design:
    return image_sequence(draw, False)


def _flipped(draw: Draw) -> Design:
    return image_sequence(draw, True)


FAMILIES = (
    Family("conv_sequence", "fusion", _images, _LEVELS),
    Family("conv_transpose_sequence", "fusion", _flipped, _LEVELS),
    Family("linear_sequence", "fusion", feature_sequence, _LEVELS),
)
