"""Many verifications at once: order, sharing, cancelling, closing, and the machine's failures."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from kernelwright.errors import InfrastructureError, UserError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.policy.gold import gold
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.rewards import PAID_WHERE_SLOW, reward
from kernelwright.tasks import load_suite
from kernelwright.verify import VerifierPool, shards
from kernelwright.verify.sandbox.zygote import Zygote
from kernelwright.verify.shard import _portable

(RELU,) = load_suite("wright/relu")
GOLD = Candidate(code=gold(RELU.id))
EMPTY = Candidate(problem=Outcome.EMPTY_COMPLETION, detail="nothing was said")
WRONG = Candidate(code=GOLD.code.replace("tl.maximum(x, 0.0)", "tl.minimum(x, 0.0)"))
ENDLESS = Candidate(
    code=GOLD.code.replace("out = torch.empty_like(x)", "out = torch.empty_like(x)\n        while True: pass")
)


def children(pid: int) -> list[int]:
    """Living descendants of a process, zombies left out."""
    found, frontier = [], [pid]
    while frontier:
        parent = frontier.pop()
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == parent and fields[0] != "Z":
                found.append(int(path.parent.name))
                frontier.append(int(path.parent.name))
    return found


# what is asked for is answered


def test_verdicts_come_in_the_order_of_the_candidates(pool: VerifierPool) -> None:
    verdicts = pool.verify_many([(RELU, GOLD), (RELU, EMPTY), (RELU, WRONG), (RELU, GOLD)])
    wrong = verdicts[2].outcome
    assert [verdict.outcome for verdict in verdicts] == [
        Outcome.CORRECT,
        Outcome.EMPTY_COMPLETION,
        wrong,
        Outcome.CORRECT,
    ]
    assert wrong.category.value == "wrong_result"


def test_equal_candidates_are_judged_once_and_reported_each(pool: VerifierPool) -> None:
    seen: list[int] = []
    verdicts = pool.verify_many([(RELU, GOLD)] * 3, on_result=lambda index, verdict: seen.append(index))
    assert sorted(seen) == [0, 1, 2]
    assert verdicts[0] is verdicts[1] is verdicts[2]


def test_one_code_for_two_tasks_is_two_verifications(pool: VerifierPool) -> None:
    (other,) = load_suite("wright/softmax_rows")
    verdicts = pool.verify_many([(RELU, GOLD), (other, GOLD)])
    assert [verdict.task_id for verdict in verdicts] == [RELU.id, other.id]
    assert not verdicts[1].correct


def test_a_verdict_tells_whose_it_is(pool: VerifierPool) -> None:
    verdict = pool.verify(RELU, GOLD)
    assert (verdict.task_id, verdict.candidate_digest) == (RELU.id, GOLD.digest)
    assert (verdict.protocol, verdict.backend) == ("strict", "interpret")
    assert set(verdict.evidence.seconds) <= {str(gate) for gate in Gate}


def test_no_candidates_no_verdicts(pool: VerifierPool) -> None:
    assert pool.verify_many([]) == []


def test_a_candidate_cannot_spoil_the_next(pool: VerifierPool) -> None:
    vandal = Candidate(
        code="import torch\ntorch.relu = None\nimport triton.language as tl\ntl.load = None\n" + GOLD.code
    )
    pool.verify(RELU, vandal)
    assert pool.verify(RELU, GOLD).correct


def test_the_same_secret_gives_the_same_evidence() -> None:
    worst = []
    for _ in range(2):
        with VerifierPool(workers=1, backend="interpret", secret=11, kept=True) as pool:
            worst.append(pool.verify(*_softmax()).evidence.worst_error)
    assert worst[0] == worst[1]


def _softmax() -> tuple[Task, Candidate]:
    (task,) = load_suite("wright/softmax_rows")
    return task, Candidate(code=gold(task.id))


# the user's mistakes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "tpu"}, "auto, interpret, cuda"),
        ({"protocol": "lenient"}, "strict, kernelbench, toronto"),
        ({"target": "h300"}, "h200"),
    ],
)
def test_an_unknown_option_names_the_valid_ones(options: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        VerifierPool(workers=1, **{"backend": "interpret", **options})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "task",
    [
        RELU.model_copy(update={"shapes": {}}),
        RELU.model_copy(update={"source": "raise RuntimeError('broken')"}),
        RELU.model_copy(update={"source": RELU.source.replace("get_inputs", "inputs")}),
    ],
    ids=["no small shapes", "raises", "no get_inputs"],
)
def test_a_broken_task_is_a_user_error_not_a_verdict(task: Task, pool: VerifierPool) -> None:
    with pytest.raises(UserError):
        pool.verify(task, GOLD)
    assert pool.verify(RELU, GOLD).correct


# cancelling and closing


def test_what_has_not_started_can_be_cancelled() -> None:
    with VerifierPool(workers=1, backend="interpret", deadline_s=3.0, kept=True) as pool:
        running = pool.submit(RELU, ENDLESS)
        waiting = [pool.submit(RELU, GOLD) for _ in range(5)]
        assert all(future.cancel() for future in waiting)
        assert running.result().outcome is Outcome.TIMEOUT


def test_closing_leaves_no_process_and_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(children(os.getpid()))
    with VerifierPool(workers=2, backend="interpret") as pool:
        pool.verify_many([(RELU, GOLD), (RELU, WRONG)])
        assert set(children(os.getpid())) - before
    deadline = time.monotonic() + 5
    while set(children(os.getpid())) - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert set(children(os.getpid())) <= before
    assert list(tmp_path.iterdir()) == []


def test_closing_twice_and_closing_unused_are_harmless() -> None:
    pool = VerifierPool(workers=1, backend="interpret")
    pool.close()
    pool.close()


def test_descriptors_and_threads_stay_flat(pool: VerifierPool) -> None:
    pool.verify_many([(RELU, GOLD), (RELU, WRONG)])

    def used() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    before = used()
    for number in range(6):
        pool.verify(RELU, Candidate(code=f"{GOLD.code}\n# {number}"))
        pool.verify(RELU, Candidate(code=f"{WRONG.code}\n# {number}"))
    files, threads = used()
    assert files <= before[0] + 2
    assert threads <= before[1] + 1


SCRIPT = """
import signal
import sys
from kernelwright.records import Candidate
from kernelwright.policy.gold import gold
from kernelwright.tasks import load_suite
from kernelwright.verify import VerifierPool, shards

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
    (task,) = load_suite("wright/relu")
    code = gold(task.id).replace("out = torch.empty_like(x)", "out = torch.empty_like(x)\\n        while True: pass")
    try:
        with VerifierPool(workers=2, backend="interpret", deadline_s=60.0) as pool:
            print("ready", flush=True)
            pool.verify_many([(task, Candidate(code=code + f"# {n}")) for n in range(4)])
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit(130)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("judges", [1, 2])
def test_a_stopped_judge_leaves_no_orphans(how: int, judges: int, tmp_path: Path) -> None:
    path = tmp_path / "judge.py"
    path.write_text(SCRIPT.replace("workers=2", f"workers=2, judges={judges}"))
    process = subprocess.Popen(
        [sys.executable, str(path)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    deadline = time.monotonic() + 30
    below: list[int] = []
    while len(below) < 3 and time.monotonic() < deadline:  # a zygote and at least two workers
        time.sleep(0.1)
        below = children(process.pid)
    assert len(below) >= 3
    process.send_signal(how)
    process.wait(timeout=30)
    deadline = time.monotonic() + (5 if judges == 1 else 20)  # a shard checks only after importing everything
    while any(os.path.exists(f"/proc/{pid}") for pid in below) and time.monotonic() < deadline:
        time.sleep(0.1)
    left = [pid for pid in below if os.path.exists(f"/proc/{pid}")]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


# several judges


@pytest.fixture(scope="module")
def sharded() -> Iterator[VerifierPool]:
    with VerifierPool(workers=2, judges=2, backend="interpret", priced=False) as pool:
        yield pool


@pytest.mark.slow
def test_shards_say_what_one_judge_says(pool: VerifierPool, sharded: VerifierPool) -> None:
    cases = [(RELU, GOLD), (RELU, EMPTY), _softmax(), (RELU, WRONG), (RELU, GOLD)]
    alone, together = pool.verify_many(cases), sharded.verify_many(cases)
    assert [(v.outcome, v.gate, v.task_id) for v in together] == [
        (v.outcome, v.gate, v.task_id) for v in alone
    ]


def test_what_is_not_priced_has_a_rough_cost_but_no_binary_and_no_time(
    pool: VerifierPool, sharded: VerifierPool
) -> None:
    verdict, priced = sharded.verify(RELU, GOLD), pool.verify(RELU, GOLD)
    assert verdict.correct
    assert (verdict.timing, verdict.evidence.binaries) == (None, ())
    assert verdict.evidence.cost is not None
    assert priced.evidence.cost is not None
    assert verdict.evidence.cost.ms == pytest.approx(priced.evidence.cost.ms, rel=0.5)
    assert verdict.evidence.reference_cost == priced.evidence.reference_cost


def test_four_elements_a_program_are_right_and_seen_to_be_slow(sharded: VerifierPool) -> None:
    slow = sharded.verify(RELU, Candidate(code=GOLD.code.replace("BLOCK = 1024", "BLOCK = 4")))
    assert slow.correct
    assert reward("usable", slow).total == PAID_WHERE_SLOW
    assert reward("usable", sharded.verify(RELU, GOLD)).total == 1.0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("BLOCK = 1024", "BLOCK = 131072", "1024 values"), ("num_warps=4", "num_warps=64", "2048 threads")],
)
def test_what_no_program_can_hold_is_refused_without_a_price(
    sharded: VerifierPool, old: str, new: str, said: str
) -> None:
    code = GOLD.code if old in GOLD.code else GOLD.code.replace("BLOCK=BLOCK", "BLOCK=BLOCK, num_warps=4")
    verdict = sharded.verify(RELU, Candidate(code=code.replace(old, new)))
    assert verdict.outcome is Outcome.COMPILE_ERROR
    assert said in verdict.detail


