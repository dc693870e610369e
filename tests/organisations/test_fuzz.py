"""Whatever bytes come: a reply, a line in the audit log, and no more memory."""

from __future__ import annotations

import json
import logging

import numpy as np
import psutil
import pytest

from superteach.line import wire
from superteach.losses import Logistic
from superteach.organisations.site import MOST_LESSONS
from superteach.queries import AskMoments, Draw, Prepare, Show
from superteach.versions import VERSION
from tests.inside import log_of
from tests.organisations.fuzz import pelt


@pytest.fixture
def quiet():
    """A site that does not log: pytest would keep every line."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_bent_messages_are_answered_every_one(quiet, pool, site_of):
    """Some thousands here; a hundred thousand in tests/federation/test_fuzz.py."""
    counts = pelt(site_of("a", *pool("logistic", 40, 3, 0)), 4000, seed=1)
    assert sum(counts.values()) == 4000
    assert min(counts["ok"], counts["refused"]) > 200


@pytest.mark.parametrize("data", [None, "text", b"", 7, b"STW1" + b"\xff" * 9], ids=repr)
def test_what_is_no_message_is_refused(data, pool, site_of):
    site = site_of("a", *pool("logistic", 20, 3, 0))
    assert wire.read_reply(site.answer(data)).status == "refused"
    assert log_of(site.guard.audit)[-1]["verdict"].startswith("refused")


def test_half_a_character_and_numbers_without_end_are_refused(pool, site_of):
    """JSON can spell both; neither can be written down or worked with."""
    site = site_of("a", *pool("logistic", 20, 3, 0))
    for header in (
        {"kind": "hello", "lesson": "\ud800", "loss": "logistic", "promise": "open", "arrays": []},
        {"kind": "hello", "lesson": "a", "loss": "\udfff", "promise": "open", "arrays": []},
    ):
        text = json.dumps(header).encode()
        reply = wire.read_reply(site.answer(wire.MAGIC + len(text).to_bytes(4, "little") + text))
        assert (reply.status, "not the JSON" in reply.reason) == ("refused", True)
    text = b'{"kind":"step","lesson":"a","number":1e999,"arrays":[]}'
    assert wire.read_reply(site.answer(wire.MAGIC + len(text).to_bytes(4, "little") + text)).status == "refused"
    assert len(log_of(site.guard.audit)) == 3


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (AskMoments("loss", "all", np.zeros(4), 1), r"point has shape \(4,\), \(3,\) is right"),
        (AskMoments("reach", "all", np.zeros(3), 1), r"point has shape \(3,\), \(4,\) is right"),
        (AskMoments("loss", "all", np.array([0.0, np.nan, 1.0]), 1), "point holds nan, and numbers are finite"),
        (AskMoments("loss", "all", np.full(3, np.inf), 1), "point holds inf"),
        (Prepare(Logistic(), 0.0, np.zeros(2)), "centre has shape"),
        (Draw(np.zeros(5), 0.1, 0), "odds has shape"),
        (Show((20,), 60_000), "width is for 60000, 3 is right"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_before_anything_is_computed(query, reason, pool, site_of):
    site = site_of("a", *pool("logistic", 20, 3, 0))
    hello = {"lesson": "l", "loss": "logistic", "promise": "open", "version": VERSION}
    settled = {"lesson": "l", "loss": "logistic", "columns": ["x0", "x1", "x2"], "classes": [-1.0, 1.0]}
    site.answer(wire.pack("hello", hello))
    site.answer(wire.pack("agree", {**settled, "position": 0, "teachers": 1, "first_id": 0}))
    site.answer(wire.pack_question("l", 1, Prepare(Logistic(), 0.0)))
    reply = wire.read_reply(site.answer(wire.pack_question("l", 2, query)))
    assert reply.status == "refused"
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(reply.reason)


@pytest.mark.parametrize("kind", ["hello", "agree", "finish"])
def test_a_field_that_is_not_declared_is_refused(kind, pool, site_of):
    site = site_of("a", *pool("logistic", 20, 3, 0))
    reply = wire.read_reply(site.answer(wire.pack(kind, {"lesson": "l", "code": "import os"})))
    assert (reply.status, "'code' does not fit" in reply.reason) == ("refused", True)


@pytest.mark.slow
def test_twenty_thousand_hellos_are_not_remembered(quiet, pool, site_of):
    """Lessons beyond the limit are refused, and of those within it only the last one holds rows."""
    site = site_of("a", *pool("logistic", 20, 3, 0))

    def hello(number: int) -> str:
        told = {"lesson": f"lesson {number}", "loss": "logistic", "promise": "open", "version": VERSION}
        return wire.read_reply(site.answer(wire.pack("hello", told))).status

    assert [hello(number) for number in range(MOST_LESSONS)] == ["ok"] * MOST_LESSONS
    before = psutil.Process().memory_info().rss
    assert {hello(number) for number in range(MOST_LESSONS, 20_000)} == {"refused"}
    assert psutil.Process().memory_info().rss - before < 10e6
