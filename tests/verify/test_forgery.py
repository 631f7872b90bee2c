"""A hostile process may answer anything: the judge gives a verdict, never an exception, and never accepts a lie.

A man in the middle of a real verification changes the answers of the candidate's process.
"""

import copy
import functools
import random
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelwright.outcomes import Outcome
from kernelwright.policy.gold import gold
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.tasks import load_suite
from kernelwright.verify import VerifierPool
from kernelwright.verify.sandbox import channel
from kernelwright.verify.sandbox import zygote as zygotes
from kernelwright.verify.sandbox.zygote import Zygote

Change = Callable[[dict[str, Any]], dict[str, Any]]

(TASK,) = load_suite("wright/residual_rmsnorm")
GOLD = Candidate(code=gold(TASK.id))
ODD = [
    None,
    True,
    -1,
    0,
    7,
    2**70,
    1e308,
    float("inf"),
    "",
    "x",
    "9" * 5000,
    [],
    {},
    [[]],
    {"view": []},
    {"view": 1},
    [1, 2, 3],
]


class GoBetween:
    """A zygote whose host processes' answers are intercepted and changed."""

    def __init__(self, inner: Zygote, change: Change) -> None:
        self._inner, self._change = inner, change

    def fork(self, scratch: Path, role: Any, *more: Any) -> tuple[int, socket.socket]:
        pid, real = self._inner.fork(scratch, role, *more)
        if role != "host":
            return pid, real
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._relay, args=(theirs, real), daemon=True).start()
        return pid, ours

    def _relay(self, judge: socket.socket, worker: socket.socket) -> None:
        with judge, worker:
            try:
                while True:
                    channel.send(worker, *channel.receive(judge))
                    answer, tensors = channel.receive(worker)
                    channel.send(judge, self._change(answer), tensors)
            except (channel.ChannelError, OSError):
                return

    def reap(self, pid: int, ended: bool = False) -> int:
        return self._inner.reap(pid, ended)

    def wait(self) -> None:
        self._inner.wait()

    @property
    def alive(self) -> bool:
        return self._inner.alive

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    made = zygotes.take("h200")
    yield made
    zygotes.leave(made)


@pytest.fixture(scope="module")
def forged(zygote: Zygote) -> Iterator[Callable[[Change], Verdict]]:
    """The verdict on a gold whose host process answers `change(answer)` instead of its answer."""
    with VerifierPool(workers=1, backend="interpret", deadline_s=20.0, secret=5) as pool:

        def verdict_of(change: Change, task: Task = TASK) -> Verdict:
            pool._zygote = GoBetween(zygote, change)  # type: ignore[assignment]
            return pool.verify(task, GOLD)

        yield verdict_of
        pool._zygote = None


def _places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every node below the root."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from _places(value, (*path, key))


