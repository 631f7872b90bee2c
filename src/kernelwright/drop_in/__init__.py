"""A module that runs verified kernels where they apply; everywhere else it runs the original and warns once why.

    fast = drop_in(module, verified, captured.call, constants)
    isinstance(fast, type(module)), fast.state_dict(), fast.register_forward_hook(...)    as for the original

It shares the original's dictionary: weights, buffers, submodules, attributes and hooks are the same objects. Before every call
it checks the module's state (`fingerprint.py`), the call's shapes, dtypes, devices and structure, and torch's own state
(gradients, autocast, transforms); if anything differs, the original's forward runs. The kernel's first result is compared
with the original's, and later ones are laid out as that was. Under `torch.compile` it is one custom operator (`operator.py`).

Not supported: gradients (such calls run the original). Not checked: globals that a forward reads in ways `reads.py` misses.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import os
import types
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.modules import module as module_state
from torch.utils import _pytree as pytree

from kernelwright import extensions
from kernelwright.drop_in import operator
from kernelwright.drop_in.fingerprint import Fingerprint
from kernelwright.errors import UserError
from kernelwright.graph import Graph, TensorType, sizes
from kernelwright.graph.capture import Call, state_kept
from kernelwright.graph.execute import DTYPES
from kernelwright.graph.pairs import complex_view, real_view, tensors_in
from kernelwright.graph.task import lay_out, order_of
from kernelwright.precision import HALF
from kernelwright.records import Record, Verdict
from kernelwright.search.cache import Row, versions

__all__ = ["Optimized", "Row", "VerifiedModule", "arch_of", "drop_in", "loaded", "versions"]

Run = Callable[..., tuple[Any, ...]]


class VerifiedModule(Record):
    """Kernels for a whole module, and where they may run: what `save` writes."""

    name: str
    """Name of the module's class."""
    graph: Graph
    """The graph of its forward."""
    code: str
    """Defines `run(...)` over the graph's arguments."""
    verdict: Verdict
    """The end-to-end verdict on the whole."""
    rows: tuple[Row, ...] = ()
    arch: str
    """Compute capability it was compiled for, such as `90`."""
    gpu: str = ""
    """The GPU on which it was timed; empty if its time was modelled."""
    versions: Mapping[str, str] = {}
    example: str = ""
    """The nesting (JSON of pytree) and types of the arguments, enough to capture the module again."""


class Optimized:
    """Base class of every drop-in, next to its original's class. `.verdict`, `.kernel` (source), `.original`, `.verified`."""

    __slots__ = ("_kernelwright",)
    _kernelwright: _State
    kernelwright_handle = -1

    @property
    def original(self) -> nn.Module:
        return self._kernelwright.original

    @property
    def verified(self) -> VerifiedModule:
        return self._kernelwright.verified

    @property
    def verdict(self) -> Verdict:
        return self._kernelwright.verified.verdict

    @property
    def kernel(self) -> str:
        return self._kernelwright.verified.code

    @property
    def forward(self) -> Callable[..., Any]:
        """A forward that was assigned since (the caller's own, as hooks are; it may call the one it replaced), else ours."""
        state = self._kernelwright
        patched = self.__dict__.get("forward")
        if patched is not None and (patched is not state.patched or torch.compiler.is_compiling()):
            return patched
        if type(self) is not state.cls:  # a parametrized drop-in: its weights are properties of its new class
            return types.MethodType(type(state.original).forward, self)
        if torch.compiler.is_compiling():
            return self._compiled
        return types.MethodType(state.forward, self)

    @forward.setter
    def forward(self, function: Any) -> None:
        self.__dict__["forward"] = function

    @forward.deleter
    def forward(self) -> None:
        del self.__dict__["forward"]

    def _compiled(self, *args: Any, **kwargs: Any) -> Any:
        """The forward that Dynamo traces."""
        spec = type(self).kernelwright_spec  # type: ignore[attr-defined]
        autocast = torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")
        unlike = spec is None or kwargs or len(args) != len(spec[0])
        if unlike or torch.is_grad_enabled() or autocast or torch.compiler.is_exporting():
            return super().forward(*args, **kwargs)  # type: ignore[misc]
        for one, (shape, dtype) in zip(args, spec[0], strict=True):
            if not isinstance(one, torch.Tensor) or tuple(one.shape) != shape or one.dtype != dtype:
                return super().forward(*args, **kwargs)  # type: ignore[misc]
        made = torch.ops.kernelwright.drop_in(list(args), type(self).kernelwright_handle)
        return made[0] if spec[1] == "one" else tuple(made) if spec[1] == "tuple" else list(made)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        state = self._kernelwright
        known = copy.deepcopy(state.original, memo)
        constants = {name: copy.deepcopy(one, memo) for name, one in state.constants.items()}
        return _rebuilt(known, state.verified, state.call, constants, state.broken())

    def __copy__(self) -> Any:
        raise UserError("a drop-in has no shallow copy; use copy.deepcopy")

    def __reduce_ex__(self, protocol: Any) -> Any:
        state = self._kernelwright
        return _rebuilt, (state.original, state.verified, state.call, state.constants, state.broken())

    def __repr__(self) -> str:
        gain, timing = self.verdict.speedup(), self.verdict.timing
        worth = f", {gain:.2f}x {timing.kind} on {timing.target}" if gain and timing else ""
        return f"Optimized({self._kernelwright.original!r}{worth})"


