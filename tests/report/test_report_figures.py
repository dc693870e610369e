"""The figures of a report: points where the axes say, rounds as they were, colours for all eyes."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from matplotlib.figure import Figure
from reports import CASES, LEARNERS, TEACHERS, read, shown
from sklearn.linear_model import LogisticRegression, Ridge

import superteach as st
from superteach.goals import PerturbedFit
from superteach.optim.problem import DualProblem
from superteach.report import page_of
from superteach.report.plots import DARK, LIGHT, MARKERS, above_optimum, round_ticks, rounds_of


def drawings(html: str) -> dict[str, ElementTree.Element]:
    """The figures of a page, by title."""
    trees = [ElementTree.fromstring(text) for text in re.findall(r"<svg .*?</svg>", html, re.DOTALL)]
    return {tree.find("title").text: tree for tree in trees}


SIZES, SPEED = "Distance to the goal by size of the lesson", "How fast the teaching problem is solved"
APPROACH = "How the lesson comes near a goal out of reach"
MODELS, TEACHERS_ROWS = {"Coefficients", "Standardised coefficients"}, "Rows chosen from each teacher"


@pytest.mark.parametrize("case", CASES)
def test_every_kind_of_lesson_has_its_figures(case, taught):
    """Coefficients always; distances by size and the solver's progress where there are two points at least."""
    lesson = taught(case).lesson_
    html = page_of(lesson, contributions={str(i): lesson.size * (i == 0) for i in range(TEACHERS)}).html()
    wanted = {*MODELS, TEACHERS_ROWS}
    wanted |= {SIZES} if len(lesson.path) > 1 else set()
    wanted |= {SPEED} if len(lesson.gap) > 1 else {APPROACH} if len(lesson.objective) > 1 else set()
    assert set(drawings(html)) == wanted
    for tree in drawings(html).values():
        assert tree.get("role") == "img"
        assert tree.find("desc").text


def test_points_stand_where_the_axes_say(taught):
    """A ruler laid between the ticks of the figure reads the path of the lesson."""
    lesson = taught("dual").lesson_
    drawing = drawings(page_of(lesson).html())[SIZES]
    ticks: dict[str, list[tuple[float, float]]] = {"x": [], "y": []}
    for group in drawing.iter("g"):
        uses, words = group.findall("./g/g/use"), group.findall("./g/text")
        if len(uses) == 1 and len(words) == 1 and any(map(str.isdigit, words[0].text)):
            which = "x" if "%" in words[0].text else "y"
            ticks[which].append((float(uses[0].get(which)), math.log(shown(words[0].text))))
    across, upward = (np.polyfit(*np.transpose(ticks[which]), 1) for which in ("x", "y"))
    assert min(len(found) for found in ticks.values()) >= 2
    marks = [(float(use.get("x")), float(use.get("y"))) for use in drawing.iter("use")]
    read_off = [(np.polyval(across, x), np.polyval(upward, y)) for x, y in marks]
    for point in lesson.path:
        where = math.log(point.fraction), math.log(point.distance)
        assert any(math.dist(where, place) < 0.05 for place in read_off), where


def test_colours_follow_the_reader_and_names_are_text(taught):
    """Every colour of a figure is a variable of the page; a name that looks like one stays as it is."""
    lesson = taught("dual").lesson_
    names = ["#0072b2;", 'style="fill: #0072b2"', "a $x^2$ _b"]
    html = page_of(lesson, columns=names).html()
    for tree in drawings(html).values():
        for element in tree.iter():
            assert not re.search("#[0-9a-f]{6}", element.get("style") or ""), element.get("style")
    words = {text.text for text in drawings(html)["Coefficients"].iter("text")}
    assert set(names) <= words


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
    lesson = st.SuperTeacher(learner, goal, **{"method": "dual", **settings}).fit(X, y, owner).lesson_
    assert len(seen) == len(lesson.objective)
    assert rounds_of(lesson) == seen
    if case not in CASES:
        assert asked.count("dual moments") > len(seen), "the case is no longer the one it is named after"


def test_one_optimum_for_all_lessons_of_one_problem(rows):
    """Beside a solved lesson the paper's rule is drawn above the true optimum, not above its own bound."""
    X, y, owner = rows("squared")
    solved, rule = (
        st.SuperTeacher(Ridge(fit_intercept=False), PerturbedFit(1), budget=60, method="dual", solver=solver)
        .fit(X, y, owner)
        .lesson_
        for solver in (None, st.optim.Block(max_steps=5))
    )
    optimum = float(solved.objective[-1])
    np.testing.assert_allclose(above_optimum(rule, [solved, rule]), rule.objective - optimum, rtol=1e-6)
    html = page_of(solved, against=rule).html()
    headings = ("lesson", "rows", "share", "agreement", "distance", "risk", "rounds", "bytes", "seconds")
    names = {row[0] for row in read(html).table(*headings)}
    assert names == {"paper's method (dual)", "paper's rule (block)"}
    assert "The paper's own rule is not drawn" not in html
    assert "The paper's own rule is not drawn" in page_of(solved).html()


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
    f = np.where(xyz > 0.008856, np.cbrt(xyz / [0.9505, 1.0, 1.089]), 7.787 * xyz / [0.9505, 1.0, 1.089] + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_series_are_told_apart_by_all_eyes(colours, sight):
    """The colours of any two series lie well apart in every kind of colour vision."""
    seen = [lab(colours[f"s{number}"], SIGHTS[sight]) for number in range(1, len(MARKERS) + 1)]
    for place, one in enumerate(seen):
        for other in seen[place + 1 :]:
            assert np.linalg.norm(one - other) >= 20.0


@settings(deadline=None, max_examples=50)
@given(some.floats(1e-12, 1e9), some.floats(1.0, 1e9), some.integers(3, 10), some.booleans())
def test_ticks_are_few_round_and_inside(low, ratio, most, log):
    """Every axis has words, never too many, and never beyond its ends."""
    axes = Figure().subplots()
    axes.set_xscale("log" if log else "linear")
    axes.plot([low, low * ratio], [0.0, 1.0])
    start, end = axes.get_xlim()
    round_ticks(axes.xaxis, most=most)
    assert axes.get_xlim() == pytest.approx((start, end))
    places, words = axes.get_xticks(), [label.get_text() for label in axes.get_xticklabels()]
    assert 1 <= len(places) <= most + 2
    assert (places >= start).all()
    assert (places <= end).all()
    for value, text in zip(places, words, strict=True):
        assert shown(text) == pytest.approx(value, rel=0.05, abs=1e-9 * (end - start))
