"""References as graphs: one text for many spellings, nothing where a reference cannot be traced."""

import textwrap

import pytest

from kernelwright.prompts import render
from kernelwright.records import Task
from kernelwright.tasks import load_suite, lowered


def task(body: str, inputs: str = "torch.rand(4, 8)", init: str = "", before: str = "") -> Task:
    source = (
        "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
        + before
        + "class Model(nn.Module):\n"
        + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
        + f"\n\ndef get_inputs():\n    return [{inputs}]\n\ndef get_init_inputs():\n    return [{init}]\n"
    )
    return Task(id="made/up", source=source)


MODULE = '''
def __init__(self, width: int, eps: float = 1e-5):
    """Says nothing."""
    super(Model, self).__init__()
    self.proj = nn.Linear(width, SIZE)
    self.act = torch.nn.ReLU()

def forward(self, x: torch.Tensor) -> torch.Tensor:
    """Nor does this."""
    return self.act(self.proj(x))
'''


def test_constructor_shapes_and_operators_are_said_and_nothing_else() -> None:
    assert lowered(task(MODULE, init="8", before="SIZE = 2 * 3\n")) == textwrap.dedent(
        """\
        class Model(nn.Module):
            def __init__(self, width, eps=1e-05):
                super().__init__()
                self.proj = nn.Linear(width, 6)
                self.act = nn.ReLU()
        init: 8
        x: [4, 8]
        self.proj.weight: [6, 8]
        self.proj.bias: [6]
        h1 = linear(x, self.proj.weight, self.proj.bias) -> [4, 6]
        h2 = relu(h1) -> [4, 6]
        return h2"""
    )


@pytest.mark.parametrize(
    "expression", ["torch.softmax(x, dim=-1)", "F.softmax(x, -1)", "x.softmax(-1)", "nn.Softmax(-1)(x)"]
)
def test_spellings_of_one_operator_are_one_text(expression: str) -> None:
    said = lowered(task(f"def forward(self, x):\n    return {expression}"))
    assert said == "x: [4, 8]\nh1 = softmax(x, -1) -> [4, 8]\nreturn h1"


@pytest.mark.parametrize(
    ("expressions", "said"),
    [
        (("x @ x.T", "x.mm(x.t())", "torch.matmul(x, x.permute(1, 0))"), "mm(x, h1)"),
        (("x.view(32)", "x.flatten()", "torch.reshape(x, (-1,))"), "reshape(x) -> [32]"),
        (("x.max(0)[0]", "x.amax(0)", "torch.max(x, dim=-2).values"), "amax(x, [0])"),
        (("x.sum(1, True)", "x.sum(dim=(-1,), keepdim=True)"), "sum(x, [-1], True)"),
        (("x[None] @ x.mT[None]", "torch.bmm(x[None], x.T[None])"), "bmm("),
    ],
)
def test_what_is_spelled_in_several_ways_is_settled(expressions: tuple[str, ...], said: str) -> None:
    texts = {lowered(task(f"def forward(self, x):\n    return {one}")) for one in expressions}
    assert len(texts) == 1
    assert said in texts.pop()


NUMBERS = """
def __init__(self, width, slope, low=-2, scale=0.5, dim=1):
    super().__init__()
    self.act, self.clip = nn.LeakyReLU(slope), nn.Hardtanh(low, max_val=scale)
    self.scale, self.dim = scale, dim

def forward(self, x):
    x = torch.min(self.clip(self.act(x)) * self.scale, torch.tensor(self.scale))
    return (x * (2 * self.scale)).sum(self.dim)
"""


