"""Rewards that only ablations pay (`rewards.py`), each a preset of `kernelwright.rewards` with one thing changed."""

from kernelwright import rewards
from kernelwright.records import Verdict


def toronto_frontend(verdict: Verdict) -> tuple[float, float]:
    """`toronto-frontend` with 0 for a failure in place of -10."""
    return rewards.toronto_frontend(verdict) if verdict.correct else (0.0, 0.0)


def toronto_midend(verdict: Verdict) -> tuple[float, float]:
    """`toronto-midend` with 0 for a failure in place of -10."""
    return rewards.toronto_midend(verdict) if verdict.correct else (0.0, 0.0)


def wright(verdict: Verdict) -> tuple[float, float]:
    """`wright` without its rules: whatever is not right is paid -1, be it no Triton at all or a last digit."""
    return rewards.wright(verdict) if verdict.correct else (-1.0, -1.0)
