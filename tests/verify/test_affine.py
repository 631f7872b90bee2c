"""Constant parameters get other values, the same for reference and candidate; nothing else changes."""

import threading
from collections.abc import Callable

import pytest
import torch
from torch import nn

from kernelwright.records import Candidate, Task
from kernelwright.verify import VerifierPool
from kernelwright.verify.trace import affine


def built(make: Callable[[], nn.Module], seed: int = 5) -> nn.Module:
    torch.manual_seed(seed)
    with affine.vary_affine(seed) as finished:
        module = make()
        finished(module)
    return module


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LayerNorm(8)
        self.batch = nn.BatchNorm1d(8)
        self.scale = nn.Parameter(torch.ones(3, 2))
        self.shift = nn.Parameter(torch.randn(8))
        self.shift.data.zero_()


class OtherNames(nn.Module):
    """The same parameters, made in another order under other names, one of them copied during construction."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(8))
        self.factor = nn.Parameter(torch.ones(8))
        self.copied = self.factor.detach().clone()


def test_what_is_one_or_zero_varies() -> None:
    state = built(Norms).state_dict()
    for name in ("layer.weight", "layer.bias", "batch.weight", "batch.running_mean", "scale", "shift"):
        assert state[name].std() > 0.05, name
    assert bool((state["batch.running_var"] > 0.5).all())


def test_wild_seeds_give_learnable_values_either_sign_and_leave_variances_alone() -> None:
    state = built(Norms, affine.wild(5)).state_dict()
    assert bool((state["layer.weight"] < 0).any())
    assert bool((state["layer.weight"] > 1.3).any())
    assert bool((state["batch.running_var"] > 0.5).all())
    assert bool((built(Norms, affine.tame(affine.wild(5))).layer.weight > 0.5).all())


def test_names_and_order_do_not_matter_and_constructors_see_the_values() -> None:
    norms, other = built(Norms), built(OtherNames)
    assert torch.equal(norms.layer.weight, other.factor)
    assert torch.equal(norms.layer.bias, other.offset)
    assert torch.equal(other.copied, other.factor)


class Known(nn.Module):
    """What is known of a module without its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(0.25))
        self.gate = nn.Parameter(torch.zeros(()))
        self.scale = nn.Parameter(torch.ones([]) * 2.659)
        self.frozen = nn.Parameter(torch.zeros(4), requires_grad=False)
        self.kernel = nn.Parameter(torch.empty(4, 4, 3))
        nn.init.dirac_(self.kernel)
        self.turn = nn.Linear(4, 4, bias=False)
        nn.init.eye_(self.turn.weight)
        self.rates = nn.Parameter(torch.arange(1.0, 5.0).log())


def test_every_value_that_anybody_knows_varies_with_the_seed() -> None:
    torch.manual_seed(5)
    plain, one, two = Known().state_dict(), built(Known).state_dict(), built(Known, 6).state_dict()
    for name in plain:
        assert not torch.equal(plain[name], one[name]), name
        assert not torch.equal(two[name], one[name]), name


def test_parameters_of_one_shape_and_value_get_different_ones() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(8), nn.LayerNorm(8)

    state = built(Twice).state_dict()
    assert not torch.equal(state["first.weight"], state["second.weight"])
    assert not torch.equal(state["first.bias"], state["second.bias"])


def test_what_is_drawn_and_what_is_no_weight_stays() -> None:
    class Drawn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(4)
            self.linear = nn.Linear(4, 4)
            self.single = nn.Parameter(torch.randn(1) * 0.1)
            self.register_buffer("mask", torch.ones(4))
            self.table = nn.Parameter(torch.tril(torch.ones(4, 4)), requires_grad=False)

    torch.manual_seed(5)
    plain, varied = Drawn().state_dict(), built(Drawn).state_dict()
    for name in ("linear.weight", "linear.bias", "single", "mask", "table"):
        assert torch.equal(plain[name], varied[name]), name


def test_what_a_constructor_lays_out_anew_is_not_varied_twice() -> None:
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Parameter(torch.eye(4))
            self.turned = nn.Parameter(self.inner.detach().t().contiguous())

    turned = built(Turned)
    assert torch.equal(turned.turned, turned.inner.t())


def test_a_tensor_that_a_parameter_is_made_of_stays() -> None:
    ones = torch.ones(4)

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(ones)

    assert not torch.equal(built(Shared).weight, ones)
    assert torch.equal(ones, torch.ones(4))


def test_blank_memory_is_filled_before_it_varies() -> None:
    class Late(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.empty(64).zero_())
            self.seen = self.weight.detach().clone()

    late = built(Late)
    assert torch.equal(late.seen, torch.zeros(64)), "drawing what a constructor fills later costs seconds"
    assert late.weight.std() > 0.05


def test_other_threads_and_later_modules_are_left_alone() -> None:
    found = []
    with affine.vary_affine(5):
        thread = threading.Thread(target=lambda: found.append(nn.LayerNorm(4).weight))
        thread.start()
        thread.join()
    assert torch.equal(found[0], torch.ones(4))
    assert torch.equal(nn.LayerNorm(4).weight, torch.ones(4))


TASK = Task(
    id="t/norm",
    source=(
        "import torch\nfrom torch import nn\nN = 64\n\n\nclass Model(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n        self.norm = nn.LayerNorm(N)\n\n"
        "    def forward(self, x):\n        return self.norm(x)\n\n\n"
        "def get_inputs():\n    return [torch.randn(4, N)]\n\n\ndef get_init_inputs():\n    return []\n"
    ),
    shapes={"small": {"N": 64}},
)
KERNEL = """import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + tl.program_id(0) * N + at)
    d = x - tl.sum(x, axis=0) / N
    y = d / tl.sqrt(tl.sum(d * d, axis=0) / N + 1e-5)
    tl.store(y_ptr + tl.program_id(0) * N + at, AFFINE)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(64))
        self.beta = nn.Parameter(torch.zeros(64))

    def forward(self, x):
        y = torch.empty_like(x)
        norm_kernel[(x.shape[0],)](x, self.gamma, self.beta, y, N=x.shape[1])
        return y
"""


@pytest.mark.parametrize(
    ("affine_part", "right"),
    [
        ("y * tl.load(w_ptr + at) + tl.load(b_ptr + at)", True),
        ("y * tl.load(w_ptr + at)", False),
        ("y", False),
    ],
)
def test_a_dropped_identity_shows_and_other_names_do_not_matter(
    pool: VerifierPool, affine_part: str, right: bool
) -> None:
    verdict = pool.verify(TASK, Candidate(code=KERNEL.replace("AFFINE", affine_part)))
    assert verdict.correct is right, verdict.detail


def test_constants_vary_under_a_mode_that_passes_them_by_name() -> None:
    """Such as `torch.device`: it calls `torch.nn.init.constant_` with keywords."""
    with torch.device("cpu"):
        slopes = built(lambda: nn.PReLU(8))
    assert torch.equal(slopes.weight, built(lambda: nn.PReLU(8)).weight)
    assert slopes.weight.std() > 0.01


def test_the_scale_of_a_layer_that_begins_as_next_to_nothing_is_learnt() -> None:
    def scaled() -> nn.Module:
        module = nn.Module()
        module.scale = nn.Parameter(torch.full((40,), 1e-6))
        return module

    scale = built(scaled, affine.wild(5)).get_parameter("scale")
    assert float(scale.detach().abs().median()) > 0.1
    assert float(built(scaled).get_parameter("scale").detach().abs().max()) < 1e-5
