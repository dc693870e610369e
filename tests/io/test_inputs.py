"""The door: whatever is handed in is taught from, or refused with an error of ours that says where it hurts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from superteach import Learner, SuperTeacher, Teacher
from superteach.exceptions import (
    BudgetError,
    DataError,
    DataTypeError,
    GoalError,
    InputError,
    LearnerError,
    SettingError,
    SuperteachError,
)
from superteach.goals import PerturbedFit
from superteach.io.validation import Part, find_classes, make_teacher, make_teachers
from superteach.losses import Logistic, Poisson, Squared
from superteach.optim import LBFGS, Block, Newton
from superteach.privacy.guard import Guard

ROWS, HALF = 30, 15
HUGE = 10**400
GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((ROWS, 3))
LABELS = (X[:, 0] + GENERATOR.standard_normal(ROWS) > 0).astype(int)
TARGETS = X @ [1.0, -2.0, 3.0] + GENERATOR.standard_normal(ROWS)
COUNTS = GENERATOR.poisson(np.exp(0.3 * X[:, 0]))
OWNERS = np.arange(ROWS) % 3
LEARNERS = {
    "logistic": (LogisticRegression(), LABELS),
    "svc": (LinearSVC(), LABELS),
    "ridge": (Ridge(), TARGETS),
    "poisson": (PoissonRegressor(), COUNTS),
}


def spoil(array, value, row: int = 4, column: int | None = 1):
    """A copy with one value put in."""
    copy = np.array(array, dtype=object if isinstance(value, str | type(None)) else float)
    copy[row if column is None else (row, column)] = value
    return copy


def filled(value) -> np.ndarray:
    """An object array that holds one thing in every row."""
    array = np.empty(ROWS, dtype=object)
    for row in range(ROWS):
        array[row] = value
    return array


def teach(**given_) -> SuperTeacher:
    """Fit with clean inputs, except for those given."""
    inputs = {"X": X, "y": LABELS, "groups": OWNERS, "estimator": LogisticRegression(), **given_}
    rows = {name: inputs.pop(name) for name in ("X", "y", "groups")}
    return SuperTeacher(**{"goal": PerturbedFit(0), "budget": 12, "method": "dual", **inputs}).fit(**rows)


class Own:
    """A goal of one's own."""

    def __init__(self, value):
        self.value = value

    def vector(self, problem):
        return self.value


class Model:
    """Something that looks like a fitted linear model."""

    def __init__(self, coef, intercept=0.0):
        self.coef_, self.intercept_ = coef, intercept


