"""Parameters whose first values anybody can know get secret ones, so that no literal and no identity passes for a weight.

The reference and the candidate are both built inside `varied(seed)`, so they must come to the same values whatever they
call their parameters, and whatever their constructors make of them: new values depend on the seed, on shape and old
value, and on how many of these came before. Known is what no random number went into (ones, zeros, a slope of 0.25, a
Dirac kernel, `log(arange(n))`); what a constructor draws is secret already, for its seed is. Of parameters that do not
learn only the constant ones vary: others are tables, and a kernel may know a table.

Half of the seeds are wild: learnable values get either sign, other sizes and zeros, as training may give them.

Left alone: buffers but running statistics. What a constructor computes from sizes (a mask, a table of angles) is part of
the program.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import math
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.modules.batchnorm import _NormBase
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.verify.structures import Args, Kwargs, Op, flatten

_WILD = 1 << 30
_WILD_SIZES, _WILD_ZEROS = (0.4, 4.0), 0.1
"""Of wild values: factors, with either sign, and the share of zeros among several."""
_SLIGHT = 1e-3
"""Wild values are drawn as around 0 where they begin so near to it, as the scale of a layer does: it is learnt from next to nothing."""
_SHARE = 0.25
"""Half-width of the range around a value that is not 0, as a share of it: signs stay, also of a variance."""
_WIDTH = 0.5
"""Half-width around 0; divided by the root of the fan-in where there is one."""
_MOST_BATCHES = 9
"""That a norm has seen before."""
_INITIALISERS = ("ones_", "zeros_", "constant_", "eye_", "dirac_")
_LOCK = threading.RLock()


def wild(seed: int) -> int:
    """The seed like it under which learnable values are wild."""
    return seed | _WILD


def tame(seed: int) -> int:
    """The seed like it under which values stay near those that they begin with."""
    return seed & ~_WILD


@contextlib.contextmanager
def vary_affine(seed: int) -> Iterator[Callable[[torch.nn.Module], None]]:
    """Modules that this thread builds in the block get varied parameters; call the result on the finished module.

    Known values are replaced where `torch.nn.init` or a parameter's registration shows them, since a constructor may
    compute with them, and once more in the end for those that were filled by hand. What a registration shows of memory
    that `torch.empty` has just given is nobody's value: it is filled later (drawing it was nine tenths of the seconds
    that a large layer took).
    """
    with _LOCK, _Drawn() as drawn:
        blank, vary = _Blank(), _Variation(seed, drawn)
        changed: list[tuple[object, str, Callable[..., None]]] = [
            (torch, "empty", blank.note),
            (torch.nn.Module, "register_parameter", functools.partial(vary.registered, blank)),
            (_NormBase, "reset_running_stats", vary.statistics),
            *((torch.nn.init, name, vary.initialised) for name in _INITIALISERS),
        ]
        with contextlib.ExitStack() as restored:
            for owner, name, then in changed:
                original = getattr(owner, name)
                restored.callback(setattr, owner, name, original)
                setattr(owner, name, _follow(original, then, threading.get_ident()))
            yield vary.finished


class _Drawn(TorchDispatchMode):
    """Which storages random numbers went into, in this thread."""

    def __init__(self) -> None:
        super().__init__()
        self._storages: dict[int, torch.UntypedStorage] = {}
        """Kept while this lives, so that no address comes back."""

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self._storages

    def __torch_dispatch__(self, func: Op, types: object, args: Args = (), kwargs: Kwargs = None) -> object:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        read = {key: value for key, value in kwargs.items() if key != "out"}
        given = flatten([list(args[1:] if name == "copy_" else args), read])
        secret = torch.Tag.nondeterministic_seeded in func.tags or any(one in self for one in given)
        for made in flatten(result):
            storage = made.untyped_storage()
            overwritten = name == "copy_" or "out" in kwargs
            if name in ("zero_", "fill_") or (overwritten and not secret):
                if made.numel() * made.element_size() == storage.nbytes():
                    self._storages.pop(storage._cdata, None)
            elif secret:
                self._storages[storage._cdata] = storage
        return result


class _Blank:
    """Memory that `torch.empty` gave, whatever it holds. Kept while this lives, so that no address comes back."""

    def __init__(self) -> None:
        self._storages: dict[int, torch.UntypedStorage] = {}

    def note(self, made: object, *_: object, **__: object) -> None:
        """`made` was just allocated."""
        if isinstance(made, torch.Tensor) and not made.is_meta:
            storage = made.untyped_storage()
            self._storages[storage._cdata] = storage

    def holds(self, tensor: torch.Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self._storages


def _follow(original: Callable[..., object], then: Callable[..., None], thread: int) -> Callable[..., object]:
    """`original`, and in that thread `then` of what it gave and what it was given."""

    @functools.wraps(original)
    def both(*args: object, **kwargs: object) -> object:
        result = original(*args, **kwargs)
        if threading.get_ident() == thread:
            with torch.no_grad(), torch._C.DisableTorchFunction():
                then(result, *args, **kwargs)
        return result

    return both


class _Variation:
    """Replaces known values by secret ones."""

    def __init__(self, seed: int, drawn: _Drawn) -> None:
        self._seed, self._drawn = seed, drawn
        self._seen: collections.Counter[object] = collections.Counter()

    def registered(
        self, blank: _Blank, _: None, module: torch.nn.Module, name: str, param: Any = None
    ) -> None:
        """A parameter is shown to its module."""
        if self._may_vary(param) and not blank.holds(param.data):
            param.data = self._vary(
                param.data.clone(), param.requires_grad
            )  # what it was made of may serve for something else

    def initialised(self, tensor: torch.Tensor, /, *_: object, **__: object) -> None:
        """One of torch's initialisers has filled a parameter."""
        if self._may_vary(tensor):
            self._vary(tensor.data, tensor.requires_grad)

    def statistics(self, _: None, module: Any) -> None:
        """A norm has reset its running statistics."""
        for statistic in (module.running_mean, module.running_var):
            if statistic is not None and _constant(statistic):
                self._vary(statistic, False)
        if module.num_batches_tracked is not None:  # as in the middle of training
            self._seen["batches"] += 1
            drawn = zlib.crc32(repr((self._seed, "batches", self._seen["batches"])).encode())
            module.num_batches_tracked.fill_(1 + drawn % _MOST_BATCHES)

    def finished(self, module: torch.nn.Module) -> None:
        """The constructor is through: what it filled by hand is still known."""
        with torch.no_grad(), torch._C.DisableTorchFunction():
            for parameter in module.parameters():
                self.initialised(parameter)

    def _may_vary(self, tensor: object) -> bool:
        if not isinstance(tensor, torch.nn.Parameter) or not tensor.is_floating_point():
            return False
        if tensor.is_meta or tensor.numel() == 0 or tensor.data in self._drawn:
            return False
        return _constant(tensor.data) or (tensor.requires_grad and bool(torch.isfinite(tensor.data).all()))

    def _vary(self, tensor: torch.Tensor, learns: bool) -> torch.Tensor:
        """In place: values drawn around those that `tensor` holds; of what `learns`, wild ones under a wild seed."""
        shape, fan_in = tuple(tensor.shape), math.prod(tensor.shape[1:])
        known: object = float(tensor[(0,) * tensor.ndim])
        if not _constant(tensor):
            known = zlib.crc32(tensor.detach().double().cpu().contiguous().numpy().tobytes())
        key = (shape, known)
        self._seen[key] += 1
        number = zlib.crc32(repr((self._seed, key, self._seen[key])).encode())
        generator = torch.Generator().manual_seed(number)
        noise = torch.rand(shape, generator=generator) * 2.0 - 1.0
        noise = noise.to(tensor.device)
        old = tensor.detach().float()
        if learns and self._seed & _WILD:
            low, high = _WILD_SIZES
            size = (low + (high - low) * noise.abs()) * noise.sign()
            if tensor.numel() > 1:
                size *= (torch.rand(shape, generator=generator) >= _WILD_ZEROS).to(size)
            zero = _WILD_SIZES[1] * _WIDTH / math.sqrt(max(fan_in, 1))
            return tensor.copy_(torch.where(old.abs() <= _SLIGHT, zero * noise, old * size))
        width = torch.where(old == 0.0, _WIDTH / math.sqrt(max(fan_in, 1)), _SHARE * old.abs())
        return tensor.copy_(old + width * noise)


def _constant(tensor: torch.Tensor) -> bool:
    """Whether all elements are one finite number."""
    if tensor.is_meta or tensor.numel() == 0 or not tensor.is_floating_point():
        return False
    first = tensor[(0,) * tensor.ndim]
    if not math.isfinite(float(first)):
        return False
    head = tensor[(0,) * (tensor.ndim - 1)] if tensor.ndim else tensor
    return bool((head == first).all()) and bool((tensor == first).all())
