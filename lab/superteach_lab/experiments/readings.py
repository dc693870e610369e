"""Scales that the paper may have meant, tried against three of its prints: python -m superteach_lab.experiments.readings
[--quick].

Every reading poses the paper's own problem (method "dual", λ_α and λ_θ as printed, no intercept) towards the paper's
goal, and stands at the printed share of rows and at the share with the lowest mean risk. docs/generated/readings.md says
what comes of it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.metrics import r2_score
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from superteach.coordinator.federation import Federation
from superteach.coordinator.teach import teach
from superteach.exceptions import DataError, TeachingError
from superteach.io.validation import Part, make_teachers
from superteach.learner import Learner
from superteach.losses import Logistic, Loss, Squared
from superteach.types import Array
from superteach_lab import data as datasets
from superteach_lab.fit import fitted
from superteach_lab.paper import bench, printed
from superteach_lab.paper.plan import shown

RISK_WITHIN, CONSISTENCY_WITHIN = 1.5, 0.05
"""A reading meets a print where its risk is within this factor of it, and its consistency this near."""
TEACHERS, WIDTH = 5, 10
NOISE = 2.0
"""Standard deviation of noisy targets, in units of the coefficients' root mean square (20 for N(0, 10²), as elsewhere)."""
COEFFICIENTS = {"0 to 100": 100.0 / math.sqrt(3.0), "N(0, 10²)": 10.0}
"""How coefficients are drawn, uniform as scikit-learn's make_regression has them or normal, and their root mean square."""
RIDGES: dict[str, Callable[[int], float]] = {
    "1": lambda rows: 1.0,
    "2e-4·N": lambda rows: bench.RIDGE_PER_ROW * rows,
    "0.01·N": lambda rows: 0.01 * rows,
    "0.1·N": lambda rows: 0.1 * rows,
    "N": lambda rows: 1.0 * rows,
    "15·N": lambda rows: 15.0 * rows,
}
"""Readings of Λ."""


class Reading(NamedTuple):
    """What a reading is called, the print it is set beside, and its pool in one trial."""

    labels: tuple[str, ...]
    fact: printed.Printed
    pool: Callable[[int], bench.PaperPool]


class Found(NamedTuple):
    """Means over trials: at the printed share of rows, then at the share with the lowest mean risk."""

    pool_risk: float
    """‖θ_gt − θ*‖, the risk of all rows."""
    risk: float
    consistency: float
    highest: float
    """The consistency of the trial that has the highest."""
    to_fit: float
    """The consistency with θ_gt, the fit on all rows, in the place of θ*: not what the paper defines."""
    best_share: float
    best_risk: float
    best_consistency: float


def scale_columns(X: Array, how: str) -> Array:
    """X as it is ("raw"), with mean 0 and spread 1 ("standardised"), or from 0 to 1 ("[0, 1]")."""
    if how == "raw":
        return X
    return np.asarray((MinMaxScaler() if how == "[0, 1]" else StandardScaler()).fit_transform(X))


def scale_target(y: Array, how: str) -> Array:
    """Targets as they are ("raw"), less their mean ("centred"), or over their spread too ("standardised")."""
    if how == "raw":
        return y
    return np.asarray((y - y.mean()) / (y.std() if how == "standardised" else 1.0))


def deal(X: Array, y: Array, owner: npt.NDArray[np.int64], learner: Learner, trial: int) -> bench.PaperPool:
    """A pool whose rows belong to their owners."""
    owned = [np.flatnonzero(owner == number) for number in range(int(owner.max()) + 1)]
    parts = [Part(str(number + 1), X, y, own, own) for number, own in enumerate(owned)]
    teachers, _ = make_teachers(parts, [f"x{column}" for column in range(X.shape[1])], learner.loss)
    return bench.PaperPool(X, y, tuple(teachers), learner, trial)


def measure(reading: Reading, trials: int) -> Found:
    """Teach one goal after the other, and average."""
    firsts: list[tuple[float, float, float, float]] = []
    walks: list[dict[int, tuple[float, float]]] = []
    for trial in range(trials):
        pool = reading.pool(trial)
        size = round(reading.fact.fraction * pool.rows)
        firsts.append(_at(pool, size))
        walks.append({point["size"]: (point["risk"], point["consistency"]) for point in _walk(pool, size)})
    # The paper's rule: one share for all trials, so only sizes at which every trial's learner could be fitted.
    common = set(walks[0]).intersection(*walks[1:])
    means = {size: np.mean([walk[size] for walk in walks], axis=0) for size in sorted(common)}
    best = min(means, key=lambda size: float(means[size][0]))
    pool_risk, risk, consistency, to_fit = np.mean(firsts, axis=0).tolist()
    highest = max(first[2] for first in firsts)
    return Found(pool_risk, risk, consistency, highest, to_fit, best / pool.rows, *map(float, means[best].tolist()))


