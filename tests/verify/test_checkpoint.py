"""Weights from a checkpoint: none of the constructor's values remain, and candidates that packed theirs get the new ones."""

import types
from typing import Any

import torch
from torch import nn

from kernelwright.verify import checkpointed
from kernelwright.verify.reference import checkpoint


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        first = torch.rand(40)
        self.one, self.two = nn.Parameter(first.clone()), nn.Parameter(first.clone())
        self.table = nn.Embedding(6, 40, padding_idx=0)
        self.norm = nn.BatchNorm1d(40)
        self.register_buffer("prior", torch.zeros(40))
        self.register_buffer("codes", torch.randint(-8, 8, (40,), dtype=torch.int8))
        self.register_buffer("words", torch.randint(0, 2**31 - 1, (40,), dtype=torch.int32))
        self.register_buffer("places", torch.randint(0, 1 << 20, (40,), dtype=torch.int32))
        self.register_buffer("angles", torch.arange(40.0))
        self.register_buffer("scratch", torch.zeros(40), persistent=False)


def drawn(seed: int) -> Layers:
    torch.manual_seed(seed)
    return Layers()


def brought(takes: Any = lambda module: True) -> tuple[dict[str, torch.Tensor], checkpoint.State]:
    module = drawn(1)
    values = checkpoint.brought(module, drawn(2), 3, takes)
    assert values is not None
    return module.state_dict(), values


def test_signs_copies_zeros_and_buffers_are_others() -> None:
    before, after = brought()
    assert bool((after["one"] < 0).any())
    assert bool((after["one"] > 0).any())
    assert not torch.equal(after["one"].abs(), after["two"].abs())
    assert int((after["table.weight"][0] != 0).sum()) > 30
    assert bool((after["prior"] != 0).any())
    assert int(after["codes"].abs().max()) > 8
    assert not torch.equal(after["one"], before["one"])


def test_words_of_bits_are_of_either_sign_and_numbers_stay() -> None:
    _, after = brought()
    assert after["words"].dtype == torch.int32
    assert bool((after["words"] < 0).any())
    assert bool((after["words"] > 0).any())
    assert "places" not in after


def test_tables_statistics_and_what_is_not_saved_stay() -> None:
    _, after = brought()
    assert not {"angles", "norm.running_mean", "norm.running_var", "scratch"} & set(after)


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("codes", torch.randint(0, 2**31 - 1, (40,), dtype=torch.int32))
        self.register_buffer("places", torch.randint(0, 40, (40,)))


def test_packed_codes_have_either_sign() -> None:
    module, other = Packed(), Packed()
    after = checkpoint.brought(module, other, 3, lambda module: True)
    assert after is not None
    assert bool((after["codes"] < 0).any())
    assert "places" not in after


def test_signs_stay_where_the_reference_needs_them() -> None:
    _, after = brought(lambda module: bool((module.one >= 0).all()))
    assert bool((after["one"] > 0).all())
    assert bool((after["two"] < 0).any())


def trace(held: torch.Tensor, state: dict[str, Any] | None = None) -> Any:
    """A trace of a candidate whose only constant is `held`."""
    view = types.SimpleNamespace(storage=7, dtype=str(held.dtype).removeprefix("torch."))
    launch = types.SimpleNamespace(views=[("w", view)], arguments={})
    step = types.SimpleNamespace(kind="launch", fields={"launches": [launch]})
    tape = types.SimpleNamespace(operations=[step], launches=lambda: [launch])
    traced = types.SimpleNamespace(constants=[(7, held.nbytes, 0)], state=state or {}, tapes=[tape])
    return types.SimpleNamespace(traced=traced, tape=tape, blobs=[held.contiguous().view(torch.uint8)])


def test_weights_that_were_laid_out_anew_are_followed() -> None:
    before = {"w": torch.randn(6, 5)}
    after = {"w": torch.randn(6, 5)}
    candidate = trace(nn.functional.pad(before["w"].t(), (0, 2)).contiguous())
    assert checkpointed.loads_weights(candidate, before, after)
    held = candidate.blobs[0].view(torch.float32).reshape(5, 8)
    assert torch.equal(held[:, :6], after["w"].t())
    assert not held[:, 6:].any()


def test_what_cannot_be_told_apart_or_is_not_there_is_left() -> None:
    one = torch.randn(20)
    before = {"one": one, "two": one.clone()}
    after = {"one": torch.randn(20), "two": torch.randn(20)}
    assert not checkpointed.loads_weights(trace(torch.stack([one, one])), before, after)
    assert not checkpointed.loads_weights(trace(torch.zeros(20)), before, after)


def test_a_networks_weights_are_not_tried_one_by_one_for_tiny_elements() -> None:
    def made() -> nn.Module:
        return nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)) for _ in range(30))).eval()

    calls = 0

    def call(module: nn.Module) -> list[torch.Tensor]:
        nonlocal calls
        calls += 1
        return [(module[20][1].running_var + 1e-5).rsqrt()]

    found = checkpoint.faint(made(), made(), [1e-5], 3, call)
    assert found is not None
    assert set(found) == {"20.1.running_var"}
    assert calls < 30
