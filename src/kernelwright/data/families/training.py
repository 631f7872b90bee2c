"""What training asks for besides matrix products: embeddings, rotary positions, norms with a residual, quantisation,
masked softmax, an optimiser's step."""

from __future__ import annotations

from collections.abc import Callable

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

WIDE = (512, 768, 1024, 2048, 4096)


def tokens(draw: Draw) -> dict[str, Size]:
    """Batch, sequence and width."""
    return {
        "B": draw.size((4, 8, 16), (2,), (3,)),
        "S": draw.size((512, 1024, 2048), (4,), (5,)),
        "N": draw.size(WIDE, (64, 96), (77, 101)),
    }


def embedding(draw: Draw) -> Design:
    """Rows of a table by index, also with positions added or scaled."""
    dtype = draw.dtype(0.4)
    sizes = {
        "B": draw.size((8, 16, 32), (2,), (3,)),
        "S": draw.size((512, 1024, 2048), (5, 6), (7,)),
        "V": draw.size((8192, 16384, 32000), (40, 64), (51, 77)),
        "N": draw.size((256, 512, 768, 1024), (64, 96), (77, 101)),
    }
    kind = draw.pick(("plain", "scaled", "positions"))
    state = [f"self.embed = nn.Embedding(num_embeddings, embedding_dim{placed(dtype)})"]
    init = [("num_embeddings", "V"), ("embedding_dim", "N")]
    spelled = "self.embed(ids)" if draw.chance(0.6) else "F.embedding(ids, self.embed.weight)"
    pointers, takes = ["ids_ptr", "table_ptr"], [("ids", "ids"), ("table", "self.embed.weight")]
    wide = widened(dtype)
    lines = [f"x = tl.load(table_ptr + index * n + cols, mask=mask){wide}"]
    if kind == "scaled":
        spelled = f"{spelled} * {draw.pick(('8.0', '16.0', '22.5'))}"
        lines.append(f"x = x * {spelled.split(' * ')[1]}")
    elif kind == "positions":
        state.append(f"self.positions = nn.Parameter(torch.randn(max_len, embedding_dim{placed(dtype)}))")
        init.append(("max_len", "S"))
        spelled = f"{spelled} + self.positions[: ids.shape[1]]"
        pointers.append("positions_ptr")
        takes.append(("positions", "self.positions"))
        lines.append(f"x += tl.load(positions_ptr + token % length * n + cols, mask=mask){wide}")
    block = draw.tile("BLOCK", (256, 512), (64, 128))
    body = [
        "token = tl.program_id(0).to(tl.int64)",
        "cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)",
        "mask = cols < n",
        "index = tl.load(ids_ptr + token)",
        *lines,
        "tl.store(out_ptr + token * n + cols, x, mask=mask)",
    ]
    length = ["length"] if kind == "positions" else []
    passed = [*(name for name, _ in takes), "out", "n", *(["ids.shape[1]"] if length else [])]
    host = [
        "n = table.shape[1]",
        "out = torch.empty((*ids.shape, n), device=ids.device, dtype=table.dtype)",
        *launch(
            "embedding_kernel",
            f"ids.numel(), triton.cdiv(n, {block})",
            [*passed, f"BLOCK={block}", draw.warps((2, 4), (8,))],
        ),
        "return out",
    ]
    parameters = [*pointers, "out_ptr", "n", *length, "BLOCK: tl.constexpr"]
    op = Op(
        f"embedding:{kind}", spelled, tuple(state), tuple(init), (("ids", "torch.randint(0, V, (B, S))"),)
    )
    stage = Stage("embedding", (kernel("embedding_kernel", parameters, body),), tuple(takes), tuple(host))
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def rotary(draw: Draw) -> Design:
    """Rotary positions (Su et al., 2021): pairs are halves of a head, or neighbours."""
    dtype = draw.dtype(0.5)
    sizes = {
        "B": draw.size((2, 4, 8), (1,), (2,)),
        "HEADS": draw.size((8, 16, 32), (2,), (3,)),
        "S": draw.size((1024, 2048, 4096), (6, 8), (7, 9)),
        "E": draw.size((64, 128), (16, 32), (20, 24)),
    }
    neighbours = draw.chance(0.35)
    table = tensor("S, E // 2", dtype)
    inputs = (("x", tensor("B, HEADS, S, E", dtype)), ("cos", table), ("sin", table))
    if neighbours:
        lines: tuple[str, ...] = ("a, b = x[..., 0::2], x[..., 1::2]",)
        expression = "torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)"
        first, second = "2 * d", "2 * d + 1"
    else:
        lines = (
            draw.pick(
                ("a, b = x.chunk(2, dim=-1)", "half = x.shape[-1] // 2; a, b = x[..., :half], x[..., half:]")
            ),
        )
        if ";" in lines[0]:
            lines = tuple(lines[0].split("; "))
        expression = draw.pick(
            (
                "torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)",
                "torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)",
            )
        )
        first, second = "d", "half + d"
    rows = draw.tile("BLOCK_S", (4, 8, 16), (1,))
    wide = widened(dtype)
    body = [
        "s = tl.program_id(0) * BLOCK_S + tl.arange(0, BLOCK_S)",
        "d = tl.arange(0, BLOCK_D)",
        "mask = (s < length)[:, None] & (d < half)[None, :]",
        "row = (tl.program_id(1).to(tl.int64) * length + s)[:, None] * 2 * half",
        f"a = tl.load(x_ptr + row + ({first})[None, :], mask=mask){wide}",
        f"b = tl.load(x_ptr + row + ({second})[None, :], mask=mask){wide}",
        "table = s[:, None] * half + d[None, :]",
        f"cos = tl.load(cos_ptr + table, mask=mask){wide}",
        f"sin = tl.load(sin_ptr + table, mask=mask){wide}",
        f"tl.store(out_ptr + row + ({first})[None, :], a * cos - b * sin, mask=mask)",
        f"tl.store(out_ptr + row + ({second})[None, :], a * sin + b * cos, mask=mask)",
    ]
    body = [line.replace("(d)[None, :]", "d[None, :]") for line in body]
    host = [
        "batch, heads, length, dim = x.shape",
        "out = torch.empty_like(x)",
        *launch(
            "rotary_kernel",
            f"triton.cdiv(length, {rows}), batch * heads",
            [
                *("x", "cos", "sin", "out", "length", "dim // 2", f"BLOCK_S={rows}"),
                *("BLOCK_D=triton.next_power_of_2(dim // 2)", draw.warps((2, 4), (8,))),
            ],
        ),
        "return out",
    ]
    parameters = [
        "x_ptr",
        "cos_ptr",
        "sin_ptr",
        "out_ptr",
        "length",
        "half",
        "BLOCK_S: tl.constexpr",
        "BLOCK_D: tl.constexpr",
    ]
    op = Op(f"rotary:{'neighbours' if neighbours else 'halves'}", expression, inputs=inputs, lines=lines)
    takes = (("x", "x"), ("cos", "cos"), ("sin", "sin"))
    stage = Stage("rotary", (kernel("rotary_kernel", parameters, body),), takes, tuple(host))
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def add_norm(draw: Draw, kind: str) -> Design:
    """A residual added and the sum normalised; the sum is a second output in some."""
    dtype = draw.dtype(0.4)
    sizes = tokens(draw)
    both = draw.chance(0.5)
    wide = widened(dtype)
    inputs = (("x", tensor("B, S, N", dtype)), ("residual", tensor("B, S, N", dtype)))
    if kind == "rms":
        state: tuple[str, ...] = (f"self.weight = nn.Parameter(torch.randn(dim{placed(dtype)}))",)
        init, norm = (("dim", "N"),), "F.rms_norm(h, (h.shape[-1],), self.weight, eps=1e-6)"
        weights = [("weight", "self.weight")]
        body = ["scale = tl.rsqrt(tl.sum(x * x, 0) / n + 1e-6)", "y = x * scale"]
    else:
        state = (f"self.norm = nn.LayerNorm(dim{placed(dtype)})",)
        init, norm = (("dim", "N"),), "self.norm(h)"
        weights = [("weight", "self.norm.weight"), ("bias", "self.norm.bias")]
        body = [
            "mean = tl.sum(x, 0) / n",
            "centred = tl.where(mask, x - mean, 0.0)",
            "y = centred * tl.rsqrt(tl.sum(centred * centred, 0) / n + 1e-5)",
        ]
    # In half precision PyTorch rounds the sum before it normalises it.
    rounding = (
        []
        if dtype == "float32"
        else [
            f"x = x.to(sum_ptr.dtype.element_ty){wide}"
            if both
            else "x = x.to(x_ptr.dtype.element_ty).to(tl.float32)"
        ]
    )
    apply = [f"y = y * tl.load(weight_ptr + cols, mask=mask){wide}"]
    if kind == "layer":
        apply.append(f"y = y + tl.load(bias_ptr + cols, mask=mask){wide}")
    lines = [
        "row = tl.program_id(0).to(tl.int64) * n",
        "cols = tl.arange(0, BLOCK)",
        "mask = cols < n",
        f"x = tl.load(x_ptr + row + cols, mask=mask, other=0.0){wide}",
        f"x += tl.load(residual_ptr + row + cols, mask=mask, other=0.0){wide}",
        *rounding,
        *(["tl.store(sum_ptr + row + cols, x, mask=mask)"] if both else []),
        *body,
        *apply,
        "tl.store(y_ptr + row + cols, y, mask=mask)",
    ]
    name = f"add_{'rmsnorm' if kind == 'rms' else 'layernorm'}"
    pointers = [
        "x_ptr",
        "residual_ptr",
        *(f"{w}_ptr" for w, _ in weights),
        "y_ptr",
        *(["sum_ptr"] if both else []),
    ]
    passed = ["x", "residual", *(w for w, _ in weights), "y", *(["total"] if both else []), "n"]
    warps = draw.tune.choice((4, 8)) if sizes["N"].full > 1024 else draw.tune.choice((2, 4))
    if draw.slow:
        warps = 1
    host = [
        "n = x.shape[-1]",
        "y = torch.empty_like(x)",
        *(["total = torch.empty_like(x)"] if both else []),
        *launch(
            f"{name}_kernel",
            "x.numel() // n,",
            [*passed, "BLOCK=triton.next_power_of_2(n)", f"num_warps={warps}"],
        ),
        "return y, total" if both else "return y",
    ]
    op = Op(
        f"{name}:{'both' if both else 'one'}",
        f"{norm}, h" if both else norm,
        state,
        init,
        inputs,
        lines=("h = x + residual",),
    )
    takes = (("x", "x"), ("residual", "residual"), *weights)
    stage = Stage(
        name, (kernel(f"{name}_kernel", [*pointers, "n", "BLOCK: tl.constexpr"], lines),), takes, tuple(host)
    )
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def add_rmsnorm(draw: Draw) -> Design:
    return add_norm(draw, "rms")


