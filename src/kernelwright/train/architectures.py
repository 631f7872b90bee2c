"""Architectures of known hub models, so that `init = "random"` needs no download.

Only sizes, as their published configs state them; no weights and no tokenizers. What is not here is asked of the
hub. A fine-tuned model has the architecture of its base.
"""

from __future__ import annotations

from typing import Any

_QWEN3: dict[str, Any] = {
    "model_type": "qwen3",
    "vocab_size": 151_936,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40_960,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
    "tie_word_embeddings": False,
}


def _qwen3(hidden: int, layers: int, heads: int, intermediate: int, *, tied: bool = False) -> dict[str, Any]:
    return {
        **_QWEN3,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": intermediate,
        "tie_word_embeddings": tied,
    }


KNOWN: dict[str, dict[str, Any]] = {
    "Qwen/Qwen3-0.6B": _qwen3(1024, 28, 16, 3072, tied=True),
    "Qwen/Qwen3-1.7B": _qwen3(2048, 28, 16, 6144, tied=True),
    "Qwen/Qwen3-4B": _qwen3(2560, 36, 32, 9728, tied=True),
    "Qwen/Qwen3-8B": _qwen3(4096, 36, 32, 12_288),
    "Qwen/Qwen3-14B": _qwen3(5120, 40, 40, 17_408),
    "Qwen/Qwen3-32B": _qwen3(5120, 64, 64, 25_600),
    "Qwen/QwQ-32B": {
        "model_type": "qwen2",
        "vocab_size": 152_064,
        "hidden_size": 5120,
        "num_hidden_layers": 64,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "intermediate_size": 27_648,
        "max_position_embeddings": 40_960,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1_000_000.0},
        "tie_word_embeddings": False,
    },
    "ByteDance-Seed/Seed-Coder-8B-Reasoning": {
        "model_type": "llama",
        "vocab_size": 155_136,
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14_336,
        "max_position_embeddings": 65_536,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 5_000_000.0},
        "tie_word_embeddings": False,
    },
}
_BASES = {
    "Qwen/Qwen3-8B-Base": "Qwen/Qwen3-8B",
    "JinnP/Qwen3-8B-Kernelbook-SFT-HF": "Qwen/Qwen3-8B",
    "cognition-ai/Kevin-32B": "Qwen/QwQ-32B",
    "ai9stars/AutoTriton": "ByteDance-Seed/Seed-Coder-8B-Reasoning",
}


def known(name: str) -> dict[str, Any] | None:
    """The arguments of `AutoConfig.for_model` for a hub model, or None for one that is not in the table."""
    found = KNOWN.get(_BASES.get(name, name))
    return None if found is None else dict(found)
