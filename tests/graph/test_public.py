"""Nodes in public torch code compute the same as the operators, without `torch.ops`."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from kernelwright.graph.capture import capture
from kernelwright.graph.execute import execute
from kernelwright.graph.partition import partition
from kernelwright.graph.stitch import stitch

IMAGE, ROWS, LABELS = torch.rand(2, 4, 6, 8), torch.randn(5, 7), torch.tensor([0, 3, 6, 1, -100])
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "cast": (lambda x: x.to(torch.bfloat16).float() + 1, (ROWS,)),
    "softmax": (lambda x: x.softmax(1) + F.log_softmax(x, 0), (ROWS,)),
    "slice": (lambda x: x[1:, 2:6:2] * 2, (ROWS,)),
    "index": (lambda x, i: x[:, i] + x[i].sum(), (ROWS, torch.tensor([2, 0, 3]))),
    "put": (
        lambda x, i: (x.index_copy(1, i, x[:, :3]), x.index_fill(1, i, 2.0), x.index_add(1, i, x[:, :3])),
        (ROWS, torch.tensor([2, 0, 3])),
    ),
    "batch norm": (lambda x, m, v: F.batch_norm(x, m, v), (IMAGE, torch.zeros(4), torch.ones(4))),
    "bags": (lambda x, w: F.embedding_bag(x, w, mode="mean") * 2, (torch.tensor([[0, 3], [2, 2]]), ROWS)),
    "padded bags": (
        lambda x, w: F.embedding_bag(x, w, padding_idx=2),
        (torch.tensor([[0, 3], [2, 2]]), ROWS),
    ),
    "cross entropy": (lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), (ROWS, LABELS)),
    "weighted": (lambda x, y, w: F.nll_loss(x, y, w, reduction="none"), (ROWS, LABELS, torch.rand(7))),
    "losses": (lambda x, y: F.mse_loss(x, y) + F.l1_loss(x, y, reduction="sum"), (ROWS, ROWS + 1)),
    "huber": (lambda x, y: F.huber_loss(x, y, delta=0.3) + F.smooth_l1_loss(x, y), (ROWS, ROWS + 1)),
    "logits": (lambda x, y: F.binary_cross_entropy_with_logits(x, y, pos_weight=y[0]), (ROWS, ROWS.abs())),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2.0) + 1, (IMAGE,)),
    "bilinear": (lambda x: F.interpolate(x, (9, 4), mode="bilinear", align_corners=True), (IMAGE,)),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic"), (IMAGE,)),
    "reflect": (lambda x: F.pad(x, (1, 2, 0, 3), mode="reflect"), (IMAGE,)),
    "replicate": (lambda x: F.pad(x, (1, 2, 0, 3), mode="replicate"), (IMAGE,)),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, (3, 2)), (IMAGE,)),
    "max pool": (lambda x: F.max_pool2d(x, 3, 2, 1), (IMAGE,)),
    "indices": (lambda x: F.max_pool2d(x, 2, return_indices=True), (IMAGE,)),
    "split": (lambda x: [one * 2 for one in x.split([3, 4], 1)] + list(x.chunk(2)), (ROWS,)),
    "two maxima": (lambda x, y: torch.max(x, y) + torch.min(x, y) + torch.max(x), (ROWS, -ROWS)),
    "prelu": (lambda x, w: F.prelu(x, w), (IMAGE, torch.rand(4))),
    "patches": (lambda x: F.unfold(x, 2, stride=2), (IMAGE,)),
    "norm": (lambda x: F.normalize(x, dim=-1) + torch.linalg.vector_norm(x, 1, keepdim=True), (ROWS,)),
    "elu": (lambda x: F.elu(x, 0.5) + F.logsigmoid(x) + F.glu(torch.cat([x, x]), 0)[0], (ROWS,)),
    "mask": (lambda x: x.masked_fill(x > 0, float("-inf")), (ROWS,)),
    "scatter": (lambda x, i: torch.zeros_like(x).scatter(1, i, x), (ROWS, torch.tensor([[1], [0]]))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_public_form_computes_what_the_operators_do(name: str) -> None:
    function, given = FUNCTIONS[name]
    graph = capture(function, given).graph
    text = stitch(partition(graph), {})
    assert "torch.ops" not in text
    made: dict[str, Any] = {}
    exec(text, made)
    torch.testing.assert_close(list(made["run"](*given)), list(execute(graph, given)), equal_nan=True)
