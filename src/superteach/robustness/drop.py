"""`superteach.drop`: the fewest rows without which a finding falls, between a proof and a search."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from scipy import sparse

from superteach.exceptions import DataError, GoalError, LearnerError, Setting, SettingError, listed, suggestion
from superteach.io.frames import check_container, check_numbers, load, our_errors, refuse_text
from superteach.io.validation import Part, make_teachers
from superteach.learner import Learner
from superteach.losses.scalar import Logistic, Squared
from superteach.optim.problem import ridge_penalty
from superteach.robustness import intervals, regions
from superteach.robustness.leaderboard import check_known, read_votes
from superteach.robustness.regression import (
    STANDARD_ERRORS,
    Coefficient,
    Regression,
    Significance,
    StandardErrors,
    Statistic,
)
from superteach.robustness.search import Removal, RemovalSearch
from superteach.types import Array, Json, Positions, Raw, is_number, is_whole

MOST_SHARE = 0.5
"""Share of the rows that a search may remove, where `most` is not given."""
FREE = 3
"""Free coefficients up to which regions are bisected; beyond, the number of regions explodes."""
EQUAL = 1e-14
"""Share of the products in a coefficient that rounding may leave of it: below it a coefficient is its value already."""
SECONDS = 60.0
"""Wall time of a proof over regions, after which the bound reached is returned."""
Report = Callable[[str], None]
Proof = Literal["regions", "intervals", "none"]
PROOFS: dict[Proof, str] = {
    "regions": "linear programmes over regions of the free coefficients",
    "intervals": "intervals of what removed rows can do to each other",
    "none": "no proof for this question",
}


@dataclass(frozen=True, eq=False)
class Step:
    """The best removal of one size that was found."""

    rows: Positions
    """Rows removed, ascending."""
    coefficient: float
    """The coefficient without them."""
    distance: float
    """What still lacks: the coefficient's distance from the value, or the near end of its interval from 0."""

    @property
    def count(self) -> int:
        """How many rows are removed."""
        return len(self.rows)


@dataclass(frozen=True, eq=False, repr=False)
class Robustness:
    """How few rows carry a finding: at least `least` must go, and without `rows` it no longer holds."""

    question: str
    """What is to happen, in words."""
    total: int
    """All rows."""
    before: float
    """The coefficient on all rows."""
    rows: Positions | None
    """Rows without which it happens, ascending, by a refit; None where none were found."""
    after: float | None
    """The coefficient without them."""
    least: int
    """Fewer rows are proved not to be enough; 1 says nothing."""
    proof: Proof
    """How that is proved."""
    path: tuple[Step, ...]
    """The best removal found of 1, 2, … rows."""
    certificate: tuple[regions.Slice, regions.RegionProof] | None = None
    """What a proof over regions consists of."""
    error: float | None = None
    """The standard error on all rows, where significance is asked about."""
    names: tuple[str, str] | None = None
    """First and second place of a leaderboard."""

    @property
    def exact(self) -> bool:
        """Whether the rows found are proved to be the fewest."""
        return self.rows is not None and self.least >= len(self.rows)

    def verify(self) -> bool:
        """Check a proof over regions anew, one sum for each region; False where there is none."""
        return self.certificate is not None and regions.verify(*self.certificate)

    def sentence(self) -> str:
        """Say what is known, in words."""
        if self.rows is None:
            tried = f"No removal was found by which {self.question}"
            return f"{tried}; fewer than {self.least:,} of {self.total:,} rows are proved not to be enough."
        count, after = len(self.rows), "" if self.after is None else f" ({self.before:.4g} becomes {self.after:.4g})"
        what = "votes" if self.names else "rows"
        rows = f"{count:,} of {self.total:,} {what}"
        if count == 1:
            return f"Without 1 of {self.total:,} {what} {self.question}{after}."
        if self.exact:
            return f"Without {rows} {self.question}{after}; no {count - 1:,} are enough, which is proved."
        known = (
            f"fewer than {self.least:,} are proved not to be enough"
            if self.least > 1
            else "there is no proof from below"
        )
        return f"Without {rows} {self.question}{after}; {known}."

    def __repr__(self) -> str:
        found = "none found" if self.rows is None else f"{len(self.rows)} found"
        after = "" if self.after is None else f", {self.before:.4g} becomes {self.after:.4g}"
        return f"<Robustness: {self.least} proved, {found} of {self.total} rows{after}>"

    def as_dict(self) -> Json:
        """Return values for JSON; rows by number, from 0."""
        return {
            "question": self.question,
            "sentence": self.sentence(),
            "total": self.total,
            "before": self.before,
            "after": self.after,
            "standard_error": self.error,
            "proved": self.least,
            "found": None if self.rows is None else len(self.rows),
            "proof": self.proof,
            "rows": None if self.rows is None else self.rows.tolist(),
            "path": [
                {"rows": step.rows.tolist(), "coefficient": step.coefficient, "distance": step.distance}
                for step in self.path
            ],
        }


