"""The report against the lesson it tells of: its numbers, its figures, its safety, its words."""

from __future__ import annotations

import json
import os
import re
import stat
from contextlib import chdir
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as some
from reports import CASES, ROWS, TEACHERS, read, shown
from sklearn.linear_model import LogisticRegression, Ridge

import superteach as st
from superteach.exceptions import SettingError
from superteach.goals import PerturbedFit
from superteach.report import Page, Plot, page_of
from superteach.report.page import code
from superteach.report.words import clean, short
from tests.limits import files_up_to

SLOW = {"oblivious-minlp": pytest.mark.slow}
"""A solver for every teacher: twelve seconds."""


@pytest.mark.long(every=6)
@pytest.mark.parametrize("case", CASES)
def test_the_page_is_complete_in_itself(case, taught):
    """One file: tags nest, nothing is fetched, nothing runs, nothing is said twice under one id."""
    html = page_of(taught(case).lesson_).html()
    reader = read(html)
    names = {name for name, _ in reader.elements}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "image", "base", "form"}
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in reader.elements:
        assert not {name for name in attributes if name.startswith("on")}
        assert not {"src", "srcset", "xlink:href", "action"} & set(attributes)
        parts = [attributes.get("href"), *re.findall(r"url\((.*?)\)", " ".join(map(str, attributes.values())))]
        assert all(part.startswith("#") and part[1:] in ids for part in parts if part), "only parts of the page itself"
        assert set((attributes.get("aria-labelledby") or "").split()) <= set(ids)
    assert not re.search(r"@import|https?:", html)
    policy = [attributes for _, attributes in reader.elements if "http-equiv" in attributes]
    assert policy[0]["content"].startswith("default-src 'none'")


@pytest.mark.parametrize("case", [pytest.param(case, marks=SLOW.get(case, ())) for case in CASES])
def test_every_number_is_the_lessons_own(case, taught, tmp_path):
    """What the page says, read back, is what lesson.json says, to the last bit."""
    lesson = taught(case).lesson_
    lesson.save(tmp_path / "lesson.json")
    stored = json.loads((tmp_path / "lesson.json").read_text())
    counts = np.bincount(np.arange(ROWS)[taught(case).sample_indices_] % TEACHERS, minlength=TEACHERS)
    contributions = dict(zip(map(str, range(TEACHERS)), counts.tolist(), strict=True))
    reader = read(page_of(lesson, contributions=contributions).html())

    path = reader.table("rows", "share", f"distance of {lesson.measure}", "risk", "")
    assert [[int(row[0]), *map(float, row[1:4])] for row in path] == [
        [point["size"], point["fraction"], point["distance"], point["risk"]] for point in stored["path"]
    ]
    assert [int(row[0]) for row in path if row[4]] == [stored["size"]]

    same = "agreement" if lesson.classifies else "r²"
    own, everything = reader.table("trained on", "rows", same, "predictions apart", "coefficients apart")
    assert list(map(float, own[1:])) == [stored[key] for key in ("size", "agreement", "prediction_distance", "risk")]
    beside = ("pool_rows", "pool_agreement", "pool_distance", "pool_risk")
    assert list(map(float, everything[1:])) == [stored[key] for key in beside]

    model = reader.table("coefficient", "goal", "all rows", "lesson", "difference")
    taught_model = [*stored["model"]["coef"], stored["model"]["intercept"]][: len(stored["goal"])]
    for column, values in enumerate((stored["goal"], stored["pool_model"], taught_model), 1):
        assert [float(row[column]) for row in model] == values
    for row, spread in zip(
        reader.table("column", "spread", "goal", "all rows", "lesson"), stored["column_spread"], strict=True
    ):
        place = [one[0] for one in model].index(row[0])
        assert float(row[1]) == spread
        assert float(row[4]) == taught_model[place] * spread

    owners = reader.table("teacher", "chosen rows")
    assert [(row[0], int(row[1])) for row in owners] == list(contributions.items())

    ledger = reader.table("query", "rounds", "left each", "sent to each", "stage", "what a reply shows")
    assert sum(int(row[1]) for row in ledger) == stored["rounds"] == len(stored["ledger"])
    assert sum(int(row[2]) + int(row[3]) for row in ledger) * TEACHERS == stored["bytes"]
    assert all(row[5] for row in ledger)
    assert {row[0] for row in ledger} == {entry["query"] for entry in stored["ledger"]}

    if stored["gap"]:
        steps = reader.table("step", "objective", "certified gap")
        assert [float(row[1]) for row in steps] == stored["objective"]
        assert [float(row[2]) for row in steps] == stored["gap"]
    versions = dict(reader.table("package", "version"))
    assert versions == stored["versions"]
    exact = [value for value, _ in reader.data]
    for key in ("size", "pool_rows", "fraction", "risk", "pool_risk", "agreement", "rounds"):
        assert repr(stored[key]) in exact, key
    if stored["certificate"]:
        direction = reader.table("component", "u")
        assert [float(row[1]) for row in direction] == stored["certificate"]["direction"]
        assert repr(stored["certificate"]["margin"]) in exact
        assert repr(stored["lower_bound"]) in exact


