"""Scans: sums and products so far, from either end, without the own element, of what a mask keeps."""

from __future__ import annotations

import functools
from collections.abc import Callable

from kernelwright.data.families.along import geometry
from kernelwright.data.families.spec import Design, Draw, Family, Op, Stage, kernel, launch, tensor

HELD = 8192


def scan(kind: str, draw: Draw) -> Design:
    """One scan over the last dimension, or the first or middle one."""
    rank = draw.pick((2, 2, 3))
    dim = draw.pick((rank - 1, rank - 1, rank - 2))
    last = dim == rank - 1
    sizes = {
        "M": draw.size((512, 2048, 4096, 16384, 32768), (4, 6), (5, 7)),
        "N": draw.size((512, 1000, 4096, 16384, 32768, 32768), (64, 128), (77, 101, 133)),
    }
    if not last:
        sizes["M"], sizes["N"] = (
            draw.size((128, 512, 1000), (12, 16), (13, 19)),
            draw.size((1024, 4096), (32,), (37, 43)),
        )
    if rank == 3:
        sizes["M"] = sizes["M"] if not last else draw.size((64, 128, 512), (3, 4), (5,))
        sizes = {"B": draw.size((4, 8, 16), (2,), (3,)), **sizes}
    shape = ", ".join(sizes)
    at = draw.pick((dim, dim - rank))
    numbers = draw.chance(0.5)
    d = "self.dim" if numbers else str(at)
    one = (("dim", str(at)),) if numbers else ()
    state = ("self.dim = dim",) if numbers else ()
    inputs = [("x", tensor(shape) if kind != "cumprod" else f"1.0 + 0.1 * torch.randn({shape})")]
    if kind == "masked":
        made = (
            f"torch.rand({shape}) > 0.5",
            f"torch.randn({shape}) > 0",
            f"torch.randint(0, 2, ({shape})).bool()",
            f"torch.randint(0, 2, ({shape}), dtype=torch.bool)",
        )
        inputs.append(("keep", draw.pick(made)))
        if draw.chance(0.1):
            inputs.reverse()
    spelled = {
        "cumsum": ("torch.cumsum({x}, dim=D)", "{x}.cumsum(dim=D)"),
        "cumprod": ("torch.cumprod({x}, dim=D)", "{x}.cumprod(dim=D)"),
        "reverse": (
            "torch.flip(torch.cumsum(torch.flip({x}, dims=(D,)), dim=D), dims=(D,))",
            "torch.cumsum({x}.flip(D), dim=D).flip(D)",
        ),
        "exclusive": (
            "torch.cat((torch.zeros_like(x.select(D, 0).unsqueeze(D)), x.narrow(D, 0, x.shape[D] - 1)), dim=D).cumsum(dim=D)",
            "torch.cat((torch.zeros_like(x.select(D, 0).unsqueeze(D)), x.narrow(D, 0, x.size(D) - 1).cumsum(dim=D)), dim=D)",
            "torch.roll(torch.cumsum(x, dim=D), 1, D).index_fill(D, torch.zeros(1, dtype=torch.long, device=x.device), 0.0)",
            "torch.cumsum(x, dim=D) - x",
            "torch.cat((torch.zeros_like(x.narrow(D, 0, 1)), torch.cumsum(x, dim=D).narrow(D, 0, x.shape[D] - 1)), dim=D)",
            "torch.cumsum(torch.cat((torch.zeros_like(x.narrow(D, 0, 1)), x.narrow(D, 0, x.shape[D] - 1)), dim=D), dim=D)",
        ),
        "masked": (
            "torch.cumsum(x * keep, dim=D)",
            "torch.cumsum(x * keep, dim=D)",
            "(x * keep).cumsum(dim=D)",
            "torch.cumsum(x * keep.float(), dim=D)",
            "torch.cumsum(x.masked_fill(~keep, 0.0), dim=D)",
            "torch.cumsum(torch.where(keep, x, torch.zeros_like(x)), dim=D)",
        ),
    }[kind]
    op = Op(
        f"{kind}:{'last' if last else 'inner'}", draw.pick(spelled).replace("D", d), state, one, tuple(inputs)
    )
    write = _rows if last else _inner
    stage = write(draw, kind, sizes["N"].full if last else 0, dim)
    return Design((op,), (stage,), sizes, "float32", draw.constants)


def _names(kind: str) -> tuple[str, list[str], list[str], list[tuple[str, str]], str]:
    """(name, pointers, arguments, host parameters, neutral element)."""
    name = {"reverse": "reverse_cumsum", "exclusive": "exclusive_cumsum", "masked": "masked_cumsum"}.get(
        kind, kind
    )
    pointers, arguments, takes = ["x_ptr"], ["x"], [("x", "{x}")]
    if kind == "masked":
        # The mask may be the first input.
        pointers, arguments, takes = (
            [*pointers, "keep_ptr"],
            [*arguments, "keep"],
            [("x", "x"), ("keep", "keep")],
        )
    return name, pointers, arguments, takes, "1.0" if kind == "cumprod" else "0.0"


