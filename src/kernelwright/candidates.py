"""From a completion to a candidate: the plan, the code, and the tokens that each of them spans.

The canonical form is `<plan>...</plan>` and one ```python fence. Other forms are read where the meaning is plain:

- *Think tags.* What stands in `<think>` (or before a lone `</think>`) is never code and never plan.
- *Several blocks.* The last one that parses and holds both `class ModelNew` and a `@triton.jit` kernel. Where
  none does alone, the shortest run of neighbouring blocks up to the last one that does when joined; its span
  then covers the prose between. Where none does, the one that comes nearest. Blocks inside `<plan>` come last.
- *No fence.* From the first line that reads like code; prose behind it is cut at the first syntax error, but
  only when what is left is a whole candidate.
- *An open fence* is whole when the policy stopped by itself and cut off when its token budget ended.
- *No `<plan>`.* The plan is the prose before the code.

Names are never mended: a kernel in `class Model` stays there, for the judge to reject. Nothing is executed, and
nothing raises, whatever the text.
"""

from __future__ import annotations

import ast
import re
import textwrap
import threading
import warnings
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice

from kernelwright.outcomes import Outcome
from kernelwright.records import Candidate, Span

MAX_CODE = 1 << 18
"""Characters; longer code is not parsed. The longest kernels seen are a tenth of it."""
_MAX_BLOCKS = 64
_MAX_JOINED = 8
_MAX_TRIES = 8

_MARK = re.compile(
    r"^[ \t\ufeff]*(?P<fence>`{3,}|~{3,})(?P<info>[^\n`]*)$|<(?P<close>/?)(?P<tag>think|thinking|plan)>",
    re.MULTILINE | re.IGNORECASE,
)
_ENTRY = re.compile(r"^[ \t]*class[ \t]+ModelNew\b", re.MULTILINE)
_KERNEL = re.compile(r"^[ \t]*@[\w.]*\bjit\b", re.MULTILINE)
_BARE = re.compile(
    r"^\ufeff?(?:import[ \t]+\w[\w.]*(?:[ \t]+as[ \t]+\w+)?(?:[ \t]*,[^\n]*)?[ \t]*(?:#[^\n]*)?\r?$"
    r"|from[ \t]+\w[\w.]*[ \t]+import[ \t]|@\w[\w.]*(?:\(|[ \t]*\r?$)|(?:class|def)[ \t]+\w+[^\n]*[:(,][ \t]*\r?$)",
    re.MULTILINE,
)
_PYTHON = frozenset({"", "python", "python3", "py", "py3", "ipython", "ipython3", "triton", "tl"})
_warnings_lock = threading.Lock()


def parse(text: str, pieces: Sequence[str] | None = None, finish_reason: str = "stop") -> Candidate:
    """The candidate in a completion. Never raises.

    `pieces` are the completion's tokens as text; with them, and where their join is `text`, the spans are token
    indices [start, end). A token on the border of plan and code belongs to the code. Problems are
    EMPTY_COMPLETION, TRUNCATED, NO_CODE and SYNTAX_ERROR; `code` is kept wherever some was found.
    """
    joined = pieces is not None and "".join(pieces) == text
    # Length-preserving, so that offsets stay those of the tokens: lone surrogates are no text, a lone CR is a
    # line end.
    text = re.sub("[\ud800-\udfff]", "\ufffd", re.sub(r"\r(?!\n)", "\n", text))
    if not text.strip("\ufeff\0 \t\r\n"):
        return Candidate(problem=Outcome.EMPTY_COMPLETION, detail="the completion is empty")
    layout = _scan(text)
    found = _choose(text, layout)
    plan = _plan(text, layout, found)
    problem, detail = _problem(found, layout, cut=finish_reason == "length")
    offsets = list(accumulate((len(piece) for piece in pieces), initial=0)) if pieces and joined else []
    code_span = _tokens(offsets, (found.start, found.end)) if found else None
    return Candidate(
        plan=text[slice(*plan)].replace("\r\n", "\n"),
        code=found.code if found else "",
        plan_span=_apart(_tokens(offsets, plan), code_span),
        code_span=code_span,
        problem=problem,
        detail=detail,
    )


