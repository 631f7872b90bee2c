"""The tokenizer: any text round-trips, padding is not the end token, operators and numbers are tokens in any position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.data.problems import problem
from kernelwright.data.settings import CorpusSettings
from kernelwright.data.tokenizer import END, PAD, common_stretches, stretches, train_tokenizer
from kernelwright.errors import UserError
from kernelwright.graph.text import to_text

SHARE = 0.25
"""With so few texts, the default would also share lines with operators."""


@pytest.fixture(scope="module")
def texts() -> list[str]:
    settings = CorpusSettings(forms=("map", "row"), most_operators=3, schedules=2, faults=0)
    made = [problem(settings, number) for number in range(12)]
    return [f"{to_text(one.graph)}\n{answer.plan}\n{answer.code}" for one in made for answer in one.answers]


@pytest.fixture(scope="module")
def tokenizer(texts: list[str]) -> Any:
    return train_tokenizer(texts, 1024, share=SHARE)


def pieces(tokenizer: Any, text: str) -> list[str]:
    return [tokenizer.decode([token]) for token in tokenizer(text)["input_ids"]]


def test_every_text_of_the_corpus_comes_back(tokenizer: Any, texts: list[str]) -> None:
    for text in texts:
        ids = tokenizer(text)["input_ids"]
        assert tokenizer.decode(ids) == text == tokenizer.decode(ids, skip_special_tokens=True)


@settings(max_examples=200, deadline=None)
@given(text=st.text())
def test_any_text_comes_back(tokenizer: Any, text: str) -> None:
    if PAD not in text and END not in text:
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_padding_is_not_the_end_and_both_are_special(tokenizer: Any) -> None:
    assert tokenizer.pad_token_id != tokenizer.eos_token_id
    assert tokenizer.padding_side == "left"
    assert tokenizer.decode([tokenizer.pad_token_id, tokenizer.eos_token_id], skip_special_tokens=True) == ""
    assert tokenizer("x")["input_ids"][-1] != tokenizer.eos_token_id
    assert tokenizer.chat_template is None


def test_a_saved_tokenizer_is_the_same(tokenizer: Any, texts: list[str], tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    saved = train_tokenizer(texts, 1024, tmp_path, share=SHARE)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert [loaded(text)["input_ids"] for text in texts] == [saved(text)["input_ids"] for text in texts]
    assert (loaded.pad_token, loaded.eos_token, loaded.padding_side) == (PAD, END, "left")


def test_numbers_that_a_writer_chooses_are_single_tokens(tokenizer: Any) -> None:
    launch = "    relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024, num_warps=8)\n"
    assert "8" in pieces(tokenizer, launch)
    assert pieces(tokenizer, launch).count("1024") == 2


def test_cut_at_names_an_operator_is_the_same_token_wherever_it_stands() -> None:
    names = ("tanh", "exp", "neg", "relu", "abs")
    learned = [
        f"{one}: f32 = {one}(x)\n{other}: f32 = {other}({one})\ndef {one}_{other}_kernel({one}_ptr):\n"
        for one in names
        for other in names
    ]
    tokenizer = train_tokenizer(learned, 500, cut="names")
    for text in ("tanh: f32", " = tanh(x)", "exp_tanh_kernel(", " + tanh\n"):
        assert "tanh" in pieces(tokenizer, text)


def test_boilerplate_is_one_token_a_line(tokenizer: Any) -> None:
    assert len(pieces(tokenizer, "import torch\nimport triton\nimport triton.language as tl\n\n\n")) == 3


def test_stretches_are_lines_cut_at_free_numbers() -> None:
    assert stretches("a, num_warps=8)\n\nb[:, 0] + 1.0 + h200\n") == [
        "a, num_warps=",
        "8",
        ")\n\n",
        "b[:, 0] + 1.0 + h200\n",
    ]
    assert common_stretches(["import torch\nx\n"] * 4 + ["y\n"], 0.5) == {"import torch\n": 4}


def test_training_is_deterministic(texts: list[str], tokenizer: Any) -> None:
    assert train_tokenizer(texts, 1024, share=SHARE).get_vocab() == tokenizer.get_vocab()


def test_a_vocabulary_without_room_is_one_line(texts: list[str]) -> None:
    with pytest.raises(UserError, match=r"vocab_size 258 is too small: .*use 512 or more"):
        train_tokenizer(texts, 258)
