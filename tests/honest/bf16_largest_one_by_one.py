# task: honest/tasks/largest_of_rows
# precision: bf16
# expect: correct
# why: of equal elements it names the first, where torch names any
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def topk_kernel(x_ptr, values_ptr, places_ptr, cols, BLOCK: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf")).to(tl.float32)
    for number in tl.static_range(K):
        best, place = tl.max(x, axis=0, return_indices=True)
        tl.store(values_ptr + row * K + number, best.to(values_ptr.dtype.element_ty))
        tl.store(places_ptr + row * K + number, place.to(tl.int64))
        x = tl.where(at == place, -float("inf"), x)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        values = torch.empty(rows, 4, device=x.device, dtype=x.dtype)
        places = torch.empty(rows, 4, device=x.device, dtype=torch.int64)
        topk_kernel[(rows,)](x, values, places, cols, BLOCK=triton.next_power_of_2(cols), K=4)
        return values, places
