import torch
import torch.nn as nn
import torch.nn.functional as F

B = 8192
IN_FEATURES = 1024
OUT_FEATURES = 4096


class Model(nn.Module):
    """Linear layer followed by GELU (exact, with erf), in half precision."""

    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.linear(x))


def get_inputs():
    return [torch.randn(B, IN_FEATURES, dtype=torch.float16)]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES]
