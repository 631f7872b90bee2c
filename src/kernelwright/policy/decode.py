"""Decoders: one forward pass over prompts, then one token at a time with a key-value cache.

`decoder_for(model)` picks `Qwen3Decoder`, which reads the weights of a Qwen3 model and runs it with fused
projections and a preallocated cache (small models wait for Python, not for arithmetic: four times fewer
operations a token is four times the speed), or `ModelDecoder`, which calls any causal LM of transformers.

Both pad on the left, and both take a prompt once and repeat its cache for each of its samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


class Decoder(Protocol):
    """The state of one batch while it is being decoded."""

    def prefill(self, ids: Tensor, mask: Tensor, repeat: int, room: int) -> Tensor:
        """Read prompts `ids` (P, S), left-padded where `mask` is False, and repeat each `repeat` times.

        `room` is how many tokens will follow at most. Returns next-token logits (P * repeat, V).
        """
        ...

    def step(self, tokens: Tensor) -> Tensor:
        """Append `tokens` (B,) and return next-token logits (B, V)."""
        ...

    def select(self, rows: Tensor) -> None:
        """Keep only these rows of the batch."""
        ...


def decoder_for(model: Any) -> Decoder:
    """The fastest decoder that computes what `model` computes, without another copy of a large model's weights."""
    if Qwen3Decoder.can_run(model) and not has_adapters(model):
        return Qwen3Decoder(model)
    return ModelDecoder(model)


def has_adapters(model: Any) -> bool:
    """Whether peft has put adapters into `model`: as a model of its own around it, or by way of transformers."""
    return hasattr(model, "peft_config")


def unwrapped(model: Any) -> Any:
    """The causal LM of transformers, whose projections may be peft's."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _weight(linear: Any) -> Tensor:
    """A projection's weight with what its active LoRA adapters add to it."""
    base = getattr(linear, "base_layer", None)
    if base is None:
        return linear.weight
    added = [] if linear.disable_adapters or linear.merged else linear.active_adapters
    return sum((linear.get_delta_weight(name) for name in added if name in linear.lora_A), base.weight)


def _is_plain(projection: Any) -> bool:
    """A linear layer without bias, or peft's LoRA around one and nothing besides."""
    if type(projection) is torch.nn.Linear:
        return projection.bias is None
    kind = type(projection)
    lora = kind.__name__ == "Linear" and kind.__module__ == "peft.tuners.lora.layer"
    return lora and not any(projection.use_dora.values()) and _is_plain(projection.base_layer)


