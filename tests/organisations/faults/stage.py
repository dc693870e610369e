"""Four teachers behind a line that can break, and the same lesson in one process beside them."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import numpy as np
import pytest

import superteach as st
from superteach.coordinator import named
from superteach.coordinator.teaching import teach
from superteach.goals import PerturbedFit
from superteach.mathematics.learner import Learner
from superteach.organisations.conductor import Order, conduct
from superteach.processes.patience import persevere
from superteach.settings import Settings
from tests.organisations.faults.line import FaultyLine, Killed
from tests.organisations.faults.table import MATCH

TEACHERS = ("north", "south", "west", "east")
ROWS, WIDTH = 80, 3


class Stage:
    """Four teachers with rows drawn from a seed, behind a line that can break."""

    def __init__(self, seed, how, pool, site_of, folder):
        self.how = {"learner": "logistic", **(how or MATCH)}
        X, y = pool("squared" if self.how["learner"] == "ridge" else "logistic", 4 * ROWS, WIDTH, seed)
        self.rows = {
            name: (X[place * ROWS : (place + 1) * ROWS], y[place * ROWS : (place + 1) * ROWS])
            for place, name in enumerate(TEACHERS)
        }
        self.line = FaultyLine({name: site_of(name, *rows) for name, rows in self.rows.items()})
        self.folder, self.unfinished = folder, folder / "unfinished"
        own = {one.name for one in fields(Settings)}
        settings = Settings(
            random_state=seed, rounding="alone", **{name: v for name, v in self.how.items() if name in own}
        )
        rest = {name: value for name, value in self.how.items() if name not in own}
        self.order = Order(list(TEACHERS), goal=None, goal_seed=seed, wait=0.2, settings=settings, **rest)
        self.runs = 0

    def oracle(self, names, seed=None):
        """The lesson of these teachers in one process, by another way than the conductor's; and who chose what."""
        first, teachers = 0, []
        for name in names:
            X, y = self.rows[name]
            teachers.append(st.Teacher(name, X, y, np.arange(first, first + len(y))))
            first += len(y)
        engine = st.InProcess(teachers)
        order = self.order
        lesson = teach(
            st.Federation(engine),
            Learner.of(named.build_learner(order.learner, None, None, order.intercept)),
            PerturbedFit(order.goal_seed),
            order.settings if seed is None else replace(order.settings, random_state=seed),
        )
        return lesson, {name: np.sort(state.chosen) for name, state in zip(names, engine.states(), strict=True)}

    def attempt(self, resume):
        self.runs += 1
        self.line.new_run()
        order = replace(self.order, resume=resume)
        return conduct(self.line, f"lesson-{self.runs}", order, self.folder, None, self.unfinished)

    def play(self, resume=False):
        if self.order.on_loss == "wait":
            return persevere(self.attempt, self.line.comes_back, self.order.wait, resume)
        return self.attempt(resume)

    def check(self, lesson, names, but=()):
        """The lesson and the files of the teachers are the oracle's."""
        seed = lesson.settings["random_state"]
        expected, chosen = self.oracle(names, seed)
        assert lesson.model.tobytes() == expected.model.tobytes()
        told = (lesson.risk, lesson.consistency, lesson.size, lesson.pool_rows, lesson.path, lesson.teachers)
        assert told == (
            expected.risk, expected.consistency, expected.size, expected.pool_rows, expected.path, tuple(names),
        )  # fmt: skip
        assert [(e.number, e.stage, e.query, e.bytes_in, e.bytes_out) for e in lesson.ledger] == [
            (e.number, e.stage, e.query, e.bytes_in, e.bytes_out) for e in expected.ledger
        ]
        stored = json.loads((self.folder / "lesson.json").read_text())
        for name in names:
            folder = self.line.sites[name].guard.policy.folder
            assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]
            if name not in but:
                written = (folder / f"{stored['lesson']}.csv").read_text().split()
                assert [int(number) for number in written[1:]] == chosen[name].tolist()
        assert list(self.unfinished.glob("*")) == [], "nothing is left of a finished lesson"
        return stored


def killed_at(scene, message):
    """A journal, left by a coordinator that was killed."""
    scene.line.plan(message, "coordinator", ())
    with pytest.raises(Killed):
        scene.play()
