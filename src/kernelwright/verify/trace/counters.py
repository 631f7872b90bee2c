"""Numbers by which a module could count its calls, moved far ahead: what thousands of calls would have made of them.

A forward pass that does its work for the first fifty calls only would need as many calls to be found out. Instead, what
grew by the same amount at each of several calls grows by a large multiple of that at once. An honest counter does not
mind: what the pass does is the same before and after.

Not guaranteed: a counter inside an object that is neither a module's, a container's nor the candidate's own, and one
that acts at single numbers only (every thousandth call) mostly stay unseen.
"""

from __future__ import annotations

import itertools
import random
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import torch

_NODES, _DEPTH = 5000, 6
_MOST_ITEMS, _MOST_STEPS = 4096, 100_000
_SAME_STEPS = 3
"""Calls at which a number must have grown alike."""
Place = tuple[int, Any]
"""By identity of what holds a number, and where in it."""


class Counters:
    """Of one module and the namespace that it was made in. `look` after each call, then `jump`."""

    def __init__(self, module: torch.nn.Module, namespace: dict[str, Any]) -> None:
        self._roots = (module, namespace)
        self._name = namespace.get("__name__", "")
        self._looks: list[dict[Place, tuple[float, Callable[[Any], None]]]] = []
        self._undo: list[tuple[Callable[[Any], None], Any]] = []

    def look(self) -> None:
        """Note every number as it is now."""
        found = {place: (value, put) for place, value, put in self._numbers()}
        self._looks = [*self._looks[-_SAME_STEPS:], found]

    def jump(self, dice: random.Random) -> bool:
        """Move on what grew alike at the last calls, and every `itertools.count`; whether there was any of the first."""
        self._undo.clear()
        _advance((vars(self._roots[0]), self._roots[1]), dice)
        if len(self._looks) <= _SAME_STEPS:
            return False
        *earlier, now = self._looks
        for place, (value, put) in now.items():
            values = [look[place][0] for look in earlier if place in look] + [value]
            steps = {after - before for before, after in itertools.pairwise(values)}
            if len(values) == len(self._looks) and len(steps) == 1 and (step := steps.pop()):
                self._undo.append((put, value))
                put(value + step * int(10.0 ** dice.uniform(2.5, 7.5)))
        self._looks.clear()
        return bool(self._undo)

    def undo(self) -> None:
        """Put back what the last jump moved."""
        for put, value in self._undo:
            put(value)

    def _numbers(self) -> Iterator[tuple[Place, float, Callable[[Any], None]]]:
        seen: set[int] = set()
        queue: deque[tuple[Any, int]] = deque((root, 0) for root in self._roots)
        while queue and len(seen) < _NODES:
            one, depth = queue.popleft()
            if id(one) in seen or depth > _DEPTH:
                continue
            seen.add(id(one))
            if isinstance(one, list | deque):
                yield (id(one), len), len(one), _lengthened(one)
            for key, value, put in self._inside(one):
                if isinstance(value, int | float) and not isinstance(value, bool):
                    yield (id(one), key), value, put
                elif not isinstance(value, str | bytes | torch.Tensor):
                    queue.append((value, depth + 1))

    def _inside(self, one: Any) -> Iterator[tuple[Any, Any, Callable[[Any], None]]]:
        """(key, value, how to put another one there) of what is held by an object of the candidate's."""
        if isinstance(one, itertools.count):
            return
        if isinstance(one, dict):
            for key, value in list(dict.items(one)):
                yield key, value, _into(one, key)
        elif isinstance(one, list | deque):
            for place, value in enumerate(list(one)):
                yield place, value, _into(one, place)
        elif isinstance(one, tuple | set | frozenset):
            for place, value in enumerate(one):
                if not isinstance(value, int | float):
                    yield place, value, _nowhere
        elif isinstance(one, types.FunctionType):
            if one.__module__ != self._name:
                return
            for cell in one.__closure__ or ():
                try:
                    yield (
                        id(cell),
                        cell.cell_contents,
                        _onto(cell, "cell_contents"),
                    )
                except ValueError:  # not filled yet
                    continue
            yield from self._inside([*(one.__defaults__ or ()), one.__dict__])
        elif isinstance(one, types.MethodType):
            yield "self", one.__self__, _nowhere
        elif isinstance(one, type) and one.__module__ == self._name:
            for key, value in list(vars(one).items()):
                yield key, value, _onto(one, key)
        elif isinstance(one, torch.nn.Module) or type(one).__module__ == self._name:
            held = getattr(one, "__dict__", {})
            yield "class", type(one), _nowhere
            for key, value in list(held.items()):
                yield key, value, _into(held, key)


def _advance(roots: tuple[Any, ...], dice: random.Random) -> None:
    """Move on every `itertools.count` directly in one of some namespaces."""
    for root in roots:
        for value in list(root.values()):
            if isinstance(value, itertools.count):
                for _ in range(int(10.0 ** dice.uniform(1.0, 5.0))):
                    next(value)


def _into(held: Any, key: Any) -> Callable[[Any], None]:
    def put(value: Any) -> None:
        held[key] = value

    return put


def _onto(owner: Any, name: str) -> Callable[[Any], None]:
    def put(value: Any) -> None:
        setattr(owner, name, value)

    return put


def _nowhere(value: Any) -> None:
    """For what cannot be replaced."""


def _lengthened(items: Any) -> Callable[[Any], None]:
    def put(length: Any) -> None:
        length = min(int(length), len(items) + _MOST_ITEMS)
        while len(items) > length:
            items.pop()
        if items:
            items.extend([items[-1]] * (length - len(items)))

    return put
