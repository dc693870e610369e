"""Rows read from a transcript: from curvatures of few rows, from rows shown, and from totals that differ by one row.

Every attack knows what a coordinator knows (questions, replies, learner, goal) and hands back candidates. The auditor, who
has the rows, counts how many of them are true ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import eig

from superteach.line.queries import AskMoments, Bend, Gather, Prepare, Private, Pull, Query, Show
from superteach.line.queries.private import read_symmetric
from superteach.mathematics.learner import Learner
from superteach.types import Array
from superteach_lab.audit.evidence import is_known, sums_at
from superteach_lab.audit.transcript import Heard, Round, Subject, Transcript, listen, spread_of, with_enough_rows

CHOSEN = "curvatures of chosen rows"
EXACT = 1e-6
"""Relative error up to which a candidate is the row."""
RANK = 1e-9
"""Eigenvalues below this part of the largest one are none."""


@dataclass(frozen=True)
class Found:
    """What became of one attack under one promise."""

    attack: str
    promise: str
    rows: int
    """Rows recovered."""
    of: int
    """Rows there were to recover."""
    error: float | None
    """The worst relative error of those; None where there are none."""
    questions: int
    said: str
    """What happened, in a sentence."""
    auc: float | None = None
    advantage: float | None = None
    allowed: float | None = None
    """The most advantage that the promise lets anybody have."""
    failed: bool = False
    """Whether it could not be run; `said` has the reason."""


def score(candidates: Sequence[Array], rows: Array) -> tuple[int, float | None]:
    """How many rows are among the candidates (or their directions, where these have unit length), and the worst error."""
    if not len(candidates):
        return 0, None
    tried = np.array(candidates)
    tried = tried[np.linalg.norm(tried, axis=1) > 0.0]
    if rows.shape[1] == 1:  # in one column every direction is every row's, and tells nothing
        tried = tried[np.abs(np.abs(tried[:, 0]) - 1.0) >= 1e-12]
    unit = tried / np.linalg.norm(tried, axis=1, keepdims=True)
    units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    near = np.abs(unit @ units.T).argmax(axis=1)
    true = rows[near]
    sign = np.sign(np.einsum("ij,ij->i", tried, true))[:, None]
    scale = np.linalg.norm(true, axis=1, keepdims=True)
    whole = np.linalg.norm(tried - true, axis=1, keepdims=True) / scale
    direction = np.linalg.norm(unit * sign - true / scale, axis=1, keepdims=True)
    is_unit = np.abs(np.linalg.norm(tried, axis=1, keepdims=True) - 1.0) < 1e-12
    error = np.where(is_unit, np.minimum(whole, direction), whole)[:, 0]
    hits = error <= EXACT
    return len(set(near[hits].tolist())), float(error[hits].max()) if hits.any() else None


def directions(first: Array, second: Array) -> list[Array]:
    """Directions x_j that two curvatures Σ c_j x_j x_j' and Σ c'_j x_j x_j' share, where there are no more than columns.

    In the space that the second one spans, first · second⁻¹ has them as eigenvectors (Jennrich).
    """
    values, axes = np.linalg.eigh(second)
    base = axes[:, values > RANK * values.max()] if values.max() > 0.0 else axes[:, :0]
    if not base.shape[1]:
        return []
    inside, other = base.T @ first @ base, base.T @ second @ base
    ratios, vectors = eig(inside, other)
    # Eigenvectors of the pencil are dual to the rows: multiplied by the curvature they become the rows.
    rows = (base @ (other @ vectors.real)).T
    order = np.argsort(ratios.real)
    gaps = np.diff(ratios.real[order], prepend=-np.inf, append=np.inf)
    clear = np.minimum(gaps[:-1], gaps[1:]) > 1e-7 * np.abs(ratios.real).max()
    kept = order[clear & (np.abs(ratios.imag[order]) < 1e-9)]
    return [row / np.linalg.norm(row) for row in rows[kept]]


def found_rows(subject: Subject, heard: Heard) -> list[Array]:
    """Candidates for chosen rows, from sums of their curvatures at two points of the learner's fit, teacher by teacher."""
    learner = Learner.of(subject.learner)
    fits = _fits(heard)
    found: list[Array] = []
    for teacher in range(len(subject.parts)):
        curvatures = [_curvature(one, one.replies[teacher]) for one in fits]
        for first, second in pairwise(curvatures[:4]):
            found += [row for unit in directions(first, second) if (row := _row(unit, learner)) is not None]
    return found


