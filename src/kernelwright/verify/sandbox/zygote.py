"""The warm parent of all workers: a process with torch and Triton imported that only ever forks.

The judge talks to it over one socket: it passes the worker's end of a fresh socket pair, the zygote forks, the
child confines itself (`sandbox/confine.py`) and serves (`sandbox/service.py`). CUDA is never initialised here.
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
"""Waits for a worker that hung up by itself, to learn of what; and for one that was killed. A GPU's driver may hold that
up for long, and nobody else shall wait for it."""
_GRACE_S = 3600.0
_RARELY = (50_000, 20, 50)
"""New objects, and younger collections, after which the interpreter looks for circles: it makes objects by the million, and
few of those."""
_TRITON_ENVIRONMENT = {
    "TRITON_DEFAULT_FP_FUSION": "1",  # what Triton 3.9 does with a warning, said aloud
    "TRITON_DISABLE_LINE_INFO": "1",  # less to assemble, and equal kernels give equal text
}


def sweep(folder: Path) -> None:
    """Remove the scratch folders in `folder` of judges that were killed together with their zygote.

    They are named `kernelwright-PID-...`; an hour of grace is for judges in another PID namespace.
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
    """Variables that a zygote gets from here."""
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
    """It hung up: dead from then on, also while the process is still being put away."""

    def __init__(self, target_name: str) -> None:
        sweep(Path(tempfile.gettempdir()))
        self.target_name = target_name
        self._lock = threading.Lock()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = dict(_environment())
        self.made_for = (target_name, _environment())
        environment |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        environment |= _TRITON_ENVIRONMENT
        # What device processes compile, kept while there is a judge; whoever of the two lives longer takes it away.
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
        """Of the last request: its answer bears it too."""

    def _receive(self) -> dict[str, object]:
        """The answer to the last request; one that comes late, after its request was given up, is passed over."""
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
        """Until it can fork. Raises InfrastructureError."""
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
        """A new process in a role, on a GPU or none: its pid and our end of its socket. Raises InfrastructureError.

        `limits` hold where it is confined.
        """
        ours, theirs = socket.socketpair()
        try:
            with self._lock:
                self._wait_ready()
                asked = {"role": role, "gpu": gpu, "limits": dataclasses.asdict(limits)}
                answer = self._request([theirs.fileno()], fork=str(scratch), **asked)
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
        """Kill a worker if it still lives; returns its wait status (`os.waitstatus_to_exitcode`).

        `ended` says that it hung up by itself, so that its own exit status is worth a short wait.
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
        if not self._ready:  # it is importing still, and has no children
            self._process.kill()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._binaries, ignore_errors=True)


_spare: list[Zygote] = []
"""One at most: warm, and at nobody's service."""
_spare_lock = threading.Lock()


def take(target_name: str) -> Zygote:
    """A zygote: the spare one where it serves, which saves seconds, else a new one."""
    with _spare_lock:
        found = _spare.pop() if _spare else None
    if found is not None:
        if found.alive and found.made_for == (target_name, _environment()):
            return found
        found.close()
    return Zygote(target_name)


def warm_up(target_name: str) -> None:
    """Have a spare zygote; returns at once, while it imports."""
    with _spare_lock:
        if not _spare:
            _spare.append(Zygote(target_name))


def leave(zygote: Zygote) -> None:
    """Keep a zygote without children for the next that asks; it ends with this program."""
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
    """In the forked worker: confine, then serve. Never returns, whatever happens: it is no second zygote."""
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

            # Trusted code only, which has to compile and reach the GPU; kernels may print, so nobody listens.
            service.serve(sock, CudaDevice(gpu or 0))
            return
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.chdir(scratch if role != "host" else os.sep)  # a candidate's Python must not see where it is
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
    """Warm up, say so, then fork on request until the judge hangs up."""
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
    """Until the judge hangs up, which it may do before it has its answer: nobody is left behind then either."""
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
    """What the judge is told: the pid, or why there is none."""
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
    """The exit status of a child that has ended, waited for so long; None where it has not."""
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
    """A worker and whatever it started, such as an assembler."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # its own group, unless it has not come so far


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the judge left: so do we
        try:
            main(int(sys.argv[1]), sys.argv[2])
        finally:
            shutil.rmtree(sys.argv[3], ignore_errors=True)
    os._exit(0)  # Triton's bindings complain about leaks when the interpreter is torn down
