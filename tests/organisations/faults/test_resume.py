"""Journals on the coordinator's disk: whose they are, what they may be resumed with, and what a full disk does."""

from __future__ import annotations

import os
import threading
from dataclasses import replace

import pytest

from superteach.errors import SuperteachError
from superteach.line import wire
from tests.organisations.faults.line import FaultyLine, Killed
from tests.organisations.faults.stage import TEACHERS, killed_at

WAIT = 60.0


class Pausing(FaultyLine):
    """Stops before the message it is told of, until somebody lets it go on."""

    pause_at = ("finish", 0)

    def __init__(self, sites):
        super().__init__(sites)
        self.there, self.go_on = threading.Event(), threading.Event()

    def ask(self, requests, seconds):
        message = wire.unpack(next(iter(requests.values())))
        kind, number = self.pause_at
        if message.kind == kind and message.header.get("number", 0) >= number and not self.there.is_set():
            self.there.set()
            assert self.go_on.wait(WAIT)
        return super().ask(requests, seconds)


def another(scene, line):
    """The same command at the same coordinator's, with processes of the teachers' of its own."""
    other = type(scene).__new__(type(scene))
    vars(other).update(vars(scene) | {"line": line, "runs": 10})
    return other


@pytest.mark.parametrize("resume", [False, True], ids=["anew", "resumed"])
def test_a_finishing_lesson_leaves_anothers_journal_alone(resume, stage):
    """The first run ends while the second, of the same command, is under way; the second is killed and goes on."""
    scene = stage(60)
    first = another(scene, Pausing(scene.line.sites))
    ended = []
    thread = threading.Thread(target=lambda: ended.append(first.play()))
    thread.start()
    assert first.line.there.wait(WAIT)
    second = another(scene, Pausing(scene.line.sites))
    second.line.pause_at = ("ask", 5 if not resume else 1)

    def play():
        try:
            second.play(resume)
        except Killed:
            ended.append("killed")

    second.line.plan(25 if not resume else 4, "coordinator", ())
    other = threading.Thread(target=play)
    other.start()
    assert second.line.there.wait(WAIT)
    first.line.go_on.set()
    thread.join(WAIT)
    second.line.go_on.set()
    other.join(WAIT)
    assert abs(ended[0].size - 60) <= 2, "four teachers who round alone, each by half a row at most"
    assert ended[1] == "killed"
    assert [path.suffix for path in scene.unfinished.iterdir()] == [".jsonl"]
    scene.runs = 20
    scene.check(scene.play(resume=True), TEACHERS)


def test_a_lesson_whose_journal_has_vanished_is_finished_without_one(stage):
    """It could not be resumed, but nothing forbids to finish it."""
    scene = stage(61)
    line = Pausing(scene.line.sites)
    line.pause_at = ("ask", 12)
    second = another(scene, line)
    ended = []
    thread = threading.Thread(target=lambda: ended.append(second.play()))
    thread.start()
    assert line.there.wait(WAIT)
    for path in scene.unfinished.iterdir():
        path.unlink()
    line.go_on.set()
    thread.join(WAIT)
    second.check(ended[0], TEACHERS)


def test_a_note_that_cannot_be_written_does_not_undo_a_drop(stage, monkeypatch):
    """The disk of the coordinator is full just when a teacher is lost: the others go on all the same."""
    scene = stage(62)
    scene.order = replace(scene.order, on_loss="drop")
    scene.line.plan(20, "killed", ("south",))
    write, refused = os.write, []

    def full(handle, data):
        if b'"interruption"' in bytes(data):
            refused.append(1)
            raise OSError(28, "No space left on device")
        return write(handle, data)

    monkeypatch.setattr("superteach.processes.records.os.write", full)
    scene.check(scene.play(), [name for name in TEACHERS if name != "south"])
    assert refused


def test_a_full_disk_ends_a_lesson_that_can_be_resumed(stage, monkeypatch):
    """Half of a line is written when the disk is full; with room again the lesson goes on from the line before."""
    scene = stage(63)
    write, torn = os.write, []

    def full(handle, data):
        if torn:
            raise OSError(28, "No space left on device")
        if b'"cell": {"round": 14}' in bytes(data):
            torn.append(1)
            return write(handle, data[:30])
        return write(handle, data)

    with monkeypatch.context() as scarce:
        scarce.setattr("superteach.processes.records.os.write", full)
        with pytest.raises(SuperteachError, match="cannot write: No space left on device"):
            scene.play()
    scene.check(scene.play(resume=True), TEACHERS)


def test_a_journal_is_for_its_owners_eyes(stage):
    """Also after it was taken over."""
    scene = stage(64)
    killed_at(scene, 20)
    (journal,) = scene.unfinished.iterdir()
    assert journal.stat().st_mode & 0o777 == 0o600
    scene.line.plan(5, "coordinator", ())
    with pytest.raises(Killed):
        scene.play(resume=True)
    assert journal.stat().st_mode & 0o777 == 0o600
    scene.check(scene.play(resume=True), TEACHERS)
