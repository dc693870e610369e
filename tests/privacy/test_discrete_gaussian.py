"""Noise against its exact probabilities, the two facts behind its account, and what the grid guarantees.

The system's randomness has no seed, so a test of a distribution fails about once in a million runs.
"""

from __future__ import annotations

import ast
import inspect
import math
import os
import time

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binomtest, chi2

from superteach.exceptions import SettingError
from superteach.privacy import discrete_gaussian as noise
from superteach.privacy.discrete_gaussian import BITS, MOST_STEPS, Grid, discrete_gaussian, grid_step

RARE = 1e-6
"""How often a test of a distribution may fail by chance."""
DRAWN = 100_000


def chances(sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """The integers that matter and their exact chances."""
    support = np.arange(-math.ceil(12 * sigma), math.ceil(12 * sigma) + 1)
    weights = np.exp(-(support**2) / (2 * sigma**2))
    return support, weights / weights.sum()


def distance(classes: np.ndarray, expected: np.ndarray) -> float:
    """The p-value of counts in classes against their chances; classes hardly ever met are put together."""
    counts = np.bincount(classes, minlength=len(expected))
    often = expected * len(classes) >= 20
    seen = np.append(counts[often], counts[~often].sum())
    asked = np.append(expected[often], expected[~often].sum()) * len(classes)
    seen, asked = seen[asked > 0], asked[asked > 0]
    return float(chi2.sf(((seen - asked) ** 2 / asked).sum(), len(seen) - 1))


def worst(drawn: np.ndarray, sigma: int) -> float:
    """The smallest p-value of three looks at a sample: its size, its last digits, its tails."""
    support, expected = chances(sigma)
    assert np.abs(drawn).max() <= support[-1]
    edges = np.unique(support[np.searchsorted(np.cumsum(expected), np.linspace(0, 1, 60)[1:-1])])
    sizes = distance(
        np.searchsorted(edges, drawn), np.bincount(np.searchsorted(edges, support), expected, len(edges) + 1)
    )
    digits = distance(drawn % 48, np.bincount(support % 48, expected, 48))
    far = np.abs(support) > 3.5 * sigma
    tails = binomtest(int((np.abs(drawn) > 3.5 * sigma).sum()), len(drawn), expected[far].sum()).pvalue
    return min(sizes, digits, tails)


@pytest.mark.long(every=4)
@pytest.mark.parametrize(
    ("sigma", "size"),
    [(1, 10 * DRAWN), (2, DRAWN), (3, DRAWN), (10, DRAWN), (1000, DRAWN), (2**14, DRAWN), (2**20, DRAWN)],
)
def test_draws_have_the_exact_chances(sigma, size):
    """A million of σ = 1, where one coin of the sixth turn that falls wrong is seen."""
    drawn = discrete_gaussian(sigma, size)
    assert drawn.dtype == np.int64
    assert drawn.shape == (size,)
    assert worst(drawn, sigma) > RARE / 3


@pytest.mark.parametrize(
    "broken",
    [
        lambda sigma: discrete_gaussian(max(sigma // 2, 1), DRAWN),
        lambda sigma: discrete_gaussian(round(1.03 * sigma), DRAWN),
        lambda sigma: discrete_gaussian(sigma, DRAWN) // 2 * 2,
        lambda sigma: np.abs(discrete_gaussian(sigma, DRAWN)),
        lambda sigma: discrete_gaussian(sigma, DRAWN) + sigma // 20,
        lambda sigma: np.clip(discrete_gaussian(sigma, DRAWN), -3 * sigma, 3 * sigma),
    ],
    ids=["halved", "3 % more", "even", "one side", "moved", "cut"],
)
def test_the_same_looks_catch_broken_noise(broken):
    assert worst(broken(1000), 1000) < RARE / 3


def test_a_rounded_continuous_gaussian_is_not_this_noise():
    rounded = np.rint(np.random.default_rng(0).normal(size=DRAWN)).astype(np.int64)
    assert worst(rounded, 1) < RARE / 3


def test_variance_and_symmetry():
    """Six standard errors."""
    drawn = discrete_gaussian(2**14, DRAWN) / 2**14
    assert abs(drawn.mean()) < 6 / math.sqrt(DRAWN)
    assert abs((drawn**2).mean() - 1) < 6 * math.sqrt(2 / DRAWN)
    assert abs((drawn**3).mean()) < 6 * math.sqrt(15 / DRAWN)
    assert abs((drawn**4).mean() - 3) < 6 * math.sqrt(96 / DRAWN)


def test_no_seed_has_a_say(monkeypatch):
    """Two draws differ whatever is seeded, and are one where the system's bytes are: nothing else comes in."""
    drawn = []
    for _ in range(2):
        np.random.seed(7)  # noqa: NPY002
        drawn.append(discrete_gaussian(2**14, 100))
    assert (drawn[0] != drawn[1]).any()
    fixed = []
    for _ in range(2):
        monkeypatch.setattr(os, "urandom", np.random.default_rng(7).bytes)
        fixed.append(discrete_gaussian(2**14, 100))
    assert (fixed[0] == fixed[1]).all()
    names = {getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(ast.parse(inspect.getsource(noise)))}
    assert not names & {"random", "default_rng", "Generator", "seed"}


def test_a_lesson_of_noise_is_drawn_at_once():
    start = time.perf_counter()
    discrete_gaussian(2**14, 50_000)
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize("sigma", [0, -1, 1.5, 2**20 + 1])
def test_a_sigma_out_of_range_is_named(sigma):
    with pytest.raises(SettingError, match=f"sigma={sigma!r} must be"):
        discrete_gaussian(sigma, 1)


def test_no_numbers_need_no_noise():
    assert discrete_gaussian(3, 0).shape == (0,)


# The facts behind the account ---------------------------------------------------------------------------


@pytest.mark.parametrize("tau", [0.6, 0.8, 1.0])
def test_a_discrete_gaussian_comes_from_a_continuous_one_but_for_the_bound(tau):
    """A continuous value of variance σ² − τ², replaced by a discrete one of variance τ² around it, by quadrature."""
    sigma = 2.0
    around = np.arange(-40, 41)

    def joint(y: float, x: int) -> float:
        given = np.exp(-((around - y) ** 2) / (2 * tau**2))
        density = math.exp(-(y**2) / (2 * (sigma**2 - tau**2))) / math.sqrt(2 * math.pi * (sigma**2 - tau**2))
        return density * given[x + 40] / given.sum()

    support, exact = chances(sigma)
    bound = 4.2 * math.exp(-2 * math.pi**2 * tau**2)
    for x in range(5):
        found = quad(joint, -12, 12, args=(x,), epsabs=1e-13, epsrel=1e-12, limit=400)[0]
        assert abs(math.log(found / exact[support == x][0])) <= bound + 1e-10
    assert 4.2 * math.exp(-8 * math.pi**2) < 2.2e-34  # the module's own, τ² = 4


# The grid ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sd", [0.003, 1.0, 40.0, 1e6])
@pytest.mark.parametrize("numbers", [1, 66, 5050, 50_000])
@pytest.mark.parametrize("sensitivity", [0.5, 1.0, 9.0])
def test_the_grid_covers_rounding_and_no_more(sd, numbers, sensitivity):
    """The inequality holds at σ and fails at σ − 1; the step is a power of two near 2⁻¹⁴ of the noise."""
    try:
        grid = grid_step(sd, numbers, sensitivity)
    except SettingError:
        assert sd * math.sqrt(numbers) / sensitivity > 2**17
        return

    def ratio(sigma: int) -> float:
        moved = sensitivity + 1.01 * math.sqrt(numbers) * grid.step
        return moved / (grid.step * math.sqrt(sigma**2 - 4))

    assert ratio(grid.sigma) <= sensitivity / sd < ratio(grid.sigma - 1)
    assert math.log2(grid.step).is_integer()
    assert grid.sigma >= 2**BITS
    assert grid.step <= sd / 2**BITS < 2 * grid.step


def test_rounding_moves_a_change_by_no_more_than_the_grid_counts_with():
    """Two tables that differ in one row, on the grid."""
    rng = np.random.default_rng(3)
    grid = grid_step(40.0, 500)
    for _ in range(200):
        here = rng.normal(scale=100, size=500)
        row = rng.normal(size=500)
        there = here + row / np.linalg.norm(row)
        moved = np.linalg.norm(grid.to_integers(there) - grid.to_integers(here))
        assert moved <= 1 / grid.step + math.sqrt(500)


def test_numbers_go_to_the_nearest_step_and_back():
    grid = Grid(2.0**-10, 2**BITS)
    values = np.random.default_rng(1).normal(size=1000)
    assert np.abs(grid.to_integers(values) * grid.step - values).max() <= grid.step / 2
    assert grid.to_integers(np.array([2.0**-11 * 3, -0.0])).tolist() == [2, 0]
    assert grid.noise(5).shape == (5,)


@pytest.mark.parametrize("value", [2.0**36, -(2.0**60), math.inf, -math.inf])
def test_a_number_beyond_the_grid_is_cut_and_tells_no_more_than_before(value):
    """An error would tell that a table is large (F11); cutting moves no two replies farther apart."""
    grid = Grid(2.0**-10, 2**14)
    assert grid.to_integers(np.array([2.0**35])).tolist() == [MOST_STEPS]
    assert grid.to_integers(np.array([0.0, value])).tolist() == [0, int(math.copysign(MOST_STEPS, value))]
    here, there = np.array([2.0**35 - 0.5, 1.0]), np.array([2.0**35 + 0.5, 1.0])
    assert np.linalg.norm(grid.to_integers(there) - grid.to_integers(here)) <= np.linalg.norm(there - here) / grid.step


def test_grids_that_cannot_be_are_named():
    for given, reason in [
        ({"sd": 0.0}, "sd=0.0"),
        ({"sd": math.inf}, "sd=inf"),
        ({"sensitivity": -1.0}, "sensitivity=-1.0"),
        ({"numbers": 0}, "numbers=0"),
        ({"sensitivity": 1e-6}, "release fewer numbers or lower bits=18"),
    ]:
        with pytest.raises(SettingError, match=reason):
            grid_step(**{"sd": 40.0, "numbers": 100, **given})
