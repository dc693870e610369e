"""Where match begins on a sample: which rows it has, what is summed over it, and that it decides nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import superteach as st
from superteach import queries
from superteach import teacher as room
from superteach.agreement import agree
from superteach.engines.remote import Loopback
from superteach.errors import QueryRefused
from superteach.learner import Learner
from superteach.losses import Logistic, Squared
from superteach.messages import Turn
from superteach.methods import match

WIDTH, TEMPERATURE = 3, 0.03
GOAL = np.array([1.0, 0.5, -0.4])
POINT = np.array([0.2, -0.1, 0.3, -0.05])
ALONE = Turn(number=1, position=0, teachers=1)
BALANCE = queries.Balance(GOAL, np.eye(WIDTH), 0.02, TEMPERATURE, 5)
MOMENTS = queries.AskMoments("relax", "sample", POINT, 2)
VALUES = queries.AskValues("relax", "sample", POINT, POINT[::-1].copy(), np.array([0.0, 0.5, 2.0]))


def ready(teacher):
    """A teacher's state once it knows the pulls on the goal."""
    state, _ = teacher.answer(queries.Prepare(Logistic(), 0.0), teacher.start(), ALONE)
    return teacher.answer(BALANCE, state, ALONE)[0]


def answer(teacher, query, state):
    return teacher.answer(query, state, ALONE)[1].values


def relaxed(X, y, costs, point):
    """Σ τ log(1 + exp((u'(g, 1) − c)/τ)), its gradient and its curvature, from the rows."""
    lifted = np.column_stack([X * (y / (1.0 + np.exp(y * (X @ GOAL))))[:, None], np.ones(len(y))])
    z = (lifted @ point - costs) / TEMPERATURE
    b = 1.0 / (1.0 + np.exp(-z))
    curvature = lifted.T @ (lifted * (b * (1.0 - b) / TEMPERATURE)[:, None])
    return TEMPERATURE * np.logaddexp(0.0, z).sum(), lifted.T @ b, curvature


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_a_sample_is_every_sixteenth_row(form, pool, monkeypatch):
    """Its sums are those of rows 0, 16, 32, …, with the costs they have among all rows."""
    monkeypatch.setattr(room, "LEAST_SAMPLE", 50)
    X, y = pool("logistic", 1003, WIDTH, 0)
    teacher = st.Teacher("t", sparse.csr_array(X) if form == "sparse" else X, y)
    state = ready(teacher)
    few = slice(None, None, 16)
    size = queries.Census("sample")
    assert size.read(answer(teacher, size, state)) == (63, np.count_nonzero(y[few] > 0.0))
    value, gradient, curvature = relaxed(X[few], y[few], state.balance.costs[few], POINT)
    told = MOMENTS.read(answer(teacher, MOMENTS, state))
    assert told.value == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(told.gradient, gradient, rtol=1e-11)
    np.testing.assert_allclose(told.curvature, curvature, rtol=1e-9, atol=1e-9)
    values = [
        relaxed(X[few], y[few], state.balance.costs[few], VALUES.point + step * VALUES.direction)[0]
        for step in VALUES.steps
    ]
    np.testing.assert_allclose(answer(teacher, VALUES, state), values, rtol=1e-12)


@pytest.mark.parametrize(("rows", "sampled"), [(15_999, 0), (16_000, 1000), (16_001, 1001)])
def test_few_rows_have_no_sample(rows, sampled, pool):
    """A teacher whose sample would be small adds nothing."""
    teacher = st.Teacher("t", *pool("logistic", rows, WIDTH, 0))
    state = ready(teacher)
    assert answer(teacher, queries.Census("sample"), state)[0] == sampled
    assert answer(teacher, MOMENTS, state).any() == bool(sampled)


@pytest.mark.parametrize("function", ["loss", "dual", "square", "positive", "reach"])
def test_nothing_else_is_summed_over_a_sample(function, pool):
    """Sums over one class, say, could be subtracted from those over all rows until few are left."""
    teacher = st.Teacher("t", *pool("logistic", 50, WIDTH, 0))
    for query in (
        queries.AskMoments(function, "sample", POINT[:-1], 1),
        queries.AskValues(function, "sample", POINT[:-1], GOAL, np.ones(1)),
    ):
        with pytest.raises(QueryRefused, match=f"sums 'relax' over its sample, not '{function}'"):
            teacher.answer(query, ready(teacher), ALONE)


