"""Teachers on a device: the same sums and the same lessons as in process, from CPU tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier

import superteach as st
from superteach.engines import torch as devices
from superteach.exceptions import DataError, DataTypeError, MissingExtra, QueryRefused, SettingError, TeachingError
from superteach.goals import PerturbedFit
from superteach.losses import LOSSES, Logistic, Loss, Terms
from superteach.losses.arrays import namespace
from superteach.optim.problem import Scaling
from superteach.protocol import queries
from superteach.protocol.messages import Turn
from superteach.selection import rounding
from superteach.teacher import device as on_device
from superteach.teacher import fused, ranks, tensors
from tests.protocol.test_queries import asked_of, replies_to, talk_on

WIDTH, K = 3, 3
EXACT, ROUNDED = 1e-12, 1e-6
"""Relative differences of sums: rows in float64, where only the order of addition differs, and rows rounded to float32
(the largest seen is 2.4e-7)."""


def teachers_of(X, y, k=K, **more):
    """Teachers with consecutive rows."""
    parts = np.array_split(np.arange(len(y)), k)
    return [st.Teacher(f"t{i}", X[part], y[part], part, **more) for i, part in enumerate(parts)]


@pytest.mark.parametrize(("dtype", "within"), [("float64", EXACT), ("float32", ROUNDED)])
@pytest.mark.parametrize("kind", sorted(LOSSES))
def test_every_query_has_the_same_sum(kind, dtype, within, pool):
    """A whole talk: every query of the list, on the device or from the copy at home."""
    teachers = teachers_of(*pool(kind, 301, WIDTH, 0))
    local, there = st.Threads(teachers), st.Torch("cpu", dtype)(teachers)
    for number, query in enumerate(talk_on(LOSSES[kind]()), 1):
        asked = asked_of(local, query)
        one, other = (replies_to(engine, asked, number) for engine in (local, there))
        if getattr(query, "rough", False):  # rows are drawn along cumulated weights: the last digit may choose others
            one, other = one[: 1 + len(query.point)], other[: 1 + len(query.point)]
        assert np.abs(one - other).max(initial=0.0) <= within * np.abs(one).max(initial=0.0), asked.name


@pytest.mark.parametrize("kind", ["logistic", "squared"])
@pytest.mark.parametrize("constant", [0.0, 0.3])
def test_scaled_rows_and_a_constant_column(kind, constant, pool):
    """Centred and scaled columns far from 0, with an intercept's column."""
    X, y = pool(kind, 301, WIDTH, 0)
    X = X * [1.0, 10.0, 0.1] + [5.0, -100.0, 2.0]
    teachers = teachers_of(X, y)
    local, there = st.Threads(teachers), st.Torch("cpu", "float64")(teachers)
    width = WIDTH + bool(constant)
    point = np.linspace(-0.5, 0.4, width)
    for query in (
        queries.Prepare(LOSSES[kind](), constant, X.mean(axis=0), X.std(axis=0)),
        queries.AskMoments("loss", "all", point, 2),
        queries.AskValues("loss", "all", point, point[::-1], np.array([0.0, 0.5])),
        queries.Compare(np.stack([point, 2.0 * point]), point[::-1], np.array([0.2])),
        queries.Gradients(point, np.eye(width) + 0.1),
        queries.Thin(np.linspace(-2.0, 1.0, 96), 0.25, 3),
        queries.AskMoments("relax", "sampled", np.append(point, 0.1), 2),
        queries.Envelope(np.append(point, 0.1), point, np.eye(width) + 0.1, np.array([0.0, 1.0])),
        queries.Include(np.append(point, 0.1)),
        queries.RoundAlone(np.eye(width), np.append(point, 0.1), 5),
    ):
        np.testing.assert_allclose(there.sum(query, 1), local.sum(query, 1), rtol=1e-11, atol=1e-11, err_msg=query.name)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "how",
    [
        {"budget": 60, "rounding": "alone"},
        {"budget": 60, "rounding": "alone", "standardize": True},
        {"budget": 60, "rounding": "together"},
        {"budget": 60, "rounding": "alone", "restarts": 2},
        {"method": "dual", "budget": 60},
        {"method": "random", "budget": 60},
        {"method": "oblivious", "budget": 60},
    ],
    ids=str,
)
def test_the_same_lesson(how, dtype, pool):
    """The same rows are chosen; the model differs by the order of addition, since it is refitted on the rows as given."""
    X, y = pool("logistic", 1200, WIDTH, 1)
    owner = np.arange(len(y)) % K
    one = st.SuperTeacher(LogisticRegression(), PerturbedFit(3), **how).fit(X, y, groups=owner)
    other = st.SuperTeacher(LogisticRegression(), PerturbedFit(3), engine=st.Torch("cpu", dtype), **how)
    other.fit(X, y, groups=owner)
    if dtype == "float64":
        np.testing.assert_array_equal(one.sample_indices_, other.sample_indices_)
        np.testing.assert_allclose(one.lesson_.model, other.lesson_.model, rtol=1e-10, atol=1e-12)
    # What the lesson says of itself is true of the rows as they were handed in, in float64.
    if not how.get("standardize"):  # there the penalty is on other columns
        chosen = other.sample_indices_
        mine = LogisticRegression(tol=1e-12, max_iter=10_000).fit(X[chosen], y[chosen])
        np.testing.assert_allclose(np.append(mine.coef_, mine.intercept_), other.lesson_.model, atol=1e-5)
    assert abs(one.lesson_.risk - other.lesson_.risk) <= max(1e-5, 0.5 * one.lesson_.risk)


