"""Arithmetic modulo the tower, compared with Python's integers."""

import numpy as np

from kernelwright.verify.exact import field

GENERATOR = np.random.default_rng(3)
A, B = (field.draw_residues(GENERATOR, field.LEVELS, (40,)) for _ in range(2))


def pairs(level: int) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in zip(A[level], B[level], strict=True)]


def test_each_prime_less_one_is_a_multiple_of_the_next() -> None:
    assert all((p - 1) % q == 0 for p, q in zip(field.PRIMES, field.PRIMES[1:], strict=False))


def test_small_primes_are_squares_and_minus_one_is_not() -> None:
    for prime in field.PRIMES:
        assert all(pow(small, (prime - 1) // 2, prime) == 1 for small in (2, 3, 5, 7, 11, 13))
        assert pow(prime - 1, (prime - 1) // 2, prime) == prime - 1


def test_sums_products_and_reciprocals_are_those_of_integers() -> None:
    product, total, inverse = field.multiply(A, B), field.add(A, B), field.reciprocal(A)
    for level, prime in enumerate(field.PRIMES):
        for place, (a, b) in enumerate(pairs(level)):
            assert product[level, place] == a * b % prime
            assert total[level, place] == (a + b) % prime
            assert a * int(inverse[level, place]) % prime == 1


def test_exponentials_turn_sums_into_products() -> None:
    both = field.exponential(field.add(A, B))
    assert (both == field.multiply(field.exponential(A), field.exponential(B))).all()


def test_exponentials_use_up_a_level() -> None:
    assert len(field.exponential(A)) == field.LEVELS - 1


def test_roots_of_squares_square_to_them() -> None:
    squares = field.multiply(A, A)
    assert (field.multiply(field.root(squares), field.root(squares)) == squares).all()


def test_the_bijection_has_an_inverse() -> None:
    assert (field.cube_root(field.cube(A)) == A).all()


def test_products_of_matrices_are_exact() -> None:
    a, b = field.draw_residues(GENERATOR, 2, (3, 5, 7)), field.draw_residues(GENERATOR, 2, (3, 7, 4))
    made = field.matmul(a, b)
    for level in range(2):
        right = (a[level].astype(object) @ b[level].astype(object)) % field.PRIMES[level]
        assert (made[level] == right).all()


def test_long_sums_do_not_overflow() -> None:
    row = np.full((1, 20_000), field.PRIMES[0] - 1, dtype=np.int64)
    assert field.total(row, 1)[0] == field.PRIMES[0] - 20_000
    assert field.running_total(row, 1)[0, -1] == field.PRIMES[0] - 20_000
