"""One loop nest a file: whether it fits a graph, its legal schedules, and its kernel as Triton."""
