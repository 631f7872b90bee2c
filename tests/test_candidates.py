"""Candidates: plain completions are parsed, malformed ones get the right problem, and no text raises."""

import ast
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.candidates import parse
from kernelwright.candidates.code import MAX_CODE
from kernelwright.outcomes import Outcome
from kernelwright.prompts import completion_text
from kernelwright.records import Candidate

FOLDER = Path(__file__).parent / "fixtures" / "completions"
EXPECTED = tomllib.loads((FOLDER / "expected.toml").read_text("utf-8"))
KINDS = {Outcome.EMPTY_COMPLETION, Outcome.TRUNCATED, Outcome.NO_CODE, Outcome.SYNTAX_ERROR}


def fixture(kind: str, name: str) -> str:
    return (FOLDER / kind / f"{name}.txt").read_bytes().decode("utf-8")


CANONICAL = fixture("good", "canonical")
KERNEL = CANONICAL.split("```python\n")[1].removesuffix("\n```")


def read(kind: str, name: str) -> tuple[str, Candidate, dict[str, Any]]:
    text, expected = fixture(kind, name), EXPECTED[kind][name]
    return text, parse(text, list(text), expected.get("finish", "stop")), expected


def test_every_fixture_has_its_expectation() -> None:
    for kind, table in EXPECTED.items():
        assert sorted(path.stem for path in (FOLDER / kind).glob("*.txt")) == sorted(table)


@pytest.mark.parametrize("name", EXPECTED["good"])
def test_good_completion(name: str) -> None:
    text, candidate, expected = read("good", name)
    assert candidate.problem is None
    assert candidate.plan.startswith(expected.get("plan", ""))
    assert bool(candidate.plan) == bool(expected.get("plan"))
    if expected.get("code", "kernel") == "kernel":
        assert candidate.code == KERNEL
    else:
        assert expected["holds"] in candidate.code.splitlines()
        ast.parse(candidate.code)
    assert candidate.code_span is not None
    assert candidate.code.splitlines()[0] in text[slice(*candidate.code_span)]
    assert candidate.code.splitlines()[-1] in text[slice(*candidate.code_span)]
    if candidate.plan:
        assert candidate.plan_span is not None
        assert text[slice(*candidate.plan_span)].replace("\r\n", "\n") == candidate.plan


@pytest.mark.parametrize("name", EXPECTED["malformed"])
def test_malformed_completion(name: str) -> None:
    _, candidate, expected = read("malformed", name)
    assert candidate.problem == expected["problem"]
    assert candidate.detail.startswith(expected.get("detail", ""))
    assert candidate.detail
    assert candidate.plan == expected.get("plan", "")
    match expected.get("code"):
        case None:
            assert candidate.code == ""
        case "kernel":
            assert candidate.code == KERNEL
        case _:
            assert expected["holds"] in candidate.code.splitlines()


def test_the_canonical_form_of_an_honest_kernel_is_read_back() -> None:
    for path in sorted((Path(__file__).parent / "honest").glob("*.py"))[::10]:
        code = path.read_text("utf-8")
        candidate = parse(completion_text("a plan\nof two lines", code))
        assert (candidate.plan, candidate.code) == ("a plan\nof two lines", code.strip())


# -- several blocks


def test_a_restated_reference_is_no_part_of_a_joined_candidate() -> None:
    assert "class Model(" not in parse(fixture("good", "split_in_two")).code


def test_the_last_of_two_complete_blocks_wins() -> None:
    other = KERNEL.replace("double_kernel", "twice_kernel")
    assert parse(f"```python\n{KERNEL}\n```\nor\n```python\n{other}\n```\n").code == other


def test_a_complete_block_in_a_closed_plan_yields_to_one_outside_of_it() -> None:
    other = KERNEL.replace("double_kernel", "twice_kernel")
    text = f"```python\n{KERNEL}\n```\n<plan>\n```python\n{other}\n```\n</plan>"
    assert parse(text).code == KERNEL


def test_the_earlier_of_two_blocks_stands_when_the_second_is_cut_off() -> None:
    text = f"```python\n{KERNEL}\n```\nBetter:\n```python\n{KERNEL[:100]}"
    assert parse(text, finish_reason="length").code == KERNEL


# -- token spans


def test_spans_count_tokens() -> None:
    pieces = [
        "<plan>",
        "\n",
        "one pass",
        "\n",
        "</plan>",
        "\n",
        "```",
        "python",
        "\n",
        "import",
        " torch",
        "\n```",
    ]
    candidate = parse("".join(pieces), pieces)
    assert candidate.plan_span == (2, 3)
    assert candidate.code_span == (9, 12)  # the token that holds the last line end also holds the fence


def test_a_token_on_the_border_of_plan_and_code_is_the_codes() -> None:
    pieces = ["Add", " it.\n```py\nimport", " torch\n", "```"]
    candidate = parse("".join(pieces), pieces)
    assert (candidate.plan_span, candidate.code_span) == ((0, 1), (1, 3))


def test_tokens_without_text_go_with_the_character_they_begin() -> None:
    pieces = ["<plan>", "", "", "é", "</plan>", "\n```\n", "", "import é", "\n", "```", ""]
    candidate = parse("".join(pieces), pieces)
    assert (candidate.plan_span, candidate.code_span) == ((1, 4), (6, 9))


def test_pieces_of_another_text_give_no_spans() -> None:
    candidate = parse(CANONICAL, [*CANONICAL, "!"])
    assert (candidate.problem, candidate.plan_span, candidate.code_span) == (None, None, None)


