"""The door: what owners hand in becomes teachers, or an error that names the teacher and the column.

Everything is checked here, before the first query is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from superteach.exceptions import DataError, DataTypeError, LearnerError, listed, shorten
from superteach.io.frames import DEFAULT, PositiveLabel, find_missing, refuse_mixed, refuse_text, unboxed
from superteach.losses.scalar import Loss, Poisson
from superteach.optim.problem import MOST
from superteach.privacy.guard import Guard
from superteach.teacher import Teacher
from superteach.types import Array, Foreign, Mask, Positions, Raw, is_number

MANY = 20
"""Classes up to which whole numbers are taken for labels, however few rows have each."""
ROWS_EACH = 10
"""Rows for each class, on average, from which on more of them are taken for labels too."""


@dataclass(frozen=True, eq=False)
class Part:
    """One owner's rows as they came: features (rows × columns, dense or sparse), target, ids for ties.

    With `rows` given, features and target are everybody's and the part takes those rows, each time anew:
    copies of all owners' rows at once would cost as much memory as the data.
    """

    name: str
    features: Any
    target: Raw
    ids: Raw | None = None
    rows: npt.NDArray[np.integer] | None = None
    costs: npt.ArrayLike | None = None
    """What choosing each row costs its owner; never leaves the teacher but as a total."""
    weights: npt.ArrayLike | None = None
    """How many rows each row counts as in the learner's loss."""
    index: Raw | None = None
    """The owner's label of each row; None: rows go by number."""

    @property
    def count(self) -> int:
        """How many rows the owner has."""
        return int(self.features.shape[0]) if self.rows is None else len(self.rows)

    @property
    def targets(self) -> int:
        """How many targets a row has."""
        return 1 if np.ndim(self.target) < 2 else int(np.shape(self.target)[1])

    def take_features(self) -> Any:
        """Return the owner's rows × columns."""
        return self.features if self.rows is None else self.features[self.rows]

    def with_own(self, name: str, rows: npt.NDArray[np.integer], features: Foreign) -> Part:
        """Return the part of one owner among everybody's rows, with features made for it alone."""
        costs, weights = (None if one is None else np.asarray(one)[rows] for one in (self.costs, self.weights))
        index = rows if self.index is None else self.index[rows]
        return Part(name, features, np.asarray(self.target)[rows], rows, None, costs, weights, index)

    def row(self, place: int) -> str:
        """Name a row as the owner knows it: by its label in the index, or by its number."""
        number = place if self.rows is None else int(self.rows[place])
        label = number if self.index is None else self.index[number : number + 1].tolist()[0]
        return f"row {shorten(repr(label), 40)}"

    def take_costs(self) -> Array | None:
        """Return the owner's costs, checked."""
        return self._numbers(self.costs, "costs", -MOST, "its cost {} is NaN, infinite or huge")

    def take_weights(self) -> Array | None:
        """Return the owner's weights, checked."""
        fault = (
            "sample_weight is {}, a finite number above 0 is needed; drop rows, or a class, that are to count nothing"
        )
        return self._numbers(self.weights, "sample_weight", np.nextafter(0.0, 1.0), fault)

    def _numbers(self, given: npt.ArrayLike | None, what: str, least: float, fault: str) -> Array | None:
        """Return the owner's of `given`, one number for each row; `fault` tells of one that is not from `least` to MOST."""
        if given is None:
            return None
        try:
            numbers = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise DataTypeError(
                f"teacher {self.name!r} has {what} that are no numbers; give one number per row"
            ) from None
        if numbers.ndim != 1 or (self.rows is None and len(numbers) != self.count):
            raise DataError(f"teacher {self.name!r} has {what} of shape {numbers.shape}, expected one for each row")
        numbers = numbers if self.rows is None else numbers[self.rows]
        if not (usable := (numbers >= least) & (numbers <= MOST)).all():
            bad = int(np.argmin(usable))
            seen = f"{numbers[bad]:g}" if numbers[bad] else "zero"
            raise DataError(f"teacher {self.name!r}, {self.row(bad)}: {fault.format(seen)}")
        return numbers

    def take_target(self) -> Raw:
        """Return the owner's labels or targets."""
        target = np.asarray(self.target)
        return target if self.rows is None else target[self.rows]