def test_a_number_of_the_constructors_is_called_by_the_attribute_that_keeps_it() -> None:
    assert lowered(task(NUMBERS, init="8, 0.01")).splitlines()[-8:] == [
        "x: [4, 8]",
        "h1 = leaky_relu(x, self.act.negative_slope) -> [4, 8]",
        "h2 = clamp(h1, self.clip.min_val, self.scale) -> [4, 8]",
        "h3 = mul(h2, self.scale) -> [4, 8]",
        "h4 = minimum(h3, self.scale) -> [4, 8]",
        "h5 = mul(h4, 1.0) -> [4, 8]",
        "h6 = sum(h5, [-1]) -> [4]",
        "return h6",
    ]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("torch.sigmoid(x) * x", "silu(x)"),
        ("x * torch.tanh(F.softplus(x))", "mish(x)"),
        ("F.hardtanh(x)", "clamp(x, -1.0, 1.0)"),
        ("F.relu6(x)", "clamp(x, 0.0, 6.0)"),
        ("x.clamp_max(0.5)", "clamp(x, None, 0.5)"),
        ("F.adaptive_avg_pool1d(x, 1)", "mean(x, [-1], True)"),
        ("F.dropout(x, 0.5, training=False).relu()", "relu(x)"),
        ("x.reshape(8, 4).reshape(2, 16)", "reshape(x)"),
        ("x.reshape(8, 4).reshape(2, 16).reshape(32).exp()", "reshape(x)\nh2 = exp(h1)"),
        ("torch.multiply(x, 3)", "mul(x, 3)"),
        ("x.mean(-1) * torch.tanh(F.softplus(x.mean(-1)))", "mean(x, [-1])\nh2 = mish(h1)"),
        ("x.exp() + x.exp()", "exp(x)\nh2 = add(h1, h1)"),
        ("x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)", "rms_norm(x, [8], None, 1e-06)"),
        ("x / (x * x).mean(-1, True).add(1e-6).sqrt()", "rms_norm(x, [8], None, 1e-06)"),
        (
            "F.dropout(x) + F.dropout(x)",
            "dropout(x, 0.5, True)\nh2 = dropout(x, 0.5, True)\nh3 = add(h1, h2)",
        ),
    ],
)
def test_an_idiom_has_one_name(expression: str, said: str) -> None:
    lines = lowered(task(f"def forward(self, x):\n    return {expression}")).splitlines()
    assert [line.partition(" -> ")[0] for line in lines[1:-1]] == f"h1 = {said}".split("\n")
    assert lines[-1] == f"return h{len(lines) - 2}"


@pytest.mark.parametrize(
    "expression",
    [
        "(x.square().mean(-1, True) + 1e-6).rsqrt() * x.relu()",
        "(x.square().mean(-1, True) + 1e-6).sqrt() / x",
        "x * (x.square().mean(0, True) + 1e-6).rsqrt()",
        "x * (x.square().mean(-1, True) + x.sum()).rsqrt()",
        "x * (s := (x.square().mean(-1, True) + 1e-6).rsqrt()) + s",
        "(y := x.half()) * (y.square().mean(-1, True) + 1e-6).rsqrt()",
    ],
)
def test_what_is_no_rms_norm_is_not_called_one(expression: str) -> None:
    assert "rms_norm" not in lowered(task(f"def forward(self, x):\n    return {expression}"))


def test_an_rms_norm_that_is_written_out_has_its_scale() -> None:
    body = """
        def __init__(self):
            super().__init__()
            self.eps, self.gain, self.rate = 1e-6, nn.Parameter(torch.ones(8)), nn.Parameter(torch.ones(1))

        def forward(self, x):
            y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
            return F.gelu(y * %s)
        """
    scaled = lowered(task(body % "self.gain")).splitlines()
    assert scaled[-3:] == [
        "h1 = rms_norm(x, [8], self.gain, 1e-06) -> [4, 8]",
        "h2 = gelu(h1) -> [4, 8]",
        "return h2",
    ]
    assert "h2 = mul(h1, self.rate) -> [4, 8]" in lowered(task(body % "self.rate")).splitlines()
    assert "rms_norm" not in lowered(task((body % "self.gain").replace("+ self.eps", "+ self.rate")))


POOLS = """
def __init__(self, size):
    super().__init__()
    self.first, self.act = nn.MaxPool1d(size), nn.LeakyReLU(0.1)
    self.rest = nn.Sequential(nn.InstanceNorm1d(4), nn.AvgPool1d(2))

def forward(self, x):
    return F.max_pool1d(self.act(self.rest(self.first(x))), 1)
"""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x.mean((1, 2))", "mean(x, [1, -1]) -> [2] of 32 each"),
        ("x.sum()", "sum(x) -> [] of 64 each"),
        ("x.sum(-1)", "sum(x, [-1]) -> [2, 4]"),
        ("F.instance_norm(x)", "True) -> [2, 4, 8] of 8 each"),
        ("F.group_norm(x, 2)", "group_norm(x, 2) -> [2, 4, 8] of 16 each"),
        ("F.layer_norm(x, (4, 8))", "layer_norm(x, [4, 8]) -> [2, 4, 8] of 32 each"),
        ("x.mean((1, 2), keepdim=True).squeeze(-1)", "reshape(h1) -> [2, 1]"),
    ],
)
def test_what_takes_many_elements_together_says_how_many(expression: str, expected: str) -> None:
    made = task(f"def forward(self, x):\n    return {expression}", "torch.rand(2, 4, 8)")
    assert any(line.endswith(expected) for line in lowered(made).splitlines()), lowered(made)


def test_poolings_and_norms_without_weights_name_the_module_that_has_their_options() -> None:
    lines = lowered(task(POOLS, "torch.rand(2, 4, 32)", init="2")).splitlines()
    assert [line.partition(" -> ")[0] for line in lines if line.startswith("h")] == [
        "h1 = max_pool1d(x, [2], [2], self.first(kernel_size=2, stride=2, padding=0))",
        "h2 = instance_norm(h1, None, None, None, None, True, 0.1, 1e-05, True, self.rest.0)",
        "h3 = avg_pool1d(h2, [2], [2], self.rest.1(kernel_size=(2,), stride=(2,), padding=(0,)))",
        "h4 = leaky_relu(h3, 0.1)",
        "h5 = max_pool1d(h4, [1])",
    ]


