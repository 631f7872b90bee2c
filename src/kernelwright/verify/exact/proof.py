"""Whether a kernel computes what the reference does, for every input over the reals, at one small size.

    question = ask(shape, secret)            the reference's outputs for random residues; raises NotExact
    proof = question.judge(outputs, functions, problem)

`proven`: every output is equal, at every level that both sides have. Functions that differ would be equal by chance with a
probability below 2^-30: degrees of programs at small sizes are far below 2^20, and there are 2^50 residues. Anything else
is `tested`, with the reason; it is never a reason to reject.

Not covered: rounding, overflow, ties, NaN. Weights of at most 16 elements, buffers and integers keep their values. Larger
weights have one unknown per distinct value, so a candidate may hold them under other names or rearranged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from kernelwright.records import Proof
from kernelwright.verify.exact import field, reference
from kernelwright.verify.exact.moves import plain
from kernelwright.verify.exact.order import Calculator
from kernelwright.verify.exact.values import UNDEFINED, Exact, NotExact
from kernelwright.verify.exact.wire import Value
from kernelwright.verify.structures import flatten

if TYPE_CHECKING:
    from kernelwright.verify.reference.oracle import ShapeCases

_TINY = 16
"""A candidate's process sees weights with at most this many elements, and may pass them on as numbers."""
_ZEROS = 0.01
"""A larger share of zeros in an input is taken to be deliberate."""
_FINE = (torch.float32, torch.float64)
_MOST_SCALARS = 64
_ENOUGH = 128
"""Distinct decisions needed at each comparison, so that with a probability above 1 - 2^-30 some element takes each path through
up to three comparisons."""
_RUNNING = ("running_mean", "running_var")


@dataclasses.dataclass(frozen=True)
class Question:
    """Random values for one case, and the reference's outputs for them."""

    traced: reference.Traced
    key: int
    inputs: list[Value]
    state: dict[str, Value]
    scalars: tuple[float, ...]
    """Values of the small weights."""
    weights: np.ndarray
    """Sorted values of the other weights."""
    decided: bool
    """Whether comparisons are 0 or 1 at random."""
    expected: list[Value]
    functions: frozenset[str]
    fewest: int
    """Least number of distinct decisions at any comparison of the reference."""

    def decide(self) -> Question:
        """The same question with comparisons decided at random. Raises NotExact."""
        return _answer(dataclasses.replace(self, decided=True))

    def calculator(self) -> Calculator:
        """A new calculator with the same values of functions."""
        made = Calculator(self.key, self.traced.levels, decided=self.decided)
        made.scalars, made.weights = self.scalars, self.weights
        return made

    def judge(
        self, outputs: Sequence[Value], functions: Iterable[str], problem: str = "", fewest: int = _ENOUGH
    ) -> Proof:
        """The proof that follows from a candidate's outputs."""
        if problem:
            return Proof(status="tested", reason=problem[:200])
        calculator = self.calculator()
        wrong = [self._wrong(calculator, *pair) for pair in zip(self.expected, outputs, strict=True)]
        share = max(wrong, default=0.0)
        if share == 0.0 and self.decided and min(fewest, self.fewest) < _ENOUGH:
            return Proof(status="tested", reason="too few elements for the comparisons in it")
        if share == 0.0:
            return Proof(status="proven")
        known = sorted({*self.functions, *functions})
        names = f", or not in one form: {', '.join(known)}" if known else ""
        reason = f"{share:.1%} of an output differs{names}"[:200]
        return Proof(status="tested", reason=reason, differs=share, functions=tuple(known))

    @staticmethod
    def _wrong(calculator: Calculator, expected: Value, got: Value) -> float:
        """Share of elements that differ."""
        if isinstance(expected, torch.Tensor) and isinstance(got, torch.Tensor):
            return float((expected != got).double().mean()) if expected.numel() else 0.0
        one, other = (
            value if isinstance(value, Exact) else calculator.number(plain(value))
            for value in (expected, got)
        )
        if one.shape != other.shape:
            return 1.0
        levels = min(one.levels, other.levels)
        alike = (one.planes[:levels] == other.planes[:levels]).all(axis=0) & (other.planes[0] != UNDEFINED)
        return float((~alike).mean()) if alike.size else 0.0


