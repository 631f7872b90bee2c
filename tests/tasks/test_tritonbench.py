"""TritonBench-T's form: how each call of a test becomes a task, on fake files in that form."""

import ast
import re
from pathlib import Path

import pytest
import torch

from kernelwright.errors import UserError
from kernelwright.records import Task
from kernelwright.tasks import load_suite, skipped_calls
from kernelwright.tasks.effects import REASONS
from kernelwright.tasks.redraw import Use, parse_literal_tensor, redrawn

RULE = "#" * 146

SCALE = """\
import torch

def scale(input, factor=1.0, out=None):
    return torch.mul(input, factor, out=out)
"""
SCALE_TEST = """\
import torch

def test_scale():
    results = {}

    # Test case 1
    a = torch.tensor([1.0, 4.0], device='cuda', requires_grad=True)
    results["test_case_1"] = scale(a)

    # Test case 2: an option by a name
    a = torch.randn(2, 3).cuda()
    factor, other = 2.5, 1
    results["test_case_2"] = scale(a, factor=factor).cpu()

    # Test case 3
    b = torch.empty(2, device='cuda')
    results["test_case_3"] = scale(torch.ones(2, device='cuda'), 2, out=b)
    return results

test_results = test_scale()
"""


def checkout(folder: Path, **files: tuple[str, str]) -> Path:
    home = folder / "data" / "TritonBench_T_v1"
    home.mkdir(parents=True, exist_ok=True)
    for name, (function, test) in files.items():
        (home / f"{name}.py").write_text(f"{function}\n{RULE}\n\n{test}")
    return folder


def of(folder: Path, function: str, *lines: str, head: str = "import torch") -> tuple[list[Task], list[str]]:
    """(tasks, reasons) of one function `f`, and a test with these lines."""
    test = "import torch\ndef test_f():\n    results = {}\n" + "".join(f"    {line}\n" for line in lines)
    spec = f"tritonbench:{checkout(folder, f=(f'{head}{chr(10)}{function}', test))}"
    try:
        tasks = load_suite(spec)
    except UserError:
        tasks = []
    return tasks, [one.reason for one in skipped_calls(spec)]


def run(task: Task) -> tuple[list, object]:
    namespace: dict = {"__name__": "reference"}
    exec(task.source, namespace)
    inputs = namespace["get_inputs"]()
    return inputs, namespace["Model"](*namespace["get_init_inputs"]())(*inputs)


def refused(spec: object) -> str:
    with pytest.raises(UserError) as caught:
        load_suite(str(spec))
    assert "\n" not in str(caught.value)
    return str(caught.value)


# the suite


def test_every_call_of_a_test_is_a_task_or_left_out_for_a_reason(tmp_path):
    spec = f"tritonbench:{checkout(tmp_path, scale=(SCALE, SCALE_TEST))}"
    assert [task.id for task in load_suite(spec)] == ["tritonbench/T/scale/1", "tritonbench/T/scale/2"]
    assert [(one.id, one.reason) for one in skipped_calls(spec)] == [("tritonbench/T/scale/3", "out")]
    assert skipped_calls("wright") == []


def test_a_task_is_the_function_as_it_is_and_a_model_that_calls_it_as_the_test_does(tmp_path):
    _, two = load_suite(f"tritonbench:{checkout(tmp_path, scale=(SCALE, SCALE_TEST))}")
    assert two.source == SCALE + (
        "\n\nclass Model(torch.nn.Module):\n    def forward(self, input):\n        return scale(input, factor=2.5)\n"
        "\n\ndef get_inputs():\n    a = torch.randn(2, 3)\n    return [a]\n"
        "\n\ndef get_init_inputs():\n    return []\n"
    )
    assert (two.suite, two.family, two.difficulty) == ("tritonbench/T", "elementwise", 1)


