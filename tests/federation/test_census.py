"""Ten states as ten organisations: real census rows, real processes, the same lesson as in one process."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks.census import SMALL, TARGET, join_states, write_states
from benchmarks.town import Town, left_running

DATA = Path(os.environ.get("SUPERTEACH_DATA") or Path(__file__).parents[3] / "shared" / "data")
ROWS = 3_000
HOW = (
    *("--learner", "logistic", "--C", "0.1", "--goal", "perturbed", "--standardize", "--rounding", "alone"),
    *("--budget", "1500", "--promise", "open", "--json"),
)


def test_ten_states_teach_the_same_lesson_to_the_last_bit(tmp_path, monkeypatch):
    """Model, risk, chosen counts and rounds are those of one process; no state's rows leave its folder."""
    if not (DATA / "acs_income_2018.parquet").is_file():
        pytest.skip(f"acs_income_2018.parquet is not in {DATA}; set SUPERTEACH_DATA to the folder that holds it")
    monkeypatch.setenv("SUPERTEACH_DATA", str(DATA))
    files = write_states(tmp_path, SMALL, ROWS)
    with Town(tmp_path, SMALL) as town:
        town.open_policies()
        town.serve()
        join_states(town, files)
        taught = town.run(
            *("teach", "--federation", str(town.folder), "--teachers", ",".join(SMALL)),
            *("--out", str(tmp_path / "there"), *HOW),
        )
        assert taught.returncode == 0, taught.stderr
        alone = town.run(
            *("teach", *map(str, files.values()), "--target", TARGET, "--out", str(tmp_path / "here"), *HOW)
        )
        assert alone.returncode == 0, alone.stderr
        there, here = json.loads(taught.stdout), json.loads(alone.stdout)
        for state in SMALL:
            numbers = (town.kit(state) / "chosen" / f"{there['lesson']}.csv").read_text()
            assert numbers == (tmp_path / "here" / "chosen" / f"{state}.csv").read_text()
    assert left_running(tmp_path) == []
    assert (tmp_path / "there" / "model.json").read_bytes() == (tmp_path / "here" / "model.json").read_bytes()
    assert there["teachers"] == here["teachers"] == list(SMALL)
    for what in ("model", "risk", "consistency", "size", "pool_risk", "objective"):
        assert there[what] == here[what], what
    assert [(entry["query"], entry["bytes_in"], entry["bytes_out"]) for entry in there["ledger"]] == [
        (entry["query"], entry["bytes_in"], entry["bytes_out"]) for entry in here["ledger"]
    ]
    assert there["risk"] < 0.05 * there["pool_risk"]
