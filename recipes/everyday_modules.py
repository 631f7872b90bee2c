"""Two hundred and more small modules as people write them, to harvest graphs of many different operator sequences from.

    kernelwright data harvest recipes/everyday_modules.py:models -o graphs.jsonl

Published models repeat a few sequences many times; these repeat none on purpose: activations, norms, softmaxes, losses, scores of
attention, quantisation, positions, pooling, images, signals, recurrences, graphs, geometry, physics, optimisers, decoding.
Functions take their weights as arguments, so that their dtype holds; classes have parameters, in float32. Each is spelt
differently from its neighbours, not in the shortest or the stablest way: they are training material, not a library.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

MODELS = {}
BF16, FP16 = torch.bfloat16, torch.float16


def module(*inputs, dtype=torch.float32, init=None, **kwargs):
    """Registers a function, or a class made with `init`, with its inputs: "SHAPE[:KIND]" as `_tensor` reads, or values."""

    def register(made):
        def build():
            methods = {"forward": staticmethod(made)}
            model = made(*init) if init is not None else type(made.__name__, (nn.Module,), methods)()
            return model.eval(), tuple(_tensor(one, dtype) for one in inputs), kwargs

        assert made.__name__ not in MODELS
        MODELS[made.__name__] = build
        return made

    return register


def models():
    """Yields (name, build) of each module, where build() is (module, args, kwargs)."""
    yield from MODELS.items()


def _tensor(given, dtype):
    if not isinstance(given, str):
        return given
    sizes, _, kind = given.partition(":")
    shape = [int(size) for size in sizes.split()]
    if "<" in kind:
        name, _, end = kind.partition("<")
        return torch.randint(0, int(end), shape, dtype=getattr(torch, name or "int64"))
    if kind == "bool":
        return torch.rand(shape) < 0.7
    if kind == "int8":
        return torch.randint(-127, 128, shape, dtype=torch.int8)
    made = torch.randn(shape)
    if kind in ("unit", "positive"):
        made = torch.rand(shape) if kind == "unit" else torch.rand(shape) * 2 + 0.1
    elif kind == "probability":
        made = made.softmax(-1)
    elif kind == "small":
        made = made * 0.05
    return made.to(getattr(torch, kind) if kind.startswith(("float", "bfloat")) else dtype)


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


# Norms


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


# Losses


@module("64 512", "64 512", "64 512:unit")
def weighted_huber(pred, target, weight):
    loss = F.huber_loss(pred, target, reduction="none", delta=0.5)
    return (loss * weight).sum() / weight.sum().clamp_min(1e-8)


@module("256 64", "256 64", dtype=BF16)
def log_cosh(pred, target):
    d = (pred - target).float()
    return (d + F.softplus(-2.0 * d) - math.log(2.0)).mean()


@module("128 32", "128 32")
def charbonnier_sum(pred, target):
    return torch.sqrt((pred - target).square() + 1e-6).sum()


@module("256 9", "256")
def pinball_loss(pred, y):
    q = torch.arange(1, 10, dtype=pred.dtype) / 10
    error = y.unsqueeze(1) - pred
    return torch.max(q * error, (q - 1) * error).sum(dim=1).mean()


@module("256 100", "256:<100")
def focal_loss_multiclass(logits, target):
    ce = F.cross_entropy(logits, target, reduction="none")
    pt = torch.exp(-ce)
    return (0.25 * (1 - pt) ** 2.0 * ce).mean()


@module("8 80 1024", "8 80 1024:unit", dtype=FP16)
def sigmoid_focal(logits, target):
    p = logits.sigmoid()
    bce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p_t = p * target + (1 - p) * (1 - target)
    alpha_t = 0.25 * target + 0.75 * (1 - target)
    return alpha_t * bce * (1 - p_t).pow(2)


@module("64 1000", "64:<1000", dtype=BF16)
def label_smoothing_nll(logits, target):
    logp = F.log_softmax(logits.float(), dim=-1)
    nll = -logp.gather(-1, target.unsqueeze(1)).squeeze(1)
    smooth = -logp.mean(dim=-1)
    return (0.9 * nll + 0.1 * smooth).mean()


@module("8 64 512", "8 64:<512", "8 64:bool", dtype=BF16)
def token_loss_with_mask(logits, labels, mask):
    loss = F.cross_entropy(logits.flatten(0, 1).float(), labels.reshape(-1), reduction="none")
    mask = mask.view(-1).float()
    return (loss * mask).sum() / mask.sum()


@module("8 65 512", "8 65:<512")
def shifted_language_model_loss(logits, tokens):
    logits, labels = logits[:, :-1], tokens[:, 1:]
    return F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=0)


@module("128 128", "128 128")
def clip_symmetric_loss(image, text):
    image = image / image.norm(dim=-1, keepdim=True)
    text = text / text.norm(dim=-1, keepdim=True)
    logits = 14.3 * image @ text.T
    labels = torch.arange(logits.shape[0])
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


@module("128 256", "128 256")
def siglip_pairwise(a, b):
    logits = torch.mm(F.normalize(a), F.normalize(b).t()) * 10.0 - 10.0
    sign = 2 * torch.eye(logits.size(0)) - 1
    return -F.logsigmoid(sign * logits).sum(-1).mean()


@module("64 128", "64 128", "64 128")
def triplet_soft_margin(anchor, positive, negative):
    d_ap = (anchor - positive).pow(2).sum(1)
    d_an = (anchor - negative).pow(2).sum(1)
    return F.softplus(d_ap - d_an).mean()


@module("256 64", "256 64", "256:<2")
def contrastive_margin(a, b, same):
    d = F.pairwise_distance(a, b)
    y = same.to(d.dtype)
    return 0.5 * (y * d**2 + (1 - y) * torch.clamp(1.0 - d, min=0) ** 2).mean()


@module("128", "128", "128", "128", dtype=BF16)
def direct_preference_loss(chosen, rejected, ref_chosen, ref_rejected):
    margin = (chosen - ref_chosen) - (rejected - ref_rejected)
    return -F.logsigmoid(0.1 * margin).mean(), (margin > 0).float().mean()


@module("8 512", "8 512", "8 512", "8 512:bool")
def clipped_policy_loss(logp, old_logp, advantage, mask):
    ratio = torch.exp(logp - old_logp)
    surrogate = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
    return -(surrogate * mask).sum() / mask.sum()


@module("16 256", "16 256", "16", "16 256:bool")
def group_relative_loss_k3(logp, ref, reward, mask):
    adv = (reward - reward.mean()) / (reward.std() + 1e-4)
    delta = ref - logp
    kl = delta.exp() - delta - 1
    per_token = -(torch.exp(logp - logp.detach()) * adv[:, None]) + 0.04 * kl
    return ((per_token * mask).sum(1) / mask.sum(1).clamp(min=1)).mean()


@module("8 64 64", "8 64 64:unit")
def soft_dice(logits, mask):
    p = torch.sigmoid(logits).flatten(1)
    m = mask.flatten(1)
    overlap = 2 * (p * m).sum(1) + 1.0
    return 1 - (overlap / (p.sum(1) + m.sum(1) + 1.0)).mean()


@module("4 19 64 64", "4 64 64:<19")
def segmentation_ce_with_class_weights(logits, labels):
    weight = torch.linspace(0.5, 2.0, 19)
    logp = F.log_softmax(logits, dim=1)
    picked = logp.gather(1, labels.unsqueeze(1)).squeeze(1)
    w = weight[labels]
    return -(w * picked).sum() / w.sum()


@module("8 128 128", "8 128 128:unit", dtype=FP16)
def tversky_focal(logits, target):
    p = logits.float().sigmoid()
    tp = (p * target).sum(dim=(1, 2))
    fp = (p * (1 - target)).sum(dim=(1, 2))
    fn = ((1 - p) * target).sum(dim=(1, 2))
    return (1 - (tp + 1) / (tp + 0.7 * fn + 0.3 * fp + 1)).pow(0.75).mean()


@module("64 1000", "64 1000", dtype=BF16)
def distillation_kl(student, teacher):
    s = F.log_softmax(student / 4.0, dim=-1)
    t = F.softmax(teacher / 4.0, dim=-1)
    return F.kl_div(s, t, reduction="batchmean") * 16.0


@module("32 256:probability", "32 256:probability")
def jensen_shannon(p, q):
    m = 0.5 * (p + q)
    left = (p * (p.clamp_min(1e-8) / m).log()).sum(-1)
    right = (q * (q.clamp_min(1e-8) / m).log()).sum(-1)
    return (left + right) / 2


@module("64 32", "64 32")
def beta_vae_kl(mu, logvar):
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1)
    return torch.clamp(kl, min=0.5).mean()


@module("256", "256", "256:<3")
def margin_ranking(first, second, label):
    y = label.sub(1).to(first.dtype)
    return F.relu(0.3 - y * (first - second)).mean()


@module("32 100", "32 100:unit")
def list_net_top_one(scores, relevance):
    target = relevance.mul(5).softmax(-1)
    return torch.mean(-torch.sum(target * torch.log(F.softmax(scores, dim=-1) + 1e-10), -1))


@module("128 64", "128 64")
def barlow_twins_terms(a, b):
    a = (a - a.mean(0)) / (a.std(0) + 1e-5)
    b = (b - b.mean(0)) / (b.std(0) + 1e-5)
    c = a.T @ b / a.size(0)
    on = torch.diagonal(c).add(-1).pow(2).sum()
    return on + 0.005 * (c.pow(2).sum() - torch.diagonal(c).pow(2).sum())


@module("256 128")
def variance_hinge_regulariser(z):
    std = torch.sqrt(z.var(dim=0) + 1e-4)
    return torch.mean(F.relu(1 - std))


@module("64 1000", "64:<1000")
def arc_margin_logits(cosine, label):
    cosine = cosine.tanh()
    sine = torch.sqrt((1.0 - cosine * cosine).clamp(0, 1))
    phi = cosine * math.cos(0.5) - sine * math.sin(0.5)
    phi = torch.where(cosine > math.cos(math.pi - 0.5), phi, cosine - 0.24)
    hot = torch.zeros_like(cosine).scatter_(1, label.view(-1, 1), 1.0)
    return 30.0 * (hot * phi + (1.0 - hot) * cosine)


@module("128 4", "128 4", "128 4")
def gaussian_nll_loss(mean, raw, y):
    var = F.softplus(raw) + 1e-4
    return (0.5 * (torch.log(var) + (y - mean) ** 2 / var)).sum(-1).mean()


@module("128 5", "128 5", "128 5", "128 1")
def mixture_density_nll(logits, mu, log_sigma, y):
    logp = -0.5 * ((y - mu) * torch.exp(-log_sigma)) ** 2 - log_sigma - 0.9189385
    return -torch.logsumexp(F.log_softmax(logits, 1) + logp, dim=1).mean()


@module("64 20", "64 20:<2")
def asymmetric_multilabel(logits, labels):
    p = torch.sigmoid(logits)
    shifted = (p - 0.05).clamp(min=0)
    pos = labels * torch.log(p.clamp(min=1e-8))
    neg = (1 - labels) * torch.log((1 - shifted).clamp(min=1e-8)) * shifted**4
    return -(pos + neg).sum()


@module("256 1", "256 1")
def hinge_gan_losses(real, fake):
    d = F.relu(1.0 - real).mean() + F.relu(1.0 + fake).mean()
    return d, -fake.mean()


@module("8 1 64 64:positive", "8 1 64 64:positive", "8 1 64 64:bool")
def scale_invariant_log_depth(pred, depth, valid):
    d = (torch.log(pred) - torch.log(depth)) * valid
    n = valid.sum(dim=(1, 2, 3)).clamp(min=1)
    return ((d * d).sum((1, 2, 3)) / n - 0.5 * (d.sum((1, 2, 3)) / n) ** 2).sqrt()


# Attention: scores, positions, heads


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


# Pooling, resampling, patches


@module("8 64 32 32", "1", dtype=BF16)
def generalised_mean_pool(x, p):
    x = x.clamp(min=1e-6).pow(p)
    return F.adaptive_avg_pool2d(x, 1).flatten(1).pow(1.0 / p)


@module("8 128 28 28", dtype=FP16)
def average_and_max_pooled(x):
    both = [x.mean(dim=(2, 3)), x.amax(dim=(2, 3))]
    return torch.cat(both, dim=1)


@module("8 64 32 32", dtype=BF16)
def spatial_attention_statistics(x):
    avg = torch.mean(x, dim=1, keepdim=True)
    top, _ = torch.max(x, dim=1, keepdim=True)
    return x * torch.sigmoid(torch.cat([avg, top], 1).sum(1, keepdim=True))


@module("16 128 256", "16 128:bool", dtype=BF16)
def masked_mean_embedding(hidden, mask):
    m = mask.unsqueeze(-1).to(hidden.dtype)
    mean = (hidden * m).sum(1) / m.sum(1).clamp(min=1e-9)
    return F.normalize(mean, dim=-1)


@module("16 64 200", dtype=BF16)
def statistics_pooling(x):
    mean = x.mean(-1)
    std = (x - mean.unsqueeze(-1)).pow(2).mean(-1).clamp(min=1e-8).sqrt()
    return torch.cat((mean, std), dim=1)


@module("16 200 128", "16 200 1")
def attentive_statistics_pooling(h, score):
    w = score.softmax(dim=1)
    mean = torch.sum(w * h, dim=1)
    second = torch.sum(w * h * h, dim=1)
    return mean, (second - mean.square()).clamp_min(1e-7).sqrt()


@module("8 48 40 40", dtype=BF16)
def pool_former_mixer(x):
    mixed = F.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False) - x
    return x + 0.1 * mixed


@module("4 32 64 64", dtype=BF16)
def spatial_pyramid_bins(x):
    levels = [F.adaptive_max_pool2d(x, size).flatten(2) for size in (1, 2, 4)]
    return torch.cat(levels, dim=-1).relu()


@module("4 32 40 40", dtype=FP16)
def sppf_max_pools(x):
    y1 = F.max_pool2d(x, 5, 1, 2)
    y2 = F.max_pool2d(y1, 5, 1, 2)
    return torch.cat((x, y1, y2), 1)


@module("16 32 500")
def energy_pool_1d(x):
    e = F.avg_pool1d(x.pow(2), kernel_size=5, stride=5)
    return torch.log10(e + 1e-10) * 10


@module("4 16 8 32 32")
def volume_pool_and_skip(x):
    down = F.max_pool3d(x, (1, 2, 2))
    mean = F.avg_pool3d(x, kernel_size=(1, 2, 2))
    return down - mean


@module("4 64 28 28")
def blur_pool(x):
    taps = torch.tensor([1.0, 2.0, 1.0])
    kernel = torch.outer(taps, taps) / 16
    x = F.pad(x, (1, 1, 1, 1), mode="reflect")
    return F.conv2d(x, kernel.expand(64, 1, 3, 3), stride=2, groups=64)


@module("4 32 16 16", "4 32 32 32", dtype=BF16)
def nearest_up_and_add(low, lateral):
    up = F.interpolate(low, scale_factor=2.0, mode="nearest")
    return F.relu(up + lateral)


@module("2 21 32 32", "2 21 64 64", dtype=BF16)
def bilinear_logits_fused(coarse, fine):
    up = F.interpolate(coarse, size=(64, 64), mode="bilinear", align_corners=False)
    return (up + fine).sigmoid().mul(fine)


@module("8 32 100", "32")
def linear_resample_1d(x, gain):
    y = F.interpolate(x, size=160, mode="linear", align_corners=True)
    return y * gain.view(1, -1, 1) - y.mean(-1, keepdim=True)


@module("2 64 24 24", dtype=FP16)
def pixel_shuffle_clip(x):
    y = F.pixel_shuffle(x, 4)
    return (y * 0.5 + 0.5).clamp(0, 1)


@module("2 32 32 32", "32", "32")
def space_to_depth_affine(x, weight, bias):
    b, c, h, w = x.shape
    x = x * weight.view(c, 1, 1) + bias.view(c, 1, 1)
    x = x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 1, 2, 4)
    return F.silu(x.reshape(b, 4 * c, h // 2, w // 2))


@module("8 3 112 112", "588")
def patchify_normalised(images, bias):
    b, c, h, w = images.size()
    p = images.reshape(b, c, h // 14, 14, w // 14, 14)
    p = torch.einsum("nchpwq->nhwpqc", p).reshape(b, -1, 588)
    return (p - p.mean(-1, keepdim=True)) / (p.var(dim=-1, keepdim=True) + 1e-6) ** 0.5 + bias


@module("8 64 588", "8 64", "8 64 588")
def masked_patch_reconstruction(pred, mask, target):
    loss = (pred - target).pow(2).mean(dim=-1)
    return (loss * mask.sigmoid()).sum() / mask.sigmoid().sum()


@module("4 144 64", "4", dtype=BF16)
def unpatchify_latents(x, sigma):
    x = x * sigma[:, None, None].exp()
    x = x.view(4, 12, 12, 2, 2, 16)
    return x.permute(0, 5, 1, 3, 2, 4).reshape(4, 16, 24, 24)


@module("2 28 28 96", "96", "96", dtype=BF16)
def shifted_window_partition(x, weight, bias):
    x = F.layer_norm(x, (96,), weight, bias)
    x = torch.roll(x, shifts=(-3, -3), dims=(1, 2))
    b, h, w, c = x.shape
    x = x.view(b, h // 7, 7, w // 7, 7, c).transpose(2, 3)
    return x.contiguous().view(-1, 49, c)


@module("32 49 96", "2 28 28 96", "96", dtype=BF16)
def window_reverse_residual(windows, shortcut, gamma):
    x = windows.view(2, 4, 4, 7, 7, 96)
    x = x.permute(0, 1, 3, 2, 4, 5).reshape(2, 28, 28, 96)
    return shortcut + gamma * torch.roll(x, (3, 3), (1, 2))


@module("4 116 28 28", dtype=FP16)
def channel_shuffle_relu(x):
    n, c, h, w = x.shape
    left, right = x[:, : c // 2], x[:, c // 2 :]
    y = torch.cat([left, F.relu(right)], 1)
    return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


@module("4 48 14 14", dtype=BF16)
def temporal_shift(x):
    x = x.view(1, 4, 48, 14, 14)
    ahead = F.pad(x[:, 1:, :6], (0, 0, 0, 0, 0, 0, 0, 1))
    behind = F.pad(x[:, :-1, 6:12], (0, 0, 0, 0, 0, 0, 1, 0))
    return torch.cat([ahead, behind, x[:, :, 12:]], dim=2).flatten(0, 1).tanh()


@module("4 3 56 56", "4 3 1 1:unit")
def circular_pad_jitter(x, gain):
    x = torch.cat([x[..., -2:], x, x[..., :2]], dim=-1)
    x = torch.cat([x[:, :, -2:], x, x[:, :, :2]], dim=2)
    return (x * (0.5 + gain)).clip(-1, 1)


@module("4 32 30 30", "4 32 32 32")
def replicate_pad_difference(x, y):
    return (F.pad(x, [1, 1, 1, 1], mode="replicate") - y).abs().mean((1, 2, 3))


@module("2 16 24 24", dtype=BF16)
def haar_wavelet_level(x):
    a, b = x[:, :, 0::2, 0::2], x[:, :, 0::2, 1::2]
    c, d = x[:, :, 1::2, 0::2], x[:, :, 1::2, 1::2]
    bands = (a + b + c + d, a - b + c - d, a + b - c - d, a - b - c + d)
    return torch.cat(bands, dim=1) * 0.5


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


# Scans and recurrences


@module("16 256 64", "16 256 1:unit", dtype=BF16)
def running_mean_minus(x, weight):
    total = torch.cumsum(x * weight, dim=1)
    return x - total / weight.cumsum(1).clamp(min=1e-3)


@module("64 128:unit", "64 128 3")
def volume_render_weights(density, rgb):
    alpha = 1 - torch.exp(-density * 0.05)
    clear = torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1)[:, :-1]
    w = alpha * torch.cumprod(clear, dim=-1)
    return (w.unsqueeze(-1) * rgb.sigmoid()).sum(1), w.sum(-1)


@module("32 200", dtype=BF16)
def drawdown_from_peak(returns):
    wealth = (returns.float() * 0.01).cumsum(dim=-1).exp()
    peak = torch.cummax(wealth, dim=-1).values
    return ((peak - wealth) / peak).amax(-1)


@module("64 512", "64 512", "64 1", dtype=BF16)
def gru_gates(gi, gh, h):
    ir, iz, inn = gi[:, :510].chunk(3, 1)
    hr, hz, hn = gh[:, :510].chunk(3, 1)
    r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
    n = torch.tanh(inn + r * hn)
    return n + z * (h - n)


@module("32 128", "32 64", "32 64", init=(128, 64))
class PeepholeLstmCell(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.x2h, self.h2h = nn.Linear(inputs, 4 * hidden), nn.Linear(hidden, 4 * hidden, bias=False)
        self.peep = nn.Parameter(torch.zeros(3, hidden))

    def forward(self, x, h, c):
        i, f, g, o = (self.x2h(x) + self.h2h(h)).chunk(4, dim=1)
        i = torch.sigmoid(i + self.peep[0] * c)
        f = torch.sigmoid(f + self.peep[1] * c + 1.0)
        c = f * c + i * g.tanh()
        return torch.sigmoid(o + self.peep[2] * c) * c.tanh(), c


@module("16 6 128", "128")
def leaky_integrate_and_fire(current, decay):
    v, spikes = torch.zeros_like(current[:, 0]), []
    for t in range(6):
        v = v * decay.sigmoid() + current[:, t]
        s = (v > 1.0).to(v.dtype)
        v = v - s
        spikes.append(s)
    return torch.stack(spikes, 1)


@module("8 4 64", "8 4 64", "8 4 16", "8 4 16", "64 16", "64", dtype=BF16)
def selective_scan_four_steps(u, delta, b, c, a_log, d):
    a, state, out = -torch.exp(a_log.float()), 0.0, []
    for t in range(4):
        dt = F.softplus(delta[:, t].float()).unsqueeze(-1)
        state = torch.exp(dt * a) * state + dt * b[:, t, None, :] * u[:, t, :, None]
        out.append((state * c[:, t].unsqueeze(1)).sum(-1) + d * u[:, t])
    return torch.stack(out, dim=1).to(u.dtype)


@module("64 5", "64 5", "64 6")
def advantage_estimate_unrolled(reward, done, value):
    last, out = 0, []
    keep = 1 - done.sigmoid()
    for t in reversed(range(5)):
        delta = reward[:, t] + 0.99 * value[:, t + 1] * keep[:, t] - value[:, t]
        last = delta + 0.99 * 0.95 * keep[:, t] * last
        out.insert(0, last)
    return torch.stack(out, dim=1)


@module("8 4 32 32", "8 4 32", "8 4 32", "8 4", dtype=FP16)
def delta_rule_state_update(state, k, v, beta):
    k = k / (k.pow(2).sum(-1, keepdim=True) + 1e-6).sqrt()
    old = (state * k[..., None]).sum(-2)
    return state + (beta.sigmoid()[..., None] * k).unsqueeze(-1) * (v - old).unsqueeze(-2)


# Indexing, one-hot, scatter, integers


@module("1000 64", "16 50:<1000", dtype=BF16)
def bag_of_words_scaled(table, ids):
    e = F.embedding(ids, table, padding_idx=0)
    count = (ids != 0).sum(1, keepdim=True)
    return e.sum(dim=1) / count.clamp(min=1).sqrt()


@module("512 32", "2048:<512", "2048:<512", "512 32", dtype=BF16)
def edge_features(nodes, source, target, other):
    return torch.relu(nodes[source] - other[target]).sum(-1)


@module("2048 32", "2048:<256")
def graph_mean_aggregate(messages, target):
    total = torch.zeros(256, 32).index_add(0, target, messages)
    count = torch.zeros(256).index_add(0, target, torch.ones(2048))
    return total / count.clamp(min=1).unsqueeze(1)


@module("2048", "2048:<256")
def segment_softmax(scores, segment):
    e = torch.exp(scores.clamp(max=20))
    total = torch.zeros(256, dtype=e.dtype).scatter_add_(0, segment, e)
    return e / (total.index_select(0, segment) + 1e-12)


@module("256 32", "256 4:<256", "256 4", dtype=FP16)
def neighbour_weighted_average(x, neighbours, logits):
    gathered = x[neighbours.flatten()].view(256, 4, 32)
    return (gathered * logits.softmax(dim=1)[:, :, None]).sum(dim=1) + x


@module("128 128", "128 64")
def normalised_adjacency_product(adjacency, x):
    a = (adjacency > 0.5).float() + torch.eye(128)
    d = a.sum(1).rsqrt()
    return F.relu((d[:, None] * a * d[None, :]) @ x)


@module("64 128:<32")
def one_hot_histogram(ids):
    hot = F.one_hot(ids % 16, 16)
    return hot.sum(dim=1).float() / ids.shape[1]


@module("16 256:<50000", "16 256:<50000")
def hashed_bigram_buckets(a, b):
    h = (a * 1000003) ^ (b + 40503)
    return torch.remainder(h, 4096), (h >> 7) & 63


@module("32 64:<100", "32 64:bool")
def position_ids_from_mask(ids, mask):
    keep = mask & (ids != 1)
    return keep.long().cumsum(dim=1) * keep + 1


@module("16 64:<64", "16 64:<64")
def relative_position_bucket(query, key):
    n = (query - key).abs()
    large = 8 + (torch.log(n.clamp(min=1).float() / 8) / math.log(16) * 8).long()
    bucket = torch.where(n < 8, n, large.clamp(max=15))
    return bucket + (query > key).long() * 16


@module("256 16", "256 16")
def confusion_of_argmaxes(pred, truth):
    p, t = pred.argmax(1), truth.argmax(dim=1)
    correct = p.eq(t)
    return correct.float().mean(), (correct & (p > 7)).sum()


@module("4 32 32", "4 32 32:<8")
def heatmap_peaks(heat, label):
    pooled = F.max_pool2d(heat.unsqueeze(1), 3, 1, 1).squeeze(1)
    return torch.where((heat == pooled) & (label != 0), heat.sigmoid(), torch.zeros_like(heat))


# Decoding


@module("8 4000", "8 4000:bool", dtype=FP16)
def repetition_penalty(logits, seen):
    penalised = torch.where(logits < 0, logits * 1.3, logits / 1.3)
    return torch.where(seen, penalised, logits).float().log_softmax(-1)


@module("8 4000", dtype=BF16)
def min_p_filter(logits):
    p = F.softmax(logits.float() / 0.8, dim=-1)
    floor = 0.05 * p.amax(dim=-1, keepdim=True)
    p = p.masked_fill(p < floor, 0.0)
    return p / p.sum(dim=-1, keepdim=True)


@module("8 1000:probability", "8 1:unit")
def inverse_cdf_token(p, u):
    cdf = p.cumsum(-1)
    return (cdf < u).sum(-1), torch.where(cdf - p < 0.9, p, 0.0).sum(-1)


@module("4 5 1000", "4 5")
def beam_scores_flattened(logits, running):
    total = running[..., None] + F.log_softmax(logits, -1)
    best, at = total.flatten(1).max(dim=1)
    return best, at // 1000, at % 1000


@module("8 2000", "8 2000", dtype=BF16)
def classifier_free_logits(conditional, unconditional):
    mixed = unconditional + 1.5 * (conditional - unconditional)
    return (mixed - mixed.logsumexp(-1, keepdim=True)).argmax(dim=-1)


# Statistics and probability


@module("256 32")
def covariance_and_correlation(x):
    x = x - x.mean(dim=0, keepdim=True)
    cov = x.t().matmul(x) / (x.shape[0] - 1)
    std = torch.sqrt(torch.diag(cov))
    return cov / (std[:, None] * std[None, :] + 1e-8)


@module("64 500")
def skewness_and_kurtosis(x):
    d = x - x.mean(1, keepdim=True)
    v = (d**2).mean(1)
    return (d**3).mean(1) / v**1.5, (d**4).mean(1) / v.square() - 3


@module("128 64", "128 64", dtype=BF16)
def pearson_per_row(a, b):
    a, b = a.float(), b.float()
    a, b = a - a.mean(1, True), b - b.mean(1, True)
    return (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1) + 1e-8)


@module("64 100", "64 100:bool")
def masked_standardise(x, mask):
    n = mask.sum(1, keepdim=True).clamp(min=2)
    mean = torch.where(mask, x, 0).sum(1, keepdim=True) / n
    var = ((x - mean).square() * mask).sum(1, keepdim=True) / (n - 1)
    return (x - mean) * mask / var.sqrt().add(1e-5)


@module("64 3", "256 3", "1")
def rbf_kernel_matrix(a, b, log_length):
    d2 = ((a[:, None, :] - b[None]) ** 2).sum(-1)
    k = torch.exp(-0.5 * d2 / torch.exp(2 * log_length))
    return k / k.sum(1, keepdim=True)


@module("256:positive", "256:positive", "256:unit")
def beta_log_density(a, b, x):
    x = x.clamp(1e-4, 1 - 1e-4)
    norm = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
    return (a - 1) * x.log() + (b - 1) * torch.log1p(-x) - norm


@module("64 16", "64 16", "64 16", "64 16")
def gaussian_kl_of_two(m1, s1, m2, s2):
    ratio = (2 * (s1 - s2)).exp()
    return 0.5 * (ratio + ((m1 - m2) / s2.exp()).pow(2) - 1 - ratio.log()).sum(-1)


@module("256 6", "256 6", "256 6", dtype=FP16)
def squashed_gaussian_policy(mean, log_std, noise):
    log_std = torch.clamp(log_std.float(), -5, 2)
    u = mean + noise * log_std.exp()
    logp = -0.5 * noise.float() ** 2 - log_std - 0.5 * math.log(2 * math.pi)
    logp = logp - 2 * (math.log(2) - u - F.softplus(-2 * u))
    return torch.tanh(u), logp.sum(dim=-1)


@module("128", "128:<20")
def poisson_deviance(log_rate, count):
    y = count.float()
    return 2 * (torch.xlogy(y, y) - y * log_rate - y + log_rate.exp()).mean()


# Geometry


@module("64 4", "64 100 3")
def rotate_by_quaternion(q, points):
    q = F.normalize(q, dim=-1)[:, None]
    w, v = q[..., :1], q[..., 1:].expand_as(points)
    t = 2 * torch.linalg.cross(v, points, dim=-1)
    return points + w * t + torch.linalg.cross(v, t, dim=-1)


@module("256 6")
def rotation_from_six_numbers(d6):
    a1, a2 = d6[..., :3], d6[..., 3:]
    b1 = F.normalize(a1, dim=-1)
    b2 = F.normalize(a2 - (b1 * a2).sum(-1, keepdim=True) * b1, dim=-1)
    return torch.stack((b1, b2, torch.cross(b1, b2, dim=-1)), dim=-2)


@module("128 4:unit", "64 4:unit")
def pairwise_box_iou(a, b):
    area_a, area_b = a[:, 2] * a[:, 3], b[:, 2] * b[:, 3]
    low = torch.max(a[:, None, :2], b[None, :, :2])
    high = torch.min((a[:, :2] + a[:, 2:])[:, None], (b[:, :2] + b[:, 2:])[None])
    inter = (high - low).clamp(min=0).prod(-1)
    return inter / (area_a[:, None] + area_b[None] - inter + 1e-7)


@module("512 4", "512 4", dtype=FP16)
def decode_box_deltas(deltas, anchors):
    xy = deltas[:, :2] * 0.1 * anchors[:, 2:] + anchors[:, :2]
    wh = anchors[:, 2:] * torch.exp((deltas[:, 2:] * 0.2).clamp(max=4.135))
    return torch.cat([xy - wh / 2, xy + wh / 2], dim=1)


@module("4 4 4", "4 500 3")
def project_homogeneous(matrix, points):
    p = torch.cat([points, torch.ones_like(points[..., :1])], -1)
    p = p @ matrix.transpose(1, 2)
    return p[..., :2] / p[..., 2:3].abs().clamp(min=1e-3)


@module("2048 3", "2048 3", "3")
def ray_sphere_hit(origin, direction, centre):
    oc = origin - centre
    b = (oc * direction).sum(-1)
    disc = b * b - (direction.square().sum(-1) * (oc.square().sum(-1) - 1.0))
    t = (-b - torch.sqrt(disc.clamp(min=0))) / direction.pow(2).sum(-1)
    return torch.where((disc > 0) & (t > 0), t, -1.0)


@module("512 2:unit", "512 2:unit")
def haversine_distance(a, b):
    lat1, lon1 = a[:, 0], a[:, 1]
    lat2, lon2 = b.unbind(1)
    h = torch.sin((lat2 - lat1) / 2) ** 2 + lat1.cos() * lat2.cos() * ((lon2 - lon1) / 2).sin() ** 2
    return 12742.0 * torch.asin(torch.sqrt(h))


@module("2 128 3", "2 100 3")
def chamfer_distance(a, b):
    d = (a.unsqueeze(2) - b.unsqueeze(1)).pow(2).sum(-1)
    return d.min(dim=2)[0].mean(1) + d.min(dim=1)[0].mean(1)


# Signals and images


@module("16 4000", dtype=FP16)
def pre_emphasis_and_mu_law(wave):
    y = torch.cat([wave[:, :1], wave[:, 1:] - 0.97 * wave[:, :-1]], dim=1).clamp(-1, 1)
    mu = torch.sign(y) * torch.log1p(255 * y.abs()) / math.log(256)
    return ((mu + 1) / 2 * 255 + 0.5).to(torch.int64)


@module("16 1024")
def windowed_frames_energy(wave):
    frames = wave.unfold(-1, 256, 128)
    hann = 0.5 - 0.5 * torch.cos(2 * math.pi * torch.arange(256) / 256)
    return (frames * hann).square().sum(-1).add(1e-8).log()


@module("8 1000", "5")
def fir_filter_by_slices(x, taps):
    y = sum(taps[i] * x[:, i : i + 996] for i in range(5))
    return y - y.mean(dim=1, keepdim=True)


@module("8 80 100:positive", dtype=BF16)
def log_mel_floor(mel):
    db = torch.log10(mel.float().clamp(min=1e-5))
    db = torch.maximum(db, db.amax(dim=(1, 2), keepdim=True) - 8.0)
    return (db + 4.0) / 4.0


@module("2 1 64 64")
def sobel_magnitude(x):
    k = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])
    g = F.conv2d(x, torch.stack([k, k.t()])[:, None], padding=1)
    return g.pow(2).sum(1, keepdim=True).add(1e-6).sqrt()


@module("2 3 48 48:unit", "2 3 48 48:unit")
def ssim_map(x, y):
    def mean(z):
        return F.avg_pool2d(z, 7, 1)

    mx, my = mean(x), mean(y)
    vx, vy, cov = mean(x * x) - mx**2, mean(y * y) - my**2, mean(x * y) - mx * my
    top = (2 * mx * my + 1e-4) * (2 * cov + 9e-4)
    return top / ((mx**2 + my**2 + 1e-4) * (vx + vy + 9e-4))


@module("4 64 64 3:uint8<256", "3", "3:positive")
def normalise_uint8_image(image, mean, std):
    x = image.permute(0, 3, 1, 2).float().div(255)
    return (x - mean[:, None, None]) / std[:, None, None]


@module("4 3 64 64:unit")
def srgb_to_grey_contrast(x):
    linear = torch.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)
    weights = torch.tensor([0.2126, 0.7152, 0.0722]).view(1, 3, 1, 1)
    grey = (linear * weights).sum(dim=1, keepdim=True)
    return (linear - grey) * 0.8 + grey


@module("4 3 64 64:unit", dtype=FP16)
def rgb_to_ycbcr(x):
    r, g, b = x.unbind(1)
    y = 0.299 * r + 0.587 * g + 0.114 * b
    return torch.stack([y, 0.564 * (b - y) + 0.5, 0.713 * (r - y) + 0.5], dim=1)


@module("4 3 48 48:unit")
def rgb_to_hue_saturation(x):
    top, low = x.amax(1), x.amin(1)
    r, g, b = x[:, 0], x[:, 1], x[:, 2]
    c = top - low + 1e-6
    h = torch.where(top == r, (g - b) / c, torch.where(top == g, 2 + (b - r) / c, 4 + (r - g) / c))
    return (h / 6) % 1.0, c / (top + 1e-6), top


@module("4 3 64 64", dtype=BF16)
def total_variation(x):
    dh = (x[:, :, 1:, :] - x[:, :, :-1, :]).abs()
    dw = (x[..., 1:] - x[..., :-1]).abs()
    return dh.mean() + dw.mean()


# Physics, finance, optimisers


@module("1024:positive", "1024:positive", "1024:positive")
def black_scholes_call(spot, strike, vol):
    root = vol * 0.5**0.5
    d1 = (torch.log(spot / strike) + (0.02 + vol * vol / 2) * 0.5) / root
    cdf = 0.5 * (1 + torch.erf(torch.stack([d1, d1 - root]) / 2**0.5))
    return spot * cdf[0] - strike * math.exp(-0.01) * cdf[1]


@module("2 64 3")
def lennard_jones_energy(r):
    d = r[:, :, None] - r[:, None]
    d2 = (d * d).sum(-1) + 10 * torch.eye(64) + 0.5
    s6 = d2.reciprocal() ** 3
    return 2 * (s6 * s6 - s6).sum((1, 2))


@module("4 64 64", "4 64 64")
def wave_equation_step(u, previous):
    laplace = torch.roll(u, 1, 1) + torch.roll(u, -1, 1) + u.roll(1, 2) + u.roll(-1, 2) - 4 * u
    return 2 * u - previous + 0.1 * laplace


@module("128 512", "128 512", "128 512", "128 512:positive", dtype=BF16)
def adam_with_decay(p, g, m, v):
    g = g.float()
    m = m.float().mul(0.9).add(g, alpha=0.1)
    v = v.float().mul(0.999).addcmul(g, g, value=0.001)
    update = (m / (1 - 0.9**10)) / ((v / (1 - 0.999**10)).sqrt() + 1e-8)
    return (p.float() * (1 - 1e-4) - 1e-3 * update).to(p.dtype), m, v


@module("128 512", "128 512", "128 512", dtype=FP16)
def lion_step(p, g, m):
    update = torch.sign(0.9 * m + 0.1 * g)
    return p * 0.999 - 3e-4 * update, torch.lerp(m, g, 0.01)


@module("128 256", "128:positive", "256:positive")
def adafactor_second_moment(g, row, col):
    sq = g.square() + 1e-30
    row = 0.99 * row + 0.01 * sq.mean(dim=-1)
    col = 0.99 * col + 0.01 * sq.mean(dim=-2)
    update = g * (row / row.mean()).rsqrt()[:, None] * col.rsqrt()[None, :]
    return update / torch.clamp(update.pow(2).mean().sqrt(), min=1.0)


@module("64 128")
def newton_schulz_iteration(g):
    x = g / (g.norm() + 1e-7)
    for _ in range(2):
        a = x @ x.mT
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    return x


@module("4 16 32 32", "4", "4 16 32 32", dtype=FP16)
def diffusion_step_from_velocity(x, alpha, v):
    a = alpha.float().sigmoid().view(-1, 1, 1, 1)
    x0 = a.sqrt() * x - (1 - a).sqrt() * v
    noise = a.sqrt() * v + (1 - a).sqrt() * x
    return x0.clamp(-1, 1), noise.to(x.dtype)


@module("512 3", "512 3", "512")
def damped_spring_step(x, v, stiffness):
    length = torch.linalg.norm(x, dim=1, keepdim=True)
    force = -stiffness.unsqueeze(1) * (length - 1) * x / length.clamp(min=1e-6) - 0.1 * v
    v = v + 0.01 * force
    return x + 0.01 * v, v


@module("256", "256", "256")
def three_point_parabola(left, centre, right):
    curve = left - 2 * centre + right
    safe = torch.where(curve.abs() < 1e-6, torch.full_like(curve, 1e-6), curve)
    return centre - 0.125 * (left - right).pow(2) / safe


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
