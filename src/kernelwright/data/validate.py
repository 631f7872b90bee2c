"""Judges a corpus again: answers must pass under another secret, and kernels shown as broken must still fail."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright.data.decide import fair
from kernelwright.data.streams import Progress, silent
from kernelwright.graph import stitch
from kernelwright.graph.types import Graph
from kernelwright.records import Candidate, Pair, read_jsonl

if TYPE_CHECKING:
    from kernelwright.rollouts import Verifier


def validate(
    path: Path, verifier: Verifier, sample: int = 0, seed: int = 0, progress: Progress = silent
) -> Counter[str]:
    """Counts of answers and broken kernels by outcome. `sample`: number of pairs drawn; 0: all."""
    pairs = list(read_jsonl(path, Pair))
    if sample and sample < len(pairs):
        pairs = random.Random(seed).sample(pairs, sample)
    pending = []
    for pair in pairs:
        graph = Graph.model_validate_json(pair.task.graph)
        pending.append(
            ("answer", verifier.submit(pair.task, Candidate(code=stitch.candidate(pair.code, graph))))
        )
        if pair.kind == "repair" and pair.shown is not None:
            code = stitch.candidate(pair.shown.code, graph)
            pending.append(("broken", verifier.submit(pair.task, Candidate(code=code))))
    ended: Counter[str] = Counter()
    for number, (what, future) in enumerate(pending, 1):
        ended[f"{what}: {fair(future).outcome.value}"] += 1
        progress("validate", number, len(pending))
    return ended
