"""Residues: arithmetic modulo a tower of primes, on arrays whose first axis is the level of the tower.

Level 0 is Z_p, in which values live. p - 1 is a multiple of the prime of level 1, so exponents can live there:
`exp` takes level i + 1 of its argument to level i of its result, and exp(a + b) = exp(a) * exp(b) holds exactly
(Mirage, OSDI 2025, section 5). The result of an exponential has one level less than its argument.

Products of 50-bit numbers are reduced by a quotient in double precision, which is right to within one. 2, 3, 5, 7, 11
and 13 are squares modulo each prime and -1 is not, so that roots of constants in kernels behave as over the reals.

Not secure against code that manipulates residues directly; kernels can only do rational arithmetic on them.
"""

from __future__ import annotations

import functools

import numpy as np

PRIMES = (1117810919479271, 989213203079, 748270199)
LEVELS = len(PRIMES)
_WINDOW = 10
_LIMB = 17
_SUMMED = 4096
"""Number of residues whose sum fits 63 bits."""
_P = np.array(PRIMES, dtype=np.int64)[:, None]
_INVERSE = 1.0 / _P


def _flat(array: np.ndarray) -> np.ndarray:
    return array.reshape(len(array), -1)


def _wrap(array: np.ndarray, primes: np.ndarray) -> np.ndarray:
    """Reduce numbers from -p to 2p - 1, in place."""
    array += (array >> 63) & primes
    array -= primes
    array += (array >> 63) & primes
    return array


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Operands have equal shapes, as in all functions here."""
    primes = _P[: len(a)]
    made = _flat(a) + _flat(b)
    made -= primes
    made += (made >> 63) & primes
    return made.reshape(a.shape)


def subtract(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    made = _flat(a) - _flat(b)
    made += (made >> 63) & _P[: len(a)]
    return made.reshape(a.shape)


def negative(a: np.ndarray) -> np.ndarray:
    return subtract(np.zeros_like(a), a)


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    levels = len(a)
    return _product(_flat(a), _flat(b), _P[:levels], _INVERSE[:levels]).reshape(a.shape)


def _product(a: np.ndarray, b: np.ndarray, primes: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    quotient = a.astype(np.float64)
    quotient *= b
    quotient *= inverse
    made = a * b
    made -= quotient.astype(np.int64) * primes
    return _wrap(made, primes)


def reduce_levels(a: np.ndarray) -> np.ndarray:
    """Reduce any int64 numbers, level by level."""
    return (_flat(a) % _P[: len(a)]).reshape(a.shape)


def total(a: np.ndarray, axis: int) -> np.ndarray:
    """Sum along an axis; axis 0 is that of the levels."""
    while a.shape[axis] > _SUMMED:
        parts = np.array_split(a, -(-a.shape[axis] // _SUMMED), axis=axis)
        a = np.stack([reduce_levels(part.sum(axis=axis)) for part in parts], axis=axis)
    return reduce_levels(a.sum(axis=axis))


def running_total(a: np.ndarray, axis: int) -> np.ndarray:
    """Cumulative sum along an axis."""
    carry, found = None, []
    for start in range(0, a.shape[axis], _SUMMED):
        part = np.take(a, np.arange(start, min(start + _SUMMED, a.shape[axis])), axis=axis)
        part = reduce_levels(part.cumsum(axis=axis))
        if carry is not None:
            part = add(part, np.broadcast_to(carry, part.shape).copy())
        carry = np.take(part, [-1], axis=axis)
        found.append(part)
    return np.concatenate(found, axis=axis) if found else a


def power(a: np.ndarray, exponents: tuple[int, ...]) -> np.ndarray:
    """Raise each level to its own exponent, at least 0."""
    made = []
    for level, (row, exponent) in enumerate(zip(_flat(a), exponents, strict=False)):
        primes, inverse = _P[level], _INVERSE[level]
        result = np.ones_like(row)
        for bit in bin(exponent)[2:]:
            result = _product(result, result, primes, inverse)
            if bit == "1":
                result = _product(result, row, primes, inverse)
        made.append(result)
    return np.stack(made).reshape(a.shape)


def reciprocal(a: np.ndarray) -> np.ndarray:
    """1 / a, and 0 for 0, which the caller must not use. A tree of products needs one division per level."""
    rows = np.where(_flat(a) == 0, 1, _flat(a))
    count = rows.shape[1]
    if count == 0:
        return a
    padded = np.ones((len(rows), 1 << max(count - 1, 0).bit_length()), dtype=np.int64)
    padded[:, :count] = rows
    tree = [padded]
    while tree[-1].shape[1] > 1:
        tree.append(multiply(tree[-1][:, 0::2], tree[-1][:, 1::2]))
    top = [pow(int(row[0]), -1, prime) for row, prime in zip(tree[-1], PRIMES, strict=False)]
    inverse = np.array(top, dtype=np.int64)[:, None]
    for below in reversed(tree[:-1]):
        spread = np.empty_like(below)
        spread[:, 0::2] = multiply(inverse, below[:, 1::2])
        spread[:, 1::2] = multiply(inverse, below[:, 0::2])
        inverse = spread
    return np.where(_flat(a) == 0, 0, inverse[:, :count]).reshape(a.shape)


@functools.cache
def _windows(level: int) -> np.ndarray:
    """[window, digit]: powers of a generator of the subgroup whose exponents are the next level's numbers."""
    prime, order = PRIMES[level], PRIMES[level + 1]
    generator = pow(3, 2 * (prime - 1) // order, prime)
    rows = []
    for window in range(-(-order.bit_length() // _WINDOW)):
        step, row = pow(generator, 1 << (window * _WINDOW), prime), [1]
        for _ in range((1 << _WINDOW) - 1):
            row.append(row[-1] * step % prime)
        rows.append(row)
    return np.array(rows, dtype=np.int64)


def prepare() -> None:
    """Make the tables of exponentials now, so that forked processes share them."""
    for level in range(LEVELS - 1):
        _windows(level)


def exponential(a: np.ndarray) -> np.ndarray:
    """exp(a), with one level less than `a`, which must have at least two."""
    rows, made = _flat(a), []
    for level in range(len(rows) - 1):
        table, digits = _windows(level), rows[level + 1]
        result = table[0][digits & ((1 << _WINDOW) - 1)]
        for window in range(1, len(table)):
            digit = (digits >> (window * _WINDOW)) & ((1 << _WINDOW) - 1)
            result = _product(result, table[window][digit], _P[level], _INVERSE[level])
        made.append(result)
    return np.stack(made).reshape(len(made), *a.shape[1:])


def root(a: np.ndarray) -> np.ndarray:
    """A multiplicative root: for a square, the root that is itself a square; for others, a root of their negative."""
    return power(a, tuple(((prime - 1) // 2 + 1) // 2 for prime in PRIMES))


_LENGTH = 3
"""Exponent of `cube`, coprime to each p - 1."""
_BACK = tuple(pow(_LENGTH, -1, prime - 1) for prime in PRIMES)


def cube(a: np.ndarray) -> np.ndarray:
    """A bijection that preserves no sums, nor products if the caller adds a constant before."""
    return multiply(multiply(a, a), a)


def cube_root(a: np.ndarray) -> np.ndarray:
    """The inverse of `cube`."""
    return power(a, _BACK)


def hash_to_field(a: np.ndarray, key: int, levels: int) -> np.ndarray:
    """`levels` pseudo-random residues for each int64 number in `a`, which has no axis of levels."""
    made = np.empty((levels, a.size), dtype=np.int64)
    flat = a.reshape(-1).astype(np.uint64)
    for level in range(levels):
        salt = (key * 0x9E3779B97F4A7C15 + (level + 1) * 0xD1B54A32D192ED03) & ((1 << 64) - 1)
        mixed = flat ^ np.uint64(salt)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 0xD6E8FEB86659FD93)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(32)
        made[level] = ((mixed >> np.uint64(1)).astype(np.int64)) % PRIMES[level]
    return made.reshape(levels, *a.shape)


def draw_residues(generator: np.random.Generator, levels: int, shape: tuple[int, ...]) -> np.ndarray:
    """Random residues."""
    return np.stack([generator.integers(0, prime, shape, dtype=np.int64) for prime in PRIMES[:levels]])


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Exact batched matrix products: numbers are split into three limbs of 17 bits, multiplied in double precision."""
    levels, inner = len(a), a.shape[-1]
    if inner == 0:
        shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return np.zeros((*shape, a.shape[-2], b.shape[-1]), dtype=np.int64)
    mask = (1 << _LIMB) - 1
    first = [((a >> (_LIMB * limb)) & mask).astype(np.float64) for limb in range(3)]
    second = [((b >> (_LIMB * limb)) & mask).astype(np.float64) for limb in range(3)]
    parts = []
    for shift in range(5):
        pairs = [(i, shift - i) for i in range(3) if 0 <= shift - i < 3]
        left = np.concatenate([first[i] for i, _ in pairs], axis=-1)
        right = np.concatenate([second[j] for _, j in pairs], axis=-2)
        parts.append(np.matmul(left, right).astype(np.int64))
    made = reduce_levels(parts[4])
    factor = np.full((levels, 1), 1 << _LIMB, dtype=np.int64)
    for part in reversed(parts[:4]):
        made = multiply(made, np.broadcast_to(factor, (levels, made[0].size)).reshape(made.shape))
        made = add(made, reduce_levels(part))
    return made