def drop(
    X: object,
    y: object = None,
    learner: object = None,
    *,
    coefficient: object = None,
    value: float = 0.0,
    significance: float | None = None,
    standard_errors: StandardErrors = "classical",
    groups: object = None,
    winner: object = None,
    loser: object = None,
    most: int | None = None,
    seconds: float = SECONDS,
    report: Report = lambda text: None,
) -> Robustness:
    """Find the fewest rows without which a coefficient passes a value, or is no longer significant.

    `coefficient` is a column's name or number, or a vector a for a'θ (intercept last where the learner fits one). It is to
    end on the other side of `value`; or, with `significance` (a level such as 0.05), its confidence interval is to reach 0,
    with `standard_errors` "classical", "HC0", "HC1" or "clustered" by `groups`. The default learner is
    LogisticRegression for two classes and LinearRegression for numbers.
    `most` limits the rows removed (default: half), `seconds` the proof.

    With `winner` and `loser` (columns of X, or one name for each vote) the question is whether the first place of the
    Bradley-Terry leaderboard changes; X may then be None.
    """
    if not (is_number(seconds) and seconds >= 0.0):
        raise SettingError(f"seconds={seconds!r} must be a number of at least 0")
    if winner is not None or loser is not None:
        others = {"y": y, "coefficient": coefficient, "significance": significance, "groups": groups}
        if given := [name for name, other in others.items() if other is not None]:
            raise SettingError(f"winner and loser ask about the first place; leave {listed(given)} out")
        return _first_place(X, winner, loser, learner, most, float(seconds), report)
    if coefficient is None:
        raise GoalError("coefficient is missing; name the column whose coefficient is asked about")
    if significance is None and (groups is not None or standard_errors != "classical"):
        raise SettingError(
            Setting("standard_errors"),
            " and ",
            Setting("groups"),
            " go with ",
            Setting("significance"),
            "; give a level",
        )
    if not (is_number(value) and np.isfinite(value)):
        raise SettingError(f"value={value!r} must be a finite number")
    if significance is not None and value != 0.0:
        raise SettingError(Setting("value", value), " and ", Setting("significance"), " are two questions; give one")
    regression, names, student = _regression(X, y, learner)
    limit = _limit(most, regression.count)
    vector = _vector(coefficient, names, student)
    direction = regression.direction(vector)
    if direction is None and regression.count < len(vector):
        raise DataError(
            f"{regression.count} rows do not determine {len(vector)} coefficients; give more rows, or take a learner with "
            "a penalty"
        )
    if direction is None:
        raise GoalError(
            Setting("coefficient", coefficient),
            " is not determined by the rows: its column repeats others, or is constant beside an intercept; leave one of "
            "them out",
        )
    model = regression.model
    if not np.isfinite(model).all():
        raise DataError("the learner has no finite model on these rows; add a penalty, or leave columns out")
    before = float(direction @ model)
    name = coefficient if isinstance(coefficient, str) else "the coefficient"
    if significance is not None:
        wanted = _significance(significance, standard_errors, groups, direction * np.sign(before), regression.count)
        if wanted.value(regression, np.ones(regression.count, dtype=bool), model) <= 0.0:
            raise GoalError(f"{name} is not significant at {significance:g} on all rows; there is nothing to take away")
        question = f"{name} is no longer significant at {significance:g}"
        return _answer(regression, wanted, float(np.sign(before)), limit, question, float(seconds), report)
    rounding = EQUAL * (float(np.linalg.norm(direction) * np.linalg.norm(model)) + abs(value))
    if abs(before - value) <= rounding:
        raise GoalError(f"{name} is {value:g} on all rows, which is the value it is to pass; name another value")
    sign = 1.0 if before > value else -1.0
    statistic = Coefficient(sign * direction, sign * float(value))
    question = f"{name} changes its sign" if value == 0.0 else f"{name} passes {value:g}"
    return _answer(regression, statistic, sign, limit, question, float(seconds), report)


