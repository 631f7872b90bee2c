"""The data engine: from graphs to verified pairs of plan and kernel. Its files:

    settings.py       the settings of a corpus
    problems.py       one problem by number: a graph as a task, kernels from several schedules, broken kernels
    decide.py         verdicts -> pairs: write, improve, repair
    chunks.py         a corpus in parts, judged by a given verifier or by one process per core (worker.py)
    contamination.py  removes what computes a benchmark's function, by structure
    merge.py          parts -> examples.jsonl, tasks.jsonl, tokenizer/ (tokenizer.py), card (card.py); all of it in one call
    validate.py       judges a corpus again
    harvest.py        tasks from packages' models, cut into graphs
    distill.py        kernels from a language model; importing.py imports existing pairs

`build` does all of it, and resumes where it was stopped:

    from kernelwright.data import CorpusSettings, build
    card = build(CorpusSettings.of(recipe.data, recipe.seed), run / "data", pool)
"""

from kernelwright.data.chunks import make_parts
from kernelwright.data.merge import build, merge
from kernelwright.data.settings import CorpusSettings
from kernelwright.data.streams import Progress

__all__ = ["CorpusSettings", "Progress", "build", "make_parts", "merge"]
