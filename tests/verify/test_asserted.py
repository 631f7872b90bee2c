"""What ends a GPU's context is raised before it is launched; everything in range passes."""

import pytest
import torch
import torch.nn.functional as F

from kernelwright.verify.reference.asserted import Asserted

X, ROWS = torch.rand(4, 6), torch.tensor([0, 3, 1])
CALLS = {
    "gather": (lambda i: X.gather(0, i[:, None]), ROWS, torch.tensor([0, 4, 1])),
    "index_select": (lambda i: X.index_select(-1, i), ROWS, torch.tensor([6])),
    "scatter_add_": (lambda i: X.clone().scatter_add_(0, i[:, None], X[:3, :1]), ROWS, torch.tensor([0, 1, -1])),
    "index": (lambda i: X[:, i], torch.tensor([-6, 5]), torch.tensor([6])),
    "index after a mask": (lambda i: X[None][torch.ones(1, 4, dtype=torch.bool), i], ROWS[:1], torch.tensor([6])),
    "index_put_": (lambda i: X.clone().index_put_((i,), X[0]), ROWS, torch.tensor([-5])),
    "take": (lambda i: X.take(i), torch.tensor([-24, 23]), torch.tensor([24])),
    "index_fill_": (lambda i: X.clone().index_fill_(1, i, 0.0), torch.tensor([-6]), torch.tensor([6])),
    "embedding": (lambda i: F.embedding(i, X), ROWS, torch.tensor([4])),
    "nll_loss": (lambda i: F.nll_loss(X, i), torch.tensor([0, 5, -100, 2]), torch.tensor([0, 6, 1, 2])),
    "nll_loss of images": (lambda i: F.nll_loss(X[None, :, None], i[None, None]), torch.full((6,), 3), torch.full((6,), 4)),
    "binary_cross_entropy": (lambda x: F.binary_cross_entropy(x, X), X, X - 1),
    "binary_cross_entropy of NaN": (lambda x: F.binary_cross_entropy(x, X), X, X * float("nan")),
    "bernoulli": (torch.bernoulli, X, X + 1),
    "bernoulli_ over anything": (lambda p: torch.full((4, 6), 9.0).bernoulli_(p), X, X + 1),
    "repeat_interleave": (lambda i: torch.repeat_interleave(i), ROWS, -ROWS),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_what_is_out_of_range_raises_before_it_is_launched(name: str) -> None:
    call, fine, wrong = CALLS[name]
    with Asserted():
        call(fine)
        with pytest.raises((IndexError, ValueError), match="lies outside"):
            call(wrong)


def test_a_backward_pass_is_looked_at_too() -> None:
    weight = torch.rand(4, 6, requires_grad=True)
    with Asserted():
        F.embedding(ROWS, weight).sum().backward()
        with pytest.raises(IndexError):
            torch.ops.aten.embedding_dense_backward(X[:3], ROWS + 3, 4, -1, False)
    assert weight.grad is not None
