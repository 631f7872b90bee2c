"""Conversations: answer, verdict, better answer. Each turn uses `rollouts.Rolling`.

A turn's tokens are appended to those sampled before and never tokenized again, so we train on exactly the sampled
tokens. With `history = "answers"`, earlier thoughts are removed token by token.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

from kernelwright import prompts
from kernelwright.config import RlConfig
from kernelwright.policy.text import prompt_ids, reply_ids, token_pieces
from kernelwright.records import Message, Prompt, Rollout, Task
from kernelwright.train.credit import Conversation, answer_ids

T = TypeVar("T")
Waiting = Generator[None, None, T]
"""Yields whenever it waits for verdicts; returns a `T`."""
FASTER = "It is correct. Answer with a faster one."


def converse(
    policy: Any,
    first: Sequence[Sequence[Rollout]],
    tasks: Sequence[Task],
    places: Sequence[int],
    rl: RlConfig,
    again: Callable[[Sequence[Prompt], Sequence[Task], int], Waiting[list[list[Rollout]]]],
) -> Waiting[list[list[Conversation]]]:
    """The conversations that start with the groups `first` about `tasks`, each with at most `rl.turns` answers.

    `places`: each group's number within its step, counted over all processes.

    `policy` is an `HFPolicy`. `again(prompts, tasks, turn)` makes one rollout per prompt, and yields once they are
    sampled, until their verdicts arrive.
    """
    tokenizer = policy.tokenizer
    groups = []
    for group in first:
        prompt_tokens = tuple(prompt_ids(tokenizer, group[0].prompt))
        groups.append([Conversation(prompt_tokens, (rollout,)) for rollout in group])
    flat = [(g, i) for g, group in enumerate(groups) for i in range(len(group))]
    for turn in range(1, rl.turns):
        going: list[tuple[int, int, Prompt, tuple[int, ...]]] = []
        for g, i in flat:
            talk = groups[g][i]
            message = reply(talk.turns[-1], rl) if len(talk.turns) == turn else ""
            if not message:
                continue
            question = tuple(reply_ids(tokenizer, message))
            last, thoughts = talk.turns[-1], rl.history == "all"
            before = talk.context(turn - 1, thoughts=thoughts)
            ids = [*before, *answer_ids(last, thoughts=thoughts), *question]
            if len(ids) + rl.max_tokens > policy.context:
                continue
            prompt = last.prompt.model_copy(
                update={
                    "messages": (
                        *last.prompt.messages,
                        Message(role="assistant", content=_show(policy, last, thoughts)),
                        Message(role="user", content=message),
                    )
                }
            )
            policy.given[id(prompt)] = ids
            policy.numbers[id(prompt)] = places[g] * rl.samples + i
            going.append((g, i, prompt, question))
        if not going:
            break
        answers = yield from again([prompt for _, _, prompt, _ in going], [tasks[g] for g, *_ in going], turn)
        for (g, i, _, question), [answer] in zip(going, answers, strict=True):
            talk = groups[g][i]
            answer = answer.model_copy(update={"turn": turn, "group": talk.turns[0].group})
            groups[g][i] = Conversation(talk.prompt, (*talk.turns, answer), (*talk.replies, question))
    return groups


def reply(rollout: Rollout, rl: RlConfig) -> str:
    """The reply to an answer; empty if the conversation ends: truncated, not judged, or good enough."""
    verdict = rollout.verdict
    if rollout.completion.finish_reason != "stop" or not verdict.outcome.judged:
        return ""
    if not verdict.correct:
        return _tagged("feedback", prompts.feedback(verdict))
    if rl.until_correct:
        return ""
    return _tagged("profile", f"{prompts.profile(verdict)}\n{FASTER}".strip())


def _show(policy: Any, answer: Rollout, thoughts: bool) -> str:
    """An answer's text as the next turn sees it."""
    if thoughts or not answer.candidate.thought_spans:
        return answer.completion.text
    ids = answer_ids(answer, thoughts=False)
    return "".join(token_pieces(policy.tokenizer, ids, policy.ends)).lstrip()


def _tagged(tag: str, text: str) -> str:
    return f"<{tag}>\n{text.strip()}\n</{tag}>"
