"""Many classes and several targets through the scikit-learn face, against scikit-learn, HiGHS and exhaustive search."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import eigvalsh
from scipy.optimize import linprog
from scipy.special import softmax
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.svm import LinearSVC

from superteach import Learner, Lesson, SuperTeacher, losses
from superteach.exceptions import BudgetError, DataError, GoalError, LearnerError, QueryRefused, SettingError
from superteach.goals import MaxAUC, PerturbedFit
from superteach.losses.multioutput import Softmax
from superteach.protocol.messages import Turn
from superteach.protocol.queries import AskMoments, Gradients, Prepare, Thin
from superteach.selection.relaxation import BINS
from superteach.teacher import Teacher

NAMES = np.array(["ash", "birch", "cedar", "elm"])
TIGHT = LogisticRegression(C=0.5, tol=1e-11, max_iter=100_000)


def pool(rows=1500, columns=3, classes=4, seed=0):
    """Overlapping clusters, one for each class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    return rng.standard_normal((rows, columns)) + rng.standard_normal((classes, columns))[y], NAMES[y]


def targets(X, seed=0):
    """Three noisy targets."""
    rng = np.random.default_rng(seed)
    return X @ rng.standard_normal((X.shape[1], 3)) + rng.standard_normal((len(X), 3)) + 2.0


LEARNERS = [
    TIGHT,
    LogisticRegression(C=0.5, fit_intercept=False, tol=1e-11, max_iter=100_000),
    RidgeClassifier(alpha=2.0),
    LinearSVC(C=0.5, tol=1e-10, max_iter=1_000_000),
    Ridge(alpha=2.0),
    LinearRegression(),
]


@pytest.mark.long(every=4)
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: type(one).__name__)
def test_refitting_the_learner_gives_the_taught_model(learner):
    """The goal is the full fit: a tenth of the rows teach it, and scikit-learn's own fit on them is the lesson's model."""
    X, labels = pool()
    y = labels if hasattr(learner, "decision_function") else targets(X)
    full = learner.fit(X, y)
    goal = np.column_stack([full.coef_, full.intercept_]) if np.any(full.intercept_) else full.coef_
    owner = np.arange(len(X)) % 2
    teacher = SuperTeacher(learner, goal, budget=300).fit(X, y, groups=owner)
    lesson = teacher.lesson_
    assert lesson.pool_risk < 1e-4
    assert lesson.risk < 0.02
    again = learner.fit(X[teacher.sample_indices_], y[teacher.sample_indices_])
    assert teacher.coef_ == pytest.approx(again.coef_, abs=1e-5)
    assert np.ptp(teacher.intercept_ - again.intercept_) < 1e-5
    assert teacher.coef_.shape == again.coef_.shape == lesson.coef.shape
    if y is labels:
        assert (teacher.predict(X) == again.predict(X)).all()
        assert (teacher.classes_ == NAMES).all()
        assert teacher.decision_function(X) - again.decision_function(X) == pytest.approx(0.0, abs=1e-4)
    else:
        assert teacher.predict(X) == pytest.approx(again.predict(X))
    if hasattr(again, "predict_proba"):
        assert teacher.predict_proba(X) == pytest.approx(again.predict_proba(X), abs=1e-5)
        assert np.exp(teacher.predict_log_proba(X)) == pytest.approx(teacher.predict_proba(X))
    elif lesson.goal.ndim == 2 and y is labels:
        assert not hasattr(teacher, "predict_proba")


@pytest.mark.parametrize("privacy", ["none", "isolated"])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_several_targets_are_taught_as_ridge_learns_them(fit_intercept, privacy):
    """With and without an intercept, by sums or by shares: the model is scikit-learn's own fit on the chosen rows."""
    X, _ = pool(600)
    learner, Y = Ridge(alpha=2.0, fit_intercept=fit_intercept), targets(X)
    full = learner.fit(X, Y)
    goal = np.column_stack([full.coef_, full.intercept_]) if fit_intercept else full.coef_
    teacher = SuperTeacher(learner, goal, budget=200, privacy=privacy).fit(X, Y, groups=np.arange(600) % 2)
    assert len(teacher.sample_indices_) == 200
    again = learner.fit(X[teacher.sample_indices_], Y[teacher.sample_indices_])
    assert teacher.coef_ == pytest.approx(again.coef_, abs=1e-8)
    assert np.shape(teacher.model_.intercept_) == np.shape(again.intercept_)
    assert teacher.model_.predict(X) == pytest.approx(again.predict(X), abs=1e-8)
    left = np.column_stack([again.coef_, again.intercept_]) if fit_intercept else again.coef_
    assert teacher.measured_.risk == pytest.approx(np.linalg.norm(left - goal), abs=1e-8)
    assert teacher.measured_.prediction_distance < 0.1 * teacher.measured_.prediction_spread


