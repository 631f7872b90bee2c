"""Kernels on (batch, features): normalisation over the batch, and pooling along the features."""

from __future__ import annotations

from kernelwright.data.families.epilogue import NOTHING, Chain, affine
from kernelwright.data.families.spec import Draw, Stage, kernel, launch


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


def feature_pool(draw: Draw, name: str, size: int, after: Chain) -> Stage:
    """Pooling of every `size` features."""
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
    passed = [
        "x",
        *after.arguments,
        "y",
        "y.numel()",
        "features",
        "width",
        f"WINDOW={size}",
        f"BLOCK={block}",
    ]
    host = (
        "n, features = x.shape",
        f"width = features // {size}",
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