@pytest.mark.parametrize("case", CASES)
def test_what_is_shown_is_what_is_meant(case, taught):
    """The short form of every number agrees with the exact one behind it."""
    reader = read(page_of(taught(case).lesson_).html())
    assert len(reader.data) > 30
    for exact, text in reader.data:
        # r² is written to two decimals, other numbers to three digits or more, sizes to two.
        decimals = re.fullmatch(r"−?\d\.\d\d", text)
        near = {"abs": 5.001e-3} if decimals else {"rel": 0.06 if "B" in text else 6e-3}
        assert shown(text) == pytest.approx(float(exact), **near), text


@given(some.floats(-1e300, 1e300))
@example(9.99995)
@example(999999.9)
@example(0.000099999999)
@example(-1e-300)
def test_short_numbers_read_back(value):
    """Four digits of any number survive being written and read."""
    assert shown(short(value)) == pytest.approx(value, rel=5.1e-4, abs=1e-300)


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></style><b>&amp;amp; 'quoted'",
    "a\x00b\x1b[31m\ud800\uffff\u202e",
]


def test_names_are_text_and_nothing_else(pool, tmp_path):
    """Teachers and columns may be called anything; the page, its figures and its files show just that."""
    X, y = pool("logistic", 200, 4, 0)
    owner = np.array(HOSTILE, dtype=object)[np.arange(200) % 4]
    teacher = st.SuperTeacher(LogisticRegression(), PerturbedFit(0), budget=40).fit(X, y, owner)
    lesson = teacher.lesson_
    names, counts = np.unique(owner[teacher.sample_indices_], return_counts=True)
    chosen = dict.fromkeys(lesson.teachers, 0) | dict(zip(names.tolist(), counts.tolist(), strict=True))
    page = page_of(
        lesson,
        title=HOSTILE[0],
        target=HOSTILE[1],
        columns=HOSTILE,
        contributions=chosen,
        against={HOSTILE[2]: lesson, HOSTILE[3]: lesson},
    )
    reader = read(page.html())
    assert not {name for name, _ in reader.elements} & {"script", "img", "b"}
    assert not {key for _, attributes in reader.elements for key in attributes if key.startswith("on")}
    shown = [name.replace("\x00", "\ufffd").replace("\x1b", "\ufffd") for name in HOSTILE]
    shown = [name.replace("\ud800", "\ufffd").replace("\uffff", "\ufffd") for name in shown]
    columns = [row[0] for row in reader.table("coefficient", "goal", "all rows", "lesson", "difference")]
    assert columns == [*shown, "intercept"]
    assert sorted(row[0] for row in reader.table("teacher", "chosen rows")) == sorted(shown)
    page.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page.html()
    for file in page.write_figures(tmp_path / "figures"):
        if file.suffix == ".svg":
            tree = ElementTree.parse(file)
            kinds = {element.tag.rpartition("}")[2] for element in tree.iter()}
            drawn = {"svg", "style", "defs", "g", "path", "use", "text", "clipPath", "rect"}
            assert kinds <= drawn | {"metadata", "RDF", "Work", "type", "format", "creator", "Agent", "title"}
        else:
            assert file.read_bytes().startswith(b"\x89PNG")


