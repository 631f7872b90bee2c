"""Who produced an output, the candidate's kernels or torch: what is left of it when the kernels do nothing.

Torch may move data that a kernel made, change the layout of inputs, and fill memory with a number. It may not produce
the output: if that is all or mostly data movement (a concatenation, a triangle), torch's copies would be the operator.
Only for an operator that itself writes a part into a copy (a scatter) may torch copy the rest.

Not detected: copies by torch of data that a kernel merely passed on. (`Tape.compute` lists operators that calculate.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch

from kernelwright.verify.protocol import Protocol
from kernelwright.verify.reference.comparison import allowed_error
from kernelwright.verify.reference.expected import Expected, chunks
from kernelwright.verify.trace.pretend_cuda import ALLOCATION, COPIES, VIEWS
from kernelwright.verify.trace.tape import Operation, Tape, View

MOST_COPIED = 0.1
"""Largest share of an output's non-zero elements that torch's copies, rather than kernels, may provide."""
MOST_OF_A_GRADIENT = 0.5
"""The same for one gradient among several."""
SAME = 0.9
"""A copy that has this share of an output's non-zero elements counts as the output."""
SCATTERS = (
    "scatter", "index_put", "index_copy", "index_add", "index_fill", "index_reduce", "slice_scatter", "select_scatter",
    "diagonal_scatter", "masked_scatter", "masked_fill", "put", "copy_", "fill_",
)  # fmt: skip
"""Prefixes of operators that change a part of a tensor."""
MOVES = VIEWS | COPIES | ALLOCATION | {
    "cat", "stack", "flip", "roll", "repeat", "gather", "index", "index_select", "take", "constant_pad_nd", "tril", "triu",
    "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "im2col", "rot90", "reflection_pad1d", "reflection_pad2d",
    "reflection_pad3d", "replication_pad1d", "replication_pad2d", "replication_pad3d", "repeat_interleave", "permute_copy",
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "slice_scatter", "select_scatter", "diagonal_scatter",
    "embedding", "diag_embed", "block_diag", "unfold_copy",
}  # fmt: skip
"""Operators that move elements and compute none."""


def unmarked_share(
    marks: Sequence[torch.Tensor], expected: Sequence[Expected], kept: Sequence[torch.Tensor] = ()
) -> float:
    """Share of all outputs' non-zero elements that no kernel wrote; `marks` are true where one did. Elements that equal those
    of a tensor in `kept` at the same place are not counted as unwritten."""
    some = lone = 0
    for mark, wanted in zip(marks, expected, strict=True):
        value = wanted.value.reshape(mark.shape)
        telling = value != 0
        some += int(telling.sum())
        for tensor in kept:
            if _spreads(tensor.shape, value.shape):
                telling = telling & (tensor.to(value.dtype) != value)
        lone += int((telling & ~mark).sum())
    return lone / some if some else 0.0


def _spreads(shape: Sequence[int], over: Sequence[int]) -> bool:
    """Whether a tensor of that shape broadcasts to the other."""
    try:
        return torch.broadcast_shapes(shape, over) == torch.Size(over)
    except RuntimeError:
        return False


def moves_only(operators: Iterable[str]) -> bool:
    """Whether a reference made of these aten operators only moves elements."""
    return all(name in MOVES for name in operators)


def moved_share(tape: Tape, given: Sequence[View]) -> float:
    """Elements that torch's copies move, as a share of the outputs' elements. Plain copies of `given` tensors into memory that
    is not an output's are allowed and not counted."""
    plain = {(view.storage, view.shape, view.stride) for view in given}
    returned = {view.storage for view in tape.outputs()}
    moved = 0
    for step in tape.operations:
        if step.kind == "copy" and not _plain(step):
            source, target = step.fields["source"], step.fields["target"]
            if (source.storage, source.shape, source.stride) not in plain or target.storage in returned:
                moved += target.numel
    return moved / max(sum(view.numel for view in tape.outputs()), 1)


def spread_by_torch(tape: Tape) -> float:
    """Bytes that torch's copies make by rearranging kernels' results, as a share of all bytes that kernels read and write.
    Above 1 the copies produce the output (windows, repeated rows). Broadcast tensors count once."""
    made: set[int] = set()
    copied = touched = 0
    for step in tape.operations:
        if step.kind == "launch":
            views = {view for _, view in step.fields["launches"][0].views}
            made |= {view.storage for view in views}
            touched += sum(_bytes_held(view) for view in views)
        elif step.kind == "copy" and step.fields["source"].storage in made and not _plain(step):
            made.add(step.fields["target"].storage)
            copied += _bytes(step.fields["target"])
    return copied / max(touched, 1)


