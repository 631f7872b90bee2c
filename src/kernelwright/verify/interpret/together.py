"""Runs program instances concurrently: those that wait for later ones (a grid-wide barrier), and some of any launch, which are
interrupted after atomic operations as on a GPU.

Each has its own thread, of which one runs at a time. An instance hands over when it polls: when an atomic operation or volatile
load repeats an earlier one and finds the same. Waiting instances are resumed in turn until all have ended or none makes
progress. When a kernel first waits, all others are held back while it polls for long: a loop that gives up takes its other way out.
Instances that are interrupted go on in reverse order, after all others have begun (and ended, if nobody waits).
"""

from __future__ import annotations

import ast
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from triton.runtime import jit

from kernelwright.verify.interpret.endings import Stuck
from kernelwright.verify.trace.kernels import tree_of

_MOST = 1024
"""The most instances that may wait at a time."""
_ROUNDS = 4
"""How often each may poll while none finds anything new."""
HELD = 2048
"""How often the first that waits may poll in vain before the others go on."""
_ASKED = 4
"""Accesses of an instance that are remembered."""
MOST_SWITCHED, _WAITING = 64, 8
"""The most instances of a launch that are interrupted at a time; the second if any may wait for another."""


class _Ended(BaseException):
    """Unwinds an instance because another one failed."""


class _Instance:
    """An instance and its thread."""

    def __init__(self, run: Callable[[], object]) -> None:
        self._run, self._mine, self._others = run, threading.Semaphore(0), threading.Semaphore(0)
        self._recent: deque[tuple[bytes, ...]] = deque(maxlen=_ASKED)
        self.done = self.ended = False
        self.moved = True
        """Whether it did anything but poll since it was resumed."""
        self.updates = 0
        """Atomic operations and volatile loads so far."""
        self.error: BaseException | None = None
        self.back: Callable[[], None] = lambda: None
        self._thread = threading.Thread(
            target=contextvars.copy_context().run, args=(self._whole,), daemon=True
        )

    def step(self) -> None:
        """Resume it until it polls or ends. Raises what it raises."""
        self.moved = False
        if self._thread.ident is None:
            self._thread.start()
        else:
            self.back()
            self._mine.release()
        self._others.acquire()
        if self.error is not None:
            raise self.error

    def end(self) -> None:
        """Unwind it, wherever it is."""
        self.ended = True
        if self._thread.ident is not None:
            self._mine.release()
            self._thread.join()

    def asks(self, key: tuple[bytes, ...], keep: Callable[[], Callable[[], None]]) -> None:
        """Called before it reads what others may change; `keep` returns a function that restores its state."""
        if key not in self._recent:
            self._recent.append(key)
            self.moved = True
            return
        self.hand_over(keep)

    def hand_over(self, keep: Callable[[], Callable[[], None]]) -> None:
        """Let others run until it is resumed; `keep` as in `asks`."""
        self.back = keep()
        self._others.release()
        self._mine.acquire()
        if self.ended:
            raise _Ended

    def did(self) -> None:
        """Called when it has stored something."""
        self._recent.clear()
        self.moved = True

    def _whole(self) -> None:
        try:
            self._run()
        except _Ended:
            pass
        except BaseException as error:
            self.error = error
        self.done = True
        self._others.release()


