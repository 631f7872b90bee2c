"""The compiler on graphs: a function of tensors and sizes, dtypes kept, several results, reasons for what it leaves."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import sympy
import torch
from interpreted import said
from torch.nn import functional as F
from torch.utils._sympy.functions import Max

from kernelwright.graph import Argument, Graph, Node, Ref, TensorType, Value
from kernelwright.graph.capture import capture
from kernelwright.graph.types import NumberType, Size, Symbol
from kernelwright.policy.compiler import Compiler, lower, pooling
from kernelwright.policy.compiler.reasons import CannotCompile

X, W = Ref(ref="x"), Ref(ref="w")


@pytest.fixture(scope="module")
def compiler() -> Iterator[Compiler]:
    with Compiler(seconds=100) as opened:
        yield opened


def tensor(*shape: int | str, dtype: Any = "float32") -> TensorType:
    return TensorType(dtype=dtype, shape=shape)


def graph(*nodes: tuple[str, tuple[Any, ...], TensorType], **arguments: TensorType | NumberType) -> Graph:
    """Nodes as (operator, operands, type of the result h1, h2, ...); the last one's result is returned."""
    made = tuple(
        Node(op=op, args=args, outputs=(Value(name=f"h{at}", type=kind),))
        for at, (op, args, kind) in enumerate(nodes, 1)
    )
    shapes = [dim for one in arguments.values() if isinstance(one, TensorType) for dim in one.shape]
    names = dict.fromkeys(dim for dim in shapes if isinstance(dim, str) and dim.isidentifier())
    return Graph(
        arguments=tuple(Argument(name=name, type=kind) for name, kind in arguments.items()),
        nodes=made,
        results=(f"h{len(made)}",),
        symbols=tuple(Symbol(name=name, hint=64) for name in names),
    )


def test_the_code_is_a_function_of_the_arguments(compiler: Compiler) -> None:
    given = graph(("aten.add.Tensor", (X, W), tensor("n", 8)), x=tensor("n", 8), w=tensor(8))
    found = compiler.answer(given)
    functions = [node for node in ast.parse(found.code).body if isinstance(node, ast.FunctionDef)]
    assert [argument.arg for argument in functions[-1].args.args] == ["x", "w"]
    assert functions[-1].name == "kernel"
    assert "n = x.shape[0]" in found.code


def test_weights_too_are_read_as_having_no_gaps(compiler: Compiler) -> None:
    """A convolution's weights have another layout after `.to(memory_format=torch.channels_last)`."""
    given = graph(("aten.mul.Tensor", (X, W), tensor("n", 8)), x=tensor("n", 8), w=tensor(8))
    weight = given.arguments[1].model_copy(update={"role": "weight"})
    code = compiler.answer(given.model_copy(update={"arguments": (given.arguments[0], weight)})).code
    assert "w = w.contiguous()" in code


def test_narrow_floats_stay_narrow(compiler: Compiler) -> None:
    half = tensor("n", 64, dtype="bfloat16")
    found = compiler.answer(graph(("aten._softmax.default", (X, 1, False), half), x=half))
    assert "empty_like(x)" in found.code
    assert ".to(tl.float32)" in found.code


def test_a_size_that_no_shape_tells_is_an_argument(compiler: Compiler) -> None:
    given = graph(
        ("aten.reshape.default", (X, (Size(size="n"), -1)), tensor("n", "m//n")),
        ("aten.sum.dim_IntList", (Ref(ref="h1"), (1,)), tensor("n")),
        x=tensor("m"),
        n=NumberType(of="int"),
    )
    given = given.model_copy(update={"symbols": (Symbol(name="m", hint=64), Symbol(name="n", hint=4))})
    assert "def kernel(x, n):" in compiler.answer(given).code


@pytest.mark.parametrize(
    ("op", "weight", "rest", "result"),
    [
        ("transposed", (8, 6, 3, 3), ((2, 2), (1, 1), (1, 1), True, (1, 1), 1), ("b", 6, 32, 32)),
        ("dilated", (6, 8, 3, 3), ((1, 1), (2, 2), (2, 2), False, (0, 0), 1), ("b", 6, 16, 16)),
        ("plain", (6, 8, 3, 3), ((1, 1), (1, 1), (1, 1), False, (0, 0), 1), ("b", 6, 16, 16)),
    ],
    ids=["transposed", "dilated", "plain"],
)
def test_convolutions_are_products_of_our_own(
    compiler: Compiler, op: str, weight: tuple[int, ...], rest: tuple[Any, ...], result: tuple[Any, ...]
) -> None:
    given = graph(
        ("aten.convolution.default", (X, W, None, *rest), tensor(*result)),
        x=tensor("b", 8, 16, 16),
        w=tensor(*weight),
    )
    found = compiler.answer(given)
    assert "tl.dot" in found.code, found.reason


