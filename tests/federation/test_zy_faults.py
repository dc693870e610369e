"""Faults of real processes: kill -9, SIGSTOP, a killed server. Each scenario of the table ends as it says."""

from __future__ import annotations

import html
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import psutil
import pytest

import superteach as st
from superteach.coordinator.teaching import teach
from superteach.goals import PerturbedFit
from superteach.losses import Logistic
from superteach.mathematics.learner import Learner
from superteach.solvers import Block
from tests.federation.rows import ROWS, TEACHERS
from tests.organisations.faults.table import REAL

ROUNDS = {"early": (8, 20), "middle": (30, 60), "late": (65, 80)}
"""The round after which the fault strikes is drawn from the scenario's seed. Of some 125 rounds a hundred are the
paper's rule, within which a look at the round that comes late must still fall."""
STARTED: list[subprocess.Popen[str]] = []
SCENARIOS = {scenario.name: scenario for scenario in REAL}


class Run:
    """One `superteach teach` under way, which can be held between two rounds."""

    def __init__(self, town, name: str, out: Path, *options: str, seed: int | None = None) -> None:
        self.town, self.scenario, self.out = town, SCENARIOS[name], out
        self.seed = self.scenario.seed if seed is None else seed
        self._before = self._mine()
        command = (
            f"teach --federation {town.folder} --teachers {','.join(TEACHERS)} --learner logistic --goal perturbed "
            f"--promise open --method dual --solver block --no-intercept --budget 90 --goal-seed {self.seed} --out {out} "
            f"--on-loss {self.scenario.policy}"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-m", "superteach", *command.split(), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        STARTED.append(self.process)
        self.job = ""

    def _mine(self) -> set[str]:
        """Jobs with this lesson's own goal."""
        found = set()
        for path in self.town.kit("server").glob("*/app_server/config/order.json"):
            text = path.read_text()
            if text and json.loads(text)["goal_seed"] == self.seed:
                found.add(path.parts[-4])
        return found

    @property
    def rounds(self) -> int:
        """Of this job, as north has heard them."""
        if not self.job:
            self.job = next(iter(self._mine() - self._before), "")
        heard = [entry for entry in self.town.audit("north") if entry.get("lesson") == self.job]
        return max([entry.get("number", 0) for entry in heard], default=0)

    @property
    def is_there(self) -> bool:
        """Whether the lesson has come to the scenario's round."""
        low, high = ROUNDS[self.scenario.when]
        return self.rounds >= np.random.default_rng(self.seed).integers(low, high + 1)

    def hold(self) -> None:
        """Let the coordinator's process of this lesson stand still between two rounds."""
        self._coordinator().suspend()

    def go_on(self) -> None:
        self._coordinator().resume()

    def _coordinator(self) -> psutil.Process:
        (found,) = [process for process in self.town.processes("server") if self.job in " ".join(process.cmdline())]
        return found

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=200)
        return self.process.returncode, out, err

    def check(self, data, names) -> dict:
        """The lesson is that of these teachers in one process, bit for bit, and each has its rows."""
        status, said, wrong = self.end()
        assert status == 0, wrong
        teachers = [
            st.Teacher(
                name, data.X[name], np.where(data.y[name] == 1, 1, -1).astype(np.int8),
                np.arange(place * ROWS, (place + 1) * ROWS),
            )
            for place, name in enumerate(names)
        ]  # fmt: skip
        engine = st.InProcess(teachers)
        expected = teach(
            st.Federation(engine),
            Learner(Logistic()),
            PerturbedFit(self.seed),
            method="dual",
            solver=Block(),
            budget=90,
        )
        lesson = st.Lesson.load(self.out / "lesson.json")
        assert lesson.model.tobytes() == expected.model.tobytes()
        assert (lesson.risk, lesson.consistency, lesson.pool_rows) == (
            expected.risk,
            expected.consistency,
            expected.pool_rows,
        )
        assert lesson.teachers == tuple(names)
        stored = json.loads((self.out / "lesson.json").read_text())
        for name, state in zip(names, engine.states(), strict=True):
            if name != "south":  # whose policy writes whole rows
                written = (self.town.kit(name) / "chosen" / f"{stored['lesson']}.csv").read_text().split()
                assert [int(number) for number in written[1:]] == np.sort(state.chosen).tolist()
        page = html.unescape(re.sub(r"<[^>]*>", "", (self.out / "report.html").read_text()))
        for facts in stored["interruptions"]:
            assert self.scenario.says in facts["why"]
            assert facts["why"] in said
            assert facts["why"] in page
        return stored


