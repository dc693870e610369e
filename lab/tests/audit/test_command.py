"""`superteach audit` from the command line to the page, on the synthetic pool and on tables of one's own."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from superteach.exceptions import BudgetError, GoalError, SettingError, TeachingError
from superteach.privacy.ledger import Ledger
from superteach_lab.audit import attacks, run
from superteach_lab.audit.subject import Subject
from superteach_lab.commands import audit as command

WORDS = (
    "What left each owner", "Attacks that were tried", "does not cover", "ε claimed", "found out", "recovered no row",
    "What the table has spent", "half of the noise", "1 of 1 row recovered", "A claim like this can be tested",
)  # fmt: skip


class Balanced(HTMLParser):
    """Counts open elements."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br", "col", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def table(tmp_path):
    """Two hospitals' patients in raw units: years, mmHg and a code; most of them well. And a goal by name."""
    draw = np.random.default_rng(3)
    age, pressure, code = draw.normal(54, 9, 160), draw.normal(131, 18, 160), draw.integers(0, 4, 160)
    ill = 0.07 * (age - 54) + 0.02 * (pressure - 131) + 0.5 * code + draw.logistic(size=160) > 2.0
    X = np.column_stack([age.round(1), pressure.round(), code])
    for number, some in enumerate(np.split(np.arange(160), [90])):
        lines = [",".join(map(str, [*X[row], "ill" if ill[row] else "well"])) for row in some]
        (tmp_path / f"{number}.csv").write_text("\n".join(["age,pressure,code,state", *lines]) + "\n")
    fitted = LogisticRegression(max_iter=10_000).fit(X, ~ill)  # classes are sorted: "well" is the positive one
    coef = dict(zip(["age", "pressure", "code"], fitted.coef_[0].tolist(), strict=True))
    (tmp_path / "goal.json").write_text(json.dumps({"coef": coef, "intercept": float(fitted.intercept_[0])}))
    return [str(tmp_path / f"{number}.csv") for number in range(2)], str(tmp_path / "goal.json")


def ordered(table, *more):
    files, goal = table
    order = [*files, "--target", "state", "--goal", goal, "--runs", "100", "--workers", "1", *map(str, more)]
    return CliRunner().invoke(command.app, order, catch_exceptions=False)


def text_of(place: Path) -> str:
    html = place.read_text(encoding="utf-8")
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", html, flags=re.S)))


@pytest.mark.parametrize("more", [(), ("--standardize",)])
def test_a_table_in_raw_units_is_audited_in_every_mode(more, table, tmp_path):
    place = tmp_path / "new folder" / "page.html"
    Ledger(tmp_path / "ledger", 2.0, 1e-6).pay("first", 0.2, {})
    done = ordered(table, *more, "--ledger", tmp_path / "ledger", "--out", place, "--json")
    told = json.loads(done.output)
    assert done.exit_code == 0, told
    assert [one["privacy"] for one in told["modes"]] == ["isolated", "dp", "none"]
    assert not any(attack["failed"] for one in told["modes"] for attack in one["attacks"])
    assert [bool(one["rows"]) for one in told["modes"]] == [False, False, True]
    assert all(one["caught"] for one in told["epsilon"]["variants"])
    checker = Balanced()
    checker.feed(place.read_text(encoding="utf-8"))
    assert checker.open == []
    page = text_of(place)
    assert [words for words in WORDS if words not in page] == []
    assert not re.search(r"\bnan\b|BROKEN|WRONG|\bNO\b", page)
    assert "160 rows of 2 owners, 3 columns; a lesson of 16 rows" in page
    assert ("standardised columns" in page) == bool(more)


def test_standardised_columns_are_scikit_learns_and_the_goal_is_the_same_model():
    draw = np.random.default_rng(0)
    X = draw.standard_normal((50, 3)) * [1.0, 40.0, 0.01] + [5.0, -3.0, 0.0]
    X[:, 2] = 7.0  # a constant column
    y = np.where(draw.standard_normal(50) > 0.0, 1.0, -1.0)
    goal = np.array([0.5, -0.02, 0.3, 0.25])
    scaled = Subject.dealt(X, y, 2, LogisticRegression(), goal, 10, "table").standardised()
    np.testing.assert_allclose(scaled.rows, StandardScaler().fit_transform(X), atol=1e-12)
    np.testing.assert_allclose(scaled.rows @ scaled.goal[:-1] + scaled.goal[-1], X @ goal[:-1] + goal[-1], rtol=1e-10)
    plain = Subject.dealt(X, y, 2, LogisticRegression(fit_intercept=False), goal[:-1], 10, "table").standardised()
    np.testing.assert_allclose(plain.rows @ plain.goal, X @ goal[:-1], rtol=1e-10)  # not centred


