"""The wire: any bytes give a message or a `ChannelError`, within limits of time and memory."""

import json
import math
import socket
import struct
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.verify.sandbox import channel

HEAD = struct.Struct("!4sIQ")
ITEM = {"dtype": "float32", "shape": [2]}

scalars = st.none() | st.booleans() | st.integers() | st.text() | st.floats()
nests = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)
json_trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["tensor", "value", "float", "dtype", "list", "tuple", "dict", "x"]),
            inner,
            max_size=2,
        )
    ),
    max_leaves=10,
)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.settimeout(2.0)
    with ours, theirs:
        yield ours, theirs


def received(data: bytes) -> tuple[dict[str, Any], list[torch.Tensor]]:
    """The reader's result for these bytes when nothing follows."""
    ours, theirs = socket.socketpair()
    with ours:
        ours.settimeout(2.0)

        def write() -> None:
            with theirs:
                theirs.sendall(data)

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        return channel.receive(ours)


def framed(header: bytes, payload: bytes = b"", claimed: int | None = None) -> bytes:
    return HEAD.pack(b"KWv1", len(header), len(payload) if claimed is None else claimed) + header + payload


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and bool(a == b)


# what is written can be read


@given(nests)
def test_a_nest_of_plain_values_survives(tree: Any) -> None:
    assert same(channel.decode(json.loads(json.dumps(channel.encode(tree, []))), []), tree)


@pytest.mark.parametrize("dtype", list(channel.DTYPES.values()), ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (4, 1, 5)])
def test_tensors_of_every_kind_survive(
    ends: tuple[socket.socket, socket.socket], dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    tensor = torch.randn(shape).to(dtype)
    channel.send(ends[1], {"n": 1}, [tensor])
    body, (got,) = channel.receive(ends[0])
    assert body == {"n": 1}
    assert got.dtype == dtype
    assert got.shape == tensor.shape
    assert channel.tensor_bytes(got) == channel.tensor_bytes(tensor)


def test_strided_tensors_arrive_in_row_major_order(ends: tuple[socket.socket, socket.socket]) -> None:
    tensor = torch.arange(6).reshape(2, 3).t()
    channel.send(ends[1], {}, [tensor])
    assert torch.equal(channel.receive(ends[0])[1][0], tensor)


def test_nan_payloads_arrive_bit_for_bit(ends: tuple[socket.socket, socket.socket]) -> None:
    tensor = torch.tensor([0x7FC0_DEAD], dtype=torch.int32).view(torch.float32)
    channel.send(ends[1], {}, [tensor])
    assert channel.receive(ends[0])[1][0].view(torch.int32).item() == 0x7FC0_DEAD


@pytest.mark.parametrize("thing", [object(), {1: 2}, {"a": object()}, lambda: 0, b"bytes", {1, 2}, 1j])
def test_what_is_not_data_is_not_encoded(thing: Any) -> None:
    with pytest.raises(TypeError):
        channel.encode(thing, [])


# what was not written by us


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_random_bytes_are_no_message(data: bytes) -> None:
    with pytest.raises(channel.ChannelError):
        received(data)


@settings(max_examples=200)
@given(st.binary(max_size=120))
def test_a_random_header_is_no_message(header: bytes) -> None:
    with pytest.raises(channel.ChannelError):
        received(framed(header))


@given(json_trees)
def test_a_random_json_header_never_does_worse_than_an_error(tree: Any) -> None:
    try:
        body, tensors = received(framed(json.dumps(tree).encode()))
    except channel.ChannelError:
        return
    assert isinstance(body, dict)
    assert tensors == []


@given(json_trees)
def test_a_forged_tree_decodes_or_is_refused(tree: Any) -> None:
    try:
        channel.decode(tree, [torch.zeros(1)])
    except channel.ChannelError:
        return


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"body": 1, "tensors": []}',
        b'{"body": {}, "tensors": {}}',
        b'{"body": {}, "tensors": [1]}',
        b'{"body": {}, "tensors": [{"dtype": "float32"}]}',
        b'{"body": {}, "tensors": [{"dtype": "object", "shape": [1]}]}',
        b'{"body": {}, "tensors": [{"dtype": "float32", "shape": [-1]}]}',
        b'{"body": {}, "tensors": [{"dtype": "float32", "shape": [1e400]}]}',
        b'{"body": {}, "tensors": [{"dtype": "float32", "shape": null}]}',
        b'{"body": {}, "tensors": [{"dtype": ["float32"], "shape": [1]}]}',
        b"[" * 100_000,
        b'{"body":' * 50_000,
        b"\xff\xfe",
    ],
    ids=range(16),
)
def test_a_malformed_header_is_refused(header: bytes) -> None:
    data = framed(header)
    if header == b'{"body": {}, "tensors": {}}':
        assert received(data) == ({}, [])  # an empty table of tensors is equivalent to an empty list
        return
    with pytest.raises(channel.ChannelError):
        received(data)