BAD = {
    (DataError, "X"): [
        spoil(X, np.nan), spoil(X, np.inf), spoil(X, -np.inf), spoil(X, 1e200), spoil(X, None), spoil(X, "text"),
        spoil(X, np.nan).astype(np.float32), spoil(X, "text").tolist(), sparse.csr_matrix(spoil(X, np.nan)),
        sparse.csc_array(spoil(X, -1e200)), X + 1j, sparse.csr_matrix(X + 1j), X[:, 0], X[:, :, None], X[:5],
        X[:, :0], X[:0], [], None, "text", 3.0, {"a": [1, 2]}, [[1.0, 2.0], [3.0]] * HALF, [[HUGE, 1, 2]] * ROWS,
        pd.DataFrame(X).assign(text="a"), pd.DataFrame(X, columns=["a", "b", 3]),
    ],
    (DataError, "y"): [
        None, [], 1, LABELS[:5], np.zeros(ROWS), TARGETS, LABELS + 1j, filled({}),
        spoil(LABELS, np.nan, column=None), spoil(LABELS, np.inf, column=None), spoil(LABELS, None, column=None),
        spoil(LABELS, "text", column=None), np.array([np.nan, 1] * HALF, dtype=object),
        np.column_stack([LABELS, LABELS]), sparse.csr_matrix(LABELS), [[1], [1, 2]] * HALF,
        np.array(["2020", "2021"] * HALF, dtype="M8[Y]"), pd.Series([pd.NA, 1] * HALF, dtype="Int64"),
        pd.Series([None, "a"] * HALF, dtype="string"),
    ],
    (DataError, "groups"): [
        OWNERS[:5], [], "text", 3, np.column_stack([OWNERS, OWNERS]), [[1], [1, 2]] * HALF, filled({}),
        spoil(OWNERS, np.nan, column=None), spoil(OWNERS, None, column=None), spoil(OWNERS, "text", column=None),
        pd.Series([pd.NA, "a"] * HALF), pd.Series([pd.NA, 1] * HALF, dtype="Int64"), filled(np.arange(2)),
        np.array(["NaT", "2020-01-01"] * HALF, dtype="M8[D]"),
    ],
    (GoalError, "goal"): [
        None, [], "text", {"a": 1}, 3.0, [1.0, 2.0, 3.0], np.ones(5), [1.0, np.nan, 0.0, 0.0], [1.0, np.inf, 0.0, 0.0],
        [1.0, 1e200, 0.0, 0.0], [1.0, HUGE, 0.0, 0.0], [1.0, None, 0.0, 0.0], [[1.0], [2.0, 3.0], 4.0, 5.0],
        [1j, 1.0, 0.0, 0.0], np.array([1j, 1.0, 0.0, 0.0]), PerturbedFit, LogisticRegression, LogisticRegression(),
        SuperTeacher(), LogisticRegression().fit(X, np.where(LABELS, "yes", "no")), SVC(kernel="rbf").fit(X, LABELS),
        LogisticRegression().fit(X, np.arange(ROWS) % 3), LogisticRegression().fit(X[:, :2], LABELS),
        make_pipeline(StandardScaler(), LogisticRegression()), Own(None), Own([1.0]), Own("text"),
        Own([np.nan] * 4), Own(np.full(4, 1j)), Model(None), Model("text"), Model([1j, 2.0, 3.0]),
        Model(np.array([1j, 2.0, 3.0])), Model([1.0, np.nan, 3.0]), Model([1.0, 2.0, 3.0], "text"),
        Model([1.0, 2.0, 3.0], [1.0, 2.0]),
    ],
    (BudgetError, "budget"): [
        0, -1, ROWS + 1, 0.0, -0.1, 1.5, np.nan, np.inf, None, "half", True, [5], 3j, np.array(5), HUGE,
    ],
    (LearnerError, "estimator"): [
        LogisticRegression, "logistic", 3, Lasso(), SVC(), LogisticRegression(C=np.nan), LogisticRegression(C=0),
        LogisticRegression(C="1"), LogisticRegression(C=HUGE), LogisticRegression(C=np.complex128(1 + 1j)),
        LogisticRegression(class_weight="balanced"), LogisticRegression(l1_ratio=0.5), LinearSVC(loss="hinge"),
        LogisticRegression(solver="liblinear", intercept_scaling="wide"), LinearSVC(intercept_scaling=None),
        LinearSVC(intercept_scaling=HUGE), LinearSVC(intercept_scaling=-1.0), LinearSVC(intercept_scaling=1e200),
        Ridge(alpha=0.0), Ridge(alpha=[1.0, 2.0]), Ridge(alpha=HUGE), Ridge(alpha=np.complex128(1 + 1j)),
        Ridge(positive=True), PoissonRegressor(alpha=-1.0),
    ],
    (SettingError, "method"): ["exact", None, ["dual"], np.array(["dual", "random"])],
    (SettingError, "sparsity"): [-1.0, np.nan, np.inf, "much", [1.0, 2.0], HUGE],
    (SettingError, "goal_weight"): [-1.0, np.inf, 1j, HUGE],
    (SettingError, "solver"): ["simplex", Newton, 3],
    (SettingError, "rounding"): ["apart", None, 1, ["alone"]],
    (SettingError, "restarts"): [0, -1, 1.5, True, "many"],
    (SettingError, "seconds"): [-1.0, np.nan, np.inf, "long"],
    (SettingError, "random_state"): [-1, 0.5, "seed", True, np.random.default_rng(0)],
}  # fmt: skip
"""What a LogisticRegression must refuse, by the error that says so and the place it is handed in."""
EITHER = {
    "X": [
        X * 1e99, X * 1e-300, np.zeros((ROWS, 3)), np.ones((ROWS, 3)), X.astype(np.float32), X > 0, sparse.coo_array(X),
        np.where(X > 0, "1", "2"), np.zeros((ROWS, 3), dtype="M8[s]"),
    ],
    "y": [
        np.where(LABELS, "yes", "no"), LABELS == 1, LABELS[:, None], TARGETS * 1e99, np.zeros(ROWS), [HUGE, 1] * HALF,
        COUNTS * 1e50, -COUNTS, filled(0.5),
    ],
    "groups": [None, np.arange(ROWS), OWNERS.astype(str), filled([1, 2]), [1, "a"] * HALF],
    "goal": [np.zeros(4), [1e99] * 4, Own([1.0, 2.0, 3.0, 4.0]), LogisticRegression().fit(X, LABELS).sparsify()],
    "budget": [1, ROWS, "best"],
    "estimator": [
        LogisticRegression(C=1e-320), LogisticRegression(C=1e300), Ridge(alpha=1e300), Ridge(alpha=1e-300),
        LinearSVC(intercept_scaling=1e-200), LogisticRegression(fit_intercept=np.array([True, False])),
        Learner(Poisson(), 1.0, "free"),
    ],
    "method": ["random"],
    "sparsity": [0.0, 1e300, 1e-320],
    "goal_weight": [0.0, 1e300, 1e308, 1e-300],
    "solver": [LBFGS(), Block()],
    "standardize": [True, np.array([True, False])],
    "random_state": [2**70],
}  # fmt: skip
"""What may be taught from or refused, depending on the rest."""
REFUSED = [(error, field, value) for (error, field), values in BAD.items() for value in values]
ODD = [(field, value) for field, values in EITHER.items() for value in values]