def test_an_attack_that_fails_is_a_line_of_the_page(table, tmp_path, monkeypatch):
    """Whatever it raises; the other attacks are as they were, and the status says that something was not tried."""

    def fails(*_, **__):
        raise ZeroDivisionError("by nothing")

    def refuses(*_, **__):
        raise TeachingError("not with these rows")

    monkeypatch.setattr(attacks, "work_out_chosen", fails)
    monkeypatch.setattr(attacks, "silence", refuses)
    monkeypatch.setattr(run, "account", fails)
    order = "--privacy", "isolated", "--privacy", "dp", "--out"
    done = ordered(table, *order, tmp_path / "page.html", "--json")
    assert done.exit_code == 1
    told = json.loads(done.output)
    failed = [attack["attack"] for attack in told["modes"][0]["attacks"] if attack["failed"]]
    assert failed == [attacks.CHOSEN, attacks.TABLES]
    assert "by nothing" in told["unmeasured"]
    page = text_of(tmp_path / "page.html")
    assert "Could not be run: ZeroDivisionError: by nothing." in page
    assert "6 attacks were tried (2 more could not be run" in page
    assert "ε was not measured: " in page
    shown = ordered(table, "--privacy", "isolated", "--out", tmp_path / "table.html").output
    assert shown.count("not run") == 2


def test_a_mode_that_refuses_the_table_is_told_and_others_go_on(table, tmp_path):
    done = ordered(
        table, "--budget", "0.95", "--privacy", "isolated", "--privacy", "none", "--out", tmp_path / "page.html"
    )
    assert "isolated: no lesson was taught: --budget" in done.output
    assert "No lesson was taught" in text_of(tmp_path / "page.html")


@pytest.mark.parametrize(
    ("make", "more"),
    [
        (lambda place: place.mkdir(), []),
        (lambda place: place.write_text("my notes"), []),
        (lambda place: place.write_text("my notes"), ["--overwrite"]),
        (lambda place: place.parent.rmdir() or place.parent.write_text("a file"), []),
    ],
    ids=["a folder", "a file", "a file that is no page", "below a file"],
)
def test_a_place_that_cannot_be_written_is_told_before_any_work(make, more, table, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "_subject", lambda *_: pytest.fail("work has begun"))
    (tmp_path / "results").mkdir()
    place = tmp_path / "results" / "page.html"
    make(place)
    with pytest.raises(SettingError, match="--out"):
        ordered(table, *more, "--out", place)
    assert not place.is_file() or place.read_text() == "my notes"


def test_an_earlier_page_is_replaced_when_that_is_asked_for(table, tmp_path):
    place = tmp_path / "page.html"
    assert ordered(table, "--privacy", "none", "--out", place).exit_code == 0
    before = place.read_text(encoding="utf-8")
    with pytest.raises(SettingError, match="--overwrite"):
        ordered(table, "--privacy", "none", "--out", place)
    assert place.read_text(encoding="utf-8") == before
    assert ordered(table, "--privacy", "none", "--standardize", "--overwrite", "--out", place).exit_code == 0
    assert place.read_text(encoding="utf-8") != before


@pytest.mark.parametrize(
    ("more", "kind", "words"),
    [
        (["--goal", "perturbed"], SettingError, "public"),
        (["--goal", "nowhere.json"], GoalError, "does not exist"),
        (["--features", "age"], GoalError, "goal"),
        (["--epsilon", "-1"], SettingError, "epsilon"),
        (["--delta", "0.05"], SettingError, "delta"),
        (["--budget", "9000"], BudgetError, "9000"),
    ],
)
def test_wrong_orders_about_files(more, kind, words, table, tmp_path):
    with pytest.raises(kind, match=words):
        ordered(table, *more, "--out", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (["--privacy", "secret"], "--privacy 'secret' is not known"),
        (["--target", "y"], "go with files"),
        (["rows.csv", "--target", "y"], "--goal is missing"),
        (["--learner", "ridge"], "needs files"),
        (["--ledger", "nowhere"], "holds no ledger"),
    ],
)
def test_wrong_orders_are_told_apart(order, words, tmp_path):
    with pytest.raises(SettingError, match=re.escape(words)):
        CliRunner().invoke(command.app, [*order, "--out", str(tmp_path / "page.html")], catch_exceptions=False)
