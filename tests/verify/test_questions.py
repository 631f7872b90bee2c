"""What a file may ask of tensors and versions, answered otherwise."""

from __future__ import annotations

import random
import sys

import torch
import triton

from kernelwright.verify.static_rules import TENSORS
from kernelwright.verify.trace.pretend_cuda import PretendCuda
from kernelwright.verify.trace.questions import FLIPS, asked, versions_of
from kernelwright.verify.trace.surroundings import Surroundings

DICE = random.Random(0)


def is_operator(name: str) -> bool:
    """Whether a method gives a tensor by an operator, which a trace records."""
    packet = getattr(torch.ops.aten, name, None)
    overloads = packet.overloads() if hasattr(packet, "overloads") else ()
    return any(
        "Tensor" in str(given.type) for one in overloads for given in getattr(packet, one)._schema.returns
    )


def test_every_public_attribute_of_a_tensor_is_classified() -> None:
    known = [name for names in TENSORS.values() for name in names]
    public = {name for name in dir(torch.Tensor) if name[:1] != "_" and not is_operator(name)}
    assert len(known) == len(set(known))
    assert public <= set(known)


def test_questions_are_answered_otherwise() -> None:
    around = Surroundings(environment=False)
    with PretendCuda("meta", surroundings=around):
        x = torch.empty(8, device="cuda")
        assert (x.is_neg(), torch.is_conj(x), x.layout) == (False, False, torch.strided)
        around.otherwise = ("is_neg", "is_conj", "layout")
        assert (x.is_neg(), torch.is_conj(x), x.layout, x.is_pinned()) == (
            True,
            True,
            torch.sparse_coo,
            False,
        )


def test_each_question_is_known_to_the_mode_unless_this_torch_lacks_it() -> None:
    assert {name for name, _ in FLIPS.values()} == {
        name for name in TENSORS["otherwise"] if hasattr(torch.Tensor, name)
    }


def test_all_sets_of_a_few_questions_are_asked() -> None:
    code = "def f(x):\n    return x.is_neg() or torch.is_conj(x) or getattr(x, 'layout')"
    assert len(asked(code, DICE)) == 7
    assert asked("def f(x):\n    return x.shape", DICE) == []


def test_versions_are_those_of_another_installation() -> None:
    rows = asked("import triton\nOLD = triton.__version__ < '3'", DICE)
    before = torch.__version__, triton.__version__, sys.version_info
    with versions_of(rows[0]):
        assert torch.__version__ < (2, 0)
        assert triton.__version__ == "2.0.0"
        assert sys.version_info[:2] == (3, 8)
    assert (torch.__version__, triton.__version__, sys.version_info) == before


def test_inputs_may_lie_in_a_large_buffer() -> None:
    around = Surroundings(environment=False)
    with PretendCuda("meta", surroundings=around) as cuda:
        x = cuda.adopt_input(torch.empty(8, device="cuda"))
        around.behind = 3.0
        assert x.untyped_storage().nbytes() == 128
        assert torch.empty(8, device="cuda").untyped_storage().nbytes() == 32
