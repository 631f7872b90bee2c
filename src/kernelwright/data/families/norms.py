"""Normalisations: over batches, layers, groups, planes, channels, rows and whole tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kernelwright.data.families.along import rows, strided
from kernelwright.data.families.convolution import SPACE, capped
from kernelwright.data.families.epilogue import NOTHING, Chain, affine, chain
from kernelwright.data.families.spec import (
    Design,
    Draw,
    Dtype,
    Family,
    Op,
    Size,
    Stage,
    kernel,
    launch,
    placed,
    tensor,
    widened,
)
from kernelwright.data.operators import ROWS, Statistic

HELD = 32768
"""Elements of a segment that are held at once."""
PARTS = 16
"""Programs that share the sums of a longer one."""


def planes(draw: Draw, rank: int | None = None) -> tuple[int, dict[str, Size]]:
    """Sizes of a tensor of images, and their rank."""
    rank = rank or draw.pick((1, 2, 2, 2, 3))
    full = {1: (256, 1024, 4096, 65536), 2: (16, 32, 56, 64, 128, 256, 512), 3: (8, 16, 24, 32, 64)}[rank]
    small = {1: (32, 48), 2: (6, 8), 3: (3, 4)}[rank]
    odd = {1: (37, 51), 2: (7, 9), 3: (3, 5)}[rank]
    sizes = {
        "B": draw.size((16, 32, 64, 112, 128), (2,), (3,)),
        "C": draw.size((32, 64, 96, 128), (4, 8), (5, 7)),
        **{axis: draw.size(full, small, odd) for axis in SPACE[rank]},
    }
    return rank, capped(sizes)


def shape_of(rank: int) -> str:
    return ", ".join(["B", "C", *SPACE[rank]])


def _count(sizes: dict[str, Size], names: tuple[str, ...]) -> int:
    count = 1
    for name in names:
        count *= sizes[name].full
    return count


def _sums(loop: str, index: str, at: str, length: str, wide: str) -> list[str]:
    """Kernel lines that sum what elements have above `shift`, one of them, and the squares of that: from both follow mean
    and variance in one walk, without the cancellation that far-off means bring (Chan, Golub and LeVeque 1983)."""
    name = index.partition(" = ")[0]
    return [
        "total = tl.zeros([BLOCK], dtype=tl.float32)",
        "squares = tl.zeros([BLOCK], dtype=tl.float32)",
        loop,
        f"    {index}",
        f"    mask = {name} < {length}",
        f"    x = tl.load(x_ptr + {at}, mask=mask, other=0.0){wide}",
        "    x = tl.where(mask, x - shift, 0.0)",
        "    total += x",
        "    squares += x * x",
    ]


def segments(
    draw: Draw,
    name: str,
    dtype: Dtype,
    length: int,
    host: list[str],
    *,
    channel: str,
    numbers: tuple[str, ...],
    affines: Chain = NOTHING,
    after: Chain = NOTHING,
    takes: tuple[tuple[str, str], ...] = (),
    eps: str = "1e-5",
) -> Stage:
    """Subtract the mean and divide by the deviation of every contiguous segment of `size` elements.

    `channel` is the index of an element's weight, over `segment`, `offs` and the integers `numbers`, all of which
    `host` sets.
    """
    wide = widened(dtype)
    both = affines.then(after)
    one = "offs" not in channel
    index = ["segment = tl.program_id(0).to(tl.int64)", "x_ptr += segment * size", "y_ptr += segment * size"]
    load = f"x = tl.load(x_ptr + offs, mask=mask, other=0.0){wide}"
    finish = [
        "y = (x - mean) * rstd",
        *both.lines(
            "y", channel=channel, channel_mask="mask", offsets="segment * size + offs", mask="mask", one=one
        ),
        "tl.store(y_ptr + offs, y, mask=mask)",
    ]
    takes = (("x", "{x}"), *takes, *both.takes)
    pointers, passed = ["x_ptr", *both.pointers, "y_ptr"], ["x", *both.arguments, "y"]
    if length > HELD or (draw.slow and draw.tune.random() < 0.8):
        # A grid has at most 65,535 programs along its second axis.
        small = 256 if length <= 65_535 * 256 else 1024
        block, warps = draw.tile("BLOCK", (2048, 4096), (small,)), draw.warps((8,), (1,))
        sums = kernel(
            f"{name}_sums_kernel",
            ["x_ptr", "total_ptr", "squares_ptr", "size", "PARTS: tl.constexpr", "BLOCK: tl.constexpr"],
            [
                *index[:2],
                f"shift = tl.load(x_ptr){wide}",
                *_sums(
                    "for start in range(tl.program_id(1) * BLOCK, size, PARTS * BLOCK):",
                    "offs = start + tl.arange(0, BLOCK)",
                    "offs",
                    "size",
                    wide,
                ),
                "part = segment * PARTS + tl.program_id(1)",
                "tl.store(total_ptr + part, tl.sum(total, 0))",
                "tl.store(squares_ptr + part, tl.sum(squares, 0))",
            ],
        )
        apply = kernel(
            f"{name}_kernel",
            [
                *("x_ptr", "total_ptr", "squares_ptr", *pointers[1:], "size", *numbers, "eps"),
                *("PARTS: tl.constexpr", "BLOCK: tl.constexpr"),
            ],
            [
                *index,
                "part = segment * PARTS + tl.arange(0, PARTS)",
                "mean = tl.sum(tl.load(total_ptr + part), 0) / size",
                "rstd = tl.rsqrt(tl.sum(tl.load(squares_ptr + part), 0) / size - mean * mean + eps)",
                f"mean += tl.load(x_ptr){wide}",
                "offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)",
                "mask = offs < size",
                load,
                *finish,
            ],
        )
        lines = [
            *host,
            "segments = x.numel() // size",
            f"total = torch.empty((segments, {PARTS}), device=x.device, dtype=torch.float32)",
            "squares = torch.empty_like(total)",
            *launch(
                f"{name}_sums_kernel",
                f"segments, {PARTS}",
                ["x", "total", "squares", "size", f"PARTS={PARTS}", f"BLOCK={block}", warps],
            ),
            "y = torch.empty_like(x)",
            *launch(
                f"{name}_kernel",
                f"segments, triton.cdiv(size, {block})",
                [
                    *("x", "total", "squares", *passed[1:], "size", *numbers, eps),
                    *(f"PARTS={PARTS}", f"BLOCK={block}", warps),
                ],
            ),
            "return y",
        ]
        return Stage(name, (sums, apply), takes, tuple(lines), both.helpers)
    body = [
        *index,
        "offs = tl.arange(0, BLOCK)",
        "mask = offs < size",
        load,
        "mean = tl.sum(x, 0) / size",
        "centred = tl.where(mask, x - mean, 0.0)",
        "rstd = tl.rsqrt(tl.sum(centred * centred, 0) / size + eps)",
        *finish,
    ]
    parameters = [*pointers, "size", *numbers, "eps", "BLOCK: tl.constexpr"]
    warps = draw.warps(
        (16,) if length > 16384 else (8,) if length > 4096 else (4, 8) if length > 1024 else (1, 2, 4)
    )
    passed += ["size", *numbers, eps, "BLOCK=triton.next_power_of_2(size)", warps]
    lines = [
        *host,
        "y = torch.empty_like(x)",
        *launch(f"{name}_kernel", "x.numel() // size,", passed),
        "return y",
    ]
    return Stage(name, (kernel(f"{name}_kernel", parameters, body),), takes, tuple(lines), both.helpers)


def layernorm(draw: Draw) -> Design:
    """nn.LayerNorm over the last dimension or all but the first."""
    dtype = draw.dtype(0.35)
    multiple = draw.chance(0.35)
    if multiple:
        rank, sizes = planes(draw, 2)
        shape, given = shape_of(rank), "(C, H, W)"
        length = _count(sizes, ("C", "H", "W"))
        host = ["size = weight.numel()"]
    else:
        sizes = {
            "B": draw.size((4, 8, 16), (2,), (3,)),
            "S": draw.size((512, 1024, 2048), (3,), (5,)),
            "N": draw.size((512, 768, 1024, 1536, 4096, 8192), (64, 96), (77, 101)),
        }
        shape, given, length = "B, S, N", "N", sizes["N"].full
        host = ["size = x.shape[-1]"]
    attribute = draw.pick(("norm", "ln"))
    eps = draw.pick(("", "", ", eps=1e-6"))
    op = Op(
        f"layernorm:{'many' if multiple else 'last'}",
        f"self.{attribute}({{x}})",
        (f"self.{attribute} = nn.LayerNorm(normalized_shape{eps}{placed(dtype)})",),
        (("normalized_shape", given),),
        (("x", tensor(shape, dtype)),),
    )
    stage = segments(
        draw,
        "layernorm",
        dtype,
        length,
        host,
        channel="offs",
        numbers=(),
        affines=affine(attribute, dtype),
        takes=(("eps", f"self.{attribute}.eps"),),
        eps="eps",
    )
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def group_stage(
    draw: Draw, dtype: Dtype, length: int, *, module: str = "norm", after: Chain = NOTHING
) -> Stage:
    """Group normalisation by the module `self.MODULE`."""
    return segments(
        draw,
        "groupnorm",
        dtype,
        length,
        [
            "n, channels = x.shape[:2]",
            "spatial = x.numel() // (n * channels)",
            "per_group = channels // groups",
            "size = per_group * spatial",
        ],
        channel="segment % groups * per_group + offs // spatial",
        numbers=("groups", "per_group", "spatial"),
        affines=affine(module, dtype),
        after=after,
        takes=(("groups", f"self.{module}.num_groups"), ("eps", f"self.{module}.eps")),
        eps="eps",
    )


def groupnorm(draw: Draw) -> Design:
    """nn.GroupNorm."""
    dtype = draw.dtype(0.2)
    rank, sizes = planes(draw)
    groups = draw.pick((4, 8, 16))
    sizes["C"] = Size(draw.pick((32, 64, 128)), 8, 9)
    sizes["GROUPS"] = Size(groups, draw.pick((2, 4)), 3)
    op = Op(
        "groupnorm",
        "self.norm({x})",
        (f"self.norm = nn.GroupNorm(num_groups, num_channels{placed(dtype)})",),
        (("num_channels", "C"), ("num_groups", "GROUPS")),
        (("x", tensor(shape_of(rank), dtype)),),
    )
    stage = group_stage(draw, dtype, _count(sizes, ("C", *SPACE[rank])) // groups)
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def instance_stage(
    draw: Draw, dtype: Dtype, length: int, *, module: str, learns: bool, after: Chain = NOTHING
) -> Stage:
    """Instance normalisation: every plane by itself."""
    return segments(
        draw,
        "instancenorm",
        dtype,
        length,
        ["n, channels = x.shape[:2]", "size = x.numel() // (n * channels)"],
        channel="segment % channels",
        numbers=("channels",) if learns or after.by_channel else (),
        affines=affine(module, dtype) if learns else NOTHING,
        after=after,
        takes=(("eps", f"self.{module}.eps"),),
        eps="eps",
    )


def instancenorm(draw: Draw) -> Design:
    """nn.InstanceNorm1d to 3d."""
    dtype = draw.dtype(0.2)
    rank, sizes = planes(draw)
    learns = draw.chance(0.5)
    op = Op(
        f"instancenorm{rank}d:{learns}",
        "self.norm({x})",
        (
            f"self.norm = nn.InstanceNorm{rank}d(num_features{', affine=True' if learns else ''}{placed(dtype)})",
        ),
        (("num_features", "C"),),
        (("x", tensor(shape_of(rank), dtype)),),
    )
    stage = instance_stage(draw, dtype, _count(sizes, SPACE[rank]), module="norm", learns=learns)
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def batch_stages(draw: Draw, dtype: Dtype, *, module: str = "bn", after: Chain = NOTHING) -> Stage:
    """Batch normalisation by the batch's own statistics: sums of every plane, then a kernel that adds those of a channel."""
    most = draw.tune.choice((2048, 4096)) if not draw.slow else 128
    wide = widened(dtype)
    both = affine(module, dtype).then(after)
    sums = kernel(
        "batch_sums_kernel",
        ["x_ptr", "total_ptr", "squares_ptr", "channels", "spatial", "BLOCK: tl.constexpr"],
        [
            "plane = tl.program_id(0).to(tl.int64)",
            f"shift = tl.load(x_ptr + plane % channels * spatial){wide}",
            *_sums(
                "for start in range(0, spatial, BLOCK):",
                "i = start + tl.arange(0, BLOCK)",
                "plane * spatial + i",
                "spatial",
                wide,
            ),
            "tl.store(total_ptr + plane, tl.sum(total, 0))",
            "tl.store(squares_ptr + plane, tl.sum(squares, 0))",
        ],
    )
    apply = kernel(
        "batchnorm_kernel",
        [
            *(
                "x_ptr",
                "total_ptr",
                "squares_ptr",
                *both.pointers,
                "y_ptr",
                "n",
                "channels",
                "spatial",
                "eps",
            ),
            *("IMAGES: tl.constexpr", "BLOCK: tl.constexpr"),
        ],
        [
            "plane = tl.program_id(0).to(tl.int64)",
            "channel = plane % channels",
            "image = tl.arange(0, IMAGES)",
            "at = image * channels + channel",
            "total = tl.sum(tl.load(total_ptr + at, mask=image < n, other=0.0), 0)",
            "squares = tl.sum(tl.load(squares_ptr + at, mask=image < n, other=0.0), 0)",
            "mean = total / (n * spatial)",
            "rstd = tl.rsqrt(squares / (n * spatial) - mean * mean + eps)",
            f"mean += tl.load(x_ptr + channel * spatial){wide}",
            "i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)",
            "mask = i < spatial",
            "offs = plane * spatial + i",
            f"y = (tl.load(x_ptr + offs, mask=mask){wide} - mean) * rstd",
            *both.lines("y", channel="channel", one=True, offsets="offs", mask="mask"),
            "tl.store(y_ptr + offs, y, mask=mask)",
        ],
    )
    warps = draw.warps((4, 8), (1,))
    host = [
        "n, channels = x.shape[:2]",
        "spatial = x.numel() // (n * channels)",
        f"block = min({most}, triton.next_power_of_2(spatial))",
        "total = torch.empty(n * channels, device=x.device, dtype=torch.float32)",
        "squares = torch.empty_like(total)",
        *launch(
            "batch_sums_kernel",
            "n * channels,",
            ["x", "total", "squares", "channels", "spatial", "BLOCK=block", warps],
        ),
        "y = torch.empty_like(x)",
        *launch(
            "batchnorm_kernel",
            "n * channels, triton.cdiv(spatial, block)",
            [
                *("x", "total", "squares", *both.arguments, "y", "n", "channels", "spatial", "eps"),
                *("IMAGES=triton.next_power_of_2(n)", "BLOCK=block", warps),
            ],
        ),
        "return y",
    ]
    takes = (("x", "{x}"), ("eps", f"self.{module}.eps"), *both.takes)
    return Stage("batchnorm", (sums, apply), takes, tuple(host), both.helpers)


