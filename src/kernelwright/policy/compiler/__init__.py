"""The compiler rung: Inductor's own Triton for a graph, rewritten to our form. No model, no GPU needed.

    code = write(graph)                          text with `def kernel(x, w, ...)`; raises CannotCompile
    with Compiler() as compiler: ...             the same with a helper process of one's own

    Graph -> lower.py (decompositions.py, convolutions.py, pooling.py; Inductor's text; offline.py is its GPU)
          -> wrapper.py (buffers, launches) + kernels.py, simplify.py, helpers.py, naming.py (plain kernels)
          -> function.py (the candidate)
    Task  -> task.py (the graph at all of its sizes, and a module around the candidate)

Code serves every size of the graph's symbols. What cannot be written has a reason in one line (`reasons.py`). Nothing
here is judged: the judge says whether a kernel is right.
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
    """Code that defines `kernel` on the graph's arguments, numbers among them; several results come as a tuple.

    With `auto`, products, convolutions and attention stay ATen calls. `target` is the GPU to compile for, by name of
    `hardware`. `sizes` are values of the graph's symbols at which the code must hold besides their hints;
    `seconds` are the limit for this graph by the clock, past which the reason begins with `timeout`; without, it is one of CPU
    time.
    Raises CannotCompile with the reason, InfrastructureError when the helper process has died.
    """
    helper = _shared_helper(target)
    helper.seconds, helper.wall = max(SECONDS, seconds or 0.0), seconds
    answer = helper.answer(graph, contractions, sizes)
    if answer.reason:
        kind, _, detail = answer.reason.partition(": ")
        raise CannotCompile(kind, detail)
    return answer.code


def start(target: str = "h200") -> None:
    """Start the helper process that `write` asks; returns at once, while it imports."""
    _shared_helper(target)


@functools.cache
def _shared_helper(target: str) -> Compiler:
    """One helper process for this program, until it ends."""
    opened = Compiler(target)
    opened.__enter__()
    atexit.register(opened.__exit__)
    return opened
