"""A fake GPU answers like a real one: where tensors live, what moves them, what is refused."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from kernelwright.hardware import target
from kernelwright.verify.trace.pretend_cuda import PretendCuda, poison_, poison_mask
from kernelwright.verify.trace.stand_ins import pretend_torch_cuda


@pytest.fixture
def cuda() -> Iterator[PretendCuda]:
    mode = PretendCuda("cpu")
    with pretend_torch_cuda(target("h200")), mode:
        yield mode


def on_device(tensor: torch.Tensor) -> bool:
    return (
        tensor.is_cuda
        and tensor.device == torch.device("cuda", 0)
        and not tensor.is_cpu
        and tensor.get_device() == 0
    )


MAKERS: list[Any] = [
    lambda **k: torch.empty(4, **k),
    lambda **k: torch.zeros(4, **k),
    lambda **k: torch.ones((2, 2), **k),
    lambda **k: torch.full((4,), 2.0, **k),
    lambda **k: torch.arange(4, **k),
    lambda **k: torch.tensor([1.0, 2.0], **k),
    lambda **k: torch.randn(4, **k),
    lambda **k: torch.empty_strided((2, 2), (1, 2), **k),
]


@pytest.mark.parametrize("make", MAKERS, ids=range(len(MAKERS)))
@pytest.mark.parametrize(
    "device", ["cuda", "cuda:0", torch.device("cuda"), torch.device("cuda", 0), 0], ids=str
)
def test_what_is_made_there_lives_there(cuda: PretendCuda, make: Any, device: Any) -> None:
    assert on_device(make(device=device))


@pytest.mark.parametrize("make", MAKERS, ids=range(len(MAKERS)))
@pytest.mark.parametrize("where", [{}, {"device": "cpu"}, {"device": torch.device("cpu")}], ids=str)
def test_what_is_made_without_a_device_lives_on_the_host(cuda: PretendCuda, make: Any, where: Any) -> None:
    made = make(**where)
    assert not made.is_cuda
    assert made.device.type == "cpu"


MOVES: list[Any] = [
    lambda x: x.cuda(),
    lambda x: x.cuda(non_blocking=True),
    lambda x: x.to("cuda"),
    lambda x: x.to(torch.device("cuda:0")),
    lambda x: x.to(device="cuda", dtype=torch.float64),
    lambda x: x.to("cuda", torch.float16),
    lambda x: x.to("cuda", non_blocking=True),
    lambda x: x.pin_memory().cuda(),
    lambda x: x.to(torch.zeros(1, device="cuda")),
]


@pytest.mark.parametrize("move", MOVES, ids=range(len(MOVES)))
def test_every_way_to_the_device_leads_there(cuda: PretendCuda, move: Any) -> None:
    x = torch.ones(4)
    assert on_device(move(x))
    assert not x.is_cuda


@pytest.mark.parametrize(
    "move", [lambda x: x.cpu(), lambda x: x.to("cpu"), lambda x: x.cuda().cpu()], ids=range(3)
)
def test_and_back(cuda: PretendCuda, move: Any) -> None:
    assert not move(torch.ones(4, device="cuda")).is_cuda


def test_moving_what_is_there_copies_nothing(cuda: PretendCuda) -> None:
    x = torch.ones(4, device="cuda")
    assert x.cuda() is x
    assert x.to("cuda") is x


FOLLOWERS: list[Any] = [
    lambda x: x.view(-1),
    lambda x: x.reshape(2, 2).t(),
    lambda x: x.contiguous(),
    lambda x: x.clone(),
    lambda x: x[1:],
    lambda x: x.expand(3, 4),
    lambda x: torch.empty_like(x),
    lambda x: torch.zeros_like(x),
    lambda x: x.new_empty(3),
    lambda x: x.new_zeros(3),
    lambda x: x.half(),
    lambda x: x.float(),
    lambda x: x.detach(),
    lambda x: torch.nn.Parameter(x),
]


@pytest.mark.parametrize("derive", FOLLOWERS, ids=range(len(FOLLOWERS)))
def test_what_is_derived_stays_where_its_source_is(cuda: PretendCuda, derive: Any) -> None:
    assert on_device(derive(torch.ones(4, device="cuda")))
    assert not derive(torch.ones(4)).is_cuda


def test_a_device_tensor_is_no_array(cuda: PretendCuda) -> None:
    with pytest.raises(TypeError):
        torch.ones(4, device="cuda").numpy()
    assert torch.ones(4, device="cuda").cpu().numpy().sum() == 4


def test_a_module_moves_as_a_whole(cuda: PretendCuda) -> None:
    module = torch.nn.Linear(2, 2)
    module.register_buffer("b", torch.ones(2))
    module.cuda()
    assert all(on_device(tensor) for tensor in (*module.parameters(), *module.buffers()))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (lambda: torch.cuda.is_available(), True),
        (lambda: torch.cuda.device_count(), 1),
        (lambda: torch.cuda.current_device(), 0),
        (lambda: torch.cuda.get_device_capability(), (9, 0)),
        (lambda: torch.cuda.get_device_properties(0).multi_processor_count, 132),
        (lambda: torch.cuda.is_bf16_supported(), True),
        (lambda: "H200" in torch.cuda.get_device_name(), True),
        (lambda: torch.cuda.synchronize(), None),
    ],
    ids=range(8),
)
def test_torch_cuda_answers_as_the_target(cuda: PretendCuda, question: Any, answer: Any) -> None:
    assert question() == answer


def test_streams_events_and_guards_can_be_used(cuda: PretendCuda) -> None:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.device(0), torch.cuda.stream(torch.cuda.Stream()):
        start.record()
        end.record()
    end.synchronize()
    torch.cuda.current_stream().wait_stream(torch.cuda.Stream())
    assert start.elapsed_time(end) >= 0.0


def test_a_layer_moves_without_a_copy_unless_somebody_else_has_it(cuda: PretendCuda) -> None:
    layer, shared, seen = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    elsewhere = [shared.weight.data, seen.weight.detach()[1:]]
    for module, stays in ((layer, True), (shared, False), (seen, False)):
        before = module.weight.data_ptr()
        cuda.adopt_alone(module.weight)
        module.cuda()
        assert module.weight.is_cuda
        assert (module.weight.data_ptr() == before) is stays
    assert not any(tensor.is_cuda for tensor in elsewhere)


def test_nothing_is_left_behind() -> None:
    before = {
        name: getattr(torch.cuda, name)
        for name in ("is_available", "synchronize", "Event", "Stream", "device")
    }
    with pretend_torch_cuda(target("h200")), PretendCuda("cpu"):
        pass
    assert all(getattr(torch.cuda, name) is value for name, value in before.items())
    assert not torch.ones(1).is_cuda


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_poison_is_a_nan_that_is_recognised(dtype: torch.dtype) -> None:
    fresh = poison_(torch.empty(8, dtype=dtype))
    assert bool(fresh.isnan().all())
    assert bool(poison_mask(fresh).all())
    assert not bool(poison_mask(torch.full((8,), float("nan"), dtype=dtype)).any())
    assert not bool(poison_mask(torch.randn(8).to(dtype)).any())


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8])
def test_integers_are_poisoned_with_an_odd_pattern(dtype: torch.dtype) -> None:
    fresh = poison_(torch.zeros(8, dtype=dtype))
    assert len(set(fresh.tolist())) == 1
    assert fresh[0] not in (0, 1, -1)


def test_what_has_no_memory_cannot_be_poisoned() -> None:
    for tensor in (torch.empty(4, device="meta"), torch.empty(0), torch.zeros(3, dtype=torch.bool)):
        assert poison_(tensor) is tensor
