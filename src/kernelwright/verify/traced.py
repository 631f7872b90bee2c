"""The trace of a candidate's Python at one shape, as its process reports it: validated, and queried by the judge.

Nothing is run here: `trace/tape.py` reads the recordings, and a malformed trace raises `Stop`.
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Launch
from kernelwright.verify.confined import Stop, plain
from kernelwright.verify.gradient_ways import GradientWay
from kernelwright.verify.messages import OF_STORAGE, Launched
from kernelwright.verify.sandbox import channel
from kernelwright.verify.structures import Named
from kernelwright.verify.trace import ways
from kernelwright.verify.trace.replay import Candidate as Traced
from kernelwright.verify.trace.replay import operator
from kernelwright.verify.trace.tape import (
    MAX_KERNELS,
    Operation,
    OutsideStorage,
    Tape,
    TapeError,
    UnmadeMemory,
    View,
    same_but_for_strides,
    whole,
)
from kernelwright.verify.trace.tape import Launch as TracedLaunch

_CHOICES = 4
"""A kernel argument that is a whole number below this is taken for a choice between algorithms."""
Kind = tuple[str, str, str]
"""Name and source of a kernel, and an argument that looks like a choice or nothing."""
_EXACT = range(257)
"""Whole numbers that every float dtype represents exactly."""


class Trace:
    """The host process's report on one shape, validated."""

    def __init__(self, gate: Gate, answer: dict[str, Any], blobs: list[torch.Tensor]) -> None:
        """Raises Stop if `answer` is not a well-formed trace."""
        self.answer, self.blobs = answer, blobs
        try:
            self.traced = Traced(answer, blobs)
            if not isinstance(answer["kernels"], list) or len(answer["kernels"]) > MAX_KERNELS:
                raise TapeError(f"more than {MAX_KERNELS} kernels")
            self.kernels = [plain(spec["name"], 200) for spec in answer["kernels"]]
            self.output = _output(self.tape.output)
            self.refused = {whole(number) for number in answer.get("refused", ())}
            self.stops = whole(answer["tapes"][-1].get("stops", 0), 1 << 20)
            """How often the host waits for the device in the steady call."""
            self.listed = whole(answer["tapes"][-1].get("listed", 0), 1 << 40)
            """How many Python numbers become tensors in the steady call."""
            launches = (launch for tape in self.traced.tapes for launch in tape.launches())
            if any(launch.kernel >= len(self.kernels) for launch in launches):
                raise TapeError("a launch of a kernel that was not described")
        except UnmadeMemory as error:
            raise Stop(Outcome.TORCH_COMPUTE, gate, str(error)) from None
        except OutsideStorage as error:
            raise Stop(Outcome.OUT_OF_BOUNDS, gate, str(error)) from None
        except (TapeError, KeyError, TypeError, ValueError) as error:
            raise Stop(Outcome.MALFORMED_RESULT, gate, f"not a trace: {error}"[:200]) from None

    @property
    def tape(self) -> Tape:
        """The steady call."""
        return self.traced.steady

    @property
    def inputs(self) -> list[View]:
        """Views of the steady call's inputs."""
        return self.traced.inputs[-1]

    def alike(self, other: Trace) -> bool:
        """Whether a module built elsewhere launches the same work. Contents of constants are not compared: uninitialised scratch
        holds anything, and each shape is judged on another module anyway."""
        try:
            return self._work() == other._work()
        except RecursionError:
            raise Stop(Outcome.MALFORMED_RESULT, Gate.TRACE, "not a trace: a nest without end") from None

    def _work(self, call: int = -1) -> list[object]:
        """What a call does, with its memory named by role (weight, input, kept)."""
        tape, inputs = self.traced.tapes[call], self.traced.inputs[call]
        names: dict[int, object] = {
            view.storage: ("weight", name) for name, view in self.traced.state.items()
        }
        names |= {view.storage: ("input", place) for place, view in enumerate(inputs)}
        kept = [storage for storage in sorted(tape.foreign) if storage not in names]
        starts = {view.storage: view.offset * view.itemsize for view in inputs}
        return list(
            tape.meaning(
                names | {one: ("kept", place) for place, one in enumerate(kept)},
                starts,
                self.answer["kernels"],
            )
        )

    def steady(self) -> bool:
        """Whether all calls after the first are the same."""
        later = [tape.form() for tape in self.traced.tapes[1:]]
        return all(form == later[-1] for form in later)

    def takes_another_path(self, call: int, way: str) -> bool:
        """Whether a call in another `way` (`trace/ways.py`) launches something other than the steady call, apart from memory and
        from strides passed to kernels that differ as their tensors' do. For layouts without gaps an extra copy does not count,
        since memory made like the input has its layout."""
        there, here = self.traced.tapes[call], self.tape
        if call in self.refused:
            return False
        if GradientWay.read(way) is not None or way in ways.JOINED:
            return True
        if way == ways.BY_NAME:
            return self._work(call) != self._work()
        if not (layout := ways.layout_of(way)):
            return bool(there.form() != here.form())
        aside = ("alloc",) if layout in ways.GAPPED else ("alloc", "copy")
        steps = [[op.kind for op in tape.operations if op.kind not in aside] for tape in (there, here)]
        return steps[0] != steps[1] or not self._launches_alike(call)

    def launches_otherwise(self, call: int, way: str) -> bool:
        """Whether inputs of other strides make a call launch something other than the steady call, strides that kernels are given
        and copies apart."""
        if call in self.refused or not ways.layout_of(way) or GradientWay.read(way) is not None:
            return False
        return not self._launches_alike(call)

    def is_told_strides(self, call: int) -> bool:
        """Whether a call's launches differ from the steady call's in strides that kernels are given, and in nothing else."""
        if call in self.refused or not self._launches_alike(call):
            return False
        pairs = zip(self.traced.tapes[call].launched(), self.tape.launched(), strict=True)
        return any(one != other and one[3] != other[3] for one, other in pairs)

    def _launches_alike(self, call: int) -> bool:
        launched, usual = self.traced.tapes[call].launched(), self.tape.launched()
        given, its = (
            {step for view in views for step in view.stride}
            for views in (self.traced.inputs[call], self.inputs)
        )
        return len(launched) == len(usual) and all(
            one == other or _alike_launches(one, other, given, its)
            for one, other in zip(launched, usual, strict=True)
        )

    def with_something_new(self, calls: Mapping[int, GradientWay], wanted: int, most: int) -> list[int]:
        """The calls, at most `most`, that do something which neither the steady call nor an earlier listed call does. `calls`
        freeze some of the `wanted` gradients."""
        known = self._deeds(len(self.traced.tapes) - 1, GradientWay(), wanted)
        found: list[int] = []
        for call, way in calls.items():
            if call in self.refused or len(found) == most:
                continue
            if new := self._deeds(call, way, wanted) - known:
                found.append(call)
                known |= new
        return found

    def _deeds(self, call: int, way: GradientWay, wanted: int) -> set[str]:
        """Like `Tape.deeds`, with weights, inputs and gradients named."""
        tape, inputs = self.traced.tapes[call], self.traced.inputs[call]
        names: dict[int, tuple[object, int]] = {
            view.storage: (("weight", name), 0) for name, view in self.traced.state.items()
        }
        names |= {view.storage: (("input", place), view.offset) for place, view in enumerate(inputs)}
        kept = [one for one in range(wanted) if one not in way.frozen]
        own = len(tape.outputs()) - len(kept)
        return tape.deeds(
            names, [*(("output", one) for one in range(own)), *(("gradient", one) for one in kept)]
        )

    def does_as(self, call: int, other: int) -> bool:
        """Whether two calls do the same to the same inputs, apart from strides."""
        there, here = self.traced.tapes[call], self.traced.tapes[other]
        given, its = (
            {step for view in self.traced.inputs[one] for step in view.stride} for one in (call, other)
        )
        launched, usual = there.launched(), here.launched()
        return (
            self._on_inputs(call) == self._on_inputs(other)
            and len(launched) == len(usual)
            and all(
                one == two or _alike_launches(one, two, given, its)
                for one, two in zip(launched, usual, strict=True)
            )
        )

    def _on_inputs(self, call: int) -> list[object]:
        """Each step of a call with the inputs it takes, in order. If inputs share memory, a view counts as the input that starts
        last before it."""
        inputs = self.traced.inputs[call]

        def place(view: View) -> int:
            within = [
                (one.offset, number)
                for number, one in enumerate(inputs)
                if one.storage == view.storage and one.offset <= view.offset
            ]
            return max(within, default=(0, -1))[1]

        return [
            (op.kind, op.fields.get("name", ""), [place(view) for view in op.touched()])
            for op in self.traced.tapes[call].operations
            if op.kind != "alloc"
        ]

    def stands_alone(self, call: int) -> bool:
        """Whether a call uses no memory that other calls made."""
        known = {storage for storage, _, _ in self.traced.constants}
        known |= {view.storage for view in self.traced.inputs[call]}
        return set(self.traced.tapes[call].foreign) <= known

    def warmed_up(self) -> dict[str, object]:
        """The answer for a device that plays the calls of `warm_up` and the steady one."""
        return self.only() if self.traced.alone else self.answer

    def only(self, call: int = -1) -> dict[str, object]:
        """The answer with one call, as its last one, if that needs no other before it."""
        if not self.stands_alone(call):
            return self.answer
        tapes, inputs = self.answer["tapes"], self.answer["inputs"]
        return {**self.answer, "tapes": [tapes[call]], "inputs": [inputs[call]]}

    def copied_outputs(self) -> bool:
        """Whether torch copies into an output's memory."""
        returned = {view.storage for view in self.tape.outputs()}
        copies = (step for step in self.tape.operations if step.kind == "copy")
        return any(step.fields["target"].storage in returned for step in copies)

    def carries(self) -> bool:
        """Whether kernels see memory, other than weights, that persists between calls."""
        known = {view.storage for view in (*self.inputs, *self.traced.state.values())}
        return not set(self.tape.foreign) <= known

    def programs(self) -> int:
        """Program instances of all launches of the steady call together."""
        return sum(launch.programs for launch in self.tape.launches())

    def launches_more_at_first(self) -> bool:
        """Whether an earlier call launches some kernel more often than the steady call does."""

        def counted(tape: Tape) -> Counter[int]:
            return Counter(launch.kernel for launch in tape.launches())

        steady = counted(self.tape)
        return any(counted(tape) - steady for tape in self.traced.tapes[:-1])

    def makes_at_first(self) -> bool:
        """Whether the first call computes something that later ones reuse: launches, copies, or fills with a number that some float
        dtype cannot represent."""

        def made(operations: Iterable[Operation]) -> Counter[tuple[object, ...]]:
            return Counter(
                (op.kind, op.fields.get("name"), *(one.kernel for one in op.fields.get("launches", ())))
                for op in operations
                if op.kind != "alloc" and op.fields.get("value", 0.5) not in _EXACT
            )

        return bool(made(self.traced.at_first) - made(self.tape.operations))

    def warm_up(self) -> range:
        """Calls to play before the steady one: none if it stands alone."""
        return range(0) if self.traced.alone else range(len(self.traced.tapes) - 1)

    def written_by_torch(self) -> set[int | str]:
        """Inputs (by index) and weights (by name) that torch's operators write to in the steady call."""
        targets: set[int] = set()
        for step in self.tape.operations:
            if step.kind == "copy":
                targets.add(step.fields["target"].storage)
            elif step.kind in ("fill", "arange", "numbers"):
                targets.add(step.fields["view"].storage)
            elif step.kind == "aten" and _mutates(step.fields["name"]):
                targets |= {view.storage for view in step.fields["results"]}
        return self.named(targets)

    def stored(self, launches: list[Launched]) -> set[int | str]:
        """Inputs and weights that launches stored to, according to `device.describe`."""
        found: set[int] = set()
        for launch, described in zip(self.tape.launches(), launches, strict=False):
            stored = described["work"]["stored_bytes"]
            found |= {where for name, where in storages_of(launch, described).items() if stored.get(name)}
        return self.named(found)

    def named(self, storages: Iterable[int]) -> set[int | str]:
        """The inputs (by index) and weights (by name) in these storages of the steady call."""
        views: dict[int | str, View] = dict(enumerate(self.inputs))
        views.update(self.traced.state)
        within = set(storages)
        return {key for key, view in views.items() if view.storage in within}

    def kinds(self, call: int = -1) -> set[Kind]:
        """Each kernel that a call, by default the steady one, launches, alone and with each argument that looks like a choice."""
        found = set()
        for launch in self.traced.tapes[call].launches():
            spec = self.answer["kernels"][launch.kernel]
            chosen = (f"{name} {given}" for name, given in launch.arguments.items() if _is_choice(given))
            found |= {(spec["name"], str(spec["source"]), choice) for choice in ("", *chosen)}
        return found

    def launches(self) -> tuple[Launch, ...]:
        """The steady call's launches, for the record."""
        found = []
        for launch in self.tape.launches()[:64]:
            given = launch.arguments.items()
            scalars = {name: _scalar(v) for name, v in given if "view" not in v}
            types = {name: f"*{view.dtype}" for name, view in launch.views}
            found.append(
                Launch(
                    kernel=self.kernels[launch.kernel],
                    grid=launch.grid,
                    num_warps=launch.options.get("num_warps", 4),
                    num_stages=launch.options.get("num_stages", 3),
                    constexprs={name[:60]: value for name, value in scalars.items()},
                    signature={name[:60]: kind for name, kind in types.items()},
                )
            )
        return tuple(found)