def batchnorm(draw: Draw) -> Design:
    """nn.BatchNorm1d to 3d by the batch's statistics."""
    rank, sizes = planes(draw)
    sizes["B"] = draw.size((16, 32, 64), (3, 4), (5,))
    attribute = draw.pick(("bn", "norm", "batch_norm"))
    extra = draw.pick(("", "", ", track_running_stats=False"))
    op = Op(
        f"batchnorm{rank}d",
        f"self.{attribute}({{x}})",
        (f"self.{attribute} = nn.BatchNorm{rank}d(num_features{extra})",),
        (("num_features", "C"),),
        (("x", tensor(shape_of(rank))),),
    )
    return Design((op,), (batch_stages(draw, "float32", module=attribute),), sizes, "float32", draw.constants)


def batchnorm_inference(draw: Draw) -> Design:
    """Batch normalisation by given statistics, which folds into one multiplication and addition a channel."""
    dtype = draw.dtype(0.2)
    rank, sizes = planes(draw)
    state = (
        f'self.register_buffer("mean", torch.randn(num_features{placed(dtype)}))',
        f'self.register_buffer("var", torch.rand(num_features{placed(dtype)}) + 0.5)',
        f"self.weight = nn.Parameter(torch.randn(num_features{placed(dtype)}))",
        f"self.bias = nn.Parameter(torch.randn(num_features{placed(dtype)}))",
    )
    count = draw.operators - 1
    channel = (f"num_features{', 1' * rank}", (("num_features", "C"),))
    after = chain(
        draw, count, dtype, channel=channel, full=shape_of(rank), taken=("bias", "weight", "mean", "var")
    )
    op = Op(
        f"batchnorm_inference{rank}d",
        "F.batch_norm({x}, self.mean, self.var, self.weight, self.bias, training=False, eps=1e-5)",
        state,
        (("num_features", "C"),),
        (("x", tensor(shape_of(rank), dtype)),),
    )
    block, wide = draw.tile("BLOCK", (512, 1024), (64, 128)), widened(dtype)
    body = [
        "plane = tl.program_id(0).to(tl.int64)",
        "channel = plane % channels",
        "i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)",
        "mask = i < spatial",
        f"factor = tl.load(weight_ptr + channel){wide} * tl.rsqrt(tl.load(var_ptr + channel){wide} + 1e-5)",
        f"x = tl.load(x_ptr + plane * spatial + i, mask=mask){wide}",
        f"y = (x - tl.load(mean_ptr + channel){wide}) * factor + tl.load(bias_ptr + channel){wide}",
        *after.lines("y", channel="channel", one=True, offsets="plane * spatial + i", mask="mask"),
        "tl.store(y_ptr + plane * spatial + i, y, mask=mask)",
    ]
    held = ["mean", "var", "weight", "bias"]
    parameters = ["x_ptr", *(f"{name}_ptr" for name in held), *after.pointers, "y_ptr", "channels", "spatial"]
    passed = [
        "x",
        *held,
        *after.arguments,
        "y",
        "channels",
        "spatial",
        f"BLOCK={block}",
        draw.warps((4,), (1, 8)),
    ]
    host = [
        "n, channels = x.shape[:2]",
        "spatial = x.numel() // (n * channels)",
        "y = torch.empty_like(x)",
        *launch("batchnorm_kernel", f"n * channels, triton.cdiv(spatial, {block})", passed),
        "return y",
    ]
    text = kernel("batchnorm_kernel", [*parameters, "BLOCK: tl.constexpr"], body)
    takes = (("x", "{x}"), *((name, f"self.{name}") for name in held), *after.takes)
    stage = Stage("batchnorm", (text,), takes, tuple(host), after.helpers)
    return Design((op, *after.ops), (stage,), sizes, dtype, draw.constants)


