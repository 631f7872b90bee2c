"""Signals, images, geometry, physics, finance, statistics and probability."""

import math

import torch
import torch.nn.functional as F

from everyday.register import BF16, FP16, module

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


@module("3 256", "32")
def short_time_spectrum_by_matrix(wave, window):
    frames = wave.unfold(-1, 32, 16) * window
    n = torch.arange(32, device=wave.device).float()
    angle = 2 * math.pi * torch.outer(n[:17], n) / 32
    real, imaginary = frames @ angle.cos().T, -(frames @ angle.sin().T)
    return torch.sqrt(real.square() + imaginary.square() + 1e-9).transpose(1, 2)


@module("3 17 15", "3 17 15", "8 17:positive")
def mel_spectrogram_decibels(real, imaginary, bank):
    power = real * real + imaginary * imaginary
    mel = torch.matmul(bank, power)
    db = 10.0 * torch.log10(mel.clamp(min=1e-10))
    return torch.maximum(db, db.amax(dim=(1, 2), keepdim=True) - 80.0) / 80.0 + 1.0


@module("3 8 15", "6 8")
def cepstral_coefficients_with_deltas(log_mel, dct):
    c = torch.einsum("km,bmt->bkt", dct, log_mel)
    c = c * (1 + 11 * torch.sin(math.pi * torch.arange(6, device=c.device) / 22)).unsqueeze(-1)
    padded = F.pad(c, (2, 2), mode="replicate")
    delta = (padded[..., 3:-1] - padded[..., 1:-3] + 2 * (padded[..., 4:] - padded[..., :-4])) / 10
    return torch.cat([c, delta], dim=1)


@module("3 17 15:positive")
def per_channel_energy_normalised(energy):
    m = energy[..., 0]
    out = []
    for t in range(3):
        m = 0.975 * m + 0.025 * energy[..., t]
        out.append((energy[..., t] / (1e-6 + m) ** 0.98 + 2.0).sqrt() - math.sqrt(2.0))
    return torch.stack(out, dim=-1)


@module("3 17 15:positive")
def spectral_centroid_and_flatness(power):
    hz = torch.linspace(0, 8000, 17, device=power.device)
    total = power.sum(dim=1)
    centroid = (power * hz[:, None]).sum(1) / total
    spread = ((hz[None, :, None] - centroid.unsqueeze(1)) ** 2 * power).sum(1).div(total).sqrt()
    return centroid, spread, power.log().mean(1).exp() / power.mean(1)


@module("3 256", "3 1")
def mu_law_expand_with_gain(code, decibels):
    y = code.clamp(-1, 1)
    wave = torch.sign(y) * ((1 + 255.0) ** y.abs() - 1) / 255.0
    return wave * 10 ** (decibels.clamp(-3, 3) / 20)


@module("3 2 200", "2 5")
def fir_per_channel_causal(x, taps):
    padded = F.pad(x, (4, 0))
    frames = padded.unfold(2, 5, 1)
    return (frames * taps.flip(-1)[None, :, None]).sum(-1)


@module("3 64", "3", "3")
def biquad_by_loop(x, b, a):
    y1 = y2 = torch.zeros_like(x[:, 0])
    out = []
    for n in range(2, 5):
        y = b[0] * x[:, n] + b[1] * x[:, n - 1] + b[2] * x[:, n - 2] - 0.1 * a[1] * y1 - 0.1 * a[2] * y2
        out.append(y)
        y1, y2 = y, y1
    return torch.stack(out, 1)


@module("3 240")
def compressor_over_frames(x):
    level = 20 * torch.log10(x.view(3, 24, 10).abs().amax(dim=-1) + 1e-5)
    over = F.relu(level + 18.0)
    gain = torch.pow(10.0, -over * (1 - 1 / 4.0) / 20)
    return (x.view(3, 24, 10) * gain.unsqueeze(-1)).flatten(1)


@module("3 200", "3 200")
def scale_invariant_signal_ratio(estimate, source):
    estimate, source = estimate - estimate.mean(-1, True), source - source.mean(-1, True)
    scale = (estimate * source).sum(-1, keepdim=True) / (source.pow(2).sum(-1, keepdim=True) + 1e-8)
    target = scale * source
    noise = estimate - target
    return 10 * torch.log10(target.pow(2).sum(-1) / (noise.pow(2).sum(-1) + 1e-8) + 1e-8)


