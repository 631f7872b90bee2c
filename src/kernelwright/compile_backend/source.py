"""Kernels for the backend: those in the user's cache, and more if there is time to search.

Searches judge on this machine and its GPU, in separate processes. The cache is shared with `optimize`: kernels found by one are
available to the other.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from kernelwright.graph import Graph
from kernelwright.graph.shrink import Shrunk, shrink
from kernelwright.hardware import target as target_sheet
from kernelwright.records import PrecisionName
from kernelwright.search.cache import Entry, KernelCache
from kernelwright.search.ladder import Ladder
from kernelwright.search.rungs import CompilerRung, Contractions, rungs_of
from kernelwright.synth.ranking import target_here
from kernelwright.verify.cost.eager import eager_ms

RUNGS = ("library", "compiler")
"""Asked for each graph, in this order: the compiler rung's kernels are Inductor's own, which the library must beat."""
AT_ONCE = 6
"""Graphs searched at once: one compiles while others are judged."""
_SHARED_BY, _LEAST_TUNING = 4, 2.0
"""The costliest known kernel gets a quarter of the remaining tuning time, and so on; below these seconds there is no tuning."""
_PRECISION = 0.02
"""Precision of measured times: coarse, since the whole graph is timed at the end."""
logger = logging.getLogger(__name__)


class LadderSource:
    """Compiler and library rungs over the user's cache; as thread-safe as the ladder."""

    def __init__(self) -> None:
        self.target = target_here()
        self._cache = KernelCache.of()
        self._small: dict[str, Shrunk] = {}
        """By digest, since each graph is shrunk once."""

    def lookup(self, graph: Graph, contractions: Contractions) -> Entry | None:
        """The known kernels of a graph."""
        return self._cache.get(self._ladder(None, contractions).key(graph))

    def search(self, graphs: Sequence[Graph], contractions: Contractions, seconds: float) -> None:
        """Ask the rungs about graphs, costliest first and several at once, then tune the kernels found while there is time.
        Prints a one-line summary to stderr."""
        from kernelwright.verify import VerifierPool

        until = time.monotonic() + seconds
        distinct = {graph.digest: graph for graph in graphs}
        sheet = target_sheet(self.target)
        wanted = sorted(distinct.values(), key=lambda one: eager_ms(one, sheet), reverse=True)
        new = [graph for graph in wanted if not self._has_kernel(graph, contractions)]
        if not new:
            return
        pool = VerifierPool(target=self.target, timing_precision=_PRECISION)
        try:
            pool.start()
            ladder = self._ladder(pool, contractions)
            for rung in ladder.rungs:
                if isinstance(rung, CompilerRung):
                    rung.start()
            with ThreadPoolExecutor(AT_ONCE) as asking:
                list(asking.map(lambda graph: self._ask(ladder, graph, until), new))
            tuning = self._ladder(pool, contractions, (*RUNGS, "tune"))
            known = [graph for graph in wanted if self._has_kernel(graph, contractions)]
            for at, graph in enumerate(known):
                seconds_left = until - time.monotonic()
                if seconds_left < _LEAST_TUNING:
                    break
                share = seconds_left / min(_SHARED_BY, len(known) - at)
                self._ask(tuning, graph, time.monotonic() + share)
        finally:
            pool.close(abort=True)  # abandon whatever is still running
        found = sum(self._has_kernel(graph, contractions) for graph in new)
        print(f"kernelwright: {found} of {len(new)} groups have a verified kernel", file=sys.stderr)

    def _has_kernel(self, graph: Graph, contractions: Contractions) -> bool:
        entry = self.lookup(graph, contractions)
        return entry is not None and entry.best is not None

    def _ask(self, ladder: Ladder, graph: Graph, until: float) -> None:
        """Fill the cache for one graph; an error affects only that graph."""
        if time.monotonic() >= until:
            return
        try:
            small = self._small.get(graph.digest) or shrink(graph)
            self._small[graph.digest] = small
            sized = small.graph if "small" in small.shapes else graph
            free = [one.name for one in graph.symbols]
            ladder.search(graph, until=until, symbolic=sized, shapes=small.shapes, free=free)
        except Exception as error:
            logger.warning(
                "kernelwright: the search for a kernel failed: %s: %s", type(error).__name__, error
            )

    def _ladder(self, pool: object, contractions: Contractions, rungs: Sequence[str] = RUNGS) -> Ladder:
        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
        precision = precision_here()
        return Ladder(
            pool,  # type: ignore[arg-type]
            rungs_of(rungs, self.target, contractions, precision=precision),
            self._cache,
            target=self.target,
            contractions=contractions,
            precision=precision,
            gpu=gpu,
        )


def precision_here() -> PrecisionName:
    """The precision that torch's own flags allow in this process."""
    products = torch.get_float32_matmul_precision() != "highest"
    if not torch.backends.cudnn.allow_tf32:
        return "ieee"
    return "tf32" if products else "default"
