"""Data sheets of the target GPUs (`hardware.toml`), from which the cost model computes times; and the cores and memory of this
machine that a process may use.

Rates are the vendors' dense peak figures, not measurements; `launch_us` and `latency_ns` are typical
values that the calibration of the cost model may replace.
"""

import contextlib
import os
import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from kernelwright.errors import UserError

MOST_THREADS = 1024
"""Most threads per program, on any target."""


class Target(BaseModel):
    """One GPU. Units are in the field names; rates are dense, without sparsity."""

    model_config = ConfigDict(frozen=True)

    name: str
    vendor: str
    backend: str
    """Triton's backend, `cuda` or `hip`."""
    arch: str
    """Triton's architecture: compute capability without the dot, or the gfx name."""
    warp_size: int
    sms: int
    """Streaming multiprocessors or compute units."""
    dram_gb_s: float
    l2_gb_s: float
    l2_bytes: int
    fp32_tflops: float
    tf32_tflops: float
    bf16_tflops: float
    fp64_tflops: float
    registers_per_sm: int
    """32-bit registers."""
    shared_per_sm: int
    """Bytes of shared memory per SM, for all its blocks together."""
    shared_per_block: int
    """Most bytes of shared memory per block (opt-in limit)."""
    threads_per_sm: int
    blocks_per_sm: int
    launch_us: float
    """Device-side gap between two dependent launches of one stream, in microseconds."""
    latency_ns: float
    """DRAM latency seen by one warp, in nanoseconds."""
    source: str

    @property
    def peak_tflops(self) -> dict[str, float]:
        """Peak rate by dtype of the operands of a `dot` (`float32`: IEEE; `tf32`: the matrix units; `tf32x3`: three of those per
        product)."""
        return {
            "float64": self.fp64_tflops,
            "float32": self.fp32_tflops,
            "tf32": self.tf32_tflops,
            "tf32x3": self.tf32_tflops / 3,
            "bfloat16": self.bf16_tflops,
            "float16": self.bf16_tflops,
        }

    def occupancy(self, registers: int, shared_bytes: int, num_warps: int) -> tuple[float, int]:
        """(resident warps / most warps, resident blocks) per SM for a block of `num_warps` warps.

        Registers are granted in units of 256 per warp (CUDA occupancy calculator); zero blocks means that
        the kernel cannot be launched on this target.
        """
        threads = num_warps * self.warp_size
        per_warp = -(-max(registers, 1) * self.warp_size // 256) * 256
        by_registers = self.registers_per_sm // (per_warp * num_warps)
        by_shared = self.shared_per_sm // (shared_bytes + 1024) if shared_bytes else self.blocks_per_sm
        blocks = min(by_registers, by_shared, self.threads_per_sm // threads, self.blocks_per_sm)
        if shared_bytes > self.shared_per_block or threads > MOST_THREADS:
            blocks = 0
        most_warps = self.threads_per_sm // self.warp_size
        return blocks * num_warps / most_warps, blocks


def _sheets() -> dict[str, Target]:
    """The sheets of `hardware.toml`."""
    written = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return {
        name: Target(name=name, **{**written.get(sheet.pop("like", ""), {}), **sheet})
        for name, sheet in written.items()
    }


TARGETS = _sheets()


def target(name: str) -> Target:
    """The sheet of a target, by name. Raises UserError for an unknown one."""
    try:
        return TARGETS[name.lower()]
    except KeyError:
        raise UserError(f"unknown target '{name}': choose one of {', '.join(TARGETS)}") from None


def cores() -> int:
    """Number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> tuple[int, int]:
    """(free, total) bytes that this process may use, respecting a container's limit."""
    values = {}
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            values[line.split(":")[0]] = int(line.split()[1]) << 10
    free, total = values.get("MemAvailable", 0), values.get("MemTotal", 0)
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):
            root = Path("/sys/fs/cgroup")
            most = int((root / limit).read_text())
            if most < total:
                free, total = min(free, most - int((root / used).read_text())), most
    return free, total
