"""Compiles traced launches for a GPU that need not be present, and reads the binary's resource use.

Two halves, one on each side of the trust boundary: `to_assembly` runs in the worker (it must walk the candidate's
functions) and stops at PTX or AMDGCN text; `assemble` runs in the judge, passes the text to the vendor's assembler and
reads registers, spills and shared memory from its report, so we need not trust the worker for them.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import math
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.errors import InfrastructureError
from kernelwright.hardware import MOST_THREADS, Target
from kernelwright.records import Binary

if TYPE_CHECKING:
    from kernelwright.verify.interpret.interpreter import TracedLaunch


_MOST_VALUES, _MOST_OF_PRODUCTS = 512, 256
"""Most elements of a tile per thread: twice its registers, since published kernels that only sum what they load go so far;
in kernels with matrix products, as many as registers. Twice as much would keep the assembler busy for minutes."""


class CompileError(Exception):
    """Triton's compiler rejected the kernel; the message is the compiler's, shortened."""


class TooSlow(CompileError):
    """The assembler did not finish in time."""


@dataclasses.dataclass(frozen=True)
class Assembly:
    """What the worker passes to the judge: assembler text and the launch's shared memory and warps."""

    kernel: str
    text: str
    shared_bytes: int
    num_warps: int


def to_ir(launch: TracedLaunch, target: Target) -> None:
    """Type-check one launch's specialisation with the compiler's front end only. Raises CompileError.

    Also raises it for kernels that later stages would reject or never finish: too many threads, or tiles that do not fit
    in registers. A policy rewarded without this check learns to write rows of 400,000 elements as one tile.
    """
    text, metadata = _stages(launch, target, "")
    warps = int(metadata["num_warps"])
    threads = warps * target.warp_size
    if threads > MOST_THREADS:
        raise CompileError(f"num_warps={warps} is {threads} threads; a program has at most {MOST_THREADS}")
    shapes = (shape.split("x")[:-1] for shape in set(re.findall(r"tensor<((?:\d+x)+)", text)))
    widest = max((math.prod(map(int, shape)) for shape in shapes), default=0)
    most = _MOST_OF_PRODUCTS if "tt.dot" in text else _MOST_VALUES
    if widest > most * threads:
        raise CompileError(
            f"a tile of {widest} elements is {widest // threads} values for each of {threads} threads; registers hold 255: "
            "loop over smaller tiles"
        )


def to_assembly(launch: TracedLaunch, target: Target) -> Assembly:
    """Compile one launch's specialisation to PTX (or AMDGCN). Raises CompileError.

    Runs Triton's stages without its disk cache, where a candidate could plant a binary.
    """
    text, metadata = _stages(launch, target, "ptx" if target.backend == "cuda" else "amdgcn")
    shared = int(metadata.get("shared", 0))
    return Assembly(launch.function.__name__, text, shared, int(metadata["num_warps"]))


@functools.cache
def _compiler(name: str, arch: str, warp_size: int) -> tuple[Any, Any, Any]:
    """Triton's target and backend, and a context with its dialects, which take milliseconds to load."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    gpu = GPUTarget(name, int(arch) if name == "cuda" else arch, warp_size)
    backend, context = make_backend(gpu), ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    return gpu, backend, context


def _stages(launch: TracedLaunch, target: Target, last: str) -> tuple[str, dict[str, Any]]:
    """Run Triton's stages up to `last` (none if empty); returns the last one's text and the metadata."""
    from triton.compiler.compiler import ASTSource

    gpu, backend, context = _compiler(target.backend, target.arch, target.warp_size)
    attributes = {path: [["tt.divisibility", 16]] for path in launch.divisible}
    try:
        source = ASTSource(launch.function, launch.signature, launch.constexprs, attributes)
        options = backend.parse_options({**launch.options})
        metadata: dict[str, Any] = {"target": gpu, **options.__dict__}
        stages: dict[str, Any] = {}
        backend.add_stages(stages, options, source.language)
        module = source.make_ir(
            gpu, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
        )
        for name, stage in stages.items() if last else ():
            module = stage(module, metadata)
            if name == last:
                break
    except Exception as error:
        raise CompileError(shorten(error)) from None
    return str(module), metadata


def shorten(error: BaseException) -> str:
    """The line and the reason of a compiler error, without source listing and wrapping exceptions."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text = str(cause) if cause is error else f"{error}\n{cause}"
    lines = [line.strip() for line in text.splitlines() if line.strip() and set(line.strip()) != {"^"}]
    where = next((line for line in lines if re.match(r"^at \d+:\d+", line)), "")
    reason = lines[-1] if lines else type(error).__name__
    found = f"{where} {type(cause).__name__}: {reason}".strip()[:300]
    if isinstance(cause, NotImplementedError | AttributeError):
        from triton import __version__

        found += f" (the judge's Triton is {__version__}, which lacks it; other versions may have it)"
    return found


