"""Parses a completion into a candidate: the plan, the code, and the token span of each.

The canonical form is `<plan>...</plan>` and one ```python fence. Other forms are accepted if their meaning is clear:

- *Think tags.* Text in `<think>` (or before a lone `</think>`) is never code or plan.
- *Several blocks.* The last one that parses and has both an entry (`def kernel` or `class ModelNew`) and a `@triton.jit`
  kernel. If no single block does, the shortest run of blocks, up to the last, that does when joined; the code's span then
  includes the prose between. If none does, the closest one. Blocks inside a closed `<plan>` come last.
- *No fence.* From the first line that looks like code; prose after it is cut off at the first syntax error, but only if
  the rest is a complete candidate.
- *An open fence* is complete if the policy stopped by itself, and truncated if it reached its token limit.
- *No `<plan>`.* The plan is the text before the code.

Names are never repaired: a kernel in `class Model` stays there, for the judge to reject. `layout` splits the text, `code`
finds the Python in it, `spans` counts tokens. Nothing is executed, and nothing raises, whatever the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate

from kernelwright.candidates.code import Code, choose
from kernelwright.candidates.layout import Layout, scan
from kernelwright.candidates.spans import apart, token_span, trim
from kernelwright.outcomes import Outcome
from kernelwright.records import Candidate, Span

__all__ = ["parse"]


def parse(text: str, pieces: Sequence[str] | None = None, finish_reason: str = "stop") -> Candidate:
    """The candidate in a completion. Never raises.

    `pieces` are the completion's tokens as text. If their concatenation is `text`, the spans are token indices [start, end): the
    code's covers the inside of its fence, the plan's the inside of its tags, and a token on their border belongs to the code;
    thoughts' include their tags. Problems are EMPTY_COMPLETION, TRUNCATED, NO_CODE and SYNTAX_ERROR; `code` is kept whenever
    some was found.
    """
    known = pieces is not None and "".join(pieces) == text
    offsets = list(accumulate(map(len, pieces or ()), initial=0)) if known else []
    # Both replacements keep the length, so that token offsets stay valid: a lone CR is a line end, and lone surrogates are not
    # text.
    text = re.sub("[\ud800-\udfff]", "\ufffd", re.sub(r"\r(?!\n)", "\n", text))
    if not text.strip("\ufeff\0 \t\r\n"):
        return Candidate(problem=Outcome.EMPTY_COMPLETION, detail="the completion is empty")
    layout = scan(text)
    found = choose(text, layout)
    plan = _plan(text, layout, found)
    problem, detail = _problem(found, layout, cut=finish_reason == "length")
    code_span = token_span(offsets, (found.block.start, found.block.end)) if found else None
    thoughts = (token_span(offsets, thought) for thought in layout.thoughts)
    return Candidate(
        plan=text[plan[0] : plan[1]].replace("\r\n", "\n"),
        code=found.text if found else "",
        plan_span=apart(token_span(offsets, plan), code_span),
        code_span=code_span,
        thought_spans=tuple(span for span in thoughts if span is not None),
        problem=problem,
        detail=detail,
    )


def _plan(text: str, layout: Layout, found: Code | None) -> Span:
    """Span of the plan: the last <plan> before the code, else the first after it, else the text before the code."""
    if found is None:
        return trim(text, layout.plans[-1]) if layout.plans else (0, 0)
    before, after = found.block.before, found.block.after
    earlier = [plan for plan in layout.plans if plan[0] <= before]
    if earlier:
        return trim(text, (earlier[-1][0], min(earlier[-1][1], before)))
    if layout.plans:
        return trim(text, (max(layout.plans[0][0], after), layout.plans[0][1]))
    thought = max((end for _, end in layout.thoughts if end <= before), default=0)
    prose = (part for part in layout.prose if thought <= part.start < before)
    words = (part.start for part in prose if text[part.start : min(part.end, before)].strip())
    return trim(text, (next(words, before), before))


def _problem(found: Code | None, layout: Layout, cut: bool) -> tuple[Outcome | None, str]:
    """Why there is no usable code, as outcome and message; (None, "") if there is."""
    if found is None:
        if cut:
            return Outcome.TRUNCATED, "the token budget ended before any code"
        return Outcome.NO_CODE, "no Python code in the completion"
    # A complete candidate counts, whatever was truncated after it. A syntax error in a closed block is the policy's own.
    writing = bool(layout.blocks) and not layout.blocks[-1].closed
    if cut and (not found.block.closed or (not found.complete and (writing or not found.error))):
        return Outcome.TRUNCATED, "the token budget ended before the code was whole"
    if found.error:
        return Outcome.SYNTAX_ERROR, found.error
    return None, ""
