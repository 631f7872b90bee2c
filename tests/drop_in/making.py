"""Drop-ins for tests: the graph's own ATen calls replace kernels, and count their runs."""

from typing import Any

import torch
from torch import Tensor, nn

from kernelwright.drop_in import VerifiedModule, drop_in, loaded, versions
from kernelwright.graph.capture import capture
from kernelwright.graph.partition import partition
from kernelwright.graph.stitch import stitch
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Verdict

OFFSET = 3.0


class Config:
    def __init__(self) -> None:
        self.scale = 0.5
        self.flags = ["a", {"b": 1}]


class Block(nn.Module):
    """Linear, norm and a factor from a configuration object."""

    def __init__(self, dim: int = 8) -> None:
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.inner = nn.Sequential(nn.Linear(dim, dim), nn.SiLU())
        self.norm = nn.LayerNorm(dim)
        self.factor, self.config = 2.0, Config()
        self.table = torch.linspace(0, 1, dim)
        self.register_buffer("shift", torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.norm(self.inner(self.proj(x))) * self.factor * self.config.scale
        return made + self.table + self.shift


class Several(nn.Module):
    """Keywords in, a dictionary out."""

    def forward(self, x: Tensor, *, y: Tensor | None = None, add: float = 1.0) -> dict[str, Any]:
        return {"sum": x + add, "both": (x * 2, x if y is None else x + y)}


def verified(module: nn.Module, captured: Any, code: str = "") -> VerifiedModule:
    graph = captured.graph
    return VerifiedModule(
        name=type(module).__name__,
        graph=graph,
        code=code or stitch(partition(graph), {}),
        verdict=Verdict(task_id="t", outcome=Outcome.CORRECT, gate=Gate.TIMING),
        arch="90",
        versions=versions(),
    )


def made(module: nn.Module, *args: Any, code: str = "", **kwargs: Any) -> Any:
    """A drop-in for calls like this one."""
    captured = capture(module, args, kwargs)
    part, roles = captured.part, {one.name: one.role for one in captured.graph.arguments}
    constants = {name: value for name, value in part.values.items() if roles[name] == "constant"}
    return drop_in(module, verified(module, captured, code), captured.part.call, constants)


def counted(fast: Any) -> list[int]:
    """A list that grows by one with each run of the kernels."""
    runs: list[int] = []
    run = loaded(fast.kernel)

    def counting(*args: Any) -> Any:
        runs.append(1)
        return run(*args)

    fast._kernelwright._run = counting
    return runs