def drop_in(
    module: nn.Module,
    verified: VerifiedModule,
    call: Call,
    constants: Mapping[str, torch.Tensor] | None = None,
) -> Any:
    """A module that runs `module` through verified kernels: an instance of a subclass of its class and of `Optimized`.

    `constants`: the graph's lifted tensors by argument. Raises UserError if the module lacks one of the graph's weights.
    """
    if isinstance(module, torch.jit.ScriptModule):
        raise UserError(
            f"{type(module).__name__} is a TorchScript module, which has no forward to replace; pass the original"
        )
    state = _State(module, verified, call, dict(constants or {}))
    cls = type(module)
    if cls.__getstate__ is not object.__getstate__ and "__slots__" in vars(cls):
        raise UserError(f"{cls.__name__} has slots, and cannot be shared with a drop-in")
    facts = {
        "__module__": cls.__module__,
        "__doc__": cls.__doc__,
        "kernelwright_handle": operator.register(state),
        "kernelwright_spec": state.traced(),
    }
    state.cls = type(f"Optimized{cls.__name__}", (Optimized, cls), facts)
    made: Any = object.__new__(state.cls)
    object.__setattr__(made, "__dict__", module.__dict__)
    object.__setattr__(made, "_kernelwright", state)
    return made


def _rebuilt(
    module: nn.Module, verified: VerifiedModule, call: Call, constants: dict[str, torch.Tensor], broken: str
) -> Any:
    """A drop-in of a copied or unpickled module; if it was invalidated (`broken`), it stays so."""
    made = drop_in(module, verified, call, constants)
    made._kernelwright.off = broken
    return made


