"""The link to vLLM, with a fake for TRL's: token ids in and out, settings passed to TRL, and unsupported ones."""

import importlib.util
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import task
from tiny import make_recipe

from kernelwright.config import GenerationConfig, Recipe
from kernelwright.errors import UserError
from kernelwright.policy.text import completion_ids
from kernelwright.prompts import render
from kernelwright.train import vllm
from kernelwright.train.model import load_tokenizer, new_model
from kernelwright.train.vllm import VllmPolicy, vllm_args


class Generation:
    """Answers `said` to everything; records the prompts."""

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
    judged: list[tuple[int, int]] = []
    groups = policy.generate(prompts, 3, on_completion=lambda row, sample, _: judged.append((row, sample)))
    [(asked, n)] = generation.asked
    assert (len(asked), n) == (6, 3)
    assert asked[0] == asked[2] == policy.encode(prompts[0]) != asked[3]
    said = groups[1][2]
    assert (said.text, said.finish_reason) == ("<plan>\nfast\n</plan>", "stop")
    assert said.logprobs == (-0.5,) * len(said.token_ids or ())
    assert judged == [(row, sample) for row in range(2) for sample in range(3)]


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
    with pytest.raises(UserError, match=r'kernelwright\[vllm\]", or set generation\.engine = "own"'):
        vllm_args(settings(data, "vllm-colocate"), "frontend", 1)


def test_trl_is_told_the_mode_and_the_window(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trl import GRPOConfig

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    told = vllm_args(settings(data, "vllm-server"), "frontend", 2)
    assert (told["vllm_mode"], told["vllm_max_model_length"]) == ("server", 256)
    assert set(told) <= set(GRPOConfig.__dataclass_fields__)
    assert vllm_args(settings(data, "vllm-colocate"), "frontend", 1)["vllm_mode"] == "colocate"
    with pytest.raises(UserError, match="do not work where processes share one vLLM server"):
        vllm_args(settings(data, "vllm-server", turns=2), "frontend", 2)


def test_the_gpus_of_one_engine_ask_it_together(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    wide = {"engine": "vllm-colocate", "tensor_parallel": 2}
    with pytest.raises(
        UserError, match="turns and refills do not work where processes share 2 GPUs of one vLLM"
    ):
        vllm_args(make_recipe(data, generation=wide, frontend={"refill": 1}), "frontend", 2)
    with pytest.raises(UserError, match="tensor_parallel = 2 does not divide 1 process"):
        vllm_args(make_recipe(data, generation=wide), "frontend", 1)


def test_another_version_of_vllm_is_one_line(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(vllm, "installed_version", lambda: "0.45.1")
    with pytest.raises(
        UserError, match=r"vLLM 0\.45\.1 is installed, and this TRL works with 0\.22 to 0\.31"
    ):
        vllm_args(settings(data, "vllm-colocate"), "frontend", 1)


def test_the_geometric_mean_of_a_row_decides_whether_it_stays() -> None:
    sampled = torch.tensor([[-1.0, -1.0, float("nan")], [-1.0, -3.0, -9.0]])
    old, mask = torch.tensor([[-1.0, -1.2, -5.0], [-1.0, -1.0, 0.0]]), torch.tensor([[1, 1, 1], [1, 1, 0]])
    config = GenerationConfig(correction="geometric_mask", correction_max=2.0)
    means = [math.exp(-0.2 / 3), math.exp(2.0 / 2)]
    masked = vllm.geometric_ratio(config, old, sampled, mask)
    assert masked.flatten().tolist() == pytest.approx([means[0], 0.0])
    cut = vllm.geometric_ratio(
        config.model_copy(update={"correction": "geometric_truncate"}), old, sampled, mask
    )
    assert cut.flatten().tolist() == pytest.approx([means[0], 2.0])