def test_what_only_fails_to_compile_at_full_size_does_so_without_a_price(sharded: VerifierPool) -> None:
    whole = GOLD.code.replace("BLOCK = 1024", "BLOCK = triton.next_power_of_2(n_elements)")
    assert whole != GOLD.code
    verdict = sharded.verify(RELU, Candidate(code=whole))
    assert (verdict.outcome, verdict.gate) == (Outcome.COMPILE_ERROR, Gate.COMPILE)


def test_a_broken_task_is_a_user_error_from_a_shard_too(sharded: VerifierPool) -> None:
    with pytest.raises(UserError, match="no shape set"):
        sharded.verify(RELU.model_copy(update={"shapes": {}}), GOLD)


class Odd(Exception):
    """An exception that cannot be pickled, since its constructor does not take its message."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(one + other)


def test_what_a_shard_raises_can_be_sent() -> None:
    error = UserError("as it is")
    assert _portable(error) is error
    assert str(_portable(Odd("a", "b"))) == "Odd: ab"


class Still:
    """A shard that answers nothing."""

    def __init__(self, options: dict[str, object], failed: object) -> None:
        self.busy, self.asked, self.said = 0, 0, list[str]()

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        self.busy, self.asked = self.busy + 1, self.asked + 1
        self.said.append(task.id)
        return Future()

    def prepare(self, task: Task) -> None:
        self.asked += 1
        self.said.append(f"prepare {task.id}")


def test_new_tasks_go_to_the_idlest_shard_and_their_candidates_stay_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shards, "_Shard", Still)
    made = shards.Shards(6, 3, {}, lambda task, candidate, problem: pytest.fail(problem))
    one, two, three, four = (RELU.model_copy(update={"id": name, "source": name}) for name in "abcd")
    made.prepare(one)
    for task in (two, three, one, four, *[two] * 9):
        made.submit(task, GOLD)
    said = [" ".join(shard.said) for shard in made._shards]  # type: ignore[attr-defined]
    assert said == ["prepare a a b", "b d b b b b b b", "c b b"]


@pytest.mark.slow
def test_shards_take_back_what_has_not_started() -> None:
    with VerifierPool(workers=2, judges=2, backend="interpret", deadline_s=3.0) as pool:
        running = [pool.submit(RELU, Candidate(code=f"{ENDLESS.code}# {n}")) for n in range(2)]
        waiting = [pool.submit(RELU, Candidate(code=f"{ENDLESS.code}# {n}")) for n in range(2, 12)]
        assert all(future.cancel() for future in waiting)
        assert [future.result().outcome for future in running] == [Outcome.TIMEOUT] * 2
        start = time.monotonic()
        assert pool.verify(RELU, GOLD).correct
        assert time.monotonic() - start < 6


@pytest.mark.slow
def test_a_shard_that_dies_is_replaced_and_asked_again() -> None:
    with VerifierPool(workers=2, judges=2, backend="interpret", deadline_s=20.0) as pool:
        assert pool.verify(RELU, GOLD).correct
        assert pool._shards is not None
        future = pool.submit(RELU, ENDLESS)
        for shard in pool._shards._shards:
            shard._process.kill()
        assert future.result().outcome is Outcome.TIMEOUT
        assert pool.verify(RELU, GOLD).correct


def test_shards_that_cannot_start_are_an_infrastructure_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with VerifierPool(workers=2, judges=2, backend="interpret") as pool:
        verdict = pool.verify(RELU, GOLD)
    assert verdict.outcome is Outcome.INFRASTRUCTURE_ERROR
    assert "died" in verdict.detail


@pytest.mark.slow
def test_a_closed_pool_of_shards_takes_nothing_more() -> None:
    before = set(children(os.getpid()))
    pool = VerifierPool(workers=2, judges=2, backend="interpret")
    future = pool.submit(RELU, GOLD)
    pool.close()
    assert future.result().correct
    with pytest.raises(InfrastructureError, match="closed"):
        pool.submit(RELU, GOLD)
    assert set(children(os.getpid())) <= before


@pytest.mark.slow
def test_an_abandoned_pool_does_not_wait_for_verdicts_of_its_shards() -> None:
    """With a GPU a verdict's thread waits for what a shard says first; here threads wait in its place."""
    pool = VerifierPool(workers=2, judges=2, backend="interpret", deadline_s=600.0)
    assert pool._shards is not None
    waiting = [pool._threads.submit(pool._shards.submit(RELU, ENDLESS).result) for _ in range(2)]
    time.sleep(3)
    pool.close(abort=True)
    assert {one.result(0).outcome for one in waiting} == {Outcome.INFRASTRUCTURE_ERROR}


