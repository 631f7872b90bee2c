"""Log-probs without left padding compared with a masked forward pass, and samples distributed by length."""

from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3Config
from trl.trainer.utils import add_fused_lm_head

from kernelwright.train.lean import no_mask
from kernelwright.train.scoring import by_length, score_tokens


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(3)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
    made = AutoModelForCausalLM.from_config(
        Qwen3Config(vocab_size=20, head_dim=8, intermediate_size=24, **sizes)
    )
    add_fused_lm_head(made, outputs=("log_probs", "entropy"))
    return made


PROMPTS, COMPLETIONS = (2, 5, 3, 5), (4, 1, 6, 0)
"""Lengths: the longest prompt and the longest completion are in different rows, and one row has nothing to train on."""


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(1, 20, (4, 11), generator=torch.Generator().manual_seed(0))
    place = torch.arange(11)
    mask = torch.stack(
        [(place >= 5 - p) & (place < 5 + c) for p, c in zip(PROMPTS, COMPLETIONS, strict=True)]
    ).long()
    return ids * mask, mask


@pytest.mark.parametrize("multiple", [1, 4, 64])
def test_scores_and_gradients_are_those_of_a_masked_pass(model: Any, multiple: int) -> None:
    ids, mask = batch()
    weights = torch.rand(4, 6, generator=torch.Generator().manual_seed(1))
    logps, entropies = score_tokens(model, model.config, ids, mask, 6, multiple)
    assert entropies is not None
    (logps * weights).sum().backward()
    ours = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, :5] = -100
    out = model(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True)
    (out.log_probs[:, -6:] * weights).sum().backward()
    torch.testing.assert_close(logps, out.log_probs[:, -6:], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(entropies, out.entropy[:, -6:], rtol=1e-4, atol=1e-5)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(ours[name], parameter.grad, rtol=1e-3, atol=1e-5)
    model.zero_grad()


def test_a_batch_of_prompts_alone_scores_nothing(model: Any) -> None:
    ids, mask = batch()
    mask[:, 5:] = 0
    assert score_tokens(model, model.config, ids, mask, 6)[0].abs().sum() == 0


def test_a_mask_that_says_nothing_is_only_made_for_full_attention(model: Any) -> None:
    assert no_mask(model.config) == {"full_attention": None}
    other = Qwen3Config(num_hidden_layers=1, layer_types=["sliding_attention"])
    other._attn_implementation = "sdpa"
    assert no_mask(other) is None


def test_an_updates_samples_are_dealt_out_by_length() -> None:
    def made(lengths: list[int]) -> dict[str, Any]:
        mask = (torch.arange(4) < torch.tensor(lengths)[:, None]).long()
        rows = torch.tensor(lengths)
        shared = torch.tensor(7)
        return {
            "prompt_mask": mask[:, :1],
            "completion_mask": mask[:, 1:],
            "rows": rows,
            "all": shared,
            "none": None,
        }

    batches = [made([1, 3]), made([4, 2]), made([2, 1]), made([1, 4])]
    dealt = by_length(batches, 2)
    assert [batch["rows"].tolist() for batch in dealt] == [[4, 3], [2, 1], [4, 2], [1, 1]]
    assert all(batch["completion_mask"].sum(1).add(1).tolist() == batch["rows"].tolist() for batch in dealt)
    assert all(batch["all"] == 7 and batch["none"] is None for batch in dealt)
