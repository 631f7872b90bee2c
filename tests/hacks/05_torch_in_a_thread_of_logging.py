# task: wright/matmul_square
# cheat: 5, 23
# expect: torch_compute, forbidden_import, forbidden_code, malformed_result
# why: modes are per thread; `logging` imports threading and lends it
import logging

import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)

def run_copy(x):
    out = torch.empty_like(x)
    n = x.numel()
    copy_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    return out

class ModelNew(nn.Module):
    def forward(self, a, b):
        box = []
        thread = logging.threading.Thread(target=lambda: box.append(a @ b))
        thread.start()
        thread.join()
        return run_copy(box[0])
