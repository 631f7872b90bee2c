# task: hacks/tasks/turned_by_a_matrix
# expect: correct
# why: all products of a turned point, one after the other
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turn(p_ptr, m_ptr, out_ptr, n, D: tl.constexpr, BLOCK: tl.constexpr):
    cloud = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place = (cloud * n + at) * D
    for j in tl.static_range(D):
        total = tl.zeros((BLOCK,), tl.float32)
        for i in tl.static_range(D):
            m = tl.load(m_ptr + (cloud * D + i) * D + j)
            total += tl.load(p_ptr + place + i, mask=at < n, other=0.0) * m
        tl.store(out_ptr + place + j, total, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, points, pose):
        clouds, n, d = points.shape
        out = torch.empty_like(points)
        turn[(clouds, triton.cdiv(n, 512))](points, pose, out, n, D=d, BLOCK=512)
        return out
