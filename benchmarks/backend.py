"""Compares `torch.compile(backend="kernelwright")` with torch.compile on five blocks, forward and a training step, in bf16.

    python benchmarks/backend.py OUT [--search 40] [--only llama,vit] [--kinds forward,training,family] [--autotune] [--times 4]

Needs a GPU; writes OUT/backend.jsonl as it goes. `family` compiles once for free sizes and times other batches and lengths without
a new search. `--autotune` adds torch.compile in mode max-autotune-no-cudagraphs. `--times` multiplies the batch size: at the
sizes here, a training step of one block is bound by Python, in eager mode and torch.compile alike.

Times are medians of CUDA events over interleaved rounds of ten consecutive calls, as in a model of many layers; gradients are
compared with fp64, next to eager's own error.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import json
import logging
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from kernelwright.compile_backend import kernelwright_backend, last_report, use_source

ROUNDS, CALLS = 20, 10


class Llama(nn.Module):
    """A decoder layer: RMS norms, rotary embedding, grouped attention, a gated MLP."""

    def __init__(self, width: int = 2048, heads: int = 16, kv: int = 4, inner: int = 5632) -> None:
        super().__init__()
        self.heads, self.kv, self.size = heads, kv, width // heads
        self.n1, self.n2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, kv * self.size, bias=False) for _ in range(2))
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        h = self.n1(x)
        q, k, v = (
            layer(h).view(batch, length, -1, self.size).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        q, k = self._turned(q), self._turned(k)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(a.transpose(1, 2).reshape(batch, length, -1))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))

    def _turned(self, x: torch.Tensor) -> torch.Tensor:
        place = torch.arange(x.shape[-2], device=x.device).float()
        rate = 10000.0 ** (-torch.arange(0, self.size, 2, device=x.device).float() / self.size)
        angle = torch.outer(place, rate)
        cos, sin = (torch.cat([f(angle)] * 2, -1).to(x.dtype) for f in (torch.cos, torch.sin))
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat([-second, first], -1) * sin


class Vit(nn.Module):
    def __init__(self, width: int = 1024, heads: int = 16) -> None:
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.a, self.b = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.n1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(*parts.unbind(0)).transpose(1, 2).reshape(batch, length, width)
        x = x + self.o(a)
        return x + self.b(F.gelu(self.a(self.n2(x))))


class ConvNext(nn.Module):
    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.a, self.b = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.conv(x).permute(0, 2, 3, 1))
        return x + (self.b(F.gelu(self.a(h))) * self.scale).permute(0, 3, 1, 2)


class Bottleneck(nn.Module):
    def __init__(self, width: int = 256, inner: int = 64) -> None:
        super().__init__()
        self.a, self.b = (
            nn.Conv2d(width, inner, 1, bias=False),
            nn.Conv2d(inner, inner, 3, padding=1, bias=False),
        )
        self.c = nn.Conv2d(inner, width, 1, bias=False)
        self.n1, self.n2, self.n3 = nn.BatchNorm2d(inner), nn.BatchNorm2d(inner), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.n2(self.b(F.relu(self.n1(self.a(x))))))
        return F.relu(x + self.n3(self.c(h)))


class Diffusion(nn.Module):
    def __init__(self, width: int = 320) -> None:
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(32, width), nn.GroupNorm(32, width)
        self.a, self.b = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.time = nn.Linear(1280, width)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        h = self.a(F.silu(self.n1(x))) + self.time(F.silu(time))[:, :, None, None]
        return x + self.b(F.silu(self.n2(h)))


BLOCKS: dict[str, tuple[Callable[[], nn.Module], tuple[tuple[int, ...], ...]]] = {
    "llama": (Llama, ((2, 2048, 2048),)),
    "vit": (Vit, ((16, 577, 1024),)),
    "convnext": (ConvNext, ((32, 256, 56, 56),)),
    "bottleneck": (Bottleneck, ((64, 256, 56, 56),)),
    "diffusion": (Diffusion, ((8, 320, 64, 64), (8, 1280))),
}


def median_ms(calls: list[Callable[[], Any]]) -> list[float]:
    """Median time of each call."""
    return [statistics.median(kept) for kept in rounds_ms(calls)]


def rounds_ms(calls: list[Callable[[], Any]]) -> list[list[float]]:
    """Times of each call, over rounds in which the calls alternate."""
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(ROUNDS + 5):
        order = (
            range(len(calls)) if turn % 2 else reversed(range(len(calls)))
        )  # whichever runs second finds a warm cache
        for call, kept in ((calls[at], times[at]) for at in order):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(CALLS):
                call()
            end.record()
            end.synchronize()
            if turn >= 5:
                kept.append(begin.elapsed_time(end) / CALLS)
    return times


def peak_mib(call: Callable[[], Any]) -> float:
    """Peak memory of one call, beyond what was allocated before."""
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def step(module: Any, inputs: tuple[torch.Tensor, ...]) -> Callable[[], None]:
    def run() -> None:
        module(*inputs).square().mean().backward()

    return run


def forward(module: Any, inputs: tuple[torch.Tensor, ...]) -> Callable[[], None]:
    def run() -> None:
        with torch.no_grad():
            module(*inputs)

    return run


def gradient_error(made: nn.Module, exact: nn.Module) -> float:
    """Largest norm of a gradient's difference from fp64, relative to its norm."""
    return max(
        float((one.grad.double() - two.grad).norm() / two.grad.norm().clamp_min(1e-12))
        for one, two in zip(made.parameters(), exact.parameters(), strict=True)
        if one.grad is not None and two.grad is not None
    )


