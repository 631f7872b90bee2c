"""Reductions over a dimension, softmax and its kin, and positions of extremes."""

from __future__ import annotations

from dataclasses import replace

from kernelwright.data.families.along import TILE, geometry, rows, strided
from kernelwright.data.families.epilogue import chain
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
)
from kernelwright.data.operators import ROWS

SPELLED = {
    "sum": ("torch.sum({{x}}, dim={d}{k})", "{{x}}.sum(dim={d}{k})"),
    "mean": ("torch.mean({{x}}, dim={d}{k})", "{{x}}.mean(dim={d}{k})"),
    "max": (
        "torch.amax({{x}}, dim={d}{k})",
        "{{x}}.amax(dim={d}{k})",
        *("torch.max({{x}}, dim={d}{k})[0]",) * 2,
    ),
    "min": (
        "torch.amin({{x}}, dim={d}{k})",
        "{{x}}.amin(dim={d}{k})",
        *("torch.min({{x}}, dim={d}{k})[0]", "torch.min({{x}}, dim={d}{k}).values"),
    ),
    "logsumexp": ("torch.logsumexp({{x}}, dim={d}{k})", "{{x}}.logsumexp(dim={d}{k})"),
    "norm": ("torch.linalg.vector_norm({{x}}, dim={d}{k})", "torch.norm({{x}}, dim={d}{k})"),
    "var": ("torch.var({{x}}, dim={d}{k})", "{{x}}.var(dim={d}{k})"),
    "std": ("torch.std({{x}}, dim={d}{k})", "{{x}}.std(dim={d}{k})"),
    "softmax": ("torch.softmax({{x}}, dim={d})", "F.softmax({{x}}, dim={d})"),
    "log_softmax": ("torch.log_softmax({{x}}, dim={d})", "F.log_softmax({{x}}, dim={d})"),
    "softmin": ("F.softmin({{x}}, dim={d})",),
}


LENGTHS = (256, 512, 1000, 1024, 2000, 4096, 8192, 16384, 32768, 65536, 131072, 393216)


def sized(draw: Draw, dim: int, rank: int, longest: int = 400000) -> dict[str, Size]:
    """Sizes of a tensor of two or three dimensions, of 2^21 to 2^31 elements, whose dimension `dim` is reduced."""
    long = tuple(n for n in LENGTHS if n <= longest)
    while True:
        if rank == 2:
            sizes = {
                "M": draw.size((128, 1024, 2048, 4096, 10000), (4, 8), (5, 7)),
                "N": draw.size(long, (64, 128), (97, 133, 201)),
            }
            if dim == 0:
                sizes = {
                    "M": draw.size(long, (24, 32), (27, 37, 51)),
                    "N": draw.size((1024, 4096, 5000), (16, 32), (29, 43)),
                }
        else:
            sizes = {
                "B": draw.size((8, 16, 32, 64, 128), (2,), (3, 5)),
                "M": draw.size((128, 256, 500, 1024, 4096), (16, 24), (13, 27)),
                "N": draw.size((128, 255, 512, 1024, 4096), (32, 64), (29, 37, 51)),
            }
        full = 1
        for size in sizes.values():
            full *= size.full
        if 1 << 21 <= full < 1 << 31:
            return sizes


def reduction(draw: Draw, operator: str, follow: int = 0) -> Design:
    """One reduction or norm of `SPELLED` over some dimension."""
    dtype = draw.dtype(0.2)
    rank = draw.pick((2, 3, 3))
    dim = draw.pick(range(rank))
    sizes = sized(draw, dim, rank, 16384 if dim < rank - 1 else 400000)
    dims = ", ".join(sizes)
    reduces = ROWS[operator].reduces
    keep = reduces and draw.chance(0.4)
    spelled_dim = dim - rank if draw.chance(0.3) else dim
    spelling = draw.pick(SPELLED[operator]).format(d=spelled_dim, k=", keepdim=True" if keep else "")
    op = Op(
        f"{operator}:{'last' if dim == rank - 1 else 'inner'}", spelling, inputs=(("x", tensor(dims, dtype)),)
    )
    if draw.chance(0.3):
        given = spelling.replace(f"dim={spelled_dim}", "dim=self.dim")
        op = Op(op.name, given, ("self.dim = dim",), (("dim", str(spelled_dim)),), op.inputs)
    stage = over(draw, operator, operator, dtype, list(sizes.values())[dim].full, dim, rank, keep=keep)
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def over(
    draw: Draw,
    name: str,
    operator: str,
    dtype: Dtype,
    length: int,
    dim: int,
    rank: int,
    *,
    keep: bool = False,
) -> Stage:
    """The stage for a dimension of a tensor of `rank`."""
    if dim == rank - 1:
        return rows(draw, name, operator, dtype, length, keep=keep)
    return strided(draw, name, operator, dtype, length, dim, keep=keep)


def normalised(draw: Draw, operator: str) -> Design:
    """Softmax and its kin, alone or between maps."""
    return reduction(draw, operator)