def add_layernorm(draw: Draw) -> Design:
    return add_norm(draw, "layer")


def quantise(draw: Draw) -> Design:
    """Rows to int8 by the largest magnitude; the scales are a second output.

    Not spelled `/ 127.0`: on a GPU, PyTorch divides by a number as it multiplies by its reciprocal, on a CPU it does not.
    """
    sizes = {
        "M": draw.size((1024, 4096, 8192), (4, 6), (5, 7)),
        "N": draw.size((1024, 2048, 4096, 8192), (64, 128), (77, 133)),
    }
    op = Op(
        "quantise:rows",
        "torch.round(x / scale).clamp(-127, 127).to(torch.int8), scale.squeeze(-1)",
        inputs=(("x", "torch.randn(M, N)"),),
        lines=("scale = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-8) * (1.0 / 127.0)",),
    )
    body = [
        "row = tl.program_id(0).to(tl.int64)",
        "cols = tl.arange(0, BLOCK)",
        "mask = cols < n",
        "x = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0)",
        "scale = tl.maximum(tl.max(tl.abs(x), 0), 1e-8) * (1.0 / 127.0)",
        "q = tl.div_rn(x, tl.zeros_like(x) + scale)",
        "q = (q + 12582912.0) - 12582912.0  # adding 1.5 * 2**23 rounds to the nearest even integer",
        "q = tl.minimum(tl.maximum(q, -127.0), 127.0)",
        "tl.store(q_ptr + row * n + cols, q.to(tl.int8), mask=mask)",
        "tl.store(scale_ptr + row, scale)",
    ]
    host = [
        "m, n = x.shape",
        "q = torch.empty((m, n), device=x.device, dtype=torch.int8)",
        "scale = torch.empty(m, device=x.device, dtype=x.dtype)",
        *launch(
            "quantise_kernel",
            "m,",
            ["x", "q", "scale", "n", "BLOCK=triton.next_power_of_2(n)", draw.warps((4, 8), (1,))],
        ),
        "return q, scale",
    ]
    parameters = ["x_ptr", "q_ptr", "scale_ptr", "n", "BLOCK: tl.constexpr"]
    stage = Stage("quantise", (kernel("quantise_kernel", parameters, body),), (("x", "x"),), tuple(host))
    return Design((op,), (stage,), sizes, "float32", draw.constants)


