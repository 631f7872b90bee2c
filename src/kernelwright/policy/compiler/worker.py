"""Runs Inductor in separate processes: a helper imports torch once and forks for each graph.

    with Compiler() as compiler:
            compiler.answer(graph)      # Answer(code=..., ...) or Answer(reason="extern: aten.sort")
            compiler.module(task)       # the same with `class ModelNew`; executes the task's reference

If Inductor crashes, hangs or uses too much memory on a graph, only its child ends, and the reason is counted.
"""

from __future__ import annotations

import itertools
import math
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Literal

from kernelwright.children import Helper, run_forked, serve
from kernelwright.graph import Argument, Graph, Node, Ref, TensorType, Value
from kernelwright.graph.types import Symbol
from kernelwright.hardware import target as target_sheet
from kernelwright.policy.compiler.reasons import CannotCompile
from kernelwright.records import Record, Task

Contractions = Literal["own", "auto"]
SECONDS = 60.0
"""CPU seconds per graph, so that the load of the machine does not matter."""
_PATIENCE = 10
"""A graph is also given up after this many times as much wall-clock time."""
MEMORY = 12 * 2**30
"""Bytes of address space per graph."""


class Answer(Record):
    """The result for one graph: code that defines `kernel`, or the reason why there is none."""

    code: str = ""
    reason: str = ""
    raw: str = ""
    """Inductor's own module, even if it could not be rewritten."""


class Compiler(Helper):
    """The helper process and its interface. `target`: a name in `hardware`, such as `h200`; each graph may take `seconds` of CPU
    time and, if set, `wall` seconds of wall-clock time."""

    def __init__(self, target: str = "h200", seconds: float = SECONDS) -> None:
        self.target, self.seconds = target_sheet(target).name, seconds
        self.wall: float | None = None
        super().__init__("kernelwright.policy.compiler.worker", self.target, does="runs Inductor", quiet=True)

    def answer(
        self, graph: Graph, contractions: Contractions = "own", sizes: Sequence[Mapping[str, int]] = ()
    ) -> Answer:
        """`sizes`: values of symbols, besides their hints, for which the code must be valid. Raises InfrastructureError if the
        helper itself has died."""
        question = {"graph": graph.model_dump_json(), "sizes": [dict(one) for one in sizes]}
        return self._ask(question, contractions)

    def module(self, task: Task, contractions: Contractions = "own") -> Answer:
        """A module for a task in the KernelBench form, whose reference (trusted code) the helper executes. Raises
        InfrastructureError if the helper itself has died."""
        return self._ask({"task": task.model_dump(mode="json")}, contractions)

    def _ask(self, question: dict[str, Any], contractions: Contractions) -> Answer:
        wall = _PATIENCE * self.seconds if self.wall is None else self.wall
        limits = {"seconds": self.seconds, "wall": wall}
        return Answer.model_validate(self.ask({**question, "contractions": contractions, **limits}))


def answer(
    graph: Graph, contractions: Contractions = "own", sizes: Sequence[Mapping[str, int]] = ()
) -> Answer:
    """Compile and rewrite in this process, which `offline.install` must have prepared. Never raises."""
    from kernelwright.policy.compiler import function, lower

    raw = ""
    try:
        lowered = lower.lower(graph, contractions, sizes)
        raw = lowered.code
        return Answer(code=function.write(lowered), raw=raw)
    except CannotCompile as reason:
        return Answer(reason=str(reason), raw=raw)
    except Exception as error:  # Inductor and the rewriter may raise anything: that is data, not a crash
        return Answer(reason=f"unsupported: {type(error).__name__}: {error}"[:160], raw=raw)


