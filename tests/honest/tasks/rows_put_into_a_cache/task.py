"""One row for each sequence goes into its cache at a place of its own; what the cache holds up to it is added up."""

import torch
import torch.nn as nn

BATCH, LENGTH, COLS = 64, 128, 64


class Model(nn.Module):
    def forward(self, new: torch.Tensor, cache: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        cache[torch.arange(len(new), device=new.device), places] = new
        seen = torch.arange(cache.shape[1], device=new.device) <= places[:, None]
        return (cache * seen[..., None]).sum(1)


def get_inputs():
    return [torch.randn(BATCH, COLS), torch.randn(BATCH, LENGTH, COLS), torch.randint(0, LENGTH, (BATCH,))]


def get_init_inputs():
    return []