_MEAN_SQUARES = (
    "torch.mean(x ** 2, {d})",
    "x.pow(2).mean({d})",
    "torch.mean(x * x, {d})",
    "x.square().mean({d})",
)
_OVER = ("x / torch.sqrt({m} + {e})", "x * torch.rsqrt({m} + {e})", "x / ({m} + {e}).sqrt()")


def rmsnorm(draw: Draw) -> Design:
    """Over the last dimension with a weight or over channels, written out or as torch's own, and maps after it."""
    eps = draw.pick(("1e-6", "1e-5", "1e-8"))
    along = draw.chance(0.4)
    held = draw.chance(0.5)
    count = draw.operators - 1
    inverse = f"tl.rsqrt({{s}} / n + {'eps' if held else repr(float(eps))})"
    formula = replace(ROWS["rmsnorm"], statistics=(Statistic("s", "sum", "{x} * {x}", inverse),))
    passed = Chain((), (), (("eps", "number"),), (), "") if held else NOTHING
    squares = draw.pick(_MEAN_SQUARES).format(
        d="dim=1, keepdim=True" if along else draw.pick(("dim=-1, keepdim=True", "-1, keepdim=True"))
    )
    spelled = draw.pick(_OVER).format(m=squares, e="self.eps" if held else eps)
    state: tuple[str, ...] = ("self.eps = eps",) if held else ()
    init: tuple[tuple[str, str], ...] = (("eps", eps),) if held else ()
    if along:
        rank, sizes = planes(draw, 2)
        op = Op("rmsnorm:channels", spelled, state, init, (("x", tensor(shape_of(rank), "float32")),))
        after = chain(draw, count, "float32")
        stage = strided(draw, "rmsnorm", formula, "float32", sizes["C"].full, 1, before=passed, after=after)
        return Design((op, *after.ops), (stage,), sizes, "float32", draw.constants)
    dtype = draw.dtype(0.4)
    sizes = _tokens(draw)
    weighted = draw.chance(0.8)
    if weighted:
        filled = draw.pick(("torch.randn", "torch.ones"))
        state = (*state, f"self.weight = nn.Parameter({filled}(dim{placed(dtype)}))")
        init = (("dim", "N"), *init)
    if dtype == "float32" and weighted and draw.chance(0.6):
        spelled = draw.pick((f"{spelled} * self.weight", f"self.weight * ({spelled})"))
    else:
        weight, given = "self.weight" if weighted else "None", "self.eps" if held else eps
        spelled = f"F.rms_norm(x, (x.shape[-1],), {weight}, eps={given})"
    name = f"rmsnorm:last{'' if weighted else ',plain'}"
    op = Op(name, spelled, state, init, (("x", tensor("B, S, N", dtype)),))
    scale = Chain((), affine("", dtype).steps[:1], (("weight", "channel"),), ("weight",), widened(dtype))
    after = chain(
        draw,
        count,
        dtype,
        channel=("dim", (("dim", "N"),)) if weighted else None,
        taken=["weight", "self.weight", "dim", "eps", "self.eps"],
    )
    after_all = scale.then(after) if weighted else after
    stage = rows(draw, "rmsnorm", formula, dtype, sizes["N"].full, before=passed, after=after_all)
    return Design((op, *after.ops), (stage,), sizes, dtype, draw.constants)


