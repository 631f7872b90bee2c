"""Which aten operators a reference runs, found by running it. Its special values and the policy depend on them.

A threshold is an operator that acts differently below and above a bound (a clamp, a comparison, a bucket). `sides` tells which
side of each bound some inputs reach, also in the middle of a chain.

Does not see a bound that the reference computes in Python.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from kernelwright.verify.reference.copies import copied
from kernelwright.verify.structures import Args, DispatchMode, Kwargs, Op, convert, flatten, same_bits

_COMPARED = (
    "gt", "ge", "lt", "le", "eq", "ne", "maximum", "minimum", "clamp", "clamp_min", "clamp_max", "where",
)  # fmt: skip
_PICKS = ("max", "amax", "argmax", "min", "amin", "argmin")
BUCKETS = frozenset(["bucketize", "searchsorted"])
_BOUNDED = {
    "hardtanh": (1, 2), "threshold": (1,), "hardshrink": (1,), "softshrink": (1,), "clamp": (1, 2), "clamp_min": (1,),
    "clamp_max": (1,), "gt": (1,), "ge": (1,), "lt": (1,), "le": (1,),
}  # fmt: skip
"""Operators with bounds, and the positions of their bounds among the arguments."""
_BETWEEN = dict.fromkeys(("gt", "ge", "lt", "le", "eq", "ne", "maximum", "minimum", "fmax", "fmin"), ("other",)) | {
    "clamp": ("min", "max"), "clamp_min": ("min",), "clamp_max": ("max",), "hardtanh": ("min_val", "max_val"),
    "threshold": ("threshold",), "hardshrink": ("lambd",), "softshrink": ("lambd",),
}  # fmt: skip
"""Operators that treat the two sides of a bound differently, and the names of their bounds in their schemas."""
NO_CHANNELS = "convolution of no channels"
"""Listed beside a convolution whose input has no channels: PyTorch then gives no channels, whatever the weights say."""
_SOFTPLUS = 20.0
_TRUTH = -1
"""In place of the number of a bound: whether a comparison is true."""
_FEW_BOUNDS = 64
"""The most elements of a tensor that may be a table of bounds."""
_MOST_KINDS = 1024
"""The most elements of a tensor that may be a table of kinds."""


class _Names(DispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.numbers: list[float] = []
        self.kinds: set[int] = set()
        self.among = self.subtracted = False
        self.draws = False
        self.picked: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> object:
        name = func._schema.name.removeprefix("aten::")
        self.seen.append(name)
        self.draws |= torch.Tag.nondeterministic_seeded in func.tags
        if name == "convolution" and args[0].shape[1] == 0:
            self.seen.append(NO_CHANNELS)
        given = (*args, *(kwargs or {}).values())
        if name in _PICKS:
            self.picked[name] = max(self.picked.get(name, 0), args[0].numel())
        self.numbers += [float(one) for one in given if _is_number(one)]
        # `isnan`, `isinf` and `isfinite` consist of these.
        if name.rstrip("_") in ("eq", "ne") and len(args) > 1:
            infinite = isinstance(args[1], float) and math.isinf(args[1])
            self.seen += ["isnan"] if args[0] is args[1] else ["isinf"] if infinite else []
            self.kinds.update(_kinds_in(args[0], args[1]))
            self.among |= all(map(_whole, args[:2]))
        self.subtracted |= name.rstrip("_") in ("sub", "rsub") and all(map(_whole, args[:2]))
        if name.rstrip("_") == "round" and "decimals" in (kwargs or {}):
            self.numbers.append(10.0 ** kwargs["decimals"])
        if name in _COMPARED or name in BUCKETS:
            for one in given:
                if isinstance(one, torch.Tensor) and one.is_floating_point() and one.numel() <= _FEW_BOUNDS:
                    self.numbers += [value for value in one.reshape(-1).tolist() if math.isfinite(value)]
        return func(*args, **(kwargs or {}))


def _whole(value: object) -> bool:
    """Whether this is a tensor of several integers."""
    if not isinstance(value, torch.Tensor) or value.numel() < 2:
        return False
    return not (value.is_floating_point() or value.is_complex())


def _kinds_in(value: object, other: object) -> list[int]:
    """Integers that an integer tensor is tested for equality with: a literal, or a table of consecutive ones."""
    if not isinstance(value, torch.Tensor) or value.is_floating_point() or value.is_complex():
        return []
    if type(other) is int:
        return [other]
    if not isinstance(other, torch.Tensor) or other.is_floating_point():
        return []
    if not 1 < other.numel() <= _MOST_KINDS:
        return []
    in_turn: list[int] = other.reshape(-1).tolist()
    return in_turn if in_turn == list(range(in_turn[0], in_turn[0] + len(in_turn))) else []


class _Sides(DispatchMode):
    """Records which sides of each bound the values of one call reach."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[Side] = set()
        self._calls = 0

    def __torch_dispatch__(self, func: Op, types: object, args: Args = (), kwargs: Kwargs = None) -> object:
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        bounded = name in _BOUNDED or name == "softplus"
        self._calls += bounded
        value = args[0] if bounded and isinstance(args[0], torch.Tensor) else torch.empty(0)
        for number, bound in enumerate(_bounds(name, args, kwargs or {}) if bounded else ()):
            if value.is_floating_point() and value.numel():
                self.found.update(
                    (self._calls, number, side)
                    for side, met in ((False, value < bound), (True, value > bound))
                    if bool(met.any())
                )
        out = func(*args, **(kwargs or {}))
        if (
            bounded
            and value.is_floating_point()
            and isinstance(out, torch.Tensor)
            and out.dtype == torch.bool
        ):
            self.found.update((self._calls, _TRUTH, truth) for truth in set(out.reshape(-1).tolist()))
        return out


