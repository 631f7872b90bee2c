"""Messages between judge and worker: a JSON header and raw tensor bytes, length-prefixed, nothing executable.

There is no pickle in either direction, so a forged message is at worst a wrong answer or a malformed one. Every size is
checked against a limit, and we allocate memory for bytes received, not for bytes announced. The socket's timeout
applies to a whole message: a peer that sends slowly gets no more time than a silent one.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from typing import Any

import torch

from kernelwright.verify.structures import names_of

_HEAD = struct.Struct("!4sIQ")
_MAGIC = b"KWv1"
MAX_HEADER = 64 << 20
"""Bytes of a message's header: seven traces of a network with a thousand launches have some ten million."""
MAX_PAYLOAD = 2 << 30
_CHUNK = 1 << 20

DTYPES: dict[str, torch.dtype] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int16, torch.int32,
        torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool, torch.complex64,
        torch.float8_e4m3fn, torch.float8_e5m2,
    )
}  # fmt: skip


class ChannelError(Exception):
    """The peer's bytes are not a message."""


class ChannelClosed(ChannelError):
    """The peer closed the connection, or sent nothing before the deadline."""


def tensor_bytes(tensor: torch.Tensor) -> bytes:
    """The elements of a tensor in row-major order."""
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def send(sock: socket.socket, body: dict[str, object], tensors: list[torch.Tensor] | None = None) -> None:
    """Write one message. `body` must be plain JSON data."""
    blobs = [tensor_bytes(tensor) for tensor in tensors or []]
    described = [
        {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape)}
        for tensor in tensors or []
    ]
    header = json.dumps({"body": body, "tensors": described}).encode()
    head = _HEAD.pack(_MAGIC, len(header), sum(map(len, blobs)))
    try:
        sock.sendall(b"".join([head, header, *blobs]))  # one timeout for the whole message
    except OSError as error:
        raise ChannelClosed(str(error)) from None


def receive(
    sock: socket.socket, max_payload: int = MAX_PAYLOAD
) -> tuple[dict[str, object], list[torch.Tensor]]:
    """Read one message. Raises ChannelClosed on timeout or EOF, ChannelError on anything that is not a message."""
    limit = sock.gettimeout()
    deadline = None if limit is None else time.monotonic() + limit
    try:
        return _receive(sock, max_payload, deadline)
    finally:
        if deadline is not None:
            sock.settimeout(limit)


def _receive(
    sock: socket.socket, max_payload: int, deadline: float | None
) -> tuple[dict[str, object], list[torch.Tensor]]:
    magic, header_size, payload_size = _HEAD.unpack(_exactly(sock, _HEAD.size, deadline))
    if magic != _MAGIC or header_size > MAX_HEADER or payload_size > max_payload:
        raise ChannelError("bad frame")
    try:
        header = json.loads(_exactly(sock, header_size, deadline))
        body, described = header["body"], header["tensors"]
        shapes = [tuple(int(extent) for extent in item["shape"]) for item in described]
        dtypes = [DTYPES[item["dtype"]] for item in described]
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise ChannelError(f"bad header: {type(error).__name__}") from None
    if not isinstance(body, dict) or any(extent < 0 for shape in shapes for extent in shape):
        raise ChannelError("bad header: form")
    sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in zip(shapes, dtypes, strict=True)]
    if sum(sizes) != payload_size:
        raise ChannelError("payload size does not match the header")
    tensors = []
    for shape, dtype, size in zip(shapes, dtypes, sizes, strict=True):
        raw = _exactly(sock, size, deadline)
        flat = torch.frombuffer(raw, dtype=torch.uint8).view(dtype) if size else torch.empty(0, dtype=dtype)
        tensors.append(flat.reshape(shape))
    return body, tensors


def _exactly(sock: socket.socket, count: int, deadline: float | None) -> bytearray:
    data, done = bytearray(min(count, _CHUNK)), 0
    while done < count:
        if done == len(data):
            data += bytes(min(count - done, done))
        try:
            if deadline is not None:
                sock.settimeout(max(deadline - time.monotonic(), 1e-3))
            with memoryview(data) as view:
                got = sock.recv_into(view[done:])
        except TimeoutError:
            raise ChannelClosed("silence") from None
        except OSError as error:
            raise ChannelClosed(str(error)) from None
        if got == 0:
            raise ChannelClosed("end of stream")
        done += got
        if deadline is not None and done < count and time.monotonic() >= deadline:
            raise ChannelClosed("silence")
    return data


_READING = ("__iter__", "__getitem__", "__len__", "__add__", "__eq__", "__getattribute__")
"""Methods by which code reads a list or a tuple."""


def encode(tree: object, tensors: list[torch.Tensor]) -> object:
    """Plain JSON for nested lists, tuples, dicts, scalars and tensors; tensors are appended to `tensors`.

    Raises TypeError for anything else.
    """
    if isinstance(tree, torch.Tensor):
        tensors.append(tree)
        return {"tensor": len(tensors) - 1}
    if tree is None or isinstance(tree, (bool, int, float, str)):
        return (
            {"value": tree} if not isinstance(tree, float) or math.isfinite(tree) else {"float": repr(tree)}
        )
    # A subclass is sent as its elements, unless it overrides how they are read.
    base = list if isinstance(tree, list) else tuple
    own = (getattr(type(tree), method, None) is not getattr(base, method) for method in _READING)
    if isinstance(tree, base) and any(own):
        raise TypeError(f"{type(tree).__name__} overrides how its elements are read, and cannot be sent")
    if isinstance(tree, list):
        return {"list": [encode(item, tensors) for item in list.__iter__(tree)]}
    if isinstance(tree, tuple):
        items = [encode(item, tensors) for item in tuple.__iter__(tree)]
        names = names_of(tree)
        return {"named": [names, items]} if names else {"tuple": items}
    if isinstance(tree, dict) and all(isinstance(key, str) for key in dict.keys(tree)):
        return {"dict": {key: encode(value, tensors) for key, value in dict.items(tree)}}
    if isinstance(tree, torch.dtype):
        return {"dtype": str(tree).removeprefix("torch.")}
    raise TypeError(f"{type(tree).__name__} cannot be sent")


def decode(spec: Any, tensors: list[torch.Tensor]) -> Any:
    """The inverse of `encode`. Raises ChannelError on anything that `encode` does not write."""
    try:
        ((kind, value),) = spec.items()
        if kind == "tensor":
            return tensors[value]
        if kind == "value":
            return value
        if kind == "float":
            return float(value)
        if kind == "dtype":
            return DTYPES[value]
        if kind == "list":
            return [decode(item, tensors) for item in value]
        if kind == "tuple":
            return tuple(decode(item, tensors) for item in value)
        if kind == "named":
            return tuple(decode(item, tensors) for item in value[1])
        if kind == "dict":
            return {key: decode(item, tensors) for key, item in value.items()}
    except (AttributeError, ValueError, IndexError, KeyError, TypeError, RecursionError, OverflowError):
        pass
    raise ChannelError("bad tree")
