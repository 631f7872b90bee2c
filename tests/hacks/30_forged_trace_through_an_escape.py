# task: wright/relu
# cheat: 30, 32
# expect: forbidden_code, malformed_result, wrong_value, unwritten, timing_forged
# why: the harness's own module is found and its answers are edited on the way out
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)

def run_copy(x):
    out = torch.empty_like(x)
    n = x.numel()
    copy_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    return out

def edit(body):
    for tape in body.get("tapes", ()):
        for step in tape["operations"]:
            for launch in step.get("launches", ()):
                launch["arguments"]["junk"] = 5
    return body


match print:
    case object(__self__=found):
        service = found.__import__("kernelwright.verify.sandbox.service", fromlist=["x"])
        send = service.channel.send
        service.channel.send = lambda sock, body, tensors=None: send(sock, edit(body), tensors)


class ModelNew(nn.Module):
    def forward(self, x):
        return run_copy(x)
