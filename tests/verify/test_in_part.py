"""Inputs that agree in part, and integers of which only differences count."""

import threading

import torch

from kernelwright.verify.reference.in_part import agreeing, begun_alike, crossed, told_apart
from kernelwright.verify.reference.met import met
from kernelwright.verify.reference.operators import operators
from kernelwright.verify.reference.rounded import Wide
from kernelwright.verify.reference.whole_numbers import far_on, in_some_rows, spread_out


class _Bag(torch.nn.Module):
    def forward(self, ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return table[ids].mean(1)


class _Age(torch.nn.Module):
    def forward(self, now: torch.Tensor, then: torch.Tensor) -> torch.Tensor:
        return (now - then).float()


def _calls(module: torch.nn.Module):
    return lambda inputs: [module(*inputs)]


def test_rows_of_integers_begin_alike_and_go_on_otherwise():
    ids, table = torch.randint(0, 100, (6, 128)), torch.randn(100, 4)
    made = told_apart([ids, table], _calls(_Bag()), 0, 1)[0]
    assert torch.equal(made[1, :16], made[0, :16])
    assert not torch.equal(made[1], made[0])
    assert torch.equal(made[3, :1], made[2, :1])
    assert torch.equal(made[5, :64], made[4, :64])
    assert int(made.min()) >= 0
    assert int(made.max()) < 100


def test_blocks_have_equal_or_consecutive_ends_and_others_between():
    index = torch.randint(0, 5000, (4096,))
    made = told_apart([index, torch.randn(5000)], lambda inputs: [inputs[1][inputs[0]]], 0, 1)[0]
    assert int(made[0]) == int(made[1023]) == int(made[16])
    assert len(made[:1024].unique()) > 100
    assert int(made[4095]) - int(made[3072]) == 1023
    assert int((made[3072:].diff() == 1).sum()) < 512


def test_floats_begin_alike_but_not_masks_or_square_matrices():
    keys, square = torch.randn(3, 40, 4), torch.randn(5, 5)
    mask = torch.randn(3, 40).masked_fill(torch.rand(3, 40) < 0.5, 0.0)
    made = begun_alike([keys, square, mask])
    assert torch.equal(made[0][1, :16], keys[0, :16])
    assert torch.equal(made[0][1, 16:], keys[1, 16:])
    assert torch.equal(made[1], square)
    assert torch.equal(made[2], mask)


def test_neighbours_name_the_same_two_in_either_order():
    u, v = torch.randint(0, 50, (9,)), torch.randint(0, 50, (9,))
    first, second = crossed([torch.randn(9, 4), u, v])[1:]
    assert torch.equal(first[1:8:2], v[0:8:2])
    assert torch.equal(second[1:8:2], u[0:8:2])
    edges = crossed([torch.randint(0, 50, (2, 9))])[0]
    assert torch.equal(edges[:, 1:8:2], edges[:, 0:8:2].flip(0))
    assert crossed([u.sort().values, v.float()]) is None


def test_integers_lie_far_on_only_where_differences_count():
    given = [torch.randint(0, 1000, (8,)), torch.randint(0, 1000, (8,))]
    assert operators(_Age(), given).subtracted
    made = far_on(given, _calls(_Age()), ["sub", "_to_copy"], 1)
    assert int(made[0].min()) >= 1 << 60
    assert torch.equal(made[0] - made[1], given[0] - given[1])
    assert far_on(given, lambda inputs: [inputs[0] * inputs[1]], ["mul"], 1) is None


def test_the_epsilon_of_a_type_is_that_of_the_task_in_double_precision():
    usual = torch.finfo
    with Wide([torch.zeros(2)]):
        assert torch.finfo(torch.float64).eps == usual(torch.float32).eps
    with Wide([torch.zeros(2), torch.zeros(2).bfloat16()]):
        assert torch.finfo(torch.float64).eps == usual(torch.float64).eps
    assert torch.finfo is usual


def test_other_threads_are_told_the_limits_that_they_ask_for() -> None:
    """Two runs in double precision that overlapped left `torch.finfo` changed: from then on tolerances of fp64 were those of float32."""
    own, usual = torch.finfo, [torch.zeros(2)]
    first, second = Wide(usual), Wide(usual)
    inside, done = threading.Event(), threading.Event()

    def run() -> None:
        with second:
            inside.set()
            done.wait(10.0)

    thread = threading.Thread(target=run)
    with first:
        thread.start()
        assert inside.wait(10.0)
        assert torch.finfo(torch.float64).eps == own(torch.float32).eps
        assert isinstance(own(torch.float16), torch.finfo)
    assert torch.finfo(torch.float64).eps == own(torch.float64).eps
    done.set()
    thread.join()
    assert torch.finfo is own


class _Bags(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a.sort(1).values == b.sort(1).values).all(1)


def test_bags_of_one_sum_and_one_sum_of_squares_differ():
    given = [torch.randint(0, 1000, (16, 12)), torch.randint(0, 1000, (16, 12))]
    one, two = agreeing(given, _calls(_Bags()), True, 3)
    assert torch.equal(one[4::6].sum(1), two[4::6].sum(1))
    assert torch.equal(one[4::6].square().sum(1), two[4::6].square().sum(1))
    assert not bool(_Bags()(one, two)[4::6].any())


def test_integers_lie_apart_where_only_comparisons_count():
    given = [torch.randint(0, 1000, (8,)), torch.randint(0, 1000, (8,), dtype=torch.int32)]
    known = operators(_Bags(), [torch.zeros(2, 3, dtype=torch.int64)] * 2)
    made = spread_out(given, lambda inputs: [inputs[0] == inputs[1]], known)
    assert torch.equal(made[0], given[0] << 16)
    assert spread_out(given, lambda inputs: [inputs[0] % 7], known) is None


class _Room(torch.nn.Module):
    def forward(self, used: torch.Tensor, want: torch.Tensor, most: torch.Tensor) -> torch.Tensor:
        return (used + want).cumsum(1) <= most[:, None]


def test_integers_meet_what_they_are_compared_with():
    used, want = torch.randint(0, 10, (2, 40, 3))
    given = [used, want, torch.randint(0, 60, (40,))]
    most = met(given, _Room(), _calls(_Room()), 1)[2]
    sums = (used + want).cumsum(1)
    assert int((sums == most[:, None]).any(1).sum()) > 10
    assert int(most.max()) < 60


def test_every_other_row_stays_as_drawn_where_an_extremum_is_taken():
    drawn, wide = [torch.zeros(4, 3, dtype=torch.int64)], [torch.ones(4, 3, dtype=torch.int64)]
    made = in_some_rows(drawn, wide, lambda inputs: [inputs[0].max()], ["max"])[0]
    assert made.sum(1).tolist() == [0, 3, 0, 3]
    assert in_some_rows(drawn, wide, lambda inputs: [inputs[0]], ["add"]) is None


def test_a_row_holds_the_same_as_the_one_before_in_another_order():
    ids, table = torch.randint(0, 100, (6, 48)), torch.randn(100, 4)
    for place, turn in ((3, 0), (1, 1)):
        made = told_apart([ids, table], _calls(_Bag()), turn, 1)[0]
        assert torch.equal(made[place].sort().values, made[place - 1].sort().values)
        assert not torch.equal(made[place], made[place - 1])
