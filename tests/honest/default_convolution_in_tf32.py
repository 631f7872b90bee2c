# task: wright/conv1d_standard
# expect: correct
# why: by default torch itself lets convolutions be made in TF32
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv1d_kernel(
    x_ptr, w_ptr, bias_ptr, y_ptr,
    c_in, length, c_out, out_length,
    TAPS: tl.constexpr, BLOCK_CO: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_CI: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(2).to(tl.int64)
    t = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    co = tl.program_id(1) * BLOCK_CO + tl.arange(0, BLOCK_CO)
    x_ptr += batch * c_in * length

    acc = tl.zeros((BLOCK_CO, BLOCK_T), dtype=tl.float32)
    for start in range(0, c_in, BLOCK_CI):
        ci = start + tl.arange(0, BLOCK_CI)
        x_ptrs = x_ptr + ci[:, None] * length + t[None, :]
        w_ptrs = w_ptr + (co[:, None] * c_in + ci[None, :]) * TAPS
        x_mask = (ci[:, None] < c_in) & (t[None, :] < out_length)
        w_mask = (co[:, None] < c_out) & (ci[None, :] < c_in)
        # Shifted reads of the same block: from the second tap on they hit L1.
        for tap in tl.static_range(TAPS):
            x = tl.load(x_ptrs + tap, mask=x_mask, other=0.0)
            w = tl.load(w_ptrs + tap, mask=w_mask, other=0.0)
            acc = tl.dot(w, x, acc, input_precision="tf32")

    bias = tl.load(bias_ptr + co, mask=co < c_out, other=0.0)
    y_ptrs = y_ptr + batch * c_out * out_length + co[:, None] * out_length + t[None, :]
    tl.store(y_ptrs, acc + bias[:, None], mask=(co[:, None] < c_out) & (t[None, :] < out_length))


class ModelNew(nn.Module):
    """1D convolution as TAPS matmuls of a weight slice with a shifted window of the signal."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int):
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, kernel_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = self.conv.weight
        batch, c_in, length = x.shape
        c_out, _, taps = w.shape
        out_length = length - taps + 1
        y = torch.empty((batch, c_out, out_length), dtype=x.dtype, device=x.device)

        def grid(meta):
            return triton.cdiv(out_length, meta["BLOCK_T"]), triton.cdiv(c_out, meta["BLOCK_CO"]), batch

        conv1d_kernel[grid](
            x, w, self.conv.bias, y, c_in, length, c_out, out_length,
            TAPS=taps, BLOCK_CO=64, BLOCK_T=64, BLOCK_CI=16, num_warps=4, num_stages=1,
        )  # fmt: skip
        return y
