"""Whether results depend on a reference's state: asked of all its tensors at once, and of one."""

import pytest
import torch

from kernelwright.verify.protocol import PROTOCOLS
from kernelwright.verify.reference.cases import make_case, steers


class Cyclic(torch.nn.Module):
    """Counts calls up to `most`, and multiplies by a count of its own if it `uses` that."""

    def __init__(self, most: int, uses: bool) -> None:
        super().__init__()
        self.most, self.uses = most, uses
        self.norm = torch.nn.BatchNorm1d(3)
        self.register_buffer("calls", torch.ones((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.norm(x) * (self.calls if self.uses else 1)
        self.calls.add_(1)
        if self.most:
            self.calls.remainder_(self.most)
        return made


COUNTS = ("norm.num_batches_tracked", "calls")


@pytest.mark.parametrize(
    ("most", "uses", "outputs", "state"),
    [(0, False, False, False), (3, False, False, True), (0, True, True, True)],
)
def test_tensors_of_a_state_are_asked_together(most: int, uses: bool, outputs: bool, state: bool) -> None:
    case = make_case("a case", Cyclic(most, uses), [torch.randn(5, 3)], PROTOCOLS["strict"])
    assert case is not None
    assert steers(case, (*COUNTS, "norm.running_mean", "norm.running_var"), outputs_alone=True) is outputs
    assert steers(case, COUNTS) is state
    assert not steers(case, COUNTS[:1])
    assert steers(case, COUNTS[1:]) is uses