def shown(value) -> str:
    """A short name for a test."""
    return str(value).replace("\n", " ")[:40] if isinstance(value, str | int | float | list) else ""


@pytest.mark.parametrize(("error", "field", "value"), REFUSED, ids=shown)
def test_bad_inputs_are_refused(error, field, value):
    """Each bad input alone meets the error that names its kind, with a sentence."""
    with pytest.raises(error) as caught:
        teach(**{field: value})
    assert len(str(caught.value)) > 15


@pytest.mark.long(every=5)
@pytest.mark.parametrize(("field", "value"), ODD, ids=shown)
@pytest.mark.parametrize("kind", LEARNERS)
def test_odd_inputs_work_or_are_refused(kind, field, value):
    """An odd input alone gives finite numbers or an error of ours, with every learner."""
    learner, y = LEARNERS[kind]
    try_to_teach({"estimator": learner, "y": y, field: value})


def try_to_teach(inputs: dict) -> None:
    """Teach: the outcome is a lesson of distinct rows and finite numbers, or an error of ours."""
    try:
        teacher = teach(**inputs)
    except SuperteachError:
        return
    rows = teacher.sample_indices_
    assert len(rows) == len(set(rows.tolist())) == teacher.lesson_.size
    assert np.isfinite(teacher.coef_).all()
    assert np.isfinite(teacher.intercept_).all()
    assert np.isfinite(teacher.lesson_.risk)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # overflow on the way to a refusal is no error
def test_a_huge_ridge_with_huge_rows_works_or_is_refused():
    """Λ² is more than float64 holds; found by the mixtures below."""
    try_to_teach({"X": 1e99 * X, "y": LABELS, "estimator": LogisticRegression(C=1e-300), "method": "dual"})


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # overflow on the way to a refusal is no error
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    kind=some.sampled_from(sorted(LEARNERS)),
    corruptions=some.lists(some.sampled_from([case[1:] for case in REFUSED] + ODD), min_size=1, max_size=3),
    method=some.sampled_from(["dual", "random"]),
)
def test_any_mixture_works_or_is_refused(kind, corruptions, method):
    """Several corruptions at once never meet an error of somebody else."""
    learner, y = LEARNERS[kind]
    try_to_teach({"estimator": learner, "y": y, "method": method, **dict(corruptions)})


number = some.floats(width=64) | some.sampled_from([0.0, 1e-320, 1e30, 1e99, 1e101, 1e308])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=80, deadline=None)
@given(
    kind=some.sampled_from(sorted(LEARNERS)),
    places=some.lists(some.tuples(some.integers(0, ROWS - 1), some.integers(0, 3), number), max_size=6),
    goal=some.lists(number, min_size=4, max_size=4) | some.none(),
    sparsity=number | some.none(),
    goal_weight=number | some.none(),
    budget=some.integers(-2, ROWS + 2) | number | some.just("best"),
    as_sparse=some.booleans(),
    standardize=some.booleans(),
)
def test_any_numbers_work_or_are_refused(kind, places, goal, sparsity, goal_weight, budget, as_sparse, standardize):
    """Any float64 anywhere, in rows, targets, goal and settings, ends in a lesson or in an error of ours."""
    learner, y = LEARNERS[kind]
    rows, target = X.copy(), y.astype(float)
    for row, column, value in places:
        if column < 3:
            rows[row, column] = value
        else:
            target[row] = value
    try_to_teach(
        {
            "estimator": learner,
            "X": sparse.csr_matrix(rows) if as_sparse else rows,
            "y": target,
            "goal": PerturbedFit(0) if goal is None else goal,
            "sparsity": sparsity,
            "goal_weight": goal_weight,
            "budget": budget,
            "standardize": standardize,
        }
    )


