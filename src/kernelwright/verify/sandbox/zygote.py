"""The warm parent of all workers: a process with torch and Triton imported that only ever forks.

The judge talks to it over one socket: the judge passes the worker's end of a new socket pair, the zygote forks, and
the child confines itself (`sandbox/confine.py`) and serves (`sandbox/service.py`). CUDA is never initialised here.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Literal

from kernelwright.errors import InfrastructureError
from kernelwright.verify.sandbox.confine import Limits

Role = Literal["host", "interpret", "cuda"]
_USUAL = Limits()
_KEPT = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR", "TRITON_CACHE_DIR")
_READY_TIMEOUT_S = 120.0
_FAREWELL_S, _DEATH_S = 0.1, 2.0
"""How long to wait for the exit status of a worker that closed its connection, and for one that was killed. A GPU's driver
may delay an exit for long, and other requests must not wait for it."""
_GRACE_S = 3600.0
_RARELY = (50_000, 20, 50)
"""`gc.set_threshold` for interpreting workers: they make millions of objects but few reference cycles."""
_TRITON_ENVIRONMENT = {
    "TRITON_DEFAULT_FP_FUSION": "1",  # Triton 3.9's default; set, it does not warn
    "TRITON_DISABLE_LINE_INFO": "1",  # less to assemble, and equal kernels give equal text
}
_KEPT_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 28), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}
"""Workers keep the memory of arrays that they free: the next one would fetch as many pages from the kernel again."""


def sweep(folder: Path) -> None:
    """Remove from `folder` the scratch folders of judges that were killed together with their zygote.

    They are named `kernelwright-PID-...`. Folders younger than an hour stay: a judge in another PID namespace may own them.
    """
    for path in folder.glob("kernelwright-*-*"):
        owner = path.name.split("-")[1]
        with contextlib.suppress(OSError):
            found = path.stat()
            old = found.st_mtime < time.time() - _GRACE_S and found.st_uid == os.getuid()
            if owner.isdigit() and old and not os.path.exists(f"/proc/{owner}"):
                shutil.rmtree(path, ignore_errors=True)


def _can_be_written(folder: str) -> bool:
    if not folder:
        return False
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _environment() -> tuple[tuple[str, str], ...]:
    """Environment variables that a zygote inherits from this process."""
    return tuple(
        sorted(
            (name, value)
            for name, value in os.environ.items()
            if name in _KEPT or name.startswith(("CUDA_", "NVIDIA_"))
        )
    )


class Zygote:
    """The judge's handle. Thread-safe: one request at a time."""

    _gone = False
    """The connection is closed: counts as dead even while the process still exits."""

    def __init__(self, target_name: str) -> None:
        sweep(Path(tempfile.gettempdir()))
        self.target_name = target_name
        self._lock = threading.Lock()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = dict(_environment())
        self.made_for = (target_name, _environment())
        environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment |= {**_TRITON_ENVIRONMENT, **_KEPT_MEMORY}
        # Kernels that device processes compiled. Judge and zygote both remove the folder when they end.
        self._binaries = ""
        if not _can_be_written(environment.get("TRITON_CACHE_DIR", "")):
            self._binaries = tempfile.mkdtemp(prefix=f"kernelwright-{os.getpid()}-triton-")
            environment["TRITON_CACHE_DIR"] = self._binaries
        module = "kernelwright.verify.sandbox.zygote"
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(theirs.fileno()), target_name, self._binaries],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        theirs.close()
        self._socket = ours
        ours.settimeout(_READY_TIMEOUT_S)
        self._ready = False
        self._number = 0
        """Number of the last request; its answer carries the same."""

    def _receive(self) -> dict[str, object]:
        """The answer to the last request; late answers to abandoned requests are skipped."""
        while True:
            try:
                data = self._socket.recv(4096)
            except OSError as error:
                self._gone = not isinstance(error, TimeoutError)
                raise InfrastructureError(f"the zygote does not answer: {error}") from None
            if not data:
                self._gone = True
                raise InfrastructureError("the zygote is gone")
            answer = dict(json.loads(data))
            if answer["number"] == self._number:
                return answer

    def _request(self, fds: list[int], **fields: object) -> dict[str, Any]:
        self._number += 1
        try:
            socket.send_fds(self._socket, [json.dumps({"number": self._number, **fields}).encode()], fds)
        except OSError as error:
            self._gone = True
            raise InfrastructureError(f"the zygote is gone: {error}") from None
        return self._receive()

    def wait(self) -> None:
        """Wait until it can fork. Raises InfrastructureError."""
        with self._lock:
            self._wait_ready()

    def _wait_ready(self) -> None:
        if not self._ready:
            self._receive()
            self._socket.settimeout(30.0)
            self._ready = True

    def fork(
        self, scratch: Path, role: Role, gpu: int | None = None, limits: Limits = _USUAL
    ) -> tuple[int, socket.socket]:
        """Start a process in a role, on a GPU or none; returns its pid and our end of its socket. Raises InfrastructureError.

        `limits` apply to confined roles only (all but `cuda`).
        """
        ours, theirs = socket.socketpair()
        try:
            with self._lock:
                self._wait_ready()
                request = {"role": role, "gpu": gpu, "limits": dataclasses.asdict(limits)}
                answer = self._request([theirs.fileno()], fork=str(scratch), **request)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        if "pid" not in answer:
            ours.close()
            raise InfrastructureError(f"the zygote could not fork: {answer.get('error')}")
        return int(answer["pid"]), ours

    def reap(self, pid: int, ended: bool = False) -> int:
        """Kill a worker if it still lives; returns its exit code (`os.waitstatus_to_exitcode`).

        `ended`: it closed the connection itself, so we wait a moment for its own exit status.
        """
        with self._lock:
            return int(self._request([], reap=pid, ended=ended).get("status", -9))

    @property
    def alive(self) -> bool:
        return not self._gone and self._process.poll() is None

    def close(self) -> None:
        self._gone = True
        with contextlib.suppress(OSError):
            self._socket.close()
        if not self._ready:  # it is still importing and has no children
            self._process.kill()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._binaries, ignore_errors=True)


