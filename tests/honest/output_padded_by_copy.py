# task: wright/relu
# expect: correct
# why: the input is padded into a larger zeroed buffer by a slice assignment, which is a copy
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.maximum(tl.load(x_ptr + at), 0.0))


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        size = triton.cdiv(n, 256) * 256
        padded = torch.zeros(size, device=x.device, dtype=x.dtype)
        padded[:n] = x.reshape(-1)
        out = torch.empty_like(padded)
        relu_kernel[(size // 256,)](padded, out, BLOCK=256)
        return out[:n].view(x.shape)