@given(some.text())
@example("]]>")
@example("{{ 7 * 7 }}{% raw %}")
def test_escaped_text_reads_back(text):
    """Whatever is a character of HTML comes back as it was; nothing in a name is a template."""
    page = Page("A page")
    page.section("One").prose(code(text))
    reader = read(page.html())
    shown = "".join(part for place, part in reader.texts if "code" in place)
    assert shown == re.sub("\r\n?", "\n", clean(text)) or shown == clean(text)


@pytest.mark.long(every=7)
@pytest.mark.parametrize(
    "case", ["dual", "lbfgs", "block", "match", "smallest", "out of reach", "oblivious", "random", "poisson"]
)
def test_the_recipe_repeats_the_lesson(case, taught, rows, tmp_path):
    """The Python of the last section, run on the same rows, gives the same model."""
    lesson = taught(case).lesson_
    html = page_of(lesson).html()
    code = "".join(text for place, text in read(html).texts if "pre" in place)
    lesson.save(tmp_path / "lesson.json")
    X, y, owner = rows(CASES[case][0])
    space = {"X": X, "y": y, "owner": owner}
    with chdir(tmp_path):
        exec(code, space)
    again = space["teacher"].lesson_
    assert again.size == lesson.size
    np.testing.assert_allclose(again.model, lesson.model, rtol=1e-9, atol=1e-12)


def test_a_report_is_written_whole_or_not_at_all(taught, tmp_path):
    """A failure leaves the old file as it was and nothing beside it; others may read what is written."""
    lesson = taught("dual").lesson_
    place = tmp_path / "lesson.html"
    lesson.report(place)
    before = place.read_bytes()
    assert stat.S_IMODE(place.stat().st_mode) == 0o666 & ~_umask()
    lesson.report(str(place))
    assert place.read_bytes() == before, "the same lesson gives the same page"
    with files_up_to(100), pytest.raises(OSError, match="File too large"):
        lesson.report(place, title="another")
    assert place.read_bytes() == before
    assert os.listdir(tmp_path) == ["lesson.html"]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_loaded_lesson_keeps_the_versions_that_taught_it(taught, tmp_path):
    """The page of an old lesson names the old versions."""
    taught("dual").lesson_.save(tmp_path / "lesson.json")
    text = (tmp_path / "lesson.json").read_text()
    (tmp_path / "old.json").write_text(text.replace(f'"numpy": "{np.__version__}"', '"numpy": "2.0.0"'))
    old = st.Lesson.load(tmp_path / "old.json")
    assert dict(read(page_of(old).html()).table("package", "version"))["numpy"] == "2.0.0"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": ["a"]}, "columns names 1 column, the lesson has 3"),
        ({"contributions": {"0": 1}}, "contributions has nothing for '1'"),
        ({"contributions": {"0": 1, "1": 1, "2": 1, "3": 1}}, "contributions add up to 4 rows"),
        ({"contributions": {"0": 1, "1": 1, "2": 1, "3": 1, "x": 1}}, "contributions names 5 teachers"),
    ],
)
def test_what_does_not_fit_the_lesson_is_refused(options, said, taught, tmp_path):
    """Names and counts of another lesson would make a page that lies."""
    with pytest.raises(SettingError, match=re.escape(said)):
        taught("match").lesson_.report(tmp_path / "page.html", **options)
    assert os.listdir(tmp_path) == []


