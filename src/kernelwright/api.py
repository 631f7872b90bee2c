"""The package as a library: takes a module or function, returns a drop-in replacement that runs verified kernels.

    import kernelwright

    fast = kernelwright.optimize(module, example_inputs)     # searched once, then read from the cache
    kernelwright.save(fast, "block.kernel.json")
    fast = kernelwright.load("block.kernel.json", module)
    kernelwright.export(fast, "block-kernel")                # a folder for Hugging Face's `kernels`

A kernel runs in this process only after the complete replacement has been judged end to end.
"""

from __future__ import annotations

import json
import math
import random
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from kernelwright.drop_in import Optimized, VerifiedModule, arch_of, drop_in
from kernelwright.drop_in.fingerprint import find_hooked
from kernelwright.drop_in.layer import export
from kernelwright.errors import InfrastructureError, UserError, one_line
from kernelwright.graph.agree import agree
from kernelwright.graph.capture import Captured, capture
from kernelwright.graph.task import main_dtype
from kernelwright.graph.types import TensorType
from kernelwright.hardware import target as target_sheet
from kernelwright.precision import CAST, check_name
from kernelwright.runs import write_text
from kernelwright.search.cache import KernelCache, check_rungs, versions
from kernelwright.search.cases import Case, of_captured
from kernelwright.search.ladder import Watch
from kernelwright.search.rung import AnyRung, CannotWrite, definitions, key_of
from kernelwright.search.rungs import CompilerRung, Contractions, rungs_of
from kernelwright.search.whole import Found, Settings
from kernelwright.synth.ranking import target_here
from kernelwright.verify.pool import check_backend

__all__ = ["Optimized", "VerifiedModule", "captured_of", "export", "load", "optimize", "save", "settings_of"]

RUNGS = ("compiler", "library", "model")
"""Rungs asked by default; with a GPU, kernels are also tuned."""


@contextmanager
def random_kept() -> Iterator[None]:
    """Leave the caller's random state (Python's, NumPy's, torch's on the CPU and on GPUs in use) as it was, on errors, too."""
    ours, of_numpy, of_torch = random.getstate(), np.random.get_state(), torch.get_rng_state()
    on_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    try:
        yield
    finally:
        random.setstate(ours)
        np.random.set_state(of_numpy)
        torch.set_rng_state(of_torch)
        if on_gpus is not None:
            torch.cuda.set_rng_state_all(on_gpus)


@random_kept()
def optimize(
    module: nn.Module | Callable[..., Any],
    example_inputs: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    seconds: float = 45.0,
    target: str = "",
    contractions: Contractions = "auto",
    dynamic: bool = False,
    backend: str = "auto",
    protocol: str = "strict",
    precision: str = "default",
    workers: int = 0,
    cache: bool | str | Path = True,
    rungs: Sequence[str] = (),
    model: str = "default",
    quiet: bool = False,
) -> Any:
    """An `Optimized` that runs `module` through verified Triton kernels. Returns `module` itself, with a warning that says why, if
    no kernel was verified within `seconds`, the judge fails, or the result is slower than the faster of eager and torch.compile. A
    function becomes a module.

    `example_inputs` (one tensor, or a tuple) and `kwargs` are forward's arguments, in the sizes and types wanted;
    `dynamic` keeps the first two dimensions of inputs free if the module allows it. `target` is the GPU to write for
    (default: the local one, else h200). With `contractions="own"`, products and convolutions are kernels, too.
    `precision`: default (PyTorch's default flags), ieee, tf32; bf16 and fp16 if the module is already in that type.
    `cache` is a folder for kernels (True: the user's own, False: none). `rungs` are the rungs of the ladder to ask
    (compiler, library, model, tune); `model` is the policy of the model rung.

    Raises UserError, in one line, for a module that cannot be captured and for bad options; the module is unchanged then.
    """
    from kernelwright.cli import show

    began = time.monotonic()
    settings, arch, chosen = settings_of(
        seconds, target, contractions, backend, protocol, workers, rungs, model, precision, dynamic
    )
    single = not isinstance(example_inputs, list | tuple) or hasattr(example_inputs, "_fields")
    inputs = (example_inputs,) if single else tuple(example_inputs)
    captured, found = searched(
        module, inputs, kwargs, settings, KernelCache.of(cache), chosen, dynamic=dynamic, backend=backend, began=began,
        watch=(lambda tried: None) if quiet else show.show_rung,
    )  # fmt: skip
    name = captured.graph.name
    if not quiet and found.rows:
        show.console(stderr=True).print(
            show.groups(found.rows, found.answer.verdict if found.answer else None)
        )
    why = found.reason or found.slower
    if found.answer is None or why:
        warnings.warn(f"{name} stays as it is: {why}", RuntimeWarning, stacklevel=3)  # past its decorator
        return module
    answer = found.answer
    verified = VerifiedModule(
        name=name, graph=captured.graph, code=answer.code, verdict=answer.verdict, rows=found.rows, arch=arch,
        gpu=settings.gpu, versions=versions(), example=_example(inputs, kwargs or {}, dynamic),
    )  # fmt: skip
    made: nn.Module = drop_in(_watch(module, captured), verified, captured.part.call, _constants(captured))
    return made


