"""Memory that a candidate keeps between calls while it is timed; tested on the host, which behaves the same."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelwright.verify.gpu import device
from kernelwright.verify.trace.kernels import Kernels
from kernelwright.verify.trace.replay import Session
from kernelwright.verify.trace.tape import View


class Host(device.CudaSession):
    """The session of a GPU, without a GPU."""

    provide = Session.provide


@pytest.fixture
def session() -> Host:
    made = Host("cpu", Kernels([]))
    made.provide(1, 8).fill_(3)
    return made


def _bytes_of(storage: int) -> View:
    return View(storage, 0, (8,), (1,), "uint8")


def held(session: Host) -> int:
    return int(session._bytes(1)[0])


def test_clocked_calls_begin_where_the_first_checked_call_began(session: Host) -> None:
    session.remember({1})
    session._bytes(1).fill_(200)  # the state after as many calls
    session.begin_anew()
    assert held(session) == 3


def test_what_a_call_changes_is_put_back_before_the_next(session: Host) -> None:
    session.remember({1})
    side = session.prepare_call(SimpleNamespace(operations=[]))  # type: ignore[arg-type]
    seen = []
    for _ in range(3):
        side.poison()
        seen.append(held(session))
        session._bytes(1).add_(1)
    assert seen == [3, 3, 3]


def test_scratch_that_the_inputs_decide_is_put_back_whatever_the_call_before_was_given(session: Host) -> None:
    given = session.provide(2, 8).fill_(7)
    session._bytes(1).copy_(given)  # as if by a warm-up on the current inputs
    session.remember({1})
    steps = [SimpleNamespace(kind="copy", fields={"target": _bytes_of(1), "source": _bytes_of(2)})]
    side = session.prepare_call(SimpleNamespace(operations=steps))  # type: ignore[arg-type]
    side.call()  # nothing changes
    for value in (8, 9):
        given.fill_(value)
        side.poison()
        assert held(session) == 7
        side.call()
        assert held(session) == value


def test_memory_that_is_not_there_yet_is_left_out(session: Host) -> None:
    session.remember({1, 2})
    session.begin_anew()
    assert held(session) == 3


def test_inputs_and_weights_are_not_kept_and_what_a_warm_up_made_is() -> None:
    def view(storage: int) -> Any:
        return SimpleNamespace(storage=storage)

    candidate: Any = SimpleNamespace(
        constants=[(1, 8, -1), (2, 8, -1)],
        steady=SimpleNamespace(foreign={3: 8, 4: 8}),
        inputs=[[view(9)], [view(3)]],
        state={"weight": view(2)},
    )
    assert device._kept_by(candidate) == {1, 4}


def test_a_session_starts_with_nothing_kept() -> None:
    made = Host("cpu", Kernels([]))
    made.begin_anew()
    assert torch.equal(made.provide(5, 4), made._bytes(5))