def make_teachers(
    parts: Sequence[Part], columns: Sequence[str], loss: Loss, positive: PositiveLabel = DEFAULT
) -> tuple[list[Teacher], Raw | None]:
    """Check all parts and turn them into teachers; labels' classes come back too, the positive one last."""
    if not parts:
        raise DataError("there is no teacher: at least one owner of rows is needed")
    names = [part.name for part in parts]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"two teachers are named {twice!r}; every teacher needs a name of its own")
    for part in parts:
        _check_shape(part, columns)
    for part in parts:
        check_finite(part, columns, parts)
    classes = positive.last(find_classes(parts) if loss.classifies else None)
    return [_teacher(part, loss, classes) for part in parts], classes


def make_unguarded(part: Part, columns: Sequence[str], loss: Loss, classes: Raw | None) -> Teacher:
    """Make a teacher of one part of a table whose label values are known."""
    _check_shape(part, columns)
    check_finite(part, columns, [part])
    return _teacher(part, loss, classes)


def make_teacher(
    part: Part,
    columns: Sequence[str],
    loss: Loss,
    classes: Sequence[object] | None,
    guard: Guard,
    checked: bool = False,
) -> Teacher:
    """Make a teacher of one part, with the two label values that all teachers have agreed on."""
    if not checked:
        check_part(part, columns, loss)
    if not loss.classifies:
        return _teacher(part, loss, None, guard)
    if classes is None or len(classes) != 2:
        raise DataError(f"a classification needs two label values, got {classes!r}")
    target, agreed = part.take_target(), np.asarray(classes).tolist()
    odd = [label for label in np.unique(target).tolist() if label not in agreed]
    if odd:
        where = part.row(int(np.argmax(target == odd[0])))
        raise DataError(f"teacher {part.name!r} has the label {odd[0]!r} in {where}, and {agreed} were agreed on")
    return _teacher(part, loss, np.asarray(classes), guard)


def check_part(part: Part, columns: Sequence[str], loss: Loss) -> None:
    """Check one part, all but its labels: to know them takes the other parts."""
    _check_shape(part, columns)
    check_finite(part, columns, [part])
    part.take_costs()
    if not loss.classifies:
        take_numbers(part, loss)


def _teacher(part: Part, loss: Loss, classes: Raw | None, guard: Guard | None = None) -> Teacher:
    if classes is None:
        target: Raw = take_numbers(part, loss, guard)
    elif len(classes) > 2:  # numbers from 0 on
        target = np.searchsorted(classes, part.take_target()).astype(np.int8 if len(classes) <= 128 else np.int64)
    else:
        target = np.where(part.take_target() == classes[1], np.int8(1), np.int8(-1))
    agreed = None if guard is None else loss.name
    return Teacher(
        part.name, part.take_features(), target, part.ids, part.take_costs(), agreed, guard, part.take_weights()
    )


def find_classes(parts: Sequence[Part], most: int | None = None) -> Raw:
    """Find the label values over all teachers, `most` of them at most, sorted as scikit-learn sorts them.

    Labels are compared by type and value: 0, 0.0 and False are one label, the text "0" is another.
    """
    found = [_labels_of(part) for part in parts]
    refuse_mixed({f"teacher {part.name!r}": labels.tolist() for part, labels in zip(parts, found, strict=True)})
    values = np.unique(np.concatenate(found))
    if len(values) == 1:
        raise DataError(
            f"all rows of all teachers carry one class, {values.tolist()[0]!r}; a classifier needs rows of two classes"
        )
    count = sum(len(part.take_target()) for part in parts)
    if values.dtype.kind in "biuf" and MANY < len(values) > count / ROWS_EACH:
        shown = ", ".join(map(repr, values[:3].tolist()))
        raise DataError(
            f"the labels have {len(values)} different values ({shown}, …) and look like the target of a regression: use a "
            "regression such as ridge, or write the labels as text where they are classes"
        )
    if most is not None and len(values) > most:
        shown = ", ".join(map(repr, values[:5].tolist())) + (", …" if len(values) > 5 else "")
        raise DataError(
            f"the labels have {len(values)} classes ({shown}). Only binary classification is supported here: "
            "keep two of them, or make one against the rest; more can be taught in one process (docs/how-to/choose.md)"
        )
    return values