def _at(pool: bench.PaperPool, size: int) -> tuple[float, float, float, float]:
    """Risk of all rows; risk, consistency with the goal, and consistency with the fit of all rows at one size."""
    engine = bench.engine_of(pool)
    try:
        federation, learner = Federation(engine), pool.learner
        lesson = teach(federation, learner, pool.goal, budget=size, method="dual")
        truth = fitted(pool.X, pool.y, learner)
    finally:
        engine.close()
    full, taught = pool.X @ truth, pool.X @ lesson.model
    same = np.mean((full > 0.0) == (taught > 0.0))
    to_fit = same if learner.loss.classifies else r2_score(full, taught)
    return lesson.pool_risk, lesson.risk, lesson.agreement, float(to_fit)


def _walk(pool: bench.PaperPool, size: int) -> Iterator[dict[str, Any]]:
    """Every size that is looked at; one by one where float64 is too coarse for a fit, which leaves some out."""
    try:
        yield from bench.walked(pool, size, method="dual")["points"]
    except TeachingError:
        for one in pool.sizes(size):
            try:
                yield from bench.taught(pool, one, method="dual")["points"]
            except TeachingError:
                continue


def meets(risk: float, consistency: float, fact: printed.Printed) -> str:
    """Which of the two printed figures a pair meets."""
    near = abs(math.log(risk / fact.risk)) <= math.log(RISK_WITHIN)
    agrees = abs(consistency - fact.consistency) <= CONSISTENCY_WITHIN
    return "both" if near and agrees else "risk" if near else "consistency" if agrees else "–"


def ridge_readings(rows: Sequence[int]) -> list[Reading]:
    """Synthetic ridge pools: coefficients, noise and Λ."""
    readings = []
    for count in rows:
        fact = printed.RIDGE[count, TEACHERS]["dual"]
        assert fact is not None
        # Λ = 1 is 2e-4·N at N = 5,000: once is enough.
        values = {RIDGES[name](count): name for name in ("1", "2e-4·N", "0.1·N", "N")}
        readings += [
            Reading(
                (f"{count:,}", drawn, "noisy" if noise else "no noise", name),
                fact,
                partial(ridge_pool, count, drawn, noise, ridge),
            )
            for drawn in COEFFICIENTS
            for noise in (0.0, NOISE)
            for ridge, name in values.items()
        ]
    return readings


def ridge_pool(rows: int, drawn: str, noise: float, ridge: float, trial: int) -> bench.PaperPool:
    """The rows of the other experiments, with coefficients and noise of one's own."""
    X, _, owner = datasets.make_regression_pool(rows, WIDTH, TEACHERS, 0.0, trial)
    generator = np.random.default_rng([7, trial])
    unit = COEFFICIENTS[drawn]
    uniform, normal = 100.0 * generator.uniform(size=WIDTH), unit * generator.standard_normal(WIDTH)
    y = X @ (uniform if drawn == "0 to 100" else normal) + noise * unit * generator.standard_normal(rows)
    return deal(X, y, owner, Learner(Squared(), ridge), trial)


def real_readings(name: str, path: str | None) -> list[Reading]:
    """A published data set: its columns, its target where it is a number, and Λ."""
    bunch = getattr(datasets, f"load_{name}")(path)
    classifies = bench.REAL[name] == "logistic"
    loss: Loss = Logistic() if classifies else Squared()
    rows = np.asarray(bunch.data, dtype=np.float64)
    target = np.where(bunch.target > 0, 1.0, -1.0) if classifies else np.asarray(bunch.target, dtype=float)
    readings = []
    for columns in ("raw", "standardised", "[0, 1]"):
        # Columns with mean 0 can follow no target's mean, as there is no intercept.
        plain = "centred" if columns == "standardised" else "raw"
        for how in ("raw",) if classifies else (plain, "standardised"):
            X, y = scale_columns(rows, columns), scale_target(target, how)
            for ridge in ("2e-4·N", "0.01·N", "N") if classifies else ("2e-4·N", "0.01·N", "N", "15·N"):
                learner = Learner(loss, RIDGES[ridge](len(y)))
                readings.append(
                    Reading(
                        (columns, *(() if classifies else (how,)), ridge),
                        printed.REAL[name][0],
                        partial(_even, X, y, learner),
                    )
                )
    return readings


def _even(X: Array, y: Array, learner: Learner, trial: int) -> bench.PaperPool:
    """As bench.published deals it out, so that its figures can be told apart by the scale alone."""
    owner = datasets.split_evenly(len(y), TEACHERS, np.random.default_rng([4, trial]))
    return deal(X, y, owner, learner, trial)