def test_with_auto_products_stay_with_the_library(compiler: Compiler) -> None:
    given = graph(
        ("aten.mm.default", (X, W), tensor("n", 32)),
        ("aten.relu.default", (Ref(ref="h1"),), tensor("n", 32)),
        x=tensor("n", 64),
        w=tensor(64, 32),
    )
    code = compiler.answer(given, "auto").code
    assert "torch.mm(x, w, out=h0)" in code
    assert "relu_kernel[" in code
    assert "tl.dot" not in code


def test_with_auto_attention_stays_whole(compiler: Compiler) -> None:
    q = tensor("b", 4, 128, 32)
    given = graph(
        ("aten.scaled_dot_product_attention.default", (X, X, X), q),
        ("aten.sin.default", (Ref(ref="h1"),), q),
        x=q,
    )
    assert "scaled_dot_product_attention(x, x, x)" in compiler.answer(given, "auto").code


def test_with_auto_an_operator_without_code_stays_between_kernels(compiler: Compiler) -> None:
    """One of its two results is read."""
    given = capture(lambda x: x - (x * 2.0).kthvalue(3, 1, True).values, (torch.randn(6, 40),)).graph
    code = compiler.answer(given, "auto").code
    assert "h1, _ = torch.kthvalue(h0, 3, 1, True)" in code
    assert "sub_kernel[" in code
    assert compiler.answer(given, "own").reason == "extern: aten.kthvalue"


@pytest.mark.parametrize(
    ("shape", "counts"), [((2, 3, 14, 18), (3, 4)), ((1, 2, 6, 8, 9), (2, 3, 2)), ((2, 3, 97), (3,))]
)
def test_windows_of_sizes_that_differ_by_one(shape: tuple[int, ...], counts: tuple[int, ...]) -> None:
    x, rank = (
        torch.randn(shape).round(decimals=1),
        len(counts),
    )  # equal values: the first of them is the largest
    mean = pooling.adaptive(rank, False)(x, list(counts))
    torch.testing.assert_close(mean, getattr(F, f"adaptive_avg_pool{rank}d")(x, counts))
    largest = pooling.adaptive(rank, True)(x, list(counts))
    torch.testing.assert_close(
        largest, getattr(F, f"adaptive_max_pool{rank}d")(x, counts, return_indices=True)
    )


def test_a_part_of_a_vector_is_no_view_of_all_of_it(compiler: Compiler) -> None:
    """The first third of a projection's bias, as in attention with three projections in one weight."""
    given = graph(
        ("aten.slice.Tensor", (W, 0, 0, Size(size="n")), tensor("n")),
        ("aten.slice.Tensor", (Ref(ref="v"), 0, 0, Size(size="n")), tensor("n", "n")),
        ("aten.t.default", (Ref(ref="h2"),), tensor("n", "n")),
        ("aten.addmm.default", (Ref(ref="h1"), X, Ref(ref="h3")), tensor("m", "n")),
        x=tensor("m", "n"),
        w=tensor("3*n"),
        v=tensor("3*n", "n"),
    )
    code = compiler.answer(given, "auto").code
    assert "torch.addmm(w.as_strided((n,), (1,))" in code


def test_a_later_part_of_a_vector_begins_where_the_vector_does_and_not_its_memory(compiler: Compiler) -> None:
    given = graph(
        ("aten.slice.Tensor", (W, 0, Size(size="n"), Size(size="3*n")), tensor("2*n")),
        ("aten.slice.Tensor", (Ref(ref="v"), 0, Size(size="n"), Size(size="3*n")), tensor("2*n", "n")),
        ("aten.t.default", (Ref(ref="h2"),), tensor("n", "2*n")),
        ("aten.addmm.default", (Ref(ref="h1"), X, Ref(ref="h3")), tensor("m", "2*n")),
        x=tensor("m", "n"),
        w=tensor("3*n"),
        v=tensor("3*n", "n"),
    )
    assert "torch.addmm(w.view(-1)[n:].as_strided((2 * n,), (1,))" in compiler.answer(given, "auto").code


