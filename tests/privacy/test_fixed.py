"""Fixed-point words against Python's own fractions and unbounded integers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from superteach.errors import DataError, InputError
from superteach.privacy.fixed import add_words, from_words, grid_to_words, to_words, words_to_grid

LAST = Fraction(1, 2**96)


def whole(row: np.ndarray) -> int:
    """A row of words as one integer, by shifting Python's own."""
    found = sum(int(word) << (64 * i) for i, word in enumerate(row))
    return found - (1 << 64 * len(row)) if found >> (64 * len(row) - 1) else found


def doubles(seed: int, count: int, low: float = -32.0, high: float = 28.0) -> np.ndarray:
    """Random doubles of both signs over sixty orders of magnitude."""
    rng = np.random.default_rng(seed)
    return rng.choice([-1.0, 1.0], count) * rng.uniform(1.0, 10.0, count) * 10.0 ** rng.uniform(low, high - 1.0, count)


def test_words_are_the_nearest_multiples_of_the_last_bit():
    edges = [0.0, -0.0, 1.0, -1.0, 2.0**-96, -(2.0**-96), 2.0**-97, 2.0**-98, -(2.0**-97), 5e-324, -5e-324, math.pi,
             2.0**64, -(2.0**64), 2.0**95 - 2.0**42, -(2.0**95) + 2.0**42, 2.0**-32, 2.0**32 - 2.0**-20]  # fmt: skip
    values = np.concatenate([edges, doubles(0, 3000)])
    for value, row in zip(values, to_words(values, 1), strict=True):
        exact = Fraction(float(value)) / LAST
        assert abs(whole(row) - exact) <= Fraction(1, 2)
        if exact.denominator == 1:
            assert whole(row) == exact


def test_doubles_come_back_as_they_were():
    """All whose last bit is worth 2^-96 or more: from 2^-44 on that is every one."""
    values = doubles(1, 5000, low=-13.0)
    np.testing.assert_array_equal(from_words(to_words(values, 1)), values)


def test_reading_is_right_to_the_last_digits():
    """Random words of every length, and those half-way or one bit off half-way between two doubles."""
    rng = np.random.default_rng(2)
    wanted = [int.from_bytes(rng.bytes(24), "little") >> int(by) for by in rng.integers(1, 192, 2000)]
    for shift in (0, 10, 11, 12, 63, 64, 100, 136):
        for near in (2**53 + 1, 2**54 - 1, 2**53):
            wanted += [(2 * near + 1 << shift) + off for off in (-1, 0, 1)]
        wanted += [2**64 - 1 << min(shift, 127), (2**53 - 1) << shift, 1 << shift]
    wanted = [value for value in wanted if value < 2**191]
    wanted += [-value for value in wanted] + [-(2**191), 2**191 - 1]
    rows = np.array([[(value >> 64 * i) % 2**64 for i in range(3)] for value in wanted], np.uint64)
    for found, value in zip(from_words(rows).tolist(), wanted, strict=True):
        assert abs(Fraction(found) - value * LAST) <= abs(value * LAST) * Fraction(34, 10**17)


@pytest.mark.parametrize("teachers", [2, 7, 50])
def test_totals_are_exact_in_any_order(teachers):
    """Against the sum of fractions and `math.fsum`; a plain sum of doubles fails this."""
    parts = [doubles(10 + k, 400, low=-12.0, high=26.0) for k in range(teachers)]
    parts[-1][::3] = -sum(parts[:-1])[::3]  # cancel to almost nothing
    words = [to_words(part, teachers) for part in parts]
    total = add_words(*words)
    for order in np.random.default_rng(3).permutation(teachers), range(teachers - 1, -1, -1):
        step = words[order[0]]
        for k in order[1:]:
            step = add_words(step, words[k])
        np.testing.assert_array_equal(step, total)
    found = from_words(total)
    np.testing.assert_allclose(found, [math.fsum(column) for column in zip(*parts, strict=True)], 3.4e-16, 0.0)
    exact = [sum(map(Fraction, column)) / LAST for column in np.stack(parts, axis=1).tolist()]
    assert [whole(row) for row in total] == exact
    assert teachers == 2 or np.max(np.abs(sum(parts) - found) / np.maximum(np.abs(found), 1e-300)) > 1e-12


def test_small_totals_keep_twelve_digits():
    """One column near 1e-15 beside one near 1e20, and no scale for either."""
    parts = [doubles(20 + k, 500, low=-16.0, high=-14.0) for k in range(50)]
    exact = [sum(map(Fraction, column)) for column in np.stack(parts, axis=1).tolist()]
    found = from_words(add_words(*(to_words(part, 50) for part in parts)))
    errors = [abs(Fraction(one) - true) for one, true in zip(found.tolist(), exact, strict=True)]
    assert max(errors) <= 50 * LAST / 2 + max(map(abs, exact)) * Fraction(1, 2**53)
    assert all(
        error <= abs(true) * Fraction(1, 10**12) for error, true in zip(errors, exact, strict=True) if abs(true) > 4e-16
    )


@pytest.mark.parametrize("bad", [2.0**95, -(2.0**95), 2.0**95 / 3, np.inf, -np.inf, np.nan])
def test_what_does_not_fit_is_an_error_that_shows_no_number(bad):
    with pytest.raises(
        DataError, match=r"1 of 4 numbers \(the first is number 2\).*1\.32e\+28.*3 teachers.*rescale"
    ) as told:
        to_words(np.array([0.0, 1.0, bad, 2.0]), 3)
    assert repr(bad) not in str(told.value)


def test_totals_at_the_bound_do_not_overflow():
    most = np.array([np.nextafter(2.0**95 / 3, 0.0)])
    assert from_words(add_words(*[to_words(most, 3)] * 3)) == 3 * most
    assert from_words(add_words(*[to_words(-most, 3)] * 3)) == -3 * most


def test_whole_numbers_take_one_word():
    rng = np.random.default_rng(4)
    parts = rng.integers(-(2**63) // 5 + 1, 2**63 // 5, (5, 300))
    total = words_to_grid(add_words(*(grid_to_words(part, 5) for part in parts)))
    assert total.dtype == np.int64
    assert total.tolist() == [sum(column) for column in parts.T.tolist()]
    for bad in (2**63 - 1, -(2**63), 2**63 // 5 + 1):
        with pytest.raises(DataError, match=r"±1844674407370955161, .* 5 teachers"):
            grid_to_words(np.array([1, bad]), 5)


def test_other_shapes_and_types_are_refused():
    one = to_words(np.ones(3), 2)
    with pytest.raises(InputError, match=r"\(1, 3\) do not add to \(3, 3\)"):
        add_words(one, one[:1])
    with pytest.raises(InputError, match="not float64"):
        add_words(np.ones((3, 3)))
