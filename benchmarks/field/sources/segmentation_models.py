"""Decoders of segmentation-models-pytorch over a small encoder, with random weights."""

from __future__ import annotations

from typing import Any

import segmentation_models_pytorch as smp
import torch

from field.sources import Build, image


def _model(name: str, **given: Any) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        encoder = given.pop("encoder_name", "resnet18")
        made = getattr(smp, name)(encoder_name=encoder, encoder_weights=None, classes=21, **given)
        return made, (image(128),), {}

    return build


_NAMES = (
    "Unet",
    "UnetPlusPlus",
    "FPN",
    "PSPNet",
    "PAN",
    "Linknet",
    "MAnet",
    "DeepLabV3",
    "DeepLabV3Plus",
    "UPerNet",
)

MODELS = {
    "segmentation_models_pytorch": {
        **{name: _model(name) for name in _NAMES},
        "Segformer": _model("Segformer", encoder_name="mit_b0"),
        "Unet_scse": _model("Unet", decoder_attention_type="scse"),
        "Unet_efficientnet": _model("Unet", encoder_name="efficientnet-b0"),
    }
}