_spare: list[Zygote] = []
"""At most one zygote: warm and unused."""
_spare_lock = threading.Lock()


def take(target_name: str) -> Zygote:
    """A zygote: the spare one if it fits, which saves seconds, else a new one."""
    with _spare_lock:
        found = _spare.pop() if _spare else None
    if found is not None:
        if found.alive and found.made_for == (target_name, _environment()):
            return found
        found.close()
    return Zygote(target_name)


def warm_up(target_name: str) -> None:
    """Start a spare zygote; returns at once, while it imports."""
    with _spare_lock:
        if not _spare:
            _spare.append(Zygote(target_name))


def leave(zygote: Zygote) -> None:
    """Keep a zygote without children as the spare one; it ends with this program."""
    with _spare_lock:
        before = _spare.pop() if _spare else None
        if zygote.alive:
            _spare.append(zygote)
    for one in (before, None if zygote.alive else zygote):
        if one is not None:
            one.close()


@atexit.register
def _close_spare() -> None:
    with _spare_lock:
        while _spare:
            _spare.pop().close()


def _child(control: socket.socket, fd: int, request: dict[str, Any], target_name: str) -> None:
    """In the forked worker: confine, then serve. Exits even on errors, lest the child act as a second zygote."""
    status = 1
    try:
        control.close()
        sock = socket.socket(fileno=fd)
        scratch, role, gpu = Path(request["fork"]), request["role"], request["gpu"]
        from kernelwright.hardware import target
        from kernelwright.verify.sandbox import confine as sandbox
        from kernelwright.verify.sandbox import service
        from kernelwright.verify.trace.stand_ins import pretend_torch_cuda

        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        if role == "cuda":
            from kernelwright.verify.gpu.device import CudaDevice

            # Trusted code, unconfined: it has to compile and use the GPU. Output is discarded, since kernels may print.
            service.serve(sock, CudaDevice(gpu or 0))
            return
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.chdir(scratch if role != "host" else os.sep)  # hides the scratch folder from a candidate's Python
        os.environ.clear()
        os.environ.update(
            {
                "HOME": str(scratch),
                "TMPDIR": str(scratch),
                "TRITON_CACHE_DIR": str(scratch / "cache"),
                **_TRITON_ENVIRONMENT,
            }
        )
        tempfile.tempdir = str(scratch)
        sandbox.apply(Limits(**request["limits"]), scratch, {sock.fileno()})
        sheet = target(target_name)
        if role == "host":
            from kernelwright.verify.trace.host import HostWorker
            from kernelwright.verify.trace.left_behind import notice_seeds
            from kernelwright.verify.trace.surroundings import Surroundings
            from kernelwright.verify.trace.switches import hide_streams

            surroundings = Surroundings()
            surroundings.hide_clock()
            surroundings.hear_of_draws()
            hide_streams()
            notice_seeds(surroundings.hear_of_seeds)
            with pretend_torch_cuda(sheet, surroundings):
                service.serve(sock, HostWorker(surroundings))
        else:
            from kernelwright.verify.interpret.device import InterpretDevice

            gc.set_threshold(*_RARELY)
            service.serve(sock, InterpretDevice(sheet))
        status = 0
    finally:
        os._exit(status)