@pytest.mark.parametrize(
    ("tail", "ids"), [("", 3), ("/scale", 2), ("/scale,double", 3), ("/double/1", 1), ("/scale/1,2", 2)]
)
def test_functions_and_calls_are_chosen_by_name_and_number(tmp_path, tail, ids):
    double = SCALE.replace("scale", "double"), "def test_double():\n    x = double(torch.rand(3))\n"
    folder = checkout(tmp_path, scale=(SCALE, SCALE_TEST), double=double)
    assert len(load_suite(f"tritonbench:{folder}{tail}")) == ids
    assert len(load_suite(f"tritonbench:{folder}/data/TritonBench_T_v1{tail}")) == ids


def test_what_is_wrong_is_said(tmp_path):
    folder = checkout(tmp_path, scale=(SCALE, SCALE_TEST))
    assert "(did you mean scale?)" in refused(f"tritonbench:{folder}/scales")
    assert "no such folder" in refused("tritonbench:/nowhere/a/b/c/d")
    assert "no such folder" in refused("tritonbench:")
    assert "no function 'none'" in refused(f"tritonbench:{folder}/scale{',none' * 100}")
    assert "write 1 or 1,3" in refused(f"tritonbench:{folder}/scale/two")
    assert "the call only writes to `out`" in refused(f"tritonbench:{folder}/scale/3")
    home = folder / "data" / "TritonBench_T_v1"
    (home / "scale.py").write_text(SCALE)
    assert "no line of #" in refused(f"tritonbench:{folder}")
    (home / "scale.py").write_text(f"def scale(:\n{RULE}\n")
    assert "scale.py: not Python" in refused(f"tritonbench:{folder}")
    (home / "scale.py").write_text(f"import torch\n{RULE}\n")
    assert "no function" in refused(f"tritonbench:{folder}")
    (home / "scale.py").unlink()
    assert "no NAME.py files" in refused(f"tritonbench:{folder}")


def test_nothing_is_executed(tmp_path):
    function = "import torch\nraise SystemExit\ndef f(x):\n    return torch.abs(x)\n"
    tasks, _ = of(tmp_path, function, "exit()", "r = f(torch.rand(3))")
    assert len(tasks) == 1


# arguments


def test_an_input_is_made_by_the_statements_it_depends_on(tmp_path):
    (task,), _ = of(
        tmp_path,
        "def f(a, b, n):\n    return a @ b * n\n",
        "n = 3",
        "unrelated = torch.rand(9)",
        "a = torch.randn(n, n, device='cuda')",
        "a = a @ a.T + torch.eye(n, device='cuda')",
        "results['x'] = f(a, torch.rand(n, 2).to('cuda'), n)",
    )
    assert "forward(self, a, b):\n        return f(a, b, 3)" in task.source
    body = task.source.partition("get_inputs():\n")[2]
    assert body.startswith(
        "    a = torch.randn(3, 3)\n    a = a @ a.T + torch.eye(3)\n    return [a, torch.rand(3, 2)]\n"
    )


def test_the_value_at_the_call_counts(tmp_path):
    one, two = of(
        tmp_path,
        "def f(x, k):\n    return x * k\n",
        *("x = torch.rand(2)", "k = 2", "r = f(x, k)", "k = 3.5", "x = torch.rand(5)", "r = f(x, k=k)"),
    )[0]
    assert [part in one.source for part in ("f(x, 2)", "torch.rand(2)")] == [True, True]
    assert [part in two.source for part in ("f(x, k=3.5)", "torch.rand(5)")] == [True, True]


def test_the_tensors_of_a_list_are_an_input_each(tmp_path):
    (task,), _ = of(
        tmp_path,
        "def f(tensors, k):\n    return torch.hstack(tensors) * k\n",
        "first = torch.rand(2)",
        "many = [first, torch.ones(3, device='cuda')]",
        "r = f(many, 2)",
    )
    assert "forward(self, tensors_0, tensors_1):\n        return f([tensors_0, tensors_1], 2)" in task.source
    (first, second), output = run(task)
    assert (first.shape, second.shape, output.shape) == ((2,), (3,), (5,))