def searched(
    module: nn.Module | Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    settings: Settings,
    cache: KernelCache,
    rungs: Sequence[AnyRung] = (),
    *,
    dynamic: bool = False,
    backend: str = "auto",
    began: float | None = None,
    watch: Watch = lambda tried: None,
) -> tuple[Captured, Found]:
    """The graph that `optimize` captures, and the search's result, whether or not `optimize` would use it.

    The budget counts from `began`. Raises UserError if the module cannot be captured, or if the graph and the module compute
    different results.
    """
    from kernelwright.verify import opened

    began = time.monotonic() if began is None else began
    chosen = rungs or rungs_of(
        settings.rungs, settings.target, settings.contractions, precision=settings.precision
    )
    _refuse(module)
    if cache.empty:  # an empty cache means a search: start its processes now, since their imports take longer than capturing
        warm_up(settings, chosen)
    captured = captured_of(module, args, kwargs, dynamic)
    cast, dtype = CAST.get(settings.precision, ""), main_dtype(captured.graph)
    if cast and cast != dtype:
        raise UserError(
            f"{type(module).__name__} is in {dtype}: cast it and its inputs with .to(torch.{cast}), or leave precision out"
        )
    try:
        found = case_of(module, captured).search(
            lambda: opened.judge(
                None, backend, settings.protocol, settings.target, settings.workers, settings.verdict_s
            ),
            lambda: chosen,
            cache,
            settings,
            began=began,
            watch=watch,
        )
    except InfrastructureError as error:  # no reason for the caller's program to end
        found = Found(reason=str(error))
    return captured, found


def warm_up(settings: Settings, rungs: Sequence[AnyRung]) -> None:
    """Start the processes of the judge and of the compiler rung; returns at once, while they import."""
    from kernelwright.verify import opened

    opened.warm_up(settings.target)
    for rung in rungs:
        if isinstance(rung, CompilerRung):
            rung.start()


def case_of(module: nn.Module | Callable[..., Any], captured: Captured) -> Case:
    """The search case of a captured module; its check compares the module with its graph before the search."""

    def check() -> None:
        with _without_hooks(module):
            agree(captured.part)

    return of_captured(captured, check)


def save(optimized: nn.Module, path: str | Path) -> Path:
    """Write the kernels with their verdict to one JSON file. Raises UserError unless given an `Optimized`."""
    if not isinstance(optimized, Optimized):
        raise UserError(
            f"save: {type(optimized).__name__} runs no kernel; pass what kernelwright.optimize returned"
        )
    return write_text(Path(path), optimized.verified.model_dump_json(indent=1) + "\n")


@random_kept()
def load(path: str | Path, module: nn.Module | Callable[..., Any]) -> nn.Module:
    """The module or function with the kernels that `save` wrote. The file contains code that is executed: load only files that
    you trust.

    Raises UserError for any other file, and if the kernels were found for another module.
    """
    try:
        verified = VerifiedModule.model_validate_json(Path(path).read_text(encoding="utf-8"))
        runs = "run" in definitions(verified.code)
    except OSError as error:
        raise UserError(f"load: {path} cannot be read ({error.strerror}); check the path") from None
    except (ValidationError, ValueError, CannotWrite):
        raise UserError(f"load: {path} is not a file of kernelwright.save; save it again") from None
    if not runs:
        raise UserError(f"load: {path} holds code without a run(...); save it again")
    if not verified.verdict.correct:
        raise UserError(f"load: {path} holds a kernel that was not accepted; optimize again")
    args, kwargs, dynamic = _recall(verified, path, module)
    try:
        captured = captured_of(module, args, kwargs, dynamic)
    except UserError as error:
        raise UserError(
            f"load: {path} was found for a module that is called in another way than this one ({error})"
        ) from None
    if captured.graph.digest != verified.graph.digest:
        raise UserError(
            f"load: {path} was found for another module than {captured.graph.name} (it computes something else, or "
            "has other sizes, types or mode); optimize this one"
        )
    made: nn.Module = drop_in(_watch(module, captured), verified, captured.part.call, _constants(captured))
    return made


