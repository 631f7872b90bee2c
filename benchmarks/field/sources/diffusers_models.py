"""Models of diffusers at published widths, one layer a block, with random weights."""

from __future__ import annotations

from typing import Any

import diffusers as d
import torch

from field.sources import Build


def _model(name: str, call: dict[str, Any], **given: Any) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        return getattr(d, name)(**given), (), call

    return build


_step = torch.tensor([500])
_one = torch.tensor([1])

MODELS = {
    "diffusers": {
        "UNet2DModel": _model(
            "UNet2DModel", {"sample": torch.randn(1, 3, 32, 32), "timestep": _step}, sample_size=32, layers_per_block=1
        ),
        "UNet2DConditionModel": _model(
            "UNet2DConditionModel",
            {"sample": torch.randn(1, 4, 32, 32), "timestep": _step, "encoder_hidden_states": torch.randn(1, 77, 768)},
            layers_per_block=1, cross_attention_dim=768, attention_head_dim=8,
        ),
        "AutoencoderKL": _model(
            "AutoencoderKL", {"sample": torch.randn(1, 3, 64, 64)}, block_out_channels=(128, 256, 512),
            down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3,
        ),
        "AutoencoderTiny": _model("AutoencoderTiny", {"sample": torch.randn(1, 3, 64, 64)}),
        "VQModel": _model("VQModel", {"sample": torch.randn(1, 3, 32, 32)}, block_out_channels=(128,)),
        "DiT": _model(
            "DiTTransformer2DModel",
            {"hidden_states": torch.randn(1, 4, 32, 32), "timestep": _step, "class_labels": _one},
            num_attention_heads=16, attention_head_dim=72, num_layers=1,
        ),
        "PixArt": _model(
            "PixArtTransformer2DModel",
            {
                "hidden_states": torch.randn(1, 4, 32, 32), "timestep": _step,
                "encoder_hidden_states": torch.randn(1, 20, 4096),
                "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
            },
            num_layers=1, sample_size=32, caption_channels=4096,
        ),
        "SD3": _model(
            "SD3Transformer2DModel",
            {
                "hidden_states": torch.randn(1, 16, 32, 32), "timestep": _step,
                "encoder_hidden_states": torch.randn(1, 40, 4096), "pooled_projections": torch.randn(1, 2048),
            },
            sample_size=32, num_layers=2,
        ),
        "Prior": _model(
            "PriorTransformer",
            {
                "hidden_states": torch.randn(1, 768), "timestep": _step, "proj_embedding": torch.randn(1, 768),
                "encoder_hidden_states": torch.randn(1, 77, 768),
            },
            num_layers=1,
        ),
        "Sana": _model(
            "SanaTransformer2DModel",
            {
                "hidden_states": torch.randn(1, 32, 16, 16), "timestep": _step,
                "encoder_hidden_states": torch.randn(1, 30, 2304),
            },
            num_layers=1, sample_size=16,
        ),
        "AuraFlow": _model(
            "AuraFlowTransformer2DModel",
            {
                "hidden_states": torch.randn(1, 4, 16, 16), "timestep": torch.tensor([0.5]),
                "encoder_hidden_states": torch.randn(1, 20, 2048),
            },
            sample_size=16, num_mmdit_layers=1, num_single_dit_layers=1, attention_head_dim=64, num_attention_heads=16,
            caption_projection_dim=1024, pos_embed_max_size=256,
        ),
    }
}  # fmt: skip
