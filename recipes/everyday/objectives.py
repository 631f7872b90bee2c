"""Losses, objectives of preferences and policies, optimisers' steps, sampling and decoding."""

import math

import torch
import torch.nn.functional as F

from everyday.register import BF16, FP16, module

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


@module("32 20", "32:<20")
def smoothed_cross_entropy_by_scatter(logits, target):
    logp = logits.log_softmax(dim=1)
    soft = torch.full_like(logp, 0.1 / 19).scatter_(1, target.unsqueeze(1), 0.9)
    return torch.mean(torch.sum(-soft * logp, dim=1))


@module("32 20", "32 20:probability", "20:unit")
def soft_target_loss_with_class_weight(logits, target, weight):
    return -(target * weight * F.log_softmax(logits, dim=-1)).sum(dim=-1).div(weight.sum()).mean()


@module("16 9", "16 9", "16 9:unit", alpha=0.3)
def binary_focal_by_probability(logits, other, target, alpha):
    p = torch.sigmoid(logits + other)
    pt = p * target + (1 - p) * (1 - target)
    at = alpha * target + (1 - alpha) * (1 - target)
    return -(at * (1 - pt).pow(1.5) * pt.clamp(min=1e-7).log()).sum(dim=1)


@module("3 5 12 14", "3 12 14:<5")
def generalised_dice_loss(logits, label):
    p = logits.softmax(dim=1)
    y = F.one_hot(label, 5).permute(0, 3, 1, 2).to(p.dtype)
    weight = 1.0 / (y.sum(dim=(2, 3)).square() + 1.0)
    shared = (weight * (p * y).sum((2, 3))).sum(1)
    return 1.0 - 2.0 * shared / (weight * (p + y).sum((2, 3))).sum(1)


@module("3 1 12 14", "3 1 12 14:bool")
def dice_plus_cross_entropy(logits, mask):
    y = mask.float().flatten(1)
    z = logits.flatten(1)
    p = z.sigmoid()
    dice = 1 - (2 * (p * y).sum(-1) + 1) / (p.sum(-1) + y.sum(-1) + 1)
    return 0.5 * dice.mean() + 0.5 * F.binary_cross_entropy_with_logits(z, y)


@module("3 12 14", "3 12 14:bool", "3 12 14:unit")
def weighted_binary_cross_entropy(logits, label, weight):
    y = label.to(logits.dtype)
    loss = logits.clamp(min=0) - logits * y + torch.log(1 + torch.exp(-logits.abs()))
    return (loss * weight).sum(dim=(-1, -2)) / weight.sum(dim=(-1, -2)).clamp(min=1.0)


@module("16 9", "16 9:bool", "9:positive")
def positive_weighted_logistic(z, label, positive):
    y = label.float()
    return ((1 - y) * z + (1 + (positive - 1) * y) * (F.softplus(-z.abs()) + F.relu(-z))).mean(dim=0)


@module("16 9", "16 9:<2")
def ranking_of_pairs_in_labels(scores, label):
    gap = scores.unsqueeze(2) - scores.unsqueeze(1)
    wanted = (label.unsqueeze(2) > label.unsqueeze(1)).float()
    return (F.softplus(-gap) * wanted).sum((1, 2)) / wanted.sum((1, 2)).clamp_min(1)


@module("24 16", "24:<5")
def supervised_contrastive(z, label):
    z = F.normalize(z, p=2.0, dim=1)
    scores = z @ z.T / 0.1
    scores = scores - scores.max(dim=1, keepdim=True).values.detach()
    others = 1.0 - torch.eye(24, device=z.device)
    same = label.view(-1, 1).eq(label.view(1, -1)).float() * others
    logp = scores - torch.log((scores.exp() * others).sum(1, keepdim=True))
    return -(same * logp).sum(1) / same.sum(1).clamp(min=1)


