"""Attention as models write it: rotary, ALiBi, shifted windows, latent pooling, bucketed relative positions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from own_modules.registry import Case, entry


@dataclass
class AttentionConfig:
    hidden_size: int = 256
    num_heads: int = 8
    num_kv_heads: int = 2
    rope_theta: float = 10000.0
    max_positions: int = 512
    qkv_bias: bool = True

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_heads


def rotate_half(x: Tensor) -> Tensor:
    left, right = x.chunk(2, dim=-1)
    return torch.cat((-right, left), dim=-1)


class RotaryAttention(nn.Module):
    """Grouped-query attention with rotary positions, a causal mask and a padding mask by keyword."""

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__()
        self.config = config
        kv_size = config.num_kv_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=config.qkv_bias)
        self.k_proj = nn.Linear(config.hidden_size, kv_size, bias=config.qkv_bias)
        self.v_proj = nn.Linear(config.hidden_size, kv_size, bias=config.qkv_bias)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        exponents = torch.arange(0, config.head_dim, 2).float() / config.head_dim
        self.register_buffer("inv_freq", config.rope_theta**-exponents, persistent=False)

    def rotary(self, x: Tensor, positions: Tensor) -> Tensor:
        angles = positions[:, None, :, None].float() * self.inv_freq.float()
        angles = torch.cat((angles, angles), dim=-1)
        return (x * angles.cos() + rotate_half(x) * angles.sin()).to(x.dtype)

    def forward(
        self, hidden: Tensor, position_ids: Tensor | None = None, attention_mask: Tensor | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        batch, length, _ = hidden.shape
        if position_ids is None:
            position_ids = torch.arange(length, device=hidden.device)[None].expand(batch, -1)
        shape = (batch, length, -1, self.config.head_dim)
        q = self.rotary(self.q_proj(hidden).view(shape).transpose(1, 2), position_ids)
        k = self.rotary(self.k_proj(hidden).view(shape).transpose(1, 2), position_ids)
        v = self.v_proj(hidden).view(shape).transpose(1, 2)
        groups = self.config.num_heads // self.config.num_kv_heads
        mask = torch.ones(length, length, dtype=torch.bool, device=hidden.device).tril()[None, None]
        if attention_mask is not None:
            mask = mask & attention_mask[:, None, None, :].bool()
        out = F.scaled_dot_product_attention(
            q, k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1), attn_mask=mask
        )
        out = out.transpose(1, 2).reshape(batch, length, -1)
        return self.o_proj(out), (k, v)


@entry("rotary_gqa_attention", "bfloat16")
def rotary_gqa_attention() -> Case:
    keep = torch.ones(2, 96, dtype=torch.int64)
    keep[1, 70:] = 0
    return RotaryAttention(AttentionConfig()), (torch.randn(2, 96, 256),), {"attention_mask": keep}


class AlibiAttention(nn.Module):
    """Scores by einsum with linear biases; returns the probabilities beside the output, in a dict."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)
        self.register_buffer("slopes", 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        batch, length, dim = x.shape
        q, k, v = (part.unflatten(-1, (self.heads, -1)) for part in self.to_qkv(x).chunk(3, dim=-1))
        scores = torch.einsum("bihd,bjhd->bhij", q * self.scale, k)
        places = torch.arange(length, device=x.device)
        distance = (places[:, None] - places[None, :]).to(x.dtype)
        scores = scores - self.slopes[:, None, None] * distance.abs()
        scores = scores.masked_fill(distance < 0, float("-inf"))
        weights = scores.softmax(dim=-1, dtype=torch.float32).to(x.dtype)
        mixed = torch.einsum("bhij,bjhd->bihd", weights, v).reshape(batch, length, dim)
        return {"output": self.out(mixed), "weights": weights}


@entry("alibi_attention", "float32")
def alibi_attention() -> Case:
    return AlibiAttention(192, 6), (torch.randn(2, 80, 192),), {}


class ShiftedWindowAttention(nn.Module):
    """Attention inside windows of an image that is rolled by half a window, with learnt relative biases."""

    def __init__(self, dim: int, heads: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.bias_table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        coords = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij"))
        coords = coords.flatten(1)
        relative = (coords[:, :, None] - coords[:, None, :] + window - 1).permute(1, 2, 0)
        self.register_buffer("bias_index", relative[..., 0] * (2 * window - 1) + relative[..., 1])

    def forward(self, image: Tensor) -> Tensor:
        batch, height, width, dim = image.shape
        size, shift = self.window, self.shift
        x = self.norm(image)
        if shift:
            x = torch.roll(x, shifts=(-shift, -shift), dims=(1, 2))
        x = x.view(batch, height // size, size, width // size, size, dim)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, dim)
        qkv = self.qkv(x).reshape(x.shape[0], size * size, 3, self.heads, dim // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q * (dim // self.heads) ** -0.5) @ k.transpose(-2, -1)
        bias = self.bias_table[self.bias_index.view(-1)].view(size * size, size * size, -1)
        scores = scores + bias.permute(2, 0, 1).unsqueeze(0)
        x = (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(-1, size * size, dim)
        x = self.proj(x).view(batch, height // size, width // size, size, size, dim)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(batch, height, width, dim)
        if shift:
            x = torch.roll(x, shifts=(shift, shift), dims=(1, 2))
        return image + x


@entry("shifted_window_attention", "bfloat16")
def shifted_window_attention() -> Case:
    return ShiftedWindowAttention(96, heads=3, window=7, shift=3), (torch.randn(2, 28, 28, 96),), {}


class LatentPooling(nn.Module):
    """A few learnt queries attend to a padded sequence through nn.MultiheadAttention."""

    def __init__(self, dim: int, latents: int, heads: int) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.randn(1, latents, dim) * dim**-0.5)
        self.norm_q, self.norm_kv = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)
        )

    def forward(self, tokens: Tensor, *, padding: Tensor | None = None) -> tuple[Tensor, Tensor]:
        queries = self.latents.expand(tokens.shape[0], -1, -1)
        context = self.norm_kv(tokens)
        mixed, weights = self.attention(
            self.norm_q(queries), context, context, key_padding_mask=padding, average_attn_weights=False
        )
        queries = queries + mixed
        return queries + self.mlp(queries), weights


@entry("latent_pooling", "bfloat16")
def latent_pooling() -> Case:
    padding = torch.zeros(4, 60, dtype=torch.bool)
    padding[2:, 48:] = True
    return LatentPooling(128, latents=8, heads=4), (torch.randn(4, 60, 128),), {"padding": padding}


class BucketedRelativeBias(nn.Module):
    """Biases of attention by distance, in buckets that widen logarithmically."""

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 128, causal: bool = False) -> None:
        super().__init__()
        self.buckets, self.max_distance, self.causal = buckets, max_distance, causal
        self.table = nn.Embedding(buckets, heads)

    def bucket(self, relative: Tensor) -> Tensor:
        buckets = self.buckets
        offset = torch.zeros_like(relative)
        if self.causal:
            relative = -torch.min(relative, torch.zeros_like(relative))
        else:
            buckets //= 2
            offset = offset + (relative > 0).long() * buckets
            relative = relative.abs()
        exact = buckets // 2
        ratio = torch.log(relative.float().clamp(min=1) / exact) / math.log(self.max_distance / exact)
        far = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
        return offset + torch.where(relative < exact, relative, far)

    def forward(self, scores: Tensor) -> Tensor:
        query = torch.arange(scores.shape[-2], device=scores.device)[:, None]
        key = torch.arange(scores.shape[-1], device=scores.device)[None, :]
        bias = self.table(self.bucket(key - query)).permute(2, 0, 1)
        return (scores + bias[None]).softmax(dim=-1)


@entry("bucketed_relative_bias", "float32")
def bucketed_relative_bias() -> Case:
    return BucketedRelativeBias(heads=8), (torch.randn(2, 8, 64, 96),), {}
