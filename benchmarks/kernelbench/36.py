"""RMS norm over the channels of an NCHW tensor: one program per image and block of pixels."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(x_ptr, y_ptr, channels, pixels, eps, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    image = tl.program_id(1).to(tl.int64) * channels * pixels
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = tl.arange(0, CHANNELS)
    offsets = image + channel[:, None].to(tl.int64) * pixels + at[None, :]
    mask = (channel[:, None] < channels) & (at[None, :] < pixels)
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    rms = tl.sqrt(tl.sum(x * x, axis=0) / channels + eps)
    tl.store(y_ptr + offsets, x / rms[None, :], mask=mask)


class ModelNew(nn.Module):
    def __init__(self, num_features, eps=1e-5):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        x = x.contiguous()
        images, channels = x.shape[:2]
        pixels = x.numel() // (images * channels)
        y = torch.empty_like(x)
        grid = (triton.cdiv(pixels, 128), images)
        rmsnorm_kernel[grid](
            x,
            y,
            channels,
            pixels,
            self.eps,
            CHANNELS=triton.next_power_of_2(channels),
            BLOCK=128,
            num_warps=8,
        )
        return y
