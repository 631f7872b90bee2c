"""Machine failures: a full disk, a read-only folder, killed judges, pools side by side.

Each is real: the full disk is a small tmpfs in a mount namespace, killed processes are killed. No failure may be
blamed on a candidate, nothing may stay behind, and later users must find everything in order.
"""

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernelwright.errors import InfrastructureError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.policy.gold import gold
from kernelwright.records import Candidate
from kernelwright.tasks import load_suite
from kernelwright.verify import VerifierPool
from kernelwright.verify import pool as pools
from kernelwright.verify.confined import Confined, Stop
from kernelwright.verify.gpu import gpu as gpus
from kernelwright.verify.gpu.gpu import Lock
from kernelwright.verify.sandbox.service import Failure
from kernelwright.verify.sandbox.zygote import Zygote, sweep
from kernelwright.verify.store import Store

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")

(RELU,) = load_suite("wright/relu")
GOLD = Candidate(code=gold(RELU.id))


def program(text: str) -> list[str]:
    """A Python program that has the judge's names imported, as a command."""
    head = """\
    import json, os, sys, tempfile, time
    from pathlib import Path
    from kernelwright.errors import UserError
    from kernelwright.records import Candidate
    from kernelwright.runs import RunFolder, write_text
    from kernelwright.policy.gold import gold
    from kernelwright.tasks import load_suite
    from kernelwright.verify import VerifierPool
    from kernelwright.verify.store import Store
    (task,) = load_suite("wright/relu")
    code = gold(task.id)
    """
    return [sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(text)]


def living(pids: list[int]) -> list[int]:
    """Processes that still run; zombies do not count."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state != "Z":
            found.append(pid)
    return found


def below(pid: int) -> list[int]:
    """Living descendants."""
    found, frontier = [], [pid]
    while frontier:
        parent = str(frontier.pop())
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if fields[1] == parent and fields[0] != "Z":
                found.append(int(path.parent.name))
                frontier.append(found[-1])
    return found


def until(what: Callable[[], Any], seconds: float) -> Any:
    """The first true value of `what`, or its last one when time is up."""
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.02)
    return what()


# a full disk


@pytest.fixture(scope="module")
def on_a_full_disk(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of all writes when the disk, a tmpfs of 256 KB, is full; and after it was freed."""
    disk = tmp_path_factory.mktemp("disk")
    script = """
    disk, said = Path(sys.argv[1]), {}

    def told(name, act):
        try:
            said[name] = str(act())
        except UserError as error:
            said[name] = f"UserError: {error}"

    rows = [{"number": number, "text": "x" * 2000} for number in range(4)]
    log = RunFolder(disk / "run")
    log.append("rollouts.jsonl", rows[:1])
    write_text(disk / "verdict.json", "old")
    store = Store("ratios", disk / "store")
    store.put({"ms": "1"}, task="a")
    tempfile.tempdir = str(disk)
    os.environ["TRITON_CACHE_DIR"] = str(disk / "cache")
    with VerifierPool(1, "interpret") as pool:
        with open(disk / "filler", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1024))
            except OSError:
                pass
        told("verdict", lambda: write_text(disk / "verdict.json", "new" * 4096))
        told("log", lambda: log.append("rollouts.jsonl", rows[1:]))
        store.put({"ms": "2" * 4096}, task="a")
        store.put({"ms": "2" * 4096}, task="b")
        said["remembered"] = [store.get(task=name) for name in "ab"]
        said["after"] = (disk / "verdict.json").read_text()
        said["beside"] = sorted(p.name for p in disk.iterdir())
        verdict = pool.verify(task, Candidate(code=code))
        said["judged"], said["detail"] = verdict.outcome, verdict.detail
        (disk / "filler").unlink()
        store.put({"ms": "3"}, task="b")
        said["remembered again"] = [store.get(task=name) for name in "ab"]
        said["entries"] = len(list(store.folder.iterdir()))
        log.append("rollouts.jsonl", rows[1:])
        said["numbers"] = [row["number"] for row in log.lines("rollouts.jsonl")]
        said["again"] = pool.verify(task, Candidate(code=code + "# again")).outcome
    said["scratch"] = [p.name for p in disk.glob("kernelwright-*")]
    print(json.dumps(said))
    """
    command = program(script)
    mounted = [
        "unshare",
        "-m",
        "sh",
        "-c",
        'mount -t tmpfs -o size=256k none "$0" && exec "$@"',
        str(disk),
        *command,
    ]
    done = subprocess.run([*mounted, str(disk)], capture_output=True, text=True, timeout=120)
    if done.returncode == 32 or "ermi" in done.stderr.partition("\n")[0]:
        pytest.skip("file systems cannot be mounted here")
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "stderr": done.stderr.splitlines()}