@dataclass(frozen=True)
class _Block:
    """A stretch of text that may be code: the inside of a fence, or bare prose."""

    start: int
    end: int
    before: int
    """Where the line of the opening fence starts: prose up to here may be the plan."""
    after: int
    fence: str = ""
    tag: str = ""
    closed: bool = True
    in_plan: bool = False


@dataclass
class _Layout:
    """A completion cut at its fences and tags, in order."""

    blocks: list[_Block] = field(default_factory=list)
    prose: list[_Block] = field(default_factory=list)
    thoughts: list[Span] = field(default_factory=list)
    plans: list[Span] = field(default_factory=list)
    """Insides of closed <plan> tags; an open one runs to the end of the text."""


@dataclass(frozen=True)
class _Code:
    """Code as read: normal line ends, no margin, its syntax checked."""

    code: str
    start: int
    end: int
    before: int
    after: int
    fenced: bool
    closed: bool
    in_plan: bool
    python: bool
    error: str
    """Empty when it parses."""

    @property
    def signs(self) -> int:
        return bool(_ENTRY.search(self.code)) + bool(_KERNEL.search(self.code))

    @property
    def complete(self) -> bool:
        return not self.error and self.signs == 2

    @property
    def usable(self) -> bool:
        """Some sign that it is meant as the answer, not a shell command or a table."""
        return self.signs > 0 or (self.fenced and self.python and bool(self.code)) or self._reads_like_code

    @property
    def _reads_like_code(self) -> bool:
        return not self.error and self.python and bool(_BARE.search(self.code))


def _scan(text: str) -> _Layout:
    """Cut the text at fences, think and plan tags. Tags inside a fence and fences inside a thought are text."""
    layout = _Layout()
    mode, since, fence, plan_from, plan_blocks = "prose", 0, "", -1, 0
    info, before = "", 0

    def end_prose(at: int) -> None:
        if at > since:
            layout.prose.append(_Block(since, at, since, at, closed=at < len(text), in_plan=plan_from >= 0))

    def end_fence(at: int, after: int, closed: bool) -> None:
        tag = info.strip().lower().split(" ")[0].split("{")[0].strip("{}.,:")
        layout.blocks.append(_Block(since, at, before, after, fence, tag, closed))

    for mark in _MARK.finditer(text):
        tag, closing = (mark["tag"] or "").lower(), mark["close"] == "/"
        if mode == "think":
            if tag.startswith("think") and closing:
                layout.thoughts.append((since, mark.end()))
                mode, since = "prose", mark.end()
            continue
        if tag.startswith("think") and closing and (mode == "prose" or _alone(text, mark.span())):
            # A lone closing tag: the opening one stood in the prompt. All before it was thought.
            layout = _Layout(thoughts=[(0, mark.end())])
            mode, since, plan_from, plan_blocks = "prose", mark.end(), -1, 0
        elif mode == "fence":
            same = mark["fence"] and mark["fence"][0] == fence[0] and len(mark["fence"]) >= len(fence)
            if same:
                # A fence with a language tag inside an open one: the writer forgot to close the first.
                again = bool(mark["info"].strip())
                end_fence(mark.start(), mark.start() if again else mark.end(), True)
                if again:
                    fence, info, before, since = mark["fence"], mark["info"], mark.start(), mark.end() + 1
                else:
                    mode, since = "prose", mark.end()
        elif mark["fence"]:
            end_prose(mark.start())
            mode, fence, info, before = "fence", mark["fence"], mark["info"], mark.start()
            since = min(mark.end() + 1, len(text))
        elif tag == "plan":
            end_prose(mark.start())
            since = mark.end()
            if not closing:
                plan_from, plan_blocks = mark.end(), len(layout.blocks)
            elif plan_from >= 0:
                layout.plans.append((plan_from, mark.start()))
                inside = layout.blocks[plan_blocks:]
                layout.blocks[plan_blocks:] = [_Block(**{**vars(b), "in_plan": True}) for b in inside]
                plan_from = -1
        elif not closing:
            end_prose(mark.start())
            mode, since = "think", mark.start()
    if mode == "think":
        layout.thoughts.append((since, len(text)))
    elif mode == "fence":
        end_fence(len(text), len(text), False)
    else:
        end_prose(len(text))
    if plan_from >= 0:
        layout.plans.append((plan_from, len(text)))
    return layout


