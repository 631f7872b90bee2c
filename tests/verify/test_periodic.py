"""One period of a full-size case determines the whole."""

import random
from typing import Any

import numpy as np
import pytest
import torch

from kernelwright.hardware import target
from kernelwright.records import Task
from kernelwright.verify.interpret import full_size
from kernelwright.verify.interpret.full_size import Fold, Sampled, Unsure
from kernelwright.verify.protocol import PROTOCOLS
from kernelwright.verify.reference import periodic
from kernelwright.verify.reference.baseline import baseline
from kernelwright.verify.reference.comparison import compare
from kernelwright.verify.reference.oracle import shape_cases
from kernelwright.verify.reference.task_module import Reference
from kernelwright.verify.repeats import Repeats
from kernelwright.verify.structures import flatten
from kernelwright.verify.trace.tape import View

SOURCE = """
import torch
import torch.nn as nn

ROWS, INNER, COLS = 60, 64, 54


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, x):
        return {forward}


def get_inputs():
    return [torch.randn(ROWS, INNER)]


def get_init_inputs():
    return []
"""
SMALL = {"ROWS": 7, "INNER": 6, "COLS": 5}
KINDS = {
    "linear": ("self.f = nn.Linear(INNER, COLS)", "self.f(x)", {(0, 0), (0, 1)}),
    "softmax": ("self.f = nn.Softmax(1)", "self.f(x)", {(0, 0)}),
    "scaled": ("self.w = nn.Parameter(torch.randn(INNER))", "torch.tanh(x * self.w)", {(0, 0), (0, 1)}),
    "scan": ("pass", "torch.cumsum(x, 0)", {(0, 1)}),
    "two outputs": ("pass", "(x.sum(1), x.amax(1, keepdim=True))", {(0, 0), (1, 0)}),
    "shifted": ("pass", "x.roll(1, 0)", {(0, 1)}),
    "whole": ("pass", "x.mean()", set()),
    "centred": ("pass", "x - x.mean()", set()),
}


def made(kind: str) -> tuple[Task, Any, Any]:
    """A task, its small case and its baseline."""
    init, forward, _ = KINDS[kind]
    source = SOURCE.format(init=init, forward=forward)
    task = Task(id=f"test/{kind}", source=source, shapes={"small": SMALL, "full": {}})
    protocol = PROTOCOLS["strict"]
    cases = shape_cases(task, "small", SMALL, protocol, 5, 2)
    return task, cases.cases[0], baseline(task, {}, target("H200"))


@pytest.mark.parametrize("kind", KINDS)
def test_axes_that_go_index_by_index_are_found(kind: str) -> None:
    _, case, _ = made(kind)
    for seed in range(4):
        axes = periodic.separable([case], random.Random(seed))
        assert {place for axis in axes for place in axis.returned} == KINDS[kind][2]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if KINDS[kind][2]])
def test_a_period_tells_the_whole(kind: str) -> None:
    task, case, base = made(kind)
    found = periodic.patch(task, [case], base, PROTOCOLS["strict"], 11, False)
    assert found is not None

    def repeated(tensor: torch.Tensor, shape: torch.Size, drawn: list[Repeats | None]) -> torch.Tensor:
        for axis, (extent, repeats) in enumerate(zip(shape, drawn, strict=True)):
            if repeats is not None:
                places = torch.from_numpy(repeats(np.arange(extent)).astype(np.int64))
                tensor = tensor.index_select(axis, places)
        return tensor

    module = Reference(task).build(vary=True)
    weights = zip(module.state_dict().items(), found.given[1:], strict=True)
    module.load_state_dict(
        {name: repeated(found.state[name], t.shape, drawn) for (name, t), drawn in weights}
    )
    (inputs,) = Reference(task).inputs(0)
    with torch.no_grad():
        outputs = flatten(module(repeated(found.case.inputs[0], inputs.shape, found.given[0])))
    assert found.case.inputs[0].numel() < inputs.numel()
    for number, output in enumerate(outputs):
        everywhere = torch.arange(output.numel())
        expected = found.expected(number, everywhere, tuple(output.shape))
        assert compare(number, output.reshape(-1), expected, PROTOCOLS["strict"]).kind == ""
        wrong = compare(number, output.reshape(-1) * 1.01 + 0.01, expected, PROTOCOLS["strict"])
        assert wrong.kind in ("wrong_value", "low_precision")


def test_zeros_and_masks_may_mean_something() -> None:
    task, case, base = made("scaled")
    case.inputs[0].tril_()
    assert periodic.patch(task, [case], base, PROTOCOLS["strict"], 1, False) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "period", "order"),
    [
        ((6, 8), (3, 5), (0, 1)),
        ((6, 8), (6, 8), (1, 0)),
        ((4, 5, 6), (4, 2, 6), (2, 0, 1)),
        ((7,), (3,), (0,)),
    ],
)
def test_addresses_are_mapped_to_the_period(
    shape: tuple[int, ...], period: tuple[int, ...], order: tuple[int, ...], dtype: torch.dtype
) -> None:
    small = torch.randn(period).to(dtype)
    full = torch.empty([shape[axis] for axis in order], dtype=dtype).permute(
        sorted(range(len(shape)), key=lambda axis: order[axis])
    )
    assert full.shape == shape
    view = View(1, 3, shape, full.stride(), str(dtype).removeprefix("torch."))
    repeats = [
        Repeats.drawn(few, random.Random(axis)) if few < many else None
        for axis, (few, many) in enumerate(zip(period, shape, strict=True))
    ]
    fold = Fold.of(view, small, repeats)
    size = small.element_size()
    for place in torch.cartesian_prod(*map(torch.arange, shape)).reshape(-1, len(shape)).tolist():
        at = 3 + sum(i * step for i, step in zip(place, view.stride, strict=True))
        base = [int(drawn(np.array([i]))[0]) if drawn else i for i, drawn in zip(place, repeats, strict=True)]
        wanted = sum(i * step for i, step in zip(base, small.stride(), strict=True))
        for byte in (0, size - 1):
            (got,) = fold(torch.tensor([at * size + byte]).numpy().astype("uint64")).tolist()
            assert got == wanted * size + byte


