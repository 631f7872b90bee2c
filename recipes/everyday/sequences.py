"""Recurrence, state spaces, time series, graphs, recommenders, tables, indexing, pooling and positions."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from everyday.register import BF16, FP16, module

# Recurrence and state spaces


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


@module("6 12", "6 20", "60 12", "60 20", "60", "60")
def gated_recurrent_cell(x, h, wi, wh, bi, bh):
    ir, iz, i_new = F.linear(x, wi, bi).chunk(3, 1)
    hr, hz, h_new = F.linear(h, wh, bh).chunk(3, 1)
    r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
    n = torch.tanh(i_new + r * h_new)
    return n + z * (h - n)


@module("6 12", "6 20", "6 20", "32 80", "80")
def long_short_term_cell_joined(x, h, c, w, b):
    i, f, g, o = (torch.cat([x, h], dim=1) @ w + b).split(20, dim=-1)
    c = torch.sigmoid(f + 1.0) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@module("6 80", "6 80", "6 20", "20", "20")
def layer_normalised_lstm_gates(a, b, c, weight, bias):
    gates = F.layer_norm(a, (80,)) + F.layer_norm(b, (80,))
    gates = gates.view(6, 4, 20)
    i, f, o = torch.sigmoid(gates[:, :3]).unbind(1)
    c = f * c + i * gates[:, 3].tanh()
    return o * F.layer_norm(c, (20,), weight, bias).tanh(), c


@module("6 20", "6 20", "6 20", "6 20", "6 20", "6 20")
def exponentially_gated_scalar_memory(i, f, z, c, n, m):
    log_f = F.logsigmoid(f)
    top = torch.maximum(log_f + m, i)
    keep, add = torch.exp(log_f + m - top), torch.exp(i - top)
    c, n = keep * c + add * z.tanh(), keep * n + add
    return c / n.clamp(min=1e-6), c, n, top


@module("2 3 8", "2 3 8", "2 3 8", "2 3 1", "2 3 1", "2 3 8 8", "2 3 8")
def matrix_memory_step(q, k, v, i, f, c, n):
    keep, add = f.sigmoid(), i.clamp(max=3).exp()
    c = keep.unsqueeze(-1) * c + add.unsqueeze(-1) * torch.einsum("bhi,bhj->bhij", v, k / math.sqrt(8))
    n = keep * n + add * k / math.sqrt(8)
    down = (n * q).sum(-1, keepdim=True).abs().clamp(min=1.0)
    return torch.matmul(c, q.unsqueeze(-1)).squeeze(-1) / down, n


@module("5 9 16", "9", "16 3 16")
def minimal_gated_unit_over_steps(x, start, w):
    h = x[:, 0]
    for t in (1, 2):
        f, g, skip = torch.einsum("bi,igo->gbo", x[:, t] + h, w).unbind(0)
        h = (1 - f.sigmoid()) * h + f.sigmoid() * g.tanh() + 0.1 * skip
    return h.unsqueeze(1) * start[None, :, None]


@module("4 10 16", "4 10 16")
def simple_recurrence_with_log_space(gate, candidate):
    log_keep = -F.softplus(gate)
    log_add = -F.softplus(-gate) + torch.where(
        candidate >= 0, (F.relu(candidate) + 0.5).log(), -F.softplus(-candidate)
    )
    total = log_keep.cumsum(dim=1)
    return torch.exp(total + torch.logcumsumexp(log_add - total, dim=1))


@module("4 6 10", "6", "6 8", "6 8", "6 8")
def diagonal_state_space_step(u, log_dt, log_a, b, c):
    dt = F.softplus(log_dt)[:, None]
    a = -torch.exp(log_a)
    decay = torch.exp(dt * a)
    state = torch.zeros(4, 6, 8, device=u.device)
    out = []
    for t in range(3):
        state = decay * state + (decay - 1) / a * b * u[:, :, t, None]
        out.append((state * c).sum(-1))
    return torch.stack(out, dim=-1)


@module("4 24", "4 5", "4 5", "4 24", "24 5", "24", "4 24 5")
def selective_state_update_decode(x, b, c, dt, a_log, d, state):
    dt = F.softplus(dt)
    decay = torch.exp(torch.einsum("bd,dn->bdn", dt, -a_log.exp()))
    state = state * decay + (dt * x).unsqueeze(-1) * b.unsqueeze(1)
    return torch.einsum("bdn,bn->bd", state, c) + d * x, state


@module("2 3 12", "2 3 12 6", "2 12 5", "2 12 5")
def structured_duality_chunk(log_decay, x, b, c):
    total = F.logsigmoid(log_decay).cumsum(-1)
    gap = total.unsqueeze(-1) - total.unsqueeze(-2)
    mask = torch.ones(12, 12, dtype=torch.bool, device=x.device).tril()
    decay = torch.exp(gap.masked_fill(~mask, -1e30))
    return torch.einsum("bln,bsn,bhls,bhsp->bhlp", c, b, decay, x)


@module("8 20", "8 20", "20 20", "20")
def liquid_time_constant_step(x, h, w, tau):
    f = torch.sigmoid((x + h) @ w)
    return (h + 0.1 * f * x.tanh()) / (1 + 0.1 * (1 / F.softplus(tau).clamp(min=0.1) + f))


@module("8 20", "20 30", "30", "8 30", "30 30")
def echo_state_leak(x, w_in, b, h, w):
    return h.mul(0.7).add(torch.tanh(torch.addmm(b, x, w_in) + h @ w * 0.1), alpha=0.3)


@module("8 20", "8 20", "8 20")
def adaptive_threshold_neuron(current, v, threshold):
    v = 0.8 * v + current
    limit = 1.0 + 0.5 * threshold.abs()
    spike = (v > limit).to(v.dtype)
    return spike, (v - spike * limit).clamp(min=-2), 0.95 * threshold + spike


@module("5 8", "5 12 8", "5 12:probability", "5", "5 8")
def neural_turing_write_and_read(key, memory, previous, gate, erase):
    scores = F.cosine_similarity(memory, key.unsqueeze(1), dim=-1) * 5
    w = torch.lerp(previous, scores.softmax(-1), gate.sigmoid()[:, None])
    w = 0.8 * w + 0.1 * (w.roll(1, 1) + w.roll(-1, 1))
    memory = memory * (1 - w.unsqueeze(2) * erase.sigmoid().unsqueeze(1)) + w.unsqueeze(2) * key.unsqueeze(1)
    return (w.unsqueeze(1) @ memory).squeeze(1), memory


class QuasiRecurrentLayer(nn.Module):
    def __init__(self, dim, wide):
        super().__init__()
        self.conv = nn.Conv1d(dim, 3 * wide, 2)

    def forward(self, x):
        z, f, o = self.conv(F.pad(x.transpose(1, 2), (1, 0))).transpose(1, 2).chunk(3, -1)
        keep = torch.cumprod(f.sigmoid().clamp(min=0.1), dim=1)
        c = torch.cumsum((1 - f.sigmoid()) * z.tanh() / keep, dim=1) * keep
        return o.sigmoid() * c


module("3 8 12", init=(12, 10))(QuasiRecurrentLayer)


# Time series


@module("4 36 5", "36 12", "36 12")
def decomposition_and_two_linears(x, w_season, w_trend):
    padded = torch.cat([x[:, :1].repeat(1, 2, 1), x, x[:, -1:].repeat(1, 2, 1)], dim=1)
    trend = F.avg_pool1d(padded.permute(0, 2, 1), 5, stride=1)
    season = x.permute(0, 2, 1) - trend
    return (season @ w_season + trend @ w_trend).permute(0, 2, 1)


@module("4 36 5", "5", "5", "36 12")
def reversible_normalisation_forecast(x, weight, bias, w):
    mean = x.mean(dim=1, keepdim=True).detach()
    std = torch.sqrt(torch.var(x, dim=1, keepdim=True, unbiased=False) + 1e-5)
    y = (x - mean) / std * weight + bias
    y = torch.einsum("blc,lp->bpc", y, w)
    return (y - bias) / (weight + 1e-2) * std + mean


@module("4 5 36", "8 20", "8 20")
def patch_series_embedding(x, w, positions):
    y = F.pad(x, (0, 4), mode="replicate").unfold(dimension=-1, size=8, step=4)
    y = y @ w
    return (y.flatten(0, 1)[:, :8] + positions).view(4, 5, 8, 20)


@module("4 36 5", "36 12", "5")
def last_value_linear_forecast(x, w, bias):
    last = x[:, -1:].detach()
    y = (x - last).transpose(1, 2).matmul(w) + bias[:, None]
    return y.transpose(1, 2) + last


@module("4 36 5")
def fold_by_period_and_average(x):
    y = x.permute(0, 2, 1).reshape(4, 5, 6, 6)
    season = y.mean(dim=2, keepdim=True)
    level = y.mean(dim=3, keepdim=True)
    return (y - season - level + y.mean((2, 3), keepdim=True)).reshape(4, 5, 36), season.flatten(2)


@module("4 24", "24 30", "30", "30 24", "30 8")
def backcast_and_forecast_block(x, w, b, back, ahead):
    h = F.relu(x @ w + b)
    return x - h @ back, h @ ahead


@module("4 5", "4 5")
def trend_and_seasonal_basis(theta, phi):
    t = torch.arange(12, device=theta.device) / 12
    powers = torch.stack([t**i for i in range(5)])
    waves = torch.cat([torch.cos(2 * math.pi * k * t)[None] for k in range(5)], dim=0)
    return theta @ powers + phi @ waves


@module("4 30", "4", "4")
def exponential_smoothing_three_steps(y, a, b):
    a, b = a.sigmoid(), b.sigmoid()
    level, slope = y[:, 0], y[:, 1] - y[:, 0]
    for t in (1, 2, 3):
        new = a * y[:, t] + (1 - a) * (level + slope)
        level, slope = new, b * (new - level) + (1 - b) * slope
    return level[:, None] + slope[:, None] * torch.arange(1, 7, device=y.device)


@module("4 6", "4 6", "6 6", "6 6", "3 6")
def kalman_filter_diagonal(x, p, f, q, h):
    x, p = x @ f.T, p.abs() * f.diagonal().square() + q.diagonal().abs()
    innovation = x @ h.T
    s = p @ h.square().T + 0.5
    gain = torch.einsum("bi,ji,bj->bij", p, h, 1 / s)
    return x - torch.einsum("bij,bj->bi", gain, innovation), p * (
        1 - torch.einsum("bij,ji->bi", gain, h)
    ).clamp(min=0)


@module("4 30 3:positive")
def moving_average_crossover(price):
    fast = price.unfold(1, 5, 1).mean(-1)[:, -15:]
    slow = price.unfold(1, 15, 1).mean(-1)[:, -15:]
    returns = (price[:, 1:] / price[:, :-1]).log()[:, -15:]
    position = torch.sign(fast - slow)
    return (position * returns).sum(1), returns.std(1) * math.sqrt(252)


@module("4 30 3:positive")
def relative_strength_and_bands(price):
    change = price.diff(dim=1)
    up, down = F.relu(change).mean(1), F.relu(-change).mean(1)
    middle, spread = price.mean(dim=1), price.std(dim=1)
    return 100 - 100 / (1 + up / (down + 1e-9)), torch.stack(
        [middle - 2 * spread, middle, middle + 2 * spread], dim=-1
    )


@module("4 12 5", "4 12 5:bool", "5", "12 5")
def gated_decay_imputation(x, seen, mean, gap):
    decay = torch.exp(-F.relu(gap * 0.3))
    last = torch.where(seen, x, 0.0).cumsum(1) / seen.float().cumsum(1).clamp(min=1)
    filled = torch.where(seen, x, decay * last + (1 - decay) * mean)
    return torch.cat([filled, seen.to(x.dtype)], dim=-1)


@module("4 12 20", "20 40", "40", "20", "20")
def gated_residual_network(x, w, b, weight, bias):
    y = F.glu(F.elu(x) @ w + b, dim=-1)
    return F.layer_norm(x + y, (20,), weight, bias)


@module("4 6 12", "4 72", "72 6")
def variable_selection_weights(features, flat, w):
    weight = F.softmax(F.elu(flat) @ w, dim=-1).unsqueeze(-1)
    return (weight * F.elu(features)).sum(dim=1), weight.squeeze(-1)


# Graphs


@module("14 8", "14 14:unit", "8 10")
def graph_convolution_symmetric(x, adjacency, w):
    a = adjacency + torch.eye(14, device=x.device)
    inverse = a.sum(1).rsqrt()
    return F.relu(inverse[:, None] * (a @ (inverse[:, None] * (x @ w))))


@module("14 3 8", "14 14:bool", "3 8", "3 8")
def graph_attention_dense(h, edges, left, right):
    e = F.leaky_relu((h * left).sum(-1)[:, None] + (h * right).sum(-1)[None], 0.2)
    alpha = torch.where(edges.unsqueeze(-1), e, -9e15).softmax(dim=1)
    return F.elu(torch.einsum("ijh,jhd->ihd", alpha, h)).flatten(1)


@module("2 14 8", "2 14 14:unit", "8 10", "8 10")
def sage_with_mean_and_self(x, adjacency, w_self, w_near):
    near = torch.bmm(adjacency, x) / adjacency.sum(-1, keepdim=True).clamp(min=1.0)
    return F.normalize(x @ w_self + near @ w_near, dim=-1)


@module("2 14 8", "2 14 14:bool", "8 16", "16 8", "1")
def isomorphism_layer(x, edges, w1, w2, eps):
    y = (1 + eps) * x + edges.float() @ x
    return (F.relu(y @ w1) @ w2).sum(dim=1)


@module("14 8", "14 14:unit", "3 8 10")
def chebyshev_polynomials(x, a, w):
    laplacian = -a / a.sum(dim=1, keepdim=True)
    t0, t1 = x, laplacian @ x
    t2 = 2 * laplacian @ t1 - t0
    return torch.einsum("kni,kio->no", torch.stack([t0, t1, t2]), w)


@module("14 8", "14 14:unit", "14 8")
def personalised_page_rank_steps(z, adjacency, x):
    a = F.normalize(adjacency, p=1, dim=1)
    for _ in range(2):
        z = 0.9 * a @ z + 0.1 * x
    return z.log_softmax(dim=-1)


@module("14 14 5", "14 8", "5 8", "8 8", "14 14:bool")
def message_passing_with_edges(edge, x, we, wx, mask):
    message = F.relu((x @ wx).unsqueeze(0) + edge @ we) * mask.unsqueeze(-1)
    pooled = torch.cat([message.sum(1), message.amax(1), message.mean(1)], dim=-1)
    return pooled * torch.log1p(mask.sum(1, keepdim=True).float()) / 2.0


@module("14 3", "14 8", "8 1", "14 14")
def equivariant_coordinates_update(x, h, w, edge):
    d = x.unsqueeze(1) - x.unsqueeze(0)
    r2 = d.square().sum(-1, keepdim=True)
    m = torch.tanh((h.unsqueeze(1) * h.unsqueeze(0)) @ w + edge.unsqueeze(-1)) / (r2 + 1)
    return x + (d * m).sum(1) / 13, m.squeeze(-1)


@module("2 14 8", "2 14 14:unit", "8 4")
def differentiable_graph_pooling(x, a, w):
    s = (x @ w).softmax(dim=-1)
    pooled = torch.einsum("bnk,bnd->bkd", s, x)
    coarse = s.transpose(1, 2) @ a @ s
    entropy = (-s * torch.log(s + 1e-12)).sum(-1).mean()
    return pooled, coarse, (a - s @ s.transpose(1, 2)).norm() / a.numel() + entropy


@module("2 14 8", "8")
def top_scores_graph_pool(x, p):
    score = torch.tanh(x @ p / p.norm())
    top = score.topk(5, dim=1)
    kept = x.gather(1, top.indices.unsqueeze(-1).expand(-1, -1, 8)) * top.values.unsqueeze(-1)
    return torch.cat([kept.mean(1), kept.amax(1)], -1)


@module("14 8", "14 8", "10 8", "14:<10", "14:<10")
def translation_and_rotation_embeddings(head, phase, relation, kind, other):
    r, s = relation[kind], relation[other]
    translated = -(head + r - phase).abs().sum(dim=1)
    a, b = head.chunk(2, 1)
    c, d = (s[:, :4]).cos(), (s[:, :4]).sin()
    turned = torch.cat([a * c - b * d, a * d + b * c], 1)
    return 9.0 + translated, -(turned - phase).view(14, 2, 4).norm(dim=1).sum(1)


@module("14 8", "9 8", "14:<9")
def tri_linear_score_with_all_tails(head, entities, relation):
    scores = (head * entities[relation]) @ entities.t()
    return scores.sigmoid(), scores.gather(1, relation[:, None])


# Recommenders and tables


@module("16 9 6", "16 9", "1")
def factorisation_machine_with_linear(v, first, bias):
    pair = 0.5 * (v.sum(dim=1).square() - v.square().sum(dim=1)).sum(dim=1, keepdim=True)
    return torch.sigmoid(bias + first.sum(dim=1, keepdim=True) + pair)


@module("16 9 6", "9 9 6")
def field_aware_pairs(v, other):
    inner = torch.einsum("bid,ijd->bij", v, other)
    return (inner * inner.transpose(1, 2)).triu(1).sum((-1, -2))


@module("16 20", "16 20", "20 4", "4 20", "20")
def deep_cross_low_rank(x0, x, u, v, b):
    return x0 * (torch.tanh(x @ u) @ v + b) + x


@module("16 12", "16 5 12", "12 8")
def dense_with_pairwise_dots(dense, sparse, w):
    both = torch.cat([dense.unsqueeze(1), sparse], dim=1) @ w
    z = torch.bmm(both, both.transpose(1, 2))
    rows, columns = torch.tril_indices(6, 6, -1)
    return torch.cat([dense, z[:, rows, columns]], dim=1)


@module("16 9 6", "16 7 6", "4 9 7")
def compressed_interaction_layer(x0, x, w):
    outer = torch.einsum("bhd,bmd->bhmd", x0, x)
    y = torch.einsum("bhmd,nhm->bnd", outer, w).relu()
    return y.sum(dim=-1)


@module("16 9 6", "6 4", "4")
def attentional_interactions(v, w, h):
    i, j = torch.triu_indices(9, 9, 1)
    pairs = v[:, i] * v[:, j]
    weight = (F.relu(pairs @ w) @ h).softmax(1)
    return torch.einsum("bp,bpd->bd", weight, pairs)


@module("16 6", "16 10 6", "16 10:bool", "24 8", "8")
def interest_from_history(item, history, mask, w, v):
    q = item.unsqueeze(1).expand(-1, 10, -1)
    joint = torch.cat([q, history, q - history, q * history], dim=-1)
    score = torch.sigmoid(joint @ w) @ v
    return torch.bmm((score * mask).unsqueeze(1), history).squeeze(1)


@module("16 9 6", "9 3", "3 9", "16 9")
def squeeze_fields_then_weigh(v, down, up, side):
    z = torch.cat([v.amax(-1), v.mean(-1)], dim=0)
    a = F.relu(F.relu(z @ down) @ up).view(2, 16, 9).sum(0)
    return (v * (a + side.sigmoid()).unsqueeze(-1)).flatten(1)


@module("16 20", "4 20 12", "20 8", "2 20 4")
def multi_gate_experts_for_two_tasks(x, experts, shared, gates):
    out = F.relu(torch.einsum("bi,kio->bko", x, experts))
    weight = torch.einsum("bi,tik->tbk", x, gates).softmax(-1)
    return torch.einsum("tbk,bko->tbo", weight, out), (x @ shared).relu()


@module("16 8", "16 8", "50 8", "50")
def two_towers_with_popularity(user, item, negatives, log_q):
    user, item = F.normalize(user, dim=-1), F.normalize(item, dim=-1)
    logits = torch.cat([(user * item).sum(-1, keepdim=True), user @ negatives.T - log_q], dim=1) / 0.2
    return logits.logsumexp(dim=1) - logits[:, 0]


@module("16 6", "6 9", "6 9", "9")
def numerical_feature_tokens(x, weight, bias, cls):
    tokens = x.unsqueeze(-1) * weight + bias
    return torch.cat([cls.view(1, 1, -1).expand(16, -1, -1), tokens], dim=1)


@module("16 6", "6 5")
def piecewise_linear_encoding(x, raw):
    edges = raw.sort(dim=-1).values
    width = (edges[:, 1:] - edges[:, :-1]).clamp(min=1e-3)
    return ((x.unsqueeze(-1) - edges[:, :-1]) / width).clamp(0, 1).flatten(1)


@module("16 6", "6 4")
def periodic_numbers_embedding(x, frequency):
    v = 2 * math.pi * frequency[None] * x[..., None]
    return torch.cat([v.cos(), v.sin(), x[..., None]], dim=-1)


@module("16 12", "16 12", "24 12", "24", "24")
def sparse_mask_decision_step(x, prior, w, weight, bias):
    y = F.linear(x, w) * weight + bias
    a, gate = y.chunk(2, dim=1)
    mask = F.softmax(a * gate.sigmoid() * prior.abs(), dim=-1)
    return x * mask, prior * (1.3 - mask), -(mask * (mask + 1e-10).log()).sum(1).mean()


@module("16 12", "3 12", "3", "8 5")
def soft_oblivious_tree(x, choice, threshold, response):
    picked = x @ choice.softmax(-1).t()
    right = (picked - threshold).div(0.5).sigmoid()
    both = torch.stack([1 - right, right], dim=-1)
    leaf = torch.einsum("ba,bc,bd->bacd", both[:, 0], both[:, 1], both[:, 2]).reshape(16, 8)
    return leaf @ response


@module("16:<30", "16:<7", "30 6", "7 6", "16 4")
def embedded_categories_and_numbers(city, day, cities, days, numbers):
    log = torch.sign(numbers) * torch.log1p(numbers.abs())
    week = 2 * math.pi * day.float().unsqueeze(1) / 7
    return torch.cat([cities[city] * days[day], log, week.sin(), week.cos()], dim=1)


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


# Pooling heads, gates and positions


@module("4 12 20", "4 12:bool", "20")
def masked_mean_max_and_attention(x, keep, query):
    m = keep.unsqueeze(-1)
    mean = (x * m).sum(1) / m.sum(1).clamp(min=1)
    top = x.masked_fill(~m, -1e4).max(dim=1).values
    weight = (x @ query).masked_fill(~keep, -1e4).softmax(-1)
    return torch.cat([mean, top, torch.einsum("bt,btd->bd", weight, x)], dim=-1)


@module("4 12 20", "4:<12")
def last_valid_token_normalised(x, last):
    picked = x[torch.arange(4, device=x.device), last]
    return picked / picked.norm(dim=-1, keepdim=True).clamp(min=1e-12)


@module("4 12 20", "20 6", "6 20")
def vector_of_local_aggregates(x, assign, centres):
    a = F.softmax(x @ assign, dim=-1)
    v = torch.einsum("btk,btd->bkd", a, x) - a.sum(1).unsqueeze(-1) * centres
    return F.normalize(F.normalize(v, dim=2).flatten(1), dim=-1)


@module("4 10 5 6")
def second_order_pooling_signed_root(x):
    y = x.flatten(2)
    g = y @ y.mT / 30
    g = torch.sign(g) * (g.abs() + 1e-9).sqrt()
    return F.normalize(g.reshape(4, -1))


@module("4 12 20", "20 8", "20 8", "8")
def gated_instances_bag(x, v, u, w):
    score = (torch.tanh(x @ v) * torch.sigmoid(x @ u)) @ w
    a = torch.softmax(score, dim=1)
    return (a.unsqueeze(1) @ x).squeeze(1), a


@module("4 10 5 6", "3 10", "3")
def class_activation_and_linear_softmax(x, w, b):
    maps = torch.einsum("kc,bchw->bkhw", w, x) + b.view(1, 3, 1, 1)
    p = maps.sigmoid().flatten(2)
    scaled = maps - maps.amin((2, 3), keepdim=True)
    return p.square().sum(-1) / p.sum(-1), scaled / scaled.amax((2, 3), keepdim=True).clamp(min=1e-5)


@module("4 12 20", "5 4", "20 20")
def pyramid_of_averages_in_time(x, mix, w):
    y = (x @ w).transpose(1, 2)
    bins = torch.cat([y.mean(2, keepdim=True), y.view(4, 20, 4, 3).mean(-1)], dim=2)
    return torch.einsum("bcn,nk->bck", bins, mix).flatten(1)


@module("4 12 20", "4 12 20", "40", "1")
def learned_mix_of_two_streams(a, b, w, bias):
    gate = torch.sigmoid(torch.cat([a, b], -1) @ w + bias).unsqueeze(-1)
    return gate * a + (1 - gate) * b, gate.mean(dim=(1, 2))


@module("3 4 12 20", "3")
def scalar_mix_of_layers(layers, weight):
    w = weight.softmax(0)
    mixed = sum(w[i] * layers[i] for i in range(3))
    return 1.3 * mixed - mixed.mean(dim=1, keepdim=True)


@module("4 12 20", "20 3", "3 3", "3")
def hyper_connections_width(x, w, base, beta):
    streams = torch.stack([x, 0.5 * x, -x], dim=2)
    alpha = base + 0.1 * torch.tanh(x @ w).unsqueeze(-2)
    return torch.einsum("btij,btjd->btid", alpha, streams) + beta.view(1, 1, 3, 1) * x.unsqueeze(2)


@module("4 24 5 6")
def fixed_two_dimensional_waves(x):
    omega = 1.0 / 100 ** (torch.arange(6, device=x.device) / 6)
    y = torch.arange(5, device=x.device)[:, None] * omega
    z = torch.arange(6, device=x.device)[:, None] * omega
    rows = torch.cat([y.sin(), y.cos()], 1).t()[:, :, None].expand(12, 5, 6)
    columns = torch.cat([z.sin(), z.cos()], 1).t()[:, None].expand(12, 5, 6)
    return x + torch.cat([rows, columns], dim=0)


@module("4 12 20", "30 20", "4 12:bool")
def learned_positions_after_padding(x, table, keep):
    at = (keep.long().cumsum(1) * keep.long()) + 1
    return (x * math.sqrt(20) + table[at]) * keep[..., None]


@module("4 12 20", "20", "12 8", "8 20")
def low_rank_position_and_type(x, kind, left, right):
    y = x + torch.matmul(left, right).unsqueeze(0) + kind
    return (y - y.mean(-1, keepdim=True)) / y.std(-1, keepdim=True)


@module("4 20", "6 4 3", "20 12")
def hyper_network_generated_filter(z, x, w):
    kernels = (z @ w).view(4, 3, 4)
    y = torch.einsum("nki,bio->bnko", x.transpose(1, 2), kernels.transpose(1, 2))
    return y.permute(0, 3, 1, 2).mean(dim=-1).tanh()


@module("6 4 9", "4 9 5", "6 4 5")
def capsule_routing_one_round(u, w, bias):
    votes = torch.einsum("bid,idk->bik", u, w)
    c = (bias * votes).sum(-1, keepdim=True).softmax(dim=1)
    s = (c * votes).sum(dim=1)
    n = s.square().sum(-1, keepdim=True)
    return n / (1 + n) * s / (n + 1e-8).sqrt()


@module("4 6 20", "4 6 20", "20 20 5", "5")
def biaffine_arc_labels(head, child, w, bias):
    scores = torch.einsum("bid,del,bje->blij", child, w, head)
    return scores.permute(0, 2, 3, 1) + bias, scores.sum(1).argmax(-1)


@module("4 9 20", "9")
def span_endpoints_and_widths(x, width_bias):
    start, end = x[..., :10], x[..., 10:]
    scores = start.sum(-1).unsqueeze(2) + end.amax(-1).unsqueeze(1)
    at = torch.arange(9, device=x.device)
    gap = at[None] - at[:, None]
    return (
        torch.where((gap >= 0) & (gap < 4), scores + width_bias[gap.clamp(min=0)], -1e4)
        .flatten(1)
        .log_softmax(1)
    )


@module("4 20", "4 20", "4 20", "20")
def denoiser_output_with_skip(noisy, sigma_raw, net, mean):
    sigma = F.softplus(sigma_raw[:, :1]) + 1e-3
    skip, out = 0.25 / (sigma**2 + 0.25), sigma * 0.5 / (sigma**2 + 0.25).sqrt()
    return skip * (noisy - mean) + out * net + mean


@module("4 3 6 7", "4 3 6 7", "4:unit")
def flow_matching_target_and_loss(x, noise, t):
    t = t.view(-1, 1, 1, 1)
    mixed = (1 - t) * noise + t * x
    weight = (1 / (1 - t).clamp(min=0.05)).flatten(1).clamp(max=5)
    return mixed, weight * (x - noise).square().flatten(1).mean(dim=1, keepdim=True)


@module("4 10", "4 10", "10 10", "10")
def affine_coupling_with_log_determinant(x, other, w, scale):
    a, b = x[:, :5], x[:, 5:]
    s, t = (torch.cat([a, other[:, 5:]], 1) @ w).chunk(2, dim=1)
    s = torch.tanh(s) * scale[:5]
    return torch.cat([a, b * s.exp() + t], dim=1).flip(1), s.sum(dim=1)


@module("6 8", "8", "8", "1")
def planar_flow(z, w, u, b):
    inner = z @ w + b
    u = u + (F.softplus(w @ u) - 1 - w @ u) * w / w.square().sum()
    grad = (1 - inner.tanh().square()).unsqueeze(1) * w
    return z + u * inner.tanh().unsqueeze(1), torch.log((1 + grad @ u).abs() + 1e-6)
