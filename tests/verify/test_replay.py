"""Tapes played on real memory: what a call may rely on, and when one call represents all."""

from typing import Any

import pytest
import torch

from kernelwright.graph.narrow import complete
from kernelwright.verify.trace.kernels import Kernels
from kernelwright.verify.trace.replay import Candidate, Session
from kernelwright.verify.trace.tape import TapeError, View

N = 4


def view(storage: int, dtype: str = "float32") -> list[Any]:
    return [storage, 0, [N], [1], dtype]


def alloc(storage: int) -> dict[str, Any]:
    return {"kind": "alloc", "storage": storage, "bytes": 4 * N, "dtype": "float32"}


def launch(**arguments: int) -> dict[str, Any]:
    given = {name: {"view": view(storage)} for name, storage in arguments.items()}
    return {
        "kind": "launch",
        "launches": [{"kernel": 0, "grid": [1, 1, 1], "arguments": given, "options": {}}],
    }


def tape(*operations: dict[str, Any], out: int, foreign: tuple[int, ...]) -> dict[str, Any]:
    sizes = {str(storage): 4 * N for storage in foreign}
    return {"operations": list(operations), "output": {"view": view(out)}, "foreign": sizes}


def candidate(tapes: list[dict[str, Any]], inputs: list[int], constants: tuple[int, ...] = ()) -> Candidate:
    return Candidate(
        {
            "tapes": tapes,
            "inputs": [[view(storage)] for storage in inputs],
            "constants": [{"storage": storage, "bytes": 4 * N} for storage in constants],
            "state": {},
            "prepared": 0,
        }
    )


def honest(x: int, out: int) -> dict[str, Any]:
    return tape(alloc(out), launch(x=x, out=out), out=out, foreign=(x,))


def test_calls_that_do_the_same_stand_for_each_other() -> None:
    assert candidate([honest(1, 2), honest(3, 4), honest(3, 5)], [1, 3, 3]).alone


def test_scratch_that_lives_on_is_the_same_for_every_call() -> None:
    tapes = [
        tape(alloc(o), launch(x=x, s=9, out=o), out=o, foreign=(x, 9)) for x, o in ((1, 2), (3, 4), (3, 5))
    ]
    assert candidate(tapes, [1, 3, 3], (9,)).alone


def test_a_call_that_reads_what_an_earlier_one_was_given_does_something_else() -> None:
    stale = tape(alloc(4), launch(x=1, out=4), out=4, foreign=(1,))
    assert not candidate([honest(1, 2), stale, honest(3, 5)], [1, 3, 3]).alone


def test_two_buffers_in_turn_are_not_one() -> None:
    tapes = [
        tape(alloc(o), launch(x=x, s=s, out=o), out=o, foreign=(x, s))
        for x, o, s in ((1, 2, 8), (3, 4, 9), (3, 5, 8))
    ]
    assert not candidate(tapes, [1, 3, 3], (8, 9)).alone


def test_a_steady_call_that_needs_an_earlier_one_does_not_stand_alone() -> None:
    second = tape(alloc(4), launch(x=2, out=4), out=4, foreign=(2,))
    assert not candidate([honest(1, 2), second], [1, 3]).alone


def test_the_arguments_may_not_be_exchanged() -> None:
    tapes = [
        tape(alloc(2), launch(x=1, out=2), out=2, foreign=(1,)),
        tape(alloc(4), launch(out=3, x=4), out=4, foreign=(3,)),
    ]
    assert not candidate(tapes, [1, 3]).alone


def test_inputs_of_the_call_before_are_the_callers_again() -> None:
    session = Session("cpu", Kernels([]))
    traced = candidate([honest(1, 2), honest(3, 4)], [1, 3])
    session.ablated = True
    for call in (0, 1):
        session.bind(traced.inputs[call][0], torch.ones(N))
        session.play(traced.tapes[call])
    assert session.tensor(View.read(view(1))).isnan().all()
    assert session.tensor(View.read(view(3))).eq(1).all()


def test_an_input_that_is_bound_again_keeps_its_values() -> None:
    session = Session("cpu", Kernels([]))
    traced = candidate([honest(3, 4), honest(3, 5)], [3, 3])
    session.ablated = True
    for call in (0, 1):
        session.bind(traced.inputs[call][0], torch.ones(N))
        session.play(traced.tapes[call])
    assert session.tensor(View.read(view(3))).eq(1).all()


def numbers(storage: int, values: list[Any]) -> dict[str, Any]:
    return {"kind": "numbers", "view": [storage, 0, [len(values)], [1], "int64"], "values": values}