def _labels_of(part: Part) -> Raw:
    """Return the different labels of one owner, checked; numbers that came as objects as numbers."""
    labels = unboxed(part.take_target())
    if labels.dtype.kind in "fO":
        _check_missing(part, "label", ~np.isfinite(labels) if labels.dtype.kind == "f" else find_missing(labels))
        if labels.dtype.kind == "f" and (broken := labels[labels != np.round(labels)]).size:
            raise DataError(
                f"teacher {part.name!r} has continuous labels such as {broken[0]:g} (Unknown label type: continuous); "
                "a classifier needs two classes; use a regression such as ridge"
            )
    if labels.dtype.kind not in "biufUO":
        raise DataTypeError(f"teacher {part.name!r} has labels of type {labels.dtype}; use numbers or strings")
    if labels.dtype.kind == "O":
        odd = next(
            (label for label in labels.ravel() if not isinstance(label, str | bool | int | float | np.generic)), ""
        )
        if not isinstance(odd, str):
            raise DataTypeError(
                f"teacher {part.name!r} has labels of type {type(odd).__name__}, such as {shorten(repr(odd), 40)}; use "
                "numbers or strings"
            )
        refuse_mixed({f"teacher {part.name!r}": list(dict.fromkeys(labels.ravel().tolist()))})
    return np.unique(labels)


def per_row(values: npt.ArrayLike | None, what: str, rows: int) -> Raw | None:
    """Return `values` as numbers, one for each row."""
    if values is None:
        return None
    refuse_text(values, what, "one number for each row")
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataTypeError(f"{what} holds something that is no number: {error}") from None
    if numbers.shape != (rows,):
        raise DataError(f"{what} has shape {numbers.shape}, expected one for each of {rows} rows")
    return numbers


def row_weights(estimator: Foreign, y: Raw, weights: Raw | None) -> Raw | None:
    """Multiply sample_weight by class_weight, as scikit-learn's estimators have it."""
    by_class = getattr(estimator, "class_weight", None)
    if by_class is None:
        return weights
    kind = type(estimator).__name__
    try:
        labels, codes = np.unique(y, return_inverse=True)
    except TypeError:
        return weights  # labels that cannot be sorted are refused by whoever looks at them
    if isinstance(by_class, str) and by_class == "balanced":
        shares = len(y) / (len(labels) * np.bincount(codes))
        shown = ", ".join(f"{label!r}: {share:.4g}" for label, share in zip(labels.tolist(), shares, strict=True))
        raise LearnerError(
            f"{kind}(class_weight='balanced') cannot be taught: it depends on which rows are chosen. Give numbers; those of "
            f"all rows are class_weight={{{shown}}}"
        )
    if not isinstance(by_class, dict):
        raise LearnerError(f"{kind}(class_weight={by_class!r}) cannot be taught: give a dict by label, or None")
    unknown = [label for label in by_class if label not in labels.tolist()]
    if unknown:
        raise LearnerError(
            f"{kind}: class_weight has {unknown[0]!r}, which is no label; labels are {labels.tolist()[:12]}"
        )
    for label, value in by_class.items():
        if not (is_number(value) and 0.0 < value < np.inf):
            raise LearnerError(f"{kind}: class_weight of {label!r} is {value!r}, a finite number above 0 is needed")
    by_row = np.array([float(by_class.get(label, 1.0)) for label in labels.tolist()])[codes]
    return by_row if weights is None else by_row * weights


def split_by_owner(owner: Raw) -> tuple[Raw, list[Positions]]:
    """Return the owners, sorted, and the rows of each, ascending."""
    owners, codes = np.unique(owner, return_inverse=True)
    return owners, np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])


