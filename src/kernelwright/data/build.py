"""A corpus in one call: parts, merged. Resumable: what is whole is left as it is."""

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
    """The card of the corpus in `folder`, which is made where it is not there yet.

    With a verifier, its workers judge, and those of `pricing` price where `settings.priced` says so; else `workers` processes do (0: one a core). Raises UserError for a folder that holds
    a corpus of other settings, and where nothing is left to train on.
    """
    for place in benchmarks:
        next(tasks_of(place), None)  # a place that holds none is said now, not after hours
    run = RunFolder(folder)
    run.start(settings, resume=True)
    make_parts(settings, folder, workers or cores(), verifier, progress, pricing)
    return merge(settings, folder, benchmarks=benchmarks, progress=progress)
