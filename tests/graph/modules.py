"""Small modules of common kinds, for tests of graphs."""

import dataclasses
from collections import namedtuple
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F

Both = namedtuple("Both", ["scores", "context"])


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    loss: torch.Tensor | None = None


class Norm(nn.Module):
    """RMS norm with casts, as in language models."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * h.to(x.dtype)


def half_turned(x: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, dim=-1)
    return torch.cat((-right, left), dim=-1)


class Decoder(nn.Module):
    """A decoder layer with rotary embedding, grouped queries and a gated MLP."""

    def __init__(self, d: int = 64, heads: int = 4, kv: int = 2, hidden: int = 96) -> None:
        super().__init__()
        self.heads, self.kv, self.each = heads, kv, d // heads
        self.q, self.k = nn.Linear(d, d, bias=False), nn.Linear(d, kv * self.each, bias=False)
        self.v, self.o = nn.Linear(d, kv * self.each, bias=False), nn.Linear(d, d, bias=False)
        self.gate, self.up = nn.Linear(d, hidden, bias=False), nn.Linear(d, hidden, bias=False)
        self.down = nn.Linear(hidden, d, bias=False)
        self.first, self.second = Norm(d), Norm(d)
        inverse = 1.0 / 10000 ** (torch.arange(0, self.each, 2).float() / self.each)
        self.register_buffer("inverse", inverse, persistent=False)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        b, s, _ = x.shape
        angles = torch.arange(s, device=x.device).float()[:, None] * self.inverse
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        h = self.first(x)
        q = self.q(h).view(b, s, self.heads, self.each).transpose(1, 2)
        k = self.k(h).view(b, s, self.kv, self.each).transpose(1, 2)
        v = self.v(h).view(b, s, self.kv, self.each).transpose(1, 2)
        q, k = q * cos + half_turned(q) * sin, k * cos + half_turned(k) * sin
        k, v = (t.repeat_interleave(self.heads // self.kv, dim=1) for t in (k, v))
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        x = x + self.o(a.transpose(1, 2).reshape(b, s, -1))
        h = self.second(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class ViT(nn.Module):
    def __init__(self, d: int = 48, heads: int = 3) -> None:
        super().__init__()
        self.heads, self.each = heads, d // heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.a, self.b = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).reshape(b, n, 3, self.heads, self.each).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1) * self.each**-0.5).softmax(dim=-1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.b(F.gelu(self.a(self.n2(x))))


class ConvNeXt(nn.Module):
    def __init__(self, d: int = 32) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(d, d, 7, padding=3, groups=d)
        self.norm, self.a, self.b = nn.LayerNorm(d, eps=1e-6), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.scale = nn.Parameter(1e-1 * torch.ones(d))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + (self.scale * self.b(F.gelu(self.a(h)))).permute(0, 3, 1, 2)


class Bottleneck(nn.Module):
    def __init__(self, channels: int = 16, planes: int = 8, stride: int = 2) -> None:
        super().__init__()
        out = 4 * planes
        self.c1, self.b1 = nn.Conv2d(channels, planes, 1, bias=False), nn.BatchNorm2d(planes)
        self.c2, self.b2 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False), nn.BatchNorm2d(planes)
        self.c3, self.b3 = nn.Conv2d(planes, out, 1, bias=False), nn.BatchNorm2d(out)
        self.side = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.b1(self.c1(x)))
        h = F.relu(self.b2(self.c2(h)))
        return F.relu(self.b3(self.c3(h)) + self.side(x))


class Swin(nn.Module):
    """Window attention after a roll, with a table of relative positions and a mask."""

    def __init__(self, d: int = 32, heads: int = 2, window: int = 4, shift: int = 2, size: int = 8) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.norm, self.qkv, self.out = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.table = nn.Parameter(0.02 * torch.randn((2 * window - 1) ** 2, heads))
        grid = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(
            1
        )
        relative = (grid[:, :, None] - grid[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("place", relative[..., 0] * (2 * window - 1) + relative[..., 1])
        label = torch.zeros(size, size)
        for i, rows in enumerate((slice(0, -window), slice(-window, -shift), slice(-shift, None))):
            for j, columns in enumerate((slice(0, -window), slice(-window, -shift), slice(-shift, None))):
                label[rows, columns] = 3 * i + j
        flat = (
            label.view(size // window, window, size // window, window).transpose(1, 2).reshape(-1, window**2)
        )
        self.register_buffer("mask", torch.where(flat[:, None] == flat[:, :, None], 0.0, -100.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, height, width, d = x.shape
        w, n = self.window, self.window**2
        h = torch.roll(self.norm(x), (-self.shift, -self.shift), (1, 2))
        h = h.view(b, height // w, w, width // w, w, d).transpose(2, 3).reshape(-1, n, d)
        qkv = self.qkv(h).view(-1, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        bias = self.table[self.place.view(-1)].view(n, n, -1).permute(2, 0, 1)
        scores = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5 + bias
        windows = self.mask.shape[0]
        scores = scores.view(b, windows, self.heads, n, n) + self.mask[:, None]
        h = (scores.view(-1, self.heads, n, n).softmax(-1) @ v).transpose(1, 2).reshape(-1, n, d)
        h = self.out(h).view(b, height // w, width // w, w, w, d).transpose(2, 3).reshape(b, height, width, d)
        return x + torch.roll(h, (self.shift, self.shift), (1, 2))


class GRU(nn.Module):
    def __init__(self, d: int = 24, hidden: int = 40) -> None:
        super().__init__()
        self.cell = nn.GRUCell(d, hidden)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return self.cell(x, h)


class Diffusion(nn.Module):
    """The residual block of a diffusion model: group norm, silu, convolution, twice, with a time embedding added."""

    def __init__(self, channels: int = 32, out: int = 48, time: int = 40) -> None:
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(8, channels), nn.Conv2d(channels, out, 3, padding=1)
        self.time = nn.Linear(time, out)
        self.n2, self.c2 = nn.GroupNorm(8, out), nn.Conv2d(out, out, 3, padding=1)
        self.side = nn.Conv2d(channels, out, 1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        h = self.c1(F.silu(self.n1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.side(x) + self.c2(F.silu(self.n2(h)))


class Language(nn.Module):
    """Embedding, head, loss; returns a dataclass."""

    def __init__(self, vocabulary: int = 101, d: int = 32) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(vocabulary, d), nn.Linear(d, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor | None = None) -> Output:
        logits = self.head(self.embed(ids))
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())
        return Output(logits, loss)


class Einsum(nn.Module):
    def __init__(self, heads: int = 3, d: int = 24, each: int = 8) -> None:
        super().__init__()
        self.q = nn.Parameter(torch.randn(heads, d, each) * 0.2)
        self.k = nn.Parameter(torch.randn(heads, d, each) * 0.2)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Both:
        scores = torch.einsum("bnd,hde,hfe,bmf->bhnm", x, self.q, self.k, y)
        return Both(scores.softmax(-1), torch.einsum("bhnm,bmf->bnhf", scores, y))


def examples() -> dict[str, tuple[nn.Module, tuple[Any, ...]]]:
    """Each module with arguments, in eval mode, weights drawn under seed 0."""
    torch.manual_seed(0)
    return {
        "decoder": (Decoder().eval(), (torch.randn(2, 10, 64),)),
        "vit": (ViT().eval(), (torch.randn(2, 17, 48),)),
        "convnext": (ConvNeXt().eval(), (torch.randn(2, 32, 14, 14),)),
        "bottleneck": (Bottleneck().eval(), (torch.randn(2, 16, 12, 12),)),
        "swin": (Swin().eval(), (torch.randn(2, 8, 8, 32),)),
        "gru": (GRU().eval(), (torch.randn(5, 24), torch.randn(5, 40))),
        "diffusion": (Diffusion().eval(), (torch.randn(2, 32, 8, 8), torch.randn(2, 40))),
        "language": (Language().eval(), (torch.randint(0, 101, (3, 12)), torch.randint(0, 101, (3, 12)))),
        "einsum": (Einsum().eval(), (torch.randn(2, 9, 24), torch.randn(2, 7, 24))),
    }
