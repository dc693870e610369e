"""Every simulated fault of the table ends as it says, and what is taught is right to the last bit."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from superteach.errors import BadReply, BudgetError, SettingError, SuperteachError, TeacherLost
from superteach.organisations.conductor import Order
from superteach.organisations.site.rows import Holding
from superteach.organisations.unfinished import Unfinished
from superteach.processes.patience import MOST, persevere
from superteach.queries import Census
from tests.inside import log_of
from tests.organisations.faults.line import Killed
from tests.organisations.faults.stage import TEACHERS, killed_at
from tests.organisations.faults.table import REAL, SIMULATED, Scenario


def message_of(scenario: Scenario, rounds: int) -> int:
    """At which message the fault strikes, drawn from the scenario's seed."""
    parts = {
        "hello": (1, 1),
        "agree": (2, 2),
        "early": (3, 6),
        "middle": (7, rounds - 7),
        "late": (rounds - 6, rounds),
    }
    low, high = parts.get(scenario.when, (rounds + 3, rounds + 3))
    return int(np.random.default_rng(scenario.seed).integers(low, high + 1))


def test_the_table_is_long_enough():
    """Names and seeds differ, so that no scenario stands there twice."""
    table = [*SIMULATED, *REAL]
    assert len({scenario.name for scenario in table}) == len(table) >= 20
    assert len({scenario.seed for scenario in table}) == len(table)
    assert len(REAL) >= 6


@pytest.mark.long(every=6)
@pytest.mark.parametrize("scenario", SIMULATED, ids=lambda scenario: scenario.name)
def test_a_fault_ends_as_stated(scenario, stage):
    """Each scenario ends in its stated way; the lesson is that of the teachers who remain, bit for bit."""
    scene = stage(scenario.seed, scenario.how)
    scene.order = replace(scene.order, on_loss=scenario.policy)
    message = message_of(scenario, scene.oracle(TEACHERS)[0].rounds)
    for place, part in enumerate(scenario.fault.split(", ")):
        if part != "torn":
            # After a drop the coordinator is killed in the second beginning, with some sums on its disk.
            later = 12 * (scenario.policy == "drop" and part == "coordinator") * place
            scene.line.plan(message + later, part, scenario.teachers)
    rest = [name for name in TEACHERS if name not in scenario.teachers]
    lesson, ended, end = None, None, scenario.end
    try:
        lesson = scene.play()
    except Killed:
        assert "coordinator" in scenario.fault
    except SuperteachError as error:
        ended = error
    if ended is not None:
        assert end == "error", ended
        assert re.search(scenario.says, str(ended)), ended
        if isinstance(ended, TeacherLost) and scenario.policy == "abort":
            mend = "its own log may say why" if isinstance(ended, BadReply) else "see that it is there again"
            assert re.search(rf"\(round \d+, [a-z -]+\); {mend}", str(ended))
    if end == "error":
        assert lesson is None
        assert not (scene.folder / "lesson.json").exists()
    if scenario.then is not None:
        lesson, end = resume(scene, scenario), scenario.then
    if end == "error":
        return
    stored = scene.check(
        lesson, TEACHERS if end == "whole" else rest, scenario.teachers * (scenario.fault == "full disk")
    )
    looked_at(scenario, stored)


def resume(scene, scenario):
    """Whatever broke is mended, and the same command comes again with --resume, as often as it must."""
    if "torn" in scenario.fault:
        (journal,) = scene.unfinished.glob("*.jsonl")
        journal.write_bytes(journal.read_bytes()[:-25])
    if scenario.then == "whole":
        for name in scenario.teachers:
            scene.line.restart(name)
    for _ in range(3):
        try:
            return scene.play(resume=True)
        except Killed:
            continue
    raise AssertionError("it cannot be killed more often than planned")