def test_an_argument_that_is_written_to_is_cloned(tmp_path):
    for number, (body, cloned) in enumerate(
        [
            ("y += x\n    return y", "f(x, y.clone())"),
            ("return y.add_(x)", "f(x, y.clone())"),
            ("return F.relu(x + y, inplace=True)", "f(x, y)"),
            ("return F.relu(y, inplace=True) + x", "f(x, y.clone())"),
            ("return F.batch_norm(x, y, y, training=True)", "f(x, y.clone())"),
            ("return F.batch_norm(x, y, y)", "f(x, y)"),
        ]
    ):
        (task,), _ = of(
            tmp_path / str(number),
            f"def f(x, y):\n    {body}\n",
            "r = f(torch.rand(4, 3), torch.rand(3))",
            head="import torch\nimport torch.nn.functional as F",
        )
        assert f"return {cloned}" in task.source


# inputs that vary


@pytest.mark.parametrize(
    ("text", "drawn"),
    [
        ("torch.tensor([1.0, 4.0])", "torch.rand(2) * 3.0 + 1.0"),
        ("torch.tensor([[-1.0, 0.0], [2.0, 1.0]])", "torch.rand(2, 2) * 3.0 - 1.0"),
        ("torch.tensor(3.0)", "torch.rand(()) * 1.5 + 1.5"),
        ("torch.tensor([-2.0, -2.0])", "torch.rand(2) - 2.0"),
        ("torch.tensor([1, 2], dtype=torch.float)", "torch.rand(2) + 1.0"),
        ("torch.tensor([0.5, 0], dtype=torch.float64)", "torch.rand(2, dtype=torch.float64) * 0.5"),
        ("torch.zeros((2, 3))", "torch.rand(2, 3)"),
        ("torch.ones(3)", "torch.rand(3) * 0.5 + 0.5"),
        ("torch.linspace(-5.0, 5.0, steps=10)", "torch.rand(10) * 10.0 - 5.0"),
        ("torch.arange(6.)", "torch.rand(6) * 5.0"),
        ("torch.tensor([2 * torch.pi, 0.0])", "torch.rand(2) * 6.28318531"),
        ("torch.tensor([i for i in range(1, 4)], dtype=torch.float32)", "torch.rand(3) * 2.0 + 1.0"),
        ("torch.tensor([[3, 1], [2, 7]])", "torch.randperm(16)[:4].reshape(2, 2) + 1"),
        ("torch.tensor([-1, 4], dtype=torch.int32)", "torch.randperm(8)[:2].to(torch.int32) - 1"),
        ("torch.tensor([1, 0, 1])", "torch.randint(0, 2, (3,))"),
        ("torch.tensor([5, 5])", "torch.randint(1, 11, (2,))"),
        ("torch.tensor(2, dtype=torch.int8)", "torch.randint(1, 5, (), dtype=torch.int8)"),
        ("torch.tensor([-5])", "torch.randint(-10, 0, (1,))"),
        ("torch.tensor([True, False])", "torch.rand(2) < 0.5"),
    ],
)
def test_tensors_written_out_are_drawn_anew(text, drawn):
    node = ast.parse(text, mode="eval").body
    found = parse_literal_tensor(node)
    assert redrawn(found, node, Use()) == ("", drawn)

    old, new = (eval(one, {"torch": torch}) for one in (text, drawn))
    assert (old.shape, old.dtype) == (new.shape, new.dtype)


@pytest.mark.parametrize(
    "text", ["torch.tensor(x)", "torch.zeros(n)", "torch.rand(3)", "zeros(3)", "torch.tensor([[1], 2])"]
)
def test_what_is_not_written_out_is_not(text):
    assert parse_literal_tensor(ast.parse(text, mode="eval").body) is None