@module("12 16", "12 16")
def normalised_temperature_cross_entropy(a, b):
    z = F.normalize(torch.cat([a, b]), dim=-1)
    scores = (z @ z.t()).div(0.5).masked_fill(torch.eye(24, dtype=torch.bool, device=z.device), -1e9)
    target = (torch.arange(24, device=z.device) + 12) % 24
    return F.cross_entropy(scores, target)


@module("24 16", "24 16", "50 16")
def momentum_contrast_with_queue(q, k, queue):
    positive = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
    logits = torch.cat([positive, torch.einsum("nc,kc->nk", q, queue)], dim=1) / 0.07
    return logits.logsumexp(1) - logits[:, 0]


@module("24 16", "24:<4")
def hardest_triplets_in_batch(z, label):
    d = torch.cdist(z, z)
    same = label[:, None] == label[None, :]
    far = (d * same).amax(dim=1)
    near = torch.where(same, d.max() + 1, d).amin(dim=1)
    return F.relu(far - near + 0.3).mean()


@module("16 20", "16 20", "16 20")
def triplet_with_cosine_distance(anchor, near, far):
    def distance(a, b):
        return 1 - (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1)).clamp(min=1e-8)

    return torch.clamp(distance(anchor, near) - distance(anchor, far) + 0.2, min=0).sum()


@module("16 20", "16 5 20", "16 20")
def several_negatives_lifted(anchor, negatives, positive):
    far = (negatives - anchor[:, None]).pow(2).sum(2).sqrt()
    near = (positive - anchor).pow(2).sum(1).sqrt()
    return ((1.0 - far).exp().sum(dim=1).log() + near).relu().square() / 2


@module("16 12", "16 12", "16 12", "16 12")
def gaussian_divergence_with_free_bits(mu, logvar, prior_mu, prior_logvar):
    kl = prior_logvar - logvar - 1 + (logvar.exp() + (mu - prior_mu) ** 2) / prior_logvar.exp()
    return torch.clamp(0.5 * kl.mean(dim=0), min=0.1).sum()


@module("16 12", "16 12")
def symmetric_divergence_of_logits(a, b):
    pa, pb = F.log_softmax(a, -1), F.log_softmax(b, -1)
    return ((pa.exp() - pb.exp()) * (pa - pb)).sum(-1).mean() / 2


@module("16 12", "16 12", "16:<12")
def distillation_with_hard_labels(student, teacher, label):
    t = 4.0
    soft = F.kl_div(F.log_softmax(student / t, 1), F.softmax(teacher / t, 1), reduction="batchmean")
    return 0.7 * t * t * soft + 0.3 * F.cross_entropy(student, label)


@module("16 12", "16 12", "16:<12")
def decoupled_distillation(student, teacher, label):
    target = F.one_hot(label, 12).bool()
    ps, pt = student.softmax(1), teacher.softmax(1)
    s1, t1 = (ps * target).sum(1), (pt * target).sum(1)
    s_rest = F.log_softmax(student - 1000.0 * target, dim=1)
    t_rest = F.softmax(teacher - 1000.0 * target, dim=1)
    binary = t1 * (t1 / s1).log() + (1 - t1) * ((1 - t1) / (1 - s1)).log()
    return binary + 8.0 * F.kl_div(s_rest, t_rest, reduction="none").sum(1)


@module("3 8 5 6", "3 12 5 6", "8 12 1 1")
def feature_imitation_attention_transfer(student, teacher, w):
    s = student.pow(2).mean(1).flatten(1)
    t = teacher.pow(2).mean(1).flatten(1)
    hint = (F.conv2d(teacher, w) - student).abs().mean()
    return (s / s.norm(dim=1, keepdim=True) - t / t.norm(dim=1, keepdim=True)).pow(2).sum(1), hint


@module("16 9", "16 9")
def smooth_l1_spelt_out(pred, target):
    d = (pred - target).abs()
    return torch.where(d < 0.11, 0.5 * d * d / 0.11, d - 0.055).mean(dim=-1)


