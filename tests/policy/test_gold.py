"""The gold policy answers with the built-in golds, in the canonical form."""

import pytest

from kernelwright import candidates
from kernelwright.errors import UserError
from kernelwright.policy import load_policy
from kernelwright.policy.gold import gold
from kernelwright.prompts import render
from kernelwright.records import Task
from kernelwright.tasks import load_suite
from kernelwright.tasks.builtin import FOLDER


def test_it_answers_with_the_gold() -> None:
    task = load_suite("wright")[0]
    [[first, second]] = load_policy("gold").generate([render("frontend", task)], 2)
    assert first == second
    assert candidates.parse(first.text).code.strip() == gold(task.id).strip()


def test_the_library_prints_the_gold_of_a_task_that_has_no_file() -> None:
    assert not (FOLDER / "add_relu" / "gold.py").exists()
    code = gold("wright/add_relu")
    assert "@triton.jit" in code
    assert "class ModelNew" in code


def test_the_compiler_writes_the_gold_that_the_library_cannot_print() -> None:
    code = gold("wright/groupnorm")
    assert "@triton.jit" in code
    assert "class ModelNew" in code


@pytest.mark.parametrize("name", ["kernelbench/level1/1_A_", "wright/nothing", "wright/"])
def test_a_gold_of_no_built_in_task_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"no gold kernel for task '{name}'"):
        gold(name)


def test_a_task_without_a_gold_gets_an_empty_answer() -> None:
    prompt = render("frontend", Task(id="file/unknown", source="x = 1"))
    assert load_policy("gold").generate([prompt])[0][0].text == ""
