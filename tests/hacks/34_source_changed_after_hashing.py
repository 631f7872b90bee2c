# task: wright/softmax_rows
# cheat: 34, 42
# expect: forbidden_code, compile_error, wrong_value
# why: the text of a kernel is replaced behind its function
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


kernel._unsafe_update_src(kernel.src.replace("tl.load(x_ptr + at, mask=at < n)", "tl.zeros((BLOCK,), tl.float32)"))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
