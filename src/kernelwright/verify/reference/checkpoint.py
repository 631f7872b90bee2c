"""Weights as from a checkpoint, of which a constructor's draws and fills reveal nothing.

Layers that begin as copies differ then, gains that begin positive get either sign, rows and buffers of zeros get numbers, and
whole channels are pruned. `brought` draws such values for a reference's state: for learnable parameters, and for saved buffers
that begin as one number (integers and booleans included) or are drawn at random. Tables that a constructor computes from sizes
(a mask, angles), statistics of norms and frozen parameters that are not drawn stay: they are part of the program.

`faint` has elements as small as the tiny constants that a reference adds: a dead channel's variance next to an epsilon.

A candidate gets them by name, or in memory that its constructor laid out differently (`checkpointed.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch.nn.modules.batchnorm import _NormBase

from kernelwright.verify.reference.copies import copied

State = dict[str, torch.Tensor]
_Change = Callable[[torch.Tensor, torch.Generator], tuple[torch.Tensor, torch.Tensor | None]]
"""New values for a tensor, and new values that keep signs if any do."""

_FACTORS = (0.5, 1.5)
_ZEROS, _SEVERAL = 0.05, 8
"""Share of zeros in tensors of at least this many elements."""
_OUTLIERS, _GREATER = 1 / 16, (0.6, 2.0)
"""Share of a vector's elements (gains, biases) that are far larger, and by which powers of ten."""
_WIDTH = 0.5
"""Standard deviation of values for tensors of zeros."""
_WHOLE = (torch.int16, torch.int32, torch.int64)
_STEPS = 3
"""How far integers are moved."""
_MOST_ALONE = 64
"""The most tensors that are tried one by one if all at once are not accepted."""
_FEW, _MOST_HALVES = 16, 48
"""Up to how many tensors are tried with tiny elements one by one; and the most sets of more that are: beyond, a set that is felt is
taken whole."""
_TINY, _AROUND = 1e-3, (-0.5, 0.5)
"""Constants up to the first are tiny; small elements lie around them by these powers of ten."""
_FELT = 1e-2
"""Relative change of an output, if tiny elements become 0, from which the elements are taken to be added to the constant."""


def brought(
    module: torch.nn.Module, another: torch.nn.Module, seed: int, takes: Callable[[torch.nn.Module], bool]
) -> State | None:
    """New values for the state of `module`, as many as are accepted; None if none are. `another` was built with another seed,
    which reveals what is drawn at random; `takes` tells whether the reference has a meaning with a module's values."""
    generator = torch.Generator().manual_seed(seed)
    wild, near = _proposals(module, another, generator)
    if not wild:
        return None
    for proposed in (_prune(wild, generator), wild):
        if takes(_with(module, proposed)):
            return proposed
    alone = {
        name: value for name, value in list(wild.items())[:_MOST_ALONE] if takes(_with(module, {name: value}))
    }
    for proposed in (near | alone, alone, near):
        if proposed and takes(_with(module, proposed)):
            return proposed
    return None


def faint(
    module: torch.nn.Module,
    another: torch.nn.Module,
    constants: Sequence[float],
    seed: int,
    call: Callable[[torch.nn.Module], Sequence[torch.Tensor]],
) -> State | None:
    """Tensors of `brought` with single elements as small as the reference's tiny `constants`, if zeros instead of these would
    change the outputs; None if there are none. `call` gives the outputs, in double precision."""
    tiny = sorted({one for one in constants if 0.0 < one <= _TINY})
    generator = torch.Generator().manual_seed(seed)
    anew = [name for name, change in _changes(module, another) if change is _anew] if tiny else []
    state = module.state_dict()
    small: State = {}
    none: State = {}
    for name in [*anew, *(name for name in state if tiny and name.endswith("running_var"))]:
        value = state[name]
        if value.is_floating_point() and value.numel() > len(tiny):
            small[name], none[name] = value.clone(), value.clone()
            places = torch.randperm(value.numel(), generator=generator)[: len(tiny)]
            low, high = _AROUND
            sizes = 10.0 ** (low + (high - low) * torch.rand(len(tiny), generator=generator))
            small[name].view(-1)[places] = (torch.tensor(tiny) * sizes).to(value.dtype)
            none[name].view(-1)[places] = 0.0

    tried = 0

    def felt(names: Sequence[str]) -> bool:
        nonlocal tried
        tried += 1
        held = ({name: one[name] for name in names} for one in (small, none))
        pairs = zip(*(call(_with(module, one)) for one in held), strict=True)
        apart = [(float((a - b).abs().max()), float(a.abs().max())) for a, b in pairs if a.numel()]
        return any(_FELT * most < far < math.inf for far, most in apart)

    def among(names: Sequence[str]) -> list[str]:
        """Those that are felt: if the whole is, halves of it."""
        if not names or not felt(names):
            return []
        if len(names) == 1 or tried >= _MOST_HALVES:
            return list(names)
        half = len(names) // 2
        return [*among(names[:half]), *among(names[half:])]

    # Tiny elements of one layer's tensors may hide each other; a network's many layers have the same tensors each.
    alike: dict[str, list[str]] = {}
    for name in small:
        alike.setdefault(name.rpartition(".")[2] if len(small) > _FEW else name, []).append(name)
    return {name: small[name] for names in alike.values() for name in among(names)} or None


