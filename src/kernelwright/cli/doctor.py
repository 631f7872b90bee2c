"""What this machine can do, and which protections confine candidates: tested, not guessed.

Every line is a `Check`: what was found, whether it is good, and otherwise the fix. The last ones are a trial: a gold kernel and
a cheat through the whole verifier. No network is needed. A missing protection is reported but does not fail the doctor; only a
failed trial does, since then no verdict can be made.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright.errors import one_line
from kernelwright.hardware import cores, memory

if TYPE_CHECKING:
    from rich.console import Console

PROBE_TASK = "wright/relu"
CHEAT = """\
import torch
import triton
import triton.language as tl


@triton.jit
def add_nothing(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) + 0.0, mask=at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        out = torch.empty_like(y)
        add_nothing[(triton.cdiv(y.numel(), 1024),)](y, out, y.numel(), BLOCK=1024)
        return out
"""
"""Torch does the work, and a kernel that adds nothing takes the credit."""

SUPPORTED = {
    "torch": ((2, 11), (2, 14)), "triton": ((3, 6), (3, 10)), "numpy": ((2, 0), None),
    "pydantic": ((2, 10), (3,)), "transformers": ((5, 17), (6,)), "trl": ((1, 16, 0), (1, 16, 1)),
    "peft": ((0, 18), None), "accelerate": ((1, 10), None), "datasets": ((4, 0), None),
}  # fmt: skip
"""From the first version up to, but excluding, the second; as in pyproject.toml."""
PYTHONS = ((3, 11), (3, 13))
JUDGING = ("torch", "triton", "numpy", "pydantic")
"""Packages needed for a verdict; the others are for training."""
_ROOM_BYTES = 1 << 30
_VERIFICATION_BYTES = 1 << 30
"""Memory for the judge, its zygote and one verification; disk space for compiled kernels and run folders."""


@dataclasses.dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str
    found: str
    ok: bool = True
    fix: str = ""
    """How to fix it if it is missing."""
    optional: bool = False
    """Whether only what `fix` names needs it."""


Section = tuple[str, Callable[[], Iterator[Check]]]


def examine(kernelbench: str = "") -> Iterator[tuple[str, Check]]:
    """(section, check) pairs as checks are made; sections are in the order of `SECTIONS`.

    Checks may themselves fail on a broken machine; such a section reports that, and the next one continues.
    """
    sections: list[Section] = [*SECTIONS]
    if kernelbench:
        sections.insert(-1, ("Benchmarks", lambda: benchmark(kernelbench)))
    for title, checks in sections:
        try:
            for check in checks():
                yield title, check
        except Exception as error:
            reason = one_line(f"{type(error).__name__}: {error}")
            yield title, Check(title.lower(), f"could not be looked at: {reason}", False)


def run(console: Console, as_json: bool = False, kernelbench: str = "") -> int:
    """Print every check. Exit code: 0 if a verdict can be made here, 3 if not."""
    began = time.perf_counter()
    found: list[tuple[str, Check]] = []
    for title, check in examine(kernelbench):
        if not as_json:
            if not found or found[-1][0] != title:
                console.print(title, style="bold")
            line = f"  {'ok' if check.ok else 'missing':<8} {check.name:<22} {check.found}"
            console.print(f"{line}: {check.fix}" if check.fix and not check.ok else line)
        found.append((title, check))
    seconds = time.perf_counter() - began
    able = all(check.ok for title, check in found if title == TRIAL)
    if as_json:
        checks = [{"section": title, **dataclasses.asdict(check)} for title, check in found]
        report = {"verdicts_can_be_made": able, "seconds": round(seconds, 2), "checks": checks}
        console.print(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        lacking = [check.name for _, check in found if not check.ok and not check.optional]
        summary = "Verdicts can be made here." if able else "No verdict can be made here."
        missing = f" Missing: {', '.join(lacking)}." if lacking else ""
        console.print(f"{summary}{missing} {seconds:.1f} s")
    return 0 if able else 3


# -- the machine -----------------------------------------------------------------------------------------------


def machine() -> Iterator[Check]:
    """Operating system, Python, cores, memory, disk."""
    from kernelwright.verify import store

    here = f"{platform.system()} {platform.release()} {platform.machine()}"
    fits = (platform.system(), platform.machine()) == ("Linux", "x86_64")
    yield Check("system", here, fits, "the sandbox is written for Linux on x86_64")
    inside = PYTHONS[0] <= sys.version_info[:2] < PYTHONS[1]
    yield Check("python", f"{platform.python_version()} (3.11 or 3.12)", inside, "install Python 3.12")
    yield Check("cores", f"{cores()}: so many candidates are judged at once by default (at most 16)")
    free, total = memory()
    fix = "end other programs: one verification needs about 1 GB"
    yield Check(
        "memory", f"{free / 1e9:.1f} GB free of {total / 1e9:.1f} GB", free > _VERIFICATION_BYTES, fix
    )
    yield folder("scratch", Path(tempfile.gettempdir()), "set TMPDIR to a folder with room")
    fix = "set KERNELWRIGHT_CACHE to a folder with room that may be written"
    yield folder("cache of timings", store.default_folder(), fix)
    named = os.environ.get("TRITON_CACHE_DIR")
    if named:  # otherwise they go to the scratch folder
        yield folder(
            "compiled kernels", Path(named), "unset TRITON_CACHE_DIR, or name a folder that may be written"
        )


def folder(name: str, path: Path, fix: str) -> Check:
    """Free space in a folder, created if possible, and whether it is writable."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"x" * 4096)
            file.flush()
        free = shutil.disk_usage(path).free
    except OSError as error:
        return Check(name, f"{path} cannot be written ({error.strerror or error})", False, fix)
    return Check(name, f"{path}, {free / 1e9:.1f} GB free", free > _ROOM_BYTES, fix)


