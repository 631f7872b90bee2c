"""Memory that a candidate keeps from call to call, where it is clocked: on the host, which keeps it alike."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelwright.verify.gpu import device
from kernelwright.verify.trace.kernels import Kernels
from kernelwright.verify.trace.replay import Session


class Host(device.CudaSession):
    """The session of a GPU, without one."""

    provide = Session.provide


@pytest.fixture
def session() -> Host:
    made = Host("cpu", Kernels([]))
    made.provide(1, 8).fill_(3)
    return made


def held(session: Host) -> int:
    return int(session._bytes(1)[0])


def test_clocked_calls_begin_where_the_first_checked_call_began(session: Host) -> None:
    session.remember({1})
    session._bytes(1).fill_(200)  # as many calls later
    session.begin_anew()
    assert held(session) == 3


def test_what_a_call_changes_is_put_back_before_the_next(session: Host) -> None:
    session.remember({1})
    session.begin_anew()
    restore = session._memory_of(lambda: session._bytes(1).add_(1))
    seen = []
    for _ in range(3):
        restore()
        seen.append(held(session))
        session._bytes(1).add_(1)
    assert seen == [3, 3, 3]


def test_memory_that_is_not_there_yet_is_left_out(session: Host) -> None:
    session.remember({1, 2})
    session.begin_anew()
    assert not session.kept_changed()


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
    assert not made.kept_changed()
    assert torch.equal(made.provide(5, 4), made._bytes(5))
