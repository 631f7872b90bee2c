"""One file per loop nest: whether it fits a graph, and its kernel as Triton."""
