"""What teachers and the server turn down: code, other classes, lessons outside a policy, strangers."""

from __future__ import annotations

import pytest

from superteach.errors import TeachingError
from superteach.organisations.conductor import Order
from superteach.organisations.nvflare.session import write_job
from superteach.settings import Settings
from tests.federation.rows import TEACHERS

SETTINGS = {"learner": "logistic", "goal": None, "settings": Settings(budget=90, rounding="alone")}


def hand_in(town, job):
    """Submit a job and fetch it, as `superteach teach` does."""
    with town.desk() as desk:
        lesson = desk.submit_folder(job)
        meta = desk.follow(lesson)
        return desk.fetch(lesson, meta, town.home / "fetched")


def test_a_job_that_ships_code_is_refused(town, tmp_path):
    """Every teacher refuses it although the server lets it through, and the coordinator hears why."""
    job = tmp_path / "lesson"
    write_job(job, Order(teachers=list(TEACHERS), **SETTINGS))
    mark = tmp_path / "the-code-ran"
    (job / "teacher" / "custom").mkdir()
    (job / "teacher" / "custom" / "gift.py").write_text(f"open({str(mark)!r}, 'w')\n")
    with pytest.raises(TeachingError, match="not taken on") as caught:
        hand_in(town, job)
    for name in TEACHERS:
        assert f"{name}: BYOC not permitted" in str(caught.value)
        assert list(town.kit(name).rglob("gift.py")) == []
    assert not mark.exists()


def test_a_lesson_that_a_teacher_does_not_take_is_refused_on_both_sides(town, tmp_path):
    """The error names teacher and reason, west's audit log has it, and nothing was spent."""
    out, goal = tmp_path / "lesson", tmp_path / "goal.json"
    goal.write_text("[0.8, -0.5, 0.3, 0.2, 0.1]")
    run = town.run(
        *("teach", "--federation", str(town.folder), "--out", str(out), "--learner", "logistic", "--goal", str(goal)),
        *("--budget", "90", "--epsilon", "0.1", "--colluders", "0"),
    )
    assert run.returncode == 1
    assert "teacher north refuses to begin: --colluders 0 is less than a third of 3 teachers" in run.stderr
    assert not out.exists()
    refused = [entry for entry in town.audit("west") if entry["verdict"].startswith("refused")]
    assert refused[-1]["kind"] == "begin"
    assert refused[-1]["verdict"].startswith("refused: colluders=0 is less than a third")


def test_a_coordinator_reads_no_file_of_a_teacher(town):
    """The administrator's shell commands and the remote shut-down are closed at every teacher."""
    with town.desk() as desk:
        for name in TEACHERS:
            for verb, arguments in (
                ("cat_target", {"file": "local/superteach.json"}),
                ("ls_target", {}),
                ("grep_target", {"pattern": "x", "file": "log.txt"}),
            ):
                with pytest.raises(Exception, match=r"(?i)not authorized|authoriz|permission"):
                    getattr(desk._session, verb)(name, **arguments)


def test_teachers_open_no_port_to_others(town):
    """All that listens belongs to the server's one port, or to a process talking to its own child on loopback."""
    for name in ("server", *TEACHERS):
        for process in town.processes(name):
            for connection in process.net_connections(kind="inet"):
                if connection.status == "LISTEN":
                    assert connection.laddr.ip.removeprefix("::ffff:") == "127.0.0.1"
                    if name != "server":
                        assert connection.laddr.port != town.project.port


def test_a_job_that_names_another_class_is_refused(town, tmp_path):
    """A class that is installed at the teacher but not this package's own is not built there."""
    job = tmp_path / "lesson"
    write_job(job, Order(teachers=["north"], arrival=25.0, **SETTINGS))
    config = job / "teacher" / "config" / "config_fed_client.json"
    config.write_text(
        config.read_text().replace(
            "superteach.organisations.nvflare.client.TeacherExecutor",
            "nvflare.app_common.np.np_trainer.NPTrainer",
        )
    )
    with pytest.raises(TeachingError, match=r"is lost|too few teachers"):
        hand_in(town, job)
    logs = [path.read_text() for path in town.kit("north").glob("*/log.txt")]
    assert any("'nvflare.app_common.np.np_trainer.NPTrainer'" in log and "is not in allow_list" in log for log in logs)
