"""Rewards for ablations only (`rewards.py`), each a preset of `kernelwright.rewards` with one change."""

from kernelwright import rewards
from kernelwright.records import Verdict


def toronto_frontend(verdict: Verdict) -> tuple[float, float]:
    """`toronto-frontend` with 0 instead of -10 for a failure."""
    return rewards.toronto_frontend(verdict) if verdict.correct else (0.0, 0.0)


def toronto_midend(verdict: Verdict) -> tuple[float, float]:
    """`toronto-midend` with 0 instead of -10 for a failure."""
    return rewards.toronto_midend(verdict) if verdict.correct else (0.0, 0.0)


def wright(verdict: Verdict) -> tuple[float, float]:
    """`wright` without its rules: any failure gets -1, whether there is no Triton at all or only the last digit is wrong."""
    return rewards.wright(verdict) if verdict.correct else (-1.0, -1.0)
