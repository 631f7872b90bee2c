"""Contraction in single precision: x * y + z computed as one instruction, without rounding the product first.

Triton lets the compiler contract (`enable_fp_fusion`), and PTX's does. A kernel that computes a product's rounding error
then gets another number: x * y - x * y need not be 0. Of two products either may be contracted.

Not contracted: terms of reductions, products behind a broadcast, other types.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from triton.runtime import interpreter

Handle: TypeAlias = interpreter.TensorHandle
_NOTE = "product of"


def note(made: Handle, lhs: Handle, rhs: Handle, op: np.ufunc) -> None:
    """Record the factors of a product."""
    if op is np.multiply and made.data.dtype == np.float32 and lhs.data.dtype == rhs.data.dtype == np.float32:
        made.attr[_NOTE] = lhs.data, rhs.data


def combine(lhs: Handle, rhs: Handle, op: np.ufunc) -> Handle | None:
    """A sum or difference with such a product on one side, contracted; None for anything else."""
    if op is np.multiply or lhs.data.dtype != np.float32 or rhs.data.dtype != np.float32:
        return None
    left, right = (one.attr.get(_NOTE) for one in (lhs, rhs))
    if left is not None:
        made = op(_exact(left), rhs.data)
    elif right is not None:
        made = op(lhs.data.astype(np.float64), _exact(right))
    else:
        return None
    return interpreter.TensorHandle(made.astype(np.float32), lhs.dtype.scalar)


def _exact(factors: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The exact product of two single-precision numbers: double precision holds it."""
    product: np.ndarray = factors[0].astype(np.float64) * factors[1]
    return product