def test_several_targets_are_refused_by_dp_before_anything_is_asked(capsys):
    X, _ = pool(600)
    with pytest.raises(SettingError, match="privacy='dp' teaches one output, the learner has 3"):
        SuperTeacher(Ridge(), np.ones((3, 4)), budget=200, privacy="dp", verbose=1).fit(X, targets(X))
    assert "round 1" not in capsys.readouterr().err


def test_consistency_and_distances_are_those_of_predictions():
    """Shares of equal classes, lengths of differences, the spread around each output's mean."""
    X, y = pool(600)
    teacher = SuperTeacher(TIGHT, PerturbedFit(1), budget=60, method="random", standardize=True).fit(X, y)
    lesson = teacher.lesson_
    scores, wanted = (X @ one[:, :-1].T + one[:, -1] for one in (lesson.model, lesson.goal))
    assert lesson.agreement == np.mean(scores.argmax(axis=1) == wanted.argmax(axis=1))
    assert lesson.prediction_distance == pytest.approx(np.sqrt(np.square(scores - wanted).sum() / 600))
    assert lesson.prediction_spread == pytest.approx(np.sqrt(np.square(wanted - wanted.mean(axis=0)).sum() / 600))
    assert lesson.goal.sum(axis=0) == pytest.approx(0.0, abs=1e-12)


def test_two_classes_take_the_binary_path():
    """Labels of two names give the lesson of ±1 to the last bit."""
    X, y = pool(800, classes=2)
    named, plain = (SuperTeacher(TIGHT, PerturbedFit(2), budget=60).fit(X, one) for one in (y, (y == "birch") * 2 - 1))
    assert (named.sample_indices_ == plain.sample_indices_).all()
    assert (named.lesson_.model == plain.lesson_.model).all()
    assert named.lesson_.settings["learner"]["loss"] == {"name": "logistic"}
    assert named.coef_.shape == (1, 3)


def test_sparse_rows_teach_the_same():
    """Sparse and dense rows, rounded together and alone."""
    X, y = pool(900)
    X[np.abs(X) < 0.5] = 0.0
    for rounding in ("together", "alone"):
        dense, thin = (
            SuperTeacher(TIGHT, TIGHT.fit(X, y), budget=200, rounding=rounding).fit(form, y).lesson_
            for form in (X, sparse.csr_matrix(X))
        )
        assert dense.risk < 0.1
        assert thin.risk < 0.1


def balanced(X, codes, goal, ridge, size):
    """HiGHS: whether fractions of rows can balance the goal."""
    whole = np.column_stack([X, np.ones(len(X))])
    pulls = np.einsum("jc,jk->jck", np.eye(len(goal))[codes] - softmax(whole @ goal.T, axis=1), whole)
    wanted = ridge * goal
    wanted[:, -1] = 0.0
    equations = np.vstack([pulls.reshape(len(X), -1).T, np.ones(len(X))])
    found = linprog(np.zeros(len(X)), A_eq=equations, b_eq=np.append(wanted.ravel(), size), bounds=(0.0, 1.0))
    return found.status == 0


@pytest.mark.parametrize("length", [0.4, 1.0, 6.0])
def test_certificates_say_what_a_linear_programme_says(length):
    """A goal that HiGHS can balance has no certificate; one that it cannot has one, and a lesson that comes near."""
    X, y = pool(300)
    goal = length * np.column_stack([(fit := TIGHT.fit(X, y)).coef_, fit.intercept_])
    goal -= goal.mean(axis=0)
    lesson = SuperTeacher(TIGHT, goal, budget=60).fit(X, y).lesson_
    assert (lesson.certificate is None) == balanced(X, np.searchsorted(NAMES, y), goal, 2.0, 60) == (length < 1.0)
    if length > 1.0:
        random = SuperTeacher(TIGHT, goal, budget=60, method="random").fit(X, y).lesson_
        assert lesson.prediction_distance < random.prediction_distance
        assert lesson.agreement > random.agreement
        assert 0.0 < lesson.lower_bound <= lesson.prediction_distance


