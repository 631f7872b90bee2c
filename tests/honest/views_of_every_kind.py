# task: wright/relu
# expect: correct
# why: unsqueeze, squeeze, movedim, narrow, flatten and as_strided before and after
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.maximum(tl.load(x_ptr + i, mask=i < n), 0.0), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        flat = x.unsqueeze(0).movedim(0, 1).flatten()
        room = torch.empty((rows, 2, cols), device=x.device, dtype=x.dtype).permute(1, 0, 2).reshape(2, -1)[:1]
        out = torch.empty(rows * cols, device=x.device, dtype=x.dtype)
        kernel[(triton.cdiv(flat.numel(), 512),)](flat, out, flat.numel(), BLOCK=512)
        assert room.shape[-1] == out.numel()
        return out.as_strided((rows, cols), (cols, 1)).narrow(0, 0, rows).unsqueeze(-1).squeeze(-1)
