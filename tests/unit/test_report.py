"""The report against the lesson it tells of: its numbers, its figures, its safety, its words."""

from __future__ import annotations

import json
import math
import os
import re
import stat
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as some
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.svm import LinearSVC

import superteach as st
from superteach.errors import SettingError
from superteach.goals import PerturbedFit
from superteach.problem import DualProblem
from superteach.report import Axis, Bars, Chart, Level, Mark, Page, Pairs, Series, page_of
from superteach.report.axes import scale_of
from superteach.report.figures import objective_chart, rounds_of
from superteach.report.markup import escape, short
from superteach.report.style import DARK, LIGHT, MARKERS
from superteach.report.svg import svg_of

ROWS, TEACHERS = 300, 4
VOID = {"meta", "br", "col", "hr"}


class Reader(HTMLParser):
    """Reads a page into its elements, and fails where tags do not nest."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[tuple[tuple[str, ...], str]] = []
        self.tables: list[list[list[str]]] = []
        self.data: list[tuple[str, str]] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "data":
            self.data.append((dict(attrs)["value"], ""))
            if "table" in self.open:
                self.tables[-1][-1][-1] += dict(attrs)["value"]
        elif tag == "h2":
            self.headings.append("")

    def handle_startendtag(self, tag, attrs):
        raise AssertionError(f"<{tag}/> is no HTML")

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((tuple(self.open), data))
        if "data" in self.open:
            self.data[-1] = (self.data[-1][0], self.data[-1][1] + data)
        elif {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data
        if "h2" in self.open:
            self.headings[-1] += data

    def table(self, *headings: str) -> list[list[str]]:
        """The rows of the table with these headings; cells of numbers are their exact values."""
        found = [table for table in self.tables if table[0] == list(headings)]
        assert len(found) == 1, [table[0] for table in self.tables]
        return found[0][1:]


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader


CASES = {
    "dual": ("logistic", {"budget": "best"}),
    "lbfgs": ("squared", {"budget": (0.1, 0.5), "solver": st.solvers.LBFGS()}),
    "block": ("squared", {"budget": 60, "solver": st.solvers.Block(max_steps=7)}),
    "match": ("logistic", {"method": "match", "budget": "best"}),
    "smallest": ("logistic", {"method": "match", "budget": "smallest", "risk_target": 0.05}),
    "out of reach": ("noise-free", {"method": "match", "budget": 0.2}),
    "random": ("squared_hinge", {"method": "random", "budget": 0.5, "random_state": 3}),
    "poisson": ("poisson", {"budget": 0.5, "standardize": True}),
}
LEARNERS = {
    "logistic": LogisticRegression(),
    "squared": Ridge(fit_intercept=False),
    "noise-free": Ridge(fit_intercept=False),
    "squared_hinge": LinearSVC(intercept_scaling=2.0),
    "poisson": PoissonRegressor(alpha=0.5),
}


@pytest.fixture(scope="module")
def rows(pool):
    """`rows(kind)` gives rows, targets and owners."""

    def make(kind):
        if kind == "noise-free":
            X, _ = pool("squared", ROWS, 3, 2)
            y = X @ np.array([4.0, -3.0, 8.0])
        else:
            X, y = pool(kind, ROWS, 3, 2)
        return X, y, np.arange(ROWS) % TEACHERS

    return make


@pytest.fixture(scope="module")
def taught(rows):
    """`taught(case)` teaches one of the cases, once."""
    known: dict[str, st.SuperTeacher] = {}

    def teach(case):
        if case not in known:
            kind, settings = CASES[case]
            X, y, owner = rows(kind)
            known[case] = st.SuperTeacher(LEARNERS[kind], PerturbedFit(1), **settings).fit(X, y, owner)
        return known[case]

    return teach


@pytest.mark.parametrize("case", CASES)
def test_the_page_is_complete_in_itself(case, taught):
    """One file: tags nest, nothing is fetched, nothing runs, nothing is said twice under one id."""
    html = page_of(taught(case).lesson_).html()
    reader = read(html)
    names = {name for name, _ in reader.elements}
    assert not names & {"script", "link", "img", "iframe", "object", "embed", "image", "use", "base", "form"}
    for _, attributes in reader.elements:
        assert not {name for name in attributes if name.startswith("on")}
        assert not {"src", "srcset", "href", "xlink:href", "action"} & set(attributes)
    assert not re.search(r"url\s*\(|@import|https?:", html)
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    policy = [attributes for _, attributes in reader.elements if "http-equiv" in attributes]
    assert policy[0]["content"].startswith("default-src 'none'")


@pytest.mark.parametrize("case", CASES)
def test_every_number_is_the_lessons_own(case, taught, tmp_path):
    """What the page says, read back, is what lesson.json says, to the last bit."""
    lesson = taught(case).lesson_
    lesson.save(tmp_path / "lesson.json")
    stored = json.loads((tmp_path / "lesson.json").read_text())
    counts = np.bincount(np.arange(ROWS)[taught(case).sample_indices_] % TEACHERS, minlength=TEACHERS)
    contributions = dict(zip(map(str, range(TEACHERS)), counts.tolist(), strict=True))
    reader = read(page_of(lesson, contributions=contributions).html())

    path = reader.table("rows", "|S|/N", "risk", "")
    assert [[int(row[0]), float(row[1]), float(row[2])] for row in path] == [
        [point["size"], point["fraction"], point["risk"]] for point in stored["path"]
    ]
    assert [int(row[0]) for row in path if row[3]] == [stored["size"]]

    model = reader.table("coefficient", "goal", "taught", "difference")
    taught_model = [*stored["model"]["coef"], stored["model"]["intercept"]][: len(stored["goal"])]
    assert [float(row[1]) for row in model] == stored["goal"]
    assert [float(row[2]) for row in model] == taught_model

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
    elif stored["objective"]:
        assert [float(row[1]) for row in reader.table("turn", "risk")] == stored["objective"]
    versions = dict(reader.table("package", "version"))
    assert versions == stored["versions"]
    exact = [value for value, _ in reader.data]
    for key in ("size", "rows", "fraction", "risk", "pool_risk", "consistency", "rounds"):
        assert repr(stored[key]) in exact, key
    if stored["certificate"]:
        direction = reader.table("component", "u")
        assert [float(row[1]) for row in direction] == stored["certificate"]["direction"]
        assert repr(stored["certificate"]["margin"]) in exact
        assert repr(stored["lower_bound"]) in exact


_FORM = re.compile(r"^(−?)([\d,]*\.?\d*)(?:\u202f×\u202f)?(?:10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?(?:\u202f(%|B|kB|MB|GB))?$")
_LOWERED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_UNITS = {None: 1.0, "%": 0.01, "B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}


def shown(text: str) -> float:
    """A number as a reader would take it."""
    power = re.fullmatch(r"(−?)10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", text)
    if power:
        return (-1.0 if power[1] else 1.0) * 10.0 ** int(power[2].translate(_LOWERED))
    match = _FORM.match(text)
    assert match, text
    value = float(match[2].replace(",", "")) * _UNITS[match[4]]
    if match[3]:
        value *= 10.0 ** int(match[3].translate(_LOWERED))
    return -value if match[1] else value


@pytest.mark.parametrize("case", CASES)
def test_what_is_shown_is_what_is_meant(case, taught):
    """The short form of every number agrees with the exact one behind it."""
    reader = read(page_of(taught(case).lesson_).html())
    assert len(reader.data) > 30
    for exact, text in reader.data:
        assert shown(text) == pytest.approx(float(exact), rel=0.06 if "B" in text else 6e-3), text


@given(some.floats(-1e300, 1e300))
@example(9.99995)
@example(999999.9)
@example(0.000099999999)
@example(-1e-300)
def test_short_numbers_read_back(value):
    """Four digits of any number survive being written and read."""
    assert shown(short(value)) == pytest.approx(value, rel=5.1e-4, abs=1e-300)


def figure(reader_html: str, title: str) -> ElementTree.Element:
    """The wide drawing with this title."""
    found = [
        tree
        for tree in map(ElementTree.fromstring, re.findall(r"<svg .*?</svg>", reader_html, re.DOTALL))
        if tree.get("aria-label") == title and tree.get("class") == "wide"
    ]
    assert len(found) == 1
    return found[0]


RISK, SPEED, TURNS = (
    "How far from the goal the learner ends",
    "How fast the teaching problem is solved",
    "How the lesson closes in on the goal",
)


@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_lesson_has_its_figures(case, taught):
    """Risk and model always; objective and gap for the paper's problem, turns for match."""
    lesson = taught(case).lesson_
    html = page_of(lesson, contributions={str(i): lesson.size * (i == 0) for i in range(TEACHERS)}).html()
    drawn = {
        tree.get("aria-label")
        for tree in map(ElementTree.fromstring, re.findall(r"<svg .*?</svg>", html, re.DOTALL))
    }
    wanted = {RISK, "The taught model beside the goal", "Rows chosen from each teacher"}
    wanted |= {SPEED} if len(lesson.gap) else {TURNS} if len(lesson.objective) else set()
    assert drawn == wanted
    assert len(figure(html, RISK).findall(".//title")) == len(lesson.path)
    if SPEED in wanted:
        assert len(figure(html, SPEED).findall(".//title")) == len(lesson.objective)
    if TURNS in wanted:
        assert len(figure(html, TURNS).findall(".//title")) == len(lesson.objective)


