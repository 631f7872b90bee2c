"""Gives secret values to parameters whose initial values are publicly known, so that no literal or identity passes for a weight.

Reference and candidate are both built inside `vary_affine(seed)` and must get the same values, whatever they call their
parameters and whatever their constructors compute from them. So new values depend on the seed, on shape and old value, and
on how many such parameters came before. Known are values without any random number (ones, zeros, a slope of 0.25, a Dirac
kernel, `log(arange(n))`); values that a constructor draws are secret already, like its seed. Parameters that do not learn
vary only if they are constant: others are tables, which a kernel may know.

Half of the seeds are wild: learnable values get either sign, other sizes and zeros, as training may give them.

Not varied: buffers other than running statistics. What a constructor computes from sizes (a mask, a table of angles) is
part of the program.
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

from kernelwright.verify.structures import Args, DispatchMode, Kwargs, Op, flatten

_WILD = 1 << 30
_WILD_SIZES, _WILD_ZEROS = (0.4, 4.0), 0.1
"""For wild values: the range of factors (of either sign), and the share of zeros in tensors of several elements."""
_SLIGHT = 1e-3
"""Initial values up to this are drawn like zeros in wild draws: a layer scale begins near 0 and is learnt."""
_SHARE = 0.25
"""Half-width of the range around a nonzero value, relative to it, so signs stay, also a variance's."""
_WIDTH = 0.5
"""Half-width around 0, divided by the root of the fan-in if there is one."""
_MOST_BATCHES = 9
"""The most batches that a norm counts as seen."""
_INITIALISERS = ("ones_", "zeros_", "constant_", "eye_", "dirac_")
_LOCK = threading.RLock()


def wild(seed: int) -> int:
    """The seed with the bit set that makes learnable values wild."""
    return seed | _WILD


def tame(seed: int) -> int:
    """The seed with that bit cleared, so values stay near their initial ones."""
    return seed & ~_WILD


@contextlib.contextmanager
def vary_affine(seed: int) -> Iterator[Callable[[torch.nn.Module], None]]:
    """Vary parameters of modules that this thread builds in the block; call the result on the finished module.

    Known values are replaced where `torch.nn.init` or a parameter's registration reveals them, because a constructor may
    compute with them, and at the end once more for those filled by hand. A registered parameter whose memory
    `torch.empty` has just allocated is skipped: it is filled later (varying it took nine tenths of the time of building a
    large layer).
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


class _Drawn(DispatchMode):
    """Records which storages received random numbers, in this thread."""

    def __init__(self) -> None:
        super().__init__()
        self._storages: dict[int, torch.UntypedStorage] = {}
        """Kept alive, so that no address is reused."""

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
    """Records storages from `torch.empty`, which hold arbitrary values. They are kept alive, so that no address is reused."""

    def __init__(self) -> None:
        self._storages: dict[int, torch.UntypedStorage] = {}

    def note(self, made: object, *_: object, **__: object) -> None:
        """Record that `made` was just allocated."""
        if isinstance(made, torch.Tensor) and not made.is_meta:
            storage = made.untyped_storage()
            self._storages[storage._cdata] = storage

    def holds(self, tensor: torch.Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self._storages


def _follow(original: Callable[..., object], then: Callable[..., None], thread: int) -> Callable[..., object]:
    """`original`; in the given thread it then calls `then` with the result and the arguments."""

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
        """A parameter was registered with its module."""
        if self._may_vary(param) and not blank.holds(param.data):
            # The tensor it was made from may be used elsewhere.
            param.data = self._vary(param.data.clone(), param.requires_grad)

    def initialised(self, tensor: torch.Tensor, /, *_: object, **__: object) -> None:
        """An initialiser of torch has filled a parameter."""
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
        """The constructor is done: vary what it filled by hand."""
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
        """Redraw `tensor` in place around its values; if it `learns`, with wild ones under a wild seed."""
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