def test_indices_stay_valid_and_labels_below_zero_change_places(tmp_path):
    (task,), _ = of(
        tmp_path,
        "def f(input, index, targets):\n    return input[index] + targets\n",
        "r = f(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 2, 1]), torch.tensor([[7, -100, 1]]))",
    )
    seen = set()
    for _ in range(20):
        (_, index, targets), _ = run(task)
        seen |= set(index.tolist())
        assert targets.shape == (1, 3)
        assert sorted(targets.flatten().tolist()) == [-100, 1, 7]
    assert seen == {0, 1, 2}


def test_a_mask_that_makes_a_size_keeps_its_count_and_compared_numbers_meet(tmp_path):
    head = "def f(x, mask):\n    return torch.{}(x, mask)\n"
    call = "r = f(torch.tensor([4, 5, 6]), torch.tensor([[True, False, True]]))"
    ((one,), _), ((two,), _) = (
        of(tmp_path / name, head.format(name), call) for name in ("masked_select", "eq")
    )
    assert "torch.tensor([[True, False, True]]).reshape(-1)[torch.randperm(3)].reshape(1, 3)" in one.source
    assert run(one)[1].shape == (2,)
    assert "torch.randint(4, 7, (3,))" in two.source


@pytest.mark.parametrize(
    "matrix",
    [
        "[[4.0, 1.0], [1.0, 3.0]]",
        "[[2.0, 0.0], [1.0, 1.0]]",
        "[[[4.0, 1.0], [1.0, 3.0]], [[2.0, 5.0], [0.0, 1.0]]]",
    ],
)
def test_a_matrix_to_be_solved_for_keeps_its_structure(tmp_path, matrix):
    (task,), _ = of(
        tmp_path,
        "def f(A):\n    return torch.linalg.inv(A)\n",
        f"A = torch.tensor({matrix}, device='cuda')",
        "r = f(A)",
    )
    old = torch.tensor(eval(matrix))
    (one,), _ = run(task)
    (two,), _ = run(task)
    assert not torch.equal(one, two)
    assert torch.equal(one == 0, old == 0)
    assert torch.equal(one == one.mT, old == old.mT)


def test_a_matrix_without_structure_is_drawn_freely(tmp_path):
    (task,), _ = of(
        tmp_path,
        "def f(A):\n    return torch.linalg.inv(A)\n",
        "r = f(torch.tensor([[4.0, 3.0], [6.0, 3.0]]))",
    )
    assert "torch.rand(2, 2) * 3.0 + 3.0" in task.source


def test_what_the_test_draws_stays_as_it_draws_it(tmp_path):
    (task,), _ = of(tmp_path, "def f(x):\n    return x + 1\n", "r = f(torch.rand(3) * 2 - torch.ones(3))")
    assert "return [torch.rand(3) * 2 - torch.ones(3)]" in task.source


# what is left out

SIMPLE = "def f(x, p=0.5, training=True, out=None):\n    return "


