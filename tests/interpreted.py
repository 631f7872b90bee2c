"""Kernels of our own, run by Triton's interpreter: in a process of its own, for they are interpreted only where that is asked
for before they are defined."""

import os
import subprocess
import sys


def said(script: str, timeout: float = 120.0) -> tuple[str, str]:
    """What the script prints, and the end of what went wrong."""
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=timeout
    )
    return done.stdout.strip(), done.stderr[-2000:]