def _mutated(answer: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    """One node changed, dropped, duplicated or swapped with another."""
    answer = copy.deepcopy(answer)
    places = list(_places(answer))
    if not places:
        return {"outcome": dice.choice(ODD)} if dice.random() < 0.5 else answer
    *parents, key = dice.choice(places)
    node: Any = answer
    for step in parents:
        node = node[step]
    kind = dice.randrange(5)
    if kind == 0:
        node[key] = dice.choice(ODD)
    elif kind == 1 and isinstance(node[key], (int, float)) and not isinstance(node[key], bool):
        node[key] = node[key] + dice.choice([-1, 1, 1 << 20, -(1 << 40), 0.5])
    elif kind == 2:
        del node[key]
    elif kind == 3 and isinstance(node, list):
        node.insert(key, copy.deepcopy(node[key]))
    else:
        node[key] = dice.choice(ODD)
    return answer


def test_unchanged_answers_are_accepted(forged: Callable[[Change], Verdict]) -> None:
    assert forged(lambda answer: answer).correct


@pytest.mark.parametrize("seed", range(100))
def test_a_changed_answer_never_raises(seed: int, forged: Callable[[Change], Verdict]) -> None:
    dice = random.Random(seed)
    verdict = forged(lambda answer: _mutated(answer, dice) if answer else answer)
    assert isinstance(verdict, Verdict)
    assert verdict.outcome is not Outcome.INFRASTRUCTURE_ERROR, verdict.detail


@pytest.mark.parametrize("outcome", ["correct", "infrastructure_error", "no such outcome", None, 3, {}])
def test_a_host_cannot_declare_itself_right_or_the_judge_at_fault(
    outcome: Any, forged: Callable[[Change], Verdict]
) -> None:
    verdict = forged(lambda answer: {"outcome": outcome, "detail": "trust me"})
    assert verdict.outcome is Outcome.MALFORMED_RESULT


def test_a_host_that_was_asked_what_nobody_answers_is_neither_accepted_nor_accused(
    forged: Callable[[Change], Verdict],
) -> None:
    verdict = forged(lambda answer: {"outcome": "unsupported", "detail": "trust me"})
    assert verdict.outcome is Outcome.UNPROVEN


@pytest.mark.parametrize("detail", [None, 3, [], "x" * 10_000, "\ud800"], ids=range(5))
def test_a_strange_detail_is_only_text(detail: Any, forged: Callable[[Change], Verdict]) -> None:
    verdict = forged(lambda answer: {"outcome": "runtime_error", "detail": detail})
    assert verdict.outcome is Outcome.RUNTIME_ERROR
    assert len(verdict.detail) <= 600
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


def _on_trace(edit: Callable[[dict[str, Any]], None]) -> Change:
    def change(answer: dict[str, Any]) -> dict[str, Any]:
        if "tapes" in answer:
            edit(answer)
        return answer

    return change


def _launches(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for tape in answer["tapes"]:
        for operation in tape["operations"]:
            yield from operation.get("launches", ())


def test_an_output_moved_onto_an_input_is_seen(forged: Callable[[Change], Verdict]) -> None:
    def edit(answer: dict[str, Any]) -> None:
        for tape, inputs in zip(answer["tapes"], answer["inputs"], strict=True):
            tape["output"]["tuple"][1] = {"view": inputs[0]}

    assert forged(_on_trace(edit)).outcome in (Outcome.OUTPUT_ALIASED, Outcome.WRONG_VALUE)


def test_a_view_outside_its_storage_is_no_tape(forged: Callable[[Change], Verdict]) -> None:
    def edit(answer: dict[str, Any]) -> None:
        for launch in _launches(answer):
            for value in launch["arguments"].values():
                if "view" in value:
                    value["view"][1] += 1 << 30

    assert forged(_on_trace(edit)).outcome in (Outcome.MALFORMED_RESULT, Outcome.OUT_OF_BOUNDS)


def test_a_launch_of_an_unknown_kernel_is_no_tape(forged: Callable[[Change], Verdict]) -> None:
    def edit(answer: dict[str, Any]) -> None:
        for launch in _launches(answer):
            launch["kernel"] = 99

    assert forged(_on_trace(edit)).outcome is Outcome.MALFORMED_RESULT


def test_an_operator_smuggled_onto_the_tape_is_compute(forged: Callable[[Change], Verdict]) -> None:
    def edit(answer: dict[str, Any]) -> None:
        for tape, inputs in zip(answer["tapes"], answer["inputs"], strict=True):
            view = {"view": inputs[0]}
            step = {"kind": "aten", "name": "aten.relu.default", "arguments": {"args": [view], "kwargs": {}}}
            tape["operations"].append({**step, "results": [inputs[0]]})

    assert forged(_on_trace(edit)).outcome is Outcome.TORCH_COMPUTE


@pytest.mark.parametrize(
    "name", ["aten.__class__.__init__", "aten.from_file.default", "prims.add.default", "", ".", "aten"]
)
def test_a_strange_operator_is_never_run(name: str, forged: Callable[[Change], Verdict]) -> None:
    def edit(answer: dict[str, Any]) -> None:
        for tape, inputs in zip(answer["tapes"], answer["inputs"], strict=True):
            step = {
                "kind": "aten",
                "name": name,
                "arguments": {"args": ["/etc/passwd", True, 4], "kwargs": {}},
            }
            tape["operations"].insert(0, {**step, "results": [inputs[0]]})

    assert forged(_on_trace(edit)).outcome in (Outcome.TORCH_COMPUTE, Outcome.MALFORMED_RESULT)


@pytest.mark.parametrize(
    "source",
    [
        "import os\ndef {name}(): pass\n",
        "def {name}(*args, **kwargs):\n    __import__('os')._exit(0)\n",
        "def {name}(*args, **kwargs):\n    tl.store.__globals__\n",
        "#\x0cdef {name}(*args): print.__self__\x0c\ndef {name}(*args):\n    pass\n",
        "def other():\n    pass\n",
        "{name} = 1\n",
        "",
        "def {name}(:\n",
        "def {name}(x=print('evaluated')):\n    pass\n",
        "@print\ndef {name}():\n    pass\n",
        "def {name}(x: print('evaluated')):\n    pass\n",
        "class {name}:\n    pass\n",
        "async def {name}():\n    pass\n",
        "def {name}():\n    return (lambda: 0)()\n",
        "def {name}():\n    yield 1\n",
        "def {name}():\n    global tl\n",
        "def {name}():\n    try:\n        pass\n    except Exception:\n        pass\n",
        "def {name}():\n    with tl as x:\n        pass\n",
        "def {name}():\n    import os\n",
        "def {name}():\n    tl.load = 3\n",
        "def {name}():\n    del tl\n",
    ],
    ids=range(21),
)
def test_a_kernel_text_that_is_no_kernel_is_refused(source: str, forged: Callable[[Change], Verdict]) -> None:
    def edit(answer: dict[str, Any]) -> None:
        for spec in answer["kernels"]:
            spec["source"] = source.replace("{name}", spec["name"])

    verdict = forged(_on_trace(edit))
    assert verdict.outcome in (Outcome.COMPILE_ERROR, Outcome.RUNTIME_ERROR, Outcome.MALFORMED_RESULT), (
        verdict.detail
    )


@pytest.mark.parametrize(
    "names",
    [
        {"__builtins__": {"module": "triton.language.core"}},
        {"tl": {"module": "os"}},
        {"tl": {"module": "triton.runtime"}},
        {"tl": {"module": "triton.language.core", "member": "inspect"}},
        {"tl": {"module": "triton.language", "member": "__builtins__"}},
        {"tl": {"module": "sys"}},
        {"tl": {"kernel": 10**9}},
        {"tl": 5},
        {"tl": None},
        {"tl": {}},
        {"": {"value": 1}},
        {"not a name": {"value": 1}},
        {"range": {"module": "triton.language", "member": "load"}},
        {"print": {"value": 3}},
    ],
    ids=range(14),
)
def test_names_of_a_kernel_cannot_reach_beyond_the_language(
    names: dict[str, Any], forged: Callable[[Change], Verdict]
) -> None:
    def edit(answer: dict[str, Any]) -> None:
        for spec in answer["kernels"]:
            spec["names"] |= names

    verdict = forged(_on_trace(edit))
    assert verdict.outcome is not Outcome.INFRASTRUCTURE_ERROR
    if "range" not in names and "print" not in names and "" not in names and "not a name" not in names:
        assert not verdict.correct


def _nested_output(depth: int, answer: dict[str, Any]) -> None:
    for tape in answer["tapes"]:
        for _ in range(depth):
            tape["output"] = {"list": [tape["output"]]}


@pytest.mark.parametrize(
    "edit",
    [
        lambda answer: answer.update(kernels=answer["kernels"] * 5000),
        lambda answer: answer["constants"].append({"storage": 10**6, "bytes": 1 << 62}),
        lambda answer: answer["constants"].append({"storage": -5, "bytes": -5}),
        lambda answer: answer["constants"].append({"storage": 10**6, "bytes": 4, "blob": 99}),
        lambda answer: answer["state"].update(weight=[0, 0, [1 << 40], [1], "float32"]),
        lambda answer: answer["state"].update(no_such_weight=next(iter(answer["state"].values()))),
        lambda answer: answer["inputs"].pop(),
        lambda answer: [call.pop() for call in answer["inputs"]],
        lambda answer: answer["tapes"].clear(),
        lambda answer: [launch.update(grid=[2**31 - 1] * 3) for launch in _launches(answer)],
        lambda answer: [launch.update(grid=[1e9, 1, 1]) for launch in _launches(answer)],
        lambda answer: [launch.update(options={"num_warps": 0}) for launch in _launches(answer)],
        lambda answer: [launch.update(options={"num_warps": 10**30}) for launch in _launches(answer)],
        lambda answer: [launch["arguments"].update(extra=5) for launch in _launches(answer)],
        lambda answer: [launch["arguments"].update(extra={}) for launch in _launches(answer)],
        lambda answer: [launch["arguments"].update(dim={}) for launch in _launches(answer)],
        lambda answer: [launch["arguments"].update(dim={"value": [1]}) for launch in _launches(answer)],
        lambda answer: [launch["arguments"].update(dim={"float": "0x1p99999999"}) for launch in _launches(answer)],
        lambda answer: [launch["arguments"].update(dim={"constexpr": {"constexpr": {"value": 1}}}) for launch in _launches(answer)],
        lambda answer: [tape["operations"].insert(0, {"kind": "fill", "view": call[0], "value": 10**400}) for tape, call in zip(answer["tapes"], answer["inputs"], strict=True)],
        lambda answer: [tape["operations"].insert(0, {"kind": "alloc", "storage": 10**6, "bytes": 1 << 42, "dtype": "float32"}) for tape in answer["tapes"]],
        lambda answer: [tape.update(operations=tape["operations"] * 20_001) for tape in answer["tapes"]],
        lambda answer: [tape.update(output={"list": []}) for tape in answer["tapes"]],
        lambda answer: [tape.update(foreign={"0": 1 << 60}) for tape in answer["tapes"]],
        *(functools.partial(_nested_output, depth) for depth in (50, 150, 200, 250, 300, 350, 400, 450, 480)),
        lambda answer: [launch["arguments"].update(dim={"descriptor": []}) for launch in _launches(answer)],
        lambda answer: [launch["arguments"].update(dim={"descriptor": [{"view": answer["inputs"][0][0]}, [1], "zero", 1]}) for launch in _launches(answer)],
        lambda answer: [launch["arguments"].update(dim={"descriptor": [{"view": answer["inputs"][0][0]}, [3, 1 << 19], "nan", True]}) for launch in _launches(answer)],
    ],
    ids=range(36),
)  # fmt: skip
def test_absurd_sizes_and_kinds_are_a_verdict(
    edit: Callable[[dict[str, Any]], Any], forged: Callable[[Change], Verdict]
) -> None:
    verdict = forged(_on_trace(edit))
    assert not verdict.correct
    assert verdict.outcome is not Outcome.INFRASTRUCTURE_ERROR, verdict.detail