def main(fd: int, target_name: str) -> None:
    """Warm up, report it, then fork on request until the judge closes the connection."""
    from kernelwright.hardware import target
    from kernelwright.verify.interpret import device as interpret_device
    from kernelwright.verify.trace import host

    control = socket.socket(fileno=fd)
    host.warm()
    interpret_device.warm(target(target_name))
    gc.collect()
    gc.freeze()
    control.send(json.dumps({"ready": os.getpid(), "number": 0}).encode())
    _serve(control, target_name)


def _serve(control: socket.socket, target_name: str) -> None:
    """Serve until the judge closes the connection, perhaps before it has its answer; then kill all children."""
    children: dict[int, str] = {}
    """Scratch folders by process."""
    dying: set[int] = set()
    try:
        while True:
            data, fds, _, _ = socket.recv_fds(control, 4096, 1)
            if not data:
                break
            request = json.loads(data)
            dying -= {pid for pid in dying if _status(pid, 0.0) is not None}
            if "fork" in request:
                answer = _fork(control, fds[0], request, target_name)
                children |= {answer["pid"]: request["fork"]} if "pid" in answer else {}
            else:
                pid, status = int(request["reap"]), -9
                if pid in children:
                    del children[pid]
                    found = _status(pid, _FAREWELL_S if request["ended"] else 0.0)
                    if found is None:
                        _kill(pid)
                        found = _status(pid, _DEATH_S)
                        dying |= {pid} if found is None else set()
                    status = -9 if found is None else found
                answer = {"status": status}
            control.send(json.dumps({**answer, "number": request["number"]}).encode())
    finally:
        for pid, scratch in children.items():
            _kill(pid)
            shutil.rmtree(scratch, ignore_errors=True)


def _fork(control: socket.socket, fd: int, request: dict[str, object], target_name: str) -> dict[str, Any]:
    """Fork; returns the answer to the judge, with the child's pid or an error."""
    try:
        pid = os.fork()
    except OSError as error:
        os.close(fd)
        return {"error": str(error)}
    if pid == 0:
        _child(control, fd, request, target_name)
    os.close(fd)
    return {"pid": pid}


def _status(pid: int, wait_s: float) -> int | None:
    """The exit status of a child; None if it has not ended within `wait_s` seconds."""
    end = time.monotonic() + wait_s
    while True:
        try:
            done, raw = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            return -9
        if done:
            return os.waitstatus_to_exitcode(raw)
        if time.monotonic() >= end:
            return None
        time.sleep(0.001)


def _kill(pid: int) -> None:
    """Kill a worker and all it started, such as an assembler."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # its own group, unless it was killed before `setsid`


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # exit when the judge has
        try:
            main(int(sys.argv[1]), sys.argv[2])
        finally:
            shutil.rmtree(sys.argv[3], ignore_errors=True)
    os._exit(0)  # Triton's bindings complain about leaks when the interpreter is torn down
