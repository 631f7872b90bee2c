"""Attention: projections, heads, scores, positions, masks, caches, and what replaces softmax."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from everyday.register import BF16, FP16, module

# Whole heads


@module("2 24 96", "96 288", "96 96")
def fused_projection_attention(x, w_qkv, w_out):
    b, n, c = x.shape
    qkv = (x @ w_qkv).reshape(b, n, 3, 6, c // 6).permute(2, 0, 3, 1, 4)
    q, k, v = qkv[0], qkv[1], qkv[2]
    attn = (q @ k.transpose(-2, -1)) * (c // 6) ** -0.5
    out = attn.softmax(dim=-1) @ v
    return out.transpose(1, 2).reshape(b, n, c) @ w_out


@module("3 20 64", "192 64", "192")
def thirds_of_projection_by_chunk(x, weight, bias):
    q, k, v = F.linear(x, weight, bias).chunk(3, dim=-1)
    q = q.view(3, 20, 4, 16).transpose(1, 2) / math.sqrt(16)
    k = k.view(3, 20, 4, 16).permute(0, 2, 3, 1)
    return torch.matmul(q, k).softmax(-1), v.view(3, 20, 4, 16).transpose(1, 2)


class GroupedQueryAttention(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.width = heads, kv_heads, dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * kv_heads * self.width, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, self.heads, self.width).transpose(1, 2)
        k, v = self.kv(x).view(b, t, 2, self.kv_heads, self.width).unbind(2)
        k = k.transpose(1, 2).repeat_interleave(self.heads // self.kv_heads, dim=1)
        v = v.transpose(1, 2).repeat_interleave(self.heads // self.kv_heads, dim=1)
        scores = q @ k.mT * self.width**-0.5
        keep = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        y = scores.masked_fill(~keep, float("-inf")).softmax(-1) @ v
        return self.o(y.transpose(1, 2).flatten(2))


module("2 18 64", init=(64, 8, 2))(GroupedQueryAttention)


@module("2 8 20 16", "2 2 30 16", "2 2 30 16")
def grouped_query_by_einsum(q, k, v):
    b, h, t, d = q.shape
    g = k.shape[1]
    q = q.reshape(b, g, h // g, t, d)
    scores = torch.einsum("bgrtd,bgsd->bgrts", q, k) / d**0.5
    return torch.einsum("bgrts,bgsd->bgrtd", F.softmax(scores, dim=-1), v).reshape(b, h, t, d)


@module("2 8 1 32", "2 40 32", "2 40 32")
def multi_query_decode(q, k, v):
    weights = (q.squeeze(2) @ k.transpose(1, 2)).div(math.sqrt(32)).softmax(-1)
    return torch.bmm(weights, v).flatten(1)


class LatentAttention(nn.Module):
    def __init__(self, dim, latent, heads, nope, rope):
        super().__init__()
        self.heads, self.nope, self.rope = heads, nope, rope
        self.down = nn.Linear(dim, latent + rope, bias=False)
        self.norm = nn.Parameter(torch.ones(latent))
        self.up = nn.Linear(latent, heads * 2 * nope, bias=False)
        self.q = nn.Linear(dim, heads * (nope + rope), bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, self.heads, -1).transpose(1, 2)
        q_nope, q_pe = q.split([self.nope, self.rope], dim=-1)
        latent, k_pe = self.down(x).split([self.norm.numel(), self.rope], dim=-1)
        latent = latent * torch.rsqrt(latent.pow(2).mean(-1, keepdim=True) + 1e-6) * self.norm
        k_nope, v = self.up(latent).view(b, t, self.heads, -1).transpose(1, 2).chunk(2, -1)
        q_pe, k_pe = self.turn(q_pe, cos, sin), self.turn(k_pe.unsqueeze(1), cos, sin)
        scores = q_nope @ k_nope.transpose(2, 3) + q_pe @ k_pe.transpose(2, 3)
        return (scores * (self.nope + self.rope) ** -0.5).softmax(-1) @ v

    def turn(self, x, cos, sin):
        left, right = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-right, left), dim=-1) * sin


module("2 20 64", "20 8", "20 8", init=(64, 24, 4, 12, 8))(LatentAttention)


@module("2 4 16", "2 30 24", "4 16 24", "4 24 12")
def latent_absorbed_decode(q, latent, w_uk, w_uv):
    absorbed = torch.einsum("bhd,hdc->bhc", q, w_uk)
    weights = torch.einsum("bhc,bsc->bhs", absorbed, latent).mul(0.2).softmax(dim=-1)
    return torch.einsum("bhs,bsc,hcv->bhv", weights, latent, w_uv)


@module("2 6 32 16", "2 6 32 16", "2 6 32 16")
def local_window_blocks(q, k, v):
    b, h, t, d = q.shape
    q, k, v = (one.reshape(b, h, t // 8, 8, d) for one in (q, k, v))
    scores = torch.einsum("bhwid,bhwjd->bhwij", q, k) * 0.25
    return (scores.softmax(-1) @ v).reshape(b, h, t, d)


@module("2 4 32 16", "2 4 32 16", "2 4 32 16")
def look_back_one_block(q, k, v):
    q, k, v = (one.unflatten(2, (4, 8)) for one in (q, k, v))
    before_k, before_v = F.pad(k, (0, 0, 0, 0, 1, 0))[:, :, :-1], F.pad(v, (0, 0, 0, 0, 1, 0))[:, :, :-1]
    k, v = torch.cat([before_k, k], dim=3), torch.cat([before_v, v], dim=3)
    return (torch.softmax(q @ k.mT / 4.0, -1) @ v).flatten(2, 3)


@module("2 12 48", "2 30 40", "48 48", "40 96")
def cross_attention_to_context(x, context, wq, wkv):
    q = (x @ wq).view(2, 12, 3, 16).permute(0, 2, 1, 3)
    k, v = (context @ wkv).view(2, 30, 2, 3, 16).permute(2, 0, 3, 1, 4)
    attn = F.softmax(q.mul(0.25) @ k.transpose(-1, -2), dim=3)
    return (attn @ v).permute(0, 2, 1, 3).reshape(2, 12, 48) + x


@module("7 32", "2 50 32", "2 50:bool", "32 32")
def perceiver_resampler_pool(latents, tokens, keep, w):
    q = latents.unsqueeze(0).expand(2, -1, -1)
    scores = torch.baddbmm(
        torch.where(keep, 0.0, -1e4).unsqueeze(1), q, (tokens @ w).transpose(1, 2), alpha=0.18
    )
    return q + scores.softmax(2).bmm(tokens)


@module("2 4 24 16", "2 4 24 16", "2 4 24 16")
def efficient_attention_two_softmaxes(q, k, v):
    q, k = q.softmax(dim=-1) * 16**-0.5, k.softmax(dim=-2)
    context = torch.einsum("bhnd,bhne->bhde", k, v)
    return torch.einsum("bhde,bhnd->bhne", context, q)


@module("2 3 20 16", "2 3 20 16", "2 3 20 16", "16 24")
def performer_positive_features(q, k, v, projection):
    def features(x):
        x = x * 16**-0.25
        return torch.exp(x @ projection - x.square().sum(-1, keepdim=True) / 2 - 1.0) + 1e-4

    q, k = features(q), features(k)
    down = torch.einsum("bhtm,bhm->bht", q, k.sum(dim=2))
    return torch.einsum("bhtm,bhmd->bhtd", q, k.mT @ v) / down[..., None]


@module("2 3 16 12", "2 3 16 12", "2 3 16 12")
def causal_linear_attention_by_cumsum(q, k, v):
    q, k = F.relu(q) + 1e-2, F.relu(k) + 1e-2
    state = torch.cumsum(k.unsqueeze(-1) * v.unsqueeze(-2), dim=2)
    norm = (q * k.cumsum(2)).sum(-1, keepdim=True)
    return (q.unsqueeze(-2) @ state).squeeze(-2) / norm


@module("2 4 16 12", "2 4 16 12", "2 4 16 12", "4:unit")
def retention_parallel(q, k, v, rate):
    n = torch.arange(16, device=q.device)
    distance = (n[:, None] - n[None, :]).float()
    decay = torch.where(distance >= 0, torch.pow(0.5 + 0.4 * rate[:, None, None], distance.clamp(min=0)), 0.0)
    out = (q @ k.transpose(2, 3) * 12**-0.5 * decay) @ v
    return out / out.abs().sum(-1, keepdim=True).clamp(min=1.0)


@module("2 4 12", "2 4 12", "2 4 12", "2 4 12 12", "4:unit")
def retention_recurrent_step(q, k, v, state, gamma):
    state = gamma.view(1, -1, 1, 1) * state + torch.einsum("bhi,bhj->bhij", k, v)
    return torch.einsum("bhi,bhij->bhj", q, state), state


@module("2 24 4 16", "24 8", "24 8")
def rotary_concatenated_halves(x, cos, sin):
    first, second = x[..., :8], x[..., 8:]
    cos, sin = cos[None, :, None], sin[None, :, None]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=3)


@module("2 4 24 16", "24 16", "24 16")
def rotary_negated_and_rolled(x, cos, sin):
    sign = torch.cat([-torch.ones(8, device=x.device), torch.ones(8, device=x.device)])
    return x * cos + torch.roll(x, shifts=8, dims=-1) * sign * sin


@module("2 24 3 16", "24 16", "24 16")
def rotary_even_odd_flatten(x, cos, sin):
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = torch.stack([-odd, even], dim=-1).flatten(-2)
    return x * cos.unsqueeze(1) + turned * sin.unsqueeze(1)


@module("2 24 3 16", "24 8")
def rotary_as_complex_by_parts(x, angle):
    pairs = x.float().reshape(2, 24, 3, 8, 2)
    c, s = angle.cos().view(1, 24, 1, 8), angle.sin().view(1, 24, 1, 8)
    real = pairs[..., 0] * c - pairs[..., 1] * s
    imaginary = pairs[..., 0] * s + pairs[..., 1] * c
    return torch.view_as_real(torch.complex(real, imaginary)).flatten(3)


@module("2 24 3 16", "24 8")
def rotary_by_small_matrices(x, angle):
    c, s = angle.cos(), angle.sin()
    turn = torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], dim=-2)
    return torch.einsum("bthdj,tdij->bthdi", x.unflatten(-1, (8, 2)), turn).flatten(-2)


@module("2 24 4 16")
def rotary_scaled_for_long_context(x):
    inverse = 10000.0 ** (-torch.arange(0, 16, 2, device=x.device).float() / 16)
    wavelength = 2 * math.pi / inverse
    smooth = ((32.0 / wavelength - 1.0) / 3.0).clamp(0, 1)
    inverse = (1 - smooth) * inverse / 8 + smooth * inverse
    angle = torch.outer(torch.arange(24, device=x.device).float(), inverse)
    cos, sin = torch.cat([angle, angle], -1).cos(), torch.cat([angle, angle], -1).sin()
    x = x.transpose(1, 2)
    return x * cos + torch.cat((-x[..., 8:], x[..., :8]), -1) * sin


@module("2 4 20 16", "2 4 20 16", "16", "16")
def attention_with_normed_queries_and_keys(q, k, gq, gk):
    q = F.layer_norm(q, (16,), gq, None, 1e-6)
    k = F.layer_norm(k, (16,), gk, None, 1e-6)
    return (q @ k.transpose(-2, -1) / 4).softmax(-1)


@module("2 4 20 16", "2 4 20 16", "4 1 1")
def cosine_attention_with_clamped_scale(q, k, log_scale):
    attn = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
    return attn.mul(log_scale.clamp(max=math.log(100.0)).exp()).softmax(dim=-1)


@module("2 4 20 16", "2 4 28 16", "2 4 28 16")
def soft_capped_attention(q, k, v):
    scores = torch.matmul(q * 0.25, k.transpose(2, 3))
    scores = torch.tanh(scores / 30.0) * 30.0
    return torch.matmul(scores.softmax(-1, dtype=torch.float32), v).permute(0, 2, 1, 3).contiguous()


@module("2 4 16 16", "31 4")
def swin_bias_by_gather(scores, table):
    at = torch.arange(16, device=scores.device)
    index = (at.unsqueeze(1) - at.unsqueeze(0) + 15).view(-1)
    bias = table[index].view(16, 16, -1).permute(2, 0, 1).contiguous()
    return (scores + bias.unsqueeze(0)).softmax(-1)


@module("2 8 20 20")
def alibi_from_powers_of_two(scores):
    slopes = torch.pow(2.0, -torch.arange(1, 9, device=scores.device).float())
    at = torch.arange(20, device=scores.device)
    bias = -(at[:, None] - at[None, :]).abs() * slopes.view(8, 1, 1)
    return F.log_softmax(scores + bias, dim=-1)


@module("2 4 5 6 16", "4 9 16", "4 11 16")
def decomposed_height_width_positions(q, table_h, table_w):
    rows, columns = torch.arange(5, device=q.device), torch.arange(6, device=q.device)
    h = table_h[:, rows[:, None] - rows[None] + 4]
    w = table_w[:, columns[:, None] - columns[None] + 5]
    by_row = torch.einsum("bhyxc,hykc->bhyxk", q, h)
    by_column = torch.einsum("bhyxc,hxkc->bhyxk", q, w)
    return (by_row.unsqueeze(-1) + by_column.unsqueeze(-2)).flatten(4).flatten(2, 3)


@module("2 3 20 16", "2 3 20 16", "2 3 20 16")
def sigmoid_attention(q, k, v):
    return torch.sigmoid(q @ k.mT / 4 - math.log(20)) @ v


@module("2 3 20 16", "2 3 20 16", "2 3 20 16")
def squared_relu_attention(q, k, v):
    attn = F.relu(torch.einsum("bhqd,bhkd->bhqk", q, k) / 20) ** 2
    return torch.einsum("bhqk,bhkd->bqhd", attn, v).flatten(2)


@module("2 3 20 16", "2 3 20 16", "2 3 20 16")
def negative_distance_attention(q, k, v):
    squared = q.square().sum(-1, keepdim=True) - 2 * q @ k.mT + k.square().sum(-1).unsqueeze(-2)
    return torch.softmax(-squared / 8.0, dim=-1) @ v


@module("2 20 48", "20 20", "48 48")
def synthesizer_random_attention(x, scores, w):
    v = F.linear(x, w).view(2, 20, 3, 16)
    return torch.einsum("qk,bkhd->bqhd", scores.softmax(-1), v).reshape_as(x)


@module("2 24 32", "6 24", "32 32")
def linformer_projected_keys(x, shorten, w):
    keys = torch.einsum("kn,bnd->bkd", shorten, x)
    return F.softmax(x @ w @ keys.mT * 32**-0.5, dim=-1) @ keys


@module("2 3 24 16", "2 3 24 16", "2 3 24 16")
def nystrom_landmarks(q, k, v):
    ql, kl = q.view(2, 3, 6, 4, 16).mean(3), k.view(2, 3, 6, 4, 16).mean(dim=-2)
    left = (q @ kl.transpose(-1, -2) / 4).softmax(-1)
    middle = (ql @ kl.transpose(-1, -2) / 4).softmax(-1)
    right = (ql @ k.transpose(-1, -2) / 4).softmax(-1)
    inverse = middle.mT / middle.sum(dim=-2).amax(dim=-1)[..., None, None]
    inverse = inverse @ (2 * torch.eye(6, device=q.device) - middle @ inverse)
    return left @ (inverse @ (right @ v))


@module("3 32 6 10", "32 8", "32 8", "32 32")
def image_self_attention_gan(x, f, g, h):
    flat = x.flatten(2)
    scores = torch.bmm((flat.transpose(1, 2) @ f), (g.t() @ flat))
    out = (h @ flat) @ scores.softmax(-1).transpose(1, 2)
    return x + 0.1 * out.view_as(x)


@module("2 48 5 7", "144 48 1 1", "4 1 1")
def transposed_channel_attention(x, weight, temperature):
    q, k, v = F.conv2d(x, weight).chunk(3, dim=1)
    q, k, v = (one.reshape(2, 4, 12, 35) for one in (q, k, v))
    attn = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * temperature).softmax(-1)
    return (attn @ v).view(2, 48, 5, 7)


@module("2 32 6 8", "32", "32")
def axial_attention_over_rows(x, wq, wk):
    rows = x.permute(0, 2, 3, 1).reshape(12, 8, 32)
    attn = torch.softmax((rows * wq) @ (rows * wk).transpose(1, 2) / math.sqrt(32), dim=2)
    return (attn @ rows).view(2, 6, 8, 32).permute(0, 3, 1, 2)


@module("2 3 20 16", "2 3 20 16", "2 3 20 16", "3 20")
def gated_heads_and_entropy(q, k, v, gate):
    p = (q @ k.mT).mul(0.25).softmax(-1)
    entropy = -(p * (p + 1e-9).log()).sum(dim=-1)
    out = (p @ v) * gate.sigmoid()[None, :, :, None]
    return out.transpose(1, 2).reshape(2, 20, -1), entropy.mean(dim=(0, 2))


@module("2 3 20 20", "2 20 4", "2 20 4")
def edge_biased_graph_attention(scores, left, right):
    bias = torch.einsum("bic,bjc->bij", left, right).tanh()
    return torch.softmax(scores + bias[:, None], dim=-1) * (bias[:, None] > -0.5)


@module("2 1 3 16", "2 40 3 16", "2 40 3 16", "2:<40")
def cached_decode_with_lengths(q, k_cache, v_cache, length):
    scores = (q * k_cache).sum(-1).permute(0, 2, 1) * 16**-0.5
    valid = torch.arange(40, device=q.device)[None] <= length[:, None]
    p = scores.masked_fill(~valid.unsqueeze(1), -torch.inf).softmax(dim=-1)
    return (p.transpose(1, 2).unsqueeze(-1) * v_cache).sum(1)


@module("2 3 8 16", "2 3 12 16", "2 3 12 16")
def streaming_sink_and_recent(q, k, v):
    kept_k = torch.cat([k[:, :, :2], k[:, :, -6:]], dim=2)
    kept_v = torch.cat([v[:, :, :2], v[:, :, -6:]], dim=2)
    return torch.exp(torch.log_softmax(q @ kept_k.mT * 0.3, -1)) @ kept_v


@module("2 3 12 16", "2 3 12 16", "2 3 12 16", "2 3 5 16", "2 3 5 16")
def joint_text_and_image_attention(q, k, v, text_k, text_v):
    k, v = torch.cat((text_k, k), dim=2), torch.cat((text_v, v), dim=2)
    out = F.scaled_dot_product_attention(q, k, v)
    return out.permute(0, 2, 1, 3).reshape(2, 12, 48)


@module("2 3 12 16", "2 3 12 16", "2 3 12 16", "2 12:bool")
def attention_function_with_padding(q, k, v, keep):
    bias = torch.zeros(2, 1, 1, 12, device=q.device).masked_fill(~keep[:, None, None], -1e9)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=0.2).transpose(1, 2).flatten(-2)


@module("2 16 32", "2 16 32", "16 16")
def chunked_softmax_online(q, k, bias):
    a, b = (q @ k.transpose(1, 2) + bias).chunk(2, dim=-1)
    top = torch.maximum(a.amax(-1, keepdim=True), b.amax(-1, keepdim=True))
    ea, eb = torch.exp(a - top), torch.exp(b - top)
    total = ea.sum(-1, keepdim=True) + eb.sum(-1, keepdim=True)
    return (ea @ k[:, :8] + eb @ k[:, 8:]) / total


@module("2 4 10 10", "4 4", "4")
def re_attention_across_heads(attn, mix, shift):
    mixed = torch.einsum("bhij,hg->bgij", attn.softmax(-1), mix)
    mean, var = mixed.mean((0, 2, 3), keepdim=True), mixed.var((0, 2, 3), unbiased=False, keepdim=True)
    return (mixed - mean) / (var + 1e-5).sqrt() + shift.view(-1, 1, 1)


@module("2 6 8 32", "32 32", "2 6 8:bool")
def triangle_multiplication(pair, w, mask):
    gated = (pair @ w).sigmoid() * pair * mask.unsqueeze(-1)
    return torch.einsum("bikc,bjkc->bijc", gated, gated) / 8


@module("2 5 9 16", "16", "16 4")
def outer_product_mean(msa, weight, w):
    x = F.layer_norm(msa, [16], weight) @ w
    return torch.einsum("bsic,bsjd->bijcd", x, x).flatten(-2) / 5.0


@module("2 3 12 8", "2 3 12 8", "2 3 12 8", "2 3 12")
def delta_rule_chunk(q, k, v, beta):
    k = k / (k.norm(dim=-1, keepdim=True) + 1e-6)
    kb, vb = k * beta.sigmoid().unsqueeze(-1), v * beta.sigmoid().unsqueeze(-1)
    lower = -(kb @ k.mT).tril(-1)
    solved = torch.eye(12, device=q.device) + lower + lower @ lower
    return (q @ k.mT).tril() @ (solved @ vb)


@module("2 10 24", "24 24", "24", "2 10 24", dtype=BF16)
def attention_free_shift(x, w, decay, key):
    shifted = F.pad(x, (0, 0, 1, -1))
    mixed = x * decay.sigmoid() + shifted * (1 - decay.sigmoid())
    weight = torch.exp(key - key.amax(dim=1, keepdim=True))
    return torch.sigmoid(mixed @ w) * (weight * mixed).cumsum(1) / weight.cumsum(1)


@module("2 9 24", "2 9 24", "2 9 24", "24")
def rwkv_wkv_steps(k, v, r, first):
    top = bottom = torch.zeros_like(k[:, 0])
    out = []
    for t in range(3):
        e = torch.exp(first + k[:, t])
        out.append(r[:, t].sigmoid() * (top + e * v[:, t]) / (bottom + e))
        top, bottom = 0.9 * top + k[:, t].exp() * v[:, t], 0.9 * bottom + k[:, t].exp()
    return torch.stack(out, dim=1)


@module("2 6 5 32", "32 48", "48")
def window_partition_then_project(x, w, bias):
    x = x.view(2, 3, 2, 5, 1, 32).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 2, 32)
    qkv = torch.addmm(bias, x.view(-1, 32), w).view(-1, 2, 3, 2, 8).permute(2, 0, 3, 1, 4)
    return qkv[0] * 8**-0.5, qkv[1].transpose(-2, -1), qkv[2]


@module("2 12 30", "2 9 30")
def bidirectional_attention_flow(context, question):
    s = context @ question.transpose(1, 2)
    to_question = torch.bmm(s.softmax(dim=2), question)
    b = s.max(dim=2)[0].softmax(dim=1)
    to_context = torch.bmm(b.unsqueeze(1), context).expand_as(context)
    return torch.cat([context, to_question, context * to_question, context * to_context], dim=2)


@module("3 14 20", "3 20", "20 20", "20")
def bahdanau_step_with_coverage(encoder, state, w, v):
    energy = torch.tanh(encoder @ w + state.unsqueeze(1)).matmul(v)
    alpha = energy.softmax(1)
    return (alpha[:, :, None] * encoder).sum(dim=1), torch.minimum(alpha, alpha.cumsum(1)).sum(1)


@module("3 10 12", "3 10 12", "10 12")
def location_gaussian_attention(memory, centre, width):
    at = torch.arange(10, device=memory.device, dtype=torch.float32)
    z = (at.view(1, -1, 1) - centre.sigmoid() * 9) / F.softplus(width)
    weight = torch.exp(-0.5 * z * z)
    return (weight / weight.sum(1, keepdim=True) * memory).sum(dim=1)


@module("5 8 16", "5 8 16", "8 16", "8 16")
def complex_keys_phase_attention(re, im, kr, ki):
    real = torch.einsum("bhd,kd->bhk", re, kr) + torch.einsum("bhd,kd->bhk", im, ki)
    imaginary = torch.einsum("bhd,kd->bhk", im, kr) - torch.einsum("bhd,kd->bhk", re, ki)
    return torch.softmax(torch.hypot(real, imaginary), dim=-1)


# Scores, positions, heads


@module("4 128 128", "4 128", "4 128", dtype=FP16)
def additive_attention_scores(hidden, left, right):
    e = F.leaky_relu(left.unsqueeze(2) + right.unsqueeze(1), 0.2)
    return torch.bmm(F.softmax(e, dim=-1), hidden)


@module("2 16 128 128", "16", dtype=BF16)
def alibi_bias_softmax(scores, slopes):
    at = torch.arange(scores.size(-1))
    distance = (at[None, :] - at[:, None]).abs().neg()
    bias = slopes.float()[:, None, None] * distance
    return (scores * 0.125 + bias).softmax(dim=-1).to(scores.dtype)


@module("2 8 128 128", "255 8", dtype=BF16)
def relative_bias_table(scores, table):
    n = scores.shape[-1]
    at = torch.arange(n)
    index = at[:, None] - at[None, :] + n - 1
    bias = table[index].permute(2, 0, 1)
    return torch.softmax(scores + bias.unsqueeze(0), -1)


@module("2 8 96 96", dtype=BF16)
def soft_cap_sliding_window(scores):
    capped = 50.0 * torch.tanh(scores / 50.0)
    q = torch.arange(96).view(-1, 1)
    k = torch.arange(96).view(1, -1)
    visible = (k <= q) & (k > q - 32)
    return capped.masked_fill(visible.logical_not(), -1e4).softmax(-1)


@module("4 8 128 64", "128 32", "128 32", dtype=BF16)
def rope_half_split(x, cos, sin):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)


@module("4 8 128 64", "4 2 128 64", "1 128 64", "1 128 64", dtype=FP16)
def rope_rotate_half_pair(q, k, cos, sin):
    def rotate(x):
        half = x.shape[-1] // 2
        return torch.cat([-x[..., half:], x[..., :half]], dim=-1)

    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + rotate(q) * sin, k * cos + rotate(k) * sin


@module("4 128 8 64", "128 32")
def rope_interleaved_stack(x, angle):
    cos, sin = angle.cos()[:, None, :], angle.sin()[:, None, :]
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
    return turned.flatten(-2)


@module("2 64 8 32", "64 16 2", dtype=BF16)
def rope_pairs_from_cache(x, cache):
    pairs = x.float().reshape(*x.shape[:-1], -1, 2)
    c = cache.view(1, 64, 1, 16, 2).float()
    re = pairs[..., 0] * c[..., 0] - pairs[..., 1] * c[..., 1]
    im = pairs[..., 1] * c[..., 0] + pairs[..., 0] * c[..., 1]
    return torch.stack([re, im], -1).flatten(3).type_as(x)


@module("4 8 64 64", "4 64:<512")
def rope_with_positions_partial(x, positions):
    rotary, rest = x[..., :32], x[..., 32:]
    freq = 1.0 / (10000 ** (torch.arange(0, 32, 2).float() / 32))
    angle = positions[:, None, :, None].float() * freq
    angle = torch.cat([angle, angle], dim=-1)
    flipped = torch.cat([-rotary[..., 16:], rotary[..., :16]], -1)
    return torch.cat([rotary * angle.cos() + flipped * angle.sin(), rest], -1)


@module("2 4 16 16 32")
def axial_rope_2d(x):
    freq = math.pi * torch.linspace(1.0, 8.0, 8)
    at = torch.linspace(-1, 1, 16)
    rows, cols = (at[:, None] * freq)[:, None, :], (at[:, None] * freq)[None, :, :]
    angle = torch.cat([rows.expand(16, 16, 8), cols.expand(16, 16, 8)], dim=-1)
    a, b = x.unflatten(-1, (16, 2)).unbind(-1)
    return torch.stack([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1).flatten(-2)


@module("16 12 1 64", "16 12 256 64", "16:<256", dtype=BF16)
def decode_scores_by_length(q, keys, length):
    scores = torch.matmul(q, keys.transpose(-1, -2)) * 64**-0.5
    valid = torch.arange(256)[None, :] < length[:, None]
    return scores.masked_fill(~valid[:, None, None], -10000.0)


@module("2 8 128 64", "2 2 128 64", dtype=BF16)
def grouped_query_scores(q, k):
    b, h, n, d = q.shape
    k = k[:, :, None].expand(b, 2, 4, n, d).reshape(b, h, n, d)
    return (q @ k.mT).mul(d**-0.5).float().softmax(-1).to(q.dtype)


@module("2 8 128 32", "2 8 128 32", "2 8 128 32")
def linear_attention_elu(q, k, v):
    q, k = F.elu(q) + 1, F.elu(k) + 1
    kv = torch.einsum("bhnd,bhne->bhde", k, v)
    z = 1 / (torch.einsum("bhnd,bhd->bhn", q, k.sum(dim=2)) + 1e-6)
    return torch.einsum("bhnd,bhde,bhn->bhne", q, kv, z)


@module("8 64 64", "8 64 64", "64 64", dtype=FP16)
def talking_heads_mix(scores, other, mix):
    scores = torch.einsum("bij,jk->bik", scores, mix)
    return (scores.sigmoid() * other).sum(-1)


@module("16 8 49 49", "8 49 49", "4 49 49:bool")
def shifted_window_scores(attn, bias, mask):
    attn = attn + bias.unsqueeze(0)
    blocked = torch.zeros(4, 49, 49).masked_fill(mask, -100.0)
    attn = attn.view(4, 4, 8, 49, 49) + blocked[None, :, None]
    return attn.view(-1, 8, 49, 49).softmax(dim=-1)


@module("4 4 64 64", "4 4 64 127", dtype=BF16)
def transformer_xl_relative_shift(content, position):
    b, h, n, m = position.shape
    padded = F.pad(position, (1, 0)).view(b, h, m + 1, n)
    shifted = padded[:, :, 1:].reshape(b, h, n, m)[..., :n]
    return (content + shifted) * 0.125


@module("4 8 128 64", "4 8 128 64", "8", "8", dtype=BF16)
def differential_attention_combine(first, second, lq, lk):
    lam = torch.exp((lq * lk).float().sum()) + 0.2
    y = first.float() - lam * second.float()
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
    return (y * 0.8).to(first.dtype)


@module("4 8 256 64", "4 8 256 64", "4 8 256", "4 8 256")
def merge_attention_states(a, b, lse_a, lse_b):
    top = torch.maximum(lse_a, lse_b)
    wa, wb = torch.exp(lse_a - top), torch.exp(lse_b - top)
    total = wa + wb
    out = (a * wa[..., None] + b * wb[..., None]) / total[..., None]
    return out, top + total.log()


@module("2 128 3072", "64", "64", dtype=BF16)
def split_qkv_and_norm(qkv, wq, wk):
    b, n, _ = qkv.shape
    q, k, v = qkv.view(b, n, 3, 16, 64).permute(2, 0, 3, 1, 4)
    q = F.rms_norm(q, (64,), wq)
    k = F.rms_norm(k, (64,), wk)
    return q * 0.125, k, v.contiguous()


@module("4 256 512", "512", dtype=FP16)
def sinusoidal_added(x, scale):
    at = torch.arange(256).unsqueeze(1)
    rate = torch.exp(torch.arange(0, 512, 2) * (-math.log(10000.0) / 512))
    table = torch.stack([torch.sin(at * rate), torch.cos(at * rate)], dim=2).reshape(256, 512)
    return x * 22.627 + table.to(x.dtype) * scale


@module("64:unit")
def timestep_embedding(t):
    half = 160
    freqs = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32) / half)
    args = 1000 * t[:, None] * freqs[None]
    return F.silu(torch.cat([args.cos(), args.sin()], dim=-1))


@module("4096 3")
def nerf_positional_features(xyz):
    bands = 2.0 ** torch.arange(6)
    scaled = (xyz[..., None] * bands).flatten(-2)
    return torch.cat([xyz, scaled.sin(), scaled.cos()], -1)


@module("2048 2", "2 64")
def random_fourier_features(x, b):
    projected = (2 * math.pi * x) @ b
    return torch.cat([torch.sin(projected), torch.cos(projected)], dim=-1) / math.sqrt(64)


@module("8 196 384", "1 197 384", "1 1 384", dtype=BF16)
def class_token_and_positions(x, positions, cls):
    tokens = torch.cat((cls.expand(x.shape[0], -1, -1), x), dim=1)
    return F.dropout(tokens + positions, 0.1, False)


@module("8 77:<4000", "8 77:<2", "4000 256", "77 256", "2 256", "256", dtype=BF16)
def bert_embeddings(ids, segments, words, places, types, weight):
    total = F.embedding(ids, words) + F.embedding(segments, types) + places[None]
    return F.layer_norm(total, (256,), weight, None, 1e-12)
