"""Names that PyTorch has removed: their replacements, those without one, and that migrated kernels are reported as such."""

from __future__ import annotations

import ast
from concurrent.futures import Future

import pytest
from fakes import SaidPolicy, task

from kernelwright import prompts
from kernelwright.migrate import count_as_migrated, migrate, migrated
from kernelwright.outcomes import Category, Gate, Outcome
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.rollouts import Rolling

OLD = """import torch
from torch._inductor.select_algorithm import extern_kernels
import triton
import triton.language as tl
from torch._inductor.runtime.triton_heuristics import grid
from torch._C import _cuda_getCurrentRawStream as get_raw_stream
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
import torch.nn as nn
assert_size_stride = torch._C._dynamo.guards.assert_size_stride
empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda
reinterpret_tensor = torch._C._dynamo.guards._reinterpret_tensor


@triton.jit
def triton_poi_0(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xnumel = 256
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    tmp0 = tl.load(in_ptr0 + xindex, xmask)
    tmp1 = triton_helpers.maximum(tl_math.abs(tmp0), libdevice.tanh(tmp0))
    tl.store(out_ptr0 + xindex, tmp1, xmask)


def call(args):
    arg0_1, = args
    args.clear()
    assert_size_stride(arg0_1, (4, 64), (64, 1))
    with torch.cuda._DeviceGuard(0):
        torch.cuda.set_device(0)
        buf0 = empty_strided_cuda((4, 64), (64, 1), torch.float32)
        stream0 = get_raw_stream(0)
        triton_poi_0[grid(256)](arg0_1, buf0, 256, XBLOCK=128, num_warps=4, num_stages=1)
        del arg0_1
    return reinterpret_tensor(buf0, (8, 32), (32, 1), 0),


class ModelNew(nn.Module):

    def forward(self, input_0):
        return call([input_0])[0]
"""


class Pleased:
    """A judge that accepts everything."""

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        future: Future[Verdict] = Future()
        future.set_result(Verdict(task_id=task.id, outcome=Outcome.CORRECT, gate=Gate.TIMING))
        return future


def body(code: str, name: str = "call") -> str:
    tree = ast.parse(migrate(code).code)
    return ast.unparse(next(one for one in tree.body if getattr(one, "name", "") == name))


def launched(grid: str, words: str) -> str:
    """The grid of a migrated launch."""
    old = OLD.replace("grid(256)", grid).replace("XBLOCK=128", words)
    return body(old).partition("triton_poi_0[")[2].partition("](")[0]


def test_what_is_gone_is_gone_and_nothing_else() -> None:
    made = migrate(OLD)
    assert "_inductor" not in made.code
    assert "torch._C" not in made.code
    assert {"grid", "assert_size_stride", "set_device", "_DeviceGuard"} <= set(made.changed)
    assert "class ModelNew(nn.Module)" in made.code


def test_a_buffer_is_made_where_the_arguments_are() -> None:
    assert "device = arg0_1.device" in body(OLD)
    assert "torch.empty_strided((4, 64), (64, 1), dtype=torch.float32, device=device)" in body(OLD)


def test_a_view_is_taken_by_as_strided() -> None:
    assert "buf0.as_strided((8, 32), (32, 1))" in body(OLD)
    moved = body(OLD.replace("(32, 1), 0)", "(32, 1), 16)"))
    assert "buf0.as_strided((8, 32), (32, 1), buf0.storage_offset() + 16)" in moved


@pytest.mark.parametrize(
    ("grid", "words", "expected"),
    [
        ("grid(256)", "XBLOCK=128", "triton.cdiv(256, 128),"),
        ("grid(256)", "XBLOCK=1", "256,"),
        ("grid(256)", "RBLOCK=64", "256,"),
        ("grid(16, 64)", "XBLOCK=32, YBLOCK=8", "triton.cdiv(64, 32), triton.cdiv(16, 8)"),
        ("grid(2, 16, 64)", "XBLOCK=32, YBLOCK=8, ZBLOCK=1", "triton.cdiv(64, 32), triton.cdiv(16, 8), 2"),
        ("grid(200000, 64)", "XBLOCK=32, YBLOCK=1", "triton.cdiv(64, 32), 50000, 4"),
    ],
)
def test_a_grid_is_what_its_tiles_make_of_it(grid: str, words: str, expected: str) -> None:
    assert launched(grid, words) == expected


