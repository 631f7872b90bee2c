"""What each target GPU can do: the sheet that the cost model prices against.

Rates are the vendors' dense peak figures, not measurements; `launch_us` and `latency_ns` are typical
values that the calibration of the cost model may replace.
"""

from pydantic import BaseModel, ConfigDict

from kernelwright.errors import UserError

MOST_THREADS = 1024
"""Of a program, on any target."""


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
    """Bytes of shared memory that blocks of one SM may hold together."""
    shared_per_block: int
    """Most bytes one block may ask for (opt-in limit)."""
    threads_per_sm: int
    blocks_per_sm: int
    launch_us: float
    """Device-side gap between two dependent launches of one stream, in microseconds."""
    latency_ns: float
    """DRAM latency seen by one warp, in nanoseconds."""
    source: str

    @property
    def peak_tflops(self) -> dict[str, float]:
        """Rate by the dtype of the operands of a `dot` (`float32` is IEEE, `tf32` the matrix units, `tf32x3` three products
        there for one)."""
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


_HOPPER = {
    "vendor": "nvidia",
    "backend": "cuda",
    "arch": "90",
    "warp_size": 32,
    "sms": 132,
    "fp32_tflops": 66.9,
    "tf32_tflops": 494.7,
    "bf16_tflops": 989.4,
    "fp64_tflops": 33.5,
    "registers_per_sm": 65536,
    "shared_per_sm": 233472,
    "shared_per_block": 232448,
    "threads_per_sm": 2048,
    "blocks_per_sm": 32,
    "l2_bytes": 50 * 2**20,
    "l2_gb_s": 5500.0,
    "launch_us": 2.0,
    "latency_ns": 650.0,
}

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            name="h200",
            dram_gb_s=4800.0,
            source="NVIDIA H200 Tensor Core GPU datasheet (2024), SXM; per-SM limits: CUDA C Programming Guide, "
            "compute capability 9.0; L2 rate and latency: microbenchmarks of Hopper in the literature",
            **_HOPPER,
        ),
        Target(
            name="h100",
            dram_gb_s=3350.0,
            source="NVIDIA H100 Tensor Core GPU datasheet (2023), SXM5; per-SM limits: CUDA C Programming Guide, "
            "compute capability 9.0",
            **_HOPPER,
        ),
        Target(
            name="a100",
            vendor="nvidia",
            backend="cuda",
            arch="80",
            warp_size=32,
            sms=108,
            dram_gb_s=2039.0,
            l2_gb_s=4500.0,
            l2_bytes=40 * 2**20,
            fp32_tflops=19.5,
            tf32_tflops=156.0,
            bf16_tflops=312.0,
            fp64_tflops=9.7,
            registers_per_sm=65536,
            shared_per_sm=167936,
            shared_per_block=166912,
            threads_per_sm=2048,
            blocks_per_sm=32,
            launch_us=2.5,
            latency_ns=600.0,
            source="NVIDIA A100 80GB datasheet (2021), SXM4; per-SM limits: CUDA C Programming Guide, "
            "compute capability 8.0",
        ),
        Target(
            name="b200",
            vendor="nvidia",
            backend="cuda",
            arch="100",
            warp_size=32,
            sms=148,
            dram_gb_s=8000.0,
            l2_gb_s=9000.0,
            l2_bytes=126 * 2**20,
            fp32_tflops=80.0,
            tf32_tflops=1100.0,
            bf16_tflops=2250.0,
            fp64_tflops=40.0,
            registers_per_sm=65536,
            shared_per_sm=233472,
            shared_per_block=232448,
            threads_per_sm=2048,
            blocks_per_sm=32,
            launch_us=2.0,
            latency_ns=800.0,
            source="NVIDIA DGX B200 datasheet (2024), per GPU, dense; per-SM limits: CUDA C Programming Guide, compute "
            "capability 10.0; L2 size, its rate and latency: microbenchmarks in the literature",
        ),
        Target(
            name="l40s",
            vendor="nvidia",
            backend="cuda",
            arch="89",
            warp_size=32,
            sms=142,
            dram_gb_s=864.0,
            l2_gb_s=4500.0,
            l2_bytes=96 * 2**20,
            fp32_tflops=91.6,
            tf32_tflops=183.0,
            bf16_tflops=362.0,
            fp64_tflops=1.43,
            registers_per_sm=65536,
            shared_per_sm=102400,
            shared_per_block=101376,
            threads_per_sm=1536,
            blocks_per_sm=24,
            launch_us=2.5,
            latency_ns=600.0,
            source="NVIDIA L40S datasheet (2023), dense; per-SM limits: CUDA C Programming Guide, compute capability 8.9; "
            "L2 size: NVIDIA Ada GPU architecture whitepaper; its rate: microbenchmarks of AD102 in the literature",
        ),
        Target(
            name="mi300x",
            vendor="amd",
            backend="hip",
            arch="gfx942",
            warp_size=64,
            sms=304,
            dram_gb_s=5300.0,
            l2_gb_s=10000.0,
            l2_bytes=256 * 2**20,
            fp32_tflops=163.4,
            tf32_tflops=653.7,
            bf16_tflops=1307.4,
            fp64_tflops=81.7,
            registers_per_sm=131072,
            shared_per_sm=65536,
            shared_per_block=65536,
            threads_per_sm=2048,
            blocks_per_sm=32,
            launch_us=4.0,
            latency_ns=800.0,
            source="AMD Instinct MI300X data sheet (2023); the 256 MiB cache is the Infinity Cache; "
            "per-CU limits: CDNA 3 ISA guide",
        ),
    )
}


def target(name: str) -> Target:
    """The sheet of a target, by name. Raises UserError for an unknown one."""
    try:
        return TARGETS[name.lower()]
    except KeyError:
        raise UserError(f"unknown target '{name}': choose one of {', '.join(TARGETS)}") from None


def target_here() -> str:
    """The sheet of this machine's first GPU, by its name; "h200" where there is none or another."""
    import torch

    name = torch.cuda.get_device_name().lower() if torch.cuda.is_available() else ""
    return next((one for one in TARGETS if one in name), "h200")
