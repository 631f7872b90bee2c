"""Why a graph has no answer of the compiler: one exception, whose kind is counted and whose detail is read."""

from __future__ import annotations


class CannotCompile(Exception):
    """A graph that the compiler leaves to others. `str()` is the reason in one line, such as `extern: aten.sort`."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind, self.detail = kind, detail
