"""Where a comparison's rows come from: the paper's synthetic pools, or a user's own files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from superteach.datasets import make_classification_pool, make_regression_pool
from superteach.exceptions import SettingError
from superteach.goals import PerturbedFit
from superteach.io.frames import DEFAULT, PositiveLabel
from superteach.io.validation import Part, make_teachers
from superteach.learner import Learner
from superteach.losses import Logistic, Squared
from superteach.types import Label
from superteach_lab.compare.referee import Referee

RIDGE_PER_ROW = 2e-4
"""Λ = ridge·N with this ridge: 1 at N = 5,000, as docs/explanation/paper.md explains."""
GOAL_SEED = 100
"""Goals are drawn apart from pools: the same seed would give noise that is correlated with the rows."""


class Source(Protocol):
    """Rows, learner and goal for every number of teachers and every seed."""

    @property
    def name(self) -> str:
        """What the tables call it."""

    @property
    def rows(self) -> int:
        """N."""

    @property
    def teachers(self) -> tuple[int, ...]:
        """Every K."""

    def settings(self) -> dict[str, Any]:
        """What describes it in a file of results."""

    def referee(self, teachers: int, seed: int, seconds: float) -> Referee:
        """A referee over this pool."""


@dataclass(frozen=True)
class Synthetic:
    """Four Gaussian clusters; goal θ* = θ_gt + τ, ‖τ‖ = ‖θ_gt‖, drawn from seed 100 + seed."""

    learner: str
    rows: int = 5000
    features: int = 10
    noise: float = 20.0
    teachers: tuple[int, ...] = (5,)

    def __post_init__(self) -> None:
        if self.learner not in ("logistic", "ridge"):
            raise SettingError(
                f"synthetic pools are made for logistic and ridge, not for {self.learner!r}; give files for others"
            )

    @property
    def name(self) -> str:
        """What the tables call it."""
        return self.learner if self.learner == "logistic" or self.noise else "ridge, noise-free"

    def settings(self) -> dict[str, Any]:
        """What describes it in a file of results."""
        noise = {"noise": self.noise} if self.learner == "ridge" else {}
        return {"learner": self.learner, "rows": self.rows, "features": self.features, **noise}

    def contents(self) -> Any:
        """What scores depend on besides teachers, seed and seconds: rows and goals are drawn from seeds."""
        return ["synthetic", self.settings()]

    def referee(self, teachers: int, seed: int, seconds: float) -> Referee:
        """A pool and a goal of this seed."""
        ridge = RIDGE_PER_ROW * self.rows
        goal = PerturbedFit(GOAL_SEED + seed)
        if self.learner == "logistic":
            X, labels, owner = make_classification_pool(self.rows, self.features, teachers, seed)
            return Referee(X, np.where(labels > 0, 1.0, -1.0), owner, Learner(Logistic(), ridge), goal, seconds)
        X, y, owner = make_regression_pool(self.rows, self.features, teachers, self.noise, seed)
        return Referee(X, y, owner, Learner(Squared(), ridge), goal, seconds)


class Files:
    """One pool of a user's own; every seed draws another perturbed goal, where the goal is not given."""

    def __init__(
        self,
        parts: Sequence[Part],
        columns: Sequence[str],
        learner: Learner,
        goal: Any,
        described: dict[str, Any],
        positive: PositiveLabel = DEFAULT,
    ) -> None:
        # Checks everything, and names teacher and column.
        _, classes = make_teachers(parts, columns, learner.loss, positive)
        self.name = str(described["learner"])
        self._learner, self._goal, self._described = learner, goal, described
        self._X = np.vstack([_dense(part) for part in parts])
        target = np.concatenate([part.take_target() for part in parts])
        self.positive: Label | None = None if classes is None else classes.tolist()[1]
        """The label that scores above 0 predict."""
        if classes is not None:
            target = np.where(target == classes[1], 1.0, -1.0)
        self._y = target.astype(np.float64)
        self._owner = np.repeat(np.arange(len(parts)), [part.count for part in parts])
        self.rows = len(self._y)
        self.teachers: tuple[int, ...] = (len(parts),)

    def settings(self) -> dict[str, Any]:
        """What describes it in a file of results."""
        return self._described

    def contents(self) -> Any:
        """What scores depend on besides seed and seconds: the tables as they were read, the learner and the goal."""
        goal = "perturbed" if self._goal is None else self._goal
        rows = [self._X, self._y, self._owner]
        return ["files", rows, self._learner.as_dict(), goal, bool(self._described.get("standardize"))]

    def referee(self, teachers: int, seed: int, seconds: float) -> Referee:
        """The same rows for every seed."""
        goal = PerturbedFit(GOAL_SEED + seed) if self._goal is None else self._goal
        scaled = bool(self._described.get("standardize"))
        return Referee(self._X, self._y, self._owner, self._learner, goal, seconds, standardize=scaled)


def _dense(part: Part) -> Any:
    features = part.take_features()
    return features.toarray() if hasattr(features, "toarray") else np.asarray(features)