def test_wide_and_crowded_lessons_stay_readable(pool):
    """Of many coefficients those are shown that miss the goal most; of many teachers the largest."""
    X, y = pool("squared", 500, 90, 0)
    owner = np.arange(500) % 60
    teacher = st.SuperTeacher(Ridge(), PerturbedFit(0), method="random", budget=0.5).fit(X, y, owner)
    lesson = teacher.lesson_
    counts = np.bincount(owner[teacher.sample_indices_], minlength=60)
    chosen = {name: int(counts[int(name)]) for name in lesson.teachers}
    reader = read(page_of(lesson, contributions=chosen).html())
    table = reader.table("coefficient", "goal", "all rows", "lesson", "difference")
    miss = np.sort(np.abs(lesson.model - lesson.goal))[::-1]
    assert sorted((abs(float(row[4])) for row in table), reverse=True) == miss[:40].tolist()
    assert len(reader.table("teacher", "chosen rows")) == 60


def test_a_page_of_ones_own(tmp_path):
    """Sections, tables, bands and levels serve other pages than that of a lesson."""
    page = Page("A page", lede="Of one's own", foot="the end")
    page.answer("Forty-two.")
    page.facts([("what", 42, "exactly")])
    section = page.section("Twice")
    section.prose("prose")
    section.note("note")
    section.items(["one", "two"])
    section.code("a < b")
    section.table(["method", "risk", "words"], [["match", 0.5, "x"], ["dual", None, ""]], "Caption")
    means = Plot("means", "Means", lambda axes: axes.plot([1.0, 2.0], [3.0, 1.0], label="_a $x$"), 200.0, "They fall.")
    section.figure(means, "Means of three.")
    page.section("Twice").figure(means)
    reader = read(page.html())
    assert reader.headings == ["Twice", "Twice"]
    assert reader.table("method", "risk", "words") == [["match", "0.5", "x"], ["dual", "–", ""]]
    files = page.write_figures(tmp_path / "deep" / "figures")
    assert [file.name for file in files] == ["means.svg", "means.png", "means-2.svg", "means-2.png"]
    assert sorted(os.listdir(tmp_path / "deep" / "figures")) == sorted(file.name for file in files)
    before = [file.read_bytes() for file in files]
    assert [file.read_bytes() for file in page.write_figures(tmp_path / "deep" / "figures")] == before


def test_an_open_lesson_is_not_said_to_keep_rows_at_home(taught, tmp_path):
    """With privacy "none" the coordinator can read them."""
    lesson = taught(next(iter(CASES))).lesson_
    assert lesson.privacy == "none"
    lesson.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "no row may leave" not in page
    assert "of sums and counts<" not in page
    assert "rows can be read from them" in page


@pytest.mark.parametrize("privacy", ["isolated", "dp"])
def test_nothing_measured_stands_beside_a_private_lesson(privacy, pool):
    """Neither models, distances and agreements nor the spread of columns: each of them is a fact about all rows."""
    X, y = pool("logistic", 400, 3, 0)
    mode = {"privacy": privacy, "epsilon": 1.0, "delta": 1e-6} if privacy == "dp" else {"privacy": privacy}
    goal = [0.4, -0.3, 0.2, 0.1]
    lesson = st.SuperTeacher(LogisticRegression(), goal, budget=60, **mode).fit(X, y, np.arange(400) % 2).lesson_
    assert lesson.column_spread is None
    page = page_of(lesson, columns=["a", "b", "c"])
    reader = read(page.html())
    assert page.plots == []
    assert reader.headings == [
        "What was asked", "What is proved", "Who contributed", "What left each teacher", "How to repeat it",
    ]  # fmt: skip
    tiles = [text for place, text in reader.texts if "dt" in place]
    assert tiles == ["rows asked for", "positive label", "rounds", "left each teacher"]
    measured = {f"{value:.3g}" for value in (*X.std(axis=0), *X.mean(axis=0))}
    assert not measured & {shown_text for _, shown_text in reader.data}
    assert "not refitted" in lesson._repr_html_()
    assert "all rows" not in lesson._repr_html_()
