# task: wright/sum_columns
# cheat: 19, 9
# expect: wrong_value, non_finite, unwritten, nondeterministic, wrong_on_shape
# why: a tuner resets what a kernel adds to only while it tunes, at the first call; every later one adds to fresh memory
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.autotune(
    configs=[triton.Config({"CHUNK": 8}), triton.Config({"CHUNK": 32})], key=["rows", "cols"], reset_to_zero=["out_ptr"]
)
@triton.jit
def sum_kernel(x_ptr, out_ptr, rows, cols, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * CHUNK
    for row in range(first, first + CHUNK):
        total += tl.load(x_ptr + row * cols + at, mask=(at < cols) & (row < rows), other=0.0)
    tl.atomic_add(out_ptr + at, total, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty(cols, device=x.device, dtype=x.dtype)
        sum_kernel[lambda meta: (triton.cdiv(rows, meta["CHUNK"]), triton.cdiv(cols, 64))](x, out, rows, cols, BLOCK=64)
        return out
