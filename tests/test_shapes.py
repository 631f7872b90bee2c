"""Rewriting of module-level size constants: exact text, exact errors."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.errors import UserError
from kernelwright.shapes import apply_shape, constants


def test_a_plain_constant_is_replaced_and_all_else_stays():
    assert apply_shape("N = 4  # rows é\nM = 2 * N\n", {"N": 8}) == "N = 8  # rows é\nM = 2 * N\n"


def test_an_annotated_constant_is_replaced():
    assert apply_shape("N: int = 4\n", {"N": 8}) == "N: int = 8\n"


def test_tuple_assignment_is_replaced_by_name():
    assert apply_shape("é, B = 3, (4)\n", {"B": 9}) == "é, B = 3, (9)\n"


def test_a_tuple_element_is_replaced_by_index():
    assert apply_shape("shape = (32,\n  64)\n", {"shape[1]": 7}) == "shape = (32,\n  7)\n"


def test_a_chained_assignment_changes_only_the_named_target():
    space: dict[str, int] = {}
    exec(apply_shape("A = B = 4\n", {"B": 9}), space)
    assert (space["A"], space["B"]) == (4, 9)


def test_a_derived_constant_may_be_fixed():
    assert apply_shape("N = 4\nM = 2 * N\n", {"M": 3}) == "N = 4\nM = 3\n"


def test_no_overrides_give_the_source_itself():
    assert apply_shape("not python at all (", {}) == "not python at all ("


def test_local_names_are_not_constants():
    with pytest.raises(UserError, match="no module-level constant 'K'"):
        apply_shape("N = 4\ndef f():\n    K = 3\n", {"K": 1})


def test_an_unknown_constant_names_the_valid_ones():
    with pytest.raises(UserError, match=r"did you mean BATCH\?\); its constants are: BATCH, N$"):
        apply_shape("BATCH = 4\nN = 2\n", {"BATHC": 1})


def test_whole_tuple_and_element_cannot_both_be_set():
    with pytest.raises(UserError, match="set only one"):
        apply_shape("t = (1, 2)\n", {"t": 3, "t[0]": 4})


def test_broken_source_is_a_user_error():
    with pytest.raises(UserError, match="line 1"):
        apply_shape("N = (", {"N": 3})


def test_constants_lists_integers_only():
    source = "N = 4\nM = 2 * N\nA, B = 3, -4\nt = (1, 2.0)\nflag = True\nX = Y = 7\n"
    assert constants(source) == {"N": 4, "A": 3, "B": -4, "t[0]": 1, "X": 7, "Y": 7}


def test_arithmetic_over_literals_is_a_constant():
    assert constants("N = 2048 * 2 + 2**3 - (1 << 4) // 2\nZ = 1 // 0\nF = 2 / 1\n") == {"N": 4096}


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=6), st.data())
def test_rewriting_sets_exactly_the_named_constants(values, data):
    ends = data.draw(st.sampled_from(["\n", "\r\n"]))
    source = "".join(f"C{i} = {v}  # \u00e9\f{ends}" for i, v in enumerate(values))
    named = data.draw(
        st.dictionaries(st.sampled_from([f"C{i}" for i in range(len(values))]), st.integers(1, 99))
    )
    rewritten = apply_shape(source, named)
    ast.parse(rewritten)
    assert constants(rewritten) == {**constants(source), **named}
