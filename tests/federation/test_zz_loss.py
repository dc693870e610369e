"""Last, because it ends them for good: a teacher killed in the middle of a lesson, and all others by Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import time


def test_a_killed_teacher_ends_the_lesson_soon_and_by_name(town, tmp_path):
    """The coordinator hears who is lost within seconds, not after the time an answer may take."""
    out = tmp_path / "lesson"
    before = len(town.audit("south"))
    command = (
        f"{sys.executable} -m superteach teach --federation {town.folder} --teachers north,south --learner logistic "
        f"--goal perturbed --method dual --solver block --no-intercept --budget 90 --out {out}"
    )
    lesson = subprocess.Popen(command.split(), stderr=subprocess.PIPE, text=True)
    town.wait(lambda: len(town.audit("south")) > before + 20, 120, "the twentieth round")
    started = time.monotonic()
    town.stop("south")
    _, said = lesson.communicate(timeout=200)
    assert lesson.returncode == 1
    assert "teacher south is lost: it gave no answer to BlockRound" in said
    assert time.monotonic() - started < 150
    assert not out.exists()


def test_control_c_ends_a_teacher_and_the_server(town):
    """Both stop at once, and say so."""
    for name in ("north", "server"):
        (process,) = town.processes(name)
        process.send_signal(signal.SIGINT)
        town.wait(lambda name=name: not town.alive(name), 20, f"the end of {name}")
        assert town.said(name).endswith("stopped\n")
