"""What runs in the disposable process: the candidate, and nothing that the candidate must not see.

The worker answers commands on one socket. It knows inputs and weights, never expected outputs, seeds of inputs or
tolerances. Everything it says is checked by the judge; what it says about launches and operators is the harness's
word, given from inside the process that the candidate shares. This file is what both backends' workers share.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import linecache
import socket
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import triton
import triton.language as tl
from triton.runtime import jit

from kernelwright.outcomes import Outcome
from kernelwright.verify import channel

MODULE = "candidate"


class Failure(Exception):
    """A step ended the candidate's hearing."""

    def __init__(self, outcome: Outcome, detail: str) -> None:
        super().__init__(detail)
        self.outcome, self.detail = outcome, detail[:600]


class Worker:
    """Holds the loaded candidate. Subclasses say how it is run, and on what."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.module: Any = None
        self.models: dict[str, torch.nn.Module] = {}
        self._marks: dict[tuple[Any, str], Any] = {}

    def answer(
        self, body: dict[str, Any], tensors: list[torch.Tensor], outputs: list[torch.Tensor]
    ) -> dict[str, Any]:
        """Carry out one command; tensors to send back are appended to `outputs`. Raises Failure."""
        raise NotImplementedError

    def execute(self, code: str) -> None:
        """Run the candidate's top level as a module. Raises what it raises."""
        path = self.scratch / f"{MODULE}.py"
        path.write_text(code)
        linecache.lazycache(str(path), {"__name__": MODULE, "__loader__": None})
        spec = importlib.util.spec_from_file_location(MODULE, path)
        assert spec is not None
        assert spec.loader is not None
        module: ModuleType = importlib.util.module_from_spec(spec)
        sys.modules[MODULE] = module
        try:
            spec.loader.exec_module(module)
        except ImportError as error:
            raise Failure(Outcome.INVALID_IMPORT, last_line(error)) from None
        self.module = module

    def construct(self, init: Any, seed: int, state: dict[str, torch.Tensor], entry: str) -> list[str]:
        """Build the candidate's module and give it the reference's weights, by name where they fit."""
        torch.manual_seed(seed)
        module = getattr(self.module, entry)(*init)
        if not isinstance(module, torch.nn.Module):
            raise Failure(Outcome.CONSTRUCTOR_ERROR, f"{entry} is not an nn.Module")
        module.cuda()
        own = dict(module.named_parameters()) | dict(module.named_buffers())
        for name, value in state.items():
            if name in own and own[name].shape == value.shape:
                own[name].data.copy_(value)
        self.built = module
        return sorted(own)[:200]

    def mark(self, watched: list[tuple[Any, str]]) -> None:
        """Remember how things are that a candidate has no reason to change."""
        self._marks |= {(owner, name): getattr(owner, name) for owner, name in watched}

    def untouched(self) -> None:
        """Raises Failure if one of them was changed since."""
        for (owner, name), before in self._marks.items():
            if getattr(owner, name, None) is not before:
                raise Failure(Outcome.TAMPERING, f"{getattr(owner, '__name__', owner)}.{name} was replaced")

    @contextlib.contextmanager
    def failures(self, otherwise: Outcome) -> Iterator[None]:
        """Sorts whatever candidate code can raise; `otherwise` is what an ordinary exception is called."""
        try:
            yield
        except Failure:
            raise
        except MemoryError:
            raise Failure(Outcome.OUT_OF_MEMORY, "out of host memory") from None
        except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:
            if isinstance(error, RuntimeError) and "can't allocate memory" in str(error):
                raise Failure(Outcome.OUT_OF_MEMORY, "out of memory") from None
            if isinstance(error, (SystemExit, KeyboardInterrupt)):
                raise Failure(Outcome.EARLY_EXIT, f"{type(error).__name__} raised") from None
            raise Failure(otherwise, last_line(error)) from None


def check_outputs(tensors: list[torch.Tensor]) -> None:
    """Raises Failure for outputs that are not plain dense tensors."""
    if any(type(tensor) not in (torch.Tensor, torch.nn.Parameter) for tensor in tensors):
        raise Failure(Outcome.WRONG_STRUCTURE, "an output is a tensor subclass")
    if any(tensor.is_meta or tensor.layout != torch.strided for tensor in tensors):
        raise Failure(Outcome.WRONG_STRUCTURE, "an output is not a dense tensor")


REPLACED: list[tuple[Any, str]] = [(jit.JITFunction, "run"), (tl, "store"), (tl, "load")]
"""What an interpreter itself replaces."""
WATCHED: list[tuple[Any, str]] = [
    *REPLACED,
    (torch.Tensor, "__eq__"),
    (torch, "empty"),
    (torch, "allclose"),
    (torch, "equal"),
    (torch.nn.Module, "__call__"),
    (torch.cuda, "synchronize"),
    (torch.cuda, "Event"),
    (builtins, "print"),
    (builtins, "__import__"),
    (channel, "send"),
    (channel, "tensor_bytes"),
    (channel, "encode"),
    (triton, "jit"),
    (socket.socket, "sendall"),
]


def map_tree(tree: Any, function: Any) -> Any:
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if isinstance(tree, (list, tuple)):
        return type(tree)(map_tree(item, function) for item in tree)
    if isinstance(tree, dict):
        return {key: map_tree(value, function) for key, value in tree.items()}
    return tree


def last_line(error: BaseException) -> str:
    """Exception type, message, and the candidate's own line, if one is on the stack."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.endswith(f"{MODULE}.py")
    ]
    where = f" (line {frames[-1].lineno}: {frames[-1].line})" if frames else ""
    return f"{type(error).__name__}: {str(error).strip()[:300]}{where}"


def serve(sock: socket.socket, worker: Worker) -> None:
    """Answer commands until the judge hangs up."""
    while True:
        try:
            body, tensors = channel.receive(sock)
        except channel.ChannelClosed:
            return
        outputs: list[torch.Tensor] = []
        try:
            answer = worker.answer(body, tensors, outputs)
        except Failure as failure:
            answer = {"outcome": str(failure.outcome), "detail": failure.detail}
        except MemoryError:
            answer = {"outcome": str(Outcome.OUT_OF_MEMORY), "detail": "out of host memory"}
        channel.send(sock, answer, outputs)
