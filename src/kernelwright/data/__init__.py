"""The data engine: graphs in, verified pairs of plan and kernel out. What is where:

    settings.py       what a corpus is made of
    problems.py       one problem by its number: a graph as a task, kernels by several schedules, broken ones among them
    decide.py         verdicts -> pairs: write, improve, repair
    chunks.py         a corpus in parts, by a judge that is there or by a process a core (worker.py)
    contamination.py  what must not be trained on, by structure
    merge.py          parts -> examples.jsonl, tasks.jsonl, tokenizer/ (tokenizer.py), card (card.py)
    build.py          all of it in one call
    validate.py       a corpus before the judge again
    harvest.py        tasks from the models of packages, cut into graphs
    distill.py        kernels from a language model; importing.py takes pairs that others made

`build` does all of it, and goes on where it was stopped:

    from kernelwright.data import CorpusSettings, build
    card = build(CorpusSettings.of(recipe.data, recipe.seed), run / "data", pool)
"""

from kernelwright.data.build import build
from kernelwright.data.chunks import make_parts
from kernelwright.data.merge import merge
from kernelwright.data.settings import CorpusSettings
from kernelwright.data.streams import Progress

__all__ = ["CorpusSettings", "Progress", "build", "make_parts", "merge"]