@module("2 3 100", "2 3 100")
def permutation_invariant_separation(estimate, source):
    loss = (estimate.unsqueeze(2) - source.unsqueeze(1)).square().mean(-1)
    a, b = loss[:, 0, 0] + loss[:, 1, 1] + loss[:, 2, 2], loss[:, 0, 1] + loss[:, 1, 2] + loss[:, 2, 0]
    return torch.minimum(a, b) / 3


@module("3 32", "3 32", "3 32", "3 32")
def complex_mask_on_spectrum(re, im, mre, mim):
    magnitude = torch.tanh((mre * mre + mim * mim).sqrt())
    phase = torch.atan2(mim, mre + 1e-8)
    a, b = magnitude * phase.cos(), magnitude * phase.sin()
    return re * a - im * b, re * b + im * a


@module("2 4 17", "2 4 17", "2 4 17", "2 4 17")
def beamform_over_microphones(re, im, wre, wim):
    power = (wre.square() + wim.square()).sum(1, keepdim=True).clamp(min=1e-6)
    real, imaginary = (re * wre + im * wim) / power, (im * wre - re * wim) / power
    return real.sum(dim=1), imaginary.sum(dim=1)


@module("3 1", "8", "8:unit")
def harmonic_oscillator_bank(f0, amplitude, phase):
    n = torch.arange(1, 9, device=f0.device)
    hz = (f0.abs() * 400 + 50) * n
    audible = (hz < 1600).float()
    t = torch.arange(40, device=f0.device) / 4000
    wave = torch.sin(2 * math.pi * (hz.unsqueeze(-1) * t + phase[:, None]))
    return torch.einsum("bkt,bk->bt", wave, amplitude.softmax(0) * audible)


@module("3 120")
def zero_crossings_and_energy(x):
    frames = x.unfold(1, 20, 10)
    frames = frames - frames.mean(2, keepdim=True)
    crossings = (frames[..., 1:] * frames[..., :-1] < 0).float().mean(-1)
    return crossings, frames.pow(2).mean(-1).sqrt(), frames.abs().amax(-1)


@module("3 64")
def autocorrelation_pitch(x):
    x = x - x.mean(dim=1, keepdim=True)
    lags = torch.stack([(x[:, : 64 - k] * x[:, k:]).sum(1) for k in (4, 8, 12, 16)], dim=1)
    return lags / x.square().sum(dim=1, keepdim=True).clamp(min=1e-9), lags.argmax(1)


@module("2 3 10 12:unit", "3 3")
def colour_matrix_then_gamma(image, matrix):
    y = torch.tensordot(matrix, image, dims=([1], [1])).permute(1, 0, 2, 3)
    y = y.clamp(0, 1)
    return torch.where(y <= 0.0031308, 12.92 * y, 1.055 * y.clamp(min=1e-5).pow(1 / 2.4) - 0.055)


@module("2 3 10 12:unit")
def rgb_to_lab(image):
    linear = torch.where(image > 0.04045, ((image + 0.055) / 1.055) ** 2.4, image / 12.92)
    r, g, b = linear.unbind(dim=1)
    x, y = (0.4125 * r + 0.3576 * g + 0.1804 * b) / 0.9505, 0.2127 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9503 * b) / 1.0888
    xyz = torch.stack([x, y, z], 1)
    f = torch.where(xyz > 0.008856, xyz.clamp(min=1e-6) ** (1 / 3), 7.787 * xyz + 16 / 116)
    return torch.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], dim=1)


@module("2 3 10 12:unit")
def hue_to_rgb_by_triangles(hsv):
    h, s, v = hsv.split(1, dim=1)
    shift = torch.tensor([5.0, 3.0, 1.0], device=hsv.device).view(1, 3, 1, 1)
    k = (shift + h * 6) % 6
    return v - v * s * torch.minimum(k, 4 - k).clamp(0, 1)


