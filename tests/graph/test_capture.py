"""Capture: a graph computes what its module does, whatever the structure of calls and results."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from modules import Decoder, Language, Output, examples
from torch.utils import _pytree as pytree

from kernelwright.errors import UserError
from kernelwright.graph.agree import agree
from kernelwright.graph.capture import capture
from kernelwright.graph.execute import execute
from kernelwright.graph.fx import to_fx
from kernelwright.graph.operators import RECURRENT, packet
from kernelwright.graph.partition import Group, partition
from kernelwright.graph.public import call
from kernelwright.graph.shrink import with_symbols
from kernelwright.graph.types import Graph

EXAMPLES = examples()


def run(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, **how: Any) -> Any:
    captured = capture(module, args, kwargs, **how)
    return captured.nest(execute(captured.graph, captured.bind(args, kwargs)))


def called(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
    with torch.no_grad():
        return module(*args, **(kwargs or {}))


def assert_same(got: Any, expected: Any) -> None:
    (one, form), (other, wanted) = pytree.tree_flatten(got), pytree.tree_flatten(expected)
    assert form == wanted
    for left, right in zip(one, other, strict=True):
        if isinstance(left, torch.Tensor):
            torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)
        else:
            assert left == right


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_graph_computes_what_its_module_does(name: str) -> None:
    module, args = EXAMPLES[name]
    assert_same(run(module, args), called(module, args))


@pytest.mark.parametrize("name", ["decoder", "bottleneck", "language"])
def test_fp64_is_the_module_in_fp64(name: str) -> None:
    module, args = EXAMPLES[name]
    captured = capture(module, args)
    got = captured.nest(execute(captured.graph, captured.bind(args), fp64=True))
    double = copy.deepcopy(module).double()
    expected = called(double, tuple(one.double() if one.is_floating_point() else one for one in args))
    torch.testing.assert_close(
        pytree.tree_leaves(got), pytree.tree_leaves(expected), check_dtype=False, rtol=1e-6, atol=1e-6
    )


def test_bfloat16_keeps_its_casts() -> None:
    module, x = Decoder().bfloat16().eval(), torch.randn(2, 6, 64, dtype=torch.bfloat16)
    captured = capture(module, (x,))
    dtypes = {one.type.dtype for node in captured.graph.nodes for one in node.outputs if one is not None}
    assert dtypes >= {"bfloat16", "float32"}
    assert_same(captured.nest(execute(captured.graph, captured.bind((x,)))), called(module, (x,)))


def test_keywords_and_optional_arguments() -> None:
    module, args = EXAMPLES["language"]
    assert_same(run(module, (), {"ids": args[0]}), called(module, (args[0],)))
    assert isinstance(run(module, args), Output)


def test_nested_containers_and_constants_come_back() -> None:
    def function(x: torch.Tensor, pair: dict[str, Any]) -> Any:
        return {"sum": x + pair["a"][0], "rest": [pair["a"][1] * 2, None, 3, "text"]}

    args = (torch.randn(3), {"a": (torch.randn(3), torch.randn(2))})
    assert_same(run(function, args), called(function, args))


def test_symbols_stay_for_batch_and_sequence() -> None:
    module, args = EXAMPLES["vit"]
    captured = capture(module, args, dynamic=True)
    assert [one.hint for one in captured.graph.symbols] == [2, 17]
    longer = (torch.randn(3, 23, 48),)
    assert_same(captured.nest(execute(captured.graph, captured.bind(longer))), called(module, longer))


def test_training_mode_returns_new_running_statistics_first() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).train()
    x = torch.randn(2, 3, 6, 6)
    captured = capture(module, (x,))
    changed = {one.origin: at for at, one in enumerate(a for a in captured.graph.arguments if a.mutated)}
    assert set(changed) == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    results = execute(captured.graph, captured.bind((x,)))
    expected = called(module, (x,))
    torch.testing.assert_close(results[changed["1.running_mean"]], module[1].running_mean)
    assert_same(captured.nest(results), expected)


def test_writing_in_place_is_made_functional() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[:, 0] = 3.0
        y += 1
        return y.relu_()

    args = (torch.randn(3, 4),)
    assert_same(run(function, args), called(function, args))


def test_a_graph_break_gives_several_graphs() -> None:
    layer = nn.Linear(4, 4)

    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.layer(x)
            return y * 2 if y.sum() > 0 else y.exp()

    x = torch.ones(3, 4)
    captured = capture(Branching(), (x,))
    assert captured.how == "dynamo"
    assert len(captured.parts) == 2
    first = captured.parts[0]
    assert {one.origin for one in first.graph.arguments if one.role == "weight"} == {
        "layer.weight",
        "layer.bias",
    }
    with pytest.raises(UserError, match="breaks into 2 graphs"):
        _ = captured.graph


@pytest.mark.parametrize("name", ["decoder", "swin", "language", "einsum"])
def test_fx_computes_the_same(name: str) -> None:
    module, args = EXAMPLES[name]
    captured = capture(module, args, dynamic=name == "einsum")
    values = captured.bind(args)
    graph = captured.graph
    results = to_fx(graph)(*(values[one.name] for one in graph.arguments))
    assert_same(captured.nest(results), called(module, args))


@pytest.mark.parametrize("name", EXAMPLES)
def test_json_keeps_the_graph(name: str) -> None:
    module, args = EXAMPLES[name]
    graph = capture(module, args).graph
    assert Graph.model_validate_json(graph.model_dump_json()) == graph


def test_equal_modules_have_equal_graphs() -> None:
    x = torch.randn(2, 4)
    one, other = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.ModuleDict({"a": nn.Linear(4, 4)})
    first = capture(one, (x,)).graph
    second = capture(lambda y: other["a"](y).relu(), (x,)).graph
    assert first.digest == capture(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), (x,)).graph.digest
    assert [node.op for node in first.nodes] == [node.op for node in second.nodes]


BAD: dict[str, tuple[Any, tuple[Any, ...], str]] = {
    "sizes from data": (lambda x: x[x > 0] * 2, (torch.randn(4),), "data"),
    "sizes of results": (
        lambda x: F.ctc_loss(
            x, torch.ones(2, 3, dtype=torch.long), torch.full((2,), 5), torch.tensor([2, 3])
        ),
        (torch.randn(5, 2, 4).log_softmax(-1),),
        "aten._ctc_loss.Tensor makes a size of the values",
    ),
    "complex": (
        lambda x: x * 2,
        (torch.randn(4, dtype=torch.complex64),),
        "complex tensor; return torch.view_as_real",
    ),
    "sparse": (lambda x: x * 2, (torch.eye(3).to_sparse(),), "sparse.*convert"),
    "float8": (lambda x: x.float(), (torch.randn(4).to(torch.float8_e4m3fn),), "float8.*cast"),
    "meta": (nn.Linear(2, 2, device="meta"), (torch.randn(2, 2),), "meta device"),
    "lazy": (nn.LazyLinear(3), (torch.randn(2, 2),), "call the module once"),
    "wrong call": (nn.Linear(2, 2), (torch.randn(2, 3),), "the module itself raises RuntimeError"),
    "no module": ("relu", (), "a module or a function, not a str"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_captured_is_told_in_one_line(name: str) -> None:
    module, args, message = BAD[name]
    with pytest.raises(UserError, match=message) as caught:
        capture(module, args, breaks=False)
    assert "\n" not in str(caught.value)


def test_random_numbers_are_refused_when_run() -> None:
    args = (torch.randn(4),)
    captured = capture(nn.Dropout(0.5).train(), args)
    with pytest.raises(UserError, match="draws random numbers; call eval"):
        execute(captured.graph, captured.bind(args))


def test_another_form_of_call_is_refused() -> None:
    captured = capture(Language(), (torch.zeros(2, 4, dtype=torch.long),))
    with pytest.raises(UserError, match="capture"):
        captured.bind((torch.zeros(2, 4, dtype=torch.long),) * 2)


def test_casts_do_not_round_in_fp64_but_integers_are_exact() -> None:
    def function(x: torch.Tensor) -> Any:
        return x.to(torch.bfloat16).to(torch.float32) * 3, (x * 10).to(torch.int8), (x * 8).int() / 3

    args = (torch.linspace(0, 1, 7),)
    captured = capture(function, args)
    rounded, whole, third = execute(captured.graph, captured.bind(args), fp64=True)
    exact = args[0].double()
    torch.testing.assert_close(rounded, exact * 3, rtol=0, atol=1e-15)
    assert whole.tolist() == (exact * 10).to(torch.int8).tolist()
    torch.testing.assert_close(third, (exact * 8).int().double() / 3, rtol=0, atol=1e-15)


def test_stays_whole_what_has_a_name() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(F.gelu(F.linear(x, w)), (4,)).softmax(-1)

    graph = capture(function, (torch.randn(3, 4), torch.randn(4, 4))).graph
    assert [node.op.split(".")[1] for node in graph.nodes] == ["linear", "gelu", "layer_norm", "_softmax"]


def test_arguments_that_name_a_dtype_are_held_fixed() -> None:
    class Cast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor, *, wanted: torch.dtype, times: float = 2.0) -> torch.Tensor:
            return self.linear(x).to(wanted) * times

    module, x = Cast().eval(), torch.randn(2, 4)
    captured = capture(module, (x,), {"times": 3.0, "wanted": torch.bfloat16})
    assert captured.how == "export"
    assert {one.origin for one in captured.graph.arguments if one.role == "weight"} == {
        "linear.weight",
        "linear.bias",
    }
    assert agree(captured.part).native < 4e-2
    with pytest.raises(UserError, match="captured for"):
        captured.bind((x,), {"times": 3.0, "wanted": torch.float16})


def test_one_tensor_given_twice_is_two_inputs() -> None:
    x = torch.randn(4, 8)
    captured = capture(lambda a, b: a * b.sigmoid(), (x, x))
    assert [one.role for one in captured.graph.arguments] == ["input", "input"]
    assert captured.graph.nodes[-1].refs() != (captured.graph.arguments[0].name,) * 2


def test_parts_may_have_names_that_torch_fx_has() -> None:
    class Quantised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("code", torch.linspace(-1, 1, 16))
            self.graph = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor, *, scale: float = 1.0) -> torch.Tensor:
            return self.graph(self.code[x]) * scale

    module = Quantised()
    captured = capture(module, (torch.randint(0, 16, (3, 4)),), {"scale": 2.0})
    assert {one.origin for one in captured.graph.arguments} >= {"code", "graph.weight", "graph.bias"}
    assert agree(captured.part).native < 1e-5


def test_what_no_function_of_torchs_shows_is_taken_apart() -> None:
    """A stitched file uses torch's public functions only."""

    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pair = nn.Bilinear(6, 4, 5)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            made = torch.zeros(2, 3, 5, dtype=torch.float64)
            made[:, ::2] = self.pair(x, y)[:, ::2]
            return made

    args = (torch.randn(2, 3, 6), torch.randn(2, 3, 4))
    captured = capture(Pair(), args)
    assert agree(captured.part).native < 1e-5
    names = {node.op.split(".")[1] for node in captured.graph.nodes}
    assert not names & {"_trilinear", "copy"}


