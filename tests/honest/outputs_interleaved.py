# task: hacks/tasks/twice
# expect: correct
# why: two outputs interleaved in one allocation share a storage, and no element
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.sigmoid(tl.load(x_ptr + at, mask=at < n))
    tl.store(out_ptr + 2 * at, y, mask=at < n)
    tl.store(out_ptr + 2 * at + 1, y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty((*x.shape, 2), device=x.device, dtype=x.dtype)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out[..., 0], out[..., 1]
