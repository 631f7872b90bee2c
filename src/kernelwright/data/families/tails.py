"""What may follow a head: one vocabulary of steps over a value whose shape is known, and a kernel for each.

    pool      max or avg over tiles of the places               norm      group, instance, batch, layer
    softmax   over channels, features or all places             reduce    channels, one axis, all places, all of an image
    center    less its mean over the places                     linear    another linear layer, of features
    rejoin    the input's features, joined by the one number of their row
    nothing   dropout that drops nothing, a reduction of one number: operators that need no kernel

A step gives the reference's operator and a function from the maps that follow (`Chain`) to the kernel. `Value` says
what is left: images (batch, channels, places), features (batch, features), matrices (batch, rows, columns).
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kernelwright.data.families.along import rows, strided
from kernelwright.data.families.epilogue import SCALAR, UNARY, Chain, Channel, affine
from kernelwright.data.families.features import feature_batchnorm, feature_pool
from kernelwright.data.families.gemm import Layout, gemm
from kernelwright.data.families.norms import batch_stages, group_stage, instance_stage, segments
from kernelwright.data.families.pooling import window
from kernelwright.data.families.reductions import SPELLED
from kernelwright.data.families.spec import Draw, Op, Size, Stage, kernel, launch
from kernelwright.data.operators import POINTWISE, ROWS

Build = Callable[[Chain], Stage]
Extents = tuple[int, int, int]
"""A dimension's length at full size and in the two small sets."""

GENTLE = ("scale", "over", "offset", "minus", "leaky_relu", "gelu", "silu", "mish", "abs", "neg", "double")
AFTER = {
    "sum": ("scale", "over", "leaky_relu", "neg", "abs", "double"),
    "logsumexp": GENTLE,
    "max": (*GENTLE, "tanh", "sigmoid", "softsign"),
    "min": (*GENTLE, "tanh", "sigmoid", "softsign"),
    "softmax": ("scale", "over", "sigmoid", "tanh", "gelu", "silu", "square", "double", "softsign"),
    "log_softmax": ("scale", "over", "offset", "abs", "neg", "leaky_relu"),
}
"""Maps that leave something of what a step gives: few of its values are near zero, or all of them are."""


@dataclass
class Value:
    """What the value is after the steps so far."""

    kind: str
    """`image`, `features` or `matrix`."""
    dims: list[Extents]
    sizes: dict[str, Size]
    name: str
    """The constructor argument that counts the channels or features."""
    key: str
    """The size it is given."""
    has_channels: bool = True
    """Whether dimension 1 (of a matrix: the last) is the channels still, all of them."""
    last: str = ""
    """The step before, where no map has followed."""
    used: dict[str, int] = field(default_factory=dict)
    taken: list[str] = field(default_factory=list)
    original: Extents | None = None
    """The features of the input `x`, where a row of those may be joined by what became of it."""
    pooled: str = "max"
    """The last pooling's kind."""
    width: str = ""
    """The last dimension over size constants, where that can be said."""

    @property
    def places(self) -> list[Extents]:
        return self.dims[2:] if self.kind == "image" else []

    @property
    def channel(self) -> Channel:
        """The shape of a parameter by channel."""
        if not self.has_channels:
            return SCALAR
        ones = ", 1" * len(self.places)
        return f"{self.name}{ones}", ((self.name, self.key),)

    def number(self, kind: str) -> str:
        """Nothing, 2, 3, ...: what the next step of a kind has behind its name."""
        self.used[kind] = self.used.get(kind, 0) + 1
        return "" if self.used[kind] == 1 else str(self.used[kind])


@dataclass(frozen=True)
class Tail:
    """One step: the operator, the kernel (None where there is nothing to do) and the maps that may follow."""

    op: Op
    build: Build | None
    names: tuple[str, ...] = UNARY
    channel: bool = True
    """Whether its kernel knows the channel of what it writes."""


def _product(dims: list[Extents]) -> Extents:
    full, small, odd = (math.prod(values) for values in zip(*dims, strict=True)) if dims else (1, 1, 1)
    return full, small, odd