def position(draw: Draw, operator: str) -> Design:
    """argmax and argmin: the first place of the extreme, as an int64."""
    rank = draw.pick((2, 3))
    dim = draw.pick(range(rank))
    sizes = sized(draw, dim, rank, 16384)
    keep = draw.chance(0.3)
    worst = '-float("inf")' if operator == "argmax" else 'float("inf")'
    spelling = draw.pick((f"torch.{operator}({{x}}, dim={dim}", f"{{x}}.{operator}(dim={dim}"))
    spelling += ", keepdim=True)" if keep else ")"
    op = Op(operator, spelling, inputs=(("x", tensor(", ".join(sizes))),))
    last = dim == rank - 1
    compare = ">" if operator == "argmax" else "<"
    kept = "1, " if keep else ""
    if last:
        width = list(sizes.values())[dim].full
        block = draw.tile("BLOCK", (min(1 << (width - 1).bit_length(), 4096),), (128, 256))
        warps = (1, 2) if width <= 512 else (4,) if width <= 4096 else (8,)
        body = [
            "row = tl.program_id(0).to(tl.int64)",
            f"best = tl.full([BLOCK], {worst}, tl.float32)",
            "place = tl.zeros([BLOCK], tl.int32)",
            "for start in range(0, n, BLOCK):",
            "    cols = start + tl.arange(0, BLOCK)",
            f"    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other={worst})",
            f"    better = x {compare} best",
            "    best = tl.where(better, x, best)",
            "    place = tl.where(better, cols, place)",
            f"extreme = tl.{operator[3:]}(best, 0)",
            "first = tl.min(tl.where(best == extreme, place, n), 0)",
            "tl.store(out_ptr + row, first.to(tl.int64))",
        ]
        parameters = ["x_ptr", "out_ptr", "n", "BLOCK: tl.constexpr"]
        shape = "(*x.shape[:-1], 1)" if keep else "x.shape[:-1]"
        host = [
            "n = x.shape[-1]",
            f"out = torch.empty({shape}, device=x.device, dtype=torch.int64)",
            *launch(
                f"{operator}_kernel",
                "x.numel() // n,",
                ["x", "out", "n", f"BLOCK={block}", draw.warps(warps, (1,))],
            ),
            "return out",
        ]
    else:
        block_r, block_i = draw.tile("BLOCK_R", (64,), (4,)), draw.tile("BLOCK_I", (32,), (16,))
        body = [
            "base = tl.program_id(1).to(tl.int64) * n * inner",
            "i = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I)",
            f"best = tl.full([BLOCK_R, BLOCK_I], {worst}, tl.float32)",
            "place = tl.zeros([BLOCK_R, BLOCK_I], tl.int32)",
            "for start in range(0, n, BLOCK_R):",
            "    r = start + tl.arange(0, BLOCK_R)",
            "    mask = (r < n)[:, None] & (i < inner)[None, :]",
            f"    x = tl.load(x_ptr + base + r[:, None] * inner + i[None, :], mask=mask, other={worst})",
            f"    better = x {compare} best",
            "    best = tl.where(better, x, best)",
            "    place = tl.where(better, r[:, None], place)",
            f"extreme = tl.{operator[3:]}(best, 0)",
            "first = tl.min(tl.where(best == extreme[None, :], place, n), 0)",
            "out_at = tl.program_id(1).to(tl.int64) * inner + i",
            "tl.store(out_ptr + out_at, first.to(tl.int64), mask=i < inner)",
        ]
        parameters = ["x_ptr", "out_ptr", "n", "inner", "BLOCK_R: tl.constexpr", "BLOCK_I: tl.constexpr"]
        lead = f"*x.shape[:{dim}], " if dim else ""
        shape = f"{lead}{kept}*x.shape[{dim + 1}:]"
        shape = f"({shape},)" if shape.count(",") == 0 else f"({shape})"
        passed = ["x", "out", "n", "inner", f"BLOCK_R={block_r}", f"BLOCK_I={block_i}"]
        host = [
            *geometry(dim),
            f"out = torch.empty({shape}, device=x.device, dtype=torch.int64)",
            *launch(
                f"{operator}_kernel",
                f"triton.cdiv(inner, {block_i}), outer",
                [*passed, draw.warps((4, 8), (1,))],
            ),
            "return out",
        ]
    stage = Stage(operator, (kernel(f"{operator}_kernel", parameters, body),), (("x", "{x}"),), tuple(host))
    return Design((op,), (stage,), sizes, "float32", draw.constants)