def dequantise(draw: Draw) -> Design:
    """int8 times the scale of its row or group."""
    dtype: Dtype = draw.pick(("float32", "float16", "bfloat16"))
    grouped = draw.chance(0.5)
    sizes = {
        "M": draw.size((1024, 4096, 8192), (4, 6), (5, 7)),
        "N": draw.size((1024, 4096, 8192), (64, 128), (96, 160)),
    }
    q = "torch.randint(-127, 128, (M, N), dtype=torch.int8)"
    to = f".to(torch.{dtype})" if dtype != "float32" else draw.pick((".float()", ".to(torch.float32)"))
    if grouped:
        inputs = (("q", q), ("scale", tensor("M, N // 32", dtype, "rand")))
        expression = f"(q{to}.view(q.shape[0], -1, 32) * scale.unsqueeze(-1)).view(q.shape)"
        at = "row * (n // 32) + cols // 32"
    else:
        inputs = (("q", q), ("scale", tensor("M, 1" if draw.chance(0.5) else "M", dtype, "rand")))
        expression = f"q{to} * scale" if "M, 1" in inputs[1][1] else f"q{to} * scale[:, None]"
        at = "row"
    wide = widened(dtype)
    block = draw.tile("BLOCK", (512, 1024), (64, 128))
    body = [
        "row = tl.program_id(0).to(tl.int64)",
        "cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)",
        "mask = cols < n",
        "q = tl.load(q_ptr + row * n + cols, mask=mask, other=0).to(tl.float32)",
        f"scale = tl.load(scale_ptr + {at}{', mask=mask, other=0.0' if grouped else ''}){wide}",
        "tl.store(out_ptr + row * n + cols, q * scale, mask=mask)",
    ]
    host = [
        "m, n = q.shape",
        "out = torch.empty((m, n), device=q.device, dtype=scale.dtype)",
        *launch(
            "dequantise_kernel",
            f"m, triton.cdiv(n, {block})",
            ["q", "scale", "out", "n", f"BLOCK={block}", draw.warps((4,), (1, 8))],
        ),
        "return out",
    ]
    parameters = ["q_ptr", "scale_ptr", "out_ptr", "n", "BLOCK: tl.constexpr"]
    op = Op(f"dequantise:{'groups' if grouped else 'rows'}", expression, inputs=inputs)
    stage = Stage(
        "dequantise",
        (kernel("dequantise_kernel", parameters, body),),
        (("q", "q"), ("scale", "scale")),
        tuple(host),
    )
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def masked_softmax(draw: Draw) -> Design:
    """Scores of attention, scaled and masked, by rows: later keys hidden, or those a mask names."""
    dtype = draw.dtype(0.3)
    causal = draw.chance(0.5)
    sizes = {
        "B": draw.size((4, 8), (1,), (2,)),
        "HEADS": draw.size((4, 8, 16), (2,), (3,)),
        "S": draw.size((256, 512, 1024), (24, 32), (27, 37)),
    }
    scale = draw.pick(("0.125", "0.25", "0.5"))
    shape = "B, HEADS, S, S"
    inputs = [("scores", tensor(shape, dtype))]
    if causal:
        lines: tuple[str, ...] = (
            "hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)",
        )
        expression = f'torch.softmax((scores * {scale}).masked_fill(hidden, float("-inf")), dim=-1)'
        keep = ["mask = cols <= row % length"]
        pointers, takes = ["scores_ptr"], [("scores", "scores")]
    else:
        lines = ()
        inputs.append(("keep", "(torch.rand(B, 1, S, S) > 0.3) | torch.eye(S, dtype=torch.bool)"))
        expression = f'torch.softmax((scores * {scale}).masked_fill(~keep, float("-inf")), dim=-1)'
        keep = [
            "batch = row // (heads * length)",
            "keep = tl.load(keep_ptr + (batch * length + row % length) * length + cols, mask=cols < length, other=0)",
            "mask = (cols < length) & (keep != 0)",
        ]
        pointers, takes = ["scores_ptr", "keep_ptr"], [("scores", "scores"), ("keep", "keep")]
    body = [
        "row = tl.program_id(0).to(tl.int64)",
        "cols = tl.arange(0, BLOCK)",
        *keep,
        f'x = tl.load(scores_ptr + row * length + cols, mask=mask, other=-float("inf")){widened(dtype)} * {scale}',
        "x = tl.exp(x - tl.max(x, 0))",
        "tl.store(out_ptr + row * length + cols, x / tl.sum(x, 0), mask=cols < length)",
    ]
    extra = [] if causal else ["heads"]
    warps = draw.warps((2, 4), (8,))
    host = [
        "length = scores.shape[-1]",
        "out = torch.empty_like(scores)",
        *launch(
            "masked_softmax_kernel",
            "scores.numel() // length,",
            [
                *(n for n, _ in takes),
                "out",
                "length",
                *(["scores.shape[1]"] if extra else []),
                "BLOCK=triton.next_power_of_2(length)",
                warps,
            ],
        ),
        "return out",
    ]
    op = Op(
        f"masked_softmax:{'causal' if causal else 'given'}", expression, inputs=tuple(inputs), lines=lines
    )
    text = kernel(
        "masked_softmax_kernel", [*pointers, "out_ptr", "length", *extra, "BLOCK: tl.constexpr"], body
    )
    stage = Stage("masked_softmax", (text,), tuple(takes), tuple(host))
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def adamw(draw: Draw) -> Design:
    """One step of AdamW (Loshchilov and Hutter, 2019) without bias correction: three tensors in one pass."""
    sizes = {
        "M": draw.size((1024, 4096, 8192), (4, 6), (5, 7)),
        "N": draw.size((1024, 2048, 4096), (64, 128), (101, 133)),
    }
    rate, decay = draw.pick(("1e-3", "3e-4", "1e-2")), draw.pick(("0.01", "0.1"))
    low, high = draw.pick((("0.9", "0.999"), ("0.9", "0.95")))
    names = ("param", "grad", "first", "second")
    inputs = tuple((name, f"torch.{'rand' if name == 'second' else 'randn'}(M, N)") for name in names)
    inputs = (*inputs[:3], ("second", "torch.randn(M, N) ** 2 + 0.01"))
    op = Op(
        "adamw",
        "param, first, second",
        ("self.lr = lr",),
        (("lr", rate),),
        inputs,
        lines=(
            f"first = {low} * first + (1 - {low}) * grad",
            f"second = {high} * second.abs() + (1 - {high}) * grad * grad",
            f"param = param * (1 - self.lr * {decay}) - self.lr * first / (torch.sqrt(second) + 1e-8)",
        ),
    )
    block = draw.tile("BLOCK", (512, 1024), (64, 128))
    body = [
        "offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "mask = offs < size",
        *(f"{name} = tl.load({name}_ptr + offs, mask=mask, other=0.0)" for name in names),
        f"first = {low} * first + (1 - {low}) * grad",
        f"second = {high} * tl.abs(second) + (1 - {high}) * grad * grad",
        f"param = param * (1 - lr * {decay}) - lr * first / (tl.sqrt(second) + 1e-8)",
        *(f"tl.store(new_{name}_ptr + offs, {name}, mask=mask)" for name in ("param", "first", "second")),
    ]
    outs = ("new_param", "new_first", "new_second")
    host = [
        *(f"{out} = torch.empty_like(param)" for out in outs),
        "size = param.numel()",
        *launch(
            "adamw_kernel",
            f"triton.cdiv(size, {block}),",
            [*names, *outs, "lr", "size", f"BLOCK={block}", draw.warps((4,), (1, 8))],
        ),
        "return new_param, new_first, new_second",
    ]
    parameters = [*(f"{n}_ptr" for n in (*names, *outs)), "lr", "size", "BLOCK: tl.constexpr"]
    takes = (*((name, name) for name in names), ("lr", "self.lr"))
    stage = Stage("adamw", (kernel("adamw_kernel", parameters, body),), takes, tuple(host))
    return Design((op,), (stage,), sizes, "float32", draw.constants)


_DRAWS: dict[str, Callable[[Draw], Design]] = {
    "embedding": embedding,
    "rotary": rotary,
    "add_rmsnorm": add_rmsnorm,
    "add_layernorm": add_layernorm,
    "quantise": quantise,
    "dequantise": dequantise,
    "masked_softmax": masked_softmax,
    "adamw_step": adamw,
}
FAMILIES = tuple(Family(name, "training", draw) for name, draw in _DRAWS.items())