def kinds(value: Value) -> list[str]:
    """Kinds of steps that make sense now, the likelier ones more than once."""
    found = ["dropout"]
    if value.kind == "features":
        if value.dims[1] == (1, 1, 1):
            return ["dropout", "again", "again", *["rejoin"] * 2 * (value.original is not None)]
        found += ["reduce"] * 3 * (value.last not in ("softmax", "plane norm"))
        found += ["softmax"] * ("softmax" not in value.used)
        if value.has_channels:
            found += ["norm"] * _norms(value) + ["linear"] * ("linear" not in value.used)
        found += ["pool"] * 2 * (value.used.get("pool", 0) < 2 and min(value.dims[1]) >= 4)
        return found
    if value.kind == "matrix":
        found += ["softmax"] * 2 * ("softmax" not in value.used) + ["reduce"] * 2 + ["axis"]
        return found + ["norm"] * 2 * ("norm" not in value.used and value.last != "softmax")
    places = _product(value.places)
    if value.has_channels:
        found += ["reduce"] * 2 * (value.last != "softmax")
        found += ["softmax"] * 2 * ("softmax" not in value.used)
        if min(places) >= 4:
            found += ["norm"] * _norms(value)
            found += ["flat softmax"] * ("softmax" not in value.used)
    if places != (1, 1, 1):
        plain = value.last not in ("plane norm", "softmax")
        if len(value.dims) > 2 and value.has_channels and min(min(p) for p in value.places) >= 2:
            found += ["pool"] * (8 if value.last == "pool" else 4) * (value.used.get("pool", 0) < 2)
        found += (["places"] * 3 + ["whole"] * 2) * plain + ["axis"] * 3
        found += ["center"] * (plain and "center" not in value.used)
    elif len(value.dims) > 2:
        found += ["again"] * (value.last in ("places", ""))
    return found


def _norms(value: Value) -> int:
    """How likely a norm is: a second one where the first was of another class, which a batch norm is of more than one row."""
    if value.last == "softmax":  # whose values hardly differ, so that a norm brings out their errors
        return 0
    if "norm" not in value.used:
        return 5
    clashes = value.kind == "features" and "bn" not in value.used and min(value.dims[0]) == 1
    return int(value.used["norm"] == 1 and not clashes)


def step(kind: str, draw: Draw, value: Value) -> Tail:
    """The step, with `value` as it is after it."""
    made = _STEPS[kind](draw, value)
    value.last = {"flat softmax": "softmax"}.get(kind, kind) if kind != "norm" else value.last
    return made


# -- nothing to do ----------------------------------------------------------------------------------------------


def _dropout(draw: Draw, value: Value) -> Tail:
    number = value.number("dropout")
    op = Op(
        "dropout",
        f"self.dropout{number}({{x}})",
        (f"self.dropout{number} = nn.Dropout(dropout_p)",),
        (("dropout_p", "0.0"),),
    )
    if draw.chance(0.5):
        rate = draw.pick(("0.1", "0.2", "0.5"))
        op = Op("dropout", f"F.dropout({{x}}, p={rate}, training=False)")
    return Tail(op, None)


def _again(draw: Draw, value: Value) -> Tail:
    """A reduction of what is one number already."""
    operator = draw.pick(("max", "mean", "logsumexp", "sum"))
    dim: object = 1 if value.kind == "features" else tuple(range(2, len(value.dims)))
    if value.kind == "image":
        operator = "mean"
        dim = dim[0] if len(dim) == 1 else dim  # type: ignore[arg-type,index]
    spelled = draw.pick(SPELLED[operator]).format(d=dim, k=", keepdim=True")
    return Tail(Op(f"{operator}:again", spelled), None)


