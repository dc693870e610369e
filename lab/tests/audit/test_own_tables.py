"""`superteach audit` on tables of one's own: any units, any size of lesson, and a page whatever single attacks do."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from superteach.errors import BudgetError, GoalError, SettingError, TeachingError
from superteach_lab.audit import broken, crafted, membership, recovery
from superteach_lab.audit import run as whole
from superteach_lab.audit.transcript import Subject, listen, listen_few, with_enough_rows
from superteach_lab.commands import audit as command


@pytest.fixture
def table(tmp_path):
    """Three hospitals' patients in raw units: years, mmHg and a code; most of them well. And a goal by name."""
    draw = np.random.default_rng(3)
    age, pressure, code = draw.normal(54, 9, 240), draw.normal(131, 18, 240), draw.integers(0, 4, 240)
    ill = 0.07 * (age - 54) + 0.02 * (pressure - 131) + 0.5 * code + draw.logistic(size=240) > 2.0
    X = np.column_stack([age.round(1), pressure.round(), code])
    for number, some in enumerate(np.split(np.arange(240), [100, 190])):
        lines = [",".join(map(str, [*X[row], "ill" if ill[row] else "well"])) for row in some]
        (tmp_path / f"{number}.csv").write_text("\n".join(["age,pressure,code,state", *lines]) + "\n")
    fitted = LogisticRegression(max_iter=10_000).fit(X, ~ill)  # classes are sorted: "well" is the positive one
    coef = dict(zip(["age", "pressure", "code"], fitted.coef_[0].tolist(), strict=True))
    (tmp_path / "goal.json").write_text(json.dumps({"coef": coef, "intercept": float(fitted.intercept_[0])}))
    return [str(tmp_path / f"{number}.csv") for number in range(3)], str(tmp_path / "goal.json")


def ordered(table, *more):
    files, goal = table
    order = [*files, "--target", "state", "--goal", goal, "--runs", "200", *map(str, more)]
    return CliRunner().invoke(command.app, order, catch_exceptions=False)


def text_of(place):
    html = place.read_text(encoding="utf-8")
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>", "", html, flags=re.S)))


@pytest.mark.parametrize("more", [(), ("--standardize",)])
def test_a_table_in_raw_units_is_audited_under_every_promise(more, table, tmp_path):
    """Twenty lessons with other goals among it, of which some cannot be taught from few rows."""
    place = tmp_path / "new folder" / "page.html"
    done = ordered(table, *more, "--out", place, "--json")
    told = json.loads(done.output)
    assert done.exit_code == 0, told
    assert [one["promise"] for one in told["promises"]] == ["closed", "epsilon", "masked", "open"]
    assert not any(attack["failed"] for one in told["promises"] for attack in one["attacks"])
    assert [bool(one["rows"]) for one in told["promises"]] == [False, False, True, True]
    page = text_of(place)
    assert "240 rows of 3 owners, 3 columns; a lesson of" in page
    assert told["positive"] == "well"
    assert "The positive label is 'well'" in page.replace("&#x27;", "'")
    assert ("standardised columns" in page) == bool(more)


def test_standardised_columns_are_scikit_learns_and_the_goal_is_the_same_model():
    draw = np.random.default_rng(0)
    X = draw.standard_normal((50, 3)) * [1.0, 40.0, 0.01] + [5.0, -3.0, 0.0]
    X[:, 2] = 7.0  # a constant column
    y = np.where(draw.standard_normal(50) > 0.0, 1.0, -1.0)
    goal = np.array([0.5, -0.02, 0.3, 0.25])
    raw = Subject.dealt(X, y, 2, LogisticRegression(), goal, 10, "table")
    scaled = raw.standardised()
    np.testing.assert_allclose(scaled.rows, StandardScaler().fit_transform(X), atol=1e-12)
    np.testing.assert_allclose(scaled.rows @ scaled.goal[:-1] + scaled.goal[-1], X @ goal[:-1] + goal[-1], rtol=1e-10)
    plain = Subject.dealt(X, y, 2, LogisticRegression(fit_intercept=False), goal[:-1], 10, "table").standardised()
    np.testing.assert_allclose(plain.rows @ plain.goal, X @ goal[:-1], rtol=1e-10)  # not centred


