"""The figures of a lesson, as charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from superteach.lesson import Lesson
from superteach.report.charts import Axis, Bars, Chart, Level, Mark, Pairs, Series
from superteach.report.markup import percent_text, short

MOST_NAMES = 40
"""Bars and pairs in one figure, at most."""


def risk_chart(lessons: Mapping[str, Lesson], named: int = 1) -> Chart:
    """Draw risk along |S|/N and ring the chosen sizes, with words at the first `named`; the first is the page's own."""
    own = next(iter(lessons.values()))
    series, marks = [], []
    for place, (name, lesson) in enumerate(lessons.items(), 1):
        notes = [
            f"{name}: risk {short(point.risk)} with {point.size:,} rows ({percent_text(point.fraction)})"
            for point in lesson.path
        ]
        shares, risks = [point.fraction for point in lesson.path], [point.risk for point in lesson.path]
        series.append(Series(name, shares, risks, notes=notes, colour=place))
        words = f"{short(lesson.risk, 3)} at {percent_text(lesson.fraction)}" if place <= named else ""
        marks.append(Mark(name, lesson.fraction, lesson.risk, words))
    levels = [Level(f"all rows: {short(own.pool_risk, 3)}", own.pool_risk)]
    if own.lower_bound > 0.0:
        levels.append(Level(f"no lesson goes below {short(own.lower_bound, 3)}", own.lower_bound))
    target = own.settings.get("risk_target")
    if target:
        levels.append(Level(f"asked for: {short(float(target), 3)}", float(target)))
    return Chart(
        "How far from the goal the learner ends",
        Axis("rows in the lesson, |S|/N", log=True, form="percent", also=(1.0,)),
        Axis("risk: distance to the goal", log=True),
        series,
        levels,
        marks,
    )


def charts_of(lessons: Mapping[str, Lesson]) -> list[Chart]:
    """Return the charts that have something to show: risk, objective of solved problems, blocks of the rounding."""
    charts = [risk_chart(lessons, named=len(lessons))]
    if any(map(is_solved, lessons.values())):
        charts.append(objective_chart(lessons))
    if any(map(is_refined, lessons.values())):
        charts.append(turns_chart(lessons))
    return charts


def is_solved(lesson: Lesson) -> bool:
    """Tell whether the lesson comes from the paper's problem, solved with a certified gap."""
    return len(lesson.gap) > 0


def same_problem(one: Lesson, other: Lesson) -> bool:
    """Tell whether two lessons solved the same problem, so that one bound holds for both."""
    keys = ("learner", "sparsity", "goal_weight", "standardize")
    return (
        one.pool_rows == other.pool_rows
        and one.goal.shape == other.goal.shape
        and bool(np.allclose(one.goal, other.goal, rtol=1e-9, atol=0.0))
        and all(one.settings.get(key) == other.settings.get(key) for key in keys)
    )


def optimum_of(lesson: Lesson, others: Sequence[Lesson]) -> float:
    """Return the best lower bound on the optimum that any step proved, over all lessons of the same problem."""
    alike = [lesson, *(other for other in others if is_solved(other) and same_problem(lesson, other))]
    return max(float(np.max(one.objective - one.gap)) for one in alike)


def objective_chart(lessons: Mapping[str, Lesson]) -> Chart:
    """Draw objective above the optimum and certified gap, by round of sums (by step where rounds cannot be told)."""
    solved = {name: lesson for name, lesson in lessons.items() if is_solved(lesson)}
    rounds = {name: rounds_of(lesson) for name, lesson in solved.items()}
    told = all(found is not None for found in rounds.values())
    series: list[Series] = []
    colours = {name: place for place, name in enumerate(lessons, 1)}  # each looks the same in all charts of a page
    for name, lesson in solved.items():
        steps = rounds[name] if told else list(range(len(lesson.objective)))
        assert steps is not None
        optimum = optimum_of(lesson, list(solved.values()))
        word = "round" if told else "step"
        for suffix, values, dashed in (
            ("objective", lesson.objective - optimum, False),
            ("certified gap", lesson.gap, True),
        ):
            label = f"{name}: {suffix}" if len(solved) > 1 else suffix
            shown = np.maximum(values, np.spacing(abs(optimum))).tolist()
            notes = [
                f"{name}, {word} {step:,}: {suffix} {short(float(value))} above the optimum"
                for step, value in zip(steps, values, strict=True)
            ]
            one = Series(label, steps, shown, dashed=dashed, marked=not dashed, notes=notes, colour=colours[name])
            series.append(one)
    return Chart(
        "How fast the teaching problem is solved",
        Axis("rounds of sums spent on it" if told else "step of the solver", form="integer"),
        Axis("distance above the optimum", log=True),
        series,
    )


