"""Activations, gates, softmaxes, quantisation, and operators that are less common."""

import math

import torch
import torch.nn.functional as F

from everyday.register import BF16, FP16, module

# Activations and gates


@module("4 512 1024", "1024", "1024", dtype=BF16)
def snake_activation(x, alpha, gain):
    wave = torch.sin(alpha * x)
    return gain * (x + wave.pow(2) / (alpha + 1e-6))


@module("8 256 2048", dtype=BF16)
def swiglu_clamped(x):
    gate, up = x.chunk(2, dim=-1)
    gate = gate.clamp(max=7.0)
    up = up.clamp(-7.0, 7.0)
    return (up + 1) * gate * torch.sigmoid(1.702 * gate)


@module("8 196 1536", "768", "768", dtype=FP16)
def geglu_with_residual_scale(x, residual, scale):
    value, gate = torch.split(x, x.size(-1) // 2, dim=2)
    return residual + scale * (value * F.gelu(gate, approximate="tanh"))


@module("16 128 28 28")
def hard_swish_by_hand(x):
    inner = torch.clamp(x + 3.0, 0.0, 6.0)
    return x.mul(inner).div(6.0)


@module("64 4096", dtype=BF16)
def squared_relu_gate(x):
    left, right = x[:, ::2], x[:, 1::2]
    return torch.square(F.relu(left)) * right


@module("32 1000", "1000")
def penalised_tanh(x, bias):
    y = x + bias
    return torch.where(y > 0, torch.tanh(y), 0.25 * torch.tanh(y))


@module("4 64 56 56", "64", "64", "64")
def channel_prelu_shifted(x, slope, left, right):
    shifted = x - left.view(1, -1, 1, 1)
    active = torch.maximum(shifted, torch.zeros_like(shifted))
    passive = torch.minimum(shifted, torch.zeros_like(shifted))
    return active + slope[None, :, None, None] * passive + right.reshape(1, 64, 1, 1)


@module("16 77 768", dtype=FP16)
def quick_gelu_residual(x):
    return x + x * torch.sigmoid(1.702 * x)


@module("128 2048")
def gelu_spelt_out(x):
    cdf = 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))
    return x * cdf


@module("8 1024 512", "512", "512", dtype=BF16)
def dynamic_tanh(x, weight, bias, alpha=0.5):
    return torch.tanh(x * alpha) * weight + bias


@module("32 64 32 32")
def star_relu(x):
    return 0.8944 * F.relu(x) ** 2 - 0.4472


@module("32 4 512", dtype=BF16)
def maxout_of_four(x):
    return x.max(dim=1).values - 0.01 * x.abs().sum(1)


@module("16 64 32 32")
def concatenated_relu(x):
    both = torch.cat([x, -x], dim=1)
    return F.relu(both).sub(0.1)


@module("256 512", "512")
def smooth_shrink(x, log_threshold):
    t = log_threshold.exp()
    return torch.sign(x) * F.softplus(x.abs() - t, beta=4.0)


@module("64 1024")
def lisht_then_softsign(x):
    y = x * x.tanh()
    return y / (1 + y.abs())


@module("8 512 768", "8 512 768", "8 512 1", dtype=BF16)
def highway_gate(x, candidate, gate_logit):
    g = gate_logit.sigmoid()
    return torch.lerp(x, torch.relu(candidate), g)


@module("64 20 512", dtype=FP16)
def tanhexp_times_logistic(x):
    return x * torch.tanh(torch.exp(x.clamp(max=10))) * torch.reciprocal(1 + torch.exp(-x))


@module("1024 256")
def cosine_bump(x):
    inside = x.abs() < 1
    return 0.5 * (1 + torch.cos(math.pi * x)) * inside.to(x.dtype)


@module("16 96 40 40", "16 96 1 1", dtype=FP16)
def squeeze_excite_apply(x, logits):
    return F.silu(x * F.hardsigmoid(logits))


@module("8 256 1024", "8 256 1024", "1024", "1024", dtype=BF16)
def gated_linear_recurrence_gate(x, a, w_in, w_rec):
    gate_x = torch.sigmoid(x * w_in)
    log_a = -8.0 * torch.sigmoid(x * w_rec) * F.softplus(a)
    decay = torch.exp(log_a)
    multiplier = torch.sqrt(1 - torch.exp(2 * log_a) + 1e-6)
    return decay, x * gate_x * multiplier


