"""Formats a verdict in a few lines that a model can learn from: what went wrong, or where the time goes.

Contains only findings about the candidate; seeds and expected tensors stay with the judge (for a wrong value, one got /
expected pair is shown). At most `LIMIT` characters.
"""

import tomllib
from pathlib import Path

from kernelwright.records import Verdict

LIMIT = 800
_DETAIL = 400

_FIX = tomllib.loads(Path(__file__).with_name("fixes.toml").read_text("utf-8"))
"""One hint per outcome, for every failure with a fair verdict."""


def feedback(verdict: Verdict) -> str:
    """The verifier's findings, for a repair prompt. Empty for a correct candidate or without a fair verdict."""
    if verdict.correct or not verdict.outcome.judged:
        return ""
    lines = [f"{verdict.outcome.value}: {_clip(verdict.detail)}".rstrip(": ")]
    wrong = verdict.evidence.mismatch
    if wrong is not None and "expected" not in verdict.detail:
        index = ", ".join(map(str, wrong.index))
        lines.append(
            f"output {wrong.output} at [{index}]: got {wrong.got:.6g}, expected {wrong.expected:.6g}; "
            f"{100 * wrong.wrong_share:.2g} % of its elements are wrong"
        )
    where = verdict.evidence.where
    if where and where not in verdict.detail:
        lines.append(f"case: {where}")
    hint = f"\nfix: {_FIX[verdict.outcome]}"
    return "\n".join(lines)[: LIMIT - len(hint)] + hint


def profile(verdict: Verdict) -> str:
    """Where a correct kernel's time goes, for an improvement prompt. Empty if nothing is known.

    Times are in ms and marked as modelled or measured.
    """
    if not verdict.correct:
        return ""
    lines = []
    timing, evidence = verdict.timing, verdict.evidence
    if timing is not None:
        speedups = ", ".join(f"{timing.speedup(name):.2f}x {name}" for name in sorted(timing.baseline_ms))
        line = f"time: {timing.candidate_ms:.4g} ms {timing.kind} on {timing.target}; {speedups}"
        if timing.roofline_fraction is not None:
            line += f"; {timing.roofline_fraction:.0%} of the roofline"
        if timing.gb_s is not None:
            line += f"; {timing.gb_s:.4g} GB/s"
        if timing.gflop_s is not None:
            line += f", {timing.gflop_s:.4g} GFLOP/s"
        lines.append(line)
    if evidence.cost is not None:
        launches = evidence.cost.launches
        line = f"moved: {size(evidence.cost.bytes)} in {launches} launch{'es' * (launches != 1)}"
        if evidence.reference_cost is not None:
            line += (
                f" (reference: {size(evidence.reference_cost.bytes)} in {evidence.reference_cost.launches})"
            )
        lines.append(line)
    for binary in evidence.binaries[:4]:
        lines.append(
            f"{binary.kernel}: {binary.num_warps} warps, {binary.registers} registers, {binary.spills} B spilled, "
            f"{size(binary.shared_bytes)} shared, occupancy {binary.occupancy:.2f}"
        )
    return "\n".join(lines)[:LIMIT]


def _clip(detail: str) -> str:
    text = "\n".join(line.rstrip() for line in detail.splitlines() if line.strip()).strip()
    return text if len(text) <= _DETAIL else text[: _DETAIL - 4].rstrip() + " ..."


def size(count: float) -> str:
    """Bytes with a decimal prefix."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