def test_a_verdict_that_finds_no_room_is_one_line_and_the_old_one_stays(
    on_a_full_disk: dict[str, Any],
) -> None:
    assert "the disk is full; free some space" in on_a_full_disk["verdict"]
    assert "\n" not in on_a_full_disk["verdict"]
    assert on_a_full_disk["after"] == "old"
    assert [name for name in on_a_full_disk["beside"] if name.endswith(".tmp")] == []


def test_a_log_that_finds_no_room_is_one_line_and_goes_on_without_a_torn_line(
    on_a_full_disk: dict[str, Any],
) -> None:
    assert "the disk is full; free some space and go on with --resume" in on_a_full_disk["log"]
    assert on_a_full_disk["numbers"][0] == 0
    assert on_a_full_disk["numbers"][-3:] == [1, 2, 3]


def test_a_cache_that_finds_no_room_says_so_once_keeps_what_it_has_and_goes_on(
    on_a_full_disk: dict[str, Any],
) -> None:
    assert on_a_full_disk["remembered"] == [{"ms": "1"}, None]
    assert on_a_full_disk["remembered again"] == [{"ms": "1"}, {"ms": "3"}]
    assert on_a_full_disk["entries"] == 2  # and no partial files
    said = [line for line in on_a_full_disk["stderr"] if "KERNELWRIGHT_CACHE" in line]
    assert len(said) == 1
    assert "No space left on device" in said[0]


def test_no_candidate_is_blamed_for_a_full_disk(on_a_full_disk: dict[str, Any]) -> None:
    assert on_a_full_disk["judged"] == Outcome.CORRECT, on_a_full_disk["detail"]
    assert on_a_full_disk["again"] == Outcome.CORRECT
    assert on_a_full_disk["scratch"] == []


class AcceleratorError(RuntimeError):
    """Like torch's own."""


class OutOfMemoryError(RuntimeError):
    """Like torch's own."""


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "/tmp/x"),
            "the disk is full .*/tmp/x.*: free some space, or set",
        ),
        (
            InfrastructureError("OSError: [Errno 28] No space left on device: '/c'"),
            "the disk is full .*'/c'.*: free",
        ),
        (OSError(errno.EROFS, "Read-only file system", "/data"), "/data cannot be written .*: set TMPDIR"),
        (OSError(errno.EMFILE, "Too many open files"), "raise ulimit -n, or use fewer workers"),
        (OSError(errno.EAGAIN, "Resource temporarily unavailable"), "use fewer workers"),
        (AcceleratorError("CUDA error: unknown error"), "the judge lost its GPU .*: see nvidia-smi"),
        (OutOfMemoryError("CUDA out of memory. Tried"), "memory is taken .*: end what else"),
        (InfrastructureError("line\nline"), "^line line$"),
        (NotImplementedError("not implemented for 'Float8'"), "^NotImplementedError: not implemented"),
    ],
)
def test_what_the_machine_lacks_is_one_line_with_the_fix(error: Exception, fix: str) -> None:
    class Failing:
        def verdict(self) -> None:
            raise error

    with VerifierPool(1, "interpret") as pool:
        pool._verification = lambda *_: Failing()  # type: ignore[assignment, return-value, method-assign]
        verdict = pool.verify(RELU, GOLD)
    assert verdict.outcome is Outcome.INFRASTRUCTURE_ERROR
    assert re.search(fix, verdict.detail), verdict.detail
    assert "\n" not in verdict.detail