@pytest.mark.parametrize("measure", ["coefficients", "predictions"])
def test_no_lesson_of_a_tiny_pool_goes_below_its_bound(measure):
    """Every lesson of 5 of 11 rows is fitted by scikit-learn: none is nearer than the bound, nor far nearer than ours."""
    X, y = pool(11, 1, 3, 5)
    learner = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000)
    goal = np.array([[9.0, 1.0], [-5.0, 0.0], [-4.0, -1.0]])
    lesson = SuperTeacher(learner, goal, budget=5, measure=measure).fit(X, y).lesson_
    assert lesson.certificate is not None
    shown = np.column_stack([X, np.ones(11)])
    distances = []
    for rows in map(list, combinations(range(11), 5)):
        if len(np.unique(y[rows])) == 3:
            fit = learner.fit(X[rows], y[rows])
            offset = fit.intercept_ - fit.intercept_.mean()
            away = np.column_stack([fit.coef_, offset]) - goal
            per_row = np.linalg.norm(shown @ away.T) / np.sqrt(11)
            distances.append(np.linalg.norm(away) if measure == "coefficients" else per_row)
    assert 0.0 < lesson.lower_bound <= min(distances)
    assert min(distances) - 1e-6 <= lesson.distance <= 1.5 * min(distances)


def test_lessons_are_saved_and_reported(tmp_path):
    """JSON keeps the shapes; the report names classes' coefficients; its recipe teaches the same lesson."""
    X, y = pool(700)
    teacher = SuperTeacher(TIGHT, PerturbedFit(1), budget=100).fit(X, y)
    teacher.lesson_.save(tmp_path / "lesson.json")
    loaded = Lesson.load(tmp_path / "lesson.json")
    assert loaded.model.shape == (4, 4)
    assert (loaded.model == teacher.lesson_.model).all()
    assert (loaded.offset == teacher.intercept_).all()
    loaded.report(tmp_path / "report.html", columns=["height", "girth", "age"])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "a logistic regression over 4 classes (softmax) on " in page
    assert "cedar: girth" in page
    assert loaded.classes == tuple(sorted(NAMES))
    for lesson in (teacher.lesson_, loaded):
        assert [*lesson.to_frame()["column"][::4]] == [f"{name}: x0" for name in sorted(NAMES)]
    assert "losses.Softmax(outputs=4)" in page
    again = SuperTeacher(Learner(losses.Softmax(outputs=4), ridge=2.0, intercept="free"), loaded.goal, budget=100)
    assert again.fit(X, y).lesson_.risk == pytest.approx(loaded.risk, rel=0.5)


def test_least_squares_says_when_it_is_not_determined():
    """A column twice, and a lesson of too few rows."""
    X, _ = pool(200)
    target = targets(X)[:, 0]
    full = LinearRegression().fit(X, target)
    twice = np.column_stack([X, X[:, 1]])
    with pytest.raises(
        DataError, match=r"no unique model belongs to these 200 rows: columns '1', '3' are linearly dependent"
    ):
        SuperTeacher(LinearRegression(), np.zeros(5), budget=20).fit(twice, target)
    with pytest.raises(DataError, match="'3', 'the intercept' are linearly dependent"):
        SuperTeacher(LinearRegression(), np.zeros(5), budget=20).fit(np.column_stack([X, np.ones(200)]), target)
    with pytest.raises(BudgetError, match="as many rows as its 4 coefficients: give at least 4"):
        SuperTeacher(LinearRegression(), full, budget=3, method="random").fit(X, target)
    with pytest.raises(SettingError, match="does not teach a learner without a penalty"):
        SuperTeacher(LinearRegression(), full, budget=20, method="dual").fit(X, target)