@given(st.data())
def test_however_the_text_is_cut_into_tokens_the_spans_hold_plan_and_code(data: st.DataObject) -> None:
    kind = data.draw(
        st.sampled_from(["canonical", "crlf", "think_with_draft", "open_fence", "plan_after_code"])
    )
    text = fixture("good", kind)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=60)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    candidate = parse(text, pieces)
    assert candidate.code_span is not None
    held = "".join(pieces[slice(*candidate.code_span)]).replace("\r\n", "\n")
    assert candidate.code in held
    if candidate.plan_span is not None:
        assert disjoint(candidate.plan_span, candidate.code_span)


# -- no text raises

FRAGMENTS = st.sampled_from(
    [
        "<plan>", "</plan>", "<think>", "</think>", "<THINKING>", "```", "```python", "~~~~", "````", "\n", "\r", "\r\n", "\t",
        "    ", "\ufeff", "\0", "\ud800", "\udfff", "é", "🙂", "import torch", "@triton.jit", "class ModelNew:", "class Model(",
        "def f(x):", "return x", "pass", "it's", '"""', "(", ")", "}", "\\", "x = 1", "#", "\x0c", "\u2028", KERNEL, CANONICAL,
    ]
)  # fmt: skip
ANYTHING = st.one_of(
    st.text(st.characters(codec=None), max_size=200),
    st.lists(st.one_of(FRAGMENTS, st.text(max_size=5)), max_size=40).map("".join),
)
FINISH = st.sampled_from(["stop", "length", "error", "?"])


def disjoint(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[1] <= b[0] or b[1] <= a[0]


def check(text: str, pieces: list[str], finish: str) -> Candidate:
    """Parse, and check what holds for every candidate."""
    candidate = parse(text, pieces, finish)
    assert candidate.problem is None or (candidate.problem in KINDS and candidate.detail)
    if candidate.problem is None:
        ast.parse(candidate.code)
    for span in (candidate.plan_span, candidate.code_span):
        assert span is None or 0 <= span[0] < span[1] <= len(pieces)
    if candidate.plan_span and candidate.code_span:
        assert disjoint(candidate.plan_span, candidate.code_span)
    assert Candidate.model_validate_json(candidate.model_dump_json()) == candidate
    assert len(candidate.digest) == 16
    return candidate


@given(ANYTHING, FINISH)
def test_any_text(text: str, finish: str) -> None:
    check(text, list(text), finish)


@given(ANYTHING, st.lists(ANYTHING, max_size=5), FINISH)
def test_any_pieces(text: str, pieces: list[str], finish: str) -> None:
    check(text, pieces, finish)
    check("".join(pieces), pieces, finish)


@given(st.sampled_from(sorted(EXPECTED["good"])), st.data(), FINISH)
def test_mutations_of_good_completions(name: str, data: st.DataObject, finish: str) -> None:
    text = fixture("good", name)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        length = data.draw(st.integers(0, 30))
        text = text[:start] + data.draw(st.one_of(FRAGMENTS, st.text(max_size=3))) + text[start + length :]
    check(text, list(text), finish)


@given(st.integers(0, len(CANONICAL) - 4))
def test_no_beginning_of_a_completion_is_taken_for_the_whole(end: int) -> None:
    expected = Outcome.TRUNCATED if end else Outcome.EMPTY_COMPLETION
    assert parse(CANONICAL[:end], finish_reason="length").problem is expected


@given(ANYTHING, ANYTHING)
def test_code_never_comes_from_a_thought(before: str, after: str) -> None:
    thought = "```python\nSECRET = 1\n```\nimport SECRET\n" + KERNEL.replace("double_kernel", "SECRET")
    tags = ("<think", "</think", "```", "~~~")
    if not any(tag in part.lower() for tag in tags for part in (before, after)):
        assert "SECRET" not in parse(f"{before}<think>{thought}</think>{after}").code


HOSTILE = {
    "brackets": "(" * 100_000,
    "signs": "x = " + "-" * 100_000 + "1",
    "sum": "x = " + "1+" * 100_000 + "1",
    "attributes": "x" + ".a" * 100_000,
    "calls": "f" + "()" * 100_000,
    "branches": "if a:\n pass\n" + "elif a:\n pass\n" * 10_000,
    "digits": "x = " + "9" * 10_000,
    "f-string": 'f"' + "{" * 3_000,
    "surrogate": "x = '\ud800'",
    "escape": "x = '\\N{nothing}'",
    "coding": "# coding: latin-99\nx = 1",
    "huge": "x = 1\n" * (MAX_CODE // 6 + 1),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_code_that_breaks_parsers(name: str) -> None:
    text = f"```python\n{HOSTILE[name]}\n```"
    candidate = check(text, [text], "stop")
    assert candidate.problem in (None, Outcome.SYNTAX_ERROR)


@pytest.mark.parametrize(
    "text",
    [
        "```\n" * 60_000,
        "`" * 200_000,
        "<think></think>" * 20_000,
        "<plan>" * 30_000,
        "import a" + " " * 200_000 + "x",
        "import torch\n@triton.jit\nclass ModelNew:\n it's\n<plan></plan>" * 4_000,
    ],
    ids=["fences", "ticks", "thoughts", "plans", "spaces", "beginnings"],
)
def test_long_texts_take_no_long_time(text: str) -> None:
    began = time.process_time()
    check(text, [text], "stop")
    assert time.process_time() - began < 5


def test_no_warning_escapes(recwarn: pytest.WarningsRecorder) -> None:
    assert parse("```python\nx = '\\d'\n```").problem is None
    assert not recwarn.list
