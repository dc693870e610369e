"""SuperTeacher against scikit-learn itself: refits, plain sorts, containers, owners and seeds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import optimize, sparse
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from superteach import Learner, SuperTeacher
from superteach.exceptions import DataError, SettingError
from superteach.goals import PerturbedFit
from superteach.losses import LOSSES, Logistic
from tests.oracles import TIGHT, accuracy

ESTIMATORS = {
    "logistic": lambda i: LogisticRegression(C=0.5, fit_intercept=i, **TIGHT),
    "logistic cholesky": lambda i: LogisticRegression(C=2.0, fit_intercept=i, solver="newton-cholesky", **TIGHT),
    "logistic liblinear": lambda i: LogisticRegression(
        C=0.5, fit_intercept=i, solver="liblinear", intercept_scaling=2.5, **TIGHT
    ),
    "squared": lambda i: Ridge(alpha=3.0, fit_intercept=i, **TIGHT),
    "squared_hinge": lambda i: LinearSVC(C=0.3, dual=False, fit_intercept=i, intercept_scaling=1.7, **TIGHT),
    "poisson": lambda i: PoissonRegressor(alpha=0.2, fit_intercept=i, solver="newton-cholesky", **TIGHT),
}
each_estimator = pytest.mark.parametrize("name", ESTIMATORS)
intercepts = pytest.mark.parametrize("intercept", [False, True])
ROWS = 240


@pytest.fixture
def task(pool):
    """`task(name, intercept)` gives shifted, unevenly scaled rows, targets, an estimator and a goal."""

    def make(name: str, intercept: bool):
        X, y = pool(name.split()[0], ROWS, 4, 3)
        goal = 0.4 * np.random.default_rng(4).standard_normal(4 + intercept)
        return X * [1.0, 0.5, 2.0, 1.0] + [0.3, 0.0, -0.2, 0.5], y, ESTIMATORS[name](intercept), goal

    return make


def flat(model) -> np.ndarray:
    """Coefficients, then the intercept where one is fitted."""
    slope = np.ravel(model.coef_)
    intercept = model.estimator.fit_intercept if isinstance(model, SuperTeacher) else model.fit_intercept
    return np.append(slope, model.intercept_) if intercept else slope


def owners(K: int, seed: int = 0, rows: int = ROWS) -> np.ndarray:
    """K owners at random, each with rows."""
    return np.random.default_rng(seed).permutation(np.arange(rows) % K)


@pytest.mark.long(every=8)
@each_estimator
@intercepts
@pytest.mark.parametrize("K", [1, 4])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("budget", [100, "best"])
def test_refit_gives_the_taught_model(name, intercept, K, form, budget, task):
    """The user's own estimator, fitted on the chosen rows alone, has coef_, intercept_ and risk."""
    X, y, estimator, goal = task(name, intercept)
    teacher = SuperTeacher(estimator, goal, budget=budget, method="dual").fit(form(X), y, owners(K))
    rows = teacher.sample_indices_
    refit = clone(estimator).fit(form(X)[rows], y[rows])
    assert np.shape(teacher.coef_) == np.shape(refit.coef_)
    near = accuracy(estimator)
    np.testing.assert_allclose(teacher.coef_, refit.coef_, rtol=near, atol=near / 10)
    if intercept:
        assert np.shape(teacher.intercept_) == np.shape(refit.intercept_)
    np.testing.assert_allclose(np.ravel(teacher.intercept_), np.ravel(refit.intercept_), rtol=near, atol=near / 10)
    assert teacher.lesson_.risk == pytest.approx(np.linalg.norm(flat(refit) - goal), rel=near)
    whole = clone(estimator).fit(X, y)
    assert teacher.lesson_.pool_risk == pytest.approx(np.linalg.norm(flat(whole) - goal), rel=near)


@each_estimator
@intercepts
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_refit_holds_on_standardised_rows(name, intercept, form, task):
    """With standardize=True the learner sees scaled rows, centred where it has an intercept; models stay raw."""
    X, y, estimator, goal = task(name, intercept)
    X = X * [1.0, 100.0, 0.01, 1.0]
    teacher = SuperTeacher(estimator, goal, budget=80, method="dual", standardize=True)
    teacher.fit(form(X), y, owners(3))
    rows = teacher.sample_indices_
    scaler = StandardScaler(with_mean=intercept).fit(X)
    refit = clone(estimator).fit(scaler.transform(X)[rows], y[rows])
    slope = np.ravel(refit.coef_) / scaler.scale_
    near = accuracy(estimator)
    np.testing.assert_allclose(np.ravel(teacher.coef_), slope, rtol=near, atol=near / 100)
    if intercept:
        offset = np.ravel(refit.intercept_)[0] - scaler.mean_ @ slope
        np.testing.assert_allclose(np.ravel(teacher.intercept_)[0], offset, rtol=near, atol=near / 10)
    assert teacher.lesson_.risk == pytest.approx(np.linalg.norm(flat(teacher) - goal), rel=1e-9)