@pytest.mark.parametrize(
    ("shape", "payload"),
    [([3], 8), ([1], 8), ([2**62, 4], 8), ([2**31, 2**31, 2**31], 8), ([0, 2**62], 8), ([], 0)],
)
def test_sizes_must_agree(shape: list[int], payload: int) -> None:
    header = json.dumps({"body": {}, "tensors": [{"dtype": "float32", "shape": shape}]}).encode()
    with pytest.raises(channel.ChannelError):
        received(framed(header, bytes(payload)))


def test_a_wrong_magic_is_refused() -> None:
    with pytest.raises(channel.ChannelError):
        received(HEAD.pack(b"EVIL", 2, 0) + b"{}")


@pytest.mark.parametrize(
    ("header", "payload"), [(channel.MAX_HEADER + 1, 0), (2, channel.MAX_PAYLOAD + 1), (2**32 - 1, 2**64 - 1)]
)
def test_a_claim_above_the_limits_is_refused_before_it_is_read(header: int, payload: int) -> None:
    with pytest.raises(channel.ChannelError) as caught:
        received(HEAD.pack(b"KWv1", header, payload))
    assert not isinstance(caught.value, channel.ChannelClosed)


def test_a_claim_costs_no_memory_until_its_bytes_arrive() -> None:
    size = 1 << 30
    header = json.dumps({"body": {}, "tensors": [{"dtype": "uint8", "shape": [size]}]}).encode()
    tracemalloc.start()
    try:
        with pytest.raises(channel.ChannelClosed):
            received(framed(header, b"only this", claimed=size))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20


def test_a_pickle_is_no_message() -> None:
    import pickle

    class Evil:
        def __reduce__(self) -> Any:
            return (pytest.fail, ("unpickled",))

    with pytest.raises(channel.ChannelError):
        received(pickle.dumps(Evil()))
    with pytest.raises(channel.ChannelError):
        received(framed(pickle.dumps(Evil())))


# silence


def test_silence_ends_at_the_timeout(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[0].settimeout(0.1)
    start = time.monotonic()
    with pytest.raises(channel.ChannelClosed):
        channel.receive(ends[0])
    assert time.monotonic() - start < 1.0


@pytest.mark.parametrize("cut", [0, 3, 16, 20, 60, 70])
def test_a_message_cut_short_is_a_closed_channel(cut: int) -> None:
    whole = framed(json.dumps({"body": {}, "tensors": [ITEM]}).encode(), bytes(8))
    with pytest.raises(channel.ChannelClosed):
        received(whole[:cut])


def test_a_drip_of_bytes_does_not_stretch_the_timeout(ends: tuple[socket.socket, socket.socket]) -> None:
    """Occasional bytes keep every single read alive, but the message as a whole has a deadline."""
    ours, theirs = ends
    ours.settimeout(0.3)
    whole = framed(json.dumps({"body": {}, "tensors": [ITEM]}).encode(), bytes(8))
    stop = threading.Event()

    def drip() -> None:
        for number in range(len(whole) - 1):
            if stop.wait(0.05):
                return
            theirs.sendall(whole[number : number + 1])

    writer = threading.Thread(target=drip, daemon=True)
    writer.start()
    start = time.monotonic()
    with pytest.raises(channel.ChannelClosed):
        channel.receive(ours)
    took = time.monotonic() - start
    stop.set()
    writer.join()
    assert took < 1.5


def test_a_reader_that_does_not_read_does_not_hang_the_writer(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ends[0].settimeout(0.2)
    start = time.monotonic()
    with pytest.raises(channel.ChannelClosed):
        channel.send(ends[0], {}, [torch.zeros(1 << 24)])
    assert time.monotonic() - start < 2.0
