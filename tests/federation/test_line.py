"""The line over NVFlare's messages, with an engine that loses some of them."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import make_reply

from superteach.organisations.nvflare import FIELD, server
from superteach.organisations.nvflare.client import TeacherExecutor


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


def test_an_answer_that_was_swallowed_is_asked_for_again(line_of):
    """The teacher is there at every look, but its answer got lost: it is sent the same message, not too often."""
    engine, never = Engine(), threading.Event()
    answer = engine.send_aux_request

    def swallow(targets, topic, request, timeout, fl_ctx, optional):
        if request[FIELD] and engine.sent.count(("b", b"y")) < 2:
            engine.sent.append(("b", b"y"))
            never.wait(30)
            return {}
        return answer(targets, topic, request, timeout, fl_ctx, optional)

    engine.send_aux_request = swallow
    assert line_of(engine).ask({"b": b"y"}, 20.0) == {"b": b"y"}
    never.set()
    looks = [data for _, data in engine.sent]
    assert looks.count(b"y") == 3
    assert looks.index(b"y", looks.index(b"y") + 1) == 1 + server.AT_WORK
    assert looks.count(b"") >= server.AT_WORK + 2 * server.AT_WORK, "whoever is at work is not pestered"


def test_a_message_that_cannot_be_sent_is_sent_again(line_of):
    """An accident of the transport is a lost message, no more; so is one of a look."""
    engine, accidents = Engine(), [b"y", b""]
    answer = engine.send_aux_request

    def stumble(targets, topic, request, timeout, fl_ctx, optional):
        if request[FIELD] in accidents:
            accidents.remove(request[FIELD])
            raise RuntimeError("no cell")
        return answer(targets, topic, request, timeout, fl_ctx, optional)

    engine.send_aux_request = stumble
    assert line_of(engine).ask({"b": b"y"}, 20.0) == {"b": b"y"}
    assert accidents == []


@pytest.mark.parametrize("seconds", [600.0, 0.2], ids=["the last look", "the end of its time"])
def test_an_answer_that_comes_during_a_look_counts(seconds, line_of):
    """The look that would have been a teacher's last takes its time, and the answer arrives meanwhile."""
    looks, arrived = [], threading.Event()

    def hesitant(targets, topic, request, timeout, fl_ctx, optional):
        reply = make_reply(ReturnCode.OK)
        reply[FIELD] = request[FIELD]
        if request[FIELD]:
            arrived.wait(30)
            return {"b": reply}
        looks.append(1)
        if len(looks) == server.LIVES or seconds < 1.0:
            arrived.set()
            threading.Event().wait(2 * min(seconds, 0.2))
        return {"b": make_reply(ReturnCode.TIMEOUT)}

    engine = SimpleNamespace(send_aux_request=hesitant)
    assert line_of(engine).ask({"b": b"y"}, seconds) == {"b": b"y"}


def test_a_message_sent_again_opens_the_rows_once():
    """The first message of a lesson reads the rows, which may take longer than the patience of the line."""
    opened, reading = [], threading.Event()

    def read():
        opened.append(1)
        reading.wait(0.2)
        return SimpleNamespace(answer=lambda data: data)

    teacher = TeacherExecutor()
    teacher._open = read
    threads = [threading.Thread(target=teacher._bytes, args=(b"hello", None)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert opened == [1]


def test_who_did_not_take_the_lesson_on_is_not_waited_for(line_of):
    """With --on-loss drop a teacher that is no part of the job is lost at once; so is one that never comes up."""
    line = line_of(Engine(dead=["b"]))
    line.wait_for(["a", "b", "c"], 0.3, drop=True)
    assert line.ask({"a": b"x", "b": b"y", "c": b"z"}, 600.0) == {"a": b"x"}
    with pytest.raises(server.TeacherLost, match="teacher b is lost: its process for this lesson is not up"):
        line_of(Engine(dead=["b"])).wait_for(["a", "b"], 0.3)