@each_estimator
@intercepts
def test_predictions_are_those_of_the_refit(name, intercept, task):
    """predict, decision_function, predict_proba and score agree with the refitted estimator."""
    X, y, estimator, goal = task(name, intercept)
    teacher = SuperTeacher(estimator, goal, budget=100, method="dual").fit(X, y, owners(2))
    rows = teacher.sample_indices_
    refit = clone(estimator).fit(X[rows], y[rows])
    np.testing.assert_allclose(teacher.predict(X), refit.predict(X), rtol=1e-5, atol=1e-6)
    for method in ("decision_function", "predict_proba", "predict_log_proba"):
        assert hasattr(teacher, method) == hasattr(refit, method)
        if hasattr(refit, method):
            wanted = getattr(refit, method)(X)
            np.testing.assert_allclose(getattr(teacher, method)(X), wanted, rtol=1e-5, atol=1e-6)
    if name == "poisson":  # scikit-learn's own score is D² there
        assert teacher.score(X, y) == pytest.approx(r2_score(y, refit.predict(X)), rel=1e-5)
    else:
        assert teacher.score(X, y) == pytest.approx(refit.score(X, y), rel=1e-5)


@each_estimator
def test_consistency_compares_goal_and_model_on_the_pool(name, task):
    """Share of equal labels, or r² of x'θ* by x'θ_S, computed from the goal and the refit."""
    X, y, estimator, goal = task(name, True)
    teacher = SuperTeacher(estimator, goal, budget=100, method="dual").fit(X, y, owners(2))
    theirs = X @ np.ravel(teacher.coef_) + np.ravel(teacher.intercept_)[0]
    wanted = X @ goal[:-1] + goal[-1]
    classifies = LOSSES[name.split()[0]].classifies
    expected = np.mean((theirs > 0) == (wanted > 0)) if classifies else r2_score(wanted, theirs)
    assert teacher.lesson_.agreement == pytest.approx(expected, rel=1e-9)


@pytest.mark.long(every=5)
@each_estimator
@pytest.mark.parametrize("budget", [0.1, "best"])
def test_same_rows_however_they_are_owned(name, budget, task):
    """One, three or seven owners, in any order and by any name, choose exactly the same rows."""
    X, y, estimator, goal = task(name, True)
    if budget == 0.1 and "hinge" in name:
        budget = 0.8  # its best rows carry one class, which no LinearSVC learns from
    seven = owners(7, 5)
    letters = np.array(list("gfaebdc"))[seven]
    ways = [None, owners(3), letters]
    if budget != "best":
        shuffled = np.random.default_rng(6).permutation(7)[seven]
        ways += [owners(1), owners(3, 8), seven, shuffled, 6 - seven, seven - 3.5]
        ways += [pd.Series(letters, dtype="category")]
    teachers = [SuperTeacher(estimator, goal, budget=budget, method="dual").fit(X, y, way) for way in ways]
    for teacher in teachers[1:]:
        np.testing.assert_array_equal(teacher.sample_indices_, teachers[0].sample_indices_)
        np.testing.assert_allclose(teacher.coef_, teachers[0].coef_, rtol=1e-8, atol=1e-9)
    assert list(teachers[1].teachers_) == [0, 1, 2]
    assert teachers[2].lesson_.teachers == tuple("abcdefg")


@pytest.mark.parametrize("method", ["dual", "random"])
def test_rows_follow_when_the_pool_is_shuffled(method, task):
    """Shuffled rows give the same lesson (dual); random lessons go by row number."""
    X, y, estimator, goal = task("logistic", False)
    order = np.random.default_rng(1).permutation(ROWS)
    plain = SuperTeacher(estimator, goal, budget=50, method=method).fit(X, y)
    moved = SuperTeacher(estimator, goal, budget=50, method=method).fit(X[order], y[order])
    rows = order[moved.sample_indices_] if method == "dual" else moved.sample_indices_
    np.testing.assert_array_equal(np.sort(rows), plain.sample_indices_)


