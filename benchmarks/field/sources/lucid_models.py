"""Models of x-transformers, vit-pytorch, conformer and perceiver-pytorch, two layers each."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from field.sources import Build, image, tokens


def _decoder(**given: Any) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        from x_transformers import Decoder, TransformerWrapper

        layers = Decoder(dim=512, depth=2, heads=8, **given)
        return TransformerWrapper(num_tokens=20000, max_seq_len=256, attn_layers=layers), (tokens(),), {}

    return build


def _vit(where: str, name: str, size: int = 256, *, extra: tuple[Any, ...] = (), **given: Any) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        made = getattr(import_module(f"vit_pytorch.{where}"), name)(num_classes=1000, **given)
        return made, (image(size), *extra), {}

    return build


def _conformer(**given: Any) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        from conformer import ConformerBlock

        return ConformerBlock(**given), (torch.randn(2, 64, given["dim"]),), {}

    return build


def _perceiver(name: str, *inputs: tuple[int, ...], **given: Any) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        import perceiver_pytorch

        return getattr(perceiver_pytorch, name)(**given), tuple(torch.randn(shape) for shape in inputs), {}

    return build


_patches = {"image_size": 256, "patch_size": 32, "dim": 512, "depth": 2, "heads": 8, "mlp_dim": 1024}

MODELS: dict[str, dict[str, Build]] = {
    "x_transformers": {
        "plain": _decoder(),
        "rotary": _decoder(rotary_pos_emb=True, use_rmsnorm=True, ff_swish=True, ff_glu=True),
        "alibi": _decoder(alibi_pos_bias=True, alibi_num_heads=4),
        "t5_bias": _decoder(rel_pos_bias=True),
        "qk_norm": _decoder(attn_qk_norm=True, attn_qk_norm_dim_scale=True, use_scalenorm=True),
        "talking_heads": _decoder(attn_pre_talking_heads=True, attn_post_talking_heads=True),
        "kv_heads": _decoder(attn_kv_heads=2, attn_gate_values=True, ff_relu_squared=True),
        "shift_tokens": _decoder(shift_tokens=1, gate_residual=True),
        "sandwich": _decoder(sandwich_norm=True, macaron=True),
        "sparse_topk": _decoder(attn_sparse_topk=8, pre_norm=False),
        "xpos": _decoder(rotary_xpos=True, attn_on_attn=True),
    },
    "vit_pytorch": {
        "vit": _vit("vit", "ViT", **_patches),
        "simple_vit": _vit("simple_vit", "SimpleViT", **_patches),
        "deepvit": _vit("deepvit", "DeepViT", **_patches),
        "cait": _vit("cait", "CaiT", cls_depth=2, **_patches),
        "parallel_vit": _vit("parallel_vit", "ViT", **_patches),
        "small_data": _vit("vit_for_small_dataset", "ViT", **_patches),
        "normalized": _vit("normalized_vit", "nViT", **_patches),
        "look_vit": _vit(
            "look_vit", "LookViT", image_size=256, patch_size=32, highres_patch_size=16, dim=512, depth=2, heads=8
        ),
        "cct": _vit("cct", "CCT", 224, img_size=224, embedding_dim=384, num_layers=2, num_heads=6, mlp_ratio=3.0),
        "cvt": _vit("cvt", "CvT", 128),
        "crossformer": _vit("crossformer", "CrossFormer", 224, depth=(1, 1, 1, 1)),
        "levit": _vit(
            "levit", "LeViT", 224, image_size=224, dim=(256, 384, 512), depth=1, heads=(4, 6, 8), mlp_mult=2, stages=3
        ),
        "max_vit": _vit("max_vit", "MaxViT", 224, dim=96, dim_head=32, depth=(1, 1, 1, 1)),
        "mobile_vit": _vit(
            "mobile_vit", "MobileViT", image_size=(256, 256), dims=[96, 120, 144],
            channels=[16, 32, 48, 48, 64, 64, 80, 80, 96, 96, 384],
        ),
        "nest": _vit(
            "nest", "NesT", 224, image_size=224, patch_size=4, dim=96, heads=3, num_hierarchies=3, block_repeats=(1, 1, 1)
        ),
        "pit": _vit("pit", "PiT", 224, image_size=224, patch_size=14, dim=256, depth=(1, 1, 1), heads=8, mlp_dim=1024),
        "regionvit": _vit("regionvit", "RegionViT", 224, dim=(64, 128, 256, 512), depth=(1, 1, 1, 1)),
        "rvt": _vit("rvt", "RvT", **_patches),
        "scalable_vit": _vit(
            "scalable_vit", "ScalableViT", dim=64, heads=(2, 4, 8, 16), depth=(1, 1, 1, 1), ssa_dim_key=(40, 40, 40, 32),
            reduction_factor=(8, 4, 2, 1), window_size=(64, 32, None, None), dropout=0.1,
        ),
        "sep_vit": _vit(
            "sep_vit", "SepViT", 224, dim=32, dim_head=32, heads=(1, 2, 4, 8), depth=(1, 1, 1, 1), window_size=7
        ),
        "t2t": _vit("t2t", "T2TViT", 224, dim=512, image_size=224, depth=2, heads=8, mlp_dim=512),
        "twins_svt": _vit("twins_svt", "TwinsSVT", 224, s1_depth=1, s2_depth=1, s3_depth=1, s4_depth=1),
        "xcit": _vit("xcit", "XCiT", cls_depth=2, **_patches),
    },
    "conformer": {
        "block": _conformer(dim=512, dim_head=64, heads=8),
        "narrow": _conformer(dim=144, dim_head=36, heads=4, conv_kernel_size=15),
    },
    "perceiver_pytorch": {
        "perceiver": _perceiver(
            "Perceiver", (1, 32, 32, 3), input_channels=3, num_freq_bands=6, max_freq=10.0, depth=1, num_latents=128,
            latent_dim=512, num_classes=1000, self_per_cross_attn=1,
        ),
        "perceiver_io": _perceiver(
            "PerceiverIO", (1, 128, 32), dim=32, queries_dim=32, logits_dim=100, depth=1, num_latents=64, latent_dim=512
        ),
    },
}  # fmt: skip
