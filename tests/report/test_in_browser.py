"""The report in a real browser: no console error, no request, readable at desk and phone widths."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, find_browser

from kernelwright.report import build_report

PHONE, DESK = 390, 1280


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = find_browser()
    if executable is None:
        assert not os.environ.get("CI"), "CI needs a browser: apt-get install chromium"
        pytest.skip("no chromium or google-chrome on this machine: install one to test the report's looks")
    with Browser(executable) as running:
        yield running


@pytest.fixture(scope="module")
def report(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_report([run_folder], tmp_path_factory.mktemp("page") / "report.html")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [DESK, PHONE], ids=["desk", "phone"])
def test_opens_without_error_or_request(browser: Browser, report: Path, width: int, dark: bool) -> None:
    browser.open(report, width, dark=dark)
    browser.evaluate("document.querySelectorAll('.task').forEach((task) => { task.open = true; })")
    assert browser.problems == []
    assert browser.requests == []


@pytest.mark.parametrize("width", [DESK, PHONE], ids=["desk", "phone"])
def test_nothing_sticks_out_sideways(browser: Browser, report: Path, width: int) -> None:
    browser.open(report, width)
    browser.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert browser.evaluate("document.documentElement.scrollWidth") <= width


def test_key_parts_are_there(browser: Browser, report: Path) -> None:
    browser.open(report, DESK)
    counts = {
        selector: browser.evaluate(f"document.querySelectorAll({selector!r}).length")
        for selector in ("h1", "#tiles .tile", "#stages ~ .scroll tbody tr", "#bars .bar", ".chart", ".task")
    }
    assert counts == {
        "h1": 1,
        "#tiles .tile": 4,
        "#stages ~ .scroll tbody tr": 3,
        "#bars .bar": 3,
        ".chart": 5,
        ".task": 18,
    }


def test_hostile_kernel_stays_text(browser: Browser, report: Path) -> None:
    browser.open(report, DESK)
    assert browser.evaluate("document.title").startswith("Kernelwright report")
    assert browser.evaluate("document.querySelectorAll('img').length") == 0
    assert "onerror" in browser.evaluate(
        "document.querySelector('[data-search^=\"wright/softmax_0\"]').textContent"
    )


def test_search_narrows_the_table(browser: Browser, report: Path) -> None:
    browser.open(report, PHONE)
    browser.evaluate(
        "const box = document.getElementById('find'); box.value = 'rms_norm'; box.dispatchEvent(new Event('input'))"
    )
    assert browser.evaluate("document.querySelectorAll('.task:not([hidden])').length") == 3
    assert browser.evaluate("document.getElementById('count').textContent") == "3 of 18 tasks"


@pytest.mark.parametrize(("chosen", "value"), [("operator", "gelu"), ("dtype", "bfloat16")])
def test_tasks_are_filtered_by_what_they_are(browser: Browser, report: Path, chosen: str, value: str) -> None:
    browser.open(report, DESK)
    every = "Array.from(document.querySelectorAll('.task'))"
    wanted = browser.evaluate(f"{every}.filter((task) => task.innerText.includes('linear+gelu')).length")
    browser.evaluate(
        f"const box = document.getElementById({chosen!r}); box.value = {value!r}; box.dispatchEvent(new Event('change'))"
    )
    assert 0 < wanted < 18
    assert browser.evaluate(f"{every}.filter((task) => !task.hidden).length") == wanted


def test_task_unfolds_to_kernel_and_evidence(browser: Browser, report: Path) -> None:
    browser.open(report, PHONE)
    browser.evaluate("document.querySelectorAll('.task')[1].querySelector('summary').click()")
    shown = browser.evaluate("document.querySelectorAll('.task')[1].innerText")
    assert "softmax_kernel" in shown
    assert "Speedup over eager" in shown


def test_theme_can_be_switched(browser: Browser, report: Path) -> None:
    browser.open(report, DESK, dark=False)
    before = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    browser.evaluate("document.getElementById('theme').click()")
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") != before


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_contrast(browser: Browser, report: Path, theme: str) -> None:
    """WCAG AA: contrast of at least 4.5 between text and background, for the sheet's text colours."""
    browser.open(report, DESK, dark=theme == "dark")
    worst = browser.evaluate(
        """(() => {
          const css = getComputedStyle(document.documentElement);
          const light = (name) => {
            const hex = css.getPropertyValue(name).trim();
            const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
              .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          let worst = [99, ""];
          for (const paper of ["--paper", "--card", "--band"])
            for (const ink of ["--ink", "--soft", "--link", "--s0", "--s1", "--s2", "--s3", "--s4", "--s5",
                               "--k", "--str", "--com", "--num", "--api"]) {
              const [a, b] = [light(paper), light(ink)].sort((x, y) => y - x);
              const ratio = (a + 0.05) / (b + 0.05);
              if (ratio < worst[0]) worst = [ratio, `${ink} on ${paper}`];
            }
          return worst;
        })()"""
    )
    assert worst[0] >= 4.5, worst
