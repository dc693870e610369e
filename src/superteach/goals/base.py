"""What a goal is, what it may use, and how whatever is given as one is read and checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple, Protocol, TypeGuard, TypeVar, runtime_checkable

import numpy as np
from scipy import sparse

from superteach.coordinator.problem import FederatedProblem
from superteach.exceptions import GoalError, Setting, listed, shorten, suggestion
from superteach.io.frames import PositiveLabel
from superteach.learner import Learner
from superteach.optim.problem import MOST
from superteach.types import Array, Foreign, Json, Labels, is_number, is_whole

INTERCEPT = "intercept"
"""What a goal by column name calls the intercept."""
Value = TypeVar("Value")
ABSURD = 1e8
"""A goal longer than this, and by this factor longer than the model of all rows, leaves float64 no digits to choose by."""


@runtime_checkable
class Goal(Protocol):
    """Anything that can name the vector to be taught."""

    def vector(self, problem: FederatedProblem) -> Array:
        """Return the goal in raw units, intercept last where the learner fits one."""


@runtime_checkable
class CheckedGoal(Goal, Protocol):
    """A goal that can tell before any work that it does not suit the learner or the rows."""

    def check(self, learner: Learner, columns: Sequence[object], classes: Labels | None) -> None:
        """Raise a GoalError; `columns` are names or numbers, `classes` the two labels where they are known."""


@runtime_checkable
class MovableGoal(Goal, Protocol):
    """A goal that is a set: another point of it may take the place of one that cannot be taught."""

    def moved_to(self, problem: FederatedProblem, model: Array) -> Array:
        """Return the point of the set nearest to a model on scaled columns, in raw units."""


class Coverage(NamedTuple):
    """How much of a set a proof for one of its models covers."""

    within: float
    """Distance in predictions (root mean square) up to which models of the set are covered; inf: all of the set."""
    apart: float
    """No lesson comes nearer to the set than this, in the goal's units; 0 where nothing is known."""


@runtime_checkable
class ProvableGoal(MovableGoal, Protocol):
    """A set for which a proof for one point can be carried on to others."""

    def coverage(self, problem: FederatedProblem, direction: Array, goal: Array, size: int) -> Coverage:
        """Say how far the proof `direction` for `goal` (raw units) and lessons of `size` rows holds in the set."""


@dataclass(frozen=True, eq=False, repr=False)
class Named:
    """A goal as it is taught, with the words of what it was made from: a file, or a goal in the table's own columns."""

    goal: object
    in_words: str


def in_words(goal: object) -> str:
    """Say what a goal is, as reports call it: without sex, fit on other.csv, coefficients given."""
    if isinstance(said := getattr(goal, "in_words", None), str):
        return said
    if isinstance(goal, Goal):
        return f"a goal of class {type(goal).__name__}"
    last = getattr(goal, "estimator", goal)  # of a FrozenEstimator
    last = last.steps[-1][1] if hasattr(last, "steps") else last
    if hasattr(last, "predict") or hasattr(last, "coef_"):
        return f"model given ({type(last).__name__})"
    return "coefficients given" + " by column" * (_named(goal) is not None)


class OptionSource(NamedTuple):
    """What a goal named on the command line may be made from, beside the text behind its name."""

    seed: int
    read: Callable[[str], tuple[Foreign, Foreign]]
    """Reads features and target from a file with the columns of the teachers' rows."""


