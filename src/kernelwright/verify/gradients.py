"""Tasks with a backward pass: one call returns the module's outputs and the gradients.

    module(x, y, dz)  ->  {"outputs": z, "inputs": (dx, dy), "parameters": (dw, db)}

Cotangents are further arguments after the module's own, one for each output that has a gradient. We ask for gradients of
every floating-point input and every learnable parameter, by the reference's names. The same code calls reference and
candidate, so all checks apply to gradients, too: fp64, tolerances, sizes, races, causality.

If no gradient reaches an input, it counts as zeros. Other ways (`gradient_ways.py`) ask for fewer gradients or do more
between the passes. Second derivatives are not checked.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from kernelwright.errors import UserError
from kernelwright.verify.gradient_ways import CROSSED, ELSEWHERE, NESTED, TWICE, GradientWay
from kernelwright.verify.structures import convert, flatten

Watch = Callable[[object], contextlib.AbstractContextManager[object]]


class WithGradients:
    """A module as a function of its inputs and cotangents."""

    def __init__(
        self,
        module: torch.nn.Module,
        parameters: Sequence[str],
        positions: Sequence[int],
        way: GradientWay = GradientWay(),
        beside: Sequence[object] = (),
        watch: Watch = contextlib.nullcontext,
    ) -> None:
        """`parameters`: names of the module's parameters; `positions`: flat indices of its outputs that have cotangents. `beside`:
        arguments of another size, with cotangents, for passes in between (`ELSEWHERE`). `watch(arguments)` is a context around
        all passes."""
        self.module, self.parameters, self.positions = module, tuple(parameters), tuple(positions)
        self.way, self.beside, self.watch = way, tuple(beside), watch

    def asked(self, way: GradientWay) -> WithGradients:
        """The same module, called in another way."""
        return WithGradients(self.module, self.parameters, self.positions, way, self.beside, self.watch)

    def __call__(self, *arguments: Any) -> dict[str, object]:
        count = len(arguments) - len(self.positions)
        given, cotangents = arguments[:count], arguments[count:]
        own = dict(self.module.named_parameters())
        learnt = [own[name] for name in self.parameters]
        before = [one.requires_grad for one in learnt]
        inputs = sum(one.is_floating_point() for one in flatten(given))
        for number, one in enumerate(learnt):
            one.requires_grad_(inputs + number not in self.way.frozen)
        try:
            if not self.way.asked:
                with torch.set_grad_enabled(bool(self.way.frozen)), self.watch(given):
                    output = self._forward(given)
                return {"outputs": convert(output, torch.Tensor.detach), "inputs": (), "parameters": ()}
            floating = itertools.count()

            def leaf(tensor: torch.Tensor) -> torch.Tensor:
                wanted = tensor.is_floating_point() and next(floating) not in self.way.frozen
                return _leaf(tensor) if wanted else tensor

            given = convert(tuple(given), leaf)
            with torch.enable_grad(), self.watch(given):
                return self._both(given, cotangents, [one for one in learnt if one.requires_grad])
        finally:
            for one, required in zip(learnt, before, strict=True):
                one.requires_grad_(required)

    def _forward(self, given: Sequence[object]) -> Any:
        if isinstance(vars(self.module).get("forward"), WithGradients):  # the reference (`attach`)
            return type(self.module).forward(self.module, *given)
        return self.module(*given)

    def _both(
        self, given: Sequence[object], cotangents: Sequence[torch.Tensor], learnt: Sequence[torch.Tensor]
    ) -> dict[str, object]:
        inputs = [one for one in flatten(given) if one.requires_grad]
        wanted = [*inputs, *learnt]
        output = self._forward(given)
        if self.way.order.startswith((CROSSED, NESTED)):
            others, directions = convert(given, _another), cotangents
            if self.beside and self.way.order.endswith(ELSEWHERE):
                every = convert(self.beside, _another)
                others, directions = every[: len(given)], [one.detach() for one in every[len(given) :]]
            other = self._forward(others)
            if self.way.order.startswith(CROSSED):
                leaves = [one for one in flatten(others) if one.requires_grad]
                self._gradients(other, directions, [*leaves, *learnt])
        flat = flatten(output)
        if self.positions and max(self.positions) >= len(flat):
            return {"outputs": convert(output, torch.Tensor.detach)}  # too few: another structure
        with self._write_to([*flatten(given), *flat]):
            found = self._gradients(output, cotangents, wanted)
        whole = tuple(
            torch.zeros_like(one) if made is None else made.detach()
            for one, made in zip(wanted, found, strict=True)
        )
        return {
            "outputs": convert(output, torch.Tensor.detach),
            "inputs": whole[: len(inputs)],
            "parameters": whole[len(inputs) :],
        }

    @contextlib.contextmanager
    def _write_to(self, tensors: Sequence[torch.Tensor]) -> Iterator[None]:
        """Fill some tensors with zeros for the block, as a layer that works in place might overwrite them."""
        held = [(tensors[n], tensors[n].detach().clone()) for n in self.way.written if n < len(tensors)]
        with torch.no_grad():
            for one, _ in held:
                one.zero_()
        yield
        with torch.no_grad():
            for one, before in held:
                one.copy_(before)

    def _gradients(
        self, output: object, cotangents: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]
    ) -> Sequence[torch.Tensor | None]:
        """Gradients of those `wanted`, None where no output depends on one; of the second pass, if there are two."""
        flat = flatten(output)
        used = [
            pair
            for n, pair in enumerate(zip(self.positions, cotangents, strict=True))
            if n not in self.way.unused
        ]
        pairs = [(flat[at], one) for at, one in used if at < len(flat) and flat[at].requires_grad]
        if not pairs or not wanted:
            return [None] * len(wanted)
        outputs, directions = zip(*pairs, strict=True)
        if self.way.order == TWICE:
            torch.autograd.grad(outputs, wanted, directions, retain_graph=True, allow_unused=True)
        return torch.autograd.grad(outputs, wanted, directions, allow_unused=True)


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as a leaf tensor that requires a gradient."""
    return tensor.detach().requires_grad_() if tensor.is_floating_point() else tensor


