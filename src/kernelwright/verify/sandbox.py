"""Takes from a worker process everything that judging a kernel does not need.

In order of application: resource limits, closed descriptors, a network namespace of its own (where the OS
lets us), Landlock (files: read-only system paths, writes only in the scratch folder), seccomp (no new
processes, sockets, signals to others, ptrace, mounts). `protections()` says what is in force here.

What it does not cover: side channels, the shared page cache, and CPU time used below the limits. On a system
without Landlock or seccomp the weaker set applies, and `kernelwright doctor` says so.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import platform
import resource
import struct
import sys
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one worker may use."""

    memory_bytes: int = 6 << 30
    """Private data (heap and anonymous maps) beyond what the zygote had."""
    cpu_seconds: int = 60
    file_bytes: int = 64 << 20
    open_files: int = 64
    allow_exec: bool = False
    """CUDA workers let Triton run ptxas; interpreter workers run nothing."""
    allow_devices: bool = False


_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 38, 22, 1, 4
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_CLONE_NEWNET = 0x40000000

# Landlock access rights (ABI 1).
_NEEDED = ("torch", "triton")
_READ = 1 << 0 | 1 << 2 | 1 << 3  # execute, read file, read directory
_WRITE_ALL = (1 << 13) - 1

# System calls refused with EPERM, x86-64 numbers.
_DENIED = {
    "socket": 41,
    "connect": 42,
    "bind": 49,
    "listen": 50,
    "fork": 57,
    "vfork": 58,
    "kill": 62,
    "ptrace": 101,
    "setuid": 105,
    "setgid": 106,
    "mount": 165,
    "umount2": 166,
    "reboot": 169,
    "tkill": 200,
    "unshare": 272,
    "perf_event_open": 298,
    "setns": 308,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "bpf": 321,
    "pidfd_open": 434,
    "pidfd_getfd": 438,
    "pidfd_send_signal": 424,
    "io_uring_setup": 425,
    "keyctl": 250,
    "prlimit64": 302,
}
_EXEC = {"execve": 59, "execveat": 322}
_CLONE, _CLONE3, _TGKILL = 56, 435, 234
_CLONE_THREAD = 0x00010000


