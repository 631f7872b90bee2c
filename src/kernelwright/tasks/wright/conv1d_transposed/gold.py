import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv_transpose1d_kernel(
    x_ptr, w_ptr, bias_ptr, y_ptr,
    c_in, length, c_out, out_length,
    TAPS: tl.constexpr, STRIDE: tl.constexpr, PAD: tl.constexpr,
    BLOCK_CO: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_CI: tl.constexpr,
):  # fmt: skip
    """Gather form, one output phase per program: outputs t = phase + STRIDE * q.

    x[i] reaches y[t] through tap k when t + PAD = STRIDE * i + k. All outputs of one phase use the same
    taps k = k0, k0 + STRIDE, ..., so no zero is ever multiplied and x is read at consecutive places.
    """
    pid_q = tl.program_id(0)
    pid_co = tl.program_id(1)
    phase = tl.program_id(2) % STRIDE
    n = (tl.program_id(2) // STRIDE).to(tl.int64)

    q = pid_q * BLOCK_Q + tl.arange(0, BLOCK_Q)
    co = pid_co * BLOCK_CO + tl.arange(0, BLOCK_CO)
    mask_co = co < c_out
    k0 = (phase + PAD) % STRIDE
    newest = (phase + PAD) // STRIDE + q  # the input under tap k0; each further tap is one input older
    x_ptr += n * c_in * length

    acc = tl.zeros((BLOCK_CO, BLOCK_Q), dtype=tl.float32)
    for k in range(k0, TAPS, STRIDE):
        i = newest - k // STRIDE
        inside = (i >= 0) & (i < length)
        for start in range(0, c_in, BLOCK_CI):
            ci = start + tl.arange(0, BLOCK_CI)
            x = tl.load(
                x_ptr + ci[:, None] * length + i[None, :],
                mask=(ci[:, None] < c_in) & inside[None, :],
                other=0.0,
            )
            # Weight is (c_in, c_out, taps).
            w = tl.load(
                w_ptr + (ci[None, :] * c_out + co[:, None]) * TAPS + k,
                mask=(ci[None, :] < c_in) & mask_co[:, None],
                other=0.0,
            )
            acc = tl.dot(w, x, acc, input_precision="ieee")

    acc += tl.load(bias_ptr + co, mask=mask_co, other=0.0)[:, None]
    t = phase + STRIDE * q
    y_ptrs = y_ptr + n * c_out * out_length + co[:, None] * out_length + t[None, :]
    tl.store(y_ptrs, acc, mask=mask_co[:, None] & (t[None, :] < out_length))


class ModelNew(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int):
        super().__init__()
        self.conv = nn.ConvTranspose1d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)
        self.stride = stride
        self.padding = padding

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = self.conv.weight
        batch, c_in, length = x.shape
        _, c_out, taps = w.shape
        out_length = (length - 1) * self.stride - 2 * self.padding + taps
        y = torch.empty((batch, c_out, out_length), device=x.device, dtype=x.dtype)
        per_phase = triton.cdiv(out_length, self.stride)
        grid = lambda meta: (
            triton.cdiv(per_phase, meta["BLOCK_Q"]),
            triton.cdiv(c_out, meta["BLOCK_CO"]),
            batch * self.stride,
        )
        conv_transpose1d_kernel[grid](
            x, w, self.conv.bias, y, c_in, length, c_out, out_length,
            TAPS=taps, STRIDE=self.stride, PAD=self.padding,
            BLOCK_CO=64, BLOCK_Q=64, BLOCK_CI=16, num_warps=4,
        )  # fmt: skip
        return y
