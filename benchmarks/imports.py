"""Imports pairs in the old form: counts how many are migrated, judged correct, and trained on.

    python benchmarks/imports.py [--pairs 200] [--steps 8] [--out DIR]

Inductor writes the Triton of small modules, `tests/data/old_form.py` reverts the later renames, and `data import`
reads the file as it would KernelBook's. The same rows are also judged unmigrated. SFT then takes a few steps
on the accepted ones: not to learn from them, only to count how many examples reach it. No GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "data"))

from old_form import modules, rows

from kernelwright import prompts
from kernelwright.cli.corpus import Steps
from kernelwright.config import parse_recipe
from kernelwright.data.importing import bring, draft, module_of
from kernelwright.data.tokenizer import train_tokenizer
from kernelwright.policy.compiler import Compiler
from kernelwright.records import Candidate, Example, read_jsonl
from kernelwright.verify import VerifierPool


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("runs/imports"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    source, accepted = args.out / "pairs.jsonl", args.out / "examples.jsonl"
    if not source.exists():
        with Compiler() as compiler:
            made = [json.dumps(row) for row in rows(modules(), compiler, args.pairs)]
        source.write_text("\n".join(made) + "\n", encoding="utf-8")
    with VerifierPool(2, backend="interpret") as pool, Steps() as steps:
        ended = bring(str(source), accepted, pool, progress=steps)
        given = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
        as_written = [
            pool.submit(made.task, Candidate(code=module_of(row["triton_code"], row["entry_point"])))
            for row in given
            if isinstance(made := draft(row, 0), Example)
        ]
        before = Counter(future.result().outcome.value for future in as_written)
    print(f"as written: {dict(before)}")
    print(f"imported:   {dict(ended)}")
    print(f"trained on: {trained_on(args.out, accepted, args.steps)} examples")


def trained_on(out: Path, accepted: Path, steps: int) -> int:
    """Run SFT of a very small model on them; returns the number of examples in its epochs."""
    from kernelwright.train import train
    from kernelwright.train.batches import training_rows
    from kernelwright.train.model import load_tokenizer

    examples = list(read_jsonl(accepted, Example))
    texts = [prompts.completion_text(one.plan, one.code) + one.task.source for one in examples]
    train_tokenizer(texts, 2048, out / "tokenizer")
    recipe = parse_recipe(
        {
            "name": "imports",
            "stages": ["sft"],
            "model": {
                "hidden_size": 64,
                "layers": 2,
                "heads": 2,
                "kv_heads": 1,
                "head_dim": 32,
                "context": 4096,
            },
            "data": {"examples": str(accepted), "tokenizer": str(out / "tokenizer"), "max_tokens": 4096},
            "sft": {"steps": steps, "batch": 4, "eval_every": 0, "log_every": steps},
        }
    )
    rows = training_rows(recipe, load_tokenizer(str(out / "tokenizer")), examples)
    train(recipe, out / "run", resume=True)
    return len(rows)


if __name__ == "__main__":
    main()
