"""How published kernels are bound to their references: arguments of `kernel_function`, and parts of the file that are kept."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from published import table, wrapped

REFERENCE = """
class Model(nn.Module):
    def __init__(self, rows, factor=2.0):
        super(Model, self).__init__()
        self.linear = nn.Linear(rows, rows)
        self.factor = factor
        self.shift = nn.Parameter(torch.randn(rows))

    def forward(self, x):
        return self.linear(x) * self.factor + self.shift
"""


def call(kernel: str) -> str:
    """The last line of the wrapped kernel."""
    return wrapped(REFERENCE, kernel).rstrip().splitlines()[-1].strip()


def test_arguments_are_found_by_name_and_weights_by_order() -> None:
    assert call("def kernel_function(x, w, b, shift, factor=1.0): ...") == (
        "return kernel_function(x, w=weights[0] if len(weights) > 0 else None, b=weights[1] if len(weights) > 1 else None, "
        "shift=weights[2] if len(weights) > 2 else None, factor=self._given['factor'])"
    )
    assert call("def kernel_function(*args): ...") == (
        "return kernel_function(x, *weights, self._given['factor'])"
    )


def test_what_only_a_files_own_test_runs_is_left_out() -> None:
    kernel = (
        "import sys\nK = 1\n\ndef used():\n    return K\n\ndef kernel_function(x):\n    return used()\n\n"
    )
    made = wrapped(
        REFERENCE, kernel + "def run():\n    sys.exit(0)\n\nif __name__ == '__main__':\n    run()\n"
    )
    assert "def used" in made
    assert "sys.exit" not in made
    assert "def __init__(self, rows, factor=2.0)" in made


def test_a_kernel_counts_by_the_precision_that_accepts_it_or_says_most() -> None:
    rows = [
        {"name": name, "precision": precision, "outcome": outcome, "detail": ""}
        for name, precision, outcome in [
            ("a", "bf16", "runtime_error"),
            ("a", "default", "correct"),
            ("b", "bf16", "wrong_value"),
            ("b", "default", "runtime_error"),
        ]
    ]
    assert table(rows).splitlines() == [
        "correct                a in default: ",
        "wrong_value            b in bf16: ",
        "2: {'correct': 1, 'wrong_value': 1}",
    ]
