"""Kernels for the backend: what the ladder has in the user's cache, and more of them while there is time to search.

Searches judge on this machine, on its GPU, in processes of their own. Does not change what is cached for `optimize`: it is
the same cache, so what one finds the other has.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import torch

from kernelwright.graph import Graph
from kernelwright.graph.shrink import Shrunk, shrink
from kernelwright.records import PrecisionName
from kernelwright.search.cache import Answer, KernelCache
from kernelwright.search.ladder import Ladder
from kernelwright.search.rungs import Contractions, rungs_of

RUNGS = ("compiler", "library")
"""Asked for each graph."""


class LadderSource:
    """Compiler and library rungs over the user's cache; thread-safe as far as the ladder is."""

    def __init__(self, target: str = "h200") -> None:
        self.target = target
        self._cache = KernelCache.of()
        self._small: dict[str, Shrunk] = {}
        """By digest: a graph is shrunk once."""

    def lookup(self, graph: Graph, contractions: Contractions) -> Answer | None:
        """What is known and verified, in milliseconds."""
        entry = self._cache.get(self._ladder(None, contractions).key(graph))
        return entry.best if entry else None

    def search(self, graphs: Sequence[Graph], contractions: Contractions, seconds: float) -> None:
        """Ask the rungs about graphs, largest first, until `seconds` are over. One line on stderr says what came of it."""
        from kernelwright.verify import VerifierPool

        until = time.monotonic() + seconds
        distinct = {graph.digest: graph for graph in graphs}
        wanted = [graph for graph in distinct.values() if self.lookup(graph, contractions) is None]
        if not wanted:
            return
        with VerifierPool(target=self.target) as pool:
            ladder = self._ladder(pool, contractions)
            for graph in sorted(wanted, key=lambda one: -len(one.nodes)):
                if time.monotonic() >= until:
                    break
                if graph.symbols:
                    ladder.search(graph, until=until, free=True)
                    continue
                small = self._small.get(graph.digest) or shrink(graph)
                self._small[graph.digest] = small
                sized = small.graph if "small" in small.shapes else graph
                ladder.search(graph, until=until, posed=sized, shapes=small.shapes)
        found = sum(self.lookup(graph, contractions) is not None for graph in wanted)
        print(f"kernelwright: {found} of {len(wanted)} groups have a verified kernel", file=sys.stderr)

    def _ladder(self, pool: object, contractions: Contractions) -> Ladder:
        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
        precision = precision_here()
        rungs = rungs_of(RUNGS, self.target, contractions, precision=precision)
        return Ladder(
            pool,  # type: ignore[arg-type]
            rungs,
            self._cache,
            target=self.target,
            contractions=contractions,
            precision=precision,
            gpu=gpu,
        )


def precision_here() -> PrecisionName:
    """What torch's own flags allow in this process."""
    products = torch.get_float32_matmul_precision() != "highest"
    if not torch.backends.cudnn.allow_tf32:
        return "ieee"
    return "tf32" if products else "default"
