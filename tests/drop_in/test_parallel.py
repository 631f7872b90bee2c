"""Two processes with DistributedDataParallel around a drop-in: kernels without gradients, the original module with them."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys, os
sys.path.insert(0, {tests!r})
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from drop_in.making import Block, counted, made

rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:{port}", rank=rank, world_size=2)
torch.manual_seed(0)
module, x = Block(), torch.randn(4, 8)
fast = made(module, x)
runs = counted(fast)
wrapped = DistributedDataParallel(fast)
with torch.no_grad():
    torch.testing.assert_close(wrapped(x), module(x))
assert len(runs) == 1, runs
wrapped(x + rank).sum().backward()
mine = module.proj.weight.grad.clone()
dist.all_reduce(mine)
torch.testing.assert_close(mine / 2, module.proj.weight.grad)
assert len(runs) == 1, runs
dist.destroy_process_group()
print("done")
"""


@pytest.mark.slow
def test_two_processes_share_gradients_through_a_drop_in() -> None:
    import os

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = CODE.format(tests=str(Path(__file__).parents[1]), port=port)
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code, str(rank)],
            env={**os.environ, "TRITON_INTERPRET": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for one in running:
        out, err = one.communicate(timeout=120)
        assert out.strip().endswith("done"), err[-2000:]
