"""Muon and AdamW as one optimizer: which weights each gets, one schedule, and a resumable state."""

import io
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3Config

from kernelwright.train.optimizers import BatchedMuon, Together, muon


def tiny_model() -> Any:
    torch.manual_seed(3)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = Qwen3Config(vocab_size=20, head_dim=8, intermediate_size=24, tie_word_embeddings=True, **sizes)
    return AutoModelForCausalLM.from_config(config)


def step(model: torch.nn.Module, optimizer: Together, seed: int) -> None:
    torch.manual_seed(seed)
    ids = torch.randint(0, 20, (2, 8))
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def test_matrices_inside_layers_go_to_muon_and_the_rest_to_adamw() -> None:
    model = tiny_model()
    optimizer = muon(model, 1e-2, 1e-3, 0.1)
    matrices, rest = ({id(p) for p in group["params"]} for group in optimizer.param_groups)
    for name, parameter in model.named_parameters():
        inner = name.endswith("_proj.weight")
        assert (id(parameter) in matrices) == inner
        assert (id(parameter) in rest) == (not inner)


def test_with_only_matrices_to_train_there_is_no_adamw() -> None:
    model = tiny_model()
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.endswith("_proj.weight"))
    optimizer = muon(model, 1e-2, 1e-3, 0.0)
    step(model, optimizer, 0)
    assert len(optimizer.parts) == 1


def test_a_schedule_scales_both_rates() -> None:
    optimizer = muon(tiny_model(), 1e-2, 1e-3, 0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    optimizer.step()
    schedule.step()
    assert [part.param_groups[0]["lr"] for part in optimizer.parts] == pytest.approx([5e-3, 5e-4])


def test_a_loaded_state_goes_on_as_if_never_stopped() -> None:
    whole = tiny_model()
    torch.manual_seed(7)
    optimizer = muon(whole, 1e-2, 1e-3, 0.1)
    for seed in range(2):
        step(whole, optimizer, seed)
    saved = io.BytesIO()
    torch.save((whole.state_dict(), optimizer.state_dict()), saved)
    saved.seek(0)
    weights, state = torch.load(saved, weights_only=True)
    again = tiny_model()
    again.load_state_dict(weights)
    resumed = muon(again, 1.0, 1.0, 0.0)
    resumed.load_state_dict(state)
    for seed in range(2, 4):
        step(whole, optimizer, seed)
        step(again, resumed, seed)
    for one, other in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("adjust", [None, "match_rms_adamw"])
def test_batches_of_matrices_step_as_torchs_muon_does_one_by_one(adjust: Any) -> None:
    torch.manual_seed(0)
    shapes = [(12, 12), (4, 12), (12, 4), (12, 12), (30, 12), (12, 30)]
    one = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    many = [torch.nn.Parameter(p.detach().clone()) for p in one]
    options: dict[str, Any] = {"lr": 0.02, "weight_decay": 0.1, "adjust_lr_fn": adjust}
    theirs, ours = torch.optim.Muon(one, **options), BatchedMuon(many, **options)
    for _ in range(3):
        for a, b in zip(one, many, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        one[1].grad = many[1].grad = None
        theirs.step()
        ours.step()
    for a, b in zip(one, many, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=2e-3)
    torch.testing.assert_close(theirs.state[one[0]], ours.state[many[0]])
    assert theirs.state_dict()["param_groups"] == ours.state_dict()["param_groups"]