def _answer(
    regression: Regression,
    statistic: Statistic,
    sign: float,
    limit: int,
    question: str,
    seconds: float,
    report: Report,
) -> Robustness:
    """Search, prove, and search again from what the proof has found out."""
    search = RemovalSearch(regression, statistic, limit, report=report)
    least, proof, certificate = _prove(statistic, search, search.run(), seconds, report)
    everyone = np.ones(regression.count, dtype=bool)
    error = None
    if isinstance(statistic, Significance):
        error = statistic.standard_error(regression, everyone, regression.model)
    return _result(question, search, sign, least, proof, certificate=certificate, error=error)


def _result(question: str, search: RemovalSearch, sign: float, least: int, proof: Proof, **more: Any) -> Robustness:
    """Put together what a search has found and what is proved."""
    regression, direction, found = search.regression, search.statistic.direction, search.fewest()
    return Robustness(
        question=question,
        total=regression.count,
        before=sign * float(direction @ regression.model),
        rows=None if found is None else found.rows,
        after=None if found is None else sign * float(direction @ found.model),
        least=least,
        proof=proof,
        path=tuple(Step(one.rows, sign * float(direction @ one.model), one.value) for one in search.path()),
        **more,
    )


def _prove(
    statistic: Statistic, search: RemovalSearch, found: Removal | None, seconds: float, report: Report
) -> tuple[int, Proof, tuple[regions.Slice, regions.RegionProof] | None]:
    """Prove by intervals, which take little time, and over regions where few coefficients are free."""
    regression = search.regression
    if not isinstance(regression.loss, Squared | Logistic) or regression.per_row or seconds == 0.0:
        return 1, "none", None
    enough = search.most + 1 if found is None else len(found.rows)
    few = regression.width <= FREE + 1
    what: regions.Slice | None = None
    if isinstance(statistic, Coefficient):
        what = regions.Slice(regression, statistic.direction, statistic.threshold) if few else None
    else:
        assert isinstance(statistic, Significance)
        if statistic.errors in ("HC0", "HC1") and isinstance(regression.loss, Squared):
            return intervals.least_rows_robust(regression, statistic, enough, FREE, seconds), "intervals", None
        classical = statistic.errors == "classical" and isinstance(regression.loss, Squared)
        if not classical or regression.penalty.any() or not few:
            return 1, "none", None
        what = regions.SignificanceSlice(regression, statistic, enough)
    least: int = 1
    proof: Proof = "none"
    certificate: tuple[regions.Slice, regions.RegionProof] | None = None
    if what is not None and what.usable:
        made = regions.prove(what, enough, seconds, report)
        if made.proof is not None:
            least, proof, certificate = made.least, "regions", (what, made.proof)
        if found is None or least < len(found.rows):
            search.improve(regions.rounded(made.weights, search.most))
        better = search.fewest()
        if better is not None and least >= len(better.rows):
            return len(better.rows), "regions", certificate
    if isinstance(statistic, Coefficient):
        distance = statistic.value(regression, np.ones(regression.count, dtype=bool), regression.model)
        better = search.fewest()
        enough = search.most + 1 if better is None else len(better.rows)
        bound = intervals.IntervalBound(regression)
        by_intervals = bound.least_rows(statistic.direction, distance, enough, time.monotonic() + seconds, report)
        if by_intervals > least or proof == "none":
            return by_intervals, "intervals", None
    return least, proof, certificate


