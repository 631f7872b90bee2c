"""Runs our own kernels in Triton's interpreter, in a separate process, since TRITON_INTERPRET must be set before kernels are
defined."""

import os
import subprocess
import sys


def said(script: str, timeout: float = 120.0) -> tuple[str, str]:
    """(stdout, end of stderr) of the script."""
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=timeout
    )
    return done.stdout.strip(), done.stderr[-2000:]
