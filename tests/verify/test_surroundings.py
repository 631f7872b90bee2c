"""The environment that a candidate's Python sees is randomised, and looks like an ordinary machine."""

import itertools
import os
import random
import types
from collections.abc import Iterator

import pytest
import torch

from kernelwright.hardware import target
from kernelwright.verify.trace.pretend_cuda import (
    HostRead,
    PretendCuda,
    Refused,
    Unmodelled,
    storage_of,
)
from kernelwright.verify.trace.stand_ins import pretend_torch_cuda
from kernelwright.verify.trace.surroundings import Surroundings


@pytest.fixture
def surroundings() -> Surroundings:
    return Surroundings(random.Random(7), environment=False)


@pytest.fixture
def environment() -> Iterator[None]:
    before = dict(os.environ)
    state = random.getstate()
    yield
    random.setstate(state)
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.usefixtures("environment")
def test_a_variable_is_set_on_some_machines_and_not_on_others() -> None:
    surroundings, seen = Surroundings(random.Random(1)), set()
    for _ in range(20):
        surroundings.redraw()
        seen.add(os.environ.get("USER") is None)
    assert seen == {True, False}


@pytest.mark.usefixtures("environment")
def test_nothing_in_the_environment_names_a_judge() -> None:
    for seed in range(50):
        Surroundings(random.Random(seed))
        assert not any("kernelwright" in value for item in os.environ.items() for value in item)


def test_the_clock_tells_dates_of_several_centuries(surroundings: Surroundings) -> None:
    dates = []
    for _ in range(100):
        surroundings.redraw()
        dates.append(surroundings.time())
    assert min(dates) < 4e9 < max(dates)


def test_ticks_never_go_back(surroundings: Surroundings) -> None:
    ticks = [surroundings.ticks() for _ in range(50)]
    assert ticks == sorted(ticks)


def test_every_clock_of_the_library_is_replaced(surroundings: Surroundings) -> None:
    module = types.ModuleType("time")
    surroundings.hide_clock(module)
    assert module.time_ns() > module.time()
    assert module.strftime("%Y", (2031, *[1] * 8)) == "2031"


def test_addresses_are_aligned_and_apart(surroundings: Surroundings) -> None:
    taken: list[tuple[int, int]] = []
    found = sorted(surroundings.address(taken, 1 << 20) for _ in range(50))
    assert all(base % 512 == 0 for base in found)
    assert all(after - before >= 1 << 20 for before, after in itertools.pairwise(found))


def test_an_address_lies_elsewhere_next_time() -> None:
    def address() -> int:
        with PretendCuda("meta"):
            return torch.empty(4, device="cuda").data_ptr()

    assert address() != address()


def test_a_view_lies_in_its_storage() -> None:
    with PretendCuda("meta"):
        x = torch.empty(8, device="cuda")
        assert x[2:].data_ptr() == x.data_ptr() + 8
        assert x[2:].untyped_storage().data_ptr() == x.data_ptr()


def test_a_storage_says_that_it_is_on_the_device() -> None:
    with PretendCuda("meta"):
        storage = torch.empty(8, device="cuda").untyped_storage()
        assert (storage.device.type, storage.is_cuda, storage.nbytes()) == ("cuda", True, 32)


def test_a_storage_cannot_be_resized() -> None:
    with PretendCuda("meta"), pytest.raises(HostRead):
        torch.empty(8, device="cuda").untyped_storage().resize_(0)


def test_ours_sees_the_true_storage() -> None:
    with PretendCuda("meta"):
        assert storage_of(torch.empty(8, device="cuda")).device.type == "meta"


def test_a_refusal_is_remembered_though_it_is_caught() -> None:
    Refused.last = None
    with PretendCuda("meta"), pytest.raises(HostRead):
        torch.empty(8, device="cuda").tolist()
    assert isinstance(Refused.last, HostRead)
    Refused.last = None


def test_torch_says_that_it_was_built_for_the_device() -> None:
    with pretend_torch_cuda(target("h200")):
        assert torch.version.cuda
        assert torch.backends.cuda.is_built()
        assert "+cpu" not in str(torch.__version__)


def test_memory_in_use_is_drawn(surroundings: Surroundings) -> None:
    with pretend_torch_cuda(target("h200"), surroundings):
        before = torch.cuda.memory_allocated()
        surroundings.redraw()
        assert 0 < torch.cuda.memory_allocated() != before
        free, total = torch.cuda.mem_get_info()
        assert 0 < free < total


def test_what_torch_is_not_asked_usually_is_unsupported() -> None:
    with pretend_torch_cuda(target("h200")), pytest.raises(Unmodelled):
        torch.cuda.get_rng_state()
    Refused.last = None


@pytest.mark.usefixtures("environment")
def test_launchers_say_that_there_are_others_or_say_nothing() -> None:
    surroundings, seen = Surroundings(random.Random(1)), set()
    for _ in range(300):
        surroundings.redraw()
        seen |= {(name, os.environ.get(name)) for name in ("WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID")}
        assert int(os.environ.get("RANK", 0)) < int(os.environ.get("WORLD_SIZE", 1))
    assert all({(name, None), (name, "1")} <= seen for name in ("WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID"))


def test_what_everybody_feels_is_heard_of(surroundings: Surroundings) -> None:
    with pretend_torch_cuda(target("h100"), surroundings):
        for disturb in (torch.cuda.empty_cache, torch.cuda.reset_peak_memory_stats):
            surroundings.redraw()
            assert not surroundings.disturbed
            disturb()
            assert surroundings.disturbed
    surroundings.redraw()
    sleep = surroundings.clocks()["sleep"]
    sleep(0)
    assert not surroundings.disturbed
    sleep(1)
    assert surroundings.disturbed == "sleeps"


def test_whoever_draws_pythons_random_numbers_is_noticed(surroundings: Surroundings) -> None:
    class Dice(random.Random):
        pass

    surroundings.hear_of_draws(Dice, types.ModuleType("random"))
    Dice(3).choice([1, 2])
    assert surroundings.disturbed == "draws random numbers in Python"