def test_a_cache_that_cannot_be_written_is_told_once_and_costs_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = Store("ratios", Path("/proc/nobody-writes-here"))
    for number in range(3):
        store.put({"ms": number}, task="a")
    assert store.get(task="a") is None
    assert capsys.readouterr().err.count("set KERNELWRIGHT_CACHE to a folder with room") == 1


WRITER = """
import sys
from pathlib import Path
from kernelwright.verify.store import Store
store = Store("ratios", Path(sys.argv[1]))
print("ready", flush=True)
for number in range(int(sys.argv[2])):
    store.put({"ms": number, "text": str(number) * 10_000}, task="a")
"""


def test_writers_at_once_and_a_killed_one_leave_a_whole_entry(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [
        subprocess.Popen([*command, times], stdout=subprocess.PIPE, text=True)
        for times in ("300", "300", "1000000")
    ]
    store = Store("ratios", tmp_path)
    assert until(lambda: store.get(task="a"), 20)
    end = time.monotonic() + 0.5
    while time.monotonic() < end or writers[0].poll() is None or writers[1].poll() is None:
        found = store.get(task="a")
        assert found is not None  # never partial, never missing
        assert found["text"] == str(found["ms"]) * 10_000
    writers[2].kill()
    assert [writer.wait() for writer in writers] == [0, 0, -signal.SIGKILL]
    store.put({"ms": -1}, task="a")
    assert store.get(task="a") == {"ms": -1}


@pytest.mark.parametrize(
    "torn", ["", '{"key": {"task": "a"}, "va', "[]", '{"key": {"task": "b"}, "value": {}}']
)
def test_a_torn_entry_is_none(torn: str, tmp_path: Path) -> None:
    store = Store("ratios", tmp_path)
    store.put({"ms": 1}, task="a")
    (path,) = store.folder.iterdir()
    path.write_text(torn)
    assert store.get(task="a") is None
    store.put({"ms": 2}, task="a")
    assert store.get(task="a") == {"ms": 2}


# a killed judge, beside another


@pytest.mark.slow
def test_a_killed_judge_leaves_nothing_running_and_its_neighbour_in_peace(
    pool: VerifierPool, tmp_path: Path
) -> None:
    script = """
    endless = code.replace("out = torch.empty_like(x)", "out = torch.empty_like(x)\\n        while True: pass")
    with VerifierPool(2, "interpret", deadline_s=60.0) as pool:
        pool.verify_many([(task, Candidate(code=f"{endless}# {n}")) for n in range(4)])
    """
    judge = subprocess.Popen(
        program(script), env={**os.environ, "TMPDIR": str(tmp_path)}, start_new_session=True
    )
    try:
        assert until(lambda: len(below(judge.pid)) >= 3, 60)  # a zygote and two workers
        assert pool.verify(RELU, GOLD).correct
        family = below(judge.pid)
        judge.send_signal(signal.SIGKILL)
        judge.wait(10)
        assert until(lambda: not living(family), 5)
        assert list(tmp_path.glob("kernelwright-*")) == []
    finally:
        for pid in [judge.pid, *below(judge.pid)]:
            os.kill(pid, signal.SIGKILL) if living([pid]) else None
    assert pool.verify(RELU, GOLD).correct


@pytest.fixture(scope="module")
def homeless() -> Iterator[VerifierPool]:
    """A pool that can write only to the scratch folder."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TRITON_CACHE_DIR", "HOME", "XDG_CACHE_HOME"):
            patch.setenv(name, "/proc/nobody-writes-here")
        with VerifierPool(2, "interpret") as made:
            yield made


def test_a_second_pool_without_a_folder_to_write_in_says_the_same(
    pool: VerifierPool, homeless: VerifierPool
) -> None:
    wrong = Candidate(code=GOLD.code.replace("tl.maximum(x, 0.0)", "tl.minimum(x, 0.0)"))
    futures = [judge.submit(RELU, candidate) for judge in (pool, homeless) for candidate in (GOLD, wrong)]
    first, second, third, fourth = [future.result().outcome for future in futures]
    assert (first, second) == (third, fourth)
    assert first is Outcome.CORRECT


def test_folders_of_judges_that_died_with_their_zygote_are_swept(tmp_path: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    names = [
        f"kernelwright-{dead.pid}-old",
        f"kernelwright-{dead.pid}-new",
        f"kernelwright-{os.getpid()}-old",
    ]
    for name in [*names, "kernelwright-gpu-0", "another"]:
        (tmp_path / name).mkdir()
        if not name.endswith("new"):
            os.utime(tmp_path / name, (0, 0))
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [*names[1:], "kernelwright-gpu-0", "another"]
    )


# a zygote that dies


@pytest.mark.slow
def test_verifications_under_way_are_held_again_when_the_zygote_is_killed(homeless: VerifierPool) -> None:
    slow = [f"import torch\nsum(range(20_000_000))  # {n}\n" for n in range(2)]
    candidates = [Candidate(code=GOLD.code.replace("import torch\n", text, 1)) for text in slow]
    zygote = homeless._current_zygote()
    zygote.wait()
    assert zygote._binaries  # kernels are compiled into a folder of its own
    futures = [homeless.submit(RELU, candidate) for candidate in candidates]
    family = until(lambda: below(zygote._process.pid), 10)
    zygote._process.kill()
    assert [future.result().outcome for future in futures] == [Outcome.CORRECT] * 2
    assert until(lambda: not living(family), 5)


def test_a_zygote_whose_process_is_still_being_put_away_is_dead() -> None:
    """Else its workers' end would look like their own fault, and another verification would go to it."""
    zygote = object.__new__(Zygote)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    zygote._socket, zygote._lock, zygote._binaries = ours, threading.Lock(), ""
    zygote._number, zygote._ready = 0, True
    zygote._process = subprocess.Popen(["sleep", "60"])  # type: ignore[assignment]
    try:
        assert zygote.alive
        with pytest.raises(InfrastructureError):
            zygote.reap(1)
        assert not zygote.alive
    finally:
        zygote._process.kill()
        zygote.close()


class DyingZygote:
    """A zygote that never starts."""

    started = 0
    alive = False

    def __init__(self, target: str) -> None:
        type(self).started += 1

    def wait(self) -> None:
        raise InfrastructureError("the zygote is gone")

    def close(self) -> None:
        pass


def test_a_zygote_that_never_lives_is_tried_twice_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "Zygote", DyingZygote)
    DyingZygote.started = 0
    with VerifierPool(1, "interpret") as pool:
        verdict = pool.verify(RELU, GOLD)
    assert verdict.outcome is Outcome.INFRASTRUCTURE_ERROR
    assert "the zygote is gone" in verdict.detail
    assert DyingZygote.started == 2


