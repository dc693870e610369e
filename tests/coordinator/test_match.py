"""Exact teaching against linear programming, scikit-learn's own fits, a central search and the paper's method."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import superteach as st
from superteach.datasets import make_classification_pool, make_regression_pool
from superteach.goals import PerturbedFit
from superteach.lesson import Words
from superteach.losses import LOSSES, Squared
from superteach.protocol import queries
from superteach.protocol.queries import OPEN
from superteach_lab.compare.task import Task
from superteach_lab.rivals import by_name
from tests.selection.oracle import can_be_met, equations_of, gradients_of, margin_of

SHARP = {"tol": 1e-12, "max_iter": 100_000}
LEARNERS = {
    "logistic": (
        LogisticRegression(fit_intercept=False, C=0.7, solver="newton-cholesky", **SHARP),
        "logistic",
    ),
    "logistic with intercept": (LogisticRegression(C=2.0, solver="newton-cholesky", **SHARP), "logistic"),
    "ridge": (Ridge(alpha=3.0, fit_intercept=False, solver="cholesky"), "squared"),
    "ridge with intercept": (Ridge(alpha=3.0, solver="cholesky"), "squared"),
    "support vectors": (LinearSVC(C=0.5, dual=False, **SHARP), "squared_hinge"),
    "Poisson": (PoissonRegressor(alpha=0.05, solver="newton-cholesky", **SHARP), "poisson"),
}


@pytest.mark.parametrize("standardize", [False, True], ids=["raw", "standardised"])
@pytest.mark.parametrize("name", LEARNERS)
def test_the_users_own_estimator_learns_the_same_model(name, standardize, pool):
    """Fitted by scikit-learn on the chosen rows alone, the learner has the lesson's model and risk."""
    learner, kind = LEARNERS[name]
    X, y = pool(kind, 1200, 4, 5)
    X = X * [1.0, 3.0, 0.5, 1.0] + [0.3, 0.0, -0.2, 0.1]
    owner = np.arange(1200) % 4
    teacher = st.SuperTeacher(
        learner, PerturbedFit(1), budget=90, method="match", standardize=standardize, random_state=3
    ).fit(X, y, groups=owner)
    chosen = teacher.sample_indices_
    scaler = StandardScaler(with_mean=learner.fit_intercept, with_std=standardize)
    if not standardize:
        scaler.set_params(with_mean=False)
    learner.fit(scaler.fit(X).transform(X)[chosen], y[chosen])
    slope = np.ravel(learner.coef_) / (scaler.scale_ if standardize else 1.0)
    model = slope
    if learner.fit_intercept:
        shift = slope @ scaler.mean_ if scaler.with_mean else 0.0
        model = np.append(slope, np.ravel(learner.intercept_) - shift)
    lesson = teacher.lesson_
    assert lesson.model == pytest.approx(model, rel=1e-6, abs=1e-7)
    assert lesson.risk == pytest.approx(np.linalg.norm(model - lesson.goal), rel=1e-3, abs=1e-6)
    assert lesson.risk < 0.1 * lesson.pool_risk


def risks_of(learner, pool, K: int, method: str) -> list[float]:
    """Risk at 4 % of 5,000 rows, over three seeds."""
    found = []
    for seed in range(3):
        X, y, owner = pool(5000, 10, K, random_state=seed)
        teacher = st.SuperTeacher(learner, PerturbedFit(seed), budget=0.04, method=method)
        found.append(teacher.fit(X, y, groups=owner).lesson_.risk)
    return found


@pytest.mark.parametrize(
    ("learner", "pool_of"),
    [
        (LogisticRegression(fit_intercept=False), make_classification_pool),
        (Ridge(fit_intercept=False), make_regression_pool),
    ],
    ids=["logistic", "noisy ridge"],
)
def test_a_hundred_times_closer_than_the_paper(learner, pool_of):
    """The same pools, sizes and goals: the median risk falls by two orders of magnitude."""
    paper = np.median(risks_of(learner, pool_of, 10, "dual"))
    assert 100.0 * np.median(risks_of(learner, pool_of, 10, "match")) <= paper