def _tokens(draw: Draw) -> dict[str, Size]:
    return {
        "B": draw.size((4, 8, 16), (2,), (3,)),
        "S": draw.size((512, 1024, 2048), (3,), (5,)),
        "N": draw.size((512, 768, 1024, 2048, 4096), (64, 96), (77, 101)),
    }


def l1norm(draw: Draw) -> Design:
    return _scaled(
        draw,
        "l1norm",
        (
            "F.normalize(x, p=1, dim={d})",
            "x / torch.sum(torch.abs(x), dim={d}, keepdim=True)",
            "x / x.abs().sum(dim={d}, keepdim=True)",
            "x / torch.norm(x, p=1, dim={d}, keepdim=True)",
        ),
    )


def l1mean(draw: Draw) -> Design:
    """By the mean of the absolute values, where `l1norm` has their sum."""
    return _scaled(
        draw,
        "l1mean",
        (
            "x / torch.mean(torch.abs(x), dim={d}, keepdim=True)",
            "x / x.abs().mean(dim={d}, keepdim=True)",
            "x / torch.abs(x).mean({d}, keepdim=True)",
        ),
    )


def rms(draw: Draw) -> Design:
    """By the root of the mean square, without a weight and without an epsilon."""
    return _scaled(
        draw,
        "rms",
        (
            "x / torch.sqrt(torch.mean(x ** 2, dim={d}, keepdim=True))",
            "x / x.pow(2).mean(dim={d}, keepdim=True).sqrt()",
        ),
    )