def test_chance_decides_about_the_same_rows(monkeypatch, pool):
    """Where most rows of a large lesson are decided at random, the random numbers are the same."""
    monkeypatch.setattr(rounding, "CANDIDATES", 300)
    X, y = pool("logistic", 6000, WIDTH, 1)
    how = {"budget": 600, "rounding": "alone"}
    one = st.SuperTeacher(LogisticRegression(), PerturbedFit(3), **how).fit(X, y, groups=np.arange(6000) % 2)
    other = st.SuperTeacher(LogisticRegression(), PerturbedFit(3), engine=st.Torch("cpu", "float64"), **how)
    other.fit(X, y, groups=np.arange(6000) % 2)
    np.testing.assert_array_equal(one.sample_indices_, other.sample_indices_)
    assert one.lesson_.risk < 0.01


def test_tensors_are_taught_from_where_they_are(pool):
    """No copy of the rows is made; the lesson is that of the same float32 rows in process."""
    X, y = pool("logistic", 3000, WIDTH, 2)
    X = X.astype(np.float32)
    rows, engine = torch.from_numpy(X), st.Torch("cpu")
    teacher = engine.teacher("all", rows, y)
    assert teacher.rows.matrix.data_ptr() == rows.data_ptr()

    class Away(on_device.DeviceTeacher):
        def at_home(self):
            raise AssertionError("rows were copied for a lesson that needs no copy")

    how = {"budget": 100, "rounding": "alone"}
    away = engine([Away("all", teacher.rows, teacher.target)])
    there = st.teach(st.Federation(away), LogisticRegression(), PerturbedFit(0), **how)
    here = st.teach(st.Federation(st.Threads([st.Teacher("all", X, y)])), LogisticRegression(), PerturbedFit(0), **how)
    np.testing.assert_allclose(there.model, here.model, rtol=1e-10)
    assert [entry.query for entry in there.ledger] == [entry.query for entry in here.ledger]


def test_regression_and_costs(pool):
    """Targets that float32 does not hold stay in float64; cheap rows are preferred."""
    X, y = pool("squared", 3000, WIDTH, 2)
    costs = np.random.default_rng(0).random(len(y))
    how = {"budget": 100, "rounding": "alone"}
    lessons = [
        st.SuperTeacher(Ridge(), PerturbedFit(0), engine=engine, **how).fit(X, y, costs=costs).lesson_
        for engine in (None, st.Torch("cpu", "float64"))
    ]
    assert lessons[0].cost == pytest.approx(lessons[1].cost, rel=1e-12)
    np.testing.assert_allclose(lessons[0].model, lessons[1].model, rtol=1e-9)


class LogCosh(Loss):
    """ℓ = log cosh(η − y): a loss that no list has."""

    name, classifies = "log_cosh", False

    def terms(self, eta, y):
        xp, residual = namespace(eta), eta - y
        slope = xp.tanh(residual)
        return Terms(xp.log(xp.cosh(residual)), slope, 1.0 - slope * slope)

    def conjugate(self, alpha, y):
        raise NotImplementedError

    def settings(self):
        return {"name": self.name}