class _State:
    """A drop-in's kernels and the state they depend on; calling it runs the forward."""

    def __init__(
        self, original: nn.Module, verified: VerifiedModule, call: Call, constants: dict[str, torch.Tensor]
    ) -> None:
        self.original, self.verified, self.call, self.constants = original, verified, call, constants
        self.off = ""
        """Why the kernels are no longer used; empty while they are."""
        self.checked = False
        """Whether a result was compared with the original's."""
        self.apart: set[int] = set()
        """Outputs that the kernels return as a view of an argument or of another output, and the original does not."""
        self.laid: dict[int, list[int] | None] = {}
        """Outputs whose strides are not those of the original's: the order of memory to put them in, as for `lay_out`."""
        self.returned: dict[int, tuple[str, _Place | None]] = {}
        """Outputs that are an argument, or a view of one, and where they lie in it."""
        self.fingerprint = Fingerprint(original)
        self.cls: type = type(original)
        """Class of the drop-in."""
        self.patched: Callable[..., Any] | None = vars(original).get("forward")
        """The instance's own forward at verification, if it had one."""
        self.forward = _method(type(original).forward)
        self.default_dtype = torch.get_default_dtype()
        self.graph = verified.graph
        types_ = {name: one for name, one in self.graph.types().items() if isinstance(one, TensorType)}
        self.half = any(one.dtype in HALF for one in types_.values())
        """Whether any value, intermediate ones included, has half precision."""
        self.orders = {
            one.name: order_of(one.type, self.graph.symbols) if isinstance(one.type, TensorType) else None
            for one in self.graph.arguments
        }
        """Memory layout of each argument at verification."""
        self.outputs = tuple(types_[name] for name in self.graph.results if name in types_)
        self.warned: set[str] = set()
        self._sources = {
            one.name: self._source(one.name, one.origin)
            for one in self.graph.arguments
            if one.role != "input"
        }
        self.written = [one.name for one in self.graph.arguments if one.mutated]
        """Buffers and inputs that a call writes to: the first results are their new values."""
        self.rebound: set[str] = set()
        """Buffers that the module's own forward replaces by another tensor."""
        self._run: Run | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        why = self.off or self._unusual()
        if not why:
            try:
                return self._kernels(args, kwargs)
            except _Unfit as unfit:
                why = str(unfit)
        self._say(why)
        return self._itself(*args, **kwargs)

    def _itself(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result without kernels, and without wrappers put around its forward since."""
        forward = self.patched or types.MethodType(type(self.original).forward, self.original)
        return forward(*args, **kwargs)

    def flat(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs' tensors in one list, for the operator, which may not return a view of anything."""
        with torch.no_grad():
            made = self(*tensors)
        known = {_memory(one) for one in (*tensors, *(table[key] for table, key in self._sources.values()))}
        found = []
        for one in tensors_in(made):
            found.append((one.clone() if _memory(one) in known else one).contiguous())
            known.add(_memory(found[-1]))
        return found

    def broken(self) -> str:
        """Why its kernels would not run for any call; empty if they might."""
        if vars(self.original).get("forward") is not self.patched:
            return "the forward of the module was replaced before it was copied"
        return self.off or self.fingerprint.changed()

    def traced(self) -> tuple[tuple[tuple[tuple[int, ...], torch.dtype], ...], str] | None:
        """Shapes and dtypes of the inputs and the kind of output, if `torch.compile` can use the operator; else None."""
        arguments = {one.name: one for one in self.graph.arguments}
        found = []
        if self.graph.symbols or any(one.mutated or one.complex for one in self.graph.arguments):
            return None
        for leaf in self.call.leaves:
            type_ = arguments[leaf].type if isinstance(leaf, str) and leaf in arguments else None
            if not isinstance(type_, TensorType):
                return None
            found.append((tuple(int(size) for size in type_.shape), DTYPES[type_.dtype]))
        flat = self.call.inputs == pytree.tree_structure((tuple(range(len(found))), {}))
        if not flat or not found or self.call.results != tuple(range(len(self.graph.results))):
            return None
        form = pytree.tree_unflatten(list(range(len(self.call.results))), self.call.outputs)
        kind = (
            "one" if form == 0 else "tuple" if type(form) is tuple else "list" if type(form) is list else ""
        )
        if kind and (kind == "one" or all(type(one) is int for one in form)):
            return (tuple(found), kind)
        return None

    def _unusual(self) -> str:
        """Why torch's own state or the module differs from verification; empty if neither does."""
        if torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"):
            return "autocast is on, which was not verified"
        if torch._C._functorch.peek_interpreter_stack() is not None:
            return "it is called within a transform (vmap, grad), which kernels do not know"
        if torch._C._get_tracing_state() is not None:
            return "it is being traced by torch.jit"
        if torch.get_default_dtype() is not self.default_dtype:
            return f"the default dtype is {torch.get_default_dtype()} now"
        if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack() > _device_modes():
            return "it is called within a mode of torch's (FlopCounterMode, fake tensors), which would not see the kernels"
        if module_state._global_forward_hooks or module_state._global_forward_pre_hooks:
            return "there are global hooks, which a kernel for the whole would not call"
        return self.fingerprint.changed()

    def _kernels(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the kernels. Raises _Unfit if they do not apply."""
        if self.written and any(one.is_conj() or one.is_neg() for one in tensors_in((args, kwargs))):
            raise _Unfit("an argument is a conjugate or negative view, and the call writes to arguments")
        try:
            values = self.call.bind(*self._arranged(args, kwargs))
        except UserError as error:
            raise _Unfit(str(error)) from None
        for name, (table, key) in self._sources.items():
            values[name] = real_view(table[key])
        self._check(values)
        given = [
            lay_out(values[name], order) if isinstance(values[name], torch.Tensor) else values[name]
            for name, order in self.orders.items()
        ]
        with torch.no_grad():
            compared = not self.checked
            kept = pytree.tree_map(_copy, (args, kwargs)) if compared else None
            try:
                if self._run is None:
                    self._run = loaded(self.verified.code)
                results = self._run(*given)
            except Exception as error:  # a kernel may raise anything; the original answers
                self.off = f"the kernel raised {type(error).__name__}: {' '.join(str(error).split())[:200]}"
                raise _Unfit(self.off) from None
            made = self.call.nest(results)
            if kept is not None:
                self._compare(made, kept, results, values)
            if self.apart or self.returned or self.laid:
                flat, spec = pytree.tree_flatten(made)
                new = {at: flat[at].clone() for at in self.apart}
                new |= {at: lay_out(new.get(at, flat[at]), order) for at, order in self.laid.items()}
                for at, (name, place) in self.returned.items():
                    if place is None:
                        new[at] = values[name]
                    elif values[name].stride() == place.strides:
                        new[at] = place.within(values[name])
                made = pytree.tree_unflatten([new.get(at, one) for at, one in enumerate(flat)], spec)
            self._write(values, results)
        return made

    def _arranged(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Sequence[Any], dict[str, Any]]:
        """The call with arguments moved to the positions and names they had at capture; unchanged if that is not possible."""
        places, words = self.call.form
        if len(args) == places and kwargs.keys() == set(words):
            return args, kwargs
        try:
            own = inspect.signature(self.patched or types.MethodType(self.forward, self.original))
        except ValueError:  # a forward in C may have no signature
            return args, kwargs
        parameters = own.parameters
        named = [name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
        defaults = {name: one.default for name, one in parameters.items() if one.default is not one.empty}
        given, wanted = {**dict(zip(named, args, strict=False)), **kwargs}, (*named[:places], *words)
        fits = (
            len(args) <= len(named) >= places
            and len(given) == len(args) + len(kwargs)
            and all(name in given or name in defaults for name in wanted)
            and all(name in wanted or (name in defaults and given[name] is defaults[name]) for name in given)
        )
        if not fits:
            return args, kwargs
        full = {**defaults, **given}
        return [full[name] for name in named[:places]], {name: full[name] for name in words}

    def _compare(
        self, made: Any, call: tuple[Any, Any], results: Sequence[Any], values: Mapping[str, Any]
    ) -> None:
        """Compare the first result, and what was written, with the original's. Raises _Unfit if they differ."""
        with state_kept(self.original) if self.written else contextlib.nullcontext():
            before = {name: table[key] for name, (table, key) in self._sources.items()}
            given = self.call.bind(*self._arranged(*call))
            answer = self._itself(*call[0], **call[1])
            after = {**given, **{name: table[key] for name, (table, key) in self._sources.items()}}
            self.rebound = {one for one in self.written if one in before and after[one] is not before[one]}
            new = [_copy(real_view(after[one])) for one in self.written]
            shared = _shared(answer, after.items())
            own = {one: value for one, value in after.items() if one not in self.rebound}
            self.returned = {
                at: found
                for at, one in enumerate(pytree.tree_leaves(answer))
                if (found := _within(one, own, views=not self.graph.symbols)) is not None
            }
            # Copied before the state, which it may be a view of, is restored.
            answer = pytree.tree_map(_copy, answer)
        ours = _shared(made, (*values.items(), *zip(self.written, results, strict=False)))
        self.apart = set()
        for at, (one, known) in enumerate(zip(ours, shared, strict=False)):
            if one - known - self.apart:
                self.apart.add(at)
        mine, theirs = tensors_in((list(results[: len(new)]), made)), tensors_in((new, answer))
        if len(mine) != len(theirs) or not all(
            close(a, b, self.half) for a, b in zip(mine, theirs, strict=True)
        ):
            self.off = "the kernels disagree with the module on the weights that it has now"
            raise _Unfit(self.off)
        pairs = enumerate(zip(pytree.tree_leaves(made), pytree.tree_leaves(answer), strict=True))
        self.laid = {
            at: _order(b)
            for at, (a, b) in pairs
            if isinstance(b, torch.Tensor) and not b.is_complex() and a.stride() != b.stride()
        }
        self.checked = True

    def _write(self, values: Mapping[str, Any], results: Sequence[Any]) -> None:
        """Store new values where the module's own forward would."""
        for name, new in zip(self.written, results, strict=False):
            if name in self.rebound:
                table, key = self._sources[name]
                table[key] = complex_view(new) if table[key].is_complex() else new
            else:
                values[name].copy_(new)

    def _check(self, values: Mapping[str, Any]) -> None:
        """Raises _Unfit for tensors that the kernels were not verified for."""
        if self.verified.versions != versions():
            was = ", ".join(f"{name} {number}" for name, number in self.verified.versions.items())
            raise _Unfit(f"it was verified with {was}, and other versions are installed; optimize again")
        device = None
        wants = torch.is_grad_enabled()
        for argument in self.graph.arguments:
            value = values[argument.name]
            if not isinstance(argument.type, TensorType):
                continue
            if type(value) not in _TENSORS:
                raise _Unfit(f"{_argument_name(argument)} is a {type(value).__name__}, not a plain tensor")
            if value.dtype != DTYPES[argument.type.dtype]:
                wanted = f"{argument.type.dtype} was verified"
                raise _Unfit(
                    f"{_argument_name(argument)} is {str(value.dtype).removeprefix('torch.')}, and {wanted}"
                )
            if value.layout is not torch.strided:
                raise _Unfit(
                    f"{_argument_name(argument)} is {str(value.layout).removeprefix('torch.')}, not dense"
                )
            if device is not None and value.device != device:
                raise _Unfit(f"inputs and weights are on several devices ({device}, {value.device})")
            device = value.device
            if wants and value.requires_grad:
                raise _Unfit(
                    "gradients are wanted, which the kernels do not make; call it under torch.no_grad()"
                )
        homes = {_memory(values[name]) for name in self.written}
        for other in self.graph.arguments if homes else ():
            value = values[other.name]
            if not isinstance(value, torch.Tensor) or _memory(value) not in homes:
                continue
            if any(name != other.name and _overlap(values[name], value) for name in self.written):
                raise _Unfit(f"the call writes to memory that {_argument_name(other)} shares")
        self._fits(values)
        if device is not None and (why := self._wrong_device(device)):
            raise _Unfit(why)

    def _fits(self, values: Mapping[str, Any]) -> None:
        shapes = {name: tuple(one.shape) for name, one in values.items() if isinstance(one, torch.Tensor)}
        numbers = {name: one for name, one in values.items() if type(one) is int}
        try:
            symbols = sizes.bind(self.graph, shapes, numbers)
        except ValueError as error:
            raise _Unfit(
                f"these shapes were not verified ({error}); optimize again with such inputs"
            ) from None
        verdict = self.verified.verdict
        for one in self.graph.symbols:
            if not verdict.holds_for(one.name, size := symbols[one.name], one.hint):
                least, most = verdict.sizes.get(one.name.upper(), (one.hint, one.hint))
                raise _Unfit(f"size {one.name} is {size}, and {least} to {most} were verified")

    def _wrong_device(self, device: torch.device) -> str:
        if device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1":
            return ""
        if device.type != "cuda":
            return f"inputs are on the {device.type}, and a Triton kernel runs on a GPU"
        arch = arch_of(device)
        if arch != self.verified.arch:
            name = torch.cuda.get_device_name(device)
            return f"this GPU ({name}) is a {arch}, and the kernels were verified for {self.verified.arch}; optimize again here"
        return ""

    def _source(self, name: str, origin: str) -> tuple[dict[str, Any], str]:
        """The table and key under which an argument's tensor is found at each call. Raises UserError if the module lacks it."""
        if name in self.constants:
            return self.constants, name
        path, _, leaf = origin.rpartition(".")
        try:
            home = self.original.get_submodule(path)
        except AttributeError:
            home = None
        for table in (home._parameters, home._buffers) if home is not None else ():
            if leaf in table:
                return table, leaf
        raise UserError(f"{type(self.original).__name__} has no weight {origin}; optimize this module")

    def _say(self, why: str) -> None:
        """Warn, once per cause."""
        if why not in self.warned:
            self.warned.add(why)
            name = self.verified.name
            warnings.warn(f"{name} runs without its kernel: {why}", RuntimeWarning, stacklevel=6)


def _method(own: Callable[..., Any]) -> Callable[..., Any]:
    """A drop-in's forward, with the name and signature of the module's own."""

    @functools.wraps(own)
    def forward(self: Optimized, *args: Any, **kwargs: Any) -> Any:
        return self._kernelwright(*args, **kwargs)

    return forward


def _device_modes() -> int:
    """1 if `torch.set_default_device` was called, since that is a torch mode as well."""
    return int(getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None) is not None)


class _Unfit(Exception):
    """The kernels do not apply to a call; the message says why."""


_TENSORS = (torch.Tensor, nn.Parameter, nn.Buffer)


def loaded(code: str) -> Run:
    """Execute a stitched file and return its `run`: for verified code only."""
    run: Run = extensions.module_of(code, f"kernelwright_kernel_{abs(hash(code)):x}").run
    return run


def arch_of(device: torch.device | None = None) -> str:
    """Triton's architecture of a local GPU: `90`, `gfx942`."""
    if torch.version.hip:
        return str(torch.cuda.get_device_properties(device).gcnArchName).partition(":")[0]
    return "".join(map(str, torch.cuda.get_device_capability(device)))


def close(made: torch.Tensor, wanted: torch.Tensor, half: bool = False) -> bool:
    """Whether two outputs are equal up to rounding: relative error of the norm at most 1e-3 (2e-2 if `half` precision occurs); for
    integers, less than one in a thousand may differ (one in fifty)."""
    if made.shape != wanted.shape or made.dtype != wanted.dtype:
        return False
    if not wanted.is_floating_point():
        return wanted.numel() == 0 or float((made == wanted).float().mean()) > (0.98 if half else 0.999)
    a, b = made.double(), wanted.double()
    finite = torch.isfinite(b)
    if not torch.equal(finite, torch.isfinite(a)):
        return False
    a, b = a[finite], b[finite]
    allowed = 2e-2 if half else 1e-3
    return float((a - b).norm()) <= allowed * float(b.norm()) + 1e-12


def _order(tensor: torch.Tensor) -> list[int] | None:
    """The order of a tensor's memory, as for `lay_out`."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return order_of(TensorType(dtype=dtype, shape=tuple(tensor.shape), strides=tensor.stride()))


def _memory(tensor: torch.Tensor) -> int:
    """Where a tensor's storage begins."""
    return tensor.untyped_storage().data_ptr()


def _shared(tree: Any, arguments: Iterable[tuple[str, Any]]) -> list[set[Any]]:
    """Per leaf: the arguments, and the places of leaves before it, in whose memory it is."""
    places: dict[int, set[Any]] = {}
    found = []
    for name, one in (*arguments, *enumerate(pytree.tree_leaves(tree))):
        real = isinstance(one, torch.Tensor) and one.numel()
        known = places.setdefault(_memory(one), set()) if real else set()
        if isinstance(name, int):
            found.append({*known})
        known.add(name)
    return found


class _Place(NamedTuple):
    """Where a view lies in a tensor of these `strides`."""

    strides: tuple[int, ...]
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    offset: int

    def within(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.as_strided(self.shape, self.steps, tensor.storage_offset() + self.offset)


def _within(one: Any, tensors: Mapping[str, Any], views: bool) -> tuple[str, _Place | None] | None:
    """The name of the tensor that a leaf is, or that it is a view of, with its place; None if it is neither."""
    if not isinstance(one, torch.Tensor) or not one.numel() or one.is_complex():
        return None
    for name, other in tensors.items():
        if one is other:
            return name, None
    for name, other in tensors.items():
        alike = (
            isinstance(other, torch.Tensor) and other.dtype is one.dtype and _memory(other) == _memory(one)
        )
        if views and alike:
            by = one.storage_offset() - other.storage_offset()
            return name, _Place(other.stride(), tuple(one.shape), one.stride(), by)
    return None


def _overlap(*tensors: torch.Tensor) -> bool:
    """Whether two tensors are in one memory, and the stretches that they span there meet."""
    if len(set(map(_memory, tensors))) > 1 or not all(one.numel() for one in tensors):
        return False
    (a, b), (c, d) = (
        (
            one.data_ptr(),
            one.element_size() * sum((n - 1) * by for n, by in zip(one.shape, one.stride(), strict=True)),
        )
        for one in tensors
    )
    return a <= c + d and c <= a + b


def _copy(one: Any) -> Any:
    return one.detach().clone() if isinstance(one, torch.Tensor) else one


def _argument_name(argument: Any) -> str:
    return argument.origin or f"input {argument.name}"
