"""Runs our own kernels in Triton's interpreter, in a separate process, since TRITON_INTERPRET must be set before kernels are
defined. That process imports torch and Triton once and forks for each script."""

import atexit
import contextlib
import functools
import io
import json
import os
import subprocess
import sys
import traceback
from typing import Any, BinaryIO

from kernelwright.children import run_forked, serve


def said(script: str, timeout: float = 120.0) -> tuple[str, str]:
    """(stdout, end of the traceback) of the script."""
    process = _server()
    process.stdin.write(json.dumps([script, timeout]) + "\n")
    process.stdin.flush()
    printed, wrong = json.loads(process.stdout.readline())
    return printed, wrong


@functools.cache
def _server() -> Any:
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, __file__], **pipes, text=True, env=environment)  # type: ignore[call-overload]
    atexit.register(process.kill)
    return process


def _answer(question: tuple[str, float]) -> list[str]:
    script, seconds = question

    def run(out: BinaryIO) -> None:
        printed, wrong = io.StringIO(), ""
        try:
            with contextlib.redirect_stdout(printed):
                exec(script, {"__name__": "__main__"})
        except BaseException:
            wrong = traceback.format_exc()[-2000:]
        out.write(json.dumps([printed.getvalue().strip(), wrong]).encode())

    ended = run_forked(run, seconds)
    return json.loads(ended.data) if ended.data else ["", f"it ended with {ended.status}"]


if __name__ == "__main__":
    import torch
    import triton.language  # noqa: F401

    torch.set_num_threads(1)
    serve(_answer)
