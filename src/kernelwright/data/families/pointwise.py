"""Activations and other maps of elements: single, with parameters, gated, in chains."""

from __future__ import annotations

from dataclasses import replace

from kernelwright.data.families.epilogue import UNARY, chain
from kernelwright.data.families.spec import (
    MOST_INT32,
    Design,
    Draw,
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

WIDTHS = (512, 768, 1000, 1024, 2048, 3000, 4096, 8192, 16384, 65536, 131072, 393216)
ROWS = (16, 64, 128, 1024, 2000, 4096, 8192)
SINGLE = (
    *(
        "relu",
        "sigmoid",
        "tanh",
        "silu",
        "gelu",
        "gelu_tanh",
        "softplus",
        "logsigmoid",
        "elu",
        "selu",
        "relu6",
    ),
    *(
        "hardtanh",
        "hardsigmoid",
        "hardswish",
        "softsign",
        "mish",
        "leaky_relu",
        "exp",
        "sin",
        "cos",
        "erf",
        "square",
    ),
    *("abs", "neg"),
)


def shape(draw: Draw) -> tuple[str, dict[str, Size]]:
    """A tensor of two to four dimensions: its shape over size constants, and those."""
    rank = draw.pick((2, 2, 3, 4))
    if rank == 4:
        sizes = {
            "B": draw.size((8, 16, 32, 64), (1, 2), (1, 3)),
            "C": draw.size((16, 32, 64, 96), (2, 4), (3, 5)),
            "H": draw.size((56, 64, 112, 128), (8, 12), (7, 9, 11)),
            "W": draw.size((56, 64, 112, 128), (8, 16), (13, 15, 17)),
        }
        return "B, C, H, W", sizes
    sizes = {
        "M": draw.size(ROWS, (4, 8), (3, 5, 7)),
        "N": draw.size(WIDTHS, (128, 256), (217, 301, 333, 389)),
    }
    if rank == 3:
        return "B, M, N", {"B": draw.size((4, 8, 16), (2,), (1, 3)), **sizes}
    return "M, N", sizes


def elements(sizes: dict[str, Size]) -> int:
    """Elements at full size."""
    count = 1
    for size in sizes.values():
        count *= size.full
    return count


def sized(draw: Draw, least: int = 1 << 20, most: int = 1 << 28) -> tuple[str, dict[str, Size]]:
    """A shape of a size worth a GPU; a few are beyond 2^31 elements."""
    if draw.chance(0.04):
        return "M, N", {"M": Size(65536, 4, 7), "N": Size(draw.pick((40000, 49152)), 256, 301)}
    while True:
        dims, sizes = shape(draw)
        if least <= elements(sizes) <= most:
            return dims, sizes


def flat(draw: Draw, sizes: dict[str, Size]) -> list[str]:
    """The lines that give `offs` and `mask` to a flat kernel; 64-bit where the tensor needs it."""
    start = "tl.program_id(0)"
    if elements(sizes) > MOST_INT32:
        start += ".to(tl.int64)"
    if draw.tune.random() < 0.4:
        return [f"pid = {start}", "offs = pid * BLOCK + tl.arange(0, BLOCK)", "mask = offs < size"]
    return [f"offs = {start} * BLOCK + tl.arange(0, BLOCK)", "mask = offs < size"]


def activation(draw: Draw) -> Design:
    """One activation."""
    return _chained(draw, 1, SINGLE, 0.0, "activation")


def elementwise(draw: Draw) -> Design:
    """A chain of maps, with residuals."""
    return _chained(draw, draw.operators, UNARY, 0.35, "elementwise")


def _chained(draw: Draw, count: int, names: tuple[str, ...], share: float, name: str) -> Design:
    dtype = draw.dtype()
    dims, sizes = sized(draw)
    mapped = chain(draw, count, dtype, full=dims, names=names, share=share)
    block = draw.tile("BLOCK", (512, 1024, 2048), (64, 128))
    wide = widened(dtype)
    lines = [
        *flat(draw, sizes),
        f"x = tl.load(x_ptr + offs, mask=mask){wide}",
        *mapped.lines("x", offsets="offs", mask="mask"),
        "tl.store(out_ptr + offs, x, mask=mask)",
    ]
    called = mapped.steps[0].op if count == 1 else name
    if called in mapped.helpers:
        called = name
    parameters = ["x_ptr", *mapped.pointers, "out_ptr", "size", "BLOCK: tl.constexpr"]
    host = [
        draw.tune.choice(
            ("out = torch.empty_like(x)", "out = torch.empty(x.shape, device=x.device, dtype=x.dtype)")
        ),
        "size = x.numel()",
        *launch(
            f"{called}_kernel",
            f"triton.cdiv(size, {block}),",
            ["x", *mapped.arguments, "out", "size", f"BLOCK={block}", draw.warps((4, 8), (1, 8))],
        ),
        "return out",
    ]
    first = Op("", "x", inputs=(("x", tensor(dims, dtype)),))
    stage = Stage(
        called,
        (kernel(f"{called}_kernel", parameters, lines),),
        (("x", "{x}"), *mapped.takes),
        tuple(host),
        mapped.helpers,
    )
    ops = mapped.ops
    ops = (_with_inputs(ops[0], first), *ops[1:])
    return Design(ops, (stage,), sizes, dtype, draw.constants)


def _with_inputs(op: Op, first: Op) -> Op:
    """`op` with the inputs of `first` before its own."""
    return replace(op, inputs=(*first.inputs, *op.inputs))


def prelu(draw: Draw) -> Design:
    """Learned slopes, one for each channel."""
    dtype = draw.dtype(0.2)
    sizes = {
        "B": draw.size((8, 16, 32, 64), (2,), (1, 3)),
        "C": draw.size((32, 64, 96, 128), (4, 8), (5, 7)),
        "L": draw.size((1024, 4096, 8192, 16384), (32, 64), (29, 37, 51)),
    }
    slope = draw.pick(("", "", ", init=0.1"))
    block = draw.tile("BLOCK", (512, 1024), (64, 128))
    wide = widened(dtype)
    body = [
        *flat(draw, sizes),
        f"x = tl.load(x_ptr + offs, mask=mask){wide}",
        f"slope = tl.load(slope_ptr + offs // length % channels, mask=mask){wide}",
        "tl.store(out_ptr + offs, tl.where(x > 0, x, x * slope), mask=mask)",
    ]
    parameters = ["x_ptr", "slope_ptr", "out_ptr", "size", "channels", "length", "BLOCK: tl.constexpr"]
    host = [
        "_, channels, length = x.shape",
        "out = torch.empty_like(x)",
        "size = x.numel()",
        *launch(
            "prelu_kernel",
            f"triton.cdiv(size, {block}),",
            ["x", "slope", "out", "size", "channels", "length", f"BLOCK={block}", draw.warps((4, 8), (1,))],
        ),
        "return out",
    ]
    op = Op(
        "prelu",
        "self.act({x})",
        (f"self.act = nn.PReLU(num_channels{slope}{placed(dtype)})",),
        (("num_channels", "C"),),
        (("x", tensor("B, C, L", dtype)),),
    )
    stage = Stage(
        "prelu",
        (kernel("prelu_kernel", parameters, body),),
        (("x", "{x}"), ("slope", "self.act.weight")),
        tuple(host),
    )
    return Design((op,), (stage,), sizes, dtype, draw.constants)


GATES = {
    "swiglu": ("F.silu({gate})", "gate * tl.sigmoid(gate)", ()),
    "geglu": ("F.gelu({gate})", "0.5 * gate * (1.0 + tl.erf(gate * 0.70710678))", ()),
    "geglu_tanh": (
        'F.gelu({gate}, approximate="tanh")',
        "gate * tl.sigmoid(1.5957691 * (gate + 0.044715 * gate * gate * gate))",
        (),
    ),
    "glu": ("torch.sigmoid({gate})", "tl.sigmoid(gate)", ()),
    "reglu": ("F.relu({gate})", "tl.maximum(gate, 0.0)", ()),
}


def swiglu(draw: Draw) -> Design:
    return _gated(draw, "swiglu")


def geglu(draw: Draw) -> Design:
    return _gated(draw, draw.pick(("geglu", "geglu_tanh")))


def glu(draw: Draw) -> Design:
    return _gated(draw, draw.pick(("glu", "reglu")))


def _gated(draw: Draw, name: str) -> Design:
    """A gated unit: of two tensors, or of the halves of one."""
    dtype = draw.dtype(0.5)
    spelled, formula, helpers = GATES[name]
    packed = draw.chance(0.6)
    rank = draw.pick((2, 3))
    sizes = {
        "M": draw.size((512, 1024, 2048, 4096), (3, 4), (5, 7)),
        "N": draw.size((1024, 2048, 4096, 5632, 11008), (128, 200), (151, 203, 257)),
    }
    dims = "M, N"
    if rank == 3:
        sizes, dims = {"B": draw.size((2, 4, 8), (2,), (1, 3)), **sizes}, "B, M, N"
    block = draw.tile("BLOCK", (512, 1024), (64, 128))
    wide = widened(dtype)
    gate_first = draw.chance(0.6)
    if packed:
        order = ("gate", "up") if gate_first else ("up", "gate")
        at = {order[0]: "row * 2 * n + cols", order[1]: "row * 2 * n + n + cols"}
        loads = [f"{part} = tl.load(x_ptr + {at[part]}, mask=mask){wide}" for part in ("gate", "up")]
        inputs: tuple[tuple[str, str], ...] = (("x", tensor(dims.replace("N", "2 * N"), dtype)),)
        lines: tuple[str, ...] = (f"{order[0]}, {order[1]} = x.chunk(2, dim=-1)",)
        pointers, takes = ["x_ptr"], [("x", "{x}")]
        host = ["n = x.shape[-1] // 2", "out = x.new_empty(*x.shape[:-1], n)", "rows = out.numel() // n"]
        arguments = ["x"]
    else:
        loads = [f"{part} = tl.load({part}_ptr + row * n + cols, mask=mask){wide}" for part in ("gate", "up")]
        lines = ()
        inputs = (("gate", tensor(dims, dtype)), ("up", tensor(dims, dtype)))
        pointers, takes, arguments = ["gate_ptr", "up_ptr"], [("gate", "gate"), ("up", "up")], ["gate", "up"]
        host = ["n = gate.shape[-1]", "out = torch.empty_like(gate)", "rows = gate.numel() // n"]
    body = [
        "row = tl.program_id(0).to(tl.int64)",
        "cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)",
        "mask = cols < n",
        *loads,
        f"act = {formula}",
        "tl.store(out_ptr + row * n + cols, act * up, mask=mask)",
    ]
    host += [
        *launch(
            f"{name}_kernel",
            f"rows, triton.cdiv(n, {block})",
            [*arguments, "out", "n", f"BLOCK={block}", draw.warps((4,), (1, 8))],
        ),
        "return out",
    ]
    op = Op(
        f"{name}:{'packed' if packed else 'two'}",
        f"{spelled.format(gate='gate')} * up",
        inputs=inputs,
        lines=lines,
    )
    stage = Stage(
        name,
        (kernel(f"{name}_kernel", [*pointers, "out_ptr", "n", "BLOCK: tl.constexpr"], body),),
        tuple(takes),
        tuple(host),
        helpers,
    )
    return Design((op,), (stage,), sizes, dtype, draw.constants)


FAMILIES = (
    Family("activation", "activation", activation),
    Family("prelu", "activation", prelu),
    Family("elementwise", "fusion", elementwise, (2, 3, 4, 5)),
    Family("swiglu", "training", swiglu),
    Family("geglu", "training", geglu),
    Family("glu", "activation", glu),
)
