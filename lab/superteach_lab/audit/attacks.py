"""Attacks on what leaves owners, each a program that knows what a coordinator knows and hands back rows or a guess.

The auditor, who has the rows, counts how many of them are true ones. Against "none" most attacks succeed: they are attacks.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import eig

from superteach.exceptions import BudgetSpent, QueryRefused
from superteach.learner import Learner
from superteach.lesson import to_json
from superteach.optim.problem import Scaling, ridge_penalty
from superteach.privacy.accounting import Mode, epsilon_of, mu_of
from superteach.privacy.guard import Account, Guard
from superteach.privacy.ledger import Ledger
from superteach.privacy.policy import draft
from superteach.protocol import wire
from superteach.protocol.messages import Turn
from superteach.protocol.queries import QUERIES, AskMoments, CountMagnitudes, SecondMoments
from superteach.report import page_of
from superteach.teacher import Teacher
from superteach.types import Array
from superteach_lab.audit.empirical import crafted, exact
from superteach_lab.audit.subject import HONEST, Door, Finding, Row, Subject, Transcript, listen, with_enough_rows

EXACT = 1e-6
"""Relative error up to which a candidate is the row."""
RANK = 1e-9
"""Eigenvalues below this part of the largest one are none."""
TWENTY = 20
OUTRIGHT = "rows as they are"
CHOSEN = "rows from sums over the chosen ones"
MISSING = "a missing row from lesson.json"
EVERYTHING = "questions that no lesson asks"
TABLES = "very different tables"
DECLARED = "the declared number of rows"
STRETCHED = "rows and questions that stretch a reply"
DISGUISED = "a spent account, and the table in disguise"
LESSONS = "twenty lessons"
Accounts = Callable[[Path, Array], Ledger]
"""Where the account of a table is kept: the folder is the owner's, and the table may be looked at, or not."""


def score(candidates: Sequence[Array], rows: Array) -> int:
    """Count the rows among candidates (or their directions, where these have unit length)."""
    tried = np.array([one for one in candidates if np.linalg.norm(one) > 0.0])
    if rows.shape[1] == 1 and len(tried):  # in one column every direction is every row's, and tells nothing
        tried = tried[np.abs(np.abs(tried[:, 0]) - 1.0) >= 1e-12]
    if not len(tried):
        return 0
    unit = tried / np.linalg.norm(tried, axis=1, keepdims=True)
    units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    near = np.abs(unit @ units.T).argmax(axis=1)
    sign = np.sign(np.einsum("ij,ij->i", tried, rows[near]))[:, None]
    directed = np.linalg.norm(unit * sign - units[near], axis=1)
    whole = np.linalg.norm(tried - rows[near], axis=1) / np.maximum(np.linalg.norm(rows[near], axis=1), 1e-300)
    is_unit = np.abs(np.linalg.norm(tried, axis=1) - 1.0) < 1e-12
    return len(set(near[np.where(is_unit, np.minimum(whole, directed), whole) <= EXACT].tolist()))


def read_outright(subject: Subject, transcript: Transcript, mode: Mode) -> Finding:
    """Look for whole rows among the numbers that left owners, wherever they stand."""
    rows = subject.rows
    found: set[int] = set()
    for one in transcript.replies:
        if len(one.sealed.values) < rows.shape[1]:
            continue
        windows = np.lib.stride_tricks.sliding_window_view(one.sealed.values, rows.shape[1])
        for place in np.flatnonzero(np.isin(windows[:, 0], rows[:, 0])):
            same = np.abs(rows - windows[place]).max(axis=1) <= 1e-9 * np.abs(rows).max(axis=1)
            found |= set(np.flatnonzero(same & rows.any(axis=1)).tolist())
    said = f"{len(found):,} rows stood in the replies as they are" if found else "no row is among the numbers that left"
    return Finding(OUTRIGHT, mode.name, said, len(found), subject.count)


