"""Words of the command line and of the report: numbers agree with their nouns, and nothing speaks Python."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from superteach.exceptions import counted
from superteach.report import page_of
from superteach.report.words import interruption
from tests.end_to_end.orders import USUAL, assert_refused, command, contents, files_of, run

_WRONG = re.compile(r"(?<![\d,.])1 (?:rows|teachers|questions|queries|columns|figures|rounds|sizes)\b")


def test_numbers_agree_with_their_nouns() -> None:
    assert [counted(number, "rows") for number in (0, 1, 2, 1000)] == ["0 rows", "1 row", "2 rows", "1,000 rows"]
    assert [counted(number, "queries", "query") for number in (1, 2)] == ["1 query", "2 queries"]
    facts = {"teacher": "a", "round": 3, "when": "now", "why": "gone", "then": "resumed"}
    assert "; 1 question was asked a second time." in interruption({**facts, "asked_again": 1})
    assert "; 2 questions were asked a second time." in interruption({**facts, "asked_again": 2})


@pytest.mark.long(every=2)
def test_one_teacher_is_one_teacher(pool: Path, tmp_path: Path) -> None:
    """On the screen, and in every page that a lesson of one teacher leaves."""
    told = run("teach", files_of(pool)[0], *USUAL, "--budget", "20", "--out", tmp_path / "out")
    again = run("report", tmp_path / "out")
    shown = run("demo", "--rows", "200", "--teachers", "1", "--out", tmp_path / "demo")
    assert (told.exit_code, again.exit_code, shown.exit_code) == (0, 0, 0), told.output + again.output + shown.output
    page = re.sub(r"<[^>]+>", "", (tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    for text in (told.stdout, again.stdout, shown.stdout, page):
        assert not _WRONG.search(text), _WRONG.search(text)
    assert "between 1 teacher and coordinator" in told.stdout
    assert "1 teacher holds 200 rows" in page
    assert shown.stdout.startswith("1 teacher holds 200 rows")


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ("0.1:0.4", "from 10\u202f% to 40\u202f% of the rows, whichever"),
        ("20:80", "from 20 to 80 rows, whichever"),
        ("0.1", "was to have 10\u202f% of the rows."),
        ("30", "was to have 30 rows."),
    ],
)
def test_budgets_in_words(pool: Path, tmp_path: Path, budget: str, words: str) -> None:
    order = ["teach", *files_of(pool), *USUAL, "--method", "random", "--budget", budget, "--out", tmp_path / "out"]
    assert run(*order).exit_code == 0
    assert words in contents(tmp_path)["out/report.html"]


def test_a_report_of_one_row_agrees(pool: Path, tmp_path: Path) -> None:
    from superteach.lesson import Lesson

    assert run("teach", *files_of(pool), *USUAL, "--budget", "20", "--out", tmp_path / "out").exit_code == 0
    stored = json.loads((tmp_path / "out" / "lesson.json").read_text())
    stored["settings"]["budget"], stored["pool_rows"] = 1, 1
    (tmp_path / "one.json").write_text(json.dumps(stored))
    text = page_of(Lesson.load(tmp_path / "one.json")).html()
    assert 'hold <data value="1">1</data> row between them' in text
    assert "was to have 1 row." in text


PYTHON = re.compile(r"np\.|numpy|\w=\(|\w='|\w=\w|\bNone\b|\bTrue\b|\bint\b|[A-Z]\w+\(")
"""What only a programmer reads without a stop."""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--budget", "0.4:0.1"], "--budget 0.4:0.1"),
        (["--budget", "5000"], "--budget 5000 rows is more than the 600 rows"),
        (["--budget", "1.5"], "--budget 1.5 is not a fraction"),
        (["--C", "0"], "--C 0"),
        (["--restarts", "0"], "--restarts 0"),
        (["--privacy", "isolated", "--budget", "best"], "--privacy isolated"),
        (["--privacy", "isolated", "--budget", "40"], "--goal perturbed is fitted on the teachers' rows"),
        (["--method", "match", "--solver", "block", "--budget", "40"], "--solver block does not go with --method match"),
        (["--learner", "ridge", "--goal", "max-auc"], "--goal max-auc needs a classifier"),
        (["--budget", "smallest", "--risk-target", "1e-12", "--method", "random"], "--risk-target 1e-12"),
        (["--seed", "-1"], "--seed -1"),
        (["--epsilon", "0"], "--epsilon 0"),
    ],
)  # fmt: skip
def test_no_error_of_the_command_line_speaks_python(pool: Path, tmp_path: Path, options: list[str], words: str) -> None:
    refused = run("teach", *files_of(pool), *USUAL, *options, "--out", tmp_path / "out")
    assert_refused(refused, words)
    assert not PYTHON.search(refused.stderr), refused.stderr


def test_labels_are_plain_in_errors(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((20, 2))
    pyarrow.csv.write_csv(pa.table({"a": rows[:, 0], "b": rows[:, 1], "label": np.ones(20, int)}), tmp_path / "one.csv")
    refused = run("teach", tmp_path / "one.csv", *USUAL, "--out", tmp_path / "out")
    assert_refused(refused, "carry one class, 1;")
    two = pa.table({"a": rows[:, 0], "b": rows[:, 1], "label": np.arange(20) % 2})
    pyarrow.csv.write_csv(two, tmp_path / "two.csv")
    (tmp_path / "goal.json").write_text('{"coef": [1, 1], "classes": [3, 4]}')
    order = ["--target", "label", "--learner", "logistic", "--no-intercept", "--goal", tmp_path / "goal.json"]
    refused = run("teach", tmp_path / "two.csv", *order, "--out", tmp_path / "out")
    assert_refused(refused, "names 4 as the positive label, and the rows have [0, 1]")


@pytest.mark.parametrize(
    "content",
    [bytes(range(256)) * 20, b"\xff\xfea\x00,\x00b\x00\n\x00", b"a,b,label\n1,2,0\n\x01\x02\xfe\x1b[31m,3\n1,2,1\n"],
    ids=["anything", "UTF-16", "further down"],
)
def test_a_binary_file_named_csv_prints_no_bytes(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "noise.csv").write_bytes(content)
    refused = run("teach", tmp_path / "noise.csv", *USUAL, "--out", tmp_path / "out")
    assert_refused(refused, "noise.csv")
    assert refused.stderr.rstrip("\n").isprintable()


@pytest.mark.slow
def test_badly_scaled_columns_bring_no_foreign_warnings(tmp_path: Path) -> None:
    """A lesson, or one line that says what to do; nothing of NumPy's before it."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    columns = {f"x{number}": data.data[:, number] for number in range(5)}
    pyarrow.csv.write_csv(pa.table({**columns, "label": data.target, "site": np.arange(569) % 3}), tmp_path / "own.csv")
    order = ["--owner", "site", "--target", "label", "--learner", "logistic", "--goal", "perturbed", "--budget", "0.1"]
    ended = subprocess.run(
        command("teach", tmp_path / "own.csv", *order, "--out", tmp_path / "out"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.fullmatch(r"(error: [^\n]+try --standardize\n)?", ended.stderr), ended.stderr
