"""Instances played from a recording give the interpreter's values, counts and checks; other launches are not confused with them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.interpreter import TensorHandle

from kernelwright.verify.interpret import lean_triton
from kernelwright.verify.interpret.abreast import Abreast, Alone
from kernelwright.verify.interpret.endings import KernelError
from kernelwright.verify.interpret.interpreter import Engine
from kernelwright.verify.interpret.memory import OutOfBounds
from kernelwright.verify.interpret.races import Race, Races
from kernelwright.verify.interpret.recording import Instances, Recording, Step


@pytest.fixture
def engine() -> Iterator[Engine]:
    torch.manual_seed(0)
    made = Engine(lambda launch: 1.0)
    with made.installed():
        yield made


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each attempt to play a recording succeeded."""
    seen: list[bool] = []
    own = Recording._all_of

    def play(self: Recording, steps: list[Step]) -> bool:
        seen.append(own(self, steps))
        return seen[-1]

    many = Abreast.play

    def play_many(self: Abreast, placed: list[Any] | None) -> list[Any]:
        made = many(self, placed)
        seen.extend([True] * self.count)
        return made

    monkeypatch.setattr(Recording, "_all_of", play)
    monkeypatch.setattr(Abreast, "play", play_many)
    return seen


def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Instances, "run", lambda self, body, arguments: body(**arguments))


