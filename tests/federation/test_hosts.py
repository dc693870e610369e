"""Two hosts, made of network namespaces: what can be reached over the network, and what happens when it is cut."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import superteach as st
from benchmarks.town import Town, left_running
from superteach.coordinator.teaching import teach
from superteach.goals import PerturbedFit
from superteach.losses import Logistic
from superteach.mathematics.learner import Learner
from superteach.solvers import LBFGS
from tests.federation.rows import Data
from tests.organisations.faults.table import REAL

NAMES = (f"superteach-a-{os.getpid()}", f"superteach-b-{os.getpid()}")
HOST = "coordinator.test"
ADDRESSES = ("10.213.77.1", "10.213.77.2")


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def within(host: int) -> list[str]:
    return ["ip", "netns", "exec", NAMES[host]]


@pytest.fixture
def hosts() -> Iterator[None]:
    """Two namespaces with a cable between them; only the server's name is known in both."""
    try:
        ip("netns", "add", NAMES[0])
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces need iproute2 and the right to make them: {error}")
    try:
        ip("netns", "add", NAMES[1])
        ip(
            "link",
            "add",
            "cable",
            "netns",
            NAMES[0],
            "type",
            "veth",
            "peer",
            "name",
            "cable",
            "netns",
            NAMES[1],
        )
        for name, address in zip(NAMES, ADDRESSES, strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "cable")
            for device in ("lo", "cable"):
                ip("-n", name, "link", "set", device, "up")
            folder = Path("/etc/netns") / name
            folder.mkdir(parents=True)
            (folder / "hosts").write_text(f"127.0.0.1 localhost\n{ADDRESSES[0]} {HOST}\n")
        yield
    finally:
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
            shutil.rmtree(Path("/etc/netns") / name, ignore_errors=True)


def listening(host: int) -> list[tuple[str, int]]:
    """Addresses and ports that a host listens on."""
    lines = subprocess.run([*within(host), "ss", "-ltnH"], check=True, capture_output=True, text=True).stdout
    places = [line.split()[3].rsplit(":", 1) for line in lines.splitlines()]
    return [(re.sub(r"[\[\]]|::ffff:", "", address), int(port)) for address, port in places]


def cut_and_heal(town: Town, out: Path) -> None:
    """A lesson with north, whose cable is cut in the scenario's round for six seconds."""
    (scenario,) = [scenario for scenario in REAL if scenario.fault.startswith("link down")]
    command = (
        f"teach --federation {town.folder} --learner logistic --goal perturbed --promise open --method dual --solver lbfgs "
        f"--no-intercept --budget 20:140 --on-loss {scenario.policy} --out {out}"
    )
    lesson = subprocess.Popen(
        [*within(0), sys.executable, "-m", "superteach", *command.split()], stderr=subprocess.PIPE, text=True
    )
    try:
        first = int(np.random.default_rng(scenario.seed).integers(30, 61))
        town.wait(lambda: len(town.audit("north")) >= first or lesson.poll() is not None, 120, f"message {first}")
        assert lesson.poll() is None, lesson.communicate()
        ip("-n", NAMES[1], "link", "set", "cable", "down")
        at, _ = len(town.audit("north")), time.sleep(6)
        assert len(town.audit("north")) <= at + 1, "nothing arrives over a cut cable"
        ip("-n", NAMES[1], "link", "set", "cable", "up")
        _, said = lesson.communicate(timeout=150)
        assert lesson.returncode == 0, said
    finally:
        lesson.kill()
        lesson.wait(30)


def check(data: Data, out: Path) -> None:
    """The lesson is that of an undisturbed run in one process, and says of no interruption."""
    labels = np.where(data.y["north"] == 1, 1, -1).astype(np.int8)
    engine = st.InProcess([st.Teacher("north", data.X["north"], labels)])
    expected = teach(
        st.Federation(engine),
        Learner(Logistic()),
        PerturbedFit(0),
        method="dual",
        solver=LBFGS(),
        budget=(20, 140),
    )
    lesson = st.Lesson.load(out / "lesson.json")
    assert lesson.model.tobytes() == expected.model.tobytes()
    assert lesson.risk == expected.risk
    assert lesson.interruptions == ()


def test_one_open_port_and_a_cable_cut_and_healed(hosts, data, tmp_path):
    """There is one port at the server and none at a teacher; a lesson outlasts a cable that is cut for a while."""
    with Town(tmp_path, ["north"], HOST, within(0)) as server:
        server.open_policies()
        server.serve()
        teacher = Town.__new__(Town)
        teacher.__dict__ |= {**server.__dict__, "_within": within(1), "_running": {}}
        with teacher:
            teacher.join("north", "--data", str(data.files["north"]), "--target", "ill")
            teacher.wait_joined(["north"])
            reachable = [[place for place in listening(host) if place[0] != "127.0.0.1"] for host in (0, 1)]
            assert [port for _, port in reachable[0]] == [server.project.port]
            assert reachable[1] == []
            assert listening(1), "the teacher's own loopback port shows that this looks in the right place"
            cut_and_heal(server, tmp_path / "lesson")
            check(data, tmp_path / "lesson")
    assert left_running(tmp_path) == []
