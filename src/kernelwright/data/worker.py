"""One core's share of a corpus: `python -m kernelwright.data.worker SETTINGS PARTS` makes the chunks it is asked for.

Started by `chunks.py`. Holds a judge of its own.
"""

from __future__ import annotations

import sys
from pathlib import Path

from kernelwright.children import serve
from kernelwright.data.chunks import Chunk, make_chunk, tasks_of
from kernelwright.data.settings import CorpusSettings
from kernelwright.verify import VerifierPool


def main(settings: str, parts: str) -> None:
    """Serve until standard input ends."""
    import torch

    torch.set_num_threads(1)
    wanted = CorpusSettings.model_validate_json(settings)
    tasks = tasks_of(wanted)
    with VerifierPool(1, backend="interpret", target=wanted.target, deadline_s=wanted.deadline) as pool:
        serve(lambda question: make_chunk(wanted, Chunk.model_validate(question), Path(parts), pool, tasks))


if __name__ == "__main__":
    main(*sys.argv[1:])
