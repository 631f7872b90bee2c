"""Average pooling with a 2-D tile of outputs per program, so that a tile's windows share cache lines."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def avgpool2d_kernel(
    inp,
    out,
    in_h,
    in_w,
    out_h,
    out_w,
    K: tl.constexpr,
    S: tl.constexpr,
    P: tl.constexpr,
    TILE_H: tl.constexpr,
    TILE_W: tl.constexpr,
):
    plane = tl.program_id(0).to(tl.int64)
    oh = tl.program_id(1) * TILE_H + tl.arange(0, TILE_H)[:, None]
    ow = tl.program_id(2) * TILE_W + tl.arange(0, TILE_W)[None, :]
    inp += plane * in_h * in_w
    out += plane * out_h * out_w

    total = tl.zeros((TILE_H, TILE_W), dtype=tl.float32)
    for kh in tl.static_range(K):
        ih = oh * S - P + kh
        for kw in tl.static_range(K):
            iw = ow * S - P + kw
            inside = (ih >= 0) & (ih < in_h) & (iw >= 0) & (iw < in_w)
            total += tl.load(inp + ih * in_w + iw, mask=inside, other=0.0)
    tl.store(out + oh * out_w + ow, total / (K * K), mask=(oh < out_h) & (ow < out_w))


class ModelNew(nn.Module):
    def __init__(self, kernel_size: int, stride: int, padding: int):
        super().__init__()
        self.pool = nn.AvgPool2d(kernel_size, stride=stride, padding=padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        k, s, p = self.pool.kernel_size, self.pool.stride, self.pool.padding
        n, c, in_h, in_w = x.shape
        out_h = (in_h + 2 * p - k) // s + 1
        out_w = (in_w + 2 * p - k) // s + 1
        out = torch.empty(n, c, out_h, out_w, device=x.device, dtype=x.dtype)
        tile_h = 8
        tile_w = min(64, triton.next_power_of_2(out_w))
        grid = (n * c, triton.cdiv(out_h, tile_h), triton.cdiv(out_w, tile_w))
        avgpool2d_kernel[grid](
            x, out, in_h, in_w, out_h, out_w, K=k, S=s, P=p, TILE_H=tile_h, TILE_W=tile_w, num_warps=4
        )
        return out
