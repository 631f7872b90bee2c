"""Planted bugs: each differs from the original and from the others; roles are recognised; equivalents are marked."""

import ast
import functools
import random

import pytest

from kernelwright import faults, tasks
from kernelwright.faults.source import Source
from kernelwright.policy.gold import gold

CHOSEN = (
    "loss_cross_entropy,matmul_batched,mean_middle,sum_columns,gelu_tanh,matmul_tall_skinny,silu,layernorm"
)
TASKS = {task.id: task for task in tasks.load_suite(f"wright/{CHOSEN}")}

KERNEL = """import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, y_ptr, n_rows, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * n_cols + cols, mask=(cols < n_cols) & (row < n_rows), other=0.0)
    mean = tl.sum(total, axis=0) / n_cols
    d = mean - 0.5
    tl.store(y_ptr + row, tl.sqrt(d * d + eps))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape[0], device=x.device)
        kernel[(x.shape[0],)](x, y, x.shape[0], x.shape[1], 1e-5, BLOCK=128)
        return y
"""


@functools.cache
def planted_in(task_id: str) -> list[faults.Fault]:
    return list(faults.plant(gold(task_id), TASKS[task_id].dtype))


def planted(kind: str, code: str = KERNEL, dtype: str = "float32") -> list[str]:
    return [fault.what for fault in faults.plant(code, dtype, [kind])]


@pytest.mark.parametrize("task_id", TASKS)
def test_every_fault_of_a_gold_differs(task_id: str) -> None:
    found = planted_in(task_id)
    assert len({fault.code for fault in found} - {gold(task_id)}) == len(found) > 10
    assert {fault.kind for fault in found} <= {*faults.KINDS, *faults.PRECISION}


def test_a_name_has_the_role_of_its_uses() -> None:
    (kernel,) = Source(KERNEL).kernels
    roles = {ast.unparse(node): kernel.role(node) for node in kernel.nodes(ast.BinOp)}
    assert roles["row * n_cols"] == "address"
    assert roles["(cols < n_cols) & (row < n_rows)"] == "mask"
    assert roles["tl.sum(total, axis=0) / n_cols"] == "value"
    assert kernel.pointers == {"x_ptr", "y_ptr"}
    assert kernel.sizes == ["n_rows", "n_cols", "eps"]


def test_masks_are_moved_by_one_and_left_out() -> None:
    assert "cols < n_cols -> cols <= n_cols" in planted("mask_off_by_one")
    assert any("| True" in what for what in planted("mask_missing"))


def test_sums_lose_their_history_and_their_start() -> None:
    assert any("+ total * 0.0" in fault.code for fault in faults.plant(KERNEL, kinds=["dropped_term"]))
    assert planted("wrong_start")[0].endswith("dtype=tl.float32) + 1)")


def test_a_loop_is_shared_by_two_programs_that_do_not_wait() -> None:
    (fault,) = faults.plant(KERNEL, kinds=["race"])
    assert "2 * (BLOCK)" in fault.what
    assert "_doubled((x.shape[0],), 1)" in fault.code
    assert "torch.zeros(x.shape[0]" in fault.code


def test_a_difference_that_is_only_squared_may_change_sign() -> None:
    marked = {fault.what: fault.equivalent for fault in faults.plant(KERNEL, kinds=["swapped_operands"])}
    assert marked["mean - 0.5 -> (0.5 - (mean))"]
    assert not marked["tl.sum(total, axis=0) / n_cols -> (n_cols / (tl.sum(total, axis=0)))"]


def test_what_is_too_low_depends_on_the_dtype() -> None:
    (fault,) = faults.plant(KERNEL, kinds=["half_loads"])
    assert ".to(tl.bfloat16).to(tl.float32)" in fault.code
    assert planted("half_loads", dtype="bfloat16") == []


def test_a_sample_is_small_and_the_same_for_the_same_seed() -> None:
    first, again = (faults.sample(KERNEL, "float32", 1, random.Random(3)) for _ in range(2))
    assert first == again
    kinds = [fault.kind for fault in first if not fault.equivalent]
    assert len(kinds) == len(set(kinds))


def test_every_kind_applies_somewhere() -> None:
    kinds = {fault.kind for task_id in TASKS for fault in planted_in(task_id)}
    assert kinds == {*faults.KINDS, *faults.PRECISION}


PAIRED = KERNEL.replace(
    "total += tl.load(x_ptr + row * n_cols + cols, mask=(cols < n_cols) & (row < n_rows), other=0.0)",
    """x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        total += tl.where(x <= -3.0, 0.0, x * y)""",
)


def test_lanes_are_padded_with_numbers_whose_difference_is_not_zero() -> None:
    [fault] = list(faults.plant(PAIRED, "float32", ["wrong_padding"]))
    assert "other=1.0" in fault.code
    assert "other=2.0" in fault.code


def test_a_comparison_of_values_is_no_mask() -> None:
    assert planted("mask_off_by_one", PAIRED)
    assert not any("-3.0" in what for what in planted("mask_off_by_one", PAIRED))


def test_a_cast_whose_partner_is_cast_as_well_changes_nothing() -> None:
    left, right = faults.plant(PAIRED, "float16", ["no_upcast"])
    assert not left.equivalent, "x is compared, too"
    assert right.equivalent


def test_padding_that_is_selected_away_before_lanes_meet_changes_nothing() -> None:
    guarded = KERNEL.replace(
        "total += tl.load(x_ptr + row * n_cols + cols, mask=(cols < n_cols) & (row < n_rows), other=0.0)",
        """x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0)
        total += tl.where(cols < n_cols, tl.exp(x), 0.0)""",
    )
    [fault] = faults.plant(guarded, "float32", ["wrong_padding"])
    assert fault.equivalent
    [fault] = faults.plant(KERNEL, "float32", ["wrong_padding"])
    assert not fault.equivalent


@pytest.mark.parametrize(
    ("kind", "body", "changed"),
    [
        (
            "wrong_padding",
            "    x = tl.load(x_ptr + i, mask=i < n, other=0.0)\n    acc = tl.full((64,), float('-inf'), tl.float32)\n"
            "    acc = tl.maximum(acc, tl.where(i < n, x, float('-inf')))\n    tl.store(out_ptr, tl.max(acc, axis=0))\n",
            ("tl.where(i < n, x, float('-inf'))", "x"),
        ),
        (
            "mask_missing",
            "    at = tl.load(x_ptr + i, mask=i < n, other=0)\n    y = tl.load(y_ptr + at, mask=i < n, other=0.0)\n"
            "    tl.store(out_ptr + i, y, mask=i < n)\n",
            ("y_ptr + at", "y_ptr + i"),
        ),
        (
            "wrong_start",
            "    total = tl.zeros((64,), dtype=tl.float32)\n    for k in range(0, n):\n        shrink = tl.load(x_ptr + k)\n"
            "        total = total * shrink + 1.0\n    tl.store(out_ptr + i, total, mask=i < n)\n",
            ("total * shrink", "total"),
        ),
    ],
    ids=["a running maximum of what is chosen", "a place that was looked up", "a sum that is scaled first"],
)
def test_what_no_result_can_show_is_marked(kind: str, body: str, changed: tuple[str, str]) -> None:
    head = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef k(x_ptr, y_ptr, out_ptr, n):\n    i = tl.arange(0, 64)\n"
    marked = [
        any(one.equivalent for one in faults.plant(head + text, kinds=[kind]))
        for text in (body, body.replace(*changed))
    ]
    assert marked == [True, False]