# the machine's failures


def test_a_dead_zygote_is_replaced() -> None:
    with VerifierPool(workers=1, backend="interpret", kept=True) as pool:
        assert pool.verify(RELU, GOLD).correct
        zygote = pool._zygote
        assert zygote is not None
        zygote._process.kill()
        zygote._process.wait()
        assert pool.verify(RELU, GOLD).correct


def test_a_worker_killed_from_outside_is_typed() -> None:
    with VerifierPool(workers=1, backend="interpret", kept=True) as pool:
        assert pool.verify(RELU, GOLD).correct
        assert pool._zygote is not None
        future = pool.submit(RELU, ENDLESS)
        time.sleep(0.5)
        for pid in children(pool._zygote._process.pid):
            os.kill(pid, signal.SIGKILL)
        verdict = future.result()
        assert verdict.outcome in (Outcome.OUT_OF_MEMORY, Outcome.INFRASTRUCTURE_ERROR)
        assert pool.verify(RELU, GOLD).correct


def test_a_zygote_that_cannot_start_is_an_infrastructure_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    start = time.monotonic()
    with VerifierPool(workers=1, backend="interpret") as pool:
        try:
            outcome = pool.verify(RELU, GOLD).outcome
        except InfrastructureError:
            outcome = Outcome.INFRASTRUCTURE_ERROR
    assert outcome is Outcome.INFRASTRUCTURE_ERROR
    assert time.monotonic() - start < 10


