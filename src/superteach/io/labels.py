"""Which of two labels is positive: scores above 0 predict it, and coefficients speak for it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from superteach.exceptions import InputError, SettingError, suggestion
from superteach.types import Labels, Raw


@dataclass(frozen=True)
class PositiveLabel:
    """The label that somebody has named as positive; None: the larger one is, as in scikit-learn."""

    label: object = None
    source: str = "positive="
    """Where it was named, for errors."""
    error: type[InputError] = SettingError

    def last(self, classes: Labels | None) -> Raw | None:
        """Return the classes with the positive one last; None stands for a target without classes."""
        if self.label is None:
            return None if classes is None else np.asarray(classes)
        says = f"{self.source} names {self.label!r} as the positive label"
        if classes is None:
            raise self.error(f"{says}, and the learner predicts numbers; leave it out")
        values = np.asarray(classes)
        if len(values) != 2:
            raise self.error(f"{says}, which takes two labels, and the rows have {len(values)}; leave it out")
        place = find_label(self.label, values)
        if place is None:
            raise self.error(f"{says}, and the rows have {values.tolist()}{suggestion(self.label, values.tolist())}")
        return values if place == 1 else values[::-1]


DEFAULT = PositiveLabel()


def find_label(given: object, classes: Labels) -> int | None:
    """Return the place of the class that `given` names, as a value or as a command line writes it; None: it is none."""
    values: list[object] = np.asarray(classes).tolist()
    if given in values:
        return values.index(given)
    if isinstance(given, str):
        texts = [str(value) for value in values]
        if given in texts:
            return texts.index(given)
        with suppress(ValueError):
            return values.index(float(given))
    return None
