import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def depthwise_conv2d_kernel(
    x_ptr,
    w_ptr,
    y_ptr,
    channels,
    H,
    W,
    OH,
    OW,
    K: tl.constexpr,
    PAD: tl.constexpr,
    BLOCK_H: tl.constexpr,
    BLOCK_W: tl.constexpr,
):
    # One program: one tile of one channel plane. No channels are mixed, so there is no matmul to use;
    # the K*K shifted loads of the tile come from L1 after the first.
    plane = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    cols = tl.program_id(2) * BLOCK_W + tl.arange(0, BLOCK_W)
    x_plane = x_ptr + plane * H * W
    w_channel = w_ptr + plane % channels * (K * K)

    acc = tl.zeros((BLOCK_H, BLOCK_W), dtype=tl.float32)
    for kh in tl.static_range(K):
        for kw in tl.static_range(K):
            ih = rows + (kh - PAD)
            iw = cols + (kw - PAD)
            inside = ((ih >= 0) & (ih < H))[:, None] & ((iw >= 0) & (iw < W))[None, :]
            x = tl.load(x_plane + ih[:, None] * W + iw[None, :], mask=inside, other=0.0)
            acc += x * tl.load(w_channel + kh * K + kw)

    y_ptrs = y_ptr + plane * OH * OW + rows[:, None] * OW + cols[None, :]
    tl.store(y_ptrs, acc, mask=(rows[:, None] < OH) & (cols[None, :] < OW))


class ModelNew(nn.Module):
    def __init__(self, channels: int, kernel_size: int, padding: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size, padding=padding, groups=channels, bias=False)
        self.kernel_size = kernel_size
        self.padding = padding

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, C, H, W = x.shape
        OH = H + 2 * self.padding - self.kernel_size + 1
        OW = W + 2 * self.padding - self.kernel_size + 1
        y = x.new_empty(B, C, OH, OW)
        grid = lambda meta: (B * C, triton.cdiv(OH, meta["BLOCK_H"]), triton.cdiv(OW, meta["BLOCK_W"]))
        depthwise_conv2d_kernel[grid](
            x, self.conv.weight, y, C, H, W, OH, OW,
            K=self.kernel_size, PAD=self.padding, BLOCK_H=16, BLOCK_W=64, num_warps=4,
        )  # fmt: skip
        return y
