"""Whether a chain of operators is worth asking about: finite, not degenerate, and within the judge's tolerance.

A few hundred numbers per chain, on the judge's input distributions: the chain in float64, as PyTorch computes it in
float32, and as the Triton templates do (`tl` replaced by torch). What fails here would be rejected, or be trivially
right, before a judge; what passes is still to be verified.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kernelwright.data.operators import POINTWISE, ROWS
from kernelwright.policy.compiler.helpers import HELPERS

if TYPE_CHECKING:
    from kernelwright.data.graphs import Step


@functools.lru_cache(maxsize=65536)
def is_sound(steps: tuple[Step, ...]) -> bool:
    """Whether the chain may be asked about.

    Rejects values that are not finite or of no common size, steps that hardly change their input (relu after
    sigmoid), outputs that hardly vary, and kernels whose float32 arithmetic is too far off the float64 chain on any
    of the strict protocol's distributions. Where inputs are scaled up, values may overflow as PyTorch's do.
    """
    import torch

    from kernelwright.verify.protocol import protocol

    generator = torch.Generator().manual_seed(20)
    drawn = [torch.randn(6, 96, generator=generator, dtype=torch.float64) for _ in range(4)]
    for scale in protocol("strict").distributions:
        # The judge scales inputs; parameters keep the values that the module gives them.
        scaled = [scale * tensor for tensor in drawn]
        low = [[t.float() for t in tensors] for tensors in (scaled, drawn)]
        exact, honest = evaluate(steps, scaled, drawn), evaluate(steps, *low)[-1]
        value = exact[-1]
        judged = torch.isfinite(value) & torch.isfinite(honest)
        if abs(scale) <= 3.0 and not (bool(judged.all()) and 1e-4 < float(value.abs().max()) < 1e4):
            return False
        if scale == 1.0 and not _every_step_counts(exact):
            return False
        if not bool(judged.any()):
            continue
        value, honest = value[judged], honest[judged]
        allowed = _tolerated(value, honest)
        for got in (honest, evaluate(steps, *low, triton=True)[-1][judged]):
            # NaN fails every comparison, so it ends here.
            if not bool(((got.double() - value).abs() <= allowed).all()):
                return False
    return True


class Formula(NamedTuple):
    """Expressions over inputs and earlier values, which are `h1`, `h2` and so on."""

    inputs: tuple[str, ...]
    torch: tuple[str, ...]
    """The reference's, one a value."""
    triton: tuple[str, ...]
    """The kernel's."""
    integers: bool = False
    positive: tuple[str, ...] = ()
    """Inputs that are drawn above zero."""
    ties: tuple[str, ...] = ()
    """What must hardly ever hold: the sides of a comparison are equal, and a rounding decides."""


def is_sound_formula(formula: Formula) -> bool:
    """The same for a formula: no value of it may be nearly constant, and the kernel's arithmetic must hold up."""
    import torch

    from kernelwright.verify.protocol import protocol

    generator = torch.Generator().manual_seed(20)
    drawn = {name: torch.randn(6, 96, generator=generator, dtype=torch.float64) for name in formula.inputs}
    drawn |= {name: drawn[name].abs() + 0.1 for name in formula.positive}
    if formula.integers:
        whole = {name: (3 * value).long() for name, value in drawn.items()}
        exact, got = _values(formula.torch, whole), _values(formula.triton, whole)
        return _varies(exact) and torch.equal(exact[-1], got[-1])
    for scale in protocol("strict").distributions:
        scaled = {name: scale * value for name, value in drawn.items()}
        low = {name: value.float() for name, value in scaled.items()}
        exact, honest, kernel = (
            _values(formula.torch, scaled),
            _values(formula.torch, low)[-1],
            _values(formula.triton, low)[-1],
        )
        value = exact[-1]
        ties = _values((*formula.torch, *formula.ties), scaled)[len(exact) :] if scale == 1.0 else ()
        if scale == 1.0 and not (_varies(exact) and all(float(tie.double().mean()) < 0.01 for tie in ties)):
            return False
        judged = torch.isfinite(value) & torch.isfinite(honest)
        above = scale > 0 or not formula.positive  # a root of what was positive is no number below zero
        if above and abs(scale) <= 3.0 and not (bool(judged.all()) and 1e-4 < float(value.abs().max()) < 1e4):
            return False
        if bool(judged.any()):
            value, honest, kernel = value[judged], honest[judged], kernel[judged]
            allowed = _tolerated(value, honest)
            if not all(bool(((one.double() - value).abs() <= allowed).all()) for one in (honest, kernel)):
                return False
    return True


def _values(expressions: Sequence[str], inputs: Mapping[str, Any]) -> list[Any]:
    scope = {**_scope(), **inputs}
    for place, expression in enumerate(expressions):
        scope[f"h{place + 1}"] = eval(expression, scope)
    return [scope[f"h{place + 1}"] for place in range(len(expressions))]