@module("2 3 10 12:unit", "2", "2", "2")
def jitter_brightness_contrast_saturation(x, b, c, s):
    x = (x * (1 + 0.2 * b)[:, None, None, None]).clamp(0, 1)
    grey = 0.299 * x[:, 0] + 0.587 * x[:, 1] + 0.114 * x[:, 2]
    mean = grey.mean(dim=(1, 2)).view(-1, 1, 1, 1)
    x = torch.lerp(mean.expand_as(x), x, (1 + 0.2 * c).view(2, 1, 1, 1)).clamp(0, 1)
    return torch.lerp(grey.unsqueeze(1).expand_as(x), x, (1 + 0.2 * s).view(2, 1, 1, 1))


@module("2 10 12", "5")
def gaussian_blur_separable(image, weights):
    w = weights.softmax(0)
    x = F.pad(image[:, None], (2, 2, 2, 2), mode="reflect")
    x = F.conv2d(x, w.view(1, 1, 1, 5))
    return F.conv2d(x, w.view(1, 1, 5, 1)).squeeze(1)


@module("2 3 10 12")
def unsharp_mask_by_box(x):
    p = F.pad(x, (1, 1, 1, 1), mode="replicate")
    rows = p[:, :, :-2] + p[:, :, 1:-1] + p[:, :, 2:]
    blur = (rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]) / 9
    detail = x - blur
    return torch.where(detail.abs() > 0.05, x + 0.8 * detail, x)


@module("2 10 12")
def harris_corner_response(x):
    gx, gy = x[:, 1:-1, 2:] - x[:, 1:-1, :-2], x[:, 2:, 1:-1] - x[:, :-2, 1:-1]
    products = torch.stack([gx * gx, gy * gy, gx * gy], dim=1)
    a, b, c = F.avg_pool2d(products, 3, stride=1, padding=1).unbind(1)
    return a * b - c * c - 0.04 * (a + b) ** 2


@module("2 10 12")
def oriented_gradient_bins(x):
    gy = x[:, 2:, 1:-1] - x[:, :-2, 1:-1]
    gx = x[:, 1:-1, 2:] - x[:, 1:-1, :-2]
    magnitude, angle = torch.hypot(gx, gy), torch.atan2(gy, gx) % math.pi
    centre = (torch.arange(4, device=x.device) + 0.5) * math.pi / 4
    near = F.relu(1 - (angle.unsqueeze(1) - centre.view(1, 4, 1, 1)).abs() * 4 / math.pi)
    h = F.avg_pool2d(near * magnitude[:, None], 2)
    return h / (h.flatten(1).norm(dim=1).view(2, 1, 1, 1) + 1e-3)


@module("2 3 10 12:unit", "2 1 10 12:unit", "3")
def premultiplied_over_background(colour, alpha, background):
    back = background.sigmoid().view(3, 1, 1)
    out = colour * alpha + back * (1 - alpha)
    return (out * 255).round().clamp(0, 255) / 255


@module("2 5 10 12", "2 5 10 12")
def exposure_fusion_weights(luma, chroma):
    well = torch.exp(-0.5 * ((luma - 0.5) / 0.2) ** 2)
    w = well * chroma.abs() + 1e-12
    w = w / w.sum(dim=1, keepdim=True)
    return (w * luma).sum(1), w


@module("2 1 10 12", "2 1 10 12")
def guided_filter_boxes(guide, x):
    def box(y):
        return F.avg_pool2d(y, 3, 1, 1, count_include_pad=False)

    mg, mx = box(guide), box(x)
    a = (box(guide * x) - mg * mx) / (box(guide * guide) - mg**2 + 1e-2)
    return box(a) * guide + box(mx - a * mg)


@module("2 10 12", "2 10 12")
def bilateral_four_neighbours(x, depth):
    total, weight = x, torch.ones_like(x)
    for dim, step in ((1, 1), (1, -1), (2, 1), (2, -1)):
        near = torch.exp(-((depth - depth.roll(step, dim)) ** 2) / 0.5)
        total, weight = total + near * x.roll(step, dim), weight + near
    return total / weight