def work_out_chosen(subject: Subject, mode: Mode) -> Finding:
    """Work rows out from sums over the chosen ones: two curvatures of few rows have the rows as eigenvectors."""
    attack, learner = CHOSEN, Learner.of(subject.learner)
    few = max(2, min(subject.budget, int(0.7 * len(subject.goal) * len(subject.parts))))
    alone: dict[str, Any] = {"rounding": "alone"} if mode.name == "none" else {}
    small = subject if mode.name != "none" else replace(subject, budget=few)
    transcript = with_enough_rows(small, lambda one: listen(one, mode, **alone))
    found: list[Array] = []
    for position in range(len(subject.parts)):
        curvatures = [
            curvature
            for one in transcript.of(AskMoments)
            if isinstance(one.query, AskMoments) and one.position == position
            if (one.query.rows, one.query.order, one.query.function) == ("chosen", 2, "loss")
            if (curvature := one.query.read(one.sealed.values).curvature) is not None
        ]
        for first, second in pairwise(curvatures[:4]):
            found += [_as_row(unit, learner) for unit in _directions(first, second)]
    rows, chosen = score(found, subject.rows), sum(map(len, transcript.chosen))
    said = "no sum over chosen rows leaves an owner"
    if mode.name == "none":
        said = f"two sums of one owner show the rows behind them: {rows:,} rows were worked out"
    return Finding(attack, mode.name, said, rows, chosen)


def _directions(first: Array, second: Array) -> list[Array]:
    """Find the x_j that Σ c_j x_j x_j' and Σ c'_j x_j x_j' share, where there are no more than columns (Jennrich)."""
    values, axes = np.linalg.eigh(second)
    base = axes[:, values > RANK * values.max()] if values.max() > 0.0 else axes[:, :0]
    if not base.shape[1]:
        return []
    inside, other = base.T @ first @ base, base.T @ second @ base
    ratios, vectors = eig(inside, other)
    rows = (base @ (other @ vectors.real)).T
    order = np.argsort(ratios.real)
    gaps = np.diff(ratios.real[order], prepend=-np.inf, append=np.inf)
    clear = np.minimum(gaps[:-1], gaps[1:]) > 1e-7 * np.abs(ratios.real).max()
    kept = order[clear & (np.abs(ratios.imag[order]) < 1e-9)]
    return [row / np.linalg.norm(row) for row in rows[kept]]


def _as_row(unit: Array, learner: Learner) -> Array:
    """A row in raw columns where the constant column gives its length, else its direction."""
    if not learner.column:
        return unit
    return unit[:-1] * (learner.column / unit[-1]) if abs(unit[-1]) > 1e-12 else np.zeros(len(unit) - 1)


def work_out_missing(subject: Subject, transcript: Transcript, mode: Mode) -> Finding:
    """Work out the one row that an attacker lacks, from what stands in lesson.json and in the report."""
    attack = MISSING
    stored = json.loads(to_json(transcript.lesson.as_dict()))
    models = [value for name, value in stored.items() if name in ("pool_model", "model") and value]
    flat = [
        np.ravel(np.array([*np.ravel(m["coef"]), m["intercept"]] if isinstance(m, dict) else m, float)) for m in models
    ]
    errors = [_missing(subject, model[: len(subject.goal)]) for model in flat if np.isfinite(model).all()]
    least = min(errors, default=np.inf)
    measured = [
        name for name in ("risk", "agreement", "pool_risk", "pool_agreement", "pool_model") if stored[name] is not None
    ]
    _ = page_of(transcript.lesson).html()  # says no more than the lesson: it is made of nothing else
    if least <= EXACT:
        said = f"the row and its label follow from the fit on all rows (error {least:.0e})"
        return Finding(attack, mode.name, said, 1, 1)
    said = (
        "nothing measured stands there"
        if not measured
        else f"{', '.join(measured)} stand there and do not show the row"
    )
    return Finding(attack, mode.name, said, 0, 1, broken=bool(measured) and mode.name != "none")


