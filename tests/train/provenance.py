"""The table of docs/recipes.md, made from the recipes' comments: `python tests/train/provenance.py` writes it."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "recipes.md"
NAMES = ("toronto", "autotriton", "tritonrl", "kevin", "drkernel", "drtriton")
SOURCES = {
    "report": "report",
    "paper": "paper",
    "recalled": "recalled",
    "trl": "TRL's default",
    "unknown": "unknown",
}
MARK = "<!-- tables -->\n"


def rows(name: str) -> list[tuple[str, str, str, str]]:
    """(key, value, source, note) of each value of a recipe. Raises ValueError for a value without a source."""
    made = []
    section = shared = ""
    for line in (ROOT / "recipes" / f"{name}.toml").read_text().splitlines():
        body, _, comment = line.partition("#")
        if header := re.match(r"\[(\w+)\]", body):
            section, shared = header[1] + ".", comment.strip()
        elif "=" in body and not line.startswith("#"):
            key, _, value = (part.strip() for part in body.partition("="))
            source, note = told(comment.strip() or shared, f"{name}: {section}{key}")
            made.append((section + key, value, source, note))
    return made


def told(comment: str, where: str) -> tuple[str, str]:
    if comment.startswith("ours"):
        return "ours", comment.removeprefix("ours").lstrip(": ")
    tag = re.match(r"\[(\w+)\]\s*(.*)", comment)
    if tag is None or tag[1] not in SOURCES:
        raise ValueError(f"{where} names no source")
    return SOURCES[tag[1]], tag[2]


def keys(name: str) -> set[str]:
    """The dotted keys of a recipe, as TOML reads it."""
    table = tomllib.loads((ROOT / "recipes" / f"{name}.toml").read_text())
    nested = {f"{k}.{inner}" for k, v in table.items() if isinstance(v, dict) for inner in v}
    return nested | {key for key, value in table.items() if not isinstance(value, dict)}


def tables() -> str:
    parts = []
    for name in NAMES:
        lines = [f"## {name}.toml\n", "| key | value | source | |", "|---|---|---|---|"]
        lines += [f"| `{key}` | `{value}` | {source} | {note} |" for key, value, source, note in rows(name)]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text().partition(MARK)[0] + MARK + "\n" + tables())
