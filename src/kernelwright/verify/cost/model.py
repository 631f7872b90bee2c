"""The hardware-agnostic cost model: the work of a launch, priced by a GPU's data sheet.

Work comes from sampled program instances (`interpret/interpreter.py`, mode `model`), registers and shared memory from
the assembler's report. The price is a soft maximum of DRAM, L2, L1, arithmetic and the dependency chain, plus the
launch. It ranks kernels but does not replace a clock; its output is always labelled `modelled`.

Known gaps: bank conflicts, instruction issue limits, contention of atomics, overlap between launches.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from kernelwright.hardware import Target
from kernelwright.records import Binary, Cost

# Fractions of the sheet's peaks that good kernels reach. All calibration is here.
_DRAM_EFFICIENCY = 0.90
_MATRIX_EFFICIENCY = 0.62
_SPLIT_EFFICIENCY, _SPLIT_CLOCKS, _SPLIT_CLOCKS_AN_OPERAND = 0.70, 170.0, 0.085
"""For `tf32x3`: efficiency of the products; SM clocks for each loop step and for each element fetched and split. Tiles of
128 x 128 x 32 then reach 0.48 of the peak, as 60 library products on an H200 do; tiles of 64 x 16 x 16 a fifth of that
(modelled over measured time of convolutions tap by tap on an H200: 0.3 to 0.9 before, 0.7 to 1.1 since)."""
_VECTOR_EFFICIENCY = 0.50
_INDEX_SHARE = 0.05
_INDEX_WARPS, _INDEX_MOST = 8, 4.0
"""Rate of integer operations on tiles as a share of the float32 peak, with eight warps on an SM; more warps hide latency, up
to four times the rate. The lanes' own rate is a quarter of the peak, but comparisons, selections and wide addresses take
several instructions each. The same schedulers issue products, so the two times add up (modelled over measured time of
convolutions and their transposes, among 446 kernels of KernelBench on an H200: 0.6 to 2.9 before, 0.6 to 1.3 since)."""
_L1_BYTES = 192 * 1024
_L1_BYTES_PER_CLOCK = 40.0
"""Bytes that an SM's load path moves in a clock on strided access, in 32-byte sectors, repeats counted (poolings on an H200:
between 36 and 60; coalesced access reaches 128)."""
_CLOCK_GHZ = 1.7
_L2_REUSE = 1.6
"""Factor on the sheet's L2 bandwidth for re-reads, part of which hit the L1."""
_L2_SHARE = 0.6
"""Share of the L2 that one array can count on keeping."""
_OVERLAP = 4.0
"""Exponent of the soft maximum: larger means better overlap of memory and arithmetic."""
_LOADS_IN_FLIGHT = 4
"""Loads in flight of one warp, which bound the bandwidth it can use."""
_LOADS_AHEAD = 12
"""Memory instructions per latency that a warp waits for: most do not depend on the one before."""


