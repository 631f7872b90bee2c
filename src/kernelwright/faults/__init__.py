"""Plants single bugs into a correct module by editing its syntax tree.

`plant(code, dtype)` yields every fault that applies. Whether a fault has an effect is for a judge to say. Not planted,
because no judge on one machine could tell them from the original: removing wider integers (they matter beyond 2**31 elements,
sizes that no task here has), compiler hints (warps, stages, alignment, eviction), and padding in kernels that never combine
lanes (masked lanes are then not stored).
"""

from __future__ import annotations

import ast
import dataclasses
import random
from collections.abc import Callable, Iterable, Iterator

from kernelwright.faults import arithmetic, indexing, precision, races
from kernelwright.faults.source import Fault, Source

__all__ = ["KINDS", "PRECISION", "Fault", "plant", "sample"]

_Operator = Callable[[Source], Iterator[Fault]]

KINDS: dict[str, _Operator] = {
    operator.__name__: operator
    for operator in (
        indexing.mask_off_by_one, indexing.mask_missing, indexing.wrong_padding, indexing.wrong_axis,
        indexing.wrong_stride, indexing.wrong_offset, indexing.loop_bound, indexing.grid_too_small,
        indexing.swapped_sizes, indexing.uninitialised, arithmetic.wrong_start, arithmetic.skipped_epilogue,
        arithmetic.dropped_term, arithmetic.wrong_operator, arithmetic.swapped_operands,
        arithmetic.wrong_constant, races.race,
    )
}  # fmt: skip
"""Faults of logic by name."""

PRECISION: dict[str, Callable[[Source, str], Iterator[Fault]]] = {
    operator.__name__: operator
    for operator in (
        precision.tf32_products, precision.half_products, precision.half_accumulator,
        precision.half_statistics, precision.half_loads, precision.half_arguments, precision.half_result,
        precision.no_upcast, precision.coarse_constant,
    )
}  # fmt: skip
"""Faults of precision by name; which precision is too low depends on the task's dtype."""


def plant(code: str, dtype: str = "float32", kinds: Iterable[str] = ()) -> Iterator[Fault]:
    """Every distinct fault of `kinds` (default: all) that applies to `code` and parses.

    `dtype` is the task's: float32, float16 or bfloat16. Raises SyntaxError if `code` does not parse.
    """
    source = Source(code)
    seen = {_normal(code)}
    for name in kinds or [*KINDS, *PRECISION]:
        for fault in KINDS[name](source) if name in KINDS else PRECISION[name](source, dtype):
            try:
                form = _normal(fault.code)
            except SyntaxError:
                continue
            if form not in seen:
                seen.add(form)
                yield dataclasses.replace(fault, kind=name)


def sample(
    code: str, dtype: str, per_kind: int, rng: random.Random, kinds: Iterable[str] = ()
) -> list[Fault]:
    """At most `per_kind` random faults of each kind; those known to be equivalent are extra."""
    by_kind: dict[str, list[Fault]] = {}
    for fault in plant(code, dtype, kinds):
        by_kind.setdefault(f"{fault.kind}{bool(fault.equivalent)}", []).append(fault)
    return [
        fault
        for found in by_kind.values()
        for fault in sorted(rng.sample(found, min(per_kind, len(found))), key=lambda fault: fault.line)
    ]


def _normal(code: str) -> str:
    """The syntax tree as text, without comments, layout and parentheses."""
    return ast.dump(ast.parse(code))
