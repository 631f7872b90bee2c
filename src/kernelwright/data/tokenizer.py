"""A byte-level BPE tokenizer trained on the corpus it will serve, for models trained from scratch.

Text is cut into lines, and numbers within them, before merges are learned: a common line of a kernel, indentation
and line end included, becomes one token, while block sizes and constants stay tokens of their own that a model can
copy and a reward can move. Tags such as `<plan>` are ordinary text, so decoding keeps them; only padding and the end
of a sequence are special. Any text can be encoded and comes back unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kernelwright.errors import UserError

PAD, END = "<|pad|>", "<|end|>"
PIECES = r"(?<==)\d+(?![.\d])|(?<== )\d+(?![.\d])|(?:(?!=\d+[^.\d]|= \d+[^.\d])[^\n])*(?:\n+|= ?(?=\d)|$)"
"""A whole number after `=`; a stretch of a line up to such a number, or to its end with the line ends."""


def train_tokenizer(
    texts: Iterable[str], vocab_size: int, folder: Path | None = None, min_frequency: int = 3
) -> Any:
    """Learn at most `vocab_size` tokens (256 bytes and 2 specials among them); save to `folder` where given.

    Returns a `transformers.PreTrainedTokenizerFast` with `pad_token != eos_token`, left padding, no chat template:
    messages are joined by line ends. Raises UserError when `vocab_size` leaves no room for a merge.
    """
    if vocab_size <= 258:
        raise UserError(
            f"vocab_size {vocab_size} is too small: 256 bytes and 2 special tokens come first; use 512 or more"
        )
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=[PAD, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        wrapped.save_pretrained(str(folder))
    return wrapped
