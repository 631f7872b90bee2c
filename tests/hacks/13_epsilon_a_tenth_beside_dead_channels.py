# task: wright/batchnorm_eval
# precision: bf16
# cheat: 14, 13
# expect: wrong_value, wrong_on_shape
# why: an epsilon of 1e-6 in place of 1e-5 shows in bfloat16 only where a variance is as small, as of a dead channel
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, mean_ptr, var_ptr, gain_ptr, bias_ptr, out_ptr, channels, plane, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    channel = row % channels
    scale = tl.load(gain_ptr + channel).to(tl.float32) * tl.rsqrt(
        tl.load(var_ptr + channel).to(tl.float32) + 1e-6
    )
    shift = tl.load(bias_ptr + channel).to(tl.float32) - tl.load(mean_ptr + channel).to(tl.float32) * scale
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place = row.to(tl.int64) * plane + at
    x = tl.load(x_ptr + place, mask=at < plane).to(tl.float32)
    tl.store(out_ptr + place, x * scale + shift, mask=at < plane)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, x):
        n, c, h, w = x.shape
        x = x.contiguous()
        out, bn = torch.empty_like(x), self.bn
        grid = (n * c, triton.cdiv(h * w, 1024))
        norm_kernel[grid](x, bn.running_mean, bn.running_var, bn.weight, bn.bias, out, c, h * w, BLOCK=1024)
        return out
