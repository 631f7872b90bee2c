"""The card: what a corpus has, and what it is short of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernelwright.cli import main
from kernelwright.data.bulk import card


def found(**changes: Any) -> dict[str, Any]:
    """A card that meets every aim, but for `changes`."""
    lengths = {"median": 400, "p95": 1200, "max": 2048}
    return {
        "examples": 2707,
        "coverage": {name: {"one": 250, "two": 50} for name in card.LEVEL_1} | {"fusion": {"three": 7}},
        "heard": {
            "families: correct": 97,
            "families: wrong_value": 3,
            "inductor: correct": 8,
            "inductor: out_of_resources": 2,
            "mutant: correct": 4,
            "problems: families": 50,
            "dropped: no gain": 12,
            "library: unsupported": 5,
        },
        "tokens": {"translate": lengths, "all": lengths},
        **changes,
    }


def test_acceptance_counts_kernels_that_were_heard() -> None:
    rows = {row.teacher: row for row in card.acceptance(found())}
    assert set(rows) == {"families", "inductor"}
    assert rows["families"].heard == 100
    assert rows["families"].share == 0.97
    assert rows["inductor"].causes == (("out_of_resources", 2),)
    assert card.short(found()) == []


def test_a_corpus_is_short_of_pairs_acceptance_and_room() -> None:
    coverage = {name: {"one": 300} for name in card.LEVEL_1 if name != "scan"} | {"pooling": {"one": 299}}
    heard = {"families: correct": 94, "families: wrong_value": 6, "given: correct": 1}
    lengths = {"median": 900, "p95": 1900, "max": 2049}
    assert card.short(found(coverage=coverage, heard=heard, tokens={"all": lengths})) == [
        "pooling: 299 of 300 pairs",
        "scan: 0 of 300 pairs",
        "families: 94.0% accepted at first try, 95% wanted",
        "tokens: an example of 2049, 2048 allowed",
        "tokens: median 900, under 900 wanted",
    ]


def test_practice_alone_is_short_of_nothing() -> None:
    assert card.short(found(examples=0, coverage={}, heard={})) == []


def test_it_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "card.json").write_text(json.dumps(found()))
    assert main(["data", "show", str(tmp_path)]) == 0
    assert "all met" in capsys.readouterr().out
    (tmp_path / "card.json").write_text(json.dumps(found(heard={"inductor: wrong_value": 1})))
    assert main(["data", "show", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "inductor: 0.0% accepted at first try, 80% wanted" in shown
    assert "wrong_value 1" in shown
