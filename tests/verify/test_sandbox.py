"""What a confined process cannot do: one attack per test, tried in a forked child, harmless if it succeeds."""

import ctypes
import errno
import mmap
import os
import resource
import shutil
import signal
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernelwright.verify.sandbox import confine as sandbox

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or os.uname().machine != "x86_64", reason="Linux on x86-64 only"
)

_LIBC = ctypes.CDLL(None, use_errno=True)
_PARENT = os.getpid()


def confined(attempt: Callable[[Path], Any], scratch: Path, limits: sandbox.Limits | None = None) -> str:
    """Result of `attempt` inside the sandbox: `repr` of its value, the name of its exception, or how it died."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            sandbox.apply(limits or sandbox.Limits(), scratch, {write_end})
            try:
                answer = repr(attempt(scratch))
            except BaseException as error:
                answer = type(error).__name__
            os.write(write_end, answer.encode()[:2000])
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        answer = pipe.read()
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return answer if answer or code >= 0 else f"died of {signal.Signals(-code).name}"


def call(number: int, *arguments: Any) -> str:
    """A raw system call: `ok`, or the name of its error."""
    ctypes.set_errno(0)
    done = _LIBC.syscall(number, *arguments)
    return "ok" if done >= 0 else errno.errorcode[ctypes.get_errno()]


@pytest.fixture
def victim() -> Iterator[int]:
    """An idle process of the same user."""
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    yield pid
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file outside the scratch folder."""
    path = tmp_path / "outside.txt"
    path.write_text("precious")
    return path


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


REFUSED = ("PermissionError", "'EPERM'", "'EACCES'", "'ENOSYS'", "OSError")


# processes


@pytest.mark.parametrize(
    "attempt", [os.fork, lambda: os.execv("/bin/true", ["true"]), lambda: os.system("true")]
)
def test_no_new_process(attempt: Callable[[], Any], scratch: Path) -> None:
    assert confined(lambda _: attempt(), scratch) in ("PermissionError", "-1", "32512")


@pytest.mark.parametrize(
    ("name", "number"), [("vfork", 58), ("clone", 56), ("clone3", 435), ("execveat", 322)]
)
def test_no_new_process_by_raw_call(name: str, number: int, scratch: Path) -> None:
    assert confined(lambda _: call(number, 0, 0, 0, 0, 0), scratch) in REFUSED


def test_threads_still_start(scratch: Path) -> None:
    def attempt(_: Path) -> str:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
        return "joined"

    assert confined(attempt, scratch) == "'joined'"


def test_the_other_numbering_of_system_calls_kills(scratch: Path) -> None:
    assert confined(lambda _: call(0x4000_0000 | 39), scratch) == "died of SIGSYS"


# others


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, 0])
def test_no_signal_to_the_parent(number: int, scratch: Path) -> None:
    assert confined(lambda _: os.kill(_PARENT, number), scratch) == "PermissionError"


@pytest.mark.parametrize(
    ("name", "number", "first"),
    [("tkill", 200, 1), ("tgkill", 234, 2), ("rt_sigqueueinfo", 129, 1), ("rt_tgsigqueueinfo", 297, 2)],
)
def test_no_signal_by_another_call(name: str, number: int, first: int, victim: int, scratch: Path) -> None:
    info = ctypes.create_string_buffer(bytes([0] * 8) + b"\xff\xff\xff\xff" + bytes(116), 128)
    ids = [victim] * first
    assert confined(lambda _: call(number, *ids, signal.SIGURG, info), scratch) in REFUSED


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("ptrace_attach", 101),
        ("process_vm_readv", 310),
        ("process_vm_writev", 311),
        ("pidfd_open", 434),
        ("kcmp", 312),
    ],
)
def test_no_look_into_another_process(name: str, number: int, victim: int, scratch: Path) -> None:
    arguments = (16, victim, 0, 0) if number == 101 else (victim, 0, 0, 0, 0, 0)
    assert confined(lambda _: call(number, *arguments), scratch) in REFUSED


@pytest.mark.parametrize("what", ["environ", "mem", "maps", "cmdline", "fd", "status"])
@pytest.mark.parametrize("who", ["self", "parent"])
def test_no_proc(who: str, what: str, scratch: Path) -> None:
    def attempt(_: Path) -> Any:
        path = Path("/proc") / (str(_PARENT) if who == "parent" else who) / what
        return sorted(path.iterdir()) if what == "fd" else path.read_bytes()

    assert confined(attempt, scratch) == "PermissionError"