def test_points_stand_where_the_axes_say(taught):
    """A ruler laid between the ticks of the figure reads the path of the lesson."""
    lesson = taught("dual").lesson_
    drawing = figure(page_of(lesson).html(), RISK)
    ticks = [
        text
        for text in drawing.iter("text")
        if text.get("class") == "tick" and any(map(str.isdigit, text.text))
    ]
    percents = [text for text in ticks if "%" in text.text]
    numbers = [text for text in ticks if "%" not in text.text]
    assert len(percents) >= 3
    assert len(numbers) >= 2
    across = np.polyfit([float(t.get("x")) for t in percents], [math.log(shown(t.text)) for t in percents], 1)
    upward = np.polyfit([float(t.get("y")) for t in numbers], [math.log(shown(t.text)) for t in numbers], 1)
    # Words hang a little below their line; the line of the pool's risk says how much.
    level = next(
        line for line in drawing.iter("line") if line.get("class") == "level" and float(line.get("x2")) > 300
    )
    upward[1] += math.log(lesson.pool_risk) - np.polyval(upward, float(level.get("y1")))
    dots = [group.find("circle") for group in drawing.iter("g") if group.find("title") is not None]
    assert len(dots) == len(lesson.path)
    for dot, point in zip(dots, lesson.path, strict=True):
        assert np.polyval(across, float(dot.get("cx"))) == pytest.approx(math.log(point.fraction), abs=0.02)
        assert np.polyval(upward, float(dot.get("cy"))) == pytest.approx(math.log(point.risk), abs=0.02)


