"""Common operators and families of them, one a row: name, arguments, expression. `spelling.py` says how a row is read.

What schedules apply follows from the nest that the graph has (`library.schedules_of`); sizes from the letters
(`extents.py`). Rows are functions that programs are made of everywhere: their single operators recur in any benchmark, and
the card counts them. Nothing here was written from a benchmark's files.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

from kernelwright.synth.spelling import Spelled


@dataclasses.dataclass(frozen=True)
class Row:
    """One entry: `Row("swiglu", "x:[R,W] y:[R,W]", "mul(silu(x), y)")`."""

    name: str
    arguments: str
    body: str

    def drawn(self, dtype: str, rng: random.Random) -> Spelled:
        """The row at sizes of its own."""
        return Spelled(self.name, self.arguments, self.body, dtype, rng)


_MAPS = "x:[R,W]"
_UNARY = """
    abs neg exp exp2 expm1 sin cos tanh sinh cosh erf erfc sigmoid silu gelu relu relu6 mish selu elu celu softplus softsign
    hardsigmoid hardswish hardtanh leaky_relu hardshrink softshrink log_sigmoid tanhshrink square floor ceil round trunc frac
    sign reciprocal? rsqrt? sqrt? log? log2? log10? log1p? asinh atan deg2rad rad2deg sinc signbit lgamma?
    special_entr? special_erfcx? erfinv% asin% acos%
    atanh% logit% special_ndtri% positive
