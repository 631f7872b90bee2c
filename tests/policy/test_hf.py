"""A local model as policy: reproducible sampling, tokens with their log-probs, and clear errors."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.errors import UserError
from kernelwright.policy import Policy, load_policy
from kernelwright.policy.hf import HFPolicy, draw
from kernelwright.policy.plan_first import PlanFirst
from kernelwright.policy.text import prompt_ids, token_pieces
from kernelwright.records import Completion, Message, Prompt


def ask(text: str, max_tokens: int = 8) -> Prompt:
    return Prompt(
        task_id="t",
        agent="frontend",
        messages=(Message(role="user", content=text),),
        max_tokens=max_tokens,
    )


@pytest.fixture
def policy(model: Any, tokenizer: Any) -> HFPolicy:
    return HFPolicy(model, tokenizer, "tiny")


def test_it_is_a_policy(policy: HFPolicy) -> None:
    assert isinstance(policy, Policy)


def test_the_same_seed_says_the_same_and_another_does_not(policy: HFPolicy) -> None:
    prompts = [ask("def f(x):\n"), ask("return")]
    first, again, other = (policy.generate(prompts, 3, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_a_row_does_not_depend_on_how_the_batch_is_cut(model: Any, tokenizer: Any) -> None:
    prompts = [ask("def f(x):\n"), ask("return"), ask("one")]
    whole, cut = (HFPolicy(model, tokenizer, "tiny", batch=batch) for batch in (64, 2))
    said = [[[c.token_ids for c in group] for group in p.generate(prompts, 3)] for p in (whole, cut)]
    assert said[0] == said[1]


def test_logprobs_are_the_models_own(policy: HFPolicy, model: Any, tokenizer: Any) -> None:
    prompt = ask("def f(x):\n")
    [[completion]] = policy.generate([prompt], seed=3)
    asked, said = prompt_ids(tokenizer, prompt), list(completion.token_ids or ())
    with torch.no_grad():
        logits = model(torch.tensor([asked + said])).logits[0, len(asked) - 1 : -1]
    expected = logits.log_softmax(-1)[range(len(said)), said]
    torch.testing.assert_close(torch.tensor(completion.logprobs), expected, rtol=1e-4, atol=1e-4)


def test_temperature_zero_is_greedy(policy: HFPolicy, model: Any, tokenizer: Any) -> None:
    prompt = ask("return", max_tokens=5)
    [[completion]] = policy.generate([prompt], temperature=0)
    ids = prompt_ids(tokenizer, prompt)
    with torch.no_grad():
        for token in completion.token_ids or ():
            assert token == int(model(torch.tensor([ids])).logits[0, -1].argmax())
            ids = [*ids, token]


def test_a_long_answer_ends_at_its_budget_and_says_so(policy: HFPolicy) -> None:
    [[completion]] = policy.generate([ask("return", max_tokens=3)], seed=5)
    assert (len(completion.token_ids or ()), completion.finish_reason) == (3, "length")


def test_an_answer_that_ends_itself_holds_its_end_token_but_no_text_of_it(
    policy: HFPolicy, tokenizer: Any
) -> None:
    said = [c for g in policy.generate([ask("x", 50)], 40, seed=1) for c in g]
    stopped = [c for c in said if c.finish_reason == "stop"]
    assert stopped
    for completion in stopped:
        assert (completion.token_ids or ())[-1] == tokenizer.eos_token_id
        assert tokenizer.eos_token not in completion.text


def test_a_prompt_without_room_gets_an_empty_answer_and_the_others_are_served(policy: HFPolicy) -> None:
    crowded, fine = policy.generate([ask("x = 1\n" * 60), ask("x")], 2)
    assert [(c.text, c.finish_reason) for c in crowded] == [("", "error")] * 2
    assert all(c.token_ids for c in fine)


def test_samples_that_do_not_end_in_time_are_not_waited_for(policy: HFPolicy) -> None:
    before = policy.generate([ask("x")], seed=4)
    with pytest.raises(TimeoutError):
        policy.generate([ask("x")], until=0.0)
    assert policy.generate([ask("x")], seed=4) == before


def test_each_completion_is_handed_on_once(policy: HFPolicy) -> None:
    judged: Counter[tuple[int, int]] = Counter()
    said: dict[tuple[int, int], Completion] = {}

    def take(row: int, sample: int, completion: Completion) -> None:
        judged[row, sample] += 1
        said[row, sample] = completion

    groups = policy.generate([ask("x"), ask("y = 1\n" * 60), ask("return", 2)], 3, on_completion=take)
    assert judged == Counter({(row, sample): 1 for row in range(3) for sample in range(3)})
    assert all(groups[row][sample] == completion for (row, sample), completion in said.items())


def test_a_model_in_training_stays_in_training(policy: HFPolicy, model: Any) -> None:
    model.train()
    try:
        policy.generate([ask("x", 2)])
        assert model.training
    finally:
        model.eval()


def test_pieces_join_to_the_text(policy: HFPolicy) -> None:
    for completion in policy.generate([ask("x", 30)], 5, seed=9)[0]:
        pieces = policy.pieces(completion)
        assert pieces is not None
        assert "".join(pieces) == completion.text
        assert len(pieces) == len(completion.token_ids or ())


@given(st.text(max_size=40))
def test_pieces_of_any_text_join_to_it(tokenizer: Any, text: str) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert "".join(token_pieces(tokenizer, ids, [tokenizer.eos_token_id])) == text


def test_draw_follows_the_distribution() -> None:
    probs = torch.tensor([0.5, 0.3, 0.2])
    uniform = torch.linspace(0, 1, 1001, dtype=torch.float64)[:-1]
    token, logprob = draw(probs.log().repeat(1000, 1), uniform, 1.0, 1.0)
    shares = torch.bincount(token, minlength=3) / 1000
    torch.testing.assert_close(shares, probs, atol=2e-3, rtol=0)
    torch.testing.assert_close(logprob, probs[token].log())


@given(st.lists(st.floats(-8, 8), min_size=2, max_size=9), st.floats(0.05, 1), st.floats(0, 0.999999))
def test_top_p_keeps_the_smallest_set_that_reaches_it(
    logits: list[float], top_p: float, uniform: float
) -> None:
    row = torch.tensor(logits)
    probs = row.softmax(0)
    token, logprob = draw(row[None], torch.tensor([uniform], dtype=torch.float64), 1.0, top_p)
    likelier = probs[probs > probs[token]].sum()
    assert likelier < top_p + 1e-5
    assert float(logprob) <= 1e-5


def test_a_checkpoint_folder_is_a_policy(checkpoint: Path, policy: HFPolicy) -> None:
    loaded = load_policy(str(checkpoint))
    assert (
        loaded.generate([ask("x")], seed=4)[0][0].token_ids
        == policy.generate([ask("x")], seed=4)[0][0].token_ids
    )


@pytest.mark.parametrize("inside", ["stages/sft", "."])
def test_a_run_folder_or_a_stage_names_its_checkpoint(checkpoint: Path, tmp_path: Path, inside: str) -> None:
    stage = tmp_path / "run" / "stages" / "sft"
    stage.mkdir(parents=True)
    (stage / "checkpoint").symlink_to(checkpoint)
    (tmp_path / "run" / "config.json").write_text("{}")
    assert isinstance(load_policy(str(tmp_path / "run" / inside)), PlanFirst)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("", "no policy named"),
        ("./nowhere", "no such folder"),
        ("/nowhere/at/all", "no such folder"),
        ("no-such-owner/no-such-model", "cannot be loaded"),
        ("openai:localhost:8000#m", "is not openai:BASE_URL#MODEL"),
        ("openai:http://localhost:8000/v1", "is not openai:BASE_URL#MODEL"),
    ],
)
def test_a_policy_that_is_not_there_is_one_line(spec: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        load_policy(spec)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_without_a_model_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no model"):
        load_policy(str(tmp_path))


def test_a_broken_checkpoint_is_one_line(checkpoint: Path, tmp_path: Path) -> None:
    for file in checkpoint.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"half of it")
    with pytest.raises(UserError, match="cannot be loaded") as error:
        load_policy(str(tmp_path))
    assert "\n" not in str(error.value)
