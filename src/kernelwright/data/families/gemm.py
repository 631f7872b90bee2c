"""One tiled product in all its layouts, as a stage: the core of the matmul families and of linear layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kernelwright.data.families.epilogue import NOTHING, Chain
from kernelwright.data.families.spec import Draw, Dtype, Stage, kernel, launch, precision

CORES = 132
"""Multiprocessors of the GPU that full sizes are meant for."""
TILES = (
    *((128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (128, 32), (32, 128)),
    *((64, 32), (32, 64), (128, 16), (16, 128), (32, 32), (16, 64), (64, 16), (16, 32), (32, 16), (16, 16)),
)
"""(BLOCK_M, BLOCK_N), the largest first: the larger, the less is read for a product."""
LOW = ((32, 128), (32, 64), (64, 32), (64, 16), (32, 32), (32, 16), (16, 16))
"""The same with fewer rows than `wgmma` takes."""
Triangle = Literal["", "upper", "lower"]


@dataclass(frozen=True)
class Layout:
    """What is multiplied. Strings are host expressions over the parameters `a` and `b`."""

    a: Literal["MK", "KM"] = "MK"
    b: Literal["KN", "NK"] = "KN"
    batched: Literal["", "both", "a"] = ""
    """`both`: a and b have a leading batch; `a`: one b for all, so that the batch is more rows."""
    triangle: Triangle = ""
    wide_offsets: bool = False


def gemm(
    draw: Draw,
    name: str,
    layout: Layout,
    dtype: Dtype,
    *,
    takes: Sequence[tuple[str, str]] = (("a", "a"), ("b", "b")),
    after: Chain = NOTHING,
    bias: str = "",
    shape: Sequence[str] = (),
    out: str = "",
    residual_at: str = "",
    extent: tuple[int, int, int] = (4096, 4096, 1),
    inner: int = 16,
) -> Stage:
    """A product with `after` done on its tiles.

    `shape` are host lines that set M, N and K; `out` makes the output `c`; `bias` names a parameter of the host
    function that holds one value a column; `extent` is M, N and the batch at full size and `inner` K, for the choice of tiles.
    """
    half = dtype != "float32"
    # The second operand of a TF32 product wants the inner dimension contiguous: else c' = b' a' is made.
    step = inner if layout.b == "NK" or layout.a == "MK" else extent[1]
    flips = not half and step % 16 == 0 and (layout.a, layout.b) == ("MK", "KN") and extent[1] >= 64
    if flips:
        extent = (extent[1], extent[0], extent[2])
    block_m, block_n, block_k, warps = draw.tune.choice(
        blocks(draw, half, extent, step, bool(layout.triangle), inner)
    )
    if flips:
        block_m, block_n = block_n, block_m
    tiles = _tiles(draw, block_m, block_n, block_k)
    swizzled = not layout.triangle and not draw.slow and draw.tune.random() < 0.3
    wide = ".to(tl.int64)" if layout.wide_offsets else ""
    body = []
    if swizzled:
        body += [
            "pid = tl.program_id(0)",
            "tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)",
            "group = pid // (GROUP * tiles_n) * GROUP",
            "height = min(tiles_m - group, GROUP)",
            "pid_m = group + pid % (GROUP * tiles_n) % height",
            "pid_n = pid % (GROUP * tiles_n) // height",
        ]
    else:
        body += ["pid_m = tl.program_id(0)", "pid_n = tl.program_id(1)"]
    body += [
        "m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)",
        "n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)",
    ]
    if layout.batched == "both":
        axis = 1 if swizzled else 2
        body += [
            f"batch = tl.program_id({axis}).to(tl.int64)",
            "a_ptr += batch * M * K",
            "b_ptr += batch * K * N",
            "c_ptr += batch * M * N",
        ]
    # Where m, n and k lie in the tiles of a, of b and of c.
    down, across = "[:, None]", "[None, :]"
    m_of, n_of = (across, down) if flips else (down, across)
    ka, kb = (down, across) if flips else (across, down)
    a_at = f"m{wide}{m_of} * K + k{ka}" if layout.a == "MK" else f"k{wide}{ka} * M + m{m_of}"
    b_at = f"k{wide}{kb} * N + n{n_of}" if layout.b == "KN" else f"n{wide}{n_of} * K + k{kb}"
    a_mask, b_mask = _both(f"(m < M){m_of}", f"(k < K){ka}"), _both(f"(k < K){kb}", f"(n < N){n_of}")
    span = "range(0, K, BLOCK_K)"
    if layout.triangle == "lower":
        a_mask = _both(f"(m < M){m_of}", f"(k{ka} <= m{m_of})")
        b_mask = _both(f"(k < K){kb}", f"(n{n_of} <= k{kb})")
        span = "range(pid_n * BLOCK_N, min((pid_m + 1) * BLOCK_M, K), BLOCK_K)"
    elif layout.triangle == "upper":
        a_mask = _both(f"(k < K){ka}", f"(k{ka} >= m{m_of})")
        b_mask = _both(f"(n < N){n_of}", f"(n{n_of} >= k{kb})")
        span = "range(pid_m * BLOCK_M, min((pid_n + 1) * BLOCK_N, K), BLOCK_K)"
    product, tile = ("b, a", "BLOCK_N, BLOCK_M") if flips else ("a, b", "BLOCK_M, BLOCK_N")
    body += [
        f"acc = tl.zeros(({tile}), dtype=tl.float32)",
        f"for start in {span}:",
        "    k = start + tl.arange(0, BLOCK_K)",
        f"    a = tl.load(a_ptr + {a_at}, mask={a_mask}, other=0.0)",
        f"    b = tl.load(b_ptr + {b_at}, mask={b_mask}, other=0.0)",
        f"    acc = tl.dot({product}, acc{precision(dtype)})",
    ]
    if bias:
        body.append(f"acc += tl.load(bias_ptr + n, mask=n < N, other=0.0){n_of}")
    body += [
        f"mask = {_both(f'(m < M){m_of}', f'(n < N){n_of}')}",
        f"offs = m{wide}{m_of} * N + n{n_of}",
        *after.lines(
            "acc",
            channel="n",
            channel_mask="n < N",
            expand=n_of,
            offsets=residual_at or "offs",
            mask="mask",
        ),
        "tl.store(c_ptr + offs, acc, mask=mask)",
    ]
    extra = [f"{bias}_ptr"] if bias else []
    if extra:
        body = [
            line.replace("bias_ptr", extra[0]) if line.startswith("acc += tl.load(bias_ptr") else line
            for line in body
        ]
    parameters = ["a_ptr", "b_ptr", *extra, *after.pointers, "c_ptr", "M", "N", "K"]
    parameters += ["BLOCK_M: tl.constexpr", "BLOCK_N: tl.constexpr", "BLOCK_K: tl.constexpr"]
    passed = ["a", "b", *([bias] if bias else []), *after.arguments, "c", "M", "N", "K"]
    passed += [f"BLOCK_M={tiles[0]}", f"BLOCK_N={tiles[1]}", f"BLOCK_K={tiles[2]}"]
    if swizzled:
        parameters.append("GROUP: tl.constexpr")
        passed.append("GROUP=8")
    passed.append(f"num_warps={warps}")
    if layout.triangle and not draw.slow:
        # Its loops are short, of no two tiles alike: level 1's take 0.83 of the time.
        passed.append("num_stages=1")
    elif draw.tune.random() < 0.3:
        passed.append("num_stages=3")
    grid = f"triton.cdiv(M, {tiles[0]}), triton.cdiv(N, {tiles[1]})"
    if swizzled:
        grid = f"triton.cdiv(M, {tiles[0]}) * triton.cdiv(N, {tiles[1]}),"
    if layout.batched == "both":
        grid = f"{grid.rstrip(',')}, batch"
    host = [*shape, f"c = {out}", *launch(f"{name}_kernel", grid, passed), "return c"]
    return Stage(
        name,
        (kernel(f"{name}_kernel", parameters, body),),
        (*takes, *after.takes),
        tuple(host),
        after.helpers,
    )


def blocks(
    draw: Draw, half: bool, extent: tuple[int, int, int], inner: int, triangle: bool = False, deep: int = 0
) -> list[tuple[int, int, int, int]]:
    """(BLOCK_M, BLOCK_N, BLOCK_K, warps) to choose from: the largest tiles of which enough keep `CORES` busy.

    `extent` are M, N and the batch; `inner` is the step between rows of the second operand. Where that is no multiple of
    16, float32 goes in lower tiles, whose products take their operands from registers. `deep` is how far a product goes on:
    the largest tile of float32 takes four fifths of the time in steps of 64, and two thirds of the next smaller one's.
    """
    m, n, batch = extent
    low = not half and inner % 16 != 0
    fits = [t for t in (LOW if low else TILES[not half :]) if t[0] < 2 * max(m, 16) and t[1] < 2 * max(n, 16)]
    busy = [t for t in fits if -(-m // t[0]) * -(-n // t[1]) * batch >= CORES]
    step = 64 if half else 32
    if draw.slow:
        return [(32, 32, 16, 8), (16, 64, 16, 8), (32, 32, 16, 2)] if busy else [(128, 128, 32, 8)]
    if triangle and not low:
        busy = [(128, 64), (64, 64)]
    if not (half or low) and busy[:1] == [(128, 128)] and deep >= 256:
        return [(128, 128, 64, 8)]
    tiles = (busy or fits[-2:])[: 1 if low else 2]
    return [(*tile, step, _warps(tile, low)) for tile in tiles]


def _warps(tile: tuple[int, int], low: bool) -> int:
    """Four of them multiply 64 rows by `wgmma`; two never do."""
    area = tile[0] * tile[1]
    return 8 if area > 8192 else 2 if low and area <= 2048 else 4


def _both(first: str, second: str) -> str:
    """Two masks, the one down first."""
    return (
        f"{first} & {second}"
        if first.count("[:, None]") >= second.count("[:, None]")
        else f"{second} & {first}"
    )


def _tiles(draw: Draw, m: int, n: int, k: int) -> tuple[str, str, str]:
    if draw.tune.random() < 0.35:
        draw.constants.update(BLOCK_M=m, BLOCK_N=n, BLOCK_K=k)
        return "BLOCK_M", "BLOCK_N", "BLOCK_K"
    return str(m), str(n), str(k)