def test_a_convolution_of_a_transposed_sequence_is_written(compiler: Compiler) -> None:
    given = graph(
        ("aten.transpose.int", (X, 1, 2), tensor("b", 32, "n")),
        ("aten.convolution.default", (Ref(ref="h1"), W, None, (1,), (0,), (1,), False, (0,), 1), tensor("b", 16, "n")),
        ("aten.relu.default", (Ref(ref="h2"),), tensor("b", 16, "n")),
        x=tensor("b", "n", 32),
        w=tensor(16, 32, 1),
    )  # fmt: skip
    found = compiler.answer(given, "auto")
    assert found.code, found.reason


def test_numbers_are_added_to_the_sum_of_one_row_as_numbers(compiler: Compiler) -> None:
    given = graph(
        ("aten.sum.default", (X,), tensor()),
        ("aten.exp.default", (W,), tensor()),
        ("aten.sub.Tensor", (Ref(ref="h1"), Ref(ref="h2")), tensor()),
        x=tensor("n", 12),
        w=tensor(),
    )
    code = compiler.answer(given).code
    assert "tl.store(" in code
    assert "broadcast_to" not in code


@pytest.mark.parametrize("name", ["upsample_nearest2d", "upsample_bilinear2d"])
def test_whole_factors_keep_sizes_whole(compiler: Compiler, name: str) -> None:
    options = (False,) if "bilinear" in name else ()
    given = graph(
        (f"aten.{name}.vec", (X, None, *options, (3.0, 2.0)), tensor("b", 4, "3*h", "2*w0")),
        x=tensor("b", 4, "h", "w0"),
    )
    found = compiler.answer(given)
    assert found.code, found.reason
    assert "float(" not in found.code.partition("def kernel(")[2]


def test_rounding_is_to_even(compiler: Compiler) -> None:
    given = graph(("aten.round.default", (X,), tensor("n")), x=tensor("n"))
    assert "nearest_even" in compiler.answer(given).code


def test_a_random_operator_has_its_reason(compiler: Compiler) -> None:
    given = graph(("aten.bernoulli.p", (X, 0.5), tensor("n")), x=tensor("n"))
    assert compiler.answer(given).reason.startswith("random: ")


def test_an_operator_without_triton_has_its_reason(compiler: Compiler) -> None:
    given = graph(("aten.linalg_inv_ex.default", (X,), tensor(8, 8)), x=tensor(8, 8))
    assert compiler.answer(given).code == ""


def _nested(x: torch.Tensor) -> torch.Tensor:
    made = torch.zeros_like(x)
    made[:, ::2, 1::2] = x[:, ::2, ::2] * 2
    return made.relu()


X8, EDGES, OFFSETS = torch.rand(3, 8, 6), torch.tensor([0.1, 0.4, 0.6, 0.9]), torch.tensor([0, 2, 2, 7])
INTERPRETED: dict[str, tuple[Any, tuple[torch.Tensor, ...]]] = {
    "buckets": (lambda x, edges: torch.bucketize(x, edges) * 2, (X8, EDGES)),
    "buckets open to the right": (lambda x, edges: torch.bucketize(x, edges, right=True) + 1, (X8.view(-1), EDGES)),
    "rows with edges of their own": (lambda edges, x: torch.searchsorted(edges, x) * 2, (X8.cumsum(-1), X8 * 3)),
    "sums of bags": (
        lambda table, at, offsets: F.embedding_bag(at, table, offsets, mode="sum").relu(),
        (torch.randn(9, 8), torch.arange(10) % 9, OFFSETS),
    ),
    "means of bags": (
        lambda table, at, offsets: F.embedding_bag(at, table, offsets) * 2,
        (torch.randn(9, 8), torch.arange(10) % 9, OFFSETS),
    ),
    "distances": (lambda x, y: torch.cdist(x, y) + 1, (X8, X8[:, :5] * 2)),
    "sums of differences": (lambda x, y: torch.cdist(x, y, p=1.0), (X8, X8[:, :5] * 2)),
    "writes into slices of slices": (_nested, (X8,)),
    "the largest": (lambda x: sum(x.topk(3, 1)), (X8,)),
    "the smallest of columns with equal ones": (lambda x: (x * 3).round().topk(2, 0, largest=False)[0] * 2, (X8,)),
    "sorted rows": (lambda x: sum((x * 4).round().sort(dim=-1, descending=True, stable=True)), (X8,)),
    "remainders": (lambda x: torch.remainder(x - 0.5, 0.3) + torch.remainder(x, -0.7), (X8,)),
    "remainders of integers": (lambda x: torch.remainder(x, 3) + torch.remainder(x, -4), (torch.arange(-9, 9),)),
    "largest of a row's windows": (lambda x: F.max_pool1d(x, 3, 2, 1) * 2, (X8,)),
}  # fmt: skip


