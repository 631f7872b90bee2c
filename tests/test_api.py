"""The library: a drop-in module that runs its kernel where it was verified and says why elsewhere; saved, loaded, cached."""

import functools
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import kernelwright
from kernelwright import api
from kernelwright.drop_in import Optimized, VerifiedKernel, shapes_of, versions
from kernelwright.errors import UserError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.policy import Policy
from kernelwright.prompts import completion_text
from kernelwright.records import Completion, Prompt, Verdict
from kernelwright.search import optimize as search
from kernelwright.tasks.capture import capture

KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCK = 256


@triton.jit
def scale_kernel(x_ptr, weight_ptr, y_ptr, n, dim, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    weight = tl.load(weight_ptr + offs % dim, mask=mask)
    tl.store(y_ptr + offs, x * weight, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        scale_kernel[(triton.cdiv(n, BLOCK),)](x, self.weight, y, n, x.shape[-1], BLOCK=BLOCK)
        return y
"""


class Scale(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.weight = nn.Parameter(torch.rand(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


def verified(module: nn.Module, *inputs: Tensor, code: str = KERNEL, **changed: Any) -> VerifiedKernel:
    captured = capture(module, inputs)
    verdict = Verdict(task_id=captured.task.id, outcome=Outcome.CORRECT, gate=Gate.TIMING)
    facts = {
        "task": captured.task, "module": captured.digest, "prefix": captured.prefix, "code": code, "verdict": verdict,
        "shapes": shapes_of(captured.task, inputs), "dtypes": ("float32",), "arch": "90", "versions": versions(),
    }  # fmt: skip
    return VerifiedKernel(**{**facts, **changed})


@pytest.fixture
def drop_in() -> Optimized:
    module = Scale(24).requires_grad_(False)
    return Optimized(module, verified(module, torch.randn(4, 24)))


def told(module: nn.Module, *args: Any, **kwargs: Any) -> tuple[Any, list[str]]:
    """(the answer, warnings)."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        answer = module(*args, **kwargs)
    return answer, [str(one.message) for one in heard]


def test_on_a_cpu_it_answers_as_the_original_and_says_so_once(drop_in: Optimized) -> None:
    x = torch.randn(4, 24)
    answer, said = told(drop_in, x)
    assert torch.equal(answer, drop_in.original(x))
    assert said == ["Scale runs without its kernel: inputs are on the cpu, and a Triton kernel runs on a GPU"]
    assert told(drop_in, x)[1] == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((torch.randn(5, 24),), "shapes 5×24 were not verified (4×24 were)"),
        ((torch.randn(4, 24).double(),), "types float64 were not verified (float32 were)"),
        ((torch.randn(24, 4).t(),), "not contiguous"),
    ],
    ids=["shape", "type", "strides"],
)
def test_what_was_not_verified_runs_the_original(
    drop_in: Optimized, monkeypatch: pytest.MonkeyPatch, args: tuple[Any, ...], said: str
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    answer, heard = told(drop_in, *args)
    assert torch.equal(answer, drop_in.original(*args))
    assert len(heard) == 1
    assert said in heard[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m.requires_grad_(True), "gradients are wanted"),
        (
            lambda m: m.__dict__.update(
                verified=m.verified.model_copy(update={"versions": {"torch": "1.0"}})
            ),
            "torch 1.0",
        ),
        (
            lambda m: m.__dict__.update(verified=m.verified.model_copy(update={"training": False})),
            "in training mode",
        ),
    ],
    ids=["gradients", "versions", "mode"],
)
def test_other_conditions_run_the_original(
    drop_in: Optimized, monkeypatch: pytest.MonkeyPatch, change: Any, said: str
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    change(drop_in)
    x = torch.randn(4, 24)
    answer, heard = told(drop_in, x)
    assert torch.equal(answer, drop_in.original(x))
    assert said in heard[0]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            KERNEL.replace("self.weight = nn", "self.gain = nn").replace("self.weight,", "self.gain,"),
            "weight gain has no",
        ),
        (
            "import torch.nn as nn\nclass ModelNew(nn.Module):\n    def forward(self, x): return x",
            "raised TypeError",
        ),
        (
            "import torch.nn as nn\nclass ModelNew(nn.Module):\n    def __init__(self, dim): super().__init__()\n"
            "    def forward(self, x): return x + 1",
            "disagrees with the module on the weights",
        ),
    ],
    ids=["other weights", "raises", "disagrees"],
)
def test_a_kernel_that_does_not_fit_the_module_is_never_used(
    monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    module, x = Scale(24).requires_grad_(False), torch.randn(4, 24)
    fast = Optimized(module, verified(module, x, code=code))
    answer, heard = told(fast, x)
    assert torch.equal(answer, module(x))
    assert said in heard[0]
    assert told(fast, x)[1] == []


def test_it_is_the_original_in_all_but_its_forward(drop_in: Optimized) -> None:
    original = drop_in.original
    assert list(drop_in.state_dict()) == ["weight"]
    assert drop_in.dim == 24
    drop_in.double()
    assert original.weight.dtype is torch.float64
    drop_in.load_state_dict({"weight": torch.full((24,), 3.0)})
    assert float(original.weight[0]) == 3.0
    drop_in.eval()
    assert original.training is False
    with pytest.raises(AttributeError):
        _ = drop_in.nothing
    assert "Optimized(Scale()" in repr(drop_in)
    assert "class ModelNew" in drop_in.kernel
    assert drop_in.verdict.correct


RUN = """
import sys, warnings
sys.path.insert(0, {tests!r})
warnings.simplefilter("error")
import torch, test_api
module, x = test_api.Scale(24).requires_grad_(False), torch.randn(4, 24)
fast = test_api.Optimized(module, test_api.verified(module, x))
torch.testing.assert_close(fast(x), x * module.weight)
assert fast._good is not None
torch.testing.assert_close(fast(2 * x), 2 * x * module.weight)
module.weight.mul_(2)
torch.testing.assert_close(fast(x), x * module.weight)
fast.load_state_dict({{"weight": torch.rand(24)}})
torch.testing.assert_close(fast(x), x * module.weight)
print("ran")
"""


def test_the_kernel_runs_with_the_weights_of_the_moment() -> None:
    """In Triton's own interpreter, which has to be asked for before the kernel is made."""
    import os

    done = subprocess.run(
        [sys.executable, "-c", RUN.format(tests=str(Path(__file__).parent))],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "ran\n", done.stderr


def test_saved_kernels_are_loaded_for_the_same_module_only(drop_in: Optimized, tmp_path: Path) -> None:
    path = kernelwright.save(drop_in, tmp_path / "scale.json")
    again = kernelwright.load(path, Scale(24))
    assert again.verified == drop_in.verified
    with pytest.raises(UserError, match="another module than this Scale"):
        kernelwright.load(path, Scale(25))
    with pytest.raises(UserError, match="cannot be read"):
        kernelwright.load(tmp_path / "none", Scale(24))
    (tmp_path / "text").write_text("hello")
    with pytest.raises(UserError, match="is no kernel that"):
        kernelwright.load(tmp_path / "text", Scale(24))
    with pytest.raises(UserError, match="runs no kernel"):
        kernelwright.save(Scale(24), tmp_path / "x")
    rejected = drop_in.verified.model_copy(
        update={"verdict": Verdict(task_id="t", outcome=Outcome.WRONG_VALUE, gate=Gate.SMALL)}
    )
    (tmp_path / "bad").write_text(rejected.model_dump_json())
    with pytest.raises(UserError, match="was not accepted"):
        kernelwright.load(tmp_path / "bad", Scale(24))


class Says:
    """A policy that answers with one kernel, and counts."""

    name = "says"

    def __init__(self, code: str) -> None:
        self.code, self.asked = code, 0

    def generate(
        self, prompts: Sequence[Prompt], n: int = 1, *, on_completion: Any = None, **_: Any
    ) -> list[list[Completion]]:
        self.asked += 1
        answers = [[Completion(text=completion_text("p", self.code))] * n for _ in prompts]
        for row in range(len(prompts)):
            for sample in range(n):
                on_completion(row, sample, answers[row][sample])
        return answers

    def pieces(self, completion: Completion) -> None:
        return None


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(code: str) -> Says:
        policy = Says(code)
        load: Any = lambda spec: policy  # noqa: E731
        monkeypatch.setattr(api, "search", functools.partial(search, load=load))
        return policy

    return use


def options(tmp_path: Path) -> dict[str, Any]:
    return {
        "policy": "gold", "samples": 1, "turns": 1, "tune": False, "quiet": True, "backend": "interpret",
        "cache": tmp_path / "cache", "workers": 1, "seconds": 0,
    }  # fmt: skip


def test_a_kernel_is_searched_for_once_and_then_known(ask: Any, tmp_path: Path) -> None:
    policy: Policy = ask(KERNEL)
    module = Scale(24)
    fast = kernelwright.optimize(module, torch.randn(64, 24), **options(tmp_path))
    assert isinstance(fast, Optimized)
    assert fast.verdict.correct
    assert fast.verdict.timing is not None
    assert fast.verified.arch == "90"
    asked = policy.asked  # type: ignore[attr-defined]
    again = kernelwright.optimize(Scale(24), torch.randn(64, 24), **options(tmp_path))
    assert again.verified == fast.verified
    assert policy.asked == asked  # type: ignore[attr-defined]


def test_a_module_that_is_not_solved_is_returned_with_what_was_tried(ask: Any, tmp_path: Path) -> None:
    ask(KERNEL.replace("x * weight", "x + weight"))
    module = Scale(24)
    with pytest.warns(RuntimeWarning, match="1 candidates ended as 1 wrong value; the furthest") as heard:
        assert kernelwright.optimize(module, torch.randn(64, 24), **options(tmp_path)) is module
    assert "\n" not in str(heard[0].message)


SLOW = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, weight_ptr, y_ptr, dim):
    row = tl.program_id(0)
    for i in range(0, dim):
        x = tl.load(x_ptr + row * dim + i)
        tl.store(y_ptr + row * dim + i, x * tl.load(weight_ptr + i))


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        y = torch.empty_like(x)
        row_kernel[(x.shape[0],)](x, self.weight, y, x.shape[1])
        return y
"""


def test_a_kernel_that_only_slows_the_module_down_is_not_used(ask: Any, tmp_path: Path) -> None:
    ask(SLOW)
    module = Scale(96)
    with pytest.warns(RuntimeWarning, match=r"best kernel is 0\.\d\d times as fast \(modelled on h200\)"):
        assert kernelwright.optimize(module, torch.randn(4096, 96), **options(tmp_path)) is module


def test_what_cannot_be_a_task_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no tensor among the example inputs"):
        kernelwright.optimize(Scale(24), (), **options(tmp_path))
    with pytest.raises(UserError, match="unknown target"):
        kernelwright.optimize(Scale(24), torch.randn(4, 24), **{**options(tmp_path), "target": "abacus"})