@dataclasses.dataclass(frozen=True)
class Work:
    """One launch, per program instance unless the name says otherwise. Bytes are whole 32-byte sectors."""

    kernel: str
    programs: int
    num_warps: int
    num_stages: int
    unique_bytes: Mapping[str, float]
    """Distinct sectors per argument."""
    sizes: Mapping[str, int]
    """Storage bytes per argument."""
    touched_bytes: float
    steps: float
    """Memory instructions in program order."""
    flops: Mapping[str, float]
    indexed: float = 0.0
    """Integer operations on tiles: addresses and masks."""
    split_products: float = 0.0
    split_operands: float = 0.0
    """Number of float32 matrix products done as three TF32 products, and elements of their operands."""
    loaded_bytes: Mapping[str, float] = dataclasses.field(default_factory=dict)
    stored_bytes: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Bytes read and written by unmasked lanes, per argument."""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Work:
        """Raises ValueError or TypeError on anything that is not a finite, non-negative number."""
        work = Work(
            kernel=str(data["kernel"])[:200],
            programs=int(data["programs"]),
            num_warps=int(data["num_warps"]),
            num_stages=int(data["num_stages"]),
            unique_bytes={str(k): float(v) for k, v in dict(data["unique_bytes"]).items()},
            sizes={str(k): int(v) for k, v in dict(data["sizes"]).items()},
            touched_bytes=float(data["touched_bytes"]),
            steps=float(data["steps"]),
            flops={str(k): float(v) for k, v in dict(data["flops"]).items()},
            indexed=float(data["indexed"]),
            split_products=float(data["split_products"]),
            split_operands=float(data["split_operands"]),
            loaded_bytes={str(k): float(v) for k, v in dict(data["loaded_bytes"]).items()},
            stored_bytes={str(k): float(v) for k, v in dict(data["stored_bytes"]).items()},
        )
        numbers = [
            *(work.programs, work.num_stages, work.touched_bytes, work.steps),
            *(work.indexed, work.split_products, work.split_operands),
        ]
        for amounts in (work.unique_bytes, work.sizes, work.flops, work.loaded_bytes, work.stored_bytes):
            numbers += amounts.values()
        sound = all(math.isfinite(number) and number >= 0 for number in numbers)
        if not sound or not 1 <= work.num_warps <= 64:
            raise ValueError("work is not finite")
        return work


@dataclasses.dataclass(frozen=True)
class Price:
    """One launch on one target: milliseconds, traffic and operations."""

    ms: float
    dram_bytes: float
    l2_bytes: float
    flops: float


def price(work: Work, target: Target, binary: Binary | None = None) -> Price:
    """Modelled time of one launch. Without a binary, a register count of 64 and no shared memory are assumed."""
    registers, shared, spills = (
        (binary.registers, binary.shared_bytes, binary.spills) if binary else (64, 0, 0)
    )
    _, blocks = target.occupancy(registers, shared, work.num_warps)
    blocks = max(blocks, 1)
    slots = target.sms * blocks
    programs = max(work.programs, 1)
    resident = min(programs, slots)
    waves = math.ceil(programs / slots)
    per_program = sum(work.unique_bytes.values())
    rereads = max(0.0, work.touched_bytes - per_program)

    dram, held = 0.0, _L2_SHARE * target.l2_bytes
    for name, unique in work.unique_bytes.items():
        total, size = unique * programs, float(work.sizes.get(name, unique * programs))
        size = min(max(size, 32.0), total)
        missed = max(0.0, 1.0 - held / size) * 0.15
        dram += size + (total - size) * missed
    if _together(work, resident) > held:
        dram += rereads * programs * _of_large(work, held)
    fits_l1 = _together(work, blocks) <= _L1_BYTES
    l2 = programs * (per_program if fits_l1 else per_program + rereads)
    lanes = work.num_warps * target.warp_size
    l2 += 2.0 * spills * lanes * programs * max(1.0, work.steps / 4)
    if resident * spills * lanes > held:
        dram += 2.0 * spills * lanes * programs

    latency_s = target.latency_ns * 1e-9
    bytes_per_step = work.touched_bytes / max(work.steps, 1.0)
    in_flight = resident * bytes_per_step * min(max(work.steps, 1.0), _LOADS_IN_FLIGHT)
    bandwidth = min(target.dram_gb_s * 1e9 * _DRAM_EFFICIENCY, max(in_flight, 32.0) / latency_s)

    balance = programs / (math.ceil(programs / target.sms) * target.sms)
    arithmetic = 0.0
    for unit, operations in work.flops.items():
        rate = target.peak_tflops.get(unit, target.fp32_tflops) * 1e12
        arithmetic += operations * programs / (rate * _efficiency(unit) * balance)
    splitting = _SPLIT_CLOCKS * work.split_products + _SPLIT_CLOCKS_AN_OPERAND * work.split_operands
    arithmetic += splitting * programs / (target.sms * _CLOCK_GHZ * 1e9 * balance)
    warps = min(blocks, math.ceil(programs / target.sms)) * work.num_warps
    indexing = _INDEX_SHARE * min(max(warps / _INDEX_WARPS, 0.5), _INDEX_MOST)
    arithmetic += work.indexed * programs / (target.fp32_tflops * 1e12 * indexing * balance)
    chain = waves * latency_s * (1.0 + work.steps / _LOADS_AHEAD)

    l1 = work.touched_bytes * programs / (target.sms * _L1_BYTES_PER_CLOCK * _CLOCK_GHZ * 1e9)
    parts = (dram / bandwidth, l2 / (target.l2_gb_s * _L2_REUSE * 1e9), l1, arithmetic, chain)
    busy = sum(part**_OVERLAP for part in parts) ** (1.0 / _OVERLAP)
    ms, flops = 1e3 * busy + 1e-3 * target.launch_us, sum(work.flops.values()) * programs
    return Price(ms=ms, dram_bytes=dram, l2_bytes=l2, flops=flops)


def _together(work: Work, programs: int) -> float:
    """Bytes that so many programs use, at most an array's size for each array, which they may share."""
    return sum(
        min(unique * programs, max(float(work.sizes.get(name, math.inf)), unique))
        for name, unique in work.unique_bytes.items()
    )


def _of_large(work: Work, held: float) -> float:
    """The share of a program's re-reads that go to arrays larger than `held`, the part of the L2 they may keep."""
    again = {
        name: max(0.0, work.loaded_bytes.get(name, 0.0) - unique)
        for name, unique in work.unique_bytes.items()
    }
    total = sum(again.values())
    large = sum(more for name, more in again.items() if work.sizes.get(name, math.inf) > held)
    return large / total if total else 1.0


def _efficiency(unit: str) -> float:
    if unit in ("float32", "float64"):
        return _VECTOR_EFFICIENCY
    return _SPLIT_EFFICIENCY if unit == "tf32x3" else _MATRIX_EFFICIENCY


def total_cost(
    works: Sequence[Work], binaries: Mapping[str, Binary], target: Target, roofline_ms: float
) -> Cost:
    """The modelled cost of one forward pass, launch after launch."""
    prices = [price(work, target, binaries.get(work.kernel)) for work in works]
    return Cost(
        target=target.name,
        bytes=sum(item.dram_bytes for item in prices),
        l2_bytes=sum(item.l2_bytes for item in prices),
        flops=sum(item.flops for item in prices),
        launches=len(works),
        ms=max(sum(item.ms for item in prices), 1e-6),
        roofline_ms=roofline_ms,
    )


def roofline_ms(min_bytes: float, flops: Mapping[str, float], target: Target) -> float:
    """Least milliseconds that the sheet allows: each byte once at full bandwidth, each operation at its unit's peak."""
    memory = min_bytes / (target.dram_gb_s * 1e9)
    compute = sum(
        count / (target.peak_tflops.get(unit, target.fp32_tflops) * 1e12) for unit, count in flops.items()
    )
    return 1e3 * max(memory, compute)
