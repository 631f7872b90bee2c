# task: wright/relu
# expect: correct
# why: a file may bring its own check and benchmark, which nobody runs here
import time

import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0), mask=mask)

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out


def get_inputs():
    return [torch.randn(4096, 4096)]


def get_init_inputs():
    return []


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(64, 64, device="cuda")
    assert torch.allclose(ModelNew()(x), torch.relu(x))
    start = time.perf_counter()
    print(triton.testing.do_bench(lambda: ModelNew()(x)), time.perf_counter() - start)