def from_chosen(subject: Subject, heard: Heard) -> Found:
    """Recover chosen rows from sums of their curvatures."""
    promise, chosen, fits = heard.lesson.promise, sum(map(len, heard.chosen)), _fits(heard)
    if len(fits) < 2:
        return Found(CHOSEN, promise, 0, chosen, None, 0, "no sum over chosen rows ever leaves a teacher")
    rows, error = score(found_rows(subject, heard), subject.rows)
    said = "every teacher's sums show the rows behind them: two curvatures have the rows as eigenvectors"
    if not rows:
        said = "no row came of the curvatures: there are more rows than columns, or all weigh the same"
    return Found(CHOSEN, promise, rows, chosen, error, len(fits), said)


def _fits(heard: Heard) -> list[Round]:
    """Rounds of the fit on chosen rows."""
    return [one for one in heard.transcript.of(AskMoments) if _over_chosen(one.query)]


def as_row(unit: Array, learner: Learner) -> Array:
    """A row in raw columns where the constant column gives its length, else its direction."""
    found = _row(unit, learner)
    return np.zeros(len(unit) - 1) if found is None else found


def directions_of_one(curvature: Array) -> list[Array]:
    """The direction of the one row behind a curvature; none where there are more."""
    values, axes = np.linalg.eigh(curvature)
    return [axes[:, -1]] if values[-1] > 1e4 * np.abs(values[:-1]).max(initial=0.0) else []


def _row(unit: Array, learner: Learner) -> Array | None:
    """A row in raw columns where the constant column gives its length, else its direction."""
    if not learner.column:
        return unit
    return None if abs(unit[-1]) < 1e-12 else unit[:-1] * (learner.column / unit[-1])


def _over_chosen(query: Query[object]) -> bool:
    return isinstance(query, AskMoments) and query.rows == "chosen" and query.order == 2 and query.function == "loss"


def _curvature(one: Round, numbers: Array) -> Array:
    assert isinstance(one.query, AskMoments)
    found = one.query.read(np.asarray(numbers, dtype=np.float64)).curvature
    assert found is not None
    return found


def from_totals(subject: Subject, heard: Heard) -> Found:
    """Try the same on every curvature that totals hold, over whatever rows."""
    promise, seen = heard.lesson.promise, len(list(curvatures(heard.transcript)))
    found = candidates(subject, heard.transcript)
    rows, error = score(found, subject.rows)
    said = f"{seen or 'no'} curvature was seen, and it takes two"
    if seen > 1:
        said = f"{seen} curvatures were seen; {len(found)} candidates came of them, {rows or 'none'} a row"
    return Found("curvatures of all rows", promise, rows, subject.count, error, seen, said)


def candidates(subject: Subject, transcript: Transcript) -> list[Array]:
    """Candidates for rows, from all pairs of curvatures that follow each other."""
    learner, found = Learner.of(subject.learner), list[Array]()
    for (first, mapped), (second, _) in pairwise(curvatures(transcript)):
        if first.shape == second.shape:
            found += [row for unit in directions(first, second) if (row := mapped(unit, learner)) is not None]
    return found


Mapped = Callable[[Array, Learner], Array | None]


def curvatures(transcript: Transcript) -> Iterable[tuple[Array, Mapped]]:
    """Every curvature among the totals, and how a direction in it becomes a row."""
    for one in transcript.rounds:
        query, total = one.query, one.total
        if isinstance(query, AskMoments) and query.order == 2 and query.rows != "chosen":
            yield _curvature(one, total), _pulled if query.function == "relax" else _row
        elif isinstance(query, Pull) and query.bend_share:
            width = len(query.point)
            yield read_symmetric(total[width:], width), _unweighted(query.cap.weights)
        elif isinstance(query, Bend):
            yield read_symmetric(total, len(query.cap.weights)), _unweighted(query.cap.weights, counted=False)