# a GPU that vanishes


class FakeProcess:
    """A device process whose GPU exists if `there` says so."""

    there = True
    started = 0

    def __init__(
        self, zygote: Any, role: str, deadline: float, limit_s: float, gpu: int | None = None
    ) -> None:
        type(self).started += 1
        self.alive = True

    def ask(self, gate: Gate, body: dict[str, Any], tensors: Any = None) -> tuple[dict[str, Any], list[Any]]:
        if not self.there:
            raise Stop(
                Outcome.RUNTIME_ERROR, gate, "RuntimeError: CUDA error: unknown error\nCompile with ..."
            )
        return {}, []

    def dismiss(self, ended: bool = False) -> int:
        self.alive = False
        return -9


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> gpus.Gpu:
    """GPU 0 with fake processes."""
    monkeypatch.setattr(gpus, "Confined", FakeProcess)
    monkeypatch.setattr(FakeProcess, "there", True)
    monkeypatch.setattr(FakeProcess, "started", 0)
    made = object.__new__(gpus.Gpu)
    made.index, made.lost, made._failures = 0, "", 0
    made._idle, made._guard = [], threading.Lock()
    made.spent = {"cases": 0.0, "clock": 0.0}
    return made


ZYGOTE: Any = SimpleNamespace(alive=True)
CRASH = Stop(Outcome.RUNTIME_ERROR, Gate.SMALL, "RuntimeError: CUDA error: unspecified launch failure")


