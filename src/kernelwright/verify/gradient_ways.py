"""Other ways in which a user asks for gradients: what a backward pass gives may not hang on them.

    not asked                   without gradient mode, or with it where nothing requires a gradient
    frozen, layout              some inputs and weights are frozen; cotangents come with other strides, as those of a sum
    unused, order               an output is not used, and the second backward pass over one graph is compared, or that of a
                                forward pass beside another one
    written                     some inputs and outputs are written to between the passes

`draw_ways` spreads all of it over few calls, which is which drawn anew for each verdict. `subsets` are what else may be frozen: all of
it up to five gradients, of more some; who launches nothing new there is judged no further.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

TWICE, CROSSED, NESTED = "twice", "crossed", "nested"
ELSEWHERE = "-elsewhere"
"""Behind CROSSED or NESTED: the other pass is one of another size, where the module takes one."""
SPREAD = "spread"
"""Layout of one number for all elements."""
_SUBSETS = 30
"""Calls in which some gradients are wanted, at most: all subsets of five."""
_START = "gradients="
_OTHERS = ("turned", "swapped", "stepped", "padded", "expanded")


@dataclasses.dataclass(frozen=True)
class GradientWay:
    """How gradients are asked in one call."""

    asked: bool = True
    """Whether there is a backward pass; if not, `frozen` are none, in no gradient mode, or all."""
    frozen: tuple[int, ...] = ()
    """Numbers of those that have no gradient: floating-point inputs, then parameters."""
    unused: tuple[int, ...] = ()
    """Of the outputs with cotangents: which are not used."""
    layout: str = ""
    """Of the cotangents."""
    order: str = ""
    """TWICE: the second backward pass over the same graph; NESTED: after another forward pass, CROSSED: and the backward pass of
    that one; with ELSEWHERE behind, of another size."""
    given: int = 0
    """Tensors among a call's arguments that are no cotangents."""
    written: tuple[int, ...] = ()
    """Numbers of tensors, those given and then outputs, that are written to between the passes."""

    def __str__(self) -> str:
        lists = [",".join(map(str, one)) for one in (self.frozen, self.unused, self.written)]
        asked = "all" if self.asked else "none"
        return f"{_START}{asked};{lists[0]};{lists[1]};{self.layout};{self.order};{self.given};{lists[2]}"

    @staticmethod
    def read(way: str) -> GradientWay | None:
        """None for another way to call a module."""
        if not way.startswith(_START):
            return None
        asked, frozen, unused, layout, order, given, written = way.removeprefix(_START).split(";")
        numbers = [tuple(map(int, filter(None, one.split(",")))) for one in (frozen, unused, written)]
        return GradientWay(asked == "all", numbers[0], numbers[1], layout, order, int(given), numbers[2])

    def said(self) -> str:
        """For people: where something is wrong."""
        if not self.asked:
            return "where no gradient is asked for"
        orders = {
            TWICE: "in a second backward pass over the same graph",
            CROSSED: "after another forward and backward pass",
            NESTED: "after another forward pass",
            CROSSED + ELSEWHERE: "after a forward and backward pass of another size",
            NESTED + ELSEWHERE: "after a forward pass of another size",
        }
        said = [f"with number {one} of inputs and weights frozen" for one in self.frozen]
        said += [f"with output gradient {one} not used" for one in self.unused]
        said += ["with an output gradient of other strides"] if self.layout else []
        said += ["where inputs or outputs are written to between the passes"] if self.written else []
        return ", ".join([*said, orders[self.order]] if self.order else said)


def draw_ways(given: int, wanted: int, outputs: int, dice: random.Random) -> list[str]:
    """Ways for a task with so many tensors that are given, gradients that are wanted and outputs that have one: each gradient is
    frozen in one of two calls, and each output unused in one of two others."""
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
    """Ways in which some of the gradients are wanted and the others frozen, in an order that is drawn. Of too many those in which
    one is wanted alone, or frozen alone, and any others."""
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
    """About half of them, but not all; none of one."""
    return tuple(sorted(dice.sample(range(count), count // 2))) if count > 1 else ()


def _rest(chosen: Sequence[int], count: int) -> tuple[int, ...]:
    return tuple(one for one in range(count) if one not in chosen) if chosen else ()
