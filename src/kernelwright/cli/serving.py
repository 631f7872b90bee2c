"""`kernelwright serve` and `kernelwright mcp`: the judge behind HTTP, and as tools for agents."""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import Annotated

import typer

from kernelwright.cli import options
from kernelwright.errors import UserError
from kernelwright.verify.remote import TOKEN_VARIABLE


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any free one.", min=0, max=65535)] = 8040,
    suite: options.Suites = None,
    token: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Token that clients must send; several allowed. Default: ${TOKEN_VARIABLE}, separated by commas."
        ),
    ] = None,
    backend: options.Backend = "auto",
    protocol: options.OneProtocol = "strict",
    target: options.Target = "h200",
    workers: options.Workers = 0,
    deadline_s: Annotated[
        float, typer.Option("--deadline-s", help="Seconds that a verdict may take.", min=1)
    ] = 30.0,
    queue: Annotated[int, typer.Option(help="Requests at once; more get 429.", min=1)] = 256,
    per_token: Annotated[int, typer.Option("--per-token", help="The same for each token.", min=1)] = 128,
    largest_body: Annotated[int, typer.Option("--largest-body", help="Bytes per request.", min=1024)] = 4
    << 20,
    store: options.Store = None,
    allow_source: options.AllowSource = False,
) -> int:
    """Judge candidates over HTTP until Ctrl-C. See /docs on the server for its routes."""
    try:
        import uvicorn

        from kernelwright.serve.app import Settings, create_app
    except ImportError as error:
        raise UserError(f"serve needs {error.name}: pip install 'kernelwright[serve]'") from None
    from kernelwright.tasks import load_suite
    from kernelwright.verify import opened

    tokens = tuple(token or [one for one in os.environ.get(TOKEN_VARIABLE, "").split(",") if one])
    if not tokens and not _is_local(host):
        raise UserError(f"--host {host} can be reached by others: give --token, or listen on 127.0.0.1")
    tasks = [task for spec in suite or ["wright"] for task in load_suite(spec)]
    listening = _listen(host, port)
    with opened.judge(None, backend, protocol, target, workers, deadline_s) as pool:
        settings = Settings(
            tokens=tokens,
            queue=queue,
            per_token=per_token,
            largest_body=largest_body,
            allow_source=allow_source,
            store=str(store) if store else ":memory:",
            judge={"protocol": protocol, "backend": pool.backend, "target": target},
        )
        app = create_app(pool, tasks, settings)
        address = "http://{}:{}".format(*listening.getsockname()[:2])
        print(
            f"judging on {address} ({pool.backend}, {protocol}, {len(tasks)} tasks); Ctrl-C ends it",
            flush=True,
        )
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5)
        uvicorn.Server(config).run(sockets=[listening])
    return 0


def mcp(
    judge: Annotated[
        str, typer.Option("--judge", help="Judge on these servers: http://HOST:PORT, with commas.")
    ] = "",
    backend: options.Backend = "auto",
    target: options.Target = "h200",
) -> int:
    """Tools for coding agents over stdio: verify, profile, compare, optimise, tasks."""
    try:
        from kernelwright.serve.tools import create_server
    except ImportError as error:
        raise UserError(f"mcp needs {error.name}: pip install 'kernelwright[mcp]'") from None
    from kernelwright.cli import read
    from kernelwright.verify import opened

    with opened.judge_at(judge, None, backend, "strict", target) as pool:
        create_server(pool, read.one_task).run("stdio")
    return 0


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    """A bound socket. Raises UserError for a port in use or an address that is not local."""
    # The protocol is given as TCP, so that asyncio disables Nagle's delay of 40 ms.
    made = socket.socket(
        socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(256)
        return made
    except OSError as error:
        made.close()
        raise UserError(
            f"cannot listen on {host}:{port} ({error.strerror}): choose another --port, or --port 0 for a free one"
        ) from None
