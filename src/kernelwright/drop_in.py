"""A module that runs a verified kernel where it was verified, and the original everywhere else, saying why once.

It shares the original's weights, buffers and submodules: `state_dict`, `to`, `train`, optimizers and attributes are the
original's. The kernel's first call, and the first after weights have changed, is compared with the original's answer.

Not guaranteed: gradients (a call that would need them runs the original), and weights changed through `.data`, which
nothing in torch counts, in a kernel that keeps copies of them.
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from kernelwright.records import Record, Task, Verdict
from kernelwright.runs import environment
from kernelwright.shapes import apply_shape
from kernelwright.tasks.capture import close, depends_on_mode
from kernelwright.tasks.reference import Reference

Shapes = tuple[tuple[int, ...] | None, ...]


class VerifiedKernel(Record):
    """A kernel with all that says where it may run: what `save` writes."""

    task: Task
    module: str
    """Digest of the module (`tasks.capture.digest_of`)."""
    prefix: str
    """Before the module's names of weights in the kernel."""
    code: str
    verdict: Verdict
    shapes: tuple[tuple[tuple[int, ...] | None, ...], ...]
    """Of the inputs, for every verified set of sizes; None for an input that is no tensor."""
    dtypes: tuple[str, ...]
    """Of the inputs; for one that is no tensor its value."""
    arch: str
    """Compute capability it was compiled for, such as `90`."""
    gpu: str = ""
    """The GPU that it was measured on; empty where it was modelled."""
    training: bool | None = None
    """The mode that it was verified in; None where the mode makes no difference."""
    versions: Mapping[str, str] = {}


@functools.cache
def versions() -> Mapping[str, str]:
    """What a kernel's verdict depends on."""
    found = environment()["versions"]
    return {name: found[name] for name in ("torch", "triton") if name in found}


