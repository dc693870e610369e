"""`superteach compare`, as a person runs it, stops it and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest

COMMAND = [sys.executable, "-m", "superteach", "compare", "--rows", "200", "--sizes", "0.1,0.2", "--seeds", "2"]


def run(*options, check=True):
    done = subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=240, check=False)
    assert not check or done.returncode == 0, done.stderr
    return done


def cells(folder):
    return [json.loads(line) for line in (folder / "cells.jsonl").read_text().splitlines()[1:]]


def untimed(records):
    return [{key: value for key, value in one.items() if key not in ("seconds", "cpu")} for one in records]


def children_of(pid):
    """Every process below one, by /proc."""
    found, parents = [], {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    waiting = [pid]
    while waiting:
        top = waiting.pop()
        below = [child for child, parent in parents.items() if parent == top]
        found += below
        waiting += below
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One run without an interruption: its folder and what it printed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    done = run("--methods", "random,match,dual", "--out", str(out), "--json")
    return out, done.stdout, done.stderr


def test_json_and_folder_say_the_same(whole):
    out, printed, errors = whole
    assert errors == ""
    assert sorted(path.name for path in out.iterdir()) == ["cells.jsonl", "compare.json", "figure.png", "figure.svg"]
    stored = json.loads(printed)
    assert stored == json.loads((out / "compare.json").read_text())
    assert stored["settings"]["rows"] == 200
    lines = {(line["contestant"], line["size"]): line for line in stored["lines"]}
    assert len(lines) == 6
    by_hand = sorted(one["risk"] for one in cells(out) if one["cell"]["contestant"] == "match" and one["size"] == 40)
    assert lines["match", 40]["risk"][1] == pytest.approx(sum(by_hand) / 2)
    assert lines["match", 40]["risk"][1] < lines["random", 40]["risk"][1]


@pytest.mark.parametrize(("blow", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_stopped_run_goes_on_and_ends_with_the_same_cells(whole, tmp_path, blow, status):
    """What was finished stays as it was, nothing is left running, and the end is that of a run never stopped."""
    out = tmp_path / "run"
    options = ["--methods", "random,match,dual", "--out", str(out)]
    started = subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120.0
    while time.monotonic() < deadline and started.poll() is None:
        if (out / "cells.jsonl").exists() and len((out / "cells.jsonl").read_text().splitlines()) > 3:
            break
        time.sleep(0.02)
    below = children_of(started.pid)
    started.send_signal(blow)
    _, errors = started.communicate(timeout=60)
    assert started.returncode == status
    if blow == signal.SIGINT:
        assert "the same command goes on from there" in errors
        assert errors.endswith("error: interrupted\n")
    finished = cells(out)
    assert 3 <= len(finished) < 12
    for _ in range(200):
        left = [pid for pid in below if _runs(pid)]
        if not left:
            break
        time.sleep(0.05)
    assert not left
    run(*options)
    assert cells(out)[: len(finished)] == finished
    assert untimed(cells(out)) == untimed(cells(whole[0]))


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_the_table_and_the_list(whole, capsys):
    from superteach.cli import app

    finished = (whole[0] / "cells.jsonl").read_bytes()
    for options in ([*COMMAND[4:], "--methods", "random,match,dual", "--out", str(whole[0])], ["--methods", "list"]):
        with pytest.raises(SystemExit) as ended:
            app(["compare", *options], prog_name="superteach")
        assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "logistic, K = 5: medians over seeds" in shown
    assert len([line for line in shown.splitlines() if line.startswith("match  ") and " % " in line]) == 2
    assert "central search by swaps, a few starts; needs all rows in one place, the goal" in shown
    assert (whole[0] / "cells.jsonl").read_bytes() == finished


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--methods", "best"], "contestant 'best' is not known"),
        (["--sizes", "a"], "--sizes 'a' is not a list of numbers"),
        (["--sizes", "500"], "neither a fraction of 200 rows nor a count"),
        (["--learner", "poisson"], "give files"),
        (["--target", "y"], "go with files"),
        (["--standardize"], "go with files"),
        (["rows.csv", "--target", "y", "--goal", "best"], "goal 'best' is not known"),
        (["--time-limit", "0"], "must be a positive number of seconds"),
        (["--teachers", "2.5"], "must be whole numbers"),
        (["rows.csv"], "--target is missing"),
    ],
)
def test_bad_options_are_one_line_and_status_2(options, words, capsys):
    from superteach.cli import app

    with pytest.raises(SystemExit) as ended:
        app(["compare", "--rows", "200", *options], prog_name="superteach")
    assert ended.value.code == 2
    errors = capsys.readouterr().err
    assert words in errors
    assert errors.count("\n") == 1


def test_a_folder_of_somebody_elses_is_left_alone(tmp_path, capsys):
    from superteach.cli import app

    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(SystemExit) as ended:
        app(["compare", "--out", str(tmp_path)], prog_name="superteach")
    assert ended.value.code == 2
    assert "holds 'thesis.txt'" in capsys.readouterr().err


def test_files_of_ones_own(tmp_path):
    """Two owners' CSV files, a learner with an intercept, a skipped contestant with its reason."""
    import numpy as np

    draw = np.random.default_rng(0)
    for name in ("north", "south"):
        X = draw.standard_normal((60, 2))
        y = (X[:, 0] + draw.standard_normal(60) > 0).astype(int)
        lines = [f"{a},{b},{c}" for (a, b), c in zip(X, y, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["u,v,ill", *lines]) + "\n")
    files = [str(tmp_path / f"{name}.csv") for name in ("north", "south")]
    command = [
        sys.executable,
        "-m",
        "superteach",
        "compare",
        *files,
        "--target",
        "ill",
        "--sizes",
        "20",
        "--seeds",
        "1",
    ]
    done = subprocess.run(
        [*command, "--methods", "match,block,random", "--json"], capture_output=True, text=True, timeout=240, check=True
    )
    lines = {line["contestant"]: line for line in json.loads(done.stdout)["lines"]}
    assert lines["match"]["risk"][1] < lines["random"]["risk"][1]
    assert lines["block"]["risk"] is None
    assert "no unpenalised intercept" in lines["block"]["reasons"][0]