def _rows(draw: Draw, kind: str, width: int, dim: int) -> Stage:
    """A program a row; long rows in tiles that hand on what was summed so far."""
    del dim
    name, pointers, arguments, takes, empty = _names(kind)
    walks = width > HELD or draw.tune.random() < (0.8 if draw.slow else 0.25)
    size = draw.tune.choice((256,) if draw.slow else (1024, 2048, 4096))
    block = draw.tile("BLOCK", (size,)) if walks else "triton.next_power_of_2(n)"
    warps = draw.tune.choice((4, 8)) if draw.slow or not walks else max(4, size // 512)
    load_at, store_at, mask = "row * n + cols", "row * n + cols", "cols < n"
    if kind == "reverse":
        load_at = store_at = "row * n + n - 1 - cols"
    load_mask = mask
    if kind == "exclusive":
        load_at, load_mask = "row * n + cols - 1", "(cols > 0) & (cols < n)"
    loads = [f"x = tl.load(x_ptr + {load_at}, mask={load_mask}, other={empty})"]
    if kind == "masked":
        loads = [
            f"keep = tl.load(keep_ptr + {load_at}, mask={mask}, other=0)",
            f"x = tl.load(x_ptr + {load_at}, mask=({mask}) & (keep != 0), other=0.0)",
        ]
    verb, join = ("tl.cumprod", "*") if kind == "cumprod" else ("tl.cumsum", "+")
    body = ["row = tl.program_id(0).to(tl.int64)"]
    if walks:
        body += [
            f"carry = {empty}",
            "for start in range(0, n, BLOCK):",
            "    i = tl.arange(0, BLOCK)",
            "    cols = start + i",
            *(f"    {line}" for line in loads),
            f"    y = {verb}(x, 0) {join} carry",
            f"    tl.store(y_ptr + {store_at}, y, mask={mask})",
            "    carry = tl.sum(tl.where(i == BLOCK - 1, y, 0.0), 0)",
        ]
    else:
        body += [
            "cols = tl.arange(0, BLOCK)",
            *loads,
            f"tl.store(y_ptr + {store_at}, {verb}(x, 0), mask={mask})",
        ]
    host = [
        "n = x.shape[-1]",
        "y = torch.empty_like(x)",
        *launch(
            f"{name}_kernel",
            "x.numel() // n,",
            [*arguments, "y", "n", f"BLOCK={block}", f"num_warps={warps}"],
        ),
        "return y",
    ]
    text = kernel(f"{name}_kernel", [*pointers, "y_ptr", "n", "BLOCK: tl.constexpr"], body)
    return Stage(name, (text,), tuple(takes), tuple(host))


def _inner(draw: Draw, kind: str, width: int, dim: int) -> Stage:
    """A program a block of columns, down the dimension in tiles that hand on what was summed so far."""
    del width
    name, pointers, arguments, takes, empty = _names(kind)
    block_r, block_i = draw.tile("BLOCK_R", (32,), (4,)), draw.tile("BLOCK_I", (64,), (16,))
    verb, join = ("tl.cumprod", "*") if kind == "cumprod" else ("tl.cumsum", "+")
    at = "base + r[:, None] * inner + i[None, :]"
    load_at, load_mask = "offs", "mask"
    if kind == "reverse":
        at = at.replace("r[:, None]", "(n - 1 - r)[:, None]")
    if kind == "exclusive":
        load_at, load_mask = "offs - inner", "mask & (r > 0)[:, None]"
    loads = []
    if kind == "masked":
        loads.append("    keep = tl.load(keep_ptr + offs, mask=mask, other=0)")
        load_mask = "mask & (keep != 0)"
    body = [
        "base = tl.program_id(1).to(tl.int64) * n * inner",
        "i = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I)",
        f"carry = tl.full([BLOCK_I], {empty}, tl.float32)",
        "for start in range(0, n, BLOCK_R):",
        "    r = start + tl.arange(0, BLOCK_R)",
        "    mask = (r < n)[:, None] & (i < inner)[None, :]",
        f"    offs = {at}",
        *loads,
        f"    x = tl.load(x_ptr + {load_at}, mask={load_mask}, other={empty})",
        f"    y = {verb}(x, 0) {join} carry[None, :]",
        "    tl.store(y_ptr + offs, y, mask=mask)",
        "    carry = tl.sum(tl.where((r == start + BLOCK_R - 1)[:, None], y, 0.0), 0)",
    ]
    passed = [*arguments, "y", "n", "inner", f"BLOCK_R={block_r}", f"BLOCK_I={block_i}"]
    host = [
        *geometry(dim),
        "y = torch.empty_like(x)",
        *launch(f"{name}_kernel", f"triton.cdiv(inner, {block_i}), outer", [*passed, draw.warps((4,), (1,))]),
        "return y",
    ]
    parameters = [*pointers, "y_ptr", "n", "inner", "BLOCK_R: tl.constexpr", "BLOCK_I: tl.constexpr"]
    text = kernel(f"{name}_kernel", parameters, body)
    return Stage(name, (text,), tuple(takes), tuple(host))


_DRAWS: dict[str, Callable[[Draw], Design]] = {
    name: functools.partial(scan, kind)
    for name, kind in (
        ("cumsum", "cumsum"),
        ("cumprod", "cumprod"),
        ("cumsum_reverse", "reverse"),
        ("cumsum_exclusive", "exclusive"),
        ("cumsum_masked", "masked"),
    )
}
FAMILIES = tuple(Family(name, "scan", draw) for name, draw in _DRAWS.items())
