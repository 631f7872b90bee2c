"""Parameters that begin as ones or zeros get other values, so that no identity hides that a kernel drops them.

The reference and the candidate are both built inside `varied()`, so they must come to the same values whatever they
call their parameters, and whatever their constructors make of them: the new values depend on shape and old value only.
Left alone: what does not learn (`requires_grad=False`, buffers but running statistics), and single numbers other than
0 and 1, which are as often a setting as a weight. The other random numbers of a constructor stay as they are.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase

_SHARE = 0.25
"""Half-width of the range around a constant that is not 0, as a share of it: signs stay, also of a variance."""
_WIDTH = 0.5
"""Half-width around 0; divided by the root of the fan-in where there is one."""
_INITIALISERS = ("ones_", "zeros_", "constant_")
_LOCK = threading.RLock()


@contextlib.contextmanager
def varied() -> Iterator[Callable[[torch.nn.Module], None]]:
    """Modules that this thread builds in the block get varied parameters; call the result on the finished module.

    Constants are replaced where `torch.nn.init` or a parameter's registration shows them, since a constructor may
    compute with them, and once more in the end for those that were filled by hand. What a registration shows of memory
    that `torch.empty` has just given is nobody's constant: it is filled later (drawing it was nine tenths of the seconds
    that a large layer took).
    """
    with _LOCK:
        blank = _Blank()
        changed: list[tuple[Any, str, Callable[..., None]]] = [
            (torch, "empty", blank.note),
            (torch.nn.Module, "register_parameter", functools.partial(_registered, blank)),
            (_NormBase, "reset_running_stats", _reset),
            *((torch.nn.init, name, _initialised) for name in _INITIALISERS),
        ]
        with contextlib.ExitStack() as restored:
            for owner, name, then in changed:
                original = getattr(owner, name)
                restored.callback(setattr, owner, name, original)
                setattr(owner, name, _followed(original, then, threading.get_ident()))
            yield _finished


class _Blank:
    """Memory that `torch.empty` gave, whatever it holds. Kept while this lives, so that no address comes back."""

    def __init__(self) -> None:
        self._storages: dict[int, torch.UntypedStorage] = {}

    def note(self, made: Any, *_: Any, **__: Any) -> None:
        """`made` was just allocated."""
        if isinstance(made, torch.Tensor) and not made.is_meta:
            storage = made.untyped_storage()
            self._storages[storage._cdata] = storage

    def holds(self, tensor: torch.Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self._storages


def _followed(original: Callable[..., Any], then: Callable[..., None], thread: int) -> Callable[..., Any]:
    """`original`, and in that thread `then` of what it gave and what it was given."""

    @functools.wraps(original)
    def both(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if threading.get_ident() == thread:
            with torch.no_grad(), torch._C.DisableTorchFunction():
                then(result, *args, **kwargs)
        return result

    return both


def _registered(blank: _Blank, _: None, module: torch.nn.Module, name: str, param: Any = None) -> None:
    if _learns(param) and not blank.holds(param.data) and _constant(param.data):
        param.data = _vary(param.data.clone())  # what it was made of may serve for something else


def _initialised(tensor: Any, /, *_: Any, **__: Any) -> None:
    if _learns(tensor) and _constant(tensor.data):
        _vary(tensor.data)


def _reset(_: None, module: Any) -> None:
    for statistic in (module.running_mean, module.running_var):
        if statistic is not None and _constant(statistic):
            _vary(statistic)


def _finished(module: torch.nn.Module) -> None:
    with torch.no_grad(), torch._C.DisableTorchFunction():
        for parameter in module.parameters():
            _initialised(parameter)


def _learns(parameter: Any) -> bool:
    return isinstance(parameter, torch.nn.Parameter) and parameter.requires_grad


def _constant(tensor: torch.Tensor) -> bool:
    if tensor.is_meta or tensor.numel() == 0 or not tensor.is_floating_point():
        return False
    first = tensor[(0,) * tensor.ndim]
    value = float(first)
    if not math.isfinite(value) or (tensor.numel() == 1 and value not in (0.0, 1.0)):
        return False
    head = tensor[(0,) * (tensor.ndim - 1)] if tensor.ndim else tensor
    return bool((head == first).all()) and bool((tensor == first).all())


def _vary(tensor: torch.Tensor) -> torch.Tensor:
    """In place: values drawn around the constant that `tensor` holds, by its shape and that constant."""
    value, shape = float(tensor[(0,) * tensor.ndim]), tuple(tensor.shape)
    generator = torch.Generator().manual_seed(zlib.crc32(repr((shape, value)).encode()))
    drawn = torch.rand(shape, generator=generator) * 2.0 - 1.0
    fan_in = math.prod(shape[1:])
    width = _SHARE * value if value else _WIDTH / math.sqrt(max(fan_in, 1))
    return tensor.copy_(value + width * drawn)
