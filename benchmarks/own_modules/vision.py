"""Blocks of image models: excitation, patches, resizing, shuffling, blurring, normaliser-free convolution."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from own_modules.registry import Case, entry


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int, reduced: int) -> None:
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, reduced, 1), nn.Conv2d(reduced, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        pooled = x.mean((2, 3), keepdim=True)
        return x * F.hardsigmoid(self.expand(F.relu(self.reduce(pooled))))


class InvertedResidual(nn.Module):
    """Expand, depthwise, squeeze-excite, project; batch norms with running statistics that are not trivial."""

    def __init__(self, channels: int, expansion: int = 4) -> None:
        super().__init__()
        wide = channels * expansion
        self.layers = nn.Sequential(
            nn.Conv2d(channels, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
            nn.Hardswish(inplace=True),
            nn.Conv2d(wide, wide, 5, padding=2, groups=wide, bias=False),
            nn.BatchNorm2d(wide),
            nn.Hardswish(inplace=True),
            SqueezeExcite(wide, channels),
            nn.Conv2d(wide, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        for layer in self.layers:
            if isinstance(layer, nn.BatchNorm2d):
                layer.running_mean.normal_(0, 0.2)
                layer.running_var.uniform_(0.5, 1.5)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)


@entry("squeeze_excite_residual", "float32")
def squeeze_excite_residual() -> Case:
    return InvertedResidual(24), (torch.randn(2, 24, 28, 28),), {}


class PatchEmbedding(nn.Module):
    """Patches by reshape and permute, a class token, and a learnt grid of positions resized to the image."""

    def __init__(self, patch: int, dim: int, grid: int) -> None:
        super().__init__()
        self.patch = patch
        self.norm = nn.LayerNorm(3 * patch * patch)
        self.proj = nn.Linear(3 * patch * patch, dim)
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, dim, grid, grid) * 0.02)

    def forward(self, image: Tensor) -> Tensor:
        batch, channels, height, width = image.shape
        rows, columns = height // self.patch, width // self.patch
        x = image.reshape(batch, channels, rows, self.patch, columns, self.patch)
        x = x.permute(0, 2, 4, 3, 5, 1).reshape(batch, rows * columns, -1)
        positions = F.interpolate(self.positions, size=(rows, columns), mode="bilinear", antialias=False)
        x = self.proj(self.norm(x)) + positions.flatten(2).transpose(1, 2)
        return torch.cat((self.cls.expand(batch, -1, -1), x), dim=1)


@entry("patch_embedding", "bfloat16")
def patch_embedding() -> Case:
    return PatchEmbedding(patch=8, dim=96, grid=7), (torch.randn(2, 3, 64, 80),), {}


class UpsampleDecoder(nn.Module):
    """Doubles a feature map bilinearly, joins the encoder's, convolves, and adds a resized shortcut."""

    def __init__(self, deep: int, skip: int, out: int) -> None:
        super().__init__()
        self.fuse = nn.Conv2d(deep + skip, out, 3, padding=1)
        self.shortcut = nn.Conv2d(deep, out, 1)
        self.norm = nn.GroupNorm(4, out)

    def forward(self, features: dict[str, Tensor]) -> Tensor:
        deep, skip = features["deep"], features["skip"]
        raised = F.interpolate(deep, scale_factor=2.0, mode="bilinear", align_corners=False)
        fused = self.norm(self.fuse(torch.cat((raised, skip), dim=1)))
        shortcut = F.interpolate(self.shortcut(deep), size=skip.shape[-2:], mode="nearest")
        return F.leaky_relu(fused, 0.1) + shortcut


@entry("bilinear_decoder", "float32")
def bilinear_decoder() -> Case:
    features = {"deep": torch.randn(2, 32, 12, 16), "skip": torch.randn(2, 16, 24, 32)}
    return UpsampleDecoder(32, 16, 16), (features,), {}


class PixelShuffleHead(nn.Module):
    """A super-resolution head: PReLU residuals, sub-pixel convolution, and the bicubic image added."""

    def __init__(self, channels: int, scale: int) -> None:
        super().__init__()
        self.scale = scale
        self.body = nn.Sequential(
            nn.Conv2d(3, channels, 3, padding=1),
            nn.PReLU(channels),
            nn.Conv2d(channels, channels, 3, padding=1),
        )
        self.raise_ = nn.Sequential(nn.Conv2d(channels, 3 * scale**2, 3, padding=1), nn.PixelShuffle(scale))

    def forward(self, image: Tensor) -> Tensor:
        base = F.interpolate(image, scale_factor=self.scale, mode="bicubic", align_corners=False)
        return (base + self.raise_(self.body(image))).clamp(0.0, 1.0)


@entry("pixel_shuffle_head", "float32")
def pixel_shuffle_head() -> Case:
    return PixelShuffleHead(24, 3), (torch.rand(2, 3, 20, 20),), {}


class BlurPoolDown(nn.Module):
    """Max pooling at stride one, then a fixed binomial blur at stride two over reflected borders."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        row = torch.tensor([1.0, 3.0, 3.0, 1.0])
        kernel = row[:, None] * row[None, :]
        self.register_buffer("kernel", (kernel / kernel.sum()).expand(channels, 1, 4, 4).clone())
        self.conv = nn.Conv2d(channels, 2 * channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(x, 2, stride=1)
        x = F.pad(x, (1, 2, 1, 2), mode="reflect")
        x = F.conv2d(x, self.kernel, stride=2, groups=x.shape[1])
        return F.mish(self.conv(x))


@entry("blur_pool_down", "bfloat16")
def blur_pool_down() -> Case:
    return BlurPoolDown(32), (torch.randn(2, 32, 25, 25),), {}


class ScaledConv2d(nn.Conv2d):
    """A convolution whose weights are standardised over fan-in at each call."""

    def __init__(self, *args: int, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.gain = nn.Parameter(torch.ones(self.out_channels, 1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        var, mean = torch.var_mean(self.weight, dim=(1, 2, 3), keepdim=True, unbiased=False)
        fan_in = self.weight[0].numel()
        weight = (self.weight - mean) * torch.rsqrt(torch.clamp(var * fan_in, min=1e-4)) * self.gain
        return F.conv2d(x, weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class NormFreeBlock(nn.Module):
    """A bottleneck without norms: variance is kept by constants, alpha and beta, and by scaled weights."""

    gamma = 1.7015043497085571

    def __init__(self, channels: int, alpha: float = 0.2, beta: float = 0.9) -> None:
        super().__init__()
        self.alpha, self.beta = alpha, beta
        self.conv1 = ScaledConv2d(channels, channels // 2, 1)
        self.conv2 = ScaledConv2d(channels // 2, channels // 2, 3, padding=1, groups=2)
        self.conv3 = ScaledConv2d(channels // 2, channels, 1)
        self.skip_gain = nn.Parameter(torch.tensor(0.3))

    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(x * self.beta) * self.gamma
        y = F.gelu(self.conv1(y)) * self.gamma
        y = F.gelu(self.conv2(y)) * self.gamma
        return self.conv3(y) * self.skip_gain * self.alpha + x


@entry("norm_free_block", "float32")
def norm_free_block() -> Case:
    return NormFreeBlock(48), (torch.randn(2, 48, 18, 18),), {}
