"""A teacher at home: one door of bytes, with the policy behind it and a line in the log for whoever knocks."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from scipy import sparse

import superteach as st
from superteach.errors import DataError, QueryRefused, SettingError, TeacherLost, TeachingError
from superteach.line import wire
from superteach.losses import Logistic, Squared
from superteach.mathematics.learner import Learner
from superteach.organisations.agreement import agree, end
from superteach.organisations.site import Site
from superteach.organisations.site.rows import Holding, open_holding, own_secret
from superteach.privacy.audit_log import Audit
from superteach.privacy.guard import Guard
from superteach.privacy.policy import Policy
from superteach.queries import AskMoments, Census, Keep, Prepare, RankRows
from superteach.teacher.files import Pool
from superteach.teacher.inputs import Part
from superteach.versions import VERSION
from tests.inside import lesson_at, log_of
from tests.loopback import Loopback

WIDTH = 3


@pytest.fixture
def pair(pool, site_of):
    """Two sites, the line to them, and their agreement."""

    def make(kind="logistic", **rules):
        X, y = pool(kind, 60, WIDTH, 0)
        sites = {
            name: site_of(name, X[part], y[part], **rules) for name, part in (("a", slice(0, 40)), ("b", slice(40, 60)))
        }
        line = Loopback({name: site.answer for name, site in sites.items()})
        learner = Learner(Logistic() if kind == "logistic" else Squared())
        return sites, line, agree(line, "lesson", tuple(sites), learner)

    return make


def ask(site, number, query, lesson="lesson"):
    return wire.read_reply(site.answer(wire.pack_question(lesson, number, query)))


def test_nothing_is_answered_before_an_agreement(pool, site_of):
    """The order is hello, agree, ask."""
    site = site_of("a", *pool("logistic", 20, WIDTH, 0))
    assert "no agreement" in ask(site, 1, Census()).reason
    place = {"position": 0, "teachers": 1, "first_id": 0}
    told = {"lesson": "lesson", "loss": "logistic", "columns": ["x0", "x1", "x2"], "classes": [-1.0, 1.0], **place}
    said = wire.read_reply(site.answer(wire.pack("agree", told)))
    assert (said.status, "never announced" in said.reason) == ("refused", True)
    said = wire.read_reply(site.answer(wire.pack("finish", {"lesson": "lesson"})))
    assert said.status == "refused"


def test_another_coordinator_is_refused(pool, site_of):
    """Who is not in the policy learns nothing but that."""
    site = site_of("a", *pool("logistic", 20, WIDTH, 0))
    site.coordinator = "mallory"
    reply = wire.read_reply(
        site.answer(wire.pack("hello", {"lesson": "l", "loss": "logistic", "promise": "open", "version": VERSION}))
    )
    assert (reply.status, reply.facts) == ("refused", {})
    assert "does not list the coordinator 'mallory'" in reply.reason


def test_a_question_asked_twice_is_answered_once(pair):
    """The same bytes give the same reply and move nothing; the same number with other bytes is refused."""
    sites, _, _ = pair()
    site = sites["a"]
    ask(site, 1, Prepare(Logistic(), 0.0))
    state = lesson_at(site).state
    first = site.answer(wire.pack_question("lesson", 2, RankRows("random", seed=1)))
    assert site.answer(wire.pack_question("lesson", 2, RankRows("random", seed=1))) == first
    assert lesson_at(site).number == 2
    assert lesson_at(site).state is not state
    assert "after round 2" in ask(site, 2, RankRows("random", seed=2)).reason


@pytest.mark.parametrize(
    "query",
    [AskMoments("loss", "all", np.zeros(5000), 1), AskMoments("square", "all", np.zeros(4000), 2)],
    ids=["long", "large reply"],
)
def test_what_would_cost_too_much_memory_is_refused(query, pair):
    """Sizes are looked at before anything is computed."""
    sites, _, _ = pair()
    assert ask(sites["a"], 1, query).status == "refused"


def test_an_accident_tells_nothing_of_the_rows(pair, caplog):
    """A question breaks inside; only the kind of error leaves."""
    sites, _, _ = pair()
    ask(sites["a"], 1, Prepare(Logistic(), 0.0))
    lesson_at(sites["a"]).teacher.rows = None
    reply = ask(sites["a"], 2, AskMoments("loss", "all", np.zeros(WIDTH), 1))
    assert reply.status == "failed"
    assert reply.reason == "an unexpected AttributeError; its own log says more"
    assert log_of(sites["a"].guard.audit)[-1]["verdict"] == "failed: AttributeError"


def test_no_record_no_answer(pair):
    """Where the audit log cannot be written the answer stays here."""
    sites, _, _ = pair()
    sites["a"].guard.audit = Audit("/dev/full")
    reply = ask(sites["a"], 1, Census())
    assert (reply.status, reply.values) == ("refused", None)
    assert "audit log cannot be written" in reply.reason


def test_the_audit_log_has_sizes_and_no_values(pair):
    """A line has the time, the coordinator, the query, shapes and bytes."""
    sites, _, _ = pair()
    ask(sites["a"], 1, Prepare(Logistic(), 0.0))
    point = np.array([0.123456789, 2.0, 3.0])
    data = wire.pack_question("lesson", 2, AskMoments("loss", "all", point, 1))
    out = sites["a"].answer(data)
    entry = log_of(sites["a"].guard.audit)[-1]
    assert entry.pop("time")
    assert entry.pop("seconds") >= 0.0
    assert entry == {
        "coordinator": "coordinator", "bytes_in": len(data), "kind": "ask", "shape": [[3]], "query": "loss moments",
        "lesson": "lesson", "number": 2, "bytes_out": len(out), "verdict": "answered",
    }  # fmt: skip
    assert "0.1234" not in sites["a"].guard.audit.path.read_text()


def test_a_changed_loss_is_refused(pair):
    """The teacher prepared its labels for the loss it agreed on."""
    sites, _, _ = pair()
    assert "agreement is on the loss 'logistic'" in ask(sites["a"], 1, Prepare(Squared(), 0.0)).reason


def test_schemas_that_differ_are_named(pool, site_of):
    """The error says who differs in what, before the first query."""
    X, y = pool("logistic", 40, WIDTH, 0)
    a = site_of("a", X, y)
    text = np.where(y > 0, "yes", "no").astype(object)
    cases = [
        (
            site_of("b", X, y, columns=("x0", "x1", "age")),
            "teacher b has other columns than teacher a: it lacks 'x2' and adds 'age'",
        ),
        (site_of("c", X, np.where(y > 0, 7, 3)), "4 label values, two are needed: a has"),
        (site_of("d", X, text), "teacher d has a target of kind 'text', teacher a 'number'"),
        (
            site_of("e", X, np.arange(40)),
            "teacher e refuses the first hello: its target has 40 different values",
        ),
    ]
    for other, reason in cases:
        line = Loopback({"a": a.answer, other.name: other.answer})
        with pytest.raises((DataError, QueryRefused), match=reason):
            agree(line, f"with {other.name}", ("a", other.name), Learner(Logistic()))
        assert not any(entry["kind"] == "ask" for entry in log_of(a.guard.audit))


def test_columns_are_settled_in_one_order(pool, site_of):
    """A teacher whose file has the columns in another order answers as if it had not."""
    X, y = pool("logistic", 60, WIDTH, 0)
    turned = X[:, [2, 0, 1]]
    sites = [site_of("a", X[:30], y[:30]), site_of("b", turned[30:], y[30:], columns=("x2", "x0", "x1"))]
    line = Loopback({site.name: site.answer for site in sites})
    agreement = agree(line, "lesson", ("a", "b"), Learner(Logistic()))
    federation = st.Federation(agreement.engine(line))
    federation.sum(Prepare(Logistic(), 0.0))
    total = federation.sum(AskMoments("square", "all", np.zeros(WIDTH), 2))
    np.testing.assert_allclose(total.curvature, X.T @ X, rtol=1e-12)
    part = agree(line, "some", ("a", "b"), Learner(Logistic()), ["x2", "x1"])
    federation = st.Federation(part.engine(line))
    federation.sum(Prepare(Logistic(), 0.0))
    total = federation.sum(AskMoments("square", "all", np.zeros(2), 2))
    np.testing.assert_allclose(total.curvature, X[:, [2, 1]].T @ X[:, [2, 1]], rtol=1e-12)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_chosen_rows_are_written_whole_and_as_they_were(suffix, tmp_path):
    """Rows are copied with every column as the file has it, in a file that appears at once."""
    table = pa.table({"id": ["007", "a,b", 'say "x"', "é"] * 5, "x": [0.1 + i for i in range(20)], "y": [0, 1] * 10})
    path = tmp_path / f"rows{suffix}"
    csv.write_csv(table, path) if suffix == ".csv" else parquet.write_table(table, path)
    holding = open_holding("a", path, "y", ["x"])
    policy = Policy(("c",), write="rows", folder=tmp_path / "chosen")
    written = holding.write_chosen("le/sson", np.array([5, 2, 18]), policy)
    assert written == tmp_path / "chosen" / f"le_sson{suffix}"
    assert [entry.name for entry in written.parent.iterdir()] == [written.name]
    back = csv.read_csv(written) if suffix == ".csv" else parquet.read_table(written)
    assert back.equals((csv.read_csv(path) if suffix == ".csv" else table).take([2, 5, 18]))
    assert holding.write_chosen("x", np.array([1]), Policy(("c",), write="nothing")) is None


def test_the_end_comes_once(pair):
    """Finishing writes the rows, can be repeated, and closes the lesson."""
    sites, line, agreement = pair()
    federation = st.Federation(agreement.engine(line))
    federation.sum(Prepare(Logistic(), 0.0))
    federation.sum(RankRows("random", seed=1))
    with pytest.raises(QueryRefused, match="before any row is chosen"):
        end(line, agreement)
    federation.sum(Keep(b"\x80" + b"\x00" * 15))
    counts = end(line, agreement)
    assert counts == end(line, agreement)
    assert counts["a"]["rows"] == len((sites["a"].guard.policy.folder / "lesson.csv").read_text().split()) - 1
    with pytest.raises(QueryRefused, match="is over"):
        federation.sum(Census())


class Silent(Loopback):
    """A line on which one teacher does not answer, or answers with what is asked of this test."""

    def __init__(self, doors, name, reply):
        super().__init__(doors)
        self._name, self._reply = name, reply

    def ask(self, requests, seconds):
        replies = super().ask(requests, seconds)
        replies.pop(self._name)
        return replies if self._reply is None else {**replies, self._name: self._reply}


@pytest.mark.parametrize(
    ("reply", "error", "reason"),
    [
        (None, TeacherLost, "teacher b is lost: it gave no answer to Census"),
        (b"", TeachingError, "teacher b answered Census with something else"),
        (
            wire.pack("reply", {"status": "ok", "facts": {}, "reason": ""}, [np.zeros(3)]),
            TeachingError,
            "shape",
        ),
        (wire.pack_facts({}), TeachingError, "no numbers"),
        (wire.pack_no("failed", "why"), TeachingError, "teacher b failed over Census: why"),
        (wire.pack_no("refused", "why"), QueryRefused, "teacher b refuses Census: why"),
    ],
)
def test_a_bad_reply_names_its_teacher(reply, error, reason, pair):
    """The coordinator's error says who, what and why."""
    sites, _, agreement = pair()
    line = Silent({name: site.answer for name, site in sites.items()}, "b", reply)
    federation = st.Federation(agreement.engine(line))
    with pytest.raises(error, match=reason):
        federation.sum(Census())
    assert federation.ledger == ()


