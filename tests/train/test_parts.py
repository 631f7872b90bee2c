"""Which tokens are thought, plan and code: twelve forms of completion, one boundary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fakes import ReadJudge, task
from test_turns import Says
from tiny import FAST, code, finished

from kernelwright.candidates import parse
from kernelwright.config import RlConfig
from kernelwright.policy.text import prompt_ids, token_pieces
from kernelwright.prompts import render
from kernelwright.rollouts import roll
from kernelwright.train.credit import CODE, PLAN, REPLY, THOUGHT, Conversation, parts, row, turn_row
from kernelwright.train.model import load_tokenizer
from kernelwright.train.turns import converse

KERNEL = code(FAST)
THINK = ("<think>\na kernel in a row\n```python\nx = 1\n```\n</think>", THOUGHT)
TAGGED = ("\n<plan>\nfast\n</plan>", PLAN)
OPEN, CLOSE = ("\n```python\n", PLAN), ("\n```", CODE)
BODY = (KERNEL, CODE)

FORMS: dict[str, list[tuple[str, int]]] = {
    "plan, fence": [("<plan>\nfast\n</plan>", PLAN), OPEN, BODY, CLOSE],
    "thought, fence at once": [THINK, OPEN, BODY, CLOSE],
    "thought, plan, fence": [THINK, TAGGED, OPEN, BODY, CLOSE],
    "plan, thought, fence": [("<plan>\nfast\n</plan>\n", PLAN), THINK, OPEN, BODY, CLOSE],
    "thought, prose, fence": [THINK, ("\nHere it is.\n", PLAN), OPEN, BODY, CLOSE],
    "thought, plan, prose, fence": [THINK, TAGGED, ("\nHere it is.\n", PLAN), OPEN, BODY, CLOSE],
    "prose, fence, prose": [("One pass.\n", PLAN), OPEN, BODY, CLOSE, ("\nDone.", CODE)],
    "two thoughts": [THINK, TAGGED, ("\n", PLAN), THINK, OPEN, BODY, CLOSE],
    "a lone closing tag": [("a kernel in a row\n</think>", THOUGHT), TAGGED, OPEN, BODY, CLOSE],
    "a draft and the answer": [
        THINK,
        ("\nA draft:\n```python\nx = 1\n```\nThe answer:\n```python\n", PLAN),
        BODY,
        CLOSE,
    ],
    "code in two fences": [
        TAGGED,
        OPEN,
        (
            "import torch\nclass ModelNew: pass\n```\nand\n```python\n@triton.jit\ndef kernel(): pass\n```",
            CODE,
        ),
    ],
    "a fence alone": [("```python\n", CODE), BODY, CLOSE],
}


@pytest.fixture(scope="module")
def tokenizer(data: Path) -> Any:
    """A tokenizer whose think tags are special tokens, which vanish from text decoded without them."""
    made = load_tokenizer(str(data / "tokenizer"))
    made.add_special_tokens({"additional_special_tokens": ["<think>", "</think>"]})
    return made


def said(tokenizer: Any, form: list[tuple[str, int]]) -> tuple[list[int], list[int]]:
    """(token ids, kind of each), every piece tokenised separately."""
    ids: list[int] = []
    kinds: list[int] = []
    for text, kind in form:
        more = tokenizer.encode(text, add_special_tokens=False)
        ids, kinds = ids + more, kinds + [kind] * len(more)
    return [*ids, tokenizer.eos_token_id], [*kinds, CODE]


@pytest.mark.parametrize("name", FORMS)
def test_every_token_is_thought_plan_or_code(tokenizer: Any, name: str) -> None:
    ids, expected = said(tokenizer, FORMS[name])
    pieces = token_pieces(tokenizer, ids, [tokenizer.eos_token_id])
    made = parts(parse("".join(pieces), pieces), len(ids))
    told = [f"{piece!r}: {a} for {b}" for piece, a, b in zip(pieces, made, expected, strict=True) if a != b]
    assert not told
    assert sum(b == CODE != a for a, b in zip([PLAN, *made], made, strict=False)) == 1, "one boundary"


@pytest.mark.parametrize(
    "form",
    [
        [("<think>\nhm, and then", THOUGHT)],
        [THINK, ("\n<plan>\nfast", PLAN)],
        [THINK, ("\n<plan>\nfast", PLAN), ("\n</plan>", CODE)],
        [("no idea", CODE)],
    ],
)
def test_without_code_what_follows_thought_and_plan_failed_to_be_it(
    tokenizer: Any, form: list[tuple[str, int]]
) -> None:
    ids, expected = said(tokenizer, form)
    pieces = token_pieces(tokenizer, ids, [tokenizer.eos_token_id])
    assert parts(parse("".join(pieces), pieces), len(ids))[:-1] == expected[:-1]


def conversation(tokenizer: Any, history: str) -> tuple[Says, Conversation, list[int]]:
    """Two answers with thoughts, the first of them wrong; and the first's tokens without its thought."""
    wrong = code("wrong_value")
    script = [f"<think>\nfirst guess\n</think>\n```python\n{wrong}\n```"]
    script.append(f"<think>\nsecond guess\n</think>\n```python\n{KERNEL}\n```")
    rl = RlConfig(samples=2, max_tokens=64, turns=3, reward="kevin", history=history, until_correct=True)  # type: ignore[arg-type]
    policy, judge, one = Says(tokenizer, script), ReadJudge(), task("a")

    def again(prompts: Any, tasks: Any, turn: int) -> Any:
        made = roll(policy, prompts, tasks, judge, n=1, reward="kevin")
        yield
        return made

    prompt = render("frontend", one, style="compact", max_tokens=64)
    first = roll(policy, [prompt], [one], judge, n=2, reward="kevin")
    [[talk, _]] = finished(converse(policy, first, [one], [0], rl, again))
    ids = list(talk.turns[0].completion.token_ids or ())
    closing = tokenizer.convert_tokens_to_ids("</think>")
    return policy, talk, ids[ids.index(closing) + 1 :]


def test_a_later_turn_sees_no_earlier_thought(tokenizer: Any) -> None:
    policy, talk, shown = conversation(tokenizer, "answers")
    context = prompt_ids(tokenizer, talk.turns[0].prompt) + shown + list(talk.replies[0])
    assert policy.asked[1][0] == context
    assert "guess" not in talk.turns[1].prompt.messages[-2].content
    assert turn_row(talk, 1, end=3).prompt == context
    assert turn_row(talk, 1, end=3).tokens == list(talk.turns[1].completion.token_ids or ())
    assert set(turn_row(talk, 1, end=3).labels) == {3 + THOUGHT, 3 + PLAN, 3 + CODE}


def test_a_turn_that_was_not_is_an_empty_row(tokenizer: Any) -> None:
    _, talk, _ = conversation(tokenizer, "answers")
    assert len(talk.turns) == 2
    assert turn_row(talk, 2, end=3).labels == [REPLY]


def test_with_all_history_a_conversation_is_one_row(tokenizer: Any) -> None:
    policy, talk, _ = conversation(tokenizer, "all")
    made, first = row(talk, end=3), turn_row(talk, 0, end=3)
    assert policy.asked[1][0] == first.prompt + first.tokens + list(talk.replies[0])
    assert made.tokens == first.tokens + list(talk.replies[0]) + turn_row(talk, 1, end=3).tokens
