"""Why a task has no Inductor pair: one exception, whose kind is counted and whose detail is read."""

from __future__ import annotations


class Fallback(Exception):
    """A task that this teacher leaves to others. `str()` is the counted reason, such as `extern: aten.mm`."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind, self.detail = kind, detail


KINDS = (
    "broken task",
    "constant tensor",
    "crash",
    "data-dependent",
    "extern",
    "helper",
    "in-place input",
    "inductor",
    "non-tensor input",
    "random",
    "rubbish",
    "size",
    "timeout",
    "too long",
    "unsupported",
)
"""Every kind there is. `unsupported` is Inductor code in a form that the rewriter does not know."""