def test_refusals_say_what_to_do():
    """What many classes cannot have: other methods and privacy modes, goals of a wrong shape, lessons without a class."""
    X, y = pool(300)
    for wrong, error, words in (
        ({"method": "dual"}, SettingError, "method='dual' does not teach 4 classes or targets; use method='match'"),
        ({"method": "oblivious"}, SettingError, "use method='match'"),
        ({"privacy": "dp"}, SettingError, "privacy='dp' teaches one output, the learner has 4"),
        ({"goal": np.zeros((3, 4))}, GoalError, r"shape \(3, 4\), expected \(4, 4\): a row for each class"),
        ({"goal": np.zeros((2, 8))}, GoalError, r"shape \(2, 8\)"),
        ({"goal": TIGHT.fit(X, y == "elm")}, GoalError, r"shape \(1, 3\); there are 4 classes, and a row for each"),
        ({"goal": MaxAUC()}, GoalError, "about two classes"),
        ({"budget": 3, "method": "random"}, BudgetError, "a row of each of its 4 classes: give at least 4"),
        ({"estimator": LogisticRegression(solver="liblinear")}, LearnerError, "'liblinear'.* knows two classes"),
        ({"estimator": Learner(losses.Softmax(3), 1.0)}, LearnerError, "'softmax' is not taught over 4 classes"),
    ):
        given = {"estimator": TIGHT, "goal": np.zeros((4, 4)), "budget": 30} | wrong
        with pytest.raises(error, match=words):
            SuperTeacher(**given).fit(X, y)


@pytest.mark.parametrize("outputs", [1, 3])
def test_curvature_of_each_output_by_itself(outputs):
    """The diagonal blocks of the whole curvature; asked for as many outputs as the learner has, or refused."""
    X, y = pool(200, classes=3)
    codes = np.searchsorted(NAMES, y).astype(float)
    teacher, turn = Teacher("all", X, codes), Turn(1, 0, 1)
    state, _ = teacher.answer(Prepare(Softmax(3), 1.0, None, None), teacher.start(), turn)
    width = X.shape[1] + 1
    point = np.random.default_rng(0).standard_normal(3 * width)
    whole = AskMoments("loss", "all", point, 2)
    asked = AskMoments("loss", "all", point, 2, outputs)
    full = whole.read(teacher.answer(whole, state, turn)[1].values)
    found = asked.read(teacher.answer(asked, state, turn)[1].values)
    assert np.allclose(found.gradient, full.gradient)
    if outputs == 1:
        assert found.blocks is None
        return
    for place, block in enumerate(found.blocks.own):
        span = slice(place * width, (place + 1) * width)
        assert np.allclose(block, full.curvature[span, span])
    with pytest.raises(QueryRefused, match="no learner of 2 outputs"):
        teacher.answer(AskMoments("loss", "all", point, 2, 2), state, turn)


def test_rough_curvatures_are_near_the_whole_one():
    """Summed over a part of the rows, weighted by how likely they were: no direction bends twice or half as much."""
    X, y = pool(6000, classes=3)
    teacher, turn = Teacher("all", X, np.searchsorted(NAMES, y).astype(float)), Turn(1, 0, 1)
    width, state = 3 * (X.shape[1] + 1), teacher.start()
    model = 0.3 * np.random.default_rng(0).standard_normal(width)
    for query in (
        Prepare(Softmax(3), 1.0, None, None),
        Gradients(model, np.ones(width)),
        Thin(np.full(BINS, -2.0), 0.0, 0),
    ):
        state, _ = teacher.answer(query, state, turn)
    asked = [AskMoments("relax", "sampled", 0.1 * np.append(model, 1.0), 2, rough=rough) for rough in (False, True)]
    whole, rough = (query.read(teacher.answer(query, state, turn)[1].values) for query in asked)
    assert rough.value == whole.value
    np.testing.assert_array_equal(rough.gradient, whole.gradient)
    assert not np.array_equal(rough.curvature, whole.curvature)
    flat = 1e-9 * np.trace(whole.curvature) * np.eye(width + 1)  # softmax does not bend where classes shift alike
    ratios = eigvalsh(rough.curvature + flat, whole.curvature + flat)
    assert 0.5 < ratios.min() <= ratios.max() < 2.0