def test_a_word_among_the_arguments_is_held_fixed_whatever_inputs_are_called() -> None:
    def function(x: torch.Tensor, how: str = "sum", *, what: str = "x", times: float = 2.0) -> Any:
        return {"made": getattr(x, how)(-1) * times, "how": how, "what": what}

    x = torch.randn(3, 4)
    captured = capture(function, (x, "mean"), {"what": "how", "times": 1.0})
    made = captured.nest(execute(captured.graph, captured.bind((x, "mean"), {"what": "how", "times": 1.0})))
    assert_same(made, function(x, "mean", what="how", times=1.0))
    assert agree(captured.part).native < 1e-4
    for how, times in (("sum", 1.0), ("mean", 1)):  # another word, a number of another kind
        with pytest.raises(UserError, match="captured for"):
            captured.bind((x, how), {"what": "how", "times": times})


@pytest.mark.parametrize(
    ("name", "around"),
    [
        ("linalg.inv", lambda x: torch.linalg.inv(x).relu() + 1),
        ("linalg.cholesky", lambda x: torch.linalg.cholesky(x @ x.mT + 4 * torch.eye(6)).relu() + 1),
        ("linalg.solve", lambda x: torch.linalg.solve(x, x.mT).relu() + 1),
        ("linalg.det", lambda x: torch.linalg.det(x).relu() + 1),
        ("linalg.eigh", lambda x: torch.linalg.eigh(x + x.mT)[0].relu() + 1),
    ],
)
def test_linear_algebra_stays_whole_and_with_torch(
    name: str, around: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    class Solver(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return around(x)

    model, x = Solver(), torch.randn(3, 6, 6) + 4 * torch.eye(6)
    captured = capture(model, (x,))
    assert f"torch.{name}(" in "".join(map(call, captured.graph.nodes))
    assert "relu+add" in [one.operators for one in partition(captured.graph).steps if isinstance(one, Group)]
    assert_same(captured.nest(execute(captured.graph, captured.bind((x,), {}))), model(x))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_recurrent_layer_stays_whole_and_its_batch_and_steps_vary(kind: type[nn.RNNBase]) -> None:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = kind(5, 3, num_layers=2, bidirectional=True, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.layer(x)[0]) + 1

    model, x = Tagger().eval(), torch.randn(4, 7, 5)
    graph = with_symbols(capture(model, (x,)).graph)
    assert [one.hint for one in graph.symbols] == [4, 7]
    assert [step.operators for step in partition(graph).steps if isinstance(step, Group)] == ["relu+add"]
    layer = next(node for node in graph.nodes if packet(node.op) in RECURRENT)
    assert layer.args[-1] is False  # steps first, between two permutations
    captured = capture(model, (x,))
    assert_same(captured.nest(execute(captured.graph, captured.bind((x,), {}))), model(x))
    assert agree(captured.part).native < 1e-4


def test_an_operator_that_checks_values_is_named() -> None:
    with pytest.raises(
        UserError, match=r"aten._linalg_check_errors.default stops the program for some values"
    ):
        capture(torch.linalg.ldl_factor, (torch.eye(3),))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_count_whose_size_no_value_decides_is_a_sum_by_index(weighted: bool) -> None:
    def count(x: torch.Tensor, w: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        return before + torch.bincount(x, w if weighted else None, minlength=5)

    args = torch.tensor([0, 3, 3, 4]), torch.tensor([0.5, 1.0, 2.0, 4.0]), torch.ones(5)
    graph = capture(count, args).graph
    assert {"bincount", "scatter_add"} & {packet(node.op) for node in graph.nodes} == {"scatter_add"}
    assert_same(run(count, args), count(*args))


@pytest.mark.parametrize(
    "index",
    [
        lambda i: i + 1,
        lambda i: (..., i - 1, None),
        lambda i: (slice(1, 3), i),
        lambda i: (i, 2),
        lambda i: (i, i),
    ],
)
@pytest.mark.parametrize("step", [0, 2])
def test_an_integer_tensor_without_dimensions_stays_a_tensor_as_an_index(index: Any, step: int) -> None:
    def read_and_write(table: torch.Tensor, new: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        changed = table.clone()
        changed[index(i)] = new
        return changed * 2 + table[index(i)].sum()

    table, new = torch.rand(4, 4), torch.tensor(3.0)
    captured = capture(read_and_write, (table, new, torch.tensor(1)))
    args = (table, new, torch.tensor(step))
    assert_same(captured.nest(execute(captured.graph, captured.bind(args))), read_and_write(*args))


class Equation(nn.Module):
    """What a network's output changes by along its inputs, as physics-informed networks have it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        slope = torch.func.jacrev(lambda one: self.net(one).squeeze(-1))
        return torch.vmap(slope)(x)[:, 0] + torch.vmap(torch.func.jacfwd(slope))(x)[:, 1, 1]


def test_derivatives_within_a_forward_pass_are_traced() -> None:
    module, x = Equation(), torch.rand(5, 2)
    captured = capture(module, (x,))
    assert captured.how == "traced"
    origins = {one.origin for one in captured.graph.arguments}
    assert {"args_0", "net.0.weight"} < origins < {"args_0", *dict(module.named_parameters())}
    agree(captured.part)
    torch.testing.assert_close(run(module, (x,)), module(x))


def test_a_failure_within_a_derivative_leaves_no_transform_behind() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.func.jacrev(lambda one: one.sin() * one.sum().item())(x)

    with pytest.raises(UserError):
        capture(forward, (torch.rand(3),))
    assert torch._C._functorch.maybe_current_level() is None


def test_operators_on_lists_are_operators_on_each() -> None:
    def step(weights: list[torch.Tensor], grads: list[torch.Tensor], by: torch.Tensor) -> Any:
        moved = torch._foreach_addcdiv(weights, grads, torch._foreach_maximum(grads, 0.5), value=0.5)
        torch._foreach_div_(moved, torch._foreach_norm(grads))
        torch._foreach_add_(weights, torch._foreach_mul(moved, by), alpha=-0.1)
        torch._foreach_zero_(grads)
        return torch._foreach_pow(2.0, moved), torch._foreach_add(moved, [1.0, 2.0])

    part = capture(step, (given(3, 4), given(3, 4), torch.tensor(0.3))).part
    assert not any("_foreach_" in node.op for node in part.graph.nodes)
    assert agree(part).fp64 == 0


def given(*rows: int) -> list[torch.Tensor]:
    return [torch.randn(row, 5) for row in rows]
