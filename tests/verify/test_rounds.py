"""Replayed loop rounds give the interpreter's values, operations, decisions and addresses; which loops are interpreted."""

import ast
import itertools
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from kernelwright.verify.interpret import interpreter, lean_triton
from kernelwright.verify.interpret.interpreter import Engine
from kernelwright.verify.interpret.linear_loops import linear_loops
from kernelwright.verify.interpret.rounds import Follower, Round, Rounds


@pytest.fixture(autouse=True)
def _lean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        lean_triton.semantic.TritonSemantic, "scalar_constant", lean_triton._constant, raising=True
    )

    monkeypatch.setattr(interpreter, "_is_known_loop", lambda frame: True)  # kernels of this file, too


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The loop variable in each replayed round."""
    seen: list[int] = []
    own = Follower.round
    monkeypatch.setattr(Follower, "round", lambda self, value: (seen.append(value), own(self, value))[1])
    return seen


@triton.jit
def _summed(total, x):
    return total + x


@triton.jit
def columns_kernel(x_ptr, out_ptr, n, m, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    in_rows = rows < m
    total = tl.full((ROWS, BLOCK), 0.0, tl.float32)
    for start in tl.range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)[None, :]
        x = tl.load(x_ptr + cols * m + rows, mask=(cols < n) & in_rows, other=0.0)
        total = _summed(total, tl.exp(x) / (1.0 + tl.exp(x)))
    tl.store(out_ptr + rows, tl.sum(total, axis=1, keep_dims=True), mask=in_rows)


@triton.jit
def parts_kernel(x_ptr, out_ptr, n, m, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    size = tl.cdiv(tl.cdiv(n, 2), BLOCK) * BLOCK
    end = tl.minimum(part * size + size, n)
    peak = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in tl.range(part * size, end, BLOCK):
        at = start + tl.arange(0, BLOCK)
        peak = tl.maximum(peak, tl.load(x_ptr + at, mask=at < end, other=float("-inf")))
    tl.store(out_ptr + part, tl.max(peak))


@triton.jit
def product_kernel(x_ptr, out_ptr, n, m, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inner = tl.arange(0, BLOCK)
    x_ptrs = x_ptr + rows[:, None] * n + inner[None, :]
    y_ptrs = x_ptr + inner[:, None] + rows[None, :] * n
    acc = tl.zeros((ROWS, ROWS), tl.float32)
    for k in range(tl.cdiv(n, BLOCK)):
        inside = inner < n - k * BLOCK
        x = tl.load(x_ptrs, mask=(rows[:, None] < m) & inside[None, :], other=0.0)
        y = tl.load(y_ptrs, mask=(rows[None, :] < m) & inside[:, None], other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee")
        x_ptrs += BLOCK
        y_ptrs += BLOCK
    tl.store(out_ptr + rows[:, None] * ROWS + tl.arange(0, ROWS)[None, :], acc, mask=rows[:, None] < m)


@triton.jit
def masked_kernel(x_ptr, out_ptr, n, m, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inner = tl.arange(0, BLOCK)
    x_ptrs = x_ptr + rows[:, None] * n + inner[None, :]
    y_ptrs = x_ptr + inner[:, None] + rows[None, :] * n
    acc = tl.zeros((ROWS, ROWS), tl.float32)
    for k in range(0, n, BLOCK):
        x = tl.load(x_ptrs, mask=(rows[:, None] < m) & (inner[None, :] < n - k), other=0.0)
        y = tl.load(y_ptrs, mask=(rows[None, :] < m) & (inner[:, None] < n - k), other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee")
        x_ptrs += BLOCK
        y_ptrs += BLOCK
    tl.store(out_ptr + rows[:, None] * ROWS + tl.arange(0, ROWS)[None, :], acc, mask=rows[:, None] < m)


@triton.jit
def late_kernel(x_ptr, out_ptr, n, m, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Each round takes what the one before loaded and counted, keeps what that had, and stores."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    late = tl.load(x_ptr + at)
    one, other = late, late + 1.0
    count = 0
    for i in range(n // BLOCK):
        now = tl.load(x_ptr + (at + i * BLOCK) % n)
        one, other = one + late * count, one
        count += 1
        late = now
        tl.store(out_ptr + i * m + at, one + late, mask=at < m)
    tl.store(out_ptr + n // BLOCK * m + at, other + late + count, mask=at < m)


@triton.jit
def older_kernel(x_ptr, out_ptr, n, m, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Each round takes what the one before the one before had."""
    one = tl.zeros((BLOCK,), tl.float32)
    other = one + 1.0
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        one, other = other, one + tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(one - other))


