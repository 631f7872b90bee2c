"""Recurrences and sequence mixers: GRU, state-space chunks, CRF, short convolution with state, audio stack."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from own_modules.registry import Case, entry


class LayerNormGRU(nn.Module):
    """A GRU cell with layer norms on its gates, unrolled over a short window."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.w_x, self.w_h = nn.Linear(inputs, 3 * hidden), nn.Linear(hidden, 3 * hidden, bias=False)
        self.norm = nn.LayerNorm(2 * hidden)

    def cell(self, x: Tensor, h: Tensor) -> Tensor:
        gx, gh = self.w_x(x), self.w_h(h)
        gates = self.norm(gx[..., : 2 * self.hidden] + gh[..., : 2 * self.hidden]).sigmoid()
        reset, update = gates.chunk(2, dim=-1)
        new = torch.tanh(gx[..., 2 * self.hidden :] + reset * gh[..., 2 * self.hidden :])
        return torch.lerp(new, h, update)

    def forward(self, sequence: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if h is None:
            h = sequence.new_zeros(sequence.shape[0], self.hidden)
        outputs = []
        for x in sequence.unbind(1):
            h = self.cell(x, h)
            outputs.append(h)
        return torch.stack(outputs, dim=1), h


@entry("layer_norm_gru", "float32")
def layer_norm_gru() -> Case:
    return LayerNormGRU(48, 64), (torch.randn(6, 5, 48),), {}


def segment_sums(a: Tensor) -> Tensor:
    """(..., t) to (..., t, t): sums of a over (j, i], -inf above the diagonal."""
    length = a.shape[-1]
    total = a.cumsum(dim=-1)
    sums = total[..., :, None] - total[..., None, :]
    mask = torch.ones(length, length, dtype=torch.bool, device=a.device).tril()
    return sums.masked_fill(~mask, float("-inf"))


class StateSpaceChunk(nn.Module):
    """One chunk of a selective state-space scan in its quadratic form, with the state that leaves it."""

    def __init__(self, heads: int, dim: int, state: int) -> None:
        super().__init__()
        self.heads, self.dim, self.state = heads, dim, state
        self.in_proj = nn.Linear(heads * dim, heads * dim + 2 * state + heads)
        self.a_log = nn.Parameter(torch.log(torch.linspace(1, 8, heads)))
        self.dt_bias = nn.Parameter(torch.randn(heads) * 0.1)
        self.skip = nn.Parameter(torch.ones(heads))

    def forward(self, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        sizes = [self.heads * self.dim, self.state, self.state, self.heads]
        x, b, c, dt = self.in_proj(u).split(sizes, dim=-1)
        dt = F.softplus(dt + self.dt_bias)
        x = x.unflatten(-1, (self.heads, self.dim))
        decay = (dt * -self.a_log.exp()).transpose(1, 2)
        within = segment_sums(decay).exp()
        weighted = x * dt[..., None]
        y = torch.einsum("bin,bjn,bhij,bjhd->bihd", c, b, within, weighted)
        carried = decay.cumsum(-1).exp()
        y = y + torch.einsum("bin,bhdn,bhi->bihd", c, state, carried)
        leaving = (decay.sum(-1, keepdim=True) - decay.cumsum(-1)).exp()
        new = state * carried[..., -1:, None] + torch.einsum("bjn,bhj,bjhd->bhdn", b, leaving, weighted)
        return (y + x * self.skip[:, None]).flatten(-2), new


@entry("state_space_chunk", "float32")
def state_space_chunk() -> Case:
    return StateSpaceChunk(4, 16, 24), (torch.randn(2, 32, 64), torch.randn(2, 4, 16, 24)), {}


class LinearChainCRF(nn.Module):
    """Negative log likelihood of tags under a linear-chain CRF: the forward recursion, by logsumexp, with a mask."""

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.randn(tags, tags) * 0.3)
        self.start, self.end = nn.Parameter(torch.randn(tags) * 0.3), nn.Parameter(torch.randn(tags) * 0.3)

    def normaliser(self, emissions: Tensor, mask: Tensor) -> Tensor:
        alpha = self.start + emissions[:, 0]
        for step in range(1, emissions.shape[1]):
            scores = alpha[:, :, None] + self.transitions + emissions[:, step, None, :]
            alpha = torch.where(mask[:, step, None], torch.logsumexp(scores, dim=1), alpha)
        return torch.logsumexp(alpha + self.end, dim=-1)

    def score(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        picked = emissions.gather(-1, tags[..., None]).squeeze(-1)
        moves = self.transitions[tags[:, :-1], tags[:, 1:]]
        last = tags.gather(1, mask.sum(1, keepdim=True) - 1).squeeze(1)
        steps = mask[:, 1:].to(emissions.dtype)
        return (
            self.start[tags[:, 0]] + picked[:, 0] + ((picked[:, 1:] + moves) * steps).sum(1) + self.end[last]
        )

    def forward(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        return (self.normaliser(emissions, mask) - self.score(emissions, tags, mask)).mean()


@entry("linear_chain_crf", "float32")
def linear_chain_crf() -> Case:
    mask = torch.arange(7)[None] < torch.tensor([7, 5, 3, 6])[:, None]
    tags = torch.randint(0, 11, (4, 7))
    return LinearChainCRF(11), (torch.randn(4, 7, 11), tags), {"mask": mask}


class ShortConvMixer(nn.Module):
    """A gated causal depthwise convolution that takes and returns its last inputs."""

    def __init__(self, dim: int, kernel: int = 4) -> None:
        super().__init__()
        self.kernel = kernel
        self.in_proj = nn.Linear(dim, 3 * dim, bias=False)
        self.conv = nn.Conv1d(dim, dim, kernel, groups=dim, bias=True)
        self.out_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor, cache: Tensor) -> tuple[Tensor, Tensor]:
        b, c, value = self.in_proj(x).chunk(3, dim=-1)
        gated = torch.cat((cache, (b * value).transpose(1, 2)), dim=-1)
        mixed = F.silu(self.conv(gated)).transpose(1, 2)
        return self.out_proj(c * mixed), gated[..., -(self.kernel - 1) :]


@entry("short_conv_mixer", "bfloat16")
def short_conv_mixer() -> Case:
    return ShortConvMixer(112), (torch.randn(2, 45, 112), torch.randn(2, 112, 3)), {}


class AudioResidualStack(nn.Module):
    """Weight-normalised dilated convolutions with leaky relus, each with its residual, after a transposed one."""

    def __init__(self, channels: int, dilations: tuple[int, ...] = (1, 3, 5)) -> None:
        super().__init__()
        half = channels // 2
        self.raise_ = weight_norm(nn.ConvTranspose1d(channels, half, 8, stride=4, padding=2))
        self.convs = nn.ModuleList(
            weight_norm(nn.Conv1d(half, half, 3, padding=d, dilation=d)) for d in dilations
        )
        self.post = weight_norm(nn.Conv1d(half, 1, 7, padding=3))

    def forward(self, mel: Tensor) -> Tensor:
        x = self.raise_(F.leaky_relu(mel, 0.1))
        for conv in self.convs:
            x = x + conv(F.leaky_relu(x, 0.1))
        return torch.tanh(self.post(F.leaky_relu(x)))


@entry("weight_norm_audio_stack", "float32")
def weight_norm_audio_stack() -> Case:
    return AudioResidualStack(32), (torch.randn(2, 32, 40),), {}
