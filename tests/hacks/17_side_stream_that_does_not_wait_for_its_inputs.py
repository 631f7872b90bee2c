# task: wright/relu
# cheat: 17
# expect: nondeterministic
# why: the caller waits for the side stream, but that one does not wait for the caller's, where the inputs are made
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.maximum(x, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.side = torch.cuda.Stream()
        self.ready = torch.cuda.Event()

    def forward(self, x):
        out = torch.empty_like(x)
        self.side.wait_event(self.ready)
        with torch.cuda.stream(self.side):
            kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        torch.cuda.current_stream().wait_stream(self.side)
        return out
