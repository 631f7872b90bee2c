"""Slots give the samples of the other path, whatever the number of slots, and the distribution of `generate`."""

from collections import Counter
from itertools import chain
from typing import Any

import pytest
import torch

from kernelwright.policy import slots
from kernelwright.policy.decode import in_layers
from kernelwright.policy.hf import HFPolicy
from kernelwright.records import Message, Prompt

PROMPTS = [
    Prompt(task_id="t", agent="frontend", messages=(Message(role="user", content=text),), max_tokens=length)
    for text, length in (("def f(x):", 20), ("return", 9), ("one kernel", 1), ("x + 1\n    return x", 14))
]


def said(policy: HFPolicy, **options: Any) -> list[list[tuple[Any, ...]]]:
    groups = policy.generate(PROMPTS, 3, seed=5, **options)
    return [[(c.token_ids, c.finish_reason, c.text) for c in group] for group in groups]


@pytest.mark.parametrize("rows", [1, 2, 5, 64])
@pytest.mark.parametrize("options", [{}, {"temperature": 0.7, "top_p": 0.8}, {"temperature": 0.0}])
def test_the_number_of_slots_changes_nothing(model: Any, tokenizer: Any, rows: int, options: Any) -> None:
    plain = HFPolicy(model, tokenizer, continuous=False)
    slots._ENGINES.pop(model, None)
    refilled = HFPolicy(model, tokenizer, batch=rows)
    assert slots.engine_for(model, rows, 64, 20, jobs=12).rows == min(rows, 12)
    assert said(refilled, **options) == said(plain, **options)


def test_log_probs_are_those_of_the_other_path(model: Any, tokenizer: Any) -> None:
    plain = HFPolicy(model, tokenizer, continuous=False).generate(PROMPTS, 2, seed=1)
    refilled = HFPolicy(model, tokenizer, batch=3).generate(PROMPTS, 2, seed=1)
    for one, two in zip(chain(*plain), chain(*refilled), strict=True):
        torch.testing.assert_close(
            torch.tensor(one.logprobs), torch.tensor(two.logprobs), rtol=1e-4, atol=1e-5
        )


def test_every_sample_is_handed_on_once_as_soon_as_it_is_whole(model: Any, tokenizer: Any) -> None:
    judged: list[tuple[int, int]] = []
    HFPolicy(model, tokenizer, batch=2).generate(
        PROMPTS, 3, on_completion=lambda row, sample, _: judged.append((row, sample))
    )
    assert sorted(judged) == [(row, sample) for row in range(4) for sample in range(3)]


def test_weights_are_those_of_now(tokenizer: Any, model: Any) -> None:
    """Training continues between two calls: the engine stays, its weights change."""
    import copy

    mine = copy.deepcopy(model)
    policy = HFPolicy(mine, tokenizer, batch=4)
    before = said(policy)
    engine = slots._ENGINES[mine]
    with torch.no_grad():
        for weight in mine.parameters():
            weight.mul_(1.5)
    after = said(policy)
    assert slots._ENGINES[mine] is engine
    assert after != before
    assert after == said(HFPolicy(mine, tokenizer, continuous=False))


def test_adapters_are_merged_into_what_is_decoded_and_follow_training(tokenizer: Any, model: Any) -> None:
    import copy

    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"]
    )
    mine = get_peft_model(copy.deepcopy(model).double(), config).eval()
    assert in_layers(mine)
    judged = []
    for _ in range(2):
        with torch.no_grad():
            for name, weight in mine.named_parameters():
                if "lora_" in name:
                    weight.add_(torch.randn_like(weight) * 0.3)
        judged.append(said(HFPolicy(mine, tokenizer, batch=3)))
        assert judged[-1] == said(HFPolicy(mine, tokenizer, continuous=False))
    assert judged[0] != judged[1]
    with mine.disable_adapter():
        without = said(HFPolicy(mine, tokenizer, batch=3))
    assert without == said(HFPolicy(copy.deepcopy(model).double(), tokenizer, continuous=False))


def test_other_adapters_go_through_their_own_forward(model: Any) -> None:
    import copy

    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=4, target_modules=["q_proj"], use_dora=True)
    assert not in_layers(get_peft_model(copy.deepcopy(model), config))


def test_samples_are_distributed_as_generate_s(model: Any, tokenizer: Any) -> None:
    """The first two tokens of 4,000 samples each way: chi-squared between the counts."""
    count, prompt = 4000, PROMPTS[0].model_copy(update={"max_tokens": 2})
    policy = HFPolicy(model, tokenizer, batch=500)
    [group] = policy.generate([prompt], count, temperature=0.5, seed=3)
    ids = torch.tensor([policy.encode(prompt)] * count)
    torch.manual_seed(0)
    theirs = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=True, temperature=0.5, top_k=0, top_p=1.0,
        max_new_tokens=2, pad_token_id=tokenizer.pad_token_id, eos_token_id=policy.ends,
    )[:, ids.shape[1] :]  # fmt: skip
    for place in range(2):
        ours = Counter(c.token_ids[place] for c in group if len(c.token_ids or ()) > place)
        other = Counter(row[place] for row in theirs.tolist())
        common = [
            token for token in other if token != tokenizer.pad_token_id and ours[token] + other[token] >= 20
        ]
        assert len(common) > 20
        chi2 = sum((ours[t] - other[t]) ** 2 / (ours[t] + other[t]) for t in common)
        # Mean len(common), standard deviation sqrt(2 len(common)); exceeding five of them has a chance of one in a million.
        assert chi2 < len(common) + 5 * (2 * len(common)) ** 0.5


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [3, 64])
def test_graphs_say_what_the_other_path_says(tokenizer: Any, model: Any, rows: int) -> None:
    """In double precision, where the order of sums does not change tokens; twice, so that graphs are reused."""
    import copy

    mine = copy.deepcopy(model).double().cuda()
    expected = said(HFPolicy(mine, tokenizer, continuous=False))
    policy = HFPolicy(mine, tokenizer, batch=rows)
    assert said(policy) == expected
    assert said(policy) == expected
    assert slots._ENGINES[mine]._captured
