"""Converts character spans to token spans. Spans are half-open."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from kernelwright.records import Span

_BLANK = "\ufeff \t\r\n"


def token_span(offsets: Sequence[int], span: Span) -> Span | None:
    """The tokens that contain characters of `span`; None without tokens or characters. `offsets`: where each token starts in the
    text, and where the last one ends.

    A token without text (the first bytes of a multi-token character) belongs to what follows it.
    """
    if len(offsets) < 2 or span[0] >= span[1]:
        return None
    first = bisect_left(offsets, span[0], hi=len(offsets) - 1)
    if first and offsets[first] > span[0]:
        first -= 1
    last = bisect_left(offsets, span[1], hi=len(offsets) - 1)
    return (first, last) if first < last else None


def apart(plan: Span | None, code: Span | None) -> Span | None:
    """The plan's tokens without those of the code: a token on the border belongs to the code."""
    if plan is None or code is None:
        return plan
    if plan[0] < code[0]:
        plan = plan[0], min(plan[1], code[0])
    else:
        plan = max(plan[0], code[1]), plan[1]
    return plan if plan[0] < plan[1] else None


def trim(text: str, span: Span) -> Span:
    """`span` without whitespace at its ends."""
    start, end = span
    inside = text[start:end]
    start += len(inside) - len(inside.lstrip(_BLANK))
    return start, start + len(inside.strip(_BLANK))
