"""A graph becomes a reference only after it has agreed with its module on secret random inputs and weights.

    agree(captured.part)        raises UserError if they differ; returns the largest differences

Inputs are drawn afresh (`draws.py`); weights and float buffers are changed, so that a bias of zeros or a norm of ones
hides nothing. Module and graph run on the same values twice: in the module's own dtypes, and in fp64. There the module runs
its own Python with every float widened operator by operator, so that casts within it do not matter.

Does not guarantee equality for values that were not drawn: capture would have failed at a branch on data, but torch.where
and clamps may have regions that no draw reaches.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.drawing import DRAWING
from kernelwright.errors import UserError, one_line
from kernelwright.graph import draws, narrow, operators, sizes
from kernelwright.graph.capture import Part, run_itself, state_kept
from kernelwright.graph.execute import Runner
from kernelwright.graph.pairs import complex_view, real_view, tensors_in
from kernelwright.graph.types import Argument, NumberType, TensorType
from kernelwright.hardware import memory
from kernelwright.precision import FLOATS

_FP64 = 1e-7
"""Largest difference in fp64 relative to the largest value: allows for another order of sums, not for another function."""
_NATIVE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 4e-2, torch.float16: 1e-2}
"""The same by the narrowest dtype that is computed in."""
_OWN, _MOST_OWN = 3.0, 0.1
"""Factor on the module's own error in its dtypes, and the most of this error to allow: a softmax of large fp16 values is itself far from fp64."""

_NEVER = 1e30
"""Magnitude from which a number counts as a mask's minus infinity: the lowest of a dtype, which differs in fp64. Relative to it
no other difference would show."""


class TooLarge(UserError):
    """Memory does not suffice to run the module and its graph."""


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Largest difference between graph and module, relative to the largest value of the result."""

    native: float
    fp64: float | None
    """None if the module cannot run in fp64, with the reason in `why`."""
    why: str = ""


def agree(part: Part, *, seed: int | None = None, fp64: bool = True) -> Agreement:
    """Compare a graph with its module. `seed` is secret by default.

    Raises UserError if they differ, if no draw gives finite results, for random operators, if the module fails for its example (an
    index beyond a table); TooLarge if memory does not suffice. If it suffices without fp64 alone, the comparison is without.
    """
    if any(operators.kind(node.op) == "random" for node in part.graph.nodes):
        raise UserError(f"{part.graph.name} draws random numbers; call eval(), or set its probabilities to 0")
    if needed := _beyond_memory(part, False):
        raise TooLarge(
            f"{part.graph.name} takes some {needed >> 30} GiB to compare with its graph, more than are free; give a smaller example"
        )
    with torch.no_grad():
        try:
            run_itself(part.module, *part.call.unbind(part.inputs))
        except UserError as error:
            raise UserError(f"{part.graph.name}: {error}") from None
    described = draws.describe(part.graph, part.arguments)
    seed = secrets.randbits(48) if seed is None else seed
    for attempt in range(3):
        values = _draw(part, described, seed + attempt, near=attempt > 0)
        try:
            expected, got = _both(part, values, False)
        except UserError:
            if attempt:
                raise
            continue  # an operator rejects arbitrary integers: use those of the example next
        if _tells(expected):
            break
    else:
        raise UserError(
            f"{part.graph.name} gives NaN or infinity for random inputs; give an example with the values that it needs"
        )
    tolerance = _tolerance(part)
    if not fp64 or _beyond_memory(part, True):
        why = "memory does not suffice" if fp64 else "not asked for"
        return Agreement(_apart(part, got, expected, [tolerance] * len(got)), None, why)
    try:
        exact, exactly = _both(part, values, True)
    except (UserError, RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        lines = str(error).strip().splitlines() or [""]
        native = _apart(part, got, expected, [tolerance] * len(got))
        return Agreement(native, None, f"{type(error).__name__}: {lines[0][:200]}")
    rounded = _by_rounded_numbers(part, values, exactly, exact)
    apart = _apart(part, exactly, exact, [_FP64 + one for one in rounded])
    allowed = [max(tolerance, _OWN * _error(*pair)) for pair in zip(expected, exact, strict=True)]
    return Agreement(_apart(part, got, expected, allowed), apart)


def _beyond_memory(part: Part, fp64: bool) -> int:
    """Bytes that module and graph take together on the CPU: arguments, results twice, and the largest value of either; 0 if as many are
    free, or if this machine does not tell."""
    free, _ = memory()
    if not free or any(isinstance(one, torch.Tensor) and one.is_cuda for one in part.arguments.values()):
        return 0

    def size(kind: TensorType | NumberType) -> int:
        if not isinstance(kind, TensorType):
            return 0
        width = 8 if fp64 and kind.dtype in FLOATS else getattr(torch, kind.dtype).itemsize
        return width * math.prod(sizes.evaluate(one, hints) for one in kind.shape)

    hints = {one.name: one.hint for one in part.graph.symbols}
    held = {name: size(kind) for name, kind in part.graph.types().items()}
    needed = sum(held[one.name] for one in part.graph.arguments)
    needed += 2 * sum(held.get(name, 0) for name in part.graph.results) + 2 * max(held.values(), default=0)
    return needed if needed > free else 0


def _error(native: Any, exact: Any) -> float:
    """Difference of a result in the module's own dtypes from fp64, at most `_MOST_OWN`; 0.0 if it is undefined."""
    far = _distance(native, exact) if _comparable(native, exact) else 0.0
    return min(far, _MOST_OWN) if far < float("inf") else 0.0


