"""Precisions of a task: their rules, which sources allow TF32, and rounding to it."""

import threading
import time
from pathlib import Path

import pytest
import torch

from kernelwright import precision
from kernelwright.cli.read import live
from kernelwright.errors import UserError
from kernelwright.records import Task
from kernelwright.verify.protocol import protocol
from kernelwright.verify.reference import rounded
from kernelwright.verify.reference.oracle import ShapeCases, shape_cases
from kernelwright.verify.reference.task_module import private_rng

TF32 = precision.Precision("tf32", products=True, convolutions=True)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch\ntorch.backends.cuda.matmul.allow_tf32 = True", True),
        ("import torch\ntorch.backends.cuda.matmul.allow_tf32 = False", False),
        ("torch.backends.cudnn.allow_tf32 = True", False),
        ('torch.backends.cuda.matmul.fp32_precision = "tf32"', True),
        ('torch.backends.cuda.matmul.fp32_precision = "ieee"', False),
        ('torch.set_float32_matmul_precision("high")', True),
        ("class Model:\n    def __init__(self):\n        torch.set_float32_matmul_precision('medium')", True),
        ('torch.set_float32_matmul_precision("highest")', False),
        ('"torch.backends.cuda.matmul.allow_tf32 = True"', False),
        ("# torch.backends.cuda.matmul.allow_tf32 = True", False),
        ("def (", False),
    ],
    ids=range(11),
)
def test_a_task_says_so_as_pytorch_does(source: str, expected: bool) -> None:
    assert precision.allows_tf32(source) is expected


def test_rounding_keeps_ten_bits() -> None:
    x = torch.tensor(
        [
            1.0,
            1 + 2**-10,
            1 + 2**-11,
            1 + 3 * 2**-11,
            1 + 2**-12,
            -3.14159274,
            0.0,
            float("inf"),
            float("nan"),
        ]
    )
    near = rounded.to_tf32(x)
    assert near[:5].tolist() == [1.0, 1 + 2**-10, 1.0, 1 + 2**-9, 1.0]
    assert abs(near[5] / x[5] - 1) <= rounded.EPSILON / 2
    assert near[6] == 0
    assert near[7].isinf()
    assert near[8].isnan()


def test_only_products_of_floats_are_rounded() -> None:
    a, b = torch.rand(40, 64), torch.rand(64, 50)
    with rounded.Rounded(TF32):
        product, total, double = a @ b, a + 1, a.double() @ b.double()
        linear = torch.nn.functional.linear(a, b.t(), torch.ones(50))
    assert torch.equal(product, rounded.to_tf32(a) @ rounded.to_tf32(b))
    assert torch.equal(total, a + 1)
    assert torch.equal(double, a.double() @ b.double())
    assert torch.allclose(linear, product + 1, atol=1e-5)
    assert not torch.allclose(product, a @ b, atol=1e-5)


def test_switches_come_back() -> None:
    before = (
        torch.get_float32_matmul_precision(),
        torch.backends.cuda.matmul.allow_tf32,
        torch.get_default_dtype(),
    )
    with rounded.switches_kept():
        torch.set_float32_matmul_precision("high")
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = not torch.backends.cudnn.allow_tf32
        torch.set_default_dtype(torch.float64)
    after = (
        torch.get_float32_matmul_precision(),
        torch.backends.cuda.matmul.allow_tf32,
        torch.get_default_dtype(),
    )
    assert after == before


SOURCE = """
import torch
import torch.nn as nn
N = 64

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(N, 32)
        self.conv = nn.Conv1d(1, 1, 3)
    def forward(self, x, index):
        y = self.linear(x)
        return y, self.conv(y.unsqueeze(1)), x.float().sum(-1), torch.relu(x), index

def get_inputs():
    return [torch.randn(8, N), torch.arange(8)]

def get_init_inputs():
    return []
"""


def task(name: str) -> Task:
    return precision.in_precision(Task(id="t", source=SOURCE, shapes={"small": {"N": 64}}), name)


def test_rules_of_each_precision() -> None:
    rules = {name: precision.precision_of(task(name)) for name in precision.NAMES}
    allowed = {name: (one.products, one.convolutions, one.cast) for name, one in rules.items()}
    assert allowed == {
        "default": (False, True, ""),
        "ieee": (False, False, ""),
        "tf32": (True, True, ""),
        "bf16": (False, True, "bfloat16"),
        "fp16": (False, True, "float16"),
    }


def test_the_source_may_allow_tf32_by_default_and_not_where_ieee_is_asked() -> None:
    source = "torch.backends.cuda.matmul.allow_tf32 = True\n"
    stated = Task(id="t", source=source)
    assert precision.precision_of(stated).products
    assert not precision.precision_of(precision.in_precision(stated, "ieee")).products