@module("2 12 16")
def census_transform_bits(x):
    centre = x[:, 1:-1, 1:-1]
    bits = 0
    for k, (i, j) in enumerate(((0, 0), (0, 1), (0, 2), (1, 0))):
        bits = bits + (x[:, i : i + 10, j : j + 14] > centre).to(torch.int32) * 2**k
    return bits


@module("2 8 10 12", "2 8 10 12")
def stereo_cost_volume(left, right):
    parts = []
    for d in (0, 1, 2):
        moved = F.pad(right, (d, 0))[..., :12]
        parts.append((left * moved).view(2, 2, 4, 10, 12).mean(dim=2))
    p = torch.stack(parts, dim=2).softmax(dim=2)
    return (p * torch.arange(3.0, device=p.device).view(1, 1, 3, 1, 1)).sum(2)


@module("2 3 8 12", "2 6")
def affine_grid_resample(x, theta):
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 12), indexing="ij")
    base = torch.stack([xs, ys, torch.ones_like(xs)], dim=-1).to(x.device)
    grid = torch.einsum("hwk,bjk->bhwj", base, theta.view(2, 2, 3))
    return F.grid_sample(x, grid, align_corners=True, padding_mode="border")


@module("2 1 8 8")
def block_cosine_transform(x):
    k = torch.arange(4, device=x.device).float()
    basis = torch.cos(math.pi * (2 * k[None] + 1) * k[:, None] / 8) * 0.7071
    blocks = x.view(2, 2, 4, 2, 4).transpose(2, 3)
    return basis @ blocks @ basis.mT


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


@module("20 4", "20 4")
def quaternion_product_normalised(p, q):
    a1, b1, c1, d1 = p.unbind(-1)
    a2, b2, c2, d2 = q.unbind(-1)
    r = torch.stack(
        [
            a1 * a2 - b1 * b2 - c1 * c2 - d1 * d2,
            a1 * b2 + b1 * a2 + c1 * d2 - d1 * c2,
            a1 * c2 - b1 * d2 + c1 * a2 + d1 * b2,
            a1 * d2 + b1 * c2 - c1 * b2 + d1 * a2,
        ],
        dim=-1,
    )
    return r / r.norm(dim=-1, keepdim=True)


@module("20 4")
def quaternion_to_rotation_matrix(q):
    w, x, y, z = torch.unbind(q * (2.0 / (q * q).sum(-1, keepdim=True)).sqrt(), -1)
    rows = (1 - y * y - z * z, x * y - z * w, x * z + y * w, x * y + z * w, 1 - x * x - z * z, y * z - x * w)
    return torch.stack((*rows, x * z - y * w, y * z + x * w, 1 - x * x - y * y), -1).reshape(20, 3, 3)


@module("20 4", "20 4", "20:unit")
def spherical_interpolation(a, b, t):
    a, b = F.normalize(a, dim=1), F.normalize(b, dim=1)
    angle = torch.acos((a * b).sum(1).clamp(-0.999, 0.999))
    wa, wb = torch.sin((1 - t) * angle) / angle.sin(), torch.sin(t * angle) / angle.sin()
    return wa[:, None] * a + wb[:, None] * b


@module("20 3")
def axis_angle_to_matrix(v):
    angle = v.norm(dim=-1, keepdim=True).clamp(min=1e-6)
    x, y, z = (v / angle).unbind(-1)
    zero = torch.zeros_like(x)
    k = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], dim=1).view(-1, 3, 3)
    s, c = angle.sin()[..., None], angle.cos()[..., None]
    return torch.eye(3, device=v.device) + s * k + (1 - c) * (k @ k)


@module("4 30 3", "4 3 3", "4 3", "4 4")
def pinhole_projection_with_distortion(points, rotation, shift, intrinsics):
    p = torch.einsum("bij,bnj->bni", rotation, points) + shift[:, None]
    xy = p[..., :2] / p[..., 2:].abs().clamp(min=0.1)
    r2 = xy.square().sum(-1, keepdim=True)
    xy = xy * (1 + 0.1 * r2 - 0.01 * r2 * r2)
    return xy * intrinsics[:, None, :2] + intrinsics[:, None, 2:]


