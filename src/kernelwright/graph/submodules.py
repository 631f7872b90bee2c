"""A model's submodules, each with the arguments of its own call in one forward pass, without duplicates.

Takes modules whose class the package itself defines (not `torch.nn`) and which run 2 to 300 computing operators in that pass,
views not counted. A module that does no more than one of its children is a wrapper, and the child is taken instead. At most
two modules of each class per model, those called first with different shapes or configurations.

Does not guarantee that a module runs by itself: `Called.make` checks that.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

LEAST, MOST, PER_CLASS = 2, 300, 2


@dataclass
class Called:
    """One submodule with the arguments of its call in the model's forward pass, in float32."""

    path: str
    """Dotted name in the model; empty: the model itself."""
    module: torch.nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    digest: str
    """Identity by class, configuration and shapes: 12 hex digits."""
    operators: int = 0
    """Number of computing operators in its eager call."""
    seconds: float = 0.0

    @property
    def cls(self) -> str:
        """The full name of its class."""
        return f"{type(self.module).__module__}.{type(self.module).__qualname__}"

    def make(self, dtype: str) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        """A copy in that dtype and its inputs, after a test run. Raises what the module raises."""
        wanted = getattr(torch, dtype)

        def cast(leaf: object) -> object:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            return leaf.to(wanted) if leaf.dtype == torch.float32 else leaf.clone()

        module = self.module if dtype == "float32" else copy.deepcopy(self.module).to(wanted)
        args, kwargs = pytree.tree_map(cast, self.args), pytree.tree_map(cast, self.kwargs)
        with torch.no_grad():
            module(*pytree.tree_map(_copy, args), **pytree.tree_map(_copy, kwargs))
        return module, args, kwargs


def submodules(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    package: str = "",
    *,
    whole: bool = False,
) -> list[Called]:
    """Run the model once, in float32 and eval mode; returns its submodules in the order of their first call.

    Only classes of `package` if it is given, else all except torch's; `whole`: the model itself, too. Raises what
    the model raises.
    """
    model = model.float().eval()
    args, kwargs = pytree.tree_map(_single, (tuple(args), dict(kwargs)))
    counter = _Counter()
    calls: dict[str, Called] = {}
    handles = []
    for path, module in model.named_modules():
        home = type(module).__module__.partition(".")[0]
        if (home == package if package else home != "torch") and (path or whole):
            handles += _watch(path, module, counter, calls)
    try:
        with torch.no_grad(), counter:
            model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return _select(calls)


def _select(calls: dict[str, Called]) -> list[Called]:
    """Calls that are neither too small nor too large nor wrappers, without duplicates, few per class."""
    chosen: list[Called] = []
    seen: set[str] = set()
    classes: dict[str, int] = {}
    for one in calls.values():
        prefix = f"{one.path}." if one.path else ""
        children = [x for path, x in calls.items() if path != one.path and path.startswith(prefix)]
        wrapper = any(child.operators == one.operators for child in children)
        if not LEAST <= one.operators <= MOST or wrapper or one.digest in seen:
            continue
        if classes.get(one.cls, 0) < PER_CLASS:
            seen.add(one.digest)
            classes[one.cls] = classes.get(one.cls, 0) + 1
            chosen.append(one)
    return chosen


def _watch(path: str, module: torch.nn.Module, counter: _Counter, calls: dict[str, Called]) -> list[Any]:
    """Hooks that keep the module's first call with a tensor among its arguments."""
    running: list[int] = []

    def before(called: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        running.append(counter.computed)
        if path not in calls and any(isinstance(x, torch.Tensor) for x in pytree.tree_leaves((args, kwargs))):
            counted = counter.computed
            kept = pytree.tree_map(_copy, args), pytree.tree_map(_copy, kwargs)
            counter.computed = counted
            calls[path] = Called(path, called, *kept, _digest(called, *kept))

    def after(called: torch.nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        start = running.pop()
        if path in calls and not calls[path].operators:
            calls[path].operators = counter.computed - start

    return [
        module.register_forward_pre_hook(before, with_kwargs=True),
        module.register_forward_hook(after, with_kwargs=True),
    ]


class _Counter(TorchDispatchMode):
    """Counts operators that make new tensors or write into old ones; views do not count."""

    def __init__(self) -> None:
        super().__init__()
        self.computed = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        returns = func._schema.returns
        view = any(one.alias_info is not None and not one.alias_info.is_write for one in returns)
        self.computed += bool(returns) and not view
        return func(*args, **(kwargs or {}))


def _single(leaf: object) -> object:
    return leaf.float() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf


def _copy(leaf: object) -> object:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def _digest(module: torch.nn.Module, args: Any, kwargs: Any) -> str:
    def described(leaf: object) -> str:
        if isinstance(leaf, torch.Tensor):
            return f"{leaf.dtype}{tuple(leaf.shape)}"
        return repr(leaf) if isinstance(leaf, bool | int | float | str | None) else type(leaf).__name__

    leaves, _ = pytree.tree_flatten((args, kwargs))
    plain = {key: value for key, value in vars(module).items() if isinstance(value, bool | int | float | str)}
    state = [
        (key, tuple(value.shape)) for key, value in module.state_dict().items() if torch.is_tensor(value)
    ]
    body = (
        f"{type(module)}\n{module!r}\n{sorted(plain.items())}\n{state}\n{[described(one) for one in leaves]}"
    )
    return hashlib.sha256(body.encode()).hexdigest()[:12]
