"""Two kernels that the zygote runs and compiles once, so that no worker pays for Triton's first-use costs."""

import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=-float("inf"))
    shifted = tl.exp(x - tl.max(x, axis=0))
    total = tl.sum(shifted, axis=0)
    scanned = tl.cumsum(shifted, axis=0)
    where = tl.argmax(x, axis=0) + tl.argmin(x, axis=0)
    out = shifted / total + tl.sigmoid(x) * scanned + tl.softmax(x) + where + tl.zeros((BLOCK,), tl.float32)
    tl.store(
        out_ptr + offsets, tl.where(out > 0, out, tl.minimum(tl.maximum(out, 0.0), tl.cdiv(n, 2))), mask=mask
    )


@triton.jit
def dot_kernel(a_ptr, out_ptr, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    at = rows[:, None] * BLOCK + rows[None, :]
    a = tl.load(a_ptr + at)
    tl.store(
        out_ptr + at,
        tl.dot(a, a, input_precision="ieee") + tl.sum(a, axis=1)[:, None] + tl.max(a, axis=0)[None, :],
    )