@pytest.mark.parametrize(
    "attempt",
    [
        lambda pid: os.setpriority(os.PRIO_PROCESS, pid, 1),
        lambda pid: os.sched_setaffinity(pid, {0}),
        lambda pid: os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0)),
        lambda pid: call(251, 1, pid, 2 << 13),
    ],
    ids=["setpriority", "sched_setaffinity", "sched_setscheduler", "ioprio_set"],
)
def test_no_other_process_is_slowed(attempt: Callable[[int], Any], victim: int, scratch: Path) -> None:
    assert confined(lambda _: attempt(victim), scratch) in REFUSED


# network


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK])
def test_no_socket(family: int, scratch: Path) -> None:
    assert confined(lambda _: socket.socket(family, socket.SOCK_STREAM), scratch) == "PermissionError"


def test_no_packet_leaves_an_inherited_socket(scratch: Path) -> None:
    with socket.socket() as kept:
        number = kept.fileno()
        assert confined(lambda _: os.fstat(number), scratch) == "OSError"  # it was closed on entry


# files


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/etc/shadow", "/root", "/tmp", "/", "/home", str(Path(__file__))]
)
def test_no_reading_outside(path: str, scratch: Path) -> None:
    def attempt(_: Path) -> Any:
        return os.listdir(path) if os.path.isdir(path) else Path(path).read_bytes()

    assert confined(attempt, scratch) in ("PermissionError", "FileNotFoundError")


def test_no_reading_through_a_link(outside: Path, scratch: Path) -> None:
    (scratch / "link").symlink_to(outside)
    assert confined(lambda folder: (folder / "link").read_text(), scratch) == "PermissionError"


@pytest.mark.parametrize(
    "place", ["/tmp/kernelwright-attack", "/dev/shm/kernelwright-attack", "/dev/kernelwright"]
)
def test_no_writing_outside(place: str, scratch: Path) -> None:
    assert confined(lambda _: Path(place).write_text("x"), scratch) == "PermissionError"
    assert not Path(place).exists()


@pytest.mark.parametrize(
    "attempt",
    [
        lambda path: os.truncate(path, 0),
        lambda path: os.chmod(path, 0o644),
        lambda path: os.chown(path, os.getuid(), os.getgid()),
        lambda path: os.utime(path, (1, 1)),
        lambda path: os.setxattr(path, b"user.kernelwright", b"x"),
        os.unlink,
        lambda path: os.rename(path, path.with_name("other")),
        lambda path: os.link(path, path.with_name("other")),
        lambda path: os.symlink(path, path.with_name("other")),
        lambda path: os.mkdir(path.with_name("other")),
    ],
    ids=["truncate", "chmod", "chown", "utime", "setxattr", "unlink", "rename", "link", "symlink", "mkdir"],
)
def test_no_change_to_a_file_outside(attempt: Callable[[Path], Any], outside: Path, scratch: Path) -> None:
    answer = confined(lambda _: attempt(outside), scratch)
    assert answer in (*REFUSED, "FileNotFoundError")
    assert outside.read_text() == "precious"
    assert outside.stat().st_mtime > 1


def test_no_device_node(scratch: Path) -> None:
    device = os.makedev(1, 3)  # /dev/null
    assert (
        confined(lambda folder: os.mknod(folder / "node", stat.S_IFCHR | 0o600, device), scratch) in REFUSED
    )


def test_the_disk_does_not_fill(scratch: Path) -> None:
    """Neither by one large file nor by many: a worker's total writes are bounded."""
    block = bytes(8 << 20)

    def attempt(folder: Path) -> int:
        done = 0
        try:
            for number in range(40):
                (folder / str(number)).write_bytes(block)
                done += len(block)
        except OSError:
            pass
        return done

    written = int(confined(attempt, scratch))
    shutil.rmtree(scratch)
    assert written <= 128 << 20


def test_a_large_file_is_stopped(scratch: Path) -> None:
    answer = confined(lambda folder: (folder / "large").open("wb").truncate(1 << 40), scratch)
    assert answer in ("OSError", "PermissionError", "died of SIGXFSZ")


# the machine