def test_a_full_scratch_folder_is_an_infrastructure_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with VerifierPool(workers=1, backend="interpret", kept=True) as pool:
        assert pool.verify(RELU, GOLD).correct

        def full(*args: object, **kwargs: object) -> str:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(tempfile, "mkdtemp", full)
        verdict = pool.verify(RELU, GOLD)
        assert verdict.outcome is Outcome.INFRASTRUCTURE_ERROR
        assert "No space left" in verdict.detail
        monkeypatch.undo()
        assert pool.verify(RELU, GOLD).correct


def test_an_infrastructure_error_teaches_nothing() -> None:
    assert not Outcome.INFRASTRUCTURE_ERROR.judged
    assert not Outcome.UNSUPPORTED.judged


def test_a_zygote_forks_nothing_for_a_judge_that_has_gone() -> None:
    zygote = Zygote("h200")
    pid, sock = zygote.fork(Path(tempfile.mkdtemp()), "host")
    zygote.close()
    sock.close()
    deadline = time.monotonic() + 5
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{pid}")


def test_pools_that_keep_it_hand_on_the_process_that_forks() -> None:
    with VerifierPool(workers=1, backend="interpret", kept=True) as pool:
        pool.start()
        first = pool._current_zygote()
    with VerifierPool(workers=1, backend="interpret", kept=True) as pool:
        assert pool._current_zygote() is first
        assert pool.verify(RELU, GOLD).correct
    with VerifierPool(workers=1, backend="interpret") as pool:
        pool.start()
        assert pool._current_zygote() is not first
    first.close()


