"""What this machine can do, and which protections hold candidates in: tried out, not guessed.

The last line is a trial: a built-in gold kernel through the whole verifier.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

Row = tuple[str, str, bool]
"""(what, what was found, whether it is as it should be)"""

PACKAGES = ("torch", "triton", "numpy", "pydantic", "transformers", "trl", "peft", "accelerate", "datasets")
PROBE_TASK = "wright/relu"


def machine() -> Iterator[Row]:
    """Python, cores, memory, packages, GPUs, assemblers."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield (
        "system",
        f"{platform.system()} {platform.release()} {platform.machine()}",
        platform.system() == "Linux",
    )
    yield "python", platform.python_version(), (3, 11) <= sys.version_info[:2] <= (3, 12)
    yield "cores", str(cores), True
    yield "memory", _memory(), True
    for package in PACKAGES:
        try:
            yield package, metadata.version(package), True
        except metadata.PackageNotFoundError:
            wanted = package in ("torch", "triton", "numpy", "pydantic")
            yield package, "missing" if wanted else "missing: pip install 'kernelwright[train]'", not wanted
    yield from gpus()
    yield from assemblers()


def gpus() -> Iterator[Row]:
    """Every GPU that torch sees."""
    import torch

    if not torch.cuda.is_available():
        yield "GPU", "none: kernels are cross-compiled, interpreted and priced by the cost model", True
        return
    for index in range(torch.cuda.device_count()):
        sheet = torch.cuda.get_device_properties(index)
        yield (
            f"GPU {index}",
            f"{sheet.name}, sm_{sheet.major}{sheet.minor}, {sheet.total_memory / 1e9:.0f} GB",
            True,
        )


def assemblers() -> Iterator[Row]:
    """The assemblers that Triton ships, each asked for its version."""
    spec = importlib.util.find_spec("triton")
    folder = Path(spec.origin).parent / "backends" / "nvidia" / "bin" if spec and spec.origin else Path()
    found = [path for name in ("ptxas", "ptxas-blackwell") if (path := folder / name).exists()]
    if not found:
        yield "ptxas", f"none in {folder}: reinstall triton", False
    for path in found:
        try:
            said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=True)
            release = [part for part in said.stdout.replace(",", "").split() if part.startswith("V")]
            yield path.name, release[-1] if release else "of unknown version", True
        except (OSError, subprocess.SubprocessError) as error:
            yield path.name, f"does not run ({error}): reinstall triton", False


def protections() -> Iterator[Row]:
    """What the sandbox could put in force around a candidate here."""
    from kernelwright.verify import sandbox

    for name, state in sandbox.protections().items():
        yield name, state, state == "in force"


def trial() -> Row:
    """One gold kernel judged: the interpreter, the compiler and the sandbox at work together."""
    from kernelwright.records import Candidate
    from kernelwright.tasks import gold, load_suite
    from kernelwright.verify import VerifierPool

    with VerifierPool(1) as pool:
        verdict = pool.verify(load_suite(PROBE_TASK)[0], Candidate(code=gold(PROBE_TASK)))
    if not verdict.correct:
        return "trial", f"the gold of {PROBE_TASK} is judged {verdict.outcome.value}: {verdict.detail}", False
    seconds = sum(verdict.evidence.seconds.values())
    registers = ", ".join(f"{b.registers} registers on {b.target}" for b in verdict.evidence.binaries)
    return "trial", f"the gold of {PROBE_TASK} is judged correct in {seconds:.2f} s ({registers})", True


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.1f} GB"
    except (ValueError, OSError):
        return "unknown"
