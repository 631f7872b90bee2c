"""Why the compiler has no kernel for a graph: an exception with a kind, which is counted, and details for people."""

from __future__ import annotations


class CannotCompile(Exception):
    """The compiler cannot handle a graph. `str()` is the reason in one line, such as `extern: aten.sort`."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind, self.detail = kind, detail
