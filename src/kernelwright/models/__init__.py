"""Where the package keeps the weights that come with it."""

from pathlib import Path

DEFAULT_FOLDER = Path(__file__).parent / "default"
"""The default model: safetensors, tokenizer, card."""
