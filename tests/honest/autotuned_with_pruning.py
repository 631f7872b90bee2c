# task: wright/matmul_tall_skinny
# expect: correct
# why: configurations are pruned by a callback before any is tried
import torch
import torch.nn as nn
import triton
import triton.language as tl

def prune(configs, named_args, **kwargs):
    kept = [config for config in configs if config.kwargs["BLOCK_M"] <= max(named_args["m"], 16)]
    return kept or configs[:1]


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 16}), triton.Config({"BLOCK_M": 32}), triton.Config({"BLOCK_M": 64})],
    key=["m", "n", "k"],
    prune_configs_by={"early_config_prune": prune},
)
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        ks = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + rows[:, None] * k + ks[None, :], mask=(rows[:, None] < m) & (ks[None, :] < k), other=0.0)
        b = tl.load(b_ptr + ks[:, None] * n + cols[None, :], mask=(ks[:, None] < k) & (cols[None, :] < n), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + rows[:, None] * n + cols[None, :], acc, mask=(rows[:, None] < m) & (cols[None, :] < n))


class ModelNew(nn.Module):
    def forward(self, a, b):
        m, k = a.shape
        n = b.shape[1]
        c = torch.empty((m, n), device=a.device, dtype=a.dtype)
        grid = lambda meta: (triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, 32))
        matmul_kernel[grid](a, b, c, m, n, k, BLOCK_N=32, BLOCK_K=32)
        return c
