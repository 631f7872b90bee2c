"""The compiler rung: Inductor's own Triton code for a graph, rewritten to our form. Needs no model and no GPU.

    code = write(graph)                          text with `def kernel(x, w, ...)`; raises CannotCompile
    with Compiler() as compiler: ...             the same with a separate helper process

    Graph -> lower.py (decompositions.py, convolutions.py, pooling.py; Inductor's text; offline.py is its GPU)
          -> wrapper.py (buffers, launches) + kernels.py, simplify.py, helpers.py, naming.py (plain kernels)
          -> function.py (the candidate)
    Task  -> task.py (the graph at all its sizes, and a module around the candidate)

The code works for every size of the graph's symbols. What cannot be written has a one-line reason (`reasons.py`). Nothing is
judged here: whether a kernel is correct is for the judge to say.
"""

from __future__ import annotations

import atexit
import functools
from collections.abc import Mapping, Sequence

from kernelwright.graph import Graph
from kernelwright.policy.compiler.reasons import CannotCompile
from kernelwright.policy.compiler.worker import SECONDS, Answer, Compiler, Contractions

__all__ = ["Answer", "CannotCompile", "Compiler", "start", "write"]


def write(
    graph: Graph,
    *,
    contractions: Contractions = "own",
    target: str = "h200",
    sizes: Sequence[Mapping[str, int]] = (),
    seconds: float | None = None,
) -> str:
    """Code that defines `kernel` on the graph's arguments, including numbers; several results are returned as a tuple.

    With `auto`, products, convolutions and attention stay ATen calls. `target`: the GPU to compile for, by its name in `hardware`.
    `sizes`: values of the graph's symbols, besides their hints, for which the code must be valid. `seconds`: wall-clock limit for
    this graph, beyond which the reason begins with `timeout`; without it, the limit is on CPU time.
    Raises CannotCompile with the reason, InfrastructureError if the helper process has died.
    """
    helper = _shared_helper(target)
    helper.seconds, helper.wall = max(SECONDS, seconds or 0.0), seconds
    answer = helper.answer(graph, contractions, sizes)
    if answer.reason:
        kind, _, detail = answer.reason.partition(": ")
        raise CannotCompile(kind, detail)
    return answer.code


def start(target: str = "h200") -> None:
    """Start the helper process that `write` uses; returns at once, while it imports."""
    _shared_helper(target)


@functools.cache
def _shared_helper(target: str) -> Compiler:
    """One helper process per target, which lives as long as this program."""
    opened = Compiler(target)
    opened.__enter__()
    atexit.register(opened.__exit__)
    return opened
