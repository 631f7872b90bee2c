import torch
import torch.nn as nn

B = 8192
IN_FEATURES = 1024
OUT_FEATURES = 2048


class Model(nn.Module):
    """Linear layer with bias, y = x W^T + b."""

    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


def get_inputs():
    return [torch.randn(B, IN_FEATURES)]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES]