@module("16 9", "16 9")
def reversed_huber(pred, target):
    d = torch.abs(pred - target)
    c = 0.2 * d.amax()
    return torch.where(d <= c, d, (d.square() + c * c) / (2 * c)).sum(1)


@module("16 9", "16 9", "9")
def huber_by_clamping(pred, target, log_delta):
    delta = log_delta.exp()
    d = (pred - target).abs()
    quadratic = torch.minimum(d, delta)
    return 0.5 * quadratic**2 + delta * (d - quadratic)


@module("16 9", "16 9")
def pseudo_huber_and_tukey(pred, target):
    r = (pred - target) / 1.5
    pseudo = torch.sqrt(1 + r.square()) - 1
    tukey = (1 - (1 - (r / 4.685).clamp(-1, 1) ** 2) ** 3) / 6
    return pseudo.mean(0), tukey.mean(0)


@module("3 2 9", "3 9")
def interval_score(bounds, y):
    low, high = bounds.amin(dim=1), bounds.amax(dim=1)
    miss = (low - y).clamp(min=0) + (y - high).clamp(min=0)
    return ((high - low) + 2 / 0.1 * miss).mean(dim=-1)


@module("3 7 9", "3 9", "7:unit")
def quantile_ensemble_with_crossing(pred, y, q):
    e = y[:, None] - pred
    pinball = torch.maximum(q[:, None] * e, (q[:, None] - 1) * e)
    crossing = F.relu(pred[:, :-1] - pred[:, 1:])
    return pinball.mean((1, 2)) + 10 * crossing.mean((1, 2))


@module("20 6", "20")
def energy_score_of_samples(samples, y):
    first = (samples - y.unsqueeze(1)).abs().mean(1)
    second = (samples[:, :, None] - samples[:, None, :]).abs().mean((1, 2))
    return first - 0.5 * second


@module("40 4:unit", "40 4:unit")
def generalised_box_loss(a, b):
    low, high = torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, :2] + a[:, 2:], b[:, :2] + b[:, 2:])
    inter = (high - low).clamp(min=0).prod(dim=1)
    union = a[:, 2:].prod(dim=1) + b[:, 2:].prod(dim=1) - inter + 1e-7
    around = torch.maximum(a[:, :2] + a[:, 2:], b[:, :2] + b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])
    hull = around.prod(1) + 1e-7
    return 1 - inter / union + (hull - union) / hull


@module("40 4:unit", "40 4:unit")
def complete_box_loss(p, t):
    px, py, pw, ph = p.unbind(-1)
    tx, ty, tw, th = t.unbind(-1)
    iw = (torch.min(px + pw / 2, tx + tw / 2) - torch.max(px - pw / 2, tx - tw / 2)).clamp(0)
    ih = (torch.min(py + ph / 2, ty + th / 2) - torch.max(py - ph / 2, ty - th / 2)).clamp(0)
    iou = iw * ih / (pw * ph + tw * th - iw * ih + 1e-7)
    v = 4 / math.pi**2 * (torch.atan(tw / (th + 1e-4)) - torch.atan(pw / (ph + 1e-4))) ** 2
    rho = (px - tx) ** 2 + (py - ty) ** 2
    return 1 - iou + rho + v * v / (1 - iou + v + 1e-4)


@module("20 17", "20:unit")
def distribution_focal_for_boxes(logits, distance):
    y = distance * 15
    left = y.floor().long()
    logp = logits.log_softmax(-1)
    low, high = logp.gather(1, left[:, None])[:, 0], logp.gather(1, left[:, None] + 1).squeeze(1)
    expected = logits.softmax(-1) @ torch.arange(17.0, device=y.device)
    return -(low * (left + 1 - y) + high * (y - left)), expected


