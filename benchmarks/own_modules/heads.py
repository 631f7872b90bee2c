"""Losses, embeddings and heads: focal, Huber, contrastive, Fourier features, cosine logits, pooling, int8."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from own_modules.registry import Case, entry


class FocalLoss(nn.Module):
    """Softmax focal loss with class weights; labels equal to ignore_index do not count."""

    def __init__(self, classes: int, gamma: float = 2.0, ignore_index: int = -100) -> None:
        super().__init__()
        self.gamma, self.ignore_index = gamma, ignore_index
        self.register_buffer("alpha", torch.rand(classes) + 0.5)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        valid = labels != self.ignore_index
        safe = labels.masked_fill(~valid, 0)
        log_p = F.log_softmax(logits, dim=1).gather(1, safe.unsqueeze(1)).squeeze(1)
        loss = -self.alpha[safe] * (1 - log_p.exp()) ** self.gamma * log_p
        return torch.where(valid, loss, torch.zeros_like(loss)).sum() / valid.sum().clamp(min=1)


@entry("focal_loss", "float32")
def focal_loss() -> Case:
    labels = torch.randint(0, 19, (2, 32, 32))
    labels[:, :4] = -100
    return FocalLoss(19), (torch.randn(2, 19, 32, 32), labels), {}


class MaskedHuber(nn.Module):
    """Huber loss of normalised targets over a mask, per channel and in all, with the masked bias."""

    def __init__(self, channels: int, delta: float = 0.5) -> None:
        super().__init__()
        self.delta = delta
        self.register_buffer("mean", torch.randn(channels))
        self.register_buffer("std", torch.rand(channels) + 0.5)

    def forward(self, prediction: Tensor, target: Tensor, mask: Tensor) -> dict[str, Tensor]:
        error = prediction.float() - (target.float() - self.mean) / self.std
        size = error.abs()
        loss = torch.where(size < self.delta, 0.5 * size * size, self.delta * (size - 0.5 * self.delta))
        weight = mask.float().unsqueeze(-1)
        count = weight.sum().clamp(min=1.0)
        per_channel = (loss * weight).sum(dim=(0, 1)) / count
        return {
            "loss": per_channel.mean(),
            "channels": per_channel,
            "bias": (error * weight).sum((0, 1)) / count,
        }


@entry("masked_huber", "bfloat16")
def masked_huber() -> Case:
    mask = torch.rand(8, 30) > 0.3
    return MaskedHuber(12), (torch.randn(8, 30, 12), torch.randn(8, 30, 12)), {"mask": mask}


class ContrastiveOutput(NamedTuple):
    loss: Tensor
    logits: Tensor
    scale: Tensor


class SymmetricContrastive(nn.Module):
    """Both directions of InfoNCE over projected pairs with a learnt temperature."""

    def __init__(self, image: int, text: int, dim: int) -> None:
        super().__init__()
        self.image, self.text = nn.Linear(image, dim, bias=False), nn.Linear(text, dim, bias=False)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, images: Tensor, texts: Tensor) -> ContrastiveOutput:
        left = F.normalize(self.image(images), dim=-1)
        right = F.normalize(self.text(texts), dim=-1)
        scale = self.logit_scale.exp().clamp(max=100.0)
        logits = scale * left @ right.t()
        target = torch.arange(logits.shape[0], device=logits.device)
        loss = 0.5 * (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target))
        return ContrastiveOutput(loss, logits, scale)


@entry("symmetric_contrastive", "float32")
def symmetric_contrastive() -> Case:
    return SymmetricContrastive(96, 64, 48), (torch.randn(24, 96), torch.randn(24, 64)), {}


class FourierTimeEmbedding(nn.Module):
    """Sines and cosines of a time step through a small MLP, added to a random Fourier map of coordinates."""

    def __init__(self, frequencies: int, dim: int, scale: float = 10.0) -> None:
        super().__init__()
        self.frequencies = frequencies
        self.register_buffer("directions", torch.randn(2, frequencies) * scale)
        self.mlp = nn.Sequential(nn.Linear(2 * frequencies, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.coords = nn.Linear(2 * frequencies, dim)

    def forward(self, steps: Tensor, coords: Tensor) -> Tensor:
        rates = torch.exp(
            -math.log(10000.0)
            * torch.arange(self.frequencies, device=steps.device).float()
            / self.frequencies
        )
        angles = steps.float()[:, None] * rates[None]
        time = torch.cat((angles.sin(), angles.cos()), dim=-1).to(coords.dtype)
        turns = 2 * torch.pi * coords @ self.directions
        space = torch.cat((turns.cos(), turns.sin()), dim=-1)
        return self.mlp(time)[:, None] + self.coords(space)


@entry("fourier_time_embedding", "bfloat16")
def fourier_time_embedding() -> Case:
    module = FourierTimeEmbedding(32, 128, scale=1.0)
    return module, (torch.tensor([3, 250, 999]),), {"coords": torch.rand(3, 50, 2)}


class CosineMarginClassifier(nn.Module):
    """Cosines to class centres; with labels, an additive angular margin on the true class."""

    def __init__(self, dim: int, classes: int, scale: float = 30.0, margin: float = 0.3) -> None:
        super().__init__()
        self.centres = nn.Parameter(torch.randn(classes, dim))
        self.scale, self.margin = scale, margin

    def forward(self, features: Tensor, labels: Tensor | None = None) -> Tensor:
        cosine = F.linear(F.normalize(features), F.normalize(self.centres))
        if labels is None:
            return self.scale * cosine
        sine = (1.0 - cosine.pow(2)).clamp(1e-7, 1.0).sqrt()
        moved = cosine * math.cos(self.margin) - sine * math.sin(self.margin)
        threshold = math.cos(math.pi - self.margin)
        moved = torch.where(cosine > threshold, moved, cosine - math.sin(math.pi - self.margin) * self.margin)
        true = F.one_hot(labels, cosine.shape[1]).bool()
        return self.scale * torch.where(true, moved, cosine)


@entry("cosine_margin_classifier", "float32")
def cosine_margin_classifier() -> Case:
    return CosineMarginClassifier(64, 100), (torch.randn(16, 64),), {"labels": torch.randint(0, 100, (16,))}


class MaskedMeanPooling(nn.Module):
    """Sentence embeddings: masked mean and masked maximum of tokens, projected, of unit length."""

    def __init__(self, dim: int, out: int) -> None:
        super().__init__()
        self.dense = nn.Linear(2 * dim, out)

    def forward(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        tokens, mask = inputs["token_embeddings"], inputs["attention_mask"].unsqueeze(-1)
        weight = mask.to(tokens.dtype)
        mean = (tokens * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        most = tokens.masked_fill(mask == 0, torch.finfo(tokens.dtype).min).amax(dim=1)
        vector = torch.tanh(self.dense(torch.cat([mean, most], dim=-1)))
        return {**inputs, "sentence_embedding": F.normalize(vector, p=2, dim=1)}


@entry("masked_mean_pooling", "bfloat16")
def masked_mean_pooling() -> Case:
    mask = (torch.arange(40)[None] < torch.tensor([40, 22, 9, 31])[:, None]).long()
    inputs = {"token_embeddings": torch.randn(4, 40, 144), "attention_mask": mask}
    return MaskedMeanPooling(144, 96), (inputs,), {}


class FakeQuantLinear(nn.Module):
    """A linear layer as int8 training simulates it: weights by channel, activations by token, both rounded."""

    def __init__(self, inputs: int, outputs: int, bits: int = 8) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.most = 2 ** (bits - 1) - 1

    def quantise(self, x: Tensor) -> tuple[Tensor, Tensor]:
        scale = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-5) / self.most
        return torch.clamp(torch.round(x / scale), -self.most - 1, self.most).to(torch.int8), scale

    def forward(self, x: Tensor) -> Tensor:
        qx, sx = self.quantise(x)
        qw, sw = self.quantise(self.linear.weight)
        return F.linear(qx.to(x.dtype) * sx, qw.to(x.dtype) * sw, self.linear.bias)


@entry("fake_quant_linear", "float32")
def fake_quant_linear() -> Case:
    return FakeQuantLinear(128, 192), (torch.randn(5, 20, 128),), {}
