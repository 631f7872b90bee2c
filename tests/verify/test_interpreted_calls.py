"""Interpreted calls of both backends: random brackets, and all of them before a GPU is used."""

from types import SimpleNamespace
from typing import Any

import pytest

from kernelwright.outcomes import Gate, Outcome
from kernelwright.policy.gold import gold
from kernelwright.records import Candidate
from kernelwright.tasks import load_suite
from kernelwright.verify import VerifierPool
from kernelwright.verify.gpu.verification import MeasuredVerification
from kernelwright.verify.messages import Run
from kernelwright.verify.verification import Verification

CASE: Any = SimpleNamespace(name="small x1", inputs=[], after={}, written=frozenset(), expected=[])


class Device:
    """Answers every call, and records the requests."""

    alive = True

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def ask(self, gate: Gate, body: dict[str, Any], tensors: Any) -> tuple[dict[str, Any], list[Any]]:
        self.asked.append(body)
        return {
            "atomics": False,
            "units": [],
            "false_hints": False,
            "crossed": False,
            "configurations": 1,
        }, []


def verification(kind: type[Verification]) -> Any:
    made: Any = object.__new__(kind)
    made._atomics, made._units, made._brackets = False, set(), 12345
    made._configurations = 1
    made._compared = lambda *_: 0.0
    made.protocol = SimpleNamespace(honesty=True)
    return made


@pytest.mark.parametrize("kind", [Verification, MeasuredVerification])
def test_every_case_has_brackets_of_its_own_on_both_backends(kind: type[Verification]) -> None:
    device, judge = Device(), verification(kind)
    judge.device = device
    for place in ((0, 0), (0, 1), (1, 0), (0, 0)):
        judge._interpret(Gate.SMALL, Run("small"), CASE, *place)
    drawn = [body["brackets"] for body in device.asked]
    assert drawn[0] == drawn[3] != 0
    assert drawn[0] != drawn[1]
    assert drawn[0] != drawn[2]


def test_a_gpu_is_asked_only_for_what_the_interpreter_accepts() -> None:
    (task,) = load_suite("wright/relu")
    code = gold("wright/relu")
    decoy = code.replace("tl.maximum(", "tl.minimum(", 1)
    assert decoy != code
    with VerifierPool(1, "interpret", for_gpu=True, kept=True) as pool:
        right, wrong = (pool.verify(task, Candidate(code=one)) for one in (code, decoy))
    assert right.outcome is Outcome.CORRECT, right.detail
    assert wrong.outcome is Outcome.WRONG_VALUE
    assert right.evidence.cases > 10


@pytest.mark.slow
def test_a_pool_with_a_gpu_has_interpreted_in_processes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU is faked by one that accepts whatever was accepted before it."""

    class Accepting(MeasuredVerification):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.gpu: Any = SimpleNamespace(verifications=0, index=0)

        def _funnel(self) -> None:
            self._judge_without_gpu()

    monkeypatch.setattr("kernelwright.verify.gpu.verification.MeasuredVerification", Accepting)
    monkeypatch.setattr("torch.cuda.set_device", lambda index: None)
    (task,) = load_suite("wright/relu")
    code = gold("wright/relu")
    with VerifierPool(2, "interpret", judges=2, for_gpu=True) as pool:
        pool.gpus, pool.backend = [SimpleNamespace(lost=False, verifications=0, close=lambda: None)], "cuda"
        asked = [Candidate(code=code), Candidate(code=code.replace("tl.maximum(", "tl.minimum(", 1))]
        right, wrong = pool.verify_many([(task, one) for one in asked])
    assert right.outcome is Outcome.CORRECT, right.detail
    assert wrong.outcome is Outcome.WRONG_VALUE
    assert wrong.evidence.mismatch is not None
    assert right.evidence.cases > 10
    assert right.evidence.deterministic
