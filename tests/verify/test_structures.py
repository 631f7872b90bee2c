"""Nested tensors keep their types, and their numbers if required."""

import collections

import torch

from kernelwright.verify.structures import convert, describe, fits, same_bits, skeleton, with_numbers_of
from kernelwright.verify.trace.host import blank

Pair = collections.namedtuple("Pair", ["left", "right"])


def test_a_named_tuple_stays_one() -> None:
    made = convert(Pair(torch.ones(2), 3), lambda tensor: tensor * 2)
    assert made.left.tolist() == [2.0, 2.0]
    assert made.right == 3


def test_what_torch_returns_with_names_stays_what_it_is() -> None:
    made = convert(torch.max(torch.tensor([[1.0, 5.0]]), dim=1), lambda tensor: tensor)
    assert made.values.item() == 5.0


def test_the_form_of_a_named_tuple_says_what_each_name_gives() -> None:
    class Swapped(Pair):
        @property
        def right(self) -> object:  # type: ignore[override]
            return self[0]

    one = torch.ones(2)
    assert skeleton(Pair(one, 3)) == ["tuple left=0 right=1", "*", 3]
    assert skeleton(Swapped(one, 3)) == ["tuple left=0 right=0", "*", 3]
    assert skeleton((one, 3)) == ["tuple", "*", 3]


def test_what_torch_returns_with_names_has_the_form_of_a_tuple() -> None:
    assert skeleton(torch.max(torch.ones(2, 2), dim=1)) == ["tuple", "*", "*"]


def test_forms_are_alike_where_their_keys_are_in_one_order() -> None:
    assert fits([{"a": 1, "b": 2}], [{"a": 1, "b": 2}])
    assert not fits([{"a": 1, "b": 2}], [{"b": 2, "a": 1}])


def test_names_reach_the_candidate() -> None:
    assert blank(describe(Pair(torch.ones(2), 3))).left.shape == (2,)


def test_numbers_of_the_first_draw_stay_and_tensors_do_not() -> None:
    first, second = [torch.zeros(1), 0.25, {"scale": 2}], [torch.ones(1), 0.75, {"scale": 3}]
    made = with_numbers_of(first, second)
    assert made[0].item() == 1.0
    assert made[1:] == [0.25, {"scale": 2}]


def test_a_rounding_is_another_number_and_a_nan_is_not() -> None:
    one = torch.tensor([1.0, float("nan")])
    assert same_bits(one, one.clone())
    assert not same_bits(one, torch.nextafter(one, torch.tensor(2.0)))


def test_a_named_tuple_stands_for_a_plain_one_where_each_name_gives_its_own_place() -> None:
    one = torch.ones(2)
    named, turned = skeleton(Pair(one, one)), ["tuple left=1 right=0", "*", "*"]
    plain = skeleton((one, one))
    assert fits(named, plain)
    assert fits(skeleton({"a": [Pair(one, one)]}), skeleton({"a": [(one, one)]}))
    assert not fits(turned, plain)
    assert not fits(plain, named)