@pytest.mark.parametrize("case", ["dual", "lbfgs", "block", "poisson", "step tried and taken back"])
def test_rounds_of_every_objective(case, rows, monkeypatch):
    """The round a step is drawn at is the round in which its certificate was computed."""
    kind, settings = CASES.get(case, ("logistic", {"budget": 100}))
    if case in CASES:
        learner, goal, (X, y, owner) = LEARNERS[kind], PerturbedFit(1), rows(kind)
    else:
        learner, goal = LogisticRegression(fit_intercept=False), PerturbedFit(0)
        X, y, owner = st.datasets.make_classification_pool(2000, 10, 5, 0)
    seen: list[int] = []
    asked: list[str] = []
    whole = st.Federation.sum

    def watched(self, query):
        reply = whole(self, query)
        if self.stage == "dual":
            asked.append(query.name)
        return reply

    for name in ("certify", "certify_block"):
        certify = getattr(DualProblem, name)

        def noted(self, *arguments, certify=certify):
            # A block's round certifies the model of the round before it.
            seen.append(len(asked) - (certify.__name__ == "certify_block"))
            return certify(self, *arguments)

        monkeypatch.setattr(DualProblem, name, noted)
    monkeypatch.setattr(st.Federation, "sum", watched)
    lesson = st.SuperTeacher(learner, goal, **settings).fit(X, y, owner).lesson_
    assert len(seen) == len(lesson.objective)
    assert rounds_of(lesson) == seen
    if case not in CASES:
        assert asked.count("dual moments") > len(seen), "the case is no longer the one it is named after"