def crash(device: gpus.Gpu) -> None:
    with device.process(ZYGOTE):
        raise CRASH


def test_a_gpu_that_no_process_can_use_is_given_up_and_said_so_in_one_line(device: gpus.Gpu) -> None:
    FakeProcess.there = False
    said = []
    for _ in range(50):
        with pytest.raises(InfrastructureError) as error:
            device.fresh(ZYGOTE)
        said.append(str(error.value))
    assert FakeProcess.started == 3
    assert said[0].startswith("no device process on GPU 0: RuntimeError: CUDA error: unknown error")
    assert said[-1].startswith("GPU 0 is lost: no process could use it, 3 times in a row")
    assert "see nvidia-smi" in said[-1]
    assert [text for text in said if "\n" in text] == []


def test_failures_apart_from_each_other_give_up_no_gpu(device: gpus.Gpu) -> None:
    for _ in range(5):
        FakeProcess.there = False
        with pytest.raises(InfrastructureError):
            device.fresh(ZYGOTE)
        FakeProcess.there = True
        device.fresh(ZYGOTE)
    assert device.lost == ""


def test_a_dead_zygote_gives_up_no_gpu(device: gpus.Gpu) -> None:
    FakeProcess.there = False
    for _ in range(5):
        with pytest.raises(InfrastructureError):
            device.fresh(SimpleNamespace(alive=False))  # type: ignore[arg-type]
    assert device.lost == ""


def test_a_crash_is_the_candidates_where_the_gpu_still_answers(device: gpus.Gpu) -> None:
    for _ in range(5):
        with pytest.raises(Stop):
            crash(device)
    assert FakeProcess.started == 6  # one more than crashed: it stays warm
    assert device.lost == ""


def test_a_crash_is_nobodys_fault_where_the_gpu_is_gone(device: gpus.Gpu) -> None:
    device._keep(device.fresh(ZYGOTE))
    FakeProcess.there = False
    with pytest.raises(InfrastructureError, match="no device process"):
        crash(device)


def test_other_rejections_ask_nothing_of_the_gpu(device: gpus.Gpu) -> None:
    with pytest.raises(Stop), device.process(ZYGOTE):
        raise Stop(Outcome.COMPILE_ERROR, Gate.COMPILE, "no")
    assert FakeProcess.started == 1


def test_a_lost_gpu_gets_no_more_verifications_while_another_is_there(device: gpus.Gpu) -> None:
    other: Any = SimpleNamespace(lost="", verifications=9, index=1)
    with VerifierPool(1, "interpret") as pool:
        pool.gpus = [device, other]
        device.verifications, device.lost = 0, "GPU 0 is lost"
        assert pool._gpu_for(RELU) is other
        other.lost = "GPU 1 is lost"
        assert pool._gpu_for(RELU) in (device, other)
        pool.gpus = []


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("CUDA error: uncorrectable ECC error encountered", InfrastructureError),
        ("CUDA error: no CUDA-capable device is detected", InfrastructureError),
        ("CUDA error: CUDA-capable device(s) is/are busy or unavailable", InfrastructureError),
        ("CUDA error: an illegal memory access was encountered", Failure),
        ("CUDA error: unspecified launch failure", Failure),
        ("Triton Error [CUDA]: unknown error", Failure),
    ],
)
def test_what_no_kernel_brings_about_is_the_machines(said: str, kind: type[Exception]) -> None:
    from kernelwright.verify.gpu.device import CudaDevice

    with pytest.raises(kind), object.__new__(CudaDevice)._failures():
        raise RuntimeError(said)


def test_a_disk_that_takes_no_compiled_kernel_is_the_machines() -> None:
    from kernelwright.verify.gpu.device import CudaDevice

    with pytest.raises(InfrastructureError, match="No space left"), object.__new__(CudaDevice)._failures():
        raise OSError(errno.ENOSPC, "No space left on device", "/root/.triton/cache")


