"""Replays tapes on real memory. Only our own code runs here, and kernels that passed `trace/kernels.py`.

A `Session` is a candidate at one shape: its constants and weights persist from call to call, as a module's do; memory
that a call allocates is poisoned each time. Backends define how kernels are launched and where memory lies.
"""

from __future__ import annotations

import functools
import random
from typing import Any

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelwright.graph.narrow import compute
from kernelwright.verify.sandbox import channel
from kernelwright.verify.trace.kernels import Kernels
from kernelwright.verify.trace.pretend_cuda import POISON_BITS, poison_, poison_mask
from kernelwright.verify.trace.tape import (
    Descriptor,
    Launch,
    Operation,
    Tape,
    TapeError,
    UnmadeMemory,
    View,
    whole,
)

_UNSAFE = frozenset(
    ["from_file", "set_", "set", "resize_", "resize", "resize_as_", "record_stream", "_resize_output_"]
)


_QUIET = 0x7FC0_7FC0_7FC0_7FC0
"""Eight bytes: bits set in a quiet NaN of every width above a byte."""
_NUMBER = 0x3C00_3C00_3C00_3C00
"""Eight bytes: bits of a number not far from 1."""


class Session:
    """Storages by number on one device, and the kernels of one candidate."""

    def __init__(self, device: str, kernels: Kernels) -> None:
        self.device, self.kernels = device, kernels
        self.storages: dict[int, torch.UntypedStorage] = {}
        self.ablated = False
        """If set, launches do nothing."""
        self._bound: dict[int, View] = {}
        self._dice = random.SystemRandom()
        self.fill: int | None = None
        """Eight bytes that fill fresh memory in this call; None for the NaN by which unwritten memory is recognised."""
        self._plays = self._ablations = 0
        self._former: dict[int, View] = {}
        """Inputs by storage: `_bound` of the next call, `_former` of the last one."""

    def launch(self, kernel: object, launches: list[Launch], place: int) -> None:
        """Run one launch; of several alternatives, the fastest. `place` is its index on the tape."""
        raise NotImplementedError

    def argument(self, value: dict[str, Any]) -> Any:
        """The object that a launch argument describes. Raises TapeError, NotAKernel."""
        if "view" in value:
            return self.tensor(View.read(value["view"]))
        if "tuple" in value:
            return tuple(self.argument(item) for item in value["tuple"])
        if "descriptor" not in value:
            return self.kernels.argument(value)
        given = Descriptor.read(value["descriptor"])
        options: dict[str, Any] = {"padding": given.padding}
        if given.tf32:
            options["round_f32_to_tf32"] = True
        try:
            shape, strides = list(given.view.shape), list(given.view.stride)
            return TensorDescriptor(self.tensor(given.view), shape, strides, list(given.block), **options)
        except (AssertionError, TypeError, ValueError) as error:
            raise TapeError(f"a descriptor that Triton refuses: {error}"[:200]) from None

    # -- memory --------------------------------------------------------------------------------------------

    def provide(self, storage: int, size: int) -> torch.Tensor:
        """Fresh memory for a storage number, as bytes."""
        made = torch.empty(size, dtype=torch.uint8, device=self.device)
        self.storages[storage] = made.untyped_storage()
        return made

    def bind(self, view: View, tensor: torch.Tensor) -> None:
        """Make the storage of `view` hold a copy of `tensor`, next to what was already bound there for this call. An axis of
        stride 0 is stored once."""
        there, beside = self._bound.get(view.storage), None
        if there is not None:
            view_of_all = View(view.storage, 0, (there.end,), (1,), "uint8")
            beside = self.tensor(view_of_all).clone()
        size = max(view.end, 0 if beside is None else beside.numel())
        memory, target = self.provide(view.storage, size), self.tensor(view)
        if target.numel() * target.element_size() < memory.numel():
            self.poison(memory, view.dtype)
        if beside is not None:
            memory[: beside.numel()] = beside
        for axis, stride in enumerate(view.stride):
            if stride == 0 and target.shape[axis] > 1:
                target, tensor = target.narrow(axis, 0, 1), tensor.narrow(axis, 0, 1)
        target.copy_(tensor)
        self._bound[view.storage] = view if there is None or view.end > there.end else there

    def tensor(self, view: View) -> torch.Tensor:
        made = torch.empty(0, dtype=channel.DTYPES[view.dtype], device=self.device)
        return made.set_(self.storages[view.storage], view.offset, view.shape, view.stride)

    # -- playing -------------------------------------------------------------------------------------------

    def play(self, tape: Tape) -> None:
        """Run every operation, with fresh memory filled anew. Earlier inputs are poisoned: a caller may reuse them."""
        self.refill()
        for storage, view in self._former.items():
            if storage not in self._bound:
                memory = torch.empty(0, dtype=torch.uint8, device=self.device)
                self.poison(memory.set_(self.storages[storage]), view.dtype)
        self._former, self._bound = self._bound, {}
        for place, operation in enumerate(tape.operations):
            self.step(operation, place)

    def refill(self) -> None:
        """Choose the contents of fresh memory: a known NaN in the first call, then anything, as on a machine in use."""
        first, self._plays = self._plays == 0, self._plays + 1
        self._ablations += self.ablated
        drawn = (_QUIET | self._dice.getrandbits(64), self._dice.getrandbits(64) & ~_QUIET | _NUMBER, 0)
        self.fill = None if first or self.ablated else self._dice.choice(drawn)

    def step(self, operation: Operation, place: int) -> None:
        fields = operation.fields
        if operation.kind == "launch":
            if not self.ablated:
                self.launch(self.kernels[fields["launches"][0].kernel], fields["launches"], place)
        elif operation.kind == "alloc":
            self.poison(self.provide(fields["storage"], fields["bytes"]), fields["dtype"])
        elif operation.kind == "fill":
            self.tensor(fields["view"]).fill_(fields["value"])
        elif operation.kind == "copy":
            self.tensor(fields["target"]).copy_(self.tensor(fields["source"]))
        elif operation.kind == "arange":
            view = self.tensor(fields["view"])
            numbers = torch.arange(view.numel(), device=self.device, dtype=torch.float64)
            view.copy_((numbers * fields["step"] + fields["start"]).reshape(view.shape))
        elif operation.kind == "numbers":
            self.tensor(fields["view"]).copy_(self.numbers(fields))
        else:
            self._aten(fields)

    def numbers(self, fields: dict[str, Any]) -> torch.Tensor:
        """The Python numbers of a step, as a host tensor of the view's shape."""
        view = fields["view"]
        values = [self.address(one) if isinstance(one, View) else one for one in fields["values"]]
        made = torch.tensor(values, dtype=channel.DTYPES[view.dtype])
        return made.reshape(view.shape)

    def address(self, view: View) -> int:
        """What a kernel loads in place of a tensor's address."""
        return self.tensor(view).data_ptr()

    def poison(self, memory: torch.Tensor, dtype: str) -> None:
        """Fill fresh memory with `fill`, or else with our recognisable NaN. No float passes for 0 then; booleans are mixed, and
        inverted in every second ablated call."""
        kind = channel.DTYPES[dtype]
        if self.fill is not None:
            byte = torch.tensor(list(self.fill.to_bytes(8, "little")), dtype=torch.uint8)
            whole = memory.numel() // 8 * 8
            if kind == torch.bool:
                memory.fill_(self.fill & 1)
            else:
                memory[:whole].view(torch.int64).fill_(self.fill - (self.fill >> 63 << 64))
                memory[whole:] = byte[: memory.numel() - whole].to(memory.device)
            return
        if kind == torch.bool:
            memory.zero_()
            first, second = (1, 2) if self.ablated and self._ablations % 2 == 0 else (0, 3)
            memory[first::4] = memory[second::4] = POISON_BITS[1]
            return
        if kind.is_complex:
            kind = torch.float32
        whole = memory.numel() // kind.itemsize * kind.itemsize
        poison_(memory[:whole].view(kind))

    def _aten(self, fields: dict[str, Any]) -> None:
        """Run a torch operator, where the policy allows it, and write the results to the tape's views."""
        function = operator(fields["name"])
        arguments = fields["arguments"]
        out = compute(
            function,
            tuple(self._argument(item) for item in arguments["args"]),
            {name: self._argument(item) for name, item in arguments["kwargs"].items()},
        )
        found = [out] if isinstance(out, torch.Tensor) else out
        made = [item for item in found if isinstance(item, torch.Tensor)]
        for view, tensor in zip(fields["results"], made, strict=True):
            if tensor.shape != torch.Size(view.shape):
                # What an operator keeps for its backward pass has another form on each device: nobody can read it here.
                self.poison(self.provide(view.storage, view.end), view.dtype)
                continue
            if view.storage not in self.storages:
                self.provide(view.storage, view.end)
            target = self.tensor(view)
            if target.data_ptr() != tensor.data_ptr():
                target.copy_(tensor)

    def _argument(self, item: object) -> Any:
        if isinstance(item, dict) and "view" in item:
            made = self.tensor(View.read(item["view"]))
            # Indices that no kernel wrote, because launches do nothing, would lead the operator out of bounds.
            unwritten = self.ablated and made.dtype in (torch.int64, torch.int32)
            return made.masked_fill(poison_mask(made), 0) if unwritten else made
        return [self._argument(part) for part in item] if isinstance(item, list) else scalar(item)