@triton.jit
def deciding_kernel(x_ptr, out_ptr, n, m, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        if start > n // 2:
            total += tl.load(
                x_ptr + start + tl.arange(0, BLOCK), mask=start + tl.arange(0, BLOCK) < n, other=0.0
            )
    tl.store(out_ptr + tl.program_id(0), tl.sum(total))


@triton.jit
def turning_kernel(x_ptr, out_ptr, n, m, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.load(x_ptr + start // 64 + tl.arange(0, BLOCK)) * (start % 7)
    tl.store(out_ptr + tl.program_id(0), tl.sum(total))


@triton.jit
def nested_kernel(x_ptr, out_ptr, n, m, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK * 16):
        for more in range(start, start + 16 * BLOCK, BLOCK):
            total += tl.load(
                x_ptr + more + tl.arange(0, BLOCK), mask=more + tl.arange(0, BLOCK) < n, other=0.0
            )
    tl.store(out_ptr + tl.program_id(0), tl.sum(total))


KERNELS = {
    "columns": (columns_kernel, 3, True),
    "parts": (parts_kernel, 3, True),
    "product": (product_kernel, 3, True),
    "masked": (masked_kernel, 3, True),
    "late": (late_kernel, 2, True),
    "older": (older_kernel, 2, False),
    "deciding": (deciding_kernel, 2, False),
    "turning": (turning_kernel, 2, False),
    "nested": (nested_kernel, 2, True),
}


def told(kernel: Any, grid: int, mode: str, races: bool) -> dict[str, Any]:
    torch.manual_seed(0)
    x, out = torch.randn(300 * 40), torch.zeros(40 * 40)
    engine = Engine(lambda launch: 1.0)
    engine.dice.seed(0)
    with engine.installed():
        engine.races = races
        if mode == "plan":
            engine.mode = "plan"
            engine.launch(kernel, (grid,), (x.to("meta"), out.to("meta"), 300, 33), {"ROWS": 16, "BLOCK": 16})
            (planned,) = engine.planned
            ways = [
                (route.recorded, route.members.tolist(), route.map.branches, route.map.fed_by,
                 [(one.kind, one.pointer, one.pointers.tolist(), one.shift.tolist(), one.itemsize, one.data,
                   route.map.classes(one.keys).tolist()) for one in route.map.accesses])
                for route in planned.routes
            ]  # fmt: skip
            return {"ways": ways, "does": planned.does, "steps": engine.planned_steps}
        for scale in (1.0, 0.5):  # recorded, then played
            engine.launch(kernel, (grid,), (x * scale, out, 300, 33), {"ROWS": 16, "BLOCK": 16})
        return {"out": out, "flops": engine.flops, "units": engine.units, "seen": engine.seen}


@pytest.mark.parametrize(("name", "mode", "races"), [
    *itertools.product(KERNELS, ("execute",), (False, True)), *itertools.product(KERNELS, ("plan",), (False,))
])  # fmt: skip
def test_what_follows_is_as_if_it_were_interpreted(
    name: str, mode: str, races: bool, followed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, grid, follows = KERNELS[name]
    fast = told(kernel, grid, mode, races)
    assert bool(followed) == follows
    monkeypatch.setattr(interpreter, "FEWEST", 1 << 40)
    slow = told(kernel, grid, mode, races)
    for key, value in slow.items():
        if isinstance(value, torch.Tensor):
            assert np.array_equal(fast[key].numpy(), value.numpy())
        else:
            assert fast[key] == value, key


@pytest.mark.parametrize(("line", "linear"), [
    ("at = i + tl.arange(0, B)", True), ("at = n - i * B", True), ("x += tl.load(p + i)", True), ("at = B - i", False),
    ("if 2.5 * i > 100.0: x += 1.0", False), ("if i * 2.5 > 100.0: x += 1.0", True), ("if 0.5 < i: x += 1.0", False),
    ("x += max(i, 2.5)", False), ("x += helper(i)", False), ("a, b = 2.5, i", True), ("a, b = 2.5, 1\n        y = a * i", False),
    ("i += 1", False), ("y = (SCALE := 2.5) * i", False), ("x *= i", True), ("x += p[None, :] < n - i", True), ("x += p[0] < i", False), ("x += p[0, None] < i", False),
])  # fmt: skip
def test_a_loop_is_told_where_no_float_stands_left_of_its_variable(line: str, linear: bool) -> None:
    text = f"def kernel(p, n, B: tl.constexpr):\n    x = 0.0\n    for i in range(n):\n        {line}\n"
    (tree,) = ast.parse(text).body
    assert isinstance(tree, ast.FunctionDef)
    assert bool(linear_loops(tree)) == linear


def test_a_variable_that_is_asked_for_more_is_lost() -> None:
    asked: list[Any] = [
        lambda i: i // 2, lambda i: i % 2, lambda i: i & 1, lambda i: bool(i), lambda i: i == 8, lambda i: i > 12,
        lambda i: i * 0.5, lambda i: i + True + 0.5, lambda i: float(i), lambda i: int(i), lambda i: hash(i), lambda i: f"{i}",
        lambda i: -i << 1, lambda i: abs(i), lambda i: divmod(i, 3), lambda i: i * i, lambda i: i in (8, 9), lambda i: i**2,
        lambda i: 3 // i, lambda i: 1 if i else 0, lambda i: min(i, 12), lambda i: i.bit_length(), lambda i: round(i),
    ]  # fmt: skip
    free: list[Any] = [
        lambda i: i + 1, lambda i: 5 - i * 3, lambda i: -i + True, lambda i: i < 100, lambda i: i == 200, lambda i: i >= 0,
        lambda i: tl.constexpr(4) * i + i,
    ]  # fmt: skip
    for ask in (*asked, *free):
        loop = Rounds(None, range(0, 64, 4))  # type: ignore[arg-type]
        loop.value = 8
        ask(Round.made(loop, 1, 0))
        assert loop.lost == (ask in asked)
