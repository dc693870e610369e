"""`compare_with_random`: how near the goal as many random rows bring the learner."""

from __future__ import annotations

from dataclasses import replace

import numpy.typing as npt

from superteach.estimator import SuperTeacher
from superteach.exceptions import DataError, SettingError, listed
from superteach.learner import Learner
from superteach.lesson import Lesson
from superteach.local import DRAWS, LocalTeachers, find_large
from superteach.settings import check_whole


def compare_with_random(
    lesson: Lesson,
    X: object,
    y: object,
    sample_weight: npt.ArrayLike | None = None,
    *,
    draws: int = DRAWS,
    random_state: int | None = None,
) -> Lesson:
    """Train the learner on as many random rows as the lesson has, several times; return the lesson with `random_rows`.

    X and y are all rows that the lesson was chosen from, as `SuperTeacher.fit` takes them. `random_rows` has the lesson's
    own measures, one entry for each draw; reports show their mean and range. The same seed gives the same draws (None: the
    lesson's own seed).
    """
    if lesson.privacy != "none":
        raise SettingError(
            f"the lesson was taught with privacy={lesson.privacy!r}, and random rows would leave their owners; compare a "
            "lesson that was taught with privacy='none'"
        )
    count = check_whole("draws", draws)
    seed = None if random_state is None else check_whole("random_state", random_state, least=0)
    teachers = _teachers_of(lesson, X, y, sample_weight)
    # The lesson may speak for the first of two labels, teachers speak for the last.
    turned = len(lesson.classes) == 2 and teachers.classes is not None and teachers.classes[1] != lesson.positive
    same = replace(lesson, goal=-lesson.goal, model=-lesson.model) if turned else lesson
    return replace(lesson, random_rows=teachers.compare_with_random(same, count, seed))


def _teachers_of(lesson: Lesson, X: object, y: object, sample_weight: npt.ArrayLike | None) -> LocalTeachers:
    """Make teachers of the rows, and see that they can be those of the lesson."""
    stored = dict(lesson.settings["learner"])
    weighted = stored.pop("weighted", False)
    estimator = Learner.from_dict(stored) if lesson.model_ is None else lesson.model_
    reader = SuperTeacher(estimator)
    if (table := find_large(X, y, None, None)) is not None:
        teachers = reader._open_table(table, sample_weight)[0]
    else:
        teachers = reader._open(X, y, sample_weight=sample_weight).teachers
    names = lesson.columns or tuple(map(str, range(lesson.coef.shape[-1])))
    if len(teachers.columns) != len(names) or (lesson.columns and tuple(map(str, teachers.columns)) != names):
        raise DataError(
            f"X has the columns {listed(teachers.columns)}, and the lesson {listed(names)}; give the rows that it was "
            "chosen from (behind the learner's transformers where the lesson was read from a file)"
        )
    if teachers.count != lesson.pool_rows:
        raise DataError(
            f"X has {teachers.count} rows, and the lesson was chosen from {lesson.pool_rows}; give all of these rows"
        )
    labels = [] if teachers.classes is None else teachers.classes.tolist()
    if set(labels) != set(lesson.classes):
        raise DataError(
            f"y has labels {labels}, and the lesson {list(lesson.classes)}; give the labels that it was chosen by"
        )
    if teachers.learner.weighted != weighted:
        what = (
            "was chosen from weighted rows, and these have no weights"
            if weighted
            else "was chosen from rows of weight 1"
        )
        raise DataError(f"the lesson {what}; give the same sample_weight as to fit")
    return teachers