def scalar(item: object) -> object:
    """An operator's serialised argument that is neither a tensor nor a list."""
    if isinstance(item, dict):
        return channel.DTYPES[item["dtype"]] if "dtype" in item else float(item["float"])
    return item


def operator(name: str) -> Any:
    """The aten overload of a serialised name. Raises TapeError for anything else."""
    packet, _, overload = name.removeprefix("aten.").partition(".")
    found = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
    if not isinstance(found, torch._ops.OpOverload) or packet in _UNSAFE or packet.startswith("_unsafe"):
        raise TapeError(f"no operator {name}")
    return found


class Candidate:
    """A candidate at one shape, as its host process described it: tapes, constants, storages of weights."""

    def __init__(self, answer: dict[str, Any], blobs: list[torch.Tensor] | None = None) -> None:
        """`blobs` are the constants' contents, if they were sent. Raises TapeError."""
        try:
            self.tapes = [Tape.read(item) for item in answer["tapes"]]
            self.inputs = [[View.read(view) for view in call] for call in answer["inputs"]]
            self.state = {str(name): View.read(view) for name, view in answer["state"].items()}
            self.constants = [_constant(item, blobs) for item in answer["constants"]]
            self._prepared = whole(answer["prepared"])
            if not self.tapes or len(self.tapes) != len(self.inputs):
                raise TapeError("no tape")
            known = {storage: size for storage, size, _ in self.constants}
            for tape, inputs in zip(self.tapes, self.inputs, strict=True):
                for view in inputs:  # several may be parts of one tensor
                    known[view.storage] = max(known.get(view.storage, 0), view.end)
                for storage, size in tape.foreign.items():
                    if storage not in known or known[storage] < size:
                        raise UnmadeMemory("a tensor was made outside of the recorded operations")
                for operation in tape.operations:
                    if operation.kind == "alloc":
                        known[operation.fields["storage"]] = operation.fields["bytes"]
                    for view in operation.fields.get("results", ()):
                        known.setdefault(view.storage, view.end)
            for view in self.state.values():
                if known.get(view.storage, -1) < view.end:
                    raise TapeError("weights outside their storage")
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
            raise TapeError("bad trace") from None

    @property
    def once(self) -> bool:
        """Whether the first call launches a kernel, not counting launches while the module was built."""
        return any(step.kind == "launch" and step.fields["launches"][0].programs for step in self.at_first)

    @property
    def at_first(self) -> tuple[Operation, ...]:
        """Operations of the first call, without those that built the module."""
        return self.tapes[0].operations[self._prepared :]

    @functools.cached_property
    def alone(self) -> bool:
        """Whether every call does the same to the same memory and depends on no earlier call, so that the last stands for all."""
        kept = {storage: ("kept", storage) for storage, _, _ in self.constants}
        if not set(self.steady.foreign) <= {*kept, *(view.storage for view in self.inputs[-1])}:
            return False

        def meaning(call: int) -> list[object]:
            given = {view.storage: ("input", index) for index, view in enumerate(self.inputs[call])}
            return self.tapes[call].meaning(kept | given)

        last = meaning(-1)
        return all(meaning(call) == last for call in range(len(self.tapes) - 1))

    @property
    def steady(self) -> Tape:
        """The last call; every further call is assumed to do the same."""
        return self.tapes[-1]


def _constant(item: dict[str, Any], blobs: list[torch.Tensor] | None) -> tuple[int, int, int]:
    """(storage, bytes, index of the blob with its contents or -1) of one constant. Raises TapeError."""
    storage, size, blob = whole(item["storage"]), whole(item["bytes"]), item.get("blob", -1)
    if blob != -1 and blobs is not None and blobs[whole(blob)].nbytes != size:
        raise TapeError("bad constant")
    return storage, size, blob
