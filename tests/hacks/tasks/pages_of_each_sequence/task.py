"""One new token of each sequence attends to earlier ones, which lie in pages that a table names, as many as its length says."""

import torch
import torch.nn as nn

SEQUENCES = 8
HEADS = 4
WIDTH = 64
PAGE = 16
PAGES = 16


class Model(nn.Module):
    def forward(
        self,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        table: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        k, v = keys[table].flatten(1, 2), values[table].flatten(1, 2)
        scores = torch.einsum("shd,sthd->sht", q, k) / q.shape[-1] ** 0.5
        beyond = torch.arange(k.shape[1], device=q.device) >= lengths[:, None]
        scores = scores.masked_fill(beyond[:, None], float("-inf"))
        return torch.einsum("sht,sthd->shd", scores.softmax(-1), v)


def get_inputs():
    pages = SEQUENCES * PAGES
    return [
        torch.randn(SEQUENCES, HEADS, WIDTH),
        torch.randn(pages, PAGE, HEADS, WIDTH),
        torch.randn(pages, PAGE, HEADS, WIDTH),
        torch.randperm(pages).reshape(SEQUENCES, PAGES),
        torch.randint(1, PAGES * PAGE + 1, (SEQUENCES,)),
    ]


def get_init_inputs():
    return []
