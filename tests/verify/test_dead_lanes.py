"""Lanes that no mask lets through are left out where that changes nothing."""

from collections.abc import Iterator

import pytest
import torch
import triton
import triton.language as tl

from kernelwright.verify.interpret import abreast
from kernelwright.verify.interpret.interpreter import Engine


@triton.jit
def spread_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    mask = columns < n
    x = tl.load(x_ptr + row * n + columns, mask=mask & (columns + row > 0), other=0.0)
    mean = tl.sum(x, 0) / n
    apart = tl.where(mask, x - mean, 0.0)
    tl.store(out_ptr + row * n + columns, apart / tl.sqrt(tl.sum(apart * apart, 0) + 1e-5), mask=mask)


@triton.jit
def undefined_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n)
    tl.store(out_ptr + row, tl.max(tl.where(columns < n, x, float("-inf")), 0))


@triton.jit
def too_many_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=0.0)
    tl.store(out_ptr + row, tl.sum(tl.exp(x), 0))


@triton.jit
def places_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=0.0)
    tl.store(out_ptr + row, tl.sum(x * 0.0 + columns + row, 0))


@triton.jit
def undefined_sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(out_ptr + row, tl.sum(tl.load(x_ptr + row * n + columns, mask=columns < n), 0))


@triton.jit
def from_the_row_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + columns, mask=columns + row < n, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, 0))


@pytest.fixture
def lanes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lanes with which instances are run abreast."""
    seen: list[int] = []
    own = abreast.Abreast.play
    monkeypatch.setattr(
        abreast.Abreast, "play", lambda self, placed: (seen.append(self.way.widest), own(self, placed))[1]
    )
    return seen


@pytest.fixture(params=[False, True])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    made = Engine(lambda launch: 1.0)
    made.races = request.param
    with made.installed():
        yield made


def _run(engine: Engine, kernel: object, width: int, shape: tuple[int, ...]) -> list[torch.Tensor]:
    """Results of two calls with blocks of `width` lanes, abreast and one by one."""
    x = torch.randn(20, 9, generator=torch.Generator().manual_seed(1))
    found = []
    for many in (True, False):
        for _ in range(2):
            engine.abreast = many
            found.append(torch.zeros(shape))
            engine.launch(kernel, (20,), (x, found[-1], 9), {"BLOCK": width})
    return found


@pytest.mark.parametrize("kernel", [spread_kernel, undefined_kernel, too_many_kernel])
def test_short_rows_in_wide_blocks_have_the_same_bits(
    engine: Engine, lanes: list[int], kernel: object
) -> None:
    shape = (20, 9) if kernel is spread_kernel else (20,)
    found = _run(engine, kernel, 512, shape)
    assert set(lanes) == {16}
    assert all(torch.equal(one, found[-1]) for one in found)
    if kernel is too_many_kernel:  # 503 lanes too many, each 1
        assert (found[0] > 503).all()


@pytest.mark.parametrize("kernel", [places_kernel, undefined_sum_kernel, from_the_row_kernel])
def test_lanes_that_may_do_something_stay(engine: Engine, lanes: list[int], kernel: object) -> None:
    found = _run(engine, kernel, 512, (20,))
    assert set(lanes) == {512}
    assert all(torch.equal(one.isnan(), found[-1].isnan()) for one in found)


def test_nothing_is_cut_off_where_rows_fill_blocks(engine: Engine, lanes: list[int]) -> None:
    _run(engine, spread_kernel, 32, (20, 9))
    assert set(lanes) == {32}
