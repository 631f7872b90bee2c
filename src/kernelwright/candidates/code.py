"""Finds the code in a completion and checks its syntax. Executes nothing."""

from __future__ import annotations

import re
import textwrap
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from kernelwright.candidates.layout import Block, Layout
from kernelwright.parsing import parse

MAX_CODE = 1 << 18
"""Most characters of code that are parsed. The longest kernels seen have a tenth of it."""
_MAX_BLOCKS = 64
_MAX_JOINED = 8
_MAX_TRIES = 8

_ENTRY = re.compile(
    r"^[ \t]*class[ \t]+ModelNew\b|(?:\A|^(?!@)[^\n]*\n)def[ \t]+kernel[ \t]*\(", re.MULTILINE
)
"""`class ModelNew`, or in function form `def kernel` without a decorator."""
_KERNEL = re.compile(r"^[ \t]*@[\w.]*\bjit\b", re.MULTILINE)
_BARE = re.compile(
    r"^\ufeff?(?:import[ \t]+\w[\w.]*(?:[ \t]+as[ \t]+\w+)?(?:[ \t]*,[^\n]*)?[ \t]*(?:#[^\n]*)?\r?$"
    r"|from[ \t]+\w[\w.]*[ \t]+import[ \t]|@\w[\w.]*(?:\(|[ \t]*\r?$)"
    r"|(?:class|def)[ \t]+\w+[^\n]*[:(,][ \t]*\r?$)",
    re.MULTILINE,
)
_BLANK = re.compile(r"(?:[ \t\r\f\ufeff]*\n)*")
_PYTHON = frozenset({"", "python", "python3", "py", "py3", "ipython", "ipython3", "triton", "tl"})
_filters = threading.Lock()


@dataclass(frozen=True)
class Code:
    """A block read as code: line ends normalised, dedented, syntax checked."""

    text: str
    error: str
    """Empty if it parses."""
    block: Block
    """Its position: the block it was read from, narrowed to the part used."""

    @cached_property
    def signs(self) -> int:
        """How many of two signs of an answer it has: `class ModelNew` or `def kernel`, and a jit decorator."""
        return bool(_ENTRY.search(self.text)) + bool(_KERNEL.search(self.text))

    @property
    def complete(self) -> bool:
        return not self.error and self.signs == 2

    @property
    def python(self) -> bool:
        return self.block.tag in _PYTHON

    @property
    def is_answer(self) -> bool:
        """Whether it looks like an answer rather than a shell command or a table."""
        if self.signs:
            return True
        named = self.python and self.block.tag != ""
        return bool(self.text) and (named or (self.python and bool(_BARE.search(self.text))))

    @property
    def merit(self) -> tuple[bool, bool, int, bool, int]:
        return self.complete, not self.block.in_plan, self.signs, not self.error, self.block.start


def choose(text: str, layout: Layout) -> Code | None:
    """The code to judge, or None: fenced blocks first, then several joined, then bare code in prose."""
    fenced = [_fence(text, block) for block in layout.blocks[-_MAX_BLOCKS:]]
    best = max((code for code in fenced if code.is_answer), key=lambda code: code.merit, default=None)
    if best is None or not best.complete:
        best = _join(fenced) or best
    if best is None or not best.signs:
        bare = [_bare(text, block) for block in layout.prose[-_MAX_BLOCKS:]]
        best = max((code for code in bare if code and code.signs), key=lambda code: code.merit, default=best)
    return best


def syntax_error(code: str) -> str:
    """The parser's message as `line N: message: the line`, or "" for code that parses.

    Hostile text makes `ast.parse` raise more than SyntaxError: RecursionError, MemoryError, ValueError.
    """
    if len(code) > MAX_CODE:
        return f"the code is longer than {MAX_CODE} characters"
    try:
        # Warnings about escapes do not matter here. The filters are global to the process: the lock keeps our threads from
        # restoring each other's.
        with _filters, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parse(code)
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


def _fence(text: str, block: Block) -> Code:
    """The inside of a fence; if it was never closed and does not parse, the part before backticks or prose."""
    whole = _code(text, block)
    if not block.closed and whole.error:
        ticks = text.find(block.fence, block.start, block.end)
        part = _code(text, replace(block, end=ticks, after=ticks, closed=True)) if ticks >= 0 else whole
        if not part.complete:
            part = _cut_at_error(text, whole) or whole
        return part
    return whole


def _bare(text: str, block: Block) -> Code | None:
    """Code in prose: from a line that looks like code to the end of the block, or to where prose resumes."""
    if block.in_plan:
        return None
    lines = islice(_BARE.finditer(text, block.start, block.end), _MAX_TRIES)
    first = None
    for start in (_first_line(text, block.start, block.end), *(line.start() for line in lines)):
        whole = _code(text, replace(block, start=start, before=start))
        found = whole if whole.complete else _cut_at_error(text, whole)
        if found is not None:
            return found
        if first is None and _BARE.match(text, start):
            first = whole
    return first


def _cut_at_error(text: str, whole: Code) -> Code | None:
    """`whole` up to its first syntax error, if that is a complete candidate and prose follows.

    Code that breaks off there is indented; prose is not. An apostrophe in prose makes the parser report an error later than
    where the prose starts, so several cuts may be needed.
    """
    start, end, part = whole.block.start, whole.block.end, whole
    for _ in range(_MAX_TRIES):
        number = re.match(r"line (\d+):", part.error)
        at = _line_start(text, start, part.block.end, int(number[1])) if number else None
        if at is None or at <= start or text[at : at + 1].isspace():
            return None
        # On the last line, it is unknown whether prose or code was being written.
        closed = text.find("\n", at, end) >= 0
        part = _code(text, replace(whole.block, end=at, after=at, closed=closed))
        if part.complete:
            return part
    return None


def _line_start(text: str, start: int, end: int, number: int) -> int | None:
    """Start of line `number` of the code in text[start:end], not counting blank lines before the code."""
    at = _first_line(text, start, end)
    for _ in range(number - 1):
        at = text.find("\n", at, end) + 1
        if not at:
            return None
    return at


def _first_line(text: str, start: int, end: int) -> int:
    blank = _BLANK.match(text, start, end)
    return blank.end() if blank else start


def _join(parts: Sequence[Code]) -> Code | None:
    """The shortest run of blocks, up to the last, that is a complete candidate when joined."""
    parts = [p for p in parts if p.python and not p.error and not p.block.in_plan and p.text]
    for first in range(len(parts) - 2, max(-1, len(parts) - 1 - _MAX_JOINED), -1):
        run = parts[first:]
        text = "\n\n\n".join(part.text for part in run)
        block = replace(run[-1].block, start=run[0].block.start, before=run[0].block.before)
        code = Code(text, syntax_error(text), block)
        if code.complete:
            return code
    return None


def _code(text: str, block: Block) -> Code:
    """Read a block as Python, even if indented as a whole, as in a list."""
    code = text[block.start : block.end].replace("\r\n", "\n").replace("\ufeff", "")
    code = code[_first_line(code, 0, len(code)) :].rstrip()
    error = syntax_error(code)
    if error and code[:1] in (" ", "\t") and not syntax_error(flush := textwrap.dedent(code)):
        code, error = flush, ""
    return Code(code, error, block)