def _missing(subject: Subject, raw: Array) -> float:
    """Solve the fit's condition on all rows for one row of the first owner; return the relative error.

    The row is the one that the fit depends on most: of a row that is fitted well next to nothing is left.
    """
    learner = Learner.of(subject.learner)
    model = learner.centred(Scaling(learner.column).inside(raw))
    lifted = np.column_stack([subject.rows, np.full(subject.count, learner.column)]) if learner.column else subject.rows
    pulls = learner.loss.terms(lifted @ model, subject.targets).slope[:, None] * lifted
    place = int(np.argmax(np.linalg.norm(pulls[: len(subject.parts[0][1])], axis=1)))
    true = subject.rows[place]
    penalty = ridge_penalty(learner.penalty(subject.count), len(model), learner.free_intercept, 1).diagonal
    lacking = penalty * model + np.delete(pulls, place, axis=0).sum(axis=0)
    if not learner.column:  # only the direction follows; the auditor gives it the best length
        row = lacking * (lacking @ true) / max(float(lacking @ lacking), 1e-300)
    else:
        row = lacking[:-1] * (learner.column / lacking[-1]) if lacking[-1] else np.zeros(len(model) - 1)
    return float(np.linalg.norm(row - true) / max(float(np.linalg.norm(true)), 1e-300))


def ask_everything(subject: Subject, mode: Mode, door: Door = HONEST) -> Finding:
    """Ask an owner every kind of question there is, private ones twice; count what is answered beyond the lesson's own."""
    attack, teacher = EVERYTHING, subject.teachers(door.teacher)[0]
    closed, answered = door.close(teacher, mode), []
    for kind in QUERIES:
        if mode.name not in kind.privacy:
            query = object.__new__(kind)
            vars(query).update(dict.fromkeys((one.name for one in fields(kind)), "all"))  # type: ignore[arg-type]
            try:
                closed.answer(query, closed.start(), Turn(1, 0, 1))
            except QueryRefused:
                continue
            except Exception:
                pass  # it was not refused at the door
            answered.append(kind.__name__)
    if mode.name == "dp":
        counts = CountMagnitudes(*subject.about)
        weights = np.full(len(subject.goal), 1e9)
        for query in (counts, SecondMoments(*subject.about, weights)):
            closed.answer(query, closed.start(), Turn(1, 0, 1))
        for query in (counts, SecondMoments(*subject.about, 2.0 * weights)):
            try:
                closed.answer(query, closed.start(), Turn(2, 0, 1))
                answered.append(f"{query.name} a second time")
            except QueryRefused:
                pass
    said = f"of {len(QUERIES)} kinds of question those of a lesson alone are answered, each once"
    if answered:
        said = f"answered: {', '.join(answered)}"
    return Finding(attack, mode.name, said, broken=bool(answered))


def stretch(subject: Subject, mode: Mode, door: Door = HONEST, tries: int = 200, seed: int = 0) -> Finding:
    """Look for a row, and for weights in the question, that change a reply by more than the noise is for."""
    draw, most, teacher = np.random.default_rng(seed), 0.0, door.teacher
    width = len(subject.goal)
    for turn in range(tries):
        spread = 10.0 ** draw.uniform(-3.0, 3.0, width)
        rows = [*crafted(subject).values()] if turn == 0 else [_wild(subject, draw)]
        for x, y in rows:
            alone = teacher("one row", x[None, :], np.array([y]))
            for query in (
                CountMagnitudes(*subject.about),
                SecondMoments(*subject.about, 10.0 ** draw.uniform(-6, 9) * spread),
            ):
                most = max(most, float(np.linalg.norm(exact(alone, query))) / query.release.sensitivity)
    said = f"the most telling of {tries + 6} rows changed a reply by {most:.4g} times what the noise is made for"
    return Finding(STRETCHED, mode.name, said, broken=most > 1.0 + 1e-9)


def _wild(subject: Subject, draw: np.random.Generator) -> Row:
    width = subject.rows.shape[1]
    x = draw.choice([-1.0, 1.0], width) * 10.0 ** (draw.uniform(-100.0, 90.0) + draw.uniform(-3.0, 3.0, width))
    label = float(draw.choice([-1.0, 1.0])) if subject.classifies else float(abs(draw.standard_normal()) * 1e3)
    return np.clip(x, -1e99, 1e99), label