@module("3 20 2", "3 20 2", "3 20:bool", "20:positive")
def keypoint_similarity(pred, truth, visible, sigma):
    d2 = (pred - truth).pow(2).sum(-1)
    s = torch.exp(-d2 / (2 * 4 * sigma.square() + 1e-6))
    return 1 - (s * visible).sum(1) / visible.sum(1).clamp(min=1)


@module("16", "16", "16", "16", "16")
def preference_loss_with_smoothing_and_margin(chosen, rejected, ref_chosen, ref_rejected, margin):
    ratio = 0.1 * ((chosen - rejected) - (ref_chosen - ref_rejected)) - margin.relu()
    loss = -F.logsigmoid(ratio) * 0.95 - F.logsigmoid(-ratio) * 0.05
    return loss.mean(), 0.1 * (chosen - ref_chosen).detach(), (ratio > 0).float().mean()


@module("6 12 30", "6 12:<30", "6 12:bool", "6")
def sequence_preference_from_logits(logits, tokens, mask, reference):
    logp = torch.gather(logits.log_softmax(-1), 2, tokens.unsqueeze(2)).squeeze(2)
    total = (logp * mask).sum(-1) - reference
    chosen, rejected = total.chunk(2)
    return torch.square(chosen - rejected - 1 / (2 * 0.2)).mean()


@module("8 10", "8 10:bool", "8 10", "8 10:bool")
def odds_ratio_preference(chosen, keep_c, rejected, keep_r):
    a = -(chosen.abs() * keep_c).sum(1) / keep_c.sum(1).clamp(min=1) - 0.01
    b = -(rejected.abs() * keep_r).sum(1) / keep_r.sum(1).clamp(min=1) - 0.01
    odds = (a - b) - (torch.log1p(-a.exp()) - torch.log1p(-b.exp()))
    return -a - 0.1 * F.logsigmoid(odds)


@module("5 6")
def group_relative_advantage(reward):
    mean, std = reward.mean(dim=1, keepdim=True), reward.std(dim=1, keepdim=True)
    return ((reward - mean) / (std + 1e-4)).clamp(-3, 3).view(-1), std.squeeze(1) > 1e-3


@module("12 20:small", "12 20:small", "12", "12 20:bool")
def dual_clipped_policy_objective(logp, old, advantage, mask):
    ratio = (logp - old).clamp(-20, 20).exp()
    a = advantage[:, None]
    inner = torch.min(ratio * a, ratio.clamp(0.8, 1.28) * a)
    inner = torch.where(a < 0, torch.max(inner, 3.0 * a), inner)
    return -(inner * mask).sum() / mask.sum(), ((ratio > 1.28) & mask).sum() / mask.sum()


@module("12 20:small", "12 20:small", "12", "12 20:bool")
def sequence_level_ratio_objective(logp, old, advantage, mask):
    length = mask.sum(-1).clamp(min=1)
    log_ratio = ((logp - old) * mask).sum(-1) / length
    ratio = log_ratio.exp()
    return -torch.minimum(ratio * advantage, torch.clamp(ratio, 1 - 3e-4, 1 + 4e-4) * advantage).mean()


@module("12", "12", "12")
def clipped_value_loss(value, old, target):
    clipped = old + torch.clamp(value - old, -0.2, 0.2)
    worst = torch.max((value - target) ** 2, (clipped - target) ** 2)
    explained = 1 - (target - value).var() / (target.var() + 1e-8)
    return 0.5 * worst.mean(), explained


@module("16 5", "16:<5", "16", "16 5", "16 5", "16:bool")
def double_q_learning_target(q, action, reward, q_next, q_target, done):
    best = q_next.argmax(dim=1, keepdim=True)
    target = reward + 0.97 * q_target.gather(1, best).squeeze(1) * (~done)
    return F.smooth_l1_loss(q.gather(1, action[:, None]).squeeze(1), target, reduction="none")