class Halved(Logistic):
    """Another loss than the one whose name it bears."""

    def terms(self, eta, y):
        return Terms(*(0.5 * term for term in super().terms(eta, y)))

    def value(self, eta, y):
        return 0.5 * super().value(eta, y)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    "learner",
    [RidgeClassifier(), st.Learner(LogCosh(), intercept="free"), st.Learner(Halved())],
    ids=["squared label", "own", "of another name"],
)
def test_a_loss_that_the_kernel_does_not_know_is_summed_by_torch(learner, device, pool):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    X, y = pool("logistic", 600, WIDTH, 1)
    how = {"budget": 60, "rounding": "alone"}
    engines = None, st.Torch(device, "float64")
    lessons = [st.SuperTeacher(learner, PerturbedFit(3), engine=one, **how).fit(X, y).lesson_ for one in engines]
    # The fit on all rows: on a GPU the last digits of sums may choose others.
    np.testing.assert_allclose(lessons[0].pool_model, lessons[1].pool_model, rtol=1e-8, atol=1e-9)
    assert lessons[1].prediction_distance < lessons[1].prediction_spread
    assert fused.kind_of(st.Learner.of(learner).loss) is None


@pytest.mark.parametrize("privacy", ["isolated", "dp"])
def test_private_modes_are_kept(privacy, pool):
    """What a private mode needs beyond the device is computed from the copy."""
    X, y = pool("logistic", 400, WIDTH, 1)
    goal = np.array([0.5, -0.3, 0.2])
    teacher = st.SuperTeacher(
        LogisticRegression(fit_intercept=False),
        goal,
        budget=60,
        rounding="alone",
        privacy=privacy,
        engine=st.Torch("cpu"),
    )
    assert teacher.fit(X, y, groups=np.arange(400) % K).lesson_.size > 0


def test_random_numbers_are_those_of_every_teacher():
    """The same seed and the same ids draw the same rows on every engine."""
    ids = np.random.default_rng(0).integers(0, 2**63, 1000).astype(np.uint64)
    for seed in (0, 7, 2**63, 2**64 - 1):
        drawn = ranks.uniform(torch.from_numpy(ids.view(np.int64)), seed).numpy()
        assert drawn.tobytes() == ranks.uniform(ids, seed).tobytes()


def test_an_estimator_with_an_engine_is_cloned():
    teacher = clone(st.SuperTeacher(engine=st.Torch("cpu", "float64")))
    assert teacher.engine == st.Torch("cpu", "float64")


# The kernel --------------------------------------------------------------------------------------------


