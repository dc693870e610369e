"""The figures of a report: points where the axes say, rounds as they were, colours for all eyes."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from reports import CASES, LEARNERS, TEACHERS, read, shown
from sklearn.linear_model import LogisticRegression, Ridge

import superteach as st
from superteach.goals import PerturbedFit
from superteach.optim.problem import DualProblem
from superteach.report import Axis, page_of
from superteach.report.figures import objective_chart, rounds_of
from superteach.report.style import DARK, LIGHT, MARKERS


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
        tree.get("aria-label") for tree in map(ElementTree.fromstring, re.findall(r"<svg .*?</svg>", html, re.DOTALL))
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
    ticks = [text for text in drawing.iter("text") if text.get("class") == "tick" and any(map(str.isdigit, text.text))]
    percents = [text for text in ticks if "%" in text.text]
    numbers = [text for text in ticks if "%" not in text.text]
    assert len(percents) >= 3
    assert len(numbers) >= 2
    across = np.polyfit([float(t.get("x")) for t in percents], [math.log(shown(t.text)) for t in percents], 1)
    upward = np.polyfit([float(t.get("y")) for t in numbers], [math.log(shown(t.text)) for t in numbers], 1)
    # Words hang a little below their line; the line of the pool's risk says how much.
    level = next(line for line in drawing.iter("line") if line.get("class") == "level" and float(line.get("x2")) > 300)
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
    chart = objective_chart({"newton": solved, "rule": rule})
    optimum = float(solved.objective[-1])
    drawn = next(series for series in chart.series if series.name == "rule: objective")
    np.testing.assert_allclose(drawn.y, rule.objective - optimum, rtol=1e-6)
    html = page_of(solved, against=rule).html()
    names = {
        row[0] for row in read(html).table("lesson", "rows", "|S|/N", "risk", "agreement", "rounds", "bytes", "seconds")
    }
    assert names == {"paper's method (dual)", "paper's rule (block)"}
    assert "The paper's own rule is not drawn" not in html
    assert "The paper&#x27;s own rule is not drawn" in page_of(solved).html()


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


@given(
    some.floats(1e-12, 1e9), some.floats(1.0, 1e9), some.integers(3, 10), some.booleans(),
)  # fmt: skip
def test_ticks_are_few_round_and_inside(low, ratio, most, log):
    """Every axis has words, never too many, and never beyond its ends."""
    scale = Axis("x", log=log).scale([low, low * ratio], 0.0, 100.0)
    ticks = scale.ticks(most)
    assert 1 <= len(ticks) <= most + 2
    for value, words in ticks:
        assert -1e-6 <= scale.at(value) <= 100.0 + 1e-6
        assert shown(words) == pytest.approx(value, rel=0.05, abs=1e-12 * low * ratio)
    places = [scale.at(value) for value, _ in ticks]
    assert places == sorted(places)
