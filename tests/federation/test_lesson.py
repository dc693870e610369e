"""A lesson over real processes: the same bits as in one process, and nothing of a row at the coordinator."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

import superteach as st
from superteach.coordinator.teaching import teach
from superteach.goals import PerturbedFit
from superteach.mathematics.learner import Learner
from tests.federation.rows import ROWS, TEACHERS
from tests.privacy.canaries import Watched, numbers_found, rows_found

HOW = {"method": "match", "budget": 90, "random_state": 7}


@pytest.fixture(scope="module")
def expected(data):
    """The lesson in one process: model, chosen rows, and everything that must stay private."""
    teachers = [
        st.Teacher(
            name,
            data.X[name],
            np.where(data.y[name] == 1, 1, -1).astype(np.int8),
            np.arange(place * ROWS, (place + 1) * ROWS),
        )
        for place, name in enumerate(TEACHERS)
    ]
    engine = Watched(teachers)
    from sklearn.linear_model import LogisticRegression

    learner = Learner.of(LogisticRegression(C=0.5))
    lesson = teach(st.Federation(engine), learner, PerturbedFit(3), rounding="alone", **HOW)
    chosen = {name: np.sort(state.chosen) for name, state in zip(TEACHERS, engine.states(), strict=True)}
    return lesson, chosen, engine.private


@pytest.fixture(scope="module")
def result(town):
    """The same lesson through the commands a person types."""
    out = town.home / "lesson"
    run = town.run(
        *(
            "teach",
            "--federation",
            str(town.folder),
            "--learner",
            "logistic",
            "--C",
            "0.5",
            "--goal",
            "perturbed",
            "--promise",
            "open",
        ),
        *("--goal-seed", "3", "--method", "match", "--budget", "90", "--seed", "7"),
        *("--out", str(out), "--json"),
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout), out


def test_the_federation_teaches_the_same_lesson_to_the_last_bit(result, expected):
    """Model, risk, consistency, path and ledger are those of the in-process engine."""
    stored, out = result
    lesson, chosen, _ = expected
    there = st.Lesson.load(out / "lesson.json")
    assert there.model.tobytes() == lesson.model.tobytes()
    assert (there.risk, there.consistency, there.size) == (lesson.risk, lesson.consistency, lesson.size)
    assert [(e.query, e.bytes_in, e.bytes_out) for e in there.ledger] == [
        (e.query, e.bytes_in, e.bytes_out) for e in lesson.ledger
    ]
    assert {entry["teacher"]: entry["rows"] for entry in stored["files"]} == {
        name: len(rows) for name, rows in chosen.items()
    }
    assert sorted(path.name for path in out.iterdir()) == ["lesson.json", "model.json", "report.html"]
    assert stored["teachers"] == list(TEACHERS)


def test_every_teacher_has_its_own_chosen_rows(result, expected, town, data):
    """Row numbers (or whole rows, where the policy says so) lie in the teacher's folder and nowhere else."""
    stored, _ = result
    _, chosen, _ = expected
    for name in ("north", "west"):
        written = (town.kit(name) / "chosen" / f"{stored['lesson']}.csv").read_text().split()
        assert [int(number) for number in written[1:]] == chosen[name].tolist()
    rows = parquet.read_table(town.kit("south") / "chosen" / f"{stored['lesson']}.parquet")
    everything = parquet.read_table(data.files["south"])
    assert rows.equals(everything.take(chosen["south"]))
    for name in TEACHERS:
        assert [p.name for p in (town.kit(name) / "chosen").iterdir() if p.name.startswith(".")] == []


def contents(folder: Path) -> bytes:
    """Every byte under a folder, archives unpacked."""
    found = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        data = path.read_bytes()
        found.append(data)
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                found += [archive.read(name) for name in archive.namelist()]
    return b"\n".join(found)


def test_nothing_of_a_row_reaches_the_coordinator(result, expected, town, data):
    """No value, number or score of a row is in any byte that the coordinator received, wrote or logged."""
    _, out = result
    lesson, chosen, private = expected
    received = (town.home / "tap.bin").read_bytes()
    written = contents(town.folder / "server") + contents(town.folder / "coordinator") + contents(out)
    written += town.said("server").encode()
    both = received + written
    # The tap sees what travels: the Census of every teacher is in it, as it was sent.
    for name in TEACHERS:
        assert np.array([ROWS, np.count_nonzero(data.y[name])], float).tobytes() in received

    rows = [*(X.ravel() for X in data.X.values()), *(array.ravel() for array in private)]
    public = [*lesson.model, *lesson.goal]
    assert numbers_found(both, np.concatenate(rows), public) == []
    assert rows_found(both, chosen.values()) == []


def test_both_sides_kept_their_records(result, expected, town):
    """The audit log has a line for every round, with sizes and without values; the teacher was told of the lesson."""
    stored, _ = result
    lesson, _, _ = expected
    for name in TEACHERS:
        entries = [entry for entry in town.audit(name) if entry.get("lesson") == stored["lesson"]]
        assert [entry["kind"] for entry in entries] == ["hello", "agree", *["ask"] * lesson.rounds, "finish"]
        asked = [entry for entry in entries if entry["kind"] == "ask"]
        assert [entry["query"] for entry in asked] == [entry.query for entry in lesson.ledger]
        assert {entry["coordinator"] for entry in entries} == {town.project.coordinator}
        assert {entry["verdict"] for entry in entries} == {"answered"}
        allowed = {
            "time",
            "coordinator",
            "bytes_in",
            "bytes_out",
            "kind",
            "shape",
            "query",
            "lesson",
            "number",
            "verdict",
            "seconds",
            "promise",
        }
        assert set().union(*entries) <= allowed
        assert f"lesson {stored['lesson']} is over" in town.said(name)


def test_status_tells_who_is_there(result, town):
    """All three teachers are connected, and the lesson is on record."""
    stored, _ = result
    run = town.run("status", str(town.folder), "--json")
    told = json.loads(run.stdout)
    assert sorted(told["connected"]) == sorted(TEACHERS)
    assert {"lesson": stored["lesson"], "status": "FINISHED:COMPLETED"}.items() <= told["lessons"][0].items()
