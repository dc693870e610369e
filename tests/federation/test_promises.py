"""A lesson under "epsilon" over real processes: kits as they are made, masks and ledgers."""

from __future__ import annotations

import json

from superteach.privacy.ledger import Ledger
from tests.federation.rows import ROWS, TEACHERS

GOAL = [0.8, -0.5, 0.3, 0.2, 0.1]
MOST_ROUNDS = 20


def teach(town, out, *options):
    goal = town.home / "goal.json"
    goal.write_text(json.dumps(GOAL))
    return town.run(
        *("teach", "--federation", str(town.folder), "--learner", "logistic", "--goal", str(goal), "--budget", "90"),
        *("--out", str(out), *options),
    )


def test_an_epsilon_lesson_over_three_teachers(town, tmp_path):
    """The default across organisations: few rounds, no model, and every teacher has paid."""
    run = teach(town, tmp_path / "lesson", "--epsilon", "0.5", "--json")
    assert run.returncode == 0, run.stderr
    stored = json.loads(run.stdout)
    assert (stored["promise"], stored["delivered"], stored["pool_rows"]) == ("epsilon", False, 3 * ROWS)
    assert len(stored["ledger"]) <= MOST_ROUNDS
    assert sorted(path.name for path in (tmp_path / "lesson").iterdir()) == ["lesson.json", "report.html"]
    for name in TEACHERS:
        entries = [entry for entry in town.audit(name) if entry.get("lesson") == stored["lesson"]]
        assert {entry["kind"] for entry in entries} == {"hello", "begin", "step", "finish"}
        assert {entry["verdict"] for entry in entries} == {"answered"}
        ledger = Ledger(town.kit(name) / "superteach-ledger", 1.0, 1e-6)
        assert [entry["lesson"] for entry in ledger.entries()] == [stored["lesson"]]
        assert list((town.kit(name) / "chosen").glob(f"{stored['lesson']}.*"))
        assert 0.5 < stored["left"][name] < 1.0

    run = teach(town, tmp_path / "more", "--epsilon", "0.9")
    assert run.returncode == 1
    assert "left, and this lesson asks for 0.9" in run.stderr
    run = teach(town, tmp_path / "closed", "--promise", "closed")
    assert run.returncode == 0, run.stderr
    assert "nothing computed from rows went out" in run.stdout
    assert "There is no model.json" in run.stdout
