"""Losses: a number for each element or row, and their mean or sum in a second kernel, in a fixed order."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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

MOST = (1024, 2048)
"""Programs that sum a long tensor: on an H200 512 take 1.3 times as long."""


@dataclass(frozen=True)
class Pointwise:
    """A loss whose every element is a formula over `p` and `t`."""

    spellings: tuple[str, ...]
    lines: tuple[str, ...]
    """Kernel lines that set `loss`."""
    target: str = "randn"
    helpers: tuple[str, ...] = ()
    broadcast: tuple[str, ...] = ()
    """Spellings that take a target of fewer elements."""


HINGES = (
    "torch.{m}(torch.clamp(1 - pred * target, min=0))",
    "torch.{m}(torch.clamp(1 - pred * target, min=0))",
    "torch.{m}(F.relu(1.0 - pred * target))",
)
ELEMENTS = {
    "mse": Pointwise(
        ("F.mse_loss(pred, target{r})", "torch.{m}((pred - target) ** 2)"),
        ("d = p - t", "loss = d * d"),
        broadcast=("torch.{m}((pred - target) ** 2)", "((pred - target) ** 2).{m}()"),
    ),
    "l1": Pointwise(
        ("F.l1_loss(pred, target{r})", "torch.{m}(torch.abs(pred - target))"),
        ("loss = tl.abs(p - t)",),
        broadcast=("torch.{m}(torch.abs(pred - target))", "(pred - target).abs().{m}()"),
    ),
    "smooth_l1": Pointwise(
        ("F.smooth_l1_loss(pred, target{r}, beta={c})",),
        ("d = tl.abs(p - t)", "loss = tl.where(d < {c}, 0.5 * d * d / {c}, d - 0.5 * {c})"),
    ),
    "huber": Pointwise(
        ("F.huber_loss(pred, target{r}, delta={c})",),
        ("d = tl.abs(p - t)", "loss = tl.where(d <= {c}, 0.5 * d * d, {c} * (d - 0.5 * {c}))"),
    ),
    "bce_logits": Pointwise(
        ("F.binary_cross_entropy_with_logits(pred, target{r})",),
        ("loss = tl.maximum(p, 0.0) - p * t + log1p(tl.exp(-tl.abs(p)))",),
        "rand",
        ("log1p",),
    ),
    "hinge": Pointwise(
        HINGES,
        ("loss = tl.maximum(1.0 - p * t, 0.0)",),
        "sign",
        broadcast=HINGES,
    ),
    "squared_hinge": Pointwise(
        ("torch.{m}(torch.clamp(1 - pred * target, min=0) ** 2)",),
        ("d = tl.maximum(1.0 - p * t, 0.0)", "loss = d * d"),
        "sign",
        broadcast=("torch.{m}(torch.clamp(1 - pred * target, min=0) ** 2)",),
    ),
    "log_cosh": Pointwise(
        ("torch.{m}(torch.log(torch.cosh(pred - target)))",),
        (
            "d = tl.abs(p - t)",
            "s = d * d",
            "series = s * (0.5 - s * (1 / 12 - s * (1 / 45 - s * 17 / 2520)))",
            "loss = tl.where(d < 0.25, series, d + log1p(tl.exp(-2.0 * d)) - 0.69314718)",
        ),
        "randn",
        ("log1p",),
        ("torch.{m}(torch.log(torch.cosh(pred - target)))",),
    ),
}
LARGEST = 2**30
"""Elements of the largest input."""


def finisher() -> str:
    """The kernel that adds parts: one program, in order, so that the sum is the same on every run."""
    return kernel(
        "finish_kernel",
        ["parts_ptr", "out_ptr", "count", "divisor", "BLOCK: tl.constexpr"],
        [
            "total = tl.zeros([BLOCK], dtype=tl.float32)",
            "for start in range(0, count, BLOCK):",
            "    offs = start + tl.arange(0, BLOCK)",
            "    total += tl.load(parts_ptr + offs, mask=offs < count, other=0.0)",
            "tl.store(out_ptr, tl.sum(total, 0) / divisor)",
        ],
    )


def finish(draw: Draw, parts: str, count: str, divisor: str) -> list[str]:
    return launch(
        "finish_kernel", "1,", [parts, "out", count, divisor, f"BLOCK={draw.tune.choice((256, 512, 1024))}"]
    )


def in_parts(
    name: str, first: str, columns: str, given: Sequence[str], block: str, most: int, warps: str
) -> list[str]:
    """Host lines that have up to `most` programs leave a part each of what they make of all of `first`. `columns` says how long
    its rows are, where the kernel needs that."""
    counts = ["n"] * bool(columns)
    return [
        f"size = {first}.numel()",
        *(f"{count} = {columns}" for count in counts),
        f"programs = min({most}, triton.cdiv(size, {block}))",
        f"parts = torch.empty(programs, device={first}.device, dtype=torch.float32)",
        f"out = torch.empty((), device={first}.device, dtype={first}.dtype)",
        *launch(f"{name}_kernel", "programs,", [*given, "parts", "size", *counts, f"BLOCK={block}", warps]),
    ]


def elementwise(name: str, draw: Draw) -> Design:
    """A loss by elements: each program sums its share of them. The target may have one value a column, or one a row."""
    loss = ELEMENTS[name]
    dtype: Dtype = draw.dtype(0.15) if name in ("mse", "l1") else "float32"
    mean = draw.chance(0.8)
    sizes = _capped(
        {
            "M": draw.size((128, 1024, 4096, 8192, 16384, 32768), (6, 8), (7, 9)),
            "N": draw.size((1024, 4096, 8192, 10000, 16384, 32768), (64, 128), (101, 133, 203)),
        }
    )
    c = draw.pick(("0.5", "1.0", "2.0"))
    hinges = loss.target == "sign"
    reach = draw.pick(("columns", "columns", "rows")) if draw.chance(0.6 if hinges else 0.3) else ""
    reach = reach if loss.broadcast else ""
    spelling = draw.pick(loss.broadcast if reach else loss.spellings)
    spelling = spelling.replace("{r}", "" if mean else ', reduction="sum"').replace(
        "{m}", "mean" if mean else "sum"
    )
    shape = "M, N"
    if hinges and not reach and draw.chance(0.5):
        shape = "M"
        sizes = {"M": draw.size((32768, 1048576, 4194304), (256,), (389, 533))}
    if reach == "columns" and draw.chance(0.4):
        # As many rows as columns: only the rule of broadcasting says which the target's are.
        side = draw.pick((4096, 8192, 16384, 32768))
        sizes = {key: size._replace(full=side) for key, size in sizes.items()}
    given = {"": shape, "columns": draw.pick(("N", "N", "1, N")), "rows": "M, 1"}[reach]
    tuple_ = f"({given},)" if "," not in given else f"({given})"
    made = {
        "randn": tensor(given, dtype),
        "rand": f"torch.rand({given})",
        "sign": draw.pick(
            (f"torch.randint(0, 2, {tuple_}).float() * 2 - 1", f"torch.sign(torch.randn({given}))")
        ),
    }[loss.target]
    inputs = (("pred", f"{tensor(shape, dtype)} * (0.5 + torch.rand(1))"), ("target", made))
    if dtype != "float32":
        inputs = (("pred", tensor(shape, dtype)), ("target", made))
    op = Op(
        f"{name}:{'mean' if mean else 'sum'}{f',{reach}' * bool(reach)}",
        spelling.replace("{c}", c),
        inputs=inputs,
    )
    lines = [line.replace("{c}", c) for line in loss.lines]
    stage = _summed(draw, name, lines, "size" if mean else "1", reach, dtype, loss.helpers)
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def _summed(
    draw: Draw,
    name: str,
    lines: Sequence[str],
    divisor: str,
    reach: str = "",
    dtype: Dtype = "float32",
    helpers: tuple[str, ...] = (),
) -> Stage:
    """The sum of what `lines` make of `p` and `t`, over `divisor`, which may be `size` or `rows`. `reach` says what targets have
    one value for."""
    block, most = draw.tile("BLOCK", (1024, 2048), (128, 256)), 256 if draw.slow else draw.tune.choice(MOST)
    wide = widened(dtype)
    at = {"": "offs", "columns": "offs % n", "rows": "offs // n"}[reach]
    counts = ["n"] * bool(reach)
    body = [
        "total = tl.zeros([BLOCK], dtype=tl.float32)",
        "for start in range(tl.program_id(0) * BLOCK, size, tl.num_programs(0) * BLOCK):",
        "    offs = start + tl.arange(0, BLOCK)",
        "    mask = offs < size",
        f"    p = tl.load(pred_ptr + offs, mask=mask, other=0.0){wide}",
        f"    t = tl.load(target_ptr + {at}, mask=mask, other=0.0){wide}",
        *(f"    {line}" for line in lines),
        "    total += tl.where(mask, loss, 0.0)",
        "tl.store(parts_ptr + tl.program_id(0), tl.sum(total, 0))",
    ]
    text = kernel(
        f"{name}_kernel",
        ["pred_ptr", "target_ptr", "parts_ptr", "size", *counts, "BLOCK: tl.constexpr"],
        body,
    )
    columns, warps = "pred.shape[1]" if reach else "", draw.warps((4, 8), (1,))
    host = [
        *in_parts(name, "pred", columns, ("pred", "target"), block, most, warps),
        *finish(draw, "parts", "programs", {"rows": "pred.shape[0]"}.get(divisor, divisor)),
        "return out",
    ]
    return Stage(
        f"{name}_loss",
        (text, finisher()),
        (("pred", "pred"), ("target", "target")),
        tuple(host),
        helpers,
    )


def _by_row(
    draw: Draw,
    name: str,
    op: Op,
    sizes: dict[str, Size],
    pointers: tuple[str, ...],
    body: list[str],
    width: int,
    divisor: str = "rows",
    numbers: tuple[str, ...] = (),
    dtype: Dtype = "float32",
) -> Design:
    """A loss by rows: `body` sets `loss` for `row` of `n` columns, `cols` and `mask`, held at once."""
    first = pointers[0]
    warps = 16 if width > 16384 else draw.tune.choice((4, 8) if width > 1024 else (1, 2, 4))
    lines = [
        "row = tl.program_id(0).to(tl.int64)",
        "cols = tl.arange(0, BLOCK)",
        "mask = cols < n",
        *body,
        "tl.store(parts_ptr + row, loss)",
    ]
    parameters = [*(f"{p}_ptr" for p in pointers), "parts_ptr", "n", "BLOCK: tl.constexpr"]
    passed = [*pointers, "parts", "n", "BLOCK=triton.next_power_of_2(n)", f"num_warps={warps}"]
    host = [
        f"rows, n = {first}.shape",
        f"parts = torch.empty(rows, device={first}.device, dtype=torch.float32)",
        f"out = torch.empty((), device={first}.device, dtype={first}.dtype)",
        *launch(f"{name}_kernel", "rows,", passed),
        *finish(draw, "parts", "rows", divisor),
        "return out",
    ]
    del numbers
    stage = Stage(
        f"{name}_loss",
        (kernel(f"{name}_kernel", parameters, lines), finisher()),
        tuple((p, p) for p in pointers),
        tuple(host),
    )
    return Design((op,), (stage,), sizes, dtype, draw.constants)


def _capped(sizes: dict[str, Size]) -> dict[str, Size]:
    """The sizes with the first halved till there are at most `LARGEST` elements."""
    first = next(iter(sizes))
    found = dict(sizes)
    while math.prod(size.full for size in found.values()) > LARGEST:
        found[first] = found[first]._replace(full=found[first].full // 2)
    return found


def _matrix(draw: Draw) -> dict[str, Size]:
    return _capped(
        {
            "B": draw.size((512, 2048, 4096, 8192, 16384, 32768), (6, 8), (7, 9)),
            "N": draw.size((512, 1000, 2048, 4096, 8192, 16384, 32768), (48, 64), (67, 83)),
        }
    )


LOGITS = [
    'x = tl.load(logits_ptr + row * n + cols, mask=mask, other=-float("inf"))',
    "peak = tl.max(x, 0)",
    "log_sum = tl.log(tl.sum(tl.exp(x - peak), 0)) + peak",
]


def cross_entropy(draw: Draw) -> Design:
    """Logits against classes; also with label smoothing."""
    sizes = {
        "B": draw.size((512, 2048, 4096, 16384, 32768), (6, 8), (7, 9)),
        "V": draw.size((10, 100, 1000, 4096, 8192, 32000), (48, 64), (67, 83)),
    }
    smooth = draw.chance(0.25)
    spelled = "F.cross_entropy(logits, target)"
    state: tuple[str, ...] = ()
    extra = ", label_smoothing=0.1" if smooth else ""
    if draw.chance(0.3):
        state, spelled = (f"self.loss = nn.CrossEntropyLoss({extra[2:]})",), "self.loss(logits, target)"
    elif smooth:
        spelled = spelled.replace(")", f"{extra})")
    op = Op(
        f"cross_entropy{':smooth' if smooth else ''}",
        spelled,
        state,
        inputs=(
            ("logits", "torch.randn(B, V) * (1.0 + 2.0 * torch.rand(1))"),
            ("target", "torch.randint(0, V, (B,))"),
        ),
    )
    picked = "tl.load(logits_ptr + row * n + tl.load(target_ptr + row))"
    body = [*LOGITS, f"loss = log_sum - {picked}"]
    if smooth:
        body = [
            *LOGITS,
            "mean = tl.sum(tl.where(mask, x, 0.0), 0) / n",
            f"loss = log_sum - 0.9 * {picked} - 0.1 * mean",
        ]
    return _by_row(draw, "cross_entropy", op, sizes, ("logits", "target"), body, sizes["V"].full)


def nll(draw: Draw) -> Design:
    """Negative log-likelihood of a log-softmax."""
    sizes = _matrix(draw)
    spelled = draw.pick(
        (
            "F.nll_loss(F.log_softmax(logits, dim=1), target)",
            "F.nll_loss(torch.log_softmax(logits, dim=-1), target)",
        )
    )
    inputs = (
        ("logits", "torch.randn(B, N) * (1.0 + torch.rand(1))"),
        ("target", "torch.randint(0, N, (B,))"),
    )
    op = Op("cross_entropy:nll", spelled, inputs=inputs)
    body = [*LOGITS, "loss = log_sum - tl.load(logits_ptr + row * n + tl.load(target_ptr + row))"]
    return _by_row(draw, "nll", op, sizes, ("logits", "target"), body, sizes["N"].full)


def kl_div(draw: Draw) -> Design:
    """The divergence of distributions, or of the softmax of logits."""
    sizes = _matrix(draw)
    logits = draw.chance(0.5)
    one = not logits and draw.chance(0.25)
    if logits:
        spelled = 'F.kl_div(F.log_softmax(pred, dim=-1), F.softmax(target, dim=-1), reduction="batchmean")'
        inputs = (("pred", "torch.randn(B, N) * (0.5 + torch.rand(1))"), ("target", "torch.randn(B, N)"))
        body = [
            'p = tl.load(pred_ptr + row * n + cols, mask=mask, other=-float("inf"))',
            't = tl.load(target_ptr + row * n + cols, mask=mask, other=-float("inf"))',
            "p_peak = tl.max(p, 0)",
            "t_peak = tl.max(t, 0)",
            "p_sum = tl.sum(tl.exp(p - p_peak), 0)",
            "t_exp = tl.exp(t - t_peak)",
            "t_sum = tl.sum(t_exp, 0)",
            "gap = (t - t_peak - tl.log(t_sum)) - (p - p_peak - tl.log(p_sum))",
            "loss = tl.sum(tl.where(mask, t_exp / t_sum * gap, 0.0), 0)",
        ]
    else:
        spelled = 'F.kl_div(torch.log(pred), target, reduction="batchmean")'
        given = "N" if one else "B, N"
        inputs = (
            ("pred", "torch.randn(B, N).softmax(dim=-1)"),
            ("target", f"(torch.randn({given}) * (0.5 + torch.rand(1))).softmax(dim=-1)"),
        )
    op = Op(f"kl_div:{'logits' if logits else 'probabilities'}{',one target' * one}", spelled, inputs=inputs)
    if logits:
        return _by_row(draw, "kl_div", op, sizes, ("pred", "target"), body, sizes["N"].full)
    # Whole rows of 16,384 in registers took an H200 3.4 times as long as the memory does; sums over all take 1.05 times.
    lines = ["loss = t * (tl.log(t) - tl.log(p))"]
    stage = _summed(draw, "kl_div", lines, "rows", "columns" if one else "")
    return Design((op,), (stage,), sizes, "float32", draw.constants)


def cosine(draw: Draw) -> Design:
    """One minus the cosine of two rows."""
    sizes = _matrix(draw)
    spelled = draw.pick(
        (
            "torch.mean(1 - F.cosine_similarity(pred, target, dim=1))",
            "(1.0 - F.cosine_similarity(pred, target, dim=-1)).mean()",
            "1 - F.cosine_similarity(pred, target, dim=1).mean()",
        )
    )
    one = draw.chance(0.25)
    op = Op(
        f"cosine_loss{':one target' * one}",
        spelled,
        inputs=(("pred", "torch.randn(B, N)"), ("target", f"torch.randn({'1' if one else 'B'}, N)")),
    )
    body = [
        "p = tl.load(pred_ptr + row * n + cols, mask=mask, other=0.0)",
        f"t = tl.load(target_ptr + {'' if one else 'row * n + '}cols, mask=mask, other=0.0)",
        "norms = tl.maximum(tl.sqrt(tl.sum(p * p, 0)), 1e-8) * tl.maximum(tl.sqrt(tl.sum(t * t, 0)), 1e-8)",
        "loss = 1.0 - tl.sum(p * t, 0) / norms",
    ]
    return _by_row(draw, "cosine", op, sizes, ("pred", "target"), body, sizes["N"].full)


def triplet(draw: Draw) -> Design:
    """Distance to the positive less distance to the negative, with a margin."""
    sizes = _matrix(draw)
    margin = draw.pick(("0.5", "1.0", "2.0"))
    spelled, state, init = f"F.triplet_margin_loss(anchor, positive, negative, margin={margin})", (), ()  # type: tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]
    if draw.chance(0.5):
        spelled, state, init = (
            "self.loss(anchor, positive, negative)",
            ("self.loss = nn.TripletMarginLoss(margin=margin)",),
            (("margin", margin),),
        )
    names = ("anchor", "positive", "negative")
    op = Op("triplet_loss", spelled, state, init, tuple((name, "torch.randn(B, N)") for name in names))
    body = [
        *(f"{name[0]} = tl.load({name}_ptr + row * n + cols, mask=mask, other=0.0)" for name in names),
        "near = tl.where(mask, a - p + 1e-6, 0.0)",
        "far = tl.where(mask, a - n_ + 1e-6, 0.0)",
        f"loss = tl.maximum(tl.sqrt(tl.sum(near * near, 0)) - tl.sqrt(tl.sum(far * far, 0)) + {margin}, 0.0)",
    ]
    body[2] = body[2].replace("n = ", "n_ = ", 1)
    return _by_row(draw, "triplet", op, sizes, names, body, sizes["N"].full)


_DRAWS: dict[str, Callable[[Draw], Design]] = {
    **{f"{name}_loss": functools.partial(elementwise, name) for name in ELEMENTS},
    "cross_entropy": cross_entropy,
    "nll_loss": nll,
    "kl_div": kl_div,
    "cosine_loss": cosine,
    "triplet_loss": triplet,
}
FAMILIES = tuple(Family(name, "loss", draw) for name, draw in _DRAWS.items())