def _varies(values: Sequence[Any]) -> bool:
    """Whether no value is nearly constant, the last least of all, and no truth nearly always the same."""
    import torch

    for value in values:
        least = 0.2 if value.dtype == torch.bool else 1e-2 if value is values[-1] else 1e-3
        if not float(value.double().std()) >= least * float(value.double().abs().max()) > 0.0:
            return False
    return True


def _tolerated(exact: Any, honest: Any) -> Any:
    """Absolute error per element that leaves the strict protocol, which sees more numbers, as much again."""
    size = exact.abs()
    calibrated = 8.0 * (honest.double() - exact).abs().max() + 2.0**-23 * (32.0 * size + 16.0 * size.mean())
    return calibrated.minimum(5e-5 * (1.0 + size))


def evaluate(
    steps: Sequence[Step], inputs: Sequence[Any], parameters: Sequence[Any] = (), *, triton: bool = False
) -> list[Any]:
    """The main value before and after each step, on `inputs[0]`; operands come from `inputs[1:]` in turn.

    Operands that are parameters come from the same place in `parameters` (of `inputs`, when there are none).
    With `triton`, each step is computed by its kernel's arithmetic. Vectors are given at full size here: what a
    probe measures does not depend on broadcasting.
    """
    values = [inputs[0]]
    extra = 1
    for step in steps:
        if step.row:
            values.append(_row(step.op, values[-1]) if triton else _torch(step.op, ())(values[-1], None))
            continue
        operand = inputs[0] if step.operand == "first" else None
        if step.operand not in ("", "first"):
            operand = (parameters or inputs if step.operand == "parameter" else inputs)[extra]
            extra += 1
        function = _triton if triton else _torch
        values.append(function(step.op, step.constants)(values[-1], operand))
    return values


def _every_step_counts(values: Sequence[Any]) -> bool:
    """Whether each step changes its input, and none makes a constant of it, the last least of all."""
    return float(values[-1].std()) >= 1e-2 * float(values[-1].abs().max()) and all(
        float(after.std()) > 1e-3 * float(after.abs().max())
        and (before.shape != after.shape or float((before != after).double().mean()) >= 0.1)
        for before, after in itertools.pairwise(values)
    )


def _row(name: str, x: Any) -> Any:
    """A row operator by its statistics, as a kernel computes it."""
    operator = ROWS[name]
    reduce = {
        "sum": lambda t: t.sum(-1, True),
        "max": lambda t: t.amax(-1, True),
        "min": lambda t: t.amin(-1, True),
    }
    scope: dict[str, Any] = {**_scope(), "x": x, "n": x.shape[-1]}
    for statistic in operator.statistics:
        scope["reduced"] = reduce[statistic.how](eval(statistic.term.format(x="x"), scope))
        scope[statistic.name] = eval(statistic.post.format(s="reduced"), scope)
    if operator.final is None:
        return scope[operator.statistics[-1].name].squeeze(-1)
    return eval(operator.final.format(x="x"), scope)


@functools.lru_cache(maxsize=4096)
def _torch(name: str, constants: tuple[float, ...]) -> Any:
    """An operator's first spelling as a function of (main value, operand)."""
    operator = ROWS.get(name) or POINTWISE[name]
    return _function(operator.spellings[0], constants)


@functools.lru_cache(maxsize=4096)
def _triton(name: str, constants: tuple[float, ...]) -> Any:
    """A pointwise operator's kernel arithmetic as a function of (main value, operand)."""
    return _function(POINTWISE[name].triton, constants)


def _function(template: str, constants: tuple[float, ...]) -> Any:
    body = template.format(x="x", y="y", **dict(zip("cd", constants, strict=False)))
    return eval(f"lambda x, y: {body}", _scope())


@functools.lru_cache(maxsize=1)
def _scope() -> dict[str, Any]:
    """Names that templates use: torch, F, and a `tl` made of torch, with the helpers on top of it."""
    import torch
    import torch.nn.functional as functional

    class tl:
        exp, log, sqrt, rsqrt, sin, cos = torch.exp, torch.log, torch.sqrt, torch.rsqrt, torch.sin, torch.cos
        abs, erf, sigmoid, where = torch.abs, torch.erf, torch.sigmoid, torch.where
        floor, ceil, exp2, log2 = torch.floor, torch.ceil, torch.exp2, torch.log2

        @staticmethod
        def maximum(x: Any, y: Any) -> Any:
            return torch.maximum(x, torch.as_tensor(y, dtype=x.dtype))

        @staticmethod
        def minimum(x: Any, y: Any) -> Any:
            return torch.minimum(x, torch.as_tensor(y, dtype=x.dtype))

    scope: dict[str, Any] = {"torch": torch, "F": functional, "tl": tl}
    for source in HELPERS.values():
        exec(source, scope)
    return scope
