"""Pooling over windows of one to three dimensions, and over all places."""

from __future__ import annotations

import functools
from collections.abc import Callable

from kernelwright.data.families.along import rows
from kernelwright.data.families.convolution import FULL, ODD, SMALL, SPACE, capped
from kernelwright.data.families.epilogue import NOTHING, Chain
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
    tensor,
    widened,
)
from kernelwright.data.families.windows import Geometry, area, coordinates, flat_place, over_taps, within


def window(
    draw: Draw,
    kind: str,
    rank: int,
    dtype: Dtype,
    size: int,
    *,
    stride: int,
    padding: int = 0,
    dilation: int = 1,
    pads_count: bool = True,
    attribute: str = "",
    after: Chain = NOTHING,
) -> Stage:
    """Pooling with one size for all dimensions, in one text for whatever the options are; with `attribute` the numbers
    come from `self.ATTRIBUTE`."""
    g = Geometry(rank, True, True, True, kind == "max")
    # Of rows an H200 takes 1.6 times as long with 128; of planes and volumes up to 9 times as long with 256 or 512: what
    # neighbours share is no longer in the L1 when it is read again.
    block = draw.tile("BLOCK_P", (256,) if rank == 1 else (128,), (32,))
    places, outs = area(g), area(g, outs=True)
    wide = widened(dtype)
    empty = '-float("inf")' if kind == "max" else "0.0"
    body = [
        "plane = tl.program_id(1).to(tl.int64)",
        "p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)",
        *coordinates(g),
        f"x_ptr += plane * {places}",
        f"value = tl.full([BLOCK_P], {empty}, tl.float32)",
    ]
    counts = kind == "avg" and padding != 0 and not pads_count
    if counts:
        body.append("count = tl.zeros([BLOCK_P], dtype=tl.float32)")
    loops, indent = over_taps(g, "range" if rank == 3 or size > 5 else "tl.static_range")
    body += [
        *loops,
        f"{indent}inside = {within(g.axes, g.padding)} & (p < {outs})",
        f"{indent}x = tl.load(x_ptr + {flat_place(g)}, mask=inside, other={empty}){wide}",
        f"{indent}value = tl.maximum(value, x)" if kind == "max" else f"{indent}value += x",
    ]
    if counts:
        body += [f"{indent}count += inside.to(tl.float32)", "value = value / tl.maximum(count, 1.0)"]
    elif kind == "avg":
        body.append(f"value = value / ({g.taps()})")
    body += after.lines(
        "value", channel="plane % channels", one=True, offsets=f"plane * {outs} + p", mask=f"p < {outs}"
    )
    body.append(f"tl.store(y_ptr + plane * {outs} + p, value, mask=p < {outs})")
    name = f"{kind}pool{rank}d"
    held = [("KERNEL", "kernel_size", size), ("STRIDE", "stride", stride), ("PAD", "padding", padding)]
    held += [("DILATION", "dilation", dilation)] * g.dilation
    takes = [("x", "{x}")]
    numbers: dict[str, str] = {}
    for _, given, value in held:
        takes.append((given, f"self.{attribute}.{given}" if attribute else str(value)))
        numbers[given] = given
        if attribute and kind == "avg" and rank == 1:
            takes[-1] = (given, f"self.{attribute}.{given}[0]")
    channels = ["channels"] if after.by_channel else []
    parameters = ["x_ptr", *after.pointers, "y_ptr", *channels, *g.sizes(), *g.sizes("O")]
    parameters += [*(f"{constant}: tl.constexpr" for constant, _, _ in held), "BLOCK_P: tl.constexpr"]
    passed = ["x", *after.arguments, "y", *(["c"] if channels else []), *g.axes, *(f"o{a}" for a in g.axes)]
    passed += [
        *(f"{constant}={given}" for constant, given, _ in held),
        f"BLOCK_P={block}",
        draw.warps((4,), (1, 8)),
    ]
    host = [f"n, c, {', '.join(g.axes)} = x.shape"]
    reach = "dilation * (kernel_size - 1)" if g.dilation else "kernel_size"
    for axis in g.axes:
        padded = f"{axis} + 2 * padding" if g.padding else axis
        host.append(f"o{axis} = ({padded} - {reach}{' - 1' if g.dilation else ''}) // stride + 1")
    out = " * ".join(f"o{a}" for a in g.axes)
    host += [
        f"y = torch.empty((n, c, {', '.join(f'o{a}' for a in g.axes)}), device=x.device, dtype=x.dtype)",
        *launch(f"{name}_kernel", f"triton.cdiv({out}, {block}), n * c", passed),
        "return y",
    ]
    return Stage(
        name,
        (kernel(f"{name}_kernel", parameters, body),),
        (*takes, *after.takes),
        tuple(host),
        after.helpers,
    )


