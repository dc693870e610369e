"""Exact teaching inside one teacher: gradients, probabilities and rounding against NumPy on the rows it holds."""

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
from superteach.selection import rounding
from superteach.selection.relaxation import BINS, SHORTEST, long_bin

ROWS, WIDTH = 400, 3
GOAL = np.array([1.0, 0.5, -0.4])
POINT = np.array([0.2, -0.1, 0.3, -0.05])
ALONE = Turn(number=1, position=0, teachers=1)
ODDS = np.linspace(-4.0, 2.0, BINS)
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

    def gradients(self, model):
        """−ℓ'(x'θ) x."""
        return (self.y * expit(-self.y * (self.design @ model)))[:, None] * self.design


def bins_of(gradients: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """Bin of every row by the length of its gradient."""
    moved = gradients * metric if metric.ndim == 1 else gradients @ metric.T
    with np.errstate(divide="ignore"):
        length = np.log2(np.linalg.norm(moved, axis=1))
    return np.clip(np.floor(length) - SHORTEST, 0, BINS - 1).astype(int)


@forms
@pytest.mark.parametrize("diagonal", [False, True], ids=["matrix", "diagonal"])
@pytest.mark.parametrize(("constant", "scaled"), [(0.0, False), (2.0, True), (0.5, False), (0.0, True)])
def test_rows_are_counted_by_the_length_of_their_gradient(form, diagonal, constant, scaled, pool):
    """In octaves of ‖M g_j‖, with a constant column and scaled columns too; a row of zeros is in the lowest."""
    talk = Talk(pool, form, constant, scaled)
    width = WIDTH + bool(constant)
    draw = np.random.default_rng(0)
    metric = draw.uniform(0.1, 3.0, width) if diagonal else draw.standard_normal((width, width))
    model = draw.standard_normal(width)
    counts = talk.ask(queries.Gradients(model, metric))
    expected = np.bincount(bins_of(talk.gradients(model), metric), minlength=BINS)
    assert counts.sum() == ROWS
    np.testing.assert_array_equal(counts, expected)


def relaxed(gradients, odds, point):
    """Σ log(1 + exp(z + u'(g, 1))), its gradient and its curvature, from the rows."""
    lifted = np.column_stack([gradients, np.ones(len(gradients))])
    z = odds + lifted @ point
    b = expit(z)
    return np.logaddexp(0.0, z).sum(), lifted.T @ b, lifted.T @ (lifted * (b * (1.0 - b))[:, None]), b


@forms
@pytest.mark.parametrize("least", [0.0, 0.25])
def test_sums_over_rows_sampled(form, least, pool):
    """Values, gradients and curvature of the relaxed problem, and of the loss weighted by probabilities."""
    talk = Talk(pool, form)
    gradients = talk.gradients(GOAL)
    talk.ask(queries.Gradients(GOAL, np.eye(WIDTH)))
    count = talk.ask(queries.Thin(ODDS, least, 5))
    index = talk.state.sample.index if least else np.arange(ROWS)
    odds = ODDS[bins_of(gradients, np.eye(WIDTH))][index]
    odds = np.maximum(odds, logit(least)) if least else odds
    assert count == len(index)
    assert (0 < len(index) < ROWS) == (least > 0.0)
    value, gradient, curvature, b = relaxed(gradients[index], odds, POINT)
    reply = talk.ask(queries.AskMoments("relax", "sampled", POINT, 2))
    assert reply.value == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(reply.gradient, gradient, rtol=1e-10)
    np.testing.assert_allclose(reply.curvature, curvature, rtol=1e-9, atol=1e-9)
    steps = np.array([0.0, 0.5, 2.0])
    along = POINT[::-1].copy()
    values = talk.ask(queries.AskValues("relax", "sampled", POINT, along, steps))
    expected = [relaxed(gradients[index], odds, POINT + step * along)[0] for step in steps]
    np.testing.assert_allclose(values, expected, rtol=1e-12)

    assert talk.ask(queries.Include(POINT)) == pytest.approx(b.sum(), rel=1e-12)
    np.testing.assert_allclose(talk.state.probabilities, b, rtol=1e-10)
    X, y = talk.X[index], talk.y[index]
    reply = talk.ask(queries.AskMoments("loss", "likely", GOAL, 2))
    wrong = expit(-y * (X @ GOAL))
    assert reply.value == pytest.approx(b @ np.logaddexp(0.0, -y * (X @ GOAL)), rel=1e-10)
    np.testing.assert_allclose(reply.gradient, -(b * wrong * y) @ X, rtol=1e-9)
    np.testing.assert_allclose(reply.curvature, (X.T * (b * wrong * (1.0 - wrong))) @ X, rtol=1e-9, atol=1e-9)
    steps = np.array([0.0, 0.3])
    values = talk.ask(queries.AskValues("loss", "likely", GOAL, GOAL, steps))
    expected = [b @ np.logaddexp(0.0, -y * (X @ GOAL) * (1.0 + step)) for step in steps]
    np.testing.assert_allclose(values, expected, rtol=1e-10)


def test_who_is_sampled_depends_on_the_row_and_the_seed_alone(pool):
    """The same rows by the same seed, others by another; each as often as its odds say."""
    talk, seen = Talk(pool), []
    talk.ask(queries.Gradients(GOAL, np.eye(WIDTH)))
    for seed in range(200):
        talk.ask(queries.Thin(ODDS, 0.25, seed))
        seen.append(np.isin(np.arange(ROWS), talk.state.sample.index))
    talk.ask(queries.Thin(ODDS, 0.25, 0))
    np.testing.assert_array_equal(np.isin(np.arange(ROWS), talk.state.sample.index), seen[0])
    likely = np.minimum(expit(ODDS[bins_of(talk.gradients(GOAL), np.eye(WIDTH))]) / 0.25, 1.0)
    often = np.mean(seen, axis=0)
    assert np.all(often[likely >= 1.0] == 1.0)
    assert np.all(np.abs(often - likely) <= 5.0 * np.sqrt(likely * (1.0 - likely) / 200) + 1e-9)


def test_costs_lower_the_odds(pool):
    """An owner's dearest row is thousands of times less likely than its cheapest one of the same strength."""
    costs = np.linspace(1.0, 9.0, ROWS)
    plain, dear = Talk(pool), Talk(pool, costs=costs)
    for talk in (plain, dear):
        talk.ask(queries.Gradients(GOAL, np.eye(WIDTH)))
        talk.ask(queries.Thin(ODDS, 0.0, 1))
    lowered = plain.state.sample.odds[:] - dear.state.sample.odds[:]
    np.testing.assert_allclose(lowered, 8.0 * (costs - 1.0) / 8.0, atol=1e-12)


@pytest.mark.parametrize("rows", ["sampled", "likely"])
@pytest.mark.parametrize("function", ["loss", "dual", "square", "positive", "relax"])
def test_nothing_else_is_summed_over_rows_sampled(rows, function, pool):
    """Sums over one class, say, could be subtracted from those over all rows until few are left."""
    if (rows, function) in (("sampled", "relax"), ("likely", "loss")):
        return
    talk = Talk(pool)
    talk.ask(queries.Gradients(GOAL, np.eye(WIDTH)))
    talk.ask(queries.Thin(ODDS, 0.0, 1))
    talk.ask(queries.Include(POINT))
    point = POINT if function == "relax" else GOAL
    for query in (
        queries.AskMoments(function, rows, point, 1),
        queries.AskValues(function, rows, point, point, np.ones(1)),
    ):
        with pytest.raises(QueryRefused, match=f"does not sum '{function}' over rows '{rows}'"):
            talk.ask(query)
    for other in ("all", "chosen"):
        with pytest.raises(QueryRefused, match="does not sum 'relax'"):
            talk.ask(queries.AskMoments("relax", other, POINT, 1))


def test_a_new_model_or_another_sample_undoes_what_came_after(pool):
    """Probabilities belong to rows sampled, and these to gradients."""
    talk = Talk(pool)
    talk.ask(queries.Gradients(GOAL, np.eye(WIDTH)))
    talk.ask(queries.Thin(ODDS, 0.0, 1))
    talk.ask(queries.Include(POINT))
    talk.ask(queries.Thin(ODDS, 0.0, 2))
    with pytest.raises(QueryRefused, match="needs inclusion probabilities"):
        talk.ask(queries.AskMoments("loss", "likely", GOAL, 1))
    talk.ask(queries.Include(POINT))
    talk.ask(queries.Gradients(GOAL, np.eye(WIDTH)))
    with pytest.raises(QueryRefused, match="needs rows sampled"):
        talk.ask(queries.Include(POINT))


def included(pool, **options) -> Talk:
    talk = Talk(pool, **options)
    talk.ask(queries.Gradients(GOAL, np.eye(WIDTH)))
    talk.ask(queries.Thin(ODDS, 0.0, 1))
    talk.ask(queries.Include(POINT))
    return talk


@forms
def test_rounding_alone_keeps_the_relaxed_sum(form, pool):
    """Its own rows, as many as its probabilities add up to, with nearly the same sum of gradients."""
    talk = included(pool, form=form)
    b, gradients = talk.state.probabilities, talk.gradients(GOAL)
    size = talk.ask(queries.RoundAlone(np.eye(WIDTH), POINT, 3))
    chosen = talk.state.chosen
    assert size[:2] == (len(chosen), np.count_nonzero(talk.y[chosen] > 0.0))
    assert len(np.unique(chosen)) == len(chosen) == round(b.sum())
    draw = np.random.default_rng(0)
    lots = [np.linalg.norm(gradients[draw.random(ROWS) < b].sum(axis=0) - b @ gradients) for _ in range(1000)]
    assert np.linalg.norm(gradients[chosen].sum(axis=0) - b @ gradients) < 0.1 * min(lots)


@pytest.mark.parametrize("most", [150, 300])
def test_chance_decides_about_too_many_candidates(most, pool, monkeypatch):
    """In large lessons: the count stays right, the sum nearly as near as where all are candidates, and far nearer than at
    random.
    """
    monkeypatch.setattr(rounding, "CANDIDATES", most)
    talk = included(pool, rows=4000)
    b, gradients = talk.state.probabilities, talk.gradients(GOAL)
    shown = talk.ask(queries.Candidates(np.eye(WIDTH), POINT, 1, 0.25, most, 3))
    assert 0.5 * most < len(shown.vectors) < 1.5 * most
    talk.ask(queries.RoundAlone(np.eye(WIDTH), POINT, 3))
    chosen = talk.state.chosen
    assert len(np.unique(chosen)) == len(chosen) == round(b.sum())
    draw = np.random.default_rng(0)
    lots = [np.linalg.norm(gradients[draw.random(4000) < b].sum(axis=0) - b @ gradients) for _ in range(1000)]
    assert np.linalg.norm(gradients[chosen].sum(axis=0) - b @ gradients) < 0.1 * min(lots)


def test_candidates_are_rows_undecided(pool):
    """Thinned without a change in the mean: sums of many seeds are around the relaxed one. Long rows are not thinned."""
    talk = Talk(pool)
    talk.ask(queries.Gradients(GOAL, np.eye(WIDTH)))
    talk.ask(queries.Thin(ODDS - 3.0, 0.0, 1))
    talk.ask(queries.Include(POINT))
    b, gradients = talk.state.probabilities, talk.gradients(GOAL)
    bins = bins_of(gradients, np.eye(WIDTH))
    assert np.count_nonzero(b < 0.25) > 100
    long = bins >= long_bin(np.bincount(bins, minlength=BINS))
    totals = []
    for seed in range(300):
        shown = talk.ask(queries.Candidates(np.eye(WIDTH), POINT, 1, 0.25, 10_000, seed))
        index, certain = talk.state.undecided.candidates, talk.state.undecided.certain
        np.testing.assert_allclose(shown.vectors, gradients[index], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(shown.total, gradients[certain].sum(axis=0), rtol=1e-9, atol=1e-9)
        assert shown.certain == len(certain)
        assert np.all(shown.probabilities >= np.minimum(b[index], 0.25) - 1e-12)
        np.testing.assert_array_equal(np.flatnonzero(long), index[long[index]])
        np.testing.assert_allclose(shown.probabilities[long[index]], b[long])
        likely = shown.probabilities
        totals.append(np.append(shown.total + likely @ shown.vectors, shown.certain + likely.sum()))
    spread = np.std(totals, axis=0) / np.sqrt(300)
    away = np.abs(np.mean(totals, axis=0) - np.append(b @ gradients, b[bins > 0].sum()))
    assert spread.min() > 0.0
    assert np.all(away <= 5.0 * spread + 1e-9)


def test_idle_rows_stay_out_and_fill_a_lesson_up(pool):
    """Rows of length 0 are no candidates; a choice takes as many of them as it says."""
    talk = included(pool)
    idle = ~talk.X.any(axis=1)
    assert np.count_nonzero(idle) > 5
    shown = talk.ask(queries.Candidates(np.eye(WIDTH), POINT, 1, rounding.EDGE, 10_000, 1))
    assert shown.idle == np.count_nonzero(idle)
    assert len(shown.vectors) == np.count_nonzero(~idle)
    size = talk.ask(queries.Select((len(shown.vectors),), np.array([0.0, 3.0]), (5,)))
    assert size.rows == 7
    assert np.count_nonzero(idle[talk.state.chosen]) == 5


def test_choices_are_each_teachers_own(pool):
    """A choice among others' candidates is refused; a teacher takes just those of its own that are named."""
    talk = included(pool)
    second = Turn(2, 1, 3)
    shown = talk.ask(queries.Candidates(np.eye(WIDTH), POINT, 1, 0.25, 10_000, 1), second)
    free = len(shown.vectors)
    for counts in ((free, 2, 3), (2, free + 1, 3), (2,)):
        with pytest.raises(QueryRefused, match="candidates of this teacher"):
            talk.ask(queries.Select(counts, np.zeros(0), (0, 0, 0)), second)
    certain, candidates = talk.state.undecided.certain, talk.state.undecided.candidates
    own = np.arange(0, free, 2)
    places = np.concatenate([[0, 1], 2 + own, 2 + free + np.arange(3)]).astype(float)
    size = talk.ask(queries.Select((2, free, 3), places, (0, 0, 0)), second)
    assert set(talk.state.chosen) == {*certain, *candidates[own]}
    assert size.rows == len(certain) + len(own)


@pytest.mark.parametrize("owners", [2, 5])
def test_candidates_of_several_teachers_are_those_of_one(owners, federation_of, chosen_rows, pool):
    """Who holds which row changes neither what is shown nor what is chosen, but for which rows are long."""
    X, y = pool("logistic", ROWS, WIDTH, 1)
    seen = []
    for K in (1, owners):
        federation = federation_of(X, y, K, Logistic())
        federation.sum(queries.Gradients(GOAL, np.eye(WIDTH)))
        federation.sum(queries.Thin(ODDS, 0.25, 1))
        federation.sum(queries.Include(POINT))
        shown = federation.gather(queries.Candidates(np.eye(WIDTH), POINT, 1, rounding.EDGE, 10_000 * K, 3))
        vectors = np.concatenate([one.vectors for one in shown])
        chance = np.concatenate([one.probabilities for one in shown])
        certain, total = sum(one.certain for one in shown), sum(one.total for one in shown)
        size = round(float(chance.sum())) + certain
        taken = rounding.round_rows(
            vectors, chance, chance @ vectors, size - certain, size - certain, np.random.default_rng(0)
        )
        counts = tuple(len(one.vectors) for one in shown)
        kept = federation.sum(queries.Select(counts, np.flatnonzero(taken).astype(float), (0,) * K))
        assert kept.rows == size
        seen.append((vectors, chance, total, np.sort(chosen_rows(federation))))
    for one, other in zip(*seen, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_shown_rows_are_all_there_is_and_may_be_taken(pool):
    """Rows on the learner's columns, targets and the present choice; then just those that are named."""
    talk = Talk(pool, constant=1.0, scaled=True, rows=30)
    talk.ask(queries.RankRows("random", seed=1))
    talk.ask(queries.Keep(b"\x80" + b"\x00" * 15))
    chosen = talk.state.chosen
    shown = talk.ask(queries.Show(WIDTH + 1))
    np.testing.assert_allclose(shown[:, : WIDTH + 1], talk.design, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(shown[:, WIDTH + 1], talk.y)
    np.testing.assert_array_equal(np.flatnonzero(shown[:, -1]), chosen)
    assert talk.ask(queries.Select((30,), np.arange(2.0, 30.0, 5.0), (0,))).rows == 6
    np.testing.assert_array_equal(talk.state.chosen, np.arange(2, 30, 5))
    with pytest.raises(QueryRefused, match="candidates of this teacher"):
        talk.ask(queries.Select((29,), np.zeros(0), (0,)))
