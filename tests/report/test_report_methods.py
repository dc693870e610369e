"""What the report of every method says of how rows were chosen, what is proved and how it ended."""

from __future__ import annotations

import re

import pytest
from reports import CASES, read

from superteach.cli.screen import sentence
from superteach.coordinator import methods
from superteach.lesson import Lesson
from superteach.report import page_of
from superteach.report.words import STAGES, recipe

SAYS = {
    "match": ["by exact teaching (match)", "The search ended because the relaxed problem meets the goal."],
    "dual": ["by the paper's method (dual), solved by a certified solver.", "because the duality gap is"],
    "lbfgs": ["by the paper's method (dual), solved by L-BFGS."],
    "block": ["solved by the paper's own block rule."],
    "oblivious": [
        "Every teacher chose its share of the rows alone, by exact teaching (oblivious)",
        "Every teacher chose alone, so nothing is proved of the lesson as a whole",
        "In the end 4 of 4 teachers ended their own search.",
    ],
    "oblivious-minlp": [
        "by a mixed-integer programme over its own rows (oblivious-minlp)",
        "nothing is proved of the lesson as a whole",
        "4 teachers ended their own search",
    ],
    "random": ["Rows were drawn at random, as a baseline.", "so nothing is proved; the risk is measured."],
}
LABELS = {
    "match": "match",
    "dual": "paper's method (dual)",
    "block": "paper's rule (block)",
    "oblivious": "every teacher alone (oblivious)",
    "oblivious-minlp": "every teacher alone (MINLP)",
    "random": "random rows",
}


def told(lesson: Lesson) -> str:
    return re.sub(r"\s+", " ", "".join(text for _, text in read(page_of(lesson).html()).texts))


def test_every_method_has_a_case():
    assert {CASES[case][1].get("method", "dual") for case in SAYS} == set(methods.names())


@pytest.mark.parametrize("case", SAYS)
def test_a_report_says_what_its_method_did(case, taught, tmp_path):
    """Also a lesson that was stored, read by whoever has no such method; no other method is spoken of."""
    lesson = taught(case).lesson_
    lesson.save(tmp_path / "lesson.json")
    for one in (lesson, Lesson.load(tmp_path / "lesson.json")):
        page = told(one)
        for words in SAYS[case]:
            assert words in page
        assert ("drawn at random" in page) == (case == "random")
        assert ("exact teaching (match)" in page) == (case == "match")
        assert ("paper's method (dual)" in page) == (case in ("dual", "lbfgs", "block"))
        assert ("alone" in one.words.chosen) == case.startswith("oblivious")
        assert one.words == lesson.words


@pytest.mark.parametrize("case", LABELS)
def test_a_legend_names_the_method(case, taught):
    assert taught(case).lesson_.words.label == LABELS[case]


@pytest.mark.parametrize("case", ["match", "dual", "oblivious", "random"])
def test_a_recipe_has_the_settings_of_its_method_alone(case, taught):
    written = recipe(taught(case).lesson_)
    for name in ("rounding", "sparsity", "goal_weight", "restarts", "solver_seconds"):
        own = name in methods.find(taught(case).method).uses
        assert (f"{name}=" in written) == own, name


@pytest.mark.parametrize("case", SAYS)
def test_every_stage_has_words(case, taught):
    assert {entry.stage for entry in taught(case).lesson_.ledger} <= set(STAGES)


@pytest.mark.parametrize("case", ["match", "dual", "oblivious", "random"])
def test_the_screen_and_the_page_give_one_verdict(case, taught):
    lesson = taught(case).lesson_
    assert lesson.verdict in sentence(lesson)
    assert lesson.verdict in told(lesson)
