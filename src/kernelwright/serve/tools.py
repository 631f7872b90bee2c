"""The judge as tools for coding agents, over MCP (stdio): verify, profile, compare, optimise, tasks.

    kernelwright mcp                       # in an agent's configuration: command `kernelwright`, arguments `mcp`
    kernelwright mcp --judge http://...    # judged by servers

Answers are text that a model can act on, and the verdict as JSON. Kernels run in the pool's confined processes. A task
given as Python is the user's own reference and is executed, as in `kernelwright verify --task FILE`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mcp.server import MCPServer

from kernelwright import __version__
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.prompts import feedback, profile
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.rollouts import Verifier
from kernelwright.tasks import load_suite

T = TypeVar("T")
_INSTRUCTIONS = (
    "Judges Triton kernels. A kernel file defines class ModelNew(nn.Module) with @triton.jit kernels that do all of the "
    "work; a task is a built-in name (see tasks) or a .py file with class Model, get_inputs and get_init_inputs. "
    "Call verify after every change, profile on what is correct, compare to choose."
)


class Tools:
    """The tools that agents can call; their docstrings are the descriptions that agents see."""

    def __init__(self, verifier: Verifier, read_task: Callable[[str], Task]) -> None:
        self._verifier, self._read_task = verifier, read_task

    async def _judge(self, task: str, kernel: str) -> Verdict:
        candidate = Candidate(code=_code(kernel))
        found = await asyncio.to_thread(self._read_task, task)
        return await asyncio.to_thread(lambda: self._verifier.submit(found, candidate).result())

    async def verify(self, task: str, kernel: str) -> str:
        """Judge a kernel: is it right, honest and fast?

        Args:
            task: A built-in name such as wright/rmsnorm, or the path of a .py task.
            kernel: The kernel file's text, or its path.
        """
        return await _answer(
            self._judge(task, kernel), lambda v: f"{feedback(v) or 'accepted'}\n{_as_json(v)}"
        )

    async def profile(self, task: str, kernel: str) -> str:
        """Where a correct kernel's time goes: bytes, operations, launches, occupancy, share of the roofline.

        Args:
            task: As for verify.
            kernel: As for verify.
        """
        return await _answer(self._judge(task, kernel), lambda v: profile(v) if v.correct else feedback(v))

    async def compare(self, task: str, kernels: list[str]) -> str:
        """Judge several kernels for one task and list them, the fastest correct one first.

        Args:
            task: As for verify.
            kernels: Texts or paths of kernel files.
        """
        return await _answer(asyncio.gather(*(self._judge(task, kernel) for kernel in kernels)), _rank)

    async def optimise(self, task: str, seconds: float = 45.0) -> str:
        """Search for a fast verified kernel with the package's own ladder. Returns its code and verdict.

        Args:
            task: As for verify.
            seconds: How long to search.
        """
        return await _search(task, seconds)

    async def tasks(self, suite: str = "wright") -> str:
        """Names of the tasks of a suite, with their families.

        Args:
            suite: wright, wright/norm, a path, ...
        """
        found = asyncio.to_thread(load_suite, suite)
        return await _answer(found, lambda listed: "\n".join(f"{task.id}  {task.family}" for task in listed))


def create_server(verifier: Verifier, read_task: Callable[[str], Task]) -> MCPServer[Any]:
    """The MCP server around a judge. `read_task` turns a name or a path into a task with small sizes."""
    tools = Tools(verifier, read_task)
    server: MCPServer[Any] = MCPServer(
        "kernelwright", version=__version__, instructions=_INSTRUCTIONS, log_level="ERROR"
    )
    for tool in (tools.verify, tools.profile, tools.compare, tools.optimise, tools.tasks):
        server.add_tool(tool)
    return server


async def _search(task: str, seconds: float) -> str:
    """Run `kernelwright optimize` on a task in a separate process; returns its kernel file."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "kernel.py"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kernelwright", "optimize", task, "-o", str(out), "--seconds", str(seconds)),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, complaint = await process.communicate()
        if process.returncode or not out.exists():
            return f"no kernel: {complaint.decode(errors='replace').strip()[-600:] or 'none was verified'}"
        return out.read_text(encoding="utf-8")


async def _answer(answer: Awaitable[T], word: Callable[[T], str]) -> str:
    """The result in words; user and judge errors become an answer, not a crash."""
    try:
        return word(await answer)
    except (UserError, InfrastructureError) as error:
        return f"error: {error}"


def _code(kernel: str) -> str:
    """A kernel given as text, or as the path of a file."""
    if "\n" in kernel or not kernel.endswith(".py"):
        return kernel
    try:
        return Path(kernel).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{kernel}: cannot be read ({type(error).__name__}); check the path") from None


def _as_json(verdict: Verdict) -> str:
    return json.dumps(
        {
            "outcome": verdict.outcome.value,
            "accepted": verdict.correct,
            "gate": verdict.gate.value,
            "detail": verdict.detail,
            "speedup": verdict.speedup(),
        }
    )


def _rank(verdicts: Sequence[Verdict]) -> str:
    order = sorted(
        range(len(verdicts)), key=lambda i: (not verdicts[i].correct, -(verdicts[i].speedup() or 0.0))
    )
    lines = []
    for index in order:
        verdict = verdicts[index]
        gain = f"{verdict.speedup():.2f}x eager" if verdict.speedup() else verdict.detail[:120]
        lines.append(f"kernel {index + 1}: {verdict.outcome.value}  {gain}")
    return "\n".join(lines)
