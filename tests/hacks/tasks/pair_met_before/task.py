"""Where the last two tokens stood side by side before; -1 if nowhere."""

import torch
import torch.nn as nn

B = 512
T = 512


class Model(nn.Module):
    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        place = torch.arange(ids.shape[1] - 2, device=ids.device)
        same = (ids[:, :-2] == ids[:, -2:-1]) & (ids[:, 1:-1] == ids[:, -1:])
        return torch.where(same, place, -1).amax(1)


def get_inputs():
    return [torch.randint(0, 32, (B, T))]


def get_init_inputs():
    return []