def _regression(X: object, y: object, learner: object) -> tuple[Regression, list[object], Learner]:
    """Check rows, targets and learner, and whiten the rows."""
    if y is None:
        raise DataError("y is missing; give the target of each row (or winner and loser, for a leaderboard)")
    refuse_text(y, "y", "the target of each row")
    if hasattr(learner, "steps"):
        raise LearnerError(
            "drop takes a plain learner, not a Pipeline: transform the rows first (pipeline[:-1]), and give its last step"
        )
    X, y = load(X), load(y)
    check_container(X)
    columns = list(getattr(X, "column_names", None) or getattr(X, "columns", []))
    with our_errors(X):
        check_numbers(X)
        dense: Any = X.toarray() if isinstance(X, sparse.spmatrix | sparse.sparray) else X
        features = np.asarray(dense)
        if features.dtype.kind not in "biuf":
            features = features.astype(np.float64)
    if features.ndim != 2:
        raise DataError(f"X has shape {features.shape}; rows × columns are needed")
    target = np.asarray(y)
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    student = Learner.of(_default(target) if learner is None else learner)
    names = columns or list(range(features.shape[1]))
    (teacher,), classes = make_teachers([Part("all rows", features, target)], names, student.loss)
    if target.ndim > 1 or (classes is not None and len(classes) > 2):
        many = f"{target.shape[1]} targets" if classes is None else f"{len(classes)} classes, {listed(list(classes))}"
        raise DataError(f"drop takes two classes or one target, y has {many}; ask about two of them at a time")
    rows = np.asarray(features, dtype=np.float64)
    if student.column:
        rows = np.column_stack([rows, np.full(len(rows), student.column)])
    penalty = ridge_penalty(student.penalty(len(rows)), rows.shape[1], student.free_intercept)
    numbers = np.asarray(teacher.target, dtype=np.float64)
    made = Regression.of(rows, numbers, student.loss, penalty.diagonal, student.ridge_per_row)
    return made, names, student


def _default(target: Raw) -> Any:
    """Take the learner that fits the targets: a classifier for two classes, least squares for numbers."""
    from sklearn.linear_model import LinearRegression, LogisticRegression

    two = target.ndim == 1 and (target.dtype.kind not in "iuf" or len(np.unique(target)) == 2)
    return LogisticRegression() if two else LinearRegression()


def _limit(most: int | None, count: int) -> int:
    if count < 2:
        raise DataError("there is one row; nothing is left when it is removed")
    limit = max(1, int(MOST_SHARE * count)) if most is None else most
    if not is_whole(limit) or not 1 <= limit < count:
        raise SettingError(f"most={most!r} must be a whole number from 1 to {count - 1}, one less than the rows")
    return int(limit)


