"""Builds a corpus in one call: makes the parts and merges them. Resumable: finished parts are kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.data.chunks import make_parts
from kernelwright.data.contamination import tasks_of
from kernelwright.data.merge import merge
from kernelwright.data.settings import CorpusSettings
from kernelwright.data.streams import Progress
from kernelwright.hardware import cores
from kernelwright.runs import RunFolder

if TYPE_CHECKING:
    from kernelwright.rollouts import Verifier


def build(
    settings: CorpusSettings,
    folder: Path,
    verifier: Verifier | None = None,
    progress: Progress | None = None,
    *,
    pricing: Verifier | None = None,
    workers: int = 0,
    benchmarks: Sequence[Path] = (),
) -> dict[str, Any]:
    """Make (or resume) the corpus in `folder`. Returns its card.

    With a verifier, its workers judge, and those of `pricing` price kernels if `settings.priced`; otherwise `workers` processes
    judge (0: one per core). Raises UserError for a folder with a corpus of other settings, or if no training pair is left.
    """
    for place in benchmarks:
        next(tasks_of(place), None)  # an empty place should fail now, not after hours
    run = RunFolder(folder)
    run.start(settings, resume=True)
    make_parts(settings, folder, workers or cores(), verifier, progress, pricing)
    return merge(settings, folder, benchmarks=benchmarks, progress=progress)
