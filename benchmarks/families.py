"""Pairs of every family before the judge: accepted at the first try, refused why, tokens an example.

    python benchmarks/families.py OUT.jsonl [--per-family 2] [--families matmul,scan] [--workers 2] [--seed 0]

Samples N pairs of each family, every fifth one with a slower kernel, hears each once under the strict protocol and
prints a table; on a GPU with measured speedups over eager and torch.compile. Tokens are those of the default model's tokenizer where a folder is given with --tokenizer, else of one
of 8,192 entries learned from the sample itself. OUT gets one line a pair.
"""

import argparse
import json
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from kernelwright import prompts
from kernelwright.data.families.table import chosen, pair
from kernelwright.data.plans import plan, problems
from kernelwright.data.tokenizer import train_tokenizer
from kernelwright.metrics import geometric_mean
from kernelwright.progress import Bar
from kernelwright.records import Candidate
from kernelwright.verify import VerifierPool


def counter(folder: str, texts: list[str]) -> Any:
    """Text -> number of tokens."""
    if folder:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(folder)
    else:
        with tempfile.TemporaryDirectory() as place:
            tokenizer = train_tokenizer(texts, 8192, Path(place))
    return lambda text: len(tokenizer(text)["input_ids"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--per-family", type=int, default=2)
    parser.add_argument("--families", default="all")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--deadline", type=float, default=30.0, help="seconds a hearing may take")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--tokenizer", default="", help="folder of a tokenizer")
    options = parser.parse_args()
    made = []
    for family in chosen(options.families.split(",")):
        for number in range(options.per_family):
            seed = f"{options.seed}:{family.name}:{number}"
            length = family.levels[number % len(family.levels)]
            made.append((family, pair(family, seed, f"{seed}:kernel", length, slow=number % 5 == 4)))
    texts = []
    for _, one in made:
        asked = prompts.render("frontend", one.task, style="compact")
        shown = "".join(message.content.rstrip("\n") + "\n" for message in asked.messages)
        texts.append(shown + prompts.completion_text(plan(one.code), one.code))
    count = counter(options.tokenizer, texts)
    tokens = [count(text) for text in texts]
    false_plans = sum(bool(problems(plan(one.code), one.code)) for _, one in made)
    start = time.perf_counter()
    with VerifierPool(options.workers, deadline_s=options.deadline) as pool, Bar("judge", len(made)) as bar:
        futures = [pool.submit(one.task, Candidate(code=one.code)) for _, one in made]
        table: dict[str, Counter[str]] = defaultdict(Counter)
        causes: Counter[str] = Counter()
        gains: dict[tuple[str, str], list[float]] = defaultdict(list)
        by_family: dict[str, list[float]] = defaultdict(list)
        with options.out.open("w", encoding="utf-8") as out:
            for (family, one), future, length in zip(made, futures, tokens, strict=True):
                verdict = future.result()
                row = table[family.category]
                row["pairs"] += 1
                row["accepted"] += verdict.correct
                if verdict.timing is not None:
                    for name in verdict.timing.baseline_ms:
                        gains[family.category, name].append(verdict.timing.speedup(name))
                    by_family[family.name].append(verdict.timing.speedup())
                row["tokens"] += length
                if not verdict.correct:
                    causes[f"{verdict.outcome.value} ({family.name})"] += 1
                out.write(
                    json.dumps(
                        {
                            "family": family.name,
                            "task": one.task.id,
                            "dtype": one.task.dtype,
                            "operators": one.operators,
                            "tokens": length,
                            "verdict": verdict.model_dump(mode="json"),
                            "source": "" if verdict.correct else one.task.source,
                            "code": "" if verdict.correct else one.code,
                        }
                    )
                    + "\n"
                )
                out.flush()
                bar.advance(1)
    seconds = time.perf_counter() - start
    print(
        f"{'category':14}{'families':>9}{'pairs':>7}{'accepted':>10}{'tokens':>8}{'eager':>8}{'compile':>8}"
    )
    families = Counter(family.category for family in {family.name: family for family, _ in made}.values())
    for category, row in table.items():
        share = row["accepted"] / row["pairs"]
        means = "".join(
            f"{geometric_mean(found):8.2f}" if (found := gains[category, name]) else f"{'':8}"
            for name in ("eager", "compile")
        )
        print(
            f"{category:14}{families[category]:9}{row['pairs']:7}{share:10.1%}{row['tokens'] // row['pairs']:8}{means}"
        )
    accepted = sum(row["accepted"] for row in table.values())
    tokens.sort()
    print(
        f"all: {accepted} of {len(made)} accepted ({accepted / len(made):.1%}), {len(made) / seconds:.2f} a second"
    )
    print(
        f"tokens: median {tokens[len(tokens) // 2]}, 95 % {tokens[int(0.95 * (len(tokens) - 1))]}, most {tokens[-1]}; "
        f"{sum(t > 2048 for t in tokens)} over 2,048; plans that are not true: {false_plans}"
    )
    slow = {name: mean for name, found in by_family.items() if (mean := geometric_mean(found)) < 1}
    print(
        f"families slower than eager: {len(slow)} of {len(by_family)}:",
        ", ".join(f"{name} {mean:.2f}" for name, mean in sorted(slow.items(), key=lambda item: item[1])),
    )
    for cause, count in causes.most_common():
        print(f"{count:5} {cause}")


if __name__ == "__main__":
    main()
