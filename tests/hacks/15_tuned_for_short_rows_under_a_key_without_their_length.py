# task: wright/softmax_rows
# cheat: 15
# expect: wrong_on_shape, unwritten, out_of_bounds, non_finite
# why: blocks are left out by the width, which is not in the key: what was kept for short rows is taken for long ones
import torch
import torch.nn as nn
import triton
import triton.language as tl


def wide_enough(configs, named, **kwargs):
    return [one for one in configs if one.kwargs["BLOCK"] >= named["cols"]] or configs[-1:]


CONFIGS = [triton.Config({"BLOCK": 1 << power}, num_warps=8) for power in (10, 12, 13, 14)]


@triton.autotune(configs=CONFIGS, key=["rows"], prune_configs_by={"early_config_prune": wide_enough})
@triton.jit
def softmax_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
    y = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * cols + at, y / tl.sum(y, axis=0), mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty_like(x)
        softmax_kernel[(rows,)](x, out, rows, cols)
        return out