@module("16 4 11", "11", "16:<4", "16")
def categorical_value_projection(logits, support, action, reward):
    p = logits.softmax(-1)[torch.arange(16, device=logits.device), action]
    moved = (reward[:, None] + 0.9 * support).clamp(-2, 2)
    near = (1 - (moved[:, :, None] - support[None, None]).abs() / 0.4).clamp(0, 1)
    return (p.unsqueeze(-1) * near).sum(1)


@module("8 7", "8 9")
def quantile_regression_temporal_difference(pred, target):
    u = target[:, None, :] - pred[:, :, None]
    tau = (torch.arange(7, device=pred.device) + 0.5) / 7
    huber = torch.where(u.abs() <= 1, 0.5 * u**2, u.abs() - 0.5)
    return ((tau.view(1, -1, 1) - (u < 0).float()).abs() * huber).mean(2).sum(1)


@module("16 3", "16 3", "16 3", "16", "1")
def soft_actor_temperature_loss(mean, log_std, noise, q, log_alpha):
    log_std = -5 + 3.5 * (torch.tanh(log_std) + 1)
    action = mean + log_std.exp() * noise
    logp = (-0.5 * noise.square() - log_std - 0.919).sum(-1)
    logp = logp - torch.log(1 - action.tanh().square() + 1e-6).sum(-1)
    return (log_alpha.exp() * logp - q).mean(), -(log_alpha * (logp - 3.0)).mean()


@module("16 8", "16 8", "16")
def wasserstein_gradient_penalty(grad, fake, real_score):
    norm = grad.view(16, -1).norm(2, dim=1)
    return real_score.mean() - fake.mean() + 10.0 * ((norm - 1) ** 2).mean()


@module("24 16", "24 16")
def variance_invariance_covariance(a, b):
    a, b = a - a.mean(0), b - b.mean(0)
    spread = F.relu(1 - torch.sqrt(a.var(dim=0) + 1e-4)).mean()
    cov = a.T @ a / 23
    off = (cov.square().sum() - cov.diagonal().square().sum()) / 16
    return 25 * F.mse_loss(a, b) + 25 * spread + off


@module("24 16", "24 16", "16")
def self_distillation_with_centre(student, teacher, centre):
    target = F.softmax((teacher - centre) / 0.04, dim=-1)
    loss = torch.sum(-target * F.log_softmax(student / 0.1, dim=-1), dim=-1)
    return loss, centre * 0.9 + teacher.mean(dim=0) * 0.1


@module("24 16", "24 16")
def kernel_mean_discrepancy(x, y):
    def gram(a, b):
        d = a.square().sum(1, keepdim=True) + b.square().sum(1) - 2 * a @ b.t()
        return torch.exp(-d / 8) + torch.exp(-d / 32)

    return gram(x, x).mean() + gram(y, y).mean() - 2 * gram(x, y).mean()


@module("16 10", "16:<10", "10 6", "16 6")
def centre_loss_and_prototypes(logits, label, centres, features):
    pull = (features - centres[label]).square().sum(dim=1).clamp(1e-12, 1e12)
    return F.cross_entropy(logits, label, label_smoothing=0.05) + 0.003 * pull.mean()


@module("16 10", "16:<10")
def additive_margin_cosine(cosine, label):
    cosine = cosine.tanh()
    margin = 0.35 * F.one_hot(label, 10)
    return F.nll_loss(torch.log_softmax(30.0 * (cosine - margin), dim=1), label)


@module("16 7", "16:<8")
def ordinal_cumulative_loss(logits, rank):
    level = (rank[:, None] > torch.arange(7, device=logits.device)).float()
    return -(F.logsigmoid(logits) * level + (F.logsigmoid(logits) - logits) * (1 - level)).sum(1)


@module("16 10", "16:<10")
def polynomial_and_symmetric_cross_entropy(logits, label):
    p = F.softmax(logits, dim=1)
    hot = F.one_hot(label, num_classes=10).float()
    pt = (p * hot).sum(-1)
    reverse = -(p * torch.log(hot.clamp(min=1e-4))).sum(1)
    return -pt.log() + (1 - pt) + 0.5 * reverse


