# task: wright/relu
# expect: correct
# why: launch settings in a frozen dataclass and an enum
import dataclasses
import enum
import torch
import torch.nn as nn
import triton
import triton.language as tl

class Mode(enum.Enum):
    FLAT = 1
    ROWS = 2


@dataclasses.dataclass(frozen=True)
class Settings:
    block: int = 512
    warps: int = 4
    mode: Mode = Mode.FLAT

    def grid(self, n):
        return (triton.cdiv(n, self.block),)


@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.maximum(tl.load(x_ptr + i, mask=i < n), 0.0), mask=i < n)


class ModelNew(nn.Module):
    settings = Settings()

    def forward(self, x):
        s = self.settings
        out = torch.empty_like(x)
        if s.mode is Mode.FLAT:
            kernel[s.grid(x.numel())](x, out, x.numel(), BLOCK=s.block, num_warps=s.warps)
        return out
