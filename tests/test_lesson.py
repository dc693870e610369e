"""The lesson as a value and as a file: what it tells, what it never tells, and how it is written."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from markupsafe import escape
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.svm import LinearSVC

import superteach as st
from superteach.goals import PerturbedFit
from tests.limits import files_up_to

LEARNERS = {
    "logistic": LogisticRegression(),
    "squared": Ridge(fit_intercept=False),
    "squared_hinge": LinearSVC(intercept_scaling=2.0),
    "poisson": PoissonRegressor(alpha=0.5),
}
ARRAYS = ("model", "goal", "objective", "gap", "coef")
VALUES = (
    "intercept", "size", "pool_rows", "risk", "agreement", "pool_risk", "path", "ledger", "seconds", "reason",
    "converged", "teachers", "settings", "offset", "fraction", "ratio", "rounds", "bytes",
)  # fmt: skip
ROWS = 400


@pytest.fixture
def taught(pool):
    """`taught(kind)` teaches one of the learners from 400 rows of 4 teachers."""

    def teach(kind: str = "logistic", method: str = "dual", budget="best", **settings) -> st.SuperTeacher:
        X, y = pool(kind, ROWS, 3, 2)
        teacher = st.SuperTeacher(LEARNERS[kind], PerturbedFit(1), budget=budget, method=method, **settings)
        return teacher.fit(X, y, np.arange(ROWS) % 4)

    return teach


def refuse_constant(name: str):
    raise AssertionError(f"{name} is no JSON")


def strict(text: str):
    """Parse JSON as a reader would that knows no NaN or Infinity."""
    return json.loads(text, parse_constant=refuse_constant)


def lists_in(value):
    """Every list anywhere in a JSON value."""
    if isinstance(value, list):
        yield value
    for entry in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from lists_in(entry)


@pytest.mark.parametrize("method", ["dual", "random"])
@pytest.mark.parametrize("kind", LEARNERS)
def test_save_and_load_round_trip(kind, method, taught, tmp_path):
    """Every field and every property comes back equal to the last bit."""
    lesson = taught(kind, method).lesson_
    lesson.save(tmp_path / "lesson.json")
    back = st.Lesson.load(tmp_path / "lesson.json")
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(back, name), getattr(lesson, name), err_msg=name)
        assert getattr(back, name).dtype == np.float64
    for name in VALUES:
        assert getattr(back, name) == getattr(lesson, name), name
    assert back.as_dict() == lesson.as_dict()


def test_a_path_may_be_a_folder(taught, tmp_path, monkeypatch):
    lesson = taught().lesson_
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    for place in (".", tmp_path / "there"):
        lesson.save(place)
        lesson.report(place)
        assert st.Lesson.load(place).risk == st.Lesson.load(tmp_path / place / "lesson.json").risk == lesson.risk
        assert "</html>" in (tmp_path / place / "report.html").read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lesson.json", "report.html", "there"]


def test_a_path_may_be_a_string(taught, tmp_path):
    """save and load take strings and pathlib paths alike."""
    lesson = taught().lesson_
    lesson.save(str(tmp_path / "lesson.json"))
    assert st.Lesson.load(str(tmp_path / "lesson.json")).as_dict() == lesson.as_dict()


@pytest.mark.parametrize("method", ["dual", "random"])
@pytest.mark.parametrize("kind", LEARNERS)
def test_no_row_is_in_a_lesson(kind, method, taught, tmp_path):
    """No list is long enough to hold the chosen rows: only models, steps, path and ledger are lists."""
    teacher = taught(kind, method, budget=200)
    teacher.lesson_.save(tmp_path / "lesson.json")
    stored = strict((tmp_path / "lesson.json").read_text(encoding="utf-8"))
    lesson = teacher.lesson_
    longest = max(4, lesson.rounds, len(lesson.path), len(lesson.teachers))
    assert longest < len(teacher.sample_indices_) == 200
    chosen = set(teacher.sample_indices_.tolist())
    for entries in lists_in(stored):
        assert len(entries) <= longest
        whole = [entry for entry in entries if isinstance(entry, int) and not isinstance(entry, bool)]
        assert not (len(whole) > 4 and set(whole) <= chosen)


def test_arrays_of_a_lesson_are_short(taught):
    """In memory, too, nothing in a lesson is as long as the choice."""
    lesson = taught(budget=200).lesson_
    for name, value in vars(lesson).items():
        if isinstance(value, np.ndarray | tuple | list):
            assert len(value) < 200, name


def test_numbers_that_are_not_finite_become_null(taught, tmp_path):
    """A ratio of infinity (the pool's own model as the goal) is null in the file, and inf when loaded."""
    X = np.random.default_rng(0).standard_normal((60, 2))
    y = X @ [1.0, -1.0] + 0.1
    teacher = st.SuperTeacher(Ridge(), _PoolGoal(), budget=5, method="random").fit(X, y)
    lesson = teacher.lesson_
    assert lesson.pool_risk == 0.0
    assert lesson.risk > 0.0
    assert lesson.ratio == float("inf")
    lesson.save(tmp_path / "lesson.json")
    stored = strict((tmp_path / "lesson.json").read_text(encoding="utf-8"))
    assert stored["ratio"] is None
    assert st.Lesson.load(tmp_path / "lesson.json").ratio == float("inf")


class _PoolGoal:
    """The goal nobody needs teaching for: the model of all rows."""

    def vector(self, problem):
        return problem.scaling.raw(problem.fit_pool())


def test_names_of_teachers_survive_in_any_script(pool, tmp_path):
    """Teachers with names beyond ASCII, quotes and line ends come back as they were."""
    X, y = pool("logistic", 60, 2, 0)
    names = np.array(["Łódź", 'a "quoted" one', "line\nend"])
    teacher = st.SuperTeacher(goal=PerturbedFit(0), budget=20, method="dual").fit(X, y, names[np.arange(60) % 3])
    teacher.lesson_.save(tmp_path / "lesson.json")
    assert set(st.Lesson.load(tmp_path / "lesson.json").teachers) == set(names.tolist())


@pytest.mark.parametrize(
    "settings",
    [
        {"budget": np.int64(20)},
        {"budget": np.float32(0.25)},
        {"sparsity": np.float32(0.5), "goal_weight": np.int64(3)},
        {"random_state": np.int32(4)},
        {"standardize": np.bool_(True)},
        {"estimator": st.Learner(st.losses.Logistic(), np.float32(0.5), "free", np.float32(2.0))},
        {"estimator": st.Learner(st.losses.Logistic(), np.int64(2))},
    ],
    ids=str,
)
def test_numpy_numbers_as_settings_can_be_saved(settings, pool, tmp_path):
    """What NumPy computed is as good a setting as what was typed in."""
    X, y = pool("logistic", 80, 2, 0)
    teacher = st.SuperTeacher(**{"goal": PerturbedFit(np.int64(0)), "budget": 20, "method": "dual", **settings})
    lesson = teacher.fit(X, y).lesson_
    lesson.save(tmp_path / "lesson.json")
    assert st.Lesson.load(tmp_path / "lesson.json").settings == lesson.settings


def test_a_failed_write_keeps_the_file_before_it(taught, tmp_path):
    """When the disk is full the old lesson is still there, whole, and no scrap lies beside it."""
    path = tmp_path / "lesson.json"
    taught().lesson_.save(path)
    before = path.read_bytes()
    with files_up_to(100), pytest.raises(OSError, match="File too large"):
        taught("squared").lesson_.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["lesson.json"]


def test_a_value_that_is_no_json_keeps_the_file_before_it(taught, tmp_path):
    """A lesson that cannot be written leaves what was there."""
    path = tmp_path / "lesson.json"
    lesson = taught().lesson_
    lesson.save(path)
    before = path.read_bytes()
    lesson.settings["odd"] = object()
    with pytest.raises(TypeError):
        lesson.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["lesson.json"]


def test_numbers_follow_from_their_parts(taught):
    """Risk, ratio, rounds and bytes are what model, goal and ledger say."""
    lesson = taught().lesson_
    assert lesson.risk == pytest.approx(np.linalg.norm(lesson.model - lesson.goal), rel=1e-12)
    assert lesson.ratio == pytest.approx(lesson.risk / lesson.pool_risk, rel=1e-12)
    assert lesson.rounds == len(lesson.ledger)
    assert [entry.number for entry in lesson.ledger] == list(range(1, lesson.rounds + 1))
    assert lesson.bytes == sum(entry.bytes_in + entry.bytes_out for entry in lesson.ledger)
    assert lesson.fraction == lesson.size / ROWS
    assert 0.0 < sum(entry.seconds for entry in lesson.ledger) <= lesson.seconds
    assert lesson.offset == lesson.model[-1]
    np.testing.assert_array_equal(lesson.coef, lesson.model[:-1])
    assert len(lesson.objective) == len(lesson.gap) > 0


def test_stored_settings_are_those_that_were_used(taught):
    """Defaults are filled in, so that a file says what was computed (the paper's λ_α and λ_θ)."""
    settings = taught(budget=0.1, random_state=3).lesson_.settings
    assert settings["sparsity"] == 0.1
    assert settings["goal_weight"] == 1000.0
    assert settings["budget"] == 0.1
    assert settings["method"] == "dual"
    assert settings["random_state"] == 3
    settings = taught("squared", budget=30, sparsity=0.2).lesson_.settings
    assert settings["sparsity"] == 0.2
    assert settings["goal_weight"] == 2000.0


def test_a_lesson_at_a_glance(taught, tmp_path):
    """One line, a small table, a figure and frames; the columns' names are kept in the file."""
    teacher = taught()
    lesson = teacher.lesson_
    assert repr(lesson).count("\n") == 0
    assert len(repr(lesson)) < 180
    assert f"{lesson.size} of {ROWS} rows" in repr(lesson)
    shown = lesson._repr_html_()
    assert shown.startswith("<div>")
    assert "all rows" in shown
    assert escape(lesson.verdict) in shown
    figure = lesson.plot()
    figure.savefig(tmp_path / "lesson.png")
    assert [axes.get_xlabel() for axes in figure.axes] == ["rows in the lesson, share of all", "coefficient"]
    coefficients = lesson.to_frame()
    np.testing.assert_array_equal(coefficients["taught"], lesson.model)
    np.testing.assert_array_equal(coefficients["all_rows"], lesson.pool_model)
    assert list(coefficients["column"]) == ["x0", "x1", "x2", "intercept"]
    assert len(lesson.to_frame("path")) == len(lesson.path)
    assert list(lesson.to_frame("ledger")["query"]) == [entry.query for entry in lesson.ledger]
    named = lesson.named(["age", "bmi", "<dose>"])
    named.save(tmp_path / "lesson.json")
    back = st.Lesson.load(tmp_path / "lesson.json")
    assert back.columns == ("age", "bmi", "<dose>")
    assert back.model_ is None
    np.testing.assert_array_equal(back.pool_model, lesson.pool_model)
    back.report(tmp_path / "report.html")
    assert "bmi" in (tmp_path / "report.html").read_text()
