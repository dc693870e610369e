"""Versions that work together, and the sentence for those that do not."""

from __future__ import annotations

import pytest

from superteach.errors import QueryRefused, SettingError
from superteach.line import wire
from superteach.losses import Logistic
from superteach.mathematics.learner import Learner
from superteach.organisations import agreement
from superteach.organisations.unfinished import Unfinished
from superteach.versions import VERSION, misfit


@pytest.mark.parametrize(("one", "two"), [("0.1.0", "0.1.9"), ("1.2.3", "1.2"), (VERSION, VERSION)])
def test_the_first_two_numbers_decide(one, two):
    assert misfit("a", one, "b", two) is None


def test_the_sentence_has_both_versions_and_what_is_right():
    assert misfit("the server", "0.2.1", "teacher a", "0.1.9") == (
        "the server has superteach 0.2.1, teacher a 0.1.9: versions work together whose first two numbers are the same "
        "(0.2.x with 0.2.y); install one of them on both sides"
    )


def test_a_site_refuses_a_coordinator_of_another_version(pool, site_of):
    site = site_of("a", *pool("logistic", 20, 3, 0))
    for version in ("9.9.0", None):
        hello = {"lesson": "l", "loss": "logistic", "promise": "open", "version": version}
        reply = wire.read_reply(site.answer(wire.pack("hello", hello)))
        assert reply.status == "refused"
        assert f"teacher a has superteach {VERSION}, the coordinator {version}" in reply.reason


def test_a_coordinator_refuses_a_teacher_of_another_version():
    class Old:
        def ask(self, requests, seconds):
            return {name: wire.pack_facts({"version": "9.9.0"}) for name in requests}

    with pytest.raises(QueryRefused, match=rf"the coordinator has superteach {VERSION}, teacher a 9\.9\.0"):
        agreement.agree(Old(), "l", ["a"], Learner(Logistic()))


def test_a_journal_of_another_version_is_not_taken_up(tmp_path):
    place = Unfinished(tmp_path, {"method": "dual"})
    place.begin({"teachers": ["a"]}, []).interrupt({"why": "x"})
    head = place.find()
    assert head["version"] == VERSION
    with pytest.raises(SettingError, match=r"begun by 9\.9\.0: versions work together"):
        place.go_on({**head, "version": "9.9.0"}, {"teachers": ["a"]})