def _significance(level: float, errors: StandardErrors, groups: object, direction: Array, count: int) -> Significance:
    if not (is_number(level) and 0.0 < level < 1.0):
        raise SettingError(Setting("significance", level), " must be a level between 0 and 1, such as 0.05")
    if errors not in STANDARD_ERRORS:
        raise SettingError(
            Setting("standard_errors", errors),
            f" must be one of {listed(STANDARD_ERRORS)}{suggestion(errors, STANDARD_ERRORS)}",
        )
    if (groups is not None) != (errors == "clustered"):
        raise SettingError(
            Setting("groups"), " goes with ", Setting("standard_errors", "clustered"), ", and clustered errors need it"
        )
    numbers: Positions | None = None
    if groups is not None:
        refuse_text(groups, "groups", "the group of each row")
        given = np.asarray(groups)
        if given.shape != (count,):
            raise DataError(f"groups have shape {given.shape}; one group for each of {count} rows is needed")
        check_known(given, "groups", "group")
        numbers = np.unique(given, return_inverse=True)[1].astype(np.int64)
        if numbers.max() == 0:
            raise DataError(f"groups hold one group alone, {given.tolist()[0]!r}; clustered errors need two at least")
    return Significance(direction, NormalDist().inv_cdf(1.0 - level / 2.0), errors, numbers)


def _vector(coefficient: object, names: Sequence[object], student: Learner) -> Array:
    """Return a such that the question is about a'θ, intercept last."""
    width = len(names) + (student.intercept != "none")
    if isinstance(coefficient, np.ndarray | list | tuple):
        vector = np.asarray(coefficient, dtype=np.float64)
        if vector.shape != (width,) or not np.isfinite(vector).all() or not vector.any():
            raise GoalError(
                f"coefficient has shape {vector.shape}; a vector of {width} finite numbers is needed, not all 0"
            )
        return vector
    place = names.index(coefficient) if coefficient in names else -1
    if place < 0 and coefficient == "intercept" and student.column:
        return np.append(np.zeros(len(names)), student.column)
    if place < 0:
        raise GoalError(
            Setting("coefficient", coefficient),
            f" is no column; the rows have {listed(names)}{suggestion(coefficient, names)}",
        )
    vector = np.zeros(width)
    vector[place] = 1.0
    return vector


def _first_place(
    table: object, winner: object, loser: object, learner: object, most: int | None, seconds: float, report: Report
) -> Robustness:
    """Ask of every rival of the first place how few votes put it ahead, the nearest first."""
    names, regression = read_votes(table, winner, loser, learner)
    limit = _limit(most, regression.count)
    model = regression.model
    first, *rivals = np.argsort(-(regression.basis @ model), kind="stable").tolist()
    ends = time.monotonic() + seconds
    bound = intervals.IntervalBound(regression)
    apart = ((rival, regression.basis[first] - regression.basis[rival]) for rival in rivals)
    questions = sorted(
        ((rival, direction, float(direction @ model)) for rival, direction in apart),
        key=lambda question: bound.first_order(question[1], question[2]),
    )
    best: RemovalSearch | None = None
    second, enough = -1, limit + 1
    lows: list[int] = []
    for rival, direction, distance in questions:
        report(f"rival {len(lows) + 1} of {len(rivals)}: {names[rival]}")
        # A rival that is proved to need more votes than the best one is out of the question.
        far = best is not None and bound.first_order(direction, distance) > 1.5 * enough + 5.0
        if seconds > 0.0 and best is not None and bound.reach(enough - 1, direction) < distance:
            lows.append(enough)
            continue
        if not far:
            search = RemovalSearch(regression, Coefficient(direction), min(limit, enough), report=report)
            found = search.run()
            if found is not None and len(found.rows) < enough:
                best, second, enough = search, rival, len(found.rows)
        lows.append(bound.least_rows(direction, distance, enough, ends, report) if seconds > 0.0 else 1)
    proof: Proof = "intervals" if seconds > 0.0 else "none"
    if best is None:
        gap = min(distance for _, _, distance in questions)
        question = f"{names[first]} loses the first place"
        return Robustness(question, regression.count, gap, None, None, min(lows), proof, (), names=(names[first], ""))
    question = f"{names[second]} takes the first place from {names[first]}"
    return _result(question, best, 1.0, min(*lows, enough), proof, names=(names[first], names[second]))
