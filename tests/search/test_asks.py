"""Prompts to the agents, and which kernels they show."""

from types import SimpleNamespace
from typing import Any

import pytest
from search.making import rollout, timing

from kernelwright.errors import UserError
from kernelwright.graph.task import to_task
from kernelwright.graph.types import Graph
from kernelwright.outcomes import Outcome
from kernelwright.records import Timing
from kernelwright.rollouts import faster
from kernelwright.search.asks import Asking, rejected_kernels, style_of, verified_kernels
from kernelwright.synth.building import GraphBuilder


def test_verified_kernels_come_by_time_and_rejected_ones_by_how_far_they_came() -> None:
    slow, fast = rollout(Outcome.CORRECT, timing(0.5), "a"), rollout(Outcome.CORRECT, timing(0.4), "b")
    untimed, wrong = rollout(Outcome.CORRECT, code="c"), rollout(Outcome.WRONG_VALUE, code="d")
    early, broken = rollout(Outcome.SYNTAX_ERROR, code="e"), rollout(Outcome.INFRASTRUCTURE_ERROR, code="f")
    every = [untimed, early, slow, broken, wrong, fast, fast]
    assert verified_kernels(every) == [fast, slow, untimed]
    assert rejected_kernels(every) == [wrong, early]


@pytest.mark.parametrize(
    ("new", "old", "better"),
    [
        (timing(0.99), timing(1.0), True),
        (timing(1.0), timing(1.0), False),
        (timing(0.97, "measured", 0.02), timing(1.0, "measured", 0.02), False),
        (timing(0.90, "measured", 0.02), timing(1.0, "measured", 0.02), True),
        (timing(1.0), None, True),
        (None, timing(1.0), False),
        (None, None, False),
    ],
    ids=["modelled", "equal", "within noise", "beyond noise", "timed at last", "untimed", "neither"],
)
def test_faster_means_beyond_the_noise(new: Timing | None, old: Timing | None, better: bool) -> None:
    assert faster(new, old) is better


@pytest.mark.parametrize(
    ("policy", "style"),
    [
        (SimpleNamespace(), "chat"),
        (SimpleNamespace(tokenizer=SimpleNamespace(chat_template="{{ x }}")), "chat"),
        (SimpleNamespace(tokenizer=SimpleNamespace(chat_template=None)), "compact"),
        (SimpleNamespace(tokenizer=SimpleNamespace(init_kwargs={"prompt_style": "compact"})), "compact"),
    ],
    ids=["endpoint", "chat model", "ours without a word", "ours"],
)
def test_a_model_without_a_chat_template_is_asked_as_it_was_trained(policy: Any, style: str) -> None:
    assert style_of(policy) == style


def test_a_model_of_a_style_that_is_gone_is_one_line() -> None:
    policy: Any = SimpleNamespace(
        name="old", tokenizer=SimpleNamespace(init_kwargs={"prompt_style": "lowered"})
    )
    with pytest.raises(UserError, match="old: it was trained on prompts in the style 'lowered'"):
        style_of(policy)


@pytest.mark.parametrize(
    ("style", "said"), [("compact", "v0: f32[4,8] = relu(x0)"), ("chat", "made: f32[4,8] = relu(some)")]
)
def test_a_small_model_is_asked_by_the_names_that_it_was_trained_with(style: Any, said: str) -> None:
    builder = GraphBuilder("one")
    made = builder.op("aten.relu.default", builder.input("some", "float32", (4, 8)))
    text = builder.graph(made).model_dump_json().replace('"relu"', '"made"')
    task = to_task(Graph.model_validate_json(text), "one")
    _, (prompt,) = Asking(task, style, "h100", 100).prompts("frontend", [], 1)
    assert said in prompt.messages[-1].content
