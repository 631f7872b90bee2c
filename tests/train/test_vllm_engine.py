"""vLLM itself, colocated on the CPU: two stages of a tiny Qwen3 with random weights. Needs vLLM (its CPU build: `vllm-cpu`)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from fakes import ReadJudge, task
from test_together import free_port
from tiny import make_recipe

from kernelwright.policy import load_policy
from kernelwright.prompts import render
from kernelwright.runs import RunFolder
from kernelwright.train import train
from kernelwright.train.checkpoints import save_model
from kernelwright.train.model import load_tokenizer, new_model


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
        # vLLM computes in bfloat16, training in float32. Weights of the previous step would differ by 0.03.
        assert 0 <= line["mismatch_kl"] < 0.005
        assert 0 <= line["masked_share"] < 0.5
        assert line["tokens"] > 0
        print(line["stage"], line["step"], line["mismatch_kl"], line["masked_share"], line["seconds"])


@pytest.mark.slow
def test_a_server_of_a_tiny_model_answers(data: Path, tmp_path: Path) -> None:
    """Generation only: TRL sends weights to a server by NCCL, which a CPU lacks."""
    pytest.importorskip("vllm")
    tokenizer = load_tokenizer(str(data / "tokenizer"))
    sizes = {"hidden_size": 64, "heads": 2, "kv_heads": 2, "head_dim": 32}
    folder = save_model(
        new_model(make_recipe(data, model=sizes).model, tokenizer, 0), tokenizer, tmp_path / "m"
    )
    (tmp_path / "chat.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    port = free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)]
    command += ["--served-model-name", "tiny", "--port", str(port), "--host", "127.0.0.1"]
    command += ["--max-model-len", "256", "--chat-template", str(tmp_path / "chat.jinja")]
    server = subprocess.Popen(
        command, env={**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    )
    try:
        for _ in range(280):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
                break
            except (urllib.error.URLError, OSError):
                assert server.poll() is None, "the server ended"
                time.sleep(1)
        policy = load_policy(f"openai:http://127.0.0.1:{port}/v1#tiny")
        prompt = render("frontend", task("a"), style="compact", max_tokens=16)
        [answers] = policy.generate([prompt], 2)
        assert len(answers) == 2
        assert all(one.finish_reason in ("stop", "length") for one in answers)
    finally:
        server.terminate()
        server.wait(timeout=60)
