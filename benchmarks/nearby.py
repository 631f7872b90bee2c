"""Legal schedules near given ones, for tables that are wider than the library's lists."""

from __future__ import annotations

import random
import typing
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

_COUNTS = (1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 128, 256, 1024)
"""Values of decisions that are any whole number in a range."""


def _values(field: FieldInfo) -> tuple[Any, ...]:
    """The values of a decision, in order."""
    kind = field.annotation
    if typing.get_origin(kind) is typing.Literal:
        return typing.get_args(kind)
    return (False, True) if kind is bool else _COUNTS


def _moved(value: Any, kinds: Sequence[Any], dice: random.Random) -> Any:
    """The value before or after this one; for numbers that are not among them, the nearest."""
    at = min(
        range(len(kinds)),
        key=lambda one: kinds[one] != value if isinstance(value, str) else abs(kinds[one] - value),
    )
    return kinds[max(0, min(len(kinds) - 1, at + dice.choice((-1, 1))))]


def step(schedule: Any, dice: random.Random) -> Any | None:
    """The schedule with one decision changed to a neighbouring value; None if no target can run it."""
    fields = type(schedule).model_fields
    name = dice.choice([one for one in fields if one not in ("nest", "precision", "products")])
    value = getattr(schedule, name)
    if isinstance(value, tuple):
        at = dice.randrange(len(value))
        kinds = typing.get_args(fields[name].annotation)[at]
        powers = typing.get_args(kinds) if typing.get_origin(kinds) is typing.Literal else _COUNTS
        changed: Any = (*value[:at], _moved(value[at], powers, dice), *value[at + 1 :])
    else:
        changed = _moved(value, _values(fields[name]), dice)
    try:
        return type(schedule).model_validate(schedule.model_dump() | {name: changed})
    except ValidationError:
        return None


def nearby(known: Sequence[Any], seed: str, most_steps: int = 3, tries: int = 20000) -> Iterator[Any]:
    """Schedules up to `most_steps` decisions away from one of `known`, each once, in random order."""
    dice, seen = random.Random(seed), set(known)
    for _ in range(tries):
        one = dice.choice(known)
        for _ in range(dice.randint(1, most_steps)):
            one = step(one, dice) or one
        if one not in seen:
            seen.add(one)
            yield one
