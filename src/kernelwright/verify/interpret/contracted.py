"""Products in single precision that the compiler adds to something without rounding them first: x * y + z as one instruction.

Triton lets the compiler contract them (`enable_fp_fusion`), and PTX's does. Whatever a kernel makes of a rounding error of a
product is another number then: x * y - x * y need not be 0. Of two products either may be the one.

Not contracted: what a reduction adds up, products behind a broadcast, other types.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from triton.runtime import interpreter

Handle: TypeAlias = interpreter.TensorHandle
_NOTE = "product of"


def note(made: Handle, lhs: Handle, rhs: Handle, op: np.ufunc) -> None:
    """Notes what a product is a product of."""
    if op is np.multiply and made.data.dtype == np.float32 and lhs.data.dtype == rhs.data.dtype == np.float32:
        made.attr[_NOTE] = lhs.data, rhs.data


def combine(lhs: Handle, rhs: Handle, op: np.ufunc) -> Handle | None:
    """A sum or difference of which one side is such a product; None of anything else."""
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
    """The product of two numbers of single precision, which double precision holds."""
    product: np.ndarray = factors[0].astype(np.float64) * factors[1]
    return product