@module("4 30 3", "4 30 3", "4 30:positive")
def rigid_alignment_covariance(a, b, weight):
    w = weight / weight.sum(1, keepdim=True)
    ca, cb = (w.unsqueeze(-1) * a).sum(1, keepdim=True), (w.unsqueeze(-1) * b).sum(1, keepdim=True)
    return torch.einsum("bn,bni,bnj->bij", w, a - ca, b - cb), (cb - ca).squeeze(1)


@module("40 3", "40 3", "40 3", "40 3")
def barycentric_coordinates(p, a, b, c):
    v0, v1, v2 = b - a, c - a, p - a
    d00, d01, d11 = (v0 * v0).sum(-1), (v0 * v1).sum(-1), (v1 * v1).sum(-1)
    d20, d21 = (v2 * v0).sum(-1), (v2 * v1).sum(-1)
    down = d00 * d11 - d01 * d01 + 1e-9
    v, w = (d11 * d20 - d01 * d21) / down, (d00 * d21 - d01 * d20) / down
    return torch.stack([1 - v - w, v, w], dim=-1), (v >= 0) & (w >= 0) & (v + w <= 1)


@module("40 3", "40 3", "40 3")
def triangle_normals_and_areas(a, b, c):
    n = torch.cross(b - a, c - a, dim=1)
    length = n.norm(dim=1, keepdim=True)
    return n / length.clamp_min(1e-9), 0.5 * length.squeeze(1)


@module("40 3", "40 3")
def slab_test_of_rays(origin, direction):
    inverse = 1.0 / torch.where(direction.abs() < 1e-4, 1e-4, direction)
    t0, t1 = (-1.0 - origin) * inverse, (1.0 - origin) * inverse
    near, far = torch.minimum(t0, t1).amax(dim=-1), torch.maximum(t0, t1).amin(-1)
    return (near < far) & (far > 0), near.clamp(min=0)


@module("50 3")
def signed_distance_smooth_union(p):
    sphere = p.norm(dim=-1) - 0.8
    q = p.abs() - torch.tensor([0.6, 0.4, 0.5], device=p.device)
    box = q.clamp(min=0).norm(dim=-1) + q.amax(dim=-1).clamp(max=0)
    h = (0.5 + 0.5 * (box - sphere) / 0.2).clamp(0, 1)
    return torch.lerp(box, sphere, h) - 0.2 * h * (1 - h)


@module("50 3")
def spherical_harmonics_to_degree_two(d):
    x, y, z = F.normalize(d, dim=-1).unbind(-1)
    one = torch.full_like(x, 0.2821)
    first = (0.4886 * y, 0.4886 * z, 0.4886 * x)
    second = (
        1.0925 * x * y,
        1.0925 * y * z,
        0.3154 * (3 * z * z - 1),
        1.0925 * x * z,
        0.5463 * (x * x - y * y),
    )
    return torch.stack((one, *first, *second), dim=-1)


@module("2 40 3", "2 9 3")
def inverse_distance_interpolation(points, anchors):
    d = torch.cdist(points, anchors)
    near = d.topk(3, dim=-1, largest=False)
    w = 1.0 / (near.values + 1e-8)
    return w / w.sum(dim=2, keepdim=True), near.indices


@module("2 20 3", "2 20 5 3", "2 20 5 6", "9 16")
def point_neighbourhood_max(centre, neighbours, features, w):
    relative = torch.cat([neighbours - centre.unsqueeze(2), features], dim=-1)
    return F.relu(relative @ w).amax(dim=2)


@module("30 2 2", "30 2", "30", "30 2")
def splatted_gaussian_weight(inverse, mean, opacity, pixel):
    d = pixel - mean
    power = -0.5 * torch.einsum("ni,nij,nj->n", d, inverse @ inverse.mT, d)
    alpha = (opacity.sigmoid() * power.exp()).clamp(max=0.99)
    through = torch.cumprod(torch.cat([torch.ones_like(alpha[:1]), 1 - alpha[:-1]]), dim=0)
    return alpha * through


