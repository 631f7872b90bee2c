"""Share of a training step in which the generator waits for verdicts, by staleness (how many steps ahead it may write).

    python benchmarks/idle.py [--staleness 0,1,2] [--steps 6] [--turns 1] [--base default] [--stage frontend] [--tiny] [KEY=VALUE]...

Continues a stage of recipes/default_model.toml from `--base`, a model folder: the front end on `data.tasks`, a corpus's practice
graphs, judged by values on the CPU cores of this machine; or the mid-end on `data.examples`, timed on the GPUs of `verify.devices`.
`--tiny` uses a model of 40 k random weights and a judge with `--workers` that takes `--seconds` per candidate: that
measures the order of events, not a machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from statistics import mean

from kernelwright import prompts
from kernelwright.config import Recipe, load_recipe, parse_recipe
from kernelwright.data.tokenizer import train_tokenizer
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Candidate, Task, Verdict, write_jsonl
from kernelwright.rollouts import Verifier
from kernelwright.runs import RunFolder
from kernelwright.tasks import load_suite
from kernelwright.train import train


class Slow:
    """A judge with random verdicts after a delay."""

    def __init__(self, workers: int, seconds: float) -> None:
        self.pool, self.seconds = ThreadPoolExecutor(workers), seconds

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        def judge() -> Verdict:
            time.sleep(self.seconds)
            known = Outcome.CORRECT if int(candidate.digest, 16) % 2 else Outcome.WRONG_VALUE
            return Verdict(task_id=task.id, outcome=known, gate=Gate.TIMING)

        return self.pool.submit(judge)


def recipe_of(args: argparse.Namespace, home: Path, staleness: int) -> Recipe:
    if args.tiny:
        write_jsonl(home / "tasks.jsonl", load_suite("wright"))
        texts = [task.source for task in load_suite("wright")] + [
            prompts.completion_text("a plan", "x = 1")
        ] * 8
        train_tokenizer(texts, 400, home / "tokenizer")
        return parse_recipe(
            {
                "name": "idle",
                "stages": ["frontend"],
                "threads": 1,
                "model": {
                    "hidden_size": 32,
                    "layers": 1,
                    "heads": 2,
                    "kv_heads": 1,
                    "head_dim": 16,
                    "context": 2048,
                },
                "data": {"tasks": str(home / "tasks.jsonl"), "tokenizer": str(home / "tokenizer")},
                "frontend": {
                    "reward": "autotriton",
                    "steps": args.steps,
                    "prompts": 8,
                    "samples": 4,
                    "max_tokens": 96,
                    "turns": args.turns,
                    "refill": args.refill,
                    "staleness": staleness,
                    "save_every": 999,
                },
                "verify": {"priced": False},
            }
        )
    stage = args.stage
    settings = [
        f'stages=["{stage}"]', "model.init=pretrained", f"model.base={args.base}",
        f"data.examples={home / 'none.jsonl'}", "data.tokenizer=", f"{stage}.steps={args.steps}", f"{stage}.staleness={staleness}",
        f"{stage}.turns={args.turns}", f"{stage}.refill={args.refill}", f"{stage}.save_every=999", *args.settings,
    ]  # fmt: skip
    return load_recipe(Path(__file__).parents[1] / "recipes" / "default_model.toml", settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--staleness", default="0,1,2")
    for name, default in (("steps", 6), ("turns", 1), ("refill", 0), ("workers", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--base", default="default")
    parser.add_argument("--stage", default="frontend", choices=("frontend", "midend"))
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("settings", nargs="*")
    args = parser.parse_args()
    print(
        f"{'staleness':>9}{'idle':>8}{'step s':>8}{'write s':>9}{'wait s':>8}{'update s':>10}{'right':>7}{'age':>6}{'verdicts/s':>12}{'steps':>7}"
    )
    for staleness in map(int, args.staleness.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            recipe = recipe_of(args, home, staleness)
            judge: Verifier | None = Slow(args.workers, args.seconds) if args.tiny else None
            train(recipe, home / "run", verifier=judge, quiet=True)
            # The first step has no rollouts written ahead, and waits for one-time compilation.
            lines = RunFolder(home / "run").lines("curves.jsonl")[1:]
        seconds = [line["seconds"] for line in lines]
        judged = sum(sum(line["outcomes"].values()) for line in lines)
        print(
            f"{staleness:9}{mean(line['idle_share'] for line in lines):8.0%}{mean(s['step'] for s in seconds):8.2f}"
            f"{mean(s['generate'] for s in seconds):9.2f}{mean(s['verify'] for s in seconds):8.2f}"
            f"{mean(s['update'] for s in seconds):10.2f}{mean(line['pass_rate'] or 0.0 for line in lines):7.0%}{mean(line.get('staleness', 0.0) for line in lines):6.2f}"
            f"{judged / sum(s['step'] for s in seconds):12.1f}{len(lines):7}"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
