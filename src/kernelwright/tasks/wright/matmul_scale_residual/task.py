import torch
import torch.nn as nn

B = 8192
FEATURES = 1024


class Model(nn.Module):
    """Residual branch with layer scale: y = residual + scale * (x W), scale per feature."""

    def __init__(self, features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, features) * features**-0.5)
        self.scale = nn.Parameter(torch.rand(features))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return torch.matmul(x, self.weight) * self.scale + residual


def get_inputs():
    return [torch.randn(B, FEATURES), torch.randn(B, FEATURES)]


def get_init_inputs():
    return [FEATURES]
