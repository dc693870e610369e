"""A federation of three sites in one process: every look of the coordinator into the box lets the sites look too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from superteach import cli
from superteach.cli import federated
from superteach.federated.box import LocalBox, file_name
from superteach.federated.coordinator import create_federation
from superteach.federated.documents import read
from superteach.federated.runner import Runner
from superteach.federated.site import Site

SITES = ("north", "south", "west")
COLUMNS = ("a", "b", "c", "d")
GOAL = {"coef": {"a": 1.0, "b": -0.4, "c": 0.3, "d": 0.0}, "intercept": 0.1, "positive": 1}


def write_rows(folder: Path, rows: int = 400, seed: int = 0) -> dict[str, Path]:
    rng, files = np.random.default_rng(seed), {}
    slope = np.array([1.0, -0.5, 0.3, 0.0])
    for place, name in enumerate(SITES):
        X = rng.normal(size=(rows + 30 * place, len(COLUMNS)))
        y = (rng.random(len(X)) < 1 / (1 + np.exp(-(X @ slope + 0.2)))).astype(int)
        lines = [",".join([*map(repr, x.tolist()), str(t)]) for x, t in zip(X, y, strict=True)]
        files[name] = folder / f"{name}.csv"
        files[name].write_text("\n".join([",".join([*COLUMNS, "ill"]), *lines]) + "\n")
    return files


class Town:
    """A coordinator's home, its box, and three sites with what answers for them."""

    def __init__(self, folder: Path, rows: int = 400) -> None:
        self.folder = folder
        self.files = write_rows(folder, rows)
        self.home = folder / "clinic"
        create_federation(self.home, SITES)
        self.place = self.home / "box"
        for name in SITES:
            invitation = self.home / "invitations" / f"{name}.json"
            self.call(
                "site",
                "new",
                self.site(name),
                "--invitation",
                invitation,
                "--data",
                self.files[name],
                "--target",
                "ill",
            )
        (folder / "goal.json").write_text(json.dumps(GOAL))
        self.sites: dict[str, tuple[Site, Runner]] = {}
        self.away: set[str] = set()
        self.carrier = LocalBox(self.place)
        self.box: LocalBox = Stepping(self)

    def site(self, name: str) -> Path:
        return self.folder / f"site-{name}"

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.site(name) / "policy.toml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def accept(self, privacy: str) -> None:
        for name in SITES:
            self.edit(name, 'privacy = ["isolated"]', f'privacy = ["{privacy}"]')

    def restart(self, name: str) -> None:
        """End a site's process: what it remembers is what its folder holds."""
        self.sites.pop(name, None)

    def step(self, name: str) -> None:
        if name not in self.sites:
            site = Site(self.site(name))
            self.sites[name] = site, Runner(site)
        site, runner = self.sites[name]
        site.sync(self.carrier)
        runner.work()
        site.sync(self.carrier)
        runner.finish()

    def step_all(self) -> None:
        for name in SITES:
            if name not in self.away:
                self.step(name)

    def call(self, *args: object) -> int:
        return cli.app([str(one) for one in args], standalone_mode=False)

    def teach(self, out: str, *more: object, budget: int = 90) -> int:
        self.step_all()
        options = ("--box", self.home, "--learner", "logistic", "--goal", self.folder / "goal.json", "--budget", budget)
        return self.call("teach", *options, "--out", self.folder / out, *more)

    def lesson(self, out: str) -> dict:
        return json.loads((self.folder / out / "lesson.json").read_text())

    def chosen(self, name: str) -> list[list[int]]:
        found = sorted((self.site(name) / "chosen").glob("*.csv"), key=lambda path: path.stat().st_mtime_ns)
        return [[int(line) for line in path.read_text().split()[1:]] for path in found]


def respond(site: Site, data: bytes) -> list[bytes]:
    """Give a site one document, as a person with a mail client would; return the documents that answer it."""
    site.take(read(data, site.most_bytes))
    runner = Runner(site)
    runner.work()
    replies = [
        reply.data
        for lesson in site.lessons.values()
        for reply in lesson.replies.values()
        if lesson.questions[reply.body["number"]].data == data
        and not (site.folder / "outbox" / file_name(reply)).exists()
    ]
    runner.finish()
    return replies


class Stepping(LocalBox):
    """A box whose sites look into it whenever the coordinator does."""

    patience = (0.0, 0.001)

    def __init__(self, town: Town) -> None:
        super().__init__(town.place)
        self.town = town

    def list(self, folder: str) -> list[str]:
        self.town.step_all()
        return self.town.carrier.list(folder)

    def put(self, name: str, data: bytes) -> None:
        self.town.carrier.put(name, data)


@pytest.fixture
def town_of(monkeypatch) -> Callable[[Path], Town]:
    """Make a town in a folder; commands then reach its box, the last one's where there are several."""

    def make(folder: Path, rows: int = 100) -> Town:
        folder.mkdir(exist_ok=True)
        made = Town(folder, rows)
        monkeypatch.setattr(federated, "open_box", lambda url: made.box)
        return made

    return make


@pytest.fixture
def town(tmp_path, town_of) -> Town:
    return town_of(tmp_path, 400)


@pytest.fixture
def fails(capsys) -> Callable[..., str]:
    """Run a command that must end with an error; return its one line."""

    def run(call: Callable[[], int], status: int) -> str:
        assert call() == status
        line = capsys.readouterr().err.strip().splitlines()[-1]
        assert line.startswith("error: ")
        return line

    return run
