"""After a drop: what the first beginning has shown, and lessons that cannot go on with so few."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from superteach.cli import screen
from superteach.cli.report import page_of_stored
from superteach.errors import SettingError, TeacherLost
from superteach.organisations.conductor import Order
from tests.inside import log_of
from tests.organisations.faults.line import Killed
from tests.organisations.faults.stage import TEACHERS, killed_at

REST = [name for name in TEACHERS if name != "south"]


def test_what_the_first_beginning_has_shown_is_counted(stage, capsys):
    """Rounds and bytes agree with the audit log of a teacher, and report and screen say them."""
    scene = stage(50)
    scene.order = replace(scene.order, on_loss="drop")
    scene.line.plan(scene.oracle(TEACHERS)[0].rounds + 3, "killed", ("south",))
    lesson = scene.play()
    stored = scene.check(lesson, REST)
    site = scene.line.sites["north"]
    answered = [entry for entry in log_of(site.guard.audit) if entry["kind"] == "ask"]
    before = lesson.abandoned
    assert before["rounds"] == lesson.interruptions[0]["rounds"] == stored["interruptions"][0]["rounds"] > 0
    assert lesson.rounds + before["rounds"] == len(answered)
    assert f"{stored['lesson']}.csv" in [path.name for path in site.guard.policy.folder.iterdir()]
    text = re.sub(r"<[^>]+>", "", page_of_stored(stored, lesson).html())
    told = f"the same {lesson.rounds} queries, and {before['rounds']} before the lesson began anew, with sums"
    assert told in re.sub(r"\s+", " ", text)
    screen.result(lesson, [entry["rows"] for entry in stored["files"]])
    assert f", and {before['rounds']} rounds before the lesson began anew" in capsys.readouterr().out


def test_a_round_that_was_broken_off_is_counted_too(stage):
    """Those who were not lost have answered it."""
    scene = stage(51)
    scene.order = replace(scene.order, on_loss="drop")
    scene.line.plan(20, "killed", ("south",))
    lesson = scene.play()
    assert lesson.abandoned["rounds"] == lesson.interruptions[0]["round"] == 18
    log = [entry for entry in log_of(scene.line.sites["north"].guard.audit) if entry["kind"] == "ask"]
    assert len([entry for entry in log if entry["lesson"] == "lesson-1"]) == 18


def test_too_few_teachers_can_be_resumed(stage):
    """The error says so, and with all of them there again the lesson is the undisturbed one."""
    scene = stage(52)
    scene.order = replace(scene.order, on_loss="drop", least_teachers=3)
    scene.line.plan(20, "killed", ("south", "east"))
    with pytest.raises(TeacherLost, match=r"the 3 of --least-teachers; .* with --resume to go on") as ended:
        scene.play()
    assert ended.value.resumable
    for name in ("south", "east"):
        scene.line.restart(name)
    scene.check(scene.play(resume=True), TEACHERS)


def test_more_teachers_than_there_are_is_an_error_at_once():
    """Not after the first loss."""
    with pytest.raises(SettingError, match=r"--least-teachers 5 is more than the teachers of this lesson \(a, b\)"):
        Order(["a", "b"], "ridge", None, on_loss="drop", least_teachers=5)


@pytest.mark.parametrize("policy", ["drop", "abort"])
def test_a_teacher_that_is_away_when_a_lesson_is_resumed_costs_no_journal(policy, stage):
    """The error says that the journal stays, and it does."""
    scene = stage(53)
    killed_at(scene, 20)
    before = next(scene.unfinished.iterdir()).read_text()
    scene.order = replace(scene.order, on_loss=policy)
    scene.line.plan(1, "killed", ("south",))
    with pytest.raises(TeacherLost, match="with --resume") as ended:
        scene.play(resume=True)
    assert ended.value.resumable
    if policy == "drop":
        assert "its journal stays: see that south is there" in str(ended.value)
    assert next(scene.unfinished.iterdir()).read_text() == before
    scene.line.restart("south")
    scene.check(scene.play(resume=True), TEACHERS)


def test_a_beginning_after_a_drop_can_be_resumed(stage):
    """The journal knows who was dropped."""
    scene = stage(54)
    scene.order = replace(scene.order, on_loss="drop")
    scene.line.plan(20, "killed", ("south",))
    scene.line.plan(40, "coordinator", ())
    with pytest.raises(Killed):
        scene.play()
    head = json.loads(next(scene.unfinished.iterdir()).read_text().splitlines()[0])["settings"]
    assert head["teachers"] == REST
    scene.check(scene.play(resume=True), REST)
