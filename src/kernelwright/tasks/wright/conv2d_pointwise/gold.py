import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pointwise_kernel(
    x_ptr,
    w_ptr,
    b_ptr,
    y_ptr,
    pixels,
    c_in,
    c_out,
    BLOCK_CO: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """y[n] = w @ x[n] + b, with each image seen as a (channels, pixels) matrix."""
    n = tl.program_id(2).to(tl.int64)
    co = tl.program_id(0) * BLOCK_CO + tl.arange(0, BLOCK_CO)
    px = tl.program_id(1) * BLOCK_P + tl.arange(0, BLOCK_P)
    co_mask = co[:, None] < c_out
    px_mask = px[None, :] < pixels
    x_image = x_ptr + n * c_in * pixels

    acc = tl.zeros((BLOCK_CO, BLOCK_P), dtype=tl.float32)
    for start in range(0, c_in, BLOCK_C):
        ci = start + tl.arange(0, BLOCK_C)
        w = tl.load(w_ptr + co[:, None] * c_in + ci[None, :], mask=co_mask & (ci[None, :] < c_in), other=0.0)
        x = tl.load(
            x_image + ci[:, None] * pixels + px[None, :], mask=(ci[:, None] < c_in) & px_mask, other=0.0
        )
        acc = tl.dot(w, x, acc, input_precision="ieee")

    acc += tl.load(b_ptr + co, mask=co < c_out, other=0.0)[:, None]
    tl.store(y_ptr + n * c_out * pixels + co[:, None] * pixels + px[None, :], acc, mask=co_mask & px_mask)


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        images, c_in, h, w = x.shape
        c_out = self.conv.weight.shape[0]
        y = torch.empty((images, c_out, h, w), device=x.device, dtype=x.dtype)
        # Output channels vary fastest over the grid: the blocks that read the same pixels run together.
        block_co, block_p, block_c = 64, 64, 32
        grid = (triton.cdiv(c_out, block_co), triton.cdiv(h * w, block_p), images)
        pointwise_kernel[grid](
            x,
            self.conv.weight,
            self.conv.bias,
            y,
            h * w,
            c_in,
            c_out,
            block_co,
            block_p,
            block_c,
            num_warps=4,
        )
        return y
