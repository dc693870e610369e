"""superteach reproduce: one scorer, cells that survive any end of a run, files that say the same twice."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score
from typer.testing import CliRunner

from superteach import Federation, Threads, teach
from superteach.cli import app
from superteach.exceptions import DataError, SettingError, TeachingError
from superteach_lab.commands.reproduce import TargetName
from superteach_lab.paper import bench, curves, plan, printed, tables, theorem, workers, writing
from superteach_lab.paper.plan import FULL, QUICK, Scale, Step
from superteach_lab.paper.run import TARGETS, chosen, run
from superteach_lab.records import Records

REAL = ("superconduct", "higgs", "acs_income", curves.BY_STATE)
TINY = Scale("quick", (200,), 2, 60, (200,), 200, REAL)


def make_small(monkeypatch):
    """The same work on a small scale: plans hold these numbers, so workers in other processes work by them too."""
    monkeypatch.setattr(theorem, "BATCH", 10)
    monkeypatch.setattr(tables, "ROUNDS", 5)
    monkeypatch.setattr(tables, "TEACHERS", (3,))
    monkeypatch.setattr(curves, "ROUNDS", 5)


@pytest.fixture
def few(monkeypatch):
    """The same work on a small scale."""
    make_small(monkeypatch)


@pytest.fixture
def undrawn(monkeypatch):
    """No figures, where they are not the matter: drawing takes longer than the rest."""
    monkeypatch.setattr(writing, "save_figure", lambda draw, size, stem: None)


def without_times(value):
    """The same, with every number of seconds taken out."""
    if isinstance(value, dict):
        return {key: without_times(entry) for key, entry in value.items() if key != "seconds"}
    return [without_times(entry) for entry in value] if isinstance(value, list) else value


def cells_of(folder):
    return [without_times(json.loads(line)) for line in folder.read_text().splitlines()]


# One scorer -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["logistic", "ridge"])
def test_walked_points_are_what_lessons_of_those_sizes_are(kind):
    """Risk and consistency at every size, against teach() with that budget and scikit-learn's fit on all rows."""
    pool = bench.synthetic(kind, 400, 4, 1)
    found = {point["size"]: point for point in bench.walked(pool, 33, method="dual")["points"]}
    goal = teach(Federation(Threads(pool.teachers)), pool.learner, pool.goal, budget=33).goal
    for size in (33, 60, 400):
        engine = Threads(pool.teachers)
        lesson = teach(Federation(engine), pool.learner, goal, method="dual", budget=size)
        rows = np.concatenate([t.ids[s.chosen] for t, s in zip(pool.teachers, engine.states(), strict=True)]).astype(
            int
        )
        engine.close()
        assert found[size]["risk"] == pytest.approx(lesson.risk, rel=1e-6)
        assert found[size]["consistency"] == pytest.approx(lesson.agreement, rel=1e-9)
        if kind == "logistic":
            model = LogisticRegression(C=1 / pool.learner.ridge, fit_intercept=False, tol=1e-10, max_iter=10_000)
        else:
            model = Ridge(alpha=pool.learner.ridge, fit_intercept=False)
        coef = np.ravel(model.fit(pool.X[rows], pool.y[rows]).coef_)
        wanted, reached = pool.X @ goal, pool.X @ coef
        agreement = np.mean((wanted > 0) == (reached > 0)) if kind == "logistic" else r2_score(wanted, reached)
        assert found[size]["risk"] == pytest.approx(np.linalg.norm(coef - goal), rel=1e-4)
        assert found[size]["consistency"] == pytest.approx(agreement, abs=1e-3)


def test_best_size_is_that_of_the_lowest_mean():
    """By hand: 20 rows win on average, 10 in one trial, 5 are not in every trial."""

    def trial(**risks):
        return {"points": [{"size": int(size[1:]), "risk": risk, "consistency": 1.0} for size, risk in risks.items()]}

    trials = [trial(n5=0.0, n10=0.1, n20=0.3), trial(n10=0.9, n20=0.5)]
    assert tables.best_size(trials) == 20
    line = tables.line_of(trials, 100, 20)
    assert (line["fraction"], line["risk"], line["trials"]) == (0.2, pytest.approx(0.4), 2)
    assert line["spread"] == pytest.approx(np.sqrt(0.02))
    assert tables.line_of(trials, 100, 7) is None
    nothing = tables.line_of([{"points": [], "reason": "time limit", "seconds": 5.0}], 100, None)
    assert (nothing["risk"], nothing["reason"], nothing["trials"]) == (None, "time limit", 0)