def _pulled(unit: Array, learner: Learner) -> Array | None:
    """A direction of (g_j, 1) as one of x_j."""
    return _row(unit[:-1] / max(float(np.linalg.norm(unit[:-1])), 1e-300), learner)


def _unweighted(weights: Array, counted: bool = True) -> Mapped:
    def mapped(unit: Array, learner: Learner) -> Array | None:
        plain = (unit[:-1] if counted else unit) / weights
        return _row(plain / max(float(np.linalg.norm(plain)), 1e-300), learner)

    return mapped


def from_shown(subject: Subject, heard: Heard) -> Found:
    """Read rows that the protocol shows one by one."""
    shown = list(heard.transcript.of(Show, Gather))
    found: list[Array] = []
    for one in heard.transcript.of(Show):
        table = one.total.reshape(-1, one.query.reply_length // max(sum(_counts(one.query)), 1))
        found += [row[: subject.rows.shape[1]] for row in table]
    rows, error = score(found, subject.rows)
    said = "rows were shown one by one, as this promise allows" if shown else "no row is shown"
    return Found("rows shown outright", heard.lesson.promise, rows, subject.count, error, len(shown), said)


def _counts(query: Query[object]) -> tuple[int, ...]:
    assert isinstance(query, Show)
    return query.counts


def same(first: Transcript, second: Transcript) -> list[tuple[Round, Round]]:
    """Rounds of two lessons in which the very same was asked, the first time, the second time and so on."""
    asked: dict[str, list[Round]] = {}
    for one in second.rounds:
        if one.query.reply_length:
            asked.setdefault(_content(one.query), []).append(one)
    alike = ((one, asked.get(_content(one.query))) for one in first.rounds if one.query.reply_length)
    return [(one, others.pop(0)) for one, others in alike if others]


def _content(query: Query[object]) -> str:
    with np.printoptions(threshold=10**9, floatmode="unique", precision=17):
        return f"{query.name} {sorted((name, _plain(value)) for name, value in vars(query).items())}"


def _plain(value: object) -> str:
    if isinstance(value, np.ndarray):
        return value.tobytes().hex()
    settings = getattr(value, "settings", None)
    return repr(settings() if callable(settings) else value)


def subtracted(subject: Subject, more: Heard, fewer: Heard, row: Array, target: float, attack: str) -> Found:
    """Recover the one row by which the sums of two lessons differ, from totals asked for alike in both."""
    learner, promise = Learner.of(subject.learner), more.lesson.promise
    pairs = same(more.transcript, fewer.transcript)
    if promise == "epsilon":
        return _under_noise(subject, pairs, more.transcript, row, target, attack)
    found: list[Array] = []
    squares = [one.total[0] - other.total[0] for one, other in pairs if isinstance(one.query, Prepare)]
    for one, other in pairs:
        if isinstance(one.query, AskMoments) and one.query.order == 2 and one.query.function in ("loss", "square"):
            change = _curvature(one, one.total) - _curvature(other, other.total)
            for unit in directions_of_one(change):
                if not learner.column and squares and squares[0] > 0.0:
                    found += [unit * np.sqrt(squares[0]), -unit * np.sqrt(squares[0])]
                elif (plain := _row(unit, learner)) is not None:
                    found.append(plain)
    rows, error = score(found, row[None, :])
    said = "no total was asked for alike in both lessons" if not pairs else "no difference of totals showed a row"
    if rows:
        said = "one total less the other is the row"
    return Found(attack, promise, rows, 1, error, len(pairs), said)


def _under_noise(
    subject: Subject, pairs: list[tuple[Round, Round]], transcript: Transcript, row: Array, target: float, attack: str
) -> Found:
    """How far the difference of two noisy totals is from what the row changed, in units of noise."""
    away, change = [np.zeros(0)], [np.zeros(0)]
    alone = Subject(((row[None, :], np.array([target])),), subject.learner, subject.goal, 1)
    known = sums_at(alone, [one.query for one, _ in pairs], transcript)
    for (one, other), truth in zip(pairs, known, strict=True):
        assert isinstance(one.query, Private)
        noise = spread_of(one.query, transcript.terms)
        away.append((one.total - other.total - truth) / noise)
        change.append(truth / noise)
    error, signal = float(np.sqrt(np.mean(np.square(np.concatenate(away))))), np.concatenate(change)
    said = (
        f"{len(signal)} noisy totals could be subtracted: they miss what the row changed by {error:.2f} standard deviations "
        f"of noise each, and the row changed all of them together by {np.linalg.norm(signal):.2f}"
    )
    return Found(attack, "epsilon", 0, 1, None, len(pairs), said)


def one_row_more(subject: Subject, promise: str, **settings: Any) -> Found:
    """Two lessons, the second without one row of a teacher."""
    place = int(np.argmax([len(y) for _, y in subject.parts]))  # somebody who has rows left without it
    row, target = subject.parts[place][0][-1], float(subject.parts[place][1][-1])
    more, fewer = (listen(one, promise, **settings) for one in (subject, subject.without_row(place)))
    return subtracted(subject, more, fewer, row, target, "totals with and without a row")


def one_budget_more(subject: Subject, promise: str, **settings: Any) -> Found:
    """Two lessons of n and n + 1 rows by the paper's method, whose choices are nested."""
    attack, method = "budgets n and n + 1", {"method": "dual"} if promise in ("open", "masked") else {}
    fewer, more = with_enough_rows(
        subject,
        subject.most,
        lambda some: [
            listen(one, promise, **{**method, **settings}) for one in (some, replace(some, budget=some.budget + 1))
        ],
    )
    if promise != "open":
        said = "no sum over chosen rows ever leaves a teacher, so nothing differs by the row that was added"
        return Found(attack, promise, 0, 1, None, len(more.transcript.rounds) + len(fewer.transcript.rounds), said)
    starts = np.cumsum([0, *(len(y) for _, y in subject.parts)])
    chosen = [{int(s + i) for s, some in zip(starts, one.chosen, strict=False) for i in some} for one in (more, fewer)]
    added = sorted(chosen[0] - chosen[1])
    if len(added) != 1:
        return Found(
            attack, promise, 0, 1, None, 0, f"the two choices differ by {len(added)} rows: not nested this time"
        )
    return subtracted(subject, more, fewer, subject.rows[added[0]], float(subject.targets[added[0]]), attack)


def one_teacher_more(subject: Subject, promise: str, **settings: Any) -> Found:
    """Two lessons, the second without one teacher: totals less totals are that teacher's own."""
    attack = "totals with and without a teacher"
    if len(subject.parts) < 4:
        return Found(attack, promise, 0, 0, None, 0, "not tried: it takes four teachers")
    pairs = []
    if promise in ("open", "masked"):
        more, fewer = (listen(one, promise, **settings) for one in (subject, subject.without_teacher()))
        pairs = [pair for pair in same(more.transcript, fewer.transcript) if is_known(pair[0].query)]
    if not pairs:
        said = "no exact total leaves a teacher" if promise == "closed" else "totals are noisy, whoever takes part"
        return Found(attack, promise, 0, 0, None, 0, said)
    alone = replace(subject, parts=subject.parts[-1:])
    true = sums_at(alone, [one.query for one, _ in pairs], more.transcript)
    away = [
        np.linalg.norm(one.total - other.total - own) / (1.0 + np.linalg.norm(own))
        for (one, other), own in zip(pairs, true, strict=True)
    ]
    said = (
        f"{sum(error < EXACT for error in away)} of {len(away)} totals gave away the teacher's own sums; no single row"
    )
    return Found(attack, promise, 0, 0, None, len(pairs), said)