@pytest.mark.parametrize("name", INTERPRETED)
def test_what_inductor_leaves_to_aten_is_a_kernel(compiler: Compiler, name: str) -> None:
    function, args = INTERPRETED[name]
    captured = capture(function, args)
    found = compiler.answer(captured.graph)
    assert found.code, found.reason
    order = [captured.bind(args)[one.name].tolist() for one in captured.graph.arguments]
    kinds = [str(captured.bind(args)[one.name].dtype) for one in captured.graph.arguments]
    script = f"""
import torch, triton.knobs
{found.code}
given = [torch.tensor(values, dtype=dtype) for values, dtype in zip({order!r}, [{", ".join(kinds)}])]
made = kernel(*given)
print((made[0] if isinstance(made, tuple) else made).tolist())
"""
    printed, wrong = said(script)
    assert printed, wrong
    torch.testing.assert_close(torch.tensor(eval(printed)), function(*args), check_dtype=False)


def test_a_size_that_may_be_one_is_not_broadcast(compiler: Compiler) -> None:
    """Triton then treats it as a plain number."""
    read = Ref(ref="h1")
    given = graph(
        ("aten.index.Tensor", (X, (Ref(ref="at"),)), tensor("m", "k")),
        ("aten.cat.default", ((read, read), 1), tensor("m", "2*k")),
        x=tensor("n", "k"),
        at=tensor("m", dtype="int64"),
    )
    found = compiler.answer(given)
    assert found.code, found.reason
    assert "broadcast_to(" not in found.code


def test_functions_of_cudas_library_stay(compiler: Compiler) -> None:
    code = compiler.answer(capture(lambda x: torch.atanh(x) + torch.lgamma(x), (X8,)).graph).code
    assert "from triton.language.extra import libdevice" in code
    assert "libdevice.atanh(" in code


def test_a_number_given_by_its_bits_is_that_number(compiler: Compiler) -> None:
    """Inductor writes CUDA's arc tangent with its constants as bits."""
    code = compiler.answer(capture(lambda x: torch.atan(x) * 2.0, (X8,)).graph).code
    assert " > 1.0\n" in code
    assert "1065353216" not in code


def test_a_pick_among_halves_is_made_of_rounded_ones(compiler: Compiler) -> None:
    """Numbers that eager rounds to one value are equal, and the first of them is picked."""
    found = compiler.answer(capture(lambda x: torch.sigmoid(x).max(-1)[1], (X8.bfloat16(),)).graph)
    assert ".to(tl.bfloat16)" in found.code
    plain = compiler.answer(capture(lambda x: torch.sigmoid(x).amax(-1), (X8.bfloat16(),)).graph)
    assert ".to(tl.bfloat16)" not in plain.code


def test_a_product_less_its_maximum_is_rounded_first(compiler: Compiler) -> None:
    def scores(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * t.exp(), -1)

    code = compiler.answer(capture(scores, (X8, torch.tensor(2.0))).graph).code
    assert "from triton.language.extra import libdevice" in code
    assert "libdevice.mul_rn(" in code
    assert "libdevice" not in compiler.answer(capture(lambda x: torch.softmax(x * 0.5, -1), (X8,)).graph).code


def test_a_number_is_spread_over_a_tile_as_a_tensor(compiler: Compiler) -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(x, torch.zeros(x.shape[0], dtype=torch.long, device=x.device))

    code = compiler.answer(capture(loss, (torch.randn(24, 40),)).graph).code
    assert "broadcast_to(1," not in code


