"""The goal a command line names: a file of numbers, a file of rows, or one of superteach.goals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from superteach.errors import GoalError
from superteach.files import Pool, listed, read_pool, shorten
from superteach.goals import FromData, MaxAUC, PerturbedFit

SUFFIXES = (".json", ".npy")
FROM_DATA = "from-data:"


def check_goal_name(text: str) -> None:
    """Refuse, before any row is read, what can be no goal."""
    if text.startswith(FROM_DATA):
        if not Path(text.removeprefix(FROM_DATA)).is_file():
            raise GoalError(
                f"reference file {text.removeprefix(FROM_DATA)!r} of the goal does not exist; check the path"
            )
    elif text not in ("perturbed", "max-auc"):
        check_goal_file(text, "'perturbed', 'max-auc' or 'from-data:FILE'")


def make_goal(
    text: str, seed: int, pool: Pool, target: str, numeric: bool, intercept: bool, classes: Any
) -> Any:
    """The goal of a name; rows of a reference file have the pool's columns and its target."""
    if text == "perturbed":
        return PerturbedFit(seed)
    if text == "max-auc":
        return MaxAUC()
    if text.startswith(FROM_DATA):
        part = read_pool([text.removeprefix(FROM_DATA)], target, None, pool.columns, numeric).parts[0]
        return FromData(part.take_features(), part.take_target())
    return read_goal(text, pool.columns, intercept, classes)


def check_goal_file(path: str | Path, others: str = "'perturbed'") -> Path:
    """Refuse, before any row is read, what can be no goal file."""
    place = Path(path)
    if place.suffix.lower() not in SUFFIXES:
        raise GoalError(f"goal {str(path)!r} is not known: name a .json or .npy file, or write {others}")
    if not place.exists():
        raise GoalError(f"goal file {str(path)!r} does not exist; check the path, or write {others}")
    return place


def read_goal(
    path: str | Path, columns: Sequence[str], intercept: bool, classes: Any = None
) -> npt.NDArray[np.float64]:
    """Read θ*, intercept last, from .npy (numbers) or .json (a list, or coef by name with an intercept)."""
    return goal_vector(load_goal(path), f"goal file {str(path)!r}", columns, intercept, classes)


def load_goal(path: str | Path) -> Any:
    """What a goal file holds, before anybody knows the columns."""
    place = check_goal_file(path)
    try:
        # A damaged file makes parsers raise nearly anything.
        with place.open("rb") as file:
            if place.suffix.lower() == ".npy":
                stored: Any = np.lib.format.read_array(file, allow_pickle=False)
            else:
                stored = json.loads(file.read().decode("utf-8-sig"))
    except Exception as error:
        text = (
            error.strerror if isinstance(error, OSError) and error.strerror else " ".join(str(error).split())
        )
        raise GoalError(
            f"goal file {str(path)!r} cannot be read: {shorten(text or type(error).__name__)}"
        ) from None
    return stored


def goal_vector(
    stored: Any, where: str, columns: Sequence[str], intercept: bool, classes: Any = None
) -> npt.NDArray[np.float64]:
    """θ* from the contents of a goal file; `where` is what errors call it."""
    if isinstance(stored, dict):
        return _goal_by_name(stored, columns, intercept, classes, where)
    return _goal_numbers(stored, where, "the goal")


def _goal_by_name(
    stored: dict[str, Any], columns: Sequence[str], intercept: bool, classes: Any, where: str
) -> npt.NDArray[np.float64]:
    if "coef" not in stored:
        raise GoalError(f"{where} has no 'coef'; it has {listed(list(stored)) or 'nothing'}")
    coef = stored["coef"]
    theirs = stored.get("columns")
    if isinstance(coef, list) and isinstance(theirs, list):
        if len(coef) != len(theirs):
            raise GoalError(f"{where} has {len(coef)} coefficients for {len(theirs)} columns")
        coef = dict(zip(map(str, theirs), coef, strict=True))
    if isinstance(coef, dict):
        missing = [column for column in columns if column not in coef]
        extra = [name for name in coef if name not in columns]
        if missing or extra:
            faults = [f"no coefficient for column {listed(missing)}"] * bool(missing)
            faults += [f"a coefficient for {listed(extra)}, which is no feature column"] * bool(extra)
            raise GoalError(f"{where} has {' and '.join(faults)}")
        coef = [coef[column] for column in columns]
    slope = _goal_numbers(coef, where, "coef")
    if len(slope) != len(columns):
        raise GoalError(
            f"{where} has {len(slope)} coefficients, expected {len(columns)}: one per feature column"
        )
    if classes is not None and stored.get("classes") is not None and list(stored["classes"]) != list(classes):
        raise GoalError(f"{where} is for labels {stored['classes']!r}, the rows have {list(classes)!r}")
    if intercept and stored.get("intercept") is None:
        raise GoalError(
            f"{where} has no 'intercept', but the learner fits one: add it, or use --no-intercept"
        )
    offset = _goal_numbers([stored.get("intercept") or 0.0], where, "intercept")
    if not intercept and offset[0] != 0.0:
        raise GoalError(
            f"{where} has an intercept of {offset[0]:g}, but the learner fits none; use --intercept"
        )
    return np.append(slope, offset) if intercept else slope


def _goal_numbers(stored: Any, where: str, what: str) -> npt.NDArray[np.float64]:
    """A flat list or array of numbers as float64."""
    if isinstance(stored, list):
        for position, value in enumerate(stored):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise GoalError(
                    f"{where}: entry {position} of {what} is {shorten(repr(value), 40)}, a number is needed"
                )
        try:
            return np.array(stored, dtype=np.float64)
        except OverflowError:
            raise GoalError(f"{where}: {what} holds a number too large for float64") from None
    if (
        isinstance(stored, np.ndarray)
        and stored.dtype.kind in "iuf"
        and stored.size == max(stored.shape, default=0)
    ):
        return stored.astype(np.float64).ravel()
    shape = (
        f"an array of {stored.dtype} and shape {stored.shape}"
        if isinstance(stored, np.ndarray)
        else type(stored).__name__
    )
    raise GoalError(f"{where}: {what} is {shape}, a list of numbers is needed")