def test_one_optimum_for_all_lessons_of_one_problem(rows):
    """Beside a solved lesson the paper's rule is drawn above the true optimum, not above its own bound."""
    X, y, owner = rows("squared")
    solved, rule = (
        st.SuperTeacher(Ridge(fit_intercept=False), PerturbedFit(1), budget=60, solver=solver)
        .fit(X, y, owner)
        .lesson_
        for solver in (None, st.solvers.Block(max_steps=5))
    )
    chart = objective_chart({"newton": solved, "rule": rule})
    optimum = float(solved.objective[-1])
    drawn = next(series for series in chart.series if series.name == "rule: objective")
    np.testing.assert_allclose(drawn.y, rule.objective - optimum, rtol=1e-6)
    html = page_of(solved, against=rule).html()
    names = {
        row[0]
        for row in read(html).table(
            "lesson", "rows", "|S|/N", "risk", "consistency", "rounds", "bytes", "seconds"
        )
    }
    assert names == {"paper's method (dual)", "paper's rule (block)"}
    assert "The paper's own rule is not drawn" not in html
    assert "The paper&#x27;s own rule is not drawn" in page_of(solved).html()


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
    clean = [name.replace("\x00", "\ufffd").replace("\x1b", "\ufffd") for name in HOSTILE]
    clean = [name.replace("\ud800", "\ufffd").replace("\uffff", "\ufffd") for name in clean]
    columns = [row[0] for row in reader.table("coefficient", "goal", "taught", "difference")]
    assert columns == [*clean, "intercept"]
    assert sorted(row[0] for row in reader.table("teacher", "chosen rows")) == sorted(clean)
    page.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page.html()
    for file in page.write_figures(tmp_path / "figures"):
        if file.suffix == ".svg":
            tree = ElementTree.parse(file)
            kinds = {element.tag.rpartition("}")[2] for element in tree.iter()}
            assert kinds <= {"svg", "style", "rect", "text", "g", "line", "path", "circle", "title"}
        else:
            assert file.read_bytes().startswith(b"\x89PNG")


@given(some.text())
@example("]]>")
def test_escaped_text_reads_back(text):
    """Whatever is a character of HTML comes back as it was."""
    reader = read(f"<p>{escape(text)}</p>")
    told = "".join(part for _, part in reader.texts)
    kept = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", text)
    assert told == kept


@pytest.mark.parametrize(
    "case", ["dual", "lbfgs", "block", "match", "smallest", "out of reach", "random", "poisson"]
)
def test_the_recipe_repeats_the_lesson(case, taught, rows, tmp_path, monkeypatch):
    """The Python of the last section, run on the same rows, gives the same model."""
    lesson = taught(case).lesson_
    html = page_of(lesson).html()
    code = "".join(text for place, text in read(html).texts if "pre" in place)
    lesson.save(tmp_path / "lesson.json")
    monkeypatch.chdir(tmp_path)
    X, y, owner = rows(CASES[case][0])
    space = {"X": X, "y": y, "owner": owner}
    exec(code, space)
    again = space["teacher"].lesson_
    assert again.size == lesson.size
    np.testing.assert_allclose(again.model, lesson.model, rtol=1e-9, atol=1e-12)


def test_a_report_is_written_whole_or_not_at_all(taught, tmp_path, monkeypatch):
    """A failure leaves the old file as it was and nothing beside it; others may read what is written."""
    lesson = taught("dual").lesson_
    place = tmp_path / "lesson.html"
    lesson.report(place)
    before = place.read_bytes()
    assert stat.S_IMODE(place.stat().st_mode) == 0o666 & ~_umask()
    lesson.report(str(place))
    assert place.read_bytes() == before, "the same lesson gives the same page"

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
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
        ({"columns": ["a"]}, "columns names 1 columns, the lesson has 3"),
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
    table = reader.table("coefficient", "goal", "taught", "difference")
    miss = np.sort(np.abs(lesson.model - lesson.goal))[::-1]
    assert sorted((abs(float(row[3])) for row in table), reverse=True) == miss[:40].tolist()
    assert len(reader.table("teacher", "chosen rows")) == 60


