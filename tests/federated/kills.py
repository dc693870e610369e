"""Kills at every place where something becomes durable or visible: before it, or right after it.

The process that is killed forgets all it knew; its folder stays as it was. The coordinator gives the same command again.
"""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from pathlib import Path

from superteach.federated.box import LocalBox
from superteach.federated.documents import read
from superteach.privacy.ledger import AuditLog, Ledger
from tests.federated.conftest import SITES, Town

MOST_COMMANDS = 40


class Killed(BaseException):
    """What stands for kill -9: nothing that the product catches."""


class Reaper:
    """Kills whoever is at a write, with some probability, at most `lives` times."""

    def __init__(self, seed: int, lives: int) -> None:
        self.rng, self.lives, self.kills = random.Random(seed), lives, 0
        self.one_in = self.rng.choice([4, 10, 25])

    def around(self, write):
        def cut(*args, **named):
            die = self.lives > 0 and self.rng.randrange(self.one_in) == 0
            before = self.rng.random() < 0.5
            if die and before:
                self._die()
            found = write(*args, **named)
            if die:
                self._die()
            return found

        return cut

    def _die(self):
        self.lives -= 1
        self.kills += 1
        raise Killed


class Careless(LocalBox):
    """A carrier that loses, repeats and delays what it is given."""

    def __init__(self, place: Path, seed: int) -> None:
        super().__init__(place)
        self.rng, self.later = random.Random(seed), []

    def put(self, name, data):
        fate = self.rng.random()
        if fate < 0.15:
            return  # lost
        if fate < 0.3:
            self.later.append((name, data))
            return
        super().put(name, data)
        if fate < 0.4:
            self.later.append((name, data))

    def list(self, folder):
        while self.later and self.rng.random() < 0.5:
            super().put(*self.later.pop(self.rng.randrange(len(self.later))))
        names = super().list(folder)
        return [name for name in names if self.rng.random() > 0.05]


def run(town: Town, privacy: str, seed: int, monkeypatch, lives: int = 12) -> int:
    """Teach under kills and a careless carrier; check that all is well; return how many kills there were."""
    town.step_all()
    reaper = Reaper(seed, lives)
    published: dict[tuple, set[bytes]] = defaultdict(set)
    carrier = Careless(town.place, seed)
    plain_put = carrier.put

    def put(name, data):
        document = read(data, 1 << 28)
        if document.kind == "reply" and document.body["status"] == "ok":
            published[document.answers, document.body["site"]].add(data)
        plain_put(name, data)

    carrier.put = put
    town.carrier = carrier

    everybody = ("--teachers", ",".join(SITES))

    def step(name):
        try:
            Town.step(town, name)
        except Killed:
            town.restart(name)

    with monkeypatch.context() as patch:
        patch.setattr(town, "step", step)
        patch.setattr(os, "replace", reaper.around(os.replace))
        patch.setattr(os, "rename", reaper.around(os.rename))
        patch.setattr(AuditLog, "add", reaper.around(AuditLog.add))
        for _ in range(MOST_COMMANDS):
            try:
                if town.teach("out", "--privacy", privacy, "--overwrite", "--wait", 3, *everybody) == 0:
                    break
            except Killed:
                continue
        else:
            raise AssertionError(f"seed {seed}: the lesson did not end in {MOST_COMMANDS} commands")
    for _ in range(30):
        town.step_all()
    check(town, privacy, published, seed)
    return reaper.kills


def check(town: Town, privacy: str, published: dict[tuple, set[bytes]], seed: int) -> None:
    taught = town.lesson("out")["lesson"]
    several = {key: len(versions) for key, versions in published.items() if len(versions) > 1}
    assert not several, f"seed {seed}: replies with other bytes than before: {several}"
    ordered = [path.name for path in (town.home / "lessons").iterdir() if not path.name.startswith(".")]
    assert ordered == [taught], f"seed {seed}: lessons {ordered}"
    for name in SITES:
        site = town.site(name)
        assert (site / "lessons" / taught / "done").exists(), (
            f"seed {seed}: {name} does not know that the lesson is over"
        )
        chosen = list((site / "chosen").glob("*.csv"))
        assert len(chosen) == 1, f"seed {seed}: {name} has {chosen}"
        if privacy == "dp":
            paid = [entry["lesson"] for entry in Ledger(site / "ledger", 1.0, 1e-6).entries()]
            assert paid == [taught], f"seed {seed}: {name} paid {paid}"
        kept = [json.loads(path.read_text()) for path in (site / "lessons" / taught).glob("*reply*.json")]
        numbers = [one["body"]["number"] for one in kept]
        assert len(numbers) == len(set(numbers)), f"seed {seed}: {name} keeps {numbers}"