"""
"""`?` takes numbers above 0, `%` numbers between 0 and 1."""
_BINARY = "add sub mul maximum minimum fmax fmin atan2 hypot copysign logaddexp logaddexp2 lt! le! gt! ge!"
_REDUCTIONS = "sum mean amax amin prod! std var logsumexp argmax argmin nansum"


def _singles() -> Iterator[Row]:
    for word in _UNARY.split():
        name, kind = word.rstrip("?%"), {"?": "pos", "%": "unit"}.get(word[-1], "")
        if name not in ("softsign", "tanhshrink"):
            body = f"main({name}(x))" if name == "signbit" else f"{name}(x)"
            yield Row(name, f"x:{kind}[R,W]", body)
    for word in _BINARY.split():
        name = word.rstrip("!")
        body = f"main({name}(x, y))" if word.endswith("!") else f"{name}(x, y)"
        yield Row(name, "x:[R,W] y:[R,W]", body)
        yield Row(f"{name}_row", "x:[R,W] y:[W]", body)
    for word in _REDUCTIONS.split():
        name = word.rstrip("!")
        given = "mul(x, 0.01)" if word.endswith("!") else "x"
        dims = (
            ("[1]", "[0]")
            if name in ("sum", "mean", "amax", "amin", "std", "var", "logsumexp", "nansum")
            else ("1", "0")
        )
        for dim in dims:
            yield Row(f"{name}_{dim.strip('[]')}", "x:[R,W]", f"{name}({given}, {dim})")


ROWS: tuple[Row, ...] = (
    *_singles(),
    # maps
    Row("scale shift", _MAPS, "add(mul(x, number(-3, 3)), number(-2, 2))"),
    Row("clamp", _MAPS, "clamp(x, number(-2, 0), number(0, 2))"),
    Row("threshold", _MAPS, "threshold(x, number(-1, 1), number(-9, 9))"),
    Row("pow", "x:pos[R,W]", "pow(x, number(0.5, 3))"),
    Row("affine columns", "x:[B,S,D] w:weight[D] c:weight[D]", "add(mul(x, w), c)"),
    Row("affine channels", "x:[B,C,I,J] w:weight[C] c:weight[C]", "add(mul(x, view(w, [C, 1, 1])), view(c, [C, 1, 1]))"),
    Row("residual dropout scale", "x:[B,S,D] y:[B,S,D] m:bool[B,S,D]", "add(x, mul(mul(y, m), number(1, 2)))"),
    Row("swiglu", "x:[R,W] y:[R,W]", "mul(silu(x), y)"),
    Row("geglu halves", "x:[R,2*W]", "a, b = chunk(x, 2, -1); mul(gelu(a), b)"),
    Row("swiglu halves", "x:[B,S,2*D]", "a, b = chunk(x, 2, -1); mul(silu(a), b)"),
    Row("glu", "x:[R,2*W]", "glu(x, -1)"),
    Row("reglu", "x:[R,W] y:[R,W]", "mul(relu(x), y)"),
    Row("quick gelu", _MAPS, "mul(x, sigmoid(mul(x, 1.702)))"),
    Row("tanh gelu", _MAPS, "gelu(x, approximate='tanh')"),
    Row("squared relu", _MAPS, "square(relu(x))"),
    Row("soft cap", _MAPS, "mul(tanh(div(x, 30.0)), 30.0)"),
    Row("prelu", "x:[B,C,I,J] w:weight[C]", "prelu(x, w)"),
    Row("lerp", "x:[R,W] y:[R,W]", "lerp(x, y, number(0.01, 0.99))"),
    Row("gate", "x:[R,W] y:[R,W] z:[R,W]", "g = sigmoid(z); add(mul(g, x), mul(rsub(g, 1), y))"),
    Row("masked fill", "x:[B,S,D] m:bool[B,S,D]", "masked_fill(x, m, number(-9, 9))"),
    Row("select by mask", "m:bool[R,W] x:[R,W] y:[R,W]", "where(m, x, y)"),
    Row("causal mask", "x:[B,H,S,S]", "tril(x)"),
    Row("triangle", "x:[S,D]", "triu(x, pick(-1, 0, 1))"),
    Row("addcmul", "x:[R,W] y:[R,W] z:[R,W]", "addcmul(x, y, z, value=number(-1, 1))"),
    Row("addcdiv", "x:[R,W] y:[R,W] z:pos[R,W]", "addcdiv(x, y, z, value=number(-1, 1))"),
    Row("cast up", _MAPS, "mul(f32(x), 2.0)"),
    Row("rotary halves", "x:[B,H,S,2*E] c:[S,2*E] s:[S,2*E]",
        "a, b = chunk(x, 2, -1); add(mul(x, c), mul(cat([neg(b), a], -1), s))"),
    Row("rotary pairs", "x:[B,S,H,E,n2] c:[S,1,E] s:[S,1,E]",
        "a, b = unbind(x, -1); stack([sub(mul(a, c), mul(b, s)), add(mul(b, c), mul(a, s))], -1)"),
    Row("sgd momentum", "p:[R,W] g:[R,W] v:[R,W]", "n = add(mul(v, 0.9), g); (sub(p, mul(n, 0.01)), n)"),
    Row("adam", "p:float32[R,W] g:float32[R,W] m:float32[R,W] v:pos[R,W]",
        "a = lerp(m, g, 0.1); b = addcmul(mul(f32(v), 0.999), g, g, value=0.001); (sub(p, mul(div(a, add(sqrt(b), 1e-8)), 1e-3)), a, b)"),
    Row("exponential average", "a:float32[R,W] x:[R,W]", "lerp(a, f32(x), number(0.001, 0.1))"),
    Row("integer mix", "x:int32[R,W] y:int32[R,W]", "bitwise_xor(bitwise_left_shift(x, 1), bitwise_and(y, 7))"),
    Row("integer steps", "x:int64[R,W]", "remainder(floor_divide(mul(x, 7), 3), 5)"),
    # moves
    Row("turn", "x:[B,S,D]", "clone(permute(x, [0, 2, 1]))"),
    Row("heads", "x:[B,S,H,E]", "clone(permute(x, [0, 2, 1, 3]))"),
    Row("turned sum", "x:[S,D] y:[D,S]", "add(t(x), y)"),
    Row("join", "x:[B,S,D] y:[B,P,D]", "cat([x, y], 1)"),
    Row("join columns", "x:[R,W] y:[R,D]", "cat([relu(x), y], 1)"),
    Row("stack", "x:[R,W] y:[R,W]", "stack([x, y], pick(0, 1, 2))"),
    Row("pad", "x:[B,C,I,J]", "constant_pad_nd(x, [pick(0, 1), pick(1, 2), pick(0, 1, 3), 1], number(-1, 1))"),
    Row("reflect", "x:[B,C,I,J]", "reflection_pad2d(x, [pick(0, 1), 1, 1, pick(0, 1)])"),
    Row("replicate", "x:[B,C,I,J]", "replication_pad2d(x, [pick(0, 2), 1, 1, pick(0, 2)])"),
    Row("flip", "x:[B,S,D]", "flip(x, [pick(1, 2)])"),
    Row("roll", "x:[B,S,D]", "roll(x, [pick(1, 3, -1)], [pick(1, 2)])"),
    Row("repeat", "x:[B,S,D]", "repeat(x, [1, pick(2, 3), 1])"),
    Row("repeat heads", "x:[B,H,S,E]", "repeat_interleave(x, pick(2, 4), 1)"),
    Row("upsample", "x:[B,C,I,J]", "upsample_nearest2d(x, [2*I, 2*J])"),
    Row("pixel shuffle", "x:[B,n64,I,J]", "pixel_shuffle(x, pick(2, 4))"),
    Row("drop first", "x:[B,S,D]", "add(slice(x, 1, 1, 9223372036854775807), slice(x, 1, 0, -1))"),
    Row("difference", "x:[R,W]", "sub(slice(x, 1, 1, 9223372036854775807), slice(x, 1, 0, -1))"),
    # reductions and norms
    *(Row(f"{name} of {what}", arguments, f"{name}(x, {dims})")
      for name in ("sum", "mean", "amax", "amin", "var", "std") for what, arguments, dims in (
          ("all", "x:[R,W]", "[0, 1]"), ("middle", "x:[B,S,D]", "[1]"), ("images", "x:[B,C,I,J]", "[2, 3]"),
          ("channels", "x:[B,C,I,J]", "[1]"), ("batches", "x:[B,C,I,J]", "[0, 2, 3]"))),
    Row("all of a few", "m:bool[S,P]", "main(all(m, 1))"),
    Row("count", "m:bool[R,W]", "sum(m, [1])"),
    Row("count of others", "x:[R,W]", "count_nonzero(relu(x), [1])"),
    Row("any above", "x:[S,P]", "main(any(gt(x, 1.5), 1))"),
    Row("maximum with place", "x:[R,W]", "max(x, 1)"),
    Row("extremes", "x:[R,W]", "aminmax(x, dim=1)"),
    Row("moments", "x:[R,W]", "var_mean(x, [1], correction=pick(0, 1))"),
    Row("euclidean", "x:[R,W]", "linalg_vector_norm(x, pick(1, 2), [pick(0, 1)])"),
    Row("unit rows", "x:[R,W]", "div(x, add(linalg_vector_norm(x, 2, [1], True), 1e-6))"),
    Row("softmax", "x:[R,W]", "softmax(x, pick(0, 1))"),
    Row("scaled softmax", "x:[B,H,S,S]", "softmax(mul(x, number(0.05, 1)), -1)"),
    Row("masked softmax", "x:[B,H,S,S] m:[S,S]", "softmax(add(x, m), -1)"),
    Row("log softmax", "x:[R,W]", "log_softmax(x, 1)"),
    Row("softmax of channels", "x:[B,C,I,J]", "softmax(x, 1)"),
    Row("layer norm", "x:[B,S,D] w:weight[D] c:weight[D]", "layer_norm(x, [D], w, c, pick(1e-5, 1e-6))"),
    Row("added layer norm", "x:[B,S,D] y:[B,S,D] w:weight[D] c:weight[D]", "h = add(x, y); (layer_norm(h, [D], w, c), h)"),
    Row("modulated layer norm", "x:[B,S,D] s:[B,1,D] c:[B,1,D]", "add(mul(layer_norm(x, [D]), add(s, 1)), c)"),
    Row("rms norm", "x:[B,S,D] w:weight[D]", "rms_norm(x, [D], w, pick(1e-5, 1e-6))"),
    Row("written rms norm", "x:[B,S,D] w:weight[D]", "h = f32(x); mul(w, main(mul(h, rsqrt(add(mean(square(h), [-1], True), 1e-6)))))"),
    Row("added rms norm", "x:[B,S,D] y:[B,S,D] w:weight[D]", "h = add(x, y); (rms_norm(h, [D], w, 1e-5), h)"),
    Row("gated rms norm", "x:[R,W] z:[R,W] w:weight[W]", "mul(rms_norm(x, [W], w, 1e-6), silu(z))"),
    Row("heads norm", "x:[B,S,H,E] w:weight[E]", "rms_norm(x, [E], w, 1e-6)"),
    Row("group norm", "x:[B,C,I,J] w:weight[C] c:weight[C]", "group_norm(x, pick(1, 2, 4, 8), w, c, 1e-5)"),
    Row("group norm silu", "x:[B,C,I,J] w:weight[C] c:weight[C]", "silu(group_norm(x, pick(2, 4, 8), w, c, 1e-6))"),
    Row("instance norm", "x:[B,C,I,J]", "instance_norm(x, None, None, None, None, True, 0.1, 1e-5, False)"),
    Row("batch norm", "x:[B,C,I,J] w:weight[C] c:weight[C] m:[C] v:pos[C]",
        "batch_norm(x, w, c, m, v, False, 0.1, 1e-5, False)"),
    Row("batch norm relu", "x:[B,C,I,J] w:weight[C] c:weight[C] m:[C] v:pos[C]",
        "relu(batch_norm(x, w, c, m, v, False, 0.1, 1e-5, False))"),
    Row("squeeze", "x:[B,C,I,J]", "adaptive_avg_pool2d(x, [1, 1])"),
    Row("excite", "x:[B,C,I,J] s:[B,C,1,1]", "mul(x, sigmoid(s))"),
    Row("weighted mean", "x:[B,S,D] w:pos[B,S,1]", "div(sum(mul(x, w), [1]), sum(expand(w, [B, S, D]), [1]))"),
    Row("masked mean", "x:[B,S,D] m:bool[B,S,D]", "div(sum(mul(x, m), [1]), add(sum(main(m), [1]), 1))"),
    Row("cosine similarity", "x:[R,W] y:[R,W]",
        "div(sum(mul(x, y), [1]), mul(linalg_vector_norm(x, 2, [1]), add(linalg_vector_norm(y, 2, [1]), 1e-6)))"),
    Row("rows dot", "x:[R,W] y:[R,W]", "linalg_vecdot(x, y)"),
    Row("entropy", "x:[R,W]", "p = softmax(x, 1); l = log_softmax(x, 1); neg(sum(mul(p, l), [1]))"),
    # losses
    *(Row(f"{name} {how}", "x:[R,W] y:[R,W]", f"{name}(x, y, {how})")
      for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss") for how in (0, 1, 2)),
    Row("binary cross entropy", "x:unit[R,W] y:unit[R,W]", "binary_cross_entropy(x, y, None, pick(0, 1))"),
    Row("binary cross entropy of logits", "x:[R,W] y:unit[R,W]", "binary_cross_entropy_with_logits(x, y, None, None, pick(0, 1))"),
    Row("divergence", "x:logp[R,W] y:prob[R,W]", "kl_div(x, y, pick(0, 1, 2))"),
    Row("soft margin", "x:[R,W] y:sign[R,W]", "soft_margin_loss(x, y, pick(0, 1))"),
    Row("cross entropy", "x:[R,W] y:idx[R]", "cross_entropy_loss(x, y, None, 0)"),
    Row("hinge", "x:[R,W] y:sign[R,W]", "mean(relu(rsub(mul(x, y), 1)))"),
    Row("focal", "x:[R,W] y:unit[R,W]",
        "l = binary_cross_entropy_with_logits(x, y, None, None, 0); mean(mul(l, square(rsub(exp(neg(l)), 1))))"),
    # backward passes
    Row("gelu backward", "g:[R,W] x:[R,W]", "gelu_backward(g, x)"),
    Row("silu backward", "g:[R,W] x:[R,W]", "silu_backward(g, x)"),
    Row("relu backward", "g:[R,W] x:[R,W]", "threshold_backward(g, x, 0)"),
    Row("sigmoid backward", "g:[R,W] y:unit[R,W]", "sigmoid_backward(g, y)"),
    Row("tanh backward", "g:[R,W] y:unit[R,W]", "tanh_backward(g, y)"),
    Row("leaky relu backward", "g:[R,W] x:[R,W]", "leaky_relu_backward(g, x, number(0.01, 0.3), False)"),
    Row("hardtanh backward", "g:[R,W] x:[R,W]", "hardtanh_backward(g, x, number(-2, 0), number(0, 2))"),
    Row("hardswish backward", "g:[R,W] x:[R,W]", "hardswish_backward(g, x)"),
    Row("hardsigmoid backward", "g:[R,W] x:[R,W]", "hardsigmoid_backward(g, x)"),
    Row("softplus backward", "g:[R,W] x:[R,W]", "softplus_backward(g, x, 1.0, 20.0)"),
    Row("mish backward", "g:[R,W] x:[R,W]", "mish_backward(g, x)"),
    Row("elu backward", "g:[R,W] x:[R,W]", "elu_backward(g, number(0.5, 2), 1.0, 1.0, False, x)"),
    Row("softshrink backward", "g:[R,W] x:[R,W]", "softshrink_backward(g, x, number(0.1, 1))"),
    Row("hardshrink backward", "g:[R,W] x:[R,W]", "hardshrink_backward(g, x, number(0.1, 1))"),
    Row("softmax backward", "g:[R,W] y:prob[R,W]", "_softmax_backward_data(g, y, -1, dtype)"),
    Row("mse backward", "g:[R,W] x:[R,W] y:[R,W]", "mse_loss_backward(g, x, y, 0)"),
    Row("smooth l1 backward", "g:[R,W] x:[R,W] y:[R,W]", "smooth_l1_loss_backward(g, x, y, 0, number(0.5, 2))"),
    Row("huber backward", "g:[R,W] x:[R,W] y:[R,W]", "huber_loss_backward(g, x, y, 0, number(0.5, 2))"),
    Row("bias gradient", "g:[R,W]", "sum(g, [0])"),
    Row("swiglu backward", "g:[R,W] x:[R,W] y:[R,W]", "(silu_backward(mul(g, y), x), mul(g, silu(x)))"),
    # products
    Row("linear", "x:[M,K] w:weight[N,K] c:weight[N]", "linear(x, w, c)"),
    Row("linear without bias", "x:[B,S,D] w:weight[F,D]", "linear(x, w)"),
    *(Row(f"linear {name}", "x:[B,S,D] w:weight[F,D] c:weight[F]", f"{name}(linear(x, w, c))")
      for name in ("relu", "gelu", "silu", "tanh", "sigmoid", "mish", "hardswish", "softplus")),
    Row("linear residual", "x:[M,K] w:weight[N,K] c:weight[N] r:[M,N]", "add(linear(x, w, c), r)"),
    Row("linear gate", "x:[M,K] w:weight[N,K] g:[M,N]", "mul(linear(x, w), silu(g))"),
    Row("product", "x:[M,K] y:weight[K,N]", "mm(x, y)"),
    Row("turned product", "x:[K,M] y:weight[K,N]", "mm(t(x), y)"),
    Row("scaled product", "x:[M,K] y:weight[K,N] r:[M,N]", "add(mul(mm(x, y), number(0.1, 2)), mul(r, number(0.1, 2)))"),
    Row("addmm", "c:[M,N] x:[M,K] y:weight[K,N]", "addmm(c, x, y)"),
    Row("batched product", "x:[B,S,E] y:[B,E,D]", "bmm(x, y)"),
    Row("scores", "q:[B,H,S,E] k:[B,H,S,E]", "mul(matmul(q, transpose(k, -2, -1)), number(0.05, 0.3))"),
    Row("matrix times vector", "x:[M,K] v:[K]", "mv(x, v)"),
    Row("outer", "x:[M] y:[N]", "outer(x, y)"),
    Row("split heads", "x:[B,S,D] w:weight[H*E,D]", "permute(view(linear(x, w), [B, S, H, E]), [0, 2, 1, 3])"),
    # convolutions
    Row("convolution 3", "x:[B,C,I,J] w:weight[O,C,n3,n3] c:weight[O]", "convolution(x, w, c, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)"),
    Row("convolution 1", "x:[B,C,I,J] w:weight[O,C,n1,n1]", "convolution(x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)"),
    Row("strided convolution", "x:[B,C,I,J] w:weight[O,C,n3,n3] c:weight[O]",
        "convolution(x, w, c, [2, 2], [1, 1], [1, 1], False, [0, 0], 1)"),
    Row("convolution relu", "x:[B,C,I,J] w:weight[O,C,n3,n3] c:weight[O]",
        "relu(convolution(x, w, c, [1, 1], [1, 1], [1, 1], False, [0, 0], 1))"),
    Row("convolution residual silu", "x:[B,C,I,J] w:weight[C,C,n3,n3] c:weight[C] r:[B,C,I,J]",
        "silu(add(convolution(x, w, c, [1, 1], [1, 1], [1, 1], False, [0, 0], 1), r))"),
    Row("convolution along a line", "x:[B,C,S] w:weight[O,C,n3] c:weight[O]", "convolution(x, w, c, [1], [1], [1], False, [0], 1)"),
    Row("depthwise", "x:[B,n64,I,J] w:weight[n64,n1,n3,n3] c:weight[n64]",
        "convolution(x, w, c, [1, 1], [1, 1], [1, 1], False, [0, 0], 64)"),
    Row("depthwise line", "x:[B,n64,S] w:weight[n64,n1,n4]", "silu(convolution(x, w, None, [1], [3], [1], False, [0], 64))"),
    Row("patches", "x:[B,n3,I*16,J*16] w:weight[O,n3,n16,n16] c:weight[O]",
        "convolution(x, w, c, [16, 16], [0, 0], [1, 1], False, [0, 0], 1)"),
    Row("transposed convolution", "x:[B,C,I,J] w:weight[C,O,n2,n2] c:weight[O]",
        "convolution(x, w, c, [2, 2], [0, 0], [1, 1], True, [0, 0], 1)"),
    # attention
    Row("attention", "q:[B,H,S,E] k:[B,H,S,E] v:[B,H,S,E]", "scaled_dot_product_attention(q, k, v)"),
    Row("causal attention", "q:[B,H,S,E] k:[B,H,S,E] v:[B,H,S,E]", "scaled_dot_product_attention(q, k, v, None, 0.0, True)"),
    Row("masked attention", "q:[B,H,S,E] k:[B,H,S,E] v:[B,H,S,E] m:[S,S]", "scaled_dot_product_attention(q, k, v, m)"),
    Row("cross attention", "q:[B,H,S,E] k:[B,H,W,E] v:[B,H,W,E]", "scaled_dot_product_attention(q, k, v)"),
    # windows and scans
    *(Row(f"{how} pooling {size} by {step}", "x:[B,C,I,J]", f"{how}_pool2d(x, [{size}, {size}], [{step}, {step}], [{pad}, {pad}])")
      for how in ("max", "avg") for size, step, pad in ((2, 2, 0), (3, 2, 1), (3, 1, 1))),
    Row("pooling along a line", "x:[B,C,S]", "avg_pool1d(x, [4], [4])"),
    Row("pooling of a volume", "x:[n2,C,I,J,P]", "max_pool3d(x, [2, 2, 2], [2, 2, 2])"),
    Row("running sum", "x:[R,W]", "cumsum(x, 1)"),
    Row("running sum of columns", "x:[B,S,D]", "cumsum(x, 1)"),
    Row("running product", "x:pos[R,W]", "cumprod(x, 1)"),
    Row("running sum from the end", "x:[R,W]", "flip(cumsum(flip(x, [1]), 1), [1])"),
    Row("decayed sum", "x:[B,S,D] g:unit[B,S,D]", "cumsum(mul(x, g), 1)"),
    # lookups
    Row("embedding", "w:weight[V,D] i:idx[B,S]", "embedding(w, i)"),
    Row("embedding with places", "w:weight[V,D] i:idx[B,S] p:weight[S,D]", "add(embedding(w, i), p)"),
    Row("embedding norm", "w:weight[V,D] i:idx[B,S] g:weight[D]", "rms_norm(embedding(w, i), [D], g, 1e-6)"),
    Row("gather", "x:[R,W] i:idx[R,P]", "gather(x, 1, i)"),
    Row("index select", "x:[R,W] i:idx[D]", "index_select(x, pick(0, 1), i)"),
    Row("index", "x:[B,S,D] i:idx[P]", "index(x, [None, i])"),
    Row("picked", "x:[R,W] i:idx[R,1]", "neg(gather(x, 1, i))"),
)  # fmt: skip
"""All rows."""
