"""Each loss that a recipe can name, compared with a few lines of our own: its value, and its gradient per token."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import ReadJudge
from tiny import examples, make_recipe
from torch import Tensor

from kernelwright.config import RlConfig
from kernelwright.errors import UserError
from kernelwright.runs import RunFolder
from kernelwright.train.curriculum import Curriculum
from kernelwright.train.curves import Curves
from kernelwright.train.model import load_tokenizer, new_model
from kernelwright.train.prompts import frontend_asks
from kernelwright.train.segments import SegmentTrainer

ROWS, LONGEST = 8, 12


def reference(rl: RlConfig, now: Tensor, old: Tensor, sampled: Tensor, adv: Tensor, mask: Tensor) -> Tensor:
    """The loss of log-probs `now` (B, T) against `old`, advantages `adv` (B, T); written from docs/training.md."""
    total, lengths = mask.sum(), mask.sum(1, keepdim=True)
    if rl.importance == "token":
        ratio = (now - old).exp()
    else:
        ratio = (((now - old) * mask).sum(1, keepdim=True) / lengths).exp()
    low, high = 1 - rl.epsilon, 1 + (rl.epsilon_high or rl.epsilon)
    if rl.loss == "cispo":
        each = -ratio.clamp(max=rl.epsilon_high).detach() * adv * now
    elif rl.loss == "sapo":
        tau = torch.where(adv > 0, 1.0, 1.05)
        each = -adv * 4 / tau / (1 + (-tau * (ratio - 1)).exp())
    elif rl.loss == "vespo":
        k, lam = torch.where(adv >= 0, 2.0, 3.0), torch.where(adv >= 0, 3.0, 2.0)
        w = ((now - old) * mask).sum(1, keepdim=True).exp().detach()
        each = -(w**k) * (lam * (1 - w)).exp() * adv * now
    else:
        free = ratio.clamp(max=rl.delta) if rl.delta else ratio
        each = -torch.minimum(free * adv, ratio.clamp(low, high) * adv)
    if rl.off_policy_mask:
        drift = (((sampled - now) * mask).sum(1, keepdim=True) / lengths).detach()
        each = each * ((adv >= 0) | (drift <= rl.off_policy_mask))
    summed = (each * mask).sum(1, keepdim=True)
    return {
        "grpo": (summed / lengths).mean(),
        "sapo": (summed / lengths).mean(),
        "luspo": summed.mean(),
        "dr_grpo": summed.sum() / (ROWS * rl.max_tokens),
    }.get(rl.loss, summed.sum() / total)


CASES: list[dict[str, Any]] = [
    {"loss": "grpo"},
    {"loss": "grpo", "importance": "sequence", "epsilon": 3e-2, "epsilon_high": 4e-2},
    {"loss": "dapo", "epsilon_high": 0.28},
    {"loss": "dapo", "delta": 1.5},
    {"loss": "dapo", "off_policy_mask": 0.05},
    {"loss": "bnpo"},
    {"loss": "dr_grpo"},
    {"loss": "cispo", "epsilon_high": 1.2},
    {"loss": "sapo"},
    {"loss": "luspo", "importance": "sequence"},
    {"loss": "vespo"},
]


@pytest.fixture(scope="module")
def made(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Makes a trainer with a stage's settings. The model is shared, since losses only depend on log-probs."""
    model = None

    def make(settings: dict[str, Any]) -> SegmentTrainer:
        nonlocal model
        recipe = make_recipe(data, frontend={"max_tokens": LONGEST, **settings})
        tokenizer = load_tokenizer(recipe.data.tokenizer)
        model = model or new_model(recipe.model, tokenizer, seed=3)
        curves = Curves(RunFolder(tmp_path_factory.mktemp("loss")), "frontend", quiet=True)
        asks = Curriculum(frontend_asks(e.task for e in examples()), 0)
        return SegmentTrainer(recipe, model, tokenizer, asks, ReadJudge(), curves)

    return make


def draw() -> dict[str, Tensor]:
    """Log-probs that changed slightly since sampling, advantages of both signs within a row, and a mask."""
    chance = torch.Generator().manual_seed(5)
    now = -torch.rand(ROWS, LONGEST, generator=chance)
    old = now + 0.4 * torch.randn(ROWS, LONGEST, generator=chance)
    lengths = torch.randint(4, LONGEST + 1, (ROWS, 1), generator=chance)
    mask = (torch.arange(LONGEST)[None] < lengths).float()
    first = torch.randn(ROWS, 1, generator=chance)
    adv = torch.where(torch.arange(LONGEST)[None] < 3, first, torch.randn(ROWS, 1, generator=chance))
    return {"now": now, "old": old, "sampled": old + 0.05, "adv": adv, "mask": mask}


def by_trl(
    trainer: SegmentTrainer, now: Tensor, old: Tensor, sampled: Tensor, adv: Tensor, mask: Tensor
) -> Tensor:
    trainer.current_gradient_accumulation_steps = trainer.args.steps_per_generation
    trainer._get_per_token_logps_and_entropies = lambda *_, **__: (now, torch.zeros_like(now), None)  # type: ignore[method-assign]
    ids = torch.zeros_like(mask, dtype=torch.long)
    batch = {"prompt_ids": ids[:, :1], "prompt_mask": ids[:, :1] + 1, "completion_ids": ids}
    batch |= {"completion_mask": mask, "advantages": adv, "old_per_token_logps": old}
    batch |= {"sampling_per_token_logps": sampled, "num_items_in_batch": mask.sum()}
    loss = trainer._compute_loss(trainer.model, batch)
    whole = (
        trainer.current_gradient_accumulation_steps
        if trainer.rl.loss not in ("dapo", "cispo", "vespo")
        else 1
    )
    return loss * whole


@pytest.mark.parametrize("settings", CASES, ids=lambda case: "-".join(map(str, case.values())))
def test_a_recipes_loss_is_the_equation_in_the_docs(made: Any, settings: dict[str, Any]) -> None:
    trainer, drawn = made(settings), draw()
    leaves = [drawn["now"].clone().requires_grad_() for _ in range(2)]
    theirs = by_trl(trainer, **{**drawn, "now": leaves[0]})
    ours = reference(trainer.rl, **{**drawn, "now": leaves[1]})
    theirs.backward()
    ours.backward()
    torch.testing.assert_close(theirs, ours, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad, rtol=1e-4, atol=1e-6)
    assert leaves[1].grad is not None
    assert leaves[1].grad.abs().max() > 1e-4


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"loss": "cispo"}, "set it above 1, such as 5.0"),
        ({"loss": "luspo"}, 'set importance = "sequence"'),
        ({"delta": 1.1}, "set it above 1 \\+ epsilon_high"),
    ],
)
def test_settings_that_make_no_sense_are_refused(data: Path, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        make_recipe(data, frontend=settings)
