"""What a reference gives where gradients are asked in another way (`gradient_ways.py`)."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools

import torch

from kernelwright.verify.gradient_ways import SPREAD, TWICE, GradientWay
from kernelwright.verify.protocol import Protocol
from kernelwright.verify.reference.cases import Case, make_case
from kernelwright.verify.reference.task_module import NotModelled, private_rng, running
from kernelwright.verify.structures import convert, flatten, same_bits

_OF_PART = -1.0
"""As `Case.scale`: not the task's own."""


def ask_another_way(case: Case, protocol: Protocol, way: GradientWay) -> Case | None:
    """`case` with its gradients asked in another way; None where the reference does not take that, or where what it leaves
    behind hangs on how many passes there were."""
    if case.changed or (case.after and way.order):
        return None
    if way.unused or way.layout or way.order == TWICE:
        try:
            made = make_case(case.name, case.module, _arguments(case, way), protocol, case.scale)
        except NotModelled:
            return None
        return made and _part(made, way)
    return _part(case, way)


def writable(case: Case) -> tuple[int, ...]:
    """Numbers of tensors, those given and then outputs, that may be written to between the passes: the reference neither raises
    then, for having kept them, nor gives other gradients."""
    if case.changed:
        return ()
    module = copy.deepcopy(case.module)
    asking = vars(module)["forward"]

    def run(*written: int) -> list[torch.Tensor]:
        asking.way = GradientWay(written=written)
        given = convert(case.inputs, torch.clone)
        with private_rng(0), running(given, case.precision):
            return flatten(module(*given))

    def as_usual(*written: int) -> bool:
        with contextlib.suppress(RuntimeError):
            return all(map(same_bits, run(*written), usual))
        return False

    usual = run()
    given = len(flatten(case.inputs)) - len(asking.positions)
    apart = [given + at for at in range(_own(case)) if max(case.aliases[at], case.shared[at]) < 0]
    found = [number for number in (*range(given), *apart) if as_usual(number)]
    return tuple(found) if as_usual(*found) else ()


def _arguments(case: Case, way: GradientWay) -> object:
    """The inputs, with the cotangents of that way: zeros of outputs that are not used, and one number or row for all. What a
    second pass begins with at a loss is 1, as everywhere: kernels that scale a gradient in place, in memory of the forward
    pass, are many, and right so."""
    places = itertools.count(-way.given)

    def changed(tensor: torch.Tensor) -> torch.Tensor:
        number = next(places)
        if number < 0:
            return tensor
        if number in way.unused:
            return torch.zeros_like(tensor)
        if way.order == TWICE and tensor.numel() == 1:
            return torch.ones_like(tensor)
        one = tensor
        if tensor.ndim and way.layout == SPREAD:
            one = tensor[(slice(0, 1),) * tensor.ndim]
        elif tensor.ndim and way.layout == "expanded":
            one = tensor[:1]
        return one.expand(tensor.shape).clone(memory_format=torch.contiguous_format)

    return convert(case.inputs, changed)


def _own(case: Case) -> int:
    """How many outputs are no gradients."""
    form = case.structure
    assert isinstance(form, dict)
    return len(case.expected) - len(form["inputs"]) - len(form["parameters"]) + 2


def _part(case: Case, way: GradientWay) -> Case:
    """The outputs, and those of the gradients that the way asks for."""
    form = case.structure
    assert isinstance(form, dict)
    inputs, parameters = len(form["inputs"]) - 1, len(form["parameters"]) - 1
    own = _own(case)
    kept = [at for at in range(inputs + parameters) if way.asked and at not in way.frozen]
    of_inputs = sum(at < inputs for at in kept)
    places = [*range(own), *(own + at for at in kept)]
    return dataclasses.replace(
        case,
        structure=form
        | {"inputs": ["tuple", *"*" * of_inputs], "parameters": ["tuple", *"*" * (len(kept) - of_inputs)]},
        expected=[case.expected[at] for at in places],
        aliases=[case.aliases[at] for at in places],
        shared=[-1 for _ in places],
        scale=_OF_PART,
        part=(case, places),
    )
