"""Checks that a module handles its weights as every module does: lists, saves, loads and copies them.

A checkpoint holds all registered tensors, loading one changes them, and a copy has its own memory. Names are up to the
module; a `state_dict()` under the reference's names is accepted, too.

Casts and modes are tried only if a class overrides the methods. Not tried: pickles, loading more than `_MOST` numbers.
"""

from __future__ import annotations

import ast
import contextlib
import copy
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

import torch
from torch.nn.utils import parametrize

from kernelwright.outcomes import Outcome
from kernelwright.verify.sandbox.service import Failure
from kernelwright.verify.structures import flatten, same_bits
from kernelwright.verify.trace.counters import set_version
from kernelwright.verify.trace.left_behind import tensors_held
from kernelwright.verify.trace.pretend_cuda import storage_of

_MOST = 1 << 22
_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_UNCOPIED = (TypeError, RuntimeError, NotImplementedError, AttributeError, ValueError)
"""Exceptions that a user would get, too, if a module cannot be copied, loaded or derived from."""
_CASTS = {"double": torch.float64, "half": torch.float16, "bfloat16": torch.bfloat16, "float": torch.float32}
_METHODS = (
    "train", "eval", "requires_grad_", "zero_grad", "apply", "to", "type", "cuda", "cpu", "_apply", "share_memory", *_CASTS,
)  # fmt: skip
"""Methods that set the mode, type or gradients of a module and all its parts; each but one returns the module."""


def copy_module(
    module: torch.nn.Module, wanted: Mapping[str, torch.Tensor], tied: Sequence[Sequence[str]] = ()
) -> torch.nn.Module:
    """A copy of a module, or the module itself if it cannot be copied. `wanted` has the names of the reference's weights, `tied`
    those that are one parameter there. Raises Failure if it does not behave as a module."""
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
    _obeys(module if made is None else made)
    return module if made is None else made


class _Anew(torch.nn.Module):
    """A parametrization that computes a weight: it returns another tensor in its place."""

    def __init__(self, made: torch.Tensor) -> None:
        super().__init__()
        self.made = [made]

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return self.made[0]


WRITTEN, MOVED, EXCHANGED = "is written in place", "gets other memory (`.data =`)", "is another nn.Parameter"
CHANGES = (WRITTEN, MOVED, EXCHANGED)
"""How users change a weight, as far as Python can tell: by an optimiser or `copy_`, by `.data = `, and by
`load_state_dict(assign=True)`."""


def change_weight(module: torch.nn.Module, name: str, how: str) -> torch.Tensor:
    """Give the parameter of this name other numbers (it has no data), wherever it is registered. Returns it."""
    one = next(held for own, held, *_ in tensors_held(module) if own == name)
    if how == WRITTEN:
        set_version(one, one._version + 1)
    elif how == MOVED:
        one.data = torch.empty_like(one, requires_grad=False)
    else:
        again = torch.nn.Parameter(torch.empty_like(one, requires_grad=False), one.requires_grad)
        set_version(again, one._version)
        for part in torch.nn.Module.modules(module):
            held = vars(part)["_parameters"]
            held.update({own: again for own, value in held.items() if value is one})
        return again
    return one


_HUNG = (
    "peft_config",
    "hf_device_map",
    "hf_quantizer",
    "quantization_config",
    "is_quantized",
    "ds_id",
    "ds_tensor",
)
"""Public names that frameworks hang on modules and weights; most are private."""


def asked_for(code: str) -> set[str]:
    """Names that a file asks of objects and never sets, so that only a framework can have: private ones, and those of `_HUNG`."""
    asked, set_here, questions = set[str](), set[str](), set[int]()
    tree = ast.parse(code)
    for node in ast.walk(tree):
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id
        if called in ("hasattr", "getattr"):
            questions.update(map(id, node.args[1:2]))  # type: ignore[attr-defined]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            questions.add(id(node.left))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            (asked if id(node) in questions else set_here).add(node.value)
        elif isinstance(node, ast.Attribute):
            (asked if isinstance(node.ctx, ast.Load) else set_here).add(node.attr)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            set_here.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            set_here.add(node.id)
    return {name for name in asked - set_here if name in _HUNG or (name[:1] == "_" != name[1:2] and name[1:])}


def hang(one: object, names: Collection[str]) -> None:
    """Set attributes of these names on a module or tensor that lacks them."""
    with torch._C.DisableTorchFunction():
        vars(one).update({name: True for name in names if not hasattr(one, name)})


def wrap(module: torch.nn.Module, names: Collection[str], home: str) -> None:
    """Make the module, and its parts of classes of the file `home`, instances of derived classes, and hang attributes of these names
    on parts and weights, as parametrizations and frameworks that wrap modules do."""
    derived: dict[type, type] = {}
    for part in torch.nn.Module.modules(module):
        kind = type(part)
        with contextlib.suppress(*_UNCOPIED):  # a class that refuses to be derived from
            if kind.__module__ == home:
                if kind not in derived:
                    derived[kind] = type(f"Wrapped{kind.__name__}", (kind,), {"__module__": home})
                object.__setattr__(part, "__class__", derived[kind])
        hang(part, names)
    for _, one, *_ in tensors_held(module):
        hang(one, names)


