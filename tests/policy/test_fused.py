"""The decoding kernels compute the same as torch, and compile for their GPUs."""

import copy
from pathlib import Path

import pytest
import torch
import triton
from interpreted import said
from transformers import Qwen3Config, Qwen3ForCausalLM

from kernelwright.hardware import target
from kernelwright.policy import hf
from kernelwright.policy.slots import Job, Slots

INTERPRETED = """
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM
from kernelwright.policy import fused, hf
from kernelwright.policy.slots import Job, Slots

torch.manual_seed(0)
torch.set_num_threads(1)

def said(model, fuse, rows):
    engine = Slots(model, rows, 128, 6, torch.float32)
    engine.fused = fuse
    uniform = torch.rand(5, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    jobs = [Job(i, tuple(j % 50 for j in range(3, 4 + 17 * i)), 6 - i % 3, uniform[i]) for i in range(5)]
    found = {}
    engine.run(jobs, (5,), lambda logits, u: hf.draw(logits, u, 0.9, 1.0),
               lambda key, ids, logprobs, reason: found.update({key: (ids, logprobs)}))
    return found

for heads, kv, dim in ((6, 2, 16), (2, 2, 32)):
    config = Qwen3Config(vocab_size=50, hidden_size=48, intermediate_size=40, num_hidden_layers=2, head_dim=dim,
                         num_attention_heads=heads, num_key_value_heads=kv, max_position_embeddings=256,
                         tie_word_embeddings=True)
    model = Qwen3ForCausalLM(config).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    plain, mine = (said(model, fuse, 3) for fuse in (False, True))
    for key, (ids, logprobs) in plain.items():
        assert mine[key][0] == ids, (heads, kv, key, ids, mine[key][0])
        torch.testing.assert_close(torch.tensor(mine[key][1]), torch.tensor(logprobs), rtol=1e-4, atol=1e-4)

logits, uniform = 4 * torch.randn(64, 50), torch.rand(64, dtype=torch.float64)
uniform[:2] = torch.tensor([0.0, 1.0 - 1e-16])
for temperature in (1.0, 0.6):
    one, two = hf.draw(logits, uniform, temperature, 1.0), fused.draw(logits, uniform, temperature)
    assert torch.equal(one[0], two[0])
    torch.testing.assert_close(one[1], two[1])
print("agreed")
"""


@pytest.mark.slow
@pytest.mark.skipif(triton.__version__ < "3.7", reason="its interpreter cannot end a loop at a loaded number")
def test_the_kernels_write_what_torch_writes() -> None:
    printed, wrong = said(INTERPRETED, timeout=300.0)
    assert printed == "agreed", wrong


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_kernels_compile_for_a_gpu(dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the default model's sizes."""
    from kernelwright.policy import fused
    from kernelwright.verify.gpu.device import _StandIn
    from kernelwright.verify.trace.stand_ins import pretend_torch_cuda
    from kernelwright.verify.trace.tape import View

    def given(kind: str) -> _StandIn:
        return _StandIn(View(0, 0, (64,), (1,), kind))

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    x = given(dtype)
    sizes = {"KV": 2, "GROUP": 3, "ROWS": 16, "DIM": 64, "BLOCK": 64, "num_warps": 4, "num_stages": 3}
    with pretend_torch_cuda(target("h200")):
        made = [
            fused._attend_kernel.warmup(*[x] * 6, given("int64"), x, 960, 1e-6, 0.125, **sizes, grid=(1,)),
            fused._add_norm_kernel.warmup(*[x] * 5, 1e-6, N=384, BLOCK=512, num_warps=2, grid=(1,)),
            fused._gate_kernel.warmup(x, x, N=1152, BLOCK=1024, num_warps=4, grid=(1,)),
            fused._draw_kernel.warmup(
                x,
                given("float64"),
                given("int64"),
                given("float32"),
                1.0,
                N=4096,
                BLOCK=4096,
                num_warps=8,
                grid=(1,),
            ),
        ]
    for kernel in made:
        assert "sm_90" in kernel.asm["ptx"]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_log_probs_on_a_gpu_are_the_models(dtype: torch.dtype) -> None:
    """Half precision is never exact: the kernels deviate from float32 no further than torch's own operations do."""
    config = Qwen3Config(
        vocab_size=300, hidden_size=128, intermediate_size=192, num_hidden_layers=3, head_dim=64,
        num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(config).to(dtype).cuda().eval()
    exact = copy.deepcopy(model).float()
    uniform = torch.rand(40, 200, dtype=torch.float64)
    jobs = [Job(i, tuple(range(2 + 5 * i)), 200, uniform[i]) for i in range(40)]
    strayed = {}
    for fuse in (True, False):
        engine = Slots(model, 16, 512, 200, dtype)
        assert engine.fused
        engine.fused = fuse
        found: dict[int, tuple[list[int], list[float]]] = {}
        engine.run(
            jobs,
            (5,),
            lambda logits, u: hf.draw(logits, u, 1.0, 1.0),
            lambda key, ids, logprobs, reason, found=found: found.update({key: (ids, logprobs)}),
        )
        errors = []
        for i, (ids, logprobs) in found.items():
            whole = torch.tensor([[*jobs[i].prompt, *ids]], device="cuda")
            with torch.no_grad():
                logits = exact(whole).logits[0, len(jobs[i].prompt) - 1 : -1].log_softmax(-1)
            own = logits.gather(1, whole[0, len(jobs[i].prompt) :, None])[:, 0].cpu()
            errors.append((own - torch.tensor(logprobs)).abs())
        strayed[fuse] = float(torch.cat(errors).square().mean().sqrt())
    assert strayed[True] < 1.2 * strayed[False] + 1e-4, strayed
