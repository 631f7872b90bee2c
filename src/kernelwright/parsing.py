"""`ast.parse` for code that runs in several threads.

Python 3.11 counts the depth of a tree in one place for all threads, and where a collection of garbage lets another one
in, both fail with "recursion depth mismatch" (python/cpython#106905).
"""

import ast
import threading

_ONE_AT_A_TIME = threading.Lock()


def parse(source: str) -> ast.Module:
    """The tree of a module. Raises what `ast.parse` raises."""
    with _ONE_AT_A_TIME:
        return ast.parse(source)
