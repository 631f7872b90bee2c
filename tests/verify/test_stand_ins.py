"""The replacement of `torch.cuda` looks like the original, and refuses unsupported calls with an error."""

import random
from collections.abc import Iterator

import pytest
import torch

from kernelwright.hardware import target
from kernelwright.verify.trace.pretend_cuda import Refused, Unmodelled
from kernelwright.verify.trace.stand_ins import CompiledKernel, pretend_torch_cuda
from kernelwright.verify.trace.surroundings import Surroundings


@pytest.fixture
def surroundings() -> Iterator[Surroundings]:
    drawn = Surroundings(random.Random(11), environment=False)
    with pretend_torch_cuda(target("h200"), drawn):
        yield drawn


@pytest.mark.usefixtures("surroundings")
def test_functions_keep_their_names_and_texts() -> None:
    assert torch.cuda.is_available.__name__ == "is_available"
    assert torch.cuda.is_available.__doc__
    assert torch.cuda.is_available.__module__ == "torch.cuda"
    assert not hasattr(torch.cuda.is_available, "__wrapped__")


@pytest.mark.usefixtures("surroundings")
def test_properties_have_an_identity_and_nothing_is_answered_by_absence() -> None:
    properties = torch.cuda.get_device_properties(0)
    assert properties.uuid is not None
    assert type(properties).__name__ == "_CudaDeviceProperties"
    with pytest.raises(Unmodelled):
        hasattr(properties, "something_new")
    assert Refused.last is not None


@pytest.mark.usefixtures("surroundings")
def test_streams_are_equal_where_they_are_one() -> None:
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert torch.cuda.current_stream().cuda_stream == 0
    assert torch.cuda.Stream() != torch.cuda.Stream()
    assert type(torch.cuda.Event()).__name__ == "Event"


@pytest.mark.usefixtures("surroundings")
def test_events_measure_something() -> None:
    first, second = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    second.record()
    assert first.elapsed_time(second) > 0.0


@pytest.mark.usefixtures("surroundings")
def test_statistics_of_memory_have_all_their_names() -> None:
    assert len(torch.cuda.memory_stats()) > 100


def test_the_seed_of_weights_is_not_told(surroundings: Surroundings) -> None:
    torch.manual_seed(123456789)
    surroundings.weights = 123456789
    surroundings.seed = 42
    assert torch.initial_seed() == 42
    torch.manual_seed(5)
    assert torch.initial_seed() == 5


def test_a_caller_may_be_in_inference_mode(surroundings: Surroundings) -> None:
    seen = set()
    for _ in range(30):
        surroundings.redraw()
        seen.add(torch.is_inference_mode_enabled())
    assert seen == {True, False}


def test_what_was_compiled_has_some_registers_and_shared_memory() -> None:
    launched: list[object] = []

    def launch(grid: object, *given: object) -> None:
        launched.append((grid, given))

    for usual in (True, False):
        made = CompiledKernel(launch, {"num_warps": 8}, random.Random(3), usual)
        assert type(made).__name__ == "CompiledKernel"
        assert (made.n_regs <= 64) is usual
        assert (made.metadata.shared <= 1 << 14) is usual
        assert 32 * 8 * made.n_regs <= 1 << 16
        with pytest.raises(Unmodelled):
            _ = made.asm
    made[(4,)](1, 2)
    assert launched == [((4,), (1, 2))]
