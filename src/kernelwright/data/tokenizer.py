"""A byte-level BPE tokenizer trained on the corpus it will serve, for models trained from scratch.

Two kinds of token. Lines, and parts of lines between numbers, that a good share of the texts hold word for word
(imports, the grid, a launch up to its warps) are one token each: they say nothing, so they should cost nothing.
Everything else is cut into words, numbers and punctuation before merges are learned, so that an operator is the same
token wherever it stands, and a block size is one token that a model can copy and a reward can move. Tags such as `<plan>` are ordinary text, so decoding keeps them; only
padding and the end of a sequence are special. Any text can be encoded and comes back unchanged.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright.config import Cut, Style
from kernelwright.errors import UserError

PAD, END = "<|pad|>", "<|end|>"
_BREAKS = r"\d+\.\d+|\d+|[^\w\n]*\n+|[^\w\n]+|\w"
PIECES: dict[Cut, str] = {
    "words": rf"(?<=\n) +|^ +| ?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?:\(| =)?|{_BREAKS}",
    "names": rf"(?<=\n) +|^ +|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\(?|[A-Za-z]+\d*|{_BREAKS}",
}
"""Indentation; a dotted name with the bracket after it; a name; a number; punctuation. `words` are names with the space before and
the bracket or equals sign after them. `names` are cut at underscores, too, so that an operator is the same token in a graph, a plan,
a kernel's name and an expression: what a small model has to copy, it can."""
_LINE = re.compile(r"[^\n]*\n+|[^\n]+$")
_NUMBER = re.compile(r"(?<![\w.])([2-9]|\d\d+|\d+\.\d*[1-9]\d*)(?![\w.])")
"""A number that a writer is free to choose, such as a tile; not 0, 1, 0.0 or 1.0."""
_COMMON = 4
"""At most one in so many of the tokens that are learned is a stretch."""
_BOILERPLATE = 0.3
"""Share of the texts that hold a stretch, where names are tokens of their own: no line about an operator is as common."""
_SHORTEST = 5
"""Characters of the shortest stretch that is worth a token."""


def train_tokenizer(
    texts: Sequence[str],
    vocab_size: int,
    folder: Path | None = None,
    *,
    share: float = 0.08,
    style: Style = "compact",
    cut: Cut = "words",
) -> Any:
    """Learn at most `vocab_size` tokens (256 bytes and 2 specials among them); save to `folder` where given.

    `share` is the least share of `texts` that hold a stretch which becomes one token; `style` is how `texts` ask, and is
    kept with the tokenizer (`prompt_style`), so that a policy is asked as it was trained. Returns a
    `transformers.PreTrainedTokenizerFast` with `pad_token != eos_token`, left padding, no chat template: messages
    are joined by line ends. Raises UserError when `vocab_size` leaves no room for a merge.
    """
    room = vocab_size - 258
    if room <= 0:
        raise UserError(
            f"vocab_size {vocab_size} is too small: 256 bytes and 2 special tokens come first; use 512 or more"
        )
    least = share if cut == "words" else _BOILERPLATE
    common = dict(list(common_stretches(texts, least).items())[: room // _COMMON])
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES[cut]), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(common),
        min_frequency=3,
        special_tokens=[PAD, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    rare = (part for text in texts for part in stretches(text) if part not in common)
    tokenizer.train_from_iterator(rare, trainer)
    tokenizer.add_tokens([AddedToken(part, normalized=False, special=False) for part in common])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        prompt_style=style,
    )
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        wrapped.save_pretrained(str(folder))
    return wrapped


def stretches(text: str) -> list[str]:
    """The lines of a text, with the line ends after them, cut before and after every free number."""
    return [part for line in _LINE.findall(text) for part in _NUMBER.split(line) if part]


def common_stretches(texts: Sequence[str], share: float) -> dict[str, int]:
    """Stretches that at least `share` of the texts hold, and in how many; the most common first. Short ones are
    left to the words."""
    counts = Counter(part for text in texts for part in set(stretches(text)))
    least = max(2.0, share * len(texts))
    return {
        part: count
        for part, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        if count >= least and len(part.strip()) >= _SHORTEST and not _NUMBER.fullmatch(part)
    }
