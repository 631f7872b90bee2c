"""Confines a worker process to what judging a kernel needs.

In order of application: resource limits, closed descriptors, a network namespace of its own (if the OS permits), no
privileges and the user id of nobody (if we are root), Landlock (read-only system paths, nothing writable), seccomp (an
allow-list of system calls; all others fail). `protections()` says what is in force on this machine.

Not covered: side channels, the shared page cache, and CPU time below the limits. Without Landlock or seccomp the other
protections still apply, and `kernelwright doctor` says which are missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import resource
import stat
import struct
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from kernelwright.children import run_forked


@dataclasses.dataclass(frozen=True)
class Limits:
    """Resource limits of one worker."""

    memory_bytes: int = 6 << 30
    """Private data (heap and anonymous maps) beyond the zygote's."""
    cpu_seconds: int = 60
    """CPU time, after which the process gets SIGXCPU; that distinguishes it from one that the system killed."""
    open_files: int = 64


_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_KEEPCAPS, _PR_SET_SECCOMP = 1, 4, 8, 22
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 24, 38
_CAPSET_VERSION, _CAP_DAC_READ_SEARCH, _LAST_CAP = 0x20080522, 2, 40
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_CLONE_NEWNET = 0x40000000
_NOBODY = 65534
_LAST_S = 5
"""CPU seconds from SIGXCPU to SIGKILL, for processes that catch the former."""
_PATIENCE_S = 60.0
"""Limit for `look_from_inside`, which takes milliseconds."""

_NEEDED = ("torch", "triton")
# Landlock: file rights by the ABI version that introduced them. We handle all of them, so all but reading is denied.
_READ_FILE, _READ = 1 << 2, 1 << 0 | 1 << 2 | 1 << 3
_WRITE_FILE = 1 << 1
_FILE_RIGHTS = ((1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))
_NET_RIGHTS, _SCOPES = 0b11, 0b11
"""From ABI 4: TCP bind and connect. From ABI 6: abstract sockets of, and signals to, outside processes."""

