"""References raise on a GPU what they raise on the CPU: an index that is out of range, a probability beyond 1.

There such an operator stops by an assertion on the device, or reads elsewhere, and either ends the context of the whole judge.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from kernelwright.verify.structures import Args, DispatchMode, Kwargs, Op

Given = dict[str, Any]
"""Arguments of an operator by their names in its schema."""


class Asserted(DispatchMode):
    """Looks at the values of such operators before they are launched. Raises IndexError or ValueError in their place."""

    def __torch_dispatch__(self, func: Op, types: object, args: Args = (), kwargs: Kwargs = None) -> object:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::").removesuffix("_")
        if (rule := _RULES.get(name)) is not None:
            given = {one.name: value for one, value in zip(func._schema.arguments, args, strict=False)}
            rule(given | kwargs)
        return func(*args, **kwargs)


def _within(index: object, low: int, high: int, allowed: int | None = None) -> None:
    """Raises IndexError unless all of an integer tensor lies in [low, high) or is `allowed`."""
    if not isinstance(index, torch.Tensor) or not index.numel() or index.dtype == torch.bool:
        return
    fine = (index >= low) & (index < high)
    if not bool((fine if allowed is None else fine | (index == allowed)).all()):
        raise IndexError(f"an index lies outside {low} to {high - 1}")


def _length(given: Given) -> int:
    return given["self"].shape[given["dim"]] if given["self"].ndim else 1


def _by_axes(given: Given) -> None:
    axis = 0
    for index in given["indices"]:
        mask = index is not None and index.dtype in (torch.bool, torch.uint8)
        if not mask:
            _within(index, -given["self"].shape[axis], given["self"].shape[axis])
        axis += index.ndim if mask else 1


def _classes(given: Given) -> None:
    scores = given["self"]
    _within(given["target"], 0, scores.shape[1 if scores.ndim > 1 else 0], given.get("ignore_index"))


def _between(names: tuple[str, ...], low: float, high: float) -> Callable[[Given], None]:
    def rule(given: Given) -> None:
        values = next(given[name] for name in names if name in given)
        if isinstance(values, torch.Tensor) and not bool(((values >= low) & (values <= high)).all()):
            raise ValueError(f"a value lies outside {low:g} to {high:g}")

    return rule


def _true(given: Given) -> None:
    if not bool(given["self"].all()):
        raise ValueError("an assertion of the module does not hold")


_INFINITE = float("inf")
_RULES: dict[str, Callable[[Given], None]] = {
    **dict.fromkeys(
        ("gather", "scatter", "scatter_add", "scatter_reduce", "index_select", "index_add", "index_copy", "index_reduce"),
        lambda given: _within(given["index"], 0, _length(given)),
    ),
    "index_fill": lambda given: _within(given["index"], -_length(given), _length(given)),
    **dict.fromkeys(
        ("take", "put"), lambda given: _within(given["index"], -given["self"].numel(), given["self"].numel())
    ),
    **dict.fromkeys(
        ("index", "index_put", "_index_put_impl", "_unsafe_index", "_unsafe_index_put"), _by_axes
    ),
    **dict.fromkeys(("nll_loss", "nll_loss_forward", "nll_loss2d", "nll_loss2d_forward", "multi_margin_loss"), _classes),
    **dict.fromkeys(
        ("multilabel_margin_loss", "multilabel_margin_loss_forward"),
        lambda given: _within(given["target"], -1, given["self"].shape[-1]),
    ),
    **dict.fromkeys(
        ("embedding", "_embedding_bag", "_embedding_bag_forward_only"),
        lambda given: _within(given["indices"], 0, given["weight"].shape[0]),
    ),
    "embedding_dense_backward": lambda given: _within(given["indices"], 0, given["num_weights"]),
    **dict.fromkeys(
        ("max_unpool2d", "max_unpool3d"), lambda given: _within(given["indices"], 0, math.prod(given["output_size"]))
    ),
    "binary_cross_entropy": _between(("self",), 0.0, 1.0),
    "bernoulli": _between(("p", "self"), 0.0, 1.0),
    "multinomial": _between(("self",), 0.0, _INFINITE),
    "repeat_interleave": _between(("repeats",), 0.0, _INFINITE),
    "_assert_async": _true,
}  # fmt: skip
"""What an operator (its in-place form as well) asks of its arguments, by their names in the schema."""
