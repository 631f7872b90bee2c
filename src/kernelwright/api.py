"""The package as a library: a module in, a drop-in module out that runs a verified kernel.

    import kernelwright

    fast = kernelwright.optimize(module, example_inputs)     # searched once, then taken from the cache
    kernelwright.save(fast, "norm.kernel.json")
    fast = kernelwright.load("norm.kernel.json", module)

A kernel is executed in this process only after two judges with different secrets have accepted it.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import nn

from kernelwright.drop_in import Optimized, VerifiedKernel, arch_of, mode_of, shapes_of, types_of, versions
from kernelwright.errors import UserError
from kernelwright.hardware import target as target_sheet
from kernelwright.records import Task
from kernelwright.runs import RunFolder, write_text
from kernelwright.search import Found, Settings, agents_of, furthest
from kernelwright.search import optimize as search
from kernelwright.tasks.capture import Captured, capture, digest_of

__all__ = ["Optimized", "VerifiedKernel", "load", "optimize", "save"]


def optimize(
    module: nn.Module,
    example_inputs: Any,
    *,
    policy: str = "default",
    target: str = "",
    samples: int = 8,
    turns: int = 3,
    verdicts: int = 0,
    seconds: float = 45.0,
    temperature: float = 0.8,
    max_tokens: int = 1024,
    seed: int = 0,
    tune: bool = True,
    backend: str = "auto",
    protocol: str = "strict",
    workers: int = 0,
    init: Mapping[str, Any] | None = None,
    cache: bool | str | Path = True,
    run: str | Path = "",
    quiet: bool = False,
) -> nn.Module:
    """`module` with its forward pass in a verified Triton kernel, as an `Optimized`; `module` itself, with a warning
    that says what was tried, where no kernel was verified or the best of them is slower beyond the noise.

    `example_inputs` are the arguments of `forward` at the sizes and types wanted (one tensor, or a tuple). `target` is
    the GPU to write for (by default h200, or the one that is here); `init` gives constructor arguments that cannot be
    read back from attributes. `cache` is a folder for found kernels (True: the user's own, False: none), `run` one for
    every attempt. Other options are those of `kernelwright optimize`.

    Raises UserError, in one line, for a module that cannot be made a task and for bad options.
    """
    from kernelwright.cli import read, show

    inputs = tuple(example_inputs) if isinstance(example_inputs, list | tuple) else (example_inputs,)
    policies = agents_of(policy, target)
    sheet = target_sheet(target or "h200")
    captured = capture(module, inputs, init)
    arch, gpu = _gpu(backend, sheet.arch)
    store = _Cache(cache)
    key = {
        "module": captured.digest,
        "task": captured.task.digest,
        "shapes": [list(one.shape) if isinstance(one, torch.Tensor) else None for one in inputs],
        "types": types_of(inputs),
        "target": gpu or sheet.name,
        "protocol": protocol,
        "versions": dict(versions()),
    }
    known = store.get(key)
    if known is not None:
        return Optimized(module, known)
    task = _sized(captured.task)
    settings = Settings(samples, turns, sheet.name, temperature, max_tokens, seed, verdicts, seconds, tune)
    with tempfile.TemporaryDirectory() as passing, show.Live(quiet=quiet) as live:
        found = search(
            task,
            policies,
            RunFolder(run or passing),
            lambda: read.judge(task, backend, protocol, sheet.name, workers),
            settings,
            watch=live,
        )
    if found.best is None:
        warnings.warn(_unsolved(found), RuntimeWarning, stacklevel=2)
        return module
    verified = _verified(module, captured, task, inputs, found, arch, gpu)
    timing = verified.verdict.timing
    if timing is not None and timing.speedup_ci["eager"][1] < 1:
        gain = f"{timing.speedup():.2f} times as fast ({timing.kind} on {timing.target})"
        warnings.warn(f"{task.id} stays as it is: its best kernel is {gain}", RuntimeWarning, stacklevel=2)
        return module
    store.put(key, verified)
    return Optimized(module, verified)


def save(optimized: nn.Module, path: str | Path) -> Path:
    """Write a found kernel with its verdict to one JSON file. Raises UserError for what is no `Optimized`."""
    if not isinstance(optimized, Optimized):
        raise UserError(
            f"save: {type(optimized).__name__} runs no kernel; pass what kernelwright.optimize returned"
        )
    return write_text(Path(path), optimized.verified.model_dump_json(indent=1) + "\n")


def load(path: str | Path, module: nn.Module) -> Optimized:
    """`module` with the kernel that `save` wrote. The file holds code that is executed: load only what you trust.

    Raises UserError for a file that is no such thing, and for another module than it was found for.
    """
    try:
        verified = VerifiedKernel.model_validate_json(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"load: {path} cannot be read ({error.strerror}); check the path") from None
    except (ValidationError, ValueError):
        raise UserError(f"load: {path} is no kernel that kernelwright.save wrote; save it again") from None
    if not verified.verdict.correct:
        raise UserError(f"load: {path} holds a kernel that was not accepted; optimize again")
    if verified.module != digest_of(module):
        raise UserError(
            f"load: {path} was found for another module than this {type(module).__name__} (its class, sizes, types or "
            "mode differ); optimize this one"
        )
    return Optimized(module, verified)


def _sized(task: Task) -> Task:
    from kernelwright.tasks import small_shapes

    sized = small_shapes(task)
    if not sized.shape_sets("small"):
        raise UserError(
            f"{task.id.removeprefix('module/')}: no sizes small enough to be judged at were found; write it as a task "
            "folder with a task.toml that gives [shapes.small], and use kernelwright optimize"
        )
    return sized


def _verified(
    module: nn.Module,
    captured: Captured,
    task: Task,
    inputs: Sequence[Any],
    found: Found,
    arch: str,
    gpu: str,
) -> VerifiedKernel:
    assert found.best is not None
    return VerifiedKernel(
        task=task,
        module=captured.digest,
        prefix=captured.prefix,
        code=found.best.candidate.code,
        verdict=found.best.verdict,
        shapes=shapes_of(task, inputs),
        dtypes=types_of(inputs),
        arch=arch,
        gpu=gpu,
        training=mode_of(module),
        versions=versions(),
    )


def _gpu(backend: str, arch: str) -> tuple[str, str]:
    """(compute capability, name) of the GPU that judges here; the target's capability and nothing where none does."""
    if backend == "interpret" or not torch.cuda.is_available():
        return arch, ""
    return arch_of(), torch.cuda.get_device_name()


def _unsolved(found: Found) -> str:
    """What was tried in vain and how far it came, in one line."""
    name = found.task.id.removeprefix("module/")
    ended: dict[str, int] = {}
    for rollout in found.rollouts:
        outcome = rollout.verdict.outcome.value.replace("_", " ")
        ended[outcome] = ended.get(outcome, 0) + 1
    listed = ", ".join(
        f"{count} {outcome}" for outcome, count in sorted(ended.items(), key=lambda item: -item[1])
    )
    last = furthest(found)
    said = " ".join(last.verdict.detail.split())[:160] if last is not None else ""
    return (
        f"no kernel for {name} was verified, and it stays as it is: {len(found.rollouts)} candidates ended as "
        f"{listed or 'nothing'}" + (f"; the furthest: {said}" if said else "")
    )


class _Cache:
    """Found kernels on disk by what they were found for. Entries appear by rename; one that cannot be read is none."""

    def __init__(self, where: bool | str | Path) -> None:
        from kernelwright.verify.store import default_folder

        self.folder = (
            None if where is False else default_folder() / "kernels" if where is True else Path(where)
        )

    def get(self, key: Mapping[str, Any]) -> VerifiedKernel | None:
        if self.folder is None:
            return None
        try:
            known = VerifiedKernel.model_validate_json(self._path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return known if known.verdict.correct else None

    def put(self, key: Mapping[str, Any], verified: VerifiedKernel) -> None:
        if self.folder is not None:
            try:
                write_text(self._path(key), verified.model_dump_json(indent=1) + "\n")
            except UserError as error:
                warnings.warn(
                    f"the kernel is not kept for the next time: {error}", RuntimeWarning, stacklevel=3
                )

    def _path(self, key: Mapping[str, Any]) -> Path:
        assert self.folder is not None
        name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]
        return self.folder / f"{name}.kernel.json"
