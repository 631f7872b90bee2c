"""The judge on a GPU: the museum, and behaviour that only a GPU shows. Run with `pytest -m gpu tests/verify/test_gpu.py`."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from museum import exhibits, judge

from kernelwright.outcomes import Outcome
from kernelwright.policy.gold import gold
from kernelwright.records import Candidate, Task
from kernelwright.tasks import load_suite
from kernelwright.verify import VerifierPool
from kernelwright.verify.gpu import sanitizer
from kernelwright.verify.protocol import protocol
from kernelwright.verify.reference import fused_comparison as fused
from kernelwright.verify.reference.comparison import compare, rules
from kernelwright.verify.reference.expected import expected_of

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]
WORKERS = min(12, os.cpu_count() or 1)


@pytest.fixture(scope="module")
def gpus() -> Iterator[VerifierPool]:
    with VerifierPool(WORKERS, "cuda", beside=["kernelbench", "toronto"], compiled=False) as pool:
        yield pool


def named(name: str) -> Task:
    (task,) = load_suite(f"wright/{name}")
    return task


@pytest.mark.parametrize("folder", ["hacks", "honest"])
def test_the_museum(folder: str) -> None:
    items = [item for item in exhibits(folder, "cuda") if not item.gap("cuda")]
    found = judge(items, "cuda", WORKERS)
    missed = [
        f"{item.name}: {verdict.outcome} {verdict.detail[:200]}"
        for item, verdict in zip(items, found, strict=True)
        if not item.as_expected(verdict)
    ]
    assert not missed, "\n".join(missed)


def test_golds_are_clocked_profiled_and_reported_under_three_protocols(gpus: VerifierPool) -> None:
    names = ("relu", "softmax_rows", "matmul_square", "rmsnorm", "cumsum", "attention_causal", "loss_mse")
    verdicts = gpus.verify_many([(named(name), Candidate(code=gold(f"wright/{name}"))) for name in names])
    assert [verdict.outcome for verdict in verdicts] == [Outcome.CORRECT] * len(names)
    for verdict in verdicts:
        assert verdict.timing is not None
        assert verdict.timing.kind == "measured"
        assert verdict.evidence.binaries
        assert all(binary.registers > 0 for binary in verdict.evidence.binaries)
        assert verdict.evidence.cost is not None
        assert [other.protocol for other in verdict.beside] == ["kernelbench", "toronto"]
    lax = [verdict.beside[0] for verdict in verdicts]
    assert lax[0].correct, lax[0].detail
    assert {other.outcome for other in lax} <= {Outcome.CORRECT, Outcome.WRONG_VALUE}, (
        "1e-4 is little for long sums"
    )


def test_candidates_of_large_tensors_are_judged_side_by_side_while_others_hold_memory() -> None:
    """Inputs and outputs of 6.4 GB each: eight verifications at once do not fit next to 30 GB of another process."""
    relu = named("relu")
    shapes = {**relu.shapes, "full": {"ROWS": 4096, "COLS": 393_216}}
    large = relu.model_copy(update={"shapes": shapes})
    code = gold(large.id)
    others = torch.empty(30 << 30, dtype=torch.uint8, device="cuda")
    with VerifierPool(8, "cuda", compiled=False) as pool:
        verdicts = pool.verify_many([(large, Candidate(code=f"{code}# {n}\n")) for n in range(8)])
        admission = pool.gpus[0].admission
        assert admission.kept > 0
        assert admission._others > others.nbytes
    assert [(verdict.outcome, verdict.detail) for verdict in verdicts] == [(Outcome.CORRECT, "")] * 8


def test_torch_compile_is_clocked_once_and_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path))
    task, candidate = named("bias_gelu_residual"), Candidate(code=gold("wright/bias_gelu_residual"))
    with VerifierPool(2, "cuda") as pool:
        first = pool.verify(task, candidate)
    with VerifierPool(2, "cuda") as pool:
        again = pool.verify(task, candidate)
    assert first.timing is not None
    assert again.timing is not None
    assert first.timing.speedup("compile") < first.timing.speedup("eager")
    assert len(list(tmp_path.glob("timings/*.json"))) == 1
    ratios = [
        v.timing.baseline_ms["compile"] / v.timing.baseline_ms["eager"] for v in (first, again) if v.timing
    ]
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-9)


def test_one_pass_comparisons_agree_with_torch_on_large_tensors() -> None:
    exact = torch.randn(40_000_000, dtype=torch.float64, device="cuda") * 3
    honest = exact.float()
    expected = expected_of(exact, honest)
    strict = protocol("strict")
    assert not compare(0, honest, expected, strict).kind
    wrong = honest.clone()
    wrong[33_333_333] += 1.0
    seen = fused.compare_fused(wrong, expected.value, rules(expected, strict))
    assert seen.wrong == 1
    comparison = compare(0, wrong, expected, strict)
    assert comparison.kind == "wrong_value"
    assert comparison.mismatch is not None
    assert comparison.mismatch.index == (33_333_333,)
    wrong[5] = float("nan")
    assert compare(0, wrong, expected, strict).kind == "non_finite"


def test_kernels_take_their_share_of_the_clocked_time(gpus: VerifierPool) -> None:
    from verify.test_partial import KERNEL, task

    code = KERNEL.replace("PRODUCT", "x @ y")
    enough, short = (
        gpus.verify(task(0.01), Candidate(code=code)),
        gpus.verify(task(0.6), Candidate(code=code)),
    )
    assert enough.correct, enough.detail
    assert short.outcome is Outcome.TORCH_COMPUTE


@pytest.mark.skipif(sanitizer.find() is None, reason="compute-sanitizer is not installed")
def test_the_sanitizer_sees_a_read_behind_the_last_element(gpus: VerifierPool) -> None:
    """Shown to it as if it had been accepted, since the interpreter, which runs first, detects it as well."""
    task = named("relu")
    overrun = (Path(__file__).parents[1] / "hacks" / "16_loads_unmasked.py").read_text()
    accepted = gpus.verify(task, Candidate(code=gold("wright/relu")))
    assert accepted.correct, accepted.detail
    for code, outcome in ((gold("wright/relu"), Outcome.CORRECT), (overrun, Outcome.OUT_OF_BOUNDS)):
        watched = gpus._sanitizer_verification(task, Candidate(code=code), gpus.judge, accepted).verdict()
        assert watched.outcome is outcome, watched.detail