# System calls that are allowed, x86-64 numbers: what Python, numpy, torch and Triton's compiler use.
_ALLOWED = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8,
    "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "pread64": 17,
    "readv": 19, "writev": 20, "access": 21, "select": 23, "sched_yield": 24, "mremap": 25, "madvise": 28, "dup": 32,
    "dup2": 33, "pause": 34, "nanosleep": 35, "getpid": 39, "sendto": 44, "recvfrom": 45, "shutdown": 48,
    "getsockname": 51, "getpeername": 52, "getsockopt": 55, "exit": 60, "uname": 63, "fcntl": 72, "getdents": 78,
    "getcwd": 79, "readlink": 89, "getrlimit": 97, "getrusage": 98, "sysinfo": 99, "times": 100, "getuid": 102,
    "getgid": 104, "geteuid": 107, "getegid": 108, "getppid": 110, "getpgrp": 111, "getpgid": 121, "getsid": 124,
    "sigaltstack": 131, "statfs": 137, "fstatfs": 138, "sched_getparam": 143, "sched_getscheduler": 145,
    "arch_prctl": 158, "gettid": 186, "time": 201, "futex": 202, "sched_getaffinity": 204, "getdents64": 217,
    "set_tid_address": 218, "restart_syscall": 219, "fadvise64": 221, "clock_gettime": 228, "clock_getres": 229,
    "clock_nanosleep": 230, "exit_group": 231, "openat": 257, "newfstatat": 262, "readlinkat": 267, "faccessat": 269,
    "pselect6": 270, "ppoll": 271, "set_robust_list": 273, "get_robust_list": 274, "dup3": 292, "pipe2": 293,
    "getcpu": 309, "getrandom": 318, "membarrier": 324, "statx": 332, "rseq": 334, "faccessat2": 439,
}  # fmt: skip
_MMAP, _IOCTL, _CLONE, _PRCTL, _TGKILL, _PRLIMIT, _CLONE3 = 9, 16, 56, 157, 234, 302, 435
_CLONE_THREAD, _MAP_SHARED_ANONYMOUS = 0x00010000, 0x21
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Whether it is a terminal, its size, bytes waiting, blocking mode, close-on-exec."""
_PRCTLS = (2, 3, 15, 16, 21, 23, 39)
"""Those that read, and the one that names a thread."""


def apply(limits: Limits, scratch: Path, keep_fds: set[int]) -> dict[str, bool]:
    """Confine this process for good; it may still read `scratch`. Returns which protections are in force, by name."""
    _limit(resource.RLIMIT_CPU, limits.cpu_seconds, _LAST_S)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_NOFILE, max(limits.open_files, max(keep_fds) + 1))
    _limit(resource.RLIMIT_DATA, _data_bytes() + limits.memory_bytes)
    _close_other_fds(keep_fds)
    state = {"resource limits": True, "network namespace": _LIBC.unshare(_CLONE_NEWNET) == 0}
    packages = [os.path.dirname(sys.modules[name].__file__ or "") for name in _NEEDED if name in sys.modules]
    system = ["/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/bin"]
    # The folders of Triton and torch, wherever they are, but never a source tree or a task's folder.
    readable = [*dict.fromkeys([sys.prefix, sys.base_prefix, *system, *packages])]
    state["no privileges"] = _drop_privileges(readable)
    _LIBC.prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)  # only now: changing the user clears this and the next
    _LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    state["landlock"] = _landlock([*readable, str(scratch)])
    state["seccomp"] = _seccomp()
    return state


def _limit(kind: int, value: int, grace: int = 0) -> None:
    """Set the soft limit to `value` and the hard limit `grace` above it; neither can be raised again."""
    _, hard = resource.getrlimit(kind)
    soft, most = (v if hard == resource.RLIM_INFINITY else min(v, hard) for v in (value, value + grace))
    resource.setrlimit(kind, (soft, most))


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


# -- privileges ------------------------------------------------------------------------------------------------


def _drop_privileges(readable: list[str]) -> bool:
    """If we are root, become nobody. The right to read all files is kept only if our packages are in a private folder."""
    if os.geteuid() != 0:
        return True
    kept = 0 if all(map(_open_to_all, readable)) else 1 << _CAP_DAC_READ_SEARCH
    for capability in range(_LAST_CAP + 1):
        _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _LIBC.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    done = True
    try:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    except OSError:
        done = False  # some containers forbid root to change users
    header = struct.pack("Ii", _CAPSET_VERSION, 0)
    data = struct.pack("6I", kept, kept, 0, 0, 0, 0)
    return _LIBC.capset(header, data) == 0 and done


def _open_to_all(path: str) -> bool:
    """Whether every user may enter this path's folders."""
    if not os.path.exists(path):
        return True
    real = Path(os.path.realpath(path))
    return all(place.stat().st_mode & stat.S_IXOTH for place in (real, *real.parents) if place.is_dir())


# -- files -----------------------------------------------------------------------------------------------------


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def _landlock(readable: list[str]) -> bool:
    """Allow reading below some paths and nothing else, handling every right that the kernel supports."""
    version = _LIBC.syscall(_LANDLOCK_CREATE, None, 0, 1)
    if version < 1:
        return False
    handled = sum(rights for since, rights in _FILE_RIGHTS if version >= since)
    fields = [handled] + [_NET_RIGHTS] * (version >= 4) + [_SCOPES] * (version >= 6)
    attributes = struct.pack(f"{len(fields)}Q", *fields)
    ruleset = _LIBC.syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    try:
        for path in readable:
            _allow(ruleset, path, _READ if os.path.isdir(path) else _READ_FILE)
        _allow(ruleset, "/dev/null", _READ_FILE | _WRITE_FILE)
        _allow(ruleset, "/dev/urandom", _READ_FILE)
        return _LIBC.syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rule = _PathBeneath(access, fd)
            _LIBC.syscall(_LANDLOCK_ADD, ruleset, 1, ctypes.byref(rule), 0)
        finally:
            os.close(fd)


# -- system calls ----------------------------------------------------------------------------------------------

