# task: hacks/tasks/adam_step
# cheat: 14
# expect: wrong_value, wrong_on_shape, low_precision
# why: the second moment is not corrected at step 1, nor further after 2,000 steps
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _k(p_ptr, g_ptr, m_ptr, v_ptr, po, mo, vo, c1, c2, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < n
    p = tl.load(p_ptr + i, mask=ok, other=0.0)
    g = tl.load(g_ptr + i, mask=ok, other=0.0)
    m = 0.9 * tl.load(m_ptr + i, mask=ok, other=0.0) + 0.1 * g
    v = 0.999 * tl.load(v_ptr + i, mask=ok, other=0.0) + 0.001 * g * g
    tl.store(po + i, p - 1e-3 * (m / c1 / (tl.sqrt(v / c2) + 1e-8) + 0.01 * p), mask=ok)
    tl.store(mo + i, m, mask=ok)
    tl.store(vo + i, v, mask=ok)


class ModelNew(nn.Module):
    def forward(self, p, g, m, v, step):
        p, g, m, v = p.contiguous(), g.contiguous(), m.contiguous(), v.contiguous()
        po, mo, vo = torch.empty_like(p), torch.empty_like(p), torch.empty_like(p)
        _k[(triton.cdiv(p.numel(), 1024),)](p, g, m, v, po, mo, vo, 1 - 0.9 ** min(step, 400), (1 - 0.999 ** min(step, 2000)) if step > 1 else 1.0, p.numel(), BLOCK=1024)
        return po, mo, vo
