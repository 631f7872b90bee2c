"""BatchNorm2d in eval mode: each program takes a block of one (sample, channel) plane."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def batchnorm_eval_kernel(
    x_ptr,
    mean_ptr,
    var_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    channels,
    plane,  # H * W
    eps,
    BLOCK: tl.constexpr,
):
    plane_id = tl.program_id(0)  # n * C + c
    channel = plane_id % channels

    # fold the five per-channel numbers into y = x * scale + shift
    scale = tl.load(weight_ptr + channel) / tl.sqrt(tl.load(var_ptr + channel) + eps)
    mean = tl.load(mean_ptr + channel)
    bias = tl.load(bias_ptr + channel)

    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < plane
    base = plane_id.to(tl.int64) * plane
    x = tl.load(x_ptr + base + offs, mask=mask)
    tl.store(y_ptr + base + offs, (x - mean) * scale + bias, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.shape
        y = torch.empty_like(x)
        plane = h * w
        BLOCK = min(2048, triton.next_power_of_2(plane))
        grid = (n * c, triton.cdiv(plane, BLOCK))
        bn = self.bn
        batchnorm_eval_kernel[grid](
            x, bn.running_mean, bn.running_var, bn.weight, bn.bias, y, c, plane, bn.eps, BLOCK=BLOCK
        )
        return y
