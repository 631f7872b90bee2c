"""A byte-level BPE tokenizer trained on its corpus, for models trained from scratch.

There are two kinds of token. Lines, and parts of lines between numbers, that many texts share word for word (imports, the
grid, a launch up to its warps) become one token each, since they carry no information. All other text is split into words,
numbers and punctuation before merges are learned, so that an operator is the same token everywhere, and a block size is one
token that a model can copy and a reward can move. Tags such as `<plan>` are ordinary text, so decoding keeps them; only
padding and the end token are special. Any text can be encoded and decodes unchanged.
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
"""Regular expressions of indentation, dotted names with their bracket, names, numbers and punctuation. In `words`, names
include the space before and the bracket or equals sign after them. `names` also splits at underscores, so that an operator is
the same token in a graph, a plan, a kernel's name and an expression, and a small model can copy it."""
_LINE = re.compile(r"[^\n]*\n+|[^\n]+$")
_NUMBER = re.compile(r"(?<![\w.])([2-9]|\d\d+|\d+\.\d*[1-9]\d*)(?![\w.])")
"""A number that a writer can choose, such as a tile size; not 0, 1, 0.0 or 1.0."""
_COMMON = 4
"""At most one in this many learned tokens is a stretch."""
_BOILERPLATE = 0.3
"""Least share of texts with a stretch when `cut` is `names`: high enough to exclude lines about an operator."""
_SHORTEST = 5
"""Least characters of a stretch that becomes a token."""


def train_tokenizer(
    texts: Sequence[str],
    vocab_size: int,
    folder: Path | None = None,
    *,
    share: float = 0.08,
    style: Style = "compact",
    cut: Cut = "words",
) -> Any:
    """Train a tokenizer of at most `vocab_size` tokens (including 256 bytes and 2 specials); save it to `folder`, if given.

    `share`: least share of `texts` that contain a stretch for it to become one token. `style`: prompt style of `texts`, stored
    with the tokenizer (`prompt_style`), so that a policy is prompted as it was trained. Returns a
    `transformers.PreTrainedTokenizerFast` with `pad_token != eos_token`, left padding, no chat template: messages
    are joined by line ends. Raises UserError if `vocab_size` leaves no room for merges.
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
    """The lines of a text with their line ends, split before and after every free number."""
    return [part for line in _LINE.findall(text) for part in _NUMBER.split(line) if part]


def common_stretches(texts: Sequence[str], share: float) -> dict[str, int]:
    """Stretches that at least `share` of the texts contain, with the number of texts, most common first. Short ones are left
    out."""
    counts = Counter(part for text in texts for part in set(stretches(text)))
    least = max(2.0, share * len(texts))
    return {
        part: count
        for part, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        if count >= least and len(part.strip()) >= _SHORTEST and not _NUMBER.fullmatch(part)
    }
