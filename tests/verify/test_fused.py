"""The oracle's one-pass kernels compute the same as its torch code, and compile for their GPUs."""

from pathlib import Path

import pytest
from interpreted import said

from kernelwright.hardware import target

INTERPRETED = """
import math, sys, torch
from kernelwright.verify.reference import fused_comparison as fused
from kernelwright.verify.reference.comparison import compare, rules
from kernelwright.verify.reference.expected import expected_of
from kernelwright.verify.protocol import protocol

def one(dtype, error, size=3000):
    torch.manual_seed(size)
    exact = torch.randn(size, dtype=torch.float64) * 3
    honest = exact.to(dtype)
    expected = expected_of(exact, honest)
    found = fused.spread(exact, honest)
    assert math.isclose(found.error, expected.honest_error, rel_tol=1e-12), found
    assert math.isclose(math.sqrt(found.squares / size), expected.spread, rel_tol=1e-12)
    assert math.isclose(found.total / size, expected.typical, rel_tol=1e-12)
    assert math.isclose(math.sqrt(found.square_total / size), expected.root_mean_square, rel_tol=1e-12)
    assert found.finite
    got = honest.clone()
    got[size // 2] += error
    for name in ("strict", "kernelbench"):
        seen = fused.compare_fused(got, expected.value, rules(expected, protocol(name)))
        said = compare(0, got, expected, protocol(name))
        share = 0.0 if said.mismatch is None else said.mismatch.wrong_share
        if said.kind == "low_precision" and not seen.wrong:
            continue  # by its root mean square only
        assert seen.wrong == round(share * size), (name, seen, said)
        if not seen.wrong and name == "kernelbench":
            assert math.isclose(seen.worst, said.worst, rel_tol=1e-9), (seen, said)

for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
    for error in (0.0, 1e-6, 1e-3, 0.3, float("nan"), float("inf")):
        one(dtype, error)
one(torch.float32, 0.0, size=1)
exact = torch.tensor([1.0, math.inf, math.nan, 2.0], dtype=torch.float64)
found = fused.spread(exact, exact.float())
assert not found.finite and found.total == 3.0, found
print("agreed")
"""


def test_one_pass_agrees_with_torch() -> None:
    printed, wrong = said(INTERPRETED)
    assert printed == "agreed", wrong


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_kernels_compile_for_a_gpu(dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelwright.verify.gpu.device import _StandIn
    from kernelwright.verify.reference import fused_comparison as fused
    from kernelwright.verify.trace.stand_ins import pretend_torch_cuda
    from kernelwright.verify.trace.tape import View

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    narrow, wide = (View(0, 0, (64,), (1,), name) for name in (dtype, "float64"))
    with pretend_torch_cuda(target("h200")):
        made = fused._strayed_kernel.warmup(
            _StandIn(narrow), _StandIn(narrow), _StandIn(wide), _StandIn(wide), 64, BLOCK=1024, grid=(1,)
        )
        assert "sm_90" in made.asm["ptx"]
        fused._spread_kernel.warmup(
            _StandIn(wide), _StandIn(narrow), _StandIn(wide), 1 << 33, BLOCK=1024, grid=(1,)
        )