_LOAD, _AND, _EQUAL, _BITS, _RETURN = 0x20, 0x54, 0x15, 0x45, 0x06
_ALLOW, _DENY, _KILL, _NO_SUCH_CALL = 0x7FFF0000, 0x00050000 | 1, 0x80000000, 0x00050000 | 38
_ARCHITECTURE = 0xC000003E
_Code = list[tuple[int, int, int, int]]


def _one_of(argument: int, values: tuple[int, ...]) -> _Code:
    """Allow the call if the low word of an argument is one of `values`."""
    code: _Code = [(_LOAD, 0, 0, 16 + 8 * argument)]
    for value in values:
        code += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
    return [*code, (_RETURN, 0, 0, _DENY)]


def _program(pid: int) -> _Code:
    """A classic BPF filter. Denied calls fail with EPERM; call numbers of another architecture kill the process."""
    threads_only: _Code = [(_LOAD, 0, 0, 16), (_BITS, 0, 1, _CLONE_THREAD), (_RETURN, 0, 0, _ALLOW)]
    no_shared_memory: _Code = [
        (_LOAD, 0, 0, 16 + 8 * 3),
        (_AND, 0, 0, _MAP_SHARED_ANONYMOUS),
        (_EQUAL, 1, 0, _MAP_SHARED_ANONYMOUS),
        (_RETURN, 0, 0, _ALLOW),
    ]
    read_own_limits: _Code = [
        (_LOAD, 0, 0, 16), (_EQUAL, 1, 0, 0), (_EQUAL, 0, 5, pid),
        (_LOAD, 0, 0, 16 + 8 * 2), (_EQUAL, 0, 3, 0),
        (_LOAD, 0, 0, 20 + 8 * 2), (_EQUAL, 0, 1, 0), (_RETURN, 0, 0, _ALLOW),
    ]  # fmt: skip
    deny: _Code = [(_RETURN, 0, 0, _DENY)]
    special: dict[int, _Code] = {
        _CLONE: threads_only + deny,
        _CLONE3: [(_RETURN, 0, 0, _NO_SUCH_CALL)],  # it hides its flags in memory; libc falls back to clone
        _MMAP: no_shared_memory + deny,
        _PRLIMIT: read_own_limits + deny,
        _TGKILL: _one_of(0, (pid,)),  # abort() signals its own thread
        _PRCTL: _one_of(0, _PRCTLS),
        _IOCTL: _one_of(1, _IOCTLS),
    }
    code: _Code = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, _ARCHITECTURE),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        (_BITS, 0, 1, 0x40000000),  # the x32 ABI would bypass the list
        (_RETURN, 0, 0, _KILL),
    ]
    for number, block in special.items():
        code += [(_EQUAL, 0, len(block), number), *block]
    for number in _ALLOWED.values():
        code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    return code + deny


def _seccomp() -> bool:
    if os.uname().machine != "x86_64":
        return False
    code = _program(os.getpid())
    raw = b"".join(struct.pack("HBBI", op, yes, no, value) for op, yes, no, value in code)
    buffer = ctypes.create_string_buffer(raw, len(raw))
    program = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(buffer))
    return _LIBC.prctl(_PR_SET_SECCOMP, 2, program, 0, 0) == 0


def look_from_inside(look: Callable[[dict[str, bool], Path], dict[str, bool]]) -> dict[str, bool]:
    """Run `look` in a child confined as a worker is, and return its result; empty if the child dies.

    `look` gets the protections in force, by name, and the scratch folder.
    """

    def run(out: BinaryIO) -> None:
        in_force = apply(Limits(), scratch, {out.fileno()})
        out.write(json.dumps(look(in_force, scratch)).encode())

    with tempfile.TemporaryDirectory(prefix="kernelwright-doctor-") as folder:
        scratch = Path(folder)
        ended = run_forked(run, _PATIENCE_S)
    return dict(json.loads(ended.data)) if ended.data else {}


def protections() -> dict[str, str]:
    """Which protections work on this machine, tried in a child: name -> `in force` or why not."""
    found = look_from_inside(lambda in_force, _: in_force)
    if not found:
        return {"sandbox": "could not be applied"}
    return {name: "in force" if on else "not available here" for name, on in found.items()}