@pytest.mark.parametrize(("least_rows", "sampled"), [(10, 40), (40, 40), (41, 0)])
def test_a_sample_keeps_to_the_policy(least_rows, sampled, pool, site_of, monkeypatch):
    """Over a line the sums are the same bits; where the owner wants more rows in a sum there is no sample."""
    monkeypatch.setattr(room, "LEAST_SAMPLE", 20)
    X, y = pool("logistic", 640, WIDTH, 0)
    site = site_of("t", X, y, least_rows=least_rows)
    line = Loopback({"t": site.answer})
    remote = agree(line, "lesson", ("t",), Learner(Logistic())).engine(line)
    local = st.InProcess([st.Teacher("t", X, y)])
    talk = (queries.Prepare(Logistic(), 0.0), BALANCE, queries.Census("sample"), MOMENTS, VALUES)
    for number, query in enumerate(talk, 1):
        told = remote.sum(query, number)
        if sampled or number <= 2:
            assert told.tobytes() == local.sum(query, number).tobytes(), query.name
        else:
            assert not told.any(), query.name


@pytest.fixture
def relax(pool, federation_of, monkeypatch):
    """`relax(kind, goal, sampling)` gives the point, the proof and over which rows each round summed."""

    def solve(kind, goal, sampling):
        monkeypatch.setattr(room, "LEAST_SAMPLE", 100)
        monkeypatch.setattr(match, "LARGE_POOL", 10_000 if sampling else 10**9)
        loss = {"logistic": Logistic(), "squared": Squared()}[kind]
        X, y = pool(kind, 12_000, WIDTH, 1)
        federation, asked = federation_of(X, y, 3, loss), []
        whole = federation.sum

        def spy(query):
            asked.append(query.rows if query.name == "relax moments" else query.name)
            return whole(query)

        monkeypatch.setattr(federation, "sum", spy)
        point, proof = match.relax(federation, goal, np.append(2.0 * goal, 1_200.0), len(y), 0)
        sums = whole(queries.AskMoments("relax", "all", point, 2))
        return point, proof, asked, sums

    return solve


@pytest.mark.parametrize("kind", ["logistic", "squared"])
def test_all_rows_decide(kind, relax):
    """From the sample's end fewer passes over all rows lead to the same balance."""
    point, proof, asked, sums = relax(kind, GOAL, True)
    plain, no_proof, before, _ = relax(kind, GOAL, False)
    assert proof is None
    assert no_proof is None
    assert "sample" not in before
    assert 1 <= asked.count("all") < before.count("all")
    assert asked.index("Census") < asked.index("sample") < asked.index("all")
    np.testing.assert_allclose(point, plain, atol=2e-3 * np.abs(plain).max())
    # The criterion of a relaxation without a sample, on sums over all rows.
    left = sums.gradient - np.append(2.0 * GOAL, 1_200.0)
    assert np.all(np.abs(left) <= 0.01 * np.sqrt(TEMPERATURE * np.diag(sums.curvature)) + 1e-8)


def test_a_goal_out_of_reach_is_proved_by_all_rows(relax):
    """A sample that cannot balance the goal proves nothing: the certificate is the one there was without it."""
    point, proof, asked, _ = relax("logistic", 400.0 * GOAL, True)
    plain, other, *_ = relax("logistic", 400.0 * GOAL, False)
    assert "sample" in asked
    assert proof is not None
    assert point.tobytes() == plain.tobytes()
    assert (proof.margin, proof.direction.tobytes()) == (other.margin, other.direction.tobytes())


def test_small_pools_and_small_lessons_ask_for_no_sample(pool, federation_of):
    """They are asked the same questions as ever."""
    X, y = pool("logistic", 2_000, WIDTH, 1)
    federation = federation_of(X, y, 3, Logistic())
    match.relax(federation, GOAL, np.append(GOAL, 1_200.0), len(y), 0)
    assert "Census" not in [entry.query for entry in federation.ledger]
    assert match.LARGE_POOL >= 20_000


def test_small_teachers_at_the_head_of_the_roster_do_not_end_the_search(pool, monkeypatch):
    """In a large pool a few idle turns end it, but not before the one who has the rows had a turn."""
    monkeypatch.setattr(match, "LARGE_POOL", 2_000)
    X, y = pool("logistic", 4_000, WIDTH, 3)
    sizes = [2] * 7 + [4_000 - 14]
    owner = np.repeat(np.arange(8), sizes)
    risks = []
    for order in (np.arange(8), np.arange(8)[::-1]):
        teachers = [
            st.Teacher(f"t{i}", X[owner == i], y[owner == i], np.flatnonzero(owner == i)) for i in order
        ]
        federation = st.Federation(st.InProcess(teachers))
        risks.append(st.teach(federation, Learner(Logistic(), 1.0), GOAL, budget=80, least_change=1).risk)
    assert max(risks) < 1e-3 * np.linalg.norm(GOAL)
    assert risks[0] < 30.0 * risks[1], risks
