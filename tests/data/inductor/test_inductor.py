"""The Inductor teacher: modules stand alone, serve all shapes, hold their plan; what cannot be rewritten is named."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelwright import tasks
from kernelwright.data import plans
from kernelwright.data.inductor import Lesson, Skipped, Workers, draft, teach
from kernelwright.data.inductor.reasons import KINDS
from kernelwright.data.inductor.simplify import simplify
from kernelwright.records import Candidate, Example, Task, read_jsonl
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
def workers() -> Iterator[Workers]:
    with Workers(seconds=100) as opened:
        yield opened


@pytest.fixture(scope="module")
def pool() -> Iterator[VerifierPool]:
    with VerifierPool(1, backend="interpret", deadline_s=200) as opened:
        yield opened


def taught(workers: Workers, name: str) -> Example:
    task = tasks.load_suite(f"wright/{name}")[0]
    found = draft(task, workers.teach(task))
    assert isinstance(found, Example), found
    return found


def test_a_module_imports_torch_and_triton_only(workers: Workers) -> None:
    code = taught(workers, "layernorm").code
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


def test_sizes_are_read_off_shapes(workers: Workers) -> None:
    code = taught(workers, "softmax_rows").code
    assert "x.shape" in code
    assert "4096" not in code


def test_plans_hold(workers: Workers) -> None:
    example = taught(workers, "linear_bias")
    assert plans.is_true(example.plan, example.code)
    assert "BLOCK_M" in example.plan


def test_modules_are_right(workers: Workers, pool: VerifierPool) -> None:
    examples = [taught(workers, name) for name in ("softmax_rows", "conv2d_bias_relu")]
    verdicts = pool.verify_many([(item.task, Candidate(code=item.code)) for item in examples])
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
            "self.a.weight",
        ),
        (reference("return x.tanh() * self.a", "self.a = (N // 2) ** -0.5"), "** -0.5"),
        (
            reference("return x.tanh() / math.sqrt(self.a)", "self.a = N // 2", before="import math\n\n"),
            "** 0.5",
        ),
        (reference("return Twice.apply(x).tanh()", before=ME), "tanh"),
        (
            reference("return torch.cat([x.sum(1, keepdim=True), x.amax(1, keepdim=True)], 0)"),
            "out.view(-1)[M:]",
        ),
    ],
    ids=[
        "linear of three dimensions",
        "linear of a view",
        "depthwise",
        "scale",
        "root",
        "autograd function",
        "part of a buffer",
    ],
)
def test_sizes_stay_symbols(workers: Workers, pool: VerifierPool, task: Task, mentions: str) -> None:
    workers.seconds = 100
    found = draft(task, workers.teach(task))
    assert isinstance(found, Example), found
    assert mentions in found.code
    verdict = pool.verify(task, Candidate(code=found.code))
    assert verdict.correct, verdict.detail


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (reference("return torch.rand_like(x) + x"), "random: "),
        (reference("return x.relu_()"), "in-place input"),
        (reference("return x if x.sum() > 0 else -x"), "data-dependent: "),
        (reference("return x[x > 0]"), "data-dependent: "),
        (reference("return x * k", inputs="torch.randn(M, N), 3", arguments="x, k"), "non-tensor input: int"),
        (reference("return torch.linalg.qr(x)[0]"), "extern: "),
        (reference("return x.nonsense()"), "inductor: AttributeError"),
        (reference("return x + torch.tensor([0.5] * N)"), "constant tensor: more than 64 elements"),
        (reference("return x.t()"), "unsupported: no kernel"),
        (reference("while True: pass"), "timeout: "),
        (reference("import os; os._exit(3)"), "crash: status 3"),
    ],
    ids=lambda value: value.split(":")[0] if isinstance(value, str) else "",
)
def test_what_cannot_be_rewritten_is_named(workers: Workers, task: Task, reason: str) -> None:
    workers.seconds = 2 if "timeout" in reason else 100
    found = workers.teach(task).reason
    assert found.startswith(reason), found
    assert found.split(":")[0] in KINDS


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


def test_rubbish_makes_no_example() -> None:
    task = reference("return x")
    assert isinstance(draft(task, Lesson(reason="rubbish: not_triton")), Skipped)


class Counting:
    """Stands in for the helper: the second task fails, and it can break down."""

    def __init__(self, most: int) -> None:
        self.calls, self.most = 0, most

    def teach(self, task: Task) -> Lesson:
        if self.calls >= self.most:
            raise KeyboardInterrupt
        self.calls += 1
        return Lesson(reason="extern: aten.mm") if task.id.endswith("1") else Lesson(code="x = 1", graph="g")


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path) -> None:
    suite = [reference("return x").model_copy(update={"id": f"t/{number}"}) for number in range(4)]
    out = tmp_path / "drafts.jsonl"
    with pytest.raises(KeyboardInterrupt):
        teach(suite, out, Counting(2))  # type: ignore[arg-type]
    second = Counting(9)
    ended = teach(suite, out, second)  # type: ignore[arg-type]
    assert second.calls == 2
    assert ended == {"rewritten": 3, "extern: aten.mm": 1}
    assert [example.task.id for example in read_jsonl(out, Example)] == ["t/0", "t/2", "t/3"]
    skipped = list(read_jsonl(tmp_path / "drafts.skipped.jsonl", Skipped))
    assert [(item.task.id, item.reason) for item in skipped] == [("t/1", "extern: aten.mm")]
