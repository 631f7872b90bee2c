"""Groups of the blocks of `backend.py`, as its backend cuts them: those slower than the faster of eager and torch.compile on an H100,
those of the cuts in `graph/neighbours.py`, and the gradients of their convolutions.

For `schedules.py --only block/`, `block/neighbours` or `block/gradients`. Sizes are those of the blocks; no corpus draws from these.
Ordered by interest.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from schedule_problems import Problem, problems

from kernelwright.synth.spelling import Spelled

_GELU = "h = f32({}); main(mul(mul(h, 0.5), add(erf(mul(h, 0.7071067811865476)), 1)))"
_GATE = "h = f32({}); main(mul(main(div(h, add(exp(neg(h)), 1))), u))"
_NORM = (
    "h = f32({}); v, m = var_mean(h, [-1], correction=0, keepdim=True); "
    "n = mul(sub(h, m), rsqrt(add(v, 1e-5))); main(add(mul(n, w), c))"
)
_BATCH_NORM = (
    "h = sub({}, unsqueeze(unsqueeze(f32(m), 1), 2)); r = reciprocal(sqrt(add(f32(v), 1e-5))); "
    "h = mul(mul(h, unsqueeze(unsqueeze(r, 1), 2)), unsqueeze(unsqueeze(g, 1), 2)); relu(main(add(h, unsqueeze(unsqueeze(c, 1), 2))))"
)
_BACKWARD = (
    "h = f32(masked_fill(g, d, 0.0)); z = sub(f32(x), unsqueeze(unsqueeze(f32(m), 1), 2)); s = sum(h, [0, 2, 3]); "
    "p = sum(mul(h, z), [0, 2, 3]); q = f32(r); a = mul(mul(p, 0.000005), mul(q, q)); k = mul(q, f32(w)); "
    "u = mul(z, unsqueeze(unsqueeze(a, 1), 2)); o = sub(sub(h, u), unsqueeze(unsqueeze(mul(s, 0.000005), 1), 2)); "
    "(main(mul(o, unsqueeze(unsqueeze(k, 1), 2))), main(mul(p, q)), main(s))"
)
_RMS = "h = f32({}); main(mul(mul(h, rsqrt(add(mean(pow(h, 2), [-1], True), 1e-6))), w))"
_LARGE, _IMAGE = "[100352,256]", "[32,256,56,56]"
_DEPTHWISE = "convolution(x, w, c, [1, 1], [3, 3], [1, 1], False, [0, 0], 256)"
_GRADIENT = "convolution_backward(g, x, w, None, [1, 1], [{0}, {0}], [1, 1], False, [0, 0], {1}, [{2}, {3}, False])[{4}]"
_CONVOLUTION = "convolution(x, w, None, [1, 1], [{0}, {0}], [1, 1], False, [0, 0], 1)"


def _both(norm: str) -> str:
    """The sum of two values, and its norm."""
    first, _, last = norm.format("s").rpartition("; ")
    return f"s = add(x, a); {first}; (s, {last})"


def _gradients() -> Iterator[tuple[str, str, str]]:
    """Gradients with respect to images and weights, of the blocks' convolutions."""
    for batch, channels, filters, side, taps in (
        (64, 256, 64, 56, 1), (64, 64, 64, 56, 3), (64, 64, 256, 56, 1), (32, 256, 256, 56, 7), (8, 320, 320, 64, 3),
    ):  # fmt: skip
        groups = channels if taps == 7 else 1
        arguments = (
            f"g:[{batch},{filters},{side},{side}] x:[{batch},{channels},{side},{side}] "
            f"w:weight[{filters},{'n1' if groups > 1 else channels},n{taps},n{taps}]"
        )
        for of, first in (("image", True), ("weights", False)):
            name = f"gradients of {of}, {taps}x{taps} {channels} to {filters}"
            yield name, arguments, _GRADIENT.format(taps // 2, groups, first, not first, int(not first))


_LINES: tuple[tuple[str, str, str], ...] = (
    ("depthwise 7x7", f"x:{_IMAGE} w:weight[n256,n1,n7,n7] c:weight[n256]", _DEPTHWISE),
    ("weights' gradient 256x1024x100352", f"x:{_LARGE} g:[100352,1024]", "mm(t(x), g)"),
    ("column sum 100352x1024", "x:[100352,1024]", "sum(x, [0], True)"),
    ("gelu 9232x4096x1024", "x:[9232,1024] w:weight[4096,1024] c:weight[4096]", _GELU.format("addmm(c, x, t(w))")),
    ("weights' gradient 1024x1024x9232", "x:[9232,1024] g:[9232,1024]", "mm(t(x), g)"),
    ("addmm 9232x3072x1024", "x:[9232,1024] w:weight[3072,1024] c:weight[3072]", "addmm(c, x, t(w))"),
    ("layer norm of a turned image", f"x:{_IMAGE} w:[256] c:[256]", _NORM.format("permute(x, [0, 2, 3, 1])")),
    ("sum of a turned product", f"x:{_IMAGE} y:{_LARGE}",
     "sum(mul(permute(x, [0, 2, 3, 1]), reshape(y, [32, 56, 56, 256])), [0, 1, 2], True)"),
    ("sum and product, turned", f"x:{_IMAGE} y:[256]",
     "p = mul(permute(x, [0, 2, 3, 1]), y); (p, sum(reshape(p, [100352, 256]), [0], True))"),
    ("batch norm backward", "d:bool[64,256,56,56] g:[64,256,56,56] w:[256] m:[256] r:pos[256] x:[64,256,56,56]", _BACKWARD),
    ("batch norm 64x64x56", "x:[64,64,56,56] w:[64] c:[64]",
     "v, m = var_mean(f32(x), [0, 2, 3], correction=0, keepdim=True); r = rsqrt(add(v, 1e-5)); h = mul(sub(f32(x), m), r); "
     "relu(main(add(mul(h, unsqueeze(unsqueeze(w, 1), 2)), unsqueeze(unsqueeze(c, 1), 2))))"),
    ("gelu 100352x1024x256", f"x:{_LARGE} w:weight[1024,256] c:weight[1024]", _GELU.format("addmm(c, x, t(w))")),
    ("mm 4096x512x2048", "x:[4096,2048] w:weight[512,2048]", "mm(x, t(w))"),
    ("mm 4096x2048x5632", "x:[4096,5632] w:weight[5632,2048]", "mm(x, w)"),
    ("weights' gradient 1024x4096x9232", "x:[9232,1024] g:[9232,4096]", "mm(t(x), g)"),
    ("column sum 9232x4096", "x:[9232,4096]", "sum(x, [0], True)"),
    ("column sum of heads", "x:[48,16,577,64]",
     "sum(reshape(permute(reshape(x, [3, 16, 16, 577, 64]), [1, 3, 0, 2, 4]), [9232, 3072]), [0], True)"),
    ("norm's weights' gradient", f"x:{_LARGE} y:float32[32,56,56,256]", "main(sum(mul(f32(reshape(x, [32, 56, 56, 256])), y), [0, 1, 2]))"),
    ("depthwise 7x7 turned", f"x:{_IMAGE} w:weight[n256,n1,n7,n7] c:weight[n256]", f"clone(permute({_DEPTHWISE}, [0, 2, 3, 1]))"),
    ("convolution 3x3 batch norm", "x:[64,64,56,56] w:weight[64,64,n3,n3] m:[64] v:pos[64] g:[64] c:[64]", _BATCH_NORM.format(_CONVOLUTION.format(1))),
    ("gate 4096x5632x2048", "x:[4096,2048] w:weight[5632,2048] u:[4096,5632]", _GATE.format("mm(x, t(w))")),
    ("product times float32", f"x:{_LARGE} w:weight[256,1024] y:float32[32,56,56,1024]", "main(mul(f32(reshape(mm(x, w), [32, 56, 56, 1024])), y))"),
    ("addmm and residual 9232x1024x4096", "x:[9232,4096] w:weight[1024,4096] c:weight[1024] r:[9232,1024]", "add(r, addmm(c, x, t(w)))"),
    ("turned residual 100352x256x1024", f"x:[100352,1024] w:weight[256,1024] c:weight[256] s:[256] r:{_IMAGE}",
     "add(r, permute(mul(reshape(addmm(c, x, t(w)), [32, 56, 56, 256]), s), [0, 3, 1, 2]))"),
    ("column sum 9232x1024", "x:[9232,1024]", "sum(x, [0], True)"),
    ("convolution 1x1", "x:[64,64,56,56] w:weight[256,64,n1,n1]", _CONVOLUTION.format(0)),
    ("weights' gradient 2048x5632x4096", "x:[4096,2048] g:[4096,5632]", "mm(t(x), g)"),
    ("neighbours gate and up 4096x5632x2048", "x:[4096,2048] w:weight[5632,2048] v:weight[5632,2048]",
     "u = mm(x, t(v)); " + _GATE.format("mm(x, t(w))")),
    ("neighbours sum and rms norm 4096x2048", "x:[4096,2048] a:[4096,2048] w:[2048]", _both(_RMS)),
    ("neighbours sum and layer norm 9232x1024", "x:[9232,1024] a:[9232,1024] w:[1024] c:[1024]", _both(_NORM)),
    ("neighbours sum, group norm, silu 8x320x64x64", "x:[8,320,64,64] a:[8,320] w:[320] c:[320]",
     "s = f32(reshape(add(x, unsqueeze(unsqueeze(a, 2), 3)), [8, 32, 10, 4096])); v, m = var_mean(s, [2, 3], correction=0, keepdim=True); "
     "h = reshape(mul(sub(s, m), rsqrt(add(v, 1e-5))), [8, 320, 64, 64]); "
     "h = add(mul(h, unsqueeze(unsqueeze(w, 1), 2)), unsqueeze(unsqueeze(c, 1), 2)); main(div(h, add(exp(neg(h)), 1)))"),
)  # fmt: skip


def block_problems() -> list[Problem]:
    """All problems, ordered by interest."""
    made = [
        (name, Spelled(name, arguments, body, "bfloat16", random.Random(0)))
        for name, arguments, body in (*_gradients(), *_LINES)
    ]
    return [Problem(f"block/{name}", one.graph, positive=frozenset(one.draws)) for name, one in made]


def all_problems() -> list[Problem]:
    """Those of `schedule_problems.py`, then the blocks'."""
    return [*problems(), *block_problems()]
