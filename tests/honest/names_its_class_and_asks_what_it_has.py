# task: wright/relu
# expect: correct
# why: a name by the object's own class, attributes that a first call sets, public ones that nobody sets
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.maximum(tl.load(x_ptr + at, mask=at < n), 0.0), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.called = f"{type(self).__name__} of {self.__class__.__name__}"

    def _block(self, n):
        for name in ("_small", "_large"):
            if not hasattr(self, name):
                setattr(self, name, 256 if name == "_small" else getattr(self, "width", 1024))
        return self._small if n < 1024 else self._large

    def forward(self, x):
        if not isinstance(self, ModelNew) or not self.called:
            raise TypeError(self.called)
        if getattr(self, "_kept", None) is None:
            self._kept = x.numel()
        out = torch.empty_like(x)
        n = x.numel()
        block = self._block(n)
        relu_kernel[(triton.cdiv(n, block),)](x, out, n, BLOCK=block)
        return out