def _another(tensor: torch.Tensor) -> torch.Tensor:
    """Zeros like a tensor, for another forward pass."""
    return torch.zeros_like(tensor, requires_grad=tensor.requires_grad)


def learnable(module: torch.nn.Module) -> list[str]:
    """Names of the floating-point parameters that require gradients."""
    return [name for name, one in module.named_parameters() if one.requires_grad and one.is_floating_point()]


def attach(module: torch.nn.Module, positions: Sequence[int]) -> torch.nn.Module:
    """The reference itself, whose calls take cotangents from now on."""
    module.forward = WithGradients(module, learnable(module), positions)
    return module


def cotangents_of(module: torch.nn.Module, arguments: Sequence[object]) -> list[tuple[int, torch.Tensor]]:
    """(position, output without data) of each output of a reference on meta tensors that has a gradient.

    Raises UserError if none has: then there is no backward pass.
    """
    given = convert(tuple(arguments), _leaf)
    with torch.enable_grad():
        outputs = flatten(module(*given))
    found = [(at, one.detach()) for at, one in enumerate(outputs) if one.requires_grad]
    if not found:
        raise UserError("no output of the reference has a gradient; leave out --gradients")
    return found


def label(position: int, structure: object) -> str:
    """Describe the tensor at a flat position of a `WithGradients` result; empty for the module's own outputs."""
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
    """Number of tensors in a skeleton."""
    if form == "*":
        return 1
    if isinstance(form, list):
        return sum(map(_tensors, form[1:]))
    return sum(map(_tensors, form.values())) if isinstance(form, dict) else 0
