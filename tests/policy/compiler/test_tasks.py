"""The compiler on tasks: modules are self-contained and serve all shapes; the error names what cannot be rewritten."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from kernelwright import tasks
from kernelwright.policy.compiler import Compiler
from kernelwright.policy.compiler.simplify import simplify
from kernelwright.records import Candidate, Task
from kernelwright.verify import VerifierPool

HEAD = "import torch\nimport torch.nn as nn\n\nN = 128\nM = 64\n"
SHAPES = {"small": {"N": 16, "M": 4}, "small_odd": {"N": 19, "M": 3}}


def reference(
    forward: str,
    init: str = "pass",
    inputs: str = "torch.randn(M, N)",
    arguments: str = "x",
    before: str = "",
    given: str = "",
) -> Task:
    taken = ", ".join(["self", *given.lower().split()])
    source = (
        f"{HEAD}\n{before}class Model(nn.Module):\n    def __init__({taken}):\n        super().__init__()\n        {init}\n\n"
        f"    def forward(self, {arguments}):\n        {forward}\n\n"
        f"def get_inputs():\n    return [{inputs}]\n\ndef get_init_inputs():\n    return [{given}]\n"
    )
    return Task(id="t/t", source=source, shapes=SHAPES)


@pytest.fixture(scope="module")
def compiler() -> Iterator[Compiler]:
    with Compiler(seconds=100) as opened:
        yield opened


@pytest.fixture(scope="module")
def pool() -> Iterator[VerifierPool]:
    with VerifierPool(1, backend="interpret", deadline_s=200, priced=False, kept=True) as opened:
        yield opened


def compiled(compiler: Compiler, name: str) -> tuple[Task, str]:
    task = tasks.load_suite(f"wright/{name}")[0]
    found = compiler.module(task)
    assert found.code, found.reason
    return task, found.code


@pytest.mark.slow
def test_a_module_imports_torch_and_triton_only(compiler: Compiler) -> None:
    _, code = compiled(compiler, "layernorm")
    roots = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(code))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [n.name for n in node.names]
        )
    }
    assert roots == {"torch", "triton"}
    assert "_inductor" not in code
    assert "triton_helpers" not in code


def test_sizes_are_read_off_shapes(compiler: Compiler) -> None:
    _, code = compiled(compiler, "softmax_rows")
    assert "rows, cols = x1.shape" in code
    assert "4096" not in code


@pytest.mark.slow
def test_modules_are_right(compiler: Compiler, pool: VerifierPool) -> None:
    pairs = [compiled(compiler, name) for name in ("softmax_rows", "conv2d_bias_relu", "conv2d_grouped")]
    verdicts = pool.verify_many([(task, Candidate(code=code)) for task, code in pairs])
    assert [verdict.detail for verdict in verdicts if not verdict.correct] == []


ME = (
    "class Twice(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
    "        ctx.save_for_backward(x)\n        return 2 * x\n\n"
)


@pytest.mark.parametrize(
    ("task", "mentions"),
    [
        (
            reference("return self.a(x)", "self.a = nn.Linear(n, n)", "torch.randn(M, 8, N)", given="N"),
            "tl.dot",
        ),
        (
            reference(
                "return self.a(x.flatten(2).transpose(1, 2))",
                "self.a = nn.Linear(n, n)",
                "torch.randn(2, N, M, 8)",
                given="N",
            ),
            "tl.dot",
        ),
        (
            reference(
                "return self.a(x)",
                "self.a = nn.Conv1d(n, n, 3, padding='same', dilation=2, groups=n)",
                "torch.randn(2, N, 32)",
                given="N",
            ),
            "a.weight",
        ),
        (reference("return x.tanh() * self.a", "self.a = (N // 2) ** -0.5"), "** -0.5"),
        (
            reference("return x.tanh() / math.sqrt(self.a)", "self.a = N // 2", before="import math\n\n"),
            "** 0.5",
        ),
        (reference("return Twice.apply(x).tanh()", before=ME), "tanh"),
        (reference("return x.t()"), "copy_kernel"),
        (reference("return x * k", inputs="torch.randn(M, N), 3", arguments="x, k"), "3.0"),
        (
            reference("return torch.cat([x.sum(1, keepdim=True), x.amax(1, keepdim=True)], 0)"),
            "out.view(-1)[m:]",
        ),
    ],
    ids=[
        "linear of three dimensions",
        "linear of a view",
        "depthwise",
        "scale",
        "root",
        "autograd function",
        "a view is copied",
        "number among the inputs",
        "part of a buffer",
    ],
)
def test_sizes_stay_symbols(compiler: Compiler, pool: VerifierPool, task: Task, mentions: str) -> None:
    compiler.seconds = 100
    found = compiler.module(task)
    assert found.code, found.reason
    assert mentions in found.code
    verdict = pool.verify(task, Candidate(code=found.code))
    assert verdict.correct, verdict.detail


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (reference("return torch.rand_like(x) + x"), "random: "),
        (reference("return x.relu_()"), "in-place input"),
        (reference("return x if x.sum() > 0 else -x"), "capture: "),
        (reference("return x[x > 0]"), "capture: "),
        (reference("return torch.linalg.qr(x)[0]"), "extern: "),
        (reference("return x.nonsense()"), "capture: "),
        (reference("return x + torch.tensor([0.5] * N)"), "constant tensor: "),
        (reference("while True: pass"), "timeout: "),
        (reference("import os; os._exit(3)"), "crash: status 3"),
    ],
    ids=lambda value: value.split(":")[0] if isinstance(value, str) else "",
)
def test_what_cannot_be_rewritten_is_named(compiler: Compiler, task: Task, reason: str) -> None:
    compiler.seconds = 2 if "timeout" in reason else 100
    found = compiler.module(task).reason
    assert found.startswith(reason), found


def test_the_tile_of_a_number_is_a_number() -> None:
    text = (
        "def k(x_ptr, test):\n    x = tl.load(x_ptr)\n    a = 0.0\n"
        "    b = tl.where(test, a, tl.zeros(a.shape, a.dtype))\n    tl.store(x_ptr, tl.where(test, b, x))\n"
    )
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    simplify(function, {"x_ptr": "float32"})
    assert "tl.where(test, 0.0, " in ast.unparse(function)
    assert "zeros" not in ast.unparse(function)


def test_a_roll_by_more_than_the_size_begins_within_it() -> None:
    text = "def k(x_ptr, out_ptr, n):\n    i = tl.arange(0, 8)\n    tl.store(out_ptr + i, tl.load(x_ptr + ((-3 + n) % n + i) % n))\n"
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    simplify(function, {"x_ptr": "float32", "out_ptr": "float32"})
    assert "(n - 3 % n) % n" in ast.unparse(function)
