"""`superteach report` on folders that `superteach teach` wrote, and the page that teach writes itself."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from superteach.cli import app
from superteach.datasets import make_classification_pool

TEACHERS = ["north & co", "<south>", "west"]


def run(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of three owners, not equally many each, in one file."""
    X, y, _ = make_classification_pool(600, 3, 3, 0)
    table = pd.DataFrame(X, columns=["age", "dose <mg>", "marker"])
    table["ill"] = np.where(y > 0, "yes", "no")
    table["owner"] = np.array(TEACHERS)[np.minimum(np.arange(600) // 150, 2)]
    place = tmp_path_factory.mktemp("pool") / "pool.csv"
    table.to_csv(place, index=False)
    return place


def teach(pool: Path, out: Path, *more: str) -> dict[str, Any]:
    order = [
        "--target",
        "ill",
        "--owner",
        "owner",
        "--learner",
        "logistic",
        "--no-intercept",
        "--goal",
        "perturbed",
    ]
    result = run("teach", pool, *order, "--out", out, "--json", *more)
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def test_teach_writes_a_page_with_what_its_files_say(pool: Path, tmp_path: Path) -> None:
    """Counts per teacher are those of the chosen files and of the input, names are those of the columns."""
    teach(pool, tmp_path / "out", "--method", "match", "--budget", "40")
    html = (tmp_path / "out" / "report.html").read_text()
    rows = re.findall(
        r'<th scope="row"><bdi>([^<]*)</bdi></th><td class="n"><data value="(\d+)">\d+</data></td>'
        r'<td class="n"><data value="(\d+)">\d+</data></td>',
        html,
    )
    stored = json.loads((tmp_path / "out" / "lesson.json").read_text())
    expected = []
    for entry in stored["files"]:
        chosen = (tmp_path / "out" / entry["chosen"]).read_text().splitlines()[1:]
        held = {TEACHERS[0]: "150", TEACHERS[1]: "150", TEACHERS[2]: "300"}[entry["teacher"]]
        name = entry["teacher"].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        expected.append((name, str(len(chosen)), held))
    assert rows == expected
    assert sum(int(count) for _, count, _ in rows) == 40
    assert "<bdi>dose &lt;mg&gt;</bdi>" in html
    assert "Predicting ill." in html


@pytest.mark.slow
def test_report_writes_page_and_figures_beside_the_lesson(pool: Path, tmp_path: Path) -> None:
    """Against another folder the paper's rule stands in the page, without it the page is the one that teach wrote."""
    teach(pool, tmp_path / "own", "--method", "dual")
    teach(pool, tmp_path / "rule", "--method", "dual", "--solver", "block")
    plain = (tmp_path / "own" / "report.html").read_text()
    result = run("report", tmp_path / "own", "--against", tmp_path / "rule", "--title", "Ill & <well>")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    names = ["coefficients", "objective", "sizes", "standardised", "teachers"]
    assert sorted(os.listdir(tmp_path / "own" / "figures")) == sorted(
        f"{name}.{kind}" for name in names for kind in ("png", "svg")
    )
    html = (tmp_path / "own" / "report.html").read_text()
    assert "paper's rule (block): objective" in html
    assert "<h1>Ill &amp; &lt;well&gt;</h1>" in html
    assert run("report", tmp_path / "own").exit_code == 0
    assert (tmp_path / "own" / "report.html").read_text() == plain
    # What a command wrote, a command may replace.
    teach(pool, tmp_path / "own", "--overwrite")
    assert "figures" not in os.listdir(tmp_path / "own")


@pytest.mark.slow
def test_the_demonstration_can_be_reported_too(tmp_path: Path) -> None:
    """A lesson.json without names of columns or counts by teacher still makes a page."""
    assert run("demo", "--rows", "400", "--out", tmp_path / "out").exit_code == 0
    assert run("report", tmp_path / "out").exit_code == 0
    assert "is not in a lesson" in (tmp_path / "out" / "report.html").read_text()


def test_what_is_no_lesson_is_refused(pool: Path, tmp_path: Path) -> None:
    """One line that names the folder and the fault; nothing is written."""
    teach(pool, tmp_path / "good", "--budget", "60")
    text = (tmp_path / "good" / "lesson.json").read_text()
    stored = json.loads(text)
    bad = {
        "missing": None,
        "empty": "",
        "a list": "[]",
        "cut": text[: len(text) // 2],
        "without a path": json.dumps({key: value for key, value in stored.items() if key != "path"}),
        "wrong counts": json.dumps(stored | {"files": [entry | {"rows": 1} for entry in stored["files"]]}),
        "strange files": json.dumps(stored | {"files": [1, 2]}),
    }
    for name, content in bad.items():
        place = tmp_path / name
        if content is not None:
            place.mkdir()
            (place / "lesson.json").write_text(content)
        result = run("report", place)
        assert result.exit_code == 2, (name, result.output, result.exception)
        assert re.fullmatch(r"error: [^\n]+\n", result.stderr), name
        assert content is None or os.listdir(place) == ["lesson.json"], name
    assert run("report", tmp_path / "good", "--against", tmp_path / "missing").exit_code == 2