@module("6 12", "6 12:bool", "6 12:positive")
def partial_likelihood_of_survival(risk, event, time):
    order = time.argsort(dim=1, descending=True)
    risk, event = risk.gather(1, order), event.gather(1, order)
    return -((risk - risk.logcumsumexp(dim=1)) * event).sum(1) / event.sum(1).clamp(min=1)


@module("3 4 9 10", "3 4 9 10", "3 1 9 10:unit")
def masked_gradient_difference(pred, truth, mask):
    d = (pred - truth) * mask
    gx, gy = (d[..., 1:] - d[..., :-1]).abs(), (d[..., 1:, :] - d[..., :-1, :]).abs()
    return (gx.sum((1, 2, 3)) + gy.sum((1, 2, 3))) / mask.sum((1, 2, 3))


# Optimisers


@module("20 30", "20 30", "20 30", "20 30:positive", "20 30:positive")
def amsgrad_step(p, g, m, v, v_max):
    m.lerp_(g, 0.1)
    v.mul_(0.99).addcmul_(g, g, value=0.01)
    v_max = torch.maximum(v_max, v)
    return p - 1e-3 * m / (v_max.sqrt() + 1e-8)


@module("20 30", "20 30", "20 30")
def nesterov_with_decay(p, g, buffer):
    g = g.add(p, alpha=5e-4)
    buffer = buffer * 0.9 + g
    return p.add(g + 0.9 * buffer, alpha=-0.05), buffer


@module("20 30", "20 30", "20 30:positive", "20 30")
def root_mean_square_propagation(p, g, square, mean):
    square = 0.95 * square + 0.05 * g.square()
    mean = torch.lerp(mean, g, 0.05)
    return torch.addcdiv(p, g, (square - mean**2).clamp(min=0).sqrt() + 1e-6, value=-0.01)


@module("20 30", "20 30", "20 30", "20 30:positive")
def layerwise_trust_ratio(p, g, m, v):
    update = (0.9 * m + 0.1 * g) / (v.sqrt() + 1e-6) + 0.01 * p
    trust = p.norm() / update.norm().clamp(min=1e-6)
    return p - 2e-3 * trust.clamp(max=10.0) * update


@module("20 30", "12", "5 6")
def clip_gradients_by_global_norm(a, b, c):
    total = torch.stack([a.square().sum(), b.square().sum(), c.square().sum()]).sum().sqrt()
    scale = torch.clamp(1.0 / (total + 1e-6), max=1.0)
    return a * scale, b * scale, c * scale, total


@module("20 30", "20 30", "20 30")
def orthogonalised_momentum(p, g, m):
    m = 0.95 * m + g
    x = (g + 0.95 * m) / ((g + 0.95 * m).norm() + 1e-7)
    for _ in range(2):
        s = x @ x.mT
        x = 3.4445 * x + (-4.775 * s + 2.0315 * s @ s) @ x
    return p * (1 - 0.02 * 0.1) - 0.02 * x * max(1, 20 / 30) ** 0.5


@module("20 30", "20 30", "20 20", "30 30")
def shampoo_preconditioners(p, g, left, right):
    left = 0.99 * left + g @ g.t()
    right = torch.addmm(right, g.t(), g, beta=0.99)
    scaled = g / (left.diagonal().abs()[:, None] + 1e-4).pow(0.25) / (right.diagonal().abs() + 1e-4).pow(0.25)
    return p - 0.1 * scaled, left, right


@module("20 30", "20 30", "20 30", "20 30:positive")
def sign_of_agreement_step(p, g, m, step):
    agree = torch.sign(g * m)
    factor = torch.where(agree > 0, 1.2, torch.where(agree < 0, 0.5, 1.0))
    step = (step * factor).clamp(1e-6, 50.0)
    g = torch.where(agree < 0, torch.zeros_like(g), g)
    return p - g.sign() * step, g, step


