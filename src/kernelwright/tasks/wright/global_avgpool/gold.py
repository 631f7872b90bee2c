"""Global average pooling: NCHW planes are contiguous rows, and four of them share a program."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def plane_mean_kernel(x_ptr, y_ptr, n_planes, plane_size, PLANES: tl.constexpr, BLOCK: tl.constexpr):
    plane = tl.program_id(0) * PLANES + tl.arange(0, PLANES)
    plane_ok = plane < n_planes
    start = plane.to(tl.int64) * plane_size
    acc = tl.zeros((PLANES, BLOCK), dtype=tl.float32)
    for offset in range(0, plane_size, BLOCK):
        pixel = offset + tl.arange(0, BLOCK)
        mask = plane_ok[:, None] & (pixel < plane_size)[None, :]
        acc += tl.load(x_ptr + start[:, None] + pixel[None, :], mask=mask, other=0.0)
    tl.store(y_ptr + plane, tl.sum(acc, axis=1) / plane_size, mask=plane_ok)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, c, h, w = x.shape
        y = torch.empty(n, c, 1, 1, device=x.device, dtype=x.dtype)
        plane_mean_kernel[(triton.cdiv(n * c, 4),)](
            x, y, n * c, h * w, PLANES=4, BLOCK=min(512, triton.next_power_of_2(h * w)), num_warps=4
        )
        return y