@pytest.mark.parametrize(
    ("name", "number", "arguments"),
    [
        ("mount", 165, (0, 0, 0, 0, 0)),
        ("umount", 166, (b"/nowhere", 0)),
        ("unshare_user", 272, (0x1000_0000,)),
        ("setns", 308, (-1, 0)),
        ("bpf", 321, (0, 0, 0)),
        ("io_uring_setup", 425, (0, 0)),
        ("keyctl", 250, (0, 0)),
        ("add_key", 248, (b"user", b"kernelwright", b"x", 1, -2)),
        ("perf_event_open", 298, (0, 0, -1, -1, 0)),
        ("userfaultfd", 323, (0,)),
        ("fanotify_init", 300, (0, 0)),
        ("chroot", 161, (b"/",)),
        ("pivot_root", 155, (b"/", b"/")),
        ("open_tree", 428, (-100, b"/", 0)),
        ("fsopen", 430, (b"tmpfs", 0)),
        ("settimeofday", 164, (0, 0)),
        ("sethostname", 170, (0, -1)),
        ("init_module", 175, (0, 0, b"")),
        ("reboot", 169, (0, 0, 0, 0)),
        ("syslog", 103, (9, 0, 0)),
        ("setresuid", 117, (-1, -1, -1)),
        ("setgroups", 116, (0, 0)),
        ("personality", 135, (0xFFFF_FFFF,)),
    ],
)
def test_no_privileged_call(name: str, number: int, arguments: tuple[Any, ...], scratch: Path) -> None:
    assert confined(lambda _: call(number, *arguments), scratch) in ("'EPERM'", "'ENOSYS'")


@pytest.mark.parametrize(
    ("name", "number", "key", "remove"),
    [("shmget", 29, 0x6B77_0001, 31), ("msgget", 68, 0x6B77_0002, 71), ("semget", 64, 0x6B77_0003, 66)],
)
def test_no_object_that_outlives_the_process(
    name: str, number: int, key: int, remove: int, scratch: Path
) -> None:
    arguments = {29: (key, 4096, 0o1600), 68: (key, 0o1600), 64: (key, 1, 0o1600)}[number]
    answer = confined(lambda _: call(number, *arguments), scratch)
    made = _LIBC.syscall(number, *((key, 0, 0) if number != 68 else (key, 0)))
    if made >= 0:
        _LIBC.syscall(remove, made, 0, 0) if number != 64 else _LIBC.syscall(remove, made, 0, 0, 0)
    assert answer in ("'EPERM'", "'ENOSYS'")


@pytest.mark.parametrize(("name", "option"), [("dumpable", 4), ("pdeathsig", 1)])
def test_protections_cannot_be_taken_back(name: str, option: int, scratch: Path) -> None:
    assert confined(lambda _: _LIBC.prctl(option, 1 if option == 4 else 0, 0, 0, 0), scratch) == "-1"


def test_limits_cannot_be_raised(scratch: Path) -> None:
    raised = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    answer = confined(lambda _: resource.setrlimit(resource.RLIMIT_DATA, raised), scratch)
    assert answer in ("ValueError", "PermissionError")


# memory


def test_a_memory_bomb_is_a_memory_error(scratch: Path) -> None:
    limits = sandbox.Limits(memory_bytes=256 << 20)
    assert confined(lambda _: len(bytearray(1 << 30)), scratch, limits) == "MemoryError"


def test_memory_within_the_limit_is_given(scratch: Path) -> None:
    limits = sandbox.Limits(memory_bytes=256 << 20)
    assert confined(lambda _: len(bytearray(32 << 20)), scratch, limits) == str(32 << 20)


def test_a_shared_map_counts_as_memory(scratch: Path) -> None:
    limits = sandbox.Limits(memory_bytes=256 << 20)
    assert confined(lambda _: len(mmap.mmap(-1, 64 << 30)), scratch, limits) in ("OSError", "PermissionError")


def test_open_files_are_few(scratch: Path) -> None:
    assert confined(lambda _: [os.open("/dev/null", os.O_RDONLY) for _ in range(200)], scratch) == "OSError"


def test_endless_computing_ends(scratch: Path) -> None:
    def attempt(_: Path) -> None:
        while True:
            pass

    assert confined(attempt, scratch, sandbox.Limits(cpu_seconds=1)) == "died of SIGXCPU"


@pytest.mark.slow
def test_endless_computing_ends_for_who_does_not_listen_too(scratch: Path) -> None:
    def attempt(_: Path) -> None:
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
        while True:
            pass

    assert confined(attempt, scratch, sandbox.Limits(cpu_seconds=1)) == "died of SIGKILL"


# what still works


def test_libraries_can_be_read_and_imported(scratch: Path) -> None:
    assert confined(lambda _: __import__("colorsys").rgb_to_hsv(0, 0, 0), scratch) == "(0.0, 0.0, 0)"


def test_the_doctor_reports_each_protection() -> None:
    found = sandbox.protections()
    assert {"resource limits", "landlock", "seccomp", "network namespace"} <= set(found)
    assert found["seccomp"] == "in force"