def _choose(text: str, layout: _Layout) -> _Code | None:
    """The stretch of code to judge, or None. Fenced blocks first, then bare code in the prose."""
    fenced = [code for block in layout.blocks[-_MAX_BLOCKS:] for code in _read(text, block)]
    best = max(filter(lambda code: code.usable, fenced), key=_merit, default=None)
    if best is None or not best.complete:
        best = _join(text, fenced) or best
    if best is None or not best.signs:
        bare = [code for block in layout.prose[-_MAX_BLOCKS:] for code in _read_bare(text, block)]
        best = max(filter(lambda code: code.signs > 0, bare), key=_merit, default=None) or best
    return best


def _merit(code: _Code) -> tuple[bool, bool, int, bool, int]:
    return code.complete, not code.in_plan, code.signs, not code.error, code.start


def _read(text: str, block: _Block) -> Iterator[_Code]:
    """The inside of a fence; of one that was never closed, rather what stands before backticks or prose."""
    whole = _make(text, block, block.start, block.end)
    if not block.closed and whole.error:
        ticks = text.find(block.fence, block.start, block.end)
        shorter = (
            _make(text, block, block.start, ticks, closed=True) if ticks >= 0 else _cut(text, block, whole)
        )
        if shorter is not None and shorter.complete:
            yield shorter
            return
    yield whole


def _read_bare(text: str, block: _Block) -> Iterator[_Code]:
    """Code in prose: from a line that reads like code to the end of the stretch, or to where prose goes on."""
    if block.in_plan:
        return
    lines = islice(_BARE.finditer(text, block.start, block.end), _MAX_TRIES)
    first = None
    for start in (block.start, *(line.start() for line in lines)):
        whole = _make(text, block, start, block.end)
        found = whole if whole.complete else _cut(text, block, whole)
        if found is not None:
            yield found
            return
        if start > block.start or _BARE.match(text, start):
            first = first or whole
    if first is not None:
        yield first


def _cut(text: str, block: _Block, whole: _Code) -> _Code | None:
    """`whole` up to its first syntax error, if that is a complete candidate and prose goes on there.

    Code that breaks off is indented where it does, or ends with that line; prose does neither.
    """
    number = re.match(r"line (\d+):", whole.error)
    if number is None:
        return None
    at = block_start = _first_line(text, whole.start, whole.end)
    for _ in range(int(number[1]) - 1):
        at = text.find("\n", at, whole.end) + 1
        if not at:
            return None
    if at == block_start or text[at : at + 1].isspace():
        return None
    last = text.find("\n", at, whole.end) < 0
    shorter = _make(text, block, whole.start, at, closed=not last)
    return shorter if shorter.complete else None


def _first_line(text: str, start: int, end: int) -> int:
    """Where the first line that is not blank starts."""
    blank = re.compile(r"(?:[ \t\r\f\ufeff]*\n)*").match(text, start, end)
    return blank.end() if blank else start


def _make(text: str, block: _Block, start: int, end: int, closed: bool | None = None) -> _Code:
    closed = block.closed if closed is None else closed
    code = _normal(text[start:end])
    error = syntax_error(code)
    if error and code[:1] in (" ", "\t"):
        # A block in a list, indented as a whole.
        flush = textwrap.dedent(code)
        if not syntax_error(flush):
            code, error = flush, ""
    fenced = bool(block.fence)
    after = block.after if end == block.end else end
    return _Code(
        code=code,
        start=start,
        end=end,
        before=block.before if fenced else start,
        after=after,
        fenced=fenced,
        closed=closed,
        in_plan=block.in_plan,
        python=block.tag in _PYTHON,
        error=error,
    )


def _join(text: str, parts: Sequence[_Code]) -> _Code | None:
    """The shortest run of blocks up to the last that is a complete candidate when joined."""
    parts = [p for p in parts if p.python and not p.error and not p.in_plan and p.code]
    for first in range(len(parts) - 2, max(-1, len(parts) - 1 - _MAX_JOINED), -1):
        run = parts[first:]
        if sum(len(part.code) for part in run) > MAX_CODE:
            return None
        code = "\n\n\n".join(part.code for part in run)
        last = run[-1]
        joined = _Code(
            code,
            run[0].start,
            last.end,
            run[0].before,
            last.after,
            True,
            last.closed,
            False,
            True,
            syntax_error(code),
        )
        if joined.complete:
            return joined
    return None