def luminance(colour: str) -> float:
    """WCAG's relative luminance of a hex colour."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_can_be_read(colours):
    """WCAG 2.2 AA: text at 4.5 to 1 on both grounds, and series as well, since words take their colour."""
    series = [f"s{number}" for number in range(1, len(MARKERS) + 1)]
    for name in ("ink", "soft", "link", *series):
        for ground in ("paper", "card"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)


# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
SIGHTS = {
    "full": np.eye(3),
    "protan": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deutan": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]),
    "tritan": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]]),
}  # fmt: skip


def lab(colour: str, sight: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of a colour as some eyes see it."""
    rgb = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(sight @ linear, 0.0, 1.0)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    f = np.where(
        xyz > 0.008856, np.cbrt(xyz / [0.9505, 1.0, 1.089]), 7.787 * xyz / [0.9505, 1.0, 1.089] + 16 / 116
    )
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_series_are_told_apart_by_all_eyes(colours, sight):
    """The colours of any two series lie well apart in every kind of colour vision."""
    seen = [lab(colours[f"s{number}"], SIGHTS[sight]) for number in range(1, len(MARKERS) + 1)]
    for place, one in enumerate(seen):
        for other in seen[place + 1 :]:
            assert np.linalg.norm(one - other) >= 20.0


@given(
    some.floats(1e-12, 1e9), some.floats(1.0, 1e9), some.integers(3, 10), some.booleans(),
)  # fmt: skip
def test_ticks_are_few_round_and_inside(low, ratio, most, log):
    """Every axis has words, never too many, and never beyond its ends."""
    scale = scale_of(Axis("x", log=log), [low, low * ratio], 0.0, 100.0)
    ticks = scale.ticks(most)
    assert 1 <= len(ticks) <= most + 2
    for value, words in ticks:
        assert -1e-6 <= scale.at(value) <= 100.0 + 1e-6
        assert shown(words) == pytest.approx(value, rel=0.05, abs=1e-12 * low * ratio)
    places = [scale.at(value) for value, _ in ticks]
    assert places == sorted(places)


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
    xs, ys = [1.0, 2.0, 3.0], [3.0, 0.0, 1.0]
    chart = Chart(
        "Means",
        Axis("x"),
        Axis("y", log=True),
        [Series("a", xs, ys, low=[2.0, 0.0, 0.5], high=[4.0, 1.0, 2.0]), Series("b", xs, ys, joined=False)],
        [Level("level", 2.0)],
        [Mark("a", 1.0, 3.0, "here"), Mark("b", 3.0, 1.0, "")],
    )
    section.figure(chart, "Means of three.")
    page.section("Twice").figure(chart)
    other = page.section("Bars and pairs")
    other.figure(Bars("Bars", "rows", ["a", "b"], [3.0, 0.0], ["3", "0"]))
    other.figure(Pairs("Pairs", "coefficient", ["a"], [1.0], [1.0], "goal", "taught"))
    reader = read(page.html())
    assert reader.headings == ["Twice", "Twice", "Bars and pairs"]
    assert reader.table("method", "risk", "words") == [["match", "0.5", "x"], ["dual", "–", ""]]
    files = page.write_figures(tmp_path / "deep" / "figures")
    assert [file.name for file in files] == [
        "means.svg", "means.png", "means-2.svg", "means-2.png", "bars.svg", "bars.png", "pairs.svg", "pairs.png",
    ]  # fmt: skip
    assert sorted(os.listdir(tmp_path / "deep" / "figures")) == sorted(file.name for file in files)
    assert "prefers-color-scheme:dark" in (tmp_path / "deep" / "figures" / "means.svg").read_text()
    assert "nan" not in svg_of(chart)
