"""Networks of monai, with random weights, on small images and volumes."""

from __future__ import annotations

from typing import Any

import torch
from monai.networks import nets

from field.sources import Build


def _net(name: str, shape: tuple[int, ...], *more: Any, **given: Any) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        return getattr(nets, name)(**given), (torch.randn(shape), *more), {}

    return build


_two = {"spatial_dims": 2, "in_channels": 1, "out_channels": 2}
_three = {"spatial_dims": 3, "in_channels": 1, "out_channels": 2}
_flat, _deep = (1, 1, 96, 96), (1, 1, 64, 64, 64)

MODELS = {
    "monai": {
        "UNet": _net("UNet", _flat, channels=(16, 32, 64, 128), strides=(2, 2, 2), num_res_units=2, **_two),
        "BasicUNet": _net("BasicUNet", (1, 1, 32, 32, 32), **_three),
        "BasicUNetPlusPlus": _net("BasicUNetPlusPlus", _flat, **_two),
        "AttentionUnet": _net("AttentionUnet", _flat, channels=(16, 32, 64), strides=(2, 2), **_two),
        "SegResNet": _net("SegResNet", (1, 1, 32, 32, 32), **_three),
        "VNet": _net("VNet", (1, 1, 32, 32, 32), **_three),
        "UNETR": _net("UNETR", _flat, img_size=(96, 96), feature_size=16, **_two),
        "SwinUNETR": _net("SwinUNETR", (1, 1, 96, 96), feature_size=24, **_two),
        "DynUNet": _net(
            "DynUNet", _flat, kernel_size=[3, 3, 3], strides=[1, 2, 2], upsample_kernel_size=[2, 2], res_block=True, **_two
        ),
        "HighResNet": _net("HighResNet", (1, 1, 24, 24, 24), **_three),
        "DenseNet121": _net("DenseNet121", _flat, **_two),
        "EfficientNetBN": _net(
            "EfficientNetBN", _flat, model_name="efficientnet-b0", pretrained=False, spatial_dims=2, in_channels=1
        ),
        "SEResNet50": _net("SEResNet50", _flat, spatial_dims=2, in_channels=1, num_classes=2),
        "ViT": _net(
            "ViT", _deep, in_channels=1, img_size=(64, 64, 64), patch_size=(16, 16, 16), num_layers=2, spatial_dims=3
        ),
        "AutoencoderKL": _net(
            "AutoencoderKL", (1, 1, 64, 64), channels=(64, 128, 128), latent_channels=4, num_res_blocks=(1, 1, 1),
            attention_levels=(False, False, True), **{**_two, "out_channels": 1},
        ),
        "DiffusionModelUNet": _net(
            "DiffusionModelUNet", (1, 1, 32, 32), torch.tensor([7]), channels=(64, 128, 128), num_head_channels=64,
            num_res_blocks=1, attention_levels=(False, True, True), **{**_two, "out_channels": 1},
        ),
    }
}  # fmt: skip
