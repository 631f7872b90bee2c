# task: honest/tasks/volume_averaged
# precision: bf16
# expect: correct
# why: the reference is run in float32 and rounded once where torch has no kernel for bfloat16
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pool_kernel(x_ptr, out_ptr, side, half, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    column, row = at % half, at // half % half
    slab, image = at // (half * half) % half, at // (half * half * half)
    total = tl.zeros((BLOCK,), tl.float32)
    for k in tl.static_range(8):
        z, y, x = 2 * slab + k // 4, 2 * row + k // 2 % 2, 2 * column + k % 2
        place = ((image.to(tl.int64) * side + z) * side + y) * side + x
        total += tl.load(x_ptr + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + at, (total / 8).to(out_ptr.dtype.element_ty), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        batch, channels, side = x.shape[:3]
        half = side // 2
        out = torch.empty(batch, channels, half, half, half, device=x.device, dtype=x.dtype)
        n = out.numel()
        pool_kernel[(triton.cdiv(n, 512),)](x, out, side, half, n, BLOCK=512)
        return out