def test_a_task_asked_in_another_precision_is_another_task() -> None:
    assert len({task(name).digest for name in precision.NAMES}) == len(precision.NAMES)
    assert task("bf16").dtype == "bfloat16"


def test_an_unknown_precision_names_the_valid_ones() -> None:
    with pytest.raises(UserError, match="default, ieee, tf32, bf16, fp16"):
        task("fp8")


def cases(name: str) -> ShapeCases:
    return shape_cases(task(name), "small", {"N": 64}, protocol("strict"), 1, 0)


def test_weights_inputs_and_outputs_are_cast() -> None:
    made = cases("bf16")
    assert {str(value.dtype) for value in made.state.values()} == {"torch.bfloat16"}
    assert [value.dtype for value in made.cases[0].inputs] == [torch.bfloat16, torch.int64]
    outputs = [str(item.dtype).removeprefix("torch.") for item in made.cases[0].expected]
    assert outputs == ["bfloat16", "bfloat16", "float32", "bfloat16", "int64"]


@pytest.mark.parametrize(
    ("name", "coarse"),
    [
        ("ieee", (False, False, False, False)),
        ("default", (False, True, False, False)),
        ("tf32", (True, True, False, False)),
        ("bf16", (True, True, False, True)),
    ],
)
def test_only_outputs_that_something_coarse_reaches_may_lose_digits(
    name: str, coarse: tuple[bool, ...]
) -> None:
    assert tuple(item.half for item in cases(name).cases[0].expected[:4]) == coarse


def test_a_cast_does_not_round_in_double_precision() -> None:
    source = SOURCE.replace("torch.relu(x)", "x.to(torch.bfloat16) + torch.zeros(1)")
    made = shape_cases(Task(id="t", source=source), "small", {}, protocol("strict"), 1, 0).cases[0]
    assert torch.equal(made.expected[3].value.reshape(8, 64), made.inputs[0].double())
    assert made.expected[3].honest_error > 1e-3


@pytest.mark.parametrize(
    "source",
    [
        'torch.backends.cuda.matmul.fp32_precision = "tf32"',
        'torch.backends.cudnn.conv.fp32_precision = "ieee"',
        'torch.set_float32_matmul_precision("high"); torch.backends.cuda.matmul.allow_tf32 = False',
    ],
)
def test_switches_of_both_kinds_that_disagree_are_put_back(source: str) -> None:
    """Torch refuses to report the old switches then."""
    before = rounded._Tf32.now()
    with rounded.switches_kept():
        exec(source, {"torch": torch})
        with rounded.flags(products=True, convolutions=False):
            assert torch.backends.cuda.matmul.allow_tf32
        with rounded.switches_kept():
            pass
    assert rounded._Tf32.now() == before


def test_blocks_of_two_threads_leave_the_switches_as_they_were() -> None:
    """Else the first thread restores its switches before the second, which then restores those that the first had set."""
    entered, left = threading.Event(), threading.Event()
    before = torch.backends.cudnn.allow_tf32

    def first() -> None:
        with rounded.flags(False, not before):
            entered.set()
            left.wait(0.5)

    def second() -> None:
        entered.wait()
        with rounded.flags(False, not before):
            left.set()
            time.sleep(0.2)

    threads = [threading.Thread(target=one) for one in (first, second)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert torch.backends.cudnn.allow_tf32 is before


def test_switches_and_seeds_do_not_wait_for_each_other() -> None:
    """One thread draws inputs (seed, then switches), another runs the reference (switches, then seed)."""

    def draws() -> None:
        for seed in range(50):
            with private_rng(seed), rounded.switches_kept():
                time.sleep(0.0005)

    def runs() -> None:
        for seed in range(50):
            with rounded.flags(False, False), private_rng(seed):
                time.sleep(0.0005)

    threads = [threading.Thread(target=one, daemon=True) for one in (draws, runs)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(10)
    assert not any(one.is_alive() for one in threads)


def test_a_class_is_cast_as_the_precision_says(tmp_path: Path) -> None:
    """What `verify --task FILE.py:CLASS --precision bf16` judges, weights and inputs, is in bfloat16."""
    file = tmp_path / "scaled.py"
    file.write_text(
        "import torch\n\nclass Scaled(torch.nn.Linear):\n    def __init__(self):\n        super().__init__(4, 4)\n\n"
        "def get_inputs():\n    return torch.randn(2, 4), torch.arange(3)\n"
    )
    module, (x, index), _ = live(str(file), "Scaled", "bf16")
    assert module.weight.dtype == x.dtype == torch.bfloat16
    assert index.dtype == torch.int64
    assert live(str(file), "Scaled")[0].weight.dtype == torch.float32
