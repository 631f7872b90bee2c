"""Models of torchvision, with random weights."""

from __future__ import annotations

from typing import Any

import torch
import torchvision

from field.sources import Build, image

_IMAGE = (
    "resnet18", "resnet50", "resnext50_32x4d", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0",
    "efficientnet_v2_s", "convnext_tiny", "swin_t", "swin_v2_t", "vit_b_16", "maxvit_t", "regnet_y_400mf",
    "shufflenet_v2_x0_5", "squeezenet1_1", "densenet121", "mnasnet0_5",
)  # fmt: skip


def _named(name: str, *inputs: tuple[int, ...], **given: Any) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        model = torchvision.models.get_model(name, weights=None, **given)
        return model, tuple(torch.randn(shape) for shape in inputs), {}

    return build


def _plain(name: str, size: int = 224, **given: Any) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        return torchvision.models.get_model(name, weights=None, **given), (image(size),), {}

    return build


MODELS = {
    "torchvision": {
        **{name: _plain(name) for name in _IMAGE},
        "googlenet": _plain("googlenet", init_weights=False),
        "inception_v3": _plain("inception_v3", 299, init_weights=False),
        "deeplabv3": _plain("deeplabv3_mobilenet_v3_large", weights_backbone=None),
        "lraspp": _plain("lraspp_mobilenet_v3_large", weights_backbone=None),
        "fcn": _plain("fcn_resnet50", 128, weights_backbone=None),
        "r3d_18": _named("r3d_18", (1, 3, 8, 56, 56)),
        "r2plus1d_18": _named("r2plus1d_18", (1, 3, 8, 56, 56)),
        "s3d": _named("s3d", (1, 3, 16, 224, 224)),
        "swin3d_t": _named("swin3d_t", (1, 3, 8, 64, 64)),
        "mvit_v1_b": _named("mvit_v1_b", (1, 3, 16, 224, 224)),
    }
}