@pytest.mark.parametrize("form", [np.asarray, np.float32, sparse.csr_matrix, sparse.csc_array])
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (-np.inf, "infinity"), (1e200, "large|infinity")])
def test_bad_values_name_teacher_and_column(value, word, form):
    """Row 7 belongs to teacher 1: the message says so, and names the column."""
    with np.errstate(over="ignore"):
        rows = form(spoil(X, value, 7, 2))
    with pytest.raises(DataError, match=rf"teacher '1', column 2, row 7: .*({word})"):
        teach(X=rows)


def test_bad_values_name_the_column_of_a_frame():
    """Frames have names for their columns, teachers for themselves."""
    frame = pd.DataFrame(spoil(X, np.nan, 7, 2), columns=["age", "height", "weight"])
    with pytest.raises(DataError, match="teacher 'north', column 'weight', row 7"):
        teach(X=frame, groups=np.where(np.arange(ROWS) % 2, "north", "south"))


@pytest.mark.parametrize(("learner", "y"), [(LogisticRegression(), LABELS), (Ridge(), TARGETS)])
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_bad_targets_name_the_teacher(learner, y, value, word):
    """A missing label or target is traced to its owner too."""
    with pytest.raises(DataError, match=rf"teacher '1'.*{word}"):
        teach(y=spoil(y, value, 7, None), estimator=learner)


def test_negative_counts_name_the_teacher():
    """Poisson targets below 0 are traced to their owner."""
    with pytest.raises(DataError, match="teacher '1' has a negative target, -3"):
        teach(y=spoil(COUNTS, -3, 7, None), estimator=PoissonRegressor())


def test_missing_owner_names_the_row():
    """A row without owner is named by its number."""
    with pytest.raises(DataError, match="row 4"):
        teach(groups=spoil(OWNERS, np.nan, column=None))


def test_label_errors_show_the_labels():
    """One class, or three where two are known: the message shows what was found."""
    with pytest.raises(DataError, match=r"one class, .*5"):
        teach(y=np.full(ROWS, 5))
    with pytest.raises(DataError, match=r"3 classes \('a', 'b', 'c'\)"):
        find_classes([Part("one", X, np.array(list("abc"))[OWNERS])], most=2)


def test_parts_are_checked_before_they_teach():
    """make_teachers refuses parts that do not fit together, and names the one at fault."""
    good = Part("a", X, LABELS)
    columns = ["x", "y", "z"]
    for parts, loss, words in (
        ([], Logistic(), "no teacher"),
        ([good, good], Logistic(), "two teachers are named 'a'"),
        ([good, Part("b", X[:, :2], LABELS)], Logistic(), "'b' has 2 columns, expected 3: 'x', 'y', 'z'"),
        ([good, Part("b", X[:0], LABELS[:0])], Logistic(), "'b' has no rows"),
        ([good, Part("b", X, LABELS[:4])], Logistic(), "'b' has 30 rows but 4 targets"),
        ([good, Part("b", X.astype(str), LABELS)], Logistic(), "'b' has columns of type <U"),
        ([good, Part("b", X, np.where(LABELS, "u", "v"))], Logistic(), "'b' has 'u', 'v'"),
        ([Part("b", X, TARGETS)], Logistic(), "'b' has continuous labels"),
        ([Part("b", X, spoil(TARGETS, np.nan, 3, None))], Squared(), "'b': the target of row 3"),
        ([Part("b", X, spoil(LABELS, np.nan, 3, None))], Logistic(), "'b': the label of row 3"),
        ([Part("b", X, TARGETS * 1e200)], Squared(), "'b' has a target of .* too large"),
        ([Part("b", X, np.full(ROWS, "word"))], Squared(), "'b' has targets of type"),
    ):
        with pytest.raises(DataError, match=words):
            make_teachers(parts, columns, loss)


