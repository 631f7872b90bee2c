"""README and docs match this version: commands exist, files exist, figures have a command."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from kernelwright.cli import main
from kernelwright.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": (ROOT / "README.md").read_text("utf-8")} | {
    str(path.relative_to(ROOT / "docs")): path.read_text("utf-8")
    for folder in ("docs", "docs/runs")
    for path in sorted((ROOT / folder).glob("*.md"))
}
README = PAGES["README.md"]
LINK = re.compile(r"\]\(([^)#\s]+\.md)")
MAKE = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))


def _commands() -> list[tuple[str, str]]:
    """(page, command) of every line that begins with a command, continued lines joined, comments and optional parts removed."""
    found = []
    for page, text in PAGES.items():
        joined = re.sub(r"\\\n\s*", "", text)
        for line in re.findall(
            r"^ {4,8}((?:kernelwright|python benchmarks|python tests|make) .*)$", joined, re.M
        ):
            found.append((page, re.sub(r"\[[^\]]*\]", "", line.split("  #")[0]).strip()))
    return found


def _rows() -> list[tuple[str, str]]:
    """(figure, command) of every row of the results page's tables whose last column is a command."""
    found, command, traced = [], "", False
    for line in PAGES["results.md"].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            traced = False
        elif cells[-1] == "command":
            traced = True
        elif traced and not set(line) <= set("|- "):
            command = command if cells[-1] == "the same" else cells[-1].strip("`")
            found.append((cells[0], command))
    return found


def _parse(command: Any, name: str, arguments: list[str]) -> None:
    """Parse a command line down to its last subcommand; raises what the user would see."""
    if hasattr(command, "commands"):
        _parse(command.commands[arguments[0]], arguments[0], arguments[1:])
    else:
        command.make_context(name, list(arguments))


def _is_one(line: str) -> None:
    """Assert that a line of shell names an existing command, script or target."""
    name, *arguments = shlex.split(line)
    if name == "kernelwright":
        _parse(typer.main.get_command(app), name, arguments)
    elif name == "make":
        assert set(arguments) <= MAKE, line
    else:
        assert name == "python", line
        assert (ROOT / arguments[0]).is_file(), line


def test_there_are_commands_and_figures() -> None:
    assert len(_commands()) > 20
    assert len(_rows()) > 15


@pytest.mark.parametrize(("page", "line"), _commands())
def test_a_printed_command_is_one(page: str, line: str) -> None:
    _is_one(line)


@pytest.mark.parametrize(("what", "command"), _rows())
def test_a_figure_has_its_command(what: str, command: str) -> None:
    _is_one(command)


def test_every_results_table_has_commands() -> None:
    """Either a column of commands, or one in the paragraph above."""
    for part in PAGES["results.md"].split("\n## ")[1:]:
        assert re.search(r"`(?:kernelwright|python|make) |\| command \|", part), part.splitlines()[0]


def test_the_results_are_five_tables_of_short_cells() -> None:
    page = PAGES["results.md"]
    assert page.count("\n## ") == 5
    assert len(page.splitlines()) <= 80
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    cells = [cell.strip() for row in rows for cell in row.strip("|").split("|")]
    assert [cell for cell in cells if not cell.startswith("`") and len(cell.split()) > 8] == []


@pytest.mark.parametrize(
    ("page", "name"),
    sorted(
        {
            (page, name)
            for page, text in PAGES.items()
            for name in re.findall(r"(?:examples|recipes|src|tests)/[\w/.]+\w", text)
        }
    ),
)
def test_a_named_file_is_there(page: str, name: str) -> None:
    assert (ROOT / name).exists()


SOUGHT = {
    "optimize.md": "# Optimising a module",
    "judge.md": "# How the judge works",
    "extend.md": "## An operator",
}


@pytest.mark.parametrize("page", SOUGHT)
@pytest.mark.parametrize("start", ["README.md", "index.md"])
def test_what_readers_look_for_is_two_clicks_away(start: str, page: str) -> None:
    near = {Path(link).name for link in LINK.findall(PAGES[start])}
    further = {Path(link).name for name in near & set(PAGES) for link in LINK.findall(PAGES[name])}
    assert page in near | further
    assert SOUGHT[page] in PAGES[page].splitlines()


def test_the_readme_shows_what_verify_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    shown = README[README.index("    correct  file/") :].split("\n\n")[0]

    def without_figures(text: str) -> list[str]:
        """Lines without figures that are counted, timed or modelled; launches stay complete."""
        lines = [line.strip() for line in text.strip().splitlines()]
        return [line if line.startswith("launch") else re.sub(r"\d[\d.]*", "N", line) for line in lines]

    command = next(line for page, line in _commands() if page == "README.md" and " verify " in line)
    assert main(shlex.split(command)[1:]) == 0
    assert without_figures(capsys.readouterr().out) == without_figures(shown)