def test_with_auto_a_scatter_that_reduces_stays_between_kernels(compiler: Compiler) -> None:
    def shares(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        index = at[:, None].expand(-1, 4)
        most = x.new_full((7, 4), -torch.inf).scatter_reduce(0, index, x * 2, "amax")
        return torch.exp(x - most[at])

    given = (torch.randn(50, 4), torch.randint(0, 7, (50,)))
    code = compiler.answer(capture(shares, given).graph, "auto").code
    assert "torch.Tensor.scatter_reduce_(" in code
    assert code.count("@triton.jit") == 3  # the maximum begins, is given, and is read


def test_a_product_of_one_row_fits_all_sizes(compiler: Compiler) -> None:
    """Inductor's rule for a CPU, on which the graph is traced, asks whether there are more than sixteen columns."""
    given = graph(
        ("aten.linear.default", (X, W, Ref(ref="b")), tensor(1, "n")),
        ("aten.relu.default", (Ref(ref="h1"),), tensor(1, "n")),
        x=tensor(1, "k"),
        w=tensor("n", "k"),
        b=tensor("n"),
    )
    found = compiler.answer(given, "auto", [{"n": 6, "k": 4}])
    assert not found.reason
    assert "torch.mm(" in found.code


def test_a_product_of_a_column_and_a_row_is_elementwise(compiler: Compiler) -> None:
    given = graph(("aten.mm.default", (X, W), tensor("m", "n")), x=tensor("m", 1), w=tensor(1, "n"))
    found = compiler.answer(given, "auto", [{"n": 6, "m": 4}])
    assert not found.reason
    assert "torch.mm(" not in found.code


def test_linear_algebra_stays_with_torch_between_kernels(compiler: Compiler) -> None:
    given = graph(
        ("aten.mul.Tensor", (X, 2.0), tensor("n", "n")),
        ("aten.linalg_inv.default", (Ref(ref="h1"),), tensor("n", "n")),
        ("aten.exp.default", (Ref(ref="h2"),), tensor("n", "n")),
        x=tensor("n", "n"),
    )
    code = compiler.answer(given, "auto").code
    assert "_ = torch.linalg.inv_ex(" in code
    assert "check_errors=True" in code  # `inv` raises for a singular matrix, `inv_ex` only if asked
    assert code.count("@triton.jit") == 2
    assert compiler.answer(given).reason == "extern: aten.linalg_inv_ex"


@pytest.mark.parametrize(
    ("function", "call"),
    [
        (lambda x: torch.linalg.det(x * 2.0).exp(), "h1 = torch.linalg.det(h0)"),
        (lambda x: torch.logdet(x * 2.0).exp(), "h1, h2, _, _ = (*torch.linalg.slogdet(h0), None, None)"),
        (lambda x: torch.linalg.solve(x * 2.0, x).exp(), "h1 = torch.linalg.solve(h0, x1)"),
        (lambda x: torch.linalg.eigh(x + x.mT).eigenvectors.exp(), "_, h1 = torch.linalg.eigh(h0)"),
        (lambda x: torch.linalg.eigvalsh(x + x.mT).exp(), "h1 = torch.linalg.eigvalsh(h0)"),
    ],
    ids=["det", "logdet", "solve", "eigh", "eigvalsh"],
)
def test_linear_algebra_that_torch_lowers_to_operators_of_its_own_has_its_public_name(
    compiler: Compiler, function: Any, call: str
) -> None:
    code = compiler.answer(capture(function, (torch.eye(4) + torch.rand(6, 4, 4),)).graph, "auto").code
    assert call in code
    assert "@triton.jit" in code


def test_strides_that_differ_unless_a_size_is_one_are_no_limit() -> None:
    size = sympy.Symbol("s1", integer=True, positive=True)
    symbols = {"n": SimpleNamespace(node=SimpleNamespace(_expr=size))}
    given = graph(("aten.relu.default", (X,), tensor("n")), x=tensor("n"))

    def check(guard: Any) -> None:
        env = SimpleNamespace(guards=[SimpleNamespace(expr=guard)], replacements={})
        lower._check(env, 1, symbols, given, [{"n": 2}])

    check(sympy.StrictGreaterThan(256 * Max(1, size - 1), 256))
    check(sympy.Ne(size - 1, 1))
    check(sympy.GreaterThan(size - 1, 2))
    for guard in (
        size > 16,
        sympy.GreaterThan(size - 2, 2),
        sympy.StrictGreaterThan(256 * Max(1, size - 1), 512),
    ):
        with pytest.raises(CannotCompile, match="specialised"):
            check(guard)


def test_what_a_slice_leaves_may_be_nothing(compiler: Compiler) -> None:
    """A next-token loss of one token: blocks are powers of two of the number of elements, which then is 0."""
    given = graph(
        ("aten.slice.Tensor", (X, 1, 1, Size(size="n")), tensor("m", "n - 1")),
        ("aten.sum.default", (Ref(ref="h1"),), tensor()),
        x=tensor("m", "n"),
    )
    assert "triton.next_power_of_2(max(" in compiler.answer(given).code


def test_with_auto_a_product_of_8_bit_integers_stays_with_the_library(compiler: Compiler) -> None:
    def quantised(x: torch.Tensor, w: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return torch._int_mm(x.round().clamp(-128, 127).to(torch.int8), w.T).float() * scale

    args = torch.randn(40, 64), torch.randint(-128, 128, (48, 64), dtype=torch.int8), torch.rand(48)
    code = compiler.answer(capture(quantised, args).graph, "auto").code
    assert "torch._int_mm(h0, w1.as_strided(" in code or "torch._int_mm(h0, x2.as_strided(" in code
    assert "tl.dot" not in code