def very_different(subject: Subject) -> Iterator[tuple[str, Subject]]:
    """Tables of the same shape and very different rows."""
    draw = np.random.default_rng(0)
    low, high = (-1.0, 1.0) if subject.classifies else (0.0, 1e6)
    yield "as they are", subject
    yield "all of one label", subject.with_parts(lambda X, y: (X, np.full(len(y), high)))
    yield "all of the other label", subject.with_parts(lambda X, y: (X, np.full(len(y), low)))
    yield "labels at random", subject.with_parts(lambda X, y: (X, draw.permutation(y)))
    yield "zeros", subject.with_parts(lambda X, y: (0.0 * X, y))
    yield "one row over and over", subject.with_parts(lambda X, y: (np.repeat(X[:1], len(X), axis=0), y))
    yield "one huge row", subject.with_parts(lambda X, y: (np.vstack([np.full_like(X[:1], 1e99), X[1:]]), y))
    yield "all rows huge", subject.with_parts(lambda X, y: (1e60 * X, y))
    yield "all rows tiny", subject.with_parts(lambda X, y: (1e-160 * X, y))
    yield "one column alone differs", subject.with_parts(lambda X, y: (X * (np.arange(X.shape[1]) == 0), y))


def silence(subject: Subject, mode: Mode, door: Door = HONEST) -> Finding:
    """Compare all that leaves owners over very different tables: bytes under "isolated", and shapes where noise is in them.

    The time until an owner has chosen is measured too: it is not hidden. The lesson is small, for it is taught ten times.
    """
    subject = replace(subject, budget=min(subject.budget, max(2 * len(subject.goal), 20)))
    attack, seen, seconds = TABLES, dict[object, str](), []
    for name, one in very_different(subject):
        started = time.perf_counter()
        try:
            replies = [wire.pack_reply(reply.sealed) for reply in listen(one, mode, door).replies]
        except Exception as error:  # a failure is a tell
            replies = [wire.pack_no("failed", str(error))]
        seconds.append(time.perf_counter() - started)
        seen.setdefault(tuple(replies if mode.name == "isolated" else map(len, replies)), name)
    what = "bytes" if mode.name == "isolated" else "numbers of bytes"
    said = (
        f"over {len(seconds)} tables (zeros, one label, huge rows …) the same {what} left, and no refusal or failure; "
        f"choosing took {min(seconds):.2g} to {max(seconds):.2g} s, and time is not hidden"
    )
    if len(seen) > 1:
        said = f"{what} that left tell tables apart: {', '.join(seen.values())}"
    return Finding(attack, mode.name, said, broken=len(seen) > 1)


