"""Tasks that ask for the backward pass, too: one call whose outputs are the module's own and the gradients.

    module(x, y, dz)  ->  {"outputs": z, "inputs": (dx, dy), "parameters": (dw, db)}

Cotangents come as arguments after the module's own, one for each output that has a gradient; gradients are asked of every
floating-point input and of every learnable parameter, by the reference's names. Reference and candidate are called by the
same code, so that all else a judge does holds of gradients: fp64, tolerances, sizes, races, who did the work.

A gradient that does not reach an input is zeros, which is wrong where the reference's is not. Does not guarantee anything
of second derivatives, nor of a forward whose gradients nobody asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from kernelwright.errors import UserError
from kernelwright.verify.structures import convert, flatten


class WithGradients:
    """A module as a function of its inputs and cotangents."""

    def __init__(self, module: torch.nn.Module, parameters: Sequence[str], positions: Sequence[int]) -> None:
        """`parameters` are names of the module's own; `positions` are those of its outputs, flat, that have cotangents."""
        self.module, self.parameters, self.positions = module, tuple(parameters), tuple(positions)

    def __call__(self, *arguments: Any) -> dict[str, object]:
        count = len(arguments) - len(self.positions)
        own = dict(self.module.named_parameters())
        learnt = [own[name] for name in self.parameters]
        before = [one.requires_grad for one in learnt]
        for one in learnt:
            one.requires_grad_(True)
        try:
            with torch.enable_grad():
                return self._both(arguments[:count], arguments[count:], learnt)
        finally:
            for one, required in zip(learnt, before, strict=True):
                one.requires_grad_(required)

    def _both(
        self, given: Sequence[object], cotangents: Sequence[torch.Tensor], learnt: Sequence[torch.Tensor]
    ) -> dict[str, object]:
        given = convert(tuple(given), _leaf)
        inputs = [one for one in flatten(given) if one.requires_grad]
        output = type(self.module).forward(self.module, *given)
        flat = flatten(output)
        if self.positions and max(self.positions) >= len(flat):
            return {"outputs": convert(output, torch.Tensor.detach)}  # one that is missing: another structure
        pairs = [(flat[at], one) for at, one in zip(self.positions, cotangents, strict=True)]
        pairs = [(made, one) for made, one in pairs if made.requires_grad]
        wanted = [*inputs, *learnt]
        found: Sequence[torch.Tensor | None] = [None] * len(wanted)
        if pairs and wanted:
            outputs, directions = zip(*pairs, strict=True)
            found = torch.autograd.grad(outputs, wanted, directions, allow_unused=True)
        whole = tuple(
            torch.zeros_like(one) if made is None else made.detach()
            for one, made in zip(wanted, found, strict=True)
        )
        return {
            "outputs": convert(output, torch.Tensor.detach),
            "inputs": whole[: len(inputs)],
            "parameters": whole[len(inputs) :],
        }


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory, as an input that gradients are asked of."""
    return tensor.detach().requires_grad_() if tensor.is_floating_point() else tensor


def learnable(module: torch.nn.Module) -> list[str]:
    """Names of the parameters that gradients are asked of."""
    return [name for name, one in module.named_parameters() if one.requires_grad and one.is_floating_point()]


def attach(module: torch.nn.Module, positions: Sequence[int]) -> torch.nn.Module:
    """The reference itself, called with cotangents from now on."""
    module.forward = WithGradients(module, learnable(module), positions)
    return module


def cotangents_of(module: torch.nn.Module, arguments: Sequence[object]) -> list[tuple[int, torch.Tensor]]:
    """(position, output without data) of each output of a reference on meta tensors that has a gradient.

    Raises UserError where none has: then there is no backward pass to ask for.
    """
    given = convert(tuple(arguments), _leaf)
    with torch.enable_grad():
        outputs = flatten(module(*given))
    found = [(at, one.detach()) for at, one in enumerate(outputs) if one.requires_grad]
    if not found:
        raise UserError(
            "gradients were asked, and no output of the reference has one; ask without --gradients"
        )
    return found


def label(position: int, structure: object) -> str:
    """What the tensor at a flat position of a `WithGradients` result is, for people; empty for the module's own outputs."""
    if not isinstance(structure, dict) or set(structure) != {"outputs", "inputs", "parameters"}:
        return ""
    own = _tensors(structure["outputs"])
    inputs = _tensors(structure["inputs"])
    if position < own:
        return ""
    if position < own + inputs:
        return f"the gradient of floating-point input {position - own}"
    return f"the gradient of parameter {position - own - inputs}"


def _tensors(form: object) -> int:
    """How many tensors a skeleton stands for."""
    if form == "*":
        return 1
    if isinstance(form, list):
        return sum(map(_tensors, form[1:]))
    return sum(map(_tensors, form.values())) if isinstance(form, dict) else 0