class Optimized(nn.Module):
    """`module`, by way of a verified kernel. `.verdict`, `.kernel` (its source), `.original`, `.verified`."""

    def __init__(self, module: nn.Module, verified: VerifiedKernel) -> None:
        super().__init__()
        share = {
            "original": module,
            "verified": verified,
            "_parameters": module._parameters,
            "_buffers": module._buffers,
            "_modules": module._modules,
            "_non_persistent_buffers_set": module._non_persistent_buffers_set,
            "training": module.training,
            "_built": None,
            "_bound": [],
            "_weights": [],
            "_seen": None,
            "_good": None,
            "_off": None,
            "_warned": set(),
        }
        self.__dict__.update(share)

    @property
    def verdict(self) -> Verdict:
        return self.__dict__["verified"].verdict

    @property
    def kernel(self) -> str:
        return self.__dict__["verified"].code

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.__dict__["original"], name)

    def train(self, mode: bool = True) -> Optimized:
        self.original.train(mode)
        self.__dict__["training"] = mode
        return self

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self._good is not None and not kwargs and self._signature(args) == self._good:
            with torch.no_grad():
                return self._built(*args)
        why = self._off or next(self._leaves(args, kwargs), None)
        if why is None:
            try:
                output = self._run(args)
                self.__dict__["_good"] = self._signature(args)
                return output
            except _Unfit as unfit:
                why = self.__dict__["_off"] = ("kernel", str(unfit))
                self.__dict__["_good"] = None
        self._say(*why)
        return self.original(*args, **kwargs)

    def __repr__(self) -> str:
        gain = self.verdict.speedup()
        timing = self.verdict.timing
        worth = f", {gain:.2f}x {timing.kind} on {timing.target}" if gain and timing else ""
        return f"Optimized({self.original!r}{worth})"

    def _leaves(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """(cause, what is wrong) for everything that makes a call one that was not verified."""
        known: VerifiedKernel = self.verified
        if kwargs:
            yield "keywords", f"it was called with keywords ({', '.join(kwargs)}); pass arguments by place"
        shapes = tuple(tuple(one.shape) if isinstance(one, torch.Tensor) else None for one in args)
        if shapes not in known.shapes:
            verified = _shown(known.shapes[0])
            yield (
                "shapes",
                f"shapes {_shown(shapes)} were not verified ({verified} were); optimize again with such inputs",
            )
        dtypes = types_of(args)
        if dtypes != known.dtypes:
            yield "types", f"types {', '.join(dtypes)} were not verified ({', '.join(known.dtypes)} were)"
        tensors = [one for one in args if isinstance(one, torch.Tensor)]
        weights = [*self.original.parameters(), *self.original.buffers()]
        if any(not one.is_contiguous() for one in tensors):
            yield "layout", "an input is not contiguous; pass it as .contiguous()"
        devices = sorted({one.device for one in (*tensors, *weights)}, key=str)
        if len(devices) > 1:
            yield "devices", f"inputs and weights are on several devices ({', '.join(map(str, devices))})"
        elif devices and (why := self._wrong_device(devices[0])):
            yield "device", why
        if torch.is_grad_enabled() and any(one.requires_grad for one in (*tensors, *weights)):
            yield (
                "gradients",
                "gradients are wanted, which the kernel does not make; call it under torch.no_grad()",
            )
        if known.training is not None and self.original.training != known.training:
            mode = "training" if self.original.training else "evaluation"
            yield "mode", f"the module is in {mode} mode, which was not verified"
        if versions() != known.versions:
            was = ", ".join(f"{name} {number}" for name, number in known.versions.items())
            yield "versions", f"it was verified with {was}, and other versions are installed; optimize again"

    def _signature(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """All that `_leaves` and the comparison go by, in a few microseconds: calls that are alike are checked once."""
        given = tuple(
            (one.shape, one.dtype, one.device, one.requires_grad, one.is_contiguous())
            if isinstance(one, torch.Tensor)
            else repr(one)
            for one in args
        )
        weights = tuple(
            (one.data_ptr(), _version(one), one.requires_grad)
            for table, name in self._weights
            if (one := table[name]) is not None
        )
        return given, weights, torch.is_grad_enabled(), self.original.training, id(self.verified)

    def _wrong_device(self, device: torch.device) -> str:
        known: VerifiedKernel = self.verified
        if device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1":
            return ""
        if device.type != "cuda":
            return f"inputs are on the {device.type}, and a Triton kernel runs on a GPU"
        arch = arch_of(device)
        if arch != known.arch:
            name = torch.cuda.get_device_name(device)
            return f"this GPU ({name}) is a {arch}, and the kernel was verified for {known.arch}; optimize again here"
        return ""

    def _run(self, args: Sequence[Any]) -> Any:
        """The kernel's answer; compared with the original's when weights are new. Raises _Unfit."""
        seen = tuple(
            (one.data_ptr(), _version(one)) for one in (*self.original.parameters(), *self.original.buffers())
        )
        fresh = seen != self._seen
        try:
            if fresh:
                self._build()
            for home, name, source, own in self._bound:
                home[name] = source[own]
            with torch.no_grad():
                given = [one.clone() if fresh and isinstance(one, torch.Tensor) else one for one in args]
                output = self._built(*args)
        except _Unfit:
            raise
        except Exception as error:
            what = " ".join(str(error).split())[:200]
            raise _Unfit(f"the kernel raised {type(error).__name__}: {what}") from None
        if fresh:
            with torch.no_grad():
                wanted = self.original(*given)
            mine, theirs = _flat(output), _flat(wanted)
            if len(mine) != len(theirs) or any(not close(a, b) for a, b in zip(mine, theirs, strict=True)):
                raise _Unfit("the kernel disagrees with the module on the weights that it has now")
            self.__dict__["_seen"] = seen
        return output

    def _build(self) -> None:
        """A fresh `ModelNew`, its weights bound to the original's. Raises _Unfit."""
        known: VerifiedKernel = self.verified
        device = next(
            (one.device for one in (*self.original.parameters(), *self.original.buffers())),
            torch.device("cpu"),
        )
        built = loaded(known.code)(*Reference(known.task.source).init_inputs()).to(device)
        built.train(self.original.training)
        bound = []
        for name, one in [*built.named_parameters(), *built.named_buffers()]:
            own = name.removeprefix(known.prefix)
            path, _, leaf = own.rpartition(".")
            try:
                source = self.original.get_submodule(path)
            except AttributeError:
                raise _Unfit(f"the kernel's weight {name} has no counterpart in the module") from None
            table = source._parameters if leaf in source._parameters else source._buffers
            mine = table.get(leaf)
            if mine is None or mine.shape != one.shape or mine.dtype != one.dtype:
                raise _Unfit(f"the kernel's weight {name} has no counterpart in the module")
            path, _, last = name.rpartition(".")
            home = built.get_submodule(path)
            bound.append((home._parameters if last in home._parameters else home._buffers, last, table, leaf))
        tables = [t for part in self.original.modules() for t in (part._parameters, part._buffers)]
        weights = [(table, name) for table in tables for name in table]
        self.__dict__.update(_built=built, _bound=bound, _weights=weights)

    def _say(self, cause: str, why: str) -> None:
        """Once a cause."""
        if cause not in self._warned:
            self._warned.add(cause)
            name = type(self.original).__name__
            warnings.warn(f"{name} runs without its kernel: {why}", RuntimeWarning, stacklevel=5)


class _Unfit(Exception):
    """Why the kernel cannot be used with this module any more."""


def loaded(code: str) -> type[nn.Module]:
    """`ModelNew` of a kernel's source, which is executed: for verified code only."""
    name = f"kernelwright_kernel_{abs(hash(code)):x}"
    path = f"<{name}>.py"
    linecache.cache[path] = (len(code), None, code.splitlines(keepends=True), path)
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    exec(compile(code, path, "exec"), module.__dict__)
    made: type[nn.Module] = module.__dict__["ModelNew"]
    return made


def arch_of(device: torch.device | None = None) -> str:
    """Triton's architecture of a GPU here: `90`, `gfx942`."""
    if torch.version.hip:
        return str(torch.cuda.get_device_properties(device).gcnArchName).partition(":")[0]
    return "".join(map(str, torch.cuda.get_device_capability(device)))


def _version(tensor: torch.Tensor) -> int:
    """How often torch has seen it change; it does not count for tensors of inference mode."""
    return 0 if tensor.is_inference() else tensor._version


def types_of(args: Sequence[Any]) -> tuple[str, ...]:
    """Types of tensors, and other arguments as Python writes them."""
    return tuple(
        str(one.dtype).removeprefix("torch.") if isinstance(one, torch.Tensor) else repr(one) for one in args
    )


def shapes_of(task: Task, inputs: Sequence[Any]) -> tuple[Shapes, ...]:
    """Shapes of the example inputs, and of the task's at each of its small sets of sizes."""
    sets = [tuple(tuple(one.shape) if isinstance(one, torch.Tensor) else None for one in inputs)]
    if not list(_weights(task.source)):
        for sizes in task.shape_sets("small").values():
            drawn = Reference(apply_shape(task.source, sizes)).inputs()
            sets.append(tuple(tuple(one.shape) if isinstance(one, torch.Tensor) else None for one in drawn))
    return tuple(dict.fromkeys(sets))


def mode_of(module: nn.Module) -> bool | None:
    """The mode that a verdict holds for; None where it holds for both."""
    return module.training if depends_on_mode(module) else None


def _weights(source: str) -> list[torch.Tensor]:
    made = Reference(source).module()
    return [*made.parameters(), *made.buffers()]


def _shown(shapes: Shapes) -> str:
    return ", ".join("×".join(map(str, one)) or "scalar" for one in shapes if one is not None)


def _flat(output: Any) -> list[torch.Tensor]:
    if isinstance(output, torch.Tensor):
        return [output]
    return [one for part in output for one in _flat(part)] if isinstance(output, list | tuple) else []