def make_anew(module: torch.nn.Module, names: Collection[str]) -> dict[str, torch.Tensor]:
    """Parametrize the weights of these names, unless another name is registered in their memory: from now on each reads as a
    new tensor of its shape. Returns the originals by name."""
    known = Counter(storage_of(one)._cdata for _, one, *_ in tensors_held(module))
    found = {}
    for path, part in list(torch.nn.Module.named_modules(module)):
        for own, one in list(vars(part)["_parameters"].items()):
            name = f"{path}.{own}".lstrip(".")
            if one is None or name not in names or known[storage_of(one)._cdata] != 1:
                continue
            with contextlib.suppress(*_UNCOPIED, KeyError):
                made = torch.empty_like(one, requires_grad=False)
                parametrize.register_parametrization(part, own, _Anew(made), unsafe=True)
                found[name] = one
    return found


def _stop(detail: str) -> Failure:
    return Failure(Outcome.STATEFUL, f"it does not behave as a module: {detail}")


def _lists(module: torch.nn.Module) -> None:
    parameters = {id(one) for _, one, learns, _ in tensors_held(module) if learns}
    buffers = {id(one) for _, one, learns, _ in tensors_held(module) if not learns}
    modules, children = (
        set(map(id, of(module))) for of in (torch.nn.Module.modules, torch.nn.Module.children)
    )
    for what, named, own in (
        ("parameters", False, parameters),
        ("named_parameters", True, parameters),
        ("buffers", False, buffers),
        ("named_buffers", True, buffers),
        ("modules", False, modules),
        ("children", False, children),
    ):
        if what in vars(module):  # a value hides the method: calling it raises
            continue
        found = getattr(module, what)()
        if {id(one[1] if named else one) for one in found} != own:
            raise _stop(f"{what}() does not give what is registered")


def _is_one(module: torch.nn.Module, names: Sequence[str], like: torch.Tensor) -> None:
    """Raises Failure unless parameters under `names`, which are one parameter of the reference (equal in size to `like`), are one
    here, too; nor may two of that size begin as copies of each other, whatever their names."""
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
    """The module's `state_dict()`: it must hold each registered weight, or have all names of the reference's."""
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
    """Storages of all tensors that the module's parts hold."""
    for part in torch.nn.Module.modules(module):
        for value in vars(part).values():
            yield from (storage_of(one)._cdata for one in flatten(value) if one.numel())


def _loads(module: torch.nn.Module, saved: Mapping[str, torch.Tensor]) -> None:
    """Check that loading other numbers changes the weights; then load the old ones again."""
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


def _obeys(module: torch.nn.Module) -> None:
    """If the module or a part overrides methods that set modes, casts or gradients, check on a copy that they do and return
    what a module's do. Frozen parts may stay in evaluation mode, weights in their type; raising is allowed."""
    own = [
        name
        for part in torch.nn.Module.modules(module)
        for name in _METHODS
        if name in vars(part) or _function(type(part), name) is not getattr(torch.nn.Module, name)
    ]
    if not own:
        return
    with contextlib.suppress(*_UNCOPIED):
        module = copy.deepcopy(module)
    for ask in (_turns, _forgets_gradients, _learns, _reaches_parts, _is_cast):
        try:
            ask(module)
        except Failure:
            raise
        except Exception:
            continue


def _function(kind: type, name: str) -> object:
    """The function under a name of a class; overrides in torch's own layers count as those of `torch.nn.Module`."""
    owner = next(one for one in kind.__mro__ if name in vars(one))
    return getattr(torch.nn.Module if owner.__module__.startswith("torch.") else owner, name)


def _itself(what: str, module: torch.nn.Module, given: object) -> None:
    if given is not module:
        raise _stop(f"{what} does not give the module")


def _turns(module: torch.nn.Module) -> None:
    parts = list(torch.nn.Module.modules(module))
    for what, mode, turn in (
        ("eval()", False, module.eval),
        ("train()", True, module.train),
        ("train(False)", False, lambda: module.train(False)),
        ("train(True)", True, lambda: module.train(True)),
    ):
        _itself(what, module, turn())
        if module.training != mode or (not mode and any(part.training for part in parts)):
            raise _stop(f"{what} does not reach the module and its parts")


def _learning(module: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [(name, one) for name, one, learns, _ in tensors_held(module) if learns and one.dtype in _FLOATS]


def _forgets_gradients(module: torch.nn.Module) -> None:
    for to_none in (True, False):
        for _, one in _learning(module):
            one.grad = torch.ones_like(one, requires_grad=False)
        module.zero_grad(set_to_none=to_none)
        for name, one in _learning(module):
            if one.grad is not None and bool(one.grad.any()):
                raise _stop(f"zero_grad() leaves the gradient of {name}")
            one.grad = None


def _learns(module: torch.nn.Module) -> None:
    _itself("requires_grad_(False)", module, module.requires_grad_(False))
    for name, one in _learning(module):
        if one.requires_grad:
            raise _stop(f"requires_grad_(False) does not freeze {name}")
    _itself("requires_grad_()", module, module.requires_grad_())
    if _learning(module) and not any(one.requires_grad for _, one in _learning(module)):
        raise _stop("requires_grad_() lets nothing learn")


def _reaches_parts(module: torch.nn.Module) -> None:
    seen: list[torch.nn.Module] = []
    _itself("apply()", module, module.apply(seen.append))
    if set(map(id, seen)) != set(map(id, torch.nn.Module.modules(module))):
        raise _stop("apply() does not reach the module and its parts")


def _is_cast(module: torch.nn.Module) -> None:
    for name, dtype in _CASTS.items():
        for what, cast in ((f"{name}()", getattr(module, name)), (f"to({dtype})", partial(module.to, dtype))):
            _itself(what, module, cast())
            if _learning(module) and all(one.dtype != dtype for _, one in _learning(module)):
                raise _stop(f"{what} casts nothing")
    for what, moved in (("cuda()", module.cuda), ('to("cuda")', lambda: module.to("cuda"))):
        _itself(what, module, moved())