def maxnorm(draw: Draw) -> Design:
    """By the largest absolute value."""
    return _scaled(
        draw,
        "maxnorm",
        ("x / torch.amax(torch.abs(x), dim={d}, keepdim=True)", "x / x.abs().amax(dim={d}, keepdim=True)"),
    )


def l2norm(draw: Draw) -> Design:
    return _scaled(
        draw,
        "l2norm",
        (
            "F.normalize(x, dim={d})",
            "x / torch.norm(x, p=2, dim={d}, keepdim=True)",
            "x / x.norm(dim={d}, keepdim=True)",
            "x / torch.sqrt(torch.sum(x * x, dim={d}, keepdim=True))",
        ),
    )


def _scaled(draw: Draw, name: str, spellings: tuple[str, ...]) -> Design:
    """A row, or all along an inner dimension, divided by its norm."""
    dtype = draw.dtype(0.2)
    inner = draw.chance(0.35)
    if inner:
        rank, sizes = planes(draw, draw.pick((1, 2)))
        shape, dim, length = shape_of(rank), 1, sizes["C"].full
    else:
        sizes = {
            "M": draw.size((1024, 4096, 16384, 32768), (4, 6), (5, 7)),
            "N": draw.size((1024, 4096, 8192, 16384, 32768, 65535), (64, 128), (77, 133)),
        }
        shape, dim, length = "M, N", draw.pick((1, -1)), sizes["N"].full
    op = Op(
        f"{name}:{'inner' if inner else 'last'}",
        draw.pick(spellings).format(d=dim),
        inputs=(("x", tensor(shape, dtype)),),
    )
    stage = strided(draw, name, name, dtype, length, 1) if inner else rows(draw, name, name, dtype, length)
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def frobenius(draw: Draw) -> Design:
    """A tensor divided by the norm of all of it: partial sums, then the division."""
    rank, sizes = planes(draw, draw.pick((1, 2)))
    op = Op(
        "frobenius",
        draw.pick(
            (
                'x / torch.norm(x, p="fro")',
                "x / torch.linalg.vector_norm(x)",
                "x / x.norm()",
                "x / torch.sqrt((x * x).sum())",
            )
        ),
        inputs=(("x", tensor(shape_of(rank))),),
    )
    block, most = draw.tile("BLOCK", (1024, 2048), (256,)), draw.tune.choice((512, 1024))
    partial = kernel(
        "squares_kernel",
        ["x_ptr", "partial_ptr", "size", "BLOCK: tl.constexpr"],
        [
            "total = tl.zeros([BLOCK], dtype=tl.float32)",
            "for start in range(tl.program_id(0) * BLOCK, size, tl.num_programs(0) * BLOCK):",
            "    offs = start + tl.arange(0, BLOCK)",
            "    x = tl.load(x_ptr + offs, mask=offs < size, other=0.0)",
            "    total += x * x",
            "tl.store(partial_ptr + tl.program_id(0), tl.sum(total, 0))",
        ],
    )
    divide = kernel(
        "divide_kernel",
        ["x_ptr", "partial_ptr", "y_ptr", "size", "parts", "PARTS: tl.constexpr", "BLOCK: tl.constexpr"],
        [
            "i = tl.arange(0, PARTS)",
            "norm = tl.sqrt(tl.sum(tl.load(partial_ptr + i, mask=i < parts, other=0.0), 0))",
            "offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)",
            "mask = offs < size",
            "tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=mask) / norm, mask=mask)",
        ],
    )
    host = [
        "size = x.numel()",
        f"parts = min({most}, triton.cdiv(size, {block}))",
        "partial = torch.empty(parts, device=x.device, dtype=torch.float32)",
        *launch(
            "squares_kernel", "parts,", ["x", "partial", "size", f"BLOCK={block}", draw.warps((8,), (1,))]
        ),
        "y = torch.empty_like(x)",
        *launch(
            "divide_kernel",
            f"triton.cdiv(size, {block}),",
            ["x", "partial", "y", "size", "parts", "PARTS=triton.next_power_of_2(parts)", f"BLOCK={block}"],
        ),
        "return y",
    ]
    stage = Stage("frobenius_norm", (partial, divide), (("x", "{x}"),), tuple(host))
    return Design((op,), (stage,), sizes, "float32", draw.constants)


_DRAWS: dict[str, Callable[[Draw], Design]] = {
    "layernorm": layernorm,
    "groupnorm": groupnorm,
    "instancenorm": instancenorm,
    "batchnorm": batchnorm,
    "l1norm": l1norm,
    "l1mean": l1mean,
    "l2norm": l2norm,
    "rms": rms,
    "maxnorm": maxnorm,
    "frobenius_norm": frobenius,
}
FAMILIES = (
    *(Family(name, "norm", draw) for name, draw in _DRAWS.items()),
    Family("rmsnorm", "norm", rmsnorm, (1, 2, 3, 4)),
    Family("batchnorm_inference", "norm", batchnorm_inference, (1, 2, 3)),
)