def module(task: Task, contractions: Contractions = "own") -> Answer:
    """The same for a task in the KernelBench form, with a `ModelNew` around the kernel. Never raises."""
    from kernelwright.policy.compiler import task as tasks

    try:
        whole = tasks.read(task)
        found = answer(whole.graph, contractions, whole.sizes)
        return found.model_copy(update={"code": tasks.module(whole, found.code) if found.code else ""})
    except CannotCompile as reason:
        return Answer(reason=str(reason))
    except Exception as error:  # a reference may raise anything
        return Answer(reason=f"unsupported: {type(error).__name__}: {error}"[:160])


_convolutions = itertools.count(1)
"""Numbers the graphs with convolutions that this process was asked about."""
_SECOND = 2
"""The graph with convolutions before which first-use costs of such graphs are paid, since more are likely to come."""


def _reply(question: dict[str, Any]) -> dict[str, Any]:
    """An Answer as JSON, from a forked child with limits."""
    if "aten.convolution" in question.get("graph", "") and next(_convolutions) == _SECOND:
        answer(_warm_up_convolutions(), "auto")

    def learn(out: BinaryIO) -> None:
        if "task" in question:
            found = module(Task.model_validate(question["task"]), question["contractions"])
        else:
            graph = Graph.model_validate_json(question["graph"])
            found = answer(graph, question["contractions"], question["sizes"])
        out.write(found.model_dump_json().encode())

    seconds, wall = question["seconds"], question["wall"]
    ended = run_forked(learn, wall, memory=MEMORY, cpu_seconds=math.ceil(seconds))
    if ended.status in (None, -signal.SIGXCPU):
        found = Answer(reason=f"timeout: more than {wall if ended.status is None else seconds:g} s")
    elif ended.status == 0 and ended.data:
        found = Answer.model_validate_json(ended.data)
    else:
        found = Answer(reason=f"crash: status {ended.status}")
    return found.model_dump(mode="json")


def _warm_up() -> Graph:
    x = TensorType(dtype="float32", shape=(128, 128))

    def node(op: str, name: str, *args: Any) -> Node:
        return Node(op=op, args=args, outputs=(Value(name=name, type=x),))

    return Graph(
        arguments=(Argument(name="x", type=x), Argument(name="w", type=x, role="weight")),
        nodes=(
            node("aten.mm.default", "h", Ref(ref="x"), Ref(ref="w")),
            node("aten._softmax.default", "p", Ref(ref="h"), 1, False),
        ),
        results=("p",),
    )


def _warm_up_convolutions() -> Graph:
    def tensor(*shape: int | str) -> TensorType:
        return TensorType(dtype="float32", shape=shape)

    made, given = tensor("s0", "s4", "s2", "s3"), [Ref(ref=name) for name in ("h", "a", "b", "m", "v")]
    how: tuple[Any, ...] = ((1, 1), (1, 1), (1, 1), False, (0, 0), 1)
    return Graph(
        arguments=(
            Argument(name="x", type=tensor("s0", "s1", "s2", "s3")),
            Argument(name="w", type=tensor("s4", "s1", 3, 3), role="weight"),
            *(Argument(name=one.ref, type=tensor("s4"), role="weight") for one in given[1:]),
        ),
        nodes=(
            Node(op="aten.convolution.default", args=(Ref(ref="x"), Ref(ref="w"), None, *how), outputs=(Value(name="h", type=made),)),
            Node(op="aten._native_batch_norm_legit_no_training.default", args=(*given, 0.1, 1e-5),
                 outputs=(Value(name="y", type=made), None, None)),
            Node(op="aten.relu.default", args=(Ref(ref="y"),), outputs=(Value(name="z", type=made),)),
        ),
        results=("z",),
        symbols=tuple(Symbol(name=f"s{at}", hint=hint) for at, hint in enumerate((2, 64, 56, 48, 32))),
    )  # fmt: skip


if __name__ == "__main__":
    import torch

    from kernelwright.policy.compiler import offline

    torch.set_num_threads(1)
    offline.install(target_sheet(sys.argv[1]))
    answer(_warm_up())  # pays for first-use imports once instead of in every child
    serve(_reply)
