"""The proof step of a verification: the judge's question and the device's answer, for one small size after the other.

If a candidate cannot be followed, takes too long, or ends the device's process, it is `tested`, with that as the reason:
it was accepted before this step.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from kernelwright.outcomes import Gate
from kernelwright.records import Proof
from kernelwright.verify.confined import Confined, Stop
from kernelwright.verify.exact.values import NotExact
from kernelwright.verify.exact.wire import decode, encode

if TYPE_CHECKING:
    from kernelwright.verify.exact.proof import Question
    from kernelwright.verify.reference.oracle import ShapeCases
    from kernelwright.verify.traced import Trace

LIMIT_S = 5.0
"""Most seconds of CPU time for one size on the device: a loaded machine proves as much as a quiet one."""
_SIZES = 2
"""Number of small sizes to prove."""


@dataclasses.dataclass
class Posed:
    """The question of one small size, which the judge caches."""

    first: Question | NotExact
    """With comparisons as unknown functions."""

    @functools.cached_property
    def second(self) -> Question | NotExact:
        """With comparisons decided at random."""
        try:
            return self.first if isinstance(self.first, NotExact) else self.first.decide()
        except NotExact as error:
            return error


def question(shape: ShapeCases, secret: int) -> Posed:
    """The result of `ask`, or the NotExact that it raises."""
    from kernelwright.verify.exact.proof import ask  # torch's tracer takes seconds to import

    try:
        return Posed(ask(shape, secret))
    except NotExact as error:
        return Posed(error)


def prove(
    questions: Callable[[ShapeCases], Posed],
    device: Confined,
    shapes: Sequence[ShapeCases],
    traces: Sequence[Trace],
) -> Proof:
    """The proof over the first small sizes. `questions(shape)` returns the cached `question`."""
    tried: list[str] = []
    for shape, trace in list(zip(shapes, traces, strict=True))[:_SIZES]:
        tried.append(shape.name)
        pair = questions(shape)
        try:
            proof = _one(pair.first, device, trace)
            if proof.differs and "comparison" in proof.functions:
                proof = _one(pair.second, device, trace)
        except Stop as stop:
            return Proof(status="tested", reason=f"{stop.outcome}: {stop.detail}"[:200], shapes=tuple(tried))
        if proof.status != "proven":
            return proof.model_copy(update={"shapes": tuple(tried)})
    return Proof(status="proven", shapes=tuple(tried))


def _one(question: Question | NotExact, device: Confined, trace: Trace) -> Proof:
    if isinstance(question, NotExact):
        return Proof(status="tested", reason=str(question)[:200])
    tensors = list(trace.blobs)
    names = [name for name in question.state if name in trace.traced.state]
    body = {
        "command": "exact",
        "trace": trace.warmed_up(),
        "blobs": len(tensors),
        "inputs": encode(question.inputs, tensors),
        "names": names,
        "state": encode([question.state[name] for name in names], tensors),
        "key": question.key,
        "levels": question.traced.levels,
        "scalars": question.scalars,
        "decided": question.decided,
        "limit_s": max(0.1, min(LIMIT_S, (device.deadline - time.monotonic()) / 2)),
    }
    tensors.append(torch.from_numpy(question.weights))
    answer, outputs = device.ask(Gate.DETERMINISM, body, tensors)
    try:
        values = decode(answer["outputs"], outputs)
        functions = [str(name)[:40] for name in answer["functions"]]
        return question.judge(values, functions, str(answer["problem"]), int(answer["fewest"]))
    except (LookupError, TypeError, ValueError) as error:
        return Proof(status="tested", reason=f"no answer: {type(error).__name__}")
