# task: hacks/tasks/angle_between_vectors
# expect: correct
# why: the dot product of a zero vector is 0 with the sign that the order of the sum gives; of zero and minus zero
#      atan2 makes 0 and pi
import torch
import torch.nn as nn
import triton
import triton.language as tl

from triton.language.extra import libdevice


@triton.jit
def _angle(A, B, O, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < n
    ax, ay, az = tl.load(A + 3 * i, mask=ok, other=1.0), tl.load(A + 3 * i + 1, mask=ok, other=1.0), tl.load(A + 3 * i + 2, mask=ok, other=1.0)
    bx, by, bz = tl.load(B + 3 * i, mask=ok, other=1.0), tl.load(B + 3 * i + 1, mask=ok, other=1.0), tl.load(B + 3 * i + 2, mask=ok, other=1.0)
    dot = ax * bx + ay * by + az * bz
    cx, cy, cz = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
    o = libdevice.atan2(tl.sqrt(cx * cx + cy * cy + cz * cz), dot)
    tl.store(O + i, o, mask=ok)


def kernel(a, b):
    a, b = a.contiguous(), b.contiguous()
    o = torch.empty(a.shape[0], device=a.device)
    _angle[(triton.cdiv(a.shape[0], 256),)](a, b, o, a.shape[0], BLOCK=256)
    return o


class ModelNew(nn.Module):
    def forward(self, *arguments):
        return kernel(*arguments)

