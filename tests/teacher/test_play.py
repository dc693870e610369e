"""Exact teaching inside one teacher: pulls, prices and rounding against NumPy on the rows it holds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, logit

import superteach as st
from superteach.exceptions import QueryRefused
from superteach.losses import Logistic
from superteach.protocol import queries
from superteach.protocol.messages import Turn
from superteach.protocol.queries.match import OCTAVES, SHORTEST
from superteach.selection import rounding

ROWS, WIDTH = 400, 3
GOAL = np.array([1.0, 0.5, -0.4])
POINT = np.array([0.2, -0.1, 0.3, -0.05])
ALONE = Turn(number=1, position=0, teachers=1)
ODDS = np.linspace(-4.0, 2.0, OCTAVES)
forms = pytest.mark.parametrize("form", ["dense", "sparse"])


class Talk:
    """One teacher, what it remembers, and its rows beside it as NumPy sees them."""

    def __init__(self, pool, form="dense", constant=0.0, scaled=False, costs=None, rows=ROWS):
        self.X, self.y = pool("logistic", rows, WIDTH, 1)
        self.X[np.abs(self.X) < 0.3] = 0.0
        self.teacher = st.Teacher(
            "t", sparse.csr_array(self.X) if form == "sparse" else self.X, self.y, np.arange(rows), costs
        )
        centre, scale = (self.X.mean(axis=0), self.X.std(axis=0)) if scaled else (None, None)
        self.design = (self.X - centre) / scale if scaled else self.X
        if constant:
            self.design = np.column_stack([self.design, np.full(rows, constant)])
        self.state = self.teacher.start()
        self.ask(queries.Prepare(Logistic(), constant, centre, scale))

    def ask(self, query, turn=ALONE):
        self.state, sealed = self.teacher.answer(query, self.state, turn)
        return query.read(sealed.values)

    def pulls(self, model):
        """−ℓ'(x'θ) x."""
        return (self.y * expit(-self.y * (self.design @ model)))[:, None] * self.design


def octaves(pulls: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """Class of every row by the length of its pull."""
    moved = pulls * metric if metric.ndim == 1 else pulls @ metric.T
    with np.errstate(divide="ignore"):
        length = np.log2(np.linalg.norm(moved, axis=1))
    return np.clip(np.floor(length) - SHORTEST, 0, OCTAVES - 1).astype(int)


@forms
@pytest.mark.parametrize("diagonal", [False, True], ids=["matrix", "diagonal"])
@pytest.mark.parametrize(("constant", "scaled"), [(0.0, False), (2.0, True), (0.5, False), (0.0, True)])
def test_rows_are_counted_by_the_strength_of_their_pull(form, diagonal, constant, scaled, pool):
    """In octaves of ‖M g_j‖, with a constant column and scaled columns too; a row of zeros is in the lowest."""
    talk = Talk(pool, form, constant, scaled)
    width = WIDTH + bool(constant)
    draw = np.random.default_rng(0)
    metric = draw.uniform(0.1, 3.0, width) if diagonal else draw.standard_normal((width, width))
    model = draw.standard_normal(width)
    counts = talk.ask(queries.Balance(model, metric))
    expected = np.bincount(octaves(talk.pulls(model), metric), minlength=OCTAVES)
    assert counts.sum() == ROWS
    np.testing.assert_array_equal(counts, expected)


def relaxed(pulls, odds, point):
    """Σ log(1 + exp(z + u'(g, 1))), its gradient and its curvature, from the rows."""
    lifted = np.column_stack([pulls, np.ones(len(pulls))])
    z = odds + lifted @ point
    b = expit(z)
    return np.logaddexp(0.0, z).sum(), lifted.T @ b, lifted.T @ (lifted * (b * (1.0 - b))[:, None]), b


@forms
@pytest.mark.parametrize("least", [0.0, 0.25])
def test_sums_over_rows_drawn(form, least, pool):
    """Values, gradients and curvature of the prices' function, and of the loss weighted by fractions."""
    talk = Talk(pool, form)
    pulls = talk.pulls(GOAL)
    talk.ask(queries.Balance(GOAL, np.eye(WIDTH)))
    drawn = talk.ask(queries.Draw(ODDS, least, 5))
    index = talk.state.drawing.index if least else np.arange(ROWS)
    odds = ODDS[octaves(pulls, np.eye(WIDTH))][index]
    odds = np.maximum(odds, logit(least)) if least else odds
    assert drawn.rows == len(index)
    assert (0 < len(index) < ROWS) == (least > 0.0)
    assert drawn.slack == pytest.approx(np.maximum(-odds, 0.0).sum())
    value, gradient, curvature, b = relaxed(pulls[index], odds, POINT)
    told = talk.ask(queries.AskMoments("relax", "drawn", POINT, 2))
    assert told.value == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(told.gradient, gradient, rtol=1e-10)
    np.testing.assert_allclose(told.curvature, curvature, rtol=1e-9, atol=1e-9)
    steps = np.array([0.0, 0.5, 2.0])
    along = POINT[::-1].copy()
    values = talk.ask(queries.AskValues("relax", "drawn", POINT, along, steps))
    expected = [relaxed(pulls[index], odds, POINT + step * along)[0] for step in steps]
    np.testing.assert_allclose(values, expected, rtol=1e-12)

    assert talk.ask(queries.Price(POINT)) == pytest.approx(b.sum(), rel=1e-12)
    np.testing.assert_allclose(talk.state.fractions, b, rtol=1e-10)
    X, y = talk.X[index], talk.y[index]
    told = talk.ask(queries.AskMoments("loss", "priced", GOAL, 2))
    wrong = expit(-y * (X @ GOAL))
    assert told.value == pytest.approx(b @ np.logaddexp(0.0, -y * (X @ GOAL)), rel=1e-10)
    np.testing.assert_allclose(told.gradient, -(b * wrong * y) @ X, rtol=1e-9)
    np.testing.assert_allclose(told.curvature, (X.T * (b * wrong * (1.0 - wrong))) @ X, rtol=1e-9, atol=1e-9)
    steps = np.array([0.0, 0.3])
    values = talk.ask(queries.AskValues("loss", "priced", GOAL, GOAL, steps))
    expected = [b @ np.logaddexp(0.0, -y * (X @ GOAL) * (1.0 + step)) for step in steps]
    np.testing.assert_allclose(values, expected, rtol=1e-10)


def test_who_is_drawn_depends_on_the_row_and_the_seed_alone(pool):
    """The same rows by the same seed, others by another; each as often as its odds say."""
    talk, seen = Talk(pool), []
    talk.ask(queries.Balance(GOAL, np.eye(WIDTH)))
    for seed in range(200):
        talk.ask(queries.Draw(ODDS, 0.25, seed))
        seen.append(np.isin(np.arange(ROWS), talk.state.drawing.index))
    talk.ask(queries.Draw(ODDS, 0.25, 0))
    np.testing.assert_array_equal(np.isin(np.arange(ROWS), talk.state.drawing.index), seen[0])
    likely = np.minimum(expit(ODDS[octaves(talk.pulls(GOAL), np.eye(WIDTH))]) / 0.25, 1.0)
    often = np.mean(seen, axis=0)
    assert np.all(often[likely >= 1.0] == 1.0)
    assert np.all(np.abs(often - likely) <= 5.0 * np.sqrt(likely * (1.0 - likely) / 200) + 1e-9)


def test_costs_lower_the_odds(pool):
    """An owner's dearest row is thousands of times less likely than its cheapest one of the same strength."""
    costs = np.linspace(1.0, 9.0, ROWS)
    plain, dear = Talk(pool), Talk(pool, costs=costs)
    for talk in (plain, dear):
        talk.ask(queries.Balance(GOAL, np.eye(WIDTH)))
        talk.ask(queries.Draw(ODDS, 0.0, 1))
    lowered = plain.state.drawing.odds[:] - dear.state.drawing.odds[:]
    np.testing.assert_allclose(lowered, 8.0 * (costs - 1.0) / 8.0, atol=1e-12)


@pytest.mark.parametrize("rows", ["drawn", "priced"])
@pytest.mark.parametrize("function", ["loss", "dual", "square", "positive", "reach", "relax"])
def test_nothing_else_is_summed_over_rows_drawn(rows, function, pool):
    """Sums over one class, say, could be subtracted from those over all rows until few are left."""
    if (rows, function) in (("drawn", "relax"), ("priced", "loss")):
        return
    talk = Talk(pool)
    talk.ask(queries.Balance(GOAL, np.eye(WIDTH)))
    talk.ask(queries.Draw(ODDS, 0.0, 1))
    talk.ask(queries.Price(POINT))
    point = POINT if function in ("relax", "reach") else GOAL
    for query in (
        queries.AskMoments(function, rows, point, 1),
        queries.AskValues(function, rows, point, point, np.ones(1)),
    ):
        with pytest.raises(QueryRefused, match=f"does not sum '{function}' over rows '{rows}'"):
            talk.ask(query)
    for other in ("all", "chosen"):
        with pytest.raises(QueryRefused, match="does not sum 'relax'"):
            talk.ask(queries.AskMoments("relax", other, POINT, 1))


def test_a_new_model_or_new_lots_undo_what_came_after(pool):
    """Prices belong to rows drawn, and these to pulls."""
    talk = Talk(pool)
    talk.ask(queries.Balance(GOAL, np.eye(WIDTH)))
    talk.ask(queries.Draw(ODDS, 0.0, 1))
    talk.ask(queries.Price(POINT))
    talk.ask(queries.Draw(ODDS, 0.0, 2))
    with pytest.raises(QueryRefused, match="needs prices"):
        talk.ask(queries.RoundAlone(np.eye(WIDTH), 1))
    talk.ask(queries.Price(POINT))
    talk.ask(queries.Balance(GOAL, np.eye(WIDTH)))
    with pytest.raises(QueryRefused, match="needs rows drawn"):
        talk.ask(queries.Price(POINT))


def priced(pool, **options) -> Talk:
    talk = Talk(pool, **options)
    talk.ask(queries.Balance(GOAL, np.eye(WIDTH)))
    talk.ask(queries.Draw(ODDS, 0.0, 1))
    talk.ask(queries.Price(POINT))
    return talk


@forms
def test_rounding_alone_keeps_the_fractional_sum(form, pool):
    """Its own rows, as many as its fractions add up to, with nearly the same sum of pulls: far nearer than by lot."""
    talk = priced(pool, form=form)
    b, pulls = talk.state.fractions, talk.pulls(GOAL)
    size = talk.ask(queries.RoundAlone(np.eye(WIDTH), 3))
    chosen = talk.state.chosen
    assert size == (len(chosen), np.count_nonzero(talk.y[chosen] > 0.0))
    assert len(np.unique(chosen)) == len(chosen) == round(b.sum())
    draw = np.random.default_rng(0)
    lots = [np.linalg.norm(pulls[draw.random(ROWS) < b].sum(axis=0) - b @ pulls) for _ in range(1000)]
    assert np.linalg.norm(pulls[chosen].sum(axis=0) - b @ pulls) < 0.1 * min(lots)


@pytest.mark.parametrize("most", [150, 300])
def test_lots_decide_what_does_not_stay_in_play(most, pool, monkeypatch):
    """In large lessons: the count stays right, the sum nearly as near as where all rows stay, and far nearer than by lot."""
    monkeypatch.setattr(rounding, "IN_PLAY", most)
    talk = priced(pool, rows=4000)
    b, pulls = talk.state.fractions, talk.pulls(GOAL)
    report = talk.ask(queries.Play(np.eye(WIDTH), 4.0, 1, True, 0.25, 3))
    assert 0.5 * most < report.rows.sum() < 1.5 * most
    talk.ask(queries.RoundAlone(np.eye(WIDTH), 3))
    chosen = talk.state.chosen
    assert len(np.unique(chosen)) == len(chosen) == round(b.sum())
    draw = np.random.default_rng(0)
    lots = [np.linalg.norm(pulls[draw.random(4000) < b].sum(axis=0) - b @ pulls) for _ in range(1000)]
    assert np.linalg.norm(pulls[chosen].sum(axis=0) - b @ pulls) < 0.1 * min(lots)


def test_rows_in_play_are_those_undecided(pool):
    """Thinned by lot without a change in the mean: totals of many seeds are around the fractional sum."""
    talk = priced(pool)
    b, pulls = talk.state.fractions, talk.pulls(GOAL)
    totals = []
    for seed in range(300):
        report = talk.ask(queries.Play(np.eye(WIDTH), 4.0, 1, True, 0.25, seed))
        totals.append(report.total)
        index = talk.state.play.index
        np.testing.assert_allclose(talk.state.play.rows[:, :-1], pulls[index], rtol=1e-9, atol=1e-12)
        assert np.all(talk.state.play.fractions >= np.minimum(b[index], 0.25) - 1e-12)
    spread = np.std(totals, axis=0) / np.sqrt(300)
    away = np.abs(np.mean(totals, axis=0) - np.append(b @ pulls, b.sum()))
    assert np.all(away <= 5.0 * spread + 0.01 * b.sum())  # fractions below 0.001 are left out


def test_slots_are_each_teachers_own(pool):
    """A question whose slots are others' is refused; what is shown stands in one's own, with zeros elsewhere."""
    talk = priced(pool)
    second = Turn(2, 1, 3)
    talk.ask(queries.Play(np.eye(WIDTH), 4.0, 1, True, 0.25, 1), second)
    free = len(talk.state.play.rows)
    np.testing.assert_array_equal(talk.ask(queries.Tally(3), second)[[0, 2]], np.zeros((2, 3)))
    assert talk.ask(queries.Tally(3), second)[1][0] == free
    np.testing.assert_array_equal(talk.ask(queries.Count(3), second), [0, ROWS, 0])
    shown = talk.ask(queries.Gather((2, free, 3), WIDTH + 1), second)
    assert not shown[:2].any()
    assert not shown[-3:].any()
    np.testing.assert_allclose(shown[2:-3, :WIDTH], talk.pulls(GOAL)[talk.state.play.index], rtol=1e-9)
    for counts in ((free, 2, 3), (2, free + 1, 3), (2,)):
        with pytest.raises(QueryRefused, match="slots"):
            talk.ask(queries.Gather(counts, WIDTH + 1), second)
        with pytest.raises(QueryRefused, match="slots"):
            talk.ask(queries.Assign(counts, (True,) * sum(counts), (0, 0, 0)), second)
    settled = [row for part in talk.state.play.chosen for row in part]
    index, taken = talk.state.play.index, np.arange(free) % 2 == 0
    talk.ask(queries.Assign((2, free, 3), (True, True, *taken.tolist(), True, True, True), (0, 0, 0)), second)
    assert set(talk.state.chosen) == {*settled, *index[taken]}


def test_shown_rows_are_all_there_is_and_may_be_taken(pool):
    """Rows on the learner's columns, targets and the present choice; then just those that are named."""
    talk = Talk(pool, constant=1.0, scaled=True, rows=30)
    talk.ask(queries.RankRows("random", seed=1))
    talk.ask(queries.Keep(b"\x80" + b"\x00" * 15))
    chosen = talk.state.chosen
    shown = talk.ask(queries.Show((30,), WIDTH + 1))
    np.testing.assert_allclose(shown[:, : WIDTH + 1], talk.design, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(shown[:, WIDTH + 1], talk.y)
    np.testing.assert_array_equal(np.flatnonzero(shown[:, -1]), chosen)
    assert talk.ask(queries.Take((30,), tuple(place % 5 == 2 for place in range(30)))).rows == 6
    np.testing.assert_array_equal(talk.state.chosen, np.arange(2, 30, 5))
    with pytest.raises(QueryRefused, match="slots"):
        talk.ask(queries.Take((29,), (True,) * 29))