def _by_rounded_numbers(
    part: Part, values: Mapping[str, Any], got: Sequence[Any], expected: Sequence[Any]
) -> list[float]:
    """How far results in fp64 may differ because a number that the module writes into a tensor (`x[0] = 0.1`) has all its digits
    there, and is a constant of the tensor's dtype in the graph: twice what half a digit of each such constant moves."""
    moved = [0.0] * len(got)
    if all(_distance(*pair) <= _FP64 for pair in zip(got, expected, strict=False) if _comparable(*pair)):
        return moved
    for one in part.graph.arguments:
        scalar = one.role == "constant" and isinstance(one.type, TensorType) and not one.type.shape
        if scalar and (value := values[one.name]).is_floating_point():
            other = value.double() * (1.0 + torch.finfo(value.dtype).eps)
            made = _of_graph(part, _wide({**values, one.name: other}), True)
            moved = [
                by + (_distance(*pair) if _comparable(*pair) else 0.0)
                for by, pair in zip(moved, zip(made, got, strict=True), strict=True)
            ]
    return moved


def _comparable(one: Any, other: Any) -> bool:
    return isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and one.shape == other.shape


def _wide(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for name, value in values.items()
    }


def _of_graph(part: Part, values: Mapping[str, Any], fp64: bool) -> list[Any]:
    """Flat results of the graph, new values of arguments first."""
    with torch.no_grad(), narrow.computed(values):
        results = Runner(part.graph, fp64=fp64)({name: _copy(value) for name, value in values.items()})
    written = sum(one.mutated for one in part.graph.arguments)
    return [*results[:written], *pytree.tree_leaves(part.call.nest(results))]


def _both(part: Part, values: Mapping[str, Any], fp64: bool) -> tuple[list[Any], list[Any]]:
    """Flat results of the module and of the graph, new values of arguments first."""
    values = _wide(values) if fp64 else values
    got = _of_graph(part, values, fp64)
    with torch.no_grad(), narrow.computed(values):
        written = [one for one in part.graph.arguments if one.mutated]
        args, kwargs = part.call.unbind(
            {name: values[name] for name in part.call.leaves if isinstance(name, str)}
        )
        with (
            state_kept(part.module),
            _holding(part, values),
            _Widened() if fp64 else contextlib.nullcontext(),
        ):
            made = part.module(*args, **kwargs)
            own = dict(part.module.named_buffers(remove_duplicate=False))
            kept = [own[name] if (name := _key(part, one)) in own else values[one.name] for one in written]
            expected = [_copy(real_view(one)) for one in (*kept, *pytree.tree_leaves(made))]
    return expected, got


@contextlib.contextmanager
def _holding(part: Part, values: Mapping[str, Any]) -> Iterator[None]:
    """Set the module's weights and buffers to `values` within the context."""
    own = {
        **dict(part.module.named_buffers(remove_duplicate=False)),
        **dict(part.module.named_parameters(remove_duplicate=False)),
    }
    tensors = {one.data_ptr(): one for one in own.values()}
    held, kept = {}, []
    for name, value in part.values.items():
        tensor = tensors.get(value.data_ptr()) if value.numel() else None
        if tensor is not None:
            kept.append((tensor, tensor.data))
            held[name] = tensor
    try:
        for name, tensor in held.items():
            tensor.data = complex_view(_copy(values[name])) if tensor.is_complex() else _copy(values[name])
        yield
    finally:
        for tensor, data in kept:
            tensor.data = data


def _key(part: Part, argument: Argument) -> str:
    """The name of an argument's tensor in the module, or for a method in its owner."""
    if isinstance(getattr(part.module, "owner", None), torch.nn.Module):
        return f"owner.{argument.origin}"
    return argument.origin


