"""A state that leaks by a share between 0 and 1 at each step."""

import torch
import torch.nn as nn

ROWS = 256
STEPS = 256
COLS = 64


class Model(nn.Module):
    def forward(self, keep: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        state, made = torch.zeros_like(x[:, 0]), []
        for step in range(x.shape[1]):
            state = keep[:, step] * state + x[:, step]
            made.append(state)
        return torch.stack(made, dim=1)


def get_inputs():
    return [torch.rand(ROWS, STEPS, COLS), torch.randn(ROWS, STEPS, COLS)]


def get_init_inputs():
    return []