@module("3 12 3", "3 12 3")
def bond_angles_and_dihedrals(a, b):
    u, v, w = a[:, 1:-1] - a[:, :-2], b[:, 1:-1] - a[:, 1:-1], b[:, 2:] - b[:, 1:-1]
    n1, n2 = torch.linalg.cross(u, v), torch.linalg.cross(v, w)
    y = (torch.linalg.cross(n1, n2) * F.normalize(v, dim=-1)).sum(-1)
    return torch.atan2(y, (n1 * n2).sum(-1))


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


@module("2 10 12", "2 10 12:unit")
def heat_equation_periodic(u, conductivity):
    flux = torch.roll(u, 1, 1) + torch.roll(u, -1, 1) + torch.roll(u, 1, 2) + torch.roll(u, -1, 2) - 4 * u
    return u + 0.1 * conductivity * flux


@module("2 10 12", "2 10 12")
def reaction_diffusion_step(u, v):
    def laplace(x):
        p = F.pad(x.unsqueeze(1), (1, 1, 1, 1), mode="circular").squeeze(1)
        return p[:, :-2, 1:-1] + p[:, 2:, 1:-1] + p[:, 1:-1, :-2] + p[:, 1:-1, 2:] - 4 * x

    uvv = u * v * v
    return u + 0.16 * laplace(u) - uvv + 0.035 * (1 - u), v + 0.08 * laplace(v) + uvv - 0.1 * v


@module("2 40", "2 40")
def upwind_advection(u, velocity):
    back, ahead = u[:, 1:-1] - u[:, :-2], u[:, 2:] - u[:, 1:-1]
    c = velocity[:, 1:-1]
    return u[:, 1:-1] - 0.2 * (c.clamp(min=0) * back + c.clamp(max=0) * ahead)


@module("2 40")
def burgers_with_flux_limiter(u):
    d = u[:, 1:] - u[:, :-1]
    r = d[:, :-1] / (d[:, 1:] + 1e-6)
    phi = (r + r.abs()) / (1 + r.abs())
    face = u[:, 1:-1] + 0.5 * phi * d[:, 1:]
    flux = 0.5 * face.square()
    return u[:, 2:-1] - 0.1 * (flux[:, 1:] - flux[:, :-1])


@module("2 10 12", "2 10 12", "2 10 12")
def divergence_and_curl_of_staggered_field(u, v, pressure):
    divergence = (u[:, :, 1:] - u[:, :, :-1])[:, 1:] + (v[:, 1:] - v[:, :-1])[:, :, 1:]
    curl = (v[:, :, 1:] - v[:, :, :-1])[:, 1:] - (u[:, 1:] - u[:, :-1])[:, :, 1:]
    return divergence / 0.1 - pressure[:, 1:, 1:], curl


@module("2 9 8 10")
def lattice_boltzmann_collision(f):
    cx = torch.tensor([0.0, 1, 0, -1, 0, 1, -1, -1, 1], device=f.device).view(1, 9, 1, 1)
    cy = torch.tensor([0.0, 0, 1, 0, -1, 1, 1, -1, -1], device=f.device).view(1, 9, 1, 1)
    w = torch.tensor([16.0, 4, 4, 4, 4, 1, 1, 1, 1], device=f.device).view(1, 9, 1, 1) / 36
    f = f.abs() + 0.1
    rho = f.sum(1, keepdim=True)
    ux, uy = (f * cx).sum(1, keepdim=True) / rho, (f * cy).sum(1, keepdim=True) / rho
    cu = cx * ux + cy * uy
    return f - (f - w * rho * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * (ux**2 + uy**2))) / 0.6


@module("14 3", "14 3", "14:positive")
def n_body_leapfrog(x, v, mass):
    r = x[None] - x[:, None]
    inverse = (r.square().sum(-1) + 0.05).pow(-1.5)
    a = torch.einsum("ij,ijk,j->ik", inverse, r, mass)
    v = v + 0.01 * a
    return x + 0.01 * v, v, 0.5 * (mass[:, None] * v**2).sum()


@module("14 3", "14")
def coulomb_with_cutoff(x, charge):
    d = (x[:, None] - x[None]).pow(2).sum(-1).add(1e-6).sqrt()
    switch = 0.5 * (torch.cos(math.pi * d / 2.0) + 1) * (d < 2.0)
    pair = charge[:, None] * charge[None, :] / d * switch
    return 0.5 * pair.triu(1).sum(dim=1)


