"""The cause of a failure as a stage and a type of error, so that failures can be counted for packages whose failures are not read.

Of a message only our own wording is kept: the text before the first quote, number or name, and the type of the underlying
torch error. Two failures with the same cause may have different reasons.
"""

from __future__ import annotations

import re

from kernelwright.errors import UserError

_RAISED = re.compile(r"^(it cannot be traced|the module itself raises):? (\w+)")


def cause(stage: str, error: BaseException) -> str:
    """`capture: it cannot be traced: TorchRuntimeError`."""
    if not isinstance(error, UserError):
        return f"{stage}: {type(error).__name__}"
    text = re.sub(r"^\w+: ", "", str(error))  # the graph's name
    raised = _RAISED.match(text)
    if raised:
        return f"{stage}: {raised[1]}: {raised[2]}"
    ours = re.split(r"['\"(;:,]|\d|\S*[._]\S*", text, maxsplit=1)[0].strip()
    return f"{stage}: {type(error).__name__}: {ours[:80] or '(a message of torch)'}"