# Softmaxes


@module("8 12 128 128", "8 128:bool", dtype=BF16)
def key_padding_softmax(scores, keep):
    scores = scores.masked_fill(~keep[:, None, None, :], float("-inf"))
    return F.softmax(scores, dim=-1)


@module("4 8 256 256", dtype=FP16)
def causal_softmax_scaled(scores):
    n = scores.shape[-1]
    mask = torch.triu(torch.ones(n, n, dtype=torch.bool), diagonal=1)
    scores = (scores / 8.0).masked_fill(mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores.float(), -1).to(torch.float16)


@module("64 1000", "64:<1000")
def picked_log_probability(logits, target):
    logp = logits.log_softmax(dim=-1)
    return -logp.gather(1, target[:, None]).squeeze(1)


@module("16 32 1024", "16 32:<1024", dtype=BF16)
def selective_log_softmax(logits, index):
    chosen = torch.gather(logits, dim=-1, index=index.unsqueeze(-1)).squeeze(-1)
    return chosen - torch.logsumexp(logits, dim=-1)


@module("32 1000", "32 1")
def temperature_softmax_by_hand(x, temperature):
    z = x / temperature.abs().clamp_min(0.05)
    z = z - z.amax(dim=1, keepdim=True)
    e = torch.exp(z)
    return e / e.sum(1, keepdim=True)


@module("8 16 64 65", "16", dtype=BF16)
def softmax_one_with_sink(scores, sink):
    top = torch.maximum(scores.max(-1, keepdim=True)[0], sink.view(1, -1, 1, 1))
    e = (scores - top).exp()
    return e / (e.sum(-1, keepdim=True) + (sink.view(1, -1, 1, 1) - top).exp())


@module("16 8 512", "16 8 512:unit")
def weighted_masked_softmax(x, weight):
    e = torch.exp(x - x.amax(-1, keepdim=True)) * weight
    return e.div(e.sum(-1, keepdim=True).add(1e-9))


@module("8 64 32 32")
def spatial_softmax_keypoints(x):
    b, c, h, w = x.size()
    p = x.view(b, c, h * w).softmax(-1).view(b, c, h, w)
    ys = torch.linspace(-1, 1, h)
    xs = torch.linspace(-1, 1, w)
    return torch.stack([(p.sum(2) * xs).sum(-1), (p.sum(3) * ys).sum(-1)], dim=-1)


@module("32 10 4 64", dtype=FP16)
def radix_softmax(x):
    attn = F.softmax(x, dim=1)
    return (attn * x).sum(dim=1)


@module("512 128", "512 128:bool")
def entropy_of_masked_policy(logits, legal):
    logits = torch.where(legal, logits, -1e8)
    logp = F.log_softmax(logits, dim=1)
    return -(logp.exp() * logp * legal).sum(dim=1)


@module("256 64", dtype=BF16)
def router_top1_gate(logits):
    probs = torch.softmax(logits.float(), dim=-1)
    gate, expert = probs.max(dim=-1)
    load = F.one_hot(expert, num_classes=64).float().mean(0)
    return gate.to(logits.dtype), expert, 64 * (load * probs.mean(0)).sum()


@module("128 256")
def z_loss_of_router(logits):
    return torch.logsumexp(logits, dim=-1).pow(2).mean() * 1e-3


@module("16 1 4096", dtype=BF16)
def softmax_squared_confidence(x):
    p = x.squeeze(1).float().softmax(dim=-1)
    return (p * p).sum(-1), 1 - p.amax(-1)


@module("8 128 128")
def sinkhorn_two_rounds(cost):
    k = -cost / 0.1
    for _ in range(2):
        k = k - torch.logsumexp(k, dim=2, keepdim=True)
        k = k - torch.logsumexp(k, dim=1, keepdim=True)
    return k.exp()


# Quantisation


@module("64 2048", dtype=BF16)
def int8_per_token(x):
    scale = x.abs().amax(dim=-1, keepdim=True).float().clamp(min=1e-5) / 127
    q = torch.round(x.float() / scale).clamp(-128, 127).to(torch.int8)
    return q, scale