def test_a_gate_that_something_else_reads_stays() -> None:
    said = lowered(task("def forward(self, x):\n    g = x.sigmoid()\n    return x * g + g"))
    assert "h2 = mul(x, h1)" in said


def test_parts_of_results_other_types_and_plain_values() -> None:
    body = "def forward(self, x, k):\n    most, place = torch.max(x, dim=1)\n    return most + k, place, x.argmin(0)"
    said = lowered(task(body, "torch.rand(4, 8, dtype=torch.float16), 3"))
    assert said.splitlines() == [
        "x: float16 [4, 8]",
        "k: 3",
        "h1 = max(x, -1) -> float16 [4]",
        "h2 = add(h1[0], 3) -> float16 [4]",
        "h3 = argmin(x, 0) -> int64 [8]",
        "return h2, h1[1], h3",
    ]


def test_no_memory_is_taken_and_no_counter_is_told() -> None:
    body = """
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(64)

    def forward(self, x):
        return self.norm(x)
    """
    said = lowered(task(body, "torch.rand(4096, 64, 4096, 4096)"))
    assert "batch_norm(x, self.norm.weight, self.norm.bias, self.norm.running_mean" in said
    assert "num_batches_tracked" not in said


@pytest.mark.parametrize(
    "expression",
    ["x if x.sum() > 0 else -x", "x.no_such_method()", "sum(x * i for i in range(500))"],
    ids=["depends on data", "raises", "too long"],
)
def test_what_cannot_be_lowered_is_shown_as_source(expression: str) -> None:
    odd = task(f"def forward(self, x):\n    return {expression}")
    assert lowered(odd) == ""
    assert odd.source.strip() in render("frontend", odd, style="lowered").messages[0].content


def test_what_was_kept_with_a_task_is_taken_and_is_no_part_of_its_identity() -> None:
    plain = task("def forward(self, x):\n    return x + 1")
    kept = plain.model_copy(update={"lowered": "x: [1]"})
    assert lowered(kept) == "x: [1]"
    assert kept.digest == plain.digest


def test_the_built_in_suite_is_lowered() -> None:
    silent = [one.id for one in load_suite("wright") if not lowered(one)]
    assert silent == []


NAMED_AS_VALUES = """
def __init__(self):
    super().__init__()
    self.h1, self.h2 = nn.Linear(8, 8), nn.Linear(8, 8)

def forward(self, x):
    return self.h2(F.dropout(self.h1(x), 0.0))
"""


def test_attributes_that_are_called_as_values_keep_their_names() -> None:
    lines = lowered(task(NAMED_AS_VALUES)).splitlines()
    assert lines[-3:-1] == [
        "h1 = linear(x, self.h1.weight, self.h1.bias) -> [4, 8]",
        "h2 = linear(h1, self.h2.weight, self.h2.bias) -> [4, 8]",
    ]


def test_inputs_that_are_called_as_values_are_shown_as_source() -> None:
    assert lowered(task("def forward(self, h1):\n    return h1 + 1")) == ""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("torch.special.expit(x)", "h1 = sigmoid(x) -> [4, 8]"),
        ("torch.special.erf(x)", "h1 = erf(x) -> [4, 8]"),
        ("torch.special.gammaln(x)", "h1 = lgamma(x) -> [4, 8]"),
        ("x / torch.sqrt(torch.tensor(2.0))", "h1 = div(x, 1.4142135) -> [4, 8]"),
        ("torch.maximum(x, torch.zeros_like(x))", "h1 = clamp(x, 0.0) -> [4, 8]"),
        ("torch.minimum(x, torch.ones_like(x))", "h1 = clamp(x, None, 1.0) -> [4, 8]"),
        ("torch.where(x > 0.5, x, torch.zeros_like(x))", "h2 = where(h1, x, 0.0) -> [4, 8]"),
        ("torch.sin(x + (torch.empty_like(x), torch.cos(x), 0.5)[2])", "h2 = sin(h1) -> [4, 8]"),
    ],
)
def test_numbers_are_computed_and_what_nobody_reads_is_left_out(expression: str, expected: str) -> None:
    text = lowered(task(f"def forward(self, x):\n    return {expression}"))
    assert expected in text.splitlines()
    assert text.splitlines()[-1] == f"return {expected.partition(' ')[0]}"


def test_a_tensor_of_zeros_that_gives_the_shape_stays() -> None:
    text = lowered(task("def forward(self, x):\n    return torch.zeros_like(x) + 1.0, x.sin()"))
    assert "h1 = zeros_like(x) -> [4, 8]" in text
