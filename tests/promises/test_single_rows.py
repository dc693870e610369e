"""Queries whose replies show single rows: refused unless an owner lists them, and for good reason."""

from __future__ import annotations

import numpy as np
import pytest

import superteach as st
from superteach.coordinator.teaching import teach
from superteach.engines.remote import Loopback
from superteach.errors import QueryRefused
from superteach.goals import PerturbedFit
from superteach.line import wire
from superteach.line.queries.match import OCTAVES
from superteach.losses import Logistic
from superteach.mathematics.learner import Learner
from superteach.organisations.agreement import agree
from superteach.promises.policy import NAMES, Policy, read_policy, template
from superteach.queries import OPEN, Balance, Draw, Gather, Play, Prepare, Price, RoundAlone, Show, Tally
from tests.inside import lesson_at
from tests.line.test_queries import TALK, asked_of
from tests.promises.canaries import numbers_found

WIDTH, ROWS = 3, 120


@pytest.fixture
def lesson(pool, site_of):
    """Three sites with a policy, the line to them and the same rows in one process."""

    def make(**rules):
        X, y = pool("logistic", ROWS, WIDTH, 2)
        parts = np.array_split(np.arange(ROWS), 3)
        sites = {f"t{i}": site_of(f"t{i}", X[part], y[part], **rules) for i, part in enumerate(parts)}
        line = Loopback({name: site.answer for name, site in sites.items()})
        remote = agree(line, "lesson", tuple(sites), Learner(Logistic())).engine(line)
        local = st.InProcess([st.Teacher(f"t{i}", X[part], y[part], part) for i, part in enumerate(parts)])
        return X, sites, remote, local

    return make


def test_a_site_refuses_all_that_shows_single_rows_and_answers_all_else(lesson):
    """A whole talk with the policy that a kit starts with: some kinds of question get a reason and no number."""
    _, sites, remote, local = lesson(asynchronous=True)
    refused = set()
    for number, template_query in enumerate(TALK, 1):
        query = asked_of(local, template_query)
        local.sum(query, number)
        if type(query) in OPEN:
            reply = wire.read_reply(sites["t0"].answer(wire.pack_question("lesson", number, query)))
            assert (reply.status, reply.values) == ("refused", None)
            assert reply.reason == f"the policy does not allow {type(query).__name__}"
            refused.add(type(query).__name__)
        elif not isinstance(query, Tally):  # it counts rows in play, and there are none
            assert np.isfinite(remote.sum(query, number)).all()
    assert {"Play", "Settle", "Gather", "Assign", "Show"} <= refused
    assert refused == {query.__name__ for query in OPEN}
    verdicts = [entry["verdict"] for entry in sites["t0"].guard.audit.entries()]
    assert sum("does not allow" in verdict for verdict in verdicts) >= len(refused)


def test_the_default_and_the_template_leave_them_out(tmp_path):
    """Neither a policy made in Python nor the file of a kit allows one of them; both allow rounding alone."""
    (tmp_path / "policy.toml").write_text(template(["coordinator"]), encoding="utf-8")
    for policy in (Policy(("coordinator",)), read_policy(tmp_path / "policy.toml")):
        assert not policy.queries & {query.__name__ for query in OPEN}
        assert "RoundAlone" in policy.queries


def test_a_site_rounds_alone(lesson):
    """Asked for it, each teacher chooses its rows, by the same bits as in one process, and says two counts."""
    _, sites, remote, local = lesson()
    talk = [
        Prepare(Logistic(), 0.0),
        Balance(np.full(WIDTH, 0.3), np.eye(WIDTH)),
        Draw(np.full(OCTAVES, -1.0), 0.0, 3),
        Price(np.array([0.1, 0.0, 0.0, 0.0])),
        RoundAlone(np.eye(WIDTH), 3),
    ]
    for number, query in enumerate(talk, 1):
        told = remote.sum(query, number)
        assert told.tobytes() == local.sum(query, number).tobytes()
    assert told.shape == (2,)
    for site, state in zip(sites.values(), local.states(), strict=True):
        np.testing.assert_array_equal(lesson_at(site).state.chosen, state.chosen)
        assert len(state.chosen) == pytest.approx(float(state.fractions.sum()), abs=0.51)


def test_a_lesson_rounds_alone_over_sites_and_not_together(lesson):
    """The default of a federation works with the default of a policy; rounding together is refused by name."""
    _, _, remote, _ = lesson()
    how = {"method": "match", "budget": 40}
    with pytest.raises(QueryRefused, match=r"teacher t\d refuses (Play|Show): the policy does not allow"):
        teach(st.Federation(remote), Learner(Logistic()), PerturbedFit(0), rounding="together", **how)
    _, _, remote, _ = lesson()
    taught = teach(st.Federation(remote), Learner(Logistic()), PerturbedFit(0), rounding="alone", **how)
    assert abs(taught.size - 40) <= 2
    assert not {entry.query for entry in taught.ledger} & {query.__name__ for query in OPEN}


def test_what_is_refused_would_show_rows(lesson):
    """Owners who list all queries show rows: as they are, or to whoever divides by what is known."""
    X, sites, remote, _ = lesson(queries=frozenset(NAMES))
    metric = np.diag([1.0, 2.0, 0.5])
    talk = [
        Prepare(Logistic(), 0.0),
        Balance(np.full(WIDTH, 0.3), metric),
        Draw(np.full(OCTAVES, -1.0), 0.0, 3),
        Price(np.zeros(WIDTH + 1)),
        Play(metric, 4.0, 1, True, 0.25, 5),
    ]
    for number, query in enumerate(talk, 1):
        remote.sum(query, number)
    states = [lesson_at(site).state for site in sites.values()]
    counts = (ROWS // 3,) * 3
    shown = remote.sum(Show(counts, WIDTH), 6)
    assert numbers_found(shown.tobytes(), X.ravel(), [])
    np.testing.assert_array_equal(Show(counts, WIDTH).read(shown)[:, :WIDTH], X)
    # A pull is −ℓ'(x'θ) x, so its direction is the row's, and M is the coordinator's own.
    gather = Gather(tuple(len(state.play.rows) for state in states), WIDTH + 1)
    pulls = gather.read(remote.sum(gather, 7))[:, :WIDTH] @ np.linalg.inv(metric).T
    assert len(pulls) > 10
    rows = X[np.concatenate([state.play.index + i * ROWS // 3 for i, state in enumerate(states)])]
    lengths = np.linalg.norm(pulls, axis=1) * np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(np.abs(np.sum(pulls * rows, axis=1)), lengths, rtol=1e-9)
