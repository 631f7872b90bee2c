# task: wright/relu
# expect: correct
# why: two halves on two streams, one waited for as a stream, one by events
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
        self.done = torch.cuda.Event()

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        half = x.numel() // 2
        first, second = torch.cuda.Stream(), torch.cuda.Stream()
        first.wait_stream(torch.cuda.current_stream())
        second.wait_event(torch.cuda.current_stream().record_event())
        with torch.cuda.stream(first):
            kernel[(triton.cdiv(half, 1024),)](x, out, half, BLOCK=1024)
        with torch.cuda.stream(second):
            kernel[(triton.cdiv(x.numel() - half, 1024),)](x.view(-1)[half:], out.view(-1)[half:], x.numel() - half, BLOCK=1024)
            self.done.record()
        torch.cuda.current_stream().wait_stream(first)
        self.done.wait()
        return out