@module("20 12")
def radial_bessel_basis(d):
    d = d.abs() + 0.05
    n = torch.arange(1, 7, device=d.device)
    x = d / 5.0
    envelope = 1 - 28 * x**6 + 48 * x**7 - 21 * x**8
    basis = math.sqrt(2 / 5.0) * torch.sin(n * math.pi * x.unsqueeze(-1)) / d.unsqueeze(-1)
    return torch.where(x < 1, envelope, 0.0).unsqueeze(-1) * basis


@module("20 3", "20 3", "20 4")
def pendulum_runge_kutta(q, p, k):
    def slope(a, b):
        return b, -torch.sin(a) * k[:, :3] - 0.1 * b

    a1, b1 = slope(q, p)
    a2, b2 = slope(q + 0.05 * a1, p + 0.05 * b1)
    return q + 0.1 * a2, p + 0.1 * b2


@module("20 3 3")
def strain_and_neo_hookean_energy(f):
    f = f * 0.1 + torch.eye(3, device=f.device)
    c = f.transpose(1, 2) @ f
    trace = torch.diagonal(c, dim1=1, dim2=2).sum(-1)
    j = (f[:, 0] * torch.cross(f[:, 1], f[:, 2], dim=1)).sum(1)
    return 0.5 * (trace - 3) - torch.log(j.abs() + 1e-6) + 2 * (j - 1) ** 2, 0.5 * (
        c - torch.eye(3, device=f.device)
    )


@module("30", "30:positive", "30")
def relativistic_boost(t, mass, momentum):
    energy = torch.sqrt(mass.square() + momentum.square())
    beta = (momentum / energy).clamp(-0.99, 0.99)
    gamma = torch.rsqrt(1 - beta**2)
    return gamma * (t - beta * momentum), 0.5 * torch.log(
        (energy + momentum.tanh()) / (energy - momentum.tanh())
    )


@module("12 5:positive", "12 5")
def michaelis_menten_and_hill(s, k):
    k = F.softplus(k)
    rate = s / (k + s * (1 + s / 2.5))
    hill = s**2.7 / (k**2.7 + s**2.7)
    return rate, (rate * hill).sum(-1)


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


@module("20 7", "20 7", "20 3:probability", "20 7 3")
def mixture_of_logistics(x, shift, pi, scale):
    inverse = torch.exp(-scale.clamp(min=-3))
    z = (x - shift).unsqueeze(-1) * inverse
    up, down = torch.sigmoid(z + 0.1 * inverse), torch.sigmoid(z - 0.1 * inverse)
    return torch.logsumexp((up - down).clamp(min=1e-7).log() + pi.log().unsqueeze(1), dim=-1).sum(1)


@module("20 6", "6", "6 6")
def multivariate_normal_by_factor(x, mean, raw):
    lower = raw.tril(-1) * 0.1 + torch.diag_embed(F.softplus(torch.diagonal(raw)) + 0.1)
    precision = lower @ lower.mT
    d = x - mean
    distance = ((d @ precision) * d).sum(-1)
    return -0.5 * (distance + 6 * math.log(2 * math.pi)) + lower.diagonal().log().sum()


@module("20 6", "20 6", "20 6", "20 6")
def student_t_and_cauchy_density(x, loc, log_scale, log_df):
    y = (x - loc) * torch.exp(-log_scale)
    df = F.softplus(log_df) + 2
    t = torch.lgamma((df + 1) / 2) - torch.lgamma(df / 2) - 0.5 * torch.log(math.pi * df) - log_scale
    return t - (df + 1) / 2 * torch.log1p(y * y / df), -torch.log(math.pi * (1 + y * y)) - log_scale


@module("20 6:<9", "20 6", "20 6", "20 6")
def zero_inflated_negative_binomial(count, mu, theta, pi):
    mu, theta = F.softplus(mu) + 1e-4, F.softplus(theta) + 1e-4
    y = count.float()
    s = torch.log(theta + mu)
    nb = (
        theta * (theta.log() - s)
        + y * (mu.log() - s)
        + torch.lgamma(y + theta)
        - torch.lgamma(theta)
        - torch.lgamma(y + 1)
    )
    zero = torch.logaddexp(F.logsigmoid(pi), F.logsigmoid(-pi) + nb)
    return torch.where(count == 0, zero, F.logsigmoid(-pi) + nb)