def product(draw: Draw) -> Design:
    """The product over the last dimension or an inner one; numbers near one, so that it stays finite."""
    rank = draw.pick((2, 3))
    dim = draw.pick((rank - 1, rank - 2))
    sizes = {
        "M": draw.size((64, 128, 200, 256), (16, 24), (13, 27)),
        "N": draw.size((64, 100, 128, 256), (16, 32), (19, 37)),
    }
    sizes = (
        {"B": draw.size((1024, 2048, 4096), (2,), (3,)), **sizes}
        if rank == 3
        else {
            "M": draw.size((100, 200, 256), (16,), (13,))
            if dim == 0
            else draw.size((100000, 262144), (4,), (7,)),
            "N": draw.size((100, 200, 256), (32,), (37,))
            if dim
            else draw.size((100000, 262144), (32,), (37,)),
        }
    )
    made = f"1.0 + 0.1 * torch.randn({', '.join(sizes)})"
    spelling = draw.pick((f"torch.prod({{x}}, dim={dim})", f"{{x}}.prod(dim={dim})"))
    length = list(sizes.values())[dim].full
    held = 1 << (length - 1).bit_length()
    join = kernel("multiply", ["a", "b"], ["return a * b"])
    if dim == rank - 1:
        body = [
            "row = tl.program_id(0).to(tl.int64)",
            "cols = tl.arange(0, BLOCK)",
            "x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=1.0)",
            "tl.store(out_ptr + row, tl.reduce(x, 0, multiply))",
        ]
        parameters = ["x_ptr", "out_ptr", "n", "BLOCK: tl.constexpr"]
        host = ["n = x.shape[-1]", "out = x.new_empty(x.shape[:-1])"]
        passed = ["x", "out", "n", "BLOCK=triton.next_power_of_2(n)", draw.warps((1, 2), (8,))]
        grid = "x.numel() // n,"
    else:
        block = draw.tile("BLOCK_I", (min(max(TILE // held, 32), 512),), (16,))
        body = [
            "base = tl.program_id(1).to(tl.int64) * n * inner",
            "i = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I)",
            "r = tl.arange(0, BLOCK_R)",
            "mask = (r < n)[:, None] & (i < inner)[None, :]",
            "x = tl.load(x_ptr + base + r[:, None] * inner + i[None, :], mask=mask, other=1.0)",
            "out_at = tl.program_id(1).to(tl.int64) * inner + i",
            "tl.store(out_ptr + out_at, tl.reduce(x, 0, multiply), mask=i < inner)",
        ]
        parameters = ["x_ptr", "out_ptr", "n", "inner", "BLOCK_R: tl.constexpr", "BLOCK_I: tl.constexpr"]
        host = [
            *geometry(dim),
            f"out = x.new_empty({f'*x.shape[:{dim}], ' if dim else ''}*x.shape[{dim + 1}:])",
        ]
        passed = ["x", "out", "n", "inner", "BLOCK_R=triton.next_power_of_2(n)", f"BLOCK_I={block}"]
        passed.append(draw.warps((8,), (1,)))
        grid = f"triton.cdiv(inner, {block}), outer"
    host += [*launch("prod_kernel", grid, passed), "return out"]
    op = Op(f"prod:{'last' if dim == rank - 1 else 'inner'}", spelling, inputs=(("x", made),))
    stage = Stage("prod", (join, kernel("prod_kernel", parameters, body)), (("x", "{x}"),), tuple(host))
    return Design((op,), (stage,), sizes, "float32", draw.constants)


def between(draw: Draw) -> Design:
    """A norm or reduction along rows, between maps."""
    dtype = draw.dtype(0.3)
    operator = draw.pick(
        ("softmax", "log_softmax", "layernorm", "rmsnorm", "l2norm", "sum", "mean", "max", "logsumexp")
    )
    sizes = sized(draw, 1, 2, 8192)
    reduces = ROWS[operator].reduces
    others = max(draw.operators - 1, 1)
    first = draw.rng.randint(0 if not reduces else 1, others)
    before = chain(draw, first, dtype, full="M, N", share=0.3)
    channel = None if reduces else ("dim", (("dim", "N"),))
    after = chain(
        draw, others - first, dtype, channel=channel, taken=before.taken, share=0.0 if reduces else 0.3
    )
    spelled = draw.pick(ROWS[operator].spellings)
    middle = Op(f"{operator}:rows", spelled, module=ROWS[operator].module)
    ops = [*before.ops, middle, *after.ops]
    ops[0] = replace(ops[0], inputs=(("x", tensor("M, N", dtype)), *ops[0].inputs))
    stage = rows(draw, f"fused_{operator}", operator, dtype, sizes["N"].full, before=before, after=after)
    return Design(tuple(ops), (stage,), sizes, dtype, draw.constants)


def _named(function: object, operator: str) -> object:
    return lambda draw: function(draw, operator)  # type: ignore[operator]


FAMILIES = (
    *(Family(f"{name}_over", "reduction", _named(reduction, name)) for name in ("sum", "mean", "max", "min")),  # type: ignore[arg-type]
    Family("prod_over", "reduction", product),
    Family("argmax", "reduction", _named(position, "argmax")),  # type: ignore[arg-type]
    Family("argmin", "reduction", _named(position, "argmin")),  # type: ignore[arg-type]
    *(
        Family(f"{name}_over", "reduction", _named(reduction, name))  # type: ignore[arg-type]
        for name in ("logsumexp", "norm", "var", "std")
    ),
    *(Family(name, "activation", _named(reduction, name)) for name in ("softmax", "log_softmax", "softmin")),  # type: ignore[arg-type]
    Family("row_fusion", "fusion", between, (2, 3, 4, 5)),
)
