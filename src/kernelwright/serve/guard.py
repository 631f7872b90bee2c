"""Checks a request's token and the size of its body before anything is parsed.

Plain ASGI, so that we count a body's bytes as they arrive. Tokens are compared in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN_PATHS = ("/v1/health",)
"""Paths that need no token: load balancers ask for them."""


class Guard:
    """`tokens`: accepted tokens; if none, everybody is. `largest`: most bytes of a body."""

    def __init__(self, app: ASGIApp, tokens: Sequence[str], largest: int) -> None:
        self._app, self._largest = app, largest
        self._tokens = tuple(token.encode() for token in tokens)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = dict(scope["headers"])
        caller = self._caller(headers.get(b"authorization", b""))
        if caller is None and scope["path"] not in OPEN_PATHS:
            return await _refuse(send, 401, "no or wrong token: send `Authorization: Bearer TOKEN`")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._largest:
            return await _refuse(send, 413, self._too_large())
        scope.setdefault("state", {})["caller"] = caller or ""
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._largest:
                raise HTTPException(413, self._too_large())
            return message

        await self._app(scope, counted, send)

    def _too_large(self) -> str:
        return f"the body is larger than {self._largest} bytes: send less at once"

    def _caller(self, header: bytes) -> str | None:
        """A short name for the request's token; None if the request is refused."""
        if not self._tokens:
            return "anybody"
        scheme, _, given = header.partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        for token in self._tokens:
            if hmac.compare_digest(token, given.strip()):
                return hashlib.sha256(token).hexdigest()[:8]
        return None


async def _refuse(send: Send, status: int, detail: str) -> None:
    body = json.dumps({"detail": detail}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 413:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