@module("256 1024:int8", "256", "1024", dtype=FP16)
def dequantise_and_shift(q, scale, bias):
    return q.to(torch.float16) * scale[:, None] + bias


@module("512 512")
def asymmetric_fake_quantise(x):
    low, high = torch.aminmax(x)
    scale = (high - low) / 255
    zero = torch.round(-low / scale)
    q = torch.clamp(torch.round(x / scale) + zero, 0, 255)
    return (q - zero) * scale


@module("32 64 14 14", dtype=BF16)
def per_channel_fake_quantise(x):
    flat = x.transpose(0, 1).flatten(1)
    step = flat.abs().max(dim=1)[0].div(127.0).view(1, -1, 1, 1)
    return (x / step).round().clamp_(-127, 127) * step


@module("128 1024:bfloat16")
def block_absmax_quantise(w):
    blocks = w.reshape(-1, 64).float()
    absmax = blocks.abs().max(-1, keepdim=True).values
    q = (blocks / absmax * 7).round() + 8
    return q.to(torch.uint8).view_as(w), absmax.squeeze(1)


@module("256 512:uint8<256", "256 8", dtype=FP16)
def unpack_int4_grouped(packed, scale):
    low, high = packed & 15, packed >> 4
    q = torch.stack([low, high], dim=-1).view(256, 8, 128)
    return ((q.to(scale.dtype) - 8) * scale.unsqueeze(-1)).view(256, 1024)


@module("128 256:<16", "128 4", "16", dtype=BF16)
def codebook_dequantise(index, absmax, code):
    values = code[index].view(128, 4, 64)
    return (values * absmax[:, :, None]).reshape(128, 256)


@module("64 512", "64 512")
def straight_through_sign(x, w):
    alpha = w.abs().mean(dim=1, keepdim=True)
    binary = torch.sign(w) * alpha
    return x * (w + (binary - w).detach())


@module("256 768", dtype=BF16)
def ternary_weights(w):
    scale = 1.0 / w.abs().mean().clamp(min=1e-5)
    return (w * scale).round().clamp(-1, 1) / scale


@module("32 256", "512 256")
def int8_linear_simulated(x, w):
    sx = x.abs().amax() / 127.0
    sw = w.abs().amax(dim=1) / 127.0
    xq = torch.round(x / sx).clamp(-127, 127)
    wq = torch.round(w / sw.unsqueeze(1)).clamp(-127, 127)
    return F.linear(xq, wq) * (sx * sw)


@module("2 16 16 64", "2 16 16 64")
def finite_scalar_codes(z, noise):
    bounded = torch.tanh(z + 0.1 * noise) * 3.5
    code = bounded.round()
    digits = (code + 4).view(2, 16, 16, 16, 4).long()
    basis = torch.tensor([1, 8, 64, 512])
    return code / 3.5, (digits * basis).sum(-1)


@module("128 64", "256 64")
def nearest_codebook_vector(z, codebook):
    d = z.pow(2).sum(1, keepdim=True) + codebook.pow(2).sum(1) - 2 * z @ codebook.t()
    index = d.argmin(dim=1)
    chosen = codebook.index_select(0, index)
    return chosen, F.mse_loss(chosen, z), index


@module("12 64")
def group_scales_and_zero_points(w):
    g = w.view(12, 4, 16)
    low, high = g.amin(-1, keepdim=True), g.amax(-1, keepdim=True)
    scale = (high - low).clamp(min=1e-5) / 15
    zero = (-low / scale).round().clamp(0, 15)
    q = (g / scale + zero).round().clamp(0, 15)
    return q.view(12, 64).to(torch.uint8), scale.squeeze(-1), zero.squeeze(-1)


@module("5 64", "12 64:int8", "12 4:positive")
def linear_with_group_dequantised_weight(x, q, scale):
    w = (q.view(12, 4, 16).float() * scale.unsqueeze(-1)).flatten(1)
    return torch.mm(x, w.t())


@module("12 64:int8", "12 64:int8", "12:positive", "64:positive")
def integer_product_rescaled(a, b, sa, sb):
    acc = torch.einsum("nk,nk->n", a.to(torch.int32), b.to(torch.int32))
    out = acc.float() * sa * sb.mean()
    return torch.round(out / 0.05).clamp(-128, 127).to(torch.int8)