@pytest.mark.parametrize("method", ["dual", "random"])
def test_same_seed_same_lesson(method, task):
    """A lesson is repeated to the last bit, whatever kind of seed it has."""
    X, y, estimator, goal = task("logistic", True)
    for seed in (3, np.int64(3), None):
        runs = [
            SuperTeacher(estimator, goal, budget=50, method=method, random_state=seed).fit(X, y, owners(3))
            for _ in range(2)
        ]
        np.testing.assert_array_equal(runs[0].sample_indices_, runs[1].sample_indices_)
        np.testing.assert_array_equal(runs[0].coef_, runs[1].coef_)
        assert runs[0].lesson_.bytes == runs[1].lesson_.bytes


def test_random_lessons_differ_by_seed(task):
    """Ten seeds give ten lessons; a RandomState gives a new one at every fit."""
    X, y, estimator, goal = task("logistic", True)

    def rows(seed):
        teacher = SuperTeacher(estimator, goal, budget=50, method="random", random_state=seed)
        return tuple(teacher.fit(X, y).sample_indices_)

    assert len({rows(seed) for seed in range(10)}) == 10
    state = np.random.RandomState(0)
    assert rows(state) != rows(state)
    assert rows(np.random.RandomState(5)) == rows(np.random.RandomState(5))


def sorted_by_alpha(kind: str, X, y, goal, ridge, sparsity, weight) -> tuple[np.ndarray, np.ndarray]:
    """Rows from the largest |α| down and |α| itself, from METHOD sections 2 and 3, written in NumPy."""
    signed = X * y[:, None] if kind == "logistic" else X
    least_norm = ridge * signed @ np.linalg.pinv(signed.T @ signed) @ goal
    threshold = sparsity / np.abs(least_norm)
    curvature = ridge**2 / (ridge + 2 * weight)
    pull = 2 * weight * ridge / (ridge + 2 * weight) * goal

    def parts(point):
        t = signed @ point
        if kind == "logistic":
            return np.logaddexp(0.0, t - threshold), expit(t - threshold), t - threshold
        beyond = np.abs(y + t) - threshold
        return 0.5 * np.maximum(beyond, 0) ** 2, np.sign(y + t) * np.maximum(beyond, 0), beyond

    def objective(point):
        value, alpha, _ = parts(point)
        gradient = signed.T @ alpha + curvature * point - pull
        return value.sum() + 0.5 * curvature * point @ point - pull @ point, gradient

    point = np.zeros(X.shape[1])
    for _ in range(4):
        point = optimize.minimize(objective, point, jac=True, method="BFGS", options={"gtol": 1e-9}).x
    _, alpha, distance = parts(point)
    return np.lexsort((-distance, -np.abs(alpha))), np.abs(alpha)


@pytest.mark.parametrize(
    ("kind", "ridge"), [("logistic", 1.0), ("logistic", 20.0), ("squared", 1.0), ("squared", 20.0)]
)
@pytest.mark.parametrize("K", [1, 5])
def test_choice_is_a_plain_sort_of_alpha(kind, ridge, K, pool):
    """The n rows with the largest |α| of all teachers, then those nearest to activation, and no others."""
    X, y = pool(kind, 300, 4, 9)
    goal = np.random.default_rng(2).standard_normal(4)
    sparsity, weight = (0.1, 1000.0) if kind == "logistic" else (1.0, 2000.0)
    order, alpha = sorted_by_alpha(kind, X, y, goal, ridge, sparsity, weight)
    estimator = (
        LogisticRegression(C=1 / ridge, fit_intercept=False)
        if kind == "logistic"
        else Ridge(alpha=ridge, fit_intercept=False)
    )
    sizes = {12, 40, 150, int(np.count_nonzero(alpha > 1e-6))} - {0, 300}
    for size in sizes:
        teacher = SuperTeacher(estimator, goal, budget=size, method="dual").fit(X, y, owners(K, 1, 300))
        np.testing.assert_array_equal(teacher.sample_indices_, np.sort(order[:size]))


