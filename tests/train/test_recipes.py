"""The shipped recipes: their values, their sources, and architectures that need no download."""

from pathlib import Path
from typing import Any

import provenance
import pytest
import torch

from kernelwright.config import Recipe, load_recipe
from kernelwright.errors import UserError
from kernelwright.rewards import check_preset
from kernelwright.train.architectures import known_architecture
from kernelwright.train.model import adapters, architecture_of, load_tokenizer, new_model, parameters

FOLDER = Path(__file__).parents[2] / "recipes"
NAMES = [*provenance.NAMES, "default_model", "qwen3_8b"]
WEIGHTS = {
    "Qwen/Qwen3-0.6B": 0.596e9,
    "Qwen/Qwen3-8B": 8.19e9,
    "Qwen/QwQ-32B": 32.8e9,
    "ByteDance-Seed/Seed-Coder-8B-Reasoning": 8.25e9,
}
"""Parameter counts from the models' cards."""


def recipe(name: str, *overrides: str) -> Recipe:
    return load_recipe(FOLDER / f"{name}.toml", overrides)


def on_paper(made: Recipe) -> Any:
    """The recipe's model without memory for its weights."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(architecture_of(made.model, made.data.vocab_size))


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_valid_with_and_without_weights(name: str) -> None:
    for made in (recipe(name), recipe(name, "model.init=random")):
        for stage in made.stages:
            if stage != "sft":
                check_preset(made.rl(stage).reward)
    assert architecture_of(made.model, made.data.vocab_size).hidden_size > 0


@pytest.mark.parametrize("name", provenance.NAMES)
def test_every_value_of_a_reproduction_names_its_source(name: str) -> None:
    named = [key for key, *_ in provenance.rows(name)]
    assert len(named) == len(set(named))
    assert set(named) == provenance.keys(name)


def test_the_table_of_sources_is_that_of_the_recipes() -> None:
    """Written by `python tests/train/provenance.py`."""
    assert provenance.PAGE.read_text().partition(provenance.MARK)[2].strip() == provenance.tables().strip()


def test_torontos_listing() -> None:
    made = recipe("toronto")
    assert made.model.base == "JinnP/Qwen3-8B-Kernelbook-SFT-HF"
    assert (made.lora.rank, made.lora.alpha, made.lora.dropout) == (16, 32, 0.05)
    assert len(made.lora.targets) == 7
    for rl, reward in ((made.frontend, "toronto-frontend"), (made.midend, "toronto-midend")):
        assert (rl.samples, rl.beta, rl.learning_rate, rl.scale, rl.credit, rl.reward) == (
            4, 0.1, 1e-6, "none", "uniform", reward,
        )  # fmt: skip
    assert made.verify.protocol == "toronto"


@pytest.mark.parametrize(("name", "count"), WEIGHTS.items())
def test_known_architectures_have_the_published_sizes(name: str, count: float) -> None:
    made = recipe("toronto", f"model.base={name}")
    assert parameters(on_paper(made)) == pytest.approx(count, rel=0.01)


def test_torontos_adapters_have_43_6_million_weights() -> None:
    from peft import get_peft_model

    made = recipe("toronto")
    model = get_peft_model(on_paper(made), adapters(made.lora))
    assert sum(p.numel() for p in model.parameters() if p.requires_grad) == pytest.approx(43.6e6, rel=2e-3)


def test_the_default_model_has_15_million_weights_and_fits_32_mib() -> None:
    count = parameters(on_paper(recipe("default_model")))
    assert 14.5e6 < count < 15.5e6
    assert 2 * count < 32 * 2**20


def test_a_fine_tuned_model_has_its_bases_architecture() -> None:
    assert known_architecture("JinnP/Qwen3-8B-Kernelbook-SFT-HF") == known_architecture("Qwen/Qwen3-8B")
    assert known_architecture("Qwen/Qwen3-8B")
    assert known_architecture("some/model") is None


def test_an_unknown_base_offline_is_one_line() -> None:
    with pytest.raises(
        UserError, match=r"no/such has no config .* sizes are known: Qwen/Qwen3-0.6B"
    ) as error:
        architecture_of(recipe("toronto", "model.base=no/such").model, 100)
    assert "\n" not in str(error.value)


def test_a_tokenizer_with_more_tokens_than_the_base_is_one_line() -> None:
    class Many:
        def __len__(self) -> int:
            return 1_000_000

    with pytest.raises(UserError, match=r"set data\.tokenizer to a smaller one"):
        new_model(recipe("toronto").model, Many(), 0)


def test_a_tokenizer_without_a_pad_or_an_end_is_one_line(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"a": 0, "<e>": 1}, unk_token="a"))
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<e>").save_pretrained(tmp_path / "a")
    with pytest.raises(UserError, match="no padding token apart from its EOS; set its pad_token"):
        load_tokenizer(str(tmp_path / "a"))
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<e>").save_pretrained(tmp_path / "b")
    with pytest.raises(UserError, match="no end-of-sequence token"):
        load_tokenizer(str(tmp_path / "b"))