def assemble(assembly: Assembly, target: Target, limit_s: float = 60.0) -> Binary:
    """Run the assembler and read its report. Raises CompileError if it rejects the text, TooSlow after `limit_s` seconds:
    a policy's large tiles can keep it busy for minutes."""
    if target.backend == "cuda":
        registers, spills = _report(assembly.text, target.arch, limit_s)
    else:
        registers, spills = _amdgcn(assembly.text)
    occupancy, _ = target.occupancy(registers, assembly.shared_bytes, assembly.num_warps)
    return Binary(
        kernel=assembly.kernel,
        target=target.name,
        registers=registers,
        spills=spills,
        shared_bytes=assembly.shared_bytes,
        num_warps=assembly.num_warps,
        occupancy=occupancy,
    )


@functools.cache
def _ptxas_path() -> str:
    """The assembler that Triton ships, found without importing Triton, which the judge does not need."""
    spec = importlib.util.find_spec("triton")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "backends" / "nvidia" / "bin"
    # Despite the names, the second is the newer one and accepts all that the first does.
    for name in ("ptxas-blackwell", "ptxas"):
        if (folder / name).exists():
            return str(folder / name)
    raise InfrastructureError(f"no assembler in {folder}: reinstall triton")


_reports: dict[tuple[str, str], tuple[int, int]] = {}
"""(text, architecture) -> (registers, bytes of spill stores)."""
_MOST_REPORTS = 4096


def _report(ptx: str, arch: str, limit_s: float) -> tuple[int, int]:
    """(registers, bytes of spill stores) of a text, cached for all threads."""
    found = _reports.get((ptx, arch))
    if found is None:
        found = _ptxas(ptx, arch, limit_s)
        if len(_reports) >= _MOST_REPORTS:
            _reports.clear()
        _reports[ptx, arch] = found
    return found


def _ptxas(ptx: str, arch: str, limit_s: float) -> tuple[int, int]:
    name = f"sm_{arch}a" if int(arch) >= 90 else f"sm_{arch}"
    # The text goes in by standard input: no disk can be full, and a killed judge leaves no file.
    command = [_ptxas_path(), "-v", f"--gpu-name={name}", "/dev/stdin", "-o", "/dev/null"]
    try:
        done = subprocess.run(command, input=ptx, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise TooSlow(f"ptxas took more than {limit_s:.0f} s") from None
    if done.returncode != 0:
        raise CompileError(
            f"ptxas: {done.stderr.strip().splitlines()[0][:300] if done.stderr.strip() else 'failed'}"
        )
    used = re.search(r"Used (\d+) registers", done.stderr)
    stores = re.search(r"(\d+) bytes spill stores", done.stderr)
    return int(used.group(1)) if used else 0, int(stores.group(1)) if stores else 0


def _amdgcn(text: str) -> tuple[int, int]:
    registers = re.search(r"\.vgpr_count:\s+(\d+)", text)
    spills = re.search(r"\.vgpr_spill_count:\s+(\d+)", text)
    return int(registers.group(1)) if registers else 0, 4 * int(spills.group(1)) if spills else 0
