"""Two hosts, made of network namespaces: what can be reached over the network, and that a teacher joins over it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.town import Town, left_running

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


def test_the_servers_port_is_the_only_open_one(hosts, data, tmp_path):
    """Seen from the network there is one port at the server and none at a teacher, who joins all the same."""
    with Town(tmp_path, ["north"], HOST, within(0)) as server:
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
    assert left_running(tmp_path) == []