def test_above_the_optimum_of_either_sign():
    """A ridge objective may be negative."""
    assert curves.above_of(3.0, 2.0) == pytest.approx(0.5)
    assert curves.above_of(-1.0, -2.0) == pytest.approx(0.5)


def test_printed_tables():
    """Ten cells each, the sizes and teachers of the full run, and the paper's own claims about them."""
    wanted = [(rows, K) for rows in FULL.rows for K in tables.TEACHERS]
    assert list(printed.LOGISTIC) == list(printed.RIDGE) == wanted
    assert all(cell["dual"].fraction < 0.1 for cell in printed.LOGISTIC.values())
    assert all(cell["dual"].fraction < 0.4 for cell in printed.RIDGE.values())
    assert sum(cell["minlp"] is not None for cell in printed.LOGISTIC.values()) == 2


# Runs that end before their end -----------------------------------------------------------------------


def test_same_seeds_same_files(tmp_path, few, monkeypatch):
    """Every target, twice: cells, summaries and pages are the same but for times; figures once."""
    run(["all"], replace(TINY, trials=1), tmp_path / "one")
    monkeypatch.setattr(writing, "save_figure", lambda draw, size, stem: None)
    run(["all"], replace(TINY, trials=1), tmp_path / "two")
    for name in TARGETS:
        first, second = (tmp_path / place / name for place in ("one", "two"))
        assert cells_of(first / "cells.jsonl") == cells_of(second / "cells.jsonl")
        assert {path.suffix for path in first.iterdir()} == {".jsonl", ".json", ".png", ".svg"}
        summaries = [json.loads((folder / "summary.json").read_text()) for folder in (first, second)]
        for summary in summaries:  # the price is told in seconds too
            summary["verdict"] = [words for words in summary["verdict"] if not words.startswith("The price")]
        assert without_times(summaries[0]) == without_times(summaries[1])
        assert summaries[0]["versions"]["numpy"] == np.__version__
        assert summaries[0]["machine"]["cpus"] == os.cpu_count()
    page = (tmp_path / "one" / "results.md").read_text()
    assert all(target.title in page for target in TARGETS.values())
    assert os.uname().nodename not in page


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The cells of a small table that was done in one go."""
    place = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        patch.setattr(writing, "save_figure", lambda draw, size, stem: None)
        run(["table-logistic"], TINY, place)
    return cells_of(place / "table-logistic" / "cells.jsonl")


@pytest.mark.parametrize("after", [1, 6])
def test_an_interrupted_table_goes_on(tmp_path, few, undrawn, whole, after):
    """Stopped between cells, before and after the best size is known: the second run ends as if it had been one."""

    def stop(label, done, cells, part):
        if done == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(["table-logistic"], TINY, tmp_path / "halves", stop)
    done = cells_of(tmp_path / "halves" / "table-logistic" / "cells.jsonl")
    assert len(done) == after + 1
    run(["table-logistic"], TINY, tmp_path / "halves")
    assert cells_of(tmp_path / "halves" / "table-logistic" / "cells.jsonl") == whole


SCRIPT = """
from pathlib import Path
from superteach_lab.paper import tables, writing
from superteach_lab.paper.plan import Scale
from superteach_lab.paper.run import run
tables.ROUNDS, tables.TEACHERS = 5, (3,)
writing.save_figure = lambda draw, size, stem: None
run(["table-logistic"], Scale("quick", (200,), 2), Path({place!r}), workers=2)
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_a_killed_run_goes_on(tmp_path, end, whole):
    """A real run with two workers, a real signal in the middle: what was kept stays, the end is that of one run."""
    whole = whole[1:]
    command = [sys.executable, "-c", SCRIPT.format(place=str(tmp_path / "halves"))]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    file = tmp_path / "halves" / "table-logistic" / "cells.jsonl"
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        wait_for(lambda: file.exists() and file.read_bytes().count(b"\n") >= 4)
        assert process.poll() is None
        process.send_signal(end)
        assert process.wait(20.0) != 0
    # The session was the run's own, so whoever is left in it is a worker.
    wait_for(lambda: not alive_in(process.pid))
    before = [json.loads(line) for line in file.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")][1:]
    assert 3 <= len(before) < len(whole)
    subprocess.run(command, env=environment, check=True, timeout=120)
    after = [json.loads(line) for line in file.read_text().splitlines()][1:]
    assert all(line in after for line in before), "a cell that was known was done again"
    assert without_times(after) == whole


def wait_for(done):
    """Poll for a minute at most."""
    limit = time.monotonic() + 60.0
    while not done():
        assert time.monotonic() < limit
        time.sleep(0.01)


def alive_in(session):
    """Processes of a session that still run."""
    return [
        status
        for status in Path("/proc").glob("[0-9]*/stat")
        if (fields := _fields(status)) and fields[3] == str(session) and fields[0] != "Z"
    ]


def _fields(status):
    """State, parent, group, session … of a process, or nothing where it has just ended."""
    try:
        return status.read_text().rpartition(")")[2].split()
    except OSError:
        return []


def test_workers_change_nothing_but_times(tmp_path, few, undrawn):
    """Cells of all kinds by two processes, in the order of the plan: the same as by one."""
    for count in (1, 2):
        run(["table-ridge"], replace(TINY, trials=1), tmp_path / str(count), workers=count)
    one, two = (cells_of(tmp_path / str(count) / "table-ridge" / "cells.jsonl") for count in (1, 2))
    assert one[0]["settings"] == two[0]["settings"], "a run of two workers can go on with one"
    assert one[1:] == two[1:]
    assert len(one) > 10


def fails(words):
    """Work that cannot be done."""
    raise DataError(words)


def vanishes():
    """Work that takes its process with it."""
    os._exit(3)


@pytest.mark.parametrize(
    ("work", "said"),
    [(partial(fails, "no rows"), "no rows"), (vanishes, "exit 3"), (partial(int, "x"), "ValueError.*Traceback")],
)
def test_a_worker_that_fails_ends_the_run_with_its_words(tmp_path, work, said):
    records = Records(tmp_path / "cells.jsonl", {})
    tasks = [(Step({"number": number}, 1.0, work), records) for number in range(2)]
    with pytest.raises(TeachingError, match=re.compile(said, re.DOTALL)):
        list(workers.finished(tasks, 2, lambda step: None))


def test_a_step_waits_for_what_it_needs(tmp_path):
    """Handed out only once its need is kept, though a worker is idle."""
    records = Records(tmp_path / "cells.jsonl", {})

    def needs(kept):
        return {"size": kept.get({"number": 0}, dict)["size"]} if {"number": 0} in kept else None

    tasks = [
        (Step({"number": 1}, 1.0, dict, needs), records),
        (Step({"number": 0}, 1.0, partial(dict, size=7)), records),
    ]
    order = []
    for (step, kept), result in workers.finished(tasks, 2, lambda step: None):
        order.append(step.cell["number"])
        kept.put(step.cell, result)
    assert order == [0, 1]
    assert records.get({"number": 1}, dict)["size"] == 7


def test_other_settings_are_refused(tmp_path, few, undrawn):
    """A folder of another run is left alone."""
    run(["theorem"], TINY, tmp_path)
    with pytest.raises(SettingError, match="other settings"):
        run(["theorem"], replace(TINY, trials=3), tmp_path)


def test_headway_is_told(tmp_path, few, undrawn):
    """Cells and the part of all work, from none to all; a run that has nothing to do says so at once."""
    states = []
    run(["theorem"], TINY, tmp_path, lambda *state: states.append(state))
    assert states[0][1:] == (0, 6, 0.0)
    assert states[-1][1:3] == (6, 6)
    parts = [state[3] for state in states]
    assert parts == sorted(parts)
    assert parts[-1] == pytest.approx(1.0)
    again = []
    run(["theorem"], TINY, tmp_path, lambda *state: again.append(state))
    assert {state[1] for state in again} == {6}


# What is said -----------------------------------------------------------------------------------------


def test_a_data_set_that_is_not_there_is_named(tmp_path, few, undrawn, monkeypatch):
    """No file, no figure of it, and a sentence that says why."""
    from superteach_lab import data as datasets

    def absent(**_):
        raise DataError("higgs.csv is not here; see the publisher's page")

    for name in bench.REAL:
        monkeypatch.setattr(datasets, f"load_{name}", absent)
    bench.published.cache_clear()
    others = tuple(name for name in REAL if name != "higgs")
    said = run(["figure-risk"], replace(TINY, left_out=("ridge", *others)), tmp_path)
    assert "HIGGS subset, logistic: not drawn (higgs.csv is not here" in said[0]
    records = Records(tmp_path / "figure-risk" / "cells.jsonl", json.loads(
        (tmp_path / "figure-risk" / "cells.jsonl").read_text().splitlines()[0])["settings"])  # fmt: skip
    assert any("missing" in one for one in records)


@pytest.mark.filterwarnings("ignore:.*cut short:UserWarning")
def test_another_file_of_a_data_set_is_computed_anew(tmp_path, few, undrawn, monkeypatch):
    """A file that comes later, or changes, is seen; one that is as it was, wherever it lies, is not computed again."""
    from superteach_lab.data.catalogue import SUPERCONDUCT_FEATURES

    scale = replace(TINY, left_out=("logistic", "ridge", *(name for name in REAL if name != "superconduct")))
    place, home = tmp_path / "out", tmp_path / "data"

    def deal(folder, shift):
        folder.mkdir(exist_ok=True)
        numbers = np.random.default_rng(0).standard_normal((400, 82)).round(3)
        numbers[0, 0] += shift
        head = ",".join([*SUPERCONDUCT_FEATURES, "critical_temp"])
        np.savetxt(folder / "train.csv", numbers, fmt="%.17g", delimiter=",", header=head, comments="")

    def found(folder):
        monkeypatch.setenv("SUPERTEACH_DATA", str(folder))
        bench.published.cache_clear()
        run(["figure-objective"], scale, place)
        summary = json.loads((place / "figure-objective" / "summary.json").read_text())
        lines = (place / "figure-objective" / "cells.jsonl").read_text().splitlines()[1:]
        optimum = [one["newton"]["objective"][-1] for one in summary["numbers"]["traces"].values()]
        return " ".join(summary["verdict"]), optimum, len(lines)

    home.mkdir()
    assert "not drawn" in found(home)[0]
    deal(home, 0.0)
    first = found(home)
    deal(tmp_path / "elsewhere", 0.0)
    same = found(tmp_path / "elsewhere")
    deal(home, 2.0)
    other = found(home)
    assert "not drawn" not in first[0]
    assert [first[2], same[2], other[2]] == [4, 4, 6]
    assert same == first
    assert other[1] != first[1]


def test_docs_are_published(tmp_path, few):
    """results.md with figures that are where it says."""
    run(["theorem"], TINY, tmp_path / "out", docs=tmp_path / "docs")
    page = (tmp_path / "docs" / "results.md").read_text()
    assert "images/results/theorem-bounds.png" in page
    assert (tmp_path / "docs" / "images" / "results" / "theorem-bounds.png").stat().st_size > 1000


def test_command_line(tmp_path, few, undrawn, monkeypatch):
    """Names, bad names, and what is printed."""
    monkeypatch.setattr(plan, "QUICK", TINY)
    monkeypatch.chdir(tmp_path)
    assert {name.value for name in TargetName} == {*TARGETS, "all"}
    done = CliRunner().invoke(app, ["reproduce", "theorem", "--quick", "--workers", "1"])
    assert done.exit_code == 0
    assert "Theorem 1 is false" in done.stdout
    assert (tmp_path / "reproduce-quick" / "results.md").exists()
    for wrong in (["reproduce", "theorems"], ["reproduce"]):
        assert CliRunner().invoke(app, wrong).exit_code == 2
    with pytest.raises(SettingError, match="not known"):
        chosen(["theorems"])


def test_scales():
    """What the two scales promise."""
    assert QUICK.trials == 3
    assert max(QUICK.rows) == 50_000
    assert FULL.trials == 10
    assert max(FULL.rows) == 500_000
    # Weights are seconds of one core; a run has two.
    seconds = {
        scale.name: sum(step.weight for target in TARGETS.values() for step in target.steps(scale)) / 2
        for scale in (QUICK, FULL)
    }
    assert seconds["full"] < 50 * 60
    assert seconds["quick"] < 5 * 60