def test_lessons_grow_until_they_can_be_taught(subject):
    one, tried = subject("synthetic"), []

    def work(some):
        tried.append(some.budget)
        if some.budget < 40:
            raise BudgetError("of one class")
        return some.budget

    assert with_enough_rows(one, 300, work) == tried[-1] >= 40
    assert tried == sorted(set(tried))
    with pytest.raises(BudgetError):
        with_enough_rows(one, 30, work)
    assert tried[-1] == 30


def test_few_rows_for_a_goal_to_one_side_carry_one_class_and_more_do_not():
    draw = np.random.default_rng(1)
    X, y = draw.standard_normal((300, 2)), np.where(draw.random(300) < 0.2, 1.0, -1.0)
    one = Subject.dealt(X, y, 3, LogisticRegression(), np.array([0.1, 0.1, -2.0]), 40, "rare")
    with pytest.raises(BudgetError, match="single class"):
        listen(one.small(), "open", rounding="alone")
    few, heard = listen_few(one)
    assert one.small().budget < few.budget == heard.lesson.settings["budget"] <= one.budget
    with pytest.raises(BudgetError):
        listen(replace(one, budget=1), "open")
    enough = replace(one, budget=1).workable()
    assert listen(enough, "open").lesson.size == enough.budget > 1


def test_goals_of_further_lessons_are_as_near_in_any_units():
    """The same predictions from scaled columns: so many rows are read from a table in raw units, too."""
    draw = np.random.default_rng(0)
    X = draw.standard_normal((40, 2)) * [3.0, 0.1] + [50.0, 2.0]
    one = Subject.dealt(X, np.where(X[:, 0] > 50.0, 1.0, -1.0), 2, LogisticRegression(), np.ones(3), 5, "table")
    model = np.array([0.5, -1.0, 0.25])
    raw = membership.in_raw_units(one, model)
    expected = StandardScaler().fit_transform(X) @ model[:2] + model[2]
    np.testing.assert_allclose(X @ raw[:2] + raw[2], expected, atol=1e-12)
    np.testing.assert_allclose(membership.in_own_units(one, raw), model, atol=1e-12)


def test_an_attack_that_fails_is_a_line_of_the_page(table, tmp_path, monkeypatch):
    """Whatever it raises; the other attacks are as they were, and the status says that something was not tried."""

    def fails(*_, **__):
        raise ZeroDivisionError("by nothing")

    def refuses(*_, **__):
        raise TeachingError("not with these rows")

    before = json.loads(ordered(table, "--promise", "closed", "--out", tmp_path / "before.html", "--json").output)
    monkeypatch.setattr(recovery, "from_totals", fails)
    monkeypatch.setitem(crafted.CRAFTED, "counts of ranks", fails)
    monkeypatch.setattr(membership, "many_lessons", refuses)
    done = ordered(table, "--promise", "closed", "--out", tmp_path / "page.html", "--json")
    assert done.exit_code == 1
    attacks = {one["attack"]: one for one in json.loads(done.output)["promises"][0]["attacks"]}
    failed = [name for name, one in attacks.items() if one["failed"]]
    assert failed == ["curvatures of all rows", "counts of ranks", "20 lessons"]
    assert [one for one in attacks.values() if not one["failed"]] == [
        one for one in before["promises"][0]["attacks"] if one["attack"] not in failed
    ]
    page = text_of(tmp_path / "page.html")
    assert page.count("Could not be run: ZeroDivisionError: by nothing.") == 2
    assert "Could not be run: not with these rows." in page
    assert f"{len(attacks) - 3} attacks were tried (3 more could not be run" in page
    shown = ordered(table, "--promise", "closed", "--out", tmp_path / "table.html").output
    assert shown.count("not run") == 3
    assert "by nothing" in shown


