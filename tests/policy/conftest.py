"""A tokenizer and a very small model, without a download."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3Config

from kernelwright.data.tokenizer import train_tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return train_tokenizer(["def f(x):\n    return x + 1\n", "<plan>\none kernel\n</plan>\n"] * 4, 300)


@pytest.fixture(scope="session")
def model(tokenizer: Any) -> Any:
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=48,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(1)
    return AutoModelForCausalLM.from_config(config).eval()


@pytest.fixture(scope="session")
def checkpoint(tokenizer: Any, model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
