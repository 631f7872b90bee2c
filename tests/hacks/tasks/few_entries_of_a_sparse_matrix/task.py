"""A sparse matrix of few entries, whose entries lie row by row behind offsets, times a dense one."""

import torch
import torch.nn as nn

ROWS = 2048
ENTRIES = 16384
COLS = 2048
WIDTH = 128


class Model(nn.Module):
    def forward(
        self, indptr: torch.Tensor, indices: torch.Tensor, values: torch.Tensor, dense: torch.Tensor
    ) -> torch.Tensor:
        rows = torch.searchsorted(indptr, torch.arange(indices.shape[0], device=indices.device), right=True) - 1
        out = torch.zeros(indptr.shape[0] - 1, dense.shape[1], device=dense.device, dtype=dense.dtype)
        return out.index_add(0, rows, values[:, None] * dense[indices])


def get_inputs():
    cuts = torch.sort(torch.randint(0, ENTRIES + 1, (ROWS - 1,)))[0]
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), cuts, torch.full((1,), ENTRIES)])
    return [indptr, torch.randint(0, COLS, (ENTRIES,)), torch.randn(ENTRIES), torch.randn(COLS, WIDTH)]


def get_init_inputs():
    return []