def looked_at(scenario, stored):
    """Who was lost, when and why stands in lesson.json."""
    told = stored["interruptions"]
    if scenario.fault == "slow":
        assert told == []
        return
    if scenario.fault == "full disk":
        faults = {entry["teacher"]: entry.get("fault") for entry in stored["files"]}
        assert faults.pop("south") == "the chosen rows could not be written: No space left on device"
        assert set(faults.values()) == {None}
        return
    if scenario.fault == "no log":
        assert "teacher south refuses" in told[0]["why"]
        return
    then = "dropped" if scenario.policy == "drop" else "resumed"
    if scenario.teachers:
        assert [facts["teacher"] for facts in told if facts["then"] == then][: len(scenario.teachers)] == sorted(
            scenario.teachers, key=TEACHERS.index
        )
    else:
        assert told[0]["teacher"] is None
    if scenario.end != "error" and scenario.says:
        assert scenario.says in told[0]["why"]
    assert all(facts["when"] and facts["then"] in ("dropped", "resumed") for facts in told)


@pytest.mark.long(every=4)
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"method": "random"}, "method was 'match' and is 'random'"),
        ({"random_state": 77}, "seed was 30 and is 77"),
        ({"goal_seed": 5}, "goal_seed was 30 and is 5"),
        ({"goal": [1.0, 2.0, 3.0, 0.0]}, "goal was None and is"),
        (
            {"teachers": ["north", "south"]},
            "the unfinished lesson is with north, south, west, east, this command with",
        ),
    ],
    ids=str,
)
def test_another_orders_journal_is_refused(change, says, stage):
    """The error says what differs, nothing is asked, and the journal stays for the command it belongs to."""
    scene = stage(30)
    killed_at(scene, 20)
    right = scene.order
    of_lesson = hasattr(right.settings, next(iter(change)))
    scene.order = replace(right, **({"settings": replace(right.settings, **change)} if of_lesson else change))
    with pytest.raises(SettingError, match=says):
        scene.play(resume=True)
    assert scene.line.messages == 0
    scene.order = right
    scene.check(scene.play(resume=True), TEACHERS)


def test_other_rows_are_refused(stage, site_of):
    """A teacher with one row less, and one with the same number of other rows."""
    scene = stage(31)
    killed_at(scene, 20)
    right = scene.line.sites["south"]
    X, y = scene.rows["south"]
    scene.line.sites["south"] = site_of("south", X[1:], y[1:])
    with pytest.raises(SettingError, match=r"had rows \[80, 80, 80, 80\], now it is \[80, 79, 80, 80\]"):
        scene.play(resume=True)
    scene.line.sites["south"] = site_of("south", X * 1.001, y)
    with pytest.raises(SettingError, match="teacher south's rows are not those of the unfinished lesson"):
        scene.play(resume=True)
    scene.line.sites["south"] = right
    scene.check(scene.play(resume=True), TEACHERS)


@pytest.mark.long(every=8)
@pytest.mark.parametrize("method", ["dual", "random", "match"])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_other_targets_for_the_same_rows_are_refused(method, part, stage, site_of):
    """Also where no question that is asked again would notice; nothing is asked, and the journal stays."""
    scene = stage(36, {"learner": "ridge", "method": method, "budget": 60})
    killed_at(scene, 2 + int(part * scene.oracle(TEACHERS)[0].rounds))
    right = scene.line.sites["south"]
    X, y = scene.rows["south"]
    for other in (np.roll(y, 7), y + 50.0 * (np.arange(len(y)) == 5)):
        scene.line.sites["south"] = site_of("south", X, other)
        with pytest.raises(SettingError, match="teacher south's rows are not those of the unfinished lesson"):
            scene.play(resume=True)
        assert scene.line.messages == 2, "hello and agreement"
    scene.line.sites["south"] = right
    scene.check(scene.play(resume=True), TEACHERS)


def test_a_teacher_that_computes_otherwise_than_before_ends_the_lesson(stage, site_of, monkeypatch):
    """The same rows by their seal, and other sums: as another version of a library could give them."""
    scene = stage(37)
    killed_at(scene, 20)
    right = scene.line.sites["south"]
    X, y = scene.rows["south"]
    scene.line.sites["south"] = site_of("south", X * 1.001, y)
    with monkeypatch.context() as same:
        whole, before = Holding.seal, right.holding
        same.setattr(Holding, "seal", lambda self, secret: whole(before if self.name == "south" else self, secret))
        with pytest.raises(SuperteachError, match="otherwise than before the lesson was broken off"):
            scene.play(resume=True)
    scene.line.sites["south"] = right
    scene.check(scene.play(resume=True), TEACHERS)