HEADINGS = {
    "superconduct": ("columns", "target", "Λ"),
    "ridge": ("N", "coefficients", "target", "Λ"),
    "higgs": ("columns", "Λ"),
}
MEASURED = (
    "all rows", "risk", "× print", "consistency (highest)", "− print", "with the fit", "best share", "risk there",
    "× print", "consistency there", "meets",
)  # fmt: skip


def table(headings: Sequence[str], readings: Sequence[Reading], trials: int) -> list[str]:
    """The lines of a Markdown table, and below it which reading comes nearest to each printed figure."""
    lines = [_line([*headings, *MEASURED]), _line(["---"] * (len(headings) + len(MEASURED)))]
    found = [(reading, measure(reading, trials)) for reading in readings]
    lines += [_line([*reading.labels, *_cells(one, reading.fact)]) for reading, one in found]
    facts = dict.fromkeys(reading.fact for reading in readings)
    lines += ["", *(_nearest([pair for pair in found if pair[0].fact == fact], fact) for fact in facts)]
    return lines


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(found: Found, fact: printed.Printed) -> Iterator[str]:
    yield from (shown(found.pool_risk), shown(found.risk), shown(found.risk / fact.risk))
    yield f"{found.consistency:.2f} ({found.highest:.2f})"
    yield from (f"{found.consistency - fact.consistency:+.2f}", f"{found.to_fit:.2f}")
    yield from (f"{100.0 * found.best_share:.3g} %", shown(found.best_risk))
    yield from (shown(found.best_risk / fact.risk), f"{found.best_consistency:.2f}")
    yield meets(found.risk, found.consistency, fact)


def _nearest(found: Sequence[tuple[Reading, Found]], fact: printed.Printed) -> str:
    def named(pair: tuple[Reading, Found]) -> str:
        return f"{' / '.join(pair[0].labels)} ({shown(pair[1].risk)}, {pair[1].consistency:.2f})"

    risk = min(found, key=lambda pair: abs(math.log(pair[1].risk / fact.risk)))
    consistency = min(found, key=lambda pair: abs(pair[1].consistency - fact.consistency))
    both = [named(pair) for pair in found if meets(pair[1].risk, pair[1].consistency, fact) == "both"]
    other = [named(pair) for pair in found if meets(pair[1].risk, pair[1].to_fit, fact) == "both"]
    return (
        f"- Printed {fact.risk} and {fact.consistency} at {100.0 * fact.fraction:.3g} % of the rows. Nearest in risk: "
        f"{named(risk)}; in consistency: {named(consistency)}. Meets both: {'; '.join(both) or 'none'}; "
        f"would, were consistency taken with the fit: {'; '.join(other) or 'none'}."
    )


def implied() -> str:
    """How long the ridge table's goals are where an error counts alike in all directions: 1 − ρ = (risk/‖θ*‖)²."""
    cells = [cell["dual"] for cell in printed.RIDGE.values()]
    goals = [cell.risk / math.sqrt(1.0 - cell.consistency) for cell in cells if cell is not None]
    fits = {name: f"{unit * math.sqrt(WIDTH):.0f}" for name, unit in COEFFICIENTS.items()}
    return (
        f"- The ten printed pairs together imply ‖θ*‖ = risk/√(1 − ρ) from {min(goals):.0f} to {max(goals):.0f}, so ‖θ_gt‖ "
        f"near {min(goals) / math.sqrt(2.0):.0f} to {max(goals) / math.sqrt(2.0):.0f}; expected of coefficients "
        f"{', '.join(f'{name}: {length}' for name, length in fits.items())}."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"{', '.join(HEADINGS)} (default: all)")
    parser.add_argument("--path", help="folder of the data (default: the data home)")
    parser.add_argument("--trials", type=int, default=10, help="goals (ridge: pools too) behind every mean")
    parser.add_argument("--quick", action="store_true", help="two trials, ridge with 5,000 rows alone")
    order = parser.parse_args(arguments)
    if unknown := sorted(set(order.names) - set(HEADINGS)):
        parser.error(f"names: {unknown[0]!r} is none of {', '.join(HEADINGS)}")
    trials = min(2, order.trials) if order.quick else order.trials
    for name in order.names or HEADINGS:
        try:
            sizes = (5_000,) if order.quick else (5_000, 10_000)
            readings = ridge_readings(sizes) if name == "ridge" else real_readings(name, order.path)
        except DataError as error:
            print(f"{name}: not measured, {error}\n", flush=True)
            continue
        lines = table(HEADINGS[name], readings, trials)
        lines += [implied()] if name == "ridge" else []
        print("\n".join([f"{name}, means of {trials} trials", "", *lines, ""]), flush=True)


if __name__ == "__main__":
    main()