def ask(shape: ShapeCases, secret: int) -> Question:
    """Draw a question for the judge's cases at one size. Raises NotExact."""
    case = shape.cases[0]
    if case.after:
        raise NotExact("the reference changes what it is given")
    traced = reference.trace_exactly(case.module, case.inputs)
    generator = np.random.default_rng([secret & (2**63 - 1), 0xE8AC7])
    question = Question(
        traced, int(generator.integers(1, 2**60)), [], {}, (), np.zeros(0), False, [], frozenset(), 0
    )
    parameters = {name for name, _ in case.module.named_parameters()}
    learnt, scalars = [], []
    for name, value in case.module.state_dict().items():
        is_learnt = name in parameters or name.rsplit(".", 1)[-1] in _RUNNING
        if value.is_floating_point() and value.numel() <= _TINY:
            scalars += plain(value).reshape(-1).tolist()
        elif value.is_floating_point() and is_learnt:
            learnt.append(name)
    state = case.module.state_dict()
    single = [plain(state[name]).reshape(-1) for name in learnt if state[name].dtype in _FINE]
    values = np.unique(np.concatenate(single)) if single else np.zeros(0)
    question = dataclasses.replace(
        question,
        scalars=tuple(one for one in dict.fromkeys(scalars) if one)[:_MOST_SCALARS],
        weights=values[values != 0],
    )
    calculator = question.calculator()
    inputs = [_draw(one, calculator, generator) for one in flatten(case.inputs)]
    held = {name: _weight(value, calculator, generator, name in learnt) for name, value in state.items()}
    return _answer(dataclasses.replace(question, inputs=inputs, state=held))


def _answer(question: Question) -> Question:
    calculator = question.calculator()
    expected = reference.run(question.traced, calculator, question.inputs, question.state)
    if any(isinstance(one, Exact) and (one.planes[0] == UNDEFINED).any() for one in expected):
        raise NotExact("the reference is undefined somewhere")
    functions, fewest = frozenset(calculator.functions), calculator.fewest_decisions()
    return dataclasses.replace(question, expected=expected, functions=functions, fewest=fewest)


def _weight(
    value: torch.Tensor, calculator: Calculator, generator: np.random.Generator, learnt: bool
) -> Value:
    if not value.is_floating_point():
        return value
    if not learnt:
        return calculator.number(plain(value))
    if value.dtype not in _FINE:  # too few distinct values: different weights would be equal
        return Exact(field.draw_residues(generator, calculator.levels, tuple(value.shape)))
    array = plain(value)
    made = calculator.weight(array)
    return Exact(np.where(array == 0, 0, made.planes)) if (array == 0).mean() > _ZEROS else made


def _draw(value: torch.Tensor, calculator: Calculator, generator: np.random.Generator) -> Value:
    """An input as a random residue for each element, except for what a reference may rely on: distinct whole numbers (labels,
    masks), infinities, zeros and symmetry are kept."""
    if not value.is_floating_point():
        return value
    array = plain(value)
    if array.size and (array == np.round(array)).all() and (array != array.reshape(-1)[0]).any():
        return calculator.number(array)
    planes = field.draw_residues(generator, calculator.levels, tuple(array.shape))
    if array.ndim >= 2 and array.shape[-1] == array.shape[-2] > 1 and (array == array.swapaxes(-1, -2)).all():
        planes = np.where(np.tril(np.ones(array.shape[-2:], dtype=bool)), planes, planes.swapaxes(-1, -2))
    fixed = ~np.isfinite(array)
    if (array == 0).mean() > _ZEROS:
        fixed |= array == 0
    if not fixed.any():
        return Exact(planes)
    literal = calculator.number(np.where(fixed, array, 0.0))
    return Exact(np.where(fixed, literal.planes, planes), literal.special)