def taught(owner: np.ndarray | None, *, seed: int = 0, rows: int = 5000, **options) -> st.SuperTeacher:
    """Four per cent of the paper's logistic pool, dealt out as `owner` says."""
    X, y, _ = make_classification_pool(rows, 10, 1, random_state=0)
    learner = LogisticRegression(fit_intercept=False)
    options = {"budget": 0.04, "method": "match", "random_state": seed, **options}
    return st.SuperTeacher(learner, PerturbedFit(0), **options).fit(X, y, groups=owner)


@pytest.fixture(scope="module")
def alone() -> st.Lesson:
    """One teacher owns everything."""
    return taught(None).lesson_


@pytest.mark.parametrize("K", [5, 10, 100])
def test_many_teachers_do_as_well_as_one(K, alone):
    """Dealing the rows out to more teachers keeps the risk's order."""
    owner = make_classification_pool(5000, 10, K, random_state=0)[2]
    lesson = taught(owner).lesson_
    assert lesson.risk <= max(30.0 * alone.risk, 5e-3)
    assert lesson.risk < 0.01 * lesson.pool_risk
    assert alone.risk < 0.01 * alone.pool_risk


def test_unequal_teachers(alone):
    """A teacher with one row, one with two, one with forty, and one with the rest."""
    owner = np.full(5000, 3)
    owner[7], owner[100:102], owner[1000:1040] = 0, 1, 2
    teacher = taught(owner)
    assert len(teacher.lesson_.teachers) == 4
    assert teacher.lesson_.risk <= max(30.0 * alone.risk, 5e-3)


