"""Inputs weighed by codes of 4 bits, eight to a word of 32; judged at one set of small sizes."""

import torch
import torch.nn as nn

ROWS = 8192
WORDS = 256


class Model(nn.Module):
    def __init__(self, words: int):
        super().__init__()
        self.register_buffer("words", torch.randint(0, 2**31 - 1, (words,), dtype=torch.int32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shifts = torch.arange(0, 32, 4, device=x.device, dtype=torch.int32)
        codes = (self.words[:, None] >> shifts) & 15
        return x * (codes.reshape(-1) - 8).to(x.dtype)


def get_inputs():
    return [torch.randn(ROWS, 8 * WORDS)]


def get_init_inputs():
    return [WORDS]