@pytest.mark.parametrize(
    ("budget", "size"),
    [(7, 7), (np.int64(30), 30), (ROWS, ROWS), (0.04, round(0.04 * ROWS)), (0.5, 120), (1.0, ROWS), (1, 1)],
)
@pytest.mark.parametrize("method", ["dual", "random"])
def test_budgets(budget, size, method, task):
    """Counts and fractions of N become exactly so many rows: distinct, ascending, in range."""
    X, y, estimator, goal = task("squared", True)
    teacher = SuperTeacher(estimator, goal, budget=budget, method=method).fit(X, y, owners(3))
    rows = teacher.sample_indices_
    assert len(rows) == size == teacher.lesson_.size
    assert rows.dtype.kind == "i"
    assert np.all(np.diff(rows) > 0)
    assert rows[0] >= 0
    assert rows[-1] < ROWS
    assert [point.size for point in teacher.lesson_.path] == [size]


@each_estimator
def test_best_is_the_nearest_of_its_path(name, task):
    """The path's risks are those of lessons of that size, and the lesson is the best of them."""
    X, y, estimator, goal = task(name, True)
    teacher = SuperTeacher(estimator, goal, budget="best", method="dual").fit(X, y, owners(3))
    path = teacher.lesson_.path
    sizes = [point.size for point in path]
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == ROWS
    best = min(path, key=lambda point: point.distance)
    assert teacher.lesson_.risk == pytest.approx(best.risk, rel=1e-12)
    assert len(teacher.sample_indices_) == best.size == teacher.lesson_.size
    for point in path[:: len(path) // 3]:
        single = SuperTeacher(estimator, goal, budget=point.size, method="dual").fit(X, y)
        assert single.lesson_.risk == pytest.approx(point.risk, rel=1e-6)
        assert point.fraction == point.size / ROWS
    assert teacher.lesson_.pool_risk == pytest.approx(path[-1].risk, rel=1e-9)


LABELS = {
    "strings": ["no", "yes"],
    "bools": [False, True],
    "odd numbers": [-3, 7],
    "floats": [2.0, 1e9],
    "objects": np.array(["no", "yes"], dtype=object),
}


@pytest.mark.parametrize("labels", LABELS)
def test_any_two_labels(labels, task):
    """Labels change neither rows nor model, and come back from predict."""
    X, y, estimator, goal = task("logistic", True)
    values = np.asarray(LABELS[labels])
    named = values[(y > 0).astype(int)]
    plain = SuperTeacher(estimator, goal, budget=40, method="dual").fit(X, y, owners(3))
    teacher = SuperTeacher(estimator, goal, budget=40, method="dual").fit(X, named, owners(3))
    np.testing.assert_array_equal(teacher.classes_, values)
    assert teacher.classes_.dtype.kind == values.dtype.kind
    np.testing.assert_array_equal(teacher.sample_indices_, plain.sample_indices_)
    np.testing.assert_array_equal(teacher.coef_, plain.coef_)
    np.testing.assert_array_equal(teacher.predict(X), values[(plain.predict(X) > 0).astype(int)])
    assert teacher.score(X, named) == plain.score(X, y)


def test_fixed_names(task):
    """What users and scripts rely on is there after fit, and absent where it has no meaning."""
    X, y, estimator, goal = task("logistic", True)
    teacher = SuperTeacher(estimator, goal, budget="best", method="dual").fit(X, y, owners(3))
    assert teacher.coef_.shape == (1, 4)
    assert teacher.intercept_.shape == (1,)
    assert teacher.n_features_in_ == 4
    names = ["risk", "agreement", "rounds", "bytes", "seconds", "objective", "gap", "path", "ledger"]
    assert all(hasattr(teacher.lesson_, name) for name in names)
    assert teacher.lesson_.rounds == len(teacher.lesson_.ledger) > 0
    assert teacher.lesson_.bytes > 0
    assert 0.0 <= teacher.lesson_.agreement <= 1.0
    assert teacher.predict_proba(X).shape == (ROWS, 2)
    X, y, estimator, goal = task("squared", True)
    ridge = SuperTeacher(estimator, goal, budget=50, method="dual").fit(X, y)
    assert ridge.coef_.shape == (4,)
    assert isinstance(ridge.intercept_, float)
    for name in ("classes_", "predict_proba", "predict_log_proba", "decision_function"):
        assert not hasattr(ridge, name)


def test_a_second_fit_leaves_nothing_of_the_first(task):
    """After classification a regression has no classes_, and the other way round they are back."""
    X, y, _, _ = task("logistic", True)
    teacher = SuperTeacher(LogisticRegression(), PerturbedFit(0), budget=50, method="dual").fit(X, y)
    teacher.set_params(estimator=Ridge()).fit(X, X[:, 0] + y)
    assert not hasattr(teacher, "classes_")
    assert teacher.coef_.shape == (4,)


COLUMNS = ["age", "height", "weight", "pulse"]
CONTAINERS = {
    "numpy": (np.asarray, np.asarray, np.ndarray),
    "float32": (lambda X: X.astype(np.float32), np.asarray, np.ndarray),
    "list": (np.ndarray.tolist, np.ndarray.tolist, list),
    "pandas": (lambda X: pd.DataFrame(X, columns=COLUMNS, index=range(5, 5 + ROWS)), pd.Series, pd.DataFrame),
    "polars": (lambda X: pl.DataFrame(X, schema=COLUMNS), pl.Series, pl.DataFrame),
    "pyarrow": (
        lambda X: pa.table(dict(zip(COLUMNS, X.T, strict=True))),
        lambda y: pa.chunked_array([y[:100], y[100:]]),
        pa.Table,
    ),
    "csr": (sparse.csr_matrix, np.asarray, sparse.csr_matrix),
    "csr array": (sparse.csr_array, np.asarray, sparse.csr_array),
    "csc": (sparse.csc_matrix, np.asarray, sparse.csc_matrix),
}
FRAMES = ("pandas", "polars", "pyarrow")


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("K", [1, 3])
def test_containers(container, K, task):
    """Every container gives the same rows, and gets them back in its own kind."""
    X, y, estimator, goal = task("squared", True)
    X, y = np.round(X, 2), np.round(y, 2)
    wrap, wrap_target, kind = CONTAINERS[container]
    if container == "float32":
        X = np.round(X * 4) / 4  # exact in both precisions
    plain = SuperTeacher(estimator, goal, budget=45, method="dual").fit(X, y, owners(K))
    teacher = SuperTeacher(estimator, goal, budget=45, method="dual")
    rows, targets = teacher.fit_resample(wrap(X), wrap_target(y), owners(K))
    chosen = teacher.sample_indices_
    np.testing.assert_array_equal(chosen, plain.sample_indices_)
    np.testing.assert_allclose(teacher.coef_, plain.coef_, rtol=1e-8)
    assert isinstance(rows, kind)
    assert type(targets) is type(wrap_target(y))
    values = rows.toarray() if sparse.issparse(rows) else np.column_stack(rows) if container == "pyarrow" else rows
    np.testing.assert_array_equal(np.asarray(values, dtype=float), X[chosen])
    np.testing.assert_array_equal(np.asarray(targets), y[chosen])
    assert hasattr(teacher, "feature_names_in_") == (container in FRAMES)
    np.testing.assert_allclose(teacher.predict(wrap(X)), plain.predict(X), rtol=1e-6, atol=1e-9)
    if container == "pandas":
        np.testing.assert_array_equal(rows.index, chosen + 5)


@pytest.mark.parametrize("container", FRAMES)
def test_columns_must_come_in_their_order(container, task):
    """Frames keep their names: another order, or another name, is refused at predict."""
    X, y, estimator, goal = task("squared", True)
    frame = CONTAINERS[container][0](X)
    teacher = SuperTeacher(estimator, goal, budget=45, method="dual").fit(frame, y)
    np.testing.assert_array_equal(teacher.feature_names_in_, COLUMNS)
    other = frame.select(COLUMNS[::-1]) if container != "pandas" else frame[COLUMNS[::-1]]
    with pytest.raises(DataError, match=r"(?i)feature names"):
        teacher.predict(other)


def test_inputs_are_left_as_they_were(task):
    """Neither rows nor targets, owners, goal or learner change while they are taught from."""
    X, y, estimator, goal = task("logistic", True)
    own = owners(3)
    before = [array.copy() for array in (X, y, own, goal)]
    for standardize in (False, True):
        SuperTeacher(estimator, goal, budget=40, method="dual", standardize=standardize).fit(X, y, own)
    for array, kept in zip((X, y, own, goal), before, strict=True):
        np.testing.assert_array_equal(array, kept)
    assert not hasattr(estimator, "coef_")


def test_default_learner_and_own_learner(task):
    """No learner means LogisticRegression(); a Learner with its constants gives the same lesson."""
    X, y, _, goal = task("logistic", True)
    settings = {"goal": goal, "budget": 40, "method": "dual"}
    default = SuperTeacher(**settings).fit(X, y)
    for learner in (LogisticRegression(), Learner(Logistic(), 1.0, "free")):
        other = SuperTeacher(learner, **settings).fit(X, y)
        np.testing.assert_array_equal(other.sample_indices_, default.sample_indices_)
        np.testing.assert_array_equal(other.coef_, default.coef_)


@pytest.mark.parametrize("verbose", [0, 1])
def test_rounds_are_told_while_they_are_asked(verbose, task, capsys):
    """Where somebody wants to read them: one line a round on the standard error stream, and none otherwise."""
    X, y, estimator, goal = task("logistic", True)
    teacher = SuperTeacher(estimator, goal, budget=40, verbose=verbose).fit(X, y, owners(3))
    told = capsys.readouterr()
    assert told.out == ""
    lines = told.err.splitlines()
    assert len(lines) == verbose * teacher.lesson_.rounds
    for line, entry in zip(lines, teacher.lesson_.ledger, strict=False):
        assert line.startswith(f"superteach: round {entry.number}, {entry.stage}: {entry.query} (")


def test_works_inside_scikit_learn(task):
    """A pipeline and a grid search over the learner's own parameter run as with any estimator."""
    X, y, _, _ = task("logistic", True)
    teacher = SuperTeacher(LogisticRegression(), PerturbedFit(0), budget=0.3, method="dual")
    search = GridSearchCV(make_pipeline(StandardScaler(), teacher), {"superteacher__estimator__C": [0.1, 1.0]}, cv=2)
    search.fit(X, y)
    assert set(search.predict(X)) <= {-1.0, 1.0}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_goals_by_name_are_put_in_order(task):
    """A dict, a Series and a fitted model mean the same goal, whatever order their names have."""
    X, y, estimator, goal = task("logistic", True)
    names = ["d", "b", "c", "a"]
    frame = pd.DataFrame(X, columns=names)
    plain = SuperTeacher(estimator, goal, budget=40, method="dual").fit(frame, y)
    by_name = dict(zip([*names, "intercept"], goal, strict=True))
    shuffled = {name: by_name[name] for name in ("intercept", "a", "b", "c", "d")}
    model = LogisticRegression().fit(frame[["a", "b", "c", "d"]], y)
    model.coef_, model.intercept_ = np.array([[by_name[name] for name in "abcd"]]), np.array([goal[-1]])
    for form in (shuffled, pd.Series(shuffled), model):
        taught = SuperTeacher(estimator, form, budget=40, method="dual").fit(frame, y)
        np.testing.assert_array_equal(taught.lesson_.goal, goal)
        np.testing.assert_array_equal(taught.sample_indices_, plain.sample_indices_)
    by_place = SuperTeacher(
        estimator, {2: goal[2], 0: goal[0], 1: goal[1], 3: goal[3], "intercept": goal[4]}, budget=40
    )
    np.testing.assert_array_equal(by_place.fit(X, y).lesson_.goal, goal)


def test_a_search_that_keeps_groups_to_itself_is_told(task):
    """Without metadata routing groups= reaches the splitter alone, and there is one teacher."""
    X, y, estimator, goal = task("logistic", True)
    search = GridSearchCV(SuperTeacher(estimator, goal, method="dual"), {"budget": [40]}, cv=2)
    with pytest.warns(UserWarning, match=r"groups.*splitter alone.*set_fit_request"):
        search.fit(X, y, groups=owners(3))
    with config_context(enable_metadata_routing=True):
        told = SuperTeacher(estimator, goal, method="dual").set_fit_request(groups=True)
        found = GridSearchCV(told, {"budget": [40]}, cv=2).fit(X, y, groups=owners(3))
    assert list(found.best_estimator_.teachers_) == [0, 1, 2]


@pytest.mark.parametrize("form", [sparse.coo_matrix, sparse.coo_array, sparse.lil_matrix, sparse.dok_array])
def test_chosen_rows_of_any_sparse_matrix(form, task):
    """They come back in the format they came in."""
    X, y, estimator, goal = task("logistic", True)
    some, labels = SuperTeacher(estimator, goal, budget=40, method="dual").fit_resample(form(X), y)
    assert some.format == form(X).format
    assert some.shape == (40, 4)
    assert len(labels) == 40


@pytest.mark.parametrize("engine", ["cuda", 3])
def test_an_engine_is_named_by_what_makes_it(engine):
    with pytest.raises(SettingError, match=f"^engine={engine!r} makes no engine of teachers: None is"):
        SuperTeacher(Ridge(), np.ones(5), engine=engine).fit(np.eye(4), [0.0, 1.0, 2.0, 3.0])