def check_goal(
    goal: object,
    features: int,
    learner: Learner,
    classes: Labels | None = None,
    columns: Sequence[object] | None = None,
) -> Array | Goal:
    """Return the goal as a vector of the right length, or as a Goal that will give one later.

    `columns` are the rows' names: a goal by names is put in their order.
    """
    columns = range(features) if columns is None else columns
    goal = goal.goal if isinstance(goal, Named) else goal
    if goal is None:
        raise GoalError(
            "no goal is given: pass goal= a vector, a dict by column name, a fitted scikit-learn model, or "
            "superteach.goals.PerturbedFit(seed)"
        )
    if isinstance(goal, type):
        raise GoalError(f"goal={goal.__name__} is a class; pass an instance of it")
    if isinstance(goal, Goal):
        return goal
    if hasattr(goal, "predict") or hasattr(goal, "coef_"):
        refuse_other_kind(goal, learner)
        return check_vector(_from_model(goal, learner, classes, columns), features, learner)
    if hasattr(goal, "columns") and hasattr(goal, "shape"):
        raise GoalError(f"the goal is a {type(goal).__name__}: give one row of it as a dict or a Series by column name")
    if is_written(goal) and learner.outputs == 1:
        goal = goal_vector(goal, "the goal", columns, learner.intercept != "none", classes)
    named = _named(goal)
    if named is not None and learner.outputs > 1:
        raise GoalError(
            "a goal by column names has one number for each; give many classes as an array or a fitted model"
        )
    intercept = learner.intercept != "none"
    return check_vector(goal if named is None else _by_name(named, columns, intercept), features, learner)


def refuse_other_kind(goal: Foreign, learner: Learner) -> None:
    """Refuse a fitted regression as the goal of a classifier, which decides at a score of 0, and the reverse."""
    tags = None if isinstance(goal, type) else getattr(goal, "__sklearn_tags__", None)
    kind = getattr(goal, "_estimator_type", None) if tags is None else tags().estimator_type
    if kind == ("regressor" if learner.loss.classifies else "classifier"):
        raise GoalError(_other_kind(f"the goal {type(goal).__name__}", learner.loss.classifies))


def _other_kind(goal: str, classifies: bool) -> str:
    """Say what is wrong with a goal of the other kind, and what to do."""
    if not classifies:
        return (
            f"{goal} is a classifier, and the learner predicts numbers: fit a regression such as Ridge() as the goal, or "
            "teach a classifier such as LogisticRegression()"
        )
    return (
        f"{goal} is a regression, and the learner is a classifier, which decides at a score of 0, where a regression "
        "predicts the number 0: fit a classifier such as LogisticRegression() as the goal, or teach a regression such as "
        "Ridge()"
    )


def find_column(name: object, columns: Sequence[object], goal: str | Setting) -> int:
    """Return the place of a column that a goal calls by its name or its number."""
    if name in columns:
        return columns.index(name)
    if is_whole(name) and 0 <= name < len(columns):
        return int(name)
    raise GoalError(goal, f" names column {name!r}, and the rows have {listed(columns)}{suggestion(name, columns)}")


def _named(goal: object) -> dict[object, object] | None:
    """Read a goal by column name: a dict, or a Series with other labels than numbers from 0 on; None: it is another goal."""
    if isinstance(goal, Mapping):
        return dict(goal)
    index = getattr(goal, "index", None)
    if index is None or not hasattr(goal, "iloc") or list(index) == list(range(len(index))):
        return None
    labels = list(index)
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise GoalError(f"the goal names column {twice!r} twice; give one number for each column")
    return dict(zip(labels, np.asarray(goal).tolist(), strict=True))


def _by_name(named: dict[object, object], columns: Sequence[object], intercept: bool) -> list[object]:
    """Put coefficients in the rows' order, and the entry 'intercept' last where the learner fits one."""
    own = INTERCEPT not in columns
    if intercept and own and INTERCEPT not in named:
        raise GoalError(
            f"the goal names no {INTERCEPT!r}, but the learner fits one: add it, or use fit_intercept=False"
        )
    if not own and intercept:
        raise GoalError(f"a column is named {INTERCEPT!r} too: give the goal as a vector, the learner's intercept last")
    values = in_order(
        {name: value for name, value in named.items() if name != INTERCEPT or not own}, columns, "the goal"
    )
    for name, value in named.items():
        if isinstance(value, str):
            raise GoalError(f"the goal has {value!r} for column {name!r}; a number is needed")
    offset = named.get(INTERCEPT, 0.0) if own else 0.0
    if not intercept and offset:
        raise GoalError(f"the goal has an intercept of {offset!r}, but the learner fits none: use fit_intercept=True")
    return [*values, offset] if intercept else values