def test_rows_that_nobody_asks_about_are_as_the_task_draws_them_and_all_different() -> None:
    task, case, base = made("linear")
    found = periodic.patch(task, [case], base, PROTOCOLS["strict"], 11, False)
    assert found is not None
    period, (rows, _), others = found.case.inputs[0], found.given[0], found.others[0]
    assert rows is not None
    sampled = Sampled()
    view = View(1, 0, (60, 64), (64, 1), "float32")
    fold = Fold.of(view, period, [rows, None], others.numel(), sampled.asked)
    memory = torch.cat([period.reshape(-1), others])
    offsets = np.arange(60 * 64, dtype=np.uint64) * np.uint64(4)

    def read() -> torch.Tensor:
        return memory[torch.from_numpy((fold(offsets) // 4).astype(np.int64))].reshape(60, 64)

    repeated = read()
    assert len(repeated.unique(dim=0)) <= rows.count
    asked = np.array([3, 4, 40])
    sampled.ask({rows: asked})
    seen = read()
    assert torch.equal(seen[asked], repeated[asked])
    rest = np.delete(seen.numpy(), asked, axis=0)
    assert len(np.unique(rest[:, 0])) == len(rest)
    assert case.inputs[0].min() <= rest.min()
    assert rest.max() <= case.inputs[0].max()


def test_indices_of_stored_places_are_found() -> None:
    view = View(1, 5, (3, 4, 2), (2, 6, 1), "float32")
    at = torch.tensor([5 + 2 * 2 + 6 * 3 + 1, 5 + 2 * 2 + 6 * 1 + 1]).numpy().astype(np.uint64) * np.uint64(4)
    found = full_size.indices(view, at)
    assert {axis: some.tolist() for axis, some in found.items()} == {1: [1, 3], 0: [2], 2: [1]}
    assert full_size.indices(view, np.array([0], dtype=np.uint64)) == {}


def test_an_input_with_gaps_is_not_mapped() -> None:
    with pytest.raises(Unsure):
        Fold.of(View(1, 0, (4, 4), (8, 1), "float32"), torch.zeros(2, 4), [None, None])


def test_a_table_may_be_larger_than_32_bits_count() -> None:
    """Bytes at 6 GB, and elements beyond 2^32."""
    for rows in (3_000_000, 9_000_000):
        view, drawn = View(1, 0, (rows, 512), (512, 1), "float32"), Repeats.drawn(1, random.Random(1))
        fold = Fold.of(view, torch.zeros(rows, 1, device="meta"), [None, drawn])
        row = rows - 2
        (got,) = fold(torch.tensor([(row * 512 + 77) * 4 + 3]).numpy().astype("uint64")).tolist()
        assert got == row * 4 + 3


def test_what_lives_on_is_not_written() -> None:
    sampled, view = Sampled(), View(1, 0, (4,), (1,), "float32")
    with pytest.raises(Unsure):
        sampled.fills(7, 16, view, 0.0)
    with pytest.raises(Unsure):
        sampled.counts(7, 16, view, 0.0, 1.0)


def test_nothing_is_said_of_what_was_not_written() -> None:
    assert Sampled().stored(1, View(1, 0, (4,), (1,), "float32")) is None


def test_what_one_size_hides_another_tells() -> None:
    """Heads that share keys are independent only at sizes with one head of keys."""
    source = SOURCE.replace("{init}", "pass").replace(
        "{forward}", "x * k.repeat_interleave(x.shape[1] // k.shape[1], dim=1)"
    )
    source = source.replace("forward(self, x)", "forward(self, x, k)").replace(
        "return [torch.randn(ROWS, INNER)]", "return [torch.randn(ROWS, INNER), torch.randn(ROWS, COLS)]"
    )
    protocol = PROTOCOLS["strict"]
    found = []
    for sizes in ({"ROWS": 5, "INNER": 6, "COLS": 1}, {"ROWS": 5, "INNER": 6, "COLS": 2}):
        task = Task(id="test/shared", source=source, shapes={"small": sizes, "full": {}})
        found.append(shape_cases(task, "small", sizes, protocol, 5, 2).cases[0])
    places = [
        {place for axis in periodic.separable(cases, random.Random(1)) for place in axis.returned}
        for cases in (found[:1], found)
    ]
    assert places == [{(0, 0), (0, 1)}, {(0, 0)}]
    base = baseline(task, {"COLS": 8}, target("H200"))
    assert periodic.patch(task, found[:1], base, protocol, 1, False) is None


@pytest.mark.parametrize(
    ("forward", "all_matter"),
    [
        ("x.mean()", True),
        ("torch.relu(x)", True),
        ("x.max()", True),
        ("torch.tril(x)", False),
        ("x[:, ::2]", False),
    ],
)
def test_which_elements_matter_is_tried_out(forward: str, all_matter: bool) -> None:
    task = Task(id="test/matter", source=SOURCE.format(init="pass", forward=forward), shapes={"small": SMALL})
    case = shape_cases(task, "small", SMALL, PROTOCOLS["strict"], 5, 2).cases[0]
    assert (-1 in periodic.needs_all(case, 0, random.Random(3))) is all_matter