class ModelDecoder:
    """Any causal LM of transformers, through its own forward and a dynamic cache."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def prefill(self, ids: Tensor, mask: Tensor, repeat: int, room: int) -> Tensor:
        positions = (mask.long().cumsum(-1) - 1).clamp(min=0)
        out = self.model(input_ids=ids, attention_mask=mask.long(), position_ids=positions, use_cache=True)
        self.cache = out.past_key_values
        if repeat > 1:
            self.cache.batch_repeat_interleave(repeat)
        self.mask = mask.long().repeat_interleave(repeat, 0)
        return out.logits[:, -1].repeat_interleave(repeat, 0)

    def step(self, tokens: Tensor) -> Tensor:
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
        self.cache.batch_select_indices(rows)
        self.mask = self.mask[rows]


class Qwen3Decoder:
    """The Qwen3 architecture, straight from its weights.

    Positions are columns of the left-padded batch. Rotary embeddings only see differences of positions, so
    this computes the same as counting from each row's first token.
    """

    def __init__(self, model: Any) -> None:
        model, config = unwrapped(model), model.config
        self.heads, self.kv = config.num_attention_heads, config.num_key_value_heads
        self.dim, self.eps = config.head_dim, config.rms_norm_eps
        self.rotary, self.embed = model.model.rotary_emb, model.model.embed_tokens.weight
        self.norm, self.head = model.model.norm.weight, model.lm_head.weight
        self.layers = [_Layer(layer, self.heads, self.kv) for layer in model.model.layers]

    @staticmethod
    def can_run(model: Any) -> bool:
        """True for a Qwen3ForCausalLM, with LoRA on its projections or without: no other adapters, sliding windows,
        quantised or sharded weights."""
        model = unwrapped(model)
        config: Any = getattr(model, "config", None)
        if type(model).__name__ != "Qwen3ForCausalLM" or "sliding_attention" in config.layer_types:
            return False
        if config.hidden_act != "silu" or config.rope_parameters["rope_type"] != "default":
            return False
        if (
            type(model.lm_head) is not torch.nn.Linear
            or type(model.model.embed_tokens) is not torch.nn.Embedding
        ):
            return False
        return all(_is_plain(m) for name, m in model.named_modules() if name.endswith("_proj"))

    def prefill(self, ids: Tensor, mask: Tensor, repeat: int, room: int) -> Tensor:
        (count, size), device = ids.shape, ids.device
        rows, total = count * repeat, size + room
        self.cos, self.sin = self.rotary(self.embed[:1, :1], torch.arange(total, device=device)[None])
        self.cos, self.sin = self.cos[0], self.sin[0]  # (total, dim)
        shape = (len(self.layers), rows, self.kv, total, self.dim)
        self.keys = torch.empty(shape, dtype=self.embed.dtype, device=device)
        self.values = torch.empty_like(self.keys)
        self.length = size

        seen = torch.ones(size, size, dtype=torch.bool, device=device).tril() & mask[:, None, None, :]
        # A padded position sees itself, or its softmax would be over nothing.
        seen = seen | torch.eye(size, dtype=torch.bool, device=device)
        x = F.embedding(ids, self.embed)
        for index, layer in enumerate(self.layers):
            q, k, v = layer.qkv(x, self.dim, self.eps, self.cos[:size, None], self.sin[:size, None])
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)  # (P, heads, S, dim)
            self.keys[index, :, :, :size] = k.repeat_interleave(repeat, 0)
            self.values[index, :, :, :size] = v.repeat_interleave(repeat, 0)
            groups = self.heads // self.kv
            k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            x = layer.finish(x, out.transpose(1, 2).reshape(count, size, -1), self.eps)
        self.bias = torch.zeros(rows, 1, 1, total, dtype=self.embed.dtype, device=device)
        hidden = ~mask.repeat_interleave(repeat, 0)
        self.bias[:, 0, 0, :size].masked_fill_(hidden, torch.finfo(self.embed.dtype).min)
        return self._logits(x[:, -1]).repeat_interleave(repeat, 0)

    def step(self, tokens: Tensor) -> Tensor:
        rows, at = len(tokens), self.length
        cos, sin = self.cos[at], self.sin[at]
        bias = self.bias[..., : at + 1]
        x = F.embedding(tokens, self.embed)
        for index, layer in enumerate(self.layers):
            q, k, v = layer.qkv(x, self.dim, self.eps, cos, sin)  # (B, heads, dim)
            self.keys[index, :, :, at], self.values[index, :, :, at] = k, v
            keys, values = self.keys[index, :, :, : at + 1], self.values[index, :, :, : at + 1]
            # The heads that share keys are the rows of one small matrix product, so nothing is copied.
            q = q.view(rows, self.kv, -1, self.dim) * self.dim**-0.5
            scores = (q @ keys.transpose(-1, -2) + bias).softmax(-1)
            x = layer.finish(x, (scores @ values).view(rows, -1), self.eps)
        self.length += 1
        return self._logits(x)

    def select(self, rows: Tensor) -> None:
        self.keys, self.values = self._pick(self.keys, rows), self._pick(self.values, rows)
        self.bias = self.bias[rows]

    def _pick(self, cache: Tensor, rows: Tensor) -> Tensor:
        smaller = cache.new_empty((cache.shape[0], len(rows), *cache.shape[2:]))
        smaller[:, :, :, : self.length] = cache[:, rows, :, : self.length]
        return smaller

    def _logits(self, x: Tensor) -> Tensor:
        return F.linear(F.rms_norm(x, x.shape[-1:], self.norm, self.eps), self.head)


class _Layer:
    """One layer's weights, with the projections that read the same input stacked into one."""

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

    def to(self, dtype: torch.dtype) -> _Layer:
        """Copies of the weights in `dtype`, apart from the model's."""
        for name in self._WEIGHTS:
            setattr(self, name, getattr(self, name).detach().to(dtype, copy=True))
        return self

    def copy_(self, other: _Layer) -> None:
        """Take over another's weights, in place."""
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
