"""Last, because it ends a teacher for good: one that is killed in the middle of a lesson."""

from __future__ import annotations

import subprocess
import sys
import time


def test_a_killed_teacher_ends_the_lesson_soon_and_by_name(town, tmp_path):
    """The coordinator hears who is lost within seconds, not after the time an answer may take."""
    out = tmp_path / "lesson"
    before = len(town.audit("south"))
    options = [
        "--learner",
        "logistic",
        "--goal",
        "perturbed",
        "--solver",
        "block",
        "--no-intercept",
        "--budget",
        "90",
    ]
    lesson = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "superteach",
            "teach",
            "--federation",
            str(town.folder),
            "--teachers",
            "north,south",
        ]
        + [*options, "--out", str(out)],
        stderr=subprocess.PIPE,
        text=True,
    )
    town.wait(lambda: len(town.audit("south")) > before + 20, 120, "the twentieth round")
    started = time.monotonic()
    town.stop("south")
    _, said = lesson.communicate(timeout=200)
    assert lesson.returncode == 1
    assert "teacher south is lost: it gave no answer to BlockRound" in said
    assert time.monotonic() - started < 150
    assert not out.exists()