def test_a_small_table_has_sizes_of_two_rows_and_more(tmp_path, capsys):
    """Without --sizes: 1 % of 30 rows would be none."""
    from superteach.cli import app

    lines = [f"{row % 7},{row % 3},{row % 2}" for row in range(30)]
    (tmp_path / "rows.csv").write_text("\n".join(["u,v,ill", *lines]) + "\n")
    with pytest.raises(SystemExit) as ended:
        app(["compare", str(tmp_path / "rows.csv"), "--target", "ill", "--methods", "random", "--seeds", "1", "--json"])
    assert ended.value.code == 0
    assert {line["size"] for line in json.loads(capsys.readouterr().out)["lines"]} == {3, 9}


@pytest.mark.parametrize("sizes", [(24, 48, 60), (12, 24, 48, 120, 360), (50,), (6, 12, 18, 24, 30, 36, 42, 48)])
def test_labels_of_the_figure_do_not_overlap(sizes, tmp_path, monkeypatch):
    """Whatever sizes were asked for, and however near to each other risks and times lie."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from superteach_lab.compare.bench import Line
    from superteach_lab.compare.figure import draw

    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    lines = [
        Line("logistic", 5, name, size, size / 1200, 3, (0.9 * risk, risk, 1.1 * risk), 0.9, cpu, cpu, (), {})
        for name, level in (("random", 1.2), ("match", 0.9))
        for place, size in enumerate(sizes)
        for risk, cpu in [(level * (1.1 - 0.1 * place), 0.02 + 0.01 * place)]
    ]
    draw(lines, tmp_path)
    canvas = FigureCanvasAgg(drawn[0])
    canvas.draw()
    for panel in drawn[0].axes:
        for which, lowest, highest in ((panel.xaxis, "x0", "x1"), (panel.yaxis, "y0", "y1")):
            ticks = [*which.get_major_ticks(), *which.get_minor_ticks()]
            texts = [tick.label1 for tick in ticks if tick.label1.get_text() and tick.label1.get_visible()]
            boxes = sorted((text.get_window_extent() for text in texts), key=lambda box: getattr(box, lowest))
            assert len(boxes) > 1
            for first, second in pairwise(boxes):
                assert getattr(first, highest) < getattr(second, lowest)


def test_files_on_standardised_columns_with_every_goal(tmp_path):
    """The referee's risk is in raw units, as teach's is, for each goal that teach knows."""
    import numpy as np

    from superteach.cli import app

    draw = np.random.default_rng(0)
    X = draw.standard_normal((80, 2)) * [1.0, 50.0] + [3.0, 0.0]
    y = (X[:, 0] + draw.standard_normal(80) > 3.0).astype(int)
    for name, rows in (("north", slice(0, 60)), ("mine", slice(60, 80))):
        lines = [f"{a},{b},{c}" for (a, b), c in zip(X[rows], y[rows], strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["u,v,ill", *lines]) + "\n")
    usual = [str(tmp_path / "north.csv"), "--target", "ill", "--learner", "logistic", "--standardize"]
    for goal in ("max-auc", f"from-data:{tmp_path / 'mine.csv'}"):
        out, taught = tmp_path / "bench", tmp_path / "taught"
        for order in (
            ["compare", *usual, "--goal", goal, "--methods", "full pool,match", "--sizes", "20", "--seeds", "1",
             "--out", str(out)],
            ["teach", *usual, "--goal", goal, "--budget", "20", "--overwrite", "--out", str(taught)],
        ):  # fmt: skip
            with pytest.raises(SystemExit) as ended:
                app(order, prog_name="superteach")
            assert ended.value.code == 0
        lesson = json.loads((taught / "lesson.json").read_text())
        scored = {one["cell"]["contestant"]: one["risk"] for one in cells(out)}
        assert scored["full pool"] == pytest.approx(lesson["pool_risk"], rel=1e-6)
        assert scored["match"] < scored["full pool"]
        for path in out.iterdir():
            path.unlink()
