"""A step has the name of the line that it answers, and what is computed stays what it was."""

import re
import textwrap

import pytest

from kernelwright.data.bulk.config import BulkConfig, Teacher
from kernelwright.data.bulk.problems import Skipped, problem
from kernelwright.data.families.table import chosen, pair
from kernelwright.data.numbering import KEPT, marked, numbered, plain
from kernelwright.records import Task
from kernelwright.tasks import lowered

LOWERED = """x: [4, 8]
self.scale: [1]
h1 = linear(x, self.proj.weight) -> [4, 8]
h2 = reshape(self.scale) -> [1, 1]
h3 = mul(h1, h2) -> [4, 8]
h4 = mish(h3) -> [4, 8]
h5 = mish(h4) -> [4, 8]
h6 = add(h5, h1) -> [4, 8]
return h6"""
MISH = "acc = acc * tanh(acc)"
KERNEL = "\n".join(
    [
        "def kernel(acc_ptr):",
        "    acc = tl.dot(a, b, acc)",
        "    " + marked("original = acc", "", KEPT),
        "    " + marked("acc = acc * scale", "1.0", "scale"),
        "    " + marked(MISH, "1.1", "mish"),
        "    " + marked(MISH, "1.2", "mish"),
        "    " + marked("acc = acc + original", "1.3", "add"),
        "    tl.store(acc_ptr + offs, acc.to(tl.float16), mask=mask)",
        "    acc = tl.zeros((4,), dtype=tl.float32)",
        "    tl.store(acc_ptr, acc)",
        "",
    ]
)


def test_steps_are_called_as_in_the_reference_until_their_variable_is_written_again() -> None:
    assert numbered(KERNEL, LOWERED) == textwrap.dedent(
        """\
        def kernel(acc_ptr):
            acc = tl.dot(a, b, acc)
            h3 = acc * scale
            h4 = h3 * tanh(h3)
            h5 = h4 * tanh(h4)
            h6 = h5 + acc
            tl.store(acc_ptr + offs, h6.to(tl.float16), mask=mask)
            acc = tl.zeros((4,), dtype=tl.float32)
            tl.store(acc_ptr, acc)
        """
    )


@pytest.mark.parametrize(
    ("code", "reference"),
    [
        (KERNEL, LOWERED.replace("h5 = mish", "h5 = gelu")),
        (KERNEL, ""),
        (KERNEL.replace("    acc = tl.zeros((4,), dtype=tl.float32)", "    acc += 1.0"), LOWERED),
        (KERNEL.replace("offs", "h4"), LOWERED),
    ],
    ids=["other steps", "no reference", "a variable that means two things", "a name that is taken"],
)
def test_what_does_not_go_together_stays_without_marks(code: str, reference: str) -> None:
    assert numbered(code, reference) == plain(code)
    assert "#" not in plain(code)


def test_code_without_marks_is_left_alone() -> None:
    assert numbered("h = 1  # one", LOWERED) == "h = 1  # one"


def test_a_step_that_is_done_in_two_passes_has_one_name() -> None:
    passes = "    x = tl.load(x_ptr)\n    " + marked("x = tl.exp(x)", "1.0", "exp") + "\n    total += x\n"
    code = f"def kernel(x_ptr):\n{passes}{passes}"
    assert numbered(code, "h1 = exp(x) -> [4]\nh2 = sum(h1) -> [4]\nreturn h2").count("h1 = tl.exp(x)") == 2


@pytest.mark.parametrize("family", ["linear_chain", "conv2d_chain", "elementwise", "row_fusion"])
def test_the_librarys_steps_are_found_in_its_references(family: str) -> None:
    (one,) = chosen([family])
    found = 0
    for number in range(6):
        made = pair(one, f"n{number}", f"k{number}", 4)
        assert "#=" not in made.code
        told = numbered(made.marked, lowered(made.task))
        assert "#=" not in told
        found += made.marked.count("#=") > 0 and told != made.code
    assert found >= 3


@pytest.mark.parametrize("teacher", ["families", "graphs"])
def test_problems_of_both_samplers_name_their_steps(teacher: Teacher) -> None:
    config = BulkConfig(slower=1.0, faults=0.0, names=("elementwise", "row_fusion"), lengths=(4,))
    named = stepped = 0
    for number in range(16):
        for one in problem(config, teacher, number).kernels:
            stepped += "#=" in one.marked
            named += bool(re.search(r"^ +h\d+ = ", one.code, re.MULTILINE))
            assert "#=" not in one.code
            # Numbers of the library's own would be others than the lowered reference's where a step takes two lines there.
            assert not re.search(r"\bh\d+\b", plain(one.marked))
    assert stepped > 16
    assert named >= stepped - 2


def test_every_spelling_of_an_idiom_is_one_step() -> None:
    body = "import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n    def forward(self, x):\n        return {}\ndef get_inputs():\n    return [torch.rand(4)]\ndef get_init_inputs():\n    return []\n"
    code = "def kernel(x):\n    " + marked("x = x * tl.sigmoid(x)", "1.0", "silu") + "\n"
    for spelled in ("torch.sigmoid(x) * x", "nn.functional.silu(x)", "nn.SiLU()(x)"):
        task = Task(id="made", source=body.format(spelled))
        assert "h1 = x * tl.sigmoid(x)" in numbered(code, lowered(task))


def test_a_row_operators_value_is_a_step_like_any_other() -> None:
    """In kernels of sampled graphs: a softmax, a norm or a reduction between maps."""
    config = BulkConfig.parse({"seed": 78, "lengths": [3, 4, 5], "slower": 0})
    rows = 0
    for number in range(1, 60):
        try:
            made = problem(config, "graphs", number)
        except Skipped:
            continue
        reference = lowered(made.wordings[0])
        for kernel in made.kernels:
            code = numbered(kernel.marked, reference)
            if "row = tl.program_id(0)" in code:
                rows += 1
                (last,) = re.findall(r"tl\.store\(out_ptr \+ row[^,]*, (\w+)", code)
                assert last == re.findall(r"return (h\d+)", reference)[-1], (code, reference)
    assert rows > 10
