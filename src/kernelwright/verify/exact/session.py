"""Plays a candidate's tape in exact arithmetic: one call at a small size, in the interpreter's process.

It receives residues for floating-point inputs and weights (`Value`) and ordinary tensors for the rest, and returns residues
of the outputs. If a step cannot be followed, `problem` says why; that is no failure of the candidate.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
import torch

from kernelwright.verify.exact.operators import call
from kernelwright.verify.exact.order import Calculator
from kernelwright.verify.exact.programs import Programs
from kernelwright.verify.exact.shadows import Shadows
from kernelwright.verify.exact.values import Exact, NotExact
from kernelwright.verify.exact.wire import decode, encode
from kernelwright.verify.interpret.endings import KernelError, Unsupported
from kernelwright.verify.interpret.interpreter import Engine
from kernelwright.verify.sandbox import channel
from kernelwright.verify.trace.kernels import Kernels
from kernelwright.verify.trace.replay import Candidate, Session, operator, scalar
from kernelwright.verify.trace.tape import Launch, Operation, View


@dataclasses.dataclass
class Answer:
    """The result of one call."""

    outputs: list[Exact | torch.Tensor]
    functions: frozenset[str]
    """Uninterpreted functions that were used."""
    problem: str = ""


class ExactSession(Session):
    """A session whose memory has shadows and whose launches work on residues."""

    def __init__(self, kernels: Kernels, engine: Engine, calculator: Calculator) -> None:
        super().__init__("cpu", kernels)
        self.engine, self.calculator = engine, calculator
        self.shadows = Shadows(calculator)
        self._launched = 0

    def launch(self, kernel: object, launches: list[Launch], place: int) -> None:
        given = launches[0]
        self._launched += 1
        self.calculator.site = (self._launched,)
        arguments = {name: self.argument(value) for name, value in given.arguments.items()}
        self.engine.launch(kernel, given.grid, (), {**arguments, **given.options})

    def provide(self, storage: int, size: int) -> torch.Tensor:
        if storage in self.storages:
            self.shadows.forget(self.storages[storage])
        return super().provide(storage, size)

    def bind_value(self, view: View, value: Exact | torch.Tensor) -> None:
        """Put an input or a weight into new memory."""
        self.provide(view.storage, max(view.end, 0))
        if isinstance(value, Exact):
            self.shadows.fresh(self.storages[view.storage], channel.DTYPES[view.dtype])
        self.put(view, value)

    def put(self, view: View, value: Exact | torch.Tensor) -> None:
        if isinstance(value, Exact):
            self.shadows.put(view, channel.DTYPES[view.dtype], self.storages[view.storage], value)
            return
        self.tensor(view).copy_(value)
        if self.shadows.find(self.storages[view.storage], view.itemsize) is not None:
            self.put(view, self.calculator.number(_array(value)))

    def get(self, view: View) -> Exact | torch.Tensor:
        dtype = channel.DTYPES[view.dtype]
        found = self.shadows.find(self.storages[view.storage], dtype.itemsize)
        if dtype.is_floating_point or found is not None:
            return self.shadows.get(view, dtype, self.storages[view.storage])
        return self.tensor(view)

    def step(self, operation: Operation, place: int) -> None:
        fields = operation.fields
        if operation.kind == "copy":
            self.put(fields["target"], self.get(fields["source"]))
        elif operation.kind in ("fill", "arange", "numbers"):
            super().step(operation, place)
            view = fields["view"]
            if self.shadows.find(self.storages[view.storage], view.itemsize) is not None:
                self.put(view, self.tensor(view).clone())
        elif operation.kind == "aten":
            self._operator(fields)
        else:
            super().step(operation, place)

    def address(self, view: View) -> int:
        raise NotExact("addresses of tensors among numbers")

    def _operator(self, fields: dict[str, Any]) -> None:
        arguments = fields["arguments"]
        out = call(
            self.calculator,
            operator(fields["name"]),
            tuple(self._value(item) for item in arguments["args"]),
            {name: self._value(item) for name, item in arguments["kwargs"].items()},
        )
        found = out if isinstance(out, tuple | list) else [out]
        made = [one for one in found if isinstance(one, Exact | torch.Tensor)]
        for view, value in zip(fields["results"], made, strict=False):
            if view.storage not in self.storages:
                self.provide(view.storage, view.end)
            self.put(view, value)

    def _value(self, item: object) -> object:
        if isinstance(item, dict) and "view" in item:
            return self.get(View.read(item["view"]))
        return [self._value(part) for part in item] if isinstance(item, list) else scalar(item)


def play(
    trace: dict[str, Any],
    blobs: list[torch.Tensor],
    inputs: list[Exact | torch.Tensor],
    state: dict[str, Exact | torch.Tensor],
    calculator: Calculator,
    built: dict[str, Any],
) -> Answer:
    """Play the steady call, after the calls that it needs. No engine may be installed."""
    candidate = Candidate(trace, blobs)
    engine = Engine(lambda launch: 1.0)
    engine.abreast = False
    session = ExactSession(Kernels(trace["kernels"], built), engine, calculator)
    problem, outputs = "", []
    try:
        for storage, size, blob in candidate.constants:
            memory = session.provide(storage, size)
            if blob >= 0:
                memory.copy_(blobs[blob].view(torch.uint8).reshape(-1)[:size])
        for name, view in candidate.state.items():
            if view.storage not in session.storages:
                session.provide(view.storage, view.end)
            session.put(view, state[name])
        with engine.installed(), Programs(calculator, session.shadows, engine).installed():
            calls = [-1] if candidate.alone else range(len(candidate.tapes))
            for call_number in calls:
                for view, value in zip(candidate.inputs[call_number], inputs, strict=True):
                    session.bind_value(view, value)
                session.play(candidate.tapes[call_number])
        outputs = [session.get(view) for view in candidate.steady.outputs()]
    except NotExact as error:
        problem = str(error)
    except KernelError as error:
        problem = str(error.__cause__ if isinstance(error.__cause__, NotExact) else error)[:200]
    except Unsupported as error:
        problem = str(error)[:200]
    return Answer([_copy(one) for one in outputs], frozenset(calculator.functions), problem)


def _copy(value: Exact | torch.Tensor) -> Exact | torch.Tensor:
    return value if isinstance(value, Exact) else value.clone()


def _array(value: torch.Tensor) -> np.ndarray:
    made: np.ndarray = (value.double() if value.is_floating_point() else value).numpy()
    return made


def answer_exact(
    body: dict[str, Any], tensors: list[torch.Tensor], outputs: list[torch.Tensor], built: dict[str, Any]
) -> dict[str, object]:
    """The command `exact` of the interpreter's process; see `asking.py`."""
    count = body["blobs"]
    deadline = time.process_time() + body["limit_s"]
    calculator = Calculator(body["key"], body["levels"], deadline, body["decided"])
    calculator.scalars, calculator.weights = tuple(body["scalars"]), tensors[-1].numpy()
    state = dict(zip(body["names"], decode(body["state"], tensors), strict=True))
    found = play(body["trace"], tensors[:count], decode(body["inputs"], tensors), state, calculator, built)
    return {
        "outputs": encode([] if found.problem else found.outputs, outputs),
        "functions": sorted(found.functions),
        "fewest": calculator.fewest_decisions(),
        "problem": found.problem,
    }