class _Widened(TorchDispatchMode):
    """Runs every operator in fp64: widens floats on input and skips casts to narrower ones."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def wide(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.is_complex():
                return value.to(torch.complex128)
            if isinstance(value, torch.dtype) and value.is_complex:
                return torch.complex128
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                return value.to(torch.float64) if value.dtype != torch.float64 else value
            if isinstance(value, torch.dtype) and value.is_floating_point:
                return torch.float64
            return value

        args, kwargs = pytree.tree_map(wide, (args, kwargs or {}))
        if func._schema.name in ("aten::_softmax", "aten::_log_softmax"):
            args = (*args[:2], False)
        given = tensors_in((args, kwargs))
        out = func(*args, **kwargs)
        narrow = isinstance(out, torch.Tensor) and out.is_floating_point() and out.dtype != torch.float64
        if narrow and not given and any(one.name == "dtype" for one in func._schema.arguments):
            out = func(*args, **{**kwargs, "dtype": torch.float64})  # such as linspace
        elif narrow and given and not any(one.is_floating_point() for one in given):
            out = func(*(one.double() if isinstance(one, torch.Tensor) else one for one in args), **kwargs)
        return out.double() if isinstance(out, torch.Tensor) and out.is_floating_point() else out


def _draw(part: Part, described: Mapping[str, draws.Draw], seed: int, near: bool) -> dict[str, Any]:
    """A value for each argument; `near` stays close to the captured inputs."""
    values: dict[str, Any] = {}
    captured = part.arguments
    with DRAWING, torch.random.fork_rng(devices=_gpus(captured)):
        torch.manual_seed(seed)
        for one in part.graph.arguments:
            value = captured[one.name]
            if (
                isinstance(one.type, NumberType)
                or one.role == "constant"
                or (one.role == "buffer" and one.type.dtype not in FLOATS)
            ):
                values[one.name] = value
            elif one.role in ("weight", "buffer") or (near and value.is_floating_point()):
                values[one.name] = _change(value)
            elif near:
                values[one.name] = value
            else:
                shape = tuple(value.shape)
                type = TensorType(dtype=one.type.dtype, shape=shape)
                made = described[one.name].draw(type, value.device)
                values[one.name] = torch.empty_strided(
                    shape, value.stride(), dtype=value.dtype, device=value.device
                )
                values[one.name] = values[one.name].copy_(made) if _dense(value) else made
    return values


def _change(value: torch.Tensor) -> torch.Tensor:
    """Other values of the same signs; all zeros become small numbers."""
    if not value.is_floating_point():
        return value.detach()
    value = value.detach()
    if not bool(value.any()):
        return 0.1 * torch.randn_like(value)
    return value * torch.exp(0.25 * torch.randn_like(value))


def _apart(part: Part, got: Sequence[Any], expected: Sequence[Any], tolerances: Sequence[float]) -> float:
    """The largest difference relative to the result's largest value. Raises UserError beyond a result's tolerance."""
    if len(got) != len(expected):
        raise UserError(
            f"{part.graph.name}: the graph gives {len(got)} results, the module {len(expected)}; the graph is not used"
        )
    worst = 0.0
    for place, (one, other, tolerance) in enumerate(zip(got, expected, tolerances, strict=True)):
        where = f"{part.graph.name}: result {place} of the graph"
        if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
            if one is not other and one != other:
                shown = [
                    "a tensor" if isinstance(t, torch.Tensor) else one_line(repr(t), 60) for t in (one, other)
                ]
                raise UserError(f"{where} is {shown[0]}, the module's {shown[1]}; the graph is not used")
            continue
        if one.shape != other.shape or one.dtype != other.dtype:
            kinds = [f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in (one, other)]
            raise UserError(f"{where} is {kinds[0]}, the module's {kinds[1]}; the graph is not used")
        far = _distance(one, other)
        worst = max(worst, far)
        if not far <= tolerance:
            raise UserError(
                f"{where} is {far:.1e} of its largest value away from the module's; the graph is not used"
            )
    return worst


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    if not one.numel():
        return 0.0
    left, right = one.double(), other.double()
    finite = left.isfinite() & right.isfinite()
    never = (left.abs() >= _NEVER) & (right.abs() >= _NEVER) & (left.sign() == right.sign())
    same = (left == right) | (left.isnan() & right.isnan()) | never
    if not bool((finite | same).all()):
        return float("inf")
    finite &= ~never
    if not bool(finite.any()):
        return 0.0
    gap = float((left - right).abs()[finite].max())
    return gap / max(float(right[finite].abs().max()), 1e-30)


def _tolerance(part: Part) -> float:
    """The tolerance of the narrowest float that the graph computes with."""
    found = {one.dtype for one in part.graph.types().values() if isinstance(one, TensorType)}
    return max(
        (_NATIVE[dtype] for dtype in _NATIVE if str(dtype).removeprefix("torch.") in found), default=0.0
    )


def _tells(results: Sequence[Any]) -> bool:
    """Whether every float result has a finite number."""
    floats = [
        one for one in results if isinstance(one, torch.Tensor) and one.is_floating_point() and one.numel()
    ]
    return all(bool(one.isfinite().any()) for one in floats)


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _dense(value: torch.Tensor) -> bool:
    return value.numel() == 0 or all(
        stride > 0 for stride, n in zip(value.stride(), value.shape, strict=True) if n > 1
    )


def _gpus(values: Mapping[str, Any]) -> list[int]:
    found = {one.device.index for one in values.values() if isinstance(one, torch.Tensor) and one.is_cuda}
    return sorted(index for index in found if index is not None)