@pytest.mark.parametrize(
    ("reason", "body", "lines"),
    [
        ("no tensor", "torch.add(x, p)", ["r = f(2.0)"]),
        ("argument", "x(p)", ["net = Net().cuda()", "r = f(net)"]),
        ("no result", "torch.optim.SGD(x)", ["r = f([torch.rand(2)])"]),
        ("random", "torch.nn.functional.dropout(x, p=p, training=training)", ["r = f(torch.rand(2))"]),
        ("random", "x + torch.rand(2)", ["r = f(torch.rand(2))"]),
        ("out", "torch.abs(x, out=out)", ["y = torch.empty(2)", "r = f(torch.rand(2), out=y)"]),
        ("complex", "torch.abs(x)", ["r = f(torch.tensor([1.0 + 2.0j]))"]),
        ("complex", "torch.abs(x)", ["r = f(torch.rand(2, dtype=torch.complex64))"]),
        ("complex", "torch.fft.fft(x)", ["r = f(torch.rand(2))"]),
        ("domain", "torch.sqrt(x)", ["r = f(torch.tensor([-1.0, 4.0]))"]),
        ("domain", "x.log()", ["r = f(torch.tensor([-1.0, 4.0]))"]),
        ("domain", "torch.asin(x)", ["r = f(torch.tensor([1.5]))"]),
        ("empty", "torch.abs(x)", ["r = f(torch.tensor([]))"]),
        ("may raise", "torch.abs(x)", ["try:", "    r = f(torch.rand(2))", "except RuntimeError:", "    pass"]),
        ("needs a GPU", "torch.linalg.lu(x, pivot=False)[1]", ["r = f(torch.rand(2, 2))"]),
        ("unread", "torch.abs(x)", ["for i in range(2):", "    r = f(torch.rand(2))"]),
        ("unread", "torch.abs(x)", ["r = f(*given)"]),
    ],
)  # fmt: skip
def test_a_call_that_makes_no_oracle_is_left_out_by_name(tmp_path, reason, body, lines):
    assert reason in REASONS
    assert of(tmp_path, SIMPLE + body, *lines) == ([], [reason])


def test_factors_that_are_returned_are_not_unique_but_what_is_made_of_them_may_be(tmp_path):
    function = "def f(A):\n    U, S, V = torch.linalg.svd(A)\n    return {}\n"
    call = "r = f(torch.rand(3, 3))"
    assert of(tmp_path / "a", function.format("U, S, V"), call)[1] == ["not unique"]
    assert of(tmp_path / "b", function.format("U @ torch.diag(S) @ V"), call)[1] == []


def test_options_that_make_a_function_an_oracle_keep_it(tmp_path):
    body = "torch.nn.functional.dropout(x, p=p, training=training)"
    lines = [
        "r = f(torch.rand(2), training=False)",
        "r = f(torch.rand(2), p=0.0)",
        "r = f(torch.rand(2), 0.1)",
    ]
    tasks, reasons = of(tmp_path, SIMPLE + body, *lines)
    assert ([task.id[-1] for task in tasks], reasons) == (["1", "2"], ["random"])


def test_the_list_counts_what_is_left_out(tmp_path, capsys):
    from kernelwright.cli import main

    assert main(["tasks", "list", f"tritonbench:{checkout(tmp_path, scale=(SCALE, SCALE_TEST))}"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"\s1\s+the call only writes to `out`.*tritonbench/T/scale/3", shown)


# not to be trained on


def test_what_a_test_calls_is_kept_out_of_a_corpus(tmp_path):
    from kernelwright.data.contamination import Benchmarks

    known = Benchmarks.of([checkout(tmp_path, scale=(SCALE, SCALE_TEST))])
    assert known.uncaptured == []
    assert (
        {*known.files.values(), *known.singles.values()} >= {"tritonbench/T/scale/1"}
        if known.singles
        else known.files
    )


# under the judge

KERNEL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * FACTOR, mask=at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        scale_kernel[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), BLOCK=16)
        return out
"""


@pytest.mark.slow
def test_an_honest_kernel_is_accepted_and_one_with_other_options_is_not(tmp_path):
    from kernelwright.records import Candidate
    from kernelwright.tasks import small_shapes
    from kernelwright.verify import VerifierPool

    spec = f"tritonbench:{checkout(tmp_path, scale=(SCALE, SCALE_TEST))}"
    task = small_shapes(load_suite(f"{spec}/scale/2")[0])
    with VerifierPool(workers=1, backend="interpret", kept=True) as pool:
        said = [
            pool.verify(task, Candidate(code=KERNEL.replace("FACTOR", f))).outcome
            for f in ("2.5", "1.0", "0.0")
        ]
    assert [outcome.accepted for outcome in said] == [True, False, False]
