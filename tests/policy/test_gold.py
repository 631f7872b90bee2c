"""The gold policy answers with the built-in golds, in the canonical form."""

from kernelwright import candidates
from kernelwright.policy import load_policy
from kernelwright.prompts import render
from kernelwright.records import Task
from kernelwright.tasks import gold, load_suite


def test_it_answers_with_the_gold() -> None:
    task = load_suite("wright")[0]
    [[first, second]] = load_policy("gold").generate([render("frontend", task)], 2)
    assert first == second
    assert candidates.parse(first.text).code.strip() == gold(task.id).strip()


def test_a_task_without_a_gold_gets_an_empty_answer() -> None:
    prompt = render("frontend", Task(id="file/unknown", source="x = 1"))
    assert load_policy("gold").generate([prompt])[0][0].text == ""
