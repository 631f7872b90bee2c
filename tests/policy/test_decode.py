"""Decoding token by token gives the model's logits, also when rows are dropped on the way."""

from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

from kernelwright.policy.decode import ModelDecoder, in_layers

VOCABULARY = 97


def tiny(seed: int = 0, tie: bool = True) -> Any:
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=48,
        max_position_embeddings=128,
        tie_word_embeddings=tie,
    )
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config).eval()
    # New models have norms of exactly 1, which would hide a missing norm.
    for name, weight in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(weight, 0.5, 1.5)
    return model


def left_padded(lengths: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(lengths)
    ids = torch.randint(0, VOCABULARY, (len(lengths), longest))
    mask = torch.arange(longest)[None] >= longest - torch.tensor(lengths)[:, None]
    return ids, mask


@torch.no_grad()
def reference(model: Any, prompt: torch.Tensor, said: torch.Tensor) -> torch.Tensor:
    """Logits (len(said) + 1, V) of the model itself on one unpadded row, before each token of `said` and after."""
    return model(torch.cat([prompt, said])[None]).logits[0, len(prompt) - 1 :]


@pytest.mark.parametrize("tie", [True, False])
@torch.no_grad()
def test_logits_equal_the_models_own(tie: bool) -> None:
    model = tiny(tie=tie)
    ids, mask = left_padded((5, 9, 2))
    said = torch.randint(0, VOCABULARY, (3, 6))
    decoder = ModelDecoder(model)
    seen = [decoder.prefill(ids, mask, 1), *(decoder.step(said[:, at]) for at in range(6))]
    for row in range(3):
        expected = reference(model, ids[row][mask[row]], said[row])
        torch.testing.assert_close(
            torch.stack([logits[row] for logits in seen]), expected, rtol=1e-4, atol=1e-5
        )


@torch.no_grad()
def test_a_prompt_is_read_once_for_all_of_its_samples() -> None:
    model = tiny()
    ids, mask = left_padded((4, 7))
    said = torch.randint(0, VOCABULARY, (6, 3))
    decoder = ModelDecoder(model)
    seen = [decoder.prefill(ids, mask, 3), *(decoder.step(said[:, at]) for at in range(3))]
    for row in range(6):
        expected = reference(model, ids[row // 3][mask[row // 3]], said[row])
        torch.testing.assert_close(
            torch.stack([logits[row] for logits in seen]), expected, rtol=1e-4, atol=1e-5
        )


@torch.no_grad()
def test_dropping_rows_leaves_the_others_as_they_were() -> None:
    model = tiny()
    ids, mask = left_padded((3, 8, 6, 5))
    said = torch.randint(0, VOCABULARY, (4, 4))
    decoder = ModelDecoder(model)
    decoder.prefill(ids, mask, 1)
    decoder.step(said[:, 0])
    rows = torch.tensor([1, 3])
    decoder.select(rows)
    seen = [decoder.step(said[rows, at]) for at in range(1, 4)]
    for place, row in enumerate(rows.tolist()):
        expected = reference(model, ids[row][mask[row]], said[row])[2:]
        torch.testing.assert_close(
            torch.stack([logits[place] for logits in seen]), expected, rtol=1e-4, atol=1e-5
        )


def test_layers_are_known_of_qwen3_only() -> None:
    assert in_layers(tiny())
    llama = LlamaConfig(
        vocab_size=31, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    assert not in_layers(AutoModelForCausalLM.from_config(llama))
