"""Writes a fake run folder with every kind of content, including hostile kernels."""

import json
import random
from pathlib import Path

from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import (
    Binary,
    Candidate,
    Completion,
    Cost,
    Evidence,
    Launch,
    Message,
    Mismatch,
    Prompt,
    Rollout,
    Timing,
    Verdict,
    write_jsonl,
)

HOSTILE = """import triton
# </code></pre></script><script>document.title = "pwned"; throw new Error("pwned")</script>
# <img src=x onerror="document.title='pwned'"> ]]> <!-- &lt; {{ 7 * 7 }} {% raw %}
class ModelNew: pass
"""
KERNEL = '''import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    """One row a program."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf"))
    x = tl.exp(x - tl.max(x, axis=0))  # stable
    tl.store(out_ptr + row * n_cols + cols, x / tl.sum(x, axis=0), mask=mask)
'''
GATES = {
    Outcome.NO_CODE: Gate.PARSE,
    Outcome.SYNTAX_ERROR: Gate.PARSE,
    Outcome.NOT_TRITON: Gate.STATIC,
    Outcome.INVALID_IMPORT: Gate.LOAD,
    Outcome.COMPILE_ERROR: Gate.COMPILE,
    Outcome.OUT_OF_BOUNDS: Gate.SMALL,
    Outcome.WRONG_VALUE: Gate.SMALL,
    Outcome.TORCH_COMPUTE: Gate.CAUSALITY,
    Outcome.TIMEOUT: Gate.SMALL,
    Outcome.UNSUPPORTED: Gate.SMALL,
    Outcome.CORRECT: Gate.TIMING,
}


def make_verdict(task_id: str, outcome: Outcome, speedup: float = 1.5) -> Verdict:
    timing, evidence, detail = None, Evidence(), f"the {outcome.value.replace('_', ' ')} of <{task_id}>"
    if outcome.compiled:
        evidence = Evidence(
            cases=48 if outcome.accepted else 7,
            worst_error=0.31 if outcome.accepted else 41.7,
            launches=(Launch(kernel="softmax_kernel", grid=(2048, 1, 1), constexprs={"BLOCK": "1024"}),),
            binaries=(
                Binary(
                    kernel="softmax_kernel",
                    target="sm_90",
                    registers=32,
                    spills=0,
                    shared_bytes=2048,
                    num_warps=4,
                    occupancy=0.75,
                ),
            ),
            cost=Cost(
                target="h200", bytes=3.3e7, l2_bytes=3.3e7, flops=8e6, launches=1, ms=0.011, roofline_ms=0.007
            ),
            reference_cost=Cost(
                target="h200", bytes=6.6e7, l2_bytes=7e7, flops=8e6, launches=4, ms=0.02, roofline_ms=0.007
            ),
            seconds={"compile": 0.2, "small_shapes": 0.4},
        )
    if outcome is Outcome.WRONG_VALUE:
        mismatch = Mismatch(output=0, index=(3, 17), got=0.25, expected=-1.125, allowed=1e-5, wrong_share=0.5)
        evidence = evidence.model_copy(update={"mismatch": mismatch, "where": "small_odd, x-1"})
    if outcome.accepted:
        detail = ""
        timing = Timing(
            kind="modelled",
            target="h200",
            candidate_ms=0.011,
            candidate_ci=(0.011, 0.011),
            baseline_ms={"eager": 0.011 * speedup, "compile": 0.012},
            speedup_ci={"eager": (speedup, speedup), "compile": (1.09, 1.09)},
            roofline_fraction=0.64,
            gb_s=3072.0,
            gflop_s=410.0,
        )
    return Verdict(
        task_id=task_id, outcome=outcome, gate=GATES[outcome], detail=detail, evidence=evidence, timing=timing
    )


def make_rollout(
    task_id: str, stage: str, outcome: Outcome, speedup: float = 1.5, code: str = KERNEL
) -> Rollout:
    no_code = outcome is Outcome.NO_CODE
    return Rollout(
        task_id=task_id,
        title="" if "softmax" in task_id else "linear+gelu 1024x8192x8192 bf16",
        dtype="float32" if "softmax" in task_id else "bfloat16",
        stage=stage,
        prompt=Prompt(
            task_id=task_id,
            agent="frontend",
            messages=(Message(role="user", content="Write a Triton kernel for </script> this."),),
            max_tokens=400,
        ),
        completion=Completion(text="I would rather not." if no_code else code, token_ids=tuple(range(240))),
        candidate=Candidate(problem=outcome, detail="no fence")
        if no_code
        else Candidate(plan="one program a row; BLOCK 1024; one pass", code=code),
        verdict=make_verdict(task_id, outcome, speedup),
        seconds={"generate": 0.1, "total": 0.5},
    )


def make_run(path: Path, tasks: int = 18, samples: int = 6, steps: int = 40) -> Path:
    """A laptop run as `train` and `eval` leave it: three stages that improve, with fake numbers."""
    rng = random.Random(0)
    families = (
        "softmax",
        "rms_norm",
        "matmul_bias_gelu",
        "depthwise_conv2d",
        "cumsum",
        "a_task_with_quite_a_long_name",
    )
    failures = [outcome for outcome in GATES if not outcome.accepted]
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(
        json.dumps({"name": "laptop", "seed": 0, "sft": {"steps": 100, "batch": 16}})
    )
    (path / "environment.json").write_text(
        json.dumps(
            {
                "kernelwright": "0.1.0",
                "versions": {"torch": "2.13.0", "triton": "3.9.0", "trl": "1.16.0"},
                "python": "3.11.7",
                "machine": {"system": "Linux-6.1-x86_64", "processor": "Some CPU @ 2.4 GHz", "cpus": 2},
                "command": "kernelwright train recipes/laptop.toml --out runs/laptop seed=0 frontend.steps=40",
                "time": "2026-01-01T00:00:00Z",
            }
        )
    )
    (path / "seconds.json").write_text(json.dumps({"sft": 61.5, "eval/sft": 20.0, "frontend": 95.0}))
    lines = []
    for number, (stage, rate) in enumerate((("sft", 0.3), ("frontend", 0.5), ("midend", 0.62))):
        rollouts = []
        for t in range(tasks):
            task_id = f"wright/{families[t % len(families)]}_{t}"
            for _ in range(samples):
                outcome = Outcome.CORRECT if rng.random() < rate else rng.choice(failures)
                speedup = 0.8 + number * 0.3 + rng.random() * 1.4
                rollouts.append(make_rollout(task_id, stage, outcome, speedup, HOSTILE if t == 0 else KERNEL))
        folder = path / "eval" / stage
        folder.mkdir(parents=True)
        write_jsonl(folder / "rollouts.jsonl", rollouts)
        if stage == "midend":
            own = {"samples": 65, "correct_rate": 0.8}
            gain = {"geometric_mean": 1.21, "ci": [1.1, 1.32], "improved": 0.45, "samples": 65}
            (folder / "metrics.json").write_text(json.dumps({"attempts": own, "gain": gain}))
        for step in range(steps):
            line = {"stage": stage, "step": step + 1, "loss": 3 / (1 + step) + rng.random() * 0.1}
            if stage != "sft":
                line |= {"loss": rng.random() * 0.02, "reward": rate + step / 99 + rng.random() * 0.3}
                line |= {"pass_rate": min(1.0, rate - 0.1 + step / 150 + rng.random() * 0.2)}
                line |= {"speedup": 1 + number * 0.2 + rng.random() * 0.3}
            lines.append(json.dumps(line))
    (path / "curves.jsonl").write_text("\n".join(lines) + "\n")
    return path
