"""A corpus small enough to make in a second."""

import pytest

from kernelwright.data import CorpusConfig

SMALL = {
    "seed": 2,
    "train_graphs": 6,
    "validation_graphs": 2,
    "heldout_graphs": 3,
    "practice_graphs": 5,
    "variants": 3,
    "improve": 1,
    "improve_share": 1.0,
    "repair": 3,
    "golds": 3,
    "vocab_size": 600,
    "max_tokens": 0,
}


@pytest.fixture
def config() -> CorpusConfig:
    return CorpusConfig.parse(dict(SMALL))
