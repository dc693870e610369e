"""The coordinator's desk over a session that fails in a stated way: no server, no NVFlare."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from superteach.errors import BudgetError, TeacherLost, TeachingError
from superteach.organisations.nvflare import session
from superteach.organisations.nvflare.session import Desk

REFUSED = {
    "status": "FINISHED:EXECUTION_EXCEPTION",
    "job_deploy_detail": ["server: OK", "north: OK", "west: unavailable"],
}


def desk_of(**calls) -> Desk:
    return Desk(SimpleNamespace(**calls), None)


@pytest.fixture
def left(tmp_path):
    """What a lesson left at the server: a folder to fetch."""
    (tmp_path / "workspace" / "superteach").mkdir(parents=True)
    return tmp_path


def test_the_lessons_own_error_comes_before_who_did_not_take_it_on(left):
    """After a drop the lesson went on without the one that was not there, and ended for another reason."""
    error = {"kind": "BudgetError", "error": "the lesson began anew without west, and then: 900 > 500 rows"}
    (left / "workspace" / "superteach" / "error.json").write_text(json.dumps(error))
    desk = desk_of(download_job_result=lambda *_: str(left))
    with pytest.raises(BudgetError, match="900 > 500 rows"):
        desk.fetch("one", REFUSED, left)


def test_who_did_not_take_it_on_is_named_where_the_lesson_says_nothing(left):
    """Whether there is an empty result to fetch or none."""

    def nothing(*_):
        raise RuntimeError("no such job")

    for download in (lambda *_: str(left), nothing):
        with pytest.raises(TeachingError, match="the lesson was not taken on: west: unavailable"):
            desk_of(download_job_result=download).fetch("one", REFUSED, left)
    with pytest.raises(TeachingError, match=r"ended as FINISHED:ABORTED, and .* not be fetched: no such job"):
        desk_of(download_job_result=nothing).fetch("one", {"status": "FINISHED:ABORTED"}, left)


def test_a_server_that_is_busy_is_asked_again_for_a_lost_teacher(monkeypatch):
    """Its silence is no error of the lesson, and no sign of the teacher."""
    monkeypatch.setattr(session, "POLL", 0.001)
    lost, calls = TeacherLost("a", "x"), []

    def info():
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("server busy")
        return SimpleNamespace(client_info=[SimpleNamespace(name="a", last_connect_time=lost.when + 1.0)])

    assert desk_of(get_system_info=info).comes_back(lost, 60.0)

    def gone():
        raise ConnectionError("server gone")

    assert not desk_of(get_system_info=gone).comes_back(lost, 0.01)
