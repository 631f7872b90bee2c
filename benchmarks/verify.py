"""Compares our judge with KernelBench's own evaluator, on the same kernels, the same GPU, in one run.

    python benchmarks/verify.py --kernelbench PATH [--ids 1,19,36,40,47] [--repeat 8] [--workers 8] [--skip-peer]

The peer judges as its authors run it: a new process per kernel, 5 correctness and 100 timing trials. Ours
judges under `strict`, with all gates, timing until its interval is within 1 %. Each of our repeats has a unique source
(kernels renamed), so that no binary is cached; the task's expected outputs are cached after
the first pass, which is reported separately.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path

from kernelwright import tasks
from kernelwright.records import Candidate
from kernelwright.verify import VerifierPool

KERNELS = Path(__file__).parent / "kernelbench"
PEER = """
import importlib.util, json, sys, time, types
for name, member in (("dotenv", "load_dotenv"), ("openai", "OpenAI"), ("litellm", "completion")):
    if importlib.util.find_spec(name) is None:  # imported by its utilities, not used by its evaluator
        sys.modules[name] = types.ModuleType(name)
        setattr(sys.modules[name], member, lambda *args, **kwargs: None)
start = time.perf_counter()
sys.path.insert(0, sys.argv[1])
import torch
from kernelbench.eval import eval_kernel_against_ref
found = eval_kernel_against_ref(
    open(sys.argv[2]).read(), open(sys.argv[3]).read(), measure_performance=True, num_correct_trials=5,
    num_perf_trials=100, backend="triton", precision=torch.float32, check_for_excessive_speedup=False)
print("PEER" + json.dumps({"seconds": time.perf_counter() - start, "correct": bool(found and found.correctness),
      "ms": getattr(found, "runtime", None), "ref_ms": getattr(found, "ref_runtime", None)}))
"""


def renamed(code: str, suffix: str) -> str:
    """The same kernels under other names."""
    for name in re.findall(r"^def (\w+)", code, re.MULTILINE):
        code = re.sub(rf"\b{name}\b", f"{name}_{suffix}", code)
    return code


def peer(root: Path, source: Path, kernel: Path) -> dict:
    """Judge one kernel with the peer's evaluator, in a process of its own."""
    command = [sys.executable, "-c", PEER, str(root / "src"), str(source), str(kernel)]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    line = next((text for text in done.stdout.splitlines() if text.startswith("PEER")), "")
    if not line:
        return {"error": done.stderr[-600:] or done.stdout[-600:], "wall": time.perf_counter() - start}
    return json.loads(line[4:]) | {"wall": time.perf_counter() - start}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernelbench", type=Path, required=True)
    parser.add_argument("--ids", default="1,19,36,40,47")
    parser.add_argument("--repeat", type=int, default=8)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--skip-peer", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    ids = [int(text) for text in args.ids.split(",")]
    suite = tasks.load_suite(f"kernelbench:{args.kernelbench}/level1/{args.ids}")
    by_id = {int(task.id.split("/")[-1].split("_")[0]): tasks.small_shapes(task) for task in suite}
    code = {number: (KERNELS / f"{number}.py").read_text() for number in ids}
    facts: dict = {}
    with VerifierPool(args.workers, "cuda", deadline_s=120.0) as pool:
        for name, count in (("first pass", 1), ("at full concurrency", args.repeat)):
            pairs = [
                (by_id[number], Candidate(code=renamed(code[number], f"{name[0]}{repeat}")))
                for repeat in range(count)
                for number in ids
            ]
            start = time.perf_counter()
            verdicts = pool.verify_many(pairs)
            seconds = (time.perf_counter() - start) / len(pairs)
            print(f"ours, {name}: {len(pairs)} kernels, {seconds:.3f} s a kernel", flush=True)
            facts[name] = {"kernels": len(pairs), "seconds": seconds}
            for verdict in verdicts[: len(ids)]:
                times = verdict.timing
                shown = (
                    ""
                    if times is None
                    else f"{times.candidate_ms:.4f} ms, eager {times.baseline_ms['eager']:.4f} ms"
                )
                gates = {str(gate): round(s, 2) for gate, s in verdict.evidence.seconds.items()}
                print(
                    f"  {verdict.task_id}: {verdict.outcome} {shown} {gates} {verdict.detail[:200]}",
                    flush=True,
                )
            facts[name]["outcomes"] = [str(verdict.outcome) for verdict in verdicts]
    if not args.skip_peer:
        facts["peer"] = []
        for number in ids:
            (source,) = (args.kernelbench / "KernelBench" / "level1").glob(f"{number}_*.py")
            found = peer(args.kernelbench, source, KERNELS / f"{number}.py")
            facts["peer"].append(found)
            print(f"peer {number}: {found}", flush=True)
        mean = sum(item["wall"] for item in facts["peer"]) / len(ids)
        ratio = mean / facts["at full concurrency"]["seconds"]
        print(
            f"peer: {mean:.1f} s a kernel; ours: {facts['at full concurrency']['seconds']:.3f} s; ratio {ratio:.0f}"
        )
    if args.json:
        args.json.write_text(json.dumps(facts, indent=2))


if __name__ == "__main__":
    main()
