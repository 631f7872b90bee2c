"""The interpreter behaves like the GPU: values, rounding, bounds, order of programs, and what it cannot run."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from kernelwright.hardware import target
from kernelwright.verify.cost.crosscompile import TooSlow, assemble, to_assembly
from kernelwright.verify.interpret.endings import KernelError, Unsupported
from kernelwright.verify.interpret.interpreter import Engine
from kernelwright.verify.interpret.memory import OutOfBounds
from kernelwright.verify.interpret.races import Race


class Device:
    """Launches kernels on CPU tensors."""

    def __init__(self) -> None:
        self.engine = Engine(lambda launch: 1.0)

    def run(self, kernel: Any, grid: Any, *args: Any, **kwargs: Any) -> None:
        self.engine.launch(kernel, grid, args, kwargs)


@pytest.fixture
def device() -> Iterator[Device]:
    torch.manual_seed(0)
    made = Device()
    with made.engine.installed():
        yield made


@triton.jit
def unary_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, OP: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    if OP == "exp":
        y = tl.exp(x)
    elif OP == "sigmoid":
        y = tl.sigmoid(x)
    elif OP == "sqrt":
        y = tl.sqrt(tl.abs(x))
    elif OP == "erf":
        y = tl.erf(x)
    elif OP == "sin":
        y = tl.sin(x)
    else:
        y = -x
    tl.store(out_ptr + at, y, mask=mask)


@pytest.mark.parametrize(
    ("op", "function"),
    [
        ("exp", torch.exp),
        ("sigmoid", torch.sigmoid),
        ("sqrt", lambda x: x.abs().sqrt()),
        ("erf", torch.erf),
        ("sin", torch.sin),
        ("neg", torch.neg),
    ],
)
@pytest.mark.parametrize("n", [1, 63, 64, 100])
def test_elementwise_functions_agree_with_torch(device: Device, op: str, function: Any, n: int) -> None:
    x = torch.randn(n)
    out = torch.full((n,), float("nan"))
    device.run(unary_kernel, (triton.cdiv(n, 64),), x, out, n, BLOCK=64, OP=op)
    torch.testing.assert_close(out, function(x), rtol=3e-7, atol=3e-7)


@triton.jit
def program_kernel(out_ptr, X: tl.constexpr, Y: tl.constexpr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    tl.store(out_ptr + (z * Y + y) * X + x, x + 100 * y + 10_000 * z + 1_000_000 * tl.num_programs(1))


def test_every_program_of_a_grid_runs_once(device: Device) -> None:
    out = torch.zeros((4, 3, 2), dtype=torch.int32)
    device.run(program_kernel, (2, 3, 4), out, X=2, Y=3)
    z, y, x = torch.meshgrid(torch.arange(4), torch.arange(3), torch.arange(2), indexing="ij")
    assert torch.equal(out.long(), x + 100 * y + 10_000 * z + 3_000_000)


@triton.jit
def division_kernel(a_ptr, b_ptr, q_ptr, r_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a, b = tl.load(a_ptr + at), tl.load(b_ptr + at)
    tl.store(q_ptr + at, a // b)
    tl.store(r_ptr + at, a % b)


def test_integer_division_truncates_as_in_c(device: Device) -> None:
    a = torch.tensor([7, -7, 7, -7], dtype=torch.int32)
    b = torch.tensor([2, 2, -2, -2], dtype=torch.int32)
    q, r = torch.empty_like(a), torch.empty_like(a)
    device.run(division_kernel, (1,), a, b, q, r, BLOCK=4)
    assert q.tolist() == [3, -3, -3, 3]
    assert r.tolist() == [1, -1, 1, -1]


@triton.jit
def dot_kernel(a_ptr, b_ptr, c_ptr, N: tl.constexpr, PRECISION: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    tl.store(c_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at), input_precision=PRECISION))


def _tf32(x: torch.Tensor) -> torch.Tensor:
    """Round to ten bits of mantissa, to nearest."""
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def test_an_ieee_dot_is_exact_to_rounding(device: Device) -> None:
    a, b = torch.randn(32, 32), torch.randn(32, 32)
    c = torch.empty(32, 32)
    device.run(dot_kernel, (1,), a, b, c, N=32, PRECISION="ieee")
    torch.testing.assert_close(c, (a.double() @ b.double()).float(), rtol=1e-5, atol=1e-5)


def test_a_tf32_dot_loses_the_digits_that_the_gpu_loses(device: Device) -> None:
    a, b = torch.randn(32, 32), torch.randn(32, 32)
    c = torch.empty(32, 32)
    device.run(dot_kernel, (1,), a, b, c, N=32, PRECISION="tf32")
    torch.testing.assert_close(c, _tf32(a) @ _tf32(b), rtol=1e-3, atol=2e-3)  # ties may go either way
    assert (c - a @ b).abs().max() > 1e-4


def test_three_tf32_products_are_nearly_ieee(device: Device) -> None:
    a, b = torch.randn(32, 32), torch.randn(32, 32)
    c = torch.empty(32, 32)
    device.run(dot_kernel, (1,), a, b, c, N=32, PRECISION="tf32x3")
    torch.testing.assert_close(c, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_products_accumulate_in_float32(device: Device, dtype: torch.dtype) -> None:
    a, b = torch.randn(32, 32).to(dtype), torch.randn(32, 32).to(dtype)
    c = torch.empty(32, 32)
    device.run(dot_kernel, (1,), a, b, c, N=32, PRECISION="ieee")
    torch.testing.assert_close(c, a.float() @ b.float(), rtol=1e-5, atol=1e-5)


@triton.jit
def bf16_kernel(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + at), tl.load(y_ptr + at)
    tl.store(out_ptr + at, x * y + x)


def test_bfloat16_arithmetic_rounds_to_nearest_even(device: Device) -> None:
    x, y = torch.randn(64).to(torch.bfloat16), torch.randn(64).to(torch.bfloat16)
    out = torch.empty_like(x)
    device.run(bf16_kernel, (1,), x, y, out, BLOCK=64)
    assert torch.equal(out, x * y + x)


@triton.jit
def to_8_bits_kernel(x_ptr, out_ptr, back_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    narrow = tl.load(x_ptr + at).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + at, narrow)
    tl.store(back_ptr + at, narrow.to(tl.float32))


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_floats_of_8_bits_are_rounded_to_nearest(
    device: Device, kind: torch.dtype, dtype: torch.dtype
) -> None:
    x = torch.cat([torch.randn(61) * 50.0, torch.tensor([127.4, 1e-3, 1e5])]).to(dtype)
    out, back = torch.empty(64, dtype=kind), torch.empty(64)
    device.run(to_8_bits_kernel, (1,), x, out, back, BLOCK=64)
    most = torch.finfo(kind).max
    right = x.float().clamp(-most, most).to(kind).float()
    assert torch.equal(out.float(), right)
    assert torch.equal(back, right)


@triton.jit
def cast_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_stores_cast_as_torch_does(device: Device, dtype: torch.dtype) -> None:
    x = torch.randn(64)
    out = torch.empty(64, dtype=dtype)
    device.run(cast_kernel, (1,), x, out, BLOCK=64)
    assert torch.equal(out, x.to(dtype))


@triton.jit
def reduce_kernel(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i[:, None] * N + i[None, :])
    tl.store(out_ptr + i, tl.sum(x, axis=1))
    tl.store(out_ptr + N + i, tl.max(x, axis=0))
    tl.store(out_ptr + 2 * N + i, tl.argmin(x, axis=1).to(tl.float32))
    tl.store(out_ptr + 3 * N + i, tl.sum(tl.cumsum(x, axis=1), axis=1))


def test_reductions_and_scans_agree_with_torch(device: Device) -> None:
    x = torch.randn(16, 16)
    out = torch.empty(4, 16)
    device.run(reduce_kernel, (1,), x, out, N=16)
    expected = [x.sum(1), x.amax(0), x.argmin(1).float(), x.cumsum(1).sum(1)]
    torch.testing.assert_close(out, torch.stack(expected), rtol=1e-5, atol=1e-5)


# atomics


@triton.jit
def atomic_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, OP: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    if OP == "add":
        tl.atomic_add(out_ptr + at % 4, x, mask=at < n)
    elif OP == "max":
        tl.atomic_max(out_ptr + at % 4, x, mask=at < n)
    else:
        tl.atomic_min(out_ptr + at % 4, x, mask=at < n)


@pytest.mark.parametrize("op", ["add", "max", "min"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_atomics_gather_from_all_programs(device: Device, op: str, dtype: torch.dtype) -> None:
    x = torch.randint(-50, 50, (100,)).to(dtype)
    start = {"add": 0, "max": -1000, "min": 1000}[op]
    out = torch.full((4,), start, dtype=dtype)
    device.run(atomic_kernel, (4,), x, out, 100, BLOCK=32, OP=op)
    columns = x.reshape(25, 4)
    expected = {"add": columns.sum(0), "max": columns.amax(0), "min": columns.amin(0)}[op]
    assert torch.equal(out, expected.to(dtype))


@triton.jit
def exchange_kernel(x_ptr, out_ptr, old_ptr):
    old = tl.atomic_xchg(out_ptr, tl.load(x_ptr))
    tl.store(old_ptr, old)


@pytest.mark.parametrize("dtype", [torch.int32, torch.float32])
def test_exchange_returns_what_was_there(device: Device, dtype: torch.dtype) -> None:
    x, out, old = (torch.tensor([value], dtype=dtype) for value in (5, 3, 0))
    device.run(exchange_kernel, (1,), x, out, old)
    assert (out.item(), old.item()) == (5, 3)


@triton.jit
def lock_kernel(lock_ptr, sum_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(sum_ptr, tl.load(sum_ptr) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


def test_a_lock_can_be_taken_and_given_back(device: Device) -> None:
    lock, total = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    device.engine.races = True
    device.run(lock_kernel, (8,), lock, total)
    assert total.item() == 8


# bounds


@triton.jit
def offset_kernel(x_ptr, out_ptr, shift, BLOCK: tl.constexpr, WRITE: tl.constexpr):
    at = tl.arange(0, BLOCK)
    if WRITE:
        tl.store(out_ptr + at + shift, tl.load(x_ptr + at))
    else:
        tl.store(out_ptr + at, tl.load(x_ptr + at + shift))


@pytest.mark.parametrize("shift", [-1, 1, 64, -64, 10**9, -(10**9)])
@pytest.mark.parametrize("write", [False, True])
def test_no_access_leaves_its_tensor(device: Device, shift: int, write: bool) -> None:
    whole = torch.zeros(192)
    x, out = whole[:64].clone(), whole[64:128].clone()
    with pytest.raises(OutOfBounds, match="out_ptr" if write else "x_ptr"):
        device.run(offset_kernel, (1,), x, out, shift, BLOCK=64, WRITE=write)


def test_a_view_may_be_read_around_within_its_storage(device: Device) -> None:
    whole = torch.arange(128.0)
    out = torch.empty(64)
    device.run(offset_kernel, (1,), whole[32:96], out, 16, BLOCK=64, WRITE=False)
    assert torch.equal(out, whole[48:112])


def test_masked_lanes_may_point_anywhere(device: Device) -> None:
    x, out = torch.randn(10), torch.empty(10)
    device.run(unary_kernel, (1,), x, out, 10, BLOCK=1024, OP="neg")
    assert torch.equal(out, -x)


@triton.jit
def wild_kernel(out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    wild = (at.to(tl.int64) + 4096).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + at, tl.load(wild))


def test_an_integer_is_no_pointer(device: Device) -> None:
    with pytest.raises((OutOfBounds, KernelError, Unsupported)):
        device.run(wild_kernel, (1,), torch.empty(64), BLOCK=64)


# races


@triton.jit
def same_place_kernel(out_ptr, SAME: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(out_ptr, 1 if SAME else pid)


def test_two_values_for_one_element_are_a_race(device: Device) -> None:
    device.engine.races = True
    with pytest.raises(Race, match="out_ptr"):
        device.run(same_place_kernel, (4,), torch.empty(1, dtype=torch.int32), SAME=False)


def test_one_value_from_many_programs_is_none(device: Device) -> None:
    device.engine.races = True
    device.run(same_place_kernel, (4,), torch.empty(1, dtype=torch.int32), SAME=True)


@triton.jit
def neighbour_kernel(x_ptr, out_ptr):
    pid = tl.program_id(0)
    tl.store(out_ptr + pid, tl.load(x_ptr + (pid + 1) % tl.num_programs(0)) + 1)


def test_reading_what_another_program_writes_is_a_race(device: Device) -> None:
    device.engine.races = True
    x = torch.zeros(8)
    with pytest.raises(Race):
        device.run(neighbour_kernel, (8,), x, x)
    device.run(neighbour_kernel, (8,), x, torch.empty(8))


# what is passed, and what is not run


@triton.jit
def arguments_kernel(out_ptr, i, f, flag, nothing, N: tl.constexpr):
    if nothing is None:
        tl.store(out_ptr, i + f + (1.0 if flag else 0.0) + N)


@pytest.mark.parametrize(("i", "f", "flag"), [(1, 0.5, True), (2**31 - 1, -1.0, False), (-5, 1e30, True)])
def test_scalars_arrive_as_they_are(device: Device, i: int, f: float, flag: bool) -> None:
    out = torch.empty(1)
    device.run(arguments_kernel, (1,), out, i, f, flag, None, N=3)
    torch.testing.assert_close(out.item(), torch.tensor(float(i) + f + flag + 3).item())


@triton.jit
def tuple_kernel(tensors, shape, strides, BLOCK: tl.constexpr):
    (x_ptr,), out_ptr = tensors[0], tensors[1]
    at = tl.program_id(0) * strides[0] + tl.arange(0, BLOCK) * strides[1][0]
    mask = tl.arange(0, BLOCK) < shape[1]
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=mask) + shape[0], mask=mask)


def test_tuples_are_taken_apart_as_the_compiler_does(device: Device) -> None:
    x = torch.randn(3, 40)
    out = torch.empty_like(x)
    device.run(tuple_kernel, (3,), ((x,), out), tuple(x.shape), (x.stride(0), (1,)), BLOCK=64)
    torch.testing.assert_close(out, x + 3)
    (launch,) = device.engine.launches
    assert launch.signature == {
        "tensors": (("*fp32",), "*fp32"),
        "shape": ("i32", "i32"),
        "strides": ("i32", ("constexpr",)),
        "BLOCK": "constexpr",
    }
    device.engine.uninstall()
    assembly = to_assembly(launch, target("H200"))
    assert "tuple_kernel" in assembly.text
    with pytest.raises(TooSlow, match="ptxas took more than 0 s"):
        assemble(assembly, target("H200"), limit_s=1e-3)
    assert assemble(assembly, target("H200")).occupancy > 0


@pytest.mark.parametrize(
    ("args", "kwargs", "error"),
    [
        ((), {}, TypeError),
        (("text",), {"shift": 0, "BLOCK": 64, "WRITE": False}, TypeError),
        ((torch.empty(64), torch.empty(64), 0), {"BLOCK": 64, "WRITE": False, "no_such": 1}, KeyError),
    ],
)
def test_wrong_arguments_are_refused_as_triton_does(
    device: Device, args: Any, kwargs: Any, error: Any
) -> None:
    with pytest.raises(error):
        device.run(offset_kernel, (1,), *args, **kwargs)


@pytest.mark.parametrize("grid", [(2**31,), (1, 65536), (1, 1, 65536), (-1,)])
def test_a_grid_beyond_the_hardware_is_refused(device: Device, grid: Any) -> None:
    with pytest.raises(RuntimeError, match="grid"):
        device.run(same_place_kernel, grid, torch.empty(1, dtype=torch.int32), SAME=True)


@triton.jit
def asm_kernel(out_ptr):
    x = tl.zeros((32,), tl.float32)
    y = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out_ptr + tl.arange(0, 32), y)


def test_inline_assembly_is_evaluated(device: Device) -> None:
    out = torch.ones(32)
    device.run(asm_kernel, (1,), out)
    assert not out.any()


@triton.jit
def between_lanes_kernel(out_ptr):
    x = tl.zeros((32,), tl.float32)
    text: tl.constexpr = "shfl.sync.idx.b32 $0, $1, 0, 31, -1;"
    y = tl.inline_asm_elementwise(text, "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out_ptr + tl.arange(0, 32), y)


def test_assembly_that_is_not_evaluated_is_unsupported_not_wrong(device: Device) -> None:
    with pytest.raises(Unsupported, match="shfl"):
        device.run(between_lanes_kernel, (1,), torch.empty(32))


@triton.jit
def largest_kernel(x_ptr, out_ptr, sum_ptr):
    x = tl.load(x_ptr + tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :])
    tl.store(out_ptr + tl.arange(0, 4), tl.max(x, axis=1))
    tl.atomic_add(sum_ptr + tl.arange(0, 8) // 4, tl.sum(x, axis=0).to(tl.bfloat16))


def test_bfloat16_is_reduced_and_updated_atomically(device: Device) -> None:
    x = torch.randint(-8, 8, (4, 8)).bfloat16()
    out, sums = torch.empty(4, dtype=torch.bfloat16), torch.zeros(2, dtype=torch.bfloat16)
    device.run(largest_kernel, (1,), x, out, sums)
    assert torch.equal(out, x.amax(1))
    assert torch.equal(sums, x.float().reshape(4, 2, 4).sum((0, 2)).bfloat16())


@triton.jit
def constant_kernel(out_ptr, one):
    is_constant: tl.constexpr = not isinstance(one * 2, tl.tensor)
    tl.store(out_ptr, is_constant)


def test_an_integer_argument_of_1_is_a_constant_as_when_compiled(device: Device) -> None:
    out = torch.zeros(2, dtype=torch.int32)
    device.run(constant_kernel, (1,), out, 1)
    device.run(constant_kernel, (1,), out[1:], 3)
    assert out.tolist() == [1, 0]


@triton.jit
def beyond_kernel(x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr).to(tl.int32))


def test_a_cast_beyond_the_type_gives_what_nobody_can_know(device: Device) -> None:
    found = set()
    for _ in range(4):
        out = torch.zeros(1, dtype=torch.int32)
        device.engine.draw_undefined(first=False)
        device.run(beyond_kernel, (1,), torch.tensor([1e20]), out)
        found.add(int(out))
    assert len(found) > 1


@triton.jit
def collide_kernel(x_ptr, out_ptr):
    at = tl.arange(0, 8)
    tl.store(out_ptr + at // 2, tl.load(x_ptr + at))


def test_two_lanes_of_a_store_that_disagree_are_a_race(device: Device) -> None:
    device.engine.races = True
    device.run(collide_kernel, (1,), torch.ones(8), torch.empty(4))
    with pytest.raises(Race, match="two lanes"):
        device.run(collide_kernel, (1,), torch.arange(8.0), torch.empty(4))


@triton.jit
def last_kernel(x_ptr, part_ptr, out_ptr, count_ptr, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(part_ptr + tl.program_id(0) * 64 + at, tl.load(x_ptr + tl.program_id(0) * 64 + at))
    before = tl.atomic_add(count_ptr + tl.program_id(1), 1, sem="acq_rel")
    if before == PARTS - 1:
        total = tl.zeros((BLOCK,), tl.float32)
        for part in range(PARTS):
            total += tl.load(part_ptr + part * 64 + at)
        tl.store(out_ptr + at, total)


def test_of_programs_that_meet_at_a_counter_one_is_modelled_as_the_last(device: Device) -> None:
    with torch.device("meta"):
        given = torch.empty(4, 64), torch.empty(4, 64), torch.empty(64), torch.empty(4, dtype=torch.int32)
    for mode in ("plan", "model"):
        device.engine.mode = mode  # type: ignore[assignment]
        device.run(last_kernel, (4, 4), *given, PARTS=4, BLOCK=16)
    traffic = device.engine.launches[-1].traffic
    assert len(traffic) >= 4
    assert sum("out_ptr" in one.stored for one in traffic) * 4 == len(traffic)


@triton.jit
def assert_kernel(x_ptr):
    tl.static_assert(1 < 2)
    tl.device_assert(tl.load(x_ptr) > 0, "not positive")


def test_the_language_is_given_back(device: Device) -> None:
    before = tl.load
    device.engine.uninstall()
    assert tl.load is not before or not device.engine._restore
    device.engine.install()


# modelling


@triton.jit
def loop_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.load(x_ptr + start + at)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + at, total)


@pytest.mark.parametrize("steps", [4, 64, 1024])
def test_a_long_loop_is_priced_as_if_it_had_run(device: Device, steps: int) -> None:
    n = 64 * steps
    device.engine.mode = "model"
    x, out = torch.empty(n, device="meta"), torch.empty(64 * 256, device="meta")
    device.run(loop_kernel, (256,), x, out, n, BLOCK=64)
    (traffic,) = {id(t): t for t in device.engine.launches[-1].traffic[:1]}.values()
    assert traffic.loaded["x_ptr"] == pytest.approx(4 * n, rel=0.02)
    assert traffic.stored["out_ptr"] == 4 * 64
    assert sum(traffic.unique_sectors().values()) == pytest.approx(n / 8 + 8, rel=0.02)


def test_modelling_writes_nothing(device: Device) -> None:
    device.engine.mode = "model"
    out = torch.zeros(64)
    device.run(unary_kernel, (1,), torch.ones(64), out, 64, BLOCK=64, OP="exp")
    assert not out.any()


def test_bounds_hold_while_modelling(device: Device) -> None:
    device.engine.mode = "model"
    x, out = torch.empty(64, device="meta"), torch.empty(64, device="meta")
    with pytest.raises(OutOfBounds):
        device.run(offset_kernel, (1,), x, out, 1, BLOCK=64, WRITE=False)
