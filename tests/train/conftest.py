"""Data and a recipe for training runs of seconds."""

import os
from pathlib import Path

import pytest
from tiny import examples, make_recipe

from kernelwright import prompts
from kernelwright.config import Recipe
from kernelwright.data.tokenizer import train_tokenizer
from kernelwright.records import write_jsonl

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out this folder's slow tests unless `-m slow` asks for them."""
    if "slow" not in config.getoption("-m"):
        for item in items:
            if item.get_closest_marker("slow") and Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="slow: ask for it with -m slow"))


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with examples.jsonl and a tokenizer."""
    folder = tmp_path_factory.mktemp("data")
    write_jsonl(folder / "examples.jsonl", examples())
    texts = [prompts.completion_text(e.plan, e.code) for e in examples()] * 4
    train_tokenizer(
        [*texts, "<task>\n# a\n</task>\n", "<kernel>\n</kernel>\n"] * 4, 400, folder / "tokenizer"
    )
    return folder


@pytest.fixture
def recipe(data: Path) -> Recipe:
    return make_recipe(data)