def test_the_order_of_the_teachers_hardly_matters(alone):
    """Other names, other turns, a risk of the same order."""
    owner = make_classification_pool(5000, 10, 5, random_state=0)[2]
    for order in ([4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
        assert taught(np.array(order)[owner]).lesson_.risk <= max(30.0 * alone.risk, 5e-3)


def test_the_seed_decides():
    """The same seed gives the same rows, another one others."""
    owner = np.arange(1000) % 3
    first, again, other = (taught(owner, rows=1000, seed=seed).sample_indices_ for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.fixture(scope="module")
def paper() -> st.Lesson:
    """The paper's method on the same rows."""
    return taught(None, method="dual").lesson_


@pytest.mark.parametrize(("K", "share"), [(1, 0.05), (5, 0.05), pytest.param(40, 0.8, marks=pytest.mark.slow)])
def test_each_alone_is_nearer_than_the_paper(K, share, paper):
    """Dual variables come from sums, then nobody says a word of its rows; the size is right to half a row a teacher.

    Forty teachers have five rows each for eleven equations, and are still nearer.
    """
    owner = np.random.default_rng(K).integers(0, K, 5000)
    teacher = taught(owner, rounding="alone")
    lesson, chosen = teacher.lesson_, teacher.sample_indices_
    assert len(np.unique(chosen)) == lesson.size
    assert abs(lesson.size - 200) <= 0.5 * K
    assert lesson.risk < share * paper.risk
    told = {entry.query for entry in lesson.ledger}
    assert "RoundAlone" in told
    assert not told & {query.__name__ for query in OPEN}
    assert lesson.settings["rounding"] == "alone"


def test_alone_means_a_teachers_own_sum(pool):
    """What each teacher's rows add up to is what its probabilities add up to, and as many rows, whatever the others do."""
    X, y = pool("squared", 3000, 4, 3)
    parts = np.array_split(np.random.default_rng(0).permutation(3000), 3)
    asked = []

    class Watched(st.Threads):
        def sum(self, query, number):
            asked.append(query)
            return super().sum(query, number)

    engine = Watched([st.Teacher(f"t{i}", X[part], y[part], part) for i, part in enumerate(parts)])
    learner = st.Learner(Squared(), 1.0)
    lesson = st.teach(st.Federation(engine), learner, PerturbedFit(2), budget=150, method="match", rounding="alone")
    assert lesson.certificate is None
    (dual,) = [query.dual for query in asked if isinstance(query, queries.RoundAlone)]
    for part, state in zip(parts, engine.states(), strict=True):
        gradients = gradients_of("squared", X[part], y[part], lesson.goal)
        index = np.arange(len(part)) if state.sample.index is None else state.sample.index
        b = expit(state.sample.odds[:] + equations_of(gradients[index]).T @ dual)
        wanted, chosen = b @ gradients[index], gradients[state.chosen]
        assert len(state.chosen) == round(b.sum())
        at_random = np.sqrt((b * (1.0 - b)) @ np.square(gradients[index]))
        assert np.linalg.norm(chosen.sum(axis=0) - wanted) < 0.05 * np.linalg.norm(at_random)


@pytest.mark.parametrize("intercept", ["none", "free"])
def test_what_gradients_leave_is_what_the_lesson_misses(intercept, pool, federation_of, chosen_rows):
    """With squared loss one Newton step from the goal is exact: θ_S − θ* = H⁻¹(Σ g_j − Λθ*) over the chosen rows."""
    X, y = pool("squared", 900, 4, 11)
    federation = federation_of(X, y, 4)
    lesson = st.teach(federation, st.Learner(Squared(), 1.0, intercept), PerturbedFit(2), budget=60, method="match")
    rows = np.column_stack([X, np.ones(900)]) if intercept == "free" else X
    chosen = chosen_rows(federation)
    penalty = np.array([1.0] * 4 + [0.0] * (intercept == "free"))
    left = gradients_of("squared", rows, y, lesson.goal)[chosen].sum(axis=0) - penalty * lesson.goal
    step = np.linalg.solve(rows[chosen].T @ rows[chosen] + np.diag(penalty), left)
    np.testing.assert_allclose(lesson.model - lesson.goal, step, atol=1e-9)
    assert lesson.size == 60
    assert lesson.certificate is None
    assert lesson.risk < 1e-3 * lesson.pool_risk


def test_the_way_to_a_goal_out_of_reach_only_shortens(pool, federation_of):
    """Relaxed lessons come nearer step by step; the last is about as far away as the rows that were chosen."""
    X, y = pool("logistic", 1500, 4, 3)
    lesson = st.teach(federation_of(X, y, 3), st.Learner(LOSSES["logistic"](), 1.0), np.full(4, 6.0), budget=60)
    assert lesson.certificate is not None
    assert len(lesson.objective) > 1
    assert np.all(np.diff(lesson.objective) < 0.0)
    assert lesson.prediction_distance < 1.2 * lesson.objective[-1]


def test_no_other_search_is_tried_when_time_is_up():
    """With no time at all there is one search, whose lesson is as good as ever."""
    owner, searches = np.arange(1000) % 3, {}
    for seconds in (None, 0.0):
        lesson = taught(owner, rows=1000, restarts=4, risk_target=0.0, seconds=seconds).lesson_
        searches[seconds] = sum(entry.query == "Candidates" for entry in lesson.ledger)
        assert lesson.size == 40
        assert lesson.settings["seconds"] == seconds
    assert searches == {None: 4, 0.0: 1}


def test_more_than_five_hundred_columns_can_be_taught():
    """Wide models have no matrices: gradients alone lead to probabilities, and the refit says how near they came."""
    rng = np.random.default_rng(0)
    X, truth = rng.standard_normal((2000, 505)) / np.sqrt(505), rng.standard_normal(505)
    y = np.where(X @ truth + rng.standard_normal(2000) > 0.0, 1, 0)
    learner = LogisticRegression(fit_intercept=False, **SHARP)
    teacher = st.SuperTeacher(learner, 0.15 * truth, budget=900, method="match").fit(X, y)
    lesson, chosen = teacher.lesson_, teacher.sample_indices_
    assert len(np.unique(chosen)) == lesson.size == 900
    refit = learner.fit(X[chosen], y[chosen]).coef_.ravel()
    assert lesson.risk == pytest.approx(np.linalg.norm(refit - lesson.goal), rel=1e-3)
    random = st.SuperTeacher(learner, 0.15 * truth, budget=900, method="random").fit(X, y).lesson_
    assert lesson.risk < 0.5 * random.risk


def test_a_goal_out_of_reach_is_said_to_be(pool, tmp_path, federation_of, chosen_rows):
    """A goal far out gets its certificate, the verdict says so, and a saved lesson keeps the proof."""
    X, y = pool("squared", 600, 3, 4)
    federation = federation_of(X, y, 3)
    goal = np.array([30.0, -20.0, 10.0])
    lesson = st.teach(federation, st.Learner(Squared(), 2.0), goal, budget=40, method="match")
    target = np.append(2.0 * goal, 40)
    gradients = gradients_of("squared", X, y, goal)
    assert not can_be_met(gradients, target)
    assert lesson.certificate is not None
    assert lesson.certificate.margin == pytest.approx(margin_of(lesson.certificate.direction, gradients, target))
    assert lesson.verdict.startswith("no 40 of these 600 rows can teach this goal exactly")
    chosen = chosen_rows(federation)
    assert len(np.unique(chosen)) == lesson.size == 40
    refit = Ridge(alpha=2.0, fit_intercept=False).fit(X[chosen], y[chosen]).coef_
    assert lesson.risk == pytest.approx(np.linalg.norm(refit - goal), rel=1e-6)
    assert f"{lesson.risk:.2g}" in lesson.verdict
    apart = np.sqrt(np.mean((X @ (refit - goal)) ** 2))
    assert lesson.prediction_distance == pytest.approx(apart, rel=1e-6)
    assert f"{apart:.2g}" in lesson.verdict
    assert f"{np.std(X @ goal):.2g}" in lesson.verdict
    assert 0.0 < lesson.lower_bound <= lesson.prediction_distance
    lesson.save(tmp_path / "lesson.json")
    loaded = st.Lesson.load(tmp_path / "lesson.json")
    assert np.array_equal(loaded.certificate.direction, lesson.certificate.direction)
    assert loaded.certificate.margin == lesson.certificate.margin
    assert loaded.verdict == lesson.verdict


def test_verdicts_without_a_certificate(alone, tmp_path):
    """Taught, not taught but not disproved either, and other methods' plain distance."""
    assert alone.certificate is None
    assert alone.taught
    assert alone.verdict.startswith("the goal is taught")
    far = alone.prediction_distance * 0.5 / alone.risk
    missed = replace(alone, risk=0.5, prediction_distance=far)
    assert not missed.taught
    assert "no proof either way" in missed.verdict
    plain = replace(missed, words=Words())
    assert "proof" not in plain.verdict
    alone.save(tmp_path / "lesson.json")
    assert st.Lesson.load(tmp_path / "lesson.json").certificate is None


@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_the_nearest_model_is_as_near_as_a_central_search_finds(kind, pool, federation_of, chosen_rows):
    """Goals that cannot be taught: not much farther than a rival who sees all rows, and the size is kept."""
    ours, theirs = [], []
    for seed in range(2):
        X, y = pool(kind, 120, 4, seed)
        goal = np.random.default_rng(seed).standard_normal(4) * 9.0
        if kind == "squared":
            goal = -2.0 * Ridge(alpha=1.0, fit_intercept=False).fit(X, y).coef_
        learner, federation = st.Learner(LOSSES[kind](), 1.0), federation_of(X, y, 3)
        lesson = st.teach(federation, learner, goal, budget=40, method="match")
        assert lesson.size == len(set(chosen_rows(federation).tolist())) == 40
        ours.append(lesson.risk)
        (rival,) = by_name(["bit-flip"])
        rows = rival.choose(Task(X, y, np.zeros(120, dtype=int), learner, goal, 60.0), 40, seed)
        fit = st.teach(federation_of(X[rows], y[rows], 1), learner, goal, budget=40, method="random")
        theirs.append(fit.risk)
    assert min(theirs) > 0.1
    assert np.exp(np.mean(np.log(ours) - np.log(theirs))) < 1.1