def _check_shape(part: Part, columns: Sequence[str]) -> None:
    rows, width = part.count, part.features.shape[1]
    if width != len(columns):
        raise DataError(f"teacher {part.name!r} has {width} columns, expected {len(columns)}: {listed(columns)}")
    if rows == 0:
        raise DataError(f"teacher {part.name!r} has no rows; leave it out or give it some")
    if part.rows is None and len(part.target) != rows:
        raise DataError(f"teacher {part.name!r} has {rows} rows but {len(part.target)} targets")
    if part.features.dtype.kind not in "biuf":
        raise DataTypeError(f"teacher {part.name!r} has columns of type {part.features.dtype}; numbers are needed")


def check_finite(part: Part, columns: Sequence[str], parts: Sequence[Part]) -> None:
    """Refuse a part with values that are missing or cannot be squared; the message counts missing values of all `parts`."""
    most = np.float64(MOST)  # a plain float would be cast to float32, where it overflows
    features = part.take_features()
    values = features.data if sparse.issparse(features) else features
    if values.dtype.kind != "f" or values.size == 0:
        return
    with np.errstate(invalid="ignore"):
        if max(-float(values.min()), float(values.max())) <= MOST:  # false for NaN too
            return
    if sparse.issparse(features):
        entries = features.tocoo()
        first = int(np.argmin(np.abs(entries.data) <= most))
        row, column, value = entries.row[first], entries.col[first], entries.data[first]
    else:
        bad = ~(np.abs(features) <= most)
        row = int(np.argmax(bad.any(axis=1)))
        column = int(np.argmax(bad[row]))
        value = features[row, column]
    fault = "Input contains infinity; drop or fill such rows first"
    if np.isnan(value):
        fault = (
            f"Input contains NaN. {_missing(parts, columns)}; drop such rows, or put a SimpleImputer into a Pipeline"
        )
    if np.isfinite(value):
        fault = f"{value:g} is too large to be squared; rescale the column"
    raise DataError(f"teacher {part.name!r}, column {columns[column]!r}, {part.row(int(row))}: {fault}")


def _missing(parts: Sequence[Part], columns: Sequence[str]) -> str:
    """Count missing values by column."""
    counts = np.zeros(len(columns), dtype=np.int64)
    for part in parts:
        features = part.take_features()
        if sparse.issparse(features):
            entries = features.tocoo()
            counts += np.bincount(entries.col[np.isnan(entries.data)], minlength=len(columns))
        elif features.dtype.kind == "f":
            counts += np.isnan(features).sum(axis=0)
    lacking = np.flatnonzero(counts)
    shown = ", ".join(f"{shorten(repr(columns[place]), 40)} {counts[place]}" for place in lacking[:12])
    return f"Missing values by column: {shown}" + (f", … ({len(lacking)} columns in all)" if len(lacking) > 12 else "")


def _check_missing(part: Part, what: str, missing: Mask) -> None:
    if missing.any():
        row = part.row(int(np.argmax(missing.reshape(len(missing), -1).any(axis=1))))
        raise DataError(f"teacher {part.name!r}: the {what} of {row} is NaN or infinity; drop such rows first")


def take_numbers(part: Part, loss: Loss, guard: Guard | None = None) -> npt.NDArray[np.float64]:
    """Return the owner's targets, checked; in private modes not for their sign: a refusal would tell that it is there."""
    target = part.take_target()
    if target.dtype.kind not in "biuf":
        try:
            if target.dtype.kind in "cmM":
                raise TypeError
            if target.dtype.kind == "O":
                target = np.where(find_missing(target), np.nan, target)
            target = target.astype(np.float64)
        except OverflowError:
            raise DataError(f"teacher {part.name!r} has a target too large for float64") from None
        except (TypeError, ValueError):
            raise DataTypeError(
                f"teacher {part.name!r} has targets of type {target.dtype}; a regression needs numbers"
            ) from None
    target = target.astype(np.float64)
    _check_missing(part, "target", ~np.isfinite(target))
    if np.abs(target).max() > MOST:
        raise DataError(f"teacher {part.name!r} has a target of {np.abs(target).max():g}, too large to be squared")
    if isinstance(loss, Poisson) and target.min() < 0 and (guard is None or guard.mode.name == "none"):
        raise DataError(
            f"teacher {part.name!r} has a negative target, {target.min():g}; Poisson regression needs counts of at least 0"
        )
    return target