@triton.jit
def _twice(x):
    return x + x


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def everything_kernel(x_ptr, y_ptr, out_ptr, n, scale, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    most = tl.full([BLOCK], -float("inf"), tl.float32)
    for start in range(part * BLOCK, n, PARTS * BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)
        y = tl.load(y_ptr + cols, mask=cols < n, other=1.0).to(tl.float16).to(tl.float32)
        z = tl.where(x > 0, _twice(x) * y, tl.exp(x) / 3.0)
        total += tl.where(cols < n, z, 0.0)
        most = tl.maximum(most, tl.where(cols < n, z, -float("inf")))
    if part % 2 == 0:
        total = total * scale
    sums = tl.cumsum(total, 0)
    both = tl.sum(sums, 0) + tl.reduce(most, 0, _larger) + tl.argmax(total, 0)
    tl.store(out_ptr + row * PARTS + part, both)


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, M, K, N, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        b = tl.load(b_ptr + n[:, None] * K + k[None, :], mask=(n < N)[:, None] & (k < K)[None, :], other=0.0)
        acc = tl.dot(a, tl.trans(b), acc, input_precision="ieee")
    mask = (m < M)[:, None] & (n < N)[None, :]
    tl.store(c_ptr + m[:, None] * N + n[None, :], acc, mask=mask)


@pytest.mark.parametrize("races", [False, True])
def test_values_and_counts_are_those_of_the_interpreter(
    engine: Engine, played: list[bool], races: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = torch.randn(7, 300), torch.rand(300)
    a, b = torch.randn(50, 40), torch.randn(45, 40)
    found = []
    for number in range(2):
        if number:
            interpreted(monkeypatch)
        out, c = torch.full((7, 4), float("nan")), torch.full((50, 45), float("nan"))
        engine.races, engine.flops, engine.launches = races, 0.0, []
        for _ in range(2):  # the second time, from the recording of the first
            engine.launch(everything_kernel, (7, 4), (x, y, out, 300, 0.3), {"BLOCK": 32, "PARTS": 4})
            engine.launch(product_kernel, (4, 3), (a, b, c, 50, 40, 45), {"BLOCK": 16})
        found.append((out, c, engine.flops, set(engine.units)))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
    assert found[0][2:] == found[1][2:]
    assert played.count(True) >= 60
    torch.testing.assert_close(found[0][1], a @ b.T)


@triton.jit
def loss_kernel(x_ptr, half_ptr, loss_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=0.0)
    tl.store(half_ptr + row * n + at, x / 2.0, mask=at < n)
    tl.atomic_add(loss_ptr, tl.sum(x * x) / n)


@triton.jit
def handed_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Each program stores, and reads what it stored."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at) + n)
    tl.store(x_ptr + at, tl.load(out_ptr + at) * 2.0)


@pytest.mark.parametrize("races", [False, True])
def test_instances_abreast_do_what_they_do_one_by_one(
    engine: Engine, races: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(20, 30)
    found = []
    for number in range(2):
        if number:
            monkeypatch.setattr(Abreast, "play", lambda self, placed: (_ for _ in ()).throw(Alone))
        loss, half, y, out = torch.zeros(1), torch.zeros(20, 30), torch.randn(64).round(), torch.zeros(64)
        engine.races, engine.flops, engine.launches = races, 0.0, []
        for _ in range(3):
            engine.launch(loss_kernel, (20,), (x, half, loss, 30), {"BLOCK": 32})
            y.copy_(torch.arange(64))
            engine.launch(handed_kernel, (8,), (y, out, 3), {"BLOCK": 8})
        found.append((loss, half, y, out, engine.flops))
    assert found[0][-1] == found[1][-1]
    for one, other in zip(found[0][:-1], found[1][:-1], strict=True):
        assert torch.equal(one, other)
    assert torch.equal(found[0][1], x / 2.0)


@triton.jit
def least_and_place(one, at, other, there):
    take = (other < one) | ((other == one) & (there < at))
    return tl.where(take, other, one), tl.where(take, there, at)


@triton.jit
def decayed(a, x, b, y):
    return a * b, x * b + y


@triton.jit
def combined_kernel(x_ptr, out_ptr, least_ptr, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=9.0)
    _, y = tl.associative_scan((x * 0.0 + 0.5, x), 0, decayed, reverse=True)
    least, place = tl.reduce((x, at), 0, least_and_place)
    tl.store(out_ptr + row * n + at, tl.gather(y, at ^ 1, 0), mask=at < n)
    square = tl.reshape(x, (BLOCK // 4, 4))
    tops, _ = tl.reduce((square, square), 1, least_and_place, keep_dims=True)
    tl.store(least_ptr + row, least + place + tl.sum(tl.sum(tops, 1), 0))


def test_functions_of_a_kernels_own_are_combined_for_all_instances_at_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, found = torch.randn(11, 30), list[tuple[torch.Tensor, torch.Tensor]]()
    calls, own = list[object](), Abreast._combined
    for alone in (False, True):
        monkeypatch.setattr(Abreast, "_combined", lambda *given: calls.append(own(*given)) or calls[-1])
        if alone:
            monkeypatch.setattr(Abreast, "play", lambda self, placed: (_ for _ in ()).throw(Alone))
        out, least = torch.zeros(11, 30), torch.zeros(11)
        for _ in range(2):
            engine.launch(combined_kernel, (11,), (x, out, least.zero_(), 30), {"BLOCK": 32})
        found.append((out, least))
        monkeypatch.undo()
    assert sum(one is not None for one in calls) >= 3
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


@triton.jit
def branch_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0)
    if tl.load(x_ptr + at) > 0.0:
        tl.store(out_ptr + at, 1.0)
    else:
        tl.store(out_ptr + at, tl.load(x_ptr + at) * 2.0)


@triton.jit
def late_branch_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0)
    x = tl.load(x_ptr + at)
    tl.store(x_ptr + at, x + 1.0)
    if x > 0.0:
        tl.store(out_ptr + at, 1.0)
    else:
        tl.store(out_ptr + at, x)


@triton.jit
def turned_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    rows, cols = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    base = tl.program_id(0) * BLOCK * BLOCK
    x = tl.load(x_ptr + base + rows[:, None] * BLOCK + cols[None, :])
    tl.store(out_ptr + base + rows[:, None] * BLOCK + cols[None, :], x.T)


def test_values_that_decide_are_each_instances_own(engine: Engine, played: list[bool]) -> None:
    x = torch.randn(40)
    for kernel in (branch_kernel, late_branch_kernel):
        own, out = x.clone(), torch.zeros(40)
        engine.launch(kernel, (40,), (own, out), {"BLOCK": 1})
        expected = torch.where(x > 0, 1.0, 2.0 * x if kernel is branch_kernel else x)
        assert torch.equal(out, expected)
    assert True in played


def test_what_is_made_where_nobody_looks_is_interpreted(engine: Engine, played: list[bool]) -> None:
    x, out = torch.randn(6, 4, 4), torch.zeros(6, 4, 4)
    engine.launch(turned_kernel, (6,), (x, out), {"BLOCK": 4})
    assert torch.equal(out, x.transpose(1, 2))
    assert played == []


def test_other_arguments_are_another_launch(engine: Engine) -> None:
    x = torch.randn(4, 96)
    for n in (96, 64, 33):
        out, y = torch.zeros(4, 2), torch.rand(96)
        engine.launch(everything_kernel, (4, 2), (x, y, out, n, 1.0), {"BLOCK": 32, "PARTS": 2})
        again = torch.zeros(4, 2)
        other = Engine(lambda launch: 1.0)
        engine.uninstall()
        with other.installed():
            other.launch(everything_kernel, (4, 2), (x, y, again, n, 1.0), {"BLOCK": 32, "PARTS": 2})
        engine.install()
        assert torch.equal(out, again)


@triton.jit
def parts_kernel(x_ptr, out_ptr, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    size = tl.cdiv(tl.cdiv(n, PARTS), BLOCK) * BLOCK
    begin = tl.program_id(0) * size
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in tl.range(begin, tl.minimum(begin + size, n), BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(total))


def test_parts_of_as_many_rounds_take_one_way(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Recording] = []
    own = Recording.settle
    monkeypatch.setattr(Recording, "settle", lambda self: (made.append(self), own(self))[1])
    for _ in range(3):  # recorded, played, resumed, each on other values
        x, out = torch.randn(1000), torch.full((100,), float("nan"))
        engine.launch(parts_kernel, (100,), (x, out, 1000), {"PARTS": 100, "BLOCK": 8})
        parts = torch.nn.functional.pad(x, (0, 600)).reshape(100, 16).sum(1)
        torch.testing.assert_close(out, parts)
    assert len(made) == 3  # with two rounds, with the last part's one, with none
    assert engine.instances._held > 0


@triton.jit
def unmasked_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0))


@triton.jit
def sure_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.multiple_of(tl.program_id(0) * tl.program_id(0) * 2, 8)
    tl.store(out_ptr + at, tl.load(x_ptr + at))


@triton.jit
def shared_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0)
    tl.store(out_ptr + at // 2, tl.load(x_ptr + at))


def test_the_checks_are_each_instances_own(engine: Engine) -> None:
    x = torch.randn(100)
    with pytest.raises(OutOfBounds, match="element 100"):
        engine.launch(unmasked_kernel, (7,), (x, torch.zeros(100), 100), {"BLOCK": 16})
    with pytest.raises(KernelError, match="promises a multiple of 8"):
        engine.launch(sure_kernel, (4,), (x, torch.zeros(100)), {"BLOCK": 1})
    engine.races = True
    with pytest.raises(Race):
        engine.launch(shared_kernel, (8,), (x, torch.zeros(100)), {"BLOCK": 1})


def test_data_wider_than_its_type_is_refused_by_lean_handles_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TensorHandle, "__init__", lean_triton._handle_init)
    assert TensorHandle(np.zeros(2, np.float32), tl.float32).attr == {}
    assert TensorHandle(np.zeros(2, bool), tl.int1).data.size == 2
    assert TensorHandle(np.zeros(2, np.uint64), tl.pointer_type(tl.float32)).data.size == 2
    with pytest.raises(ValueError, match="exceeds"):
        TensorHandle(np.zeros(2, np.float64), tl.float32)


@triton.jit
def _rows_in_turn(x_ptr, out_ptr, rows, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    for step in range(2):
        row = tl.program_id(0) * 2 + step
        scale = tl.load(x_ptr + row * n, mask=row < rows, other=2.0)
        tl.store(out_ptr + row * n + columns, scale + columns, mask=(columns < n) & (row < rows))


def test_the_mask_of_a_single_lane_decides_nothing(engine: Engine, played: list[bool]) -> None:
    x, out = torch.randn(7, 8), torch.zeros(7, 8)
    for _ in range(2):
        engine.seen.clear()
        engine.launch(_rows_in_turn, (4,), (x, out, 7, 8, 8), {})
        torch.testing.assert_close(out, x[:, :1] + torch.arange(8))
        assert {item[-1] for item in engine.seen if len(item) == 3} == {True, False}
    assert played == [True] * 7


@triton.jit
def _rows_apart(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=tl.arange(0, BLOCK) < n, other=0.0)
    tl.store(out_ptr + at, x, mask=tl.arange(0, BLOCK) < n)
    tl.store(out_ptr + at, 2.0 * x, mask=tl.arange(0, BLOCK) < n)


@triton.jit
def _first_of_the_next(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + lanes)
    tl.store(out_ptr + row * n + lanes, x)
    tl.store(out_ptr + (row + 1) * n, tl.sum(x))


def test_stores_that_cannot_race_are_noted_at_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    one_by_one: list[int] = []
    own = Races.write
    monkeypatch.setattr(Races, "write", lambda self, *args: (one_by_one.append(1), own(self, *args))[1])
    engine.races = True
    x, out = torch.randn(33, 8), torch.zeros(33, 8)
    for _ in range(2):
        one_by_one.clear()
        engine.launch(_rows_apart, (32,), (x, out, 8), {"BLOCK": 16})
        assert torch.equal(out[:32], 2.0 * x[:32])
        assert len(one_by_one) <= 4  # the first instance, by itself
    with pytest.raises(Race, match="two programs write different values"):
        engine.launch(_first_of_the_next, (31,), (x, out, 8), {"BLOCK": 8})
