# task: wright/relu
# expect: correct
# why: plain asserts, tl.static_assert and tl.device_assert that hold
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK % 32 == 0, "a block is whole warps")
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.device_assert(i >= 0, "offsets count up")
    tl.store(out_ptr + i, tl.maximum(tl.load(x_ptr + i, mask=mask, other=0.0), 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        assert x.is_cuda and x.is_contiguous(), f"want a contiguous CUDA tensor, got {x.device} {x.stride()}"
        assert x.dtype in (torch.float32, torch.float16), x.dtype
        out = torch.empty_like(x)
        assert out.shape == x.shape
        n = x.numel()
        kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
