"""Lessons under kills end, with the same bytes, and nothing is paid twice or in vain."""

from __future__ import annotations

import os

import pytest

from tests.federated.kills import run


def survive(tmp_path, monkeypatch, town_of, privacy: str, seed: int) -> int:
    town = town_of(tmp_path / f"{privacy}-{seed}")
    if privacy != "isolated":
        town.accept(privacy)
    return run(town, privacy, seed, monkeypatch)


@pytest.mark.parametrize("privacy", ["isolated", "dp"])
def test_lessons_under_kills_end_and_are_paid_once(privacy, tmp_path, monkeypatch, town_of):
    assert sum(survive(tmp_path, monkeypatch, town_of, privacy, seed) for seed in range(4)) > 4


def test_a_lesson_of_sums_under_kills_is_the_one_without(tmp_path, monkeypatch, town_of):
    plain = town_of(tmp_path / "plain")
    plain.accept("none")
    assert plain.teach("out", "--privacy", "none") == 0
    town = town_of(tmp_path / "killed")
    town.accept("none")
    assert run(town, "none", 3, monkeypatch) > 3
    assert town.lesson("out")["model"] == plain.lesson("out")["model"]


@pytest.mark.slow
@pytest.mark.parametrize("block", range(int(os.environ.get("KILL_BLOCKS", "4"))))
def test_many_lessons_under_kills(block, tmp_path, monkeypatch, town_of):
    """Fifty lessons a block: KILL_BLOCKS=20 pytest … runs a thousand."""
    modes = ["isolated", "dp", "dp", "isolated", "none"]
    kills = [
        survive(tmp_path, monkeypatch, town_of, modes[seed % 5], seed) for seed in range(50 * block, 50 * block + 50)
    ]
    assert sum(kills) > 50