def _watch(module: nn.Module | Callable[..., Any], captured: Captured) -> nn.Module:
    """The module that a drop-in wraps: the module itself, or a module that calls the function."""
    return module if isinstance(module, nn.Module) else captured.part.module


def _refuse(module: nn.Module | Callable[..., Any]) -> str:
    """The name of a module or function. Raises UserError for what obviously cannot be captured."""
    if not callable(module):
        shown = one_line(repr(module), 60) if isinstance(module, str) else type(module).__name__
        raise UserError(f"{shown} is neither a module nor a function; pass one, with its example inputs")
    name = (
        type(module).__name__ if isinstance(module, nn.Module) else getattr(module, "__name__", repr(module))
    )
    if isinstance(module, type):
        raise UserError(f"{name} is a class; make an instance of it, with its example inputs")
    if isinstance(getattr(module, "__self__", None), nn.Module):
        raise UserError(f"{name} is a method; pass the module itself, or a function that calls it")
    if isinstance(module, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        raise UserError(f"{name} is a TorchScript module, which cannot be captured; pass the original")
    if isinstance(module, Optimized):
        raise UserError(f"{name} is optimized already; pass its .original to search again")
    lazy = isinstance(module, nn.Module) and any(map(is_lazy, (*module.parameters(), *module.buffers())))
    if isinstance(module, nn.Module) and not lazy and (hook := find_hooked(module)):
        raise UserError(
            f"{name}: {hook} has hooks, which a kernel for the whole would not call; remove them first (in place of a "
            "torch.nn.utils.weight_norm or spectral_norm take that of torch.nn.utils.parametrizations)"
        )
    if torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"):
        raise UserError(f"{name}: autocast is on; leave it, and cast the module with .to(dtype) instead")
    return name


@random_kept()
def captured_of(
    module: nn.Module | Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    dynamic: bool = False,
) -> Captured:
    """Capture a module or function as one graph. Raises UserError."""
    name = _refuse(module)
    if not isinstance(kwargs, Mapping | None):
        raise UserError(f"{name}: kwargs is a {type(kwargs).__name__}; give a dict of arguments by name")
    try:
        with _without_hooks(module):
            captured = capture(module, args, kwargs, dynamic=dynamic, breaks=False)
        graph = captured.graph
    except UserError as error:
        raise UserError(f"{name} cannot be captured: {error}") from None
    if graph.symbols and not dynamic:
        raise UserError(
            f"{name}: its sizes depend on numbers among its arguments; pass them as they are used"
        )
    training = isinstance(module, nn.Module) and module.training
    for argument in graph.arguments:
        if argument.mutated and argument.role != "input" and (training or argument.role != "buffer"):
            fix = "in training; call .eval() on it first" if training else "in place; make it a buffer"
            raise UserError(f"{name} updates {argument.origin or argument.name} {fix}")
    if not any(isinstance(value, torch.Tensor) for value in captured.part.inputs.values()):
        raise UserError(
            f"{name}: there is no tensor among the example inputs that it reads; pass what forward takes"
        )
    if not graph.nodes:
        raise UserError(f"{name} computes nothing: it returns its inputs or constants")
    types = graph.types()
    if all(isinstance(one := types[result], TensorType) and 0 in one.shape for result in graph.results):
        raise UserError(f"{name} returns no elements for these inputs; pass an example that has some")
    return captured


@contextmanager
def _without_hooks(module: nn.Module | Callable[..., Any]) -> Iterator[None]:
    """Without the module's own hooks, which its caller runs before and after the kernel."""
    if not isinstance(module, nn.Module):
        yield
        return
    names = ("_forward_hooks", "_forward_pre_hooks")
    kept = {name: module.__dict__[name] for name in names}
    try:
        module.__dict__.update({name: OrderedDict() for name in names})
        yield
    finally:
        module.__dict__.update(kept)


def settings_of(
    seconds: float = 45.0,
    target: str = "",
    contractions: Contractions = "auto",
    backend: str = "auto",
    protocol: str = "strict",
    workers: int = 0,
    rungs: Sequence[str] = (),
    model: str = "default",
    precision: str = "default",
    dynamic: bool = False,
) -> tuple[Settings, str, list[AnyRung]]:
    """Settings, the architecture that kernels are compiled for, and the rungs of the ladder. Raises UserError."""
    words = {"target": target, "backend": backend, "protocol": protocol, "model": model}
    for option, word in words.items():
        if not isinstance(word, str):
            raise UserError(f"{option} is {word!r}; give a word in quotes")
    if contractions not in ("own", "auto"):
        raise UserError(f"unknown contractions {contractions!r}: choose own or auto")
    if not isinstance(seconds, int | float) or not 0 < seconds < math.inf:
        raise UserError(f"seconds is {seconds!r}; give a budget above 0")
    if not isinstance(dynamic, bool):
        raise UserError(f"dynamic is {dynamic!r}; give True or False")
    if not isinstance(workers, int) or workers < 0:
        raise UserError(f"workers is {workers!r}; give how many, 0 for the default")
    check_backend(backend)
    sheet = target_sheet(target or target_here())
    if backend == "interpret" or not torch.cuda.is_available():
        gpu, arch = "", sheet.arch
    else:
        gpu, arch = torch.cuda.get_device_name(), arch_of()
    names = check_rungs(rungs) or (*RUNGS, *(("tune",) if gpu else ()))
    chosen = rungs_of(names, sheet.name, contractions, precision=check_name(precision), model=model)
    settings = Settings(
        seconds,
        sheet.name,
        contractions,
        precision=check_name(precision),
        protocol=protocol,
        gpu=gpu,
        workers=workers or 2,
        rungs=tuple(map(key_of, chosen)),
    )
    return settings, arch, chosen


def _constants(captured: Captured) -> dict[str, torch.Tensor]:
    """Lifted constant tensors by argument name: those that no state_dict has."""
    roles = {one.name: one.role for one in captured.graph.arguments}
    return {name: value for name, value in captured.part.values.items() if roles.get(name) == "constant"}


def _example(args: Sequence[Any], kwargs: Mapping[str, Any], dynamic: bool) -> str:
    """The form of a call as JSON; empty if pytree cannot serialise it."""
    leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    described = [
        {
            "dtype": str(one.dtype).removeprefix("torch."),
            "shape": list(one.shape),
            "strides": list(one.stride()),
        }
        if isinstance(one, torch.Tensor)
        else {"value": one}
        for one in leaves
    ]
    try:
        return json.dumps({"spec": pytree.treespec_dumps(spec), "leaves": described, "dynamic": dynamic})
    except (TypeError, ValueError, NotImplementedError):
        return ""


def _blank(described: Mapping[str, Any], device: torch.device) -> torch.Tensor:
    """A tensor of zeros in the form that `_example` described."""
    shape, dtype = described["shape"], getattr(torch, described["dtype"])
    strides = described.get("strides")
    if strides is None or 0 in shape:
        return torch.zeros(shape, dtype=dtype, device=device)
    room = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    return torch.zeros(room, dtype=dtype, device=device).as_strided(shape, strides)


def _recall(
    verified: VerifiedModule, path: str | Path, module: nn.Module | Callable[..., Any]
) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """Arguments in the form that `_example` wrote. Raises UserError."""
    if not verified.example:
        raise UserError(f"load: {path} does not say how the module is called; optimize again")
    try:
        known = json.loads(verified.example)
        own = (*module.parameters(), *module.buffers()) if isinstance(module, nn.Module) else ()
        device = next((one.device for one in own), torch.device("cpu"))
        leaves = [one["value"] if "value" in one else _blank(one, device) for one in known["leaves"]]
        args, kwargs = pytree.tree_unflatten(leaves, pytree.treespec_loads(known["spec"]))
        return args, kwargs, bool(known["dynamic"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise UserError(
            f"load: {path} does not say how the module is called ({type(error).__name__}); save it again"
        ) from None
