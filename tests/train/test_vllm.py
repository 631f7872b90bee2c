"""The link to vLLM, by a stand-in for TRL's: ids in and out, what TRL is told, and what cannot be."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from fakes import task
from tiny import make_recipe

from kernelwright.config import Recipe
from kernelwright.errors import UserError
from kernelwright.policy.text import completion_ids
from kernelwright.prompts import render
from kernelwright.train.model import load_tokenizer, new_model
from kernelwright.train.vllm import VllmPolicy, vllm_args


class Generation:
    """Says `said` to everything; remembers what it was asked."""

    def __init__(self, said: list[int]) -> None:
        self.said, self.asked = said, []  # type: ignore[var-annotated]

    def generate(self, prompts: Any, images: Any, num_generations: int) -> Any:
        self.asked.append((prompts, num_generations))
        said = [self.said for _ in prompts]
        return prompts, said, [[[-0.5] for _ in ids] for ids in said], None


def policy_of(recipe: Recipe, text: str, *, cut: bool = False) -> tuple[VllmPolicy, Generation]:
    tokenizer = load_tokenizer(recipe.data.tokenizer)
    ids = completion_ids(tokenizer, text)
    generation = Generation(ids[:-1] if cut else ids)
    return VllmPolicy(generation, new_model(recipe.model, tokenizer, 0), tokenizer, "v"), generation


def test_tokens_go_in_and_come_out(recipe: Recipe) -> None:
    policy, generation = policy_of(recipe, "<plan>\nfast\n</plan>")
    prompts = [render("frontend", task(name), style="compact") for name in "ab"]
    heard: list[tuple[int, int]] = []
    groups = policy.generate(prompts, 3, on_completion=lambda row, sample, _: heard.append((row, sample)))
    [(asked, n)] = generation.asked
    assert (len(asked), n) == (6, 3)
    assert asked[0] == asked[2] == policy.encode(prompts[0]) != asked[3]
    said = groups[1][2]
    assert (said.text, said.finish_reason) == ("<plan>\nfast\n</plan>", "stop")
    assert said.logprobs == (-0.5,) * len(said.token_ids or ())
    assert heard == [(row, sample) for row in range(2) for sample in range(3)]


def test_an_answer_without_an_end_was_cut(recipe: Recipe) -> None:
    policy, _ = policy_of(recipe, "<plan>", cut=True)
    [[said]] = policy.generate([render("frontend", task("a"), style="compact")])
    assert said.finish_reason == "length"


def settings(data: Path, engine: str, **frontend: Any) -> Recipe:
    generation = {"engine": engine, "server": "http://localhost:8000"}
    return make_recipe(data, generation=generation, frontend=frontend)


def test_the_own_engine_tells_trl_nothing(recipe: Recipe) -> None:
    assert vllm_args(recipe, "frontend", 1) == {}


def test_without_vllm_it_is_one_line(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r'pip install vllm, or set generation\.engine = "own"'):
        vllm_args(settings(data, "vllm-colocate"), "frontend", 1)


def test_trl_is_told_the_mode_and_the_window(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trl import GRPOConfig

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    told = vllm_args(settings(data, "vllm-server"), "frontend", 2)
    assert (told["vllm_mode"], told["vllm_max_model_length"]) == ("server", 256)
    assert set(told) <= set(GRPOConfig.__dataclass_fields__)
    assert vllm_args(settings(data, "vllm-colocate"), "frontend", 1)["vllm_mode"] == "colocate"
    with pytest.raises(UserError, match="2 processes ask one vLLM server in step"):
        vllm_args(settings(data, "vllm-server", turns=2), "frontend", 2)