def apply(limits: Limits, scratch: Path, keep_fds: set[int]) -> dict[str, bool]:
    """Confine this process for good. Returns what could be put in force, by name."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)
    _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    _limit(resource.RLIMIT_CPU, limits.cpu_seconds)
    _limit(resource.RLIMIT_FSIZE, limits.file_bytes)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, max(limits.open_files, max(keep_fds) + 1))
    if not limits.allow_devices:
        used = _data_bytes()
        _limit(resource.RLIMIT_DATA, used + limits.memory_bytes)
    _close_other_fds(keep_fds)
    return {
        "resource limits": True,
        "network namespace": _LIBC.unshare(_CLONE_NEWNET) == 0,
        "landlock": _landlock(scratch, limits),
        "seccomp": _seccomp(limits),
    }


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))


def _data_bytes() -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return 2 << 30


def _close_other_fds(keep: set[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            with contextlib.suppress(OSError):
                os.close(int(name))


class _RulesetAttr(ctypes.Structure):
    _fields_ = (("handled_access_fs", ctypes.c_uint64),)


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def _landlock(scratch: Path, limits: Limits) -> bool:
    attr = _RulesetAttr(_WRITE_ALL)
    ruleset = _LIBC.syscall(_LANDLOCK_CREATE, ctypes.byref(attr), ctypes.sizeof(attr), 0)
    if ruleset < 0:
        return False
    # Where Triton and torch lie, wherever that is, but never a source tree or a task's folder.
    packages = [os.path.dirname(sys.modules[name].__file__ or "") for name in _NEEDED if name in sys.modules]
    system = ["/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/bin"]
    readable = [sys.prefix, sys.base_prefix, *system, *packages]
    if limits.allow_devices:
        readable += ["/proc", "/sys", "/opt"]
    try:
        for path in dict.fromkeys(readable):
            _allow(ruleset, path, _READ if os.path.isdir(path) else _READ & ~(1 << 3))
        _allow(ruleset, str(scratch), _WRITE_ALL & ~(1 << 0))
        _allow(ruleset, "/dev", _READ | 1 << 1 if limits.allow_devices else 0)
        _allow(ruleset, "/dev/null", 1 << 1 | 1 << 2)
        _allow(ruleset, "/dev/urandom", 1 << 2)
        if limits.allow_devices:
            _allow(ruleset, "/dev/shm", _WRITE_ALL & ~1)
        _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return _LIBC.syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    if access == 0 or not os.path.exists(path):
        return
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        rule = _PathBeneath(access, fd)
        _LIBC.syscall(_LANDLOCK_ADD, ruleset, 1, ctypes.byref(rule), 0)
    finally:
        os.close(fd)


def _seccomp(limits: Limits) -> bool:
    """A classic BPF filter: EPERM for the denied calls, threads allowed, processes not."""
    if platform.machine() != "x86_64":
        return False
    load, jump_eq, ret, bit_set = 0x20, 0x15, 0x06, 0x45
    allow, deny, kill, nosys = 0x7FFF0000, 0x00050000 | 1, 0x80000000, 0x00050000 | 38
    denied = sorted({**_DENIED, **({} if limits.allow_exec else _EXEC)}.values())
    if limits.allow_exec:
        denied = [number for number in denied if number not in (57, 58)]
    code: list[tuple[int, int, int, int]] = [
        (load, 0, 0, 4),
        (jump_eq, 1, 0, 0xC000003E),
        (ret, 0, 0, kill),
        (load, 0, 0, 0),
        (bit_set, 0, 1, 0x40000000),  # the x32 ABI is another way to every call
        (ret, 0, 0, kill),
    ]
    for number in denied:
        code += [(jump_eq, 0, 1, number), (ret, 0, 0, deny)]
    if not limits.allow_exec:
        # clone3 hides its flags in memory: say "no such call", and libc falls back to clone.
        code += [(jump_eq, 0, 1, _CLONE3), (ret, 0, 0, nosys)]
        code += [
            (jump_eq, 0, 4, _CLONE),
            (load, 0, 0, 16),
            (bit_set, 1, 0, _CLONE_THREAD),
            (ret, 0, 0, deny),
            (ret, 0, 0, allow),
        ]
    # tgkill only to this process itself (abort() and thread cancellation use it)
    code += [
        (jump_eq, 0, 4, _TGKILL),
        (load, 0, 0, 16),
        (jump_eq, 1, 0, os.getpid()),
        (ret, 0, 0, deny),
        (ret, 0, 0, allow),
    ]
    code += [(ret, 0, 0, allow)]
    raw = b"".join(struct.pack("HBBI", op, yes, no, value) for op, yes, no, value in code)
    buffer = ctypes.create_string_buffer(raw, len(raw))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    program = Program(len(code), ctypes.cast(buffer, ctypes.c_void_p))
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return _LIBC.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0) == 0


def protections() -> dict[str, str]:
    """What a worker on this machine is confined by, tried out in a child: name -> `in force` or why not."""
    import tempfile

    read_end, write_end = os.pipe()
    with tempfile.TemporaryDirectory(prefix="kernelwright-doctor-") as scratch:
        pid = os.fork()
        if pid == 0:
            try:
                state = apply(Limits(), Path(scratch), {write_end})
                os.write(write_end, ";".join(f"{name}={int(on)}" for name, on in state.items()).encode())
            finally:
                os._exit(0)
        os.close(write_end)
        with os.fdopen(read_end) as pipe:
            answer = pipe.read()
        os.waitpid(pid, 0)
    found = dict(item.split("=") for item in answer.split(";") if item)
    if not found:
        return {"sandbox": "could not be applied"}
    return {name: "in force" if on == "1" else "not available here" for name, on in found.items()}
