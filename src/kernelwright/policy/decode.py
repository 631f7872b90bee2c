"""Decoding of causal LMs: with any model's own forward, token by token, or with a Qwen3 model's layers directly.

`ModelDecoder` calls a transformers model with its cache: one forward pass over left-padded prompts, then one token at a time. A
`Layer` holds a Qwen3 layer's weights with fused projections: small models are limited by Python, not by arithmetic, so four
times fewer operations per token make them four times faster. `slots.py` decodes with those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def has_adapters(model: Any) -> bool:
    """Whether `model` has peft adapters, as a PeftModel around it or through transformers."""
    return hasattr(model, "peft_config")


def unwrap(model: Any) -> Any:
    """The causal LM of transformers; its projections may still be peft's."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _weight(linear: Any) -> Tensor:
    """A projection's weight plus the updates of its active LoRA adapters."""
    base = getattr(linear, "base_layer", None)
    if base is None:
        return linear.weight
    added = [] if linear.disable_adapters or linear.merged else linear.active_adapters
    return sum((linear.get_delta_weight(name) for name in added if name in linear.lora_A), base.weight)


def _is_plain(projection: Any) -> bool:
    """Whether it is a linear layer without bias, or such a layer with peft's LoRA and nothing else."""
    if type(projection) is torch.nn.Linear:
        return projection.bias is None
    kind = type(projection)
    lora = kind.__name__ == "Linear" and kind.__module__ == "peft.tuners.lora.layer"
    return lora and not any(projection.use_dora.values()) and _is_plain(projection.base_layer)


class ModelDecoder:
    """Any causal LM of transformers, through its own forward and a dynamic cache."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def prefill(self, ids: Tensor, mask: Tensor, repeat: int) -> Tensor:
        """Read prompts `ids` (P, S), left-padded where `mask` is False, and repeat each `repeat` times. Returns next-token logits
        (P * repeat, V)."""
        positions = (mask.long().cumsum(-1) - 1).clamp(min=0)
        out = self.model(input_ids=ids, attention_mask=mask.long(), position_ids=positions, use_cache=True)
        self.cache = out.past_key_values
        if repeat > 1:
            self.cache.batch_repeat_interleave(repeat)
        self.mask = mask.long().repeat_interleave(repeat, 0)
        return out.logits[:, -1].repeat_interleave(repeat, 0)

    def step(self, tokens: Tensor) -> Tensor:
        """Append `tokens` (B,) and return next-token logits (B, V)."""
        positions = self.mask.sum(-1, keepdim=True)
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(tokens), 1)], 1)
        out = self.model(
            input_ids=tokens[:, None],
            attention_mask=self.mask,
            position_ids=positions,
            past_key_values=self.cache,
            use_cache=True,
        )
        return out.logits[:, -1]

    def select(self, rows: Tensor) -> None:
        """Keep only these rows of the batch."""
        self.cache.batch_select_indices(rows)
        self.mask = self.mask[rows]


def in_layers(model: Any) -> bool:
    """Whether `Layer` supports the model: a Qwen3ForCausalLM, with or without LoRA on its projections, but without other
    adapters, sliding windows, quantised or sharded weights."""
    model = unwrap(model)
    config: Any = getattr(model, "config", None)
    if type(model).__name__ != "Qwen3ForCausalLM" or "sliding_attention" in config.layer_types:
        return False
    if config.hidden_act != "silu" or config.rope_parameters["rope_type"] != "default":
        return False
    if type(model.lm_head) is not torch.nn.Linear or type(model.model.embed_tokens) is not torch.nn.Embedding:
        return False
    return all(_is_plain(m) for name, m in model.named_modules() if name.endswith("_proj"))


class Layer:
    """One layer's weights; projections of the same input are stacked into one."""

    _WEIGHTS = ("before", "after", "in_proj", "qk_norm", "out_proj", "gate_up", "down")

    def __init__(self, layer: Any, heads: int, kv: int) -> None:
        attention, mlp = layer.self_attn, layer.mlp
        self.heads, self.kv = heads, kv
        self.before, self.after = layer.input_layernorm.weight, layer.post_attention_layernorm.weight
        self.in_proj = torch.cat(
            [_weight(one) for one in (attention.q_proj, attention.k_proj, attention.v_proj)]
        )
        norms = [attention.q_norm.weight.expand(heads, -1), attention.k_norm.weight.expand(kv, -1)]
        self.qk_norm = torch.cat(norms)
        self.out_proj = _weight(attention.o_proj)
        self.gate_up = torch.cat([_weight(mlp.gate_proj), _weight(mlp.up_proj)])
        self.down = _weight(mlp.down_proj)

    def to(self, dtype: torch.dtype) -> Layer:
        """Replace the weights by copies in `dtype`, independent of the model's."""
        for name in self._WEIGHTS:
            setattr(self, name, getattr(self, name).detach().to(dtype, copy=True))
        return self

    def copy_(self, other: Layer) -> None:
        """Copy another layer's weights, in place."""
        for name in self._WEIGHTS:
            getattr(self, name).copy_(getattr(other, name))

    def qkv(self, x: Tensor, dim: int, eps: float, cos: Tensor, sin: Tensor) -> Sequence[Tensor]:
        """Queries (..., heads, dim), keys and values (..., kv, dim), normalised and rotated."""
        x = F.linear(F.rms_norm(x, x.shape[-1:], self.before, eps), self.in_proj)
        x = x.view(*x.shape[:-1], -1, dim)
        qk, v = x[..., : self.heads + self.kv, :], x[..., self.heads + self.kv :, :]
        qk = F.rms_norm(qk, (dim,), None, eps) * self.qk_norm
        half = dim // 2
        qk = qk * cos + torch.cat([-qk[..., half:], qk[..., :half]], -1) * sin
        return qk[..., : self.heads, :], qk[..., self.heads :, :], v

    def finish(self, x: Tensor, attended: Tensor, eps: float) -> Tensor:
        """Output projection and MLP, each with its residual."""
        x = x + F.linear(attended, self.out_proj)
        gate, up = F.linear(F.rms_norm(x, x.shape[-1:], self.after, eps), self.gate_up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, self.down)