def test_addresses_among_numbers_are_where_the_tensors_lie() -> None:
    table = {"kind": "alloc", "storage": 2, "bytes": 24, "dtype": "int64"}
    second = {"view": [1, 4, [4 * N - 4], [1], "uint8"]}
    made = candidate([tape(table, numbers(2, [7, second, -3]), alloc(3), out=3, foreign=(1,))], [1])
    session = Session("cpu", Kernels([]))
    session.bind(made.inputs[0][0], torch.arange(N) + 5.0)
    session.play(made.tapes[0])
    given = session.tensor(View.read(view(1)))
    found = session.tensor(View.read([2, 0, [3], [1], "int64"])).tolist()
    assert found == [7, given[1:].data_ptr(), -3]


@pytest.mark.parametrize("values", [[1, 2], [1, 2, 3.5], [1, 2, 1 << 64], [1, 2, {"view": view(9)}]])
def test_numbers_that_are_none_are_refused(values: list[Any]) -> None:
    table = {"kind": "alloc", "storage": 2, "bytes": 24, "dtype": "int64"}
    step = {"kind": "numbers", "view": [2, 0, [3], [1], "int64"], "values": values}
    with pytest.raises(TapeError):
        candidate([tape(table, step, out=1, foreign=(1,))], [1])


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "complex64"])
def test_fresh_memory_is_no_number(dtype: str) -> None:
    session = Session("cpu", Kernels([]))
    memory = torch.zeros(64, dtype=torch.uint8)
    session.poison(memory, dtype)
    kind: torch.dtype = getattr(torch, dtype)
    assert memory.view(kind).isnan().all()


def test_fresh_booleans_are_both() -> None:
    session = Session("cpu", Kernels([]))
    memory = torch.zeros(64, dtype=torch.uint8)
    session.poison(memory, "bool")
    assert memory.ne(0).sum() == 32
    assert memory.view(torch.float32).gt(1e9).all()


def test_torch_is_given_no_places_that_no_kernel_wrote() -> None:
    """If kernels did nothing, a torch operator between them would read out of bounds, and the candidate would be blamed."""
    at, picked = view(2, "int64"), view(3)
    places = {"kind": "alloc", "storage": 2, "bytes": 8 * N, "dtype": "int64"}
    arguments = {"args": [{"view": view(1)}, 0, {"view": at}], "kwargs": {}}
    pick = {"kind": "aten", "name": "aten.index_select.default", "arguments": arguments, "results": [picked]}
    traced = candidate([tape(places, launch(x=1, out=2), pick, out=3, foreign=(1,))], [1])
    session = Session("cpu", Kernels([]))
    session.ablated = True
    session.bind(traced.inputs[0][0], torch.arange(N) + 5.0)
    session.play(traced.tapes[0])
    assert session.tensor(View.read(picked)).eq(5).all()
    assert session.tensor(View.read(at)).ne(0).all()


def test_a_result_of_another_form_than_traced_is_left_unwritten() -> None:
    """Such as what an embedding bag keeps for its backward pass, which is empty on some devices."""
    least, longer = [2, 0, [], [], "float32"], view(3)
    bounds = {
        "kind": "aten",
        "name": "aten.aminmax.default",
        "arguments": {"args": [{"view": view(1)}], "kwargs": {}},
        "results": [least, longer],
    }
    traced = candidate([tape(bounds, out=3, foreign=(1,))], [1])
    session = Session("cpu", Kernels([]))
    session.bind(traced.inputs[0][0], torch.arange(N) + 5.0)
    session.play(traced.tapes[0])
    assert session.tensor(View.read(least)) == 5.0
    assert session.tensor(View.read(longer)).isnan().all()


def test_products_that_a_candidate_leaves_to_torch_have_the_numbers_of_the_reference() -> None:
    x = torch.randn(16, 16, generator=torch.Generator().manual_seed(0)).half()
    given, made = ([storage, 0, [16, 16], [16, 1], "float16"] for storage in (1, 2))
    product = {
        "kind": "aten",
        "name": "aten.mm.default",
        "arguments": {"args": [{"view": given}, {"view": given}], "kwargs": {}},
        "results": [made],
    }
    steps = {"operations": [product], "output": {"view": made}, "foreign": {"1": 512}}
    traced = Candidate({"tapes": [steps], "inputs": [[given]], "constants": [], "state": {}, "prepared": 0})
    session = Session("cpu", Kernels([]))
    session.bind(traced.inputs[0][0], x)
    session.play(traced.tapes[0])
    reference = complete(torch.nn.Linear(16, 16, bias=False).half())
    reference.weight.data = x.t()
    with torch.no_grad():
        assert torch.equal(session.tensor(View.read(made)), reference(x))