def rounds_of(lesson: Lesson) -> list[int] | None:
    """Count the rounds of stage "dual" until each objective was reached; None where they cannot be told."""
    stage = [entry.query for entry in lesson.ledger if entry.stage == "dual"]
    steps = len(lesson.objective)
    blocks = [place for place, query in enumerate(stage, 1) if query == "BlockRound"]
    if blocks:
        # A rule's round certifies the one before it, so the last one may only have certified.
        return blocks[:steps] if len(blocks) in (steps, steps + 1) else None
    # A full step tried without a search, and then searched for after all, was no step.
    around = ["", *stage, ""]
    places = [
        place
        for place, (before, query, after) in enumerate(zip(around, around[1:], around[2:], strict=False), 1)
        if query == "dual moments" and not (before == "dual moments" and after == "dual values")
    ]
    return places if len(places) == steps else None


def turns_chart(lessons: Mapping[str, Lesson]) -> Chart:
    """Draw the predicted risk after every block of the rounding of "match"."""
    series, marks = [], []
    for place, (name, lesson) in enumerate(lessons.items(), 1):
        if not is_refined(lesson):
            continue
        risks: list[float] = lesson.objective[np.isfinite(lesson.objective)].tolist()
        notes = [f"{name}, turn {turn}: distance {short(risk)}" for turn, risk in enumerate(risks)]
        series.append(Series(name, range(len(risks)), risks, notes=notes, colour=place))
        marks.append(Mark(name, len(risks) - 1, risks[-1], short(risks[-1], 3)))
    return Chart(
        "How the lesson closes in on the goal",
        Axis("block of the rounding", form="integer"),
        Axis("distance as the search sees it", log=True),
        series,
        marks=marks,
    )


def is_refined(lesson: Lesson) -> bool:
    """Tell whether the objective of a lesson is a risk, as that of "match" is."""
    return bool(np.isfinite(lesson.objective).any()) and not is_solved(lesson)


def farthest(lesson: Lesson) -> list[int]:
    """Return the positions of the coefficients to show: all, or the ones that miss the goal most."""
    miss = np.abs(lesson.model - lesson.goal).ravel()
    return sorted(np.argsort(-miss, kind="stable")[:MOST_NAMES].tolist())


def model_chart(lesson: Lesson, names: Sequence[str]) -> Pairs:
    """Draw the taught coefficients beside the goal's."""
    shown = farthest(lesson)
    goal, taught = lesson.goal.ravel()[shown].tolist(), lesson.model.ravel()[shown].tolist()
    words = [names[place] for place in shown]
    return Pairs("The taught model beside the goal", "coefficient", words, goal, taught, "goal", "taught")


def teachers_chart(names: Sequence[str], chosen: Sequence[int], held: Sequence[int] | None) -> Bars:
    """Draw chosen rows per teacher; the largest contributions where there are many teachers."""
    kept = sorted(sorted(range(len(names)), key=lambda place: -chosen[place])[:MOST_NAMES])
    words = [
        f"{chosen[place]:,}"
        + (f" of {held[place]:,} ({percent_text(chosen[place] / held[place], 2)})" if held and held[place] else "")
        for place in kept
    ]
    return Bars(
        "Rows chosen from each teacher",
        "rows in the lesson",
        [names[place] for place in kept],
        [float(chosen[place]) for place in kept],
        words,
    )
