"""Lengths of sums of vectors, many at once: compared with every sum in float64."""

from __future__ import annotations

import numpy as np

from superteach_lab import lengths


def test_what_is_added_is_the_length_of_every_sum():
    draw = np.random.default_rng(0)
    ones, others = draw.standard_normal((40, 5)), draw.standard_normal((30, 5))
    found = lengths.added(*lengths.factors(ones, others))
    exact = np.square(ones[:, None] + others).sum(axis=2) - np.square(ones).sum(axis=1)[:, None]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)


def test_no_shape_raises_a_warning():
    """Warnings are errors in the tests: kernels for small matrices may raise flags for nothing."""
    with np.errstate(all="raise", under="ignore"):
        for rows in range(1, 40):
            for columns in (1, 7, 33):
                ones = np.full((rows, 10), 1e-3)
                assert np.isfinite(lengths.added(*lengths.factors(ones, ones[:columns]))).all()
