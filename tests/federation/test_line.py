"""The line over NVFlare's messages, with an engine that loses some of them."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import make_reply

from superteach.nvflare import FIELD, server


class Engine:
    """Answers with what it was sent; teachers in `dead` never answer, the first messages to `deaf` get lost."""

    def __init__(self, dead=(), deaf=None):
        self.dead, self.deaf = set(dead), dict(deaf or {})
        self.sent: list[tuple[str, bytes]] = []

    def send_aux_request(self, targets, topic, request, timeout, fl_ctx, optional):
        (name,) = targets
        self.sent.append((name, request[FIELD]))
        if name in self.dead:
            return {name: make_reply(ReturnCode.TIMEOUT)}
        if self.deaf.get(name, 0):
            self.deaf[name] -= 1
            return {name: make_reply(ReturnCode.TIMEOUT)}
        reply = make_reply(ReturnCode.OK)
        reply[FIELD] = request[FIELD]
        return {name: reply}

    def get_clients(self):
        return [SimpleNamespace(name=name) for name in ("a", "b")]


@pytest.fixture
def line_of(monkeypatch):
    monkeypatch.setattr(server, "HEARTBEAT", 0.01)

    def make(engine):
        return server.AuxLine(engine, None, SimpleNamespace(triggered=False))

    return make


def test_a_message_that_was_lost_on_the_way_is_sent_again(line_of):
    """A teacher that is there again answers, and nobody is counted as lost."""
    engine = Engine(deaf={"b": 3})
    assert line_of(engine).ask({"a": b"x", "b": b"y"}, 600.0) == {"a": b"x", "b": b"y"}
    assert engine.sent.count(("a", b"x")) == 1
    assert engine.sent.count(("b", b"y")) == 2, "lost once, and sent again when it answered a look"


def test_a_dead_teacher_costs_its_time_once(line_of):
    """It is looked for a few times in the round in which it is lost, and never asked again."""
    engine = Engine(dead=["b"])
    line = line_of(engine)
    assert line.ask({"a": b"x", "b": b"y"}, 600.0) == {"a": b"x"}
    looks = [data for name, data in engine.sent if name == "b"]
    assert looks == [b"y", *[b""] * (server.LIVES - 1)]
    for number in range(3):
        assert line.ask({"a": b"%d" % number, "b": b"z"}, 600.0) == {"a": b"%d" % number}
    assert [data for name, data in engine.sent if name == "b"] == looks


def test_a_teacher_at_work_is_not_lost_before_its_time_is_up(line_of):
    """It answers looks while it works; with its time its turn ends."""
    engine = Engine()
    at_work = threading.Event()
    answer = engine.send_aux_request

    def slow(targets, topic, request, timeout, fl_ctx, optional):
        if targets == ["b"] and request[FIELD]:
            at_work.wait(30)
        return answer(targets, topic, request, timeout, fl_ctx, optional)

    engine.send_aux_request = slow
    line = line_of(engine)
    assert line.ask({"a": b"x", "b": b"y"}, 0.3) == {"a": b"x"}
    assert len([data for name, data in engine.sent if (name, data) == ("b", b"")]) > server.LIVES
    at_work.set()


def test_who_did_not_take_the_lesson_on_is_not_waited_for(line_of):
    """With --on-loss drop a teacher that is no part of the job is lost at once; so is one that never comes up."""
    line = line_of(Engine(dead=["b"]))
    line.wait_for(["a", "b", "c"], 0.3, drop=True)
    assert line.ask({"a": b"x", "b": b"y", "c": b"z"}, 600.0) == {"a": b"x"}
    with pytest.raises(server.TeacherLost, match="teacher b is lost: its process for this lesson is not up"):
        line_of(Engine(dead=["b"])).wait_for(["a", "b"], 0.3)
