"""One federation of three teachers that the tests of this folder share: real processes, real certificates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.town import Town, left_running
from tests.federation.rows import TEACHERS, Data, make_data


@pytest.fixture(scope="session")
def data(tmp_path_factory) -> Data:
    return make_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def town(tmp_path_factory, data) -> Iterator[Town]:
    """A server that would let code through, three teachers that do not, and a stranger at the door."""
    home = tmp_path_factory.mktemp("town")
    with Town(home, TEACHERS) as town:
        permissions = town.kit("server") / "local" / "authorization.json"
        stored = json.loads(permissions.read_text())
        stored["permissions"]["lead"]["byoc"] = "any"  # a careless coordinator: the teachers must not rely on it
        permissions.write_text(json.dumps(stored))
        town.open_policies()
        town.rewrite("south", 'write = "numbers"', 'write = "rows"')
        for name in TEACHERS:
            town.declare(name, data.files[name], "ill")
        tap = Path(__file__).parent / "tap"
        town.serve({"PYTHONPATH": str(tap), "SUPERTEACH_TAP": str(home / "tap.bin")})
        for name in TEACHERS:
            town.join(name, "--data", str(data.files[name]), "--target", "ill")
        town.wait_joined(TEACHERS)
        yield town
    assert left_running(home) == []
