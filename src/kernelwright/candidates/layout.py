"""Splits a completion at its fences and tags. Knows nothing of Python.

Inside a thought everything else is ignored, and inside a fence all tags are, so a `<plan>` in a string stays a string.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from kernelwright.records import Span

_MARK = re.compile(
    r"^[ \t\ufeff]*(?P<fence>`{3,}|~{3,})(?P<info>[^\n`]*)$|<(?P<close>/?)(?P<tag>think|thinking|plan)>",
    re.MULTILINE | re.IGNORECASE,
)


@dataclass(frozen=True)
class Block:
    """A stretch of text: the inside of a fence, or prose between fences and tags. Offsets are characters."""

    start: int
    end: int
    before: int
    """Start, including the line of its opening fence: prose before this may be the plan."""
    after: int
    """End, including the line of its closing fence."""
    fence: str = ""
    """The opening fence's ticks or tildes; empty for prose."""
    tag: str = ""
    """The fence's language, lower case."""
    closed: bool = True
    """Whether something follows it, so that it ends where the policy meant it to."""
    in_plan: bool = False


@dataclass
class Layout:
    """The parts of a completion, each list in order."""

    blocks: list[Block] = field(default_factory=list)
    prose: list[Block] = field(default_factory=list)
    thoughts: list[Span] = field(default_factory=list)
    """Spans including tags. An unclosed thought extends to the end."""
    plans: list[Span] = field(default_factory=list)
    """Spans excluding tags. An unclosed plan extends to the end."""


def scan(text: str) -> Layout:
    """Split `text` in one pass, linear in its length."""
    scanner = _Scanner(text)
    for mark in _MARK.finditer(text):
        scanner.step(mark)
    return scanner.finish()


class _Scanner:
    """What is open (`fence`, `thinking`, `plan`), and where it started (`since`)."""

    def __init__(self, text: str) -> None:
        self.text, self.layout = text, Layout()
        self.fence: Block | None = None
        self.thinking = False
        self.plan: tuple[int, int, int] | None = None
        """Offset of the plan, and the numbers of blocks and of prose parts before it."""
        self.since = 0

    def step(self, mark: re.Match[str]) -> None:
        tag, closing = (mark["tag"] or "").lower(), mark["close"] == "/"
        if self.thinking:
            if tag.startswith("think") and closing:
                self.layout.thoughts.append((self.since, mark.end()))
                self.thinking, self.since = False, mark.end()
        elif tag.startswith("think") and closing and (self.fence is None or self._alone(mark)):
            # A lone closing tag: the opening one is in the prompt, so all text before it is thought.
            self.layout = Layout(thoughts=[(0, mark.end())])
            self.fence, self.plan, self.since = None, None, mark.end()
        elif self.fence is not None:
            if mark["fence"] and mark["fence"].startswith(self.fence.fence):
                # A fence with a language opens another block: the first one was never closed.
                opens = bool(mark["info"].strip())
                self._end_fence(mark.start(), mark.start() if opens else mark.end())
                if opens:
                    self._open_fence(mark)
        elif mark["fence"]:
            self._end_prose(mark.start())
            self._open_fence(mark)
        else:
            self._end_prose(mark.start())
            self.since = mark.start() if tag != "plan" else mark.end()
            if tag != "plan":
                self.thinking = True
            elif not closing:
                self.plan = mark.end(), len(self.layout.blocks), len(self.layout.prose)
            elif self.plan is not None:
                self._end_plan(mark.start())

    def finish(self) -> Layout:
        end = len(self.text)
        if self.thinking:
            self.layout.thoughts.append((self.since, end))
        elif self.fence is not None:
            self._end_fence(end, end, closed=False)
        else:
            self._end_prose(end)
        if self.plan is not None:
            self.layout.plans.append((self.plan[0], end))
        return self.layout

    def _open_fence(self, mark: re.Match[str]) -> None:
        words = mark["info"].replace("{", " ").replace("}", " ").split()
        start = min(mark.end() + 1, len(self.text))
        tag = words[0].lower().lstrip(".") if words else ""
        self.fence = Block(start, start, mark.start(), start, mark["fence"], tag)

    def _end_fence(self, end: int, after: int, closed: bool = True) -> None:
        assert self.fence is not None
        end = max(end, self.fence.start)
        self.layout.blocks.append(replace(self.fence, end=end, after=max(after, end), closed=closed))
        self.fence, self.since = None, after

    def _end_prose(self, at: int) -> None:
        if at > self.since:
            self.layout.prose.append(Block(self.since, at, self.since, at, closed=at < len(self.text)))

    def _end_plan(self, at: int) -> None:
        """Close the plan, and mark the parts inside it."""
        assert self.plan is not None
        start, blocks, prose = self.plan
        for parts, first in ((self.layout.blocks, blocks), (self.layout.prose, prose)):
            parts[first:] = [replace(part, in_plan=True) for part in parts[first:]]
        self.layout.plans.append((start, at))
        self.plan = None

    def _alone(self, mark: re.Match[str]) -> bool:
        """Whether the mark is alone on its line."""
        start, stop = self.text.rfind("\n", 0, mark.start()) + 1, self.text.find("\n", mark.end())
        after = self.text[mark.end() : stop if stop >= 0 else None]
        return not self.text[start : mark.start()].strip() and not after.strip()
