"""Plans are decisions in one grammar, printed and parsed to the same record; plans that no target could run cannot be built."""

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kernelwright.errors import UserError
from kernelwright.synth.plan import parse_plan, print_plan
from kernelwright.synth.program import ProductSchedule, RowSchedule, Schedule

KINDS = get_args(get_args(Schedule)[0])
CHOICES: dict[str, Any] = {
    "group": st.integers(1, 64), "split_k": st.integers(1, 64), "split": st.integers(1, 4096), "stages": st.integers(1, 8),
    "products": st.integers(2, 4),
    "tile2": st.tuples(*[st.sampled_from([16, 32, 64, 128])] * 2),
    "tile3": st.tuples(*[st.sampled_from([16, 32, 64, 128])] * 3),
}  # fmt: skip


@st.composite
def schedules(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(KINDS))
    values = {}
    for name, field in kind.model_fields.items():
        if name == "nest":
            continue
        if name == "tile":
            values[name] = draw(CHOICES[f"tile{len(field.default)}"])
        elif name == "box":
            values[name] = draw(st.sampled_from([(1, 1), (4, 8), (1, 16)]))
        elif name in CHOICES:
            values[name] = draw(CHOICES[name])
        elif isinstance(field.default, bool):
            values[name] = draw(st.booleans())
        else:
            values[name] = draw(st.sampled_from(get_args(field.annotation)))
    try:
        return kind(**values)
    except ValidationError:
        return kind()


@given(schedules(), st.sampled_from(["linear+gelu", "softmax"]))
def test_a_printed_plan_is_parsed_to_the_same_schedule(schedule: Any, label: str) -> None:
    assert parse_plan(print_plan(label, schedule)) == (label, schedule)


def test_a_plan_reads_as_the_design_has_it() -> None:
    schedule = ProductSchedule(tile=(128, 256, 64), stages=3, loads="descriptor", persistent=True, epilogue=2)
    plan = print_plan("linear+gelu", schedule)
    assert plan.startswith("g1: linear+gelu  nest product  tile 128x256x64  order grouped(8)  stages 3")
    assert "loads descriptor  persistent yes" in plan


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("a kernel", "starts with"),
        ("g1: x  nest product  colour blue", "no decision 'colour'"),
        ("g1: x  nest product  tile 128by64", "not a value of tile"),
        ("g1: x  nest product  tile 8x8x8", "at least 16"),
        ("g1: x  nest poem", "does not match"),
    ],
)
def test_what_is_no_plan_says_why(line: str, word: str) -> None:
    with pytest.raises(UserError, match=word):
        parse_plan(line)


def test_schedules_that_no_target_could_run_cannot_be_built() -> None:
    with pytest.raises(ValidationError, match="shared memory"):
        ProductSchedule(tile=(256, 256, 128), warps=16, stages=4)
    with pytest.raises(ValidationError, match="accumulators"):
        ProductSchedule(tile=(256, 256, 16), warps=4)
    with pytest.raises(ValidationError, match="exclude each other"):
        ProductSchedule(persistent=True, split_k=2)
    with pytest.raises(ValidationError, match="can be flat"):
        ProductSchedule(flat=True)
    with pytest.raises(ValidationError, match="goes with passes split"):
        RowSchedule(split=4)