def _with(module: torch.nn.Module, values: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    return load(copied(module), values)


def load(module: torch.nn.Module, values: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    """`module`, with these values put into its state."""
    state = module.state_dict()
    with torch.no_grad():
        for name, value in values.items():
            state[name].copy_(value)
    return module


def _proposals(
    module: torch.nn.Module, another: torch.nn.Module, generator: torch.Generator
) -> tuple[State, State]:
    """By name, new values of either sign, and new values that keep signs."""
    wild: State = {}
    near: State = {}
    state = module.state_dict()
    for name, change in _changes(module, another):
        wild[name], keeps = change(state[name], generator)
        if keeps is not None:
            near[name] = keeps
    return wild, near


def _changes(module: torch.nn.Module, another: torch.nn.Module) -> Iterator[tuple[str, _Change]]:
    """What may be changed of a module's state, and how."""
    learnt = {name for name, one in module.named_parameters(remove_duplicate=False) if one.requires_grad}
    parameters = {name for name, _ in module.named_parameters(remove_duplicate=False)}
    statistics = {
        f"{path}.{name}".lstrip(".")
        for path, part in module.named_modules()
        if isinstance(part, _NormBase)
        for name, _ in part.named_buffers(recurse=False)
    }
    others = another.state_dict()
    seen: set[tuple[int, int]] = set()
    for name, value in module.state_dict().items():
        place = value.untyped_storage()._cdata, value.storage_offset()
        if not value.numel() or name in statistics or place in seen:
            continue
        seen.add(place)  # tied weights stay tied
        drawn = value.shape == others[name].shape and not torch.equal(value, others[name])
        if value.dtype in (torch.int8, torch.uint8):
            if drawn:
                yield name, _codes
            elif _begins_alike(value, name in parameters):
                yield name, _other_integers
        elif not value.is_floating_point() and not value.is_complex():
            if drawn and value.dtype in _WHOLE and int(value.max()) > torch.iinfo(value.dtype).max // 2:
                yield name, _packed
            elif _begins_alike(value, name in parameters):
                yield name, _other_integers
        elif value.is_floating_point() and bool(torch.isfinite(value).all()):
            begins_alike = name not in parameters and bool((value == value.reshape(-1)[0]).all())
            if name in learnt or drawn or begins_alike:
                yield name, _anew


def _prune(values: State, generator: torch.Generator) -> State:
    """The values with whole rows and columns of matrices 0, the first included, like pruned channels."""
    made = dict(values)
    for name, value in values.items():
        if value.is_floating_point() and value.ndim > 1:
            made[name] = value = value.clone()
            for axis in (0, 1):
                if value.shape[axis] >= _SEVERAL:
                    gone = torch.rand(value.shape[axis], generator=generator) < _ZEROS
                    gone[0] = True
                    value.index_fill_(axis, gone.nonzero()[:, 0], 0.0)
    return made


def _begins_alike(value: torch.Tensor, parameter: bool) -> bool:
    """Whether a buffer's integers or booleans are all equal: zero points, a mask that prunes nothing. Scalars do not count:
    they count calls, or tell how many there are of something."""
    return value.ndim > 0 and not parameter and bool((value == value.reshape(-1)[0]).all())


def _other_integers(value: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Integers moved up or down by a few; and some moved up by one."""
    some = torch.randint(0, 2, value.shape, generator=generator)
    if value.dtype == torch.bool:
        return value ^ some.bool(), value ^ some.bool()
    limits = torch.iinfo(value.dtype)
    steps = torch.randint(-_STEPS, _STEPS + 1, value.shape, generator=generator)
    steps = torch.where(steps == 0, 1, steps) if value.numel() == 1 else steps
    return tuple((value.long() + one).clamp(limits.min, limits.max).to(value.dtype) for one in (steps, some))  # type: ignore[return-value]


def _codes(value: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, None]:
    """Any numbers of the type."""
    least, most = torch.iinfo(value.dtype).min, torch.iinfo(value.dtype).max
    return torch.randint(least, most + 1, value.shape, generator=generator, dtype=value.dtype), None


def _packed(value: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, None]:
    """Integers of both signs, for drawn ones that use the whole range of their type: packed codes, of which the last has the
    sign bit."""
    return torch.where(torch.rand(value.shape, generator=generator) < 0.5, value.cpu(), ~value.cpu()), None


def _anew(value: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """The elements in another order, scaled, zeros replaced by numbers, a few new zeros, and signs drawn (a single element
    gets the other sign); and the same with signs kept."""
    wide = torch.promote_types(value.dtype, torch.float32)
    old = value.detach().cpu().to(wide).reshape(-1)
    count = old.numel()
    typical = float(old.square().mean().sqrt()) or _WIDTH
    low, high = _FACTORS

    def uniform() -> torch.Tensor:
        return torch.rand(count, generator=generator, dtype=wide)

    near = old[torch.randperm(count, generator=generator)] * (low + (high - low) * uniform())
    near = torch.where(near == 0.0, typical * torch.randn(count, generator=generator, dtype=wide), near)
    wild = torch.where(uniform() < 0.5, near, -near) if count > 1 else -near
    if value.ndim == 1 and count >= _SEVERAL:
        greater = torch.rand(count, generator=generator) < _OUTLIERS
        greater[int(torch.randint(count, (), generator=generator))] = True
        least, most = _GREATER
        wild = torch.where(greater, wild * 10.0 ** (least + (most - least) * uniform()), wild)
    if count >= _SEVERAL:
        wild = torch.where(uniform() < _ZEROS, 0.0, wild)
    return wild.reshape(value.shape).to(value.dtype), near.reshape(value.shape).to(value.dtype)
