"""Layers of networks: feed-forwards, norms in their spellings, convolutions and what stands around them."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from everyday.register import BF16, FP16, module

# Feed-forwards


@module("2 20 32", "80 32", "80 32", "32 80")
def swiglu_three_linears(x, gate, up, down):
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


@module("2 20 32", "32 160", "160", "80 32")
def geglu_packed_projection(x, w_in, b_in, w_out):
    hidden, gate = (x @ w_in + b_in).chunk(2, dim=-1)
    return x + (hidden * F.gelu(gate)) @ w_out


@module("2 20 32", "96 32", "32 96", "32")
def squared_relu_feed_forward(x, up, down, weight):
    y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight
    return F.linear(torch.pow(F.relu(F.linear(y, up)), 2), down).add(x)


@module("2 20 32", "32 48", "32 48", "48 32", "2 1 32")
def reglu_with_modulated_branch(x, a, b, c, gate):
    y = torch.matmul(torch.relu(torch.matmul(x, a)) * torch.matmul(x, b), c)
    return x + gate.tanh() * y


@module("40 24", "24 6", "6 24 36", "6 36 24")
def dense_mixture_of_experts(x, router, up, down):
    p = torch.softmax(x @ router, dim=-1)
    h = F.gelu(torch.einsum("nd,edf->enf", x, up), approximate="tanh")
    return torch.einsum("ne,enf,efd->nd", p, h, down)


@module("40 24", "6 24")
def top2_routing_weights(x, router):
    logits = F.linear(x, router)
    top, at = logits.softmax(dim=-1).topk(2, dim=-1)
    gates = top / top.sum(-1, keepdim=True)
    return torch.zeros_like(logits).scatter(1, at, gates), at


@module("40 6", "40 6:probability")
def expert_balance_loss(logits, p):
    chosen = F.one_hot(logits.argmax(dim=-1), 6).float()
    return 6 * (chosen.mean(0) * p.mean(0)).sum() + 1e-3 * logits.logsumexp(dim=-1).square().mean()


@module("40 16", "16 5", "5", "5 16 12")
def noisy_sigmoid_router(x, w, bias, experts):
    score = torch.sigmoid(x @ w)
    kept = score * ((score + bias) >= (score + bias).kthvalue(4, dim=-1, keepdim=True).values)
    kept = kept / kept.sum(-1, keepdim=True).clamp_min(1e-9) * 2.5
    return torch.bmm((x.unsqueeze(0) * kept.t().unsqueeze(-1)), experts).sum(dim=0)


@module("30 20", "20 4", "4 3 20")
def soft_mixture_slots(x, phi_scale, phi):
    logits = torch.einsum("nd,esd->nes", F.normalize(x, dim=1), phi) + (x @ phi_scale).unsqueeze(-1)
    dispatch, combine = logits.softmax(dim=0), logits.flatten(1).softmax(dim=1).view_as(logits)
    slots = torch.einsum("nes,nd->esd", dispatch, x)
    return torch.einsum("nes,esd->nd", combine, slots.tanh())


@module("2 18 24", "24 36", "36", "36 24", "24")
def conformer_half_step_feed_forward(x, w1, b1, w2, b2):
    y = F.layer_norm(x, (24,))
    y = torch.addmm(b1, y.view(-1, 24), w1)
    y = torch.addmm(b2, y * torch.sigmoid(y), w2)
    return x + 0.5 * y.view(2, 18, 24)


@module("2 18 16", "18 18", "18", "16 40", "40 16")
def mixer_layer_both_ways(x, w_tokens, b_tokens, w_up, w_down):
    y = F.layer_norm(x, [16]).transpose(1, 2)
    x = x + F.gelu(y @ w_tokens + b_tokens).transpose(1, 2)
    return x + F.gelu(F.layer_norm(x, [16]) @ w_up) @ w_down


@module("2 18 32", "18 18", "18")
def spatial_gating_unit(x, w, b):
    u, v = x.split(16, dim=-1)
    v = F.layer_norm(v, (16,))
    return u * (torch.einsum("ij,bjd->bid", w, v) + b[:, None])


@module("2 18 24", "24", "24", "24 48", "48 24")
def rwkv_channel_mix(x, mix_k, mix_r, wk, wv):
    before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
    k = torch.square(torch.relu((x * mix_k + before * (1 - mix_k)) @ wk))
    return torch.sigmoid(x * mix_r + before * (1 - mix_r)) * (k @ wv)


@module("16 24", "24 4", "4 24", "24")
def adapter_with_near_identity_start(x, down, up, scale):
    return torch.lerp(x, x + F.leaky_relu(x @ down, 0.1) @ up, torch.sigmoid(scale))


@module("16 20", "30 20", "30", "5 20", "30 5", "30")
def dora_weight_decomposition(x, w, bias, a, b, magnitude):
    whole = w + 2.0 * (b @ a)
    return F.linear(x, whole * (magnitude / whole.norm(p=2, dim=1)).unsqueeze(1), bias)


@module("16 12", "5 12 9")
def kan_spline_layer(x, coefficients):
    grid = torch.linspace(-2, 2, 5, device=x.device)
    basis = torch.exp(-(((x.unsqueeze(-1) - grid) / 1.0) ** 2))
    return torch.einsum("bik,kio->bo", basis, coefficients) + F.silu(x).sum(1, keepdim=True)


# Norms


@module("2 12 40", "40", "40", dtype=BF16)
def layer_norm_in_float_and_back(x, weight, bias):
    y = x.float()
    y = y - y.mean(dim=-1, keepdim=True)
    y = y * torch.rsqrt(y.pow(2).mean(dim=-1, keepdim=True) + 1e-5)
    return y.to(x.dtype) * weight + bias


@module("2 12 40", "40")
def root_mean_square_by_norm(x, gain):
    rms = torch.linalg.vector_norm(x, dim=-1, keepdim=True) * 40**-0.5
    return x / (rms + 1e-8) * gain


@module("2 12 40", "2 12 40", "40", "40 40")
def pre_norm_carrying_residual(x, residual, weight, w):
    residual = residual + x
    y = residual * torch.rsqrt(residual.square().mean(-1, True) + 1e-6)
    return (weight * y) @ w, residual


@module("2 12 40", "10")
def rms_norm_within_groups(x, weight):
    y = x.unflatten(-1, (4, 10))
    y = y / torch.sqrt(torch.mean(y * y, dim=-1, keepdim=True) + 1e-5)
    return (y * weight).flatten(2)


@module("3 12 40", "40 1")
def power_norm_by_percentage(x, weight):
    part = x[..., :10]
    rms = part.norm(2, dim=-1, keepdim=True) / math.sqrt(10)
    return (x / (rms + 1e-8)).transpose(1, 2) * weight


@module("3 24 5 7", "24", "24")
def group_norm_then_swish(x, w, b):
    y = F.group_norm(x, 6, w, b, eps=1e-6)
    return y * y.sigmoid()


@module("3 24 5 7", "24", "24")
def group_norm_var_mean(x, w, b):
    y = x.view(3, 4, -1)
    var, mean = torch.var_mean(y, dim=-1, unbiased=False, keepdim=True)
    y = (y - mean).div(var.add(1e-5).sqrt()).view_as(x)
    return torch.addcmul(b.view(1, 24, 1, 1), y, w.view(1, 24, 1, 1))


@module("3 24 5 7", "3 48")
def instance_norm_conditioned(x, style):
    mean = x.mean(dim=[2, 3], keepdim=True)
    std = x.std(dim=[2, 3], keepdim=True) + 1e-5
    gamma, beta = style[:, :, None, None].chunk(2, dim=1)
    return (x - mean) / std * (1 + gamma) + beta


@module("8 24 5 7", "24", "24")
def batch_statistics_by_hand(x, gamma, beta):
    mean = x.mean(dim=(0, 2, 3))
    centred = x - mean[None, :, None, None]
    var = centred.pow(2).mean(dim=(0, 2, 3))
    scale = gamma * torch.rsqrt(var + 1e-3)
    return centred * scale.view(-1, 1, 1) + beta.view(-1, 1, 1), 0.9 * mean, 0.9 * var


@module("2 12 5 7", "16 12 3 3", "16", "16")
def weight_standardised_convolution(x, w, gain, bias):
    mean, var = w.mean(dim=(1, 2, 3), keepdim=True), w.var(dim=(1, 2, 3), keepdim=True)
    w = (w - mean) * torch.rsqrt(torch.clamp(var * 108, min=1e-4)) * gain.view(-1, 1, 1, 1)
    return F.conv2d(x, w, bias, padding=1)


@module("2 10 24", "2 24", "24 144", "144")
def ada_norm_zero_six_ways(x, condition, w, b):
    six = (F.silu(condition) @ w + b).unsqueeze(1)
    shift, scale, gate, shift2, scale2, gate2 = six.chunk(6, dim=2)
    x = x + gate * (F.layer_norm(x, (24,), eps=1e-6) * (1 + scale) + shift)
    return x + gate2 * torch.tanh(F.layer_norm(x, (24,), eps=1e-6) * (1 + scale2) + shift2)


@module("2 24 30", "2 16", "48 16", "48")
def film_on_sequence_channels(x, condition, w, b):
    gamma, beta = F.linear(condition, w, b).view(2, 2, 24, 1).unbind(dim=1)
    return F.leaky_relu(gamma * x + beta, 0.2)


@module("2 6 8 24", "24", "24")
def global_response_norm_channels_last(x, gamma, beta):
    spread = torch.linalg.vector_norm(x, ord=2, dim=(1, 2), keepdim=True)
    return x + gamma * (x * (spread / (spread.mean(dim=-1, keepdim=True) + 1e-6))) + beta


@module("2 16 5 7", "1 16 5 7", "1 16 5 7")
def layer_norm_over_whole_image(x, weight, bias):
    flat = x.flatten(1)
    flat = (flat - flat.mean(1, keepdim=True)) / flat.std(1, unbiased=False, keepdim=True).clamp(min=1e-6)
    return flat.view_as(x) * weight + bias


@module("6 20", "20", "20", "6 20")
def batch_renormalised_features(x, running_mean, running_std, other):
    std = (x.var(0, unbiased=False) + 1e-5).sqrt()
    r = (std / running_std.abs().clamp(min=0.1)).clamp(1 / 3, 3)
    d = ((x.mean(0) - running_mean) / running_std.abs().clamp(min=0.1)).clamp(-5, 5)
    return (x - x.mean(0)) / std * r + d - other


@module("2 24 4 6", "24 24")
def decorrelated_whitening(x, w):
    y = x.transpose(0, 1).flatten(1)
    y = y - y.mean(-1, keepdim=True)
    sigma = y @ y.t() / y.shape[1] + 1e-3 * torch.eye(24, device=x.device)
    sigma = sigma / torch.diagonal(sigma).sum()
    p = 1.5 * w - 0.5 * w @ w @ w @ sigma
    return (p @ y).view(24, 2, 4, 6).transpose(0, 1)


@module("2 3 15 8", "3", "8")
def norm_per_head_then_merge(x, gain, bias):
    y = x - x.mean((2, 3), keepdim=True)
    y = y / y.abs().mean((2, 3), keepdim=True)
    return (y * gain[:, None, None] + bias).permute(0, 2, 1, 3).flatten(2)


@module("2 10 24", "2 10 24", "24")
def deep_norm_post_residual(x, branch, weight):
    return F.layer_norm(torch.add(branch, x, alpha=1.73), (24,), weight)


@module("2 16 6 8", "16 1 1", "2 16 6 8")
def layer_scale_and_survival(x, gamma, branch):
    keep = 0.9
    return x + branch.mul(gamma).mul(keep)


class EvalDropPathBlock(nn.Module):
    def __init__(self, dim, rate):
        super().__init__()
        self.rate, self.norm, self.drop = rate, nn.LayerNorm(dim), nn.Dropout(rate)
        self.fc1, self.fc2 = nn.Linear(dim, 3 * dim), nn.Linear(3 * dim, dim)
        self.gamma = nn.Parameter(torch.full((dim,), 1e-1))

    def drop_path(self, x):
        if not self.training:
            return x
        keep = torch.rand(x.shape[0], 1, 1, device=x.device) > self.rate
        return x * keep / (1 - self.rate)

    def forward(self, x):
        return x + self.drop_path(self.gamma * self.drop(self.fc2(F.hardswish(self.fc1(self.norm(x))))))


module("2 9 20", init=(20, 0.1))(EvalDropPathBlock)


@module("8 256 1024", "1024", dtype=BF16)
def rms_norm_llama(x, weight):
    h = x.to(torch.float32)
    variance = h.pow(2).mean(-1, keepdim=True)
    h = h * torch.rsqrt(variance + 1e-6)
    return weight * h.to(x.dtype)


@module("4 128 2048", "2048", dtype=BF16)
def rms_norm_gemma(x, weight):
    y = x.float()
    y = y / torch.sqrt(torch.mean(y * y, dim=-1, keepdim=True) + 1e-5)
    return (y * (1.0 + weight.float())).type_as(x)


@module("16 64 512", "512", "512")
def layer_norm_by_hand(x, g, b):
    mu = x.mean(dim=-1, keepdim=True)
    centred = x - mu
    std = (centred * centred).mean(dim=-1, keepdim=True).sqrt()
    return g * centred / (std + 1e-5) + b


@module("8 128 768", "8 128 768", "768", "768", dtype=FP16)
def add_layer_norm_dropout(x, residual, weight, bias):
    x = F.dropout(x, p=0.1, training=False)
    total = x + residual
    return F.layer_norm(total, (768,), weight, bias, eps=1e-12), total


@module("8 512 384", "8 384", "8 384", dtype=BF16)
def ada_layer_norm_modulate(x, shift, scale):
    normed = F.layer_norm(x, x.shape[-1:], eps=1e-6)
    return normed * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


@module("8 256 1152", "8 6 1152", "6 1152", "8 256 1152", dtype=BF16)
def ada_norm_single_gate(x, time, table, branch):
    mods = table[None] + time
    shift, scale, gate = mods[:, 0:1], mods[:, 1:2], mods[:, 2:3]
    x = x + gate * branch
    return F.layer_norm(x, [1152], None, None, 1e-6) * (1 + scale) + shift


@module("4 64 48 48", "64", "64")
def layer_norm_channels_first(x, weight, bias):
    u = x.mean(1, keepdim=True)
    s = (x - u).pow(2).mean(1, keepdim=True)
    x = (x - u) / torch.sqrt(s + 1e-6)
    return weight[:, None, None] * x + bias[:, None, None]


@module("8 128 32 32", "128", "128", dtype=BF16)
def group_norm_by_reshape(x, gamma, beta):
    n, c, h, w = x.shape
    g = x.reshape(n, 32, c // 32, h, w)
    mean = g.mean(dim=(2, 3, 4), keepdim=True)
    var = g.var(dim=(2, 3, 4), keepdim=True, unbiased=False)
    g = (g - mean) * torch.rsqrt(var + 1e-6)
    return g.reshape(n, c, h, w) * gamma.view(1, c, 1, 1) + beta.view(1, c, 1, 1)


@module("4 256 24 24", "4 512", init=(256,))
class GroupNormFilm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(32, channels, eps=1e-6)

    def forward(self, x, embedding):
        scale, shift = embedding[:, :, None, None].chunk(2, dim=1)
        return F.silu(self.norm(x) * (1 + scale) + shift)


@module("8 64 64 64", "64", "64", dtype=FP16)
def instance_norm_leaky(x, weight, bias):
    y = F.instance_norm(x, weight=weight, bias=bias, eps=1e-5)
    return F.leaky_relu(y, 0.2)


@module("2 128 48 48", "2 128 48 48")
def adain(content, style):
    c_std, c_mean = torch.std_mean(content, dim=(2, 3), keepdim=True)
    s_std, s_mean = torch.std_mean(style, dim=(2, 3), keepdim=True)
    return (content - c_mean) / (c_std + 1e-5) * s_std + s_mean


@module("16 96 28 28", init=(96,))
class BatchNormRelu6Skip(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bn = nn.BatchNorm2d(width)
        self.scale = nn.Parameter(torch.full((width, 1, 1), 1e-2))

    def forward(self, x):
        return x + self.scale * F.relu6(self.bn(x))


@module("32 64 256", "64", "64", "64", "64:positive", dtype=BF16)
def batch_norm_1d_folded(x, mean, weight, bias, var):
    scale = weight * torch.rsqrt(var + 1e-3)
    shift = bias - mean * scale
    return F.elu(x * scale[:, None] + shift[:, None])


@module("16 512", "256 512", "256", "256")
def weight_normed_linear(x, v, g, bias):
    w = v * (g / v.norm(dim=1)).unsqueeze(1)
    return F.relu(F.linear(x, w, bias))


@module("512 128", "512")
def spectral_power_step(w, u):
    v = F.normalize(torch.mv(w.t(), u), dim=0, eps=1e-12)
    u = F.normalize(torch.mv(w, v), dim=0, eps=1e-12)
    return w / torch.dot(u, torch.mv(w, v))


@module("8 12 128 64", "8 12 128 64", "12 1 1", dtype=BF16)
def qk_l2_norm_scale(q, k, log_scale):
    q = q / q.norm(dim=-1, keepdim=True).clamp_min(1e-6)
    k = F.normalize(k, p=2.0, dim=-1)
    return q * log_scale.clamp(max=4.6).exp(), k


@module("256 1024:unit")
def l1_normalise_counts(x):
    total = x.sum(dim=1, keepdim=True)
    return torch.log1p(1e4 * x / (total + 1e-8))


@module("8 32 40 40", "1 32 1 1", "1 32 1 1", "1 32 1 1")
def filter_response_norm(x, gamma, beta, tau):
    nu2 = (x**2).mean(dim=[2, 3], keepdim=True)
    x = x * torch.rsqrt(nu2 + 1e-6)
    return torch.max(gamma * x + beta, tau)


@module("8 28 28 256", "256", "256", dtype=BF16)
def global_response_norm(x, gamma, beta):
    gx = torch.norm(x, p=2, dim=(1, 2), keepdim=True)
    nx = gx / (gx.mean(dim=-1, keepdim=True) + 1e-6)
    return gamma * (x * nx) + beta + x


@module("8 96 32 32", dtype=FP16)
def local_response_norm_channels(x):
    sq = F.pad(x.float().square(), (0, 0, 0, 0, 2, 2))
    total = sq[:, 0:96] + sq[:, 1:97] + sq[:, 2:98] + sq[:, 3:99] + sq[:, 4:100]
    return x / (1.0 + 2e-5 * total).pow(0.75).to(x.dtype)


@module("16 64 16 16")
def pixel_norm_leaky(x):
    y = F.leaky_relu(x, 0.2) * math.sqrt(2)
    return y / torch.sqrt(torch.mean(y**2, dim=1, keepdim=True) + 1e-8)


@module("4 128 4096", "4096", "4 128 4096", dtype=BF16)
def gated_rms_norm_mamba(x, weight, z):
    h = (x * F.silu(z)).float()
    h = h.unflatten(-1, (8, 512))
    h = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-5)
    return h.flatten(-2).to(x.dtype) * weight


@module("4 256 1024", "1024", "1024", dtype=BF16)
def sandwich_norm_residual(x, w1, w2):
    def norm(h, w):
        return F.rms_norm(h, (h.shape[-1],), w, 1e-6)

    return x + norm(F.gelu(norm(x, w1)), w2)


@module("64 768", "768", "768")
def layer_norm_no_bias_power(x, weight, temperature):
    y = F.layer_norm(x, (768,), weight)
    return y.abs().pow(0.5) * y.sign() / temperature.exp()


@module("32 49 192")
def zscore_over_tokens(x):
    std, mean = torch.std_mean(x, dim=1, unbiased=True, keepdim=True)
    return ((x - mean) / (std + 1e-4)).clamp(-5, 5)


@module("8 64 32 32", "8 64")
def switchable_norm(x, mix):
    m_in, v_in = x.mean((2, 3), keepdim=True), x.var((2, 3), keepdim=True)
    m_ln = m_in.mean(1, keepdim=True)
    v_ln = (v_in + m_in**2).mean(1, keepdim=True) - m_ln**2
    p = mix.sigmoid()[:, :, None, None]
    mean, var = p * m_in + (1 - p) * m_ln, p * v_in + (1 - p) * v_ln
    return (x - mean) / (var + 1e-5).sqrt()


@module("32 512", "32 512", dtype=FP16)
def scale_norm_sum(a, b):
    s = a + b
    n = torch.linalg.vector_norm(s, dim=-1, keepdim=True)
    return s * (22.6 / n.clamp(min=1e-5))


# Convolutions


class MobileInverted(nn.Module):
    def __init__(self, dim, grow):
        super().__init__()
        wide = dim * grow
        self.expand, self.bn1 = nn.Conv2d(dim, wide, 1, bias=False), nn.BatchNorm2d(wide)
        self.depth, self.bn2 = (
            nn.Conv2d(wide, wide, 5, padding=2, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
        )
        self.squeeze, self.excite = nn.Conv2d(wide, dim // 4, 1), nn.Conv2d(dim // 4, wide, 1)
        self.project, self.bn3 = nn.Conv2d(wide, dim, 1, bias=False), nn.BatchNorm2d(dim)

    def forward(self, x):
        y = F.silu(self.bn1(self.expand(x)))
        y = F.silu(self.bn2(self.depth(y)))
        y = y * self.excite(F.silu(self.squeeze(y.mean((2, 3), keepdim=True)))).sigmoid()
        return x + self.bn3(self.project(y))


module("2 16 9 11", init=(16, 4))(MobileInverted)


class BottleneckWithShortcut(nn.Module):
    def __init__(self, wide_in, mid, wide_out):
        super().__init__()
        self.c1, self.n1 = nn.Conv2d(wide_in, mid, 1, bias=False), nn.BatchNorm2d(mid)
        self.c2, self.n2 = nn.Conv2d(mid, mid, 3, 2, 1, bias=False), nn.BatchNorm2d(mid)
        self.c3, self.n3 = nn.Conv2d(mid, wide_out, 1, bias=False), nn.BatchNorm2d(wide_out)
        self.short = nn.Sequential(nn.Conv2d(wide_in, wide_out, 1, 2, bias=False), nn.BatchNorm2d(wide_out))

    def forward(self, x):
        y = self.n1(self.c1(x)).relu()
        y = torch.relu(self.n2(self.c2(y)))
        return torch.relu_(self.n3(self.c3(y)) + self.short(x))


module("2 16 10 12", init=(16, 8, 24))(BottleneckWithShortcut)


@module("2 16 9 11", "16 1 7 7", "16", "16", "16 64", "64 16", "16")
def convnext_in_functions(x, dw, w, b, up, down, gamma):
    y = F.conv2d(x, dw, padding=3, groups=16).permute(0, 2, 3, 1)
    y = F.layer_norm(y, (16,), w, b)
    y = gamma * (F.gelu(y @ up) @ down)
    return x + y.permute(0, 3, 1, 2)


@module("2 12 9 11", "8 12 1 1", "8 1 3 3")
def ghost_features(x, primary, cheap):
    first = F.relu(F.conv2d(x, primary))
    second = F.relu(F.conv2d(first, cheap, padding=1, groups=8))
    return torch.cat([first, second], dim=1)[:, :14]


@module("2 16 9 11", "8 8 1 1", "8 1 3 3", "8")
def shuffle_unit_split(x, point, depth, bias):
    keep, work = x.chunk(2, dim=1)
    work = F.conv2d(F.conv2d(work, point).relu(), depth, bias, padding=1, groups=8)
    y = torch.cat((keep, work.relu()), dim=1)
    return y.view(2, 2, 8, 9, 11).transpose(1, 2).reshape(2, 16, 9, 11)


@module("2 12 14 15", "6 12 1 1", "6 12 3 3", "6 12 3 3", "10 24")
def atrous_pyramid(x, a, b, c, mix):
    pooled = x.mean(dim=(2, 3), keepdim=True).expand(-1, -1, 14, 15)[:, :6]
    parts = [
        F.conv2d(x, a),
        F.conv2d(x, b, padding=2, dilation=2),
        F.conv2d(x, c, padding=4, dilation=4),
        pooled,
    ]
    return F.relu6(torch.einsum("oi,bihw->bohw", mix, torch.cat(parts, dim=1)))


@module("2 16 9 11", "4 16", "4", "16 4", "16")
def squeeze_excite_by_linears(x, w1, b1, w2, b2):
    s = x.flatten(2).mean(-1)
    s = F.hardsigmoid(F.linear(F.relu(F.linear(s, w1, b1)), w2, b2))
    return x * s[..., None, None]


@module("2 16 9 11", "1 1 3")
def efficient_channel_attention(x, w):
    s = x.mean(dim=(-2, -1)).unsqueeze(1)
    s = F.conv1d(s, w, padding=1).sigmoid()
    return x * s.transpose(1, 2).unsqueeze(-1)


@module("2 16 9 11", "4 16", "16 4", "1 2 7 7")
def channel_then_spatial_attention(x, w1, w2, w7):
    average, top = x.mean((2, 3)), x.amax((2, 3))
    channel = (F.relu(average @ w1.t()) @ w2.t() + F.relu(top @ w1.t()) @ w2.t()).sigmoid()
    x = x * channel.view(2, 16, 1, 1)
    where = torch.cat([x.mean(1, keepdim=True), x.max(1, keepdim=True)[0]], dim=1)
    return x * F.conv2d(where, w7, padding=3).sigmoid()


@module("2 16 8 10", "6 16", "16 6", "16 6")
def coordinate_attention(x, w, wh, ww):
    rows, columns = x.mean(3), x.mean(2)
    y = F.hardswish(torch.einsum("oc,bcl->bol", w, torch.cat([rows, columns], dim=2)))
    r, c = y.split([8, 10], dim=2)
    return x * (wh @ r).sigmoid().unsqueeze(3) * (ww @ c).sigmoid().unsqueeze(2)


@module("2 16 9 11", "16")
def parameter_free_energy_attention(x, gain):
    d = (x - x.mean(dim=[2, 3], keepdim=True)).pow(2)
    e = d / (4 * (d.sum(dim=[2, 3], keepdim=True) / 98 + 1e-4)) + 0.5
    return x * torch.sigmoid(e) * gain.reshape(16, 1, 1)


@module("2 12 7 9", "12 12", "4 12", "12 4")
def global_context_block(x, key, down, up):
    flat = x.flatten(2)
    weight = (key @ flat).mean(1).softmax(dim=-1)
    context = torch.bmm(flat, weight.unsqueeze(2)).squeeze(2)
    y = F.layer_norm(context @ down.t(), (4,)).relu() @ up.t()
    return x + y[:, :, None, None]


@module("2 8 9 11", "2 8 9 11", "5 8", "2 8 5")
def selective_kernel_fusion(a, b, down, up):
    s = F.relu((a + b).mean([2, 3]) @ down.t())
    weight = torch.einsum("kcd,bd->bkc", up, s).softmax(dim=1)
    return (torch.stack([a, b], dim=1) * weight[..., None, None]).sum(dim=1)


@module("2 8 6 7", "2 5 12 14", "6 13 3 3", "6")
def unet_join_nearest(deep, skip, w, bias):
    up = F.interpolate(deep, scale_factor=2.0, mode="nearest")
    return F.elu(F.conv2d(torch.cat([skip, up], dim=1), w, bias, padding=1))


@module("2 8 6 7", "8 4 2 2", "2 4 13 14", "4 8 1 1")
def unet_join_deconvolution_padded(deep, up, skip, w):
    y = F.conv_transpose2d(deep, up, stride=2)
    y = F.pad(y, [0, skip.shape[3] - y.shape[3], 0, skip.shape[2] - y.shape[2]])
    return F.leaky_relu(F.conv2d(torch.cat((y, skip), 1), w), 0.01)


@module("2 8 6 7", "2 4 6 7", "5 8", "5 4", "5")
def attention_gate_on_skip(x, g, wx, wg, psi):
    joint = torch.einsum("oc,bchw->bohw", wx, x) + torch.einsum("oc,bchw->bohw", wg, g)
    return x * torch.einsum("o,bohw->bhw", psi, joint.relu()).sigmoid().unsqueeze(1)


@module("2 8 9 11", "12 8 3 3", "12")
def sub_pixel_upsampling(x, w, b):
    y = F.conv2d(x, w, b, padding=1).view(2, 3, 2, 2, 9, 11)
    return y.permute(0, 1, 4, 2, 5, 3).reshape(2, 3, 18, 22).clamp(0, 1)


@module("2 6 8 10", "12 24", "12")
def patch_merging_layer(x, w, g):
    parts = [x[:, :, 0::2, 0::2], x[:, :, 1::2, 0::2], x[:, :, 0::2, 1::2], x[:, :, 1::2, 1::2]]
    y = torch.cat(parts, dim=1).permute(0, 2, 3, 1).flatten(1, 2)
    return F.linear(F.layer_norm(y, [24]), w) * g


@module("2 3 16 24", "20 3 4 4", "20", "25 20", "20")
def patch_embedding_with_class(x, w, b, positions, cls):
    y = F.conv2d(x, w, b, stride=4).flatten(2).transpose(1, 2)
    return torch.cat([cls.expand(2, 1, -1), y], dim=1) + positions


@module("2 3 4 8 12", "24 3 2 4 4", "24")
def tubelet_embedding(x, w, position):
    y = F.conv3d(x, w, stride=(2, 4, 4))
    return F.layer_norm(y.flatten(3).permute(0, 2, 3, 1), (24,)) + position


@module("2 8 6 7", "8 6 4 4", "6", "6")
def deconvolution_norm_relu(x, w, scale, shift):
    y = F.conv_transpose2d(x, w, stride=2, padding=1)
    return (y * scale[None, :, None, None] + shift[None, :, None, None]).relu()


@module("2 8 9 11", "16 8 1 1", "16 1 1 5", "16 1 5 1", "8 16 1 1")
def strip_convolutions_as_gate(x, expand, across, down, project):
    y = F.gelu(F.conv2d(x, expand))
    a = F.conv2d(F.conv2d(y, across, padding=(0, 2), groups=16), down, padding=(2, 0), groups=16)
    return x + F.conv2d(a * y, project)


@module("2 8 9 11", "8 8 3 3", "8 8 1 1", "8", "8", "8")
def reparameterised_three_branches(x, w3, w1, a, b, c):
    y = F.conv2d(x, w3, padding=1) * a.view(8, 1, 1) + F.conv2d(x, w1) * b.view(8, 1, 1) + x * c.view(8, 1, 1)
    return F.relu(y)


@module("2 8 9 11", "2 36 9 11")
def involution_by_unfold(x, kernel):
    patches = F.unfold(x, 3, padding=1).view(2, 4, 2, 9, 9, 11)
    return (kernel.view(2, 4, 1, 9, 9, 11) * patches).sum(dim=3).view(2, 8, 9, 11)


@module("2 3", "3 6 8 3 3", "2 8 9 11")
def dynamic_convolution_of_mixed_kernels(logits, kernels, x):
    w = torch.einsum("bk,koihw->boihw", (logits / 3.0).softmax(1), kernels)
    y = F.conv2d(x.reshape(1, 16, 9, 11), w.reshape(12, 8, 3, 3), padding=1, groups=2)
    return y.view(2, 6, 9, 11)


@module("2 8 6 6", "6 8 3 3", "2 8")
def modulated_convolution_demodulated(x, w, style):
    scaled = w.unsqueeze(0) * (style + 1).view(2, 1, 8, 1, 1)
    demodulate = torch.rsqrt(scaled.square().sum(dim=[2, 3, 4]) + 1e-8)
    return F.conv2d(x * (style + 1).view(2, 8, 1, 1), w, padding=1) * demodulate[:, :, None, None]


@module("2 12 30", "12 12 3", "12 12 1", "12")
def dilated_residual_1d(x, w, mix, gain):
    y = F.conv1d(F.pad(x, (8, 0)), w, dilation=4)
    return x + F.conv1d(F.relu(y) * gain[:, None], mix)


@module("2 12 30", "24 12 1", "12 1 5", "12", "12")
def conformer_convolution_module(x, point, depth, mean, var):
    y = F.glu(F.conv1d(x, point), dim=1)
    y = F.conv1d(y, depth, padding=2, groups=12)
    y = (y - mean.unsqueeze(1)) / (var.abs().unsqueeze(1) + 1e-5).sqrt()
    return F.silu(y)


@module("2 8 12 14", "8 8 3 3", "8 8 3 3")
def octave_frequency_exchange(x, high, low):
    small = F.avg_pool2d(x, 2)
    y = F.conv2d(x, high, padding=1) + F.interpolate(F.conv2d(small, low, padding=1), scale_factor=2)
    return F.relu(y), F.avg_pool2d(y, 2) - small


@module("2 4 9 11", "4 4 3 3", "4 4 3 3", "4")
def dense_growth_two_layers(x, w1, w2, bias):
    first = F.conv2d(F.relu(x), w1, padding=1)
    second = F.conv2d(F.relu(first + bias[:, None, None]), w2, padding=1)
    return torch.cat([x, first, second], dim=1) * 0.2


@module("2 5 9 11", "10 5 3 3", "10")
def max_feature_map_half(x, w, b):
    left, right = F.conv2d(x, w, b, padding=1).split([5, 5], dim=1)
    return F.max_pool2d(torch.maximum(left, right), 2, ceil_mode=True)


@module("2 6 9 11", "6 3", "3 6", dtype=FP16)
def inverted_channels_last_chain(x, w1, w2):
    y = x.movedim(1, -1)
    y = F.hardtanh((y @ w1) / 2.4, -1.5, 1.5) @ w2
    return x - y.movedim(-1, 1)


# Products and convolutions with epilogues


@module("64 512", "1024 512", "1024", "1024", dtype=BF16)
def linear_bias_gelu_scale(x, w, b, scale):
    return F.gelu(F.linear(x, w, b)) * scale


@module("128 256", "512 256", "512 256", dtype=BF16)
def swiglu_two_weights(x, w1, w3):
    return F.silu(x @ w1.T) * (x @ w3.T)


@module("64 256", "256 512", "512", "64 512", dtype=FP16)
def addmm_mish_residual(x, w, b, residual):
    return F.mish(torch.addmm(b, x, w)).add_(residual, alpha=0.5)


@module("32 128", "128 64", "32 64 1")
def linear_divide_by_swish(x, w, s):
    y = torch.mm(x, w).unsqueeze(-1) / (1 + s.square())
    return (y * torch.sigmoid(y)).squeeze(-1)


@module("128 512", "8 512", "16 8 512", "512 512", dtype=BF16)
def low_rank_adapter(x, down, up, w):
    delta = (x @ down.t()) @ up[0]
    return F.linear(x, w) + 2.0 * delta


@module("64 128", "64 256", "512 128", "512 256", "512")
def bilinear_gate_of_two_inputs(a, b, wa, wb, bias):
    gate, value = (F.linear(a, wa) + F.linear(b, wb) + bias).chunk(2, 1)
    return torch.sigmoid(gate) * torch.tanh(value)


@module("256 128", "64 128", "64", dtype=BF16)
def prototype_distances(x, prototypes, temperature):
    sq = (x**2).sum(1)[:, None] + (prototypes**2).sum(1)[None] - 2 * (x @ prototypes.t())
    return -torch.sqrt(F.relu(sq) + 1e-8) / temperature.exp()


@module("4 32 56 56", "32 1 7 7:small", "32", "32", dtype=FP16)
def depthwise_large_kernel(x, w, b, gamma):
    y = F.conv2d(x, w, b, padding=3, groups=32)
    return x + gamma[:, None, None] * F.gelu(y)


@module("4 64 28 28", "128 64 1 1:small", "128", "128", "128", "128:positive")
def pointwise_conv_bn_silu(x, w, mean, weight, bias, var):
    y = F.conv2d(x, w)
    y = F.batch_norm(y, mean, var, weight, bias, training=False, eps=1e-3)
    return y * torch.sigmoid(y)


@module("4 64 28 28", "64 16 3 3:small", "64")
def grouped_conv_softplus(x, w, b):
    return F.softplus(F.conv2d(x, w, b, stride=2, padding=1, groups=4)).sqrt()


@module("2 32 16 16", "32 16 4 4:small", "16", dtype=BF16)
def transposed_conv_tanh(x, w, b):
    y = F.conv_transpose2d(x, w, stride=2, padding=1)
    return torch.tanh(y + b.view(1, -1, 1, 1))


@module("4 64 128", "64 1 4", "64", dtype=BF16)
def causal_depthwise_conv1d(x, w, b):
    y = F.conv1d(F.pad(x, (3, 0)), w, b, groups=64)
    return F.silu(y)[..., :128]


@module("4 64 200", "128 64 3:small", "128")
def wavenet_gated_conv(x, w, b):
    h = F.conv1d(x, w, b, padding=2, dilation=2)
    return torch.tanh(h[:, :64]) * torch.sigmoid(h[:, 64:]) + x


@module("1 8 8 16 16", "16 8 3 3 3:small", "16")
def conv3d_hardtanh(x, w, b):
    return F.hardtanh(F.conv3d(x, w, b, padding=1), -0.5, 0.5).mul(2)


@module("16 64 32", "16 32 48", "16 1 48", dtype=FP16)
def baddbmm_softsign(a, b, bias):
    return F.softsign(torch.baddbmm(bias, a, b, beta=1, alpha=0.25))


@module("4 8 64 32", "8 32 48", dtype=BF16)
def per_head_projection(x, w):
    return F.relu(torch.einsum("bhnd,hde->bhne", x, w)) ** 2


@module("32 16", "32 24", "8 16 24")
def bilinear_form(a, b, w):
    return torch.einsum("bi,kij,bj->bk", a, w, b).sigmoid()


@module("16 27 64", dtype=BF16)
def dot_interaction_of_features(x):
    gram = torch.bmm(x, x.transpose(1, 2))
    rows, cols = torch.tril_indices(27, 27, offset=-1)
    return torch.relu(gram[:, rows, cols])


@module("64 39 16", dtype=BF16)
def factorisation_machine(e):
    square_of_sum = e.sum(dim=1) ** 2
    sum_of_square = (e**2).sum(dim=1)
    return 0.5 * (square_of_sum - sum_of_square).sum(dim=1, keepdim=True).sigmoid()


@module("32 256", "256", "256", "32 256", dtype=FP16)
def deep_cross_layer(x, w, b, x0):
    return x0 * (x * w).sum(-1, keepdim=True) + b + x


@module("2 64 256")
def gram_style_matrix(f):
    g = torch.matmul(f, f.permute(0, 2, 1))
    return g.div(64 * 256).triu()


@module("64 8 32", "8 32 64", "8 64", dtype=BF16)
def expert_batched_linear(x, w, b):
    return F.relu6(torch.bmm(x.transpose(0, 1), w) + b.unsqueeze(1)).transpose(0, 1)


@module("4 196 64", "128 196", "128", "196 128", dtype=BF16)
def token_mixing_mlp(x, w1, b1, w2):
    h = F.gelu(F.linear(x.transpose(1, 2), w1, b1))
    return x + F.linear(h, w2).mT


@module("64 64", "64 64", init=(64,))
class TwoLayerTrunkHead(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.branch = nn.Sequential(nn.Linear(width, 128), nn.Tanh(), nn.Linear(128, 32))
        self.trunk = nn.Linear(width, 32)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, u, y):
        return (self.branch(u) * torch.sin(self.trunk(y))).sum(-1) + self.bias