def test_helpers_become_triton() -> None:
    kernel = body(OLD, "triton_poi_0")
    assert "tmp1 = tl.maximum(tl.abs(tmp0), tanh(tmp0))" in kernel
    assert "def tanh(x)" in migrate(OLD).code


def test_a_run_with_its_grid_is_a_launch() -> None:
    old = OLD.replace(
        "triton_poi_0[grid(256)](arg0_1, buf0, 256, ", "triton_poi_0.run(arg0_1, buf0, 256, grid=grid(256), "
    )
    assert body(old) == body(OLD)


def test_library_calls_are_torchs_own() -> None:
    old = OLD.replace("stream0 = get_raw_stream(0)", "extern_kernels.mm(buf0, arg0_1, out=buf0)")
    assert "torch.mm(buf0, arg0_1, out=buf0)" in body(old)


def test_math_that_moved_is_written_out() -> None:
    assert "tl.math.tanh" not in migrate(OLD.replace("libdevice.tanh", "tl.math.tanh")).code
    assert "tl.math.exp(" in migrate(OLD.replace("libdevice.tanh", "tl.math.exp")).code


def test_a_name_without_counterpart_is_left_and_named() -> None:
    made = migrate(OLD.replace("libdevice.tanh", "libdevice.unknown"))
    assert made.left == "helper: libdevice.unknown"
    assert made.changed == ()


def test_what_triton_has_in_libdevice_comes_from_there() -> None:
    made = migrate(OLD.replace("libdevice.tanh", "libdevice.lgamma"))
    assert "from triton.language.extra import libdevice\n" in made.code
    assert "libdevice.lgamma(" in made.code


def test_a_name_that_stays_in_use_is_named() -> None:
    old = OLD.replace("args.clear()", "print(get_raw_stream)")
    assert migrate(old).left == "no counterpart: _cuda_getCurrentRawStream"


def test_code_of_today_stays_as_it_is() -> None:
    code = "import torch\nimport triton\n\n\nclass ModelNew:   # odd spacing\n    pass\n"
    assert migrate(code).code is code
    assert migrate("def (").code == "def ("
    today = Candidate(code=code)
    assert migrated(today) is today


def test_a_rewritten_candidate_is_never_plainly_correct() -> None:
    candidate = migrated(Candidate(code=OLD))
    right = count_as_migrated(candidate, Verdict(task_id="t", outcome=Outcome.CORRECT, gate=Gate.TIMING))
    assert (right.outcome, right.correct) == (Outcome.MIGRATED, False)
    assert right.outcome.category is Category.INVALID_IMPORT
    wrong = count_as_migrated(
        candidate, Verdict(task_id="t", outcome=Outcome.WRONG_VALUE, gate=Gate.SMALL, detail="at [0]")
    )
    assert wrong.outcome is Outcome.WRONG_VALUE
    assert wrong.detail.startswith("rewritten: ")
    assert wrong.detail.endswith("; at [0]")


@pytest.mark.parametrize(("migrating", "outcome"), [(True, Outcome.MIGRATED), (False, Outcome.CORRECT)])
def test_completions_are_rewritten_only_where_it_is_asked(migrating: bool, outcome: Outcome) -> None:
    policy = SaidPolicy(lambda *_: prompts.completion_text("a plan", OLD))
    asked = [prompts.render("frontend", task("a"), style="compact")]
    rolling = Rolling(
        policy, asked, [task("a")], Pleased(), reward="wright", stage="", step=0, migrating=migrating
    )
    rolling.generate(1, temperature=1.0, top_p=1.0, seed=0)
    [[rollout]] = rolling.collect()
    assert rollout.verdict.outcome is outcome
    assert bool(rollout.candidate.migrated) is migrating