def _bounds(name: str, args: Any, kwargs: Any) -> Iterator[float]:
    if name == "softplus":
        yield (args[2] if len(args) > 2 else kwargs.get("threshold", _SOFTPLUS)) / (
            args[1] if len(args) > 1 else 1.0
        )
        return
    named = [kwargs[key] for key in ("min", "max", "lambd") if key in kwargs]
    for one in (*(args[place] for place in _BOUNDED[name] if place < len(args)), *named):
        if _is_number(one) or (isinstance(one, torch.Tensor) and one.numel() == 1):
            yield float(one)


class Operators(tuple[str, ...]):
    """Names of the aten operators of one call, without overloads, in order; and the numbers that they are given."""

    landmarks: tuple[float, ...] = ()
    """Thresholds, bounds and constants, without repetition."""
    kinds: frozenset[int] = frozenset()
    """Integers that values are tested for equality with."""
    settled: bool = False
    """Whether evaluation mode computes the same, as far as that was asked."""
    among: bool = False
    """Whether integers are tested for equality with each other."""
    of_pairs: frozenset[str] = frozenset()
    """Maxima and minima that are taken of more elements than any input has."""
    subtracted: bool = False
    """Whether integers are subtracted from each other."""
    random: bool = False
    """Whether outputs depend on random numbers that the call draws."""


def operators(module: torch.nn.Module, inputs: Any, modes: bool = False) -> Operators:
    """The operators of one call; `modes` also computes `settled`. Raises what the reference raises."""

    def call(evaluating: bool) -> tuple[_Names, Any]:
        names, own = _Names(), copied(module)
        given = convert(inputs, torch.clone)
        with torch.no_grad(), names:
            return names, [(own.eval() if evaluating else own)(*given), *own.buffers()]

    names, outputs = call(False)
    found = Operators(names.seen)
    found.landmarks, found.kinds = tuple(dict.fromkeys(names.numbers)), frozenset(names.kinds)
    found.among, found.subtracted = names.among, names.subtracted
    most = max((one.numel() for one in flatten(inputs)), default=0)
    found.of_pairs = frozenset(name for name, count in names.picked.items() if count > most)
    if names.draws:
        found.random = not all(map(same_bits, flatten(outputs), flatten(call(False)[1])))
    if modes:
        others, again = call(True)
        found.settled = names.seen == others.seen and all(map(same_bits, flatten(outputs), flatten(again)))
    return found


Side = tuple[int, int, bool]
"""See `sides`."""


def sides(module: torch.nn.Module, inputs: object) -> set[Side]:
    """(number of the threshold in call order, number of its bound, whether above) of every side that some value reaches, and of
    comparisons what they find (at equality alone, they may find what no value on the other side does). Raises what the reference
    raises."""
    found = _Sides()
    fresh, given = copied(module), convert(inputs, torch.clone)
    with torch.no_grad(), found:
        fresh(*given)
    return found.found