def storages_of(launch: TracedLaunch, described: Launched) -> dict[str, int]:
    """Name -> storage for the names in a device's report: arguments, and memory whose address the kernel loads."""
    work = described["work"]
    names = work["loaded_bytes"].keys() | work["stored_bytes"].keys()
    loaded = {name: int(name.removeprefix(OF_STORAGE)) for name in names if name.startswith(OF_STORAGE)}
    return loaded | {name: view.storage for name, view in launch.views}


def _is_choice(given: Mapping[str, Any]) -> bool:
    """Whether an argument is a bool, a string, a dtype, None, or a whole number below `_CHOICES`."""
    given = given.get("constexpr", given)
    value = given.get("value", math.inf)
    return "dtype" in given or not isinstance(value, int | float) or 0 <= value < _CHOICES


def _scalar(given: Mapping[str, Any]) -> str:
    """A number or constant in readable form; floats are sent in hexadecimal."""
    value = next(iter(given.values()))
    if "float" in given:
        # A candidate's process may send anything.
        with contextlib.suppress(ValueError, OverflowError, TypeError):
            return f"{float.fromhex(value):.9g}"
    return plain(value, 60)


def _alike_launches(one: Any, other: Any, given: set[int], its: set[int]) -> bool:
    """Whether two steps of `Tape.launched` are the same launch, apart from tensors' strides."""
    if isinstance(one, str) or isinstance(other, str) or one[:3] != other[:3]:
        return False
    return same_but_for_strides(one[3], other[3], given | one[4], its | other[4])


def _mutates(name: str) -> bool:
    """Whether an operator of the tape may write to its arguments."""
    try:
        return bool(operator(name)._schema.is_mutable)
    except TapeError:  # not one of torch's operators: unknown
        return True


def _output(tree: Any) -> Any:
    """The returned nest with placeholders for tensors. Raises TapeError if it is malformed."""
    if isinstance(tree, dict) and "view" in tree:
        return torch.empty(0, device="meta")
    try:
        ((kind, value),) = tree.items()
        if kind in ("list", "tuple"):
            items = [_output(item) for item in value]
            return items if kind == "list" else tuple(items)
        if kind == "named":
            named = Named(map(_output, value[1]))
            named.names = tuple(map(str, value[0]))
            return named
        if kind == "dict":
            return {str(key): _output(item) for key, item in value.items()}
        return channel.decode(tree, [])
    except (channel.ChannelError, AttributeError, ValueError, TypeError):
        raise TapeError("bad output") from None
