"""How much GPU memory a task takes: to compute its expected outputs, and to judge and time a candidate.

We run the reference without data at the same size and count every storage that its operators allocate and free.
Library workspaces are not seen; `_SLACK` and `_FIXED` allow for them.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Mapping, Sequence

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.verify import without_data
from kernelwright.verify.structures import Args, Kwargs, Op
from kernelwright.verify.trace.replay import Candidate

_SLACK = 1.1
_FIXED = 3 << 29
"""A CUDA context (0.5 GB), the clock's buffer for flushing the L2, and temporaries of comparisons."""
_LARGE = 1 << 22
"""Expected outputs with at least this many elements are kept in fp32."""
UNSEEN_BYTES = 256 << 20
"""Bytes of a second draw of each input, placed in the arena to refresh inputs for timed calls."""


ALLOWANCE = 0.25
"""Share of a GPU's memory that a candidate may allocate beside inputs, weights and outputs."""


class Live(TorchDispatchMode):
    """Counts the bytes of storages that operators allocate in this mode; `peak` is the most alive at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: dict[int, weakref.ref[object]] = {}

    def __torch_dispatch__(self, func: Op, types: object, args: Args = (), kwargs: Kwargs = None) -> object:
        given = {tensor.untyped_storage()._cdata for tensor in _tensors([args, kwargs])}
        out = without_data.call(func, args, kwargs or {})
        for tensor in _tensors(out):
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key not in self._known and key not in given:
                size = storage.nbytes()
                self.now += size
                self._known[key] = weakref.ref(storage, functools.partial(self._gone, key, size))
        self.peak = max(self.peak, self.now)
        return out

    def _gone(self, key: int, size: int, _: object) -> None:
        self.now -= size
        del self._known[key]


def _tensors(tree: object) -> list[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        return [tree]
    items = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (list, tuple)) else ()
    return [tensor for item in items for tensor in _tensors(item)]


@dataclasses.dataclass(frozen=True)
class Footprint:
    """Memory that a task takes at one size, in bytes."""

    inputs: int
    outputs: int
    weights: int
    peak: int
    """Peak of a run of the reference: outputs and temporaries, without inputs and weights."""
    expected: int
    """One case's expected outputs, in the dtype they are kept in."""
    wide: float
    """How many times larger all of it is in fp64."""

    @classmethod
    def of(
        cls,
        given: Sequence[torch.Tensor],
        returned: Sequence[torch.Tensor],
        state: Mapping[str, torch.Tensor],
        peak: int,
    ) -> Footprint:
        """From tensors without data; `peak` as `Live` counted it."""
        kinds = [
            tensor.dtype for tensor in (*given, *returned, *state.values()) if tensor.is_floating_point()
        ]
        outputs = sum(map(_size, returned))
        return cls(
            inputs=sum(map(_size, given)),
            outputs=outputs,
            weights=sum(map(_size, state.values())),
            peak=max(int(peak), outputs),
            expected=sum(tensor.numel() * _kept_width(tensor) for tensor in returned),
            wide=8 / min((kind.itemsize for kind in kinds), default=8),
        )

    def keeping(self, cases: int) -> int:
        """Bytes that stay on the GPU for so many cases."""
        return cases * self.expected + self.weights

    def making(self, cases: int) -> int:
        """Peak bytes of making so many cases one after the other, with earlier ones kept.

        For one float32 input and an output of equal size, an elementwise reference takes 5 times that size (output; input
        and output in fp64) and 1 for each kept case: 3 to 4 times inputs and outputs together.
        """
        own = max(self.inputs + self.peak, 3 * self.inputs + self.outputs) + self.weights
        double = self.outputs + self.wide * (self.inputs + self.peak + self.weights) + self.weights
        comparing = (2 + self.wide) * self.outputs
        return _ample(self.keeping(cases) + max(own, double, comparing))

    def judging(self, candidate: int, beside: bool) -> int:
        """Peak bytes of a verification, without kept cases. `candidate`: the bytes that the candidate's side holds.

        In the units of `making`, 6 if a candidate allocates only its output: the arena (2), the judge's draw and its
        multiple (2), the candidate's inputs and outputs (2); during timing the reference's output replaces one draw.
        """
        arena = self.inputs + self.outputs + min(self.inputs, 4 * UNSEEN_BYTES)
        draw, clocked = 2 * self.inputs, self.inputs + self.peak + self.weights
        others = 2 * self.inputs + self.peak + 2 * self.outputs + self.weights if beside else 0
        return _ample(max(arena, self.weights) + candidate + max(draw, clocked, others))

    def compiling(self) -> int:
        """Bytes for timing the reference under torch.compile against eager."""
        return _ample(self.inputs + 2 * self.peak + 2 * self.weights)


def lasting(candidate: Candidate) -> set[int]:
    """Storages that persist between calls: constants, weights, and storages that a later call takes from an earlier one."""
    found = {storage for storage, _, _ in candidate.constants}
    for tape, views in zip(candidate.tapes, candidate.inputs, strict=True):
        found |= set(tape.foreign) - {view.storage for view in views}
    return found


def bytes_asked(candidate: Candidate) -> tuple[int, int]:
    """(peak bytes of the candidate's side of a verification; how many of them are not inputs, weights or outputs).

    A call's storages are freed before the next call, except those that a later call uses.
    """
    weights = {view.storage for view in candidate.state.values()}
    constants = {storage: size for storage, size, _ in candidate.constants}
    own = 2 * sum(size for storage, size in constants.items() if storage not in weights)
    made = {
        operation.fields["storage"]: operation.fields["bytes"]
        for tape in candidate.tapes
        for operation in tape.operations
        if operation.kind == "alloc"
    }
    living = sum(made.get(storage, 0) for storage in lasting(candidate) - constants.keys())
    held, extra = 0, 0
    for tape, views in zip(candidate.tapes, candidate.inputs, strict=True):
        fresh = tape.allocated() + sum(
            view.end for operation in tape.operations for view in operation.fields.get("results", ())
        )
        held = max(held, fresh + sum(view.end for view in views))
        extra = max(extra, fresh - sum(view.end for view in tape.outputs()))
    whole = sum(size for storage, size in constants.items() if storage in weights)
    return whole + own + living + held, own + living + max(0, extra)


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _kept_width(tensor: torch.Tensor) -> int:
    if not tensor.is_floating_point():
        return tensor.element_size()
    return 4 if tensor.numel() >= _LARGE and tensor.dtype != torch.float64 else 8


def _ample(size: float) -> int:
    return int(_SLACK * size) + _FIXED