@pytest.mark.parametrize("name", ["canary", "account"])
def test_the_page_is_written_without_a_measured_epsilon(name, table, tmp_path, monkeypatch):
    def fails(*_, **__):
        raise FloatingPointError("no number")

    monkeypatch.setattr(whole, name, fails)
    order = "--promise", "epsilon", "--promise", "open", "--standardize", "--out", tmp_path / "page.html", "--json"
    done = ordered(table, *order)
    assert done.exit_code == 1
    told = json.loads(done.output)
    assert "no number" in told["unmeasured"]
    assert max(one["rows"] for one in told["promises"][1]["attacks"]) > 0
    assert "ε was not measured: " in text_of(tmp_path / "page.html")


def test_a_promise_that_refuses_the_table_is_told_and_others_go_on(table, tmp_path):
    files, goal = table
    done = ordered((files[:2], goal), "--promise", "masked", "--promise", "closed", "--out", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    assert "masked: no lesson was taught: --promise masked needs at least 3 teachers" in done.output
    page = text_of(tmp_path / "page.html")
    assert "No lesson was taught" in page
    assert "and recovered no row" in page


def test_a_broken_variant_that_cannot_be_run_is_told(subject, heard, monkeypatch, tmp_path):
    def fails(*_, **__):
        raise TeachingError("no masks here")

    monkeypatch.setattr(broken, "reused_masks", fails)
    one, transcript = subject("synthetic"), heard("synthetic", "epsilon").transcript
    row = one.rows[0] * 30.0, 1.0
    found = {told.variant: told for told in broken.check_variants(one, transcript, row, 1.0, 1e-6, tmp_path, 400)}
    assert found["masks used twice"].caught is None
    assert "no masks here" in found["masks used twice"].said
    assert [told.caught for name, told in found.items() if name != "masks used twice"] == [True] * 4


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
    assert ordered(table, "--promise", "closed", "--out", place).exit_code == 0
    before = place.read_text(encoding="utf-8")
    with pytest.raises(SettingError, match="--overwrite"):
        ordered(table, "--promise", "closed", "--out", place)
    assert place.read_text(encoding="utf-8") == before
    again = ordered(table, "--promise", "closed", "--standardize", "--overwrite", "--out", place)
    assert again.exit_code == 0
    assert place.read_text(encoding="utf-8") != before


@pytest.mark.parametrize(
    ("more", "kind", "words"),
    [
        (["--goal", "perturbed"], SettingError, "public"),
        (["--goal", "nowhere.json"], GoalError, "does not exist"),
        (["--goal", "from-data:nowhere.csv"], GoalError, "does not exist"),
        (["--features", "age"], GoalError, "goal"),
        (["--epsilon", "-1"], SettingError, "epsilon"),
        (["--budget", "9000"], BudgetError, "9000"),
        (["--budget", "1"], BudgetError, "2"),
        (["--budget", "best"], SettingError, "best"),
        (["--positive", "III"], SettingError, "III"),
    ],
)
def test_wrong_orders_about_files(more, kind, words, table, tmp_path):
    with pytest.raises(kind, match=words):
        ordered(table, *more, "--out", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


def test_a_goal_speaks_for_the_label_it_names(table, tmp_path):
    """A goal about the first label in sorted order is the negative of the same goal about the last."""
    files, goal = table
    stored = json.loads(Path(goal).read_text())
    turned = {"coef": {name: -value for name, value in stored["coef"].items()}, "intercept": -stored["intercept"]}

    def subject_of(contents, positive=None):
        (tmp_path / "mine.json").write_text(json.dumps(contents))
        rows = files, "state", None, None, "logistic", (None, None, True)
        return command._subject(*rows, str(tmp_path / "mine.json"), False, positive)

    plain, named = subject_of(stored), subject_of({**turned, "positive": "ill"})
    chosen, both = subject_of(turned, "ill"), subject_of({**turned, "positive": "ill"}, "well")
    assert [one.positive for one in (plain, named, chosen, both)] == ["well", "ill", "ill", "well"]
    for one in (plain, named, chosen, both):
        sign = 1.0 if one.positive == "well" else -1.0
        np.testing.assert_array_equal(one.goal, sign * plain.goal)
        np.testing.assert_array_equal(one.targets, sign * plain.targets)