@module("12 64", "64:positive")
def smoothed_activation_scales(x, weight_max):
    scale = (x.abs().amax(dim=0).pow(0.5) / weight_max.pow(0.5)).clamp(min=1e-5)
    y = x / scale
    step = y.abs().amax(1, keepdim=True) / 127
    return (y / step).round() * step, scale


@module("12 64", "64")
def learned_step_quantiser(x, raw):
    step = F.softplus(raw) + 1e-3
    scaled = (x / step).clamp(-8, 7)
    return (scaled + (scaled.round() - scaled).detach()) * step


@module("12 64", dtype=FP16)
def power_of_two_microscaling(x):
    b = x.float().view(12, 2, 32)
    exponent = torch.floor(torch.log2(b.abs().amax(-1, keepdim=True).clamp(min=1e-8)))
    scale = torch.exp2(exponent - 2)
    return ((b / scale * 2).round() / 2).clamp(-6, 6).mul(scale).view(12, 64).half()


@module("12 32:uint8<256", "12 4:positive", "12 4:<16")
def unpack_nibbles_with_zero_point(packed, scale, zero):
    low, high = packed & 0xF, packed >> 4
    q = torch.stack([low, high], dim=-1).view(12, 4, 16)
    return ((q.float() - zero.unsqueeze(-1)) * scale[..., None]).reshape(12, 64)


@module("12 16", "4 8 4")
def product_quantised_codes(x, books):
    parts = x.view(12, 4, 4).transpose(0, 1)
    d = (parts.unsqueeze(2) - books.unsqueeze(1)).square().sum(-1)
    return d.argmin(dim=-1).t(), d.amin(-1).sum(0)


@module("12 16", "3 8 16")
def residual_vector_quantiser(x, books):
    rest, out = x, torch.zeros_like(x)
    for book in books.unbind(0):
        at = (rest.pow(2).sum(1, keepdim=True) - 2 * rest @ book.t() + book.pow(2).sum(1)).argmin(1)
        out = out + book[at]
        rest = x - out
    return out, (x - out).square().mean(dim=1)


@module("12 64")
def hadamard_rotation_then_clip(x):
    y = x.view(12, 16, 4)
    a, b, c, d = y.unbind(-1)
    y = torch.stack([a + b + c + d, a - b + c - d, a + b - c - d, a - b - c + d], -1) * 0.5
    bound = 2.5 * y.pow(2).mean((1, 2), keepdim=True).sqrt()
    return torch.maximum(torch.minimum(y, bound), -bound).flatten(1)


# Less common operators


@module("64 256", "64 256", dtype=BF16)
def polar_and_wrapped_angle(x, y):
    r, angle = torch.hypot(x.float(), y.float()), torch.atan2(y, x)
    return torch.log1p(r), torch.fmod(angle + 3 * math.pi, 2 * math.pi) - math.pi


@module("32 512", "32 512")
def selu_celu_mixture(x, gate):
    y = F.selu(x) * F.logsigmoid(gate).exp()
    return F.celu(y, 0.7) - F.hardshrink(x, 0.3)


@module("64 200:unit", "64 200")
def probit_and_logit_features(p, x):
    p = p.clamp(1e-3, 1 - 1e-3)
    probit = math.sqrt(2) * torch.erfinv(2 * p - 1)
    return torch.logit(p) - probit, F.softshrink(x, 0.2) * probit


@module("16 1024", dtype=BF16)
def soft_threshold_relative(x):
    tau = 0.1 * x.abs().max(dim=1, keepdim=True).values
    return torch.copysign((x.abs() - tau).clamp(min=0), x)


@module("128 64", "128 64")
def logaddexp_mixture_of_scores(a, b):
    both = torch.logaddexp(a, b + math.log(0.5))
    return both - both.mean(-1, keepdim=True), torch.expm1(-both.abs())


@module("64 300")
def mean_without_nans(x):
    x = torch.where(x > 2.0, torch.full_like(x, float("nan")), x)
    valid = ~torch.isnan(x)
    mean = torch.nan_to_num(x).sum(1) / valid.sum(1).clamp(min=1)
    return mean, torch.nan_to_num(x - mean[:, None], nan=0.0).square().mean(1)