def test_labels_are_one_set_over_all_teachers():
    """A teacher may hold one class alone; classes are sorted over all, and coded −1 and +1."""
    parts = [Part("a", X[:4], np.full(4, 7)), Part("b", X[4:6], np.full(2, -3))]
    teachers, classes = make_teachers(parts, ["x", "y", "z"], Logistic())
    np.testing.assert_array_equal(classes, [-3, 7])
    np.testing.assert_array_equal(np.concatenate([teacher.target for teacher in teachers]), [1] * 4 + [-1] * 2)


EQUAL = [int, float, bool, np.uint8, np.float32, object]
"""Ways to write 0 and 1 that are equal as numbers."""


@pytest.mark.parametrize("kind", EQUAL)
def test_equal_numbers_are_one_label_whatever_their_type(kind):
    """0, 0.0 and False are one label, at owners of their own parts and within one column of objects."""
    parts = [
        Part("a", X, LABELS),
        Part("b", X, LABELS.astype(bool).astype(kind) if kind is object else LABELS.astype(kind)),
    ]
    teachers, classes = make_teachers(parts, ["x", "y", "z"], Logistic())
    assert classes.tolist() == [0, 1]
    for teacher in teachers:
        np.testing.assert_array_equal(teacher.target, 2 * LABELS - 1)
        one_owner = make_teacher(parts[1], ["x", "y", "z"], Logistic(), [0, 1], Guard())
        np.testing.assert_array_equal(one_owner.target, teacher.target)


@pytest.mark.parametrize("kind", EQUAL)
def test_numbers_at_one_owner_and_text_at_another_are_refused(kind, tmp_path):
    """Whatever the text looks like: the error names both owners, what each has, and what to do."""
    numbers = LABELS.astype(kind)
    text = numbers.astype(str)
    shown = rf"'a' has {numbers[0]!s}.*\(numbers\).*'b' has '{text[0]}'.*\(text\).*astype"
    with pytest.raises(DataError, match=shown):
        make_teachers([Part("a", X, numbers), Part("b", X, text)], ["x", "y", "z"], Logistic())
    mixed = [*numbers.tolist(), *text.tolist()]
    for y in (mixed, tuple(mixed), np.array(mixed, dtype=object), pd.Series(mixed)):
        with pytest.raises(DataError, match=shown):
            teach(X=np.vstack([X, X]), y=y, groups=np.repeat(["a", "b"], ROWS))
    with pytest.raises(DataError, match="two types"):
        teach(y=np.where(np.arange(ROWS) < 5, numbers.astype(object), text))
    with pytest.raises(DataError, match=rf"'b' has the label '{text[0]}' in row 0, and .* agreed on"):
        make_teacher(Part("b", X, text), ["x", "y", "z"], Logistic(), [0, 1], Guard())
    with pytest.raises(DataError, match=f"'b' has targets that are text, such as '{text[0]}'"):
        Teacher("b", X, text)
    for name, labels in (("a", LABELS), ("b", text)):
        pd.DataFrame({"x": X[:, 0], "y": labels}).to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(DataError, match=r"a.parquet.*\(numbers\).*b.parquet.*\(text\)"):
        SuperTeacher(goal=[1.0, 0.0], budget=9).fit(tmp_path, "y")


@pytest.mark.parametrize("form", [np.array, list, tuple, pd.Series, lambda goal: np.array([goal]), Own])
def test_goals_of_many_forms_mean_one_vector(form):
    """A goal is the same goal as an array, a list, a series, one row, or an object with a vector."""
    goal = [0.5, -1.0, 2.0, 0.25]
    lesson = teach(goal=form(goal)).lesson_
    np.testing.assert_array_equal(lesson.goal, goal)
    assert lesson.risk == teach(goal=np.array(goal)).lesson_.risk


@pytest.mark.parametrize("wrap", [lambda model: model, FrozenEstimator, lambda model: model.sparsify()])
def test_fitted_models_as_goals(wrap):
    """A fitted model is the goal of its coefficients, intercept last; also when frozen or sparsified."""
    model = LogisticRegression(C=0.1).fit(X, 1 - LABELS)
    wanted = np.append(model.coef_, model.intercept_)
    np.testing.assert_array_equal(teach(goal=wrap(model)).lesson_.goal, wanted)