def _problem(found: _Code | None, layout: _Layout, cut: bool) -> tuple[Outcome | None, str]:
    """Why there is no usable code, and in what words; (None, "") when there is."""
    if found is None:
        if cut:
            return Outcome.TRUNCATED, "the token budget ended before any code"
        return Outcome.NO_CODE, "no Python code in the completion"
    if cut:
        unfinished = bool(layout.blocks) and not layout.blocks[-1].closed
        if not found.closed or (not found.complete and (unfinished or not found.error)):
            return Outcome.TRUNCATED, "the token budget ended before the code was whole"
    if found.error:
        return Outcome.SYNTAX_ERROR, found.error
    return None, ""


def _plan(text: str, layout: _Layout, found: _Code | None) -> Span:
    """Where the plan stands: the last <plan> before the code, else the first after it, else the prose before."""
    if found is None:
        return _trim(text, layout.plans[-1]) if layout.plans else (0, 0)
    before = [plan for plan in layout.plans if plan[0] <= found.before]
    if before:
        return _trim(text, (before[-1][0], min(before[-1][1], found.before)))
    if layout.plans:
        start, end = layout.plans[0]
        return _trim(text, (max(start, found.after), end))
    thought = [end for _, end in layout.thoughts if end <= found.before]
    return _trim(text, (thought[-1] if thought else 0, found.before))


def syntax_error(code: str) -> str:
    """The parser's complaint as `line N: message: the line`, or "" for code that parses.

    Hostile text makes `ast.parse` raise more than SyntaxError: RecursionError, MemoryError, ValueError.
    """
    if len(code) > MAX_CODE:
        return f"the code is longer than {MAX_CODE} characters"
    try:
        # The filters are the process's own; the lock keeps our threads from restoring each other's.
        with _warnings_lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
    except SyntaxError as error:
        lines = code.split("\n")
        number = min(max(error.lineno or 1, 1), len(lines))
        shown = lines[number - 1].strip()[:80]
        return f"line {number}: {error.msg}" + (f": {shown}" if shown else "")
    except (RecursionError, MemoryError):
        return "the code is nested too deeply"
    except ValueError as error:
        return f"the code is no text that Python reads: {error}"[:200]
    return ""


def _normal(raw: str) -> str:
    """Line ends as \\n, no byte order marks, no blank lines at the ends. Idempotent."""
    code = raw.replace("\r\n", "\n").replace("\ufeff", "")
    return re.sub(r"\A(?:[ \t\r\f]*\n)+", "", code).rstrip()


def _trim(text: str, span: Span) -> Span:
    """`span` without white space at its ends."""
    start, end = span
    inside = text[start:end]
    start += len(inside) - len(inside.lstrip("\ufeff \t\r\n"))
    return (start, max(start, start + len(inside.strip("\ufeff \t\r\n"))))


def _alone(text: str, span: Span) -> bool:
    """True when nothing else stands on the line."""
    line_end = text.find("\n", span[1])
    before = text[text.rfind("\n", 0, span[0]) + 1 : span[0]]
    return not before.strip() and not text[span[1] : line_end if line_end >= 0 else None].strip()


def _tokens(offsets: Sequence[int], span: Span) -> Span | None:
    """The tokens that hold some of the characters of `span`; None without tokens or without characters.

    Tokens without text (the first bytes of a character that spans several) count with what follows them.
    """
    if not offsets or span[0] >= span[1]:
        return None
    starts = offsets[:-1]
    first = bisect_left(starts, span[0])
    if first and offsets[first] > span[0]:
        first -= 1
    return first, bisect_left(starts, span[1])


def _apart(plan: Span | None, code: Span | None) -> Span | None:
    """The plan's tokens less those of the code."""
    if plan is None or code is None:
        return plan
    start, end = (plan[0], min(plan[1], code[0])) if plan[0] < code[0] else (max(plan[0], code[1]), plan[1])
    return (start, end) if start < end else None