def check_vector(goal: object, features: int, learner: Learner) -> Array:
    """Return a goal as float64, after checking its length and its values; of several outputs, one after the other.

    Softmax predicts the same where all classes are shifted alike: such a goal is taken with classes that add up to 0.
    """
    if goal is None:
        raise GoalError("the goal is None; give its numbers, a dict by column name, or a fitted model")
    if isinstance(goal, str | PurePath):
        kind = "text" if isinstance(goal, str) else "path"
        raise GoalError(
            f"the goal is the {kind} {shorten(str(goal), 40)!r}; give its numbers, a dict by column name, or a fitted model"
        )
    if isinstance(goal, np.ma.MaskedArray) and np.ma.getmaskarray(goal).any():
        raise GoalError("the goal is a masked array whose masked entries would be used; fill them")
    try:
        given = _real(goal)
    except (TypeError, ValueError, OverflowError):
        raise GoalError(
            f"the goal, of type {type(goal).__name__}, holds more than real numbers; give numbers, a dict by column "
            "name, a fitted model, or a goal of superteach.goals such as FromData(X, y)"
        ) from None
    vector = given.ravel()
    intercept, outputs = learner.intercept != "none", learner.outputs
    width = outputs * (features + intercept)
    if len(vector) != width or (outputs > 1 and given.ndim > 1 and len(given) != outputs):
        tail = " plus one for the intercept, last" if intercept else ""
        if outputs > 1:
            what = "class" if learner.loss.classifies else "target"
            raise GoalError(
                f"the goal has shape {given.shape}, expected ({outputs}, {features + intercept}): a row for each {what}, "
                f"in it one number for each of {features} columns{tail}"
            )
        raise GoalError(
            f"the goal has {len(vector)} entries, expected {width}: one for each of {features} columns{tail}"
        )
    usable = np.abs(vector) <= MOST
    if not usable.all():
        worst = int(np.argmin(usable))
        raise GoalError(f"the goal has a NaN, infinite or huge value at position {worst}: {vector[worst]}")
    return learner.centred(vector)


def check_length(goal: Array, problem: FederatedProblem) -> None:
    """Refuse a goal that has nothing to do with these rows, before any of them is chosen."""
    pool = problem.scaling.raw(problem.fit_pool())
    if not np.linalg.norm(goal) <= ABSURD * max(1.0, float(np.linalg.norm(pool))):
        raise GoalError(f"{_largest(goal, problem)}: no rows can teach that; give the goal in the units of the columns")


def unsolved(error: Exception, goal: Array, problem: FederatedProblem) -> GoalError:
    """Blame the goal where sums can be solved for the model of all rows, and not near the goal."""
    return GoalError(
        f"sums over rows cannot be solved near this goal ({error}): {_largest(goal, problem)}; give a goal nearer to the "
        "model of all rows, or try ",
        Setting("standardize", True),
    )


