"""Which tasks state TF32, and what rounding to it means."""

import pytest
import torch

from kernelwright.verify.reference import tf32


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
    assert tf32.stated(source) is expected


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
    near = tf32.rounded(x)
    assert near[:5].tolist() == [1.0, 1 + 2**-10, 1.0, 1 + 2**-9, 1.0]
    assert abs(near[5] / x[5] - 1) <= tf32.EPSILON / 2
    assert near[6] == 0
    assert near[7].isinf()
    assert near[8].isnan()


def test_only_products_of_floats_are_rounded() -> None:
    a, b = torch.rand(40, 64), torch.rand(64, 50)
    with tf32.Rounded():
        product, total, double = a @ b, a + 1, a.double() @ b.double()
        linear = torch.nn.functional.linear(a, b.t(), torch.ones(50))
    assert torch.equal(product, tf32.rounded(a) @ tf32.rounded(b))
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
    with tf32.switches_kept():
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