def _rejoin(draw: Draw, value: Value) -> Tail:
    """The module's input, joined by the one number that was made of each of its rows."""
    assert value.original is not None
    name = draw.pick(("add", "add", "mul"))
    op = Op(f"{name}:rejoin", draw.pick(POINTWISE[name].spellings).format(x="{x}", y="x"))
    value.dims[1], value.has_channels, value.width = value.original, False, ""
    value.used["ended"] = 1
    sign = "+" if name == "add" else "*"
    block = draw.tile("BLOCK", (512, 1024), (128,))

    def build(after: Chain) -> Stage:
        body = [
            "row = tl.program_id(0).to(tl.int64)",
            "cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)",
            "mask = cols < n",
            f"y = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0) {sign} tl.load(value_ptr + row)",
            *after.lines("y", offsets="row * n + cols", mask="mask"),
            "tl.store(y_ptr + row * n + cols, y, mask=mask)",
        ]
        parameters = ["value_ptr", "x_ptr", *after.pointers, "y_ptr", "n", "BLOCK: tl.constexpr"]
        passed = ["value", "x", *after.arguments, "y", "n", f"BLOCK={block}", draw.warps((4,), (1,))]
        host = (
            "n = x.shape[-1]",
            "y = torch.empty_like(x)",
            *launch("rejoin_kernel", f"x.numel() // n, triton.cdiv(n, {block})", passed),
            "return y",
        )
        takes = (("value", "{x}"), ("x", "x"), *after.takes)
        return Stage("rejoin", (kernel("rejoin_kernel", parameters, body),), takes, host, after.helpers)

    return Tail(op, build, channel=False)


# -- pooling ----------------------------------------------------------------------------------------------------


