"""Models to harvest, by package: `SOURCES["timm"]["vit_tiny_patch16_224"]()` is (model, args, kwargs).

Widths, heads, kernels and vocabularies are those of published configurations; only the number of layers, the batch and
the size of images or sequences are small. No weights are loaded.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from kernelwright.errors import UserError

MEASUREMENT_ONLY = ("transformers", "torchvision", "monai", "open_clip")
PACKAGES = {
    "transformers": "transformers_models",
    "torchvision": "torchvision_models",
    "monai": "monai_models",
    "open_clip": "open_clip_models",
    "timm": "timm_models",
    "diffusers": "diffusers_models",
    "x_transformers": "lucid_models",
    "vit_pytorch": "lucid_models",
    "conformer": "lucid_models",
    "perceiver_pytorch": "lucid_models",
    "segmentation_models_pytorch": "segmentation_models",
    "mambapy": "small_models",
    "rtdl_revisiting_models": "small_models",
    "torch_geometric": "small_models",
}
"""Packages and the file of this folder that has their models."""

Build = Callable[[], tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]]


@dataclass(frozen=True)
class Source:
    """One model of a package."""

    package: str
    name: str
    build: Build = field(repr=False)
    whole: bool = False
    """Whether the model itself is a layer, and harvested too."""


def sources(package: str) -> dict[str, Source]:
    """The package's models by name. Raises UserError for a package that is not one of `PACKAGES` or not installed."""
    if package not in PACKAGES:
        raise UserError(f"no package {package!r} in the field suite; one of {', '.join(PACKAGES)}")
    declare_vision_operators()
    try:
        import_module(package)
    except ImportError as error:
        raise UserError(
            f"{package} cannot be imported ({error}); benchmarks/field/__init__.py says how to install it"
        ) from None
    table: Mapping[str, Mapping[str, Build]] = import_module(f"field.sources.{PACKAGES[package]}").MODELS
    whole = package in ("torch_geometric", "conformer", "rtdl_revisiting_models")
    return {name: Source(package, name, build, whole) for name, build in table[package].items()}


def declare_vision_operators() -> None:
    """Declare what torchvision registers shapes for where its library does not load, as on CPU builds of torch."""
    if "torchvision" in sys.modules or hasattr(torch.ops.torchvision, "nms"):
        return
    spec = find_spec("torchvision")
    for built in Path(spec.origin or "").parent.glob("_C*.so") if spec else ():
        with contextlib.suppress(OSError):
            torch.ops.load_library(built)
            return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _kept.append(library)


_kept: list[torch.library.Library] = []
"""A library's declarations live as long as it does."""


def image(size: int = 224, batch: int = 1, channels: int = 3) -> torch.Tensor:
    """A batch of square images of noise."""
    return torch.randn(batch, channels, size, size)


def tokens(length: int = 64, batch: int = 2, most: int = 1000) -> torch.Tensor:
    """A batch of token numbers."""
    return torch.randint(3, most, (batch, length))
