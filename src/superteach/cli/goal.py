"""The goal a command line names: a file of numbers, a file of rows, or one of superteach.goals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from superteach.exceptions import GoalError, reason_of
from superteach.io.frames import PositiveLabel
from superteach.types import Array, Foreign, Label, Labels

if TYPE_CHECKING:
    from superteach.goals import Goal

SUFFIXES = (".json", ".npy")
FROM_DATA = "from-data:"
NAMES = ("perturbed", "max-auc", "without:COLUMN", f"{FROM_DATA}FILE")
"""Goals with a name, as `superteach.goals.BY_OPTION` has them; a test compares both."""


def check_goal_name(text: str) -> None:
    """Refuse, before any row is read, what can be no goal."""
    if not is_file(text):
        path = text.removeprefix(FROM_DATA)
        if path != text and not Path(path).is_file():
            raise GoalError(f"reference file {path!r} of the goal does not exist; check the path")
        name, colon, _ = text.partition(":")
        if colon and name in NAMES:
            raise GoalError(f"goal {text!r} is not known: nothing goes behind {name}")
        return
    check_goal_file(text)


def is_file(text: str) -> bool:
    """Tell files of numbers from goals that have a name."""
    return text.partition(":")[0] not in [name.partition(":")[0] for name in NAMES]


def find_positive(text: str, chosen: str | None) -> PositiveLabel:
    """Return the label of --positive, or the one that a goal file names."""
    from superteach.goals.base import positive_label

    stored = load_goal(text) if is_file(text) else None
    return positive_label(stored, PositiveLabel(chosen, "--positive"), f"goal file {text!r}")


def positive_unsaid(text: str, chosen: str | None, taken: Label | None) -> str:
    """Say which label was taken as positive where neither --positive nor the goal file names one; else nothing."""
    from superteach.goals.base import stated_positive

    if taken is None or chosen is not None or not is_file(text) or stated_positive(load_goal(text)) is not None:
        return ""
    return (
        f"Goal file {text} does not name its positive label: {taken!r} was taken, the last in sorted "
        'order. Write it as {"coef": …, "positive": …}, or use --positive.'
    )


def make_goal(
    text: str,
    seed: int,
    columns: Sequence[str],
    target: str,
    numeric: bool,
    intercept: bool,
    classes: Labels | None,
    encoding: str = "utf-8",
) -> Array | Goal:
    """Make the goal that `text` names; rows of a reference file have the same columns and target."""
    from superteach.goals import BY_OPTION, OptionSource
    from superteach.io.tables import read_pool

    def read(path: str) -> tuple[Foreign, Foreign]:
        part = read_pool([path], target, None, columns, numeric, None, encoding).parts[0]
        return part.take_features(), part.take_target()

    name, _, rest = text.partition(":")
    if name in BY_OPTION:
        return BY_OPTION[name].from_option(rest, OptionSource(seed, read))
    return read_goal(text, columns, intercept, classes)


def called(goal: object, text: str, stored: object) -> object:
    """Name the file of a goal that a file held, and the learner that the file says it is a model of."""
    from superteach.goals.base import Named

    if not is_file(text):
        return goal
    learner = stored.get("learner") if isinstance(stored, dict) else None
    kind = learner.get("name") if isinstance(learner, dict) else None
    return Named(goal, f"model of {text} ({kind})" if isinstance(kind, str) else f"coefficients of {text}")


def check_goal_file(path: str | Path) -> Path:
    """Refuse, before any row is read, what can be no goal file."""
    place, others = Path(path), f"{', '.join(NAMES[:-1])} or {NAMES[-1]}"
    if place.suffix.lower() not in SUFFIXES:
        raise GoalError(f"goal {str(path)!r} is not known: name a .json or .npy file, or write {others}")
    if not place.exists():
        raise GoalError(f"goal file {str(path)!r} does not exist; check the path, or write {others}")
    return place


def read_goal(path: str | Path, columns: Sequence[str], intercept: bool, classes: Labels | None = None) -> Array:
    """Read θ*, intercept last, from .npy (numbers) or .json (a list, or coef by name with an intercept)."""
    from superteach.goals.base import goal_vector

    return goal_vector(load_goal(path), f"goal file {str(path)!r}", columns, intercept, classes)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Make an object of JSON, in which no name stands twice."""
    stored = dict(pairs)
    twice = [name for place, (name, _) in enumerate(pairs) if name in dict(pairs[:place])]
    if twice:
        raise ValueError(f"{twice[0]!r} stands there twice; keep one of them")
    return stored


def load_goal(path: str | Path) -> object:
    """Read what a goal file holds, before anybody knows the columns."""
    place = check_goal_file(path)
    try:
        # A damaged file makes parsers raise nearly anything.
        with place.open("rb") as file:
            if place.suffix.lower() == ".npy":
                stored: object = np.lib.format.read_array(file, allow_pickle=False)
            else:
                stored = json.loads(file.read().decode("utf-8-sig"), object_pairs_hook=_once)
    except Exception as error:
        raise GoalError(f"goal file {str(path)!r} cannot be read: {reason_of(error)}") from None
    return stored