@module("20 30", "20 30", "20 30", dtype=BF16)
def averaged_weights_and_slow_copy(fast, slow, average):
    slow = slow + 0.5 * (fast - slow)
    return slow, average.float().mul(0.999).add(slow.float(), alpha=0.001).to(average.dtype)


@module("20 30", "20 30")
def centralised_gradient_projection(p, g):
    g = g - g.mean(dim=1, keepdim=True)
    along = (p * g).sum(1, keepdim=True) / (p.square().sum(dim=1, keepdim=True) + 1e-8)
    return p - 0.1 * (g - along * p)


# Sampling and decoding


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


@module("6 50")
def nucleus_filter(logits):
    ordered, at = torch.sort(logits / 0.7, descending=True, dim=-1)
    p = ordered.softmax(-1)
    drop = (p.cumsum(-1) - p) > 0.9
    return logits.masked_fill(drop.scatter(1, at, drop), float("-inf")).softmax(-1)


@module("6 50", "6 50:unit")
def gumbel_softmax_straight_through(logits, u):
    noise = -torch.log(-torch.log(u.clamp(1e-6, 1 - 1e-6)))
    y = ((logits + noise) / 0.5).softmax(dim=-1)
    hard = F.one_hot(y.argmax(-1), 50).to(y.dtype)
    return (hard - y).detach() + y


@module("6 50", "6 50:<4")
def frequency_and_presence_penalty(logits, counts):
    logits = logits - 0.4 * counts - 0.6 * (counts > 0)
    return (logits - logits.amax(-1, keepdim=True)).exp()


@module("4 3 40", "4 3", "4 3:bool", "4 3:<9")
def beam_expansion_with_length_penalty(logits, score, done, length):
    logp = logits.log_softmax(-1).masked_fill(done.unsqueeze(-1), 0.0)
    total = (score.unsqueeze(-1) + logp) / ((5.0 + length.unsqueeze(-1)) / 6.0) ** 0.6
    best, at = total.view(4, -1).topk(3, dim=1)
    return best, torch.div(at, 40, rounding_mode="floor"), at % 40


@module("6 40:probability", "6 40:probability", "6:<40", "6:unit")
def speculative_acceptance(target, draft, token, u):
    p, q = target.gather(1, token[:, None]).squeeze(1), draft.gather(1, token[:, None]).squeeze(1)
    rest = (target - draft).clamp(min=0)
    return u < p / q, rest / rest.sum(-1, keepdim=True).clamp(min=1e-9)


@module("6 40", "6 40")
def contrastive_decoding_scores(expert, amateur):
    le, la = expert.log_softmax(-1), amateur.log_softmax(-1)
    plausible = le >= le.amax(-1, keepdim=True) + math.log(0.1)
    return torch.where(plausible, 1.5 * le - 0.5 * la, -1e9)


@module("6 40")
def typical_sampling_surprise(logits):
    logp = torch.log_softmax(logits, dim=-1)
    entropy = -(logp.exp() * logp).nansum(-1, keepdim=True)
    return torch.abs(-logp - entropy), entropy.exp()


@module("6 12", "6 12", "6 12:<3")
def transducer_step_scores(blank, label, kind):
    stay = torch.logaddexp(blank, label - 0.5)
    move = F.pad(stay[:, :-1], (1, 0), value=-1e4)
    skip = torch.where(kind == 2, F.pad(blank[:, :-2], (2, 0), value=-1e4), -1e4)
    return torch.stack([stay, move, skip]).logsumexp(0)


@module("6 5 5", "5 5", "6 5")
def viterbi_step(emission, transition, score):
    total = score[:, :, None] + transition + emission
    best = total.max(dim=1)
    return best.values, best.indices, torch.logsumexp(total, dim=1) - best.values