def variants(shapes: tuple[tuple[int, ...], ...]) -> list[tuple[tuple[int, ...], ...]]:
    """A twice as large batch, the same with a shorter sequence or a smaller image, the given batch, and both. No length is a width's, and
    no batch is 1: Dynamo takes equal sizes for one and compiles for 1 anew."""
    least = min(len(shape) for shape in shapes if len(shape) > 2)
    free = range(1, 2) if least == 3 else range(2, 4)

    def changed(shape: tuple[int, ...], batch: int, length: int) -> tuple[int, ...]:
        made = [shape[0] * batch, *shape[1:]]
        for at in free if len(shape) == least else ():
            made[at] = made[at] * length // 8
        return tuple(made)

    return [
        tuple(changed(shape, batch, length) for shape in shapes)
        for batch, length in ((2, 7), (1, 7), (2, 5), (1, 5))
    ]


def drawn(shapes: tuple[tuple[int, ...], ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes)


def family(base: nn.Module, shapes: tuple[tuple[int, ...], ...], search: float) -> list[dict[str, Any]]:
    """Forward at four sets of sizes, compiled once for free sizes; the search runs at the first set."""
    plain_of, ours_of = (copy.deepcopy(base).eval() for _ in range(2))
    plain = torch.compile(plain_of, dynamic=True)
    ours = torch.compile(ours_of, backend=kernelwright_backend, dynamic=True, options={"search": search})
    rows = []
    for sizes in variants(shapes):
        inputs = drawn(sizes)
        forward(plain, inputs)()
        began = time.perf_counter()
        forward(ours, inputs)()
        first = time.perf_counter() - began
        ms = median_ms([forward(plain, inputs), forward(ours, inputs)])
        report = last_report()
        rows.append({"sizes": sizes, "first_call_s": first, "compile_ms": ms[0], "ours_ms": ms[1],
                     "over_compile": ms[0] / ms[1], "kept": report.kept, "replaced": report.replaced,
                     "races": [dataclasses.asdict(race) for race in report.races]})  # fmt: skip
    return rows


def fixed(
    kind: str, base: nn.Module, inputs: tuple[torch.Tensor, ...], search: float, autotune: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A row for one kind of call at fixed sizes, and the modules that were called, by way."""
    prepare = {"forward": forward, "training": step}[kind]
    modules = [copy.deepcopy(base) for _ in range(4)]
    if kind == "forward":
        for one in modules:
            one.eval()
    made: dict[str, Any] = {"eager": modules[0], "compile": torch.compile(modules[1])}
    made["ours"] = torch.compile(modules[2], backend=kernelwright_backend, options={"search": search})
    if autotune:
        made["autotune"] = torch.compile(modules[3], mode="max-autotune-no-cudagraphs")
    seconds = {}
    for name, one in made.items():
        began = time.perf_counter()
        prepare(one, inputs)()
        seconds[name] = time.perf_counter() - began
    calls = {name: prepare(one, inputs) for name, one in made.items()}
    rounds = dict(zip(calls, rounds_ms(list(calls.values())), strict=True))
    ms = {name: statistics.median(kept) for name, kept in rounds.items()}
    report = last_report()
    row = {
        "ms": ms, "over": {name: ms[name] / ms["ours"] for name in ms if name != "ours"},
        "rounds": rounds,
        "peak_mib": {name: peak_mib(call) for name, call in calls.items()}, "compile_s": seconds,
        "groups": sum(len(one.groups) for one in report.graphs), "replaced": report.replaced,
        "choices": [(one.operators, one.replaced, one.why) for one in report.choices],
        "races": [(race.ours_ms, race.inductor_ms) for race in report.races], "kept": report.kept,
        "settings": report.settings,
    }  # fmt: skip
    return row, made


def measure(
    name: str, search: float, kinds: Sequence[str], autotune: bool, times: int
) -> Iterator[dict[str, Any]]:
    """Yield a row per kind when it is measured, so that a timeout loses only one kind."""
    make, shapes = BLOCKS[name]
    shapes = tuple((times * batch, *rest) for batch, *rest in shapes)
    torch.manual_seed(0)
    base = make().cuda().to(torch.bfloat16)
    inputs = drawn(shapes)
    for kind in kinds:
        row: dict[str, Any] = {"block": name, "gpu": torch.cuda.get_device_name(), "inputs": shapes}
        torch._dynamo.reset()
        use_source(None)
        if kind == "family":
            yield row | {kind: family(base, shapes, search)}
            continue
        row[kind], made = fixed(kind, base, inputs, search, autotune)
        if kind == "training":
            exact = copy.deepcopy(base).double()
            eager, ours = made["eager"], made["ours"]
            for one, given in ((eager, inputs), (ours, inputs), (exact, tuple(i.double() for i in inputs))):
                one.zero_grad()
                step(one, given)()
            row["gradients"] = {"eager": gradient_error(eager, exact), "ours": gradient_error(ours, exact)}
        yield row


def print_row(name: str, row: dict[str, Any]) -> None:
    for kind in ("forward", "training"):
        if kind in row:
            one = row[kind]
            times = "  ".join(f"{who} {ms:.3f}" for who, ms in one["ms"].items())
            print(
                f"{name:11s} {kind:9s} {times} ms  {one['over']['compile']:.3f}x  kept {one['kept']}  "
                f"replaced {len(one['replaced'])} of {one['groups']}  {one['compile_s']['ours']:.0f} s",
                flush=True,
            )
    for one in row.get("family", ()):
        print(
            f"{name:11s} {one['sizes']}  ours {one['ours_ms']:.3f} ms  {one['over_compile']:.3f}x  kept {one['kept']}  "
            f"first call {one['first_call_s']:.1f} s",
            flush=True,
        )
    if "gradients" in row:
        print(f"{name:11s} gradients {row['gradients']}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--search", type=float, default=40.0)
    parser.add_argument("--only", default=",".join(BLOCKS))
    parser.add_argument("--kinds", default="forward,training")
    parser.add_argument("--autotune", action="store_true")
    parser.add_argument("--times", type=int, default=1, help="batches so many times as large")
    args = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("kernelwright").setLevel(logging.INFO)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.only.split(","):
        for row in measure(name, args.search, args.kinds.split(","), args.autotune, args.times):
            with (args.out / "backend.jsonl").open("a") as lines:
                lines.write(json.dumps(row) + "\n")
            print_row(name, row)


if __name__ == "__main__":
    main()