def test_a_frozen_goal_outlives_clone():
    """clone, and so cross-validation, keeps a frozen goal fitted."""
    model = LogisticRegression().fit(X, 1 - LABELS)
    teacher = clone(SuperTeacher(LogisticRegression(), FrozenEstimator(model), budget=12, method="dual"))
    np.testing.assert_array_equal(teacher.fit(X, LABELS).lesson_.goal[:-1], model.coef_[0])


def test_goals_of_other_learners():
    """Any linear model may be the goal; one without an intercept has the intercept 0."""
    model = LinearRegression(fit_intercept=False).fit(X, TARGETS)
    lesson = teach(goal=model, estimator=Ridge(), y=TARGETS).lesson_
    np.testing.assert_array_equal(lesson.goal, [*model.coef_, 0.0])
    bare = teach(goal=model, estimator=Ridge(fit_intercept=False), y=TARGETS).lesson_
    np.testing.assert_array_equal(bare.goal, model.coef_)
    taught = teach(goal=[1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(teach(goal=taught).lesson_.goal, taught.lesson_.model)


def test_a_goal_with_an_intercept_needs_a_learner_with_one():
    """The message says which of the two has the intercept."""
    with pytest.raises(GoalError, match="intercept"):
        teach(goal=LogisticRegression().fit(X, LABELS), estimator=LogisticRegression(fit_intercept=False))
    with pytest.raises(GoalError, match="expected 3"):
        teach(goal=[1.0, 2.0, 3.0, 4.0], estimator=LogisticRegression(fit_intercept=False))
    with pytest.raises(GoalError, match=r"expected 4.*intercept"):
        teach(goal=[1.0, 2.0, 3.0])


def test_goals_on_other_labels_are_told_apart():
    """The message shows both sets of labels."""
    with pytest.raises(GoalError, match=r"no.*yes"):
        teach(goal=LogisticRegression().fit(X, np.where(LABELS, "yes", "no")))


def test_a_goal_sees_the_pool():
    """A goal of one's own may fit the learner on all rows, and gets scikit-learn's model."""

    class Pool:
        def vector(self, problem):
            return problem.scaling.raw(problem.fit_pool())

    for standardize in (False, True):
        lesson = teach(goal=Pool(), estimator=LogisticRegression(C=0.5), standardize=standardize).lesson_
        rows = StandardScaler().fit_transform(X) if standardize else X
        model = LogisticRegression(C=0.5, tol=1e-12, max_iter=10_000).fit(rows, LABELS)
        scores = X @ lesson.goal[:-1] + lesson.goal[-1]
        np.testing.assert_allclose(scores, model.decision_function(rows), atol=1e-6)
        assert lesson.pool_risk == 0.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: Newton(max_steps=-1),
        lambda: Newton(max_steps=1.5),
        lambda: Newton(tolerance=None),
        lambda: LBFGS(max_steps=-1),
        lambda: LBFGS(tolerance="tight"),
        lambda: Block(max_steps=0),
        lambda: Block(tolerance=None),
    ],
)
def test_solvers_without_sensible_limits_are_refused(make):
    """A limit that is no count, or a tolerance that is no number, is a setting's error."""
    with pytest.raises(SettingError):
        teach(estimator=LogisticRegression(fit_intercept=False), solver=make())


@pytest.mark.parametrize("bad", [spoil(X, np.nan), X[:, :2], X[0], None, "text", [[HUGE] * 3], X + 1j, [["a"] * 3]])
def test_predict_refuses_bad_rows(bad):
    """Rows to predict meet the same door."""
    with pytest.raises(InputError):
        teach().predict(bad)


@pytest.mark.parametrize("bad", [LABELS[:4], None, [], np.column_stack([LABELS, LABELS])])
def test_score_refuses_bad_targets(bad):
    """So do targets to score against."""
    with pytest.raises(InputError):
        teach().score(X, bad)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba", "decision_function"])
def test_nothing_is_predicted_before_fit(method):
    """scikit-learn's own error for it."""
    with pytest.raises(NotFittedError):
        getattr(SuperTeacher(), method)(X)


def test_types_that_hold_no_numbers_are_type_errors():
    """DataTypeError is a DataError and a TypeError."""
    for field, value in (("y", filled({})), ("groups", filled({})), ("X", {"a": 1})):
        with pytest.raises(DataTypeError):
            teach(**{field: value})
