"""Attention with the online softmax of Milakov and Gimelshein (2018), as in FlashAttention: full, causal, with shared
key heads, over another sequence, in a window. Heads of up to `HELD` numbers are held whole; of wider ones a program
walks queries and keys in blocks and writes a block of the output's columns. Where there are `APART` such blocks and more, each
would compute the scores anew: there they are written down, and two products have a softmax between them."""

from __future__ import annotations

import functools
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
    precision,
    tensor,
)

HELD = 128
"""Numbers of a head whose queries, keys and output fit a multiprocessor at once."""

APART = 4
"""Blocks of columns from which on the scores have a kernel of their own."""

MOST_SCORES = 2**31
NAMES = {"gqa": "gqa", "cross": "cross_attention", "window": "window_attention"}
KV_HEAD = "kv_head = head // heads * kv_heads + head % heads // (heads // kv_heads)"


def attention(kind: str, draw: Draw) -> Design:
    """softmax(q k' / sqrt(d)) v for every head."""
    dtype = draw.dtype(0.6)
    wide = draw.chance(0.35)
    sizes = {
        "B": draw.size((2, 4, 8, 16, 32), (1,), (1,)),
        "HEADS": Size(draw.pick((8, 16, 32)), 2, 4 if kind == "gqa" else 3),
        "S": draw.size((512, 1024, 2048, 4096), (64, 80), (75, 99)),
        "E": Size(draw.pick((32, 64, 64, 128)), draw.pick((16, 32)), draw.pick((20, 24, 40))),
    }
    if wide:
        sizes["S"] = draw.size((256, 512, 512, 1024, 2048), (48, 64), (53, 75))
        sizes["E"] = draw.size((192, 256, 256, 512, 1024), (160, 288), (144, 270))
    # No more scores, of a reference that keeps them, than a GPU holds.
    while sizes["B"].full * sizes["HEADS"].full * sizes["S"].full ** 2 > MOST_SCORES:
        sizes["B"] = sizes["B"]._replace(full=sizes["B"].full // 2)
    keys, heads = "S", "HEADS"
    if kind == "cross":
        keys = "T"
        sizes["T"] = draw.size((77, 256, 1024, 1500), (48,), (53, 83))
    if kind == "gqa":
        heads = "KV_HEADS"
        sizes["KV_HEADS"] = Size(draw.pick((2, 4, 8)), draw.pick((1, 2)), 2)
    window = draw.pick((256, 384, 512)) if kind == "window" else 0
    if window:
        sizes["S"] = draw.size((768, 1024, 1500), (64, 80), (75, 99))
        sizes["WINDOW"] = Size(window, 16, 21)
    causal = kind in ("causal", "window") or (kind == "gqa" and draw.chance(0.5))
    inputs = (
        ("q", tensor("B, HEADS, S, E", dtype)),
        ("k", tensor(f"B, {heads}, {keys}, E", dtype)),
        ("v", tensor(f"B, {heads}, {keys}, E", dtype)),
    )
    op = _reference(draw, kind, causal, dtype == "float32", inputs)
    columns, walked_by = (128, 32) if dtype == "float32" else (256, 64)
    if sizes["E"].full >= APART * columns:
        return Design((op,), (_apart(draw, kind, dtype, causal, window),), sizes, dtype, draw.constants)
    block_m, block_n = draw.tune.choice(
        ((64, 64), (128, 64))
        if dtype != "float32" or wide
        else ((128, 32), (128, 64))
        if sizes["E"].full <= 64
        else ((64, 32),)
    )
    if draw.slow:
        block_m, block_n = draw.tune.choice(((32, 16), (16, 32)))
    body = [
        "pid = tl.program_id(0)" if not causal else "pid = tl.num_programs(0) - 1 - tl.program_id(0)",
        "head = tl.program_id(1).to(tl.int64)",
    ]
    shared = "head"
    if kind == "gqa":
        body.append(KV_HEAD)
        shared = "kv_head"
    held = [
        "d = tl.arange(0, BLOCK_D)",
        "q_at = head * seq * dim + m[:, None] * dim + d[None, :]",
        "q_mask = (m < seq)[:, None] & (d < dim)[None, :]",
        "q = tl.load(q_ptr + q_at, mask=q_mask, other=0.0)",
    ]
    walked = [
        "d = tl.program_id(2) * BLOCK_D + tl.arange(0, BLOCK_D)",
        "q_ptr += head * seq * dim",
        "out_at = head * seq * dim + m[:, None] * dim + d[None, :]",
        "out_mask = (m < seq)[:, None] & (d < dim)[None, :]",
    ]
    body += [
        "m = pid * BLOCK_M + tl.arange(0, BLOCK_M)",
        *(walked if wide else held),
        f"k_ptr += {shared} * keys * dim",
        f"v_ptr += {shared} * keys * dim",
        'top = tl.full([BLOCK_M], -float("inf"), tl.float32)',
        "total = tl.zeros([BLOCK_M], dtype=tl.float32)",
        "acc = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)",
    ]
    first = "0" if not window else "tl.maximum(pid * BLOCK_M - window + 1, 0) // BLOCK_N * BLOCK_N"
    last = "keys" if not causal else "min((pid + 1) * BLOCK_M, keys)"
    allowed = " & ".join(["(n < keys)[None, :]", *_seen(causal, window)])
    # With a window a block may hold no key of a row: its maximum stays -inf, which must not meet itself.
    safe = ['    anchor = tl.where(new == -float("inf"), 0.0, new)'] if window else []
    against = "anchor" if window else "new"
    scores = [
        "kv_mask = (n < keys)[:, None] & (d < dim)[None, :]",
        "k = tl.load(k_ptr + n[:, None] * dim + d[None, :], mask=kv_mask, other=0.0)",
        f"s = tl.dot(q, tl.trans(k){precision(dtype)}) * scale",
    ]
    if wide:
        scores = [
            "s = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
            "for base in range(0, dim, BLOCK_E):",
            "    e = base + tl.arange(0, BLOCK_E)",
            "    q_mask = (m < seq)[:, None] & (e < dim)[None, :]",
            "    k_mask = (n < keys)[:, None] & (e < dim)[None, :]",
            "    q = tl.load(q_ptr + m[:, None] * dim + e[None, :], mask=q_mask, other=0.0)",
            "    k = tl.load(k_ptr + n[:, None] * dim + e[None, :], mask=k_mask, other=0.0)",
            f"    s = tl.dot(q, tl.trans(k), s{precision(dtype)})",
            "s = s * scale",
        ]
    out, mask = ("out_at", "out_mask") if wide else ("q_at", "q_mask")
    values = [
        f"v = tl.load(v_ptr + n[:, None] * dim + d[None, :], mask={'v' if wide else 'kv'}_mask, other=0.0)"
    ]
    if wide:
        values.insert(0, "v_mask = (n < keys)[:, None] & (d < dim)[None, :]")
    body += [
        f"for start in range({first}, {last}, BLOCK_N):",
        "    n = start + tl.arange(0, BLOCK_N)",
        *(f"    {line}" for line in scores),
        f'    s = tl.where({allowed}, s, -float("inf"))',
        "    new = tl.maximum(top, tl.max(s, 1))",
        *safe,
        f"    p = tl.exp(s - {against}[:, None])",
        f"    shrink = tl.exp(top - {against})",
        "    total = total * shrink + tl.sum(p, 1)",
        *(f"    {line}" for line in values),
        f"    acc = tl.dot(p{'.to(v.dtype)' if dtype != 'float32' else ''}, v, acc * shrink[:, None]{precision(dtype)})",
        "    top = new",
        f"tl.store(out_ptr + {out}, acc / total[:, None], mask={mask})",
    ]
    name = NAMES.get(kind, "attention")
    parameters = ["q_ptr", "k_ptr", "v_ptr", "out_ptr", "seq", "keys", "dim", "scale"]
    passed = ["q", "k", "v", "out", "seq", "keys", "dim", "dim**-0.5"]
    takes = [("q", "q"), ("k", "k"), ("v", "v")]
    if kind == "gqa":
        parameters += ["heads", "kv_heads"]
        passed += ["heads", "k.shape[1]"]
    if window:
        parameters.append("window")
        passed.append("window")
        takes.append(("window", "self.window"))
    m, n = str(block_m), str(block_n)
    if draw.tune.random() < 0.4:
        draw.constants.update(BLOCK_M=block_m, BLOCK_N=block_n)
        m, n = "BLOCK_M", "BLOCK_N"
    parameters += ["BLOCK_M: tl.constexpr", "BLOCK_N: tl.constexpr", "BLOCK_D: tl.constexpr"]
    passed += [f"BLOCK_M={m}", f"BLOCK_N={n}"]
    grid, warps = f"triton.cdiv(seq, {m}), batch * heads", 8 if block_m * block_n > 4096 else 4
    if wide:
        parameters.append("BLOCK_E: tl.constexpr")
        passed += [f"BLOCK_D={columns}", f"BLOCK_E={walked_by}"]
        grid, warps = f"{grid}, triton.cdiv(dim, {columns})", 8
    else:
        passed.append("BLOCK_D=max(16, triton.next_power_of_2(dim))")
    passed.append(f"num_warps={warps}")
    host = [
        "batch, heads, seq, dim = q.shape",
        "keys = k.shape[2]",
        "out = torch.empty_like(q)",
        *launch(f"{name}_kernel", grid, passed),
        "return out",
    ]
    stage = Stage(name, (kernel(f"{name}_kernel", parameters, body),), tuple(takes), tuple(host))
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def _seen(causal: bool, window: int) -> list[str]:
    """Conditions on the keys `n` that a query `m` may see."""
    conditions = ["(n[None, :] <= m[:, None])"] * causal
    return conditions + ["(n[None, :] > m[:, None] - window)"] * bool(window)


def _apart(draw: Draw, kind: str, dtype: Dtype, causal: bool, window: int) -> Stage:
    """Scores, their softmax and the values, a kernel each."""
    block_m, block_n = draw.tune.choice(((128, 64), (64, 128), (128, 128)) if not draw.slow else ((32, 32),))
    step = 32 if dtype == "float32" else 64
    warps = 8 if block_m * block_n > 4096 else 4
    shared = "kv_head" if kind == "gqa" else "head"
    place = [
        "m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)",
        "head = tl.program_id(2).to(tl.int64)",
        *[KV_HEAD] * (kind == "gqa"),
    ]
    seen = _seen(causal, window)
    heads = ["heads", "kv_heads"] * (kind == "gqa")
    tiles = [f"{name}: tl.constexpr" for name in ("BLOCK_M", "BLOCK_N")]
    limits = ["window"] * bool(window)
    scores = kernel(
        "scores_kernel",
        [
            "q_ptr",
            "k_ptr",
            "s_ptr",
            "seq",
            "keys",
            "dim",
            "scale",
            *heads,
            *limits,
            *tiles,
            "BLOCK_E: tl.constexpr",
        ],
        [
            *place,
            "n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)",
            "q_ptr += head * seq * dim",
            f"k_ptr += {shared} * keys * dim",
            "s = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
            "for start in range(0, dim, BLOCK_E):",
            "    e = start + tl.arange(0, BLOCK_E)",
            "    q_mask = (m < seq)[:, None] & (e < dim)[None, :]",
            "    k_mask = (n < keys)[:, None] & (e < dim)[None, :]",
            "    q = tl.load(q_ptr + m[:, None] * dim + e[None, :], mask=q_mask, other=0.0)",
            "    k = tl.load(k_ptr + n[:, None] * dim + e[None, :], mask=k_mask, other=0.0)",
            f"    s = tl.dot(q, tl.trans(k), s{precision(dtype)})",
            *[f's = tl.where({" & ".join(seen)}, s, -float("inf"))'] * bool(seen),
            "offs = head * seq * keys + m[:, None] * keys + n[None, :]",
            "tl.store(s_ptr + offs, s * scale, mask=(m < seq)[:, None] & (n < keys)[None, :])",
        ],
    )
    softmax = kernel(
        "softmax_kernel",
        ["s_ptr", "keys", "BLOCK: tl.constexpr"],
        [
            "row = tl.program_id(0).to(tl.int64)",
            "cols = tl.arange(0, BLOCK)",
            "mask = cols < keys",
            's = tl.load(s_ptr + row * keys + cols, mask=mask, other=-float("inf"))',
            "s = tl.exp(s - tl.max(s, 0))",
            "tl.store(s_ptr + row * keys + cols, s / tl.sum(s, 0), mask=mask)",
        ],
    )
    product = "p" if dtype == "float32" else "p.to(v.dtype)"
    values = kernel(
        "values_kernel",
        ["s_ptr", "v_ptr", "out_ptr", "seq", "keys", "dim", *heads, *tiles, "BLOCK_D: tl.constexpr"],
        [
            *place,
            "d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)",
            "s_ptr += head * seq * keys",
            f"v_ptr += {shared} * keys * dim",
            "acc = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)",
            f"for start in range(0, {'keys' if not causal else 'min((tl.program_id(0) + 1) * BLOCK_M, keys)'}, BLOCK_N):",
            "    n = start + tl.arange(0, BLOCK_N)",
            "    p_mask = (m < seq)[:, None] & (n < keys)[None, :]",
            "    v_mask = (n < keys)[:, None] & (d < dim)[None, :]",
            "    p = tl.load(s_ptr + m[:, None] * keys + n[None, :], mask=p_mask, other=0.0)",
            "    v = tl.load(v_ptr + n[:, None] * dim + d[None, :], mask=v_mask, other=0.0)",
            f"    acc = tl.dot({product}, v, acc{precision(dtype)})",
            "offs = head * seq * dim + m[:, None] * dim + d[None, :]",
            "tl.store(out_ptr + offs, acc, mask=(m < seq)[:, None] & (d < dim)[None, :])",
        ],
    )
    shape = ["seq", "keys", "dim"]
    of_heads = ["heads", "k.shape[1]"] * (kind == "gqa")
    host = [
        "batch, heads, seq, dim = q.shape",
        "keys = k.shape[2]",
        "s = torch.empty((batch, heads, seq, keys), device=q.device, dtype=torch.float32)",
        *launch(
            "scores_kernel",
            f"triton.cdiv(seq, {block_m}), triton.cdiv(keys, {block_n}), batch * heads",
            [
                *("q", "k", "s", *shape, "dim**-0.5", *of_heads, *limits),
                *(f"BLOCK_M={block_m}", f"BLOCK_N={block_n}", f"BLOCK_E={step}", f"num_warps={warps}"),
            ],
        ),
        "softmax_kernel[(batch * heads * seq,)](s, keys, BLOCK=triton.next_power_of_2(keys), num_warps=4)",
        "out = torch.empty_like(q)",
        *launch(
            "values_kernel",
            f"triton.cdiv(seq, {block_m}), triton.cdiv(dim, {block_n}), batch * heads",
            [
                *("s", "v", "out", *shape, *of_heads),
                *(f"BLOCK_M={block_m}", f"BLOCK_N={step}", f"BLOCK_D={block_n}", f"num_warps={warps}"),
            ],
        ),
        "return out",
    ]
    takes = [("q", "q"), ("k", "k"), ("v", "v"), *[("window", "self.window")] * bool(window)]
    return Stage(NAMES.get(kind, "attention"), (scores, softmax, values), tuple(takes), tuple(host))


def _reference(draw: Draw, kind: str, causal: bool, full: bool, inputs: tuple[tuple[str, str], ...]) -> Op:
    """The reference: PyTorch's own function, or written out."""
    name = f"attention:{kind}{',causal' if causal and kind == 'gqa' else ''}"
    if kind == "window":
        lines = (
            "i = torch.arange(q.shape[2], device=q.device)",
            "near = (i[None, :] <= i[:, None]) & (i[None, :] > i[:, None] - self.window)",
        )
        return Op(
            name,
            "F.scaled_dot_product_attention(q, k, v, attn_mask=near)",
            ("self.window = window",),
            (("window", "WINDOW"),),
            inputs,
            lines=lines,
        )
    written = full and draw.chance(0.5)
    repeat = (
        "k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)",
        "v = v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)",
    )
    if written:
        steps = [*(repeat if kind == "gqa" else ()), "scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5"]
        if causal:
            steps += [
                "later = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).triu(1)",
                'scores = scores.masked_fill(later, float("-inf"))',
            ]
        return Op(name, "torch.softmax(scores, dim=-1) @ v", inputs=inputs, lines=tuple(steps))
    extra = ", is_causal=True" if causal else ""
    if kind == "gqa" and draw.chance(0.5):
        return Op(name, f"F.scaled_dot_product_attention(q, k, v{extra})", inputs=inputs, lines=repeat)
    extra += ", enable_gqa=True" if kind == "gqa" else ""
    return Op(name, f"F.scaled_dot_product_attention(q, k, v{extra})", inputs=inputs)


_DRAWS: dict[str, Callable[[Draw], Design]] = {
    f"attention_{kind}": functools.partial(attention, kind)
    for kind in ("full", "causal", "gqa", "cross", "window")
}
FAMILIES = tuple(Family(name, "attention", draw) for name, draw in _DRAWS.items())
