"""Matrix products in all shapes: square to skinny, batched, transposed, triangular, diagonal, symmetric, split over K."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from kernelwright.data.families.epilogue import NOTHING, Chain, chain
from kernelwright.data.families.gemm import CORES, Layout, gemm
from kernelwright.data.families.spec import (
    MOST_INT32,
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
    precision,
    tensor,
    widened,
)

SPELLED = ("torch.matmul({a}, {b})", "{a} @ {b}", "torch.matmul({a}, {b})")
SMALL, ODD = (48, 64), (67, 75, 83)
INNER, INNER_ODD = (32, 48), (37, 45, 53)


def _sides(draw: Draw, m: Sequence[int], n: Sequence[int], k: Sequence[int]) -> dict[str, Size]:
    return {
        "M": draw.size(m, SMALL, ODD),
        "K": draw.size(k, INNER, INNER_ODD),
        "N": draw.size(n, SMALL, ODD),
    }


LARGE = (1024, 1536, 2048, 3072, 4096, 2000, 3000, 8192)
TINY = (16, 32, 48, 64)


def _wide(sizes: dict[str, Size]) -> bool:
    m, k, n = (sizes[key].full for key in "MKN")
    return max(m * k, k * n, m * n) > MOST_INT32


def _plain(
    draw: Draw, name: str, sizes: dict[str, Size], layout: Layout = Layout(), spelled: str = ""
) -> Design:
    """a (M, K) times b (K, N), either of them stored transposed."""
    dtype = draw.dtype(0.35)
    a = "M, K" if layout.a == "MK" else "K, M"
    b = "K, N" if layout.b == "KN" else "N, K"
    spelling = spelled or _spelling(draw, layout)
    made = draw.pick(("randn", "randn", "rand"))
    op = Op(name, spelling, inputs=(("a", tensor(a, dtype, made)), ("b", tensor(b, dtype, made))))
    layout = Layout(layout.a, layout.b, layout.batched, layout.triangle, _wide(sizes))
    first = "M, K = a.shape" if layout.a == "MK" else "K, M = a.shape"
    second = "N = b.shape[1]" if layout.b == "KN" else "N = b.shape[0]"
    stage = gemm(
        draw,
        "matmul",
        layout,
        dtype,
        extent=(sizes["M"].full, sizes["N"].full, 1),
        inner=sizes["K"].full,
        shape=(first, second),
        out="torch.empty((M, N), device=a.device, dtype=a.dtype)",
    )
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def _spelling(draw: Draw, layout: Layout) -> str:
    transposed = draw.pick(("{v}.T", "{v}.t()", "{v}.transpose(0, 1)"))
    a = transposed.format(v="a") if layout.a == "KM" else "a"
    b = transposed.format(v="b") if layout.b == "NK" else "b"
    spelled = draw.pick((*SPELLED, "torch.mm({a}, {b})"))
    return spelled.format(a=a, b=b)


def square(draw: Draw) -> Design:
    size = draw.size(LARGE, SMALL, ODD)
    # One constant for all three sides.
    dtype = draw.dtype(0.35)
    op = Op(
        "matmul",
        draw.pick(SPELLED).format(a="a", b="b"),
        inputs=tuple((v, tensor("N, N", dtype)) for v in "ab"),
    )
    shape = ("M, K = a.shape", "N = b.shape[1]")
    stage = gemm(
        draw,
        "matmul",
        Layout(),
        dtype,
        extent=(size.full, size.full, 1),
        inner=size.full,
        shape=shape,
        out="torch.empty((M, N), device=a.device, dtype=a.dtype)",
    )
    return Design((op,), (stage,), {"N": size}, dtype, draw.constants)


def rectangular(draw: Draw) -> Design:
    return _plain(draw, "matmul", _sides(draw, LARGE, LARGE, LARGE))


def skinny(draw: Draw) -> Design:
    """A small inner dimension: much output for little arithmetic."""
    return _plain(draw, "matmul", _sides(draw, (8192, 16384, 32768), (4096, 8192, 16384), TINY))


def tall(draw: Draw) -> Design:
    """One side of 16 to 64."""
    tall_m = draw.chance(0.5)
    m, n = ((8192, 16384, 32768), TINY) if tall_m else (TINY, (8192, 16384, 32768))
    sizes = _sides(draw, m, n, (1024, 2048, 4096))
    return _plain(draw, "matmul", sizes)


def irregular(draw: Draw) -> Design:
    """Sides that are no multiples of a tile."""
    odd = (1023, 2047, 2949, 4095, 5921, 8205)
    return _plain(draw, "matmul", _sides(draw, odd, odd, odd))


def transposed_a(draw: Draw) -> Design:
    return _plain(draw, "matmul:Ta", _sides(draw, LARGE, LARGE, LARGE), Layout(a="KM"))


def transposed_b(draw: Draw) -> Design:
    return _plain(draw, "matmul:Tb", _sides(draw, LARGE, LARGE, LARGE), Layout(b="NK"))


def transposed_both(draw: Draw) -> Design:
    return _plain(draw, "matmul:TaTb", _sides(draw, LARGE, LARGE, LARGE), Layout(a="KM", b="NK"))


def triangular_upper(draw: Draw) -> Design:
    return _triangular(draw, "upper", "triu")


def triangular_lower(draw: Draw) -> Design:
    return _triangular(draw, "lower", "tril")


def _triangular(draw: Draw, side: str, cut: str) -> Design:
    """A product of two triangular matrices, cut in `forward` or given so."""
    dtype = draw.dtype(0.2)
    size = draw.size((1024, 2048, 4096, 3000), SMALL, ODD)
    made = tensor("N, N", dtype)
    if draw.chance(0.5):
        spelling, made = f"torch.{cut}(torch.matmul(a, b))", f"torch.{cut}({made})"
    else:
        spelling = f"torch.matmul(torch.{cut}(a), torch.{cut}(b))"
    op = Op(f"matmul:{side}", spelling, inputs=(("a", made), ("b", made)))
    layout = Layout(triangle=side)  # type: ignore[arg-type]
    shape = ("M = N = K = a.shape[0]",)
    stage = gemm(
        draw, f"{cut}_matmul", layout, dtype, inner=size.full, shape=shape, out="torch.empty_like(a)"
    )
    return Design((op,), (stage,), {"N": size}, dtype, draw.constants)


def symmetric(draw: Draw) -> Design:
    """Two symmetric matrices, which are multiplied as any others: that they are symmetric saves no arithmetic."""
    size = draw.size((1024, 2048, 4096, 3000), SMALL, ODD)
    made = "torch.randn(N, N); ({m} + {m}.T) / 2"
    op = Op("matmul:symmetric", draw.pick(SPELLED).format(a="a", b="b"), inputs=(("a", made), ("b", made)))
    stage = gemm(
        draw,
        "symmetric_matmul",
        Layout(),
        "float32",
        extent=(size.full, size.full, 1),
        inner=size.full,
        shape=("M = N = K = a.shape[0]",),
        out="torch.empty_like(a)",
    )
    return Design((op,), (stage,), {"N": size}, "float32", draw.constants)


def batched(draw: Draw) -> Design:
    dtype = draw.dtype(0.35)
    sizes = {
        "B": draw.size((8, 16, 32, 64, 128), (2,), (3,)),
        "M": draw.size((256, 512, 1000, 1024), (48, 64), (51, 67, 75)),
        "K": draw.size((128, 256, 512, 1000), INNER, INNER_ODD),
        "N": draw.size((256, 512, 1000, 1024), (48, 64), (53, 69, 81)),
    }
    kind = draw.pick(("", "", "Ta", "Tb"))
    a = "B, M, K" if kind != "Ta" else "B, K, M"
    b = "B, K, N" if kind != "Tb" else "B, N, K"
    left = "a" if kind != "Ta" else "a.transpose(1, 2)"
    right = "b" if kind != "Tb" else "b.transpose(-2, -1)"
    op = Op(
        f"bmm:{kind}",
        draw.pick((f"torch.bmm({left}, {right})", f"torch.matmul({left}, {right})")),
        inputs=(("a", tensor(a, dtype)), ("b", tensor(b, dtype))),
    )
    layout = Layout(a="KM" if kind == "Ta" else "MK", b="NK" if kind == "Tb" else "KN", batched="both")
    shape = (
        "batch, M, K = a.shape" if kind != "Ta" else "batch, K, M = a.shape",
        f"N = b.shape[{1 if kind == 'Tb' else 2}]",
    )
    stage = gemm(
        draw,
        "bmm",
        layout,
        dtype,
        extent=(sizes["M"].full, sizes["N"].full, sizes["B"].full),
        inner=sizes["K"].full,
        shape=shape,
        out="torch.empty((batch, M, N), device=a.device, dtype=a.dtype)",
    )
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def by_matrix(draw: Draw, rank: int) -> Design:
    """A tensor of three or four dimensions times one matrix."""
    dtype = draw.dtype(0.35)
    sizes = {"B": draw.size((8, 16, 32), (2,), (3,)), "S": draw.size((256, 512, 1024), (24, 40), (27, 35))}
    if rank == 4:
        sizes["H"] = draw.size((16, 32, 64), (2,), (3,))
    sizes |= {"K": draw.size((256, 512, 768), INNER, INNER_ODD), "N": draw.size((256, 512, 768), SMALL, ODD)}
    lead = [key for key in sizes if key not in "KN"]
    letters = "bijl"[: rank - 1] + "k"
    spelling = draw.pick(
        (f'torch.einsum("{letters},kn->{letters[:-1]}n", a, b)', "torch.matmul(a, b)", "a @ b")
    )
    op = Op(
        f"matmul:{rank}d",
        spelling,
        inputs=(("a", tensor(", ".join([*lead, "K"]), dtype)), ("b", tensor("K, N", dtype))),
    )
    shape = ("K, N = b.shape", "M = a.numel() // K")
    stage = gemm(
        draw,
        "tensor_matmul",
        Layout(batched="a"),
        dtype,
        extent=(math.prod(sizes[key].full for key in lead), sizes["N"].full, 1),
        inner=sizes["K"].full,
        shape=shape,
        out="torch.empty((*a.shape[:-1], N), device=a.device, dtype=a.dtype)",
    )
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def matvec(draw: Draw) -> Design:
    """A matrix by a vector: rows in blocks, the inner dimension walked."""
    dtype = draw.dtype(0.3)
    sizes = {
        "M": draw.size((256, 2048, 4096, 8192, 16384), (48, 64), (37, 53, 75)),
        "K": draw.size((4096, 8192, 16384, 131072), (128, 256), (203, 301)),
    }
    flat = draw.chance(0.4)
    op = Op(
        "matvec",
        draw.pick(("torch.mv(a, b)", "a @ b") if flat else ("torch.matmul(a, b)", "a @ b", "torch.mm(a, b)")),
        inputs=(("a", tensor("M, K", dtype)), ("b", tensor("K" if flat else "K, 1", dtype))),
    )
    few = sizes["M"].full < 8 * CORES
    m = draw.tile("BLOCK_M", (1,) if few else (1, 2), (32,))
    k = draw.tile("BLOCK_K", (4096, 8192) if few else (1024,), (64,))
    wide = widened(dtype)
    body = [
        "m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)",
        "row = m.to(tl.int64)[:, None] * K",
        "acc = tl.zeros((BLOCK_M, BLOCK_K), dtype=tl.float32)",
        "for start in range(0, K, BLOCK_K):",
        "    k = start + tl.arange(0, BLOCK_K)",
        f"    a = tl.load(a_ptr + row + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0){wide}",
        f"    b = tl.load(b_ptr + k, mask=k < K, other=0.0){wide}",
        "    acc += a * b[None, :]",
        "tl.store(out_ptr + m, tl.sum(acc, 1), mask=m < M)",
    ]
    host = [
        "M, K = a.shape",
        f"out = torch.empty({'M' if flat else '(M, 1)'}, device=a.device, dtype=a.dtype)",
        *launch(
            "matvec_kernel",
            f"triton.cdiv(M, {m}),",
            [
                "a",
                "b",
                "out",
                "M",
                "K",
                f"BLOCK_M={m}",
                f"BLOCK_K={k}",
                draw.warps((8,) if few else (4,), (1,)),
            ],
        ),
        "return out",
    ]
    parameters = ["a_ptr", "b_ptr", "out_ptr", "M", "K", "BLOCK_M: tl.constexpr", "BLOCK_K: tl.constexpr"]
    stage = Stage(
        "matvec", (kernel("matvec_kernel", parameters, body),), (("a", "a"), ("b", "b")), tuple(host)
    )
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def diagonal(draw: Draw) -> Design:
    """A diagonal matrix, given by its diagonal, times a matrix: every row, or column, times a number.

    Not spelled `torch.diag(a) @ b`: of that much arithmetic the judge's model of time wants a share to be done."""
    dtype = draw.dtype(0.3)
    sizes = {
        "M": draw.size((2048, 4096, 8192), (24, 40), (27, 35)),
        "N": draw.size((2048, 4096, 6000), SMALL, ODD),
    }
    right = draw.chance(0.3)
    if right:
        spelling = draw.pick(("b * a", "b * a.unsqueeze(0)", "torch.mul(b, a[None, :])"))
        inputs = (("a", tensor("N", dtype)), ("b", tensor("M, N", dtype)))
        factor = f"a = tl.load(a_ptr + cols, mask=mask){widened(dtype)}"
    else:
        spelling = draw.pick(("a.unsqueeze(1) * b", "a[:, None] * b", "torch.mul(b, a.view(-1, 1))"))
        inputs = (("a", tensor("M", dtype)), ("b", tensor("M, N", dtype)))
        factor = f"a = tl.load(a_ptr + row){widened(dtype)}"
    block = draw.tile("BLOCK", (512, 1024), (64, 128))
    body = [
        "row = tl.program_id(0).to(tl.int64)",
        "cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)",
        "mask = cols < N",
        factor,
        f"b = tl.load(b_ptr + row * N + cols, mask=mask){widened(dtype)}",
        "tl.store(out_ptr + row * N + cols, a * b, mask=mask)",
    ]
    host = [
        "M, N = b.shape",
        "out = torch.empty_like(b)",
        *launch(
            "diagonal_kernel",
            f"M, triton.cdiv(N, {block})",
            ["a", "b", "out", "N", f"BLOCK={block}", draw.warps((4,), (1, 8))],
        ),
        "return out",
    ]
    op = Op(f"matmul:diagonal{' right' if right else ''}", spelling, inputs=inputs)
    parameters = ["a_ptr", "b_ptr", "out_ptr", "N", "BLOCK: tl.constexpr"]
    stage = Stage(
        "diagonal", (kernel("diagonal_kernel", parameters, body),), (("a", "a"), ("b", "b")), tuple(host)
    )
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def by_scalar(draw: Draw) -> Design:
    """A matrix times a number, which is an argument of `forward`."""
    dtype = draw.dtype(0.2)
    sizes = {
        "M": draw.size((2048, 4096, 8192, 16384), (24, 40), (27, 35)),
        "N": draw.size((2048, 4096, 6000, 8192), SMALL, ODD),
    }
    number = draw.pick(("3.14", "2.5", "0.5", "-1.5", "1.7"))
    spelling = draw.pick(("a * s", "torch.mul(a, s)", "s * a"))
    op = Op("matmul:scalar", spelling, inputs=(("a", tensor("M, N", dtype)), ("s", number)))
    block = draw.tile("BLOCK", (512, 1024, 2048), (64, 128))
    body = [
        "offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "mask = offs < size",
        f"a = tl.load(a_ptr + offs, mask=mask){widened(dtype)}",
        "tl.store(out_ptr + offs, a * s, mask=mask)",
    ]
    host = (
        "out = torch.empty_like(a)",
        "size = a.numel()",
        *launch(
            "scale_kernel",
            f"triton.cdiv(size, {block}),",
            ["a", "out", "s", "size", f"BLOCK={block}", draw.warps((4, 8), (1,))],
        ),
        "return out",
    )
    text = kernel("scale_kernel", ["a_ptr", "out_ptr", "s", "size", "BLOCK: tl.constexpr"], body)
    stage = Stage("scale", (text,), (("a", "a"), ("s", "s")), host)
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def large_k(draw: Draw) -> Design:
    """A long inner dimension and few outputs: several programs share a tile, a second kernel adds their parts."""
    dtype = draw.dtype(0.3)
    sizes = {
        "M": draw.size((128, 256, 200, 512), (32, 48), (35, 51)),
        "K": draw.size((65536, 131072, 100000, 524288), (96, 128), (107, 139)),
        "N": draw.size((128, 256, 200, 512), (32, 48), (37, 53)),
    }
    op = Op(
        "matmul",
        draw.pick(SPELLED).format(a="a", b="b"),
        inputs=(("a", tensor("M, K", dtype)), ("b", tensor("K, N", dtype))),
    )
    size, step = 64, 64 if dtype != "float32" else 32
    tiles = -(-sizes["M"].full // size) * -(-sizes["N"].full // size)
    split = draw.tile("SPLIT_K", (1 << min(max(3, (8 * CORES // tiles).bit_length() - 1), 6),), (2,))
    block = draw.tile("BLOCK", (512, 1024), (128,))
    body = [
        "m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)",
        "n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)",
        "part = tl.program_id(2)",
        "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
        "for start in range(part * BLOCK_K, K, SPLIT_K * BLOCK_K):",
        "    k = start + tl.arange(0, BLOCK_K)",
        "    a_at = m.to(tl.int64)[:, None] * K + k[None, :]",
        "    a = tl.load(a_ptr + a_at, mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)",
        "    b_at = k.to(tl.int64)[:, None] * N + n[None, :]",
        "    b = tl.load(b_ptr + b_at, mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)",
        f"    acc = tl.dot(a, b, acc{precision(dtype)})",
        "offs = part * M * N + m[:, None] * N + n[None, :]",
        "tl.store(parts_ptr + offs, acc, mask=(m < M)[:, None] & (n < N)[None, :])",
    ]
    first = kernel(
        "split_k_kernel",
        [
            *("a_ptr", "b_ptr", "parts_ptr", "M", "N", "K"),
            *(f"{name}: tl.constexpr" for name in ("SPLIT_K", "BLOCK_M", "BLOCK_N", "BLOCK_K")),
        ],
        body,
    )
    second = kernel(
        "add_parts_kernel",
        ["parts_ptr", "c_ptr", "size", "SPLIT_K: tl.constexpr", "BLOCK: tl.constexpr"],
        [
            "offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
            "mask = offs < size",
            "total = tl.zeros([BLOCK], dtype=tl.float32)",
            "for part in range(SPLIT_K):",
            "    total += tl.load(parts_ptr + part * size + offs, mask=mask, other=0.0)",
            "tl.store(c_ptr + offs, total, mask=mask)",
        ],
    )
    host = [
        "M, K = a.shape",
        "N = b.shape[1]",
        f"parts = torch.empty(({split}, M, N), device=a.device, dtype=torch.float32)",
        *launch(
            "split_k_kernel",
            f"triton.cdiv(M, {size}), triton.cdiv(N, {size}), {split}",
            [
                *("a", "b", "parts", "M", "N", "K", f"SPLIT_K={split}"),
                *(f"BLOCK_M={size}", f"BLOCK_N={size}", f"BLOCK_K={step}", "num_warps=4"),
            ],
        ),
        "c = torch.empty((M, N), device=a.device, dtype=a.dtype)",
        *launch(
            "add_parts_kernel",
            f"triton.cdiv(M * N, {block}),",
            ["parts", "c", "M * N", f"SPLIT_K={split}", f"BLOCK={block}"],
        ),
        "return c",
    ]
    stage = Stage("matmul", (first, second), (("a", "a"), ("b", "b")), tuple(host))
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def linear_sizes(draw: Draw) -> dict[str, Size]:
    """Rows, features in and features out of a linear layer."""
    return {
        "B": draw.size((128, 512, 1024, 4096, 16384), (24, 32), (27, 35)),
        "CI": draw.size((256, 512, 1024, 4096, 8192), INNER, INNER_ODD),
        "CO": draw.size((256, 512, 1000, 1024, 4096), (64, 80), (67, 75, 93)),
    }


def linear_layer(
    draw: Draw,
    dtype: Dtype,
    sizes: Mapping[str, Size],
    after: Chain = NOTHING,
    *,
    bias: bool = True,
    rank: int = 2,
) -> tuple[Op, Stage]:
    """A linear layer with `after` on its output; its input is the argument `x`."""
    rows = sizes["B"].full * (sizes["S"].full if rank == 3 else 1)
    lead = "B, CI" if rank == 2 else "B, S, CI"
    module = f"nn.Linear(in_features, out_features{'' if bias else ', bias=False'}{placed(dtype)})"
    op = Op(
        "linear" if bias else "linear:no bias",
        "self.linear({x})",
        (f"self.linear = {module}",),
        (("in_features", "CI"), ("out_features", "CO")),
        (("x", tensor(lead, dtype)),),
    )
    stage = gemm(
        draw,
        "linear",
        Layout(b="NK"),
        dtype,
        extent=(rows, sizes["CO"].full, 1),
        inner=sizes["CI"].full,
        takes=(
            ("a", "{x}"),
            ("b", "self.linear.weight"),
            *([("lin_bias", "self.linear.bias")] if bias else []),
        ),
        after=after,
        bias="lin_bias" if bias else "",
        shape=("N, K = b.shape", "M = a.numel() // K"),
        out="torch.empty((*a.shape[:-1], N), device=a.device, dtype=a.dtype)",
    )
    return op, stage


def linear(draw: Draw) -> Design:
    """nn.Linear alone."""
    return linear_fusion(draw, 0)


def linear_fusion(draw: Draw, count: int | None = None) -> Design:
    """nn.Linear with maps on its output, in one kernel."""
    dtype = draw.dtype(0.35)
    sizes = linear_sizes(draw)
    rank = draw.pick((2, 2, 3))
    if rank == 3:
        sizes = {
            "B": draw.size((4, 8, 16), (2,), (3,)),
            "S": draw.size((128, 256, 512), (16,), (13,)),
            **{key: size for key, size in sizes.items() if key != "B"},
        }
    shape = "B, CO" if rank == 2 else "B, S, CO"
    count = max(draw.operators - 1, 1) if count is None else count
    after = chain(
        draw, count, dtype, channel=("out_features", (("out_features", "CO"),)), full=shape, share=0.35
    )
    op, stage = linear_layer(draw, dtype, sizes, after, bias=draw.chance(0.8), rank=rank)
    return Design((op, *after.ops), (stage,), sizes, dtype, draw.constants)


def tensor3d(draw: Draw) -> Design:
    return by_matrix(draw, 3)


def tensor4d(draw: Draw) -> Design:
    return by_matrix(draw, 4)


_DRAWS: dict[str, Callable[[Draw], Design]] = {
    "matmul_square": square,
    "matmul_rectangular": rectangular,
    "matmul_skinny": skinny,
    "matmul_tall": tall,
    "matmul_irregular": irregular,
    "matmul_large_k": large_k,
    "matmul_transposed_a": transposed_a,
    "matmul_transposed_b": transposed_b,
    "matmul_transposed_both": transposed_both,
    "matmul_upper": triangular_upper,
    "matmul_lower": triangular_lower,
    "matmul_symmetric": symmetric,
    "matmul_diagonal": diagonal,
    "matmul_scalar": by_scalar,
    "matmul_batched": batched,
    "matmul_3d": tensor3d,
    "matmul_4d": tensor4d,
    "matvec": matvec,
    "linear": linear,
}
FAMILIES = (
    *(Family(name, "matmul", draw) for name, draw in _DRAWS.items()),
    Family("linear_fusion", "fusion", linear_fusion, (2, 3, 4, 5)),
)