@module("20 6:positive", "20 6:probability")
def dirichlet_density_and_entropy(a, p):
    total = a.sum(-1)
    log_b = torch.lgamma(a).sum(dim=-1) - torch.lgamma(total)
    density = ((a - 1) * p.log()).sum(-1) - log_b
    return density, log_b + (total - 6) * torch.digamma(total) - ((a - 1) * torch.digamma(a)).sum(-1)


@module("20 6:positive", "20 6:positive", "20 6:positive")
def gamma_and_weibull_density(x, k, scale):
    gamma = (k - 1) * x.log() - x / scale - torch.lgamma(k) - k * scale.log()
    ratio = x / scale
    return gamma, k.log() - scale.log() + (k - 1) * ratio.log() - ratio.pow(k)


@module("20", "20", "20")
def truncated_normal_moments(mean, low, width):
    a, b = low - mean, low + F.softplus(width) - mean
    pdf_a, pdf_b = torch.exp(-a * a / 2) * 0.3989, torch.exp(-b * b / 2) * 0.3989
    mass = 0.5 * (torch.erf(b / math.sqrt(2)) - torch.erf(a / math.sqrt(2))) + 1e-6
    shift = (pdf_a - pdf_b) / mass
    return mean + shift, 1 + (a * pdf_a - b * pdf_b) / mass - shift**2


@module("12 12:positive", "12")
def expected_improvement_from_kernel(k, y):
    k = k @ k.mT / 12 + 0.1 * torch.eye(12, device=k.device)
    mean, std = k @ y / 12, torch.diagonal(k).sqrt()
    z = (mean - y.max() - 0.01) / std
    cdf = 0.5 * torch.erfc(-z * 0.7071)
    return (mean - y.max() - 0.01) * cdf + std * torch.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)


@module("30 8")
def exponential_moving_statistics(x):
    decay = 0.9 ** torch.arange(29, -1, -1, device=x.device)
    w = (decay / decay.sum())[:, None]
    mean = (w * x).sum(0)
    var = (w * (x - mean).pow(2)).sum(0)
    return mean, var.sqrt(), (x[-1] - mean) / (var.sqrt() + 1e-6)


@module("30 8", "30 8")
def concordance_and_spearman(a, b):
    ma, mb = a.mean(0), b.mean(0)
    cov = ((a - ma) * (b - mb)).mean(0)
    ccc = 2 * cov / (a.var(0, correction=0) + b.var(0, correction=0) + (ma - mb).square())
    ra, rb = a.argsort(0).argsort(0).float(), b.argsort(0).argsort(0).float()
    return ccc, 1 - 6 * (ra - rb).square().sum(0) / (30 * (30 * 30 - 1))


@module("30 8")
def robust_scale_by_median(x):
    median = x.median(dim=0, keepdim=True).values
    deviation = (x - median).abs().median(dim=0, keepdim=True)[0]
    z = 0.6745 * (x - median) / deviation.clamp(min=1e-6)
    return torch.where(z.abs() > 3.5, median.expand_as(x), x)


@module("30 5", "30", "5")
def weighted_ridge_normal_equations(x, y, prior):
    w = torch.sigmoid(y.abs() - 1)
    gram = torch.einsum("n,ni,nj->ij", w, x, x) + torch.diag(F.softplus(prior))
    return gram, (x * (w * y)[:, None]).sum(0)


@module("30 6:probability", "30:<6")
def expected_calibration_terms(p, label):
    top, at = p.max(dim=1)
    edges = torch.linspace(0, 1, 6, device=p.device)
    member = ((top[:, None] > edges[:-1]) & (top[:, None] <= edges[1:])).float()
    n = member.sum(0)
    right = (at == label).float() @ member / n.clamp(min=1)
    return (n / 30 * (right - top @ member / n.clamp(min=1)).abs()).sum()