def repeated_by_torch(tape: Tape) -> list[float]:
    """For each output, the share of its bytes that torch makes by repeating fewer bytes of a kernel, such as one row for all."""
    made: set[int] = set()
    repeated: dict[int, int] = {}
    for step in tape.operations:
        if step.kind == "launch":
            touched = {view.storage for _, view in step.fields["launches"][0].views}
            made |= touched
            for storage in touched:
                repeated.pop(storage, None)
        elif step.kind == "copy":
            source, target = step.fields["source"], step.fields["target"]
            if source.storage in repeated or (
                source.storage in made and 2 * _bytes_held(source) <= _bytes(target)
            ):
                repeated[target.storage] = repeated.get(target.storage, 0) + _bytes(target)
            if source.storage in made:
                made.add(target.storage)
    return [min(1.0, repeated.get(view.storage, 0) / max(_bytes(view), 1)) for view in tape.outputs()]


def _bytes_held(view: View) -> int:
    """Bytes of a tensor, counting axes of stride 0 once."""
    sizes = (size for size, stride in zip(view.shape, view.stride, strict=True) if stride)
    return math.prod(sizes) * view.itemsize


def agreement(got: torch.Tensor, expected: Expected, protocol: Protocol) -> float:
    """Share of the expected non-zero elements that are right."""
    right = some = 0
    for piece, value in zip(chunks(got), chunks(expected.value), strict=True):
        telling = value != 0
        if expected.dtype.is_floating_point:
            near = (piece.double() - value.double()).abs() <= allowed_error(expected, value, protocol)
        else:
            near = piece == value
        right += int((near & telling).sum())
        some += int(telling.sum())
    return right / some if some else 0.0


def constant(cases: Sequence[Sequence[Expected]]) -> bool:
    """Whether a reference's outputs have no floats and are bitwise equal in all of several cases."""
    first, *others = cases
    return not any(item.dtype.is_floating_point for item in first) and all(
        torch.equal(item.value, other.value)
        for outputs in others
        for item, other in zip(first, outputs, strict=True)
    )


def scatters(operators: Iterable[str]) -> bool:
    """Whether a reference made of these aten operators writes a part into a copy of the rest."""
    return any(name.startswith(SCATTERS) for name in operators)


def relaid(tape: Tape, expected: Sequence[Expected], aliases: Sequence[int]) -> dict[int, int]:
    """Copies that rearrange as many elements as some output has: place on the tape -> that output's index. Outputs that alias
    an input are skipped."""
    found = {}
    returned = {view.storage for view in tape.outputs()}
    for place, step in enumerate(tape.operations):
        if step.kind != "copy" or step.fields["target"].storage in returned or _plain(step):
            continue
        numel = step.fields["target"].numel
        for index, (item, alias) in enumerate(zip(expected, aliases, strict=True)):
            if alias < 0 and numel > 1 and numel == math.prod(item.shape):
                found[place] = index
    return found


def _plain(step: Operation) -> bool:
    """Whether a copy keeps shape and strides."""
    target, source = step.fields["target"], step.fields["source"]
    return (target.shape, target.stride) == (source.shape, source.stride)


def copied_share(tape: Tape, given: Iterable[int]) -> float:
    """Share of the outputs' bytes that torch copies from the `given` storages (inputs and weights). Kernels may overwrite the
    copies later, so compare this share between sizes only."""
    sources = set(given)
    returned = {view.storage: view for view in tape.outputs()}
    moved = 0
    for step in tape.operations:
        if step.kind == "copy" and step.fields["source"].storage in sources:
            target = step.fields["target"]
            if target.storage in returned:
                moved += _bytes(target)
            else:
                sources.add(target.storage)
        elif step.kind == "launch":
            launch = step.fields["launches"][0]
            sources -= {view.storage for _, view in launch.views} - set(given)
    return moved / max(sum(map(_bytes, returned.values())), 1)


def recast(tape: Tape, given: Sequence[View]) -> str:
    """A copy by torch that views memory in another element width than all other accesses do: it splits numbers, which is a
    cast. Empty if there is none."""
    seen: dict[int, set[int]] = {}
    moved = [
        step.fields[name] for step in tape.operations if step.kind == "copy" for name in ("source", "target")
    ]
    kernels = (view for launch in tape.launches() for _, view in launch.views)
    for view in (*given, *tape.outputs(), *kernels, *moved):
        seen.setdefault(view.storage, set()).add(view.itemsize)
    for step in tape.operations:
        for name in ("source", "target") if step.kind == "copy" else ():
            view = step.fields[name]
            if any(width != view.itemsize for width in seen.get(view.storage, ())):
                return f"aten.copy_ through a view as {view.dtype}"
    return ""


def _bytes(view: View) -> int:
    return view.numel * view.itemsize