def _pool(draw: Draw, value: Value) -> Tail:
    number = value.number("pool")
    name = draw.pick(("max", "avg"))
    if number:  # two of a kind, more often than not
        name = draw.pick((name, value.pooled, value.pooled))
    value.pooled = name
    features = value.kind == "features"
    least = min(min(dim) for dim in (value.dims[1:] if features else value.places))
    size = draw.pick([k for k in ((2, 4, 8, 16) if features else (2, 2, 2, 3, 4)) if k <= least])
    value.last = f"{name}pool"
    held = draw.pick(
        [stem for stem in POOL_SIZES if stem.format(name=name) not in value.taken] or ["pool2_size"]
    )
    held = held.format(name=name)
    given = held if draw.chance(0.6) else str(size)
    tupled = not features and draw.chance(0.25) and given == held and len(value.places) > 1
    init: tuple[tuple[str, str], ...] = ()
    if given == held:
        value.taken.append(held)
        init = ((held, str((size,) * len(value.places)) if tupled else str(size)),)
    if features:
        value.dims[1] = tuple(extent // size for extent in value.dims[1])  # type: ignore[assignment]
        value.has_channels = False
        spelled = f"self.pool{number}({{x}}.unsqueeze(1)).squeeze(1)"
        state: tuple[str, ...] = (f"self.pool{number} = nn.{name.capitalize()}Pool1d({given})",)
        if given != held and draw.chance(0.4):
            state, spelled = (), f"F.{name}_pool1d({{x}}.unsqueeze(1), kernel_size={size}).squeeze(1)"
        op = Op(f"{name}pool:features", spelled, state, init)
        return Tail(op, functools.partial(feature_pool, draw, name, size), channel=False)
    rank = len(value.places)
    value.dims[2:] = [tuple(extent // size for extent in dim) for dim in value.places]  # type: ignore[misc]
    value.width = ""
    spelled = draw.pick(
        ("{k}", "{k}", "kernel_size={k}", "kernel_size={k}", "kernel_size={k}, stride={k}", "{k}, stride={k}")
    )
    if init and not tupled and draw.chance(0.25):
        # Stride and padding as arguments of their own.
        stem = re.sub(r"_?(kernel_)?size$|kernel_size_", "", held)
        more = [(f"{stem}_stride", str(size)), (f"{stem}_padding", "0")][: draw.pick((1, 1, 2))]
        if not any(given in value.taken for given, _ in more):
            value.taken += [given for given, _ in more]
            init = (*init, *more)
            spelled = ", ".join(["kernel_size={k}", *(f"{g.removeprefix(stem + '_')}={g}" for g, _ in more)])
    module = f"nn.{name.capitalize()}Pool{rank}d({spelled.format(k=given)})"
    op = Op(
        f"{name}pool{rank}d:{name},True",
        f"self.pool{number}({{x}})",
        (f"self.pool{number} = {module}",),
        init,
    )
    build = functools.partial(_window, draw, name, rank, size, f"pool{number}", tupled)
    return Tail(op, build)


def _window(draw: Draw, name: str, rank: int, size: int, attribute: str, tupled: bool, after: Chain) -> Stage:
    made = window(draw, name, rank, "float32", size, stride=size, attribute=attribute, after=after)
    if not tupled:
        return made
    parts = {"kernel_size": "[0]", "stride": "[0]"}
    takes = ((given, passed + parts.get(given, "")) for given, passed in made.takes)
    return replace(made, takes=tuple(takes))


POOL_SIZES = (
    *("pool_kernel_size", "pool_kernel_size", "pool_size", "{name}pool_kernel_size", "kernel_size_pool"),
    *("pool2_kernel_size", "second_pool_size"),
)
"""What the size of a pooling's window is called as an argument."""


# -- norms ------------------------------------------------------------------------------------------------------


def _norm(draw: Draw, value: Value) -> Tail:
    value.number("norm")
    return {"features": _feature_norm, "matrix": _matrix_norm, "image": _image_norm}[value.kind](draw, value)


def _other(value: Value, names: list[str]) -> list[str]:
    """The norms whose attribute is not taken: batch norms are `bn`, the others `norm`."""
    if value.used["norm"] == 1:
        return names
    return [name for name in names if (name == "batch") != ("bn" in value.used)]


def _feature_norm(draw: Draw, value: Value) -> Tail:
    batch = ["batch"] * 2 * (min(value.dims[0]) > 1)
    name = draw.pick(_other(value, ["group", "group", *batch, "layer", "instance"]))
    width, count = value.dims[1][0], value.name
    init = ((count, value.key),)
    value.last = "plane norm" if name in ("layer", "instance") else "norm"
    if name == "group":
        full, small, odd = value.dims[1]
        fitting = [g for g in (4, 8, 16, 32, 64, 128, 256, 512) if full % g == 0 and 2 * g <= full]
        value.sizes["GROUPS"] = Size(
            draw.pick(fitting or [1]),
            next(g for g in (4, 3, 2, 1) if small % g == 0),
            next(g for g in (6, 3, 5, 4, 2, 1) if odd % g == 0),
        )
        op = _group_norm(draw, value, "groupnorm:features", init)
        length = width // value.sizes["GROUPS"].full
        return Tail(op, lambda after: group_stage(draw, "float32", length, after=after))
    if name == "batch":
        value.used["bn"] = 1
        spelled, more = _constants(draw, value, count, "bn")
        op = Op(
            "batchnorm:features", "self.bn({x})", (f"self.bn = nn.BatchNorm1d({spelled})",), (*init, *more)
        )
        return Tail(op, functools.partial(feature_batchnorm, draw))
    if name == "layer":
        more = _epsilon(draw, value)
        said = f"{count}{', eps=eps' * bool(more)}"
        op = Op(
            "layernorm:features", "self.norm({x})", (f"self.norm = nn.LayerNorm({said})",), (*init, *more)
        )
        return Tail(op, functools.partial(_layer, draw, width, True))
    op = Op(
        "instancenorm:features",
        "self.norm({x}.unsqueeze(1)).squeeze(1)",
        ("self.norm = nn.InstanceNorm1d(1)",),
    )
    if draw.chance(0.5):
        op = replace(
            op,
            expression="self.norm({x}.unsqueeze(1).unsqueeze(1)).squeeze(1).squeeze(1)",
            state=("self.norm = nn.InstanceNorm2d(1)",),
        )
    return Tail(op, functools.partial(_layer, draw, width, False))


Given = tuple[tuple[str, str], ...]
"""Arguments of the constructor with their values."""


def _group_norm(draw: Draw, value: Value, name: str, init: Given) -> Op:
    """`nn.GroupNorm` with its two numbers, and maybe an epsilon, from the constructor."""
    groups = "groups" if "groups" not in value.taken and draw.chance(0.25) else "num_groups"
    value.taken.append(groups)
    more = _epsilon(draw, value)
    spelled = draw.pick(("{g}, {c}", "{g}, {c}", "num_groups={g}, num_channels={c}")).format(
        g=groups, c=value.name
    )
    spelled += ", eps=eps" * bool(more)
    return Op(
        name,
        "self.norm({x})",
        (f"self.norm = nn.GroupNorm({spelled})",),
        ((groups, "GROUPS"), *init, *more),
    )


def _epsilon(draw: Draw, value: Value) -> Given:
    """`eps` as an argument, now and then."""
    if "eps" in value.taken or not draw.chance(0.2):
        return ()
    value.taken.append("eps")
    return (("eps", draw.pick(("1e-5", "1e-5", "1e-5", "1e-6", "1e-3"))),)


def _constants(draw: Draw, value: Value, count: str, prefix: str) -> tuple[str, Given]:
    """The arguments of a batch or instance norm, some of them from the constructor."""
    stem = f"{prefix}_" if prefix and draw.chance(0.5) else ""
    names = (f"{stem}eps", f"{stem}momentum")
    if draw.chance(0.35) and not set(names) & set(value.taken):
        value.taken += names
        numbers = (draw.pick(("1e-5", "1e-5", "1e-5", "1e-3")), draw.pick(("0.1", "0.1", "0.01")))
        return f"{count}, eps={names[0]}, momentum={names[1]}", tuple(zip(names, numbers, strict=True))
    return draw.pick((count, count, f"{count}, eps=1e-5, momentum=0.1", f"num_features={count}")), ()


def _layer(draw: Draw, width: int, learns: bool, after: Chain, host: str = "size = x.shape[-1]") -> Stage:
    """The mean and deviation of the last dimension."""
    return segments(
        draw,
        "layernorm" if learns else "instancenorm",
        "float32",
        width,
        [host],
        channel="offs",
        numbers=(),
        affines=affine("norm") if learns else Chain((), (), (), (), ""),
        after=after,
        takes=(("eps", "self.norm.eps"),),
        eps="eps",
    )


def _matrix_norm(draw: Draw, value: Value) -> Tail:
    value.last = "plane norm"
    width = value.dims[-1][0]
    if not value.name or not value.has_channels or draw.chance(0.3):
        op = Op("layernorm:plain", "F.layer_norm({x}, {x}.shape[-1:])".replace("{x}.", "{x}."))
        return Tail(op, lambda after: rows(draw, "layernorm", "layernorm", "float32", width, after=after))
    op = Op(
        "layernorm:last",
        "self.norm({x})",
        (f"self.norm = nn.LayerNorm({value.name})",),
        ((value.name, value.key),),
    )
    return Tail(op, functools.partial(_layer, draw, width, True))


def _image_norm(draw: Draw, value: Value) -> Tail:
    rank, count = len(value.places), value.name
    init = ((count, value.key),)
    places = _product(value.places)[0]
    names = ["group"] * 3 + ["instance", "batch", "batch"] + ["layer"] * 2 * bool(value.width)
    name = draw.pick(_other(value, names))
    value.last = "plane norm" if name in ("instance", "group", "layer") else "norm"
    if name == "group":
        value.sizes["GROUPS"] = Size(draw.pick((4, 8)), 4, 3)
        op = _group_norm(draw, value, "groupnorm", init)
        value.last = "group norm"
        length = value.sizes[value.key].full // value.sizes["GROUPS"].full * places
        return Tail(op, lambda after: group_stage(draw, "float32", length, after=after))
    if name == "instance":
        learns = draw.chance(0.25)
        spelled, more = _constants(draw, value, count, "")
        spelled += ", affine=True" if learns else ""
        op = Op(
            f"instancenorm{rank}d:{learns}",
            "self.norm({x})",
            (f"self.norm = nn.InstanceNorm{rank}d({spelled})",),
            (*init, *more),
        )

        def plane(after: Chain) -> Stage:
            return instance_stage(draw, "float32", places, module="norm", learns=learns, after=after)

        return Tail(op, plane)
    if name == "batch":
        value.used["bn"] = 1
        spelled, more = _constants(draw, value, count, "bn")
        op = Op(
            f"batchnorm{rank}d",
            "self.bn({x})",
            (f"self.bn = nn.BatchNorm{rank}d({spelled})",),
            (*init, *more),
        )
        return Tail(op, lambda after: batch_stages(draw, "float32", after=after))
    more, shape = _epsilon(draw, value), draw.pick(("norm_shape", "normalized_shape"))
    op = Op(
        "layernorm:last",
        "self.norm({x})",
        (f"self.norm = nn.LayerNorm({shape}{', eps=eps' * bool(more)})",),
        ((shape, f"({value.width},)" if draw.chance(0.4) else value.width), *more),
    )
    return Tail(op, functools.partial(_layer, draw, value.dims[-1][0], True), channel=False)


# -- softmax and reductions -------------------------------------------------------------------------------------


def _softmax(draw: Draw, value: Value) -> Tail:
    operator = draw.pick(("softmax", "softmax", "softmax", "log_softmax"))
    dim = len(value.dims) - 1 if value.kind == "matrix" else 1
    value.number("softmax")
    spelled = draw.pick((*SPELLED[operator], "module"))
    length, last = value.dims[dim][0], dim == len(value.dims) - 1
    name = operator.replace("softmax", "Softmax").replace("log_", "Log")
    where = draw.pick((dim, dim - len(value.dims))) if last else dim
    op = Op(f"{operator}:{'last' if last else 'channels'}", spelled.format(d=where))
    if spelled == "module":
        op = Op(op.name, f"self.{operator}({{x}})", (f"self.{operator} = nn.{name}(dim={where})",))
    build = functools.partial(_last, draw, operator, length, False)
    if not last:
        build = functools.partial(_inner, draw, operator, length, dim, False)
    return Tail(op, build, AFTER[operator])


def _flat_softmax(draw: Draw, value: Value) -> Tail:
    """Over all places of a plane, which are flattened for it."""
    value.number("softmax")
    rank, length = len(value.places), _product(value.places)[0]
    spelled = "torch.softmax({x}, dim=-1)"
    lines: tuple[str, ...] = ()
    if rank > 1:
        lines = ("planes = {x}",)
        spelled = "torch.softmax(planes.flatten(2), dim=-1).view(planes.shape)"
        if draw.chance(0.5):
            spelled = (
                "torch.softmax(planes.view(planes.shape[0], planes.shape[1], -1), dim=2).view_as(planes)"
            )
    op = Op("softmax:places", spelled, lines=lines)
    return Tail(op, functools.partial(_suffix, draw, "softmax", length, 2, len(value.dims), True), ("scale",))


def _center(draw: Draw, value: Value) -> Tail:
    value.number("center")
    length = _product(value.places)[0]
    dim = _spelled_dims(draw, value)
    op = Op("center:places", f"centered - torch.mean(centered, dim={dim}, keepdim=True)",
            lines=("centered = {x}",))  # fmt: skip
    build = functools.partial(_suffix, draw, "center", length, 2, len(value.dims), True)
    return Tail(op, build, channel=value.has_channels)


def _spelled_dims(draw: Draw, value: Value) -> str:
    """All places, as people write them."""
    dims = list(range(2, len(value.dims)))
    if draw.chance(0.2):
        dims = [dim - len(value.dims) for dim in dims]
    if len(dims) == 1:
        return str(dims[0])
    return str(tuple(dims)) if draw.chance(0.5) else str(dims)


def _places(draw: Draw, value: Value) -> Tail:
    """All places to one."""
    operator = draw.pick(("mean", "mean", "mean", "sum", "max"))
    rank, length, dims = len(value.places), _product(value.places)[0], _spelled_dims(draw, value)
    keep = draw.chance(0.65)
    verb = {"max": "amax"}.get(operator, operator)
    more = ", keepdim=True" if keep else ""
    spelled = draw.pick((f"torch.{verb}({{x}}, dim={dims}{more})", f"{{x}}.{verb}(dim={dims}{more})"))
    state: tuple[str, ...] = ()
    if operator == "mean" and draw.chance(0.55) and value.has_channels:
        one = "(1, 1, 1)" if rank == 3 and draw.chance(0.5) else "1"
        spelled = f"F.adaptive_avg_pool{rank}d({{x}}, {one})"
        if draw.chance(0.65):
            state = (f"self.global_pool = nn.AdaptiveAvgPool{rank}d({one})",)
            spelled = "self.global_pool({x})"
        if not keep:
            spelled += draw.pick((".flatten(1)", ".squeeze(-1)" * rank))
    build = functools.partial(_suffix, draw, operator, length, 2, len(value.dims), keep)
    op = Op(f"global_{operator}{rank}d", spelled, state)
    value.dims[2:] = [(1, 1, 1)] * rank * keep
    if not keep:
        value.kind = "features"
    value.width = ""
    return Tail(op, build, AFTER.get(operator, UNARY), channel=value.has_channels)


def _whole(draw: Draw, value: Value) -> Tail:
    """All of an image to one number."""
    operator, rank = draw.pick(("sum", "mean")), len(value.dims)
    dims = list(range(1, rank))
    spelled = draw.pick(
        (
            f"torch.{operator}({{x}}, dim={dims})",
            f"{{x}}.{operator}(dim={tuple(dims)})",
            f"{{x}}.flatten(1).{operator}(dim=1)",
        )
    )
    build = functools.partial(_suffix, draw, operator, _product(value.dims[1:])[0], 1, rank, False)
    value.kind, value.has_channels = "features", False
    value.dims[1:] = [(1, 1, 1)]
    value.used["ended"] = 1
    return Tail(Op(f"{operator}:whole", spelled), build, AFTER.get(operator, UNARY), channel=False)


def _reduce(draw: Draw, value: Value) -> Tail:
    """Channels, features or columns to one."""
    dim = len(value.dims) - 1 if value.kind == "matrix" else 1
    return _along(draw, value, dim, ("logsumexp", "max", "min", "mean", "sum"))


def _axis(draw: Draw, value: Value) -> Tail:
    """One axis to one."""
    if value.kind == "matrix":
        return _along(draw, value, 1, ("max", "mean", "sum", "logsumexp"))
    long = [place for place in range(2, len(value.dims)) if min(value.dims[place]) > 1]
    return _along(draw, value, draw.pick(long) if long else 2, ("mean", "mean", "min", "max", "sum"))


def _along(draw: Draw, value: Value, dim: int, operators: tuple[str, ...]) -> Tail:
    if value.last in ("plane norm", "norm") and not (value.kind == "image" and dim == 1):
        operators = tuple(name for name in operators if name not in ("mean", "sum"))
    if value.last in ("softmax", "log_softmax"):
        operators = ("max", "min")
    operator = draw.pick(operators)
    rank, length = len(value.dims), value.dims[dim][0]
    last = dim == rank - 1
    keep = draw.chance(0.65) or rank == 2
    flat = keep and rank == 2 and draw.chance(0.35)
    where = draw.pick((dim, dim, dim - rank))
    spelled = draw.pick(SPELLED[operator]).format(d=where, k=", keepdim=True" if keep and not flat else "")
    op = Op(f"{operator}:{dim}of{rank}", spelled)
    held = draw.pick((f"{operator}_dim", f"{operator}_dim", "dim"))
    if draw.chance(0.12) and held not in value.taken:
        value.taken += [held, f"self.{held}"]
        op = replace(
            op,
            expression=spelled.replace(f"dim={where}", f"dim=self.{held}"),
            state=(f"self.{held} = {held}",),
            init=((held, str(where)),),
        )
    build = functools.partial(_last, draw, operator, length, keep and not flat)
    if not last:
        build = functools.partial(_inner, draw, operator, length, dim, keep)
    own = (value.kind == "matrix" and last) or (value.kind != "matrix" and dim == 1)
    knows = value.has_channels and not own and value.kind == "image" and dim == 2 and not last
    if keep:
        value.dims[dim] = (1, 1, 1)
    else:
        value.dims.pop(dim)
    if own:
        value.has_channels = False
    if value.kind == "image" and dim == 1 and not keep:
        value.used["flat"] = 1
    if value.kind == "matrix" and not keep:
        value.kind, value.has_channels = "features", False
    elif value.kind == "image" and len(value.dims) == 2:
        value.kind = "features"
    value.width = ""
    if flat:
        value.used["ended"] = 1
    return Tail(op, build, AFTER.get(operator, UNARY), channel=knows)


def _last(draw: Draw, operator: str, length: int, keep: bool, after: Chain) -> Stage:
    return rows(draw, f"{operator}_rows", operator, "float32", length, after=after, keep=keep)


def _inner(draw: Draw, operator: str, length: int, dim: int, keep: bool, after: Chain) -> Stage:
    name = f"{operator}_channels" if dim == 1 else f"{operator}_dim{dim}"
    return strided(draw, name, operator, "float32", length, dim, after=after, keep=keep)


def _suffix(draw: Draw, operator: str, length: int, first: int, rank: int, keep: bool, after: Chain) -> Stage:
    """Along all dimensions from `first` on, which lie one after the other."""
    name = f"{operator}_image" if first == 1 else f"{operator}_places"
    made = rows(draw, name, operator, "float32", length, after=after, by_row=True)
    host = [f"n = x.shape[{first}:].numel()" if line == "n = x.shape[-1]" else line for line in made.body]
    if ROWS[operator].reduces:
        ones = ", 1" * (rank - first) * keep
        shape = f"*x.shape[:{first}]{ones}" if ones else f"x.shape[:{first}]"
        host = [f"out = x.new_empty({shape})" if line.startswith("out = ") else line for line in host]
    return replace(made, body=tuple(host))


# -- another product --------------------------------------------------------------------------------------------


def _linear(draw: Draw, value: Value) -> Tail:
    value.number("linear")
    value.sizes["F"] = Size(draw.pick((256, 512, 1024, 2048, 4096)), 48, 72)
    name, inner = "output_size" if value.name != "output_size" else "num_classes", value.name
    op = Op(
        "linear",
        "self.linear2({x})",
        (f"self.linear2 = nn.Linear({inner}, {name})",),
        ((inner, value.key), (name, "F")),
    )
    extent = (value.dims[0][0], value.sizes["F"].full, 1)

    def build(after: Chain) -> Stage:
        return gemm(
            draw,
            "linear2",
            Layout(b="NK"),
            "float32",
            extent=extent,
            takes=(("a", "{x}"), ("b", "self.linear2.weight"), ("lin_bias", "self.linear2.bias")),
            after=after,
            bias="lin_bias",
            shape=("N, K = b.shape", "M = a.numel() // K"),
            out="torch.empty((M, N), device=a.device, dtype=a.dtype)",
        )

    size = value.sizes["F"]
    value.name, value.key, value.dims[1] = name, "F", (size.full, size.small, size.odd)
    return Tail(op, build)


_STEPS: dict[str, Callable[[Draw, Value], Tail]] = {
    "dropout": _dropout,
    "again": _again,
    "rejoin": _rejoin,
    "pool": _pool,
    "norm": _norm,
    "softmax": _softmax,
    "flat softmax": _flat_softmax,
    "center": _center,
    "places": _places,
    "whole": _whole,
    "reduce": _reduce,
    "axis": _axis,
    "linear": _linear,
}
