"""The rungs of the ladder that write kernels: the user's own kernel, the compiler, the library of programs.

    rungs_of(("compiler", "library"), "h200", "own")        in the order in which they are asked

Does not guarantee that their kernels are right: the ladder has them judged.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Literal

import torch

from kernelwright.graph import Graph
from kernelwright.graph.operators import RECURRENT, packet
from kernelwright.policy import check_name
from kernelwright.policy.compiler import CannotCompile, start, write
from kernelwright.search.cache import Rung, check_rungs
from kernelwright.search.model import ModelRung
from kernelwright.search.rung import AnyRung, CannotWrite, check_parameters, entry_of
from kernelwright.search.tune import TuneRung
from kernelwright.synth.library import program_of
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.to_triton import print_triton

Contractions = Literal["own", "auto"]


def rungs_of(
    names: Sequence[str],
    target: str,
    contractions: Contractions,
    *,
    precision: str = "default",
    model: str = "default",
) -> list[AnyRung]:
    """The named rungs. Raises UserError for an unknown rung or model."""
    made: list[AnyRung] = []
    for name in check_rungs(names):
        if name == "compiler":
            made.append(CompilerRung(target, contractions))
        elif name == "library":
            made.append(LibraryRung(target, precision))
        elif name == "model":
            check_name(model)
            made.append(ModelRung(model, target, samples=8 if torch.cuda.is_available() else 2))
        else:
            made.append(TuneRung(target, precision))
    return made


class CompilerRung:
    """Inductor's kernels, rewritten to our form."""

    name: Rung = "compiler"

    def __init__(self, target: str, contractions: Contractions = "own") -> None:
        self.target, self.contractions = target, contractions
        self._lock = threading.Lock()  # one helper process, one request at a time

    def start(self) -> None:
        """Start warming up the helper process; returns at once."""
        start(self.target)

    def write(self, graph: Graph, sizes: Sequence[Mapping[str, int]], seconds: float) -> str:
        modes: tuple[Contractions, ...] = ("own",) if self.contractions == "own" else ("auto", "own")
        if self.contractions == "auto" and any(packet(node.op) in RECURRENT for node in graph.nodes):
            modes = ("auto",)  # as own kernels a recurrent layer is one for every cell
        reason, until = "", time.monotonic() + seconds
        for mode in modes:
            try:
                with self._lock:
                    left = max(1.0, until - time.monotonic())
                    text = write(graph, contractions=mode, target=self.target, sizes=sizes, seconds=left)
                if "@triton.jit" in text:
                    return text
                reason = reason or "all of it stays with ATen"
            except CannotCompile as error:
                if str(error).startswith("timeout"):
                    raise TimeoutError(str(error)) from None
                reason = reason or str(error)
                if error.kind == "size":  # found in the trace, which is the same for both
                    break
        raise CannotWrite(reason)


class LibraryRung:
    """A program of the library with its best known schedule."""

    name: Rung = "library"

    def __init__(self, target: str, precision: str = "ieee") -> None:
        self.target, self.precision = target, precision

    def write(self, graph: Graph, sizes: Sequence[Mapping[str, int]], seconds: float) -> str:
        try:
            program = program_of(graph, self.target, self.precision)
            if program is None:
                raise CannotWrite("no loop nest of the library fits the graph")
            return print_triton(program)
        except Unsupported as why:
            raise CannotWrite(str(why)) from None


class UserRung:
    """A kernel of the user's, for the whole graph."""

    name: Rung = "user"

    def __init__(self, code: str) -> None:
        self.code = code
        self.key = f"user:{hashlib.sha256(code.encode()).hexdigest()[:12]}"

    def write(self, graph: Graph, sizes: Sequence[Mapping[str, int]], seconds: float) -> str:
        if entry_of(self.code) != "module":
            check_parameters(self.code, graph)
        return self.code
