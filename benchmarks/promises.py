"""What promises cost: risk under each of them, the stated bound against the true risk, and the time of masks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from benchmarks import pools
from benchmarks.table import Measurements
from superteach import Lesson, SuperTeacher
from superteach.errors import DataError
from superteach.privacy.fixed import add_words, from_words, to_words
from superteach.privacy.masks import in_one_process

SEED = 7_000
"""The first of the pools: none of them was looked at while constants were chosen."""


@dataclass(frozen=True)
class Case:
    """A pool, how it is held, and the risk asked for."""

    kind: str
    width: int
    rows: int
    asked: str
    teachers: int = 1
    raw: bool = False
    slow: bool = False
    settings: tuple[tuple[str, Any], ...] = (("promise", "epsilon"),)


SHARED = (("promise", "epsilon"), ("colluders", 3))
LOCAL = (("promise", "epsilon"), ("masks", False))
CASES = (
    Case("logistic", 10, 5_000, "0.08"),
    Case("logistic", 10, 50_000, "0.006"),
    Case("logistic", 10, 500_000, "0.0006", slow=True),
    Case("logistic", 10, 5_000, "0.12", 10, settings=SHARED),
    Case("logistic", 10, 50_000, "0.009", 10, settings=SHARED),
    Case("logistic", 10, 500_000, "0.0009", 10, slow=True, settings=SHARED),
    Case("logistic", 10, 50_000, "reported", 10, settings=LOCAL),
    Case("logistic", 10, 50_000, "0.02", raw=True),
    Case("logistic", 30, 500_000, "0.05 (worst)", slow=True),
    Case("ridge", 10, 50_000, "0.01"),
    Case("ridge", 10, 500_000, "0.0005", slow=True),
    Case("logistic", 10, 50_000, "beside", 10, settings=(("promise", "closed"),)),
    Case("logistic", 10, 50_000, "beside", 10, settings=(("promise", "masked"),)),
    Case("logistic", 10, 50_000, "beside", 10, settings=(("promise", "masked"), ("method", "dual"))),
    Case("logistic", 10, 50_000, "beside", settings=(("promise", "epsilon"), ("method", "dual"))),
    Case("logistic", 10, 500_000, "beside", slow=True, settings=(("promise", "epsilon"), ("method", "dual"))),
    Case("logistic", 10, 50_000, "beside", 10, settings=(("promise", "open"),)),
    Case("logistic", 10, 50_000, "beside", 10, settings=(("promise", "open"), ("method", "dual"))),
)


def _lesson(case: Case, seed: int) -> tuple[Lesson, float]:
    """One lesson, and by what its risk is divided: ‖θ*‖ for ridge."""
    make = pools.regression if case.kind == "ridge" else pools.classification
    X, y, owner = make(case.rows, case.width, case.teachers, seed=seed)
    draw = np.random.default_rng(50_000 + seed)
    ridge = case.rows / 5_000 if case.kind == "ridge" else pools.RIDGE_PER_ROW * case.rows
    if case.kind == "ridge":
        learner: Any = Ridge(alpha=ridge, fit_intercept=case.raw)
    else:
        learner = LogisticRegression(C=1.0 / ridge, fit_intercept=case.raw, solver="newton-cholesky", tol=1e-10)
    fitted = learner.fit(X, y)
    truth = np.append(np.ravel(fitted.coef_), np.ravel(fitted.intercept_)) if case.raw else np.ravel(fitted.coef_)
    noise = draw.standard_normal(len(truth))
    goal = truth + noise * np.linalg.norm(truth) / np.linalg.norm(noise)
    if case.raw:  # the same rows in units that differ by a factor of 25
        scales = np.exp(draw.uniform(np.log(0.2), np.log(5.0), case.width))
        X, goal = X * scales, goal / np.append(scales, 1.0)
    teacher = SuperTeacher(learner, goal, budget=0.04, **dict(case.settings))
    lesson: Lesson = teacher.fit(X, y, groups=owner if case.teachers > 1 else None).lesson_
    return lesson, float(np.linalg.norm(goal)) if case.kind == "ridge" else 1.0


def _risks(quick: bool, cases: Sequence[Case] = CASES, first: int = SEED, pools: int = 10) -> Measurements:
    table = Measurements(
        "Risk under a promise, ε = 1, δ = 1e-6, lessons of 4 %; goal moved by its own length; ridge relative to the goal",
        (
            "learner", "d", "N", "K", "how", "pools", "all rows", "median risk", "worst", "asked",
            "stated/true (covered)", "rounds", "seconds",
        ),
    )  # fmt: skip
    for case in cases:
        if quick and case.slow:
            continue
        lessons = [_lesson(case, first + seed) for seed in range(pools)]
        risks = [lesson.risk / unit for lesson, unit in lessons]
        stated = [one.stated_risk / one.risk for one, _ in lessons if one.stated_risk is not None]
        covered = f"{sum(one >= 1.0 for one in stated)} of {len(stated)}"
        how = ", ".join(str(value) for _, value in case.settings if value is not False)
        how = how.replace("epsilon, 3", "epsilon, masks, t = 3") + (", local noise" if case.settings == LOCAL else "")
        table.rows.append(
            (
                case.kind + (", raw units, intercept" if case.raw else ""), case.width, case.rows, case.teachers, how,
                len(risks), float(np.median([lesson.pool_risk / unit for lesson, unit in lessons])),
                float(np.median(risks)), max(risks), case.asked,
                f"{np.median(stated):.2g} ({covered})" if stated else "", max(one.rounds for one, _ in lessons),
                float(np.median([one.seconds for one, _ in lessons])),
            )
        )  # fmt: skip
    return table


def _covered(lessons: int) -> Measurements:
    table = Measurements(
        "Stated 95 % bound, over pools of 20,000 rows and 10 columns (asked: covers 93 %, median at most 4 × the risk)",
        ("ε", "lessons", "stated", "covered", "median stated/true"),
    )
    for epsilon in (1.0, 3.0):
        found = []
        for seed in range(lessons):
            case = Case("logistic", 10, 20_000, "", settings=(("promise", "epsilon"), ("epsilon", epsilon)))
            found.append(_lesson(case, SEED + 100 + seed)[0])
        stated = [one for one in found if one.stated_risk is not None]
        ratios = [float(one.stated_risk or 0.0) / one.risk for one in stated]
        share = f"{100 * np.mean(np.array(ratios) >= 1.0):.3g} %"
        table.rows.append((epsilon, len(found), len(stated), share, float(np.median(ratios))))
    return table


def _masks() -> Measurements:
    table = Measurements(
        "Masks of 50 teachers, 100 columns (asked: 5 ms per teacher and round, relative error of sums 1e-12)",
        ("numbers", "ms per teacher and round", "relative error"),
    )
    maskers = in_one_process(50)
    draw = np.random.default_rng(0)
    for numbers in (102, 5_253):
        values = draw.lognormal(0.0, 10.0, (50, numbers)) * draw.choice([-1.0, 1.0], numbers)
        words, times = [], []
        for masker, own in zip(maskers, values, strict=True):
            started = time.perf_counter()
            words.append(masker.mask(numbers, to_words(own, 50)))
            times.append(time.perf_counter() - started)
        total, true = from_words(add_words(*words)), values.sum(axis=0)
        table.rows.append((numbers, 1e3 * float(np.median(times)), float(np.max(np.abs(total / true - 1.0)))))
    return table


def _states() -> Measurements:
    table = Measurements(
        "ACS income by state, standardised, δ = 5e-7; 1 % of the rows",
        (
            "goal", "promise", "ε", "K", "N", "rows chosen", "risk", "stated risk", "agreement", "risk of all rows",
            "their agreement", "seconds",
        ),
    )  # fmt: skip
    from superteach_lab.data import load_acs_income

    try:
        found = load_acs_income(categories="one-hot")
    except DataError as error:
        table.title += f" (not measured: {error})"
        return table
    X, y, state = found.data, found.target, found.groups
    X = (X - X.mean(axis=0)) / X.std(axis=0)  # by public means and deviations
    learner = LogisticRegression(solver="newton-cholesky", tol=1e-10)

    def fitted(some: Any) -> Any:
        model = learner.fit(X[some], y[some])
        return np.append(np.ravel(model.coef_), model.intercept_)

    everyone, away = np.ones(len(y), dtype=bool), state != "NY"
    truth, noise = fitted(everyone), np.random.default_rng(SEED).standard_normal(X.shape[1] + 1)
    moved = truth + noise * np.linalg.norm(truth) / np.linalg.norm(noise)
    goals = (("moved by its own length", moved, everyone), ("New York's, taught by the others", fitted(~away), away))
    kept = (("epsilon", 1.0), ("masked", 1.0), ("closed", 1.0), ("open", 1.0))
    for (goal, wanted, some), (promise, epsilon) in product(goals, kept):
        teacher = SuperTeacher(learner, wanted, budget=0.01, promise=promise, epsilon=epsilon, delta=5e-7)
        one: Lesson = teacher.fit(X[some], y[some], groups=state[some]).lesson_
        bound = "none" if one.stated_risk is None else f"{one.stated_risk:.3g}"
        sides = [X[some] @ model[:-1] + model[-1] > 0.0 for model in (wanted, truth if some.all() else fitted(some))]
        table.rows.append(
            (
                goal, promise, f"{epsilon:g}" if promise == "epsilon" else "", len(one.teachers), one.pool_rows, one.size,
                one.risk, bound, f"{100 * one.consistency:.4g} %", one.pool_risk,
                f"{100 * np.mean(sides[0] == sides[1]):.3g} %", one.seconds,
            )
        )  # fmt: skip
    return table


PARTS: dict[str, Callable[[bool], Measurements]] = {
    "risks": _risks,
    "fresh": lambda quick: _risks(quick, (*CASES[:2], *CASES[7:9]), SEED + 2_000, 20),
    "stated": lambda quick: _covered(20 if quick else 200),
    "masks": lambda quick: _masks(),
    "states": lambda quick: _states(),
}
"""Tables of this benchmark: `python -m benchmarks promises.masks` measures one of them."""


def run(quick: bool) -> Iterator[Measurements]:
    """Yield the tables of this benchmark."""
    for part in PARTS.values():
        yield part(quick)