def test_a_name_too_long_for_a_file_is_the_candidates() -> None:
    from kernelwright.verify.gpu.device import CudaDevice

    with pytest.raises(Failure), object.__new__(CudaDevice)._failures():
        raise OSError(errno.ENAMETOOLONG, "File name too long")


@pytest.mark.parametrize(("role", "kind"), [("cuda", InfrastructureError), ("host", Stop)])
def test_only_a_trusted_process_can_say_that_the_machine_failed(role: str, kind: type[Exception]) -> None:
    process = object.__new__(Confined)
    process.role = role  # type: ignore[assignment]
    answer = {"outcome": "infrastructure_error", "detail": "cuIpcOpenMemHandle failed"}
    assert isinstance(process._refused(Gate.LOAD, answer), kind)


# two pools on one GPU: its locks, between processes


@pytest.fixture
def lock(tmp_path: Path) -> Lock:
    return Lock(tmp_path / "gpu.lock")


def holder(lock: Lock, how: str) -> subprocess.Popen[str]:
    """Another process that holds the lock until it is killed."""
    text = f"""
    import sys, time, pathlib
    from kernelwright.verify.gpu.gpu import Lock
    with Lock(pathlib.Path({str(lock._path)!r})).{how}():
        print("held", flush=True)
        time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(text)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def entered(context: Any) -> threading.Event:
    """An event set once another thread has entered the context; the thread leaves at once."""
    event = threading.Event()

    def enter() -> None:
        with context:
            event.set()

    threading.Thread(target=enter, daemon=True).start()
    return event


@pytest.mark.parametrize(
    ("theirs", "ours"), [("exclusive", "shared"), ("exclusive", "exclusive"), ("shared", "exclusive")]
)
def test_a_killed_pool_gives_the_clock_free(theirs: str, ours: str, lock: Lock) -> None:
    process = holder(lock, theirs)
    try:
        came = entered(getattr(lock, ours)())
        assert not came.wait(0.2)
    finally:
        process.kill()
        process.wait()
    assert came.wait(5)


def test_clocks_of_a_pool_run_one_after_the_other(lock: Lock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Correctness checks may enter after a few of them, and after the last."""
    monkeypatch.setattr(gpus, "_CLOCKS_IN_A_ROW", 2)
    order: list[str] = []
    inside, go = threading.Event(), threading.Event()

    def clock(name: str) -> None:
        with lock.exclusive():
            order.append(name)
            if name == "first":
                inside.set()
                assert go.wait(10)

    def share() -> None:
        with lock.shared():
            order.append("shared")

    threads = [threading.Thread(target=clock, args=("first",))]
    threads[0].start()
    assert inside.wait(10)
    threads += [threading.Thread(target=clock, args=("later",)) for _ in range(2)]
    for thread in threads[1:]:
        thread.start()
    while lock._waiting < 2:
        time.sleep(0.001)
    threads.append(threading.Thread(target=share))
    threads[-1].start()
    time.sleep(0.2)
    go.set()
    for thread in threads:
        thread.join(10)
    assert order[:2] == ["first", "later"]
    assert sorted(order[2:]) == ["later", "shared"]
    assert entered(lock.exclusive()).wait(5)


def test_checks_give_way_to_a_clock_that_waits(lock: Lock) -> None:
    with lock.shared() as share:
        share.give_way()
        came = entered(lock.exclusive())
        assert not came.wait(0.2)
        while not came.wait(0.01):  # until the clock has begun to wait
            share.give_way()


def test_a_clock_that_fails_gives_the_gpu_back(lock: Lock) -> None:
    with pytest.raises(Stop), lock.exclusive():
        raise Stop(Outcome.TIMING_FORGED, Gate.TIMING, "")
    assert entered(lock.shared()).wait(5)


def test_pools_share_a_gpu_for_correctness(lock: Lock) -> None:
    process = holder(lock, "shared")
    try:
        assert entered(lock.shared()).wait(5)
    finally:
        process.kill()
        process.wait()
