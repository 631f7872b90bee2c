"""Models of open_clip, with random weights."""

from __future__ import annotations

from typing import Any

import open_clip
import torch

from field.sources import Build, image, tokens


def _clip(name: str, size: int = 224) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        model = open_clip.create_model(name, pretrained=None, load_weights=False)
        length = getattr(model, "context_length", 77)
        return model, (image(size, 2), tokens(length)), {}

    return build


MODELS = {
    "open_clip": {
        "ViT-B-32": _clip("ViT-B-32"),
        "ViT-B-32-quickgelu": _clip("ViT-B-32-quickgelu"),
        "RN50": _clip("RN50"),
        "coca_ViT-B-32": _clip("coca_ViT-B-32"),
        "ViT-B-16-SigLIP": _clip("ViT-B-16-SigLIP"),
        "convnext_base": _clip("convnext_base"),
        "MobileCLIP-S1": _clip("MobileCLIP-S1", 256),
    }
}
