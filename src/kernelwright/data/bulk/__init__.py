"""A corpus by the ten thousand: one pool of heard kernels, three kinds of example, on every core there is.

    problems.py: a task in several wordings, kernels from one or two teachers, mutants
      -> hear.py: the judge's word on each; translate, improve, repair
      -> work.py: a process a core, each with a judge of its own; a chunk a file, resumable
      -> merge.py: duplicates, leaks, benchmarks (benchmarks.py) and what is too long go; splits
      -> shards.py: parquet and JSONL; card.py: counts, lengths, plots

`make` does all of it in one folder and goes on where a stopped run left off.
"""

from kernelwright.data.bulk.config import BulkConfig
from kernelwright.data.bulk.merge import merge
from kernelwright.data.bulk.work import make

__all__ = ["BulkConfig", "make", "merge"]
