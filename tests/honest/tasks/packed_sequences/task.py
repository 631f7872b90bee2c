"""Mean of the rows of each packed sequence, and how many there are."""

import torch
import torch.nn as nn

SEQUENCES = 64
LENGTH = 128
COLS = 256


class Model(nn.Module):
    def forward(self, x: torch.Tensor, offsets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        count = (offsets[1:] - offsets[:-1]).clamp(min=1).to(x.dtype)
        row = torch.arange(x.shape[0], device=x.device)
        which = torch.bucketize(row, offsets[1:], right=True)
        total = torch.zeros(count.shape[0], x.shape[1], device=x.device, dtype=x.dtype).index_add(0, which, x)
        return total / count[:, None], count


def get_inputs():
    return [torch.randn(SEQUENCES * LENGTH, COLS), torch.arange(SEQUENCES + 1) * LENGTH]


def get_init_inputs():
    return []