@module("16 100 64", "16 100 64", dtype=FP16)
def cosine_similarity_hinge(a, b):
    sim = F.cosine_similarity(a.float(), b.float(), dim=-1, eps=1e-6)
    return F.relu(0.8 - sim).pow(2).mean(dim=1)


@module("2 3 32 32", dtype=BF16)
def average_over_flips(x):
    views = [x, x.flip(3), x.flip(2), torch.rot90(x, 2, (2, 3))]
    return torch.stack(views).mean(0).sigmoid()


@module("4 16 40 40", "4 144", dtype=BF16)
def local_patches_weighted(x, logits):
    patches = F.unfold(x, kernel_size=3, padding=1)
    return (patches * logits.softmax(1).unsqueeze(2)).sum(dim=1)


@module("2 16 24 24", "2 24 24 2")
def warp_by_flow(features, flow):
    at = torch.linspace(-1, 1, 24)
    ys, xs = torch.meshgrid(at, at, indexing="ij")
    grid = torch.stack([xs, ys], dim=-1) + 0.1 * torch.tanh(flow)
    return F.grid_sample(features, grid, padding_mode="border", align_corners=True) * 0.5


@module("8 4 64 32", "8 4 64 32", dtype=FP16)
def repeat_kv_heads_and_scale(k, v):
    k = torch.repeat_interleave(k, 2, dim=1) * 0.17
    return k, F.glu(v, dim=-1)


@module("256 16", "256:<16", "256 1")
def taken_along_actions(q, action, reward):
    chosen = torch.take_along_dim(q, action[:, None], dim=1)
    target = reward + 0.99 * q.max(1, keepdim=True).values
    return F.smooth_l1_loss(chosen, target.detach(), reduction="none").squeeze(-1)


@module("128 32", "64 32")
def laplacian_kernel(a, b):
    d = (a[:, None] - b[None, :]).abs().sum(-1)
    k = torch.exp(-d / 8)
    return k.mean(), k.std(dim=1)


@module("512:<100000", "512:<64")
def bit_fields(word, shift):
    low = torch.bitwise_and(word >> (shift % 8), 255)
    parity = (low ^ (low >> 4) ^ (low >> 2) ^ (low >> 1)) & 1
    return low | (parity << 8), torch.div(word, 7, rounding_mode="floor")


@module("2 8 20 20", "2 8 40 40")
def bicubic_detail_layer(low, high):
    up = F.interpolate(low, size=high.shape[-2:], mode="bicubic", align_corners=False)
    return (high - up).clamp(-0.5, 0.5)


@module("64 64 4", "64 4:bool")
def any_and_all_flags(x, wanted):
    hit = (x > 1.0) & wanted[:, None]
    return hit.any(dim=-1), hit.all(-1), torch.count_nonzero(hit, dim=1)


@module("1024:unit", "1024")
def piecewise_schedule(step, rate):
    warm = step / 0.1
    decay = 0.5 * (1 + torch.cos(math.pi * (step - 0.1) / 0.9))
    return rate * torch.where(step < 0.1, warm, torch.where(step < 0.9, decay, 0.01))


@module("128 3", "128 3", "128 3")
def phong_shading(normal, light, view):
    n, s, v = (F.normalize(one, dim=1) for one in (normal, light, view))
    facing = torch.einsum("bi,bi->b", n, s).clamp(min=0)
    mirrored = 2 * facing[:, None] * n - s
    return 0.1 + 0.7 * facing + 0.2 * (mirrored * v).sum(1).clamp_min(0).pow(16)


@module("8 2 2048", dtype=FP16)
def stereo_mid_side_compress(x):
    mid, side = (x[:, 0] + x[:, 1]) / 2, (x[:, 0] - x[:, 1]) / 2
    level = 20 * torch.log10(mid.float().abs() + 1e-5)
    gain = torch.pow(10.0, -0.5 * F.relu(level + 20) / 20)
    return torch.stack([mid * gain + side, mid * gain - side], dim=1)


@module("64 32 8", "64 8")
def capsule_squash_and_agree(votes, pose):
    s = (votes.softmax(dim=1) * votes).sum(1) + pose
    sq = s.square().sum(-1, keepdim=True)
    v = sq / (1 + sq) * s / torch.sqrt(sq + 1e-8)
    return v, (votes @ v.unsqueeze(-1)).squeeze(-1)
