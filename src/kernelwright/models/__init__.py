"""Where the package keeps the weights that come with it."""

from pathlib import Path

DEFAULT_FOLDER = Path(__file__).parent / "default"
"""The default model: safetensors, tokenizer, card."""


def place_of(spec: str) -> str:
    """`spec`, or for `default` the folder of the package's own model."""
    return str(DEFAULT_FOLDER) if spec == "default" else spec