def test_a_site_can_be_built_from_a_file(tmp_path, pool):
    """As `superteach join` does it: file, target, policy."""
    X, y = pool("logistic", 30, WIDTH, 0)
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({**{f"x{i}": X[:, i] for i in range(WIDTH)}, "y": y}), path)
    site = Site("a", open_holding("a", path, "y"), Guard(Policy(("c",), "open"), Audit(tmp_path / "log")), "c")
    reply = wire.read_reply(
        site.answer(wire.pack("hello", {"lesson": "l", "loss": "logistic", "promise": "open", "version": VERSION}))
    )
    assert {
        "columns": ["x0", "x1", "x2"],
        "target": "y",
        "labels": [-1.0, 1.0],
        "rows": 30,
    }.items() <= reply.facts.items()
    assert json.dumps(reply.facts)


@pytest.mark.parametrize("kind", ["dense", "sparse", "columns", "text"])
def test_a_seal_changes_with_any_value_and_with_the_secret(kind, pool, tmp_path):
    """Over several blocks of rows; the same rows in the same order give the same seal, in another process too."""
    rows = 20_000
    X, y = pool("logistic", rows, WIDTH, 0)
    secret = own_secret(tmp_path / "secret")

    def seal(X, y, secret=secret, costs=None):
        held = {"sparse": sparse.csr_array, "columns": np.asfortranarray}.get(kind, np.array)(X)
        target = np.where(y > 0, "yes", "no").astype(object) if kind == "text" else y
        part = Part("a", held, target, np.arange(rows), costs=costs)
        files = Pool((part,), ("x0", "x1", "x2"), (tmp_path / "a.csv",), (np.arange(rows),))
        return Holding("a", files, "y").seal(secret)

    other, flipped = X.copy(), y.copy()
    other[18_000, 2] = np.nextafter(other[18_000, 2], 9.0)
    flipped[-1] = -flipped[-1]
    seals = [
        seal(X, y), seal(other, y), seal(X, flipped), seal(X[::-1], y[::-1]), seal(X, y, costs=np.ones(rows)),
        seal(X, y, costs=np.arange(float(rows))), seal(X, y, own_secret(tmp_path / "another")),
    ]  # fmt: skip
    assert len(set(seals)) == len(seals)
    assert seal(X, y, own_secret(tmp_path / "secret")) == seals[0]
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["another", "secret"]


def test_a_damaged_secret_is_said(tmp_path):
    """Rather than sealed with."""
    (tmp_path / "secret").write_bytes(b"short")
    with pytest.raises(SettingError, match="has 5 bytes, 32 are right"):
        own_secret(tmp_path / "secret")
