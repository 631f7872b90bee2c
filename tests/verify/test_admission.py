"""Memory admission for a GPU: never over the limit, nobody starved, and a candidate is blamed only for its own memory."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from kernelwright.errors import InfrastructureError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.policy.gold import gold
from kernelwright.records import Candidate, Verdict
from kernelwright.tasks import load_suite
from kernelwright.verify import VerifierPool
from kernelwright.verify.confined import Stop
from kernelwright.verify.gpu.admission import Admission, OutOfMemory, ran_out
from kernelwright.verify.gpu.stopwatch import Suspected

GB = 10**9


class FakeMemory:
    """A GPU's memory: bytes used by anyone, and bytes that this process holds unused."""

    def __init__(self, total: int = 140 * GB, others: int = 0) -> None:
        self.total, self.used, self.cached = total, others, 0
        self.most = 0
        self.given_back = 0
        self._lock = threading.Lock()

    def info(self) -> tuple[int, int]:
        return self.total - self.used - self.cached, self.total

    def spare(self) -> int:
        return self.cached

    def give_back(self) -> None:
        with self._lock:
            self.given_back += 1
            self.cached = 0

    def take(self, size: int) -> None:
        with self._lock:
            self.used += size
            self.most = max(self.most, self.used + self.cached)

    def free(self, size: int, cached: int = 0) -> None:
        with self._lock:
            self.used -= size
            self.cached += cached

    @contextmanager
    def held(self, size: int) -> Iterator[None]:
        self.take(size)
        try:
            yield
        finally:
            self.free(size)


class Cases:
    """A task's kept data on the fake GPU."""

    def __init__(self, memory: FakeMemory, size: int) -> None:
        self._memory, self._size, self.made = memory, size, False
        self.times = 0

    @property
    def kept_bytes(self) -> int:
        return self._size if self.made else 0

    def make(self) -> None:
        if not self.made:
            self._memory.take(self._size)
            self.made, self.times = True, self.times + 1

    def release(self) -> None:
        assert self.made
        self._memory.free(self._size, cached=self._size)  # torch's allocator keeps it
        self.made = False


def all_of(functions: list[Callable[[], Any]]) -> None:
    """Run each function in its own thread, started in order, and wait for all."""
    errors: list[BaseException] = []

    def run(function: Callable[[], Any]) -> None:
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
        time.sleep(0.005)
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive(), "waits for ever"
    assert errors == []


def test_sixteen_candidates_of_20_gb_are_let_in_in_their_order_and_never_take_more_than_there_is() -> None:
    memory = FakeMemory(others=10 * GB)
    admission = Admission(memory)
    order: list[int] = []
    inside: set[int] = set()
    six = threading.Event()

    def verification(number: int) -> Callable[[], None]:
        def verdict_of() -> None:
            with admission.admitted(20 * GB):
                order.append(number)
                inside.add(number)
                with memory.held(20 * GB):
                    assert len(inside) <= 6
                    if len(inside) == 6:
                        six.set()
                    assert six.wait(10)  # as many as there is room for
                    time.sleep(0.01)
                inside.discard(number)

        return verdict_of

    all_of([verification(number) for number in range(16)])
    assert order == list(range(16))
    assert memory.most <= memory.total


def test_a_small_one_does_not_overtake_a_large_one_that_waits() -> None:
    admission = Admission(FakeMemory())
    order: list[str] = []

    def verdict_of(name: str, size: int, seconds: float) -> Callable[[], None]:
        def run() -> None:
            with admission.admitted(size * GB):
                order.append(name)
                time.sleep(seconds)

        return run

    all_of([verdict_of("first", 50, 0.1), verdict_of("large", 130, 0.01), verdict_of("small", 1, 0.0)])
    assert order == ["first", "large", "small"]


def test_what_is_larger_than_everything_waits_until_it_is_alone() -> None:
    memory = FakeMemory()
    admission = Admission(memory)
    beside: list[int] = []

    def small() -> None:
        with admission.admitted(30 * GB), memory.held(30 * GB):
            time.sleep(0.05)

    def large() -> None:
        with admission.admitted(200 * GB):
            beside.append(memory.used)
            time.sleep(0.03)
            beside.append(memory.used)

    all_of([small, large, small])
    assert beside == [0, 0]


def test_what_is_kept_makes_room_the_least_recently_used_first_and_never_what_is_in_use() -> None:
    memory = FakeMemory(others=20 * GB)
    admission = Admission(memory)
    tasks = [Cases(memory, 10 * GB) for _ in range(3)]
    for task in tasks:
        with admission.admitted(12 * GB, [task]):
            task.make()
    with admission.admitted(5 * GB, [tasks[0]]):  # used again, so now the most recent
        with admission.admitted(95 * GB), memory.held(95 * GB):
            assert [task.made for task in tasks] == [True, False, False]
        assert tasks[0].made
    assert memory.most <= memory.total
    assert memory.given_back