_CLAMPS = ("clamp", "clamp_min", "clamp_max")
"""Operators that pass a gradient at their bounds."""
_SHARING = {"amax": -1, "amin": 0}
"""Operators that share a gradient evenly among equal elements, and the place of theirs in order of size."""
REDUCING = ("scatter_reduce", "index_reduce")
"""Operators that do so by the name of a reduction, and take what they reduce after an index."""
SIDED = ("gt", "ge", "lt", "le", "eq", "ne")
_SOME = 5
"""Values that are taken of an input that is compared with an input."""


class _OfInputs(DispatchMode):
    """Records the bounds of operators that are applied to inputs as they are, or to copies of them, and values of inputs that
    are compared with inputs. For `gradients`, only where equality has one: bounds of clamps, and the largest or least values of
    what `amax` or `amin` takes."""

    def __init__(self, given: Sequence[torch.Tensor], gradients: bool) -> None:
        super().__init__()
        self.found: dict[int, set[float]] = {}
        self.tied: dict[int, set[float]] = {}
        """By place, values of which several elements are to be equal."""
        self._gradients = gradients
        self._held = list(given)  # storages of freed tensors may be given again
        self._known = {one.untyped_storage()._cdata: place for place, one in enumerate(given)}

    def __torch_dispatch__(self, func: Op, types: object, args: Args = (), kwargs: Kwargs = None) -> object:
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        value = args[0] if args else None
        out = func(*args, **(kwargs or {}))
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            place = self._known.get(value.untyped_storage()._cdata)
            if place is not None and name in (_CLAMPS if self._gradients else _BETWEEN):
                bounds = _bounds_between(func, name, args, kwargs or {})
                self.found.setdefault(place, set()).update(filter(math.isfinite, bounds))
            if place is not None and name in ("clone", "_to_copy") and isinstance(out, torch.Tensor):
                self._held.append(out)
                self._known[out.untyped_storage()._cdata] = place
            if place is not None and value.numel() > 1:
                self._note_ties(name, place, value, args[1] if len(args) > 1 else None)
        if self._gradients and name in REDUCING:
            self._note_ties_in_groups(args[3], args[4])
        return out

    def _note_ties_in_groups(self, source: Any, reduction: Any) -> None:
        place = self._known.get(source.untyped_storage()._cdata)
        if place is not None and source.numel() > 1 and reduction in _SHARING:
            self._note_ties(reduction, place, source, None)

    def _note_ties(self, name: str, place: int, value: torch.Tensor, other: object) -> None:
        if self._gradients and name in _SHARING:
            self.tied.setdefault(place, set()).add(float(_in_order(value)[_SHARING[name]]))
        if self._gradients or name not in SIDED or not isinstance(other, torch.Tensor):
            return
        beside = self._known.get(other.untyped_storage()._cdata)
        if beside is not None and other.numel() > 1:
            in_order = _in_order(value)
            some = in_order[torch.linspace(0, len(in_order) - 1, _SOME).long()].tolist()
            for one in (place, beside):
                self.tied.setdefault(one, set()).update(some)


def _in_order(value: torch.Tensor) -> torch.Tensor:
    return value.detach().reshape(-1).sort().values


def _bounds_between(func: Op, name: str, args: Any, kwargs: Any) -> Iterator[float]:
    """The bounds that an operator has, defaults included; of a tensor if it is one number."""
    for place, argument in enumerate(func._schema.arguments):
        if argument.name not in _BETWEEN[name]:
            continue
        bound = args[place] if place < len(args) else kwargs.get(argument.name, argument.default_value)
        if _is_number(bound) or (isinstance(bound, torch.Tensor) and bound.numel() == 1):
            yield float(bound)
            if argument.name == "lambd":
                yield -float(bound)


def bounds_of_inputs(
    module: torch.nn.Module, inputs: object, gradients: bool = False
) -> tuple[dict[int, list[float]], dict[int, list[float]]]:
    """By place of an input among the tensors: numbers on whose two sides the reference treats it differently, as it compares or
    clamps the input itself; and values of its own of which several should be equal, as it is compared with an input. Raises what
    the reference raises."""
    given = convert(inputs, torch.clone)
    found = _OfInputs(flatten(given), gradients)
    with torch.no_grad(), found:
        copied(module)(*given)
    bounds, tied = ({place: sorted(some) for place, some in one.items()} for one in (found.found, found.tied))
    return bounds, tied


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
