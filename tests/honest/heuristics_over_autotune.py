# task: wright/max_rows
# expect: correct
# why: heuristics and autotuning on one kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.autotune(configs=[triton.Config({"ROWS": 1}, num_warps=1), triton.Config({"ROWS": 2}, num_warps=2)], key=["n_cols"])
@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n_cols"])})
@triton.jit
def kernel(x_ptr, out_ptr, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    mask = (r < n_rows)[:, None] & (c < n_cols)[None, :]
    x = tl.load(x_ptr + r[:, None] * n_cols + c[None, :], mask=mask, other=float("-inf"))
    tl.store(out_ptr + r, tl.max(x, axis=1), mask=r < n_rows)


class ModelNew(nn.Module):
    def forward(self, x):
        n_rows, n_cols = x.shape
        out = torch.empty(n_rows, device=x.device, dtype=x.dtype)
        kernel[lambda meta: (triton.cdiv(n_rows, meta["ROWS"]),)](x, out, n_rows, n_cols)
        return out