# -- software --------------------------------------------------------------------------------------------------


def software() -> Iterator[Check]:
    """Supported versions of packages, the compiler's targets, assemblers, tools."""
    for package, (least, below) in SUPPORTED.items():
        yield check_version(package, least, below)
    yield from targets()
    yield from assemblers()
    try:
        yield Check("vllm", metadata.version("vllm"), optional=True)
    except metadata.PackageNotFoundError:
        fix = "for big generation only: pip install vllm, or name any OpenAI-compatible endpoint"
        yield Check("vllm", "not installed", False, fix, optional=True)


def check_version(package: str, least: tuple[int, ...], below: tuple[int, ...] | None) -> Check:
    """Whether a package is installed in a supported version."""
    wanted = f">={_version_name(least)}" + (f",<{_version_name(below)}" if below else "")
    judging = package in JUDGING
    fix = "for training only: pip install 'kernelwright[train]'"
    fix = f"pip install '{package}{wanted}'" if judging else fix
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        return Check(package, "not installed", False, fix, optional=not judging)
    numbers = tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])
    inside = least <= numbers and (below is None or numbers < below)
    return Check(package, f"{version} ({wanted})", inside, fix, optional=not judging)


def _version_name(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def targets() -> Iterator[Check]:
    """Compile a small kernel for every kind of GPU with a data sheet."""
    from kernelwright.hardware import TARGETS
    from kernelwright.verify.cost import crosscompile
    from kernelwright.verify.interpret import warmup
    from kernelwright.verify.interpret.interpreter import TracedLaunch

    types: dict[str, object] = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    launch = TracedLaunch(warmup.row_kernel, (1, 1, 1), {}, {"BLOCK": 64}, types, ())
    seen: dict[tuple[str, str], str] = {}
    for sheet in TARGETS.values():
        kind = (sheet.backend, sheet.arch)
        seen[kind] = f"{seen[kind]}, {sheet.name}" if kind in seen else sheet.name
    for (backend, arch), names in seen.items():
        label = f"compiler: {f'sm_{arch}' if backend == 'cuda' else arch}"
        sheet = TARGETS[names.split(", ")[0]]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about defaults of later Triton versions
                assembly = crosscompile.to_assembly(launch, sheet)
            binary = crosscompile.assemble(assembly, sheet)
            yield Check(label, f"{names}: a kernel compiles ({binary.registers} registers)")
        except Exception as error:
            trouble = f"{names}: {type(error).__name__}: {one_line(error, 160)}"
            yield Check(label, trouble, False, "reinstall triton")


def assemblers() -> Iterator[Check]:
    """The versions of the assemblers that Triton ships."""
    spec = importlib.util.find_spec("triton")
    place = Path(spec.origin).parent / "backends" / "nvidia" / "bin" if spec and spec.origin else Path()
    found = [path for name in ("ptxas", "ptxas-blackwell") if (path := place / name).exists()]
    if not found:
        yield Check("ptxas", f"none in {place}", False, "reinstall triton")
    for path in found:
        try:
            printed = subprocess.run(
                [path, "--version"], capture_output=True, text=True, timeout=20, check=True
            )
            release = re.search(r"V[\d.]+", printed.stdout)
            yield Check(path.name, release[0] if release else "of unknown version")
        except (OSError, subprocess.SubprocessError) as error:
            yield Check(path.name, f"does not run ({error})", False, "reinstall triton")


# -- GPUs ------------------------------------------------------------------------------------------------------


def gpus() -> Iterator[Check]:
    """Every GPU that torch sees, with its memory; the driver; the sanitizer."""
    import torch

    from kernelwright.verify.gpu import sanitizer

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    driver = _driver()
    if not count:
        note = "kernels are cross-compiled, interpreted and priced by the cost model"
        if not driver:
            yield Check("GPU", f"none: {note}", optional=True)
        else:
            built = torch.version.cuda or torch.version.hip
            why = f"torch {torch.__version__} is built for {built}" if built else "torch is a CPU build"
            fix = "install a torch that is built for CUDA, and a driver no older than that CUDA"
            yield Check("GPU", f"driver {driver}, but {why} and sees none: {note}", False, fix)
    else:
        fix = "install NVIDIA's driver, and nvidia-smi to see its version"
        yield Check("driver", f"{driver or 'unknown'}, CUDA {torch.version.cuda}", bool(driver), fix, True)
    for index in range(count):
        sheet = torch.cuda.get_device_properties(index)
        try:
            free, total = torch.cuda.mem_get_info(index)
        except RuntimeError as error:
            fix = "see nvidia-smi; a GPU that was lost needs a reset, a full one needs other programs ended"
            yield Check(f"GPU {index}", f"{sheet.name} does not answer: {one_line(error, 120)}", False, fix)
            continue
        found = (
            f"{sheet.name}, sm_{sheet.major}{sheet.minor}, {free / 1e9:.0f} GB free of {total / 1e9:.0f} GB"
        )
        yield Check(
            f"GPU {index}", found, free > 8e9, "end what else runs on it: a verification wants some 8 GB"
        )
    tool = sanitizer.find()
    fix = "for --sanitize only: install NVIDIA's CUDA toolkit, or put compute-sanitizer on the PATH"
    version = f"{tool} ({sanitizer.version(tool)})" if tool else "not installed"
    yield Check("compute-sanitizer", version, tool is not None, fix, optional=True)


def _driver() -> str:
    """The NVIDIA driver's version; empty if there is none."""
    with contextlib.suppress(OSError):
        match = re.search(r"Module\s+([\d.]+)", Path("/proc/driver/nvidia/version").read_text())
        if match:
            return match[1]
    with contextlib.suppress(OSError, subprocess.SubprocessError, IndexError):
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout.split()[0]
    return ""


def benchmark(path: str) -> Iterator[Check]:
    """A checkout of KernelBench, loaded as a suite."""
    from kernelwright.errors import UserError
    from kernelwright.tasks import load_suite

    spec = path if path.startswith("kernelbench:") else f"kernelbench:{path}"
    try:
        yield Check("KernelBench", f"{path}: {len(load_suite(spec))} tasks")
    except UserError as error:
        yield Check("KernelBench", str(error), False)


# -- protections -----------------------------------------------------------------------------------------------

_LAYERS = {
    "resource limits": "candidates may use up memory and time: run on Linux",
    "network namespace": "run as root or allow user namespaces; seccomp refuses sockets as well",
    "no privileges": "run as an ordinary user, or let root change users in this container",
    "landlock": "candidates may read files: use Linux 5.13 or later with landlock among the lsm= of its command line",
    "seccomp": "candidates may make any system call: run on x86_64 with CONFIG_SECCOMP_FILTER",
}
_TRIED = {
    "network": "a socket", "fresh folder": "writing in the folder that it is given",
    "other folders": "writing elsewhere", "your files": "reading below the home folder",
    "new processes": "a fork", "signals": "a signal to the judge",
}  # fmt: skip


def protections() -> Iterator[Check]:
    """The protections available for a candidate here, and attempts that a confined process then made."""
    from kernelwright.verify.sandbox import confine as sandbox

    for name, state in sandbox.protections().items():
        yield Check(name, state, state == "in force", _LAYERS.get(name, ""))
    fix = "see the protections above that are missing"
    for name, stopped in _attempts().items():
        found = f"{_TRIED[name]} is {'refused' if stopped else 'possible'}"
        yield Check(name, found, stopped, fix)


def _attempts() -> dict[str, bool]:
    """What a confined child attempted, by the names of `_TRIED`, and whether it was stopped."""
    from kernelwright.verify.sandbox import confine as sandbox

    home, judge = Path.home(), os.getpid()
    elsewhere = Path(tempfile.gettempdir(), f"kernelwright-doctor-{judge}")
    with tempfile.NamedTemporaryFile(dir=home if os.access(home, os.W_OK) else None) as secret:

        def attempt(_: dict[str, bool], scratch: Path) -> dict[str, bool]:
            tries: dict[str, Callable[[], object]] = {
                "network": lambda: socket.create_connection(("127.0.0.1", 9), timeout=1),
                "fresh folder": lambda: (scratch / "x").write_bytes(b"x"),
                "other folders": elsewhere.touch,
                "your files": lambda: Path(secret.name).read_bytes(),
                "new processes": lambda: os._exit(0) if os.fork() == 0 else None,
                "signals": lambda: os.kill(judge, 0),
            }
            return {name: _is_stopped(act) for name, act in tries.items()}

        try:
            found = sandbox.look_from_inside(attempt)
        finally:
            elsewhere.unlink(missing_ok=True)
    return {name: found.get(name, False) for name in _TRIED}


def _is_stopped(act: Callable[[], object]) -> bool:
    try:
        act()
    except ConnectionRefusedError:
        return False  # the connection attempt reached a host
    except OSError:
        return True
    return False


# -- the trial -------------------------------------------------------------------------------------------------

TRIAL = "Judge"


def trial() -> Iterator[Check]:
    """Judge a gold kernel and a cheat, with interpreter or GPU, compiler and sandbox working together."""
    from kernelwright.policy.gold import gold
    from kernelwright.records import Candidate
    from kernelwright.tasks import load_suite
    from kernelwright.verify import VerifierPool

    (task,) = load_suite(PROBE_TASK)
    began = time.perf_counter()
    with VerifierPool(1) as pool:
        verdict = pool.verify(task, Candidate(code=gold(PROBE_TASK)))
        first = time.perf_counter() - began
        found_gold = f"the gold of {PROBE_TASK} is judged {verdict.outcome.value} by {verdict.backend} in {first:.1f} s"
        fix = "see what is missing above, and report it with this output if nothing is"
        detail = "" if verdict.correct else f" ({' '.join(verdict.detail.split())})"
        yield Check("a gold", found_gold + detail, verdict.correct, fix)
        began = time.perf_counter()
        verdict = pool.verify(task, Candidate(code=CHEAT))
        again = time.perf_counter() - began
        found = f"torch behind a kernel that adds nothing is judged {verdict.outcome.value} in {again:.2f} s"
        rejected = verdict.outcome.judged and not verdict.correct
        yield Check("a cheat", found, rejected, fix)


SECTIONS: tuple[Section, ...] = (
    ("Machine", machine),
    ("Software", software),
    ("GPUs", gpus),
    ("Sandbox", protections),
    (TRIAL, trial),
)
