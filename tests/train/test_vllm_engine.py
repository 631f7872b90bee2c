"""vLLM itself, colocated on the CPU: two stages of a tiny Qwen3 of random weights. Needs vLLM (its CPU build: `vllm-cpu`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import ReadJudge
from tiny import make_recipe

from kernelwright.runs import RunFolder
from kernelwright.train import train


@pytest.mark.slow
@pytest.mark.parametrize("correction", ["sequence_mask", "geometric_mask"])
def test_two_stages_of_a_tiny_model_colocated(
    data: Path, tmp_path: Path, correction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("vllm")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    rl = {
        "steps": 2,
        "prompts": 2,
        "samples": 4,
        "save_every": 2,
        "updates": 1,
        "epochs": 1,
        "max_tokens": 32,
    }
    recipe = make_recipe(
        data,
        stages=["sft", "frontend", "midend"],
        model={"hidden_size": 64, "heads": 2, "kv_heads": 2, "head_dim": 32},
        sft={"steps": 12, "save_every": 12, "eval_every": 0, "log_every": 12},
        frontend=rl,
        midend=rl,
        generation={"engine": "vllm-colocate", "correction": correction},
    )
    train(recipe, tmp_path / "run", verifier=ReadJudge(), quiet=True)
    lines = [line for line in RunFolder(tmp_path / "run").lines("curves.jsonl") if line["stage"] != "sft"]
    assert [(line["stage"], line["step"]) for line in lines] == [
        ("frontend", 1), ("frontend", 2), ("midend", 1), ("midend", 2),
    ]  # fmt: skip
    for line in lines:
        # vLLM computes in bfloat16 what is trained in float32 here.
        assert 0 <= line["mismatch_kl"] < 0.2
        assert 0 <= line["masked_share"] < 0.5
        assert line["tokens"] > 0
        print(line["stage"], line["step"], line["mismatch_kl"], line["masked_share"], line["seconds"])
