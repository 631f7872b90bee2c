"""The last known (not NaN) number of each row; 0 if there is none."""

import torch
import torch.nn as nn

ROWS = 4096
COLS = 4096


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        place = torch.where(x.isnan(), -1, torch.arange(x.shape[1], device=x.device)).amax(1)
        found = x.gather(1, place.clamp(min=0)[:, None])[:, 0]
        return torch.where(place >= 0, found, 0.0)


def get_inputs():
    x = torch.randn(ROWS, COLS)
    return [torch.where(torch.rand(ROWS, COLS) < 0.4, float("nan"), x)]


def get_init_inputs():
    return []
