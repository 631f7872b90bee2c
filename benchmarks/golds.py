"""Times every built-in gold against eager PyTorch and torch.compile on this machine's GPU, beside the cost model.

    python benchmarks/golds.py OUT.jsonl [suite-spec]

One line per task: milliseconds (median over CUDA-event timings with a flushed L2), largest error against the
reference, and the modelled milliseconds. The golds are ours and trusted: this is not the verifier's clock.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import torch
import triton.testing


def load(source: str, name: str) -> dict:
    """Execute a module's source from a file (Triton reads kernels back from it)."""
    path = Path(tempfile.mkdtemp()) / f"{name}.py"
    path.write_text(source)
    namespace: dict = {"__name__": name, "__file__": str(path)}
    exec(compile(source, str(path), "exec"), namespace)
    return namespace


def on_gpu(tree):
    if isinstance(tree, torch.Tensor):
        return tree.cuda()
    return [on_gpu(item) for item in tree] if isinstance(tree, (list, tuple)) else tree


def median_ms(call) -> float:
    return float(triton.testing.do_bench(call, warmup=10, rep=60, return_mode="median"))


def measure(task, code: str) -> dict:
    torch.manual_seed(0)
    reference = load(task.source, "reference")
    candidate = load(code, "candidate")
    torch.manual_seed(0)
    model = reference["Model"](*reference["get_init_inputs"]()).cuda()
    new = candidate["ModelNew"](*reference["get_init_inputs"]()).cuda()
    new.load_state_dict(model.state_dict(), strict=False)
    with torch.device("cuda"):
        inputs = on_gpu(reference["get_inputs"]())
    row = {"task": task.id, "family": task.family}
    with torch.no_grad():
        expected, got = model(*inputs), new(*inputs)
        error = (got.double() - expected.double()).abs().max().item()
        row["max_error"] = error
        row["scale"] = expected.double().abs().mean().item()
        del expected, got
        row["gold_ms"] = median_ms(lambda: new(*inputs))
        row["eager_ms"] = median_ms(lambda: model(*inputs))
        try:
            compiled = torch.compile(model)
            compiled(*inputs)
            row["compile_ms"] = median_ms(lambda: compiled(*inputs))
        except Exception as problem:
            row["compile_error"] = str(problem)[:200]
    return row


def modelled(tasks, codes) -> dict[str, dict]:
    """Cost model's view of the same kernels: candidate, eager and compiled milliseconds."""
    from kernelwright.records import Candidate
    from kernelwright.verify import VerifierPool

    with VerifierPool(backend="interpret") as pool:
        verdicts = pool.verify_many(
            [(task, Candidate(code=code)) for task, code in zip(tasks, codes, strict=True)]
        )
    found = {}
    for verdict in verdicts:
        row = {
            "outcome": str(verdict.outcome),
            "detail": verdict.detail,
            "seconds": dict(verdict.evidence.seconds),
        }
        if verdict.timing is not None:
            row |= {
                "modelled_ms": verdict.timing.candidate_ms,
                "modelled_baselines": dict(verdict.timing.baseline_ms),
            }
        found[verdict.task_id] = row
    return found


def main(out: str, spec: str = "wright") -> None:
    from kernelwright.tasks import gold, load_suite

    tasks = load_suite(spec)
    codes = [gold(task.id) for task in tasks]
    start = time.time()
    model = modelled(tasks, codes)
    print(f"{len(tasks)} modelled verdicts in {time.time() - start:.1f} s", flush=True)
    with open(out, "w") as lines:
        for task, code in zip(tasks, codes, strict=True):
            try:
                row = measure(task, code)
            except Exception as problem:
                row = {"task": task.id, "error": f"{type(problem).__name__}: {problem}"[:300]}
            row |= model[task.id]
            lines.write(json.dumps(row) + "\n")
            lines.flush()
            print(
                {k: (round(v, 4) if isinstance(v, float) else v) for k, v in row.items() if k != "seconds"},
                flush=True,
            )
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main(*sys.argv[1:])