def disguises(X: Array, y: Array) -> list[tuple[str, Array]]:
    """Forty tables that are the same rows to a person, or nearly, and a new table to a careless account."""
    table = np.column_stack([X, y]).astype(object)
    draw, rows, columns = np.random.default_rng(0), len(table), table.shape[1]

    def cell(value: object, row: int = 0) -> Array:
        changed = table.copy()
        changed[row, 0] = value
        return changed

    def cast(kind: str) -> Array:
        return np.column_stack([X, y]).astype(kind).astype(object)

    cells = (
        "text",
        "",
        " ",
        "1,5",
        "1e400",
        None,
        np.nan,
        np.inf,
        -0.0,
        True,
        b"bytes",
        "2026-01-01",
        "NaT",
        10**30,
        1j,
    )
    found = [(f"a cell that is {value!r}", cell(value)) for value in cells]
    found += [(f"numbers held as {kind}", cast(kind)) for kind in ("f4", "f2", "U32", "S32")]
    found += [
        (f"one row more at place {place}", np.insert(table, place, table[0], axis=0)) for place in (0, rows // 2, rows)
    ]
    found += [(f"{count} rows less", table[count:]) for count in (1, 2, rows // 2, rows - 1)]
    found += [
        ("rows in another order", table[draw.permutation(rows)]),
        ("rows turned round", table[::-1]),
        ("every row twice", np.repeat(table, 2, axis=0)),
        ("columns in another order", table[:, ::-1]),
        ("a column more", np.column_stack([table, np.arange(rows)])),
        ("a column less", table[:, 1:]),
        ("a column twice", np.column_stack([table, table[:, 0]])),
        ("every number a little larger", table * (1.0 + 1e-12)),
        ("another unit", table * 1000.0),
        ("labels swapped", np.column_stack([X, -y]).astype(object)),
        ("labels as text", np.column_stack([X.astype(object), np.where(y > 0, "yes", "no").astype(object)])),
        (
            "renamed columns",
            np.vstack([np.array([[f"name {place}" for place in range(columns)]], dtype=object), table]),
        ),
        ("another file in its place", draw.standard_normal(table.shape).astype(object)),
        ("an empty file", table[:0]),
    ]
    return found


def one_account(folder: Path, table: Array) -> Ledger:
    """Open the account as the product does: one for the owner's table, whatever is in it."""
    return Ledger(folder / "ledger", 1.0, 1e-6)


def reset_the_account(subject: Subject, mode: Mode, accounts: Accounts = one_account) -> Finding:
    """Spend an owner's whole budget, disguise its table in forty ways, and ask again."""
    attack, (X, y) = DISGUISED, subject.parts[0]
    whole, passed = Mode("dp", 1.0, 1e-6), []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        tables = [("as it is", np.column_stack([X, y]).astype(object)), *disguises(X, y)]
        left = []
        for number, (name, table) in enumerate(tables):
            ledger = accounts(folder, table)
            left.append(ledger.left)
            try:
                guard = Guard().under(whole, Account(ledger, f"lesson {number}"))
                teacher = Teacher("owner", X, y).under(guard)
                teacher.answer(CountMagnitudes(*subject.about), teacher.start(), Turn(1, 0, 1))
                passed.append(name)
            except BudgetSpent:
                pass
    again = passed[1:]
    said = f"in none of {len(tables) - 1} disguises was anything answered, and what is left stayed {max(left[1:]):g}"
    if again:
        said = f"{len(again)} of {len(tables) - 1} disguises were answered again, {again[0]!r} for one"
    return Finding(attack, mode.name, said, broken=bool(again) or max(left[1:]) > 1e-6)


def many_lessons(subject: Subject, mode: Mode, kind: type[Account] = Account) -> Finding:
    """Ask for twenty lessons of a quarter of ε each: squares of μ add up, and the account ends it."""
    each, passed, (X, y) = Mode("dp", mode.epsilon / 4.0, mode.delta), 0, subject.parts[0]
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger", mode.epsilon, mode.delta)
        for number in range(TWENTY):
            try:
                teacher = Teacher("owner", X, y).under(Guard().under(each, kind(ledger, f"lesson {number}")))
                teacher.answer(CountMagnitudes(*subject.about), teacher.start(), Turn(1, 0, 1))
                passed += 1
            except BudgetSpent:
                pass
    spent = epsilon_of(passed**0.5 * mu_of(each.epsilon, mode.delta), mode.delta)
    said = f"{passed} of {TWENTY} lessons of ε = {each.epsilon:g} were answered, which is ε = {spent:.3g} together"
    return Finding(LESSONS, mode.name, said, broken=spent > mode.epsilon * (1.0 + 1e-6))


def count_rows(subject: Subject, mode: Mode, declare: Callable[[int], str] | None = None) -> Finding:
    """Tell from what an owner declares whether there is one row more: compare the drafts for n and n + 1 rows."""
    declared = declare or (lambda rows: draft(rows, ("x",), "y", None))
    n = max(len(subject.parts[0][1]), 100)
    changed = np.mean([declared(rows) != declared(rows + 1) for rows in range(n, 2 * n)])
    said = (
        f"what is declared is rounded: one row more changes it for {changed:.0%} of the sizes from {n:,} to {2 * n:,}"
    )
    if changed > 0.2:
        said = f"what is declared tells one row more for {changed:.0%} of the sizes from {n:,} to {2 * n:,}"
    return Finding(DECLARED, mode.name, said, broken=bool(changed > 0.2))
