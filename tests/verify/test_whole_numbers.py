"""Integers other than those that a task draws."""

from __future__ import annotations

from typing import Any

import torch

from kernelwright.verify.reference.operators import Operators
from kernelwright.verify.reference.whole_numbers import alike, met_again, named_in, wider


def _rows(inputs: Any) -> list[torch.Tensor]:
    table, ids = inputs
    return [table.index_select(0, ids)]


def _drawn(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(10, 3, generator=generator), torch.randint(1, 10, (32,), generator=generator)]


def test_places_are_all_alike_and_at_an_end_of_what_is_drawn() -> None:
    made = alike(_drawn(0), _drawn(1), _rows, ["index_select"], 5, by_row=False)
    assert made[1].unique().tolist() == [int(_drawn(0)[1].max())]


def test_blocks_of_a_vector_are_each_of_one_number() -> None:
    made = alike(_drawn(0), _drawn(1), _rows, ["index_select"], 5, by_row=True)
    assert all(len(part.unique()) == 1 for part in made[1].tensor_split(3))
    assert {int(made[1].min()), int(made[1].max())} == {
        int(_drawn(0)[1].min()),
        int(_drawn(0)[1].max()),
    }


def test_what_the_reference_refuses_is_not_drawn() -> None:
    def once(inputs: Any) -> list[torch.Tensor]:
        if len(inputs[1].unique()) < 2:
            raise ValueError("no two alike")
        return _rows(inputs)

    assert alike(_drawn(0), _drawn(1), once, ["index_select"], 5, by_row=False) is None


def test_bytes_are_at_the_end_of_their_range() -> None:
    image = torch.randint(0, 200, (4, 8), dtype=torch.uint8)

    def total(inputs: Any) -> list[torch.Tensor]:
        return [inputs[0].sum(1)]

    made = alike([image], [image + 1], total, ["sum"], 5, by_row=True)
    assert made[0].unique().tolist() == [0, 255]
    made = alike([image], [image + 1], total, ["sum"], 5, by_row=False)
    assert int(made[0].min()) >= 252
    assert len(made[0].unique()) > 1


def test_offsets_have_other_ends_only_where_nothing_beyond_them_counts() -> None:
    def segments(inputs: Any) -> list[torch.Tensor]:
        rows, marks = inputs
        sums = torch.cat([torch.zeros_like(rows[:1]), rows]).cumsum(0)
        return [sums[marks[1:]] - sums[marks[:-1]]]

    def clamped(inputs: Any) -> list[torch.Tensor]:
        rows, marks = inputs
        which = torch.bucketize(torch.arange(len(rows)), marks[1:], right=True)
        return [torch.zeros(len(marks) - 1, 2).index_add(0, which.clamp(max=len(marks) - 2), rows)]

    def drawn() -> list[torch.Tensor]:
        return [torch.arange(48.0).reshape(24, 2).sin(), torch.arange(5) * 6]

    for reference, others in ((segments, True), (clamped, False)):
        made = wider(drawn(), drawn(), reference, Operators(["index_add"]), [], 5)
        assert bool(made[1][0] > 0) is others
        assert bool(made[1][-1] < 24) is others


def test_offsets_begin_where_they_did_where_rows_before_the_first_attend_to_one_another() -> None:
    def attention(inputs: Any) -> list[torch.Tensor]:
        q, k, v, marks = inputs
        which = torch.bucketize(torch.arange(len(q)), marks, right=True)
        scores = (q @ k.T).masked_fill(which[:, None] != which, -torch.inf)
        return [scores.softmax(-1) @ v]

    rows = torch.arange(48.0).reshape(24, 2)
    given = [rows.sin(), rows.cos(), (rows + 1).sin(), torch.tensor([0, 4, 9, 15, 24])]
    made = wider(given, given, attention, Operators(["bmm"]), [], 5)
    assert made is None or made[3][[0, -1]].tolist() == [0, 24]


def test_a_number_for_padding_is_drawn_below_what_the_task_draws() -> None:
    made = wider(_drawn(0), _drawn(1), _rows, Operators(["index_select"]), [0, 10], 5)
    assert (made[1] == 0).any()
    assert not (made[1] == 10).any()


