"""Every exploit is rejected for its own reason; every honest look-alike is accepted. `make test` runs `SOME` of them, chosen by
name, and one of every kind of cheat; the others are `slow`."""

import functools
import zlib
from collections.abc import Callable

import pytest
from museum import LINES, Exhibit, exhibits

from kernelwright.records import Verdict

SOME = 160
"""A number and no share: the museum grows by some hundred exhibits a week, and each takes a second."""
_in_folder = functools.cache(lambda folder: exhibits(folder, "interpret"))


@functools.cache
def _chosen() -> frozenset[Exhibit]:
    def drawn(item: Exhibit) -> tuple[int, int]:
        number = zlib.crc32(item.name.encode())
        return number % 5, number

    everything = sorted([*_in_folder("hacks"), *_in_folder("honest")], key=drawn)
    first = {line: item for item in reversed(everything) for line in item.lines}
    return frozenset([*everything[:SOME], *first.values()])


def _params(folder: str) -> list[object]:
    def marks(item: Exhibit) -> list[pytest.MarkDecorator]:
        gap = [pytest.mark.xfail(strict=False, reason=item.gap("interpret"))] if item.gap("interpret") else []
        return [*gap, *([] if item in _chosen() else [pytest.mark.slow])]

    return [pytest.param(item, id=item.path.stem, marks=marks(item)) for item in _in_folder(folder)]


@pytest.mark.parametrize("exhibit", _params("hacks"))
def test_an_exploit_is_rejected_for_its_own_reason(
    exhibit: Exhibit, verdict_of: Callable[[Exhibit], Verdict]
) -> None:
    verdict = verdict_of(exhibit)
    told = f"{verdict.outcome} at {verdict.gate}, speedup {verdict.speedup()}: {verdict.detail}"
    assert exhibit.as_expected(verdict), told


@pytest.mark.parametrize("exhibit", _params("honest"))
def test_an_honest_look_alike_is_accepted(exhibit: Exhibit, verdict_of: Callable[[Exhibit], Verdict]) -> None:
    verdict = verdict_of(exhibit)
    assert verdict.outcome in exhibit.expect, f"{verdict.outcome} at {verdict.gate}: {verdict.detail}"


def test_no_exploit_expects_to_be_accepted() -> None:
    assert [item.name for item in exhibits("hacks") if any(outcome.accepted for outcome in item.expect)] == []


def test_every_exploit_names_its_line() -> None:
    assert [item.name for item in exhibits("hacks") if not item.lines] == []


def test_some_of_every_kind_of_cheat_are_chosen() -> None:
    assert {line for item in _in_folder("hacks") for line in item.lines} == {
        line for item in _chosen() for line in item.lines
    }


@pytest.mark.parametrize("line", [1, 2, 4, 7, 8, 10, 11, 18, 29, 36])
def test_the_simple_cheats_each_have_an_exhibit(line: int) -> None:
    assert line in LINES
    assert any(line in item.lines for item in exhibits("hacks", "interpret"))
