"""Other ways in which users ask for gradients; the gradients must not depend on them.

    not asked                   without gradient mode, or with it where nothing requires a gradient
    frozen, layout              some inputs and weights are frozen; cotangents come with other strides, as those of a sum
    unused, order               an output is not used; we compare the second backward pass over one graph, or a backward
                                pass after another forward pass
    written                     some inputs and outputs are written to between the passes

`draw_ways` spreads all of these over few calls, drawn anew for each verdict. `subsets` lists further sets to freeze: all
sets for up to five gradients, some sets for more; a call that launches nothing new is not judged further.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

TWICE, CROSSED, NESTED = "twice", "crossed", "nested"
ELSEWHERE = "-elsewhere"
"""Suffix of CROSSED or NESTED: the other pass has another size, if the module takes one."""
SPREAD = "spread"
"""Layout with stride 0: one number for all elements."""
_SUBSETS = 30
"""Most calls with some gradients wanted: the proper subsets of five."""
_START = "gradients="
_OTHERS = ("turned", "swapped", "stepped", "padded", "expanded")


@dataclasses.dataclass(frozen=True)
class GradientWay:
    """How one call asks for gradients."""

    asked: bool = True
    """Whether there is a backward pass; if not, `frozen` is empty (no gradient mode) or has all."""
    frozen: tuple[int, ...] = ()
    """Indices of those without a gradient, counting floating-point inputs, then parameters."""
    unused: tuple[int, ...] = ()
    """Indices of unused outputs, counting those with cotangents."""
    layout: str = ""
    """Layout of the cotangents."""
    order: str = ""
    """TWICE: compare the second backward pass over the same graph; NESTED: a backward pass after another forward pass; CROSSED:
    after another forward and backward pass; with the suffix ELSEWHERE, those of another size."""
    given: int = 0
    """Number of a call's tensor arguments that are not cotangents."""
    written: tuple[int, ...] = ()
    """Indices of tensors written to between the passes, counting the call's inputs, then its outputs."""

    def __str__(self) -> str:
        lists = [",".join(map(str, one)) for one in (self.frozen, self.unused, self.written)]
        asked = "all" if self.asked else "none"
        return f"{_START}{asked};{lists[0]};{lists[1]};{self.layout};{self.order};{self.given};{lists[2]}"

    @staticmethod
    def read(way: str) -> GradientWay | None:
        """Parse what `str` wrote; None if `way` is of another kind."""
        if not way.startswith(_START):
            return None
        asked, frozen, unused, layout, order, given, written = way.removeprefix(_START).split(";")
        numbers = [tuple(map(int, filter(None, one.split(",")))) for one in (frozen, unused, written)]
        return GradientWay(asked == "all", numbers[0], numbers[1], layout, order, int(given), numbers[2])

    def describe(self) -> str:
        """The way in words, for error messages."""
        if not self.asked:
            return "where no gradient is asked for"
        orders = {
            TWICE: "in a second backward pass over the same graph",
            CROSSED: "after another forward and backward pass",
            NESTED: "after another forward pass",
            CROSSED + ELSEWHERE: "after a forward and backward pass of another size",
            NESTED + ELSEWHERE: "after a forward pass of another size",
        }
        parts = [f"with number {one} of inputs and weights frozen" for one in self.frozen]
        parts += [f"with output gradient {one} not used" for one in self.unused]
        parts += ["with an output gradient of other strides"] if self.layout else []
        parts += ["where inputs or outputs are written to between the passes"] if self.written else []
        return ", ".join([*parts, orders[self.order]] if self.order else parts)


def draw_ways(given: int, wanted: int, outputs: int, dice: random.Random) -> list[str]:
    """Ways for a task with `given` tensor arguments, `wanted` gradients and `outputs` with cotangents: each gradient is frozen in
    one of two calls, and each output unused in one of two others."""
    first = _some(wanted, dice)
    unused = _some(outputs, dice)
    layouts = [SPREAD, dice.choice(_OTHERS)]
    orders = [TWICE, dice.choice((CROSSED, NESTED))]
    dice.shuffle(layouts)
    dice.shuffle(orders)
    nothing = tuple(range(wanted))
    ways = [GradientWay(asked=False, frozen=frozen, given=given) for frozen in ((), nothing)]
    for frozen, layout in zip((first, _rest(first, wanted)), layouts, strict=True):
        ways.append(GradientWay(frozen=frozen, layout=layout, given=given))
    for left, order in zip((unused, _rest(unused, outputs)), orders, strict=True):
        ways.append(GradientWay(unused=left, order=order, given=given))
    ways.append(GradientWay(order=dice.choice((CROSSED, NESTED)) + ELSEWHERE, given=given))
    return list(map(str, ways))


def subsets(given: int, wanted: int, dice: random.Random) -> list[str]:
    """Ways that freeze some gradients, in random order: all proper subsets if they are few; otherwise some that freeze one, some
    that freeze all but one, and random others."""
    every = frozenset(range(wanted))
    if 2**wanted - 2 <= _SUBSETS:
        frozen = [frozenset(one for one in every if number >> one & 1) for number in range(1, 2**wanted - 1)]
    else:
        single = [frozenset([one]) for one in every]
        frozen = [*single, *(every - one for one in single)]
        frozen = dice.sample(frozen, min(len(frozen), _SUBSETS * 2 // 3))
        while len(frozen) < _SUBSETS:
            frozen.append(frozenset(dice.sample(range(wanted), dice.randint(2, wanted - 2))))
    return [
        str(GradientWay(frozen=tuple(sorted(one)), given=given)) for one in dice.sample(frozen, len(frozen))
    ]


def _some(count: int, dice: random.Random) -> tuple[int, ...]:
    """A random half of `count` indices, rounded down; none if there is only one."""
    return tuple(sorted(dice.sample(range(count), count // 2))) if count > 1 else ()


def _rest(chosen: Sequence[int], count: int) -> tuple[int, ...]:
    return tuple(one for one in range(count) if one not in chosen) if chosen else ()