def test_of_few_labels_one_is_the_number_that_the_task_ignores() -> None:
    def loss(inputs: Any) -> list[torch.Tensor]:
        return [torch.nn.functional.cross_entropy(*inputs, ignore_index=-100)]

    drawn, again = ([torch.randn(5, 9), torch.randint(0, 9, (5,))] for _ in range(2))
    for seed in range(20):
        made = wider(drawn, again, loss, Operators(["nll_loss_forward"]), [-100], seed)
        assert int(made[1].min()) == -100


def test_axes_sizes_and_places_from_the_end_are_no_numbers_that_a_task_names() -> None:
    counted = "x = torch.softmax(x.view(n, -1), dim=-1)[..., -1, -2:].sum((-2, -3))"
    named = "y = f(x, ignore_index=-100) + (x == -7) + torch.eq(x, -3)"
    assert not [number for number in named_in(counted) if number < 0]
    assert [number for number in named_in(named) if number < 0] == [-100, -7, -3]
    assert named_in("B, H = 2, 8\nPAD = 7\nN: int = 3\ny = x == 5", ("B", "H")) == [3, 5, 7]


def test_numbers_that_name_kinds_stay_those_kinds() -> None:
    def sorted_out(inputs: Any) -> list[torch.Tensor]:
        rows, kinds = inputs
        return [sum(torch.where((kinds == kind)[:, None], rows * (kind + 1), 0.0) for kind in range(4))]

    given = [torch.arange(48.0).reshape(24, 2).sin(), torch.arange(24) % 4]
    names = Operators(["eq", "mul", "where", "add"])
    assert not (wider(given, given, sorted_out, names, [], 5)[1] >= 0).all()
    names.kinds = frozenset(range(4))
    assert (wider(given, given, sorted_out, names, [], 5)[1] % 4 >= 0).all()
    assert set(wider(given, given, sorted_out, names, [], 5)[1].tolist()) <= set(range(4))


def test_a_number_that_is_ignored_is_there_whatever_else_is_drawn() -> None:
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)  # labels of 0 and 1 alone would be taken for booleans
        scores = torch.randn(3, 8, generator=generator)
        labels = torch.randint(2, 8, (3,), generator=generator)

        def loss(inputs: Any) -> list[torch.Tensor]:
            return [torch.nn.functional.cross_entropy(inputs[0], inputs[1])]

        operators = Operators(["_log_softmax", "nll_loss_forward"])
        made = wider([scores, labels], [scores, labels.flip(0)], loss, operators, [-100, 2, 4], seed)
        assert bool((made[1] == -100).any()) or bool((labels.diff() >= 0).all()), (seed, labels)


def test_positions_that_follow_one_another_begin_later_where_the_reference_takes_that() -> None:
    positions, table = torch.arange(16), torch.randn(16)

    def angles(inputs: Any) -> list[torch.Tensor]:
        return [inputs[0].float().cos()]

    def looked_up(inputs: Any) -> list[torch.Tensor]:
        return [inputs[1].index_select(0, inputs[0])]

    made = wider([positions, table], [positions, table], angles, Operators(["cos"]), [], 3)
    assert int(made[0].min()) >= 4096
    made = wider([positions, table], [positions, table], looked_up, Operators(["index_select"]), [], 3)
    assert int(made[0].max()) < 16


def test_offsets_of_parts_of_one_element_are_no_positions() -> None:
    def numbered(inputs: Any) -> list[torch.Tensor]:
        rows, offsets = inputs
        return [rows * torch.searchsorted(offsets, torch.arange(len(rows)), right=True)[:, None]]

    given = [torch.randn(12, 3), torch.arange(13)]
    for seed in range(6):
        made = wider(given, given, numbered, Operators(["searchsorted", "mul"]), [], seed)
        assert made is None or int(made[1].max()) <= 12


def test_ids_are_met_again_at_the_other_end_of_a_row() -> None:
    made = met_again([torch.randint(0, 9, (3, 40))], lambda inputs: [inputs[0]], 5)[0]
    assert (made[:, 0] == made[:, -1]).all()
    assert (made[:, 1:-1] == made[0, 1]).all()
    assert made[0, 0] != made[0, 1]
