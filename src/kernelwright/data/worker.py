"""Makes chunks of a corpus on one core: `python -m kernelwright.data.worker SETTINGS PARTS` makes those it is asked for.

Started by `chunks.py`. Has its own judge.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from kernelwright.children import serve
from kernelwright.data.chunks import Chunk, make_chunk, tasks_of
from kernelwright.data.settings import CorpusSettings
from kernelwright.verify import VerifierPool


def main(settings: str, parts: str) -> None:
    """Serve until standard input closes."""
    torch.set_num_threads(1)
    wanted = CorpusSettings.model_validate_json(settings)
    tasks = tasks_of(wanted)
    how: dict[str, Any] = {"backend": "interpret", "target": wanted.target, "deadline_s": wanted.deadline}
    with ExitStack() as open_:
        pool = open_.enter_context(VerifierPool(1, **how))
        pricing = open_.enter_context(VerifierPool(1, **how, printed=True)) if wanted.priced else None
        serve(
            lambda chunk: make_chunk(wanted, Chunk.model_validate(chunk), Path(parts), pool, tasks, pricing)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
