"""What every module does with its weights: they are listed, saved, loaded and copied.

A checkpoint holds all that is registered, loading one reaches it, and a copy has memory of its own. Names are the module's own
business; a `state_dict()` under the reference's names in their place is as good.

Does not try casts and moves to another device, nor pickles; nor loads more than `_MOST` numbers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence

import torch

from kernelwright.outcomes import Outcome
from kernelwright.verify.sandbox.service import Failure
from kernelwright.verify.structures import flatten, same_bits
from kernelwright.verify.trace.left_behind import tensors_held
from kernelwright.verify.trace.pretend_cuda import storage_of

_MOST = 1 << 22
_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_UNCOPIED = (TypeError, RuntimeError, NotImplementedError, AttributeError, ValueError)
"""What says so to a user as well."""


def copy_module(
    module: torch.nn.Module, wanted: Mapping[str, torch.Tensor], tied: Sequence[Sequence[str]] = ()
) -> torch.nn.Module:
    """A copy of a module, itself where it cannot be copied; `wanted` has the names of the reference's weights, `tied` those that
    are one parameter there. Raises Failure where it does not do what a module does."""
    _lists(module)
    for names in tied:
        _is_one(module, names, wanted[names[0]])
    saved = _save(module, wanted)
    try:
        made = copy.deepcopy(module)
    except _UNCOPIED:
        made = None
    if made is not None:
        _is_apart(module, made)
    _loads(module if made is None else made, saved)
    return module if made is None else made


def _stop(detail: str) -> Failure:
    return Failure(Outcome.STATEFUL, f"it does not behave as a module: {detail}")


def _lists(module: torch.nn.Module) -> None:
    parameters = {id(one) for _, one, learns, _ in tensors_held(module) if learns}
    buffers = {id(one) for _, one, learns, _ in tensors_held(module) if not learns}
    for what, found, own in (
        ("parameters()", module.parameters(), parameters),
        ("named_parameters()", (one for _, one in module.named_parameters()), parameters),
        ("named_buffers()", (one for _, one in module.named_buffers()), buffers),
    ):
        if set(map(id, found)) != own:
            raise _stop(f"{what} does not give what is registered")


def _is_one(module: torch.nn.Module, names: Sequence[str], like: torch.Tensor) -> None:
    """Parameters under the `names` of one parameter of the reference, which is `like` this, are one here; so are two of its elements
    that begin as copies, whatever they are called."""
    own = {
        name: one for name, one, learns, _ in tensors_held(module) if learns and one.numel() == like.numel()
    }
    one = next((own[name] for name in names if name in own), None)
    alike = [name for name, other in own.items() if one is not None and name in names and other is not one]
    if one is None or not alike:
        known: dict[int, tuple[str, torch.Tensor]] = {}
        for name, one in own.items():
            for other, elements in known.values():
                if id(one) not in known and same_bits(elements, one.detach().reshape(-1).sort().values):
                    alike, names = [name], [other]
            known[id(one)] = known.get(id(one)) or (name, one.detach().reshape(-1).sort().values)
    if alike:
        detail = f"{alike[0]} and {next(name for name in names if name in own)} are one parameter of the reference, "
        raise _stop(f"{detail}and two of its own: what is learnt by one does not reach the other")


def _save(module: torch.nn.Module, wanted: Mapping[str, object]) -> dict[str, torch.Tensor]:
    """Its `state_dict()`, which holds each registered weight, or has all names of the reference's."""
    saved = {name: one for name, one in module.state_dict().items() if isinstance(one, torch.Tensor)}
    for name, one, _, kept in tensors_held(module):
        if kept and name not in saved and not wanted.keys() <= saved.keys():
            raise _stop(f"state_dict() leaves {name} out")
        if name in saved and not same_bits(saved[name], one):
            raise _stop(f"state_dict() holds something else under {name}")
    return saved


def _is_apart(module: torch.nn.Module, made: torch.nn.Module) -> None:
    if made is module or not isinstance(made, torch.nn.Module):
        raise _stop("copy.deepcopy() gives no other module")
    own, its = ({name: one for name, one, *_ in tensors_held(one)} for one in (module, made))
    if own.keys() != its.keys() or not all(same_bits(own[name], one) for name, one in its.items()):
        raise _stop("copy.deepcopy() gives a module with other weights")
    if set(_memory(module)) & set(_memory(made)):
        raise _stop(
            "copy.deepcopy() gives a module in the same memory: what is learnt by one changes the other"
        )


def _memory(module: torch.nn.Module) -> Iterator[int]:
    """Storages of all tensors that a module's parts hold."""
    for part in torch.nn.Module.modules(module):
        for value in vars(part).values():
            yield from (storage_of(one)._cdata for one in flatten(value) if one.numel())


def _loads(module: torch.nn.Module, saved: Mapping[str, torch.Tensor]) -> None:
    """Loads other numbers, looks, and loads its own again."""
    if not saved or sum(one.numel() for one in saved.values()) > _MOST:
        return
    others = {name: one + 1 if one.dtype in _FLOATS else one.clone() for name, one in saved.items()}
    own = {name: one.clone() for name, one in saved.items()}
    try:
        module.load_state_dict(others)
        missed = [
            name
            for name, one, *_ in tensors_held(module)
            if name in others and not same_bits(one, others[name])
        ]
        if not missed:
            after = module.state_dict()
            missed = [name for name, one in others.items() if not same_bits(after[name], one)]
        module.load_state_dict(own)
    except (*_UNCOPIED, KeyError):  # a user cannot load it either
        return
    if missed:
        raise _stop(f"load_state_dict() does not reach {missed[0]}")
