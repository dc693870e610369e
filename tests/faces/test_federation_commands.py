"""The federation's commands before any process starts: what is missing or does not fit is said in one line."""

from __future__ import annotations

import subprocess
import sys
from contextlib import chdir, nullcontext
from types import SimpleNamespace

import pytest

from superteach.cli import app
from superteach.cli.folder import claim
from superteach.errors import MissingExtra, SettingError
from superteach.organisations import nvflare

WHEN = "2026-11-18T00:31:36.775001+01:00"


def run(capsys, *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        app(list(arguments))
    return int(ended.value.code or 0), capsys.readouterr().err


@pytest.fixture
def without(monkeypatch):
    """A Python without NVFlare."""
    monkeypatch.setattr(nvflare, "find_spec", lambda name: None)


def test_a_missing_extra_names_its_command(without):
    """The error holds what to type."""
    with pytest.raises(MissingExtra, match=r"pip install 'superteach\[nvflare\]'"):
        nvflare.require()


@pytest.mark.parametrize(
    "command",
    [
        ["federation", "init", "new", "--teacher", "a"],
        ["serve", "home"],
        ["join", "kit", "--data", "rows.csv", "--target", "y"],
        ["status", "home"],
        [
            "teach",
            "--federation",
            "home",
            "--learner",
            "ridge",
            "--goal",
            "perturbed",
            "--promise",
            "open",
            "--out",
            "out",
        ],
    ],
    ids=lambda command: command[0],
)
def test_every_command_says_so(command, without, capsys, tmp_path):
    """One line on stderr, status 1, nothing written."""
    with chdir(tmp_path):
        status, said = run(capsys, *command)
    assert status == 1
    assert "needs NVFlare, which is not installed" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([], "name the teachers' files and the --target column, or a --federation"),
        (["a.csv"], "--target column"),
        (["a.csv", "--federation", "home"], "takes no files"),
        (["--federation", "home", "--target", "y"], "takes no files"),
        (["a.csv", "--target", "y", "--teachers", "a,b"], "--teachers goes with --federation"),
        (["a.csv", "--target", "y", "--resume"], "--resume and --on-loss go with --federation"),
        (["a.csv", "--target", "y", "--on-loss", "drop"], "--resume and --on-loss go with --federation"),
        (["a.csv", "--target", "y", "--least-teachers", "2"], "--least-teachers goes with --federation"),
        (["a.csv", "--target", "y", "--wait", "60"], "--wait goes with --federation"),
        (["a.csv", "--target", "y", "--answer-seconds", "9"], "--answer-seconds goes with --federation"),
    ],
)
def test_files_and_federation_do_not_mix(options, reason, capsys, tmp_path):
    """The same command teaches from files or over a federation, not both."""
    common = ["--learner", "ridge", "--goal", "perturbed", "--promise", "open", "--out", "out"]
    with chdir(tmp_path):
        status, said = run(capsys, "teach", *options, *common)
    assert (status, reason in said) == (2, True), said


def test_two_commands_for_one_folder(tmp_path):
    """The second is refused while the first is at work, and not after it."""
    out = tmp_path / "lesson"
    with claim(out, out):
        with pytest.raises(SettingError, match=r"is being written by another command \(process \d+\)"), claim(out, out):
            pass
        with claim(tmp_path / "other", tmp_path / "other"):
            pass
    with claim(out, out):
        pass
    assert list(tmp_path.iterdir()) == []


def test_teachers_are_looked_for_before_anything_heavy_is_imported(tmp_path):
    """A teacher that is away is named at once: scikit-learn alone takes seconds to import on a busy machine."""
    order = "teach --federation home --learner logistic --goal perturbed --promise open --out out"
    code = f"""
import sys
from contextlib import contextmanager
from superteach.organisations.nvflare import session

@contextmanager
def sign_in(folder):
    heavy = ("sklearn", "scipy", "pyarrow", "pandas", "matplotlib")
    print([name for name in heavy if name in sys.modules])
    yield None

def roster(*given):
    sys.exit(7)

session.sign_in, session.roster = sign_in, roster
from superteach.cli import app
app({order.split()!r})
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (said.returncode, said.stdout.strip()) == (7, "[]"), said.stderr


def test_status_speaks_of_lessons_in_words(monkeypatch, capsys, tmp_path):
    """Not in NVFlare's FINISHED:EXECUTION_EXCEPTION, which is what a lesson that a policy refuses ends as."""
    from superteach.organisations.nvflare import session

    project = SimpleNamespace(teachers=("north", "south", "west"))
    ends = ("RUNNING", "FINISHED:COMPLETED", "FINISHED:EXECUTION_EXCEPTION", "FINISHED:BROKEN_OFF", "SUBMITTED")
    lessons = tuple({"lesson": f"l{n}", "status": end, "when": WHEN} for n, end in enumerate(ends))
    standing = session.Standing(project, ("north",), ("south",), lessons)
    desk = SimpleNamespace(standing=lambda: standing)
    monkeypatch.setattr(session, "sign_in", lambda home: nullcontext(desk))
    app(["status", str(tmp_path)], standalone_mode=False)
    assert capsys.readouterr().out.splitlines() == [
        "north: connected",
        "south: does not answer",
        "west: not connected",
        "lesson l0: running, asked for 2026-11-17 23:31:36 UTC",
        "lesson l1: finished, asked for 2026-11-17 23:31:36 UTC",
        "lesson l2: ended with an error, asked for 2026-11-17 23:31:36 UTC",
        "lesson l3: broken off, asked for 2026-11-17 23:31:36 UTC",
        "lesson l4: not begun yet, asked for 2026-11-17 23:31:36 UTC",
    ]