def test_nothing_to_resume_is_said(stage):
    """Without a journal --resume is an error, not a new lesson."""
    scene = stage(32)
    with pytest.raises(SettingError, match="no unfinished lesson to resume"):
        scene.play(resume=True)


def test_teachers_keep_a_record_of_what_is_asked_again(stage):
    """Questions that change nothing come from the journal; the others stand in the audit log a second time."""
    scene = stage(33)
    killed_at(scene, 30)
    lesson = scene.play(resume=True)
    log = log_of(scene.line.sites["south"].guard.audit)
    asked = [entry for entry in log if entry["kind"] == "ask"]
    first = {entry["number"] for entry in asked if entry["lesson"] == "lesson-1"}
    second = {entry["number"] for entry in asked if entry["lesson"] == "lesson-2"}
    again = lesson.interruptions[0]["asked_again"]
    assert len(first & second) == again > 0
    assert len(first) > again, "not every question came again"
    assert first | second == set(range(1, lesson.rounds + 1))
    assert [entry["lesson"] for entry in log if entry["kind"] == "hello"] == ["lesson-1", "lesson-2"]


def test_a_teacher_that_comes_and_goes_ends_the_lesson_at_last():
    """Waiting is bounded by a count too."""
    tries = []

    def attempt(resume):
        tries.append(resume)
        lost = TeacherLost("south", "it gave no answer to Census")
        lost.resumable = True
        raise lost

    with pytest.raises(TeacherLost, match="south is lost"):
        persevere(attempt, lambda lost, seconds: True, 1.0)
    assert tries == [False] + [True] * (MOST - 1)


def test_an_error_after_a_drop_names_the_loss(stage):
    """A budget that the rows of those who remain cannot fill."""
    scene = stage(35)
    settings = replace(scene.order.settings, budget=300)
    scene.order = replace(scene.order, on_loss="drop", settings=settings)
    scene.line.plan(20, "killed", ("south",))
    with pytest.raises(BudgetError, match="began anew without south, lost before, and then: "):
        scene.play()
    assert list(scene.unfinished.glob("*")) == []


def test_a_policy_that_is_not_known_is_refused():
    """Before anything is asked."""
    with pytest.raises(SettingError, match="on_loss='ignore' is not known; there are abort, drop, wait"):
        Order(["a"], "ridge", None, on_loss="ignore")


def test_two_lessons_do_not_share_a_journal(tmp_path):
    """The same command while the first is under way takes the place over, and the first spoils nothing there."""
    place = Unfinished(tmp_path, {"method": "match"})
    first = place.begin({"lesson": "first", "teachers": ["a", "b"]}, [])
    first.keep(1, Census(), np.array([5.0, 2.0]))
    second = place.begin({"lesson": "second", "teachers": ["a"]}, [])
    with pytest.raises(SuperteachError, match="has begun since and took this one's journal"):
        first.keep(2, Census(), np.array([5.0, 2.0]))
    first.interrupt({"why": "late"})
    second.keep(1, Census(), np.array([3.0, 1.0]))
    first.remove()
    assert second.there
    again = place.go_on(place.find(), {"teachers": ["a"]})
    assert again.sum_of(1, Census()).tolist() == [3.0, 1.0]
    assert (again.last, again.interruptions) == (1, [])
    assert place.path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(SuperteachError, match="has begun since and took this one's journal"):
        second.keep(2, Census(), np.array([3.0, 1.0]))
    second.remove()
    again.keep(2, Census(), np.array([3.0, 1.0]))
    assert place.go_on(place.find(), {"teachers": ["a"]}).last == 2
    assert [path.name for path in tmp_path.iterdir()] == [place.path.name]


def test_an_asynchronous_lesson_keeps_no_journal(stage):
    """Its sums depend on who was faster: it is taught beside a folder of unfinished lessons, and resuming is refused."""
    scene = stage(5, {"method": "dual", "solver": "block(staleness=3)", "intercept": False, "budget": 60})
    lesson = scene.play()
    assert lesson.size == 60
    assert any(entry.teacher for entry in lesson.ledger), "somebody was asked alone"
    assert not scene.unfinished.exists() or list(scene.unfinished.glob("*")) == []
    with pytest.raises(SettingError, match="asynchronous lessons cannot be resumed"):
        scene.play(resume=True)
