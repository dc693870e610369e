"""The page of one lesson, section by section."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from superteach.exceptions import SettingError, counted
from superteach.lesson import Entry, Lesson
from superteach.report import figures, words
from superteach.report.markup import code, join, name, number, percent, short, size
from superteach.report.page import Page

_MOST_ROWS = 200
"""Rows of one table, at most; lesson.json has the rest."""


def page_of(
    lesson: Lesson,
    *,
    title: str = "Lesson report",
    against: words.Against = None,
    columns: Sequence[str] | None = None,
    target: str | None = None,
    contributions: Mapping[str, int] | None = None,
    held: Mapping[str, int] | None = None,
) -> Page:
    """Everything a colleague needs to judge a lesson, and to repeat it.

    `against` sets other lessons beside it (the paper's rule, random rows). `contributions`, chosen rows by
    teacher, and `held`, rows by teacher, are shown where the caller has them: the lesson itself has only sums.
    """
    names = _columns(lesson, columns)
    chosen = _counts(lesson, contributions, "contributions")
    owned = _counts(lesson, held, "held")
    lessons = words.named(lesson, against)
    about = f"Predicting {target}. " if target else ""
    made = lesson.versions.get("superteach", "")
    page = Page(
        title,
        lede=f"{about}Rows chosen from private data, so that a learner trained on them alone learns a given model.",
        foot=f"Made by superteach {made}. This file is complete: it loads nothing and runs nothing.",
    )
    page.answer(*words.answer(lesson))
    page.facts(_facts(lesson))
    _asked(page, lesson, lessons)
    if lesson.path:
        _risk(page, lessons)
    _search(page, lesson, lessons)
    _proof(page, lesson, names)
    if lesson.delivered:
        _model(page, lesson, names)
    _teachers(page, lesson, chosen, owned)
    _left(page, lesson)
    _repeat(page, lesson)
    return page


def _columns(lesson: Lesson, columns: Sequence[str] | None) -> list[str]:
    width = lesson.coef.shape[-1]
    found = [f"x{place}" for place in range(1, width + 1)] if columns is None else [str(one) for one in columns]
    if len(found) != width:
        raise SettingError(f"columns names {counted(len(found), 'columns')}, the lesson has {width}; name each of them")
    return words.coefficients(lesson, found)


def _counts(lesson: Lesson, given: Mapping[str, int] | None, what: str) -> list[int] | None:
    if given is None:
        return None
    missing = [teacher for teacher in lesson.teachers if teacher not in given]
    if missing or len(given) != len(set(lesson.teachers)):
        seen = f"has nothing for {missing[0]!r}" if missing else f"names {counted(len(given), 'teachers')}"
        raise SettingError(f"{what} {seen}; give one count for each of {counted(len(lesson.teachers), 'teachers')}")
    counts = [int(given[teacher]) for teacher in lesson.teachers]
    whole = {"contributions": lesson.size, "held": lesson.pool_rows}[what]
    if sum(counts) != whole:
        raise SettingError(
            f"{what} add up to {counted(sum(counts), 'rows')}, the lesson has {whole}; give this lesson's counts"
        )
    return counts


def _facts(lesson: Lesson) -> list[tuple[object, object, object]]:
    left = size(sum(entry.bytes_in for entry in lesson.ledger) // (len(lesson.teachers) or 1))
    what = "rows chosen" if lesson.delivered else "rows asked for"
    chosen = (what, number(lesson.size), join([percent(lesson.fraction), " of ", number(lesson.pool_rows)]))
    measured = [
        ("agreement", words.agreement(lesson), words.what_agreement_means(lesson)),
        ("all rows", words.share(lesson, lesson.pool_agreement), "the same learner, trained on everything"),
        ("random rows", words.share(lesson, lesson.random_agreement), "the same learner, trained on as many"),
        ("risk", number(lesson.risk, 3), join(["distance of coefficients; all rows ", number(lesson.pool_risk, 3)])),
    ]
    known = lesson.agreement, lesson.pool_agreement, lesson.random_agreement, lesson.risk
    kept = {"none": "of replies; rows can be read from them", "isolated": "an acknowledgement"}.get(
        lesson.privacy, "of noisy sums"
    )
    return [
        chosen,
        *(shown for shown, value in zip(measured, known, strict=True) if math.isfinite(value)),
        ("rounds", number(lesson.rounds), "sums asked for in all"),
        ("left each teacher", left, kept),
    ]


def _asked(page: Page, lesson: Lesson, lessons: Mapping[str, Lesson]) -> None:
    section = page.section("What was asked")
    for paragraph in words.asked(lesson):
        section.prose(paragraph)
    if len(lessons) > 1:
        section.table(
            ["lesson", "rows", "|S|/N", "risk", "agreement", "rounds", "bytes", "seconds"],
            [
                [
                    name(label),
                    one.size,
                    percent(one.fraction),
                    one.risk,
                    words.agreement(one),
                    one.rounds,
                    size(one.bytes),
                    number(one.seconds, 3),
                ]
                for label, one in lessons.items()
            ],
            "This lesson, and the lessons it is set against. Bytes go both ways, over all teachers.",
        )


def _risk(page: Page, lessons: Mapping[str, Lesson]) -> None:
    section = page.section("Risk along the size of the lesson")
    own = next(iter(lessons.values()))
    looked = f"{len(own.path)} sizes were looked at; the ring marks the one chosen."
    if len(own.path) == 1:
        looked = "One size was asked for."
    fitted = "At every size the learner was fitted again on the chosen rows. Both axes are logarithmic."
    section.figure(figures.risk_chart(lessons), f"{looked} {fitted}", "risk")
    rows = [
        [number(point.size), percent(point.fraction), point.risk, "chosen" if point.size == own.size else ""]
        for point in own.path[:_MOST_ROWS]
    ]
    section.table(["rows", "|S|/N", "risk", ""], rows, folded="The numbers")


def _search(page: Page, lesson: Lesson, lessons: Mapping[str, Lesson]) -> None:
    solved = [one for one in lessons.values() if figures.is_solved(one)]
    refined = [one for one in lessons.values() if figures.is_refined(one)]
    if not solved and not refined:
        return
    section = page.section("How it was found")
    if refined:
        section.figure(figures.turns_chart(lessons), refined[0].words.objective, "turns")
    if solved:
        other = "The problem of the lessons beside this one, which solves another problem."
        caption = solved[0].words.objective if figures.is_solved(lesson) else other
        section.figure(figures.objective_chart(lessons), caption, "objective")
    if len(lessons) == 1 and figures.is_solved(lesson) and not str(lesson.settings.get("solver")).startswith("Block"):
        section.note(
            "The paper's own rule is not drawn, as it was not run here. Teach once more with ",
            code("--solver block"),
            " into another folder, and name that with ",
            code("superteach report --against"),
            ".",
        )
    own = "block" if figures.is_refined(lesson) else "step"
    if figures.is_solved(lesson):
        rows = [
            [step, number(value, 8), number(gap)]
            for step, (value, gap) in enumerate(zip(lesson.objective, lesson.gap, strict=True))
        ]
        section.table([own, "objective", "certified gap"], rows[:_MOST_ROWS], folded="The numbers")
    elif figures.is_refined(lesson):
        section.table([own, "risk"], list(enumerate(lesson.objective))[:_MOST_ROWS], folded="The numbers")


def _proof(page: Page, lesson: Lesson, names: Sequence[str]) -> None:
    section = page.section("What is proved")
    for paragraph in words.proof(lesson):
        section.prose(paragraph)
    if lesson.certificate is not None:
        parts = zip([*names, "count of rows"], lesson.certificate.direction, strict=True)
        rows = [[name(place), number(value, 6)] for place, value in parts]
        section.table(["component", "u"], rows[:_MOST_ROWS], folded="The direction u, on scaled columns")


def _model(page: Page, lesson: Lesson, names: Sequence[str]) -> None:
    section = page.section("The model beside the goal")
    if lesson.moved:
        section.prose(lesson.moved[0].upper() + lesson.moved[1:], ".")
    shown = figures.farthest(lesson)
    caption = "" if len(shown) == len(names) else f"The {len(shown)} of {len(names):,} that miss the goal most."
    section.figure(figures.model_chart(lesson, names), caption, "model")
    rows = [
        [name(names[place]), number(goal, 6), number(taught, 6), number(taught - goal, 3)]
        for place, goal, taught in ((place, lesson.goal.flat[place], lesson.model.flat[place]) for place in shown)
    ]
    section.table(["coefficient", "goal", "taught", "difference"], rows, caption)


def _teachers(page: Page, lesson: Lesson, chosen: list[int] | None, held: list[int] | None) -> None:
    section = page.section("Who contributed")
    for facts in lesson.interruptions:
        section.prose(words.interruption(facts))
    if chosen is None:
        section.prose(
            f"The lesson {'has' if lesson.delivered else 'was to have'} ",
            number(lesson.size),
            f" {'row' if lesson.size == 1 else 'rows'} over {counted(len(lesson.teachers), 'teachers')}. How many came from "
            "which teacher is not in a lesson; whoever owns all rows can add the counts.",
        )
        listed = [name(teacher) for teacher in lesson.teachers[:_MOST_ROWS]]
        more = len(lesson.teachers) - len(listed)
        section.prose("Teachers: ", join(listed, ", "), f", and {more:,} more." if more else ".")
        return
    many = len(lesson.teachers) > figures.MOST_NAMES
    section.figure(
        figures.teachers_chart(lesson.teachers, chosen, held),
        (f"The {figures.MOST_NAMES} largest of {len(lesson.teachers):,}. " if many else "")
        + "Counts only. They are shown because the rows of all teachers are in one hand here; in a federation a "
        "teacher's count stays with it.",
        "teachers",
    )
    headings = ["teacher", "chosen rows"]
    rows: list[list[object]] = [[name(teacher), mine] for teacher, mine in zip(lesson.teachers, chosen, strict=True)]
    if held:
        headings += ["rows held", "share"]
        for row, mine, own in zip(rows, chosen, held, strict=True):
            row += [own, percent(mine / own) if own else None]
    section.table(headings, rows[:_MOST_ROWS], folded="The numbers")


def _left(page: Page, lesson: Lesson) -> None:
    section = page.section("What left each teacher")
    each = len(lesson.teachers) or 1
    received = sum(entry.bytes_in for entry in lesson.ledger)
    sent = sum(entry.bytes_out for entry in lesson.ledger)
    before = lesson.abandoned
    alone = sum(entry.teacher is not None for entry in lesson.ledger)
    for paragraph in words.privacy(lesson):
        section.prose(paragraph)
    section.prose(
        "Every teacher answered the same ",
        number(lesson.rounds - alone),
        " query" if lesson.rounds - alone == 1 else " queries",
        *([", and ", number(before["rounds"]), " before the lesson began anew,"] if before["rounds"] else []),
        " with sums and counts over its rows, ",
        *(["and was asked alone in a share of ", number(alone), " asynchronous ones, "] if alone else []),
        size(received // each + before["bytes_in"]),
        " on average, and was sent " if alone else " in all, and was sent ",
        size(sent // each + before["bytes_out"]),
        ". The queries below say what each one shows.",
    )
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in lesson.ledger:
        groups.setdefault((entry.stage, entry.query), []).append(entry)
    section.table(
        ["query", "rounds", "left each", "sent to each", "stage", "what a reply shows"],
        [
            [
                code(query),
                len(entries),
                size(sum(entry.bytes_in for entry in entries) // each),
                size(sum(entry.bytes_out for entry in entries) // each),
                words.STAGES.get(stage, stage),
                words.exposure(query),
            ]
            for (stage, query), entries in groups.items()
        ],
        "The ledger, added up; bytes are those of the numbers, per teacher."
        + (" Queries before the lesson began anew are not in it." if before["rounds"] else ""),
    )


def _repeat(page: Page, lesson: Lesson) -> None:
    section = page.section("How to repeat it")
    same = "The same rows, settings and versions give the same lesson."
    other = "Noise and lots come from the system's randomness: the same settings give another lesson each time."
    section.prose(same if lesson.privacy == "none" else other)
    script = words.again(lesson)
    if script:
        section.code(script)
    rows = [[code(key), _value(value)] for key, value in words.by_dots(lesson.settings).items()]
    rows += [
        ["goal", "its coefficients stand above, and exactly in lesson.json"],
        ["seconds", number(lesson.seconds, 3)],
    ]
    if lesson.cost is not None:
        rows.append(["cost of the chosen rows", number(lesson.cost)])
    section.table(["setting", "value"], rows, "Settings")
    section.table(["package", "version"], list(lesson.versions.items()), "Versions")


def _value(value: object) -> str:
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return number(value) if abs(value) < 10_000_000 else str(value)
    if isinstance(value, float):
        return number(value, 6)
    if isinstance(value, list | tuple):
        return " to ".join(short(end, 6) for end in value)
    return str(value)
