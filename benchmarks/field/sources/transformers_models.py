"""Models of transformers, two layers each, at published widths."""

from __future__ import annotations

from typing import Any

import torch
import transformers as t

from field.sources import Build, image, tokens


def _text(config: str, **given: Any) -> Build:
    """A language model by its configuration class."""

    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        made = getattr(t, config)(**given)
        return t.AutoModel.from_config(made), (), {"input_ids": tokens(), "use_cache": False}

    return build


def _encoder(config: str, **given: Any) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        made = getattr(t, config)(**given)
        mask = torch.ones(2, 64, dtype=torch.int64)
        return t.AutoModel.from_config(made), (), {"input_ids": tokens(), "attention_mask": mask}

    return build


def _vision(config: str, size: int = 224, **given: Any) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        return t.AutoModel.from_config(getattr(t, config)(**given)), (), {"pixel_values": image(size)}

    return build


def _pair(config: str, **given: Any) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        made = getattr(t, config)(**given)
        kwargs = {"input_ids": tokens(), "decoder_input_ids": tokens(16), "use_cache": False}
        return t.AutoModel.from_config(made), (), kwargs

    return build


def _whisper() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    made = t.WhisperConfig(
        d_model=384, encoder_layers=2, decoder_layers=2, encoder_attention_heads=6, decoder_attention_heads=6,
        encoder_ffn_dim=1536, decoder_ffn_dim=1536,
    )  # fmt: skip
    kwargs = {
        "input_features": torch.randn(1, 80, 3000),
        "decoder_input_ids": tokens(8, 1),
        "use_cache": False,
    }
    return t.WhisperModel(made), (), kwargs


def _audio(config: str) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        model = t.AutoModel.from_config(getattr(t, config)(num_hidden_layers=2))
        return model, (), {"input_values": torch.randn(1, 8000)}

    return build


_two = {"num_hidden_layers": 2}
_gqa = {"num_hidden_layers": 2, "num_attention_heads": 9, "num_key_value_heads": 3}

MODELS = {
    "transformers": {
        "llama": _text("LlamaConfig", hidden_size=576, intermediate_size=1536, vocab_size=49152, **_gqa),
        "qwen2": _text(
            "Qwen2Config", hidden_size=896, intermediate_size=4864, num_attention_heads=14, num_key_value_heads=2, **_two
        ),
        "qwen3": _text(
            "Qwen3Config", hidden_size=1024, intermediate_size=3072, num_attention_heads=16, num_key_value_heads=8, **_two
        ),
        "gemma3": _text(
            "Gemma3TextConfig", hidden_size=640, intermediate_size=2048, num_attention_heads=4, num_key_value_heads=1,
            **_two,
        ),
        "gpt2": _text("GPT2Config", n_layer=2),
        "gpt_neox": _text(
            "GPTNeoXConfig", hidden_size=768, intermediate_size=3072, num_attention_heads=12, **_two
        ),
        "opt": _text("OPTConfig", **_two),
        "bloom": _text("BloomConfig", hidden_size=1024, n_head=16, n_layer=2),
        "phi": _text("PhiConfig", hidden_size=1024, intermediate_size=4096, num_attention_heads=16, **_two),
        "olmo2": _text(
            "Olmo2Config", hidden_size=2048, intermediate_size=8192, num_attention_heads=16, num_hidden_layers=1
        ),
        "granite_moe": _text(
            "GraniteMoeConfig", hidden_size=1024, intermediate_size=512, num_attention_heads=16, num_key_value_heads=8,
            num_local_experts=32, num_experts_per_tok=8, **_two,
        ),
        "mamba": _text("MambaConfig", **_two),
        "mamba2": _text("Mamba2Config", hidden_size=768, num_heads=24, vocab_size=50288, n_groups=1, **_two),
        "falcon": _text("FalconConfig", hidden_size=1024, num_attention_heads=16, alibi=True, **_two),
        "bert": _encoder("BertConfig", **_two),
        "distilbert": _encoder("DistilBertConfig", n_layers=2),
        "electra": _encoder("ElectraConfig", **_two),
        "mpnet": _encoder("MPNetConfig", **_two),
        "deberta_v2": _encoder(
            "DebertaV2Config", hidden_size=768, intermediate_size=3072, num_attention_heads=12,
            relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=256, norm_rel_ebd="layer_norm", **_two,
        ),
        "modernbert": _encoder("ModernBertConfig", **_two),
        "xlnet": _encoder("XLNetConfig", d_model=768, n_head=12, d_inner=3072, n_layer=2),
        "albert": _encoder("AlbertConfig", hidden_size=768, num_attention_heads=12, intermediate_size=3072, **_two),
        "t5": _pair("T5Config", num_layers=2),
        "bart": _pair(
            "BartConfig", d_model=768, encoder_layers=2, decoder_layers=2, encoder_attention_heads=12,
            decoder_attention_heads=12, encoder_ffn_dim=3072, decoder_ffn_dim=3072,
        ),
        "vit": _vision("ViTConfig", **_two),
        "dinov2": _vision("Dinov2Config", hidden_size=384, num_attention_heads=6, image_size=224, **_two),
        "swin": _vision("SwinConfig", depths=[2, 2], num_heads=[3, 6]),
        "swinv2": _vision("Swinv2Config", depths=[2, 2], num_heads=[3, 6]),
        "convnext": _vision("ConvNextConfig", depths=[1, 1, 1, 1]),
        "segformer": _vision("SegformerConfig", depths=[1, 1, 1, 1]),
        "beit": _vision("BeitConfig", **_two),
        "mobilevit": _vision("MobileViTConfig", 256),
        "resnet": _vision("ResNetConfig", depths=[1, 1, 1, 1]),
        "poolformer": _vision("PoolFormerConfig", depths=[1, 1, 1, 1]),
        "siglip": _vision("SiglipVisionConfig", **_two),
        "clip": _vision("CLIPVisionConfig", **_two),
        "whisper": _whisper,
        "wav2vec2": _audio("Wav2Vec2Config"),
        "hubert": _audio("HubertConfig"),
    }
}  # fmt: skip
