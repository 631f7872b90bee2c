"""Forms of results that are remembered are those that torch works out."""

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from kernelwright.verify.without_data import Remembered

CALLS: dict[str, Callable[[torch.Tensor], object]] = {
    "convolution": lambda x: functional.conv2d(x, x.new_empty(5, 4, 3, 3), padding=1),
    "in channels last": lambda x: functional.conv2d(
        x.to(memory_format=torch.channels_last), x.new_empty(5, 4, 3, 3)
    ),
    "batch norm": lambda x: functional.batch_norm(x, x.new_empty(4), x.new_empty(4)),
    "a pool with its places": lambda x: functional.max_pool2d(x, 2, return_indices=True),
    "a comparison": lambda x: x > 1,
    "another type": lambda x: x.to(torch.float16) + 1,
    "a view": lambda x: x.transpose(1, 2),
    "in place": lambda x: x.clone().mul_(2),
    "as it was": lambda x: torch.ops.aten._unsafe_view(x, x.shape),
    "complex": lambda x: torch.complex(x, x) * 2,
}


def _told(made: object) -> list[object]:
    tensors = made if isinstance(made, tuple) else (made,)
    return [(one.dtype, one.shape, one.stride(), one.is_conj()) for one in tensors]


@pytest.mark.parametrize("name", CALLS)
def test_a_second_call_on_equal_forms_gives_the_same_form(name: str) -> None:
    def given(side: int = 8) -> torch.Tensor:
        return torch.empty(2, 4, side, 6, device="meta")

    plain, other = _told(CALLS[name](given())), _told(CALLS[name](given(9)))
    with torch.no_grad(), Remembered():
        assert _told(CALLS[name](given())) == plain
        assert _told(CALLS[name](given())) == plain
        assert _told(CALLS[name](given(9))) == other
        x = given()
        shares = CALLS[name](x)
    parts = name in ("a view", "as it was")
    tensor = shares[0] if isinstance(shares, tuple) else shares
    assert isinstance(tensor, torch.Tensor)
    assert (tensor.untyped_storage()._cdata == x.untyped_storage()._cdata) == parts


def test_data_and_numbers_of_another_type_are_no_forms() -> None:
    with Remembered():
        assert torch.add(torch.ones(2), 1).tolist() == [2.0, 2.0]
        whole = torch.empty(3, dtype=torch.int64, device="meta")
        assert (whole + 1).dtype == torch.int64
        assert (whole + 1.0).dtype == torch.float32
        assert (whole + True).dtype == torch.int64
        with pytest.raises(RuntimeError):
            torch.empty(3, device="meta") @ torch.empty(4, device="meta")
