"""Answers with sampled plans, and the likeliest code for each."""

from collections.abc import Sequence
from typing import Any

from fakes import task
from functions import pair

from kernelwright.policy.plan_first import PlanFirst
from kernelwright.prompts import render, until_kernels
from kernelwright.records import Completion, Prompt

PROMPT = render("frontend", task("one"), style="compact", max_tokens=500)


def completion(*pieces: str, reason: Any = "stop") -> Completion:
    ids = tuple(map(ord, "".join(piece[0] for piece in pieces)))
    return Completion(text="".join(pieces), token_ids=ids, logprobs=(0.0,) * len(ids), finish_reason=reason)


class Model:
    """Samples two plans in turn, the second answer without an end token, and writes code for the plan it is given."""

    name = "drawn"

    def __init__(self) -> None:
        self.given: dict[int, list[int]] = {}
        self.asked: list[tuple[int, float, list[int]]] = []
        self.said = {
            "a": completion("a plan", "</plan>", "more", reason="length"),
            "b": completion("b plan", "goes on", reason="length"),
        }

    def encode(self, prompt: Prompt) -> list[int]:
        return self.given.get(id(prompt), [7])

    def pieces(self, one: Completion) -> tuple[str, ...]:
        return {"a": ("a plan", "</plan>", "more"), "b": ("b plan", "goes on")}[one.text[0]]

    def generate(
        self, prompts: Sequence[Prompt], n: int = 1, *, temperature: float = 1.0, **sampling: Any
    ) -> Any:
        self.asked += [(one.max_tokens, temperature, self.encode(one)) for one in prompts]
        if temperature == 0:
            return [[completion("code")] for _ in prompts]
        return [[self.said["aab"[sample]] for sample in range(n)] for _ in prompts]


def test_the_same_plan_is_answered_once_at_no_temperature_and_one_without_end_is_left_as_it_is() -> None:
    model = Model()
    heard: list[tuple[int, int, str]] = []
    [said] = PlanFirst(model).generate(  # type: ignore[arg-type]
        [PROMPT], 3, on_completion=lambda row, sample, one: heard.append((row, sample, one.text))
    )
    assert [one.text for one in said] == ["a plan</plan>code", "a plan</plan>code", "b plangoes on"]
    assert [one.finish_reason for one in said] == ["stop", "stop", "length"]
    assert said[0].token_ids == (ord("a"), ord("<"), ord("c"))
    assert [text for _, _, text in heard] == [one.text for one in said]
    plan = [ord("a"), ord("<")]
    assert model.asked == [(128, 1.0, [7]), (498, 0.0, [7, *plan])]
    assert model.given == {}


def test_the_printed_host_function_stands_between_the_plan_and_the_kernels() -> None:
    plan = pair().plan
    begun = until_kernels(pair().task.graph, plan)

    class Tokenizer:
        eos_token_id = 0

        def encode(self, text: str, **_: Any) -> list[int]:
            return list(map(ord, text))

    model = Model()
    model.tokenizer = Tokenizer()  # type: ignore[attr-defined]
    planned = completion(f"<plan>\n{plan}\n", "</plan>")
    model.said["a"] = planned
    model.pieces = lambda one: (one.text,)  # type: ignore[method-assign]
    prompt = render("frontend", pair().task, style="compact", max_tokens=5000, answer="plan+kernels")
    [[said]] = PlanFirst(model).generate([prompt], 1)  # type: ignore[arg-type]
    assert said.text == begun + "code"
    assert said.token_ids == (*map(ord, begun), ord("c"))
    assert said.logprobs is not None
    assert len(said.logprobs) == len(said.token_ids)
    assert model.asked[1] == (5000 - len(begun), 0.0, [7, *map(ord, begun)])
