# task: honest/tasks/embeddings_of_a_kind
# expect: correct
# max_speedup: 40
# why: loads behind a mask that is itself loaded: where nothing has a value no mask holds, so the price is put right by what programs
#      do on real values, and nobody is accused of a forged one
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(ids_ptr, kind_ptr, table_ptr, out_ptr, length, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for step in range(0, length):
        word = tl.load(ids_ptr + row * length + step)
        kept = tl.load(kind_ptr + row * length + step) == 2
        total += tl.load(table_ptr + word * cols + at, mask=kept & (at < cols), other=0.0)
    tl.store(out_ptr + row * cols + at, total, mask=at < cols)


class ModelNew(nn.Module):
    def __init__(self, words, cols):
        super().__init__()
        self.table = nn.Parameter(torch.randn(words, cols))

    def forward(self, ids, kinds):
        rows, length = ids.shape
        cols = self.table.shape[1]
        out = torch.empty((rows, cols), dtype=self.table.dtype, device=ids.device)
        kernel[(rows, triton.cdiv(cols, 128))](ids, kinds, self.table, out, length, cols, BLOCK=128)
        return out
