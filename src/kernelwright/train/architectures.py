"""Architectures of known models of the Hugging Face hub, so that `init = "random"` needs no download.

Only sizes (`architectures.toml`), no weights or tokenizers. Other models are looked up on the hub. A fine-tuned model
has the architecture of its base.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
KNOWN: dict[str, list[Any]] = _TABLES["models"]
_COLUMNS = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")


def known_architecture(name: str) -> dict[str, Any] | None:
    """The arguments of `AutoConfig.for_model` for a hub model; None if the table lacks it."""
    row = KNOWN.get(_TABLES["bases"].get(name, name))
    if row is None:
        return None
    family, *sizes = row[:5]
    found = _TABLES["families"][family] | dict(zip(_COLUMNS, sizes, strict=True))
    return found | {"tie_word_embeddings": "tied" in row}