def _largest(goal: Array, problem: FederatedProblem) -> str:
    """Set the largest coefficient of a goal beside the largest one of the model of all rows."""
    worst = int(np.argmax(np.abs(goal)))
    names = [*(f"column {name!r}" for name in problem.federation.columns), "the intercept"]
    name = names[worst % (problem.width // problem.learner.outputs)]
    pool = np.abs(problem.scaling.raw(problem.fit_pool())).max()
    return f"the goal's coefficient of {name} is {goal[worst]:g}, and the largest of the model of all rows is {pool:g}"


def _real(values: object) -> Array:
    array = np.asarray(values.toarray() if isinstance(values, sparse.spmatrix | sparse.sparray) else values)
    if array.dtype.kind in "cmM":
        raise TypeError(f"values of type {array.dtype} are no real numbers")
    return array.astype(np.float64)


def _from_model(model: object, learner: Learner, classes: Labels | None, columns: Sequence[object]) -> Array:
    name, outputs = type(model).__name__, learner.outputs
    if not hasattr(model, "coef_"):
        raise GoalError(
            f"the goal {name} has no coef_: fit it first, or give a linear model (a fitted model among the parameters of a "
            "search needs FrozenEstimator around it: scikit-learn clones parameters into unfitted ones)"
        )
    try:
        slope = _real(model.coef_)
        offset = _real(getattr(model, "intercept_", 0.0)).ravel()
    except (TypeError, ValueError, OverflowError) as error:
        raise GoalError(f"the goal {name} has coefficients that are no numbers: {error}") from None
    if slope.ndim > 2 or (slope.ndim == 2 and slope.shape[0] != outputs) or (slope.ndim < 2 and outputs > 1):
        what = "classes" if learner.loss.classifies else "targets"
        wanted = "one row of them is" if outputs == 1 else f"there are {outputs} {what}, and a row for each is"
        raise GoalError(f"the goal {name} has coefficients of shape {slope.shape}; {wanted} expected")
    names = getattr(model, "feature_names_in_", None)
    if names is not None and all(isinstance(column, str) for column in columns) and len(names) == slope.shape[-1]:
        places = {str(name): place for place, name in enumerate(names)}
        slope = slope[..., in_order(places, columns, f"the goal {name}")]
    theirs = getattr(model, "classes_", None)
    if classes is not None and theirs is not None:
        fitted, present = (np.asarray(labels).tolist() for labels in (theirs, classes))
        if not same_labels(fitted, present):
            raise GoalError(f"the goal {name} was fitted on labels {fitted}, the rows have {present}")
        if outputs == 1 and fitted[1] != present[1]:
            slope, offset = -slope, -offset
    if learner.intercept != "none":
        if outputs > 1:
            return np.column_stack([slope, np.broadcast_to(offset, outputs)])
        return np.append(slope.ravel(), offset)
    if np.any(offset):
        raise GoalError(
            f"the goal {name} has an intercept of {offset[0]:g}, but the learner fits none: "
            "use fit_intercept=True in the learner or fit_intercept=False in the goal"
        )
    return slope if outputs > 1 else slope.ravel()


def in_order(named: Mapping[Foreign, Value], columns: Sequence[Foreign], where: str) -> list[Value]:
    """Put values by column name in the order of `columns`; refuse other names."""
    missing = [column for column in columns if column not in named]
    extra = [name for name in named if name not in columns]
    if missing or extra:
        faults = [f"no coefficient for column {listed(missing)}"] * bool(missing)
        faults += [f"a coefficient for {listed(extra)}, which is no feature column"] * bool(extra)
        meant = suggestion(extra[0], missing or columns) if extra else ""
        raise GoalError(f"{where} has {' and '.join(faults)}; the columns are {listed(columns)}{meant}")
    return [named[column] for column in columns]


def goal_vector(
    stored: object, where: str, columns: Sequence[object], intercept: bool, classes: Labels | None = None
) -> Array:
    """Read θ* from the contents of a goal file; `where` is what errors call it."""
    if not isinstance(stored, dict):
        return _goal_numbers(stored, where, "the goal")
    stored = _with_coef(stored, columns)
    if "coef" not in stored:
        form = json.dumps({"coef": dict.fromkeys(map(str, columns[:2]), 1.0), INTERCEPT: 0.0})
        raise GoalError(
            f"{where} has no 'coef', and is no coefficient by column; it has {listed(list(stored)) or 'nothing'}. Write it "
            f"as {form}, with every column"
        )
    coef, theirs = stored["coef"], stored.get("columns")
    coef = list(coef) if isinstance(coef, tuple) else coef
    if isinstance(coef, list) and isinstance(theirs, list) and all(isinstance(column, str) for column in columns):
        if len(coef) != len(theirs):
            raise GoalError(f"{where} has {len(coef)} coefficients for {len(theirs)} columns")
        coef = dict(zip(map(str, theirs), coef, strict=True))
    if isinstance(coef, dict):
        if INTERCEPT in coef and INTERCEPT not in columns and stored.get(INTERCEPT) is None:
            stored = {**stored, INTERCEPT: coef[INTERCEPT]}
            coef = {name: value for name, value in coef.items() if name != INTERCEPT}
        coef = in_order(coef, columns, where)
    slope = _goal_numbers(coef, where, "coef")
    if len(slope) != len(columns):
        raise GoalError(f"{where} has {len(slope)} coefficients, expected {len(columns)}: one per feature column")
    theirs = stored.get("classes")
    if classes is not None and "classes" in stored and theirs is None and "learner" in stored:
        raise GoalError(_other_kind(where, True))
    if classes is not None and theirs is not None and not same_labels(theirs, classes):
        raise GoalError(f"{where} is for labels {theirs!r}, the rows have {np.asarray(classes).tolist()!r}")
    if intercept and stored.get("intercept") is None:
        raise GoalError(
            f"{where} has no 'intercept', but the learner fits one: add it, or fit none "
            "(fit_intercept=False, --no-intercept)"
        )
    offset = _goal_numbers([stored.get("intercept") or 0.0], where, "intercept")
    if not intercept and offset[0] != 0.0:
        raise GoalError(
            f"{where} has an intercept of {offset[0]:g}, the learner fits none: fit one (fit_intercept=True or --intercept)"
        )
    vector = np.append(slope, offset) if intercept else slope
    return -vector if _speaks_for_first(stored, where, classes) else vector


def _with_coef(stored: Json, columns: Sequence[object]) -> Json:
    """Read numbers by column, without "coef" around them, as if it were there."""
    if not stored or ("coef" in stored and "coef" not in columns) or not all(map(is_number, stored.values())):
        return stored
    own = {INTERCEPT: stored[INTERCEPT]} if INTERCEPT in stored and INTERCEPT not in columns else {}
    return {"coef": {name: value for name, value in stored.items() if name not in own}, **own}


def is_written(goal: object) -> TypeGuard[Mapping[str, object]]:
    """Tell what a goal file holds, {"coef": numbers, …}, from a goal by column names, one of which may be "coef"."""
    return isinstance(goal, Mapping) and isinstance(goal.get("coef"), Mapping | Sequence | np.ndarray)


def stated_positive(goal: object) -> object:
    """Return the label that a goal says its coefficients speak for; None: it does not say."""
    if not is_written(goal):
        return None
    classes = goal.get("classes")
    last = classes[1] if isinstance(classes, Sequence) and len(classes) == 2 else None
    return last if goal.get("positive") is None else goal["positive"]


def positive_label(goal: object, chosen: PositiveLabel, where: str = "the goal") -> PositiveLabel:
    """Return the label that was chosen as positive, or else the one that the goal states."""
    stated = stated_positive(goal)
    return chosen if chosen.label is not None or stated is None else PositiveLabel(stated, where, GoalError)


def _speaks_for_first(goal: Mapping[str, object], where: str, classes: Labels | None) -> bool:
    """Tell whether a goal names the first of the two classes as positive, so that its signs are to be turned."""
    stated = stated_positive(goal)
    if stated is None:
        return False
    order = PositiveLabel(stated, where, GoalError).last(classes)
    return bool(order is not None and classes is not None and order[1] != classes[1])


def same_labels(some: Labels, others: Labels) -> bool:
    """Tell whether labels are the same; two of them may be in either order."""
    first, second = (np.asarray(labels).tolist() for labels in (some, others))
    return first == second or (len(first) == 2 and first[::-1] == second)


def _goal_numbers(stored: object, where: str, what: str) -> Array:
    """Return a flat list or array of numbers as float64."""
    if isinstance(stored, list):
        for position, value in enumerate(stored):
            if not is_number(value):
                raise GoalError(
                    f"{where}: entry {position} of {what} is {shorten(repr(value), 40)}, a number is needed"
                )
        try:
            return np.array(stored, dtype=np.float64)
        except OverflowError:
            raise GoalError(f"{where}: {what} holds a number too large for float64") from None
    if isinstance(stored, np.ndarray) and stored.dtype.kind in "iuf" and stored.size == max(stored.shape, default=0):
        return stored.astype(np.float64).ravel()
    shape = (
        f"an array of {stored.dtype} and shape {stored.shape}"
        if isinstance(stored, np.ndarray)
        else type(stored).__name__
    )
    raise GoalError(f"{where}: {what} is {shape}, a list of numbers is needed")
