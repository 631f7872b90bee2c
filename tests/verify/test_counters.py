"""Numbers that count calls are advanced far, and restored if the module fails with that."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from kernelwright.verify.trace.counters import Counters, set_version

DICE = random.Random(3)


class Module(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls, self.half, self.ring = 0, 0.0, 0
        self.nested = {"deep": [0]}
        self.seen: list[int] = []


def called(
    change: Callable[[Module, dict[str, Any]], None], times: int = 4
) -> tuple[Module, dict[str, Any], bool]:
    """A module after some calls and a jump; its namespace; whether anything moved."""
    module, namespace = Module(), {"__name__": Module.__module__, "TOTAL": 0}
    counters = Counters(module, namespace)
    for _ in range(times):
        change(module, namespace)
        counters.note()
    return module, namespace, counters.jump(DICE)


def test_an_attribute_that_counts_is_moved_on() -> None:
    module, _, moved = called(lambda m, n: setattr(m, "calls", m.calls + 1))
    assert moved
    assert module.calls > 100


def test_a_global_that_counts_is_moved_on() -> None:
    _, namespace, _ = called(lambda m, n: n.update(TOTAL=n["TOTAL"] + 2))
    assert namespace["TOTAL"] > 100


def test_a_number_deep_in_containers_is_moved_on() -> None:
    def count(module: Module, _: Any) -> None:
        module.nested["deep"][0] += 1

    module, _, _ = called(count)
    assert module.nested["deep"][0] > 100


def test_a_class_attribute_that_counts_is_moved_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Module, "made", 0, raising=False)
    called(lambda m, n: setattr(Module, "made", Module.made + 1))  # type: ignore[attr-defined]
    assert Module.made > 100  # type: ignore[attr-defined]


def test_a_list_that_grows_grows_far() -> None:
    module, _, _ = called(lambda m, n: m.seen.append(1))
    assert len(module.seen) > 100


def test_a_fraction_that_grows_is_moved_on() -> None:
    module, _, _ = called(lambda m, n: setattr(m, "half", m.half + 0.5))
    assert module.half > 100.0


def test_what_stays_is_left_alone() -> None:
    module, _, moved = called(lambda m, n: None)
    assert not moved
    assert module.calls == 0


def test_what_goes_round_is_left_alone() -> None:
    module, _, moved = called(lambda m, n: setattr(m, "ring", (m.ring + 1) % 2))
    assert not moved
    assert module.ring in (0, 1)


def test_too_few_calls_say_nothing() -> None:
    module, _, moved = called(lambda m, n: setattr(m, "calls", m.calls + 1), times=3)
    assert not moved
    assert module.calls == 3


def test_a_jump_can_be_taken_back() -> None:
    module = Module()
    counters = Counters(module, {"__name__": Module.__module__})
    for _ in range(4):
        module.calls += 1
        counters.note()
    counters.jump(DICE)
    counters.undo()
    assert module.calls == 4


def test_a_text_that_grows_grows_far() -> None:
    module, _, _ = called(lambda m, n: setattr(m, "text", getattr(m, "text", "") + "."), times=5)
    assert len(module.text) > 100  # type: ignore[arg-type]


def test_a_number_in_a_tuple_is_moved_on() -> None:
    def count(module: Module, _: Any) -> None:
        module.pair = ("calls", getattr(module, "pair", ("", 0))[1] + 1)  # type: ignore[assignment, index, operator]

    module, _, _ = called(count, times=5)
    assert module.pair[0] == "calls"  # type: ignore[index]
    assert module.pair[1] > 100  # type: ignore[index, operator]


def test_an_element_of_an_array_is_moved_on() -> None:
    def count(_: Module, namespace: dict[str, Any]) -> None:
        namespace.setdefault("SEEN", np.zeros(3, dtype=np.int64))[1] += 1

    _, namespace, _ = called(count, times=5)
    assert namespace["SEEN"][1] > 100
    assert namespace["SEEN"][0] == 0


def test_a_generator_is_asked_for_more() -> None:
    module, namespace = Module(), {"__name__": Module.__module__, "TURNS": (turn for turn in range(10**6))}
    counters = Counters(module, namespace)
    counters.note()
    counters.jump(DICE)
    assert next(namespace["TURNS"]) > 5  # type: ignore[call-overload]


def test_a_container_that_grew_is_as_it_was_after_undoing() -> None:
    module, namespace = Module(), {"__name__": Module.__module__, "KNOWN": {}}
    counters = Counters(module, namespace)
    for call in range(4):
        namespace["KNOWN"][call] = call  # type: ignore[index]
        counters.note()
    counters.jump(DICE)
    assert len(namespace["KNOWN"]) > 100
    counters.undo()
    assert namespace["KNOWN"] == {0: 0, 1: 1, 2: 2, 3: 3}


def test_a_version_counter_is_moved_on() -> None:
    module = Module()
    module.register_buffer("lock", torch.zeros(2))
    counters = Counters(module, {})
    for _ in range(4):
        module.lock.zero_()
        counters.note()
    assert counters.jump(DICE)
    assert module.lock._version > 100
    counters.undo()
    assert module.lock._version == 4


def test_versions_of_inputs_that_happen_to_fall_stay_possible() -> None:
    versions = iter((9, 7, 4, 2))

    def keep(module: Module, _: Any) -> None:
        module.kept = torch.zeros(2)
        set_version(module.kept, next(versions))

    module, _, moved = called(keep)
    assert moved
    assert module.kept._version == 0


def test_truth_values_and_forms_that_go_round_stay_unmoved() -> None:
    module, namespace = Module(), {"flag": False, "turned": torch.empty(2, 3)}
    counters = Counters(module, namespace)
    for _ in range(4):
        counters.note()
    counters.jump(DICE)
    assert not counters.unmoved
    for name, change in (("flag", lambda flag: not flag), ("turned", lambda turned: turned.t())):
        for _ in range(4):
            namespace[name] = change(namespace[name])
            counters.note()
        counters.jump(DICE)
        assert counters.unmoved, name


def test_tensors_that_pile_up_grow_and_a_pool_does_not() -> None:
    module = Module()
    counters, kept = Counters(module, {}), Counters(module, {})
    held: list[torch.Tensor] = []
    module.nested["held"] = held  # type: ignore[assignment]
    for _ in range(6):
        held.append(torch.ones(2))
        counters.note()
    for _ in range(6):
        held.append(held[0])
        kept.note()
    assert counters.grows
    assert not kept.grows


@pytest.mark.parametrize("items", [[0] * 4000, "." * 4000, (0,) * 4000, range(4000), np.zeros(4000)])
def test_a_length_that_falls_is_taken_to_its_end(items: Any) -> None:
    def cut(module: Module, _: Any) -> None:
        module.left = getattr(module, "left", items)[1:]  # type: ignore[assignment]

    module, _, moved = called(cut)
    assert moved
    assert len(module.left) == 0  # type: ignore[arg-type]


def test_a_view_that_is_shorter_at_every_call_is_taken_to_its_end_and_back() -> None:
    module = Module()
    module.left = torch.empty(4000, device="meta")
    counters = Counters(module, {"__name__": Module.__module__})
    for _ in range(4):
        module.left = module.left[1:]
        counters.note()
    counters.jump(DICE)
    assert module.left.shape == (0,)
    assert not counters.unmoved
    counters.undo()
    assert (module.left.shape, module.left.storage_offset()) == ((3996,), 4)


def test_a_view_that_is_longer_at_every_call_is_taken_as_far_as_its_memory_goes() -> None:
    memory = torch.empty(300, device="meta")

    def lengthen(module: Module, _: Any) -> None:
        module.seen = memory[: len(module.seen) + 1]  # type: ignore[assignment]

    module, _, _ = called(lengthen)
    assert len(module.seen) == 300


def test_a_container_that_is_emptied_is_taken_to_its_end_and_back() -> None:
    module, kept = Module(), dict.fromkeys(range(4000))
    counters = Counters(module, {"__name__": Module.__module__, "LEFT": kept})
    for _ in range(4):
        kept.popitem()
        counters.note()
    counters.jump(DICE)
    assert not kept
    counters.undo()
    assert list(kept) == list(range(3996))


def test_a_number_that_falls_passes_zero() -> None:
    module, _, _ = called(lambda m, n: setattr(m, "left", getattr(m, "left", 10**7) - 1))
    assert module.left <= 0  # type: ignore[operator]
