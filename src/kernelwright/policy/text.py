"""Converts between prompts, token ids and text, in one place, so that training and sampling see the same tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from kernelwright.prompts import PLAN_END
from kernelwright.records import Completion, Prompt


def plain_text(prompt: Prompt) -> str:
    """A prompt as a tokenizer without a chat template gets it: the messages' contents, one per line."""
    return "".join(message.content.rstrip("\n") + "\n" for message in prompt.messages)


def trained_style(tokenizer: Any) -> str:
    """The prompt style that one of our models was trained with, from its tokenizer; empty for any other model."""
    return str(getattr(tokenizer, "init_kwargs", {}).get("prompt_style", ""))


def prompt_ids(tokenizer: Any, prompt: Prompt) -> list[int]:
    """Token ids of a prompt, up to where the completion starts.

    Uses the tokenizer's chat template if it has one; otherwise `plain_text`.
    """
    if getattr(tokenizer, "chat_template", None):
        messages = [{"role": m.role, "content": m.content} for m in prompt.messages]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    else:
        text = plain_text(prompt)
    return list(tokenizer.encode(text, add_special_tokens=False))


def reply_ids(tokenizer: Any, message: str) -> list[int]:
    """Token ids of a user's next message: from after an answer's end token to where the next answer starts.

    With a chat template, uses its marks between answers; otherwise one line break before and after.
    """
    if not getattr(tokenizer, "chat_template", None):
        return list(tokenizer.encode(f"\n{message.strip()}\n", add_special_tokens=False))
    answer = "the-answer-that-was-given"
    turns = [
        {"role": "user", "content": "question"},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": message.strip()},
    ]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    between = text[text.rindex(answer) + len(answer) :].removeprefix(tokenizer.eos_token or "")
    return list(tokenizer.encode(between, add_special_tokens=False))


def completion_ids(tokenizer: Any, text: str) -> list[int]:
    """Token ids of a whole completion, with the end-of-sequence token that teaches the policy to stop."""
    return [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]


_ALONE: WeakKeyDictionary[Any, dict[int, str]] = WeakKeyDictionary()
"""Text of single tokens: decoding them one by one takes longer than a small model takes to generate them."""


def token_pieces(tokenizer: Any, ids: Sequence[int], ends: Iterable[int]) -> tuple[str, ...]:
    """The text of each token. A character spread over several tokens belongs to the last one.

    Tokens in `ends` (end of sequence, padding) have no text; other special tokens keep theirs, so that `<think>` is
    preserved.
    """
    ends, pieces, held = set(ends), [], []
    alone = _ALONE.setdefault(tokenizer, {})
    for position, token in enumerate(ids):
        if token in ends:
            pieces.append("")
            continue
        held.append(token)
        piece = alone.get(token) if len(held) == 1 else None
        if piece is None:
            piece = tokenizer.decode(held, skip_special_tokens=False, clean_up_tokenization_spaces=False)
            if len(held) == 1:
                alone[token] = piece
        if piece.endswith("�") and len(held) < 4 and position + 1 < len(ids):
            pieces.append("")
        else:
            pieces.append(piece)
            held = []
    return tuple(pieces)


def reaching(pieces: Sequence[str], characters: int) -> int:
    """The least number of first tokens that have at least `characters` characters; all tokens if there are fewer."""
    place = 0
    for count, piece in enumerate(pieces):
        if place >= characters:
            return count
        place += len(piece)
    return len(pieces)


def until_plan(completion: Completion, pieces: Sequence[str]) -> Completion:
    """The completion up to the end of its plan: models trained to write code would continue. `pieces`: its tokens' texts."""
    head, tag, rest = completion.text.partition(PLAN_END)
    if not tag or not rest.strip():
        return completion
    kept = reaching(pieces, len(head) + len(tag))
    place = sum(map(len, pieces[:kept]))
    tokens, chances = completion.token_ids, completion.logprobs
    return completion.model_copy(
        update={
            "text": completion.text[: max(place, len(head) + len(tag))],
            "token_ids": None if tokens is None else tokens[:kept],
            "logprobs": None if chances is None else chances[:kept],
            "finish_reason": "stop",
        }
    )
