"""Scales the paper may have meant, on small synthetic pools; docs/generated/readings.md has the published data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score

from superteach import SuperTeacher
from superteach.goals import PerturbedFit
from superteach.learner import Learner
from superteach.losses import Squared
from superteach_lab.experiments import readings
from superteach_lab.paper import bench, printed
from superteach_lab.paper.printed import Printed

FACT = Printed(0.1, 80.0, 0.8, 1.0)


def rows_of(seed: int = 3, rows: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns of different means and spreads, and one that never changes."""
    rng = np.random.default_rng(seed)
    X = 5.0 * rng.standard_normal(4) + np.array([0.1, 1.0, 20.0, 0.0]) * rng.standard_normal((rows, 4))
    y = 30.0 + X @ np.array([40.0, 3.0, -1.0, 0.5]) + 4.0 * rng.standard_normal(rows)
    return X, y, np.arange(rows) % 5


def test_columns_and_target_have_the_scale_that_is_named():
    X, y, _ = rows_of()
    moving = X[:, :3]
    assert readings.scale_columns(X, "raw") is X
    unit, box = (readings.scale_columns(X, how) for how in ("standardised", "[0, 1]"))
    np.testing.assert_allclose(unit[:, :3] * moving.std(axis=0) + moving.mean(axis=0), moving)
    np.testing.assert_allclose(box[:, :3] * np.ptp(moving, axis=0) + moving.min(axis=0), moving)
    # The column that never changes has no spread to be divided by, only rounding errors.
    np.testing.assert_allclose([unit[:, 3], box[:, 3]], 0.0, atol=1e-10)
    assert readings.scale_target(y, "raw") is y
    np.testing.assert_allclose(readings.scale_target(y, "centred") + y.mean(), y)
    np.testing.assert_allclose(readings.scale_target(y, "standardised") * y.std() + y.mean(), y)


def test_a_standardised_target_divides_every_risk_by_its_spread():
    """Ridge is linear in y, and so is the goal: for one set of rows all lengths shrink alike, and r² stays."""
    X, y, owner = rows_of()
    X = readings.scale_columns(X[:, :3], "standardised")
    centred, unit = (readings.scale_target(y, how) for how in ("centred", "standardised"))
    first, second = (readings.deal(X, target, owner, Learner(Squared(), 2.0), trial=0) for target in (centred, unit))
    goals = [bench.goal_of(pool) for pool in (first, second)]
    np.testing.assert_allclose(goals[0], goals[1] * y.std(), rtol=1e-9)
    chosen = np.arange(0, len(y), 7)
    scores = [bench.scored(pool, chosen, goal) for pool, goal in zip((first, second), goals, strict=True)]
    assert scores[0]["risk"] == pytest.approx(scores[1]["risk"] * y.std(), rel=1e-9)
    assert scores[0]["consistency"] == pytest.approx(scores[1]["consistency"], abs=1e-9)
    found = [readings.measure(readings.Reading((), FACT, lambda trial, pool=pool: pool), 1) for pool in (first, second)]
    assert found[0].pool_risk == pytest.approx(found[1].pool_risk * y.std(), rel=1e-9)


def test_a_measurement_is_what_scikit_learn_makes_of_the_chosen_rows():
    X, y, owner = rows_of()
    X = readings.scale_columns(X[:, :3], "standardised")
    learner = Ridge(alpha=2.0, fit_intercept=False)
    teacher = SuperTeacher(
        learner, PerturbedFit(bench.GOAL_SEEDS + 5), method="dual", budget=round(FACT.fraction * len(y))
    ).fit(X, y, groups=owner)
    goal = teacher.lesson_.goal
    lesson = learner.fit(X[teacher.sample_indices_], y[teacher.sample_indices_]).coef_
    pool = Ridge(alpha=2.0, fit_intercept=False).fit(X, y).coef_
    found = readings.measure(
        readings.Reading((), FACT, lambda trial: readings.deal(X, y, owner, Learner(Squared(), 2.0), 5)), 1
    )
    assert found.pool_risk == pytest.approx(np.linalg.norm(pool - goal))
    assert found.pool_risk == pytest.approx(np.linalg.norm(pool))
    assert found.risk == pytest.approx(np.linalg.norm(lesson - goal))
    assert found.consistency == pytest.approx(r2_score(X @ goal, X @ lesson))
    assert found.to_fit == pytest.approx(r2_score(X @ pool, X @ lesson))
    assert found.best_risk <= found.risk * (1.0 + 1e-12)


@pytest.mark.parametrize(
    ("risk", "consistency", "met"),
    [(53.4, 0.84, "both"), (119.0, 0.74, "risk"), (53.2, 0.76, "consistency"), (121.0, 0.86, "–")],
)
def test_a_print_is_met_within_the_stated_bounds(risk: float, consistency: float, met: str):
    assert readings.meets(risk, consistency, FACT) == met


def test_coefficients_and_noise_are_as_named():
    """With no noise least squares finds the coefficients; with noise it leaves NOISE units of them."""
    for drawn, unit in readings.COEFFICIENTS.items():
        quiet, noisy = (readings.ridge_pool(2000, drawn, noise, 1.0, 0) for noise in (0.0, readings.NOISE))
        np.testing.assert_array_equal(quiet.X, noisy.X)
        coefficients, left, *_ = np.linalg.lstsq(quiet.X, quiet.y, rcond=None)
        assert left[0] == pytest.approx(0.0, abs=1e-12 * (quiet.y @ quiet.y))
        assert ((coefficients >= 0.0) & (coefficients <= 100.0)).all() == (drawn == "0 to 100")
        left = np.linalg.lstsq(noisy.X, noisy.y, rcond=None)[1]
        assert np.sqrt(left[0] / 2000) == pytest.approx(readings.NOISE * unit, rel=0.1)


def test_the_quick_command_prints_one_line_for_every_reading(capsys: pytest.CaptureFixture[str]):
    readings.main(["ridge", "--quick", "--trials", "1"])
    lines = capsys.readouterr().out.splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    headings, _, *body = table
    assert len(body) == len(readings.ridge_readings((5_000,))) == 12
    assert len({tuple(line[:4]) for line in body}) == 12
    fact = printed.RIDGE[5_000, 5]["dual"]
    assert fact is not None
    for line in body:
        risk, ratio = (float(line[headings.index(name)]) for name in ("risk", "× print"))
        assert ratio == pytest.approx(risk / fact.risk, rel=0.01)
    assert any(line.startswith(f"- Printed {fact.risk} and {fact.consistency}") for line in lines)


def test_an_unknown_table_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        readings.main(["wine"])
    assert "'wine' is none of superconduct, ridge, higgs" in capsys.readouterr().err
