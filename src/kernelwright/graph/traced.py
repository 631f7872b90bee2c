"""A module as the operators of one call, for what neither torch.export nor Dynamo follows: derivatives within `forward`
(`torch.func.jacrev`, `grad`), wrappers of tensors. What the module does besides computing, such as printing, is not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from kernelwright.graph.pairs import tensors_in


class Traced(nn.Module):
    """Runs the traced operators on the weights and buffers of `owner`."""

    def __init__(self, owner: nn.Module, operators: fx.GraphModule, form: pytree.TreeSpec) -> None:
        super().__init__()
        self.owner, self.operators, self.form = owner, operators, form
        self.train(owner.training)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return pytree.tree_unflatten(
            self.operators(_tensors(self.owner), tensors_in((args, kwargs))), self.form
        )


def trace(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Traced:
    """The module traced at the sizes of this call, on fake tensors. Raises whatever the module raises on those, as where its branches
    depend on values."""
    forms: list[pytree.TreeSpec] = []
    flat, given = pytree.tree_flatten((tuple(args), dict(kwargs)))

    def run(held: dict[str, torch.Tensor], tensors: list[torch.Tensor]) -> list[Any]:
        rest = iter(tensors)
        leaves = [next(rest) if isinstance(one, torch.Tensor) else one for one in flat]
        called = pytree.tree_unflatten(leaves, given)
        made, form = pytree.tree_flatten(torch.func.functional_call(module, held, *called))
        forms.append(form)
        return made

    operators = make_fx(run, tracing_mode="fake")(_tensors(module), tensors_in((args, kwargs)))
    return Traced(module, operators, forms[-1])


def _tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    return dict(module.named_parameters()) | dict(module.named_buffers())
