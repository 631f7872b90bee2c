"""Feed-forward blocks and what surrounds them: gates, norms, residuals, conditioning, experts."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from own_modules.registry import Case, entry


@dataclass
class MLPConfig:
    hidden_size: int = 256
    multiple_of: int = 64
    activation: str = "silu"
    norm_eps: float = 1e-6
    activations: dict = field(default_factory=lambda: {"silu": F.silu, "gelu": F.gelu})

    @property
    def intermediate_size(self) -> int:
        size = int(8 * self.hidden_size / 3)
        return self.multiple_of * ((size + self.multiple_of - 1) // self.multiple_of)


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


class SwiGLUBlock(nn.Module):
    """x + down(silu(gate(norm(x))) * up(norm(x)))."""

    def __init__(self, config: MLPConfig) -> None:
        super().__init__()
        self.norm = RMSNorm(config.hidden_size, config.norm_eps)
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)
        self.act = config.activations[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        return x + self.down_proj(self.act(self.gate_proj(y)) * self.up_proj(y))


@entry("swiglu_block", "bfloat16")
def swiglu_block() -> Case:
    return SwiGLUBlock(MLPConfig()), (torch.randn(4, 64, 256),), {}


class GatedRMSNorm(nn.Module):
    """Adds a residual, norms by groups of channels, gates; returns the sum too, for the next layer."""

    def __init__(self, dim: int, groups: int = 1, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim) + 0.05 * torch.randn(dim))
        self.groups, self.eps = groups, eps

    def forward(
        self, x: Tensor, residual: Tensor | None = None, gate: Tensor | None = None, prenorm: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        total = x.float() if residual is None else x.float() + residual.float()
        grouped = total.unflatten(-1, (self.groups, -1))
        grouped = grouped * (grouped.square().mean(dim=-1, keepdim=True) + self.eps).rsqrt()
        out = grouped.flatten(-2) * self.weight.float()
        if gate is not None:
            out = out * F.silu(gate.float())
        out = out.to(x.dtype)
        return (out, total.to(x.dtype)) if prenorm else out


@entry("gated_rms_norm", "bfloat16")
def gated_rms_norm() -> Case:
    x, residual, gate = torch.randn(3, 4, 50, 384).unbind(0)
    return GatedRMSNorm(384, groups=4), (x,), {"residual": residual, "gate": gate, "prenorm": True}


class GeGLU(nn.Module):
    """One projection, halved; tanh-approximate gelu of one half gates the other."""

    def __init__(self, dim: int, multiplier: int = 4, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.wi = nn.Linear(dim, 2 * multiplier * dim)
        self.wo = nn.Linear(multiplier * dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden: Tensor) -> Tensor:
        value, gate = self.wi(self.norm(hidden)).chunk(2, dim=-1)
        return hidden + self.dropout(self.wo(self.dropout(value * F.gelu(gate, approximate="tanh"))))


@entry("geglu", "bfloat16")
def geglu() -> Case:
    return GeGLU(160), (torch.randn(3, 48, 160),), {}


class DropPath(nn.Module):
    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return x
        keep = torch.rand(x.shape[0], *[1] * (x.dim() - 1), device=x.device, dtype=x.dtype) >= self.rate
        return x * keep / (1 - self.rate)


class LayerScaleBlock(nn.Module):
    """A ConvNeXt-like block: depthwise convolution, channels-last MLP, layer scale, drop path (off in eval)."""

    def __init__(self, dim: int, kernel: int = 7, init: float = 1e-2, drop_path: float = 0.2) -> None:
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1, self.pwconv2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(init * torch.ones(dim))
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        y = self.dwconv(x).permute(0, 2, 3, 1)
        y = self.pwconv2(F.gelu(self.pwconv1(self.norm(y))))
        return x + self.drop_path((self.gamma * y).permute(0, 3, 1, 2))


@entry("layer_scale_drop_path", "bfloat16")
def layer_scale_drop_path() -> Case:
    return LayerScaleBlock(64), (torch.randn(2, 64, 20, 20),), {}


class FiLMResidual(nn.Module):
    """Convolution, group norm, then scale and shift predicted from a condition."""

    def __init__(self, channels: int, condition: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm1 = nn.GroupNorm(8, channels)
        self.norm2 = nn.GroupNorm(8, channels, affine=False)
        self.film = nn.Linear(condition, 2 * channels)

    def forward(self, image: Tensor, condition: Tensor) -> Tensor:
        y = self.conv1(F.silu(self.norm1(image)))
        scale, shift = self.film(F.silu(condition))[..., None, None].chunk(2, dim=1)
        y = self.norm2(y) * (1 + scale) + shift
        return (image + self.conv2(F.silu(y))) / 2**0.5


@entry("film_residual", "float32")
def film_residual() -> Case:
    return FiLMResidual(32, 64), (torch.randn(2, 32, 24, 24),), {"condition": torch.randn(2, 64)}


class TokenShiftChannelMix(nn.Module):
    """Each token is mixed with the one before it; squared relu; a sigmoid receptance."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.mix_k, self.mix_r = nn.Parameter(torch.rand(1, 1, dim)), nn.Parameter(torch.rand(1, 1, dim))
        self.key = nn.Linear(dim, hidden, bias=False)
        self.value = nn.Linear(hidden, dim, bias=False)
        self.receptance = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        first = torch.zeros_like(x[:, :1]) if state is None else state.unsqueeze(1)
        shifted = torch.cat([first, x[:, :-1]], dim=1)
        k = torch.lerp(shifted, x, self.mix_k)
        r = torch.lerp(shifted, x, self.mix_r)
        return torch.sigmoid(self.receptance(r)) * self.value(torch.relu(self.key(k)) ** 2), x[:, -1]


@entry("token_shift_channel_mix", "bfloat16")
def token_shift_channel_mix() -> Case:
    return TokenShiftChannelMix(128, 448), (torch.randn(3, 40, 128),), {"state": torch.randn(3, 128)}


class SoftExperts(nn.Module):
    """Every expert runs; a softmax router weighs them; a balance loss and the router's entropy come along."""

    def __init__(self, dim: int, hidden: int, experts: int) -> None:
        super().__init__()
        self.router = nn.Linear(dim, experts, bias=False)
        self.w_in = nn.Parameter(torch.randn(experts, dim, hidden) * dim**-0.5)
        self.w_out = nn.Parameter(torch.randn(experts, hidden, dim) * hidden**-0.5)
        self.b_in = nn.Parameter(torch.zeros(experts, hidden))

    def forward(self, x: Tensor, temperature: float = 1.0) -> tuple[Tensor, dict[str, Tensor]]:
        logits = self.router(x).float() / temperature
        gates = logits.softmax(dim=-1)
        hidden = F.gelu(torch.einsum("bsd,edh->besh", x, self.w_in) + self.b_in[:, None])
        experts = torch.einsum("besh,ehd->besd", hidden, self.w_out)
        mixed = torch.einsum("besd,bse->bsd", experts, gates.to(x.dtype))
        density = gates.mean(dim=(0, 1))
        balance = density.square().sum() * gates.shape[-1]
        entropy = -(gates * logits.log_softmax(dim=-1)).sum(-1).mean()
        return mixed, {"balance": balance, "entropy": entropy}


@entry("soft_experts", "bfloat16")
def soft_experts() -> Case:
    return SoftExperts(96, 192, 4), (torch.randn(2, 32, 96),), {"temperature": 0.7}