def hold(town, *runs: Run) -> None:
    """Let each lesson stand still as soon as it has come to its round."""
    waiting = list(runs)

    def held() -> bool:
        for run in [run for run in waiting if run.is_there]:
            run.hold()
            waiting.remove(run)
        return not waiting

    town.wait(held, 150, "every lesson's round")


@pytest.fixture(scope="module")
def stage(town, data):
    """Teachers can be started again here."""
    yield town
    for process in STARTED:
        process.kill()
        process.wait(30)


def join(town, data, *names):
    for name in names:
        town.join(name, "--data", str(data.files[name]), "--target", "ill")
    town.wait_joined(names)


def test_one_kill_and_three_policies(stage, data, tmp_path):
    """Three lessons lose south at once: one goes on without it, one ends with an error, one waits until it is back."""
    runs = [
        Run(stage, name, tmp_path / place)
        for name, place in (
            ("a process killed early", "drop"),
            ("a process killed late", "abort"),
            ("a process started again", "wait"),
        )
    ]
    hold(stage, *runs)
    stage.stop("south", signal.SIGKILL)
    for run in runs:
        run.go_on()
    dropped, aborted, waited = runs
    killed = time.monotonic()
    status, _, said = aborted.end()
    assert time.monotonic() - killed < 120
    assert status == 1
    assert re.search(aborted.scenario.says, said)
    assert re.search(r"\(round \d+, dual\); see that it is there again .* with --resume .* --on-loss drop", said)
    assert not aborted.out.exists()
    join(stage, data, "south")
    (facts,) = dropped.check(data, ("north", "west"))["interruptions"]
    assert (facts["teacher"], facts["then"]) == ("south", "dropped")
    (facts,) = waited.check(data, TEACHERS)["interruptions"]
    assert (facts["teacher"], facts["then"]) == ("south", "resumed")


def test_a_killed_server_then_a_teacher_that_stands_still(stage, data, tmp_path):
    """The lesson aborted above goes on, its server is killed, it goes on again; south stands still, shortly and long."""
    run = Run(stage, "the server's processes killed", tmp_path / "a", "--resume", seed=42)
    stage.wait(lambda: run.rounds > 100, 120, "a round beyond those of the journal")
    stage.stop("server", signal.SIGKILL)
    stage.serve()
    stage.wait(lambda: all_there(stage), 90, "all teachers at the new server")
    again = Run(stage, "the server's processes killed", tmp_path / "b", "--resume", seed=42)
    shortly = Run(stage, "a process stands still shortly", tmp_path / "c")
    long = Run(stage, "a process stands still", tmp_path / "d")
    hold(stage, shortly, long)
    with standing_still(stage, "south"):
        shortly.go_on()
        time.sleep(4)  # shorter than it takes to count a teacher as lost
    assert shortly.check(data, TEACHERS)["interruptions"] == []
    told = again.check(data, TEACHERS)["interruptions"]
    assert [facts["teacher"] for facts in told] == ["south", None]
    with standing_still(stage, "south"):
        long.go_on()
        (facts,) = long.check(data, ("north", "west"))["interruptions"]
    assert (facts["teacher"], facts["then"]) == ("south", "dropped")
    status, _, said = run.end()
    assert status == 1
    assert "with --resume" in said


def all_there(town) -> bool:
    said = town.run("status", str(town.folder), "--json")
    return said.returncode == 0 and len(json.loads(said.stdout)["connected"]) == 3


@contextmanager
def standing_still(town, name: str) -> Iterator[None]:
    """All processes of a teacher, without an end to any connection."""
    everybody = town.processes(name)
    for process in everybody:
        process.suspend()
    try:
        yield
    finally:
        for process in everybody:
            with suppress(psutil.NoSuchProcess):
                process.resume()
