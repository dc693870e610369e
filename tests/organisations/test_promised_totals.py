"""Wrong totals under "epsilon", from a coordinator or a fellow teacher: what becomes of them does not depend on rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

from superteach.coordinator.promised import Script
from superteach.line import wire
from superteach.mathematics.learner import Learner
from superteach.organisations.site import Site
from superteach.organisations.site.rows import open_holding
from superteach.privacy.audit_log import Audit
from superteach.privacy.guard import Guard
from superteach.privacy.ledger import Ledger
from superteach.privacy.policy import Declared, Policy
from superteach.settings import Settings
from superteach.versions import VERSION

ROWS, COLUMNS, GOAL = 60, ("x0", "x1", "x2"), np.array([0.8, -0.5, 0.3, 0.1])
MOST_ROUNDS = 60


def words(kind, shape, draw):
    """Totals that no honest sum comes to."""
    if kind == "any":
        return draw.integers(0, 2**64, shape, dtype=np.uint64)
    if kind == "nothing":
        return np.zeros(shape, dtype=np.uint64)
    return (draw.standard_normal(shape) * 10.0 ** draw.uniform(0.0, 17.0)).astype(np.int64).view(np.uint64)


def tables(draw):
    """A table, and others that differ from it in one row or in all."""
    X = draw.standard_normal((ROWS, 3))
    found = [X]
    for size in (1e100, 1e-150, 0.0):
        found.append(X.copy())
        found[-1][0] = size
    return [*found, np.zeros_like(X), 1e90 * X]


def talk(home, X, y, learner, method, kind):
    """All that one site says, but for its noisy numbers: statuses, reasons, marks of rounds, sizes of messages."""
    home.mkdir()
    columns = {name: X[:, place] for place, name in enumerate(COLUMNS)}
    parquet.write_table(pa.table({**columns, "y": y}), home / "rows.parquet")
    known = Learner.of(learner)
    labels = (-1, 1) if known.loss.classifies else None
    policy = Policy(("c",), "epsilon", declared=Declared(ROWS, COLUMNS, "y", labels), folder=home / "chosen")
    holding = open_holding("a", home / "rows.parquet", "y")
    holding.check(policy)
    ledger = Ledger(home / "ledger", policy.epsilon, policy.delta)
    site = Site("a", holding, Guard(policy, Audit(home / "audit.jsonl")), "c", ledger=ledger)
    settings = Settings(budget=0.1, promise="epsilon", masks=False, method=method).for_learner(known)
    script = Script.of(known, GOAL, (ROWS,), settings)
    hello = {"loss": known.loss.name, "promise": "epsilon", "version": VERSION}
    begin = {"script": script.told(), "columns": list(COLUMNS), "classes": labels, "names": ["a"], "position": 0}
    said = [
        len(site.answer(wire.pack("hello", {"lesson": "l", **hello}))),
        site.answer(wire.pack("begin", {"lesson": "l", **begin, "hellos": []}, [GOAL])),
    ]
    told, draw = (), np.random.default_rng(0)
    for number in range(1, MOST_ROUNDS):
        reply = wire.unpack(site.answer(wire.pack("step", {"lesson": "l", "number": number}, told)))
        said.append((reply.header, [one.shape for one in reply.words]))
        if not reply.words:  # refused, or the script is over
            break
        told = (words(kind, reply.words[0].shape, draw),)
    return [*said, site.answer(wire.pack("finish", {"lesson": "l"}, told))]


@pytest.mark.parametrize("kind", ["any", "nothing", "large"])
@pytest.mark.parametrize(
    ("learner", "method"),
    [
        (LogisticRegression(), "match"),
        (LogisticRegression(), "dual"),
        (Ridge(), "match"),
        (PoissonRegressor(), "match"),
    ],
    ids=str,
)
def test_wrong_totals_do_not_make_answers_depend_on_rows(learner, method, kind, tmp_path):
    """The same lies told to teachers with other rows: the same refusals, the same sizes, up to the end."""
    draw = np.random.default_rng(1)
    y = draw.choice([-1, 1], ROWS) if isinstance(learner, LogisticRegression) else draw.poisson(1.0, ROWS) * 1.0
    first, *others = (talk(tmp_path / str(place), X, y, learner, method, kind) for place, X in enumerate(tables(draw)))
    assert len(first) > 12  # the lesson was not refused at its beginning
    assert all(other == first for other in others)
