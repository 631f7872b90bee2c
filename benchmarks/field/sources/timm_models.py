"""Models of timm by name, the smallest of each family, with random weights."""

from __future__ import annotations

from typing import Any

import timm
import torch

from field.sources import Build, image

_NAMES = (
    "vit_tiny_patch16_224", "deit3_small_patch16_224", "vit_medium_patch16_reg4_gap_256", "beit_base_patch16_224",
    "eva02_tiny_patch14_224", "cait_xxs24_224", "xcit_nano_12_p16_224", "crossvit_tiny_240", "pit_ti_224",
    "swin_tiny_patch4_window7_224", "swinv2_cr_tiny_224", "twins_svt_small", "pvt_v2_b0", "davit_tiny",
    "focalnet_tiny_srf", "maxvit_nano_rw_256", "coatnet_nano_rw_224", "hiera_tiny_224", "levit_128s", "tiny_vit_5m_224",
    "volo_d1_224", "visformer_tiny", "convit_tiny", "tnt_s_legacy_patch16_224", "nest_tiny", "mobilevit_xxs",
    "mobilevitv2_050", "edgenext_xx_small", "efficientvit_b0", "efficientvit_m0", "efficientformer_l1",
    "efficientformerv2_s0", "fastvit_t8", "repvit_m0_9", "convnext_atto", "convnextv2_atto", "inception_next_tiny",
    "poolformer_s12", "caformer_s18", "mixer_s32_224", "gmlp_s16_224", "resmlp_12_224",
    "sequencer2d_s", "efficientnet_b0", "mobilenetv4_conv_small", "mobileone_s0", "ghostnet_050", "repvgg_a0",
    "regnety_002", "nf_regnet_b0", "eca_nfnet_l0", "resnest14d", "res2net50_14w_8s", "skresnet18", "hrnet_w18_small",
    "dla34", "dpn48b", "ese_vovnet19b_dw", "cspresnet50", "lambda_resnet26t", "halonet26t", "botnet26t_256", "tresnet_m",
    "rexnet_100", "hardcorenas_a", "lcnet_050", "xception41", "starnet_s1", "rdnet_tiny", "mambaout_femto",
)  # fmt: skip


def _model(name: str) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        model = timm.create_model(name, pretrained=False)
        return model, (image(model.default_cfg["input_size"][-1]),), {}

    return build


MODELS = {"timm": {name: _model(name) for name in _NAMES}}
