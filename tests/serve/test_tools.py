"""An MCP client gets the same verdict as the command line."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from kernelwright.cli.read import one_task
from kernelwright.policy.gold import gold
from kernelwright.serve.tools import create_server
from kernelwright.verify import VerifierPool
from serve.conftest import FakePool


def call(server: Any, tool: str, **arguments: Any) -> str:
    async def ask() -> str:
        async with Client(server) as client:
            answer = await client.call_tool(tool, arguments)
            return "".join(part.text for part in answer.content)

    return asyncio.run(ask())


def test_the_tools_say_what_they_take() -> None:
    async def names() -> list[str]:
        async with Client(create_server(FakePool(), one_task)) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    assert asyncio.run(names()) == ["verify", "profile", "compare", "optimise", "tasks"]


def test_verify_gives_the_verdict_of_the_pool() -> None:
    with VerifierPool(1, backend="interpret", kept=True) as pool:
        server = create_server(pool, one_task)
        right = call(server, "verify", task="wright/relu", kernel=gold("wright/relu"))
        wrong = call(server, "verify", task="wright/relu", kernel="import torch\nx = 1\n")
        ranked = call(server, "compare", task="wright/relu", kernels=["import torch\n", gold("wright/relu")])
    assert json.loads(right.splitlines()[-1])["accepted"] is True
    assert json.loads(wrong.splitlines()[-1])["outcome"] == "not_triton"
    assert ranked.splitlines()[0].startswith("kernel 2: correct")


def test_a_wrong_name_is_an_answer(tmp_path: Path) -> None:
    server = create_server(FakePool(), one_task)
    assert "error: " in call(server, "verify", task="wright/rleu", kernel="x")
    assert "check the path" in call(server, "verify", task="wright/relu", kernel=str(tmp_path / "no.py"))
    assert "wright/relu" in call(server, "tasks", suite="wright/activation")


@pytest.mark.slow
def test_an_agent_starts_it_over_stdio() -> None:
    arguments = ["-m", "kernelwright", "mcp", "--backend", "interpret"]
    command = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    said = call(command, "verify", task="wright/relu", kernel=gold("wright/relu"))
    assert '"accepted": true' in said
