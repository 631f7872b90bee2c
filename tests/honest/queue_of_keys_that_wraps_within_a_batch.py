# task: hacks/tasks/keys_of_earlier_batches
# expect: correct
# why: keys of one batch stand at the end of the queue and at its start
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _logits(q_ptr, k_ptr, u_ptr, o_ptr, B, D, L, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    pos = tl.zeros((BM,), tl.float32)
    for k0 in range(0, D, BK):
        d = k0 + tl.arange(0, BK)
        q = tl.load(q_ptr + r[:, None] * D + d[None, :], mask=(r[:, None] < B) & (d[None, :] < D), other=0.0)
        k = tl.load(k_ptr + r[:, None] * D + d[None, :], mask=(r[:, None] < B) & (d[None, :] < D), other=0.0)
        u = tl.load(u_ptr + c[None, :] * D + d[:, None], mask=(c[None, :] < L) & (d[:, None] < D), other=0.0)
        acc += tl.dot(q, u, input_precision="ieee")
        pos += tl.sum(q * k, 1)
    tl.store(o_ptr + r[:, None] * (L + 1) + 1 + c[None, :], acc / 0.07, mask=(r[:, None] < B) & (c[None, :] < L))
    if tl.program_id(1) == 0:
        tl.store(o_ptr + r * (L + 1), pos / 0.07, mask=r < B)


@triton.jit
def _enqueue(k_ptr, u_ptr, at_ptr, B, D, L, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    at = (tl.load(at_ptr) + r) % L
    for d0 in range(0, D, BLOCK):
        d = d0 + tl.arange(0, BLOCK)
        tl.store(u_ptr + at * D + d, tl.load(k_ptr + r * D + d, mask=d < D, other=0.0), mask=d < D)


@triton.jit
def _advance(at_ptr, B, L):
    tl.store(at_ptr, (tl.load(at_ptr) + B) % L)


class ModelNew(nn.Module):
    def __init__(self, d, l):
        super().__init__()
        self.register_buffer("queue", torch.randn(l, d))
        self.register_buffer("at", torch.zeros((), dtype=torch.int64))

    def forward(self, q, k):
        q, k = q.contiguous(), k.contiguous()
        B, D = q.shape
        L = self.queue.shape[0]
        o = torch.empty(B, L + 1, device=q.device)
        _logits[(triton.cdiv(B, 32), triton.cdiv(L, 64))](q, k, self.queue, o, B, D, L, BM=32, BN=64, BK=32)
        _enqueue[(B,)](k, self.queue, self.at, B, D, L, BLOCK=128)
        _advance[(1,)](self.at, B, L)
        return o