def described(
    draw: Draw, kind: str, rank: int, size: int, stride: int, padding: int, dilation: int, pads_count: bool
) -> Op:
    """The operator of a pooling module named `pool`."""
    given = [("kernel_size", str(size)), ("stride", str(stride))]
    arguments = ["kernel_size", "stride=stride"]
    for name, value, default in (("padding", padding, 0), ("dilation", dilation, 1)):
        if value != default:
            given.append((name, str(value)))
            arguments.append(f"{name}={name}")
    if stride == size and draw.chance(0.6):
        given.pop(1)
        arguments.pop(1)
    if not pads_count:
        arguments.append("count_include_pad=False")
    parts = [
        kind,
        str(size == stride),
        *(p for p, v, d in (("pad", padding, 0), ("dil", dilation, 1)) if v != d),
    ]
    module = f"nn.{kind.capitalize()}Pool{rank}d({', '.join(arguments)})"
    return Op(
        f"{kind}pool{rank}d:" + ",".join(parts), "self.pool({x})", (f"self.pool = {module}",), tuple(given)
    )


def pool(draw: Draw, kind: str, rank: int) -> Design:
    """Pooling alone. PyTorch has no `AvgPool3d` of float16 on a CPU, where the judge's reference runs."""
    dtype = draw.dtype(0.2) if (kind, rank) != ("avg", 3) else "float32"
    size = draw.pick((2, 2, 3, 3, 4, 5, 8, 11) if rank < 3 else (2, 3, 4))
    stride = draw.pick((size, size, 1, 2))
    padding = draw.pick((0, 0, 1, size // 2))
    dilation = draw.pick((1, 1, 2, 3)) if kind == "max" else 1
    reach = dilation * (size - 1)
    pads_count = not (kind == "avg" and padding and draw.chance(0.4))
    sizes = {
        "B": draw.size((8, 16, 32, 64), (1,), (2,)),
        "C": draw.size((32, 64, 128, 192), (2, 4), (3,)),
    }
    for axis in SPACE[rank]:
        full = draw.pick(FULL[rank]) * (2 if rank == 2 else 1)
        sizes[axis] = Size(
            full, max(draw.pick(SMALL[rank]), reach) + 2, max(draw.pick(ODD[rank]), reach + 1) + 4
        )
    sizes = capped(sizes)
    op = described(draw, kind, rank, size, stride, padding, dilation, pads_count)
    op = Op(
        op.name,
        op.expression,
        op.state,
        op.init,
        (("x", tensor(", ".join(["B", "C", *SPACE[rank]]), dtype)),),
    )
    attribute = "pool" if draw.tune.random() < 0.7 else ""
    stage = window(
        draw, kind, rank, dtype, size, stride=stride, padding=padding, dilation=dilation, pads_count=pads_count,
        attribute=attribute,
    )  # fmt: skip
    if not attribute:
        # `ModelNew` needs nothing of the module, but its constructor takes the same arguments.
        stage = Stage(stage.name, stage.kernels, stage.takes, stage.body, stage.helpers)
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def global_pool(draw: Draw) -> Design:
    """The mean or maximum of every plane."""
    dtype, rank = draw.dtype(0.2), draw.pick((1, 2, 2, 3))
    kind = draw.pick(("avg", "avg", "max"))
    sizes = capped(
        {
            "B": draw.size((16, 32, 64), (2,), (3,)),
            "C": draw.size((64, 128, 256), (4,), (5, 7)),
            **{axis: draw.size(FULL[rank], SMALL[rank], ODD[rank]) for axis in SPACE[rank]},
        }
    )
    spelled = draw.pick(("module", "function", "method"))
    dims = tuple(range(2, 2 + rank)) if draw.chance(0.5) else tuple(range(-rank, 0))
    dim = str(dims if len(dims) > 1 else dims[0])
    reduce = "mean" if kind == "avg" else "amax"
    module = f"nn.Adaptive{kind.capitalize()}Pool{rank}d(1)"
    if spelled == "module":
        op, keep = Op("", "self.pool({x})", (f"self.pool = {module}",)), True
    elif spelled == "function":
        op, keep = Op("", f"F.adaptive_{kind}_pool{rank}d({{x}}, 1)"), True
    else:
        keep = draw.chance(0.5)
        op = Op("", f"{{x}}.{reduce}(dim={dim}{', keepdim=True' if keep else ''})")
    inputs = (("x", tensor(", ".join(["B", "C", *SPACE[rank]]), dtype)),)
    op = Op(f"global_{kind}pool{rank}d", op.expression, op.state, (), inputs)
    full = 1
    for axis in SPACE[rank]:
        full *= sizes[axis].full
    stage = rows(draw, f"global_{kind}pool", "mean" if kind == "avg" else "max", dtype, full)
    shape = ", ".join(["x.shape[0]", "x.shape[1]", *["1"] * (rank if keep else 0)])
    host = [f"out = x.new_empty({shape})" if line.startswith("out = ") else line for line in stage.body]
    host = ["n = x[0, 0].numel()" if line.startswith("n = ") else line for line in host]
    return Design(
        (op,), (Stage(stage.name, stage.kernels, stage.takes, tuple(host)),), sizes, dtype, draw.constants
    )


def _pooled(kind: str, rank: int, draw: Draw) -> Design:
    return pool(draw, kind, rank)


_DRAWS: dict[str, Callable[[Draw], Design]] = {
    f"{kind}pool{rank}d": functools.partial(_pooled, kind, rank)
    for kind in ("max", "avg")
    for rank in (1, 2, 3)
}
FAMILIES = (
    *(Family(name, "pooling", draw) for name, draw in _DRAWS.items()),
    Family("global_pool", "pooling", global_pool),
)
