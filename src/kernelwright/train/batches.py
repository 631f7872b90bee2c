"""Tokenized examples and the batches of supervised fine-tuning: a share of each kind, similar lengths together.

Sequences are padded on the right, which a causal model does not see, so batches need no attention mask and use the
fastest attention. The order depends only on (seed, epoch), so a resumed run draws the same batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kernelwright.children import on_all_cores
from kernelwright.config import Kind, Recipe
from kernelwright.errors import UserError
from kernelwright.policy.text import completion_ids, prompt_ids, reaching, token_pieces
from kernelwright.prompts import PLAN_END, example_pair
from kernelwright.records import Pair, Supervised

IGNORED = -100
"""Label of a token that is not trained on."""
LIKE = 50
"""Batches sorted by length together: fewer leave more padding, more leave less randomness."""


@dataclass(frozen=True)
class Rows:
    """Tokenized examples, concatenated: row i is `tokens[starts[i]:starts[i + 1]]`, and its first `prompt_lengths[i]` tokens are
    the prompt."""

    tokens: NDArray[np.int32]
    starts: NDArray[np.int64]
    prompt_lengths: NDArray[np.int64]
    kinds: tuple[Kind, ...]

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each row."""
        return np.diff(self.starts)


def tokenize_examples(recipe: Recipe, tokenizer: Any, examples: Sequence[Supervised]) -> Rows:
    """Tokenize the examples of the recipe's kinds and drop those longer than the context; the result may be empty."""

    def pair(example: Supervised) -> tuple[NDArray[np.int32], int]:
        if not recipe.sft.plans:
            example = example.model_copy(update={"plan": ""})
        data = recipe.data
        prompt, text = example_pair(example, data.style, data.answer, data.think, data.profile)
        question, answer = prompt_ids(tokenizer, prompt), completion_ids(tokenizer, text)
        given = _plan_tokens(tokenizer, answer) if _slow(recipe, example) else 0
        return np.array(question + answer, np.int32), len(question) + given

    wanted = [example for example in examples if example.kind in recipe.sft.kinds]
    if recipe.data.answer == "plan":
        wanted = [example for example in wanted if not _slow(recipe, example)]
    tokens, prompt_lengths, kinds = [np.empty(0, np.int32)], [], []
    for example, (row, question) in zip(wanted, on_all_cores(pair, wanted), strict=True):
        if len(row) <= recipe.model.context:
            tokens.append(row)
            prompt_lengths.append(question)
            kinds.append(example.kind)
    starts = np.cumsum([len(row) for row in tokens])
    return Rows(np.concatenate(tokens), starts, np.array(prompt_lengths, np.int64), tuple(kinds))


def _slow(recipe: Recipe, example: Supervised) -> bool:
    """Whether a kernel is so much slower than the best known one that its plan should not be learned."""
    if not recipe.sft.near or not isinstance(example, Pair) or not (example.us and example.best_us):
        return False
    return example.us > recipe.sft.near * example.best_us


def _plan_tokens(tokenizer: Any, answer: list[int]) -> int:
    """Number of tokens of a completion up to the end of its plan; 0 without a plan."""
    pieces = token_pieces(tokenizer, answer, (tokenizer.eos_token_id,))
    end = "".join(pieces).find(PLAN_END)
    return reaching(pieces, end + len(PLAN_END)) if end >= 0 else 0


def training_rows(recipe: Recipe, tokenizer: Any, examples: Sequence[Supervised]) -> Rows:
    """`tokenize_examples`; raises UserError if no example is left to train on."""
    rows = tokenize_examples(recipe, tokenizer, examples)
    wanted = sum(example.kind in recipe.sft.kinds for example in examples)
    if not any(recipe.sft.shares.get(kind, 1.0) for kind in rows.kinds):
        raise UserError(
            f"none of {wanted} examples of kinds {', '.join(recipe.sft.kinds)} fits in "
            f"{recipe.model.context} tokens; raise model.context or widen sft.kinds and sft.shares"
        )
    return rows


@dataclass(frozen=True)
class Collator:
    """Makes a batch of rows: `input_ids` and `labels` (B, T), T being the longest row rounded up to `multiple`."""

    rows: Rows
    padding: int
    multiple: int = 1
    limit: int = 0
    """T is not rounded up beyond this; 0: no limit."""
    mask: bool = False
    """Whether to add an `attention_mask`, which a causal model does not need."""

    def __call__(self, examples: Sequence[Mapping[str, int]]) -> dict[str, torch.Tensor]:
        chosen = [example["row"] for example in examples]
        lengths = self.rows.lengths[chosen]
        longest = int(lengths.max())
        width = -(-longest // self.multiple) * self.multiple
        width = max(longest, min(width, self.limit)) if self.limit else width
        ids = np.full((len(chosen), width), self.padding, np.int64)
        labels = np.full((len(chosen), width), IGNORED, np.int64)
        for place, row in enumerate(chosen):
            start, length, prompt = self.rows.starts[row], lengths[place], self.rows.prompt_lengths[row]
            text = self.rows.tokens[start : start + length]
            ids[place, :length] = text
            labels[place, prompt:length] = text[prompt:]
        batch = {"input_ids": torch.from_numpy(ids), "labels": torch.from_numpy(labels)}
        if self.mask:
            batch["attention_mask"] = torch.from_numpy(np.arange(width) < lengths[:, None]).long()
        return batch


class Mixture(torch.utils.data.Sampler[int]):
    """Rows of one epoch: a share of each kind, drawn anew each epoch; in batches of similar length, in random order.

    The first batch is the longest, so that running out of memory shows at once. `epoch` returns the current epoch.
    """

    def __init__(
        self, rows: Rows, shares: Mapping[Kind, float], batch: int, seed: int, epoch: Callable[[], int]
    ) -> None:
        self.lengths, self.batch, self.seed, self.epoch = rows.lengths, batch, seed, epoch
        kinds = np.array(rows.kinds)
        self.pools = {kind: np.flatnonzero(kinds == kind) for kind in sorted(set(rows.kinds))}
        self.wanted = {kind: round(len(pool) * shares.get(kind, 1.0)) for kind, pool in self.pools.items()}

    def __len__(self) -> int:
        return sum(self.wanted.values())

    def __iter__(self) -> Iterator[int]:
        chance = np.random.default_rng((self.seed, self.epoch()))
        drawn = [_draw(pool, self.wanted[kind], chance) for kind, pool in self.pools.items()]
        rows = chance.permutation(np.concatenate(drawn))
        whole = len(rows) // self.batch * self.batch
        group = self.batch * LIKE
        batches: list[NDArray[np.int64]] = []
        for start in range(0, whole, group):
            part = rows[start : min(start + group, whole)]
            ordered = part[np.argsort(-self.lengths[part], kind="stable")]
            batches += np.split(ordered, len(ordered) // self.batch)
        order = chance.permutation(len(batches)).tolist()
        if order:
            longest = max(order, key=lambda number: int(self.lengths[batches[number]].max()))
            order.remove(longest)
            order.insert(0, longest)
        yield from (int(row) for number in order for row in batches[number])
        yield from rows[whole:].tolist()


def _draw(pool: NDArray[np.int64], wanted: int, chance: np.random.Generator) -> NDArray[np.int64]:
    """Draw `wanted` rows of `pool`, each about equally often (counts differ by at most one)."""
    rounds = [chance.permutation(pool) for _ in range(math.ceil(wanted / len(pool)))] if wanted else []
    return np.concatenate(rounds)[:wanted] if rounds else pool[:0]