class Together:
    """The instances of one launch."""

    def __init__(
        self,
        run: Callable[[int], object],
        keep: Callable[[], Callable[[], None]],
        polls: bool = True,
        stops: Callable[[int], bool] | None = None,
    ) -> None:
        """`run` runs one instance, by number; `keep` returns a function that restores the current one's state; `polls`: whether any
        may wait; `stops` tells whether to interrupt one after so many atomic operations of its own."""
        self._one, self._keep, self._polls, self._stops = run, keep, polls, stops
        self._waiting: deque[_Instance] = deque()
        self._at: _Instance | None = None
        self.waited = False
        """Whether any instance had to wait for a later one."""

    @property
    def running(self) -> bool:
        """Whether an instance is running in its thread."""
        return self._at is not None

    def run(
        self, programs: Iterable[int], held: int = 0, between: Callable[[], object] = lambda: None
    ) -> None:
        """Run all instances, in this order unless one waits; the first that does is asked again up to `held` times before the
        next one begins. `between` is called when all have begun. Raises Stuck if they wait for ever."""
        waiting, room = self._waiting, self._room
        try:
            for one in self._begun(programs):
                self._at = one
                one.step()
                while held and not one.done:
                    one.step()
                    held -= 1
                if not one.done:
                    waiting.append(one)
                    self.waited = True
                if self._stops is not None and self._polls and len(waiting) >= room:
                    self._resume(1)  # what comes later may wait for these
                    room = 2 * max(self._room, len(waiting))
            self._at = None
            between()
            self._resume(_ROUNDS)
            if waiting:
                raise Stuck(f"{len(waiting)} programs wait for one another for ever")
        finally:
            self._at = None
            for one in waiting:
                one.end()

    @property
    def _room(self) -> int:
        return _WAITING if self._polls else MOST_SWITCHED

    def _resume(self, rounds: int) -> None:
        """Resume those that wait in turn, until all have ended or none finds anything new for so many rounds."""
        waiting, idle = self._waiting, 0
        if self._stops is not None:
            waiting.reverse()
        while waiting and not (self._polls and idle > rounds * len(waiting)):
            self._at = one = waiting[0]
            one.step()
            waiting.popleft()
            if not one.done:
                waiting.append(one)
            idle = 0 if one.done or one.moved else idle + 1

    def _begun(self, programs: Iterable[int]) -> Iterator[_Instance]:
        for program in programs:
            if len(self._waiting) >= _MOST:
                raise Stuck(
                    f"more than {_MOST} programs wait for later ones, which a GPU may not hold at a time"
                )
            yield _Instance(lambda program=program: self._one(program))  # type: ignore[misc]

    def asks(self, pointers: np.ndarray, mask: np.ndarray, found: np.ndarray) -> None:
        """The current instance is about to read `found` by an atomic operation or volatile load."""
        if self._at is not None and self._polls:
            self._at.asks(tuple(one.tobytes() for one in (pointers, mask, found)), self._keep)

    def did(self) -> None:
        """The current instance has stored something."""
        if self._at is not None:
            self._at.did()

    def updated(self) -> None:
        """The current instance has done an atomic operation or volatile load."""
        if (at := self._at) is not None:
            at.updates += 1
            if self._stops is not None and len(self._waiting) <= self._room and self._stops(at.updates):
                at.hand_over(self._keep)


def polls(function: jit.JITFunction) -> bool:
    """Whether a kernel, or one that it calls, has a `while` loop in which it reads what others may change meanwhile."""
    known = _POLLS.get(function.fn)
    if known is None:
        known = _POLLS[function.fn] = _has_poll(function)
    return known


_POLLS: dict[object, bool] = {}


def _has_poll(function: jit.JITFunction) -> bool:
    tree = tree_of(function) or function.parse()
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.While)]
    inside = [part for loop in loops for part in ast.walk(loop)]
    called = called_by(function, ast.walk(tree))
    return (
        any(_is_shared_read(part) for part in inside)
        or any(polls(other) for other in called)
        or any(
            _is_shared_read(part)
            for other in called_by(function, inside)
            for part in ast.walk(tree_of(other) or other.parse())
        )
    )


def called_by(function: jit.JITFunction, nodes: Iterable[ast.AST]) -> list[jit.JITFunction]:
    """Other kernels that part of a kernel names."""
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    found = [function.fn.__globals__.get(name) for name in names]
    return [one for one in found if isinstance(one, jit.JITFunction) and one is not function]


def _is_shared_read(node: ast.AST) -> bool:
    """Whether a node is a call that reads what others may change meanwhile."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name.startswith("atomic_") or (
        name == "load" and any(word.arg == "volatile" for word in node.keywords)
    )
