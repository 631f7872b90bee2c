"""Formulas: the kernel says line by line what the lowered reference says, and the judge agrees."""

import re
from collections import Counter

import pytest

from kernelwright.data.families.table import chosen, pair
from kernelwright.data.families.terms import CHOSEN, COMPARED, FLOATS, ROUNDED, WHOLE, Term
from kernelwright.data.families.write import Pair
from kernelwright.records import Candidate, Task
from kernelwright.tasks import lowered
from kernelwright.verify import VerifierPool


def drawn(name: str, count: int) -> list[Pair]:
    (family,) = chosen((name,))
    return [
        pair(family, f"{name}:{number}", "k", family.levels[number % len(family.levels)])
        for number in range(count)
    ]


def lines(text: str) -> list[str]:
    return re.findall(r"^\s*(h\d+) = ", text, re.MULTILINE)


@pytest.mark.parametrize("term", [*FLOATS, *ROUNDED, *COMPARED, *CHOSEN, *WHOLE], ids=lambda term: term.name)
def test_every_spelling_is_one_line_of_the_lowered_reference(term: Term) -> None:
    assert term.spellings
    for spelling in term.spellings:
        kind = "int" if term in WHOLE else ""
        given = {"": "torch.rand(4, 8)", "int": "torch.randint(-9, 9, (4, 8))", "b": "torch.rand(4, 8) > 0.5"}
        made = [given[kind]] * 3
        if term.takes:
            made[0] = given["b"]
        expression = spelling.format(a="x", b="y", c="z", n=2 if kind else 0.375, m=0.75)
        source = (
            "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
            f"class Model(nn.Module):\n    def forward(self, x, y, z):\n        return {expression}\n"
            f"def get_inputs():\n    return [{', '.join(made)}]\ndef get_init_inputs():\n    return []\n"
        )
        assert lines(lowered(Task(id="spelled", source=source))) == ["h1"], spelling


@pytest.mark.parametrize("name", ["formula", "formula_int"])
def test_a_kernel_has_the_lines_of_the_lowered_reference(name: str) -> None:
    for made in drawn(name, 60):
        reference, code = lines(lowered(made.task)), lines(made.code)
        ended = "finish_kernel" in made.code  # the last number is the second kernel's
        assert code == (reference[:-1] if ended else reference), made.task.source


def test_values_are_taken_more_than_once_and_every_input_is_taken() -> None:
    again = 0
    for made in drawn("formula", 60):
        reads = Counter(re.findall(r"\b(h\d+)\b(?! =)", lowered(made.task).rpartition("return")[0]))
        again += any(count > 1 for count in reads.values())
        head = re.search(r"def forward\(self, ([^)]*)\)", made.code)
        assert head is not None
        kernel = made.code.split("def formula")[1]
        assert all(f"{name}_ptr" in kernel for name in head[1].split(", "))
    assert again > 12


def test_the_judge_accepts_formulas() -> None:
    some = [*drawn("formula", 12), *drawn("formula_int", 4)]
    with VerifierPool(1, backend="interpret", deadline_s=120) as pool:
        heard = [pool.submit(made.task, Candidate(code=made.code)) for made in some]
        outcomes = [future.result().outcome.value for future in heard]
    assert outcomes == ["correct"] * len(some)