@pytest.fixture
def interpreted(monkeypatch):
    """Triton 3.6's interpreter makes loop bounds of arrays with one number, which NumPy 2.4 refuses."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor, scope):
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    monkeypatch.setattr(interpreter, "_patch_lang_tensor", patched)


def plain_sums(kind, design, y, numbers, point, loss):
    """Value, gradient and curvature by NumPy: factors lift a row to (gradient, 1), log-odds and weights are per row."""
    lift, odds, weight = numbers
    rows = design if lift is None else np.column_stack([design * lift[:, None], np.ones(len(design))])
    t = rows @ point
    if kind == "relax":
        b = expit(t + odds)
        value, slope, curvature = np.logaddexp(0.0, t + odds), b, b * (1.0 - b)
    elif kind in ("square", "positive"):
        on = np.ones_like(t) if kind == "square" else (y > 0.0).astype(float)
        value, slope, curvature = 0.5 * t * t * on, t * on, on
    else:
        value, slope, curvature = loss.terms(t, y)
    weight = np.ones_like(t) if weight is None else weight
    gram = (rows.T * (weight * curvature)) @ rows
    return float(weight @ value), (weight * slope) @ rows, gram


@pytest.mark.parametrize("kind", [*sorted(LOSSES), "relax", "square", "positive", "weighted"])
@pytest.mark.parametrize("constant", [0.0, 0.3])
def test_the_kernel_sums_what_numpy_does(kind, constant, interpreted, pool):
    """One reading of the rows: value, gradient and curvature of 75 rows (two blocks and a rest), each function."""
    name = kind if kind in LOSSES else "huber"
    X, y = pool(name, 75, 5, 0)
    X = X.astype(np.float32)
    rows = tensors.DeviceRows(torch.from_numpy(X), torch.device("cpu"))
    design = X.astype(np.float64)
    scaling = Scaling(constant, design.mean(axis=0), design.std(axis=0)) if constant else Scaling()
    if constant:
        design = np.column_stack([(design - scaling.centre) / scaling.scale, np.full(75, constant)])
    draw, relaxed = np.random.default_rng(0), kind == "relax"
    numbers = [
        draw.random(75) - 0.5 if relaxed else None,
        draw.random(75) - 0.5 if relaxed else None,
        draw.random(75) if kind == "weighted" else None,
    ]
    point, loss = np.linspace(-0.6, 0.7, 5 + bool(constant) + relaxed), LOSSES[name]()
    function, target = (name if kind == "weighted" else kind), torch.from_numpy(y)
    there = [None if each is None else torch.from_numpy(each) for each in numbers]
    assert fused.kind_of(loss) == name
    value, gradient, gram = plain_sums(function, design, y, numbers, point, loss)
    for curved in (False, True):
        found = fused.sum_rows(rows, slice(0, 75), target, there, point, function, scaling, loss, curved).numpy()
        expected = np.concatenate([[value], gradient, gram.ravel() if curved else np.zeros(gram.size)])
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


def test_rows_in_any_order_of_memory_are_read(interpreted, pool):
    """Column by column as well as row by row; wide rows are left to torch's products."""
    X, y = pool("logistic", 40, 5, 0)
    point, none = np.linspace(-0.6, 0.7, 5), (None, None, None)
    found = []
    for matrix in (torch.from_numpy(X), torch.from_numpy(np.asfortranarray(X))):
        rows = tensors.DeviceRows(matrix, torch.device("cpu"))
        target = torch.from_numpy(y)
        found.append(fused.sum_rows(rows, slice(0, 40), target, none, point, "logistic", Scaling(), Logistic(), True))
    assert torch.equal(*found)
    assert fused.fits(62)
    assert not fused.fits(63)


# What cannot be ----------------------------------------------------------------------------------------


def test_a_device_out_of_memory_says_what_did_not_fit(pool):
    X, y = pool("logistic", 1000, WIDTH, 0)

    class Full(on_device.DeviceTeacher):
        def size_of(self, chosen):
            raise torch.OutOfMemoryError("CUDA out of memory")

    engine = st.Threads([Full.of(st.Teacher("north", X, y), torch.device("cpu"), torch.float32, None)])
    with pytest.raises(
        TeachingError, match=r"cpu is out of memory when Census.*1,000 rows × 3 of teacher north.*stream"
    ):
        engine.sum(queries.Census(), 1)


def test_a_missing_torch_names_the_command(monkeypatch):
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'superteach\[torch\]'"):
        st.Torch("cpu")


@pytest.mark.parametrize("wrong", ["abacus", "cuda:77", (), 7])
def test_devices_that_are_not_there_are_refused(wrong):
    with pytest.raises(SettingError, match="device="):
        st.Torch(wrong)


def test_other_types_are_refused():
    with pytest.raises(SettingError, match="dtype='float16'"):
        st.Torch("cpu", "float16")


def test_rows_that_no_device_holds_are_refused(pool):
    X, y = pool("logistic", 100, WIDTH, 0)
    with pytest.raises(DataTypeError, match="teacher 'north' has sparse rows"):
        st.Torch("cpu")([st.Teacher("north", sparse.csr_array(X), y)])
    X[73, 1] = np.nan
    with pytest.raises(DataError, match="teacher 'north' has a missing or infinite value in row 73, column 1"):
        st.Torch("cpu").teacher("north", X, y)
    with pytest.raises(DataError, match=r"rows of shape \(100, 3\) and targets of shape \(99,\)"):
        st.Torch("cpu").teacher("north", X, y[:-1])


def test_a_copy_has_a_limit():
    """A question that the device does not answer, about rows that are too many to copy (here one row, again and again)."""
    rows = torch.ones((1, WIDTH)).expand(100_000_000, WIDTH)
    device = tensors.DeviceRows(rows, torch.device("cpu"))
    teacher = on_device.DeviceTeacher("north", device, torch.ones(1).expand(len(rows)))
    with pytest.raises(QueryRefused, match=r"100,000,000 rows × 3.*rounding='alone'"):
        teacher.answer(queries.Weigh(np.ones(WIDTH), 0.1), teacher.start(), Turn(1, 0, 1))
