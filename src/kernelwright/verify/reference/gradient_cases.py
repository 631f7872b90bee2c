"""Expected results of a reference when gradients are asked in another way (`gradient_ways.py`)."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools

import torch

from kernelwright.verify.gradient_ways import SPREAD, TWICE, GradientWay
from kernelwright.verify.protocol import Protocol
from kernelwright.verify.reference.cases import Case, make_case
from kernelwright.verify.reference.copies import copied
from kernelwright.verify.reference.task_module import NotModelled, private_rng, running
from kernelwright.verify.structures import convert, flatten, same_bits

_OF_PART = -1.0
"""`Case.scale` of such cases: they are not the task's own."""


def ask_another_way(case: Case, protocol: Protocol, way: GradientWay) -> Case | None:
    """`case` with its gradients asked in another way; None if the reference does not accept that, or if the state it leaves
    depends on the number of passes."""
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
    """Numbers of tensors (inputs, then outputs) that may be overwritten between the passes: the reference did not keep them, so
    it neither raises then nor gives other gradients."""
    if case.changed:
        return ()
    module = copied(case.module)
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
    """The inputs, with cotangents as the way wants them: zeros for unused outputs, one number or row for all. At a loss a second
    pass begins with 1, as everywhere: many correct kernels scale a gradient in place, in memory of the forward pass."""
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
    """How many outputs are not gradients."""
    form = case.structure
    assert isinstance(form, dict)
    return len(case.expected) - len(form["inputs"]) - len(form["parameters"]) + 2


def _part(case: Case, way: GradientWay) -> Case:
    """The case with its outputs, and only those gradients that the way asks for."""
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