def test_what_was_let_go_of_is_made_again_with_room_for_making_it() -> None:
    memory = FakeMemory()
    admission = Admission(memory)
    task = Cases(memory, 10 * GB)
    seen = []
    for making in (60, 60):
        with admission.admitted(20 * GB, [task], making * GB):
            seen.append(admission._admitted // GB)
            task.make()
    assert seen == [60, 20]
    with admission.admitted(0, alone=True):
        assert not task.made
    with admission.admitted(20 * GB, [task], 60 * GB):
        task.make()
    assert task.times == 2


def test_what_is_kept_stays_under_its_share() -> None:
    memory = FakeMemory()
    admission = Admission(memory)
    tasks = [Cases(memory, 15 * GB) for _ in range(4)]
    for task in tasks:
        with admission.admitted(20 * GB, [task], 20 * GB):
            task.make()
    assert [task.made for task in tasks] == [False, False, True, True]
    assert admission.kept == 30 * GB


def test_verifications_that_each_need_what_others_keep_do_not_wait_for_each_other() -> None:
    memory = FakeMemory(others=30 * GB)
    admission = Admission(memory)
    tasks = [Cases(memory, 20 * GB) for _ in range(8)]

    def verification(task: Cases) -> Callable[[], None]:
        def verdict_of() -> None:
            for _ in range(3):
                with admission.admitted(45 * GB, [task], 60 * GB):
                    task.make()
                    with memory.held(25 * GB):
                        time.sleep(0.002)

        return verdict_of

    all_of([verification(task) for task in tasks for _ in range(2)])
    assert memory.most <= memory.total


def test_a_generator_that_holds_memory_is_counted_and_its_going_noticed() -> None:
    memory = FakeMemory(others=100 * GB)
    admission = Admission(memory)
    came = threading.Event()

    def second() -> None:
        with admission.admitted(20 * GB):
            came.set()

    with admission.admitted(20 * GB):
        thread = threading.Thread(target=second, daemon=True)
        thread.start()
        assert not came.wait(0.1)
    assert came.wait(5)
    memory.free(100 * GB)
    with admission.admitted(60 * GB), admission.admitted(60 * GB):
        pass


def test_what_torch_hoards_is_given_back_only_where_room_is_short() -> None:
    memory = FakeMemory()
    admission = Admission(memory)
    memory.cached = 1 * GB
    with admission.admitted(20 * GB):
        assert memory.given_back == 0
    memory.cached = 120 * GB
    with admission.admitted(50 * GB):
        assert memory.cached == 0


def test_who_wants_to_be_alone_is_and_waits_a_while_for_others_memory() -> None:
    memory = FakeMemory(others=130 * GB)
    admission = Admission(memory, patience_s=5)
    threading.Timer(0.3, lambda: memory.free(130 * GB)).start()
    with admission.admitted(30 * GB, alone=True) as free:
        assert free == memory.total
        other = threading.Thread(target=lambda: admission.admitted(1).__enter__(), daemon=True)
        other.start()
        other.join(0.1)
        assert other.is_alive()
    other.join(5)
    assert not other.is_alive()


def test_patience_has_an_end() -> None:
    admission = Admission(FakeMemory(others=139 * GB), patience_s=0.3)
    start = time.monotonic()
    with admission.admitted(30 * GB, alone=True) as free:
        assert free == GB
    assert time.monotonic() - start < 5


def test_memory_is_given_back_by_a_verification_that_fails() -> None:
    admission = Admission(FakeMemory())
    with pytest.raises(RuntimeError), admission.admitted(100 * GB):
        raise RuntimeError
    with admission.admitted(130 * GB):
        pass


@pytest.mark.parametrize(
    ("error", "ran"),
    [
        (type("OutOfMemoryError", (RuntimeError,), {})("Tried to allocate"), True),
        (RuntimeError("Triton Error [CUDA]: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (ValueError("memory"), False),
    ],
)
def test_running_out_of_memory_is_told_from_other_errors(error: Exception, ran: bool) -> None:
    assert ran_out(error) is ran


# who is blamed, and what is repeated

(RELU,) = load_suite("wright/relu")
GOLD = Candidate(code=gold(RELU.id))
RIGHT = Verdict(
    task_id=RELU.id, outcome=Outcome.CORRECT, gate=Gate.TIMING, protocol="strict", candidate_digest="0"
)


class OutOfMemoryError(RuntimeError):
    """Like torch's own."""


class Crowded:
    """A verification that gets enough memory only when alone, if at all."""

    def __init__(self, error: Exception, even_alone: bool = False) -> None:
        self.error, self.even_alone = error, even_alone
        self.alone = False
        self.judged: list[bool] = []

    def verdict(self) -> Verdict:
        self.judged.append(self.alone)
        if self.alone and not self.even_alone:
            return RIGHT
        raise self.error

    def beside(self, accepted: Verdict) -> tuple[Verdict, ...]:
        return ()


OUT_OF = [
    OutOfMemory("no GPU memory left: CUDA out of memory"),
    OutOfMemoryError("CUDA out of memory. Tried to allocate 6.00 GiB."),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED"),
]


@pytest.mark.parametrize("error", [*OUT_OF, Suspected("claims 1 ms a call")])
def test_what_others_may_be_to_blame_for_is_heard_once_more_alone(error: Exception) -> None:
    verification = Crowded(error)
    with VerifierPool(1, "interpret") as pool:
        pool._verification = lambda *_: verification  # type: ignore[assignment, return-value, method-assign]
        assert pool.verify(RELU, GOLD).outcome is Outcome.CORRECT
    assert verification.judged == [False, True]


@pytest.mark.parametrize("error", OUT_OF)
def test_only_then_is_it_the_machines_failure(error: Exception) -> None:
    verification = Crowded(error, even_alone=True)
    with VerifierPool(1, "interpret") as pool:
        pool._verification = lambda *_: verification  # type: ignore[assignment, return-value, method-assign]
        verdict = pool.verify(RELU, GOLD)
    assert verdict.outcome is Outcome.INFRASTRUCTURE_ERROR
    assert "the GPU's memory is taken" in verdict.detail
    assert verification.judged == [False, True]


def measured(alone: bool = False) -> Any:
    """A verification on a fake GPU, with only what admission needs."""
    from kernelwright.verify.gpu.verification import MeasuredVerification

    verification = object.__new__(MeasuredVerification)
    verification.gpu = SimpleNamespace(admission=Admission(FakeMemory()), name="H200")  # type: ignore[assignment]
    verification.judge, verification.alone = SimpleNamespace(beside=[]), alone  # type: ignore[assignment]
    return verification


SHORT = Stop(Outcome.OUT_OF_MEMORY, Gate.FULL, "no GPU memory left: OutOfMemoryError: CUDA out of memory.")


@pytest.mark.parametrize(("alone", "free"), [(False, 140), (True, 60)])
def test_a_candidate_is_not_blamed_for_memory_that_others_hold(alone: bool, free: int) -> None:
    blamed = measured(alone)._blame(SHORT, free * GB)
    assert isinstance(blamed, OutOfMemory)
    assert isinstance(blamed, InfrastructureError)


def test_a_candidate_that_finds_no_memory_on_an_empty_gpu_asked_for_too_much() -> None:
    assert measured(alone=True)._blame(SHORT, 138 * GB) is SHORT


def test_other_ends_are_what_they_are() -> None:
    for outcome, detail in [(Outcome.WRONG_VALUE, "no"), (Outcome.OUT_OF_MEMORY, "out of host memory")]:
        stop = Stop(outcome, Gate.FULL, detail)
        assert measured()._blame(stop, 0) is stop


def traced(scratch: int, output: int = 4096) -> Any:
    """A trace of a candidate whose call allocates its output and `scratch` more bytes."""
    from kernelwright.verify.trace.replay import Candidate as Traced

    def view(storage: int) -> list[Any]:
        return [storage, 0, [1024], [1], "float32"]

    steps = [
        {"kind": "alloc", "storage": 1, "bytes": output, "dtype": "float32"},
        {"kind": "alloc", "storage": 2, "bytes": scratch, "dtype": "float32"},
    ]
    tape = {"operations": steps, "output": {"view": view(1)}, "foreign": {}}
    answer = {"tapes": [tape], "inputs": [[view(0)]], "state": {}, "constants": [], "prepared": 0}
    return SimpleNamespace(traced=Traced(answer))


def test_a_candidate_that_asks_for_200_gb_is_out_of_memory_before_it_has_any() -> None:
    with pytest.raises(Stop, match="asks for 200 GB beside its inputs") as stop:
        measured()._judging(None, traced(200 * GB))
    assert stop.value.outcome is Outcome.OUT_OF_MEMORY


def test_a_candidate_may_have_a_workspace() -> None:
    few, more = (measured()._judging(None, traced(scratch * GB)) for scratch in (0, 20))
    assert more - few == 20 * GB