def test_time_is_counted_from_when_a_process_was_there() -> None:
    """Time spent while a zygote warms up is not charged to candidates: verifications begin when it is ready."""
    with VerifierPool(workers=1, backend="interpret") as pool:
        pool.start()
        pool._verification(RELU, GOLD)
        assert pool._current_zygote()._ready


def test_verdicts_are_plain_data(pool: VerifierPool) -> None:
    verdict = pool.verify(RELU, GOLD)
    assert type(verdict).model_validate(json.loads(verdict.model_dump_json())) == verdict


TORCH_AND_A_DECOY = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        out = torch.empty_like(y)
        n = y.numel()
        copy_kernel[(triton.cdiv(n, 1024),)](y, out, n, BLOCK=1024)
        return out
"""


def test_protocols_are_reported_side_by_side() -> None:
    """An accepted kernel is compared under the others' tolerances in the same execution; a rejected one is judged again."""
    relu, matmul = (next(iter(load_suite(f"wright/{name}"))) for name in ("relu", "matmul_square"))
    with VerifierPool(workers=1, backend="interpret", beside=["kernelbench", "toronto"], kept=True) as pool:
        decoy = pool.verify(relu, Candidate(code=TORCH_AND_A_DECOY))
        right = pool.verify(matmul, Candidate(code=gold(matmul.id)))
    assert decoy.outcome is Outcome.TORCH_COMPUTE
    assert [(v.protocol, v.outcome) for v in decoy.beside] == [
        ("kernelbench", Outcome.CORRECT),
        ("toronto", Outcome.CORRECT),
    ]
    assert right.correct
    kernelbench, toronto = right.beside
    assert kernelbench.correct
    assert kernelbench.timing == right.timing
    assert toronto.outcome is Outcome.WRONG_VALUE, "sums in another order miss 1e-5 and 1e-8"
    assert toronto.timing is None


def test_a_price_is_the_verdicts_and_needs_none(pool: VerifierPool) -> None:
    priced = pool.price(RELU, GOLD).result()
    judged = pool.verify(RELU, GOLD).timing
    assert priced is not None
    assert judged is not None
    assert abs(priced.candidate_ms / judged.candidate_ms - 1) < 0.02
    assert priced.baseline_ms == judged.baseline_ms
    assert pool.price(RELU, WRONG).result() is not None
    assert pool.price(RELU, EMPTY).result() is None
